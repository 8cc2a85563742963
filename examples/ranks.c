// A function on four ranks of this machine, first as threads of this process, then as processes.
// Every rank counts the primes of its own numbers; an all-reduce adds the counts up. The function
// is the same for both, and so is what comes back when a rank fails.
#include <shoal/shoal.h>
#include <stdio.h>

enum { RANKS = 4, BELOW = 10000 };

static bool is_prime(int64_t n) {
  for (int64_t d = 2; d * d <= n; ++d)
    if (n % d == 0) return false;
  return n >= 2;
}

static shoal_status_t count_primes(void *self, shoal_world_t *world, int32_t rank) {
  const char *kind = self;
  int64_t count = 0;
  for (int64_t n = rank; n < BELOW; n += RANKS) count += is_prime(n);
  shoal_group_t *group = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, RANKS, NULL, &group));
  shoal_status_t status = shoal_all_reduce(group, SHOAL_I64, SHOAL_REDUCE_SUM, 1, &count, &count);
  shoal_group_free(group);
  if (!status && rank == 0) printf("%d %s: %lld primes\n", RANKS, kind, (long long)count);
  return status;
}

int main(void) {
  shoal_ranks_options_t options = {.ranks = RANKS};
  shoal_status_t status = shoal_launch_ranks(&options, count_primes, "threads", NULL);
  options.processes = true;
  if (!status) status = shoal_launch_ranks(&options, count_primes, "processes", NULL);
  if (status) fprintf(stderr, "%s\n", shoal_status_message(status));
  const int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  return code;
}

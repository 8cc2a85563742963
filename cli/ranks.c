// See ranks.h.
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

bool cli_ranks_given(int argc, char **argv) {
  const char *variable = getenv("SHOAL_RANKS");
  bool given = variable && variable[0];
  for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; ++i)
    given = given || strncmp(argv[i], "-n", 2) == 0 || strcmp(argv[i], "--ranks") == 0 ||
            strncmp(argv[i], "--ranks=", 8) == 0;
  return given;
}

shoal_status_t cli_ranks_threads(cli_ranks_t *ranks, bool *out_told) {
  const char *told = getenv("SHOAL_THREADS");  // by `shoal run --threads`
  *out_told = told != NULL;
  if (!told) return NULL;
  char *end;
  const int64_t count = strtoll(told, &end, 10);
  if (*end || count < 1 || count > SHOAL_LAUNCH_MAX_RANKS)
    return SHOAL_ERROR(INVALID_ARGUMENT,
                       "SHOAL_THREADS is '%s', not a number of ranks from 1 to %d", told,
                       SHOAL_LAUNCH_MAX_RANKS);
  ranks->count = count;
  ranks->threads = true;
  return NULL;
}

shoal_status_t cli_ranks_join(const cli_ranks_t *ranks, shoal_world_t **out_world) {
  shoal_world_t *world = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_world_join(NULL, &world));
  const int32_t size = shoal_world_size(world);
  if (ranks->given && ranks->count != size) {
    shoal_world_release(world);
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT, "leave -n to the launcher, or start the command without one",
        "-n %lld, but a launcher started this command on %d ranks", (long long)ranks->count, size);
  }
  *out_world = world;
  return NULL;
}

// On this process alone, or as the one rank of a launcher's that it is.
static shoal_status_t run_joined(const cli_ranks_t *ranks, shoal_rank_fn_t function, void *self) {
  shoal_world_t *world = NULL;
  SHOAL_RETURN_IF_ERROR(cli_ranks_join(ranks, &world));
  shoal_status_t status = function(self, world, shoal_world_rank(world));
  shoal_world_release(world);
  return status;
}

shoal_status_t cli_ranks_run(const cli_ranks_t *ranks, shoal_rank_fn_t function, void *self) {
  if (ranks->count < 1 || ranks->count > SHOAL_LAUNCH_MAX_RANKS)
    return SHOAL_ERROR(INVALID_ARGUMENT, "-n %lld: from 1 to %d local ranks",
                       (long long)ranks->count, SHOAL_LAUNCH_MAX_RANKS);
  cli_ranks_t told = *ranks;
  bool is_told = false;
  SHOAL_RETURN_IF_ERROR(cli_ranks_threads(&told, &is_told));
  told.given &= !is_told;
  if ((!is_told && shoal_launched()) || told.count == 1) return run_joined(&told, function, self);
  const shoal_ranks_options_t options = {.ranks = (int32_t)told.count, .processes = !told.threads};
  return shoal_launch_ranks(&options, function, self, NULL);
}

// The Nth message lost or delayed, for every N of every rank: of a program with every collective,
// blocking and asynchronous, on several groups, and point-to-point messages. A loss ends on every
// rank in an error that says who waited for what from whom, never in a wrong result; a delay
// changes nothing.
// links: launch
#include "comm/backends/throttle/throttle.h"
#include "comm_ranks.h"
#include "comm_throttled.h"

#define RANKS 3
#define PART 3  // elements of one rank
#define LOSS_TIMEOUT_MS 100
#define DELAY "15ms"

// ---- one collective, on data that differ between ranks --------------------------------

typedef struct call {
  shoal_collective_t c;
  int64_t salt;  // calls of one kind have different data: a message too few must show
  int64_t counts[RANKS], send[RANKS * PART], recv[RANKS * PART];
} call_t;

static int64_t element(int64_t salt, int32_t group_rank, int64_t i) {
  return salt * 10000 + (group_rank + 1) * 100 + i * (group_rank + 3);
}

static void make_call(shoal_group_t *group, shoal_collective_kind_t kind, int64_t salt,
                      call_t *call) {
  const int32_t n = shoal_group_size(group);
  *call =
      (call_t){.salt = salt, .c = {.kind = kind, .dtype = SHOAL_I64, .reduce = SHOAL_REDUCE_SUM}};
  for (int32_t i = 0; i < n; ++i) call->counts[i] = PART;
  for (int32_t i = 0; i < n * PART; ++i) call->send[i] = element(salt, shoal_group_rank(group), i);
  call->c.send = call->send;
  call->c.recv = call->recv;
  if (kind == SHOAL_COLLECTIVE_BROADCAST || kind == SHOAL_COLLECTIVE_REDUCE) call->c.root = n - 1;
  switch (kind) {
    case SHOAL_COLLECTIVE_BARRIER:
      break;
    case SHOAL_COLLECTIVE_GATHER:
    case SHOAL_COLLECTIVE_ALL_GATHER:
      call->c.recv_counts = call->counts;
      break;
    case SHOAL_COLLECTIVE_SCATTER:
    case SHOAL_COLLECTIVE_REDUCE_SCATTER:
      call->c.send_counts = call->counts;
      break;
    case SHOAL_COLLECTIVE_ALL_TO_ALL:
      call->c.send_counts = call->c.recv_counts = call->counts;
      break;
    case SHOAL_COLLECTIVE_BROADCAST:
      call->c.recv = call->send;  // both
      call->c.count = n * PART;
      break;
    default:
      call->c.count = n * PART;
  }
}

// Sum over the group ranks from 0 up to `end`.
static int64_t sum(int64_t salt, int32_t end, int64_t i) {
  int64_t total = 0;
  for (int32_t r = 0; r < end; ++r) total += element(salt, r, i);
  return total;
}

// Element i of what this rank must have received; false: nothing.
static bool want(const call_t *call, int32_t n, int32_t me, int64_t i, int64_t *out_want) {
  const int64_t salt = call->salt;
  const bool at_root = me == call->c.root;
  switch (call->c.kind) {
    case SHOAL_COLLECTIVE_BROADCAST:
      return *out_want = element(salt, call->c.root, i), true;
    case SHOAL_COLLECTIVE_REDUCE:
      return *out_want = sum(salt, n, i), at_root;
    case SHOAL_COLLECTIVE_ALL_REDUCE:
      return *out_want = sum(salt, n, i), true;
    case SHOAL_COLLECTIVE_GATHER:
      return *out_want = element(salt, (int32_t)i / PART, i % PART), at_root;
    case SHOAL_COLLECTIVE_ALL_GATHER:
      return *out_want = element(salt, (int32_t)i / PART, i % PART), true;
    case SHOAL_COLLECTIVE_SCATTER:
      return *out_want = element(salt, call->c.root, me * PART + i), i < PART;
    case SHOAL_COLLECTIVE_REDUCE_SCATTER:
      return *out_want = sum(salt, n, me * PART + i), i < PART;
    case SHOAL_COLLECTIVE_ALL_TO_ALL:
      return *out_want = element(salt, (int32_t)i / PART, me * PART + i % PART), true;
    case SHOAL_COLLECTIVE_SCAN:
      return *out_want = sum(salt, me + 1, i), true;
    case SHOAL_COLLECTIVE_EXSCAN:
      return *out_want = sum(salt, me, i), true;
    default:
      return false;
  }
}

static shoal_status_t check_call(shoal_group_t *group, const call_t *call) {
  const int32_t n = shoal_group_size(group), me = shoal_group_rank(group);
  const int64_t *got = call->c.recv;
  for (int64_t i = 0; i < n * PART; ++i) {
    int64_t wanted;
    if (!want(call, n, me, i, &wanted)) continue;
    CHECK(got[i] == wanted, "%s: element %lld of group rank %d is %lld, not %lld",
          shoal_collective_name(call->c.kind), (long long)i, me, (long long)got[i],
          (long long)wanted);
  }
  return NULL;
}

// ---- the program ----------------------------------------------------------------------

// All kinds on two groups at a time, started together; in the other order on odd ranks.
static shoal_status_t run_async(shoal_group_t *a, shoal_group_t *b, bool swap) {
  shoal_group_t *groups[2] = {swap ? b : a, swap ? a : b};
  call_t calls[2][SHOAL_COLLECTIVE_COUNT];
  shoal_request_t requests[2][SHOAL_COLLECTIVE_COUNT];
  bool started[2][SHOAL_COLLECTIVE_COUNT] = {0};
  shoal_status_t status = NULL;
  for (int g = 0; g < 2; ++g) {
    for (int k = 0; k < SHOAL_COLLECTIVE_COUNT && groups[g] && !status; ++k) {
      make_call(groups[g], (shoal_collective_kind_t)k, 5, &calls[g][k]);
      status = shoal_collective_start(groups[g], &calls[g][k].c, &requests[g][k]);
      started[g][k] = !status;
    }
  }
  for (int g = 0; g < 2; ++g) {  // all that were started, whatever happens
    for (int k = 0; k < SHOAL_COLLECTIVE_COUNT; ++k) {
      if (!started[g][k]) continue;
      shoal_status_t one = shoal_request_wait(&requests[g][k]);
      if (!one) one = check_call(groups[g], &calls[g][k]);
      if (!status) {
        status = one;
      } else {
        shoal_status_free(one);
      }
    }
  }
  return status;
}

// To both neighbours twice and to itself; waited for in the other order.
static shoal_status_t run_exchanges(shoal_world_t *world) {
  const int32_t me = shoal_world_rank(world);
  int32_t sent[2][RANKS], got[2][RANKS];
  shoal_message_t sends[2][RANKS], recvs[2][RANKS];
  shoal_exchange_t exchanges[2];
  for (int e = 0; e < 2; ++e) {
    for (int32_t i = 0; i < RANKS; ++i) {
      sent[e][i] = 1000 * e + 10 * me + i;
      sends[e][i] = (shoal_message_t){i, 7, sizeof(int32_t), &sent[e][i]};
      recvs[e][i] = (shoal_message_t){i, 7, sizeof(int32_t), &got[e][i]};
    }
    shoal_status_t status =
        shoal_exchange_start(world, RANKS, sends[e], RANKS, recvs[e], &exchanges[e]);
    if (status && e == 1) shoal_status_free(shoal_exchange_wait(&exchanges[0]));
    SHOAL_RETURN_IF_ERROR(status);
  }
  shoal_status_t second = shoal_exchange_wait(&exchanges[1]);
  shoal_status_t first = shoal_exchange_wait(&exchanges[0]);
  if (second) {
    shoal_status_free(first);
    return second;
  }
  SHOAL_RETURN_IF_ERROR(first);
  for (int e = 0; e < 2; ++e) {
    for (int32_t i = 0; i < RANKS; ++i) {
      CHECK(got[e][i] == 1000 * e + 10 * i + me, "exchange %d: %d from rank %d", e, got[e][i], i);
    }
  }
  return NULL;
}

static shoal_status_t run_groups(shoal_world_t *world, shoal_group_t *all, shoal_group_t *reversed,
                                 shoal_group_t *pair) {
  for (int i = 0; i < 2 * SHOAL_COLLECTIVE_COUNT; ++i) {  // each kind twice in a row
    call_t call;
    make_call(all, (shoal_collective_kind_t)(i / 2), i % 2, &call);
    SHOAL_RETURN_IF_ERROR(shoal_collective_run(all, &call.c));
    SHOAL_RETURN_IF_ERROR(check_call(all, &call));
  }
  SHOAL_RETURN_IF_ERROR(run_async(reversed, pair, shoal_world_rank(world) % 2));
  SHOAL_RETURN_IF_ERROR(run_exchanges(world));
  return shoal_world_agree(world, NULL);
}

static shoal_status_t workload(shoal_world_t *world) {
  shoal_group_t *all = NULL, *reversed = NULL, *pair = NULL;
  shoal_status_t status = shoal_group_create(world, RANKS, NULL, &all);
  if (!status) status = shoal_group_create(world, RANKS, (int32_t[]){2, 1, 0}, &reversed);
  if (!status && shoal_world_rank(world) > 0) {
    status = shoal_group_create(world, 2, (int32_t[]){1, 2}, &pair);
  }
  if (!status) status = run_groups(world, all, reversed, pair);
  shoal_group_free(pair);
  shoal_group_free(reversed);
  shoal_group_free(all);
  return status;
}

// ---- faults ---------------------------------------------------------------------------

typedef struct outcome {
  bool loses;
  int64_t sent[RANKS];
} outcome_t;

// Says who waits, or expects, what from whom?
static bool is_named(shoal_status_t status) {
  const char *message = shoal_status_message(status);
  const shoal_code_t code = shoal_status_code(status);
  return (code == SHOAL_DEADLINE && strstr(message, "no progress in") &&
          strstr(message, " waits to ") && strstr(message, " rank ")) ||
         (code == SHOAL_MISMATCH && strstr(message, " expects ") && strstr(message, " from rank "));
}

static shoal_status_t rank_body(shoal_world_t *world, void *self) {
  outcome_t *outcome = self;
  shoal_status_t status = workload(world);
  outcome->sent[shoal_world_rank(world)] = shoal_throttle_sent(world);
  if (!outcome->loses) return status;
  // A rank that needed nothing from the lost message hears of it in its next call.
  if (!status) status = shoal_world_agree(world, NULL);
  CHECK(status, "rank %d: a message was lost, and nobody noticed", shoal_world_rank(world));
  if (!is_named(status)) return shoal_status_annotate(status, "not an error of the expected kind");
  shoal_status_free(status);
  return NULL;
}

static void run_with(const char *fault, bool loses, int64_t message, int32_t rank, bool processes) {
  outcome_t outcome = {.loses = loses};
  shoal_world_options_t options = {.timeout_ms = loses ? LOSS_TIMEOUT_MS : 60000};
  char settings[64];
  snprintf(settings, sizeof settings, fault, (long long)message, rank);
  throttle(NULL, settings);
  print_message("%s\r", settings);  // the last one is the reproducer
  if (processes) {
    assert_ok(run_processes(&options, RANKS, rank_body, &outcome));
  } else {
    run_threads(&options, RANKS, rank_body, &outcome);
  }
  unthrottle();
}

static int64_t counts[RANKS];  // messages of the program, of each rank

static void test_count(void **state) {
  (void)state;
  outcome_t outcome = {0};
  throttle(NULL, "delay=1000000@0:1us");
  run_threads(NULL, RANKS, rank_body, &outcome);
  unthrottle();
  for (int32_t r = 0; r < RANKS; ++r) {
    counts[r] = outcome.sent[r];
    print_message("rank %d sends %lld messages\n", r, (long long)counts[r]);
    assert_true(counts[r] >= 20);
  }
}

static void test_every_loss(void **state) {
  (void)state;
  for (int32_t r = 0; r < RANKS; ++r) {
    for (int64_t n = 1; n <= counts[r]; ++n) run_with("lose=%lld@%d", true, n, r, false);
    // Behind the last there is nothing to lose.
    run_with("lose=%lld@%d", false, counts[r] + 1, r, false);
  }
}

static void test_every_delay(void **state) {
  (void)state;
  for (int32_t r = 0; r < RANKS; ++r) {
    for (int64_t n = 1; n <= counts[r]; ++n) run_with("delay=%lld@%d:" DELAY, false, n, r, false);
  }
}

static void test_processes(void **state) {
  (void)state;
  for (int32_t r = 0; r < RANKS; ++r) {
    const int64_t some[] = {1 + r, counts[r] / 2, counts[r]};
    for (size_t i = 0; i < sizeof some / sizeof *some; ++i) {
      run_with("lose=%lld@%d", true, some[i], r, true);
      run_with("delay=%lld@%d:" DELAY, false, some[i], r, true);
    }
  }
}

// `join lose`, `join delay`: this process is one rank of three, and its environment has the fault.
int main(int argc, char **argv) {
  if (argc > 2 && strcmp(argv[1], "join") == 0) {
    outcome_t outcome = {.loses = strcmp(argv[2], "lose") == 0};
    return run_joined(NULL, rank_body, &outcome);
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_count),
      cmocka_unit_test(test_every_loss),
      cmocka_unit_test(test_every_delay),
      cmocka_unit_test(test_processes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

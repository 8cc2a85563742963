// `throttle`: its model of links, by its own clock; that messages arrive no earlier than it says
// and are there when one looks later; sleeping, failing, windows, settings. Lower limits of time
// are exact; upper ones only tell asleep from stuck.
// links: launch
#include <sys/resource.h>

#include "base/failing.h"
#include "base/thread.h"
#include "base/time.h"
#include "comm/backends/throttle/throttle.h"
#include "comm_ranks.h"
#include "comm_throttled.h"
#include "launch/launch.h"

#define MS INT64_C(1000000)

// ---- the model ------------------------------------------------------------------------

// Ranks 0 and 1 on one node, 2 on another.
static const char two_nodes[] =
    "nodes:\n"
    "  - {address: a, cpus: [0, 1], chief: true, network_bandwidth: 0.008}\n"  // 1 MB/s
    "  - {address: b, ssh_config: s, network_bandwidth: 0.016}\n"
    "ssh: {s: {}}\n"
    "shoal_cluster: 1\n"
    "link: {latency: 0.01}\n";

static shoal_throttle_times_t book(shoal_world_t *world, int32_t to, int64_t bytes, int64_t now) {
  shoal_throttle_world_t *w = (shoal_throttle_world_t *)world;
  return shoal_throttle_book(w, &w->routes[to], w->routes[to].out, bytes, now);
}

static void expect(shoal_throttle_times_t times, int64_t through, int64_t delivered) {
  assert_int_equal(times.through, through);
  assert_int_equal(times.delivered, delivered);
}

static void test_model(void **state) {
  (void)state;
  shoal_world_t *worlds[3];
  throttle(two_nodes, "");
  assert_ok(shoal_world_threads(NULL, 3, worlds));
  assert_string_equal(shoal_world_backend(worlds[2]), "throttle");
  const int64_t t = 1000 * MS;
  // Two messages share the bandwidth, 1 MB/s; their latencies overlap.
  expect(book(worlds[0], 2, 1000000, t), t + 1000 * MS, t + 1010 * MS);
  expect(book(worlds[0], 2, 1000000, t), t + 2000 * MS, t + 2010 * MS);
  // The other rank of the node waits behind them; a message without bytes too.
  expect(book(worlds[1], 2, 500000, t + 1), t + 2500 * MS, t + 2510 * MS);
  expect(book(worlds[1], 2, 0, t + 1), t + 2500 * MS, t + 2510 * MS);
  // The other direction is free, and so is the inside of a node. Idle links lose their time.
  expect(book(worlds[2], 0, 1000000, t), t + 1000 * MS, t + 1010 * MS);
  expect(book(worlds[0], 1, 1000000, t), t, t);
  expect(book(worlds[0], 0, 1000000, t), t, t);
  expect(book(worlds[0], 2, 1000, t + 9000 * MS), t + 9001 * MS, t + 9011 * MS);
  for (int i = 0; i < 3; ++i) shoal_world_release(worlds[i]);
  unthrottle();

  // Inside a node every rank has a link of its own.
  throttle(
      "nodes: [{address: a, cpus: [0, 1, 2]}]\nshoal_cluster: 1\n"
      "node_link: {latency: 0.002, bandwidth: 1.0e6}\n",
      "");
  assert_ok(shoal_world_threads(&(shoal_world_options_t){.backend = "throttle:local"}, 3, worlds));
  expect(book(worlds[0], 1, 1000, t), t + MS, t + 3 * MS);
  expect(book(worlds[0], 2, 1000, t), t + 2 * MS, t + 4 * MS);
  expect(book(worlds[1], 2, 1000, t), t + MS, t + 3 * MS);
  for (int i = 0; i < 3; ++i) shoal_world_release(worlds[i]);
  unthrottle();
}

// ---- what callers see -----------------------------------------------------------------

static shoal_status_t transfer(shoal_world_t *world, int32_t from, int32_t to, int64_t bytes,
                               void *data, shoal_exchange_t *out_exchange,
                               shoal_message_t *out_message) {
  const int32_t me = shoal_world_rank(world);
  *out_message = (shoal_message_t){me == from ? to : from, 4, bytes, data};
  return shoal_exchange_start(world, me == from, out_message, me == to, out_message, out_exchange);
}

// 0 sends two messages of 40 ms each to 1, over a latency of 80 ms. Both note the time before they
// start; a receive may not be done before what it received was delivered.
static shoal_status_t arrives(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t me = shoal_world_rank(world);
  int64_t *data = calloc(2, 40000);
  shoal_exchange_t first, second;
  shoal_message_t messages[2];
  data[0] = shoal_time_ns();
  const int64_t began = data[0];
  shoal_status_t status = transfer(world, 0, 1, 40000, data, &first, &messages[0]);
  if (!status) {
    status = transfer(world, 0, 1, 40000, (uint8_t *)data + 40000, &second, &messages[1]);
  }
  if (!status) status = shoal_exchange_wait(&first);
  const int64_t one = shoal_time_ns() - data[0];
  if (!status) status = shoal_exchange_wait(&second);
  const int64_t two = shoal_time_ns() - data[0];
  SHOAL_RETURN_IF_ERROR(status);
  if (me == 1) {
    CHECK(one >= 120 * MS, "the first was there after %lld ms", (long long)(one / MS));
    CHECK(two >= 160 * MS, "the second was there after %lld ms", (long long)(two / MS));
  } else {  // a send does not wait for the delivery
    CHECK(one >= 40 * MS && two >= 80 * MS, "sent after %lld and %lld ms", (long long)(one / MS),
          (long long)(two / MS));
    CHECK(began == data[0], "the buffer changed");
  }
  free(data);
  return shoal_world_agree(world, NULL);
}

static void test_arrival(void **state) {
  (void)state;
  throttle("shoal_cluster: 1\nlink: {latency: 0.08, bandwidth: 1.0e6}\n", "");
  run_threads(NULL, 2, arrives, NULL);
  assert_ok(run_processes(NULL, 2, arrives, NULL));
  unthrottle();
}

// The sender's wait ends when the bytes are through, well before a latency of 1 s.
static shoal_status_t sends_early(shoal_world_t *world, void *self) {
  (void)self;
  char data[8] = {0};
  shoal_exchange_t exchange;
  shoal_message_t message;
  const int64_t began = shoal_time_ns();
  SHOAL_RETURN_IF_ERROR(transfer(world, 0, 1, 8, data, &exchange, &message));
  SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&exchange));
  const int64_t took = shoal_time_ns() - began;
  if (shoal_world_rank(world) == 0) CHECK(took < 900 * MS, "%lld ms", (long long)(took / MS));
  return NULL;
}

// A transfer of 200 ms, and both ranks busy for longer: their waits find it done. On a machine that
// is busy with other things one of a few rounds has to.
static shoal_status_t overlaps(shoal_world_t *world, void *self) {
  const bool collective = self != NULL;
  const int64_t bytes = 200000;
  int64_t least = INT64_MAX;
  void *data = calloc(1, (size_t)bytes);
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 2, NULL, &group));
  const shoal_collective_t broadcast = {.kind = SHOAL_COLLECTIVE_BROADCAST,
                                        .dtype = SHOAL_U8,
                                        .count = bytes,
                                        .send = data,
                                        .recv = data};
  for (int round = 0; round < 3; ++round) {
    shoal_exchange_t exchange;
    shoal_message_t message;
    shoal_request_t request;
    SHOAL_RETURN_IF_ERROR(collective ? shoal_collective_start(group, &broadcast, &request)
                                     : transfer(world, 0, 1, bytes, data, &exchange, &message));
    shoal_time_sleep_ns(280 * MS);  // the compute phase
    const int64_t began = shoal_time_ns();
    SHOAL_RETURN_IF_ERROR(collective ? shoal_request_wait(&request)
                                     : shoal_exchange_wait(&exchange));
    const int64_t took = shoal_time_ns() - began;
    if (took < least) least = took;
    SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
  }
  CHECK(least < 150 * MS, "rank %d waited another %lld ms", shoal_world_rank(world),
        (long long)(least / MS));
  shoal_group_free(group);
  free(data);
  return NULL;
}

static void test_overlap(void **state) {
  (void)state;
  int collective = 1;
  throttle("shoal_cluster: 1\nlink: {latency: 1.0, bandwidth: 1.0e9}\n", "");
  run_threads(NULL, 2, sends_early, NULL);
  unthrottle();
  throttle("shoal_cluster: 1\nlink: {latency: 1.0e-6, bandwidth: 1.0e6}\n", "");
  run_threads(NULL, 2, overlaps, NULL);
  run_threads(NULL, 2, overlaps, &collective);
  assert_ok(run_processes(NULL, 2, overlaps, NULL));
  unthrottle();
}

// 0 and 1 send 100 ms each to 2 over their node's one link: it takes 200, also between processes.
static shoal_status_t shares(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t me = shoal_world_rank(world);
  shoal_group_t *group;
  void *data = calloc(2, 100000);
  shoal_message_t messages[2] = {{0, 1, 100000, data}, {1, 1, 100000, (uint8_t *)data + 100000}};
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 3, NULL, &group));
  const int64_t began = shoal_time_ns();
  SHOAL_RETURN_IF_ERROR(shoal_barrier(group));  // the sends start later than `began`
  shoal_exchange_t exchange;
  if (me < 2) messages[0].peer = 2;
  SHOAL_RETURN_IF_ERROR(
      shoal_exchange_start(world, me < 2, messages, me == 2 ? 2 : 0, messages, &exchange));
  SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&exchange));
  const int64_t took = shoal_time_ns() - began;
  if (me == 2) CHECK(took >= 200 * MS, "two got through in %lld ms", (long long)(took / MS));
  free(data);
  shoal_group_free(group);
  return NULL;
}

// 1 starts a message to 2 that is larger than what the backend takes at once, and sleeps for one
// from 0 that is late: 2 must not have to wait until it wakes.
static shoal_status_t moves_on(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t me = shoal_world_rank(world);
  const int64_t bytes = 1 << 20;
  void *large = calloc(1, (size_t)bytes), *small = calloc(1, 8);
  shoal_exchange_t first, second;
  shoal_message_t messages[2];
  shoal_status_t status = NULL;
  if (me > 0) status = transfer(world, 1, 2, bytes, large, &first, &messages[0]);
  if (me < 2 && !status) status = transfer(world, 0, 1, 8, small, &second, &messages[1]);
  if (me < 2 && !status) status = shoal_exchange_wait(&second);
  int64_t times[3], mine = shoal_time_ns();  // 1: it woke
  if (me > 0 && !status) status = shoal_exchange_wait(&first);
  if (me == 2) mine = shoal_time_ns();  // it has all
  SHOAL_RETURN_IF_ERROR(status);
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 3, NULL, &group));
  SHOAL_RETURN_IF_ERROR(shoal_all_gather(group, SHOAL_I64, (int64_t[]){1, 1, 1}, &mine, times));
  CHECK(times[2] < times[1], "rank 2 waited until rank 1 woke");
  shoal_group_free(group);
  free(large);
  free(small);
  return NULL;
}

static void test_shared_link(void **state) {
  (void)state;
  throttle(two_nodes, "");
  run_threads(NULL, 3, shares, NULL);
  assert_ok(run_processes(NULL, 3, shares, NULL));
  unthrottle();
  throttle(NULL, "delay=1@0:800ms");
  run_threads(NULL, 3, moves_on, NULL);
  assert_ok(run_processes(NULL, 3, moves_on, NULL));
  unthrottle();
  // Nothing overflows.
  shoal_world_t *worlds[2];
  throttle("shoal_cluster: 1\nlink: {latency: 1.0e40, bandwidth: 1.0e-40}\n", "");
  assert_ok(shoal_world_threads(NULL, 2, worlds));
  for (int i = 0; i < 200; ++i) assert_true(book(worlds[0], 1, INT64_MAX, 0).delivered > 0);
  for (int i = 0; i < 2; ++i) shoal_world_release(worlds[i]);
  unthrottle();
}

// ---- sleeping and failing -------------------------------------------------------------

static shoal_status_t sleeps(shoal_world_t *world, void *self) {
  (void)self;
  struct rusage before, after;
  char data[8] = {0};
  shoal_exchange_t exchange;
  shoal_message_t message;
  getrusage(RUSAGE_SELF, &before);
  const int64_t began = shoal_time_ns();
  SHOAL_RETURN_IF_ERROR(transfer(world, 0, 1, 8, data, &exchange, &message));
  SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&exchange));
  const double took = (double)(shoal_time_ns() - began) * 1e-9;
  getrusage(RUSAGE_SELF, &after);
  if (shoal_world_rank(world) == 0) return NULL;
  const double used = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) +
                      (double)(after.ru_stime.tv_sec - before.ru_stime.tv_sec) +
                      1e-6 * (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec) +
                      1e-6 * (double)(after.ru_stime.tv_usec - before.ru_stime.tv_usec);
  printf("rank 1 used %.2f %% of a core in %.2f s on a link\n", 100 * used / took, took);
  // Time on the link counts from when rank 0 sent, which may be earlier: only cores are judged.
  CHECK(used < 0.03, "%.3f s of a core in %.2f s", used, took);
  return NULL;
}

static void test_sleep(void **state) {
  (void)state;
  throttle("shoal_cluster: 1\nlink: {latency: 1.5, bandwidth: 1.0e9}\n", "");
  assert_ok(run_processes(NULL, 2, sleeps, NULL));
  unthrottle();
}

// Rank 1 sleeps for 20 s; what rank 0 says must wake it.
static shoal_status_t woken(shoal_world_t *world, void *self) {
  (void)self;
  char data[8] = {0};
  shoal_exchange_t exchange;
  shoal_message_t message;
  const int64_t began = shoal_time_ns();
  SHOAL_RETURN_IF_ERROR(transfer(world, 0, 1, 8, data, &exchange, &message));
  if (shoal_world_rank(world) == 0) {
    SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&exchange));
    shoal_time_sleep_ns(20 * MS);
    shoal_status_t reason = SHOAL_ERROR(IO, "out of paper");
    shoal_world_abort(world, reason);
    shoal_status_free(reason);
    return NULL;
  }
  CHECK_ERROR(ABORTED, "out of paper", shoal_exchange_wait(&exchange));
  CHECK(shoal_time_ns() - began < 10000 * MS, "it slept on");
  return NULL;
}

// A message on its way for longer than the time limit is no progress; one on its link is.
static shoal_status_t late(shoal_world_t *world, void *self) {
  const bool on_link = self != NULL;
  char data[400] = {0};
  shoal_exchange_t exchange;
  shoal_message_t message;
  SHOAL_RETURN_IF_ERROR(transfer(world, 0, 1, 400, data, &exchange, &message));
  shoal_status_t status = shoal_exchange_wait(&exchange);
  if (on_link) return status;
  // Whoever gives up first names what rank 1 is stuck in: its wait, or its operation if that wait
  // has only just begun.
  if (shoal_world_rank(world) == 1) {
    CHECK_ERROR(DEADLINE, "tag 4, 400 bytes", status);
  } else {
    SHOAL_RETURN_IF_ERROR(status);
  }
  CHECK_ERROR(DEADLINE, "tag 4, 400 bytes", shoal_world_agree(world, NULL));
  return NULL;
}

static void test_failing(void **state) {
  (void)state;
  int on_link = 1;
  throttle("shoal_cluster: 1\nlink: {latency: 20.0, bandwidth: 1.0e9}\n", "");
  run_threads(NULL, 2, woken, NULL);
  assert_ok(run_processes(NULL, 2, woken, NULL));
  run_threads(&(shoal_world_options_t){.timeout_ms = 200}, 2, late, NULL);
  unthrottle();
  throttle(NULL, "delay=1@0:5s");
  run_threads(&(shoal_world_options_t){.timeout_ms = 200}, 2, late, NULL);
  unthrottle();
  throttle("shoal_cluster: 1\nlink: {latency: 1.0e-6, bandwidth: 1.0e3}\n", "");
  run_threads(&(shoal_world_options_t){.timeout_ms = 200}, 2, late, &on_link);
  unthrottle();
}

// ---- windows, memory ------------------------------------------------------------------

static shoal_status_t window_times(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t me = shoal_world_rank(world);
  shoal_group_t *group;
  shoal_window_t *window;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 2, NULL, &group));
  SHOAL_RETURN_IF_ERROR(shoal_window_create(group, 40000, &window));
  float *data = calloc(10000, sizeof *data), seen = 0;
  data[9999] = 3;
  if (me == 1) {
    const int64_t began = shoal_time_ns();
    SHOAL_RETURN_IF_ERROR(shoal_window_put_add(window, 0, SHOAL_F32, 0, 10000, data));
    const int64_t put = shoal_time_ns();
    SHOAL_RETURN_IF_ERROR(shoal_window_get(window, 0, 39996, 4, &seen, NULL));
    CHECK(put - began >= 70 * MS, "put in %lld ms", (long long)((put - began) / MS));
    CHECK(shoal_time_ns() - put >= 60 * MS, "got too early");
    CHECK(seen == 3, "got %g", (double)seen);
  }
  SHOAL_RETURN_IF_ERROR(shoal_window_wait(window, 0, 1, 1));
  shoal_window_free(window);
  shoal_group_free(group);
  free(data);
  return NULL;
}

static shoal_status_t steady(shoal_world_t *world, void *self) {
  shoal_failing_t *counter = self;
  const int32_t me = shoal_world_rank(world);
  int64_t data[2000] = {0}, before = 0;
  shoal_exchange_t exchanges[5];
  shoal_message_t messages[5];
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, 2, NULL, &group));
  for (int round = 0; round < 6; ++round) {
    SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
    if (round == 2) before = atomic_load(&counter->calls);
    SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
    for (int i = 0; i < 5; ++i) {
      SHOAL_RETURN_IF_ERROR(transfer(world, i % 2, 1 - i % 2, 1000, (uint8_t *)data + 1000 * i,
                                     &exchanges[i], &messages[i]));
    }
    for (int i = 4; i >= 0; --i) SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&exchanges[i]));
    SHOAL_RETURN_IF_ERROR(shoal_all_reduce(group, SHOAL_I64, SHOAL_REDUCE_SUM, 2000, data, data));
  }
  SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
  CHECK(atomic_load(&counter->calls) == before, "rank %d: allocations in the steady state", me);
  SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
  shoal_group_free(group);
  return NULL;
}

static shoal_status_t small_session(shoal_world_t *world, void *self) {
  (void)self;
  float data[2000] = {0};
  shoal_group_t *group = NULL;
  shoal_window_t *window = NULL;
  shoal_status_t status = shoal_world_agree(world, shoal_group_create(world, 2, NULL, &group));
  if (!status) status = shoal_all_reduce(group, SHOAL_F32, SHOAL_REDUCE_SUM, 2000, data, data);
  if (!status) status = shoal_window_create(group, 64, &window);
  shoal_window_free(window);
  shoal_group_free(group);
  return status;
}

static void test_nth_allocation(void **state) {
  (void)state;
  throttle("shoal_cluster: 1\nlink: {latency: 1.0e-6, bandwidth: 1.0e9}\n", "");
  for (int64_t n = 1;; ++n) {
    shoal_failing_t failing = {.fail_at = n};
    shoal_world_options_t options = {.allocator = shoal_allocator_failing(&failing)};
    const shoal_ranks_options_t two = ranks_like(&options, 2, false);
    rank_call_t call = {small_session, NULL};
    shoal_status_t status = shoal_launch_ranks(&two, run_rank_call, &call, NULL);
    const bool failed = atomic_load(&failing.calls) >= n;
    assert_int_equal(atomic_load(&failing.live_blocks), 0);
    if (!failed) {
      assert_ok(status);
      break;
    }
    assert_int_equal(shoal_status_code(status), SHOAL_OUT_OF_MEMORY);
    shoal_status_free(status);
  }
  unthrottle();
}

static void test_windows_and_memory(void **state) {
  (void)state;
  throttle("shoal_cluster: 1\nlink: {latency: 0.03, bandwidth: 1.0e6}\n", "");
  run_threads(NULL, 2, window_times, NULL);
  assert_ok(run_processes(NULL, 2, window_times, NULL));
  unthrottle();
  throttle("shoal_cluster: 1\nlink: {latency: 1.0e-6, bandwidth: 1.0e9}\n", "");
  shoal_failing_t counter = {0};
  run_threads(&(shoal_world_options_t){.allocator = shoal_allocator_failing(&counter)}, 2, steady,
              &counter);
  assert_int_equal(atomic_load(&counter.live_blocks), 0);
  unthrottle();
}

// ---- settings -------------------------------------------------------------------------

static void test_settings(void **state) {
  (void)state;
  static const struct {
    const char *settings, *part;
  } wrong[] = {
      {"lose=0@1", "'lose=0@1' is not lose=MESSAGE@RANK"},
      {"lose=1", "'lose=1'"},
      {"lose=1@", "'lose=1@'"},
      {"lose=1@0:3ms", "lose=MESSAGE@RANK"},
      {"delay=1@0", "TIME"},
      {"delay=1@0:3", "500us, 200ms or 1s"},
      {"delay=1@0:3min", "3min"},
      {"delay=1@0:99999999999999s", "TIME"},
      {"los=1@0", "did you mean 'lose'?"},
      {"lose=1@0,,lose=2@0", "an empty part"},
      {"lose=1@0,", "an empty part"},
      {"lose=1@2", "a fault of rank 2 in a world of 2"},
  };
  shoal_world_t *worlds[2];
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    throttle(NULL, wrong[i].settings);
    assert_error(INVALID_ARGUMENT, wrong[i].part, shoal_world_threads(NULL, 2, worlds));
  }
  throttle(NULL, "lose=1@2");  // a world of one has no messages
  assert_ok(shoal_world_threads(NULL, 1, worlds));
  shoal_world_release(worlds[0]);
  throttle(NULL, "/nowhere/cluster.yml");
  assert_error(NOT_FOUND, "SHOAL_COMM_THROTTLE", shoal_world_threads(NULL, 2, worlds));
  throttle("shoal_cluster: 1\n", "");
  assert_error(INVALID_ARGUMENT, "describes no link", shoal_world_threads(NULL, 2, worlds));
  unthrottle();
  throttle("shoal_cluster: 1\nlink: {latency: 1.0e-6}\nranks: 1\n", "");
  assert_error(INVALID_ARGUMENT, "a world of 2 ranks", shoal_world_threads(NULL, 2, worlds));
  unthrottle();
  throttle("shoal_cluster: 1\nlink:\n  latency: soon\n", "");
  assert_error(INVALID_ARGUMENT, ":3: link.latency", shoal_world_threads(NULL, 2, worlds));
  assert_error(INVALID_ARGUMENT, "link.latency", shoal_world_join(NULL, worlds));
  // A name in the options is that backend and nothing else.
  const char *const plain[] = {"self", "local"};
  for (int i = 0; i < 2; ++i) {
    assert_ok(shoal_world_threads(&(shoal_world_options_t){.backend = plain[i]}, 1, worlds));
    assert_string_equal(shoal_world_backend(worlds[0]), plain[i]);
    shoal_world_release(worlds[0]);
  }
  unthrottle();
  shoal_world_options_t options = {.backend = "throttle"};
  assert_error(INVALID_ARGUMENT, "needs SHOAL_COMM_THROTTLE",
               shoal_world_threads(&options, 2, worlds));
  options.backend = "throttle:throttle";
  assert_error(NOT_FOUND, "no communication backend 'throttle'",
               shoal_world_threads(&options, 2, worlds));
  options.backend = "throttle:lokal";
  assert_error(NOT_FOUND, "did you mean 'local'", shoal_world_threads(&options, 2, worlds));
  options.backend = "local:self";
  assert_error(NOT_FOUND, "'local:self'", shoal_world_threads(&options, 2, worlds));
  throttle(NULL, "lose=9@0");
  options.backend = "throttle:self";
  assert_ok(shoal_world_threads(&options, 1, worlds));
  shoal_world_release(worlds[0]);
  unthrottle();
}

static int join_otherwise(void *self, int rank) {
  (void)self;
  setenv("SHOAL_COMM_THROTTLE", rank == 0 ? "lose=1@0" : "lose=2@0", 1);
  shoal_world_t *world;
  shoal_status_t status = shoal_world_join(NULL, &world);
  if (!status) shoal_world_release(world);
  const bool right = shoal_status_code(status) == SHOAL_INVALID_ARGUMENT &&
                     strstr(shoal_status_message(status), "another SHOAL_COMM_THROTTLE");
  if (!right) fprintf(stderr, "%s\n", status ? shoal_status_message(status) : "joined");
  shoal_status_free(status);
  return right ? 0 : 1;
}

static void test_same_settings(void **state) {
  (void)state;
  assert_ok(
      shoal_launch_processes(&(shoal_launch_options_t){.ranks = 2}, join_otherwise, NULL, NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_model),          cmocka_unit_test(test_arrival),
      cmocka_unit_test(test_overlap),        cmocka_unit_test(test_shared_link),
      cmocka_unit_test(test_sleep),          cmocka_unit_test(test_failing),
      cmocka_unit_test(test_nth_allocation), cmocka_unit_test(test_windows_and_memory),
      cmocka_unit_test(test_settings),       cmocka_unit_test(test_same_settings),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// The host runs ahead of the queues: runs are enqueued while others go on, two at most; feeds and
// fetches keep their values apart; waits reach into earlier steps; all ranks stop after the same
// run. Kernels are held up by a provider, so that nothing here depends on time.
// links: run launch
#include <sched.h>
#include <stdatomic.h>

#include "base/time.h"
#include "run/run.h"
#include "run_support.h"

enum { SIZE = 4 };

// w = 3 w + 2 x; y is the new w. The doubling is the provider's, which is slow. What is fetched has
// a queue of its own, so that it does not hold up what is fed. What the calls wait for and how many
// slots x has differs between the tests.
#define HEAD                    \
  "shoal_program 1\n"           \
  "world 1\n"                   \
  "micro 1\n"                   \
  "mesh data=1\n"               \
  "state w f32[4] \"\" saved\n" \
  "input train x f32[4]\n"      \
  "input eval x f32[4]\n"       \
  "output train y f32[4]\n"     \
  "output eval e f32[4]\n"
#define QUEUES                \
  "  queue compute compute\n" \
  "  queue copy copy\n"       \
  "  queue out copy\n"
#define BUFFERS                                                \
  "  buffer 1 state 0 \"w\" f32[4] \"\" bytes 64 offset 128\n" \
  "  buffer 2 temp \"t\" f32[4] \"\" bytes 64 offset 192\n"    \
  "  buffer 3 temp \"w2\" f32[4] \"\" bytes 64 offset 256\n"   \
  "  buffer 4 temp \"w3\" f32[4] \"\" bytes 64 offset 320\n"   \
  "  buffer 5 output \"y\" f32[4] \"\" bytes 64 offset 384\n"  \
  "  buffer 6 temp \"late\" f32[4] \"\" bytes 64 offset 448\n" \
  "  buffer 7 input \"x\" f32[4] \"\" bytes 64 offset 512\n"   \
  "  segment 0 train\n"                                        \
  "    0 copy feed -> (0) \"x\"\n"                             \
  "    1 compute compute test.twice (0) -> (2) \"t\" wait 0\n" \
  "    2 compute compute shoal.add (1, 1) -> (3) \"w2\"\n"     \
  "    3 compute compute shoal.add (3, 1) -> (4) \"w3\"\n"     \
  "    4 compute compute shoal.add (4, 2) -> (5) \"y\"\n"      \
  "    5 compute copy (5) -> (1) \"w\"\n"                      \
  "    6 out fetch (5) \"y\" wait 4\n"                         \
  "    7 compute compute test.twice (2) -> (6) \"late\"\n"     \
  "  segment 1 eval\n"                                         \
  "    0 copy feed -> (7) \"x\"\n"                             \
  "    1 out fetch (7) \"e\" wait 0\n"                         \
  "  segment 2 init\n"                                         \
  "    0 compute fill -> (1) value 1 \"w\"\n"                  \
  "  order init 2\n"                                           \
  "  order eval 1[0<1.1]\n"

// One slot of x: the feed waits for the doubling of the step before.
static const char one_slot[] = HEAD "class 0 ranks 0 arena 640\n" QUEUES
                                    "  buffer 0 input \"x\" f32[4] \"\" bytes 64 offset 0\n" BUFFERS
                                    "  order train 0[0<1.1,4<1.6]\n";
// Two: for the one of two steps before.
static const char two_slots[] =
    HEAD "class 0 ranks 0 arena 640\n" QUEUES
         "  slots 0 2 by_step\n"
         "  buffer 0 input \"x\" f32[4] \"\" group 0 bytes 64 offset 0\n" BUFFERS
         "  order train 0{0=0}[0<2.1,4<1.6]\n";

typedef struct context {
  const shoal_program_t *program;
  bool opaque;
  atomic_int kernels, returned;  // doublings begun; runs that the host came back from
  atomic_int most;               // runs that it was ahead
  atomic_int fetched;            // runs whose y is: what their late doublings wait for
  bool holds_late;
  shoal_status_t (*body)(struct context *context, shoal_runner_t *runner);
} context_t;

// Bounded, so that what never comes is an error and no hang.
static shoal_status_t wait_for(const char *what, atomic_int *counter, int least) {
  const int64_t end = shoal_time_ns() + INT64_C(20000000000);
  while (atomic_load(counter) < least) {
    EXPECT(shoal_time_ns() < end, "%s never came to %d", what, least);
    sched_yield();
  }
  return NULL;
}

static shoal_status_t twice(void *self, const shoal_kernel_call_t *kernel) {
  context_t *context = self;
  const float *x = kernel->inputs[0].data;
  float *y = kernel->outputs[0].data;
  const int number = atomic_fetch_add(&context->kernels, 1);
  const int run = number / 2 + 1;
  if (context->holds_late && number % 2 == 1) {
    SHOAL_RETURN_IF_ERROR(wait_for("the fetch, which waits for more,", &context->fetched, run));
  } else if (!context->holds_late) {
    // The first of all waits until the host has enqueued another run, which shows that it can.
    if (number == 0) SHOAL_RETURN_IF_ERROR(wait_for("the host", &context->returned, 2));
    for (int i = 0; i < 200; ++i) sched_yield();
    const int ahead = atomic_load(&context->returned) - (run - 1);
    if (ahead > atomic_load(&context->most)) atomic_store(&context->most, ahead);
  }
  for (int i = 0; i < SIZE; ++i) y[i] = 2 * x[i];
  return NULL;
}

static shoal_status_t run_body(void *self, shoal_world_t *world) {
  context_t *context = self;
  const shoal_device_options_t options = {.opaque = context->opaque, .concurrent = true};
  shoal_device_t *device = NULL;
  shoal_runner_t *runner = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_device_create(&options, &device));
  shoal_status_t status = shoal_runner_create(
      context->program, world, device,
      &(shoal_runner_options_t){.provider = twice, .provider_self = context}, &runner);
  if (!status) status = shoal_runner_run(runner, "init");
  if (!status) status = context->body(context, runner);
  shoal_runner_free(runner);
  shoal_device_free(device);
  return status;
}

static void run_text(const char *text, bool holds_late,
                     shoal_status_t (*body)(context_t *context, shoal_runner_t *runner),
                     context_t *out_last) {
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse_program(text, registry);
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  for (int opaque = 0; opaque < 2; ++opaque) {
    context_t context = {
        .program = program, .opaque = opaque, .holds_late = holds_late, .body = body};
    run_ranks_ok(1, run_body, &context);
    if (out_last) atomic_store(&out_last->most, atomic_load(&context.most));
  }
  shoal_program_free(program);
  shoal_registry_release(registry);
}

static shoal_status_t feed(shoal_runner_t *runner, int step, float *x) {
  for (int i = 0; i < SIZE; ++i) x[i] = (float)(step + i);
  return shoal_runner_feed(runner, "x", x, SIZE * sizeof *x);
}

static void expect_step(float *w, const float *x) {
  for (int i = 0; i < SIZE; ++i) w[i] = 3 * w[i] + 2 * x[i];
}

static shoal_status_t check(const char *what, const float *got, const float *expected) {
  for (int i = 0; i < SIZE; ++i) {
    EXPECT(got[i] == expected[i], "%s[%d] is %g, not %g", what, i, (double)got[i],
           (double)expected[i]);
  }
  return NULL;
}

// ---- ahead ----------------------------------------------------------------------------

// Nothing is fetched until the end, and all data came to the run it was fed for, in order. Some
// runs get what the one before got.
static shoal_status_t ahead_body(context_t *context, shoal_runner_t *runner) {
  float x[SIZE], y[SIZE], w[SIZE] = {1, 1, 1, 1};
  for (int step = 0; step < 10; ++step) {
    if (step % 4 != 3) SHOAL_RETURN_IF_ERROR(feed(runner, step, x));
    SHOAL_RETURN_IF_ERROR(shoal_runner_run(runner, "train"));
    atomic_fetch_add(&context->returned, 1);
    expect_step(w, x);
  }
  SHOAL_RETURN_IF_ERROR(shoal_runner_fetch(runner, "y", y, sizeof y));
  SHOAL_RETURN_IF_ERROR(check("y", y, w));
  SHOAL_RETURN_IF_ERROR(shoal_runner_get(runner, "w", y, sizeof y));
  return check("w", y, w);
}

// In the slow kernel of a run, at most this run and the next have been enqueued.
static void test_ahead(void **state) {
  (void)state;
  const char *const texts[] = {one_slot, two_slots};
  for (int i = 0; i < 2; ++i) {
    context_t last = {0};
    run_text(texts[i], false, ahead_body, &last);
    assert_int_equal(atomic_load(&last.most), 2);
  }
}

// Fed again before anything ran, and many times over: the last data counts.
static shoal_status_t feed_body(context_t *context, shoal_runner_t *runner) {
  float x[SIZE], y[SIZE], w[SIZE] = {1, 1, 1, 1};
  for (int step = 0; step < 6; ++step) {
    for (int k = 0; k <= step % 3; ++k) SHOAL_RETURN_IF_ERROR(feed(runner, 7 * step + k, x));
    SHOAL_RETURN_IF_ERROR(shoal_runner_run(runner, "train"));
    atomic_fetch_add(&context->returned, 1);
    expect_step(w, x);
    if (step % 2 == 0) continue;
    SHOAL_RETURN_IF_ERROR(shoal_runner_fetch(runner, "y", y, sizeof y));
    SHOAL_RETURN_IF_ERROR(check("y", y, w));
  }
  return NULL;
}

static void test_feeds(void **state) {
  (void)state;
  run_text(one_slot, false, feed_body, NULL);
  run_text(two_slots, false, feed_body, NULL);
}

// ---- fetches --------------------------------------------------------------------------

// The kernel behind the value is held up until the value is fetched.
static shoal_status_t alone_body(context_t *context, shoal_runner_t *runner) {
  float x[SIZE], y[SIZE], w[SIZE] = {1, 1, 1, 1};
  for (int step = 0; step < 4; ++step) {
    SHOAL_RETURN_IF_ERROR(feed(runner, step, x));
    SHOAL_RETURN_IF_ERROR(shoal_runner_run(runner, "train"));
    SHOAL_RETURN_IF_ERROR(shoal_runner_fetch(runner, "y", y, sizeof y));
    atomic_fetch_add(&context->fetched, 1);
    expect_step(w, x);
    SHOAL_RETURN_IF_ERROR(check("y", y, w));
  }
  return NULL;
}

static void test_fetch_waits_for_its_value_alone(void **state) {
  (void)state;
  run_text(two_slots, true, alone_body, NULL);
}

// ---- other graphs between -------------------------------------------------------------

// Slots by step begin anew after a join; an input of the same name in another graph is another.
static shoal_status_t graphs_body(context_t *context, shoal_runner_t *runner) {
  float x[SIZE], y[SIZE], w[SIZE] = {1, 1, 1, 1};
  atomic_store(&context->returned, 2);
  for (int round = 0; round < 4; ++round) {
    for (int step = 0; step <= round; ++step) {
      SHOAL_RETURN_IF_ERROR(feed(runner, 5 * round + step, x));
      SHOAL_RETURN_IF_ERROR(shoal_runner_run(runner, "train"));
      expect_step(w, x);
    }
    const int64_t joins = shoal_runner_counters(runner).joins;
    SHOAL_RETURN_IF_ERROR(shoal_runner_run(runner, "eval"));
    EXPECT(shoal_runner_counters(runner).joins == joins + 1, "queues were not joined");
    SHOAL_RETURN_IF_ERROR(shoal_runner_fetch(runner, "e", y, sizeof y));
    SHOAL_RETURN_IF_ERROR(check("e", y, x));
    SHOAL_RETURN_IF_ERROR(shoal_runner_fetch(runner, "y", y, sizeof y));
    SHOAL_RETURN_IF_ERROR(check("y", y, w));
  }
  return NULL;
}

static void test_graphs(void **state) {
  (void)state;
  run_text(one_slot, false, graphs_body, NULL);
  run_text(two_slots, false, graphs_body, NULL);
}

// ---- stopping -------------------------------------------------------------------------

static const char alone[] =
    "shoal_program 1\n"
    "world 3\n"
    "micro 1\n"
    "mesh data=3\n"
    "state w f32[3] \"data:0\" saved\n"
    "class 0 ranks 0-2 arena 64\n"
    "  buffer 0 state 0 \"w\" f32[3] \"data:0\" bytes 64 offset 0\n"
    "  segment 0 train\n"
    "    0 compute fill -> (0) value 1 \"w\"\n"
    "  order train 0\n";

typedef struct stop {
  const shoal_program_t *program;
  int asks_at;
  int64_t stopped[3];
} stop_t;

// One rank asks; the others have nothing to do with it but the agreements.
static shoal_status_t stop_steps(stop_t *stop, shoal_runner_t *runner, int32_t rank) {
  for (int step = 0; step < 100; ++step) {
    if (rank == 1 && step == stop->asks_at) shoal_runner_ask_stop(runner);
    SHOAL_RETURN_IF_ERROR(shoal_runner_run(runner, "train"));
    if (!shoal_runner_should_stop(runner)) continue;
    stop->stopped[rank] = step;
    return NULL;
  }
  EXPECT(false, "rank %d goes on", rank);
  return NULL;
}

static shoal_status_t stop_body(void *self, shoal_world_t *world) {
  stop_t *stop = self;
  shoal_device_t *device = NULL;
  shoal_runner_t *runner = NULL;
  SHOAL_RETURN_IF_ERROR(
      shoal_device_create(&(shoal_device_options_t){.concurrent = true}, &device));
  shoal_status_t status = shoal_runner_create(stop->program, world, device, NULL, &runner);
  if (!status) status = stop_steps(stop, runner, shoal_world_rank(world));
  shoal_runner_free(runner);
  shoal_device_free(device);
  return status;
}

static void test_stop(void **state) {
  (void)state;
  shoal_registry_t *registry = test_registry();
  stop_t stop = {.program = parse_program(alone, registry)};
  for (stop.asks_at = 0; stop.asks_at < 60; stop.asks_at += 7) {
    run_ranks_ok(3, stop_body, &stop);
    assert_int_equal(stop.stopped[0], stop.stopped[1]);
    assert_int_equal(stop.stopped[0], stop.stopped[2]);
    assert_in_range(stop.stopped[0], stop.asks_at, stop.asks_at + 2 * 16);
  }
  shoal_program_free((shoal_program_t *)(uintptr_t)stop.program);
  shoal_registry_release(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ahead),
      cmocka_unit_test(test_feeds),
      cmocka_unit_test(test_fetch_waits_for_its_value_alone),
      cmocka_unit_test(test_graphs),
      cmocka_unit_test(test_stop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

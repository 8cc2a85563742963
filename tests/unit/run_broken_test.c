// Errors that stick: while one queue's error breaks the world, no other queue of the rank lets the
// host have a value, and every run, fetch and collective call returns the error from then on. And a
// rank that comes late breaks nothing.
// links: run launch
#include <sched.h>
#include <stdatomic.h>

#include "base/time.h"
#include "comm/comm_impl.h"
#include "run/run.h"
#include "run_support.h"

enum { SIZE = 4 };

// Two kernels on two queues; what is fetched is the second's.
static const char text[] =
    "shoal_program 1\n"
    "world 2\n"
    "micro 1\n"
    "mesh data=2\n"
    "input train x f32[4]\n"
    "input train z f32[4]\n"
    "output train y f32[4]\n"
    "class 0 ranks 0-1 arena 256\n"
    "  queue compute compute\n"
    "  queue other compute\n"
    "  buffer 0 input \"x\" f32[4] \"\" bytes 64 offset 0\n"
    "  buffer 1 input \"z\" f32[4] \"\" bytes 64 offset 64\n"
    "  buffer 2 temp \"t\" f32[4] \"\" bytes 64 offset 128\n"
    "  buffer 3 output \"y\" f32[4] \"\" bytes 64 offset 192\n"
    "  segment 0 train\n"
    "    0 compute feed -> (0) \"x\"\n"
    "    1 compute compute test.twice (0) -> (2) \"t\"\n"
    "    2 other feed -> (1) \"z\"\n"
    "    3 other compute test.twice (1) -> (3) \"y\"\n"
    "    4 other fetch (3) \"y\"\n"
    "  order train 0\n";

// What rank 0 does; its world's errors pass through `break_slowly`.
typedef struct context {
  const shoal_program_t *program;
  const shoal_comm_ops_t *ops;
  atomic_bool breaks, fetched;
} context_t;

static context_t context;

static void wait_for(const atomic_bool *flag, int64_t ns) {
  const int64_t end = shoal_time_ns() + ns;
  while (!atomic_load(flag) && shoal_time_ns() < end) sched_yield();
}

// The world is broken, but who broke it comes back late: not before the host has its value, if it
// can get one.
static void break_slowly(shoal_world_t *world, shoal_code_t code, const char *message) {
  (context.ops->fail)(world, code, message);
  if (atomic_exchange(&context.breaks, true)) return;
  wait_for(&context.fetched, 200000000);
}

// The first kernel of rank 0 fails, and then the second one does.
static shoal_status_t twice(void *self, const shoal_kernel_call_t *kernel) {
  const float *x = kernel->inputs[0].data;
  float *y = kernel->outputs[0].data;
  for (int i = 0; i < SIZE; ++i) y[i] = 2 * x[i];
  if (*(const int32_t *)self != 0) return NULL;
  if (x[0] == 1) return SHOAL_ERROR(INTERNAL, "the first one");
  wait_for(&context.breaks, 20000000000);
  return SHOAL_ERROR(INTERNAL, "the second one");
}

static shoal_status_t run(shoal_runner_t *runner, int32_t rank) {
  const float x[SIZE] = {1, 1, 1, 1}, z[SIZE] = {2, 2, 2, 2};
  float y[SIZE] = {0};
  SHOAL_RETURN_IF_ERROR(shoal_runner_feed(runner, "x", x, sizeof x));
  SHOAL_RETURN_IF_ERROR(shoal_runner_feed(runner, "z", z, sizeof z));
  SHOAL_RETURN_IF_ERROR(shoal_runner_run(runner, "train"));
  shoal_status_t status = shoal_runner_fetch(runner, "y", y, sizeof y);
  if (rank == 0) {
    atomic_store(&context.fetched, true);
    EXPECT(status, "a failed run left a value");
  }
  if (!status) status = shoal_runner_wait(runner);
  shoal_status_t again[] = {shoal_runner_run(runner, "train"), shoal_runner_wait(runner),
                            shoal_runner_fetch(runner, "y", y, sizeof y)};
  bool sticks = true;
  for (size_t i = 0; i < sizeof again / sizeof again[0]; ++i) {
    sticks &= status && strcmp(shoal_status_message(again[i]), shoal_status_message(status)) == 0;
    shoal_status_free(again[i]);
  }
  if (sticks) return status;
  shoal_status_free(status);
  return SHOAL_ERROR(MISMATCH, "the error does not stick");
}

static shoal_status_t rank_body(void *self, shoal_world_t *world) {
  (void)self;
  int32_t rank = shoal_world_rank(world);
  const shoal_comm_ops_t *before = world->ops;
  shoal_comm_ops_t ops = *before;
  ops.fail = break_slowly;
  if (rank == 0) {
    context.ops = before;
    world->ops = &ops;
  }
  shoal_device_t *device = NULL;
  shoal_runner_t *runner = NULL;
  shoal_status_t status =
      shoal_device_create(&(shoal_device_options_t){.concurrent = true}, &device);
  if (!status) {
    status = shoal_runner_create(
        context.program, world, device,
        &(shoal_runner_options_t){.provider = twice, .provider_self = &rank}, &runner);
  }
  if (!status) status = run(runner, rank);
  shoal_runner_free(runner);
  shoal_device_free(device);
  world->ops = before;
  return status;
}

static void test_two_queues_fail(void **state) {
  (void)state;
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse_program(text, registry);
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  context = (context_t){.program = program};
  shoal_status_t statuses[MOST_RANKS];
  run_ranks(2, rank_body, NULL, statuses);
  for (int r = 0; r < 2; ++r) assert_error(ABORTED, "the first one", statuses[r]);
  shoal_program_free(program);
  shoal_registry_release(registry);
}

// ---- late, but not elsewhere ------------------------------------------------------------

typedef struct late {
  const shoal_program_t *program;
  const shoal_comm_ops_t *ops;
  atomic_bool asked, ran;
} late_t;

static late_t late;

// Rank 1 waits to begin its run and asks where the others are; the answer takes so long that rank 0
// has come, and has run, meanwhile.
static void survey_slowly(shoal_world_t *world, shoal_account_t *accounts) {
  atomic_store(&late.asked, true);
  wait_for(&late.ran, 20000000000);
  (late.ops->survey)(world, accounts);
}

static shoal_status_t plain_twice(void *self, const shoal_kernel_call_t *kernel) {
  (void)self;
  const float *x = kernel->inputs[0].data;
  float *y = kernel->outputs[0].data;
  for (int i = 0; i < SIZE; ++i) y[i] = 2 * x[i];
  return NULL;
}

static shoal_status_t late_run(shoal_runner_t *runner, int32_t rank) {
  const float x[SIZE] = {1, 1, 1, 1};
  SHOAL_RETURN_IF_ERROR(shoal_runner_feed(runner, "x", x, sizeof x));
  SHOAL_RETURN_IF_ERROR(shoal_runner_feed(runner, "z", x, sizeof x));
  SHOAL_RETURN_IF_ERROR(shoal_runner_run(runner, "train"));  // what is fed is known afterwards
  SHOAL_RETURN_IF_ERROR(shoal_runner_wait(runner));
  if (rank == 0) wait_for(&late.asked, 20000000000);
  shoal_status_t status = shoal_runner_run(runner, "train");
  if (rank == 0) atomic_store(&late.ran, true);
  return status ? status : shoal_runner_wait(runner);
}

static shoal_status_t late_body(void *self, shoal_world_t *world) {
  (void)self;
  const int32_t rank = shoal_world_rank(world);
  const shoal_comm_ops_t *before = world->ops;
  shoal_comm_ops_t ops = *before;
  ops.survey = survey_slowly;
  shoal_device_t *device = NULL;
  shoal_runner_t *runner = NULL;
  shoal_status_t status =
      shoal_device_create(&(shoal_device_options_t){.concurrent = true}, &device);
  if (!status) {
    status = shoal_runner_create(late.program, world, device,
                                 &(shoal_runner_options_t){.provider = plain_twice}, &runner);
  }
  if (rank == 1) {
    late.ops = before;
    world->ops = &ops;
  }
  if (!status) status = late_run(runner, rank);
  shoal_runner_free(runner);
  shoal_device_free(device);
  world->ops = before;
  return status;
}

static void test_late_is_not_elsewhere(void **state) {
  (void)state;
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse_program(text, registry);
  late = (late_t){.program = program};
  run_ranks_ok(2, late_body, NULL);
  shoal_program_free(program);
  shoal_registry_release(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_queues_fail),
                                     cmocka_unit_test(test_late_is_not_elsewhere)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

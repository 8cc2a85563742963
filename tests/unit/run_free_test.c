// A runner that is freed while what it has sent is still on the way: it waits until all of it has
// been received.
// links: run launch
#include <malloc.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/time.h"
#include "run/run.h"
#include "run_support.h"

// Rank 0 sends more than fits on the way. Rank 1 comes to receive it when its first kernel is done,
// and its second one looks at it.
#define MANY "f32[262144]"
#define MANY_BYTES "1048576"
static const char text[] =
    "shoal_program 1\n"
    "world 2\n"
    "micro 1\n"
    "mesh a!data=1@0\n"
    "mesh b!data=1@1\n"
    "channel 0 " MANY
    " \"a!\" -> \"b!\"\n"
    "class 0 ranks 0 arena 2097152\n"
    "  buffer 0 temp \"t\" " MANY " \"a!\" bytes " MANY_BYTES
    " offset 0\n"
    "  segment 0 send\n"
    "    0 compute fill -> (0) value 3 \"t\"\n"
    "    1 comm reshard (0) -> (-) channel 0 \"t\" workspace " MANY_BYTES
    "@1048576 wait 0\n"
    "  order train 0[0<1.1]\n"
    "class 1 ranks 1 arena 3145856\n"
    "  buffer 0 temp \"t\" " MANY " \"b!\" bytes " MANY_BYTES
    " offset 0\n"
    "  buffer 1 temp \"u\" " MANY " \"b!\" bytes " MANY_BYTES
    " offset 1048576\n"
    "  buffer 2 temp \"h\" f32[4] \"b!\" bytes 64 offset 3145728\n"
    "  buffer 3 temp \"k\" f32[4] \"b!\" bytes 64 offset 3145792\n"
    "  segment 0 receive\n"
    "    0 compute fill -> (2) value 1 \"h\"\n"
    "    1 compute compute test.twice (2) -> (3) \"k\"\n"
    "    2 comm reshard (-) -> (0) channel 0 \"t\" workspace " MANY_BYTES
    "@2097152 wait 1\n"
    "    3 compute compute test.twice (0) -> (1) \"u\" wait 2\n"
    "  order train 0[2<1.3]\n";

typedef struct context {
  const shoal_program_t *program;
  bool opaque;
  atomic_bool leaves, freed;
  atomic_int right;  // elements that came as they were sent
} context_t;

static void wait_for(const atomic_bool *flag, int64_t ns) {
  const int64_t end = shoal_time_ns() + ns;
  while (!atomic_load(flag) && shoal_time_ns() < end) sched_yield();
}

static shoal_status_t twice(void *self, const shoal_kernel_call_t *kernel) {
  context_t *context = self;
  const float *x = kernel->inputs[0].data;
  const int64_t count = shoal_shape_count(&kernel->inputs[0].shape);
  if (count == 4) {
    // Until rank 0 leaves, and then as long as a rank takes that does not wait.
    wait_for(&context->leaves, 20000000000);
    wait_for(&context->freed, 100000000);
    return NULL;
  }
  for (int64_t i = 0; i < count; ++i) atomic_fetch_add(&context->right, x[i] == 3);
  return NULL;
}

static void *take(void *self, size_t bytes) {
  (void)self;
  return malloc(bytes);
}

// What is freed is spoilt.
static void spoil(void *self, void *memory) {
  (void)self;
  if (memory) memset(memory, 0xa5, malloc_usable_size(memory));
  free(memory);
}

static shoal_status_t rank_body(void *self, shoal_world_t *world) {
  context_t *context = self;
  shoal_device_t *device = NULL;
  shoal_runner_t *runner = NULL;
  shoal_status_t status = shoal_device_create(
      &(shoal_device_options_t){.opaque = context->opaque, .concurrent = true}, &device);
  if (!status) {
    status = shoal_runner_create(
        context->program, world, device,
        &(shoal_runner_options_t){
            .allocator = {NULL, take, spoil}, .provider = twice, .provider_self = context},
        &runner);
  }
  if (!status) status = shoal_runner_run(runner, "train");
  if (shoal_world_rank(world) == 0) atomic_store(&context->leaves, true);
  shoal_runner_free(runner);
  shoal_device_free(device);
  if (shoal_world_rank(world) == 0) atomic_store(&context->freed, true);
  return status;
}

static void test_sends_are_received(void **state) {
  (void)state;
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse_program(text, registry);
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  for (int opaque = 0; opaque < 2; ++opaque) {
    context_t context = {.program = program, .opaque = opaque};
    run_ranks_ok(2, rank_body, &context);
    assert_int_equal(atomic_load(&context.right), 262144);
  }
  shoal_program_free(program);
  shoal_registry_release(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sends_are_received)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

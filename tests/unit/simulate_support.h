// What the tests of the simulator share: simulating a program's text, and a program of two stages.
#ifndef SHOAL_TESTS_SIMULATE_SUPPORT_H_
#define SHOAL_TESTS_SIMULATE_SUPPORT_H_

#include "base/failing.h"
#include "program_support.h"
#include "shoal/simulate.h"
#include "simulate/simulate_impl.h"

static shoal_registry_t *registry;

static int set_up(void **state) {
  (void)state;
  registry = test_registry();
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  shoal_registry_release(registry);
  return 0;
}

// Programs here are for the simulator only: their memory is not planned, and they are not checked.
static shoal_simulation_t *simulate(const char *text, const char *cluster_text,
                                    const char *times_text, const char *graph) {
  shoal_program_t *program;
  shoal_cluster_t *cluster;
  shoal_times_t *times = NULL;
  shoal_simulation_t *simulation;
  const shoal_allocator_t system = shoal_allocator_system();
  assert_ok(shoal_program_parse("program", text, registry, system, &program));
  assert_ok(shoal_cluster_parse("cluster", cluster_text, system, &cluster));
  if (times_text) assert_ok(shoal_times_parse("times", times_text, system, &times));
  assert_ok(shoal_simulate(program,
                           &(shoal_simulate_options_t){
                               .graph = graph, .cluster = cluster, .times = times, .spans = true},
                           &simulation));
  shoal_times_free(times);
  shoal_cluster_free(cluster);
  shoal_program_free(program);
  return simulation;
}

#define expect(value, expected)                                                     \
  do {                                                                              \
    if ((value) != (expected)) {                                                    \
      fail_msg(#value " is %.17g, not %.17g", (double)(value), (double)(expected)); \
    }                                                                               \
  } while (0)

// Rank 0 computes and sends, rank 1 receives and computes, four micro-batches of 4096 bytes, each
// when the one before it has been sent, or computed.
static const char PIPE[] =
    "shoal_program 1\n"
    "world 2\n"
    "micro 4\n"
    "mesh a!d=1,micro=4@0\n"
    "mesh b!d=1,micro=4@1\n"
    "channel 0 f32[4, 1024] \"a!micro:0\" -> \"b!micro:0\" micro\n"
    "class 0 ranks 0 arena 4096\n"
    "  buffer 0 temp \"x\" f32[4, 1024] \"a!micro:0\" bytes 4096 offset 0\n"
    "  segment 0 first\n"
    "    0 compute fill -> (0) value 1 \"x\"\n"
    "    1 comm reshard (0) -> (-) channel 0 \"x\" wait 0\n"
    "  order run 0:0[0<1.1] 0:1[0<1.1] 0:2[0<1.1] 0:3[0<1.1]\n"
    "class 1 ranks 1 arena 8192\n"
    "  buffer 0 temp \"x\" f32[4, 1024] \"b!micro:0\" bytes 4096 offset 0\n"
    "  buffer 1 temp \"y\" f32[4, 1024] \"b!micro:0\" bytes 4096 offset 4096\n"
    "  segment 0 second\n"
    "    0 comm reshard (-) -> (0) channel 0 \"x\"\n"
    "    1 compute compute shoal.neg (0) -> (1) \"y\" wait 0\n"
    "  order run 0:0[0<1.1] 0:1[0<1.1] 0:2[0<1.1] 0:3[0<1.1]\n";

static const char PIPE_TIMES[] =
    "{\"shoal_times\": 1, \"instructions\": ["
    "{\"class\": 0, \"segment\": \"first\", \"index\": 0, \"seconds\": 1},"
    "{\"class\": 1, \"segment\": \"second\", \"index\": 1, \"seconds\": 2}]}";

#endif  // SHOAL_TESTS_SIMULATE_SUPPORT_H_

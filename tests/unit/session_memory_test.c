// A rank's memory grows by its arenas on device and host and by what the session says is fixed, and
// by no more: not by what lies in a file, and not with steps. Measured as the process's peak of
// resident memory, which the kernel counts. links: all
#include <stdio.h>
#include <string.h>

#include "plan_fixture.h"
#include "run_support.h"
#include "shoal/ops.h"
#include "shoal/session.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1  // shadow memory counts, too
#else
#define SANITIZED 0
#endif

enum { BATCH = 32, WIDTH = 640, LAYERS = 3, MIB = 1 << 20 };
// What the C library keeps for itself, and pages that are touched in part.
enum { SLACK = 3 * MIB };

static shoal_program_t *make_program(shoal_model_t *model, const char *memory) {
  const shoal_intent_decision_t decision = {
      .kind = "memory", .pattern = "*/weight*", .choice = memory};
  static const char *const mesh = "data=1";
  shoal_plan_t *plan;
  assert_ok(shoal_plan_create(
      model, rules,
      &(shoal_intent_t){
          .mesh_count = 1, .meshes = &mesh, .decision_count = 1, .decisions = &decision},
      1, shoal_allocator_system(), &plan));
  shoal_program_t *program = lower(plan);
  shoal_plan_free(plan);
  return program;
}

static shoal_model_t *make_model(void) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t h = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(BATCH, WIDTH));
  for (int c = 0; c < LAYERS; ++c) {
    char name[16];
    snprintf(name, sizeof name, "layer%d", c);
    h = shoal_tanh(g, shoal_nn_linear(g, name, h, WIDTH));
  }
  const shoal_value_t loss = shoal_reduce_mean(g, shoal_square(g, h), SHOAL_SHAPE(0, 1));
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 1e-2f});
  shoal_output(g, "loss", loss);
  assert_ok(shoal_model_status(model));
  return model;
}

// "VmHWM" (the peak) or "VmRSS" of this process, in bytes.
static int64_t resident(const char *what) {
  char line[256];
  long long kib = -1;
  FILE *file = fopen("/proc/self/status", "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file))
    if (strncmp(line, what, strlen(what)) == 0) sscanf(line + strlen(what) + 1, "%lld", &kib);
  fclose(file);
  assert_true(kib >= 0);
  return kib * 1024;
}

// The peak becomes what is resident now; false where the kernel does not let us.
static bool reset_peak(void) {
  FILE *file = fopen("/proc/self/clear_refs", "w");
  if (!file) return false;
  const bool written = fputs("5", file) >= 0;
  return fclose(file) == 0 && written;
}

typedef struct growth {
  int64_t peak, later;  // over creation and a step; over the steps after it
  shoal_memory_report_t made, used;
} growth_t;

static growth_t train(const shoal_program_t *program) {
  static float x[BATCH * WIDTH];
  shoal_session_t *session = NULL;
  growth_t growth = {0};
  for (int i = 0; i < BATCH * WIDTH; ++i) x[i] = (float)(i % 17) / 17;
  const int64_t before = resident("VmRSS");
  assert_ok(shoal_session_create(program, NULL, &session));
  growth.made = shoal_session_memory(session);
  for (int step = 0; step < 4; ++step) {
    assert_ok(shoal_feed(session, "x", x, sizeof x));
    assert_ok(shoal_run(session, "train"));
    assert_ok(shoal_session_wait(session));
    if (step == 0) growth.peak = resident("VmHWM") - before;
  }
  growth.later = resident("VmHWM") - before - growth.peak;
  growth.used = shoal_session_memory(session);
  shoal_session_free(session);
  return growth;
}

static void expect_growth(const char *memory) {
  shoal_model_t *model = make_model();
  shoal_program_t *program = make_program(model, memory);
  if (!reset_peak()) skip();
  const growth_t growth = train(program);
  const int64_t *planned = growth.made.arena_planned;
  const int64_t weights = INT64_C(3) * LAYERS * WIDTH * WIDTH * 4;
  const int64_t most =
      planned[SHOAL_MEMORY_DEVICE] + planned[SHOAL_MEMORY_HOST] + growth.made.fixed + SLACK;
  print_message("%s: device %.1f, host %.1f, file %.1f, fixed %.1f MiB: grew by %.1f, then %.1f\n",
                memory, (double)planned[0] / MIB, (double)planned[1] / MIB,
                (double)planned[2] / MIB, (double)growth.made.fixed / MIB,
                (double)growth.peak / MIB, (double)growth.later / MIB);
  if (strcmp(memory, "host") == 0) assert_int_equal(planned[SHOAL_MEMORY_HOST], weights);
  if (strcmp(memory, "file") == 0) assert_int_equal(planned[SHOAL_MEMORY_FILE], weights);
  assert_int_equal(growth.used.fixed, growth.made.fixed);
  assert_true(growth.made.fixed > 0 && growth.made.fixed < 8 * MIB);
  if (!SANITIZED) {
    assert_true(growth.peak <= most);
    assert_true(growth.later <= MIB);
    // It measures something: what is touched counts.
    assert_true(growth.peak >= planned[SHOAL_MEMORY_DEVICE] / 2 + planned[SHOAL_MEMORY_HOST] / 2);
  }
  shoal_program_free(program);
  shoal_model_free(model);
}

static void on_the_device(void **state) {
  (void)state;
  expect_growth("device");
}

static void on_the_host(void **state) {
  (void)state;
  expect_growth("host");
}

static void in_a_file(void **state) {
  (void)state;
  expect_growth("file");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(in_a_file),
      cmocka_unit_test(on_the_host),
      cmocka_unit_test(on_the_device),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

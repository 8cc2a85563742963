// links: all
//
// Simulation: better machines are never slower, what is sent is what the algorithms send, and
// queues overlap as far as waits allow.
#include "plan_fixture.h"
#include "shoal/simulate.h"

static shoal_program_t *program_by(const shoal_model_t *model, const char *strategy,
                                   const char *mesh, int32_t world) {
  shoal_plan_t *plan = plan_by(model, rules, strategy, mesh, world);
  shoal_program_t *program = lower(plan);
  shoal_plan_free(plan);
  return program;
}

// What the slowest ranks of a run take.
typedef struct figures {
  double seconds, compute_seconds, comm_seconds, comm_bytes;
  int64_t arena_bytes;
} figures_t;

static figures_t simulate(const shoal_program_t *program, const char *graph,
                          const shoal_cluster_t *cluster) {
  shoal_simulation_t *s;
  assert_ok(
      shoal_simulate(program, &(shoal_simulate_options_t){.graph = graph, .cluster = cluster}, &s));
  const shoal_simulated_t *group = &s->groups[s->slowest];
  figures_t figures = {.seconds = s->seconds,
                       .compute_seconds = group->busy[SHOAL_QUEUE_COMPUTE],
                       .comm_seconds = group->busy[SHOAL_QUEUE_COMM],
                       .arena_bytes = s->arena_bytes};
  for (int i = 0; i < SHOAL_CLUSTER_LEVEL_COUNT; ++i) figures.comm_bytes += group->sent[i];
  assert_true(s->seconds > 0);
  shoal_simulation_free(s);
  return figures;
}

// Each constant of the machine by itself: better is not slower, and it matters somewhere.
static void test_better_is_not_slower(void **state) {
  (void)state;
  shoal_model_t *models[] = {make_mlp(&(mlp_sizes_t){.batch = 64}), small_gpt(false)};
  static const struct {
    int model;
    const char *strategy, *mesh;
    int32_t world;
  } plans[] = {{0, "data", "data=2,micro=3", 2},
               {0, "tensor", "tensor=4", 4},
               {1, "data", "data=3", 3},
               {1, "tensor", "data=2,tensor=2,micro=2", 4}};
  int64_t faster[4] = {0};
  for (int64_t i = 0; i < COUNT(plans); ++i) {
    shoal_program_t *program =
        program_by(models[plans[i].model], plans[i].strategy, plans[i].mesh, plans[i].world);
    for (int k = 0; k < 4; ++k) {
      static const char *const better[] = {"device: {flops: 1.0e10}", "device: {bandwidth: 2.0e10}",
                                           "link: {latency: 2.5e-6}", "link: {bandwidth: 4.0e9}"};
      char text[100];
      snprintf(text, sizeof text, "shoal_cluster: 1\n%s\n", better[k]);
      shoal_cluster_t *fast;
      assert_ok(shoal_cluster_parse("fast", text, shoal_allocator_system(), &fast));
      double before = simulate(program, "train", shoal_cluster_default()).seconds,
             after = simulate(program, "train", fast).seconds;
      shoal_cluster_free(fast);
      assert_true(after <= before);
      faster[k] += after < before;
    }
    shoal_program_free(program);
  }
  for (int k = 0; k < 4; ++k) assert_true(faster[k] > 0);
  for (int i = 0; i < 2; ++i) shoal_model_free(models[i]);
}

// Data parallel: every large gradient in parts to all others and back, 2 (n - 1) / n of its bytes;
// small ones and the scalar loss whole, to all others.
static void test_bytes_of_data_parallel(void **state) {
  (void)state;
  shoal_model_t *model = make_mlp(&(mlp_sizes_t){.batch = 30, .dtype = SHOAL_F32});
  double large = 0, small = 4;
  for (int64_t s = 0; s < model->states.count; ++s) {
    double bytes = 4 * (double)shoal_shape_count(&model->states.items[s].type.shape);
    if (model->states.items[s].options.trainable) *(bytes > 4096 ? &large : &small) += bytes;
  }
  assert_true(large > 1000 && small > 4);
  for (int32_t n = 1; n <= 6; ++n)
    for (int64_t micro = 1; micro <= 3; micro += 2) {
      char mesh[48];
      snprintf(mesh, sizeof mesh, "data=%d,micro=%lld", n, (long long)micro);
      shoal_program_t *program = program_by(model, "data", mesh, n);
      double sent = simulate(program, "train", shoal_cluster_default()).comm_bytes;
      double expected = (n - 1) * (2 * large / n + small);
      assert_true(sent > expected - 1e-6 && sent < expected + 1e-6);
      shoal_program_free(program);
    }
  shoal_model_free(model);
}

// In rings a gather of 1/n each sends n - 1 parts; flat moments cost what they save: a
// reduce-scatter and an all-gather are one all-reduce.
static void test_bytes_of_flat_moments(void **state) {
  (void)state;
  shoal_model_t *model = make_mlp(&(mlp_sizes_t){
      .batch = 32, .in_features = 64, .hidden = 64, .classes = 64, .dtype = SHOAL_F32});
  const shoal_intent_entry_t layouts[] = {{"*#*", "data:flat"}};
  shoal_plan_t *plan;
  assert_ok(shoal_plan_make(
      model, rules,
      &(shoal_plan_options_t){
          .strategy = "data", .mesh = "data=4", .world = 4, .layout_count = 1, .layouts = layouts},
      &plan));
  shoal_program_t *flat = lower(plan), *plain = program_by(model, "data", "data=4", 4);
  shoal_cluster_t *rings;
  assert_ok(shoal_cluster_parse("c", "shoal_cluster: 1\ndevice: {collectives: ring}\n",
                                shoal_allocator_system(), &rings));
  double sent = simulate(flat, "train", rings).comm_bytes;
  double before = simulate(plain, "train", rings).comm_bytes;
  shoal_cluster_free(rings);
  assert_true(sent > before - 1e-6 && sent < before + 1e-6);
  assert_true(simulate(flat, "train", shoal_cluster_default()).arena_bytes <
              simulate(plain, "train", shoal_cluster_default()).arena_bytes);
  shoal_program_free(plain);
  shoal_program_free(flat);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// The arena is the largest class's; every graph can be asked for; others are refused.
static void test_classes_and_graphs(void **state) {
  (void)state;
  shoal_model_t *model = small_mlp(7);
  shoal_program_t *program = program_by(model, "single", NULL, 3);
  figures_t simulation = simulate(program, "train", shoal_cluster_default());
  assert_int_equal(simulation.arena_bytes, program->classes[0].arena_bytes[SHOAL_MEMORY_DEVICE]);
  assert_true(program->classes[1].arena_bytes[SHOAL_MEMORY_DEVICE] < simulation.arena_bytes);
  simulate(program, "init", shoal_cluster_default());
  simulate(program, "eval", shoal_cluster_default());
  shoal_simulation_t *none;
  assert_error(NOT_FOUND, "no graph 'generate'",
               shoal_simulate(program, &(shoal_simulate_options_t){.graph = "generate"}, &none));
  shoal_program_free(program);
  shoal_model_free(model);
}

// Communication runs besides computation where nobody waits for it: the step is shorter than both
// in turn, and not shorter than either.
static void test_queues_overlap(void **state) {
  (void)state;
  shoal_model_t *model = make_mlp(&(mlp_sizes_t){.batch = 64, .layers = 4});
  shoal_program_t *program = program_by(model, "data", "data=4", 4);
  figures_t s = simulate(program, "train", shoal_cluster_default());
  assert_true(s.seconds >= s.compute_seconds && s.seconds >= s.comm_seconds);
  assert_true(s.comm_seconds > 0 && s.compute_seconds > 0);
  assert_true(s.seconds < s.compute_seconds + s.comm_seconds);
  shoal_program_free(program);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_better_is_not_slower),  cmocka_unit_test(test_bytes_of_data_parallel),
      cmocka_unit_test(test_bytes_of_flat_moments), cmocka_unit_test(test_classes_and_graphs),
      cmocka_unit_test(test_queues_overlap),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

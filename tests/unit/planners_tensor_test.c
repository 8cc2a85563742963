// links: all
//
// What a layer of a transformer sends under `tensor` and `sequence`, to the byte: the difference
// between models of one and of two layers. And what `sequence` decides where there is none, or
// none in some graph.
#include "plan_support.h"
#include "shoal/simulate.h"

static shoal_rules_t *rules;

static int set_up(void **state) {
  (void)state;
  rules = new_rules();
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  shoal_rules_free(rules);
  return 0;
}

enum { ROWS = 8, LENGTH = 8, WIDTH = 16 };

static shoal_model_t *make_layers(int64_t layers) {
  return make_gpt(&(gpt_sizes_t){.batch = ROWS,
                                 .context = LENGTH,
                                 .vocabulary = 16,
                                 .width = WIDTH,
                                 .heads = 4,
                                 .layers = layers,
                                 .dtype = SHOAL_F32});
}

// All that ranks send in a step, divided by n - 1; collectives as rings, however small.
static int64_t sent_by(const shoal_model_t *model, const char *strategy, const char *mesh,
                       int32_t world) {
  shoal_plan_t *plan = plan_by(model, rules, strategy, mesh, world);
  shoal_program_t *program = lower(plan);
  shoal_cluster_t *cluster;
  shoal_simulation_t *simulation;
  assert_ok(shoal_cluster_parse("cluster", "a100x8:1", shoal_allocator_system(), &cluster));
  assert_ok(shoal_simulate(program, &(shoal_simulate_options_t){.cluster = cluster}, &simulation));
  const int64_t sent = (int64_t)(simulation->bytes[SHOAL_CLUSTER_NODE] + 0.5);
  assert_int_equal(sent % (world - 1), 0);
  shoal_simulation_free(simulation);
  shoal_cluster_free(cluster);
  shoal_program_free(program);
  shoal_plan_free(plan);
  return sent / (world - 1);
}

static void test_bytes_of_a_layer(void **state) {
  (void)state;
  shoal_model_t *one = make_layers(1), *two = make_layers(2);
  // Of all micro-batches together, so that their number does not matter.
  const int64_t activation = ROWS * LENGTH * WIDTH * (int64_t)sizeof(float);
  // Gradients of two norms and of the biases behind two row products are summed over the sequence,
  // once a step.
  const int64_t vectors = 6 * 2 * WIDTH * (int64_t)sizeof(float);
  for (int32_t n = 2; n <= 4; n += 2)
    for (int m = 1; m <= 2; ++m) {
      char mesh[32];
      snprintf(mesh, sizeof mesh, "tensor=%d,micro=%d", n, m);
      // 4 all-reduces, each twice its bytes
      assert_int_equal(sent_by(two, "tensor", mesh, n) - sent_by(one, "tensor", mesh, n),
                       4 * 2 * activation);
      // 4 all-gathers and 4 reduce-scatters, and 2 gathered again for the backward pass
      assert_int_equal(sent_by(two, "sequence", mesh, n) - sent_by(one, "sequence", mesh, n),
                       (4 + 4 + 2) * activation + vectors);
    }
  shoal_model_free(two);
  shoal_model_free(one);
}

// What lies between products is cut by sequence, also in the backward pass, and not kept whole.
static void test_sequence(void **state) {
  (void)state;
  shoal_model_t *gpt = make_layers(2);
  shoal_plan_t *plan = plan_by(gpt, rules, "sequence", "data=2,tensor=2", 4);
  expect_layout(plan, "block0/add", "data:0,tensor:1");
  expect_layout(plan, "block1/ln_1/layer_norm.y", "data:0,tensor:1");
  expect_layout(plan, "block1/mlp/gelu", "data:0,tensor:2");
  expect_layout(plan, "grad/block1/ln_2/layer_norm/layer_norm_grad.dx", "data:0,tensor:1");
  expect_state(plan, "block0/mlp/fc2/weight", "tensor:0");
  shoal_program_t *program = lower(plan);
  const int64_t cut = program->classes[0].arena_bytes[SHOAL_MEMORY_DEVICE];
  shoal_program_free(program);
  shoal_plan_free(plan);
  plan = plan_by(gpt, rules, "tensor", "data=2,tensor=2", 4);
  program = lower(plan);
  assert_true(cut < program->classes[0].arena_bytes[SHOAL_MEMORY_DEVICE]);
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_free(gpt);
  // Rows of a batch are no sequence: as tensor.
  shoal_model_t *mlp = small_mlp(8);
  plan = plan_by(mlp, rules, "sequence", NULL, 2);
  assert_int_equal(shoal_plan_intent(plan)->decision_count, 0);
  expect_state(plan, "fc1/weight", "tensor:1");
  shoal_plan_free(plan);
  shoal_model_free(mlp);
}

// Graphs of one model share the names of their nodes, and not all of them have a sequence to cut:
// what is decided holds in each of them. In `decode` every row is one token.
static void test_graphs_of_a_model(void **state) {
  (void)state;
  static const char *const models[] = {"gpt2-tiny", "llama-tiny", "t5-tiny"};
  static const char *const strategies[] = {"sequence", "context"};
  for (size_t i = 0; i < sizeof models / sizeof models[0]; ++i) {
    shoal_zoo_t *zoo;
    shoal_model_t *model = empty_model();
    assert_ok(shoal_zoo_create(models[i], NULL, &zoo));
    shoal_zoo_build_tokens(zoo, shoal_model_graph(model, "prefill"), "prefill", 3, 4);
    shoal_zoo_build(zoo, shoal_model_graph(model, "decode"), "decode", 3);
    assert_ok(shoal_model_status(model));
    for (size_t s = 0; s < sizeof strategies / sizeof strategies[0]; ++s) {
      shoal_plan_t *plan = plan_by(model, rules, strategies[s], NULL, 2);
      shoal_program_free(lower(plan));
      shoal_plan_free(plan);
    }
    shoal_zoo_free(zoo);
    shoal_model_free(model);
  }
  // What all graphs can do is decided: batches of other sizes have the same sequence.
  shoal_zoo_t *zoo;
  shoal_model_t *model = empty_model();
  assert_ok(shoal_zoo_create("gpt2-tiny", NULL, &zoo));
  shoal_zoo_add(zoo, model);
  shoal_zoo_build(zoo, shoal_model_graph(model, "eval.3"), "eval", 3);
  shoal_plan_t *plan = plan_by(model, rules, "sequence", NULL, 2);
  expect_layout(plan, "block0/add", "tensor:1");
  shoal_plan_free(plan);
  shoal_zoo_free(zoo);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bytes_of_a_layer),
      cmocka_unit_test(test_sequence),
      cmocka_unit_test(test_graphs_of_a_model),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

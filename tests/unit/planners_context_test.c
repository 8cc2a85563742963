// links: all
//
// Strategy `context`: tokens are fed cut, attention is cut by heads and given back by tokens,
// forward and backward; where heads are few, keys are gathered and tokens dealt in chunks; with
// other axes. tests/check_space.sh proves the plans.
#include "plan_support.h"
#include "shoal/simulate.h"

static shoal_rules_t *rules;
static shoal_cluster_t *rings;  // collectives as the formulas count them, however small

static int set_up(void **state) {
  (void)state;
  rules = new_rules();
  assert_ok(shoal_cluster_parse("cluster", "a100x8:1", shoal_allocator_system(), &rings));
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  shoal_cluster_free(rings);
  shoal_rules_free(rules);
  return 0;
}

static void test_heads(void **state) {
  (void)state;
  shoal_model_t *model = zoo_model("gpt2-tiny", "layers=1");
  shoal_plan_t *plan = plan_by(model, rules, "context", NULL, 3);
  assert_string_equal(shoal_plan_intent(plan)->meshes[0], "context=3");
  expect_layout(plan, "ids", "context:1");
  expect_layout(plan, "labels", "context:1");
  expect_layout(plan, "block0/attn/q/transpose", "context:2");
  expect_way(plan, "block0/attn/attention", "context", "{q:1, k:1, v:1 -> out:1, lse:1}~");
  expect_way(plan, "block0/attn/transpose", "context", "{x:2 -> out:1}~");
  expect_way(plan, "block0/mlp/fc1/einsum", "context", "{a:1 -> out:1}~");
  expect_way(plan, "grad/block0/attn/attention/attention_grad", "context",
             "{q:1, k:1, v:1, out:1, lse:1, dout:1 -> dq:1, dk:1, dv:1}~");
  expect_way(plan, "grad/block0/attn/k/transpose/transpose", "context", "{x:2 -> out:1}~");
  expect_layout(plan, "grad/block0/attn/qkv/einsum/einsum", "context:1");
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// Queries that share keys stay together; the heads that `tensor` leaves are dealt.
static void test_grouped(void **state) {
  (void)state;
  shoal_model_t *model = zoo_model("llama-tiny", "layers=1 heads=8 key_heads=4 width=32");
  shoal_plan_t *plan = plan_by(model, rules, "context", "data=2,context=2,tensor=2", 8);
  expect_layout(plan, "ids", "data:0,context:1");
  expect_way(plan, "block0/attn/attention", "context", "{q:1/2, k:1, v:1 -> out:1/2, lse:1/2}~");
  expect_way(plan, "block0/attn/attention", "tensor", "{q:1/2, k:1, v:1 -> out:1/2, lse:1/2}~");
  expect_way(plan, "grad/block0/attn/k/rotary/rotary", "context", "{x:2 -> out:2}~");
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
  plan = plan_by(model, rules, "context", "context=2,tensor=4", 8);  // one head is left of four
  expect_way(plan, "block0/attn/attention", "context", "{q:2 -> out:2, lse:2}~");
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// Gradients of gathered keys are scattered as they are reduced.
static void test_gather(void **state) {
  (void)state;
  shoal_model_t *model = zoo_model("gpt2-tiny", "layers=1 heads=2 context=16");
  shoal_plan_t *plan = plan_by(model, rules, "context", NULL, 2);
  expect_layout(plan, "ids", "context:1");  // a head for each rank
  shoal_plan_free(plan);
  plan = plan_by(model, rules, "context", "context=2,tensor=2", 4);
  expect_layout(plan, "ids", "context:1*8");
  expect_layout(plan, "labels", "context:1*8");
  expect_way(plan, "block0/attn/attention", "context", "{q:2 -> out:2, lse:2}~");
  expect_way(plan, "grad/block0/attn/v/transpose/transpose", "context", "{x:2 -> out:1}~");
  expect_layout(plan, "grad/block0/attn/v/transpose/transpose", "context:1*8,tensor:2");
  expect_way(plan, "grad/block0/attn/attention/attention_grad", "context",
             "{q:2, out:2, lse:2, dout:2 -> dq:2, dk:sum, dv:sum}~");
  shoal_plan_free(plan);
  shoal_model_free(model);
  model = zoo_model("gpt2-tiny", "layers=1 heads=2 context=17");  // chunks do not divide it
  plan = plan_by(model, rules, "context", NULL, 4);
  expect_layout(plan, "ids", "context:1");
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// Both sequences of an encoder and a decoder are cut.
static void test_two_sequences(void **state) {
  (void)state;
  shoal_model_t *model = zoo_model("t5-tiny", NULL);
  shoal_plan_t *plan = plan_by(model, rules, "context", NULL, 2);
  const shoal_graph_t *graph = shoal_model_find_graph(model, "train");
  for (int64_t i = 0; i < graph->inputs.count; ++i)
    if (graph->values.items[graph->inputs.items[i].value].type.shape.rank == 2)
      expect_layout(plan, graph->inputs.items[i].name, "context:1");
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// Patches of a picture become tokens inside of the model: behind the one that stands for all.
static void test_tokens_begin_inside(void **state) {
  (void)state;
  shoal_model_t *model = zoo_model("vit-tiny", "layers=1");
  shoal_plan_t *plan = plan_by(model, rules, "context", NULL, 3);
  expect_layout(plan, "x", "");
  expect_way(plan, "concat", "context", "");
  expect_way(plan, "add", "context", "{a:1, b:1 -> out:1}~");
  expect_layout(plan, "block0/attn/k/transpose", "context:2");
  expect_way(plan, "block0/attn/attention", "context", "{q:1, k:1, v:1 -> out:1, lse:1}~");
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// Bytes that all ranks send in a step.
static double bytes_sent(const shoal_model_t *model, const char *mesh, int32_t world) {
  shoal_plan_t *plan = plan_by(model, rules, "context", mesh, world);
  shoal_program_t *program = lower(plan);
  shoal_simulation_t *simulation;
  double bytes = 0;
  assert_ok(shoal_simulate(program, &(shoal_simulate_options_t){.cluster = rings}, &simulation));
  for (int l = 0; l < SHOAL_CLUSTER_LEVEL_COUNT; ++l) bytes += simulation->bytes[l];
  shoal_simulation_free(simulation);
  shoal_program_free(program);
  shoal_plan_free(plan);
  return bytes;
}

// Eight all-to-alls of an activation a layer: queries, keys, values and results, and the gradients
// of each. Keys: two gathers, and two reductions that scatter. Positions are learned where their
// tokens are, so that their gradient is gathered; all other gradients are reduced.
static void test_bytes(void **state) {
  (void)state;
  const double batch = 2, tokens = 16, width = 16, layers = 2, size = 4;
  shoal_model_t *model =
      zoo_model("gpt2-tiny", "batch=2 context=16 width=16 heads=4 layers=2 vocabulary=8 dtype=f32");
  double parameters = 0;
  for (int64_t s = 0; s < model->states.count; ++s)
    if (model->states.items[s].options.trainable)
      parameters += (double)shoal_shape_count(&model->states.items[s].type.shape);
  const double activation = batch * tokens * width * size, positions = tokens * width * size;
  for (int32_t n = 2; n <= 8; n *= 2) {
    const double gradients = (2 * parameters * size - positions) * (n - 1);
    const double moved = n <= 4 ? 8 * activation * (n - 1) / n : 4 * activation * (n - 1);
    const double sent = bytes_sent(model, NULL, n);
    const double off = sent - gradients - layers * moved;
    if (off < 0 || off > 16 * n)  // the loss
      fail_msg("%d ranks send %.0f bytes, expected %.0f", n, sent, gradients + layers * moved);
  }
  shoal_model_free(model);
}

static void test_refused(void **state) {
  (void)state;
  shoal_plan_t *plan;
  shoal_model_t *mlp = small_mlp(4);
  assert_error(UNSUPPORTED, "no attention over tokens",
               shoal_plan_make(mlp, rules,
                               &(shoal_plan_options_t){.strategy = "context", .world = 2}, &plan));
  shoal_model_free(mlp);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_heads),
      cmocka_unit_test(test_grouped),
      cmocka_unit_test(test_gather),
      cmocka_unit_test(test_two_sequences),
      cmocka_unit_test(test_tokens_begin_inside),
      cmocka_unit_test(test_bytes),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

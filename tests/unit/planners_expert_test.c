// links: all
//
// Strategy `expert`: experts and rows of the batch are dealt over one axis, tokens go to their
// experts and back by all-to-all, forward and backward; with other axes; what it refuses.
// tests/check_experts.sh proves the plans.
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

static void test_experts_are_dealt(void **state) {
  (void)state;
  shoal_model_t *model = zoo_model("moe-gpt-tiny", "layers=1 capacity=1");
  shoal_plan_t *plan = plan_by(model, rules, "expert", NULL, 2);
  assert_string_equal(shoal_plan_intent(plan)->meshes[0], "expert=2");
  expect_layout(plan, "ids", "expert:0");
  expect_layout(plan, "block0/moe/gate", "expert:0");
  expect_layout(plan, "block0/moe/down", "expert:0");
  expect_layout(plan, "block0/moe/down#adamw.v", "expert:0");
  expect_layout(plan, "block0/moe/router/weight", "");
  expect_way(plan, "block0/moe/dispatch/cumsum", "expert", "{x:0 -> out:0}~");
  expect_way(plan, "block0/moe/dispatch/bound", "expert", "{x:0, counts:0 -> out:0}~");
  expect_way(plan, "block0/moe/expert/einsum", "expert", "{a:1, b:0 -> out:1}~");
  expect_way(plan, "block0/moe/expert/bound", "expert", "{x:1, counts:1 -> out:1}~");
  expect_way(plan, "block0/moe/combine/reshape", "expert", "{x:0 -> out:0}~");
  expect_way(plan, "grad/block0/moe/expert/bound/bound", "expert", "{x:0, counts:0 -> out:0}~");
  expect_way(plan, "grad/block0/moe/expert/einsum_2/einsum_1", "expert", "{a:1, b:1 -> out:0}~");
  expect_way(plan, "grad/block0/moe/dispatch/bound/bound", "expert", "{x:1, counts:1 -> out:1}~");
  expect_way(plan, "grad/block0/moe/dispatch/reshape_4/reshape", "expert", "{x:0 -> out:0}~");
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// Moments of experts are shared out among the ranks that have the same ones; inside of an expert
// the first products are cut by columns and the last by rows, forward and backward.
static void test_other_axes(void **state) {
  (void)state;
  shoal_model_t *model = zoo_model("moe-gpt-tiny", "layers=1 capacity=1");
  shoal_plan_t *plan = plan_by(model, rules, "expert+zero1", "data=2,expert=2,tensor=2", 8);
  expect_layout(plan, "ids", "expert:0,data:0");
  expect_layout(plan, "block0/moe/gate", "expert:0,tensor:2");
  expect_layout(plan, "block0/moe/up", "expert:0,tensor:2");
  expect_layout(plan, "block0/moe/down", "expert:0,tensor:1");
  expect_layout(plan, "block0/moe/up#adamw.m", "expert:0,tensor:2,data:flat");
  expect_way(plan, "block0/moe/expert/einsum_2", "tensor", "{a:3, b:1 -> out:sum}~");
  expect_way(plan, "grad/block0/moe/expert/einsum_2/einsum", "tensor", "{b:1 -> out:3}~");
  expect_way(plan, "grad/block0/moe/expert/einsum_2/einsum_1", "tensor", "{b:3 -> out:1}~");
  expect_layout(plan, "block0/attn/qkv/weight#adamw.m", "tensor:1*(12/2,6/2,6/2),data:flat");
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// Bytes that all ranks send in a step.
static double bytes_sent(const shoal_model_t *model, int32_t world) {
  shoal_plan_t *plan = plan_by(model, rules, "expert", NULL, world);
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

// Four all-to-alls of all places a layer, and one of how many are taken. Gradients of experts stay
// where they are; all others are reduced.
static void test_bytes(void **state) {
  (void)state;
  const double batch = 4, tokens = 8, experts = 4, places = 4, width = 16, layers = 2, size = 4;
  shoal_model_t *model = zoo_model("moe-gpt-tiny",
                                   "batch=4 context=8 experts=4 top_k=2 capacity=1 width=16 "
                                   "heads=4 key_heads=2 layers=2 vocabulary=8 balance=0 dtype=f32");
  double dense = 0;
  assert_true(places == 2 * tokens / experts);
  for (int64_t s = 0; s < model->states.count; ++s)
    if (model->states.items[s].options.trainable && model->states.items[s].type.shape.rank < 3)
      dense += (double)shoal_shape_count(&model->states.items[s].type.shape);
  for (int32_t n = 2; n <= 4; n *= 2) {
    const double gradients = 2 * dense * size * (n - 1);
    const double rows = batch * experts * places * width * size, counts = batch * experts * 8;
    const double moved = layers * (4 * rows + counts) * (n - 1) / n;
    const double sent = bytes_sent(model, n), off = sent - gradients - moved;
    if (off < 0 || off > 16 * n)  // the loss
      fail_msg("%d ranks send %.0f bytes, expected %.0f", n, sent, gradients + moved);
  }
  shoal_model_free(model);
}

static void test_refused(void **state) {
  (void)state;
  shoal_plan_t *plan;
  const shoal_plan_options_t options = {.strategy = "expert", .world = 2};
  shoal_model_t *mlp = small_mlp(4);
  assert_error(UNSUPPORTED, "no experts", shoal_plan_make(mlp, rules, &options, &plan));
  shoal_model_free(mlp);
  shoal_model_t *model = zoo_model("moe-gpt-tiny", "layers=1");
  assert_error(UNSUPPORTED, "sorted by expert", shoal_plan_make(model, rules, &options, &plan));
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_experts_are_dealt),
      cmocka_unit_test(test_other_axes),
      cmocka_unit_test(test_bytes),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

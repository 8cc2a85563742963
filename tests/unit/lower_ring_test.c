// links: all
//
// Rings: keys and values go from neighbour to neighbour, and backward their gradients with them.
// What is sent is counted, nobody has all keys, and memory is less than where they are gathered.
// That programs with rings compute the same is in check_ring.sh.
#include "lower_pass_support.h"
#include "shoal/simulate.h"

static const char SIZES[] = "batch=1 context=64 width=16 heads=2 layers=3 vocabulary=8 dtype=f32";

// Strategy `context` with a decision about tiles of attention; "no": keys are gathered, as heads
// are fewer than ranks.
static shoal_plan_t *plan_as(const shoal_model_t *model, const char *choice, int32_t world) {
  const shoal_intent_decision_t decision = {
      .kind = "tile", .pattern = "*attention", .choice = choice};
  shoal_plan_t *plan = NULL;
  assert_ok(shoal_plan_make(
      model, rules,
      &(shoal_plan_options_t){
          .strategy = "context", .world = world, .decision_count = 1, .decisions = &decision},
      &plan));
  return plan;
}

static void test_items(void **state) {
  (void)state;
  shoal_model_t *model = zoo_model("gpt2-tiny", "layers=1 heads=4 width=16 context=7");
  shoal_plan_t *plan = plan_as(model, "ring", 3);  // there are heads enough: they are not dealt
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *text = explain_pass(plan, "ring", &arena);
  expect_way(plan, "block0/attn/attention", "context", "{q:2 -> out:2, lse:2}~");
  expect_way(plan, "grad/block0/attn/attention/attention_grad", "context",
             "{q:2, out:2, lse:2, dout:2 -> dq:2, dk:sum, dv:sum}~");
  expect_part(text,
              "block0/attn/k/transpose[context>1:2] block0/attn/v/transpose[context>1:2] -> "
              "block0/attn/k/transpose[context>2:2] block0/attn/v/transpose[context>2:2]");
  expect_part(text,
              "parts of grad/block0/attn/attention/attention_grad.dk[context>2:2] parts of "
              "grad/block0/attn/attention/attention_grad.dv[context>2:2] -> parts of "
              "grad/block0/attn/attention/attention_grad.dk[context:2] ");
  assert_int_equal(count_parts(text, "v/transpose[] "), 0);
  assert_int_equal(count_parts(text, "attention_grad.dk[context:partial(sum)]"), 0);
  assert_int_equal(count_parts(text, "(shoal.attention)"), 6);  // of train and eval
  assert_int_equal(count_parts(text, "(shoal.attention_grad)"), 3);
  shoal_program_t *program = lower(plan);
  print_and_read(program, model->registry, &arena);
  shoal_program_free(program);
  shoal_arena_deinit(&arena);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

typedef struct needs {
  double sent;     // bytes, by all ranks in a step
  int64_t memory;  // of a rank
} needs_t;

static needs_t needs_of(const shoal_model_t *model, const char *choice, int32_t world) {
  shoal_plan_t *plan = plan_as(model, choice, world);
  shoal_program_t *program = lower(plan);
  shoal_cluster_t *cluster;
  shoal_simulation_t *simulation;
  needs_t needs = {.memory = program->classes[0].arena_bytes[SHOAL_MEMORY_DEVICE]};
  assert_ok(shoal_cluster_parse("cluster", "a100x8:1", shoal_allocator_system(), &cluster));
  assert_ok(shoal_simulate(program, &(shoal_simulate_options_t){.cluster = cluster}, &simulation));
  for (int l = 0; l < SHOAL_CLUSTER_LEVEL_COUNT; ++l) needs.sent += simulation->bytes[l];
  shoal_simulation_free(simulation);
  shoal_cluster_free(cluster);
  shoal_program_free(program);
  shoal_plan_free(plan);
  return needs;
}

// Each of n ranks sends its n-th of keys and values n - 1 times forward, and again backward, where
// their gradients go as far; where keys are gathered they are kept for the backward pass.
static void test_needs(void **state) {
  (void)state;
  shoal_model_t *model = zoo_model("gpt2-tiny", SIZES);
  const double layers = 3, keys = 64 * 16 * 4;
  for (int32_t n = 4; n <= 8; n *= 2) {
    const needs_t ring = needs_of(model, "ring", n), gather = needs_of(model, "no", n);
    const double more = ring.sent - gather.sent;
    if (more != layers * 2 * keys * (n - 1))
      fail_msg("a ring of %d sends %.0f bytes more, expected %.0f", n, more,
               layers * 2 * keys * (n - 1));
    // Of each layer, all keys and values but a rank's own are not kept.
    const double kept = layers * 2 * keys * (n - 1) / n,
                 less = (double)(gather.memory - ring.memory);
    if (less < kept / 2)
      fail_msg("a ring of %d needs %.0f bytes less, expected some %.0f", n, less, kept);
  }
  shoal_model_free(model);
}

// Tokens of a length that chunks divide are dealt in chunks, which balances causal attention.
static void test_chunks(void **state) {
  (void)state;
  shoal_model_t *model = zoo_model("gpt2-tiny", SIZES);
  shoal_plan_t *plan = plan_as(model, "auto ring", 4);
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  expect_layout(plan, "ids", "context:1*8");
  expect_part(explain_pass(plan, "ring", &arena), "block0/attn/k/transpose[context>3:2*8]");
  shoal_arena_deinit(&arena);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_items),
      cmocka_unit_test(test_needs),
      cmocka_unit_test(test_chunks),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

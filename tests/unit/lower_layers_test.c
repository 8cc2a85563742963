// links: all
//
// What a layer of a transformer keeps for its backward pass: planned bytes equal the formulas of
// docs/memory.md exactly, with and without recomputation, on one rank and cut along each axis.
#include "plan_fixture.h"

// Sizes of a model as docs/memory.md names them, and how many ranks share what.
typedef struct sizes {
  int64_t B, T, C, H, K, D, F;  // rows, tokens, width, heads, key heads, head size, hidden width
  int64_t element, real;        // bytes of an element, and of statistics: never less than f32's
  int64_t tensor, sequence;     // ranks that share heads and hidden units; that share the rest
} sizes_t;

typedef enum recomputed { NONE, ATTENTION, BLOCK } recomputed_t;

static int64_t gpt2_keeps(const sizes_t *s, recomputed_t what) {
  const int64_t rows = s->B * s->T, streams = s->element * rows * s->C / s->sequence;
  const int64_t hidden = s->element * rows * 2 * s->F / s->tensor;
  const int64_t norms = s->real * 4 * rows / s->sequence;
  const int64_t attention =
      s->element * rows * 5 * s->C / s->tensor + s->real * rows * s->H / s->tensor;
  if (what == BLOCK) return streams;
  return 4 * streams + hidden + norms + (what == NONE ? attention : 0);
}

static int64_t llama_keeps(const sizes_t *s, recomputed_t what) {
  const int64_t rows = s->B * s->T, streams = s->element * rows * s->C / s->sequence;
  const int64_t hidden = s->element * rows * 4 * s->F / s->tensor;
  const int64_t norms = s->real * 2 * rows / s->sequence;
  const int64_t attention = s->element * rows * (3 * s->C + 2 * s->K * s->D) / s->tensor +
                            s->real * rows * s->H / s->tensor;
  if (what == BLOCK) return streams;
  return 4 * streams + hidden + norms + (what == NONE ? attention : 0);
}

typedef struct example {
  const char *strategy, *mesh;
  int32_t world;
  int64_t data, tensor, sequence;  // ranks that share rows, heads, everything
} example_t;

static const example_t EXAMPLES[] = {
    {"data", "data=1", 1, 1, 1, 1},
    {"data", "data=2", 2, 2, 1, 1},
    {"zero3", "data=4", 4, 4, 1, 1},
    {"data", "data=1,micro=2", 1, 2, 1, 1},
    {"tensor", "tensor=2", 2, 1, 2, 1},
    {"tensor+sequence", "tensor=2", 2, 1, 2, 2},
    {"tensor+zero1", "data=2,tensor=2", 4, 2, 2, 1},
};

static const char *const PATTERNS[] = {NULL, "block*/attn*", "block*"};

static int64_t kept_by(const shoal_model_t *model, const example_t *example, const char *pattern,
                       const char *offload, const char *layer, shoal_memory_kind_t memory) {
  const shoal_intent_decision_t decision = {
      .kind = "recompute", .pattern = pattern, .choice = "yes"};
  const shoal_plan_options_t options = {.strategy = example->strategy,
                                        .mesh = example->mesh,
                                        .world = example->world,
                                        .choices = {.offload = offload},
                                        .decision_count = pattern ? 1 : 0,
                                        .decisions = &decision};
  shoal_plan_t *plan;
  assert_ok(shoal_plan_make(model, rules, &options, &plan));
  shoal_program_t *program = lower(plan);
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  int64_t count, kept = -1;
  const shoal_layer_memory_t *layers;
  assert_ok(shoal_lower_layers(plan, program, 0, NULL, &arena, &count, &layers));
  for (int64_t i = 0; i < count; ++i)
    if (strcmp(layers[i].layer, layer) == 0) kept = layers[i].kept[memory];
  shoal_arena_deinit(&arena);
  shoal_program_free(program);
  shoal_plan_free(plan);
  return kept;
}

static void expect_keeps(const char *name, const char *dtype, sizes_t s,
                         int64_t (*keeps)(const sizes_t *, recomputed_t)) {
  char settings[200];
  const bool llama = strcmp(name, "llama") == 0;
  int length = snprintf(
      settings, sizeof settings,
      "batch=%lld context=%lld width=%lld heads=%lld hidden=%lld layers=3 dtype=%s", (long long)s.B,
      (long long)s.T, (long long)s.C, (long long)s.H, (long long)s.F, dtype);
  if (llama)
    snprintf(settings + length, sizeof settings - (size_t)length, " key_heads=%lld",
             (long long)s.K);
  shoal_model_t *model = zoo_model(name, settings);
  for (int64_t e = 0; e < COUNT(EXAMPLES); ++e) {
    sizes_t part = s;
    part.B /= EXAMPLES[e].data;
    part.tensor = EXAMPLES[e].tensor;
    part.sequence = EXAMPLES[e].sequence;
    for (recomputed_t what = NONE; what <= BLOCK; ++what) {
      const int64_t kept =
          kept_by(model, &EXAMPLES[e], PATTERNS[what], NULL, "block1", SHOAL_MEMORY_DEVICE);
      if (kept != keeps(&part, what))
        fail_msg("%s %s, %s on %s, %s: planned %lld bytes, the formula says %lld", name, dtype,
                 EXAMPLES[e].strategy, EXAMPLES[e].mesh,
                 PATTERNS[what] ? PATTERNS[what] : "all kept", (long long)kept,
                 (long long)keeps(&part, what));
    }
  }
  shoal_model_free(model);
}

static void test_gpt2(void **state) {
  (void)state;
  const sizes_t s = {.B = 8, .T = 32, .C = 64, .H = 4, .F = 256};
  sizes_t narrow = s, wide = s;
  narrow.element = 2, narrow.real = 4;
  wide.element = wide.real = 4;
  expect_keeps("gpt2", "f32", wide, gpt2_keeps);
  expect_keeps("gpt2", "bf16", narrow, gpt2_keeps);
}

static void test_llama(void **state) {
  (void)state;
  const sizes_t s = {
      .B = 4, .T = 32, .C = 96, .H = 6, .K = 2, .D = 16, .F = 160, .element = 4, .real = 4};
  expect_keeps("llama", "f32", s, llama_keeps);
}

// What is computed again does not wait in other memory: there is what would be kept otherwise. What
// ranks of `tensor` need in two layouts waits in both, if it waits.
static void test_rest_elsewhere(void **state) {
  (void)state;
  shoal_model_t *model =
      zoo_model("gpt2", "batch=8 context=32 width=64 heads=4 hidden=256 layers=3");
  for (int64_t e = 0; e < COUNT(EXAMPLES); ++e) {
    const example_t *on = &EXAMPLES[e];
    const sizes_t s = {.B = 8 / on->data,
                       .T = 32,
                       .C = 64,
                       .H = 4,
                       .F = 256,
                       .element = 4,
                       .real = 4,
                       .tensor = on->tensor,
                       .sequence = on->sequence};
    for (recomputed_t what = on->tensor > 1 ? BLOCK : NONE; what <= BLOCK; ++what)
      assert_int_equal(
          kept_by(model, on, PATTERNS[what], "activations=host", "block1", SHOAL_MEMORY_HOST),
          gpt2_keeps(&s, what));
    assert_int_equal(
        kept_by(model, on, "block*", "activations=file", "block1", SHOAL_MEMORY_DEVICE), 0);
  }
  shoal_model_free(model);
}

// What lies in other memory is said there, and so are micro-batches under way.
static void test_elsewhere(void **state) {
  (void)state;
  shoal_model_t *model = zoo_model("gpt2", "batch=8 context=32 layers=4");
  const shoal_intent_decision_t decisions[] = {
      {.kind = "keep", .pattern = "block0*", .choice = "host"},
      {.kind = "schedule", .pattern = "train", .choice = "1f1b"}};
  const shoal_plan_options_t options = {.strategy = "pipeline",
                                        .mesh = "pipe=2,micro=4",
                                        .world = 2,
                                        .decision_count = COUNT(decisions),
                                        .decisions = decisions};
  const sizes_t s = {.B = 4,
                     .T = 32,
                     .C = 64,
                     .H = 4,
                     .F = 256,
                     .element = 4,
                     .real = 4,
                     .tensor = 1,
                     .sequence = 1};  // two micro-batches of two rows
  shoal_plan_t *plan;
  assert_ok(shoal_plan_make(model, rules, &options, &plan));
  shoal_program_t *program = lower(plan);
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  int64_t count;
  const shoal_layer_memory_t *layers;
  assert_ok(shoal_lower_layers(plan, program, 0, "train", &arena, &count, &layers));
  int64_t host = 0, device = 0;
  for (int64_t i = 0; i < count; ++i)
    if (strncmp(layers[i].layer, "block", 5) == 0) {
      host += layers[i].kept[SHOAL_MEMORY_HOST];
      device += layers[i].kept[SHOAL_MEMORY_DEVICE];
      assert_int_equal(layers[i].others, 2 * layers[i].parameters);
    }
  assert_int_equal(host, gpt2_keeps(&s, NONE));
  assert_true(device > 0);
  assert_error(NOT_FOUND, "no graph 'nothing'",
               shoal_lower_layers(plan, program, 0, "nothing", &arena, &count, &layers));
  assert_error(INVALID_ARGUMENT, "no class 2",
               shoal_lower_layers(plan, program, 2, NULL, &arena, &count, &layers));
  shoal_arena_deinit(&arena);
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_gpt2), cmocka_unit_test(test_llama),
                                     cmocka_unit_test(test_rest_elsewhere),
                                     cmocka_unit_test(test_elsewhere)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

// links: all
//
// Pairs that log-sum-exp merges: which ways completion takes, and what lowering makes of them. That
// programs with pairs compute the same is in check_pairs.sh.
#include "plan_fixture.h"
#include "shoal/ops.h"
#include "shoal/simulate.h"

// Attention of `queries` queries over `keys` keys, fed.
static shoal_model_t *make_model(const shoal_shape_t *q, int64_t keys) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "eval");
  shoal_shape_t k = *q;
  k.dims[2] = keys;
  shoal_value_t inputs[] = {shoal_input(g, "q", SHOAL_F32, *q), shoal_input(g, "k", SHOAL_F32, k),
                            shoal_input(g, "v", SHOAL_F32, k)};
  shoal_value_t out, lse;
  shoal_attention(g, inputs[0], inputs[1], inputs[2], 0, &out, &lse);
  shoal_output(g, "out", out);
  shoal_output(g, "lse", lse);
  shoal_output(g, "read", shoal_tanh(g, out));
  assert_ok(shoal_model_status(model));
  return model;
}

static shoal_status_t plan_as(const shoal_model_t *model, const char *mesh, const char *queries,
                              const char *keys, const char *way, int32_t world,
                              shoal_plan_t **out_plan) {
  const shoal_intent_entry_t layouts[] = {{"q", queries}, {"k", keys}, {"v", keys}};
  const shoal_intent_decision_t decision = {.kind = "way", .pattern = "attention", .choice = way};
  return shoal_plan_create(model, rules,
                           &(shoal_intent_t){.mesh_count = 1,
                                             .meshes = &mesh,
                                             .layout_count = 3,
                                             .layouts = layouts,
                                             .decision_count = way != NULL,
                                             .decisions = &decision},
                           world, shoal_allocator_system(), out_plan);
}

static const char *pass_of(const shoal_plan_t *plan, shoal_arena_t *arena) {
  const char *text = NULL;
  assert_ok(shoal_lower_explain(plan, NULL, "paths", arena, &text));
  return text;
}

static void expect_lines(const char *text, int64_t count, const char *const *lines) {
  const char *at = text;
  for (int64_t i = 0; i < count; ++i) {
    at = strstr(at, lines[i]);
    if (!at) fail_msg("'%s' is missing, or not in its place, in:\n%s", lines[i], text);
  }
}

// ---- completion ---------------------------------------------------------------------------

// The cheapest in bytes: keys and values cost 2 S D to gather, the merge 2 T (D + 1).
static void test_choices(void **state) {
  (void)state;
  static const struct {
    int64_t queries, keys;
    const char *q, *k, *way;
  } cases[] = {
      {3, 17, "", "c:2",
       "way: c={k:2, v:2 -> out:lse, lse:lse}~\n    by completion: its input 'k' is cut along c, "
       "and "
       "log-sum-exp merges its outputs, which moves 484 B; the next best would move 776 B\n    "
       "next "
       "best c=composite"},
      {17, 3, "", "c:2", "way: c=whole"},
      {3, 17, "c:2", "c:2", "way: c={k:2, v:2 -> out:lse, lse:lse}~"},
      {7, 7, "c:2", "c:2", "way: c={q:2 -> out:2, lse:2}~"},
      {3, 17, "", "", "no way is cut"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    shoal_arena_t arena;
    shoal_plan_t *plan = NULL;
    const char *text = NULL;
    shoal_arena_init(shoal_allocator_system(), &arena);
    shoal_model_t *model = make_model(&SHOAL_SHAPE(2, 2, cases[i].queries, 4), cases[i].keys);
    assert_ok(plan_as(model, "c=3", cases[i].q, cases[i].k, NULL, 3, &plan));
    assert_ok(shoal_plan_why(plan, "attention", &arena, &text));
    const bool cut = strstr(cases[i].way, "way: ") != NULL;
    if (cut ? !strstr(text, cases[i].way) : strstr(text, "->") != NULL)
      fail_msg("case %zu: no '%s' in:\n%s", i, cases[i].way, text);
    shoal_plan_free(plan);
    shoal_model_free(model);
    shoal_arena_deinit(&arena);
  }
}

// ---- lowering -----------------------------------------------------------------------------

static const char way[] = "c={k:2, v:2 -> out:lse, lse:lse}";

// Both go in one reshard; each rank merges some of the queries, or all where there is but one.
static void test_items(void **state) {
  (void)state;
  static const char *const cut[] = {
      "attention.out[c:partial(lse)] attention.lse[c:partial(lse)]",
      "(shoal.broadcast_to): attention.out[c:partial(lse)] -> parts of attention.out[c:0]",
      "(shoal.broadcast_to): attention.lse[c:partial(lse)] -> parts of attention.lse[c:0]",
      "  reshard    attention.out: parts of attention.out[c:0] parts of attention.lse[c:0] -> "
      "parts of attention.out[c:3] parts of attention.lse[c:3]",
      "(shoal.lse_merge): parts of attention.out[c:3] parts of attention.lse[c:3] -> "
      "attention.out[c:2] attention.lse[c:2]",
      "  reshard    attention.out: attention.out[c:2] -> attention.out[]"};
  static const char *const whole[] = {
      "  reshard    attention.out: parts of attention.out[c:0] parts of attention.lse[c:0] -> "
      "parts of attention.out[] parts of attention.lse[]",
      "(shoal.lse_merge): parts of attention.out[] parts of attention.lse[] -> attention.out[] "
      "attention.lse[]"};
  for (int few = 0; few < 2; ++few) {
    shoal_arena_t arena;
    shoal_plan_t *plan = NULL;
    shoal_arena_init(shoal_allocator_system(), &arena);
    shoal_model_t *model =
        make_model(few ? &SHOAL_SHAPE(1, 1, 1, 4) : &SHOAL_SHAPE(2, 2, 5, 4), 17);
    assert_ok(plan_as(model, "c=3", "", "c:2", way, 3, &plan));
    expect_lines(pass_of(plan, &arena), few ? 2 : 6, few ? whole : cut);
    shoal_plan_free(plan);
    shoal_model_free(model);
    shoal_arena_deinit(&arena);
  }
}

// A reader that wants it cut by heads gets it so at once.
static void test_reader(void **state) {
  (void)state;
  static const char *const lines[] = {
      "parts of attention.lse[c:0] -> parts of attention.out[c:2] parts of attention.lse[c:2]",
      "-> attention.out[c:1] attention.lse[c:1]", "(shoal.tanh): attention.out[c:1] -> tanh[c:1]"};
  const char *mesh = "c=3";
  const shoal_intent_entry_t layouts[] = {{"k", "c:2"}, {"v", "c:2"}, {"tanh", "c:1"}};
  const shoal_intent_decision_t decision = {.kind = "way", .pattern = "attention", .choice = way};
  shoal_arena_t arena;
  shoal_plan_t *plan = NULL;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_model_t *model = make_model(&SHOAL_SHAPE(1, 3, 7, 4), 9);
  assert_ok(shoal_plan_create(model, rules,
                              &(shoal_intent_t){.mesh_count = 1,
                                                .meshes = &mesh,
                                                .layout_count = 3,
                                                .layouts = layouts,
                                                .decision_count = 1,
                                                .decisions = &decision},
                              3, shoal_allocator_system(), &plan));
  expect_lines(pass_of(plan, &arena), 3, lines);
  shoal_plan_free(plan);
  shoal_model_free(model);
  shoal_arena_deinit(&arena);
}

// Keys over two axes: one stack of all parts, the first axis outermost.
static void test_two_axes(void **state) {
  (void)state;
  static const char *const lines[] = {
      "-> parts of attention.out[a:0,b:0]",
      "parts of attention.out[a:0,b:0] parts of attention.lse[a:0,b:0] -> parts of "
      "attention.out[a:3,b:3] parts of attention.lse[a:3,b:3]",
      "-> attention.out[a:2,b:2] attention.lse[a:2,b:2]"};
  const char *mesh = "a=2,b=2";
  const shoal_intent_entry_t layouts[] = {{"k", "a:2,b:2"}, {"v", "a:2,b:2"}};
  const shoal_intent_decision_t decisions[] = {
      {.kind = "way", .pattern = "attention", .choice = "a={k:2, v:2 -> out:lse, lse:lse}"},
      {.kind = "way", .pattern = "attention", .choice = "b={k:2, v:2 -> out:lse, lse:lse}"}};
  shoal_arena_t arena;
  shoal_plan_t *plan = NULL;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_model_t *model = make_model(&SHOAL_SHAPE(1, 2, 7, 4), 9);
  assert_ok(shoal_plan_create(model, rules,
                              &(shoal_intent_t){.mesh_count = 1,
                                                .meshes = &mesh,
                                                .layout_count = 2,
                                                .layouts = layouts,
                                                .decision_count = 2,
                                                .decisions = decisions},
                              4, shoal_allocator_system(), &plan));
  expect_lines(pass_of(plan, &arena), 3, lines);
  shoal_plan_free(plan);
  shoal_model_free(model);
  shoal_arena_deinit(&arena);
}

// What ranks have before it is merged is read by nobody else, and goes with its log-sum-exp.
static void expect_pairs(shoal_program_t *program) {
  const shoal_class_t *class = &program->classes[0];
  int found = 0;
  for (int64_t s = 0; s < class->segment_count; ++s)
    for (int64_t i = 0; i < class->segments[s].instruction_count; ++i) {
      shoal_instruction_t *in = &class->segments[s].instructions[i];
      if (in->opcode != SHOAL_OPCODE_RESHARD || in->input_count != 2) continue;
      ++found;
      in->input_count = in->output_count = 1;
      assert_error(MISMATCH, "it carries parts of 'attention.out' without their log-sum-exp",
                   shoal_program_check(program, shoal_allocator_system()));
      in->input_count = in->output_count = 2;
    }
  assert_int_equal(found, 1);
  for (int64_t b = 0; b < class->buffer_count; ++b) {
    shoal_buffer_t *buffer = &class->buffers[b];
    if (!buffer->parts || strcmp(buffer->name, "attention.lse") != 0) continue;
    buffer->parts = false;
    assert_error(MISMATCH, "it reads 'attention.lse', of which log-sum-exp has not merged",
                 shoal_program_check(program, shoal_allocator_system()));
    buffer->parts = true;
    return;
  }
  fail();
}

// The program's text says what are parts, and parses back; its check holds.
static void test_program(void **state) {
  (void)state;
  shoal_arena_t arena;
  shoal_plan_t *plan = NULL;
  shoal_program_t *program = NULL, *read = NULL;
  const char *text = NULL, *again = NULL;
  shoal_registry_t *registry = NULL;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(shoal_registry_create(shoal_allocator_system(), &registry));
  shoal_model_t *model = make_model(&SHOAL_SHAPE(2, 2, 5, 4), 17);
  assert_ok(plan_as(model, "c=3", "", "c:2", way, 3, &plan));
  assert_ok(shoal_lower(plan, NULL, &program));
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  assert_ok(shoal_program_print(program, &arena, &text));
  int64_t parts = 0;
  for (int64_t i = 0; i < program->classes[0].buffer_count; ++i)
    parts += program->classes[0].buffers[i].parts;
  assert_int_equal(parts, 4);
  assert_ok(shoal_program_parse("p", text, registry, shoal_allocator_system(), &read));
  assert_ok(shoal_program_print(read, &arena, &again));
  assert_string_equal(text, again);
  expect_pairs(read);
  shoal_program_free(read);
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_model_free(model);
  shoal_registry_release(registry);
  shoal_arena_deinit(&arena);
}

// All that ranks send, in bytes.
static double sent_by(const shoal_model_t *model, const char *choice, int32_t ranks) {
  shoal_plan_t *plan = NULL;
  shoal_program_t *program = NULL;
  shoal_simulation_t *s = NULL;
  char mesh[16];
  double bytes = 0;
  snprintf(mesh, sizeof mesh, "c=%d", ranks);
  assert_ok(plan_as(model, mesh, "", "c:2", choice, ranks, &plan));
  assert_ok(shoal_lower(plan, NULL, &program));
  assert_ok(shoal_simulate(program, &(shoal_simulate_options_t){.graph = "eval"}, &s));
  for (int i = 0; i < SHOAL_CLUSTER_LEVEL_COUNT; ++i) bytes += s->bytes[i];
  shoal_simulation_free(s);
  shoal_program_free(program);
  shoal_plan_free(plan);
  return bytes;
}

// With few queries and many keys the pair moves less than what completion weighs it against.
static void test_bytes(void **state) {
  (void)state;
  for (int32_t ranks = 2; ranks <= 8; ranks *= 2) {
    shoal_model_t *model = make_model(&SHOAL_SHAPE(2, 2, 16, 8), 96);
    const double pair = sent_by(model, way, ranks);
    const double composite = sent_by(model, "c=composite", ranks);
    const double gathered = sent_by(model, "c=whole", ranks);
    if (!(pair > 0 && pair < composite && composite < gathered))
      fail_msg("%d ranks: pair %g, composite %g, gathered %g", ranks, pair, composite, gathered);
    shoal_model_free(model);
  }
}

// ---- refusals -----------------------------------------------------------------------------

static void test_refused(void **state) {
  (void)state;
  shoal_plan_t *plan = NULL;
  shoal_model_t *model = make_model(&SHOAL_SHAPE(2, 2, 5, 4), 17);
  assert_error(
      UNSUPPORTED, "merged over micro-batches",
      plan_as(model, "c=3,micro=2", "", "", "micro={k:2, v:2 -> out:lse, lse:lse}", 3, &plan));
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_choices), cmocka_unit_test(test_items),
      cmocka_unit_test(test_reader),  cmocka_unit_test(test_two_axes),
      cmocka_unit_test(test_program), cmocka_unit_test(test_bytes),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

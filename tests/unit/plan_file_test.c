// links: all
//
// Plan files: print and parse give the same text; a guard that does not fit rebuilds from the
// intent; whatever the bytes, the answer is a plan or an error with a hint.
#include <stdlib.h>

#include "plan_support.h"
#include "unit/random.h"

static shoal_rules_t *rules;
static shoal_model_t *mlp, *gpt;

static int set_up(void **state) {
  (void)state;
  rules = new_rules();
  mlp = small_mlp(7);
  gpt = make_gpt(&(gpt_sizes_t){
      .batch = 3, .context = 4, .vocabulary = 7, .width = 24, .heads = 6, .layers = 1});
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  shoal_model_free(gpt);
  shoal_model_free(mlp);
  shoal_rules_free(rules);
  return 0;
}

static shoal_status_t parse(const char *text, const shoal_model_t *model, int32_t world,
                            bool *out_rebuilt, shoal_plan_t **out_plan) {
  return shoal_plan_parse("test.json", text, model, rules, world, shoal_allocator_system(),
                          out_rebuilt, out_plan);
}

static char *print(const shoal_plan_t *plan) {
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *text;
  assert_ok(shoal_plan_print(plan, &arena, &text));
  char *copy = strdup(text);
  shoal_arena_deinit(&arena);
  return copy;
}

static char *program_text(const shoal_plan_t *plan) {
  shoal_program_t *program = lower(plan);
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *text;
  assert_ok(shoal_program_print(program, &arena, &text));
  char *copy = strdup(text);
  shoal_arena_deinit(&arena);
  shoal_program_free(program);
  return copy;
}

// The text with the first `from` replaced; the caller frees it.
static char *edit(const char *text, const char *from, const char *to) {
  const char *at = strstr(text, from);
  if (!at) fail_msg("the plan has no '%s'", from);
  size_t before = (size_t)(at - text);
  char *result = malloc(strlen(text) - strlen(from) + strlen(to) + 1);
  memcpy(result, text, before);
  strcpy(result + before, to);
  strcat(result, at + strlen(from));
  return result;
}

static shoal_plan_t *two_stages(const shoal_model_t *model) {
  const shoal_intent_entry_t layouts[] = {{"x", "a!micro:0,data:0"},
                                          {"y", "b!micro:0,data:0(2,1,1)"},
                                          {"*#adamw.m", "data:flat"},
                                          {"*#adamw.v", "data:flat"}};
  const shoal_intent_entry_t stages[] = {{"fc2/*", "b"}, {"cross_entropy", "b"}};
  shoal_plan_t *plan;
  assert_ok(shoal_plan_create(
      model, rules,
      &(shoal_intent_t){.mesh_count = 2,
                        .meshes = (const char *[]){"a!data=2,micro=3@0-1", "b!data=3,micro=3@2-4"},
                        .layout_count = COUNT(layouts),
                        .layouts = layouts,
                        .stage_count = 2,
                        .stages = stages},
      5, shoal_allocator_system(), &plan));
  return plan;
}

// ---- there and back -------------------------------------------------------------------

static void expect_round_trip(shoal_plan_t *plan, const shoal_model_t *model, int32_t world) {
  char *text = print(plan), *program = program_text(plan);
  bool rebuilt = true;
  shoal_plan_t *again;
  assert_ok(parse(text, model, world, &rebuilt, &again));
  assert_false(rebuilt);
  char *second = print(again), *second_program = program_text(again);
  assert_string_equal(text, second);
  assert_string_equal(program, second_program);
  free(second_program);
  free(second);
  free(program);
  free(text);
  shoal_plan_free(again);
  shoal_plan_free(plan);
}

static void test_round_trip(void **state) {
  (void)state;
  expect_round_trip(plan_by(mlp, rules, "single", NULL, 3), mlp, 3);
  expect_round_trip(plan_by(mlp, rules, "data", "data=2,micro=3", 2), mlp, 2);
  expect_round_trip(plan_by(mlp, rules, "tensor", "data=2,tensor=2,micro=2", 4), mlp, 4);
  expect_round_trip(plan_by(gpt, rules, "tensor", "tensor=5", 5), gpt,
                    5);                        // units, chunks, expansion
  expect_round_trip(two_stages(mlp), mlp, 5);  // meshes, weights, flat
}

// Written twice in an intent, the later one counts; only that one is written.
static void test_repeated_patterns(void **state) {
  (void)state;
  const shoal_intent_entry_t layouts[] = {{"x", ""}, {"x", "data:0"}};
  shoal_plan_t *plan, *again;
  assert_ok(shoal_plan_create(mlp, rules,
                              &(shoal_intent_t){.mesh_count = 1,
                                                .meshes = (const char *[]){"data=2"},
                                                .layout_count = 2,
                                                .layouts = layouts},
                              2, shoal_allocator_system(), &plan));
  char *text = print(plan);
  assert_ok(parse(text, mlp, 2, NULL, &again));
  assert_int_equal(shoal_plan_intent(again)->layout_count, 1);
  expect_layout(again, "x", "data:0");
  free(text);
  shoal_plan_free(again);
  shoal_plan_free(plan);
}

// ---- guards ---------------------------------------------------------------------------

static void expect_rebuilt(const char *text, const shoal_model_t *model, int32_t world) {
  bool rebuilt = false;
  shoal_plan_t *plan;
  assert_ok(parse(text, model, world, &rebuilt, &plan));
  assert_true(rebuilt);
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
}

static void test_guards(void **state) {
  (void)state;
  shoal_plan_t *plan = plan_by(mlp, rules, "data", "data=2", 2);
  char *text = print(plan);
  shoal_model_t *larger = small_mlp(9);  // another batch: the intent holds, the ways are made anew
  expect_rebuilt(text, larger, 2);
  shoal_model_free(larger);
  char *edited = edit(text, "\"rules\": \"", "\"rules\": \"0");
  expect_rebuilt(edited, mlp, 2);
  free(edited);
  edited = edit(text, "\"model\": \"", "\"model\": \"0");  // the same calls, another model
  expect_rebuilt(edited, mlp, 2);
  free(edited);
  edited = edit(text, "\"world\": 2", "\"world\": 3");
  expect_rebuilt(edited, mlp, 2);
  free(edited);
  shoal_plan_t *refused;
  assert_error(INVALID_ARGUMENT, "the world has 3", parse(text, mlp, 3, NULL, &refused));
  assert_null(refused);
  // Another eps changes values, not how nodes are cut.
  shoal_model_t *smoother = make_mlp(&(mlp_sizes_t){
      .batch = 7, .in_features = 5, .hidden = 9, .classes = 3, .layers = 2, .eps = 1e-3});
  bool fits = true;
  shoal_plan_t *other = NULL;
  assert_ok(parse(text, smoother, 2, &fits, &other));
  assert_false(fits);
  shoal_plan_free(other);
  shoal_model_free(smoother);
  // Only an intent: nothing was there to be rebuilt.
  bool rebuilt = true;
  assert_ok(parse("{\"shoal_plan\": 1, \"intent\": {\"meshes\": [\"data=2\"]}}", mlp, 2, &rebuilt,
                  &refused));
  assert_false(rebuilt);
  shoal_plan_free(refused);
  free(text);
  shoal_plan_free(plan);
}

// What is resolved is used as it is, where the guard fits.
static void test_resolved_part_counts(void **state) {
  (void)state;
  shoal_plan_t *plan = plan_by(mlp, rules, "data", "data=2", 2), *again;
  char *text = print(plan);
  char *edited = edit(text, "\"decisions\": [",
                      "\"decisions\": [{\"kind\": \"layout\", \"state\": \"fc1/weight#adamw.m\", "
                      "\"choice\": \"data:1\"},");
  bool rebuilt = true;
  assert_ok(parse(edited, mlp, 2, &rebuilt, &again));
  assert_false(rebuilt);
  expect_state(again, "fc1/weight#adamw.m", "data:1");
  shoal_program_free(lower(again));
  shoal_plan_free(again);
  free(edited);
  edited = edit(text, "\"node\": \"relu\", \"choice\": \"data={x:0 -> out:0}~\"",
                "\"node\": \"relu\", \"choice\": \"data={x:1 -> out:1}\"");
  assert_ok(parse(edited, mlp, 2, &rebuilt, &again));
  expect_layout(again, "relu", "data:1");
  shoal_program_free(lower(again));
  shoal_plan_free(again);
  free(edited);
  // Another intent: the resolved part was not made from it.
  edited = edit(text, "\"y\": \"data:0\"", "\"y\": \"\"");
  expect_rebuilt(edited, mlp, 2);
  free(edited);
  free(text);
  shoal_plan_free(plan);
}

// Every decision that somebody could make otherwise has a reason, and a way its second best.
static void test_reasons(void **state) {
  (void)state;
  static const char *const parts[] = {
      "\"by\": \"completion\", \"reason\": \"its input 'x' is cut along data; the next best would "
      "move",
      "\"by\": \"pin\", \"reason\": \"the state 'fc1/weight', which it updates, rests cut along "
      "tensor",
      "along data, is reduced first, which moves",
      "\"reason\": \"it rests as 'fc1/weight' does, which it belongs to\"",
      "\"runner_up\": {\"choice\": \"data=whole\", \"cost\": ",
  };
  shoal_plan_t *plan = plan_by(mlp, rules, "tensor", "data=2,tensor=2", 4);
  char *text = print(plan);
  for (int64_t i = 0; i < COUNT(parts); ++i)
    if (!strstr(text, parts[i])) fail_msg("no '%s' in %s", parts[i], text);
  for (const char *at = strstr(text, "\"kind\""); at; at = strstr(at + 1, "\"kind\"")) {
    const char *end = strchr(at, '\n'), *reason = strstr(at, "\"reason\"");
    if (!reason || reason > end) fail_msg("no reason: %.*s", (int)(end - at), at);
  }
  free(text);
  shoal_plan_free(plan);
}

// ---- errors ---------------------------------------------------------------------------

static void test_errors(void **state) {
  (void)state;
  static const struct {
    const char *from, *to;
    shoal_code_t code;
    const char *part;
  } cases[] = {
      {"\"shoal_plan\": 1", "\"shoal_plan\": 2", SHOAL_UNSUPPORTED, "plan format 2"},
      {"\"shoal_plan\": 1", "\"shoal_plna\": 1", SHOAL_INVALID_ARGUMENT, "shoal_plan"},
      {"\"intent\"", "\"intents\"", SHOAL_INVALID_ARGUMENT, "intent"},
      {"\"meshes\"", "\"meshse\"", SHOAL_INVALID_ARGUMENT, "meshes"},
      {"\"layouts\"", "\"layuots\"", SHOAL_INVALID_ARGUMENT, "layouts"},
      {"\"decisions\": [", "\"states\": {}, \"decisions\": [", SHOAL_INVALID_ARGUMENT,
       "older form"},
      {"\"decisions\": [", "\"decision\": [", SHOAL_INVALID_ARGUMENT, "decisions"},
      {"\"kind\": \"way\"", "\"kind\": \"wya\"", SHOAL_NOT_FOUND, "no kind of decision 'wya'"},
      {"\"kind\": \"way\"", "\"kind\": \"expand\"", SHOAL_INVALID_ARGUMENT, "no choice of expand"},
      {"\"kind\": \"way\"", "\"kin\": \"way\"", SHOAL_INVALID_ARGUMENT, "kind"},
      {"\"graph\": \"train\", \"node\"", "\"graph\": \"trian\", \"node\"", SHOAL_INVALID_ARGUMENT,
       "no graph 'trian'"},
      {"\"node\": \"block0", "\"node\": \"block9", SHOAL_INVALID_ARGUMENT, "no node 'block9"},
      {"\"state\": \"block0", "\"state\": \"block9", SHOAL_INVALID_ARGUMENT, "no state 'block9"},
      {"\"runner_up\": {", "\"runner_up\": {\"x\": [", SHOAL_INVALID_ARGUMENT, "test.json"},
      {"[\"tensor=5\"]", "\"tensor=5\"", SHOAL_INVALID_ARGUMENT, "meshes"},
      {"[\"tensor=5\"]", "[5]", SHOAL_INVALID_ARGUMENT, "meshes[0]"},
      {"\"tensor:1*3/4\"", "7", SHOAL_INVALID_ARGUMENT, "must be a string"},
      {"\"tensor:1*3/4\"", "\"tensro:1*3/4\"", SHOAL_NOT_FOUND, "did you mean 'tensor'?"},
      {"\"world\": 5", "\"world\": \"5\"", SHOAL_INVALID_ARGUMENT, "world"},
      {"{b:1 -> out:2}~", "{b:1 -> out:3}~", SHOAL_INVALID_ARGUMENT, "`shoal rules`"},
      {"\"tensor={", "\"data={", SHOAL_INVALID_ARGUMENT, "no axis 'data'"},
      {"~ *3/4\"", "~ *0/4\"", SHOAL_INVALID_ARGUMENT, "a number from 1"},
      {"~ *3/4\"", "~ *99999999999\"", SHOAL_INVALID_ARGUMENT, "a number from 1"},
      {"~ *3/4\"", "~ *5\"", SHOAL_INVALID_ARGUMENT, "5 chunks do not make up"},
      {"~ *3/4\"", "~ *(24/4,24/)\"", SHOAL_INVALID_ARGUMENT, "decisions["},
      {"~ *3/4\"", "~ *(24/4,-24/4)\"", SHOAL_INVALID_ARGUMENT, "a number from 1"},
      {"~ *3/4\"", "~ *()\"", SHOAL_INVALID_ARGUMENT, "decisions["},
      {"~ *3/4\"", "~ (1,2)\"", SHOAL_INVALID_ARGUMENT, "decisions["},
      {"~ *3/4\"", "~ (1,2,3,4,x)\"", SHOAL_INVALID_ARGUMENT, "decisions["},
      {"~ *3/4\"", "~ (0,0,0,0,0)\"", SHOAL_INVALID_ARGUMENT, "weight"},
      {"~ *3/4\"", "~ /-4\"", SHOAL_INVALID_ARGUMENT, "a number from 1"},
      {"~ *3/4\"", "~ by 4\"", SHOAL_INVALID_ARGUMENT, "no way to deal items"},
      {"\"expand\": []", "\"expand\": [\"crossentropy\"]", SHOAL_NOT_FOUND,
       "did you mean 'cross_entropy'"},
      {"{", "", SHOAL_INVALID_ARGUMENT, "test.json"},
      {"\"intent\": {", "\"intent\": {\"strategy\": \"tensor\", ", SHOAL_INVALID_ARGUMENT,
       "test.json"},
  };
  shoal_plan_t *plan = plan_by(gpt, rules, "tensor", "tensor=5", 5);
  char *text = print(plan);
  for (int64_t i = 0; i < COUNT(cases); ++i) {
    char *edited = edit(text, cases[i].from, cases[i].to);
    shoal_plan_t *refused;
    shoal_status_t status = parse(edited, gpt, 5, NULL, &refused);
    if (!status) fail_msg("case %lld: '%s' is taken", (long long)i, cases[i].to);
    assert_null(refused);
    if (shoal_status_code(status) != cases[i].code ||
        (!strstr(shoal_status_message(status), cases[i].part) &&
         !strstr(shoal_status_hint(status), cases[i].part)))
      fail_msg("case %lld: %s: %s (%s)", (long long)i, shoal_code_name(shoal_status_code(status)),
               shoal_status_message(status), shoal_status_hint(status));
    assert_non_null(strstr(shoal_status_message(status), "test.json"));
    shoal_status_free(status);
    free(edited);
  }
  free(text);
  shoal_plan_free(plan);
}

// A plan that is still taken after random edits is lowered and checked: it may be refused there,
// but nothing crashes.
static void test_random_edits(void **state) {
  (void)state;
  shoal_plan_t *plans[] = {plan_by(gpt, rules, "tensor", "tensor=5", 5), two_stages(mlp)};
  const shoal_model_t *models[] = {gpt, mlp};
  int64_t taken = 0, refused = 0;
  for (uint32_t round = 0; round < 1200; ++round) {
    char *text = print(plans[round % 2]);
    char *edited = random_edits(&(random_t){.seed = 1, .round = round}, text);
    shoal_plan_t *plan = NULL;
    shoal_status_t status = parse(edited, models[round % 2], 5, NULL, &plan);
    if (!status) {
      ++taken;
      shoal_program_t *program = NULL;
      status = shoal_lower(plan, NULL, &program);
      if (!status) status = shoal_program_check(program, shoal_allocator_system());
      shoal_program_free(program);
    } else {
      ++refused;
      assert_null(plan);
      assert_true(shoal_status_message(status)[0] != 0);
    }
    assert_int_not_equal(shoal_status_code(status), SHOAL_INTERNAL);
    shoal_status_free(status);
    shoal_plan_free(plan);
    test_free(edited);
    free(text);
  }
  assert_true(taken > 10 && refused > 500);
  for (int i = 0; i < 2; ++i) shoal_plan_free(plans[i]);
}

static void test_explain(void **state) {
  (void)state;
  shoal_arena_t *scratch;
  const char *text;
  shoal_plan_t *plan = plan_by(mlp, rules, "data", "data=5", 5);
  assert_ok(shoal_arena_create(shoal_allocator_system(), &scratch));
  assert_ok(shoal_plan_explain(plan, scratch, &text));
  assert_ptr_equal(strstr(text, "mesh data=5\nstates at rest\n"), text);
  assert_non_null(strstr(text, "\ngraph train\n"));
  assert_non_null(strstr(text, " data {x:0"));
  assert_ptr_equal(shoal_plan_model(plan), mlp);
  shoal_arena_free(scratch);
  shoal_plan_free(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip), cmocka_unit_test(test_repeated_patterns),
      cmocka_unit_test(test_guards),     cmocka_unit_test(test_resolved_part_counts),
      cmocka_unit_test(test_reasons),    cmocka_unit_test(test_errors),
      cmocka_unit_test(test_explain),    cmocka_unit_test(test_random_edits),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

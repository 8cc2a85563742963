// links: all
//
// What the passes of lowering leave behind, as shoal_lower_explain prints it.
#include "plan_support.h"

// A pass's text, in `arena`.
static const char *explain(const shoal_plan_t *plan, const char *pass, shoal_arena_t *arena) {
  const char *text = NULL;
  shoal_status_t status = shoal_lower_explain(plan, NULL, pass, arena, &text);
  if (status) fail_msg("pass '%s': %s", pass, shoal_status_message(status));
  return text;
}

static int64_t count_lines(const char *text, const char *start) {
  int64_t count = 0;
  for (const char *line = text; line; line = strchr(line, '\n')) {
    if (*line == '\n') ++line;
    count += strncmp(line, start, strlen(start)) == 0;
  }
  return count;
}

// Every pass prints; who asks again gets the same; the last one is the program.
static void expect_passes(const shoal_plan_t *plan) {
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *before = "", *printed = NULL, *last = "";
  for (int64_t p = 0; p < shoal_lower_pass_count(); ++p) {
    const char *text = explain(plan, shoal_lower_pass_name(p), &arena);
    assert_true(text[0] != 0 && shoal_lower_pass_doc(p)[0] != 0);
    assert_string_equal(text, explain(plan, shoal_lower_pass_name(p), &arena));
    if (strcmp(shoal_lower_pass_name(p), "paths") == 0) {
      assert_true(count_lines(before, "  compute ") > 0);
      assert_int_equal(count_lines(text, "  compute "), count_lines(before, "  compute "));
      assert_non_null(strstr(before, " needs "));
      assert_null(strstr(text, " needs "));
      assert_int_equal(count_lines(before, "  reshard "), 0);
    }
    before = last = text;
  }
  shoal_program_t *program = lower(plan);
  assert_ok(shoal_program_print(program, &arena, &printed));
  assert_string_equal(last, printed);
  shoal_program_free(program);
  shoal_arena_deinit(&arena);
}

static void test_all_passes(void **state) {
  (void)state;
  shoal_model_t *models[] = {small_mlp(6), small_gpt(true)};
  static const char *const plans[][2] = {{"single", NULL},
                                         {"data", "data=4"},
                                         {"data", "data=4,micro=3"},
                                         {"tensor", "data=2,tensor=2,micro=3"},
                                         {"zero1", "data=4,micro=2"}};
  for (int64_t m = 0; m < COUNT(models); ++m) {
    shoal_rules_t *rules = new_rules();
    for (int64_t i = 0; i < COUNT(plans); ++i) {
      shoal_plan_t *plan = plan_by(models[m], rules, plans[i][0], plans[i][1], i == 0 ? 1 : 4);
      expect_passes(plan);
      shoal_plan_free(plan);
    }
    shoal_rules_free(rules);
    shoal_model_free(models[m]);
  }
}

// What a line says: the sum over micro-batches leaves the loop, and is reduced once behind it.
static void test_lines(void **state) {
  (void)state;
  shoal_model_t *model = small_mlp(6);
  shoal_rules_t *rules = new_rules();
  shoal_plan_t *plan = plan_by(model, rules, "data", "data=2,micro=3", 2);
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *text = explain(plan, "paths", &arena);
  assert_non_null(strstr(text, "graph train: "));
  assert_true(count_lines(text, "  accumulate ") > 0);
  assert_int_equal(count_lines(text, "  fill "), count_lines(text, "  accumulate "));
  assert_non_null(strstr(text, "after the loop"));
  text = explain(plan, "segments", &arena);
  assert_non_null(strstr(text, "in train.after.0, lane 0"));
  shoal_arena_deinit(&arena);
  shoal_plan_free(plan);
  shoal_rules_free(rules);
  shoal_model_free(model);
}

static void test_unknown_pass(void **state) {
  (void)state;
  shoal_model_t *model = small_mlp(6);
  shoal_rules_t *rules = new_rules();
  shoal_plan_t *plan = plan_by(model, rules, "single", NULL, 1);
  shoal_arena_t arena;
  const char *text = NULL;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_status_t status = shoal_lower_explain(plan, NULL, "segment", &arena, &text);
  assert_int_equal(shoal_status_code(status), SHOAL_NOT_FOUND);
  assert_non_null(strstr(shoal_status_hint(status), "'segments'"));
  assert_null(text);
  shoal_status_free(status);
  assert_null(shoal_lower_pass_name(-1));
  assert_null(shoal_lower_pass_name(shoal_lower_pass_count()));
  shoal_arena_deinit(&arena);
  shoal_plan_free(plan);
  shoal_rules_free(rules);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_passes),
      cmocka_unit_test(test_lines),
      cmocka_unit_test(test_unknown_pass),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

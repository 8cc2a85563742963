// Bounded values on their way to another layout: an exchange by default, a reshard if the plan says
// `counts ... capacity`, which can be said in intents and in plan files, and of nodes that bound
// something only.
// links: all
#include <string.h>

#include "base/arena.h"
#include "plan_fixture.h"
#include "shoal/lower.h"
#include "shoal/ops.h"

enum { MOST = 5 };

static shoal_model_t *make_model(void) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "run");
  const shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(4, 4, 3, 2));
  const shoal_value_t n = shoal_input(g, "n", SHOAL_I32, SHOAL_SHAPE(4, 4));
  shoal_output(g, "y", shoal_neg(g, shoal_bound(g, x, n)));
  assert_ok(shoal_model_status(model));
  return model;
}

// With `count` decisions of its own in front of those that cut both nodes.
static shoal_status_t try_plan(const shoal_model_t *model, int64_t count,
                               const shoal_intent_decision_t *more, shoal_plan_t **out_plan) {
  static const char *const mesh = "r=2";
  const shoal_intent_entry_t layouts[] = {{"x", "r:0"}, {"n", "r:0"}};
  shoal_intent_decision_t decisions[MOST] = {
      {.kind = "way", .pattern = "bound", .choice = "r={x:0, counts:0 -> out:0}"},
      {.kind = "way", .pattern = "neg", .choice = "r={x:1 -> out:1}"}};
  for (int64_t i = 0; i < count; ++i) decisions[2 + i] = more[i];
  return shoal_plan_create(model, rules,
                           &(shoal_intent_t){.mesh_count = 1,
                                             .meshes = &mesh,
                                             .layout_count = 2,
                                             .layouts = layouts,
                                             .decision_count = 2 + count,
                                             .decisions = decisions},
                           2, shoal_allocator_system(), out_plan);
}

static bool is_exchanged(const shoal_plan_t *plan) {
  shoal_arena_t arena;
  const char *text;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(shoal_lower_explain(plan, NULL, "paths", &arena, &text));
  const bool exchange = strstr(text, "  exchange   bound: bound") != NULL;
  if (exchange == (strstr(text, "  reshard    bound: bound") != NULL)) fail_msg("%s", text);
  if (exchange && !strstr(text, "  reshard    n: n")) fail_msg("no counts there: %s", text);
  shoal_arena_deinit(&arena);
  return exchange;
}

static void decided(void **state) {
  (void)state;
  shoal_model_t *model = make_model();
  static const shoal_intent_decision_t decisions[] = {
      {.kind = "counts", .pattern = "*", .choice = "capacity"},
      {.kind = "counts", .pattern = "bound", .choice = "real"}};
  for (int64_t count = 0; count <= 2; ++count) {
    shoal_plan_t *plan = NULL;
    assert_ok(try_plan(model, count, decisions, &plan));
    assert_int_equal(is_exchanged(plan), count != 1);
    shoal_plan_free(plan);
  }
  shoal_model_free(model);
}

static void refused(void **state) {
  (void)state;
  shoal_model_t *model = make_model();
  static const struct {
    shoal_intent_decision_t decision;
    const char *message;
  } cases[] = {
      {{.kind = "counts", .pattern = "neg", .choice = "real"}, "no node that it names bounds rows"},
      {{.kind = "counts", .pattern = "bound", .choice = "reel"}, "no choice of counts"},
      {{.kind = "counts", .pattern = "bond", .choice = "real"}, "bond"},
  };
  for (int64_t i = 0; i < COUNT(cases); ++i) {
    shoal_plan_t *plan = NULL;
    shoal_status_t status = try_plan(model, 1, &cases[i].decision, &plan);
    if (!status || !strstr(shoal_status_message(status), cases[i].message))
      fail_msg("case %lld: %s", (long long)i, shoal_status_message(status));
    shoal_status_free(status);
  }
  shoal_model_free(model);
}

// The plan as a file, with one word of its resolved part changed; NULL: as it is.
static shoal_status_t reread(const shoal_model_t *model, const char *from, const char *to,
                             bool *out_exchanged) {
  static const shoal_intent_decision_t capacity = {
      .kind = "counts", .pattern = "*", .choice = "capacity"};
  shoal_plan_t *plan = NULL, *again = NULL;
  shoal_arena_t arena;
  const char *text;
  bool rebuilt = true;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(try_plan(model, 1, &capacity, &plan));
  assert_ok(shoal_plan_print(plan, &arena, &text));
  const char *resolved = strstr(text, "\"resolved\"");
  assert_non_null(resolved);
  const char *at = strstr(resolved, "\"kind\": \"counts\"");
  assert_non_null(at);
  if (from) at = strstr(at, from);
  assert_non_null(at);
  if (from) {
    text = shoal_arena_printf(&arena, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    assert_non_null(text);
  }
  shoal_status_t status =
      shoal_plan_parse("p", text, model, rules, 2, shoal_allocator_system(), &rebuilt, &again);
  if (!status) {
    assert_false(rebuilt);
    *out_exchanged = is_exchanged(again);
  }
  shoal_plan_free(again);
  shoal_plan_free(plan);
  shoal_arena_deinit(&arena);
  return status;
}

static void files(void **state) {
  (void)state;
  shoal_model_t *model = make_model();
  bool exchanged = true;
  assert_ok(reread(model, NULL, NULL, &exchanged));
  assert_false(exchanged);
  assert_ok(reread(model, "\"capacity\"", "\"real\"", &exchanged));
  assert_true(exchanged);
  assert_error(INVALID_ARGUMENT, "node 'neg' bounds no rows",
               reread(model, "\"bound\"", "\"neg\"", &exchanged));
  shoal_model_free(model);
}

static void why(void **state) {
  (void)state;
  shoal_model_t *model = make_model();
  shoal_plan_t *plan = NULL;
  shoal_arena_t arena;
  const char *text;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(try_plan(model, 0, NULL, &plan));
  assert_ok(shoal_plan_why(plan, "bound", &arena, &text));
  if (!strstr(text, "real") || !strstr(text, "only rows that are used")) fail_msg("%s", text);
  shoal_plan_free(plan);
  shoal_arena_deinit(&arena);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decided),
      cmocka_unit_test(refused),
      cmocka_unit_test(files),
      cmocka_unit_test(why),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

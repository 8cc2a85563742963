// Assignments under a predicate, on one device: what the builder takes, what a step does, text,
// expansion, the verifier.
#include "graph_support.h"

// w becomes w + x in steps in which the largest of x is below the limit; `seen` counts all steps.
static shoal_model_t *guarded_model(void) {
  shoal_model_t *model = new_model(1);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(3)), largest, soft;
  shoal_value_t limit = shoal_input(g, "limit", SHOAL_F64, SHOAL_SCALAR);
  shoal_value_t w = shoal_state(g, "w", SHOAL_F64, SHOAL_SHAPE(3), NULL);
  shoal_attr_t axis[] = {shoal_attr_int("axis", 0)};
  shoal_attr_t dims[] = {shoal_attr_ints("dims", 1, (int64_t[]){0})};
  shoal_node_add(g, "shoal.softmax", 1, &x, 1, axis, 1, &soft);
  shoal_node_add(g, "shoal.reduce_max", 1, &x, 1, dims, 1, &largest);
  shoal_value_t low = node(g, "shoal.greater_equal", limit, largest);
  shoal_assign_if(g, w, node(g, "shoal.add", w, x), low);
  shoal_output(g, "soft", soft);
  shoal_step(g);
  return model;
}

static void run_steps(const shoal_model_t *model) {
  static const double limits[] = {5, 2, 3, NAN, 4}, sums[] = {1, 1, 2, 2, 3};
  shoal_interpreter_t *in;
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  double x[] = {1, 2, 3};
  for (int i = 0; i < 5; ++i) {
    assert_ok(shoal_interpreter_feed(in, "x", x, sizeof x));
    assert_ok(shoal_interpreter_feed(in, "limit", &limits[i], sizeof limits[i]));
    if (i == 0) assert_ok(shoal_interpreter_run(in, "init"));
    assert_ok(shoal_interpreter_run(in, "train"));
    shoal_tensor_t w, step;
    assert_ok(shoal_interpreter_state(in, shoal_model_find_state(model, "w"), &w));
    assert_ok(shoal_interpreter_state(in, shoal_model_find_state(model, "step"), &step));
    assert_true(element(w, 2) == 3 * sums[i] && element(step, 0) == i + 1);
  }
  shoal_interpreter_free(in);
}

static void a_step_takes_it_or_not(void **state) {
  (void)state;
  shoal_model_t *model = guarded_model();
  assert_ok(shoal_model_verify(model));
  run_steps(model);
  shoal_model_free(model);
}

static void text_and_expansion_keep_it(void **state) {
  (void)state;
  shoal_model_t *model = guarded_model(), *copy, *expanded, *always;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *text, *again;
  assert_ok(shoal_model_print(model, &arena, &text));
  assert_non_null(strstr(text, "\n  assign w = %6 if %5\n"));
  assert_ok(shoal_model_parse("text", text, NULL, &copy));
  assert_ok(shoal_model_print(copy, &arena, &again));
  assert_string_equal(text, again);
  assert_true(shoal_model_hash(model) == shoal_model_hash(copy));
  run_steps(copy);
  // Values move behind what an expanded node adds.
  assert_ok(shoal_model_expand(model, "train", (const char *[]){"softmax"}, 1, &expanded));
  assert_ok(shoal_model_verify(expanded));
  run_steps(expanded);
  // Without it the model is another one.
  char *dropped = shoal_arena_strdup(&arena, text), *at = strstr(dropped, " if %5");
  memmove(at, at + 6, strlen(at + 6) + 1);
  assert_ok(shoal_model_parse("text", dropped, NULL, &always));
  assert_true(shoal_model_hash(model) != shoal_model_hash(always));
  assert_true(shoal_model_structure_hash(model) != shoal_model_structure_hash(always));
  shoal_model_free(always);
  shoal_model_free(expanded);
  shoal_model_free(copy);
  shoal_model_free(model);
  shoal_arena_deinit(&arena);
}

static void what_is_refused(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0), *other = guarded_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t w = shoal_state(g, "w", SHOAL_F64, SHOAL_SHAPE(3), NULL);
  shoal_assign_if(g, w, w, w);
  assert_error(INVALID_ARGUMENT, "only a bool scalar decides about an assignment; 'w' is f64[3]",
               shoal_model_status(model));
  shoal_model_free(model);
  model = new_model(0);
  g = shoal_model_graph(model, "train");
  w = shoal_state(g, "w", SHOAL_F64, SHOAL_SHAPE(3), NULL);
  shoal_assign_if(g, w, w, (shoal_value_t){NULL, -1});
  assert_error(INVALID_ARGUMENT, "assign's 'predicate' is a null value", shoal_model_status(model));
  shoal_model_free(model);
  // the verifier
  g = shoal_model_graph(other, "train");
  shoal_assignment_t *assign = &g->assigns.items[0], good = *assign;
  assign->predicate = (int32_t)g->values.count;
  assert_error(MISMATCH, "is not a value", shoal_model_verify(other));
  assign->predicate = 0;
  assert_error(MISMATCH, "is no bool scalar", shoal_model_verify(other));
  *assign = good;
  assert_ok(shoal_model_verify(other));
  shoal_model_free(other);
  const char *text =
      "model seed=0\nstate w f32[] zeros\ngraph init\n"
      "  %0 \"yes\" = shoal.full() {shape=[], value=1, dtype=bool} : bool[]\n"
      "  %1 \"w/full\" = shoal.full() {shape=[], value=1, dtype=f32} : f32[]\n"
      "  assign w = %1 if %0\n";
  assert_error(MISMATCH, "state 'w' gets its initial value under a condition",
               shoal_model_parse("text", text, NULL, &model));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_step_takes_it_or_not),
      cmocka_unit_test(text_and_expansion_keep_it),
      cmocka_unit_test(what_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// The text form: what is printed parses back to the same model; anything else is refused with its
// line and never crashes. The zoo models' round trips are in zoo_models_test.c.
#include "graph_support.h"
#include "unit/arena.h"
#include "unit/random.h"

// Two graphs, all kinds of initial values, odd names, exact doubles, a gradient.
static shoal_model_t *sample(void) {
  shoal_model_t *model = new_model(UINT64_C(0xfedcba9876543210));
  shoal_freeze(model, "old/*");
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(2, 3));
  shoal_value_t n = shoal_input(g, "n", SHOAL_I32, SHOAL_SCALAR);
  shoal_state_options_t normal = {.init = {SHOAL_INIT_NORMAL, 0.1, 1.0 / 3}, .trainable = true};
  shoal_state_options_t uniform = {.init = {SHOAL_INIT_UNIFORM, -1e-300, 0x1.fffffffffffffp+1}};
  shoal_state_options_t fill = {.init = {SHOAL_INIT_FILL, -0.0, 0}, .not_saved = true};
  shoal_state_options_t cut = {.init = {SHOAL_INIT_TRUNCATED_NORMAL, 0.1, 1.0 / 3, -0.5, 1}};
  shoal_value_t w = shoal_state(g, "fc/weight", SHOAL_F64, SHOAL_SHAPE(3), &normal);
  shoal_state(g, "cut", SHOAL_F32, SHOAL_SHAPE(3), &cut);
  shoal_state(g, "0/first", SHOAL_F32, SHOAL_SHAPE(1, 2), &uniform);
  shoal_state(g, "fc/weight#m.1", SHOAL_BF16, SHOAL_SHAPE(0, 4), &fill);
  shoal_step(g);
  shoal_scope_push(g, "fc");
  shoal_value_t y = node(g, "shoal.mul", x, w), scaled, sum, gradient;
  double third = 1.0 / 3;
  shoal_node_add(
      g, "shoal.affine", 1, &y, 2,
      (shoal_attr_t[]){shoal_attr_real("scale", third), shoal_attr_real("shift", -1e-17)}, 1,
      &scaled);
  shoal_node_add(
      g, "shoal.reduce_sum", 1, &scaled, 2,
      (shoal_attr_t[]){shoal_attr_ints("dims", 2, (int64_t[]){0, 1}), shoal_attr_int("keep", 0)}, 1,
      &sum);
  shoal_scope_pop(g);
  shoal_gradients(g, sum, 1, &w, &gradient);
  shoal_assign(g, w, gradient);
  shoal_output(g, "loss", sum);
  shoal_output(g, "same", n);
  shoal_graph_t *eval = shoal_model_graph(model, "eval");
  shoal_output(eval, "w", shoal_state(eval, "fc/weight", SHOAL_F64, SHOAL_SHAPE(3), &normal));
  assert_ok(shoal_model_verify(model));
  return model;
}

static void round_trip(void **state) {
  (void)state;
  shoal_model_t *model = sample(), *parsed;
  const char *text, *again;
  assert_ok(shoal_model_print(model, &arena, &text));
  assert_ok(shoal_model_parse("sample", text, NULL, &parsed));
  assert_ok(shoal_model_print(parsed, &arena, &again));
  assert_string_equal(text, again);
  assert_true(shoal_model_hash(model) == shoal_model_hash(parsed));
  assert_true(parsed->seed == model->seed);
  // initial values follow from the states: the parsed "init" is the same
  assert_int_equal(parsed->graphs.items[0]->nodes.count, model->graphs.items[0]->nodes.count);
  assert_null(strstr(text, "graph init"));
  // the readable form, literally
  assert_non_null(
      strstr(text, "state fc/weight f64[3] normal(0.1, 0.3333333333333333) trainable\n"));
  assert_non_null(strstr(text, "graph train\n  %0 = input x f64[2, 3]\n"));
  assert_non_null(strstr(text, "  output loss = %"));
  // lines of the text are what a parsed value is blamed on
  const shoal_graph_t *g = shoal_model_find_graph(parsed, "train");
  assert_string_equal(g->values.items[0].file, "sample");
  int line = 1;
  for (const char *at = text; at < strstr(text, "%0 = input"); ++at) line += *at == '\n';
  assert_int_equal(g->values.items[0].line, line);
  shoal_model_free(parsed);
  shoal_model_free(model);
}

static void hash_sees_changes(void **state) {
  (void)state;
  shoal_model_t *model = sample(), *same = sample();
  assert_true(shoal_model_hash(model) == shoal_model_hash(same));
  uint64_t hash = shoal_model_hash(model);
  shoal_output(shoal_model_graph(model, "eval"), "v",
               (shoal_value_t){shoal_model_graph(model, "eval"), 0});
  assert_true(shoal_model_hash(model) != hash);
  ++same->seed;
  assert_true(shoal_model_hash(same) != hash);
  uint64_t structure = shoal_model_structure_hash(same);
  --same->seed;
  assert_true(shoal_model_structure_hash(same) == structure);
  assert_true(shoal_model_structure_hash(model) != structure);
  shoal_model_free(model);
  shoal_model_free(same);
}

// An expanded init graph no longer follows from the states: it is printed and read back.
static void expanded_names_survive(void **state) {
  (void)state;
  shoal_model_t *model = new_model(1), *expanded, *parsed;
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(2, 3));
  shoal_value_t soft;
  shoal_node_add(g, "shoal.softmax", 1, &x, 1, (shoal_attr_t[]){shoal_attr_int("axis", -1)}, 1,
                 &soft);
  shoal_output(g, "y", soft);
  assert_ok(shoal_model_status(model));
  const char *name = "softmax", *text, *again;
  assert_ok(shoal_model_expand(model, "f", &name, 1, &expanded));
  assert_ok(shoal_model_verify(expanded));
  assert_ok(shoal_model_print(expanded, &arena, &text));
  assert_non_null(strstr(text, " as \"softmax\" \"softmax/"));
  assert_ok(shoal_model_parse("expanded", text, NULL, &parsed));
  assert_ok(shoal_model_print(parsed, &arena, &again));
  assert_string_equal(text, again);
  assert_true(shoal_model_hash(expanded) == shoal_model_hash(parsed));
  name = "nothing";
  shoal_model_t *none;
  assert_error(NOT_FOUND, "nothing", shoal_model_expand(model, "f", &name, 1, &none));
  assert_error(NOT_FOUND, "'g'", shoal_model_expand(model, "g", &name, 1, &none));
  shoal_model_free(parsed);
  shoal_model_free(expanded);
  shoal_model_free(model);
}

static void rewritten_init_is_printed(void **state) {
  (void)state;
  const char *given =
      "model seed=1\nstate w f64[] zeros\n"
      "graph init\n"
      "  %0 \"a\" = shoal.full() {shape=[], value=2.5, dtype=f64} : f64[]\n"
      "  assign w = %0\n";
  shoal_model_t *model;
  const char *text;
  assert_ok(shoal_model_parse("init", given, NULL, &model));
  assert_ok(shoal_model_print(model, &arena, &text));
  assert_string_equal(given, text);
  shoal_model_free(model);
}

static void refusals(void **state) {
  (void)state;
  static const struct {
    const char *text, *part;
  } bad[] = {
      {"", "t:1:1"},
      {"graph x", "expected 'model'"},
      {"model seed=99999999999999999999", "64 bits"},
      {"model seed=1\nstate w f99[]", "t:2"},
      {"model seed=1\nstate w f32[] ones", "zeros"},
      {"model seed=1\nstate w f32[] zeros\nstate w f32[] zeros", "twice"},
      {"model seed=1\nstate w f32[1,1,1,1,1,1,1,1,1] zeros", "more than"},
      {"model seed=1\nstate w f32[-1] zeros", "negative"},
      {"model seed=1\n  %0 = input x f32[]", "graph"},
      {"model seed=1\ngraph g\n  %1 = input x f32[]", "%0 is next"},
      {"model seed=1\ngraph g\n  %0 = state w", "no state"},
      {"model seed=1\ngraph g\n  %0 = input x f32[] extra", "end of the line"},
      {"model seed=1\ngraph g\ngraph g", "twice"},
      {"model seed=1\ngraph g\n  %0 \"a\" = shoal.relu(%0) : f32[]", "not defined above"},
      {"model seed=1\ngraph g\n  %0 = input x f32[]\n  %1 \"a\" = shoal.relu(%0) : f64[]",
       "gives f32"},
      {"model seed=1\ngraph g\n  %0 = input x f32[]\n  %1 \"x\" = shoal.relu(%0) : f32[]",
       "already used"},
      {"model seed=1\ngraph g\n  %0 = input x f32[]\n  %1 \"a\" = shoal.rellu(%0) : f32[]",
       "rellu"},
      {"model seed=1\ngraph g\n  %0 = input x f32[]\n  %1 \"a\" = shoal.relu(%0) {p=1} : f32[]",
       "'p'"},
      {"model seed=1\ngraph g\n  %0 = input x f32[]\n  output a = %0\n  output a = %0",
       "already has"},
      {"model seed=1\nstate w f32[] zeros\ngraph init\n  %0 = state w", "initial value"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    shoal_model_t *model;
    shoal_status_t status = shoal_model_parse("t", bad[i].text, NULL, &model);
    if (!strstr(shoal_status_message(status), bad[i].part)) {
      print_error("%s\n-> %s\n", bad[i].text, shoal_status_message(status));
    }
    assert_non_null(strstr(shoal_status_message(status), bad[i].part));
    assert_null(model);
    shoal_status_free(status);
  }
}

// Random bytes, and valid texts with random edits.
static void fuzz(void **state) {
  (void)state;
  shoal_model_t *model = sample();
  const char *text;
  assert_ok(shoal_model_print(model, &arena, &text));
  shoal_model_free(model);
  assert_true(strlen(text) > 200);
  int accepted = 0;
  for (uint64_t round = 0; round < 6000; ++round) {
    random_t r = {.seed = 77, .round = round};
    char *edited = random_edits(&r, text);
    if (round % 4 == 0) {
      size_t size = draw(&r, 200);
      for (size_t i = 0; i < size; ++i) edited[i] = (char)(1 + draw(&r, 255));
      if (round % 8 == 0) memcpy(edited, "model seed=1\n", size < 13 ? size : 13);
      edited[size] = 0;
    }
    shoal_model_t *parsed;
    shoal_status_t status = shoal_model_parse("fuzz", edited, NULL, &parsed);
    if (!status) {
      const char *again;
      ++accepted;
      assert_ok(shoal_model_verify(parsed));
      assert_ok(shoal_model_print(parsed, &arena, &again));
    }
    assert_true((parsed != NULL) == (status == NULL));
    shoal_model_free(parsed);
    shoal_status_free(status);
    test_free(edited);
  }
  print_message("%d changed texts were still models\n", accepted);
  assert_true(accepted > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trip),
      cmocka_unit_test(hash_sees_changes),
      cmocka_unit_test(expanded_names_survive),
      cmocka_unit_test(rewritten_init_is_printed),
      cmocka_unit_test(refusals),
      cmocka_unit_test(fuzz),
  };
  return cmocka_run_group_tests(tests, setup_arena, teardown_arena);
}

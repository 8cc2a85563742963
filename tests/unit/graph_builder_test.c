// The builder: names, scopes, states, and above all errors - the first is kept, with the line of
// the call that made it, and everything after it is harmless.
#include "graph_support.h"
#include "shoal/ops.h"

// Checks that the model's error blames this file at `line`, then frees the model.
static void expect_error(shoal_model_t *model, int line, shoal_code_t code, const char *part) {
  shoal_status_t status = shoal_model_status(model);
  if (!strstr(shoal_status_message(status), part))
    print_error("%s\n", shoal_status_message(status));
  assert_int_equal(shoal_status_code(status), code);
  assert_non_null(strstr(shoal_status_message(status), part));
  assert_non_null(strstr(shoal_status_file(status), "graph_builder_test.c"));
  assert_int_equal(shoal_status_line(status), line);
  shoal_status_free(status);
  shoal_model_free(model);
}

static void unknown_op(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(2, 3));
  shoal_value_t y = node(g, "shoal.rellu", x);
  int line = __LINE__ - 1;
  assert_false(shoal_value_ok(y));
  expect_error(model, line, SHOAL_NOT_FOUND, "rellu");
}

static void questions(void **state) {
  (void)state;
  shoal_model_t *model;
  assert_ok(shoal_model_create(NULL, &model));
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_I32, SHOAL_SHAPE(3, 4));
  const shoal_state_options_t trainable = {.trainable = true};
  shoal_state(g, "w", SHOAL_F32, SHOAL_SHAPE(5, 7), &trainable);
  shoal_state(g, "count", SHOAL_F32, SHOAL_SHAPE(100), NULL);
  shoal_output(g, "y", x);
  shoal_type_t type;
  assert_ptr_equal(shoal_model_find_graph(model, "train"), g);
  assert_null(shoal_model_find_graph(model, "eval"));
  assert_int_equal(shoal_model_parameters(model), 35);
  assert_true(shoal_graph_input_type(g, "x", &type));
  assert_int_equal(type.dtype, SHOAL_I32);
  assert_int_equal(type.shape.dims[1], 4);
  assert_true(shoal_graph_output_type(g, "y", &type));
  assert_false(shoal_graph_output_type(g, "x", &type));
  assert_false(shoal_graph_input_type(NULL, "x", &type));
  shoal_model_free(model);
}

// Read by tables of 7 and, through a reshape, of 5 rows.
static void indices(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  const shoal_value_t ids = shoal_input(g, "ids", SHOAL_I32, SHOAL_SHAPE(2, 3));
  const shoal_value_t other = shoal_input(g, "other", SHOAL_I32, SHOAL_SHAPE(6));
  shoal_embedding(g, shoal_input(g, "seven", SHOAL_F32, SHOAL_SHAPE(7, 2)), ids);
  shoal_embedding(g, shoal_input(g, "five", SHOAL_F32, SHOAL_SHAPE(5, 2)),
                  shoal_reshape(g, ids, SHOAL_SHAPE(6)));
  shoal_add(g, other, other);
  assert_ok(shoal_model_status(model));
  int64_t count = -1;
  assert_ok(shoal_graph_input_indices(g, "ids", &count));
  assert_int_equal(count, 5);
  assert_ok(shoal_graph_input_indices(g, "other", &count));
  assert_int_equal(count, 0);
  shoal_status_t status = shoal_graph_input_indices(g, "idz", &count);
  assert_int_equal(shoal_status_code(status), SHOAL_NOT_FOUND);
  shoal_status_free(status);
  shoal_model_free(model);
}

static void bad_shapes(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(2, 3));
  shoal_value_t y = shoal_input(g, "y", SHOAL_F32, SHOAL_SHAPE(2, 4));
  shoal_scope_push(g, "block0");
  node(g, "shoal.add", x, y);
  int line = __LINE__ - 1;
  node(g, "shoal.add", x, x);  // after the error: nothing
  expect_error(model, line, SHOAL_INVALID_ARGUMENT, "block0");
}

static void too_many_inputs_and_outputs(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(2, 3));
  node(g, "shoal.add", x, x, x);
  int line = __LINE__ - 1;
  expect_error(model, line, SHOAL_INVALID_ARGUMENT, "2 input");

  model = new_model(0);
  g = shoal_model_graph(model, "train");
  x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(2, 3));
  shoal_value_t outputs[2];
  shoal_node_add(g, "shoal.relu", 1, &x, 0, NULL, 2, outputs);
  line = __LINE__ - 1;
  assert_false(shoal_value_ok(outputs[0]) || shoal_value_ok(outputs[1]));
  expect_error(model, line, SHOAL_INVALID_ARGUMENT, "1 output");
}

static void bad_attribute(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(2, 3)), y;
  shoal_node_add(g, "shoal.relu", 1, &x, 1, (shoal_attr_t[]){shoal_attr_int("slope", 1)}, 1, &y);
  expect_error(model, __LINE__ - 1, SHOAL_INVALID_ARGUMENT, "slope");
}

// A default that is not 0 does not take a 0 that is given for itself.
static void zeros_are_given(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  const shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(2, 3));
  shoal_value_t values;
  shoal_clamp(g, x, 0, 6);
  shoal_variance(g, x, SHOAL_SHAPE(1), 0);
  shoal_top_k(g, x, 2, 1, 0, &values, NULL);
  shoal_diagonal(g, x, 0, 1);
  assert_ok(shoal_model_status(model));
  static const char *const names[] = {"min", "correction", "largest", "rows"};
  for (int32_t n = 0; n < 4; ++n) {
    const shoal_node_t *node = &g->nodes.items[n];
    int32_t a = 0;
    while (strcmp(node->op->attrs[a].name, names[n]) != 0) ++a;
    assert_true(node->op->attrs[a].stated);
    if (node->op->attrs[a].kind == SHOAL_ATTR_REAL) {
      assert_true(node->attrs[a].f == 0);
    } else {
      assert_int_equal(node->attrs[a].i, 0);
    }
  }
  shoal_model_free(model);
}

static void value_of_another_graph(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *train = shoal_model_graph(model, "train"),
                *eval = shoal_model_graph(model, "eval");
  shoal_value_t x = shoal_input(train, "x", SHOAL_F32, SHOAL_SHAPE(2));
  int first = __LINE__ - 1;
  node(eval, "shoal.relu", x);
  int second = __LINE__ - 1;
  char both[64];
  snprintf(both, sizeof both, "graph_builder_test.c:%d", first);
  expect_error(model, second, SHOAL_INVALID_ARGUMENT, both);
}

static void null_values(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  node(g, "shoal.relu", (shoal_value_t){0});
  int line = __LINE__ - 1;
  expect_error(model, line, SHOAL_INVALID_ARGUMENT, "null value");
}

static void bad_names(void **state) {
  (void)state;
  static const char *const names[] = {"", "a b", "a//b", "a/", "a*", "\x80", NULL};
  for (int i = 0; i < 7; ++i) {
    shoal_model_t *model = new_model(0);
    shoal_graph_t *g = shoal_model_graph(model, "train");
    shoal_input(g, names[i], SHOAL_F32, SHOAL_SHAPE(2));
    expect_error(model, __LINE__ - 1, SHOAL_INVALID_ARGUMENT, "not a name");
  }
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(2));
  shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(2));
  expect_error(model, __LINE__ - 1, SHOAL_INVALID_ARGUMENT, "already used");
  model = new_model(0);
  assert_null(shoal_model_graph(model, "a b"));
  assert_error(INVALID_ARGUMENT, "not a name", shoal_model_status(model));
  shoal_model_free(model);
}

static void bad_types(void **state) {
  (void)state;
  shoal_shape_t shapes[] = {SHOAL_SHAPE(-1), SHOAL_SHAPE(INT64_MAX, 2), {.rank = 9}, {.rank = -1}};
  for (int i = 0; i < 4; ++i) {
    shoal_model_t *model = new_model(0);
    shoal_graph_t *g = shoal_model_graph(model, "train");
    shoal_input(g, "x", SHOAL_F32, shapes[i]);
    expect_error(model, __LINE__ - 1, SHOAL_INVALID_ARGUMENT, "input 'x'");
    model = new_model(0);
    shoal_state(shoal_model_graph(model, "train"), "x", SHOAL_F32, shapes[i], NULL);
    expect_error(model, __LINE__ - 1, SHOAL_INVALID_ARGUMENT, "state 'x'");
  }
  shoal_model_t *model = new_model(0);
  shoal_input(shoal_model_graph(model, "train"), "x", (shoal_dtype_t)77, SHOAL_SHAPE(2));
  expect_error(model, __LINE__ - 1, SHOAL_INVALID_ARGUMENT, "element type");
}

static void states_must_agree(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *train = shoal_model_graph(model, "train"),
                *eval = shoal_model_graph(model, "eval");
  shoal_state(train, "w", SHOAL_F32, SHOAL_SHAPE(2, 3), NULL);
  int first = __LINE__ - 1;
  char where[64];
  snprintf(where, sizeof where, "graph_builder_test.c:%d", first);
  shoal_state(eval, "w", SHOAL_F32, SHOAL_SHAPE(3, 2), NULL);
  expect_error(model, __LINE__ - 1, SHOAL_INVALID_ARGUMENT, where);

  model = new_model(0);
  shoal_state_options_t options = {.trainable = true, .init = {SHOAL_INIT_FILL, 1, 0}};
  shoal_state(shoal_model_graph(model, "train"), "w", SHOAL_I32, SHOAL_SHAPE(2), &options);
  expect_error(model, __LINE__ - 1, SHOAL_INVALID_ARGUMENT, "trainable");
}

static void assignments(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t w = shoal_state(g, "w", SHOAL_F32, SHOAL_SHAPE(2), NULL);
  shoal_assign(g, w, node(g, "shoal.relu", w));
  assert_ok(shoal_model_status(model));
  shoal_assign(g, w, w);
  expect_error(model, __LINE__ - 1, SHOAL_INVALID_ARGUMENT, "twice");

  model = new_model(0);
  g = shoal_model_graph(model, "train");
  w = shoal_state(g, "w", SHOAL_F32, SHOAL_SHAPE(2), NULL);
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(3));
  shoal_assign(g, w, x);
  expect_error(model, __LINE__ - 1, SHOAL_INVALID_ARGUMENT, "cannot be assigned");

  model = new_model(0);
  g = shoal_model_graph(model, "train");
  x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(3));
  shoal_assign(g, x, x);
  expect_error(model, __LINE__ - 1, SHOAL_INVALID_ARGUMENT, "not a state");
}

static void init_is_reserved(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_input(shoal_model_graph(model, "init"), "x", SHOAL_F32, SHOAL_SHAPE(3));
  expect_error(model, __LINE__ - 1, SHOAL_INVALID_ARGUMENT, "reserved");
}

static void gradient_errors(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(3)), dx;
  shoal_gradients(g, x, 1, &x, &dx);
  expect_error(model, __LINE__ - 1, SHOAL_INVALID_ARGUMENT, "scalar");

  model = new_model(0);
  g = shoal_model_graph(model, "train");
  x = shoal_input(g, "x", SHOAL_F32, SHOAL_SCALAR);
  shoal_value_t n = shoal_input(g, "n", SHOAL_I32, SHOAL_SCALAR);
  shoal_gradients(g, x, 2, (shoal_value_t[]){x, n}, (shoal_value_t[2]){{0}});
  expect_error(model, __LINE__ - 1, SHOAL_INVALID_ARGUMENT, "not a float");
}

static void sites_blame_the_caller(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(2, 3));
  shoal_site_push(g, "user/graph_builder_test.c", 12);
  shoal_site_push(g, "nowhere.c", 99);  // the outermost wins
  shoal_value_t y = node(g, "shoal.relu", x);
  shoal_site_pop(g);
  node(g, "shoal.nothing", x);
  shoal_site_pop(g);
  assert_int_equal(g->values.items[y.id].line, 12);
  expect_error(model, 12, SHOAL_NOT_FOUND, "shoal.nothing");
}

static void names_are_stable(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(2, 3));
  assert_string_equal(shoal_value_name(node(g, "shoal.relu", x)), "relu");
  assert_string_equal(shoal_value_name(node(g, "shoal.relu", x)), "relu_1");
  shoal_scope_push(g, "block0");
  shoal_scope_push(g, "attn");
  assert_string_equal(shoal_value_name(node(g, "shoal.relu", x)), "block0/attn/relu");
  assert_string_equal(shoal_value_name(node(g, "shoal.add", x, x)), "block0/attn/add");
  assert_string_equal(shoal_value_name(node(g, "shoal.relu", x)), "block0/attn/relu_1");
  shoal_value_t w = shoal_state(g, "w", SHOAL_F32, SHOAL_SHAPE(3), NULL);
  assert_string_equal(shoal_value_name(w), "block0/attn/w");
  assert_int_equal(shoal_state(g, "w", SHOAL_F32, SHOAL_SHAPE(3), NULL).id, w.id);
  assert_string_equal(shoal_value_name(shoal_state(g, "/lr", SHOAL_F32, SHOAL_SCALAR, NULL)), "lr");
  shoal_scope_push(g, "/");
  assert_string_equal(shoal_value_name(node(g, "shoal.relu", x)), "relu_2");
  shoal_scope_pop(g);
  shoal_scope_pop(g);
  assert_string_equal(shoal_value_name(node(g, "shoal.relu", x)), "block0/relu");
  shoal_scope_pop(g);
  assert_string_equal(shoal_value_name(x), "x");
  // a key depends on seed and full name only
  int64_t key = shoal_random_key(g, "block0/drop");
  shoal_scope_push(g, "block0");
  assert_int_equal(shoal_random_key(g, "drop"), key);
  shoal_scope_pop(g);
  assert_int_not_equal(shoal_random_key(g, "drop"), key);
  assert_ok(shoal_model_verify(model));
  shoal_scope_pop(g);
  expect_error(model, __LINE__ - 1, SHOAL_INVALID_ARGUMENT, "no scope");
}

static void states_write_init(void **state) {
  (void)state;
  shoal_model_t *model = new_model(3);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_state(g, "a", SHOAL_F32, SHOAL_SHAPE(4),
              &(shoal_state_options_t){.init = {SHOAL_INIT_FILL, 2.5, 0}});
  shoal_state(g, "b", SHOAL_F64, SHOAL_SHAPE(4),
              &(shoal_state_options_t){.init = {SHOAL_INIT_NORMAL, 0, 1}, .trainable = true});
  shoal_state(g, "c", SHOAL_F32, SHOAL_SHAPE(4),
              &(shoal_state_options_t){.init = {SHOAL_INIT_UNIFORM, -1, 1}});
  shoal_step(g);
  shoal_value_t step = shoal_step(g);
  assert_int_equal(step.id, shoal_step(g).id);
  const shoal_graph_t *init = shoal_model_find_graph(model, "init");
  assert_ptr_equal(init, model->graphs.items[0]);
  assert_int_equal(init->assigns.count, 4);
  assert_int_equal(model->states.count, 4);
  assert_int_equal(g->assigns.count, 1);
  assert_ok(shoal_model_verify(model));

  shoal_interpreter_t *in;
  shoal_tensor_t t;
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  assert_ok(shoal_interpreter_run(in, "init"));
  assert_ok(shoal_interpreter_state(in, 0, &t));
  assert_true(element(t, 3) == 2.5);
  assert_ok(shoal_interpreter_state(in, 2, &t));
  assert_true(element(t, 0) != element(t, 1) && fabs(element(t, 0)) <= 1);
  for (int i = 1; i <= 3; ++i) {
    assert_ok(shoal_interpreter_run(in, "train"));
    assert_ok(shoal_interpreter_state(in, 3, &t));
    assert_int_equal(shoal_dtype_load_int(t.dtype, t.data, 0), i);
  }
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

static void patterns(void **state) {
  (void)state;
  assert_true(shoal_pattern_match("block0/*", "block0/attn/w"));
  assert_false(shoal_pattern_match("block0/*", "block01/w"));
  assert_true(shoal_pattern_match("*/w", "a/b/w"));
  assert_true(shoal_pattern_match("re:block[0-3]/.*", "block2/attn/w"));
  assert_false(shoal_pattern_match("re:block[0-3]/.*", "block4/attn/w"));
  assert_false(shoal_pattern_match("re:block[0-3]", "block2/attn/w"));
  assert_true(shoal_pattern_match("re:a|b/w", "b/w"));
  assert_false(shoal_pattern_match("re:a|b/w", "a/w"));
  assert_true(shoal_pattern_is("a*") && shoal_pattern_is("re:a") && !shoal_pattern_is("a/re:"));
  assert_ok(shoal_pattern_check("block[0"));
  assert_error(INVALID_ARGUMENT, "'block[0' is no regular expression",
               shoal_pattern_check("re:block[0"));
  assert_error(INVALID_ARGUMENT, "is no regular expression", shoal_pattern_check("re:a)(b"));
  assert_true(shoal_pattern_match("*", ""));
  assert_true(shoal_pattern_match("a*b*c", "aXbXbc"));
  assert_false(shoal_pattern_match("a*b*c", "aXbXb"));
  assert_false(shoal_pattern_match("", "a"));
  shoal_model_t *model = new_model(0);
  shoal_freeze(model, "block0/*");
  assert_true(shoal_model_freezes(model, "block0/w"));
  assert_false(shoal_model_freezes(model, "block1/w"));
  shoal_freeze(model, "");
  expect_error(model, __LINE__ - 1, SHOAL_INVALID_ARGUMENT, "pattern");
}

// A window that is larger than what it slides over would give an empty output.
static void windows_fit(void **state) {
  (void)state;
  for (int i = 0; i < 4; ++i) {
    shoal_model_t *model = new_model(0);
    shoal_graph_t *g = shoal_model_graph(model, "train");
    shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(1, 2, 5, 4));
    shoal_value_t w = shoal_input(g, "w", SHOAL_F64, SHOAL_SHAPE(3, 2, i == 1 ? 8 : 5, 5));
    const shoal_shape_t one = SHOAL_SHAPE(1, 1), none = SHOAL_SHAPE(0, 0), five = SHOAL_SHAPE(5, 5);
    const int line = __LINE__ + 1;
    if (i < 2) shoal_conv(g, x, w, one, i == 0 ? none : one);
    if (i == 2) shoal_max_pool(g, x, five, one, none);
    if (i == 3) shoal_conv(g, x, w, one, SHOAL_SHAPE(0, 1));
    if (i < 3) {
      expect_error(model, line + i / 2, SHOAL_INVALID_ARGUMENT,
                   i == 1 ? "spans 8 rows, but x has 5 and 2 of padding"
                          : "spans 5 columns, but x has 4 and 0 of padding");
    } else {
      assert_ok(shoal_model_status(model));
      shoal_model_free(model);
    }
  }
}

// Everything the header has, on a model with an error, a NULL graph and null values.
static void harmless_after_error(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *graphs[] = {shoal_model_graph(model, "train"), NULL};
  node(graphs[0], "shoal.nothing", (shoal_value_t){0});
  int line = __LINE__ - 1;
  for (int i = 0; i < 2; ++i) {
    shoal_graph_t *g = graphs[i];
    shoal_scope_push(g, "a");
    shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(2));
    shoal_value_t w = shoal_state(g, "w", SHOAL_F32, SHOAL_SHAPE(2), NULL);
    shoal_value_t y = node(g, "shoal.add", x, w), dy;
    shoal_gradients(g, y, 1, &w, &dy);
    shoal_assign(g, w, dy);
    shoal_output(g, "y", y);
    shoal_step(g);
    shoal_random_key(g, "k");
    shoal_scope_pop(g);
    shoal_scope_pop(g);
    shoal_site_push(g, "f", 1);
    shoal_site_pop(g);
    assert_false(shoal_value_ok(x) || shoal_value_ok(w) || shoal_value_ok(y) || shoal_value_ok(dy));
    assert_int_equal(shoal_value_type(y).dtype, SHOAL_F32);
    assert_string_equal(shoal_value_name(y), "");
    assert_string_equal(shoal_graph_name(g), g ? "train" : "");
    assert_ptr_equal(shoal_graph_model(g), g ? model : NULL);
  }
  shoal_freeze(model, "*");
  assert_non_null(shoal_model_graph(model, "eval"));
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *text;
  shoal_model_t *expanded;
  shoal_interpreter_t *in;
  assert_error(NOT_FOUND, "nothing", shoal_model_print(model, &arena, &text));
  assert_error(NOT_FOUND, "nothing", shoal_model_verify(model));
  assert_error(NOT_FOUND, "nothing", shoal_model_expand(model, "train", NULL, 0, &expanded));
  assert_error(NOT_FOUND, "nothing", shoal_interpreter_create(model, NULL, &in));
  shoal_arena_deinit(&arena);
  expect_error(model, line, SHOAL_NOT_FOUND, "nothing");
  shoal_model_free(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unknown_op),
      cmocka_unit_test(bad_shapes),
      cmocka_unit_test(questions),
      cmocka_unit_test(indices),
      cmocka_unit_test(too_many_inputs_and_outputs),
      cmocka_unit_test(bad_attribute),
      cmocka_unit_test(zeros_are_given),
      cmocka_unit_test(value_of_another_graph),
      cmocka_unit_test(null_values),
      cmocka_unit_test(bad_names),
      cmocka_unit_test(bad_types),
      cmocka_unit_test(states_must_agree),
      cmocka_unit_test(assignments),
      cmocka_unit_test(init_is_reserved),
      cmocka_unit_test(gradient_errors),
      cmocka_unit_test(sites_blame_the_caller),
      cmocka_unit_test(names_are_stable),
      cmocka_unit_test(states_write_init),
      cmocka_unit_test(patterns),
      cmocka_unit_test(windows_fit),
      cmocka_unit_test(harmless_after_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

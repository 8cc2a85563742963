// The interpreter: feeding, running, promotion to f64, observers, other executors, failing memory.
#include "graph_support.h"
#include "unit/failing.h"

// train: y = relu(x * w) + step; w <- y[0] ... a small graph with every kind of value.
static void build(shoal_model_t *model) {
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(2, 3));
  shoal_state_options_t normal = {.init = {SHOAL_INIT_NORMAL, 0, 1}, .trainable = true};
  shoal_value_t w = shoal_state(g, "w", SHOAL_F32, SHOAL_SHAPE(2, 3), &normal);
  shoal_value_t b = shoal_state(g, "b", SHOAL_F32, SHOAL_SCALAR,
                                &(shoal_state_options_t){.init = {SHOAL_INIT_FILL, 0.1, 0}});
  shoal_value_t y = node(g, "shoal.add", node(g, "shoal.mul", x, w), b);
  shoal_step(g);
  shoal_assign(g, w, y);
  shoal_output(g, "y", y);
  shoal_graph_t *eval = shoal_model_graph(model, "eval");
  shoal_value_t n = shoal_input(eval, "x", SHOAL_F32, SHOAL_SHAPE(4));
  shoal_output(eval, "n", n);
}

static const float xs[6] = {1, 2, 3, -1, -2, 0.5f};

static void errors(void **state) {
  (void)state;
  shoal_model_t *model = new_model(1);
  build(model);
  shoal_interpreter_t *in;
  shoal_tensor_t t;
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  assert_error(INVALID_ARGUMENT, "been run", shoal_interpreter_value(in, 0, &t));
  assert_error(INVALID_ARGUMENT, "been run", shoal_interpreter_output(in, "y", &t));
  assert_error(NOT_FOUND, "graph 'test'", shoal_interpreter_run(in, "test"));
  assert_error(INVALID_ARGUMENT, "not fed", shoal_interpreter_run(in, "train"));
  assert_error(NOT_FOUND, "input 'z'", shoal_interpreter_feed(in, "z", xs, sizeof xs));
  assert_error(INVALID_ARGUMENT, "bytes", shoal_interpreter_feed(in, "x", xs, 20));
  assert_ok(shoal_interpreter_feed(in, "x", xs, 16));  // eval's
  assert_error(INVALID_ARGUMENT, "was fed 16", shoal_interpreter_run(in, "train"));
  assert_ok(shoal_interpreter_run(in, "eval"));
  assert_ok(shoal_interpreter_output(in, "n", &t));
  assert_true(element(t, 3) == -1);
  assert_ok(shoal_interpreter_feed(in, "x", xs, sizeof xs));
  assert_ok(shoal_interpreter_run(in, "train"));
  assert_error(NOT_FOUND, "output 'n'", shoal_interpreter_output(in, "n", &t));
  assert_error(NOT_FOUND, "no value 99", shoal_interpreter_value(in, 99, &t));
  assert_error(NOT_FOUND, "no state", shoal_interpreter_state(in, -1, &t));
  shoal_interpreter_free(in);
  shoal_interpreter_free(NULL);
  shoal_model_free(model);
}

static void promotion(void **state) {
  (void)state;
  shoal_model_t *model = new_model(1);
  build(model);
  shoal_interpreter_t *plain, *wide;
  assert_ok(shoal_interpreter_create(model, NULL, &plain));
  assert_ok(
      shoal_interpreter_create(model, &(shoal_interpreter_options_t){.promote = true}, &wide));
  shoal_tensor_t a, b;
  assert_ok(shoal_interpreter_run(plain, "init"));
  assert_ok(shoal_interpreter_run(wide, "init"));
  // random values are drawn in f32 in both: the same numbers
  assert_ok(shoal_interpreter_state(plain, 0, &a));
  assert_ok(shoal_interpreter_state(wide, 0, &b));
  assert_int_equal(a.dtype, SHOAL_F32);
  assert_int_equal(b.dtype, SHOAL_F64);
  double w[6];
  for (int i = 0; i < 6; ++i) {
    w[i] = element(a, i);
    assert_true(w[i] == element(b, i) && w[i] != 0);
  }
  // constants are not: 0.1 is the f64 number
  assert_ok(shoal_interpreter_state(wide, 1, &b));
  assert_true(element(b, 0) == 0.1);
  assert_ok(shoal_interpreter_feed(wide, "x", xs, sizeof xs));
  assert_ok(shoal_interpreter_run(wide, "train"));
  assert_ok(shoal_interpreter_output(wide, "y", &b));
  assert_int_equal(b.dtype, SHOAL_F64);
  for (int i = 0; i < 6; ++i) assert_true(element(b, i) == (double)xs[i] * w[i] + 0.1);
  assert_ok(shoal_interpreter_state(wide, 0, &a));  // and assigned
  for (int i = 0; i < 6; ++i) assert_true(element(a, i) == element(b, i));
  assert_ok(shoal_interpreter_state(wide, 2, &a));  // integers stay what they are
  assert_int_equal(a.dtype, SHOAL_I64);
  shoal_interpreter_free(plain);
  shoal_interpreter_free(wide);
  shoal_model_free(model);
}

static int observed[64];

static void see(void *self, const shoal_graph_t *graph, int32_t value, shoal_tensor_t tensor) {
  ++observed[value];
  const shoal_value_info_t *info = &graph->values.items[value];
  if (strcmp(info->name, (const char *)self) == 0) {
    for (int64_t i = 0; i < shoal_shape_count(&tensor.shape); ++i) {
      shoal_dtype_store(tensor.dtype, tensor.data, i, 7);
    }
  }
}

// Each value is shown once and may be changed: what follows sees the change, the state itself does
// not.
static void observers(void **state) {
  (void)state;
  shoal_model_t *model = new_model(1);
  build(model);
  shoal_interpreter_t *in;
  char name[] = "b";
  shoal_interpreter_options_t options = {.observe = see, .observe_self = name};
  assert_ok(shoal_interpreter_create(model, &options, &in));
  assert_ok(shoal_interpreter_run(in, "init"));
  assert_ok(shoal_interpreter_feed(in, "x", (float[6]){0}, sizeof xs));
  memset(observed, 0, sizeof observed);
  assert_ok(shoal_interpreter_run(in, "train"));
  const shoal_graph_t *g = shoal_model_find_graph(model, "train");
  for (int64_t i = 0; i < g->values.count; ++i) assert_int_equal(observed[i], 1);
  shoal_tensor_t t;
  assert_ok(shoal_interpreter_output(in, "y", &t));
  assert_true(element(t, 0) == 7);
  assert_ok(shoal_interpreter_state(in, 1, &t));
  assert_true(element(t, 0) == (double)0.1f);
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

static shoal_status_t refuse_mul(void *self, const shoal_call_t *call, const shoal_tensor_t *inputs,
                                 const shoal_tensor_t *outputs) {
  if (strcmp(call->op->name, "shoal.mul") == 0) {
    return shoal_status_create(SHOAL_UNSUPPORTED, "", 0, "no products here", NULL);
  }
  shoal_executor_t reference = shoal_executor_reference(self);
  return reference.execute(reference.self, call, inputs, outputs);
}

static void executors(void **state) {
  (void)state;
  shoal_model_t *model = new_model(1);
  build(model);
  shoal_allocator_t system = shoal_allocator_system();
  shoal_interpreter_options_t options = {.executor = {&system, refuse_mul}};
  shoal_interpreter_t *in;
  assert_ok(shoal_interpreter_create(model, &options, &in));
  assert_ok(shoal_interpreter_run(in, "init"));
  assert_ok(shoal_interpreter_feed(in, "x", xs, sizeof xs));
  // the error names graph, node and the line that made it
  assert_error(UNSUPPORTED, "running graph 'train': node 'mul' (",
               shoal_interpreter_run(in, "train"));
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

// Build, print, parse, expand and run with the Nth allocation failing, for every N.
static shoal_status_t everything(shoal_allocator_t allocator, void *context) {
  (void)context;
  shoal_model_options_t options = {.allocator = allocator, .seed = 1};
  shoal_model_t *model = NULL, *parsed = NULL, *copy = NULL;
  shoal_interpreter_t *in = NULL;
  shoal_arena_t arena;
  const char *text;
  shoal_status_t status = NULL;
  shoal_arena_init(allocator, &arena);
  SHOAL_GOTO_IF_ERROR(status, done, shoal_model_create(&options, &model));
  build(model);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t y = {g, g ? g->outputs.count ? g->outputs.items[0].value : -1 : -1}, sum, gradient;
  shoal_node_add(
      g, "shoal.reduce_sum", 1, &y, 2,
      (shoal_attr_t[]){shoal_attr_ints("dims", 2, (int64_t[]){0, 1}), shoal_attr_int("keep", 0)}, 1,
      &sum);
  shoal_value_t w = shoal_state(g, "w", SHOAL_F32, SHOAL_SHAPE(2, 3), NULL);
  shoal_gradients(g, sum, 1, &w, &gradient);
  SHOAL_GOTO_IF_ERROR(status, done, shoal_model_verify(model));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_model_print(model, &arena, &text));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_model_parse("t", text, &options, &parsed));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_model_expand(parsed, "train", NULL, 0, &copy));
  shoal_interpreter_options_t run = {.allocator = allocator, .promote = true};
  SHOAL_GOTO_IF_ERROR(status, done, shoal_interpreter_create(copy, &run, &in));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_interpreter_run(in, "init"));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_interpreter_feed(in, "x", xs, sizeof xs));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_interpreter_run(in, "train"));
  shoal_tensor_t out;
  status = shoal_interpreter_output(in, "y", &out);
done:
  shoal_interpreter_free(in);
  shoal_model_free(copy);
  shoal_model_free(parsed);
  shoal_model_free(model);
  shoal_arena_deinit(&arena);
  return status;
}

static void every_allocation_fails(void **state) {
  (void)state;
  int64_t calls = check_failing_allocations(everything, NULL, 0);
  assert_true(calls > 20);
  print_message("%lld allocations\n", (long long)calls);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(errors),
      cmocka_unit_test(promotion),
      cmocka_unit_test(observers),
      cmocka_unit_test(executors),
      cmocka_unit_test(every_allocation_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// The public call: a user's model, options as for shoal_parallelize, feeds given or random.
#include <string.h>

#include "shoal/shoal.h"
#include "unit.h"

enum { ROWS = 5, COLUMNS = 4 };

// ---- an op that is wrong on parts of f32 --------------------------------------------------------

static const char *const names_in[] = {"x"};
static const char *const names_out[] = {"out"};

static shoal_status_t infer_same(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = call->inputs[0];
  return NULL;
}

// Rules are found in f64, in which it is the identity; in f32 a part of the whole is half off.
static shoal_status_t kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                             const shoal_tensor_t *outputs, void *workspace) {
  (void)call, (void)workspace;
  int64_t count = shoal_shape_count(&inputs[0].shape);
  memcpy(outputs[0].data, inputs[0].data, (size_t)count * shoal_dtype_size(inputs[0].dtype));
  if (inputs[0].dtype == SHOAL_F32 && count < ROWS * COLUMNS && count > 0)
    ((float *)outputs[0].data)[count - 1] += 0.5f;
  return NULL;
}

static const shoal_op_t crooked = {.name = "user.crooked",
                                   .doc = "wrong on parts of f32",
                                   .input_count = 1,
                                   .inputs = names_in,
                                   .output_count = 1,
                                   .outputs = names_out,
                                   .infer = infer_same,
                                   .kernel = kernel};

// The same without a kernel: whoever runs the model provides it.
static const shoal_op_t provided = {.name = "user.provided",
                                    .doc = "x",
                                    .input_count = 1,
                                    .inputs = names_in,
                                    .output_count = 1,
                                    .outputs = names_out,
                                    .infer = infer_same};

static shoal_status_t provide(void *self, const shoal_kernel_call_t *call) {
  (void)self;
  const shoal_tensor_t *x = &call->inputs[0];
  memcpy(call->outputs[0].data, x->data,
         (size_t)shoal_shape_count(&x->shape) * shoal_dtype_size(x->dtype));
  return NULL;
}

static shoal_status_t provide_crooked(void *self, const shoal_kernel_call_t *call) {
  (void)self;
  return kernel(call->call, call->inputs, call->outputs, NULL);
}

static shoal_model_t *make(const shoal_op_t *op) {
  shoal_registry_t *registry = NULL;
  shoal_model_t *model = NULL;
  assert_ok(shoal_registry_create(shoal_allocator_system(), &registry));
  if (op) assert_ok(shoal_op_register(registry, op));
  assert_ok(shoal_model_create(&(shoal_model_options_t){.registry = registry, .seed = 3}, &model));
  shoal_registry_release(registry);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(ROWS, COLUMNS));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(ROWS));
  if (op) shoal_node_add(g, op->name, 1, &x, 0, NULL, 1, &x);
  shoal_value_t loss = shoal_nn_cross_entropy(g, shoal_nn_linear(g, "fc", x, 3), y);
  shoal_minimize_sgd(g, loss, &(shoal_sgd_t){.lr = 0.1});
  shoal_output(g, "loss", loss);
  assert_ok(shoal_model_status(model));
  return model;
}

static void test_passes(void **state) {
  (void)state;
  shoal_model_t *model = make(NULL);
  shoal_check_report_t report;
  assert_ok(shoal_check(model, NULL, NULL, NULL));
  float xs[ROWS * COLUMNS];
  int32_t ys[ROWS] = {0, 2, 1, 1, 0};
  for (int i = 0; i < ROWS * COLUMNS; ++i) xs[i] = (float)(i % 7) - 3;
  const shoal_check_feed_t feeds[] = {{.name = "x", .data = xs, .size = sizeof xs},
                                      {.name = "y", .data = ys, .size = sizeof ys}};
  const shoal_check_how_t how = {.ranks = 3, .steps = 4, .feed_count = 2, .feeds = feeds};
  for (int opaque = 0; opaque < 2; ++opaque) {
    const shoal_parallelize_options_t options = {
        .strategy = "data", .mesh = "data=3", .opaque = opaque};
    assert_ok(shoal_check(model, &options, &how, &report));
    assert_true(report.values > 50 && report.parts > report.values && report.worst < 1);
    assert_int_equal(report.step, SHOAL_CHECK_MEMORY);
    assert_false(report.refused);
  }
  shoal_model_free(model);
}

static void count_lines(void *self, const char *line) {
  (void)line;
  ++*(int *)self;
}

typedef struct joined {
  shoal_model_t *model;
  int64_t values[3];  // by rank
} joined_t;

static shoal_status_t check_in_world(void *self, shoal_world_t *world, int32_t rank) {
  joined_t *joined = self;
  const shoal_parallelize_options_t options = {.world = world, .strategy = "data"};
  shoal_check_report_t report;
  SHOAL_RETURN_IF_ERROR(shoal_check(joined->model, &options, NULL, &report));
  joined->values[rank] = report.values;
  return NULL;
}

// As processes, with one program for all ranks, and in a world that is there already.
static void test_ranks(void **state) {
  (void)state;
  joined_t joined = {.model = make(NULL)};
  int lines = 0;
  shoal_check_report_t report;
  const shoal_check_how_t how = {
      .ranks = 3, .processes = true, .direct = true, .line = count_lines, .line_self = &lines};
  assert_ok(shoal_check(joined.model, NULL, &how, &report));
  assert_true(report.values > 10 && lines > 10);
  const shoal_ranks_options_t ranks = {.ranks = 3};
  assert_ok(shoal_launch_ranks(&ranks, check_in_world, &joined, NULL));
  assert_true(joined.values[0] > 10);
  assert_int_equal(joined.values[1], 0);  // rank 0 compares
  shoal_model_free(joined.model);
}

// What is fed is what was given: labels that the head does not have are refused by the loss.
static void test_feeds_are_used(void **state) {
  (void)state;
  shoal_model_t *model = make(NULL);
  int32_t ys[ROWS] = {0, 2, 1, 77, 0};
  const shoal_check_feed_t given = {.name = "y", .data = ys, .size = sizeof ys};
  const shoal_check_how_t how = {.ranks = 1, .feed_count = 1, .feeds = &given};
  assert_error(INVALID_ARGUMENT, "77", shoal_check(model, NULL, &how, NULL));
  shoal_model_free(model);
}

static void test_names_what_differs(void **state) {
  (void)state;
  const shoal_parallelize_options_t options = {.strategy = "data"};
  const shoal_check_how_t three = {.ranks = 3}, one = {.ranks = 1};
  shoal_check_report_t report;
  shoal_model_t *model = make(&crooked);
  assert_ok(shoal_check(model, &options, &one, &report));
  assert_error(MISMATCH, "value 'crooked", shoal_check(model, &options, &three, &report));
  assert_int_equal(report.step, SHOAL_CHECK_VALUES);
  shoal_model_free(model);
}

static void test_provider(void **state) {
  (void)state;
  shoal_parallelize_options_t options = {.strategy = "data", .provider = provide};
  const shoal_check_how_t three = {.ranks = 3};
  shoal_model_t *model = make(&provided);
  assert_ok(shoal_check(model, &options, &three, NULL));
  options.provider = provide_crooked;
  assert_ok(shoal_check(model, &options, &three, NULL));  // its rule is found in f32: it is not cut
  shoal_model_free(model);
}

static void test_errors(void **state) {
  (void)state;
  shoal_model_t *model = make(NULL);
  shoal_check_report_t report;
  assert_error(
      NOT_FOUND, "no_such",
      shoal_check(model, &(shoal_parallelize_options_t){.strategy = "no_such"}, NULL, &report));
  assert_true(report.refused);
  assert_error(INVALID_ARGUMENT, "leave .tap and .dry_run zero",
               shoal_check(model, &(shoal_parallelize_options_t){.dry_run = true}, NULL, &report));
  assert_error(INVALID_ARGUMENT, "no model", shoal_check(NULL, NULL, NULL, NULL));
  assert_error(INVALID_ARGUMENT, "negative",
               shoal_check(model, NULL, &(shoal_check_how_t){.ranks = -1}, NULL));
  shoal_check_feed_t feed = {.name = "z"};
  const shoal_check_how_t how = {.feed_count = 1, .feeds = &feed};
  assert_error(NOT_FOUND, "input 'z'", shoal_check(model, NULL, &how, NULL));
  feed = (shoal_check_feed_t){.name = "x", .data = "abc", .size = 3};
  assert_error(INVALID_ARGUMENT, "3 bytes", shoal_check(model, NULL, &how, NULL));
  assert_error(
      NOT_FOUND, "nowhere.yml",
      shoal_check(model, &(shoal_parallelize_options_t){.cluster = "nowhere.yml"}, NULL, NULL));
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_passes),
      cmocka_unit_test(test_ranks),
      cmocka_unit_test(test_feeds_are_used),
      cmocka_unit_test(test_provider),
      cmocka_unit_test(test_names_what_differs),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

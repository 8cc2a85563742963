// Bounded launches: the device counts the rows when the launch runs, of the part that the operand
// holds, and refuses a count that is out of range.
#include "device/device.h"
#include "device_modes.h"

enum { ROWS = 12, COLUMNS = 3 };

// y = 10 x, row by row; what lies behind the rows is not touched.
static shoal_status_t scale_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                   const shoal_tensor_t *outputs, void *workspace) {
  (void)workspace;
  if (!shoal_shape_equal(&call->inputs[0].shape, &inputs[0].shape) ||
      !shoal_shape_equal(&call->outputs[0].shape, &outputs[0].shape)) {
    return SHOAL_ERROR(INTERNAL, "the call's types are not the tensors'");
  }
  const int64_t count = shoal_shape_count(&inputs[0].shape);
  for (int64_t i = 0; i < count; ++i) {
    ((float *)outputs[0].data)[i] = 10 * ((const float *)inputs[0].data)[i];
  }
  return NULL;
}

// The same by a provider, through the DLPack tensors, whose rows follow too.
static shoal_status_t provide(void *self, const shoal_kernel_call_t *call) {
  (void)self;
  const shoal_dlpack_tensor_t *x = &call->dlpack_inputs[0], *y = &call->dlpack_outputs[0];
  if (x->shape[0] != call->call->inputs[0].shape.dims[0] || x->strides[0] != COLUMNS) {
    return SHOAL_ERROR(INTERNAL, "the provider got other rows");
  }
  for (int64_t i = 0; i < y->shape[0] * y->shape[1]; ++i) {
    ((float *)y->data)[i] = 10 * ((const float *)x->data)[i];
  }
  return NULL;
}

static const shoal_op_t scale_op = {.name = "test.scale",
                                    .infer = sum_infer,
                                    .input_count = 1,
                                    .output_count = 1,
                                    .kernel = scale_kernel};

// The operand holds rows 2, 3, 4 and 9, 10 of a whole of twelve.
static const shoal_interval_t held[] = {{2, 3}, {9, 2}};
static const shoal_dim_part_t part = {
    .own_count = 2, .held_count = 2, .own = held, .held = held, .own_size = 5, .held_size = 5};
static const int64_t expected[ROWS + 1] = {0, 0, 0, 1, 2, 3, 3, 3, 3, 3, 4, 5, 5};

typedef struct scale_launch {
  shoal_launch_t launch;
  shoal_type_t types[2];
  shoal_address_t addresses[2];
  shoal_bounded_t bounded[2];
} scale_launch_t;

static void make_scale(shoal_address_t memory, shoal_address_t count, shoal_dtype_t dtype,
                       scale_launch_t *s) {
  *s = (scale_launch_t){.addresses = {memory, memory + 512}};
  for (int i = 0; i < 2; ++i) {
    s->types[i] = (shoal_type_t){SHOAL_F32, SHOAL_SHAPE(5, COLUMNS)};
    s->bounded[i] = (shoal_bounded_t){
        .operand = i, .name = "n", .count = count, .dtype = dtype, .whole = ROWS, .part = &part};
  }
  s->launch = (shoal_launch_t){.call = {.op = &scale_op,
                                        .input_count = 1,
                                        .output_count = 1,
                                        .inputs = s->types,
                                        .outputs = s->types + 1},
                               .inputs = s->addresses,
                               .outputs = s->addresses + 1,
                               .bounded_count = 2,
                               .bounded = s->bounded,
                               .name = "layer/scale"};
}

static void check_counts(shoal_device_t *device, shoal_arena_t *arena, shoal_dtype_t dtype,
                         shoal_provider_fn_t provider) {
  shoal_queue_t *queue = make_queue(device);
  shoal_address_t memory = make_buffer(device, 1024), count = make_buffer(device, 8);
  float x[5 * COLUMNS], y[5 * COLUMNS];
  for (int i = 0; i < 5 * COLUMNS; ++i) x[i] = (float)(i + 1);
  scale_launch_t scale;
  make_scale(memory, count, dtype, &scale);
  scale.launch.provider = provider;
  if (arena) assert_ok(shoal_launch_prepare(device, arena, &scale.launch));
  assert_ok(shoal_queue_upload(queue, x, memory, sizeof x));
  for (int n = 0; n <= ROWS; ++n) {
    assert_ok(shoal_queue_fill(queue, &(shoal_fill_t){count, dtype, 1, n}));
    assert_ok(shoal_queue_fill(queue, &(shoal_fill_t){memory + 512, SHOAL_F32, 15, -1}));
    assert_ok(shoal_queue_launch(queue, &scale.launch));
    assert_ok(shoal_queue_download(queue, memory + 512, y, sizeof y));
    assert_ok(shoal_queue_wait(queue));
    assert_int_equal(shoal_bounded_rows(&scale.bounded[0], n), expected[n]);
    for (int i = 0; i < 5 * COLUMNS; ++i) {
      if (y[i] != (i < expected[n] * COLUMNS ? 10 * x[i] : -1)) {
        fail_msg("n = %d: y[%d] is %g", n, i, (double)y[i]);
      }
    }
  }
  for (int n = -1; n <= ROWS + 1; n += ROWS + 2) {  // just outside, on both sides
    assert_ok(shoal_queue_fill(queue, &(shoal_fill_t){count, dtype, 1, n}));
    assert_ok(shoal_queue_launch(queue, &scale.launch));
    assert_error(INVALID_ARGUMENT,
                 n < 0 ? "count 'n' is -1; 'layer/scale' has room for 12 rows"
                       : "count 'n' is 13; 'layer/scale' has room for 12 rows",
                 shoal_queue_wait(queue));
  }
  shoal_queue_free(queue);
  shoal_device_release(device, memory);
  shoal_device_release(device, count);
}

static void test_counts(void **state) {
  (void)state;
  shoal_arena_t *arena = NULL;
  assert_ok(shoal_arena_create(shoal_allocator_system(), &arena));
  FOR_EACH_MODE(device) {
    check_counts(device, arena, SHOAL_I32, NULL);
    check_counts(device, arena, SHOAL_I64, NULL);
    check_counts(device, NULL, SHOAL_I32, NULL);
    check_counts(device, arena, SHOAL_I32, provide);
    check_counts(device, NULL, SHOAL_I64, provide);
  }
  shoal_arena_free(arena);
}

static void test_errors(void **state) {
  (void)state;
  FOR_EACH_MODE(device) {
    shoal_queue_t *queue = make_queue(device);
    shoal_address_t memory = make_buffer(device, 1024);
    scale_launch_t scale;
    make_scale(memory, memory, SHOAL_F32, &scale);
    assert_error(INVALID_ARGUMENT, "operand 0 has no rows",
                 shoal_queue_launch(queue, &scale.launch));
    make_scale(memory, memory, SHOAL_I32, &scale);
    scale.bounded[1].operand = 2;
    assert_error(INVALID_ARGUMENT, "operand 2 has no rows",
                 shoal_queue_launch(queue, &scale.launch));
    make_scale(memory, memory + 1020, SHOAL_I64, &scale);
    assert_ok(shoal_queue_launch(queue, &scale.launch));
    assert_error(INTERNAL, "count: 8 bytes", shoal_queue_wait(queue));
    shoal_queue_free(queue);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_counts),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Cut equals whole, by hand: a call runs once on the whole and once per rank on parts, with
// attributes bound by role; outputs are compared with their slice of the whole, or summed where the
// layout says partial.
#include "op_support.h"

typedef struct cut {
  const char *op, *mesh;
  const char *inputs[MAX_OPERANDS], *outputs[4];  // layouts; NULL: whole
  double tolerance;                               // 0: the same bits
} cut_t;

static void part_of(bench_t *b, const shoal_mesh_t *mesh, const char *text,
                    const shoal_shape_t *shape, int64_t position, shoal_layout_t *out_layout,
                    shoal_boxes_t *out_boxes) {
  assert_ok(shoal_layout_parse(text ? text : "", mesh, 1, &b->arena, out_layout));
  assert_ok(shoal_layout_check(out_layout, shape));
  assert_ok(shoal_layout_boxes(out_layout, shape, position, 0, &b->arena, out_boxes));
}

static shoal_tensor_t packed(bench_t *b, const shoal_boxes_t *boxes, const shoal_tensor_t *whole) {
  shoal_tensor_t part = new_tensor(b, whole->dtype, shoal_boxes_shape(boxes), 0);
  assert_ok(shoal_boxes_pack(boxes, shoal_dtype_size(whole->dtype), whole->data, part.data));
  return part;
}

static void compare(const shoal_tensor_t *got, const shoal_tensor_t *expected, double tolerance,
                    const char *op) {
  if (!shoal_shape_equal(&got->shape, &expected->shape)) fail_msg("%s: another shape", op);
  const int64_t count = shoal_shape_count(&got->shape);
  const size_t bytes = (size_t)bytes_of(got->dtype, &got->shape);
  if (tolerance == 0 && bytes && memcmp(got->data, expected->data, bytes) != 0) {
    fail_msg("%s: other bits", op);
  }
  for (int64_t i = 0; i < count && tolerance > 0; ++i) {
    check_near(at(got, i), at(expected, i), tolerance, op, i);
  }
}

// Runs all ranks of the cut; the first error is returned.
static shoal_status_t run_cut(bench_t *b, const cut_t *c, int32_t input_count,
                              const shoal_tensor_t *inputs, int32_t attr_count,
                              const shoal_attr_t *attrs) {
  const shoal_op_t *op = bench_op(b, c->op);
  shoal_tensor_t whole[4], sums[4];
  shoal_attr_value_t *values = NULL;
  assert_ok(run_named(b, c->op, input_count, inputs, attr_count, attrs, whole, &values));
  shoal_mesh_t mesh;
  assert_ok(shoal_mesh_parse(c->mesh, &b->arena, &mesh));
  bool partial[4] = {false};
  for (int64_t position = 0; position < shoal_mesh_size(&mesh); ++position) {
    shoal_boxes_t in_boxes[MAX_OPERANDS], out_boxes[4];
    shoal_tensor_t parts[MAX_OPERANDS], out[4];
    shoal_layout_t layout;
    for (int32_t i = 0; i < input_count; ++i) {
      part_of(b, &mesh, c->inputs[i], &inputs[i].shape, position, &layout, &in_boxes[i]);
      parts[i] = packed(b, &in_boxes[i], &inputs[i]);
    }
    for (int32_t i = 0; i < shoal_op_outputs(op, values); ++i) {
      part_of(b, &mesh, c->outputs[i], &whole[i].shape, position, &layout, &out_boxes[i]);
      partial[i] = shoal_layout_is_partial(&layout);
    }
    shoal_attr_value_t *bound = SHOAL_NEW(&b->arena, shoal_attr_value_t, op->attr_count);
    SHOAL_RETURN_IF_ERROR(
        shoal_op_bind(op, input_count, values, in_boxes, out_boxes, &b->arena, bound));
    SHOAL_RETURN_IF_ERROR(run_bound(b, op, bound, input_count, parts, 0xff, out));
    for (int32_t i = 0; i < shoal_op_outputs(op, values); ++i) {
      if (!partial[i]) {
        const shoal_tensor_t expected = packed(b, &out_boxes[i], &whole[i]);
        compare(&out[i], &expected, c->tolerance, c->op);
        continue;
      }
      const int64_t count = shoal_shape_count(&out[i].shape);
      if (position == 0) sums[i] = new_tensor(b, SHOAL_F64, out[i].shape, 0);
      for (int64_t k = 0; k < count; ++k) ((double *)sums[i].data)[k] += at(&out[i], k);
    }
  }
  for (int32_t i = 0; i < shoal_op_outputs(op, values); ++i) {
    if (partial[i]) compare(&sums[i], &whole[i], c->tolerance, c->op);
  }
  return NULL;
}

#define SHAPE_ATTR(...)                                                     \
  shoal_attr_ints("shape", (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / 8), \
                  (const int64_t[]){__VA_ARGS__})

// ---- place of sources ------------------------------------------------------------------

static void random_numbers(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  static const char *const cuts[][2] = {
      {"a=3", "a:0"},
      {"a=3", "a:1"},
      {"a=2", "a:1*3/2"},
      {"a=5", "a:flat"},
      {"a=4", "a:flat/5"},
      {"a=2,b=3", "a:1*3/2,b:0"},
      {"a=2,b=3", "a:1*3/2,b:flat"},
      {"a=9", "a:0"},
      {"a=3", "a:1(3,1,1)"},
      {"a=2,b=2", "b:0,a:0"},
  };
  for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; ++i) {
    shoal_tensor_t step = scalar_int(&b, 5);
    cut_t c = {"shoal.random_normal", cuts[i][0], {NULL}, {cuts[i][1]}, 0};
    assert_ok(run_cut(&b, &c, TENSORS(step),
                      ATTRS(SHAPE_ATTR(7, 12), shoal_attr_int("key", 1234567),
                            shoal_attr_dtype("dtype", SHOAL_F32), shoal_attr_real("mean", 0),
                            shoal_attr_real("std", 1))));
    c.op = "shoal.random_uniform";
    assert_ok(run_cut(
        &b, &c, TENSORS(step),
        ATTRS(SHAPE_ATTR(7, 12), shoal_attr_int("key", -3), shoal_attr_dtype("dtype", SHOAL_BF16),
              shoal_attr_real("low", 0), shoal_attr_real("high", 1))));
    for (int32_t axis = 0; axis < 2; ++axis) {
      cut_t iota = {"shoal.iota", cuts[i][0], {NULL}, {cuts[i][1]}, 0};
      assert_ok(run_cut(&b, &iota, 0, NULL,
                        ATTRS(SHAPE_ATTR(7, 12), shoal_attr_int("axis", axis),
                              shoal_attr_dtype("dtype", SHOAL_I32))));
    }
    cut_t full = {"shoal.full", cuts[i][0], {NULL}, {cuts[i][1]}, 0};
    assert_ok(run_cut(&b, &full, 0, NULL,
                      ATTRS(SHAPE_ATTR(7, 12), shoal_attr_real("value", 3),
                            shoal_attr_dtype("dtype", SHOAL_U8))));
    shoal_tensor_t x = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(7, 12), 2, 1);
    cut_t dropout = {"shoal.dropout", cuts[i][0], {cuts[i][1]}, {cuts[i][1]}, 0};
    assert_ok(run_cut(&b, &dropout, TENSORS(x, step),
                      ATTRS(shoal_attr_real("p", 0.4), shoal_attr_int("key", 8))));
  }
  bench_deinit(&b);
}

// ---- sizes and positions ---------------------------------------------------------------

// q, k, v out of a fused projection of 3 heads of 4 columns, cut between heads.
static void slices_of_chunks(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t x = random_tensor(&b, SHOAL_F32, SHOAL_SHAPE(5, 36), 2, 1);
  shoal_tensor_t q = random_tensor(&b, SHOAL_F32, SHOAL_SHAPE(5, 12), 2, 2);
  shoal_tensor_t few = random_tensor(&b, SHOAL_F32, SHOAL_SHAPE(4, 12), 2, 3);
  static const char *const meshes[] = {"t=2", "t=3", "t=5"};
  for (int32_t m = 0; m < 3; ++m) {
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t start[] = {1, 12 * i}, size[] = {4, 12};
      cut_t slice = {"shoal.slice", meshes[m], {"t:1*3/4"}, {"t:1/4"}, 0};
      assert_ok(
          run_cut(&b, &slice, TENSORS(x),
                  ATTRS(shoal_attr_ints("start", 2, start), shoal_attr_ints("size", 2, size))));
      cut_t pad = {"shoal.pad", meshes[m], {"t:1/4"}, {"t:1*3/4"}, 0};
      assert_ok(run_cut(&b, &pad, TENSORS(few),
                        ATTRS(shoal_attr_ints("start", 2, start), SHAPE_ATTR(5, 36))));
    }
    cut_t heads = {"shoal.reshape", meshes[m], {"t:1/4"}, {"t:1"}, 0};
    assert_ok(run_cut(&b, &heads, TENSORS(q), ATTRS(SHAPE_ATTR(5, 3, 4))));
    cut_t flat = {"shoal.reshape", meshes[m], {"t:flat"}, {"t:flat"}, 0};
    assert_ok(run_cut(&b, &flat, TENSORS(q), ATTRS(SHAPE_ATTR(5, 3, 4))));
    cut_t repeat = {"shoal.broadcast_to", meshes[m], {"t:1"}, {"t:2"}, 0};
    assert_ok(run_cut(&b, &repeat, TENSORS(q), ATTRS(SHAPE_ATTR(2, 5, 12))));
  }
  cut_t flat = {"shoal.slice", "t=2", {"t:flat"}, {"t:flat"}, 0};
  assert_error(UNSUPPORTED, "flat",
               run_cut(&b, &flat, TENSORS(x), ATTRS(PAIR("start", 0, 12), PAIR("size", 5, 12))));
  bench_deinit(&b);
}

// ---- windows ---------------------------------------------------------------------------

static void convolution_with_halo(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t x = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(2, 3, 10, 5), 2, 1);
  shoal_tensor_t w = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(4, 3, 3, 3), 2, 2);
  shoal_tensor_t dy = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(2, 4, 8, 3), 2, 3);
  const shoal_attr_t stride = PAIR("stride", 1, 1), padding = PAIR("padding", 0, 0);
  static const char *const meshes[] = {"s=2", "s=3", "s=4", "s=9"};
  for (int32_t m = 0; m < 4; ++m) {
    cut_t rows = {"shoal.conv", meshes[m], {"s:2#8+0+2", NULL}, {"s:2"}, 1e-13};
    assert_ok(run_cut(&b, &rows, TENSORS(x, w), ATTRS(stride, padding)));
    cut_t grad_x = {"shoal.conv_grad_x", meshes[m], {NULL, "s:2#10+2+0"}, {"s:2"}, 1e-13};
    assert_ok(
        run_cut(&b, &grad_x, TENSORS(w, dy), ATTRS(SHAPE_ATTR(2, 3, 10, 5), stride, padding)));
    cut_t grad_w = {
        "shoal.conv_grad_w", meshes[m], {"s:2#8+0+2", "s:2"}, {"s:partial(sum)"}, 1e-13};
    assert_ok(run_cut(&b, &grad_w, TENSORS(x, dy), ATTRS(PAIR("kernel", 3, 3), stride, padding)));
  }
  cut_t channels = {"shoal.conv", "s=2", {"s:1", "s:1"}, {"s:partial(sum)"}, 1e-13};
  assert_ok(run_cut(&b, &channels, TENSORS(x, w), ATTRS(stride, padding)));
  cut_t outputs = {"shoal.conv", "s=3", {NULL, "s:0"}, {"s:1"}, 1e-13};
  assert_ok(run_cut(&b, &outputs, TENSORS(x, w), ATTRS(stride, padding)));
  cut_t bare = {"shoal.conv", "s=2", {"s:2#8", NULL}, {"s:2"}, 1e-13};
  assert_error(MISMATCH, "needs row 4 of x",
               run_cut(&b, &bare, TENSORS(x, w), ATTRS(stride, padding)));
  cut_t lacks = {"shoal.conv_grad_x", "s=2", {NULL, "s:2#10"}, {"s:2"}, 1e-13};
  assert_error(
      MISMATCH, "of dy",
      run_cut(&b, &lacks, TENSORS(w, dy), ATTRS(SHAPE_ATTR(2, 3, 10, 5), stride, padding)));
  // stride 2, padding 1: x is dealt by the output's 5 items
  shoal_tensor_t odd = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(1, 3, 9, 4), 2, 4);
  cut_t strided = {"shoal.conv", "s=3", {"s:2/2#5+1+0", NULL}, {"s:2"}, 1e-13};
  assert_ok(
      run_cut(&b, &strided, TENSORS(odd, w), ATTRS(PAIR("stride", 2, 2), PAIR("padding", 1, 1))));
  bench_deinit(&b);
}

static void pooling(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t x = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(1, 2, 9, 7), 2, 1);
  shoal_tensor_t dy = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(1, 2, 5, 4), 2, 2);
  const shoal_attr_t kernel = PAIR("kernel", 3, 3), stride = PAIR("stride", 2, 2);
  const shoal_attr_t padding = PAIR("padding", 1, 1);
  cut_t pool = {"shoal.max_pool", "s=3", {"s:2/2#5+1+0"}, {"s:2"}, 0};
  assert_ok(run_cut(&b, &pool, TENSORS(x), ATTRS(kernel, stride, padding)));
  cut_t bare = {"shoal.max_pool", "s=3", {"s:2/2#5"}, {"s:2"}, 0};
  assert_error(MISMATCH, "of x", run_cut(&b, &bare, TENSORS(x), ATTRS(kernel, stride, padding)));
  cut_t grad = {"shoal.max_pool_grad", "s=2", {"s:2+2+1", "s:2+1+0"}, {"s:2"}, 0};
  assert_ok(
      run_cut(&b, &grad, TENSORS(x, dy), ATTRS(kernel, stride, padding, SHAPE_ATTR(1, 2, 9, 7))));
  cut_t lacks_x = {"shoal.max_pool_grad", "s=2", {"s:2+1+1", "s:2+1+0"}, {"s:2"}, 0};
  assert_error(MISMATCH, "of x",
               run_cut(&b, &lacks_x, TENSORS(x, dy),
                       ATTRS(kernel, stride, padding, SHAPE_ATTR(1, 2, 9, 7))));
  cut_t lacks_dy = {"shoal.max_pool_grad", "s=2", {"s:2+2+1", "s:2"}, {"s:2"}, 0};
  assert_error(MISMATCH, "row 2 of dy",
               run_cut(&b, &lacks_dy, TENSORS(x, dy),
                       ATTRS(kernel, stride, padding, SHAPE_ATTR(1, 2, 9, 7))));
  bench_deinit(&b);
}

// ---- indices and counts ----------------------------------------------------------------

static void vocabulary(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t table = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(11, 6), 2, 1);
  shoal_tensor_t ids = random_tensor(&b, SHOAL_I32, SHOAL_SHAPE(4, 5), 11, 2);
  shoal_tensor_t dy = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(4, 5, 6), 2, 3);
  shoal_tensor_t x = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(4, 5, 11), 2, 4);
  shoal_tensor_t dp = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(4, 5), 2, 5);
  const shoal_attr_t rows = shoal_attr_int("rows", 11), size = shoal_attr_int("size", 11);
  static const char *const meshes[] = {"t=2", "t=3", "t=5"};
  for (int32_t m = 0; m < 3; ++m) {
    cut_t by_row = {"shoal.embedding", meshes[m], {"t:0", NULL}, {"t:partial(sum)"}, 1e-15};
    assert_ok(run_cut(&b, &by_row, TENSORS(table, ids), NO_ATTRS));
    cut_t by_column = {"shoal.embedding", meshes[m], {"t:1", NULL}, {"t:2"}, 0};
    assert_ok(run_cut(&b, &by_column, TENSORS(table, ids), NO_ATTRS));
    cut_t grad_row = {"shoal.embedding_grad", meshes[m], {NULL, NULL}, {"t:0"}, 0};
    assert_ok(run_cut(&b, &grad_row, TENSORS(ids, dy), ATTRS(rows)));
    cut_t grad_batch = {
        "shoal.embedding_grad", meshes[m], {"t:0", "t:0"}, {"t:partial(sum)"}, 1e-14};
    assert_ok(run_cut(&b, &grad_batch, TENSORS(ids, dy), ATTRS(rows)));
    cut_t pick = {"shoal.pick", meshes[m], {"t:2", NULL}, {"t:partial(sum)"}, 1e-15};
    assert_ok(run_cut(&b, &pick, TENSORS(x, ids), NO_ATTRS));
    cut_t pick_grad = {"shoal.pick_grad", meshes[m], {NULL, NULL}, {"t:2"}, 0};
    assert_ok(run_cut(&b, &pick_grad, TENSORS(ids, dp), ATTRS(size)));
  }
  bench_deinit(&b);
}

// Counts speak of the whole's rows on every part, also where the rows are cut.
static void bounded_rows(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t x = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(4, 5, 7, 3), 2, 1);
  shoal_tensor_t counts = random_tensor(&b, SHOAL_I64, SHOAL_SHAPE(4, 5), 8, 2);
  static const char *const meshes[] = {"t=2", "t=3", "t=9"};
  for (int32_t m = 0; m < 3; ++m) {
    cut_t groups = {"shoal.bound", meshes[m], {"t:0", "t:0"}, {"t:0"}, 0};
    assert_ok(run_cut(&b, &groups, TENSORS(x, counts), NO_ATTRS));
    cut_t inner = {"shoal.bound", meshes[m], {"t:1", "t:1"}, {"t:1"}, 0};
    assert_ok(run_cut(&b, &inner, TENSORS(x, counts), NO_ATTRS));
    cut_t rows = {"shoal.bound", meshes[m], {"t:2", NULL}, {"t:2"}, 0};
    assert_ok(run_cut(&b, &rows, TENSORS(x, counts), NO_ATTRS));
    cut_t columns = {"shoal.bound", meshes[m], {"t:3", NULL}, {"t:3"}, 0};
    assert_ok(run_cut(&b, &columns, TENSORS(x, counts), NO_ATTRS));
  }
  bench_deinit(&b);
}

// Means divide by the whole's number on every part.
static void counts(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t x = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(7, 5), 2, 1);
  shoal_tensor_t labels = random_tensor(&b, SHOAL_I64, SHOAL_SHAPE(7), 5, 2);
  shoal_tensor_t dloss = random_tensor(&b, SHOAL_F64, SHOAL_SCALAR, 2, 3);
  shoal_tensor_t gamma = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(5), 2, 4);
  static const char *const meshes[] = {"d=2", "d=3", "d=9"};
  for (int32_t m = 0; m < 3; ++m) {
    cut_t mean = {"shoal.reduce_mean", meshes[m], {"d:0"}, {"d:partial(sum)"}, 1e-14};
    assert_ok(run_cut(&b, &mean, TENSORS(x), ATTRS(PAIR("dims", 0, 1))));
    cut_t loss = {"shoal.cross_entropy", meshes[m], {"d:0", "d:0"}, {"d:partial(sum)"}, 1e-14};
    assert_ok(run_cut(&b, &loss, TENSORS(x, labels), NO_ATTRS));
    cut_t grad = {"shoal.cross_entropy_grad", meshes[m], {"d:0", "d:0", NULL}, {"d:0"}, 0};
    assert_ok(run_cut(&b, &grad, TENSORS(x, labels, dloss), NO_ATTRS));
    cut_t norm = {"shoal.layer_norm", meshes[m], {"d:0", NULL, NULL}, {"d:0", "d:0", "d:0"}, 0};
    assert_ok(
        run_cut(&b, &norm, TENSORS(x, gamma, gamma),
                ATTRS(shoal_attr_real("eps", 1e-3), shoal_attr_string("with", "gamma,beta"))));
    shoal_tensor_t row = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(7), 2, 5);
    cut_t norm_grad = {"shoal.layer_norm_grad",
                       meshes[m],
                       {"d:0", "d:0", "d:0", "d:0", NULL},
                       {"d:0", "d:partial(sum)", "d:partial(sum)"},
                       1e-14};
    assert_ok(run_cut(&b, &norm_grad, TENSORS(x, row, row, x, gamma),
                      ATTRS(shoal_attr_int("beta", 1), shoal_attr_string("with", "gamma"))));
  }
  bench_deinit(&b);
}

static void updates_of_flat_parts(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t w = random_tensor(&b, SHOAL_F32, SHOAL_SHAPE(7, 5), 2, 1);
  shoal_tensor_t v = new_tensor(&b, SHOAL_F32, SHOAL_SHAPE(7, 5), 0);
  shoal_tensor_t lr = random_tensor(&b, SHOAL_F32, SHOAL_SCALAR, 2, 2);
  cut_t flat = {"shoal.adamw_update",
                "d=3",
                {"d:flat", "d:flat", "d:flat", "d:flat", NULL, NULL},
                {"d:flat", "d:flat", "d:flat"},
                0};
  assert_ok(run_cut(&b, &flat, TENSORS(w, w, w, v, lr, scalar_int(&b, 2)),
                    ATTRS(shoal_attr_real("beta1", 0.9), shoal_attr_real("beta2", 0.99),
                          shoal_attr_real("eps", 1e-3), shoal_attr_real("weight_decay", 0.1))));
  bench_deinit(&b);
}

// ---- attention -------------------------------------------------------------------------

// Queries cut along T: each part knows its indices by place. Keys cut: parts merge by log-sum-exp,
// and rows that see no key of a part have weight 0 in it.
static void attention(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const shoal_shape_t shape = SHOAL_SHAPE(2, 3, 7, 4);
  shoal_tensor_t q = random_tensor(&b, SHOAL_F64, shape, 2, 1),
                 k = random_tensor(&b, SHOAL_F64, shape, 2, 2);
  shoal_tensor_t v = random_tensor(&b, SHOAL_F64, shape, 2, 3), whole[2];
  shoal_tensor_t dout = random_tensor(&b, SHOAL_F64, shape, 2, 4);
  const shoal_attr_t causal = shoal_attr_int("causal", 1);
  shoal_attr_value_t *values = NULL;
  assert_ok(run_named(&b, "shoal.attention", TENSORS(q, k, v), ATTRS(causal), whole, &values));
  cut_t queries = {"shoal.attention", "s=3", {"s:2", NULL, NULL}, {"s:2", "s:2"}, 0};
  assert_ok(run_cut(&b, &queries, TENSORS(q, k, v), ATTRS(causal)));
  cut_t heads = {"shoal.attention", "s=2", {"s:1", "s:1", "s:1"}, {"s:1", "s:1"}, 0};
  assert_ok(run_cut(&b, &heads, TENSORS(q, k, v), ATTRS(causal)));
  cut_t back_q = {"shoal.attention_grad",
                  "s=3",
                  {"s:2", NULL, NULL, "s:2", "s:2", "s:2"},
                  {"s:2", "s:partial(sum)", "s:partial(sum)"},
                  1e-13};
  assert_ok(run_cut(&b, &back_q, TENSORS(q, k, v, whole[0], whole[1], dout), ATTRS(causal)));
  cut_t back_k = {"shoal.attention_grad",
                  "s=3",
                  {NULL, "s:2", "s:2", NULL, NULL, NULL},
                  {"s:partial(sum)", "s:2", "s:2"},
                  1e-13};
  assert_ok(run_cut(&b, &back_k, TENSORS(q, k, v, whole[0], whole[1], dout), ATTRS(causal)));

  const shoal_op_t *op = bench_op(&b, "shoal.attention");
  shoal_mesh_t mesh;
  assert_ok(shoal_mesh_parse("s=3", &b.arena, &mesh));
  double merged[168] = {0};
  for (int64_t position = 0; position < 3; ++position) {
    shoal_layout_t layout;
    shoal_boxes_t in[3], outs[2];
    shoal_tensor_t parts[3] = {q}, out[2];
    part_of(&b, &mesh, "", &shape, position, &layout, &in[0]);
    for (int32_t i = 1; i < 3; ++i) {
      part_of(&b, &mesh, "s:2", &shape, position, &layout, &in[i]);
      parts[i] = packed(&b, &in[i], i == 1 ? &k : &v);
    }
    for (int32_t i = 0; i < 2; ++i) {
      part_of(&b, &mesh, "", &whole[i].shape, position, &layout, &outs[i]);
    }
    shoal_attr_value_t bound[16];
    assert_ok(shoal_op_bind(op, 3, values, in, outs, &b.arena, bound));
    assert_ok(run_bound(&b, op, bound, 3, parts, 0xff, out));
    for (int64_t i = 0; i < 168; ++i) {
      const double lse = at(&out[1], i / 4);
      if (i / 4 % 7 < position * 2 + (position > 0)) {  // keys 0-2, 3-4, 5-6: sees none of them
        assert_true(isinf(lse) && lse < 0 && at(&out[0], i) == 0);
      }
      merged[i] += at(&out[0], i) * exp(lse - at(&whole[1], i / 4));
    }
  }
  for (int64_t i = 0; i < 168; ++i) check_near(merged[i], at(&whole[0], i), 1e-13, "merged", i);
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_numbers),
      cmocka_unit_test(slices_of_chunks),
      cmocka_unit_test(convolution_with_halo),
      cmocka_unit_test(pooling),
      cmocka_unit_test(vocabulary),
      cmocka_unit_test(bounded_rows),
      cmocka_unit_test(counts),
      cmocka_unit_test(updates_of_flat_parts),
      cmocka_unit_test(attention),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

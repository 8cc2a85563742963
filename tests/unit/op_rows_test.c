// Rows of tables: bags, gradients by rows and rows without a gradient, against naive models.
#include "op_support.h"

enum { TABLE = 5, COUNT = 11, BAGS = 6, WIDTH = 3 };

static const shoal_dtype_t FLOATS[] = {SHOAL_F64, SHOAL_F32, SHOAL_BF16, SHOAL_F16};
enum { FLOAT_COUNT = sizeof FLOATS / sizeof *FLOATS };

static double tolerance(shoal_dtype_t dtype) {
  return 8 * shoal_dtype_epsilon(dtype);
}

static shoal_tensor_t integers(bench_t *b, int64_t count, const int32_t *values) {
  shoal_tensor_t tensor = new_tensor(b, SHOAL_I32, SHOAL_SHAPE(count), 0);
  memcpy(tensor.data, values, (size_t)count * sizeof *values);
  return tensor;
}

// Bags 1 and 4 are empty, 3 begins before 2 does and so where 2 begins, which leaves 2 empty.
static const int32_t OFFSETS[BAGS] = {0, 2, 2, 1, 9, 9};
static const int32_t BAG_OF[COUNT] = {0, 0, 3, 3, 3, 3, 3, 3, 3, 5, 5};
static const int32_t IDS[COUNT] = {1, 4, 1, 0, 0, 3, 1, 4, 4, 2, 0};

static void check_bags(bench_t *b, shoal_dtype_t dtype, const char *mode, bool weighed) {
  shoal_tensor_t table = random_tensor(b, dtype, SHOAL_SHAPE(TABLE, WIDTH), 2, 1);
  for (int64_t i = 0; i < TABLE * WIDTH; ++i) {  // so that 0 is no maximum
    shoal_dtype_store(dtype, table.data, i, at(&table, i) - 1);
  }
  shoal_tensor_t weights = random_tensor(b, dtype, SHOAL_SHAPE(COUNT), 2, 2);
  shoal_tensor_t ids = integers(b, COUNT, IDS), offsets = integers(b, BAGS, OFFSETS), out[1];
  const shoal_tensor_t in[] = {table, ids, offsets, weights};
  assert_ok(run_named(
      b, "shoal.embedding_bag", weighed ? 4 : 3, in,
      ATTRS(shoal_attr_string("mode", mode), shoal_attr_string("with", weighed ? "weights" : "")),
      out, NULL));
  for (int64_t bag = 0; bag < BAGS; ++bag) {
    for (int64_t c = 0; c < WIDTH; ++c) {
      double sum = 0, most = -INFINITY;
      int64_t size = 0;
      for (int64_t i = 0; i < COUNT; ++i) {
        if (BAG_OF[i] != bag) continue;
        const double value = at(&table, IDS[i] * WIDTH + c);
        sum += value * (weighed ? at(&weights, i) : 1);
        most = fmax(most, value);
        ++size;
      }
      const double expected = size == 0                   ? 0
                              : strcmp(mode, "max") == 0  ? most
                              : strcmp(mode, "mean") == 0 ? sum / (double)size
                                                          : sum;
      check_near(at(out, bag * WIDTH + c), expected, tolerance(dtype), mode, bag * WIDTH + c);
    }
  }
}

static void bags(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  for (int k = 0; k < FLOAT_COUNT; ++k) {
    check_bags(&b, FLOATS[k], "sum", false);
    check_bags(&b, FLOATS[k], "sum", true);
    check_bags(&b, FLOATS[k], "mean", false);
    check_bags(&b, FLOATS[k], "max", false);
  }
  shoal_tensor_t table = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(TABLE, WIDTH), 2, 1), out[1];
  shoal_tensor_t weights = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(COUNT), 2, 2);
  shoal_tensor_t ids = integers(&b, COUNT, IDS), offsets = integers(&b, BAGS, OFFSETS);
  assert_ok(run_named(&b, "shoal.bag_index", TENSORS(offsets),
                      ATTRS(shoal_attr_int("count", COUNT)), out, NULL));
  for (int64_t i = 0; i < COUNT; ++i) assert_true(at(out, i) == BAG_OF[i]);
  assert_error(
      INVALID_ARGUMENT, "weights are for mode 'sum', not for mode 'max'",
      run_named(&b, "shoal.embedding_bag", TENSORS(table, ids, offsets, weights),
                ATTRS(shoal_attr_string("mode", "max"), shoal_attr_string("with", "weights")), out,
                NULL));
  assert_error(INVALID_ARGUMENT, "mode 'avg' is none of sum, mean and max",
               run_named(&b, "shoal.embedding_bag", TENSORS(table, ids, offsets),
                         ATTRS(shoal_attr_string("mode", "avg")), out, NULL));
  ((int32_t *)offsets.data)[5] = COUNT + 1;
  assert_error(INVALID_ARGUMENT, "element 5 of offsets is 12, which is not in [0, 12)",
               run_named(&b, "shoal.embedding_bag", TENSORS(table, ids, offsets),
                         ATTRS(shoal_attr_string("mode", "sum")), out, NULL));
  ((int32_t *)offsets.data)[5] = COUNT;
  ((int32_t *)ids.data)[10] = TABLE;
  assert_error(INVALID_ARGUMENT, "element 10 of ids is 5, which is not in [0, 5)",
               run_named(&b, "shoal.embedding_bag", TENSORS(table, ids, offsets),
                         ATTRS(shoal_attr_string("mode", "sum")), out, NULL));
  bench_deinit(&b);
}

// rows_add of embedding_rows has the bits of embedding_grad, and the row `padding` stays 0.
static void gradients_by_rows(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  for (int k = 0; k < FLOAT_COUNT * 2; ++k) {
    const shoal_dtype_t dtype = FLOATS[k / 2];
    const shoal_attr_t rows = shoal_attr_int("rows", TABLE);
    const shoal_attr_t padding = shoal_attr_int("padding", k % 2 ? 4 : -1);
    shoal_tensor_t ids = integers(&b, COUNT, IDS), dense[1], merged[3], added[1];
    shoal_tensor_t dy = random_tensor(&b, dtype, SHOAL_SHAPE(COUNT, WIDTH), 2, 1);
    assert_ok(
        run_named(&b, "shoal.embedding_grad", TENSORS(ids, dy), ATTRS(rows, padding), dense, NULL));
    assert_ok(run_named(&b, "shoal.embedding_rows", TENSORS(ids, dy), ATTRS(rows, padding), merged,
                        NULL));
    assert_ok(
        run_named(&b, "shoal.rows_add", TENSORS(merged[0], merged[1]), ATTRS(rows), added, NULL));
    assert_memory_equal(dense->data, added->data, bytes_of(dtype, &dense->shape));
    assert_true(at(&merged[2], 0) == (k % 2 ? 4 : 5));
    for (int64_t i = 0; i < COUNT; ++i) {
      const bool used = i < at(&merged[2], 0);
      assert_true(at(&merged[0], i) == (double)(used ? i : TABLE));
      for (int64_t c = 0; !used && c < WIDTH; ++c) assert_true(at(&merged[1], i * WIDTH + c) == 0);
    }
    for (int64_t i = 0; i < TABLE * WIDTH; ++i) {
      double sum = 0;
      for (int64_t n = 0; n < COUNT; ++n) {
        if (IDS[n] == i / WIDTH && IDS[n] != padding.value.i) sum += at(&dy, n * WIDTH + i % WIDTH);
      }
      check_near(at(dense, i), sum, tolerance(dtype), "embedding_grad", i);
    }
  }
  bench_deinit(&b);
}

// Groups are merged each by itself, and rows that several of them have are added.
static void groups_of_rows(void **state) {
  (void)state;
  enum { GROUPS = 3, EACH = 4 };
  static const int32_t ids[GROUPS * EACH] = {1, 4, 1, 0, 0, 0, 0, 0, 4, 3, 4, 1};
  static const int32_t merged_ids[] = {0, 1, 4, 5, 0, 5, 5, 5, 1, 3, 4, 5}, counts[] = {3, 1, 3};
  bench_t b;
  bench_init(&b);
  const shoal_attr_t rows = shoal_attr_int("rows", TABLE);
  shoal_tensor_t in = integers(&b, GROUPS * EACH, ids), dense[1], merged[3], added[1];
  shoal_tensor_t dy = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(GROUPS, EACH, WIDTH), 2, 1);
  in.shape = SHOAL_SHAPE(GROUPS, EACH);
  assert_ok(run_named(&b, "shoal.embedding_grad", TENSORS(in, dy), ATTRS(rows), dense, NULL));
  assert_ok(run_named(&b, "shoal.embedding_rows", TENSORS(in, dy), ATTRS(rows), merged, NULL));
  for (int64_t g = 0; g < GROUPS; ++g) assert_true(at(&merged[2], g) == counts[g]);
  for (int64_t i = 0; i < GROUPS * EACH; ++i) assert_true(at(&merged[0], i) == merged_ids[i]);
  for (int64_t i = 0; i < GROUPS * EACH * WIDTH; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < EACH; ++k) {
      const int64_t from = i / (EACH * WIDTH) * EACH + k;
      if (ids[from] == merged_ids[i / WIDTH]) sum += at(&dy, from * WIDTH + i % WIDTH);
    }
    check_near(at(&merged[1], i), sum, tolerance(SHOAL_F64), "embedding_rows", i);
  }
  assert_ok(
      run_named(&b, "shoal.rows_add", TENSORS(merged[0], merged[1]), ATTRS(rows), added, NULL));
  for (int64_t i = 0; i < TABLE * WIDTH; ++i)
    check_near(at(added, i), at(dense, i), tolerance(SHOAL_F64), "rows_add", i);
  bench_deinit(&b);
}

// The gradient of an embedding leaves the padding row out, and its rows may start from x.
static void scatters_onto_x(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const shoal_shape_t shape = SHOAL_SHAPE(TABLE, WIDTH);
  shoal_tensor_t ids = integers(&b, COUNT, IDS), out[1];
  shoal_tensor_t src = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(COUNT, WIDTH), 2, 1);
  shoal_tensor_t x = random_tensor(&b, SHOAL_F64, shape, 2, 2);
  const shoal_attr_t attrs[] = {shoal_attr_int("axis", 0), shoal_attr_shape("shape", &shape),
                                shoal_attr_string("with", "x")};
  assert_ok(run_named(&b, "shoal.scatter_add", TENSORS(ids, src, x), 3, attrs, out, NULL));
  for (int64_t i = 0; i < TABLE * WIDTH; ++i) {
    double sum = at(&x, i);
    for (int64_t n = 0; n < COUNT; ++n) {
      if (IDS[n] == i / WIDTH) sum += at(&src, n * WIDTH + i % WIDTH);
    }
    check_near(at(out, i), sum, 1e-14, "scatter_add", i);
  }
  shoal_tensor_t wrong = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(TABLE, WIDTH + 1), 2, 2);
  assert_error(INVALID_ARGUMENT, "x must have shape [5, 3]",
               run_named(&b, "shoal.scatter_add", TENSORS(ids, src, wrong), 3, attrs, out, NULL));
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bags),
      cmocka_unit_test(gradients_by_rows),
      cmocka_unit_test(groups_of_rows),
      cmocka_unit_test(scatters_onto_x),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Loaders over a data set of callbacks: every sample once an epoch, any cursor, any rows, read
// ahead or not, short and dropped batches, casts, and errors that leave the cursor where it is.
#include <stdatomic.h>

#include "base/failing.h"
#include "shoal/data.h"
#include "unit.h"

enum { WIDTH = 3 };

// Sample i has x = i, i + 0.25, i + 0.5 and y = i mod 7; sample `bad` cannot be read.
typedef struct numbers {
  int64_t bad;
  _Atomic int64_t reads, frees;
} numbers_t;

static shoal_status_t read_numbers(void *self, const shoal_sample_t *sample,
                                   void *const *out_columns) {
  numbers_t *numbers = self;
  atomic_fetch_add(&numbers->reads, 1);
  if (sample->index == numbers->bad) return SHOAL_ERROR(IO, "the disk is on fire");
  float *x = out_columns[0];
  for (int i = 0; x && i < WIDTH; ++i) x[i] = (float)sample->index + 0.25f * (float)i;
  if (out_columns[1]) *(int64_t *)out_columns[1] = sample->index % 7;
  return NULL;
}

static void count_free(void *self) {
  ++((numbers_t *)self)->frees;
}

static shoal_dataset_t *make(numbers_t *numbers, int64_t count) {
  const shoal_column_t columns[] = {{"x", SHOAL_F32, SHOAL_SHAPE(WIDTH), 0},
                                    {"y", SHOAL_I64, SHOAL_SCALAR, 7}};
  shoal_dataset_t *dataset;
  *numbers = (numbers_t){.bad = -1};
  assert_ok(shoal_dataset_create("numbers", count, columns, 2,
                                 &(shoal_dataset_ops_t){.read = read_numbers, .free = count_free},
                                 numbers, (shoal_allocator_t){0}, &dataset));
  return dataset;
}

static shoal_loader_t *load(shoal_dataset_t *dataset, shoal_loader_options_t options) {
  shoal_loader_t *loader;
  assert_ok(shoal_loader_create(dataset, &options, &loader));
  return loader;
}

static shoal_batch_t next(shoal_loader_t *loader) {
  shoal_batch_t batch;
  assert_ok(shoal_loader_next(loader, &batch));
  return batch;
}

static int64_t sample_of(const shoal_batch_t *batch, int64_t row) {
  const float *x = batch->columns[0].data;
  const int64_t sample = (int64_t)x[row * WIDTH];
  assert_true(x[row * WIDTH + 2] == (float)sample + 0.5f);
  return sample;
}

// The first `count` samples of a run.
static void order(shoal_dataset_t *dataset, shoal_loader_options_t options, int64_t count,
                  int64_t *out) {
  shoal_loader_t *loader = load(dataset, options);
  for (int64_t n = 0; n < count;) {
    const shoal_batch_t batch = next(loader);
    for (int64_t row = 0; row < batch.rows && n < count; ++row, ++n)
      out[n] = sample_of(&batch, row);
  }
  shoal_loader_free(loader);
}

// Of every length: each sample once an epoch, in another order by epoch and by seed.
static void test_permutation(void **state) {
  (void)state;
  for (int64_t count = 1; count <= 70; count += count < 20 ? 1 : 25) {
    numbers_t numbers;
    shoal_dataset_t *dataset = make(&numbers, count);
    int64_t first[2 * 70], other[70], plain[70];
    order(dataset, (shoal_loader_options_t){.batch = 3, .seed = 5}, 2 * count, first);
    order(dataset, (shoal_loader_options_t){.batch = 3, .seed = 6}, count, other);
    order(dataset, (shoal_loader_options_t){.batch = 3, .in_order = true}, count, plain);
    for (int epoch = 0; epoch < 2; ++epoch) {
      int seen[70] = {0};
      for (int64_t i = 0; i < count; ++i) ++seen[first[epoch * count + i]];
      for (int64_t i = 0; i < count; ++i) assert_int_equal(seen[i], 1);
    }
    const size_t bytes = (size_t)count * sizeof *first;
    if (count > 10) {
      assert_memory_not_equal(first, first + count, bytes);
      assert_memory_not_equal(first, other, bytes);
    }
    for (int64_t i = 0; i < count; ++i) assert_int_equal(plain[i], i);
    shoal_dataset_free(dataset);
    assert_int_equal(numbers.frees, 1);
  }
}

// Sample n of a run does not depend on the rows of a batch, on where it began, or on reading ahead.
static void test_resumes(void **state) {
  (void)state;
  enum { COUNT = 23, ALL = 80 };
  numbers_t numbers;
  shoal_dataset_t *dataset = make(&numbers, COUNT);
  int64_t whole[ALL], again[ALL];
  order(dataset, (shoal_loader_options_t){.batch = 1, .seed = 2}, ALL, whole);
  for (int32_t ahead = 0; ahead <= 3; ahead += 3) {
    for (int64_t cursor = 0; cursor < 60; ++cursor) {
      order(dataset,
            (shoal_loader_options_t){
                .batch = 1 + cursor % 9, .seed = 2, .cursor = cursor, .ahead = ahead},
            ALL - cursor, again);
      assert_memory_equal(again, whole + cursor, (size_t)(ALL - cursor) * sizeof *whole);
    }
  }
  // One loader that jumps about.
  shoal_loader_t *loader =
      load(dataset, (shoal_loader_options_t){.batch = 4, .seed = 2, .ahead = 2});
  for (int64_t i = 0; i < 200; ++i) {
    const int64_t cursor = i * 37 % 70;
    assert_ok(shoal_loader_seek(loader, cursor));
    for (int64_t k = 0; k < i % 4; ++k) {
      const shoal_batch_t batch = next(loader);
      assert_int_equal(batch.cursor, cursor + 4 * k);
      assert_int_equal(batch.next_cursor, shoal_loader_cursor(loader));
      for (int64_t row = 0; row < 4 && batch.cursor + row < ALL; ++row)
        assert_int_equal(sample_of(&batch, row), whole[batch.cursor + row]);
    }
  }
  assert_error(INVALID_ARGUMENT, "cursor of -1", shoal_loader_seek(loader, -1));
  shoal_loader_free(loader);
  shoal_dataset_free(dataset);
}

static void test_last_batch(void **state) {
  (void)state;
  numbers_t numbers;
  shoal_dataset_t *dataset = make(&numbers, 10);
  for (int32_t ahead = 0; ahead < 3; ++ahead) {
    shoal_loader_t *loader =
        load(dataset, (shoal_loader_options_t){
                          .batch = 4, .last_batch = SHOAL_LAST_SHORT, .epochs = 2, .ahead = ahead});
    assert_int_equal(shoal_loader_epoch_batches(loader), 3);
    for (int i = 0; i < 8; ++i) {
      const shoal_batch_t batch = next(loader);
      assert_int_equal(batch.rows, ((int64_t[]){4, 4, 2, 4, 4, 2, 0, 0}[i]));
      assert_int_equal(batch.columns[1].rows, batch.rows);
      assert_int_equal(batch.columns[1].bytes, 8 * batch.rows);
      if (batch.rows) assert_int_equal(batch.epoch, i / 3);
    }
    assert_ok(shoal_loader_seek(loader, 14));  // begun again before the end
    assert_int_equal(next(loader).rows, 4);
    shoal_loader_free(loader);

    loader = load(dataset,
                  (shoal_loader_options_t){
                      .batch = 4, .last_batch = SHOAL_LAST_DROPPED, .epochs = 2, .ahead = ahead});
    assert_int_equal(shoal_loader_epoch_batches(loader), 2);
    assert_int_equal(shoal_loader_epoch_samples(loader), 8);
    for (int i = 0; i < 6; ++i) {
      const shoal_batch_t batch = next(loader);
      assert_int_equal(batch.rows, ((int64_t[]){4, 4, 4, 4, 0, 0}[i]));
      if (batch.rows) assert_int_equal(batch.cursor, ((int64_t[]){0, 4, 10, 14}[i]));
      if (i == 1) assert_int_equal(batch.next_cursor, 10);
    }
    shoal_loader_free(loader);

    loader = load(dataset,
                  (shoal_loader_options_t){.batch = 4, .epochs = 1, .cursor = 2, .ahead = ahead});
    for (int i = 0; i < 4; ++i) assert_int_equal(next(loader).rows, ((int64_t[]){4, 4, 0, 0}[i]));
    shoal_loader_free(loader);
  }
  shoal_loader_t *loader;
  assert_error(
      INVALID_ARGUMENT, "fewer than a batch",
      shoal_loader_create(dataset,
                          &(shoal_loader_options_t){.batch = 11, .last_batch = SHOAL_LAST_DROPPED},
                          &loader));
  assert_error(INVALID_ARGUMENT, "batches of 0",
               shoal_loader_create(dataset, &(shoal_loader_options_t){0}, &loader));
  assert_error(INVALID_ARGUMENT, "say the batch", shoal_loader_create(dataset, NULL, &loader));
  shoal_dataset_free(dataset);
}

// What ranks read is together the batch, each row once; a rank reads its own rows only.
static void test_rows(void **state) {
  (void)state;
  enum { RANKS = 3, BATCH = 10 };
  numbers_t numbers, own[RANKS];
  shoal_dataset_t *dataset = make(&numbers, 25), *of_rank[RANKS];
  const shoal_loader_options_t options = {
      .batch = BATCH, .seed = 4, .last_batch = SHOAL_LAST_SHORT};
  shoal_loader_t *whole = load(dataset, options), *ranks[RANKS];
  const shoal_rows_t full[RANKS][2] = {{{7, 10}, {0, 1}}, {{1, 5}, {5, 5}}, {{5, 6}, {6, 7}}};
  const shoal_rows_t rest[RANKS][1] = {{{0, 2}}, {{2, 4}}, {{4, 5}}};
  for (int r = 0; r < RANKS; ++r) {
    of_rank[r] = make(&own[r], 25);
    shoal_loader_options_t ahead = options;
    ahead.ahead = r;
    ranks[r] = load(of_rank[r], ahead);
    assert_ok(shoal_loader_want(ranks[r], NULL, BATCH, full[r], 2));
    assert_ok(shoal_loader_want(ranks[r], NULL, 5, rest[r], 1));
    assert_ok(shoal_loader_want(ranks[r], "y", 5, &(shoal_rows_t){0, 5}, 1));
  }
  for (int i = 0; i < 6; ++i) {
    const shoal_batch_t all = next(whole);
    int64_t seen = 0;
    for (int r = 0; r < RANKS; ++r) {
      const shoal_batch_t part = next(ranks[r]);
      assert_int_equal(part.rows, all.rows);
      assert_int_equal(part.cursor, all.cursor);
      int64_t at = 0;
      const shoal_rows_t *ranges = all.rows == BATCH ? full[r] : rest[r];
      for (int k = 0; k < (all.rows == BATCH ? 2 : 1); ++k)
        for (int64_t row = ranges[k].begin; row < ranges[k].end; ++row, ++seen)
          assert_int_equal(sample_of(&part, at++), sample_of(&all, row));
      assert_int_equal(part.columns[0].rows, at);
      if (all.rows != BATCH)  // y was wanted whole
        assert_memory_equal(part.columns[1].data, all.columns[1].data, 5 * sizeof(int64_t));
    }
    assert_int_equal(seen, all.rows);
  }
  assert_int_equal(own[0].reads, 2 * (4 + 4 + 5));
  assert_error(INVALID_ARGUMENT, "rows 5 to 11",
               shoal_loader_want(whole, NULL, BATCH, &(shoal_rows_t){5, 11}, 1));
  assert_error(INVALID_ARGUMENT, "wanted twice",
               shoal_loader_want(whole, NULL, BATCH, (shoal_rows_t[]){{0, 5}, {4, 6}}, 2));
  assert_error(NOT_FOUND, "'z'", shoal_loader_want(whole, "z", BATCH, full[0], 2));
  for (int r = 0; r < RANKS; ++r) {
    shoal_loader_free(ranks[r]);
    shoal_dataset_free(of_rank[r]);
  }
  shoal_loader_free(whole);
  shoal_dataset_free(dataset);
}

// An error comes when its batch is asked for, names the sample, and does not lose the place.
static void test_errors(void **state) {
  (void)state;
  for (int32_t ahead = 0; ahead < 4; ++ahead) {
    numbers_t numbers;
    shoal_dataset_t *dataset = make(&numbers, 20);
    numbers.bad = 13;
    shoal_loader_t *loader =
        load(dataset, (shoal_loader_options_t){.batch = 4, .in_order = true, .ahead = ahead});
    for (int i = 0; i < 3; ++i) next(loader);
    shoal_batch_t batch;
    for (int i = 0; i < 2; ++i) {
      assert_error(IO, "sample 13 of 'numbers': the disk is on fire",
                   shoal_loader_next(loader, &batch));
      assert_int_equal(shoal_loader_cursor(loader), 12);
    }
    assert_ok(shoal_loader_seek(loader, 16));
    batch = next(loader);
    assert_int_equal(sample_of(&batch, 0), 16);
    shoal_loader_free(loader);  // also while the thread has an error in hand
    loader = load(dataset, (shoal_loader_options_t){
                               .batch = 4, .in_order = true, .cursor = 8, .ahead = ahead});
    next(loader);
    shoal_loader_free(loader);
    shoal_dataset_free(dataset);
    assert_int_equal(numbers.frees, 1);
  }
}

// What the model takes: other types, shapes and numbers of classes.
static void test_inputs(void **state) {
  (void)state;
  numbers_t numbers;
  shoal_dataset_t *dataset = make(&numbers, 20);
  shoal_column_t inputs[] = {{"y", SHOAL_I32, SHOAL_SHAPE(1, 1), 0},
                             {"x", SHOAL_F64, SHOAL_SHAPE(1, WIDTH), 0}};
  const shoal_loader_options_t options = {
      .batch = 8, .in_order = true, .inputs = inputs, .input_count = 2};
  shoal_loader_t *loader = load(dataset, options);
  shoal_batch_t batch = next(loader);
  assert_string_equal(batch.columns[0].name, "y");
  assert_int_equal(batch.columns[0].bytes, 8 * sizeof(int32_t));
  assert_int_equal(((const int32_t *)batch.columns[0].data)[6], 6);
  assert_true(((const double *)batch.columns[1].data)[7 * WIDTH + 1] == 7.25);
  shoal_loader_free(loader);

  inputs[0].classes = 5;
  loader = load(dataset, options);
  assert_error(INVALID_ARGUMENT,
               "sample 5 of 'numbers': 'y' is 5 (element 0); the model takes 0 to 4",
               shoal_loader_next(loader, &batch));
  shoal_loader_free(loader);
  inputs[0].classes = 7;  // as many as the data has: not looked at one by one
  loader = load(dataset, options);
  next(loader);
  shoal_loader_free(loader);
  inputs[1].shape = SHOAL_SHAPE(4);
  assert_error(INVALID_ARGUMENT, "'x' in 'numbers' is [3]; the model takes [4]",
               shoal_loader_create(dataset, &options, &loader));
  inputs[1] = (shoal_column_t){"x", SHOAL_I32, SHOAL_SHAPE(WIDTH), 0};
  assert_error(INVALID_ARGUMENT, "'x' in 'numbers' is f32",
               shoal_loader_create(dataset, &options, &loader));
  inputs[1] = inputs[0];
  assert_error(INVALID_ARGUMENT, "two inputs 'y'", shoal_loader_create(dataset, &options, &loader));
  inputs[1].name = "z";
  assert_error(NOT_FOUND, "takes 'z'; 'numbers' has x, y",
               shoal_loader_create(dataset, &options, &loader));
  shoal_dataset_free(dataset);
}

// What is held out is disjoint from the rest, spread, and the same every time; parts in a row cover
// all samples, uneven or equal.
static void test_parts(void **state) {
  (void)state;
  enum { COUNT = 103 };
  numbers_t numbers;
  shoal_dataset_t *dataset = make(&numbers, COUNT), *rest, *held;
  for (int k = 0; k < 3; ++k) {
    assert_ok(shoal_dataset_split(dataset, (double[]){0.2, 50, 0.001}[k], &rest, &held));
    const int64_t expected = (int64_t[]){20, 50, 1}[k];
    assert_int_equal(shoal_dataset_count(held), expected);
    assert_int_equal(shoal_dataset_count(rest), COUNT - expected);
    int64_t seen[COUNT], early = 0;
    order(rest, (shoal_loader_options_t){.batch = 1, .seed = 8}, COUNT - expected, seen);
    order(held, (shoal_loader_options_t){.batch = 1, .seed = 9}, expected, seen + COUNT - expected);
    int count[COUNT] = {0};
    for (int64_t i = 0; i < COUNT; ++i) ++count[seen[i]];
    for (int64_t i = 0; i < COUNT; ++i) assert_int_equal(count[i], 1);
    for (int64_t i = COUNT - expected; i < COUNT; ++i) early += seen[i] < COUNT / 2;
    if (expected > 1) assert_true(early > expected / 5 && early < expected * 4 / 5);
    shoal_dataset_free(rest);
    shoal_dataset_free(held);
  }
  for (int equal = 0; equal < 2; ++equal) {
    int64_t at = 0;
    for (int64_t part = 0; part < 10; ++part) {
      shoal_dataset_t *one;
      assert_ok(shoal_dataset_part(dataset, part, 10, equal, &one));
      const int64_t count = shoal_dataset_count(one);
      assert_int_equal(count, equal || part >= 3 ? 10 : 11);
      int64_t seen[16];
      order(one, (shoal_loader_options_t){.batch = 4, .in_order = true}, count, seen);
      for (int64_t i = 0; i < count; ++i) assert_int_equal(seen[i], at++);
      shoal_dataset_free(one);
    }
    assert_int_equal(at, equal ? 100 : COUNT);
  }
  shoal_dataset_t *none;
  assert_error(INVALID_ARGUMENT, "part 10 of 10",
               shoal_dataset_part(dataset, 10, 10, false, &none));
  assert_error(INVALID_ARGUMENT, "would be empty",
               shoal_dataset_part(dataset, 103, 104, false, &none));
  shoal_dataset_free(dataset);
}

// Steady state does not allocate; every failed allocation before it is an error without a leak.
static void test_allocations(void **state) {
  (void)state;
  numbers_t numbers;
  for (int32_t ahead = 0; ahead < 2; ++ahead) {
    for (int64_t at = 1;; ++at) {
      shoal_failing_t failing = {.fail_at = at};
      shoal_dataset_t *dataset = make(&numbers, 20);
      shoal_loader_t *loader = NULL;
      const shoal_column_t inputs[] = {{"x", SHOAL_BF16, SHOAL_SHAPE(WIDTH), 0}};
      shoal_status_t status = shoal_loader_create(
          dataset,
          &(shoal_loader_options_t){.allocator = shoal_allocator_failing(&failing),
                                    .batch = 4,
                                    .ahead = ahead,
                                    .inputs = inputs,
                                    .input_count = 1},
          &loader);
      shoal_batch_t batch;
      if (!status) status = shoal_loader_next(loader, &batch);
      const bool failed = status;
      if (failed) assert_int_equal(shoal_status_code(status), SHOAL_OUT_OF_MEMORY);
      shoal_status_free(status);
      const int64_t calls = failing.calls;
      for (int i = 0; !failed && i < 20; ++i) next(loader);
      assert_int_equal(failing.calls, calls);
      shoal_loader_free(loader);
      shoal_dataset_free(dataset);
      assert_int_equal(failing.live_blocks, 0);
      if (!failed) break;
    }
  }
}

static void test_bad_datasets(void **state) {
  (void)state;
  numbers_t numbers = {0};
  const shoal_dataset_ops_t ops = {.read = read_numbers};
  const shoal_allocator_t system = {0};
  shoal_dataset_t *dataset;
  const shoal_column_t good = {"x", SHOAL_F32, SHOAL_SHAPE(2), 0},
                       deep = {"x", SHOAL_F32, {.rank = SHOAL_MAX_RANK}, 0},
                       huge = {"x", SHOAL_F32, SHOAL_SHAPE(INT64_MAX / 2), 0}, nameless = {0};
  assert_error(INVALID_ARGUMENT, "'d' has no samples",
               shoal_dataset_create("d", 0, &good, 1, &ops, &numbers, system, &dataset));
  assert_error(INVALID_ARGUMENT, "0 columns",
               shoal_dataset_create("d", 1, &good, 0, &ops, &numbers, system, &dataset));
  assert_error(INVALID_ARGUMENT, "dims",
               shoal_dataset_create("d", 1, &deep, 1, &ops, &numbers, system, &dataset));
  assert_error(INVALID_ARGUMENT, "no name",
               shoal_dataset_create("d", 1, &nameless, 1, &ops, &numbers, system, &dataset));
  assert_error(INVALID_ARGUMENT, "two columns 'x'",
               shoal_dataset_create("d", 1, (shoal_column_t[]){good, good}, 2, &ops, &numbers,
                                    system, &dataset));
  shoal_status_t status = shoal_dataset_create("d", 1, &huge, 1, &ops, &numbers, system, &dataset);
  assert_non_null(status);
  shoal_status_free(status);
  shoal_dataset_free(NULL);
  shoal_loader_free(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_permutation),  cmocka_unit_test(test_resumes),
      cmocka_unit_test(test_last_batch),   cmocka_unit_test(test_rows),
      cmocka_unit_test(test_errors),       cmocka_unit_test(test_inputs),
      cmocka_unit_test(test_parts),        cmocka_unit_test(test_allocations),
      cmocka_unit_test(test_bad_datasets),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Text and made-up data: windows of bytes, an epoch of them, what is held out, several files as
// one.
#include "data_support.h"

enum { SIZE = 241, LENGTH = 8, WINDOWS = 30 };

static shoal_dataset_t *open_file(const char *path, int64_t length) {
  shoal_dataset_t *dataset;
  assert_ok(shoal_dataset_open(path, &(shoal_dataset_options_t){.length = length}, &dataset));
  return dataset;
}

// A byte tells its position.
static const char *write_positions(const char *name, int from, int to) {
  unsigned char data[256];
  for (int i = from; i < to; ++i) data[i - from] = (unsigned char)i;
  return write_file(name, data, (size_t)(to - from));
}

static void read_window(shoal_dataset_t *dataset, shoal_sample_t sample, int32_t *ids,
                        int32_t *labels) {
  assert_ok(shoal_dataset_read(dataset, &sample, (void *[]){ids, labels}));
}

static void test_epoch(void **state) {
  (void)state;
  shoal_dataset_t *text = open_file(write_positions("a", 0, SIZE), LENGTH);
  assert_int_equal(shoal_dataset_count(text), WINDOWS);
  assert_int_equal(shoal_dataset_column(text, 1)->classes, 256);
  assert_int_equal(shoal_dataset_find_column(text, "labels"), 1);
  assert_true(shoal_dataset_column(text, 1)->follows && !shoal_dataset_column(text, 0)->follows);
  assert_int_equal(shoal_dataset_find_column(text, "x"), -1);
  int32_t ids[LENGTH], labels[LENGTH], order[2][WINDOWS];
  shoal_loader_t *loader;
  assert_ok(shoal_loader_create(text, &(shoal_loader_options_t){.batch = 1, .seed = 3}, &loader));
  for (int epoch = 0; epoch < 2; ++epoch) {
    int seen[WINDOWS] = {0};
    for (int n = 0; n < WINDOWS; ++n) {
      shoal_batch_t batch;
      assert_ok(shoal_loader_next(loader, &batch));
      const int32_t *of = batch.columns[0].data, *to = batch.columns[1].data;
      for (int t = 0; t < LENGTH; ++t) {
        assert_int_equal(of[t], of[0] + t);
        assert_int_equal(to[t], of[0] + t + 1);
      }
      order[epoch][n] = of[0] / LENGTH;
      ++seen[of[0] / LENGTH];
    }
    for (int i = 0; i < WINDOWS; ++i) assert_int_equal(seen[i], 1);
  }
  assert_memory_not_equal(order[0], order[1], sizeof order[0]);
  shoal_loader_free(loader);
  // Sample n begins where it lies; only what may be varied begins elsewhere.
  read_window(text, (shoal_sample_t){.index = 2, .epoch = 5, .seed = 9}, ids, labels);
  assert_int_equal(ids[0], 2 * LENGTH);
  shoal_dataset_free(text);
}

// The offset changes from epoch to epoch, and no window leaves the text.
static void test_offset(void **state) {
  (void)state;
  shoal_dataset_t *text = open_file(write_positions("a", 0, 240), LENGTH);
  assert_int_equal(shoal_dataset_count(text), 29);
  int32_t ids[LENGTH], labels[LENGTH];
  int offsets[LENGTH] = {0};
  for (int epoch = 0; epoch < 64; ++epoch) {
    shoal_sample_t sample = {.index = 28, .varied = true, .epoch = epoch, .seed = 1};
    read_window(text, sample, ids, labels);
    ++offsets[ids[0] - 28 * LENGTH];
    assert_true(labels[LENGTH - 1] < 240);
    sample.index = 0;
    read_window(text, sample, ids, NULL);
    assert_int_equal(ids[0], labels[LENGTH - 1] - 29 * LENGTH);
  }
  for (int i = 0; i < LENGTH; ++i) assert_true(offsets[i] > 0);
  shoal_dataset_free(text);
}

// No token of a window that is held out lies in any window of the rest, in any epoch.
static void test_held_out(void **state) {
  (void)state;
  shoal_dataset_t *text = open_file(write_positions("a", 0, SIZE), LENGTH), *rest, *held;
  for (int k = 0; k < 3; ++k) {
    assert_ok(shoal_dataset_split(text, (double[]){0.1, 7, 1}[k], &rest, &held));
    const int64_t windows = (int64_t[]){3, 7, 1}[k];
    assert_int_equal(shoal_dataset_count(held), windows);
    assert_int_equal(shoal_dataset_count(rest), (SIZE - windows * LENGTH - 2) / LENGTH);
    int32_t ids[LENGTH], labels[LENGTH], highest = 0, lowest = SIZE;
    for (int epoch = 0; epoch < 20; ++epoch) {
      for (int64_t i = 0; i < shoal_dataset_count(rest); ++i) {
        read_window(rest, (shoal_sample_t){i, true, epoch, 4}, ids, labels);
        if (labels[LENGTH - 1] > highest) highest = labels[LENGTH - 1];
      }
      for (int64_t i = 0; i < windows; ++i) {
        read_window(held, (shoal_sample_t){i, true, epoch, 4}, ids, labels);
        if (ids[0] < lowest) lowest = ids[0];
        assert_true(labels[LENGTH - 1] < SIZE);
      }
    }
    assert_true(highest < lowest);
    shoal_dataset_free(rest);
    shoal_dataset_free(held);
  }
  assert_error(INVALID_ARGUMENT, "none is left", shoal_dataset_split(text, 29, &rest, &held));
  assert_error(INVALID_ARGUMENT, "cannot be held out", shoal_dataset_split(text, 30, &rest, &held));
  assert_error(INVALID_ARGUMENT, "cannot be held out", shoal_dataset_split(text, 0, &rest, &held));
  assert_error(INVALID_ARGUMENT, "-1 of the 30", shoal_dataset_split(text, -1, &rest, &held));
  // Parts outlive the whole.
  assert_ok(shoal_dataset_split(text, 0.5, &rest, &held));
  shoal_dataset_free(text);
  int32_t ids[LENGTH];
  read_window(held, (shoal_sample_t){0}, ids, NULL);
  assert_true(ids[0] > 100);
  shoal_dataset_free(rest);
  shoal_dataset_free(held);
}

// Files of uneven sizes, one of them empty, are one text: the same windows as of one file.
static void test_files_as_one(void **state) {
  (void)state;
  write_positions("p0", 0, 100);
  write_positions("p1", 100, 100);
  write_positions("p2", 100, 103);
  write_positions("p3", 103, SIZE);
  char list[512];
  snprintf(list, sizeof list, "%s,%s,%s,%s", in_folder("p0"), in_folder("p1"), in_folder("p2"),
           in_folder("p3"));
  shoal_dataset_t *whole = open_file(write_positions("a", 0, SIZE), LENGTH),
                  *parts = open_file(list, LENGTH);
  assert_int_equal(shoal_dataset_count(parts), WINDOWS);
  for (int64_t i = 0; i < WINDOWS; ++i) {
    int32_t a[2][LENGTH], b[2][LENGTH];
    read_window(whole, (shoal_sample_t){i, true, 1, 2}, a[0], a[1]);
    read_window(parts, (shoal_sample_t){i, true, 1, 2}, b[0], b[1]);
    assert_memory_equal(a, b, sizeof a);
  }
  shoal_dataset_free(whole);
  shoal_dataset_free(parts);
}

static void test_errors(void **state) {
  (void)state;
  const char *path = write_positions("a", 0, 100);
  shoal_dataset_t *dataset;
  const shoal_dataset_options_t of_100 = {.length = 100}, of_99 = {.length = 99}, none = {0};
  assert_error(NOT_FOUND, "no_such", shoal_dataset_open("/no_such", &of_99, &dataset));
  assert_error(INVALID_ARGUMENT, "has 100 tokens; sequences of 100 need at least 101",
               shoal_dataset_open(path, &of_100, &dataset));
  assert_error(INVALID_ARGUMENT, "windows of 0", shoal_dataset_open(path, &none, &dataset));
  assert_error(INVALID_ARGUMENT, "did you mean 'bytes'",
               shoal_dataset_open(path, &(shoal_dataset_options_t){.kind = "byte"}, &dataset));
  assert_error(INVALID_ARGUMENT, "no data", shoal_dataset_open(NULL, &none, &dataset));
  assert_error(INVALID_ARGUMENT, "no data", shoal_dataset_open("bytes:", &none, &dataset));
  dataset = open_file(path, 99);
  assert_int_equal(shoal_dataset_count(dataset), 1);
  int32_t ids[99];
  assert_error(INVALID_ARGUMENT, "sample 1 of",
               shoal_dataset_read(dataset, &(shoal_sample_t){.index = 1}, (void *[]){ids, NULL}));
  assert_int_equal(truncate(path, 50), 0);
  assert_error(IO, "ends at byte 50",
               shoal_dataset_read(dataset, &(shoal_sample_t){0}, (void *[]){ids, NULL}));
  shoal_dataset_free(dataset);
}

// Samples are a function of their number, alike in every type but for rounding.
static void test_classes(void **state) {
  (void)state;
  enum { COUNT = 64, WIDTH = 6 };
  shoal_column_t inputs[] = {{"x", SHOAL_F64, SHOAL_SHAPE(2, 3), 0},
                             {"y", SHOAL_I32, SHOAL_SCALAR, 3}};
  shoal_dataset_t *wide, *narrow;
  const shoal_dataset_options_t options = {
      .inputs = inputs, .input_count = 2, .seed = 7, .count = 200};
  assert_ok(shoal_dataset_open("classes", &options, &wide));
  inputs[0].dtype = SHOAL_F32;
  assert_ok(shoal_dataset_open("classes:", &options, &narrow));
  assert_int_equal(shoal_dataset_count(wide), 200);
  int seen[3] = {0};
  double last = 0;
  for (int64_t i = 0; i < COUNT; ++i) {
    double x[WIDTH];
    float same[WIDTH];
    int32_t y = -1, also = -1;
    assert_ok(shoal_dataset_read(wide, &(shoal_sample_t){.index = i}, (void *[]){x, &y}));
    assert_ok(shoal_dataset_read(narrow, &(shoal_sample_t){.index = i}, (void *[]){same, &also}));
    assert_int_equal(y, also);
    ++seen[y];
    for (int j = 0; j < WIDTH; ++j) assert_true((float)x[j] == same[j]);
    assert_true(x[0] != last);
    last = x[0];
  }
  for (int c = 0; c < 3; ++c) assert_true(seen[c] > COUNT / 10);
  shoal_dataset_free(wide);
  shoal_dataset_free(narrow);
  inputs[1].dtype = SHOAL_F32;
  assert_error(INVALID_ARGUMENT, "'random'", shoal_dataset_open("classes", &options, &wide));
}

// Integers stay below their classes; other samples and columns are drawn otherwise.
static void test_random(void **state) {
  (void)state;
  const shoal_column_t inputs[] = {{"a", SHOAL_BF16, SHOAL_SHAPE(100), 0},
                                   {"b", SHOAL_BF16, SHOAL_SHAPE(100), 0},
                                   {"c", SHOAL_I64, SHOAL_SHAPE(4, 50), 5}};
  shoal_dataset_t *dataset;
  const shoal_dataset_options_t options = {.inputs = inputs, .input_count = 3, .seed = 7};
  assert_ok(shoal_dataset_open("random", &options, &dataset));
  uint16_t a[2][100], b[100];
  int64_t c[200];
  int seen[5] = {0};
  assert_ok(shoal_dataset_read(dataset, &(shoal_sample_t){0}, (void *[]){a[0], b, c}));
  assert_ok(shoal_dataset_read(dataset, &(shoal_sample_t){1}, (void *[]){a[1], NULL, NULL}));
  assert_memory_not_equal(a[0], a[1], sizeof b);
  assert_memory_not_equal(a[0], b, sizeof b);
  for (int i = 0; i < 200; ++i) {
    assert_true(c[i] >= 0 && c[i] < 5);
    ++seen[c[i]];
  }
  for (int i = 0; i < 5; ++i) assert_true(seen[i] > 20);
  shoal_dataset_free(dataset);
  assert_error(INVALID_ARGUMENT, "none were given", shoal_dataset_open("random", NULL, &dataset));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_epoch),    cmocka_unit_test(test_offset),
      cmocka_unit_test(test_held_out), cmocka_unit_test(test_files_as_one),
      cmocka_unit_test(test_errors),   cmocka_unit_test(test_classes),
      cmocka_unit_test(test_random),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

// The byte dataset: batches are windows of the file, an epoch visits each once, any batch can be
// made alone. And made-up classes.
#include <stdlib.h>
#include <unistd.h>

#include "shoal/data.h"
#include "unit.h"

enum { SIZE = 1000, BATCH = 4, LENGTH = 7 };

static char path[] = "/tmp/shoal_bytes_XXXXXX";

static int make_file(void **state) {
  (void)state;
  unsigned char data[SIZE];
  for (int i = 0; i < SIZE; ++i) data[i] = (unsigned char)(i * 7 % 251);
  int file = mkstemp(path);
  ssize_t done = write(file, data, sizeof data);
  close(file);
  return done == SIZE ? 0 : -1;
}

static int remove_file(void **state) {
  (void)state;
  return unlink(path);
}

static shoal_bytes_t *open_bytes(uint64_t seed) {
  shoal_bytes_t *bytes;
  assert_ok(shoal_bytes_open(
      path, &(shoal_bytes_options_t){.batch = BATCH, .length = LENGTH, .seed = seed}, &bytes));
  return bytes;
}

static void test_batches(void **state) {
  (void)state;
  shoal_bytes_t *bytes = open_bytes(1);
  assert_int_equal(shoal_bytes_size(bytes), SIZE);
  const int64_t windows = shoal_bytes_windows(bytes);
  assert_int_equal(windows, (SIZE - 1) / LENGTH);
  int32_t ids[BATCH * LENGTH], labels[BATCH * LENGTH];
  for (int64_t cursor = 0; cursor < 3 * windows; cursor += BATCH) {
    assert_ok(shoal_bytes_batch(bytes, cursor, ids, labels));
    for (int i = 0; i < BATCH * LENGTH; ++i) {
      if (i % LENGTH) assert_int_equal(ids[i], labels[i - 1]);
      assert_int_equal(labels[i], (ids[i] + 7) % 251);
    }
  }
  shoal_bytes_close(bytes);
}

// A permutation: over one epoch of single samples every window start occurs once.
static void test_epoch_is_a_permutation(void **state) {
  (void)state;
  char other[] = "/tmp/shoal_bytes_XXXXXX";
  int file = mkstemp(other);
  unsigned char data[241];
  for (int i = 0; i < 241; ++i) data[i] = (unsigned char)i;  // a byte tells its position
  assert_int_equal(write(file, data, sizeof data), sizeof data);
  close(file);
  shoal_bytes_t *bytes;
  assert_ok(shoal_bytes_open(other, &(shoal_bytes_options_t){.batch = 1, .length = 8, .seed = 3},
                             &bytes));
  const int64_t windows = shoal_bytes_windows(bytes);
  assert_int_equal(windows, 30);
  int32_t ids[8], labels[8], order[2][30];
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    int seen[30] = {0};
    for (int64_t n = 0; n < windows; ++n) {
      assert_ok(shoal_bytes_batch(bytes, epoch * windows + n, ids, labels));
      order[epoch][n] = ids[0] / 8;
      ++seen[ids[0] / 8];
      assert_int_equal(labels[7], ids[0] + 8);
    }
    for (int i = 0; i < 30; ++i) assert_int_equal(seen[i], 1);
  }
  assert_memory_not_equal(order[0], order[1], sizeof order[0]);
  shoal_bytes_close(bytes);
  unlink(other);
}

static void test_any_batch_alone(void **state) {
  (void)state;
  shoal_bytes_t *a = open_bytes(5), *b = open_bytes(5), *c = open_bytes(6);
  int32_t ids[3][BATCH * LENGTH], labels[3][BATCH * LENGTH];
  for (int64_t cursor = 0; cursor < 40; cursor += BATCH) {
    assert_ok(shoal_bytes_batch(a, cursor, ids[0], labels[0]));
  }
  assert_ok(shoal_bytes_batch(b, 36, ids[1], labels[1]));  // resumed from the cursor
  assert_ok(shoal_bytes_batch(c, 36, ids[2], labels[2]));  // another seed
  assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
  assert_memory_equal(labels[0], labels[1], sizeof labels[0]);
  assert_memory_not_equal(ids[0], ids[2], sizeof ids[0]);
  assert_error(INVALID_ARGUMENT, "cursor", shoal_bytes_batch(a, -1, ids[0], labels[0]));
  shoal_bytes_close(a);
  shoal_bytes_close(b);
  shoal_bytes_close(c);
}

static void test_errors(void **state) {
  (void)state;
  shoal_bytes_t *bytes;
  assert_error(
      NOT_FOUND, "no_such_file",
      shoal_bytes_open("/no_such_file", &(shoal_bytes_options_t){.batch = 1, .length = 1}, &bytes));
  assert_error(
      INVALID_ARGUMENT, "has 1000 bytes; sequences of 1000 need at least 1001",
      shoal_bytes_open(path, &(shoal_bytes_options_t){.batch = 1, .length = 1000}, &bytes));
  assert_ok(shoal_bytes_open(path, &(shoal_bytes_options_t){.batch = 1, .length = 999}, &bytes));
  shoal_bytes_close(bytes);
  assert_error(INVALID_ARGUMENT, "batches of 0",
               shoal_bytes_open(path, &(shoal_bytes_options_t){.length = 4}, &bytes));
  assert_error(IO, "/tmp",
               shoal_bytes_open("/tmp", &(shoal_bytes_options_t){.batch = 1, .length = 1}, &bytes));
}

// Samples are a function of their number, alike in every type but for rounding, and lie around the
// centre of their class.
static void test_classes(void **state) {
  (void)state;
  enum { COUNT = 64, WIDTH = 5 };
  const shoal_classes_t classes = {.width = WIDTH, .classes = 3, .seed = 7};
  static double all[COUNT][WIDTH], later[WIDTH];
  static float narrow[COUNT][WIDTH];
  int32_t labels[COUNT], label, again[COUNT], seen[3] = {0};
  shoal_classes_batch(&classes, 100, COUNT, SHOAL_F64, all, labels);
  shoal_classes_batch(&classes, 100, COUNT, SHOAL_F32, narrow, again);
  shoal_classes_batch(&classes, 130, 1, SHOAL_F64, later, &label);
  assert_memory_equal(labels, again, sizeof labels);
  assert_memory_equal(all[30], later, sizeof later);
  assert_int_equal(labels[30], label);
  for (int i = 0; i < COUNT; ++i) {
    assert_true(labels[i] >= 0 && labels[i] < 3);
    ++seen[labels[i]];
    for (int j = 0; j < WIDTH; ++j) assert_true((float)all[i][j] == narrow[i][j]);
  }
  for (int c = 0; c < 3; ++c) assert_true(seen[c] > COUNT / 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_batches),         cmocka_unit_test(test_epoch_is_a_permutation),
      cmocka_unit_test(test_any_batch_alone), cmocka_unit_test(test_errors),
      cmocka_unit_test(test_classes),
  };
  return cmocka_run_group_tests(tests, make_file, remove_file);
}

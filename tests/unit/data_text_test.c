// Text through a tokenizer: pieces of a long text give the tokens of the whole, and several files
// are kept apart by the token that ends a text.
#include "data_support.h"
#include "shoal/tokenizer.h"

// "ab" is one token; a blank begins the next word.
static const char *write_tokenizer(void) {
  static const char vocab[] =
      "{\"a\": 0, \"b\": 1, \"ab\": 2, \"\\u0120\": 3, \"<|endoftext|>\": 4}";
  static const char merges[] = "#version: 0.2\na b\n";
  const char *path = in_folder("tokenizer");
  mkdir(path, 0700);
  write_file("tokenizer/vocab.json", vocab, sizeof vocab - 1);
  write_file("tokenizer/merges.txt", merges, sizeof merges - 1);
  return path;
}

static shoal_dataset_t *open_text(const char *path, const char *tokenizer, int64_t length) {
  shoal_dataset_t *dataset;
  const shoal_dataset_options_t options = {.tokenizer = tokenizer, .length = length};
  assert_ok(shoal_dataset_open(path, &options, &dataset));
  return dataset;
}

static void test_files(void **state) {
  (void)state;
  const char *tokenizer = write_tokenizer();
  const char *one = write_file("one.txt", "ab a", 4), *two = write_file("two.txt", "bab", 3);
  shoal_dataset_t *dataset = open_text(one, tokenizer, 2);
  assert_int_equal(shoal_dataset_count(dataset), 1);  // ab, blank, a
  assert_int_equal(shoal_dataset_column(dataset, 0)->classes, 5);
  int32_t ids[6], labels[6];
  assert_ok(shoal_dataset_read(dataset, &(shoal_sample_t){0}, (void *[]){ids, labels}));
  assert_memory_equal(ids, ((int32_t[]){2, 3}), 2 * sizeof *ids);
  assert_memory_equal(labels, ((int32_t[]){3, 0}), 2 * sizeof *ids);
  shoal_dataset_free(dataset);
  char list[512];
  snprintf(list, sizeof list, "%s,%s", one, two);
  dataset = open_text(list, tokenizer, 6);
  assert_ok(shoal_dataset_read(dataset, &(shoal_sample_t){0}, (void *[]){ids, labels}));
  assert_memory_equal(ids, ((int32_t[]){2, 3, 0, 4, 1, 2}), sizeof ids);
  assert_int_equal(labels[5], 4);
  shoal_dataset_free(dataset);
}

static void test_pieces(void **state) {
  (void)state;
  enum { SIZE = 2500000 };
  char *text = malloc(SIZE);
  unsigned seed = 1;
  for (int i = 0; i < SIZE; ++i) {
    seed = seed * 1664525u + 1013904223u;
    text[i] = "aab "[seed >> 30];
  }
  const char *path = write_file("long.txt", text, SIZE), *tokenizer = write_tokenizer();
  shoal_tokenizer_t *whole;
  const int32_t *expected;
  int64_t count;
  assert_ok(shoal_tokenizer_open(tokenizer, NULL, &whole));
  assert_ok(shoal_tokenizer_encode(whole, text, SIZE, NULL, &expected, &count));
  shoal_dataset_t *dataset = open_text(path, tokenizer, count - 1);
  int32_t *ids = malloc((size_t)count * sizeof *ids);
  assert_ok(shoal_dataset_read(dataset, &(shoal_sample_t){0}, (void *[]){ids, NULL}));
  assert_memory_equal(ids, expected, (size_t)(count - 1) * sizeof *ids);
  shoal_dataset_free(dataset);
  shoal_tokenizer_free(whole);
  free(ids);
  free(text);
}

// The tokenizer "bytes" gives what no tokenizer gives.
static void test_bytes(void **state) {
  (void)state;
  const char *path = write_file("t.txt", "The quick brown fox", 19);
  shoal_dataset_t *plain = open_text(path, NULL, 4), *same = open_text(path, "bytes", 4);
  assert_int_equal(shoal_dataset_count(plain), shoal_dataset_count(same));
  for (int64_t i = 0; i < shoal_dataset_count(plain); ++i) {
    int32_t a[2][4], b[2][4];
    const shoal_sample_t sample = {.index = i, .varied = true, .seed = 3};
    assert_ok(shoal_dataset_read(plain, &sample, (void *[]){a[0], a[1]}));
    assert_ok(shoal_dataset_read(same, &sample, (void *[]){b[0], b[1]}));
    assert_memory_equal(a, b, sizeof a);
  }
  shoal_dataset_free(plain);
  shoal_dataset_free(same);
  assert_error(NOT_FOUND, "no_such",
               shoal_dataset_open(
                   path, &(shoal_dataset_options_t){.tokenizer = "/no_such", .length = 4}, &same));
}

static void test_allocations(void **state) {
  (void)state;
  const char *tokenizer = write_tokenizer();
  const char *path = write_file("t.txt", "ab ab a b ab", 12);
  assert_allocations(path, (shoal_dataset_options_t){.tokenizer = tokenizer, .length = 3});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_pieces),
      cmocka_unit_test(test_bytes),
      cmocka_unit_test(test_allocations),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

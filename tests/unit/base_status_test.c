// Statuses are values: created, annotated, cloned, freed, also when memory is short.
#include "base/status.h"

#include "unit/unit.h"

static void create_and_annotate(void **state) {
  (void)state;
  shoal_status_t status = SHOAL_ERROR_HINT(NOT_FOUND, "try 'b'", "no mesh '%s'", "a");
  int line = __LINE__ - 1;
  assert_int_equal(shoal_status_code(status), SHOAL_NOT_FOUND);
  assert_string_equal(shoal_status_message(status), "no mesh 'a'");
  assert_string_equal(shoal_status_hint(status), "try 'b'");
  assert_string_equal(shoal_status_file(status), "tests/unit/base_status_test.c");
  assert_int_equal(shoal_status_line(status), line);
  status = shoal_status_annotatef(status, "while lowering node %d", 12);
  status = shoal_status_annotate(status, "rank 3");
  assert_string_equal(shoal_status_message(status), "rank 3: while lowering node 12: no mesh 'a'");
  shoal_status_t clone = shoal_status_clone(status);
  shoal_status_free(status);
  assert_string_equal(shoal_status_message(clone), "rank 3: while lowering node 12: no mesh 'a'");
  assert_string_equal(shoal_status_hint(clone), "try 'b'");
  shoal_status_free(clone);
}

static void long_messages_are_whole(void **state) {
  (void)state;
  char text[2000];
  memset(text, 'x', sizeof text);
  text[sizeof text - 1] = 0;
  shoal_status_t status = SHOAL_ERROR(IO, "%s", text);
  assert_string_equal(shoal_status_message(status), text);
  status = shoal_status_annotatef(status, "%s", text);
  assert_int_equal(strlen(shoal_status_message(status)), 2 * (sizeof text - 1) + 2);
  shoal_status_free(status);
}

static void printed(shoal_status_t status, char *buffer, size_t capacity) {
  FILE *file = fmemopen(buffer, capacity, "w");
  assert_non_null(file);
  shoal_status_print(status, file);
  assert_int_equal(fclose(file), 0);
}

static void prints_place_and_hint(void **state) {
  (void)state;
  char text[200] = "";
  shoal_status_t status = shoal_status_create(SHOAL_NOT_FOUND, "mlp.c", 17, "no mesh", "try 'b'");
  printed(status, text, sizeof text);
  assert_string_equal(text, "shoal: error: NOT_FOUND: no mesh\n  at mlp.c:17\nhint: try 'b'\n");
  shoal_status_free(status);
  memset(text, 0, sizeof text);
  status = shoal_status_create(SHOAL_IO, NULL, 0, "full", NULL);
  printed(status, text, sizeof text);
  assert_string_equal(text, "shoal: error: IO: full\n");
  shoal_status_free(status);
  shoal_status_print(NULL, NULL);
}

static void ok_is_null(void **state) {
  (void)state;
  assert_int_equal(shoal_status_code(NULL), SHOAL_OK);
  assert_string_equal(shoal_status_message(NULL), "");
  assert_null(shoal_status_annotate(NULL, "x"));
  assert_null(shoal_status_annotatef(NULL, "%d", 1));
  assert_null(shoal_status_clone(NULL));
  shoal_status_free(NULL);
  assert_string_equal(shoal_code_name(SHOAL_MISMATCH), "MISMATCH");
  assert_int_equal(shoal_code_exit(SHOAL_OK), 0);
  assert_int_equal(shoal_code_exit(SHOAL_INTERNAL), 70);
}

static void silence_keeps_the_code(void **state) {
  (void)state;
  assert_false(shoal_status_silence(true));
  assert_true(shoal_status_is_silent());
  shoal_status_t status = SHOAL_ERROR_HINT(NOT_FOUND, "try 'b'", "no mesh '%s'", "a");
  status = shoal_status_annotatef(status, "while lowering node %d", 12);
  assert_int_equal(shoal_status_code(status), SHOAL_NOT_FOUND);
  assert_string_equal(shoal_status_message(status), "a named thing does not exist");
  assert_true(shoal_status_silence(false));
  shoal_status_t clone = shoal_status_clone(status);
  status = shoal_status_annotate(status, "rank 3");  // the thread speaks again
  assert_string_equal(shoal_status_message(status), "rank 3: a named thing does not exist");
  assert_int_equal(shoal_status_code(clone), SHOAL_NOT_FOUND);
  shoal_status_free(clone);
  shoal_status_free(status);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(create_and_annotate),    cmocka_unit_test(long_messages_are_whole),
      cmocka_unit_test(prints_place_and_hint),  cmocka_unit_test(ok_is_null),
      cmocka_unit_test(silence_keeps_the_code),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

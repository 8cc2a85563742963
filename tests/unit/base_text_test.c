// Text, scanner, JSON: everything that is printed parses back; errors name the place.
#include "base/json.h"
#include "base/text.h"

#include <math.h>

#include "base/philox.h"
#include "unit/failing.h"

static void text_grows(void **state) {
  (void)state;
  shoal_text_t text;
  shoal_text_init(shoal_allocator_system(), &text);
  assert_string_equal(shoal_text_string(&text), "");
  for (int i = 0; i < 1000; ++i) shoal_text_addf(&text, "%03d", i);
  assert_int_equal(text.length, 3000);
  assert_memory_equal(text.data + 2991, "997998999", 10);
  assert_ok(shoal_text_status(&text));
  shoal_text_deinit(&text);
}

static void doubles_round_trip(void **state) {
  (void)state;
  static const double special[] = {0,        -0.0,      0.1,       1,          1e300, -2.5,
                                   INFINITY, -INFINITY, 0x1p-1074, 0.1f,       1e22,  1.0 / 3,
                                   123456,   1e15,      1e17,      0x1.8p1023, 5e-324};
  shoal_text_t text;
  shoal_text_init(shoal_allocator_system(), &text);
  for (uint64_t i = 0; i < 20000; ++i) {
    double value;
    uint64_t bits = (uint64_t)shoal_philox_word(1, 2, 3, 2 * i) << 32;
    bits |= shoal_philox_word(1, 2, 3, 2 * i + 1);
    memcpy(&value, &bits, sizeof value);
    if (i < sizeof special / sizeof *special) value = special[i];
    text.length = 0;
    shoal_text_add_double(&text, value);
    shoal_scan_t scan;
    double back;
    shoal_scan_init("t", shoal_text_string(&text), &scan);
    assert_true(shoal_scan_double(&scan, &back) && shoal_scan_at_end(&scan));
    assert_true(isnan(value) ? isnan(back) : memcmp(&back, &value, sizeof back) == 0);
  }
  text.length = 0;
  shoal_text_add_double(&text, 0.1);
  assert_string_equal(text.data, "0.1");
  shoal_text_deinit(&text);
}

static void quotes_round_trip(void **state) {
  (void)state;
  const char *string = "a \"quoted\" \\ line\n\ttab \x01\x7f und Umläute";
  shoal_text_t text;
  shoal_text_init(shoal_allocator_system(), &text);
  shoal_text_add_quoted(&text, string);
  assert_null(strchr(text.data, '\n'));
  shoal_scan_t scan;
  char buffer[100];
  shoal_scan_init("t", text.data, &scan);
  assert_true(shoal_scan_quoted(&scan, buffer, sizeof buffer) && shoal_scan_at_end(&scan));
  assert_string_equal(buffer, string);
  shoal_scan_init("t", text.data, &scan);
  assert_false(shoal_scan_quoted(&scan, buffer, 10));
  assert_error(INVALID_ARGUMENT, "longer than 9", shoal_scan_status(&scan));
  shoal_text_deinit(&text);
}

static void scanner_reads(void **state) {
  (void)state;
  shoal_scan_t scan;
  char word[32];
  int64_t value;
  double real;
  shoal_scan_init("t", "  block0/fc1#adamw.m = -42, v12 1e-3 # rest\n next", &scan);
  scan.comments = true;
  assert_true(shoal_scan_word(&scan, word, sizeof word));
  assert_string_equal(word, "block0/fc1#adamw.m");
  assert_true(shoal_scan_expect(&scan, "=") && shoal_scan_int(&scan, &value));
  assert_int_equal(value, -42);
  assert_false(shoal_scan_accept(&scan, ";"));
  assert_true(shoal_scan_accept(&scan, ",") && shoal_scan_accept(&scan, "v"));
  assert_true(shoal_scan_int(&scan, &value) && value == 12);
  assert_true(shoal_scan_double(&scan, &real) && real == 1e-3);
  assert_false(shoal_scan_peek(&scan, "ne"));
  assert_true(shoal_scan_peek(&scan, "next") && shoal_scan_expect(&scan, "next"));
  assert_true(shoal_scan_at_end(&scan));
  assert_ok(shoal_scan_status(&scan));

  shoal_scan_init("t", "a # comment\nb", &scan);
  scan.lines = scan.comments = true;
  assert_true(shoal_scan_expect(&scan, "a") && shoal_scan_expect(&scan, "\n"));
  assert_true(shoal_scan_expect(&scan, "b") && shoal_scan_at_end(&scan));
}

static void scanner_keeps_the_first_error(void **state) {
  (void)state;
  shoal_scan_t scan;
  int64_t value;
  char word[4];
  shoal_scan_init("plan", "a\n  b 7", &scan);
  assert_true(shoal_scan_accept(&scan, "a"));
  assert_false(shoal_scan_expect(&scan, "("));
  assert_false(shoal_scan_accept(&scan, "b"));
  assert_false(shoal_scan_int(&scan, &value));
  assert_error(INVALID_ARGUMENT, "plan:2:3: expected '(', found 'b'", shoal_scan_status(&scan));
  static const struct {
    const char *text, *message;
  } ints[] = {{"x", "t:1:1: expected a whole number, found 'x'"},
              {"", "expected a whole number, found the end"},
              {"99999999999999999999", "64 bits"},
              {"-", "whole number"}};
  for (size_t i = 0; i < sizeof ints / sizeof *ints; ++i) {
    shoal_scan_init("t", ints[i].text, &scan);
    assert_false(shoal_scan_int(&scan, &value));
    assert_error(INVALID_ARGUMENT, ints[i].message, shoal_scan_status(&scan));
  }
  shoal_scan_init("t", "abcd", &scan);
  assert_false(shoal_scan_word(&scan, word, sizeof word));
  assert_error(INVALID_ARGUMENT, "longer than 3", shoal_scan_status(&scan));
  shoal_scan_init("t", "\"abc", &scan);
  assert_false(shoal_scan_quoted(&scan, word, sizeof word));
  assert_error(INVALID_ARGUMENT, "closing quote", shoal_scan_status(&scan));
  shoal_scan_init("t", "\"\\q\"", &scan);
  assert_false(shoal_scan_quoted(&scan, word, sizeof word));
  assert_error(INVALID_ARGUMENT, "escape", shoal_scan_status(&scan));
}

static void nearest(void **state) {
  (void)state;
  static const char *const words[] = {"data", "tensor", "pipeline", "lr"};
  assert_string_equal(shoal_text_nearest("tensr", words, 4), "tensor");
  assert_string_equal(shoal_text_nearest("pipelien", words, 4), "pipeline");
  assert_string_equal(shoal_text_nearest("l", words, 4), "lr");
  assert_null(shoal_text_nearest("zebra", words, 4));
}

static void json_round_trips(void **state) {
  (void)state;
  shoal_text_t text;
  shoal_text_init(shoal_allocator_system(), &text);
  shoal_json_writer_t w;
  shoal_json_writer_init(&text, &w);
  shoal_json_begin(&w, NULL, '{', false);
  shoal_json_int(&w, "shoal_plan", 1);
  shoal_json_string(&w, "name", "a \"b\"\n\x02 \\ ü");
  shoal_json_real(&w, "lr", 1.0);
  shoal_json_real(&w, "top", INFINITY);
  shoal_json_bool(&w, "exact", true);
  shoal_json_begin(&w, "empty", '[', false);
  shoal_json_end(&w, ']');
  shoal_json_begin(&w, "meshes", '[', false);
  shoal_json_begin(&w, NULL, '{', true);
  shoal_json_string(&w, "name", "b");
  shoal_json_begin(&w, "ranks", '[', false);
  shoal_json_int(&w, NULL, 2);
  shoal_json_int(&w, NULL, 3);
  shoal_json_end(&w, ']');
  shoal_json_end(&w, '}');
  shoal_json_end(&w, ']');
  shoal_json_end(&w, '}');
  assert_string_equal(text.data,
                      "{\n"
                      "  \"shoal_plan\": 1,\n"
                      "  \"name\": \"a \\\"b\\\"\\n\\u0002 \\\\ ü\",\n"
                      "  \"lr\": 1.0,\n"
                      "  \"top\": \"inf\",\n"
                      "  \"exact\": true,\n"
                      "  \"empty\": [],\n"
                      "  \"meshes\": [\n"
                      "    {\"name\": \"b\", \"ranks\": [2, 3]}\n"
                      "  ]\n"
                      "}\n");
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const shoal_json_t *root, *meshes, *ranks;
  assert_ok(shoal_json_parse("plan", text.data, &arena, &root));
  int64_t integer;
  double real;
  const char *string;
  assert_ok(shoal_json_get_int(root, "shoal_plan", &integer));
  assert_int_equal(integer, 1);
  assert_ok(shoal_json_get_real(root, "shoal_plan", &real));
  assert_true(real == 1);
  assert_ok(shoal_json_get_real(root, "top", &real));
  assert_true(isinf(real));
  assert_ok(shoal_json_get_string(root, "name", &string));
  assert_string_equal(string, "a \"b\"\n\x02 \\ ü");
  assert_ok(shoal_json_get_child(root, "meshes", SHOAL_JSON_ARRAY, &meshes));
  assert_ok(shoal_json_get_child(&meshes->children[0], "ranks", SHOAL_JSON_ARRAY, &ranks));
  assert_int_equal(ranks->children[1].integer, 3);
  assert_string_equal(ranks->children[1].path, "plan.meshes[0].ranks[1]");
  assert_string_equal(root->children[4].key, "exact");  // file order

  assert_error(INVALID_ARGUMENT, "plan: the key 'nam' is missing",
               shoal_json_get_string(root, "nam", &string));
  assert_error(INVALID_ARGUMENT, "plan.name: expected a whole number, found a string",
               shoal_json_get_int(root, "name", &integer));
  static const char *const keys[] = {"name", "rank"};
  assert_error(INVALID_ARGUMENT, "did you mean 'rank'?",
               shoal_json_only(&meshes->children[0], keys, 2));
  assert_error(INVALID_ARGUMENT, "f:2:", shoal_json_parse("f", "{\n\"a\": }", &arena, &root));
  assert_error(INVALID_ARGUMENT, "duplicate",
               shoal_json_parse("f", "{\"a\": 1, \"a\": 2}", &arena, &root));
  shoal_arena_deinit(&arena);
  shoal_text_deinit(&text);
}

static void patterns_in_lists(void **state) {
  (void)state;
  static const struct {
    const char *list;
    size_t length;
  } cases[] = {{"a,b", 1},
               {"", 0},
               {"re:a,b", 4},
               {"re:(a|b){1,3}", 13},
               {"re:[],]x,y", 8},
               {"re:[^],]x,y", 9},
               {"re:a\\(,y", 6},
               {"re:[,", 5},
               {"re:[[:digit:],]x,y", 16},
               {"re:a{1,2},(b,c)", 9},
               {"x{1,2}", 3}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
    assert_int_equal(shoal_pattern_length(cases[i].list), cases[i].length);
  assert_true(shoal_pattern_match("re:(a|b){1,3}", "aba"));
  assert_false(shoal_pattern_match("re:(a|b){1,3}", "abab"));
}

static shoal_status_t parse_json(shoal_allocator_t allocator, void *context) {
  (void)context;
  shoal_arena_t arena;
  shoal_arena_init(allocator, &arena);
  const shoal_json_t *root;
  shoal_status_t status = shoal_json_parse("f", "{\"a\": [1, 2, \"x\"]}", &arena, &root);
  shoal_arena_deinit(&arena);
  return status;
}

static void json_survives_short_memory(void **state) {
  (void)state;
  check_failing_allocations(parse_json, NULL, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(text_grows),
      cmocka_unit_test(doubles_round_trip),
      cmocka_unit_test(quotes_round_trip),
      cmocka_unit_test(scanner_reads),
      cmocka_unit_test(scanner_keeps_the_first_error),
      cmocka_unit_test(nearest),
      cmocka_unit_test(patterns_in_lists),
      cmocka_unit_test(json_round_trips),
      cmocka_unit_test(json_survives_short_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

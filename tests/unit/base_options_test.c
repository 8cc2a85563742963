// Option tables: flags, environment, help, hints; and formatted errors.
#include "shoal/options.h"

#include <stdlib.h>

#include "unit/arena.h"

typedef struct options {
  bool fast;
  int64_t batch_size, ranks, memory, threads;
  double lr;
  const char *strategy;
  int format;
} options_t;

static const char *const formats[] = {"text", "json", "html", NULL};
static const shoal_option_t table[] = {
    SHOAL_OPTION(options_t, BOOL, fast, NULL, "go fast", .no_environment = true),
    SHOAL_OPTION(options_t, INT, batch_size, "8", "rows of a batch"),
    SHOAL_OPTION(options_t, INT, ranks, "1", "ranks", .letter = 'n'),
    SHOAL_OPTION(options_t, SIZE, memory, "64M", "bytes to use"),
    SHOAL_OPTION(options_t, INT, threads, "auto", "threads"),
    SHOAL_OPTION(options_t, REAL, lr, "0.001", "learning rate"),
    SHOAL_OPTION(options_t, STRING, strategy, "auto", "how to split", .argument = "NAME"),
    SHOAL_OPTION(options_t, ENUM, format, "text", "how to print", .choices = formats),
};
enum { COUNT = sizeof table / sizeof *table };

static void parses_everything(void **state) {
  (void)state;
  options_t o = {0};
  shoal_words_t words;
  assert_ok(shoal_options_defaults(table, COUNT, &arena, &o));
  assert_true(!o.fast && o.batch_size == 8 && o.memory == 64 << 20 && o.lr == 0.001 && !o.format);
  assert_string_equal(o.strategy, "auto");
  const char *argv[] = {"gpt",  "--fast",    "--batch-size=3", "-n",       "4",    "--memory",
                        "1.5G", "--lr",      "-2e-3",          "--format", "json", "-1",
                        "-",    "--threads", "auto",           "--",       "prog", "--unrelated"};
  assert_ok(
      shoal_options_parse(table, COUNT, sizeof argv / sizeof *argv, argv, &arena, &o, &words));
  assert_true(o.fast && o.batch_size == 3 && o.ranks == 4 && o.memory == 3 << 29 && o.lr == -2e-3);
  assert_int_equal(o.format, 1);
  assert_int_equal(words.count, 5);
  assert_int_equal(words.after_dashes, 3);
  assert_string_equal(words.items[1], "-1");
  assert_string_equal(words.items[4], "--unrelated");
  const char *more[] = {"--no-fast", "--batch_size", "5", "-n7"};
  assert_ok(shoal_options_parse(table, COUNT, 4, more, &arena, &o, &words));
  assert_true(!o.fast && o.batch_size == 5 && o.ranks == 7 && words.after_dashes == 0);
}

// An option of many texts adds one each time.
static void adds_texts(void **state) {
  (void)state;
  static const shoal_option_t many[] = {
      {.name = "word", .kind = SHOAL_OPTION_STRINGS, .offset = 0, .value = "zero", .doc = "words"}};
  shoal_words_t given = {0}, words;
  const char *argv[] = {"--word=one", "--word", "two three"};
  assert_ok(shoal_options_defaults(many, 1, &arena, &given));
  assert_ok(shoal_options_parse(many, 1, 3, argv, &arena, &given, &words));
  assert_int_equal(given.count, 3);
  assert_string_equal(given.items[0], "zero");
  assert_string_equal(given.items[2], "two three");
}

static void refuses_with_a_hint(void **state) {
  (void)state;
  static const struct {
    const char *argv[2], *message;
  } cases[] = {
      {{"--batchsize=1"}, "did you mean '--batch-size'?"},
      {{"--bach-size=1"}, "did you mean '--batch-size'?"},
      {{"--zebra"}, "unknown option '--zebra'"},
      {{"-q"}, "unknown option '-q'"},
      {{"-n"}, "-n needs a value"},
      {{"--lr"}, "--lr needs a value"},
      {{"--lr=fast"}, "--lr: 'fast' is not a number"},
      {{"--batch-size=3x"}, "'3x' is not a whole number"},
      {{"--batch-size=99999999999999999999"}, "not a whole number"},
      {{"--batch-size=auto"}, "'auto' is not a whole number"},
      {{"--memory=3Q"}, "not a size such as"},
      {{"--memory=-3"}, "not a size such as"},
      {{"--fast=maybe"}, "not true or false"},
      {{"--no-lr"}, "unknown option '--no-lr'"},
      {{"--format", "jsn"}, "did you mean 'json'?"},
      {{"--format", "pdf"}, "is not one of text, json, html"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    options_t o = {0};
    shoal_words_t words;
    assert_error(INVALID_ARGUMENT, cases[i].message,
                 shoal_options_parse(table, COUNT, cases[i].argv[1] ? 2 : 1, cases[i].argv, &arena,
                                     &o, &words));
  }
}

static void environment_and_names(void **state) {
  (void)state;
  options_t o = {0};
  setenv("SHOAL_BATCH_SIZE", "12", 1);
  setenv("SHOAL_STRATEGY", "tensor", 1);
  assert_ok(shoal_options_environment(table, COUNT, &arena, &o));
  assert_int_equal(o.batch_size, 12);
  assert_string_equal(o.strategy, "tensor");
  setenv("SHOAL_BATCH_SIZE", "many", 1);
  assert_error(INVALID_ARGUMENT, "SHOAL_BATCH_SIZE: 'many'",
               shoal_options_environment(table, COUNT, &arena, &o));
  unsetenv("SHOAL_BATCH_SIZE");
  unsetenv("SHOAL_STRATEGY");
  assert_ok(shoal_options_set(table, COUNT, "lr", "0.5", "config.json", &arena, &o));
  assert_true(o.lr == 0.5);
  assert_error(INVALID_ARGUMENT, "did you mean 'lr'?",
               shoal_options_set(table, COUNT, "l", "1", NULL, &arena, &o));
}

static void sizes(void **state) {
  (void)state;
  int64_t bytes;
  assert_true(shoal_size_parse("0", &bytes) && bytes == 0);
  assert_true(shoal_size_parse("2KiB", &bytes) && bytes == 2048);
  assert_true(shoal_size_parse("3m", &bytes) && bytes == 3 << 20);
  assert_true(shoal_size_parse("1T", &bytes) && bytes == INT64_C(1) << 40);
  assert_true(shoal_size_parse("100B", &bytes) && bytes == 100);
  assert_false(shoal_size_parse("1.3", &bytes));
  assert_false(shoal_size_parse("", &bytes));
  assert_false(shoal_size_parse("9999999999T", &bytes));
}

static void help_names_everything(void **state) {
  (void)state;
  shoal_arena_t *lines_of;
  const char *text;
  assert_ok(shoal_arena_create(shoal_allocator_system(), &lines_of));
  assert_ok(shoal_options_help(table, COUNT, lines_of, &text));
  assert_non_null(strstr(text, "  -n, --ranks N "));
  assert_non_null(strstr(text, "rows of a batch (default 8)\n"));
  assert_non_null(strstr(text, "--format text|json|html"));
  assert_non_null(strstr(text, "--strategy NAME "));
  assert_non_null(
      strstr(text, "\nSHOAL_NAME in the environment sets --name too, but for --fast.\n"));
  shoal_arena_free(lines_of);
}

// What is hidden is taken all the same; its heading stands above the next one that is listed.
static void help_hides_and_wraps(void **state) {
  (void)state;
  static const char doc[] =
      "aaaaaaaaa bbbbbbbbb ccccccccc ddddddddd eeeeeeeee fffffffff ggggggggg hh";
  const shoal_option_t rows[] = {
      {.name = "first", .kind = SHOAL_OPTION_INT, .hidden = true, .heading = "Head", .doc = "one"},
      {.name = "second", .kind = SHOAL_OPTION_INT, .offset = 8, .doc = doc}};
  int64_t given[2] = {0};
  shoal_words_t words;
  const char *text, *const argv[] = {"--first", "3"};
  assert_ok(shoal_options_help(rows, 2, &arena, &text));
  assert_null(strstr(text, "--first"));
  assert_memory_equal(text, "Head:\n      --second N ", 22);
  assert_non_null(strstr(text, " ggggggggg\n                              hh\n"));
  assert_ok(shoal_options_parse(rows, 2, 2, argv, &arena, given, &words));
  assert_int_equal(given[0], 3);
}

static void did_you_mean(void **state) {
  (void)state;
  const char *const names[] = {"ranks", "batch_size"};
  shoal_hint_t hint;
  assert_string_equal(shoal_did_you_mean("rank", names, 2, NULL, &hint), "did you mean 'ranks'?");
  assert_string_equal(shoal_did_you_mean("colour", names, 2, "see --help", &hint), "see --help");
  assert_null(shoal_did_you_mean("colour", names, 2, NULL, &hint));
}

// What users write: the macros of shoal/base.h, which cut a message that is too long.
static shoal_status_t wrong_axis(const char *name) {
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "name another", "axis '%s' has size %d", name, 0);
}

static void errors_are_formatted(void **state) {
  (void)state;
  shoal_status_t status = wrong_axis("data");
  assert_string_equal(shoal_status_message(status), "axis 'data' has size 0");
  assert_string_equal(shoal_status_hint(status), "name another");
  assert_non_null(strstr(shoal_status_file(status), "base_options_test.c"));
  shoal_status_free(status);
  static char name[3000];
  memset(name, 'x', sizeof name - 1);
  status = wrong_axis(name);
  assert_int_equal(shoal_status_code(status), SHOAL_INVALID_ARGUMENT);
  assert_int_equal(strlen(shoal_status_message(status)), 1023);
  shoal_status_free(status);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parses_everything),
      cmocka_unit_test(adds_texts),
      cmocka_unit_test(refuses_with_a_hint),
      cmocka_unit_test(environment_and_names),
      cmocka_unit_test(sizes),
      cmocka_unit_test(help_names_everything),
      cmocka_unit_test(help_hides_and_wraps),
      cmocka_unit_test(did_you_mean),
      cmocka_unit_test(errors_are_formatted),
  };
  return cmocka_run_group_tests(tests, setup_arena, teardown_arena);
}

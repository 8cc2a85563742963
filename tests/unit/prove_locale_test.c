// links: all
//
// A program that set a locale in which numbers look otherwise: German writes a decimal comma,
// Pashto one of two bytes, Turkish has another capital i. What Shoal prints must read as
// everywhere, and parse back. The locales are made here (localedef), in a folder of the test.
#include <locale.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "base/yaml.h"
#include "shoal/options.h"
#include "shoal/shoal.h"
#include "unit/zoo_sizes.h"

static const char *const locales[] = {"de_DE", "ps_AF", "tr_TR"};
static char folder[] = "/tmp/shoal_locale_XXXXXX";

// The C library finds them by LOCPATH, which setlocale reads.
static int make_locales(void **state) {
  (void)state;
  if (!mkdtemp(folder) || setenv("LOCPATH", folder, 1) != 0) return -1;
  for (size_t i = 0; i < sizeof locales / sizeof locales[0]; ++i) {
    char command[300];
    snprintf(command, sizeof command, "localedef -c -i %s -f UTF-8 %s/%s.UTF-8 2>%s/log",
             locales[i], folder, locales[i], folder);
    const int code = system(command);
    snprintf(command, sizeof command, "%s.UTF-8", locales[i]);
    if (setlocale(LC_ALL, command)) continue;
    print_error("localedef ended with %d and there is no %s: tools/bootstrap installs 'locales'\n",
                code, command);
    return -1;
  }
  return 0;
}

static int remove_locales(void **state) {
  (void)state;
  char command[100];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

// `i` counts the locales: false behind the last.
static bool next_locale(size_t *i) {
  char name[40];
  if (*i == sizeof locales / sizeof locales[0]) return setlocale(LC_ALL, "C") == NULL;
  snprintf(name, sizeof name, "%s.UTF-8", locales[(*i)++]);
  assert_non_null(setlocale(LC_ALL, name));
  return true;
}

static void test_base(void **state) {
  (void)state;
  for (size_t l = 0; next_locale(&l);) {
    char plain[32];
    snprintf(plain, sizeof plain, "%.2f", 2.5);
    if (strcmp(locales[l - 1], "de_DE") == 0) assert_string_equal(plain, "2,50");
    shoal_arena_t arena;
    shoal_arena_init(shoal_allocator_system(), &arena);
    shoal_text_t text;
    shoal_text_init(shoal_allocator_system(), &text);
    shoal_text_add_double(&text, 0.1);
    shoal_text_addf(&text, " %.2f", 2.5);
    assert_string_equal(shoal_text_string(&text), "0.1 2.50");
    shoal_scan_t scan;
    double real = 0;
    shoal_scan_init("t", shoal_text_string(&text), &scan);
    assert_true(shoal_scan_double(&scan, &real) && real == 0.1);
    assert_true(shoal_scan_double(&scan, &real) && real == 2.5);
    shoal_text_deinit(&text);
    assert_string_equal(shoal_arena_printf(&arena, "%g", 1.5), "1.5");
    assert_error(MISMATCH, "is 1.5", SHOAL_ERROR(MISMATCH, "is %g", 1.5));

    const shoal_json_t *tree;
    assert_ok(shoal_json_parse("j", "{\"a\": 1.25e-3}", &arena, &tree));
    assert_ok(shoal_json_get_real(tree, "a", &real));
    assert_true(real == 1.25e-3);
    assert_ok(shoal_yaml_parse("y", "a: 0.5\n", &arena, &tree));
    assert_ok(shoal_json_get_real(tree, "a", &real));
    assert_true(real == 0.5);

    struct options {
      double limit;
      int64_t bytes;
    } options = {0};
    static const shoal_option_t table[] = {
        SHOAL_OPTION(struct options, REAL, limit, "0.25", "a number"),
        SHOAL_OPTION(struct options, SIZE, bytes, "1.5K", "a size")};
    assert_int_equal(setenv("SHOAL_LIMIT", "0.75", 1), 0);
    assert_ok(shoal_options_defaults(table, 2, &arena, &options));
    assert_true(options.limit == 0.25);
    assert_ok(shoal_options_environment(table, 2, &arena, &options));
    assert_int_equal(unsetenv("SHOAL_LIMIT"), 0);
    assert_true(options.limit == 0.75);
    assert_int_equal(options.bytes, 1536);
    shoal_arena_deinit(&arena);
  }
}

static shoal_model_t *make_model(void) {
  shoal_model_t *model;
  assert_ok(shoal_model_create(NULL, &model));
  add_mlp(model, &(mlp_sizes_t){.batch = 4,
                                .in_features = 6,
                                .hidden = 4,
                                .classes = 3,
                                .dtype = SHOAL_F64,
                                .dropout = 0.25,
                                .lr = 0.015,
                                .eps = 1e-3});
  assert_ok(shoal_model_status(model));
  return model;
}

// A model reads the same in every locale, parses back, and equals one device: plans and programs go
// through their texts on the way.
static void test_model(void **state) {
  (void)state;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_model_t *model = make_model();
  const char *plain, *text;
  assert_ok(shoal_model_print(model, &arena, &plain));
  for (size_t l = 0; next_locale(&l);) {
    assert_ok(shoal_model_print(model, &arena, &text));
    assert_string_equal(text, plain);
    shoal_model_t *parsed;
    assert_ok(shoal_model_parse("printed", text, NULL, &parsed));
    assert_ok(shoal_model_print(parsed, &arena, &text));
    assert_string_equal(text, plain);
    shoal_model_free(parsed);
    const shoal_parallelize_options_t options = {.strategy = "tensor"};
    const shoal_check_how_t how = {.ranks = 2};
    assert_ok(shoal_check(model, &options, &how, NULL));
  }
  shoal_model_free(model);
  shoal_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_base), cmocka_unit_test(test_model)};
  return cmocka_run_group_tests(tests, make_locales, remove_locales);
}

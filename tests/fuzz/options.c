// Command lines (one word a line), numbers, sizes and types; and the settings of communication that
// stand in variables.
// mutations: 20000
#include "shoal/options.h"
#include "comm/backends/local/table.h"
#include "fuzz.h"

enum { MOST_WORDS = 32 };

typedef struct settings {
  bool fast, help;
  int64_t steps, memory;
  double rate;
  const char *name;
  int format;
} settings_t;

static const char *const formats[] = {"text", "json", NULL};
static const shoal_option_t table[] = {
    SHOAL_OPTION(settings_t, BOOL, fast, NULL, "go fast", .letter = 'f'),
    SHOAL_OPTION(settings_t, INT, steps, "10", "how many", .letter = 'n'),
    SHOAL_OPTION(settings_t, SIZE, memory, "auto", "how much"),
    SHOAL_OPTION(settings_t, REAL, rate, "0.5", "how fast"),
    SHOAL_OPTION(settings_t, STRING, name, NULL, "of what"),
    SHOAL_OPTION(settings_t, ENUM, format, "text", "how", .choices = formats),
    SHOAL_OPTION(settings_t, BOOL, help, NULL, "this list"),
};
enum { COUNT = sizeof table / sizeof *table };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  shoal_arena_t *arena = fuzz_arena();
  char *text = fuzz_text(data, size, arena), *whole = fuzz_text(data, size, arena);
  const char *words[MOST_WORDS];
  int count = 0;
  while (*text && count < MOST_WORDS) {
    char *next = fuzz_cut_line(text);
    words[count++] = text;
    text = next;
  }
  settings_t settings = {0};
  shoal_words_t rest;
  fuzz_must(shoal_options_defaults(table, COUNT, arena, &settings));
  if (fuzz_ok(shoal_options_parse(table, COUNT, count, words, arena, &settings, &rest))) {
    FUZZ_CHECK(rest.count <= count && rest.after_dashes <= rest.count, "words");
    FUZZ_CHECK(settings.format == 0 || settings.format == 1, "format %d", settings.format);
  }
  int64_t bytes;
  shoal_dtype_t dtype;
  for (int i = 0; i < count; ++i) {
    if (shoal_size_parse(words[i], &bytes)) FUZZ_CHECK(bytes >= 0, "%s", words[i]);
    if (shoal_dtype_parse(words[i], &dtype))
      FUZZ_CHECK(strcmp(shoal_dtype_name(dtype), words[i]) == 0, "%s", words[i]);
  }
  shoal_local_table_t algorithms;
  fuzz_ok(shoal_local_table_init(whole, &algorithms));
  shoal_arena_free(arena);
  return 0;
}

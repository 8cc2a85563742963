// Option tables: see options.h. Values go through one function whatever their source.
#include "shoal/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/locale.h"
#include "base/status.h"
#include "base/text.h"

enum { NAME_SIZE = 64 };

// Names are compared with '-' read as '_'.
static bool same_name(const char *name, const char *flag, size_t length) {
  if (strlen(name) != length) return false;
  for (size_t i = 0; i < length; ++i) {
    if (name[i] != (flag[i] == '-' ? '_' : flag[i])) return false;
  }
  return true;
}

static const shoal_option_t *find(const shoal_option_t *table, int64_t count, const char *name,
                                  size_t length) {
  for (int64_t i = 0; i < count; ++i) {
    if (same_name(table[i].name, name, length)) return &table[i];
  }
  return NULL;
}

static void flag_name(const char *name, char out_flag[NAME_SIZE]) {
  snprintf(out_flag, NAME_SIZE, "--%s", name);
  for (char *at = out_flag; *at; ++at) {
    if (*at == '_') *at = '-';
  }
}

static bool has_environment(const shoal_option_t *option) {
  return !option->no_environment && strcmp(option->name, "help") != 0;
}

static void environment_name(const char *name, char out_variable[NAME_SIZE]) {
  snprintf(out_variable, NAME_SIZE, "SHOAL_%s", name);
  for (char *at = out_variable; *at; ++at) *at = shoal_upper(*at);
}

bool shoal_size_parse(const char *text, int64_t *out_bytes) {
  static const char units[] = "KMGT";
  if (!isdigit((unsigned char)text[0])) return false;
  char *end;
  double value = shoal_parse_double(text, &end);
  const char *unit = *end ? strchr(units, shoal_upper(*end)) : NULL;
  if (unit) {
    value = ldexp(value, 10 * (int)(unit - units + 1));
    ++end;
  }
  if (end[0] == 'i' && end[1] == 'B' && unit) {
    end += 2;
  } else if (end[0] == 'B') {
    ++end;
  }
  if (*end || !(value < 0x1p62) || value != floor(value)) return false;
  *out_bytes = (int64_t)value;
  return true;
}

// ---- one value ----------------------------------------------------------------------------------

static bool parse_bool(const char *text, bool *out_value) {
  static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
  for (int i = 0; i < 8; ++i) {
    if (strcmp(text, words[i]) == 0) {
      *out_value = i & 1;
      return true;
    }
  }
  return false;
}

static bool parse_int(const char *text, int64_t *out_value) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (end == text || *end || errno) return false;
  *out_value = value;
  return true;
}

static bool parse_real(const char *text, double *out_value) {
  char *end;
  double value = shoal_parse_double(text, &end);
  if (end == text || *end) return false;
  *out_value = value;
  return true;
}

static const char *kind_words[] = {"true or false", "a whole number",           "a number",
                                   "a text",        "a size such as 64M or 2G", "one of",
                                   "a text"};

static shoal_status_t bad_choice(const shoal_option_t *option, const char *value,
                                 const char *from) {
  char list[300] = "";
  shoal_hint_t hint;
  int64_t count = 0;
  size_t used = 0;
  for (; option->choices[count]; ++count) {
    used += (size_t)snprintf(list + used, used < sizeof list ? sizeof list - used : 0, "%s%s",
                             count ? ", " : "", option->choices[count]);
    if (used >= sizeof list) used = sizeof list - 1;
  }
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                          shoal_did_you_mean(value, option->choices, count, NULL, &hint),
                          "%s: '%s' is not one of %s", from, value, list);
}

static bool is_positive(shoal_option_kind_t kind, const void *field) {
  return kind == SHOAL_OPTION_REAL ? *(const double *)field > 0 : *(const int64_t *)field > 0;
}

static shoal_status_t set(const shoal_option_t *option, const char *value, const char *from,
                          shoal_arena_t *arena, void *options) {
  void *field = (char *)options + option->offset;
  bool is_auto = option->value && strcmp(option->value, "auto") == 0 && strcmp(value, "auto") == 0;
  bool good = true;
  switch (option->kind) {
    case SHOAL_OPTION_BOOL:
      good = parse_bool(value, field);
      break;
    case SHOAL_OPTION_INT:
    case SHOAL_OPTION_SIZE:
      if (is_auto) {
        *(int64_t *)field = 0;
      } else {
        good = option->kind == SHOAL_OPTION_INT ? parse_int(value, field)
                                                : shoal_size_parse(value, field);
      }
      break;
    case SHOAL_OPTION_REAL:
      if (is_auto) {
        *(double *)field = 0;
      } else {
        good = parse_real(value, field);
      }
      break;
    case SHOAL_OPTION_STRING: {
      const char *copy = shoal_arena_strdup(arena, value);
      if (!copy) return SHOAL_OOM();
      *(const char **)field = copy;
      break;
    }
    case SHOAL_OPTION_STRINGS: {
      shoal_words_t *words = field;
      const char **items = SHOAL_NEW(arena, const char *, words->count + 1);
      const char *copy = shoal_arena_strdup(arena, value);
      if (!items || !copy) return SHOAL_OOM();
      if (words->count > 0) memcpy(items, words->items, (size_t)words->count * sizeof *items);
      items[words->count] = copy;
      *words = (shoal_words_t){items, words->count + 1, words->count + 1};
      break;
    }
    case SHOAL_OPTION_ENUM: {
      int choice = 0;
      while (option->choices[choice] && strcmp(option->choices[choice], value) != 0) ++choice;
      if (!option->choices[choice]) return bad_choice(option, value, from);
      *(int *)field = choice;
      break;
    }
  }
  if (!good)
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s: '%s' is not %s", from, value,
                       kind_words[option->kind]);
  if (option->positive && !is_auto && !is_positive(option->kind, field))
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s: '%s' is not above zero", from, value);
  return NULL;
}

// ---- sources ------------------------------------------------------------------------------------

shoal_status_t shoal_options_defaults(const shoal_option_t *table, int64_t count,
                                      shoal_arena_t *arena, void *out_options) {
  for (int64_t i = 0; i < count; ++i) {
    if (!table[i].value) continue;
    SHOAL_RETURN_IF_ERROR(set(&table[i], table[i].value, table[i].name, arena, out_options));
  }
  return NULL;
}

static shoal_status_t unknown(const shoal_option_t *table, int64_t count, const char *name,
                              const char *from) {
  const char *names[256];
  int64_t known = count < 256 ? count : 256;
  char word[NAME_SIZE], flag[NAME_SIZE], hint[160] = "";
  snprintf(word, sizeof word, "%s", name);
  for (char *at = word; *at; ++at) {
    if (*at == '-') *at = '_';
  }
  for (int64_t i = 0; i < known; ++i) names[i] = table[i].name;
  const char *nearest = shoal_text_nearest(word, names, known);
  if (nearest) {
    flag_name(nearest, flag);
    snprintf(hint, sizeof hint, "did you mean '%s'?", from[0] == '-' ? flag : nearest);
  }
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, hint, "unknown option '%s'", from);
}

shoal_status_t shoal_options_set(const shoal_option_t *table, int64_t count, const char *name,
                                 const char *value, const char *from, shoal_arena_t *arena,
                                 void *options) {
  const shoal_option_t *option = find(table, count, name, strlen(name));
  if (!option) return unknown(table, count, name, from ? from : name);
  return set(option, value, from ? from : name, arena, options);
}

shoal_status_t shoal_options_environment(const shoal_option_t *table, int64_t count,
                                         shoal_arena_t *arena, void *options) {
  for (int64_t i = 0; i < count; ++i) {
    char variable[NAME_SIZE];
    if (!has_environment(&table[i])) continue;
    environment_name(table[i].name, variable);
    const char *value = getenv(variable);
    if (value) SHOAL_RETURN_IF_ERROR(set(&table[i], value, variable, arena, options));
  }
  return NULL;
}

// --name, --name=value, --no-name; *at is argv's index and moves on when the value is the next
// word.
static shoal_status_t parse_long(const shoal_option_t *table, int64_t count, int argc,
                                 const char *const *argv, int *at, shoal_arena_t *arena,
                                 void *options) {
  const char *word = argv[*at], *name = word + 2;
  size_t length = strcspn(name, "=");
  const shoal_option_t *option = find(table, count, name, length);
  char from[NAME_SIZE];
  snprintf(from, sizeof from, "%.*s", (int)(length + 2 < NAME_SIZE ? length + 2 : NAME_SIZE - 1),
           word);
  if (!option && strncmp(name, "no-", 3) == 0 && !name[length]) {
    option = find(table, count, name + 3, length - 3);
    if (option && option->kind == SHOAL_OPTION_BOOL)
      return set(option, "false", from, arena, options);
    option = NULL;
  }
  if (!option) return unknown(table, count, from + 2, from);
  if (name[length] == '=') return set(option, name + length + 1, from, arena, options);
  if (option->kind == SHOAL_OPTION_BOOL) return set(option, "true", from, arena, options);
  if (*at + 1 >= argc) return SHOAL_ERROR(INVALID_ARGUMENT, "%s needs a value", from);
  return set(option, argv[++*at], from, arena, options);
}

static shoal_status_t parse_letter(const shoal_option_t *table, int64_t count, int argc,
                                   const char *const *argv, int *at, shoal_arena_t *arena,
                                   void *options) {
  const char *word = argv[*at];
  char from[3] = {'-', word[1], 0};
  for (int64_t i = 0; i < count; ++i) {
    if (table[i].letter != word[1]) continue;
    if (table[i].kind == SHOAL_OPTION_BOOL) {
      if (word[2]) return SHOAL_ERROR(INVALID_ARGUMENT, "%s takes no value", from);
      return set(&table[i], "true", from, arena, options);
    }
    if (word[2]) return set(&table[i], word + 2, from, arena, options);
    if (*at + 1 >= argc) return SHOAL_ERROR(INVALID_ARGUMENT, "%s needs a value", from);
    return set(&table[i], argv[++*at], from, arena, options);
  }
  return SHOAL_ERROR(INVALID_ARGUMENT, "unknown option '%s'", from);
}

shoal_status_t shoal_options_parse(const shoal_option_t *table, int64_t count, int argc,
                                   const char *const *argv, shoal_arena_t *arena, void *options,
                                   shoal_words_t *out_words) {
  shoal_words_t words = {.items = SHOAL_NEW(arena, const char *, argc + 1), .after_dashes = -1};
  if (!words.items) return SHOAL_OOM();
  for (int at = 0; at < argc; ++at) {
    const char *word = argv[at];
    if (words.after_dashes >= 0 || word[0] != '-' || !word[1] || isdigit((unsigned char)word[1])) {
      words.items[words.count++] = word;  // "-" and negative numbers are words
    } else if (strcmp(word, "--") == 0) {
      words.after_dashes = words.count;
    } else if (word[1] == '-') {
      SHOAL_RETURN_IF_ERROR(parse_long(table, count, argc, argv, &at, arena, options));
    } else {
      SHOAL_RETURN_IF_ERROR(parse_letter(table, count, argc, argv, &at, arena, options));
    }
  }
  if (words.after_dashes < 0) words.after_dashes = words.count;
  *out_words = words;
  return NULL;
}

enum { HELP_LEFT = 26, HELP_DOC = 30, HELP_WIDTH = 100 };  // columns

// Adds the words of a text from `column` on; further lines begin at column `indent`.
static void add_wrapped(const char *words, int column, int indent, shoal_text_t *text) {
  bool first = true;
  for (const char *word = words + strspn(words, " "); *word; word += strspn(word, " ")) {
    const int length = (int)strcspn(word, " ");
    if (!first && column + 1 + length > HELP_WIDTH) {
      shoal_text_addf(text, "\n%*s", indent, "");
      column = indent;
      first = true;
    }
    shoal_text_addf(text, "%s%.*s", first ? "" : " ", length, word);
    column += length + !first;
    first = false;
    word += length;
  }
}

static void add_option(const shoal_option_t *option, shoal_text_t *text) {
  static const char *const kinds[] = {"", "N", "X", "TEXT", "SIZE", "", "TEXT"};
  char flag[NAME_SIZE], left[160], doc[512];
  flag_name(option->name, flag);
  size_t used =
      (size_t)(option->letter ? snprintf(left, sizeof left, "-%c, %s", option->letter, flag)
                              : snprintf(left, sizeof left, "    %s", flag));
  const char *argument = option->argument ? option->argument : kinds[option->kind];
  used +=
      (size_t)snprintf(left + used, sizeof left - used, "%s%s", argument[0] ? " " : "", argument);
  if (option->kind == SHOAL_OPTION_ENUM) {
    for (int c = 0; option->choices[c] && used < sizeof left; ++c) {
      used += (size_t)snprintf(left + used, sizeof left - used, "%s%s", c ? "|" : " ",
                               option->choices[c]);
    }
  }
  shoal_text_addf(text, strlen(left) > HELP_LEFT ? "  %s\n%30s" : "  %-26s  %s", left, "");
  const bool has_default = option->value && option->value[0];
  snprintf(doc, sizeof doc, "%s%s%s%s", option->doc, has_default ? " (default " : "",
           has_default ? option->value : "", has_default ? ")" : "");
  add_wrapped(doc, HELP_DOC, HELP_DOC, text);
  shoal_text_add(text, "\n");
}

// "SHOAL_NAME in the environment sets --name too, but for --watch, --set."
static void add_environment(const shoal_option_t *table, int64_t count, shoal_text_t *text) {
  char line[1024] = "SHOAL_NAME in the environment sets --name too", flag[NAME_SIZE];
  int64_t set = 0, others = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (table[i].hidden || strcmp(table[i].name, "help") == 0) continue;
    ++set;
    if (!table[i].no_environment) continue;
    const size_t used = strlen(line);
    flag_name(table[i].name, flag);
    snprintf(line + used, sizeof line - used, "%s %s", others++ ? "," : ", but for", flag);
  }
  if (set == others) return;
  const size_t used = strlen(line);
  snprintf(line + used, sizeof line - used, ".");
  shoal_text_add(text, "\n");
  add_wrapped(line, 0, 0, text);
  shoal_text_add(text, "\n");
}

static void add_help(const shoal_option_t *table, int64_t count, shoal_text_t *text) {
  const char *heading = NULL;
  bool any = false;
  for (int64_t i = 0; i < count; ++i) {
    if (table[i].heading) heading = table[i].heading;
    if (table[i].hidden) continue;
    if (heading) shoal_text_addf(text, "%s%s:\n", any ? "\n" : "", heading);
    heading = NULL;
    any = true;
    add_option(&table[i], text);
  }
  add_environment(table, count, text);
}

shoal_status_t shoal_options_help(const shoal_option_t *table, int64_t count, shoal_arena_t *arena,
                                  const char **out_text) {
  shoal_text_t text;
  shoal_text_init(arena->allocator, &text);
  add_help(table, count, &text);
  return shoal_text_finish(&text, arena, out_text);
}

const char *shoal_did_you_mean(const char *word, const char *const *names, int64_t count,
                               const char *otherwise, shoal_hint_t *buffer) {
  const char *nearest = shoal_text_nearest(word, names, count);
  if (!nearest) return otherwise;
  snprintf(buffer->text, sizeof buffer->text, "did you mean '%s'?", nearest);
  return buffer->text;
}

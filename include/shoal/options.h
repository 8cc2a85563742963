// Shoal, options: settings of a program, as the command `shoal` reads its own.
//
// One table per options struct gives defaults, flags, environment and help, so that a setting is
// spelled once. The field `batch_size` is --batch-size on the command line, SHOAL_BATCH_SIZE in the
// environment and batch_size in files; '-' and '_' are alike in flags.
//
//   typedef struct job {
//     int64_t batch_size;
//     bool help;
//   } job_t;
//   static const shoal_option_t table[] = {
//       SHOAL_OPTION(job_t, INT, batch_size, "64", "rows of a batch", .letter = 'b'),
//       SHOAL_OPTION(job_t, BOOL, help, NULL, "this list")};
//   ...
//   job_t job = {0};
//   shoal_words_t words;
//   status = shoal_options_defaults(table, 2, arena, &job);
//   if (!status) status = shoal_options_environment(table, 2, arena, &job);
//   if (!status) status = shoal_options_parse(table, 2, argc - 1, argv + 1, arena, &job, &words);
//
// Values that are texts, and the words that are left, lie in the arena. All functions are *Not
// collective* and do not block; what is wrong with a value is an INVALID_ARGUMENT that says where
// it came from.
#ifndef SHOAL_OPTIONS_H_
#define SHOAL_OPTIONS_H_

#include "shoal/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum shoal_option_kind {
  SHOAL_OPTION_BOOL,    // bool: --name, --no-name, --name=true|false
  SHOAL_OPTION_INT,     // int64_t
  SHOAL_OPTION_REAL,    // double
  SHOAL_OPTION_STRING,  // const char *, copied into the arena
  SHOAL_OPTION_SIZE,    // int64_t, bytes: 64M, 1.5G, 4096 (K, M, G, T are powers of 1024)
  SHOAL_OPTION_ENUM,    // int: index into choices
  SHOAL_OPTION_STRINGS  // shoal_words_t: each time it is given adds a text
} shoal_option_kind_t;

typedef struct shoal_option {
  const char *name;  // as the struct's field
  shoal_option_kind_t kind;
  size_t offset;
  const char *value;           // default as text; NULL: leave zero. "auto" is zero, for any number
  const char *doc;             // one line, lower case
  char letter;                 // 'n' for -n, or 0
  const char *const *choices;  // SHOAL_OPTION_ENUM: NULL-terminated
  bool no_environment;         // SHOAL_NAME says something else (a launcher's SHOAL_RANK)
  bool positive;               // a number that is given is above zero
  const char *heading;         // in the help, above this option and those that follow; NULL: none
  const char *argument;        // in the help, what its value is: FILE, NAME; NULL: by its kind
  bool hidden;                 // it is taken, but the help does not list it
} shoal_option_t;

// SHOAL_OPTION(shoal_train_options_t, INT, steps, "1000", "steps to train", .letter = 's')
#define SHOAL_OPTION(type, kind_, field, value_, doc_, ...)                        \
  {                                                                                \
    .name = #field, .kind = SHOAL_OPTION_##kind_, .offset = offsetof(type, field), \
    .value = value_, .doc = doc_, __VA_ARGS__                                      \
  }

// What is left of a command line: words that are no options.
typedef struct shoal_words {
  const char **items;  // borrowed from argv
  int64_t count;
  int64_t after_dashes;  // first word after "--"; count when there is no "--"
} shoal_words_t;

// Sets every field that the table names to its default. Fields without one are left alone.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_options_defaults(const shoal_option_t *table,
                                                               int64_t count, shoal_arena_t *arena,
                                                               void *out_options);
// Sets one option by name. `from` says where the value came from, for messages ("--steps", a file).
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_options_set(const shoal_option_t *table,
                                                          int64_t count, const char *name,
                                                          const char *value, const char *from,
                                                          shoal_arena_t *arena, void *options);
// Takes what SHOAL_NAME variables say, but for `help` and options marked no_environment.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_options_environment(const shoal_option_t *table,
                                                                  int64_t count,
                                                                  shoal_arena_t *arena,
                                                                  void *options);
// Parses argv[0..argc): --name=value, --name value, -n 2, -n2. An unknown option is an
// INVALID_ARGUMENT whose hint names the nearest one.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_options_parse(const shoal_option_t *table,
                                                            int64_t count, int argc,
                                                            const char *const *argv,
                                                            shoal_arena_t *arena, void *options,
                                                            shoal_words_t *out_words);
// The help, in the arena: each option with flag, value, doc and default, in lines of at most 100
// columns; at the end, which of them the environment sets too.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_options_help(const shoal_option_t *table,
                                                           int64_t count, shoal_arena_t *arena,
                                                           const char **out_text);
// "64M", "1.5G", "4096": false when it is none or does not fit.
SHOAL_API bool shoal_size_parse(const char *text, int64_t *out_bytes);

// "did you mean 'X'?" for the one of `names` that is nearest to `word`, by edit distance and within
// a third of its length; `otherwise` (may be NULL) if none is. To be used as an error's hint; lies
// in `buffer`.
typedef struct shoal_hint {
  char text[160];
} shoal_hint_t;
SHOAL_API const char *shoal_did_you_mean(const char *word, const char *const *names, int64_t count,
                                         const char *otherwise, shoal_hint_t *buffer);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_OPTIONS_H_

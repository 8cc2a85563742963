// Text: a growable string to print into, and a scanner to parse printed forms back.
// Both keep their first failure, so that printing and parsing code reads straight through.
#ifndef SHOAL_BASE_TEXT_H_
#define SHOAL_BASE_TEXT_H_

#include "shoal/base.h"

typedef struct shoal_text {
  shoal_allocator_t allocator;
  char *data;  // always NUL-terminated once something was added; NULL before
  size_t length, capacity;
  bool failed;  // memory ran short: the text is incomplete
} shoal_text_t;

void shoal_text_init(shoal_allocator_t allocator, shoal_text_t *out_text);
void shoal_text_deinit(shoal_text_t *text);
void shoal_text_add(shoal_text_t *text, const char *string);
void shoal_text_addf(shoal_text_t *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *shoal_text_string(const shoal_text_t *text);  // "" when empty
SHOAL_MUST_USE shoal_status_t
shoal_text_status(const shoal_text_t *text);  // OUT_OF_MEMORY if failed
// A double that parses back to the same bits ("%.17g", shortened when shorter text does so too).
void shoal_text_add_double(shoal_text_t *text, double value);
// A quoted string with \" \\ \n \t \xHH escapes.
void shoal_text_add_quoted(shoal_text_t *text, const char *string);
// As it is if it is one word to a scanner, else quoted: shoal_scan_name reads both.
void shoal_text_add_name(shoal_text_t *text, const char *name);
// Copies the text into the arena and deinits it (again is harmless).
SHOAL_MUST_USE shoal_status_t shoal_text_finish(shoal_text_t *text, shoal_arena_t *arena,
                                                const char **out_string);
// The same behind printing that may have failed: then only deinits it, and returns that error.
SHOAL_MUST_USE shoal_status_t shoal_text_close(shoal_text_t *text, shoal_status_t status,
                                               shoal_arena_t *arena, const char **out_string);

// Scanner over a NUL-terminated text. Blanks (space, tab, CR, and LF when `lines` is false) and
// comments from '#' (when `comments`) are skipped before each token. The first failed expectation
// is kept with line and column; all later calls fail at once.
typedef struct shoal_scan {
  const char *name;  // of the file, for messages
  const char *start, *at;
  bool lines, comments;
  shoal_status_t error;  // owned; taken by shoal_scan_status
} shoal_scan_t;

void shoal_scan_init(const char *name, const char *text, shoal_scan_t *out_scan);
// Says whether the token is next, without consuming it. A token that ends in a letter is not found
// at the start of a longer word: "sum" is not next in "summary", though "v" is next in "v12".
bool shoal_scan_peek(shoal_scan_t *scan, const char *token);
bool shoal_scan_accept(shoal_scan_t *scan, const char *token);  // consume it if it is next
bool shoal_scan_expect(shoal_scan_t *scan, const char *token);  // consume it or fail
bool shoal_scan_int(shoal_scan_t *scan, int64_t *out_value);    // decimal, optional '-'
bool shoal_scan_double(shoal_scan_t *scan, double *out_value);
// [A-Za-z_] then [A-Za-z0-9_./#-]*; buffer is NUL-terminated; fails when longer than capacity - 1.
bool shoal_scan_word(shoal_scan_t *scan, char *buffer, size_t capacity);
bool shoal_scan_quoted(shoal_scan_t *scan, char *buffer, size_t capacity);
// As long as they need to be, in the arena: a quoted string; a word or a quoted string.
bool shoal_scan_string(shoal_scan_t *scan, shoal_arena_t *arena, const char **out_string);
bool shoal_scan_name(shoal_scan_t *scan, shoal_arena_t *arena, const char **out_name);
bool shoal_scan_at_end(shoal_scan_t *scan);  // after blanks
bool shoal_scan_fail(shoal_scan_t *scan, const char *format, ...)
    __attribute__((format(printf, 2, 3)));  // always returns false
// What a check of something just read said (takes it): OK is true; OUT_OF_MEMORY is kept as it is,
// all else becomes an error of this place, its hint in brackets.
bool shoal_scan_check(shoal_scan_t *scan, shoal_status_t status);
SHOAL_MUST_USE shoal_status_t shoal_scan_status(shoal_scan_t *scan);  // takes the error; OK if none

// The candidate nearest to `word` by edit distance (at most a third of its length), or NULL: for
// hints.
const char *shoal_text_nearest(const char *word, const char *const *candidates, int64_t count);

// pattern.c: '*' matches anything, '/' included; behind "re:" stands a regular expression.
bool shoal_pattern_match(const char *pattern, const char *name);
bool shoal_pattern_is(const char *text);  // it may match other names than itself
SHOAL_MUST_USE shoal_status_t shoal_pattern_check(const char *pattern);  // INVALID_ARGUMENT
// Of the first pattern of a list with commas. Those in brackets of a regular expression, as in
// "re:(a|b){1,3}", are part of it.
size_t shoal_pattern_length(const char *list);

#endif  // SHOAL_BASE_TEXT_H_

// Scanner of printed forms (declared in text.h): keeps the first failure with its line and column.
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/locale.h"
#include "base/status.h"
#include "base/text.h"

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// Characters of the word that starts here; 0 if none does.
static size_t word_length(const char *at) {
  size_t length = 0;
  if (!is_letter(*at)) return 0;
  for (char c = *at; is_letter(c) || is_digit(c) || (c && strchr("./#-", c));) c = at[++length];
  return length;
}

void shoal_scan_init(const char *name, const char *text, shoal_scan_t *out_scan) {
  *out_scan = (shoal_scan_t){.name = name ? name : "text", .start = text, .at = text};
}

static void skip_blanks(shoal_scan_t *scan) {
  for (;; ++scan->at) {
    char c = *scan->at;
    if (c == '#' && scan->comments) {
      while (scan->at[1] && scan->at[1] != '\n') ++scan->at;
    } else if (!(c == ' ' || c == '\t' || c == '\r' || (c == '\n' && !scan->lines))) {
      return;
    }
  }
}

bool shoal_scan_fail(shoal_scan_t *scan, const char *format, ...) {
  if (scan->error) return false;
  char message[400];
  va_list args;
  va_start(args, format);
  shoal_format_args(message, sizeof message, format, args);
  va_end(args);
  int line = 1, column = 1;
  for (const char *at = scan->start; at < scan->at; ++at) {
    ++column;
    if (*at == '\n') ++line, column = 1;
  }
  scan->error = SHOAL_ERROR(INVALID_ARGUMENT, "%s:%d:%d: %s", scan->name, line, column, message);
  return false;
}

bool shoal_scan_check(shoal_scan_t *scan, shoal_status_t status) {
  if (!status) return true;
  if (shoal_status_code(status) == SHOAL_OUT_OF_MEMORY && !scan->error) {
    scan->error = status;
    return false;
  }
  const char *hint = shoal_status_hint(status);
  shoal_scan_fail(scan, "%s%s%s%s", shoal_status_message(status), hint[0] ? " (" : "", hint,
                  hint[0] ? ")" : "");
  shoal_status_free(status);
  return false;
}

shoal_status_t shoal_scan_status(shoal_scan_t *scan) {
  shoal_status_t error = scan->error;
  scan->error = NULL;
  return error;
}

// "expected WHAT, found 'xyz'"
static bool fail_expected(shoal_scan_t *scan, const char *quote, const char *what) {
  if (scan->error) return false;
  if (what[0] == '\n') quote = "", what = "the end of the line";
  if (!*scan->at) {
    return shoal_scan_fail(scan, "expected %s%s%s, found the end", quote, what, quote);
  }
  if (*scan->at == '\n') {
    return shoal_scan_fail(scan, "expected %s%s%s, found the end of the line", quote, what, quote);
  }
  int length = 1;
  while (length < 24 && scan->at[length] && !strchr(" \t\r\n", scan->at[length])) ++length;
  return shoal_scan_fail(scan, "expected %s%s%s, found '%.*s'", quote, what, quote, length,
                         scan->at);
}

bool shoal_scan_peek(shoal_scan_t *scan, const char *token) {
  if (scan->error) return false;
  skip_blanks(scan);
  size_t length = strlen(token);
  if (strncmp(scan->at, token, length) != 0) return false;
  // a word is not the beginning of a longer word
  return !(length && is_letter(token[length - 1]) && is_letter(scan->at[length]));
}

bool shoal_scan_accept(shoal_scan_t *scan, const char *token) {
  if (!shoal_scan_peek(scan, token)) return false;
  scan->at += strlen(token);
  return true;
}

bool shoal_scan_expect(shoal_scan_t *scan, const char *token) {
  return shoal_scan_accept(scan, token) || fail_expected(scan, "'", token);
}

bool shoal_scan_int(shoal_scan_t *scan, int64_t *out_value) {
  if (scan->error) return false;
  skip_blanks(scan);
  const char *digits = scan->at + (*scan->at == '-');
  if (!is_digit(*digits)) return fail_expected(scan, "", "a whole number");
  errno = 0;
  char *end;
  long long value = strtoll(scan->at, &end, 10);
  if (errno) return shoal_scan_fail(scan, "the number does not fit 64 bits");
  scan->at = end;
  *out_value = value;
  return true;
}

bool shoal_scan_double(shoal_scan_t *scan, double *out_value) {
  if (scan->error) return false;
  skip_blanks(scan);
  const char *at = scan->at + (*scan->at == '-' || *scan->at == '+');
  bool named = strncmp(at, "inf", 3) == 0 || strncmp(at, "nan", 3) == 0;
  char *end = NULL;
  double value = 0;
  if (named || is_digit(*at) || (*at == '.' && is_digit(at[1])))
    value = shoal_parse_double(scan->at, &end);
  if (!end || end == scan->at) return fail_expected(scan, "", "a number");
  scan->at = end;
  *out_value = value;
  return true;
}

bool shoal_scan_word(shoal_scan_t *scan, char *buffer, size_t capacity) {
  if (scan->error) return false;
  skip_blanks(scan);
  size_t length = word_length(scan->at);
  if (!length) return fail_expected(scan, "", "a name");
  if (length >= capacity) {
    return shoal_scan_fail(scan, "the name '%.*s...' is longer than %zu characters",
                           (int)(length < 20 ? length : 20), scan->at, capacity - 1);
  }
  memcpy(buffer, scan->at, length);
  buffer[length] = 0;
  scan->at += length;
  return true;
}

static int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool shoal_scan_quoted(shoal_scan_t *scan, char *buffer, size_t capacity) {
  if (scan->error) return false;
  skip_blanks(scan);
  if (*scan->at != '"') return fail_expected(scan, "", "a quoted string");
  const char *at = scan->at + 1;
  size_t length = 0;
  while (*at != '"') {
    char c = *at++;
    if (!c || c == '\n') return shoal_scan_fail(scan, "the string has no closing quote");
    if (c == '\\') {
      c = *at++;
      if (c == 'n') {
        c = '\n';
      } else if (c == 't') {
        c = '\t';
      } else if (c == 'x' && hex_digit(at[0]) >= 0 && hex_digit(at[1]) >= 0) {
        c = (char)(hex_digit(at[0]) * 16 + hex_digit(at[1]));
        at += 2;
      } else if (c != '"' && c != '\\') {
        return shoal_scan_fail(scan, "a string has an unknown escape");
      }
    }
    if (length + 1 >= capacity) {
      return shoal_scan_fail(scan, "the string is longer than %zu characters", capacity - 1);
    }
    buffer[length++] = c;
  }
  buffer[length] = 0;
  scan->at = at + 1;
  return true;
}

bool shoal_scan_string(shoal_scan_t *scan, shoal_arena_t *arena, const char **out_string) {
  if (!shoal_scan_peek(scan, "\"")) return shoal_scan_quoted(scan, (char[1]){0}, 1);
  const char *end = scan->at + 1;
  while (*end && *end != '"' && *end != '\n') end += *end == '\\' && end[1] ? 2 : 1;
  size_t room = (size_t)(end - scan->at) + 1;
  char *string = shoal_arena_alloc(arena, room, 1);
  if (!string) return shoal_scan_check(scan, SHOAL_OOM());
  *out_string = string;
  return shoal_scan_quoted(scan, string, room);
}

bool shoal_scan_name(shoal_scan_t *scan, shoal_arena_t *arena, const char **out_name) {
  if (shoal_scan_peek(scan, "\"")) return shoal_scan_string(scan, arena, out_name);
  size_t room = word_length(scan->at) + 1;
  char *name = shoal_arena_alloc(arena, room, 1);
  if (!name) return shoal_scan_check(scan, SHOAL_OOM());
  *out_name = name;
  return shoal_scan_word(scan, name, room);
}

// Here because it knows what a word is.
void shoal_text_add_name(shoal_text_t *text, const char *name) {
  size_t length = word_length(name);
  if (length && !name[length]) {
    shoal_text_add(text, name);
  } else {
    shoal_text_add_quoted(text, name);
  }
}

bool shoal_scan_at_end(shoal_scan_t *scan) {
  if (scan->error) return false;
  skip_blanks(scan);
  return !*scan->at;
}

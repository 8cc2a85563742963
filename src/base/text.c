// Growable text. The scanner is in scan.c.
#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/locale.h"
#include "base/status.h"

void shoal_text_init(shoal_allocator_t allocator, shoal_text_t *out_text) {
  *out_text = (shoal_text_t){.allocator = allocator};
}

void shoal_text_deinit(shoal_text_t *text) {
  if (text->data) text->allocator.free(text->allocator.self, text->data);
  *text = (shoal_text_t){.allocator = text->allocator};
}

// Room for `more` characters and the NUL.
static bool reserve(shoal_text_t *text, size_t more) {
  if (text->failed) return false;
  if (more < text->capacity - text->length) return true;
  size_t capacity = text->capacity ? text->capacity : 128;
  while (capacity - text->length <= more) {
    if (capacity > SIZE_MAX / 2) {
      text->failed = true;
      return false;
    }
    capacity *= 2;
  }
  char *data = text->allocator.alloc(text->allocator.self, capacity);
  if (!data) {
    text->failed = true;
    return false;
  }
  if (text->data) {
    memcpy(data, text->data, text->length + 1);
    text->allocator.free(text->allocator.self, text->data);
  } else {
    data[0] = 0;
  }
  text->data = data;
  text->capacity = capacity;
  return true;
}

static void add_bytes(shoal_text_t *text, const char *bytes, size_t count) {
  if (!reserve(text, count)) return;
  memcpy(text->data + text->length, bytes, count);
  text->length += count;
  text->data[text->length] = 0;
}

void shoal_text_add(shoal_text_t *text, const char *string) {
  add_bytes(text, string, strlen(string));
}

void shoal_text_addf(shoal_text_t *text, const char *format, ...) {
  if (!reserve(text, 0)) return;
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  size_t room = text->capacity - text->length;
  int length = shoal_format_args(text->data + text->length, room, format, args);
  if (length >= 0 && (size_t)length >= room) {
    text->data[text->length] = 0;
    if (reserve(text, (size_t)length)) {
      shoal_format_args(text->data + text->length, (size_t)length + 1, format, again);
      text->length += (size_t)length;
    }
  } else if (length >= 0) {
    text->length += (size_t)length;
  }
  va_end(again);
  va_end(args);
}

const char *shoal_text_string(const shoal_text_t *text) {
  return text->data ? text->data : "";
}

shoal_status_t shoal_text_status(const shoal_text_t *text) {
  return text->failed ? SHOAL_OOM() : NULL;
}

void shoal_text_add_double(shoal_text_t *text, double value) {
  char buffer[40];
  if (isnan(value)) {
    shoal_text_add(text, "nan");
    return;
  }
  for (int precision = 15; precision <= 17; ++precision) {
    shoal_format(buffer, sizeof buffer, "%.*g", precision, value);
    if (shoal_parse_double(buffer, NULL) == value) break;
  }
  shoal_text_add(text, buffer);
}

void shoal_text_add_quoted(shoal_text_t *text, const char *string) {
  add_bytes(text, "\"", 1);
  for (const char *at = string; *at; ++at) {
    unsigned char c = (unsigned char)*at;
    switch (c) {
      case '"':
        add_bytes(text, "\\\"", 2);
        break;
      case '\\':
        add_bytes(text, "\\\\", 2);
        break;
      case '\n':
        add_bytes(text, "\\n", 2);
        break;
      case '\t':
        add_bytes(text, "\\t", 2);
        break;
      default:
        if (c < 0x20 || c == 0x7f) {
          shoal_text_addf(text, "\\x%02X", c);
        } else {
          add_bytes(text, at, 1);
        }
    }
  }
  add_bytes(text, "\"", 1);
}

shoal_status_t shoal_text_finish(shoal_text_t *text, shoal_arena_t *arena,
                                 const char **out_string) {
  const char *copy = text->failed ? NULL : shoal_arena_strdup(arena, shoal_text_string(text));
  shoal_text_deinit(text);
  if (!copy) return SHOAL_OOM();
  *out_string = copy;
  return NULL;
}

shoal_status_t shoal_text_close(shoal_text_t *text, shoal_status_t status, shoal_arena_t *arena,
                                const char **out_string) {
  if (!status) return shoal_text_finish(text, arena, out_string);
  shoal_text_deinit(text);
  return status;
}

// Levenshtein distance, or limit + 1 when it is more than that. Words of up to 63 characters.
static int distance(const char *a, const char *b, int limit) {
  enum { MAX = 64 };
  int length_a = (int)strlen(a), length_b = (int)strlen(b);
  if (length_a >= MAX || length_b >= MAX || abs(length_a - length_b) > limit) return limit + 1;
  int row[MAX];
  for (int j = 0; j <= length_b; ++j) row[j] = j;
  for (int i = 1; i <= length_a; ++i) {
    int diagonal = row[0];
    row[0] = i;
    for (int j = 1; j <= length_b; ++j) {
      int best = diagonal + (a[i - 1] != b[j - 1]);
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      diagonal = row[j];
      row[j] = best;
    }
  }
  return row[length_b];
}

const char *shoal_text_nearest(const char *word, const char *const *candidates, int64_t count) {
  int limit = (int)(strlen(word) / 3);
  if (limit < 1) limit = 1;
  const char *nearest = NULL;
  for (int64_t i = 0; i < count; ++i) {
    int d = distance(word, candidates[i], limit);
    if (d <= limit) {
      nearest = candidates[i];
      limit = d - 1;  // only nearer ones from here on: ties go to the first
    }
  }
  return nearest;
}

// Statuses: one heap block each, struct and strings together. Errors are rare and must be creatable
// when nothing else works, so they use the C heap and not a caller's allocator; when even that is
// short, a static status stands in, which free and annotate know. So do those of a silent thread.
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/locale.h"

struct shoal_status {
  shoal_code_t code;
  int line;
  const char *file, *message, *hint;  // inside the same block
};

static struct shoal_status static_oom = {
    .code = SHOAL_OUT_OF_MEMORY, .file = "", .message = "out of memory", .hint = ""};

// By code, with its meaning for a message.
static struct shoal_status silent_ones[] = {
#define SHOAL_STATUS_CODE(id, number, exit_code, text) \
  [number] = {.code = SHOAL_##id, .file = "", .message = text, .hint = ""},
#include "shoal/status.inc"
#undef SHOAL_STATUS_CODE
};
enum { CODES = sizeof silent_ones / sizeof *silent_ones };

static _Thread_local bool silent;

bool shoal_status_silence(bool on) {
  bool before = silent;
  silent = on;
  return before;
}

bool shoal_status_is_silent(void) {
  return silent;
}

static bool is_static(shoal_status_t status) {
  const uintptr_t at = (uintptr_t)status, first = (uintptr_t)silent_ones;
  return status == &static_oom || (at >= first && at < first + sizeof silent_ones);
}

// Takes context (may be "") and message apart so that annotating needs no second buffer.
static shoal_status_t create(shoal_code_t code, const char *file, int line, const char *context,
                             const char *message, const char *hint) {
  if (code == SHOAL_OK) code = SHOAL_INTERNAL;  // an error that says OK is a bug of its maker
  if (silent && code == SHOAL_OUT_OF_MEMORY) return &static_oom;  // nobody takes that for an answer
  if (silent && (int)code < CODES) return &silent_ones[code];
  if (!file) file = "";
  if (!message) message = "";
  if (!hint) hint = "";
  const char *joint = context[0] ? ": " : "";
  size_t file_size = strlen(file) + 1;
  size_t message_size = strlen(context) + strlen(joint) + strlen(message) + 1;
  size_t hint_size = strlen(hint) + 1;
  shoal_status_t status = malloc(sizeof(*status) + file_size + message_size + hint_size);
  if (!status) return &static_oom;
  char *at = (char *)(status + 1);
  *status = (struct shoal_status){.code = code, .line = line};
  status->file = memcpy(at, file, file_size);
  at += file_size;
  snprintf(at, message_size, "%s%s%s", context, joint, message);
  status->message = at;
  at += message_size;
  status->hint = memcpy(at, hint, hint_size);
  return status;
}

shoal_status_t shoal_status_create(shoal_code_t code, const char *file, int line,
                                   const char *message, const char *hint) {
  return create(code, file, line, "", message, hint);
}

shoal_status_t shoal_status_annotate(shoal_status_t status, const char *context) {
  if (!status || !context || !context[0] || silent) return status;
  shoal_status_t annotated =
      create(status->code, status->file, status->line, context, status->message, status->hint);
  if (annotated == &static_oom && status->code != SHOAL_OUT_OF_MEMORY) return status;
  shoal_status_free(status);
  return annotated;
}

void shoal_status_free(shoal_status_t status) {
  if (status && !is_static(status)) free(status);
}

shoal_status_t shoal_status_clone(shoal_status_t status) {
  if (!status || is_static(status)) return status;
  return create(status->code, status->file, status->line, "", status->message, status->hint);
}

shoal_code_t shoal_status_code(shoal_status_t status) {
  return status ? status->code : SHOAL_OK;
}

const char *shoal_status_message(shoal_status_t status) {
  return status ? status->message : "";
}

const char *shoal_status_hint(shoal_status_t status) {
  return status ? status->hint : "";
}

const char *shoal_status_file(shoal_status_t status) {
  return status ? status->file : "";
}

int shoal_status_line(shoal_status_t status) {
  return status ? status->line : 0;
}

const char *shoal_code_name(shoal_code_t code) {
  switch (code) {
#define SHOAL_STATUS_CODE(id, number, exit_code, text) \
  case SHOAL_##id:                                     \
    return #id;
#include "shoal/status.inc"
#undef SHOAL_STATUS_CODE
  }
  return "UNKNOWN";
}

int shoal_code_exit(shoal_code_t code) {
  switch (code) {
#define SHOAL_STATUS_CODE(id, number, exit_code, text) \
  case SHOAL_##id:                                     \
    return exit_code;
#include "shoal/status.inc"
#undef SHOAL_STATUS_CODE
  }
  return 70;
}

// In one call: lines of ranks that print at the same time stay together.
void shoal_status_print(shoal_status_t status, FILE *file) {
  if (!status) return;
  char place[32] = "";
  if (status->file[0]) shoal_format(place, sizeof place, ":%d", status->line);
  fprintf(file ? file : stderr, "shoal: error: %s: %s%s%s%s%s%s\n", shoal_code_name(status->code),
          status->message, status->file[0] ? "\n  at " : "", status->file, place,
          status->hint[0] ? "\nhint: " : "", status->hint);
}

// Formats into `buffer`, or into a heap block when that is too small; NULL only when memory is
// short.
static char *format_into(char *buffer, size_t capacity, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int length = shoal_format_args(buffer, capacity, format, args);
  char *text = buffer;
  if (length < 0) {
    buffer[0] = 0;
  } else if ((size_t)length >= capacity) {
    text = malloc((size_t)length + 1);
    if (text) shoal_format_args(text, (size_t)length + 1, format, again);
  }
  va_end(again);
  return text;
}

shoal_status_t shoal_status_format(shoal_code_t code, const char *file, int line, const char *hint,
                                   const char *format, ...) {
  char buffer[512];
  va_list args;
  if (silent) return create(code, file, line, "", "", "");
  va_start(args, format);
  char *text = format_into(buffer, sizeof buffer, format, args);
  va_end(args);
  shoal_status_t status = create(code, file, line, "", text ? text : buffer, hint);
  if (text != buffer) free(text);
  return status;
}

shoal_status_t shoal_status_annotatef(shoal_status_t status, const char *format, ...) {
  if (!status || silent) return status;
  char buffer[512];
  va_list args;
  va_start(args, format);
  char *text = format_into(buffer, sizeof buffer, format, args);
  va_end(args);
  status = shoal_status_annotate(status, text ? text : buffer);
  if (text != buffer) free(text);
  return status;
}

// ---- as bytes -------------------------------------------------------------------------

// Code and line, then three strings, the longest last: file, hint, message.
typedef struct packed_head {
  int32_t code, line;
} packed_head_t;

enum { PACKED_FILE = 160, PACKED_HINT = 560 };  // at most, with their zeros

// Copies as much of `text` as fits in `room`, its zero included; returns what it took.
static size_t pack_text(const char *text, char *to, size_t room) {
  size_t length = strlen(text);
  if (length > room - 1) length = room - 1;
  memcpy(to, text, length);
  to[length] = 0;
  return length + 1;
}

void shoal_status_pack(shoal_status_t status, char *buffer, size_t capacity) {
  const packed_head_t head = {(int32_t)shoal_status_code(status), shoal_status_line(status)};
  memset(buffer, 0, capacity);
  memcpy(buffer, &head, sizeof head);
  size_t used = sizeof head;
  used += pack_text(shoal_status_file(status), buffer + used, PACKED_FILE);
  used += pack_text(shoal_status_hint(status), buffer + used, PACKED_HINT);
  pack_text(shoal_status_message(status), buffer + used, capacity - used);
}

shoal_status_t shoal_status_unpack(const char *buffer, size_t capacity) {
  packed_head_t head;
  memcpy(&head, buffer, sizeof head);
  if (head.code == SHOAL_OK) return NULL;
  const char *file = buffer + sizeof head, *end = buffer + capacity;
  const char *hint = file + strnlen(file, PACKED_FILE - 1) + 1;
  const char *message = hint + strnlen(hint, PACKED_HINT - 1) + 1;
  if (end[-1]) return SHOAL_ERROR(INTERNAL, "an error arrived in pieces");
  return create((shoal_code_t)head.code, file, head.line, "", message, hint);
}

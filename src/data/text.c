// Text through a tokenizer. Files are encoded when they are opened, piece by piece, and the tokens
// are kept in memory; where there are several files, the token that ends a text stands behind each.
#include <string.h>

#include "base/number.h"
#include "base/status.h"
#include "data/kinds.h"
#include "data/windows.h"
#include "shoal/tokenizer.h"

enum { CHUNK = 1 << 20 };
#define MOST_CHUNK ((int64_t)INT32_MAX)

typedef struct text {
  shoal_allocator_t allocator;
  shoal_token_store_t *tokens;
  SHOAL_VEC(shoal_token_piece_t) pieces;
  shoal_tokenizer_t *tokenizer;
  char *buffer;  // `length` bytes that are not encoded yet
  int64_t length, capacity;
} text_t;

static shoal_status_t add(text_t *text, const int32_t *ids, int64_t count) {
  if (count == 0) return NULL;
  shoal_arena_t *arena = &text->tokens->arena;
  shoal_token_piece_t piece = {.count = count, .file.descriptor = -1};
  piece.memory = shoal_arena_copy(arena, ids, (size_t)count, sizeof *ids);
  if (!piece.memory || !SHOAL_PUSH(arena, &text->pieces, piece)) return SHOAL_OOM();
  text->tokens->count += count;
  return NULL;
}

// Encodes the first `length` bytes of the buffer and keeps the others.
static shoal_status_t encode(text_t *text, int64_t length) {
  const int32_t *ids;
  int64_t count;
  SHOAL_RETURN_IF_ERROR(
      shoal_tokenizer_encode(text->tokenizer, text->buffer, length, NULL, &ids, &count));
  text->length -= length;
  memmove(text->buffer, text->buffer + length, (size_t)text->length);
  return add(text, ids, count);
}

static shoal_status_t grow(text_t *text) {
  const int64_t capacity =
      text->capacity == 0 ? CHUNK : shoal_min64(2 * text->capacity, MOST_CHUNK);
  char *larger = text->allocator.alloc(text->allocator.self, (size_t)capacity);
  if (!larger) return SHOAL_OOM();
  if (text->length > 0) memcpy(larger, text->buffer, (size_t)text->length);
  text->allocator.free(text->allocator.self, text->buffer);
  text->buffer = larger;
  text->capacity = capacity;
  return NULL;
}

static shoal_status_t encode_file(text_t *text, const shoal_data_file_t *file) {
  for (int64_t at = 0; at < file->size;) {
    if (text->length == text->capacity) {
      if (text->capacity == MOST_CHUNK)
        return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "is it a text? cut it into several files",
                                "'%s' has 2 GiB that cannot be tokenised apart", file->path);
      SHOAL_RETURN_IF_ERROR(grow(text));
    }
    const int64_t more = shoal_min64(text->capacity - text->length, file->size - at);
    SHOAL_RETURN_IF_ERROR(shoal_data_file_read(file, at, more, text->buffer + text->length));
    text->length += more;
    at += more;
    // The rest waits for what follows it; at the end nothing does.
    const int64_t cut = at < file->size
                            ? shoal_tokenizer_cut(text->tokenizer, text->buffer, text->length)
                            : text->length;
    if (cut > 0) SHOAL_RETURN_IF_ERROR(encode(text, cut));
  }
  return NULL;
}

static shoal_status_t encode_files(text_t *text, const char *path, bool test) {
  shoal_data_list_t list;
  SHOAL_RETURN_IF_ERROR(shoal_data_text_files(path, ".txt", test, &text->tokens->arena, &list));
  const int32_t end = shoal_tokenizer_end(text->tokenizer);
  for (int64_t i = 0; i < list.count; ++i) {
    shoal_data_file_t file;
    SHOAL_RETURN_IF_ERROR(shoal_data_file_open(list.items[i].path, &text->tokens->arena, &file));
    shoal_status_t status = encode_file(text, &file);
    shoal_data_file_close(&file);
    if (status) return status;
    if (end >= 0 && list.count > 1) SHOAL_RETURN_IF_ERROR(add(text, &end, 1));
  }
  return NULL;
}

shoal_status_t shoal_data_open_text(const char *path, const shoal_dataset_options_t *options,
                                    shoal_dataset_t **out_dataset) {
  if (!options->tokenizer) return shoal_data_open_bytes(path, options, out_dataset);
  text_t text = {.allocator =
                     options->allocator.alloc ? options->allocator : shoal_allocator_system()};
  SHOAL_RETURN_IF_ERROR(shoal_token_store_create(path, text.allocator, &text.tokens));
  shoal_status_t status = shoal_tokenizer_open(
      options->tokenizer, &(shoal_tokenizer_options_t){.allocator = text.allocator},
      &text.tokenizer);
  if (!status) {
    text.tokens->classes = shoal_tokenizer_size(text.tokenizer);
    status = encode_files(&text, path, options->test);
  }
  text.tokens->pieces = text.pieces.items;
  text.tokens->piece_count = text.pieces.count;
  shoal_tokenizer_free(text.tokenizer);
  text.allocator.free(text.allocator.self, text.buffer);
  if (!status) return shoal_windows_create(text.tokens, shoal_data_length(options), out_dataset);
  shoal_token_store_release(text.tokens);
  return status;
}

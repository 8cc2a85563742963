// Windows of tokens. The tokens [begin, end) are cut into windows of `length` (each with the token
// behind it, for the labels), from an offset that changes from epoch to epoch.
#include "data/windows.h"

#include <string.h>

#include "base/number.h"
#include "base/status.h"
#include "data/order.h"

// ---- tokens ---------------------------------------------------------------------------

shoal_status_t shoal_token_store_create(const char *name, shoal_allocator_t allocator,
                                        shoal_token_store_t **out_tokens) {
  *out_tokens = NULL;
  if (!allocator.alloc) allocator = shoal_allocator_system();
  shoal_token_store_t *tokens = allocator.alloc(allocator.self, sizeof *tokens);
  if (!tokens) return SHOAL_OOM();
  *tokens = (shoal_token_store_t){.owners = 1};
  shoal_arena_init(allocator, &tokens->arena);
  tokens->name = shoal_arena_strdup(&tokens->arena, name);
  if (!tokens->name) {
    shoal_token_store_release(tokens);
    return SHOAL_OOM();
  }
  *out_tokens = tokens;
  return NULL;
}

void shoal_token_store_release(shoal_token_store_t *tokens) {
  if (!tokens || atomic_fetch_sub(&tokens->owners, 1) > 1) return;
  for (int64_t i = 0; i < tokens->piece_count; ++i) shoal_data_file_close(&tokens->pieces[i].file);
  const shoal_allocator_t allocator = tokens->arena.allocator;
  shoal_arena_deinit(&tokens->arena);
  allocator.free(allocator.self, tokens);
}

// Token i of little-endian bytes, whatever the machine's order is.
static int64_t decode(const unsigned char *raw, int32_t width, int64_t i) {
  const int32_t bytes = width < 0 ? -width : width;
  uint64_t value = 0;
  for (int32_t b = bytes; b-- > 0;) value = value << 8 | raw[i * bytes + b];
  if (width < 0 && bytes < 8 && value >> (8 * bytes - 1)) value -= (uint64_t)1 << (8 * bytes);
  return (int64_t)value;
}

// Tokens [at, at + count) of a piece, which has them. `raw` has room for 8 bytes of each.
static shoal_status_t read_piece(const shoal_token_piece_t *piece, int64_t at, int64_t count,
                                 unsigned char *raw, int32_t *out) {
  if (piece->memory) {
    for (int64_t i = 0; i < count; ++i) out[i] = (int32_t)piece->memory[at + i];
    return NULL;
  }
  const int32_t bytes = piece->width < 0 ? -piece->width : piece->width;
  SHOAL_RETURN_IF_ERROR(
      shoal_data_file_read(&piece->file, piece->offset + at * bytes, count * bytes, raw));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t token = decode(raw, piece->width, i);
    if (token < 0 || token > INT32_MAX)
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                              "are these tokens, and of that width? token_bytes says 2 or 4",
                              "'%s' has %lld as token %lld, which is none", piece->file.path,
                              (long long)token, (long long)(at + i));
    out[i] = (int32_t)token;
  }
  return NULL;
}

static shoal_status_t read_tokens(const shoal_token_store_t *tokens, int64_t at, int64_t count,
                                  unsigned char *raw, int32_t *out) {
  for (int64_t i = 0; count > 0; ++i) {
    const shoal_token_piece_t *piece = &tokens->pieces[i];
    if (at < piece->count) {
      const int64_t here = shoal_min64(count, piece->count - at);
      SHOAL_RETURN_IF_ERROR(read_piece(piece, at, here, raw, out));
      out += here;
      count -= here;
      at += here;
    }
    at -= piece->count;
  }
  return NULL;
}

// ---- windows --------------------------------------------------------------------------

typedef struct windows {
  shoal_allocator_t allocator;
  shoal_token_store_t *tokens;
  int64_t begin, end, length;
  int64_t count;
  int32_t *window;     // length + 1
  unsigned char *raw;  // 8 bytes of each
} windows_t;

static shoal_status_t create(shoal_token_store_t *tokens, int64_t begin, int64_t end,
                             int64_t length, shoal_dataset_t **out_dataset);

static shoal_status_t read_window(void *self, const shoal_sample_t *sample,
                                  void *const *out_columns) {
  windows_t *windows = self;
  const int64_t length = windows->length;
  const int64_t spare = windows->end - windows->begin - 1 - windows->count * length;
  const uint64_t word = sample->varied ? shoal_order_word(sample->seed, sample->epoch, 0) : 0;
  const int64_t at =
      windows->begin + (int64_t)(word % (uint64_t)(spare + 1)) + sample->index * length;
  SHOAL_RETURN_IF_ERROR(
      read_tokens(windows->tokens, at, length + 1, windows->raw, windows->window));
  const size_t bytes = (size_t)length * sizeof(int32_t);
  if (out_columns[0]) memcpy(out_columns[0], windows->window, bytes);
  if (out_columns[1]) memcpy(out_columns[1], windows->window + 1, bytes);
  return NULL;
}

static void free_windows(void *self) {
  windows_t *windows = self;
  shoal_token_store_release(windows->tokens);
  windows->allocator.free(windows->allocator.self, windows);
}

// The held-out windows take the end of the tokens, with the one behind the last for its label.
static shoal_status_t split_windows(void *self, int64_t held_out, shoal_dataset_t **out_rest,
                                    shoal_dataset_t **out_held_out) {
  const windows_t *windows = self;
  const int64_t cut = windows->end - held_out * windows->length - 1;
  if (cut - windows->begin <= windows->length)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "hold out less, or use a longer text",
                            "'%s' has %lld windows of %lld: without %lld of them none is left",
                            windows->tokens->name, (long long)windows->count,
                            (long long)windows->length, (long long)held_out);
  atomic_fetch_add(&windows->tokens->owners, 2);
  shoal_status_t status = create(windows->tokens, windows->begin, cut, windows->length, out_rest);
  if (status) {
    shoal_token_store_release(windows->tokens);
    return status;
  }
  status = create(windows->tokens, cut, windows->end, windows->length, out_held_out);
  if (status) {
    shoal_dataset_free(*out_rest);
    *out_rest = NULL;
  }
  return status;
}

// Windows of tokens [begin, end). Takes the caller's hold of the tokens.
static shoal_status_t create(shoal_token_store_t *tokens, int64_t begin, int64_t end,
                             int64_t length, shoal_dataset_t **out_dataset) {
  const shoal_allocator_t allocator = tokens->arena.allocator;
  const size_t room = (size_t)length + 1;
  windows_t *windows = allocator.alloc(allocator.self, sizeof *windows + 12 * room);
  if (!windows) {
    shoal_token_store_release(tokens);
    return SHOAL_OOM();
  }
  *windows = (windows_t){.allocator = allocator,
                         .tokens = tokens,
                         .begin = begin,
                         .end = end,
                         .length = length,
                         .count = (end - begin - 1) / length,
                         .window = (int32_t *)(windows + 1)};
  windows->raw = (unsigned char *)(windows->window + room);
  const shoal_shape_t shape = SHOAL_SHAPE(length);
  const shoal_column_t columns[] = {
      {.name = "ids", .dtype = SHOAL_I32, .shape = shape, .classes = tokens->classes},
      {.name = "labels",
       .dtype = SHOAL_I32,
       .shape = shape,
       .classes = tokens->classes,
       .follows = true}};
  shoal_status_t status = shoal_dataset_create(
      tokens->name, windows->count, columns, 2,
      &(shoal_dataset_ops_t){.read = read_window, .free = free_windows, .split = split_windows},
      windows, allocator, out_dataset);
  if (status) free_windows(windows);
  return status;
}

shoal_status_t shoal_windows_create(shoal_token_store_t *tokens, int64_t length,
                                    shoal_dataset_t **out_dataset) {
  shoal_status_t status = NULL;
  if (length < 1 || length > INT32_MAX)
    status = SHOAL_ERROR_HINT(INVALID_ARGUMENT, "say how many tokens a sample of text has",
                              "windows of %lld tokens", (long long)length);
  else if (tokens->count <= length)
    status =
        SHOAL_ERROR_HINT(INVALID_ARGUMENT, "use a longer text or shorter sequences",
                         "'%s' has %lld tokens; sequences of %lld need at least %lld", tokens->name,
                         (long long)tokens->count, (long long)length, (long long)length + 1);
  if (!status) return create(tokens, 0, tokens->count, length, out_dataset);
  shoal_token_store_release(tokens);
  return status;
}

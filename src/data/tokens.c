// Token files: little-endian u16 or u32 (nanoGPT's .bin), the same behind a header of 256 i32
// (magic, version, count: the .bin of Karpathy's C trainer), .npy arrays of integers. And bytes.
#include "base/status.h"
#include "data/kinds.h"
#include "data/npy.h"
#include "data/windows.h"

enum { HEADER_BYTES = 1024, MAGIC_U16 = 20240520, MAGIC_U32 = 20240801, BYTES = 256 };

static int64_t word_at(const unsigned char *head, int i) {
  const unsigned char *at = head + 4 * i;
  return at[0] | at[1] << 8 | at[2] << 16 | (int64_t)at[3] << 24;
}

bool shoal_data_has_token_header(const unsigned char *head, int64_t bytes) {
  return bytes >= 12 && (word_at(head, 0) == MAGIC_U16 || word_at(head, 0) == MAGIC_U32);
}

static shoal_status_t open_npy(shoal_token_piece_t *piece, const char *path, shoal_arena_t *arena) {
  shoal_npy_t npy;
  SHOAL_RETURN_IF_ERROR(shoal_npy_open(path, arena, &npy));
  shoal_status_t status = NULL;
  if (npy.shape.rank != 1 || npy.kind == 'f' || npy.kind == 'b')
    status = SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                              "tokens are integers with one dim; samples of equal length are "
                              "'arrays:ids=FILE,labels=FILE'",
                              "'%s' has %d dims of numpy's type %c%d", path, npy.shape.rank,
                              npy.kind, npy.width);
  else if (npy.swapped && npy.width > 1)
    status = SHOAL_ERROR_HINT(INVALID_ARGUMENT, "save array.astype('<u4')",
                              "'%s' has tokens in big-endian order", path);
  if (status) {
    shoal_npy_close(&npy);
    return status;
  }
  piece->file = npy.file;
  piece->offset = npy.offset;
  piece->count = npy.count;
  piece->width = npy.kind == 'i' ? -npy.width : npy.width;
  return NULL;
}

static shoal_status_t open_header(shoal_token_piece_t *piece, const unsigned char *head) {
  const shoal_data_file_t *file = &piece->file;
  const bool wide = word_at(head, 0) == MAGIC_U32;
  const int64_t version = word_at(head, 1), known = wide ? 7 : 1;
  piece->width = wide ? 4 : 2;
  piece->offset = HEADER_BYTES;
  piece->count = word_at(head, 2);
  if (version != known)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "write it again with a version that is known",
                            "'%s': version %lld of a token file; %lld is known", file->path,
                            (long long)version, (long long)known);
  if (file->size < HEADER_BYTES || piece->count > (file->size - HEADER_BYTES) / piece->width)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "copy or write the file again",
                            "'%s' is truncated: its header says %lld tokens of %d bytes, and it "
                            "has %lld bytes",
                            file->path, (long long)piece->count, piece->width,
                            (long long)file->size);
  return NULL;
}

static shoal_status_t open_piece(shoal_token_piece_t *piece, const char *path,
                                 const shoal_dataset_options_t *options, shoal_arena_t *arena) {
  SHOAL_RETURN_IF_ERROR(shoal_data_file_open(path, arena, &piece->file));
  unsigned char head[12];
  int64_t got;
  SHOAL_RETURN_IF_ERROR(shoal_data_file_head(&piece->file, sizeof head, head, &got));
  if (shoal_npy_is(head, got)) {
    shoal_data_file_close(&piece->file);
    return open_npy(piece, path, arena);
  }
  if (shoal_data_has_token_header(head, got)) return open_header(piece, head);
  piece->width = options->token_bytes ? (int32_t)options->token_bytes : 2;
  piece->count = piece->file.size / piece->width;
  if (piece->file.size % piece->width == 0) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                          "a text is opened as 'bytes:FILE' or 'text:FILE'; token_bytes says how "
                          "wide tokens are",
                          "'%s' has %lld bytes, which is no number of tokens of %d bytes", path,
                          (long long)piece->file.size, piece->width);
}

static shoal_status_t open_tokens(shoal_token_store_t *tokens, const char *path,
                                  const shoal_dataset_options_t *options) {
  if (options->token_bytes != 0 && options->token_bytes != 2 && options->token_bytes != 4)
    return SHOAL_ERROR(INVALID_ARGUMENT, "tokens of %lld bytes; they have 2 or 4",
                       (long long)options->token_bytes);
  shoal_data_list_t list;
  SHOAL_RETURN_IF_ERROR(shoal_data_text_files(path, ".bin", options->test, &tokens->arena, &list));
  tokens->pieces = SHOAL_NEW(&tokens->arena, shoal_token_piece_t, list.count);
  if (!tokens->pieces) return SHOAL_OOM();
  for (int64_t i = 0; i < list.count; ++i) {
    shoal_token_piece_t *piece = &tokens->pieces[tokens->piece_count++];
    SHOAL_RETURN_IF_ERROR(open_piece(piece, list.items[i].path, options, &tokens->arena));
    tokens->count += piece->count;
  }
  return NULL;
}

static shoal_status_t open_bytes(shoal_token_store_t *tokens, const char *path,
                                 const shoal_dataset_options_t *options) {
  tokens->classes = BYTES;
  shoal_data_list_t list;
  SHOAL_RETURN_IF_ERROR(shoal_data_text_files(path, ".txt", options->test, &tokens->arena, &list));
  tokens->pieces = SHOAL_NEW(&tokens->arena, shoal_token_piece_t, list.count);
  if (!tokens->pieces) return SHOAL_OOM();
  for (int64_t i = 0; i < list.count; ++i) {
    shoal_token_piece_t *piece = &tokens->pieces[tokens->piece_count++];
    SHOAL_RETURN_IF_ERROR(shoal_data_file_open(list.items[i].path, &tokens->arena, &piece->file));
    piece->width = 1;
    piece->count = piece->file.size;
    tokens->count += piece->count;
  }
  return NULL;
}

static shoal_status_t open_windows(const char *path, const shoal_dataset_options_t *options,
                                   shoal_status_t (*open)(shoal_token_store_t *tokens,
                                                          const char *path,
                                                          const shoal_dataset_options_t *options),
                                   shoal_dataset_t **out_dataset) {
  shoal_token_store_t *tokens;
  SHOAL_RETURN_IF_ERROR(shoal_token_store_create(path, options->allocator, &tokens));
  shoal_status_t status = open(tokens, path, options);
  if (!status) return shoal_windows_create(tokens, shoal_data_length(options), out_dataset);
  shoal_token_store_release(tokens);
  return status;
}

shoal_status_t shoal_data_open_tokens(const char *path, const shoal_dataset_options_t *options,
                                      shoal_dataset_t **out_dataset) {
  return open_windows(path, options, open_tokens, out_dataset);
}

shoal_status_t shoal_data_open_bytes(const char *path, const shoal_dataset_options_t *options,
                                     shoal_dataset_t **out_dataset) {
  return open_windows(path, options, open_bytes, out_dataset);
}

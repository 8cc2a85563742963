// Files of bytes, which are tokens as they are.
#include "base/status.h"
#include "data/kinds.h"
#include "data/windows.h"

enum { BYTES = 256 };

shoal_status_t shoal_data_open_bytes(const char *path, const shoal_dataset_options_t *options,
                                     shoal_dataset_t **out_dataset) {
  shoal_tokens_t *tokens;
  SHOAL_RETURN_IF_ERROR(shoal_tokens_create(path, options->allocator, &tokens));
  tokens->classes = BYTES;
  shoal_data_list_t list;
  shoal_status_t status = shoal_data_list(path, &tokens->arena, &list);
  if (!status) {
    tokens->pieces = SHOAL_NEW(&tokens->arena, shoal_tokens_piece_t, list.count);
    if (!tokens->pieces) status = SHOAL_OOM();
  }
  for (int64_t i = 0; !status && i < list.count; ++i) {
    shoal_tokens_piece_t *piece = &tokens->pieces[tokens->piece_count];
    status = shoal_data_file_open(list.items[i].path, &tokens->arena, &piece->file);
    if (status) break;
    ++tokens->piece_count;
    piece->width = 1;
    piece->count = piece->file.size;
    tokens->count += piece->count;
  }
  if (!status) return shoal_windows_create(tokens, shoal_data_length(options), out_dataset);
  shoal_tokens_release(tokens);
  return status;
}

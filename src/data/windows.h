// Windows of tokens as a data set: columns ids and labels, i32 [T].
#ifndef SHOAL_DATA_WINDOWS_H_
#define SHOAL_DATA_WINDOWS_H_

#include <stdatomic.h>

#include "data/files.h"
#include "shoal/data.h"

// Tokens of one file, or in memory.
typedef struct shoal_token_piece {
  shoal_data_file_t file;  // not open: in memory
  const uint32_t *memory;
  int64_t offset;  // of the first token, in bytes
  int64_t count;
  int32_t width;  // bytes of a token: 1, 2, 4; 8 and those below 0 are signed
} shoal_token_piece_t;

// All tokens of a data set, shared by its parts.
typedef struct shoal_token_store {
  shoal_arena_t arena;  // it lies in memory of its own; pieces and paths in this
  _Atomic int64_t owners;
  const char *name;
  shoal_token_piece_t *pieces;
  int64_t piece_count, count;  // count: of tokens
  int64_t classes;             // they are below that; 0: not known
} shoal_token_store_t;

// Without pieces yet; one owner.
SHOAL_MUST_USE shoal_status_t shoal_token_store_create(const char *name,
                                                       shoal_allocator_t allocator,
                                                       shoal_token_store_t **out_tokens);
void shoal_token_store_release(shoal_token_store_t *tokens);  // NULL is allowed

// Windows of `length` over all tokens. Takes the caller's hold of `tokens`, also when it fails.
SHOAL_MUST_USE shoal_status_t shoal_windows_create(shoal_token_store_t *tokens, int64_t length,
                                                   shoal_dataset_t **out_dataset);

#endif  // SHOAL_DATA_WINDOWS_H_

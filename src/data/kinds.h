// Kinds of data sets: one function each, listed in kinds.inc, and what they share.
#ifndef SHOAL_DATA_KINDS_H_
#define SHOAL_DATA_KINDS_H_

#include "base/arena.h"
#include "shoal/data.h"

#define SHOAL_DATA_KIND(name, files, pixels)            \
  SHOAL_MUST_USE shoal_status_t shoal_data_open_##name( \
      const char *path, const shoal_dataset_options_t *options, shoal_dataset_t **out_dataset);
#include "data/kinds.inc"
#undef SHOAL_DATA_KIND

// What the model takes under that name; NULL: nothing, or it was not said.
const shoal_column_t *shoal_data_input(const shoal_dataset_options_t *options, const char *name);
// Tokens of a window, as the options or the model's ids have it; 0: neither says.
int64_t shoal_data_length(const shoal_dataset_options_t *options);

// The kind's name, from what the files hold. INVALID_ARGUMENT for what is known not to be data.
SHOAL_MUST_USE shoal_status_t shoal_data_recognise(const char *path,
                                                   const shoal_dataset_options_t *options,
                                                   const char **out_kind);

// Does a token file begin so, with a header?
bool shoal_data_has_token_header(const unsigned char *head, int64_t bytes);

bool shoal_data_is_image(const char *name);  // .png, .jpg or .jpeg

// "X.npy,Y.npy" or "a=A.npy,b=B.npy": files and their names, NULL where there are none. A file of
// just that name is one file.
typedef struct shoal_data_entry {
  const char *name, *path;
} shoal_data_entry_t;
typedef SHOAL_VEC(shoal_data_entry_t) shoal_data_list_t;
SHOAL_MUST_USE shoal_status_t shoal_data_list(const char *path, shoal_arena_t *arena,
                                              shoal_data_list_t *out_list);
// The same; of a folder all files with that ending, named by what stands before it. NOT_FOUND where
// it has none.
SHOAL_MUST_USE shoal_status_t shoal_data_files(const char *path, const char *ending,
                                               shoal_arena_t *arena, shoal_data_list_t *out_list);
// Text and tokens: of a folder that says in its files' names what is to train on ("train.bin",
// "val.bin"), those files, or (`test`) the ones to test on. Other folders are kept whole. A folder
// without .txt files is one of texts under any names (.md, .c), all of which are taken.
SHOAL_MUST_USE shoal_status_t shoal_data_text_files(const char *path, const char *ending, bool test,
                                                    shoal_arena_t *arena,
                                                    shoal_data_list_t *out_list);

#endif  // SHOAL_DATA_KINDS_H_

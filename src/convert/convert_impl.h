// Private to convert/.
//
//   convert.c   from checkpoint to checkpoint
//   place.c     where a tensor of theirs lies in a state of ours
//   config.c    config.json and settings
//   guard.c     what to read, what not to write over, weights of two names
#ifndef SHOAL_CONVERT_IMPL_H_
#define SHOAL_CONVERT_IMPL_H_

#include "base/arena.h"
#include "base/text.h"
#include "run/shards.h"
#include "shoal/convert.h"
#include "shoal/op.h"
#include "shoal/zoo.h"

// ---- place.c --------------------------------------------------------------------------

// A tensor of theirs as elements of one of ours: dims and strides in elements.
typedef struct shoal_convert_view {
  shoal_shape_t shape;  // theirs
  int64_t offset, strides[SHOAL_MAX_RANK];
} shoal_convert_view_t;

// INVALID_ARGUMENT where the entry does not fit a state of this shape.
SHOAL_MUST_USE shoal_status_t shoal_convert_place(const shoal_zoo_name_t *entry,
                                                  const shoal_shape_t *ours,
                                                  shoal_convert_view_t *out_view);
// Copies theirs, dense, into ours or (`back`) ours into theirs, converting elements.
void shoal_convert_copy(const shoal_convert_view_t *view, bool back, shoal_dtype_t from_dtype,
                        const void *from, shoal_dtype_t to_dtype, void *to);

// ---- config.c -------------------------------------------------------------------------

// The text of a config.json for the model, in the arena; the family has a model_type.
SHOAL_MUST_USE shoal_status_t shoal_convert_print_config(const shoal_zoo_t *zoo,
                                                         shoal_dtype_t dtype, shoal_arena_t *arena,
                                                         const char **out_text);

// ---- guard.c --------------------------------------------------------------------------

// The newest "step-N" of a folder of them; any other path as it is.
SHOAL_MUST_USE shoal_status_t shoal_convert_latest(const char *in, shoal_arena_t *arena,
                                                   const char **out_path);
// INVALID_ARGUMENT where `out` is the input's folder or holds checkpoints of training.
SHOAL_MUST_USE shoal_status_t shoal_convert_check_output(const char *in, const char *out,
                                                         shoal_arena_t *arena);
// INVALID_ARGUMENT where two tensors that are one weight differ.
SHOAL_MUST_USE shoal_status_t shoal_convert_check_same(const shoal_shard_tensor_t *first,
                                                       const shoal_shard_tensor_t *again);

#endif  // SHOAL_CONVERT_IMPL_H_

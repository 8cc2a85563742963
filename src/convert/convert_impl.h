// Private to convert/.
//
//   convert.c   from checkpoint to checkpoint
//   place.c     where a tensor of theirs lies in a state of ours
//   config.c    config.json and settings
//   rope.c      rotary positions in config.json
//   guard.c     what to read, what not to write over, weights of two names
#ifndef SHOAL_CONVERT_IMPL_H_
#define SHOAL_CONVERT_IMPL_H_

#include "base/arena.h"
#include "base/json.h"
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

// A value as text: null, true, 3, 0.5, a string.
SHOAL_MUST_USE shoal_status_t shoal_convert_value_text(const shoal_json_t *json,
                                                       shoal_arena_t *arena, const char **out_text);
// Whether the value is one of some, '|' between them: as texts, or as numbers (1 is 1.0).
bool shoal_convert_is_one_of(const char *values, const char *value);
// Adds the word NAME=VALUE, unless the value is NULL or null.
SHOAL_MUST_USE shoal_status_t shoal_convert_add_setting(const char *name, const shoal_json_t *value,
                                                        shoal_arena_t *arena, shoal_text_t *text);
// Writes a setting's text as what it is: a bool, a number, a string.
void shoal_convert_add_value(shoal_json_writer_t *w, const char *key, const char *text);

// ---- rope.c ---------------------------------------------------------------------------

// The base of rotary positions, or NULL.
const shoal_json_t *shoal_convert_rope_base(const shoal_json_t *config);
// Adds the settings that stretch positions. UNSUPPORTED where the zoo has none such.
SHOAL_MUST_USE shoal_status_t shoal_convert_rope_read(const shoal_json_t *config,
                                                      const shoal_zoo_family_t *family,
                                                      shoal_arena_t *arena, shoal_text_t *text);
// The same back.
void shoal_convert_rope_write(const shoal_zoo_t *zoo, shoal_arena_t *arena, shoal_json_writer_t *w);

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

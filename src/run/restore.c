// Loading states. Takes memory for a rank's part and the span of the file that it lies in.
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "op/type.h"
#include "run/checkpoint.h"
#include "run/run_impl.h"
#include "run/shards.h"
#include "run/states.h"

typedef struct loader {
  shoal_runner_t *runner;
  const shoal_load_options_t *options;
  shoal_shards_t shards;
  bool *loads;        // of each state
  bool has_training;  // the model has states of training
  shoal_load_report_t report;
} loader_t;

static bool means(const loader_t *loader, const char *name) {
  return shoal_checkpoint_means(loader->options->training, loader->options->only, name);
}

static void add_name(char names[256], const char *name) {
  const size_t length = strlen(names), room = 256 - length;
  if (room > strlen(name) + 8) {
    snprintf(names + length, room, "%s%s", length ? ", " : "", name);
  } else if (room > 5 && (length < 3 || strcmp(names + length - 3, "...") != 0)) {
    snprintf(names + length, room, ", ...");
  }
}

// ---- what fits ------------------------------------------------------------------------

// Names with dots and none with a slash: another library's.
static bool foreign(const shoal_shards_t *shards) {
  bool dots = false;
  for (int64_t i = 0; i < shards->count; ++i) {
    if (strchr(shards->tensors[i].tensor->name, '/')) return false;
    dots |= strchr(shards->tensors[i].tensor->name, '.') != NULL;
  }
  return dots;
}

static shoal_status_t missing(loader_t *loader, const shoal_program_state_t *state) {
  ++loader->report.missing;
  add_name(loader->report.missing_names, state->name);
  if (loader->options->keep_missing) return NULL;
  const bool training = shoal_checkpoint_is_training(state->name);
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                          foreign(&loader->shards)
                              ? "its names are another library's: `shoal convert` brings those of "
                                "Hugging Face to Shoal's"
                          : training ? "it may hold weights alone: load it with shoal_load_with, "
                                       "which leaves the optimizer as it is"
                                     : "was it saved from another model? `keep_missing` of "
                                       "shoal_load_with leaves such states as they are",
                          "%s: tensor '%s' is missing", loader->shards.path, state->name);
}

static shoal_status_t check_state(loader_t *loader, const shoal_program_state_t *state,
                                  bool *out_loads) {
  const shoal_shard_tensor_t *found = shoal_shards_find(&loader->shards, state->name);
  *out_loads = found != NULL;
  if (!found) return missing(loader, state);
  ++loader->report.loaded;
  const shoal_type_t *type = &found->tensor->type;
  if (shoal_type_equal(type, &state->type)) return NULL;
  const bool castable = shoal_shape_equal(&type->shape, &state->type.shape) &&
                        shoal_dtype_is_real(type->dtype) && shoal_dtype_is_real(state->type.dtype);
  if (castable && loader->options->cast) {
    ++loader->report.cast;
    return NULL;
  }
  char has[SHOAL_TYPE_SIZE], needs[SHOAL_TYPE_SIZE];
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                          castable ? "`cast` of shoal_load_with converts it" : NULL,
                          "%s: tensor '%s' is %s, the model has %s", found->file->path, state->name,
                          shoal_type_format(type, has, sizeof has),
                          shoal_type_format(&state->type, needs, sizeof needs));
}

// A tensor that no state is loaded from.
static shoal_status_t check_extra(loader_t *loader, const char *name) {
  const bool training = shoal_checkpoint_is_training(name);
  if (training && (!loader->options->training || !loader->has_training)) {
    ++loader->report.training;
    return NULL;
  }
  if (!means(loader, name)) return NULL;
  ++loader->report.extra;
  add_name(loader->report.extra_names, name);
  if (loader->options->ignore_extra) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                          training ? "it was saved with another optimizer: shoal_load_with loads "
                                     "the weights alone"
                                   : "was it saved from another model? `ignore_extra` of "
                                     "shoal_load_with passes over such tensors",
                          "%s: the model has no state for tensor '%s'", loader->shards.path, name);
}

static shoal_status_t check_tensors(loader_t *loader, shoal_arena_t *arena) {
  const shoal_program_t *program = loader->runner->program;
  bool *taken = SHOAL_NEW(arena, bool, loader->shards.count);
  loader->loads = SHOAL_NEW(arena, bool, program->state_count);
  if (!taken || !loader->loads) return SHOAL_OOM();
  int64_t meant = 0;
  for (int64_t i = 0; i < program->state_count; ++i) {
    const shoal_program_state_t *state = &program->states[i];
    if (!state->saved) continue;
    loader->has_training |= shoal_checkpoint_is_training(state->name);
    if (!means(loader, state->name)) continue;
    ++meant;
    SHOAL_RETURN_IF_ERROR(check_state(loader, state, &loader->loads[i]));
    if (!loader->loads[i]) continue;
    taken[shoal_shards_find(&loader->shards, state->name) - loader->shards.tensors] = true;
  }
  if (loader->options->only && meant == 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "no state of the model matches '%s'",
                       loader->options->only);
  }
  for (int64_t t = 0; t < loader->shards.count; ++t) {
    if (taken[t]) continue;
    SHOAL_RETURN_IF_ERROR(check_extra(loader, loader->shards.tensors[t].tensor->name));
  }
  return NULL;
}

// ---- reading --------------------------------------------------------------------------

// Elements [*out_low, *out_high) of the whole in which the part lies.
static void span_of(const shoal_run_state_part_t *part, int64_t *out_low, int64_t *out_high) {
  *out_low = *out_high = 0;
  for (int64_t i = 0; i < part->piece_count; ++i) {
    const shoal_piece_t *piece = &part->pieces[i];
    int64_t last = piece->src_offset;
    for (int32_t d = 0; d < piece->rank; ++d) last += (piece->size[d] - 1) * piece->src_stride[d];
    if (i == 0 || piece->src_offset < *out_low) *out_low = piece->src_offset;
    if (i == 0 || last + 1 > *out_high) *out_high = last + 1;
  }
}

static void cast(shoal_dtype_t from, const void *data, shoal_dtype_t to, int64_t count, void *out) {
  for (int64_t i = 0; i < count; ++i) {
    shoal_dtype_store(to, out, i, shoal_dtype_load(from, data, i));
  }
}

static shoal_status_t load_state(loader_t *loader, int64_t state, shoal_arena_t *arena) {
  shoal_runner_t *runner = loader->runner;
  const shoal_shard_tensor_t *found =
      shoal_shards_find(&loader->shards, runner->program->states[state].name);
  shoal_run_state_part_t part;
  SHOAL_RETURN_IF_ERROR(shoal_run_state_pieces(runner, state, arena, &part));
  int64_t low, high;
  span_of(&part, &low, &high);
  const shoal_dtype_t dtype = found->tensor->type.dtype;
  const int64_t element = (int64_t)shoal_dtype_size(dtype), count = high - low;
  char *span = shoal_arena_alloc(arena, (size_t)count, (size_t)element);
  shoal_piece_t *pieces =
      shoal_arena_copy(arena, part.pieces, (size_t)part.piece_count, sizeof *pieces);
  if (!span || !pieces) return SHOAL_OOM();
  for (int64_t i = 0; i < part.piece_count; ++i) pieces[i].src_offset -= low;
  part.pieces = pieces;
  SHOAL_RETURN_IF_ERROR(shoal_safetensors_read(found->file, found->tensor->begin + low * element,
                                               count * element, span));
  if (dtype != part.dtype) {
    char *wide = shoal_arena_alloc(arena, (size_t)count, shoal_dtype_size(part.dtype));
    if (!wide) return SHOAL_OOM();
    cast(dtype, span, part.dtype, count, wide);
    span = wide;
  }
  return shoal_run_state_store(runner, &part, span, arena);
}

static shoal_status_t load_states(loader_t *loader) {
  shoal_status_t status = NULL;
  for (int64_t i = 0; i < loader->runner->program->state_count && !status; ++i) {
    if (!loader->loads[i]) continue;
    shoal_arena_t scratch;
    shoal_arena_init(loader->runner->allocator, &scratch);
    status = load_state(loader, i, &scratch);
    shoal_arena_deinit(&scratch);
  }
  return status;
}

static shoal_status_t open_checkpoint(loader_t *loader, const char *path, shoal_arena_t *arena) {
  SHOAL_RETURN_IF_ERROR(shoal_shards_open(path, arena, &loader->shards));
  return check_tensors(loader, arena);
}

shoal_status_t shoal_checkpoint_load(shoal_runner_t *runner, const char *path,
                                     const shoal_load_options_t *options) {
  loader_t loader = {.runner = runner, .options = options};
  shoal_arena_t arena;
  shoal_arena_init(runner->allocator, &arena);
  shoal_status_t status = shoal_runner_agree(runner, open_checkpoint(&loader, path, &arena));
  if (!status) status = shoal_runner_agree(runner, load_states(&loader));
  shoal_shards_close(&loader.shards);
  shoal_arena_deinit(&arena);
  if (status) return shoal_status_annotatef(status, "while loading '%s'", path);
  if (options->report) *options->report = loader.report;
  return NULL;
}

shoal_status_t shoal_checkpoint_note(const char *path, const char *name, shoal_arena_t *arena,
                                     const char **out_text) {
  *out_text = NULL;
  if (!path || !path[0]) return SHOAL_ERROR(INVALID_ARGUMENT, "there is no path");
  shoal_shards_t shards;
  SHOAL_RETURN_IF_ERROR(shoal_shards_open(path, arena, &shards));
  if (shards.file_count > 0) *out_text = shoal_safetensors_note(&shards.files[0], name);
  shoal_shards_close(&shards);
  return NULL;
}

// Loading states. Every rank reads its own part from where it lies in the files, and takes memory
// for that. A first pass looks for damage: each byte is read by one rank that holds it.
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"
#include "op/reduce.h"
#include "op/type.h"
#include "run/checkpoint.h"
#include "run/owned.h"
#include "run/run_impl.h"
#include "run/shards.h"
#include "run/states.h"

typedef struct loader {
  shoal_runner_t *runner;
  const shoal_load_options_t *options;
  shoal_shards_t shards;
  shoal_arena_t arena;
  const shoal_shard_tensor_t **sources;  // of each state; NULL: it stays as it is
  bool *taken;                           // of each tensor: it has a state
  bool has_training;                     // the model has states of training
  uint64_t *sums;                        // of each state's tensor: of this rank's own elements
  int64_t *words;                        // to join them
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

const shoal_shard_tensor_t *shoal_checkpoint_average(const shoal_shards_t *shards, const char *name,
                                                     shoal_arena_t *arena) {
  const char *average = shoal_arena_printf(arena, "%s#average", name);
  return average ? shoal_shards_find(shards, average) : NULL;
}

// The tensor of a state: its moving average, where that is asked for and there is one.
static const shoal_shard_tensor_t *find_source(loader_t *loader, const char *name) {
  const shoal_shard_tensor_t *found = shoal_shards_find(&loader->shards, name);
  if (found) loader->taken[found - loader->shards.tensors] = true;
  const shoal_shard_tensor_t *average =
      shoal_checkpoint_average(&loader->shards, name, &loader->arena);
  if (!average) return found;
  ++loader->report.averages;
  return loader->options->averages ? average : found;
}

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
                          : training ? "it may hold weights alone: load those without the states "
                                       "of training (shoal_load_with, shoal train --load)"
                                     : "was it saved from another model? Such states can be left "
                                       "as they are (keep_missing, --missing keep)",
                          "%s: tensor '%s' is missing", loader->shards.path, state->name);
}

// What an average that the checkpoint lacks begins with: its parameter, not zeros that thousands of
// updates would hardly outweigh.
static const shoal_shard_tensor_t *find_beginning(loader_t *loader, const char *name) {
  const char *mark = strchr(name, '#');
  if (!mark || strcmp(mark, "#average") != 0) return NULL;
  const char *parameter = shoal_arena_printf(&loader->arena, "%.*s", (int)(mark - name), name);
  return parameter ? shoal_shards_find(&loader->shards, parameter) : NULL;
}

static shoal_status_t check_state(loader_t *loader, const shoal_program_state_t *state,
                                  const shoal_shard_tensor_t **out_source) {
  const shoal_shard_tensor_t *found = find_source(loader, state->name);
  if (found) {
    ++loader->report.loaded;
  } else {
    SHOAL_RETURN_IF_ERROR(missing(loader, state));
    found = find_beginning(loader, state->name);
  }
  *out_source = found;
  if (!found) return NULL;
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
                          castable ? "give the model this type; weights alone can be converted "
                                     "while they are loaded (cast, shoal train --load)"
                                   : "the model has other sizes than the one that was saved",
                          "%s: tensor '%s' is %s, the model has %s", found->file->path,
                          found->tensor->name, shoal_type_format(type, has, sizeof has),
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
                          training ? "it was saved with another optimizer: load the weights alone "
                                     "(shoal_load_with, shoal train --load)"
                                   : "was it saved from another model? Such tensors can be passed "
                                     "over (ignore_extra, --extra ignore)",
                          "%s: the model has no state for tensor '%s'", loader->shards.path, name);
}

static shoal_status_t check_tensors(loader_t *loader) {
  const shoal_program_t *program = loader->runner->program;
  loader->taken = SHOAL_NEW(&loader->arena, bool, loader->shards.count);
  loader->sources = SHOAL_NEW(&loader->arena, const shoal_shard_tensor_t *, program->state_count);
  if (!loader->taken || !loader->sources) return SHOAL_OOM();
  int64_t meant = 0;
  for (int64_t i = 0; i < program->state_count; ++i) {
    const shoal_program_state_t *state = &program->states[i];
    if (!state->saved) continue;
    loader->has_training |= shoal_checkpoint_is_training(state->name);
    if (!means(loader, state->name)) continue;
    ++meant;
    SHOAL_RETURN_IF_ERROR(check_state(loader, state, &loader->sources[i]));
  }
  if (loader->options->only && meant == 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "no state of the model matches '%s'",
                       loader->options->only);
  }
  for (int64_t t = 0; t < loader->shards.count; ++t) {
    if (loader->taken[t]) continue;
    SHOAL_RETURN_IF_ERROR(check_extra(loader, loader->shards.tensors[t].tensor->name));
  }
  return NULL;
}

// ---- checksums ------------------------------------------------------------------------

// Files of older versions: tensors are dealt out to the ranks, each to the one with the fewest
// bytes so far, so that together they look at every byte once.
static shoal_status_t check_old_sums(loader_t *loader) {
  const shoal_runner_t *runner = loader->runner;
  const int32_t ranks = runner->program->world;
  int64_t *bytes = SHOAL_NEW(&loader->arena, int64_t, ranks);
  if (!bytes) return SHOAL_OOM();
  shoal_status_t status = NULL;
  for (int64_t i = 0; i < runner->program->state_count && !status; ++i) {
    const shoal_shard_tensor_t *source = loader->sources[i];
    if (!source || shoal_safetensors_has_sums(source->file)) continue;
    int32_t least = 0;
    for (int32_t rank = 1; rank < ranks; ++rank)
      if (bytes[rank] < bytes[least]) least = rank;
    bytes[least] += source->tensor->end - source->tensor->begin;
    if (least != runner->rank) continue;
    shoal_arena_t scratch;
    shoal_arena_init(runner->allocator, &scratch);
    status = shoal_safetensors_check(source->file, source->tensor, &scratch);
    shoal_arena_deinit(&scratch);
  }
  return status;
}

typedef struct summer {
  loader_t *loader;
  const shoal_shard_tensor_t *source;
  char *piece;
  uint64_t sum;
} summer_t;

enum { PIECE = 1 << 18 };  // bytes that are looked at, or converted, at a time

static shoal_status_t sum_run(void *self, int64_t whole, int64_t part, int64_t count) {
  summer_t *summer = self;
  (void)part;
  const shoal_shard_tensor_t *source = summer->source;
  const int64_t element = (int64_t)shoal_dtype_size(source->tensor->type.dtype);
  const int64_t end = (whole + count) * element;
  for (int64_t at = whole * element; at < end; at += PIECE) {
    const int64_t bytes = end - at < PIECE ? end - at : PIECE;
    SHOAL_RETURN_IF_ERROR(
        shoal_safetensors_read(source->file, source->tensor->begin + at, bytes, summer->piece));
    summer->sum = shoal_parts_sum(summer->sum, at, summer->piece, (size_t)bytes);
    summer->loader->report.bytes_read += bytes;
  }
  return NULL;
}

// Every rank looks at its own elements of each tensor, and their sums are joined.
static shoal_status_t sum_own(loader_t *loader) {
  const shoal_program_t *program = loader->runner->program;
  loader->sums = SHOAL_NEW(&loader->arena, uint64_t, program->state_count);
  loader->words = SHOAL_NEW(&loader->arena, int64_t, 2 * program->state_count);
  char *piece = shoal_arena_alloc(&loader->arena, PIECE, 1);
  if (!loader->sums || !loader->words || !piece) return SHOAL_OOM();
  shoal_status_t status = NULL;
  for (int64_t i = 0; i < program->state_count && !status; ++i) {
    const shoal_shard_tensor_t *source = loader->sources[i];
    if (!source || !shoal_safetensors_has_sums(source->file)) continue;
    shoal_arena_t scratch;
    shoal_arena_init(loader->runner->allocator, &scratch);
    shoal_owned_t owned;
    summer_t summer = {.loader = loader, .source = source, .piece = piece};
    status = shoal_owned_find(loader->runner, i, &scratch, &owned);
    if (!status)
      status =
          shoal_owned_walk(owned.piece_count, owned.pieces, owned.from, owned.to, sum_run, &summer);
    loader->sums[i] = summer.sum;
    shoal_arena_deinit(&scratch);
  }
  return status;
}

static shoal_status_t compare_sums(const loader_t *loader) {
  for (int64_t i = 0; i < loader->runner->program->state_count; ++i) {
    const shoal_shard_tensor_t *source = loader->sources[i];
    if (source)
      SHOAL_RETURN_IF_ERROR(
          shoal_safetensors_compare(source->file, source->tensor, loader->sums[i]));
  }
  return NULL;
}

// ---- reading --------------------------------------------------------------------------

typedef struct reader {
  loader_t *loader;
  const shoal_shard_tensor_t *source;
  shoal_dtype_t dtype;  // of the state
  char *piece;
  char *part;
} reader_t;

static shoal_status_t read_run(void *self, int64_t whole, int64_t part, int64_t count) {
  reader_t *reader = self;
  const shoal_shard_tensor_t *source = reader->source;
  const shoal_dtype_t from = source->tensor->type.dtype;
  const int64_t element = (int64_t)shoal_dtype_size(from);
  const int64_t begin = source->tensor->begin + whole * element;
  reader->loader->report.bytes_read += count * element;
  if (from == reader->dtype)
    return shoal_safetensors_read(source->file, begin, count * element,
                                  reader->part + part * element);
  for (int64_t done = 0; done < count;) {
    const int64_t most = PIECE / element, n = count - done < most ? count - done : most;
    SHOAL_RETURN_IF_ERROR(
        shoal_safetensors_read(source->file, begin + done * element, n * element, reader->piece));
    for (int64_t e = 0; e < n; ++e)
      shoal_dtype_store(reader->dtype, reader->part, part + done + e,
                        shoal_dtype_load(from, reader->piece, e));
    done += n;
  }
  return NULL;
}

// Reads the runs of the file that this rank's part consists of, and no others.
static shoal_status_t load_state(loader_t *loader, int64_t state, shoal_arena_t *arena) {
  shoal_runner_t *runner = loader->runner;
  shoal_run_state_part_t part;
  SHOAL_RETURN_IF_ERROR(shoal_run_state_pieces(runner, state, arena, &part));
  if (part.count == 0) return NULL;
  reader_t reader = {.loader = loader, .source = loader->sources[state], .dtype = part.dtype};
  const int64_t bytes = part.count * (int64_t)shoal_dtype_size(part.dtype);
  reader.part = shoal_arena_alloc(arena, (size_t)bytes, 1);
  reader.piece = reader.source->tensor->type.dtype == part.dtype
                     ? reader.part
                     : shoal_arena_alloc(arena, PIECE, 1);
  if (!reader.part || !reader.piece) return SHOAL_OOM();
  if (part.clear) shoal_reduce_fill(part.dtype, part.reduce, part.count, reader.part);
  SHOAL_RETURN_IF_ERROR(
      shoal_owned_walk(part.piece_count, part.pieces, 0, INT64_MAX, read_run, &reader));
  return shoal_run_part_write(runner, &part.part, bytes, reader.part);
}

static shoal_status_t load_states(loader_t *loader) {
  shoal_status_t status = NULL;
  for (int64_t i = 0; i < loader->runner->program->state_count && !status; ++i) {
    if (!loader->sources[i]) continue;
    shoal_arena_t scratch;
    shoal_arena_init(loader->runner->allocator, &scratch);
    status = load_state(loader, i, &scratch);
    shoal_arena_deinit(&scratch);
  }
  return status;
}

static shoal_status_t open_checkpoint(loader_t *loader, const char *path) {
  SHOAL_RETURN_IF_ERROR(shoal_shards_open(path, &loader->arena, &loader->shards));
  SHOAL_RETURN_IF_ERROR(check_tensors(loader));
  SHOAL_RETURN_IF_ERROR(check_old_sums(loader));
  return sum_own(loader);
}

// Nothing is set unless all of it is as it was saved.
static shoal_status_t check_sums(loader_t *loader) {
  shoal_runner_t *runner = loader->runner;
  shoal_status_t broken = shoal_run_sums_join(runner->everyone, runner->program->state_count,
                                              loader->sums, loader->words);
  if (broken) return shoal_run_finish(runner, broken);
  return shoal_runner_agree(runner, compare_sums(loader));
}

shoal_status_t shoal_checkpoint_load(shoal_runner_t *runner, const char *path,
                                     const shoal_load_options_t *options) {
  SHOAL_RETURN_IF_ERROR(shoal_run_save_wait(runner));
  loader_t loader = {.runner = runner, .options = options};
  shoal_arena_init(runner->allocator, &loader.arena);
  shoal_status_t status = shoal_runner_agree(runner, open_checkpoint(&loader, path));
  if (!status) status = check_sums(&loader);
  if (!status) status = shoal_runner_agree(runner, load_states(&loader));
  shoal_shards_close(&loader.shards);
  shoal_arena_deinit(&loader.arena);
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

// Saving states. Takes memory for the largest state on rank 0, twice if it is cast.
#include "run/checkpoint.h"

#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "base/text.h"
#include "op/type.h"
#include "run/run_impl.h"
#include "run/shards.h"
#include "run/states.h"

bool shoal_checkpoint_is_training(const char *name) {
  static const char *const words[] = {"lr", "step", "updates", "loss_scale"};
  if (strchr(name, '#')) return true;
  if (strchr(name, '/')) return false;
  const char *dot = strrchr(name, '.'), *word = dot ? dot + 1 : name;
  for (size_t i = 0; i < sizeof words / sizeof words[0]; ++i) {
    if (strcmp(word, words[i]) == 0) return true;
  }
  return false;
}

bool shoal_checkpoint_means(bool training, const char *only, const char *name) {
  if (!training && shoal_checkpoint_is_training(name)) return false;
  if (!only) return true;
  char pattern[1024];
  for (const char *at = only; *at;) {
    const size_t length = strcspn(at, ",");
    if (length < sizeof pattern) {
      memcpy(pattern, at, length);
      pattern[length] = 0;
      if (shoal_pattern_match(pattern, name)) return true;
    }
    at += length;
    if (*at) ++at;
  }
  return false;
}

typedef struct saver {
  shoal_runner_t *runner;
  const shoal_save_options_t *options;
  bool writes;  // this is rank 0
  bool casts;   // weights of floats, to dtype
  shoal_dtype_t dtype;
  int64_t state_count;
  int64_t *states;  // those that are saved
  shoal_safetensor_t *tensors;
  char *data, *narrow;  // rank 0: the largest state, as it is and as it is written
  SHOAL_VEC(shoal_safetensors_note_t) notes;
  shoal_shard_writer_t writer;
  shoal_arena_t arena;
} saver_t;

static shoal_status_t choose_dtype(saver_t *saver) {
  const char *name = saver->options->dtype;
  saver->casts = name != NULL;
  if (!name || (shoal_dtype_parse(name, &saver->dtype) && shoal_dtype_is_real(saver->dtype)))
    return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "one of f64, f32, bf16, f16, f8_e4m3, f8_e5m2",
                          "weights cannot be saved as '%s'", name);
}

static shoal_status_t prepare(saver_t *saver, const shoal_safetensors_note_t *notes,
                              int64_t note_count) {
  const shoal_program_t *program = saver->runner->program;
  const shoal_save_options_t *options = saver->options;
  SHOAL_RETURN_IF_ERROR(choose_dtype(saver));
  saver->states = SHOAL_NEW(&saver->arena, int64_t, program->state_count);
  saver->tensors = SHOAL_NEW(&saver->arena, shoal_safetensor_t, program->state_count);
  if (!saver->states || !saver->tensors) return SHOAL_OOM();
  int64_t most = 1, most_written = 1;
  for (int64_t i = 0; i < program->state_count; ++i) {
    const shoal_program_state_t *state = &program->states[i];
    if (!state->saved || !shoal_checkpoint_means(options->training, options->only, state->name))
      continue;
    shoal_safetensor_t *tensor = &saver->tensors[saver->state_count];
    *tensor = (shoal_safetensor_t){.name = state->name, .type = state->type};
    if (saver->casts && shoal_dtype_is_real(state->type.dtype) &&
        !shoal_checkpoint_is_training(state->name)) {
      tensor->type.dtype = saver->dtype;
    }
    saver->states[saver->state_count++] = i;
    const int64_t bytes = shoal_type_bytes(&state->type), to = shoal_type_bytes(&tensor->type);
    if (bytes > most) most = bytes;
    if (to > most_written) most_written = to;
  }
  if (saver->state_count == 0 && program->state_count > 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "no state of the model is meant: nothing would be saved");
  }
  if (!saver->writes) return NULL;
  saver->data = shoal_arena_alloc(&saver->arena, (size_t)most, 1);
  saver->narrow = saver->casts ? shoal_arena_alloc(&saver->arena, (size_t)most_written, 1) : NULL;
  if (!saver->data || (saver->casts && !saver->narrow)) return SHOAL_OOM();
  for (int64_t i = 0; i < note_count; ++i) {
    if (!SHOAL_PUSH(&saver->arena, &saver->notes, notes[i])) return SHOAL_OOM();
  }
  return NULL;
}

static shoal_status_t add_note(saver_t *saver, const char *name) {
  if (!saver->writes) return NULL;
  const int64_t value = shoal_dtype_load_int(SHOAL_I64, saver->data, 0);
  const char *text = shoal_arena_printf(&saver->arena, "%lld", (long long)value);
  return text && SHOAL_PUSH(&saver->arena, &saver->notes, ((shoal_safetensors_note_t){name, text}))
             ? NULL
             : SHOAL_OOM();
}

// Scalars that the header repeats. Its errors are agreed.
static shoal_status_t gather_notes(saver_t *saver) {
  for (int64_t i = 0; i < saver->state_count; ++i) {
    const shoal_safetensor_t *tensor = &saver->tensors[i];
    if (tensor->type.dtype != SHOAL_I64 || tensor->type.shape.rank != 0) continue;
    SHOAL_RETURN_IF_ERROR(shoal_runner_gather(saver->runner, saver->states[i], 0, saver->data));
    SHOAL_RETURN_IF_ERROR(shoal_runner_agree(saver->runner, add_note(saver, tensor->name)));
  }
  return NULL;
}

static shoal_status_t begin(saver_t *saver, const char *path) {
  if (!saver->writes) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_checkpoint_unlink(path));
  return shoal_shard_writer_begin(path, saver->state_count, saver->tensors, saver->notes.count,
                                  saver->notes.items, saver->options->shard_bytes, &saver->arena,
                                  &saver->writer);
}

static shoal_status_t write_state(saver_t *saver, int64_t i) {
  if (!saver->writes) return NULL;
  const shoal_type_t *from = &saver->runner->program->states[saver->states[i]].type;
  const shoal_type_t *to = &saver->tensors[i].type;
  if (from->dtype == to->dtype) return shoal_shard_writer_add(&saver->writer, saver->data);
  const int64_t count = shoal_shape_count(&from->shape);
  for (int64_t e = 0; e < count; ++e) {
    shoal_dtype_store(to->dtype, saver->narrow, e, shoal_dtype_load(from->dtype, saver->data, e));
  }
  return shoal_shard_writer_add(&saver->writer, saver->narrow);
}

// Phases that can fail on one rank end in an agreement: the others never wait for a rank that gave
// up.
static shoal_status_t save(saver_t *saver, const char *path, const shoal_safetensors_note_t *notes,
                           int64_t note_count) {
  shoal_runner_t *runner = saver->runner;
  SHOAL_RETURN_IF_ERROR(shoal_runner_agree(runner, prepare(saver, notes, note_count)));
  SHOAL_RETURN_IF_ERROR(gather_notes(saver));
  SHOAL_RETURN_IF_ERROR(shoal_runner_agree(runner, begin(saver, path)));
  for (int64_t i = 0; i < saver->state_count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_runner_gather(runner, saver->states[i], 0, saver->data));
    SHOAL_RETURN_IF_ERROR(shoal_runner_agree(runner, write_state(saver, i)));
  }
  return shoal_runner_agree(runner,
                            saver->writes ? shoal_shard_writer_finish(&saver->writer) : NULL);
}

shoal_status_t shoal_checkpoint_save(shoal_runner_t *runner, const char *path,
                                     const shoal_save_options_t *options,
                                     const shoal_safetensors_note_t *notes, int64_t note_count) {
  saver_t saver = {
      .runner = runner, .options = options, .writes = runner->rank == 0, .writer.file = -1};
  shoal_arena_init(runner->allocator, &saver.arena);
  shoal_status_t status = save(&saver, path, notes, note_count);
  if (status) shoal_shard_writer_abandon(&saver.writer);
  shoal_arena_deinit(&saver.arena);
  return status ? shoal_status_annotatef(status, "while saving '%s'", path) : NULL;
}

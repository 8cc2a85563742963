// Saving states. Takes memory for the largest state on rank 0, twice if it is cast.
#include "run/checkpoint.h"

#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "base/text.h"
#include "op/type.h"
#include "run/run_impl.h"
#include "run/saving.h"
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
    const size_t length = shoal_pattern_length(at);
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

static shoal_status_t choose_dtype(shoal_saving_t *saving) {
  const char *name = saving->options.dtype;
  saving->casts = name != NULL;
  if (!name || (shoal_dtype_parse(name, &saving->dtype) && shoal_dtype_is_real(saving->dtype)))
    return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "one of f64, f32, bf16, f16, f8_e4m3, f8_e5m2",
                          "weights cannot be saved as '%s'", name);
}

static bool is_saved(const shoal_saving_t *saving, const shoal_program_state_t *state) {
  return state->saved &&
         shoal_checkpoint_means(saving->options.training, saving->options.only, state->name);
}

static shoal_status_t list_states(shoal_saving_t *saving) {
  const shoal_program_t *program = saving->runner->program;
  const int64_t most = program->state_count;
  saving->states = SHOAL_NEW(&saving->arena, int64_t, most);
  saving->tensors = SHOAL_NEW(&saving->arena, shoal_safetensor_t, most);
  saving->owned = SHOAL_NEW(&saving->arena, shoal_owned_t, most);
  saving->packed = SHOAL_NEW(&saving->arena, char *, most);
  if (!saving->states || !saving->tensors || !saving->owned || !saving->packed) return SHOAL_OOM();
  for (int64_t i = 0; i < program->state_count; ++i) {
    const shoal_program_state_t *state = &program->states[i];
    if (!is_saved(saving, state)) continue;
    shoal_safetensor_t *tensor = &saving->tensors[saving->count];
    *tensor = (shoal_safetensor_t){.name = state->name, .type = state->type};
    if (saving->casts && shoal_dtype_is_real(state->type.dtype) &&
        !shoal_checkpoint_is_training(state->name)) {
      tensor->type.dtype = saving->dtype;
    }
    SHOAL_RETURN_IF_ERROR(
        shoal_owned_find(saving->runner, i, &saving->arena, &saving->owned[saving->count]));
    saving->states[saving->count++] = i;
  }
  if (saving->count > 0 || program->state_count == 0) return NULL;
  return SHOAL_ERROR(INVALID_ARGUMENT, "no state of the model is meant: nothing would be saved");
}

static shoal_status_t prepare(shoal_saving_t *saving, const shoal_safetensors_note_t *notes,
                              int64_t note_count) {
  SHOAL_RETURN_IF_ERROR(choose_dtype(saving));
  SHOAL_RETURN_IF_ERROR(list_states(saving));
  int64_t most_part = 1, most_own = 1;
  for (int64_t i = 0; i < saving->count; ++i) {
    const shoal_type_t *type = &saving->runner->program->states[saving->states[i]].type;
    const int64_t part = saving->owned[i].part_count * (int64_t)shoal_dtype_size(type->dtype);
    const int64_t own = shoal_saving_bytes(saving, i);
    if (part > most_part) most_part = part;
    if (own > most_own) most_own = own;
  }
  saving->part = shoal_arena_alloc(&saving->arena, (size_t)most_part, 1);
  saving->own =
      saving->options.async ? NULL : shoal_arena_alloc(&saving->arena, (size_t)most_own, 1);
  saving->words = SHOAL_NEW(&saving->arena, int64_t, 2 * saving->count);
  if (!saving->words || !saving->part || (!saving->own && !saving->options.async))
    return SHOAL_OOM();
  for (int64_t i = 0; i < note_count && saving->leads; ++i) {
    const shoal_safetensors_note_t note = {shoal_arena_strdup(&saving->arena, notes[i].key),
                                           shoal_arena_strdup(&saving->arena, notes[i].value)};
    if (!note.key || !note.value || !SHOAL_PUSH(&saving->arena, &saving->notes, note))
      return SHOAL_OOM();
  }
  return NULL;
}

static shoal_status_t add_note(shoal_saving_t *saving, const char *name, int64_t value) {
  if (!saving->leads) return NULL;
  const char *text = shoal_arena_printf(&saving->arena, "%lld", (long long)value);
  return text && SHOAL_PUSH(&saving->arena, &saving->notes,
                            ((shoal_safetensors_note_t){name, text}))
             ? NULL
             : SHOAL_OOM();
}

// Scalars that the header repeats. Its errors are agreed.
static shoal_status_t gather_notes(shoal_saving_t *saving) {
  for (int64_t i = 0; i < saving->count; ++i) {
    const shoal_safetensor_t *tensor = &saving->tensors[i];
    if (tensor->type.dtype != SHOAL_I64 || tensor->type.shape.rank != 0) continue;
    int64_t value = 0;
    SHOAL_RETURN_IF_ERROR(shoal_runner_gather(saving->runner, saving->states[i], 0, &value));
    SHOAL_RETURN_IF_ERROR(
        shoal_runner_agree(saving->runner, add_note(saving, tensor->name, value)));
  }
  return NULL;
}

// Rank 0 makes the files, and tells the others.
static shoal_status_t lead(shoal_saving_t *saving, int64_t **out_words, int64_t *out_count) {
  SHOAL_RETURN_IF_ERROR(shoal_shard_writer_words(
      saving->count, saving->tensors, saving->options.shard_bytes, &saving->arena, out_count));
  *out_words = SHOAL_NEW(&saving->arena, int64_t, *out_count);
  if (!*out_words) return SHOAL_OOM();
  if (!saving->leads) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_checkpoint_unlink(saving->path));
  SHOAL_RETURN_IF_ERROR(shoal_shard_writer_begin(
      saving->path, saving->count, saving->tensors, saving->notes.count, saving->notes.items,
      saving->options.shard_bytes, &saving->arena, &saving->writer));
  shoal_shard_writer_tell(&saving->writer, *out_words);
  return NULL;
}

static shoal_status_t begin(shoal_saving_t *saving) {
  shoal_runner_t *runner = saving->runner;
  int64_t *words = NULL, count = 0;
  SHOAL_RETURN_IF_ERROR(shoal_runner_agree(runner, lead(saving, &words, &count)));
  if (!runner->everyone) return NULL;
  shoal_status_t broken =
      shoal_broadcast(runner->everyone, words, count * (int64_t)sizeof *words, 0);
  if (broken) return shoal_run_finish(runner, broken);
  shoal_status_t status =
      saving->leads ? NULL
                    : shoal_shard_writer_join(saving->path, saving->count, saving->tensors,
                                              saving->options.shard_bytes, words, &saving->arena,
                                              &saving->writer);
  return shoal_runner_agree(runner, status);
}

// Phases that can fail on one rank end in an agreement: the others never wait for a rank that gave
// up.
static shoal_status_t save(shoal_saving_t *saving, const shoal_safetensors_note_t *notes,
                           int64_t note_count) {
  SHOAL_RETURN_IF_ERROR(shoal_runner_agree(saving->runner, prepare(saving, notes, note_count)));
  SHOAL_RETURN_IF_ERROR(gather_notes(saving));
  SHOAL_RETURN_IF_ERROR(begin(saving));
  return saving->options.async ? shoal_saving_start(saving) : shoal_saving_run(saving);
}

static shoal_status_t create(shoal_runner_t *runner, const char *path,
                             const shoal_save_options_t *options, shoal_saving_t **out_saving) {
  const shoal_allocator_t allocator = runner->allocator;
  shoal_saving_t *saving = allocator.alloc(allocator.self, sizeof *saving);
  if (!saving) return SHOAL_OOM();
  *saving = (shoal_saving_t){
      .runner = runner, .options = *options, .leads = runner->rank == 0, .writer.file = -1};
  shoal_arena_init(allocator, &saving->arena);
  saving->path = shoal_arena_strdup(&saving->arena, path);
  *out_saving = saving;
  return saving->path ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_checkpoint_save(shoal_runner_t *runner, const char *path,
                                     const shoal_save_options_t *options,
                                     const shoal_safetensors_note_t *notes, int64_t note_count) {
  shoal_saving_t *saving = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_run_save_wait(runner));
  shoal_status_t status = shoal_runner_agree(runner, create(runner, path, options, &saving));
  if (!status) status = save(saving, notes, note_count);
  if (saving && runner->saving == saving) return NULL;  // goes on beside the runs
  if (saving) shoal_shard_writer_abandon(&saving->writer);
  shoal_saving_free(saving);
  return status ? shoal_status_annotatef(status, "while saving '%s'", path) : NULL;
}

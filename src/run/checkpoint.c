// Saving and loading states. Saving takes memory for the largest state on rank 0; loading for a
// rank's part and the span of the file that it lies in.
#include "run/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "op/type.h"
#include "run/run_impl.h"
#include "run/states.h"

#define FILE_NAME "model.safetensors"

static shoal_status_t failed(const char *what, const char *path, int error) {
  return SHOAL_ERROR(IO, "cannot %s '%s': %s", what, path, strerror(error));
}

static shoal_status_t join_path(char out[PATH_MAX], const char *folder, const char *name) {
  int length = snprintf(out, PATH_MAX, "%s/%s", folder, name);
  return length < 0 || length >= PATH_MAX ? failed("use", folder, ENAMETOOLONG) : NULL;
}

// ---- saving ---------------------------------------------------------------------------

typedef struct saver {
  shoal_runner_t *runner;
  const char *path;
  bool writes;  // this is rank 0
  bool made_folder;
  int file;
  char temporary[PATH_MAX], final[PATH_MAX];
  int64_t state_count;
  int64_t *states;  // those that are saved
  shoal_safetensor_t *tensors;
  char *data;  // rank 0: the largest state
  SHOAL_VEC(shoal_safetensors_note_t) notes;
  shoal_arena_t arena;
} saver_t;

static shoal_status_t write_all(saver_t *saver, const char *data, int64_t bytes) {
  while (bytes > 0) {
    ssize_t done = write(saver->file, data, (size_t)bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return failed("write", saver->temporary, errno);
    data += done;
    bytes -= done;
  }
  return NULL;
}

static shoal_status_t prepare(saver_t *saver, const shoal_safetensors_note_t *notes,
                              int64_t note_count) {
  const shoal_program_t *program = saver->runner->program;
  saver->states = SHOAL_NEW(&saver->arena, int64_t, program->state_count);
  saver->tensors = SHOAL_NEW(&saver->arena, shoal_safetensor_t, program->state_count);
  if (!saver->states || !saver->tensors) return SHOAL_OOM();
  int64_t most = 1;
  for (int64_t i = 0; i < program->state_count; ++i) {
    const shoal_program_state_t *state = &program->states[i];
    if (!state->saved) continue;
    saver->tensors[saver->state_count] =
        (shoal_safetensor_t){.name = state->name, .type = state->type};
    saver->states[saver->state_count++] = i;
    const int64_t bytes = shoal_type_bytes(&state->type);
    if (bytes > most) most = bytes;
  }
  if (!saver->writes) return NULL;
  saver->data = shoal_arena_alloc(&saver->arena, (size_t)most, 1);
  if (!saver->data) return SHOAL_OOM();
  for (int64_t i = 0; i < note_count; ++i) {
    if (!SHOAL_PUSH(&saver->arena, &saver->notes, notes[i])) return SHOAL_OOM();
  }
  struct stat info;
  saver->made_folder = stat(saver->path, &info) != 0;
  SHOAL_RETURN_IF_ERROR(shoal_file_make_folder(saver->path));
  SHOAL_RETURN_IF_ERROR(join_path(saver->final, saver->path, FILE_NAME));
  SHOAL_RETURN_IF_ERROR(join_path(saver->temporary, saver->path, FILE_NAME ".tmp"));
  saver->file = open(saver->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  return saver->file < 0 ? failed("write", saver->temporary, errno) : NULL;
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

static shoal_status_t write_header(saver_t *saver) {
  if (!saver->writes) return NULL;
  const char *header;
  int64_t size;
  SHOAL_RETURN_IF_ERROR(shoal_safetensors_header(saver->tensors, saver->state_count,
                                                 saver->notes.items, saver->notes.count,
                                                 &saver->arena, &header, &size));
  return write_all(saver, header, size);
}

// The rename lasts once file and folder are synced.
static shoal_status_t publish(saver_t *saver) {
  if (!saver->writes) return NULL;
  if (fsync(saver->file) != 0 && errno != EINVAL && errno != EROFS) {
    return failed("write", saver->temporary, errno);
  }
  const int file = saver->file;
  saver->file = -1;
  if (close(file) != 0) return failed("write", saver->temporary, errno);
  if (rename(saver->temporary, saver->final) != 0) return failed("write", saver->final, errno);
  const int folder = open(saver->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    fsync(folder);  // best effort: some file systems refuse it
    close(folder);
  }
  return NULL;
}

// Phases that can fail on one rank end in an agreement: the others never wait for a rank that gave
// up.
static shoal_status_t save(saver_t *saver, const shoal_safetensors_note_t *notes,
                           int64_t note_count) {
  shoal_runner_t *runner = saver->runner;
  SHOAL_RETURN_IF_ERROR(shoal_runner_agree(runner, prepare(saver, notes, note_count)));
  SHOAL_RETURN_IF_ERROR(gather_notes(saver));
  SHOAL_RETURN_IF_ERROR(shoal_runner_agree(runner, write_header(saver)));
  for (int64_t i = 0; i < saver->state_count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_runner_gather(runner, saver->states[i], 0, saver->data));
    shoal_status_t status = NULL;
    if (saver->writes) {
      status = write_all(saver, saver->data, saver->tensors[i].end - saver->tensors[i].begin);
    }
    SHOAL_RETURN_IF_ERROR(shoal_runner_agree(runner, status));
  }
  return shoal_runner_agree(runner, publish(saver));
}

shoal_status_t shoal_checkpoint_save(shoal_runner_t *runner, const char *path,
                                     const shoal_safetensors_note_t *notes, int64_t note_count) {
  saver_t saver = {.runner = runner, .path = path, .writes = runner->rank == 0, .file = -1};
  shoal_arena_init(runner->allocator, &saver.arena);
  shoal_status_t status = save(&saver, notes, note_count);
  if (saver.file >= 0) close(saver.file);
  if (status && saver.temporary[0]) {
    unlink(saver.temporary);
    if (saver.made_folder) rmdir(path);  // only if it is empty
  }
  shoal_arena_deinit(&saver.arena);
  return status ? shoal_status_annotatef(status, "while saving '%s'", path) : NULL;
}

// ---- loading --------------------------------------------------------------------------

static shoal_status_t check_tensor(const shoal_safetensors_t *file,
                                   const shoal_program_state_t *state) {
  const shoal_safetensor_t *tensor = shoal_safetensors_find(file, state->name);
  if (!tensor) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "was it saved from another model or optimizer?",
                            "%s: tensor '%s' is missing", file->path, state->name);
  }
  if (shoal_type_equal(&tensor->type, &state->type)) return NULL;
  char has[SHOAL_TYPE_SIZE], needs[SHOAL_TYPE_SIZE];
  return SHOAL_ERROR(INVALID_ARGUMENT, "%s: tensor '%s' is %s, the model has %s", file->path,
                     state->name, shoal_type_format(&tensor->type, has, sizeof has),
                     shoal_type_format(&state->type, needs, sizeof needs));
}

static shoal_status_t check_tensors(const shoal_runner_t *runner, const shoal_safetensors_t *file) {
  const shoal_program_t *program = runner->program;
  int64_t saved = 0;
  for (int64_t i = 0; i < program->state_count; ++i) {
    if (!program->states[i].saved) continue;
    ++saved;
    SHOAL_RETURN_IF_ERROR(check_tensor(file, &program->states[i]));
  }
  for (int64_t t = 0; t < file->count && file->count > saved; ++t) {
    int64_t i = 0;
    while (i < program->state_count &&
           (!program->states[i].saved ||
            strcmp(program->states[i].name, file->tensors[t].name) != 0)) {
      ++i;
    }
    if (i == program->state_count) {
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "was it saved from another model or optimizer?",
                              "%s: the model has no state for tensor '%s'", file->path,
                              file->tensors[t].name);
    }
  }
  return NULL;
}

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

static shoal_status_t load_state(shoal_runner_t *runner, const shoal_safetensors_t *file,
                                 int64_t state, shoal_arena_t *arena) {
  const shoal_safetensor_t *tensor =
      shoal_safetensors_find(file, runner->program->states[state].name);
  shoal_run_state_part_t part;
  SHOAL_RETURN_IF_ERROR(shoal_run_state_pieces(runner, state, arena, &part));
  int64_t low, high;
  span_of(&part, &low, &high);
  const int64_t element = (int64_t)shoal_dtype_size(part.dtype);
  char *span = shoal_arena_alloc(arena, (size_t)(high - low), (size_t)element);
  shoal_piece_t *pieces =
      shoal_arena_copy(arena, part.pieces, (size_t)part.piece_count, sizeof *pieces);
  if (!span || !pieces) return SHOAL_OOM();
  for (int64_t i = 0; i < part.piece_count; ++i) pieces[i].src_offset -= low;
  part.pieces = pieces;
  SHOAL_RETURN_IF_ERROR(
      shoal_safetensors_read(file, tensor->begin + low * element, (high - low) * element, span));
  return shoal_run_state_store(runner, &part, span, arena);
}

// The file of a checkpoint that is named by its folder, or by the file itself.
static shoal_status_t find_file(const char *path, char out_file[PATH_MAX]) {
  struct stat info;
  if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
    return join_path(out_file, path, FILE_NAME);
  }
  snprintf(out_file, PATH_MAX, "%s", path);
  return NULL;
}

static shoal_status_t open_checkpoint(const shoal_runner_t *runner, const char *path,
                                      char file_path[PATH_MAX], shoal_arena_t *arena,
                                      shoal_safetensors_t *out_file) {
  SHOAL_RETURN_IF_ERROR(find_file(path, file_path));
  SHOAL_RETURN_IF_ERROR(shoal_safetensors_open(file_path, arena, out_file));
  return check_tensors(runner, out_file);
}

shoal_status_t shoal_checkpoint_load(shoal_runner_t *runner, const char *path) {
  const shoal_program_t *program = runner->program;
  char file_path[PATH_MAX];
  shoal_arena_t arena;
  shoal_arena_init(runner->allocator, &arena);
  shoal_safetensors_t file = {.file = -1};
  shoal_status_t status = open_checkpoint(runner, path, file_path, &arena, &file);
  status = shoal_runner_agree(runner, status);
  if (!status) {
    for (int64_t i = 0; i < program->state_count && !status; ++i) {
      if (!program->states[i].saved) continue;
      shoal_arena_t scratch;
      shoal_arena_init(runner->allocator, &scratch);
      status = load_state(runner, &file, i, &scratch);
      shoal_arena_deinit(&scratch);
    }
    status = shoal_runner_agree(runner, status);
  }
  shoal_safetensors_close(&file);
  shoal_arena_deinit(&arena);
  return status ? shoal_status_annotatef(status, "while loading '%s'", path) : NULL;
}

shoal_status_t shoal_checkpoint_note(const char *path, const char *name, shoal_arena_t *arena,
                                     const char **out_text) {
  *out_text = NULL;
  if (!path || !path[0]) return SHOAL_ERROR(INVALID_ARGUMENT, "there is no path");
  char *file_path = SHOAL_NEW(arena, char, PATH_MAX);
  if (!file_path) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(find_file(path, file_path));
  shoal_safetensors_t file = {.file = -1};
  shoal_status_t status = shoal_safetensors_open(file_path, arena, &file);
  if (!status) *out_text = shoal_safetensors_note(&file, name);
  shoal_safetensors_close(&file);
  return status;
}

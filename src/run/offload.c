// Memory beside the device's: the arenas of host and file memory, and copies from, to and between
// them. They lie on the program's copy queue and run beside compute, on every device: the host's
// arena is reached by uploads and downloads. The file is read into and written from the place where
// the data lies in memory, where the host can reach it and it lies there as in the file, so that
// direct I/O can move it; else through a bounce buffer of the queue. Both go piece by piece, and
// nothing else of the file is ever in memory.
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "device/device.h"
#include "run/run_impl.h"

enum { BOUNCE = 4 << 20 };  // bytes of a bounce buffer at most

static bool is_device(const shoal_bound_buffer_t *part) {
  return part->memory == SHOAL_MEMORY_DEVICE;
}

static bool in_file(const shoal_bound_buffer_t *part) {
  return part->memory == SHOAL_MEMORY_FILE;
}

bool shoal_run_is_offload(const shoal_bound_instruction_t *bound) {
  if (bound->instruction->opcode != SHOAL_OPCODE_COPY || bound->idle) return false;
  return !is_device(bound->inputs[0]) || !is_device(bound->outputs[0]);
}

// ---- arenas ---------------------------------------------------------------------------

static const char *folder_of(const shoal_runner_t *runner) {
  const char *const places[] = {runner->options.offload_dir, getenv("SHOAL_OFFLOAD_DIR"),
                                getenv("TMPDIR")};
  for (size_t i = 0; i < sizeof places / sizeof *places; ++i)
    if (places[i] && places[i][0]) return places[i];
  return "/tmp";
}

shoal_status_t shoal_run_arenas_init(shoal_runner_t *runner) {
  const int64_t *bytes = runner->bound.rank_class->arena_bytes;
  if (bytes[SHOAL_MEMORY_DEVICE] > 0)
    SHOAL_RETURN_IF_ERROR(
        shoal_device_alloc(runner->device, bytes[SHOAL_MEMORY_DEVICE], &runner->memory));
  if (bytes[SHOAL_MEMORY_HOST] > 0)
    SHOAL_RETURN_IF_ERROR(
        shoal_device_alloc_host(runner->device, bytes[SHOAL_MEMORY_HOST], &runner->host));
  const char *folder = shoal_arena_strdup(&runner->arena, folder_of(runner));
  if (!folder) return SHOAL_OOM();
  return shoal_scratch_init(folder, bytes[SHOAL_MEMORY_FILE], &runner->file);
}

void shoal_run_arenas_deinit(shoal_runner_t *runner) {
  for (int q = 0; q < SHOAL_MAX_QUEUES; ++q)
    shoal_device_release_host(runner->device, runner->file_bounces[q]);
  shoal_scratch_deinit(&runner->file);
  shoal_device_release_host(runner->device, runner->host);
  shoal_device_release(runner->device, runner->memory);
}

int64_t shoal_runner_bounced(const shoal_runner_t *runner) {
  return atomic_load(&runner->bounced);
}

bool shoal_runner_is_direct(const shoal_runner_t *runner) {
  return runner->file.bytes > 0 && runner->file.direct >= 0;
}

void shoal_runner_file_copies(const shoal_runner_t *runner, int64_t *out_all, int64_t *out_direct) {
  *out_all = runner->file_copies;
  *out_direct = runner->direct_copies;
}

shoal_status_t shoal_run_part_read(shoal_runner_t *runner, const shoal_bound_buffer_t *part,
                                   int64_t bytes, void *data) {
  switch (part->memory) {
    case SHOAL_MEMORY_HOST:
      memcpy(data, (const char *)runner->host + part->offset, (size_t)bytes);
      return NULL;
    case SHOAL_MEMORY_FILE:
      return shoal_scratch_read(&runner->file, part->offset, bytes, data);
    default:
      SHOAL_RETURN_IF_ERROR(shoal_queue_download(
          runner->aside, runner->memory + (shoal_address_t)part->offset, data, bytes));
      return shoal_queue_wait(runner->aside);
  }
}

shoal_status_t shoal_run_part_write(shoal_runner_t *runner, const shoal_bound_buffer_t *part,
                                    int64_t bytes, const void *data) {
  switch (part->memory) {
    case SHOAL_MEMORY_HOST:
      memcpy((char *)runner->host + part->offset, data, (size_t)bytes);
      return NULL;
    case SHOAL_MEMORY_FILE:
      return shoal_scratch_write(&runner->file, part->offset, bytes, data);
    default:
      SHOAL_RETURN_IF_ERROR(shoal_queue_upload(
          runner->aside, data, runner->memory + (shoal_address_t)part->offset, bytes));
      return shoal_queue_wait(runner->aside);
  }
}

// ---- at load --------------------------------------------------------------------------

// The bounce buffer of a queue has the size of its largest copy, or a few megabytes.
static shoal_status_t make_bounce(shoal_runner_t *runner, int32_t queue) {
  const shoal_class_t *c = runner->bound.rank_class;
  int64_t most = 0;
  if (runner->file_bounces[queue]) return NULL;
  for (int64_t i = 0; i < c->buffer_count; ++i)
    if (c->buffers[i].memory == SHOAL_MEMORY_FILE && c->buffers[i].bytes > most)
      most = c->buffers[i].bytes;
  runner->file_bounce = most < BOUNCE ? most : BOUNCE;
  return shoal_device_alloc_host(runner->device, runner->file_bounce + 2 * SHOAL_SCRATCH_BLOCK,
                                 &runner->file_bounces[queue]);
}

// Long copies lie in the file, and in a bounce buffer, so that direct I/O moves them.
static void count_copy(shoal_runner_t *runner, const shoal_bound_buffer_t *part, int64_t bytes) {
  ++runner->file_copies;
  runner->direct_copies += shoal_scratch_is_direct(&runner->file, part->offset, bytes);
}

// Where data of the file lies in a bounce buffer: as far from a block's start as in the file, so
// that direct I/O can move it. Pieces are whole blocks long, but for the last.
static char *bounce_at(const shoal_runner_t *runner, int32_t queue,
                       const shoal_bound_buffer_t *from, const shoal_bound_buffer_t *to) {
  const shoal_bound_buffer_t *part = in_file(from) ? from : to;
  char *start = runner->file_bounces[queue];
  start += (SHOAL_SCRATCH_BLOCK - (uintptr_t)start % SHOAL_SCRATCH_BLOCK) % SHOAL_SCRATCH_BLOCK;
  return start + part->offset % SHOAL_SCRATCH_BLOCK;
}

shoal_status_t shoal_run_offload_init(shoal_runner_t *runner,
                                      const shoal_bound_instruction_t *bound,
                                      shoal_run_offload_t *out_offload) {
  const shoal_bound_buffer_t *from = bound->inputs[0], *to = bound->outputs[0];
  const bool files = in_file(from) || in_file(to);
  *out_offload = (shoal_run_offload_t){
      .from = from, .to = to, .bytes = to->count * (int64_t)shoal_dtype_size(to->type.dtype)};
  int64_t piece = out_offload->bytes;
  if (files) {
    SHOAL_RETURN_IF_ERROR(make_bounce(runner, bound->instruction->queue));
    if (piece > runner->file_bounce) piece = runner->file_bounce;
    count_copy(runner, in_file(from) ? from : to, piece);
  }
  const int64_t count = piece > 0 ? (out_offload->bytes + piece - 1) / piece : 0;
  shoal_run_passage_t *passages = SHOAL_NEW(&runner->arena, shoal_run_passage_t, count);
  if (!passages) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = i * piece, rest = out_offload->bytes - at;
    passages[i] = (shoal_run_passage_t){
        .runner = runner,
        .from = from,
        .to = to,
        .bounce = files ? bounce_at(runner, bound->instruction->queue, from, to) : NULL,
        .at = at,
        .bytes = rest < piece ? rest : piece};
  }
  out_offload->passage_count = count;
  out_offload->passages = passages;
  return NULL;
}

// ---- on a queue -----------------------------------------------------------------------

static char *host_at(const shoal_run_passage_t *p, const shoal_bound_buffer_t *part) {
  return (char *)p->runner->host + part->offset + p->at;
}

static void note_bounced(const shoal_run_passage_t *p) {
  atomic_fetch_add_explicit(&p->runner->bounced, p->bytes, memory_order_relaxed);
}

// From the file and to it.
static shoal_status_t read_file(const shoal_run_passage_t *p, void *data) {
  return shoal_scratch_read(&p->runner->file, p->from->offset + p->at, p->bytes, data);
}
static shoal_status_t write_file(const shoal_run_passage_t *p, const void *data) {
  return shoal_scratch_write(&p->runner->file, p->to->offset + p->at, p->bytes, data);
}

// Into the bounce buffer, and out of it.
static shoal_status_t take(void *self) {
  const shoal_run_passage_t *p = self;
  return read_file(p, p->bounce);
}
static shoal_status_t give(void *self) {
  const shoal_run_passage_t *p = self;
  return write_file(p, p->bounce);
}

// Is one of both in memory that the host reaches, the other in the file?
static bool is_reached(const shoal_run_passage_t *p) {
  if (in_file(p->from) == in_file(p->to)) return false;
  return !is_device(in_file(p->from) ? p->to : p->from) ||
         !shoal_device_target(p->runner->device).blind;
}

static shoal_status_t pass_reached(void *self) {
  const shoal_run_passage_t *p = self;
  const bool reads = in_file(p->from);
  const shoal_bound_buffer_t *part = reads ? p->to : p->from, *file = reads ? p->from : p->to;
  char *data =
      is_device(part)
          ? shoal_device_view(p->runner->device,
                              p->runner->memory + (shoal_address_t)(part->offset + p->at), p->bytes)
          : host_at(p, part);
  if (!data) return SHOAL_ERROR(INTERNAL, "a copy's memory cannot be reached");
  if (shoal_scratch_suits(&p->runner->file, file->offset + p->at, p->bytes, data))
    return reads ? read_file(p, data) : write_file(p, data);
  note_bounced(p);
  if (reads) SHOAL_RETURN_IF_ERROR(read_file(p, p->bounce));
  memcpy(reads ? data : p->bounce, reads ? p->bounce : data, (size_t)p->bytes);
  return reads ? NULL : write_file(p, p->bounce);
}

static shoal_status_t pass_on_host(void *self) {
  const shoal_run_passage_t *p = self;
  memcpy(host_at(p, p->to), host_at(p, p->from), (size_t)p->bytes);
  return NULL;
}

static void note_touched(const shoal_run_passage_t *p, const shoal_bound_buffer_t *part) {
  const int64_t end = part->offset + p->at + p->bytes;
  int64_t *touched = &p->runner->touched[part->memory];
  if (end > *touched) *touched = end;
}

static shoal_status_t pass(shoal_queue_t *queue, shoal_run_passage_t *p) {
  const bool from_device = is_device(p->from), to_device = is_device(p->to);
  const shoal_address_t device =
      p->runner->memory + (shoal_address_t)((from_device ? p->from : p->to)->offset + p->at);
  note_touched(p, p->from);
  note_touched(p, p->to);
  if (!p->bounce) {
    if (from_device) return shoal_queue_download(queue, device, host_at(p, p->to), p->bytes);
    if (to_device) return shoal_queue_upload(queue, host_at(p, p->from), device, p->bytes);
    return shoal_queue_call(queue, pass_on_host, p);
  }
  if (is_reached(p)) return shoal_queue_call(queue, pass_reached, p);
  note_bounced(p);
  SHOAL_RETURN_IF_ERROR(from_device ? shoal_queue_download(queue, device, p->bounce, p->bytes)
                                    : shoal_queue_call(queue, take, p));
  return to_device ? shoal_queue_upload(queue, p->bounce, device, p->bytes)
                   : shoal_queue_call(queue, give, p);
}

shoal_status_t shoal_run_offload(shoal_queue_t *queue, const shoal_run_offload_t *offload) {
  for (int64_t i = 0; i < offload->passage_count; ++i)
    SHOAL_RETURN_IF_ERROR(pass(queue, &offload->passages[i]));
  return NULL;
}

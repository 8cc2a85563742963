// Exchanges: each rank sends each other rank of an axis as many rows as a buffer says.
//
// The numbers go first, to all ranks of the group. So all of them know what everybody is to get,
// and refuse together what does not fit, before any row is sent.
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "run/run_impl.h"

// ---- at load --------------------------------------------------------------------------

// The ranks that differ from this one along the axis, in order.
static void find_ranks(const shoal_runner_t *runner, const shoal_mesh_t *mesh, int32_t axis,
                       shoal_run_exchange_t *e) {
  int64_t coords[SHOAL_MAX_AXES];
  shoal_mesh_coords(mesh, shoal_mesh_position(mesh, runner->rank), coords);
  e->me = (int32_t)coords[axis];
  for (int32_t i = 0; i < e->group_count; ++i) {
    coords[axis] = i;
    e->ranks[i] = shoal_mesh_rank(mesh, shoal_mesh_at(mesh, coords));
  }
}

static shoal_address_t address_of(const shoal_runner_t *runner, const shoal_bound_buffer_t *part) {
  return runner->memory + (shoal_address_t)part->offset;
}

static int64_t row_elements(const shoal_shape_t *shape) {
  int64_t count = 1;
  for (int32_t d = 1; d < shape->rank; ++d) count *= shape->dims[d];
  return count;
}

static int64_t bytes_of(const shoal_run_exchange_t *e, int64_t rows) {
  return rows * e->row * (int64_t)shoal_dtype_size(e->dtype);
}

static shoal_status_t take_memory(shoal_runner_t *runner, shoal_run_exchange_t *e) {
  shoal_arena_t *arena = &runner->arena;
  const int64_t n = e->group_count;
  e->ranks = SHOAL_NEW(arena, int32_t, n);
  e->matrix = SHOAL_NEW(arena, int64_t, n * n);
  e->send_counts = SHOAL_NEW(arena, int64_t, n);
  e->recv_counts = SHOAL_NEW(arena, int64_t, n);
  e->numbers = SHOAL_NEW(arena, int64_t, n);
  e->sent = shoal_arena_alloc(arena, (size_t)bytes_of(e, n * e->rows), 1);
  e->received = shoal_arena_alloc(arena, (size_t)bytes_of(e, e->capacity), 1);
  const bool all = e->ranks && e->matrix && e->send_counts && e->recv_counts && e->numbers &&
                   e->sent && e->received;
  return all ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_run_exchange_init(shoal_runner_t *runner, const char *segment,
                                       const shoal_bound_instruction_t *bound,
                                       shoal_run_exchange_t **out_exchange) {
  const shoal_instruction_t *in = bound->instruction;
  const shoal_channel_t *channel = &runner->program->channels[in->channels[0]];
  shoal_exchange_sizes_t sizes;
  SHOAL_RETURN_IF_ERROR(shoal_channel_exchange(channel, &sizes));
  shoal_run_exchange_t *e = SHOAL_NEW(&runner->arena, shoal_run_exchange_t, 1);
  if (!e) return SHOAL_OOM();
  *e = (shoal_run_exchange_t){.world = runner->world,
                              .lane = channel->lane,
                              .group_count = (int32_t)sizes.parts,
                              .dtype = channel->type.dtype,
                              .row = row_elements(&bound->inputs[0]->type.shape),
                              .rows = sizes.rows,
                              .capacity = channel->capacity,
                              .input = address_of(runner, bound->inputs[0]),
                              .counts = address_of(runner, bound->inputs[1]),
                              .output = address_of(runner, bound->outputs[0]),
                              .came = address_of(runner, bound->outputs[1]),
                              .next = runner->exchanges};
  SHOAL_RETURN_IF_ERROR(take_memory(runner, e));
  find_ranks(runner, channel->src->mesh, sizes.axis, e);
  e->label = shoal_arena_printf(&runner->arena, "%s: exchange of %s", segment, in->name);
  e->what =
      shoal_arena_printf(&runner->arena, "exchange of '%s' in segment '%s'", in->name, segment);
  if (!e->label || !e->what) return SHOAL_OOM();
  runner->exchanges = e;
  *out_exchange = e;
  return NULL;
}

// ---- running --------------------------------------------------------------------------

// Every rank of the group finds the same.
static shoal_status_t check_counts(const shoal_run_exchange_t *e) {
  const int64_t n = e->group_count;
  for (int64_t to = 0; to < n; ++to) {
    int64_t total = 0;
    for (int64_t from = 0; from < n; ++from) {
      const int64_t rows = e->matrix[from * n + to];
      if (rows < 0 || rows > e->rows) {
        return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "send what a part has, or make parts larger",
                                "rank %d sends %lld rows to rank %d, and a part has %lld",
                                e->ranks[from], (long long)rows, e->ranks[to], (long long)e->rows);
      }
      total += rows;
    }
    if (total > e->capacity) {
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "raise the capacity, or send less",
                              "rank %d is to receive %lld rows, more than the capacity of %lld",
                              e->ranks[to], (long long)total, (long long)e->capacity);
    }
  }
  return NULL;
}

// The rows that are sent, one part behind the other.
static void pack(const shoal_run_exchange_t *e) {
  int64_t at = 0;
  for (int64_t p = 0; p < e->group_count; ++p) {
    memmove(e->sent + bytes_of(e, at), e->sent + bytes_of(e, p * e->rows),
            (size_t)bytes_of(e, e->numbers[p]));
    at += e->numbers[p];
  }
}

static shoal_status_t exchange(shoal_run_exchange_t *e) {
  const int64_t n = e->group_count;
  for (int64_t p = 0; p < n; ++p) e->recv_counts[p] = n;
  SHOAL_RETURN_IF_ERROR(
      shoal_all_gather(e->group, SHOAL_I64, e->recv_counts, e->numbers, e->matrix));
  SHOAL_RETURN_IF_ERROR(check_counts(e));
  pack(e);
  int64_t total = 0;
  for (int64_t p = 0; p < n; ++p) {
    const int64_t came = e->matrix[p * n + e->me];
    e->send_counts[p] = e->numbers[p] * e->row;
    e->recv_counts[p] = came * e->row;
    e->numbers[p] = came;
    total += came;
  }
  SHOAL_RETURN_IF_ERROR(
      shoal_all_to_all(e->group, e->dtype, e->send_counts, e->sent, e->recv_counts, e->received));
  memset(e->received + bytes_of(e, total), 0, (size_t)bytes_of(e, e->capacity - total));
  return NULL;
}

static shoal_status_t run(void *self) {
  shoal_run_exchange_t *e = self;
  shoal_record_begun(e->world);
  shoal_comm_label(e->label);
  shoal_status_t status = exchange(e);
  shoal_comm_label(NULL);
  return shoal_status_annotate(status, e->what);
}

shoal_status_t shoal_run_exchange(shoal_queue_t *queue, shoal_run_exchange_t *e) {
  const int64_t counts = e->group_count * (int64_t)sizeof *e->numbers;
  SHOAL_RETURN_IF_ERROR(
      shoal_queue_download(queue, e->input, e->sent, bytes_of(e, e->group_count * e->rows)));
  SHOAL_RETURN_IF_ERROR(shoal_queue_download(queue, e->counts, e->numbers, counts));
  shoal_record_enqueued(e->world);
  shoal_status_t status = shoal_queue_call(queue, run, e);
  if (status) {
    shoal_record_begun(e->world);
    return status;
  }
  SHOAL_RETURN_IF_ERROR(
      shoal_queue_upload(queue, e->received, e->output, bytes_of(e, e->capacity)));
  return shoal_queue_upload(queue, e->numbers, e->came, counts);
}

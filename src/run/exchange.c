// Exchanges: reshards that move only the rows which are used. Whoever sends reads in its own counts
// how many rows that are, whoever receives in its own, so nothing about it is sent. Rows are packed
// one behind the other; what is not used is zero where they arrive.
//
// A rank gets its rows from the ranks that differ from it only along axes that cut the source: of
// several ranks that hold the same, the one beside it.
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "comm/enqueue.h"
#include "op/bounded.h"
#include "run/run_impl.h"

// ---- at load --------------------------------------------------------------------------

static int64_t aligned(int64_t bytes) {
  return (bytes + 63) & ~INT64_C(63);
}

static void take_box(const shoal_boxes_t *boxes, shoal_box_t *out_box) {
  *out_box = (shoal_box_t){0};
  for (int32_t d = 0; d < boxes->whole.rank; ++d) {
    if (boxes->dims[d].own_count == 0) continue;
    out_box->start[d] = boxes->dims[d].own[0].start;
    out_box->size[d] = boxes->dims[d].own[0].size;
  }
}

// Elements that two boxes have in common.
static int64_t intersect(int32_t rank, const shoal_box_t *a, const shoal_box_t *b,
                         shoal_box_t *out_box) {
  int64_t count = 1;
  for (int32_t d = 0; d < rank; ++d) {
    const int64_t start = a->start[d] > b->start[d] ? a->start[d] : b->start[d];
    const int64_t a_end = a->start[d] + a->size[d], b_end = b->start[d] + b->size[d];
    const int64_t size = (a_end < b_end ? a_end : b_end) - start;
    out_box->start[d] = start;
    out_box->size[d] = size > 0 ? size : 0;
    count *= out_box->size[d];
  }
  return count;
}

static void take_side(const shoal_runner_t *runner, const shoal_bound_buffer_t *value,
                      const shoal_bound_buffer_t *counts, shoal_run_exchange_side_t *out_side) {
  take_box(&value->boxes, &out_side->part);
  out_side->value = runner->memory + (shoal_address_t)value->offset;
  out_side->counts = runner->memory + (shoal_address_t)counts->offset;
  out_side->bytes = value->count * (int64_t)shoal_dtype_size(value->type.dtype);
  out_side->count_bytes = counts->count * (int64_t)shoal_dtype_size(counts->type.dtype);
}

// What this rank and the one at `position` have to do with each other: `sends`, of what this rank
// has and the other is to have; else the other way round.
static shoal_status_t add_cargo(shoal_run_exchange_t *e, const shoal_channel_t *channel,
                                int64_t position, int64_t micro, bool sends,
                                shoal_arena_t *scratch) {
  const shoal_layout_t *layout = sends ? channel->dst : channel->src;
  const bool cut = shoal_layout_along(layout, SHOAL_AXIS_MICRO) != NULL;
  shoal_run_exchange_side_t *side = sends ? &e->here : &e->there;
  shoal_run_cargo_t cargo = {.peer = shoal_mesh_rank(layout->mesh, position)};
  shoal_boxes_t boxes;
  shoal_box_t other;
  SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(layout, &channel->type.shape, position, cut ? micro : -1,
                                           scratch, &boxes));
  take_box(&boxes, &other);
  const int64_t count = intersect(e->rank, &side->part, &other, &cargo.box);
  if (count == 0 || (sends && cargo.peer == e->me)) return NULL;
  side->most += count * e->element;
  side->cargo[side->cargo_count++] = cargo;
  return NULL;
}

static shoal_status_t find_cargo(shoal_runner_t *runner, const shoal_channel_t *channel,
                                 int64_t micro, shoal_run_exchange_t *e, shoal_arena_t *scratch) {
  const shoal_mesh_t *mesh = channel->src->mesh;
  int64_t coords[SHOAL_MAX_AXES], count = 1;
  bool varies[SHOAL_MAX_AXES] = {false};
  for (int32_t i = 0; i < channel->src->cut_count; ++i) {
    const int32_t axis = channel->src->cuts[i].axis;
    if (axis < 0) continue;
    varies[axis] = true;
    count *= mesh->axes[axis].size;
  }
  e->here.cargo = SHOAL_NEW(&runner->arena, shoal_run_cargo_t, count);
  e->there.cargo = SHOAL_NEW(&runner->arena, shoal_run_cargo_t, count);
  e->here.messages = SHOAL_NEW(&runner->arena, shoal_message_t, count);
  e->there.messages = SHOAL_NEW(&runner->arena, shoal_message_t, count);
  if (!e->here.cargo || !e->there.cargo || !e->here.messages || !e->there.messages)
    return SHOAL_OOM();
  shoal_mesh_coords(mesh, shoal_mesh_position(mesh, runner->rank), coords);
  for (int64_t k = 0; k < count; ++k) {
    int64_t left = k;
    for (int32_t a = mesh->axis_count - 1; a >= 0; --a) {
      if (!varies[a]) continue;
      coords[a] = left % mesh->axes[a].size;
      left /= mesh->axes[a].size;
    }
    const int64_t position = shoal_mesh_at(mesh, coords);
    SHOAL_RETURN_IF_ERROR(add_cargo(e, channel, position, micro, true, scratch));
    SHOAL_RETURN_IF_ERROR(add_cargo(e, channel, position, micro, false, scratch));
  }
  return NULL;
}

shoal_status_t shoal_run_exchange_init(shoal_runner_t *runner, const char *segment, int32_t micro,
                                       const shoal_bound_instruction_t *bound,
                                       shoal_run_exchange_t **out_exchange) {
  const shoal_instruction_t *in = bound->instruction;
  const shoal_channel_t *channel = &runner->program->channels[in->channels[0]];
  const shoal_bound_buffer_t *counts = bound->inputs[1];
  shoal_run_exchange_t *e = SHOAL_NEW(&runner->arena, shoal_run_exchange_t, 1);
  if (!e) return SHOAL_OOM();
  *e = (shoal_run_exchange_t){
      .runner = runner,
      .lane = channel->lane,
      .queue = in->queue,
      .tag = shoal_run_tag(runner->program, in->channels[0], micro),
      .me = runner->rank,
      .rank = channel->type.shape.rank,
      .groups = counts->type.shape.rank,
      .element = (int64_t)shoal_dtype_size(channel->type.dtype),
      .capacity = channel->type.shape.dims[counts->type.shape.rank],
      .dtype = counts->type.dtype,
      .viewed = shoal_work_way(runner->world, runner->device) == SHOAL_WORK_VIEWED,
      .next = runner->exchanges};
  take_side(runner, bound->inputs[0], bound->inputs[1], &e->here);
  take_side(runner, bound->outputs[0], bound->inputs[2], &e->there);
  shoal_arena_t scratch;
  shoal_arena_init(runner->allocator, &scratch);
  shoal_status_t status = find_cargo(runner, channel, micro, e, &scratch);
  shoal_arena_deinit(&scratch);
  if (status) return status;
  e->label = shoal_arena_printf(&runner->arena, "%s: exchange of %s", segment, in->name);
  e->what =
      shoal_arena_printf(&runner->arena, "exchange of '%s' in segment '%s'", in->name, segment);
  if (!e->label || !e->what) return SHOAL_OOM();
  runner->exchanges = e;
  *out_exchange = e;
  return NULL;
}

// Packed rows; and, where the device's memory cannot be looked at, all of it.
static int64_t host_bytes(const shoal_run_exchange_side_t *side, bool viewed) {
  return aligned(side->most) + (viewed ? 0 : aligned(side->bytes) + aligned(side->count_bytes));
}

shoal_status_t shoal_run_exchanges_bind(shoal_runner_t *runner) {
  int64_t most[SHOAL_MAX_QUEUES] = {0};
  char *memory[SHOAL_MAX_QUEUES] = {0};
  for (const shoal_run_exchange_t *e = runner->exchanges; e; e = e->next) {
    const int64_t bytes = host_bytes(&e->here, e->viewed) + host_bytes(&e->there, e->viewed);
    if (bytes > most[e->queue]) most[e->queue] = bytes;
  }
  // Exchanges of a queue follow each other, and share it.
  for (int i = 0; i < SHOAL_MAX_QUEUES; ++i) {
    if (most[i] > 0 && !(memory[i] = shoal_arena_alloc(&runner->arena, (size_t)most[i], 1)))
      return SHOAL_OOM();
  }
  for (shoal_run_exchange_t *e = runner->exchanges; e; e = e->next) {
    char *at = memory[e->queue];
    for (int s = 0; s < 2; ++s) {
      shoal_run_exchange_side_t *side = s == 0 ? &e->here : &e->there;
      side->packed = at;
      side->host = side->packed + aligned(side->most);
      side->host_counts = side->host + aligned(side->bytes);
      at += host_bytes(side, e->viewed);
    }
  }
  return NULL;
}

// ---- running --------------------------------------------------------------------------

// Walks over the used rows of a box.
typedef struct walk {
  const shoal_run_exchange_t *e;
  const shoal_run_exchange_side_t *side;
  const shoal_box_t *box;
  enum { MEASURE, PACK, UNPACK } what;
  int32_t last;  // dim behind which the box is as wide as the part
  int64_t stride[SHOAL_MAX_RANK];
  char *packed;  // where the next rows go, or come from
} walk_t;

static void walk_dim(walk_t *w, int32_t d, int64_t offset, int64_t group) {
  const shoal_run_exchange_t *e = w->e;
  const shoal_box_t *part = &w->side->part;
  const int64_t start = w->box->start[d] - part->start[d];
  int64_t size = w->box->size[d];
  if (d == e->groups) {
    const int64_t used =
        shoal_dtype_load_int(e->dtype, w->side->counts_now, group) - w->box->start[d];
    size = used < 0 ? 0 : used < size ? used : size;
  }
  if (d == w->last) {
    const int64_t bytes = size * w->stride[d] * e->element;
    char *at = w->side->value_now + (offset + start * w->stride[d]) * e->element;
    if (w->what == PACK && bytes > 0) memcpy(w->packed, at, (size_t)bytes);
    if (w->what == UNPACK && bytes > 0) memcpy(at, w->packed, (size_t)bytes);
    w->packed += bytes;
    return;
  }
  for (int64_t i = start; i < start + size; ++i)
    walk_dim(w, d + 1, offset + i * w->stride[d],
             d < e->groups ? group * part->size[d] + i : group);
}

// Returns where the rows end that begin at `packed`.
static char *walk(const shoal_run_exchange_t *e, const shoal_run_exchange_side_t *side,
                  const shoal_box_t *box, int what, char *packed) {
  walk_t w = {.e = e, .side = side, .box = box, .what = what, .last = e->rank - 1};
  w.packed = packed;
  for (int64_t d = e->rank - 1, count = 1; d >= 0; --d) {
    w.stride[d] = count;
    count *= side->part.size[d];
  }
  while (w.last > e->groups && box->size[w.last] == side->part.size[w.last]) --w.last;
  walk_dim(&w, 0, 0, 0);
  return w.packed;
}

static shoal_status_t check_counts(const shoal_run_exchange_t *e,
                                   const shoal_run_exchange_side_t *side) {
  const int64_t count = side->count_bytes / (int64_t)shoal_dtype_size(e->dtype);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t rows = shoal_dtype_load_int(e->dtype, side->counts_now, i);
    if (rows >= 0 && rows <= e->capacity) continue;
    shoal_shape_t at = {.rank = e->groups};
    int64_t left = i;
    for (int32_t d = e->groups - 1; d >= 0; --d) {
      at.dims[d] = side->part.start[d] + left % side->part.size[d];
      left /= side->part.size[d];
    }
    return shoal_bounded_overflow(&at, rows, e->groups, e->capacity);
  }
  return NULL;
}

static void add_message(const shoal_run_exchange_t *e, shoal_run_exchange_side_t *side,
                        int32_t peer, char *begin, const char *end) {
  if (begin == end || peer == e->me) return;
  side->messages[side->message_count++] =
      (shoal_message_t){.peer = peer, .tag = e->tag, .bytes = end - begin, .data = begin};
}

static shoal_status_t exchange(shoal_run_exchange_t *e) {
  shoal_run_exchange_side_t *here = &e->here, *there = &e->there;
  SHOAL_RETURN_IF_ERROR(check_counts(e, here));
  SHOAL_RETURN_IF_ERROR(check_counts(e, there));
  here->message_count = there->message_count = 0;
  char *at = here->packed;
  for (int32_t i = 0; i < here->cargo_count; ++i) {
    char *begin = at;
    at = walk(e, here, &here->cargo[i].box, PACK, begin);
    add_message(e, here, here->cargo[i].peer, begin, at);
  }
  atomic_fetch_add(&e->runner->exchanged, at - here->packed);
  at = there->packed;
  for (int32_t i = 0; i < there->cargo_count; ++i) {
    const shoal_run_cargo_t *cargo = &there->cargo[i];
    char *begin = at;
    const bool own = cargo->peer == e->me;
    at = walk(e, own ? here : there, &cargo->box, own ? PACK : MEASURE, begin);
    add_message(e, there, cargo->peer, begin, at);
  }
  shoal_exchange_t messages;
  SHOAL_RETURN_IF_ERROR(shoal_lane_exchange_start(e->runner->lanes[e->lane], here->message_count,
                                                  here->messages, there->message_count,
                                                  there->messages, &messages));
  SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&messages));
  if (there->bytes > 0) memset(there->value_now, 0, (size_t)there->bytes);
  at = there->packed;
  for (int32_t i = 0; i < there->cargo_count; ++i)
    at = walk(e, there, &there->cargo[i].box, UNPACK, at);
  return NULL;
}

static void look(const shoal_run_exchange_t *e, shoal_run_exchange_side_t *side) {
  shoal_device_t *device = e->runner->device;
  side->value_now = side->host;
  side->counts_now = side->host_counts;
  if (!e->viewed) return;
  side->value_now = shoal_device_view(device, side->value, side->bytes);
  side->counts_now = shoal_device_view(device, side->counts, side->count_bytes);
}

static shoal_status_t run(void *self) {
  shoal_run_exchange_t *e = self;
  shoal_record_begun(e->runner->world);
  shoal_comm_label(e->label);
  look(e, &e->here);
  look(e, &e->there);
  shoal_status_t status = exchange(e);
  shoal_comm_label(NULL);
  return shoal_status_annotate(status, e->what);
}

shoal_status_t shoal_run_exchange(shoal_queue_t *queue, shoal_run_exchange_t *e) {
  const shoal_run_exchange_side_t *here = &e->here, *there = &e->there;
  if (!e->viewed) {
    SHOAL_RETURN_IF_ERROR(shoal_queue_download(queue, here->value, here->host, here->bytes));
    SHOAL_RETURN_IF_ERROR(
        shoal_queue_download(queue, here->counts, here->host_counts, here->count_bytes));
    SHOAL_RETURN_IF_ERROR(
        shoal_queue_download(queue, there->counts, there->host_counts, there->count_bytes));
  }
  shoal_record_enqueued(e->runner->world);
  shoal_status_t status = shoal_queue_call(queue, run, e);
  if (status) {
    shoal_record_begun(e->runner->world);
    return status;
  }
  if (e->viewed) return NULL;
  return shoal_queue_upload(queue, there->host, there->value, there->bytes);
}

// See engine.h. What goes from a stage to the next, and back, is a *pipe*: a ring of slots on both
// sides, and a lane of its own, so that messages of different pipes never wait for each other.
// Within a pipe micro-batches come in the order in which they are sent. The slots of all pipes are
// as few as let the rows run to their ends if a row stands still where a ring is full.
#include "shoal/engine.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/status.h"
#include "plan/schedule.h"

enum { TENSOR_ALIGN = 64 };

typedef struct slot {
  void *data;
  shoal_engine_tensor_t *tensors;  // in data
  shoal_exchange_t exchange;
  shoal_message_t message;
  bool started;
} slot_t;

// Between stage s and s + 1: pipe 2 s carries activations forward, 2 s + 1 gradients back.
typedef struct pipe {
  shoal_lane_t *lane;
  int32_t from, to;      // ranks
  int64_t bytes;         // of all tensors and what lies between them
  int32_t count;         // of tensors
  const int64_t *sizes;  // by tensor; the caller's, while the engine is made
  slot_t *out, *in;  // rings on this rank; NULL: it does not send, or receive. Both are one where
                     // both ends are here
  int64_t sent, received, asked;  // in this run
} pipe_t;

struct shoal_engine {
  shoal_arena_t arena;
  shoal_world_t *world;
  shoal_engine_options_t options;
  const shoal_schedule_row_t *row;  // NULL: this rank has none
  int32_t stage_count, pipe_count;
  int64_t micro, slots, buffers;
  pipe_t *pipes;
};

// The pipe that an entry reads from or writes to; -1: none.
static int32_t reads(const shoal_schedule_entry_t *e, int32_t stages) {
  if (e->work == SHOAL_WORK_FORWARD) return e->stage > 0 ? 2 * (e->stage - 1) : -1;
  return e->work == SHOAL_WORK_BACKWARD && e->stage < stages - 1 ? 2 * e->stage + 1 : -1;
}

static int32_t writes(const shoal_schedule_entry_t *e, int32_t stages) {
  if (e->work == SHOAL_WORK_FORWARD) return e->stage < stages - 1 ? 2 * e->stage : -1;
  return e->work == SHOAL_WORK_BACKWARD && e->stage > 0 ? 2 * (e->stage - 1) + 1 : -1;
}

// ---- slots -----------------------------------------------------------------------------

typedef struct trial {
  const shoal_schedule_t *t;
  int64_t *next, *sent, *received;  // by row, by pipe
} trial_t;

// Runs the rows side by side, with rings of this many slots. True if all come to their ends.
static bool try_slots(trial_t *x, int64_t slots) {
  const shoal_schedule_t *t = x->t;
  const int32_t pipes = 2 * (t->stage_count - 1);
  for (int32_t r = 0; r < t->mesh_count; ++r) x->next[r] = 0;
  for (int32_t p = 0; p < pipes; ++p) x->sent[p] = x->received[p] = 0;
  bool moved = true, done = true;
  while (moved) {
    moved = false;
    for (int32_t r = 0; r < t->mesh_count; ++r)
      for (; x->next[r] < t->rows[r].count; ++x->next[r], moved = true) {
        const shoal_schedule_entry_t *e = &t->rows[r].entries[x->next[r]];
        const int32_t in = reads(e, t->stage_count), out = writes(e, t->stage_count);
        if (in >= 0 && x->received[in] == x->sent[in]) break;
        if (out >= 0 && x->sent[out] - x->received[out] == slots) break;
        if (in >= 0) ++x->received[in];
        if (out >= 0) ++x->sent[out];
      }
  }
  for (int32_t r = 0; r < t->mesh_count; ++r) done &= x->next[r] == t->rows[r].count;
  return done;
}

static shoal_status_t find_slots(const shoal_schedule_t *t, shoal_arena_t *scratch,
                                 int64_t *out_slots) {
  const int32_t pipes = 2 * (t->stage_count - 1);
  trial_t x = {t, SHOAL_NEW(scratch, int64_t, t->mesh_count), SHOAL_NEW(scratch, int64_t, pipes),
               SHOAL_NEW(scratch, int64_t, pipes)};
  if (!x.next || !x.sent || !x.received) return SHOAL_OOM();
  int64_t slots = 2;
  while (slots < t->micro && !try_slots(&x, slots)) slots *= 2;
  *out_slots = slots < t->micro ? slots : t->micro;
  return NULL;
}

// Each pipe's micro-batches are sent and received in one order.
static shoal_status_t check_orders(const shoal_schedule_t *t, shoal_arena_t *scratch) {
  const int32_t pipes = 2 * (t->stage_count - 1);
  int32_t *orders = SHOAL_NEW(scratch, int32_t, (int64_t)pipes * t->micro);
  int64_t *counts = SHOAL_NEW(scratch, int64_t, pipes);
  if (!orders || !counts) return SHOAL_OOM();
  for (int pass = 0; pass < 2; ++pass) {
    for (int32_t p = 0; p < pipes; ++p) counts[p] = 0;
    for (int32_t r = 0; r < t->mesh_count; ++r)
      for (int64_t k = 0; k < t->rows[r].count; ++k) {
        const shoal_schedule_entry_t *e = &t->rows[r].entries[k];
        const int32_t p = pass ? reads(e, t->stage_count) : writes(e, t->stage_count);
        if (p < 0) continue;
        int32_t *order = &orders[p * t->micro + counts[p]++];
        if (pass && *order != e->micro)
          return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                                  "let neighbouring stages take micro-batches in one order",
                                  "mesh '%s', entry %lld: micro-batch %d is worked on here when %d "
                                  "comes",
                                  t->rows[r].mesh, (long long)k, e->micro, *order);
        *order = e->micro;
      }
  }
  return NULL;
}

// ---- making ----------------------------------------------------------------------------

static int64_t aligned(int64_t bytes) {
  return (bytes + TENSOR_ALIGN - 1) / TENSOR_ALIGN * TENSOR_ALIGN;
}

// The tensors of a slot, one behind the other.
static shoal_status_t make_tensors(shoal_engine_t *engine, const pipe_t *pipe, slot_t *slot) {
  int64_t offset = 0;
  slot->tensors = SHOAL_NEW(&engine->arena, shoal_engine_tensor_t, pipe->count);
  if (!slot->tensors) return SHOAL_OOM();
  for (int32_t i = 0; i < pipe->count; ++i) {
    slot->tensors[i] = (shoal_engine_tensor_t){(char *)slot->data + offset, pipe->sizes[i]};
    offset += aligned(pipe->sizes[i]);
  }
  return NULL;
}

static shoal_status_t make_ring(shoal_engine_t *engine, const pipe_t *pipe, slot_t **out_ring) {
  slot_t *ring = SHOAL_NEW(&engine->arena, slot_t, engine->slots);
  if (!ring) return SHOAL_OOM();
  for (int64_t i = 0; i < engine->slots; ++i) {
    char *data = shoal_arena_alloc(&engine->arena, (size_t)pipe->bytes + TENSOR_ALIGN, 1);
    if (!data) return SHOAL_OOM();
    ring[i].data = data + (TENSOR_ALIGN - (uintptr_t)data % TENSOR_ALIGN) % TENSOR_ALIGN;
    SHOAL_RETURN_IF_ERROR(make_tensors(engine, pipe, &ring[i]));
    engine->buffers += pipe->bytes;
  }
  *out_ring = ring;
  return NULL;
}

static int32_t rank_of(const shoal_engine_options_t *options, int32_t row) {
  return options->ranks ? options->ranks[row] : row;
}

static int32_t tensors_of(const shoal_engine_options_t *options, int32_t stage) {
  return options->counts ? options->counts[stage] : 1;
}

static shoal_status_t make_pipe(shoal_engine_t *engine, int32_t p) {
  const shoal_schedule_t *t = engine->options.schedule;
  const int32_t rank = shoal_world_rank(engine->world), stage = p / 2;
  const int32_t before = rank_of(&engine->options, t->stage_meshes[stage]),
                behind = rank_of(&engine->options, t->stage_meshes[stage + 1]);
  pipe_t *pipe = &engine->pipes[p];
  pipe->from = p % 2 ? behind : before;
  pipe->to = p % 2 ? before : behind;
  pipe->count = tensors_of(&engine->options, stage);
  pipe->sizes = engine->options.bytes;
  for (int32_t s = 0; s < stage; ++s) pipe->sizes += tensors_of(&engine->options, s);
  for (int32_t i = 0; i < pipe->count; ++i)  // no padding behind the last
    pipe->bytes = aligned(pipe->bytes) + pipe->sizes[i];
  char name[48];
  snprintf(name, sizeof name, "engine.%d", p);
  SHOAL_RETURN_IF_ERROR(shoal_lane_create(engine->world, name, &pipe->lane));
  if (pipe->from == rank) SHOAL_RETURN_IF_ERROR(make_ring(engine, pipe, &pipe->out));
  if (pipe->from == rank && pipe->to == rank)
    pipe->in = pipe->out;
  else if (pipe->to == rank)
    SHOAL_RETURN_IF_ERROR(make_ring(engine, pipe, &pipe->in));
  return NULL;
}

static shoal_status_t check_sizes(const shoal_engine_options_t *options) {
  const int64_t *bytes = options->bytes;
  for (int32_t s = 0; s + 1 < options->schedule->stage_count; ++s) {
    int64_t left = INT64_MAX / 4;
    if (tensors_of(options, s) < 0)
      return SHOAL_ERROR(INVALID_ARGUMENT, "stage %d gives %d tensors", s, tensors_of(options, s));
    for (int32_t i = 0; i < tensors_of(options, s); ++i, ++bytes) {
      if (*bytes < 0 || *bytes > left)
        return SHOAL_ERROR(INVALID_ARGUMENT, "stage %d gives %lld bytes", s, (long long)*bytes);
      left -= aligned(*bytes);
    }
  }
  return NULL;
}

static shoal_status_t check_options(const shoal_world_t *world,
                                    const shoal_engine_options_t *options) {
  const shoal_schedule_t *t = options->schedule;
  if (!t || !options->forward || !options->backward || (t->stage_count > 1 && !options->bytes))
    return SHOAL_ERROR(
        INVALID_ARGUMENT,
        "an engine needs a schedule, forward, backward and the bytes between stages");
  SHOAL_RETURN_IF_ERROR(shoal_schedule_check(t));
  if (t->split && !options->weight)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give `weight`, or take a schedule without W",
                            "schedule '%s' has weight gradients apart, and there is no function "
                            "for them",
                            t->name);
  for (int32_t r = 0; r < t->mesh_count; ++r) {
    const int32_t rank = rank_of(options, r);
    if (rank < 0 || rank >= shoal_world_size(world))
      return SHOAL_ERROR(INVALID_ARGUMENT, "row '%s' is on rank %d; the world has %d",
                         t->rows[r].mesh, rank, shoal_world_size(world));
    for (int32_t k = 0; k < r; ++k)
      if (rank_of(options, k) == rank)
        return SHOAL_ERROR(INVALID_ARGUMENT, "rows '%s' and '%s' are both on rank %d",
                           t->rows[k].mesh, t->rows[r].mesh, rank);
  }
  return check_sizes(options);
}

// The row of this rank, copied; the rest of the schedule is not needed to run.
static shoal_status_t copy_row(shoal_engine_t *engine) {
  const shoal_schedule_t *t = engine->options.schedule;
  for (int32_t r = 0; r < t->mesh_count; ++r) {
    if (rank_of(&engine->options, r) != shoal_world_rank(engine->world)) continue;
    shoal_schedule_row_t *row = SHOAL_NEW(&engine->arena, shoal_schedule_row_t, 1);
    if (!row) return SHOAL_OOM();
    *row = t->rows[r];
    row->entries = shoal_arena_copy(&engine->arena, t->rows[r].entries, (size_t)row->count,
                                    sizeof *row->entries);
    if (!row->entries) return SHOAL_OOM();
    engine->row = row;
  }
  return NULL;
}

static shoal_status_t build(shoal_engine_t *engine, shoal_arena_t *scratch) {
  const shoal_schedule_t *t = engine->options.schedule;
  SHOAL_RETURN_IF_ERROR(check_orders(t, scratch));
  SHOAL_RETURN_IF_ERROR(find_slots(t, scratch, &engine->slots));
  engine->stage_count = t->stage_count;
  engine->micro = t->micro;
  SHOAL_RETURN_IF_ERROR(copy_row(engine));
  const int32_t pipes = 2 * (t->stage_count - 1);
  engine->pipes = SHOAL_NEW(&engine->arena, pipe_t, pipes);
  if (!engine->pipes) return SHOAL_OOM();
  for (; engine->pipe_count < pipes; ++engine->pipe_count)
    SHOAL_RETURN_IF_ERROR(make_pipe(engine, engine->pipe_count));
  engine->options.schedule = NULL;
  engine->options.ranks = NULL;
  engine->options.bytes = NULL;
  engine->options.counts = NULL;
  return NULL;
}

shoal_status_t shoal_engine_create(shoal_world_t *world, const shoal_engine_options_t *options,
                                   shoal_engine_t **out_engine) {
  *out_engine = NULL;
  SHOAL_RETURN_IF_ERROR(check_options(world, options));
  shoal_allocator_t allocator =
      options->allocator.alloc ? options->allocator : shoal_allocator_system();
  shoal_engine_t *engine = allocator.alloc(allocator.self, sizeof *engine);
  if (!engine) return SHOAL_OOM();
  *engine = (shoal_engine_t){.world = world, .options = *options};
  engine->options.allocator = allocator;
  shoal_world_retain(world);
  shoal_arena_init(allocator, &engine->arena);
  shoal_arena_t scratch;
  shoal_arena_init(allocator, &scratch);
  shoal_status_t status = build(engine, &scratch);
  shoal_arena_deinit(&scratch);
  if (status) {
    shoal_engine_free(engine);
    return status;
  }
  *out_engine = engine;
  return NULL;
}

void shoal_engine_free(shoal_engine_t *engine) {
  if (!engine) return;
  const shoal_allocator_t allocator = engine->options.allocator;
  for (int32_t p = 0; p < engine->pipe_count; ++p) shoal_lane_free(engine->pipes[p].lane);
  shoal_world_release(engine->world);
  shoal_arena_deinit(&engine->arena);
  allocator.free(allocator.self, engine);
}

int64_t shoal_engine_bytes(const shoal_engine_t *engine) {
  return engine->buffers;
}

// ---- running ---------------------------------------------------------------------------

static bool is_remote(const pipe_t *pipe) {
  return pipe->from != pipe->to;
}

static shoal_status_t wait_for(slot_t *slot) {
  if (!slot->started) return NULL;
  slot->started = false;
  return shoal_exchange_wait(&slot->exchange);
}

// Starts receiving the next micro-batch, if there is one more.
static shoal_status_t ask(const shoal_engine_t *engine, pipe_t *pipe) {
  if (pipe->asked == engine->micro) return NULL;
  slot_t *slot = &pipe->in[pipe->asked++ % engine->slots];
  slot->message = (shoal_message_t){.peer = pipe->from, .bytes = pipe->bytes, .data = slot->data};
  slot->started = true;
  shoal_status_t status =
      shoal_lane_exchange_start(pipe->lane, 0, NULL, 1, &slot->message, &slot->exchange);
  if (status) slot->started = false;
  return status;
}

static shoal_status_t send(const pipe_t *pipe, slot_t *slot) {
  if (!is_remote(pipe)) return NULL;
  slot->message = (shoal_message_t){.peer = pipe->to, .bytes = pipe->bytes, .data = slot->data};
  slot->started = true;
  shoal_status_t status =
      shoal_lane_exchange_start(pipe->lane, 1, &slot->message, 0, NULL, &slot->exchange);
  if (status) slot->started = false;
  return status;
}

static shoal_status_t run_entry(shoal_engine_t *engine, const shoal_schedule_entry_t *e) {
  const int32_t in = reads(e, engine->stage_count), out = writes(e, engine->stage_count);
  pipe_t *from = in >= 0 ? &engine->pipes[in] : NULL, *to = out >= 0 ? &engine->pipes[out] : NULL;
  shoal_engine_work_t work = {.stage = e->stage, .micro = e->micro};
  slot_t *target = to ? &to->out[to->sent++ % engine->slots] : NULL;
  if (from) {
    slot_t *source = &from->in[from->received++ % engine->slots];
    if (is_remote(from)) SHOAL_RETURN_IF_ERROR(wait_for(source));
    work.ins = source->tensors;
    work.in_count = from->count;
    if (from->count > 0)
      work.in = source->tensors[0].data, work.in_bytes = source->tensors[0].bytes;
  }
  if (target) {
    SHOAL_RETURN_IF_ERROR(wait_for(target));
    work.outs = target->tensors;
    work.out_count = to->count;
    if (to->count > 0)
      work.out = target->tensors[0].data, work.out_bytes = target->tensors[0].bytes;
  }
  const shoal_engine_fn_t fn = e->work == SHOAL_WORK_FORWARD    ? engine->options.forward
                               : e->work == SHOAL_WORK_BACKWARD ? engine->options.backward
                                                                : engine->options.weight;
  SHOAL_RETURN_IF_ERROR(fn(engine->options.user_data, &work));
  if (target) SHOAL_RETURN_IF_ERROR(send(to, target));
  if (from && is_remote(from)) SHOAL_RETURN_IF_ERROR(ask(engine, from));
  return NULL;
}

static shoal_status_t run_row(shoal_engine_t *engine) {
  for (int32_t p = 0; p < engine->pipe_count; ++p) {
    pipe_t *pipe = &engine->pipes[p];
    pipe->sent = pipe->received = pipe->asked = 0;
    for (int64_t i = 0; i < engine->slots && pipe->in && is_remote(pipe); ++i)
      SHOAL_RETURN_IF_ERROR(ask(engine, pipe));
  }
  for (int64_t k = 0; k < engine->row->count; ++k) {
    const shoal_schedule_entry_t *e = &engine->row->entries[k];
    shoal_status_t status = run_entry(engine, e);
    if (status)
      return shoal_status_annotatef(status, "%c%d.%d", shoal_work_letter(e->work), e->stage,
                                    e->micro);
  }
  return NULL;
}

// Buffers must stay until their messages are done, well or not.
static shoal_status_t wait_all(shoal_engine_t *engine, shoal_status_t status) {
  for (int32_t p = 0; p < engine->pipe_count; ++p)
    for (int side = 0; side < 2; ++side) {
      slot_t *ring = side ? engine->pipes[p].in : engine->pipes[p].out;
      for (int64_t i = 0; ring && i < engine->slots; ++i) {
        shoal_status_t late = wait_for(&ring[i]);
        if (!status)
          status = late;
        else
          shoal_status_free(late);
      }
    }
  return status;
}

shoal_status_t shoal_engine_run(shoal_engine_t *engine) {
  if (!engine->row) return NULL;
  shoal_status_t status = run_row(engine);
  if (status) shoal_world_abort(engine->world, status);
  return wait_all(engine, status);
}

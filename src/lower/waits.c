// Waits: two instructions of a segment that touch the same bytes of the arena, one of them writing,
// must run in the order of the list. On one queue they do; across queues the later one waits for
// the earlier, unless a chain of waits says so already (vector clocks, one entry per queue).
#include "base/status.h"
#include "lower/build.h"

typedef struct range {
  int64_t start, end;
  bool write;
} range_t;

typedef struct access {
  range_t *ranges;
  int32_t count;
  int64_t clock
      [SHOAL_QUEUE_COUNT];  // latest instruction on each queue known to be done before this ends
} access_t;

static void add_buffer(const shoal_class_t *c, int32_t index, bool write, access_t *access) {
  if (index < 0) return;
  const shoal_buffer_t *buffer = &c->buffers[index];
  int64_t bytes = buffer->bytes * buffer->slots;
  if (bytes > 0)
    access->ranges[access->count++] = (range_t){buffer->offset, buffer->offset + bytes, write};
}

static shoal_status_t list_ranges(const shoal_class_t *c, const shoal_instruction_t *in,
                                  shoal_arena_t *scratch, access_t *access) {
  access->ranges = SHOAL_NEW(scratch, range_t, in->input_count + in->output_count + 2);
  if (!access->ranges) return SHOAL_OOM();
  for (int32_t i = 0; i < in->input_count; ++i) add_buffer(c, in->inputs[i], false, access);
  for (int32_t o = 0; o < in->output_count; ++o) add_buffer(c, in->outputs[o], true, access);
  add_buffer(c, in->predicate, false, access);
  if (in->workspace > 0)
    access->ranges[access->count++] =
        (range_t){in->workspace_offset, in->workspace_offset + in->workspace, true};
  return NULL;
}

static bool conflict(const access_t *a, const access_t *b) {
  for (int32_t i = 0; i < a->count; ++i)
    for (int32_t j = 0; j < b->count; ++j)
      if ((a->ranges[i].write || b->ranges[j].write) && a->ranges[i].start < b->ranges[j].end &&
          b->ranges[j].start < a->ranges[i].end)
        return true;
  return false;
}

static shoal_status_t order_segment(build_t *b, const shoal_class_t *c, shoal_segment_t *segment,
                                    shoal_arena_t *scratch) {
  int64_t count = segment->instruction_count;
  access_t *accesses = SHOAL_NEW(scratch, access_t, count);
  if (!accesses) return SHOAL_OOM();
  int64_t last[SHOAL_QUEUE_COUNT];
  for (int q = 0; q < SHOAL_QUEUE_COUNT; ++q) last[q] = -1;
  for (int64_t i = 0; i < count; ++i) {
    shoal_instruction_t *in = &segment->instructions[i];
    access_t *mine = &accesses[i];
    SHOAL_RETURN_IF_ERROR(list_ranges(c, in, scratch, mine));
    for (int q = 0; q < SHOAL_QUEUE_COUNT; ++q)
      mine->clock[q] = last[in->queue] >= 0 ? accesses[last[in->queue]].clock[q] : -1;
    SHOAL_VEC(int32_t) waits = {0};
    for (int64_t j = i; j-- > 0;) {
      shoal_queue_kind_t other = segment->instructions[j].queue;
      if (other == in->queue || mine->clock[other] >= j || !conflict(mine, &accesses[j])) continue;
      if (!SHOAL_PUSH(b->arena, &waits, (int32_t)j)) return SHOAL_OOM();
      for (int q = 0; q < SHOAL_QUEUE_COUNT; ++q)
        if (accesses[j].clock[q] > mine->clock[q]) mine->clock[q] = accesses[j].clock[q];
    }
    mine->clock[in->queue] = last[in->queue] = i;
    in->waits = waits.items;
    in->wait_count = (int32_t)waits.count;
  }
  return NULL;
}

shoal_status_t shoal_lower_waits(build_t *b, shoal_class_t *c) {
  shoal_arena_t scratch;
  shoal_arena_init(b->plan->allocator, &scratch);
  shoal_status_t status = NULL;
  for (int64_t s = 0; s < c->segment_count && !status; ++s)
    status = order_segment(b, c, &c->segments[s], &scratch);
  shoal_arena_deinit(&scratch);
  return status;
}

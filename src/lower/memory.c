// Memory plan of one class: where every buffer and workspace lies in the rank's arena.
//
// States come first and stay. Behind them every graph lays out its temporaries on its own, from the
// same place: graphs do not run at once. Time is the position of an instruction in the
// concatenation of the graph's segments; what is used in more than one segment lives through the
// whole of each loop segment it touches, because the loop comes round again. Blocks are placed
// largest first at the lowest address that is free for their whole life. Queues may run ahead of
// that order: waits.c orders them by address.
#include <stdlib.h>

#include "base/status.h"
#include "lower/build.h"

typedef struct block {
  int64_t bytes, first, last;  // life, inclusive
  int64_t *offset;             // where to write the answer
  int64_t place;
} block_t;

static int by_size(const void *a, const void *b) {
  const block_t *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return x->first < y->first ? -1 : x->first > y->first;
}

static int by_place(const void *a, const void *b) {
  const block_t *x = *(const block_t *const *)a, *y = *(const block_t *const *)b;
  return x->place < y->place ? -1 : x->place > y->place;
}

static shoal_status_t place_blocks(block_t *blocks, int64_t count, int64_t base,
                                   shoal_arena_t *scratch, int64_t *out_end) {
  if (count > 0)
    qsort(blocks, (size_t)count, sizeof *blocks, by_size);  // a rank may have nothing to place
  const block_t **rivals = SHOAL_NEW(scratch, const block_t *, count);
  if (!rivals) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) {
    block_t *block = &blocks[i];
    int64_t rival_count = 0;
    for (int64_t j = 0; j < i; ++j)
      if (blocks[j].first <= block->last && block->first <= blocks[j].last)
        rivals[rival_count++] = &blocks[j];
    qsort(rivals, (size_t)rival_count, sizeof *rivals, by_place);
    block->place = base;
    for (int64_t j = 0; j < rival_count; ++j) {
      if (rivals[j]->place >= block->place + block->bytes) break;
      int64_t end = rivals[j]->place + rivals[j]->bytes;
      if (end > block->place) block->place = end;
    }
    *block->offset = block->place;
    if (block->place + block->bytes > *out_end) *out_end = block->place + block->bytes;
  }
  return NULL;
}

typedef struct life {
  int64_t first, last;
  int32_t segment;  // the one it is used in so far; -1 none
  bool crosses;     // used in more than one
} life_t;

typedef struct span {
  int64_t first, last;
  bool loop;
} span_t;

static void use(life_t *life, int64_t time, int32_t segment) {
  if (life->segment < 0) *life = (life_t){time, time, segment, false};
  if (life->segment != segment) life->crosses = true;
  if (time < life->first) life->first = time;
  if (time > life->last) life->last = time;
}

static shoal_status_t place_graph(shoal_class_t *c, const shoal_order_t *order, int64_t base,
                                  shoal_arena_t *scratch, int64_t *out_end) {
  life_t *lives = SHOAL_NEW(scratch, life_t, c->buffer_count);
  span_t *spans = SHOAL_NEW(scratch, span_t, c->segment_count);
  SHOAL_VEC(block_t) blocks = {0};
  if (!lives || !spans) return SHOAL_OOM();
  for (int64_t i = 0; i < c->buffer_count; ++i) lives[i].segment = -1;
  int64_t time = 0;
  for (int64_t k = 0; k < order->call_count; ++k) {
    if (order->calls[k].micro > 0) continue;  // the loop's first round stands for all
    int32_t s = order->calls[k].segment;
    shoal_segment_t *segment = &c->segments[s];
    spans[s] = (span_t){time, time + segment->instruction_count - 1, order->calls[k].micro == 0};
    for (int64_t i = 0; i < segment->instruction_count; ++i, ++time) {
      shoal_instruction_t *in = &segment->instructions[i];
      for (int32_t j = 0; j < in->input_count; ++j)
        if (in->inputs[j] >= 0) use(&lives[in->inputs[j]], time, s);
      for (int32_t j = 0; j < in->output_count; ++j)
        if (in->outputs[j] >= 0) use(&lives[in->outputs[j]], time, s);
      if (in->predicate >= 0) use(&lives[in->predicate], time, s);
      block_t scratch_block = {in->workspace, time, time, &in->workspace_offset, 0};
      if (in->workspace > 0 && !SHOAL_PUSH(scratch, &blocks, scratch_block)) return SHOAL_OOM();
    }
  }
  for (int64_t i = 0; i < c->buffer_count; ++i) {
    shoal_buffer_t *buffer = &c->buffers[i];
    life_t *life = &lives[i];
    if (life->segment < 0 || buffer->kind == SHOAL_BUFFER_STATE) continue;
    for (int64_t s = 0; s < c->segment_count && life->crosses; ++s) {
      if (!spans[s].loop || spans[s].last < life->first || spans[s].first > life->last) continue;
      if (spans[s].first < life->first) life->first = spans[s].first;
      if (spans[s].last > life->last) life->last = spans[s].last;
    }
    block_t block = {buffer->bytes * buffer->slots, life->first, life->last, &buffer->offset, 0};
    if (!SHOAL_PUSH(scratch, &blocks, block)) return SHOAL_OOM();
  }
  return place_blocks(blocks.items, blocks.count, base, scratch, out_end);
}

shoal_status_t shoal_lower_memory(build_t *b, shoal_class_t *c) {
  int64_t base = 0;
  for (int64_t i = 0; i < c->buffer_count; ++i)
    if (c->buffers[i].kind == SHOAL_BUFFER_STATE) {
      c->buffers[i].offset = base;
      base += c->buffers[i].bytes;
    }
  c->arena_bytes = base;
  shoal_arena_t scratch;
  shoal_arena_init(b->plan->allocator, &scratch);
  shoal_status_t status = NULL;
  for (int64_t g = 0; g < c->order_count && !status; ++g)
    status = place_graph(c, &c->orders[g], base, &scratch, &c->arena_bytes);
  shoal_arena_deinit(&scratch);
  return status;
}

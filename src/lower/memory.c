// Memory plan of one class: where every buffer and workspace lies in the rank's arena.
//
// States come first and stay. Behind them every graph lays out its temporaries on its own, from the
// same place: graphs do not run at once. When a buffer is in use follows from the graph's order
// (program/lives.h). Several ways of placing blocks are tried, and the one that needs the least is
// kept. Queues may run ahead of that order: waits.c and call_waits.c order them by address.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/status.h"
#include "lower/time.h"
#include "program/bind.h"
#include "program/lives.h"

typedef struct block {
  int64_t bytes, first, last;  // life, inclusive
  int64_t *offset;             // where to write the answer
  int64_t place;
} block_t;

// ---- placing ---------------------------------------------------------------------------

static int by_size(const void *a, const void *b) {
  const block_t *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return x->first < y->first ? -1 : x->first > y->first;
}

static int by_place(const void *a, const void *b) {
  const block_t *x = *(const block_t *const *)a, *y = *(const block_t *const *)b;
  return x->place < y->place ? -1 : x->place > y->place;
}

// Largest first, each at the lowest address that is free for its whole life. It packs best, in
// quadratic time.
static shoal_status_t place_by_size(block_t *blocks, int64_t count, shoal_arena_t *scratch,
                                    int64_t *out_end) {
  const block_t **rivals = SHOAL_NEW(scratch, const block_t *, count);
  if (!rivals) return SHOAL_OOM();
  *out_end = 0;
  qsort(blocks, (size_t)count, sizeof *blocks, by_size);
  for (int64_t i = 0; i < count; ++i) {
    block_t *block = &blocks[i];
    int64_t rival_count = 0;
    for (int64_t j = 0; j < i; ++j)
      if (blocks[j].first <= block->last && block->first <= blocks[j].last)
        rivals[rival_count++] = &blocks[j];
    qsort(rivals, (size_t)rival_count, sizeof *rivals, by_place);
    block->place = 0;
    for (int64_t j = 0; j < rival_count; ++j) {
      if (rivals[j]->place >= block->place + block->bytes) break;
      int64_t end = rivals[j]->place + rivals[j]->bytes;
      if (end > block->place) block->place = end;
    }
    if (block->place + block->bytes > *out_end) *out_end = block->place + block->bytes;
  }
  return NULL;
}

// As an allocator would, in the order of time: free stretches sorted by address, the last one
// without an end.
typedef struct gap {
  int64_t start, end;
} gap_t;

typedef struct sweep {
  bool backwards, best_fit;
  gap_t *gaps;
  int64_t gap_count;
  int64_t end;  // of what was ever used
} sweep_t;

static int64_t born(const sweep_t *s, const block_t *block) {
  return s->backwards ? -block->last : block->first;
}
static int64_t dies(const sweep_t *s, const block_t *block) {
  return s->backwards ? -block->first : block->last;
}

static void take_gap(sweep_t *s, block_t *block) {
  int64_t at = s->gap_count - 1;
  for (int64_t i = 0; i < s->gap_count - 1; ++i) {
    int64_t size = s->gaps[i].end - s->gaps[i].start;
    if (size < block->bytes) continue;
    if (at < s->gap_count - 1 && size >= s->gaps[at].end - s->gaps[at].start) continue;
    at = i;
    if (!s->best_fit) break;
  }
  gap_t *gap = &s->gaps[at];
  block->place = gap->start;
  gap->start += block->bytes;
  if (gap->start > s->end && at == s->gap_count - 1) s->end = gap->start;
  if (gap->start < gap->end) return;
  memmove(gap, gap + 1, (size_t)(s->gap_count - at - 1) * sizeof *gap);
  --s->gap_count;
}

static void give_gap(sweep_t *s, const block_t *block) {
  int64_t low = 0, high = s->gap_count, start = block->place, end = start + block->bytes;
  while (low < high) {  // the first gap behind it
    int64_t middle = low + (high - low) / 2;
    if (s->gaps[middle].start < start)
      low = middle + 1;
    else
      high = middle;
  }
  bool before = low > 0 && s->gaps[low - 1].end == start;
  bool behind = low < s->gap_count && s->gaps[low].start == end;
  if (before && behind) {
    s->gaps[low - 1].end = s->gaps[low].end;
    memmove(&s->gaps[low], &s->gaps[low + 1], (size_t)(s->gap_count - low - 1) * sizeof *s->gaps);
    --s->gap_count;
  } else if (before) {
    s->gaps[low - 1].end = end;
  } else if (behind) {
    s->gaps[low].start = start;
  } else {
    memmove(&s->gaps[low + 1], &s->gaps[low], (size_t)(s->gap_count - low) * sizeof *s->gaps);
    s->gaps[low] = (gap_t){start, end};
    ++s->gap_count;
  }
}

typedef struct moment {
  int64_t time;
  bool birth;
  block_t *block;
} moment_t;

// What dies goes before what is born later; of what is born together the largest comes first.
static int by_time(const void *a, const void *b) {
  const moment_t *x = a, *y = b;
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  if (x->birth != y->birth) return x->birth ? -1 : 1;
  if (x->block->bytes != y->block->bytes) return x->block->bytes > y->block->bytes ? -1 : 1;
  return x->block < y->block ? -1 : 1;
}

static shoal_status_t place_by_time(block_t *blocks, int64_t count, bool backwards, bool best_fit,
                                    shoal_arena_t *scratch, int64_t *out_end) {
  sweep_t s = {.backwards = backwards, .best_fit = best_fit, .gap_count = 1};
  moment_t *moments = SHOAL_NEW(scratch, moment_t, 2 * count);
  s.gaps = SHOAL_NEW(scratch, gap_t, count + 2);
  if (!moments || !s.gaps) return SHOAL_OOM();
  s.gaps[0] = (gap_t){0, INT64_MAX};
  for (int64_t i = 0; i < count; ++i) {
    moments[2 * i] = (moment_t){born(&s, &blocks[i]), true, &blocks[i]};
    moments[2 * i + 1] = (moment_t){dies(&s, &blocks[i]), false, &blocks[i]};
  }
  qsort(moments, (size_t)(2 * count), sizeof *moments, by_time);
  for (int64_t i = 0; i < 2 * count; ++i) {
    if (moments[i].birth)
      take_gap(&s, moments[i].block);
    else
      give_gap(&s, moments[i].block);
  }
  *out_end = s.end;
  return NULL;
}

// The most that is alive at once: no plan needs less.
static shoal_status_t lower_bound(const block_t *blocks, int64_t count, shoal_arena_t *scratch,
                                  int64_t *out_bytes) {
  moment_t *moments = SHOAL_NEW(scratch, moment_t, 2 * count);
  int64_t alive = 0;
  if (!moments) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) {
    moments[2 * i] = (moment_t){blocks[i].first, true, (block_t *)&blocks[i]};
    moments[2 * i + 1] = (moment_t){blocks[i].last, false, (block_t *)&blocks[i]};
  }
  qsort(moments, (size_t)(2 * count), sizeof *moments, by_time);
  *out_bytes = 0;
  for (int64_t i = 0; i < 2 * count; ++i) {
    alive += moments[i].birth ? moments[i].block->bytes : -moments[i].block->bytes;
    if (alive > *out_bytes) *out_bytes = alive;
  }
  return NULL;
}

enum { FEW = 2000 };  // blocks that are placed in quadratic time, too

// Tries every way until one meets the lower bound, and takes the best.
static shoal_status_t place_blocks(block_t *blocks, int64_t count, int64_t base,
                                   shoal_arena_t *scratch, int64_t *out_end) {
  int64_t bound = 0, best = INT64_MAX;
  if (count == 0) return NULL;  // a rank may have nothing to place
  SHOAL_RETURN_IF_ERROR(lower_bound(blocks, count, scratch, &bound));
  for (int way = count <= FEW ? 0 : 1; way < 5 && best > bound; ++way) {
    int64_t end = 0;
    SHOAL_RETURN_IF_ERROR(
        way == 0 ? place_by_size(blocks, count, scratch, &end)
                 : place_by_time(blocks, count, (way & 1) == 0, way > 2, scratch, &end));
    if (end >= best) continue;
    best = end;
    for (int64_t i = 0; i < count; ++i) *blocks[i].offset = base + blocks[i].place;
  }
  if (base + best > *out_end) *out_end = base + best;
  return NULL;
}

// ---- graphs ----------------------------------------------------------------------------

static shoal_status_t place_graph(shoal_class_t *c, const shoal_order_t *order, int64_t base,
                                  shoal_arena_t *scratch, int64_t *out_end) {
  shoal_lives_t lives;
  SHOAL_VEC(block_t) blocks = {0};
  SHOAL_RETURN_IF_ERROR(shoal_lives_find(c, order, scratch, &lives));
  for (int64_t s = 0; s < c->segment_count; ++s) {
    shoal_segment_t *segment = &c->segments[s];
    for (int64_t i = 0; i < segment->instruction_count && lives.starts[s] >= 0; ++i) {
      shoal_instruction_t *in = &segment->instructions[i];
      const int64_t time = lives.starts[s] + i;
      block_t block = {in->workspace, time, time, &in->workspace_offset, 0};
      if (in->workspace > 0 && !SHOAL_PUSH(scratch, &blocks, block)) return SHOAL_OOM();
    }
  }
  for (int64_t i = 0; i < c->buffer_count; ++i) {
    shoal_buffer_t *buffer = &c->buffers[i];
    const shoal_life_t *life = &lives.buffers[i];
    if (life->first > life->last || buffer->kind == SHOAL_BUFFER_STATE) continue;
    if (buffer->bytes == 0) continue;
    block_t block = {buffer->bytes * shoal_buffer_slots(c, buffer), life->first, life->last,
                     &buffer->offset, 0};
    if (!SHOAL_PUSH(scratch, &blocks, block)) return SHOAL_OOM();
  }
  return place_blocks(blocks.items, blocks.count, base, scratch, out_end);
}

shoal_status_t shoal_lower_memory(shoal_class_t *c, shoal_allocator_t allocator) {
  int64_t base = 0;
  for (int64_t i = 0; i < c->buffer_count; ++i)
    if (c->buffers[i].kind == SHOAL_BUFFER_STATE) {
      c->buffers[i].offset = base;
      base += c->buffers[i].bytes;
    }
  c->arena_bytes = base;
  shoal_arena_t scratch;
  shoal_arena_init(allocator, &scratch);
  shoal_status_t status = NULL;
  for (int64_t g = 0; g < c->order_count && !status; ++g)
    status = place_graph(c, &c->orders[g], base, &scratch, &c->arena_bytes);
  shoal_arena_deinit(&scratch);
  return status;
}

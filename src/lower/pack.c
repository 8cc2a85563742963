// Places blocks of memory that live for a while: two that live at once lie apart. Several ways are
// tried until one meets the lower bound, and the one that needs the least is kept.
#include "lower/pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static int by_size(const void *a, const void *b) {
  const shoal_block_t *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return x->first < y->first ? -1 : x->first > y->first;
}

// The first place from `place` on that the block may have.
static int64_t aligned(const shoal_block_t *block, int64_t place) {
  const int64_t align = block->align > 0 ? block->align : 1;
  return (place + align - 1) / align * align;
}

// Puts block after block, in this order, at the lowest address that is free for its whole life.
// `placed` has room for all.
static int64_t place_in_order(shoal_block_t *const *order, int64_t count, shoal_block_t **placed) {
  int64_t end = 0;
  for (int64_t i = 0; i < count; ++i) {
    shoal_block_t *block = order[i];
    int64_t at = 0;
    block->place = 0;
    for (; at < i; ++at) {  // by address
      const shoal_block_t *other = placed[at];
      if (other->place >= block->place + block->bytes) break;
      if (other->first > block->last || block->first > other->last) continue;
      if (other->place + other->bytes > block->place)
        block->place = aligned(block, other->place + other->bytes);
    }
    for (; at > 0 && placed[at - 1]->place > block->place; --at) continue;
    for (; at < i && placed[at]->place < block->place; ++at) continue;
    memmove(&placed[at + 1], &placed[at], (size_t)(i - at) * sizeof(shoal_block_t *));
    placed[at] = block;
    if (block->place + block->bytes > end) end = block->place + block->bytes;
  }
  return end;
}

typedef struct search {
  shoal_block_t **order, **placed, **tried;
  int64_t count;
  uint64_t random;  // the same numbers every time
} search_t;

static int64_t draw(search_t *s, int64_t limit) {
  s->random = s->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int64_t)((s->random >> 33) % (uint64_t)limit);
}

// Another order: a block comes earlier; half the time it is one that reaches to the end.
static void vary(search_t *s, int64_t end) {
  int64_t from = draw(s, s->count);
  memcpy(s->tried, s->order, (size_t)s->count * sizeof(shoal_block_t *));
  if (draw(s, 2) == 0)
    for (from = 0; s->order[from]->place + s->order[from]->bytes < end;) ++from;
  const int64_t to = draw(s, from + 1);
  shoal_block_t *block = s->tried[from];
  memmove(&s->tried[to + 1], &s->tried[to], (size_t)(from - to) * sizeof(shoal_block_t *));
  s->tried[to] = block;
}

enum { EFFORT = 4000000 };  // how many pairs of blocks are looked at

// Largest first. Where that leaves more than a hundredth of what is needed unused, other orders are
// tried; one that is no worse is taken.
static shoal_status_t place_by_size(shoal_block_t *blocks, int64_t count, int64_t bound,
                                    shoal_arena_t *scratch, int64_t *out_end) {
  search_t s = {.order = SHOAL_NEW(scratch, shoal_block_t *, count),
                .placed = SHOAL_NEW(scratch, shoal_block_t *, count),
                .tried = SHOAL_NEW(scratch, shoal_block_t *, count),
                .count = count};
  int64_t *best = SHOAL_NEW(scratch, int64_t, count);
  if (!s.order || !s.placed || !s.tried || !best) return SHOAL_OOM();
  qsort(blocks, (size_t)count, sizeof *blocks, by_size);
  for (int64_t i = 0; i < count; ++i) s.tried[i] = &blocks[i];
  const int64_t enough = bound + bound / 100;
  int64_t end = INT64_MAX;
  for (int64_t effort = 0; effort < EFFORT && end > enough; effort += count * count / 2 + 1) {
    if (effort > 0) vary(&s, end);
    const int64_t other = place_in_order(s.tried, count, s.placed);
    if (other <= end) memcpy(s.order, s.tried, (size_t)count * sizeof(shoal_block_t *));
    for (int64_t i = 0; i < count; ++i)
      *(other <= end ? &best[i] : &blocks[i].place) = other <= end ? blocks[i].place : best[i];
    if (other < end) end = other;
  }
  *out_end = end;
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

static int64_t born(const sweep_t *s, const shoal_block_t *block) {
  return s->backwards ? -block->last : block->first;
}
static int64_t dies(const sweep_t *s, const shoal_block_t *block) {
  return s->backwards ? -block->first : block->last;
}

static void take_gap(sweep_t *s, shoal_block_t *block) {
  int64_t at = s->gap_count - 1;
  for (int64_t i = 0; i < s->gap_count - 1; ++i) {
    int64_t size = s->gaps[i].end - s->gaps[i].start;
    if (s->gaps[i].end - aligned(block, s->gaps[i].start) < block->bytes) continue;
    if (at < s->gap_count - 1 && size >= s->gaps[at].end - s->gaps[at].start) continue;
    at = i;
    if (!s->best_fit) break;
  }
  gap_t *gap = &s->gaps[at];
  block->place = aligned(block, gap->start);
  if (block->place > gap->start) {  // what lies in front of it stays free
    memmove(gap + 1, gap, (size_t)(s->gap_count - at) * sizeof *gap);
    ++s->gap_count;
    ++at;
    (gap++)->end = block->place;
  }
  gap->start = block->place + block->bytes;
  if (gap->start > s->end && at == s->gap_count - 1) s->end = gap->start;
  if (gap->start < gap->end) return;
  memmove(gap, gap + 1, (size_t)(s->gap_count - at - 1) * sizeof *gap);
  --s->gap_count;
}

static void give_gap(sweep_t *s, const shoal_block_t *block) {
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
  shoal_block_t *block;
} moment_t;

// What dies goes before what is born later; of what is born together the largest comes first.
static int by_time(const void *a, const void *b) {
  const moment_t *x = a, *y = b;
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  if (x->birth != y->birth) return x->birth ? -1 : 1;
  if (x->block->bytes != y->block->bytes) return x->block->bytes > y->block->bytes ? -1 : 1;
  return x->block < y->block ? -1 : 1;
}

static shoal_status_t place_by_time(shoal_block_t *blocks, int64_t count, bool backwards,
                                    bool best_fit, shoal_arena_t *scratch, int64_t *out_end) {
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
static shoal_status_t lower_bound(const shoal_block_t *blocks, int64_t count,
                                  shoal_arena_t *scratch, int64_t *out_bytes) {
  moment_t *moments = SHOAL_NEW(scratch, moment_t, 2 * count);
  int64_t alive = 0;
  if (!moments) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) {
    moments[2 * i] = (moment_t){blocks[i].first, true, (shoal_block_t *)&blocks[i]};
    moments[2 * i + 1] = (moment_t){blocks[i].last, false, (shoal_block_t *)&blocks[i]};
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

shoal_status_t shoal_lower_pack(shoal_block_t *blocks, int64_t count, shoal_arena_t *scratch,
                                int64_t *out_end) {
  int64_t bound = 0, best = INT64_MAX;
  *out_end = 0;
  if (count == 0) return NULL;  // a rank may have nothing to place
  SHOAL_RETURN_IF_ERROR(lower_bound(blocks, count, scratch, &bound));
  for (int way = count <= FEW ? 0 : 1; way < 5 && best > bound; ++way) {
    int64_t end = 0;
    SHOAL_RETURN_IF_ERROR(
        way == 0 ? place_by_size(blocks, count, bound, scratch, &end)
                 : place_by_time(blocks, count, (way & 1) == 0, way > 2, scratch, &end));
    if (end >= best) continue;
    best = end;
    for (int64_t i = 0; i < count; ++i) *blocks[i].offset = blocks[i].place;
  }
  *out_end = best;
  return NULL;
}

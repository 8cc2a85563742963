// Owners: which coordinates of a layout own or hold some of given elements, without looking at the
// others. Along a dim the cuts are descended outermost first. What a cut deals out ascends with the
// coordinate, in every chunk, so the coordinates that meet an interval are found by bisection; what
// trimming leaves of them is seen when the cut is applied. Flat ranges are found in the same way.
//
// The cost is that of the coordinates found, times the cuts and the logarithm of the axes; with
// weights that of the axis once more.
#include <stdlib.h>

#include "layout/layout_impl.h"

typedef SHOAL_VEC(shoal_interval_t) ranges_t;  // of coordinates

static int compare_ranges(const void *a, const void *b) {
  const shoal_interval_t *x = a, *y = b;
  return (x->start > y->start) - (x->start < y->start);
}

// Sorts ranges and joins those that touch.
static void join_ranges(ranges_t *ranges) {
  if (ranges->count < 2) return;
  qsort(ranges->items, (size_t)ranges->count, sizeof *ranges->items, compare_ranges);
  int64_t count = 1;
  for (int64_t i = 1; i < ranges->count; ++i) {
    shoal_interval_t *last = &ranges->items[count - 1], *next = &ranges->items[i];
    if (next->start > last->start + last->size) {
      ranges->items[count++] = *next;
      continue;
    }
    last->size = shoal_max64(last->size, next->start + next->size - last->start);
  }
  ranges->count = count;
}

// ---- along a dim -----------------------------------------------------------------------

typedef struct search {
  const shoal_owners_t *query;
  int64_t length;
  bool by_held;  // else by what is owned
  shoal_arena_t *arena;
  shoal_slots_t *out;
} search_t;

// A cut of an outer part, as the bisections see it.
typedef struct dealt {
  const shoal_cut_t *cut;
  int32_t chunk;
  const shoal_dim_state_t *outer;
  int64_t length;  // of what is dealt
  int64_t parts;
} dealt_t;

// Appends the coordinates whose share meets [from, to).
static bool add_range(const dealt_t *dealt, int64_t from, int64_t to, shoal_arena_t *arena,
                      ranges_t *ranges) {
  shoal_cut_share_t share;
  const shoal_cut_t *cut = dealt->cut;
  int64_t low = 0, high = dealt->parts;
  while (low < high) {  // the first share that ends behind `from`
    int64_t middle = low + (high - low) / 2;
    (void)shoal_cut_share(cut, dealt->chunk, dealt->outer, dealt->length, dealt->parts, middle,
                          &share);
    if (share.end > from)
      high = middle;
    else
      low = middle + 1;
  }
  const int64_t first = low;
  high = dealt->parts;
  while (low < high) {  // the first share that starts at `to` or behind it
    int64_t middle = low + (high - low) / 2;
    (void)shoal_cut_share(cut, dealt->chunk, dealt->outer, dealt->length, dealt->parts, middle,
                          &share);
    if (share.start < to)
      low = middle + 1;
    else
      high = middle;
  }
  // Without weights, shares that were dealt nothing lie behind all others: they are left out.
  if (low > first && !cut->weights) {
    int64_t some = first;
    for (high = low; some < high;) {
      int64_t middle = some + (high - some) / 2;
      if (shoal_cut_share(cut, dealt->chunk, dealt->outer, dealt->length, dealt->parts, middle,
                          &share))
        some = middle + 1;
      else
        high = middle;
    }
    low = some;
  }
  return first == low || SHOAL_PUSH(arena, ranges, ((shoal_interval_t){first, low - first}));
}

// The first wanted interval that ends behind `start`.
static int64_t first_wanted(shoal_spans_t want, int64_t start) {
  int64_t low = 0, high = want.count;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (want.items[middle].start + want.items[middle].size <= start)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static shoal_status_t find_ranges(const search_t *search, const shoal_cut_t *cut,
                                  const shoal_dim_state_t *outer, ranges_t *out) {
  const shoal_spans_t want = search->query->want;
  dealt_t dealt = {cut, 0, outer, 0,
                   shoal_layout_axis_size(search->query->layout->mesh, cut->axis)};
  int64_t low = 0;
  for (int32_t c = 0; c < (cut->chunk_count ? cut->chunk_count : 1); ++c) {
    int64_t high = cut->chunk_count ? shoal_cut_chunk_end(cut, c, low, search->length) : INT64_MAX;
    dealt.chunk = c;
    dealt.length = shoal_dim_list_between(&outer->own, low, high);
    for (int64_t i = first_wanted(want, low); i < want.count && want.items[i].start < high; ++i) {
      int64_t from = want.items[i].start, to = from + want.items[i].size;
      if (search->by_held) {  // trimmed shares meet it with `from` behind `to`
        from -= outer->origin + cut->after;
        to -= outer->origin - cut->before;
      } else {
        to = shoal_dim_list_between(&outer->own, low, shoal_min64(to, high));
        from = shoal_dim_list_between(&outer->own, low, from);
        if (from >= to) continue;
      }
      if (!add_range(&dealt, from, to, search->arena, out)) return SHOAL_OOM();
    }
    if (high >= search->length) break;
    low = high;
  }
  join_ranges(out);
  return NULL;
}

static bool meets(shoal_spans_t want, const shoal_interval_t *items, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = first_wanted(want, items[i].start);
    if (at < want.count && want.items[at].start < items[i].start + items[i].size) return true;
  }
  return false;
}

static shoal_status_t descend(const search_t *search, int32_t level, int64_t slot,
                              const shoal_dim_state_t *state);

static shoal_status_t try_coordinate(const search_t *search, int32_t level, int64_t slot,
                                     int64_t index, const shoal_dim_state_t *outer) {
  const shoal_owners_t *query = search->query;
  const shoal_cut_t *cut = &query->layout->cuts[level];
  shoal_dim_state_t state = *outer;
  SHOAL_RETURN_IF_ERROR(
      shoal_dim_state_cut(query->layout->mesh, cut, search->length, index, search->arena, &state));
  const shoal_interval_t held = {state.held, state.held_to - state.held};
  if (search->by_held ? held.size <= 0 || !meets(query->want, &held, 1)
                      : !meets(query->want, state.own.items, state.own.count)) {
    return NULL;
  }
  if (cut->axis != SHOAL_AXIS_MICRO) {
    slot = slot * query->layout->mesh->axes[cut->axis].size + index;
  }
  return descend(search, level + 1, slot, &state);
}

static shoal_status_t add_slot(const search_t *search, int64_t index,
                               const shoal_dim_state_t *state) {
  shoal_slot_t slot = {.index = index};
  SHOAL_RETURN_IF_ERROR(shoal_dim_state_part(state, search->arena, &slot.part));
  SHOAL_RETURN_IF_ERROR(shoal_slot_offsets(&slot.part, search->arena, &slot.offsets));
  const shoal_dim_part_t *part = &slot.part;
  if (search->query->held ? !meets(search->query->want, part->held, part->held_count)
                          : !meets(search->query->want, part->own, part->own_count)) {
    return NULL;
  }
  return SHOAL_PUSH(search->arena, search->out, slot) ? NULL : SHOAL_OOM();
}

static shoal_status_t descend(const search_t *search, int32_t level, int64_t slot,
                              const shoal_dim_state_t *state) {
  const shoal_owners_t *query = search->query;
  const shoal_layout_t *layout = query->layout;
  for (; level < layout->cut_count; ++level) {
    const shoal_cut_t *cut = &layout->cuts[level];
    if (cut->kind != SHOAL_CUT_DIM || cut->dim != query->dim) continue;
    if (cut->axis == SHOAL_AXIS_MICRO && query->micro < 0) continue;
    break;
  }
  if (level == layout->cut_count) return add_slot(search, slot, state);
  const shoal_cut_t *cut = &layout->cuts[level];
  if (cut->axis == SHOAL_AXIS_MICRO) {
    return try_coordinate(search, level, slot, query->micro, state);
  }
  if (query->fixed && query->fixed[cut->axis] >= 0) {
    return try_coordinate(search, level, slot, query->fixed[cut->axis], state);
  }
  ranges_t ranges = {0};
  const int64_t parts = shoal_layout_axis_size(layout->mesh, cut->axis);
  SHOAL_RETURN_IF_ERROR(find_ranges(search, cut, state, &ranges));
  for (int64_t i = 0; i < ranges.count; ++i) {
    for (int64_t k = 0; k < ranges.items[i].size; ++k) {
      const int64_t part = ranges.items[i].start + k;
      SHOAL_RETURN_IF_ERROR(
          try_coordinate(search, level, slot, (part + parts - cut->turn) % parts, state));
    }
  }
  return NULL;
}

shoal_status_t shoal_owners_find(const shoal_owners_t *query, int64_t length, shoal_deals_t *deals,
                                 shoal_arena_t *arena, shoal_slots_t *out_slots) {
  const shoal_tile_t *tile = shoal_layout_tile(query->layout, query->dim);
  bool chunked = tile && tile->cut.chunk_count > 0;
  for (int32_t i = 0; i < query->layout->cut_count; ++i) {
    const shoal_cut_t *cut = &query->layout->cuts[i];
    chunked |= cut->kind == SHOAL_CUT_DIM && cut->dim == query->dim && cut->chunk_count > 0;
  }
  *out_slots = (shoal_slots_t){0};
  search_t search = {.query = query,
                     .length = length,
                     .by_held = query->held && !chunked,
                     .arena = arena,
                     .out = out_slots};
  shoal_dim_state_t state;
  SHOAL_RETURN_IF_ERROR(shoal_dim_state_init(length, tile, deals, arena, &state));
  return descend(&search, 0, 0, &state);
}

// ---- flat ranges -----------------------------------------------------------------------

typedef struct flat_search {
  const shoal_layout_t *layout;
  const int64_t *fixed;
  int64_t from, to;
  shoal_deals_t *deals;
  shoal_arena_t *arena;
  shoal_flats_t *out;
} flat_search_t;

// The first coordinate whose share ends behind `limit`, or, with starts, starts at it or behind.
static int64_t bisect_flat(const flat_search_t *search, const shoal_cut_t *cut, int64_t length,
                           int64_t limit, bool starts) {
  int64_t parts = shoal_layout_axis_size(search->layout->mesh, cut->axis), low = 0, high = parts;
  while (low < high) {
    int64_t middle = low + (high - low) / 2, start, end;
    shoal_layout_deal_length(length, shoal_max64(cut->unit, 1), parts, cut->weights, middle,
                             search->deals, &start, &end);
    if (starts ? start >= limit : end > limit)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static shoal_status_t descend_flat(const flat_search_t *search, int32_t level, int64_t index,
                                   int64_t from, int64_t to) {
  const shoal_layout_t *layout = search->layout;
  if (from >= search->to || to <= search->from || from >= to) return NULL;
  while (level < layout->cut_count && layout->cuts[level].kind != SHOAL_CUT_FLAT) ++level;
  if (level == layout->cut_count) {
    const shoal_flat_t flat = {index, from, to};
    return SHOAL_PUSH(search->arena, search->out, flat) ? NULL : SHOAL_OOM();
  }
  const shoal_cut_t *cut = &layout->cuts[level];
  int64_t parts = shoal_layout_axis_size(layout->mesh, cut->axis);
  int64_t first = bisect_flat(search, cut, to - from, search->from - from, false);
  int64_t end = bisect_flat(search, cut, to - from, search->to - from, true);
  if (search->fixed && search->fixed[cut->axis] >= 0) {
    first = search->fixed[cut->axis];
    end = first + 1;
  }
  for (; first < end; ++first) {
    int64_t a, b;
    shoal_layout_deal_length(to - from, shoal_max64(cut->unit, 1), parts, cut->weights, first,
                             search->deals, &a, &b);
    SHOAL_RETURN_IF_ERROR(
        descend_flat(search, level + 1, index * parts + first, from + a, from + b));
  }
  return NULL;
}

shoal_status_t shoal_owners_flat(const shoal_layout_t *layout, const int64_t *fixed, int64_t total,
                                 int64_t from, int64_t to, shoal_deals_t *deals,
                                 shoal_arena_t *arena, shoal_flats_t *out_flats) {
  flat_search_t search = {layout, fixed, from, to, deals, arena, out_flats};
  out_flats->count = 0;
  SHOAL_RETURN_IF_ERROR(descend_flat(&search, 0, 0, 0, total));
  return deals->failed ? SHOAL_OOM() : NULL;
}

// Exploring a layout: every state that a part along a dim can be in, up to where it lies, and along
// each axis the coordinates at which it changes. The cuts are applied outermost first; of each run
// of coordinates that get the same, the first is followed.
#include <stdlib.h>

#include "layout/layout_impl.h"

enum { RECENT = 16 };  // states that a new one is compared with; equal ones come close together

static int compare_points(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

void shoal_points_sort(shoal_points_t *points) {
  if (points->count > 1) {
    qsort(points->items, (size_t)points->count, sizeof *points->items, compare_points);
  }
  int64_t count = 0;
  for (int64_t i = 0; i < points->count; ++i) {
    if (count && points->items[count - 1] == points->items[i]) continue;
    points->items[count++] = points->items[i];
  }
  points->count = count;
}

// ---- where a cut changes what it gives -------------------------------------------------

typedef struct dealing {
  const shoal_cut_t *cut;
  const shoal_dim_state_t *outer;
  int64_t parts;
  int32_t chunk;
  int64_t length;  // of what is dealt
  shoal_arena_t *arena;
  shoal_points_t *points;
} dealing_t;

static bool add_point(const dealing_t *d, int64_t point) {
  if (point < 0 || point >= d->parts) return true;
  return SHOAL_PUSH(d->arena, d->points, point);
}

static bool add_points(const dealing_t *d, int64_t from, int64_t to) {
  for (int64_t i = from; i < to; ++i) {
    if (!add_point(d, i)) return false;
  }
  return true;
}

// The first coordinate whose share ends behind `limit`, or, with starts, starts at it or behind.
static int64_t first_share(const dealing_t *d, int64_t limit, bool starts) {
  int64_t low = 0, high = d->parts;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    shoal_cut_share_t share;
    (void)shoal_cut_share(d->cut, d->chunk, d->outer, d->length, d->parts, middle, &share);
    if (starts ? share.start >= limit : share.end > limit)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// Larger parts come first; the last that gets any may be short, or take the rest; then there may be
// empty ones. Items may reach behind the end.
static bool add_deal(const dealing_t *d) {
  int64_t units = shoal_cut_units(d->cut, d->chunk, d->outer, d->length);
  int64_t last = shoal_max64(shoal_min64(units, d->parts) - 1, 0);
  if (!add_point(d, units % d->parts) || !add_points(d, last, last + 2)) return false;
  if (!d->cut->items) return true;
  int64_t across = first_share(d, d->length, false);
  return add_points(d, across, across + 2);
}

static bool add_cut(dealing_t *d, int64_t length) {
  const shoal_cut_t *cut = d->cut;
  const shoal_dim_state_t *outer = d->outer;
  if (cut->chunk_count) {
    int64_t low = 0;
    for (int32_t i = 0; i < cut->chunk_count && low < length; ++i) {
      int64_t high = shoal_cut_chunk_end(cut, i, low, length);
      d->chunk = i;
      d->length = shoal_dim_list_between(&outer->own, low, high);
      if (!add_deal(d)) return false;
      low = high;
    }
    return true;
  }
  d->chunk = 0;
  d->length = shoal_dim_list_between(&outer->own, 0, length);
  if (!add_deal(d)) return false;
  int64_t packed = 0;  // intervals end inside a part
  for (int32_t i = 0; i + 1 < outer->own.count; ++i) {
    packed += outer->own.items[i].size;
    int64_t across = first_share(d, packed, false);
    if (!add_points(d, across, across + 2)) return false;
  }
  // Near the ends of what the outer part holds, halos are clipped, each in its own way; so is what
  // items behind the end hold of the outer halo.
  if (outer->chunked) return true;
  int64_t from = first_share(d, outer->held - outer->origin + cut->before, true);
  int64_t to = first_share(d, outer->held_to - outer->origin - cut->after, false);
  int64_t behind = first_share(d, outer->held_to - outer->origin + cut->before, true);
  return add_points(d, 0, from + 1) && add_points(d, to, behind + 1);
}

// ---- states ----------------------------------------------------------------------------

// Do two parts differ at most in where they lie? With `placed`, not even in that.
static bool same_state(const shoal_dim_state_t *a, const shoal_dim_state_t *b, bool placed) {
  if (a->own.count != b->own.count || a->chunked != b->chunked) return false;
  if (a->dealt_items != b->dealt_items) return false;
  if (a->dealt_items && (a->items != b->items || a->unit != b->unit)) return false;
  for (int32_t i = 0; i < a->own.count; ++i) {
    if (a->own.items[i].size != b->own.items[i].size) return false;
    if (placed && a->own.items[i].start != b->own.items[i].start) return false;
  }
  if (a->chunked) return true;
  if (placed && a->origin != b->origin) return false;
  return a->held - a->origin == b->held - b->origin &&
         a->held_to - a->origin == b->held_to - b->origin;
}

static bool add_rep(shoal_arena_t *arena, bool placed, const shoal_dim_rep_t *rep,
                    shoal_dim_reps_t *reps) {
  for (int64_t i = reps->count; i-- > shoal_max64(0, reps->count - RECENT);) {
    const shoal_dim_rep_t *other = &reps->items[i];
    if (same_state(&rep->state, &other->state, placed) &&
        same_state(&rep->base, &other->base, placed)) {
      return true;
    }
  }
  return SHOAL_PUSH(arena, reps, *rep);
}

static shoal_status_t apply_cut(const shoal_explore_t *how, int32_t level, bool placed,
                                const shoal_dim_rep_t *outer, shoal_dim_reps_t *next) {
  const shoal_cut_t *cut = how->cuts[level];
  const bool micro = cut->axis == SHOAL_AXIS_MICRO;
  const int32_t axis = micro ? SHOAL_MAX_AXES : cut->axis;
  const int64_t parts = shoal_layout_axis_size(how->mesh, cut->axis);
  shoal_points_t points = {0};
  int64_t given = 0;
  if (micro && how->micro >= 0) {
    if (!SHOAL_PUSH(how->arena, &points, how->micro)) return SHOAL_OOM();
  } else {
    dealing_t dealing = {cut, &outer->state, parts, 0, 0, how->arena, &points};
    bool all = cut->weights || cut->turn || placed;
    if (!add_point(&dealing, 0)) return SHOAL_OOM();
    if (all ? !add_points(&dealing, 1, parts) : !add_cut(&dealing, how->length)) {
      return SHOAL_OOM();
    }
    shoal_points_sort(&points);
    for (int64_t i = 0; how->breaks && i < points.count; ++i) {
      if (!SHOAL_PUSH(how->arena, &how->breaks[axis], points.items[i])) return SHOAL_OOM();
    }
  }
  for (int64_t i = 0; i < points.count; ++i) {
    shoal_dim_rep_t rep = *outer;
    SHOAL_RETURN_IF_ERROR(
        shoal_dim_state_cut(how->mesh, cut, how->length, points.items[i], how->arena, &rep.state));
    if (level < how->base) rep.base = rep.state;
    if (rep.state.own.count) {
      given += (i + 1 < points.count ? points.items[i + 1] : parts) - points.items[i];
    }
    if (!add_rep(how->arena, placed, &rep, next)) return SHOAL_OOM();
  }
  if (how->deals_out && given > 1) how->deals_out[axis] = true;
  return NULL;
}

shoal_status_t shoal_dim_explore(const shoal_explore_t *how, shoal_dim_reps_t *out_reps) {
  shoal_dim_reps_t reps = {0};
  shoal_dim_rep_t first;
  SHOAL_RETURN_IF_ERROR(
      shoal_dim_state_init(how->length, how->tile, how->deals, how->arena, &first.state));
  first.base = first.state;
  if (!SHOAL_PUSH(how->arena, &reps, first)) return SHOAL_OOM();
  for (int32_t i = 0; i < how->cut_count; ++i) {
    bool placed = false;  // chunks of an inner cut lie where they lie
    for (int32_t k = i + 1; k < how->cut_count; ++k) placed |= how->cuts[k]->chunk_count > 0;
    shoal_dim_reps_t next = {0};
    for (int64_t k = 0; k < reps.count; ++k) {
      SHOAL_RETURN_IF_ERROR(apply_cut(how, i, placed, &reps.items[k], &next));
    }
    reps = next;
  }
  *out_reps = reps;
  return NULL;
}

// ---- flat ranges -----------------------------------------------------------------------

shoal_status_t shoal_flat_explore(const shoal_explore_t *how, shoal_points_t *lengths) {
  for (int32_t i = 0; i < how->cut_count; ++i) {
    const shoal_cut_t *cut = how->cuts[i];
    const int64_t parts = shoal_layout_axis_size(how->mesh, cut->axis);
    const int64_t unit = shoal_max64(cut->unit, 1);
    shoal_points_t next = {0};
    for (int64_t k = 0; k < lengths->count; ++k) {
      int64_t length = lengths->items[k], units = length / unit + (length % unit != 0), from, to;
      shoal_points_t points = {0};
      dealing_t dealing = {cut, NULL, parts, 0, length, how->arena, &points};
      int64_t last = shoal_max64(shoal_min64(units, parts) - 1, 0);
      if (!add_point(&dealing, 0)) return SHOAL_OOM();
      if (cut->weights
              ? !add_points(&dealing, 1, parts)
              : !add_point(&dealing, units % parts) || !add_points(&dealing, last, last + 2)) {
        return SHOAL_OOM();
      }
      shoal_points_sort(&points);
      for (int64_t n = 0; n < points.count; ++n) {
        shoal_layout_deal_length(length, unit, parts, cut->weights, points.items[n], how->deals,
                                 &from, &to);
        if (how->breaks && !SHOAL_PUSH(how->arena, &how->breaks[cut->axis], points.items[n])) {
          return SHOAL_OOM();
        }
        if (!SHOAL_PUSH(how->arena, &next, to - from)) return SHOAL_OOM();
      }
    }
    shoal_points_sort(&next);
    *lengths = next;
  }
  return how->deals->failed ? SHOAL_OOM() : NULL;
}

shoal_status_t shoal_flat_totals(int32_t rank, const shoal_dim_reps_t *dims, shoal_arena_t *arena,
                                 shoal_points_t *out_totals) {
  shoal_points_t totals = {0};
  if (!SHOAL_PUSH(arena, &totals, (int64_t)1)) return SHOAL_OOM();
  for (int32_t d = 0; d < rank; ++d) {
    shoal_points_t sizes = {0}, next = {0};
    for (int64_t i = 0; i < dims[d].count; ++i) {
      int64_t size = shoal_dim_list_between(&dims[d].items[i].state.own, 0, INT64_MAX);
      if (!SHOAL_PUSH(arena, &sizes, size)) return SHOAL_OOM();
    }
    shoal_points_sort(&sizes);
    for (int64_t i = 0; i < totals.count; ++i) {
      for (int64_t k = 0; k < sizes.count; ++k) {
        if (!SHOAL_PUSH(arena, &next, totals.items[i] * sizes.items[k])) return SHOAL_OOM();
      }
    }
    shoal_points_sort(&next);
    totals = next;
  }
  *out_totals = totals;
  return NULL;
}

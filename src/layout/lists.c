// A part as lists of boxes, and copies between a whole tensor and a part's dense buffer.
//
// Own and held parts are products of interval lists, so their boxes in row-major order of the lists
// are sorted by start. What is held beyond the owned part is decomposed by its first dim outside:
// boxes with dims before d owned, dim d in the halo, dims behind d held. That choice is canonical:
// no two of these boxes join to a box. (With a halo every dim is one interval; if nothing is owned
// it is all of held.)
#include <stdlib.h>
#include <string.h>

#include "layout/layout_impl.h"

// ---- lists -----------------------------------------------------------------------------

typedef struct intervals {
  const shoal_interval_t *items;
  int64_t count;
} intervals_t;

// Writes the boxes of a product in row-major order. Returns how many; out may be NULL to count.
static int64_t product_boxes(const intervals_t *dims, int32_t rank, shoal_box_t *out) {
  int64_t count = 1;
  for (int32_t d = 0; d < rank; ++d) count *= dims[d].count;
  if (!out) return count;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    for (int32_t d = rank - 1; d >= 0; --d) {
      const shoal_interval_t *interval = &dims[d].items[rest % dims[d].count];
      rest /= dims[d].count;
      out[i].start[d] = interval->start;
      out[i].size[d] = interval->size;
    }
  }
  return count;
}

static intervals_t own_of(const shoal_dim_part_t *part) {
  return (intervals_t){part->own, part->own_count};
}

static intervals_t held_of(const shoal_dim_part_t *part) {
  return (intervals_t){part->held, part->held_count};
}

shoal_status_t shoal_boxes_list(const shoal_boxes_t *boxes, shoal_arena_t *arena,
                                const shoal_box_t **out_boxes, int64_t *out_count) {
  intervals_t dims[SHOAL_MAX_RANK];
  for (int32_t d = 0; d < boxes->whole.rank; ++d) dims[d] = own_of(&boxes->dims[d]);
  int64_t count = product_boxes(dims, boxes->whole.rank, NULL);
  shoal_box_t *list = SHOAL_NEW(arena, shoal_box_t, count);
  if (!list) return SHOAL_OOM();
  product_boxes(dims, boxes->whole.rank, list);
  *out_boxes = list;
  *out_count = count;
  return NULL;
}

static int compare_boxes(const void *a, const void *b) {
  const shoal_box_t *x = a, *y = b;
  for (int32_t d = 0; d < SHOAL_MAX_RANK; ++d) {
    if (x->start[d] != y->start[d]) return x->start[d] < y->start[d] ? -1 : 1;
  }
  return 0;
}

// What a dim holds beyond what it owns: at most an interval before and one behind (out has room for
// two).
static intervals_t beyond(const shoal_dim_part_t *part, shoal_interval_t *out) {
  intervals_t result = {out, 0};
  if (part->held_size == part->own_size) return result;
  if (part->own_count == 0) return held_of(part);
  const shoal_interval_t own = part->own[0], held = part->held[0];
  if (held.start < own.start) {
    out[result.count++] = (shoal_interval_t){held.start, own.start - held.start};
  }
  int64_t own_to = own.start + own.size, held_to = held.start + held.size;
  if (own_to < held_to) out[result.count++] = (shoal_interval_t){own_to, held_to - own_to};
  return result;
}

shoal_status_t shoal_boxes_halo(const shoal_boxes_t *boxes, shoal_arena_t *arena,
                                const shoal_box_t **out_boxes, int64_t *out_count) {
  int32_t rank = boxes->whole.rank;
  shoal_interval_t halo[SHOAL_MAX_RANK][2];
  intervals_t dims[SHOAL_MAX_RANK];
  bool none_owned = false;
  for (int32_t d = 0; d < rank; ++d) none_owned |= boxes->dims[d].own_size == 0;
  shoal_box_t *list = NULL;
  int64_t count = 0;
  for (int pass = 0; pass < 2; ++pass) {  // count, then write
    count = 0;
    if (none_owned) {
      for (int32_t d = 0; d < rank; ++d) dims[d] = held_of(&boxes->dims[d]);
      count = product_boxes(dims, rank, list);
    }
    for (int32_t k = 0; k < rank && !none_owned; ++k) {
      for (int32_t d = 0; d < rank; ++d) {
        const shoal_dim_part_t *part = &boxes->dims[d];
        dims[d] = d < k ? own_of(part) : d == k ? beyond(part, halo[d]) : held_of(part);
      }
      count += product_boxes(dims, rank, list ? list + count : NULL);
    }
    if (pass == 0 && !(list = SHOAL_NEW(arena, shoal_box_t, count))) return SHOAL_OOM();
  }
  qsort(list, (size_t)count, sizeof *list, compare_boxes);
  *out_boxes = list;
  *out_count = count;
  return NULL;
}

// ---- copies ----------------------------------------------------------------------------

// A walk over a part, row by row. Dims behind `last` are whole and folded into `inner` elements.
typedef struct walk {
  int32_t last;   // dim of the runs; -1: the whole tensor is one run
  int64_t inner;  // elements per index of dim `last`
  bool owned;     // only what is owned is visited
  int64_t whole_stride[SHOAL_MAX_RANK], part_stride[SHOAL_MAX_RANK];  // in elements
  int64_t from, to;  // of the part's dense elements, those in its buffer
} walk_t;

typedef void copy_fn_t(void *self, int64_t whole, int64_t part, int64_t count);  // in elements

static bool is_whole(const shoal_dim_part_t *part, int64_t length) {
  return part->own_size == length && part->held_size == length;
}

static walk_t walk_init(const shoal_boxes_t *boxes, bool owned) {
  walk_t walk = {.last = boxes->whole.rank - 1, .inner = 1, .owned = owned || boxes->flat};
  int64_t whole = 1, part = 1;
  for (int32_t d = boxes->whole.rank - 1; d >= 0; --d) {
    walk.whole_stride[d] = whole;
    walk.part_stride[d] = part;
    whole *= shoal_max64(boxes->whole.dims[d], 1);
    part *= boxes->flat ? boxes->dims[d].own_size : boxes->dims[d].held_size;
  }
  while (walk.last >= 0 && is_whole(&boxes->dims[walk.last], boxes->whole.dims[walk.last])) {
    walk.inner *= boxes->whole.dims[walk.last--];
  }
  walk.from = boxes->flat ? boxes->from : 0;
  walk.to = boxes->flat ? boxes->to : part;
  return walk;
}

// Copies `count` elements, of which only those in the buffer's range exist.
static void walk_run(const walk_t *walk, int64_t whole, int64_t part, int64_t count,
                     copy_fn_t *copy, void *self) {
  int64_t a = shoal_max64(part, walk->from), b = shoal_min64(part + count, walk->to);
  if (a < b) copy(self, whole + (a - part), a - walk->from, b - a);
}

// Visits dims `dim` to walk->last; whole and part are the offsets so far.
static void walk_dim(const walk_t *walk, const shoal_boxes_t *boxes, int32_t dim, int64_t whole,
                     int64_t part, copy_fn_t *copy, void *self) {
  if (dim > walk->last) {
    walk_run(walk, whole, part, walk->inner, copy, self);
    return;
  }
  const shoal_dim_part_t *dims = &boxes->dims[dim];
  int64_t whole_stride = walk->whole_stride[dim], part_stride = walk->part_stride[dim];
  const shoal_interval_t *runs = walk->owned ? dims->own : dims->held;
  int32_t count = walk->owned ? dims->own_count : dims->held_count;
  // With only the owned part visited, the buffer still has the halo before it: a halo means one
  // interval.
  int64_t at = walk->owned && !boxes->flat && count && dims->held_size != dims->own_size
                   ? dims->own[0].start - dims->held[0].start
                   : 0;
  for (int32_t i = 0; i < count; ++i) {
    if (dim == walk->last) {
      walk_run(walk, whole + runs[i].start * whole_stride, part + at * part_stride,
               runs[i].size * walk->inner, copy, self);
    } else {
      // A flat range skips the rows before and behind it.
      int64_t first = 0, end = runs[i].size, row = part + at * part_stride;
      if (part_stride > 0 && row < walk->from) first = (walk->from - row) / part_stride;
      if (part_stride > 0 && walk->to > row) {
        end = shoal_min64(end, (walk->to - row - 1) / part_stride + 1);
      }
      if (walk->to <= row) end = 0;
      for (int64_t k = first; k < end; ++k) {
        walk_dim(walk, boxes, dim + 1, whole + (runs[i].start + k) * whole_stride,
                 part + (at + k) * part_stride, copy, self);
      }
    }
    at += runs[i].size;
  }
}

typedef struct copy {
  size_t element;
  const char *src;
  char *dst;
} copy_t;

static void pack_run(void *self, int64_t whole, int64_t part, int64_t count) {
  const copy_t *c = self;
  memcpy(c->dst + (size_t)part * c->element, c->src + (size_t)whole * c->element,
         (size_t)count * c->element);
}

static void unpack_run(void *self, int64_t whole, int64_t part, int64_t count) {
  const copy_t *c = self;
  memcpy(c->dst + (size_t)whole * c->element, c->src + (size_t)part * c->element,
         (size_t)count * c->element);
}

static shoal_status_t check_bytes(const shoal_boxes_t *boxes, size_t element) {
  size_t bytes = element;
  for (int32_t d = 0; d < boxes->whole.rank; ++d) {
    if (__builtin_mul_overflow(bytes, (size_t)shoal_max64(boxes->whole.dims[d], 1), &bytes)) {
      return SHOAL_ERROR(INVALID_ARGUMENT,
                         "elements of %zu bytes make a tensor that fits no memory", element);
    }
  }
  return NULL;
}

shoal_status_t shoal_boxes_pack(const shoal_boxes_t *boxes, size_t element, const void *whole,
                                void *out_part) {
  SHOAL_RETURN_IF_ERROR(check_bytes(boxes, element));
  walk_t walk = walk_init(boxes, false);
  copy_t copy = {element, whole, out_part};
  walk_dim(&walk, boxes, 0, 0, 0, pack_run, &copy);
  return NULL;
}

shoal_status_t shoal_boxes_unpack(const shoal_boxes_t *boxes, size_t element, const void *part,
                                  bool owned_only, void *out_whole) {
  SHOAL_RETURN_IF_ERROR(check_bytes(boxes, element));
  walk_t walk = walk_init(boxes, owned_only);
  copy_t copy = {element, part, out_whole};
  walk_dim(&walk, boxes, 0, 0, 0, unpack_run, &copy);
  return NULL;
}

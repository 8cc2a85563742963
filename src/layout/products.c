// Sets of elements as disjoint products of interval lists. Small and exact: no element is ever
// listed.
#include "layout/layout_impl.h"

static shoal_status_t spans_intersect(shoal_spans_t a, shoal_spans_t b, shoal_arena_t *arena,
                                      shoal_spans_t *out) {
  shoal_interval_t *items = NULL;
  int64_t count = 0;
  for (int64_t i = 0, j = 0; i < a.count && j < b.count;) {
    int64_t a_to = a.items[i].start + a.items[i].size, b_to = b.items[j].start + b.items[j].size;
    int64_t start = shoal_max64(a.items[i].start, b.items[j].start);
    int64_t size = shoal_min64(a_to, b_to) - start;
    if (size > 0) {
      if (!items && !(items = SHOAL_NEW(arena, shoal_interval_t, a.count + b.count))) {
        return SHOAL_OOM();
      }
      items[count++] = (shoal_interval_t){start, size};
    }
    if (a_to <= b_to)
      ++i;
    else
      ++j;
  }
  *out = (shoal_spans_t){items, count};
  return NULL;
}

static shoal_status_t spans_subtract(shoal_spans_t a, shoal_spans_t b, shoal_arena_t *arena,
                                     shoal_spans_t *out) {
  shoal_interval_t *items = SHOAL_NEW(arena, shoal_interval_t, a.count + b.count);
  if (!items) return SHOAL_OOM();
  int64_t count = 0, j = 0;
  for (int64_t i = 0; i < a.count; ++i) {
    int64_t at = a.items[i].start, end = at + a.items[i].size;
    while (j < b.count && b.items[j].start + b.items[j].size <= at) ++j;
    for (int64_t k = j; k < b.count && b.items[k].start < end; ++k) {
      if (b.items[k].start > at) items[count++] = (shoal_interval_t){at, b.items[k].start - at};
      at = b.items[k].start + b.items[k].size;
    }
    if (at < end) items[count++] = (shoal_interval_t){at, end - at};
  }
  *out = (shoal_spans_t){items, count};
  return NULL;
}

shoal_status_t shoal_product_intersect(int32_t rank, const shoal_product_t *a,
                                       const shoal_product_t *b, shoal_arena_t *arena,
                                       shoal_products_t *out) {
  shoal_product_t both = {0};
  for (int32_t d = 0; d < rank; ++d) {
    SHOAL_RETURN_IF_ERROR(spans_intersect(a->dims[d], b->dims[d], arena, &both.dims[d]));
    if (both.dims[d].count == 0) return NULL;
  }
  return SHOAL_PUSH(arena, out, both) ? NULL : SHOAL_OOM();
}

// By the first dim that lies outside b: dims before it inside, dims behind it anywhere in a.
shoal_status_t shoal_product_subtract(int32_t rank, const shoal_product_t *a,
                                      const shoal_product_t *b, shoal_arena_t *arena,
                                      shoal_products_t *out) {
  shoal_product_t outside = *a;
  for (int32_t d = 0; d < rank; ++d) {
    shoal_spans_t inside;
    SHOAL_RETURN_IF_ERROR(spans_intersect(a->dims[d], b->dims[d], arena, &inside));
    SHOAL_RETURN_IF_ERROR(spans_subtract(a->dims[d], b->dims[d], arena, &outside.dims[d]));
    if (outside.dims[d].count && !SHOAL_PUSH(arena, out, outside)) return SHOAL_OOM();
    if (inside.count == 0) return NULL;
    outside.dims[d] = inside;
  }
  return NULL;
}

// ---- flat ranges -----------------------------------------------------------------------

// Packed positions [from, to) of a list.
static shoal_status_t spans_slice(shoal_spans_t a, int64_t from, int64_t to, shoal_arena_t *arena,
                                  shoal_spans_t *out) {
  shoal_interval_t *items = SHOAL_NEW(arena, shoal_interval_t, a.count);
  if (!items) return SHOAL_OOM();
  int64_t count = 0, packed = 0;
  for (int64_t i = 0; i < a.count && packed < to; packed += a.items[i++].size) {
    int64_t low = shoal_max64(from - packed, 0), high = shoal_min64(to - packed, a.items[i].size);
    if (low < high) items[count++] = (shoal_interval_t){a.items[i].start + low, high - low};
  }
  *out = (shoal_spans_t){items, count};
  return NULL;
}

static int64_t spans_size(shoal_spans_t a) {
  int64_t size = 0;
  for (int64_t i = 0; i < a.count; ++i) size += a.items[i].size;
  return size;
}

// Appends [from, to) of the dims from `dim` on; the dims before it are fixed in `at`.
static shoal_status_t range_dim(int32_t rank, const shoal_product_t *packed, int32_t dim,
                                int64_t from, int64_t to, shoal_product_t *at, shoal_arena_t *arena,
                                shoal_products_t *out) {
  if (from >= to) return NULL;
  if (dim == rank) return SHOAL_PUSH(arena, out, *at) ? NULL : SHOAL_OOM();
  int64_t stride = 1;
  for (int32_t d = dim + 1; d < rank; ++d) stride *= spans_size(packed->dims[d]);
  int64_t first = from / stride, last = to / stride;
  int64_t head = from % stride, tail = to % stride;
  if (head) {  // a part of the first index; it may be all there is
    SHOAL_RETURN_IF_ERROR(spans_slice(packed->dims[dim], first, first + 1, arena, &at->dims[dim]));
    SHOAL_RETURN_IF_ERROR(
        range_dim(rank, packed, dim + 1, head, first == last ? tail : stride, at, arena, out));
    if (first == last) return NULL;
    ++first;
  }
  if (first < last) {
    SHOAL_RETURN_IF_ERROR(spans_slice(packed->dims[dim], first, last, arena, &at->dims[dim]));
    for (int32_t d = dim + 1; d < rank; ++d) at->dims[d] = packed->dims[d];
    if (!SHOAL_PUSH(arena, out, *at)) return SHOAL_OOM();
  }
  if (!tail) return NULL;
  SHOAL_RETURN_IF_ERROR(spans_slice(packed->dims[dim], last, last + 1, arena, &at->dims[dim]));
  return range_dim(rank, packed, dim + 1, 0, tail, at, arena, out);
}

shoal_status_t shoal_product_range(int32_t rank, const shoal_product_t *packed, int64_t from,
                                   int64_t to, shoal_arena_t *arena, shoal_products_t *out) {
  shoal_product_t at = {0};
  return range_dim(rank, packed, 0, from, to, &at, arena, out);
}

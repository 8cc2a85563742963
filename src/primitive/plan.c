// From two holdings to a rank's motions, forward and adjoint, and what of its output is there at
// once.
#include "base/dtype.h"
#include "base/status.h"
#include "device/reduce.h"
#include "primitive/primitive_impl.h"

// What is stored but not owned, as pieces.
static shoal_status_t ghosts(const shoal_boxes_t *boxes, shoal_arena_t *arena,
                             shoal_motion_t *motion) {
  const shoal_box_t *list;
  int64_t count;
  SHOAL_RETURN_IF_ERROR(shoal_boxes_halo(boxes, arena, &list, &count));
  shoal_piece_t *pieces = SHOAL_NEW(arena, shoal_piece_t, count);
  if (!pieces) return SHOAL_OOM();
  const int32_t rank = boxes->whole.rank;
  for (int64_t i = 0; i < count; ++i) {
    pieces[i].rank = rank;
    int64_t stride = 1;
    for (int32_t d = rank - 1; d >= 0; --d) {
      pieces[i].size[d] = list[i].size[d];
      pieces[i].src_stride[d] = pieces[i].dst_stride[d] = stride;
      pieces[i].dst_offset += (list[i].start[d] - boxes->dims[d].held[0].start) * stride;
      stride *= boxes->dims[d].held_size;
    }
  }
  motion->zero_count = count;
  motion->zeros = pieces;
  motion->clear = false;
  return NULL;
}

// ---- all together ---------------------------------------------------------------------

static shoal_status_t part_shape(bool present, const shoal_boxes_t *boxes, shoal_dtype_t dtype,
                                 shoal_shape_t *out_shape, int64_t *out_count) {
  *out_shape = present ? shoal_boxes_shape(boxes) : (shoal_shape_t){.rank = 1};
  *out_count = shoal_shape_count(out_shape);
  int64_t bytes;
  return shoal_dtype_bytes(dtype, *out_count, &bytes);
}

static bool same_storage(const shoal_boxes_t *a, const shoal_boxes_t *b) {
  if (a->flat || b->flat) return false;
  for (int32_t d = 0; d < a->whole.rank; ++d) {
    const shoal_dim_part_t *x = &a->dims[d], *y = &b->dims[d];
    if (x->held_count != y->held_count || x->held_size != y->held_size) return false;
    for (int32_t i = 0; i < x->held_count; ++i) {
      if (x->held[i].start != y->held[i].start || x->held[i].size != y->held[i].size) return false;
    }
  }
  return true;
}

// What the rank's own source part gives to its destination part: each dim's shared intervals, as
// boxes. Only if the links say so too: a rank does not always take its own.
static shoal_status_t find_interior(const shoal_holdings_t *both, int32_t rank,
                                    shoal_arena_t *arena, shoal_primitive_plan_t *plan) {
  if (!both->has_src || !both->has_dst || both->src.flat || both->dst.flat) return NULL;
  if (plan->forward.adds || plan->forward.collective) return NULL;
  const shoal_links_t *links = &both->links;
  const int32_t dims = both->src.whole.rank;
  shoal_interval_t *shared[SHOAL_MAX_RANK];
  int64_t counts[SHOAL_MAX_RANK], boxes = 1, elements = 1, local = 0;
  for (int32_t d = 0; d < dims; ++d) {
    const shoal_dim_part_t *a = &both->src.dims[d], *b = &both->dst.dims[d];
    const shoal_interval_t *have = both->refresh ? a->own : a->held;
    const int32_t have_count = both->refresh ? a->own_count : a->held_count;
    shared[d] = SHOAL_NEW(arena, shoal_interval_t, have_count + b->held_count);
    if (!shared[d]) return SHOAL_OOM();
    int64_t size = 0;
    counts[d] = 0;
    for (int32_t i = 0, j = 0; i < have_count && j < b->held_count;) {
      const int64_t x = have[i].start + have[i].size, y = b->held[j].start + b->held[j].size;
      const int64_t start = have[i].start > b->held[j].start ? have[i].start : b->held[j].start;
      const int64_t end = x < y ? x : y;
      if (end > start) {
        shared[d][counts[d]++] = (shoal_interval_t){start, end - start};
        size += end - start;
      }
      if (x <= y) {
        ++i;
      } else {
        ++j;
      }
    }
    boxes *= counts[d];
    elements *= size;
  }
  for (int64_t i = 0; i < links->count; ++i) {
    if (links->items[i].from == rank && links->items[i].to == rank) local += links->items[i].count;
  }
  if (local != elements || local == 0) return NULL;
  shoal_box_t *list = SHOAL_NEW(arena, shoal_box_t, boxes);
  if (!list) return SHOAL_OOM();
  for (int64_t i = 0; i < boxes; ++i) {
    int64_t rest = i;
    for (int32_t d = dims - 1; d >= 0; --d) {
      list[i].start[d] = shared[d][rest % counts[d]].start;
      list[i].size[d] = shared[d][rest % counts[d]].size;
      rest /= counts[d];
    }
  }
  plan->interior = list;
  plan->interior_count = boxes;
  return NULL;
}

static shoal_status_t plan_all(const shoal_holdings_t *both, shoal_motion_options_t options,
                               shoal_arena_t *arena, shoal_primitive_plan_t *plan) {
  const shoal_links_t *links = &both->links;
  const shoal_dtype_t dtype = options.dtype;
  SHOAL_RETURN_IF_ERROR(
      part_shape(both->has_src, &both->src, dtype, &plan->src_shape, &options.input_count));
  SHOAL_RETURN_IF_ERROR(
      part_shape(both->has_dst, &both->dst, dtype, &plan->dst_shape, &options.output_count));
  const bool refreshes = both->refresh && both->has_src == both->has_dst &&
                         (!both->has_src || same_storage(&both->src, &both->dst));
  plan->in_place =
      refreshes || links->kind == SHOAL_RESHARD_ALL_REDUCE || links->kind == SHOAL_RESHARD_NONE;
  plan->hash = both->hash;
  SHOAL_RETURN_IF_ERROR(shoal_motion_plan(links, &options, arena, &plan->forward));
  const bool joins = links->reduces || !shoal_dtype_is_storage(dtype);
  if (joins && !shoal_reduce_supported(dtype, links->reduce)) {
    return SHOAL_ERROR(UNSUPPORTED, "elements of %s cannot be joined by %s",
                       shoal_dtype_name(dtype), shoal_reduce_name(links->reduce));
  }
  SHOAL_RETURN_IF_ERROR(find_interior(both, options.rank, arena, plan));
  plan->linear = links->reduce == SHOAL_REDUCE_SUM && dtype != SHOAL_BOOL &&
                 !shoal_dtype_is_storage(dtype);  // alike on all ranks
  if (!plan->linear) return NULL;
  options.adjoint = true;
  options.input_count = plan->forward.output_count;
  options.output_count = plan->forward.input_count;
  SHOAL_RETURN_IF_ERROR(shoal_motion_plan(links, &options, arena, &plan->adjoint));
  if (!refreshes || !plan->adjoint.clear) return NULL;
  return ghosts(&both->src, arena, &plan->adjoint);
}

shoal_status_t shoal_primitive_plan(shoal_dtype_t dtype, const shoal_shape_t *shape,
                                    const shoal_holding_t *src, const shoal_holding_t *dst,
                                    bool refresh, int32_t rank, shoal_arena_t *arena,
                                    shoal_primitive_plan_t *out_plan) {
  shoal_arena_t scratch;
  shoal_arena_init(arena->allocator, &scratch);
  shoal_holdings_t both;
  shoal_primitive_plan_t plan = {0};
  shoal_status_t status =
      shoal_holdings_plan(dtype, shape, src, dst, refresh, rank, &scratch, &both);
  if (!status) {
    const shoal_motion_options_t options = {.dtype = dtype, .rank = rank};
    status = plan_all(&both, options, arena, &plan);
  }
  shoal_arena_deinit(&scratch);
  if (!status) *out_plan = plan;
  return status;
}

// From links to what one rank does: which messages it packs, sends and receives, and in which steps
// its output is made. The adjoint is planned by the same code from the same links, sides swapped.
//
// Both ends of a message walk the same links in the same order, so messages between two ranks match
// in order and are dense in the order of the pieces on both ends. Which steps come first on their
// elements, and which elements have no contribution, is found by marking elements one bit each.
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "comm/primitive_impl.h"
#include "device/reduce.h"

enum { ALIGNMENT = 64 };

// ---- marks ----------------------------------------------------------------------------

typedef struct marks {
  uint64_t *words;
  bool any, all;  // of what was looked at, is anything marked, and everything?
  int64_t marked;
} marks_t;

// The bits of word `index` in [from, to).
static uint64_t mask_of(int64_t index, int64_t from, int64_t to) {
  uint64_t mask = ~UINT64_C(0);
  if (from > index * 64) mask <<= from - index * 64;
  if (to < index * 64 + 64) mask &= ~UINT64_C(0) >> (index * 64 + 64 - to);
  return mask;
}

static void look_range(marks_t *marks, int64_t from, int64_t to) {
  for (int64_t i = from / 64; i * 64 < to; ++i) {
    const uint64_t mask = mask_of(i, from, to), found = marks->words[i] & mask;
    marks->any |= found != 0;
    marks->all &= found == mask;
  }
}

static void mark_range(marks_t *marks, int64_t from, int64_t to) {
  for (int64_t i = from / 64; i * 64 < to; ++i) {
    const uint64_t mask = mask_of(i, from, to);
    marks->marked += __builtin_popcountll(mask & ~marks->words[i]);
    marks->words[i] |= mask;
  }
}

static void look_row(void *self, int64_t src, int64_t dst, int64_t count, int64_t src_stride,
                     int64_t dst_stride) {
  (void)src, (void)src_stride;
  if (dst_stride == 1) {
    look_range(self, dst, dst + count);
    return;
  }
  for (int64_t i = 0; i < count; ++i, dst += dst_stride) look_range(self, dst, dst + 1);
}

static void mark_row(void *self, int64_t src, int64_t dst, int64_t count, int64_t src_stride,
                     int64_t dst_stride) {
  (void)src, (void)src_stride;
  if (dst_stride == 1) {
    mark_range(self, dst, dst + count);
    return;
  }
  for (int64_t i = 0; i < count; ++i, dst += dst_stride) mark_range(self, dst, dst + 1);
}

// Says of each step whether it adds, and of the motion what it needs for that.
static shoal_status_t mark_steps(shoal_motion_t *motion, shoal_step_t *steps,
                                 shoal_arena_t *scratch) {
  marks_t marks = {.words = SHOAL_NEW(scratch, uint64_t, motion->output_count / 64 + 1)};
  if (!marks.words) return SHOAL_OOM();
  bool mixed = false;
  for (int64_t i = 0; i < motion->step_count; ++i) {
    shoal_step_t *step = &steps[i];
    marks.any = false;
    marks.all = true;
    for (int64_t k = 0; k < step->piece_count; ++k) {
      shoal_piece_rows(&step->pieces[k], look_row, &marks);
    }
    for (int64_t k = 0; k < step->piece_count; ++k) {
      shoal_piece_rows(&step->pieces[k], mark_row, &marks);
    }
    step->add = marks.any;
    motion->adds |= marks.any;
    mixed |= marks.any && !marks.all;
  }
  motion->clear = mixed || marks.marked < motion->output_count;
  return NULL;
}

// ---- pieces ---------------------------------------------------------------------------

// A link's pieces as they go from the motion's input to its output.
static shoal_piece_t *copy_pieces(const shoal_link_t *link, bool adjoint, shoal_arena_t *arena) {
  shoal_piece_t *pieces =
      shoal_arena_copy(arena, link->pieces, (size_t)link->piece_count, sizeof *pieces);
  for (int64_t i = 0; pieces && adjoint && i < link->piece_count; ++i) {
    const shoal_piece_t *from = &link->pieces[i];
    shoal_piece_t *to = &pieces[i];
    to->src_offset = from->dst_offset;
    to->dst_offset = from->src_offset;
    memcpy(to->src_stride, from->dst_stride, sizeof to->src_stride);
    memcpy(to->dst_stride, from->src_stride, sizeof to->dst_stride);
  }
  return pieces;
}

// Makes one side of the pieces a dense message, in the order of the pieces.
static void make_dense(int64_t count, shoal_piece_t *pieces, bool dst) {
  int64_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t stride = 1, *strides = dst ? pieces[i].dst_stride : pieces[i].src_stride;
    for (int32_t d = pieces[i].rank - 1; d >= 0; --d) {
      strides[d] = stride;
      stride *= pieces[i].size[d];
    }
    *(dst ? &pieces[i].dst_offset : &pieces[i].src_offset) = at;
    at += stride;
  }
}

// Does the message lie dense in the buffer? Then it starts there at *out_offset.
static bool is_dense(const shoal_parcel_t *parcel, bool in_src, int64_t *out_offset) {
  if (parcel->piece_count != 1) return false;
  const shoal_piece_t *piece = &parcel->pieces[0];
  const int64_t *strides = in_src ? piece->src_stride : piece->dst_stride;
  int64_t stride = 1;
  for (int32_t d = piece->rank - 1; d >= 0; --d) {
    if (piece->size[d] != 1 && strides[d] != stride) return false;
    stride *= piece->size[d];
  }
  *out_offset = in_src ? piece->src_offset : piece->dst_offset;
  return true;
}

// ---- one direction --------------------------------------------------------------------

typedef struct direction {
  const shoal_links_t *links;
  shoal_dtype_t dtype;
  int32_t rank;
  bool adjoint;
  shoal_arena_t *arena;
  shoal_motion_t *motion;
  shoal_parcel_t *sends, *recvs;
  shoal_step_t *steps;
} direction_t;

static shoal_status_t add_link(direction_t *way, const shoal_link_t *link) {
  shoal_motion_t *motion = way->motion;
  const int32_t from = way->adjoint ? link->to : link->from;
  const int32_t to = way->adjoint ? link->from : link->to;
  shoal_piece_t *pieces = copy_pieces(link, way->adjoint, way->arena);
  if (!pieces) return SHOAL_OOM();
  shoal_parcel_t parcel = {.peer = from == way->rank ? to : from,
                           .count = link->count,
                           .piece_count = link->piece_count,
                           .pieces = pieces};
  if (to != way->rank) {
    make_dense(link->piece_count, pieces, true);
    way->sends[motion->send_count++] = parcel;
    return NULL;
  }
  shoal_step_t step = {.recv = -1, .piece_count = link->piece_count, .pieces = pieces};
  if (from != way->rank) {
    make_dense(link->piece_count, pieces, false);
    step.recv = motion->recv_count;
    way->recvs[motion->recv_count++] = parcel;
  }
  way->steps[motion->step_count++] = step;
  return NULL;
}

static shoal_status_t stage(direction_t *way, shoal_parcel_t *parcel, bool direct, bool in_src) {
  const int64_t element = (int64_t)shoal_dtype_size(way->dtype);
  int64_t offset;
  if (direct && is_dense(parcel, in_src, &offset)) {
    parcel->direct = true;
    parcel->offset = offset * element;
    return NULL;
  }
  int64_t bytes;
  SHOAL_RETURN_IF_ERROR(shoal_dtype_bytes(way->dtype, parcel->count, &bytes));
  parcel->offset = way->motion->staging;
  if (bytes > INT64_MAX - ALIGNMENT ||
      __builtin_add_overflow(way->motion->staging, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT,
                             &way->motion->staging)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "the messages of a primitive fit no memory");
  }
  return NULL;
}

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

static shoal_status_t plan_motion(direction_t *way, bool in_place, shoal_arena_t *scratch) {
  const shoal_links_t *links = way->links;
  shoal_motion_t *motion = way->motion;
  way->sends = SHOAL_NEW(way->arena, shoal_parcel_t, links->count);
  way->recvs = SHOAL_NEW(way->arena, shoal_parcel_t, links->count);
  way->steps = SHOAL_NEW(way->arena, shoal_step_t, links->count);
  if (!way->sends || !way->recvs || !way->steps) return SHOAL_OOM();
  const bool own_first = way->adjoint && links->own_first;
  for (int pass = own_first ? 0 : 1; pass < 2; ++pass) {
    for (int64_t i = 0; i < links->count; ++i) {
      const shoal_link_t *link = &links->items[i];
      if (own_first && (link->from == link->to) != (pass == 0)) continue;
      SHOAL_RETURN_IF_ERROR(add_link(way, link));
    }
  }
  motion->sends = way->sends;
  motion->recvs = way->recvs;
  motion->steps = way->steps;
  SHOAL_RETURN_IF_ERROR(mark_steps(motion, way->steps, scratch));
  const bool half = way->dtype == SHOAL_BF16 || way->dtype == SHOAL_F16;
  motion->wide = motion->adds && half;
  if (in_place && motion->clear) {
    SHOAL_RETURN_IF_ERROR(ghosts(&links->src, way->arena, motion));
  }
  for (int32_t i = 0; i < motion->send_count; ++i) {
    SHOAL_RETURN_IF_ERROR(stage(way, &way->sends[i], true, true));
  }
  for (int64_t i = 0; i < motion->step_count; ++i) {
    const shoal_step_t *step = &way->steps[i];
    if (step->recv < 0) continue;
    SHOAL_RETURN_IF_ERROR(stage(way, &way->recvs[step->recv], !step->add && !motion->wide, false));
  }
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
static shoal_status_t find_interior(const shoal_links_t *links, int32_t rank, shoal_arena_t *arena,
                                    shoal_primitive_plan_t *plan) {
  if (!links->has_src || !links->has_dst || links->src.flat || links->dst.flat) return NULL;
  if (plan->forward.adds) return NULL;
  const int32_t dims = links->src.whole.rank;
  shoal_interval_t *shared[SHOAL_MAX_RANK];
  int64_t counts[SHOAL_MAX_RANK], boxes = 1, elements = 1, local = 0;
  for (int32_t d = 0; d < dims; ++d) {
    const shoal_dim_part_t *a = &links->src.dims[d], *b = &links->dst.dims[d];
    const shoal_interval_t *have = links->refresh ? a->own : a->held;
    const int32_t have_count = links->refresh ? a->own_count : a->held_count;
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

static shoal_status_t plan_all(const shoal_links_t *links, int32_t rank, shoal_arena_t *arena,
                               shoal_arena_t *scratch, shoal_primitive_plan_t *plan) {
  int64_t src_count, dst_count;
  const shoal_dtype_t dtype = plan->dtype;
  SHOAL_RETURN_IF_ERROR(
      part_shape(links->has_src, &links->src, dtype, &plan->src_shape, &src_count));
  SHOAL_RETURN_IF_ERROR(
      part_shape(links->has_dst, &links->dst, dtype, &plan->dst_shape, &dst_count));
  plan->in_place = links->refresh && links->has_src == links->has_dst &&
                   (!links->has_src || same_storage(&links->src, &links->dst));
  plan->reduce = links->reduce;
  plan->hash = links->hash;
  plan->forward.input_count = plan->adjoint.output_count = src_count;
  plan->forward.output_count = plan->adjoint.input_count = dst_count;
  direction_t way = {.links = links, .dtype = dtype, .rank = rank, .arena = arena};
  way.motion = &plan->forward;
  SHOAL_RETURN_IF_ERROR(plan_motion(&way, plan->in_place, scratch));
  if (!shoal_reduce_supported(dtype, plan->reduce)) {
    return SHOAL_ERROR(UNSUPPORTED, "elements of %s cannot be joined by %s",
                       shoal_dtype_name(dtype), shoal_reduce_name(plan->reduce));
  }
  SHOAL_RETURN_IF_ERROR(find_interior(links, rank, arena, plan));
  plan->linear = plan->reduce == SHOAL_REDUCE_SUM && dtype != SHOAL_BOOL;  // alike on all ranks
  if (!plan->linear) return NULL;
  way.adjoint = true;
  way.motion = &plan->adjoint;
  return plan_motion(&way, plan->in_place, scratch);
}

shoal_status_t shoal_primitive_plan(shoal_dtype_t dtype, const shoal_shape_t *shape,
                                    const shoal_holding_t *src, const shoal_holding_t *dst,
                                    bool refresh, int32_t rank, shoal_arena_t *arena,
                                    shoal_primitive_plan_t *out_plan) {
  shoal_arena_t scratch;
  shoal_arena_init(arena->allocator, &scratch);
  shoal_links_t links;
  shoal_primitive_plan_t plan = {.dtype = dtype};
  shoal_status_t status = shoal_links_plan(dtype, shape, src, dst, refresh, rank, &scratch, &links);
  if (!status) status = plan_all(&links, rank, arena, &scratch, &plan);
  shoal_arena_deinit(&scratch);
  if (!status) *out_plan = plan;
  return status;
}

// ---- running, but for the exchange ----------------------------------------------------

static void set_message(const shoal_primitive_plan_t *plan, const shoal_parcel_t *parcel,
                        char *buffer, char *staging, shoal_message_t *message) {
  message->peer = parcel->peer;
  message->bytes = parcel->count * (int64_t)shoal_dtype_size(plan->dtype);
  message->data = (parcel->direct ? buffer : staging) + parcel->offset;
}

void shoal_motion_pack(const shoal_primitive_plan_t *plan, const shoal_motion_t *motion,
                       const void *input, void *output, void *staging, shoal_message_t *sends,
                       shoal_message_t *recvs) {
  if (motion->clear && !motion->wide) {  // before anything is received into it
    shoal_reduce_fill(plan->reduce, plan->dtype, motion->output_count, output);
  }
  for (int32_t i = 0; i < motion->send_count; ++i) {
    const shoal_parcel_t *parcel = &motion->sends[i];
    set_message(plan, parcel, (char *)(uintptr_t)input, staging, &sends[i]);
    if (parcel->direct) continue;
    shoal_pieces_copy(plan->dtype, parcel->piece_count, parcel->pieces, input, sends[i].data);
  }
  for (int32_t i = 0; i < motion->recv_count; ++i) {
    set_message(plan, &motion->recvs[i], output, staging, &recvs[i]);
  }
}

void shoal_motion_begin(const shoal_primitive_plan_t *plan, const shoal_motion_t *motion,
                        const void *input, void *output) {
  for (int64_t i = 0; !motion->adds && i < motion->step_count; ++i) {
    const shoal_step_t *step = &motion->steps[i];
    if (step->recv >= 0) continue;
    shoal_pieces_copy(plan->dtype, step->piece_count, step->pieces, input, output);
  }
}

void shoal_motion_finish(const shoal_primitive_plan_t *plan, const shoal_motion_t *motion,
                         const void *input, void *output, const shoal_message_t *recvs,
                         float *scratch) {
  const bool unset = motion->clear || motion->zero_count > 0;
  if (motion->wide && unset) {
    shoal_reduce_fill(plan->reduce, SHOAL_F32, motion->output_count, scratch);
  }
  for (int64_t i = 0; i < motion->step_count; ++i) {
    const shoal_step_t *step = &motion->steps[i];
    const bool local = step->recv < 0;
    const void *from = local ? input : recvs[step->recv].data;
    if (motion->wide) {
      // Cleared elements may come before a step that adds to some of its own only.
      shoal_pieces_widen(plan->dtype, plan->reduce, step->add, step->piece_count, step->pieces,
                         from, scratch);
    } else if (step->add) {
      shoal_pieces_join(plan->dtype, plan->reduce, step->piece_count, step->pieces, from, output);
    } else if (local ? motion->adds : !motion->recvs[step->recv].direct) {
      shoal_pieces_copy(plan->dtype, step->piece_count, step->pieces, from, output);
    }
  }
  if (motion->wide) {
    uint16_t *to = output;
    const bool bf16 = plan->dtype == SHOAL_BF16;
    for (int64_t i = 0; i < motion->output_count; ++i) {
      to[i] = bf16 ? shoal_f32_to_bf16(scratch[i]) : shoal_f32_to_f16(scratch[i]);
    }
  } else {
    shoal_pieces_zero(plan->dtype, motion->zero_count, motion->zeros, output);
  }
}

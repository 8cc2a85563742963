// From links to what one rank does. The adjoint is planned by the same code from the same links,
// sides swapped.
//
// Forward, a part gets each element once, or once per coordinate that is joined, coordinate after
// coordinate: counting elements tells which steps come first. In the adjoint, elements get as many
// contributions as there were copies of them: which steps come first on theirs, and which elements
// have none, is found by marking elements, one bit each.
#include "layout/motion.h"

#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "layout/cells.h"
#include "layout/layout_impl.h"

enum { ALIGNMENT = 64 };  // of messages in the staging memory

// ---- links ----------------------------------------------------------------------------

shoal_status_t shoal_links_find(const shoal_reshard_t *reshard, const shoal_layout_t *src,
                                const shoal_layout_t *dst, int32_t rank, shoal_arena_t *arena,
                                shoal_links_t *out_links) {
  SHOAL_VEC(shoal_link_t) links = {0};
  for (int64_t i = 0; i < reshard->transfer_count; ++i) {
    const shoal_transfer_t *t = &reshard->transfers[i];
    const shoal_link_t link = {.from = shoal_mesh_rank(src->mesh, t->src),
                               .to = shoal_mesh_rank(dst->mesh, t->dst),
                               .piece_count = t->piece_count,
                               .pieces = t->pieces,
                               .count = t->count};
    if (link.from != rank && link.to != rank) continue;
    if (!SHOAL_PUSH(arena, &links, link)) return SHOAL_OOM();
  }
  // What is partial in time on one side only is not joined here, but parts without a contribution
  // start at its identity.
  const shoal_cut_t *later =
      shoal_layout_micro_partial(src) ? NULL : shoal_layout_micro_partial(dst);
  *out_links = (shoal_links_t){
      .count = links.count,
      .items = links.items,
      .kind = reshard->kind,
      .collective = reshard->collective,
      .reduces = reshard->reduces,
      .reduce = later && !reshard->reduces ? later->reduce : reshard->reduce,
  };
  return NULL;
}

shoal_status_t shoal_links_of_rank(const shoal_layout_t *src, int64_t src_micro,
                                   const shoal_layout_t *dst, int64_t dst_micro,
                                   const shoal_shape_t *shape, int32_t rank, shoal_arena_t *arena,
                                   shoal_links_t *out_links) {
  shoal_pair_t pair;
  shoal_reshard_facts_t facts;
  shoal_links_t links;
  bool known;
  SHOAL_RETURN_IF_ERROR(shoal_pair_init(src, src_micro, dst, dst_micro, shape, &pair));
  SHOAL_RETURN_IF_ERROR(
      shoal_pair_describe(&pair, arena->allocator, SHOAL_LOOK_IF_NEEDED, &known, &facts));
  SHOAL_RETURN_IF_ERROR(shoal_pair_links(&pair, rank, arena, &links));
  links.kind = facts.kind;
  links.collective = facts.collective;
  *out_links = links;
  return NULL;
}

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

static void count_steps(const shoal_links_t *links, shoal_motion_t *motion, shoal_step_t *steps) {
  int64_t seen = 0;
  for (int64_t i = 0; i < motion->step_count; ++i) {
    steps[i].add = links->reduces && seen >= motion->output_count;
    motion->adds |= steps[i].add;
    for (int64_t k = 0; k < steps[i].piece_count; ++k) {
      seen += shoal_piece_count(&steps[i].pieces[k]);
    }
  }
  motion->clear = motion->output_count > 0 && motion->step_count == 0;
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

// Do the elements lie dense in one of the two buffers? Then they start there at *out_offset.
static bool is_dense(int64_t count, const shoal_piece_t *piece, bool in_src, int64_t *out_offset) {
  if (count != 1) return false;
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
  const shoal_motion_options_t *options;
  shoal_arena_t *arena;
  shoal_motion_t *motion;
  shoal_parcel_t *sends, *recvs;
  shoal_step_t *steps;
} direction_t;

static shoal_status_t add_link(direction_t *way, const shoal_link_t *link) {
  shoal_motion_t *motion = way->motion;
  const int32_t rank = way->options->rank;
  const int32_t from = way->options->adjoint ? link->to : link->from;
  const int32_t to = way->options->adjoint ? link->from : link->to;
  shoal_piece_t *pieces = copy_pieces(link, way->options->adjoint, way->arena);
  if (!pieces) return SHOAL_OOM();
  shoal_parcel_t parcel = {.peer = from == rank ? to : from,
                           .count = link->count,
                           .piece_count = link->piece_count,
                           .pieces = pieces};
  if (to != rank) {
    make_dense(link->piece_count, pieces, true);
    way->sends[motion->send_count++] = parcel;
    return NULL;
  }
  shoal_step_t step = {.recv = -1, .piece_count = link->piece_count, .pieces = pieces};
  if (from != rank) {
    make_dense(link->piece_count, pieces, false);
    step.recv = motion->recv_count;
    way->recvs[motion->recv_count++] = parcel;
  }
  way->steps[motion->step_count++] = step;
  return NULL;
}

// Takes room for a message; *at is the end of the staging memory so far.
static shoal_status_t stage(shoal_dtype_t dtype, int64_t count, int64_t *at, int64_t *out_start) {
  int64_t bytes;
  SHOAL_RETURN_IF_ERROR(shoal_dtype_bytes(dtype, count, &bytes));
  *out_start = *at;
  if (bytes > INT64_MAX - ALIGNMENT ||
      __builtin_add_overflow(*at, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, at)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "the messages of a reshard fit no memory");
  }
  return NULL;
}

static shoal_status_t place(direction_t *way, shoal_parcel_t *parcel, bool direct, bool in_src) {
  const shoal_dtype_t dtype = way->options->dtype;
  int64_t offset;
  if (direct && is_dense(parcel->piece_count, parcel->pieces, in_src, &offset)) {
    parcel->direct = true;
    parcel->offset = offset * (int64_t)shoal_dtype_size(dtype);
    return NULL;
  }
  return stage(dtype, parcel->count, &way->motion->staging, &parcel->offset);
}

static shoal_status_t plan_steps(const direction_t *way, const shoal_links_t *links) {
  if (!way->options->adjoint) {
    count_steps(links, way->motion, way->steps);
    return NULL;
  }
  shoal_arena_t scratch;
  shoal_arena_init(way->arena->allocator, &scratch);
  shoal_status_t status = mark_steps(way->motion, way->steps, &scratch);
  shoal_arena_deinit(&scratch);
  return status;
}

static bool is_half(shoal_dtype_t dtype) {
  return dtype == SHOAL_BF16 || dtype == SHOAL_F16;
}

static shoal_status_t plan_messages(direction_t *way, const shoal_links_t *links) {
  shoal_motion_t *motion = way->motion;
  way->sends = SHOAL_NEW(way->arena, shoal_parcel_t, links->count);
  way->recvs = SHOAL_NEW(way->arena, shoal_parcel_t, links->count);
  way->steps = SHOAL_NEW(way->arena, shoal_step_t, links->count);
  if (!way->sends || !way->recvs || !way->steps) return SHOAL_OOM();
  const bool own_first = way->options->adjoint && links->own_first;
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
  SHOAL_RETURN_IF_ERROR(plan_steps(way, links));
  const shoal_dtype_t dtype = way->options->dtype;
  motion->wide = motion->adds && is_half(dtype);
  const bool kept = !way->options->detach || motion->recv_count > 0;
  for (int32_t i = 0; i < motion->send_count; ++i) {
    SHOAL_RETURN_IF_ERROR(place(way, &way->sends[i], kept, true));
  }
  for (int32_t i = 0; i < motion->recv_count; ++i) {
    SHOAL_RETURN_IF_ERROR(place(way, &way->recvs[i], !motion->adds, false));
  }
  if (!motion->wide) return NULL;
  return stage(SHOAL_F32, motion->output_count, &motion->staging, &motion->wide_at);
}

shoal_reshard_kind_t shoal_reshard_adjoint(shoal_reshard_kind_t kind) {
  return kind == SHOAL_RESHARD_ALL_GATHER       ? SHOAL_RESHARD_REDUCE_SCATTER
         : kind == SHOAL_RESHARD_REDUCE_SCATTER ? SHOAL_RESHARD_ALL_GATHER
                                                : kind;
}

// The ranks that contribute to this rank's part are the group, in the order they are joined or lie
// in the whole. Of an all-reduce the adjoint is itself, of a gather it is the scatter of sums.
static shoal_status_t plan_group(direction_t *way, const shoal_links_t *links) {
  shoal_motion_t *motion = way->motion;
  const int32_t rank = way->options->rank;
  int32_t *group = SHOAL_NEW(way->arena, int32_t, links->count);
  int64_t *counts = SHOAL_NEW(way->arena, int64_t, links->count), count = 0;
  if (!group || !counts) return SHOAL_OOM();
  for (int64_t i = 0; i < links->count; ++i) {
    const shoal_link_t *link = &links->items[i];
    if (link->to == rank) group[motion->group_count++] = link->from;
    const int32_t part = links->kind == SHOAL_RESHARD_ALL_GATHER ? link->to : link->from;
    if (part == rank) counts[count++] = link->count;
  }
  motion->collective = true;
  motion->group = group;
  motion->counts = counts;
  if (way->options->adjoint) motion->kind = shoal_reshard_adjoint(links->kind);
  return NULL;
}

shoal_status_t shoal_motion_plan(const shoal_links_t *links, const shoal_motion_options_t *options,
                                 shoal_arena_t *arena, shoal_motion_t *out_motion) {
  *out_motion = (shoal_motion_t){.dtype = options->dtype,
                                 .kind = links->kind,
                                 .reduce = links->reduce,
                                 .input_count = options->input_count,
                                 .output_count = options->output_count};
  direction_t way = {.options = options, .arena = arena, .motion = out_motion};
  return links->collective ? plan_group(&way, links) : plan_messages(&way, links);
}

// ---- asking ---------------------------------------------------------------------------

bool shoal_motion_is_idle(const shoal_motion_t *motion) {
  if (motion->collective) return motion->group_count == 0;
  return motion->send_count == 0 && motion->step_count == 0 && !motion->clear;
}

bool shoal_motion_only_sends(const shoal_motion_t *motion) {
  return motion->send_count > 0 && motion->recv_count == 0;
}

// Elements of a rank's part.
static shoal_status_t part_count(const shoal_layout_t *layout, const shoal_shape_t *shape,
                                 int32_t rank, int64_t micro, shoal_allocator_t allocator,
                                 int64_t *out_count) {
  shoal_arena_t arena;
  shoal_arena_init(allocator, &arena);
  shoal_boxes_t boxes;
  shoal_status_t status = shoal_layout_boxes(layout, shape, shoal_mesh_position(layout->mesh, rank),
                                             micro, &arena, &boxes);
  if (!status) {
    const shoal_shape_t part = shoal_boxes_shape(&boxes);
    *out_count = shoal_shape_count(&part);
  }
  shoal_arena_deinit(&arena);
  return status;
}

shoal_status_t shoal_motion_staging(const shoal_reshard_t *reshard, const shoal_layout_t *src,
                                    const shoal_layout_t *dst, int64_t dst_micro,
                                    const shoal_shape_t *shape, shoal_dtype_t dtype,
                                    int64_t rank_count, shoal_arena_t *scratch,
                                    int64_t *out_bytes) {
  memset(out_bytes, 0, (size_t)rank_count * sizeof *out_bytes);
  if (reshard->collective) return NULL;
  bool *receives = SHOAL_NEW(scratch, bool, rank_count);
  int64_t *got = SHOAL_NEW(scratch, int64_t, rank_count);  // elements
  if (!receives || !got) return SHOAL_OOM();
  for (int pass = 0; pass < 2; ++pass) {
    for (int64_t i = 0; i < reshard->transfer_count; ++i) {
      const shoal_transfer_t *t = &reshard->transfers[i];
      const int32_t from = shoal_mesh_rank(src->mesh, t->src);
      const int32_t to = shoal_mesh_rank(dst->mesh, t->dst);
      int64_t at;
      if (pass == 0) {
        receives[to] |= from != to;
        got[to] += t->count;
      }
      if (pass == 0 || from == to) continue;
      if (receives[from] && !is_dense(t->piece_count, t->pieces, true, &at)) {
        SHOAL_RETURN_IF_ERROR(stage(dtype, t->count, &out_bytes[from], &at));
      }
      if (reshard->reduces || !is_dense(t->piece_count, t->pieces, false, &at)) {
        SHOAL_RETURN_IF_ERROR(stage(dtype, t->count, &out_bytes[to], &at));
      }
    }
  }
  for (int64_t rank = 0; reshard->reduces && is_half(dtype) && rank < rank_count; ++rank) {
    int64_t count, at;
    if (!receives[rank]) continue;
    SHOAL_RETURN_IF_ERROR(
        part_count(dst, shape, (int32_t)rank, dst_micro, scratch->allocator, &count));
    if (got[rank] <= count) continue;
    SHOAL_RETURN_IF_ERROR(stage(SHOAL_F32, count, &out_bytes[rank], &at));
  }
  return NULL;
}

// ---- the largest over ranks -----------------------------------------------------------

typedef struct staging {
  const shoal_layout_t *src, *dst;
  const shoal_shape_t *shape;
  shoal_dtype_t dtype;
  int64_t rank_count;
  const int32_t *ranks;
  int64_t most;
} staging_t;

// As shoal_motion_staging counts them, for one rank.
static shoal_status_t staging_of(const staging_t *s, const shoal_links_t *links, int32_t rank,
                                 int64_t dst_micro, shoal_allocator_t allocator,
                                 int64_t *out_bytes) {
  const shoal_dtype_t dtype = s->dtype;
  bool receives = false;
  int64_t at, got = 0, count = 0;
  *out_bytes = 0;
  for (int64_t i = 0; i < links->count; ++i) {
    if (links->items[i].to != rank) continue;
    receives |= links->items[i].from != rank;
    got += links->items[i].count;
  }
  for (int64_t i = 0; i < links->count; ++i) {
    const shoal_link_t *link = &links->items[i];
    if (link->from == link->to) continue;
    const bool staged =
        link->to == rank ? links->reduces || !is_dense(link->piece_count, link->pieces, false, &at)
                         : receives && !is_dense(link->piece_count, link->pieces, true, &at);
    if (staged) SHOAL_RETURN_IF_ERROR(stage(dtype, link->count, out_bytes, &at));
  }
  if (!links->reduces || !is_half(dtype) || !receives) return NULL;
  SHOAL_RETURN_IF_ERROR(part_count(s->dst, s->shape, rank, dst_micro, allocator, &count));
  return got > count ? stage(SHOAL_F32, count, out_bytes, &at) : NULL;
}

static shoal_status_t look_at_rank(staging_t *s, const shoal_pair_t *pair, int32_t rank,
                                   int64_t dst_micro, shoal_allocator_t allocator) {
  shoal_arena_t scratch;
  shoal_arena_init(allocator, &scratch);
  shoal_links_t links;
  int64_t bytes = 0;
  shoal_status_t status = shoal_pair_links(pair, rank, &scratch, &links);
  if (!status) status = staging_of(s, &links, rank, dst_micro, allocator, &bytes);
  shoal_arena_deinit(&scratch);
  if (bytes > s->most) s->most = bytes;
  return status;
}

static shoal_status_t look_at_micro(staging_t *s, int64_t src_micro, int64_t dst_micro,
                                    shoal_arena_t *scratch) {
  shoal_pair_t pair;
  shoal_reshard_facts_t facts;
  shoal_reshard_cells_t cells;
  bool known;
  SHOAL_RETURN_IF_ERROR(shoal_pair_init(s->src, src_micro, s->dst, dst_micro, s->shape, &pair));
  SHOAL_RETURN_IF_ERROR(
      shoal_pair_describe(&pair, scratch->allocator, SHOAL_LOOK_IF_NEEDED, &known, &facts));
  if (facts.collective || facts.kind <= SHOAL_RESHARD_SLICE) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_pair_cells(&pair, scratch, &cells));
  int64_t count;
  const int32_t *ranks;
  SHOAL_RETURN_IF_ERROR(
      shoal_reshard_cells_ranks(&cells, s->rank_count, s->ranks, scratch, &count, &ranks));
  for (int64_t i = 0; i < count; ++i) {
    SHOAL_RETURN_IF_ERROR(look_at_rank(s, &pair, ranks[i], dst_micro, scratch->allocator));
  }
  return NULL;
}

shoal_status_t shoal_reshard_staging_largest(const shoal_layout_t *src, int64_t src_micro,
                                             const shoal_layout_t *dst, int64_t dst_micro,
                                             const shoal_shape_t *shape, shoal_dtype_t dtype,
                                             int64_t rank_count, const int32_t *ranks,
                                             shoal_arena_t *scratch, int64_t *out_bytes) {
  staging_t s = {src, dst, shape, dtype, rank_count, ranks, 0};
  if (src_micro != SHOAL_MICRO_ANY && dst_micro != SHOAL_MICRO_ANY) {
    SHOAL_RETURN_IF_ERROR(look_at_micro(&s, src_micro, dst_micro, scratch));
  } else {
    shoal_reshard_cells_t cells;
    SHOAL_RETURN_IF_ERROR(
        shoal_reshard_cells(src, SHOAL_MICRO_ANY, dst, SHOAL_MICRO_ANY, shape, scratch, &cells));
    for (int64_t i = 0; i < cells.src.run_count[SHOAL_CELLS_MICRO]; ++i) {
      const int64_t micro = cells.src.run_starts[SHOAL_CELLS_MICRO][i];
      SHOAL_RETURN_IF_ERROR(look_at_micro(&s, micro, micro, scratch));
    }
  }
  *out_bytes = s.most;
  return NULL;
}

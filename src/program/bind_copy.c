// Copies on one rank: in and out of micro-batches, accumulation, and assembly. Both sides are parts
// of one value; what is copied is what they share. A copy's layouts differ in micro only, those of
// an assembly in how much one cut trims. Out of micro-batches a rank may also keep just what it has
// of each (shoal_program_over_micro).
#include "base/dtype.h"
#include "program/program_impl.h"

static shoal_status_t one_piece(shoal_arena_t *arena, int64_t count,
                                shoal_bound_instruction_t *bound) {
  shoal_piece_t *piece = SHOAL_NEW(arena, shoal_piece_t, 1);
  if (!piece) return SHOAL_OOM();
  *piece = (shoal_piece_t){.rank = 1, .size = {count}, .src_stride = {1}, .dst_stride = {1}};
  bound->pieces = piece;
  bound->piece_count = count > 0;
  return NULL;
}

// What two parts share along one dim: runs, with where they start in each part.
typedef struct run {
  int64_t size, src, dst;
} run_t;

static shoal_status_t shared_runs(const shoal_dim_part_t *src, const shoal_dim_part_t *dst,
                                  shoal_arena_t *scratch, run_t **out_runs, int64_t *out_count) {
  run_t *runs = SHOAL_NEW(scratch, run_t, src->held_count + dst->held_count);
  if (!runs) return SHOAL_OOM();
  int64_t count = 0, src_at = 0, dst_at = 0;
  for (int32_t i = 0, j = 0; i < src->held_count && j < dst->held_count;) {
    shoal_interval_t a = src->held[i], b = dst->held[j];
    int64_t start = a.start > b.start ? a.start : b.start;
    int64_t a_end = a.start + a.size, b_end = b.start + b.size;
    int64_t end = a_end < b_end ? a_end : b_end;
    if (start < end) {
      runs[count++] = (run_t){end - start, src_at + start - a.start, dst_at + start - b.start};
    }
    if (a_end <= b_end) src_at += a.size, ++i;
    if (b_end <= a_end) dst_at += b.size, ++j;
  }
  *out_runs = runs;
  *out_count = count;
  return NULL;
}

// Joins dims that are adjacent in both buffers: most pieces become one run.
static void join_dims(shoal_piece_t *piece) {
  int32_t last = 0;
  for (int32_t d = 1; d < piece->rank; ++d) {
    bool adjacent = piece->src_stride[last] == piece->src_stride[d] * piece->size[d] &&
                    piece->dst_stride[last] == piece->dst_stride[d] * piece->size[d];
    int64_t size = adjacent ? piece->size[last] * piece->size[d] : piece->size[d];
    if (!adjacent) ++last;
    piece->size[last] = size;
    piece->src_stride[last] = piece->src_stride[d];
    piece->dst_stride[last] = piece->dst_stride[d];
  }
  piece->rank = last + 1;
}

// The blocks that two parts of one value, on one rank, have in common.
static shoal_status_t shared_pieces(shoal_arena_t *arena, const shoal_bound_buffer_t *src,
                                    const shoal_bound_buffer_t *dst, shoal_arena_t *scratch,
                                    shoal_bound_instruction_t *bound, int64_t *out_elements) {
  int32_t rank = src->boxes.whole.rank;
  if (rank == 0) {
    *out_elements = 1;
    return one_piece(arena, 1, bound);
  }
  run_t *runs[SHOAL_MAX_RANK];
  int64_t counts[SHOAL_MAX_RANK], pieces = 1, src_stride = 1, dst_stride = 1;
  shoal_piece_t form = {.rank = rank};
  for (int32_t d = rank - 1; d >= 0; --d) {
    SHOAL_RETURN_IF_ERROR(
        shared_runs(&src->boxes.dims[d], &dst->boxes.dims[d], scratch, &runs[d], &counts[d]));
    form.src_stride[d] = src_stride;
    form.dst_stride[d] = dst_stride;
    src_stride *= src->boxes.dims[d].held_size;
    dst_stride *= dst->boxes.dims[d].held_size;
    pieces *= counts[d];
  }
  shoal_piece_t *list = SHOAL_NEW(arena, shoal_piece_t, pieces);
  if (!list) return SHOAL_OOM();
  *out_elements = 0;
  for (int64_t i = 0; i < pieces; ++i) {
    int64_t rest = i, elements = 1;
    list[i] = form;
    for (int32_t d = rank - 1; d >= 0; --d) {
      const run_t *run = &runs[d][rest % counts[d]];
      rest /= counts[d];
      list[i].size[d] = run->size;
      list[i].src_offset += run->src * form.src_stride[d];
      list[i].dst_offset += run->dst * form.dst_stride[d];
      elements *= run->size;
    }
    join_dims(&list[i]);
    *out_elements += elements;
  }
  bound->pieces = list;
  bound->piece_count = pieces;
  return NULL;
}

// The layout of what a tile is a part of. How the rows along its dim are dealt follows from the
// tile, weights included.
static shoal_layout_t untiled(const shoal_layout_t *layout, int32_t dim) {
  shoal_layout_t out = *layout;
  out.tile = (shoal_tile_t){0};
  for (int32_t i = 0; i < out.cut_count; ++i)
    if (out.cuts[i].kind == SHOAL_CUT_DIM && out.cuts[i].dim == dim) out.cuts[i].weights = NULL;
  return out;
}

// Is it a tile of the other?
static bool is_tile_of(const shoal_layout_t *tile, const shoal_layout_t *whole) {
  const int32_t dim = tile->tile.cut.dim;
  if (tile->tile.count == 0 || whole->tile.count > 0) return false;
  const shoal_layout_t a = untiled(tile, dim), c = untiled(whole, dim);
  return shoal_layout_equal(&a, &c);
}

// Between a value over all micro-batches and one micro-batch of it, or from a value to a tile of
// it: this rank must have all it needs.
shoal_status_t shoal_bind_copy(const shoal_class_t *class, int64_t micro, shoal_arena_t *arena,
                               shoal_arena_t *scratch, shoal_bound_instruction_t *bound) {
  const shoal_instruction_t *in = bound->instruction;
  const shoal_buffer_t *from = &class->buffers[in->inputs[0]];
  const shoal_buffer_t *to = &class->buffers[in->outputs[0]];
  const shoal_bound_buffer_t *src = bound->inputs[0], *dst = bound->outputs[0];
  if (!shoal_type_equal(&from->type, &to->type)) {
    return SHOAL_ERROR(MISMATCH, "a copy cannot change the type of '%s'", from->name);
  }
  shoal_layout_t a = shoal_program_without_micro(from->layout);
  shoal_layout_t c = shoal_program_without_micro(to->layout);
  const bool keeps = shoal_program_is_over_micro(from->layout, &from->type.shape, to->layout);
  const bool tile = is_tile_of(to->layout, from->layout);
  if (!shoal_layout_equal(&a, &c) && !keeps && !tile) {
    return SHOAL_ERROR_HINT(MISMATCH, "use a reshard",
                            "a copy of '%s' may only add or drop micro-batches, or take a tile",
                            from->name);
  }
  if (shoal_layout_equal(from->layout, to->layout)) return one_piece(arena, src->count, bound);
  bool src_micro = micro >= 0 && shoal_program_has_micro(from->layout);
  bool dst_micro = micro >= 0 && shoal_program_has_micro(to->layout);
  if (src->boxes.flat || (src_micro && dst_micro && !tile)) {
    return SHOAL_ERROR_HINT(
        MISMATCH, "use a reshard",
        "a copy of '%s' in or out of micro-batches cannot be flat, nor change how "
        "micro-batches are cut",
        from->name);
  }
  int64_t elements, needed = src_micro && !tile ? src->count : dst->count;
  SHOAL_RETURN_IF_ERROR(shared_pieces(arena, src, dst, scratch, bound, &elements));
  if (elements != needed) {
    return SHOAL_ERROR_HINT(
        MISMATCH, "use a reshard",
        "copying '%s' needs elements that this rank does not have: %lld of %lld", from->name,
        (long long)elements, (long long)needed);
  }
  return NULL;
}

// ---- assembly -----------------------------------------------------------------------

// The dim along which `from` is a piece of `to`: a tile of it, or trimmed. -1: there is none, or
// more differs.
static int32_t piece_dim(const shoal_layout_t *from, const shoal_layout_t *to) {
  int32_t found = -1;
  if (is_tile_of(from, to)) return from->tile.cut.dim;
  if (from->cut_count != to->cut_count) return -1;
  for (int32_t i = 0; i < to->cut_count; ++i) {
    const shoal_cut_t *a = &from->cuts[i], *c = &to->cuts[i];
    if (a->before == c->before && a->after == c->after) continue;
    if (found >= 0 || c->before || c->after || a->before > 0 || a->after > 0) return -1;
    found = i;
  }
  if (found < 0) return -1;
  shoal_layout_t whole = *from;
  whole.cuts[found].before = whole.cuts[found].after = 0;
  return shoal_layout_equal(&whole, to) ? to->cuts[found].dim : -1;
}

typedef SHOAL_VEC(shoal_piece_t) pieces_t;

// The rows from..to of the shared run, in all their length along the other dims.
static shoal_status_t add_rows(const shoal_bound_instruction_t *bound, int32_t input, int32_t dim,
                               run_t rows, shoal_arena_t *arena, pieces_t *pieces) {
  const shoal_bound_buffer_t *src = bound->inputs[input], *dst = bound->outputs[0];
  const int64_t element = (int64_t)shoal_dtype_size(dst->type.dtype);
  shoal_piece_t piece = {.rank = dst->boxes.whole.rank};
  int64_t src_stride = 1, dst_stride = 1;
  for (int32_t d = piece.rank - 1; d >= 0; --d) {
    piece.size[d] = d == dim ? rows.size : dst->boxes.dims[d].held_size;
    piece.src_stride[d] = src_stride;
    piece.dst_stride[d] = dst_stride;
    src_stride *= src->boxes.dims[d].held_size;
    dst_stride *= dst->boxes.dims[d].held_size;
  }
  piece.src_offset = rows.src * piece.src_stride[dim];
  piece.dst_offset = rows.dst * piece.dst_stride[dim];
  piece.src_offset += (src->offset - bound->inputs[0]->offset) / element;
  join_dims(&piece);
  return SHOAL_PUSH(arena, pieces, piece) ? NULL : SHOAL_OOM();
}

// What the input has of rows that none before it gave. taken: by row of the output.
static shoal_status_t take_rows(const shoal_bound_instruction_t *bound, int32_t input, int32_t dim,
                                shoal_arena_t *arena, shoal_arena_t *scratch, bool *taken,
                                pieces_t *pieces) {
  run_t *runs = NULL;
  int64_t count = 0;
  SHOAL_RETURN_IF_ERROR(shared_runs(&bound->inputs[input]->boxes.dims[dim],
                                    &bound->outputs[0]->boxes.dims[dim], scratch, &runs, &count));
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t from = 0, to; from < runs[r].size; from = to) {
      const bool mine = !taken[runs[r].dst + from];
      for (to = from; to < runs[r].size && taken[runs[r].dst + to] == !mine; ++to)
        taken[runs[r].dst + to] = true;
      const run_t rows = {to - from, runs[r].src + from, runs[r].dst + from};
      if (mine) SHOAL_RETURN_IF_ERROR(add_rows(bound, input, dim, rows, arena, pieces));
    }
  }
  return NULL;
}

// The output's layout trims nothing, so where an input lies in it follows from their sizes: ranks
// whose parts have the same sizes bind alike.
shoal_status_t shoal_bind_assemble(const shoal_class_t *class, shoal_arena_t *arena,
                                   shoal_arena_t *scratch, shoal_bound_instruction_t *bound) {
  const shoal_instruction_t *in = bound->instruction;
  const shoal_buffer_t *to = &class->buffers[in->outputs[0]];
  const shoal_bound_buffer_t *dst = bound->outputs[0];
  pieces_t pieces = {0};
  bool *taken = NULL;
  int32_t dim = -1;
  for (int32_t i = 0; i < in->input_count; ++i) {
    const shoal_buffer_t *from = &class->buffers[in->inputs[i]];
    const int32_t along = piece_dim(from->layout, to->layout);
    if (along < 0 || (dim >= 0 && along != dim) || from->memory != to->memory ||
        !shoal_type_equal(&from->type, &to->type)) {
      return SHOAL_ERROR_HINT(MISMATCH, "use tiles of the output, or trim a cut, in every input",
                              "cannot assemble '%s' of '%s'", to->name, from->name);
    }
    dim = along;
    if (!taken && !(taken = SHOAL_NEW(scratch, bool, dst->boxes.dims[dim].held_size)))
      return SHOAL_OOM();
    if (dst->count > 0)
      SHOAL_RETURN_IF_ERROR(take_rows(bound, i, dim, arena, scratch, taken, &pieces));
  }
  for (int64_t row = 0; row < dst->boxes.dims[dim].held_size && dst->count > 0; ++row) {
    if (taken[row]) continue;
    return SHOAL_ERROR_HINT(MISMATCH, "trim less, so that the inputs cover the output",
                            "no input gives row %lld of this rank's part of '%s' along dim %d",
                            (long long)row, to->name, dim);
  }
  bound->pieces = pieces.items;
  bound->piece_count = pieces.count;
  return NULL;
}

shoal_status_t shoal_bind_accumulate(const shoal_class_t *class, shoal_arena_t *arena,
                                     shoal_bound_instruction_t *bound) {
  const shoal_instruction_t *in = bound->instruction;
  const shoal_buffer_t *from = &class->buffers[in->inputs[0]];
  const shoal_buffer_t *to = &class->buffers[in->outputs[0]];
  const shoal_cut_t *partial = shoal_program_micro_partial(from->layout);
  shoal_layout_t rest = shoal_program_without_micro(from->layout);
  if (!partial || !shoal_layout_equal(&rest, to->layout) ||
      !shoal_type_equal(&from->type, &to->type)) {
    return SHOAL_ERROR_HINT(
        MISMATCH,
        "the source is partial along micro, the target has the same type and the "
        "same layout without that",
        "cannot accumulate '%s' into '%s'", from->name, to->name);
  }
  return one_piece(arena, bound->inputs[0]->count, bound);
}

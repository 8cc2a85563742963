// Copies on one rank: in and out of micro-batches, and accumulation. Both sides are parts of one
// value in layouts that differ in micro only; what is copied is what the two parts share. Out of
// micro-batches a rank may also keep just what it has of each (shoal_program_over_micro).
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

// Between a value over all micro-batches and one micro-batch of it: this rank must have all it
// needs.
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
  shoal_layout_t c = shoal_program_without_micro(to->layout), over;
  const bool keeps = shoal_program_over_micro(from->layout, &from->type.shape, &over) &&
                     shoal_layout_equal(&over, to->layout);
  if (!shoal_layout_equal(&a, &c) && !keeps) {
    return SHOAL_ERROR_HINT(MISMATCH, "use a reshard",
                            "a copy of '%s' may only add or drop micro-batches", from->name);
  }
  if (shoal_layout_equal(from->layout, to->layout)) return one_piece(arena, src->count, bound);
  bool src_micro = micro >= 0 && shoal_program_has_micro(from->layout);
  bool dst_micro = micro >= 0 && shoal_program_has_micro(to->layout);
  if (src->boxes.flat || (src_micro && dst_micro)) {
    return SHOAL_ERROR_HINT(
        MISMATCH, "use a reshard",
        "a copy of '%s' in or out of micro-batches cannot be flat, nor change how "
        "micro-batches are cut",
        from->name);
  }
  int64_t elements, needed = src_micro ? src->count : dst->count;
  SHOAL_RETURN_IF_ERROR(shared_pieces(arena, src, dst, scratch, bound, &elements));
  if (elements != needed) {
    return SHOAL_ERROR_HINT(
        MISMATCH, "use a reshard",
        "copying '%s' needs elements that this rank does not have: %lld of %lld", from->name,
        (long long)elements, (long long)needed);
  }
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

// See sample.h.
#include "program/sample.h"

#include "program/program_impl.h"

// ---- classes and meshes ---------------------------------------------------------------

bool shoal_class_covers(const shoal_class_t *class, const shoal_mesh_t *mesh) {
  const int64_t size = shoal_mesh_size(mesh);
  if (class->rank_count < size) return false;
  if (shoal_mesh_is_consecutive(mesh)) {  // then they are consecutive in the class
    const int64_t from = shoal_class_find(class, shoal_mesh_rank(mesh, 0));
    const int64_t to = shoal_class_find(class, shoal_mesh_rank(mesh, size - 1));
    return from >= 0 && to - from == size - 1;
  }
  for (int64_t p = 0; p < size; ++p) {
    if (shoal_class_find(class, shoal_mesh_rank(mesh, p)) < 0) return false;
  }
  return true;
}

// ---- values -----------------------------------------------------------------------------

typedef SHOAL_VEC(shoal_sample_t) list_t;

static bool add_micros(const shoal_cells_t *cells, int32_t rank, int64_t micro_count,
                       shoal_arena_t *arena, list_t *list) {
  const int64_t runs = micro_count > 0 ? cells->run_count[SHOAL_CELLS_MICRO] : 1;
  for (int64_t i = 0; i < runs; ++i) {
    const shoal_sample_t sample = {rank,
                                   micro_count > 0 ? cells->run_starts[SHOAL_CELLS_MICRO][i] : -1};
    if (!SHOAL_PUSH(arena, list, sample)) return false;
  }
  return true;
}

shoal_status_t shoal_sample_values(const shoal_class_t *class, int64_t count,
                                   shoal_cells_of_t *values, int64_t micro_count,
                                   shoal_arena_t *arena, shoal_samples_t *out_samples) {
  list_t list = {0};
  shoal_cells_t cells;
  *out_samples = (shoal_samples_t){0};
  if (count == 0) return NULL;
  const shoal_mesh_t *mesh = values[0].layout->mesh;
  for (int64_t i = 0; i < count; ++i) values[i].micro = micro_count > 0 ? SHOAL_MICRO_ANY : -1;
  SHOAL_RETURN_IF_ERROR(shoal_layout_cells(mesh, count, values, arena, &cells));
  const int64_t cell_count = shoal_cells_count(&cells);
  int64_t coords[SHOAL_MAX_AXES];
  if (!class || shoal_class_covers(class, mesh)) {
    for (int64_t i = 0; i < cell_count; ++i) {
      shoal_cells_first(&cells, i, coords);
      const int32_t rank = shoal_mesh_rank(mesh, shoal_mesh_at(mesh, coords));
      if (!add_micros(&cells, rank, micro_count, arena, &list)) return SHOAL_OOM();
    }
  } else {
    bool *seen = SHOAL_NEW(arena, bool, cell_count);
    if (!seen) return SHOAL_OOM();
    for (int64_t i = 0; i < class->rank_count; ++i) {
      const int64_t position = shoal_mesh_position(mesh, class->ranks[i]);
      if (position < 0) continue;
      shoal_mesh_coords(mesh, position, coords);
      const int64_t cell = shoal_cells_find(&cells, coords);
      if (seen[cell]) continue;
      seen[cell] = true;
      if (!add_micros(&cells, class->ranks[i], micro_count, arena, &list)) return SHOAL_OOM();
    }
  }
  *out_samples = (shoal_samples_t){list.count, list.items};
  return NULL;
}

// ---- moves --------------------------------------------------------------------------------

// Of a layout, what cuts it along micro; NULL: nothing.
static const shoal_cut_t *micro_cut(const shoal_layout_t *layout) {
  const shoal_cut_t *cut = shoal_layout_along(layout, SHOAL_AXIS_MICRO);
  return cut && cut->kind != SHOAL_CUT_PARTIAL ? cut : NULL;
}

// Is the micro-batch's part one interval of a dim, dealt evenly?
static bool is_plain(const shoal_cut_t *cut) {
  return cut->kind == SHOAL_CUT_DIM && !cut->weights && !cut->items && cut->chunk_count == 0;
}

// Do chunks cut the dim? They are intervals of the whole, and lie differently in each micro-batch.
static bool has_chunks(const shoal_layout_t *layout, int32_t dim) {
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    if (cut->kind == SHOAL_CUT_DIM && cut->dim == dim && cut->chunk_count > 0) return true;
  }
  return false;
}

// Both sides are cut into the same micro-batches, evenly: then ranks do the same in each of them,
// up to sizes. The sizes change where fewer units are dealt, at the last unit, which may be short,
// and before it, where a halo may end.
static bool few_micros(const shoal_layout_t *src, const shoal_layout_t *dst,
                       const shoal_shape_t *shape, int64_t count, int64_t list[7]) {
  const shoal_cut_t *a = micro_cut(src), *b = micro_cut(dst);
  if (!a != !b) return false;
  int64_t fewer = 0;  // the first that gets one unit less
  if (a) {
    const int64_t unit = a->unit > 1 ? a->unit : 1, other = b->unit > 1 ? b->unit : 1;
    if (!is_plain(a) || !is_plain(b) || a->dim != b->dim || unit != other ||
        a->before != b->before || a->after != b->after || a->before > unit || a->after > unit ||
        has_chunks(src, a->dim) || has_chunks(dst, a->dim)) {
      return false;
    }
    fewer = (shape->dims[a->dim] + unit - 1) / unit % count;
  }
  const int64_t candidates[7] = {0, 1, fewer - 2, fewer - 1, fewer, count - 2, count - 1};
  for (int i = 0; i < 7; ++i) list[i] = candidates[i];
  return true;
}

shoal_status_t shoal_sample_micros(const shoal_layout_t *src, const shoal_layout_t *dst,
                                   const shoal_shape_t *shape, int64_t micro_count,
                                   shoal_arena_t *arena, int64_t *out_count,
                                   const int64_t **out_micros) {
  const bool moves = shoal_program_has_micro(src) || shoal_program_has_micro(dst);
  const int64_t most = micro_count > 0 && moves ? micro_count : 1;
  int64_t *micros = SHOAL_NEW(arena, int64_t, most < 7 ? 7 : most), few[7], found = 0;
  if (!micros) return SHOAL_OOM();
  if (most == 1) {
    micros[found++] = micro_count > 0 ? 0 : -1;
  } else if (most > 7 && few_micros(src, dst, shape, most, few)) {
    for (int i = 0; i < 7; ++i) {
      bool known = few[i] < 0;
      for (int64_t k = 0; k < found; ++k) known |= micros[k] == few[i];
      if (!known) micros[found++] = few[i];
    }
  } else {
    for (; found < most; ++found) micros[found] = found;
  }
  *out_count = found;
  *out_micros = micros;
  return NULL;
}

shoal_status_t shoal_sample_move(const shoal_class_t *class, const shoal_layout_t *src,
                                 const shoal_layout_t *dst, const shoal_shape_t *shape,
                                 int64_t micro_count, shoal_arena_t *arena,
                                 shoal_samples_t *out_samples) {
  list_t list = {0};
  int64_t count;
  const int64_t *micros;
  SHOAL_RETURN_IF_ERROR(shoal_sample_micros(src, dst, shape, micro_count, arena, &count, &micros));
  const bool all =
      !class || (shoal_class_covers(class, src->mesh) && shoal_class_covers(class, dst->mesh));
  for (int64_t i = 0; i < count; ++i) {
    shoal_reshard_cells_t cells;
    int64_t found;
    const int32_t *ranks;
    SHOAL_RETURN_IF_ERROR(shoal_reshard_cells(src, shoal_program_micro_of(src, micros[i]), dst,
                                              shoal_program_micro_of(dst, micros[i]), shape, arena,
                                              &cells));
    SHOAL_RETURN_IF_ERROR(shoal_reshard_cells_ranks(
        &cells, all ? 0 : class->rank_count, all ? NULL : class->ranks, arena, &found, &ranks));
    for (int64_t k = 0; k < found; ++k) {
      const shoal_sample_t sample = {ranks[k], micros[i]};
      if (!SHOAL_PUSH(arena, &list, sample)) return SHOAL_OOM();
    }
  }
  *out_samples = (shoal_samples_t){list.count, list.items};
  return NULL;
}

static bool is_listed(const list_t *list, const shoal_sample_t *sample) {
  for (int64_t i = 0; i < list->count; ++i) {
    if (list->items[i].rank == sample->rank && list->items[i].micro == sample->micro) return true;
  }
  return false;
}

shoal_status_t shoal_sample_moves(const shoal_program_t *program, const shoal_class_t *class,
                                  int32_t count, const int32_t *channels, int64_t micro_count,
                                  shoal_arena_t *arena, shoal_samples_t *out_samples) {
  list_t list = {0};
  for (int32_t i = 0; i < count; ++i) {
    const shoal_channel_t *channel = &program->channels[channels[i]];
    shoal_samples_t found;
    SHOAL_RETURN_IF_ERROR(shoal_sample_move(class, channel->src, channel->dst, &channel->type.shape,
                                            micro_count, arena, &found));
    for (int64_t k = 0; k < found.count; ++k) {
      if (i > 0 && is_listed(&list, &found.items[k])) continue;
      if (!SHOAL_PUSH(arena, &list, found.items[k])) return SHOAL_OOM();
    }
  }
  *out_samples = (shoal_samples_t){list.count, list.items};
  return NULL;
}

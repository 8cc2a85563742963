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

typedef struct move {
  const shoal_layout_t *src, *dst;
  const shoal_shape_t *shape;
} move_t;

typedef SHOAL_VEC(move_t) moves_t;

// Micro-batches that stand for all others in every move. Each move's list has the first of every
// run of micro-batches that are alike; so has the list of all for what is alike in all.
static shoal_status_t join_micros(const moves_t *moves, int64_t micro_count, shoal_arena_t *arena,
                                  int64_t *out_count, const int64_t **out_micros) {
  const int64_t most = micro_count > 0 ? micro_count : 1;
  bool *wanted = SHOAL_NEW(arena, bool, most);
  int64_t *micros = SHOAL_NEW(arena, int64_t, most), found = 0;
  if (!wanted || !micros) return SHOAL_OOM();
  for (int64_t i = 0; i < moves->count; ++i) {
    const move_t *move = &moves->items[i];
    int64_t count;
    const int64_t *own;
    SHOAL_RETURN_IF_ERROR(
        shoal_sample_micros(move->src, move->dst, move->shape, micro_count, arena, &count, &own));
    for (int64_t k = 0; k < count; ++k) wanted[own[k] < 0 ? 0 : own[k]] = true;
  }
  for (int64_t m = 0; m < most; ++m) {
    if (wanted[m]) micros[found++] = micro_count > 0 ? m : -1;
  }
  *out_count = found;
  *out_micros = micros;
  return NULL;
}

static shoal_status_t join_cells(const moves_t *moves, int64_t micro, shoal_arena_t *arena,
                                 shoal_reshard_cells_t *out_cells) {
  for (int64_t i = 0; i < moves->count; ++i) {
    const move_t *move = &moves->items[i];
    shoal_reshard_cells_t cells;
    SHOAL_RETURN_IF_ERROR(shoal_reshard_cells(move->src, shoal_program_micro_of(move->src, micro),
                                              move->dst, shoal_program_micro_of(move->dst, micro),
                                              move->shape, arena, &cells));
    if (i == 0)
      *out_cells = cells;
    else
      SHOAL_RETURN_IF_ERROR(shoal_reshard_cells_join(out_cells, &cells, arena, out_cells));
  }
  return NULL;
}

static shoal_status_t sample(const shoal_class_t *class, const moves_t *moves, int64_t micro_count,
                             shoal_arena_t *arena, shoal_samples_t *out_samples) {
  const move_t *first = &moves->items[0];
  list_t list = {0};
  int64_t count = 0;
  const int64_t *micros = NULL;
  SHOAL_RETURN_IF_ERROR(join_micros(moves, micro_count, arena, &count, &micros));
  const bool all = !class || (shoal_class_covers(class, first->src->mesh) &&
                              shoal_class_covers(class, first->dst->mesh));
  for (int64_t i = 0; i < count; ++i) {
    shoal_reshard_cells_t cells;
    int64_t found;
    const int32_t *ranks;
    SHOAL_RETURN_IF_ERROR(join_cells(moves, micros[i], arena, &cells));
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

shoal_status_t shoal_sample_move(const shoal_class_t *class, const shoal_layout_t *src,
                                 const shoal_layout_t *dst, const shoal_shape_t *shape,
                                 int64_t micro_count, shoal_arena_t *arena,
                                 shoal_samples_t *out_samples) {
  move_t move = {src, dst, shape};
  return sample(class, &(moves_t){.count = 1, .items = &move}, micro_count, arena, out_samples);
}

static bool is_listed(const moves_t *moves, const shoal_channel_t *channel) {
  for (int64_t i = 0; i < moves->count; ++i) {
    const move_t *move = &moves->items[i];
    if (move->src == channel->src && move->dst == channel->dst &&
        shoal_shape_equal(move->shape, &channel->type.shape))
      return true;
  }
  return false;
}

shoal_status_t shoal_sample_moves(const shoal_class_t *class, const shoal_channel_t *table,
                                  int32_t count, const int32_t *channels, int64_t micro_count,
                                  shoal_arena_t *arena, shoal_samples_t *out_samples) {
  moves_t moves = {0};
  for (int32_t i = 0; i < count; ++i) {
    const shoal_channel_t *channel = &table[channels[i]];
    const move_t move = {channel->src, channel->dst, &channel->type.shape};
    if (is_listed(&moves, channel)) continue;
    if (!SHOAL_PUSH(arena, &moves, move)) return SHOAL_OOM();
  }
  return sample(class, &moves, micro_count, arena, out_samples);
}

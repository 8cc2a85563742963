// A value's parts: which ranks and micro-batches hold unreduced pieces of the same elements, and
// their sum (or maximum ...). With several unreduced axes the last written is joined first, as a
// reshard does. Parts that log-sum-exp merges are joined with their logarithms, row by row.
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "op/reduce.h"
#include "prove/compare.h"

bool shoal_layout_speaks_of_micro(const shoal_layout_t *layout) {
  for (int32_t i = 0; i < layout->cut_count; ++i)
    if (layout->cuts[i].axis == SHOAL_AXIS_MICRO) return true;
  return false;
}

// What runs for the nth time in each micro-batch is one accumulator (another one of the same value
// may begin before it is complete), and the last of its records to come is the complete one. What
// was written outside the loop before that began it.
shoal_status_t shoal_parts_complete(const shoal_record_t *const *records, int64_t count,
                                    const shoal_mesh_t *mesh, int64_t micros, shoal_arena_t *arena,
                                    bool *out_complete) {
  const int64_t size = shoal_mesh_size(mesh);
  int64_t *times = SHOAL_NEW(arena, int64_t, micros * size);
  int64_t *accumulators = SHOAL_NEW(arena, int64_t, count), most = 0;
  if (!times || !accumulators) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t position = shoal_mesh_position(mesh, records[i]->rank);
    if (position < 0 || records[i]->micro >= micros)
      return SHOAL_ERROR(MISMATCH, "'%s': rank %d, micro-batch %d is not on its mesh",
                         records[i]->name, records[i]->rank, records[i]->micro);
    int64_t time = records[i]->micro < 0 ? 0 : times[records[i]->micro * size + position]++;
    if (time > most) most = time;
    accumulators[i] = time * size + position;
  }
  const shoal_record_t **ends = SHOAL_NEW(arena, const shoal_record_t *, (most + 1) * size);
  if (!ends) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) {
    const shoal_record_t **end = &ends[accumulators[i]];
    if (records[i]->micro >= 0 && (!*end || records[i]->sequence > (*end)->sequence))
      *end = records[i];
  }
  for (int64_t i = 0; i < count; ++i) {
    const shoal_record_t *end = ends[accumulators[i]];
    out_complete[i] = !end || records[i] == end ||
                      (records[i]->micro < 0 && records[i]->sequence > end->sequence);
  }
  return NULL;
}

bool shoal_layout_is_merged(const shoal_layout_t *layout) {
  for (int32_t i = 0; i < layout->cut_count; ++i)
    if (layout->cuts[i].kind == SHOAL_CUT_PARTIAL && layout->cuts[i].reduce == SHOAL_REDUCE_LSE)
      return true;
  return false;
}

bool shoal_layout_is_weight(const shoal_layout_t *layout, const shoal_layout_t *of) {
  return shoal_layout_is_merged(layout) && layout->mesh == of->mesh &&
         layout->tile.count == of->tile.count && layout->tile.index == of->tile.index;
}

bool shoal_part_leads(const shoal_group_parts_t *group, int64_t position, int64_t micro) {
  int64_t coords[SHOAL_MAX_AXES];
  shoal_mesh_coords(group->layout->mesh, position, coords);
  for (int32_t i = 0; i < group->layout->cut_count; ++i) {
    const shoal_cut_t *cut = &group->layout->cuts[i];
    if (cut->kind != SHOAL_CUT_PARTIAL) continue;
    if ((cut->axis == SHOAL_AXIS_MICRO ? micro : coords[cut->axis]) != 0) return false;
  }
  return true;
}

shoal_status_t shoal_part_boxes(const shoal_group_parts_t *group, int64_t position, int64_t micro,
                                shoal_arena_t *arena, shoal_boxes_t *out_boxes) {
  int64_t at = shoal_layout_speaks_of_micro(group->layout) ? micro : -1;
  return shoal_layout_boxes(group->layout, &group->type.shape, position, at, arena, out_boxes);
}

int64_t shoal_cell_exact(shoal_dtype_t dtype, const void *data, int64_t index) {
  if (shoal_dtype_is_real(dtype)) return ((const uint8_t *)data)[index];  // of 8 bits
  return shoal_dtype_load_int(dtype, data, index);
}

static shoal_cell_t load(shoal_dtype_t dtype, const void *data, int64_t index) {
  shoal_cell_t cell;
  if (shoal_dtype_is_float(dtype))
    cell.f = shoal_dtype_load(dtype, data, index);
  else
    cell.i = shoal_cell_exact(dtype, data, index);
  return cell;
}

static shoal_cell_t join_cells(shoal_reduce_t reduce, bool floats, shoal_cell_t a, shoal_cell_t b) {
  shoal_cell_t out;
  if (floats)
    out.f = shoal_reduce_reals(reduce, a.f, b.f);
  else
    out.i = shoal_reduce_integers(reduce, a.i, b.i);
  return out;
}

typedef struct joiner {
  const shoal_group_parts_t *group;
  shoal_arena_t *arena;
  int64_t coords[SHOAL_MAX_AXES], micro, count;
  int64_t rows;  // of a value with weights
} joiner_t;

// Elements of a part, and their logarithms where they have such.
typedef struct part_cells {
  shoal_cell_t *cells, *lse;
} part_cells_t;

static shoal_status_t load_part(const joiner_t *j, const shoal_group_parts_t *group, int64_t count,
                                shoal_cell_t **out_cells) {
  const shoal_mesh_t *mesh = group->layout->mesh;
  int64_t position = shoal_mesh_at(mesh, j->coords);
  const shoal_record_t *record = group->table[j->micro * shoal_mesh_size(mesh) + position];
  int32_t rank = shoal_mesh_rank(mesh, position);
  if (!record) return SHOAL_ERROR(MISMATCH, "rank %d never made its part", rank);
  int64_t bytes = count * (int64_t)shoal_dtype_size(group->type.dtype);
  if (record->bytes != bytes)
    return SHOAL_ERROR(MISMATCH, "rank %d's part has %lld bytes instead of %lld", rank,
                       (long long)record->bytes, (long long)bytes);
  shoal_cell_t *cells = SHOAL_NEW(j->arena, shoal_cell_t, count);
  if (!cells) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) cells[i] = load(group->type.dtype, record->data, i);
  for (int64_t i = 0; group->scale > 0 && i < count; ++i) cells[i].f /= group->scale;
  *out_cells = cells;
  return NULL;
}

static shoal_status_t one_part(const joiner_t *j, part_cells_t *out) {
  SHOAL_RETURN_IF_ERROR(load_part(j, j->group, j->count, &out->cells));
  return j->group->weights ? load_part(j, j->group->weights, j->rows, &out->lse) : NULL;
}

// Merges `more` into `out`, row by row. What has seen nothing counts for nothing.
static void merge_parts(const joiner_t *j, const part_cells_t *more, part_cells_t *out) {
  const int64_t length = j->rows > 0 ? j->count / j->rows : 0;
  for (int64_t r = 0; r < j->rows; ++r) {
    const double a = out->lse[r].f, b = more->lse[r].f, most = a > b ? a : b;
    if (b == -INFINITY) continue;
    const double wa = exp(a - most), wb = exp(b - most);
    for (int64_t i = r * length; i < (r + 1) * length; ++i) {
      const double mine = wa > 0 ? wa * out->cells[i].f : 0;
      out->cells[i].f = (mine + (wb > 0 ? wb * more->cells[i].f : 0)) / (wa + wb);
    }
    out->lse[r].f = most + log(wa + wb);
  }
}

// Joins over the unreduced axes among cuts[cut..].
static shoal_status_t join_from(joiner_t *j, int32_t cut, part_cells_t *out) {
  const shoal_layout_t *layout = j->group->layout;
  while (cut < layout->cut_count && layout->cuts[cut].kind != SHOAL_CUT_PARTIAL) ++cut;
  if (cut == layout->cut_count) return one_part(j, out);
  const shoal_cut_t *partial = &layout->cuts[cut];
  bool micro = partial->axis == SHOAL_AXIS_MICRO;
  bool floats = shoal_dtype_is_float(j->group->type.dtype);
  const bool merged = partial->reduce == SHOAL_REDUCE_LSE && j->group->weights;
  int64_t size = micro ? j->group->micro_count : layout->mesh->axes[partial->axis].size;
  int64_t *coord = micro ? &j->micro : &j->coords[partial->axis];
  for (int64_t c = 0; c < size; ++c) {
    part_cells_t more = {0};
    *coord = c;
    SHOAL_RETURN_IF_ERROR(join_from(j, cut + 1, &more));
    for (int64_t i = 0; c > 0 && !merged && i < j->count; ++i)
      out->cells[i] = join_cells(partial->reduce, floats, out->cells[i], more.cells[i]);
    if (c > 0 && merged) merge_parts(j, &more, out);
    if (c == 0) *out = more;
  }
  *coord = 0;
  return NULL;
}

// Rows of the part: as many as it has logarithms.
static shoal_status_t count_rows(joiner_t *j, int64_t position) {
  const shoal_group_parts_t *weights = j->group->weights;
  shoal_boxes_t boxes;
  if (!weights) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_part_boxes(weights, position, j->micro, j->arena, &boxes));
  const shoal_shape_t shape = shoal_boxes_shape(&boxes);
  j->rows = shoal_shape_count(&shape);
  return NULL;
}

shoal_status_t shoal_part_join(const shoal_group_parts_t *group, int64_t position, int64_t micro,
                               int64_t count, shoal_arena_t *arena, shoal_cell_t **out_cells) {
  joiner_t j = {.group = group, .arena = arena, .micro = micro, .count = count};
  part_cells_t joined = {0};
  shoal_mesh_coords(group->layout->mesh, position, j.coords);
  SHOAL_RETURN_IF_ERROR(count_rows(&j, position));
  SHOAL_RETURN_IF_ERROR(join_from(&j, 0, &joined));
  *out_cells = joined.cells;
  return NULL;
}

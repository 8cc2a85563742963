// See tile_fit.h. Parts along a dim are looked at one by one, at the coordinates of the axes that
// cut it.
#include "lower/tile_fit.h"

#include "base/status.h"

typedef struct parts {
  const instance_t *of;
  int32_t dim;
  int32_t axis_count, axes[SHOAL_MAX_AXES];  // that cut the dim, outermost first
  int64_t count;
} parts_t;

static parts_t parts_of(const instance_t *of, int32_t dim) {
  parts_t parts = {.of = of, .dim = dim, .count = 1};
  for (int32_t i = 0; i < of->layout->cut_count; ++i) {
    const shoal_cut_t *cut = &of->layout->cuts[i];
    if (cut->kind != SHOAL_CUT_DIM || cut->dim != dim || cut->axis == SHOAL_AXIS_MICRO) continue;
    parts.axes[parts.axis_count++] = cut->axis;
    parts.count *= of->layout->mesh->axes[cut->axis].size;
  }
  return parts;
}

// Part `index` of the dim, in order, in another layout of the same mesh.
static shoal_status_t part_at(const parts_t *parts, const shoal_layout_t *layout, int64_t index,
                              shoal_arena_t *scratch, const shoal_dim_part_t **out_part) {
  const shoal_mesh_t *mesh = parts->of->layout->mesh;
  const int64_t micro = shoal_layout_along(layout, SHOAL_AXIS_MICRO) ? 0 : -1;
  int64_t coords[SHOAL_MAX_AXES] = {0};
  shoal_boxes_t *boxes = SHOAL_NEW(scratch, shoal_boxes_t, 1);
  if (!boxes) return SHOAL_OOM();
  for (int32_t i = parts->axis_count - 1; i >= 0; --i) {
    const int64_t size = mesh->axes[parts->axes[i]].size;
    coords[parts->axes[i]] = index % size;
    index /= size;
  }
  SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(layout, &parts->of->type.shape,
                                           shoal_mesh_at(mesh, coords), micro, scratch, boxes));
  *out_part = &boxes->dims[parts->dim];
  return NULL;
}

static shoal_status_t say(build_t *b, const char **out_against, const char *text) {
  *out_against = text;
  return text ? NULL : SHOAL_OOM();
  (void)b;
}
#define AGAINST(...) return say(b, out_against, shoal_arena_printf(b->arena, __VA_ARGS__))

// ---- which rows --------------------------------------------------------------------------

static int64_t unit_along(const shoal_layout_t *layout, int32_t dim) {
  int64_t unit = 1;
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    if (cut->kind == SHOAL_CUT_DIM && cut->dim == dim && cut->unit > unit) unit = cut->unit;
  }
  return unit;
}

shoal_status_t shoal_tile_cut(build_t *b, const instance_t *of, int32_t dim, shoal_arena_t *scratch,
                              int32_t *count, shoal_cut_t *out_cut, const char **out_against) {
  const parts_t parts = parts_of(of, dim);
  const int64_t unit = unit_along(of->layout, dim);
  SHOAL_VEC(int64_t) lengths = {0};
  int64_t longest = 0, end = 0;
  bool equal = true;
  *out_against = NULL;
  for (int64_t p = 0; p < parts.count; ++p) {
    const shoal_dim_part_t *part = NULL;
    SHOAL_RETURN_IF_ERROR(part_at(&parts, of->layout, p, scratch, &part));
    if (part->own_size == 0) continue;
    if (part->own_count > 1 || part->held_size != part->own_size || part->own[0].start != end)
      AGAINST("the parts of '%s' along dim %d do not lie one behind the other", of->name, dim);
    end += part->own_size;
    if (!SHOAL_PUSH(scratch, &lengths, part->own_size)) return SHOAL_OOM();
    equal = equal && part->own_size == lengths.items[0];
    if (part->own_size > longest) longest = part->own_size;
  }
  if (end != of->type.shape.dims[dim])
    AGAINST("micro-batches or trims leave only some of dim %d of '%s'", dim, of->name);
  if (!equal && lengths.count > SHOAL_MAX_CHUNKS)
    AGAINST("'%s' has parts of unequal length on more than %d ranks", of->name, SHOAL_MAX_CHUNKS);
  const int64_t units = (longest + unit - 1) / unit;
  if (units < *count) *count = (int32_t)units;
  if (*count < 2)
    AGAINST("a rank's part of '%s' has %lld rows along dim %d, too few for two tiles", of->name,
            (long long)longest, dim);
  *out_cut = (shoal_cut_t){.dim = dim, .unit = unit > 1 ? unit : 0};
  if (lengths.count > 1) out_cut->chunk_count = (int32_t)lengths.count;
  for (int64_t i = 0; i < lengths.count && !equal; ++i)
    out_cut->chunks[i].length = lengths.items[i];
  return NULL;
}

// ---- in which layout ---------------------------------------------------------------------

// How much of the second the first has, too.
static int64_t shared(const shoal_dim_part_t *a, const shoal_dim_part_t *b) {
  int64_t sum = 0;
  for (int32_t i = 0, k = 0; i < a->own_count && k < b->own_count;) {
    const int64_t a_end = a->own[i].start + a->own[i].size,
                  b_end = b->own[k].start + b->own[k].size;
    const int64_t start = a->own[i].start > b->own[k].start ? a->own[i].start : b->own[k].start;
    const int64_t end = a_end < b_end ? a_end : b_end;
    if (end > start) sum += end - start;
    if (a_end <= b_end)
      ++i;
    else
      ++k;
  }
  return sum;
}

// Has every rank all rows that it would have of the tile?
static shoal_status_t fits(const parts_t *parts, const shoal_layout_t *layout,
                           shoal_arena_t *scratch, bool *out_fits) {
  *out_fits = true;
  for (int64_t p = 0; p < parts->count && *out_fits; ++p) {
    const shoal_dim_part_t *whole = NULL, *tile = NULL;
    SHOAL_RETURN_IF_ERROR(part_at(parts, parts->of->layout, p, scratch, &whole));
    SHOAL_RETURN_IF_ERROR(part_at(parts, layout, p, scratch, &tile));
    *out_fits = shared(whole, tile) == tile->own_size;
  }
  return NULL;
}

// Deals the tile by weights, to each rank of the one axis that cuts the dim what it has of it.
static shoal_status_t weigh(const parts_t *parts, const shoal_layout_t *everything,
                            shoal_arena_t *scratch, shoal_layout_t *layout) {
  const shoal_dim_part_t *tile = NULL;
  int64_t *weights = SHOAL_NEW(scratch, int64_t, parts->count);
  int64_t sum = 0;
  if (!weights) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(part_at(parts, everything, 0, scratch, &tile));
  const int64_t unit = layout->tile.cut.unit > 1 ? layout->tile.cut.unit : 1;
  for (int64_t p = 0; p < parts->count; ++p) {
    const shoal_dim_part_t *whole = NULL;
    SHOAL_RETURN_IF_ERROR(part_at(parts, parts->of->layout, p, scratch, &whole));
    weights[p] = (shared(whole, tile) + unit - 1) / unit;
    sum += weights[p];
  }
  for (int32_t i = 0; i < layout->cut_count && sum > 0; ++i) {
    shoal_cut_t *cut = &layout->cuts[i];
    if (cut->kind == SHOAL_CUT_DIM && cut->dim == parts->dim && cut->axis != SHOAL_AXIS_MICRO)
      cut->weights = weights;
  }
  return NULL;
}

// The layout with the tile, but nothing else along its dim.
static shoal_layout_t without_cuts(const shoal_layout_t *layout, int32_t dim) {
  shoal_layout_t out = *layout;
  out.cut_count = 0;
  for (int32_t i = 0; i < layout->cut_count; ++i)
    if (layout->cuts[i].kind != SHOAL_CUT_DIM || layout->cuts[i].dim != dim)
      out.cuts[out.cut_count++] = layout->cuts[i];
  return out;
}

shoal_status_t shoal_tile_layout(build_t *b, const instance_t *of, const shoal_tile_t *tile,
                                 shoal_arena_t *scratch, const shoal_layout_t **out_layout,
                                 const char **out_against) {
  const parts_t parts = parts_of(of, tile->cut.dim);
  shoal_layout_t layout = *of->layout;
  bool fit = false;
  *out_against = NULL;
  *out_layout = NULL;
  layout.tile = *tile;
  shoal_status_t refused = shoal_layout_check(&layout, &of->type.shape);
  if (refused && shoal_status_code(refused) == SHOAL_OUT_OF_MEMORY) return refused;
  if (refused) {
    *out_against = shoal_arena_printf(b->arena, "'%s' has no tiles: %s", of->name,
                                      shoal_status_message(refused));
    shoal_status_free(refused);
    return *out_against ? NULL : SHOAL_OOM();
  }
  SHOAL_RETURN_IF_ERROR(fits(&parts, &layout, scratch, &fit));
  if (!fit && parts.axis_count == 1) {
    const shoal_layout_t everything = without_cuts(&layout, tile->cut.dim);
    SHOAL_RETURN_IF_ERROR(weigh(&parts, &everything, scratch, &layout));
    SHOAL_RETURN_IF_ERROR(fits(&parts, &layout, scratch, &fit));
  }
  if (!fit)
    AGAINST("tiles of '%s' along dim %d would have rows of several ranks' parts", of->name,
            tile->cut.dim);
  return shoal_layouts_keep(&b->layouts, &layout, out_layout);
}

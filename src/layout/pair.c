// Two layouts of a reshard, compared cut by cut.
#include "layout/cells.h"
#include "layout/layout_impl.h"

// The cuts of dim `dim`, or with dim == rank the flat ones.
static void list_cuts(const shoal_side_t *side, bool any_micro, int32_t dim,
                      shoal_cut_list_t *out) {
  const shoal_layout_t *layout = side->layout;
  const bool flat = dim == side->shape->rank;
  *out = (shoal_cut_list_t){0};
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    if (cut->kind != (flat ? SHOAL_CUT_FLAT : SHOAL_CUT_DIM)) continue;
    if (!flat && cut->dim != dim) continue;
    if (cut->axis == SHOAL_AXIS_MICRO && side->micro < 0 && !any_micro) continue;
    if (!shoal_cut_idle(layout, cut)) out->cuts[out->count++] = cut;
  }
}

// Do both cuts give the same to coordinates that correspond?
static bool is_same(const shoal_pair_t *pair, const shoal_cut_t *a, const shoal_cut_t *b) {
  const shoal_mesh_t *mesh = pair->roles.src_mesh;
  if ((a->axis == SHOAL_AXIS_MICRO) != (b->axis == SHOAL_AXIS_MICRO)) return false;
  const int64_t parts = shoal_layout_axis_size(mesh, a->axis);
  if (a->axis == SHOAL_AXIS_MICRO) {
    if (!pair->any_micro && pair->src.micro != pair->dst.micro) return false;
    if (parts != shoal_layout_axis_size(pair->roles.dst_mesh, b->axis)) return false;
  } else if (pair->roles.twin[a->axis] != b->axis) {
    return false;
  }
  return shoal_cut_alike(a, b, parts);
}

bool shoal_pair_tiles_differ(const shoal_pair_t *pair, int32_t dim) {
  const shoal_layout_t *src = pair->src.layout, *dst = pair->dst.layout;
  return (shoal_layout_tile(src, dim) || shoal_layout_tile(dst, dim)) && !shoal_tile_same(src, dst);
}

shoal_status_t shoal_pair_init(const shoal_layout_t *src, int64_t src_micro,
                               const shoal_layout_t *dst, int64_t dst_micro,
                               const shoal_shape_t *shape, shoal_pair_t *out_pair) {
  shoal_pair_t *pair = out_pair;
  *pair = (shoal_pair_t){.rank = shape->rank};
  pair->any_micro = src_micro == SHOAL_MICRO_ANY || dst_micro == SHOAL_MICRO_ANY;
  if (pair->any_micro) src_micro = dst_micro = 0;
  SHOAL_RETURN_IF_ERROR(shoal_side_axes(src, shape, src_micro, &pair->src));
  SHOAL_RETURN_IF_ERROR(shoal_side_axes(dst, shape, dst_micro, &pair->dst));
  SHOAL_RETURN_IF_ERROR(shoal_roles_find(&pair->src, &pair->dst, &pair->roles));
  for (int32_t d = 0; d <= pair->rank; ++d) {
    shoal_cut_list_t *a = &pair->src_cuts[d], *b = &pair->dst_cuts[d];
    list_cuts(&pair->src, pair->any_micro, d, a);
    list_cuts(&pair->dst, pair->any_micro, d, b);
    int32_t same = 0;
    while (same < a->count && same < b->count && is_same(pair, a->cuts[same], b->cuts[same])) {
      ++same;
    }
    a->same = b->same = same;
  }
  return NULL;
}

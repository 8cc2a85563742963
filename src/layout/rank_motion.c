// A rank's motion in a reshard, straight from the two layouts. Where the reshard is a collective,
// all it needs are the ranks of the group and the sizes of their parts: no links are listed.
#include "layout/layout_impl.h"
#include "layout/motion.h"

static shoal_status_t plan_group(const shoal_pair_t *pair, const shoal_reshard_facts_t *facts,
                                 const shoal_motion_options_t *options, shoal_arena_t *arena,
                                 shoal_arena_t *scratch, shoal_motion_t *motion) {
  const shoal_mesh_t *mesh = pair->roles.dst_mesh;
  const bool gathers = facts->kind == SHOAL_RESHARD_ALL_GATHER;
  const shoal_side_t *parts = gathers ? &pair->src : &pair->dst;
  shoal_deals_t deals = {.arena = scratch};
  shoal_side_part_t part;
  int64_t coords[SHOAL_MAX_AXES], position = shoal_mesh_position(mesh, options->rank), size = 1;
  bool along[SHOAL_MAX_AXES] = {0};
  motion->collective = true;
  motion->group = SHOAL_NEW(arena, int32_t, 0);
  motion->counts = SHOAL_NEW(arena, int64_t, 0);
  if (!motion->group || !motion->counts) return SHOAL_OOM();
  if (position < 0) return NULL;
  shoal_mesh_coords(mesh, position, coords);
  SHOAL_RETURN_IF_ERROR(shoal_side_part_at(&pair->dst, coords, &deals, scratch, &part));
  if (part.from == part.to) return NULL;  // and so is the whole group's
  for (int32_t k = 0; k < mesh->axis_count; ++k) {
    along[k] = gathers ? pair->src.cuts[k] && !pair->dst.cuts[k] : pair->roles.joined[k];
    if (!along[k]) continue;
    size *= mesh->axes[k].size;
    coords[k] = 0;
  }
  int32_t *group = SHOAL_NEW(arena, int32_t, size);
  int64_t *counts = SHOAL_NEW(arena, int64_t, size);
  if (!group || !counts) return SHOAL_OOM();
  for (int64_t i = 0; i < size; ++i) {
    group[i] = shoal_mesh_rank(mesh, shoal_mesh_at(mesh, coords));
    if (i == 0 || facts->kind != SHOAL_RESHARD_ALL_REDUCE) {
      SHOAL_RETURN_IF_ERROR(shoal_side_part_at(parts, coords, &deals, scratch, &part));
    }
    counts[i] = part.to - part.from;
    int32_t k = mesh->axis_count - 1;
    for (; k >= 0; --k) {
      if (!along[k]) continue;
      if (++coords[k] < mesh->axes[k].size) break;
      coords[k] = 0;
    }
  }
  motion->group_count = (int32_t)size;
  motion->group = group;
  motion->counts = counts;
  return NULL;
}

shoal_status_t shoal_motion_of_rank(const shoal_layout_t *src, int64_t src_micro,
                                    const shoal_layout_t *dst, int64_t dst_micro,
                                    const shoal_shape_t *shape, const shoal_reshard_facts_t *facts,
                                    const shoal_motion_options_t *options, shoal_arena_t *arena,
                                    shoal_motion_t *out_motion) {
  shoal_pair_t pair;
  shoal_reshard_facts_t found;
  bool known;
  SHOAL_RETURN_IF_ERROR(shoal_pair_init(src, src_micro, dst, dst_micro, shape, &pair));
  if (!facts) {
    SHOAL_RETURN_IF_ERROR(
        shoal_pair_describe(&pair, arena->allocator, SHOAL_LOOK_IF_NEEDED, &known, &found));
    facts = &found;
  }
  shoal_arena_t scratch;
  shoal_arena_init(arena->allocator, &scratch);
  shoal_links_t links;
  shoal_status_t status;
  if (facts->collective) {
    *out_motion = (shoal_motion_t){.dtype = options->dtype,
                                   .kind = facts->kind,
                                   .reduce = facts->reduce,
                                   .input_count = options->input_count,
                                   .output_count = options->output_count};
    if (options->adjoint) out_motion->kind = shoal_reshard_adjoint(facts->kind);
    status = plan_group(&pair, facts, options, arena, &scratch, out_motion);
  } else {
    status = shoal_pair_links(&pair, options->rank, &scratch, &links);
    links.kind = facts->kind;
    if (!status) status = shoal_motion_plan(&links, options, arena, out_motion);
  }
  shoal_arena_deinit(&scratch);
  return status;
}

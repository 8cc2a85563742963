// Constraints of a random case: which results are held as the model says, and how. The nodes are
// drawn with the graph, so that names are known before a plan is drawn; the layouts when its meshes
// are there. The dice are its own: cases without constraints are what they were.
#include <string.h>

#include "base/status.h"
#include "explore/generate.h"

typedef shoal_generator_t gen_t;

#define TEXT(...) shoal_arena_printf(g->arena, __VA_ARGS__)

void shoal_generate_constrained(gen_t *g) {
  const bool scarce = shoal_coverage_count(g->coverage, "feature", "constrained") < 10;
  if (!shoal_chance(g, scarce ? 60 : 25)) return;
  for (int64_t n = 0; n < g->c->nodes.count; ++n) {
    shoal_case_node_t *node = &g->c->nodes.items[n];
    if (node->outputs[0].shape.rank > 0 && shoal_chance(g, 30)) node->held = "";
  }
}

// The size of an axis that all meshes have; 0: some have none.
static int64_t common_size(const shoal_mesh_t *meshes, int64_t count, const char *axis) {
  int64_t size = 0;
  for (int64_t m = 0; m < count; ++m) {
    const int32_t at = shoal_mesh_axis(&meshes[m], axis);
    if (at < 0) return 0;
    size = meshes[m].axes[at].size;
  }
  return size;
}

// "tensor:1/2": plain, by units, in chunks or by weights, where there is one mesh that has as many
// ranks along the axis.
static const char *cut_text(gen_t *g, const char *axis, int64_t ranks, const shoal_shape_t *shape) {
  const int32_t dim = (int32_t)shoal_roll(g, shape->rank);
  const int64_t size = shape->dims[dim], fate = shoal_roll(g, 100);
  const char *weights = "";
  if (fate < 10 && size > 2)
    return TEXT("%s:%d/%lld", axis, dim, (long long)(2 + shoal_roll(g, size - 2)));
  if (fate < 20 && size % 2 == 0) return TEXT("%s:%d*2", axis, dim);
  if (fate < 80 || g->c->meshes.count > 1) return TEXT("%s:%d", axis, dim);
  for (int64_t i = 0; i < ranks && weights; ++i)
    weights = TEXT("%s%s%lld", weights, i ? "," : "",
                   (long long)(i == 0 ? 1 + shoal_roll(g, 3) : shoal_roll(g, 4)));
  return weights ? TEXT("%s:%d(%s)", axis, dim, weights) : NULL;
}

static const char *layout_text(gen_t *g, const shoal_mesh_t *meshes, const shoal_type_t *type) {
  const char *text = "", *last = NULL;
  for (int32_t a = 0; a < meshes[0].axis_count && text; ++a) {
    const char *axis = meshes[0].axes[a].name, *cut = NULL;
    const int64_t ranks = common_size(meshes, g->c->meshes.count, axis);
    if (ranks == 0 || shoal_chance(g, 30)) continue;
    const int64_t fate = shoal_roll(g, 100);
    if (fate < 8 && !last) {
      if (!(last = TEXT("%s:flat", axis))) return NULL;
      continue;
    }
    cut = fate < 14 && shoal_dtype_is_float(type->dtype) ? TEXT("%s:partial(sum)", axis)
                                                         : cut_text(g, axis, ranks, &type->shape);
    text = cut ? TEXT("%s%s%s", text, text[0] ? "," : "", cut) : NULL;
  }
  return text && last ? TEXT("%s%s%s", text, text[0] ? "," : "", last) : text;
}

shoal_status_t shoal_generate_constraints(gen_t *g) {
  shoal_mesh_t *meshes = SHOAL_NEW(g->arena, shoal_mesh_t, g->c->meshes.count);
  if (!meshes) return SHOAL_OOM();
  for (int64_t m = 0; m < g->c->meshes.count; ++m)
    SHOAL_RETURN_IF_ERROR(shoal_mesh_parse(g->c->meshes.items[m], g->arena, &meshes[m]));
  for (int64_t n = 0; n < g->c->nodes.count; ++n) {
    shoal_case_node_t *node = &g->c->nodes.items[n];
    if (node->held && !(node->held = layout_text(g, meshes, &node->outputs[0]))) return SHOAL_OOM();
  }
  return NULL;
}

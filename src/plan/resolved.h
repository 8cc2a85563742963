// The resolved part of a plan file: what file.c asks for.
#ifndef SHOAL_PLAN_RESOLVED_H_
#define SHOAL_PLAN_RESOLVED_H_

#include "base/json.h"
#include "plan/plan.h"
#include "shoal/schedule.h"

// resolved.c: the list of decisions, one per node, state or value that is not as it would be
// anyway.
SHOAL_MUST_USE shoal_status_t shoal_resolved_write(const shoal_plan_t *plan, shoal_json_writer_t *w,
                                                   shoal_arena_t *scratch);
// resolved_read.c: makes the plan what the list says; what it does not name is as if nobody had
// decided on anything.
SHOAL_MUST_USE shoal_status_t shoal_resolved_read(shoal_plan_t *plan, const shoal_json_t *list,
                                                  shoal_arena_t *scratch);
// resolved_phased.c: the composite nodes that the list speaks of, by graph and node of the model.
SHOAL_MUST_USE shoal_status_t shoal_resolved_phased(const shoal_model_t *model,
                                                    const shoal_json_t *list,
                                                    shoal_arena_t *scratch, bool ***out_phased);
// resolved_regions.c: numbers the regions of nodes that have SHOAL_OWN_REGION, and refuses one that
// is on two meshes.
enum { SHOAL_OWN_REGION = -2 };
SHOAL_MUST_USE shoal_status_t shoal_resolved_regions(shoal_plan_t *plan, const shoal_json_t *list,
                                                     shoal_arena_t *scratch);
// resolved_maps.c: the older form, with maps of states and nodes.
SHOAL_MUST_USE shoal_status_t shoal_resolved_read_maps(shoal_plan_t *plan,
                                                       const shoal_json_t *resolved,
                                                       shoal_arena_t *scratch);

// reasons.c: who gave a node its way along an axis, why, at what cost, and what was next best. The
// texts lie in `arena`. `reason` is NULL where there was nothing to decide.
SHOAL_MUST_USE shoal_status_t shoal_reason_of_way(const shoal_plan_t *plan,
                                                  const shoal_graph_plan_t *gp, int64_t node,
                                                  int32_t slot, shoal_arena_t *arena,
                                                  shoal_told_t *out_told);
// The same for a composite node.
SHOAL_MUST_USE shoal_status_t shoal_reason_of_composite(const shoal_plan_t *plan,
                                                        const shoal_composite_t *composite,
                                                        int32_t slot, shoal_arena_t *arena,
                                                        shoal_told_t *out_told);
// The same for a decision of the intent, or what comes of there being none: by and reason.
void shoal_reason_by(const shoal_intent_decision_t *decided, const char *otherwise,
                     shoal_told_t *out_told);
void shoal_reason_of(const shoal_plan_t *plan, shoal_decide_t kind, const char *name,
                     const char *otherwise, shoal_told_t *out_told);
// The same for when an output is gathered.
void shoal_reason_of_fetch(const shoal_plan_t *plan, const shoal_graph_plan_t *gp, int64_t output,
                           shoal_told_t *out_told);
// Bytes that bringing a value from one layout to another moves, as completion counts them.
double shoal_reason_cost(const shoal_layout_t *have, const shoal_layout_t *need,
                         const shoal_type_t *type);
// "4.0 MiB".
typedef struct shoal_bytes_text {
  char text[24];
} shoal_bytes_text_t;
const char *shoal_bytes_format(double bytes, shoal_bytes_text_t *buffer);

// borders.c: what crosses the borders of a graph's stages, and what several of them read.
SHOAL_MUST_USE shoal_status_t shoal_explain_borders(const shoal_plan_t *plan,
                                                    const shoal_graph_plan_t *gp,
                                                    shoal_arena_t *arena, shoal_text_t *text);

// explain.c: the same for a composite node, all its axes, with its name unless all is said.
SHOAL_MUST_USE shoal_status_t shoal_explain_composite(const shoal_plan_t *plan,
                                                      const shoal_composite_t *composite, bool all,
                                                      shoal_arena_t *arena, shoal_text_t *text);
// A node's way along an axis with its reason, as lines; all: also what goes without
// saying.
SHOAL_MUST_USE shoal_status_t shoal_explain_way(const shoal_plan_t *plan,
                                                const shoal_graph_plan_t *gp, int64_t node,
                                                int32_t slot, bool all, shoal_arena_t *arena,
                                                shoal_text_t *text);

// The words of a `sync` decision that says the same; "last" where nothing was said.
SHOAL_MUST_USE shoal_status_t shoal_sync_print(const shoal_sync_t *sync, shoal_arena_t *arena,
                                               const char **out_text);

static inline const char *shoal_slot_name(const shoal_mesh_t *mesh, int32_t slot) {
  return slot == 0 ? "micro" : mesh->axes[slot - 1].name;
}
static inline int64_t shoal_slot_size(const shoal_plan_t *plan, const shoal_mesh_t *mesh,
                                      int32_t slot) {
  return slot == 0 ? plan->micro : mesh->axes[slot - 1].size;
}

#endif  // SHOAL_PLAN_RESOLVED_H_

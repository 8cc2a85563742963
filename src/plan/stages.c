// See stages.h. Forward nodes go to the first stage that has what they read; gradients to the stage
// of their forward node, or an earlier one if that is where what they read comes from: backward
// runs from the last stage to the first.
#include <string.h>

#include "base/status.h"
#include "plan/schedule.h"
#include "plan/stages.h"

typedef struct staging {
  const shoal_graph_plan_t *gp;
  const shoal_graph_t *graph;
  shoal_stages_t *out;
  bool *fed, *backward;  // by node: depends on an input of the graph; on a gradient
  int32_t *depth, *via;  // by forward node: how often its values have changed mesh, and the node
                         // that says so (-1: none)
} staging_t;

static int32_t mesh_of(const staging_t *s, int32_t node) {
  return s->gp->nodes[node].mesh;
}

// The node that makes input i of a node; -1: none.
static int32_t maker_of(const staging_t *s, int32_t node, int32_t i) {
  const shoal_value_info_t *value = &s->graph->values.items[s->graph->nodes.items[node].inputs[i]];
  return value->source == SHOAL_FROM_NODE ? value->node : -1;
}

static int32_t at_least(const shoal_stages_t *stages, int32_t least, int32_t mesh) {
  for (int32_t k = least; k < stages->count; ++k)
    if (stages->meshes[k] == mesh) return k;
  return SHOAL_STAGE_NONE;
}

int32_t shoal_stages_at_most(const shoal_stages_t *stages, int32_t most, int32_t mesh) {
  for (int32_t k = most; k >= 0; --k)
    if (stages->meshes[k] == mesh) return k;
  return SHOAL_STAGE_NONE;
}

static void follow(staging_t *s, int32_t n) {
  const shoal_node_t *node = &s->graph->nodes.items[n];
  s->via[n] = -1;
  s->backward[n] = shoal_node_is_gradient(node);
  for (int32_t i = 0; i < node->input_count; ++i) {
    const int32_t maker = maker_of(s, n, i);
    const bool input = s->graph->values.items[node->inputs[i]].source == SHOAL_FROM_INPUT;
    s->fed[n] |= input || (maker >= 0 && s->fed[maker]);
    s->backward[n] |= maker >= 0 && s->backward[maker];
    if (maker < 0 || !s->fed[maker] || s->backward[maker]) continue;
    const int32_t depth = s->depth[maker] + (mesh_of(s, maker) != mesh_of(s, n));
    if (s->via[n] >= 0 && depth <= s->depth[n]) continue;
    s->depth[n] = depth;
    s->via[n] = maker;
  }
}

// The meshes that the longest way forward passes, one after the other.
static shoal_status_t find_meshes(staging_t *s, shoal_arena_t *arena) {
  int32_t last = -1;
  for (int32_t n = 0; n < s->graph->nodes.count; ++n)
    if (s->fed[n] && !s->backward[n] && (last < 0 || s->depth[n] > s->depth[last])) last = n;
  s->out->count = last < 0 ? 0 : s->depth[last] + 1;
  s->out->meshes = SHOAL_NEW(arena, int32_t, s->out->count);
  if (!s->out->meshes) return SHOAL_OOM();
  for (int32_t n = last; n >= 0; n = s->via[n]) s->out->meshes[s->depth[n]] = mesh_of(s, n);
  return NULL;
}

// ---- forward ---------------------------------------------------------------------------

static void place_forward(staging_t *s, int32_t n) {
  int32_t least = 0;
  for (int32_t i = 0; i < s->graph->nodes.items[n].input_count; ++i) {
    const int32_t maker = maker_of(s, n, i);
    const int32_t stage = maker < 0 ? SHOAL_STAGE_ANY : s->out->of_node[maker];
    if (stage == SHOAL_STAGE_ANY) continue;
    if (stage == SHOAL_STAGE_NONE) {
      s->out->of_node[n] = SHOAL_STAGE_NONE;
      return;
    }
    const int32_t after = stage + (mesh_of(s, maker) != mesh_of(s, n));
    if (after > least) least = after;
  }
  s->out->of_node[n] = at_least(s->out, least, mesh_of(s, n));
}

// What reads inputs of the graph alone (a cast of the labels) waits for the stage that needs it.
static shoal_status_t place_late(staging_t *s, shoal_arena_t *scratch) {
  int32_t *latest = SHOAL_NEW(scratch, int32_t, s->graph->nodes.count);
  if (!latest) return SHOAL_OOM();
  for (int32_t n = 0; n < s->graph->nodes.count; ++n) latest[n] = INT32_MAX;
  for (int32_t n = (int32_t)s->graph->nodes.count; n-- > 0;) {
    if (s->backward[n] || s->out->of_node[n] < 0) continue;
    if (s->depth[n] == 0 && latest[n] != INT32_MAX && latest[n] > s->out->of_node[n])
      s->out->of_node[n] = latest[n];
    for (int32_t i = 0; i < s->graph->nodes.items[n].input_count; ++i) {
      const int32_t maker = maker_of(s, n, i);
      if (maker < 0) continue;
      const bool moves = mesh_of(s, maker) != mesh_of(s, n);
      const int32_t stage =
          shoal_stages_at_most(s->out, s->out->of_node[n] - moves, mesh_of(s, maker));
      if (stage < latest[maker]) latest[maker] = stage;
    }
  }
  return NULL;
}

// ---- backward --------------------------------------------------------------------------

static void place_backward(staging_t *s, int32_t n) {
  const shoal_node_t *node = &s->graph->nodes.items[n];
  int32_t most = s->out->count - 1;
  if (node->of >= 0 && s->out->of_node[node->of] >= 0) most = s->out->of_node[node->of];
  for (int32_t i = 0; i < node->input_count; ++i) {
    const int32_t maker = maker_of(s, n, i);
    if (maker < 0 || !s->backward[maker]) continue;
    if (s->out->of_node[maker] < 0) continue;
    const int32_t before = s->out->of_node[maker] - (mesh_of(s, maker) != mesh_of(s, n));
    if (before < most) most = before;
  }
  s->out->of_node[n] = shoal_stages_at_most(s->out, most, mesh_of(s, n));
}

// W of one stage is not ordered against any work of another one, and B not behind W: a weight
// gradient that such work reads, as that of a weight which two stages use, is B.
static void choose_works(staging_t *s) {
  for (int32_t n = (int32_t)s->graph->nodes.count; n-- > 0;) {
    const shoal_node_t *node = &s->graph->nodes.items[n];
    shoal_work_t *work = &s->out->works[n];
    if (!s->backward[n]) continue;
    if (node->kind == SHOAL_NODE_INPUT_GRADIENT) *work = SHOAL_WORK_BACKWARD;
    if (*work != SHOAL_WORK_BACKWARD) *work = SHOAL_WORK_WEIGHT;
    if (node->kind == SHOAL_NODE_UPDATE) continue;
    for (int32_t i = 0; i < node->input_count; ++i) {
      const int32_t maker = maker_of(s, n, i);
      if (maker < 0 || !s->backward[maker]) continue;
      if (*work == SHOAL_WORK_BACKWARD || s->out->of_node[maker] != s->out->of_node[n])
        s->out->works[maker] = SHOAL_WORK_BACKWARD;
    }
  }
}

static shoal_status_t place_all(staging_t *s, shoal_arena_t *arena, shoal_arena_t *scratch) {
  const int32_t count = (int32_t)s->graph->nodes.count;
  for (int32_t n = 0; n < count; ++n) follow(s, n);
  SHOAL_RETURN_IF_ERROR(find_meshes(s, arena));
  for (int32_t n = 0; n < count; ++n) {
    s->out->of_node[n] = SHOAL_STAGE_ANY;
    if (s->fed[n] && !s->backward[n]) place_forward(s, n);
  }
  SHOAL_RETURN_IF_ERROR(place_late(s, scratch));
  for (int32_t n = 0; n < count; ++n)
    if (s->backward[n]) place_backward(s, n);
  choose_works(s);
  return NULL;
}

shoal_status_t shoal_plan_stages(const shoal_graph_plan_t *gp, shoal_arena_t *arena,
                                 shoal_stages_t *out_stages) {
  const int64_t count = gp->graph->nodes.count;
  shoal_arena_t scratch;
  shoal_arena_init(shoal_allocator_system(), &scratch);
  staging_t s = {.gp = gp,
                 .graph = gp->graph,
                 .out = out_stages,
                 .fed = SHOAL_NEW(&scratch, bool, count),
                 .backward = SHOAL_NEW(&scratch, bool, count),
                 .depth = SHOAL_NEW(&scratch, int32_t, count),
                 .via = SHOAL_NEW(&scratch, int32_t, count)};
  *out_stages = (shoal_stages_t){.of_node = SHOAL_NEW(arena, int32_t, count),
                                 .works = SHOAL_NEW(arena, shoal_work_t, count)};
  const bool room =
      s.fed && s.backward && s.depth && s.via && out_stages->of_node && out_stages->works;
  shoal_status_t status = room ? place_all(&s, arena, &scratch) : SHOAL_OOM();
  shoal_arena_deinit(&scratch);
  return status;
}

shoal_status_t shoal_plan_several_stages(const shoal_graph_plan_t *gp, shoal_arena_t *arena,
                                         const int32_t **out_stages) {
  shoal_stages_t stages = {0};
  if (gp->schedule && gp->schedule->stage_count > gp->schedule->mesh_count)
    SHOAL_RETURN_IF_ERROR(shoal_plan_stages(gp, arena, &stages));
  *out_stages = stages.of_node;
  return NULL;
}

// ---- the schedule of a graph -----------------------------------------------------------

// The meshes that have stages, in the order of their first.
static shoal_status_t make_pipeline(const shoal_plan_t *plan, const shoal_stages_t *stages,
                                    shoal_arena_t *arena, shoal_pipeline_t *out) {
  int32_t *numbers = SHOAL_NEW(arena, int32_t, plan->mesh_count);  // plus 1; 0: no stage
  int32_t *of_stage = SHOAL_NEW(arena, int32_t, stages->count);
  const char **names = SHOAL_NEW(arena, const char *, plan->mesh_count);
  if (!numbers || !of_stage || !names) return SHOAL_OOM();
  *out = (shoal_pipeline_t){.stage_count = stages->count,
                            .micro = (int32_t)plan->micro,
                            .meshes = names,
                            .stage_meshes = of_stage};
  for (int32_t k = 0; k < stages->count; ++k) {
    int32_t *number = &numbers[stages->meshes[k]];
    if (*number == 0) {
      names[out->mesh_count++] = plan->meshes[stages->meshes[k]].name;
      *number = out->mesh_count;
    }
    of_stage[k] = *number - 1;
  }
  return NULL;
}

shoal_status_t shoal_plan_schedule(shoal_plan_t *plan, shoal_graph_plan_t *gp, const char *choice) {
  shoal_stages_t stages;
  shoal_pipeline_t pipeline;
  const bool table = strncmp(choice, "table", 5) == 0;
  SHOAL_RETURN_IF_ERROR(shoal_plan_stages(gp, &plan->arena, &stages));
  if (stages.count == 0) return NULL;  // as the graph that sets the states up
  if (stages.count == 1 && plan->micro == 1 && !table)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                            "stages come from strategy pipeline, --mesh pipe=2,micro=4",
                            "the graph '%s' has one stage and one batch, which leave nothing to "
                            "schedule",
                            gp->graph->name);
  SHOAL_RETURN_IF_ERROR(make_pipeline(plan, &stages, &plan->arena, &pipeline));
  if (!table) return shoal_schedule_create(choice, &pipeline, &plan->arena, &gp->schedule);
  SHOAL_RETURN_IF_ERROR(shoal_schedule_parse("table", choice + 5, &plan->arena, &gp->schedule));
  SHOAL_RETURN_IF_ERROR(shoal_schedule_check(gp->schedule));
  return shoal_schedule_fits(gp->schedule, &pipeline);
}

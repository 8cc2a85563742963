// What the passes of lowering start from: the meshes of the program, and the places of its states.
#include <string.h>

#include "base/status.h"
#include "lower/build.h"

static bool covers_world(const shoal_mesh_t *mesh, int32_t world) {
  if (shoal_mesh_size(mesh) != world) return false;
  for (int32_t r = 0; r < world; ++r)
    if (shoal_mesh_rank(mesh, r) != r) return false;
  return true;
}

// Are the plan's meshes alike, and do they take the ranks of the world one after the other, as
// stages of one size do?
static bool are_stages(const shoal_plan_t *plan) {
  const shoal_mesh_t *first = &plan->meshes[0];
  const int64_t size = shoal_mesh_size(first);
  if (size * plan->mesh_count != plan->world || first->axis_count == SHOAL_MAX_AXES ||
      shoal_mesh_axis(first, "all") >= 0)
    return false;
  for (int64_t m = 0; m < plan->mesh_count; ++m) {
    const shoal_mesh_t *mesh = &plan->meshes[m];
    if (mesh->axis_count != first->axis_count) return false;
    for (int32_t a = 0; a < mesh->axis_count; ++a)
      if (mesh->axes[a].size != first->axes[a].size ||
          strcmp(mesh->axes[a].name, first->axes[a].name) != 0)
        return false;
    if (shoal_mesh_rank(mesh, 0) != m * size || !shoal_mesh_is_consecutive(mesh)) return false;
  }
  return true;
}

// A mesh of all ranks. Of equal stages it has their axes behind one along them: then who sends what
// to whom follows from coordinates.
static void make_world(const build_t *b, shoal_mesh_t *mesh) {
  const shoal_plan_t *plan = b->plan;
  *mesh = (shoal_mesh_t){.name = "world", .axis_count = 1, .micro = plan->meshes[0].micro};
  mesh->axes[0] = (shoal_axis_t){.name = "all", .size = plan->world};
  if (!are_stages(plan)) return;
  mesh->axes[0].size = plan->mesh_count;
  for (int32_t a = 0; a < plan->meshes[0].axis_count; ++a)
    mesh->axes[mesh->axis_count++] = plan->meshes[0].axes[a];
}

// Copies the plan's meshes and makes sure that one of them has all ranks: outputs go there.
static shoal_status_t copy_meshes(build_t *b) {
  const shoal_plan_t *plan = b->plan;
  shoal_program_t *program = b->program;
  program->meshes = b->meshes = SHOAL_NEW(b->arena, shoal_mesh_t, plan->mesh_count + 1);
  if (!b->meshes) return SHOAL_OOM();
  for (int64_t i = 0; i < plan->mesh_count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_mesh_copy(&plan->meshes[i], b->arena, &b->meshes[i]));
    if (!b->world && covers_world(&b->meshes[i], plan->world)) b->world = &b->meshes[i];
  }
  program->mesh_count = plan->mesh_count;
  if (!b->world) {
    shoal_mesh_t *mesh = &b->meshes[program->mesh_count++];
    make_world(b, mesh);
    for (int64_t i = 0; i < plan->mesh_count; ++i)
      if (strcmp(b->meshes[i].name, mesh->name) == 0)
        return SHOAL_ERROR(INVALID_ARGUMENT,
                           "'world' is the name of the mesh of all ranks; call '%s' "
                           "something else",
                           mesh->name);
    b->world = mesh;
  }
  return NULL;
}

// Which meshes share a rank.
static shoal_status_t compare_meshes(build_t *b) {
  int64_t count = b->program->mesh_count;
  bool *overlap = SHOAL_NEW(b->arena, bool, count *count);
  if (!overlap) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i)
    for (int64_t k = 0; k <= i; ++k)
      overlap[i * count + k] = overlap[k * count + i] =
          i == k || shoal_mesh_overlap(&b->meshes[i], &b->meshes[k]);
  b->overlap = overlap;
  return NULL;
}

static shoal_status_t copy_states(build_t *b) {
  const shoal_model_t *model = b->plan->model;
  shoal_program_t *program = b->program;
  program->state_count = model->states.count;
  const int64_t count = model->states.count + shoal_lower_kept_count(b);
  program->states = SHOAL_NEW(b->arena, shoal_program_state_t, count);
  b->state_homes = SHOAL_NEW(b->arena, int32_t, count);
  if (!program->states || !b->state_homes) return SHOAL_OOM();
  for (int64_t s = 0; s < model->states.count; ++s) {
    const shoal_state_info_t *state = &model->states.items[s];
    const shoal_layout_t *layout = NULL;
    SHOAL_RETURN_IF_ERROR(shoal_lower_layout(b, b->plan->states[s], &layout));
    char *name = shoal_arena_strdup(b->arena, state->name);
    if (!name) return SHOAL_OOM();
    program->states[s] = (shoal_program_state_t){
        .name = name, .type = state->type, .layout = layout, .saved = !state->options.not_saved};
    const instance_t home = {.name = name,
                             .kind = SHOAL_BUFFER_STATE,
                             .state = (int32_t)s,
                             .value = -1,
                             .type = state->type,
                             .layout = layout,
                             .memory = b->plan->memories[s],
                             .next_copy = -1,
                             .phase = PHASE_BEFORE};
    SHOAL_RETURN_IF_ERROR(shoal_lower_new_instance(b, home, &b->state_homes[s]));
  }
  return NULL;
}

shoal_status_t shoal_lower_setup(build_t *b) {
  const shoal_model_t *model = b->plan->model;
  SHOAL_RETURN_IF_ERROR(copy_meshes(b));
  SHOAL_RETURN_IF_ERROR(compare_meshes(b));
  SHOAL_RETURN_IF_ERROR(copy_states(b));
  b->graph_count = model->graphs.count;
  b->graphs = SHOAL_NEW(b->arena, graph_build_t, b->graph_count);
  if (!b->graphs) return SHOAL_OOM();
  for (int64_t g = 0; g < b->graph_count; ++g) {
    graph_build_t *graph = &b->graphs[g];
    graph->gp = &b->plan->graphs[g];
    graph->graph = graph->gp->graph;
    graph->name = shoal_arena_strdup(b->arena, graph->graph->name);
    if (!graph->name) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(shoal_lower_keep_outputs(b, graph));
  }
  return NULL;
}

// Making a plan from an intent: meshes, composite nodes, stages, and then what the other files of
// this folder do: intent.c, names.c, place.c, resolve.c, and complete.c for the ways of nodes.
#include <string.h>

#include "base/status.h"
#include "plan/complete.h"
#include "plan/composite.h"
#include "plan/sparse.h"
#include "plan/summands.h"

// Parses the meshes; checks them against the world and each other.
static shoal_status_t make_meshes(shoal_plan_t *plan) {
  const shoal_intent_t *intent = &plan->intent;
  if (intent->mesh_count < 1)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "add \"meshes\": [\"data=2\"]",
                            "the plan has no mesh");
  plan->meshes = SHOAL_NEW(&plan->arena, shoal_mesh_t, intent->mesh_count);
  if (!plan->meshes) return SHOAL_OOM();
  plan->mesh_count = intent->mesh_count;
  plan->micro = 1;
  for (int64_t i = 0; i < plan->mesh_count; ++i) {
    shoal_mesh_t *mesh = &plan->meshes[i];
    SHOAL_RETURN_IF_ERROR(shoal_mesh_parse(intent->meshes[i], &plan->arena, mesh));
    int64_t micro = mesh->micro > 1 ? mesh->micro : 1;
    if (i == 0) plan->micro = micro;
    if (micro > SHOAL_PLAN_MAX_MICRO)
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "use fewer micro-batches",
                              "mesh '%s' has %lld micro-batches; %d are the most",
                              intent->meshes[i], (long long)micro, SHOAL_PLAN_MAX_MICRO);
    if (micro != plan->micro)
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give every mesh the same micro=n",
                              "meshes '%s' and '%s' differ in micro-batches", intent->meshes[0],
                              intent->meshes[i]);
    if (i > 0 && !mesh->name[0])
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "put a name before it: \"b!data=3@2-4\"",
                              "mesh '%s' is not the first and has no name", intent->meshes[i]);
    for (int64_t j = 0; j < i; ++j)
      if (strcmp(plan->meshes[j].name, mesh->name) == 0)
        return SHOAL_ERROR(INVALID_ARGUMENT, "two meshes are called '%s'", mesh->name);
    int64_t size = shoal_mesh_size(mesh);
    if (plan->mesh_count == 1 && !mesh->ranks && size != plan->world)
      return SHOAL_ERROR_HINT(
          INVALID_ARGUMENT,
          "make the product of the axes equal the number of ranks, or list ranks "
          "with @",
          "mesh '%s' has %lld ranks, the world has %d", intent->meshes[i], (long long)size,
          plan->world);
    for (int64_t p = 0; p < size; ++p)
      if (shoal_mesh_rank(mesh, p) >= plan->world)
        return SHOAL_ERROR(INVALID_ARGUMENT, "mesh '%s' names rank %d, the world has %d ranks",
                           intent->meshes[i], shoal_mesh_rank(mesh, p), plan->world);
  }
  return NULL;
}

int32_t shoal_plan_find_mesh(const shoal_plan_t *plan, const char *name) {
  for (int64_t i = 0; i < plan->mesh_count; ++i)
    if (strcmp(plan->meshes[i].name, name) == 0) return (int32_t)i;
  return -1;
}

// The mesh a node is told to run on, or -1. A gradient that no stage names follows its forward
// node. `meshes`: of the nodes before it.
static int32_t stage_of(const shoal_plan_t *plan, const shoal_graph_plan_t *gp, int64_t n,
                        const int32_t *meshes) {
  const shoal_node_t *node = &gp->graph->nodes.items[n];
  if (plan->patterns[SHOAL_DECIDE_STAGE].count == 0) return -1;
  const shoal_intent_decision_t *entry = shoal_plan_decided_node(plan, SHOAL_DECIDE_STAGE, gp, n);
  if (entry) return shoal_plan_find_mesh(plan, entry->choice);
  return node->of >= 0 ? meshes[node->of] : -1;
}

static shoal_status_t build(shoal_plan_t *plan, bool *const *phased) {
  SHOAL_RETURN_IF_ERROR(make_meshes(plan));
  SHOAL_RETURN_IF_ERROR(shoal_plan_count_summands(plan));
  SHOAL_RETURN_IF_ERROR(shoal_plan_sort_ways(plan));
  SHOAL_RETURN_IF_ERROR(shoal_composites_expand(plan, phased));
  SHOAL_RETURN_IF_ERROR(shoal_intent_check(plan));
  const shoal_model_t *model = plan->model;
  plan->graphs = SHOAL_NEW(&plan->arena, shoal_graph_plan_t, model->graphs.count);
  int32_t **meshes = SHOAL_NEW(&plan->arena, int32_t *, model->graphs.count);
  if (!plan->graphs || !meshes) return SHOAL_OOM();
  for (int64_t g = 0; g < model->graphs.count; ++g) {
    const shoal_graph_t *graph = plan->graphs[g].graph = model->graphs.items[g];
    SHOAL_RETURN_IF_ERROR(shoal_composites_own(plan, g));
    meshes[g] = SHOAL_NEW(&plan->arena, int32_t, graph->nodes.count);
    if (!meshes[g]) return SHOAL_OOM();
    for (int64_t n = 0; n < graph->nodes.count; ++n)
      meshes[g][n] = stage_of(plan, &plan->graphs[g], n, meshes[g]);
  }
  SHOAL_RETURN_IF_ERROR(shoal_plan_place_states(plan, meshes));
  for (int64_t g = 0; g < model->graphs.count; ++g) {
    shoal_graph_plan_t *gp = &plan->graphs[g];
    const shoal_graph_t *graph = gp->graph;
    gp->nodes = SHOAL_NEW(&plan->arena, shoal_node_plan_t, graph->nodes.count);
    gp->values = SHOAL_NEW(&plan->arena, const shoal_layout_t *, graph->values.count);
    if (!gp->nodes || !gp->values) return SHOAL_OOM();
    shoal_plan_spread_meshes(plan, graph, meshes[g]);
    for (int64_t n = 0; n < graph->nodes.count; ++n) gp->nodes[n].mesh = meshes[g][n];
    SHOAL_RETURN_IF_ERROR(shoal_plan_index_constraints(plan, gp));
    SHOAL_RETURN_IF_ERROR(shoal_plan_place_inputs(plan, gp));
    for (int64_t v = 0; v < graph->values.count; ++v)
      if (graph->values.items[v].source == SHOAL_FROM_STATE)
        gp->values[v] = plan->states[graph->values.items[v].index];
  }
  return shoal_plan_resolve(plan);
}

shoal_status_t shoal_plan_prepare(const shoal_model_t *model, shoal_rules_t *rules,
                                  const shoal_intent_t *intent, int32_t world,
                                  shoal_allocator_t allocator, bool *const *phased,
                                  shoal_plan_t **out_plan) {
  *out_plan = NULL;
  if (!allocator.alloc) allocator = shoal_allocator_system();
  SHOAL_RETURN_IF_ERROR(shoal_model_status(model));
  shoal_plan_t *plan = allocator.alloc(allocator.self, sizeof *plan);
  if (!plan) return SHOAL_OOM();
  *plan = (shoal_plan_t){.allocator = allocator,
                         .given = model,
                         .original = model,
                         .model = model,
                         .rules = rules,
                         .world = world};
  shoal_arena_init(allocator, &plan->arena);
  shoal_layouts_init(&plan->arena, &plan->layouts);
  shoal_index_init(&plan->arena, &plan->decision_index);
  shoal_status_t status = shoal_intent_copy(intent, &plan->arena, &plan->intent);
  if (!status) status = shoal_intent_index(plan);
  if (!status) status = build(plan, phased);
  if (status) {
    shoal_plan_free(plan);
    return status;
  }
  *out_plan = plan;
  return NULL;
}

static shoal_status_t complete_graphs(shoal_plan_t *plan) {
  for (int64_t g = 0; g < plan->model->graphs.count; ++g)
    SHOAL_RETURN_IF_ERROR(shoal_plan_complete(plan, &plan->graphs[g]));
  return NULL;
}

// Where completion finds composite ways cheaper, the plan is made once more with them; they depend
// on nothing that comes behind them, so that the second time finds the same.
shoal_status_t shoal_plan_create(const shoal_model_t *model, shoal_rules_t *rules,
                                 const shoal_intent_t *intent, int32_t world,
                                 shoal_allocator_t allocator, shoal_plan_t **out_plan) {
  shoal_plan_t *first = NULL, *plan = NULL;
  shoal_status_t status = shoal_plan_prepare(model, rules, intent, world, allocator, NULL, &plan);
  if (!status) status = complete_graphs(plan);
  if (!status && plan->found > 0) {
    first = plan;
    status = shoal_plan_prepare(model, rules, intent, world, allocator, first->phased, &plan);
    shoal_plan_free(first);
    if (!status) plan->settled = true;
    if (!status) status = complete_graphs(plan);
  }
  if (!status) status = shoal_sparse_settle(plan);
  if (!status) status = shoal_composites_judge(plan);
  if (!status) status = shoal_plan_settle_halos(plan);
  if (!status) status = shoal_plan_check_counts(plan);
  if (!status) status = shoal_plan_check_summands(plan);
  if (status) {
    shoal_plan_free(plan);
    plan = NULL;
  }
  *out_plan = plan;
  return status;
}

void shoal_plan_free(shoal_plan_t *plan) {
  if (!plan) return;
  shoal_allocator_t allocator = plan->allocator;
  shoal_model_free(plan->owned_model);
  shoal_model_free(plan->owned_original);
  shoal_arena_deinit(&plan->arena);
  allocator.free(allocator.self, plan);
}

const shoal_model_t *shoal_plan_model(const shoal_plan_t *plan) {
  return plan->given;
}

const shoal_intent_t *shoal_plan_intent(const shoal_plan_t *plan) {
  return &plan->intent;
}

shoal_status_t shoal_plan_state_layout(const shoal_plan_t *plan, const char *state,
                                       shoal_arena_t *arena, const char **out_text) {
  int32_t index = shoal_model_find_state(plan->model, state);
  if (index < 0) return SHOAL_ERROR(NOT_FOUND, "the model has no state '%s'", state);
  return shoal_layout_print(plan->states[index], arena, out_text);
}

// Strategy `auto`: completes, lowers and simulates every candidate it can enumerate - `data`,
// `tensor` and both on meshes whose product is the world - and takes the one that fits the
// cluster's memory and whose steps, in a row, are the fastest. Where the mesh is given, its axes
// say which strategies there are: all that speak of one. The winner's intent becomes this
// strategy's.
#include <string.h>

#include "base/status.h"
#include "planners/batch.h"
#include "shoal/lower.h"
#include "shoal/simulate.h"

typedef struct candidate {
  const char *strategy, *mesh;
} candidate_t;

// NULL: nothing is described.
static shoal_status_t cluster_of(const shoal_plan_options_t *options,
                                 shoal_cluster_t **out_cluster) {
  *out_cluster = NULL;
  if (!options->cluster) return NULL;
  return shoal_cluster_parse("cluster", options->cluster, options->allocator, out_cluster);
}

// Seconds of the graph that matters: "train", or the first after init.
static shoal_status_t predict(shoal_strategy_context_t *context, const candidate_t *candidate,
                              const shoal_cluster_t *cluster, shoal_plan_t **out_plan,
                              shoal_simulation_t **out_simulation) {
  shoal_plan_options_t options = *context->options;
  options.strategy = candidate->strategy;
  options.mesh = candidate->mesh;
  options.cache = NULL;
  options.cache_note = NULL;
  shoal_program_t *program = NULL;
  shoal_plan_t *plan = NULL;
  shoal_status_t status = shoal_plan_make(context->model, context->rules, &options, &plan);
  if (!status)
    status = shoal_lower(plan, &(shoal_lower_options_t){.allocator = options.allocator}, &program);
  const char *graph = shoal_model_find_graph(context->model, "train") ? "train" : "init";
  const shoal_simulate_options_t simulate = {
      .allocator = options.allocator, .graph = graph, .cluster = cluster};
  *out_simulation = NULL;
  if (!status) status = shoal_simulate(program, &simulate, out_simulation);
  shoal_program_free(program);
  if (status) shoal_plan_free(plan), plan = NULL;
  *out_plan = plan;
  return status;
}

static shoal_status_t list_candidates(shoal_strategy_context_t *context, candidate_t *candidates,
                                      int64_t capacity, int64_t *out_count) {
  const shoal_plan_options_t *options = context->options;
  int64_t count = 0;
  if (options->mesh) {  // the mesh is given: which strategies speak of its axes?
    shoal_mesh_t mesh;
    SHOAL_RETURN_IF_ERROR(shoal_mesh_parse(options->mesh, context->arena, &mesh));
    if (shoal_mesh_axis(&mesh, "data") >= 0)
      candidates[count++] = (candidate_t){"data", options->mesh};
    if (shoal_mesh_axis(&mesh, "tensor") >= 0)
      candidates[count++] = (candidate_t){"tensor", options->mesh};
    const shoal_strategy_t *other = shoal_strategies_of_mesh(options->strategies, &mesh);
    if (count == 0 && !other)  // layouts may speak of them
      SHOAL_RETURN_IF_ERROR(
          shoal_strategies_check_axes(&(shoal_strategy_list_t){0}, options, &mesh, context->arena));
    if (count == 0)
      candidates[count++] = (candidate_t){other ? other->name : "explicit", options->mesh};
  }
  for (int32_t data = options->world; data >= 1 && !options->mesh && count < capacity; --data) {
    if (options->world % data) continue;
    int32_t tensor = options->world / data;
    const char *mesh = tensor == 1 ? shoal_arena_printf(context->arena, "data=%d", data)
                       : data == 1
                           ? shoal_arena_printf(context->arena, "tensor=%d", tensor)
                           : shoal_arena_printf(context->arena, "data=%d,tensor=%d", data, tensor);
    if (!mesh) return SHOAL_OOM();
    candidates[count++] = (candidate_t){tensor == 1 ? "data" : "tensor", mesh};
  }
  *out_count = count;
  return NULL;
}

static shoal_status_t adopt(shoal_strategy_context_t *context, const shoal_intent_t *intent) {
  // options->layouts and decisions are added by shoal_plan_make again: here only what the strategy
  // itself said.
  for (int64_t i = 0; i < intent->mesh_count; ++i)
    SHOAL_RETURN_IF_ERROR(shoal_context_mesh(context, intent->meshes[i]));
  for (int64_t i = 0; i < intent->layout_count - context->options->layout_count; ++i)
    SHOAL_RETURN_IF_ERROR(
        shoal_context_layout(context, intent->layouts[i].pattern, intent->layouts[i].value));
  for (int64_t i = 0; i < intent->stage_count; ++i)
    SHOAL_RETURN_IF_ERROR(
        shoal_context_stage(context, intent->stages[i].pattern, intent->stages[i].value));
  for (int64_t i = 0; i < intent->expand_count; ++i)
    SHOAL_RETURN_IF_ERROR(shoal_context_expand(context, intent->expand[i]));
  for (int64_t i = 0; i < intent->decision_count - context->options->decision_count; ++i) {
    const shoal_intent_decision_t *d = &intent->decisions[i];
    SHOAL_RETURN_IF_ERROR(shoal_context_decide(context, d->kind, d->pattern, d->choice, d->reason));
  }
  return NULL;
}

static shoal_status_t choose(shoal_strategy_context_t *context, const shoal_cluster_t *cluster) {
  candidate_t candidates[64];
  int64_t count = 0;
  SHOAL_RETURN_IF_ERROR(list_candidates(context, candidates, 64, &count));
  shoal_plan_t *best = NULL;
  double best_seconds = 0;
  bool too_large = false;
  shoal_status_t status = NULL, refusal = NULL;
  for (int64_t i = 0; i < count && !status; ++i) {
    shoal_plan_t *plan = NULL;
    shoal_simulation_t *simulation;
    status = predict(context, &candidates[i], cluster, &plan, &simulation);
    if (status &&
        shoal_status_code(status) == SHOAL_UNSUPPORTED) {  // a refused candidate is no failure
      shoal_status_free(refusal);
      refusal = status;
      status = NULL;
      continue;
    }
    if (status) break;
    too_large |= !simulation->fits;
    if (simulation->fits && (!best || simulation->step_seconds < best_seconds)) {
      shoal_plan_free(best);
      best = plan;
      best_seconds = simulation->step_seconds;
    } else {
      shoal_plan_free(plan);
    }
    shoal_simulation_free(simulation);
  }
  if (!status && !best && refusal) status = refusal, refusal = NULL;
  if (!status && !best)
    status = SHOAL_ERROR_HINT(UNSUPPORTED, "use more ranks or a smaller batch",
                              too_large ? "no plan fits the device's memory" : "no plan was found");
  if (!status) status = adopt(context, &best->intent);
  shoal_status_free(refusal);
  shoal_plan_free(best);
  return status;
}

shoal_status_t shoal_strategy_auto(shoal_strategy_context_t *context, void *user_data) {
  (void)user_data;
  shoal_cluster_t *cluster;
  SHOAL_RETURN_IF_ERROR(cluster_of(context->options, &cluster));
  shoal_status_t status = choose(context, cluster ? cluster : shoal_cluster_default());
  shoal_cluster_free(cluster);
  return status;
}

// The public call: a user's model and options, brought into the form the check takes.
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "graph/graph.h"
#include "op/type.h"
#include "prove/prove.h"
#include "shoal/cluster.h"

// A name that no graph has, or data of another size, would leave the input random without a word.
static shoal_status_t check_feed(const shoal_model_t *model, const shoal_check_feed_t *feed) {
  if (!feed->name) return SHOAL_ERROR(INVALID_ARGUMENT, "a feed has no name");
  const shoal_type_t *found = NULL;
  for (int64_t g = 0; g < model->graphs.count; ++g) {
    const shoal_graph_t *graph = model->graphs.items[g];
    for (int64_t i = 0; i < graph->inputs.count; ++i) {
      if (strcmp(graph->inputs.items[i].name, feed->name) != 0) continue;
      found = &graph->values.items[graph->inputs.items[i].value].type;
      int64_t bytes = 0;
      SHOAL_RETURN_IF_ERROR(
          shoal_dtype_bytes(found->dtype, shoal_shape_count(&found->shape), &bytes));
      if (!feed->data || (int64_t)feed->size == bytes) return NULL;
    }
  }
  if (!found) return SHOAL_ERROR(NOT_FOUND, "no graph has an input '%s'", feed->name);
  char is[SHOAL_TYPE_SIZE];
  return SHOAL_ERROR(INVALID_ARGUMENT, "input '%s' is %s; %lld bytes were given", feed->name,
                     shoal_type_format(found, is, sizeof is), (long long)feed->size);
}

static shoal_status_t check_options(const shoal_model_t *model,
                                    const shoal_parallelize_options_t *options,
                                    const shoal_check_how_t *how) {
  if (!model) return SHOAL_ERROR(INVALID_ARGUMENT, "there is no model: the pointer is NULL");
  if (options->tap || options->dry_run)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "leave .tap and .dry_run zero",
                            "a check taps the values of its ranks and runs them");
  if (options->world && how->ranks && how->ranks != shoal_world_size(options->world))
    return SHOAL_ERROR(INVALID_ARGUMENT, "%d ranks in a world of %d", how->ranks,
                       shoal_world_size(options->world));
  if (how->ranks < 0 || how->steps < 0)
    return SHOAL_ERROR(INVALID_ARGUMENT, "%d ranks and %lld steps: neither is negative", how->ranks,
                       (long long)how->steps);
  SHOAL_RETURN_IF_ERROR(shoal_model_status(model));
  for (int64_t i = 0; i < how->feed_count; ++i)
    SHOAL_RETURN_IF_ERROR(check_feed(model, &how->feeds[i]));
  return NULL;
}

shoal_status_t shoal_check(const shoal_model_t *model, const shoal_parallelize_options_t *options,
                           const shoal_check_how_t *how, shoal_check_report_t *out_report) {
  const shoal_parallelize_options_t no_options = {0};
  const shoal_check_how_t no_how = {0};
  shoal_check_report_t unused;
  if (!options) options = &no_options;
  if (!how) how = &no_how;
  if (!out_report) out_report = &unused;
  *out_report = (shoal_check_report_t){0};
  SHOAL_RETURN_IF_ERROR(check_options(model, options, how));
  shoal_check_options_t check = {
      .allocator = options->allocator.alloc ? options->allocator : shoal_allocator_system(),
      .ranks = options->world ? shoal_world_size(options->world)
               : how->ranks   ? how->ranks
                              : 2,
      .world = options->world,
      .processes = how->processes,
      .direct = how->direct,
      .line = how->line,
      .line_self = how->line_self,
      .plan = options->plan,
      .strategy = options->strategy,
      .mesh = options->mesh,
      .strategies = options->strategies,
      .layout_count = options->layout_count,
      .layouts = options->layouts,
      .steps = how->steps,
      .offload_dir = options->offload_dir,
      .memory = options->memory,
      .opaque = options->opaque,
      .provider = options->provider,
      .provider_self = options->provider_self,
      .seed = how->seed,
      .timeout_ms = how->timeout_ms,
      .feed_count = how->feed_count,
      .feeds = how->feeds};
  shoal_arena_t arena;
  shoal_arena_init(check.allocator, &arena);
  shoal_status_t status = NULL;
  shoal_cluster_t *cluster = NULL;
  if (options->cluster) status = shoal_cluster_read(options->cluster, check.allocator, &cluster);
  if (cluster) status = shoal_cluster_print(cluster, &arena, &check.cluster);
  shoal_cluster_free(cluster);
  if (!status)
    status =
        shoal_choices_decide(model, &options->choices, options->decision_count, options->decisions,
                             &arena, &check.decision_count, &check.decisions);
  if (!status) status = shoal_check_model(model, &check, out_report);
  shoal_arena_deinit(&arena);
  return status;
}

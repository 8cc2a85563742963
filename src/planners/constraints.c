// What shoal_constrain says of inputs and states of a model, as layouts of the intent: behind what
// strategies say, and in front of what people do. Completion reads what it says of computed values
// in their nodes (plan/constrain.c); here these win over a strategy that speaks of them.
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "op/attrs.h"
#include "planners/planners.h"

// Does the layout hold on one of the plan's meshes? Else what is wrong with it on the first.
static shoal_status_t check(const shoal_strategy_context_t *context, const char *text,
                            const shoal_shape_t *shape) {
  shoal_status_t first = NULL;
  for (int64_t m = 0; m < context->meshes.count; ++m) {
    shoal_mesh_t mesh;
    shoal_layout_t layout;
    SHOAL_RETURN_IF_ERROR(shoal_mesh_parse(context->meshes.items[m], context->arena, &mesh));
    shoal_status_t status = shoal_layout_parse(text, &mesh, 1, context->arena, &layout);
    if (!status) status = shoal_layout_check(&layout, shape);
    if (!status) {
      shoal_status_free(first);
      return NULL;
    }
    if (first)
      shoal_status_free(status);
    else
      first = status;
  }
  return first;
}

// States are the same in all graphs, and so must be what these say of one.
static shoal_status_t check_state(const shoal_model_t *model, const shoal_constraint_t *said,
                                  int32_t state) {
  for (int64_t g = 0; g < model->graphs.count; ++g) {
    const shoal_graph_t *graph = model->graphs.items[g];
    for (int64_t i = 0; i < graph->constraints.count; ++i) {
      const shoal_constraint_t *other = &graph->constraints.items[i];
      const shoal_value_info_t *value = &graph->values.items[other->value];
      if (value->source != SHOAL_FROM_STATE || value->index != state ||
          strcmp(other->layout, said->layout) == 0)
        continue;
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "a state rests in one layout: say the same in both",
                              "'%s' is constrained to '%s' at %s:%d and to '%s' at %s:%d",
                              value->name, other->layout, other->file, other->line, said->layout,
                              said->file, said->line);
    }
  }
  return NULL;
}

// Does a person speak of the name, in the list of layouts that comes in front of decisions?
static bool is_overruled(const shoal_plan_options_t *options, const char *name) {
  bool found = false;
  for (int64_t i = 0; i < options->layout_count && !found; ++i)
    found = shoal_pattern_match(options->layouts[i].pattern, name);
  return found;
}

static shoal_status_t say(shoal_strategy_context_t *context, const char *pattern, const char *name,
                          const char *layout) {
  if (is_overruled(context->options, pattern) || is_overruled(context->options, name))
    return shoal_context_layout(context, pattern, layout);
  const char *reason = shoal_arena_printf(context->arena, "shoal_constrain asks for %s",
                                          layout[0] ? layout : "the whole on every rank");
  if (!reason) return SHOAL_OOM();
  return shoal_context_add_decision(
      context, &(shoal_intent_decision_t){"layout", pattern, layout, "model", reason});
}

static shoal_status_t constrain(shoal_strategy_context_t *context, const shoal_graph_t *graph,
                                const shoal_constraint_t *said) {
  const shoal_value_info_t *value = &graph->values.items[said->value];
  const bool state = value->source == SHOAL_FROM_STATE;
  const bool per_batch = context->mesh.micro > 1 && !state && value->type.shape.rank > 0 &&
                         !strstr(said->layout, "micro:");
  const char *text = said->layout, *pattern = value->name;
  if (state) SHOAL_RETURN_IF_ERROR(check_state(context->model, said, value->index));
  if (per_batch) text = shoal_arena_printf(context->arena, "micro:0%s%s", text[0] ? "," : "", text);
  if (!state)  // other graphs use the name for their own
    pattern = shoal_arena_printf(context->arena, "%s:%s", graph->name, value->name);
  if (!text || !pattern) return SHOAL_OOM();
  shoal_status_t status = check(context, text, &value->type.shape);
  if (!status) return say(context, pattern, value->name, text);
  shoal_status_t told = SHOAL_ERROR_HINT(
      UNSUPPORTED, "plan with a mesh that has these axes, or constrain it otherwise",
      "'%s' is constrained to '%s' at %s:%d: %s", value->name, said->layout, said->file, said->line,
      shoal_status_message(status));
  shoal_status_free(status);
  return told;
}

static shoal_status_t constrain_node(shoal_strategy_context_t *context, const shoal_graph_t *graph,
                                     const shoal_node_t *node) {
  const char *layout = shoal_op_constraint(node->op, node->attrs);
  const char *value = layout ? graph->values.items[node->outputs[0]].name : NULL;
  if (!layout || !shoal_context_has_layout(context, value)) return NULL;
  const char *name = shoal_arena_printf(context->arena, "%s:%s", graph->name, value);
  return name ? shoal_context_layout(context, name, layout) : SHOAL_OOM();
}

shoal_status_t shoal_context_constrain(shoal_strategy_context_t *context) {
  if (context->options->world == 1) return NULL;
  for (int64_t g = 0; g < context->model->graphs.count; ++g) {
    const shoal_graph_t *graph = context->model->graphs.items[g];
    for (int64_t i = 0; i < graph->constraints.count; ++i)
      SHOAL_RETURN_IF_ERROR(constrain(context, graph, &graph->constraints.items[i]));
    for (int64_t n = 0; n < graph->nodes.count; ++n)
      SHOAL_RETURN_IF_ERROR(constrain_node(context, graph, &graph->nodes.items[n]));
  }
  return NULL;
}

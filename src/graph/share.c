// How ranks are asked to share parts of a graph: shoal_with_replicate, shoal_with_split and what
// holds outside of them, and shoal_constrain. The graph only keeps what is said: of inputs and
// states in a list, of computed values as nodes of shoal.constrain. The strategy `annotated` makes
// a plan of the first, planners/constraints.c and completion (plan/constrain.c) of the second.
#include <string.h>

#include "base/status.h"
#include "graph/builder.h"

const char *shoal_share_name(shoal_share_t share) {
  static const char *const names[] = {[SHOAL_SHARE_NONE] = "",
                                      [SHOAL_SHARE_REPLICATE] = "replicate",
                                      [SHOAL_SHARE_SPLIT] = "split"};
  _Static_assert(sizeof names / sizeof *names == SHOAL_SHARE_COUNT, "a share has no name");
  return names[share];
}

shoal_status_t shoal_graph_push_sharing(shoal_graph_t *graph, shoal_open_sharing_t sharing) {
  return SHOAL_PUSH(&graph->model->arena, &graph->builder->sharings, sharing) ? NULL : SHOAL_OOM();
}

void shoal_graph_pop_sharing(shoal_graph_t *graph) {
  --graph->builder->sharings.count;
}

// What is asked for, with a copy of the file's name.
static shoal_status_t make_sharing(shoal_graph_t *graph, shoal_share_t share, int32_t ranks,
                                   const char *file, int line, shoal_open_sharing_t *out_sharing) {
  const struct shoal_graph_builder *b = graph->builder;
  *out_sharing = (shoal_open_sharing_t){0};
  if ((int)share < 0 || share >= SHOAL_SHARE_COUNT)
    return SHOAL_ERROR(INVALID_ARGUMENT, "unknown way to share (%d)", (int)share);
  if (ranks < 0 || ranks > SHOAL_MOST_SHARERS)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give a number from 1 on, or 0 for all ranks",
                            "%d ranks cannot %s a part", (int)ranks, shoal_share_name(share));
  if (b->sharings.count > 0) {
    const shoal_open_sharing_t *open = &b->sharings.items[b->sharings.count - 1];
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT, "end the one before the other begins",
        "%s(%d) is inside of %s(%d), which begins at %s:%d: a part is replicated or split, not "
        "both",
        share == SHOAL_SHARE_NONE ? "a default" : shoal_share_name(share), (int)ranks,
        shoal_share_name(open->asked.kind), (int)open->asked.ranks, open->file ? open->file : "",
        open->line);
  }
  const char *copy = shoal_arena_strdup(&graph->model->arena, file ? file : "");
  if (!copy) return SHOAL_OOM();
  *out_sharing = (shoal_open_sharing_t){{share, ranks}, copy, line};
  return NULL;
}

bool shoal_share_push_at(shoal_graph_t *graph, shoal_share_t share, int32_t ranks, const char *file,
                         int line) {
  if (!graph) return true;
  shoal_graph_site(graph, &file, &line);
  shoal_open_sharing_t sharing;
  shoal_status_t status = make_sharing(graph, share, ranks, file, line, &sharing);
  // They nest also after an error, so that pops match.
  shoal_status_t pushed = shoal_graph_push_sharing(graph, sharing);
  shoal_model_fail_at(graph->model, status, file, line);
  shoal_model_fail_at(graph->model, pushed, file, line);
  return true;
}

bool shoal_share_pop_at(shoal_graph_t *graph, const char *file, int line) {
  if (!graph) return false;
  if (graph->builder->sharings.count) {
    shoal_graph_pop_sharing(graph);
  } else if (!graph->model->error) {
    shoal_graph_site(graph, &file, &line);
    shoal_model_fail_at(graph->model,
                        SHOAL_ERROR(INVALID_ARGUMENT, "no part is being replicated or split"), file,
                        line);
  }
  return false;
}

void shoal_share_default_at(shoal_graph_t *graph, shoal_share_t share, int32_t ranks,
                            const char *file, int line) {
  if (!graph || graph->model->error) return;
  shoal_graph_site(graph, &file, &line);
  shoal_open_sharing_t sharing;
  shoal_status_t status = make_sharing(graph, share, ranks, file, line, &sharing);
  if (!status) graph->builder->default_sharing = sharing.asked;
  shoal_model_fail_at(graph->model, status, file, line);
}

// ---- layouts of values -----------------------------------------------------------------

shoal_status_t shoal_graph_constrain(shoal_graph_t *graph, int32_t value, const char *layout,
                                     const char *file, int line) {
  shoal_arena_t *arena = &graph->model->arena;
  if (graph->values.items[value].source == SHOAL_FROM_NODE)
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT, "apply shoal.constrain to it",
        "'%s' is computed: only inputs and states are constrained by themselves",
        graph->values.items[value].name);
  for (int64_t i = 0; i < graph->constraints.count; ++i) {
    const shoal_constraint_t *old = &graph->constraints.items[i];
    if (old->value == value && strcmp(old->layout, layout) != 0)
      return SHOAL_ERROR(INVALID_ARGUMENT, "'%s' is constrained to '%s' at %s:%d already",
                         graph->values.items[value].name, old->layout, old->file, old->line);
    if (old->value == value) return NULL;
  }
  const shoal_constraint_t made = {value, shoal_arena_strdup(arena, layout),
                                   shoal_arena_strdup(arena, file ? file : ""), line};
  if (!made.layout || !made.file || !SHOAL_PUSH(arena, &graph->constraints, made))
    return SHOAL_OOM();
  return NULL;
}

// A node behind the value that has the layout; it is called like the value: "fc1/add/constrain".
static shoal_status_t add_constrained(shoal_graph_t *graph, int32_t value, const char *layout,
                                      const char *file, int line, int32_t *out_id) {
  const shoal_attr_t attr = shoal_attr_string("layout", layout);
  SHOAL_RETURN_IF_ERROR(shoal_graph_push_scope(graph, graph->values.items[value].name));
  shoal_status_t status =
      shoal_graph_emit(graph, "shoal.constrain", 1, &value, 1, &attr, file, line, 1, out_id);
  shoal_graph_pop_scope(graph);
  return status;
}

static shoal_status_t constrain(shoal_graph_t *graph, shoal_value_t value, const char *layout,
                                const char *file, int line, int32_t *out_id) {
  if (!shoal_value_ok(value) || value.graph != graph)
    return SHOAL_ERROR(INVALID_ARGUMENT, "what is constrained is no value of graph '%s'",
                       graph->name);
  if (!layout)
    return SHOAL_ERROR(INVALID_ARGUMENT, "the layout of '%s' is NULL", shoal_value_name(value));
  if (graph->values.items[value.id].source == SHOAL_FROM_NODE)
    return add_constrained(graph, value.id, layout, file, line, out_id);
  *out_id = value.id;
  return shoal_graph_constrain(graph, value.id, layout, file, line);
}

shoal_value_t shoal_constrain_at(shoal_graph_t *graph, shoal_value_t value, const char *layout,
                                 const char *file, int line) {
  shoal_value_t out = {NULL, -1};
  if (!graph || graph->model->error) return out;
  shoal_graph_site(graph, &file, &line);
  int32_t id = -1;
  shoal_status_t status = constrain(graph, value, layout, file, line, &id);
  if (!status) return (shoal_value_t){graph, id};
  shoal_model_fail_at(graph->model, status, file, line);
  return out;
}

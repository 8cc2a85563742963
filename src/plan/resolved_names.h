// Names in the resolved part of a plan file: what the keys of an entry stand for. See
// resolved_names.c.
#ifndef SHOAL_PLAN_RESOLVED_NAMES_H_
#define SHOAL_PLAN_RESOLVED_NAMES_H_

#include "base/json.h"
#include "plan/plan.h"

// Indices of a graph's names, empty until one is looked for.
typedef struct shoal_entry_graph {
  shoal_index_t nodes, values;
  bool has_nodes, has_values;
} shoal_entry_graph_t;

typedef struct shoal_entry_names {
  const shoal_model_t *model;
  shoal_arena_t *scratch;
  shoal_entry_graph_t *graphs;
} shoal_entry_names_t;

SHOAL_MUST_USE shoal_status_t shoal_entry_names_init(const shoal_model_t *model,
                                                     shoal_arena_t *scratch,
                                                     shoal_entry_names_t *out_names);
// What the entry's key of that name names: nodes, values, inputs and outputs are those of its
// `graph`. An error that there is none suggests the nearest name; it does not say where the entry
// stands.
SHOAL_MUST_USE shoal_status_t shoal_entry_graph(const shoal_entry_names_t *names,
                                                const shoal_json_t *entry, int64_t *out_graph);
SHOAL_MUST_USE shoal_status_t shoal_entry_node(const shoal_entry_names_t *names,
                                               const shoal_json_t *entry, int64_t *out_graph,
                                               int32_t *out_node);
SHOAL_MUST_USE shoal_status_t shoal_entry_value(const shoal_entry_names_t *names,
                                                const shoal_json_t *entry, int64_t *out_graph,
                                                int32_t *out_value);
SHOAL_MUST_USE shoal_status_t shoal_entry_input(const shoal_entry_names_t *names,
                                                const shoal_json_t *entry, int64_t *out_graph,
                                                int32_t *out_value);
SHOAL_MUST_USE shoal_status_t shoal_entry_state(const shoal_entry_names_t *names,
                                                const shoal_json_t *entry, int32_t *out_state);
SHOAL_MUST_USE shoal_status_t shoal_entry_output(const shoal_entry_names_t *names,
                                                 const shoal_json_t *entry, int64_t *out_graph,
                                                 int64_t *out_output);
// Says that there is no `what` of this name; the hint is the nearest of `names`, or `otherwise`.
SHOAL_MUST_USE shoal_status_t shoal_entry_unknown(const char *what, const char *name, int64_t count,
                                                  const char *const *names, const char *otherwise);
// Says where the entry stands, unless the error does so.
SHOAL_MUST_USE shoal_status_t shoal_entry_annotate(const shoal_json_t *entry,
                                                   shoal_status_t status);

#endif  // SHOAL_PLAN_RESOLVED_NAMES_H_

// How graphs are written: private to graph/. Everything that adds a node - the public builder,
// autodiff, the parser, expansion - goes through shoal_graph_append, the one place that checks and
// infers.
#ifndef SHOAL_GRAPH_BUILDER_H_
#define SHOAL_GRAPH_BUILDER_H_

#include "graph/graph.h"
#include "op/emitter.h"
#include "op/type.h"

#define SHOAL_NAME_LIMIT 1024  // of a full name, NUL included

// Set of names in use; for each, the suffix to try next when somebody else wants it.
typedef struct shoal_name_slot {
  const char *name;
  int64_t next;
} shoal_name_slot_t;

typedef struct shoal_names {
  shoal_name_slot_t *slots;
  int64_t count, capacity;  // capacity is 0 or a power of two
} shoal_names_t;

typedef struct shoal_site {
  const char *file;
  int line;
} shoal_site_t;

#define SHOAL_MOST_STAGES 4096        // of a pipeline, as many as a schedule may have
#define SHOAL_MOST_SHARERS (1 << 24)  // ranks that may be asked to share a part
#define SHOAL_MOST_REGIONS (1 << 24)  // that may be marked to be computed again

// What nodes are for while it is open.
typedef struct shoal_purpose {
  shoal_node_kind_t kind;
  int32_t of;  // forward node, or -1
} shoal_purpose_t;

// A statement that asks ranks to share nodes, while it is open.
typedef struct shoal_open_sharing {
  shoal_sharing_t asked;
  const char *file;  // the model's own copy
  int line;
} shoal_open_sharing_t;

// A statement whose nodes are computed again, while it is open.
typedef struct shoal_open_region {
  int32_t region;    // plus 1; 0: none, after an error
  const char *file;  // the model's own copy
  int line;
} shoal_open_region_t;

struct shoal_graph_builder {
  shoal_names_t names;             // of nodes and values
  const shoal_names_t *avoid;      // names that are kept for others; NULL: none
  SHOAL_VEC(const char *) scopes;  // full path of each open scope, "" for the root
  SHOAL_VEC(shoal_site_t) sites;
  SHOAL_VEC(shoal_purpose_t) purposes;       // the last counts; none: forward
  SHOAL_VEC(int32_t) stages;                 // open ones, plus 1; the last counts
  SHOAL_VEC(shoal_open_sharing_t) sharings;  // the last counts
  shoal_sharing_t default_sharing;           // where none is open
  SHOAL_VEC(shoal_open_region_t) regions;    // the last counts
  int32_t region_count;                      // that were opened so far
  SHOAL_VEC(int32_t) state_values;           // value that reads state i, or -1
  int32_t init_step;  // in "init": the constant 0 that random nodes take as step, or -1
};

// Names. All are arena strings of the model; NULL when memory is short.
const char *shoal_names_take(shoal_arena_t *arena, shoal_names_t *names, const shoal_names_t *avoid,
                             const char *base);  // base, base_1 ...
SHOAL_MUST_USE bool shoal_names_add(shoal_arena_t *arena, shoal_names_t *names, const char *name,
                                    bool *out_new);  // `name` is kept; false when memory is short
// The full name of `name` in the current scope; says what is wrong with it otherwise.
SHOAL_MUST_USE shoal_status_t shoal_name_join(shoal_graph_t *graph, const char *name,
                                              const char **out_name);

// Keeps the first error; takes `status`. The second blames file and line, whatever the status says.
void shoal_model_fail(shoal_model_t *model, shoal_status_t status);
void shoal_model_fail_at(shoal_model_t *model, shoal_status_t status, const char *file, int line);
// The file and line to blame for a call that was made at file, line.
void shoal_graph_site(const shoal_graph_t *graph, const char **file, int *line);

// The graph, added if it is new and the name is good.
SHOAL_MUST_USE shoal_status_t shoal_model_add_graph(shoal_model_t *model, const char *name,
                                                    shoal_graph_t **out_graph);
// A new state, with its full name. The initial value is written into "init" unless it was
// rewritten.
SHOAL_MUST_USE shoal_status_t shoal_model_add_state(shoal_model_t *model,
                                                    const shoal_state_info_t *state,
                                                    int32_t *out_state);
// How many of its numbers (a, b, low, high) an initial value has.
static inline int32_t shoal_init_numbers(shoal_init_kind_t kind) {
  return kind == SHOAL_INIT_ZEROS              ? 0
         : kind == SHOAL_INIT_FILL             ? 1
         : kind == SHOAL_INIT_TRUNCATED_NORMAL ? 4
                                               : 2;
}
// Writes the initial value of a state into "init".
SHOAL_MUST_USE shoal_status_t shoal_model_write_init(shoal_model_t *model, int32_t state);

typedef struct shoal_node_spec {
  const shoal_op_t *op;
  const char *name;  // exact; NULL: scope and op
  int32_t input_count;
  const int32_t *inputs;            // value ids, in range
  const shoal_attr_value_t *attrs;  // in schema order; copied
  shoal_purpose_t purpose;
  int32_t stage;  // plus 1; 0: none
  shoal_sharing_t sharing;
  int32_t recompute;  // plus 1; 0: none
  const char *file;
  int line;
} shoal_node_spec_t;

// Appends a node; out_ids has room for its outputs (shoal_op_outputs). The graph is unusable after
// an error.
SHOAL_MUST_USE shoal_status_t shoal_graph_append(shoal_graph_t *graph,
                                                 const shoal_node_spec_t *spec, int32_t *out_ids);
// The same, from the op's name and named attributes, for the purpose that is open.
SHOAL_MUST_USE shoal_status_t shoal_graph_emit(shoal_graph_t *graph, const char *op,
                                               int32_t input_count, const int32_t *inputs,
                                               int32_t attr_count, const shoal_attr_t *attrs,
                                               const char *file, int line, int32_t output_count,
                                               int32_t *out_ids);
SHOAL_MUST_USE shoal_status_t shoal_graph_add_input(shoal_graph_t *graph, const char *name,
                                                    shoal_type_t type, const char *file, int line,
                                                    int32_t *out_id);
// The value that reads a state, added on first use.
SHOAL_MUST_USE shoal_status_t shoal_graph_read_state(shoal_graph_t *graph, int32_t state,
                                                     const char *file, int line, int32_t *out_id);
SHOAL_MUST_USE shoal_status_t shoal_graph_add_output(shoal_graph_t *graph, const char *name,
                                                     int32_t value);
SHOAL_MUST_USE shoal_status_t shoal_graph_assign(shoal_graph_t *graph, int32_t state, int32_t value,
                                                 int32_t predicate);  // -1: always
SHOAL_MUST_USE shoal_status_t shoal_graph_constrain(shoal_graph_t *graph, int32_t value,
                                                    const char *layout, const char *file, int line);
SHOAL_MUST_USE shoal_status_t shoal_graph_push_scope(shoal_graph_t *graph,
                                                     const char *path);  // full path
void shoal_graph_pop_scope(shoal_graph_t *graph);
SHOAL_MUST_USE shoal_status_t shoal_graph_push_purpose(shoal_graph_t *graph,
                                                       shoal_purpose_t purpose);
void shoal_graph_pop_purpose(shoal_graph_t *graph);
SHOAL_MUST_USE shoal_status_t shoal_graph_push_stage(shoal_graph_t *graph,
                                                     int32_t stage);  // plus 1
void shoal_graph_pop_stage(shoal_graph_t *graph);
SHOAL_MUST_USE shoal_status_t shoal_graph_push_sharing(shoal_graph_t *graph,
                                                       shoal_open_sharing_t sharing);
void shoal_graph_pop_sharing(shoal_graph_t *graph);
SHOAL_MUST_USE shoal_status_t shoal_graph_push_region(shoal_graph_t *graph,
                                                      shoal_open_region_t region);
void shoal_graph_pop_region(shoal_graph_t *graph);

// Another name for a value: what it is called when its node is one of several that stand for an op.
SHOAL_MUST_USE shoal_status_t shoal_graph_rename(shoal_graph_t *graph, int32_t value,
                                                 const char *name);
// What a value of this node is called when nobody renames it; `buffer` is used if there are several
// outputs.
const char *shoal_node_value_name(const shoal_node_t *node, int32_t output,
                                  char buffer[SHOAL_NAME_LIMIT + 64]);

// An emitter whose refs are value ids of `graph`.
typedef struct shoal_graph_emitter {
  shoal_emitter_t base;
  shoal_graph_t *graph;
  const char *file;
  int line;
  shoal_status_t error;  // the first; owned, taken by shoal_graph_emitter_status
} shoal_graph_emitter_t;

void shoal_graph_emitter_init(shoal_graph_t *graph, const char *file, int line,
                              shoal_graph_emitter_t *out_emitter);
SHOAL_MUST_USE shoal_status_t shoal_graph_emitter_status(shoal_graph_emitter_t *emitter);

#endif  // SHOAL_GRAPH_BUILDER_H_

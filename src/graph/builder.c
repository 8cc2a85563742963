// The public builder: graph.h's calls that write a graph. It turns values into ids, names the
// caller's file and line in errors and keeps the first one; what is written is append.c's business.
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "graph/builder.h"

#define NULL_VALUE ((shoal_value_t){NULL, -1})

void shoal_graph_site(const shoal_graph_t *graph, const char **file, int *line) {
  if (!graph->builder->sites.count) return;
  *file = graph->builder->sites.items[0].file;
  *line = graph->builder->sites.items[0].line;
}

// May this call write? Blames the right place for what follows.
static bool begin(shoal_graph_t *graph, const char **file, int *line) {
  if (!graph || graph->model->error) return false;
  shoal_graph_site(graph, file, line);
  if (graph != graph->model->graphs.items[0]) return true;
  shoal_model_fail_at(graph->model,
                      SHOAL_ERROR(INVALID_ARGUMENT,
                                  "graph 'init' is reserved: it is written "
                                  "from the states' initial values"),
                      *file, *line);
  return false;
}

// Ids are borrowed from the graph the caller writes: `what` is "input 'a' of shoal.add".
static shoal_status_t value_id(const shoal_graph_t *graph, shoal_value_t value, const char *what,
                               const char *what_name, int32_t *out_id) {
  if (!value.graph || value.id < 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s '%s' is a null value", what, what_name);
  }
  if (value.id >= value.graph->values.count) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s '%s' is not a value of graph '%s'", what, what_name,
                       value.graph->name);
  }
  if (value.graph != graph) {
    const shoal_value_info_t *info = &value.graph->values.items[value.id];
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT, "rebuild the value in this graph, or pass it through a state",
        "%s '%s' is value '%s' of graph '%s', made at %s:%d; it cannot be used in "
        "graph '%s'",
        what, what_name, info->name, value.graph->name, info->file, info->line, graph->name);
  }
  *out_id = value.id;
  return NULL;
}

// ---- values in and out -----------------------------------------------------------------

shoal_value_t shoal_input_at(shoal_graph_t *graph, const char *name, shoal_dtype_t dtype,
                             shoal_shape_t shape, const char *file, int line) {
  if (!begin(graph, &file, &line)) return NULL_VALUE;
  const char *full;
  int32_t id = -1;
  shoal_status_t status = NULL;
  SHOAL_GOTO_IF_ERROR(status, done,
                      shoal_graph_push_scope(graph, ""));  // names of inputs are not scoped
  SHOAL_GOTO_IF_ERROR(status, pop, shoal_name_join(graph, name, &full));
  status = shoal_graph_add_input(graph, full, (shoal_type_t){dtype, shape}, file, line, &id);
pop:
  shoal_graph_pop_scope(graph);
done:
  if (!status) return (shoal_value_t){graph, id};
  shoal_model_fail_at(graph->model, shoal_status_annotatef(status, "input '%s'", name ? name : ""),
                      file, line);
  return NULL_VALUE;
}

void shoal_output_at(shoal_graph_t *graph, const char *name, shoal_value_t value, const char *file,
                     int line) {
  if (!begin(graph, &file, &line)) return;
  const char *full;
  int32_t id;
  shoal_status_t status = NULL;
  SHOAL_GOTO_IF_ERROR(status, done, shoal_graph_push_scope(graph, ""));
  SHOAL_GOTO_IF_ERROR(status, pop, shoal_name_join(graph, name, &full));
  SHOAL_GOTO_IF_ERROR(status, pop, value_id(graph, value, "output", full, &id));
  status = shoal_graph_add_output(graph, full, id);
pop:
  shoal_graph_pop_scope(graph);
done:
  shoal_model_fail_at(graph->model, status, file, line);
}

bool shoal_value_ok(shoal_value_t value) {
  return value.graph && value.id >= 0 && value.id < value.graph->values.count;
}

shoal_type_t shoal_value_type(shoal_value_t value) {
  if (shoal_value_ok(value)) return value.graph->values.items[value.id].type;
  return (shoal_type_t){.dtype = SHOAL_F32};
}

const char *shoal_value_name(shoal_value_t value) {
  return shoal_value_ok(value) ? value.graph->values.items[value.id].name : "";
}

// ---- nodes -----------------------------------------------------------------------------

static shoal_status_t add_node(shoal_graph_t *graph, const char *op_name, int32_t input_count,
                               const shoal_value_t *inputs, int32_t attr_count,
                               const shoal_attr_t *attrs, const char *file, int line,
                               int32_t output_count, shoal_value_t *outputs) {
  shoal_arena_t *arena = &graph->model->arena;
  if (!op_name || input_count < 0 || attr_count < 0 || output_count < 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "the op's name is NULL or a count is negative");
  }
  const shoal_op_t *op;
  SHOAL_RETURN_IF_ERROR(shoal_op_find(graph->model->registry, op_name, &op));
  int32_t *ids = SHOAL_NEW(arena, int32_t, input_count + output_count);
  if (!ids) return SHOAL_OOM();
  for (int32_t i = 0; i < input_count; ++i) {
    int32_t last = op->input_count - 1;
    const char *name = last < 0 ? "?" : op->inputs[i < last ? i : last];
    ids[i] = -1;
    if (!inputs[i].graph && i > last - op->optional && i <= last) continue;  // left out
    SHOAL_RETURN_IF_ERROR(value_id(graph, inputs[i], "input", name, &ids[i]));
  }
  int32_t *out_ids = ids + input_count;
  SHOAL_RETURN_IF_ERROR(shoal_graph_emit(graph, op_name, input_count, ids, attr_count, attrs, file,
                                         line, output_count, out_ids));
  for (int32_t i = 0; i < output_count; ++i) outputs[i] = (shoal_value_t){graph, out_ids[i]};
  return NULL;
}

void shoal_node_add_at(shoal_graph_t *graph, const char *op, int32_t input_count,
                       const shoal_value_t *inputs, int32_t attr_count, const shoal_attr_t *attrs,
                       int32_t output_count, shoal_value_t *out_outputs, const char *file,
                       int line) {
  // out_outputs may be the inputs' own variables: it is written last.
  bool alive = begin(graph, &file, &line);
  shoal_status_t status = alive ? add_node(graph, op, input_count, inputs, attr_count, attrs, file,
                                           line, output_count, out_outputs)
                                : NULL;
  if (alive && !status) return;
  for (int32_t i = 0; i < output_count; ++i) out_outputs[i] = NULL_VALUE;
  if (!alive) return;
  // records name themselves and their operands; others' messages get the op's name here
  if (op && !strstr(shoal_status_message(status), op)) status = shoal_status_annotate(status, op);
  const struct shoal_graph_builder *b = graph->builder;
  const char *scope = b->scopes.count ? b->scopes.items[b->scopes.count - 1] : "";
  if (scope[0]) status = shoal_status_annotatef(status, "in '%s'", scope);
  shoal_model_fail_at(graph->model, status, file, line);
}

// ---- scopes and sites ------------------------------------------------------------------

shoal_status_t shoal_graph_push_scope(shoal_graph_t *graph, const char *path) {
  return SHOAL_PUSH(&graph->model->arena, &graph->builder->scopes, path) ? NULL : SHOAL_OOM();
}

void shoal_graph_pop_scope(shoal_graph_t *graph) {
  --graph->builder->scopes.count;
}

void shoal_scope_push_at(shoal_graph_t *graph, const char *name, const char *file, int line) {
  if (!graph) return;
  shoal_graph_site(graph, &file, &line);
  // Scopes nest also after an error, so that pops match.
  const char *path = "";
  shoal_status_t status = NULL;
  if (!graph->model->error && !(name && strcmp(name, "/") == 0)) {
    status = shoal_status_annotate(shoal_name_join(graph, name, &path), "scope");
  }
  shoal_status_t pushed = shoal_graph_push_scope(graph, path);
  shoal_model_fail_at(graph->model, status, file, line);
  shoal_model_fail_at(graph->model, pushed, file, line);
}

void shoal_scope_pop_at(shoal_graph_t *graph, const char *file, int line) {
  if (!graph) return;
  if (graph->builder->scopes.count) {
    shoal_graph_pop_scope(graph);
  } else if (!graph->model->error) {
    shoal_graph_site(graph, &file, &line);
    shoal_model_fail_at(graph->model, SHOAL_ERROR(INVALID_ARGUMENT, "no scope is open"), file,
                        line);
  }
}

// ---- kinds -----------------------------------------------------------------------------

const char *shoal_node_kind_name(shoal_node_kind_t kind) {
  static const char *const names[] = {[SHOAL_NODE_FORWARD] = "forward",
                                      [SHOAL_NODE_INPUT_GRADIENT] = "input_gradient",
                                      [SHOAL_NODE_WEIGHT_GRADIENT] = "weight_gradient",
                                      [SHOAL_NODE_UPDATE] = "update"};
  _Static_assert(sizeof names / sizeof *names == SHOAL_NODE_KIND_COUNT, "a kind has no name");
  return names[kind];
}

shoal_status_t shoal_graph_push_purpose(shoal_graph_t *graph, shoal_purpose_t purpose) {
  return SHOAL_PUSH(&graph->model->arena, &graph->builder->purposes, purpose) ? NULL : SHOAL_OOM();
}

void shoal_graph_pop_purpose(shoal_graph_t *graph) {
  --graph->builder->purposes.count;
}

void shoal_kind_push_at(shoal_graph_t *graph, shoal_node_kind_t kind, const char *file, int line) {
  if (!graph) return;
  shoal_graph_site(graph, &file, &line);
  bool known = (int)kind >= 0 && kind < SHOAL_NODE_KIND_COUNT;
  // Kinds nest also after an error, so that pops match.
  shoal_purpose_t purpose = {.kind = known ? kind : SHOAL_NODE_FORWARD, .of = -1};
  shoal_status_t status = shoal_graph_push_purpose(graph, purpose);
  if (!status && !known) {
    status = SHOAL_ERROR(INVALID_ARGUMENT, "unknown kind of node (%d)", (int)kind);
  }
  shoal_model_fail_at(graph->model, status, file, line);
}

void shoal_kind_pop_at(shoal_graph_t *graph, const char *file, int line) {
  if (!graph) return;
  if (graph->builder->purposes.count) {
    shoal_graph_pop_purpose(graph);
  } else if (!graph->model->error) {
    shoal_graph_site(graph, &file, &line);
    shoal_model_fail_at(graph->model, SHOAL_ERROR(INVALID_ARGUMENT, "no kind of node is open"),
                        file, line);
  }
}

// ---- stages ----------------------------------------------------------------------------

shoal_status_t shoal_graph_push_stage(shoal_graph_t *graph, int32_t stage) {
  return SHOAL_PUSH(&graph->model->arena, &graph->builder->stages, stage) ? NULL : SHOAL_OOM();
}

void shoal_graph_pop_stage(shoal_graph_t *graph) {
  --graph->builder->stages.count;
}

bool shoal_stage_push_at(shoal_graph_t *graph, int32_t stage, const char *file, int line) {
  if (!graph) return true;
  shoal_graph_site(graph, &file, &line);
  const struct shoal_graph_builder *b = graph->builder;
  shoal_status_t status = NULL;
  if (stage < 0 || stage >= SHOAL_MOST_STAGES)
    status = SHOAL_ERROR_HINT(INVALID_ARGUMENT, "stages are numbered from 0 on",
                              "there is no stage %d", (int)stage);
  else if (b->stages.count > 0)
    status = SHOAL_ERROR_HINT(INVALID_ARGUMENT, "end the one before the other begins",
                              "stage %d is inside of stage %d: stages do not nest", (int)stage,
                              (int)b->stages.items[b->stages.count - 1] - 1);
  // They nest also after an error, so that pops match.
  shoal_status_t pushed = shoal_graph_push_stage(graph, status ? 0 : stage + 1);
  shoal_model_fail_at(graph->model, status, file, line);
  shoal_model_fail_at(graph->model, pushed, file, line);
  return true;
}

bool shoal_stage_pop_at(shoal_graph_t *graph, const char *file, int line) {
  if (!graph) return false;
  if (graph->builder->stages.count) {
    shoal_graph_pop_stage(graph);
  } else if (!graph->model->error) {
    shoal_graph_site(graph, &file, &line);
    shoal_model_fail_at(graph->model, SHOAL_ERROR(INVALID_ARGUMENT, "no stage is open"), file,
                        line);
  }
  return false;
}

// ---- sites -----------------------------------------------------------------------------

void shoal_site_push(shoal_graph_t *graph, const char *file, int line) {
  if (!graph) return;
  shoal_site_t site = {file ? file : "", line};
  if (!SHOAL_PUSH(&graph->model->arena, &graph->builder->sites, site)) {
    shoal_model_fail_at(graph->model, SHOAL_OOM(), file, line);
  }
}

void shoal_site_pop(shoal_graph_t *graph) {
  if (graph && graph->builder->sites.count) --graph->builder->sites.count;
}

// ---- states ----------------------------------------------------------------------------

static shoal_status_t read_state(shoal_graph_t *graph, const char *name, shoal_type_t type,
                                 const shoal_state_options_t *options, const char *file, int line,
                                 int32_t *out_id) {
  shoal_model_t *model = graph->model;
  const char *full;
  SHOAL_RETURN_IF_ERROR(shoal_name_join(graph, name, &full));
  int32_t state = shoal_model_find_state(model, full);
  if (state < 0) {
    shoal_state_info_t info = {.name = full, .type = type, .line = line};
    if (options) info.options = *options;
    info.file = shoal_arena_strdup(&model->arena, file ? file : "");
    if (!info.file) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(shoal_model_add_state(model, &info, &state));
  } else {
    const shoal_state_info_t *info = &model->states.items[state];
    if (!shoal_type_equal(&info->type, &type)) {
      char have[SHOAL_TYPE_SIZE], want[SHOAL_TYPE_SIZE];
      return SHOAL_ERROR(INVALID_ARGUMENT,
                         "'%s' was declared %s at %s:%d and is now asked for as %s", full,
                         shoal_type_format(&info->type, have, sizeof have), info->file, info->line,
                         shoal_type_format(&type, want, sizeof want));
    }
  }
  if (graph->instead && model->states.items[state].options.trainable) {
    const char *other = shoal_arena_printf(&model->arena, "%s#%s", full, graph->instead);
    if (!other) return SHOAL_OOM();
    int32_t found = shoal_model_find_state(model, other);
    if (found < 0 && !model->minimized) {  // nothing trains here: it comes from a checkpoint
      shoal_state_info_t info = {.name = other, .type = type, .line = line};
      info.file = model->states.items[state].file;
      SHOAL_RETURN_IF_ERROR(shoal_model_add_state(model, &info, &found));
    }
    if (found >= 0) state = found;
  }
  return shoal_graph_read_state(graph, state, file, line, out_id);
}

shoal_value_t shoal_state_at(shoal_graph_t *graph, const char *name, shoal_dtype_t dtype,
                             shoal_shape_t shape, const shoal_state_options_t *options,
                             const char *file, int line) {
  if (!begin(graph, &file, &line)) return NULL_VALUE;
  int32_t id;
  shoal_type_t type = {dtype, shape};
  shoal_status_t status = shoal_type_check(&type);
  if (!status) status = read_state(graph, name, type, options, file, line, &id);
  if (!status) return (shoal_value_t){graph, id};
  shoal_model_fail_at(graph->model, shoal_status_annotatef(status, "state '%s'", name ? name : ""),
                      file, line);
  return NULL_VALUE;
}

// `predicate` NULL: always.
static void assign(shoal_graph_t *graph, shoal_value_t state, shoal_value_t value,
                   const shoal_value_t *predicate, const char *file, int line) {
  if (!begin(graph, &file, &line)) return;
  int32_t state_id = -1, id = -1, predicate_id = -1;
  shoal_status_t status = value_id(graph, state, "assign's", "state", &state_id);
  if (!status) status = value_id(graph, value, "assign's", "value", &id);
  if (!status && predicate)
    status = value_id(graph, *predicate, "assign's", "predicate", &predicate_id);
  if (!status && graph->values.items[state_id].source != SHOAL_FROM_STATE) {
    status = SHOAL_ERROR(INVALID_ARGUMENT, "'%s' is not a state and cannot be assigned",
                         graph->values.items[state_id].name);
  }
  if (!status)
    status = shoal_graph_assign(graph, graph->values.items[state_id].index, id, predicate_id);
  shoal_model_fail_at(graph->model, status, file, line);
}

void shoal_assign_at(shoal_graph_t *graph, shoal_value_t state, shoal_value_t value,
                     const char *file, int line) {
  assign(graph, state, value, NULL, file, line);
}

void shoal_assign_if_at(shoal_graph_t *graph, shoal_value_t state, shoal_value_t value,
                        shoal_value_t predicate, const char *file, int line) {
  assign(graph, state, value, &predicate, file, line);
}

shoal_value_t shoal_step_at(shoal_graph_t *graph, const char *file, int line) {
  if (!begin(graph, &file, &line)) return NULL_VALUE;
  int32_t known = shoal_model_find_state(graph->model, "step");
  for (int64_t i = 0; known >= 0 && i < graph->assigns.count; ++i) {
    const shoal_assignment_t *assign = &graph->assigns.items[i];
    if (assign->state == known) return (shoal_value_t){graph, assign->value};
  }
  shoal_value_t state = shoal_state_at(graph, "/step", SHOAL_I64, SHOAL_SCALAR, NULL, file, line);
  shoal_value_t operands[2] = {state, NULL_VALUE}, next = NULL_VALUE;
  shoal_attr_t one[] = {shoal_attr_ints("shape", 0, NULL), shoal_attr_real("value", 1),
                        shoal_attr_dtype("dtype", SHOAL_I64)};
  shoal_scope_push_at(graph, "/step", file, line);
  shoal_node_add_at(graph, "shoal.full", 0, NULL, 3, one, 1, &operands[1], file, line);
  shoal_node_add_at(graph, "shoal.add", 2, operands, 0, NULL, 1, &next, file, line);
  shoal_scope_pop_at(graph, file, line);
  shoal_assign_at(graph, state, next, file, line);
  return graph->model->error ? NULL_VALUE : next;
}

int64_t shoal_random_key(shoal_graph_t *graph, const char *name) {
  if (!graph || graph->model->error) return 0;
  const char *full;
  shoal_status_t status = shoal_name_join(graph, name, &full);
  if (status) {
    const char *file = "";
    int line = 0;
    shoal_graph_site(graph, &file, &line);
    shoal_model_fail_at(graph->model, shoal_status_annotate(status, "random key"), file, line);
    return 0;
  }
  return (int64_t)(graph->model->seed ^ shoal_hash_string(SHOAL_HASH_START, full));
}

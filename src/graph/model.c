// Models: what owns states and graphs, the first error, and the hash of what is computed.
//
// Everything but the model itself lives in its arena; freeing the model frees all values, nodes,
// names. Invariants: graphs.items[0] is "init"; state names are unique; once `error` is set nothing
// is added.
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"
#include "graph/builder.h"

shoal_status_t shoal_model_create(const shoal_model_options_t *options, shoal_model_t **out_model) {
  *out_model = NULL;
  shoal_model_options_t o = options ? *options : (shoal_model_options_t){0};
  if (!o.allocator.alloc) o.allocator = shoal_allocator_system();
  shoal_model_t *model = o.allocator.alloc(o.allocator.self, sizeof *model);
  if (!model) return SHOAL_OOM();
  *model = (shoal_model_t){.allocator = o.allocator, .seed = o.seed, .mixed = o.mixed};
  shoal_arena_init(o.allocator, &model->arena);
  shoal_index_init(&model->arena, &model->state_index);
  shoal_status_t status = NULL;
  if (o.registry) {
    shoal_registry_retain(o.registry);
    model->registry = o.registry;
  } else {
    SHOAL_GOTO_IF_ERROR(status, done, shoal_registry_create(o.allocator, &model->registry));
  }
  shoal_graph_t *init;
  SHOAL_GOTO_IF_ERROR(status, done, shoal_model_add_graph(model, "init", &init));
  *out_model = model;
done:
  if (status) shoal_model_free(model);
  return status;
}

void shoal_model_free(shoal_model_t *model) {
  if (!model) return;
  shoal_allocator_t allocator = model->allocator;
  shoal_status_free(model->error);
  if (model->registry) shoal_registry_release(model->registry);
  shoal_arena_deinit(&model->arena);
  allocator.free(allocator.self, model);
}

// ---- errors ----------------------------------------------------------------------------

void shoal_model_fail(shoal_model_t *model, shoal_status_t status) {
  if (!status) return;
  if (model->error) {
    shoal_status_free(status);
  } else {
    model->error = status;
  }
}

void shoal_model_fail_at(shoal_model_t *model, shoal_status_t status, const char *file, int line) {
  if (!status) return;
  shoal_status_t blamed =
      shoal_status_create(shoal_status_code(status), file, line, shoal_status_message(status),
                          shoal_status_hint(status));
  shoal_status_free(status);
  shoal_model_fail(model, blamed);
}

// A freeze that leaves nothing out of training is a mistake, once a graph trains. Known only at the
// end: states and graphs may be made after it.
static shoal_status_t check_frozen(const shoal_model_t *model) {
  for (int64_t i = 0; model->minimized && i < model->frozen.count; ++i) {
    const shoal_frozen_t *frozen = &model->frozen.items[i];
    const char *trainable = NULL, *match = NULL;
    SHOAL_RETURN_IF_ERROR(shoal_pattern_check(frozen->pattern));
    for (int64_t s = 0; s < model->states.count; ++s) {
      const shoal_state_info_t *state = &model->states.items[s];
      if (!state->options.trainable) continue;
      if (!trainable) trainable = state->name;
      if (!match && shoal_pattern_match(frozen->pattern, state->name)) match = state->name;
    }
    if (frozen->used || (match && !frozen->late)) continue;
    char hint[SHOAL_NAME_LIMIT + 64];
    snprintf(hint, sizeof hint,
             match ? "call shoal_freeze before shoal_minimize"
                   : "states have names such as '%s'; '*' in a pattern matches anything",
             trainable ? trainable : "");
    return shoal_status_format(SHOAL_INVALID_ARGUMENT, frozen->file, frozen->line, hint,
                               match ? "freezing '%s' comes after shoal_minimize, which trains '%s'"
                                     : "freezing '%s': there is no trainable state of that name%s",
                               frozen->pattern, match ? match : "");
  }
  return NULL;
}

shoal_status_t shoal_model_status(const shoal_model_t *model) {
  if (!model) return SHOAL_ERROR(INVALID_ARGUMENT, "the model is NULL");
  return model->error ? shoal_status_clone(model->error) : check_frozen(model);
}

// ---- graphs ----------------------------------------------------------------------------

shoal_status_t shoal_model_add_graph(shoal_model_t *model, const char *name,
                                     shoal_graph_t **out_graph) {
  for (int64_t i = 0; i < model->graphs.count; ++i) {
    if (strcmp(model->graphs.items[i]->name, name) == 0) {
      *out_graph = model->graphs.items[i];
      return NULL;
    }
  }
  shoal_graph_t *graph = SHOAL_NEW(&model->arena, shoal_graph_t, 1);
  if (!graph) return SHOAL_OOM();
  graph->builder = SHOAL_NEW(&model->arena, struct shoal_graph_builder, 1);
  if (!graph->builder) return SHOAL_OOM();
  graph->model = model;
  graph->builder->init_step = -1;
  SHOAL_RETURN_IF_ERROR(shoal_name_join(graph, name, &graph->name));
  if (!SHOAL_PUSH(&model->arena, &model->graphs, graph)) return SHOAL_OOM();
  *out_graph = graph;
  return NULL;
}

shoal_graph_t *shoal_model_graph(shoal_model_t *model, const char *name) {
  if (!model) return NULL;
  shoal_graph_t *graph = NULL;
  shoal_status_t status = name ? shoal_model_add_graph(model, name, &graph)
                               : SHOAL_ERROR(INVALID_ARGUMENT, "a graph's name is NULL");
  if (status) shoal_model_fail(model, shoal_status_annotate(status, "graph"));
  return status ? NULL : graph;
}

const char *shoal_graph_name(const shoal_graph_t *graph) {
  return graph ? graph->name : "";
}

shoal_model_t *shoal_graph_model(const shoal_graph_t *graph) {
  return graph ? graph->model : NULL;
}

const shoal_graph_t *shoal_model_find_graph(const shoal_model_t *model, const char *name) {
  for (int64_t i = 0; i < model->graphs.count; ++i) {
    if (strcmp(model->graphs.items[i]->name, name) == 0) return model->graphs.items[i];
  }
  return NULL;
}

static bool find_type(const shoal_graph_t *graph, const shoal_named_t *items, int64_t count,
                      const char *name, shoal_type_t *out_type) {
  for (int64_t i = 0; i < count; ++i) {
    if (strcmp(items[i].name, name) != 0) continue;
    *out_type = graph->values.items[items[i].value].type;
    return true;
  }
  return false;
}

bool shoal_graph_input_type(const shoal_graph_t *graph, const char *name, shoal_type_t *out_type) {
  return graph && find_type(graph, graph->inputs.items, graph->inputs.count, name, out_type);
}

bool shoal_graph_output_type(const shoal_graph_t *graph, const char *name, shoal_type_t *out_type) {
  return graph && find_type(graph, graph->outputs.items, graph->outputs.count, name, out_type);
}

// ---- states ----------------------------------------------------------------------------

int64_t shoal_model_parameters(const shoal_model_t *model) {
  int64_t count = 0;
  for (int64_t s = 0; s < model->states.count; ++s) {
    const shoal_state_info_t *state = &model->states.items[s];
    if (state->options.trainable) count += shoal_shape_count(&state->type.shape);
  }
  return count;
}

int32_t shoal_model_find_state(const shoal_model_t *model, const char *name) {
  uint64_t hash = shoal_hash_string(SHOAL_HASH_START, name);
  for (int64_t at = -1, i; (i = shoal_index_next(&model->state_index, hash, &at)) >= 0;) {
    if (strcmp(model->states.items[i].name, name) == 0) return (int32_t)i;
  }
  return -1;
}

shoal_status_t shoal_model_add_state(shoal_model_t *model, const shoal_state_info_t *state,
                                     int32_t *out_state) {
  SHOAL_RETURN_IF_ERROR(shoal_type_check(&state->type));
  shoal_init_kind_t kind = state->options.init.kind;
  if (kind >= SHOAL_INIT_KIND_COUNT) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "unknown kind of initial value (%d)", (int)kind);
  }
  bool is_float = shoal_dtype_is_float(state->type.dtype);
  if (!is_float && (kind >= SHOAL_INIT_UNIFORM || state->options.trainable)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "state '%s' is %s: only floats can be random or trainable",
                       state->name, shoal_dtype_name(state->type.dtype));
  }
  const shoal_init_t *init = &state->options.init;
  if (kind >= SHOAL_INIT_UNIFORM && !(isfinite(init->a) && isfinite(init->b))) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "state '%s' starts with random numbers of %g and %g",
                       state->name, init->a, init->b);
  }
  int32_t index = (int32_t)model->states.count;
  if (!shoal_index_add(&model->state_index, shoal_hash_string(SHOAL_HASH_START, state->name),
                       model->states.count) ||
      !SHOAL_PUSH(&model->arena, &model->states, *state))
    return SHOAL_OOM();
  if (!model->init_rewritten) SHOAL_RETURN_IF_ERROR(shoal_model_write_init(model, index));
  *out_state = index;
  return NULL;
}

shoal_status_t shoal_model_write_init(shoal_model_t *model, int32_t state) {
  const shoal_state_info_t *info = &model->states.items[state];
  shoal_graph_t *init = model->graphs.items[0];
  const shoal_init_t *value = &info->options.init;
  bool random = value->kind >= SHOAL_INIT_UNIFORM;
  SHOAL_RETURN_IF_ERROR(shoal_graph_push_scope(init, random ? "" : info->name));
  int32_t id = init->builder->init_step;
  shoal_status_t status = NULL;
  if (random && id < 0) {  // random nodes of initialisation draw at step 0
    shoal_shape_t scalar = SHOAL_SCALAR;
    shoal_attr_t attrs[] = {shoal_attr_shape("shape", &scalar), shoal_attr_real("value", 0),
                            shoal_attr_dtype("dtype", SHOAL_I64)};
    SHOAL_GOTO_IF_ERROR(
        status, done,
        shoal_graph_emit(init, "shoal.full", 0, NULL, 3, attrs, info->file, info->line, 1, &id));
    init->builder->init_step = id;
  }
  if (random) {
    shoal_graph_pop_scope(init);
    SHOAL_RETURN_IF_ERROR(shoal_graph_push_scope(init, info->name));
    bool normal = value->kind != SHOAL_INIT_UNIFORM;
    bool cut = value->kind == SHOAL_INIT_TRUNCATED_NORMAL;
    bool usual = value->low == 0 && value->high == 0;
    uint64_t stream = shoal_hash_string(SHOAL_HASH_START, info->name);
    shoal_attr_t attrs[] = {shoal_attr_shape("shape", &info->type.shape),
                            shoal_attr_dtype("dtype", info->type.dtype),
                            shoal_attr_int("key", (int64_t)(model->seed ^ stream)),
                            shoal_attr_real(normal ? "mean" : "low", value->a),
                            shoal_attr_real(normal ? "std" : "high", value->b),
                            shoal_attr_real("low", usual ? -2 : value->low),
                            shoal_attr_real("high", usual ? 2 : value->high)};
    SHOAL_GOTO_IF_ERROR(
        status, done,
        shoal_graph_emit(init, normal ? "shoal.random_normal" : "shoal.random_uniform", 1, &id,
                         cut ? 7 : 5, attrs, info->file, info->line, 1, &id));
  } else {
    shoal_attr_t attrs[] = {shoal_attr_shape("shape", &info->type.shape),
                            shoal_attr_real("value", value->kind == SHOAL_INIT_FILL ? value->a : 0),
                            shoal_attr_dtype("dtype", info->type.dtype)};
    SHOAL_GOTO_IF_ERROR(
        status, done,
        shoal_graph_emit(init, "shoal.full", 0, NULL, 3, attrs, info->file, info->line, 1, &id));
  }
  status = shoal_graph_assign(init, state, id, -1);
done:
  shoal_graph_pop_scope(init);
  return status;
}

void shoal_freeze_at(shoal_model_t *model, const char *pattern, const char *file, int line) {
  if (!model || model->error) return;
  shoal_frozen_t frozen = {.pattern = shoal_arena_strdup(&model->arena, pattern ? pattern : ""),
                           .file = shoal_arena_strdup(&model->arena, file ? file : ""),
                           .line = line,
                           .late = model->minimized};
  if (!pattern || !pattern[0] || strlen(pattern) >= SHOAL_NAME_LIMIT) {
    shoal_model_fail(
        model, shoal_status_create(SHOAL_INVALID_ARGUMENT, file, line,
                                   "a pattern of states to freeze is empty or too long", NULL));
  } else if (!frozen.pattern || !frozen.file ||
             !SHOAL_PUSH(&model->arena, &model->frozen, frozen)) {
    shoal_model_fail_at(model, SHOAL_OOM(), file, line);
  }
}

bool shoal_model_freezes(shoal_model_t *model, const char *state) {
  bool frozen = false;
  for (int64_t i = 0; i < model->frozen.count; ++i) {
    if (!shoal_pattern_match(model->frozen.items[i].pattern, state)) continue;
    model->frozen.items[i].used = frozen = true;
  }
  return frozen;
}

// ---- hash ------------------------------------------------------------------------------

static uint64_t hash_double(uint64_t hash, double value) {
  return shoal_hash_bytes(hash, &value, sizeof value);
}

static uint64_t hash_init(uint64_t hash, const shoal_init_t *init) {
  hash = hash_double(hash_double(hash, init->a), init->b);
  if (init->kind != SHOAL_INIT_TRUNCATED_NORMAL) return hash;
  return hash_double(hash_double(hash, init->low), init->high);
}

static uint64_t hash_type(uint64_t hash, const shoal_type_t *type) {
  hash = shoal_hash_int(shoal_hash_int(hash, type->dtype), type->shape.rank);
  for (int32_t d = 0; d < type->shape.rank; ++d) hash = shoal_hash_int(hash, type->shape.dims[d]);
  return hash;
}

// `numbers`: also what only values depend on, never how a node may be cut.
static uint64_t hash_attr(uint64_t hash, shoal_attr_kind_t kind, bool numbers,
                          const shoal_attr_value_t *value) {
  switch (kind) {
    case SHOAL_ATTR_INT:
    case SHOAL_ATTR_DTYPE:
      return shoal_hash_int(hash, value->i);
    case SHOAL_ATTR_REAL:
      return numbers ? hash_double(hash, value->f) : hash;
    case SHOAL_ATTR_STRING:
      return shoal_hash_string(hash, value->s ? value->s : "");
    case SHOAL_ATTR_INTS:
      hash = shoal_hash_int(hash, value->count);
      for (int32_t i = 0; i < value->count; ++i)
        hash = shoal_hash_int(hash, shoal_attr_list(value)[i]);
      return hash;
    case SHOAL_ATTR_PLACE:
      return hash;  // a graph speaks of the whole
  }
  return hash;
}

static uint64_t hash_graph(uint64_t hash, bool numbers, const shoal_graph_t *graph) {
  hash = shoal_hash_string(hash, graph->name);
  for (int64_t i = 0; i < graph->values.count; ++i) {
    const shoal_value_info_t *value = &graph->values.items[i];
    hash = hash_type(shoal_hash_string(hash, value->name), &value->type);
    hash = shoal_hash_int(hash, value->source);
    if (value->source != SHOAL_FROM_NODE) hash = shoal_hash_int(hash, value->index);
  }
  for (int64_t i = 0; i < graph->nodes.count; ++i) {
    const shoal_node_t *node = &graph->nodes.items[i];
    hash = shoal_hash_string(shoal_hash_string(hash, node->op->name), node->name);
    hash = shoal_hash_int(hash, node->input_count);
    for (int32_t k = 0; k < node->input_count; ++k) hash = shoal_hash_int(hash, node->inputs[k]);
    for (int32_t k = 0; k < node->output_count; ++k) hash = shoal_hash_int(hash, node->outputs[k]);
    hash = shoal_hash_int(shoal_hash_int(hash, node->kind), node->of);
    if (node->stage > 0) hash = shoal_hash_int(hash, node->stage);
    if (node->sharing.kind != SHOAL_SHARE_NONE)
      hash = shoal_hash_int(shoal_hash_int(hash, -1 - (int64_t)node->sharing.kind),
                            node->sharing.ranks);
    if (node->recompute > 0) hash = shoal_hash_int(shoal_hash_int(hash, -16), node->recompute);
    for (int32_t k = 0; k < node->op->attr_count; ++k) {
      hash = hash_attr(hash, node->op->attrs[k].kind, numbers, &node->attrs[k]);
    }
  }
  for (int64_t i = 0; i < graph->constraints.count; ++i)
    hash = shoal_hash_int(shoal_hash_string(hash, graph->constraints.items[i].layout),
                          graph->constraints.items[i].value);
  for (int64_t i = 0; i < graph->outputs.count; ++i) {
    hash = shoal_hash_int(shoal_hash_string(hash, graph->outputs.items[i].name),
                          graph->outputs.items[i].value);
  }
  for (int64_t i = 0; i < graph->assigns.count; ++i) {
    hash = shoal_hash_int(hash, graph->assigns.items[i].state);
    hash = shoal_hash_int(hash, graph->assigns.items[i].value);
    hash = shoal_hash_int(hash, graph->assigns.items[i].predicate);
  }
  return hash;
}

static uint64_t hash_model(const shoal_model_t *model, bool numbers) {
  uint64_t hash = SHOAL_HASH_START;
  if (numbers) hash = shoal_hash_int(hash, (int64_t)model->seed);
  for (int64_t i = 0; i < model->states.count; ++i) {
    const shoal_state_info_t *state = &model->states.items[i];
    hash = hash_type(shoal_hash_string(hash, state->name), &state->type);
    hash = shoal_hash_int(hash, state->options.init.kind);
    if (numbers) hash = hash_init(hash, &state->options.init);
    hash = shoal_hash_int(hash, state->options.trainable * 2 + state->options.not_saved);
  }
  for (int64_t i = 0; i < model->graphs.count; ++i)
    hash = hash_graph(hash, numbers, model->graphs.items[i]);
  return hash;
}

uint64_t shoal_model_hash(const shoal_model_t *model) {
  return hash_model(model, true);
}

uint64_t shoal_model_structure_hash(const shoal_model_t *model) {
  return hash_model(model, false);
}

// The graphs of a run: for whole batches, for the short ones that will come up, and what is added
// to watch values. Watched values become outputs; of tensors the sum of squares does, which may be
// cut like any sum, and the root is taken where it is logged. Steps of models in which nothing is
// watched are those that were built.
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "graph/builder.h"
#include "shoal/ops.h"
#include "train/train_impl.h"

#define PREFIX "watch/"
enum { IGNORED = -100 };  // a label that losses leave out

const char *shoal_train_graph_name(shoal_trainer_t *t, const char *phase, int64_t rows) {
  if (rows == t->batch) return phase;
  char name[64];
  snprintf(name, sizeof name, "%s.%lld", phase, (long long)rows);
  const shoal_graph_t *graph = shoal_model_find_graph(t->model, name);
  return graph ? shoal_graph_name(graph) : shoal_arena_strdup(&t->arena, name);
}

// ---- watching -------------------------------------------------------------------------

// What the sum of squares of a value is for: part of the same pass as what made the value.
static shoal_purpose_t purpose_of(const shoal_graph_t *graph, const shoal_value_info_t *value) {
  shoal_purpose_t purpose = {SHOAL_NODE_UPDATE, -1};
  if (value->source == SHOAL_FROM_INPUT) purpose.kind = SHOAL_NODE_FORWARD;
  if (value->source != SHOAL_FROM_NODE) return purpose;
  const shoal_node_t *node = &graph->nodes.items[value->node];
  if (node->kind == SHOAL_NODE_FORWARD || node->kind == SHOAL_NODE_INPUT_GRADIENT) {
    purpose = (shoal_purpose_t){node->kind, node->of};
  }
  return purpose;
}

static shoal_status_t watch_value(shoal_graph_t *graph, int32_t id) {
  const shoal_value_info_t value = graph->values.items[id];
  const char *name = shoal_arena_printf(&graph->model->arena, PREFIX "%s", value.name);
  if (!name) return SHOAL_OOM();
  shoal_value_t watched = {graph, id};
  if (value.type.shape.rank > 0) {
    SHOAL_RETURN_IF_ERROR(shoal_graph_push_purpose(graph, purpose_of(graph, &value)));
    shoal_scope_push(graph, "/watch");
    watched = shoal_sum_squares(graph, watched);
    shoal_scope_pop(graph);
    shoal_graph_pop_purpose(graph);
  }
  shoal_output(graph, name, watched);
  return shoal_model_status(graph->model);
}

static bool is_output(const shoal_graph_t *graph, const char *name) {
  shoal_type_t type;
  return shoal_graph_output_type(graph, name, &type);
}

static shoal_status_t nothing_matches(shoal_trainer_t *t, const shoal_graph_t *graph,
                                      const char *pattern) {
  const int64_t count = graph->values.count;
  const char **names = SHOAL_NEW(&t->arena, const char *, count);
  for (int64_t i = 0; names && i < count; ++i) names[i] = graph->values.items[i].name;
  const char *near = names ? shoal_text_nearest(pattern, names, count) : NULL;
  const char *hint = near ? shoal_arena_printf(&t->arena, "did you mean '%s'?", near)
                          : "names are those of `shoal explain`, and '*' stands for anything";
  return SHOAL_ERROR_HINT(NOT_FOUND, hint, "watch '%s': no value of floats has that name", pattern);
}

static shoal_status_t watch(shoal_trainer_t *t, shoal_graph_t *graph) {
  const int64_t count = graph->values.count;  // not what is added here
  for (int64_t p = 0; t->options->watch && t->options->watch[p]; ++p) {
    const char *pattern = t->options->watch[p];
    bool any = false;
    SHOAL_RETURN_IF_ERROR(shoal_status_annotate(shoal_pattern_check(pattern), "watch"));
    for (int64_t i = 0; i < count; ++i) {
      const shoal_value_info_t *value = &graph->values.items[i];
      if (!shoal_dtype_is_float(value->type.dtype) || !shoal_pattern_match(pattern, value->name)) {
        continue;
      }
      any = true;
      char name[SHOAL_NAME_LIMIT + sizeof PREFIX];
      snprintf(name, sizeof name, PREFIX "%s", value->name);
      if (!is_output(graph, name)) SHOAL_RETURN_IF_ERROR(watch_value(graph, (int32_t)i));
    }
    if (!any) return nothing_matches(t, graph, pattern);
  }
  return NULL;
}

// ---- outputs --------------------------------------------------------------------------

static shoal_status_t list_outputs(shoal_trainer_t *t, const char *name,
                                   shoal_train_outputs_t *out_outputs) {
  const shoal_graph_t *graph = shoal_model_find_graph(t->model, name);
  for (int64_t i = 0; graph && i < graph->outputs.count; ++i) {
    const shoal_named_t *named = &graph->outputs.items[i];
    const shoal_type_t *type = &graph->values.items[named->value].type;
    if (type->shape.rank > 0) continue;
    if (strcmp(named->name, "loss") == 0) {
      out_outputs->has_loss = true;
      out_outputs->loss = type->dtype;
      continue;
    }
    const bool watched = strncmp(named->name, PREFIX, strlen(PREFIX)) == 0;
    const shoal_value_info_t *value = &graph->values.items[named->value];
    const char *label = watched ? named->name + strlen(PREFIX) : named->name;
    const shoal_train_output_t output = {
        .name = named->name,
        .label = label,
        .dtype = type->dtype,
        .watched = watched,
        .squared = watched && strcmp(value->name, label) != 0,
    };
    if (!SHOAL_PUSH(&t->arena, &out_outputs->list, output)) return SHOAL_OOM();
  }
  if (!out_outputs->has_loss) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "shoal_output(graph, \"loss\", loss)",
                            "graph '%s' puts out no scalar 'loss'", name);
  }
  if (out_outputs->list.count < SHOAL_TRAIN_METRICS) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "watch fewer values",
                          "graph '%s' puts out %lld scalars; at most %d are logged", name,
                          (long long)out_outputs->list.count + 1, SHOAL_TRAIN_METRICS);
}

static shoal_status_t check_best(const shoal_trainer_t *t) {
  const char *name = t->options->best;
  if (!name) return NULL;
  name += name[0] == '+';
  if (t->eval.has_loss && strcmp(name, "loss") == 0) return NULL;
  for (int64_t i = 0; i < t->eval.list.count; ++i) {
    if (strcmp(name, t->eval.list.items[i].label) == 0) return NULL;
  }
  return SHOAL_ERROR_HINT(
      INVALID_ARGUMENT,
      t->eval.has_loss ? "the metrics are the loss and the other scalar outputs of graph 'eval'"
                       : "say what to evaluate on",
      "there is no metric '%s' to know the best checkpoint by", name);
}

// ---- accuracy -------------------------------------------------------------------------

static shoal_value_t find_port(shoal_graph_t *graph, bool input, const char *name) {
  const int64_t count = input ? graph->inputs.count : graph->outputs.count;
  const shoal_named_t *ports = input ? graph->inputs.items : graph->outputs.items;
  for (int64_t i = 0; i < count; ++i) {
    if (strcmp(ports[i].name, name) == 0) return (shoal_value_t){graph, ports[i].value};
  }
  return shoal_none();
}

static void add_accuracy(shoal_graph_t *graph) {
  const shoal_value_t logits = find_port(graph, false, "logits"), y = find_port(graph, true, "y");
  if (!logits.graph || !y.graph || is_output(graph, "accuracy")) return;
  const shoal_type_t of_logits = shoal_value_type(logits), of_y = shoal_value_type(y);
  if (of_logits.shape.rank != 2 || of_y.shape.rank != 1 || of_y.dtype != SHOAL_I32) return;
  shoal_scope_push(graph, "/accuracy");
  const shoal_value_t guess = shoal_cast(graph, shoal_argmax(graph, logits, 1), of_y.dtype);
  const shoal_value_t right = shoal_cast(graph, shoal_equal(graph, guess, y), SHOAL_F32);
  const shoal_value_t none = shoal_full(graph, of_y.shape, IGNORED, of_y.dtype);
  const shoal_value_t counts = shoal_cast(graph, shoal_not_equal(graph, y, none), SHOAL_F32);
  const shoal_value_t rows = shoal_reduce_sum(graph, counts, SHOAL_SHAPE(0));
  const shoal_value_t one = shoal_full(graph, SHOAL_SCALAR, 1, SHOAL_F32);  // no label: 0
  const shoal_value_t share = shoal_div(graph, shoal_reduce_sum(graph, right, SHOAL_SHAPE(0)),
                                        shoal_maximum(graph, rows, one));
  shoal_scope_pop(graph);
  shoal_output(graph, "accuracy", share);
}

// ---- building -------------------------------------------------------------------------

static shoal_status_t build(shoal_trainer_t *t, const char *phase, int64_t rows) {
  const shoal_train_options_t *options = t->options;
  const char *name = shoal_train_graph_name(t, phase, rows);
  if (!name) return SHOAL_OOM();
  if (shoal_model_find_graph(t->model, name)) return NULL;
  if (!options->build) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                            rows == t->batch ? "build it, or give a build function"
                                             : "give a build function, or whole batches only",
                            "the model has no graph '%s'", name);
  }
  shoal_graph_t *graph = shoal_model_graph(t->model, name);
  options->build(options->build_self, graph, phase, rows);
  if (strcmp(phase, "eval") == 0 && options->eval_data) add_accuracy(graph);
  return shoal_model_status(t->model);
}

static shoal_status_t build_train(shoal_trainer_t *t) {
  const int64_t samples = t->samples;
  SHOAL_RETURN_IF_ERROR(build(t, "train", t->batch));
  if (t->options->last_batch == SHOAL_LAST_SHORT && samples > 0) {
    // A checkpoint may lie where batches of this size end otherwise.
    const int64_t rests[] = {samples % t->batch, (samples - t->cursor % samples) % t->batch};
    for (int i = 0; i < 2; ++i) {
      if (rests[i] > 0) SHOAL_RETURN_IF_ERROR(build(t, "train", rests[i]));
    }
  }
  for (int64_t g = 0; g < t->model->graphs.count; ++g) {
    shoal_graph_t *graph = t->model->graphs.items[g];
    if (strcmp(graph->name, "train") == 0 || strncmp(graph->name, "train.", 6) == 0) {
      SHOAL_RETURN_IF_ERROR(watch(t, graph));
    }
  }
  return list_outputs(t, "train", &t->train);
}

static shoal_status_t build_eval(shoal_trainer_t *t) {
  const int64_t rest = t->eval_samples % t->batch;
  if (t->eval_samples <= 0) return NULL;
  SHOAL_RETURN_IF_ERROR(build(t, "eval", t->batch));
  if (rest > 0) SHOAL_RETURN_IF_ERROR(build(t, "eval", rest));
  return list_outputs(t, "eval", &t->eval);
}

// A ready model's batch: the rows of its first input that has any.
static int64_t rows_of(const shoal_model_t *model, const char *name) {
  const shoal_graph_t *graph = shoal_model_find_graph(model, name);
  for (int64_t i = 0; graph && i < graph->inputs.count; ++i) {
    const shoal_shape_t *shape = &graph->values.items[graph->inputs.items[i].value].type.shape;
    if (shape->rank > 0) return shape->dims[0];
  }
  return 0;
}

static void count_samples(shoal_trainer_t *t) {
  const shoal_train_options_t *o = t->options;
  t->samples = o->samples;
  t->eval_samples = o->eval_samples;
  if (o->feed) return;
  if (!o->eval_data && o->eval_next) {
    t->samples = o->data ? shoal_dataset_count(o->data) : 0;
    t->eval_samples = t->batch;
    return;
  }
  const int64_t held_out = o->eval_data ? shoal_dataset_count(o->eval_data) : 0;
  t->samples = o->data ? shoal_dataset_count(o->data) : 0;
  if (t->eval_samples <= 0 || t->eval_samples > held_out) t->eval_samples = held_out;
}

static void count_items(shoal_trainer_t *t, const char *name) {
  shoal_type_t ids;
  const bool tokens = shoal_graph_input_type(shoal_model_find_graph(t->model, name), "ids", &ids) &&
                      ids.shape.rank > 1;
  t->unit = tokens ? "tokens" : "samples";
  t->items = tokens ? ids.shape.dims[1] : 1;
}

// The rate of a step is an output where it changes; else it is the state.
static void find_rate(shoal_trainer_t *t) {
  for (int64_t i = 0; i < t->model->states.count; ++i) {
    const shoal_state_info_t *state = &t->model->states.items[i];
    if (strcmp(state->name, "lr") == 0) t->has_lr = state->type.dtype == SHOAL_F32;
  }
  for (int64_t i = 0; i < t->train.list.count; ++i) {
    const char *label = t->train.list.items[i].label;
    if (strcmp(label, "rate") == 0 || strcmp(label, "lr") == 0) t->has_lr = false;
  }
}

static shoal_status_t count_flops(shoal_trainer_t *t) {
  const shoal_graph_t *graph = shoal_model_find_graph(t->model, "train");
  for (int64_t i = 0; graph && i < graph->nodes.count; ++i) {
    shoal_call_t call;
    SHOAL_RETURN_IF_ERROR(shoal_node_call(graph, &graph->nodes.items[i], &t->arena, &call));
    t->flops += shoal_op_cost(&call).flops;
  }
  return NULL;
}

static shoal_status_t list_parameters(shoal_trainer_t *t) {
  for (int64_t i = 0; i < t->model->states.count; ++i) {
    const shoal_state_info_t *state = &t->model->states.items[i];
    if (state->options.trainable && !SHOAL_PUSH(&t->arena, &t->parameters, state->name))
      return SHOAL_OOM();
  }
  return NULL;
}

shoal_status_t shoal_train_model(shoal_trainer_t *t, bool train) {
  const shoal_train_options_t *options = t->options;
  t->model = options->model;
  if (!t->model) {
    const shoal_model_options_t of_model = {.allocator = t->allocator,
                                            .registry = options->registry,
                                            .seed = options->seed,
                                            .mixed = options->mixed};
    SHOAL_RETURN_IF_ERROR(shoal_model_create(&of_model, &t->owned_model));
    t->model = t->owned_model;
  }
  SHOAL_RETURN_IF_ERROR(shoal_model_status(t->model));
  if (options->model) {
    const int64_t rows = rows_of(t->model, train ? "train" : "eval");
    t->batch = rows > 0 ? rows : t->batch;
  }
  count_samples(t);
  if (train) SHOAL_RETURN_IF_ERROR(build_train(t));
  SHOAL_RETURN_IF_ERROR(build_eval(t));
  SHOAL_RETURN_IF_ERROR(shoal_model_status(t->model));
  if (train) SHOAL_RETURN_IF_ERROR(check_best(t));
  count_items(t, train ? "train" : "eval");
  if (!train) return NULL;
  SHOAL_RETURN_IF_ERROR(list_parameters(t));
  SHOAL_RETURN_IF_ERROR(shoal_train_scales_find(t));
  find_rate(t);
  return count_flops(t);
}

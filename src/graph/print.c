// Printing a model:
//   model seed=7
//   freeze "block0/*"
//   state fc1/weight f32[784, 256] normal(0, 0.02) trainable
//   graph train
//     %0 = input x f32[64, 784]
//     %1 = state fc1/weight
//     %2 "fc1/einsum" = shoal.einsum(%0, %1) {equation="bc,cn->bn"} : f32[64, 256]
//     %3, %4 "attn" = shoal.attention(...) : f32[2, 4], f32[2]
//     %5 as "softmax" "softmax/div" = shoal.div(%2, %4) : ...    a value that has not its node's
//     name assign fc1/weight = %17 output loss = %9
// parse.c reads it back: the same names, ids, types, attributes, to the bit. Attributes that have
// their default are left out, and so is "init" while it follows from the states.
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "graph/builder.h"

// Names that a scanner would not take as one word (they may start with a digit) are quoted.
static void add_name(shoal_text_t *text, const char *name) {
  char c = name[0];
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_') {
    shoal_text_add(text, name);
  } else {
    shoal_text_add_quoted(text, name);
  }
}

static void add_ints(shoal_text_t *text, int32_t count, const int64_t *values) {
  shoal_text_add(text, "[");
  for (int32_t i = 0; i < count; ++i) {
    shoal_text_addf(text, "%s%lld", i ? ", " : "", (long long)values[i]);
  }
  shoal_text_add(text, "]");
}

static void add_type(shoal_text_t *text, const shoal_type_t *type) {
  shoal_text_add(text, shoal_dtype_name(type->dtype));
  add_ints(text, type->shape.rank, type->shape.dims);
}

static void add_state(shoal_text_t *text, const shoal_state_info_t *state) {
  static const char *const kinds[] = {[SHOAL_INIT_ZEROS] = "zeros",
                                      [SHOAL_INIT_FILL] = "fill",
                                      [SHOAL_INIT_UNIFORM] = "uniform",
                                      [SHOAL_INIT_NORMAL] = "normal"};
  const shoal_init_t *init = &state->options.init;
  shoal_text_add(text, "state ");
  add_name(text, state->name);
  shoal_text_add(text, " ");
  add_type(text, &state->type);
  shoal_text_addf(text, " %s", kinds[init->kind]);
  if (init->kind != SHOAL_INIT_ZEROS) {
    shoal_text_add(text, "(");
    shoal_text_add_double(text, init->a);
    if (init->kind != SHOAL_INIT_FILL) {
      shoal_text_add(text, ", ");
      shoal_text_add_double(text, init->b);
    }
    shoal_text_add(text, ")");
  }
  shoal_text_addf(text, "%s%s\n", state->options.trainable ? " trainable" : "",
                  state->options.not_saved ? " not_saved" : "");
}

static bool is_default(const shoal_attr_schema_t *schema, const shoal_attr_value_t *value) {
  const shoal_attr_value_t *fallback = &schema->fallback;
  if (!schema->optional) return false;
  switch (schema->kind) {
    case SHOAL_ATTR_INT:
    case SHOAL_ATTR_DTYPE:
      return value->i == fallback->i;
    case SHOAL_ATTR_REAL:
      return memcmp(&value->f, &fallback->f, sizeof value->f) == 0;
    case SHOAL_ATTR_STRING:
      return strcmp(value->s ? value->s : "", fallback->s ? fallback->s : "") == 0;
    case SHOAL_ATTR_INTS:
      return value->count == fallback->count &&
             memcmp(value->ints, fallback->ints, (size_t)value->count * sizeof(int64_t)) == 0;
    case SHOAL_ATTR_PLACE:
      return true;
  }
  return false;
}

static void add_attr(shoal_text_t *text, shoal_attr_kind_t kind, const shoal_attr_value_t *value) {
  switch (kind) {
    case SHOAL_ATTR_INT:
      shoal_text_addf(text, "%lld", (long long)value->i);
      break;
    case SHOAL_ATTR_INTS:
      add_ints(text, value->count, value->ints);
      break;
    case SHOAL_ATTR_REAL:
      shoal_text_add_double(text, value->f);
      break;
    case SHOAL_ATTR_STRING:
      shoal_text_add_quoted(text, value->s ? value->s : "");
      break;
    case SHOAL_ATTR_DTYPE:
      shoal_text_add(text, shoal_dtype_name((shoal_dtype_t)value->i));
      break;
    case SHOAL_ATTR_PLACE:
      break;
  }
}

static void add_node(shoal_text_t *text, const shoal_graph_t *graph, const shoal_node_t *node) {
  char buffer[SHOAL_NAME_LIMIT + 64];
  shoal_text_add(text, "  ");
  for (int32_t i = 0; i < node->output_count; ++i) {
    const shoal_value_info_t *value = &graph->values.items[node->outputs[i]];
    shoal_text_addf(text, "%s%%%d", i ? ", " : "", (int)node->outputs[i]);
    if (strcmp(value->name, shoal_node_value_name(node, i, buffer)) != 0) {
      shoal_text_add(text, " as ");
      shoal_text_add_quoted(text, value->name);
    }
  }
  shoal_text_addf(text, " \"%s\" = %s(", node->name, node->op->name);
  for (int32_t i = 0; i < node->input_count; ++i) {
    shoal_text_addf(text, "%s%%%d", i ? ", " : "", (int)node->inputs[i]);
  }
  shoal_text_add(text, ")");
  bool any = false;
  for (int32_t i = 0; i < node->op->attr_count; ++i) {
    if (is_default(&node->op->attrs[i], &node->attrs[i])) continue;
    shoal_text_addf(text, "%s%s=", any ? ", " : " {", node->op->attrs[i].name);
    add_attr(text, node->op->attrs[i].kind, &node->attrs[i]);
    any = true;
  }
  shoal_text_add(text, any ? "} :" : " :");
  for (int32_t i = 0; i < node->output_count; ++i) {
    shoal_text_add(text, i ? ", " : " ");
    add_type(text, &graph->values.items[node->outputs[i]].type);
  }
  shoal_text_add(text, "\n");
}

static void add_graph(shoal_text_t *text, const shoal_graph_t *graph) {
  shoal_text_add(text, "graph ");
  add_name(text, graph->name);
  shoal_text_add(text, "\n");
  for (int64_t i = 0; i < graph->values.count; ++i) {
    const shoal_value_info_t *value = &graph->values.items[i];
    if (value->source == SHOAL_FROM_NODE) {
      if (value->output == 0) add_node(text, graph, &graph->nodes.items[value->node]);
      continue;
    }
    shoal_text_addf(text, "  %%%d = %s ", (int)i,
                    value->source == SHOAL_FROM_INPUT ? "input" : "state");
    add_name(text, value->name);
    if (value->source == SHOAL_FROM_INPUT) {
      shoal_text_add(text, " ");
      add_type(text, &value->type);
    }
    shoal_text_add(text, "\n");
  }
  for (int64_t i = 0; i < graph->assigns.count; ++i) {
    shoal_text_add(text, "  assign ");
    add_name(text, graph->model->states.items[graph->assigns.items[i].state].name);
    shoal_text_addf(text, " = %%%d\n", (int)graph->assigns.items[i].value);
  }
  for (int64_t i = 0; i < graph->outputs.count; ++i) {
    shoal_text_add(text, "  output ");
    add_name(text, graph->outputs.items[i].name);
    shoal_text_addf(text, " = %%%d\n", (int)graph->outputs.items[i].value);
  }
}

shoal_status_t shoal_model_print(const shoal_model_t *model, shoal_arena_t *arena,
                                 const char **out_text) {
  SHOAL_RETURN_IF_ERROR(shoal_model_status(model));
  shoal_text_t text;
  shoal_text_init(model->allocator, &text);
  shoal_text_addf(&text, "model seed=%lld\n", (long long)model->seed);
  for (int64_t i = 0; i < model->frozen.count; ++i) {
    shoal_text_add(&text, "freeze ");
    shoal_text_add_quoted(&text, model->frozen.items[i]);
    shoal_text_add(&text, "\n");
  }
  for (int64_t i = 0; i < model->states.count; ++i) add_state(&text, &model->states.items[i]);
  for (int64_t i = model->init_rewritten ? 0 : 1; i < model->graphs.count; ++i) {
    add_graph(&text, model->graphs.items[i]);
  }
  shoal_status_t status = shoal_text_status(&text);
  const char *copy = status ? NULL : shoal_arena_strdup(arena, shoal_text_string(&text));
  shoal_text_deinit(&text);
  if (!status && !copy) status = SHOAL_OOM();
  if (!status) *out_text = copy;
  return status;
}

// Printing a model:
//   model seed=7
//   freeze "block0/*"
//   state fc1/weight f32[784, 256] normal(0, 0.02) trainable
//   graph train
//     %0 = input x f32[64, 784]
//     %1 = state fc1/weight
//     %2 "fc1/einsum" = shoal.einsum(%0, %1) {equation="bc,cn->bn"} : f32[64, 256]
//     %3, %4 "attn" = shoal.attention(...) : f32[2, 4], f32[2]
//     %8 "grad/fc1/einsum/einsum" = shoal.einsum(%7, %1) {...} : f32[64, 784] weight_gradient of
//     "fc1/einsum"                                              its kind, unless it is forward
//     %9 "relu" = shoal.relu(%2) : f32[64, 256] stage 1         as shoal_with_stage asks for
//     %10 "tanh" = shoal.tanh(%9) : f32[64, 256] split 8        as shoal_with_split asks for
//     %5 as "softmax" "softmax/div" = shoal.div(%2, %4) : ...   its name is not its node's
//     assign fc1/weight = %17
//     assign fc1/bias = %18 if %12
//     output loss = %9
// parse.c reads it back: the same names, ids, types, attributes, to the bit. Attributes that have
// their default are left out, and so is "init" while it follows from the states.
#include <string.h>

#include "base/status.h"
#include "graph/builder.h"
#include "op/text.h"

static void add_state(shoal_text_t *text, const shoal_state_info_t *state) {
  static const char *const kinds[] = {[SHOAL_INIT_ZEROS] = "zeros",
                                      [SHOAL_INIT_FILL] = "fill",
                                      [SHOAL_INIT_UNIFORM] = "uniform",
                                      [SHOAL_INIT_NORMAL] = "normal",
                                      [SHOAL_INIT_TRUNCATED_NORMAL] = "truncated_normal"};
  const shoal_init_t *init = &state->options.init;
  shoal_text_add(text, "state ");
  shoal_text_add_name(text, state->name);
  shoal_text_add(text, " ");
  shoal_text_add_type(text, &state->type);
  shoal_text_addf(text, " %s", kinds[init->kind]);
  const double numbers[] = {init->a, init->b, init->low, init->high};
  for (int32_t k = 0; k < shoal_init_numbers(init->kind); ++k) {
    shoal_text_add(text, k ? ", " : "(");
    shoal_text_add_double(text, numbers[k]);
  }
  if (init->kind != SHOAL_INIT_ZEROS) shoal_text_add(text, ")");
  shoal_text_addf(text, "%s%s\n", state->options.trainable ? " trainable" : "",
                  state->options.not_saved ? " not_saved" : "");
}

static shoal_status_t add_node(shoal_text_t *text, const shoal_graph_t *graph,
                               const shoal_node_t *node) {
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
  SHOAL_RETURN_IF_ERROR(shoal_text_add_attrs(text, node->op, node->attrs));
  for (int32_t i = 0; i < node->output_count; ++i) {
    shoal_text_add(text, i ? ", " : " : ");
    shoal_text_add_type(text, &graph->values.items[node->outputs[i]].type);
  }
  if (node->kind != SHOAL_NODE_FORWARD) {
    shoal_text_addf(text, " %s", shoal_node_kind_name(node->kind));
    if (node->of >= 0) shoal_text_addf(text, " of \"%s\"", graph->nodes.items[node->of].name);
  }
  if (node->stage > 0) shoal_text_addf(text, " stage %d", (int)node->stage - 1);
  if (node->sharing.kind != SHOAL_SHARE_NONE)
    shoal_text_addf(text, " %s %d", shoal_share_name(node->sharing.kind), (int)node->sharing.ranks);
  if (node->recompute > 0) shoal_text_addf(text, " recompute %d", (int)node->recompute - 1);
  shoal_text_add(text, "\n");
  return NULL;
}

static shoal_status_t add_graph(shoal_text_t *text, const shoal_graph_t *graph) {
  shoal_text_add(text, "graph ");
  shoal_text_add_name(text, graph->name);
  shoal_text_add(text, "\n");
  for (int64_t i = 0; i < graph->values.count; ++i) {
    const shoal_value_info_t *value = &graph->values.items[i];
    if (value->source == SHOAL_FROM_NODE) {
      if (value->output > 0) continue;
      SHOAL_RETURN_IF_ERROR(add_node(text, graph, &graph->nodes.items[value->node]));
      continue;
    }
    shoal_text_addf(text, "  %%%d = %s ", (int)i,
                    value->source == SHOAL_FROM_INPUT ? "input" : "state");
    shoal_text_add_name(text, value->name);
    if (value->source == SHOAL_FROM_INPUT) {
      shoal_text_add(text, " ");
      shoal_text_add_type(text, &value->type);
    }
    shoal_text_add(text, "\n");
  }
  for (int64_t i = 0; i < graph->assigns.count; ++i) {
    shoal_text_add(text, "  assign ");
    shoal_text_add_name(text, graph->model->states.items[graph->assigns.items[i].state].name);
    shoal_text_addf(text, " = %%%d", (int)graph->assigns.items[i].value);
    if (graph->assigns.items[i].predicate >= 0)
      shoal_text_addf(text, " if %%%d", (int)graph->assigns.items[i].predicate);
    shoal_text_add(text, "\n");
  }
  for (int64_t i = 0; i < graph->constraints.count; ++i) {
    shoal_text_addf(text, "  constrain %%%d ", (int)graph->constraints.items[i].value);
    shoal_text_add_quoted(text, graph->constraints.items[i].layout);
    shoal_text_add(text, "\n");
  }
  for (int64_t i = 0; i < graph->outputs.count; ++i) {
    shoal_text_add(text, "  output ");
    shoal_text_add_name(text, graph->outputs.items[i].name);
    shoal_text_addf(text, " = %%%d\n", (int)graph->outputs.items[i].value);
  }
  return NULL;
}

shoal_status_t shoal_model_print(const shoal_model_t *model, shoal_arena_t *arena,
                                 const char **out_text) {
  SHOAL_RETURN_IF_ERROR(shoal_model_status(model));
  shoal_text_t text;
  shoal_text_init(model->allocator, &text);
  shoal_text_addf(&text, "model seed=%lld\n", (long long)model->seed);
  for (int64_t i = 0; i < model->frozen.count; ++i) {
    shoal_text_add(&text, "freeze ");
    shoal_text_add_quoted(&text, model->frozen.items[i].pattern);
    shoal_text_add(&text, "\n");
  }
  for (int64_t i = 0; i < model->states.count; ++i) add_state(&text, &model->states.items[i]);
  shoal_status_t status = NULL;
  for (int64_t i = model->init_rewritten ? 0 : 1; !status && i < model->graphs.count; ++i) {
    status = add_graph(&text, model->graphs.items[i]);
  }
  return shoal_text_close(&text, status, arena, out_text);
}

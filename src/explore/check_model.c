// The call as a graph: inputs a0, a1 .., one node, its outputs out0 .., and a "loss" that projects
// the float outputs on pseudo-random numbers p0 .., so that gradients of all outputs are checked at
// once.
#include <string.h>

#include "base/dtype.h"
#include "explore/check_ops.h"

static shoal_value_t one_node(shoal_graph_t *g, const char *op, int32_t count,
                              const shoal_value_t *inputs, int32_t attr_count,
                              const shoal_attr_t *attrs) {
  shoal_value_t out;
  shoal_node_add(g, op, count, inputs, attr_count, attrs, 1, &out);
  return out;
}

// sum(out * p<index>)
static shoal_value_t project(checker_t *c, shoal_graph_t *g, int32_t index, shoal_value_t out) {
  static const int64_t dims[SHOAL_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
  const shoal_type_t type = shoal_value_type(out);
  const char *name = shoal_arena_printf(&c->arena, "p%d", (int)index);
  if (!name) return (shoal_value_t){NULL, -1};
  const shoal_value_t pair[] = {out, shoal_input(g, name, type.dtype, type.shape)};
  const shoal_value_t product = one_node(g, "shoal.mul", 2, pair, 0, NULL);
  const shoal_attr_t attrs[] = {shoal_attr_ints("dims", type.shape.rank, dims),
                                shoal_attr_int("keep", 0)};
  return one_node(g, "shoal.reduce_sum", 1, &product, 2, attrs);
}

// The node, with all attributes but places; outputs are in the arena.
static shoal_status_t add_node(checker_t *c, const subject_t *s, shoal_graph_t *g, check_model_t *m,
                               shoal_value_t **out_outputs) {
  const shoal_op_t *op = s->call.op;
  shoal_value_t *inputs = SHOAL_NEW(&c->arena, shoal_value_t, s->call.input_count);
  shoal_value_t *outputs = SHOAL_NEW(&c->arena, shoal_value_t, s->call.output_count);
  shoal_attr_t *attrs = SHOAL_NEW(&c->arena, shoal_attr_t, op->attr_count);
  m->inputs = SHOAL_NEW(&c->arena, int32_t, s->call.input_count);
  if (!inputs || !outputs || !attrs || !m->inputs) return SHOAL_OOM();
  for (int32_t i = 0; i < s->call.input_count; ++i) {
    const char *name = shoal_arena_printf(&c->arena, "a%d", (int)i);
    if (!name) return SHOAL_OOM();
    inputs[i] = shoal_input(g, name, s->call.inputs[i].dtype, s->call.inputs[i].shape);
    m->inputs[i] = inputs[i].id;
    m->float_count += shoal_dtype_is_float(s->call.inputs[i].dtype);
  }
  int32_t count = 0;
  for (int32_t i = 0; i < op->attr_count; ++i) {
    if (op->attrs[i].kind == SHOAL_ATTR_PLACE) continue;
    attrs[count] = (shoal_attr_t){op->attrs[i].name, op->attrs[i].kind, s->call.attrs[i]};
    ++count;
  }
  shoal_node_add(g, op->name, s->call.input_count, inputs, count, attrs, s->call.output_count,
                 outputs);
  *out_outputs = outputs;
  return shoal_model_status(m->model);
}

static shoal_status_t build(checker_t *c, const subject_t *s, int32_t which, check_model_t *m) {
  shoal_graph_t *g = shoal_model_graph(m->model, "f");
  shoal_value_t *outputs = NULL, loss = {NULL, -1};
  if (!g) return shoal_model_status(m->model);
  SHOAL_RETURN_IF_ERROR(add_node(c, s, g, m, &outputs));
  for (int32_t i = 0; i < s->call.output_count; ++i) {
    const shoal_dtype_t dtype = shoal_value_type(outputs[i]).dtype;
    const char *name = shoal_arena_printf(&c->arena, "out%d", (int)i);
    if (!name) return SHOAL_OOM();
    shoal_output(g, name, outputs[i]);
    m->outputs += shoal_dtype_is_float(dtype);
    if (!shoal_dtype_is_float(dtype) || (which >= 0 && which != i)) continue;
    if (loss.graph && dtype != shoal_value_type(loss).dtype) continue;
    const shoal_value_t pair[] = {loss, project(c, g, i, outputs[i])};
    loss = loss.graph ? one_node(g, "shoal.add", 2, pair, 0, NULL) : pair[1];
  }
  if (loss.graph) shoal_output(g, "loss", loss);
  m->loss = loss.graph ? loss.id : -1;
  SHOAL_RETURN_IF_ERROR(shoal_model_status(m->model));
  return shoal_model_verify(m->model);
}

shoal_status_t check_model_make(checker_t *c, const subject_t *s, int32_t which,
                                check_model_t *out) {
  const shoal_model_options_t options = {.registry = c->registry, .seed = 5};
  *out = (check_model_t){.loss = -1};
  shoal_status_t status = shoal_model_create(&options, &out->model);
  if (!status) status = build(c, s, which, out);
  if (status) check_model_free(out);
  return status;
}

void check_model_free(check_model_t *m) {
  shoal_model_free(m->model);
  m->model = NULL;
}

shoal_status_t check_model_gradients(const check_model_t *m, shoal_model_t *model,
                                     shoal_arena_t *arena, int32_t **out_values) {
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t *wrt = SHOAL_NEW(arena, shoal_value_t, m->float_count);
  shoal_value_t *gradients = SHOAL_NEW(arena, shoal_value_t, m->float_count);
  int32_t *values = SHOAL_NEW(arena, int32_t, m->float_count), count = 0;
  if (!g || !wrt || !gradients || !values) return SHOAL_OOM();
  shoal_value_t loss = {g, -1};  // a copy of the model may number it otherwise
  for (int64_t i = 0; i < g->outputs.count; ++i) {
    if (strcmp(g->outputs.items[i].name, "loss") == 0) loss.id = g->outputs.items[i].value;
  }
  for (int64_t i = 0; i < g->inputs.count; ++i) {
    const int32_t value = g->inputs.items[i].value;
    const bool is_operand = g->inputs.items[i].name[0] == 'a';
    if (!is_operand || !shoal_dtype_is_float(g->values.items[value].type.dtype)) continue;
    wrt[count++] = (shoal_value_t){g, value};
  }
  shoal_gradients(g, loss, count, wrt, gradients);
  SHOAL_RETURN_IF_ERROR(shoal_model_status(model));
  for (int32_t i = 0; i < count; ++i) values[i] = gradients[i].id;
  *out_values = values;
  return shoal_model_verify(model);
}

shoal_status_t check_model_feed(checker_t *c, const subject_t *s, const shoal_model_t *model,
                                shoal_interpreter_t *interpreter) {
  const shoal_graph_t *g = shoal_model_find_graph(model, "f");
  const shoal_case_t plain = {0};
  shoal_tensor_t *inputs = NULL;
  int32_t operand = 0;
  SHOAL_RETURN_IF_ERROR(subject_inputs(c, s, &inputs));
  for (int64_t i = 0; i < g->inputs.count; ++i) {
    const char *name = g->inputs.items[i].name;
    shoal_tensor_t fed;
    if (name[0] == 'a') {
      fed = inputs[operand++];  // inputs come in the order in which they were added
    } else {
      SHOAL_RETURN_IF_ERROR(
          check_tensor(c, &g->values.items[g->inputs.items[i].value].type, 0, &fed));
      shoal_case_fill(&plain, 0, s->seed + 12 + (uint64_t)i, fed);
    }
    SHOAL_RETURN_IF_ERROR(
        shoal_interpreter_feed(interpreter, name, fed.data, shoal_tensor_bytes(&fed)));
  }
  return NULL;
}

// One graph: a compute instruction per node, and between nodes whatever brings a value from the
// layout it was made in to the layout it is wanted in. Three steps, each only where needed:
//   leave the loop    micro:partial is accumulated, micro:dim is gathered, once per micro-batch
//   reshard           between layouts of one mesh or two; the only communication
//   enter the loop    a micro-batch's part is sliced out
// so a gradient is summed over micro-batches first and reduced over ranks once.
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "base/text.h"
#include "lower/build.h"
#include "op/reduce.h"
#include "plan/cut.h"
#include "program/key.h"

typedef struct graph_lowering {
  build_t *b;
  const shoal_graph_plan_t *gp;
  const shoal_graph_t *graph;
  graph_build_t *out;
  int32_t *homes;   // buffer of each value as produced; -1: not yet
  int32_t *copies;  // by value: its buffers in other layouts, a list by next_copy; -1: none
  SHOAL_VEC(shoal_named_t) fetches;
} graph_lowering_t;

static global_buffer_t *buffer_at(const graph_lowering_t *l, int32_t index) {
  return l->b->buffers.items[index];
}

static shoal_status_t new_buffer(graph_lowering_t *l, global_buffer_t proto, int32_t *out_index) {
  global_buffer_t *buffer = SHOAL_NEW(l->b->arena, global_buffer_t, 1);
  if (!buffer) return SHOAL_OOM();
  *buffer = proto;
  *out_index = (int32_t)l->b->buffers.count;
  if (!SHOAL_PUSH(l->b->arena, &l->b->buffers, buffer)) return SHOAL_OOM();
  return NULL;
}

static shoal_status_t new_instruction(graph_lowering_t *l, shoal_opcode_t opcode, const char *name,
                                      phase_t phase, int32_t depth, int32_t input, int32_t output,
                                      global_instruction_t **out_instruction) {
  global_instruction_t *in = SHOAL_NEW(l->b->arena, global_instruction_t, 1);
  if (!in) return SHOAL_OOM();
  in->phase = phase;
  in->depth = in->send_depth = depth;
  in->one_input = input;
  in->one_output = output;
  in->code = (shoal_instruction_t){.opcode = opcode, .name = name, .predicate = -1};
  in->code.queue = opcode == SHOAL_OPCODE_RESHARD ? SHOAL_QUEUE_COMM
                   : opcode == SHOAL_OPCODE_FEED || opcode == SHOAL_OPCODE_FETCH
                       ? SHOAL_QUEUE_COPY
                       : SHOAL_QUEUE_COMPUTE;
  if (input >= 0) in->code.inputs = &in->one_input, in->code.input_count = 1;
  if (output >= 0) in->code.outputs = &in->one_output, in->code.output_count = 1;
  if (!SHOAL_PUSH(l->b->arena, &l->out->instructions, in)) return SHOAL_OOM();
  if (out_instruction) *out_instruction = in;
  return NULL;
}

// A layout of the program with some of the cuts of another.
static shoal_status_t keep_cuts(graph_lowering_t *l, const shoal_layout_t *layout,
                                const bool kept[SHOAL_MAX_CUTS],
                                const shoal_layout_t **out_layout) {
  shoal_layout_t out = *layout;
  out.cut_count = 0;
  for (int32_t i = 0; i < layout->cut_count; ++i)
    if (kept[i]) out.cuts[out.cut_count++] = layout->cuts[i];
  return shoal_layouts_keep(&l->b->layouts, &out, out_layout);
}

static shoal_status_t without_micro(graph_lowering_t *l, const shoal_layout_t *layout,
                                    const shoal_layout_t **out_layout) {
  bool kept[SHOAL_MAX_CUTS];
  for (int32_t i = 0; i < layout->cut_count; ++i)
    kept[i] = layout->cuts[i].axis != SHOAL_AXIS_MICRO;
  return keep_cuts(l, layout, kept, out_layout);
}

// `layout` without micro and without what is cut inside it along the same dim. Micro-batches are
// outermost: a rank's rows of all of them are not the rows it would have without them, so a value
// enters and leaves the loop whole along that dim.
static shoal_status_t outside_loop(graph_lowering_t *l, const shoal_layout_t *layout,
                                   const shoal_cut_t *micro, bool keep_micro,
                                   const shoal_layout_t **out_layout) {
  bool kept[SHOAL_MAX_CUTS];
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    bool inside =
        cut->kind == SHOAL_CUT_FLAT || (cut->kind == SHOAL_CUT_DIM && cut->dim == micro->dim);
    kept[i] = cut->axis == SHOAL_AXIS_MICRO ? keep_micro : !inside;
  }
  return keep_cuts(l, layout, kept, out_layout);
}

// A copy of `value` in this layout that exists already, or -1.
static int32_t find_copy(const graph_lowering_t *l, int32_t value, const shoal_layout_t *layout) {
  for (int32_t i = l->copies[value]; i >= 0; i = buffer_at(l, i)->next_copy)
    if (shoal_layout_equal(buffer_at(l, i)->layout, layout)) return i;
  return -1;
}

static shoal_status_t new_copy(graph_lowering_t *l, int32_t from, const shoal_layout_t *layout,
                               phase_t phase, int32_t depth, int32_t *out_index) {
  const global_buffer_t *source = buffer_at(l, from);
  SHOAL_RETURN_IF_ERROR(new_buffer(l,
                                   (global_buffer_t){.name = source->name,
                                                     .value = source->value,
                                                     .kind = SHOAL_BUFFER_TEMP,
                                                     .state = -1,
                                                     .type = source->type,
                                                     .layout = layout,
                                                     .next_copy = l->copies[source->value],
                                                     .phase = phase,
                                                     .depth = depth},
                                   out_index));
  l->copies[source->value] = *out_index;
  return NULL;
}

static shoal_status_t reshard(graph_lowering_t *l, int32_t from, const shoal_layout_t *need,
                              int32_t *out_index);

static shoal_status_t leave_loop(graph_lowering_t *l, int32_t from, const shoal_cut_t *micro,
                                 int32_t *out_index) {
  if (micro->kind == SHOAL_CUT_DIM) {
    const shoal_layout_t *whole = NULL;
    SHOAL_RETURN_IF_ERROR(outside_loop(l, buffer_at(l, from)->layout, micro, true, &whole));
    if (!shoal_layout_equal(buffer_at(l, from)->layout, whole))
      SHOAL_RETURN_IF_ERROR(reshard(l, from, whole, &from));
  }
  const global_buffer_t *source = buffer_at(l, from);
  const shoal_layout_t *layout = NULL;
  SHOAL_RETURN_IF_ERROR(without_micro(l, source->layout, &layout));
  if ((*out_index = find_copy(l, source->value, layout)) >= 0) return NULL;
  SHOAL_RETURN_IF_ERROR(new_copy(l, from, layout, PHASE_AFTER, 0, out_index));
  global_instruction_t *in = NULL;
  if (micro->kind == SHOAL_CUT_PARTIAL) {
    SHOAL_RETURN_IF_ERROR(
        new_instruction(l, SHOAL_OPCODE_FILL, source->name, PHASE_BEFORE, 0, -1, *out_index, &in));
    in->code.value = shoal_reduce_identity(micro->reduce);
    SHOAL_RETURN_IF_ERROR(new_instruction(l, SHOAL_OPCODE_ACCUMULATE, source->name, PHASE_LOOP,
                                          source->depth, from, *out_index, &in));
    in->code.reduce = micro->reduce;
    return NULL;
  }
  return new_instruction(l, SHOAL_OPCODE_COPY, source->name, PHASE_LOOP, source->depth, from,
                         *out_index, NULL);
}

static shoal_status_t enter_loop(graph_lowering_t *l, int32_t from, const shoal_layout_t *need,
                                 int32_t *out_index) {
  const global_buffer_t *source = buffer_at(l, from);
  if (source->phase == PHASE_AFTER)
    return SHOAL_ERROR_HINT(
        UNSUPPORTED, "use fewer micro-batches, or a layout that keeps this value in the loop",
        "'%s' is known only after all micro-batches but is needed in each of them", source->name);
  if ((*out_index = find_copy(l, source->value, need)) >= 0) return NULL;
  int32_t depth = source->phase == PHASE_LOOP ? source->depth : 0;
  SHOAL_RETURN_IF_ERROR(new_copy(l, from, need, PHASE_LOOP, depth, out_index));
  return new_instruction(l, SHOAL_OPCODE_COPY, source->name, PHASE_LOOP, depth, from, *out_index,
                         NULL);
}

static shoal_status_t move(graph_lowering_t *l, int32_t from, const shoal_layout_t *need,
                           int32_t *out_index) {
  const global_buffer_t *source = buffer_at(l, from);
  if ((*out_index = find_copy(l, source->value, need)) >= 0) return NULL;
  int32_t depth = source->depth + (source->layout->mesh != need->mesh);
  SHOAL_RETURN_IF_ERROR(new_copy(l, from, need, source->phase, depth, out_index));
  shoal_channel_t channel = {.type = source->type,
                             .src = source->layout,
                             .dst = need,
                             .micro = source->phase == PHASE_LOOP};
  global_instruction_t *in = NULL;
  SHOAL_RETURN_IF_ERROR(new_instruction(l, SHOAL_OPCODE_RESHARD, source->name, source->phase, depth,
                                        from, *out_index, &in));
  in->send_depth = source->depth;
  in->one_channel = (int32_t)l->b->channels.count;
  in->code.channels = &in->one_channel;
  if (!SHOAL_PUSH(l->b->arena, &l->b->channels, channel)) return SHOAL_OOM();
  return NULL;
}

// The steps that take a value from one layout to another most cheaply, as kept layouts: worked out
// once for each type and pair of layouts. Micro-batches are alike up to sizes: the first decides.
static shoal_status_t find_path(graph_lowering_t *l, const global_buffer_t *source,
                                const shoal_layout_t *need, const path_t **out_path) {
  build_t *b = l->b;
  int64_t number;
  shoal_key_clear(&b->path_key);
  shoal_key_add_pointer(&b->path_key, source->layout);
  shoal_key_add_pointer(&b->path_key, need);
  shoal_key_add_type(&b->path_key, &source->type);
  if (!shoal_memo_find(&b->path_memo, &b->path_key, &number)) {
    const int64_t have_micro = shoal_layout_along(source->layout, SHOAL_AXIS_MICRO) ? 0 : -1;
    const int64_t need_micro = shoal_layout_along(need, SHOAL_AXIS_MICRO) ? 0 : -1;
    shoal_reshard_path_t found;
    path_t path;
    SHOAL_RETURN_IF_ERROR(shoal_reshard_path(source->layout, have_micro, need, need_micro,
                                             &source->type.shape, b->arena, &found));
    path.count = found.step_count;
    path.layouts = SHOAL_NEW(b->arena, const shoal_layout_t *, path.count);
    if (!path.layouts) return SHOAL_OOM();
    for (int64_t i = 0; i < path.count; ++i)
      SHOAL_RETURN_IF_ERROR(shoal_layouts_keep(&b->layouts, found.steps[i].dst, &path.layouts[i]));
    path.layouts[path.count - 1] = need;
    number = b->paths.count;
    if (!SHOAL_PUSH(b->arena, &b->paths, path) ||
        !shoal_memo_add(&b->path_memo, &b->path_key, number))
      return SHOAL_OOM();
  }
  *out_path = &b->paths.items[number];
  return NULL;
}

// Between meshes a value goes in one step: what is in between would belong to one of the two, and
// the order of messages to both.
static shoal_status_t reshard(graph_lowering_t *l, int32_t from, const shoal_layout_t *need,
                              int32_t *out_index) {
  const global_buffer_t *source = buffer_at(l, from);
  if (source->layout->mesh != need->mesh) return move(l, from, need, out_index);
  const path_t *path = NULL;
  SHOAL_RETURN_IF_ERROR(find_path(l, source, need, &path));
  *out_index = from;
  for (int64_t i = 0; i < path->count; ++i)
    SHOAL_RETURN_IF_ERROR(move(l, *out_index, path->layouts[i], out_index));
  return NULL;
}

static shoal_status_t home_of(graph_lowering_t *l, int32_t value, int32_t *out_index);

// The buffer in which `value` has layout `need`; makes it if there is none.
static shoal_status_t bring(graph_lowering_t *l, int32_t value, const shoal_layout_t *need,
                            int32_t *out_index) {
  int32_t at = -1;
  SHOAL_RETURN_IF_ERROR(home_of(l, value, &at));
  const shoal_shape_t *shape = &buffer_at(l, at)->type.shape;
  const shoal_cut_t *have_micro = shoal_layout_along(buffer_at(l, at)->layout, SHOAL_AXIS_MICRO);
  const shoal_cut_t *need_micro = shoal_layout_along(need, SHOAL_AXIS_MICRO);
  bool same_micro = shoal_cut_same(have_micro, need_micro, shape, false);
  if (!same_micro && have_micro && need_micro)
    return SHOAL_ERROR(UNSUPPORTED, "'%s' is cut along micro in two different ways",
                       buffer_at(l, at)->name);
  if (!same_micro && have_micro) SHOAL_RETURN_IF_ERROR(leave_loop(l, at, have_micro, &at));
  const shoal_layout_t *between = need, *inside = NULL;
  if (!same_micro && need_micro)
    SHOAL_RETURN_IF_ERROR(outside_loop(l, need, need_micro, false, &between));
  if (!shoal_layout_equal(buffer_at(l, at)->layout, between))
    SHOAL_RETURN_IF_ERROR(reshard(l, at, between, &at));
  if (!same_micro && need_micro) {
    SHOAL_RETURN_IF_ERROR(outside_loop(l, need, need_micro, true, &inside));
    SHOAL_RETURN_IF_ERROR(enter_loop(l, at, inside, &at));
    if (!shoal_layout_equal(inside, need)) SHOAL_RETURN_IF_ERROR(reshard(l, at, need, &at));
  }
  *out_index = at;
  return NULL;
}

static shoal_status_t feed(graph_lowering_t *l, int32_t value, int32_t *out_index) {
  const shoal_value_info_t *info = &l->graph->values.items[value];
  const shoal_layout_t *layout = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_lower_layout(l->b, l->gp->values[value], &layout));
  phase_t phase = shoal_layout_along(layout, SHOAL_AXIS_MICRO) ? PHASE_LOOP : PHASE_BEFORE;
  char *name = shoal_arena_strdup(l->b->arena, info->name);
  if (!name) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(new_buffer(l,
                                   (global_buffer_t){.name = name,
                                                     .kind = SHOAL_BUFFER_INPUT,
                                                     .state = -1,
                                                     .value = value,
                                                     .type = info->type,
                                                     .layout = layout,
                                                     .phase = phase},
                                   out_index));
  return new_instruction(l, SHOAL_OPCODE_FEED, name, phase, 0, -1, *out_index, NULL);
}

static shoal_status_t home_of(graph_lowering_t *l, int32_t value, int32_t *out_index) {
  if (l->homes[value] < 0) {
    const shoal_value_info_t *info = &l->graph->values.items[value];
    if (info->source == SHOAL_FROM_INPUT) {
      SHOAL_RETURN_IF_ERROR(feed(l, value, &l->homes[value]));
    } else if (info->source == SHOAL_FROM_STATE) {
      // Copies are found by value, which is a number of this graph: so each graph has its own
      // record of the state's home. emit.c knows that they are one buffer.
      global_buffer_t home = *buffer_at(l, l->b->state_buffers[info->index]);
      home.value = value;
      SHOAL_RETURN_IF_ERROR(new_buffer(l, home, &l->homes[value]));
    } else {
      return SHOAL_ERROR(INTERNAL, "value '%s' is used before it is made", info->name);
    }
  }
  *out_index = l->homes[value];
  return NULL;
}

static shoal_status_t lower_node(graph_lowering_t *l, int32_t index) {
  build_t *b = l->b;
  const shoal_node_t *node = &l->graph->nodes.items[index];
  const shoal_node_plan_t *np = &l->gp->nodes[index];
  int32_t *inputs = SHOAL_NEW(b->arena, int32_t, node->input_count);
  int32_t *outputs = SHOAL_NEW(b->arena, int32_t, node->output_count);
  char *name = shoal_arena_strdup(b->arena, node->name);
  shoal_attr_value_t *attrs =
      shoal_arena_copy(b->arena, node->attrs, (size_t)node->op->attr_count, sizeof *attrs);
  if (!inputs || !outputs || !name || !attrs) return SHOAL_OOM();
  for (int32_t a = 0; a < node->op->attr_count; ++a)
    if (node->op->attrs[a].kind == SHOAL_ATTR_STRING && attrs[a].s &&
        !(attrs[a].s = shoal_arena_strdup(b->arena, attrs[a].s)))
      return SHOAL_OOM();
  bool loop = np->decision->choices[0].way != NULL;
  phase_t phase = loop ? PHASE_LOOP : PHASE_BEFORE;
  for (int32_t i = 0; i < node->input_count; ++i) {
    const shoal_layout_t *need = NULL;
    SHOAL_RETURN_IF_ERROR(shoal_lower_layout(b, np->decision->operands[i], &need));
    SHOAL_RETURN_IF_ERROR(bring(l, node->inputs[i], need, &inputs[i]));
    const global_buffer_t *buffer = buffer_at(l, inputs[i]);
    if (loop && buffer->phase == PHASE_AFTER)
      return SHOAL_ERROR_HINT(UNSUPPORTED,
                              "run without micro-batches, or cut the batch another way",
                              "node '%s' runs once per micro-batch but needs '%s', which is known "
                              "only after all of them "
                              "(the op that makes it has no way along micro)",
                              node->name, buffer->name);
    if (!loop && buffer->phase != PHASE_BEFORE) phase = PHASE_AFTER;
  }
  int32_t depth = 0;
  for (int32_t i = 0; i < node->input_count; ++i)
    if (buffer_at(l, inputs[i])->phase == phase && buffer_at(l, inputs[i])->depth > depth)
      depth = buffer_at(l, inputs[i])->depth;
  for (int32_t o = 0; o < node->output_count; ++o) {
    int32_t value = node->outputs[o];
    const shoal_value_info_t *info = &l->graph->values.items[value];
    const shoal_layout_t *layout = NULL;
    SHOAL_RETURN_IF_ERROR(shoal_lower_layout(b, l->gp->values[value], &layout));
    char *value_name = shoal_arena_strdup(b->arena, info->name);
    if (!value_name) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(new_buffer(l,
                                     (global_buffer_t){.name = value_name,
                                                       .kind = SHOAL_BUFFER_TEMP,
                                                       .state = -1,
                                                       .value = value,
                                                       .type = info->type,
                                                       .layout = layout,
                                                       .phase = phase,
                                                       .depth = depth},
                                     &outputs[o]));
    l->homes[value] = outputs[o];
  }
  global_instruction_t *in = NULL;
  SHOAL_RETURN_IF_ERROR(new_instruction(l, SHOAL_OPCODE_COMPUTE, name, phase, depth, -1, -1, &in));
  in->code.op = node->op;
  in->code.attrs = attrs;
  in->code.input_count = node->input_count;
  in->code.inputs = inputs;
  in->code.output_count = node->output_count;
  in->code.outputs = outputs;
  return NULL;
}

// Lists an output of the graph, once. *out_name is NULL if it is listed already.
static shoal_status_t add_port(graph_lowering_t *l, const char *port, int32_t value,
                               const char **out_name) {
  build_t *b = l->b;
  *out_name = NULL;
  for (int64_t i = 0; i < b->outputs.count; ++i)
    if (strcmp(b->outputs.items[i].graph, l->out->name) == 0 &&
        strcmp(b->outputs.items[i].name, port) == 0)
      return NULL;
  shoal_program_port_t record = {.graph = l->out->name,
                                 .name = shoal_arena_strdup(b->arena, port),
                                 .type = l->graph->values.items[value].type};
  if (!record.name || !SHOAL_PUSH(b->arena, &b->outputs, record)) return SHOAL_OOM();
  *out_name = record.name;
  return NULL;
}

// Brings a value to all ranks and downloads it.
static shoal_status_t fetch(graph_lowering_t *l, const shoal_named_t *port) {
  build_t *b = l->b;
  const shoal_layout_t whole = {.mesh = b->world}, *everywhere = NULL;
  int32_t at = -1;
  SHOAL_RETURN_IF_ERROR(shoal_layouts_keep(&b->layouts, &whole, &everywhere));
  SHOAL_RETURN_IF_ERROR(bring(l, port->value, everywhere, &at));
  const global_buffer_t *buffer = buffer_at(l, at);
  phase_t phase = buffer->phase == PHASE_LOOP ? PHASE_AFTER : buffer->phase;
  return new_instruction(l, SHOAL_OPCODE_FETCH, port->name, phase,
                         phase == buffer->phase ? buffer->depth : 0, at, -1, NULL);
}

// What is fetched: the graph's outputs, and values named besides. (Another graph may have a name
// that this one lacks; session checks that some graph does.)
static shoal_status_t list_fetches(graph_lowering_t *l) {
  const shoal_graph_t *graph = l->graph;
  shoal_named_t port = {0};
  for (int64_t i = 0; i < graph->outputs.count; ++i) {
    port.value = graph->outputs.items[i].value;
    SHOAL_RETURN_IF_ERROR(add_port(l, graph->outputs.items[i].name, port.value, &port.name));
    if (port.name && !SHOAL_PUSH(l->b->arena, &l->fetches, port)) return SHOAL_OOM();
  }
  for (const char *const *name = l->b->options->fetches; name && *name; ++name) {
    for (port.value = 0; port.value < graph->values.count; ++port.value)
      if (strcmp(graph->values.items[port.value].name, *name) == 0) break;
    if (port.value == graph->values.count) continue;
    SHOAL_RETURN_IF_ERROR(add_port(l, *name, port.value, &port.name));
    if (port.name && !SHOAL_PUSH(l->b->arena, &l->fetches, port)) return SHOAL_OOM();
  }
  return NULL;
}

// States are fetched first: their updates write over them.
static shoal_status_t fetch_all(graph_lowering_t *l, bool states) {
  for (int64_t i = 0; i < l->fetches.count; ++i) {
    const shoal_named_t *port = &l->fetches.items[i];
    const bool state = l->graph->values.items[port->value].source == SHOAL_FROM_STATE;
    if (state == states) SHOAL_RETURN_IF_ERROR(fetch(l, port));
  }
  return NULL;
}

static shoal_status_t assign(graph_lowering_t *l, const shoal_assignment_t *assignment) {
  int32_t home = l->b->state_buffers[assignment->state], at = -1;
  const shoal_layout_t *rest = buffer_at(l, home)->layout;
  SHOAL_RETURN_IF_ERROR(bring(l, assignment->value, rest, &at));
  const global_buffer_t *buffer = buffer_at(l, at);
  if (buffer->kind == SHOAL_BUFFER_STATE) {
    if (buffer->state == assignment->state) return NULL;
    // Another state's value: taken aside before any state changes.
    int32_t aside = -1;
    SHOAL_RETURN_IF_ERROR(new_copy(l, at, rest, PHASE_AFTER, 0, &aside));
    SHOAL_RETURN_IF_ERROR(
        new_instruction(l, SHOAL_OPCODE_COPY, buffer->name, PHASE_AFTER, 0, at, aside, NULL));
    at = aside;
  }
  return new_instruction(l, SHOAL_OPCODE_COPY, buffer_at(l, home)->name, PHASE_COMMIT, 0, at, home,
                         NULL);
}

// Node after node, each with the assignments of its values: who needs them in a state's layout gets
// them at once.
static shoal_status_t lower_nodes(graph_lowering_t *l) {
  const shoal_graph_t *graph = l->graph;
  int32_t *order = SHOAL_NEW(l->b->arena, int32_t, graph->nodes.count);
  int32_t *assigned = SHOAL_NEW(l->b->arena, int32_t, graph->nodes.count);  // the first; -1: none
  int32_t *next = SHOAL_NEW(l->b->arena, int32_t, graph->assigns.count);    // of the same node
  if (!order || !assigned || !next) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_lower_order(l->b, graph, order));
  for (int64_t n = 0; n < graph->nodes.count; ++n) assigned[n] = -1;
  for (int32_t i = (int32_t)graph->assigns.count - 1; i >= 0; --i) {
    const shoal_value_info_t *info = &graph->values.items[graph->assigns.items[i].value];
    if (info->source != SHOAL_FROM_NODE) continue;
    next[i] = assigned[info->node];
    assigned[info->node] = i;
  }
  for (int64_t k = 0; k < graph->nodes.count; ++k) {
    const int32_t n = order[k];
    shoal_status_t status = lower_node(l, n);
    for (int32_t i = assigned[n]; i >= 0 && !status; i = next[i])
      status = assign(l, &graph->assigns.items[i]);
    if (status)
      return shoal_status_annotatef(status, "while lowering node %d '%s'", n,
                                    graph->nodes.items[n].name);
  }
  return NULL;
}

shoal_status_t shoal_lower_graph(build_t *b, const shoal_graph_plan_t *gp,
                                 graph_build_t *out_graph) {
  const shoal_graph_t *graph = gp->graph;
  out_graph->name = shoal_arena_strdup(b->arena, graph->name);
  graph_lowering_t l = {.b = b, .gp = gp, .graph = graph, .out = out_graph};
  l.homes = SHOAL_NEW(b->arena, int32_t, graph->values.count);
  l.copies = SHOAL_NEW(b->arena, int32_t, graph->values.count);
  if (!out_graph->name || !l.homes || !l.copies) return SHOAL_OOM();
  for (int64_t v = 0; v < graph->values.count; ++v) l.homes[v] = l.copies[v] = -1;
  for (int64_t i = 0; i < graph->inputs.count; ++i) {
    const shoal_named_t *input = &graph->inputs.items[i];
    shoal_program_port_t port = {.graph = out_graph->name,
                                 .type = graph->values.items[input->value].type};
    port.name = shoal_arena_strdup(b->arena, input->name);
    if (!port.name || !SHOAL_PUSH(b->arena, &b->inputs, port)) return SHOAL_OOM();
  }
  SHOAL_RETURN_IF_ERROR(list_fetches(&l));
  SHOAL_RETURN_IF_ERROR(fetch_all(&l, true));
  SHOAL_RETURN_IF_ERROR(lower_nodes(&l));
  SHOAL_RETURN_IF_ERROR(fetch_all(&l, false));
  for (int64_t i = 0; i < graph->assigns.count; ++i)
    if (graph->values.items[graph->assigns.items[i].value].source != SHOAL_FROM_NODE)
      SHOAL_RETURN_IF_ERROR(assign(&l, &graph->assigns.items[i]));
  return NULL;
}

// Pass `instances`: the nodes of each graph become items, in the order that order.c finds, each
// with what it needs and with the instances it makes. Assignments stand behind the node that makes
// their value, and so do outputs that are kept to be fetched on request; fetches at the end; what
// is fetched of states comes first, for updates write over states.
#include <string.h>

#include "base/status.h"
#include "lower/build.h"
#include "op/attrs.h"

typedef struct listing {
  build_t *b;
  graph_build_t *out;
  const shoal_graph_t *graph;
  SHOAL_VEC(shoal_named_t) fetches;
} listing_t;

// ---- nodes ------------------------------------------------------------------------------

static shoal_status_t make_output(const listing_t *l, int32_t value, bool again,
                                  int32_t *out_index) {
  build_t *b = l->b;
  const shoal_value_info_t *info = &l->graph->values.items[value];
  instance_t home = {.kind = SHOAL_BUFFER_TEMP,
                     .state = -1,
                     .value = value,
                     .type = info->type,
                     .again = again,
                     .next_copy = -1,
                     .phase = PHASE_COUNT};
  SHOAL_RETURN_IF_ERROR(shoal_lower_layout(b, l->out->gp->values[value], &home.layout));
  home.name = shoal_arena_strdup(b->arena, info->name);
  if (!home.name) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_lower_new_instance(b, home, out_index));
  (again ? l->out->again_homes : l->out->homes)[value] = *out_index;
  return NULL;
}

static shoal_status_t list_node(const listing_t *l, const turn_t *turn) {
  build_t *b = l->b;
  const shoal_node_t *node = &l->graph->nodes.items[turn->node];
  const shoal_decision_t *decision = l->out->gp->nodes[turn->node].decision;
  int32_t *inputs = SHOAL_NEW(b->arena, int32_t, node->input_count);
  int32_t *outputs = SHOAL_NEW(b->arena, int32_t, node->output_count);
  need_t *needs = SHOAL_NEW(b->arena, need_t, node->input_count);
  char *name = shoal_arena_strdup(b->arena, node->name);
  item_t *item = NULL;
  if (!inputs || !outputs || !needs || !name) return SHOAL_OOM();
  for (int32_t i = 0; i < node->input_count; ++i) {
    inputs[i] = -1;
    needs[i].value = node->inputs[i];
    needs[i].again = shoal_lower_reads_again(l->out, turn, node->inputs[i]);
    SHOAL_RETURN_IF_ERROR(shoal_lower_layout(b, decision->operands[i], &needs[i].layout));
  }
  for (int32_t o = 0; o < node->output_count; ++o)
    SHOAL_RETURN_IF_ERROR(make_output(l, node->outputs[o], turn->again, &outputs[o]));
  SHOAL_RETURN_IF_ERROR(shoal_lower_new_item(b, l->out, SHOAL_OPCODE_COMPUTE, name, -1, -1, &item));
  item->node = turn->node;
  item->again = turn->again;
  item->side = turn->again ? SHOAL_SIDE_BACKWARD : shoal_lower_side(node);
  item->need_count = node->input_count;
  item->needs = needs;
  item->code.op = node->op;
  item->code.input_count = node->input_count;
  item->code.inputs = item->inputs = inputs;
  item->code.output_count = node->output_count;
  item->code.outputs = outputs;
  item->code.attrs = shoal_attrs_copy(node->op, node->attrs, b->arena);
  return item->code.attrs ? NULL : SHOAL_OOM();
}

// ---- fetches and assignments --------------------------------------------------------------

// An item that needs one value.
static shoal_status_t list_need(const listing_t *l, shoal_opcode_t opcode, const char *name,
                                int32_t value, const shoal_layout_t *layout, int32_t output,
                                item_t **out_item) {
  item_t *item = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_lower_new_item(l->b, l->out, opcode, name, -1, output, &item));
  item->side = SHOAL_SIDE_UPDATE;
  item->one_need = (need_t){.value = value, .layout = layout};
  item->needs = &item->one_need;
  item->need_count = item->code.input_count = 1;
  *out_item = item;
  return NULL;
}

// What decides about an assignment is wanted whole, on all ranks of the state's mesh.
static shoal_status_t list_assign(const listing_t *l, const shoal_assignment_t *assignment) {
  const int32_t home = l->b->state_homes[assignment->state];
  const instance_t *rest = instance_at(l->b, home);
  const shoal_layout_t whole = {.mesh = rest->layout->mesh};
  item_t *item = NULL;
  SHOAL_RETURN_IF_ERROR(
      list_need(l, SHOAL_OPCODE_COPY, rest->name, assignment->value, rest->layout, home, &item));
  if (assignment->predicate < 0) return NULL;
  item->decides.value = assignment->predicate;
  return shoal_layouts_keep(&l->b->layouts, &whole, &item->decides.layout);
}

// Lists an output of the graph, once. `kept`: the state where it is kept; -1: it is fetched always.
// *out_name is NULL if it is listed already.
static shoal_status_t add_port(const listing_t *l, const char *port, int32_t value, int32_t kept,
                               const char **out_name) {
  build_t *b = l->b;
  *out_name = NULL;
  for (int64_t i = 0; i < b->outputs.count; ++i)
    if (strcmp(b->outputs.items[i].graph, l->out->name) == 0 &&
        strcmp(b->outputs.items[i].name, port) == 0)
      return NULL;
  shoal_program_port_t record = {.graph = l->out->name,
                                 .name = shoal_arena_strdup(b->arena, port),
                                 .type = l->graph->values.items[value].type,
                                 .on_request = kept >= 0,
                                 .state = kept >= 0 ? kept : 0};
  if (!record.name || !SHOAL_PUSH(b->arena, &b->outputs, record)) return SHOAL_OOM();
  *out_name = record.name;
  return NULL;
}

// What is always fetched: outputs of the graph, and values named besides. (Another graph may have a
// name that this one lacks; session checks that some graph does.)
static shoal_status_t find_fetches(listing_t *l) {
  const shoal_graph_t *graph = l->graph;
  shoal_named_t port = {0};
  for (int64_t i = 0; i < graph->outputs.count; ++i) {
    port.value = graph->outputs.items[i].value;
    const int32_t kept = l->out->kept[i].state;
    SHOAL_RETURN_IF_ERROR(add_port(l, graph->outputs.items[i].name, port.value, kept, &port.name));
    if (port.name && kept < 0 && !SHOAL_PUSH(l->b->arena, &l->fetches, port)) return SHOAL_OOM();
  }
  for (const char *const *name = l->b->options->fetches; name && *name; ++name) {
    for (port.value = 0; port.value < graph->values.count; ++port.value)
      if (strcmp(graph->values.items[port.value].name, *name) == 0) break;
    if (port.value == graph->values.count) continue;
    SHOAL_RETURN_IF_ERROR(add_port(l, *name, port.value, -1, &port.name));
    if (port.name && !SHOAL_PUSH(l->b->arena, &l->fetches, port)) return SHOAL_OOM();
  }
  return NULL;
}

// Outputs of a node, or of none (-1: states and inputs), that are kept to be fetched on request.
static shoal_status_t list_kept(const listing_t *l, int32_t node) {
  for (int64_t o = 0; o < l->graph->outputs.count; ++o) {
    const int32_t value = l->graph->outputs.items[o].value;
    const kept_t *kept = &l->out->kept[o];
    item_t *item = NULL;
    if (kept->state < 0 || l->graph->values.items[value].node != node) continue;
    const int32_t home = l->b->state_homes[kept->state];
    SHOAL_RETURN_IF_ERROR(list_need(l, SHOAL_OPCODE_COPY, instance_at(l->b, home)->name, value,
                                    kept->wanted, home, &item));
    item->side = node < 0 ? SHOAL_SIDE_FORWARD : shoal_lower_side(&l->graph->nodes.items[node]);
  }
  return NULL;
}

// What is fetched is brought to all ranks and downloaded.
static shoal_status_t list_fetches(const listing_t *l, bool states) {
  const shoal_layout_t whole = {.mesh = l->b->world}, *everywhere = NULL;
  item_t *item = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_layouts_keep(&l->b->layouts, &whole, &everywhere));
  for (int64_t i = 0; i < l->fetches.count; ++i) {
    const shoal_named_t *port = &l->fetches.items[i];
    const bool state = l->graph->values.items[port->value].source == SHOAL_FROM_STATE;
    if (state != states) continue;
    SHOAL_RETURN_IF_ERROR(
        list_need(l, SHOAL_OPCODE_FETCH, port->name, port->value, everywhere, -1, &item));
    if (states) item->side = SHOAL_SIDE_FORWARD;
  }
  return NULL;
}

// ---- graphs -------------------------------------------------------------------------------

// The node behind which an assignment comes: the later of those that make its value and its
// predicate. -1: its value is there from the start. `place`: of a node in the order.
static int32_t maker_of(const listing_t *l, const shoal_assignment_t *assignment,
                        const int32_t *place) {
  const shoal_value_info_t *values = l->graph->values.items;
  const int32_t node = values[assignment->value].node;
  const int32_t other = assignment->predicate < 0 ? -1 : values[assignment->predicate].node;
  return node >= 0 && other >= 0 && place[other] > place[node] ? other : node;
}

// Turn after turn, each with the assignments of its node's values: who needs them in a state's
// layout gets them at once.
static shoal_status_t list_nodes(const listing_t *l) {
  const shoal_graph_t *graph = l->graph;
  const int64_t count = l->out->turns.count;
  int32_t *order = SHOAL_NEW(l->b->arena, int32_t, count);
  int32_t *assigned = SHOAL_NEW(l->b->arena, int32_t, graph->nodes.count);  // the first; -1: none
  int32_t *next = SHOAL_NEW(l->b->arena, int32_t, graph->assigns.count);    // of the same node
  int32_t *place = SHOAL_NEW(l->b->arena, int32_t, graph->nodes.count);     // in the order
  if (!order || !assigned || !next || !place) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_lower_order(l->b, l->out, order));
  for (int64_t n = 0; n < graph->nodes.count; ++n) assigned[n] = -1;
  for (int32_t k = 0; k < count; ++k)
    if (!l->out->turns.items[order[k]].again) place[l->out->turns.items[order[k]].node] = k;
  for (int32_t i = (int32_t)graph->assigns.count - 1; i >= 0; --i) {
    const int32_t maker = maker_of(l, &graph->assigns.items[i], place);
    if (maker < 0) continue;
    next[i] = assigned[maker];
    assigned[maker] = i;
  }
  for (int64_t k = 0; k < count; ++k) {
    const turn_t *turn = &l->out->turns.items[order[k]];
    shoal_status_t status = list_node(l, turn);
    if (!status && !turn->again) status = list_kept(l, turn->node);
    for (int32_t i = turn->again ? -1 : assigned[turn->node]; i >= 0 && !status; i = next[i])
      status = list_assign(l, &graph->assigns.items[i]);
    if (status)
      return shoal_status_annotatef(status, "while lowering node %d '%s'", turn->node,
                                    graph->nodes.items[turn->node].name);
  }
  return NULL;
}

static shoal_status_t list_graph(build_t *b, graph_build_t *out) {
  const shoal_graph_t *graph = out->graph;
  listing_t l = {.b = b, .out = out, .graph = graph};
  out->homes = SHOAL_NEW(b->arena, int32_t, graph->values.count);
  out->copies = SHOAL_NEW(b->arena, int32_t, graph->values.count);
  if (!out->homes || !out->copies) return SHOAL_OOM();
  for (int64_t v = 0; v < graph->values.count; ++v) out->homes[v] = out->copies[v] = -1;
  for (int64_t i = 0; i < graph->inputs.count; ++i) {
    const shoal_named_t *input = &graph->inputs.items[i];
    shoal_program_port_t port = {.graph = out->name,
                                 .type = graph->values.items[input->value].type};
    port.name = shoal_arena_strdup(b->arena, input->name);
    if (!port.name || !SHOAL_PUSH(b->arena, &b->inputs, port)) return SHOAL_OOM();
  }
  SHOAL_RETURN_IF_ERROR(shoal_lower_turns(b, out));
  if (out->again && !(out->again_homes = SHOAL_NEW(b->arena, int32_t, graph->values.count)))
    return SHOAL_OOM();
  for (int64_t v = 0; v < graph->values.count && out->again; ++v) out->again_homes[v] = -1;
  SHOAL_RETURN_IF_ERROR(find_fetches(&l));
  SHOAL_RETURN_IF_ERROR(list_fetches(&l, true));
  SHOAL_RETURN_IF_ERROR(list_kept(&l, -1));
  SHOAL_RETURN_IF_ERROR(list_nodes(&l));
  SHOAL_RETURN_IF_ERROR(list_fetches(&l, false));
  for (int64_t i = 0; i < graph->assigns.count; ++i)
    if (graph->values.items[graph->assigns.items[i].value].source != SHOAL_FROM_NODE)
      SHOAL_RETURN_IF_ERROR(list_assign(&l, &graph->assigns.items[i]));
  return NULL;
}

shoal_status_t shoal_lower_pass_instances(build_t *b) {
  for (int64_t g = 0; g < b->graph_count; ++g) {
    shoal_status_t status = list_graph(b, &b->graphs[g]);
    if (status)
      return shoal_status_annotatef(status, "while lowering graph '%s'", b->graphs[g].name);
  }
  return NULL;
}

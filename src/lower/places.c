// Places of items: in which phase, and how deep in the chain of stages. They follow from what an
// item reads. A place that cannot be, in a loop that waits for its own end, is refused here.
#include "base/status.h"
#include "lower/build.h"

// The first node on the way to a value that is known only behind the loop: it runs on the whole
// batch, as it has no way along micro, or what it makes is put together of all of them. NULL: none.
static const shoal_node_t *first_behind(build_t *b, const graph_build_t *graph, int32_t value) {
  const shoal_node_t *first = NULL;
  while (value >= 0 && graph->graph->values.items[value].node >= 0) {
    first = &graph->graph->nodes.items[graph->graph->values.items[value].node];
    value = -1;
    for (int32_t i = 0; i < first->input_count && value < 0; ++i) {
      const int32_t home = graph->homes[first->inputs[i]];
      if (home >= 0 && instance_at(b, home)->phase == PHASE_AFTER) value = first->inputs[i];
    }
  }
  return first;
}

// Refuses a value that a node of the loop needs, but which is known only behind it. What is made of
// inputs and states alone could be there before, if nobody wanted it cut.
shoal_status_t shoal_lower_refuse_late(build_t *b, const graph_build_t *graph,
                                       const instance_t *source) {
  const shoal_node_t *first = first_behind(b, graph, source->value);
  const bool whole =
      first && !graph->gp->nodes[first - graph->graph->nodes.items].decision->choices[0].way;
  return SHOAL_ERROR_HINT(
      UNSUPPORTED,
      "run without micro-batches; or, if it depends on inputs alone, pin it and what leads to it "
      "without micro; or let each micro-batch give a part of a sum instead",
      "'%s' is known only after all micro-batches but is needed in each of them%s%s%s%s%s",
      source->name, first ? ": '" : "", first ? first->name : "", first ? "' (" : "",
      first ? first->op->name : "",
      whole   ? ") runs on the whole batch"
      : first ? ") is put together of all of them"
              : "");
}

// Second turns come no earlier than what their region waits for.
static void wait_at_gate(build_t *b, const graph_build_t *graph, item_t *item, bool loop) {
  const gate_t *gate = &graph->gates[graph->gp->regions[item->node]];
  const shoal_mesh_t *mesh = instance_at(b, item->code.outputs[0])->layout->mesh;
  for (int32_t i = 0; gate->node >= 0 && i < graph->graph->nodes.items[gate->node].input_count;
       ++i) {
    if (!shoal_lower_is_gate(graph, gate, i)) continue;
    const instance_t *gradient =
        instance_at(b, graph->homes[graph->graph->nodes.items[gate->node].inputs[i]]);
    const int32_t depth = gradient->depth + (gradient->layout->mesh != mesh);
    if (!loop && gradient->phase == PHASE_AFTER && item->phase != PHASE_AFTER) {
      item->phase = PHASE_AFTER;
      item->depth = 0;
    }
    if (gradient->phase == item->phase && depth > item->depth) item->depth = depth;
  }
}

// The node's place, as far as its inputs are known: once per micro-batch if that is its way, else
// as late as what it reads.
shoal_status_t shoal_lower_find_place(build_t *b, const graph_build_t *graph, item_t *item) {
  const bool loop = graph->gp->nodes[item->node].decision->choices[0].way != NULL;
  item->phase = loop ? PHASE_LOOP : PHASE_BEFORE;
  for (int32_t i = 0; i < item->code.input_count; ++i) {
    if (item->code.inputs[i] < 0) continue;
    const instance_t *input = instance_at(b, item->code.inputs[i]);
    if (loop && input->phase == PHASE_AFTER) return shoal_lower_refuse_late(b, graph, input);
    if (!loop && input->phase != PHASE_BEFORE) item->phase = PHASE_AFTER;
  }
  item->depth = 0;
  for (int32_t i = 0; i < item->code.input_count; ++i) {
    if (item->code.inputs[i] < 0) continue;
    const instance_t *input = instance_at(b, item->code.inputs[i]);
    if (input->phase == item->phase && input->depth > item->depth) item->depth = input->depth;
  }
  if (item->again) wait_at_gate(b, graph, item, loop);
  item->send_depth = item->depth;
  return NULL;
}

shoal_status_t shoal_lower_place_node(build_t *b, const graph_build_t *graph, item_t *item) {
  SHOAL_RETURN_IF_ERROR(shoal_lower_find_place(b, graph, item));
  for (int32_t o = 0; o < item->code.output_count; ++o) {
    instance_at(b, item->code.outputs[o])->phase = item->phase;
    instance_at(b, item->code.outputs[o])->depth = item->depth;
  }
  return NULL;
}

// An output that is kept to be fetched on request is so in each micro-batch where it has them.
void shoal_lower_place_fetch(build_t *b, item_t *item) {
  const instance_t *from = instance_at(b, item->one_input);
  const bool piece = item->code.opcode == SHOAL_OPCODE_COPY &&
                     shoal_layout_along(from->layout, SHOAL_AXIS_MICRO) != NULL;
  const bool loop = from->phase == PHASE_LOOP && !piece;
  item->phase = loop ? PHASE_AFTER : from->phase;
  item->depth = item->send_depth = loop ? 0 : from->depth;
}

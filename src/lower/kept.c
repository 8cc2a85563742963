// Outputs that are fetched on request. A run keeps such an output where it is made: in a state of
// the program beside those of the model, which lies outside of what other graphs use as scratch. So
// the whole exists nowhere until somebody asks for it.
//
// It is kept in the layout in which it is made, reduced where that is partial. A value that is made
// in micro-batches is copied there one after the other: each rank keeps its rows of all of them
// where a layout can say so (shoal_program_over_micro), else all rows of its mesh.
#include "base/status.h"
#include "lower/build.h"
#include "program/program_impl.h"

int64_t shoal_lower_kept_count(const build_t *b) {
  int64_t count = 0;
  for (int64_t g = 0; g < b->plan->model->graphs.count; ++g)
    for (int64_t o = 0; o < b->plan->graphs[g].graph->outputs.count; ++o)
      count += b->plan->graphs[g].on_request[o];
  return count;
}

bool shoal_lower_is_kept(const build_t *b, const item_t *item) {
  return item->node < 0 && item->code.opcode == SHOAL_OPCODE_COPY &&
         instance_at(b, item->code.outputs[0])->state >= b->plan->model->states.count;
}

// Without what is unreduced and, inside the loop, without what micro-batches cut apart.
static void drop_cuts(shoal_layout_t *layout, const shoal_cut_t *micro) {
  int32_t kept = 0;
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    const bool same = micro && cut->axis != SHOAL_AXIS_MICRO &&
                      (cut->kind == SHOAL_CUT_FLAT || cut->dim == micro->dim);
    if (cut->kind != SHOAL_CUT_PARTIAL && !same) layout->cuts[kept++] = *cut;
  }
  layout->cut_count = kept;
}

static shoal_status_t find_layouts(build_t *b, const shoal_layout_t *made,
                                   const shoal_shape_t *shape, const shoal_layout_t **out_rest,
                                   const shoal_layout_t **out_wanted) {
  shoal_layout_t wanted = *made, rest;
  drop_cuts(&wanted, NULL);
  const shoal_cut_t *cut = shoal_layout_along(&wanted, SHOAL_AXIS_MICRO);
  rest = wanted;
  if (cut && !shoal_program_over_micro(&wanted, shape, &rest)) {
    const shoal_cut_t micro = *cut;
    drop_cuts(&wanted, &micro);
    rest = shoal_program_without_micro(&wanted);
  }
  SHOAL_RETURN_IF_ERROR(shoal_layouts_keep(&b->layouts, &wanted, out_wanted));
  return shoal_layouts_keep(&b->layouts, &rest, out_rest);
}

static shoal_status_t keep_output(build_t *b, const graph_build_t *graph, const shoal_named_t *port,
                                  kept_t *out_kept) {
  const shoal_value_info_t *info = &graph->graph->values.items[port->value];
  const int64_t state = b->program->state_count++;
  const shoal_layout_t *made = NULL, *rest = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_lower_layout(b, graph->gp->values[port->value], &made));
  SHOAL_RETURN_IF_ERROR(find_layouts(b, made, &info->type.shape, &rest, &out_kept->wanted));
  const char *name = shoal_arena_printf(b->arena, "%s:%s", graph->name, port->name);
  const char *value = shoal_arena_strdup(b->arena, info->name);
  if (!name || !value) return SHOAL_OOM();
  b->program->states[state] =
      (shoal_program_state_t){.name = name, .type = info->type, .layout = rest};
  const instance_t home = {.name = value,
                           .kind = SHOAL_BUFFER_STATE,
                           .state = (int32_t)state,
                           .value = -1,
                           .type = info->type,
                           .layout = rest,
                           .next_copy = -1,
                           .phase = PHASE_AFTER};
  out_kept->state = (int32_t)state;
  return shoal_lower_new_instance(b, home, &b->state_homes[state]);
}

shoal_status_t shoal_lower_keep_outputs(build_t *b, graph_build_t *graph) {
  const int64_t count = graph->graph->outputs.count;
  graph->kept = SHOAL_NEW(b->arena, kept_t, count);
  if (!graph->kept) return SHOAL_OOM();
  for (int64_t o = 0; o < count; ++o) {
    graph->kept[o].state = -1;
    if (graph->gp->on_request[o])
      SHOAL_RETURN_IF_ERROR(
          keep_output(b, graph, &graph->graph->outputs.items[o], &graph->kept[o]));
  }
  return NULL;
}

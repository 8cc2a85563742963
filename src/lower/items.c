// What passes make instances and items with: see build.h.
#include "base/status.h"
#include "lower/build.h"

shoal_status_t shoal_lower_layout(build_t *b, const shoal_layout_t *layout,
                                  const shoal_layout_t **out_layout) {
  shoal_layout_t moved = *layout;
  moved.mesh = &b->meshes[layout->mesh - b->plan->meshes];
  return shoal_layouts_keep(&b->layouts, &moved, out_layout);
}

shoal_status_t shoal_lower_new_instance(build_t *b, instance_t proto, int32_t *out_index) {
  instance_t *instance = SHOAL_NEW(b->arena, instance_t, 1);
  if (!instance) return SHOAL_OOM();
  *instance = proto;
  *out_index = (int32_t)b->instances.count;
  return SHOAL_PUSH(b->arena, &b->instances, instance) ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_lower_new_item(build_t *b, graph_build_t *graph, shoal_opcode_t opcode,
                                    const char *name, int32_t input, int32_t output,
                                    item_t **out_item) {
  item_t *item = SHOAL_NEW(b->arena, item_t, 1);
  if (!item) return SHOAL_OOM();
  item->node = -1;
  item->decides.value = -1;
  item->one_input = input;
  item->one_output = output;
  item->code = (shoal_instruction_t){.opcode = opcode, .name = name, .predicate = -1};
  item->code.inputs = item->inputs = &item->one_input;
  item->code.input_count = input >= 0;
  if (output >= 0) item->code.outputs = &item->one_output, item->code.output_count = 1;
  if (!SHOAL_PUSH(b->arena, &graph->items, item)) return SHOAL_OOM();
  *out_item = item;
  return NULL;
}

shoal_status_t shoal_lower_new_item_beside(build_t *b, graph_build_t *graph, shoal_opcode_t opcode,
                                           const char *name, int32_t input, int32_t output,
                                           const item_t *like, item_t **out_item) {
  SHOAL_RETURN_IF_ERROR(shoal_lower_new_item(b, graph, opcode, name, input, output, out_item));
  (*out_item)->again = like->again;
  (*out_item)->side = like->side;
  (*out_item)->phase = like->phase;
  (*out_item)->depth = like->depth;
  (*out_item)->send_depth = like->send_depth;
  return NULL;
}

bool shoal_lower_share_ranks(const build_t *b, const shoal_layout_t *first,
                             const shoal_layout_t *second) {
  const int64_t mesh = first->mesh - b->meshes, other = second->mesh - b->meshes;
  return b->overlap[mesh * b->program->mesh_count + other];
}

shoal_status_t shoal_lower_by_segment(const graph_build_t *graph, shoal_arena_t *arena,
                                      by_segment_t *out_sorted) {
  const int64_t count = graph->items.count, segments = graph->segments.count;
  *out_sorted = (by_segment_t){.items = SHOAL_NEW(arena, item_t *, count),
                               .places = SHOAL_NEW(arena, int64_t, count),
                               .ends = SHOAL_NEW(arena, int64_t, segments + 1)};
  int64_t *ends = out_sorted->ends;
  if (!out_sorted->items || !out_sorted->places || !ends) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) ++ends[graph->items.items[i]->segment + 1];
  for (int64_t s = 0; s < segments; ++s) ends[s + 1] += ends[s];
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = ends[graph->items.items[i]->segment]++;
    out_sorted->places[at] = i;
    out_sorted->items[at] = graph->items.items[i];
  }
  return NULL;
}

void shoal_lower_hold(const held_t *held, const item_t *item, int32_t more) {
  const shoal_instruction_t *code = &item->code;
  for (int32_t i = 0; i < code->input_count; ++i) held->users[code->inputs[i]] += more;
  if (code->predicate >= 0) held->users[code->predicate] += more;
  for (int32_t i = 0; i < code->output_count; ++i) {
    held->users[code->outputs[i]] += more;
    held->writers[code->outputs[i]] += more;
  }
}

bool shoal_lower_is_held_up(const held_t *held, const item_t *item) {
  const shoal_instruction_t *code = &item->code;
  for (int32_t i = 0; i < code->input_count; ++i)
    if (held->writers[code->inputs[i]] > 0) return true;
  for (int32_t i = 0; i < code->output_count; ++i)
    if (held->users[code->outputs[i]] > 0) return true;
  return code->predicate >= 0 && held->writers[code->predicate] > 0;
}

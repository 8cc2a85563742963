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
  if (input >= 0) item->code.inputs = &item->one_input, item->code.input_count = 1;
  if (output >= 0) item->code.outputs = &item->one_output, item->code.output_count = 1;
  if (!SHOAL_PUSH(b->arena, &graph->items, item)) return SHOAL_OOM();
  *out_item = item;
  return NULL;
}

bool shoal_lower_share_ranks(const build_t *b, const shoal_layout_t *first,
                             const shoal_layout_t *second) {
  const int64_t mesh = first->mesh - b->meshes, other = second->mesh - b->meshes;
  return b->overlap[mesh * b->program->mesh_count + other];
}

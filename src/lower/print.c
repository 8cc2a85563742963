// What is there behind a pass, for people: the items of each graph, one a line, or the program. An
// item is written with what it reads and what it makes, `name[layout]` each; one that still has
// needs says `needs`, one that computes a node for the second time `again`.
#include <string.h>

#include "base/status.h"
#include "lower/build.h"

static const char *const phase_names[PHASE_COUNT] = {"before the loop", "in the loop",
                                                     "after the loop", "at the end"};

typedef struct printing {
  const build_t *b;
  const graph_build_t *graph;
  shoal_text_t *text;
  shoal_arena_t *scratch;
} printing_t;

static shoal_status_t add_operand(const printing_t *p, const char *name,
                                  const shoal_layout_t *layout) {
  const char *printed = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_layout_print(layout, p->scratch, &printed));
  shoal_text_addf(p->text, " %s[%s]", name, printed);
  return NULL;
}

static shoal_status_t add_operands(const printing_t *p, const char *before, int32_t count,
                                   const int32_t *instances) {
  if (count > 0) shoal_text_add(p->text, before);
  for (int32_t i = 0; i < count; ++i) {
    const instance_t *instance = instance_at(p->b, instances[i]);
    if (instance->parts) shoal_text_add(p->text, " parts of");
    SHOAL_RETURN_IF_ERROR(add_operand(p, instance->name, instance->layout));
    if (instance->value >= 0 &&
        instance->type.dtype != p->graph->graph->values.items[instance->value].type.dtype)
      shoal_text_addf(p->text, " as %s", shoal_dtype_name(instance->type.dtype));
    if (instance->memory != SHOAL_MEMORY_DEVICE)
      shoal_text_addf(p->text, " in %s memory", shoal_memory_kind_name(instance->memory));
  }
  return NULL;
}

static shoal_status_t add_needs(const printing_t *p, const item_t *item) {
  shoal_text_add(p->text, " needs");
  for (int32_t i = 0; i < item->need_count; ++i)
    SHOAL_RETURN_IF_ERROR(add_operand(p, p->graph->graph->values.items[item->needs[i].value].name,
                                      item->needs[i].layout));
  return NULL;
}

// Where it runs, as far as that is known.
static void add_place(const printing_t *p, const item_t *item) {
  if (item->need_count > 0 && item->code.inputs[0] < 0) return;
  if (p->graph->segments.count == 0) {
    shoal_text_addf(p->text, "  %s", phase_names[item->phase]);
    if (item->depth > 0) shoal_text_addf(p->text, ", depth %d", item->depth);
    return;
  }
  shoal_text_addf(p->text, "  in %s", p->graph->segments.items[item->segment].name);
  if (item->why) shoal_text_addf(p->text, ", %s", item->why);
  if (!item->code.channels) return;
  if (item->send_segment != item->segment)
    shoal_text_addf(p->text, ", sent in %s", p->graph->segments.items[item->send_segment].name);
  shoal_text_addf(p->text, ", lane %d", p->b->channels.items[item->code.channels[0]].lane);
  if (!item->bucket_closed) return;
  shoal_text_addf(p->text, ", bucket of %d, %lld bytes, closed: %s", item->code.input_count,
                  (long long)item->bucket_bytes, item->bucket_closed);
}

static shoal_status_t add_item(const printing_t *p, const item_t *item) {
  const bool open = item->need_count > 0 && item->code.inputs[0] < 0;
  shoal_text_addf(p->text, "  %-10s %s", shoal_opcode_name(item->code.opcode), item->code.name);
  if (item->code.op) shoal_text_addf(p->text, " (%s)", item->code.op->name);
  if (item->again) shoal_text_add(p->text, " again");
  shoal_text_add(p->text, ":");
  if (open) {
    SHOAL_RETURN_IF_ERROR(add_needs(p, item));
  } else {
    SHOAL_RETURN_IF_ERROR(add_operands(p, "", item->code.input_count, item->code.inputs));
  }
  SHOAL_RETURN_IF_ERROR(add_operands(p, " ->", item->code.output_count, item->code.outputs));
  if (item->decides.value >= 0) {
    shoal_text_add(p->text, " if");
    SHOAL_RETURN_IF_ERROR(add_operand(p, p->graph->graph->values.items[item->decides.value].name,
                                      item->decides.layout));
  }
  add_place(p, item);
  if (item->untiled_because) shoal_text_addf(p->text, "  not tiled: %s", item->untiled_because);
  if (item->whole_because) shoal_text_addf(p->text, "  whole: %s", item->whole_because);
  shoal_text_add(p->text, "\n");
  return NULL;
}

static shoal_status_t add_items(const build_t *b, shoal_text_t *text, shoal_arena_t *scratch) {
  for (int64_t g = 0; g < b->graph_count; ++g) {
    const printing_t p = {.b = b, .graph = &b->graphs[g], .text = text, .scratch = scratch};
    shoal_text_addf(text, "graph %s: %lld items\n", p.graph->name, (long long)p.graph->items.count);
    for (int64_t i = 0; i < p.graph->items.count; ++i)
      SHOAL_RETURN_IF_ERROR(add_item(&p, p.graph->items.items[i]));
  }
  return NULL;
}

static shoal_status_t add_program(const build_t *b, shoal_text_t *text, shoal_arena_t *scratch) {
  const char *printed = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_program_print(b->program, scratch, &printed));
  shoal_text_add(text, printed);
  return NULL;
}

shoal_status_t shoal_lower_print(const build_t *b, shoal_text_t *text) {
  shoal_arena_t scratch;
  shoal_arena_init(b->plan->allocator, &scratch);
  shoal_status_t status =
      b->program->class_count > 0 ? add_program(b, text, &scratch) : add_items(b, text, &scratch);
  shoal_arena_deinit(&scratch);
  return status;
}

// What a pipeline's forward pass moves between its stages, and what several of them read, in words:
// values that go to the next stage, or past one, shared inputs, tied weights.
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "plan/resolved.h"
#include "plan/stages.h"

typedef struct borders {
  const shoal_plan_t *plan;
  const shoal_graph_plan_t *gp;
  shoal_stages_t stages;
  bool *read;     // by value and stage
  int32_t *made;  // by value: the stage that makes it; -1: none
} borders_t;

static const char *mesh_of(const borders_t *b, int32_t stage) {
  return b->plan->meshes[b->stages.meshes[stage]].name;
}

static void find_readers(borders_t *b) {
  const shoal_graph_t *graph = b->gp->graph;
  for (int64_t v = 0; v < graph->values.count; ++v) b->made[v] = -1;
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    const int32_t stage = b->stages.of_node[n];
    if (node->kind != SHOAL_NODE_FORWARD || stage < 0) continue;
    for (int32_t i = 0; i < node->input_count; ++i)
      b->read[(int64_t)node->inputs[i] * b->stages.count + stage] = true;
    for (int32_t o = 0; o < node->output_count; ++o) b->made[node->outputs[o]] = stage;
  }
}

// Values that a stage makes and a later one reads, by both.
static shoal_status_t explain_moved(const borders_t *b, shoal_arena_t *arena, shoal_text_t *text) {
  const int32_t stages = b->stages.count;
  int64_t *counts = SHOAL_NEW(arena, int64_t, (int64_t)stages * stages);
  double *bytes = SHOAL_NEW(arena, double, (int64_t)stages *stages);
  if (!counts || !bytes) return SHOAL_OOM();
  for (int64_t v = 0; v < b->gp->graph->values.count; ++v) {
    const shoal_type_t *type = &b->gp->graph->values.items[v].type;
    for (int32_t to = b->made[v] + 1; b->made[v] >= 0 && to < stages; ++to) {
      if (!b->read[v * stages + to]) continue;
      ++counts[b->made[v] * stages + to];
      bytes[b->made[v] * stages + to] +=
          (double)shoal_shape_count(&type->shape) * (double)shoal_dtype_size(type->dtype);
    }
  }
  for (int32_t pair = 0; pair < stages * stages; ++pair) {
    const int32_t from = pair / stages, to = pair % stages;
    shoal_bytes_text_t size;
    if (counts[pair] == 0) continue;
    shoal_text_addf(text, "  stage %d to %d, %s to %s: %lld value%s, %s a step%s\n", from, to,
                    mesh_of(b, from), mesh_of(b, to), (long long)counts[pair],
                    counts[pair] == 1 ? "" : "s", shoal_bytes_format(bytes[pair], &size),
                    to > from + 1 ? ", past what is between" : "");
  }
  return NULL;
}

// An input or a state that several stages read.
static void explain_shared(const borders_t *b, int64_t v, const char *what, shoal_text_t *text) {
  const bool *read = &b->read[v * b->stages.count];
  int32_t count = 0;
  for (int32_t s = 0; s < b->stages.count; ++s) count += read[s];
  if (count < 2) return;
  shoal_text_addf(text, "  %s '%s' is read by stages", what, b->gp->graph->values.items[v].name);
  for (int32_t s = 0; s < b->stages.count; ++s)
    if (read[s]) shoal_text_addf(text, " %d", s);
  shoal_text_add(text, "\n");
}

shoal_status_t shoal_explain_borders(const shoal_plan_t *plan, const shoal_graph_plan_t *gp,
                                     shoal_arena_t *arena, shoal_text_t *text) {
  borders_t b = {.plan = plan, .gp = gp};
  const int64_t values = gp->graph->values.count;
  SHOAL_RETURN_IF_ERROR(shoal_plan_stages(gp, arena, &b.stages));
  b.read = SHOAL_NEW(arena, bool, values *b.stages.count);
  b.made = SHOAL_NEW(arena, int32_t, values);
  if (!b.read || !b.made) return SHOAL_OOM();
  find_readers(&b);
  SHOAL_RETURN_IF_ERROR(explain_moved(&b, arena, text));
  for (int64_t v = 0; v < values; ++v) {
    const shoal_source_t source = gp->graph->values.items[v].source;
    if (source == SHOAL_FROM_INPUT) explain_shared(&b, v, "input", text);
    if (source == SHOAL_FROM_STATE) explain_shared(&b, v, "state", text);
  }
  return NULL;
}

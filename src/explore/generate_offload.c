// What a random case keeps in host memory and in files: states, and values of the forward pass. It
// has dice of its own, so that cases without it are what they were.
#include <string.h>

#include "base/status.h"
#include "explore/generate.h"

typedef shoal_generator_t gen_t;

static const char *some_memory(gen_t *g) {
  return shoal_chance(g, 50) ? "host" : "file";
}

// What an expanded node makes has other names then.
static bool is_expanded(const gen_t *g, const char *node) {
  for (int64_t i = 0; i < g->c->expand.count; ++i)
    if (strcmp(g->c->expand.items[i], node) == 0) return true;
  return false;
}

shoal_status_t shoal_generate_offload(gen_t *g, const shoal_model_t *model) {
  gen_t dice = *g;
  dice.state = ~g->state ^ UINT64_C(0x0ff10ad);
  const shoal_graph_t *train = shoal_model_find_graph(model, "train");
  if (!shoal_chance(&dice, 30)) return NULL;
  for (int64_t s = 0; s < model->states.count; ++s) {
    static const char *const ahead[] = {"0", "2", "3"};
    const char *name = model->states.items[s].name;
    if (!shoal_chance(&dice, 35)) continue;
    SHOAL_RETURN_IF_ERROR(shoal_generate_decide(g, "memory", name, some_memory(&dice)));
    if (shoal_chance(&dice, 25))
      SHOAL_RETURN_IF_ERROR(
          shoal_generate_decide(g, "prefetch", name, ahead[shoal_roll(&dice, 3)]));
  }
  for (int64_t v = 0; v < train->values.count; ++v) {
    const shoal_value_info_t *info = &train->values.items[v];
    if (info->source != SHOAL_FROM_NODE || !shoal_chance(&dice, 25)) continue;
    const shoal_node_t *node = &train->nodes.items[info->node];
    if (node->kind != SHOAL_NODE_FORWARD || is_expanded(g, node->name)) continue;
    SHOAL_RETURN_IF_ERROR(shoal_generate_decide(g, "keep", info->name, some_memory(&dice)));
  }
  return NULL;
}

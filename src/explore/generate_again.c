// Decisions of a random case that make something a second time: blocks that are recomputed in the
// backward pass, states of which copies are redone on each side of the step, some of them ahead,
// gradients that are exchanged in each micro-batch.
#include "base/status.h"
#include "explore/generate.h"

// All blocks, or one of them. Without blocks every node is its own region: what only its gradient
// reads is computed again, as the mask of a dropout.
static shoal_status_t recompute(shoal_generator_t *g) {
  const int64_t blocks = g->c->blocks > 0 ? (g->c->nodes.count - 1) / g->c->blocks + 1 : 0;
  const bool one = blocks > 1 && blocks < 10 && shoal_chance(g, 30);
  if (!one) return shoal_generate_decide(g, "recompute", blocks > 0 ? "b*" : "v*", "yes");
  const char *block = shoal_arena_printf(g->arena, "b%lld*", (long long)shoal_roll(g, blocks));
  return block ? shoal_generate_decide(g, "recompute", block, "yes") : SHOAL_OOM();
}

shoal_status_t shoal_generate_again(shoal_generator_t *g, const shoal_model_t *model) {
  if (shoal_chance(g, g->c->blocks > 0 ? 80 : 10)) SHOAL_RETURN_IF_ERROR(recompute(g));
  if (shoal_chance(g, 20)) SHOAL_RETURN_IF_ERROR(shoal_generate_decide(g, "sync", "s*", "each"));
  if (!shoal_chance(g, 30)) return NULL;
  for (int64_t s = 0; s < model->states.count; ++s) {
    const shoal_state_info_t *state = &model->states.items[s];
    if (!state->options.trainable || !shoal_chance(g, 60)) continue;
    SHOAL_RETURN_IF_ERROR(shoal_generate_decide(g, "keep", state->name, "redo"));
    static const char *const ahead[] = {"0", "1", "2"};
    if (shoal_chance(g, 50))
      SHOAL_RETURN_IF_ERROR(
          shoal_generate_decide(g, "prefetch", state->name, ahead[shoal_roll(g, 3)]));
  }
  return NULL;
}

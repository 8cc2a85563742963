// Decisions of a random case about when outputs are gathered. Its outputs are small: without a
// decision all of them would be in every run.
#include <string.h>

#include "base/status.h"
#include "explore/generate.h"

// Outputs that are kept micro-batch by micro-batch are rare: few have a row for each sample.
static bool is_scarce(const shoal_generator_t *g) {
  return g->c->meshes.count > 0 && strstr(g->c->meshes.items[0], "micro=") &&
         shoal_coverage_count(g->coverage, "feature", "kept in micro-batches") < 10;
}

shoal_status_t shoal_generate_fetches(shoal_generator_t *g, const shoal_model_t *model) {
  const shoal_graph_t *train = shoal_model_find_graph(model, "train");
  const bool scarce = is_scarce(g);
  if (!train || train->outputs.count == 0 || !shoal_chance(g, scarce ? 90 : 40)) return NULL;
  const char *one = train->outputs.items[shoal_roll(g, train->outputs.count)].name;
  return shoal_generate_decide(g, "fetch", scarce || shoal_chance(g, 75) ? "*" : one, "request");
}

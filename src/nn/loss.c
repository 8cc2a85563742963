// Losses.
#include "nn/build.h"

shoal_value_t shoal_nn_cross_entropy_at(shoal_graph_t *graph, shoal_value_t logits,
                                        shoal_value_t labels, const char *file, int line) {
  shoal_site_push(graph, file, line);
  shoal_value_t loss = shoal_cross_entropy(graph, logits, labels);
  shoal_site_pop(graph);
  return loss;
}

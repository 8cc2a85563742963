// See peak.h. The best of some products of 256 rows and columns, which fit into caches. A small
// product comes first: where it shows that this build or type is slow, a large one would take long.
#include "peak.h"

#include <stdlib.h>

#include "print.h"
#include "shoal/comm.h"
#include "shoal/ops.h"
#include "shoal/session.h"

enum { SMALL = 32, LARGE = 256, LEAST_RUNS = 4 };
#define SLOW_NS INT64_C(300000)      // a small product takes longer: there is no large one
#define ENOUGH_NS INT64_C(20000000)  // of all large ones: others may have the core for a while

static void add_product(shoal_model_t *model, const char *name, int64_t side, shoal_dtype_t dtype) {
  shoal_graph_t *g = shoal_model_graph(model, name);
  shoal_value_t a = shoal_full(g, SHOAL_SHAPE(side, side), 0.5, dtype);
  shoal_value_t product = shoal_matmul(g, a, a);
  shoal_output(g, "sum", shoal_reduce_sum(g, product, SHOAL_SHAPE(0, 1)));
}

// The shortest of some runs, of `enough` nanoseconds in all. The first one is not counted: it sets
// things up.
static shoal_status_t time_runs(shoal_session_t *session, const char *graph, int64_t enough,
                                int64_t *out_ns) {
  int64_t all = 0;
  *out_ns = INT64_MAX;
  for (int run = 0; run <= LEAST_RUNS || all < enough; ++run) {
    const int64_t begin = cli_time_ns();
    SHOAL_RETURN_IF_ERROR(shoal_run(session, graph));
    SHOAL_RETURN_IF_ERROR(shoal_session_wait(session));
    const int64_t took = cli_time_ns() - begin;
    all += took;
    if (run > 0 && took < *out_ns) *out_ns = took;
  }
  return NULL;
}

static shoal_status_t measure(shoal_session_t *session, double *out_flops) {
  int64_t ns;
  SHOAL_RETURN_IF_ERROR(time_runs(session, "small", 0, &ns));
  if (ns > SLOW_NS) return NULL;
  SHOAL_RETURN_IF_ERROR(time_runs(session, "large", ENOUGH_NS, &ns));
  *out_flops = 2.0 * LARGE * LARGE * LARGE / ((double)(ns > 0 ? ns : 1) * 1e-9);
  return NULL;
}

shoal_status_t cli_peak_measure(shoal_dtype_t dtype, double *out_flops) {
  shoal_world_t *world = NULL;
  shoal_model_t *model = NULL;
  shoal_session_t *session = NULL;
  *out_flops = 0;
  shoal_status_t status = shoal_world_threads(NULL, 1, &world);
  if (!status) status = shoal_model_create(NULL, &model);
  if (!status) {
    add_product(model, "small", SMALL, dtype);
    add_product(model, "large", LARGE, dtype);
    status = shoal_parallelize(
        model, &(shoal_parallelize_options_t){.world = world, .strategy = "single", .cache = ""},
        &session);
  }
  if (!status) status = measure(session, out_flops);
  shoal_session_free(session);
  shoal_model_free(model);
  shoal_world_release(world);
  return status;
}

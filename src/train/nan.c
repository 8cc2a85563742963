// Which value was the first that is no number. A tap sees every value that a step writes, on every
// rank; of the bad ones the ranks agree on the one that the graph computes first, forward before
// backward. What a state became is looked at last: it is written at the end of the step.
//
// Infinities alone do not stop a run: masks are made of them, and a loss scale is there to find
// them. They count when the loss is one.
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "graph/graph.h"
#include "train/train_impl.h"

enum { MOST = 64 };  // bad values of a step that are kept, the first ones

typedef struct bad_value {
  const char *graph, *name;
  bool nan;  // not only infinities
} bad_value_t;

struct shoal_train_nan {
  shoal_group_t *everyone;
  bool has_scale;  // a loss scale: gradients that overflow are its business
  int64_t count;
  bad_value_t values[MOST];
};

// ---- looking --------------------------------------------------------------------------

// Bits of the exponent, all of which are set in what is not finite.
static bool all_finite(shoal_dtype_t dtype, const void *data, int64_t count) {
  uint64_t found = 0;
  if (dtype == SHOAL_F64) {
    const uint64_t *at = data, mask = UINT64_C(0x7ff0000000000000);
    for (int64_t i = 0; i < count; ++i) found |= (at[i] & mask) == mask;
  } else if (dtype == SHOAL_F32) {
    const uint32_t *at = data, mask = 0x7f800000;
    for (int64_t i = 0; i < count; ++i) found |= (at[i] & mask) == mask;
  } else {
    const uint16_t *at = data, mask = dtype == SHOAL_BF16 ? 0x7f80 : 0x7c00;
    for (int64_t i = 0; i < count; ++i) found |= (at[i] & mask) == mask;
  }
  return !found;
}

static void look(void *self, int32_t rank, const char *graph, const char *value,
                 const shoal_layout_t *layout, const shoal_type_t *whole, int64_t micro,
                 const void *data, int64_t bytes) {
  (void)rank, (void)layout, (void)micro;
  shoal_train_nan_t *nan = self;
  if (nan->count == MOST || !shoal_dtype_is_float(whole->dtype)) return;
  const int64_t count = bytes / (int64_t)shoal_dtype_size(whole->dtype);
  if (all_finite(whole->dtype, data, count)) return;
  bad_value_t bad = {.graph = graph, .name = value};
  for (int64_t i = 0; i < count && !bad.nan; ++i) {
    bad.nan = isnan(shoal_dtype_load(whole->dtype, data, i));
  }
  nan->values[nan->count++] = bad;
}

// ---- naming ---------------------------------------------------------------------------

enum { UPDATED = 1 << 30, UNNAMED = INT32_MAX };  // as places: states come last

// Where in the graph it is computed.
static int64_t place_of(const shoal_model_t *model, const bad_value_t *bad, bool *out_forward) {
  const shoal_graph_t *graph = shoal_model_find_graph(model, bad->graph);
  *out_forward = false;
  for (int64_t i = 0; graph && i < graph->values.count; ++i) {
    const shoal_value_info_t *value = &graph->values.items[i];
    if (strcmp(value->name, bad->name) != 0) continue;
    if (value->source == SHOAL_FROM_STATE) return UPDATED + i;
    *out_forward = value->source == SHOAL_FROM_INPUT ||
                   graph->nodes.items[value->node].kind == SHOAL_NODE_FORWARD;
    return i;
  }
  return UNNAMED;
}

static shoal_status_t name_value(const shoal_trainer_t *t, const char *graph_name, int64_t place,
                                 bool is_nan, int32_t rank) {
  const shoal_graph_t *graph = shoal_model_find_graph(t->model, graph_name);
  const int64_t id = place >= UPDATED ? place - UPDATED : place;
  const char *what = is_nan ? "NaN" : "an infinite number";
  if (!graph || place == UNNAMED || id >= graph->values.count) {
    return SHOAL_ERROR(MISMATCH, "%s at step %lld, first on rank %d", what, (long long)t->step,
                       rank);
  }
  const shoal_value_info_t *value = &graph->values.items[id];
  const char *op = value->source == SHOAL_FROM_INPUT   ? "an input"
                   : value->source == SHOAL_FROM_STATE ? "a state, as it was updated"
                                                       : graph->nodes.items[value->node].op->name;
  return shoal_status_format(
      SHOAL_MISMATCH, value->file ? value->file : __FILE__, value->file ? value->line : __LINE__,
      value->source == SHOAL_FROM_INPUT ? "look at the data"
                                        : "lower the learning rate, clip gradients, or watch what "
                                          "this value is computed from",
      "%s in '%s' (%s) at step %lld, on rank %d: the first bad value of that step", what,
      value->name, op, (long long)t->step, rank);
}

// The first of them on any rank, as place * ranks + rank; INT64_MAX: none.
static shoal_status_t agree_first(const shoal_trainer_t *t, int64_t firsts[2]) {
  const int32_t size = shoal_world_size(t->world), rank = shoal_world_rank(t->world);
  shoal_train_nan_t *nan = t->nan;
  firsts[0] = firsts[1] = INT64_MAX;
  for (int64_t i = 0; i < nan->count; ++i) {
    bool forward;
    const int64_t place = place_of(t->model, &nan->values[i], &forward);
    const int64_t key = place * size + rank;
    const bool counts = nan->values[i].nan && (forward || !nan->has_scale);
    if (counts && key < firsts[0]) firsts[0] = key;
    if (key < firsts[1]) firsts[1] = key;
  }
  if (size == 1) return NULL;
  return shoal_all_reduce(nan->everyone, SHOAL_I64, SHOAL_REDUCE_MIN, 2, firsts, firsts);
}

shoal_status_t shoal_train_nan_check(shoal_trainer_t *t, double loss) {
  shoal_train_nan_t *nan = t->nan;
  const int32_t size = shoal_world_size(t->world);
  const shoal_train_batch_t batch = shoal_train_next(t, t->cursor - 1);
  int64_t firsts[2];
  SHOAL_RETURN_IF_ERROR(shoal_session_wait(t->session));  // taps of the whole step are done
  SHOAL_RETURN_IF_ERROR(agree_first(t, firsts));
  const char *graph = nan->count ? nan->values[0].graph : NULL;
  if (!graph) graph = shoal_train_graph_name(t, "train", batch.rows);
  nan->count = 0;
  const bool is_nan = firsts[0] != INT64_MAX;
  if (!is_nan && isfinite(loss)) return NULL;
  const int64_t first = is_nan ? firsts[0] : firsts[1];
  // All ranks have the same error; none leaves before the others have it.
  if (first == INT64_MAX) return shoal_world_agree(t->world, shoal_train_not_finite(t, loss));
  return shoal_world_agree(t->world,
                           name_value(t, graph, first / size, is_nan, (int32_t)(first % size)));
}

shoal_status_t shoal_train_not_finite(const shoal_trainer_t *t, double loss) {
  return SHOAL_ERROR_HINT(MISMATCH,
                          "lower --lr; f16 needs --mixed; --check-nan names the first bad value",
                          "the loss is %g at step %lld", loss, (long long)t->step);
}

// ---- making ---------------------------------------------------------------------------

shoal_status_t shoal_train_nan_init(shoal_trainer_t *t, shoal_parallelize_options_t *options) {
  if (!t->options->check_nan) return NULL;
  t->nan = SHOAL_NEW(&t->arena, shoal_train_nan_t, 1);
  if (!t->nan) return SHOAL_OOM();
  t->nan->has_scale = shoal_model_find_state(t->model, "loss_scale") >= 0;
  options->tap = look;
  options->tap_self = t->nan;
  return shoal_group_create(t->world, shoal_world_size(t->world), NULL, &t->nan->everyone);
}

void shoal_train_nan_deinit(shoal_trainer_t *t) {
  if (t->nan) shoal_group_free(t->nan->everyone);
}

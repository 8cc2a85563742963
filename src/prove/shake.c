// How much rounding alone moves the values of a run.
//
// Where large terms cancel (the difference of two equal numbers, the mean of what a norm has made
// zero on average) a small result has the rounding errors of the terms. The size of the result then
// says nothing, and the one-device run's own error is a single sample of it: it may happen to be
// zero. So a run whose difference is to be judged is repeated in f64 a few times with every value
// moved up or down, at random, by half of the epsilon of its type, which is how far rounding moves
// it (stochastic arithmetic: Vignes, Parker). What that does to a value is what rounding may do to
// it, whatever ops it has come through. Inputs and states, which are exact, are moved too: that
// stands for the rounding of terms inside of the op that reads them. The program has no part in it:
// a wrong program does not widen what is allowed.
//
// Values that decide about something are counted, and put back: a decision that flips is no matter
// of rounding errors, and has its own excuse.
#include <math.h>

#include "base/dtype.h"
#include "base/philox.h"
#include "prove/reference_impl.h"

enum { SAMPLES = 8 };

static double epsilon_of(const shoal_reference_t *r, int32_t value) {
  const double own = shoal_dtype_epsilon(r->graph->values.items[value].type.dtype);
  return r->exchanged ? fmax(own, shoal_dtype_epsilon(r->exchanged[value])) : own;
}

void shoal_reference_shake_value(shoal_reference_t *r, int32_t value, shoal_tensor_t tensor) {
  shoal_expected_t *e = &r->values[value];
  if (!e->floats || r->failed) return;
  const bool rounded = r->graph->values.items[value].source == SHOAL_FROM_NODE;
  const bool decides = shoal_reference_decides(r->graph, value);
  const double half = epsilon_of(r, value) / 2;
  shoal_tensor_t wide;
  shoal_status_t status = shoal_interpreter_value(r->interpreters[WIDE], value, &wide);
  r->failed = status != NULL;
  for (int64_t i = 0; !r->failed && i < shoal_shape_count(&tensor.shape); ++i) {
    const uint32_t word =
        shoal_philox_word((uint64_t)r->sample, (uint64_t)value, (uint64_t)r->run, (uint64_t)i);
    const double x = shoal_dtype_load(tensor.dtype, tensor.data, i);
    const double moved = x + (word & 1 ? half : -half) * x, error = fabs(moved - e->floats[i]);
    if (rounded && isfinite(error)) e->shaken = fmax(e->shaken, error);
    shoal_dtype_store(tensor.dtype, tensor.data, i,
                      decides ? shoal_dtype_load(wide.dtype, wide.data, i) : moved);
  }
  shoal_status_free(status);
}

// As the run in the model's own types began.
static shoal_status_t begin(shoal_reference_t *r) {
  for (int32_t s = 0; s < r->model->states.count; ++s) {
    const shoal_dtype_t dtype = r->model->states.items[s].type.dtype;
    shoal_tensor_t tensor;
    SHOAL_RETURN_IF_ERROR(shoal_interpreter_state(r->interpreters[SHAKEN], s, &tensor));
    for (int64_t i = 0; i < shoal_shape_count(&tensor.shape); ++i) {
      if (shoal_dtype_is_float(dtype))
        shoal_dtype_store(tensor.dtype, tensor.data, i,
                          shoal_dtype_load(dtype, r->saved[OWN][s], i));
      else
        shoal_dtype_store_int(tensor.dtype, tensor.data, i,
                              shoal_dtype_load_int(dtype, r->saved[OWN][s], i));
    }
  }
  return shoal_reference_feed(r, SHAKEN);
}

shoal_status_t shoal_reference_shake(shoal_reference_t *r) {
  if (!r->interpreters[WIDE] || r->run == 0) return NULL;  // f64 throughout; exact
  if (!r->interpreters[SHAKEN]) SHOAL_RETURN_IF_ERROR(shoal_reference_add_side(r, SHAKEN));
  const int before = r->side;
  shoal_status_t status = NULL;
  r->side = SHAKEN;
  for (r->sample = 0; r->sample < SAMPLES && !status && !r->failed; ++r->sample) {
    status = begin(r);
    if (!status) status = shoal_interpreter_run(r->interpreters[SHAKEN], r->graph->name);
  }
  r->side = before;
  SHOAL_RETURN_IF_ERROR(status);
  for (int64_t a = 0; a < r->graph->assigns.count; ++a) {
    const shoal_assignment_t *assign = &r->graph->assigns.items[a];
    r->after[assign->state].shaken = r->values[assign->value].shaken;
  }
  return r->failed ? SHOAL_OOM() : NULL;
}

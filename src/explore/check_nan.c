// NaN and infinities. An element of a float input is moved to other numbers, which shows the
// results that depend on it; then it is made NaN, inf and -inf.
//
//   - All that depends on it is NaN where it is NaN, unless the record says otherwise (`nan`).
//   - An element that nothing depends on (it is masked, not chosen, outside of a window) changes
//     nothing but what lies in its own place, whatever it is: 0 * NaN must not be computed. This is
//     for ops with gradients (updates may multiply old numbers by 0), and for calls without dims of
//     1 (the softmax of one element is 1).
//   - Nothing crashes or is refused, and the same bits come out again.
//
// Where the record has a text, which is for the reader, only the last is asked.
#include <math.h>

#include "base/dtype.h"
#include "base/philox.h"
#include "explore/check_ops.h"

enum { ELEMENTS = 8 };  // of each input

typedef struct nan_check {
  checker_t *c;
  const subject_t *s;
  shoal_tensor_t *inputs, *expected;
  bool **depends;  // by output and element
  bool unused;     // no result depends on the element, and not for lack of others
  int32_t input;
  int64_t element;
} nan_check_t;

// Numbers to move an element to, within what the input takes.
static double moved_to(const shoal_case_t *data, int32_t input, int32_t move, double x) {
  const bool share = data->limit[input] == 1, positive = data->positive[input];
  static const double anywhere[] = {3.25, -2.75, 0.0625}, above[] = {3.25, 0.3125, 0.0625},
                      within[] = {0.875, 0.3125, 0.125};
  const double to = share ? within[move] : positive ? above[move] : anywhere[move];
  return to == x ? to / 2 : to;
}

static shoal_status_t run_with(nan_check_t *n, double value, shoal_tensor_t **out_outputs) {
  shoal_tensor_t *tensor = &n->inputs[n->input];
  const double kept = check_at(tensor, n->element);
  shoal_dtype_store(tensor->dtype, tensor->data, n->element, value);
  shoal_status_t status = check_run(n->c, &n->s->call, n->inputs, 0, out_outputs);
  shoal_dtype_store(tensor->dtype, tensor->data, n->element, kept);
  return status;
}

static bool same(double a, double b) {
  return a == b || (isnan(a) && isnan(b));
}

static bool has_ones(const shoal_call_t *call) {
  for (int32_t i = 0; i < call->input_count; ++i) {
    for (int32_t d = 0; d < call->inputs[i].shape.rank; ++d) {
      if (call->inputs[i].shape.dims[d] == 1) return true;
    }
  }
  return false;
}

// Which results change when the element does.
static shoal_status_t find_dependent(nan_check_t *n) {
  const shoal_call_t *call = &n->s->call;
  const double x = check_at(&n->inputs[n->input], n->element);
  for (int32_t o = 0; o < call->output_count; ++o) {
    const int64_t count = shoal_shape_count(&call->outputs[o].shape);
    for (int64_t i = 0; i < count; ++i) n->depends[o][i] = false;
  }
  n->unused = call->op->gradient && !has_ones(call);
  for (int32_t move = 0; move < 3; ++move) {
    shoal_tensor_t *outputs = NULL;
    SHOAL_RETURN_IF_ERROR(run_with(n, moved_to(&n->s->data, n->input, move, x), &outputs));
    for (int32_t o = 0; o < call->output_count; ++o) {
      for (int64_t i = 0; i < shoal_shape_count(&outputs[o].shape); ++i) {
        n->depends[o][i] |= !same(check_at(&outputs[o], i), check_at(&n->expected[o], i));
        n->unused &= !n->depends[o][i];
      }
    }
  }
  return NULL;
}

static shoal_status_t tell(nan_check_t *n, double planted, int32_t output, int64_t at, double is,
                           const char *should) {
  return check_failed(
      n->c, &n->s->call,
      shoal_arena_printf(&n->c->arena, "with %g in input %d[%lld], output %d[%lld] is %g: %s",
                         planted, (int)n->input, (long long)n->element, (int)output, (long long)at,
                         is, should));
}

// Does the result lie where the element does?
static bool in_place(const nan_check_t *n, int32_t output, int64_t at) {
  const shoal_call_t *call = &n->s->call;
  return at == n->element &&
         shoal_shape_equal(&call->inputs[n->input].shape, &call->outputs[output].shape);
}

// One such number in the element. Says at most one thing about it.
static shoal_status_t plant(nan_check_t *n, double value) {
  const shoal_call_t *call = &n->s->call;
  shoal_tensor_t *outputs = NULL, *again = NULL;
  shoal_status_t status = run_with(n, value, &outputs);
  if (status) return check_refused(n->c, call, "with NaN or inf", status);
  SHOAL_RETURN_IF_ERROR(run_with(n, value, &again));
  for (int32_t o = 0; o < call->output_count; ++o) {
    const int64_t at = check_differs(&outputs[o], &again[o]);
    if (at >= 0) {
      return tell(n, value, o, at, check_at(&outputs[o], at), "another number the second time");
    }
    if (call->op->nan || !shoal_dtype_is_float(outputs[o].dtype)) continue;
    for (int64_t i = 0; i < shoal_shape_count(&outputs[o].shape); ++i) {
      const double is = check_at(&outputs[o], i), was = check_at(&n->expected[o], i);
      if (n->depends[o][i] && isnan(value) && !isnan(is)) {
        return tell(n, value, o, i, is,
                    "it depends on it and is not NaN, and the record has no `nan` text");
      }
      if (n->unused && !same(is, was) && !in_place(n, o, i)) {
        return tell(n, value, o, i, is, "nothing depends on that element");
      }
    }
  }
  return NULL;
}

shoal_status_t check_nan(checker_t *c, const subject_t *s) {
  nan_check_t n = {.c = c, .s = s};
  SHOAL_RETURN_IF_ERROR(subject_inputs(c, s, &n.inputs));
  shoal_status_t status = check_run(c, &s->call, n.inputs, 0, &n.expected);
  if (status) return check_refused(c, &s->call, "it fails", status);
  n.depends = SHOAL_NEW(&c->arena, bool *, s->call.output_count);
  if (!n.depends) return SHOAL_OOM();
  for (int32_t o = 0; o < s->call.output_count; ++o) {
    n.depends[o] = SHOAL_NEW(&c->arena, bool, shoal_shape_count(&s->call.outputs[o].shape));
    if (!n.depends[o]) return SHOAL_OOM();
  }
  for (n.input = 0; n.input < s->call.input_count; ++n.input) {
    const int64_t count = shoal_shape_count(&s->call.inputs[n.input].shape);
    if (!shoal_dtype_is_float(s->call.inputs[n.input].dtype)) continue;
    for (int64_t k = 0; k < ELEMENTS && k < count; ++k) {
      const uint32_t word = shoal_philox_word(s->seed, 77 + (uint64_t)n.input, 0, (uint64_t)k);
      n.element = count <= ELEMENTS ? k : (int64_t)(word % (uint64_t)count);
      status = find_dependent(&n);
      if (status) return check_refused(c, &s->call, "with another number in an input", status);
      SHOAL_RETURN_IF_ERROR(plant(&n, (double)NAN));
      SHOAL_RETURN_IF_ERROR(plant(&n, (double)INFINITY));
      SHOAL_RETURN_IF_ERROR(plant(&n, -(double)INFINITY));
      ++c->counts.nan;
    }
  }
  return NULL;
}

// Results depend on the inputs alone: the same bits over other garbage in outputs and workspace,
// inputs left as they were, and the same bits where outputs are written over inputs, as the record
// allows, in every combination.
#include <string.h>

#include "base/dtype.h"
#include "explore/check_ops.h"

// ---- over garbage ------------------------------------------------------------------------------

static shoal_status_t compare_inputs(checker_t *c, const shoal_call_t *call,
                                     const shoal_tensor_t *inputs, const shoal_tensor_t *before) {
  for (int32_t i = 0; i < call->input_count; ++i) {
    if (check_differs(&inputs[i], &before[i]) < 0) continue;
    SHOAL_RETURN_IF_ERROR(
        check_failed(c, call, shoal_arena_printf(&c->arena, "it changes input %d", (int)i)));
  }
  return NULL;
}

static shoal_status_t repeat(checker_t *c, const shoal_call_t *call, const shoal_tensor_t *inputs,
                             const shoal_tensor_t *first) {
  shoal_tensor_t *second = NULL;
  SHOAL_RETURN_IF_ERROR(check_run(c, call, inputs, 0xff, &second));
  for (int32_t i = 0; i < call->output_count; ++i) {
    const int64_t at = check_differs(&first[i], &second[i]);
    if (at < 0) continue;
    SHOAL_RETURN_IF_ERROR(check_failed(
        c, call,
        shoal_arena_printf(&c->arena,
                           "output %d[%lld] depends on what was in the outputs or the workspace: "
                           "%g, then %g",
                           (int)i, (long long)at, check_at(&first[i], at),
                           check_at(&second[i], at))));
  }
  return NULL;
}

// ---- in place ----------------------------------------------------------------------------------

// Which input each output is written over (-1: none), while all combinations are tried.
typedef struct lying {
  checker_t *c;
  const shoal_call_t *call;
  const shoal_tensor_t *inputs, *expected;
  int32_t *over;
  int64_t runs;
} lying_t;

static shoal_status_t tell_lying(const lying_t *l, int32_t output, int64_t at, double value) {
  const char *pairs = "";
  for (int32_t o = 0; o < l->call->output_count && pairs; ++o) {
    if (l->over[o] < 0) continue;
    pairs = shoal_arena_printf(&l->c->arena, "%s%soutput %d over input %d", pairs,
                               pairs[0] ? ", " : "", (int)o, (int)l->over[o]);
  }
  if (!pairs) return SHOAL_OOM();
  return check_failed(
      l->c, l->call,
      shoal_arena_printf(&l->c->arena, "in place (%s): output %d[%lld] is %g instead of %g", pairs,
                         (int)output, (long long)at, value, check_at(&l->expected[output], at)));
}

static shoal_status_t run_lying(lying_t *l) {
  checker_t *c = l->c;
  const shoal_call_t *call = l->call;
  shoal_tensor_t *in = SHOAL_NEW(&c->arena, shoal_tensor_t, call->input_count);
  shoal_tensor_t *out = SHOAL_NEW(&c->arena, shoal_tensor_t, call->output_count);
  if (!in || !out) return SHOAL_OOM();
  for (int32_t i = 0; i < call->input_count; ++i) {
    SHOAL_RETURN_IF_ERROR(check_copy(c, &l->inputs[i], &in[i]));
  }
  for (int32_t o = 0; o < call->output_count; ++o) {
    SHOAL_RETURN_IF_ERROR(check_tensor(c, &call->outputs[o], 0xff, &out[o]));
    // As many elements of the same size: shoal_op_overwrites has seen to it.
    if (l->over[o] >= 0) out[o].data = in[l->over[o]].data;
  }
  shoal_status_t status = check_run_on(c, call, in, out, 0xff);
  if (status) return check_refused(c, call, "in place", status);
  for (int32_t o = 0; o < call->output_count; ++o) {
    const int64_t at = check_differs(&out[o], &l->expected[o]);
    if (at >= 0) return tell_lying(l, o, at, check_at(&out[o], at));
  }
  return NULL;
}

// All ways to write outputs from `output` on over inputs that are free.
static shoal_status_t run_all_lying(lying_t *l, int32_t output, bool any) {
  if (l->runs >= CHECK_MOST_RUNS) return NULL;
  if (output == l->call->output_count) {
    l->runs += any;
    return any ? run_lying(l) : NULL;
  }
  for (int32_t i = -1; i < l->call->input_count; ++i) {
    bool free = i < 0 || shoal_op_overwrites(l->call, output, i);
    for (int32_t o = 0; o < output; ++o) free &= i < 0 || l->over[o] != i;
    if (!free) continue;
    l->over[output] = i;
    SHOAL_RETURN_IF_ERROR(run_all_lying(l, output + 1, any || i >= 0));
  }
  return NULL;
}

static shoal_status_t check_in_place(checker_t *c, const shoal_call_t *call,
                                     const shoal_tensor_t *inputs, const shoal_tensor_t *expected) {
  lying_t l = {.c = c, .call = call, .inputs = inputs, .expected = expected};
  if (!call->op->overwrites || call->op->overwrite_count == 0) return NULL;
  l.over = SHOAL_NEW(&c->arena, int32_t, call->output_count);
  if (!l.over) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(run_all_lying(&l, 0, false));
  c->counts.in_place += l.runs;
  return NULL;
}

// ---- both --------------------------------------------------------------------------------------

static shoal_status_t check_one(checker_t *c, const subject_t *s) {
  shoal_tensor_t *inputs = NULL, *outputs = NULL;
  SHOAL_RETURN_IF_ERROR(subject_inputs(c, s, &inputs));
  shoal_tensor_t *before = SHOAL_NEW(&c->arena, shoal_tensor_t, s->call.input_count);
  if (!before) return SHOAL_OOM();
  for (int32_t i = 0; i < s->call.input_count; ++i) {
    SHOAL_RETURN_IF_ERROR(check_copy(c, &inputs[i], &before[i]));
  }
  shoal_status_t status = check_run(c, &s->call, inputs, 0, &outputs);
  if (status) return check_refused(c, &s->call, "it fails", status);
  SHOAL_RETURN_IF_ERROR(compare_inputs(c, &s->call, inputs, before));
  SHOAL_RETURN_IF_ERROR(repeat(c, &s->call, inputs, outputs));
  ++c->counts.repeats;
  return check_in_place(c, &s->call, inputs, outputs);
}

// With its first dims a hundred times longer, so that loops are vectorised, where the op takes
// that.
static shoal_status_t check_longer(checker_t *c, const subject_t *s) {
  shoal_call_t call = s->call;
  shoal_case_t data = s->data;
  subject_t longer;
  bool grown = false;
  for (int32_t i = 0; i < call.input_count; ++i) {
    shoal_shape_t *shape = &data.inputs[i].shape;
    if (shape->rank == 0 || shape->dims[0] < 2) continue;
    shape->dims[0] *= 100;
    grown = true;
  }
  call.inputs = data.inputs;
  if (!grown || !call.op->overwrites) return NULL;
  shoal_status_t status = subject_make(c, &data, &call, s->seed, &longer);
  if (!status) return check_one(c, &longer);
  const bool short_of_memory = shoal_status_code(status) == SHOAL_OUT_OF_MEMORY;
  if (short_of_memory) return status;
  shoal_status_free(status);
  return NULL;
}

shoal_status_t check_values(checker_t *c, const subject_t *s) {
  SHOAL_RETURN_IF_ERROR(check_one(c, s));
  return s->example ? check_longer(c, s) : NULL;
}

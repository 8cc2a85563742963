// Sizes that are easily forgotten: each free size of an example in turn is 0, 1 and a prime that is
// larger than what rules are found on. The op takes the call, and then everything holds for it as
// for others, or it refuses it in words. Data may be the reason too: nothing has no index.
#include "explore/check_ops.h"

static const int64_t SIZES[] = {0, 1, 13};

// Says whether this is a refusal as it should be.
static bool is_clear(shoal_status_t status) {
  const shoal_code_t code = shoal_status_code(status);
  return (code == SHOAL_INVALID_ARGUMENT || code == SHOAL_UNSUPPORTED) &&
         shoal_status_message(status)[0] != 0;
}

// Infer refuses the call, or its sizes cannot be written.
static shoal_status_t check_refusal(checker_t *c, const shoal_call_t *call) {
  shoal_type_t *outputs = SHOAL_NEW(&c->arena, shoal_type_t, call->output_count);
  shoal_call_t whole = *call;
  if (!outputs) return SHOAL_OOM();
  whole.outputs = NULL;
  shoal_status_t status = shoal_op_infer(&whole, outputs);
  if (!status) return NULL;
  if (!is_clear(status)) return check_refused(c, call, "no clear refusal", status);
  shoal_status_free(status);
  ++c->counts.refused;
  return NULL;
}

// Does the kernel refuse to find anything in what is empty?
static shoal_status_t refuses_empty(checker_t *c, const subject_t *s, bool *out_refuses) {
  shoal_tensor_t *inputs = NULL, *outputs = NULL;
  SHOAL_RETURN_IF_ERROR(subject_inputs(c, s, &inputs));
  shoal_status_t status = check_run(c, &s->call, inputs, 0, &outputs);
  *out_refuses = is_clear(status);
  if (*out_refuses) shoal_status_free(status);
  return *out_refuses ? NULL : status;
}

static shoal_status_t check_size(checker_t *c, const shoal_case_t *example,
                                 const shoal_call_t *call, int64_t size, uint64_t seed) {
  subject_t s;
  SHOAL_RETURN_IF_ERROR(subject_make(c, example, call, seed, &s));
  if (size == 0) {
    bool refuses = false;
    SHOAL_RETURN_IF_ERROR(refuses_empty(c, &s, &refuses));
    c->counts.refused += refuses;
    c->counts.empty += !refuses;
    if (refuses) return NULL;
  }
  ++c->counts.shapes;
  SHOAL_RETURN_IF_ERROR(check_values(c, &s));
  SHOAL_RETURN_IF_ERROR(check_ways(c, &s));
  return check_all(c, &s);
}

shoal_status_t check_sizes(checker_t *c, const shoal_case_t *example, const subject_t *s) {
  for (int32_t which = 0;; ++which) {
    for (size_t k = 0; k < sizeof SIZES / sizeof *SIZES; ++k) {
      shoal_resized_t resized;
      SHOAL_RETURN_IF_ERROR(shoal_rules_resize(&s->call, which, SIZES[k], &c->arena, &resized));
      if (!resized.exists) return NULL;
      SHOAL_RETURN_IF_ERROR(resized.accepted
                                ? check_size(c, example, &resized.call, SIZES[k], s->seed)
                                : check_refusal(c, &resized.call));
    }
  }
}

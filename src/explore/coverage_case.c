// Counting what cases exercise: what the plan of a case does not tell.
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "explore/coverage.h"
#include "op/indices.h"

static bool is_f8(shoal_dtype_t dtype) {
  return shoal_dtype_is_real(dtype) && shoal_dtype_size(dtype) == 1;
}

// Is the spare index fed? Inputs with a limit of their own have none.
static bool is_spared(const shoal_random_case_t *c, const shoal_case_node_t *node,
                      const shoal_call_t *call) {
  for (int32_t r = 0; r < node->ref_count; ++r) {
    int64_t spare;
    const shoal_case_ref_t ref = node->refs[r];
    if (ref.kind == 'i' && c->inputs.items[ref.index].limit == 0 &&
        shoal_indices_spare(call, r, &spare))
      return true;
  }
  return false;
}

static shoal_status_t add_node(shoal_coverage_t *coverage, const shoal_random_case_t *c,
                               const shoal_case_node_t *node, const shoal_case_t *example) {
  const shoal_op_t *op = example->op;
  const shoal_call_t call = {.op = op,
                             .input_count = node->ref_count,
                             .output_count = node->output_count,
                             .inputs = example->inputs,
                             .outputs = node->outputs,
                             .attrs = example->attrs};
  bool ok = true;
  if (op->optional > 0 && node->ref_count > op->input_count - op->optional)
    ok = shoal_coverage_occurs(coverage, "feature", "optional input");
  if (node->output_count > 1)
    ok = ok && shoal_coverage_occurs(coverage, "feature", "several outputs");
  if (is_f8(node->outputs[0].dtype))
    ok = ok && shoal_coverage_occurs(coverage, "feature", "f8 cast");
  if (is_spared(c, node, &call))
    ok = ok && shoal_coverage_occurs(coverage, "feature", "spare index");
  if (strcmp(node->op, "batch_norm") == 0)
    ok = ok && shoal_coverage_occurs(coverage, "feature", "running statistics");
  return ok ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_coverage_case(shoal_coverage_t *coverage, const shoal_random_case_t *c,
                                   const shoal_registry_t *registry, shoal_arena_t *arena) {
  char optimizer[48];
  for (int64_t n = 0; n < c->nodes.count; ++n) {
    shoal_case_t example;
    SHOAL_RETURN_IF_ERROR(shoal_random_case_call(c, registry, &c->nodes.items[n], arena, &example));
    SHOAL_RETURN_IF_ERROR(add_node(coverage, c, &c->nodes.items[n], &example));
  }
  if (c->optimizer == SHOAL_CASE_NONE) return NULL;
  snprintf(optimizer, sizeof optimizer, "optimizer %s", shoal_random_case_optimizer(c));
  return shoal_coverage_see(coverage, optimizer);
}

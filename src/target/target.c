// Targets: the described kinds, and the questions with their defaults.
#include "target/target.h"

#include <stdio.h>

shoal_target_t shoal_target_described(const char *name, double flops_per_second,
                                      double bytes_per_second, int64_t memory) {
  shoal_target_t target = {
      .bytes_per_second = bytes_per_second, .memory = memory, .alignment = 64, .overlaps = true};
  snprintf(target.name, sizeof target.name, "%s", name);
  for (int dtype = 0; dtype < SHOAL_DTYPE_COUNT; ++dtype) {
    double factor = 4.0 / (double)shoal_dtype_size((shoal_dtype_t)dtype);
    bool is_float = shoal_dtype_is_float((shoal_dtype_t)dtype);
    target.flops_per_second[dtype] = flops_per_second * (is_float ? factor : 1);
  }
  return target;
}

shoal_target_t shoal_target_cpu(void) {
  return shoal_target_described("cpu", 1e9, 1e10, 0);
}

bool shoal_target_wants_workspace(const shoal_target_t *target, const shoal_op_t *op) {
  return target->workspace || op->workspace;
}

int64_t shoal_target_workspace(const shoal_target_t *target, const shoal_call_t *call) {
  if (target->workspace) return target->workspace(target->self, call);
  return call->op->workspace ? call->op->workspace(call) : 0;
}

bool shoal_target_has_kernel(const shoal_target_t *target, const shoal_op_t *op) {
  return target->has_kernel ? target->has_kernel(target->self, op) : op->kernel != NULL;
}

double shoal_target_seconds(const shoal_target_t *target, const shoal_call_t *call) {
  shoal_cost_t cost = shoal_op_cost(call);
  shoal_dtype_t dtype =
      call->output_count > 0 && call->outputs ? call->outputs[0].dtype : SHOAL_F32;
  double rate = target->flops_per_second[dtype];
  double compute = rate > 0 ? cost.flops / rate : 0;
  double move = target->bytes_per_second > 0 ? cost.bytes / target->bytes_per_second : 0;
  return compute > move ? compute : move;
}

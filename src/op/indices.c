// Which integers an input may hold: the record's index_count, and its spare index.
#include "op/indices.h"

#include <string.h>

#include "base/dtype.h"

int64_t shoal_indices(const shoal_call_t *call, int32_t input) {
  const shoal_op_t *op = call->op;
  return op->index_count ? op->index_count(call, shoal_op_named(op, call->attrs, input)) : 0;
}

bool shoal_indices_spare(const shoal_call_t *call, int32_t input, int64_t *out_spare) {
  const shoal_op_t *op = call->op;
  if (!op->spare || shoal_indices(call, input) <= 0) return false;
  int32_t attr = 0;
  while (attr < op->attr_count && strcmp(op->attrs[attr].name, op->spare) != 0) ++attr;
  if (attr == op->attr_count) return false;
  int64_t element = 0;  // room for one of any type
  const shoal_dtype_t dtype = call->inputs[input].dtype;
  shoal_dtype_store_int(dtype, &element, 0, call->attrs[attr].i);
  *out_spare = call->attrs[attr].i;
  return shoal_dtype_load_int(dtype, &element, 0) == *out_spare;
}

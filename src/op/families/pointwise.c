// Element-wise ops in blocks of doubles or of 64-bit integers; what such families share.
#include "op/families/pointwise.h"

#define BLOCK 128
#define MAX_PARAMS 8

// ---- blocks ----------------------------------------------------------------------------

static const double *load_reals(const shoal_tensor_t *tensor, int64_t offset, int64_t step,
                                int64_t n, double *block) {
  if (tensor->dtype == SHOAL_F64 && step == 1) return (const double *)tensor->data + offset;
  if (tensor->dtype == SHOAL_F32) {
    const float *x = (const float *)tensor->data + offset;
    for (int64_t i = 0; i < n; ++i) block[i] = (double)x[i * step];
    return block;
  }
  for (int64_t i = 0; i < n; ++i) {
    block[i] = shoal_dtype_load(tensor->dtype, tensor->data, offset + i * step);
  }
  return block;
}

static void store_reals(const shoal_tensor_t *tensor, int64_t offset, int64_t n,
                        const double *block) {
  if (tensor->dtype == SHOAL_F64) {
    memcpy((double *)tensor->data + offset, block, (size_t)n * sizeof *block);
  } else if (tensor->dtype == SHOAL_F32) {
    float *out = (float *)tensor->data + offset;
    for (int64_t i = 0; i < n; ++i) out[i] = (float)block[i];
  } else {
    for (int64_t i = 0; i < n; ++i) {
      shoal_dtype_store(tensor->dtype, tensor->data, offset + i, block[i]);
    }
  }
}

static void map_reals(const shoal_walk_t *walk, int32_t count, const shoal_tensor_t *inputs,
                      const shoal_tensor_t *output, shoal_reals_fn_t fn, const double *params) {
  double blocks[SHOAL_WALK_OPERANDS][BLOCK];
  const double *in[SHOAL_WALK_OPERANDS];
  for (int64_t at = 0; at < walk->run; at += BLOCK) {
    const int64_t n = walk->run - at < BLOCK ? walk->run - at : BLOCK;
    for (int32_t k = 0; k < count; ++k) {
      in[k] =
          load_reals(&inputs[k], walk->offset[k] + at * walk->step[k], walk->step[k], n, blocks[k]);
    }
    fn(n, in, blocks[count], params);
    store_reals(output, walk->offset[count] + at, n, blocks[count]);
  }
}

static void map_ints(const shoal_walk_t *walk, int32_t count, const shoal_tensor_t *inputs,
                     const shoal_tensor_t *output, shoal_ints_fn_t fn, const double *params) {
  int64_t blocks[SHOAL_WALK_OPERANDS][BLOCK];
  const int64_t *in[SHOAL_WALK_OPERANDS];
  for (int64_t at = 0; at < walk->run; at += BLOCK) {
    const int64_t n = walk->run - at < BLOCK ? walk->run - at : BLOCK;
    for (int32_t k = 0; k < count; ++k) {
      const int64_t offset = walk->offset[k] + at * walk->step[k];
      for (int64_t i = 0; i < n; ++i) {
        blocks[k][i] =
            shoal_dtype_load_int(inputs[k].dtype, inputs[k].data, offset + i * walk->step[k]);
      }
      in[k] = blocks[k];
    }
    fn(n, in, blocks[count], params);
    for (int64_t i = 0; i < n; ++i) {
      shoal_dtype_store_int(output->dtype, output->data, walk->offset[count] + at + i,
                            blocks[count][i]);
    }
  }
}

static void read_params(const shoal_call_t *call, double params[MAX_PARAMS]) {
  int32_t count = 0;
  for (int32_t i = 0; i < call->op->attr_count && count < MAX_PARAMS; ++i) {
    if (call->op->attrs[i].kind == SHOAL_ATTR_REAL) params[count++] = call->attrs[i].f;
    if (call->op->attrs[i].kind == SHOAL_ATTR_INT) params[count++] = (double)call->attrs[i].i;
  }
}

shoal_status_t shoal_map_blocks(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                const shoal_tensor_t *outputs, shoal_reals_fn_t reals,
                                shoal_ints_fn_t ints) {
  const int32_t count = call->input_count;
  double params[MAX_PARAMS] = {0};
  read_params(call, params);
  bool floats = !ints;
  shoal_walk_t walk;
  shoal_walk_init(&walk, &outputs->shape, count + 1);
  for (int32_t k = 0; k < count; ++k) {
    floats |= shoal_dtype_is_float(inputs[k].dtype);
    shoal_strides_in(&inputs[k].shape, &outputs->shape, walk.stride[k]);
  }
  shoal_strides(&outputs->shape, walk.stride[count]);
  for (bool more = shoal_walk_start(&walk); more; more = shoal_walk_next(&walk)) {
    if (floats) {
      map_reals(&walk, count, inputs, outputs, reals, params);
    } else {
      map_ints(&walk, count, inputs, outputs, ints, params);
    }
  }
  return NULL;
}

// ---- types -----------------------------------------------------------------------------

shoal_status_t shoal_infer_broadcast(const shoal_call_t *call, shoal_type_t *out_types) {
  for (int32_t i = 1; i < call->input_count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_check_same_dtype(call, 0, i));
  }
  out_types[0].dtype = call->inputs[0].dtype;
  return shoal_check_broadcast(call, 0, call->input_count, &out_types[0].shape);
}

shoal_status_t shoal_infer_broadcast_floats(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, call->input_count));
  return shoal_infer_broadcast(call, out_types);
}

shoal_status_t shoal_infer_broadcast_numbers(const shoal_call_t *call, shoal_type_t *out_types) {
  REQUIRE_HINT(call, call->inputs[0].dtype != SHOAL_BOOL, "cast it first (shoal_cast)",
               "%s must be a float or an integer, not bool", call->op->inputs[0]);
  return shoal_infer_broadcast(call, out_types);
}

shoal_status_t shoal_infer_same_floats(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, call->input_count));
  for (int32_t i = 1; i < call->input_count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, i, &call->inputs[0].shape));
  }
  out_types[0] = call->inputs[0];
  return NULL;
}

// ---- gradients -------------------------------------------------------------------------

shoal_ref_t shoal_emit_alike(shoal_emitter_t *e, const char *op, int32_t input_count,
                             const shoal_ref_t *inputs, const shoal_call_t *call) {
  shoal_attr_t attrs[MAX_PARAMS];
  int32_t count = 0;
  for (int32_t i = 0; i < call->op->attr_count && count < MAX_PARAMS; ++i) {
    const shoal_attr_schema_t *schema = &call->op->attrs[i];
    if (schema->kind == SHOAL_ATTR_PLACE) continue;
    attrs[count++] = (shoal_attr_t){schema->name, schema->kind, call->attrs[i]};
  }
  return shoal_emit_one(e, op, input_count, inputs, count, attrs);
}

shoal_ref_t shoal_emit_mul(shoal_emitter_t *e, shoal_ref_t a, shoal_ref_t b) {
  return shoal_emit_binary(e, "shoal.mul", a, b);
}

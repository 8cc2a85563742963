// Walking over strided operands; f32 copies of half-size floats.
#include "op/families/kernel.h"

void shoal_strides(const shoal_shape_t *shape, int64_t out_strides[SHOAL_MAX_RANK]) {
  int64_t stride = 1;
  for (int32_t d = shape->rank - 1; d >= 0; --d) {
    out_strides[d] = stride;
    stride *= shape->dims[d];
  }
}

void shoal_strides_in(const shoal_shape_t *shape, const shoal_shape_t *frame,
                      int64_t out_strides[SHOAL_MAX_RANK]) {
  int64_t own[SHOAL_MAX_RANK];
  shoal_strides(shape, own);
  for (int32_t d = 0; d < frame->rank; ++d) {
    int32_t mine = d - (frame->rank - shape->rank);
    out_strides[d] = mine < 0 || shape->dims[mine] == 1 ? 0 : own[mine];
  }
}

void shoal_walk_init(shoal_walk_t *walk, const shoal_shape_t *shape, int32_t operands) {
  *walk = (shoal_walk_t){.operands = operands, .rank = shape->rank};
  for (int32_t d = 0; d < shape->rank; ++d) walk->size[d] = shape->dims[d];
}

// Is the outer dim a continuation of the inner one in every operand?
static bool merges(const shoal_walk_t *walk, int32_t outer, int32_t inner) {
  for (int32_t o = 0; o < walk->operands; ++o) {
    if (walk->stride[o][outer] != walk->stride[o][inner] * walk->size[inner]) return false;
  }
  return true;
}

bool shoal_walk_start(shoal_walk_t *walk) {
  int32_t kept = 0;
  for (int32_t d = 0; d < walk->rank; ++d) {
    if (walk->size[d] == 0) return false;
    if (walk->size[d] == 1) continue;
    int64_t size = walk->size[d];
    if (kept && merges(walk, kept - 1, d)) {
      size *= walk->size[kept - 1];
      --kept;
    }
    walk->size[kept] = size;
    for (int32_t o = 0; o < walk->operands; ++o) walk->stride[o][kept] = walk->stride[o][d];
    ++kept;
  }
  walk->rank = kept ? kept - 1 : 0;  // the innermost dim is the run
  walk->run = kept ? walk->size[kept - 1] : 1;
  for (int32_t o = 0; o < walk->operands; ++o) {
    walk->step[o] = kept ? walk->stride[o][kept - 1] : 0;
  }
  memset(walk->index, 0, sizeof walk->index);
  return true;
}

bool shoal_walk_next(shoal_walk_t *walk) {
  for (int32_t d = walk->rank - 1; d >= 0; --d) {
    bool wraps = ++walk->index[d] == walk->size[d];
    int64_t by = wraps ? 1 - walk->size[d] : 1;
    for (int32_t o = 0; o < walk->operands; ++o) walk->offset[o] += by * walk->stride[o][d];
    if (!wraps) return true;
    walk->index[d] = 0;
  }
  return false;
}

#define COPY_RUN(type)                                              \
  do {                                                              \
    const type *from = (const type *)src + walk.offset[0];          \
    type *to = (type *)dst + walk.offset[1];                        \
    const int64_t s = walk.step[0], t = walk.step[1], n = walk.run; \
    for (int64_t i = 0; i < n; ++i) to[i * t] = from[i * s];        \
  } while (0)

void shoal_copy_box(const shoal_shape_t *box, size_t element, const void *src, int64_t src_offset,
                    const int64_t *src_stride, void *dst, int64_t dst_offset,
                    const int64_t *dst_stride) {
  shoal_walk_t walk;
  shoal_walk_init(&walk, box, 2);
  for (int32_t d = 0; d < box->rank; ++d) {
    walk.stride[0][d] = src_stride[d];
    walk.stride[1][d] = dst_stride[d];
  }
  walk.offset[0] = src_offset;
  walk.offset[1] = dst_offset;
  for (bool more = shoal_walk_start(&walk); more; more = shoal_walk_next(&walk)) {
    if (walk.step[0] == 1 && walk.step[1] == 1) {
      memcpy((char *)dst + walk.offset[1] * (int64_t)element,
             (const char *)src + walk.offset[0] * (int64_t)element, (size_t)walk.run * element);
    } else {
      switch (element) {
        case 1:
          COPY_RUN(uint8_t);
          break;
        case 2:
          COPY_RUN(uint16_t);
          break;
        case 4:
          COPY_RUN(uint32_t);
          break;
        case 8:
          COPY_RUN(uint64_t);
          break;
        default:
          break;
      }
    }
  }
}

// ---- element-wise ----------------------------------------------------------------------

shoal_status_t shoal_map_run(const shoal_tensor_t *inputs, int32_t input_count,
                             const shoal_tensor_t *output, shoal_map_fn_t loop,
                             const double *params) {
  shoal_walk_t walk;
  shoal_walk_init(&walk, &output->shape, input_count + 1);
  for (int32_t i = 0; i < input_count; ++i) {
    shoal_strides_in(&inputs[i].shape, &output->shape, walk.stride[i]);
  }
  shoal_strides(&output->shape, walk.stride[input_count]);
  const int64_t out_size = (int64_t)shoal_dtype_size(output->dtype);
  for (bool more = shoal_walk_start(&walk); more; more = shoal_walk_next(&walk)) {
    const void *in[SHOAL_WALK_OPERANDS];
    for (int32_t i = 0; i < input_count; ++i) {
      in[i] = (const char *)inputs[i].data +
              walk.offset[i] * (int64_t)shoal_dtype_size(inputs[i].dtype);
    }
    loop(walk.run, in, walk.step, (char *)output->data + walk.offset[input_count] * out_size,
         params);
  }
  return NULL;
}

// ---- half-size floats ------------------------------------------------------------------

#define MAX_WIDENED 16

bool shoal_kernel_is_half(const shoal_call_t *call) {
  for (int32_t i = 0; i < call->input_count; ++i) {
    if (shoal_is_half(call->inputs[i].dtype)) return true;
  }
  for (int32_t i = 0; i < call->output_count; ++i) {
    if (shoal_is_half(call->outputs[i].dtype)) return true;
  }
  return false;
}

static int64_t wide_bytes(const shoal_type_t *type) {
  return shoal_is_half(type->dtype) ? shoal_align64(shoal_shape_count(&type->shape) * 4) : 0;
}

int64_t shoal_kernel_widen_bytes(const shoal_call_t *call) {
  int64_t bytes = 0;
  for (int32_t i = 0; i < call->input_count; ++i) bytes += wide_bytes(&call->inputs[i]);
  for (int32_t i = 0; i < call->output_count; ++i) bytes += wide_bytes(&call->outputs[i]);
  return bytes;
}

// The operand, or an f32 tensor at *at (which moves on) in its place.
static shoal_tensor_t widen(const shoal_tensor_t *tensor, char **at, shoal_type_t *out_type) {
  shoal_tensor_t wide = *tensor;
  if (shoal_is_half(tensor->dtype)) {
    shoal_type_t type = {tensor->dtype, tensor->shape};
    wide.dtype = SHOAL_F32;
    wide.data = *at;
    *at += wide_bytes(&type);
  }
  *out_type = (shoal_type_t){wide.dtype, wide.shape};
  return wide;
}

shoal_status_t shoal_kernel_widened(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                    const shoal_tensor_t *outputs, void *workspace,
                                    shoal_kernel_fn_t kernel) {
  if (call->input_count + call->output_count > MAX_WIDENED) {
    return SHOAL_ERROR(INTERNAL, "%s has too many operands to widen", call->op->name);
  }
  shoal_tensor_t wide[MAX_WIDENED];
  shoal_type_t types[MAX_WIDENED];
  char *at = workspace;
  const int32_t n = call->input_count;
  for (int32_t i = 0; i < n; ++i) {
    wide[i] = widen(&inputs[i], &at, &types[i]);
    if (wide[i].data == inputs[i].data) continue;
    const uint16_t *from = inputs[i].data;
    float *to = wide[i].data;
    const int64_t count = shoal_shape_count(&inputs[i].shape);
    if (inputs[i].dtype == SHOAL_BF16) {
      for (int64_t j = 0; j < count; ++j) to[j] = shoal_bf16_to_f32(from[j]);
    } else {
      for (int64_t j = 0; j < count; ++j) to[j] = shoal_f16_to_f32(from[j]);
    }
  }
  for (int32_t i = 0; i < call->output_count; ++i) {
    wide[n + i] = widen(&outputs[i], &at, &types[n + i]);
  }
  shoal_call_t wide_call = *call;
  wide_call.inputs = types;
  wide_call.outputs = types + n;
  SHOAL_RETURN_IF_ERROR(kernel(&wide_call, wide, wide + n, at));
  for (int32_t i = 0; i < call->output_count; ++i) {
    if (!shoal_is_half(outputs[i].dtype)) continue;
    const float *from = wide[n + i].data;
    uint16_t *to = outputs[i].data;
    const int64_t count = shoal_shape_count(&outputs[i].shape);
    if (outputs[i].dtype == SHOAL_BF16) {
      for (int64_t j = 0; j < count; ++j) to[j] = shoal_f32_to_bf16(from[j]);
    } else {
      for (int64_t j = 0; j < count; ++j) to[j] = shoal_f32_to_f16(from[j]);
    }
  }
  return NULL;
}

// Ops that move elements without looking at them: reshape, transpose, slice, pad, concat,
// broadcast_to. They work for every dtype. Sizes and positions are attributes with roles, so that a
// part gets its own numbers.
#include "op/families/emit.h"
#include "op/families/kernel.h"

// ---- reshape ---------------------------------------------------------------------------

// One size may be -1: the rest.
static void reshape_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  int64_t known = 1, *open = NULL;
  for (int32_t d = 0; d < attrs[0].count; ++d) {
    if (attrs[0].ints[d] == -1 && !open) {
      open = &attrs[0].ints[d];
    } else if (__builtin_mul_overflow(known, attrs[0].ints[d], &known)) {
      return;
    }
  }
  const int64_t count = shoal_shape_count(&call->inputs[0].shape);
  if (open && known > 0 && count % known == 0) *open = count / known;
}

// What `reshape_complete` could not fill in.
static shoal_status_t check_open(const shoal_call_t *call) {
  const shoal_attr_value_t *sizes = &call->attrs[0];
  int64_t known = 1;
  int32_t open = 0;
  for (int32_t d = 0; d < sizes->count; ++d) {
    open += sizes->ints[d] == -1;
    if (sizes->ints[d] >= 0 && __builtin_mul_overflow(known, sizes->ints[d], &known)) known = 0;
  }
  REQUIRE_HINT(call, open < 2, "one size at most may be -1: the rest", "shape leaves %d sizes open",
               open);
  REQUIRE(call, open == 0, "%lld elements can't be shared out: the other sizes make %lld",
          (long long)shoal_shape_count(&call->inputs[0].shape), (long long)known);
  return NULL;
}

static shoal_status_t reshape_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_shape_t shape;
  SHOAL_RETURN_IF_ERROR(check_open(call));
  SHOAL_RETURN_IF_ERROR(shoal_check_sizes(call, 0, &shape));
  char text[128];
  shoal_shape_format(&shape, text, sizeof text);
  REQUIRE(call, shoal_shape_count(&shape) == shoal_shape_count(&call->inputs[0].shape),
          "%lld elements can't be reshaped to %s, which has %lld",
          (long long)shoal_shape_count(&call->inputs[0].shape), text,
          (long long)shoal_shape_count(&shape));
  out_types[0] = (shoal_type_t){call->inputs[0].dtype, shape};
  return NULL;
}

OP_GRADIENT(reshape) {
  (void)in, (void)out;
  in_grads[0] = shoal_emit_reshape(e, grads[0], &call->inputs[0].shape);
}

OP_KERNEL(reshape) {
  (void)call, (void)workspace;
  const size_t bytes = shoal_tensor_bytes(inputs);
  if (bytes && outputs->data != inputs->data) memcpy(outputs->data, inputs->data, bytes);
  return NULL;
}

const shoal_op_t shoal_op_reshape = {
    .name = "shoal.reshape",
    .doc = "The same elements in row-major order, in another shape of as many elements.",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(SHOAL_ATTR_SIZES("shape", SHOAL_OUTPUT(0),
                                    "shape of the result; one size may be -1: what is left")),
    SHOAL_OP_OVERWRITES({0, 0}),
    .complete = reshape_complete,
    .any_dtype = true,
    .infer = reshape_infer,
    .gradient = reshape_gradient,
    .cost = shoal_cost_move,
    .kernel = reshape_kernel,
    SHOAL_OP_CASES("f64[3,10] ; shape=[3,5,2]", "f32[3,5,2] ; shape=[15,2]",
                   "f64[3,5,4] ; shape=[3,-1]", "i32[6] ; shape=[1,2,3]", "bool[] ; shape=[1,1]",
                   "bf16[0,3] ; shape=[3,0]"),
};

// ---- transpose -------------------------------------------------------------------------

static shoal_status_t transpose_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_shape_t *x = &call->inputs[0].shape;
  const shoal_attr_value_t *perm = &call->attrs[0];
  SHOAL_RETURN_IF_ERROR(shoal_check_entries(call, 0, x->rank));
  shoal_shape_t shape = {.rank = x->rank};
  bool used[SHOAL_MAX_RANK] = {false};
  for (int32_t d = 0; d < x->rank; ++d) {
    const int64_t from = perm->ints[d];
    REQUIRE_HINT(call, from >= 0 && from < x->rank,
                 "perm[d] is the dim of x that becomes dim d: each once, counted from 0",
                 "perm[%d] is %lld, and x has dims 0 to %d", d, (long long)from, x->rank - 1);
    REQUIRE_HINT(call, !used[from], "perm names each dim of x once",
                 "perm is no permutation: it names dim %lld twice", (long long)from);
    used[from] = true;
    shape.dims[d] = x->dims[from];
  }
  out_types[0] = (shoal_type_t){call->inputs[0].dtype, shape};
  return NULL;
}

OP_GRADIENT(transpose) {
  (void)in, (void)out;
  int64_t inverse[SHOAL_MAX_RANK];
  const shoal_attr_value_t *perm = &call->attrs[0];
  for (int32_t d = 0; d < perm->count; ++d) inverse[perm->ints[d]] = d;
  in_grads[0] = shoal_emit_one(e, "shoal.transpose", REFS(grads[0]),
                               ATTRS(shoal_attr_ints("perm", perm->count, inverse)));
}

OP_KERNEL(transpose) {
  (void)workspace;
  int64_t own[SHOAL_MAX_RANK], src[SHOAL_MAX_RANK], dst[SHOAL_MAX_RANK];
  shoal_strides(&inputs->shape, own);
  shoal_strides(&outputs->shape, dst);
  for (int32_t d = 0; d < outputs->shape.rank; ++d) src[d] = own[call->attrs[0].ints[d]];
  shoal_copy_box(&outputs->shape, shoal_dtype_size(inputs->dtype), inputs->data, 0, src,
                 outputs->data, 0, dst);
  return NULL;
}

const shoal_op_t shoal_op_transpose = {
    .name = "shoal.transpose",
    .doc = "Dims in another order: dim d of the result is dim perm[d] of x.",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS({.name = "perm",
                    .kind = SHOAL_ATTR_INTS,
                    .doc = "each dim of x once, counted from 0; none is negative"}),
    .any_dtype = true,
    .infer = transpose_infer,
    .gradient = transpose_gradient,
    .cost = shoal_cost_move,
    .kernel = transpose_kernel,
    SHOAL_OP_CASES("f64[3,5] ; perm=[1,0]", "f32[2,3,5,7] ; perm=[0,2,1,3]",
                   "f64[3,5,2] ; perm=[2,0,1]", "u8[3,5]<9 ; perm=[1,0]",
                   "bf16[3,0,2] ; perm=[2,1,0]"),
};

// ---- slice and its adjoint, pad --------------------------------------------------------

// `inner` at `start` lies inside `outer`?
static shoal_status_t check_inside(const shoal_call_t *call, const shoal_shape_t *inner,
                                   const shoal_shape_t *outer, const char *hint) {
  enum { START, SIZES };
  SHOAL_RETURN_IF_ERROR(shoal_check_entries(call, START, call->inputs[0].shape.rank));
  SHOAL_RETURN_IF_ERROR(shoal_check_entries(call, SIZES, call->inputs[0].shape.rank));
  for (int32_t d = 0; d < outer->rank; ++d) {
    const int64_t from = call->attrs[START].ints[d];
    REQUIRE_HINT(call,
                 from >= 0 && from <= outer->dims[d] && inner->dims[d] <= outer->dims[d] - from,
                 hint, "%lld elements from %lld on along dim %d are not inside [0, %lld)",
                 (long long)inner->dims[d], (long long)from, d, (long long)outer->dims[d]);
  }
  return NULL;
}

static int64_t offset_of(const shoal_attr_value_t *start, const int64_t *strides) {
  int64_t offset = 0;
  for (int32_t d = 0; d < start->count; ++d) offset += start->ints[d] * strides[d];
  return offset;
}

static shoal_status_t slice_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_shape_t size;
  SHOAL_RETURN_IF_ERROR(shoal_check_sizes(call, 1, &size));
  SHOAL_RETURN_IF_ERROR(check_inside(call, &size, &call->inputs[0].shape,
                                     "start counts from 0, and size is a number of elements, not "
                                     "where the slice ends"));
  out_types[0] = (shoal_type_t){call->inputs[0].dtype, size};
  return NULL;
}

static shoal_ref_t emit_pad(shoal_emitter_t *e, shoal_ref_t x, const shoal_attr_value_t *start,
                            const shoal_shape_t *shape) {
  return shoal_emit_one(
      e, "shoal.pad", REFS(x),
      ATTRS(shoal_attr_ints("start", start->count, start->ints), shoal_attr_shape("shape", shape)));
}

static shoal_ref_t emit_slice(shoal_emitter_t *e, shoal_ref_t x, const shoal_attr_value_t *start,
                              const shoal_shape_t *size) {
  return shoal_emit_one(
      e, "shoal.slice", REFS(x),
      ATTRS(shoal_attr_ints("start", start->count, start->ints), shoal_attr_shape("size", size)));
}

OP_GRADIENT(slice) {
  (void)in, (void)out;
  in_grads[0] = emit_pad(e, grads[0], &call->attrs[0], &call->inputs[0].shape);
}

OP_KERNEL(slice) {
  (void)workspace;
  int64_t src[SHOAL_MAX_RANK], dst[SHOAL_MAX_RANK];
  shoal_strides(&inputs->shape, src);
  shoal_strides(&outputs->shape, dst);
  shoal_copy_box(&outputs->shape, shoal_dtype_size(inputs->dtype), inputs->data,
                 offset_of(&call->attrs[0], src), src, outputs->data, 0, dst);
  return NULL;
}

const shoal_op_t shoal_op_slice = {
    .name = "shoal.slice",
    .doc =
        "The box of x that begins at start and has the given size; it lies inside x. (Every n-th "
        "element: stride.)",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS({.name = "start",
                    .kind = SHOAL_ATTR_INTS,
                    .role = SHOAL_ROLE_POSITION,
                    .operand = SHOAL_INPUT(0),
                    .doc = "first index along each dim, 0 or more"},
                   SHOAL_ATTR_SIZES("size", SHOAL_OUTPUT(0),
                                    "shape of the result: how many elements, not where they end")),
    .any_dtype = true,
    .infer = slice_infer,
    .gradient = slice_gradient,
    .cost = shoal_cost_move,
    .kernel = slice_kernel,
    SHOAL_OP_CASES("f64[5,7] ; start=[1,2], size=[3,4]", "f32[3,5,6] ; start=[0,0,2], size=[3,5,2]",
                   "i64[9]<50 ; start=[4], size=[5]", "bf16[5,3] ; start=[5,0], size=[0,3]",
                   "f8_e4m3[5,3] ; start=[1,0], size=[3,3]"),
};

enum { PAD_START, PAD_SHAPE, PAD_VALUE };

static shoal_status_t pad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_shape_t shape;
  SHOAL_RETURN_IF_ERROR(shoal_check_sizes(call, PAD_SHAPE, &shape));
  SHOAL_RETURN_IF_ERROR(check_inside(call, &call->inputs[0].shape, &shape,
                                     "shape is the whole result, x and its borders"));
  out_types[0] = (shoal_type_t){call->inputs[0].dtype, shape};
  return NULL;
}

OP_GRADIENT(pad) {
  (void)in, (void)out;
  in_grads[0] = emit_slice(e, grads[0], &call->attrs[0], &call->inputs[0].shape);
}

OP_KERNEL(pad) {
  (void)workspace;
  const size_t element = shoal_dtype_size(inputs->dtype);
  const int64_t count = shoal_shape_count(&outputs->shape);
  int64_t src[SHOAL_MAX_RANK], dst[SHOAL_MAX_RANK];
  shoal_strides(&inputs->shape, src);
  shoal_strides(&outputs->shape, dst);
  if (call->attrs[PAD_VALUE].f != 0) {
    const int64_t still[SHOAL_MAX_RANK] = {0};
    uint64_t value;  // any dtype
    shoal_dtype_store(outputs->dtype, &value, 0, call->attrs[PAD_VALUE].f);
    shoal_copy_box(&outputs->shape, element, &value, 0, still, outputs->data, 0, dst);
  } else if (count) {
    memset(outputs->data, 0, (size_t)count * element);
  }
  shoal_copy_box(&inputs->shape, element, inputs->data, 0, src, outputs->data,
                 offset_of(&call->attrs[0], dst), dst);
  return NULL;
}

const shoal_op_t shoal_op_pad = {
    .name = "shoal.pad",
    .doc =
        "A tensor of the given shape that holds one value, with x placed at start; x lies inside "
        "it. With the value 0 it is the adjoint of slice. (Borders of x's own elements: edges.)",
    .uncut = "dims of out in which x is one element",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS({.name = "start",
                    .kind = SHOAL_ATTR_INTS,
                    .role = SHOAL_ROLE_POSITION,
                    .operand = SHOAL_OUTPUT(0),
                    .doc = "index of x's first element along each dim of the result"},
                   SHOAL_ATTR_SIZES("shape", SHOAL_OUTPUT(0), "shape of the result"),
                   {.name = "value",
                    .kind = SHOAL_ATTR_REAL,
                    .optional = true,
                    .doc = "what stands around x, in x's dtype"}),
    .any_dtype = true,
    .infer = pad_infer,
    .gradient = pad_gradient,
    .cost = shoal_cost_move,
    .kernel = pad_kernel,
    SHOAL_OP_CASES("f64[3,4] ; start=[1,2], shape=[5,7]",
                   "f32[3,5,2] ; start=[0,0,2], shape=[3,5,6]", "i32[5]<50 ; start=[4], shape=[9]",
                   "bf16[0,3] ; start=[2,0], shape=[3,3]",
                   "f64[3,4] ; start=[1,0], shape=[5,4], value=-1.5",
                   "f16[1,3] ; start=[1,1], shape=[3,5], value=0.25"),
};

// ---- concat ----------------------------------------------------------------------------

static shoal_status_t concat_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_type_t type = call->inputs[0];
  int32_t axis;
  SHOAL_RETURN_IF_ERROR(shoal_check_axis(call, call->attrs[0].i, type.shape.rank, &axis));
  for (int32_t i = 1; i < call->input_count; ++i) {
    const shoal_shape_t *next = &call->inputs[i].shape;
    SHOAL_RETURN_IF_ERROR(shoal_check_same_dtype(call, 0, i));
    REQUIRE_HINT(call, next->rank == type.shape.rank, "shoal_stack joins along a new dim",
                 "xs[%d] and xs[0] differ in the number of dims: %d and %d", i, next->rank,
                 type.shape.rank);
    for (int32_t d = 0; d < type.shape.rank; ++d) {
      REQUIRE(call, d == axis || next->dims[d] == type.shape.dims[d],
              "xs[%d] has %lld elements along dim %d, and xs[0] %lld: only dim %d may differ", i,
              (long long)next->dims[d], d, (long long)type.shape.dims[d], axis);
    }
    type.shape.dims[axis] += next->dims[axis];
  }
  out_types[0] = type;
  return NULL;
}

OP_GRADIENT(concat) {
  (void)in, (void)out;
  const int32_t rank = call->inputs[0].shape.rank;
  const int32_t axis = shoal_normal_axis(call->attrs[0].i, rank);
  shoal_attr_value_t start = {.count = rank};
  for (int32_t i = 0; i < call->input_count; ++i) {
    in_grads[i] = emit_slice(e, grads[0], &start, &call->inputs[i].shape);
    start.ints[axis] += call->inputs[i].shape.dims[axis];
  }
}

OP_KERNEL(concat) {
  (void)workspace;
  const int32_t axis = shoal_normal_axis(call->attrs[0].i, inputs->shape.rank);
  int64_t src[SHOAL_MAX_RANK], dst[SHOAL_MAX_RANK], at = 0;
  shoal_strides(&outputs->shape, dst);
  for (int32_t i = 0; i < call->input_count; ++i) {
    shoal_strides(&inputs[i].shape, src);
    shoal_copy_box(&inputs[i].shape, shoal_dtype_size(inputs->dtype), inputs[i].data, 0, src,
                   outputs->data, at * dst[axis], dst);
    at += inputs[i].shape.dims[axis];
  }
  return NULL;
}

const shoal_op_t shoal_op_concat = {
    .name = "shoal.concat",
    .doc = "The inputs one behind the other along axis; their dtypes and other dims are equal.",
    SHOAL_OP_INPUTS("xs"),
    SHOAL_OP_OUTPUTS("out"),
    .variadic = true,
    SHOAL_OP_ATTRS(SHOAL_ATTR_AXIS),
    .any_dtype = true,
    .infer = concat_infer,
    .gradient = concat_gradient,
    .cost = shoal_cost_move,
    .kernel = concat_kernel,
    SHOAL_OP_CASES("f64[3,5], f64[3,2] ; axis=1", "f32[3,5], f32[1,5], f32[4,5] ; axis=0",
                   "i64[7]<9 ; axis=0", "bf16[3,0], bf16[3,2] ; axis=-1"),
};

// ---- broadcast_to ----------------------------------------------------------------------

static shoal_status_t broadcast_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_shape_t shape, joined;
  SHOAL_RETURN_IF_ERROR(shoal_check_sizes(call, 0, &shape));
  char text[128];
  shoal_shape_format(&shape, text, sizeof text);
  REQUIRE_HINT(call,
               shoal_shape_broadcast(&call->inputs[0].shape, &shape, &joined) &&
                   shoal_shape_equal(&joined, &shape),
               "from the right, a size of x must be that of the result or 1; reshape to put a 1 in "
               "between",
               "x can't be broadcast to %s", text);
  out_types[0] = (shoal_type_t){call->inputs[0].dtype, shape};
  return NULL;
}

OP_GRADIENT(broadcast_to) {
  (void)in, (void)out;
  in_grads[0] = shoal_emit_sum_to(e, grads[0], &call->inputs[0].shape);
}

OP_KERNEL(broadcast_to) {
  (void)call, (void)workspace;
  int64_t src[SHOAL_MAX_RANK], dst[SHOAL_MAX_RANK];
  shoal_strides_in(&inputs->shape, &outputs->shape, src);
  shoal_strides(&outputs->shape, dst);
  shoal_copy_box(&outputs->shape, shoal_dtype_size(inputs->dtype), inputs->data, 0, src,
                 outputs->data, 0, dst);
  return NULL;
}

const shoal_op_t shoal_op_broadcast_to = {
    .name = "shoal.broadcast_to",
    .doc =
        "x repeated along new leading dims and dims of size 1, by numpy's rule. Its gradient is "
        "summed over them.",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(SHOAL_ATTR_SIZES("shape", SHOAL_OUTPUT(0), "shape of the result")),
    .any_dtype = true,
    .infer = broadcast_infer,
    .gradient = broadcast_to_gradient,
    .cost = shoal_cost_move,
    .kernel = broadcast_to_kernel,
    SHOAL_OP_CASES("f64[5] ; shape=[3,5]", "f32[3,1] ; shape=[2,3,7]", "f64[] ; shape=[3,5]",
                   "u8[3,1]<9 ; shape=[3,4]", "bf16[1,3] ; shape=[0,3]"),
};

// Max-pooling of [N,C,S..] over one to three dims, and its gradient. Windows lie in global
// coordinates (window.h). Padding never wins. The gradient goes to the first maximum of a window in
// row-major order, found again from x.
#ifndef KERNELS_HERE
#include "op/families/emit.h"
#include "op/families/kernel.h"
#include "op/families/window.h"

// For each window: positions of its taps in x and, backward, in dx.
typedef struct pool_taps {
  shoal_taps_t x, dx;
} pool_taps_t;

#define EACH EACH_REAL
#define KERNELS "op/families/pool.c"
#include "op/families/each.h"

// ---- forward ---------------------------------------------------------------------------

enum { KERNEL_SIZE, STRIDE, PADDING, DILATION, CEIL, SHAPE, PLACE_X, PLACE_OUT };

static shoal_status_t pool_window(const shoal_call_t *call, shoal_window_t *out_window) {
  SHOAL_RETURN_IF_ERROR(
      shoal_pool_window(call, KERNEL_SIZE, STRIDE, PADDING, DILATION, out_window));
  out_window->ceil = call->attrs[CEIL].i != 0;
  return NULL;
}

static shoal_status_t pool_places(const shoal_call_t *call, shoal_window_t *out_window,
                                  shoal_shape_t *out_shape, shoal_place_t *out_x,
                                  shoal_place_t *out_out) {
  SHOAL_RETURN_IF_ERROR(pool_window(call, out_window));
  *out_shape = call->inputs[0].shape;
  return shoal_window_places(call, out_window, SHAPE, PLACE_X, PLACE_OUT, out_shape, out_x,
                             out_out);
}

static void max_pool_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  shoal_window_t window;
  shoal_status_t status = pool_window(call, &window);
  const shoal_shape_t *x = &call->inputs[0].shape;
  if (!status) shoal_window_complete(&window, x, x->dims[1], &attrs[SHAPE]);
  shoal_status_free(status);  // infer says it again
}

static shoal_status_t max_pool_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_window_t window;
  shoal_place_t x, out;
  out_types[0].dtype = call->inputs[0].dtype;
  return pool_places(call, &window, &out_types[0].shape, &x, &out);
}

static int64_t max_pool_workspace(const shoal_call_t *call) {
  return shoal_taps_bytes(&call->outputs[0].shape, call->attrs[KERNEL_SIZE].ints) +
         shoal_kernel_widen_bytes(call);
}

OP_KERNEL(max_pool) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, max_pool_kernel);
  }
  shoal_window_t window;
  shoal_shape_t shape;
  shoal_place_t x, out;
  SHOAL_RETURN_IF_ERROR(pool_places(call, &window, &shape, &x, &out));
  const pool_taps_t taps = {.x = shoal_taps_at(&shape, &window, workspace)};
  SHOAL_RETURN_IF_ERROR(shoal_taps_inputs(call, &window, &x, &out, &taps.x));
  (inputs->dtype == SHOAL_F64 ? max_pool_f64 : max_pool_f32)(&taps, inputs, outputs);
  return NULL;
}

OP_GRADIENT(max_pool) {
  const shoal_attr_value_t *a = call->attrs;
  (void)out;
  in_grads[0] =
      shoal_emit_one(e, "shoal.max_pool_grad", REFS(in[0], grads[0]),
                     ATTRS(shoal_attr_ints("kernel", a[KERNEL_SIZE].count, a[KERNEL_SIZE].ints),
                           shoal_attr_ints("stride", a[STRIDE].count, a[STRIDE].ints),
                           shoal_attr_ints("padding", a[PADDING].count, a[PADDING].ints),
                           shoal_attr_ints("dilation", a[DILATION].count, a[DILATION].ints),
                           shoal_attr_shape("shape", &call->inputs[0].shape)));
}

static void max_pool_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  const shoal_shape_t kernel = shoal_ints_shape(&call->attrs[KERNEL_SIZE]);
  out_cost->flops =
      (double)shoal_shape_count(&call->outputs[0].shape) * (double)shoal_shape_count(&kernel);
}

#define KERNEL_ATTR SHOAL_WINDOW_ATTR("kernel", "size of the window along each dim behind [N, C]")

const shoal_op_t shoal_op_max_pool = {
    .name = "shoal.max_pool",
    .doc =
        "Largest element of each window of x [N, C, ...] over one to three dims; padding, at most "
        "half of the kernel, never wins. Its gradient goes to the first of equals.",
    .jumps = true,
    .window = "stride",
    .nan = "a NaN wins over every number of its window",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(KERNEL_ATTR, SHOAL_WINDOW_STRIDE, SHOAL_WINDOW_PADDING, SHOAL_WINDOW_DILATION,
                   SHOAL_WINDOW_CEIL, SHOAL_WINDOW_SHAPE,
                   SHOAL_ATTR_PLACE_OF("place_x", SHOAL_INPUT(0)),
                   SHOAL_ATTR_PLACE_OF("place_out", SHOAL_OUTPUT(0))),
    .complete = max_pool_complete,
    .infer = max_pool_infer,
    .gradient = max_pool_gradient,
    .cost = max_pool_cost,
    .workspace = max_pool_workspace,
    .kernel = max_pool_kernel,
    SHOAL_OP_CASES("f64[2,3,7,5] ; kernel=[2,2], stride=[2,2], padding=[0,0]",
                   "f32[1,2,9,7] ; kernel=[3,3], stride=[2,2], padding=[1,1]",
                   "f64[1,2,6,5] ; kernel=[3,2], stride=[1,1], padding=[1,0]",
                   "f64[2,2,9] ; kernel=[3], stride=[2], padding=[1]",
                   "f64[1,2,8] ; kernel=[3], stride=[2], padding=[1], dilation=[2], ceil=1",
                   "f64[1,2,4,5,4] ; kernel=[3,1,2], stride=[1,1,2], padding=[1,0,0]",
                   "bf16[1,2,6,6] ; kernel=[2,2], stride=[2,2], padding=[0,0]"),
};

// ---- gradient --------------------------------------------------------------------------

enum { G_KERNEL, G_STRIDE, G_PADDING, G_DILATION, G_SHAPE, G_PLACE_X, G_PLACE_DY, G_PLACE_DX };

static shoal_status_t grad_places(const shoal_call_t *call, shoal_window_t *out_window,
                                  shoal_shape_t *out_shape, shoal_place_t *out_x,
                                  shoal_place_t *out_dy, shoal_place_t *out_dx) {
  const shoal_shape_t *x = &call->inputs[0].shape, *dy = &call->inputs[1].shape;
  SHOAL_RETURN_IF_ERROR(
      shoal_pool_window(call, G_KERNEL, G_STRIDE, G_PADDING, G_DILATION, out_window));
  SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, 1, x->rank));
  SHOAL_RETURN_IF_ERROR(shoal_check_sizes(call, G_SHAPE, out_shape));
  REQUIRE(call,
          out_shape->rank == x->rank && out_shape->dims[0] == x->dims[0] &&
              x->dims[0] == dy->dims[0] && out_shape->dims[1] == x->dims[1] &&
              x->dims[1] == dy->dims[1],
          "x, dy and shape must agree in N and C: [%lld, %lld], [%lld, %lld], [%lld, %lld]",
          (long long)x->dims[0], (long long)x->dims[1], (long long)dy->dims[0],
          (long long)dy->dims[1], (long long)out_shape->dims[0], (long long)out_shape->dims[1]);
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, G_PLACE_X, x, out_x));
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, G_PLACE_DY, dy, out_dy));
  return shoal_check_place(call, G_PLACE_DX, out_shape, out_dx);
}

static shoal_status_t max_pool_grad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_window_t window;
  shoal_place_t x, dy, dx;
  out_types[0].dtype = call->inputs[0].dtype;
  return grad_places(call, &window, &out_types[0].shape, &x, &dy, &dx);
}

// Tables by window (in x, in dx) and one by element of dx, for the check.
static int64_t max_pool_grad_workspace(const shoal_call_t *call) {
  const int64_t *kernel = call->attrs[G_KERNEL].ints;
  return 2 * shoal_taps_bytes(&call->inputs[1].shape, kernel) +
         shoal_taps_bytes(&call->outputs[0].shape, kernel) + shoal_kernel_widen_bytes(call);
}

// Every window that reaches into dx must be there, and all that it sees of x.
static shoal_status_t grad_taps(const shoal_call_t *call, const shoal_window_t *window,
                                const shoal_place_t *x, const shoal_place_t *dy,
                                const shoal_place_t *dx, char *workspace, pool_taps_t *out_taps) {
  const int64_t bytes = shoal_taps_bytes(&dy->part, call->attrs[G_KERNEL].ints);
  const shoal_taps_t by_element = shoal_taps_at(&dx->part, window, workspace + 2 * bytes);
  SHOAL_RETURN_IF_ERROR(shoal_taps_outputs(call, window, dx, dy, &by_element));
  out_taps->x = shoal_taps_at(&dy->part, window, workspace);
  out_taps->dx = shoal_taps_at(&dy->part, window, workspace + bytes);
  for (int32_t i = 0; i < SHOAL_DIRECTIONS; ++i) {
    const int64_t *in_x = out_taps->x.table[i], *in_dx = out_taps->dx.table[i];
    const int64_t missing = shoal_window_inputs(window, i, x, dy, out_taps->x.table[i]);
    shoal_window_inputs(window, i, dx, dy, out_taps->dx.table[i]);
    for (int64_t o = 0; o < shoal_window_size(&dy->part, i); ++o) {
      bool reaches = false, lacks = false;
      for (int64_t t = o * window->kernel[i]; t < (o + 1) * window->kernel[i]; ++t) {
        reaches = reaches || in_dx[t] >= 0;
        lacks = lacks || in_x[t] == SHOAL_TAP_MISSING;
      }
      if (reaches && lacks) return shoal_window_check(call, i, "x", missing);
    }
  }
  return NULL;
}

OP_KERNEL(max_pool_grad) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, max_pool_grad_kernel);
  }
  shoal_window_t window;
  shoal_shape_t shape;
  shoal_place_t x, dy, dx;
  SHOAL_RETURN_IF_ERROR(grad_places(call, &window, &shape, &x, &dy, &dx));
  pool_taps_t taps;
  SHOAL_RETURN_IF_ERROR(grad_taps(call, &window, &x, &dy, &dx, workspace, &taps));
  (inputs->dtype == SHOAL_F64 ? max_pool_grad_f64 : max_pool_grad_f32)(&taps, inputs, outputs);
  return NULL;
}

static void max_pool_grad_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  const shoal_shape_t kernel = shoal_ints_shape(&call->attrs[G_KERNEL]);
  out_cost->flops =
      (double)shoal_shape_count(&call->inputs[1].shape) * (double)shoal_shape_count(&kernel);
}

const shoal_op_t shoal_op_max_pool_grad = {
    .name = "shoal.max_pool_grad",
    .doc = "Gradient of max_pool: each dy goes to the first maximum of its window in x.",
    .jumps = true,
    .window = "stride",
    .nan = "the first NaN of a window of x is its maximum: dy goes there, and is not NaN for it",
    SHOAL_OP_INPUTS("x", "dy"),
    SHOAL_OP_OUTPUTS("dx"),
    SHOAL_OP_ATTRS(KERNEL_ATTR, SHOAL_WINDOW_STRIDE, SHOAL_WINDOW_PADDING, SHOAL_WINDOW_DILATION,
                   SHOAL_ATTR_SIZES("shape", SHOAL_OUTPUT(0), "shape of x"),
                   SHOAL_ATTR_PLACE_OF("place_x", SHOAL_INPUT(0)),
                   SHOAL_ATTR_PLACE_OF("place_dy", SHOAL_INPUT(1)),
                   SHOAL_ATTR_PLACE_OF("place_dx", SHOAL_OUTPUT(0))),
    .infer = max_pool_grad_infer,
    .cost = max_pool_grad_cost,
    .workspace = max_pool_grad_workspace,
    .kernel = max_pool_grad_kernel,
    SHOAL_OP_CASES(
        "f64[2,3,7,5], f64[2,3,3,2] ; kernel=[2,2], stride=[2,2], padding=[0,0], shape=[2,3,7,5]",
        "f32[1,2,9,7], f32[1,2,5,4] ; kernel=[3,3], stride=[2,2], padding=[1,1], shape=[1,2,9,7]",
        "f64[2,2,9], f64[2,2,5] ; kernel=[3], stride=[2], padding=[1], shape=[2,2,9]",
        "f64[1,2,8], f64[1,2,4] ; kernel=[3], stride=[2], padding=[1], dilation=[2], shape=[1,2,8]",
        "bf16[1,2,6,6], bf16[1,2,3,3] ; kernel=[2,2], stride=[2,2], padding=[0,0], "
        "shape=[1,2,6,6]"),
};

#else  // per element type

// Where the tap of a window of the output (or dy) lies in a plane of x or dx, or -1.
static inline int64_t K(tap)(const shoal_taps_t *taps, const shoal_shape_t *of,
                             const int64_t window[SHOAL_DIRECTIONS], int64_t tap) {
  const int64_t *kernel = taps->kernel;
  const int64_t x = taps->table[2][window[2] * kernel[2] + tap % kernel[2]];
  const int64_t y = taps->table[1][window[1] * kernel[1] + tap / kernel[2] % kernel[1]];
  const int64_t z = taps->table[0][window[0] * kernel[0] + tap / kernel[2] / kernel[1]];
  if (x < 0 || y < 0 || z < 0) return -1;
  return (z * shoal_window_size(of, 1) + y) * shoal_window_size(of, 2) + x;
}

// Number `at` among the windows of a plane of `shape`, along each direction.
static inline void K(window)(const shoal_shape_t *shape, int64_t at,
                             int64_t out_window[SHOAL_DIRECTIONS]) {
  const int64_t rows = shoal_window_size(shape, 1), columns = shoal_window_size(shape, 2);
  out_window[0] = at / columns / rows;
  out_window[1] = at / columns % rows;
  out_window[2] = at % columns;
}

// First maximum of a window of a plane of x; returns its tap, or -1 if it sees nothing.
static int64_t K(first_max)(const shoal_taps_t *taps, const shoal_shape_t *shape,
                            const int64_t window[SHOAL_DIRECTIONS], const R *plane, R *out_max) {
  const int64_t *kernel = taps->kernel, *columns = taps->table[2] + window[2] * kernel[2];
  int64_t best = -1;
  R max = -INFINITY;
  for (int64_t t = 0; t < kernel[0] * kernel[1]; ++t) {
    const int64_t y = taps->table[1][window[1] * kernel[1] + t % kernel[1]];
    const int64_t z = taps->table[0][window[0] * kernel[0] + t / kernel[1]];
    if (y < 0 || z < 0) continue;
    const R *row = plane + (z * shoal_window_size(shape, 1) + y) * shoal_window_size(shape, 2);
    for (int64_t x = 0; x < kernel[2]; ++x) {
      if (columns[x] < 0) continue;
      const R value = row[columns[x]];
      if (best < 0 || value > max || (IS_NAN(value) && !IS_NAN(max))) {
        best = t * kernel[2] + x;
        max = value;
      }
    }
  }
  *out_max = max;
  return best;
}

static void K(max_pool)(const pool_taps_t *taps, const shoal_tensor_t *inputs,
                        const shoal_tensor_t *outputs) {
  const shoal_shape_t *in = &inputs->shape, *shape = &outputs->shape;
  const int64_t windows = shoal_shape_product(shape, 2, shape->rank);
  const R *plane = inputs->data;
  R *out = outputs->data;
  for (int64_t nc = 0; nc < shape->dims[0] * shape->dims[1]; ++nc) {
    for (int64_t i = 0; i < windows; ++i) {
      int64_t window[SHOAL_DIRECTIONS];
      K(window)(shape, i, window);
      K(first_max)(&taps->x, in, window, plane, out++);
    }
    plane += shoal_shape_product(in, 2, in->rank);
  }
}

static void K(max_pool_grad)(const pool_taps_t *taps, const shoal_tensor_t *inputs,
                             const shoal_tensor_t *outputs) {
  const shoal_shape_t *in = &inputs[0].shape, *shape = &inputs[1].shape, *out = &outputs->shape;
  const int64_t windows = shoal_shape_product(shape, 2, shape->rank);
  const R *plane = inputs[0].data, *dy = inputs[1].data;
  R *dx = outputs->data;
  for (int64_t i = 0; i < shoal_shape_count(out); ++i) dx[i] = 0;
  for (int64_t nc = 0; nc < shape->dims[0] * shape->dims[1]; ++nc) {
    for (int64_t i = 0; i < windows; ++i, ++dy) {
      int64_t window[SHOAL_DIRECTIONS];
      R max;
      K(window)(shape, i, window);
      const int64_t tap = K(first_max)(&taps->x, in, window, plane, &max);
      const int64_t at = tap < 0 ? -1 : K(tap)(&taps->dx, out, window, tap);
      if (at >= 0) dx[at] += *dy;
    }
    plane += shoal_shape_product(in, 2, in->rank);
    dx += shoal_shape_product(out, 2, out->rank);
  }
}

#endif

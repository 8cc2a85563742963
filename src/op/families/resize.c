// Resizing of [N,C,S..] along one to three dims, and its gradient: output o of n sees x, of L
// elements, around a place p, along each dim by itself (separable.h):
//   nearest        x[floor(o L / n)]
//   nearest_exact  x[floor((o + 1/2) L / n)]
//   linear         between the two elements around p
//   cubic          the four around p, by Keys' polynomial with a = -3/4; the border repeats
// with p = (o + 1/2) L / n - 1/2 or, aligned, p = o (L - 1) / (n - 1): ends fall on ends. A factor
// f that is given stands for n / L, where n = floor(f L); no x is seen beyond the last.
#include "op/families/emit.h"
#include "op/families/kernel.h"
#include "op/families/separable.h"

// The gradient's places: of dy and dx. A factor for each of SHOAL_DIRECTIONS.
enum { SHAPE, MODE, ALIGN, PLACE_IN, PLACE_OUT, SCALES };

typedef enum mode { NEAREST, NEAREST_EXACT, LINEAR, CUBIC, MODE_COUNT } method_t;

static const char *const MODES[MODE_COUNT] = {"nearest", "nearest_exact", "linear", "cubic"};
static const int64_t TAPS[MODE_COUNT] = {1, 1, 2, 4};

typedef struct resize {
  method_t mode;
  bool align;
  double scale[SHOAL_DIRECTIONS];  // 0: what the sizes say
} resize_t;

// Where output o lies in x.
static double place_of(const resize_t *r, double scale, int64_t in, int64_t out, int64_t o) {
  if (scale > 0) return ((double)o + 0.5) / scale - 0.5;
  if (r->align) return out > 1 ? (double)(o * (in - 1)) / (double)(out - 1) : 0;
  return ((double)o + 0.5) * (double)in / (double)out - 0.5;
}

// Keys' polynomial at a distance from an element.
static double cubic(double distance) {
  const double a = -0.75, d = fabs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

static void resize_weights(const void *how, int32_t i, int64_t in, int64_t out, int64_t o,
                           int64_t *index, double *weight) {
  const resize_t *r = how;
  const double scale = r->scale[i];
  if (r->mode == NEAREST || r->mode == NEAREST_EXACT) {
    const bool exact = r->mode == NEAREST_EXACT;
    index[0] = exact ? (2 * o + 1) * in / (2 * out) : o * in / out;
    if (scale > 0) index[0] = (int64_t)fmin(((double)o + 0.5 * exact) / scale, (double)(in - 1));
    weight[0] = 1;
    return;
  }
  double p = place_of(r, scale, in, out, o);
  if (r->mode == LINEAR && p < 0) p = 0;
  const int64_t first = (int64_t)floor(p) - (r->mode == CUBIC);
  for (int64_t t = 0; t < TAPS[r->mode]; ++t) {
    const double distance = p - (double)(first + t);
    index[t] = first + t < 0 ? 0 : first + t >= in ? in - 1 : first + t;
    weight[t] = r->mode == CUBIC ? cubic(distance) : 1 - fabs(distance);
  }
}

static shoal_status_t read_mode(const shoal_call_t *call, resize_t *out) {
  int32_t mode;
  SHOAL_RETURN_IF_ERROR(shoal_check_choice(call, MODE, MODES, MODE_COUNT, &mode));
  out->mode = (method_t)mode;
  out->align = call->attrs[ALIGN].i != 0;
  REQUIRE(call, !out->align || out->mode >= LINEAR, "align is for linear and cubic, not for %s",
          MODES[mode]);
  for (int32_t i = 0; i < SHOAL_DIRECTIONS; ++i) {
    const double scale = out->scale[i] = call->attrs[SCALES + i].f;
    const char *name = call->op->attrs[SCALES + i].name;
    if (scale == 0) continue;
    REQUIRE(call, scale > 0 && scale < INFINITY, "%s is %g: it must be above 0", name, scale);
    REQUIRE(call, shoal_window_dim(&call->inputs[0].shape, i) >= 2,
            "%s is given, and x has %d dims: no such dim", name, call->inputs[0].shape.rank);
    REQUIRE(call, !out->align, "%s has no meaning where ends are aligned", name);
  }
  return NULL;
}

static void set_taps(const resize_t *r, int32_t rank, int64_t taps[SHOAL_DIRECTIONS]) {
  for (int32_t i = 0; i < SHOAL_DIRECTIONS; ++i) {
    taps[i] = i < SHOAL_DIRECTIONS - (rank - 2) ? 1 : TAPS[r->mode];
  }
}

// `forward`: is x the input? Else it is dy, and shape is that of x.
static shoal_status_t resize_map(const shoal_call_t *call, bool forward, resize_t *resize,
                                 shoal_shape_t *out_shape, shoal_separable_t *out_map) {
  const shoal_shape_t *given = &call->inputs[0].shape;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 1));
  SHOAL_RETURN_IF_ERROR(shoal_window_rank(call));
  SHOAL_RETURN_IF_ERROR(read_mode(call, resize));
  SHOAL_RETURN_IF_ERROR(shoal_separable_shape(call, SHAPE, given, out_shape));
  *out_map = (shoal_separable_t){.weights = resize_weights, .how = resize};
  set_taps(resize, given->rank, out_map->taps);
  SHOAL_RETURN_IF_ERROR(
      shoal_check_place(call, PLACE_IN, given, forward ? &out_map->x : &out_map->out));
  SHOAL_RETURN_IF_ERROR(
      shoal_check_place(call, PLACE_OUT, out_shape, forward ? &out_map->out : &out_map->x));
  for (int32_t d = 2; d < given->rank; ++d) {
    REQUIRE(call, out_map->x.whole.dims[d] > 0 && out_map->out.whole.dims[d] > 0,
            "dim %d goes from %lld to %lld elements: neither may be 0", d,
            (long long)out_map->x.whole.dims[d], (long long)out_map->out.whole.dims[d]);
    // A factor goes with its sizes, so that what is found at small sizes holds at large ones.
    const double scale = resize->scale[d - given->rank + SHOAL_DIRECTIONS];
    const double fits = floor((double)out_map->x.whole.dims[d] * scale);
    REQUIRE(call, scale == 0 || (double)out_map->out.whole.dims[d] == fits,
            "%g times the %lld elements of dim %d are %g, not %lld", scale,
            (long long)out_map->x.whole.dims[d], d, fits, (long long)out_map->out.whole.dims[d]);
  }
  return NULL;
}

static shoal_status_t resize_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  resize_t resize;
  shoal_separable_t map;
  out_types[0].dtype = call->inputs[0].dtype;
  return resize_map(call, true, &resize, &out_types[0].shape, &map);
}

static shoal_status_t resize_grad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  resize_t resize;
  shoal_separable_t map;
  out_types[0].dtype = call->inputs[0].dtype;
  return resize_map(call, false, &resize, &out_types[0].shape, &map);
}

static void call_taps(const shoal_call_t *call, int64_t taps[SHOAL_DIRECTIONS]) {
  resize_t resize = {0};
  shoal_status_free(read_mode(call, &resize));  // infer took it
  set_taps(&resize, call->inputs[0].shape.rank, taps);
}

static int64_t resize_workspace(const shoal_call_t *call) {
  int64_t taps[SHOAL_DIRECTIONS];
  call_taps(call, taps);
  return shoal_separable_bytes(&call->outputs[0].shape, taps) + shoal_kernel_widen_bytes(call);
}

static int64_t resize_grad_workspace(const shoal_call_t *call) {
  int64_t taps[SHOAL_DIRECTIONS];
  call_taps(call, taps);
  return shoal_separable_bytes(&call->inputs[0].shape, taps) + shoal_kernel_widen_bytes(call);
}

OP_KERNEL(resize) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, resize_kernel);
  }
  resize_t resize;
  shoal_shape_t shape;
  shoal_separable_t map;
  SHOAL_RETURN_IF_ERROR(resize_map(call, true, &resize, &shape, &map));
  return shoal_separable_run(call, &map, inputs, outputs, workspace);
}

OP_KERNEL(resize_grad) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, resize_grad_kernel);
  }
  resize_t resize;
  shoal_shape_t shape;
  shoal_separable_t map;
  SHOAL_RETURN_IF_ERROR(resize_map(call, false, &resize, &shape, &map));
  return shoal_separable_adjoint(call, &map, inputs, outputs, workspace);
}

OP_GRADIENT(resize) {
  (void)in, (void)out;
  in_grads[0] = shoal_emit_one(e, "shoal.resize_grad", REFS(grads[0]),
                               ATTRS(shoal_attr_shape("shape", &call->inputs[0].shape),
                                     shoal_attr_string("mode", call->attrs[MODE].s),
                                     shoal_attr_int("align", call->attrs[ALIGN].i),
                                     shoal_attr_real("scale_d", call->attrs[SCALES].f),
                                     shoal_attr_real("scale_h", call->attrs[SCALES + 1].f),
                                     shoal_attr_real("scale_w", call->attrs[SCALES + 2].f)));
}

static void resize_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  int64_t taps[SHOAL_DIRECTIONS];
  call_taps(call, taps);
  out_cost->flops = shoal_separable_flops(&call->outputs[0].shape, taps);
}

static void resize_grad_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  int64_t taps[SHOAL_DIRECTIONS];
  call_taps(call, taps);
  out_cost->flops = shoal_separable_flops(&call->inputs[0].shape, taps);
}

#define MODE_ATTRS                                                                      \
  {.name = "mode",                                                                      \
   .kind = SHOAL_ATTR_STRING,                                                           \
   .optional = true,                                                                    \
   .fallback = {.s = "nearest"},                                                        \
   .doc = "nearest, nearest_exact, linear or cubic"},                                   \
  {                                                                                     \
    .name = "align", .kind = SHOAL_ATTR_INT, .optional = true,                          \
    .doc = "1: output o lies at o (L - 1) / (n - 1): ends fall on ends (linear, cubic)" \
  }

#define SCALE_ATTR(letter, which)                                       \
  {                                                                     \
    .name = "scale_" letter, .kind = SHOAL_ATTR_REAL, .optional = true, \
    .doc = "factor of the " which " dim; 0: what the sizes are"         \
  }
#define SCALE_ATTRS \
  SCALE_ATTR("d", "last but two"), SCALE_ATTR("h", "last but one"), SCALE_ATTR("w", "last")

const shoal_op_t shoal_op_resize = {
    .name = "shoal.resize",
    .doc =
        "x [N, C, ...] made smaller or larger along one to three dims, to shape [N, C, ...]. Along "
        "a dim that goes from L to n elements, output o is x[floor(o L / n)] (nearest), x[floor((o "
        "+ 1/2) L / n)] (nearest_exact), or lies at (o + 1/2) L / n - 1/2 between the two (linear) "
        "or four (cubic, a = -3/4) elements around it; the border repeats. Dims that change in a "
        "simple proportion can be cut.",
    .window = "shape",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(SHOAL_ATTR_SIZES("shape", SHOAL_OUTPUT(0), "shape of the result"), MODE_ATTRS,
                   SHOAL_ATTR_PLACE_OF("place_x", SHOAL_INPUT(0)),
                   SHOAL_ATTR_PLACE_OF("place_out", SHOAL_OUTPUT(0)), SCALE_ATTRS),
    .infer = resize_infer,
    .gradient = resize_gradient,
    .cost = resize_cost,
    .workspace = resize_workspace,
    .kernel = resize_kernel,
    SHOAL_OP_CASES("f64[1,2,3,4] ; shape=[1,2,6,8]", "f32[1,2,5] ; shape=[1,2,10], mode=\"linear\"",
                   "f64[2,1,4,3] ; shape=[2,1,8,7], mode=\"linear\", align=1",
                   "f64[1,1,4,5] ; shape=[1,1,8,3], mode=\"cubic\"",
                   "f64[1,1,2,3,4] ; shape=[1,1,3,3,8], mode=\"nearest_exact\"",
                   "bf16[1,2,6] ; shape=[1,2,3], mode=\"linear\"", "f64[1,2,3] ; shape=[1,2,1]",
                   "f64[1,2,3,5] ; shape=[1,2,6,7], mode=\"linear\", scale_h=2, scale_w=1.5",
                   "f64[1,1,5] ; shape=[1,1,7], scale_w=1.5"),
};

const shoal_op_t shoal_op_resize_grad = {
    .name = "shoal.resize_grad",
    .doc = "Gradient of resize: each dy goes where its element came from, by the same weights.",
    .window = "shape",
    SHOAL_OP_INPUTS("dy"),
    SHOAL_OP_OUTPUTS("dx"),
    SHOAL_OP_ATTRS(SHOAL_ATTR_SIZES("shape", SHOAL_OUTPUT(0), "shape of x"), MODE_ATTRS,
                   SHOAL_ATTR_PLACE_OF("place_dy", SHOAL_INPUT(0)),
                   SHOAL_ATTR_PLACE_OF("place_dx", SHOAL_OUTPUT(0)), SCALE_ATTRS),
    .infer = resize_grad_infer,
    .cost = resize_grad_cost,
    .workspace = resize_grad_workspace,
    .kernel = resize_grad_kernel,
    SHOAL_OP_CASES("f64[1,2,6,8] ; shape=[1,2,3,4]", "f32[1,2,10] ; shape=[1,2,5], mode=\"linear\"",
                   "f64[1,1,8,3] ; shape=[1,1,4,5], mode=\"cubic\"",
                   "bf16[1,2,3] ; shape=[1,2,6], mode=\"linear\"",
                   "f64[1,2,6,7] ; shape=[1,2,3,5], mode=\"linear\", scale_h=2, scale_w=1.5"),
};

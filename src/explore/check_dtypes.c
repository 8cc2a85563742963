// Every dtype that an op takes. Its floats, in each of f32, bf16 and f16, must give what f64 gives
// for the same numbers, within some units of rounding of the largest result; its integers, in each
// type, what i64 gives, cut off to the type's bits; and an op that only moves elements takes every
// type there is, those for storage too, and moves the numbers unchanged.
//
// Which combinations of types an op takes, its infer says. What infer takes, the kernel must.
// Statistics of half-size floats are f32 (op.h): where not all inputs may be of a narrow type, the
// smallest set of them is f32.
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "explore/check_ops.h"

// Units of rounding of the largest result: on examples, and at other sizes, with longer sums.
enum { UNITS = 16, UNITS_OF_LONG = 64, UNITS_OF_HALVES = 4 };
enum { SOME_INPUTS = 8 };  // subsets of more inputs are not tried

// The call in other dtypes.
typedef struct variant {
  shoal_call_t call;
  shoal_type_t inputs[SHOAL_CASE_MAX_INPUTS];
  shoal_type_t *outputs;
  shoal_attr_value_t *attrs;
} variant_t;

static bool is_integer(shoal_dtype_t dtype) {
  return !shoal_dtype_is_real(dtype) && dtype != SHOAL_BOOL;
}

// Infers in silence: a refusal is an answer.
static shoal_status_t accepts(variant_t *v, bool *out_accepts) {
  const bool silent = shoal_status_silence(true);
  v->call.inputs = v->inputs;
  v->call.outputs = NULL;
  shoal_status_t status = shoal_op_infer(&v->call, v->outputs);
  shoal_status_silence(silent);
  v->call.outputs = v->outputs;
  *out_accepts = !status;
  if (shoal_status_code(status) == SHOAL_OUT_OF_MEMORY) return status;
  shoal_status_free(status);
  return NULL;
}

static shoal_status_t variant_make(checker_t *c, const shoal_call_t *call, variant_t *out) {
  *out = (variant_t){.call = *call};
  memcpy(out->inputs, call->inputs, sizeof *call->inputs * (size_t)call->input_count);
  out->outputs = SHOAL_NEW(&c->arena, shoal_type_t, call->output_count);
  out->attrs =
      shoal_arena_copy(&c->arena, call->attrs, (size_t)call->op->attr_count, sizeof *call->attrs);
  if (!out->outputs || !out->attrs) return SHOAL_OOM();
  out->call.attrs = out->attrs;
  return NULL;
}

// Floats of the inputs, and of the attributes that name a dtype.
static void set_floats(variant_t *v, const shoal_call_t *call, shoal_dtype_t dtype, uint32_t wide) {
  int32_t number = 0;
  for (int32_t i = 0; i < call->input_count; ++i) {
    if (!shoal_dtype_is_float(call->inputs[i].dtype)) continue;
    v->inputs[i].dtype = number < 32 && wide >> number & 1 ? SHOAL_F32 : dtype;
    ++number;
  }
  for (int32_t a = 0; a < call->op->attr_count; ++a) {
    const bool named = call->op->attrs[a].kind == SHOAL_ATTR_DTYPE;
    if (named && shoal_dtype_is_float((shoal_dtype_t)call->attrs[a].i)) v->attrs[a].i = dtype;
  }
}

static void set_integers(variant_t *v, const shoal_call_t *call, shoal_dtype_t dtype) {
  for (int32_t i = 0; i < call->input_count; ++i) {
    if (is_integer(call->inputs[i].dtype)) v->inputs[i].dtype = dtype;
  }
}

static void set_all(variant_t *v, const shoal_call_t *call, shoal_dtype_t dtype) {
  for (int32_t i = 0; i < call->input_count; ++i) v->inputs[i].dtype = dtype;
}

// ---- running two variants ----------------------------------------------------------------------

// The numbers of `from` in other types.
static void convert(const shoal_tensor_t *from, shoal_tensor_t *to) {
  const bool real = shoal_dtype_is_real(from->dtype);
  for (int64_t i = 0; i < shoal_shape_count(&from->shape); ++i) {
    if (real)
      shoal_dtype_store(to->dtype, to->data, i, shoal_dtype_load(from->dtype, from->data, i));
    else if (shoal_dtype_is_real(to->dtype))
      shoal_dtype_store(to->dtype, to->data, i,
                        (double)shoal_dtype_load_int(from->dtype, from->data, i));
    else
      shoal_dtype_store_int(to->dtype, to->data, i,
                            shoal_dtype_load_int(from->dtype, from->data, i));
  }
}

// As integers, numbers between -1 and 1 would all be 0.
static void scale_up(shoal_tensor_t *tensor) {
  for (int64_t i = 0; i < shoal_shape_count(&tensor->shape); ++i) {
    const double x = floor(100 * fabs(check_at(tensor, i)));
    shoal_dtype_store(tensor->dtype, tensor->data, i, x);
  }
}

// Are these the same integers?
static bool holds(const shoal_tensor_t *from, const shoal_tensor_t *to) {
  for (int64_t i = 0; is_integer(from->dtype) && i < shoal_shape_count(&from->shape); ++i) {
    if (shoal_dtype_load_int(from->dtype, from->data, i) !=
        shoal_dtype_load_int(to->dtype, to->data, i)) {
      return false;
    }
  }
  return true;
}

// Data of the subject, rounded to the variant's types; and the same numbers in those of `wide`.
// *out_fits: the types hold the integers (a label of -100 is no u8).
static shoal_status_t draw_both(checker_t *c, const subject_t *s, const variant_t *v,
                                const variant_t *wide, shoal_tensor_t *narrow_in,
                                shoal_tensor_t *wide_in, bool *out_fits) {
  shoal_tensor_t *drawn = NULL;
  SHOAL_RETURN_IF_ERROR(subject_inputs(c, s, &drawn));
  for (int32_t i = 0; i < s->call.input_count; ++i) {
    SHOAL_RETURN_IF_ERROR(check_tensor(c, &v->inputs[i], 0, &narrow_in[i]));
    SHOAL_RETURN_IF_ERROR(check_tensor(c, &wide->inputs[i], 0, &wide_in[i]));
    if (shoal_dtype_is_real(drawn[i].dtype) && !shoal_dtype_is_real(v->inputs[i].dtype)) {
      scale_up(&drawn[i]);
    }
    convert(&drawn[i], &narrow_in[i]);
    convert(&narrow_in[i], &wide_in[i]);
    *out_fits &= holds(&drawn[i], &narrow_in[i]);
  }
  return NULL;
}

static double largest_of(const shoal_tensor_t *tensor) {
  double largest = 1;
  for (int64_t i = 0; i < shoal_shape_count(&tensor->shape); ++i) {
    const double size = fabs(check_at(tensor, i));
    if (isfinite(size) && size > largest) largest = size;
  }
  return largest;
}

// An output in the narrow types, and what it should be: for these inputs, and for inputs larger and
// smaller by a unit of rounding, which is what the op may have taken its decisions on.
typedef struct compared {
  int32_t output, wide_count;
  const shoal_tensor_t *narrow, *wide[3];
  double tolerance;
} compared_t;

// Number `i` of the wide result, as the narrow type has it if that is no float.
static double expected_at(const compared_t *m, int32_t which, int64_t i) {
  const shoal_tensor_t *wide = m->wide[which];
  int64_t cut = 0;  // room for one of any type
  if (shoal_dtype_is_real(m->narrow->dtype)) return check_at(wide, i);
  if (shoal_dtype_is_real(wide->dtype))
    shoal_dtype_store(m->narrow->dtype, &cut, 0, check_at(wide, i));
  else
    shoal_dtype_store_int(m->narrow->dtype, &cut, 0,
                          shoal_dtype_load_int(wide->dtype, wide->data, i));
  return (double)shoal_dtype_load_int(m->narrow->dtype, &cut, 0);
}

// How far it is off; 0 within the tolerance.
static double error_at(const compared_t *m, int64_t i) {
  const double x = check_at(m->narrow, i);
  double least = INFINITY;
  for (int32_t k = 0; k < m->wide_count; ++k) {
    const double y = expected_at(m, k, i), error = fabs(x - y);
    if (x == y || error <= m->tolerance || (isnan(x) && isnan(y))) return 0;
    if (error < least) least = error;
  }
  return least;
}

static shoal_status_t compare_output(checker_t *c, const variant_t *v, const compared_t *m) {
  int64_t worst = -1;
  double most = 0;
  if (!shoal_shape_equal(&m->narrow->shape, &m->wide[0]->shape)) {
    return check_failed(c, &v->call, "its outputs have other shapes than in f64");
  }
  for (int64_t i = 0; i < shoal_shape_count(&m->narrow->shape); ++i) {
    const double error = error_at(m, i);
    if (error > most) most = error, worst = i;
  }
  if (worst < 0) return NULL;
  return check_failed(
      c, &v->call,
      shoal_arena_printf(&c->arena, "output %d[%lld] is %.9g, in %s %.9g; allowed is %.3g",
                         (int)m->output, (long long)worst, check_at(m->narrow, worst),
                         shoal_dtype_name(m->wide[0]->dtype), expected_at(m, 0, worst),
                         m->tolerance));
}

static double coarsest(const variant_t *v) {
  double eps = 0;
  for (int32_t i = 0; i < v->call.input_count; ++i) {
    eps = fmax(eps, shoal_dtype_epsilon(v->inputs[i].dtype));
  }
  for (int32_t i = 0; i < v->call.output_count; ++i) {
    eps = fmax(eps, shoal_dtype_epsilon(v->outputs[i].dtype));
  }
  return eps;
}

// Does rounding decide anything? Comparisons inside, and integers that are made of floats.
static bool decides(const variant_t *v) {
  bool floats = false, integers = false;
  for (int32_t i = 0; i < v->call.input_count; ++i) {
    floats |= shoal_dtype_is_real(v->inputs[i].dtype);
  }
  for (int32_t i = 0; i < v->call.output_count; ++i) {
    integers |= !shoal_dtype_is_real(v->outputs[i].dtype);
  }
  return v->call.op->jumps || (floats && integers);
}

// All floats of the inputs by a factor.
static shoal_status_t run_scaled(checker_t *c, const variant_t *wide, const shoal_tensor_t *inputs,
                                 double factor, shoal_tensor_t **out_outputs) {
  shoal_tensor_t scaled[SHOAL_CASE_MAX_INPUTS];
  for (int32_t i = 0; i < wide->call.input_count; ++i) {
    SHOAL_RETURN_IF_ERROR(check_copy(c, &inputs[i], &scaled[i]));
    if (inputs[i].dtype != SHOAL_F64) continue;
    double *x = scaled[i].data;
    for (int64_t k = 0; k < shoal_shape_count(&inputs[i].shape); ++k) x[k] *= factor;
  }
  return check_run(c, &wide->call, scaled, 0, out_outputs);
}

// `units`: of rounding of f32.
static shoal_status_t compare_variants(checker_t *c, const subject_t *s, const variant_t *v,
                                       const variant_t *wide, double units) {
  shoal_tensor_t a[SHOAL_CASE_MAX_INPUTS], b[SHOAL_CASE_MAX_INPUTS];
  shoal_tensor_t *out = NULL, *wide_outs[3] = {NULL};
  const double eps = coarsest(v);
  bool fits = true;
  SHOAL_RETURN_IF_ERROR(draw_both(c, s, v, wide, a, b, &fits));
  if (!fits) return NULL;
  shoal_status_t status = check_run(c, &wide->call, b, 0, &wide_outs[0]);
  if (status) return check_refused(c, &wide->call, "it fails", status);
  status = check_run(c, &v->call, a, 0, &out);
  if (status) return check_refused(c, &v->call, "infer takes what the kernel does not", status);
  ++c->counts.dtypes;
  const int32_t wide_count = decides(v) ? 3 : 1;
  for (int32_t k = 1; k < wide_count; ++k) {
    status = run_scaled(c, wide, b, k == 1 ? 1 + eps : 1 - eps, &wide_outs[k]);
    if (status) return check_refused(c, &wide->call, "it fails", status);
  }
  // Half-size floats are computed in f32, and rounded once.
  if (units > 0 && eps > shoal_dtype_epsilon(SHOAL_F32)) units = UNITS_OF_HALVES;
  for (int32_t i = 0; i < v->call.output_count; ++i) {
    compared_t m = {.output = i, .wide_count = wide_count, .narrow = &out[i]};
    for (int32_t k = 0; k < wide_count; ++k) m.wide[k] = &wide_outs[k][i];
    if (shoal_dtype_is_real(out[i].dtype)) m.tolerance = units * eps * largest_of(m.wide[0]);
    SHOAL_RETURN_IF_ERROR(compare_output(c, v, &m));
  }
  return NULL;
}

// ---- floats, integers, anything ----------------------------------------------------------------

// All floats narrow, or as few of them f32 as the op asks for.
static shoal_status_t find_narrow(variant_t *v, const shoal_call_t *call, shoal_dtype_t dtype,
                                  int32_t floats, bool *out_found) {
  const uint32_t sets =
      dtype == SHOAL_F32 || floats == 0 || floats > SOME_INPUTS ? 1 : 1u << floats;
  for (int32_t bits = 0; bits < (floats ? floats : 1); ++bits) {
    for (uint32_t wide = 0; wide < sets; ++wide) {
      if (__builtin_popcount(wide) != bits) continue;
      set_floats(v, call, dtype, wide);
      SHOAL_RETURN_IF_ERROR(accepts(v, out_found));
      if (*out_found) return NULL;
    }
  }
  return NULL;
}

static shoal_status_t check_floats(checker_t *c, const subject_t *s) {
  static const shoal_dtype_t narrow[] = {SHOAL_F32, SHOAL_BF16, SHOAL_F16};
  const double units = s->example ? UNITS : UNITS_OF_LONG;
  int32_t floats = 0;
  bool named = false, taken = false;
  variant_t wide, v;
  for (int32_t i = 0; i < s->call.input_count; ++i) {
    floats += shoal_dtype_is_float(s->call.inputs[i].dtype);
  }
  for (int32_t a = 0; a < s->call.op->attr_count; ++a) {
    named |= s->call.op->attrs[a].kind == SHOAL_ATTR_DTYPE &&
             shoal_dtype_is_float((shoal_dtype_t)s->call.attrs[a].i);
  }
  if (floats == 0 && !named) return NULL;
  SHOAL_RETURN_IF_ERROR(variant_make(c, &s->call, &wide));
  set_floats(&wide, &s->call, SHOAL_F64, 0);
  SHOAL_RETURN_IF_ERROR(accepts(&wide, &taken));
  for (size_t k = 0; taken && k < sizeof narrow / sizeof *narrow; ++k) {
    bool found = false;
    SHOAL_RETURN_IF_ERROR(variant_make(c, &s->call, &v));
    SHOAL_RETURN_IF_ERROR(find_narrow(&v, &s->call, narrow[k], floats, &found));
    if (found) SHOAL_RETURN_IF_ERROR(compare_variants(c, s, &v, &wide, units));
  }
  return NULL;
}

static shoal_status_t check_integers(checker_t *c, const subject_t *s) {
  static const shoal_dtype_t narrow[] = {SHOAL_I32, SHOAL_U8};
  variant_t wide, v;
  bool any = false, empty = false, taken = false;
  for (int32_t i = 0; i < s->call.input_count; ++i) {
    any |= is_integer(s->call.inputs[i].dtype);
    empty |= shoal_shape_count(&s->call.inputs[i].shape) == 0;
  }
  if (!any || empty) return NULL;  // of nothing, a maximum is the smallest number of its type
  SHOAL_RETURN_IF_ERROR(variant_make(c, &s->call, &wide));
  set_integers(&wide, &s->call, SHOAL_I64);
  SHOAL_RETURN_IF_ERROR(accepts(&wide, &taken));
  for (size_t k = 0; taken && k < sizeof narrow / sizeof *narrow; ++k) {
    bool found = false;
    SHOAL_RETURN_IF_ERROR(variant_make(c, &s->call, &v));
    set_integers(&v, &s->call, narrow[k]);
    SHOAL_RETURN_IF_ERROR(accepts(&v, &found));
    if (found) SHOAL_RETURN_IF_ERROR(compare_variants(c, s, &v, &wide, 0));
  }
  return NULL;
}

// An op that moves elements, on floats: the same numbers in every type.
static shoal_status_t check_storage(checker_t *c, const subject_t *s) {
  variant_t wide, v;
  bool taken = s->call.input_count > 0;
  for (int32_t i = 0; i < s->call.input_count; ++i) {
    taken &= shoal_dtype_is_float(s->call.inputs[i].dtype);
  }
  if (!taken || !s->call.op->any_dtype) return NULL;
  SHOAL_RETURN_IF_ERROR(variant_make(c, &s->call, &wide));
  set_all(&wide, &s->call, SHOAL_F64);
  SHOAL_RETURN_IF_ERROR(accepts(&wide, &taken));
  for (int32_t dtype = 0; taken && dtype < SHOAL_DTYPE_COUNT; ++dtype) {
    bool found = false;
    SHOAL_RETURN_IF_ERROR(variant_make(c, &s->call, &v));
    set_all(&v, &s->call, (shoal_dtype_t)dtype);
    SHOAL_RETURN_IF_ERROR(accepts(&v, &found));
    if (!found) {
      SHOAL_RETURN_IF_ERROR(check_failed(
          c, &v.call, "it only moves elements (any_dtype), and does not take every dtype"));
    } else {
      SHOAL_RETURN_IF_ERROR(compare_variants(c, s, &v, &wide, 0));
    }
  }
  return NULL;
}

shoal_status_t check_dtypes(checker_t *c, const subject_t *s) {
  SHOAL_RETURN_IF_ERROR(check_floats(c, s));
  SHOAL_RETURN_IF_ERROR(check_integers(c, s));
  return check_storage(c, s);
}

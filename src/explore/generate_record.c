// A use of any op, from the examples of its record. The example's sizes are changed where its
// symbols allow it (shoal_rules_vary), its floats are of the case's type where the op takes that.
// What an input may hold is what the example says, or the record (index_count, spare): positive
// numbers and probabilities are made of trained values, integers are fed. Where the op has a
// gradient, floats are trained; otherwise nothing in front of it may be, and what it makes is
// multiplied by a state.
#include <string.h>

#include "base/dtype.h"
#include "base/text.h"
#include "explore/generators.h"
#include "op/case.h"
#include "op/families/family.h"
#include "op/indices.h"
#include "op/text.h"
#include "rules/rules.h"

typedef shoal_case_ref_t ref_t;
typedef shoal_generator_t gen_t;

enum {
  LARGEST_INPUT = 240,
  MOST_EXPENSIVE = 20000
};  // elements, flops: many cases beat large ones

typedef struct use {
  shoal_case_t example;
  shoal_call_t call;
  shoal_type_t inputs[SHOAL_CASE_MAX_INPUTS], outputs[SHOAL_CASE_OUTPUTS];
  bool differentiable;
  double bound;  // of its outputs
} use_t;

static bool quiet(shoal_status_t status) {
  const bool ok = !status;
  shoal_status_free(status);
  return ok;
}

// ---- the call -----------------------------------------------------------------------------------

static bool infers(use_t *u) {
  u->call.outputs = NULL;
  if (!quiet(shoal_op_infer(&u->call, u->outputs))) return false;
  u->call.outputs = u->outputs;
  int64_t most = 0, total = 0;
  for (int32_t i = 0; i < u->call.input_count; ++i) {
    const int64_t count = shoal_shape_count(&u->inputs[i].shape);
    if (count == 0) return false;  // of nothing, results are infinite: `check ops` has these
    if (count > most) most = count;
    total += count;
  }
  for (int32_t o = 0; o < u->call.output_count; ++o) {
    const int64_t count = shoal_shape_count(&u->outputs[o].shape);
    if (count == 0) return false;
    if (count > most) most = count;
  }
  const int64_t made = shoal_shape_count(&u->outputs[0].shape);
  u->bound = total > 3 * made ? (double)total / (double)made : 3;
  return most <= LARGEST_INPUT && shoal_op_cost(&u->call).flops <= MOST_EXPENSIVE;
}

// In the case's type if the op takes it, else in the example's, else in f64.
static bool choose_types(gen_t *g, use_t *u, const shoal_type_t *sizes) {
  for (int kind = 0; kind < 3; ++kind) {
    for (int32_t i = 0; i < u->call.input_count; ++i) {
      const shoal_dtype_t own = u->example.inputs[i].dtype;
      u->inputs[i] = (shoal_type_t){own, sizes[i].shape};
      if (shoal_dtype_is_float(own) && kind != 1) u->inputs[i].dtype = kind ? SHOAL_F64 : g->dtype;
    }
    if (infers(u)) return true;
  }
  return false;
}

static bool draw_call(gen_t *g, const shoal_op_t *op, use_t *u) {
  int64_t count = 0;
  while (op->cases && op->cases[count]) ++count;
  if (count == 0) return false;
  const char *text = op->cases[shoal_roll(g, count)];
  if (!quiet(shoal_case_parse(op, text, g->arena, &u->example))) return false;
  u->call = (shoal_call_t){.op = op,
                           .input_count = u->example.input_count,
                           .output_count = shoal_op_outputs(op, u->example.attrs),
                           .inputs = u->example.inputs,
                           .attrs = u->example.attrs};
  if (u->call.input_count > SHOAL_CASE_REFS || u->call.output_count > SHOAL_CASE_OUTPUTS)
    return false;
  const shoal_call_t example = u->call;
  u->call.inputs = u->inputs;
  for (int tries = shoal_chance(g, 80) ? 3 : 0; tries > 0; --tries) {
    shoal_call_t varied;
    bool found = false;
    const uint64_t seed = (uint64_t)shoal_roll(g, INT32_MAX);
    if (!quiet(shoal_rules_vary(&example, seed, g->arena, &varied, &found)) || !found) break;
    u->call.attrs = varied.attrs;
    if (choose_types(g, u, varied.inputs)) return true;
  }
  u->call.attrs = example.attrs;
  return choose_types(g, u, example.inputs);
}

// ---- its attributes -----------------------------------------------------------------------------

// "axis=1, keep=1"; NULL for want of memory.
static const char *print_attrs(gen_t *g, const shoal_call_t *call,
                               const shoal_attr_value_t *attrs) {
  shoal_text_t text;
  const char *out = NULL;
  shoal_text_init(g->arena->allocator, &text);
  shoal_status_t status = shoal_text_add_attrs(&text, call->op, attrs);
  if (!quiet(shoal_text_close(&text, status, g->arena, &out))) return NULL;
  if (!*out) return out;
  return TEXT("%.*s", (int)strlen(out) - 3, out + 2);  // without " {" and "}"
}

// Leaves out what the op completes by itself: counts of the whole, which are wrong as soon as a
// case is made smaller.
static const char *attrs_text(gen_t *g, const shoal_call_t *call) {
  const shoal_op_t *op = call->op;
  const char *text = print_attrs(g, call, call->attrs);
  shoal_attr_value_t *kept = SHOAL_NEW(g->arena, shoal_attr_value_t, op->attr_count);
  shoal_attr_value_t *tried = SHOAL_NEW(g->arena, shoal_attr_value_t, op->attr_count);
  if (!kept || !tried || !text || op->attr_count == 0) return text;
  memcpy(kept, call->attrs, (size_t)op->attr_count * sizeof *kept);
  for (int32_t a = 0; a < op->attr_count; ++a) {
    if (!op->attrs[a].optional || op->attrs[a].kind == SHOAL_ATTR_PLACE) continue;
    const shoal_attr_value_t own = kept[a];
    kept[a] = op->attrs[a].fallback;
    memcpy(tried, kept, (size_t)op->attr_count * sizeof *kept);
    shoal_op_complete(op, call->input_count, call->inputs, tried);
    const char *same = print_attrs(g, call, tried);
    if (!same || strcmp(same, text) != 0) kept[a] = own;
  }
  return print_attrs(g, call, kept);
}

// ---- its inputs ---------------------------------------------------------------------------------

// Ops whose numbers lie in (-1, 1), as those of all examples do, but may not leave it.
static bool is_bounded(const shoal_op_t *op) {
  static const char *const names[] = {"shoal.asin", "shoal.acos", "shoal.log1p"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (strcmp(op->name, names[i]) == 0) return true;
  return false;
}

static ref_t trained_input(gen_t *g, const use_t *u, int32_t i) {
  const shoal_type_t *type = &u->inputs[i];
  const shoal_shape_t *shape = &type->shape;
  const bool probable = u->example.limit[i] == 1, positive = u->example.positive[i];
  ref_t x = shoal_generate_trained(g, shape), out;
  if (probable) {
    if (NODE("sigmoid", 1, "", &out, x)) x = out;
  } else if (positive) {
    x = shoal_generate_positive(g, x);
  } else if (is_bounded(u->call.op)) {
    if (NODE("tanh", 1, "", &out, x)) x = out;
    if (NODE("affine", 1, "scale=0.9, shift=0", &out, x)) x = out;
  } else if (shoal_generate_bound(g, x) > 1.5 && NODE("tanh", 1, "", &out, x)) {
    x = out;
  }
  if (type->dtype != g->dtype &&
      NODE("cast", 4, TEXT("dtype=%s", shoal_dtype_name(type->dtype)), &out, x))
    x = out;
  return x;
}

static ref_t fed_input(gen_t *g, const use_t *u, int32_t i) {
  shoal_case_input_t input = {.type = u->inputs[i], .positive = u->example.positive[i]};
  ref_t x, out;
  if (shoal_dtype_is_real(input.type.dtype)) {
    x = shoal_generate_input(g, &input);
    if (u->example.limit[i] == 1 && NODE("sigmoid", 1, "", &out, x)) x = out;
    return x;
  }
  const bool scalar = input.type.shape.rank == 0 && input.type.dtype == SHOAL_I64;
  if (u->call.op->random && scalar) return (ref_t){.kind = 'n'};
  // Indices are drawn from what the record says, the spare one among them.
  if (input.type.dtype != SHOAL_BOOL && shoal_indices(&u->call, i) <= 0) {
    if (u->example.first[i] < 0)
      input.magnitude = u->example.limit[i] - 1;
    else
      input.limit = u->example.limit[i];
  }
  return shoal_generate_input(g, &input);
}

// ---- what it makes ------------------------------------------------------------------------------

// Times a state, in the case's type.
static void multiply(gen_t *g, ref_t x, double bound) {
  const shoal_type_t type = shoal_generate_type(g, x);
  ref_t out;
  if (type.dtype != g->dtype) {
    if (!NODE("cast", bound, TEXT("dtype=%s", shoal_dtype_name(g->dtype)), &out, x)) return;
    x = out;
  }
  if (bound > 4 && NODE("affine", 2, TEXT("scale=%.3g, shift=0", 2 / bound), &out, x)) x = out;
  NODE("mul", 2, "", &out, x, shoal_generate_state(g, &type.shape));
}

// A product with a state: its gradient comes as a sum over the product's columns. Made small again:
// steps of training would run away, and in narrow types overflow.
static void project(gen_t *g, ref_t x, double bound) {
  static const char letters[] = "abcdefg";
  const shoal_type_t type = shoal_generate_type(g, x);
  const double terms = (double)shoal_shape_count(&type.shape);
  ref_t out;
  if (type.shape.rank > 5) return;
  shoal_shape_t weight = type.shape;
  weight.dims[weight.rank++] = 2 + shoal_roll(g, 2);
  const bool made =
      NODE("einsum", bound * terms,
           TEXT("equation=\"%.*s,%.*sz->z\"", type.shape.rank, letters, type.shape.rank, letters),
           &out, x, shoal_generate_state(g, &weight));
  if (made && terms > 4) NODE("affine", bound, TEXT("scale=%.3g, shift=0", 1 / terms), &out, out);
}

// Of nothing, a maximum and a log-sum-exp are infinite: of a segment without rows, of keys that are
// all masked. In the loss, that would leave nothing to compare.
static ref_t bounded(gen_t *g, const shoal_op_t *op, ref_t x) {
  ref_t out;
  if (strcmp(op->name, x.output == 0 ? "shoal.segment_max" : "shoal.attention") != 0) return x;
  return NODE("clamp", 9, "min=-9, max=9", &out, x) ? out : x;
}

static void use_outputs(gen_t *g, const use_t *u, ref_t made) {
  for (int32_t o = 0; o < u->call.output_count; ++o) {
    const shoal_dtype_t dtype = u->outputs[o].dtype;
    const bool real = shoal_dtype_is_float(dtype) && u->differentiable;
    ref_t out;
    if (o > 0 && shoal_chance(g, 30)) continue;
    const ref_t x = bounded(g, u->call.op, (ref_t){.kind = 'v', .index = made.index, .output = o});
    if (!real)
      multiply(g, x, shoal_dtype_is_float(dtype) ? u->bound : 9 * u->bound);
    else if (dtype == g->dtype && shoal_chance(g, 50))
      project(g, x, u->bound);
    else if (o > 0)
      NODE("affine", u->bound, "scale=0.7, shift=0.1", &out, x);
  }
}

bool shoal_generate_from_record(gen_t *g, const shoal_op_t *op) {
  use_t *u = SHOAL_NEW(g->arena, use_t, 1);
  if (op->constrains) return false;  // generate_constraints.c: a layout has to fit the meshes
  if (!u || !draw_call(g, op, u)) return false;
  u->differentiable = op->gradient && op->gradient != shoal_gradient_none;
  const char *attrs = attrs_text(g, &u->call);
  ref_t refs[SHOAL_CASE_REFS], made;
  if (!attrs) return false;
  bool trained = false;
  for (int32_t i = 0; i < u->call.input_count; ++i) {
    const bool real = shoal_dtype_is_float(u->inputs[i].dtype);
    const bool trains = real && u->differentiable && (!trained || shoal_chance(g, 75));
    refs[i] = trains ? trained_input(g, u, i) : fed_input(g, u, i);
    trained |= trains;
  }
  const char *name = strncmp(op->name, "shoal.", 6) == 0 ? op->name + 6 : op->name;
  if (!shoal_generate_node(g, name, u->call.input_count, refs, attrs, u->bound, &made))
    return false;
  use_outputs(g, u, made);
  return true;
}

// An op's decomposition against the op itself, in the dtypes of the call: values, and gradients
// where both have them.
#include <math.h>

#include "base/dtype.h"
#include "explore/check_ops.h"

// Of rounding of the largest number: sums are taken in another order, and half-size floats are
// rounded between the parts.
enum { UNITS = 64, UNITS_OF_HALVES = 8 };

// One form of the call: the node as it is, or its decomposition.
typedef struct form {
  shoal_model_t *model;
  shoal_interpreter_t *interpreter;
  int32_t *gradients;  // NULL: it has none
} form_t;

static void form_free(form_t *f) {
  shoal_interpreter_free(f->interpreter);
  shoal_model_free(f->model);
  *f = (form_t){0};
}

static shoal_status_t form_make(checker_t *c, const subject_t *s, const check_model_t *m,
                                const char *node, bool differentiate, form_t *f) {
  *f = (form_t){0};
  shoal_status_t status =
      shoal_model_expand(m->model, "f", node ? &node : NULL, node != NULL, &f->model);
  if (!status) status = shoal_model_verify(f->model);
  if (!status && differentiate) {
    status = check_model_gradients(m, f->model, &c->arena, &f->gradients);
  }
  if (!status) status = shoal_interpreter_create(f->model, NULL, &f->interpreter);
  if (!status) status = check_model_feed(c, s, f->model, f->interpreter);
  if (!status) status = shoal_interpreter_run(f->interpreter, "f");
  if (status) form_free(f);
  return status;
}

static shoal_status_t compare(checker_t *c, const subject_t *s, const char *what, form_t *fused,
                              form_t *parts, int32_t value, int32_t other) {
  shoal_tensor_t a, b;
  SHOAL_RETURN_IF_ERROR(shoal_interpreter_value(fused->interpreter, value, &a));
  SHOAL_RETURN_IF_ERROR(shoal_interpreter_value(parts->interpreter, other, &b));
  const int64_t count = shoal_shape_count(&a.shape);
  if (a.dtype != b.dtype || !shoal_shape_equal(&a.shape, &b.shape)) {
    return check_failed(c, &s->call, "its decomposition has results of other types");
  }
  double largest = 1;
  for (int64_t i = 0; i < count; ++i) {
    const double size = fabs(check_at(&a, i));
    if (isfinite(size)) largest = fmax(largest, size);
  }
  const double eps = shoal_dtype_epsilon(a.dtype);
  const double tolerance =
      (eps > shoal_dtype_epsilon(SHOAL_F32) ? UNITS_OF_HALVES : UNITS) * eps * largest;
  int64_t worst = -1;
  double most = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double x = check_at(&a, i), y = check_at(&b, i), error = fabs(x - y);
    if (x == y || error <= tolerance || (isnan(x) && isnan(y))) continue;
    if (worst < 0 || error > most) most = error, worst = i;
  }
  if (worst < 0) return NULL;
  return check_failed(
      c, &s->call,
      shoal_arena_printf(&c->arena, "%s[%lld] is %.9g, of its decomposition %.9g; allowed is %.3g",
                         what, (long long)worst, check_at(&a, worst), check_at(&b, worst),
                         tolerance));
}

static shoal_status_t compare_forms(checker_t *c, const subject_t *s, const check_model_t *m,
                                    form_t *fused, form_t *parts) {
  const shoal_graph_t *a = shoal_model_find_graph(fused->model, "f");
  const shoal_graph_t *b = shoal_model_find_graph(parts->model, "f");
  for (int64_t i = 0; i < a->outputs.count; ++i) {
    SHOAL_RETURN_IF_ERROR(compare(c, s, a->outputs.items[i].name, fused, parts,
                                  a->outputs.items[i].value, b->outputs.items[i].value));
  }
  for (int32_t i = 0; fused->gradients && parts->gradients && i < m->float_count; ++i) {
    SHOAL_RETURN_IF_ERROR(
        compare(c, s, "a gradient", fused, parts, fused->gradients[i], parts->gradients[i]));
  }
  return NULL;
}

static shoal_status_t check_output(checker_t *c, const subject_t *s, const check_model_t *m) {
  const char *node = shoal_model_find_graph(m->model, "f")->nodes.items[0].name;
  bool differentiate = m->loss >= 0 && m->float_count > 0 && s->call.op->gradient;
  form_t fused, parts = {0};
  SHOAL_RETURN_IF_ERROR(form_make(c, s, m, NULL, differentiate, &fused));
  shoal_status_t status = form_make(c, s, m, node, differentiate, &parts);
  if (shoal_status_code(status) == SHOAL_UNSUPPORTED && differentiate) {
    shoal_status_free(status);  // a part of it has no gradient
    status = form_make(c, s, m, node, false, &parts);
  }
  if (!status && check_is_part(c, s->call.op)) status = check_note_parts(c, parts.model);
  if (!status) status = compare_forms(c, s, m, &fused, &parts);
  ++c->counts.decompositions;
  form_free(&parts);
  form_free(&fused);
  return status;
}

shoal_status_t check_decomposition(checker_t *c, const subject_t *s) {
  int32_t outputs = 0;
  if (!s->call.op->decompose) return NULL;
  for (int32_t which = -1; which < outputs; ++which) {
    check_model_t m;
    shoal_status_t status = check_model_make(c, s, which, &m);
    if (status) return check_refused(c, &s->call, "as a node", status);
    if (which < 0 && m.outputs > 1) outputs = s->call.output_count;
    status = check_refused(c, &s->call, "decomposition", check_output(c, s, &m));
    check_model_free(&m);
    SHOAL_RETURN_IF_ERROR(status);
  }
  return NULL;
}

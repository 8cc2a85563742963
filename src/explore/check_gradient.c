// Gradients against central finite differences, in f64: of all outputs together and of each alone,
// by every float input. An example's elements are moved one by one; at other sizes all elements of
// an input are moved at once, in a random direction, which costs two runs however large it is.
//
// Functions with kinks (a maximum, relu) have no gradient on them: all inputs are moved a little
// off the numbers they were drawn from, so that half-size floats have no ties; and where a
// difference is not what the gradient says, smaller steps are tried, since a kink may lie within
// the first. A gradient that is wrong is so for all of them.
#include <math.h>

#include "base/dtype.h"
#include "base/philox.h"
#include "explore/check_ops.h"

enum { ELEMENTS = 40 };  // of an input, that are moved one by one
static const double STEPS[] = {1e-5, 1e-6, 1e-7, 3e-5};
static const double TOLERANCE = 2e-7;

// Moves elements of one input while the interpreter runs.
typedef struct move {
  int32_t value;
  int64_t element;  // -1: all, in a direction
  double delta;
} move_t;

static double direction(int32_t value, int64_t element) {
  return 2 * shoal_philox_uniform(shoal_philox_word(4, (uint64_t)value, 1, (uint64_t)element)) - 1;
}

static void apply_move(void *self, const shoal_graph_t *graph, int32_t value,
                       shoal_tensor_t tensor) {
  const move_t *move = self;
  if (graph->values.items[value].source != SHOAL_FROM_INPUT || tensor.dtype != SHOAL_F64) return;
  double *x = tensor.data;
  for (int64_t i = 0; i < shoal_shape_count(&tensor.shape); ++i) {
    x[i] += 1e-3 * shoal_philox_uniform(shoal_philox_word(3, (uint64_t)value, 0, (uint64_t)i));
    if (value != move->value) continue;
    if (move->element < 0) x[i] += move->delta * direction(value, i);
    if (move->element == i) x[i] += move->delta;
  }
}

// The graph and its copy with gradients, each with its interpreter.
typedef struct gradient_check {
  checker_t *c;
  const subject_t *s;
  check_model_t model;
  shoal_model_t *copy;
  shoal_interpreter_t *moved, *differentiated;
  int32_t *gradients;  // values of the copy
  int32_t which;       // output; -1: all
  move_t move, none;
} gradient_check_t;

static shoal_status_t loss_at(gradient_check_t *g, double delta, double *out_loss) {
  shoal_tensor_t loss;
  g->move.delta = delta;
  SHOAL_RETURN_IF_ERROR(shoal_interpreter_run(g->moved, "f"));
  SHOAL_RETURN_IF_ERROR(shoal_interpreter_output(g->moved, "loss", &loss));
  *out_loss = check_at(&loss, 0);
  return NULL;
}

// The slope at the moved element, or in the direction, must be `expected`.
static shoal_status_t compare_slope(gradient_check_t *g, int32_t input, int64_t element,
                                    double expected, double scale) {
  double difference = 0, best = INFINITY;
  g->move = (move_t){.value = g->model.inputs[input], .element = element};
  for (size_t k = 0; k < sizeof STEPS / sizeof *STEPS; ++k) {
    double above = 0, below = 0;
    SHOAL_RETURN_IF_ERROR(loss_at(g, STEPS[k], &above));
    SHOAL_RETURN_IF_ERROR(loss_at(g, -STEPS[k], &below));
    const double slope = (above - below) / (2 * STEPS[k]);
    const double error = fabs(slope - expected);
    // A smaller step leaves less of the difference's digits: 1e-16 of the loss, by the step.
    const double rounding = 1e-15 * fmax(fabs(above), 1) / STEPS[k];
    if (error <= TOLERANCE * scale + rounding) return NULL;
    if (!(error >= best)) best = error, difference = slope;
  }
  shoal_arena_t *arena = &g->c->arena;
  const char *of = g->which < 0 ? "" : shoal_arena_printf(arena, " of output %d", (int)g->which);
  const char *at = element < 0 ? " in a random direction"
                               : shoal_arena_printf(arena, "[%lld]", (long long)element);
  if (!of || !at) return SHOAL_OOM();
  return check_failed(
      g->c, &g->s->call,
      shoal_arena_printf(arena, "gradient%s by input %d%s is %.9g, finite differences give %.9g",
                         of, (int)input, at, expected, difference));
}

static shoal_status_t compare_input(gradient_check_t *g, int32_t input,
                                    const shoal_tensor_t *gradient) {
  const int64_t count = shoal_shape_count(&gradient->shape), stride = count / ELEMENTS + 1;
  double largest = 1, slope = 0, sum = 1;
  for (int64_t e = 0; e < count; ++e) {
    const double part = check_at(gradient, e);
    largest = fmax(largest, fabs(part));
    sum += fabs(part);
    slope += part * direction(g->model.inputs[input], e);
  }
  if (count == 0) return NULL;
  ++g->c->counts.gradients;
  if (!g->s->example) return compare_slope(g, input, -1, slope, sum);
  const int64_t failed = g->c->failed;
  for (int64_t e = 0; e < count && g->c->failed == failed; e += stride) {
    SHOAL_RETURN_IF_ERROR(compare_slope(g, input, e, check_at(gradient, e), largest));
  }
  return NULL;
}

static shoal_status_t open(gradient_check_t *g) {
  const shoal_interpreter_options_t moving = {
      .promote = true, .observe = apply_move, .observe_self = &g->move};
  const shoal_interpreter_options_t still = {
      .promote = true, .observe = apply_move, .observe_self = &g->none};
  SHOAL_RETURN_IF_ERROR(shoal_interpreter_create(g->model.model, &moving, &g->moved));
  SHOAL_RETURN_IF_ERROR(check_model_feed(g->c, g->s, g->model.model, g->moved));
  SHOAL_RETURN_IF_ERROR(shoal_model_expand(g->model.model, "f", NULL, 0, &g->copy));
  SHOAL_RETURN_IF_ERROR(check_model_gradients(&g->model, g->copy, &g->c->arena, &g->gradients));
  SHOAL_RETURN_IF_ERROR(check_note_parts(g->c, g->copy));
  SHOAL_RETURN_IF_ERROR(shoal_interpreter_create(g->copy, &still, &g->differentiated));
  return check_model_feed(g->c, g->s, g->copy, g->differentiated);
}

static shoal_status_t compare_all(gradient_check_t *g) {
  double loss = 0;
  SHOAL_RETURN_IF_ERROR(open(g));
  SHOAL_RETURN_IF_ERROR(loss_at(g, 0, &loss));
  SHOAL_RETURN_IF_ERROR(shoal_interpreter_run(g->differentiated, "f"));
  if (!isfinite(loss)) return NULL;  // a maximum of nothing has no slope
  for (int32_t i = 0, k = 0; i < g->s->call.input_count; ++i) {
    shoal_tensor_t gradient;
    if (!shoal_dtype_is_float(g->s->call.inputs[i].dtype)) continue;
    SHOAL_RETURN_IF_ERROR(shoal_interpreter_value(g->differentiated, g->gradients[k++], &gradient));
    SHOAL_RETURN_IF_ERROR(compare_input(g, i, &gradient));
  }
  return NULL;
}

shoal_status_t check_gradient(checker_t *c, const subject_t *s) {
  int32_t outputs = 0;
  for (int32_t which = -1; which < outputs; ++which) {
    gradient_check_t g = {
        .c = c, .s = s, .which = which, .move = {.value = -1}, .none = {.value = -1}};
    shoal_status_t status = check_model_make(c, s, which, &g.model);
    if (status) return check_refused(c, &s->call, "as a node", status);
    // One output alone takes other paths through a gradient than all together.
    if (which < 0 && g.model.outputs > 1) outputs = s->call.output_count;
    if (g.model.loss >= 0 && g.model.float_count > 0) {
      status = check_refused(c, &s->call, "gradient", compare_all(&g));
    }
    shoal_interpreter_free(g.differentiated);
    shoal_interpreter_free(g.moved);
    shoal_model_free(g.copy);
    check_model_free(&g.model);
    SHOAL_RETURN_IF_ERROR(status);
  }
  return NULL;
}

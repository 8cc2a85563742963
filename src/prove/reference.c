// Runs the reference interpreter twice - own dtypes, and promoted to f64 - and keeps for each value
// what a comparison needs: what is expected, how large tensors of its kind are, how far the
// one-device run is off.
#include "prove/reference_impl.h"

#include "op/type.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "device/device.h"
#include "plan/gradients.h"

#define F64_EPSILON 0x1p-52

static bool rounds(const shoal_model_t *model, const shoal_plan_t *plan) {
  for (int64_t s = 0; plan && s < plan->model->states.count; ++s)
    if (plan->syncs[s].cast && plan->syncs[s].dtype != SHOAL_F64) return true;
  for (int64_t g = 1; g < model->graphs.count; ++g) {
    const shoal_graph_t *graph = model->graphs.items[g];
    for (int64_t v = 0; v < graph->values.count; ++v) {
      const shoal_value_info_t *info = &graph->values.items[v];
      if (info->source == SHOAL_FROM_NODE && shoal_dtype_is_float(info->type.dtype) &&
          info->type.dtype != SHOAL_F64)
        return true;
    }
  }
  return false;
}

bool shoal_reference_decides(const shoal_graph_t *graph, int32_t value) {
  if (!shoal_dtype_is_float(graph->values.items[value].type.dtype)) return false;
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    bool reads = false;
    for (int32_t i = 0; i < node->input_count; ++i) reads |= node->inputs[i] == value;
    if (!reads) continue;
    if (node->op->jumps) return true;
    for (int32_t o = 0; o < node->output_count; ++o)
      if (!shoal_dtype_is_float(graph->values.items[node->outputs[o]].type.dtype)) return true;
  }
  return false;
}

// ---- exchange in another type -------------------------------------------------------------------

// Does the program have a copy of the value in this type?
static bool has_copy(const shoal_program_t *program, const char *name, shoal_dtype_t dtype) {
  for (int64_t c = 0; c < program->class_count; ++c)
    for (int64_t i = 0; i < program->classes[c].buffer_count; ++i) {
      const shoal_buffer_t *buffer = &program->classes[c].buffers[i];
      if (buffer->type.dtype == dtype && strcmp(buffer->name, name) == 0) return true;
    }
  return false;
}

// What the plan wants exchanged in another type and the program does: where nothing is exchanged,
// nothing is excused.
static shoal_status_t find_exchanged(shoal_reference_t *r) {
  r->exchanged = NULL;
  r->plain = SHOAL_NEW(&r->arena, double *, r->graph->values.count);
  if (!r->plain) return SHOAL_OOM();
  if (!r->plan) return NULL;
  SHOAL_RETURN_IF_ERROR(
      shoal_plan_exchanged(r->plan, r->graph, &r->arena, &r->exchanged, &r->scale_log2));
  for (int64_t v = 0; r->exchanged && v < r->graph->values.count; ++v) {
    const shoal_value_info_t *info = &r->graph->values.items[v];
    if (!has_copy(r->program, info->name, r->exchanged[v])) r->exchanged[v] = info->type.dtype;
  }
  return NULL;
}

static void exchange(shoal_reference_t *r, int32_t value, shoal_tensor_t tensor) {
  const shoal_dtype_t own = r->graph->values.items[value].type.dtype;
  if (r->side != OWN || r->failed || !r->exchanged || r->exchanged[value] == own) return;
  const int64_t count = shoal_shape_count(&tensor.shape);
  const double scale = ldexp(1, r->scale_log2[value]);
  double rounded;  // room for an element of any type
  r->plain[value] = SHOAL_NEW(&r->arena, double, count);
  r->failed = !r->plain[value];
  for (int64_t i = 0; !r->failed && i < count; ++i) {
    r->plain[value][i] = shoal_dtype_load(tensor.dtype, tensor.data, i);
    shoal_dtype_store(r->exchanged[value], &rounded, 0, scale * r->plain[value][i]);
    shoal_dtype_store(tensor.dtype, tensor.data, i,
                      shoal_dtype_load(r->exchanged[value], &rounded, 0) / scale);
  }
}

// ---- imposing -----------------------------------------------------------------------------------

bool shoal_reference_overflows(shoal_dtype_t dtype, double got, double want, double allowed) {
  double rounded;  // room for an element of any type
  if (!isinf(got) || !isfinite(want) || !isfinite(allowed)) return false;
  shoal_dtype_store(dtype, &rounded, 0, want + copysign(allowed, got));
  return shoal_dtype_load(dtype, &rounded, 0) == got;
}

// Is rounding all that keeps an element finite? In f64 nothing rounds that much.
static bool is_at_the_edge(const shoal_reference_t *r, int32_t value, const double *elements,
                           int64_t count) {
  const shoal_value_info_t *info = &r->graph->values.items[value];
  bool found = false;
  if (!shoal_dtype_is_float(info->type.dtype) || info->type.dtype == SHOAL_F64) return false;
  for (int64_t i = 0; i < count && !found; ++i)
    found = shoal_reference_overflows(info->type.dtype, copysign(INFINITY, elements[i]),
                                      elements[i], r->allowed[value]);
  return found;
}

// Has a promoted run decide as the run in the model's own types did: what an op makes of floats
// that is no float. Above all whether gradients are finite: a narrow type overflows where f64 does
// not, and a step that one of the runs skips makes states of two histories, from which no error can
// be told. The ranks' decisions are compared with those of the run in the model's own types.
static void decide_as_own(shoal_reference_t *r, int32_t value, shoal_tensor_t tensor) {
  shoal_tensor_t own;
  if (r->side == OWN || r->failed || shoal_dtype_is_float(tensor.dtype)) return;
  shoal_status_t status = shoal_interpreter_value(r->interpreters[OWN], value, &own);
  r->failed = status != NULL;
  if (!status) memcpy(tensor.data, own.data, shoal_tensor_bytes(&tensor));
  shoal_status_free(status);
}

static void observe(void *self, const shoal_graph_t *graph, int32_t value, shoal_tensor_t tensor) {
  shoal_reference_t *r = self;
  shoal_reference_take_value(r, value, tensor);
  decide_as_own(r, value, tensor);
  if (r->side == SHAKEN) {
    shoal_reference_shake_value(r, value, tensor);
    return;
  }
  exchange(r, value, tensor);
  const bool floats = shoal_dtype_is_float(graph->values.items[value].type.dtype);
  if (!r->impose || r->failed || !floats) return;
  const bool decides = shoal_reference_decides(graph, value);
  int64_t count = shoal_shape_count(&tensor.shape);
  double *plain = SHOAL_NEW(&r->arena, double, count),
         *changed = SHOAL_NEW(&r->arena, double, count);
  if (!plain || !changed) {
    r->failed = true;
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    plain[i] = changed[i] = shoal_dtype_load(tensor.dtype, tensor.data, i);
  if (!decides && !is_at_the_edge(r, value, plain, count)) return;
  if (!r->impose(r->impose_self, graph, value, count, decides, r->allowed[value], changed)) return;
  // Counted once: on the promoted side alone where the program decides as the narrow run does.
  if (r->side == OWN || !r->before[OWN][value]) ++r->imposed;
  r->before[r->side][value] = plain;
  for (int64_t i = 0; i < count; ++i) shoal_dtype_store(tensor.dtype, tensor.data, i, changed[i]);
}

// ---- ops without a kernel -----------------------------------------------------------------------

static shoal_status_t execute(void *self, const shoal_call_t *call, const shoal_tensor_t *inputs,
                              const shoal_tensor_t *outputs) {
  const shoal_check_options_t *options = self;
  if (!call->op->kernel) {
    return shoal_provider_call(options->provider, options->provider_self, call, inputs, outputs,
                               options->allocator);
  }
  const shoal_executor_t reference = shoal_executor_reference(&options->allocator);
  return reference.execute(reference.self, call, inputs, outputs);
}

shoal_executor_t shoal_check_executor(const shoal_check_options_t *options) {
  return (shoal_executor_t){(void *)options, execute};
}

// ---- create -------------------------------------------------------------------------------------

shoal_status_t shoal_reference_add_side(shoal_reference_t *r, int side) {
  shoal_interpreter_options_t io = {
      .allocator = r->allocator, .promote = side != OWN, .observe = observe, .observe_self = r};
  if (r->options->provider) io.executor = shoal_check_executor(r->options);
  return shoal_interpreter_create(r->model, &io, &r->interpreters[side]);
}

shoal_status_t shoal_reference_create(const shoal_model_t *model,
                                      const shoal_check_options_t *options,
                                      const shoal_plan_t *plan, const shoal_program_t *program,
                                      shoal_allocator_t allocator,
                                      shoal_reference_t **out_reference) {
  *out_reference = NULL;
  shoal_reference_t *r = allocator.alloc(allocator.self, sizeof *r);
  if (!r) return SHOAL_OOM();
  *r = (shoal_reference_t){.model = model,
                           .fed = model,
                           .options = options,
                           .plan = plan,
                           .program = program,
                           .allocator = allocator};
  shoal_arena_init(allocator, &r->states);
  shoal_arena_init(allocator, &r->arena);
  shoal_status_t status = NULL;
  for (int side = OWN; side <= (rounds(model, plan) ? WIDE : OWN); ++side) {
    SHOAL_GOTO_IF_ERROR(status, done, shoal_reference_add_side(r, side));
    r->saved[side] = SHOAL_NEW(&r->states, void *, model->states.count);
    if (!r->saved[side]) SHOAL_GOTO_IF_ERROR(status, done, SHOAL_OOM());
    for (int64_t s = 0; s < model->states.count; ++s) {
      r->saved[side][s] = shoal_arena_alloc(
          &r->states, (size_t)shoal_shape_count(&model->states.items[s].type.shape), 8);
      if (!r->saved[side][s]) SHOAL_GOTO_IF_ERROR(status, done, SHOAL_OOM());
    }
  }
  r->state_epsilon = SHOAL_NEW(&r->states, double, model->states.count);
  r->saved_epsilon = SHOAL_NEW(&r->states, double, model->states.count);
  if (!r->state_epsilon || !r->saved_epsilon) SHOAL_GOTO_IF_ERROR(status, done, SHOAL_OOM());
  *out_reference = r;
done:
  if (status) shoal_reference_free(r);
  return status;
}

void shoal_reference_free(shoal_reference_t *r) {
  if (!r) return;
  for (int side = OWN; side < SIDES; ++side) shoal_interpreter_free(r->interpreters[side]);
  shoal_arena_deinit(&r->states);
  shoal_arena_deinit(&r->arena);
  shoal_allocator_t allocator = r->allocator;
  allocator.free(allocator.self, r);
}

// ---- what is expected ---------------------------------------------------------------------------

static double finite_magnitude(double x) {
  return isfinite(x) ? fabs(x) : 0;
}

// Fills floats, largest and errors from the two runs' tensors; `before` overrides imposed ones,
// `plain` is what was there before it was exchanged, or NULL.
static shoal_status_t measure(shoal_reference_t *r, const shoal_tensor_t *own,
                              const shoal_tensor_t *wide, const double *own_before,
                              const double *wide_before, const double *plain,
                              shoal_expected_t *out) {
  out->own = own->data;
  if (!shoal_dtype_is_float(out->type.dtype)) return NULL;
  int64_t count = shoal_shape_count(&out->type.shape);
  double *floats = SHOAL_NEW(&r->arena, double, count);
  if (!floats) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) {
    double b = own_before ? own_before[i] : shoal_dtype_load(own->dtype, own->data, i);
    double c = !wide         ? b
               : wide_before ? wide_before[i]
                             : shoal_dtype_load(wide->dtype, wide->data, i);
    floats[i] = c;
    out->largest = fmax(out->largest, finite_magnitude(b));
    // Beyond the narrow type's range, where f64 is not: the one-device run is off without bound.
    if (isfinite(c) && !isfinite(b)) out->exchanged_error = INFINITY;
    out->exchanged_error = fmax(out->exchanged_error, finite_magnitude(b - c));
    if (!plain) continue;
    if (isfinite(c) && !isfinite(plain[i])) out->own_error = INFINITY;
    out->own_error = fmax(out->own_error, finite_magnitude(plain[i] - c));
  }
  if (!plain) out->own_error = out->exchanged_error;
  out->floats = floats;
  return NULL;
}

static shoal_value_kind_t kind_of(const shoal_reference_t *r, const shoal_value_info_t *info) {
  if (info->source == SHOAL_FROM_STATE || r->run == 0) return SHOAL_KIND_PARAMETER;
  if (info->source == SHOAL_FROM_INPUT) return SHOAL_KIND_ACTIVATION;
  const shoal_node_t *node = &r->graph->nodes.items[info->node];
  if (shoal_node_is_gradient(node)) return SHOAL_KIND_GRADIENT;
  for (int32_t i = 0; i < node->input_count; ++i) {
    shoal_value_kind_t kind = r->values[node->inputs[i]].kind;
    if (kind == SHOAL_KIND_GRADIENT || kind == SHOAL_KIND_UPDATE) return SHOAL_KIND_UPDATE;
  }
  return SHOAL_KIND_ACTIVATION;
}

static double epsilon_of(const shoal_reference_t *r, const shoal_value_info_t *info) {
  if (info->source == SHOAL_FROM_INPUT) return 0;
  if (info->source == SHOAL_FROM_STATE) return r->state_epsilon[info->index];
  double epsilon = shoal_dtype_epsilon(info->type.dtype);
  const shoal_node_t *node = &r->graph->nodes.items[info->node];
  for (int32_t i = 0; i < node->input_count; ++i)
    epsilon = fmax(epsilon, r->values[node->inputs[i]].exchanged_epsilon);
  return epsilon;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const named_value_t *)a)->name, ((const named_value_t *)b)->name);
}

static shoal_status_t expect_value(shoal_reference_t *r, int32_t v) {
  const shoal_value_info_t *info = &r->graph->values.items[v];
  shoal_expected_t *e = &r->values[v];
  e->name = info->name;
  e->type = info->type;
  e->kind = kind_of(r, info);
  e->epsilon = e->exchanged_epsilon = epsilon_of(r, info);
  if (r->plain[v]) e->exchanged_scale = ldexp(1, r->scale_log2[v]);
  if (r->plain[v]) e->exchanged_epsilon = fmax(e->epsilon, shoal_dtype_epsilon(r->exchanged[v]));
  e->exact = !shoal_dtype_is_float(info->type.dtype) || (r->run == 0 && !r->model->init_rewritten);
  shoal_tensor_t own, wide;
  SHOAL_RETURN_IF_ERROR(shoal_interpreter_value(r->interpreters[OWN], v, &own));
  bool two = r->interpreters[WIDE] && r->run > 0;
  if (two) SHOAL_RETURN_IF_ERROR(shoal_interpreter_value(r->interpreters[WIDE], v, &wide));
  SHOAL_RETURN_IF_ERROR(
      measure(r, &own, two ? &wide : NULL, r->before[OWN][v], r->before[WIDE][v], r->plain[v], e));
  r->scale[e->kind] = fmax(r->scale[e->kind], e->largest);
  r->index[v] = (named_value_t){info->name, v};
  return NULL;
}

static shoal_status_t expect(shoal_reference_t *r) {
  int64_t count = r->graph->values.count, state_count = r->model->states.count;
  r->values = SHOAL_NEW(&r->arena, shoal_expected_t, count);
  r->index = SHOAL_NEW(&r->arena, named_value_t, count);
  r->after = SHOAL_NEW(&r->arena, shoal_expected_t, state_count);
  if (!r->values || !r->index || !r->after) return SHOAL_OOM();
  memset(r->scale, 0, sizeof r->scale);
  for (int32_t v = 0; v < count; ++v) SHOAL_RETURN_IF_ERROR(expect_value(r, v));
  qsort(r->index, (size_t)count, sizeof *r->index, by_name);
  for (int64_t a = 0; a < r->graph->assigns.count; ++a) {
    const shoal_assignment_t *assign = &r->graph->assigns.items[a];
    double *epsilon = &r->state_epsilon[assign->state];
    const double next = r->run == 0 ? 0 : r->values[assign->value].exchanged_epsilon;
    *epsilon = assign->predicate < 0 ? next : fmax(*epsilon, next);  // it may keep what it has
  }
  for (int32_t s = 0; s < state_count; ++s) {
    const shoal_state_info_t *info = &r->model->states.items[s];
    shoal_expected_t *e = &r->after[s];
    *e = (shoal_expected_t){.name = info->name,
                            .type = info->type,
                            .kind = SHOAL_KIND_PARAMETER,
                            .epsilon = r->state_epsilon[s],
                            .exchanged_epsilon = r->state_epsilon[s]};
    e->exact =
        !shoal_dtype_is_float(info->type.dtype) || (r->run == 0 && !r->model->init_rewritten);
    shoal_tensor_t own, wide;
    SHOAL_RETURN_IF_ERROR(shoal_interpreter_state(r->interpreters[OWN], s, &own));
    bool two = r->interpreters[WIDE] && r->run > 0;
    if (two) SHOAL_RETURN_IF_ERROR(shoal_interpreter_state(r->interpreters[WIDE], s, &wide));
    SHOAL_RETURN_IF_ERROR(measure(r, &own, two ? &wide : NULL, NULL, NULL, NULL, e));
    r->scale[SHOAL_KIND_PARAMETER] = fmax(r->scale[SHOAL_KIND_PARAMETER], e->largest);
  }
  return NULL;
}

// ---- run ----------------------------------------------------------------------------------------

// Copies states out of (restore: back into) both interpreters.
static shoal_status_t keep_states(shoal_reference_t *r, bool restore) {
  for (int side = OWN; side <= WIDE && r->interpreters[side]; ++side)
    for (int32_t s = 0; s < r->model->states.count; ++s) {
      shoal_tensor_t tensor;
      SHOAL_RETURN_IF_ERROR(shoal_interpreter_state(r->interpreters[side], s, &tensor));
      memcpy(restore ? tensor.data : r->saved[side][s], restore ? r->saved[side][s] : tensor.data,
             shoal_tensor_bytes(&tensor));
    }
  memcpy(restore ? r->state_epsilon : r->saved_epsilon,
         restore ? r->saved_epsilon : r->state_epsilon,
         (size_t)r->model->states.count * sizeof(double));
  return NULL;
}

void shoal_reference_feed_as(shoal_reference_t *r, const shoal_model_t *model) {
  r->fed = model;
}

// The graph that is run, as the model has it whose inputs say what is fed; and an input's value
// there.
static shoal_status_t find_fed(const shoal_reference_t *r, const char *input,
                               const shoal_graph_t **out_graph, int32_t *out_value) {
  const shoal_graph_t *graph = shoal_model_find_graph(r->fed, r->graph->name);
  for (int64_t i = 0; graph && i < graph->inputs.count; ++i) {
    if (strcmp(graph->inputs.items[i].name, input) != 0) continue;
    *out_graph = graph;
    *out_value = graph->inputs.items[i].value;
    return NULL;
  }
  return SHOAL_ERROR(INTERNAL, "nothing says what input '%s' is fed", input);
}

shoal_status_t shoal_reference_feed(shoal_reference_t *r, int side) {
  for (int64_t i = 0; i < r->graph->inputs.count; ++i) {
    const shoal_named_t *input = &r->graph->inputs.items[i];
    const shoal_type_t *type = &r->graph->values.items[input->value].type;
    const shoal_graph_t *fed = NULL;
    int32_t value = -1;
    size_t bytes = (size_t)shoal_type_bytes(type);
    void *data = shoal_arena_alloc(&r->arena, bytes ? bytes : 1, 1);
    if (!data) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(find_fed(r, input->name, &fed, &value));
    SHOAL_RETURN_IF_ERROR(shoal_feed_fill(r->options, fed, value, r->run, data));
    SHOAL_RETURN_IF_ERROR(shoal_interpreter_feed(r->interpreters[side], input->name, data, bytes));
  }
  return NULL;
}

// After "init" the promoted run starts from the same rounded states.
static shoal_status_t widen_states(shoal_reference_t *r) {
  for (int32_t s = 0; s < r->model->states.count; ++s) {
    shoal_tensor_t own, wide;
    SHOAL_RETURN_IF_ERROR(shoal_interpreter_state(r->interpreters[OWN], s, &own));
    SHOAL_RETURN_IF_ERROR(shoal_interpreter_state(r->interpreters[WIDE], s, &wide));
    int64_t count = shoal_shape_count(&own.shape);
    if (own.dtype == wide.dtype)
      memcpy(wide.data, own.data, shoal_tensor_bytes(&own));
    else
      for (int64_t i = 0; i < count; ++i)
        shoal_dtype_store(wide.dtype, wide.data, i, shoal_dtype_load(own.dtype, own.data, i));
  }
  return NULL;
}

static shoal_status_t run_both(shoal_reference_t *r) {
  SHOAL_RETURN_IF_ERROR(find_exchanged(r));
  for (int side = OWN; side <= WIDE; ++side) {
    r->before[side] = SHOAL_NEW(&r->arena, double *, r->graph->values.count);
    if (!r->before[side]) return SHOAL_OOM();
    if (!r->interpreters[side]) continue;
    r->side = side;
    SHOAL_RETURN_IF_ERROR(shoal_reference_feed(r, side));
    SHOAL_RETURN_IF_ERROR(shoal_interpreter_run(r->interpreters[side], r->graph->name));
  }
  if (r->failed) return SHOAL_OOM();
  if (r->run == 0 && r->interpreters[WIDE]) SHOAL_RETURN_IF_ERROR(widen_states(r));
  return expect(r);
}

shoal_status_t shoal_reference_run(shoal_reference_t *r, const char *graph, int32_t run) {
  shoal_arena_deinit(&r->arena);
  shoal_arena_init(r->allocator, &r->arena);
  r->graph = shoal_model_find_graph(r->model, graph);
  if (!r->graph) return SHOAL_ERROR(NOT_FOUND, "the model has no graph '%s'", graph);
  r->run = run;
  r->impose = NULL;
  SHOAL_RETURN_IF_ERROR(keep_states(r, false));
  return shoal_status_annotatef(run_both(r), "on one device");
}

shoal_status_t shoal_reference_repeat(shoal_reference_t *r, shoal_impose_fn_t impose, void *self,
                                      int64_t *out_imposed) {
  r->allowed = SHOAL_NEW(&r->arena, double, r->graph->values.count);
  if (!r->allowed) return SHOAL_OOM();
  for (int64_t v = 0; v < r->graph->values.count; ++v)
    r->allowed[v] = shoal_reference_allowed(r, &r->values[v], true);
  SHOAL_RETURN_IF_ERROR(keep_states(r, true));
  r->impose = impose;
  r->impose_self = self;
  r->imposed = 0;
  shoal_status_t status = run_both(r);
  r->impose = NULL;
  *out_imposed = r->imposed;
  return shoal_status_annotatef(status, "on one device, with the program's decisions");
}

shoal_status_t shoal_reference_restart(shoal_reference_t *r, const char *state, const void *data) {
  int32_t s = shoal_model_find_state(r->model, state);
  if (s < 0) return SHOAL_ERROR(NOT_FOUND, "the model has no state '%s'", state);
  shoal_dtype_t dtype = r->model->states.items[s].type.dtype;
  for (int side = OWN; side <= WIDE && r->interpreters[side]; ++side) {
    shoal_tensor_t tensor;
    SHOAL_RETURN_IF_ERROR(shoal_interpreter_state(r->interpreters[side], s, &tensor));
    if (tensor.dtype == dtype)
      memcpy(tensor.data, data, shoal_tensor_bytes(&tensor));
    else
      for (int64_t i = 0; i < shoal_shape_count(&tensor.shape); ++i)
        shoal_dtype_store(tensor.dtype, tensor.data, i, shoal_dtype_load(dtype, data, i));
  }
  r->state_epsilon[s] = 0;  // as after "init"
  return NULL;
}

// ---- answers ------------------------------------------------------------------------------------

const shoal_graph_t *shoal_reference_graph(const shoal_reference_t *r) {
  return r->graph;
}

int32_t shoal_reference_find(const shoal_reference_t *r, const char *name) {
  named_value_t key = {name, 0};
  const named_value_t *found =
      bsearch(&key, r->index, (size_t)r->graph->values.count, sizeof key, by_name);
  return found ? found->value : -1;
}

const shoal_expected_t *shoal_reference_value(const shoal_reference_t *r, int32_t value) {
  return &r->values[value];
}

const shoal_expected_t *shoal_reference_state(const shoal_reference_t *r, int32_t state) {
  return &r->after[state];
}

double shoal_reference_allowed(const shoal_reference_t *r, const shoal_expected_t *e,
                               bool exchanged) {
  if (e->exact) return 0;
  const double size = fmax(e->largest, 1e-3 * r->scale[e->kind]);
  const double epsilon = exchanged ? e->exchanged_epsilon : e->epsilon;
  if (epsilon <= F64_EPSILON) return 1e-10 * size;
  const double error = exchanged ? e->exchanged_error : e->own_error;
  return 4 * fmax(fmax(error, e->shaken), 2 * epsilon * size);
}

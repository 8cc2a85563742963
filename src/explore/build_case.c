// From a random case to a model, and to a check of it.
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "explore/random_case.h"
#include "graph/graph.h"
#include "op/case.h"
#include "op/text.h"
#include "shoal/nn.h"

bool shoal_random_case_type(const shoal_random_case_t *c, shoal_case_ref_t ref,
                            shoal_type_t *out_type) {
  if (ref.kind == 'n') {
    *out_type = (shoal_type_t){SHOAL_I64, shoal_shape_scalar()};
    return true;
  }
  int64_t count = ref.kind == 'i'   ? c->inputs.count
                  : ref.kind == 's' ? c->states.count
                                    : c->nodes.count;
  if (ref.index < 0 || ref.index >= count || ref.output < 0) return false;
  if (ref.kind == 'i') *out_type = c->inputs.items[ref.index].type;
  if (ref.kind == 's') *out_type = c->states.items[ref.index];
  if (ref.kind != 'v') return ref.output == 0;
  const shoal_case_node_t *node = &c->nodes.items[ref.index];
  if (ref.output >= node->output_count) return false;
  *out_type = node->outputs[ref.output];
  return true;
}

static shoal_status_t find_op(const shoal_registry_t *registry, const char *name,
                              shoal_arena_t *arena, const shoal_op_t **out_op) {
  const char *full = strchr(name, '.') ? name : shoal_arena_printf(arena, "shoal.%s", name);
  if (!full) return SHOAL_OOM();
  return shoal_op_find(registry, full, out_op);
}

// In the ops' mini-language, which knows how attributes are written.
shoal_status_t shoal_random_case_call(const shoal_random_case_t *c,
                                      const shoal_registry_t *registry,
                                      const shoal_case_node_t *node, shoal_arena_t *arena,
                                      shoal_case_t *out) {
  const shoal_op_t *op = NULL;
  SHOAL_RETURN_IF_ERROR(find_op(registry, node->op, arena, &op));
  shoal_text_t text;
  shoal_text_init(arena->allocator, &text);
  shoal_status_t status = NULL;
  for (int32_t r = 0; r < node->ref_count && !status; ++r) {
    shoal_type_t type;
    if (!shoal_random_case_type(c, node->refs[r], &type))
      status = SHOAL_ERROR(INVALID_ARGUMENT, "%s: input %d does not exist", node->op, r);
    if (status) break;
    if (r > 0) shoal_text_add(&text, ", ");
    shoal_text_add_type(&text, &type);
  }
  if (node->attrs[0]) shoal_text_addf(&text, " ; %s", node->attrs);
  if (!status) status = shoal_text_status(&text);
  if (!status) status = shoal_case_parse(op, shoal_text_string(&text), arena, out);
  shoal_text_deinit(&text);
  return status;
}

shoal_status_t shoal_random_case_infer(const shoal_random_case_t *c,
                                       const shoal_registry_t *registry, shoal_case_node_t *node,
                                       shoal_arena_t *arena) {
  shoal_case_t call_case;
  SHOAL_RETURN_IF_ERROR(shoal_random_case_call(c, registry, node, arena, &call_case));
  const shoal_op_t *op = call_case.op;
  const int32_t outputs = shoal_op_outputs(op, call_case.attrs);
  if (outputs > SHOAL_CASE_OUTPUTS)
    return SHOAL_ERROR(UNSUPPORTED, "%s has too many outputs", op->name);
  shoal_call_t call = {.op = op,
                       .input_count = call_case.input_count,
                       .output_count = outputs,
                       .inputs = call_case.inputs,
                       .attrs = call_case.attrs};
  SHOAL_RETURN_IF_ERROR(shoal_op_infer(&call, node->outputs));
  node->output_count = outputs;
  return NULL;
}

// ---- model --------------------------------------------------------------------------------------

typedef struct case_builder {
  const shoal_random_case_t *c;
  const shoal_registry_t *registry;
  shoal_arena_t *arena;
  shoal_graph_t *graph;
  shoal_value_t *inputs, *states, *nodes;  // nodes: SHOAL_CASE_OUTPUTS each
} case_builder_t;

static shoal_value_t resolve(case_builder_t *b, shoal_case_ref_t ref) {
  char name[16];
  snprintf(name, sizeof name, "%c%d", ref.kind, ref.index);
  if (ref.kind == 'n') return shoal_step(b->graph);
  if (ref.kind == 'v') return b->nodes[ref.index * SHOAL_CASE_OUTPUTS + ref.output];
  shoal_value_t *value = ref.kind == 'i' ? &b->inputs[ref.index] : &b->states[ref.index];
  if (value->graph) return *value;
  if (ref.kind == 'i') {
    const shoal_type_t *type = &b->c->inputs.items[ref.index].type;
    return *value = shoal_input(b->graph, name, type->dtype, type->shape);
  }
  // Deviation 1 / sqrt(fan in) or so keeps products in bounds.
  const shoal_type_t *type = &b->c->states.items[ref.index];
  shoal_state_options_t options = {.init = {SHOAL_INIT_UNIFORM, -0.7, 0.9}, .trainable = true};
  char scoped[20];
  snprintf(scoped, sizeof scoped, "/%s", name);
  return *value = shoal_state(b->graph, scoped, type->dtype, type->shape, &options);
}

static shoal_status_t add_node(case_builder_t *b, int32_t index) {
  const shoal_case_node_t *node = &b->c->nodes.items[index];
  shoal_case_t call;
  SHOAL_RETURN_IF_ERROR(shoal_random_case_call(b->c, b->registry, node, b->arena, &call));
  shoal_attr_t *attrs = SHOAL_NEW(b->arena, shoal_attr_t, call.op->attr_count);
  if (!attrs) return SHOAL_OOM();
  int32_t attr_count = 0;
  for (int32_t a = 0; a < call.op->attr_count; ++a)
    if (call.op->attrs[a].kind != SHOAL_ATTR_PLACE)
      attrs[attr_count++] =
          (shoal_attr_t){call.op->attrs[a].name, call.op->attrs[a].kind, call.attrs[a]};
  shoal_value_t inputs[SHOAL_CASE_REFS];
  for (int32_t r = 0; r < node->ref_count; ++r) inputs[r] = resolve(b, node->refs[r]);
  shoal_scope_push(b->graph, shoal_random_case_scope(b->c, index).text);
  shoal_node_add(b->graph, call.op->name, node->ref_count, inputs, attr_count, attrs,
                 node->output_count, &b->nodes[index * SHOAL_CASE_OUTPUTS]);
  shoal_value_t *first = &b->nodes[index * SHOAL_CASE_OUTPUTS];
  if (node->held) *first = shoal_constrain(b->graph, *first, node->held);
  shoal_scope_pop(b->graph);
  return NULL;
}

// Does a node read the first result of this one?
static bool is_read(const shoal_random_case_t *c, int32_t index) {
  for (int64_t n = index + 1; n < c->nodes.count; ++n)
    for (int32_t r = 0; r < c->nodes.items[n].ref_count; ++r) {
      const shoal_case_ref_t *ref = &c->nodes.items[n].refs[r];
      if (ref->kind == 'v' && ref->index == index && ref->output == 0) return true;
    }
  return false;
}

static shoal_value_t apply(shoal_graph_t *graph, const char *op, int32_t count,
                           const shoal_value_t *inputs, int32_t attr_count,
                           const shoal_attr_t *attrs) {
  shoal_value_t out = {0};
  shoal_node_add(graph, op, count, inputs, attr_count, attrs, 1, &out);
  return out;
}

// mean((v - t)^2): gradients of what is constant in sum (a softmax) do not vanish, and nothing
// cancels, so that in f32 the loss is as accurate as its size says.
static shoal_value_t mean_distance(case_builder_t *b, int32_t index, shoal_value_t value) {
  char name[16];
  snprintf(name, sizeof name, "t%d", index);
  shoal_type_t type = shoal_value_type(value);
  shoal_value_t pair[2] = {value, shoal_input(b->graph, name, type.dtype, type.shape)};
  shoal_value_t square = apply(b->graph, "shoal.sub", 2, pair, 0, NULL);
  square = apply(b->graph, "shoal.square", 1, &square, 0, NULL);
  int64_t dims[SHOAL_MAX_RANK];
  for (int32_t d = 0; d < type.shape.rank; ++d) dims[d] = d;
  shoal_attr_t over = shoal_attr_ints("dims", type.shape.rank, dims);
  return apply(b->graph, "shoal.reduce_mean", 1, &square, 1, &over);
}

// Another state like `value`.
static shoal_value_t state_like(case_builder_t *b, const char *name, shoal_value_t value) {
  const shoal_state_options_t options = {.init = {SHOAL_INIT_UNIFORM, -0.7, 0.9}};
  const shoal_type_t type = shoal_value_type(value);
  return shoal_state(b->graph, name, type.dtype, type.shape, &options);
}

// States that no optimizer updates: one that never changes, one whose old value is read when the
// next one has been made, one that is assigned another's old value and two that are exchanged,
// which only "eval" reads.
static void add_untrained(case_builder_t *b, shoal_value_t value, bool train) {
  shoal_value_t last = state_like(b, "/last", value), before = state_like(b, "/before", value);
  shoal_value_t one = state_like(b, "/one", value), two = state_like(b, "/two", value);
  shoal_value_t seen[2] = {value, state_like(b, "/fixed", value)};
  seen[0] = apply(b->graph, "shoal.mul", 2, seen, 0, NULL);
  if (!train) {
    shoal_output(b->graph, "seen", seen[0]);
    shoal_output(b->graph, "exchanged", apply(b->graph, "shoal.neg", 1, &one, 0, NULL));
    shoal_output(b->graph, "before", before);
    return;
  }
  const shoal_attr_t half[] = {shoal_attr_real("scale", 0.5), shoal_attr_real("shift", 0)};
  seen[1] = apply(b->graph, "shoal.affine", 1, &last, 2, half);
  apply(b->graph, "shoal.mul", 2, seen, 0, NULL);  // nobody reads it
  shoal_value_t both[2] = {apply(b->graph, "shoal.add", 2, seen, 0, NULL), last};
  shoal_output(b->graph, "both", apply(b->graph, "shoal.add", 2, both, 0, NULL));
  shoal_assign(b->graph, last, both[0]);
  shoal_assign(b->graph, before, last);
  shoal_assign(b->graph, one, two);
  shoal_assign(b->graph, two, one);
}

// What batch norm finds of the batch goes into running statistics, which "eval" reads.
static void add_running(case_builder_t *b, int32_t node, bool train) {
  static const shoal_attr_t most[] = {{"scale", SHOAL_ATTR_REAL, {.f = 0.75}},
                                      {"shift", SHOAL_ATTR_REAL, {.f = 0}}};
  static const shoal_attr_t rest[] = {{"scale", SHOAL_ATTR_REAL, {.f = 0.25}},
                                      {"shift", SHOAL_ATTR_REAL, {.f = 0}}};
  for (int32_t o = 1; o < b->c->nodes.items[node].output_count; ++o) {
    char name[40];
    snprintf(name, sizeof name, "/running%d_%d", node, o);
    shoal_value_t batch = b->nodes[node * SHOAL_CASE_OUTPUTS + o];
    shoal_value_t running = state_like(b, name, batch);
    if (!train) {
      shoal_output(b->graph, name + 1, apply(b->graph, "shoal.neg", 1, &running, 0, NULL));
      continue;
    }
    shoal_value_t parts[2] = {apply(b->graph, "shoal.affine", 1, &running, 2, most),
                              apply(b->graph, "shoal.affine", 1, &batch, 2, rest)};
    shoal_assign(b->graph, running, apply(b->graph, "shoal.add", 2, parts, 0, NULL));
  }
}

static shoal_value_t constant(case_builder_t *b, shoal_dtype_t dtype, double value) {
  const shoal_shape_t scalar = shoal_shape_scalar();
  const shoal_attr_t attrs[] = {shoal_attr_shape("shape", &scalar), shoal_attr_real("value", value),
                                shoal_attr_dtype("dtype", dtype)};
  return apply(b->graph, "shoal.full", 0, NULL, 3, attrs);
}

// What a mean is compared with. Many are zero but for rounding, of gradients of a loss for example,
// and then the comparison is a matter of luck.
#define AWAY_FROM_ZERO 0.0371

// States that take their next value in some steps only. The data decides about "held", which can be
// updated in place, and about "turned", which takes what another was; the step's number about
// "kept", whose next value is read whether it is taken or not; and what the data said a step before
// about "late".
static void add_guarded(case_builder_t *b, shoal_value_t value, bool train) {
  shoal_value_t held = state_like(b, "/held", value), kept = state_like(b, "/kept", value);
  shoal_value_t turned = state_like(b, "/turned", value), late = state_like(b, "/late", value);
  const shoal_state_options_t yes = {.init = {SHOAL_INIT_FILL, 1, 0}};
  shoal_value_t said = shoal_state(b->graph, "/said", SHOAL_BOOL, shoal_shape_scalar(), &yes);
  if (!train) {
    shoal_output(b->graph, "held", held);
    shoal_output(b->graph, "turned", apply(b->graph, "shoal.neg", 1, &turned, 0, NULL));
    return;
  }
  const shoal_type_t type = shoal_value_type(value);
  int64_t dims[SHOAL_MAX_RANK];
  for (int32_t d = 0; d < type.shape.rank; ++d) dims[d] = d;
  const shoal_attr_t over = shoal_attr_ints("dims", type.shape.rank, dims);
  const shoal_attr_t half[] = {shoal_attr_real("scale", 0.5), shoal_attr_real("shift", 0)};
  shoal_value_t mean[2] = {apply(b->graph, "shoal.reduce_mean", 1, &value, 1, &over),
                           constant(b, type.dtype, AWAY_FROM_ZERO)};
  shoal_value_t first[2] = {constant(b, SHOAL_I64, 1), shoal_step(b->graph)};
  shoal_value_t by_data = apply(b->graph, "shoal.greater_equal", 2, mean, 0, NULL);
  shoal_value_t by_step = apply(b->graph, "shoal.greater_equal", 2, first, 0, NULL);
  shoal_value_t next[2] = {apply(b->graph, "shoal.affine", 1, &held, 2, half), value};
  shoal_assign_if(b->graph, held, apply(b->graph, "shoal.add", 2, next, 0, NULL), by_data);
  next[0] = apply(b->graph, "shoal.affine", 1, &kept, 2, half);
  next[0] = apply(b->graph, "shoal.add", 2, next, 0, NULL);
  shoal_output(b->graph, "next", apply(b->graph, "shoal.neg", 1, next, 0, NULL));
  shoal_assign_if(b->graph, kept, next[0], by_step);
  shoal_assign_if(b->graph, turned, kept, by_data);
  shoal_assign_if(b->graph, late, apply(b->graph, "shoal.neg", 1, &value, 0, NULL), said);
  shoal_assign(b->graph, said, by_data);
}

// Are gradients exchanged in a type that the case names? Then the update has to be smooth on the
// scale of that type's rounding.
static bool exchanges_cast(const shoal_random_case_t *c) {
  bool found = false;
  for (int64_t i = 0; i < c->decisions.count; ++i)
    found |= strstr(c->decisions.items[i].choice, "dtype=") != NULL &&
             strcmp(c->decisions.items[i].kind, "sync") == 0;
  return found;
}

static void minimize(shoal_graph_t *g, shoal_value_t loss, const shoal_random_case_t *c) {
  const bool clips = c->clipped || c->clipped_before;
  const shoal_training_t training = {.clip_norm = clips ? 0.5 : 0,
                                     .clip_max = clips ? 0.25 : 0,
                                     .clip_before = c->clipped_before,
                                     .average = c->averaged ? 0.75 : 0,
                                     .loss_scale = c->scaled ? 16 : 0,
                                     .scale_interval = 2};
  const double adamw_eps = exchanges_cast(c) ? 1 : 1e-3;
  switch (c->optimizer) {
    case SHOAL_CASE_SGD:
      shoal_minimize_sgd(g, loss, &(shoal_sgd_t){.lr = 0.1, .training = training});
      break;
    case SHOAL_CASE_MOMENTUM:
      shoal_minimize_sgd(
          g, loss,
          &(shoal_sgd_t){.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .training = training});
      break;
    case SHOAL_CASE_ADAMW:
      shoal_minimize(g, loss,
                     &(shoal_adamw_t){
                         .lr = 0.01, .eps = adamw_eps, .weight_decay = 0.01, .training = training});
      break;
    case SHOAL_CASE_ADAM:
      shoal_minimize_adam(g, loss, &(shoal_adam_t){.lr = 0.01, .eps = 1e-3, .training = training});
      break;
    case SHOAL_CASE_LION:
      shoal_minimize_lion(g, loss, &(shoal_lion_t){.lr = 0.01, .training = training});
      break;
    case SHOAL_CASE_LAMB:
      shoal_minimize_lamb(
          g, loss,
          &(shoal_lamb_t){.lr = 0.01, .eps = 1e-3, .weight_decay = 0.1, .training = training});
      break;
    case SHOAL_CASE_ADAFACTOR:
      shoal_minimize_adafactor(
          g, loss, &(shoal_adafactor_t){.lr = 0.01, .eps1 = 1e-2, .training = training});
      break;
    case SHOAL_CASE_MUON:
      shoal_minimize_muon(
          g, loss, &(shoal_muon_t){.lr = 0.01, .adamw = {.eps = 1e-3}, .training = training});
      break;
    default:
      break;
  }
}

static shoal_status_t build_graph(case_builder_t *b, bool train) {
  const shoal_random_case_t *c = b->c;
  b->inputs = SHOAL_NEW(b->arena, shoal_value_t, c->inputs.count);
  b->states = SHOAL_NEW(b->arena, shoal_value_t, c->states.count);
  b->nodes = SHOAL_NEW(b->arena, shoal_value_t, c->nodes.count * SHOAL_CASE_OUTPUTS);
  if (!b->inputs || !b->states || !b->nodes) return SHOAL_OOM();
  for (int32_t n = 0; n < c->nodes.count; ++n) SHOAL_RETURN_IF_ERROR(add_node(b, n));
  shoal_value_t loss = {0}, last = {0};
  bool any = false;
  shoal_scope_push(b->graph, "loss");
  for (int32_t n = 0; n < c->nodes.count; ++n) {
    if (is_read(c, n)) continue;
    shoal_value_t value = b->nodes[n * SHOAL_CASE_OUTPUTS];
    char name[16];
    snprintf(name, sizeof name, "v%d", n);
    if (!shoal_dtype_is_float(shoal_value_type(value).dtype) || !train)
      shoal_output(b->graph, name, value);
    if (!shoal_dtype_is_float(shoal_value_type(value).dtype)) continue;
    shoal_value_t mean = mean_distance(b, n, value);
    last = value;
    shoal_dtype_t dtype = shoal_value_type(any ? loss : mean).dtype;
    if (shoal_value_type(mean).dtype != dtype) {
      shoal_attr_t as = shoal_attr_dtype("dtype", dtype);
      mean = apply(b->graph, "shoal.cast", 1, &mean, 1, &as);
    }
    shoal_value_t both[2] = {loss, mean};
    loss = any ? apply(b->graph, "shoal.add", 2, both, 0, NULL) : mean;
    any = true;
  }
  if (any && c->untrained) add_untrained(b, last, train);
  if (any && c->guarded) add_guarded(b, last, train);
  for (int32_t n = 0; n < c->nodes.count; ++n)
    if (strcmp(c->nodes.items[n].op, "batch_norm") == 0) add_running(b, n, train);
  shoal_scope_pop(b->graph);
  if (!any) return SHOAL_ERROR(INVALID_ARGUMENT, "the case has no float result");
  shoal_output(b->graph, "loss", loss);
  if (!train) return NULL;
  minimize(b->graph, loss, c);
  return NULL;
}

shoal_status_t shoal_random_case_build(const shoal_random_case_t *c, shoal_registry_t *registry,
                                       shoal_allocator_t allocator, shoal_model_t **out_model) {
  *out_model = NULL;
  shoal_model_options_t options = {.allocator = allocator, .registry = registry, .seed = c->seed};
  shoal_model_t *model = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_model_create(&options, &model));
  shoal_arena_t arena;
  shoal_arena_init(allocator, &arena);
  case_builder_t b = {
      .c = c, .registry = registry, .arena = &arena, .graph = shoal_model_graph(model, "train")};
  shoal_status_t status = build_graph(&b, true);
  if (!status && c->eval) {
    b.graph = shoal_model_graph(model, "eval");
    status = build_graph(&b, false);
  }
  if (!status) status = shoal_model_status(model);
  shoal_arena_deinit(&arena);
  if (status)
    shoal_model_free(model);
  else
    *out_model = model;
  return status;
}

// ---- check --------------------------------------------------------------------------------------

static shoal_status_t feeds_of(const shoal_random_case_t *c, shoal_arena_t *arena,
                               shoal_check_options_t *options) {
  shoal_check_feed_t *feeds = SHOAL_NEW(arena, shoal_check_feed_t, c->inputs.count);
  if (!feeds) return SHOAL_OOM();
  for (int64_t i = 0; i < c->inputs.count; ++i) {
    const shoal_case_input_t *input = &c->inputs.items[i];
    feeds[i] = (shoal_check_feed_t){.name = shoal_arena_printf(arena, "i%lld", (long long)i),
                                    .limit = input->limit};
    if (!feeds[i].name) return SHOAL_OOM();
    if (input->positive && input->limit > 1)  // integers
      feeds[i].low = 1, feeds[i].high = (double)input->limit, feeds[i].limit = 0;
    else if (input->positive)
      feeds[i].low = 0.1, feeds[i].high = 1.1;
    if (input->ties) feeds[i].multiple = 0.25;
    if (input->magnitude > 0) {
      feeds[i].low = -(double)input->magnitude;
      feeds[i].high = (double)input->magnitude + 1;
    }
  }
  options->feeds = feeds;
  options->feed_count = c->inputs.count;
  return NULL;
}

// Does the model compute in a float type narrower than f64?
static bool rounds(const shoal_model_t *model) {
  for (int64_t g = 0; g < model->graphs.count; ++g)
    for (int64_t v = 0; v < model->graphs.items[g]->values.count; ++v) {
      const shoal_value_info_t *info = &model->graphs.items[g]->values.items[v];
      if (shoal_dtype_is_float(info->type.dtype) && info->type.dtype != SHOAL_F64 &&
          info->type.shape.rank > 0)
        return true;
    }
  return false;
}

shoal_intent_t shoal_random_case_intent(const shoal_random_case_t *c) {
  return (shoal_intent_t){.strategy = "random",
                          .mesh_count = c->meshes.count,
                          .meshes = c->meshes.items,
                          .layout_count = c->pins.count,
                          .layouts = c->pins.items,
                          .stage_count = c->stages.count,
                          .stages = c->stages.items,
                          .expand_count = c->expand.count,
                          .expand = c->expand.items,
                          .decision_count = c->decisions.count,
                          .decisions = c->decisions.items};
}

bool shoal_random_case_overflows(const shoal_random_case_t *c) {
  for (int64_t n = 0; n < c->nodes.count; ++n) {
    const shoal_case_node_t *node = &c->nodes.items[n];
    if (strcmp(node->op, "bound") != 0 || node->refs[1].kind != 'i') continue;
    const shoal_case_input_t *counts = &c->inputs.items[node->refs[1].index];
    if (counts->limit > node->outputs[0].shape.dims[counts->type.shape.rank] + 1) return true;
  }
  return false;
}

// The run has to end with one error, about a group that has no room. Takes status.
static shoal_status_t expect_overflow(shoal_status_t status, const shoal_check_report_t *report) {
  if (!status) {
    return SHOAL_ERROR(MISMATCH,
                       "a group has more rows than there is room for, and nobody says so");
  }
  if (report->step != SHOAL_CHECK_RUNNING || !strstr(shoal_status_message(status), "has room for"))
    return status;
  shoal_status_free(status);
  return NULL;
}

shoal_status_t shoal_random_case_check(const shoal_random_case_t *c, shoal_registry_t *registry,
                                       const shoal_check_options_t *with,
                                       shoal_check_report_t *out_report) {
  *out_report = (shoal_check_report_t){0};
  shoal_model_t *model = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_random_case_build(c, registry, with->allocator, &model));
  shoal_arena_t arena;
  shoal_arena_init(with->allocator, &arena);
  const shoal_intent_t intent = shoal_random_case_intent(c);
  shoal_check_options_t options = *with;
  options.ranks = (int32_t)c->ranks;
  options.intent = &intent;
  options.processes = c->processes;
  options.opaque = c->opaque;
  options.direct = true;
  options.static_only = c->ranks > SHOAL_CASE_RUN_RANKS;
  options.seed = c->seed;
  options.steps = c->steps;
  // The tolerance of rounded types speaks of runs from the same rounded states: so every step
  // starts from the program's. Else they start apart, and a random graph may blow that up. f64 goes
  // its own way throughout.
  options.restart = rounds(model);
  shoal_status_t status = feeds_of(c, &arena, &options);
  if (!status) status = shoal_check_model(model, &options, out_report);
  if (shoal_random_case_overflows(c) && !options.static_only)
    status = expect_overflow(status, out_report);
  shoal_arena_deinit(&arena);
  shoal_model_free(model);
  return status;
}

// Contract 1 measures a rounded value by the one-device run's own error. Where everything cancels -
// a sum of 14 products in bf16 that is 0.009 - that error is luck, and summands that are rounded
// before they are added miss by more: a sum of 120 numbers in f16 does in 5 of 40 draws, by up to
// 4 times what is allowed. Wrong code is wrong by more, on other data too, and in f64. So such a
// mismatch stands unless it is small, the same case passes in f64, and of eight other draws of the
// data at most four fail, and in no other way.
enum { LUCK = 16, DRAWS = 8, UNLUCKY = 4 };

static bool may_be_luck(const shoal_check_report_t *report) {
  return report->step == SHOAL_CHECK_VALUES && report->excess > 0 && report->excess <= LUCK;
}

// Does the case pass when all its floats are f64, where nothing is excused?
static bool passes_in_f64(const shoal_random_case_t *c, shoal_registry_t *registry,
                          const shoal_check_options_t *with) {
  static const char *const narrow[] = {"bf16", "f16", "f32"};
  shoal_arena_t arena;
  shoal_text_t wide;
  shoal_random_case_t same;
  const char *text = NULL;
  shoal_arena_init(with->allocator, &arena);
  shoal_text_init(with->allocator, &wide);
  shoal_status_t status = shoal_random_case_print(c, &arena, &text);
  for (const char *at = text; !status && *at;) {
    size_t length = 0;
    for (int i = 0; i < 3 && length == 0; ++i) {
      if (strncmp(at, narrow[i], strlen(narrow[i])) == 0) length = strlen(narrow[i]);
    }
    if (length > 0)
      shoal_text_add(&wide, "f64");
    else
      shoal_text_addf(&wide, "%c", *at);
    at += length > 0 ? length : 1;
  }
  if (!status) status = shoal_text_status(&wide);
  if (!status) {
    status = shoal_random_case_parse(shoal_text_string(&wide), registry, &arena, &same);
  }
  shoal_check_report_t report;
  if (!status) status = shoal_random_case_check(&same, registry, with, &report);
  const bool passes = !status;
  shoal_status_free(status);
  shoal_text_deinit(&wide);
  shoal_arena_deinit(&arena);
  return passes;
}

bool shoal_random_case_was_rounding(const shoal_random_case_t *c, shoal_registry_t *registry,
                                    const shoal_check_options_t *with,
                                    const shoal_check_report_t *report) {
  if (!may_be_luck(report) || !passes_in_f64(c, registry, with)) return false;
  shoal_random_case_t other = *c;
  int failed = 0;
  for (int i = 0; i < DRAWS && failed <= UNLUCKY; ++i) {
    ++other.seed;
    shoal_check_report_t again;
    shoal_status_t status = shoal_random_case_check(&other, registry, with, &again);
    if (status) failed += may_be_luck(&again) ? 1 : DRAWS;
    shoal_status_free(status);
  }
  return failed <= UNLUCKY;
}

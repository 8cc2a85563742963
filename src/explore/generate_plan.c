// A random plan for a model: meshes of 1 to 8 ranks or of 33 to 200, layouts of inputs, states and
// values, stages, expansions. Half of the cases aim at a way of some node that coverage has not
// seen: its operands are pinned to the layouts the way wants.
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "explore/generate.h"

typedef shoal_generator_t gen_t;

typedef struct planner {
  gen_t *g;
  const shoal_model_t *model;
  const shoal_graph_t *train;
  shoal_mesh_t
      meshes[4];  // of stages, then perhaps one with the ranks of all: states may rest on it
  int64_t mesh_count, stage_count, micro;
  const bool *unreduced;  // of shoal_graph_unreduced
  bool failed;            // memory is short
} planner_t;

#define TEXT(...) shoal_arena_printf(p->g->arena, __VA_ARGS__)

static const char *join(planner_t *p, const char *text, const char *more) {
  return !text || !more ? NULL : *text ? TEXT("%s,%s", text, more) : more;
}

static void pin(planner_t *p, const char *name, const char *layout) {
  shoal_intent_entry_t entry = {shoal_arena_strdup(p->g->arena, name), layout};
  if (!entry.pattern || !layout || !SHOAL_PUSH(p->g->arena, &p->g->c->pins, entry))
    p->failed = true;
}

// ---- meshes -------------------------------------------------------------------------------------

static const char *const axis_names[] = {"data", "tensor", "seq"};

// "data=2,tensor=3": `size` ranks on one to three axes, some perhaps of size 1.
static const char *axes_text(planner_t *p, int64_t size) {
  gen_t *g = p->g;
  int64_t sizes[3] = {size, 1, 1};
  int axis_count = 1;
  while (axis_count < 3 && sizes[axis_count - 1] >= 4 && (size == 8 || shoal_chance(g, 65))) {
    int64_t last = sizes[axis_count - 1];
    int64_t factor = last % 3 == 0 && shoal_chance(g, 50) ? 3 : last % 2 == 0 ? 2 : 1;
    if (factor == 1) break;
    sizes[axis_count - 1] = factor;
    sizes[axis_count++] = last / factor;
  }
  if (axis_count < 3 && shoal_chance(g, 12)) sizes[axis_count++] = 1;
  int64_t shift = shoal_roll(g, axis_count);
  const char *text = "";
  for (int i = 0; i < axis_count; ++i)
    text =
        join(p, text, TEXT("%s=%lld", axis_names[i], (long long)sizes[(i + shift) % axis_count]));
  return text;
}

// Two or three axes with 33 to 200 ranks in all: of two or three ranks, or of a dozen and more.
static const char *many_axes_text(planner_t *p, int64_t least, int64_t most, int64_t *out_size) {
  gen_t *g = p->g;
  int64_t sizes[3], count = 0, size = 0;
  while (size < least || size > most) {
    count = 2 + shoal_roll(g, 2), size = 1;
    for (int64_t i = 0; i < count; ++i) {
      sizes[i] = 2 + shoal_roll(g, shoal_chance(g, 50) ? 3 : 24);
      size *= sizes[i];
    }
  }
  const char *text = "";
  for (int64_t i = 0; i < count; ++i)
    text = join(p, text, TEXT("%s=%lld", axis_names[i], (long long)sizes[i]));
  *out_size = size;
  return text;
}

// "@3,1,0"
static const char *ranks_text(planner_t *p, int64_t from, int64_t size, bool shuffle) {
  int64_t ranks[SHOAL_CASE_MAX_RANKS];
  for (int64_t i = 0; i < size; ++i) {
    int64_t at = shuffle ? shoal_roll(p->g, i + 1) : i;
    if (at != i) ranks[i] = ranks[at];
    ranks[at] = from + i;
  }
  const char *text = "";
  for (int64_t i = 0; i < size; ++i) text = join(p, text, TEXT("%lld", (long long)ranks[i]));
  return text ? TEXT("@%s", text) : NULL;
}

static shoal_status_t add_mesh_of(planner_t *p, const char *name, int64_t from, int64_t size,
                                  const char *axes, bool list) {
  gen_t *g = p->g;
  if (p->micro > 1) axes = join(p, axes, TEXT("micro=%lld", (long long)p->micro));
  const char *ranks = list ? ranks_text(p, from, size, shoal_chance(g, 50)) : "";
  const char *text = axes && ranks ? TEXT("%s%s%s", name, axes, ranks) : NULL;
  if (!text || !SHOAL_PUSH(g->arena, &g->c->meshes, text)) return SHOAL_OOM();
  return shoal_mesh_parse(text, g->arena, &p->meshes[p->mesh_count++]);
}

static shoal_status_t add_mesh(planner_t *p, const char *name, int64_t from, int64_t size,
                               bool list) {
  return add_mesh_of(p, name, from, size, axes_text(p, size), list);
}

// One mesh of many ranks, or two stages; half of the cases have few enough to run.
static shoal_status_t make_large_meshes(planner_t *p) {
  gen_t *g = p->g;
  const int64_t most = shoal_chance(g, 50) ? SHOAL_CASE_RUN_RANKS : SHOAL_CASE_MAX_RANKS;
  const bool two = shoal_chance(g, 30);
  int64_t size = 0, second = 0;
  p->micro = shoal_chance(g, 70) ? 1 : 2 + shoal_roll(g, 2);
  const char *axes = many_axes_text(p, two ? 17 : 33, two ? most / 2 : most, &size);
  if (!two) {
    g->c->ranks = size;
    return add_mesh_of(p, "", 0, size, axes, shoal_chance(g, 20));
  }
  SHOAL_RETURN_IF_ERROR(add_mesh_of(p, "p!", 0, size, axes, true));
  axes = many_axes_text(p, 17, most / 2, &second);
  p->stage_count = 2;
  g->c->ranks = size + second;
  return add_mesh_of(p, "q!", size, second, axes, true);
}

static shoal_status_t make_meshes(planner_t *p) {
  gen_t *g = p->g;
  if (g->large) return make_large_meshes(p);
  static const int64_t likely[] = {1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 6, 6, 7, 8};
  g->c->ranks = likely[shoal_roll(g, 16)];
  for (int64_t n = 1; n <= 6; ++n) {
    char name[32];
    snprintf(name, sizeof name, "ranks %lld", (long long)n);
    if (shoal_coverage_count(g->coverage, "feature", name) == 0 && shoal_chance(g, 30))
      g->c->ranks = n;
  }
  p->micro = shoal_chance(g, 65) ? 1 : 2 + shoal_roll(g, shoal_chance(g, 20) ? 5 : 2);
  bool two =
      g->c->ranks > 1 &&
      shoal_chance(g, shoal_coverage_count(g->coverage, "feature", "two meshes") < 20 ? 30 : 15);
  if (two) {
    p->stage_count = 2 + (g->c->ranks > 2 && shoal_chance(g, 25));
    for (int64_t s = 0, from = 0; s < p->stage_count; ++s) {
      static const char *const names[] = {"p!", "q!", "r!"};
      const int64_t left = g->c->ranks - from, later = p->stage_count - 1 - s;
      const int64_t size = later ? 1 + shoal_roll(g, left - later) : left;
      SHOAL_RETURN_IF_ERROR(add_mesh(p, names[s], from, size, true));
      from += size;
    }
    return shoal_chance(g, 30) ? add_mesh(p, "u!", 0, g->c->ranks, true) : NULL;
  }
  bool idle = g->c->ranks > 1 && shoal_chance(g, 8);
  if (idle) return add_mesh(p, "", shoal_roll(g, 2), g->c->ranks - 1, true);
  return add_mesh(p, "", 0, g->c->ranks, shoal_chance(g, 20));
}

// ---- layouts ------------------------------------------------------------------------------------

// "(3,1)": parts of an axis, uneven on purpose, perhaps with nothing for one.
static const char *weights_text(planner_t *p, int64_t size) {
  const char *text = "";
  for (int64_t i = 0; i < size; ++i)
    text = join(p, text,
                TEXT("%lld", (long long)(i == 0 ? 1 + shoal_roll(p->g, 4) : shoal_roll(p->g, 5))));
  return text ? TEXT("(%s)", text) : NULL;
}

static const char *cut_text(planner_t *p, const shoal_axis_t *axis, const shoal_shape_t *shape,
                            bool halo) {
  gen_t *g = p->g;
  int32_t dim = (int32_t)shoal_roll(g, shape->rank);
  int64_t size = shape->dims[dim], fate = shoal_roll(g, 100);
  const char *text = TEXT("%s:%d", axis->name, dim);
  if (!text) return NULL;
  if (fate < 12 && size > 1) {  // chunks, equal or of given lengths
    int64_t first = 1 + shoal_roll(g, size - 1);
    if (size % 2 == 0 && shoal_chance(g, 50)) return TEXT("%s*2", text);
    if (size % 3 == 0 && shoal_chance(g, 50)) return TEXT("%s*3", text);
    return TEXT("%s*(%lld/1,%lld/%lld)", text, (long long)first, (long long)(size - first),
                (long long)(1 + shoal_roll(g, 2)));
  }
  if (halo && fate < 35) {
    return TEXT("%s+%lld+%lld", text, (long long)shoal_roll(g, 3), (long long)shoal_roll(g, 3));
  }
  if (fate < 50 && size > 2) text = TEXT("%s/%lld", text, (long long)(2 + shoal_roll(g, size - 2)));
  if (text && shoal_chance(g, 15)) {
    const char *weights = weights_text(p, axis->size);
    text = weights ? TEXT("%s%s", text, weights) : NULL;
  }
  return text;
}

// A layout on the mesh: each axis cuts a dim, the rest flat, or nothing.
static const char *layout_text(planner_t *p, int64_t mesh, const shoal_shape_t *shape, bool state,
                               bool flat, bool halo) {
  gen_t *g = p->g;
  const shoal_mesh_t *m = &p->meshes[mesh];
  const char *text = "", *last = NULL;
  for (int32_t i = 0; i < m->axis_count && text; ++i) {
    const shoal_axis_t *axis = &m->axes[i];
    if (axis->size < 2 || shape->rank == 0 || shoal_chance(g, 30)) continue;
    if (state && !last && shoal_chance(g, flat ? 70 : 8))
      last = TEXT("%s:flat", axis->name);
    else
      text = join(p, text, cut_text(p, axis, shape, halo));
  }
  if (last) text = join(p, text, last);
  if (!text) return NULL;
  return p->mesh_count > 1 ? TEXT("%s!%s", m->name, text) : text;
}

// ---- pins ---------------------------------------------------------------------------------------

static int64_t some_mesh(planner_t *p) {
  return shoal_roll(p->g, p->stage_count);
}

static void pin_states(planner_t *p) {
  gen_t *g = p->g;
  for (int64_t s = 0; s < p->model->states.count; ++s) {
    const shoal_state_info_t *state = &p->model->states.items[s];
    bool moment = strchr(state->name, '#') != NULL;
    if (state->type.shape.rank == 0 || !shoal_chance(g, moment ? 25 : 60)) continue;
    int64_t mesh = shoal_roll(g, p->mesh_count);
    pin(p, state->name, layout_text(p, mesh, &state->type.shape, true, moment, false));
  }
}

// One dim of one input is dealt over micro-batches, and whatever else has that size in front, too.
static void pin_inputs(planner_t *p) {
  gen_t *g = p->g;
  int64_t batch = -1;
  const bool anywhere = shoal_chance(g, 15);  // else the batch is the first dim
  for (int64_t i = 0; i < p->train->inputs.count; ++i) {
    const shoal_value_info_t *info = &p->train->values.items[p->train->inputs.items[i].value];
    const shoal_shape_t *shape = &info->type.shape;
    if (shape->rank == 0) continue;
    const char *text = shoal_chance(g, 60)
                           ? layout_text(p, some_mesh(p), shape, false, false, shape->rank > 1)
                           : NULL;
    int32_t dim = 0;
    if (anywhere && batch < 0) dim = (int32_t)shoal_roll(g, shape->rank);
    while (anywhere && batch >= 0 && dim + 1 < shape->rank && shape->dims[dim] != batch) ++dim;
    bool cut = p->micro > 1 && (batch < 0 ? shoal_chance(g, 60) : shape->dims[dim] == batch);
    if (cut) {
      const char *micro = TEXT("micro:%d", dim);
      const char *bang = text ? strchr(text, '!') : NULL;
      batch = shape->dims[dim];
      if (!text) text = "";
      const char *rest = bang ? bang + 1 : text, *cuts = *rest ? join(p, micro, rest) : micro;
      text = bang && cuts ? TEXT("%.*s!%s", (int)(bang - text), text, cuts) : cuts;
    }
    if (text) pin(p, info->name, text);
  }
}

static void pin_values(planner_t *p) {
  gen_t *g = p->g;
  for (int64_t v = 0; v < p->train->values.count; ++v) {
    const shoal_value_info_t *info = &p->train->values.items[v];
    if (info->source != SHOAL_FROM_NODE || info->type.shape.rank == 0 ||
        p->train->nodes.items[info->node].op->constrains || !shoal_chance(g, 8))
      continue;
    pin(p, info->name, layout_text(p, some_mesh(p), &info->type.shape, false, false, false));
  }
}

// ---- aiming at a way ----------------------------------------------------------------------------

typedef struct target {
  int64_t mesh;
  int32_t axis;
  int32_t node;
  const shoal_way_t *way;
} target_t;

static shoal_status_t rule_of(planner_t *p, const shoal_node_t *node,
                              const shoal_rule_t **out_rule) {
  shoal_call_t call;
  SHOAL_RETURN_IF_ERROR(shoal_node_call(p->train, node, p->g->arena, &call));
  return shoal_rules_get(p->g->rules, &call, out_rule);
}

static shoal_status_t pin_operands(planner_t *p, const target_t *t, const shoal_node_t *node,
                                   const shoal_way_t *way, const shoal_item_cut_t *dealt,
                                   bool outputs, int depth);

static int inputs_cost(const planner_t *p, const shoal_node_t *node, const shoal_way_t *way) {
  return shoal_way_unreduced_inputs(node, way, p->unreduced);
}

// Does the way make its output `operand` unreduced like that?
static bool makes(const shoal_way_t *way, int32_t operand, const shoal_shape_t *shape,
                  const shoal_cut_t *cut, shoal_item_cut_t *out_dealt) {
  if (cut->kind != SHOAL_CUT_PARTIAL) return shoal_way_match(way, operand, shape, cut, out_dealt);
  *out_dealt = (shoal_item_cut_t){0};
  return way->operands[operand].kind == SHOAL_OPERAND_PARTIAL &&
         way->operands[operand].reduce == cut->reduce;
}

// Pins a value to a cut, and the operands of the node that makes it to what leads there.
static shoal_status_t pin_value(planner_t *p, const target_t *t, int32_t value,
                                const shoal_cut_t *cut, int depth) {
  const shoal_value_info_t *info = &p->train->values.items[value];
  shoal_layout_t layout = {.mesh = &p->meshes[t->mesh]};
  const char *text = NULL;
  if (cut) layout.cuts[layout.cut_count++] = *cut;
  if (cut && cut->kind == SHOAL_CUT_PARTIAL && info->source != SHOAL_FROM_NODE) return NULL;
  if (info->source == SHOAL_FROM_NODE && p->train->nodes.items[info->node].op->constrains)
    return NULL;  // the model says it
  SHOAL_RETURN_IF_ERROR(shoal_layout_print(&layout, p->g->arena, &text));
  pin(p, info->name, text);
  if (!cut || info->source != SHOAL_FROM_NODE || depth > 4) return NULL;
  const shoal_node_t *node = &p->train->nodes.items[info->node];
  const shoal_rule_t *rule = NULL;
  SHOAL_RETURN_IF_ERROR(rule_of(p, node, &rule));
  const shoal_way_t *best = NULL;
  shoal_item_cut_t dealt = {0}, best_dealt = {0};
  for (int32_t w = 0; w < rule->way_count; ++w)
    if (makes(&rule->ways[w], node->input_count + info->output, &info->type.shape, cut, &dealt) &&
        inputs_cost(p, node, &rule->ways[w]) >= 0 &&
        (!best || inputs_cost(p, node, &rule->ways[w]) < inputs_cost(p, node, best)))
      best = &rule->ways[w], best_dealt = dealt;
  return best ? pin_operands(p, t, node, best, &best_dealt, false, depth + 1) : NULL;
}

static shoal_status_t pin_operands(planner_t *p, const target_t *t, const shoal_node_t *node,
                                   const shoal_way_t *way, const shoal_item_cut_t *dealt,
                                   bool outputs, int depth) {
  int32_t count = node->input_count + (outputs ? node->output_count : 0);
  for (int32_t k = 0; k < count; ++k) {
    int32_t value = k < node->input_count ? node->inputs[k] : node->outputs[k - node->input_count];
    bool cuts = false;
    shoal_cut_t cut;
    SHOAL_RETURN_IF_ERROR(shoal_way_cut(way, k, &p->train->values.items[value].type.shape, t->axis,
                                        dealt, &cuts, &cut));
    SHOAL_RETURN_IF_ERROR(
        pin_value(p, t, value, cuts ? &cut : NULL, k < node->input_count ? depth : 99));
  }
  return NULL;
}

// Chooses a way of some node that has not occurred yet, if there is one, and pins what leads to it.
static shoal_status_t aim(planner_t *p) {
  gen_t *g = p->g;
  target_t t = {.mesh = some_mesh(p), .node = -1};
  t.axis = (int32_t)shoal_roll(g, p->meshes[t.mesh].axis_count);
  for (int32_t a = 0; p->meshes[t.mesh].axes[t.axis].size < 2 && a < p->meshes[t.mesh].axis_count;
       ++a)
    t.axis = a;
  int64_t count = p->train->nodes.count, start = shoal_roll(g, count);
  if (p->meshes[t.mesh].axes[t.axis].size < 2) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_graph_unreduced(p->train, g->rules, g->arena, &p->unreduced));
  for (int64_t i = 0; i < count; ++i) {
    int32_t at = (int32_t)((start + i) % count);
    const shoal_node_t *node = &p->train->nodes.items[at];
    const shoal_rule_t *rule = NULL;
    SHOAL_RETURN_IF_ERROR(rule_of(p, node, &rule));
    for (int32_t w = 0; w < rule->way_count; ++w) {
      const char *name = NULL;
      if (inputs_cost(p, node, &rule->ways[w]) < 0) continue;
      SHOAL_RETURN_IF_ERROR(shoal_coverage_way(node, &rule->ways[w], g->arena, &name));
      bool unseen = shoal_coverage_count(g->coverage, "way", name) <= 0;
      if (unseen ? t.node < 0 || shoal_chance(g, 30) : t.node < 0 && i + 1 == count)
        t.node = at, t.way = &rule->ways[w];
    }
  }
  if (t.node < 0) return NULL;
  shoal_item_cut_t dealt = {0};
  return pin_operands(p, &t, &p->train->nodes.items[t.node], t.way, &dealt, true, 0);
}

// ---- stages, expansions -------------------------------------------------------------------------

static void add_stages(planner_t *p) {
  gen_t *g = p->g;
  int64_t from = shoal_roll(g, g->c->nodes.count + 1);
  int64_t last = from + shoal_roll(g, g->c->nodes.count + 1 - from);
  if (p->stage_count < 3) last = g->c->nodes.count;
  for (int64_t n = 0; n < g->c->nodes.count; ++n) {
    shoal_intent_entry_t entry = {TEXT("%s/*", shoal_random_case_scope(g->c, n).text),
                                  n < from   ? "p"
                                  : n < last ? "q"
                                             : "r"};
    if (!entry.pattern || !SHOAL_PUSH(g->arena, &g->c->stages, entry)) p->failed = true;
  }
  const char *end = p->stage_count < 3 ? "q" : "r";
  shoal_intent_entry_t loss = {"loss/*", shoal_chance(g, 80) ? end : "p"};
  if (!SHOAL_PUSH(g->arena, &g->c->stages, loss)) p->failed = true;
}

static void add_expansions(planner_t *p) {
  gen_t *g = p->g;
  bool scarce = shoal_coverage_count(g->coverage, "feature", "expanded") < 10;
  const bool rows = shoal_coverage_count(g->coverage, "feature", "rows instead of sums") < 10;
  for (int64_t n = 0; n < p->train->nodes.count; ++n) {
    const shoal_node_t *node = &p->train->nodes.items[n];
    const bool sought = scarce || (rows && node->op->sparse);
    if (!node->op->decompose || !shoal_chance(g, sought ? 40 : 15)) continue;
    const char *name = shoal_arena_strdup(g->arena, node->name);
    if (!name || !SHOAL_PUSH(g->arena, &g->c->expand, name)) p->failed = true;
  }
}

// Gradients are exchanged, and states gathered, in buckets: small ones, or one for all. The dice
// are its own: cases without buckets are what they were.
static shoal_status_t add_buckets(planner_t *p) {
  static const char *const choices[] = {"bucket=all", "bucket=256", "bucket=2K"};
  gen_t aside = *p->g;
  aside.state = ~aside.state * 3;
  const bool scarce = shoal_coverage_count(aside.coverage, "feature", "bucket reduced") < 10;
  if (p->model->states.count == 0 || !shoal_chance(&aside, scarce ? 80 : 30)) return NULL;
  return shoal_generate_decide(p->g, "sync", "*", choices[shoal_roll(&aside, 3)]);
}

// Gradients are exchanged in another type, perhaps scaled, in each micro-batch or in buckets, with
// dice of its own. Scales are small: what overflows proves nothing.
static shoal_status_t add_exchange_types(planner_t *p) {
  static const char *const types[] = {"bf16", "f16", "f32", "f64"};
  static const char *const words[] = {
      "", "", "each ", "bucket=all ", "bucket=256 ", "each bucket=all "};
  static const char *const scales[] = {"", " scale=16", " scale=0.25"};
  gen_t aside = *p->g;
  aside.state = ~aside.state * 5;
  const bool wider = shoal_coverage_count(aside.coverage, "feature", "exchanged wider") < 10;
  const bool scarce =
      wider || shoal_coverage_count(aside.coverage, "feature", "exchanged narrower") < 10;
  if (p->model->states.count == 0 || !shoal_chance(&aside, scarce ? 40 : 15)) return NULL;
  const char *word = words[shoal_roll(&aside, 6)];
  int64_t type = shoal_roll(&aside, 4);
  const shoal_dtype_t own = p->model->states.items[0].type.dtype;
  if (strcmp(types[type], shoal_dtype_name(own)) == 0) type = (type + 1) % 4;
  if (wider && own != SHOAL_F64 && shoal_chance(&aside, 60)) type = 3;
  const bool plain = shoal_coverage_count(aside.coverage, "feature", "exchanged scaled") < 10;
  const char *scale = scales[plain ? 1 + shoal_roll(&aside, 2) : shoal_roll(&aside, 3)];
  const char *choice = shoal_arena_printf(p->g->arena, "%sdtype=%s%s", word, types[type], scale);
  return choice ? shoal_generate_decide(p->g, "sync", "*", choice) : SHOAL_OOM();
}

shoal_status_t shoal_generate_plan(gen_t *g, const shoal_model_t *model) {
  planner_t p = {
      .g = g, .model = model, .stage_count = 1, .train = shoal_model_find_graph(model, "train")};
  SHOAL_RETURN_IF_ERROR(make_meshes(&p));
  pin_states(&p);
  pin_inputs(&p);
  if (shoal_chance(g, 50)) pin_values(&p);
  if (shoal_chance(g, 70)) SHOAL_RETURN_IF_ERROR(aim(&p));
  if (p.mesh_count > 1) add_stages(&p);
  add_expansions(&p);
  SHOAL_RETURN_IF_ERROR(add_buckets(&p));
  SHOAL_RETURN_IF_ERROR(add_exchange_types(&p));
  if (p.failed) return SHOAL_OOM();
  const bool schedules = p.micro > 1 && !g->large && shoal_chance(g, 60);
  return schedules ? shoal_generate_schedule(g, model, p.stage_count == 2) : NULL;
}

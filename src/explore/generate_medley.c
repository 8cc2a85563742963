// Random medleys: uses of ops that have occurred seldom, side by side in one case, on a small mesh;
// many of their nodes, and of their gradients, are cut in ways that have occurred seldom. One case
// exercises a dozen ways, so that all of them occur often, and each part stays so small that it
// takes no time.
#include "base/status.h"
#include "explore/generators.h"

typedef shoal_generator_t gen_t;

enum { OPS = 7, SELDOM = 4, MOST_DECISIONS = 48, DEEPEST = 4 };

shoal_status_t shoal_generate_medley(gen_t *g) {
  shoal_generate_training(g);
  g->c->steps = shoal_chance(g, 70) ? 2 : SHOAL_CASE_STEPS;
  for (int i = 0; i < 4; ++i) g->sizes[i] = 2 + shoal_roll(g, 4);
  int made = 0;
  for (int tries = 0; tries < 3 * OPS && made < OPS; ++tries)
    made += shoal_generate_from_record(g, shoal_generate_scarce(g));
  return made > 0 ? NULL : SHOAL_ERROR(INTERNAL, "no op of a random case could be used");
}

// ---- ways ---------------------------------------------------------------------------------------

typedef struct decider {
  gen_t *g;
  const shoal_graph_t *graph;
  const char *axis;
  const bool *unreduced;  // of shoal_graph_unreduced
  bool *decided;          // by node
} decider_t;

static shoal_status_t rule_of(decider_t *d, int32_t node, const shoal_rule_t **out_rule) {
  shoal_call_t call;
  SHOAL_RETURN_IF_ERROR(
      shoal_node_call(d->graph, &d->graph->nodes.items[node], d->g->arena, &call));
  return shoal_rules_get(d->g->rules, &call, out_rule);
}

static shoal_status_t decide(decider_t *d, int32_t at, const shoal_way_t *way, int depth,
                             bool *out_ok);

// Decides on a way of the node that makes `value` unreduced.
static shoal_status_t decide_maker(decider_t *d, int32_t value, shoal_reduce_t reduce, int depth,
                                   bool *out_ok) {
  const shoal_value_info_t *info = &d->graph->values.items[value];
  *out_ok = false;
  if (info->source != SHOAL_FROM_NODE || depth > DEEPEST || d->decided[info->node]) return NULL;
  const shoal_node_t *node = &d->graph->nodes.items[info->node];
  const shoal_way_t *best = NULL;
  const shoal_rule_t *rule;
  int least = 0;
  SHOAL_RETURN_IF_ERROR(rule_of(d, info->node, &rule));
  for (int32_t w = 0; w < rule->way_count; ++w) {
    const shoal_way_t *way = &rule->ways[w];
    const shoal_way_operand_t *out = &way->operands[node->input_count + info->output];
    const int cost = shoal_way_unreduced_inputs(node, way, d->unreduced);
    if (out->kind != SHOAL_OPERAND_PARTIAL || out->reduce != reduce || cost < 0) continue;
    if (!best || cost < least) best = way, least = cost;
  }
  return best ? decide(d, info->node, best, depth + 1, out_ok) : NULL;
}

// Decides on a way of a node, and on ways of those that make what it wants unreduced.
static shoal_status_t decide(decider_t *d, int32_t at, const shoal_way_t *way, int depth,
                             bool *out_ok) {
  const shoal_node_t *node = &d->graph->nodes.items[at];
  const int64_t before = d->g->c->decisions.count;
  const char *text = NULL;
  d->decided[at] = *out_ok = true;
  SHOAL_RETURN_IF_ERROR(shoal_way_print(node->op, node->attrs, way, d->g->arena, &text));
  SHOAL_RETURN_IF_ERROR(shoal_generate_decide(
      d->g, "way", node->name, shoal_arena_printf(d->g->arena, "%s=%s", d->axis, text)));
  for (int32_t k = 0; k < node->input_count && *out_ok; ++k) {
    if (way->operands[k].kind != SHOAL_OPERAND_PARTIAL) continue;
    SHOAL_RETURN_IF_ERROR(decide_maker(d, node->inputs[k], way->operands[k].reduce, depth, out_ok));
  }
  if (!*out_ok) d->g->c->decisions.count = before;
  return NULL;
}

// The way of a node that has occurred least, if it can be had and has occurred less than `least`
// times.
static shoal_status_t decide_seldom(decider_t *d, int32_t at, int64_t least) {
  const shoal_node_t *node = &d->graph->nodes.items[at];
  const shoal_way_t *best = NULL;
  const shoal_rule_t *rule;
  bool ok;
  if (d->decided[at]) return NULL;
  SHOAL_RETURN_IF_ERROR(rule_of(d, at, &rule));
  const int64_t first = shoal_roll(d->g, rule->way_count);
  for (int32_t w = 0; w < rule->way_count; ++w) {
    const shoal_way_t *way = &rule->ways[(first + w) % rule->way_count];
    const char *name = NULL;
    if (shoal_way_unreduced_inputs(node, way, d->unreduced) < 0) continue;
    SHOAL_RETURN_IF_ERROR(shoal_coverage_way(node, way, d->g->arena, &name));
    const int64_t count = shoal_coverage_count(d->g->coverage, "way", name);
    if (count < least) best = way, least = count;
  }
  return best ? decide(d, at, best, 0, &ok) : NULL;
}

// Takes decisions back until a plan can be completed: half of them, and half of the rest.
static shoal_status_t keep_what_holds(gen_t *g, const shoal_model_t *model) {
  for (;;) {
    const shoal_intent_t intent = shoal_random_case_intent(g->c);
    shoal_plan_t *plan = NULL;
    shoal_status_t status = shoal_plan_create(model, g->rules, &intent, (int32_t)g->c->ranks,
                                              g->arena->allocator, &plan);
    shoal_plan_free(plan);
    if (!status || shoal_status_code(status) == SHOAL_OUT_OF_MEMORY) return status;
    if (g->c->decisions.count == 0) {
      if (g->c->pins.count == 0) return status;
      g->c->pins.count = 0;
    }
    g->c->decisions.count /= 2;
    shoal_status_free(status);
  }
}

// Micro-batches of an input: whatever reads it runs once for each.
static shoal_status_t pin_input(gen_t *g) {
  const int64_t count = g->c->inputs.count, first = shoal_roll(g, count);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = (first + i) % count;
    const shoal_shape_t *shape = &g->c->inputs.items[at].type.shape;
    if (shape->rank == 0 || shape->dims[0] < 2) continue;
    const shoal_intent_entry_t pin = {TEXT("i%lld", (long long)at), "micro:0"};
    return pin.pattern && SHOAL_PUSH(g->arena, &g->c->pins, pin) ? NULL : SHOAL_OOM();
  }
  return NULL;
}

shoal_status_t shoal_generate_medley_ways(gen_t *g, const shoal_model_t *model) {
  const shoal_graph_t *graph = shoal_model_find_graph(model, "train");
  const bool two = shoal_chance(g, 25), micro = shoal_chance(g, 30);
  const int64_t size = 2 + shoal_roll(g, 3);
  const char *mesh = two ? "data=2,tensor=2" : TEXT("data=%lld", (long long)size);
  if (micro && mesh) mesh = TEXT("%s,micro=2", mesh);
  decider_t d = {.g = g, .graph = graph};
  d.decided = SHOAL_NEW(g->arena, bool, graph->nodes.count);
  if (!d.decided || !mesh || !SHOAL_PUSH(g->arena, &g->c->meshes, mesh)) return SHOAL_OOM();
  g->c->ranks = two ? 4 : size;
  if (micro) SHOAL_RETURN_IF_ERROR(pin_input(g));
  SHOAL_RETURN_IF_ERROR(shoal_graph_unreduced(graph, g->rules, g->arena, &d.unreduced));
  const int64_t first = shoal_roll(g, graph->nodes.count);
  // What has never occurred comes first: it may need others to be cut as it wants.
  for (int64_t i = 0, count = graph->nodes.count; i < 2 * count; ++i) {
    if (g->c->decisions.count >= MOST_DECISIONS) break;
    d.axis = two && shoal_chance(g, 50) ? "tensor" : "data";
    SHOAL_RETURN_IF_ERROR(
        decide_seldom(&d, (int32_t)((first + i) % count), i < count ? 1 : SELDOM));
  }
  return keep_what_holds(g, model);
}

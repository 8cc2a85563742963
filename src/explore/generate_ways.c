// Decisions of a random case about ways and layouts: some nodes are cut as the dice say instead of
// as completion would choose, some are composite, some leave a pair that log-sum-exp merges, and
// the last pin is a decision. What cannot hold is not drawn: the plan is completed once to see.
// Nodes that can be are computed in tiles.
#include <string.h>

#include "base/status.h"
#include "explore/generate.h"

// Takes the last decision back if no plan can be completed with it.
static shoal_status_t keep_if_it_holds(shoal_generator_t *g, const shoal_model_t *model) {
  const shoal_intent_t intent = shoal_random_case_intent(g->c);
  shoal_plan_t *plan = NULL;
  shoal_status_t status =
      shoal_plan_create(model, g->rules, &intent, (int32_t)g->c->ranks, g->arena->allocator, &plan);
  shoal_plan_free(plan);
  if (!status || shoal_status_code(status) == SHOAL_OUT_OF_MEMORY) return status;
  shoal_status_free(status);
  --g->c->decisions.count;
  return NULL;
}

shoal_status_t shoal_generate_way(shoal_generator_t *g, const shoal_model_t *model,
                                  const char *node, const char *way) {
  SHOAL_RETURN_IF_ERROR(shoal_generate_decide(g, "way", node, way));
  return keep_if_it_holds(g, model);
}

static bool wants_unreduced(const shoal_way_t *way) {
  for (int32_t k = 0; k < way->input_count; ++k)
    if (way->operands[k].kind == SHOAL_OPERAND_PARTIAL) return true;
  return false;
}

// A node and one of its ways that no plan has had so far, from a random node on; NULL: there is
// none.
static shoal_status_t find_unseen(shoal_generator_t *g, const shoal_graph_t *graph,
                                  const shoal_node_t **out_node, const shoal_way_t **out_way) {
  const int64_t start = shoal_roll(g, graph->nodes.count);
  *out_way = NULL;
  for (int64_t i = 0; i < graph->nodes.count && !*out_way; ++i) {
    const shoal_node_t *node = &graph->nodes.items[(start + i) % graph->nodes.count];
    const shoal_rule_t *rule = NULL;
    shoal_call_t call;
    SHOAL_RETURN_IF_ERROR(shoal_node_call(graph, node, g->arena, &call));
    SHOAL_RETURN_IF_ERROR(shoal_rules_get(g->rules, &call, &rule));
    for (int32_t w = 0; w < rule->way_count && !*out_way; ++w) {
      const char *name;
      if (wants_unreduced(&rule->ways[w])) continue;
      SHOAL_RETURN_IF_ERROR(shoal_coverage_way(node, &rule->ways[w], g->arena, &name));
      if (shoal_coverage_count(g->coverage, "way", name) > 0) continue;
      *out_node = node;
      *out_way = &rule->ways[w];
    }
  }
  return NULL;
}

// A way of the node that wants no input unreduced, or "whole", along an axis of the first mesh.
static shoal_status_t draw_way(shoal_generator_t *g, const shoal_model_t *model,
                               const shoal_graph_t *graph, const shoal_mesh_t *mesh) {
  const shoal_node_t *node = &graph->nodes.items[shoal_roll(g, graph->nodes.count)];
  const shoal_axis_t *axis = &mesh->axes[shoal_roll(g, mesh->axis_count)];
  shoal_call_t call;
  const shoal_rule_t *rule = NULL;
  const char *text = "whole";
  if (axis->size < 2) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_node_call(graph, node, g->arena, &call));
  SHOAL_RETURN_IF_ERROR(shoal_rules_get(g->rules, &call, &rule));
  if (rule->way_count > 0 && shoal_chance(g, 75)) {
    const shoal_way_t *way = NULL;
    if (shoal_chance(g, 50)) SHOAL_RETURN_IF_ERROR(find_unseen(g, graph, &node, &way));
    if (!way) way = &rule->ways[shoal_roll(g, rule->way_count)];
    if (wants_unreduced(way)) return NULL;
    SHOAL_RETURN_IF_ERROR(shoal_way_print(node->op, node->attrs, way, g->arena, &text));
  }
  return shoal_generate_way(g, model, node->name,
                            shoal_arena_printf(g->arena, "%s=%s", axis->name, text));
}

// A node that has phases is to be composite, along an axis of the first mesh.
static shoal_status_t draw_composite(shoal_generator_t *g, const shoal_model_t *model,
                                     const shoal_graph_t *graph, const shoal_mesh_t *mesh) {
  const shoal_axis_t *axis = &mesh->axes[shoal_roll(g, mesh->axis_count)];
  const int64_t first = shoal_roll(g, graph->nodes.count);
  int64_t n = 0;
  while (n < graph->nodes.count &&
         !graph->nodes.items[(first + n) % graph->nodes.count].op->decompose)
    ++n;
  if (n == graph->nodes.count || axis->size < 2) return NULL;
  const char *name = graph->nodes.items[(first + n) % graph->nodes.count].name;
  SHOAL_RETURN_IF_ERROR(
      shoal_generate_decide(g, "way", shoal_arena_strdup(g->arena, name),
                            shoal_arena_printf(g->arena, "%s=composite", axis->name)));
  return keep_if_it_holds(g, model);
}

// The way of a rule whose outputs are merged by log-sum-exp, or NULL.
static const shoal_way_t *find_merged(const shoal_rule_t *rule) {
  for (int32_t w = 0; w < rule->way_count; ++w) {
    const shoal_way_t *way = &rule->ways[w];
    const shoal_way_operand_t *out = &way->operands[way->input_count];
    if (way->output_count == 2 && out->kind == SHOAL_OPERAND_PARTIAL &&
        out->reduce == SHOAL_REDUCE_LSE)
      return way;
  }
  return NULL;
}

static bool is_decided(const shoal_random_case_t *c, const char *node) {
  for (int64_t i = 0; i < c->decisions.count; ++i) {
    const shoal_intent_decision_t *decision = &c->decisions.items[i];
    if (strcmp(decision->kind, "way") == 0 && strcmp(decision->pattern, node) == 0) return true;
  }
  return false;
}

// Nodes that leave a value and its log-sum-exp to be merged do so along an axis of the first mesh,
// or along all of them.
static shoal_status_t draw_pairs(shoal_generator_t *g, const shoal_model_t *model,
                                 const shoal_graph_t *graph, const shoal_mesh_t *mesh) {
  const bool all = shoal_chance(g, 40);
  const int64_t first = shoal_roll(g, mesh->axis_count);
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    shoal_call_t call;
    const shoal_rule_t *rule = NULL;
    const char *text = NULL;
    if (node->output_count != 2 || is_decided(g->c, node->name)) continue;
    SHOAL_RETURN_IF_ERROR(shoal_node_call(graph, node, g->arena, &call));
    SHOAL_RETURN_IF_ERROR(shoal_rules_get(g->rules, &call, &rule));
    const shoal_way_t *way = find_merged(rule);
    if (!way) continue;
    SHOAL_RETURN_IF_ERROR(shoal_way_print(node->op, node->attrs, way, g->arena, &text));
    for (int32_t a = 0; a < (all ? mesh->axis_count : 1); ++a) {
      const shoal_axis_t *axis = &mesh->axes[(first + a) % mesh->axis_count];
      if (axis->size < 2) continue;
      SHOAL_RETURN_IF_ERROR(
          shoal_generate_way(g, model, shoal_arena_strdup(g->arena, node->name),
                             shoal_arena_printf(g->arena, "%s=%s", axis->name, text)));
    }
  }
  return NULL;
}

shoal_status_t shoal_generate_ways(shoal_generator_t *g, const shoal_model_t *model) {
  shoal_random_case_t *c = g->c;
  const shoal_graph_t *graph = shoal_model_find_graph(model, "train");
  if (c->pins.count > 0 && shoal_chance(g, 20)) {
    const shoal_intent_entry_t *pin = &c->pins.items[--c->pins.count];
    SHOAL_RETURN_IF_ERROR(shoal_generate_decide(g, "layout", pin->pattern, pin->value));
  }
  // Stages and expansions change which nodes there are, and where.
  if (c->meshes.count != 1 || c->expand.count > 0 || g->large || !graph || graph->nodes.count == 0)
    return NULL;
  const bool ways = shoal_chance(g, 30);
  shoal_generator_t aside = *g;  // dice of its own: cases without composites are what they were
  aside.state = ~g->state * 5;
  const bool scarce = shoal_coverage_count(g->coverage, "feature", "way decided composite") < 10;
  const bool composite = shoal_chance(&aside, scarce ? 60 : 15);
  shoal_generator_t apart = *g;  // likewise
  apart.state = ~g->state * 7;
  const bool pairs = shoal_chance(&apart, 60);
  if (!ways && !composite && !pairs) return NULL;
  shoal_mesh_t mesh;
  SHOAL_RETURN_IF_ERROR(shoal_mesh_parse(c->meshes.items[0], g->arena, &mesh));
  if (mesh.axis_count == 0) return NULL;
  for (int64_t tries = ways ? 1 + shoal_roll(g, 3) : 0; tries > 0; --tries)
    SHOAL_RETURN_IF_ERROR(draw_way(g, model, graph, &mesh));
  if (composite) SHOAL_RETURN_IF_ERROR(draw_composite(&aside, model, graph, &mesh));
  return pairs ? draw_pairs(&apart, model, graph, &mesh) : NULL;
}

shoal_status_t shoal_generate_tiles(shoal_generator_t *g) {
  static const char *const counts[] = {"auto 2", "auto 3", "auto 5"};
  const char *const patterns[] = {"*", "*", g->c->blocks > 0 ? "b*" : "v*", "grad/*"};
  if (!shoal_chance(g, 40)) return NULL;
  return shoal_generate_decide(g, "tile", patterns[shoal_roll(g, 4)], counts[shoal_roll(g, 3)]);
}

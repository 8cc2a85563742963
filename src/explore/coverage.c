// Counting what plans and programs exercise.
#include "explore/coverage.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/status.h"
#include "op/families/family.h"
#include "shoal/schedule.h"

#define OFTEN 10  // a way that could have occurred that often has to

typedef struct item {
  const char *group, *name;
  int64_t count, offered;         // cases in which it occurred; could have (ways)
  int64_t last_case, last_offer;  // so that a key counts once a case
} item_t;

struct shoal_coverage {
  shoal_allocator_t allocator;
  shoal_arena_t arena;
  SHOAL_VEC(item_t) items;
  int64_t cases;
};

// What a plan can have besides ops, ways and reshards.
static const char *const features[] = {"uneven",
                                       "empty part",
                                       "unit",
                                       "chunk",
                                       "flat",
                                       "halo",
                                       "weights",
                                       "items",
                                       "3 axes",
                                       "two meshes",
                                       "3 stages",
                                       "union mesh",
                                       "rank list",
                                       "idle rank",
                                       "micro",
                                       "uneven micro",
                                       "partial sum",
                                       "partial max",
                                       "partial min",
                                       "partial prod",
                                       "pair merged",
                                       "pair merged over two axes",
                                       "pair merged in micro-batches",
                                       "expanded",
                                       "composite",
                                       "in place",
                                       "state in place",
                                       "state copied",
                                       "split for a halo",
                                       "gradient split for a halo",
                                       "rows exchanged",
                                       "rows exchanged in micro-batches",
                                       "more rows than room",
                                       "rows at capacity",
                                       "rows instead of sums",
                                       "gathered in tiles",
                                       "reduced in tiles",
                                       "gradient in tiles",
                                       "tiles in a loop",
                                       "tiles of unequal parts",
                                       "guarded in place",
                                       "guarded copy",
                                       "bucket reduced",
                                       "bucket gathered",
                                       "slots",
                                       "slots by step",
                                       "layout decided",
                                       "way decided",
                                       "way decided whole",
                                       "way decided composite",
                                       "constrained",
                                       "constrained gradient",
                                       "constrained behind another layout",
                                       "constrained in micro-batches",
                                       "constrained on a stage",
                                       "constrained unreduced",
                                       "recomputed",
                                       "redone",
                                       "exchanged in each",
                                       "exchanged narrower",
                                       "exchanged wider",
                                       "exchanged scaled",
                                       "output on request",
                                       "kept in place",
                                       "kept copy",
                                       "kept in micro-batches",
                                       "schedule gpipe",
                                       "schedule 1f1b",
                                       "schedule 1f1b+1",
                                       "schedule interleaved",
                                       "schedule zb-h1",
                                       "schedule zb-h2",
                                       "schedule zb-v",
                                       "schedule table",
                                       "table in any order",
                                       "scheduled stages",
                                       "virtual stages",
                                       "split backward",
                                       "state in host memory",
                                       "state in a file",
                                       "value in host memory",
                                       "value in a file",
                                       "lane",
                                       "wait for a call",
                                       "wait for a step",
                                       "eval",
                                       "f64",
                                       "f32",
                                       "bf16",
                                       "f16",
                                       "optional input",
                                       "several outputs",
                                       "running statistics",
                                       "spare index",
                                       "f8 cast",
                                       "optimizer sgd",
                                       "optimizer momentum",
                                       "optimizer adamw",
                                       "optimizer adam",
                                       "optimizer lion",
                                       "optimizer lamb",
                                       "optimizer adafactor",
                                       "optimizer muon",
                                       "threads",
                                       "processes",
                                       "opaque",
                                       "ranks 1",
                                       "ranks 2",
                                       "ranks 3",
                                       "ranks 4",
                                       "ranks 5",
                                       "ranks 6",
                                       "ranks 7",
                                       "ranks 8",
                                       "33 to 64 ranks",
                                       "65 to 200 ranks"};

static item_t *find(const shoal_coverage_t *c, const char *group, const char *name) {
  for (int64_t i = 0; i < c->items.count; ++i)
    if (strcmp(c->items.items[i].name, name) == 0 && strcmp(c->items.items[i].group, group) == 0)
      return &c->items.items[i];
  return NULL;
}

static bool declare(shoal_coverage_t *c, const char *group, const char *name) {
  if (find(c, group, name)) return true;
  const char *copy = shoal_arena_strdup(&c->arena, name);
  return copy &&
         SHOAL_PUSH(&c->arena, &c->items,
                    (item_t){.group = group, .name = copy, .last_case = -1, .last_offer = -1});
}

static bool occurs(shoal_coverage_t *c, const char *group, const char *name) {
  if (!declare(c, group, name)) return false;
  item_t *item = find(c, group, name);
  if (item->last_case != c->cases) ++item->count;
  item->last_case = c->cases;
  return true;
}

// A declared way that the plan could use.
static void offer(shoal_coverage_t *c, const char *name) {
  item_t *item = find(c, "way", name);
  if (item->last_offer != c->cases) ++item->offered;
  item->last_offer = c->cases;
}

// An op has to occur; and to be differentiated, if it can be. Whether it can be cut is not known
// before a rule of it is (add_ways).
static bool declare_op(shoal_coverage_t *c, const shoal_op_t *op) {
  const bool flows = op->gradient && op->gradient != shoal_gradient_none;
  return declare(c, "op", op->name) && (!flows || declare(c, "gradient", op->name));
}

shoal_status_t shoal_coverage_create(shoal_allocator_t allocator, const shoal_registry_t *registry,
                                     shoal_coverage_t **out_coverage) {
  shoal_coverage_t *c = allocator.alloc(allocator.self, sizeof *c);
  if (!c) return SHOAL_OOM();
  *c = (shoal_coverage_t){.allocator = allocator};
  shoal_arena_init(allocator, &c->arena);
  bool ok = true;
  for (int64_t i = 0; i < shoal_registry_count(registry) && ok; ++i)
    ok = declare_op(c, shoal_registry_op(registry, i));
  for (int k = SHOAL_RESHARD_SLICE; k <= SHOAL_RESHARD_BETWEEN && ok; ++k)
    ok = declare(c, "reshard", shoal_reshard_name((shoal_reshard_kind_t)k));
  for (size_t i = 0; i < sizeof features / sizeof features[0] && ok; ++i)
    ok = declare(c, "feature", features[i]);
  if (!ok) {
    shoal_coverage_free(c);
    return SHOAL_OOM();
  }
  *out_coverage = c;
  return NULL;
}

void shoal_coverage_free(shoal_coverage_t *c) {
  if (!c) return;
  shoal_allocator_t allocator = c->allocator;
  shoal_arena_deinit(&c->arena);
  allocator.free(allocator.self, c);
}

int64_t shoal_coverage_count(const shoal_coverage_t *c, const char *group, const char *name) {
  const item_t *item = find(c, group, name);
  return item ? item->count : -1;
}

int64_t shoal_coverage_offered(const shoal_coverage_t *c, const char *way) {
  const item_t *item = find(c, "way", way);
  return item ? item->offered : 0;
}

const char *shoal_coverage_missing(const shoal_coverage_t *c, const char *group, int64_t index) {
  for (int64_t i = 0; i < c->items.count; ++i)
    if (strcmp(c->items.items[i].group, group) == 0 && c->items.items[i].count == 0 && index-- == 0)
      return c->items.items[i].name;
  return NULL;
}

// ---- ways ---------------------------------------------------------------------------------------

shoal_status_t shoal_coverage_way(const shoal_node_t *node, const shoal_way_t *way,
                                  shoal_arena_t *arena, const char **out_name) {
  const char *text = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_way_print(node->op, node->attrs, way, arena, &text));
  char *name = shoal_arena_printf(arena, "%s %s", node->op->name, text);
  if (!name) return SHOAL_OOM();
  char *to = name + strlen(node->op->name);
  for (const char *at = to; *at;) {
    // a number that is not part of a word
    bool number = isdigit((unsigned char)*at) && to > name && !isalnum((unsigned char)to[-1]);
    if (!number) {
      *to++ = *at++;
      continue;
    }
    while (isdigit((unsigned char)*at)) ++at;
    *to = to[-1] == ':' ? 'd' : 'n';
    ++to;
  }
  *to = 0;
  *out_name = name;
  return NULL;
}

#define REDUCES (SHOAL_REDUCE_PROD + 1)

int shoal_way_unreduced_inputs(const shoal_node_t *node, const shoal_way_t *way,
                               const bool *unreduced) {
  int count = 0;
  for (int32_t k = 0; k < node->input_count; ++k) {
    if (way->operands[k].kind != SHOAL_OPERAND_PARTIAL) continue;
    if (!unreduced[node->inputs[k] * REDUCES + way->operands[k].reduce]) return -1;
    ++count;
  }
  return count;
}

static shoal_status_t rule_of(const shoal_graph_t *graph, const shoal_node_t *node,
                              shoal_rules_t *rules, shoal_arena_t *arena,
                              const shoal_rule_t **out_rule) {
  shoal_call_t call;
  SHOAL_RETURN_IF_ERROR(shoal_node_call(graph, node, arena, &call));
  return shoal_rules_get(rules, &call, out_rule);
}

shoal_status_t shoal_graph_unreduced(const shoal_graph_t *graph, shoal_rules_t *rules,
                                     shoal_arena_t *arena, const bool **out_unreduced) {
  bool *unreduced = SHOAL_NEW(arena, bool, graph->values.count *REDUCES);
  if (!unreduced) return SHOAL_OOM();
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    const shoal_rule_t *rule = NULL;
    SHOAL_RETURN_IF_ERROR(rule_of(graph, node, rules, arena, &rule));
    for (int32_t w = 0; w < rule->way_count; ++w) {
      if (shoal_way_unreduced_inputs(node, &rule->ways[w], unreduced) < 0) continue;
      for (int32_t o = 0; o < node->output_count; ++o) {
        const shoal_way_operand_t *out = &rule->ways[w].operands[node->input_count + o];
        if (out->kind == SHOAL_OPERAND_PARTIAL)
          unreduced[node->outputs[o] * REDUCES + out->reduce] = true;
      }
    }
  }
  *out_unreduced = unreduced;
  return NULL;
}

static shoal_status_t add_ways(shoal_coverage_t *c, const shoal_plan_t *plan,
                               shoal_arena_t *arena) {
  for (int64_t g = 1; g < plan->model->graphs.count; ++g) {
    const shoal_graph_plan_t *gp = &plan->graphs[g];
    const bool *unreduced = NULL;
    SHOAL_RETURN_IF_ERROR(shoal_graph_unreduced(gp->graph, plan->rules, arena, &unreduced));
    for (int64_t n = 0; n < gp->graph->nodes.count; ++n) {
      const shoal_node_t *node = &gp->graph->nodes.items[n];
      const char *name = NULL;
      const shoal_rule_t *rule = NULL;
      SHOAL_RETURN_IF_ERROR(rule_of(gp->graph, node, plan->rules, arena, &rule));
      for (int32_t w = 0; w < rule->way_count; ++w) {
        SHOAL_RETURN_IF_ERROR(shoal_coverage_way(node, &rule->ways[w], arena, &name));
        if (!declare(c, "way", name)) return SHOAL_OOM();
        if (shoal_way_unreduced_inputs(node, &rule->ways[w], unreduced) < 0) continue;
        if (!declare(c, "cut", node->op->name)) return SHOAL_OOM();
        offer(c, name);
      }
      for (int32_t slot = 0; slot < SHOAL_PLAN_SLOTS; ++slot) {
        const shoal_way_t *way = gp->nodes[n].decision->choices[slot].way;
        if (!way) continue;
        SHOAL_RETURN_IF_ERROR(shoal_coverage_way(node, way, arena, &name));
        if (!occurs(c, "way", name) || !occurs(c, "cut", node->op->name)) return SHOAL_OOM();
      }
    }
  }
  return NULL;
}

// Forward nodes that gradients belong to.
static bool add_gradients(shoal_coverage_t *c, const shoal_plan_t *plan) {
  for (int64_t g = 1; g < plan->model->graphs.count; ++g) {
    const shoal_graph_t *graph = plan->graphs[g].graph;
    for (int64_t n = 0; n < graph->nodes.count; ++n) {
      const int32_t of = graph->nodes.items[n].of;
      if (of < 0) continue;
      const char *name = graph->nodes.items[of].op->name;
      if (find(c, "gradient", name) && !occurs(c, "gradient", name)) return false;
    }
  }
  return true;
}

// ---- plans --------------------------------------------------------------------------------------

static bool add_meshes(shoal_coverage_t *c, const shoal_plan_t *plan) {
  bool ok = true;
  for (int64_t m = 0; m < plan->mesh_count && ok; ++m) {
    int32_t real = 0;
    for (int32_t a = 0; a < plan->meshes[m].axis_count; ++a)
      real += plan->meshes[m].axes[a].size > 1;
    if (real >= 3) ok = occurs(c, "feature", "3 axes");
    if (plan->meshes[m].ranks && ok) ok = occurs(c, "feature", "rank list");
  }
  if (plan->mesh_count > 1) ok = ok && occurs(c, "feature", "two meshes");
  for (int64_t m = 2; m < plan->mesh_count && ok; ++m)
    ok = occurs(c, "feature", strcmp(plan->meshes[m].name, "u") == 0 ? "union mesh" : "3 stages");
  if (plan->micro > 1) ok = ok && occurs(c, "feature", "micro");
  if (plan->owned_model) ok = ok && occurs(c, "feature", "expanded");
  return ok;
}

// Composite ways that completion found cheaper.
static bool add_composites(shoal_coverage_t *c, const shoal_plan_t *plan) {
  bool found = false;
  for (int64_t i = 0; i < plan->composites.count; ++i) {
    const shoal_told_t *told = plan->composites.items[i].told;
    for (int slot = 0; told && slot < SHOAL_PLAN_SLOTS; ++slot)
      found |= told[slot].by && strcmp(told[slot].by, "completion") == 0;
  }
  return !found || occurs(c, "feature", "composite");
}

// Gradients of which ranks send rows instead of adding up sums.
static bool add_row_sums(shoal_coverage_t *c, const shoal_plan_t *plan) {
  bool found = false;
  for (int64_t i = 0; i < plan->composites.count && !found; ++i) {
    const shoal_composite_t *composite = &plan->composites.items[i];
    const shoal_graph_plan_t *gp = &plan->graphs[composite->graph];
    const int32_t last = composite->first + composite->count - 1;
    const shoal_node_t *node = &gp->graph->nodes.items[last];
    for (int32_t k = 0; node->op->sparse && k < node->input_count; ++k)
      found |= gp->nodes[last].decision->operands[k] != gp->values[node->inputs[k]];
  }
  return !found || occurs(c, "feature", "rows instead of sums");
}

// Does a mesh run micro-batches of a stage forward in another order than theirs? No generator does.
static bool is_in_any_order(const shoal_schedule_t *schedule) {
  bool found = false;
  for (int32_t r = 0; r < schedule->mesh_count && !found; ++r) {
    const shoal_schedule_row_t *row = &schedule->rows[r];
    for (int32_t s = 0; s < schedule->stage_count; ++s)
      for (int64_t k = 0, last = -1; k < row->count; ++k) {
        const shoal_schedule_entry_t *entry = &row->entries[k];
        if (entry->stage != s || entry->work != SHOAL_WORK_FORWARD) continue;
        found |= entry->micro < last;
        last = entry->micro;
      }
  }
  return found;
}

// A schedule counts if something runs once per micro-batch.
static bool add_schedules(shoal_coverage_t *c, const shoal_plan_t *plan) {
  bool ok = true;
  for (int64_t g = 0; g < plan->model->graphs.count && ok; ++g) {
    const shoal_schedule_t *schedule = plan->graphs[g].schedule;
    bool loops = false;
    for (int64_t n = 0; n < plan->graphs[g].graph->nodes.count && schedule; ++n)
      loops |= plan->graphs[g].nodes[n].decision->choices[0].way != NULL;
    if (!loops) continue;
    char name[32];
    snprintf(name, sizeof name, "schedule %s", schedule->name);
    ok = occurs(c, "feature", name);
    if (schedule->mesh_count > 1) ok = ok && occurs(c, "feature", "scheduled stages");
    if (schedule->stage_count > schedule->mesh_count)
      ok = ok && occurs(c, "feature", "virtual stages");
    if (schedule->split) ok = ok && occurs(c, "feature", "split backward");
    if (is_in_any_order(schedule)) ok = ok && occurs(c, "feature", "table in any order");
  }
  return ok;
}

// Values that are held as the model says.
static bool add_constrained(shoal_coverage_t *c, const shoal_plan_t *plan,
                            const shoal_graph_plan_t *gp) {
  bool ok = true;
  for (int64_t n = 0; n < gp->graph->nodes.count && ok; ++n) {
    const shoal_node_t *node = &gp->graph->nodes.items[n];
    if (!node->op->constrains || plan->world == 1) continue;
    const shoal_layout_t *have = gp->values[node->inputs[0]], *held = gp->values[node->outputs[0]];
    ok = occurs(c, "feature", "constrained") && occurs(c, "op", node->op->name);
    if (shoal_node_is_gradient(node)) ok = ok && occurs(c, "feature", "constrained gradient");
    if (have != held) ok = ok && occurs(c, "feature", "constrained behind another layout");
    if (shoal_layout_along(held, SHOAL_AXIS_MICRO))
      ok = ok && occurs(c, "feature", "constrained in micro-batches");
    if (plan->mesh_count > 1) ok = ok && occurs(c, "feature", "constrained on a stage");
    if (shoal_layout_is_partial(held)) ok = ok && occurs(c, "feature", "constrained unreduced");
  }
  return ok;
}

// Decisions that leave no other trace.
static bool add_decisions(shoal_coverage_t *c, const shoal_plan_t *plan) {
  bool ok = true;
  for (int64_t i = 0; i < plan->intent.decision_count && ok; ++i) {
    const shoal_intent_decision_t *decision = &plan->intent.decisions[i];
    const bool whole = strstr(decision->choice, "=whole") != NULL;
    const bool composite = strstr(decision->choice, "=composite") != NULL;
    if (strcmp(decision->kind, "counts") == 0) ok = occurs(c, "feature", "rows at capacity");
    if (strcmp(decision->kind, "layout") == 0) ok = occurs(c, "feature", "layout decided");
    if (strcmp(decision->kind, "way") == 0)
      ok = occurs(c, "feature",
                  whole       ? "way decided whole"
                  : composite ? "way decided composite"
                              : "way decided");
  }
  return ok;
}

static bool add_options(shoal_coverage_t *c, const shoal_plan_t *plan,
                        const shoal_check_options_t *options) {
  char ranks[32];
  snprintf(ranks, sizeof ranks, "ranks %d", options->ranks);
  if (options->ranks > 8)
    snprintf(ranks, sizeof ranks, options->ranks > 64 ? "65 to 200 ranks" : "33 to 64 ranks");
  bool ok = occurs(c, "feature", ranks) &&
            occurs(c, "feature", options->processes ? "processes" : "threads");
  if (options->opaque) ok = ok && occurs(c, "feature", "opaque");
  if (shoal_model_find_graph(plan->model, "eval")) ok = ok && occurs(c, "feature", "eval");
  for (int64_t s = 0; s < plan->model->states.count && ok; ++s) {
    const shoal_state_info_t *state = &plan->model->states.items[s];
    if (state->options.trainable) ok = occurs(c, "feature", shoal_dtype_name(state->type.dtype));
  }
  return ok;
}

bool shoal_coverage_occurs(shoal_coverage_t *coverage, const char *group, const char *name) {
  return occurs(coverage, group, name);
}

shoal_status_t shoal_coverage_see(shoal_coverage_t *coverage, const char *feature) {
  return occurs(coverage, "feature", feature) ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_coverage_add(void *self, const shoal_plan_t *plan,
                                  const shoal_program_t *program,
                                  const shoal_check_options_t *options) {
  shoal_coverage_t *c = self;
  shoal_arena_t arena;
  shoal_arena_init(c->allocator, &arena);
  shoal_status_t status = add_ways(c, plan, &arena);
  if (!status) status = shoal_coverage_program(c, program, &arena);
  if (!status && !(add_gradients(c, plan) && add_meshes(c, plan) && add_composites(c, plan) &&
                   add_row_sums(c, plan) && add_schedules(c, plan) && add_decisions(c, plan) &&
                   add_options(c, plan, options)))
    status = SHOAL_OOM();
  for (int64_t g = 0; g < plan->model->graphs.count && !status; ++g)
    if (!add_constrained(c, plan, &plan->graphs[g])) status = SHOAL_OOM();
  ++c->cases;
  shoal_arena_deinit(&arena);
  return status;
}

// ---- results ------------------------------------------------------------------------------------

void shoal_coverage_print(const shoal_coverage_t *c, shoal_text_t *text) {
  static const char *const groups[] = {"op", "gradient", "cut", "reshard", "feature", "way"};
  shoal_text_addf(text, "coverage of %lld cases:\n", (long long)c->cases);
  for (size_t g = 0; g < sizeof groups / sizeof groups[0]; ++g) {
    int64_t all = 0, seen = 0, width = 0;
    for (int64_t i = 0; i < c->items.count; ++i) {
      if (strcmp(c->items.items[i].group, groups[g]) != 0) continue;
      ++all;
      seen += c->items.items[i].count > 0;
    }
    shoal_text_addf(text, "%s: %lld of %lld\n", groups[g], (long long)seen, (long long)all);
    for (int64_t i = 0; i < c->items.count; ++i) {
      const item_t *item = &c->items.items[i];
      // ways are many: only the ones that never occurred
      if (strcmp(item->group, groups[g]) != 0 || (strcmp(groups[g], "way") == 0 && item->count > 0))
        continue;
      const char *name = strncmp(item->name, "shoal.", 6) == 0 ? item->name + 6 : item->name;
      int64_t length = (int64_t)strlen(name) + 8;
      if (width + length > 110) shoal_text_add(text, "\n"), width = 0;
      shoal_text_addf(text, "  %s %lld", name, (long long)item->count);
      if (item->offered) shoal_text_addf(text, "/%lld", (long long)item->offered);
      width += length;
    }
    shoal_text_add(text, width ? "\n" : "");
  }
}

shoal_status_t shoal_coverage_assert(const shoal_coverage_t *c) {
  shoal_text_t text;
  shoal_text_init(c->allocator, &text);
  int64_t missing = 0;
  for (int64_t i = 0; i < c->items.count; ++i) {
    const item_t *item = &c->items.items[i];
    if (item->count > 0 || (strcmp(item->group, "way") == 0 && item->offered < OFTEN)) continue;
    shoal_text_addf(&text, "%s%s '%s'", missing++ ? ", " : "", item->group, item->name);
  }
  shoal_status_t status = shoal_text_status(&text);
  if (!status && missing > 0)
    status = SHOAL_ERROR(MISMATCH, "in %lld cases these never occurred: %s", (long long)c->cases,
                         shoal_text_string(&text));
  shoal_text_deinit(&text);
  return status;
}

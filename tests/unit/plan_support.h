// What the tests of plan, lower, planners and simulate share: zoo models, intents in a line,
// questions about plans and programs.
#ifndef SHOAL_TESTS_PLAN_SUPPORT_H_
#define SHOAL_TESTS_PLAN_SUPPORT_H_

#include "base/arena.h"
#include "base/status.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "program/bind.h"
#include "shoal/lower.h"
#include "shoal/planners.h"
#include "shoal/program.h"
#include "unit.h"
#include "unit/zoo_sizes.h"

#define UNUSED __attribute__((unused))
#define COUNT(array) ((int64_t)(sizeof(array) / sizeof((array)[0])))

// ---- models ---------------------------------------------------------------------------

static UNUSED shoal_model_t *empty_model(void) {
  shoal_model_t *model;
  assert_ok(shoal_model_create(&(shoal_model_options_t){.seed = 7}, &model));
  return model;
}

static UNUSED shoal_model_t *make_mlp(const mlp_sizes_t *options) {
  shoal_model_t *model = empty_model();
  add_mlp(model, options);
  assert_ok(shoal_model_status(model));
  return model;
}

static UNUSED shoal_model_t *small_mlp(int64_t batch) {
  return make_mlp(
      &(mlp_sizes_t){.batch = batch, .in_features = 5, .hidden = 9, .classes = 3, .layers = 2});
}

static UNUSED shoal_model_t *make_gpt(const gpt_sizes_t *options) {
  shoal_model_t *model = empty_model();
  add_gpt(model, options);
  assert_ok(shoal_model_status(model));
  return model;
}

// 12 heads of 4 channels; two blocks; odd batch.
static UNUSED shoal_model_t *small_gpt(bool tied) {
  return make_gpt(&(gpt_sizes_t){.batch = 7,
                                 .context = 6,
                                 .vocabulary = 11,
                                 .width = 48,
                                 .heads = 12,
                                 .layers = 2,
                                 .tied = tied});
}

// By name and settings.
static UNUSED shoal_model_t *zoo_model(const char *name, const char *settings) {
  shoal_zoo_t *zoo;
  shoal_model_t *model = empty_model();
  assert_ok(shoal_zoo_create(name, &(shoal_zoo_options_t){.settings = settings}, &zoo));
  shoal_zoo_add(zoo, model);
  shoal_zoo_free(zoo);
  assert_ok(shoal_model_status(model));
  return model;
}

static UNUSED shoal_rules_t *new_rules(void) {
  shoal_rules_t *rules;
  assert_ok(shoal_rules_create(shoal_allocator_system(), &rules));
  return rules;
}

// ---- plans ----------------------------------------------------------------------------

// A strategy's plan.
static UNUSED shoal_plan_t *plan_by(const shoal_model_t *model, shoal_rules_t *rules,
                                    const char *strategy, const char *mesh, int32_t world) {
  shoal_plan_t *plan;
  assert_ok(shoal_plan_make(
      model, rules, &(shoal_plan_options_t){.strategy = strategy, .mesh = mesh, .world = world},
      &plan));
  return plan;
}

// The plan of an explicit intent: one mesh and layouts by name.
static UNUSED shoal_plan_t *plan_of(const shoal_model_t *model, shoal_rules_t *rules,
                                    const char *mesh, int64_t count,
                                    const shoal_intent_entry_t *layouts, int32_t world) {
  const shoal_intent_t intent = {
      .mesh_count = 1, .meshes = &mesh, .layout_count = count, .layouts = layouts};
  shoal_plan_t *plan;
  assert_ok(shoal_plan_create(model, rules, &intent, world, shoal_allocator_system(), &plan));
  return plan;
}

// The choice of a node along an axis ("micro" too); way NULL: whole.
static UNUSED const shoal_choice_t *choice_of(const shoal_plan_t *plan, const char *graph,
                                              const char *node, const char *axis) {
  for (int64_t g = 0; g < plan->model->graphs.count; ++g) {
    const shoal_graph_plan_t *gp = &plan->graphs[g];
    if (strcmp(gp->graph->name, graph) != 0) continue;
    for (int64_t n = 0; n < gp->graph->nodes.count; ++n) {
      if (strcmp(gp->graph->nodes.items[n].name, node) != 0) continue;
      const shoal_mesh_t *mesh = &plan->meshes[gp->nodes[n].mesh];
      int32_t index = strcmp(axis, "micro") == 0 ? 0 : shoal_mesh_axis(mesh, axis) + 1;
      if (index == 0 && strcmp(axis, "micro") != 0) fail_msg("no axis '%s'", axis);
      return &gp->nodes[n].decision->choices[index];
    }
  }
  fail_msg("graph '%s' has no node '%s'", graph, node);
  return NULL;
}

// Text of a node's way along an axis of graph "train"; "" where it is whole.
static UNUSED void expect_way(const shoal_plan_t *plan, const char *node, const char *axis,
                              const char *expected) {
  const shoal_choice_t *choice = choice_of(plan, "train", node, axis);
  const shoal_graph_t *graph = shoal_model_find_graph(plan->model, "train");
  const shoal_node_t *found = NULL;
  for (int64_t n = 0; n < graph->nodes.count; ++n)
    if (strcmp(graph->nodes.items[n].name, node) == 0) found = &graph->nodes.items[n];
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *text = "";
  if (choice->way) assert_ok(shoal_way_print(found->op, found->attrs, choice->way, &arena, &text));
  if (strcmp(text, expected) != 0)
    fail_msg("node '%s' along %s: '%s', expected '%s'", node, axis, text, expected);
  shoal_arena_deinit(&arena);
}

// The layout of a value of graph "train", as produced, fed or read.
static UNUSED void expect_layout(const shoal_plan_t *plan, const char *value,
                                 const char *expected) {
  const char *text = NULL;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  for (int64_t g = 0; g < plan->model->graphs.count; ++g) {
    const shoal_graph_plan_t *gp = &plan->graphs[g];
    if (strcmp(gp->graph->name, "train") != 0) continue;
    for (int64_t v = 0; v < gp->graph->values.count; ++v)
      if (strcmp(gp->graph->values.items[v].name, value) == 0)
        assert_ok(shoal_layout_print(gp->values[v], &arena, &text));
  }
  if (!text) fail_msg("graph 'train' has no value '%s'", value);
  if (strcmp(text, expected) != 0)
    fail_msg("value '%s' is '%s', expected '%s'", value, text, expected);
  shoal_arena_deinit(&arena);
}

static UNUSED void expect_state(const shoal_plan_t *plan, const char *state, const char *expected) {
  const char *text = NULL;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(shoal_plan_state_layout(plan, state, &arena, &text));
  if (strcmp(text, expected) != 0)
    fail_msg("state '%s' rests '%s', expected '%s'", state, text, expected);
  shoal_arena_deinit(&arena);
}

// ---- programs -------------------------------------------------------------------------

// Lowers and checks.
static UNUSED shoal_program_t *lower(const shoal_plan_t *plan) {
  shoal_program_t *program;
  assert_ok(shoal_lower(plan, NULL, &program));
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  return program;
}

static UNUSED const shoal_order_t *order_of(const shoal_class_t *c, const char *graph) {
  for (int64_t i = 0; i < c->order_count; ++i)
    if (strcmp(c->orders[i].graph, graph) == 0) return &c->orders[i];
  fail_msg("no order '%s'", graph);
  return NULL;
}

static UNUSED const shoal_segment_t *segment_of(const shoal_class_t *c, const char *name) {
  for (int64_t i = 0; i < c->segment_count; ++i)
    if (strcmp(c->segments[i].name, name) == 0) return &c->segments[i];
  return NULL;
}

// Instructions of a segment with this opcode, and this name unless it is NULL.
static UNUSED int64_t count_in(const shoal_segment_t *segment, shoal_opcode_t opcode,
                               const char *name) {
  int64_t count = 0;
  for (int64_t i = 0; segment && i < segment->instruction_count; ++i)
    count += segment->instructions[i].opcode == opcode &&
             (!name || strcmp(segment->instructions[i].name, name) == 0);
  return count;
}

// What kind of reshard a channel is, in its first micro-batch.
static UNUSED shoal_reshard_kind_t channel_kind(const shoal_channel_t *channel) {
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_reshard_t reshard;
  int64_t micro = channel->micro ? 0 : -1;
  assert_ok(shoal_layout_reshard(channel->src, micro, channel->dst, micro, &channel->type.shape,
                                 &arena, &reshard));
  shoal_arena_deinit(&arena);
  return reshard.kind;
}

// Reshards by kind that the calls of a graph's order run in a class, loop segments counted once.
typedef struct kinds {
  int64_t count[SHOAL_RESHARD_BETWEEN + 1];
} kinds_t;

static UNUSED kinds_t reshards_of(const shoal_program_t *program, int64_t c, const char *graph) {
  kinds_t kinds = {{0}};
  const shoal_class_t *rank_class = &program->classes[c];
  const shoal_order_t *order = order_of(rank_class, graph);
  for (int64_t k = 0; k < order->call_count; ++k) {
    if (order->calls[k].micro > 0) continue;
    const shoal_segment_t *segment = &rank_class->segments[order->calls[k].segment];
    for (int64_t i = 0; i < segment->instruction_count; ++i) {
      const shoal_instruction_t *in = &segment->instructions[i];
      if (in->opcode == SHOAL_OPCODE_RESHARD)
        ++kinds.count[channel_kind(&program->channels[in->channels[0]])];
    }
  }
  return kinds;
}

static UNUSED int64_t total_of(const kinds_t *kinds) {
  int64_t total = 0;
  for (int k = 0; k <= SHOAL_RESHARD_BETWEEN; ++k) total += kinds->count[k];
  return total;
}

#endif  // SHOAL_TESTS_PLAN_SUPPORT_H_

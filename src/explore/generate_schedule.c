// A random schedule for a case with micro-batches: one that its stages can have, as the plan that
// comes of the case says, or a table in any order in which they can run. Now and then the stages
// take turns on two meshes before. Of most random graphs little runs in the loop, and seldom on
// several stages: so some cases are pipelines, chains of layers whose batch is cut.
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "explore/generate.h"
#include "plan/complete.h"
#include "plan/schedule.h"
#include "plan/stages.h"

typedef shoal_generator_t gen_t;

// Nodes in four parts, on meshes p, q, p, q, or in three, as `zb-v` wants them.
static void take_turns(gen_t *g) {
  const int64_t count = g->c->nodes.count;
  gen_t aside = *g;  // dice of its own: other cases are what they were
  aside.state = ~g->state * 13;
  const int64_t parts = shoal_chance(&aside, 40) ? 3 : 4;
  for (int64_t i = 0; i < g->c->stages.count; ++i) {
    const int64_t part = i < count ? i * parts / count : parts - 1;
    g->c->stages.items[i].value = part % 2 == 0 ? "p" : "q";
  }
}

// Can lowering give every node of the loop a place?
static bool is_pipeline(const shoal_plan_t *plan, const shoal_graph_plan_t *gp,
                        const shoal_stages_t *stages) {
  for (int64_t n = 0; n < gp->graph->nodes.count; ++n)
    if (stages->of_node[n] == SHOAL_STAGE_NONE &&
        gp->graph->nodes.items[n].kind != SHOAL_NODE_UPDATE)
      return false;
  for (int32_t s = 0; s < stages->count; ++s)
    for (int32_t t = 0; t < s; ++t) {
      const int32_t x = stages->meshes[s], y = stages->meshes[t];
      if (x != y && shoal_mesh_overlap(&plan->meshes[x], &plan->meshes[y])) return false;
    }
  return stages->count > 0;
}

// A table that is being made: what runs, in order, over all rows.
typedef struct drawing {
  const shoal_schedule_t *t;
  bool *done;  // by entry
  SHOAL_VEC(shoal_schedule_entry_t) all, run;
} drawing_t;

static bool *done_of(const drawing_t *d, const shoal_schedule_entry_t *e) {
  return &d->done[((int64_t)e->stage * d->t->micro + e->micro) * SHOAL_WORK_COUNT + e->work];
}

static int32_t mesh_of(const drawing_t *d, const shoal_schedule_entry_t *e) {
  return d->t->stage_meshes[e->stage];
}

// Does an entry that has run send to another mesh, and the receiver has not run?
static bool is_under_way(const drawing_t *d, const shoal_schedule_entry_t *e, int32_t to) {
  shoal_schedule_entry_t receiver = *e;
  receiver.stage += e->work == SHOAL_WORK_FORWARD ? 1 : -1;
  if (e->work == SHOAL_WORK_WEIGHT || receiver.stage < 0 || receiver.stage >= d->t->stage_count)
    return false;
  return mesh_of(d, &receiver) == to && !*done_of(d, &receiver);
}

// Is it what mesh `to` is sent first of what is under way? Messages between two meshes arrive in
// the order in which they are sent.
static bool comes_first(const drawing_t *d, const shoal_schedule_entry_t *e, int32_t to) {
  const shoal_schedule_entry_t *first = NULL;
  for (int64_t i = 0; i < d->run.count && !first; ++i)
    if (mesh_of(d, &d->run.items[i]) == mesh_of(d, e) && is_under_way(d, &d->run.items[i], to))
      first = &d->run.items[i];
  return first && first->stage == e->stage && first->micro == e->micro && first->work == e->work;
}

static bool can_run(const drawing_t *d, const shoal_schedule_entry_t *e) {
  shoal_schedule_entry_t needs[2];
  const int32_t count = shoal_schedule_needs(d->t, e, needs);
  bool can = !*done_of(d, e);
  for (int32_t i = 0; i < count && can; ++i) {
    can = *done_of(d, &needs[i]);
    if (can && mesh_of(d, &needs[i]) != mesh_of(d, e))
      can = comes_first(d, &needs[i], mesh_of(d, e));
  }
  return can;
}

// One of those that can run, as the dice say.
static shoal_schedule_entry_t draw_next(gen_t *g, const drawing_t *d) {
  int64_t ready = 0, at = 0;
  for (int64_t i = 0; i < d->all.count; ++i) ready += can_run(d, &d->all.items[i]);
  for (int64_t nth = shoal_roll(g, ready) + 1; nth > 0; ++at) nth -= can_run(d, &d->all.items[at]);
  return d->all.items[at - 1];
}

// The entries of a table in another order: again and again one that can run comes next. So the rows
// can run side by side, with micro-batches in any order.
static shoal_status_t shuffle(gen_t *g, const shoal_schedule_t *t, shoal_schedule_t *out_table) {
  drawing_t d = {.t = t};
  d.done = SHOAL_NEW(g->arena, bool, (int64_t)t->stage_count * t->micro * SHOAL_WORK_COUNT);
  shoal_schedule_row_t *rows =
      shoal_arena_copy(g->arena, t->rows, (size_t)t->mesh_count, sizeof *rows);
  if (!d.done || !rows) return SHOAL_OOM();
  for (int32_t r = 0; r < t->mesh_count; ++r) {
    for (int64_t k = 0; k < t->rows[r].count; ++k)
      if (!SHOAL_PUSH(g->arena, &d.all, t->rows[r].entries[k])) return SHOAL_OOM();
    rows[r].entries = SHOAL_NEW(g->arena, shoal_schedule_entry_t, rows[r].count);
    if (!rows[r].entries) return SHOAL_OOM();
    rows[r].count = 0;
  }
  while (d.run.count < d.all.count) {
    const shoal_schedule_entry_t next = draw_next(g, &d);
    shoal_schedule_row_t *row = &rows[mesh_of(&d, &next)];
    row->entries[row->count++] = next;
    *done_of(&d, &next) = true;
    if (!SHOAL_PUSH(g->arena, &d.run, next)) return SHOAL_OOM();
  }
  *out_table = *t;
  out_table->rows = rows;
  return NULL;
}

// A generator that takes this pipeline, one that has not occurred first; as a table of its own now
// and then. NULL: none takes it.
static shoal_status_t choose(gen_t *g, shoal_plan_t *plan, shoal_graph_plan_t *gp,
                             const char **out_choice) {
  const char *names[8];
  int64_t count = 0;
  bool fresh = false;  // `names` are those that have not occurred
  *out_choice = NULL;
  for (int64_t i = 0; shoal_schedule_name(i); ++i) {
    const char *key = shoal_arena_printf(g->arena, "schedule %s", shoal_schedule_name(i));
    if (!key) return SHOAL_OOM();
    shoal_status_t status = shoal_plan_schedule(plan, gp, shoal_schedule_name(i));
    if (shoal_status_code(status) == SHOAL_OUT_OF_MEMORY) return status;
    const bool is_fresh = !status && shoal_coverage_count(g->coverage, "feature", key) == 0;
    if (is_fresh && !fresh) count = 0, fresh = true;
    if (!status && is_fresh == fresh) names[count++] = shoal_schedule_name(i);
    shoal_status_free(status);
  }
  if (count == 0) return NULL;
  *out_choice = names[shoal_roll(g, count)];
  gen_t aside = *g;  // dice of its own: other cases are what they were
  aside.state = ~g->state * 11;
  const bool scarce = shoal_coverage_count(g->coverage, "feature", "table in any order") < 10;
  const bool any_order = shoal_chance(&aside, scarce ? 50 : 20);
  if (!shoal_chance(g, 15) && !any_order) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_plan_schedule(plan, gp, *out_choice));
  shoal_schedule_t shuffled = *gp->schedule;
  if (any_order) SHOAL_RETURN_IF_ERROR(shuffle(&aside, gp->schedule, &shuffled));
  const char *text;
  SHOAL_RETURN_IF_ERROR(shoal_schedule_print(&shuffled, g->arena, &text));
  char *table = shoal_arena_printf(g->arena, "table %s", text);
  if (!table) return SHOAL_OOM();
  for (char *at = table; (at = strchr(at, '\n'));) *at = ' ';
  *out_choice = table;
  return NULL;
}

static shoal_status_t choose_for(gen_t *g, shoal_plan_t *plan, const char **out_choice) {
  for (int64_t i = 0; i < plan->model->graphs.count; ++i) {
    shoal_graph_plan_t *gp = &plan->graphs[i];
    shoal_stages_t stages;
    if (strcmp(gp->graph->name, "train") != 0) continue;
    SHOAL_RETURN_IF_ERROR(shoal_plan_stages(gp, g->arena, &stages));
    if (is_pipeline(plan, gp, &stages)) return choose(g, plan, gp, out_choice);
  }
  return NULL;
}

shoal_status_t shoal_generate_schedule(gen_t *g, const shoal_model_t *model, bool two) {
  shoal_plan_t *plan = NULL;
  const char *choice = NULL;
  if (two && shoal_chance(g, 40)) take_turns(g);
  const shoal_intent_t intent = shoal_random_case_intent(g->c);
  shoal_status_t status = shoal_plan_prepare(model, g->rules, &intent, (int32_t)g->c->ranks,
                                             g->arena->allocator, NULL, &plan);
  if (!status) status = choose_for(g, plan, &choice);
  shoal_plan_free(plan);
  if (shoal_status_code(status) == SHOAL_OUT_OF_MEMORY) return status;
  shoal_status_free(status);  // the plan will be refused; so be it
  return choice ? shoal_generate_decide(g, "schedule", "train", choice) : NULL;
}

// ---- pipelines ----------------------------------------------------------------------------------

static shoal_case_ref_t last_node(const gen_t *g) {
  return (shoal_case_ref_t){.kind = 'v', .index = (int32_t)g->c->nodes.count - 1};
}

// Each layer is a product with a weight and something element-wise, all of one width.
shoal_status_t shoal_generate_layers(gen_t *g) {
  static const char *const activations[] = {"tanh", "sigmoid", "gelu", "relu"};
  const int64_t layers = 3 + shoal_roll(g, 4), width = 2 + shoal_roll(g, 4);
  const shoal_shape_t rows = {.rank = 2, .dims = {3 + shoal_roll(g, 10), width}},
                      square = {.rank = 2, .dims = {width, width}};
  const bool tied = shoal_chance(g, 25), skip = shoal_chance(g, 25);
  shoal_generate_training(g);
  shoal_case_ref_t h = shoal_generate_input(g, &(shoal_case_input_t){.type = {g->dtype, rows}});
  shoal_case_ref_t first_weight = h, first = h;
  for (int64_t i = 0; i < layers; ++i) {
    const bool again = tied && i == layers - 1;
    const shoal_case_ref_t weight = again ? first_weight : shoal_generate_state(g, &square);
    if (i == 0) first_weight = weight;
    shoal_case_ref_t pair[2] = {h, weight}, out;
    if (!shoal_generate_node(g, "matmul", 2, pair, "transpose_a=0, transpose_b=0", 4, &out) ||
        !shoal_generate_node(g, activations[shoal_roll(g, 4)], 1, &out, "", 2, &h))
      return SHOAL_ERROR(INTERNAL, "a layer of a random case could not be made");
    if (i == 0) first = h;
    pair[0] = h, pair[1] = first;
    if (skip && i == layers - 2 && !shoal_generate_node(g, "add", 2, pair, "", 4, &h))
      return SHOAL_ERROR(INTERNAL, "a skip of a random case could not be made");
  }
  return NULL;
}

static bool pin_batch(gen_t *g, const char *name, const char *mesh, bool data) {
  const shoal_intent_entry_t pin = {
      name, shoal_arena_printf(g->arena, "%s!micro:0%s", mesh, data ? ",data:0" : "")};
  return pin.pattern && pin.value && SHOAL_PUSH(g->arena, &g->c->pins, pin);
}

static bool stage(gen_t *g, const char *pattern, const char *mesh) {
  return pattern && SHOAL_PUSH(g->arena, &g->c->stages, ((shoal_intent_entry_t){pattern, mesh}));
}

shoal_status_t shoal_generate_pipeline(gen_t *g, const shoal_model_t *model) {
  static const char *const names[] = {"p", "q", "r"};
  const int64_t meshes = 2 + shoal_chance(g, 40), micro = 2 + shoal_roll(g, 5);
  const int64_t nodes = g->c->nodes.count, turns = shoal_chance(g, 40) ? 2 : 1;
  bool ok = true;
  for (int64_t m = 0; m < meshes; ++m) {
    const int64_t size = 1 + shoal_roll(g, 2), from = g->c->ranks;
    const char *text = shoal_arena_printf(
        g->arena, size == 1 ? "%s!data=%lld,micro=%lld@%lld" : "%s!data=%lld,micro=%lld@%lld-%lld",
        names[m], (long long)size, (long long)micro, (long long)from, (long long)(from + size - 1));
    ok = ok && text && SHOAL_PUSH(g->arena, &g->c->meshes, text);
    g->c->ranks += size;
  }
  for (int64_t n = 0; n < nodes && ok; ++n)
    ok = stage(g, shoal_arena_printf(g->arena, "%s/*", shoal_random_case_scope(g->c, n).text),
               names[n * meshes * turns / nodes % meshes]);
  ok = ok && stage(g, "loss/*", names[meshes - 1]) &&
       pin_batch(g, "i0", names[0], shoal_chance(g, 80)) &&
       pin_batch(g, shoal_arena_printf(g->arena, "t%d", last_node(g).index), names[meshes - 1],
                 shoal_chance(g, 80));
  if (!ok) return SHOAL_OOM();
  return shoal_chance(g, 90) ? shoal_generate_schedule(g, model, false) : NULL;
}

// Strategy `pipeline`: the forward pass is divided into stages, each on a mesh of its own, which
// micro-batches pass one after the other (GPipe, Huang et al. 2019; PipeDream, Narayanan et al.
// 2019). The axis `pipe` of the mesh says how many meshes there are; its other axes are those of
// each of them, for other strategies. Where `pipe` is alone the ranks are dealt out over the meshes
// as axis `data`, unequally if need be.
//
// `pipeline` divides by the time of what lies between two borders, `uniform-pipeline` by the number
// of repeated blocks, both by what a decision of kind `balance` says; they take the division that
// moves the fewest bytes of those that are equally good. Where stages are asked for, by
// shoal_with_stage or by decisions about nodes, they are as asked, and nodes of which nothing is
// said follow what they read. The schedule is `1f1b`, or the one that is decided: how many stages
// it wants on a mesh, it gets. A weight that several stages read rests on the union of their
// meshes.
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "planners/batch.h"
#include "planners/chain.h"
#include "shoal/schedule.h"

typedef struct pipeline_planner {
  shoal_strategy_context_t *context;
  const shoal_graph_t *graph;
  shoal_chain_t chain;
  const char *schedule;  // a generator's name, or "table ..."
  int32_t mesh_count, stage_count;
  const shoal_mesh_t *meshes;
  const int32_t *stage_meshes;  // by stage
  int32_t asked_count;          // stages that were asked for; 0: none
  int32_t *of_node;             // by node: its stage; -1: none
} pipeline_planner_t;

// ---- meshes ----------------------------------------------------------------------------

// The ranks of mesh k and its axes: those of the mesh that was asked for at k along `pipe`.
static shoal_status_t cut_mesh(const pipeline_planner_t *p, int32_t pipe, int32_t k,
                               shoal_mesh_t *out_mesh) {
  const shoal_mesh_t *whole = &p->context->mesh;
  *out_mesh = (shoal_mesh_t){.micro = whole->micro};
  int64_t inner = 1, outer = 1;
  for (int32_t a = 0; a < whole->axis_count; ++a) {
    if (a == pipe) continue;
    out_mesh->axes[out_mesh->axis_count++] = whole->axes[a];
    *(a < pipe ? &outer : &inner) *= whole->axes[a].size;
  }
  int32_t *ranks = SHOAL_NEW(p->context->arena, int32_t, outer * inner);
  if (!ranks) return SHOAL_OOM();
  for (int64_t i = 0; i < outer * inner; ++i)
    ranks[i] = shoal_mesh_rank(whole, (i / inner * whole->axes[pipe].size + k) * inner + i % inner);
  out_mesh->ranks = ranks;
  return NULL;
}

// Mesh k of `count` where nothing but their number is said: its share of the world, in a row.
static shoal_status_t deal_mesh(const pipeline_planner_t *p, int32_t k, int32_t count,
                                shoal_mesh_t *out_mesh) {
  const int32_t world = p->context->options->world, each = world / count, more = world % count;
  const int32_t size = each + (k < more), first = k * each + (k < more ? k : more);
  *out_mesh = (shoal_mesh_t){.axis_count = 1, .micro = p->context->mesh.micro};
  out_mesh->axes[0] = (shoal_axis_t){.name = "data", .size = size};
  int32_t *ranks = SHOAL_NEW(p->context->arena, int32_t, size);
  if (!ranks) return SHOAL_OOM();
  for (int32_t i = 0; i < size; ++i) ranks[i] = first + i;
  out_mesh->ranks = ranks;
  return NULL;
}

static shoal_status_t add_mesh(const pipeline_planner_t *p, shoal_mesh_t *mesh, const char *name,
                               int32_t number) {
  const char *text;
  snprintf(mesh->name, sizeof mesh->name, "%s%d", name, number);
  SHOAL_RETURN_IF_ERROR(shoal_mesh_print(mesh, p->context->arena, &text));
  return shoal_context_mesh(p->context, text);
}

static shoal_status_t make_meshes(pipeline_planner_t *p) {
  const shoal_mesh_t *whole = &p->context->mesh;
  const int32_t pipe = shoal_mesh_axis(whole, "pipe");
  const bool alone = whole->axis_count == 1 && !whole->ranks;
  const int32_t world = p->context->options->world;
  if (alone ? p->mesh_count > world : !whole->ranks && shoal_mesh_size(whole) != world)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                            "make the product of the axes equal the number of ranks, or list ranks "
                            "with @; pipe=n alone deals them out",
                            "mesh '%s' has %lld ranks, the world has %d", p->context->options->mesh,
                            (long long)shoal_mesh_size(whole), world);
  shoal_mesh_t *meshes = SHOAL_NEW(p->context->arena, shoal_mesh_t, p->mesh_count);
  if (!meshes) return SHOAL_OOM();
  bool shared = false;
  for (int32_t k = 0; k < p->mesh_count; ++k) {
    SHOAL_RETURN_IF_ERROR(alone ? deal_mesh(p, k, p->mesh_count, &meshes[k])
                                : cut_mesh(p, pipe, k, &meshes[k]));
    shared |= alone && meshes[k].axes[0].size > 1;
    SHOAL_RETURN_IF_ERROR(add_mesh(p, &meshes[k], "pipe", k));
  }
  p->meshes = meshes;
  return shared ? shoal_strategy_cut_inputs(p->context, "data:0") : NULL;
}

// ---- stages ----------------------------------------------------------------------------

// What was decided about the graph, of this kind; NULL: nothing.
static const char *decided(const pipeline_planner_t *p, const char *kind) {
  const shoal_plan_options_t *options = p->context->options;
  for (int64_t i = options->decision_count; i-- > 0;)
    if (strcmp(options->decisions[i].kind, kind) == 0 &&
        shoal_pattern_match(options->decisions[i].pattern, p->graph->name))
      return options->decisions[i].choice;
  return NULL;
}

// A mesh that a table has no work for would be idle.
static shoal_status_t check_rows(const pipeline_planner_t *p, const int32_t *stage_meshes,
                                 int32_t stage_count) {
  int32_t used = 0, idle = -1;
  for (int32_t k = p->mesh_count; k-- > 0;) {
    bool any = false;
    for (int32_t s = 0; s < stage_count; ++s) any |= stage_meshes[s] == k;
    if (any)
      ++used;
    else
      idle = k;
  }
  if (idle < 0) return NULL;
  return SHOAL_ERROR_HINT(
      INVALID_ARGUMENT, "give every mesh a row with work, or make pipe=n the number of rows",
      "the table has work in %d rows, and the mesh has pipe=%d: the ranks of '%s' would have "
      "nothing to do",
      used, p->mesh_count, p->meshes[idle].name);
}

// The stages of a table, by the names of its rows.
static shoal_status_t read_table(pipeline_planner_t *p, const char *text) {
  const shoal_schedule_t *table;
  SHOAL_RETURN_IF_ERROR(shoal_schedule_parse("table", text, p->context->arena, &table));
  SHOAL_RETURN_IF_ERROR(shoal_schedule_check(table));
  int32_t *meshes = SHOAL_NEW(p->context->arena, int32_t, table->stage_count);
  if (!meshes) return SHOAL_OOM();
  for (int32_t s = 0; s < table->stage_count; ++s) {
    const char *name = table->rows[table->stage_meshes[s]].mesh;
    meshes[s] = -1;
    for (int32_t k = 0; k < p->mesh_count; ++k)
      if (strcmp(name, p->meshes[k].name) == 0) meshes[s] = k;
    if (meshes[s] < 0)
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "rows are called pipe0, pipe1 ...",
                              "the table has a row '%s', and there are %d meshes", name,
                              p->mesh_count);
  }
  SHOAL_RETURN_IF_ERROR(check_rows(p, meshes, table->stage_count));
  p->stage_count = table->stage_count;
  p->stage_meshes = meshes;
  return NULL;
}

// As many stages as were asked for, or as the schedule wants, and their meshes.
static shoal_status_t count_stages(pipeline_planner_t *p) {
  if (strncmp(p->schedule, "table", 5) == 0) return read_table(p, p->schedule + 5);
  const bool turns = strcmp(p->schedule, "interleaved") == 0;
  const bool back = strcmp(p->schedule, "zb-v") == 0;
  const int32_t m = p->mesh_count, asked = p->asked_count;
  p->stage_count = turns ? 2 * m : back ? 2 * m - 1 : m;
  if (asked > 0 && (turns ? asked % m == 0 : back && asked == 2 * m)) p->stage_count = asked;
  int32_t *meshes = SHOAL_NEW(p->context->arena, int32_t, p->stage_count);
  if (!meshes) return SHOAL_OOM();
  for (int32_t s = 0; s < p->stage_count; ++s)
    meshes[s] = back && s >= p->mesh_count ? p->stage_count - 1 - s : s % p->mesh_count;
  p->stage_meshes = meshes;
  return NULL;
}

// ---- stages that are asked for ---------------------------------------------------------

// The stage of a node by decision, on the mesh of that number, or by shoal_with_stage; -1: none.
static int32_t asked_stage(const pipeline_planner_t *p, const shoal_node_t *node) {
  const shoal_plan_options_t *options = p->context->options;
  int number, length;
  if (node->kind != SHOAL_NODE_FORWARD) return -1;
  for (int64_t i = options->decision_count; i-- > 0;) {
    const shoal_intent_decision_t *one = &options->decisions[i];
    if (strcmp(one->kind, "stage") != 0 || !shoal_pattern_match(one->pattern, node->name)) continue;
    if (sscanf(one->choice, "pipe%4d%n", &number, &length) == 1 && !one->choice[length] &&
        number >= 0)
      return number;
  }
  return node->stage - 1;
}

static void count_asked(pipeline_planner_t *p) {
  for (int64_t n = 0; n < p->graph->nodes.count; ++n) {
    const int32_t stage = asked_stage(p, &p->graph->nodes.items[n]);
    if (stage + 1 > p->asked_count) p->asked_count = stage + 1;
  }
}

// A node that nothing is said of is where the last of what it reads is; what comes before the first
// of which something is said is in stage 0; -1: it reads nothing that is anywhere.
static shoal_status_t follow_asked(pipeline_planner_t *p) {
  SHOAL_VEC(bool) used = {0};
  bool any = false;
  for (int32_t s = 0; s < p->stage_count; ++s)
    if (!SHOAL_PUSH(p->context->arena, &used, false)) return SHOAL_OOM();
  if (p->asked_count != p->stage_count)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                            "make pipe=n of the mesh the number of stages; 'interleaved' takes "
                            "several on each mesh",
                            "%d stages are asked for; schedule '%s' on %d meshes has %d",
                            p->asked_count, p->schedule, p->mesh_count, p->stage_count);
  for (int64_t n = 0; n < p->graph->nodes.count; ++n) {
    const shoal_node_t *node = &p->graph->nodes.items[n];
    const int32_t asked = asked_stage(p, node);
    int32_t stage = asked;
    for (int32_t i = 0; i < node->input_count; ++i) {
      const shoal_value_info_t *value = &p->graph->values.items[node->inputs[i]];
      const int32_t before = value->source == SHOAL_FROM_NODE ? p->of_node[value->node] : -1;
      if (asked >= 0 && before > asked)
        return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "stages pass values on to later ones only",
                                "'%s' is asked to be in stage %d, but reads '%s' of stage %d",
                                node->name, (int)asked, value->name, (int)before);
      if (before > stage) stage = before;
    }
    any |= asked >= 0;
    if (!any) stage = 0;
    p->of_node[n] = p->chain.of_node[n] >= 0 || asked >= 0 ? stage : -1;
    if (p->of_node[n] >= 0) used.items[p->of_node[n]] = true;
  }
  for (int32_t s = 0; s < p->stage_count; ++s)
    if (!used.items[s])
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "number stages without a gap",
                              "no node is in stage %d of %d", (int)s, (int)p->stage_count);
  return NULL;
}

// ---- stages that are found -------------------------------------------------------------

// The repeated blocks count; where those are too few, links with weights, then all. The others
// count less than a block all together, but they do count.
static void count_blocks(const pipeline_planner_t *p, double *costs) {
  for (int32_t what = 0; what < 3; ++what) {
    int32_t counted = 0;
    for (int32_t i = 0; i < p->chain.count; ++i) {
      const shoal_chain_link_t *link = &p->chain.links[i];
      const bool counts = what == 0 ? link->repeated : what == 1 ? link->parameters > 0 : true;
      costs[i] = counts ? 1 : 0.5 / p->chain.count;
      counted += counts;
    }
    if (counted >= p->stage_count) break;
  }
}

// By stage: which share of the batch's activations it has at a time, by the schedule.
static shoal_status_t weigh_flight(const pipeline_planner_t *p, double *factors) {
  const int32_t micro = (int32_t)p->context->mesh.micro;
  shoal_arena_t *arena = p->context->arena;
  const shoal_schedule_t *t = NULL;
  const shoal_pipeline_t pipeline = {.mesh_count = p->mesh_count,
                                     .stage_count = p->stage_count,
                                     .micro = micro,
                                     .stage_meshes = p->stage_meshes};
  for (int32_t s = 0; s < p->stage_count; ++s) factors[s] = 1;
  if (micro <= 1) return NULL;
  const bool table = strncmp(p->schedule, "table", 5) == 0;
  SHOAL_RETURN_IF_ERROR(table ? shoal_schedule_parse("table", p->schedule + 5, arena, &t)
                              : shoal_schedule_create(p->schedule, &pipeline, arena, &t));
  for (int32_t s = 0; s < p->stage_count; ++s)
    factors[s] = (double)shoal_schedule_in_flight(t, s, SHOAL_WORK_FORWARD, SHOAL_WORK_WEIGHT) /
                 (double)micro;
  return NULL;
}

// What each link counts, by what stages are to have equally much of.
static shoal_status_t weigh(const pipeline_planner_t *p, const char *balance,
                            shoal_chain_costs_t *out_costs) {
  shoal_arena_t *arena = p->context->arena;
  double *fixed = SHOAL_NEW(arena, double, p->chain.count);
  double *moving = SHOAL_NEW(arena, double, p->chain.count);
  double *factors = SHOAL_NEW(arena, double, p->stage_count);
  if (!fixed || !moving || !factors) return SHOAL_OOM();
  const bool memory = strcmp(balance, "memory") == 0;
  const bool activations = memory || strcmp(balance, "activations") == 0;
  for (int32_t i = 0; i < p->chain.count; ++i) {
    const shoal_chain_link_t *link = &p->chain.links[i];
    moving[i] = link->activations;
    fixed[i] = memory                               ? link->states
               : activations                        ? 0
               : strcmp(balance, "parameters") == 0 ? link->parameters
                                                    : link->time;
  }
  if (strcmp(balance, "blocks") == 0) count_blocks(p, fixed);
  if (activations) SHOAL_RETURN_IF_ERROR(weigh_flight(p, factors));
  *out_costs = (shoal_chain_costs_t){.fixed = fixed,
                                     .moving = activations ? moving : NULL,
                                     .factors = factors,
                                     .bytes_first = strcmp(balance, "boundary") == 0};
  return NULL;
}

// What no stage has yet, as it depends on states alone, is made on the stage that needs it first.
static shoal_status_t place_late(pipeline_planner_t *p) {
  bool *placed = SHOAL_NEW(p->context->arena, bool, p->graph->nodes.count);
  if (!placed) return SHOAL_OOM();
  for (int64_t n = 0; n < p->graph->nodes.count; ++n) placed[n] = p->of_node[n] >= 0;
  for (int64_t n = p->graph->nodes.count; n-- > 0;) {
    const shoal_node_t *node = &p->graph->nodes.items[n];
    const int32_t stage = p->of_node[n];
    for (int32_t i = 0; i < node->input_count && stage >= 0; ++i) {
      const shoal_value_info_t *value = &p->graph->values.items[node->inputs[i]];
      if (value->source != SHOAL_FROM_NODE || placed[value->node]) continue;
      int32_t *maker = &p->of_node[value->node];
      if (*maker < 0 || stage < *maker) *maker = stage;
    }
  }
  return NULL;
}

static shoal_status_t divide(pipeline_planner_t *p, const char *balance) {
  shoal_arena_t *arena = p->context->arena;
  int32_t *starts = SHOAL_NEW(arena, int32_t, p->stage_count);
  shoal_chain_costs_t costs;
  if (!starts) return SHOAL_OOM();
  if (p->chain.longest < p->stage_count)
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT, "use fewer stages: a smaller pipe=n, or another schedule",
        "the graph '%s' has %d layers or blocks in a row, which are too few for %d stages",
        p->graph->name, p->chain.longest, p->stage_count);
  SHOAL_RETURN_IF_ERROR(weigh(p, balance, &costs));
  SHOAL_RETURN_IF_ERROR(shoal_chain_divide(&p->chain, &costs, p->stage_count, arena, starts));
  for (int64_t n = 0; n < p->graph->nodes.count; ++n) {
    const int32_t link = p->chain.of_node[n];
    int32_t stage = -1;
    while (stage + 1 < p->stage_count && link >= starts[stage + 1]) ++stage;
    p->of_node[n] = stage;
  }
  return NULL;
}

// ---- intent ----------------------------------------------------------------------------

static shoal_status_t say_stage(const pipeline_planner_t *p, const char *pattern, int32_t stage) {
  return shoal_context_stage(p->context, pattern, p->meshes[p->stage_meshes[stage]].name);
}

// Scopes whose nodes are all on one mesh by one pattern, other nodes by their names.
static shoal_status_t say_stages(const pipeline_planner_t *p) {
  shoal_arena_t *arena = p->context->arena;
  bool *said = SHOAL_NEW(arena, bool, p->graph->nodes.count);
  if (!said) return SHOAL_OOM();
  for (int64_t n = 0; n < p->graph->nodes.count; ++n) {
    if (p->of_node[n] < 0 || said[n]) continue;
    const char *name = p->graph->nodes.items[n].name;
    bool scope;
    const size_t length = shoal_chain_link_length(name, &scope);
    for (int64_t m = 0; m < p->graph->nodes.count && scope; ++m)
      scope = p->of_node[m] < 0 || strncmp(p->graph->nodes.items[m].name, name, length + 1) != 0 ||
              p->stage_meshes[p->of_node[m]] == p->stage_meshes[p->of_node[n]];
    for (int64_t m = n; m < p->graph->nodes.count && scope; ++m)
      said[m] |= strncmp(p->graph->nodes.items[m].name, name, length + 1) == 0;
    const char *pattern = scope ? shoal_arena_printf(arena, "%.*s/*", (int)length, name) : name;
    if (!pattern) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(say_stage(p, pattern, p->of_node[n]));
  }
  return NULL;
}

// Do the meshes of a set have the same axes?
static bool alike(const pipeline_planner_t *p, const bool *set) {
  const shoal_mesh_t *first = NULL;
  for (int32_t k = 0; k < p->mesh_count; ++k) {
    if (!set[k]) continue;
    if (!first) first = &p->meshes[k];
    if (p->meshes[k].axis_count != first->axis_count) return false;
    for (int32_t a = 0; a < first->axis_count; ++a)
      if (p->meshes[k].axes[a].size != first->axes[a].size) return false;
  }
  return true;
}

// The union of meshes: with their axes inside of `pipe` where they are alike, else all its ranks
// along `data`.
static shoal_status_t join_meshes(const pipeline_planner_t *p, const bool *set, int32_t number) {
  shoal_mesh_t mesh = {.micro = p->context->mesh.micro};
  const bool same = alike(p, set);
  int64_t count = 0, size = 0;
  for (int32_t k = 0; k < p->mesh_count; ++k)
    if (set[k]) {
      size += shoal_mesh_size(&p->meshes[k]);
      if (++count > 1 || !same) continue;
      for (int32_t a = 0; a < p->meshes[k].axis_count; ++a) mesh.axes[1 + a] = p->meshes[k].axes[a];
      mesh.axis_count = 1 + p->meshes[k].axis_count;
    }
  mesh.axes[0] = (shoal_axis_t){.name = "pipe", .size = count};
  if (!same) {
    mesh.axes[0] = (shoal_axis_t){.name = "data", .size = size};
    mesh.axis_count = 1;
  }
  int32_t *ranks = SHOAL_NEW(p->context->arena, int32_t, size);
  if (!ranks) return SHOAL_OOM();
  size = 0;
  for (int32_t k = 0; k < p->mesh_count; ++k)
    for (int64_t i = 0; set[k] && i < shoal_mesh_size(&p->meshes[k]); ++i)
      ranks[size++] = shoal_mesh_rank(&p->meshes[k], i);
  mesh.ranks = ranks;
  return add_mesh(p, &mesh, "tied", number);
}

// A state that nodes on several meshes read rests on all of them: the plan finds it there, if it
// has a mesh of just their ranks.
static shoal_status_t join_tied(const pipeline_planner_t *p) {
  const int64_t states = p->context->model->states.count;
  const int32_t count = p->mesh_count;
  shoal_arena_t *arena = p->context->arena;
  bool *readers = SHOAL_NEW(arena, bool, states *count);
  int32_t unions = 0;
  if (!readers) return SHOAL_OOM();
  for (int64_t n = 0; n < p->graph->nodes.count; ++n) {
    const shoal_node_t *node = &p->graph->nodes.items[n];
    for (int32_t i = 0; i < node->input_count && p->of_node[n] >= 0; ++i) {
      const shoal_value_info_t *value = &p->graph->values.items[node->inputs[i]];
      if (value->source == SHOAL_FROM_STATE && value->type.shape.rank > 0)
        readers[value->index * count + p->stage_meshes[p->of_node[n]]] = true;
    }
  }
  for (int64_t s = 0; s < states; ++s) {
    const bool *set = &readers[s * count];
    int32_t meshes = 0;
    for (int32_t k = 0; k < count; ++k) meshes += set[k];
    bool known = meshes < 2;
    for (int64_t t = 0; t < s && !known; ++t)
      known = memcmp(&readers[t * count], set, (size_t)count * sizeof *set) == 0;
    if (!known) SHOAL_RETURN_IF_ERROR(join_meshes(p, set, unions++));
  }
  return NULL;
}

// Other graphs have the stages of the one that is divided: to balance them would do nothing.
static shoal_status_t check_balance(const pipeline_planner_t *p) {
  const shoal_plan_options_t *options = p->context->options;
  const shoal_model_t *model = p->context->model;
  for (int64_t i = 0; i < options->decision_count; ++i) {
    const shoal_intent_decision_t *one = &options->decisions[i];
    if (strcmp(one->kind, "balance") != 0 || shoal_pattern_match(one->pattern, p->graph->name))
      continue;
    bool other = false;
    for (int64_t g = 0; g < model->graphs.count; ++g)
      other |= shoal_pattern_match(one->pattern, model->graphs.items[g]->name);
    if (other)
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "name that graph: --decide 'balance train memory'",
                              "balance '%s': stages are found for the graph '%s', and the other "
                              "graphs have the same",
                              one->pattern, p->graph->name);
  }
  return NULL;
}

static shoal_status_t plan_pipeline(shoal_strategy_context_t *context, bool uniform) {
  pipeline_planner_t p = {.context = context};
  p.graph = shoal_model_find_graph(context->model, "train");
  for (int64_t g = 0; g < context->model->graphs.count && !p.graph; ++g)
    if (strcmp(context->model->graphs.items[g]->name, "init") != 0)
      p.graph = context->model->graphs.items[g];
  p.mesh_count = (int32_t)shoal_context_axis(context, "pipe");
  if (!p.graph) return NULL;
  SHOAL_RETURN_IF_ERROR(check_balance(&p));
  SHOAL_RETURN_IF_ERROR(shoal_chain_create(p.graph, context->arena, &p.chain));
  const char *asked = decided(&p, "balance");
  const char *balance = asked ? asked : uniform ? "blocks" : "time";
  p.schedule = decided(&p, "schedule");
  if (!p.schedule) p.schedule = "1f1b";
  count_asked(&p);
  if (!context->options->mesh) {
    const int32_t most = p.asked_count > 0 ? p.asked_count : p.chain.longest;
    if (p.mesh_count > most) p.mesh_count = most;
  }
  // One mesh has no stages. It is the one that was asked for; where that is `pipe` alone, all ranks
  // share the batch.
  const bool alone = context->mesh.axis_count == 1 && !context->mesh.ranks;
  if (p.mesh_count < 2) return alone ? make_meshes(&p) : NULL;
  SHOAL_RETURN_IF_ERROR(make_meshes(&p));
  SHOAL_RETURN_IF_ERROR(count_stages(&p));
  p.of_node = SHOAL_NEW(context->arena, int32_t, p.graph->nodes.count);
  if (!p.of_node) return SHOAL_OOM();
  if (p.asked_count > 0 && asked)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "leave one of them out",
                            "stages are asked for, which leaves nothing to balance by %s", asked);
  SHOAL_RETURN_IF_ERROR(p.asked_count > 0 ? follow_asked(&p) : divide(&p, balance));
  SHOAL_RETURN_IF_ERROR(place_late(&p));
  SHOAL_RETURN_IF_ERROR(say_stages(&p));
  SHOAL_RETURN_IF_ERROR(join_tied(&p));
  if (context->mesh.micro <= 1) return NULL;
  return shoal_context_decide(context, "schedule", p.graph->name, p.schedule, NULL);
}

shoal_status_t shoal_strategy_pipeline(shoal_strategy_context_t *context, void *user_data) {
  (void)user_data;
  return plan_pipeline(context, false);
}

shoal_status_t shoal_strategy_uniform_pipeline(shoal_strategy_context_t *context, void *user_data) {
  (void)user_data;
  return plan_pipeline(context, true);
}

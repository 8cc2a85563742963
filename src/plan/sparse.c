// Gradients that are sums of rows, as those of embeddings are: a step names few rows of a large
// table, each rank its own. Ranks add up their tables, as other gradients (*dense*), or each sends
// the rows that it has to all others, which add them (*sparse*): the composite way of an op that is
// `sparse` (op.h), whose last part then is no sum over ranks.
//
// Which of them moves fewer bytes is weighed here where nobody decides it by `sync`. Only a state
// whose gradient is made of such sums alone gains: beside a dense summand all is added up anyway.
#include "plan/sparse.h"

#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "op/type.h"
#include "plan/complete.h"
#include "plan/gradients.h"

// Rows go in three messages, with their ids and counts, and a sum in one. The two more take about
// as long as this many bytes do, at 10 us and 3 GB/s: small tables are not worth them.
#define MESSAGES_BYTES (64 << 10)

// ---- which sums make which gradient ----------------------------------------------------

typedef struct finder {
  shoal_plan_t *plan;
  const shoal_graph_t *graph;
  shoal_arena_t *scratch;
  int32_t *states;             // by node: the state whose gradient it is a summand of; -1: none
  const shoal_node_t **dense;  // by state: what makes another summand of its gradient, or NULL
  int32_t *stack;              // values
  int64_t depth;
  int32_t *seen;  // by value: the state, counted from 1, whose walk came by last
} finder_t;

// Is a sum over ranks of the output made by the same sums of all inputs of its shape? So it is for
// additions, casts and factors.
static shoal_status_t is_additive(const finder_t *f, const shoal_node_t *node, bool *out_additive) {
  shoal_call_t call;
  const shoal_rule_t *rule = NULL;
  *out_additive = false;
  SHOAL_RETURN_IF_ERROR(shoal_node_call(f->graph, node, f->scratch, &call));
  SHOAL_RETURN_IF_ERROR(shoal_rules_get(f->plan->rules, &call, &rule));
  for (int32_t w = 0; w < rule->way_count && !*out_additive; ++w) {
    const shoal_way_operand_t *operands = rule->ways[w].operands;
    bool sums = node->output_count == 1, any = false;
    for (int32_t k = 0; k <= node->input_count; ++k) {
      const bool input = k < node->input_count;
      if (input && !shoal_shape_equal(&call.inputs[k].shape, &call.outputs[0].shape)) continue;
      any |= input;
      sums &= operands[k].kind == SHOAL_OPERAND_PARTIAL && operands[k].reduce == SHOAL_REDUCE_SUM;
    }
    *out_additive = sums && any;
  }
  return NULL;
}

// What the gradient of a state is the sum of.
static shoal_status_t walk(finder_t *f, int32_t gradient, int32_t state) {
  f->depth = 0;
  f->stack[f->depth++] = gradient;
  while (f->depth > 0) {
    const shoal_value_info_t *info = &f->graph->values.items[f->stack[--f->depth]];
    const shoal_node_t *node = &f->graph->nodes.items[info->node];
    bool additive = false;
    if (node->op->sparse) {
      f->states[info->node] = state;
      continue;
    }
    SHOAL_RETURN_IF_ERROR(is_additive(f, node, &additive));
    if (!additive) f->dense[state] = node;
    for (int32_t k = 0; additive && k < node->input_count; ++k) {
      const int32_t value = node->inputs[k];
      const shoal_value_info_t *in = &f->graph->values.items[value];
      if (f->seen[value] == state + 1 || !shoal_shape_equal(&in->type.shape, &info->type.shape))
        continue;
      f->seen[value] = state + 1;
      if (in->source == SHOAL_FROM_NODE && shoal_node_is_gradient(&f->graph->nodes.items[in->node]))
        f->stack[f->depth++] = value;
      else
        f->dense[state] = node;
    }
  }
  return NULL;
}

// `dense` gathers over graphs.
static shoal_status_t find(shoal_plan_t *plan, const shoal_graph_t *graph, shoal_arena_t *scratch,
                           const shoal_node_t **dense, int32_t **out_states) {
  const int64_t count = graph->values.count;
  shoal_gradients_t *gradients = NULL;
  finder_t f = {.plan = plan, .graph = graph, .scratch = scratch, .dense = dense};
  f.states = SHOAL_NEW(scratch, int32_t, graph->nodes.count);
  f.stack = SHOAL_NEW(scratch, int32_t, count);
  f.seen = SHOAL_NEW(scratch, int32_t, count);
  if (!f.states || !f.stack || !f.seen) return SHOAL_OOM();
  for (int64_t n = 0; n < graph->nodes.count; ++n) f.states[n] = -1;
  *out_states = f.states;
  SHOAL_RETURN_IF_ERROR(shoal_gradients_make(graph, plan->model, scratch, &gradients));
  for (int32_t v = 0; v < count; ++v) {
    const int32_t state = shoal_gradients_state(gradients, v);
    if (state >= 0 && shoal_shape_equal(&graph->values.items[v].type.shape,
                                        &plan->model->states.items[state].type.shape))
      SHOAL_RETURN_IF_ERROR(walk(&f, v, state));
  }
  return NULL;
}

// ---- decisions -------------------------------------------------------------------------

// What decisions say of a state, all together.
static shoal_status_t words_of(shoal_plan_t *plan, int64_t state, shoal_arena_t *scratch,
                               shoal_sync_t *out_sync) {
  const shoal_patterns_t *all = &plan->patterns[SHOAL_DECIDE_SYNC];
  *out_sync = (shoal_sync_t){0};
  for (int64_t e = 0; e < all->count; ++e)
    if (shoal_pattern_match(all->entries[e].pattern, plan->model->states.items[state].name))
      SHOAL_RETURN_IF_ERROR(shoal_decision_sync(&all->entries[e], scratch, out_sync));
  return NULL;
}

// What the gradients of the model's states are made of.
typedef struct sums {
  int32_t **states;            // by graph and node: the state whose gradient it is a summand of
  bool *some;                  // by state: some summand is a sum of rows
  const shoal_node_t **dense;  // by state: a summand that is not, or NULL
} sums_t;

static shoal_status_t find_sums(shoal_plan_t *plan, shoal_arena_t *scratch, sums_t *out_sums) {
  const shoal_model_t *model = plan->original;
  sums_t sums = {.states = SHOAL_NEW(scratch, int32_t *, model->graphs.count),
                 .some = SHOAL_NEW(scratch, bool, model->states.count),
                 .dense = SHOAL_NEW(scratch, const shoal_node_t *, model->states.count)};
  if (!sums.states || !sums.some || !sums.dense) return SHOAL_OOM();
  for (int64_t g = 0; g < model->graphs.count; ++g) {
    const shoal_graph_t *graph = model->graphs.items[g];
    SHOAL_RETURN_IF_ERROR(find(plan, graph, scratch, sums.dense, &sums.states[g]));
    for (int64_t n = 0; n < graph->nodes.count; ++n)
      if (sums.states[g][n] >= 0) sums.some[sums.states[g][n]] = true;
  }
  *out_sums = sums;
  return NULL;
}

static shoal_status_t refuse(const shoal_plan_t *plan, const shoal_intent_decision_t *decision,
                             const sums_t *sums, int32_t state) {
  static const char hint[] = "it is for tables of embeddings that nothing else reads";
  const char *name = plan->model->states.items[state].name;
  const shoal_node_t *dense = sums->dense[state];
  shoal_status_t status =
      !dense ? SHOAL_ERROR_HINT(INVALID_ARGUMENT, hint,
                                "about state '%s': it has no gradient to exchange", name)
      : sums->some[state]
          ? SHOAL_ERROR_HINT(INVALID_ARGUMENT, hint,
                             "about state '%s': its gradient is a sum of rows and of what '%s' "
                             "makes, which is dense",
                             name, dense->name)
          : SHOAL_ERROR_HINT(INVALID_ARGUMENT, hint,
                             "about state '%s': its gradient, which '%s' makes, is dense", name,
                             dense->name);
  return shoal_decision_annotate(decision, status);
}

// Asking for rows where no gradient is made of rows does nothing.
static shoal_status_t check_decision(shoal_plan_t *plan, const shoal_intent_decision_t *decision,
                                     const sums_t *sums, shoal_arena_t *scratch) {
  shoal_sync_t own = {0};
  int32_t other = -1, tells = -1;  // the state whose refusal tells most
  SHOAL_RETURN_IF_ERROR(shoal_decision_sync(decision, scratch, &own));
  if (own.rows != SHOAL_ROWS_SPARSE) return NULL;
  for (int32_t s = 0; s < plan->model->states.count; ++s) {
    if (!shoal_pattern_match(decision->pattern, plan->model->states.items[s].name)) continue;
    if (sums->some[s] && !sums->dense[s]) return NULL;
    const int32_t told = sums->some[s] ? 2 : sums->dense[s] ? 1 : 0;
    if (told > tells) other = s, tells = told;
  }
  return other < 0 ? NULL : refuse(plan, decision, sums, other);
}

static shoal_status_t check_type(const shoal_plan_t *plan, int64_t state,
                                 const shoal_sync_t *sync) {
  if (sync->rows != SHOAL_ROWS_SPARSE || !sync->cast) return NULL;
  return shoal_decision_annotate(
      sync->rows_by,
      SHOAL_ERROR_HINT(UNSUPPORTED, "say dtype=none of it as well, or dense",
                       "about state '%s': rows are sent in their own type, and it "
                       "is to be exchanged as %s",
                       plan->model->states.items[state].name, shoal_dtype_name(sync->dtype)));
}

shoal_status_t shoal_sparse_ask(shoal_plan_t *plan, int64_t g, shoal_arena_t *scratch,
                                const shoal_intent_decision_t **out_asked) {
  const shoal_graph_t *graph = plan->original->graphs.items[g];
  const shoal_patterns_t *all = &plan->patterns[SHOAL_DECIDE_SYNC];
  const int64_t count = plan->original->states.count;
  bool any = false;
  for (int64_t e = 0; e < all->count; ++e) any |= strstr(all->entries[e].choice, "sparse") != NULL;
  if (!any) return NULL;
  sums_t sums = {0};
  shoal_sync_t *syncs = SHOAL_NEW(scratch, shoal_sync_t, count);
  if (!syncs) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(find_sums(plan, scratch, &sums));
  for (int64_t e = 0; e < all->count; ++e)
    SHOAL_RETURN_IF_ERROR(check_decision(plan, &all->entries[e], &sums, scratch));
  for (int64_t s = 0; s < count; ++s) {
    if (!sums.some[s] || sums.dense[s]) continue;
    SHOAL_RETURN_IF_ERROR(words_of(plan, s, scratch, &syncs[s]));
    SHOAL_RETURN_IF_ERROR(check_type(plan, s, &syncs[s]));
  }
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const int32_t state = sums.states[g][n];
    if (state >= 0 && syncs[state].rows == SHOAL_ROWS_SPARSE && graph->nodes.items[n].op->decompose)
      out_asked[n] = syncs[state].rows_by;
  }
  return NULL;
}

shoal_status_t shoal_sparse_check(const shoal_plan_t *plan, const shoal_composite_t *composite) {
  const shoal_row_sum_t *rows = shoal_sparse_of(plan, composite);
  if (!rows || rows->state < 0 || plan->syncs[rows->state].rows != SHOAL_ROWS_DENSE) return NULL;
  return shoal_decision_annotate(
      plan->syncs[rows->state].rows_by,
      SHOAL_ERROR_HINT(INVALID_ARGUMENT, "take one of the two decisions out",
                       "about state '%s': node '%s' was asked for as composite, which sends rows",
                       plan->model->states.items[rows->state].name,
                       shoal_composite_node(plan, composite)->name));
}

shoal_status_t shoal_sparse_settle(shoal_plan_t *plan) {
  bool *meant = SHOAL_NEW(&plan->arena, bool, plan->model->states.count);
  if (!meant) return SHOAL_OOM();
  for (int64_t g = 0; g < plan->model->graphs.count; ++g) {
    const shoal_graph_plan_t *gp = &plan->graphs[g];
    for (int64_t n = 0; gp->rows && n < gp->graph->nodes.count; ++n) {
      const int32_t state = gp->rows[n].state;
      if (state >= 0)
        meant[state] |= gp->rows[n].alone || plan->syncs[state].rows == SHOAL_ROWS_DENSE;
    }
  }
  for (int64_t s = 0; s < plan->model->states.count; ++s) {
    if (meant[s]) continue;
    plan->syncs[s].rows = SHOAL_ROWS_BY_COST;
    plan->syncs[s].rows_by = NULL;
  }
  return NULL;
}

// ---- weighing --------------------------------------------------------------------------

static shoal_status_t fill(shoal_plan_t *plan, shoal_graph_plan_t *gp, shoal_arena_t *scratch) {
  const shoal_graph_t *graph = gp->graph;
  const shoal_layout_t **homes = NULL;
  int32_t *states = NULL;
  bool any = false;
  const shoal_node_t **dense = SHOAL_NEW(scratch, const shoal_node_t *, plan->model->states.count);
  shoal_row_sum_t *rows = SHOAL_NEW(&plan->arena, shoal_row_sum_t, graph->nodes.count);
  if (!dense || !rows) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(find(plan, graph, scratch, dense, &states));
  SHOAL_RETURN_IF_ERROR(shoal_plan_state_homes(plan, gp, scratch, &homes, &any));
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    rows[n].state = states[n];
    if (states[n] < 0) continue;
    const shoal_sync_t *sync = &plan->syncs[states[n]];
    rows[n].home = homes[states[n]];
    rows[n].alone = !dense[states[n]];
    rows[n].by_cost = sync->rows == SHOAL_ROWS_BY_COST && !sync->cast && rows[n].alone;
    rows[n].times = sync->each ? plan->micro : 1;
  }
  gp->rows = rows;
  return NULL;
}

shoal_status_t shoal_sparse_find(shoal_plan_t *plan, shoal_graph_plan_t *gp) {
  bool found = false;
  for (int64_t n = 0; n < gp->graph->nodes.count && !found; ++n)
    found = gp->graph->nodes.items[n].op->sparse;
  gp->rows = NULL;
  if (!found) return NULL;
  shoal_arena_t scratch;
  shoal_arena_init(plan->allocator, &scratch);
  shoal_status_t status = fill(plan, gp, &scratch);
  shoal_arena_deinit(&scratch);
  return status;
}

const shoal_row_sum_t *shoal_sparse_of(const shoal_plan_t *plan,
                                       const shoal_composite_t *composite) {
  const shoal_graph_plan_t *gp = &plan->graphs[composite->graph];
  const int32_t last = composite->first + composite->count - 1;
  return gp->rows && gp->graph->nodes.items[last].op->sparse ? &gp->rows[last] : NULL;
}

// In how many parts ranks have the dims from `first` on.
static double parts_of(const shoal_layout_t *layout, int32_t first) {
  double parts = 1;
  for (int32_t i = 0; i < layout->cut_count; ++i)
    if (layout->cuts[i].kind == SHOAL_CUT_DIM && layout->cuts[i].axis != SHOAL_AXIS_MICRO &&
        layout->cuts[i].dim >= first)
      parts *= (double)layout->mesh->axes[layout->cuts[i].axis].size;
  return parts;
}

// A sum that is wanted in parts is scattered, which is half of adding it up for all.
double shoal_sparse_sum_cost(const shoal_row_sum_t *rows, const shoal_layout_t *sum,
                             const shoal_type_t *type, int32_t axis) {
  const shoal_cut_t *cut = shoal_layout_along(sum, axis);
  if (!cut || cut->kind != SHOAL_CUT_PARTIAL) return 0;
  const shoal_cut_t *home =
      rows->home && rows->home->mesh == sum->mesh ? shoal_layout_along(rows->home, axis) : NULL;
  const double bytes =
      (double)shoal_shape_count(&type->shape) * (double)shoal_dtype_size(type->dtype);
  return (home ? 1 : 2) * (double)rows->times * bytes / parts_of(sum, 0);
}

double shoal_sparse_send_cost(const shoal_layout_t *sum, double cost) {
  return cost / parts_of(sum, 1);
}

bool shoal_sparse_pays(double added, double sent, int32_t axes) {
  return sent + (double)axes * MESSAGES_BYTES < added;
}

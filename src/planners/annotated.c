// Strategy `annotated` (EPL's replicate and split; Jia et al. 2022, "Whale"): the model says itself
// how ranks share its parts, by shoal_with_replicate, shoal_with_split and shoal_with_stage.
//
// The mesh follows: `pipe` has the stages, `tensor` the ranks of a split, `data` the copies that
// are left. A replicated part has its batch cut along `data` and `tensor`, so that all ranks work;
// a split part has its batch cut along `data` and its weights along `tensor`, as `tensor` cuts
// them. Between them completion moves values: features are gathered over `tensor` in front of a
// split classifier, and their gradients reduced and scattered. Where the parts end, ways are
// decided, so that no weight is gathered instead.
//
// There is one size of a split in a model, and stages have equally many ranks where there is one:
// others are refused. Graph `train` decides; other graphs share its weights and names, and so
// follow it. What they ask for themselves is checked to be the same.
#include "planners/annotated.h"

#include <string.h>

#include "base/status.h"
#include "planners/batch.h"
#include "planners/tensor.h"

// What the annotations of a model amount to.
typedef struct wishes {
  const shoal_model_t *model;
  bool alone;                  // on one rank nothing has to fit together
  const shoal_graph_t *graph;  // "train", or the first after init; NULL: there is none
  int32_t stages;              // at least 1
  int32_t split;               // ranks of a split; 0: all of a stage's
  const shoal_node_t *split_at, *replicate_at;  // the graph's first of each; NULL: there is none
  const shoal_node_t *sized_at, *all_at;        // any graph's first split over `split`, over all
  const shoal_node_t *stray_at;                 // the first split of another graph
} wishes_t;

bool shoal_model_is_annotated(const shoal_model_t *model) {
  for (int64_t g = 0; g < model->graphs.count; ++g)
    for (int64_t n = 0; n < model->graphs.items[g]->nodes.count; ++n)
      if (model->graphs.items[g]->nodes.items[n].sharing.kind != SHOAL_SHARE_NONE) return true;
  return false;
}

static shoal_status_t other_split(const shoal_node_t *a, int64_t ranks, const shoal_node_t *b,
                                  int64_t others) {
  return SHOAL_ERROR_HINT(UNSUPPORTED, "split all parts of a model over equally many ranks",
                          "'%s' (%s:%d) is split over %lld ranks and '%s' (%s:%d) over %lld",
                          a->name, a->file, a->line, (long long)ranks, b->name, b->file, b->line,
                          (long long)others);
}

static shoal_status_t read_node(const shoal_node_t *node, bool decides, wishes_t *w) {
  const shoal_sharing_t *sharing = &node->sharing;
  if (decides && node->stage > w->stages) w->stages = node->stage;
  if (decides && sharing->kind == SHOAL_SHARE_REPLICATE && !w->replicate_at) w->replicate_at = node;
  if (sharing->kind != SHOAL_SHARE_SPLIT) return NULL;
  if (decides && !w->split_at) w->split_at = node;
  if (!decides && !w->stray_at) w->stray_at = node;
  if (sharing->ranks == 0) {
    if (!w->all_at) w->all_at = node;
    return NULL;
  }
  if (w->sized_at && w->split != sharing->ranks && !w->alone)
    return other_split(w->sized_at, w->split, node, sharing->ranks);
  if (!w->sized_at) w->sized_at = node;
  w->split = sharing->ranks;
  return NULL;
}

static shoal_status_t read_wishes(const shoal_strategy_context_t *context, wishes_t *w) {
  const shoal_model_t *model = context->model;
  *w = (wishes_t){.model = model,
                  .alone = context->options->world == 1,
                  .graph = shoal_model_find_graph(model, "train"),
                  .stages = 1};
  for (int64_t g = 0; g < model->graphs.count && !w->graph; ++g)
    if (strcmp(model->graphs.items[g]->name, "init") != 0) w->graph = model->graphs.items[g];
  for (int64_t g = 0; g < model->graphs.count; ++g) {
    const shoal_graph_t *graph = model->graphs.items[g];
    for (int64_t n = 0; n < graph->nodes.count; ++n)
      SHOAL_RETURN_IF_ERROR(read_node(&graph->nodes.items[n], graph == w->graph, w));
  }
  return NULL;
}

// Does what decides say anything, and nothing less than others do?
static shoal_status_t check_graphs(const wishes_t *w) {
  const bool says = w->split_at || w->replicate_at || w->stages > 1;
  if (!says && !(w->alone && shoal_model_is_annotated(w->model)))
    return SHOAL_ERROR_HINT(UNSUPPORTED, "name another strategy, or annotate this graph (graph.h)",
                            "nothing in graph '%s' says how to share it: shoal_with_replicate, "
                            "shoal_with_split",
                            w->graph->name);
  if (w->split_at || !w->stray_at || w->alone) return NULL;
  return SHOAL_ERROR_HINT(UNSUPPORTED, "split the same part there, or none here",
                          "'%s' (%s:%d) is split, and nothing in graph '%s' is, which decides how "
                          "ranks hold the weights",
                          w->stray_at->name, w->stray_at->file, w->stray_at->line, w->graph->name);
}

// ---- the mesh --------------------------------------------------------------------------

static shoal_status_t check_count(const wishes_t *w, const shoal_node_t *node, int64_t ranks) {
  if (node->sharing.ranks == 0 || ranks % node->sharing.ranks == 0) return NULL;
  return SHOAL_ERROR_HINT(
      INVALID_ARGUMENT, "start a multiple of it, or ask for 0: all ranks there are",
      "'%s' (%s:%d) is asked to be %s over %d ranks, and %s %lld", node->name, node->file,
      node->line, node->sharing.kind == SHOAL_SHARE_SPLIT ? "split" : "replicated",
      (int)node->sharing.ranks, w->stages > 1 ? "its stage has" : "there are", (long long)ranks);
}

// Is a stage's number of ranks a multiple of what every part asks for?
static shoal_status_t check_counts(const wishes_t *w, int64_t ranks) {
  for (int64_t g = 0; g < w->model->graphs.count; ++g) {
    const shoal_graph_t *graph = w->model->graphs.items[g];
    for (int64_t n = 0; n < graph->nodes.count; ++n)
      SHOAL_RETURN_IF_ERROR(check_count(w, &graph->nodes.items[n], ranks));
  }
  return NULL;
}

shoal_status_t shoal_annotated_mesh(shoal_strategy_context_t *context, const char **out_mesh) {
  const int32_t world = context->options->world;
  wishes_t w;
  SHOAL_RETURN_IF_ERROR(read_wishes(context, &w));
  if (!w.graph || world == 1) {
    const char *micro = context->options->mesh;
    *out_mesh = micro ? shoal_arena_printf(context->arena, "data=1,%s", micro) : "data=1";
    return *out_mesh ? NULL : SHOAL_OOM();
  }
  const int64_t each = world / w.stages;
  const bool even = world % w.stages == 0;
  if (each == 0 || (!even && (w.split_at || w.replicate_at)))
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "start a multiple of the number of stages",
                            "%d ranks cannot be dealt to %d stages", world, w.stages);
  if (even) SHOAL_RETURN_IF_ERROR(check_counts(&w, each));
  if (w.sized_at && w.all_at && w.split != each)
    return other_split(w.sized_at, w.split, w.all_at, each);
  const int64_t tensor = !w.split_at ? 1 : w.split > 0 ? w.split : each;
  const int64_t data = each / tensor;
  const char *text = "", *micro = context->options->mesh ? context->options->mesh : "";
  if (w.stages > 1) text = shoal_arena_printf(context->arena, "pipe=%d,", w.stages);
  if (text && even && (data > 1 || (w.stages == 1 && tensor == 1)))
    text = shoal_arena_printf(context->arena, "%sdata=%lld,", text, (long long)data);
  if (text && tensor > 1)
    text = shoal_arena_printf(context->arena, "%stensor=%lld,", text, (long long)tensor);
  if (text) text = shoal_arena_printf(context->arena, "%s%s", text, micro);
  const int length = text ? (int)strlen(text) - (micro[0] == 0) : 0;
  *out_mesh = text ? shoal_arena_printf(context->arena, "%.*s", length, text) : NULL;
  return *out_mesh ? NULL : SHOAL_OOM();
}

// A mesh that was given has the axes that are asked for: an axis that it lacks has one rank. Over
// "all" ranks means over all of its axis `tensor`, which only a stage of one rank does without.
static shoal_status_t check_mesh(const shoal_strategy_context_t *context, const wishes_t *w) {
  const int64_t pipe = shoal_context_axis(context, "pipe");
  const int64_t tensor = shoal_context_axis(context, "tensor");
  const int64_t each = shoal_mesh_size(&context->mesh) / (pipe > 0 ? pipe : 1);
  if (w->sized_at && w->split_at && w->split != (tensor > 0 ? tensor : 1))
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "leave the mesh out, or give its axis tensor so many",
                            "'%s' (%s:%d) is split over %d ranks, and axis 'tensor' of the mesh "
                            "has %lld",
                            w->sized_at->name, w->sized_at->file, w->sized_at->line, (int)w->split,
                            (long long)(tensor > 0 ? tensor : 1));
  if (w->split_at && !w->sized_at && tensor == 0 && each > 1)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "leave the mesh out, or give it an axis tensor",
                            "'%s' (%s:%d) is split, and the mesh has no axis 'tensor'",
                            w->split_at->name, w->split_at->file, w->split_at->line);
  return check_counts(w, each);
}

// ---- parts -----------------------------------------------------------------------------

// Does a forward node that is not split read the value?
static bool meets_rows(const shoal_graph_t *graph, int32_t value) {
  bool any = false, split = false;
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    if (node->kind != SHOAL_NODE_FORWARD) continue;
    for (int32_t k = 0; k < node->input_count; ++k) {
      if (node->inputs[k] != value) continue;
      any |= node->sharing.kind != SHOAL_SHARE_SPLIT;
      split |= node->sharing.kind == SHOAL_SHARE_SPLIT;
    }
  }
  return any || !split;
}

// Inputs are cut by rows over all ranks of a replicated part; those that only split parts read,
// over the copies of these.
static shoal_status_t cut_inputs(shoal_strategy_context_t *context, const wishes_t *w) {
  for (int64_t i = 0; i < w->graph->inputs.count; ++i) {
    const shoal_named_t *input = &w->graph->inputs.items[i];
    if (w->graph->values.items[input->value].type.shape.rank > 0 &&
        meets_rows(w->graph, input->value))
      SHOAL_RETURN_IF_ERROR(shoal_context_cut(context, input->name, "tensor:0"));
  }
  return NULL;
}

// A replicated node that reads what a split one made goes on by rows.
static shoal_status_t decide_rows(shoal_strategy_context_t *context,
                                  const shoal_tensor_products_t *found, int64_t n) {
  const shoal_node_t *node = &found->graph->nodes.items[n];
  const shoal_rule_t *rule = found->rules[n];
  for (int32_t k = 0; k < node->input_count; ++k) {
    const shoal_value_info_t *value = &found->graph->values.items[node->inputs[k]];
    if (value->source != SHOAL_FROM_NODE ||
        found->graph->nodes.items[value->node].sharing.kind != SHOAL_SHARE_SPLIT)
      continue;
    for (int32_t w = 0; w < rule->way_count; ++w) {
      const shoal_way_operand_t *in = &rule->ways[w].operands[k];
      if (in->kind == SHOAL_OPERAND_CUT && in->dim == 0)
        return shoal_context_decide_way(context, node, "tensor", &rule->ways[w],
                                        "the part is replicated: each rank takes rows");
    }
  }
  return NULL;
}

// A split node of several phases stays with what is cut: losses, largest elements.
static shoal_status_t decide_split(shoal_strategy_context_t *context,
                                   const shoal_tensor_products_t *found) {
  for (int64_t i = 0; i < found->products.count; ++i) {
    const shoal_tensor_product_t *product = &found->products.items[i];
    SHOAL_RETURN_IF_ERROR(
        shoal_context_decide_way(context, &found->graph->nodes.items[product->node], "tensor",
                                 product->way, "the part is split: each rank has a part of it"));
  }
  for (int64_t n = 0; n < found->graph->nodes.count; ++n) {
    const shoal_node_t *node = &found->graph->nodes.items[n];
    if (node->sharing.kind != SHOAL_SHARE_SPLIT || !node->op->decompose) continue;
    bool meets = false, follows = false;  // what is cut; and goes on with it in one phase
    for (int32_t k = 0; k < node->input_count; ++k) meets |= found->cut[node->inputs[k]];
    for (int32_t o = 0; o < node->output_count; ++o) follows |= found->cut[node->outputs[o]];
    if (meets && !follows)
      SHOAL_RETURN_IF_ERROR(
          shoal_context_decide(context, "way", node->name, "tensor=composite",
                               "the part is split: what it reads stays on the ranks that have it"));
  }
  return NULL;
}

static shoal_status_t share_parts(shoal_strategy_context_t *context, const wishes_t *w) {
  bool *split = SHOAL_NEW(context->arena, bool, w->graph->nodes.count);
  shoal_tensor_products_t found;
  if (!split) return SHOAL_OOM();
  for (int64_t n = 0; n < w->graph->nodes.count; ++n)
    split[n] = w->graph->nodes.items[n].sharing.kind == SHOAL_SHARE_SPLIT;
  SHOAL_RETURN_IF_ERROR(cut_inputs(context, w));
  SHOAL_RETURN_IF_ERROR(shoal_tensor_place(context, split, &found));
  if (found.products.count == 0)
    return SHOAL_ERROR_HINT(
        UNSUPPORTED, "put a layer with a matrix as weight inside: shoal_nn_linear",
        "nothing in the part of '%s' (%s:%d) can be split: it has no product with a weight",
        w->split_at->name, w->split_at->file, w->split_at->line);
  SHOAL_RETURN_IF_ERROR(decide_split(context, &found));
  for (int64_t n = 0; n < w->graph->nodes.count; ++n)
    if (w->graph->nodes.items[n].sharing.kind == SHOAL_SHARE_REPLICATE)
      SHOAL_RETURN_IF_ERROR(decide_rows(context, &found, n));
  return NULL;
}

shoal_status_t shoal_strategy_annotated(shoal_strategy_context_t *context, void *user_data) {
  wishes_t w;
  SHOAL_RETURN_IF_ERROR(read_wishes(context, &w));
  if (!w.graph) return NULL;
  SHOAL_RETURN_IF_ERROR(check_graphs(&w));
  if (!w.alone) SHOAL_RETURN_IF_ERROR(check_mesh(context, &w));
  const bool stages = shoal_context_axis(context, "pipe") > 1;
  if (stages && strstr(context->options->strategy, "pipeline"))
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "leave it out: an annotated model brings its own",
                            "'%s' asks for the stages of a pipeline twice",
                            context->options->strategy);
  if (stages) SHOAL_RETURN_IF_ERROR(shoal_strategy_pipeline(context, user_data));
  SHOAL_RETURN_IF_ERROR(shoal_strategy_data(context, user_data));
  if (!w.split_at || shoal_context_axis(context, "tensor") < 2) return NULL;
  return share_parts(context, &w);
}

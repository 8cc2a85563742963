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
// Splits of several sizes, each a multiple of the next smaller one, get axes of their own: with 2
// and 8 ranks, `tensor` has 2 and `split` 4. The larger split is one over both, outer axis first;
// to the smaller one `split` is what `data` is, and its batch is cut along it. A part's *level* is
// the number of these axes that it is split over; that of a replicated part is 0. Stages have
// equally many ranks where there is a split. Graph `train` decides; other graphs share its weights
// and names, and so follow it. What they ask for themselves is checked to be the same.
#include "planners/annotated.h"

#include <string.h>

#include "base/status.h"
#include "planners/batch.h"
#include "planners/tensor.h"

// Axes of splits, the innermost first.
static const char *const split_axes[] = {"tensor", "split", "split2"};
enum { MOST_SIZES = sizeof split_axes / sizeof *split_axes };

// What the annotations of a model amount to.
typedef struct wishes {
  const shoal_model_t *model;
  bool alone;                  // on one rank nothing has to fit together
  const shoal_graph_t *graph;  // "train", or the first after init; NULL: there is none
  int32_t stages;              // at least 1
  // The graph's splits of two ranks or more, smallest first, and a node of each.
  int32_t size_count, sizes[MOST_SIZES];
  const shoal_node_t *sized_at[MOST_SIZES];
  const shoal_node_t *split_at, *replicate_at;  // the graph's first of each; NULL: there is none
  const shoal_node_t *all_at;                   // its first split over all ranks of a stage
  const shoal_node_t *stray_at;                 // the first split of another graph
  int32_t levels;                               // axes of splits that the mesh has
  int64_t ranks[MOST_SIZES];                    // of a split of that level, less one
} wishes_t;

bool shoal_model_is_annotated(const shoal_model_t *model) {
  for (int64_t g = 0; g < model->graphs.count; ++g)
    for (int64_t n = 0; n < model->graphs.items[g]->nodes.count; ++n)
      if (model->graphs.items[g]->nodes.items[n].sharing.kind != SHOAL_SHARE_NONE) return true;
  return false;
}

static shoal_status_t other_split(const shoal_node_t *a, int64_t ranks, const shoal_node_t *b,
                                  int64_t others) {
  return SHOAL_ERROR_HINT(
      UNSUPPORTED, "split parts over numbers of ranks that divide one another, as graph train does",
      "'%s' (%s:%d) is split over %lld ranks and '%s' (%s:%d) over %lld", a->name, a->file, a->line,
      (long long)ranks, b->name, b->file, b->line, (long long)others);
}

// Puts a size among the others. It divides them, or they divide it.
static shoal_status_t add_size(wishes_t *w, const shoal_node_t *node, int32_t ranks) {
  int32_t at = 0;
  while (at < w->size_count && w->sizes[at] < ranks) ++at;
  if (ranks < 2 || (at < w->size_count && w->sizes[at] == ranks)) return NULL;
  for (int32_t i = 0; i < w->size_count; ++i)
    if (ranks % w->sizes[i] != 0 && w->sizes[i] % ranks != 0)
      return other_split(w->sized_at[i], w->sizes[i], node, ranks);
  if (w->size_count == MOST_SIZES)
    return SHOAL_ERROR_HINT(UNSUPPORTED, "split some of them over equally many",
                            "'%s' (%s:%d) is split over %d ranks, and other parts over %d other "
                            "numbers already",
                            node->name, node->file, node->line, (int)ranks, (int)MOST_SIZES);
  for (int32_t i = w->size_count++; i > at; --i) {
    w->sizes[i] = w->sizes[i - 1];
    w->sized_at[i] = w->sized_at[i - 1];
  }
  w->sizes[at] = ranks;
  w->sized_at[at] = node;
  return NULL;
}

static shoal_status_t read_node(const shoal_node_t *node, wishes_t *w) {
  const shoal_sharing_t *sharing = &node->sharing;
  if (node->stage > w->stages) w->stages = node->stage;
  if (sharing->kind == SHOAL_SHARE_REPLICATE && !w->replicate_at) w->replicate_at = node;
  if (sharing->kind != SHOAL_SHARE_SPLIT) return NULL;
  if (!w->split_at) w->split_at = node;
  if (sharing->ranks == 0 && !w->all_at) w->all_at = node;
  return w->alone ? NULL : add_size(w, node, sharing->ranks);
}

// A split of another graph has a size that the deciding graph has, too.
static shoal_status_t read_stray(const shoal_node_t *node, wishes_t *w) {
  const int32_t ranks = node->sharing.ranks;
  if (node->sharing.kind != SHOAL_SHARE_SPLIT) return NULL;
  if (!w->stray_at) w->stray_at = node;
  bool known = ranks < 2 || w->size_count == 0 || w->alone;
  for (int32_t i = 0; i < w->size_count; ++i) known |= w->sizes[i] == ranks;
  return known ? NULL : other_split(w->sized_at[0], w->sizes[0], node, ranks);
}

static shoal_status_t read_wishes(const shoal_strategy_context_t *context, wishes_t *w) {
  const shoal_model_t *model = context->model;
  *w = (wishes_t){.model = model,
                  .alone = context->options->world == 1,
                  .graph = shoal_model_find_graph(model, "train"),
                  .stages = 1};
  for (int64_t g = 0; g < model->graphs.count && !w->graph; ++g)
    if (strcmp(model->graphs.items[g]->name, "init") != 0) w->graph = model->graphs.items[g];
  for (int64_t n = 0; w->graph && n < w->graph->nodes.count; ++n)
    SHOAL_RETURN_IF_ERROR(read_node(&w->graph->nodes.items[n], w));
  for (int64_t g = 0; g < model->graphs.count; ++g) {
    const shoal_graph_t *graph = model->graphs.items[g];
    for (int64_t n = 0; n < graph->nodes.count && graph != w->graph; ++n)
      SHOAL_RETURN_IF_ERROR(read_stray(&graph->nodes.items[n], w));
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
  if (w.all_at) SHOAL_RETURN_IF_ERROR(add_size(&w, w.all_at, (int32_t)each));
  const int64_t data = w.size_count ? each / w.sizes[w.size_count - 1] : each;
  const char *text = "", *micro = context->options->mesh ? context->options->mesh : "";
  if (w.stages > 1) text = shoal_arena_printf(context->arena, "pipe=%d,", w.stages);
  if (text && even && (data > 1 || (w.stages == 1 && w.size_count == 0)))
    text = shoal_arena_printf(context->arena, "%sdata=%lld,", text, (long long)data);
  for (int32_t i = w.size_count; text && i-- > 0;)
    text = shoal_arena_printf(context->arena, "%s%s=%d,", text, split_axes[i],
                              (int)(i ? w.sizes[i] / w.sizes[i - 1] : w.sizes[i]));
  if (text) text = shoal_arena_printf(context->arena, "%s%s", text, micro);
  const int length = text ? (int)strlen(text) - (micro[0] == 0) : 0;
  *out_mesh = text ? shoal_arena_printf(context->arena, "%.*s", length, text) : NULL;
  return *out_mesh ? NULL : SHOAL_OOM();
}

// The axes of splits that the mesh has.
static void find_levels(const shoal_strategy_context_t *context, wishes_t *w) {
  for (w->levels = 0; w->levels < MOST_SIZES; ++w->levels) {
    const int64_t size = shoal_context_axis(context, split_axes[w->levels]);
    if (size == 0 || (w->levels == 0 && size == 1)) return;
    w->ranks[w->levels] = (w->levels ? w->ranks[w->levels - 1] : 1) * size;
  }
}

// How many axes a node is split over; -1: there are none for so many ranks.
static int32_t level_of(const wishes_t *w, const shoal_node_t *node) {
  if (node->sharing.kind != SHOAL_SHARE_SPLIT || node->sharing.ranks == 1) return 0;
  if (node->sharing.ranks == 0) return w->levels;
  for (int32_t l = 0; l < w->levels; ++l)
    if (w->ranks[l] == node->sharing.ranks) return l + 1;
  return -1;
}

// A mesh that was given has the axes that are asked for: an axis that it lacks has one rank. Over
// "all" ranks means over all of its axes of splits, which only a stage of one rank does without.
static shoal_status_t check_mesh(const shoal_strategy_context_t *context, const wishes_t *w) {
  const int64_t pipe = shoal_context_axis(context, "pipe");
  const int64_t tensor = shoal_context_axis(context, "tensor");
  const int64_t each = shoal_mesh_size(&context->mesh) / (pipe > 0 ? pipe : 1);
  for (int32_t i = 0; i < w->size_count; ++i) {
    if (level_of(w, w->sized_at[i]) >= 0) continue;
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT,
        w->size_count > 1 ? "leave the mesh out, or let its axes tensor, split make so many"
                          : "leave the mesh out, or give its axis tensor so many",
        "'%s' (%s:%d) is split over %d ranks, and axis 'tensor' of the mesh has %lld%s",
        w->sized_at[i]->name, w->sized_at[i]->file, w->sized_at[i]->line, (int)w->sizes[i],
        (long long)(tensor > 0 ? tensor : 1),
        w->levels > 1 ? ", nor do its axes of splits together" : "");
  }
  if (w->split_at && w->size_count == 0 && tensor == 0 && each > 1 && w->all_at)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "leave the mesh out, or give it an axis tensor",
                            "'%s' (%s:%d) is split, and the mesh has no axis 'tensor'",
                            w->split_at->name, w->split_at->file, w->split_at->line);
  return check_counts(w, each);
}

// ---- parts -----------------------------------------------------------------------------

// Does a forward node of a lower level read the value, or none?
static bool meets_rows(const wishes_t *w, int32_t value, int32_t level) {
  bool lower = false, other = false;
  for (int64_t n = 0; n < w->graph->nodes.count; ++n) {
    const shoal_node_t *node = &w->graph->nodes.items[n];
    if (node->kind != SHOAL_NODE_FORWARD) continue;
    for (int32_t k = 0; k < node->input_count; ++k) {
      if (node->inputs[k] != value) continue;
      lower |= level_of(w, node) < level;
      other |= level_of(w, node) >= level;
    }
  }
  return lower || !other;
}

// Inputs are cut by rows over all ranks of a replicated part; those that only split parts read,
// over the copies of these.
static shoal_status_t cut_inputs(shoal_strategy_context_t *context, const wishes_t *w,
                                 int32_t level) {
  const char *cut = shoal_arena_printf(context->arena, "%s:0", split_axes[level - 1]);
  if (!cut) return SHOAL_OOM();
  for (int64_t i = 0; i < w->graph->inputs.count; ++i) {
    const shoal_named_t *input = &w->graph->inputs.items[i];
    if (w->graph->values.items[input->value].type.shape.rank > 0 &&
        meets_rows(w, input->value, level))
      SHOAL_RETURN_IF_ERROR(shoal_context_cut(context, input->name, cut));
  }
  return NULL;
}

// What is found along the axis of a level.
typedef struct found_split {
  shoal_strategy_context_t *context;
  const wishes_t *w;
  int32_t level;
  const char *axis;
  shoal_tensor_products_t products;
} found_split_t;

// A node of a lower level that reads what a split one made goes on by rows.
static shoal_status_t decide_rows(const found_split_t *f, int64_t n) {
  const shoal_node_t *node = &f->w->graph->nodes.items[n];
  const shoal_rule_t *rule = f->products.rules[n];
  for (int32_t k = 0; k < node->input_count; ++k) {
    const shoal_value_info_t *value = &f->w->graph->values.items[node->inputs[k]];
    if (value->source != SHOAL_FROM_NODE ||
        level_of(f->w, &f->w->graph->nodes.items[value->node]) < f->level)
      continue;
    for (int32_t w = 0; w < rule->way_count; ++w) {
      const shoal_way_operand_t *in = &rule->ways[w].operands[k];
      if (in->kind == SHOAL_OPERAND_CUT && in->dim == 0)
        return shoal_context_decide_way(f->context, node, f->axis, &rule->ways[w],
                                        node->sharing.kind == SHOAL_SHARE_SPLIT
                                            ? "the part is split over fewer ranks: others take "
                                              "other rows"
                                            : "the part is replicated: each rank takes rows");
    }
  }
  return NULL;
}

// A split node of several phases stays with what is cut: losses, largest elements.
static shoal_status_t decide_split(const found_split_t *f) {
  const shoal_tensor_products_t *found = &f->products;
  const char *composite = shoal_arena_printf(f->context->arena, "%s=composite", f->axis);
  if (!composite) return SHOAL_OOM();
  for (int64_t i = 0; i < found->products.count; ++i) {
    const shoal_tensor_product_t *product = &found->products.items[i];
    SHOAL_RETURN_IF_ERROR(
        shoal_context_decide_way(f->context, &found->graph->nodes.items[product->node], f->axis,
                                 product->way, "the part is split: each rank has a part of it"));
  }
  for (int64_t n = 0; n < found->graph->nodes.count; ++n) {
    const shoal_node_t *node = &found->graph->nodes.items[n];
    if (level_of(f->w, node) < f->level || !node->op->decompose) continue;
    bool meets = false, follows = false;  // what is cut; and goes on with it in one phase
    for (int32_t k = 0; k < node->input_count; ++k) meets |= found->cut[node->inputs[k]];
    for (int32_t o = 0; o < node->output_count; ++o) follows |= found->cut[node->outputs[o]];
    if (meets && !follows)
      SHOAL_RETURN_IF_ERROR(
          shoal_context_decide(f->context, "way", node->name, composite,
                               "the part is split: what it reads stays on the ranks that have it"));
  }
  return NULL;
}

// Along the axis of one level.
static shoal_status_t share_level(shoal_strategy_context_t *context, const wishes_t *w,
                                  int32_t level) {
  const shoal_graph_t *graph = w->graph;
  bool *split = SHOAL_NEW(context->arena, bool, graph->nodes.count);
  found_split_t f = {.context = context, .w = w, .level = level, .axis = split_axes[level - 1]};
  const shoal_node_t *first = NULL;
  if (!split) return SHOAL_OOM();
  for (int64_t n = graph->nodes.count; n-- > 0;) {
    split[n] = level_of(w, &graph->nodes.items[n]) >= level;
    if (split[n]) first = &graph->nodes.items[n];
  }
  SHOAL_RETURN_IF_ERROR(cut_inputs(context, w, level));
  if (!first) return NULL;  // an axis that was given, and nobody asks for
  SHOAL_RETURN_IF_ERROR(shoal_tensor_place(context, f.axis, split, &f.products));
  if (f.products.products.count == 0)
    return SHOAL_ERROR_HINT(
        UNSUPPORTED, "put a layer with a matrix as weight inside: shoal_nn_linear",
        "nothing in the part of '%s' (%s:%d) can be split: it has no product with a weight",
        first->name, first->file, first->line);
  SHOAL_RETURN_IF_ERROR(decide_split(&f));
  for (int64_t n = 0; n < graph->nodes.count; ++n)
    if (graph->nodes.items[n].sharing.kind != SHOAL_SHARE_NONE && !split[n])
      SHOAL_RETURN_IF_ERROR(decide_rows(&f, n));
  return NULL;
}

shoal_status_t shoal_strategy_annotated(shoal_strategy_context_t *context, void *user_data) {
  wishes_t w;
  SHOAL_RETURN_IF_ERROR(read_wishes(context, &w));
  if (!w.graph) return NULL;
  SHOAL_RETURN_IF_ERROR(check_graphs(&w));
  find_levels(context, &w);
  if (!w.alone) SHOAL_RETURN_IF_ERROR(check_mesh(context, &w));
  const bool stages = shoal_context_axis(context, "pipe") > 1;
  if (stages && strstr(context->options->strategy, "pipeline"))
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "leave it out: an annotated model brings its own",
                            "'%s' asks for the stages of a pipeline twice",
                            context->options->strategy);
  if (stages) SHOAL_RETURN_IF_ERROR(shoal_strategy_pipeline(context, user_data));
  SHOAL_RETURN_IF_ERROR(shoal_strategy_data(context, user_data));
  for (int32_t level = w.split_at ? w.levels : 0; level > 0; --level)  // outer axes first
    SHOAL_RETURN_IF_ERROR(share_level(context, &w, level));
  return NULL;
}

// Strategy `context`: the tokens of a sequence are dealt over axis `context`, so that activations
// of long sequences fit. Everything but attention works token by token and stays cut as it is fed;
// positions, masks and losses know where their tokens lie. Attention needs all keys of a query:
//   all-to-all  (Ulysses, Jacobs et al. 2023) heads are dealt instead of tokens while attention
//               runs, and tokens again behind it: each rank sends its part of queries, keys, values
//               and results once. Every rank has all tokens of its heads, so that causal attention
//               is balanced. Of grouped queries, the heads that share keys stay together.
//   gather      where there are fewer heads than ranks: keys and values are gathered, their
//               gradients reduced and scattered (as in the training of Llama 3). Tokens are dealt
//               in chunks, a part of each for every rank, so that causal attention is balanced.
//   ring        where the user decides `tile *attention ring` (Liu et al. 2023): keys and values go
//               from neighbour to neighbour, and backward their gradients with them. Each is sent
//               as far as gathering sends it, and nobody ever has all keys.
// An attention is known by its rule: a way cuts keys and leaves a value and its log-sum-exp, to be
// merged. What leads to its queries and keys from an input of the model is fed cut; where no input
// does (patches of pictures), tokens are dealt where they first lie in a row.
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "planners/trail.h"

enum { CHUNKS = 8 };  // per sequence, where tokens are gathered
static const char BEHIND[] = "tokens are dealt again behind attention";

typedef struct tokens {
  shoal_trail_t trail;
  int64_t ranks;  // along the axis
  int32_t *fed;   // by value: the dim of tokens of an input, or of where they begin; -1: none
  bool inside;    // no input leads to attention: tokens begin inside of the model
  bool more;      // an input was found that was not known
  bool gathers;   // some attention has fewer heads than ranks
} tokens_t;

// An attention: the ways by which keys, queries and heads are cut; NULL: there is none.
typedef struct attention {
  const shoal_way_t *keys, *queries, *heads;
} attention_t;

static bool is_cut(const shoal_way_operand_t *operand) {
  return operand->kind == SHOAL_OPERAND_CUT;
}

static bool is_merged(const shoal_way_operand_t *operand) {
  return operand->kind == SHOAL_OPERAND_PARTIAL && operand->reduce == SHOAL_REDUCE_LSE;
}

static attention_t look_at(const tokens_t *t, int64_t n) {
  const shoal_rule_t *rule = t->trail.rules[n];
  attention_t found = {0};
  for (int32_t w = 0; w < rule->way_count && !found.keys; ++w)
    if (is_merged(&rule->ways[w].operands[rule->ways[w].input_count])) found.keys = &rule->ways[w];
  for (int32_t w = 0; found.keys && w < rule->way_count; ++w) {
    const shoal_way_t *way = &rule->ways[w];
    const shoal_way_operand_t *out = &way->operands[way->input_count];
    bool with_keys = true, same_dim = false;  // as the way of keys has them
    for (int32_t k = 0; k < way->input_count; ++k) {
      if (!is_cut(&found.keys->operands[k])) continue;
      with_keys &= is_cut(&way->operands[k]);
      same_dim |= is_cut(&way->operands[k]) && way->operands[k].dim == found.keys->operands[k].dim;
    }
    if (!is_cut(out) || !is_cut(&way->operands[0]) || out->dim == 0) continue;
    if (with_keys && !same_dim) found.heads = way;
    if (!with_keys && out->dim == found.keys->operands[1].dim) found.queries = way;
  }
  return found.queries ? found : (attention_t){0};
}

static shoal_status_t feed(void *self, int32_t value, int32_t dim) {
  tokens_t *t = self;
  const shoal_value_info_t *info = &t->trail.graph->values.items[value];
  if (info->source != (t->inside ? SHOAL_FROM_NODE : SHOAL_FROM_INPUT)) return NULL;
  if (dim == 0 || info->type.shape.dims[dim] < 2) return NULL;
  t->more |= t->fed[value] < 0;
  t->fed[value] = dim;
  return NULL;
}

static shoal_status_t decide(tokens_t *t, int64_t n, const shoal_way_t *way, const char *reason) {
  return shoal_context_decide_way(t->trail.context, &t->trail.graph->nodes.items[n], "context", way,
                                  reason);
}

// Are so many tokens dealt chunk by chunk?
static bool has_chunks(const tokens_t *t, int64_t length) {
  return t->gathers && !t->inside && length % CHUNKS == 0 && length / CHUNKS >= t->ranks;
}

// The same for a way that cuts tokens where what it reads does not say how they are dealt.
static shoal_status_t decide_tokens(tokens_t *t, int64_t n, const shoal_way_t *way,
                                    const char *reason) {
  const char *deal =
      has_chunks(t, way->items) ? shoal_arena_printf(t->trail.context->arena, " *%d", CHUNKS) : "";
  if (!deal) return SHOAL_OOM();
  return shoal_context_decide_deal(t->trail.context, &t->trail.graph->nodes.items[n], "context",
                                   way, deal, reason);
}

// Does a way of a gradient cut what the forward node reads and makes as `of` does?
static bool agrees(const shoal_node_t *grad, const shoal_way_t *way, const shoal_node_t *node,
                   const shoal_way_t *of) {
  bool all = true;
  for (int32_t k = 0; k < grad->input_count; ++k)
    for (int32_t i = 0; i < node->input_count + node->output_count; ++i) {
      const int32_t value =
          i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
      const shoal_way_operand_t *a = &way->operands[k], *b = &of->operands[i];
      if (grad->inputs[k] != value) continue;
      all &= a->kind == b->kind && (!is_cut(a) || (a->dim == b->dim && a->scale == b->scale));
    }
  return all;
}

// The gradient of node `n`, and its way that agrees with the forward node's; -1: there is none.
static int64_t gradient_of(const tokens_t *t, int64_t n, const shoal_way_t *of,
                           const shoal_way_t **out_way) {
  const shoal_graph_t *graph = t->trail.graph;
  for (int64_t g = n + 1; g < graph->nodes.count; ++g) {
    const shoal_node_t *grad = &graph->nodes.items[g];
    if (!shoal_node_is_gradient(grad) || grad->of != n || grad->output_count < 2) continue;
    for (int32_t w = 0; w < t->trail.rules[g]->way_count; ++w) {
      const shoal_way_t *way = &t->trail.rules[g]->ways[w];
      if (!agrees(grad, way, &graph->nodes.items[n], of)) continue;
      *out_way = way;
      return g;
    }
  }
  return -1;
}

// Whoever reads a value that is cut by heads, or a sum, takes its tokens; but for the gradient of
// attention.
static shoal_status_t return_tokens(tokens_t *t, int32_t value, int32_t dim, int64_t from,
                                    int64_t grad, const char *reason) {
  for (int64_t n = from; n < t->trail.graph->nodes.count; ++n) {
    const shoal_node_t *node = &t->trail.graph->nodes.items[n];
    if (n == grad) continue;
    const shoal_way_t *found = NULL;
    for (int32_t k = 0; k < node->input_count; ++k)
      for (int32_t w = 0; node->inputs[k] == value && w < t->trail.rules[n]->way_count; ++w) {
        const shoal_way_t *way = &t->trail.rules[n]->ways[w];
        if (!found && is_cut(&way->operands[k]) && way->operands[k].dim == dim) found = way;
      }
    if (found) SHOAL_RETURN_IF_ERROR(decide_tokens(t, n, found, reason));
  }
  return NULL;
}

// Heads that ranks of other axes leave.
static int64_t heads_of(const tokens_t *t, const attention_t *attention) {
  const int64_t tensor = shoal_context_axis(t->trail.context, "tensor");
  return attention->heads ? attention->heads->items / (tensor > 1 ? tensor : 1) : 0;
}

// What the user decides about tiles of a node, if that is a ring; NULL: it is not.
static const char *find_ring(const tokens_t *t, const char *name) {
  const shoal_plan_options_t *options = shoal_context_options(t->trail.context);
  const char *choice = NULL;
  for (int64_t i = 0; i < options->decision_count; ++i) {
    const shoal_intent_decision_t *decision = &options->decisions[i];
    if (strcmp(decision->kind, "tile") == 0 && shoal_pattern_match(decision->pattern, name))
      choice = decision->choice;
  }
  return choice && strstr(choice, "ring") ? choice : NULL;
}

static bool is_by_heads(const tokens_t *t, int64_t n, const attention_t *attention) {
  return !find_ring(t, t->trail.graph->nodes.items[n].name) && heads_of(t, attention) >= t->ranks;
}

static shoal_status_t deal_attention(tokens_t *t, int64_t n, const attention_t *attention) {
  const shoal_node_t *node = &t->trail.graph->nodes.items[n];
  const char *ring = find_ring(t, node->name);
  const bool by_heads = is_by_heads(t, n, attention);
  const shoal_way_t *way = by_heads ? attention->heads : attention->queries, *backward = NULL;
  const int64_t grad = gradient_of(t, n, way, &backward);
  if (by_heads) {
    SHOAL_RETURN_IF_ERROR(decide(t, n, way, "heads are dealt instead of tokens"));
    SHOAL_RETURN_IF_ERROR(return_tokens(t, node->outputs[0],
                                        attention->queries->operands[node->input_count].dim, n + 1,
                                        grad, BEHIND));
  }
  if (ring) SHOAL_RETURN_IF_ERROR(decide(t, n, way, "keys go round"));
  if (grad < 0) return NULL;
  if (ring) {
    const char *name = t->trail.graph->nodes.items[grad].name;
    SHOAL_RETURN_IF_ERROR(decide(t, grad, backward, "keys go round, as in the forward pass"));
    SHOAL_RETURN_IF_ERROR(shoal_context_decide(t->trail.context, "tile", name, ring,
                                               "keys go round, as in the forward pass"));
  }
  if (by_heads) SHOAL_RETURN_IF_ERROR(decide(t, grad, backward, "as in the forward pass"));
  const shoal_node_t *gradient = &t->trail.graph->nodes.items[grad];
  for (int32_t o = 0; o < gradient->output_count && o < node->input_count; ++o) {
    const shoal_way_operand_t *key = &attention->keys->operands[o];
    const shoal_way_operand_t *query = &attention->queries->operands[o];
    if (is_cut(key) || is_cut(query))
      SHOAL_RETURN_IF_ERROR(return_tokens(
          t, gradient->outputs[o], is_cut(key) ? key->dim : query->dim, grad + 1, -1, BEHIND));
  }
  return NULL;
}

// Takes tokens to be cut from the inputs on; what they meet is fed cut, too.
static shoal_status_t follow(tokens_t *t) {
  const shoal_graph_t *graph = t->trail.graph;
  shoal_trail_reset(&t->trail);
  for (int64_t v = 0; v < graph->values.count; ++v) t->trail.dims[v] = t->fed[v];
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    if (node->kind != SHOAL_NODE_FORWARD) continue;
    const attention_t attention = look_at(t, n);
    const shoal_way_t *way = attention.queries ? attention.queries : shoal_trail_way(&t->trail, n);
    for (int32_t k = 0; way && k < node->input_count; ++k) {
      const shoal_way_operand_t *in = attention.keys && is_cut(&attention.keys->operands[k])
                                          ? &attention.keys->operands[k]
                                          : &way->operands[k];
      if (t->trail.dims[node->inputs[k]] < 0 && shoal_operand_is_plain(in))
        SHOAL_RETURN_IF_ERROR(shoal_trail_trace(&t->trail, node->inputs[k], in->dim, feed, t));
    }
    shoal_trail_take(&t->trail, n, way);
    for (int32_t o = 0; o < node->output_count; ++o)
      if (t->fed[node->outputs[o]] >= 0) t->trail.dims[node->outputs[o]] = t->fed[node->outputs[o]];
  }
  return NULL;
}

static shoal_status_t find_tokens(tokens_t *t, bool *out_any) {
  *out_any = false;
  do {  // ends: each turn finds an input, or another value where tokens begin
    t->more = false;
    SHOAL_RETURN_IF_ERROR(follow(t));
    *out_any |= t->more;
  } while (t->more);
  return NULL;
}

// Who reads a value in which tokens begin takes its part of them.
static shoal_status_t begin_tokens(tokens_t *t) {
  const shoal_graph_t *graph = t->trail.graph;
  for (int32_t v = 0; v < graph->values.count; ++v)
    if (t->fed[v] >= 0 && graph->values.items[v].source == SHOAL_FROM_NODE)
      SHOAL_RETURN_IF_ERROR(return_tokens(t, v, t->fed[v], graph->values.items[v].node + 1, -1,
                                          "tokens begin in front of it"));
  return NULL;
}

// Tokens of a length that chunks divide are dealt chunk by chunk where keys are gathered.
static shoal_status_t cut_inputs(tokens_t *t) {
  const shoal_graph_t *graph = t->trail.graph;
  shoal_strategy_context_t *context = t->trail.context;
  for (int64_t i = 0; i < graph->inputs.count; ++i) {
    const shoal_named_t *input = &graph->inputs.items[i];
    const int32_t dim = t->fed[input->value];
    if (dim < 0) continue;
    const int64_t length = graph->values.items[input->value].type.shape.dims[dim];
    const char *cut = has_chunks(t, length)
                          ? shoal_arena_printf(context->arena, "context:%d*%d", dim, CHUNKS)
                          : shoal_arena_printf(context->arena, "context:%d", dim);
    if (!cut) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(shoal_context_cut(context, input->name, cut));
  }
  return NULL;
}

shoal_status_t shoal_strategy_long_context(shoal_strategy_context_t *context, void *user_data) {
  (void)user_data;
  tokens_t t = {.ranks = shoal_context_axis(context, "context")};
  SHOAL_RETURN_IF_ERROR(shoal_trail_init(context, &t.trail));
  if (!t.trail.graph) return NULL;
  t.fed = SHOAL_NEW(context->arena, int32_t, t.trail.graph->values.count);
  if (!t.fed) return SHOAL_OOM();
  for (int64_t v = 0; v < t.trail.graph->values.count; ++v) t.fed[v] = -1;
  bool any = false;
  SHOAL_RETURN_IF_ERROR(find_tokens(&t, &any));
  t.inside = !any;
  if (t.inside) SHOAL_RETURN_IF_ERROR(find_tokens(&t, &any));
  if (!any)
    return SHOAL_ERROR_HINT(UNSUPPORTED, "`data` and `tensor` cut any model",
                            "the model has no attention over tokens");
  for (int decided = 0; decided < 2; ++decided)  // how tokens are dealt is known before ways are
    for (int64_t n = 0; n < t.trail.graph->nodes.count && t.ranks > 1; ++n) {
      const attention_t attention = look_at(&t, n);
      if (!attention.queries || t.trail.graph->nodes.items[n].kind != SHOAL_NODE_FORWARD) continue;
      if (decided)
        SHOAL_RETURN_IF_ERROR(deal_attention(&t, n, &attention));
      else
        t.gathers |= !is_by_heads(&t, n, &attention);
    }
  if (t.inside && t.ranks > 1) SHOAL_RETURN_IF_ERROR(begin_tokens(&t));
  return cut_inputs(&t);
}

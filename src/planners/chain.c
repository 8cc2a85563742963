// See chain.h.
//
// Times are operations, of forward and backward together three times those of forward, or what
// moving the operands takes instead where that is longer: OPERATIONS_A_BYTE is what a device does
// while it moves a byte, about the same on all that there are to within a factor of ten; it decides
// for small products and element-wise ops only.
#include "planners/chain.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"

#define OPERATIONS_A_BYTE 20

// ---- names -----------------------------------------------------------------------------

static size_t component(const char *text) {
  return strcspn(text, "/");
}

static bool all_digits(const char *text, size_t length) {
  for (size_t i = 0; i < length; ++i)
    if (!isdigit((unsigned char)text[i])) return false;
  return length > 0;
}

size_t shoal_chain_link_length(const char *name, bool *out_scope) {
  const size_t first = component(name);
  *out_scope = name[first] == '/';
  if (!*out_scope) return first;
  const char *next = name + first + 1;
  const size_t second = component(next);
  if (next[second] != '/') return first;
  const bool numbered = isdigit((unsigned char)name[first - 1]);
  const bool inner = isdigit((unsigned char)next[second - 1]);
  if (numbered ? all_digits(next, second) : inner) return first + 1 + second;
  return first;
}

// Equal but for digits.
static bool same_family(const char *a, const char *b) {
  for (;;) {
    while (isdigit((unsigned char)*a)) ++a;
    while (isdigit((unsigned char)*b)) ++b;
    if (*a != *b) return false;
    if (!*a) return true;
    ++a, ++b;
  }
}

// ---- links -----------------------------------------------------------------------------

typedef struct builder {
  const shoal_graph_t *graph;
  shoal_arena_t *arena;
  shoal_chain_t *chain;
  SHOAL_VEC(shoal_chain_link_t) links;
  bool *fed, *backward;  // by node
} builder_t;

static int32_t maker_of(const builder_t *b, int32_t value) {
  const shoal_value_info_t *info = &b->graph->values.items[value];
  return info->source == SHOAL_FROM_NODE ? info->node : -1;
}

static void follow(builder_t *b, int32_t n) {
  const shoal_node_t *node = &b->graph->nodes.items[n];
  b->backward[n] = node->kind != SHOAL_NODE_FORWARD;
  for (int32_t i = 0; i < node->input_count; ++i) {
    const int32_t maker = maker_of(b, node->inputs[i]);
    b->fed[n] |= b->graph->values.items[node->inputs[i]].source == SHOAL_FROM_INPUT ||
                 (maker >= 0 && b->fed[maker]);
    b->backward[n] |= maker >= 0 && b->backward[maker];
  }
}

// Nodes of one name that follow each other are one link.
static shoal_status_t add_node(builder_t *b, int32_t n) {
  const char *name = b->graph->nodes.items[n].name;
  bool scope;
  const size_t length = shoal_chain_link_length(name, &scope);
  shoal_chain_link_t *last = b->links.count > 0 ? &b->links.items[b->links.count - 1] : NULL;
  if (!last || strlen(last->name) != length || memcmp(last->name, name, length) != 0) {
    const shoal_chain_link_t link = {
        .name = shoal_arena_printf(b->arena, "%.*s", (int)length, name),
        .first = n,
        .scope = scope};
    if (!link.name || !SHOAL_PUSH(b->arena, &b->links, link)) return SHOAL_OOM();
    last = &b->links.items[b->links.count - 1];
  }
  last->last = n;
  b->chain->of_node[n] = (int32_t)b->links.count - 1;
  return NULL;
}

static double bytes_of(const shoal_value_info_t *value) {
  return (double)shoal_shape_count(&value->type.shape) *
         (double)shoal_dtype_size(value->type.dtype);
}

// A state with those that are called after it, "name#adamw.m".
static double bytes_of_states(const builder_t *b, int32_t state) {
  const char *name = b->graph->model->states.items[state].name;
  const size_t length = strlen(name);
  double bytes = 0;
  for (int64_t s = 0; s < b->graph->model->states.count; ++s) {
    const shoal_state_info_t *other = &b->graph->model->states.items[s];
    if (s != state && (strncmp(other->name, name, length) != 0 || other->name[length] != '#'))
      continue;
    bytes +=
        (double)shoal_shape_count(&other->type.shape) * (double)shoal_dtype_size(other->type.dtype);
  }
  return bytes;
}

static shoal_status_t weigh_node(builder_t *b, int32_t n, bool *counted) {
  const shoal_node_t *node = &b->graph->nodes.items[n];
  shoal_chain_link_t *link = &b->links.items[b->chain->of_node[n]];
  shoal_call_t call;
  SHOAL_RETURN_IF_ERROR(shoal_node_call(b->graph, node, b->arena, &call));
  const shoal_cost_t cost = shoal_op_cost(&call);
  link->time += 3 * fmax(cost.flops, OPERATIONS_A_BYTE * cost.bytes);
  for (int32_t i = 0; i < node->input_count; ++i) {
    const shoal_value_info_t *value = &b->graph->values.items[node->inputs[i]];
    if (value->source != SHOAL_FROM_STATE || counted[value->index]) continue;
    if (!b->graph->model->states.items[value->index].options.trainable) continue;
    counted[value->index] = true;
    link->parameters += bytes_of(value);
    link->states += bytes_of(value) + bytes_of_states(b, value->index);
  }
  return NULL;
}

// What of a forward value the backward pass reads, it must find there.
static shoal_status_t weigh_kept(builder_t *b) {
  bool *counted = SHOAL_NEW(b->arena, bool, b->graph->values.count);
  if (!counted) return SHOAL_OOM();
  for (int64_t n = 0; n < b->graph->nodes.count; ++n) {
    const shoal_node_t *node = &b->graph->nodes.items[n];
    for (int32_t i = 0; i < node->input_count && b->backward[n]; ++i) {
      const int32_t maker = maker_of(b, node->inputs[i]);
      const int32_t link = maker >= 0 ? b->chain->of_node[maker] : -1;
      if (link < 0 || counted[node->inputs[i]]) continue;
      counted[node->inputs[i]] = true;
      b->links.items[link].activations += bytes_of(&b->graph->values.items[node->inputs[i]]);
    }
  }
  return NULL;
}

// What each value moves over the borders up to the last link that reads it.
static shoal_status_t weigh_borders(builder_t *b) {
  const int64_t values = b->graph->values.count;
  int32_t *until = SHOAL_NEW(b->arena, int32_t, values);
  if (!until) return SHOAL_OOM();
  for (int64_t n = 0; n < b->graph->nodes.count; ++n) {
    const shoal_node_t *node = &b->graph->nodes.items[n];
    const int32_t link = b->chain->of_node[n];
    for (int32_t i = 0; i < node->input_count && link >= 0; ++i)
      if (until[node->inputs[i]] < link) until[node->inputs[i]] = link;
  }
  for (int32_t v = 0; v < values; ++v) {
    const int32_t maker = maker_of(b, v);
    const int32_t from = maker >= 0 ? b->chain->of_node[maker] : -1;
    for (int32_t k = from + 1; from >= 0 && k <= until[v]; ++k)
      b->links.items[k].boundary += bytes_of(&b->graph->values.items[v]);
  }
  return NULL;
}

static void find_repeated(builder_t *b) {
  for (int64_t i = 0; i < b->links.count; ++i)
    for (int64_t k = 0; k < b->links.count && !b->links.items[i].repeated; ++k)
      b->links.items[i].repeated = i != k && b->links.items[i].parameters > 0 &&
                                   b->links.items[k].parameters > 0 && b->links.items[i].scope &&
                                   same_family(b->links.items[i].name, b->links.items[k].name);
}

// The values of a way through the graph pass all of its links, one after the other; those of links
// beside it (a table of embeddings that is joined later) need not pass the links before them, which
// would leave stages that nothing leads through.
static shoal_status_t find_longest(builder_t *b) {
  const int64_t count = b->graph->nodes.count;
  int32_t *length = SHOAL_NEW(b->arena, int32_t, count), *via = SHOAL_NEW(b->arena, int32_t, count);
  int32_t last = -1;
  if (!length || !via) return SHOAL_OOM();
  for (int32_t n = 0; n < count; ++n) {
    const shoal_node_t *node = &b->graph->nodes.items[n];
    const int32_t link = b->chain->of_node[n];
    if (link < 0) continue;
    length[n] = 1;
    via[n] = -1;
    for (int32_t i = 0; i < node->input_count; ++i) {
      const int32_t maker = maker_of(b, node->inputs[i]);
      if (maker < 0 || b->chain->of_node[maker] < 0) continue;
      const int32_t now = length[maker] + (b->chain->of_node[maker] != link);
      if (via[n] >= 0 && now <= length[n]) continue;
      length[n] = now;
      via[n] = maker;
    }
    if (last < 0 || length[n] > length[last]) last = n;
  }
  b->chain->longest = last < 0 ? 0 : length[last];
  for (int32_t n = last; n >= 0; n = via[n]) b->links.items[b->chain->of_node[n]].on_way = true;
  return NULL;
}

shoal_status_t shoal_chain_create(const shoal_graph_t *graph, shoal_arena_t *arena,
                                  shoal_chain_t *out_chain) {
  const int32_t count = (int32_t)graph->nodes.count;
  *out_chain = (shoal_chain_t){.of_node = SHOAL_NEW(arena, int32_t, count)};
  builder_t b = {.graph = graph,
                 .arena = arena,
                 .chain = out_chain,
                 .fed = SHOAL_NEW(arena, bool, count),
                 .backward = SHOAL_NEW(arena, bool, count)};
  bool *counted = SHOAL_NEW(arena, bool, graph->model->states.count);
  if (!out_chain->of_node || !b.fed || !b.backward || !counted) return SHOAL_OOM();
  for (int32_t n = 0; n < count; ++n) {
    follow(&b, n);
    out_chain->of_node[n] = -1;
    if (b.fed[n] && !b.backward[n]) SHOAL_RETURN_IF_ERROR(add_node(&b, n));
  }
  for (int32_t n = 0; n < count; ++n)
    if (out_chain->of_node[n] >= 0) SHOAL_RETURN_IF_ERROR(weigh_node(&b, n, counted));
  SHOAL_RETURN_IF_ERROR(weigh_borders(&b));
  SHOAL_RETURN_IF_ERROR(weigh_kept(&b));
  SHOAL_RETURN_IF_ERROR(find_longest(&b));
  find_repeated(&b);
  out_chain->count = (int32_t)b.links.count;
  out_chain->links = b.links.items;
  return NULL;
}

// ---- division --------------------------------------------------------------------------

typedef struct division {
  const shoal_chain_t *chain;
  const shoal_chain_costs_t *costs;
  double *fixed, *moving;  // by link: sums of the costs before it
  int32_t *ways;           // by link: how many before it are on the longest way
  double *best, *second;   // by part and end: of what is minimised, and then
  int32_t *from;           // by part and end: where the part begins
} division_t;

typedef struct price {
  double first, second;
} price_t;

// What part p of links `start` to `end` - 1 adds to the parts before it. `limit` < 0: the largest
// cost counts; else bytes over borders, of parts within `limit`, and then the largest cost or how
// unequal parts are.
static price_t price(const division_t *d, int32_t p, int32_t start, int32_t end, double limit) {
  const double factor = d->costs->factors ? d->costs->factors[p] : 1;
  const double cost = d->fixed[end] - d->fixed[start] +
                      (d->costs->moving ? factor * (d->moving[end] - d->moving[start]) : 0);
  const int64_t before = (int64_t)(p - 1) * (d->chain->count + 1) + start;
  const price_t so_far = p == 0 ? (price_t){0, 0} : (price_t){d->best[before], d->second[before]};
  if (limit < 0) return (price_t){fmax(so_far.first, cost), 0};
  if (cost > limit) return (price_t){INFINITY, 0};
  return (price_t){so_far.first + (p == 0 ? 0 : d->chain->links[start].boundary),
                   d->costs->bytes_first ? fmax(so_far.second, cost) : so_far.second + cost * cost};
}

// Parts 0 to `stages` - 1 end at link `end`; each takes what is best for the parts before it.
static double divide(division_t *d, int32_t stages, double limit) {
  const int32_t n = d->chain->count, width = n + 1;
  for (int32_t p = 0; p < stages; ++p)
    for (int32_t end = 0; end <= n; ++end) {
      const int32_t at = p * width + end;
      d->best[at] = d->second[at] = INFINITY;
      for (int32_t start = p; start < end; ++start) {
        if (p == 0 && start > 0) break;
        if (d->ways[end] == d->ways[start]) continue;
        const price_t now = price(d, p, start, end, limit);
        if (now.first > d->best[at] || (now.first == d->best[at] && now.second >= d->second[at]))
          continue;
        d->best[at] = now.first;
        d->second[at] = now.second;
        d->from[at] = start;
      }
    }
  return d->best[(stages - 1) * width + n];
}

shoal_status_t shoal_chain_divide(const shoal_chain_t *chain, const shoal_chain_costs_t *costs,
                                  int32_t stages, shoal_arena_t *arena, int32_t *out_starts) {
  const int32_t n = chain->count, width = n + 1;
  const int64_t cells = (int64_t)stages * width;
  division_t d = {.chain = chain,
                  .costs = costs,
                  .fixed = SHOAL_NEW(arena, double, width),
                  .moving = SHOAL_NEW(arena, double, width),
                  .ways = SHOAL_NEW(arena, int32_t, width),
                  .best = SHOAL_NEW(arena, double, cells),
                  .second = SHOAL_NEW(arena, double, cells),
                  .from = SHOAL_NEW(arena, int32_t, cells)};
  if (!d.fixed || !d.moving || !d.ways || !d.best || !d.second || !d.from) return SHOAL_OOM();
  for (int32_t i = 0; i < n; ++i) {
    d.fixed[i + 1] = d.fixed[i] + costs->fixed[i];
    d.moving[i + 1] = d.moving[i] + (costs->moving ? costs->moving[i] : 0);
    d.ways[i + 1] = d.ways[i] + chain->links[i].on_way;
  }
  const double largest = costs->bytes_first ? INFINITY : divide(&d, stages, -1);
  divide(&d, stages, largest * (1 + 1e-12));
  int32_t end = n;
  for (int32_t p = stages; p-- > 0; end = out_starts[p]) out_starts[p] = d.from[p * width + end];
  return NULL;
}

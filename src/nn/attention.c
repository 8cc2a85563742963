// Multi-head attention: products that make queries, keys and values, shoal.attention, and the
// product behind it. B batch, T time, C channels, H heads, D = C / H; of a memory that is attended
// to: S its length, M its channels.
#include "base/dtype.h"
#include "nn/build.h"

// Queries are made of x, keys and values of x too or of a memory.
typedef struct source {
  int64_t heads, keys, width;  // heads of queries; of keys and values; elements of one, D
  bool own;                    // keys and values are made of x
  shoal_value_t at;            // positions [B, 1] of a token that sees a cache; zero: none
  const shoal_nn_attention_options_t *options;
} source_t;

// Elements `from` on of the last dim of x [B, T, ..], for so many heads: [B, heads, T, D].
static shoal_value_t heads_of(shoal_graph_t *graph, const char *name, shoal_value_t x, int64_t from,
                              int64_t heads, const source_t *s) {
  const shoal_shape_t shape = shoal_value_type(x).shape;
  const int64_t *d = shape.dims;
  shoal_scope_push(graph, name);
  if (d[2] != heads * s->width) {
    x = shoal_slice(graph, x, SHOAL_SHAPE(0, 0, from), SHOAL_SHAPE(d[0], d[1], heads * s->width));
  }
  const shoal_shape_t split = SHOAL_SHAPE(d[0], d[1], heads, s->width);
  x = shoal_transpose(graph, shoal_reshape(graph, x, split), SHOAL_SHAPE(0, 2, 1, 3));
  if (s->options->rotary && name[0] != 'v') {
    const shoal_nn_attention_options_t *o = s->options;
    shoal_rotary_options_t with = {.base = o->rotary_base,
                                   .factor = o->rotary_factor,
                                   .low = o->rotary_low,
                                   .high = o->rotary_high,
                                   .original = o->rotary_original};
    if (s->at.graph) with.positions = s->at;
    x = shoal_rotary_with(graph, x, &with);
  }
  shoal_scope_pop(graph);
  return x;
}

// What a token that stands at s->at sees of a cache of S positions: bools [B, 1, 1, S].
static shoal_value_t seen(shoal_graph_t *graph, const source_t *s, int64_t S) {
  const shoal_type_t type = shoal_value_type(s->at);
  shoal_value_t at = shoal_reshape(graph, s->at, SHOAL_SHAPE(type.shape.dims[0], 1, 1, 1));
  shoal_value_t keys = shoal_iota(graph, SHOAL_SHAPE(1, 1, 1, S), 3, type.dtype);
  shoal_value_t mask = shoal_greater_equal(graph, at, keys);
  if (s->options->window <= 0) return mask;
  const double before = (double)(s->options->window - 1);
  shoal_value_t width = shoal_full(graph, SHOAL_SHAPE(1, 1, 1, 1), before, type.dtype);
  shoal_value_t first = shoal_sub(graph, at, width);
  return shoal_logical_and(graph, mask, shoal_greater_equal(graph, keys, first));
}

shoal_value_t shoal_nn_remember_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                   int64_t size, shoal_value_t positions, const char *file,
                                   int line) {
  if (!graph || !shoal_value_ok(x)) return x;
  const shoal_type_t type = shoal_value_type(x);
  const int64_t *d = type.shape.dims;
  shoal_value_t y = {NULL, -1};
  shoal_site_push(graph, file, line);
  if (type.shape.rank != 4 || (positions.graph ? d[2] != 1 : d[2] > size)) {
    shoal_nn_refuse(graph,
                    "remember: x must be [B, H, T, D] with T = 1 at a position, else T of at most "
                    "%lld",
                    (long long)size);
  } else {
    const shoal_shape_t whole = SHOAL_SHAPE(d[0], d[1], size, d[3]);
    const shoal_state_options_t cache = {.not_saved = true};
    shoal_value_t state = shoal_state(graph, name, type.dtype, whole, &cache);
    y = x;
    if (positions.graph) {
      shoal_value_t at = shoal_reshape(graph, positions, SHOAL_SHAPE(d[0], 1, 1, 1));
      y = shoal_put_along(graph, state, shoal_broadcast_to(graph, at, type.shape), x, 2);
    } else if (d[2] != size) {
      x = shoal_pad(graph, x, SHOAL_SHAPE(0, 0, 0, 0), whole);
    }
    shoal_assign(graph, state, positions.graph ? y : x);
  }
  shoal_site_pop(graph);
  return y;
}

static shoal_value_t attend(shoal_graph_t *graph, shoal_value_t q, shoal_value_t k, shoal_value_t v,
                            const source_t *s) {
  const shoal_nn_attention_options_t *o = s->options;
  shoal_attention_options_t with = {
      .window = o->window, .groups = s->heads / s->keys, .p = o->dropout, .scale = o->scale};
  if (o->bias.graph) with.bias = o->bias;
  if (o->mask.graph) with.mask = o->mask;
  if (o->dropout > 0) {
    with.key = shoal_random_key(graph, "dropout");
    with.step = shoal_step(graph);
  }
  shoal_value_t y;
  if (s->at.graph) {  // the mask knows where the token stands, and how far it sees
    const shoal_value_t mask = seen(graph, s, shoal_value_type(k).shape.dims[2]);
    with.mask = o->mask.graph ? shoal_logical_and(graph, o->mask, mask) : mask;
    with.window = 0;
  }
  const bool causal = !o->sees_ahead && s->own && !s->at.graph;
  shoal_attention_with(graph, q, k, v, causal, &with, &y, NULL);
  return y;
}

// Refuses sizes that do not fit.
static bool fits(shoal_graph_t *graph, shoal_value_t x, int64_t heads, int64_t keys, bool sized,
                 shoal_value_t memory) {
  const shoal_shape_t shape = shoal_value_type(x).shape;
  if (!shoal_value_ok(x)) return false;
  if (shape.rank != 3 || heads < 1 || (!sized && shape.dims[2] % heads != 0)) {
    char text[128];
    shoal_shape_format(&shape, text, sizeof text);
    shoal_nn_refuse(graph,
                    "attention: x must be [B, T, C] and C a multiple of heads, not %s and %lld",
                    text, (long long)heads);
    return false;
  }
  if (keys < 1 || heads % keys != 0) {
    shoal_nn_refuse(graph, "attention: heads must be a multiple of key_heads: %lld and %lld",
                    (long long)heads, (long long)keys);
    return false;
  }
  if (memory.graph == NULL) return true;
  const shoal_shape_t other = shoal_value_type(memory).shape;
  if (!shoal_value_ok(memory)) return false;
  if (other.rank != 3 || other.dims[0] != shape.dims[0]) {
    char text[128];
    shoal_shape_format(&other, text, sizeof text);
    shoal_nn_refuse(graph, "attention: memory must be [B, S, M] with x's B = %lld, not %s",
                    (long long)shape.dims[0], text);
    return false;
  }
  return true;
}

// Refuses a cache that x does not fit in.
static bool fits_cache(shoal_graph_t *graph, shoal_value_t x, shoal_value_t memory,
                       const shoal_nn_attention_options_t *options) {
  const int64_t T = shoal_value_type(x).shape.dims[1];
  if (options->cache <= 0) return true;
  if (memory.graph || options->sees_ahead) {
    shoal_nn_refuse(graph, "attention: only causal self-attention has a cache");
  } else if (options->positions.graph ? T != 1 : T > options->cache) {
    shoal_nn_refuse(graph,
                    "attention: x has %lld tokens: with positions it is one, else at most %lld",
                    (long long)T, (long long)options->cache);
  } else {
    return true;
  }
  return false;
}

static const shoal_init_t NORMAL = {SHOAL_INIT_NORMAL, 0, 0.02};

// To a memory, or (shoal_none) to x itself.
static shoal_value_t attention(shoal_graph_t *graph, const char *name, shoal_value_t x,
                               shoal_value_t memory, int64_t heads,
                               const shoal_nn_attention_options_t *options) {
  static const shoal_nn_attention_options_t defaults = {0};
  if (!options) options = &defaults;
  const shoal_init_t qkv_init = shoal_nn_init_or(options->weight_init, NORMAL);
  const shoal_init_t proj_init = shoal_nn_init_or(options->proj_init, NORMAL);
  shoal_scope_push(graph, name);
  const int64_t keys = shoal_nn_size(options->key_heads, heads);
  shoal_value_t y = {NULL, -1};
  if (fits(graph, x, heads, keys, options->head_size > 0, memory) &&
      fits_cache(graph, x, memory, options)) {
    const shoal_shape_t shape = shoal_value_type(x).shape;
    const int64_t C = shape.dims[2], D = shoal_nn_size(options->head_size, C / heads);
    const bool own = memory.graph == NULL, bare = options->no_bias;
    source_t s = {heads, keys, D, own, .options = options};
    if (options->cache > 0 && options->positions.graph)
      s.at = shoal_reshape(graph, options->positions, SHOAL_SHAPE(shape.dims[0], 1));
    shoal_value_t queries, others;
    int64_t from = 0;  // where keys begin
    if (own) {
      const int64_t all = (heads + 2 * keys) * D;
      queries = others = shoal_nn_project(graph, "qkv", x, all, qkv_init, bare);
      from = heads * D;
    } else {
      queries = shoal_nn_project(graph, "q", x, heads * D, qkv_init, bare);
      others = shoal_nn_project(graph, "kv", memory, 2 * keys * D, qkv_init, bare);
    }
    const shoal_value_t q = heads_of(graph, "q", queries, 0, heads, &s);
    shoal_value_t k = heads_of(graph, "k", others, from, keys, &s);
    shoal_value_t v = heads_of(graph, "v", others, from + keys * D, keys, &s);
    if (options->cache > 0) {
      k = shoal_nn_remember(graph, "cache_k", k, options->cache, s.at);
      v = shoal_nn_remember(graph, "cache_v", v, options->cache, s.at);
    }
    y = shoal_transpose(graph, attend(graph, q, k, v, &s), SHOAL_SHAPE(0, 2, 1, 3));
    y = shoal_reshape(graph, y, SHOAL_SHAPE(shape.dims[0], shape.dims[1], heads * D));
    y = shoal_nn_project(graph, "proj", y, C, proj_init, bare);
  }
  shoal_scope_pop(graph);
  return y;
}

shoal_value_t shoal_nn_self_attention_with_at(shoal_graph_t *graph, const char *name,
                                              shoal_value_t x, int64_t heads,
                                              const shoal_nn_attention_options_t *options,
                                              const char *file, int line) {
  shoal_site_push(graph, file, line);
  shoal_value_t y = attention(graph, name, x, shoal_none(), heads, options);
  shoal_site_pop(graph);
  return y;
}

shoal_value_t shoal_nn_cross_attention_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                          shoal_value_t memory, int64_t heads,
                                          const shoal_nn_attention_options_t *options,
                                          const char *file, int line) {
  shoal_value_t y = {NULL, -1};
  if (!shoal_value_ok(memory)) return y;  // the model has failed already
  shoal_site_push(graph, file, line);
  y = attention(graph, name, x, memory, heads, options);
  shoal_site_pop(graph);
  return y;
}

shoal_value_t shoal_nn_self_attention_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                         int64_t heads, const char *file, int line) {
  return shoal_nn_self_attention_with_at(graph, name, x, heads, NULL, file, line);
}

// Multi-head attention: products that make queries, keys and values, shoal.attention, and the
// product behind it. B batch, T time, C channels, H heads, D = C / H; of a memory that is attended
// to: S its length, M its channels.
#include "base/dtype.h"
#include "nn/build.h"

// Queries are made of x, keys and values of x too or of a memory.
typedef struct source {
  int64_t heads, keys, width;  // heads of queries; of keys and values; elements of one, D
  bool own;                    // keys and values are made of x
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
    x = shoal_rotary_with(graph, x, &(shoal_rotary_options_t){.base = s->options->rotary_base});
  }
  shoal_scope_pop(graph);
  return x;
}

static shoal_value_t attend(shoal_graph_t *graph, shoal_value_t q, shoal_value_t k, shoal_value_t v,
                            const source_t *s) {
  const shoal_nn_attention_options_t *o = s->options;
  shoal_attention_options_t with = {
      .window = o->window, .groups = s->heads / s->keys, .p = o->dropout};
  if (o->bias.graph) with.bias = o->bias;
  if (o->mask.graph) with.mask = o->mask;
  if (o->dropout > 0) {
    with.key = shoal_random_key(graph, "dropout");
    with.step = shoal_step(graph);
  }
  shoal_value_t y;
  shoal_attention_with(graph, q, k, v, !o->sees_ahead && s->own, &with, &y, NULL);
  return y;
}

// Refuses sizes that do not fit.
static bool fits(shoal_graph_t *graph, shoal_value_t x, int64_t heads, int64_t keys,
                 shoal_value_t memory) {
  const shoal_shape_t shape = shoal_value_type(x).shape;
  if (!shoal_value_ok(x)) return false;
  if (shape.rank != 3 || heads < 1 || shape.dims[2] % heads != 0) {
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

shoal_value_t shoal_nn_attend(shoal_graph_t *graph, const char *name, shoal_value_t x,
                              shoal_value_t memory, int64_t heads,
                              const shoal_nn_attention_options_t *options, shoal_init_t qkv_init,
                              shoal_init_t proj_init) {
  static const shoal_nn_attention_options_t defaults = {0};
  if (!options) options = &defaults;
  shoal_scope_push(graph, name);
  const int64_t keys = shoal_nn_size(options->key_heads, heads);
  shoal_value_t y = {NULL, -1};
  if (fits(graph, x, heads, keys, memory)) {
    const shoal_shape_t shape = shoal_value_type(x).shape;
    const int64_t C = shape.dims[2], D = C / heads;
    const bool own = memory.graph == NULL, bare = options->no_bias;
    const source_t s = {heads, keys, D, own, options};
    shoal_value_t queries, others;
    int64_t from = 0;  // where keys begin
    if (own) {
      queries = others = shoal_nn_project(graph, "qkv", x, C + 2 * keys * D, qkv_init, bare);
      from = C;
    } else {
      queries = shoal_nn_project(graph, "q", x, C, qkv_init, bare);
      others = shoal_nn_project(graph, "kv", memory, 2 * keys * D, qkv_init, bare);
    }
    const shoal_value_t q = heads_of(graph, "q", queries, 0, heads, &s);
    const shoal_value_t k = heads_of(graph, "k", others, from, keys, &s);
    const shoal_value_t v = heads_of(graph, "v", others, from + keys * D, keys, &s);
    y = attend(graph, q, k, v, &s);
    y = shoal_reshape(graph, shoal_transpose(graph, y, SHOAL_SHAPE(0, 2, 1, 3)), shape);
    y = shoal_nn_project(graph, "proj", y, C, proj_init, bare);
  }
  shoal_scope_pop(graph);
  return y;
}

static const shoal_init_t NORMAL = {SHOAL_INIT_NORMAL, 0, 0.02};

shoal_value_t shoal_nn_self_attention_with_at(shoal_graph_t *graph, const char *name,
                                              shoal_value_t x, int64_t heads,
                                              const shoal_nn_attention_options_t *options,
                                              const char *file, int line) {
  shoal_site_push(graph, file, line);
  shoal_value_t y = shoal_nn_attend(graph, name, x, shoal_none(), heads, options, NORMAL, NORMAL);
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
  y = shoal_nn_attend(graph, name, x, memory, heads, options, NORMAL, NORMAL);
  shoal_site_pop(graph);
  return y;
}

shoal_value_t shoal_nn_self_attention_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                         int64_t heads, const char *file, int line) {
  return shoal_nn_self_attention_with_at(graph, name, x, heads, NULL, file, line);
}

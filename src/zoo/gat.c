// A graph attention network that gives each node of a graph a class. A row is a graph of N
// nodes and E edges, given as two lists of node numbers: edge i leads from src[i] to dst[i], and
// every node has an edge to itself besides. H heads of D channels:
//   h = x W                                                         [N, H, D]
//   e[i] = leaky_relu(from . h[src[i]] + to . h[dst[i]])            for each edge and head
//   alpha = softmax of e over the edges that end at the same node
//   out[n] = sum over the edges i to n of alpha[i] h[src[i]], + bias
// Heads are joined, and in the last layer averaged. Reference: Velickovic et al. 2018; the formula
// and the names are those of PyTorch Geometric's GATConv.
#include "zoo/family.h"

typedef struct settings {
  int64_t nodes, edges, features, width, heads, layers, classes;
  double dropout;
} settings_t;

static const shoal_option_t SETTINGS[] = {
    SHOAL_ZOO_SETTING(INT, nodes, "32", "nodes of a graph"),
    SHOAL_ZOO_SETTING(INT, edges, "128", "directed edges of a graph"),
    SHOAL_ZOO_SETTING(INT, features, "16", "features of a node"),
    SHOAL_ZOO_SETTING(INT, width, "8", "channels of a head"),
    SHOAL_ZOO_SETTING(INT, heads, "4", "heads, but for the last layer's one"),
    SHOAL_ZOO_SETTING(INT, layers, "2", "layers"),
    SHOAL_ZOO_SHARE(dropout, NULL, "probability of dropping an input or a weight of attention"),
    SHOAL_ZOO_SETTING(INT, classes, "4", "classes of a node")};

static const shoal_zoo_preset_t PRESETS[] = {
    {"gat-tiny", "batch=3 nodes=5 edges=7 features=4 width=3 heads=2 classes=3", "for tests"},
    {"gat-cora",
     "batch=1 nodes=2708 edges=10556 features=1433 width=8 heads=8 classes=7 dropout=0.6",
     "the paper's, for the citations of Cora"}};

typedef struct edges {
  shoal_value_t src, dst;  // among the nodes of all rows, with every node's own
  int64_t nodes, count;
} edges_t;

// Nodes of all rows count on: [rows, E] -> [rows E + rows N].
static shoal_value_t ends(shoal_graph_t *g, const settings_t *s, const char *name, int64_t rows) {
  const int64_t all = rows * s->nodes;
  const shoal_value_t ids = shoal_input(g, name, SHOAL_I32, SHOAL_SHAPE(rows, s->edges));
  // a number that is none of a node of its graph is an error here, before it means another graph's
  const shoal_value_t own = shoal_iota(g, SHOAL_SHAPE(s->nodes), 0, SHOAL_I32);
  const shoal_value_t node = shoal_gather(g, own, ids, 0);
  const shoal_value_t row = shoal_iota(g, SHOAL_SHAPE(rows, s->edges), 0, SHOAL_I32);
  const shoal_value_t each = shoal_full(g, SHOAL_SHAPE(1), (double)s->nodes, SHOAL_I32);
  const shoal_value_t flat =
      shoal_reshape(g, shoal_add(g, node, shoal_mul(g, row, each)), SHOAL_SHAPE(rows * s->edges));
  const shoal_value_t self = shoal_iota(g, SHOAL_SHAPE(all), 0, SHOAL_I32);
  return shoal_concat(g, 2, (shoal_value_t[]){flat, self}, 0);
}

// What a head makes of each node: a number, [N, H].
static shoal_value_t score(shoal_graph_t *g, const char *name, shoal_value_t h) {
  const shoal_shape_t shape = shoal_value_type(h).shape;
  const shoal_dtype_t dtype = shoal_value_type(h).dtype;
  const shoal_init_t xavier =
      shoal_init_xavier_uniform((double)shape.dims[1], (double)shape.dims[2], 0);
  const shoal_value_t vector =
      shoal_nn_parameter(g, name, dtype, SHOAL_SHAPE(1, shape.dims[1], shape.dims[2]), xavier);
  return shoal_reduce_sum(g, shoal_mul(g, h, vector), SHOAL_SHAPE(2));
}

// x [N, features] -> [N, H, D], without the bias.
static shoal_value_t attend(shoal_graph_t *g, shoal_value_t x, const edges_t *edges, int64_t heads,
                            int64_t width, double p) {
  const double fan_in = (double)shoal_value_type(x).shape.dims[1];
  const shoal_nn_linear_options_t product = {
      .no_bias = true,
      .weight_init = shoal_init_xavier_uniform(fan_in, (double)(heads * width), 0)};
  const shoal_value_t flat = shoal_nn_linear_with(g, "lin", x, heads * width, &product);
  const shoal_value_t h = shoal_reshape(g, flat, SHOAL_SHAPE(edges->nodes, heads, width));
  const shoal_value_t from = score(g, "from", h), to = score(g, "to", h);
  shoal_value_t e =
      shoal_add(g, shoal_gather(g, from, edges->src, 0), shoal_gather(g, to, edges->dst, 0));
  e = shoal_leaky_relu_with(g, e, &(shoal_leaky_relu_options_t){.slope = 0.2});
  shoal_value_t alpha = shoal_segment_softmax(g, e, edges->dst, edges->nodes);
  alpha = shoal_nn_dropout(g, "alpha_drop", alpha, p);
  alpha = shoal_reshape(g, alpha, SHOAL_SHAPE(edges->count, heads, 1));
  const shoal_value_t sent = shoal_mul(g, alpha, shoal_gather(g, h, edges->src, 0));
  return shoal_segment_sum(g, sent, edges->dst, edges->nodes);
}

static void build(shoal_graph_t *g, const shoal_zoo_job_t *job) {
  const settings_t *s = job->settings;
  const double p = job->phase == SHOAL_ZOO_TRAIN ? s->dropout : 0;
  const int64_t nodes = job->rows * s->nodes;
  const shoal_init_t zeros = {0};
  shoal_value_t x = shoal_input(g, "x", job->dtype, SHOAL_SHAPE(job->rows, s->nodes, s->features));
  const edges_t edges = {ends(g, s, "src", job->rows), ends(g, s, "dst", job->rows), nodes,
                         job->rows * s->edges + nodes};
  const shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(job->rows, s->nodes));
  x = shoal_reshape(g, x, SHOAL_SHAPE(nodes, s->features));
  for (int64_t i = 0; i < s->layers; ++i) {
    const bool last = i + 1 == s->layers;
    const int64_t heads = last ? 1 : s->heads, width = last ? s->classes : s->width;
    shoal_zoo_scope(g, "conv", i + 1);
    x = attend(g, shoal_nn_dropout(g, "drop", x, p), &edges, heads, width, p);
    x = shoal_reshape(g, x, SHOAL_SHAPE(nodes, heads * width));
    x = shoal_add(g, x,
                  shoal_nn_parameter(g, "bias", job->dtype, SHOAL_SHAPE(heads * width), zeros));
    shoal_scope_pop(g);
    if (!last) x = shoal_elu(g, x);
  }
  const shoal_value_t logits = shoal_reshape(g, x, SHOAL_SHAPE(job->rows, s->nodes, s->classes));
  // labels that are not known, -100, are not counted: most of a citation graph's
  shoal_zoo_end(g, job, shoal_nn_cross_entropy_with(g, logits, y, NULL), logits);
}

static void names(const void *settings, shoal_zoo_map_t *map) {
  const settings_t *s = settings;
  for (map->number = 1; map->number <= s->layers; ++map->number) {
    shoal_zoo_map_linear(map, "conv#/lin", "conv#.lin", false);
    SHOAL_ZOO_SAME(map, "conv#/from", "conv#.att_src");
    SHOAL_ZOO_SAME(map, "conv#/to", "conv#.att_dst");
    SHOAL_ZOO_SAME(map, "conv#/bias", "conv#.bias");
  }
}

const shoal_zoo_family_t shoal_zoo_family_gat = {.name = "gat",
                                                 .doc = "graph attention: a class for each node",
                                                 SHOAL_ZOO_SETTINGS(SETTINGS),
                                                 SHOAL_ZOO_PRESETS(PRESETS),
                                                 .rows = 4,
                                                 .build = build,
                                                 .names = names};

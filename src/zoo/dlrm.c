// DLRM, which says how likely someone follows a link. B rows, F tables, C width.
//   x = bottom MLP of the dense features                                         [B, C]
//   e[f] = sum of the rows of table f that ids name                              [B, C] each
//   z = product of any two of x and the e's, the triangle below the diagonal     [B, F (F + 1) / 2]
//   logits = top MLP of [x, z]                                                   [B]
// Inputs: x [B, dense], y i32 [B] (0 or 1), and for each table ids0, ids1 .. i32 [B, hot].
// Reference: Naumov et al. 2019; names as in https://github.com/facebookresearch/dlrm.
#include <math.h>
#include <stdlib.h>

#include "base/locale.h"
#include "zoo/family.h"

typedef struct settings {
  int64_t dense, width, hot;
  const char *tables, *bottom, *top;
} settings_t;

static const shoal_option_t SETTINGS[] = {
    SHOAL_ZOO_SETTING(INT, dense, "13", "dense features"),
    SHOAL_OPTION(settings_t, STRING, tables, "1000,500,100,10", "rows of each table"),
    SHOAL_ZOO_SETTING(INT, width, "16", "channels of the tables"),
    SHOAL_ZOO_SETTING(INT, hot, "1", "ids of a row in each table, whose rows are added"),
    SHOAL_OPTION(settings_t, STRING, bottom, "64,32",
                 "widths of the bottom MLP, but for the last, which is width"),
    SHOAL_OPTION(settings_t, STRING, top, "64,32",
                 "widths of the top MLP, but for the last, which is 1")};

static const shoal_zoo_preset_t PRESETS[] = {
    {"dlrm-tiny", "batch=5 dense=3 tables=7,4,5 width=4 hot=2 bottom=6 top=8", "for tests"},
    {"dlrm-kaggle",
     "batch=128 width=16 bottom=512,256,64 top=512,256 tables=1460,583,10131227,2202608,305,24,"
     "12517,633,3,93145,5683,8351593,3194,27,14992,5461306,10,5652,2173,4,7046547,18,15,286181,"
     "105,142572",
     "Criteo's Kaggle data, as in DLRM's own script"},
    {"dlrm-mlperf",
     "batch=2048 width=128 bottom=512,256 top=1024,1024,512,256 tables=39884406,39043,17289,7420,"
     "20263,3,7120,1543,63,38532951,2953546,403346,10,2208,11938,155,4,976,14,39979771,25641295,"
     "39664984,585935,12972,108,36",
     "MLPerf's: Criteo's terabyte, tables of at most 40 million rows"}};

enum { MOST = 30 };  // tables, or layers of an MLP
typedef struct sizes {
  int64_t count, items[MOST];
} sizes_t;

// "512,256"; false if it is no such list.
static bool parse_sizes(const char *text, sizes_t *out) {
  out->count = 0;
  while (text && *text) {
    char *end;
    const long long number = strtoll(text, &end, 10);
    if (end == text || number <= 0 || number > INT32_MAX || out->count == MOST) return false;
    if (*end && (*end != ',' || !end[1])) return false;
    out->items[out->count++] = number;
    text = *end ? end + 1 : end;
  }
  return true;
}

// All of them, with the last layers' widths.
typedef struct lists {
  sizes_t tables, bottom, top;
} lists_t;
static bool parse_lists(const settings_t *s, lists_t *out) {
  if (!parse_sizes(s->tables, &out->tables) || !parse_sizes(s->bottom, &out->bottom) ||
      !parse_sizes(s->top, &out->top) || out->bottom.count == MOST || out->top.count == MOST)
    return false;
  out->bottom.items[out->bottom.count++] = s->width;
  out->top.items[out->top.count++] = 1;
  return true;
}

// Linear layers with relu between them, and behind the last if asked for.
static shoal_value_t mlp(shoal_graph_t *g, const char *name, shoal_value_t x, const sizes_t *sizes,
                         bool relu_at_end) {
  shoal_scope_push(g, name);
  for (int64_t i = 0; i < sizes->count; ++i) {
    char layer[32];
    shoal_format(layer, sizeof layer, "fc%d", (int)i + 1);
    const double fan_in = (double)shoal_value_type(x).shape.dims[1];
    const double fan_out = (double)sizes->items[i];
    const shoal_nn_linear_options_t options = {
        .weight_init = shoal_init_xavier_normal(fan_in, fan_out, 0),
        .bias_init = {SHOAL_INIT_NORMAL, 0, sqrt(1 / fan_out)}};
    x = shoal_nn_linear_with(g, layer, x, sizes->items[i], &options);
    if (i + 1 < sizes->count || relu_at_end) x = shoal_relu(g, x);
  }
  shoal_scope_pop(g);
  return x;
}

// [B, C] of one table. Bags of equal size begin at multiples of it.
static shoal_value_t look_up(shoal_graph_t *g, const settings_t *s, const shoal_zoo_job_t *job,
                             int64_t table, int64_t rows) {
  const int64_t B = job->rows;
  char input[32], name[32];
  shoal_format(input, sizeof input, "ids%d", (int)table);
  shoal_format(name, sizeof name, "table%d", (int)table);
  const shoal_value_t ids = shoal_input(g, input, SHOAL_I32, SHOAL_SHAPE(B, s->hot));
  const shoal_value_t flat = shoal_reshape(g, ids, SHOAL_SHAPE(B * s->hot));
  const shoal_init_t uniform = {SHOAL_INIT_UNIFORM, -1 / sqrt((double)rows),
                                1 / sqrt((double)rows)};
  // one id in each bag is a plain embedding, which ranks can cut by rows of the batch
  if (s->hot == 1)
    return shoal_nn_embedding_with(g, name, flat, rows, s->width, job->dtype,
                                   &(shoal_nn_embedding_options_t){.init = uniform});
  shoal_value_t offsets = shoal_iota(g, SHOAL_SHAPE(B), 0, SHOAL_I32);
  offsets = shoal_mul(g, offsets, shoal_full(g, SHOAL_SHAPE(1), (double)s->hot, SHOAL_I32));
  return shoal_nn_embedding_bag(
      g, name, flat, offsets, rows, s->width, job->dtype,
      &(shoal_nn_embedding_bag_options_t){.mode = "sum", .init = uniform});
}

// x and the products of any two of x and the e's.
static shoal_value_t interact(shoal_graph_t *g, int64_t B, int64_t count,
                              const shoal_value_t *all) {
  shoal_value_t parts[MOST + 1] = {all[0]};
  const shoal_value_t stacked = shoal_stack(g, (int32_t)count, all, 1);  // [B, F + 1, C]
  const shoal_value_t z = shoal_einsum(g, stacked, stacked, "bic,bjc->bij");
  for (int64_t i = 1; i < count; ++i) {
    const shoal_value_t row = shoal_slice(g, z, SHOAL_SHAPE(0, i, 0), SHOAL_SHAPE(B, 1, i));
    parts[i] = shoal_reshape(g, row, SHOAL_SHAPE(B, i));
  }
  return shoal_concat(g, (int32_t)count, parts, 1);
}

static void build(shoal_graph_t *g, const shoal_zoo_job_t *job) {
  const settings_t *s = job->settings;
  const int64_t B = job->rows;
  lists_t lists;
  if (!parse_lists(s, &lists)) {
    shoal_nn_refuse_hint(g, "write 512,256",
                         "dlrm: tables, bottom and top are lists of at most %d sizes above 0",
                         MOST - 1);
    return;
  }
  const shoal_value_t x = shoal_input(g, "x", job->dtype, SHOAL_SHAPE(B, s->dense));
  shoal_value_t all[MOST + 1] = {mlp(g, "bottom", x, &lists.bottom, true)};
  for (int64_t i = 0; i < lists.tables.count; ++i)
    all[i + 1] = look_up(g, s, job, i, lists.tables.items[i]);
  const shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(B));
  const shoal_value_t z = interact(g, B, lists.tables.count + 1, all);
  const shoal_value_t logits =
      shoal_reshape(g, mlp(g, "top", z, &lists.top, false), SHOAL_SHAPE(B));
  const shoal_value_t clicked = shoal_cast(g, y, job->dtype);
  shoal_zoo_end(g, job, shoal_nn_bce_with_logits_loss(g, logits, clicked, NULL), logits);
}

static void map_mlp(shoal_zoo_map_t *map, const char *ours, const char *theirs,
                    const sizes_t *sizes) {
  for (int64_t i = 0; i < sizes->count; ++i) {
    char a[64], b[64];
    shoal_format(a, sizeof a, "%s/fc%d", ours, (int)i + 1);
    shoal_format(b, sizeof b, "%s.%d", theirs, 2 * (int)i);  // a relu between two
    shoal_zoo_map_linear(map, a, b, true);
  }
}

static void names(const void *settings, shoal_zoo_map_t *map) {
  lists_t lists;
  if (!parse_lists(settings, &lists)) return;
  map_mlp(map, "bottom", "bot_l", &lists.bottom);
  for (map->number = 0; map->number < lists.tables.count; ++map->number)
    SHOAL_ZOO_SAME(map, "table#/table", "emb_l.#.weight");
  map_mlp(map, "top", "top_l", &lists.top);
}

const shoal_zoo_family_t shoal_zoo_family_dlrm = {
    .name = "dlrm",
    .doc = "deep learning recommendation model: will someone click?",
    SHOAL_ZOO_SETTINGS(SETTINGS),
    SHOAL_ZOO_PRESETS(PRESETS),
    .rows = 64,
    .build = build,
    .names = names};

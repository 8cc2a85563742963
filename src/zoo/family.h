// What the families share: the model they are asked for, how its graphs end, lists of names.
// Private to zoo/. A family is one file: a settings struct, its option table, a builder, and the
// record shoal_zoo_family_NAME, which families.inc lists.
#ifndef SHOAL_ZOO_FAMILY_H_
#define SHOAL_ZOO_FAMILY_H_

#include "base/arena.h"
#include "nn/build.h"
#include "shoal/zoo.h"

struct shoal_zoo {
  shoal_arena_t arena;
  const shoal_zoo_family_t *family;
  void *settings;
  int64_t batch;
  shoal_dtype_t dtype;
  shoal_recipe_t recipe;
};

// Ends a graph: in training the updates that lower the loss, else the output "logits" (none if it
// is the null value); and the output "loss".
void shoal_zoo_end(shoal_graph_t *graph, const shoal_zoo_job_t *job, shoal_value_t loss,
                   shoal_value_t logits);

// Adds the updates that lower the loss, of states whose names match the pattern (NULL: of all),
// with the model's learning rate or one of that name (NULL: the model's).
void shoal_zoo_train(shoal_graph_t *graph, const shoal_zoo_job_t *job, shoal_value_t loss,
                     const char *only, const char *name);

// ---- decoders (text.c) --------------------------------------------------------------------------

typedef struct shoal_zoo_text {
  int64_t context, tokens;  // positions there are; of a row in this graph, T
  shoal_value_t ids;        // [B, T]
  shoal_value_t labels;     // [B, T], in training and evaluation
  shoal_value_t lengths;    // [B], in prefill
  shoal_value_t positions;  // [B], in decode
} shoal_zoo_text_t;

// Tokens of a row in this graph; the graph is refused where they are more than the context.
int64_t shoal_zoo_tokens(shoal_graph_t *graph, const shoal_zoo_job_t *job, int64_t context);
// The inputs of a decoder with so many positions.
shoal_zoo_text_t shoal_zoo_text(shoal_graph_t *graph, const shoal_zoo_job_t *job, int64_t context);
// Lets attention keep keys and values, in the phases that do.
void shoal_zoo_remember(const shoal_zoo_job_t *job, const shoal_zoo_text_t *text,
                        shoal_nn_attention_options_t *options);
// What the head looks at, of x [B, T, C]: in prefill the last token of each row [B, 1, C].
shoal_value_t shoal_zoo_last(shoal_graph_t *graph, const shoal_zoo_job_t *job,
                             const shoal_zoo_text_t *text, shoal_value_t x);
// Logits of x [.., C]: its products with the rows of "wte/table" when tied, else with
// "head/weight", without a bias.
shoal_value_t shoal_zoo_head(shoal_graph_t *graph, const shoal_zoo_job_t *job, shoal_value_t x,
                             int64_t vocabulary, bool tied);
// Ends the graph of a decoder with the head on x [B, T, C], which has passed the last norm; to the
// loss is added `more`, unless it is zero.
void shoal_zoo_text_end(shoal_graph_t *graph, const shoal_zoo_job_t *job,
                        const shoal_zoo_text_t *text, shoal_value_t x, int64_t vocabulary,
                        bool tied, shoal_value_t more);

enum { SHOAL_ZOO_DECODER = (1 << SHOAL_ZOO_PHASE_COUNT) - 1 };  // phases of a decoder

// ---- blocks -------------------------------------------------------------------------------------

// An RMS norm with an eps.
static inline shoal_value_t shoal_zoo_rms(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                          double eps) {
  return shoal_nn_rms_norm_with(graph, name, x, &(shoal_nn_rms_norm_options_t){.eps = eps});
}
// Opens the scope "name<number>".
void shoal_zoo_scope(shoal_graph_t *graph, const char *name, int64_t number);

// A row of a settings table; its struct is called settings_t in every family.
#define SHOAL_ZOO_SETTING(kind, field, value, doc) \
  SHOAL_OPTION(settings_t, kind, field, value, doc, .positive = true)
#define SHOAL_ZOO_FLAG(field, value, doc) SHOAL_OPTION(settings_t, BOOL, field, value, doc)
#define SHOAL_ZOO_SHARE(field, value, doc) SHOAL_OPTION(settings_t, REAL, field, value, doc)
// Rows that every transformer of texts has, and every network that sorts pictures or pixels.
#define SHOAL_ZOO_TEXT_SETTINGS                                            \
  SHOAL_ZOO_SETTING(INT, context, "64", "tokens per row"),                 \
      SHOAL_ZOO_SETTING(INT, vocabulary, "256", "size of the vocabulary"), \
      SHOAL_ZOO_SETTING(INT, width, "64", "width of the model"),           \
      SHOAL_ZOO_SETTING(INT, heads, "4", "attention heads")
#define SHOAL_ZOO_PICTURE_SETTINGS(side, count)                   \
  SHOAL_ZOO_SETTING(INT, channels, "3", "channels of a picture"), \
      SHOAL_ZOO_SETTING(INT, size, side, "side of a picture"),    \
      SHOAL_ZOO_SETTING(INT, classes, count, "classes")
// Fields of a family's record that are tables.
#define SHOAL_ZOO_SETTINGS(table) \
  .settings = table, .setting_count = sizeof table / sizeof *table, .size = sizeof(settings_t)
#define SHOAL_ZOO_PRESETS(table) .presets = table, .preset_count = sizeof table / sizeof *table
#define SHOAL_ZOO_KEYS(table) .keys = table, .key_count = sizeof table / sizeof *table

// ---- names --------------------------------------------------------------------------------------

struct shoal_zoo_map {
  shoal_arena_t *arena;
  SHOAL_VEC(shoal_zoo_name_t) names;
  int64_t number;  // what '#' stands for
  bool failed;     // memory ran short
};

// Adds an entry; '#' in either name stands for map->number. The others fill in what differs:
// transposed, a part along an axis.
void shoal_zoo_map_add(shoal_zoo_map_t *map, shoal_zoo_name_t name);
#define SHOAL_ZOO_SAME(map, ours_, theirs_) \
  shoal_zoo_map_add(map, (shoal_zoo_name_t){.ours = ours_, .theirs = theirs_})
#define SHOAL_ZOO_TURNED(map, ours_, theirs_) \
  shoal_zoo_map_add(map, (shoal_zoo_name_t){.ours = ours_, .theirs = theirs_, .transposed = true})
#define SHOAL_ZOO_AGAIN(map, ours_, theirs_) \
  shoal_zoo_map_add(map, (shoal_zoo_name_t){.ours = ours_, .theirs = theirs_, .tied = true})
// A name with parts that differ, in the arena of the map.
const char *shoal_zoo_map_text(shoal_zoo_map_t *map, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// "PREFIX/weight" [in, out] and "PREFIX/bias" of ours, "PREFIX.weight" [out, in] and "PREFIX.bias"
// of theirs, and of a norm gamma and beta.
void shoal_zoo_map_linear(shoal_zoo_map_t *map, const char *ours, const char *theirs, bool bias);
void shoal_zoo_map_norm(shoal_zoo_map_t *map, const char *ours, const char *theirs, bool bias);
// Of a convolution, whose weights are alike, and of a batch norm, with its running statistics.
// theirs NULL: ours with dots.
void shoal_zoo_map_conv(shoal_zoo_map_t *map, const char *ours, const char *theirs, bool bias);
void shoal_zoo_map_batch_norm(shoal_zoo_map_t *map, const char *ours, const char *theirs);
// Columns [from, from + size) of a product of ours are one of theirs.
void shoal_zoo_map_columns(shoal_zoo_map_t *map, const char *ours, const char *theirs, bool bias,
                           int64_t from, int64_t size);
// "PREFIX/qkv" and "PREFIX/proj" of ours without biases, q_proj, k_proj, v_proj and o_proj of
// theirs; key_heads 0: as many as heads.
void shoal_zoo_map_qkv(shoal_zoo_map_t *map, const char *ours, const char *theirs, int64_t size,
                       int64_t heads, int64_t key_heads);
// Norms and attention of block map->number as Hugging Face's Llama calls them, and Mixtral.
void shoal_zoo_map_llama(shoal_zoo_map_t *map, int64_t size, int64_t heads, int64_t key_heads);
// lm_head.weight.
void shoal_zoo_map_head(shoal_zoo_map_t *map, bool tied);

#endif  // SHOAL_ZOO_FAMILY_H_

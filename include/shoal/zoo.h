// Shoal, zoo: models by name. They only build graphs, with nn.h as any user would.
//
// A *family* ("gpt2", "llama") is a way to build a model, sized by *settings* ("width=64"); a
// *preset* ("gpt2-124m") is a family with settings. A family's name alone is a small model of it,
// FAMILY-tiny one for tests. `shoal models` lists them.
//
//   shoal_zoo_t *zoo;
//   status = shoal_zoo_create("gpt2-124m", &(shoal_zoo_options_t){.settings = "batch=4"}, &zoo);
//   ...
//   shoal_zoo_add(zoo, model);  // the graphs "train" and "eval"
//
// What graphs take and give:
//   language models   ids i32 [rows, context], labels i32 [rows, context]
//                     (the token behind each; -100 costs nothing)
//   classifiers       x [rows, ..], y i32 [rows]
//   phase "train"     output loss, a scalar; states are updated
//   phase "eval"      outputs loss and logits; no state changes. Where the recipe keeps averages of
//                     parameters, it computes with these
//
// Decoders (gpt2, llama, moe) have two more, for generation. Both keep keys and values of every
// block in the states "block<i>/attn/cache_k" and "cache_v" [rows, key heads, context, head], which
// are not saved; rows is the same in both.
//   phase "prefill"   ids i32 [rows, tokens], lengths i32 [rows]: the tokens that count in each,
//                     1 or more; any ids behind them. Output logits [rows, vocabulary] behind the
//                     last of them. The cache has positions 0 to tokens - 1
//   phase "decode"    ids i32 [rows, 1], positions i32 [rows]: where each stands, from 0 on. Output
//                     logits [rows, vocabulary] behind it. The cache gets that position
//
// All functions are *Not collective* and do not block.
#ifndef SHOAL_ZOO_H_
#define SHOAL_ZOO_H_

#include "shoal/nn.h"
#include "shoal/options.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_zoo shoal_zoo_t;

// ---- one model ----------------------------------------------------------------------------------

typedef struct shoal_zoo_options {
  // Words NAME=VALUE with blanks between them, from left to right: "width=64 heads=4". Every family
  // has `batch` (rows of a batch) and `dtype` (f64, f32, bf16 or f16); the others stand in its
  // table.
  const char *settings;
  // The same as lines NAME: VALUE, the text of a YAML file; `settings` go before it. NULL: none.
  const char *yaml;
  const char *yaml_name;  // of that file, for messages
  // How it is trained; NULL: AdamW. Copied, but for values in it.
  const shoal_recipe_t *recipe;
  shoal_allocator_t allocator;  // zero: the system's
} shoal_zoo_options_t;

// A model of the zoo, with its sizes. NULL options are all defaults. NOT_FOUND names the nearest
// model; a setting that the family has not, or that is no such value, is INVALID_ARGUMENT and names
// the nearest one.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_zoo_create(const char *name,
                                                         const shoal_zoo_options_t *options,
                                                         shoal_zoo_t **out_zoo);
SHOAL_API void shoal_zoo_free(shoal_zoo_t *zoo);  // NULL is allowed

// Builds the model into an empty graph, for a phase ("train", "eval"; decoders also "prefill",
// "decode") and so many rows (0: the setting `batch`). Graphs of one model share its states. What
// is wrong is an error of the model (shoal_model_status), as in every builder.
SHOAL_API void shoal_zoo_build(const shoal_zoo_t *zoo, shoal_graph_t *graph, const char *phase,
                               int64_t rows);
// The same for rows of so many tokens (0: the setting `context`), of models that have a context.
SHOAL_API void shoal_zoo_build_tokens(const shoal_zoo_t *zoo, shoal_graph_t *graph,
                                      const char *phase, int64_t rows, int64_t tokens);
// Builds the graphs "train" and "eval" of `batch` rows.
SHOAL_API void shoal_zoo_add(const shoal_zoo_t *zoo, shoal_model_t *model);

SHOAL_API int64_t shoal_zoo_rows(const shoal_zoo_t *zoo);  // the setting `batch`
SHOAL_API bool shoal_zoo_has(const shoal_zoo_t *zoo, const char *phase);
// A setting as text; NULL: the family has none of that name, or memory is short. Numbers are
// written into the arena; other values live as long as the model.
SHOAL_API const char *shoal_zoo_setting(const shoal_zoo_t *zoo, const char *name,
                                        shoal_arena_t *arena);
// All settings but batch and dtype as words NAME=VALUE: the family's name and these make the same
// model. In the arena; NULL: memory is short.
SHOAL_API const char *shoal_zoo_settings(const shoal_zoo_t *zoo, shoal_arena_t *arena);

// What a model is in numbers. Nothing of its size is allocated to find them.
typedef struct shoal_zoo_size {
  int64_t parameters;  // elements of trainable states
  // Of a sample (a row of the batch), as the records of ops count them; the update is not in them.
  double forward_flops, backward_flops;
  int64_t parameter_bytes;
  int64_t other_bytes;  // what the optimizer keeps, running statistics and counters
} shoal_zoo_size_t;
// `mixed`: with parameters in f32 where it computes in bf16 or f16 (shoal_model_options_t).
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_zoo_measure(const shoal_zoo_t *zoo, bool mixed,
                                                          shoal_zoo_size_t *out_size);

// ---- other people's names -----------------------------------------------------------------------

// Where a state of ours lies among the tensors of another library (Hugging Face, PyTorch). Theirs
// is the whole of ours, or the part [from, from + size) of its dim `axis`; without that dim if
// `dropped`; with its two last dims swapped if `transposed`.
typedef struct shoal_zoo_name {
  const char *ours, *theirs;
  bool transposed, dropped;
  int32_t axis;
  int64_t from, size;  // size 0: the whole
  bool tied;           // a second name of a state that has one: files may have it or not
} shoal_zoo_name_t;
// The map for this model, in the arena; a family without one has no entries.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_zoo_names(const shoal_zoo_t *zoo,
                                                        shoal_arena_t *arena, int64_t *out_count,
                                                        const shoal_zoo_name_t **out_names);
// A setting and the key of a Hugging Face config.json that says the same.
typedef struct shoal_zoo_key {
  const char *ours, *theirs;
} shoal_zoo_key_t;

// ---- families -----------------------------------------------------------------------------------

typedef struct shoal_zoo_preset {
  const char *name, *settings, *doc;
} shoal_zoo_preset_t;

typedef enum shoal_zoo_phase {
  SHOAL_ZOO_TRAIN,
  SHOAL_ZOO_EVAL,
  SHOAL_ZOO_PREFILL,
  SHOAL_ZOO_DECODE,
  SHOAL_ZOO_PHASE_COUNT
} shoal_zoo_phase_t;

// What a family's builder is given.
typedef struct shoal_zoo_job {
  const shoal_zoo_t *zoo;
  const void *settings;  // the family's struct
  shoal_dtype_t dtype;   // of activations
  shoal_zoo_phase_t phase;
  int64_t rows;
  int64_t tokens;  // of a row; 0: the context
} shoal_zoo_job_t;

typedef struct shoal_zoo_map shoal_zoo_map_t;  // a list of names that is being written

typedef struct shoal_zoo_family {
  const char *name, *doc;
  const shoal_option_t *settings;
  int64_t setting_count;
  size_t size;   // of the struct that they fill
  int64_t rows;  // of a batch, unless it is set
  const shoal_zoo_preset_t *presets;
  int64_t preset_count;
  uint32_t phases;  // bit 1 << phase; 0: train and eval
  void (*build)(shoal_graph_t *graph, const shoal_zoo_job_t *job);
  const char *model_type;  // Hugging Face's; NULL: none
  const shoal_zoo_key_t *keys;
  int64_t key_count;
  void (*names)(const void *settings, shoal_zoo_map_t *map);  // NULL: no map
} shoal_zoo_family_t;

// All families, in the order of `shoal models`.
SHOAL_API const shoal_zoo_family_t *const *shoal_zoo_families(int64_t *out_count);
// The family of a model.
SHOAL_API const shoal_zoo_family_t *shoal_zoo_family(const shoal_zoo_t *zoo);
// The family of a name, which is its own or a preset's; *out_preset is NULL, or the preset. NULL:
// there is none.
SHOAL_API const shoal_zoo_family_t *shoal_zoo_find(const char *name,
                                                   const shoal_zoo_preset_t **out_preset);

// ---- three models from C ------------------------------------------------------------------------

// Each builds the graphs "train" and "eval" of a family, with sizes from a struct. All-zero options
// are the family's defaults; note that dtype 0 is f64.
typedef struct shoal_mlp_options {
  int64_t batch, in_features, hidden, classes, layers;  // 64, 64, 128, 10, 2
  shoal_dtype_t dtype;
  bool sgd;
  double dropout, lr, eps;
} shoal_mlp_options_t;
SHOAL_API void shoal_zoo_mlp(shoal_model_t *model, const shoal_mlp_options_t *options);

typedef struct shoal_gpt_options {
  int64_t batch, context, vocabulary, width, heads, layers;  // 8, 64, 256, 64, 4, 2
  shoal_dtype_t dtype;
  double dropout, lr, eps;
  bool tied;  // head reads the embedding
} shoal_gpt_options_t;
SHOAL_API void shoal_zoo_gpt(shoal_model_t *model, const shoal_gpt_options_t *options);

typedef struct shoal_cnn_options {
  int64_t batch, channels, size, classes;  // 4, 3, 12, 10
  shoal_dtype_t dtype;
  double lr, eps;
} shoal_cnn_options_t;
SHOAL_API void shoal_zoo_cnn(shoal_model_t *model, const shoal_cnn_options_t *options);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_ZOO_H_

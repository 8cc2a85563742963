// Shoal, zoo: models by name. They only build graphs, with the layers of nn.h, as any user would.
//
// A *family* ("gpt2", "llama") is a way to build a model, sized by *settings* ("width=64"); a
// *preset* ("gpt2-124m") is a family with published settings. A family's name alone is a small
// model of it, FAMILY-tiny a smaller one for tests. `shoal models` lists them all.
//
//   shoal_zoo_t *zoo;
//   status = shoal_zoo_create("gpt2-124m", &(shoal_zoo_options_t){.settings = "batch=4"}, &zoo);
//   ...
//   shoal_zoo_add(zoo, model);  // the graphs "train" and "eval"
//
// Inputs; the other families have some besides, or of other shapes (shoal_graph_input_type says):
//   language models   ids i32 [rows, context], labels i32 [rows, context]: the token that follows
//                     each id; a label of -100 is ignored
//   classifiers       x [rows, ..], y i32 [rows]
//
// Phases, and what their graphs put out:
//   "train"     the scalar loss; states are updated
//   "eval"      loss and logits; no state changes. Where the recipe keeps averages of parameters,
//               this graph reads the averages
//
// Decoders (gpt2, llama, moe-gpt) have two more phases, for generation. Both keep the keys and
// values of every block in the states "block<i>/attn/cache_k" and "cache_v", which have the shape
// [rows, key heads, context, head] and are not saved. Both graphs must have the same rows.
//   "prefill"   takes ids i32 [rows, tokens] and lengths i32 [rows]: how many ids of each row
//               count, at least 1; the ids after them may be anything. Puts out logits
//               [rows, vocabulary] for the token after each row's last, and fills the first
//               `tokens` positions of the cache
//   "decode"    takes ids i32 [rows, 1] and positions i32 [rows], the position of each id from 0
//               on. Puts out logits [rows, vocabulary] for the next token, and fills that position
//               of the cache
//
// t5 has both, too. Its prefill runs the encoder on the ids and begins the answer. It keeps keys
// and values of the encoder in "decoder/block<i>/cross/memory_k" and "memory_v", those of the
// decoder in "decoder/block<i>/attn/cache_k" and "cache_v" [rows, heads, target, head], and the
// lengths in "memory_lengths". Its decode takes tokens of the answer; the first stands at 1.
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
  // Words NAME=VALUE with blanks between them: "width=64 heads=4"; later words win. Every family
  // has `batch` (rows of a batch) and `dtype` (f64, f32, bf16 or f16), and its own settings besides
  // (`shoal models NAME`). NULL: none.
  const char *settings;
  // The same as the text of a YAML file, lines NAME: VALUE; `settings` win over it. NULL: none.
  const char *yaml;
  const char *yaml_name;  // name of that file, for messages
  // How the model is trained; NULL: AdamW. Copied, except for graph values in it (lr_value).
  const shoal_recipe_t *recipe;
  shoal_allocator_t allocator;  // zero: the system's
} shoal_zoo_options_t;

// Looks a model up by name and reads its settings; graphs are built by the calls below. NULL
// options are the defaults; strings are copied. The caller frees the result. NOT_FOUND: there is no
// such model, and the message names the nearest. INVALID_ARGUMENT: the family does not have a
// setting, or not with that value.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_zoo_create(const char *name,
                                                         const shoal_zoo_options_t *options,
                                                         shoal_zoo_t **out_zoo);
SHOAL_API void shoal_zoo_free(shoal_zoo_t *zoo);  // NULL is allowed

// Builds the model into an empty graph for a phase ("train", "eval"; decoders also "prefill",
// "decode") and a number of rows (0: the setting `batch`). The graph has its name already
// (shoal_model_graph), so that a model can have several of one phase. Graphs of one shoal_model_t
// share its states. Errors, such as a phase that the family lacks or sizes that do not fit together
// (width=10 heads=3), are kept by that model (shoal_model_status), as with every graph builder.
SHOAL_API void shoal_zoo_build(const shoal_zoo_t *zoo, shoal_graph_t *graph, const char *phase,
                               int64_t rows);
// The same with a number of tokens in each row (0: the setting `context`), for models that have a
// context.
SHOAL_API void shoal_zoo_build_tokens(const shoal_zoo_t *zoo, shoal_graph_t *graph,
                                      const char *phase, int64_t rows, int64_t tokens);
// Adds the graphs "train" and "eval", of as many rows as the setting `batch` says.
SHOAL_API void shoal_zoo_add(const shoal_zoo_t *zoo, shoal_model_t *model);

SHOAL_API int64_t shoal_zoo_rows(const shoal_zoo_t *zoo);  // the setting `batch`
// Whether the model has graphs of a phase.
SHOAL_API bool shoal_zoo_has(const shoal_zoo_t *zoo, const char *phase);
// A setting as text. NULL: the family has none of that name, or memory is short. Numbers are
// written into the arena; other values are borrowed from `zoo`.
SHOAL_API const char *shoal_zoo_setting(const shoal_zoo_t *zoo, const char *name,
                                        shoal_arena_t *arena);
// All settings except batch and dtype as words NAME=VALUE, in the arena: with the family's name
// they make the same model again. NULL: memory is short.
SHOAL_API const char *shoal_zoo_settings(const shoal_zoo_t *zoo, shoal_arena_t *arena);

// How large a model is. The numbers are counted in its graphs; no parameter is allocated.
typedef struct shoal_zoo_size {
  int64_t parameters;                    // elements of trainable states
  double forward_flops, backward_flops;  // of one row of the batch, without the update
  int64_t parameter_bytes;
  int64_t other_bytes;  // the optimizer's moments, running statistics and counters
} shoal_zoo_size_t;
// Builds the graphs aside and counts. `mixed`: parameters are f32 where the model computes in bf16
// or f16 (shoal_model_options_t). Errors are those of building the model.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_zoo_measure(const shoal_zoo_t *zoo, bool mixed,
                                                          shoal_zoo_size_t *out_size);

// ---- names in other libraries -------------------------------------------------------------------

// Which tensor of another library (Hugging Face, PyTorch) holds a state of Shoal. Their tensor is
// our whole state, or the part [from, from + size) of its dim `axis`; without that dim if
// `dropped`; with its two last dims swapped if `transposed`.
typedef struct shoal_zoo_name {
  const char *ours, *theirs;
  bool transposed, dropped;
  int32_t axis;
  int64_t from, size;  // size 0: the whole
  bool tied;           // a second name of the same state (tied weights), which files may leave out
} shoal_zoo_name_t;
// The map of names of this model, in the arena. *out_count is 0 for a family that has no map.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_zoo_names(const shoal_zoo_t *zoo,
                                                        shoal_arena_t *arena, int64_t *out_count,
                                                        const shoal_zoo_name_t **out_names);
// A setting and the key of a Hugging Face config.json that says the same.
typedef struct shoal_zoo_key {
  const char *ours, *theirs;
} shoal_zoo_key_t;

// ---- families -----------------------------------------------------------------------------------

// What follows is for programs that list models. The table is read-only: a model of your own needs
// no family, it is a function that builds graphs (nn.h).

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

// What a family's build function gets.
typedef struct shoal_zoo_job {
  const shoal_zoo_t *zoo;
  const void *settings;  // the family's struct
  shoal_dtype_t dtype;   // of activations
  shoal_zoo_phase_t phase;
  int64_t rows;
  int64_t tokens;  // of a row; 0: the setting `context`
} shoal_zoo_job_t;

typedef struct shoal_zoo_map shoal_zoo_map_t;  // a list of names that is being written

typedef struct shoal_zoo_family {
  const char *name, *doc;
  const shoal_option_t *settings;
  int64_t setting_count;
  size_t size;   // of the struct that the settings fill
  int64_t rows;  // default of the setting `batch`
  const shoal_zoo_preset_t *presets;
  int64_t preset_count;
  bool sees_ahead;  // it reads all of ids at once: labels that are ids one later give answers away
  uint32_t phases;  // of shoal_zoo_phase_t, bit 1 << phase; 0: train and eval
  void (*build)(shoal_graph_t *graph, const shoal_zoo_job_t *job);
  const char *model_type;  // Hugging Face's; NULL: none
  const shoal_zoo_key_t *keys;
  int64_t key_count;
  void (*names)(const void *settings, shoal_zoo_map_t *map);  // NULL: no map
} shoal_zoo_family_t;

// All families, in the order of `shoal models`; static memory, like what the next two return.
SHOAL_API const shoal_zoo_family_t *const *shoal_zoo_families(int64_t *out_count);
// The family of a model.
SHOAL_API const shoal_zoo_family_t *shoal_zoo_family(const shoal_zoo_t *zoo);
// The family that `name` means: its own name, or that of a preset, to which *out_preset is then set
// (else NULL). NULL: there is no such model.
SHOAL_API const shoal_zoo_family_t *shoal_zoo_find(const char *name,
                                                   const shoal_zoo_preset_t **out_preset);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_ZOO_H_

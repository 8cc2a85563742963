// Conversion of weights: where tensors of theirs lie in ours, there and back for every family of
// the zoo, config.json, and inputs that do not fit.
// links: convert launch
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arena.h"
#include "base/dtype.h"
#include "base/file.h"
#include "convert/convert_impl.h"
#include "graph/graph.h"
#include "op/type.h"
#include "run/shards.h"

static char folder[] = "/tmp/shoal_convert_XXXXXX";

static const char *in_folder(const char *name) {
  return shoal_arena_printf(&arena, "%s/%s", folder, name);
}

static int make_folder(void **state) {
  return mkdtemp(folder) ? setup_arena(state) : -1;
}

static int remove_folder(void **state) {
  char command[300];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command) || teardown_arena(state);
}

// ---- places ---------------------------------------------------------------------------

static void expect_view(shoal_zoo_name_t entry, shoal_shape_t ours, shoal_shape_t theirs,
                        const float *values) {
  shoal_convert_view_t view;
  entry.ours = "ours", entry.theirs = "theirs";
  assert_ok(shoal_convert_place(&entry, &ours, &view));
  assert_true(shoal_shape_equal(&view.shape, &theirs));
  float whole[64], part[64], back[64];
  const int64_t count = shoal_shape_count(&ours), size = shoal_shape_count(&theirs);
  for (int64_t i = 0; i < count; ++i) whole[i] = back[i] = (float)i;
  shoal_convert_copy(&view, true, SHOAL_F32, whole, SHOAL_F32, part);
  for (int64_t i = 0; i < size; ++i) assert_true(part[i] == values[i]);
  for (int64_t i = 0; i < size; ++i) part[i] += 100;
  shoal_convert_copy(&view, false, SHOAL_F32, part, SHOAL_F32, back);
  int64_t changed = 0;
  for (int64_t i = 0; i < count; ++i) {
    assert_true(back[i] == whole[i] || back[i] == whole[i] + 100);
    changed += back[i] != whole[i];
  }
  assert_int_equal(changed, size);
}

static void test_places(void **state) {
  (void)state;
  const float same[] = {0, 1, 2, 3, 4, 5}, turned[] = {0, 3, 1, 4, 2, 5}, square[] = {0, 2, 1, 3};
  const float columns[] = {1, 2, 4, 5}, columns_turned[] = {1, 4, 2, 5}, row[] = {3, 4, 5};
  expect_view((shoal_zoo_name_t){0}, SHOAL_SHAPE(2, 3), SHOAL_SHAPE(2, 3), same);
  expect_view((shoal_zoo_name_t){.transposed = true}, SHOAL_SHAPE(2, 3), SHOAL_SHAPE(3, 2), turned);
  expect_view((shoal_zoo_name_t){.transposed = true}, SHOAL_SHAPE(2, 2), SHOAL_SHAPE(2, 2), square);
  expect_view((shoal_zoo_name_t){.axis = 1, .from = 1, .size = 2}, SHOAL_SHAPE(2, 3),
              SHOAL_SHAPE(2, 2), columns);
  expect_view((shoal_zoo_name_t){.transposed = true, .axis = 1, .from = 1, .size = 2},
              SHOAL_SHAPE(2, 3), SHOAL_SHAPE(2, 2), columns_turned);
  expect_view((shoal_zoo_name_t){.dropped = true, .axis = 0, .from = 1, .size = 1},
              SHOAL_SHAPE(2, 3), SHOAL_SHAPE(3), row);
  // One of several experts: [3, 2, 2] without its first dim, each turned.
  const float expert[] = {8, 10, 9, 11};
  expect_view((shoal_zoo_name_t){.transposed = true, .dropped = true, .from = 2, .size = 1},
              SHOAL_SHAPE(3, 2, 2), SHOAL_SHAPE(2, 2), expert);
  shoal_convert_view_t view;
  const shoal_shape_t shape = SHOAL_SHAPE(2, 3), vector = SHOAL_SHAPE(4);
  const shoal_zoo_name_t beyond = {"a", "b", .axis = 1, .from = 2, .size = 2};
  const shoal_zoo_name_t kept = {"a", "b", .dropped = true, .axis = 1};
  const shoal_zoo_name_t flat = {"a", "b", .transposed = true};
  assert_error(INVALID_ARGUMENT, "is no part", shoal_convert_place(&beyond, &shape, &view));
  assert_error(INVALID_ARGUMENT, "it is not 1", shoal_convert_place(&kept, &shape, &view));
  assert_error(INVALID_ARGUMENT, "no matrix", shoal_convert_place(&flat, &vector, &view));
}

// ---- known names ----------------------------------------------------------------------

// What cannot be seen by going there and back: a few entries as the models' papers and files have
// them.
typedef struct known {
  const char *model, *theirs, *ours;
  bool transposed, dropped;
  int64_t from, size;
} known_t;

static void test_known_names(void **state) {
  (void)state;
  static const known_t known[] = {
      {"gpt2-tiny", "transformer.h.1.attn.c_attn.weight", "block1/attn/qkv/weight", false, false, 0,
       0},
      {"gpt2-tiny", "transformer.h.0.mlp.c_proj.weight", "block0/mlp/fc2/weight", false, false, 0,
       0},
      {"gpt2-tiny", "transformer.wpe.weight", "wpe/table", false, false, 0, 0},
      {"llama-tiny", "model.layers.0.self_attn.q_proj.weight", "block0/attn/qkv/weight", true,
       false, 0, 12},
      {"llama-tiny", "model.layers.0.self_attn.k_proj.weight", "block0/attn/qkv/weight", true,
       false, 12, 6},
      {"llama-tiny", "model.layers.0.self_attn.v_proj.weight", "block0/attn/qkv/weight", true,
       false, 18, 6},
      {"llama-tiny", "model.layers.1.self_attn.o_proj.weight", "block1/attn/proj/weight", true,
       false, 0, 0},
      {"llama-tiny", "model.layers.1.mlp.gate_proj.weight", "block1/mlp/gate/weight", true, false,
       0, 0},
      {"llama-tiny", "model.layers.1.mlp.up_proj.weight", "block1/mlp/up/weight", true, false, 0,
       0},
      {"llama-tiny", "lm_head.weight", "head/weight", true, false, 0, 0},
      {"moe-gpt-tiny", "model.layers.0.block_sparse_moe.experts.2.w1.weight", "block0/moe/gate",
       true, true, 2, 1},
      {"moe-gpt-tiny", "model.layers.0.block_sparse_moe.experts.1.w3.weight", "block0/moe/up", true,
       true, 1, 1},
      {"moe-gpt-tiny", "model.layers.1.block_sparse_moe.experts.0.w2.weight", "block1/moe/down",
       true, true, 0, 1},
      {"bert-tiny", "bert.encoder.layer.0.attention.self.key.bias", "block0/attn/qkv/bias", false,
       false, 12, 12},
      {"bert-tiny", "bert.encoder.layer.1.output.LayerNorm.weight", "block1/ln_2/gamma", false,
       false, 0, 0},
      {"t5-tiny", "decoder.block.0.layer.1.EncDecAttention.k.weight",
       "decoder/block0/cross/k/weight", true, false, 0, 0},
      {"t5-tiny", "shared.weight", "wte/table", false, false, 0, 0}};
  for (size_t k = 0; k < sizeof known / sizeof *known; ++k) {
    shoal_zoo_t *zoo;
    const shoal_zoo_name_t *names;
    int64_t count, i = 0;
    assert_ok(shoal_zoo_create(known[k].model, NULL, &zoo));
    assert_ok(shoal_zoo_names(zoo, &arena, &count, &names));
    while (i < count && strcmp(names[i].theirs, known[k].theirs) != 0) ++i;
    if (i == count) fail_msg("%s has no %s", known[k].model, known[k].theirs);
    const shoal_zoo_name_t *n = &names[i];
    if (strcmp(n->ours, known[k].ours) != 0 || n->transposed != known[k].transposed ||
        n->dropped != known[k].dropped || n->from != known[k].from || n->size != known[k].size)
      fail_msg("%s is %s from %lld, %lld long", known[k].theirs, n->ours, (long long)n->from,
               (long long)n->size);
    shoal_zoo_free(zoo);
  }
}

// ---- there and back -------------------------------------------------------------------

// A checkpoint of the family's own small model, each element a number of its own.
static void write_checkpoint(const char *name, const char *path, shoal_dtype_t dtype) {
  shoal_zoo_t *zoo;
  shoal_model_t *model;
  assert_ok(shoal_zoo_create(name, NULL, &zoo));
  assert_ok(shoal_model_create(NULL, &model));
  shoal_zoo_build(zoo, shoal_model_graph(model, "eval"), "eval", 1);
  assert_ok(shoal_model_status(model));
  shoal_safetensor_t *tensors = SHOAL_NEW(&arena, shoal_safetensor_t, model->states.count);
  int64_t count = 0;
  for (int64_t i = 0; i < model->states.count; ++i) {
    tensors[count] = (shoal_safetensor_t){.name = model->states.items[i].name,
                                          .type = model->states.items[i].type};
    tensors[count++].type.dtype = dtype;
  }
  shoal_shard_writer_t writer;
  assert_ok(shoal_shard_writer_begin(path, count, tensors, 0, NULL, 0, &arena, &writer));
  int64_t number = 0;
  for (int64_t t = 0; t < count; ++t) {
    const int64_t elements = shoal_shape_count(&tensors[t].type.shape);
    void *data = shoal_arena_alloc(&arena, (size_t)elements, shoal_dtype_size(dtype));
    for (int64_t i = 0; i < elements; ++i) shoal_dtype_store(dtype, data, i, (double)++number);
    assert_ok(shoal_shard_writer_add(&writer, data));
  }
  assert_ok(shoal_shard_writer_finish(&writer));
  shoal_model_free(model);
  shoal_zoo_free(zoo);
}

static void expect_same_tensors(const char *a, const char *b) {
  shoal_shards_t x, y;
  assert_ok(shoal_shards_open(a, &arena, &x));
  assert_ok(shoal_shards_open(b, &arena, &y));
  assert_int_equal(x.count, y.count);
  for (int64_t i = 0; i < x.count; ++i) {
    const shoal_shard_tensor_t *mine = &x.tensors[i];
    const shoal_shard_tensor_t *other = shoal_shards_find(&y, mine->tensor->name);
    assert_non_null(other);
    assert_true(shoal_type_equal(&mine->tensor->type, &other->tensor->type));
    const int64_t bytes = mine->tensor->end - mine->tensor->begin;
    char *p = shoal_arena_alloc(&arena, (size_t)bytes, 1),
         *q = shoal_arena_alloc(&arena, (size_t)bytes, 1);
    assert_ok(shoal_safetensors_read(mine->file, mine->tensor->begin, bytes, p));
    assert_ok(shoal_safetensors_read(other->file, other->tensor->begin, bytes, q));
    if (memcmp(p, q, (size_t)bytes) != 0) fail_msg("%s differs", mine->tensor->name);
  }
  shoal_shards_close(&x);
  shoal_shards_close(&y);
}

static void test_there_and_back(void **state) {
  (void)state;
  int64_t count, mapped = 0;
  const shoal_zoo_family_t *const *families = shoal_zoo_families(&count);
  for (int64_t i = 0; i < count; ++i) {
    const char *name = families[i]->name;
    if (!families[i]->names || !families[i]->model_type) continue;
    const char *ours = in_folder(shoal_arena_printf(&arena, "%s-ours", name));
    const char *theirs = in_folder(shoal_arena_printf(&arena, "%s-theirs", name));
    const char *back = in_folder(shoal_arena_printf(&arena, "%s-back", name));
    shoal_convert_report_t report;
    write_checkpoint(name, ours, SHOAL_F32);
    assert_ok(shoal_convert(
        ours, theirs,
        &(shoal_convert_options_t){.model = name, .shard_bytes = 20000, .report = &report}));
    assert_false(report.to_shoal);
    // The config.json that was written says all that is needed to come back.
    assert_ok(shoal_convert(theirs, back, &(shoal_convert_options_t){.report = &report}));
    assert_true(report.to_shoal);
    assert_string_equal(report.model, name);
    assert_int_equal(report.ignored, 0);
    expect_same_tensors(ours, back);
    const char *again = in_folder(shoal_arena_printf(&arena, "%s-again", name));
    assert_ok(shoal_convert(back, again, NULL));  // by its notes
    expect_same_tensors(theirs, again);
    ++mapped;
  }
  assert_true(mapped >= 5);
}

static void test_casts(void **state) {
  (void)state;
  write_checkpoint("gpt2", in_folder("wide"), SHOAL_F32);
  write_checkpoint("gpt2", in_folder("narrow"), SHOAL_BF16);
  const shoal_convert_options_t cast = {.model = "gpt2", .dtype = "bf16"},
                                plain = {.model = "gpt2"};
  assert_ok(shoal_convert(in_folder("wide"), in_folder("cast"), &cast));
  assert_ok(shoal_convert(in_folder("narrow"), in_folder("plain"), &plain));
  expect_same_tensors(in_folder("cast"), in_folder("plain"));
  const shoal_convert_options_t none = {.model = "gpt2", .dtype = "i32"};
  assert_error(INVALID_ARGUMENT, "cannot be 'i32'",
               shoal_convert(in_folder("wide"), in_folder("no"), &none));
}

// ---- inputs that do not fit -----------------------------------------------------------

static void write_text(const char *name, const char *text) {
  assert_ok(shoal_file_write(in_folder(name), text, (int64_t)strlen(text)));
}

static void test_config(void **state) {
  (void)state;
  assert_ok(shoal_file_make_folder(in_folder("hf")));
  write_text("hf/config.json",
             "{\"model_type\": \"gpt2\", \"n_embd\": 24, \"n_head\": 4, \"n_layer\": 3, "
             "\"n_positions\": 40, \"vocab_size\": 77, \"n_inner\": null, \"other\": [1]}");
  const char *model, *settings;
  assert_ok(shoal_convert_config(in_folder("hf"), &arena, &model, &settings));
  assert_string_equal(model, "gpt2");
  assert_non_null(strstr(settings, "width=24"));
  assert_non_null(strstr(settings, "positions=40"));
  assert_non_null(strstr(settings, "context=40"));
  assert_null(strstr(settings, "hidden"));
  write_text("hf/config.json", "{\"model_type\": \"gpt2\", \"activation_function\": \"relu\"}");
  assert_error(UNSUPPORTED, "activation_function is relu",
               shoal_convert_config(in_folder("hf"), &arena, &model, &settings));
  write_text("hf/config.json",
             "{\"model_type\": \"t5\", \"d_ff\": 5, \"feed_forward_proj\": \"gated-gelu\"}");
  assert_ok(shoal_convert_config(in_folder("hf"), &arena, &model, &settings));
  assert_string_equal(settings, "hidden=5 gated=true");
  write_text("hf/config.json", "{\"model_type\": \"t5\", \"feed_forward_proj\": \"gated-silu\"}");
  assert_error(UNSUPPORTED, "feed_forward_proj",
               shoal_convert_config(in_folder("hf"), &arena, &model, &settings));
  write_text("hf/config.json",
             "{\"model_type\": \"llama\", \"rope_parameters\": {\"rope_theta\": 500000.0, "
             "\"rope_type\": \"default\"}, \"tie_word_embeddings\": true}");
  assert_ok(shoal_convert_config(in_folder("hf"), &arena, &model, &settings));
  assert_non_null(strstr(settings, "rotary_base=500000"));
  assert_non_null(strstr(settings, "tied=true"));
  write_text("hf/config.json",
             "{\"model_type\": \"llama\", \"rope_scaling\": {\"rope_type\": \"llama3\"}}");
  assert_error(INVALID_ARGUMENT, "rope_scaling is llama3 and has no factor",
               shoal_convert_config(in_folder("hf"), &arena, &model, &settings));
  write_text("hf/config.json", "{\"model_type\": \"mistral\", \"sliding_window\": null}");
  assert_ok(shoal_convert_config(in_folder("hf"), &arena, &model, &settings));
  assert_string_equal(model, "llama");
  assert_string_equal(settings, "");
  write_text("hf/config.json", "{\"model_type\": \"mistral\", \"sliding_window\": 7}");
  assert_ok(shoal_convert_config(in_folder("hf"), &arena, &model, &settings));
  assert_string_equal(settings, "window=7");
  write_text("hf/config.json", "{\"model_type\": \"mistral\"}");
  assert_ok(shoal_convert_config(in_folder("hf"), &arena, &model, &settings));
  assert_string_equal(settings, "window=4096");  // what transformers then takes
  write_text("hf/config.json", "{\"model_type\": \"llama\", \"sliding_window\": 7}");
  assert_ok(shoal_convert_config(in_folder("hf"), &arena, &model, &settings));
  assert_string_equal(settings, "");  // which Llama does not read
  write_text("hf/config.json", "{\"model_type\": \"gpt9\"}");
  assert_error(NOT_FOUND, "'gpt9'",
               shoal_convert_config(in_folder("hf"), &arena, &model, &settings));
  write_text("hf/config.json", "{\"model_type\": \"gpt2\", \"n_embd\": \"1 width=9\"}");
  assert_error(INVALID_ARGUMENT, "n_embd is no setting",
               shoal_convert_config(in_folder("hf"), &arena, &model, &settings));
  write_text("hf/config.json", "[3]");
  assert_error(INVALID_ARGUMENT, "no JSON object",
               shoal_convert_config(in_folder("hf"), &arena, &model, &settings));
  write_text("hf/config.json", "{");
  shoal_status_t status = shoal_convert_config(in_folder("hf"), &arena, &model, &settings);
  assert_non_null(status);
  shoal_status_free(status);
}

static void expect_refused(const char *config, const char *words) {
  const char *model, *settings;
  write_text("hf/config.json", config);
  shoal_status_t status = shoal_convert_config(in_folder("hf"), &arena, &model, &settings);
  if (!status) fail_msg("taken: %s", config);
  assert_non_null(strstr(shoal_status_message(status), words));
  shoal_status_free(status);
}

// What the zoo does not compute is named, wherever a version of the library wrote it.
static void test_refused_configs(void **state) {
  (void)state;
  const char *model, *settings;
  expect_refused("{\"model_type\": \"gpt2\", \"layer_norm_epsilon\": 0.5}",
                 "layer_norm_epsilon is 0.5");
  expect_refused("{\"model_type\": \"bert\", \"is_decoder\": true}", "is_decoder is true");
#define LLAMA(rest) "{\"model_type\": \"llama\", " rest "}"
  expect_refused(LLAMA("\"rope_scaling\": {\"type\": \"linear\", \"factor\": 4, "
                       "\"low_freq_factor\": 1}"),
                 "rope_scaling.low_freq_factor is 1");
  expect_refused(LLAMA("\"rope_scaling\": {\"type\": \"linear\", \"rope_type\": \"llama3\"}"),
                 "rope_scaling.type is linear");
  expect_refused(LLAMA("\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}, "
                       "\"rope_parameters\": {\"type\": \"linear\", \"factor\": 4}"),
                 "both stretch positions");
  expect_refused(
      "{\"model_type\": \"mixtral\", \"rope_scaling\": {\"type\": \"linear\", "
      "\"factor\": 4}}",
      "moe-gpt of the zoo has plain rotary positions");
  expect_refused(LLAMA("\"rope_scaling\": {\"factor\": 4}"), "rope_scaling.factor is 4");
  expect_refused(LLAMA("\"rope_scaling\": \"yarn\""), "rope_scaling is no object");
  expect_refused(LLAMA("\"rope_scaling\": null, \"rope_parameters\": {\"rope_type\": \"yarn\"}"),
                 "rope_parameters.rope_type is yarn");
  expect_refused(LLAMA("\"partial_rotary_factor\": 0.5"), "partial_rotary_factor is 0.5");
  expect_refused(LLAMA("\"rope_parameters\": {\"partial_rotary_factor\": 0.5}"),
                 "partial_rotary_factor is 0.5");
  expect_refused(LLAMA("\"rope_theta\": 10000, \"rope_parameters\": {\"rope_theta\": 5e5}"),
                 "rope_theta is 500000");
  write_text("hf/config.json",
             LLAMA("\"rope_theta\": 20000.0, \"partial_rotary_factor\": 1.0, \"rope_parameters\": "
                   "{\"rope_theta\": 20000, \"type\": \"default\", \"factor\": null}"));
  assert_ok(shoal_convert_config(in_folder("hf"), &arena, &model, &settings));
  assert_non_null(strstr(settings, "rotary_base=20000"));
  write_text("hf/config.json", "{\"model_type\": \"gpt2\", \"layer_norm_epsilon\": 0.00001}");
  assert_ok(shoal_convert_config(in_folder("hf"), &arena, &model, &settings));
  write_text("hf/config.json", LLAMA("\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.5}"));
  assert_ok(shoal_convert_config(in_folder("hf"), &arena, &model, &settings));
  assert_string_equal(settings, "rotary_factor=2.5");
  write_text("hf/config.json",
             LLAMA("\"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": 5e5, "
                   "\"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
                   "\"original_max_position_embeddings\": 8192}"));
  assert_ok(shoal_convert_config(in_folder("hf"), &arena, &model, &settings));
  assert_string_equal(settings,
                      "rotary_base=500000 rotary_factor=8 rotary_low=1 rotary_high=4 "
                      "rotary_original=8192");
}

// A head of its own goes along; a second name must be of the same weight.
static void test_untied(void **state) {
  (void)state;
  const shoal_convert_options_t gpt = {.model = "gpt"};
  const char *data, *model, *settings;
  int64_t size;
  write_checkpoint("gpt", in_folder("untied"), SHOAL_F32);
  assert_ok(shoal_convert(in_folder("untied"), in_folder("untied-hf"), &gpt));
  assert_ok(shoal_file_read(in_folder("untied-hf/config.json"), &arena, &data, &size));
  assert_non_null(strstr(data, "\"tie_word_embeddings\": false"));
  assert_ok(shoal_convert_config(in_folder("untied-hf"), &arena, &model, &settings));
  assert_non_null(strstr(settings, "tied=false"));
  assert_ok(shoal_convert(in_folder("untied-hf"), in_folder("untied-back"), NULL));
  expect_same_tensors(in_folder("untied"), in_folder("untied-back"));
  const shoal_convert_options_t tied = {.settings = "tied=true"};
  assert_error(INVALID_ARGUMENT, "'lm_head.weight' is not the same as 'transformer.wte.weight'",
               shoal_convert(in_folder("untied-hf"), in_folder("untied-no"), &tied));
}

// The input and checkpoints of training are not written over.
static void test_kept(void **state) {
  (void)state;
  const shoal_convert_options_t gpt2 = {.model = "gpt2"};
  write_checkpoint("gpt2", in_folder("run/step-2"), SHOAL_F32);
  write_checkpoint("gpt2", in_folder("run/step-10"), SHOAL_F32);
  const char *step = in_folder("run/step-10"), *file = in_folder("run/step-10/model.safetensors");
  assert_error(INVALID_ARGUMENT, "is the folder to read", shoal_convert(step, step, &gpt2));
  assert_error(INVALID_ARGUMENT, "is the folder to read", shoal_convert(file, step, &gpt2));
  assert_error(INVALID_ARGUMENT, "holds checkpoints of a training run",
               shoal_convert(step, in_folder("run"), &gpt2));
  // A folder of them is read as its newest, and files of weights may be written again.
  assert_ok(shoal_convert(in_folder("run"), in_folder("run-hf"), &gpt2));
  assert_ok(shoal_convert(in_folder("run"), in_folder("run-hf"), &gpt2));
  shoal_safetensor_t tensor = {.name = "step", .type = {.dtype = SHOAL_I64}};
  shoal_shard_writer_t writer;
  const int64_t number = 3;
  assert_ok(shoal_shard_writer_begin(in_folder("best"), 1, &tensor, 0, NULL, 0, &arena, &writer));
  assert_ok(shoal_shard_writer_add(&writer, &number));
  assert_ok(shoal_shard_writer_finish(&writer));
  assert_error(INVALID_ARGUMENT, "holds a checkpoint of a training run",
               shoal_convert(step, in_folder("best"), &gpt2));
}

// A pipe in place of a file would wait for a writer that never comes.
static void test_pipe(void **state) {
  (void)state;
  assert_ok(shoal_file_make_folder(in_folder("pipe")));
  assert_int_equal(mkfifo(in_folder("pipe/model.safetensors"), 0600), 0);
  assert_error(INVALID_ARGUMENT, "no regular file",
               shoal_convert(in_folder("pipe/model.safetensors"), in_folder("pipe-out"), NULL));
  write_checkpoint("gpt2", in_folder("pipe-ours"), SHOAL_F32);
  const shoal_convert_options_t gpt2 = {.model = "gpt2"};
  assert_ok(shoal_convert(in_folder("pipe-ours"), in_folder("pipe-hf"), &gpt2));
  assert_int_equal(unlink(in_folder("pipe-hf/config.json")), 0);
  assert_int_equal(mkfifo(in_folder("pipe-hf/config.json"), 0600), 0);
  assert_ok(shoal_convert(in_folder("pipe-hf"), in_folder("pipe-back"), &gpt2));
  expect_same_tensors(in_folder("pipe-ours"), in_folder("pipe-back"));
}

static void test_misfits(void **state) {
  (void)state;
  write_checkpoint("gpt2", in_folder("fits"), SHOAL_F32);
  const shoal_convert_options_t gpt2 = {.model = "gpt2"},
                                deeper = {.model = "gpt2", .settings = "layers=3"},
                                shallower = {.model = "gpt2", .settings = "layers=1"},
                                wider = {.model = "gpt2", .settings = "width=32"},
                                same = {.model = "gpt2", .to = "shoal"}, odd = {.to = "onnx"},
                                mlp = {.model = "mlp"};
  const char *in = in_folder("fits"), *out = in_folder("out");
  assert_error(INVALID_ARGUMENT, "tensor 'block2/ln_1/gamma' is missing",
               shoal_convert(in, out, &deeper));
  assert_error(INVALID_ARGUMENT, "has no place for tensor 'block1/",
               shoal_convert(in, out, &shallower));
  assert_error(INVALID_ARGUMENT, "the model has [256, 32]", shoal_convert(in, out, &wider));
  assert_error(INVALID_ARGUMENT, "Shoal's names already", shoal_convert(in, out, &same));
  assert_error(INVALID_ARGUMENT, "no format 'onnx'", shoal_convert(in, out, &odd));
  assert_error(INVALID_ARGUMENT, "which model", shoal_convert(in, out, NULL));
  assert_error(UNSUPPORTED, "no map", shoal_convert(in, out, &mlp));
  assert_error(INVALID_ARGUMENT, "no path", shoal_convert(NULL, out, &gpt2));
  assert_int_not_equal(access(out, F_OK), 0);  // nothing was written
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_places),         cmocka_unit_test(test_known_names),
      cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_casts),
      cmocka_unit_test(test_config),         cmocka_unit_test(test_refused_configs),
      cmocka_unit_test(test_untied),         cmocka_unit_test(test_kept),
      cmocka_unit_test(test_pipe),           cmocka_unit_test(test_misfits),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

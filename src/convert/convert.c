// From checkpoint to checkpoint, one tensor at a time. What the model needs is known from its
// graph, built for no device; what the input has, from its headers: nothing is written unless they
// fit.
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/dtype.h"
#include "base/file.h"
#include "base/status.h"
#include "convert/convert_impl.h"
#include "graph/graph.h"
#include "op/type.h"
#include "run/checkpoint.h"
#include "run/shards.h"

typedef struct converter {
  const shoal_convert_options_t *options;
  const char *in, *out;
  shoal_arena_t arena;
  shoal_shards_t shards;
  bool to_shoal;
  const char *model_name, *settings;
  shoal_zoo_t *zoo;
  shoal_model_t *model;
  int64_t entry_count;
  const shoal_zoo_name_t *entries;
  bool *used;  // of each tensor of the input
  bool casts;
  shoal_dtype_t dtype;
  // What is written, and the entry or state that each is made from.
  int64_t count;
  shoal_safetensor_t *tensors;
  int64_t *sources;
  shoal_convert_report_t report;
} converter_t;

// ---- which model ----------------------------------------------------------------------

static const char *beside(converter_t *c, const char *folder, const char *name) {
  struct stat info;
  const bool is_folder = stat(folder, &info) == 0 && S_ISDIR(info.st_mode);
  const char *slash = strrchr(folder, '/');
  return is_folder ? shoal_arena_printf(&c->arena, "%s/%s", folder, name)
                   : shoal_arena_printf(&c->arena, "%.*s%s", slash ? (int)(slash + 1 - folder) : 0,
                                        folder, name);
}

static shoal_status_t direction(converter_t *c) {
  const char *to = c->options->to;
  if (to && strcmp(to, "hf") != 0 && strcmp(to, "shoal") != 0) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "convert to hf or shoal", "there is no format '%s'",
                            to);
  }
  bool ours = false;
  for (int64_t i = 0; i < c->shards.count; ++i) {
    ours |= strchr(c->shards.tensors[i].tensor->name, '/') != NULL;
  }
  c->to_shoal = to ? strcmp(to, "shoal") == 0 : !ours;
  if (c->to_shoal != ours) return NULL;
  return SHOAL_ERROR(INVALID_ARGUMENT,
                     ours ? "%s has Shoal's names already"
                          : "%s does not have Shoal's names: it cannot be converted from them",
                     c->shards.path);
}

static shoal_status_t choose_model(converter_t *c) {
  const shoal_convert_options_t *o = c->options;
  const char *config = beside(c, c->in, "config.json"), *found = NULL, *settings = NULL;
  struct stat info;
  if (!config) return SHOAL_OOM();
  if (!c->to_shoal) {
    found = shoal_safetensors_note(&c->shards.files[0], "shoal_model");
    settings = shoal_safetensors_note(&c->shards.files[0], "shoal_settings");
  } else if (stat(config, &info) == 0 && S_ISREG(info.st_mode)) {
    SHOAL_RETURN_IF_ERROR(shoal_convert_config(config, &c->arena, &found, &settings));
  }
  c->model_name = o->model ? o->model : found;
  if (!c->model_name) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "name a model of the zoo and its settings",
                            "%s does not say which model it is of", c->in);
  }
  c->settings =
      shoal_arena_printf(&c->arena, "%s%s%s", settings ? settings : "",
                         settings && o->settings ? " " : "", o->settings ? o->settings : "");
  if (!c->settings) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_zoo_create(
      c->model_name,
      &(shoal_zoo_options_t){.settings = c->settings, .allocator = c->arena.allocator}, &c->zoo));
  SHOAL_RETURN_IF_ERROR(
      shoal_model_create(&(shoal_model_options_t){.allocator = c->arena.allocator}, &c->model));
  shoal_zoo_build(c->zoo, shoal_model_graph(c->model, "eval"), "eval", 1);
  SHOAL_RETURN_IF_ERROR(shoal_model_status(c->model));
  SHOAL_RETURN_IF_ERROR(shoal_zoo_names(c->zoo, &c->arena, &c->entry_count, &c->entries));
  if (c->entry_count > 0) return NULL;
  return SHOAL_ERROR(UNSUPPORTED, "'%s' has no map to the names of Hugging Face", c->model_name);
}

// ---- the input ------------------------------------------------------------------------

// By name, or without its first word: files of a model without its head lack that.
static const shoal_shard_tensor_t *find_theirs(const converter_t *c, const char *name) {
  const shoal_shard_tensor_t *found = shoal_shards_find(&c->shards, name);
  const char *dot = strchr(name, '.');
  return found || !dot ? found : shoal_shards_find(&c->shards, dot + 1);
}

static void use(converter_t *c, const shoal_shard_tensor_t *tensor) {
  if (tensor) c->used[tensor - c->shards.tensors] = true;
}

// No weights: what older versions of libraries saved beside them, and states of training.
static bool is_ignored(const converter_t *c, const char *name) {
  static const char *const patterns[] = {"*.attn.bias",          "*.attn.masked_bias",
                                         "*rotary_emb.inv_freq", "*position_ids",
                                         "*_extra_state",        "*.num_batches_tracked"};
  if (!c->to_shoal) return shoal_checkpoint_is_training(name);
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; ++i) {
    if (shoal_pattern_match(patterns[i], name)) return true;
  }
  return false;
}

// Heads of BERT's beside the one that guesses tokens.
static bool is_other_head(const char *name) {
  return shoal_pattern_match("bert.pooler.*", name) ||
         shoal_pattern_match("cls.seq_relationship.*", name);
}

static shoal_status_t check_rest(converter_t *c) {
  for (int64_t i = 0; i < c->shards.count; ++i) {
    const char *name = c->shards.tensors[i].tensor->name;
    if (c->used[i]) continue;
    if (!is_ignored(c, name) && !is_other_head(name)) {
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "is it of another model, or of other sizes?",
                              "%s: %s has no place for tensor '%s'",
                              c->shards.tensors[i].file->path, c->model_name, name);
    }
    ++c->report.ignored;
    char *names = c->report.ignored_names;
    const size_t used = strlen(names);
    if (used + strlen(name) + 3 < sizeof c->report.ignored_names) {
      snprintf(names + used, sizeof c->report.ignored_names - used, "%s%s", used ? ", " : "", name);
    }
  }
  return NULL;
}

static shoal_status_t missing(const converter_t *c, const char *name) {
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "is it of another model, or of other sizes?",
                          "%s: tensor '%s' is missing", c->shards.path, name);
}

static shoal_status_t check_shape(const shoal_shard_tensor_t *found, const shoal_shape_t *shape) {
  char has[128], needs[128];
  if (shoal_shape_equal(&found->tensor->type.shape, shape)) return NULL;
  shoal_shape_format(&found->tensor->type.shape, has, sizeof has);
  shoal_shape_format(shape, needs, sizeof needs);
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "is it of a model of other sizes?",
                          "%s: tensor '%s' is %s; the model has %s", found->file->path,
                          found->tensor->name, has, needs);
}

// ---- what to write --------------------------------------------------------------------

static shoal_dtype_t written_dtype(const converter_t *c, shoal_dtype_t dtype) {
  return c->casts && shoal_dtype_is_real(dtype) ? c->dtype : dtype;
}

static const shoal_state_info_t *find_state(const converter_t *c, const char *name) {
  const int32_t state = shoal_model_find_state(c->model, name);
  return state < 0 ? NULL : &c->model->states.items[state];
}

// Their tensor of an entry, or a second name of it where the entry is the whole of our state.
static const shoal_shard_tensor_t *find_source(const converter_t *c,
                                               const shoal_zoo_name_t *entry) {
  const shoal_shard_tensor_t *found = find_theirs(c, entry->theirs);
  for (int64_t i = 0; i < c->entry_count && !found; ++i) {
    const shoal_zoo_name_t *other = &c->entries[i];
    if (other->tied && entry->size == 0 && strcmp(other->ours, entry->ours) == 0)
      found = find_theirs(c, other->theirs);
  }
  return found;
}

// A second name of a weight: a file that has both must have the same under both.
static shoal_status_t use_again(converter_t *c, const shoal_zoo_name_t *entry) {
  const shoal_shard_tensor_t *again = find_theirs(c, entry->theirs), *first = NULL;
  for (int64_t i = 0; i < c->entry_count && again && !first; ++i) {
    const shoal_zoo_name_t *other = &c->entries[i];
    if (!other->tied && strcmp(other->ours, entry->ours) == 0)
      first = find_theirs(c, other->theirs);
  }
  use(c, again);
  return again && first ? shoal_convert_check_same(first, again) : NULL;
}

// A state of ours, from all entries that have it.
static shoal_status_t plan_state(converter_t *c, int64_t s) {
  const shoal_state_info_t *state = &c->model->states.items[s];
  int64_t covered = 0;
  shoal_safetensor_t *tensor = &c->tensors[c->count];
  *tensor = (shoal_safetensor_t){.name = state->name, .type = state->type};
  for (int64_t i = 0; i < c->entry_count; ++i) {
    const shoal_zoo_name_t *entry = &c->entries[i];
    if (strcmp(entry->ours, state->name) != 0) continue;
    if (entry->tied) {
      SHOAL_RETURN_IF_ERROR(use_again(c, entry));
      continue;
    }
    const shoal_shard_tensor_t *found = find_source(c, entry);
    shoal_convert_view_t view;
    if (!found) return missing(c, entry->theirs);
    SHOAL_RETURN_IF_ERROR(shoal_convert_place(entry, &state->type.shape, &view));
    SHOAL_RETURN_IF_ERROR(check_shape(found, &view.shape));
    use(c, found);
    if (covered == 0) tensor->type.dtype = written_dtype(c, found->tensor->type.dtype);
    covered += shoal_shape_count(&view.shape);
  }
  if (covered != shoal_shape_count(&state->type.shape)) {
    return SHOAL_ERROR(INTERNAL, "the names of '%s' do not cover state '%s'", c->model_name,
                       state->name);
  }
  c->sources[c->count++] = s;
  return NULL;
}

// Our tensor of a state: its moving average, where there is one and raw ones are not asked for.
static const shoal_shard_tensor_t *find_ours(converter_t *c, const char *name) {
  const shoal_shard_tensor_t *average = shoal_checkpoint_average(&c->shards, name, &c->arena);
  return average && !c->options->raw ? average : shoal_shards_find(&c->shards, name);
}

static shoal_status_t plan_entry(converter_t *c, int64_t e) {
  const shoal_zoo_name_t *entry = &c->entries[e];
  if (entry->tied) return NULL;
  const shoal_state_info_t *state = find_state(c, entry->ours);
  const shoal_shard_tensor_t *found = find_ours(c, entry->ours);
  shoal_convert_view_t view;
  if (!state) {
    return SHOAL_ERROR(INTERNAL, "'%s' has no state '%s', though its names do", c->model_name,
                       entry->ours);
  }
  if (!found) return missing(c, entry->ours);
  SHOAL_RETURN_IF_ERROR(check_shape(found, &state->type.shape));
  SHOAL_RETURN_IF_ERROR(shoal_convert_place(entry, &state->type.shape, &view));
  use(c, found);
  use(c, shoal_shards_find(&c->shards, entry->ours));
  c->report.averages += shoal_checkpoint_average(&c->shards, entry->ours, &c->arena) != NULL;
  c->tensors[c->count] = (shoal_safetensor_t){
      .name = entry->theirs,
      .type = {.dtype = written_dtype(c, found->tensor->type.dtype), .shape = view.shape}};
  c->sources[c->count++] = e;
  return NULL;
}

static shoal_status_t plan(converter_t *c) {
  const int64_t most = c->to_shoal ? c->model->states.count : c->entry_count;
  c->tensors = SHOAL_NEW(&c->arena, shoal_safetensor_t, most);
  c->sources = SHOAL_NEW(&c->arena, int64_t, most);
  c->used = SHOAL_NEW(&c->arena, bool, c->shards.count);
  if (!c->tensors || !c->sources || !c->used) return SHOAL_OOM();
  for (int64_t i = 0; i < most; ++i) {
    if (c->to_shoal && c->model->states.items[i].options.not_saved) continue;
    SHOAL_RETURN_IF_ERROR(c->to_shoal ? plan_state(c, i) : plan_entry(c, i));
  }
  return check_rest(c);
}

// ---- writing --------------------------------------------------------------------------

static shoal_status_t read_tensor(const shoal_shard_tensor_t *tensor, shoal_arena_t *arena,
                                  void **out_data) {
  const int64_t bytes = tensor->tensor->end - tensor->tensor->begin;
  SHOAL_RETURN_IF_ERROR(shoal_safetensors_check(tensor->file, tensor->tensor, arena));
  *out_data = shoal_arena_alloc(arena, (size_t)bytes, 1);
  if (!*out_data) return SHOAL_OOM();
  return shoal_safetensors_read(tensor->file, tensor->tensor->begin, bytes, *out_data);
}

static shoal_status_t put_theirs(const converter_t *c, int64_t i, const shoal_zoo_name_t *entry,
                                 const shoal_shape_t *shape, void *out_data) {
  const shoal_shard_tensor_t *found = find_source(c, entry);
  shoal_convert_view_t view;
  void *data;
  shoal_arena_t scratch;  // one of their tensors at a time
  shoal_arena_init(c->arena.allocator, &scratch);
  shoal_status_t status = shoal_convert_place(entry, shape, &view);
  if (!status) status = read_tensor(found, &scratch, &data);
  if (!status) {
    shoal_convert_copy(&view, false, found->tensor->type.dtype, data, c->tensors[i].type.dtype,
                       out_data);
  }
  shoal_arena_deinit(&scratch);
  return status;
}

static shoal_status_t make_ours(const converter_t *c, int64_t i, void *out_data) {
  const shoal_state_info_t *state = &c->model->states.items[c->sources[i]];
  for (int64_t e = 0; e < c->entry_count; ++e) {
    const shoal_zoo_name_t *entry = &c->entries[e];
    if (entry->tied || strcmp(entry->ours, state->name) != 0) continue;
    SHOAL_RETURN_IF_ERROR(put_theirs(c, i, entry, &state->type.shape, out_data));
  }
  return NULL;
}

static shoal_status_t make_theirs(converter_t *c, int64_t i, shoal_arena_t *arena, void *out_data) {
  const shoal_zoo_name_t *entry = &c->entries[c->sources[i]];
  const shoal_shard_tensor_t *found = find_ours(c, entry->ours);
  shoal_convert_view_t view;
  void *data;
  SHOAL_RETURN_IF_ERROR(shoal_convert_place(entry, &found->tensor->type.shape, &view));
  SHOAL_RETURN_IF_ERROR(read_tensor(found, arena, &data));
  shoal_convert_copy(&view, true, found->tensor->type.dtype, data, c->tensors[i].type.dtype,
                     out_data);
  return NULL;
}

static shoal_status_t write_tensor(converter_t *c, shoal_shard_writer_t *writer, int64_t i) {
  shoal_arena_t scratch;
  shoal_arena_init(c->arena.allocator, &scratch);
  const int64_t bytes = shoal_type_bytes(&c->tensors[i].type);
  void *data = shoal_arena_alloc(&scratch, (size_t)bytes, 1);
  shoal_status_t status = data ? NULL : SHOAL_OOM();
  if (!status) {
    status = c->to_shoal ? make_ours(c, i, data) : make_theirs(c, i, &scratch, data);
  }
  if (!status) status = shoal_shard_writer_add(writer, data);
  c->report.bytes += bytes;
  shoal_arena_deinit(&scratch);
  return status;
}

static shoal_status_t write_tensors(converter_t *c) {
  const shoal_safetensors_note_t ours[] = {{SHOAL_CHECKPOINT_NOTE, SHOAL_CHECKPOINT_FORMAT},
                                           {"shoal_model", c->model_name},
                                           {"shoal_settings", c->settings}};
  const shoal_safetensors_note_t theirs[] = {{"format", "pt"}};
  shoal_shard_writer_t writer = {.file = -1};
  shoal_status_t status = shoal_shard_writer_begin(c->out, c->count, c->tensors,
                                                   c->to_shoal ? 3 : 1, c->to_shoal ? ours : theirs,
                                                   c->options->shard_bytes, &c->arena, &writer);
  for (int64_t i = 0; i < c->count && !status; ++i) status = write_tensor(c, &writer, i);
  if (!status) status = shoal_shard_writer_finish(&writer);
  if (status) shoal_shard_writer_abandon(&writer);
  c->report.tensors = c->count;
  return status;
}

// config.json and what belongs to a tokenizer.
static shoal_status_t copy_files(converter_t *c) {
  static const char *const names[] = {"config.json",
                                      "generation_config.json",
                                      "tokenizer.json",
                                      "tokenizer_config.json",
                                      "special_tokens_map.json",
                                      "vocab.json",
                                      "merges.txt"};
  bool has_config = false;
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    struct stat info;
    const char *from = beside(c, c->in, names[i]);
    const char *to = shoal_arena_printf(&c->arena, "%s/%s", c->out, names[i]), *data;
    int64_t size;
    if (!from || !to) return SHOAL_OOM();
    if (stat(from, &info) != 0 || !S_ISREG(info.st_mode)) continue;
    SHOAL_RETURN_IF_ERROR(shoal_file_read(from, &c->arena, &data, &size));
    SHOAL_RETURN_IF_ERROR(shoal_file_write(to, data, size));
    has_config |= i == 0;
  }
  if (has_config || c->to_shoal || !shoal_zoo_family(c->zoo)->model_type) return NULL;
  const char *path = shoal_arena_printf(&c->arena, "%s/config.json", c->out), *text;
  if (!path) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(
      shoal_convert_print_config(c->zoo, c->tensors[0].type.dtype, &c->arena, &text));
  return shoal_file_write(path, text, (int64_t)strlen(text));
}

static shoal_status_t convert(converter_t *c) {
  if (!c->in || !c->in[0] || !c->out || !c->out[0])
    return SHOAL_ERROR(INVALID_ARGUMENT, "there is no path to convert %s", c->in ? "to" : "from");
  c->casts = c->options->dtype != NULL;
  if (c->casts &&
      !(shoal_dtype_parse(c->options->dtype, &c->dtype) && shoal_dtype_is_real(c->dtype))) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "one of f64, f32, bf16, f16, f8_e4m3, f8_e5m2",
                            "weights cannot be '%s'", c->options->dtype);
  }
  SHOAL_RETURN_IF_ERROR(shoal_convert_latest(c->in, &c->arena, &c->in));
  SHOAL_RETURN_IF_ERROR(shoal_convert_check_output(c->in, c->out, &c->arena));
  SHOAL_RETURN_IF_ERROR(shoal_shards_open(c->in, &c->arena, &c->shards));
  SHOAL_RETURN_IF_ERROR(direction(c));
  SHOAL_RETURN_IF_ERROR(choose_model(c));
  SHOAL_RETURN_IF_ERROR(plan(c));
  SHOAL_RETURN_IF_ERROR(write_tensors(c));
  return copy_files(c);
}

shoal_status_t shoal_convert(const char *in, const char *out,
                             const shoal_convert_options_t *options) {
  static const shoal_convert_options_t defaults;
  if (!options) options = &defaults;
  converter_t c = {.options = options, .in = in, .out = out};
  shoal_arena_init(options->allocator.alloc ? options->allocator : shoal_allocator_system(),
                   &c.arena);
  shoal_status_t status = convert(&c);
  if (!status && options->report) {
    c.report.to_shoal = c.to_shoal;
    snprintf(c.report.model, sizeof c.report.model, "%s", c.model_name);
    snprintf(c.report.settings, sizeof c.report.settings, "%s", c.settings);
    *options->report = c.report;
  }
  shoal_shards_close(&c.shards);
  shoal_model_free(c.model);
  shoal_zoo_free(c.zoo);
  shoal_arena_deinit(&c.arena);
  return status ? shoal_status_annotatef(status, "while converting '%s'", in ? in : "") : NULL;
}

// config.json of Hugging Face and settings of the zoo. A family lists which key is which setting
// (shoal_zoo_key_t). Keys that would change what the model computes and that the zoo has no setting
// for must have the value that the zoo computes with: they are refused by name else.
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/locale.h"
#include "base/status.h"
#include "convert/convert_impl.h"

// Mistral's models are Llama's with a window, which transformers sets unless config.json does.
#define MISTRAL "mistral"
static const shoal_zoo_key_t WINDOW = {"window", "sliding_window"};
#define MISTRAL_WINDOW "4096"

// A key that must have one of some values, where it is there; "null" is null or absent.
typedef struct fixed {
  const char *model_type, *key, *values;  // '|' between values; the first is what is written
} fixed_t;

static const fixed_t FIXED[] = {
    {"gpt2", "activation_function", "gelu_new|gelu_pytorch_tanh"},
    {"gpt2", "scale_attn_weights", "true"},
    {"gpt2", "scale_attn_by_inverse_layer_idx", "false"},
    {"gpt2", "add_cross_attention", "false"},
    {"gpt2", "layer_norm_epsilon", "1e-05"},
    {"llama", "hidden_act", "silu|swish"},
    {"llama", "partial_rotary_factor", "null|1"},
    {"llama", "attention_bias", "false"},
    {"llama", "mlp_bias", "false"},
    {MISTRAL, "hidden_act", "silu|swish"},
    {MISTRAL, "partial_rotary_factor", "null|1"},
    {"mixtral", "hidden_act", "silu|swish"},
    {"mixtral", "partial_rotary_factor", "null|1"},
    {"mixtral", "sliding_window", "null"},
    {"bert", "hidden_act", "gelu"},
    {"bert", "position_embedding_type", "absolute"},
    {"bert", "is_decoder", "null|false"},
    {"t5", "is_encoder_decoder", "true"},
    {"t5", "decoder_start_token_id", "0"},
    {"t5", "pad_token_id", "0"},
    {"t5", "scale_decoder_outputs", "true"},
};
enum { FIXED_COUNT = sizeof FIXED / sizeof *FIXED };

// A key whose values are settings here.
typedef struct choice {
  const char *model_type, *key, *value, *settings;
} choice_t;

static const choice_t CHOICES[] = {{"t5", "feed_forward_proj", "relu", "gated=false"},
                                   {"t5", "feed_forward_proj", "gated-gelu", "gated=true"}};
enum { CHOICE_COUNT = sizeof CHOICES / sizeof *CHOICES };

typedef struct architecture {
  const char *model_type, *name;
} architecture_t;
static const architecture_t ARCHITECTURES[] = {
    {"gpt2", "GPT2LMHeadModel"},     {"llama", "LlamaForCausalLM"},
    {MISTRAL, "MistralForCausalLM"}, {"mixtral", "MixtralForCausalLM"},
    {"bert", "BertForMaskedLM"},     {"t5", "T5ForConditionalGeneration"}};

// ---- reading --------------------------------------------------------------------------

shoal_status_t shoal_convert_value_text(const shoal_json_t *json, shoal_arena_t *arena,
                                        const char **out_text) {
  shoal_text_t text;
  shoal_text_init(arena->allocator, &text);
  switch (json->kind) {
    case SHOAL_JSON_NULL:
      shoal_text_add(&text, "null");
      break;
    case SHOAL_JSON_BOOL:
      shoal_text_add(&text, json->boolean ? "true" : "false");
      break;
    case SHOAL_JSON_INT:
      shoal_text_addf(&text, "%lld", (long long)json->integer);
      break;
    case SHOAL_JSON_REAL:
      shoal_text_add_double(&text, json->real);
      break;
    case SHOAL_JSON_STRING:
      shoal_text_add(&text, json->string);
      break;
    default:
      shoal_text_add(&text, "?");
  }
  return shoal_text_finish(&text, arena, out_text);
}

bool shoal_convert_is_one_of(const char *values, const char *value) {
  char *end, *value_end;
  const double number = shoal_parse_double(value, &value_end);
  const bool is_number = value_end != value && !*value_end;
  for (const char *at = values; *at;) {
    const size_t length = strcspn(at, "|");
    if (strlen(value) == length && strncmp(at, value, length) == 0) return true;
    const double other = shoal_parse_double(at, &end);
    if (is_number && end == at + length && other == number) return true;
    at += length + (at[length] != 0);
  }
  return false;
}

static shoal_status_t check_fixed(const shoal_json_t *config, const char *type,
                                  shoal_arena_t *arena) {
  for (int i = 0; i < FIXED_COUNT; ++i) {
    const shoal_json_t *value = shoal_json_find(config, FIXED[i].key);
    if (strcmp(FIXED[i].model_type, type) != 0 || !value || value->kind == SHOAL_JSON_NULL)
      continue;
    const char *text;
    SHOAL_RETURN_IF_ERROR(shoal_convert_value_text(value, arena, &text));
    if (shoal_convert_is_one_of(FIXED[i].values, text)) continue;
    return SHOAL_ERROR(UNSUPPORTED, "%s is %s; %s of the zoo computes with %s", value->path, text,
                       type, FIXED[i].values);
  }
  return NULL;
}

static const shoal_zoo_family_t *family_of(const char *model_type) {
  int64_t count;
  if (strcmp(model_type, MISTRAL) == 0) model_type = "llama";  // with a window
  const shoal_zoo_family_t *const *families = shoal_zoo_families(&count);
  for (int64_t i = 0; i < count; ++i) {
    if (families[i]->model_type && strcmp(families[i]->model_type, model_type) == 0)
      return families[i];
  }
  return NULL;
}

shoal_status_t shoal_convert_add_setting(const char *name, const shoal_json_t *value,
                                         shoal_arena_t *arena, shoal_text_t *text) {
  const char *word;
  if (!value || value->kind == SHOAL_JSON_NULL) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_convert_value_text(value, arena, &word));
  if (!word[0] || strpbrk(word, " \t\n="))
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s is no setting", value->path);
  shoal_text_addf(text, "%s%s=%s", text->length ? " " : "", name, word);
  // As many positions as are learned can be read.
  if (strcmp(name, "positions") == 0) shoal_text_addf(text, " context=%s", word);
  return NULL;
}

static shoal_status_t add_settings(const shoal_json_t *config, const shoal_zoo_family_t *family,
                                   const char *type, shoal_arena_t *arena, shoal_text_t *text) {
  for (int64_t i = 0; i < family->key_count; ++i) {
    const char *key = family->keys[i].theirs;
    const shoal_json_t *value = strcmp(key, "rope_theta") == 0 ? shoal_convert_rope_base(config)
                                                               : shoal_json_find(config, key);
    SHOAL_RETURN_IF_ERROR(shoal_convert_add_setting(family->keys[i].ours, value, arena, text));
  }
  if (strcmp(type, MISTRAL) == 0) {
    const shoal_json_t *value = shoal_json_find(config, WINDOW.theirs);
    SHOAL_RETURN_IF_ERROR(shoal_convert_add_setting(WINDOW.ours, value, arena, text));
    if (!value)
      shoal_text_addf(text, "%s%s=%s", text->length ? " " : "", WINDOW.ours, MISTRAL_WINDOW);
  }
  return shoal_convert_rope_read(config, family, arena, text);
}

static shoal_status_t add_choices(const shoal_json_t *config, const char *type,
                                  shoal_arena_t *arena, shoal_text_t *text) {
  const shoal_json_t *other = NULL;
  for (int i = 0; i < CHOICE_COUNT; ++i) {
    const shoal_json_t *value = shoal_json_find(config, CHOICES[i].key);
    const char *word;
    if (strcmp(CHOICES[i].model_type, type) != 0 || !value) continue;
    SHOAL_RETURN_IF_ERROR(shoal_convert_value_text(value, arena, &word));
    if (strcmp(word, CHOICES[i].value) == 0) {
      shoal_text_addf(text, "%s%s", text->length ? " " : "", CHOICES[i].settings);
      return NULL;
    }
    other = value;
  }
  if (!other) return NULL;
  return SHOAL_ERROR(UNSUPPORTED, "%s: %s of the zoo does not compute this", other->path, type);
}

static shoal_status_t read_config(const char *path, shoal_arena_t *arena, const char **out_model,
                                  const char **out_settings) {
  const char *data, *type;
  int64_t size;
  const shoal_json_t *config;
  SHOAL_RETURN_IF_ERROR(shoal_file_read(path, arena, &data, &size));
  SHOAL_RETURN_IF_ERROR(shoal_json_parse(path, data, arena, &config));
  if (config->kind != SHOAL_JSON_OBJECT)
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s is no JSON object", path);
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(config, "model_type", &type));
  const shoal_zoo_family_t *family = family_of(type);
  if (!family) {
    return SHOAL_ERROR_HINT(NOT_FOUND, "`shoal models` lists the zoo",
                            "%s: no model of the zoo is a '%s'", path, type);
  }
  SHOAL_RETURN_IF_ERROR(check_fixed(config, type, arena));
  shoal_text_t text;
  shoal_text_init(arena->allocator, &text);
  shoal_status_t status = add_settings(config, family, type, arena, &text);
  if (!status) status = add_choices(config, type, arena, &text);
  *out_model = family->name;
  return shoal_text_close(&text, status, arena, out_settings);
}

shoal_status_t shoal_convert_config(const char *path, shoal_arena_t *arena, const char **out_model,
                                    const char **out_settings) {
  struct stat info;
  if (!path || !path[0]) return SHOAL_ERROR(INVALID_ARGUMENT, "there is no path");
  if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
    path = shoal_arena_printf(arena, "%s/config.json", path);
    if (!path) return SHOAL_OOM();
  }
  return read_config(path, arena, out_model, out_settings);
}

// ---- writing --------------------------------------------------------------------------

void shoal_convert_add_value(shoal_json_writer_t *w, const char *key, const char *text) {
  char *end = NULL;
  if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
    shoal_json_bool(w, key, text[0] == 't');
  } else if (strspn(text, "0123456789") == strlen(text) && text[0]) {
    int64_t number = 0;
    for (const char *at = text; *at; ++at) number = number * 10 + (*at - '0');
    shoal_json_int(w, key, number);
  } else {
    const double real = shoal_parse_double(text, &end);
    if (end != text && !*end) {
      shoal_json_real(w, key, real);
    } else {
      shoal_json_string(w, key, text);
    }
  }
}

// A setting, or the one that it follows where it was not set: theirs would follow another.
static const char *value_of(const shoal_zoo_t *zoo, const char *name, shoal_arena_t *arena) {
  static const char *const follows[][2] = {{"positions", "context"}, {"key_heads", "heads"}};
  const char *value = shoal_zoo_setting(zoo, name, arena);
  for (int i = 0; i < 2 && value && strcmp(value, "0") == 0; ++i) {
    if (strcmp(name, follows[i][0]) == 0) value = shoal_zoo_setting(zoo, follows[i][1], arena);
  }
  return value;
}

shoal_status_t shoal_convert_print_config(const shoal_zoo_t *zoo, shoal_dtype_t dtype,
                                          shoal_arena_t *arena, const char **out_text) {
  static const char *const torch[SHOAL_DTYPE_COUNT] = {[SHOAL_F64] = "float64",
                                                       [SHOAL_F32] = "float32",
                                                       [SHOAL_BF16] = "bfloat16",
                                                       [SHOAL_F16] = "float16"};
  const shoal_zoo_family_t *family = shoal_zoo_family(zoo);
  const char *window = value_of(zoo, WINDOW.ours, arena);
  const bool has_window = window && strcmp(window, "0") != 0;
  const char *type = has_window ? MISTRAL : family->model_type;
  shoal_text_t text;
  shoal_text_init(arena->allocator, &text);
  shoal_json_writer_t w;
  shoal_json_writer_init(&text, &w);
  shoal_json_begin(&w, NULL, '{', false);
  for (size_t i = 0; i < sizeof ARCHITECTURES / sizeof *ARCHITECTURES; ++i) {
    if (strcmp(ARCHITECTURES[i].model_type, type) != 0) continue;
    shoal_json_begin(&w, "architectures", '[', true);
    shoal_json_string(&w, NULL, ARCHITECTURES[i].name);
    shoal_json_end(&w, ']');
  }
  shoal_json_string(&w, "model_type", type);
  if (torch[dtype]) shoal_json_string(&w, "dtype", torch[dtype]);
  for (int64_t i = 0; i < family->key_count; ++i) {
    const char *value = value_of(zoo, family->keys[i].ours, arena);
    if (value && value[0] && strcmp(value, "0") != 0)
      shoal_convert_add_value(&w, family->keys[i].theirs, value);
  }
  if (has_window) shoal_convert_add_value(&w, WINDOW.theirs, window);
  shoal_convert_rope_write(zoo, arena, &w);
  for (int i = 0; i < CHOICE_COUNT; ++i) {
    const char *equals = strchr(CHOICES[i].settings, '=');
    const char *name =
        shoal_arena_printf(arena, "%.*s", (int)(equals - CHOICES[i].settings), CHOICES[i].settings);
    const char *value = name ? shoal_zoo_setting(zoo, name, arena) : NULL;
    if (strcmp(CHOICES[i].model_type, type) == 0 && value && strcmp(value, equals + 1) == 0)
      shoal_json_string(&w, CHOICES[i].key, CHOICES[i].value);
  }
  for (int i = 0; i < FIXED_COUNT; ++i) {
    if (strcmp(FIXED[i].model_type, type) != 0) continue;
    char first[64] = {0};
    const size_t length = strcspn(FIXED[i].values, "|");
    memcpy(first, FIXED[i].values, length < sizeof first ? length : sizeof first - 1);
    if (strcmp(first, "null") != 0) shoal_convert_add_value(&w, FIXED[i].key, first);
  }
  shoal_json_end(&w, '}');
  return shoal_text_close(&text, NULL, arena, out_text);
}

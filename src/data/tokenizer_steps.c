// tokenizer.json: normalizers, pre-tokenizers and decoders. Those that the BPE models of GPT-2,
// Llama, Mistral and Qwen have are known; others are refused by name.
#include <string.h>

#include "base/arena.h"
#include "base/status.h"
#include "data/tokenizer.h"

typedef shoal_status_t (*step_fn_t)(shoal_tokenizer_t *t, const shoal_json_t *step,
                                    const char *type);

static const char *string_or(const shoal_json_t *object, const char *key, const char *other) {
  const shoal_json_t *value = shoal_json_find(object, key);
  return value && value->kind == SHOAL_JSON_STRING ? value->string : other;
}

static bool bool_or(const shoal_json_t *object, const char *key, bool other) {
  const shoal_json_t *value = shoal_json_find(object, key);
  return value && value->kind == SHOAL_JSON_BOOL ? value->boolean : other;
}

static shoal_status_t refuse(const shoal_json_t *step, const char *what, const char *type) {
  return SHOAL_ERROR(UNSUPPORTED, "%s: Shoal does not know %s '%s'", step->path, what, type);
}

// A step, or the steps of a Sequence, whose list has the name `list`.
static shoal_status_t each_step(shoal_tokenizer_t *t, const shoal_json_t *step, const char *list,
                                step_fn_t read) {
  if (!step || step->kind == SHOAL_JSON_NULL) return NULL;
  const char *type;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(step, "type", &type));
  if (strcmp(type, "Sequence") != 0) return read(t, step, type);
  const shoal_json_t *steps;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(step, list, SHOAL_JSON_ARRAY, &steps));
  for (int64_t i = 0; i < steps->count; ++i)
    SHOAL_RETURN_IF_ERROR(each_step(t, &steps->children[i], list, read));
  return NULL;
}

static shoal_status_t keep(shoal_tokenizer_t *t, const char *text, const char **out_copy) {
  *out_copy = shoal_arena_strdup(&t->arena, text);
  return *out_copy ? NULL : SHOAL_OOM();
}

// {"String": " "} of a step with a pattern; NULL: it is another kind of pattern.
static const char *pattern_of(const shoal_json_t *step, const char *kind) {
  return string_or(shoal_json_find(step, "pattern"), kind, NULL);
}

// ---- normalizers --------------------------------------------------------------------------------

static shoal_status_t read_normalizer(shoal_tokenizer_t *t, const shoal_json_t *step,
                                      const char *type) {
  tokenizer_normalizer_t normalizer = {.kind = TOKENIZER_NORMAL_PREPEND};
  if (strcmp(type, "Prepend") == 0) {
    SHOAL_RETURN_IF_ERROR(shoal_json_get_string(step, "prepend", &normalizer.to));
  } else if (strcmp(type, "Replace") == 0 && pattern_of(step, "String")) {
    normalizer.kind = TOKENIZER_NORMAL_REPLACE;
    SHOAL_RETURN_IF_ERROR(keep(t, pattern_of(step, "String"), &normalizer.from));
    SHOAL_RETURN_IF_ERROR(shoal_json_get_string(step, "content", &normalizer.to));
    if (!*normalizer.from) return refuse(step, "a pattern of", "");
  } else if (strcmp(type, "NFC") == 0) {
    normalizer.kind = TOKENIZER_NORMAL_NFC;
    normalizer.to = "";
  } else {
    return refuse(step, "normalizers of type", type);
  }
  if (t->normalizer_count == TOKENIZER_STEPS)
    return refuse(step, "so many normalizers, with", type);
  SHOAL_RETURN_IF_ERROR(keep(t, normalizer.to, &normalizer.to));
  t->normalizers[t->normalizer_count++] = normalizer;
  return NULL;
}

// ---- pre-tokenizers -----------------------------------------------------------------------------

static const struct {
  const char *pattern;
  tokenizer_split_t split;
} patterns[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     TOKENIZER_SPLIT_GPT2},
    {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     TOKENIZER_SPLIT_GPT2},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
     "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     TOKENIZER_SPLIT_LLAMA3},
    {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| "
     "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     TOKENIZER_SPLIT_LLAMA3},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
     "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     TOKENIZER_SPLIT_QWEN2},
};

static shoal_status_t add_split(shoal_tokenizer_t *t, const shoal_json_t *step,
                                tokenizer_split_t split) {
  if (t->split_count == TOKENIZER_STEPS || t->metaspace)
    return refuse(step, "this sequence of pre-tokenizers, with", step->path);
  t->splits[t->split_count++] = split;
  return NULL;
}

// The known patterns cover every text, so that what they match and what lies between is the same.
static shoal_status_t read_split(shoal_tokenizer_t *t, const shoal_json_t *step) {
  const char *pattern = pattern_of(step, "Regex"), *behavior = string_or(step, "behavior", "");
  const bool invert = bool_or(step, "invert", false);
  if (!pattern) return refuse(step, "pre-tokenizers of type", "Split with a string");
  if (strcmp(behavior, invert ? "Removed" : "Isolated") != 0)
    return refuse(step, "splits with the behavior", behavior);
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; ++i) {
    if (strcmp(pattern, patterns[i].pattern) == 0) return add_split(t, step, patterns[i].split);
  }
  return SHOAL_ERROR_HINT(UNSUPPORTED,
                          "Shoal knows the patterns of GPT-2, cl100k (GPT-4), Llama 3 and Qwen 2",
                          "%s: Shoal does not know the pattern '%.300s'", step->path, pattern);
}

static shoal_status_t read_byte_level(shoal_tokenizer_t *t, const shoal_json_t *step) {
  if (bool_or(step, "add_prefix_space", true)) {
    if (t->split_count) return refuse(step, "'add_prefix_space' behind another", "pre-tokenizer");
    t->prefix = TOKENIZER_PREFIX_ALWAYS;
  }
  t->byte_level = true;
  return bool_or(step, "use_regex", true) ? add_split(t, step, TOKENIZER_SPLIT_GPT2) : NULL;
}

static shoal_status_t read_metaspace(shoal_tokenizer_t *t, const shoal_json_t *step) {
  const char *scheme = string_or(step, "prepend_scheme",
                                 bool_or(step, "add_prefix_space", true) ? "always" : "never");
  if (t->split_count || t->byte_level || t->metaspace)
    return refuse(step, "this sequence of pre-tokenizers, with", "Metaspace");
  t->prefix = strcmp(scheme, "first") == 0   ? TOKENIZER_PREFIX_FIRST
              : strcmp(scheme, "never") == 0 ? TOKENIZER_PREFIX_NEVER
                                             : TOKENIZER_PREFIX_ALWAYS;
  if (bool_or(step, "split", true))
    SHOAL_RETURN_IF_ERROR(add_split(t, step, TOKENIZER_SPLIT_METASPACE));
  if (!*string_or(step, "replacement", "?")) return refuse(step, "a replacement of", "");
  return keep(t, string_or(step, "replacement", "\xE2\x96\x81"), &t->metaspace);
}

static shoal_status_t read_pre_tokenizer(shoal_tokenizer_t *t, const shoal_json_t *step,
                                         const char *type) {
  if (strcmp(type, "ByteLevel") == 0) return read_byte_level(t, step);
  if (strcmp(type, "Split") == 0) return read_split(t, step);
  if (strcmp(type, "Metaspace") == 0) return read_metaspace(t, step);
  if (strcmp(type, "Digits") == 0) {
    return add_split(t, step,
                     bool_or(step, "individual_digits", false) ? TOKENIZER_SPLIT_DIGITS
                                                               : TOKENIZER_SPLIT_NUMBERS);
  }
  return refuse(step, "pre-tokenizers of type", type);
}

// ---- decoders -----------------------------------------------------------------------------------

static shoal_status_t read_decoder(shoal_tokenizer_t *t, const shoal_json_t *step,
                                   const char *type) {
  if (strcmp(type, "ByteLevel") == 0 && t->byte_level) return NULL;
  if (t->byte_level) return refuse(step, "byte-level tokenizers with a decoder of type", type);
  if (strcmp(type, "Fuse") == 0) return NULL;  // texts are always joined
  if (strcmp(type, "ByteFallback") == 0) {
    t->decode_bytes = true;
    return NULL;
  }
  if (strcmp(type, "Replace") == 0 && pattern_of(step, "String") && !t->decode_space &&
      *pattern_of(step, "String") && strcmp(string_or(step, "content", ""), " ") == 0)
    return keep(t, pattern_of(step, "String"), &t->decode_space);
  const shoal_json_t *start = shoal_json_find(step, "start"), *stop = shoal_json_find(step, "stop");
  if (strcmp(type, "Strip") == 0 && strcmp(string_or(step, "content", ""), " ") == 0 && start &&
      start->kind == SHOAL_JSON_INT && stop && stop->kind == SHOAL_JSON_INT && !stop->integer &&
      start->integer >= 0) {
    t->decode_strip = start->integer;
    return NULL;
  }
  if (strcmp(type, "Metaspace") == 0 && !t->decode_space) {
    t->decode_drops = strcmp(string_or(step, "prepend_scheme", "always"), "never") != 0 &&
                      bool_or(step, "add_prefix_space", true);
    return keep(t, string_or(step, "replacement", "\xE2\x96\x81"), &t->decode_space);
  }
  return refuse(step, "decoders of type", type);
}

shoal_status_t shoal_tokenizer_read_steps(shoal_tokenizer_t *t, const shoal_json_t *root) {
  const shoal_json_t *decoder = shoal_json_find(root, "decoder");
  SHOAL_RETURN_IF_ERROR(
      each_step(t, shoal_json_find(root, "normalizer"), "normalizers", read_normalizer));
  SHOAL_RETURN_IF_ERROR(
      each_step(t, shoal_json_find(root, "pre_tokenizer"), "pretokenizers", read_pre_tokenizer));
  SHOAL_RETURN_IF_ERROR(each_step(t, decoder, "decoders", read_decoder));
  // Without a decoder a text is put together as it was taken apart.
  if ((!decoder || decoder->kind == SHOAL_JSON_NULL) && !t->byte_level) {
    t->decode_space = t->metaspace;
    t->decode_bytes = true;
  }
  return NULL;
}

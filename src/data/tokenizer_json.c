// Hugging Face's tokenizer.json: the model's vocabulary and merges, added tokens, and what is put
// around a text. Normalizers, pre-tokenizers and decoders are read in tokenizer_steps.c.
#include <limits.h>
#include <string.h>

#include "base/arena.h"
#include "base/status.h"
#include "data/tokenizer.h"

static bool is_null(const shoal_json_t *value) {
  return !value || value->kind == SHOAL_JSON_NULL;
}

static bool is_true(const shoal_json_t *object, const char *key) {
  const shoal_json_t *value = shoal_json_find(object, key);
  return value && value->kind == SHOAL_JSON_BOOL && value->boolean;
}

// ---- the model ----------------------------------------------------------------------------------

// "left right", or ["left", "right"].
static shoal_status_t read_merge(shoal_tokenizer_t *t, const shoal_json_t *vocabulary, int64_t rank,
                                 const shoal_json_t *merge, shoal_arena_t *arena) {
  if (merge->kind == SHOAL_JSON_ARRAY && merge->count == 2 &&
      merge->children[0].kind == SHOAL_JSON_STRING &&
      merge->children[1].kind == SHOAL_JSON_STRING) {
    return shoal_tokenizer_add_merge(t, vocabulary, rank, merge->children[0].string,
                                     merge->children[1].string);
  }
  const char *space = merge->kind == SHOAL_JSON_STRING ? strchr(merge->string, ' ') : NULL;
  if (!space || strchr(space + 1, ' ')) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s: this is no merge of two tokens", merge->path);
  }
  char *left = shoal_arena_copy(arena, merge->string, (size_t)(space - merge->string) + 1, 1);
  if (!left) return SHOAL_OOM();
  left[space - merge->string] = 0;
  return shoal_tokenizer_add_merge(t, vocabulary, rank, left, space + 1);
}

static shoal_status_t refuse_setting(const shoal_json_t *model, const char *key) {
  const shoal_json_t *value = shoal_json_find(model, key);
  if (is_null(value) || (value->kind == SHOAL_JSON_STRING && !*value->string) ||
      (value->kind == SHOAL_JSON_REAL && value->real == 0) ||
      (value->kind == SHOAL_JSON_INT && value->integer == 0))
    return NULL;
  return SHOAL_ERROR(UNSUPPORTED, "%s: Shoal does not know models with '%s'", value->path, key);
}

static shoal_status_t read_model(shoal_tokenizer_t *t, const shoal_json_t *model, int64_t most,
                                 shoal_arena_t *arena) {
  static const char *const refused[] = {"dropout", "continuing_subword_prefix",
                                        "end_of_word_suffix"};
  const shoal_json_t *vocabulary, *merges, *unknown = shoal_json_find(model, "unk_token");
  for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i)
    SHOAL_RETURN_IF_ERROR(refuse_setting(model, refused[i]));
  t->byte_fallback = is_true(model, "byte_fallback");
  t->fuse_unknown = is_true(model, "fuse_unk");
  t->ignore_merges = is_true(model, "ignore_merges");
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(model, "vocab", SHOAL_JSON_OBJECT, &vocabulary));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(model, "merges", SHOAL_JSON_ARRAY, &merges));
  SHOAL_RETURN_IF_ERROR(shoal_tokenizer_vocabulary(t, vocabulary, most));
  SHOAL_RETURN_IF_ERROR(shoal_tokenizer_reserve_pairs(t, merges->count));
  for (int64_t i = 0; i < merges->count; ++i)
    SHOAL_RETURN_IF_ERROR(read_merge(t, vocabulary, i, &merges->children[i], arena));
  if (is_null(unknown)) return NULL;
  const shoal_json_t *id =
      unknown->kind == SHOAL_JSON_STRING ? shoal_json_find(vocabulary, unknown->string) : NULL;
  if (!id) {
    return SHOAL_ERROR(INVALID_ARGUMENT,
                       "%s: the token for what is unknown is not in the vocabulary", unknown->path);
  }
  t->unknown = (int32_t)id->integer;
  return NULL;
}

static shoal_status_t check_model(const shoal_json_t *model) {
  const shoal_json_t *type = shoal_json_find(model, "type");
  if (is_null(type)) {  // files of old versions do not say it
    return shoal_json_find(model, "merges")
               ? NULL
               : SHOAL_ERROR(INVALID_ARGUMENT, "%s: the key 'type' is missing", model->path);
  }
  if (type->kind == SHOAL_JSON_STRING && strcmp(type->string, "BPE") == 0) return NULL;
  return SHOAL_ERROR_HINT(UNSUPPORTED, "Shoal reads models of type BPE (byte pair encoding)",
                          "%s: a model of type '%s'", type->path,
                          type->kind == SHOAL_JSON_STRING ? type->string : "?");
}

// ---- added tokens -------------------------------------------------------------------------------

static shoal_status_t read_added(const shoal_json_t *token, tokenizer_added_t *out_added) {
  int64_t id;
  const char *text;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_int(token, "id", &id));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(token, "content", &text));
  const size_t length = strlen(text);
  if (id < 0 || id > INT32_MAX || !length || length > INT32_MAX)
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s: this is no token", token->path);
  if (is_true(token, "single_word")) {
    return SHOAL_ERROR(UNSUPPORTED, "%s: Shoal does not know added tokens with 'single_word'",
                       token->path);
  }
  *out_added = (tokenizer_added_t){.text = text,
                                   .length = (int32_t)length,
                                   .id = (int32_t)id,
                                   .strip_left = is_true(token, "lstrip"),
                                   .strip_right = is_true(token, "rstrip"),
                                   .special = is_true(token, "special"),
                                   .normalized = is_true(token, "normalized")};
  return NULL;
}

static shoal_status_t add_added(shoal_tokenizer_t *t, const shoal_json_t *list) {
  for (int64_t i = 0; i < list->count; ++i) {
    tokenizer_added_t added;
    SHOAL_RETURN_IF_ERROR(read_added(&list->children[i], &added));
    const tokenizer_token_t *there = &t->tokens[added.id];
    if (there->text && strcmp(there->key, added.text) != 0 && there->word) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s: tokens '%.60s' and '%.60s' have the same id, %d",
                         list->children[i].path, there->key, added.text, added.id);
    }
    added.text = shoal_arena_strdup(&t->arena, added.text);
    if (!added.text) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(shoal_tokenizer_add_added(t, &added));
  }
  return NULL;
}

// ---- around a text ------------------------------------------------------------------------------

// [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]: the ids before and behind the text.
static shoal_status_t read_template(shoal_tokenizer_t *t, const shoal_json_t *processor) {
  const shoal_json_t *single, *ids = shoal_json_find(processor, "special_tokens");
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(processor, "single", SHOAL_JSON_ARRAY, &single));
  SHOAL_VEC(int32_t) sides[2] = {{0}, {0}};
  int side = 0;
  for (int64_t i = 0; i < single->count; ++i) {
    const shoal_json_t *token = shoal_json_find(&single->children[i], "SpecialToken");
    if (!token) {
      side = 1;
      continue;
    }
    const char *name;
    const shoal_json_t *numbers = NULL;
    SHOAL_RETURN_IF_ERROR(shoal_json_get_string(token, "id", &name));
    const shoal_json_t *special = shoal_json_find(ids, name);
    if (special)
      SHOAL_RETURN_IF_ERROR(shoal_json_get_child(special, "ids", SHOAL_JSON_ARRAY, &numbers));
    for (int64_t k = 0; numbers && k < numbers->count; ++k) {
      const shoal_json_t *id = &numbers->children[k];
      if (id->kind != SHOAL_JSON_INT || id->integer < 0 || id->integer >= t->size)
        return SHOAL_ERROR(INVALID_ARGUMENT, "%s: this is no token's id", id->path);
      if (!SHOAL_PUSH(&t->arena, &sides[side], (int32_t)id->integer)) return SHOAL_OOM();
    }
    if (!numbers)
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s: there is no special token '%s'", token->path, name);
  }
  t->before = sides[0].items;
  t->before_count = sides[0].count;
  t->behind = sides[1].items;
  t->behind_count = sides[1].count;
  return NULL;
}

static shoal_status_t read_processor(shoal_tokenizer_t *t, const shoal_json_t *processor) {
  if (is_null(processor)) return NULL;
  const char *type;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(processor, "type", &type));
  if (strcmp(type, "ByteLevel") == 0) return NULL;  // it only moves offsets
  if (strcmp(type, "TemplateProcessing") == 0) return read_template(t, processor);
  if (strcmp(type, "Sequence") == 0) {
    const shoal_json_t *list;
    SHOAL_RETURN_IF_ERROR(shoal_json_get_child(processor, "processors", SHOAL_JSON_ARRAY, &list));
    for (int64_t i = 0; i < list->count; ++i)
      SHOAL_RETURN_IF_ERROR(read_processor(t, &list->children[i]));
    return NULL;
  }
  return SHOAL_ERROR(UNSUPPORTED, "%s: Shoal does not know post-processors of type '%s'",
                     processor->path, type);
}

// ---- the file -----------------------------------------------------------------------------------

static shoal_status_t read_file(shoal_tokenizer_t *t, const char *path, shoal_arena_t *arena) {
  const char *text;
  int64_t size, most = -1;
  const shoal_json_t *root, *model;
  SHOAL_RETURN_IF_ERROR(shoal_tokenizer_read_text(path, arena, &text, &size));
  SHOAL_RETURN_IF_ERROR(shoal_json_parse(path, text, arena, &root));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(root, "model", SHOAL_JSON_OBJECT, &model));
  SHOAL_RETURN_IF_ERROR(check_model(model));
  SHOAL_RETURN_IF_ERROR(shoal_tokenizer_read_steps(t, root));
  const shoal_json_t *list = shoal_json_find(root, "added_tokens");
  if (!is_null(list)) {
    SHOAL_RETURN_IF_ERROR(shoal_json_get_child(root, "added_tokens", SHOAL_JSON_ARRAY, &list));
    for (int64_t i = 0; i < list->count; ++i) {
      tokenizer_added_t added;
      SHOAL_RETURN_IF_ERROR(read_added(&list->children[i], &added));
      if (added.id > most) most = added.id;
    }
  }
  SHOAL_RETURN_IF_ERROR(read_model(t, model, most, arena));
  if (!is_null(list)) {
    SHOAL_RETURN_IF_ERROR(shoal_tokenizer_reserve_added(t, list->count));
    SHOAL_RETURN_IF_ERROR(add_added(t, list));
  }
  return read_processor(t, shoal_json_find(root, "post_processor"));
}

shoal_status_t shoal_tokenizer_read_json(shoal_tokenizer_t *t, const char *path) {
  shoal_arena_t arena;
  shoal_arena_init(t->allocator, &arena);
  shoal_status_t status = read_file(t, path, &arena);
  shoal_arena_deinit(&arena);
  return status;
}

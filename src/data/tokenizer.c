// Opening a tokenizer by its path, and what can be asked of its vocabulary.
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/status.h"
#include "data/tokenizer.h"

// ---- by path ------------------------------------------------------------------------------------

static bool is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool exists(const char *path) {
  struct stat info;
  return stat(path, &info) == 0;
}

static shoal_status_t read_bytes(shoal_tokenizer_t *t) {
  t->byte_level = true;
  t->size = 256;
  t->tokens = SHOAL_NEW(&t->arena, tokenizer_token_t, t->size);
  char *texts = SHOAL_NEW(&t->arena, char, t->size);
  if (!t->tokens || !texts) return SHOAL_OOM();
  for (int byte = 0; byte < 256; ++byte) {
    texts[byte] = (char)byte;
    t->tokens[byte] = (tokenizer_token_t){.text = &texts[byte],
                                          .key = &texts[byte],
                                          .length = 1,
                                          .key_length = 1,
                                          .byte = -1,
                                          .word = true};
  }
  t->bytes = true;
  return NULL;
}

// The pairs of names that GPT-2's files go by.
static const char *const names[][2] = {{"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}};

static const char *beside(shoal_tokenizer_t *t, const char *folder, const char *name) {
  return shoal_arena_printf(&t->arena, "%s%s%s", folder, *folder ? "/" : "", name);
}

// `name`: the file that was asked for, NULL for the folder itself.
static shoal_status_t read_folder(shoal_tokenizer_t *t, const char *folder, const char *name) {
  const char *path = beside(t, folder, "tokenizer.json");
  if (!path) return SHOAL_OOM();
  if (!name && exists(path)) return shoal_tokenizer_read_json(t, path);
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    const char *vocabulary = beside(t, folder, names[i][0]);
    const char *merges = beside(t, folder, names[i][1]);
    if (!vocabulary || !merges) return SHOAL_OOM();
    if (name ? strcmp(name, names[i][0]) == 0 || strcmp(name, names[i][1]) == 0
             : exists(vocabulary) && exists(merges))
      return shoal_tokenizer_read_gpt2(t, vocabulary, merges);
  }
  if (name) return shoal_tokenizer_read_json(t, t->name);
  return SHOAL_ERROR_HINT(NOT_FOUND, "a tokenizer is tokenizer.json, or vocab.json and merges.txt",
                          "there is no tokenizer in '%s'", t->name);
}

// ---- which tokens begin and end a text ----------------------------------------------------------

// "eos_token": "</s>", or {"content": "</s>"}.
static int32_t configured(const shoal_tokenizer_t *t, const shoal_json_t *config, const char *key) {
  const shoal_json_t *value = shoal_json_find(config, key);
  if (value && value->kind == SHOAL_JSON_OBJECT) value = shoal_json_find(value, "content");
  if (!value || value->kind != SHOAL_JSON_STRING) return -1;
  return shoal_tokenizer_find(t, value->string, -1);
}

static int32_t first_of(const shoal_tokenizer_t *t, const char *const *texts, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const int32_t id = shoal_tokenizer_find(t, texts[i], -1);
    if (id >= 0 && t->tokens[id].special) return id;
  }
  return -1;
}

static shoal_status_t find_ends(shoal_tokenizer_t *t, const char *folder) {
  static const char *const ends[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};
  static const char *const begins[] = {"<|begin_of_text|>", "<s>", "<bos>", "<|endoftext|>"};
  t->end = first_of(t, ends, sizeof ends / sizeof *ends);
  t->begin = first_of(t, begins, sizeof begins / sizeof *begins);
  const char *path = beside(t, folder, "tokenizer_config.json"), *text;
  if (!path) return SHOAL_OOM();
  if (!exists(path)) return NULL;
  shoal_arena_t arena;
  shoal_arena_init(t->allocator, &arena);
  int64_t size;
  const shoal_json_t *config;
  shoal_status_t status = shoal_tokenizer_read_text(path, &arena, &text, &size);
  if (!status) status = shoal_json_parse(path, text, &arena, &config);
  if (!status) {
    const int32_t end = configured(t, config, "eos_token"),
                  begin = configured(t, config, "bos_token");
    if (end >= 0) t->end = end;
    if (begin >= 0) t->begin = begin;
  }
  shoal_arena_deinit(&arena);
  return status;
}

// ---- open and close -----------------------------------------------------------------------------

static shoal_status_t read(shoal_tokenizer_t *t) {
  if (strcmp(t->name, "bytes") == 0) {
    SHOAL_RETURN_IF_ERROR(read_bytes(t));
    return shoal_tokenizer_finish(t);
  }
  const bool whole = is_folder(t->name);
  const char *slash = strrchr(t->name, '/');
  char *folder = shoal_arena_strdup(&t->arena, t->name);
  if (!folder) return SHOAL_OOM();
  if (!whole) folder[slash ? slash - t->name : 0] = 0;
  SHOAL_RETURN_IF_ERROR(read_folder(t, folder, whole ? NULL : slash ? slash + 1 : t->name));
  SHOAL_RETURN_IF_ERROR(shoal_tokenizer_finish(t));
  return find_ends(t, folder);
}

shoal_status_t shoal_tokenizer_open(const char *path, const shoal_tokenizer_options_t *options,
                                    shoal_tokenizer_t **out_tokenizer) {
  *out_tokenizer = NULL;
  const shoal_allocator_t allocator =
      options && options->allocator.alloc ? options->allocator : shoal_allocator_system();
  shoal_tokenizer_t *t = allocator.alloc(allocator.self, sizeof *t);
  if (!t) return SHOAL_OOM();
  *t = (shoal_tokenizer_t){.allocator = allocator, .begin = -1, .end = -1, .unknown = -1};
  shoal_arena_init(allocator, &t->arena);
  t->name = shoal_arena_strdup(&t->arena, path);
  shoal_status_t status = t->name ? read(t) : SHOAL_OOM();
  if (status) {
    shoal_tokenizer_free(t);
    return status;
  }
  *out_tokenizer = t;
  return NULL;
}

void shoal_tokenizer_free(shoal_tokenizer_t *t) {
  if (!t) return;
  shoal_decoder_free(t->decoder);
  shoal_tokenizer_cache_deinit(t);
  shoal_buffer_t *const buffers[] = {&t->ids, &t->normal, &t->other, &t->word};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; ++i)
    shoal_buffer_deinit(t->allocator, buffers[i]);
  shoal_arena_deinit(&t->arena);
  t->allocator.free(t->allocator.self, t);
}

// ---- the vocabulary -----------------------------------------------------------------------------

int64_t shoal_tokenizer_size(const shoal_tokenizer_t *t) {
  return t->size;
}

int32_t shoal_tokenizer_end(const shoal_tokenizer_t *t) {
  return t->end;
}

int32_t shoal_tokenizer_begin(const shoal_tokenizer_t *t) {
  return t->begin;
}

static bool stands_for(const tokenizer_token_t *token, const char *text, int64_t length) {
  return token->text && token->length == length && memcmp(token->text, text, (size_t)length) == 0;
}

int32_t shoal_tokenizer_find(const shoal_tokenizer_t *t, const char *text, int64_t length) {
  if (length < 0) length = (int64_t)strlen(text);
  for (int64_t i = 0; i < t->added_count; ++i) {
    if (t->added[i].length == length && memcmp(t->added[i].text, text, (size_t)length) == 0)
      return t->added[i].id;
  }
  if (t->decode_space && memchr(text, ' ', (size_t)length)) {  // the index has it otherwise
    for (int64_t id = 0; id < t->size; ++id) {
      if (stands_for(&t->tokens[id], text, length)) return (int32_t)id;
    }
    return -1;
  }
  const uint64_t hash = shoal_hash_bytes(SHOAL_HASH_START, text, (size_t)length);
  for (int64_t at = -1, id; (id = shoal_index_next(&t->texts, hash, &at)) >= 0;) {
    if (stands_for(&t->tokens[id], text, length)) return (int32_t)id;
  }
  return -1;
}

const char *shoal_tokenizer_token(const shoal_tokenizer_t *t, int32_t id, int64_t *out_length) {
  *out_length = 0;
  if (id < 0 || id >= t->size || !t->tokens[id].text) return NULL;
  *out_length = t->tokens[id].length;
  return t->tokens[id].text;
}

bool shoal_tokenizer_is_special(const shoal_tokenizer_t *t, int32_t id) {
  return id >= 0 && id < t->size && t->tokens[id].special;
}

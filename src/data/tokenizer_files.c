// GPT-2's own files: vocab.json, {"token": id}, and merges.txt, a merge on each line. Both write
// bytes as characters that print.
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/status.h"
#include "data/tokenizer.h"

enum { MOST_BYTES = 1 << 29 };

shoal_status_t shoal_tokenizer_read_text(const char *path, shoal_arena_t *arena,
                                         const char **out_text, int64_t *out_size) {
  struct stat info;
  if (stat(path, &info) == 0 && info.st_size > MOST_BYTES) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "is it another file?",
                            "'%s' has %lld bytes: no tokenizer is so large", path,
                            (long long)info.st_size);
  }
  return shoal_file_read(path, arena, out_text, out_size);
}

static shoal_status_t bad_line(const char *path, int64_t number, const char *line) {
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                          "a line has two tokens with one space between: is the file damaged?",
                          "%s:%lld: '%.80s' is no merge", path, (long long)number, line);
}

// The merges; `text` is cut up.
static shoal_status_t read_merges(shoal_tokenizer_t *t, const char *path, char *text, int64_t size,
                                  const shoal_json_t *vocabulary) {
  int64_t lines = 1, rank = 0, number = 0;
  for (int64_t i = 0; i < size; ++i) lines += text[i] == '\n';
  SHOAL_RETURN_IF_ERROR(shoal_tokenizer_reserve_pairs(t, lines));
  for (char *line = text, *next; line < text + size; line = next) {
    const size_t length = strcspn(line, "\n");
    next = line + length + 1;
    line[length] = 0;
    if (length && line[length - 1] == '\r') line[length - 1] = 0;
    ++number;
    if (!*line || strncmp(line, "#version", 8) == 0) continue;
    char *space = strchr(line, ' ');
    if (!space || strchr(space + 1, ' ')) return bad_line(path, number, line);
    *space = 0;
    SHOAL_RETURN_IF_ERROR(shoal_tokenizer_add_merge(t, vocabulary, rank++, line, space + 1));
  }
  return NULL;
}

static shoal_status_t read_files(shoal_tokenizer_t *t, const char *vocabulary_path,
                                 const char *merges_path, shoal_arena_t *arena) {
  static const char end[] = "<|endoftext|>";
  const char *text, *merges;
  int64_t size;
  const shoal_json_t *vocabulary;
  SHOAL_RETURN_IF_ERROR(shoal_tokenizer_read_text(vocabulary_path, arena, &text, &size));
  SHOAL_RETURN_IF_ERROR(shoal_json_parse(vocabulary_path, text, arena, &vocabulary));
  if (vocabulary->kind != SHOAL_JSON_OBJECT) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s: this is no vocabulary, {\"token\": id, ...}",
                       vocabulary_path);
  }
  t->byte_level = true;
  SHOAL_RETURN_IF_ERROR(shoal_tokenizer_vocabulary(t, vocabulary, -1));
  SHOAL_RETURN_IF_ERROR(shoal_tokenizer_read_text(merges_path, arena, &merges, &size));
  if (memchr(merges, 0, (size_t)size)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s: this is no text: it has a zero byte", merges_path);
  }
  char *copy = shoal_arena_strdup(arena, merges);
  if (!copy) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(read_merges(t, merges_path, copy, size, vocabulary));
  t->splits[t->split_count++] = TOKENIZER_SPLIT_GPT2;
  const shoal_json_t *last = shoal_json_find(vocabulary, end);
  if (!last) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_tokenizer_reserve_added(t, 1));
  return shoal_tokenizer_add_added(t, &(tokenizer_added_t){.text = end,
                                                           .length = (int32_t)strlen(end),
                                                           .id = (int32_t)last->integer,
                                                           .special = true});
}

shoal_status_t shoal_tokenizer_read_gpt2(shoal_tokenizer_t *t, const char *vocabulary,
                                         const char *merges) {
  shoal_arena_t arena;
  shoal_arena_init(t->allocator, &arena);
  shoal_status_t status = read_files(t, vocabulary, merges, &arena);
  shoal_arena_deinit(&arena);
  return status;
}

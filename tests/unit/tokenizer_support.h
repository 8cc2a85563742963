// Small tokenizers, written into a folder that goes when the test program ends.
#ifndef SHOAL_TESTS_TOKENIZER_SUPPORT_H_
#define SHOAL_TESTS_TOKENIZER_SUPPORT_H_

#include <stdlib.h>
#include <unistd.h>

#include "shoal/tokenizer.h"
#include "unit/arena.h"

static char folder[] = "/tmp/shoal_tokenizer_XXXXXX";

static const char *in_folder(const char *name) {
  return shoal_arena_printf(&arena, "%s/%s", folder, name);
}

static void write_text(const char *name, const char *text) {
  assert_ok(shoal_file_write(in_folder(name), text, (int64_t)strlen(text)));
}

static int setup_folder(void **state) {
  setup_arena(state);
  return mkdtemp(folder) ? 0 : -1;
}

static int teardown_folder(void **state) {
  static const char *const names[] = {"vocab.json", "merges.txt", "tokenizer.json",
                                      "tokenizer_config.json"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) unlink(in_folder(names[i]));
  rmdir(folder);
  return teardown_arena(state);
}

static const char VOCABULARY[] =
    "{\"a\": 0, \"b\": 1, \"c\": 2, \"\\u0120\": 3, \"ab\": 4, \"bc\": 5, \"abc\": 6,"
    " \"\\u0120a\": 7, \"\\u00c3\": 8, \"\\u00a9\": 9, \"<|endoftext|>\": 10, \"\\u010a\": 11,"
    " \"aa\": 12}";
static const char MERGES[] = "#version: 0.2\nb c\na b\nab c\n\xC4\xA0 a\na a\n";

// ---- what becomes of a text ---------------------------------------------------------------------

// "7 5 10", with `options`.
static const char *ids_of(shoal_tokenizer_t *tokenizer, const char *text,
                          const shoal_encode_options_t *options) {
  const int32_t *ids;
  int64_t count;
  assert_ok(shoal_tokenizer_encode(tokenizer, text, -1, options, &ids, &count));
  const char *printed = "";
  for (int64_t i = 0; i < count; ++i)
    printed = shoal_arena_printf(&arena, "%s%s%d", printed, i ? " " : "", ids[i]);
  return printed;
}

// The text of ids; each of them followed by a bar when they are decoded one by one.
static const char *text_of(shoal_tokenizer_t *tokenizer, const int32_t *ids, int64_t count) {
  const char *text;
  int64_t length;
  assert_ok(shoal_tokenizer_decode(tokenizer, ids, count, NULL, &text, &length));
  assert_int_equal(strlen(text), length);
  return shoal_arena_strdup(&arena, text);
}

static const char *stream_of(shoal_tokenizer_t *tokenizer, const int32_t *ids, int64_t count) {
  shoal_decoder_t *decoder;
  const char *text, *joined = "";
  int64_t length;
  assert_ok(shoal_decoder_create(tokenizer, NULL, &decoder));
  for (int64_t i = 0; i < count; ++i) {
    assert_ok(shoal_decoder_add(decoder, ids[i], &text, &length));
    joined = shoal_arena_printf(&arena, "%s%s|", joined, text);
  }
  assert_ok(shoal_decoder_finish(decoder, &text, &length));
  joined = shoal_arena_printf(&arena, "%s%s", joined, text);
  shoal_decoder_free(decoder);
  return joined;
}

static shoal_tokenizer_t *opened(const char *path) {
  shoal_tokenizer_t *tokenizer;
  assert_ok(shoal_tokenizer_open(path, NULL, &tokenizer));
  return tokenizer;
}

#endif  // SHOAL_TESTS_TOKENIZER_SUPPORT_H_

// Tokenizers of bytes and of GPT-2's files: ids, texts, special tokens, words and merges by known
// answers; tests/tokenizer_peers.py compares with Hugging Face's.
#include "base/philox.h"
#include "data/tokenizer.h"
#include "data/unicode.h"
#include "unit/failing.h"
#include "unit/tokenizer_support.h"

static shoal_tokenizer_t *small(void) {
  write_text("vocab.json", VOCABULARY);
  write_text("merges.txt", MERGES);
  return opened(folder);
}

static void test_bytes(void **state) {
  (void)state;
  shoal_tokenizer_t *tokenizer = opened("bytes");
  assert_int_equal(shoal_tokenizer_size(tokenizer), 256);
  assert_int_equal(shoal_tokenizer_end(tokenizer), -1);
  assert_string_equal(ids_of(tokenizer, "a\xC3\xA9", NULL), "97 195 169");
  assert_string_equal(text_of(tokenizer, (int32_t[]){97, 195, 169, 0xE2, 98}, 5),
                      "aé\xEF\xBF\xBD"
                      "b");
  assert_int_equal(shoal_tokenizer_cut(tokenizer, "abc", 3), 2);
  shoal_tokenizer_free(tokenizer);
  shoal_tokenizer_free(NULL);
}

static void test_known_ids(void **state) {
  (void)state;
  shoal_tokenizer_t *tokenizer = small();
  assert_int_equal(shoal_tokenizer_size(tokenizer), 13);
  assert_string_equal(ids_of(tokenizer, "", NULL), "");
  assert_string_equal(ids_of(tokenizer, "ab", NULL), "4");
  assert_string_equal(ids_of(tokenizer, "abc", NULL), "0 5");  // b c comes first
  assert_string_equal(ids_of(tokenizer, " abc", NULL), "7 5");
  assert_string_equal(ids_of(tokenizer, "a  abc", NULL), "0 3 7 5");
  assert_string_equal(ids_of(tokenizer, "aaa", NULL), "12 0");  // the leftmost pair first
  assert_string_equal(ids_of(tokenizer, "é\n", NULL), "8 9 11");
  assert_string_equal(ids_of(tokenizer, "xaz", NULL), "0");  // no token for x and z, none unknown
  assert_string_equal(ids_of(tokenizer, "ab", NULL), "4");   // and again, from the cache
  shoal_tokenizer_free(tokenizer);
}

static void test_special_tokens(void **state) {
  (void)state;
  shoal_tokenizer_t *tokenizer = small();
  assert_int_equal(shoal_tokenizer_end(tokenizer), 10);
  assert_int_equal(shoal_tokenizer_begin(tokenizer), 10);
  assert_true(shoal_tokenizer_is_special(tokenizer, 10));
  assert_false(shoal_tokenizer_is_special(tokenizer, 4));
  assert_false(shoal_tokenizer_is_special(tokenizer, 13));
  assert_string_equal(ids_of(tokenizer, "ab<|endoftext|>ab", NULL), "4 10 4");
  assert_string_equal(
      ids_of(tokenizer, "ab<|endoftext|>ab", &(shoal_encode_options_t){.special_as_text = true}),
      "4 4");
  const char *text;
  int64_t length;
  assert_ok(shoal_tokenizer_decode(tokenizer, (int32_t[]){4, 10, 4}, 3,
                                   &(shoal_decode_options_t){.skip_special = true}, &text,
                                   &length));
  assert_string_equal(text, "abab");
  assert_int_equal(shoal_tokenizer_find(tokenizer, " a", 2), 7);
  assert_int_equal(shoal_tokenizer_find(tokenizer, "<|endoftext|>", -1), 10);
  assert_int_equal(shoal_tokenizer_find(tokenizer, "cab", -1), -1);
  assert_memory_equal(shoal_tokenizer_token(tokenizer, 7, &length), " a", 2);
  assert_int_equal(length, 2);
  assert_null(shoal_tokenizer_token(tokenizer, -1, &length));
  shoal_tokenizer_free(tokenizer);
}

static void test_streamed_text(void **state) {
  (void)state;
  shoal_tokenizer_t *tokenizer = small();
  const int32_t ids[] = {0, 8, 9, 7, 8, 0, 8};  // é is 8 9; a lone 8 is no character
  assert_string_equal(text_of(tokenizer, ids, 7),
                      "aé a\xEF\xBF\xBD"
                      "a\xEF\xBF\xBD");
  assert_string_equal(stream_of(tokenizer, ids, 7),
                      "a||é| a||\xEF\xBF\xBD"
                      "a||\xEF\xBF\xBD");
  const char *text;
  int64_t length;
  assert_ok(shoal_tokenizer_decode(tokenizer, ids, 5, &(shoal_decode_options_t){.bytes = true},
                                   &text, &length));
  assert_string_equal(text, "aé a\xC3");
  assert_error(INVALID_ARGUMENT, "id 13 is no token",
               shoal_tokenizer_decode(tokenizer, (int32_t[]){0, 13}, 2, NULL, &text, &length));
  shoal_tokenizer_free(tokenizer);
}

// ---- merges against the definition --------------------------------------------------------------

// Joins the pair of the lowest rank, the leftmost first, on texts.
static int64_t join_by_definition(char words[][8], int64_t count) {
  static const char *const merges[][2] = {
      {"b", "c"}, {"a", "b"}, {"ab", "c"}, {"\xC4\xA0", "a"}, {"a", "a"}};
  for (size_t rank = 0; rank < sizeof merges / sizeof *merges;) {
    int64_t at = 0;
    while (at + 1 < count &&
           (strcmp(words[at], merges[rank][0]) != 0 || strcmp(words[at + 1], merges[rank][1]) != 0))
      ++at;
    if (at + 1 >= count) {
      ++rank;
      continue;
    }
    memcpy(words[at] + strlen(words[at]), merges[rank][1], strlen(merges[rank][1]) + 1);
    memmove(words[at + 1], words[at + 2], (size_t)(count - at - 2) * sizeof *words);
    --count;
    rank = 0;
  }
  return count;
}

static void test_merges(void **state) {
  (void)state;
  shoal_tokenizer_t *tokenizer = small();
  for (uint64_t trial = 0; trial < 300; ++trial) {
    static char words[400][8];
    char text[401] = "";
    const int64_t length = 1 + shoal_philox_word(1, 2, trial, 0) % (trial % 2 ? 20 : 300);
    for (int64_t i = 0; i < length; ++i) {
      text[i] = "abcaab"[shoal_philox_word(1, 2, trial, (uint64_t)i + 1) % 6];
      memcpy(words[i], (char[]){text[i], 0}, 2);
    }
    const int64_t count = join_by_definition(words, length);
    const int32_t *ids;
    int64_t found;
    assert_ok(shoal_tokenizer_encode(tokenizer, text, length, NULL, &ids, &found));
    assert_int_equal(found, count);
    for (int64_t i = 0; i < count; ++i)
      assert_int_equal(ids[i], shoal_tokenizer_find(tokenizer, words[i], -1));
  }
  shoal_tokenizer_free(tokenizer);
}

// ---- words --------------------------------------------------------------------------------------

static void check_words(tokenizer_split_t split, const char *text, const char *expected) {
  const int64_t length = (int64_t)strlen(text);
  const char *words = "";
  for (int64_t at = 0, end; at < length; at = end) {
    end = shoal_tokenizer_word_end(NULL, split, text, at, length);
    assert_true(end > at && end <= length);
    words =
        shoal_arena_printf(&arena, "%s%s%.*s", words, at ? "|" : "", (int)(end - at), text + at);
  }
  assert_string_equal(words, expected);
}

static void test_words(void **state) {
  (void)state;
  const tokenizer_split_t gpt2 = TOKENIZER_SPLIT_GPT2, llama3 = TOKENIZER_SPLIT_LLAMA3;
  check_words(gpt2, "Hello world's 12345 x=1!", "Hello| world|'s| 12345| x|=|1|!");
  check_words(gpt2, "a  b\n\n c \n", "a| | b|\n\n| c| \n");
  check_words(gpt2, "I'll I'LL '''s", "I|'ll| I|'|LL| '''|s");
  check_words(gpt2, "\xC2\xA0x é日本²३", "\xC2\xA0|x| é日本|²३");
  check_words(gpt2, "e\xCC\x81 a\xFF\xE6\x97", "e|\xCC\x81| a|\xFF\xE6\x97");
  check_words(llama3, "Hello world's 12345 x=1!", "Hello| world|'s| |123|45| x|=|1|!");
  check_words(llama3, "I'll I'LL a'\xC5\xBFx", "I|'ll| I|'LL| a|'\xC5\xBF|x");
  check_words(llama3, "a \n\n  b\t\tc ;\r\n\r\n}\n", "a| \n\n| | b|\t|\tc| ;\r\n\r\n|}\n");
  check_words(llama3, "_name(x) \"q\"\n", "_name|(x|)| \"|q|\"\n");
  check_words(TOKENIZER_SPLIT_QWEN2, "12 ab3", "1|2| ab|3");
  check_words(TOKENIZER_SPLIT_DIGITS, "ab12 c", "ab|1|2| c");
  check_words(TOKENIZER_SPLIT_NUMBERS, "ab12 c", "ab|12| c");
}

static void test_classes(void **state) {
  (void)state;
  int64_t counts[4] = {0};
  for (uint32_t code = 0; code < 0x110000; ++code) ++counts[shoal_unicode_class(code)];
  assert_int_equal(counts[SHOAL_CLASS_LETTER], 141028);  // of Unicode 16.0
  assert_int_equal(counts[SHOAL_CLASS_NUMBER], 1911);
  assert_int_equal(counts[SHOAL_CLASS_SPACE], 25);
  for (uint32_t code = 0; code < 0x110000; ++code) {
    char bytes[4];
    const int32_t length = shoal_utf8_write(code, bytes);
    const shoal_character_t c = shoal_utf8_read(bytes, length);
    const bool surrogate = code >= 0xD800 && code < 0xE000;
    assert_true(surrogate ? !c.valid : c.valid && c.code == code && c.length == length);
    if (length > 1) assert_true(surrogate || shoal_utf8_read(bytes, length - 1).cut);
  }
}

static void test_cuts(void **state) {
  (void)state;
  shoal_tokenizer_t *tokenizer = small();
  const char text[] = "ab  abc a\n ab<|endoftext|>c a";
  const int64_t length = (int64_t)sizeof text - 1;
  assert_int_equal(shoal_tokenizer_cut(tokenizer, text, length), length - 2);
  assert_int_equal(shoal_tokenizer_cut(tokenizer, "a\n b", 4), 0);
  assert_int_equal(shoal_tokenizer_cut(tokenizer, "", 0), 0);
  const char *whole = ids_of(tokenizer, text, NULL);
  for (int64_t size = length; size > 1; --size) {
    const int64_t cut = shoal_tokenizer_cut(tokenizer, text, size);
    if (cut == 0) continue;
    char head[64] = "";
    memcpy(head, text, (size_t)cut);
    const char *first = ids_of(tokenizer, head, NULL),
               *second = ids_of(tokenizer, text + cut, NULL);
    assert_string_equal(shoal_arena_printf(&arena, "%s %s", first, second), whole);
  }
  shoal_tokenizer_free(tokenizer);
}

// ---- memory -------------------------------------------------------------------------------------

static shoal_status_t use(shoal_allocator_t allocator, void *context) {
  (void)context;
  const int32_t *ids;
  const char *text;
  int64_t count, length;
  shoal_tokenizer_t *tokenizer = NULL;
  shoal_status_t status = shoal_tokenizer_open(
      folder, &(shoal_tokenizer_options_t){.allocator = allocator}, &tokenizer);
  const char words[] =
      "ab abc <|endoftext|> "
      "abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc";
  if (!status) status = shoal_tokenizer_encode(tokenizer, words, -1, NULL, &ids, &count);
  if (!status) status = shoal_tokenizer_decode(tokenizer, ids, count, NULL, &text, &length);
  if (!status) assert_string_equal(text, words);
  shoal_tokenizer_free(tokenizer);
  return status;
}

static void test_memory(void **state) {
  (void)state;
  shoal_tokenizer_free(small());
  assert_true(check_failing_allocations(use, NULL, 0) > 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bytes),          cmocka_unit_test(test_known_ids),
      cmocka_unit_test(test_special_tokens), cmocka_unit_test(test_streamed_text),
      cmocka_unit_test(test_merges),         cmocka_unit_test(test_words),
      cmocka_unit_test(test_classes),        cmocka_unit_test(test_cuts),
      cmocka_unit_test(test_memory),
  };
  return cmocka_run_group_tests(tests, setup_folder, teardown_folder);
}

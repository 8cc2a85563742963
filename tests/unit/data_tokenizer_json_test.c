// tokenizer.json: what is read from it, by known answers; what is damaged or unknown is refused by
// name.
#include "base/arena.h"
#include "data/normal.h"
#include "unit/failing.h"
#include "unit/tokenizer_support.h"

#define BYTE_LEVEL "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}"
#define LLAMA2                                                                            \
  "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", \"prepend\": "      \
  "\"\\u2581\"}, {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": " \
  "\"\\u2581\"}]}"
#define FALLBACK                                                                               \
  "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": " \
  "\"\\u2581\"}, \"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}, "    \
  "{\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}]}"

typedef struct file {
  const char *normalizer, *pre_tokenizer, *decoder, *processor, *added, *model, *vocabulary,
      *merges;
} file_t;

static const char * or (const char *text, const char *other) {
  return text ? text : other;
}

static void write_json(const file_t *f) {
  write_text(
      "tokenizer.json",
      shoal_arena_printf(
          &arena,
          "{\"version\": \"1.0\", \"normalizer\": %s, \"pre_tokenizer\": %s, \"decoder\": %s,\n"
          "\"post_processor\": %s, \"added_tokens\": %s,\n"
          "\"model\": {\"type\": \"BPE\", %s\"vocab\": %s, \"merges\": %s}}",
          or (f->normalizer, "null"), or (f->pre_tokenizer, "null"), or (f->decoder, "null"),
          or (f->processor, "null"), or (f->added, "[]"), or (f->model, ""),
          or (f->vocabulary, VOCABULARY),
          or (f->merges, "[\"b c\", \"a b\", [\"ab\", \"c\"], \"\\u0120 a\"]")));
}

static shoal_tokenizer_t *json(const file_t *f) {
  write_json(f);
  return opened(in_folder("tokenizer.json"));
}

// ---- what is read -------------------------------------------------------------------------------

static void test_byte_level(void **state) {
  (void)state;
  shoal_tokenizer_t *tokenizer = json(&(file_t){
      .pre_tokenizer = BYTE_LEVEL,
      .decoder = "{\"type\": \"ByteLevel\"}",
      .added = "[{\"id\": 10, \"content\": \"<|endoftext|>\", \"special\": true},"
               " {\"id\": 20, \"content\": \"<x>\", \"lstrip\": true, \"rstrip\": true}]",
      .processor = "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": "
                   "\"E\"}}, {\"Sequence\": {\"id\": \"A\"}}, {\"SpecialToken\": {\"id\": \"X\"}}],"
                   "\"special_tokens\": {\"E\": {\"ids\": [10]}, \"X\": {\"ids\": [20, 10]}}}"});
  assert_int_equal(shoal_tokenizer_size(tokenizer), 21);
  assert_int_equal(shoal_tokenizer_end(tokenizer), 10);
  assert_string_equal(ids_of(tokenizer, "ab \n<x>  abc<|endoftext|>", NULL), "4 20 0 5 10");
  assert_string_equal(ids_of(tokenizer, "ab", &(shoal_encode_options_t){.add_special = true}),
                      "10 4 20 10");
  assert_string_equal(text_of(tokenizer, (int32_t[]){4, 20, 7}, 3), "ab<x> a");
  int64_t length;
  assert_null(shoal_tokenizer_token(tokenizer, 15, &length));
  assert_int_equal(shoal_tokenizer_cut(tokenizer, "ab ab", 5), 0);  // <x> takes spaces along
  shoal_tokenizer_free(tokenizer);
}

static void test_whole_words(void **state) {
  (void)state;
  shoal_tokenizer_t *tokenizer =
      json(&(file_t){.pre_tokenizer = BYTE_LEVEL, .model = "\"ignore_merges\": true, "});
  assert_string_equal(ids_of(tokenizer, "abc aabc", NULL), "6 7 0 5");
  shoal_tokenizer_free(tokenizer);
}

// Texts of vocabulary and merges for spaces as U+2581, with tokens of bytes.
static const char SPACED[] =
    "{\"<unk>\": 0, \"<s>\": 1, \"<0xC3>\": 2, \"<0xA9>\": 3, \"\\u2581\": 4, \"a\": 5, \"b\": 6,"
    " \"\\u2581a\": 7, \"ab\": 8, \"<0x0A>\": 9}";
static const char SPACED_MERGES[] = "[\"\\u2581 a\", \"a b\"]";
#define FALLBACK_MODEL "\"unk_token\": \"<unk>\", \"fuse_unk\": true, \"byte_fallback\": true, "

static void test_fallback(void **state) {
  (void)state;
  const file_t file = {.normalizer = LLAMA2,
                       .decoder = FALLBACK,
                       .vocabulary = SPACED,
                       .merges = SPACED_MERGES,
                       .model = FALLBACK_MODEL,
                       .added = "[{\"id\": 1, \"content\": \"<s>\", \"special\": true}]"};
  shoal_tokenizer_t *tokenizer = json(&file);
  assert_string_equal(ids_of(tokenizer, "ab", NULL), "7 6");
  assert_string_equal(ids_of(tokenizer, " a\n", NULL), "4 7 9");
  assert_string_equal(ids_of(tokenizer, "é日日<s>a", NULL), "4 2 3 0 1 7");  // 日 has no bytes
  const int32_t ids[] = {7, 2, 3, 2, 6, 4, 3};
  assert_string_equal(text_of(tokenizer, ids, 3), "aé");
  // A run of bytes is characters as a whole, or a replacement for each byte.
  assert_string_equal(text_of(tokenizer, ids, 7),
                      "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
                      "b \xEF\xBF\xBD");
  assert_string_equal(stream_of(tokenizer, ids, 7),
                      "a||||\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
                      "b| ||\xEF\xBF\xBD");
  assert_int_equal(shoal_tokenizer_find(tokenizer, " a", 2), 7);
  assert_int_equal(shoal_tokenizer_begin(tokenizer), 1);
  assert_int_equal(shoal_tokenizer_cut(tokenizer, "a b", 3), 0);
  shoal_tokenizer_free(tokenizer);
}

static void test_metaspace(void **state) {
  (void)state;
  file_t file = {.pre_tokenizer =
                     "{\"type\": \"Metaspace\", \"replacement\": \"\\u2581\", "
                     "\"prepend_scheme\": \"first\", \"split\": true}",
                 .decoder =
                     "{\"type\": \"Metaspace\", \"replacement\": \"\\u2581\", "
                     "\"prepend_scheme\": \"first\", \"split\": true}",
                 .vocabulary = SPACED,
                 .merges = SPACED_MERGES,
                 .model = "\"unk_token\": \"<unk>\", ",
                 .added = "[{\"id\": 1, \"content\": \"<s>\", \"special\": true}]"};
  shoal_tokenizer_t *tokenizer = json(&file);
  assert_string_equal(ids_of(tokenizer, "ab ab<s>ab", NULL), "7 6 7 6 1 8");
  assert_string_equal(ids_of(tokenizer, "xx", NULL), "4 0 0");  // not fused
  assert_string_equal(text_of(tokenizer, (int32_t[]){7, 7, 6}, 3), "a ab");
  shoal_tokenizer_free(tokenizer);
}

static void check_nfc(const char *text, const char *expected) {
  shoal_buffer_t codes = {0}, out = {0};
  const shoal_allocator_t system = shoal_allocator_system();
  assert_true(shoal_nfc(system, text, (int64_t)strlen(text), &codes, &out));
  assert_true(shoal_buffer_add(system, &out, "", 1));
  assert_string_equal(out.data, expected);
  shoal_buffer_deinit(system, &codes);
  shoal_buffer_deinit(system, &out);
}

static void test_composed(void **state) {
  (void)state;
  check_nfc("", "");
  check_nfc("plain", "plain");
  check_nfc("ae\xCC\x81z", "a\xC3\xA9z");
  check_nfc("a\xCC\x87\xCC\xA3", "\xE1\xBA\xA1\xCC\x87");             // the dot below comes first
  check_nfc("e\xCC\x81\xCC\x81", "\xC3\xA9\xCC\x81");                 // the second is blocked
  check_nfc("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", "\xED\x95\x9C");  // Hangul, of three
  check_nfc("\xED\x95\x98\xE1\x86\xAB", "\xED\x95\x9C");
  check_nfc("\xE2\x84\xAB", "\xC3\x85");                  // the Angstrom sign
  check_nfc("\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC");  // is not put together again
  check_nfc(
      "\xCC\x81\xFF"
      "e\xCC\x81\xE6",
      "\xCC\x81\xFF\xC3\xA9\xE6");
  char many[2 * 3000 + 1] = "", sorted[2 * 3000 + 1] = "";
  for (int i = 0; i < 3000; ++i) {
    memcpy(many + 2 * i, i % 2 ? "\xCC\xA3" : "\xCC\x87", 3);
    memcpy(sorted + 2 * i, i < 1500 ? "\xCC\xA3" : "\xCC\x87", 3);
  }
  check_nfc(many, sorted);
  shoal_tokenizer_t *tokenizer =
      json(&(file_t){.pre_tokenizer = BYTE_LEVEL, .normalizer = "{\"type\": \"NFC\"}"});
  assert_string_equal(ids_of(tokenizer, "ae\xCC\x81", NULL), "0 8 9");
  assert_int_equal(shoal_tokenizer_cut(tokenizer, "ab ab", 5), 2);
  shoal_tokenizer_free(tokenizer);
}

// tokenizer_config.json has the last word on what begins and ends a text.
static void test_config(void **state) {
  (void)state;
  const char *added =
      "[{\"id\": 10, \"content\": \"<|endoftext|>\", \"special\": true},"
      " {\"id\": 20, \"content\": \"<x>\", \"special\": true}]";
  write_json(&(file_t){.pre_tokenizer = BYTE_LEVEL, .added = added});
  write_text("tokenizer_config.json",
             "{\"eos_token\": {\"content\": \"<x>\"}, \"bos_token\": null}");
  shoal_tokenizer_t *tokenizer = opened(folder);
  assert_int_equal(shoal_tokenizer_end(tokenizer), 20);
  assert_int_equal(shoal_tokenizer_begin(tokenizer), 10);
  shoal_tokenizer_free(tokenizer);
  unlink(in_folder("tokenizer_config.json"));
}

// ---- what is refused ----------------------------------------------------------------------------

#define REFUSED(code, part, ...)                                                                   \
  do {                                                                                             \
    write_json(&(file_t){__VA_ARGS__});                                                            \
    assert_error(code, part, shoal_tokenizer_open(in_folder("tokenizer.json"), NULL, &tokenizer)); \
    assert_null(tokenizer);                                                                        \
  } while (0)

static void test_unknown_steps(void **state) {
  (void)state;
  shoal_tokenizer_t *tokenizer;
  REFUSED(UNSUPPORTED, "normalizers of type 'Lowercase'",
          .normalizer = "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Lowercase\"}]}");
  REFUSED(UNSUPPORTED, "pre-tokenizers of type 'Whitespace'",
          .pre_tokenizer = "{\"type\": \"Whitespace\"}");
  REFUSED(UNSUPPORTED, "the pattern '\\d'",
          .pre_tokenizer =
              "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"\\\\d\"}, "
              "\"behavior\": \"Isolated\", \"invert\": false}");
  REFUSED(UNSUPPORTED, "decoders of type 'WordPiece'", .decoder = "{\"type\": \"WordPiece\"}");
  REFUSED(UNSUPPORTED, "post-processors of type 'BertProcessing'",
          .processor = "{\"type\": \"BertProcessing\"}");
  REFUSED(UNSUPPORTED, "'end_of_word_suffix'", .model = "\"end_of_word_suffix\": \"</w>\", ");
  REFUSED(UNSUPPORTED, "'dropout'", .model = "\"dropout\": 0.1, ");
  REFUSED(UNSUPPORTED, "'single_word'",
          .added = "[{\"id\": 1, \"content\": \"b\", \"single_word\": true}]");
  write_text("tokenizer.json", "{\"model\": {\"type\": \"Unigram\", \"vocab\": []}}");
  assert_error(UNSUPPORTED, "type 'Unigram'",
               shoal_tokenizer_open(in_folder("tokenizer.json"), NULL, &tokenizer));
}

static void test_damaged(void **state) {
  (void)state;
  shoal_tokenizer_t *tokenizer;
  REFUSED(INVALID_ARGUMENT, "'a' and 'b' have the same id, 0", .vocabulary = "{\"a\": 0, \"b\": 0}",
          .merges = "[]");
  REFUSED(INVALID_ARGUMENT, "ids are 0 to", .vocabulary = "{\"a\": -1}", .merges = "[]");
  REFUSED(INVALID_ARGUMENT, "ids are 0 to", .vocabulary = "{\"a\": 99999999999}", .merges = "[]");
  REFUSED(INVALID_ARGUMENT, "no whole number", .vocabulary = "{\"a\": \"0\"}", .merges = "[]");
  REFUSED(INVALID_ARGUMENT, "merge 1 joins 'a' and 'x', but 'x' is no token",
          .merges = "[\"a x\"]");
  REFUSED(INVALID_ARGUMENT, "but 'ca' is no token", .merges = "[\"c a\"]");
  REFUSED(INVALID_ARGUMENT, "but '' is no token", .merges = "[\"a \"]");  // would join for ever
  REFUSED(INVALID_ARGUMENT, "no merge of two tokens", .merges = "[\"a b c\"]");
  REFUSED(INVALID_ARGUMENT, "no merge of two tokens", .merges = "[[\"a\"]]");
  REFUSED(INVALID_ARGUMENT, "expected a list", .merges = "{}");
  REFUSED(INVALID_ARGUMENT, "not in the vocabulary", .model = "\"unk_token\": \"?\", ");
  REFUSED(INVALID_ARGUMENT, "have the same id, 4", .added = "[{\"id\": 4, \"content\": \"c\"}]");
  REFUSED(INVALID_ARGUMENT, "this is no token", .added = "[{\"id\": 4, \"content\": \"\"}]");
  REFUSED(INVALID_ARGUMENT, "ids are 0 to", .added = "[{\"id\": 999999999, \"content\": \"c\"}]");
  REFUSED(INVALID_ARGUMENT, "no special token 'E'",
          .processor =
              "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": "
              "{\"id\": \"E\"}}]}");
  REFUSED(INVALID_ARGUMENT, "no token's id",
          .processor =
              "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": "
              "\"E\"}}], \"special_tokens\": {\"E\": {\"ids\": [99]}}}");
  write_json(&(file_t){.pre_tokenizer = BYTE_LEVEL});
  const char *text;
  int64_t size;
  assert_ok(shoal_file_read(in_folder("tokenizer.json"), &arena, &text, &size));
  for (int64_t cut = 0; cut < size; cut += 31) {
    assert_ok(shoal_file_write(in_folder("tokenizer.json"), text, cut));
    assert_error(INVALID_ARGUMENT, "tokenizer.json",
                 shoal_tokenizer_open(in_folder("tokenizer.json"), NULL, &tokenizer));
  }
}

static void test_damaged_files(void **state) {
  (void)state;
  shoal_tokenizer_t *tokenizer;
  unlink(in_folder("tokenizer.json"));
  assert_error(NOT_FOUND, "no tokenizer in", shoal_tokenizer_open(folder, NULL, &tokenizer));
  assert_error(NOT_FOUND, "nowhere", shoal_tokenizer_open("nowhere", NULL, &tokenizer));
  static const struct {
    const char *vocabulary, *merges, *error;
  } cases[] = {{"{\"a\": 0", MERGES, "vocab.json:1"},
               {"[]", MERGES, "no vocabulary"},
               {"{\"a\": 0}", "#version: 0.2\na b\n", "merge 1 joins 'a' and 'b'"},
               {"{\"a\": 0}", "a\n", "merges.txt:1: 'a' is no merge"},
               {"{\"a\": 0}", "\na a a\n", "merges.txt:2"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    write_text("vocab.json", cases[i].vocabulary);
    write_text("merges.txt", cases[i].merges);
    assert_error(INVALID_ARGUMENT, cases[i].error, shoal_tokenizer_open(folder, NULL, &tokenizer));
  }
  write_text("tokenizer.json", "{");
  assert_int_equal(truncate(in_folder("tokenizer.json"), (off_t)1 << 40), 0);  // takes no disk
  assert_error(INVALID_ARGUMENT, "no tokenizer is so large",
               shoal_tokenizer_open(folder, NULL, &tokenizer));
  assert_ok(shoal_file_write(in_folder("merges.txt"), "a\0a\n", 4));
  assert_error(INVALID_ARGUMENT, "zero byte",
               shoal_tokenizer_open(in_folder("merges.txt"), NULL, &tokenizer));
}

// ---- memory -------------------------------------------------------------------------------------

static shoal_status_t use(shoal_allocator_t allocator, void *context) {
  (void)context;
  shoal_tokenizer_t *tokenizer = NULL;
  shoal_decoder_t *decoder = NULL;
  const int32_t *ids;
  const char *text;
  int64_t count, length;
  shoal_status_t status =
      shoal_tokenizer_open(in_folder("tokenizer.json"),
                           &(shoal_tokenizer_options_t){.allocator = allocator}, &tokenizer);
  if (!status) status = shoal_tokenizer_encode(tokenizer, "ab é<s>", -1, NULL, &ids, &count);
  if (!status) status = shoal_decoder_create(tokenizer, NULL, &decoder);
  for (int64_t i = 0; !status && i < count; ++i)
    status = shoal_decoder_add(decoder, ids[i], &text, &length);
  if (!status) status = shoal_decoder_finish(decoder, &text, &length);
  shoal_decoder_free(decoder);
  shoal_tokenizer_free(tokenizer);
  return status;
}

static void test_memory(void **state) {
  (void)state;
  write_json(&(file_t){.normalizer = LLAMA2,
                       .decoder = FALLBACK,
                       .vocabulary = SPACED,
                       .merges = SPACED_MERGES,
                       .model = FALLBACK_MODEL,
                       .added = "[{\"id\": 1, \"content\": \"<s>\", \"special\": true}]"});
  assert_true(check_failing_allocations(use, NULL, 0) > 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_byte_level),    cmocka_unit_test(test_whole_words),
      cmocka_unit_test(test_fallback),      cmocka_unit_test(test_metaspace),
      cmocka_unit_test(test_composed),      cmocka_unit_test(test_config),
      cmocka_unit_test(test_unknown_steps), cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_damaged_files), cmocka_unit_test(test_memory),
  };
  return cmocka_run_group_tests(tests, setup_folder, teardown_folder);
}

// Inside a tokenizer: what the files that read, encode and decode share.
//
//   tokenizer.c         opening by path; the vocabulary's questions
//   tokenizer_files.c   vocab.json and merges.txt
//   tokenizer_json.c    tokenizer.json: model, special tokens, what is put around a text
//   tokenizer_steps.c   tokenizer.json: normalizers, pre-tokenizers, decoders
//   tokenizer_build.c   tokens and merges as tables
//   tokenizer_split.c   where a text is cut into words
//   tokenizer_merge.c   a word's tokens (byte pair encoding), with a cache
//   tokenizer_encode.c  a text's tokens
//   tokenizer_decode.c  and back
#ifndef SHOAL_DATA_TOKENIZER_H_
#define SHOAL_DATA_TOKENIZER_H_

#include "base/index.h"
#include "base/json.h"
#include "data/buffer.h"
#include "shoal/tokenizer.h"

typedef struct tokenizer_token {
  const char *text;  // the bytes that it stands for; NULL: no token has this id
  const char *key;   // the same as it is looked for in words, where spaces may be written otherwise
  int32_t length, key_length;
  int16_t byte;  // of a token "<0x0A>" that stands for a byte; else -1
  bool special;
  bool word;  // may be found in words
} tokenizer_token_t;

// Two tokens that may be joined. The key is left << 32 | right, plus 1: 0 is free.
typedef struct tokenizer_pair {
  uint64_t key;
  int32_t rank, id;
} tokenizer_pair_t;

static inline uint64_t shoal_tokenizer_pair_hash(uint64_t key) {
  key *= UINT64_C(0x9E3779B97F4A7C15);
  return key ^ key >> 29;
}

// A token that is looked for in the text itself.
typedef struct tokenizer_added {
  const char *text;
  int32_t length, id;
  bool strip_left, strip_right, special, normalized;
} tokenizer_added_t;

typedef enum tokenizer_split {
  TOKENIZER_SPLIT_GPT2,
  TOKENIZER_SPLIT_LLAMA3,    // cl100k's too: numbers of up to 3 digits
  TOKENIZER_SPLIT_QWEN2,     // the same with single digits
  TOKENIZER_SPLIT_DIGITS,    // each digit apart
  TOKENIZER_SPLIT_NUMBERS,   // each run of digits apart
  TOKENIZER_SPLIT_METASPACE  // before each replaced space
} tokenizer_split_t;

typedef enum tokenizer_normal {
  TOKENIZER_NORMAL_PREPEND,  // `to` before a text that is not empty
  TOKENIZER_NORMAL_REPLACE,  // `from` by `to`
  TOKENIZER_NORMAL_NFC       // Unicode's form C
} tokenizer_normal_t;

typedef struct tokenizer_normalizer {
  tokenizer_normal_t kind;
  const char *from, *to;
} tokenizer_normalizer_t;

// What comes before the first word of a piece of text, unless the piece begins with it.
typedef enum tokenizer_prefix {
  TOKENIZER_PREFIX_NEVER,
  TOKENIZER_PREFIX_FIRST,  // of the piece at the start of the text
  TOKENIZER_PREFIX_ALWAYS
} tokenizer_prefix_t;

enum { TOKENIZER_STEPS = 8, TOKENIZER_CACHE_WORD = 48 };

typedef struct tokenizer_cache_slot {
  uint64_t hash;  // 0: free
  int32_t text, ids;
  int32_t length, count;
} tokenizer_cache_slot_t;

typedef struct tokenizer_cache {
  tokenizer_cache_slot_t *slots;
  char *texts;
  int32_t *ids;
  int32_t count, text_length, id_count;
} tokenizer_cache_t;

struct shoal_tokenizer {
  shoal_allocator_t allocator;
  shoal_arena_t arena;  // tables
  const char *name;     // of the file, for messages

  tokenizer_token_t *tokens;
  int64_t size;
  shoal_index_t texts;  // tokens by what they stand for
  tokenizer_pair_t *pairs;
  uint64_t pair_mask;
  int32_t byte_ids[256];     // the token of a byte, -1: none
  tokenizer_added_t *added;  // longest first
  int64_t added_count;
  bool added_first[2][256];        // [normalized][byte]: does such a token begin with it?
  int32_t begin, end, unknown;     // -1: none
  const int32_t *before, *behind;  // special tokens around a text
  int64_t before_count, behind_count;

  bool bytes;          // ids are bytes, and that is all
  bool byte_level;     // words are bytes; else characters, and
  bool byte_fallback;  // those that are no tokens become tokens of their bytes
  bool fuse_unknown, ignore_merges;
  tokenizer_normalizer_t normalizers[TOKENIZER_STEPS];
  int32_t normalizer_count;
  const char *metaspace;  // what stands for a space in words; NULL: a space does
  tokenizer_prefix_t prefix;
  tokenizer_split_t splits[TOKENIZER_STEPS];  // each cuts what the one before it gives
  int32_t split_count;

  const char *decode_space;  // what becomes a space; NULL: nothing does
  bool decode_bytes;         // runs of byte tokens become characters
  bool decode_drops;         // what stands for a space in the first token is dropped
  int64_t decode_strip;      // spaces dropped at the start

  // Only for the call that runs.
  shoal_buffer_t ids, normal, other, word;
  tokenizer_cache_t cache;
  shoal_decoder_t *decoder;
};

// ---- building: tokenizer_build.c ----------------------------------------------------------------

// Reads {"token": id, ...}. Room is made for ids up to `most` too, which come later.
SHOAL_MUST_USE shoal_status_t shoal_tokenizer_vocabulary(shoal_tokenizer_t *tokenizer,
                                                         const shoal_json_t *vocabulary,
                                                         int64_t most);
SHOAL_MUST_USE shoal_status_t shoal_tokenizer_reserve_pairs(shoal_tokenizer_t *tokenizer,
                                                            int64_t count);
// The merge of rank `rank`; `left` and `right` are as the vocabulary writes them.
SHOAL_MUST_USE shoal_status_t shoal_tokenizer_add_merge(shoal_tokenizer_t *tokenizer,
                                                        const shoal_json_t *vocabulary,
                                                        int64_t rank, const char *left,
                                                        const char *right);
// Room for so many, then one after the other; their ids are the vocabulary's or new ones.
SHOAL_MUST_USE shoal_status_t shoal_tokenizer_reserve_added(shoal_tokenizer_t *tokenizer,
                                                            int64_t count);
SHOAL_MUST_USE shoal_status_t shoal_tokenizer_add_added(shoal_tokenizer_t *tokenizer,
                                                        const tokenizer_added_t *added);
// When all tokens are there: indices, tokens of bytes, which tokens begin and end a text.
SHOAL_MUST_USE shoal_status_t shoal_tokenizer_finish(shoal_tokenizer_t *tokenizer);

// ---- reading ------------------------------------------------------------------------------------

SHOAL_MUST_USE shoal_status_t shoal_tokenizer_read_gpt2(shoal_tokenizer_t *tokenizer,
                                                        const char *vocabulary, const char *merges);
SHOAL_MUST_USE shoal_status_t shoal_tokenizer_read_json(shoal_tokenizer_t *tokenizer,
                                                        const char *path);
// A file's text, unless it is larger than any tokenizer's.
SHOAL_MUST_USE shoal_status_t shoal_tokenizer_read_text(const char *path, shoal_arena_t *arena,
                                                        const char **out_text, int64_t *out_size);
SHOAL_MUST_USE shoal_status_t shoal_tokenizer_read_steps(shoal_tokenizer_t *tokenizer,
                                                         const shoal_json_t *root);

// ---- encoding and decoding ----------------------------------------------------------------------

// The end of the word that begins at `at`.
int64_t shoal_tokenizer_word_end(const shoal_tokenizer_t *tokenizer, tokenizer_split_t split,
                                 const char *text, int64_t at, int64_t length);
// Appends the ids of a word.
SHOAL_MUST_USE shoal_status_t shoal_tokenizer_merge(shoal_tokenizer_t *tokenizer, const char *word,
                                                    int64_t length);
void shoal_tokenizer_cache_deinit(shoal_tokenizer_t *tokenizer);
SHOAL_MUST_USE shoal_status_t shoal_tokenizer_add_ids(shoal_tokenizer_t *tokenizer,
                                                      const int32_t *ids, int64_t count);

#endif  // SHOAL_DATA_TOKENIZER_H_

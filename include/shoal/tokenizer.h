// Shoal, data: from text to token ids and back.
//
// A tokenizer is read from the files that come with a model: GPT-2's vocab.json and merges.txt, or
// Hugging Face's tokenizer.json with a model of type BPE. It gives the ids that those libraries
// give; what it does not know how to do is refused by name when it is opened.
//
// A tokenizer keeps buffers and a cache of words: one thread at a time may encode and decode with
// it. Nothing here is collective; only opening reads files.
#ifndef SHOAL_TOKENIZER_H_
#define SHOAL_TOKENIZER_H_

#include "shoal/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_tokenizer shoal_tokenizer_t;

typedef struct shoal_tokenizer_options {
  shoal_allocator_t allocator;  // zero: the system's
} shoal_tokenizer_options_t;

// Opens a tokenizer. `path` is
//   "bytes"       256 ids, each a byte; no special tokens
//   a folder      with tokenizer.json, or vocab.json and merges.txt (GPT-2's own names,
//                 encoder.json and vocab.bpe, are known too); tokenizer_config.json beside them
//                 says which tokens begin and end a text
//   a file        any of those
// `options` may be NULL. NOT_FOUND: no such file; INVALID_ARGUMENT: it is damaged; UNSUPPORTED: it
// asks for something that Shoal does not do, which the message names.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_tokenizer_open(
    const char *path, const shoal_tokenizer_options_t *options, shoal_tokenizer_t **out_tokenizer);
SHOAL_API void shoal_tokenizer_close(shoal_tokenizer_t *tokenizer);  // NULL is allowed

// -------------------------------------------------------------------------------------------------
// The vocabulary
// -------------------------------------------------------------------------------------------------

// Ids are less than this: what a model's vocabulary must hold at least.
SHOAL_API int64_t shoal_tokenizer_size(const shoal_tokenizer_t *tokenizer);
// The tokens that end and begin a text ("<|endoftext|>", "<s>"); -1: there is none.
SHOAL_API int32_t shoal_tokenizer_end(const shoal_tokenizer_t *tokenizer);
SHOAL_API int32_t shoal_tokenizer_begin(const shoal_tokenizer_t *tokenizer);
// The token that stands for exactly these bytes (a length of -1: up to the terminating zero); -1:
// none does.
SHOAL_API int32_t shoal_tokenizer_find(const shoal_tokenizer_t *tokenizer, const char *text,
                                       int64_t length);
// The bytes that a token stands for, borrowed and not terminated by a zero; they need not be whole
// characters. NULL: no token has this id.
SHOAL_API const char *shoal_tokenizer_token(const shoal_tokenizer_t *tokenizer, int32_t id,
                                            int64_t *out_length);
// Is it a special token, one that stands for no text of the user's?
SHOAL_API bool shoal_tokenizer_is_special(const shoal_tokenizer_t *tokenizer, int32_t id);

// -------------------------------------------------------------------------------------------------
// Encoding
// -------------------------------------------------------------------------------------------------

typedef struct shoal_encode_options {
  bool plain;    // "<|endoftext|>" and other special tokens in the text are taken as plain text
  bool special;  // adds the special tokens that the model expects around a text, such as "<s>"
} shoal_encode_options_t;

// The ids of a text of `length` bytes (-1: up to its terminating zero). They are borrowed until the
// next call that encodes with this tokenizer. `options` may be NULL. Bytes that are no UTF-8 become
// tokens of single bytes where the vocabulary has such. INVALID_ARGUMENT where it has 512 MiB or
// more: see shoal_tokenizer_cut.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_tokenizer_encode(
    shoal_tokenizer_t *tokenizer, const char *text, int64_t length,
    const shoal_encode_options_t *options, const int32_t **out_ids, int64_t *out_count);

// How a long text is encoded in pieces: the largest number of bytes, less than `length`, such that
// the text up to there and the text from there on, each encoded by itself, give the ids of the
// whole one after the other - whatever follows. 0: there is no such place, or this tokenizer looks
// at texts as a whole.
SHOAL_API int64_t shoal_tokenizer_cut(const shoal_tokenizer_t *tokenizer, const char *text,
                                      int64_t length);

// -------------------------------------------------------------------------------------------------
// Decoding
// -------------------------------------------------------------------------------------------------

typedef struct shoal_decode_options {
  bool skip_special;  // leaves special tokens out
  bool bytes;         // bytes as they are; else what is no UTF-8 becomes U+FFFD
} shoal_decode_options_t;

// The text of ids, borrowed until the next call that decodes with this tokenizer, with a zero
// behind it that is not counted. `options` may be NULL. INVALID_ARGUMENT names an id that is no
// token.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_tokenizer_decode(
    shoal_tokenizer_t *tokenizer, const int32_t *ids, int64_t count,
    const shoal_decode_options_t *options, const char **out_text, int64_t *out_length);

// Decoding one id after the other, as they are generated: the texts of all calls, joined, are the
// text that shoal_tokenizer_decode gives. A character whose bytes are not all there is held back.
typedef struct shoal_decoder shoal_decoder_t;

// The tokenizer must outlive it; several may be open. `options` may be NULL.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_decoder_create(const shoal_tokenizer_t *tokenizer,
                                                             const shoal_decode_options_t *options,
                                                             shoal_decoder_t **out_decoder);
SHOAL_API void shoal_decoder_free(shoal_decoder_t *decoder);  // NULL is allowed
// What one more id adds to the text, borrowed until the next call, with a zero behind it.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_decoder_add(shoal_decoder_t *decoder, int32_t id,
                                                          const char **out_text,
                                                          int64_t *out_length);
// What was held back; the next id begins a new text.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_decoder_finish(shoal_decoder_t *decoder,
                                                             const char **out_text,
                                                             int64_t *out_length);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_TOKENIZER_H_

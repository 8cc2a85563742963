// Shoal, data: from text to token ids and back.
//
// A tokenizer is read from the files that come with a model: GPT-2's vocab.json and merges.txt, or
// Hugging Face's tokenizer.json with a model of type BPE (byte pair encoding). It gives the ids
// that those libraries give; a file that asks for something Shoal does not do is refused when it is
// opened, and the message names it.
//
// A tokenizer keeps buffers and a cache of words, so one thread at a time may encode and decode
// with it. All functions are *Not collective*; only opening reads files and blocks for them.
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

// Opens a tokenizer, which the caller frees. `path` is
//   "bytes"       256 ids, each a byte; no special tokens
//   a folder      with tokenizer.json, or vocab.json and merges.txt (GPT-2's own names,
//                 encoder.json and vocab.bpe, are known too); tokenizer_config.json beside them
//                 says which tokens begin and end a text
//   a file        any of those
// NULL options are the defaults. NOT_FOUND: there is no such file; INVALID_ARGUMENT: it is damaged;
// UNSUPPORTED: it asks for something that Shoal does not do.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_tokenizer_open(
    const char *path, const shoal_tokenizer_options_t *options, shoal_tokenizer_t **out_tokenizer);
SHOAL_API void shoal_tokenizer_free(shoal_tokenizer_t *tokenizer);  // NULL is allowed

// -------------------------------------------------------------------------------------------------
// The vocabulary
// -------------------------------------------------------------------------------------------------

// The size of the vocabulary: all ids are less than this. A model's vocabulary must be at least as
// large.
SHOAL_API int64_t shoal_tokenizer_size(const shoal_tokenizer_t *tokenizer);
// The ids of the tokens that end and that begin a text ("<|endoftext|>", "<s>"); -1: there is none.
SHOAL_API int32_t shoal_tokenizer_end(const shoal_tokenizer_t *tokenizer);
SHOAL_API int32_t shoal_tokenizer_begin(const shoal_tokenizer_t *tokenizer);
// The id of the token that stands for exactly these bytes (a length of -1: up to the terminating
// zero); -1: there is none.
SHOAL_API int32_t shoal_tokenizer_find(const shoal_tokenizer_t *tokenizer, const char *text,
                                       int64_t length);
// The bytes that a token stands for, borrowed and not terminated by a zero; they need not be whole
// characters. NULL: no token has this id.
SHOAL_API const char *shoal_tokenizer_token(const shoal_tokenizer_t *tokenizer, int32_t id,
                                            int64_t *out_length);
// Whether an id is a special token, one that does not stand for text.
SHOAL_API bool shoal_tokenizer_is_special(const shoal_tokenizer_t *tokenizer, int32_t id);

// -------------------------------------------------------------------------------------------------
// Encoding
// -------------------------------------------------------------------------------------------------

typedef struct shoal_encode_options {
  bool special_as_text;  // "<|endoftext|>" and the like in the text are encoded as any other text
  bool add_special;      // adds the special tokens that the model expects around a text ("<s>")
} shoal_encode_options_t;

// Encodes a text of `length` bytes (-1: up to its terminating zero). The ids are borrowed until the
// next call that encodes with this tokenizer. NULL options are the defaults. Bytes that are not
// UTF-8 become tokens of single bytes where the vocabulary has them. INVALID_ARGUMENT: the text is
// 512 MiB or longer; encode it in pieces (shoal_tokenizer_cut).
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_tokenizer_encode(
    shoal_tokenizer_t *tokenizer, const char *text, int64_t length,
    const shoal_encode_options_t *options, const int32_t **out_ids, int64_t *out_count);

// Where a long text can be cut to be encoded in pieces: the largest number of bytes, less than
// `length`, such that the ids of the text before that place, followed by the ids of the text after
// it, are the ids of the whole, whatever text comes later. 0: there is no such place, or this
// tokenizer needs the text as a whole.
SHOAL_API int64_t shoal_tokenizer_cut(const shoal_tokenizer_t *tokenizer, const char *text,
                                      int64_t length);

// -------------------------------------------------------------------------------------------------
// Decoding
// -------------------------------------------------------------------------------------------------

typedef struct shoal_decode_options {
  bool skip_special;  // leaves special tokens out
  bool bytes;         // gives bytes as they are; otherwise bytes that are not UTF-8 become U+FFFD
} shoal_decode_options_t;

// Decodes ids. The text is borrowed until the next call that decodes with this tokenizer; it is
// terminated by a zero, which is not counted. NULL options are the defaults. INVALID_ARGUMENT: no
// token has one of the ids.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_tokenizer_decode(
    shoal_tokenizer_t *tokenizer, const int32_t *ids, int64_t count,
    const shoal_decode_options_t *options, const char **out_text, int64_t *out_length);

// Decodes one id after the other, as a model generates them: the texts of all calls, joined, are
// the text that shoal_tokenizer_decode gives. A character is held back until all of its bytes are
// there.
typedef struct shoal_decoder shoal_decoder_t;

// Makes a decoder, which the caller frees before the tokenizer. A tokenizer may have
// several. NULL options are the defaults.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_decoder_create(const shoal_tokenizer_t *tokenizer,
                                                             const shoal_decode_options_t *options,
                                                             shoal_decoder_t **out_decoder);
SHOAL_API void shoal_decoder_free(shoal_decoder_t *decoder);  // NULL is allowed
// Gives what one more id adds to the text, possibly nothing: borrowed until the next call with this
// decoder and terminated by a zero. INVALID_ARGUMENT: no token has this id.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_decoder_add(shoal_decoder_t *decoder, int32_t id,
                                                          const char **out_text,
                                                          int64_t *out_length);
// Gives what was held back, in the same way; the next id begins a new text.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_decoder_finish(shoal_decoder_t *decoder,
                                                             const char **out_text,
                                                             int64_t *out_length);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_TOKENIZER_H_

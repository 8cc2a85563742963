// From ids to text, one id after the other. What may still change is held back: bytes that begin a
// character, and runs of byte tokens ("<0xE2>"), which are characters only as a whole.
#include <string.h>

#include "base/status.h"
#include "data/tokenizer.h"
#include "data/unicode.h"

struct shoal_decoder {
  const shoal_tokenizer_t *t;
  shoal_allocator_t allocator;
  shoal_decode_options_t options;
  shoal_buffer_t held, text;
  int64_t strip;  // spaces still to be dropped at the start
  bool started;   // there was an id
  bool run;       // what is held is a run of byte tokens
};

static const char REPLACEMENT[] = "\xEF\xBF\xBD";

static void begin(shoal_decoder_t *d) {
  d->held.length = 0;
  d->strip = d->t->decode_strip;
  d->started = d->run = false;
}

shoal_status_t shoal_decoder_create(const shoal_tokenizer_t *t,
                                    const shoal_decode_options_t *options,
                                    shoal_decoder_t **out_decoder) {
  *out_decoder = NULL;
  shoal_decoder_t *decoder = t->allocator.alloc(t->allocator.self, sizeof *decoder);
  if (!decoder) return SHOAL_OOM();
  *decoder = (shoal_decoder_t){.t = t, .allocator = t->allocator};
  if (options) decoder->options = *options;
  begin(decoder);
  *out_decoder = decoder;
  return NULL;
}

void shoal_decoder_free(shoal_decoder_t *decoder) {
  if (!decoder) return;
  const shoal_allocator_t allocator = decoder->allocator;
  shoal_buffer_deinit(allocator, &decoder->held);
  shoal_buffer_deinit(allocator, &decoder->text);
  allocator.free(allocator.self, decoder);
}

// Text that is final, but for spaces at the start.
static bool put(shoal_decoder_t *d, const char *text, int64_t length) {
  for (; d->strip > 0 && length > 0 && *text == ' '; --d->strip, ++text) --length;
  if (length > 0) d->strip = 0;
  return shoal_buffer_add(d->allocator, &d->text, text, length);
}

// Bytes that may be no characters: as they are, or what is none replaced. Returns how many at the
// end begin a character that is not complete; -1: memory is short.
static int64_t put_bytes(shoal_decoder_t *d, const char *bytes, int64_t length, bool last) {
  if (d->options.bytes) return put(d, bytes, length) ? 0 : -1;
  int64_t start = 0, at = 0;
  while (at < length) {
    const shoal_character_t c = shoal_utf8_read(bytes + at, length - at);
    if (c.cut && !last) break;
    if (!c.valid &&
        (!put(d, bytes + start, at - start) || !put(d, REPLACEMENT, sizeof REPLACEMENT - 1)))
      return -1;
    at += c.length;
    if (!c.valid) start = at;
  }
  return put(d, bytes + start, at - start) ? length - at : -1;
}

// A run of byte tokens is over: characters if all of it is, else a replacement for each byte.
static bool put_run(shoal_decoder_t *d) {
  const char *bytes = d->held.data;
  const int64_t length = d->held.length;
  d->held.length = 0;
  d->run = false;
  bool valid = true;
  for (int64_t at = 0; at < length && valid;) {
    const shoal_character_t c = shoal_utf8_read(bytes + at, length - at);
    valid = c.valid;
    at += c.length;
  }
  if (valid || d->options.bytes) return put(d, bytes, length);
  for (int64_t i = 0; i < length; ++i) {
    if (!put(d, REPLACEMENT, sizeof REPLACEMENT - 1)) return false;
  }
  return true;
}

// The first token, without what stands for a space in it.
static bool put_first(shoal_decoder_t *d, const tokenizer_token_t *token) {
  const int64_t skip = (int64_t)strlen(d->t->decode_space);
  for (int64_t at = 0; at < token->key_length;) {
    if (token->key_length - at >= skip &&
        memcmp(token->key + at, d->t->decode_space, (size_t)skip) == 0) {
      at += skip;
    } else if (!put(d, token->key + at++, 1)) {
      return false;
    }
  }
  return true;
}

static bool add_token(shoal_decoder_t *d, const tokenizer_token_t *token) {
  const shoal_tokenizer_t *t = d->t;
  const bool first = !d->started;
  d->started = true;
  if (token->byte >= 0) {
    const char byte = (char)token->byte;
    d->run = true;
    return shoal_buffer_add(d->allocator, &d->held, &byte, 1);
  }
  if (d->run && !put_run(d)) return false;
  if (!t->byte_level) {
    return first && t->decode_drops ? put_first(d, token) : put(d, token->text, token->length);
  }
  if (!d->held.length) {
    const int64_t rest = put_bytes(d, token->text, token->length, false);
    return rest >= 0 &&
           shoal_buffer_add(d->allocator, &d->held, token->text + token->length - rest, rest);
  }
  if (!shoal_buffer_add(d->allocator, &d->held, token->text, token->length)) return false;
  const int64_t rest = put_bytes(d, d->held.data, d->held.length, false);
  if (rest < 0) return false;
  memmove(d->held.data, d->held.data + d->held.length - rest, (size_t)rest);
  d->held.length = rest;
  return true;
}

static shoal_status_t add_id(shoal_decoder_t *d, int32_t id) {
  const shoal_tokenizer_t *t = d->t;
  if (id < 0 || id >= t->size || !t->tokens[id].text) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "is it the tokenizer that the ids were made with?",
                            "id %d is no token of %s, whose ids are less than %lld", id, t->name,
                            (long long)t->size);
  }
  if (d->options.skip_special && t->tokens[id].special) return NULL;
  return add_token(d, &t->tokens[id]) ? NULL : SHOAL_OOM();
}

static shoal_status_t end(shoal_decoder_t *d) {
  const bool done = d->run || put_bytes(d, d->held.data, d->held.length, true) >= 0;
  if (!done || (d->run && !put_run(d))) return SHOAL_OOM();
  begin(d);
  return NULL;
}

static shoal_status_t give(shoal_decoder_t *d, const char **out_text, int64_t *out_length) {
  if (!shoal_buffer_reserve(d->allocator, &d->text, 1)) return SHOAL_OOM();
  d->text.data[d->text.length] = 0;
  *out_text = d->text.data;
  *out_length = d->text.length;
  return NULL;
}

shoal_status_t shoal_decoder_add(shoal_decoder_t *decoder, int32_t id, const char **out_text,
                                 int64_t *out_length) {
  decoder->text.length = 0;
  SHOAL_RETURN_IF_ERROR(add_id(decoder, id));
  return give(decoder, out_text, out_length);
}

shoal_status_t shoal_decoder_finish(shoal_decoder_t *decoder, const char **out_text,
                                    int64_t *out_length) {
  decoder->text.length = 0;
  SHOAL_RETURN_IF_ERROR(end(decoder));
  return give(decoder, out_text, out_length);
}

shoal_status_t shoal_tokenizer_decode(shoal_tokenizer_t *t, const int32_t *ids, int64_t count,
                                      const shoal_decode_options_t *options, const char **out_text,
                                      int64_t *out_length) {
  *out_text = NULL;
  *out_length = 0;
  if (!t->decoder) SHOAL_RETURN_IF_ERROR(shoal_decoder_create(t, NULL, &t->decoder));
  shoal_decoder_t *decoder = t->decoder;
  decoder->options = options ? *options : (shoal_decode_options_t){0};
  decoder->text.length = 0;
  begin(decoder);
  for (int64_t i = 0; i < count; ++i) SHOAL_RETURN_IF_ERROR(add_id(decoder, ids[i]));
  SHOAL_RETURN_IF_ERROR(end(decoder));
  return give(decoder, out_text, out_length);
}

// Shoal, generate: continues prompts with a decoder model, token by token.
//
// The session's model must have the graphs "prefill" and "decode" of R rows (shoal_zoo_build builds
// them for decoders of the zoo):
//   prefill   ids i32 [R, T], lengths i32 [R]     -> logits [R, V] after each row's last token
//   decode    ids i32 [R, 1], positions i32 [R]   -> logits [R, V] after the token at its position
// The keys and values of earlier tokens (the KV cache) stay on the ranks, in the states
// ".../cache_k" and ".../cache_v", sharded as the plan says. A prompt has at most T tokens. Prompt
// and continuation together have at most as many tokens as the cache has positions.
//
// Where an encoder reads the prompt (t5), the text is an answer of its own. Prefill keeps the keys
// and values of the encoder in the states ".../memory_k" and ".../memory_v", begins the answer and
// gives the logits of its first token; decode takes positions in the answer, whose first token
// stands at 1. The answer has at most as many tokens as the cache has positions, and the prompt as
// many as prefill takes.
//
//   shoal_tokens_t prompt = {ids, 5}, *texts;
//   shoal_generate_options_t options = {.max_tokens = 50, .temperature = 0.8};
//   status = shoal_generate(session, 1, &prompt, &options, arena, &texts);
//
// A draw depends on the logits, the seed, the number of the prompt and the number of the token, and
// on nothing else: not on the mesh, on R, or on other prompts.
#ifndef SHOAL_GENERATE_H_
#define SHOAL_GENERATE_H_

#include "shoal/session.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_tokens {
  const int32_t *ids;
  int64_t count;
} shoal_tokens_t;

// Called for every token that was drawn, on every rank in the same order: `token` is number
// `index`, counted from 0, of the continuation of prompt number `prompt`. Returns false to end this
// continuation; all ranks must return the same.
typedef bool (*shoal_token_fn_t)(void *self, int64_t prompt, int64_t index, int32_t token);

// All zero is greedy: the likeliest token each time, until the cache is full.
typedef struct shoal_generate_options {
  shoal_allocator_t allocator;  // of working memory; zero: the system's
  int64_t max_tokens;           // tokens of a continuation at most; 0: until the cache is full
  double temperature;  // logits are divided by it; 0: the likeliest token, of equals the lowest id
  int64_t top_k;       // only tokens at least as likely as the k-th likeliest; 0: all
  double top_p;        // only the likeliest tokens whose probabilities add up to this; 0 or 1: all
  double repetition;   // repetition penalty: above 1, tokens that occurred are less likely; 0: 1
  uint64_t seed;
  int64_t stop_count;
  const int32_t *stops;    // tokens that end a continuation; they are part of it
  shoal_token_fn_t token;  // NULL: none
  void *token_self;
} shoal_generate_options_t;

// Continues `count` prompts, R of them at a time. Prompts may differ in length; each has at least
// one token. *out_texts, in the arena, has the continuation of each prompt, without the prompt. All
// ranks must give the same prompts and options; NULL options are the defaults. *Collective*,
// blocking; an error on one rank is an error on all. NOT_FOUND: the session does not have the two
// graphs; INVALID_ARGUMENT: a prompt does not fit, has an id that the model does not know, or an
// option is out of range; MISMATCH: a logit is NaN.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_generate(shoal_session_t *session, int64_t count,
                                                       const shoal_tokens_t *prompts,
                                                       const shoal_generate_options_t *options,
                                                       shoal_arena_t *arena,
                                                       shoal_tokens_t **out_texts);

// Draws one token, for loops of your own: `logits` is [vocabulary], of any float type. `before`,
// the tokens so far, is read for options.repetition only and may be NULL. The draw depends on the
// seed, `prompt` and `index`, as above; the options `max_tokens`, `stops` and `token` are not read.
// Working memory is from options.allocator and freed before the call returns. *Not collective*, not
// blocking. Errors as above.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_sample(const shoal_tensor_t *logits,
                                                     const shoal_tokens_t *before,
                                                     const shoal_generate_options_t *options,
                                                     int64_t prompt, int64_t index,
                                                     int32_t *out_token);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_GENERATE_H_

// Shoal, generate: continues texts of tokens with a decoder, token by token.
//
// The session's model has the graphs "prefill" and "decode" (zoo.h builds them: shoal_zoo_build),
// of R rows:
//   prefill   ids i32 [R, T], lengths i32 [R]     -> logits [R, V] behind each row's last token
//   decode    ids i32 [R, 1], positions i32 [R]   -> logits [R, V] behind the token at its position
// Keys and values of earlier tokens stay in states ".../cache_k" and ".../cache_v" on the ranks,
// cut as the plan cuts them. A prompt has up to T tokens; with its text, up to as many as are
// remembered.
//
//   shoal_tokens_t prompt = {ids, 5}, *texts;
//   status = shoal_generate(session, 1, &prompt,
//                           &(shoal_generate_options_t){.most = 50, .temperature = 0.8}, arena,
//                           &texts);
//
// What is drawn depends on the logits, the seed, the number of the prompt and the number of the
// token, and on nothing else: not on the mesh, on R, or on other prompts.
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

// A token that was drawn: of which prompt, and the how-manyth behind it, from 0 on. False ends this
// text. Called on every rank, in the same order; all must answer alike.
typedef bool (*shoal_token_fn_t)(void *self, int64_t prompt, int64_t index, int32_t token);

// All zero: the likeliest token each time, until the model's positions are used up.
typedef struct shoal_generate_options {
  int64_t most;        // tokens behind a prompt; 0: as many as the model has positions for
  double temperature;  // logits are divided by it; 0: the likeliest token, the first of equals
  int64_t top_k;       // only tokens at least as likely as the k-th likeliest; 0: all
  double top_p;        // only the likeliest tokens that make up this share; 0 or 1: all
  double repetition;   // above 1: tokens that are there already are made less likely; 0: 1
  uint64_t seed;
  int64_t stop_count;
  const int32_t *stops;    // tokens that end a text; they are part of it
  shoal_token_fn_t token;  // NULL: none
  void *token_self;
} shoal_generate_options_t;

// Continues `count` prompts of any lengths that fit, each at least one token, R of them at a time.
// *out_texts, in the arena, are the tokens behind each prompt. All ranks give the same prompts and
// options. NULL options are the default. *Collective*, blocking; an error on one rank is an error
// on all. NOT_FOUND: the session has no such graphs.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_generate(shoal_session_t *session, int64_t count,
                                                       const shoal_tokens_t *prompts,
                                                       const shoal_generate_options_t *options,
                                                       shoal_arena_t *arena,
                                                       shoal_tokens_t **out_texts);

// The same choice for a single row, for loops of your own: draws from `count` logits behind the
// tokens in `before` (looked at for `repetition` only). `prompt` and `index` number the draw. Needs
// memory of the arena for some orders. Not collective.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_sample(const shoal_tensor_t *logits,
                                                     const shoal_tokens_t *before,
                                                     const shoal_generate_options_t *options,
                                                     int64_t prompt, int64_t index,
                                                     shoal_arena_t *arena, int32_t *out_token);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_GENERATE_H_

// Drawing a token with scratch memory that stays from one draw to the next. Private to generate/.
#ifndef SHOAL_GENERATE_SAMPLE_H_
#define SHOAL_GENERATE_SAMPLE_H_

#include "shoal/generate.h"

// shoal_sample with an arena, which the caller clears between draws; options are not NULL.
SHOAL_MUST_USE shoal_status_t shoal_sample_in(shoal_arena_t *arena, const shoal_tensor_t *logits,
                                              const shoal_tokens_t *before,
                                              const shoal_generate_options_t *options,
                                              int64_t prompt, int64_t index, int32_t *out_token);

#endif  // SHOAL_GENERATE_SAMPLE_H_

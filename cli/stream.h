// Texts that are continued together, written one after the other: the first as its tokens come,
// then what there is of the second, which goes on as its tokens come, and so on.
#ifndef SHOAL_CLI_STREAM_H_
#define SHOAL_CLI_STREAM_H_

#include <stdio.h>

#include "shoal/generate.h"
#include "shoal/tokenizer.h"

typedef struct cli_stream_kept cli_stream_kept_t;

typedef struct cli_stream {
  FILE *out;
  shoal_arena_t *arena;
  shoal_decoder_t *decoder;
  int64_t line_count, prompt_count;
  const char **lines;  // what is continued; those that are empty are no prompts and stay empty
  bool answers;        // texts are written alone, not behind what they continue
  // Where it is:
  int64_t line, prompt;     // that is being written
  int64_t written;          // of its tokens
  cli_stream_kept_t *kept;  // of each prompt: tokens that wait for their turn; NULL: none yet
} cli_stream_t;

// One more token of a prompt; `last`: none follows.
SHOAL_MUST_USE shoal_status_t cli_stream_token(cli_stream_t *stream, int64_t prompt, int32_t token,
                                               bool last);
// All that is not written yet of the texts, which are complete.
SHOAL_MUST_USE shoal_status_t cli_stream_finish(cli_stream_t *stream, const shoal_tokens_t *texts);

#endif  // SHOAL_CLI_STREAM_H_

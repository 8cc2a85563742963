// What a checkpoint says of the model whose weights it holds: for `eval`, `generate` and `convert`,
// and for `train` that goes on from one or begins with its weights. The checkpoint's settings are
// the model's where nothing else is said; one that is given and would make another model of the
// same weights is refused.
#ifndef SHOAL_CLI_PAST_H_
#define SHOAL_CLI_PAST_H_

#include "data.h"
#include "models.h"

typedef struct cli_past {
  const char *path;  // of the checkpoint; NULL: there is none
  // what `train` has noted; NULL: nothing
  const char *family, *settings, *tokenizer, *resize, *mean, *deviation;
} cli_past_t;

// The checkpoint at `path`: a folder, its file, or the newest step-N of a folder. In the arena.
SHOAL_MUST_USE shoal_status_t cli_past_open(const char *path, shoal_arena_t *arena,
                                            cli_past_t *out_past);
// The newest step-N of a folder; none, if it has none or is not there.
SHOAL_MUST_USE shoal_status_t cli_past_latest(const char *folder, shoal_arena_t *arena,
                                              cli_past_t *out_past);
// Has options->known say the checkpoint's settings, unless a preset or a file says others. An error
// where it holds another family of models.
SHOAL_MUST_USE shoal_status_t cli_past_know(const cli_past_t *past, const char *name,
                                            cli_model_options_t *options);
// Refuses a model, created by that name, that would compute something else with the weights. How
// long texts are, how large pictures, and what counts in training alone may differ. `begins`: a new
// run begins with the weights, and may have others besides; loading them says which.
SHOAL_MUST_USE shoal_status_t cli_past_check(const cli_past_t *past, const char *name,
                                             const shoal_zoo_t *zoo, bool begins,
                                             shoal_arena_t *arena);
// Has images resized and their pixels shifted and scaled as in training, where nothing else is
// said.
void cli_past_images(const cli_past_t *past, cli_data_options_t *options);

// Of `eval`, `generate`, `convert` and `train --load`, which read moving averages where a
// checkpoint has them.
#define CLI_RAW_HELP "the parameters, where the checkpoint has moving averages of them"
// Says on stderr which of the two was read; nothing where there are no averages.
void cli_past_say_averages(int64_t averages, bool raw);

#endif  // SHOAL_CLI_PAST_H_

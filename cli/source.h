// Where `shoal train` gets its batches: bytes of a text for gpt, made-up classes for mlp and cnn. A
// batch is a function of its number, so every rank makes the same one and a resumed run goes on
// where it stopped.
#ifndef SHOAL_CLI_SOURCE_H_
#define SHOAL_CLI_SOURCE_H_

#include "shoal/session.h"

typedef struct cli_source cli_source_t;

// `path` is the text for models with inputs "ids" and "labels"; others need none.
SHOAL_MUST_USE shoal_status_t cli_source_open(const shoal_model_t *model, const char *path,
                                              uint64_t seed, cli_source_t **out_source);
void cli_source_close(cli_source_t *source);
// Feeds batch `number` to graph inputs of the session.
SHOAL_MUST_USE shoal_status_t cli_source_feed(cli_source_t *source, int64_t number,
                                              shoal_session_t *session);
// What one batch counts: "tokens" or "samples".
const char *cli_source_unit(const cli_source_t *source);
int64_t cli_source_count(const cli_source_t *source);

#endif  // SHOAL_CLI_SOURCE_H_

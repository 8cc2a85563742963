// The sub-commands of the program `shoal`: one function and one file each, listed in commands.inc.
// argv holds what follows the sub-command's name. What it needs until it is done lies in `arena`.
// Results go to `out`, talk to stderr; only main prints errors. Commands use public headers only.
#ifndef SHOAL_CLI_H_
#define SHOAL_CLI_H_

#include <stdio.h>

#include "shoal/base.h"

#define SHOAL_COMMAND(name, arguments, doc) \
  SHOAL_MUST_USE shoal_status_t cli_##name(int argc, char **argv, shoal_arena_t *arena, FILE *out);
#include "commands.inc"
#undef SHOAL_COMMAND

// The options of `train`, which has nearly all that others have: an option that a command does not
// know may be one of them.
struct shoal_option;
const struct shoal_option *cli_train_options(int64_t *out_count);

#endif  // SHOAL_CLI_H_

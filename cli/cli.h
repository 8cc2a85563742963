// The sub-commands of the program `shoal`: one function and one file each, listed in commands.inc.
// argv holds what follows the sub-command's name. Results go to `out`, talk to stderr; only main
// prints errors.
#ifndef SHOAL_CLI_H_
#define SHOAL_CLI_H_

#include <stdio.h>

#include "shoal/base.h"

#define SHOAL_COMMAND(name, arguments, doc) \
  SHOAL_MUST_USE shoal_status_t cli_##name(int argc, char **argv, FILE *out);
#include "commands.inc"
#undef SHOAL_COMMAND

#endif  // SHOAL_CLI_H_

// Tables of `shoal explain`: what a rank keeps and sends in a step of training.
#ifndef SHOAL_CLI_ACCOUNTS_H_
#define SHOAL_CLI_ACCOUNTS_H_

#include <stdio.h>

#include "shoal/lower.h"

enum { CLI_SHOW_ALL, CLI_SHOW_VALUES, CLI_SHOW_COMMUNICATION, CLI_SHOW_MEMORY };

typedef struct cli_accounts {
  const shoal_plan_t *plan;
  const shoal_program_t *program;
  int32_t rank;
  shoal_arena_t *arena;
  FILE *out;
} cli_accounts_t;

// What is sent, by pass, collective and axis; with `values`, by value too. Layers that repeat are
// one line, of their sums.
SHOAL_MUST_USE shoal_status_t cli_account_traffic(const cli_accounts_t *accounts, bool values);
// What the arenas hold, by layer and kind.
SHOAL_MUST_USE shoal_status_t cli_account_memory(const cli_accounts_t *accounts);
// What each layer keeps for its backward pass, beside its states, on the ranks of a class.
SHOAL_MUST_USE shoal_status_t cli_account_layers(const cli_accounts_t *accounts, int64_t index);
// Values with their layouts and bytes on the rank.
SHOAL_MUST_USE shoal_status_t cli_account_values(const cli_accounts_t *accounts);
// All that `show` asks for as one JSON object, nothing folded.
SHOAL_MUST_USE shoal_status_t cli_account_json(const cli_accounts_t *accounts, int show);

#endif  // SHOAL_CLI_ACCOUNTS_H_

// From command-line options to a plan: what `plan`, `explain` and `train` share.
#ifndef SHOAL_CLI_PLANNING_H_
#define SHOAL_CLI_PLANNING_H_

#include <stdio.h>

#include "models.h"
#include "shoal/options.h"
#include "shoal/planners.h"
#include "shoal/program.h"
#include "shoal/session.h"
#include "shoal/simulate.h"

typedef struct cli_plan_options {
  int64_t ranks, memory;
  const char *strategy, *mesh, *plan, *cluster, *layouts, *cache, *schedule;
  const char *recompute, *offload, *compress;
  shoal_words_t decide;
} cli_plan_options_t;

// Rows for an option table of a struct that has a `cli_plan_options_t planning` member.
#define CLI_PLAN_OPTION(type, kind_, field, value_, doc_, ...)                                 \
  {                                                                                            \
    .name = #field, .kind = SHOAL_OPTION_##kind_,                                              \
    .offset = offsetof(type, planning) + offsetof(cli_plan_options_t, field), .value = value_, \
    .doc = doc_, __VA_ARGS__                                                                   \
  }
#define CLI_PLAN_OPTIONS(type)                                                                     \
  CLI_PLAN_OPTION(type, INT, ranks, "1", "number of ranks", .letter = 'n',                         \
                  .heading = "Ranks and plan"),                                                    \
      CLI_PLAN_OPTION(type, STRING, strategy, NULL,                                                \
                      "auto, data, tensor+zero1: see `shoal strategies`", .argument = "NAME"),     \
      CLI_PLAN_OPTION(type, STRING, mesh, NULL, "axes of ranks: data=2,tensor=2,micro=3",          \
                      .argument = "WORD"),                                                         \
      CLI_PLAN_OPTION(type, STRING, plan, NULL, "plan to use instead of a strategy",               \
                      .argument = "FILE"),                                                         \
      CLI_PLAN_OPTION(type, STRING, cluster, NULL,                                                 \
                      "cluster file or preset (a100x8:16) to plan for", .argument = "FILE"),       \
      CLI_PLAN_OPTION(type, SIZE, memory, NULL,                                                    \
                      "memory that a rank may use, like 512M: a plan that needs more is refused"), \
      CLI_PLAN_OPTION(type, STRING, layouts, NULL,                                                 \
                      "layouts on top of the strategy: 'fc1/weight=tensor:1;x=data:0'",            \
                      .argument = "WORD"),                                                         \
      CLI_PLAN_OPTION(type, STRINGS, decide, NULL,                                                 \
                      "'KIND PATTERN CHOICE': a decision of docs/plan.md; may be repeated",        \
                      .argument = "WORDS"),                                                        \
      CLI_PLAN_OPTION(type, STRING, schedule, NULL,                                                \
                      "order of stages and micro-batches: 1f1b, zb-h1 ..., or a table in a file",  \
                      .argument = "NAME|FILE"),                                                    \
      CLI_PLAN_OPTION(type, STRING, recompute, NULL,                                               \
                      "what the backward pass computes again: block, attention, or patterns of "   \
                      "nodes",                                                                     \
                      .argument = "WORD"),                                                         \
      CLI_PLAN_OPTION(                                                                             \
          type, STRING, offload, NULL,                                                             \
          "kept in host memory or a file: optimizer=host,weights=file,activations=file",           \
          .argument = "WORDS"),                                                                    \
      CLI_PLAN_OPTION(type, STRING, compress, NULL,                                                \
                      "type in which gradients are exchanged: none, bf16, f16; f16:1024: scaled",  \
                      .argument = "NAME"),                                                         \
      CLI_PLAN_OPTION(type, STRING, cache, NULL,                                                   \
                      "folder of plans made before; '' for none (default ~/.cache/shoal/plans)",   \
                      .argument = "DIR")

// Defaults, environment, command line; prints the help when the table's last row, `help`, is asked
// for (the caller's struct has it as a bool: nothing else to do then).
SHOAL_MUST_USE shoal_status_t cli_options(const char *command, const char *arguments,
                                          const shoal_option_t *table, int64_t count, int argc,
                                          char **argv, shoal_arena_t *arena, void *options,
                                          shoal_words_t *out_words, FILE *out);
// Is there exactly one word, the model?
SHOAL_MUST_USE shoal_status_t cli_one_model(const shoal_words_t *words);
// A plan file excludes the options that make a plan.
SHOAL_MUST_USE shoal_status_t cli_plan_check(const cli_plan_options_t *options);
// Parses "pattern=layout;pattern=layout".
SHOAL_MUST_USE shoal_status_t cli_layouts_parse(const char *text, shoal_arena_t *arena,
                                                int64_t *out_count,
                                                const shoal_intent_entry_t **out_entries);
// Parses the --decide options, 'KIND PATTERN CHOICE' each, and --schedule.
SHOAL_MUST_USE shoal_status_t cli_decisions_parse(const cli_plan_options_t *options,
                                                  shoal_arena_t *arena, int64_t *out_count,
                                                  const shoal_intent_decision_t **out_decisions);
// "approximate: ..." for everything that the plan computes otherwise than one device would.
SHOAL_MUST_USE shoal_status_t cli_print_approximate(const shoal_plan_t *plan, shoal_arena_t *arena,
                                                    FILE *out);
shoal_choices_t cli_choices(const cli_plan_options_t *options);
// What of a session's options these decide; texts lie in the arena.
SHOAL_MUST_USE shoal_status_t cli_session_options(const cli_plan_options_t *options,
                                                  shoal_world_t *world, shoal_arena_t *arena,
                                                  shoal_parallelize_options_t *out_options);
// A zoo model, planned and lowered: what `plan` and `explain` look at. Zeroed ones may be freed.
typedef struct cli_planned {
  shoal_model_t *model;
  shoal_rules_t *rules;
  shoal_plan_t *plan;
  shoal_program_t *program;  // checked
} cli_planned_t;
// Says on stderr when a plan file was for another model, rules or world. Free it also after an
// error.
SHOAL_MUST_USE shoal_status_t cli_planned_create(const char *model,
                                                 const cli_model_options_t *model_options,
                                                 const cli_plan_options_t *options,
                                                 shoal_arena_t *arena, cli_planned_t *out_planned);
void cli_planned_free(cli_planned_t *planned);
// The folder of plans made before, as the options say or by default; "" for none.
const char *cli_cache(const cli_plan_options_t *options, shoal_arena_t *arena);
// Says on stderr what became of it.
void cli_say_cache(const shoal_cache_note_t *note);
// Says on stderr that only the intent of a plan file could be used, and what --decide added to it.
void cli_say_rebuilt(const cli_plan_options_t *options, bool rebuilt);
// Says on stderr which ranks no mesh of the plan has.
SHOAL_MUST_USE shoal_status_t cli_say_idle(const shoal_plan_t *plan, int64_t ranks,
                                           shoal_arena_t *arena);

// Plans the model as the options say. *out_rebuilt: the plan file was for something else.
SHOAL_MUST_USE shoal_status_t cli_plan_make(const cli_plan_options_t *options,
                                            const shoal_model_t *model, shoal_rules_t *rules,
                                            shoal_arena_t *arena, bool *out_rebuilt,
                                            shoal_plan_t **out_plan);
// Without -n, and with a cluster that says how many devices it has: all of them.
SHOAL_MUST_USE shoal_status_t cli_use_cluster(int argc, char **argv, cli_plan_options_t *options);
// The cluster to plan for, or the default; the caller frees it. INVALID_ARGUMENT where it has too
// few devices for the ranks.
SHOAL_MUST_USE shoal_status_t cli_cluster(const cli_plan_options_t *options,
                                          shoal_cluster_t **out_cluster);

#endif  // SHOAL_CLI_PLANNING_H_

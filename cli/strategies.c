// `shoal strategies`: the table of strategies, with the axes of a mesh that each uses.
#include "cli.h"
#include "planning.h"
#include "shoal/planners.h"

typedef struct strategies_options {
  bool help;
} strategies_options_t;

static const shoal_option_t table[] = {
    SHOAL_OPTION(strategies_options_t, BOOL, help, NULL, "this list")};

shoal_status_t cli_strategies(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  strategies_options_t options = {0};
  shoal_words_t words = {0};
  SHOAL_RETURN_IF_ERROR(
      cli_options("strategies", "", table, 1, argc, argv, arena, &options, &words, out));
  if (options.help) return NULL;
  if (words.count > 0)
    return SHOAL_ERROR(INVALID_ARGUMENT, "shoal strategies takes no argument '%s'", words.items[0]);
  fprintf(out, "%-16s  %-18s\n", "", "axes of a mesh");
  for (int64_t i = 0; i < shoal_strategies_count(NULL); ++i) {
    const shoal_strategy_t *strategy = shoal_strategies_get(NULL, i);
    fprintf(out, "%-16s  %-18s  %s\n", strategy->name, strategy->axes ? strategy->axes : "-",
            strategy->doc);
  }
  fprintf(out, "-: it stands alone; others are combined by '+', or by the axes of --mesh\n");
  return NULL;
}

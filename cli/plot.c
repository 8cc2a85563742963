// `shoal plot run.jsonl [more.jsonl] -o loss.svg`: curves of runs as a picture.
#include <math.h>
#include <string.h>

#include "cli.h"
#include "planning.h"
#include "print.h"
#include "shoal/metrics.h"
#include "shoal/options.h"

typedef struct plot_options {
  const char *output, *title;
  shoal_words_t metric;
  double smooth;
  bool log, list, help;
} plot_options_t;

static const shoal_option_t OPTIONS[] = {
    SHOAL_OPTION(plot_options_t, STRING, output, "loss.svg", "file to write; - is standard output",
                 .argument = "FILE", .letter = 'o', .no_environment = true),
    SHOAL_OPTION(plot_options_t, STRINGS, metric, NULL,
                 "what to draw; may be repeated (default: all with 'loss' in the name)",
                 .argument = "NAME", .letter = 'm', .no_environment = true),
    SHOAL_OPTION(plot_options_t, REAL, smooth, "0",
                 "moving average: the share of what came before, as in 0.9",
                 .no_environment = true),
    SHOAL_OPTION(plot_options_t, BOOL, log, NULL, "logarithmic scale", .no_environment = true),
    SHOAL_OPTION(plot_options_t, STRING, title, NULL, "title", .no_environment = true),
    SHOAL_OPTION(plot_options_t, BOOL, list, NULL, "list the metrics instead: last, least, most",
                 .no_environment = true),
    SHOAL_OPTION(plot_options_t, BOOL, help, NULL, "say what the options are", .letter = 'h'),
};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof *OPTIONS };

static void list_run(const shoal_curves_t *run, FILE *out) {
  fprintf(out, "%s\n  %-28s %10s %10s %12s %12s %12s\n", run->path, "metric", "values", "last step",
          "last", "least", "most");
  for (int64_t i = 0; i < run->count; ++i) {
    const shoal_curve_t *curve = &run->items[i];
    double least = NAN, most = NAN;
    for (int64_t k = 0; k < curve->count; ++k) {
      least = fmin(least, curve->values[k]);
      most = fmax(most, curve->values[k]);
    }
    fprintf(out, "  %-28s %10lld %10lld %12.6g %12.6g %12.6g\n", curve->name,
            (long long)curve->count, (long long)curve->steps[curve->count - 1],
            curve->values[curve->count - 1], least, most);
  }
}

static shoal_status_t write_svg(const plot_options_t *options, const char *svg, FILE *out) {
  if (strcmp(options->output, "-") == 0) {
    fputs(svg, out);
    return NULL;
  }
  SHOAL_RETURN_IF_ERROR(shoal_file_write(options->output, svg, (int64_t)strlen(svg)));
  fprintf(out, "%s\n", options->output);
  return NULL;
}

static shoal_status_t run(const plot_options_t *options, const shoal_words_t *words,
                          shoal_arena_t *arena, FILE *out) {
  shoal_curves_t *runs = SHOAL_NEW(arena, shoal_curves_t, words->count);
  if (!runs) return SHOAL_OOM();
  for (int64_t i = 0; i < words->count; ++i) {
    if (options->output) SHOAL_RETURN_IF_ERROR(cli_check_apart(words->items[i], options->output));
    SHOAL_RETURN_IF_ERROR(shoal_metrics_read(words->items[i], arena, &runs[i]));
    if (runs[i].cut_short)
      fprintf(stderr, "shoal: %s: the last line is incomplete and left out\n", words->items[i]);
    if (options->list) list_run(&runs[i], out);
  }
  if (options->list) return NULL;
  const shoal_plot_t plot = {.runs = runs,
                             .run_count = words->count,
                             .names = options->metric.items,
                             .name_count = options->metric.count,
                             .smooth = options->smooth,
                             .log = options->log,
                             .title = options->title};
  const char *svg;
  SHOAL_RETURN_IF_ERROR(shoal_plot_svg(&plot, arena, &svg));
  return write_svg(options, svg, out);
}

shoal_status_t cli_plot(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  plot_options_t options = {0};
  shoal_words_t words = {0};
  SHOAL_RETURN_IF_ERROR(cli_options("plot", "RUN.jsonl...", OPTIONS, OPTION_COUNT, argc, argv,
                                    arena, &options, &words, out));
  if (options.help) return NULL;
  if (!words.count) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "shoal plot run.jsonl -o loss.svg", "which run?");
  }
  return run(&options, &words, arena, out);
}

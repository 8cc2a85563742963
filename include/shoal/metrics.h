// Shoal, data: the numbers of a run, written as it goes.
//
// A writer appends a line of JSON for each step (JSONL), which `shoal plot` draws, and
// TensorBoard's event files; either, or both. Nothing here is collective: one rank writes, usually
// rank 0.
#ifndef SHOAL_METRICS_H_
#define SHOAL_METRICS_H_

#include "shoal/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_metrics shoal_metrics_t;

typedef struct shoal_metrics_options {
  shoal_allocator_t allocator;  // zero: the system's
  const char *jsonl;            // file of lines; NULL: none
  const char *tensorboard;      // folder for an event file, made if it is not there; NULL: none
  bool append;                  // keeps the lines that the file has; else it is begun anew
} shoal_metrics_options_t;

typedef struct shoal_metric {
  const char *name;  // "loss", "eval/loss"
  double value;
} shoal_metric_t;

// Opens the files; with neither, writing does nothing. IO names what cannot be written;
// INVALID_ARGUMENT: the file holds something else than such lines, and stays as it is.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_metrics_open(const shoal_metrics_options_t *options,
                                                           shoal_metrics_t **out_metrics);
SHOAL_API void shoal_metrics_close(shoal_metrics_t *metrics);  // NULL is allowed

// Writes the numbers of a step, which are in the files when it returns. A line is
//   {"step": 12, "time": 1731758400.125, "loss": 2.5, "grad_norm": "nan"}
// with the time in seconds since 1970; numbers that JSON lacks are the strings "nan", "inf" and
// "-inf". Steps may be written several times, with other names. A run that is resumed at an earlier
// step writes on: who reads takes the later line. Names "step" and "time" are refused.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_metrics_write(shoal_metrics_t *metrics, int64_t step,
                                                            const shoal_metric_t *values,
                                                            int64_t count);

// -------------------------------------------------------------------------------------------------
// Reading and drawing
// -------------------------------------------------------------------------------------------------

// The values of one name, steps ascending.
typedef struct shoal_curve {
  const char *name;
  int64_t count;
  const int64_t *steps;
  const double *values;  // may be NaN or infinite
} shoal_curve_t;

typedef struct shoal_curves {
  const char *path;
  int64_t count;
  const shoal_curve_t *items;  // in the order in which names appear
  bool cut_short;              // the last line is incomplete and was left out: the run still writes
} shoal_curves_t;

// Reads a file of lines, into the arena. Where steps go back, as in a run that was resumed, the
// later lines replace the earlier ones. INVALID_ARGUMENT names the line that is none.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_metrics_read(const char *path, shoal_arena_t *arena,
                                                           shoal_curves_t *out_curves);

typedef struct shoal_plot {
  const shoal_curves_t *runs;  // drawn in colours of their own
  int64_t run_count;
  const char *const *names;  // which metrics; NULL: all with "loss" in the name, else the first
  int64_t name_count;
  double smooth;  // 0 to less than 1: the share of what came before in a moving average
  bool log;       // a logarithmic scale; what is not positive is left out
  const char *title;
} shoal_plot_t;

// Draws the curves as an SVG document that needs nothing else, into the arena. Names with the same
// last part ("loss", "eval/loss") share a panel. NOT_FOUND: no run has such a metric.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_plot_svg(const shoal_plot_t *plot,
                                                       shoal_arena_t *arena, const char **out_svg);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_METRICS_H_

// Shoal, data: the numbers of a run (losses, rates), written as it goes.
//
// A writer appends a line of JSON for each step (JSONL), which `shoal plot` draws, writes
// TensorBoard's event files, or both. All functions are *Not collective*, because one rank writes,
// usually rank 0; they block until the file system has answered.
#ifndef SHOAL_METRICS_H_
#define SHOAL_METRICS_H_

#include "shoal/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_metrics shoal_metrics_t;

typedef struct shoal_metrics_options {
  shoal_allocator_t allocator;  // zero: the system's
  const char *jsonl;            // the file of lines; NULL: none
  const char *tensorboard;      // folder for an event file, created if necessary; NULL: none
  bool append;                  // keeps the complete lines of `jsonl`; otherwise it is emptied
} shoal_metrics_options_t;

typedef struct shoal_metric {
  const char *name;  // "loss", "eval/loss"
  double value;
} shoal_metric_t;

// Opens a writer, which the caller frees. Without any file (NULL options), writing does nothing.
// IO: a file cannot be written; INVALID_ARGUMENT: the file `jsonl` exists and holds something else
// than metrics, and is left as it is.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_metrics_open(const shoal_metrics_options_t *options,
                                                           shoal_metrics_t **out_metrics);
SHOAL_API void shoal_metrics_free(shoal_metrics_t *metrics);  // NULL is allowed

// Writes the numbers of a step, which are in the files when the call returns. A line is
//   {"step": 12, "time": 1731758400.125, "loss": 2.5, "grad_norm": "nan"}
// with the time in seconds since 1970; numbers that JSON lacks are the strings "nan", "inf" and
// "-inf". A step may be written several times, with different names. A run that is resumed at an
// earlier step appends; readers take the later line. INVALID_ARGUMENT: a name is empty, used twice,
// or "step" or "time"; IO: a file cannot be written.
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
  bool cut_short;  // the last line is incomplete and was left out (is it being written?)
} shoal_curves_t;

// Reads a JSONL file of metrics; curves and their arrays are in the arena. Where steps go back, as
// in a run that was resumed, later lines replace earlier ones. NOT_FOUND or IO: the file cannot be
// read; INVALID_ARGUMENT: a line, which the message names, does not hold metrics.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_metrics_read(const char *path, shoal_arena_t *arena,
                                                           shoal_curves_t *out_curves);

typedef struct shoal_plot {
  const shoal_curves_t *runs;  // each in a colour of its own
  int64_t run_count;
  const char *const *names;  // which metrics; NULL: all with "loss" in the name, else the first
  int64_t name_count;
  double smooth;  // in [0, 1): weight of the earlier values in a moving average; 0: none is drawn
  bool log;       // a logarithmic scale of values; those that are not positive are left out
  const char *title;
} shoal_plot_t;

// Draws the curves as one self-contained SVG document, a string in the arena. Names with the same
// last part ("loss", "eval/loss") share a panel. NOT_FOUND: no run has a metric that is asked for.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_plot_svg(const shoal_plot_t *plot,
                                                       shoal_arena_t *arena, const char **out_svg);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_METRICS_H_

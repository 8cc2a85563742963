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
  const char *name;  // "loss", "validation/loss"
  double value;
} shoal_metric_t;

// Opens the files; with neither, writing does nothing. IO names what cannot be written.
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

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_METRICS_H_

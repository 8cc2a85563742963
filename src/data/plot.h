// Inside a drawing: which curves are in which panel, and the scale of an axis.
#ifndef SHOAL_DATA_PLOT_H_
#define SHOAL_DATA_PLOT_H_

#include "shoal/metrics.h"

enum { PLOT_TICKS = 24 };

// One axis: values from `low` to `high` (logarithms to base 10 where it is logarithmic).
typedef struct plot_axis {
  double low, high;
  bool log;
  int64_t count;
  double ticks[PLOT_TICKS];  // values, not logarithms
} plot_axis_t;

// The range [low, high] with ticks at 1, 2 or 5 times a power of ten, about `wanted` of them. A
// range of values gets a little room at both ends; one of steps does not.
void shoal_plot_axis(double low, double high, bool log, bool room, int wanted, plot_axis_t *out);
// Where a value lies: 0 at the low end, 1 at the high end.
double shoal_plot_at(const plot_axis_t *axis, double value);
// "0.001", "2.5", "10k", "1.5M".
void shoal_plot_label(double value, char out[32]);

#endif  // SHOAL_DATA_PLOT_H_

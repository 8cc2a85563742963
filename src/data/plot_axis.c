// Scales of a drawing's axes.
#include <math.h>

#include "base/locale.h"
#include "data/plot.h"

// The least of 1, 2, 5 times a power of ten that is at least `value`.
static double nice(double value) {
  const double power = pow(10, floor(log10(value)));
  const double share = value / power;
  return power * (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10);
}

static void linear_ticks(double low, double high, int wanted, plot_axis_t *axis) {
  const double step = nice((high - low) / wanted);
  for (double k = ceil(low / step - 1e-9); axis->count < PLOT_TICKS; ++k) {
    if (k * step > high + 1e-9 * step) break;
    axis->ticks[axis->count++] = k * step;
  }
}

// Powers of ten, every few where there are many; 1, 2 and 5 times them where there are few.
static void log_ticks(plot_axis_t *axis) {
  static const double factors[] = {1, 2, 5};
  const double decades = axis->high - axis->low;
  const int every = decades > 10 ? (int)ceil(decades / 8) : 1, parts = decades < 3 ? 3 : 1;
  for (double power = floor(axis->low); power <= axis->high; power += every) {
    for (int i = 0; i < parts && axis->count < PLOT_TICKS; ++i) {
      const double at = power + log10(factors[i]);
      if (at >= axis->low - 1e-9 && at <= axis->high + 1e-9)
        axis->ticks[axis->count++] = factors[i] * pow(10, power);
    }
  }
}

void shoal_plot_axis(double low, double high, bool log, bool room, int wanted, plot_axis_t *out) {
  *out = (plot_axis_t){.low = log ? log10(low) : low, .high = log ? log10(high) : high, .log = log};
  double span = out->high - out->low;
  if (!(span > 1e-12 * fmax(1e-300, fabs(out->high)))) {  // all values are the same
    span = log ? 1 : fabs(out->high) > 0 ? fabs(out->high) : 1;
    out->low -= span / 2;
    out->high += span / 2;
  } else if (room) {
    out->low -= 0.04 * span;
    out->high += 0.04 * span;
  }
  if (log && out->high - out->low > 1) {
    log_ticks(out);
  } else {
    linear_ticks(log ? pow(10, out->low) : out->low, log ? pow(10, out->high) : out->high, wanted,
                 out);
  }
}

double shoal_plot_at(const plot_axis_t *axis, double value) {
  return ((axis->log ? log10(value) : value) - axis->low) / (axis->high - axis->low);
}

void shoal_plot_label(double value, char out[32]) {
  const double size = fabs(value);
  if (size < 1e-12) {
    shoal_format(out, 32, "0");
  } else if (size >= 1e4 && size < 1e15) {
    static const char *const units[] = {"k", "M", "G", "T"};
    int unit = 0;
    value /= 1e3;
    for (; fabs(value) >= 1e3 && unit < 3; ++unit) value /= 1e3;
    shoal_format(out, 32, "%.6g%s", value, units[unit]);
  } else {
    shoal_format(out, 32, size >= 1e-4 && size < 1e15 ? "%.6g" : "%.3g", value);
  }
}

// Curves as an SVG document: panels below each other, each with axes, grid, legend and the curves
// of the metrics whose names end alike. Pixels are the unit.
#include "data/plot.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/locale.h"
#include "base/status.h"
#include "base/text.h"

enum {
  WIDTH = 880,
  LEFT = 70,
  RIGHT = 26,
  INNER = WIDTH - LEFT - RIGHT,
  HEIGHT_ALONE = 380,  // of the field of one panel
  HEIGHT = 230,        // of several
  TITLE = 44,
  LEGEND_LINE = 20,
  BELOW = 52,
  LETTER = 7  // about as wide
};

// Told apart also by who does not see all colours (after Okabe and Ito), dark enough on white.
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#7a5195", "#b8860b", "#56b4e9", "#555555"};
static const char *const dashes[] = {"", "7 4", "2 3", "9 3 2 3"};
enum { COLOURS = sizeof colours / sizeof *colours, DASHES = sizeof dashes / sizeof *dashes };

typedef struct series {
  const shoal_curve_t *curve;
  const double *values;  // smoothed, or the curve's own
  const char *label, *colour, *dash;
} series_t;

typedef struct panel {
  const char *ending;  // what the names end with
  SHOAL_VEC(series_t) series;
  plot_axis_t x, y;
  int64_t names;       // different ones
  double top, height;  // of the field
} panel_t;

typedef struct drawing {
  const shoal_plot_t *plot;
  shoal_arena_t *arena;
  shoal_text_t *text;
  SHOAL_VEC(panel_t) panels;
} drawing_t;

// ---- what is drawn where ------------------------------------------------------------------------

static const char *ending_of(const char *name) {
  const char *slash = strrchr(name, '/');
  return slash ? slash + 1 : name;
}

static bool wanted(const drawing_t *d, const char *name) {
  const shoal_plot_t *plot = d->plot;
  for (int64_t i = 0; i < plot->name_count; ++i) {
    if (strcmp(plot->names[i], name) == 0) return true;
  }
  if (plot->name_count) return false;
  bool any = false;
  for (int64_t r = 0; r < plot->run_count; ++r) {
    for (int64_t i = 0; i < plot->runs[r].count; ++i)
      any = any || strstr(plot->runs[r].items[i].name, "loss");
  }
  return any ? strstr(name, "loss") != NULL : strcmp(name, plot->runs[0].items[0].name) == 0;
}

// "a" of "runs/a.jsonl"; where files of all runs have the same name, of "runs/a/metrics.jsonl".
static const char *run_label(const drawing_t *d, int64_t run) {
  const shoal_plot_t *plot = d->plot;
  const char *path = plot->runs[run].path;
  bool alike = plot->run_count > 1;
  for (int64_t i = 0; i < plot->run_count; ++i)
    alike = alike && strcmp(ending_of(plot->runs[i].path), ending_of(path)) == 0;
  const char *end = ending_of(path), *start = end;
  if (alike && end > path + 1) {
    --end;
    for (start = end; start > path && start[-1] != '/';) --start;
    return shoal_arena_printf(d->arena, "%.*s", (int)(end - start), start);
  }
  const char *dot = strrchr(start, '.');
  return shoal_arena_printf(d->arena, "%.*s", (int)(dot > start ? dot - start : (int)strlen(start)),
                            start);
}

// The least number of steps between values of any curve that is drawn.
static double spacing(const drawing_t *d) {
  double least = INFINITY;
  for (int64_t r = 0; r < d->plot->run_count; ++r) {
    for (int64_t c = 0; c < d->plot->runs[r].count; ++c) {
      const shoal_curve_t *curve = &d->plot->runs[r].items[c];
      const int64_t span = curve->steps[curve->count - 1] - curve->steps[0];
      if (curve->count > 1 && wanted(d, curve->name))
        least = fmin(least, (double)span / (double)(curve->count - 1));
    }
  }
  return least;
}

// The moving average of what is finite, without the pull of the first value (as Adam corrects it).
// It reaches back equally far in all curves: one with few values is smoothed less.
static const double *smoothed(const drawing_t *d, const shoal_curve_t *curve) {
  if (d->plot->smooth <= 0) return curve->values;
  const double unit = spacing(d);
  double *values = SHOAL_NEW(d->arena, double, curve->count);
  double sum = 0, weight = 0, before = (double)curve->steps[0];
  for (int64_t i = 0; values && i < curve->count; ++i) {
    values[i] = curve->values[i];
    if (!isfinite(values[i])) continue;
    const double step = (double)curve->steps[i],
                 share = pow(d->plot->smooth, (step - before) / unit);
    sum = share * sum + (1 - d->plot->smooth) * values[i];
    weight = share * weight + (1 - d->plot->smooth);
    values[i] = sum / weight;
    before = step;
  }
  return values;
}

static panel_t *panel_of(drawing_t *d, const char *name) {
  for (int64_t i = 0; i < d->panels.count; ++i) {
    if (strcmp(d->panels.items[i].ending, ending_of(name)) == 0) return &d->panels.items[i];
  }
  if (!SHOAL_PUSH(d->arena, &d->panels, (panel_t){.ending = ending_of(name)})) return NULL;
  return &d->panels.items[d->panels.count - 1];
}

// The number of a name among those of its panel.
static int64_t name_index(panel_t *panel, const char *name) {
  int64_t index = 0;
  for (int64_t i = 0; i < panel->series.count; ++i) {
    const char *other = panel->series.items[i].curve->name;
    if (strcmp(other, name) == 0) {
      index = 0;
      for (int64_t k = 0; k < i; ++k) {
        bool again = strcmp(panel->series.items[k].curve->name, name) == 0;
        for (int64_t m = 0; m < k && !again; ++m)
          again = !strcmp(panel->series.items[m].curve->name, panel->series.items[k].curve->name);
        index += !again;
      }
      return index;
    }
  }
  return panel->names++;
}

static shoal_status_t add_series(drawing_t *d, int64_t run, const shoal_curve_t *curve) {
  panel_t *panel = panel_of(d, curve->name);
  if (!panel) return SHOAL_OOM();
  const bool several = d->plot->run_count > 1;
  const int64_t name = name_index(panel, curve->name);
  const char *label = several ? run_label(d, run) : "";
  series_t series = {.curve = curve, .values = smoothed(d, curve)};
  series.label =
      !label ? NULL
             : shoal_arena_printf(d->arena, "%s%s%s", label, several ? " " : "", curve->name);
  series.colour = colours[(several ? run : name) % COLOURS];
  series.dash = dashes[several ? name % DASHES : 0];
  if (!series.values || !series.label || !SHOAL_PUSH(d->arena, &panel->series, series))
    return SHOAL_OOM();
  return NULL;
}

static shoal_status_t find_series(drawing_t *d) {
  const shoal_plot_t *plot = d->plot;
  for (int64_t r = 0; r < plot->run_count; ++r) {
    for (int64_t i = 0; i < plot->runs[r].count; ++i) {
      if (wanted(d, plot->runs[r].items[i].name))
        SHOAL_RETURN_IF_ERROR(add_series(d, r, &plot->runs[r].items[i]));
    }
  }
  if (d->panels.count) return NULL;
  shoal_text_t names;
  shoal_text_init(d->arena->allocator, &names);
  for (int64_t i = 0; i < plot->runs[0].count; ++i)
    shoal_text_addf(&names, "%s%s", i ? ", " : "", plot->runs[0].items[i].name);
  shoal_status_t status =
      SHOAL_ERROR_HINT(NOT_FOUND, names.data, "no run has a metric '%s'; there are those below",
                       plot->name_count ? plot->names[0] : "");
  shoal_text_deinit(&names);
  return status;
}

// ---- scales -------------------------------------------------------------------------------------

static bool drawn(const drawing_t *d, double value) {
  return isfinite(value) && (!d->plot->log || value > 0);
}

static shoal_status_t scale(drawing_t *d, panel_t *panel) {
  double low = INFINITY, high = -INFINITY, first = INFINITY, last = -INFINITY;
  for (int64_t s = 0; s < panel->series.count; ++s) {
    const series_t *series = &panel->series.items[s];
    const double *const both[] = {series->values, series->curve->values};
    for (int64_t i = 0; i < series->curve->count; ++i) {
      first = fmin(first, (double)series->curve->steps[i]);
      last = fmax(last, (double)series->curve->steps[i]);
      for (int k = 0; k < 2; ++k) {
        if (!drawn(d, both[k][i])) continue;
        low = fmin(low, both[k][i]);
        high = fmax(high, both[k][i]);
      }
    }
  }
  if (low > high) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "'%s' has no value that can be drawn%s", panel->ending,
                       d->plot->log ? " on a logarithmic scale: none is above zero" : "");
  }
  shoal_plot_axis(first, last, false, false, 7, &panel->x);
  shoal_plot_axis(low, high, d->plot->log, true, d->panels.count > 1 ? 4 : 6, &panel->y);
  return NULL;
}

// ---- drawing ------------------------------------------------------------------------------------

static void add_escaped(shoal_text_t *text, const char *string) {
  for (; *string; ++string) {
    const char *entity = *string == '<' ? "&lt;" : *string == '&' ? "&amp;" : NULL;
    if (entity) {
      shoal_text_add(text, entity);
    } else if ((unsigned char)*string >= 0x20) {
      shoal_text_addf(text, "%c", *string);
    }
  }
}

static double x_at(const panel_t *panel, double step) {
  return LEFT + INNER * shoal_plot_at(&panel->x, step);
}

static double y_at(const panel_t *panel, double value) {
  return panel->top + panel->height * (1 - shoal_plot_at(&panel->y, value));
}

static void draw_grid(const drawing_t *d, const panel_t *panel, bool last) {
  char label[32];
  for (int64_t i = 0; i < panel->y.count; ++i) {
    const double y = y_at(panel, panel->y.ticks[i]);
    shoal_plot_label(panel->y.ticks[i], label);
    shoal_text_addf(d->text,
                    "<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' stroke='#e4e4e4'/>"
                    "<text x='%d' y='%.1f' text-anchor='end'>%s</text>\n",
                    LEFT, LEFT + INNER, y, y, LEFT - 8, y + 4, label);
  }
  const double bottom = panel->top + panel->height;
  for (int64_t i = 0; i < panel->x.count; ++i) {
    const double x = x_at(panel, panel->x.ticks[i]);
    shoal_plot_label(panel->x.ticks[i], label);
    shoal_text_addf(d->text,
                    "<line x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f' stroke='#f0f0f0'/>"
                    "<text x='%.1f' y='%.1f' text-anchor='middle'>%s</text>\n",
                    x, x, panel->top, bottom, x, bottom + 18, label);
  }
  shoal_text_addf(d->text,
                  "<path d='M%d %.1fV%.1fH%d' fill='none' stroke='#888'/>"
                  "<text x='%d' y='%.1f' text-anchor='middle'>%s</text>\n",
                  LEFT, panel->top, bottom, LEFT + INNER, LEFT + INNER / 2, bottom + 38,
                  last ? "step" : "");
}

// A line through the values that can be drawn, broken where one cannot. Of many steps in a column
// of pixels only the lowest, the highest and the last are drawn.
static void draw_line(const drawing_t *d, const panel_t *panel, const series_t *series,
                      const double *values, const char *style) {
  const shoal_curve_t *curve = series->curve;
  shoal_text_addf(d->text, "<path fill='none' stroke='%s' stroke-linejoin='round' %s d='",
                  series->colour, style);
  const bool many = curve->count > 4 * INNER;
  bool pen_down = false;
  for (int64_t i = 0; i < curve->count; ++i) {
    if (!drawn(d, values[i])) {
      pen_down = false;
      continue;
    }
    const double x = x_at(panel, (double)curve->steps[i]);
    double low = values[i], high = values[i];
    while (many && i + 1 < curve->count && drawn(d, values[i + 1]) &&
           x_at(panel, (double)curve->steps[i + 1]) < x + 1) {
      ++i;
      low = fmin(low, values[i]);
      high = fmax(high, values[i]);
    }
    shoal_text_addf(d->text, "%c%.1f %.1f", pen_down ? 'L' : 'M', x, y_at(panel, low));
    if (high > low)
      shoal_text_addf(d->text, "V%.1fV%.1f", y_at(panel, high), y_at(panel, values[i]));
    // A value alone is a dot.
    if (!pen_down && (i + 1 == curve->count || !drawn(d, values[i + 1])))
      shoal_text_add(d->text, "h0.1");
    pen_down = true;
  }
  shoal_text_add(d->text, "'/>\n");
}

// Crosses at the top where a value is not finite.
static void draw_bad(const drawing_t *d, const panel_t *panel, const series_t *series) {
  double before = -1;
  for (int64_t i = 0; i < series->curve->count; ++i) {
    const double x = x_at(panel, (double)series->curve->steps[i]);
    if (isfinite(series->curve->values[i]) || x < before + 3) continue;
    shoal_text_addf(d->text,
                    "<path d='M%.1f %.1fl6 6m0 -6l-6 6' stroke='%s' stroke-width='1.6'>"
                    "<title>not finite at step %lld</title></path>\n",
                    x - 3, panel->top + 2, series->colour, (long long)series->curve->steps[i]);
    before = x;
  }
}

static double legend_width(const series_t *series) {
  return 44 + LETTER * (double)strlen(series->label);
}

// Returns how many lines it takes; only counts them where `text` is NULL.
static int64_t draw_legend(const panel_t *panel, double top, shoal_text_t *text) {
  double x = LEFT;
  int64_t line = 0;
  for (int64_t i = 0; i < panel->series.count; ++i) {
    const series_t *series = &panel->series.items[i];
    if (x > LEFT && x + legend_width(series) > LEFT + INNER) {
      x = LEFT;
      ++line;
    }
    const double y = top + (double)(line * LEGEND_LINE);
    if (text) {
      shoal_text_addf(
          text,
          "<line x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f' stroke='%s' stroke-width='2.5' "
          "stroke-dasharray='%s'/><text x='%.1f' y='%.1f' fill='#222'>",
          x, x + 22, y, y, series->colour, series->dash, x + 28, y + 4);
      add_escaped(text, series->label);
      shoal_text_add(text, "</text>\n");
    }
    x += legend_width(series);
  }
  return line + 1;
}

static void draw_panel(const drawing_t *d, const panel_t *panel, double legend_top, bool last) {
  char style[120];
  draw_grid(d, panel, last);
  draw_legend(panel, legend_top, d->text);
  for (int64_t i = 0; i < panel->series.count && d->plot->smooth > 0; ++i)
    draw_line(d, panel, &panel->series.items[i], panel->series.items[i].curve->values,
              "opacity='0.22'");
  for (int64_t i = 0; i < panel->series.count; ++i) {
    const series_t *series = &panel->series.items[i];
    shoal_format(style, sizeof style,
                 "stroke-width='%s' stroke-linecap='round' stroke-dasharray='%s'",
                 series->curve->count > INNER && d->plot->smooth <= 0 ? "1" : "1.8", series->dash);
    draw_line(d, panel, series, series->values, style);
    draw_bad(d, panel, series);
  }
}

static shoal_status_t draw(drawing_t *d) {
  SHOAL_RETURN_IF_ERROR(find_series(d));
  const char *title = d->plot->title ? d->plot->title : "";
  double top = *title ? TITLE : 16;
  double *legends = SHOAL_NEW(d->arena, double, d->panels.count);
  if (!legends) return SHOAL_OOM();
  for (int64_t i = 0; i < d->panels.count; ++i) {
    panel_t *panel = &d->panels.items[i];
    SHOAL_RETURN_IF_ERROR(scale(d, panel));
    legends[i] = top + 8;
    panel->top = top + (double)(LEGEND_LINE * draw_legend(panel, 0, NULL)) + 6;
    panel->height = d->panels.count > 1 ? HEIGHT : HEIGHT_ALONE;
    top = panel->top + panel->height + BELOW;
  }
  shoal_text_addf(d->text,
                  "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %.0f' width='%d' "
                  "height='%.0f' font-family='system-ui, Helvetica, Arial, sans-serif' "
                  "font-size='12' fill='#555'>\n<rect width='100%%' height='100%%' fill='#fff'/>\n",
                  WIDTH, top, WIDTH, top);
  if (*title) {
    shoal_text_addf(d->text, "<text x='%d' y='28' font-size='16' fill='#222'>", LEFT);
    add_escaped(d->text, title);
    shoal_text_add(d->text, "</text>\n");
  }
  for (int64_t i = 0; i < d->panels.count; ++i)
    draw_panel(d, &d->panels.items[i], legends[i], i + 1 == d->panels.count);
  shoal_text_add(d->text, "</svg>\n");
  return shoal_text_status(d->text);
}

shoal_status_t shoal_plot_svg(const shoal_plot_t *plot, shoal_arena_t *arena,
                              const char **out_svg) {
  *out_svg = NULL;
  if (plot->run_count < 1 || !(plot->smooth >= 0 && plot->smooth < 1)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%lld runs, smoothed by %g: a share is less than 1",
                       (long long)plot->run_count, plot->smooth);
  }
  shoal_text_t text;
  shoal_text_init(arena->allocator, &text);
  drawing_t drawing = {.plot = plot, .arena = arena, .text = &text};
  return shoal_text_close(&text, draw(&drawing), arena, out_svg);
}

// A table in time: when each entry runs, what is idle, how many micro-batches are in flight, and a
// picture of it.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "plan/schedule.h"

int32_t shoal_schedule_in_flight(const shoal_schedule_t *schedule, int32_t stage, shoal_work_t from,
                                 shoal_work_t to) {
  const shoal_schedule_row_t *row = &schedule->rows[schedule->stage_meshes[stage]];
  if (to == SHOAL_WORK_WEIGHT && !schedule->split) to = SHOAL_WORK_BACKWARD;
  int32_t now = 0, most = 0;
  for (int64_t k = 0; k < row->count; ++k) {
    if (row->entries[k].stage != stage) continue;
    if (row->entries[k].work == from && ++now > most) most = now;
    if (row->entries[k].work == to) --now;
  }
  return most;
}

// ---- time ------------------------------------------------------------------------------

typedef struct timing {
  const shoal_schedule_t *t;
  shoal_durations_t durations;
  double **starts;
  double *ends;   // by place: stage, micro, work
  double *clock;  // by row
} timing_t;

static double *end_of(const timing_t *x, const shoal_schedule_entry_t *e) {
  return &x->ends[((int64_t)e->stage * x->t->micro + e->micro) * SHOAL_WORK_COUNT +
                  (int64_t)e->work];
}

static void time_entry(void *self, int32_t row, int64_t k) {
  timing_t *x = self;
  const shoal_schedule_entry_t *e = &x->t->rows[row].entries[k];
  shoal_schedule_entry_t needs[2];
  double start = x->clock[row];
  for (int32_t i = shoal_schedule_needs(x->t, e, needs); i-- > 0;) {
    const bool moves = x->t->stage_meshes[needs[i].stage] != row;
    const double there = *end_of(x, &needs[i]) + (moves ? x->durations.comm : 0);
    if (there > start) start = there;
  }
  x->starts[row][k] = start;
  x->clock[row] = *end_of(x, e) = start + x->durations.works[e->work];
}

// Where backward is not split, B takes the time of both.
static shoal_durations_t join_durations(const shoal_schedule_t *t, shoal_durations_t durations) {
  if (!t->split) durations.works[SHOAL_WORK_BACKWARD] += durations.works[SHOAL_WORK_WEIGHT];
  return durations;
}

static shoal_status_t check_durations(const shoal_durations_t *durations) {
  for (int32_t w = 0; w < SHOAL_WORK_COUNT; ++w)
    if (!(durations->works[w] >= 0) || !isfinite(durations->works[w]))
      return SHOAL_ERROR(INVALID_ARGUMENT, "a time of %g for %c is none", durations->works[w],
                         shoal_work_letter((shoal_work_t)w));
  if (!(durations->comm >= 0) || !isfinite(durations->comm))
    return SHOAL_ERROR(INVALID_ARGUMENT, "a time of %g for moving values is none", durations->comm);
  return NULL;
}

static shoal_status_t time_rows(timing_t *x, shoal_arena_t *arena, shoal_arena_t *scratch) {
  const shoal_schedule_t *t = x->t;
  x->starts = SHOAL_NEW(arena, double *, t->mesh_count);
  x->clock = SHOAL_NEW(scratch, double, t->mesh_count);
  x->ends = SHOAL_NEW(scratch, double, (int64_t)t->stage_count * t->micro * SHOAL_WORK_COUNT);
  if (!x->starts || !x->clock || !x->ends) return SHOAL_OOM();
  for (int32_t r = 0; r < t->mesh_count; ++r)
    if (!(x->starts[r] = SHOAL_NEW(arena, double, t->rows[r].count))) return SHOAL_OOM();
  return shoal_schedule_walk(t, time_entry, x);
}

static void sum_up(const timing_t *x, shoal_schedule_times_t *times) {
  double busy = 0;
  for (int32_t r = 0; r < x->t->mesh_count; ++r) {
    const shoal_schedule_row_t *row = &x->t->rows[r];
    const double first = row->count > 0 ? x->starts[r][0] : 0;
    if (x->clock[r] > times->makespan) times->makespan = x->clock[r];
    if (x->clock[r] - first > times->period) times->period = x->clock[r] - first;
    for (int64_t k = 0; k < row->count; ++k) busy += x->durations.works[row->entries[k].work];
  }
  busy /= x->t->mesh_count;
  if (times->makespan > 0) times->bubble = 1 - busy / times->makespan;
  if (times->period > 0) times->period_bubble = 1 - busy / times->period;
}

shoal_status_t shoal_schedule_time(const shoal_schedule_t *schedule,
                                   const shoal_durations_t *durations, shoal_arena_t *arena,
                                   shoal_schedule_times_t *out_times) {
  SHOAL_RETURN_IF_ERROR(check_durations(durations));
  timing_t x = {.t = schedule, .durations = join_durations(schedule, *durations)};
  SHOAL_RETURN_IF_ERROR(shoal_schedule_check(schedule));
  shoal_arena_t scratch;
  shoal_arena_init(shoal_allocator_system(), &scratch);
  shoal_status_t status = time_rows(&x, arena, &scratch);
  shoal_schedule_times_t times = {.starts = x.starts};
  if (!status) sum_up(&x, &times);
  shoal_arena_deinit(&scratch);
  if (status) return status;
  *out_times = times;
  return NULL;
}

// ---- picture ---------------------------------------------------------------------------

// How entries are drawn: one cell per unit of time. Where it fits a cell holds the entry's name,
// with its stage only where a mesh has several; else it is one letter.
typedef struct drawing {
  const shoal_schedule_t *t;
  const double *durations;
  double unit;
  int64_t cells, columns, cell;  // of the time line; of the page; of one cell
  bool names, stages;
} drawing_t;

static int64_t cell_at(const drawing_t *d, double time) {
  return (int64_t)llround(time / d->unit);
}

static void label(const drawing_t *d, const shoal_schedule_entry_t *e, char out[32]) {
  if (d->stages)
    snprintf(out, 32, "%c%d.%d", shoal_work_letter(e->work), e->stage, e->micro);
  else
    snprintf(out, 32, "%c%d", shoal_work_letter(e->work), e->micro);
}

static void plan_drawing(drawing_t *d, double makespan, int64_t width) {
  const shoal_schedule_t *t = d->t;
  char widest[32];
  d->unit = 0;
  for (int32_t w = 0; w < shoal_schedule_works(t); ++w)
    if (d->durations[w] > 0 && (d->unit == 0 || d->durations[w] < d->unit))
      d->unit = d->durations[w];
  if (d->unit == 0) d->unit = 1;
  d->cells = makespan / d->unit < 1e9 ? cell_at(d, makespan) : (int64_t)1e9;
  d->stages = t->stage_count > t->mesh_count;
  label(d, &(shoal_schedule_entry_t){SHOAL_WORK_FORWARD, t->stage_count - 1, t->micro - 1}, widest);
  d->cell = (int64_t)strlen(widest) + 1;
  d->names = d->cells * d->cell <= width;
  if (!d->names) d->cell = 1;
  d->columns = d->cells * d->cell < width ? d->cells * d->cell : width;
}

static void draw_row(const drawing_t *d, int32_t r, const double *starts, char *line) {
  const shoal_schedule_row_t *row = &d->t->rows[r];
  memset(line, d->names ? ' ' : '.', (size_t)d->columns);
  for (int64_t c = 0; c < d->columns && d->names; c += d->cell) line[c] = '.';
  for (int64_t k = 0; k < row->count; ++k) {
    const int64_t from = cell_at(d, starts[k]) * d->cell,
                  to = cell_at(d, starts[k] + d->durations[row->entries[k].work]) * d->cell;
    char text[32];
    label(d, &row->entries[k], text);
    for (int64_t c = from; c < to && c < d->columns; ++c) {
      const size_t at = (size_t)(c - from);
      line[c] = !d->names ? text[0] : at < strlen(text) ? text[at] : c == to - 1 ? ' ' : '-';
    }
  }
  for (line[d->columns] = 0; d->columns > 0 && line[strlen(line) - 1] == ' ';)
    line[strlen(line) - 1] = 0;
}

shoal_status_t shoal_schedule_draw(const shoal_schedule_t *schedule,
                                   const shoal_durations_t *durations, int64_t width,
                                   shoal_arena_t *arena, const char **out_text) {
  shoal_schedule_times_t times;
  SHOAL_RETURN_IF_ERROR(shoal_schedule_time(schedule, durations, arena, &times));
  const shoal_durations_t all = join_durations(schedule, *durations);
  int32_t longest = 0;
  for (int32_t r = 0; r < schedule->mesh_count; ++r) {
    const int32_t length = (int32_t)strlen(schedule->rows[r].mesh);
    if (length > longest) longest = length;
  }
  drawing_t d = {.t = schedule, .durations = all.works};
  plan_drawing(&d, times.makespan, width > 1 ? width : 1);
  char *line = shoal_arena_alloc(arena, (size_t)d.columns + 1, 1);
  if (!line) return SHOAL_OOM();
  shoal_text_t text;
  shoal_text_init(shoal_allocator_system(), &text);
  for (int32_t r = 0; r < schedule->mesh_count; ++r) {
    draw_row(&d, r, times.starts[r], line);
    shoal_text_addf(&text, "%-*s  %s%s\n", longest, schedule->rows[r].mesh, line,
                    d.cells * d.cell > d.columns ? " ..." : "");
  }
  return shoal_text_finish(&text, arena, out_text);
}

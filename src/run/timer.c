// Times of instructions, measured on their queues, when `timed` is asked for. A stamp is enqueued
// before and behind each instruction, behind what it waits for: so waiting for other queues is not
// measured, waiting for other ranks in a reshard is. The last samples are kept; the first run of a
// graph, which touches memory for the first time, is not measured.
//
// A run's time counts from the end of the run before, if it was enqueued by then: runs overlap.
#include <stdlib.h>

#include "base/status.h"
#include "base/time.h"
#include "run/run_impl.h"

shoal_status_t shoal_run_timers_init(shoal_runner_t *runner) {
  if (!runner->options.timed) return NULL;
  const shoal_class_t *rank_class = runner->bound.rank_class;
  runner->timers = SHOAL_NEW(&runner->arena, shoal_run_timer_t *, rank_class->segment_count);
  runner->run_timers = SHOAL_NEW(&runner->arena, shoal_run_timer_t, runner->order_count);
  if (!runner->timers || !runner->run_timers) return SHOAL_OOM();
  for (int64_t s = 0; s < rank_class->segment_count; ++s) {
    runner->timers[s] =
        SHOAL_NEW(&runner->arena, shoal_run_timer_t, rank_class->segments[s].instruction_count);
    if (!runner->timers[s]) return SHOAL_OOM();
  }
  return NULL;
}

shoal_status_t shoal_run_timer_begin(void *self) {
  shoal_run_timer_t *timer = self;
  timer->begin = shoal_time_ns();
  return NULL;
}

shoal_status_t shoal_run_timer_end(void *self) {
  shoal_run_timer_t *timer = self;
  timer->samples[timer->count++ % SHOAL_RUN_SAMPLES] = shoal_time_ns() - timer->begin;
  return NULL;
}

shoal_status_t shoal_run_timer_stamp(void *self) {
  *(int64_t *)self = shoal_time_ns();
  return NULL;
}

void shoal_run_timer_land(shoal_runner_t *runner, shoal_run_flight_t *flight) {
  if (flight->begin == 0) return;
  int64_t end = 0;
  for (int q = 0; q < SHOAL_MAX_QUEUES; ++q) {
    if (flight->stamps[q] > end) end = flight->stamps[q];
  }
  const int64_t from = flight->begin > runner->last_end ? flight->begin : runner->last_end;
  shoal_run_timer_t *timer = flight->timer;
  if (timer && end > from) timer->samples[timer->count++ % SHOAL_RUN_SAMPLES] = end - from;
  runner->last_end = end;
  flight->begin = 0;
}

static int compare(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

// Seconds; 0 where there are no samples.
static double median(const shoal_run_timer_t *timer) {
  int64_t sorted[SHOAL_RUN_SAMPLES];
  const int64_t n = timer->count < SHOAL_RUN_SAMPLES ? timer->count : SHOAL_RUN_SAMPLES;
  if (n == 0) return 0;
  for (int64_t i = 0; i < n; ++i) sorted[i] = timer->samples[i];
  qsort(sorted, (size_t)n, sizeof *sorted, compare);
  return 0.5e-9 * (double)(sorted[(n - 1) / 2] + sorted[n / 2]);
}

// Of the samples, in seconds.
static double mean(const shoal_run_timer_t *timer) {
  const int64_t n = timer->count < SHOAL_RUN_SAMPLES ? timer->count : SHOAL_RUN_SAMPLES;
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += (double)timer->samples[i];
  return n > 0 ? 1e-9 * sum / (double)n : 0;
}

int64_t shoal_runner_time_count(const shoal_program_t *program) {
  int64_t count = 0;
  for (int64_t c = 0; c < program->class_count; ++c) {
    for (int64_t s = 0; s < program->classes[c].segment_count; ++s) {
      count += program->classes[c].segments[s].instruction_count;
    }
  }
  return count;
}

shoal_status_t shoal_runner_times(const shoal_runner_t *runner, const char *graph, double *seconds,
                                  double *counts, double *out_run_seconds, int64_t *out_runs) {
  if (!runner->timers) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "set `timed` in the options",
                            "this session does not measure times");
  }
  shoal_run_order_t *order;
  SHOAL_RETURN_IF_ERROR(shoal_run_find_order(runner, graph, &order));
  const shoal_run_timer_t *runs = &runner->run_timers[order - runner->orders];
  *out_run_seconds = median(runs);
  *out_runs = runs->count;
  int64_t at = 0;
  for (int64_t c = 0; c < runner->program->class_count; ++c) {
    const shoal_class_t *rank_class = &runner->program->classes[c];
    for (int64_t s = 0; s < rank_class->segment_count; ++s) {
      for (int64_t i = 0; i < rank_class->segments[s].instruction_count; ++i, ++at) {
        const bool mine = rank_class == runner->bound.rank_class;
        seconds[at] = mine ? mean(&runner->timers[s][i]) : 0;
        counts[at] = mine && runner->timers[s][i].count > 0;
      }
    }
  }
  return NULL;
}

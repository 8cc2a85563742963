// Lines for people: lower case, each value behind its name.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/text.h"
#include "base/time.h"
#include "plan/resolved.h"
#include "train/train_impl.h"

void shoal_train_say(const shoal_trainer_t *t, bool progress, const char *format, ...) {
  char line[1024];
  if (!t->talks || !t->options->log) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  t->options->log(t->options->log_self, progress, line);
}

double shoal_train_seconds(const shoal_trainer_t *t) {
  return t->begin_ns ? (double)(shoal_time_ns() - t->begin_ns) * 1e-9 : 0;
}

// By the last line's rate: the first step of a run takes longer than the others.
double shoal_train_left(const shoal_trainer_t *t) {
  if (t->steps == INT64_MAX || t->speed <= 0) return 0;
  return (double)(t->steps - t->step) * (double)(t->batch * t->items) / t->speed;
}

// "1:02:03", "4:05"
static void add_duration(shoal_text_t *text, double seconds) {
  const long long whole = (long long)(seconds + 0.5);
  if (whole >= 3600) {
    shoal_text_addf(text, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  } else {
    shoal_text_addf(text, "%lld:%02lld", whole / 60, whole % 60);
  }
}

double shoal_train_hidden(const shoal_session_counters_t *from,
                          const shoal_session_counters_t *to) {
  const int64_t communication = to->communication - from->communication;
  if (communication <= 0) return -1;
  return 1 - (double)(to->exposed - from->exposed) / (double)communication;
}

void shoal_train_usage(const shoal_trainer_t *t, shoal_train_use_t *out_use) {
  const shoal_memory_report_t memory = shoal_session_memory(t->session);
  const double steps = t->speed / (double)(t->batch * t->items);  // in a second
  *out_use = (shoal_train_use_t){.flops = t->flops * steps, .resident = shoal_peak_resident()};
  out_use->hidden = shoal_train_hidden(&t->line_counters, &t->counters);
  if (t->options->peak_flops > 0) out_use->share = out_use->flops / t->options->peak_flops;
  for (int kind = 0; kind < SHOAL_MEMORY_COUNT; ++kind) {
    out_use->planned += memory.arena_planned[kind];
    if (memory.arena_touched[kind] > 0) out_use->touched += memory.arena_touched[kind];
  }
}

void shoal_train_say_step(shoal_trainer_t *t) {
  if (!t->talks || !t->options->log) return;
  shoal_text_t text;
  shoal_text_init(t->allocator, &text);
  shoal_text_addf(&text, "step %lld loss %.4f %s/s %.0f", (long long)t->step, t->report.loss,
                  t->unit, t->speed);
  for (int64_t i = 0; i < t->metric_count; ++i) {
    shoal_text_addf(&text, " %s %.4g", t->metrics[i].name, t->metrics[i].value);
  }
  if (t->report.skipped > 0) {
    shoal_text_addf(&text, " skipped %lld", (long long)t->report.skipped);
  }
  shoal_train_use_t use;
  shoal_bytes_text_t planned, resident;
  shoal_train_usage(t, &use);
  if (use.flops > 0) shoal_text_addf(&text, " GFLOP/s %.3g", use.flops * 1e-9);
  if (use.share > 0) shoal_text_addf(&text, " peak %.1f%%", 100 * use.share);
  if (use.hidden >= 0) shoal_text_addf(&text, " hidden %.0f%%", 100 * use.hidden);
  shoal_text_addf(&text, " memory %s rss %s", shoal_bytes_format((double)use.planned, &planned),
                  shoal_bytes_format((double)use.resident, &resident));
  const double left = shoal_train_left(t);
  if (left >= 1) {
    shoal_text_add(&text, " left ");
    add_duration(&text, left);
  }
  if (!text.failed) t->options->log(t->options->log_self, true, shoal_text_string(&text));
  shoal_text_deinit(&text);
}

void shoal_train_say_metrics(const shoal_trainer_t *t) {
  if (!t->talks || !t->options->log) return;
  shoal_text_t text;
  shoal_text_init(t->allocator, &text);
  shoal_text_add(&text, "eval");
  if (t->step > 0) shoal_text_addf(&text, " step %lld", (long long)t->step);
  for (int64_t i = 0; i < t->report.metric_count; ++i) {
    shoal_text_addf(&text, " %s %.4f", t->report.metrics[i].name, t->report.metrics[i].value);
  }
  if (!text.failed) t->options->log(t->options->log_self, false, shoal_text_string(&text));
  shoal_text_deinit(&text);
}

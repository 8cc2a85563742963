// The numbers of a run as files, written by rank 0: a line of JSON and TensorBoard events for each
// line of progress and each evaluation.
#include <stdio.h>

#include "base/status.h"
#include "shoal/metrics.h"
#include "train/train_impl.h"

shoal_status_t shoal_train_record_open(shoal_trainer_t *t) {
  const shoal_train_options_t *options = t->options;
  if (!t->talks || options->parallelize.dry_run) return NULL;
  if (!options->metrics && !options->tensorboard) return NULL;
  return shoal_metrics_open(&(shoal_metrics_options_t){.allocator = t->allocator,
                                                       .jsonl = options->metrics,
                                                       .tensorboard = options->tensorboard,
                                                       .append = t->past.path != NULL},
                            &t->metrics_file);
}

void shoal_train_record_close(shoal_trainer_t *t) {
  shoal_metrics_free(t->metrics_file);
}

shoal_status_t shoal_train_record_step(shoal_trainer_t *t) {
  if (!t->metrics_file) return NULL;
  shoal_metric_t values[SHOAL_TRAIN_METRICS + 12];
  shoal_train_use_t use;
  char speed[32];
  int64_t count = 0;
  snprintf(speed, sizeof speed, "%s/s", t->unit);
  values[count++] = (shoal_metric_t){"loss", t->report.loss};
  for (int64_t i = 0; i < t->metric_count; ++i) {
    values[count++] = (shoal_metric_t){t->metrics[i].name, t->metrics[i].value};
  }
  values[count++] = (shoal_metric_t){speed, t->speed};
  if (t->scales.count > 0) {
    values[count++] = (shoal_metric_t){"skipped", (double)t->report.skipped};
  }
  shoal_train_usage(t, &use);
  if (use.flops > 0) values[count++] = (shoal_metric_t){"flops/s", use.flops};
  if (use.share > 0) values[count++] = (shoal_metric_t){"peak", use.share};
  if (use.hidden >= 0) values[count++] = (shoal_metric_t){"hidden", use.hidden};
  values[count++] = (shoal_metric_t){"memory_planned", (double)use.planned};
  values[count++] = (shoal_metric_t){"memory_touched", (double)use.touched};
  values[count++] = (shoal_metric_t){"memory_resident", (double)use.resident};
  values[count++] = (shoal_metric_t){"left", shoal_train_left(t)};
  if (t->samples > 0) {
    values[count++] = (shoal_metric_t){"epoch", (double)t->cursor / (double)t->samples};
  }
  return shoal_metrics_write(t->metrics_file, t->step, values, count);
}

shoal_status_t shoal_train_record_eval(shoal_trainer_t *t) {
  if (!t->metrics_file) return NULL;
  shoal_metric_t values[SHOAL_TRAIN_METRICS];
  char names[SHOAL_TRAIN_METRICS][104];
  for (int64_t i = 0; i < t->report.metric_count; ++i) {
    snprintf(names[i], sizeof names[i], "eval/%s", t->report.metrics[i].name);
    values[i] = (shoal_metric_t){names[i], t->report.metrics[i].value};
  }
  return shoal_metrics_write(t->metrics_file, t->step, values, t->report.metric_count);
}

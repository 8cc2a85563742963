// Runs of the eval graphs. A metric is a scalar output of theirs; over several batches it is their
// mean, weighted by the rows of each.
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "train/train_impl.h"

static shoal_status_t add_batch(shoal_trainer_t *t, const shoal_train_batch_t *batch,
                                double *sums) {
  double value = 0;
  SHOAL_RETURN_IF_ERROR(shoal_train_run(t, batch));
  SHOAL_RETURN_IF_ERROR(shoal_train_fetch(t, "loss", t->eval.loss, &value));
  sums[0] += value * (double)batch->rows;
  for (int64_t i = 0; i < t->eval.list.count; ++i) {
    const shoal_train_output_t *output = &t->eval.list.items[i];
    SHOAL_RETURN_IF_ERROR(shoal_train_fetch(t, output->name, output->dtype, &value));
    sums[1 + i] += value * (double)batch->rows;
  }
  return NULL;
}

shoal_status_t shoal_train_evaluate(shoal_trainer_t *t) {
  const int64_t samples = t->eval_samples;
  const bool next = !t->options->eval_data && t->options->eval_next;
  double sums[SHOAL_TRAIN_METRICS] = {0};
  for (int64_t cursor = 0; cursor < samples;) {
    const int64_t left = samples - cursor;
    const shoal_train_batch_t batch = {.phase = "eval",
                                       .cursor = cursor + (next ? t->cursor : 0),
                                       .rows = left < t->batch ? left : t->batch};
    SHOAL_RETURN_IF_ERROR(add_batch(t, &batch, sums));
    cursor += batch.rows;
  }
  t->report.metric_count = 1 + t->eval.list.count;
  for (int64_t i = 0; i < t->report.metric_count; ++i) {
    shoal_train_metric_t *metric = &t->report.metrics[i];
    snprintf(metric->name, sizeof metric->name, "%s", i ? t->eval.list.items[i - 1].label : "loss");
    metric->value = sums[i] / (double)samples;
  }
  if (!next) shoal_train_say_metrics(t);
  SHOAL_RETURN_IF_ERROR(shoal_train_alone(t, shoal_train_record_eval(t)));
  SHOAL_RETURN_IF_ERROR(shoal_train_tell(t, SHOAL_TRAIN_EVAL, NULL));
  const double loss = t->report.metrics[0].value;
  if (isfinite(loss)) return NULL;
  char where[48] = "";
  if (t->step > 0) snprintf(where, sizeof where, " at step %lld", (long long)t->step);
  // All ranks have the same error; none leaves before the others have it.
  return shoal_world_agree(
      t->world,
      SHOAL_ERROR_HINT(
          MISMATCH,
          "these weights are of no use: go on from an earlier checkpoint, with a lower --lr",
          "the loss of the evaluation is %g%s", loss, where));
}

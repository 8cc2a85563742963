// Steps, and the batches they take. Steps whose loss nobody asks for are not waited for: the next
// one is fed meanwhile.
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "base/time.h"
#include "train/train_impl.h"

// ---- batches --------------------------------------------------------------------------

shoal_train_batch_t shoal_train_next(const shoal_trainer_t *t, int64_t cursor) {
  shoal_train_batch_t batch = {.phase = "train", .cursor = cursor, .rows = t->batch};
  if (t->samples <= 0) return batch;
  const int64_t left = t->samples - cursor % t->samples;
  if (left < t->batch && t->options->last_batch == SHOAL_LAST_DROPPED) batch.cursor += left;
  if (left < t->batch && t->options->last_batch == SHOAL_LAST_SHORT) batch.rows = left;
  batch.epoch = batch.cursor / t->samples;
  return batch;
}

shoal_status_t shoal_train_alone(shoal_trainer_t *t, shoal_status_t status) {
  if (status && shoal_world_size(t->world) > 1) shoal_world_abort(t->world, status);
  return status;
}

shoal_status_t shoal_train_run(shoal_trainer_t *t, const shoal_train_batch_t *batch) {
  const shoal_train_options_t *options = t->options;
  shoal_train_batch_t named = *batch;
  named.graph = shoal_train_graph_name(t, batch->phase, batch->rows);
  if (!named.graph) return shoal_train_alone(t, SHOAL_OOM());
  SHOAL_RETURN_IF_ERROR(
      shoal_train_alone(t, t->source ? shoal_train_source_feed(t, &named)
                                     : options->feed(options->feed_self, t->session, &named)));
  if (strcmp(batch->phase, "train") == 0) {
    SHOAL_RETURN_IF_ERROR(shoal_train_tell(t, SHOAL_TRAIN_BEFORE, NULL));
  }
  return shoal_run(t->session, named.graph);
}

shoal_status_t shoal_train_fetch(shoal_trainer_t *t, const char *name, shoal_dtype_t dtype,
                                 double *out_value) {
  uint64_t storage = 0;
  SHOAL_RETURN_IF_ERROR(shoal_fetch(t->session, name, &storage, shoal_dtype_size(dtype)));
  const double value = shoal_dtype_load(dtype, &storage, 0);
  *out_value =
      isnan(value) ? (double)NAN : value;  // whose sign means nothing, and would be printed
  return NULL;
}

// ---- hooks ----------------------------------------------------------------------------

shoal_status_t shoal_train_tell(shoal_trainer_t *t, shoal_train_event_kind_t kind,
                                const char *path) {
  const shoal_train_options_t *options = t->options;
  if (!options->hook) return NULL;
  const bool evaluated = kind == SHOAL_TRAIN_EVAL;
  const shoal_train_event_t event = {
      .kind = kind,
      .session = t->session,
      .model = t->model,
      .step = t->step,
      .steps = t->steps,
      .cursor = t->cursor,
      .epoch = shoal_train_next(t, t->cursor).epoch,
      .loss = t->report.loss,
      .metric_count = evaluated ? t->report.metric_count : t->metric_count,
      .metrics = evaluated ? t->report.metrics : t->metrics,
      .path = path,
      .seconds = shoal_train_seconds(t),
      .left = shoal_train_left(t),
      .speed = t->speed,
      .unit = t->unit,
  };
  return shoal_train_alone(t, options->hook(options->hook_self, &event, &t->stop));
}

// ---- steps ----------------------------------------------------------------------------

// All ranks know the same numbers and have the same error; none leaves before the others have it.
static shoal_status_t check_finite(shoal_trainer_t *t) {
  for (int64_t i = 0; i < t->train.list.count; ++i) {
    if (!t->train.list.items[i].watched || isfinite(t->metrics[i].value)) continue;
    return shoal_world_agree(t->world,
                             SHOAL_ERROR_HINT(MISMATCH, "--check-nan names the first bad value",
                                              "watched '%s' is %g at step %lld", t->metrics[i].name,
                                              t->metrics[i].value, (long long)t->step));
  }
  const double loss = t->report.loss;
  return isfinite(loss) ? NULL : shoal_world_agree(t->world, shoal_train_not_finite(t, loss));
}

static shoal_status_t look(shoal_trainer_t *t) {
  double loss = 0;
  SHOAL_RETURN_IF_ERROR(shoal_train_fetch(t, "loss", t->train.loss, &loss));
  t->metric_count = 0;
  for (int64_t i = 0; i < t->train.list.count; ++i) {
    const shoal_train_output_t *output = &t->train.list.items[i];
    shoal_train_metric_t *metric = &t->metrics[t->metric_count++];
    snprintf(metric->name, sizeof metric->name, "%s", output->label);
    SHOAL_RETURN_IF_ERROR(shoal_train_fetch(t, output->name, output->dtype, &metric->value));
    if (output->squared) metric->value = sqrt(metric->value);
  }
  SHOAL_RETURN_IF_ERROR(shoal_train_scales_look(t));
  if (t->has_lr) {
    float rate = 0;
    SHOAL_RETURN_IF_ERROR(shoal_session_get(t->session, "lr", &rate, sizeof rate));
    t->metrics[t->metric_count++] = (shoal_train_metric_t){.name = "rate", .value = rate};
  }
  if (!t->trained) t->report.first_loss = loss;
  t->report.loss = loss;
  t->trained = true;
  return t->nan ? NULL : check_finite(t);  // the search for it names the value itself
}

static shoal_status_t log_step(shoal_trainer_t *t) {
  const int64_t now = shoal_time_ns();
  const double seconds = (double)(now - t->line_ns) * 1e-9;
  t->speed = seconds > 0 ? (double)(t->items_done - t->line_items) / seconds : 0;
  t->line_ns = now;
  t->line_items = t->items_done;
  t->line_counters = t->counters;
  t->counters = shoal_session_counters(t->session);
  shoal_train_say_step(t);
  SHOAL_RETURN_IF_ERROR(shoal_train_alone(t, shoal_train_record_step(t)));
  return shoal_train_tell(t, SHOAL_TRAIN_LOG, NULL);
}

static bool is_over(const shoal_trainer_t *t) {
  const shoal_train_options_t *options = t->options;
  if (options->steps && t->step >= options->steps) return true;
  return options->epochs > 0 && shoal_train_next(t, t->cursor).epoch >= options->epochs;
}

static bool is_due(int64_t step, int64_t every) {
  return every > 0 && step % every == 0;
}

static shoal_status_t take_step(shoal_trainer_t *t, bool *out_stops) {
  const shoal_train_options_t *options = t->options;
  const shoal_train_batch_t batch = shoal_train_next(t, t->cursor);
  SHOAL_RETURN_IF_ERROR(shoal_train_run(t, &batch));
  ++t->step;
  t->cursor = shoal_train_next(t, batch.cursor + batch.rows).cursor;
  t->items_done += batch.rows * t->items;
  SHOAL_RETURN_IF_ERROR(shoal_train_tell(t, SHOAL_TRAIN_STEP, NULL));
  const bool signalled = shoal_session_should_stop(t->session);
  const bool last = t->stop || is_over(t);
  const bool saves = is_due(t->step, options->save_every) && !last;
  const bool evaluates =
      t->eval.has_loss && is_due(t->step, options->eval_every) && !last && !signalled;
  const bool logs = is_due(t->step, options->log_every > 0 ? options->log_every : 20) ||
                    t->step == t->report.start + 1 || last;
  *out_stops = signalled || last;
  if (!logs && !saves && !evaluates && !signalled && !t->nan) return NULL;
  SHOAL_RETURN_IF_ERROR(look(t));
  if (t->nan) SHOAL_RETURN_IF_ERROR(shoal_train_nan_check(t, t->report.loss));
  if (logs) SHOAL_RETURN_IF_ERROR(log_step(t));
  if (signalled) return NULL;
  if (evaluates) SHOAL_RETURN_IF_ERROR(shoal_train_evaluate(t));
  if (evaluates) SHOAL_RETURN_IF_ERROR(shoal_train_save_best(t));
  return saves ? shoal_train_save(t) : NULL;
}

// Batches in so many samples of one epoch.
static int64_t batches_of(const shoal_train_options_t *options, int64_t batch, int64_t samples) {
  return (samples + (options->last_batch == SHOAL_LAST_DROPPED ? 0 : batch - 1)) / batch;
}

// The last one: at the end of the last epoch, or as many as were asked for. `samples` are those of
// an epoch, `cursor` of them were used in the steps so far.
static int64_t last_step(const shoal_train_options_t *options, int64_t batch, int64_t samples,
                         int64_t step, int64_t cursor) {
  const int64_t steps = options->steps > 0 ? options->steps : options->steps < 0 ? 0 : INT64_MAX;
  if (options->epochs <= 0 || samples <= 0) return steps;
  const int64_t left = options->epochs * samples - cursor;
  int64_t more = 0;
  if (left > 0 && options->last_batch != SHOAL_LAST_FILLED) {
    more = left / samples * batches_of(options, batch, samples) +
           batches_of(options, batch, left % samples);
  } else if (left > 0) {
    more = batches_of(options, batch, left);
  }
  return steps < step + more ? steps : step + more;
}

int64_t shoal_train_steps(const shoal_train_options_t *options) {
  const int64_t samples = options->data ? shoal_dataset_count(options->data) : options->samples;
  return last_step(options, options->batch > 0 ? options->batch : 1, samples, 0, 0);
}

shoal_status_t shoal_train_loop(shoal_trainer_t *t) {
  t->steps = last_step(t->options, t->batch, t->samples, t->step, t->cursor);
  t->report.start = t->step;
  SHOAL_RETURN_IF_ERROR(shoal_train_scales_begin(t));
  t->begin_ns = t->line_ns = shoal_time_ns();
  t->first_counters = t->line_counters = t->counters = shoal_session_counters(t->session);
  bool stops = t->stop || is_over(t);
  shoal_status_t status = NULL;
  while (!stops && !status) status = take_step(t, &stops);
  t->report.step = t->step;
  t->report.stopped = t->stop;
  t->report.seconds = shoal_train_seconds(t);
  const shoal_session_counters_t end = shoal_session_counters(t->session);
  t->report.communication = 1e-9 * (double)(end.communication - t->first_counters.communication);
  t->report.exposed = 1e-9 * (double)(end.exposed - t->first_counters.exposed);
  return status;
}

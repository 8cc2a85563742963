// shoal_train and shoal_evaluate: checks of their options, and the order of things.
#include "shoal/train.h"

#include <string.h>

#include "base/status.h"
#include "graph/graph.h"
#include "shoal/checkpoint.h"
#include "train/train_impl.h"

// ---- options --------------------------------------------------------------------------

static shoal_status_t check_data(const shoal_train_options_t *o) {
  if (!o || (!o->build && !o->model)) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give a build function, or a model",
                            "there is no model to train");
  }
  if (!o->model && o->batch < 1) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "batch %lld: a batch has at least one row",
                       (long long)o->batch);
  }
  if (o->feed && (o->data || o->eval_data)) {
    return SHOAL_ERROR(INVALID_ARGUMENT,
                       "batches come from data sets or from a function, not both");
  }
  return NULL;
}

static shoal_status_t check_train(const shoal_train_options_t *o) {
  SHOAL_RETURN_IF_ERROR(check_data(o));
  const int64_t samples = o->data ? shoal_dataset_count(o->data) : o->samples;
  if (!o->feed && !o->data && !o->parallelize.dry_run) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give a data set, or a function that feeds",
                            "there is no data to train on");
  }
  if (o->last_batch == SHOAL_LAST_DROPPED && samples > 0 && samples < o->batch) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "take smaller batches, or keep short ones",
                            "%lld samples do not fill a batch of %lld", (long long)samples,
                            (long long)o->batch);
  }
  if (!o->steps && o->epochs <= 0) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "say how many steps or epochs",
                            "training has no end");
  }
  if (o->epochs > 0 && samples <= 0) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "say how many samples there are, or how many steps",
                            "epochs of data without end");
  }
  if ((o->resume || o->overwrite || o->best) && !o->folder) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give the folder of the checkpoints",
                            "%s needs a folder",
                            o->resume      ? "resume"
                            : o->overwrite ? "overwrite"
                                           : "best");
  }
  if (o->resume && o->overwrite) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give one of them",
                            "overwrite removes what resume goes on from");
  }
  return NULL;
}

// ---- order ----------------------------------------------------------------------------

static shoal_status_t make_session(shoal_trainer_t *t) {
  shoal_parallelize_options_t options = t->options->parallelize;
  options.world = t->world;
  if (!options.allocator.alloc) options.allocator = t->allocator;
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(t->world, shoal_train_nan_init(t, &options)));
  SHOAL_RETURN_IF_ERROR(shoal_parallelize(t->model, &options, &t->session));
  return shoal_world_agree(t->world, shoal_train_source_open(t));
}

// All ranks stopped behind the same step and have saved it together.
static shoal_status_t signalled(const shoal_trainer_t *t) {
  const char *folder = t->options->folder;
  const long long step = (long long)t->step;
  if (!folder) {
    return SHOAL_ERROR_HINT(ABORTED, "a run with a folder (--save DIR) saves when it is stopped",
                            "stopped by a signal at step %lld; nothing was saved", step);
  }
  return SHOAL_ERROR_HINT(ABORTED, "a run with `resume` (--resume) goes on from it",
                          "stopped by a signal at step %lld; saved %s/step-%lld", step, folder,
                          step);
}

static shoal_status_t finish(shoal_trainer_t *t) {
  const bool stops = shoal_session_should_stop(t->session);
  SHOAL_RETURN_IF_ERROR(shoal_train_scales_end(t));
  if (!stops && t->eval.has_loss) {
    SHOAL_RETURN_IF_ERROR(shoal_train_evaluate(t));
    SHOAL_RETURN_IF_ERROR(shoal_train_save_best(t));
  }
  if (t->options->folder) {
    SHOAL_RETURN_IF_ERROR(shoal_train_save(t));
  } else if (!t->eval.has_loss) {
    SHOAL_RETURN_IF_ERROR(shoal_train_check_parameters(t));
  }
  SHOAL_RETURN_IF_ERROR(shoal_train_save_end(t));
  SHOAL_RETURN_IF_ERROR(shoal_train_tell(t, SHOAL_TRAIN_END, NULL));
  t->report.memory = shoal_session_memory(t->session);
  // None leaves, which ends the world, before the others have saved.
  return stops ? shoal_world_agree(t->world, signalled(t)) : NULL;
}

static shoal_status_t train(shoal_trainer_t *t) {
  SHOAL_RETURN_IF_ERROR(shoal_train_prepare(t));
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(t->world, shoal_train_model(t, true)));
  SHOAL_RETURN_IF_ERROR(make_session(t));
  SHOAL_RETURN_IF_ERROR(shoal_train_tell(t, SHOAL_TRAIN_READY, NULL));
  if (t->options->parallelize.dry_run) return NULL;
  if (!t->options->no_signals) {
    SHOAL_RETURN_IF_ERROR(shoal_session_catch_signals(t->session));
  }
  SHOAL_RETURN_IF_ERROR(shoal_train_resume(t));
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(t->world, shoal_train_record_open(t)));
  SHOAL_RETURN_IF_ERROR(shoal_train_loop(t));
  return finish(t);
}

// The weights, and the averages of them that the model reads instead (shoal_use_averages).
static shoal_status_t load_weights(shoal_trainer_t *t) {
  const shoal_load_options_t *given = &t->options->load_options;
  const shoal_load_options_t weights = {
      .cast = true, .averages = given->averages, .report = given->report};
  const shoal_load_options_t averages = {.training = true, .cast = true, .only = "*#average"};
  bool any = false;
  for (int64_t i = 0; i < t->model->states.count && !any; ++i)
    any = shoal_pattern_match(averages.only, t->model->states.items[i].name);
  SHOAL_RETURN_IF_ERROR(shoal_load_with(t->session, t->past.path, &weights));
  return any ? shoal_load_with(t->session, t->past.path, &averages) : NULL;
}

static shoal_status_t evaluate(shoal_trainer_t *t) {
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(t->world, shoal_train_model(t, false)));
  SHOAL_RETURN_IF_ERROR(make_session(t));
  SHOAL_RETURN_IF_ERROR(shoal_train_tell(t, SHOAL_TRAIN_READY, NULL));
  if (t->options->parallelize.dry_run) return NULL;
  if (t->past.path) SHOAL_RETURN_IF_ERROR(load_weights(t));
  SHOAL_RETURN_IF_ERROR(shoal_train_evaluate(t));
  t->report.memory = shoal_session_memory(t->session);
  return shoal_train_tell(t, SHOAL_TRAIN_END, NULL);
}

static shoal_status_t init(shoal_trainer_t *t, const shoal_train_options_t *options) {
  *t = (shoal_trainer_t){.options = options, .batch = options->batch, .lock.file = -1};
  t->allocator = options->allocator.alloc ? options->allocator : shoal_allocator_system();
  shoal_arena_init(t->allocator, &t->arena);
  shoal_arena_init(t->allocator, &t->scratch);
  t->world = options->parallelize.world;
  if (t->world) {
    shoal_world_retain(t->world);
  } else {
    SHOAL_RETURN_IF_ERROR(shoal_world_join(NULL, &t->world));
  }
  t->talks = shoal_world_rank(t->world) == 0;
  return NULL;
}

static void deinit(shoal_trainer_t *t) {
  shoal_train_record_close(t);
  shoal_train_source_close(t);
  shoal_session_free(t->session);
  shoal_checkpoint_unlock(&t->lock);
  shoal_train_nan_deinit(t);
  shoal_model_free(t->owned_model);
  shoal_world_release(t->world);
  shoal_arena_deinit(&t->scratch);
  shoal_arena_deinit(&t->arena);
}

shoal_status_t shoal_train(const shoal_train_options_t *options, shoal_train_report_t *out_report) {
  shoal_trainer_t t;
  SHOAL_RETURN_IF_ERROR(check_train(options));
  shoal_status_t status = init(&t, options);
  if (!status) status = train(&t);
  if (out_report) *out_report = t.report;
  deinit(&t);
  return status;
}

shoal_status_t shoal_evaluate(const shoal_train_options_t *options, const char *path,
                              shoal_train_report_t *out_report) {
  shoal_trainer_t t;
  SHOAL_RETURN_IF_ERROR(check_data(options));
  if (options->feed ? options->eval_samples < 1 : !options->eval_data) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "there are no samples to evaluate on");
  }
  shoal_status_t status = init(&t, options);
  t.past.path = path;
  if (!status && !path && options->folder) {
    status = shoal_checkpoint_latest(options->folder, &t.arena, &t.past.path, &t.past.step);
    status = shoal_world_agree(t.world, status);
  }
  t.step = t.past.step;
  if (!status) status = evaluate(&t);
  if (out_report) *out_report = t.report;
  deinit(&t);
  return status;
}

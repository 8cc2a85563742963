// Checkpoints of a run: "FOLDER/step-N" and "FOLDER/best". Each says in its note "train" which
// samples come next, which evaluation was the best so far and what the run was made with, so that
// a run that goes on from it needs nothing else.
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/status.h"
#include "run/checkpoint.h"
#include "train/train_impl.h"

#define NOTE "train"

// ---- the note -------------------------------------------------------------------------

static shoal_status_t write_note(shoal_trainer_t *t) {
  const shoal_train_options_t *options = t->options;
  shoal_text_t text;
  shoal_json_writer_t w;
  shoal_text_init(t->allocator, &text);
  shoal_json_writer_init(&text, &w);
  shoal_json_begin(&w, NULL, '{', true);
  shoal_json_int(&w, "step", t->step);
  shoal_json_int(&w, "cursor", t->cursor);
  shoal_json_int(&w, "batch", t->batch);
  if (t->samples > 0) shoal_json_int(&w, "samples", t->samples);
  if (t->report.best_step > 0) {
    shoal_json_int(&w, "best_step", t->report.best_step);
    shoal_json_real(&w, "best", t->report.best);
    const char *metric = options->best ? options->best : t->past.best;
    if (metric) shoal_json_string(&w, "best_metric", metric);
  }
  shoal_json_begin(&w, "settings", '[', true);
  for (int64_t i = 0; options->settings && options->settings[i]; ++i) {
    shoal_json_string(&w, NULL, options->settings[i]);
  }
  shoal_json_end(&w, ']');
  shoal_json_end(&w, '}');
  shoal_status_t status = shoal_text_status(&text);
  if (!status) status = shoal_session_note(t->session, NOTE, shoal_text_string(&text));
  shoal_text_deinit(&text);
  return status;
}

static bool differs(const char *const *settings, const char *saved) {
  const size_t name = strcspn(saved, "=") + 1;
  for (int64_t i = 0; settings && settings[i]; ++i) {
    if (strncmp(settings[i], saved, name) == 0) return strcmp(settings[i], saved) != 0;
  }
  return false;
}

static const char *given(const char *const *settings, const char *saved) {
  const size_t name = strcspn(saved, "=") + 1;
  int64_t i = 0;
  while (strncmp(settings[i], saved, name) != 0) ++i;
  return settings[i] + name;
}

// Says what the run goes on with that the checkpoint was not made with.
static void say_changes(const shoal_trainer_t *t, const shoal_json_t *settings) {
  for (int64_t i = 0; settings && i < settings->count; ++i) {
    if (settings->children[i].kind != SHOAL_JSON_STRING) continue;
    const char *saved = settings->children[i].string;
    const size_t name = strcspn(saved, "=");
    if (!saved[name] || !differs(t->options->settings, saved)) continue;
    shoal_train_say(t, false, "%.*s %s; the checkpoint's was %s", (int)name, saved,
                    given(t->options->settings, saved), saved + name + 1);
  }
}

// The best so far; of another metric it says nothing about this one, which begins anew.
static shoal_status_t read_best(shoal_trainer_t *t, const shoal_json_t *note) {
  const char *wanted = t->options->best;
  if (shoal_json_find(note, "best_metric"))
    SHOAL_RETURN_IF_ERROR(shoal_json_get_string(note, "best_metric", &t->past.best));
  if (wanted && t->past.best && strcmp(wanted, t->past.best) != 0) return NULL;
  // Nothing would be kept until something is better than what is gone.
  const char *path = shoal_arena_printf(&t->arena, "%s/best", t->options->folder);
  if (!path) return SHOAL_OOM();
  if (!shoal_shards_complete(path)) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_int(note, "best_step", &t->report.best_step));
  return shoal_json_get_real(note, "best", &t->report.best);
}

// A folder that was renamed or copied would go on with the wrong step, and prune by it.
static shoal_status_t check_step(const shoal_trainer_t *t, const shoal_json_t *note) {
  int64_t step;
  if (!shoal_json_find(note, "step")) return NULL;  // of an earlier version
  SHOAL_RETURN_IF_ERROR(shoal_json_get_int(note, "step", &step));
  if (step == t->past.step) return NULL;
  char hint[64];
  snprintf(hint, sizeof hint, "was it renamed or copied? Call it step-%lld", (long long)step);
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, hint, "this checkpoint was saved at step %lld",
                          (long long)step);
}

static shoal_status_t read_note(shoal_trainer_t *t, const shoal_json_t **out_settings) {
  const char *text = NULL;
  const shoal_json_t *note = NULL;
  *out_settings = NULL;
  t->cursor = t->past.step * t->batch;
  SHOAL_RETURN_IF_ERROR(shoal_checkpoint_note(t->past.path, NOTE, &t->arena, &text));
  if (!text) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_json_parse("note 'train'", text, &t->arena, &note));
  SHOAL_RETURN_IF_ERROR(check_step(t, note));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_int(note, "cursor", &t->cursor));
  if (shoal_json_find(note, "best_step")) SHOAL_RETURN_IF_ERROR(read_best(t, note));
  if (shoal_json_find(note, "samples"))
    SHOAL_RETURN_IF_ERROR(shoal_json_get_int(note, "samples", &t->past.samples));
  if (t->cursor < 0) return SHOAL_ERROR(INVALID_ARGUMENT, "note 'train': cursor is negative");
  *out_settings = shoal_json_find(note, "settings");
  return NULL;
}

// ---- before ---------------------------------------------------------------------------

static shoal_status_t prepare(shoal_trainer_t *t) {
  const shoal_train_options_t *options = t->options;
  if (t->talks && !options->parallelize.dry_run) {
    SHOAL_RETURN_IF_ERROR(shoal_checkpoint_lock(options->folder, &t->lock));
    SHOAL_RETURN_IF_ERROR(shoal_checkpoint_sweep(options->folder, t->allocator));
    SHOAL_RETURN_IF_ERROR(shoal_checkpoint_prepare(
        options->folder, options->resume || options->overwrite, t->allocator));
  }
  return NULL;
}

// Every rank writes its part of a checkpoint. Rank 0 has locked the folder, so its lock is there.
static shoal_status_t see_folder(const shoal_trainer_t *t) {
  if (t->talks || t->options->parallelize.dry_run) return NULL;
  const char *folder = t->options->folder;
  char path[PATH_MAX], host[256] = "?";
  if (!shoal_checkpoint_lock_path(folder, path) || access(path, F_OK) == 0) return NULL;
  gethostname(host, sizeof host - 1);
  return SHOAL_ERROR_HINT(NOT_FOUND,
                          "save into a folder that all machines share (NFS, Lustre): every rank "
                          "writes its part of a checkpoint",
                          "on %s there is no '%s' as rank 0 has it: the ranks do not share this "
                          "file system",
                          host, folder);
}

// Rank 0 has made the folder.
static shoal_status_t find_past(shoal_trainer_t *t, const shoal_json_t **out_settings) {
  *out_settings = NULL;
  SHOAL_RETURN_IF_ERROR(
      shoal_checkpoint_latest(t->options->folder, &t->arena, &t->past.path, &t->past.step));
  if (!t->past.path) return NULL;
  t->step = t->past.step;
  return shoal_status_annotatef(read_note(t, out_settings), "%s", t->past.path);
}

shoal_status_t shoal_train_prepare(shoal_trainer_t *t) {
  const shoal_train_options_t *options = t->options;
  if (!options->folder) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(t->world, prepare(t)));
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(t->world, see_folder(t)));
  if (!options->resume || options->parallelize.dry_run) return NULL;
  const shoal_json_t *settings;
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(t->world, find_past(t, &settings)));
  if (t->past.path) t->past.settings = settings;
  return NULL;
}

static shoal_status_t give_rate(shoal_trainer_t *t) {
  const float given_rate = (float)t->options->lr;
  float saved = 0;
  if (given_rate == 0) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_session_get(t->session, "lr", &saved, sizeof saved));
  if (saved == given_rate) return NULL;
  if (t->past.path) {
    shoal_train_say(t, false, "learning rate %g; the checkpoint's was %g", (double)given_rate,
                    (double)saved);
  }
  return shoal_session_set(t->session, "lr", &given_rate, sizeof given_rate);
}

// All of a checkpoint. Where only what the optimizer keeps does not fit, as after a change of
// optimizer, that begins anew and is said.
static shoal_status_t load(shoal_trainer_t *t) {
  const char *path = t->past.path;
  shoal_status_t status = shoal_load(t->session, path);
  if (shoal_status_code(status) != SHOAL_INVALID_ARGUMENT) return status;
  shoal_load_report_t report;
  const shoal_load_options_t lenient = {
      .training = true, .keep_missing = true, .ignore_extra = true, .report = &report};
  shoal_status_t weights = shoal_load_with(t->session, path, NULL);
  if (!weights) weights = shoal_load_with(t->session, path, &lenient);
  if (weights) {
    shoal_status_free(weights);
    return status;  // the weights do not fit either: the first error says it all
  }
  shoal_status_free(status);
  if (report.missing > 0) {
    shoal_train_say(t, false, "the optimizer begins anew with %lld states: %s",
                    (long long)report.missing, report.missing_names);
  } else {
    shoal_train_say(t, false, "passed over what another optimizer has left: %s",
                    report.extra_names);
  }
  return shoal_train_scales_resume(t);
}

// Begins with the weights of another run.
static shoal_status_t load_others(shoal_trainer_t *t) {
  shoal_load_report_t report = {0};
  shoal_load_options_t options = t->options->load_options;
  if (!options.report) options.report = &report;
  SHOAL_RETURN_IF_ERROR(shoal_load_with(t->session, t->options->load, &options));
  report = *options.report;
  shoal_train_say(t, false, "loaded %lld states from %s", (long long)report.loaded,
                  t->options->load);
  if (report.averages > 0) {
    shoal_train_say(t, false,
                    options.averages ? "%lld parameters begin as their moving averages"
                                     : "%lld parameters begin as they were, not as their averages",
                    (long long)report.averages);
  }
  if (report.missing > 0) {
    shoal_train_say(t, false, "%lld states that it lacks begin anew: %s", (long long)report.missing,
                    report.missing_names);
  }
  if (report.extra > 0) {
    shoal_train_say(t, false, "passed over %lld that the model has no state for: %s",
                    (long long)report.extra, report.extra_names);
  }
  return NULL;
}

shoal_status_t shoal_train_resume(shoal_trainer_t *t) {
  const shoal_train_options_t *options = t->options;
  if (t->past.path) {
    SHOAL_RETURN_IF_ERROR(load(t));
    shoal_train_say(t, false, "resumed from %s", t->past.path);
    say_changes(t, t->past.settings);
    if (t->past.samples > 0 && t->past.samples != t->samples) {
      shoal_train_say(
          t, false,
          "warning: %lld samples; the checkpoint's run had %lld: some may be used again "
          "in this epoch, or left out",
          (long long)t->samples, (long long)t->past.samples);
    }
    if (t->past.best && options->best && strcmp(t->past.best, options->best) != 0) {
      shoal_train_say(t, false, "best %s; the checkpoint's was %s: looks for it anew",
                      options->best, t->past.best);
    }
  } else if (options->resume) {
    shoal_train_say(t, false, "nothing to resume in %s: from the start", options->folder);
  }
  if (!t->past.path && options->load) SHOAL_RETURN_IF_ERROR(load_others(t));
  SHOAL_RETURN_IF_ERROR(give_rate(t));
  if (!options->overwrite || !options->folder) return NULL;
  return shoal_world_agree(t->world,
                           t->talks ? shoal_checkpoint_clear(options->folder, t->allocator) : NULL);
}

// ---- saving ---------------------------------------------------------------------------

// No loss tells of an update before the next step: what is saved would be the end of the run.
shoal_status_t shoal_train_check_parameters(shoal_trainer_t *t) {
  shoal_status_t status =
      shoal_session_check_finite(t->session, t->parameters.count, t->parameters.items);
  if (shoal_status_code(status) != SHOAL_MISMATCH) return status;
  shoal_status_t said = SHOAL_ERROR_HINT(
      MISMATCH, "lower --lr; f16 needs --mixed; --check-nan names the first bad value",
      "the update of step %lld has spoiled the model: %s", (long long)t->step,
      shoal_status_message(status));
  shoal_status_free(status);
  return said;
}

// A checkpoint is complete.
static shoal_status_t saved(shoal_trainer_t *t, const char *path) {
  shoal_train_say(t, false, "saved %s", path);
  SHOAL_RETURN_IF_ERROR(shoal_train_tell(t, SHOAL_TRAIN_SAVE, path));
  if (!t->talks) return NULL;
  return shoal_train_alone(
      t, shoal_checkpoint_prune(t->options->folder, t->options->keep, t->allocator));
}

// What was written beside the steps is complete: a call that waits for it has returned.
static shoal_status_t saved_beside(shoal_trainer_t *t) {
  const char *path = t->saving;
  t->saving = NULL;
  return path ? saved(t, path) : NULL;
}

static shoal_status_t save_as(shoal_trainer_t *t, const char *path) {
  if (!path) return shoal_train_alone(t, SHOAL_OOM());
  SHOAL_RETURN_IF_ERROR(shoal_train_check_parameters(t));
  SHOAL_RETURN_IF_ERROR(shoal_train_alone(t, write_note(t)));
  const bool async = t->options->save_async;
  SHOAL_RETURN_IF_ERROR(
      shoal_save_with(t->session, path, &(shoal_save_options_t){.training = true, .async = async}));
  SHOAL_RETURN_IF_ERROR(saved_beside(t));  // the one before
  if (!async) return saved(t, path);
  t->saving = path;
  return NULL;
}

shoal_status_t shoal_train_save_end(shoal_trainer_t *t) {
  if (!t->saving) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_session_wait(t->session));
  return saved_beside(t);
}

shoal_status_t shoal_train_save(shoal_trainer_t *t) {
  const shoal_train_options_t *options = t->options;
  if (!options->folder) return NULL;
  return save_as(
      t, shoal_arena_printf(&t->arena, "%s/step-%lld", options->folder, (long long)t->step));
}

shoal_status_t shoal_train_save_best(shoal_trainer_t *t) {
  const char *name = t->options->best;
  if (!name || !t->options->folder) return NULL;
  const bool largest = name[0] == '+';
  const shoal_train_metric_t *metric = NULL;
  for (int64_t i = 0; i < t->report.metric_count && !metric; ++i) {
    if (strcmp(t->report.metrics[i].name, name + largest) == 0) metric = &t->report.metrics[i];
  }
  if (!metric || isnan(metric->value)) return NULL;
  const double best = t->report.best;
  if (t->report.best_step > 0 && (largest ? metric->value <= best : metric->value >= best)) {
    return NULL;
  }
  t->report.best = metric->value;
  t->report.best_step = t->step;
  return save_as(t, shoal_arena_printf(&t->arena, "%s/best", t->options->folder));
}

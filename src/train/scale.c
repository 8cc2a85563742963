// Loss scales: under f16 an update whose gradients are not all finite is skipped, which nothing but
// the state "updates" tells. How many were is logged; a run that goes on without having counted
// them before - it was one of f32 - counts on from its step, which the moments have seen.
#include <string.h>

#include "base/status.h"
#include "graph/graph.h"
#include "run/shards.h"
#include "train/train_impl.h"

// "updates", or "NAME.updates" of an optimizer with a name, beside its "loss_scale".
static bool is_counter(const shoal_trainer_t *t, const shoal_state_info_t *state,
                       shoal_train_scale_t *out_scale) {
  static const char word[] = "updates";
  const size_t length = strlen(state->name), tail = sizeof word - 1;
  if (length < tail || strcmp(state->name + length - tail, word) != 0) return false;
  const int prefix = (int)(length - tail);
  if (prefix > 0 && state->name[prefix - 1] != '.') return false;
  *out_scale = (shoal_train_scale_t){.updates = state->name};
  snprintf(out_scale->step, sizeof out_scale->step, "%.*sstep", prefix, state->name);
  snprintf(out_scale->scale, sizeof out_scale->scale, "%.*sloss_scale", prefix, state->name);
  return shoal_model_find_state(t->model, out_scale->scale) >= 0;
}

shoal_status_t shoal_train_scales_find(shoal_trainer_t *t) {
  for (int64_t i = 0; i < t->model->states.count; ++i) {
    shoal_train_scale_t scale;
    if (!is_counter(t, &t->model->states.items[i], &scale)) continue;
    if (!SHOAL_PUSH(&t->arena, &t->scales, scale)) return SHOAL_OOM();
  }
  return NULL;
}

// ---- going on -------------------------------------------------------------------------

// Moments that begin anew have seen no update.
static bool has_moments(const shoal_trainer_t *t, const shoal_shards_t *shards) {
  for (int64_t i = 0; i < t->model->states.count; ++i) {
    const char *name = t->model->states.items[i].name, *mark = strchr(name, '#');
    if (!mark || strcmp(mark, "#average") == 0 || strcmp(mark, "#good") == 0) continue;
    if (!shoal_shards_find(shards, name)) return false;
  }
  return true;
}

static shoal_status_t list_uncounted(shoal_trainer_t *t, bool *out_uncounted) {
  shoal_shards_t shards;
  SHOAL_RETURN_IF_ERROR(shoal_shards_open(t->past.path, &t->arena, &shards));
  for (int64_t i = 0; i < t->scales.count && has_moments(t, &shards); ++i) {
    const shoal_train_scale_t *scale = &t->scales.items[i];
    out_uncounted[i] =
        !shoal_shards_find(&shards, scale->updates) && shoal_shards_find(&shards, scale->step);
  }
  shoal_shards_close(&shards);
  return NULL;
}

shoal_status_t shoal_train_scales_resume(shoal_trainer_t *t) {
  bool *uncounted = SHOAL_NEW(&t->arena, bool, t->scales.count);
  SHOAL_RETURN_IF_ERROR(
      shoal_world_agree(t->world, uncounted ? list_uncounted(t, uncounted) : SHOAL_OOM()));
  for (int64_t i = 0; i < t->scales.count; ++i) {
    const shoal_train_scale_t *scale = &t->scales.items[i];
    int64_t count = 0;
    if (!uncounted[i]) continue;
    SHOAL_RETURN_IF_ERROR(shoal_session_get(t->session, scale->step, &count, sizeof count));
    SHOAL_RETURN_IF_ERROR(shoal_session_set(t->session, scale->updates, &count, sizeof count));
    shoal_train_say(t, false, "%s counts on from %lld, the step of the checkpoint", scale->updates,
                    (long long)count);
  }
  return NULL;
}

// ---- what is skipped ------------------------------------------------------------------

shoal_status_t shoal_train_scales_begin(shoal_trainer_t *t) {
  for (int64_t i = 0; i < t->scales.count; ++i) {
    shoal_train_scale_t *scale = &t->scales.items[i];
    SHOAL_RETURN_IF_ERROR(
        shoal_session_get(t->session, scale->updates, &scale->before, sizeof scale->before));
  }
  return NULL;
}

shoal_status_t shoal_train_scales_look(shoal_trainer_t *t) {
  t->report.skipped = 0;
  for (int64_t i = 0; i < t->scales.count; ++i) {
    const shoal_train_scale_t *scale = &t->scales.items[i];
    int64_t now = 0;
    SHOAL_RETURN_IF_ERROR(shoal_session_get(t->session, scale->updates, &now, sizeof now));
    t->report.skipped += t->step - t->report.start - (now - scale->before);
  }
  return NULL;
}

shoal_status_t shoal_train_scales_end(shoal_trainer_t *t) {
  const int64_t updates = (t->step - t->report.start) * t->scales.count;
  if (updates == 0 || t->report.skipped < updates) return NULL;
  float scale = 0;
  SHOAL_RETURN_IF_ERROR(
      shoal_session_get(t->session, t->scales.items[0].scale, &scale, sizeof scale));
  shoal_train_say(t, false,
                  "warning: all %lld updates were skipped, because gradients were not finite: "
                  "nothing was learned. The loss scale has come down to %g; with more steps it "
                  "falls further, unless values overflow without it",
                  (long long)updates, (double)scale);
  return NULL;
}

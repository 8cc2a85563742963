// A folder of plans that were made before. An entry is named by a hash of all that shoal_plan_make
// is asked for and of this build; its first line has a hash of the plan's text behind it, and the
// text's own guards (model, rules, intent, ranks) decide whether it still holds. A cache never
// makes planning fail: what is wrong with it is noted.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/build.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"
#include "planners/planners.h"

#define HEAD "shoal_plan_cache 1 "

static uint64_t add_text(uint64_t hash, const char *text) {
  return shoal_hash_string(shoal_hash_int(hash, text != NULL), text ? text : "");
}

static uint64_t key_of(const shoal_model_t *model, const shoal_plan_options_t *o) {
  uint64_t hash = shoal_hash_int(SHOAL_HASH_START, (int64_t)shoal_build_hash());
  hash = shoal_hash_int(hash, (int64_t)shoal_model_structure_hash(model));
  hash = add_text(add_text(add_text(hash, o->strategy), o->mesh), o->cluster);
  hash = shoal_hash_int(shoal_hash_int(hash, o->world), o->layout_count);
  for (int64_t i = 0; i < o->layout_count; ++i)
    hash = add_text(add_text(hash, o->layouts[i].pattern), o->layouts[i].value);
  for (int64_t i = 0; i < o->decision_count; ++i) {
    const shoal_intent_decision_t *d = &o->decisions[i];
    hash = add_text(add_text(add_text(hash, d->kind), d->pattern), d->choice);
    hash = add_text(add_text(hash, d->by), d->reason);
  }
  return hash;
}

// Puts what is wrong into the note; takes the status.
static void complain(shoal_cache_note_t *note, const char *what, shoal_status_t status) {
  snprintf(note->text, sizeof note->text, "%s: %s", what, shoal_status_message(status));
  shoal_status_free(status);
}

shoal_status_t shoal_cache_open(const shoal_model_t *model, const shoal_plan_options_t *options,
                                shoal_arena_t *arena, const char **out_path) {
  *out_path =
      shoal_arena_printf(arena, "%s/%016" PRIx64 ".plan", options->cache, key_of(model, options));
  return *out_path ? NULL : SHOAL_OOM();
}

// The plan's text behind the first line; NULL: damaged.
static const char *text_of(const char *data, int64_t size) {
  uint64_t hash = 0;
  const char *line = memchr(data, '\n', (size_t)size);
  if (!line || sscanf(data, HEAD "%" SCNx64, &hash) != 1) return NULL;
  const size_t length = (size_t)(data + size - (line + 1));
  if (strlen(line + 1) != length) return NULL;
  return shoal_hash_string(SHOAL_HASH_START, line + 1) == hash ? line + 1 : NULL;
}

shoal_status_t shoal_cache_read(const char *path, const shoal_model_t *model, shoal_rules_t *rules,
                                const shoal_plan_options_t *options, shoal_arena_t *arena,
                                shoal_cache_note_t *note, shoal_plan_t **out_plan) {
  const char *data;
  int64_t size;
  *out_plan = NULL;
  shoal_status_t status = shoal_file_read(path, arena, &data, &size);
  if (shoal_status_code(status) == SHOAL_NOT_FOUND) {
    shoal_status_free(status);
    return NULL;
  }
  const char *text = status ? NULL : text_of(data, size);
  bool stale = false;
  if (!status && !text) status = SHOAL_ERROR(INVALID_ARGUMENT, "'%s' is damaged", path);
  if (!status)
    status = shoal_plan_parse(path, text, model, rules, options->world, options->allocator, &stale,
                              out_plan);
  if (!status && stale) {
    shoal_plan_free(*out_plan);
    *out_plan = NULL;
    status = SHOAL_ERROR(INVALID_ARGUMENT, "'%s' was made with other rules", path);
  }
  if (shoal_status_code(status) == SHOAL_OUT_OF_MEMORY) return status;
  if (status) complain(note, "an entry of the plan cache is not used", status);
  note->hit = *out_plan != NULL;
  return NULL;
}

shoal_status_t shoal_cache_write(const char *path, const shoal_plan_t *plan,
                                 const shoal_plan_options_t *options, shoal_arena_t *arena,
                                 shoal_cache_note_t *note) {
  const char *text;
  SHOAL_RETURN_IF_ERROR(shoal_plan_print(plan, arena, &text));
  const uint64_t hash = shoal_hash_string(SHOAL_HASH_START, text);
  const char *data = shoal_arena_printf(arena, HEAD "%016" PRIx64 "\n%s", hash, text);
  if (!data) return SHOAL_OOM();
  shoal_status_t status = shoal_file_make_folder(options->cache);
  if (!status) status = shoal_file_write(path, data, (int64_t)strlen(data));
  if (status) complain(note, "the plan is not kept in the cache", status);
  return NULL;
}

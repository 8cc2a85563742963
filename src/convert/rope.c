// Rotary positions in a config.json: how fast they turn (rope_theta), and how they are stretched
// for texts longer than those of training. They stand in an object "rope_parameters", since
// transformers 5, or "rope_scaling", before it; the base may stand beside that object.
#include <string.h>

#include "base/json.h"
#include "convert/convert_impl.h"

static const char *const OBJECTS[] = {"rope_parameters", "rope_scaling"};

// Settings of the zoo and keys of the object that say the same; what a setting is by default.
typedef struct stretch {
  const char *ours, *theirs, *value;
} stretch_t;
static const stretch_t STRETCHES[] = {{"rotary_factor", "factor", "1"},
                                      {"rotary_low", "low_freq_factor", "1"},
                                      {"rotary_high", "high_freq_factor", "4"},
                                      {"rotary_original", "original_max_position_embeddings", "0"}};
enum { STRETCH_COUNT = sizeof STRETCHES / sizeof *STRETCHES };

// Kinds of positions, each with how many of the keys above it has; it must have them all.
typedef struct kind {
  const char *name;
  int keys;
} kind_t;
static const kind_t KINDS[] = {{"default", 0}, {"linear", 1}, {"llama3", STRETCH_COUNT}};
enum { KIND_COUNT = sizeof KINDS / sizeof *KINDS };

static const shoal_json_t *find_value(const shoal_json_t *object, const char *key) {
  const shoal_json_t *value = shoal_json_find(object, key);
  return value && value->kind != SHOAL_JSON_NULL ? value : NULL;
}

static const shoal_json_t *find_object(const shoal_json_t *config, int i) {
  const shoal_json_t *rope = find_value(config, OBJECTS[i]);
  return rope && rope->kind == SHOAL_JSON_OBJECT ? rope : NULL;
}

const shoal_json_t *shoal_convert_rope_base(const shoal_json_t *config) {
  const shoal_json_t *value = find_value(config, "rope_theta");
  for (int i = 0; i < 2 && !value; ++i) {
    const shoal_json_t *rope = find_object(config, i);
    if (rope) value = find_value(rope, "rope_theta");
  }
  return value;
}

static bool can_stretch(const shoal_zoo_family_t *family) {
  for (int64_t i = 0; i < family->setting_count; ++i) {
    if (strcmp(family->settings[i].name, STRETCHES[0].ours) == 0) return true;
  }
  return false;
}

static shoal_status_t refuse(const shoal_json_t *value, const char *text) {
  return SHOAL_ERROR(UNSUPPORTED,
                     "%s is %s; the zoo's rotary positions are plain, or stretched as linear or "
                     "llama3",
                     value->path, text);
}

// The kind that an object names, under either of two keys.
static shoal_status_t read_kind(const shoal_json_t *rope, shoal_arena_t *arena,
                                const kind_t **out_kind) {
  static const char *const keys[] = {"rope_type", "type"};
  *out_kind = &KINDS[0];
  const shoal_json_t *value = find_value(rope, keys[0]);
  if (!value) value = find_value(rope, keys[1]);
  if (!value) return NULL;
  const char *text;
  SHOAL_RETURN_IF_ERROR(shoal_convert_value_text(value, arena, &text));
  for (int i = 0; i < KIND_COUNT; ++i) {
    if (strcmp(KINDS[i].name, text) != 0) continue;
    *out_kind = &KINDS[i];
    return NULL;
  }
  return refuse(value, text);
}

// Refuses what an object says beside its kind's keys; the base must be the one beside it.
static shoal_status_t check_rest(const shoal_json_t *config, const shoal_json_t *rope,
                                 const kind_t *kind, shoal_arena_t *arena) {
  const shoal_json_t *base = find_value(config, "rope_theta");
  for (int64_t i = 0; i < rope->count; ++i) {
    const shoal_json_t *value = &rope->children[i];
    const char *text, *allowed = "";
    if (value->kind == SHOAL_JSON_NULL) continue;
    SHOAL_RETURN_IF_ERROR(shoal_convert_value_text(value, arena, &text));
    if (strcmp(value->key, "rope_theta") == 0) {
      allowed = text;
      if (base) SHOAL_RETURN_IF_ERROR(shoal_convert_value_text(base, arena, &allowed));
      if (!shoal_convert_is_one_of(allowed, text))
        return SHOAL_ERROR(INVALID_ARGUMENT, "%s is %s, and %s is %s", value->path, text,
                           base->path, allowed);
    } else if (strcmp(value->key, "rope_type") == 0 || strcmp(value->key, "type") == 0) {
      allowed = kind->name;
    } else if (strcmp(value->key, "partial_rotary_factor") == 0) {
      allowed = "1";
    }
    for (int k = 0; k < kind->keys; ++k) {
      if (strcmp(value->key, STRETCHES[k].theirs) == 0) allowed = text;
    }
    if (!shoal_convert_is_one_of(allowed, text)) return refuse(value, text);
  }
  return NULL;
}

shoal_status_t shoal_convert_rope_read(const shoal_json_t *config, const shoal_zoo_family_t *family,
                                       shoal_arena_t *arena, shoal_text_t *text) {
  const shoal_json_t *first = NULL;
  for (int i = 0; i < 2; ++i) {
    const shoal_json_t *any = find_value(config, OBJECTS[i]), *rope = find_object(config, i);
    const kind_t *kind;
    if (!any) continue;
    if (!rope) return SHOAL_ERROR(UNSUPPORTED, "%s is no object", any->path);
    SHOAL_RETURN_IF_ERROR(read_kind(rope, arena, &kind));
    SHOAL_RETURN_IF_ERROR(check_rest(config, rope, kind, arena));
    if (kind->keys == 0) continue;
    if (first) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s and %s both stretch positions", first->path,
                         rope->path);
    }
    if (!can_stretch(family))
      return SHOAL_ERROR(UNSUPPORTED, "%s is %s; %s of the zoo has plain rotary positions",
                         rope->path, kind->name, family->name);
    first = rope;
    for (int k = 0; k < kind->keys; ++k) {
      const shoal_json_t *value = find_value(rope, STRETCHES[k].theirs);
      if (!value) {
        return SHOAL_ERROR(INVALID_ARGUMENT, "%s is %s and has no %s", rope->path, kind->name,
                           STRETCHES[k].theirs);
      }
      SHOAL_RETURN_IF_ERROR(shoal_convert_add_setting(STRETCHES[k].ours, value, arena, text));
    }
  }
  return NULL;
}

void shoal_convert_rope_write(const shoal_zoo_t *zoo, shoal_arena_t *arena,
                              shoal_json_writer_t *w) {
  const char *values[STRETCH_COUNT];
  for (int i = 0; i < STRETCH_COUNT; ++i) {
    values[i] = shoal_zoo_setting(zoo, STRETCHES[i].ours, arena);
    if (!values[i]) return;  // positions of this family are plain
    if (strcmp(values[i], "0") == 0) values[i] = STRETCHES[i].value;
  }
  const kind_t *kind = &KINDS[strcmp(values[STRETCH_COUNT - 1], "0") == 0 ? 1 : 2];
  if (strcmp(values[0], "1") == 0) return;
  shoal_json_begin(w, OBJECTS[1], '{', true);  // both versions read the older object
  shoal_json_string(w, "rope_type", kind->name);
  for (int i = 0; i < kind->keys; ++i) shoal_convert_add_value(w, STRETCHES[i].theirs, values[i]);
  shoal_json_end(w, '}');
}

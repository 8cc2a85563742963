// JSON: jansson parses; the tree is copied into an arena and jansson's own is dropped at once.
// Numbers JSON cannot say (inf, nan) are written as strings, which shoal_json_get_real takes back.
#include "base/json.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/locale.h"
#include "base/status.h"
#include "shoal/options.h"

enum { FEW = 16 };  // keys that are found by looking at all of them

static bool index_keys(shoal_arena_t *arena, shoal_json_t *object) {
  if (object->count <= FEW) return true;
  shoal_index_t *keys = SHOAL_NEW(arena, shoal_index_t, 1);
  if (!keys) return false;
  shoal_index_init(arena, keys);
  for (int64_t i = 0; i < object->count; ++i) {
    uint64_t hash = shoal_hash_string(SHOAL_HASH_START, object->children[i].key);
    if (!shoal_index_add(keys, hash, i)) return false;
  }
  object->keys = keys;
  return true;
}

static bool convert(json_t *from, const char *key, const char *path, shoal_arena_t *arena,
                    shoal_json_t *to) {
  *to = (shoal_json_t){.key = key, .path = path};
  switch (json_typeof(from)) {
    case JSON_NULL:
      to->kind = SHOAL_JSON_NULL;
      return true;
    case JSON_TRUE:
    case JSON_FALSE:
      to->kind = SHOAL_JSON_BOOL;
      to->boolean = json_is_true(from);
      return true;
    case JSON_INTEGER:
      to->kind = SHOAL_JSON_INT;
      to->integer = json_integer_value(from);
      return true;
    case JSON_REAL:
      to->kind = SHOAL_JSON_REAL;
      to->real = json_real_value(from);
      return true;
    case JSON_STRING:
      to->kind = SHOAL_JSON_STRING;
      to->string = shoal_arena_strdup(arena, json_string_value(from));
      return to->string;
    case JSON_ARRAY: {
      to->kind = SHOAL_JSON_ARRAY;
      to->count = (int64_t)json_array_size(from);
      to->children = SHOAL_NEW(arena, shoal_json_t, to->count);
      if (!to->children) return false;
      for (int64_t i = 0; i < to->count; ++i) {
        const char *child_path = shoal_arena_printf(arena, "%s[%lld]", path, (long long)i);
        if (!child_path ||
            !convert(json_array_get(from, (size_t)i), NULL, child_path, arena, &to->children[i])) {
          return false;
        }
      }
      return true;
    }
    case JSON_OBJECT: {
      to->kind = SHOAL_JSON_OBJECT;
      to->children = SHOAL_NEW(arena, shoal_json_t, json_object_size(from));
      if (!to->children) return false;
      const char *name;
      json_t *value;
      json_object_foreach(from, name, value) {
        const char *child_key = shoal_arena_strdup(arena, name);
        const char *child_path = shoal_arena_printf(arena, "%s.%s", path, name);
        if (!child_key || !child_path ||
            !convert(value, child_key, child_path, arena, &to->children[to->count++])) {
          return false;
        }
      }
      return index_keys(arena, to);
    }
  }
  return false;
}

shoal_status_t shoal_json_parse(const char *name, const char *text, shoal_arena_t *arena,
                                const shoal_json_t **out_json) {
  *out_json = NULL;
  json_error_t error;
  // jansson reads numbers by the locale's decimal point, if that is one byte.
  const locale_t before = shoal_locale_enter();
  json_t *document = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
  shoal_locale_leave(before);
  if (!document) {
    if (json_error_code(&error) == json_error_out_of_memory) return SHOAL_OOM();
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s:%d:%d: %s", name, error.line, error.column,
                       error.text);
  }
  const char *path = shoal_arena_strdup(arena, name);
  shoal_json_t *root = SHOAL_NEW(arena, shoal_json_t, 1);
  bool converted = path && root && convert(document, NULL, path, arena, root);
  json_decref(document);
  if (!converted) return SHOAL_OOM();
  *out_json = root;
  return NULL;
}

// ---- reading ------------------------------------------------------------------------------------

static const char *kind_name(shoal_json_kind_t kind) {
  static const char *const names[] = {"null",     "true or false", "a whole number", "a number",
                                      "a string", "a list",        "an object"};
  return names[kind];
}

const shoal_json_t *shoal_json_find(const shoal_json_t *object, const char *key) {
  if (!object || object->kind != SHOAL_JSON_OBJECT) return NULL;
  if (object->keys) {
    uint64_t hash = shoal_hash_string(SHOAL_HASH_START, key);
    for (int64_t at = -1, i; (i = shoal_index_next(object->keys, hash, &at)) >= 0;) {
      if (strcmp(object->children[i].key, key) == 0) return &object->children[i];
    }
    return NULL;
  }
  for (int64_t i = 0; i < object->count; ++i) {
    if (strcmp(object->children[i].key, key) == 0) return &object->children[i];
  }
  return NULL;
}

static shoal_status_t get(const shoal_json_t *object, const char *key, const shoal_json_t **out) {
  if (object->kind != SHOAL_JSON_OBJECT) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s: expected an object, found %s", object->path,
                       kind_name(object->kind));
  }
  *out = shoal_json_find(object, key);
  if (*out) return NULL;
  return SHOAL_ERROR(INVALID_ARGUMENT, "%s: the key '%s' is missing", object->path, key);
}

static shoal_status_t wrong_kind(const shoal_json_t *value, shoal_json_kind_t wanted) {
  return SHOAL_ERROR(INVALID_ARGUMENT, "%s: expected %s, found %s", value->path, kind_name(wanted),
                     kind_name(value->kind));
}

shoal_status_t shoal_json_get_child(const shoal_json_t *object, const char *key,
                                    shoal_json_kind_t kind, const shoal_json_t **out_child) {
  SHOAL_RETURN_IF_ERROR(get(object, key, out_child));
  return (*out_child)->kind == kind ? NULL : wrong_kind(*out_child, kind);
}

shoal_status_t shoal_json_get_string(const shoal_json_t *object, const char *key,
                                     const char **out_string) {
  const shoal_json_t *value;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(object, key, SHOAL_JSON_STRING, &value));
  *out_string = value->string;
  return NULL;
}

shoal_status_t shoal_json_get_int(const shoal_json_t *object, const char *key, int64_t *out_value) {
  const shoal_json_t *value;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(object, key, SHOAL_JSON_INT, &value));
  *out_value = value->integer;
  return NULL;
}

shoal_status_t shoal_json_get_real(const shoal_json_t *object, const char *key, double *out_value) {
  const shoal_json_t *value;
  SHOAL_RETURN_IF_ERROR(get(object, key, &value));
  if (value->kind == SHOAL_JSON_REAL) {
    *out_value = value->real;
  } else if (value->kind == SHOAL_JSON_INT) {
    *out_value = (double)value->integer;
  } else if (value->kind == SHOAL_JSON_STRING && strcmp(value->string, "inf") == 0) {
    *out_value = INFINITY;
  } else if (value->kind == SHOAL_JSON_STRING && strcmp(value->string, "-inf") == 0) {
    *out_value = -INFINITY;
  } else if (value->kind == SHOAL_JSON_STRING && strcmp(value->string, "nan") == 0) {
    *out_value = NAN;
  } else {
    return wrong_kind(value, SHOAL_JSON_REAL);
  }
  return NULL;
}

shoal_status_t shoal_json_only(const shoal_json_t *object, const char *const *keys, int64_t count) {
  if (object->kind != SHOAL_JSON_OBJECT) return wrong_kind(object, SHOAL_JSON_OBJECT);
  for (int64_t i = 0; i < object->count; ++i) {
    const char *key = object->children[i].key;
    bool found = false;
    for (int64_t k = 0; k < count && !found; ++k) found = strcmp(key, keys[k]) == 0;
    if (found) continue;
    shoal_hint_t hint;
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, shoal_did_you_mean(key, keys, count, NULL, &hint),
                            "%s: unknown key '%s'", object->path, key);
  }
  return NULL;
}

// ---- writing ------------------------------------------------------------------------------------

void shoal_json_writer_init(shoal_text_t *text, shoal_json_writer_t *out_writer) {
  *out_writer = (shoal_json_writer_t){.text = text};
}

static uint32_t depth_bit(const shoal_json_writer_t *w) {
  return UINT32_C(1) << (w->depth < 31 ? w->depth : 31);
}

static void indent(shoal_json_writer_t *w) {
  shoal_text_addf(w->text, "\n%*s", 2 * w->depth, "");
}

static void add_string(shoal_json_writer_t *w, const char *string) {
  shoal_text_add(w->text, "\"");
  const char *plain = string;
  for (const char *at = string;; ++at) {
    unsigned char c = (unsigned char)*at;
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    if (at > plain) shoal_text_addf(w->text, "%.*s", (int)(at - plain), plain);
    plain = at + 1;
    if (!c) break;
    if (c == '"' || c == '\\') {
      shoal_text_addf(w->text, "\\%c", c);
    } else if (c == '\n') {
      shoal_text_add(w->text, "\\n");
    } else {
      shoal_text_addf(w->text, "\\u%04x", c);
    }
  }
  shoal_text_add(w->text, "\"");
}

// Comma, line break and key before an item.
static void start_item(shoal_json_writer_t *w, const char *key) {
  uint32_t bit = depth_bit(w);
  if (w->depth) {
    if (w->has_item & bit) shoal_text_add(w->text, w->one_line & bit ? ", " : ",");
    if (!(w->one_line & bit)) indent(w);
  }
  w->has_item |= bit;
  if (key) {
    add_string(w, key);
    shoal_text_add(w->text, ": ");
  }
}

void shoal_json_begin(shoal_json_writer_t *w, const char *key, char bracket, bool one_line) {
  start_item(w, key);
  shoal_text_addf(w->text, "%c", bracket);
  bool inside_line = w->depth && (w->one_line & depth_bit(w));
  ++w->depth;
  uint32_t bit = depth_bit(w);
  w->has_item &= ~bit;
  w->one_line = one_line || inside_line ? w->one_line | bit : w->one_line & ~bit;
}

void shoal_json_end(shoal_json_writer_t *w, char bracket) {
  uint32_t bit = depth_bit(w);
  bool broken = (w->has_item & bit) && !(w->one_line & bit);
  if (w->depth) --w->depth;
  if (broken) indent(w);
  shoal_text_addf(w->text, "%c%s", bracket, w->depth ? "" : "\n");
}

void shoal_json_string(shoal_json_writer_t *w, const char *key, const char *value) {
  start_item(w, key);
  add_string(w, value);
}

void shoal_json_int(shoal_json_writer_t *w, const char *key, int64_t value) {
  start_item(w, key);
  shoal_text_addf(w->text, "%lld", (long long)value);
}

void shoal_json_real(shoal_json_writer_t *w, const char *key, double value) {
  start_item(w, key);
  if (!isfinite(value)) {
    shoal_text_add(w->text, isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"");
    return;
  }
  size_t before = w->text->length;
  shoal_text_add_double(w->text, value);
  if (!w->text->failed && !strpbrk(w->text->data + before, ".e")) shoal_text_add(w->text, ".0");
}

void shoal_json_bool(shoal_json_writer_t *w, const char *key, bool value) {
  start_item(w, key);
  shoal_text_add(w->text, value ? "true" : "false");
}

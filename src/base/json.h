// JSON documents as arena trees (parsed and printed through jansson). Object keys keep file order.
// Getters name the key and the path in their errors; shoal_json_only refuses unknown keys with a
// suggestion.
#ifndef SHOAL_BASE_JSON_H_
#define SHOAL_BASE_JSON_H_

#include "base/index.h"
#include "base/text.h"

typedef enum shoal_json_kind {
  SHOAL_JSON_NULL,
  SHOAL_JSON_BOOL,
  SHOAL_JSON_INT,
  SHOAL_JSON_REAL,
  SHOAL_JSON_STRING,
  SHOAL_JSON_ARRAY,
  SHOAL_JSON_OBJECT
} shoal_json_kind_t;

typedef struct shoal_json {
  shoal_json_kind_t kind;
  union {
    bool boolean;
    int64_t integer;
    double real;
    const char *string;
  };
  const char *key;              // inside an object
  struct shoal_json *children;  // array or object, count of them
  int64_t count;
  const shoal_index_t *keys;  // of an object with many children; else NULL
  const char *path;           // "plan.meshes[0].name", for messages
} shoal_json_t;

SHOAL_MUST_USE shoal_status_t shoal_json_parse(const char *name, const char *text,
                                               shoal_arena_t *arena, const shoal_json_t **out_json);
const shoal_json_t *shoal_json_find(const shoal_json_t *object, const char *key);  // NULL if absent
SHOAL_MUST_USE shoal_status_t shoal_json_get_string(const shoal_json_t *object, const char *key,
                                                    const char **out_string);
SHOAL_MUST_USE shoal_status_t shoal_json_get_int(const shoal_json_t *object, const char *key,
                                                 int64_t *out_value);
SHOAL_MUST_USE shoal_status_t shoal_json_get_real(const shoal_json_t *object, const char *key,
                                                  double *out_value);  // ints are accepted
SHOAL_MUST_USE shoal_status_t shoal_json_get_child(const shoal_json_t *object, const char *key,
                                                   shoal_json_kind_t kind,
                                                   const shoal_json_t **out_child);
SHOAL_MUST_USE shoal_status_t shoal_json_only(const shoal_json_t *object, const char *const *keys,
                                              int64_t count);

// Writing: straight into a text, with indentation handled here.
typedef struct shoal_json_writer {
  shoal_text_t *text;
  int depth;
  uint32_t has_item;  // bit per depth: a comma is due
  uint32_t one_line;  // bit per depth: items stay on this line
} shoal_json_writer_t;

void shoal_json_writer_init(shoal_text_t *text, shoal_json_writer_t *out_writer);
void shoal_json_begin(shoal_json_writer_t *w, const char *key, char bracket,
                      bool one_line);                       // '{' or '['
void shoal_json_end(shoal_json_writer_t *w, char bracket);  // '}' or ']'
void shoal_json_string(shoal_json_writer_t *w, const char *key, const char *value);
void shoal_json_int(shoal_json_writer_t *w, const char *key, int64_t value);
void shoal_json_real(shoal_json_writer_t *w, const char *key, double value);
void shoal_json_bool(shoal_json_writer_t *w, const char *key, bool value);

#endif  // SHOAL_BASE_JSON_H_

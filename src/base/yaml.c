// YAML: libyaml composes a document, which is copied into the arena. Aliases are copied out where
// they occur; depth and size are bounded, so that a file cannot unfold without end.
#include "base/yaml.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/locale.h"
#include "base/status.h"

enum { MAX_DEPTH = 64, MAX_NODES = 1000000 };

typedef struct converter {
  const char *name;
  yaml_document_t document;
  shoal_arena_t *arena;
  int64_t nodes;
} converter_t;

static shoal_status_t at_line(const converter_t *c, const yaml_node_t *node, const char *message) {
  return SHOAL_ERROR(INVALID_ARGUMENT, "%s:%zu: %s", c->name, node->start_mark.line + 1, message);
}

// "name:line: where", the where of the root being empty
static const char *path_of(converter_t *c, const yaml_node_t *node, const char *where) {
  return shoal_arena_printf(c->arena, "%s:%zu%s%s", c->name, node->start_mark.line + 1,
                            where[0] ? ": " : "", where);
}

static bool one_of(const char *text, const char *const *words) {
  for (; *words; ++words) {
    if (strcmp(text, *words) == 0) return true;
  }
  return false;
}

// Gives a plain scalar its kind; what is nothing else stays a string.
static void resolve(const char *text, shoal_json_t *value) {
  static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
  static const char *const trues[] = {"true", "True", "TRUE", "yes", "Yes",
                                      "YES",  "on",   "On",   "ON",  NULL};
  static const char *const falses[] = {"false", "False", "FALSE", "no",  "No",
                                       "NO",    "off",   "Off",   "OFF", NULL};
  if (one_of(text, nulls)) {
    value->kind = SHOAL_JSON_NULL;
  } else if (one_of(text, trues) || one_of(text, falses)) {
    value->kind = SHOAL_JSON_BOOL;
    value->boolean = one_of(text, trues);
  } else if (strspn(text, "+-.0123456789") > 0) {
    char *end;
    errno = 0;
    long long integer = strtoll(text, &end, text[0] == '0' && text[1] == 'x' ? 16 : 10);
    if (!*end && end != text && !errno) {
      value->kind = SHOAL_JSON_INT;
      value->integer = integer;
      return;
    }
    double real = shoal_parse_double(text, &end);
    if (!*end && end != text && strspn(text, "+-.0123456789eE") == strlen(text)) {
      value->kind = SHOAL_JSON_REAL;
      value->real = real;
    }
  }
}

static shoal_status_t convert(converter_t *c, int index, const char *key, const char *where,
                              int depth, shoal_json_t *to);

static shoal_status_t convert_mapping(converter_t *c, const yaml_node_t *node, const char *where,
                                      int depth, shoal_json_t *to) {
  to->kind = SHOAL_JSON_OBJECT;
  int64_t count = node->data.mapping.pairs.top - node->data.mapping.pairs.start;
  to->children = SHOAL_NEW(c->arena, shoal_json_t, count);
  if (!to->children) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) {
    const yaml_node_pair_t *pair = &node->data.mapping.pairs.start[i];
    const yaml_node_t *key_node = yaml_document_get_node(&c->document, pair->key);
    if (key_node->type != YAML_SCALAR_NODE)
      return at_line(c, key_node, "a key must be a plain word");
    const char *key = shoal_arena_strdup(c->arena, (const char *)key_node->data.scalar.value);
    if (!key) return SHOAL_OOM();
    if (strcmp(key, "<<") == 0) return at_line(c, key_node, "merge keys (<<) are not supported");
    if (shoal_json_find(to, key)) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s:%zu: the key '%s' occurs twice", c->name,
                         key_node->start_mark.line + 1, key);
    }
    const char *child = shoal_arena_printf(c->arena, "%s%s%s", where, where[0] ? "." : "", key);
    if (!child) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(convert(c, pair->value, key, child, depth + 1, &to->children[i]));
    ++to->count;
  }
  return NULL;
}

static shoal_status_t convert_sequence(converter_t *c, const yaml_node_t *node, const char *where,
                                       int depth, shoal_json_t *to) {
  to->kind = SHOAL_JSON_ARRAY;
  int64_t count = node->data.sequence.items.top - node->data.sequence.items.start;
  to->children = SHOAL_NEW(c->arena, shoal_json_t, count);
  if (!to->children) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) {
    const char *child = shoal_arena_printf(c->arena, "%s[%lld]", where, (long long)i);
    if (!child) return SHOAL_OOM();
    int index = node->data.sequence.items.start[i];
    SHOAL_RETURN_IF_ERROR(convert(c, index, NULL, child, depth + 1, &to->children[i]));
    ++to->count;
  }
  return NULL;
}

static shoal_status_t convert(converter_t *c, int index, const char *key, const char *where,
                              int depth, shoal_json_t *to) {
  const yaml_node_t *node = yaml_document_get_node(&c->document, index);
  if (depth > MAX_DEPTH) return at_line(c, node, "values are nested too deeply");
  if (++c->nodes > MAX_NODES) return at_line(c, node, "the file unfolds to too many values");
  *to = (shoal_json_t){.key = key, .path = path_of(c, node, where)};
  if (!to->path) return SHOAL_OOM();
  if (node->type == YAML_MAPPING_NODE) return convert_mapping(c, node, where, depth, to);
  if (node->type == YAML_SEQUENCE_NODE) return convert_sequence(c, node, where, depth, to);
  to->kind = SHOAL_JSON_STRING;
  to->string = shoal_arena_strdup(c->arena, (const char *)node->data.scalar.value);
  if (!to->string) return SHOAL_OOM();
  if (node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) resolve(to->string, to);
  return NULL;
}

static shoal_status_t parser_error(const char *name, const yaml_parser_t *parser) {
  if (parser->error == YAML_MEMORY_ERROR) return SHOAL_OOM();
  size_t line = parser->error == YAML_READER_ERROR ? 0 : parser->problem_mark.line + 1;
  return SHOAL_ERROR(INVALID_ARGUMENT, "%s:%zu: %s", name, line,
                     parser->problem ? parser->problem : "not a YAML document");
}

static shoal_status_t parse(yaml_parser_t *parser, converter_t *c, shoal_json_t *root) {
  if (!yaml_parser_load(parser, &c->document)) return parser_error(c->name, parser);
  shoal_status_t status = NULL;
  if (yaml_document_get_root_node(&c->document)) {
    status = convert(c, 1, NULL, "", 0, root);
  } else {
    status = SHOAL_ERROR(INVALID_ARGUMENT, "%s: the file is empty", c->name);
  }
  yaml_document_delete(&c->document);
  if (status) return status;
  if (!yaml_parser_load(parser, &c->document)) return parser_error(c->name, parser);
  if (yaml_document_get_root_node(&c->document)) {
    status = SHOAL_ERROR(INVALID_ARGUMENT, "%s: the file has more than one document", c->name);
  }
  yaml_document_delete(&c->document);
  return status;
}

shoal_status_t shoal_yaml_parse(const char *name, const char *text, shoal_arena_t *arena,
                                const shoal_json_t **out_json) {
  *out_json = NULL;
  shoal_json_t *root = SHOAL_NEW(arena, shoal_json_t, 1);
  if (!root) return SHOAL_OOM();
  yaml_parser_t parser;
  if (!yaml_parser_initialize(&parser)) return SHOAL_OOM();
  yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
  converter_t c = {.name = name, .arena = arena};
  shoal_status_t status = parse(&parser, &c, root);
  yaml_parser_delete(&parser);
  if (!status) *out_json = root;
  return status;
}

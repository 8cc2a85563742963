// YAML (through libyaml) into the same tree as JSON, so that one set of getters reads both. A
// value's path carries its line: "cluster.yml:12: nodes[0].gpus". Plain scalars follow YAML 1.1 as
// people write it: null, true/false/yes/no/on/off, whole numbers, numbers; anything quoted is a
// string. One document; duplicate keys, keys that are not scalars and merge keys (<<) are refused.
#ifndef SHOAL_BASE_YAML_H_
#define SHOAL_BASE_YAML_H_

#include "base/json.h"

SHOAL_MUST_USE shoal_status_t shoal_yaml_parse(const char *name, const char *text,
                                               shoal_arena_t *arena, const shoal_json_t **out_json);

#endif  // SHOAL_BASE_YAML_H_

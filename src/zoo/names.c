// Lists of names: where a model's states lie among the tensors of another library (zoo.h).
#include <stdarg.h>

#include "base/locale.h"
#include "base/text.h"
#include "zoo/family.h"

// The pattern with the number in place of '#'.
static const char *numbered(shoal_zoo_map_t *map, const char *pattern) {
  shoal_text_t text;
  shoal_text_init(map->arena->allocator, &text);
  for (const char *at = pattern; *at; ++at) {
    if (*at == '#') {
      shoal_text_addf(&text, "%lld", (long long)map->number);
    } else {
      shoal_text_addf(&text, "%c", *at);
    }
  }
  const char *name = NULL;
  shoal_status_t status = shoal_text_finish(&text, map->arena, &name);
  if (status) map->failed = true;
  shoal_status_free(status);
  return name;
}

void shoal_zoo_map_add(shoal_zoo_map_t *map, shoal_zoo_name_t name) {
  name.ours = numbered(map, name.ours);
  name.theirs = numbered(map, name.theirs);
  if (!SHOAL_PUSH(map->arena, &map->names, name)) map->failed = true;
}

const char *shoal_zoo_map_text(shoal_zoo_map_t *map, const char *format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  shoal_format_args(text, sizeof text, format, args);
  va_end(args);
  const char *copy = shoal_arena_strdup(map->arena, text);
  if (!copy) map->failed = true;
  return copy ? copy : "";
}

static const char *joined(shoal_zoo_map_t *map, const char *prefix, const char *name) {
  return shoal_zoo_map_text(map, "%s%s", prefix, name);
}

void shoal_zoo_map_columns(shoal_zoo_map_t *map, const char *ours, const char *theirs, bool bias,
                           int64_t from, int64_t size) {
  shoal_zoo_name_t name = {.ours = joined(map, ours, "/weight"),
                           .theirs = joined(map, theirs, ".weight"),
                           .transposed = true,
                           .axis = 1,
                           .from = from,
                           .size = size};
  shoal_zoo_map_add(map, name);
  if (!bias) return;
  name.ours = joined(map, ours, "/bias");
  name.theirs = joined(map, theirs, ".bias");
  name.transposed = false;
  name.axis = 0;
  shoal_zoo_map_add(map, name);
}

void shoal_zoo_map_linear(shoal_zoo_map_t *map, const char *ours, const char *theirs, bool bias) {
  shoal_zoo_map_columns(map, ours, theirs, bias, 0, 0);
}

void shoal_zoo_map_norm(shoal_zoo_map_t *map, const char *ours, const char *theirs, bool bias) {
  SHOAL_ZOO_SAME(map, joined(map, ours, "/gamma"), joined(map, theirs, ".weight"));
  if (bias) SHOAL_ZOO_SAME(map, joined(map, ours, "/beta"), joined(map, theirs, ".bias"));
}

void shoal_zoo_map_qkv(shoal_zoo_map_t *map, const char *ours, const char *theirs, int64_t size,
                       int64_t heads, int64_t key_heads) {
  const int64_t keys = key_heads ? key_heads : heads;
  const char *qkv = joined(map, ours, "/qkv");
  shoal_zoo_map_columns(map, qkv, joined(map, theirs, ".q_proj"), false, 0, heads * size);
  shoal_zoo_map_columns(map, qkv, joined(map, theirs, ".k_proj"), false, heads * size, keys * size);
  shoal_zoo_map_columns(map, qkv, joined(map, theirs, ".v_proj"), false, (heads + keys) * size,
                        keys * size);
  shoal_zoo_map_linear(map, joined(map, ours, "/proj"), joined(map, theirs, ".o_proj"), false);
}

void shoal_zoo_map_llama(shoal_zoo_map_t *map, int64_t size, int64_t heads, int64_t key_heads) {
  shoal_zoo_map_norm(map, "block#/norm_1", "model.layers.#.input_layernorm", false);
  shoal_zoo_map_norm(map, "block#/norm_2", "model.layers.#.post_attention_layernorm", false);
  shoal_zoo_map_qkv(map, "block#/attn", "model.layers.#.self_attn", size, heads, key_heads);
}

void shoal_zoo_map_head(shoal_zoo_map_t *map, bool tied) {
  if (tied)
    SHOAL_ZOO_AGAIN(map, "wte/table", "lm_head.weight");
  else
    SHOAL_ZOO_TURNED(map, "head/weight", "lm_head.weight");
}

// ours with '.' for '/': names that differ in nothing else.
static const char *dotted(shoal_zoo_map_t *map, const char *ours) {
  char *text = shoal_arena_strdup(map->arena, ours);
  if (!text) map->failed = true;
  for (char *at = text; at && *at; ++at) {
    if (*at == '/') *at = '.';
  }
  return text ? text : "";
}

void shoal_zoo_map_conv(shoal_zoo_map_t *map, const char *ours, const char *theirs, bool bias) {
  if (!theirs) theirs = dotted(map, ours);
  SHOAL_ZOO_SAME(map, joined(map, ours, "/weight"), joined(map, theirs, ".weight"));
  if (bias) SHOAL_ZOO_SAME(map, joined(map, ours, "/bias"), joined(map, theirs, ".bias"));
}

void shoal_zoo_map_batch_norm(shoal_zoo_map_t *map, const char *ours, const char *theirs) {
  if (!theirs) theirs = dotted(map, ours);
  shoal_zoo_map_norm(map, ours, theirs, true);
  SHOAL_ZOO_SAME(map, joined(map, ours, "/running_mean"), joined(map, theirs, ".running_mean"));
  SHOAL_ZOO_SAME(map, joined(map, ours, "/running_variance"), joined(map, theirs, ".running_var"));
}

shoal_status_t shoal_zoo_names(const shoal_zoo_t *zoo, shoal_arena_t *arena, int64_t *out_count,
                               const shoal_zoo_name_t **out_names) {
  shoal_zoo_map_t map = {.arena = arena};
  if (zoo->family->names) zoo->family->names(zoo->settings, &map);
  if (map.failed) return SHOAL_OOM();
  *out_count = map.names.count;
  *out_names = map.names.items;
  return NULL;
}

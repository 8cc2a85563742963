// Lists of names: where a model's states lie among the tensors of another library (zoo.h).
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

static const char *joined(shoal_zoo_map_t *map, const char *prefix, const char *name) {
  const char *text = shoal_arena_printf(map->arena, "%s%s", prefix, name);
  if (!text) map->failed = true;
  return text ? text : "";
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

shoal_status_t shoal_zoo_names(const shoal_zoo_t *zoo, shoal_arena_t *arena, int64_t *out_count,
                               const shoal_zoo_name_t **out_names) {
  shoal_zoo_map_t map = {.arena = arena};
  if (zoo->family->names) zoo->family->names(zoo->settings, &map);
  if (map.failed) return SHOAL_OOM();
  *out_count = map.names.count;
  *out_names = map.names.items;
  return NULL;
}

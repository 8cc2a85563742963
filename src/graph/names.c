// Names of a graph: which are taken, which suffix comes next, how a scope and a name join.
//
// Invariant: a name handed out is never handed out again in that graph, so node and value names are
// unique; it depends only on what the same scope was asked for before, so it is stable across edits
// elsewhere.
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "graph/builder.h"

static shoal_name_slot_t *find(const shoal_names_t *names, const char *name) {
  uint64_t mask = (uint64_t)names->capacity - 1;
  uint64_t at = shoal_hash_string(SHOAL_HASH_START, name) & mask;
  while (names->slots[at].name && strcmp(names->slots[at].name, name) != 0) at = (at + 1) & mask;
  return &names->slots[at];
}

static bool reserve(shoal_arena_t *arena, shoal_names_t *names) {
  if (names->count * 2 < names->capacity) return true;
  shoal_names_t larger = {.capacity = names->capacity ? names->capacity * 2 : 64};
  larger.slots = SHOAL_NEW(arena, shoal_name_slot_t, larger.capacity);
  if (!larger.slots) return false;
  for (int64_t i = 0; i < names->capacity; ++i) {
    if (names->slots[i].name) *find(&larger, names->slots[i].name) = names->slots[i];
  }
  larger.count = names->count;
  *names = larger;
  return true;
}

bool shoal_names_add(shoal_arena_t *arena, shoal_names_t *names, const char *name, bool *out_new) {
  if (!reserve(arena, names)) return false;
  shoal_name_slot_t *slot = find(names, name);
  *out_new = !slot->name;
  if (*out_new) {
    *slot = (shoal_name_slot_t){name, 1};
    ++names->count;
  }
  return true;
}

static bool has(const shoal_names_t *names, const char *name) {
  return names && names->capacity > 0 && find(names, name)->name;
}

const char *shoal_names_take(shoal_arena_t *arena, shoal_names_t *names, const shoal_names_t *avoid,
                             const char *base) {
  const bool kept = has(avoid, base);  // then no slot counts its suffixes
  const char *name = shoal_arena_strdup(arena, base);
  for (int64_t next = 1;;) {
    bool is_new = false;
    if (!name) return NULL;
    if (!has(avoid, name) && !shoal_names_add(arena, names, name, &is_new)) return NULL;
    if (is_new) return name;
    const int64_t suffix = kept ? next++ : find(names, base)->next++;
    name = shoal_arena_printf(arena, "%s_%lld", base, (long long)suffix);
  }
}

static bool good_name(const char *name) {
  static const char allowed[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./#-";
  size_t length = strlen(name);
  return length && strspn(name, allowed) == length && name[0] != '/' && name[length - 1] != '/' &&
         !strstr(name, "//");
}

shoal_status_t shoal_name_join(shoal_graph_t *graph, const char *name, const char **out_name) {
  struct shoal_graph_builder *b = graph->builder;
  const char *scope = b->scopes.count ? b->scopes.items[b->scopes.count - 1] : "";
  if (!name) name = "";
  bool absolute = name[0] == '/';
  if (!good_name(name + absolute)) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "use letters, digits and _ . / # -",
                            "'%.80s' is not a name", name);
  }
  const char *joined = absolute || !scope[0]
                           ? shoal_arena_strdup(&graph->model->arena, name + absolute)
                           : shoal_arena_printf(&graph->model->arena, "%s/%s", scope, name);
  if (!joined) return SHOAL_OOM();
  if (strlen(joined) >= SHOAL_NAME_LIMIT) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "the name '%.80s...' is longer than %d characters", joined,
                       SHOAL_NAME_LIMIT - 1);
  }
  *out_name = joined;
  return NULL;
}

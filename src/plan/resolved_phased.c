// Which nodes the resolved part of a plan file says are composite. It is read first: everything
// else in the file speaks of the parts.
#include <string.h>

#include "base/status.h"
#include "plan/composite.h"
#include "plan/resolved.h"
#include "plan/resolved_names.h"

static bool is_string(const shoal_json_t *json) {
  return json && json->kind == SHOAL_JSON_STRING;
}

// Does an entry make its node composite? One that makes no sense is refused when the list is read.
static bool speaks_of_one(const shoal_json_t *entry) {
  if (entry->kind != SHOAL_JSON_OBJECT) return false;
  const shoal_json_t *kind = shoal_json_find(entry, "kind");
  const shoal_json_t *choice = shoal_json_find(entry, "choice");
  if (!is_string(kind) || !is_string(choice)) return false;
  if (strcmp(kind->string, "expand") == 0) return strcmp(choice->string, "yes") == 0;
  return strcmp(kind->string, "way") == 0 && shoal_choice_is_composite(choice->string);
}

shoal_status_t shoal_resolved_phased(const shoal_model_t *model, const shoal_json_t *list,
                                     shoal_arena_t *scratch, bool ***out_phased) {
  const int64_t count = model->graphs.count;
  shoal_entry_names_t names;
  bool **phased = *out_phased = SHOAL_NEW(scratch, bool *, count);
  if (!phased) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_entry_names_init(model, scratch, &names));
  for (int64_t g = 0; g < count; ++g) {
    phased[g] = SHOAL_NEW(scratch, bool, model->graphs.items[g]->nodes.count);
    if (!phased[g]) return SHOAL_OOM();
  }
  for (int64_t i = 0; i < list->count; ++i) {
    const shoal_json_t *entry = &list->children[i];
    int64_t g = 0;
    int32_t n = 0;
    if (!speaks_of_one(entry)) continue;
    SHOAL_RETURN_IF_ERROR(shoal_entry_annotate(entry, shoal_entry_node(&names, entry, &g, &n)));
    const shoal_node_t *node = &model->graphs.items[g]->nodes.items[n];
    if (!node->op->decompose)
      return SHOAL_ERROR_HINT(UNSUPPORTED, "`shoal rules` says which ops have a composite way",
                              "%s: %s has no phases, so '%s' cannot be composite", entry->path,
                              node->op->name, node->name);
    phased[g][n] = true;
  }
  return NULL;
}

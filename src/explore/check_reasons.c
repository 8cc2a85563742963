// Ops whose gradient was not compared with anything, by name and with the reason: nothing that can
// be differentiated is left out silently.
#include <string.h>

#include "explore/check_ops.h"
#include "graph/graph.h"

bool check_is_part(const checker_t *c, const shoal_op_t *op) {
  for (int64_t i = 0; i < c->parts.count; ++i) {
    if (c->parts.items[i] == op) return true;
  }
  return false;
}

shoal_status_t check_note_parts(checker_t *c, const shoal_model_t *model) {
  const shoal_graph_t *g = shoal_model_find_graph(model, "f");
  for (int64_t i = 0; g && i < g->nodes.count; ++i) {
    const shoal_op_t *op = g->nodes.items[i].op;
    if (op->gradient || op == c->op || check_is_part(c, op)) continue;
    if (!SHOAL_PUSH(&c->kept, &c->parts, op)) return SHOAL_OOM();
  }
  return NULL;
}

shoal_status_t check_note_skipped(checker_t *c) {
  if (c->counts.gradients > 0) return NULL;
  const skipped_t skipped = {.op = c->op, .floats = c->floats};
  return SHOAL_PUSH(&c->kept, &c->skipped, skipped) ? NULL : SHOAL_OOM();
}

static shoal_status_t reason_of(checker_t *c, const skipped_t *skipped, const char **out_reason) {
  shoal_op_description_t words;
  *out_reason = "no float is made of floats";
  if (!skipped->floats) return NULL;
  *out_reason = "part of the gradients of others";
  if (check_is_part(c, skipped->op)) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_op_describe(c->registry, skipped->op, &c->kept, &words));
  *out_reason = shoal_arena_printf(&c->kept, "refuse to be differentiated (%s)", words.family);
  return *out_reason ? NULL : SHOAL_OOM();
}

shoal_status_t check_tell_skipped(checker_t *c) {
  const char **reasons = SHOAL_NEW(&c->kept, const char *, c->skipped.count);
  if (!reasons) return SHOAL_OOM();
  for (int64_t i = 0; i < c->skipped.count; ++i) {
    SHOAL_RETURN_IF_ERROR(reason_of(c, &c->skipped.items[i], &reasons[i]));
  }
  for (int64_t i = 0; i < c->skipped.count; ++i) {
    const char *names = "";
    int64_t first = 0;
    while (strcmp(reasons[first], reasons[i]) != 0) ++first;
    for (int64_t k = i; first == i && names && k < c->skipped.count; ++k) {
      if (strcmp(reasons[k], reasons[i]) != 0) continue;
      names = shoal_arena_printf(&c->kept, "%s%s%s", names, names[0] ? ", " : "",
                                 c->skipped.items[k].op->name);
    }
    if (!names) return SHOAL_OOM();
    if (first == i)
      check_say(c, shoal_arena_printf(&c->kept, "no gradient, %s: %s", reasons[i], names));
  }
  return NULL;
}

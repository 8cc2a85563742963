// Rules that came with the build: a sorted table of texts, searched and parsed when a key is first
// asked for. Text does not say how many items a way has; the call's sizes do.
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "rules/resolve.h"

static int compare_key(const void *key, const void *rule) {
  return strcmp(key, ((const shoal_shipped_rule_t *)rule)->key);
}

static int64_t count_items(const shoal_call_t *call, const shoal_way_t *way) {
  int64_t items = way->items;
  for (int32_t i = 0; i < way->input_count + way->output_count && !items; ++i) {
    const shoal_way_operand_t *o = &way->operands[i];
    const shoal_type_t *type =
        i < call->input_count ? &call->inputs[i] : &call->outputs[i - call->input_count];
    if (o->kind != SHOAL_OPERAND_CUT || o->length || o->dealt_by_items) continue;
    items = type->shape.dims[o->dim] / (o->scale * o->repeat);
  }
  return items;
}

shoal_status_t shoal_rules_parse_ways(const shoal_call_t *call, const char *all,
                                      shoal_arena_t *arena, shoal_keyed_rule_t *rule) {
  int32_t count = 0;
  for (const char *at = all; (at = strchr(at, '{')); ++at) ++count;
  shoal_way_t *ways = SHOAL_NEW(arena, shoal_way_t, count);
  if (!ways) return SHOAL_OOM();
  const char *at = strchr(all, '{');
  for (int32_t i = 0; i < count; ++i) {
    const char *end = strchr(at + 1, '{');
    int length = end ? (int)(end - at) : (int)strlen(at);
    const char *text = shoal_arena_printf(arena, "%.*s", length, at);
    if (!text) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(
        shoal_way_parse(text, call->op, call->attrs, call->input_count, arena, &ways[i]));
    ways[i].items = count_items(call, &ways[i]);
    at = end;
  }
  rule->way_count = count;
  rule->ways = ways;
  return NULL;
}

shoal_status_t shoal_rules_find_shipped(const shoal_call_t *call, shoal_arena_t *arena,
                                        shoal_keyed_rule_t *rule) {
  if (!shoal_shipped_rules.count) return NULL;
  const shoal_shipped_rule_t *found =
      bsearch(rule->key, shoal_shipped_rules.rules, (size_t)shoal_shipped_rules.count,
              sizeof *found, compare_key);
  if (!found) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_rules_parse_ways(call, found->ways, arena, rule));
  rule->shipped = true;
  return NULL;
}

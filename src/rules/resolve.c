// Resolving: a call is described by symbols, a probe with small sizes stands for it, and the ways
// of the probe are lifted back. Where windows slide two probes of different size have to agree,
// because on a small one a wrong stride may do.
//
// A call that has no probe, or whose probe cannot be executed, is executed as it is. So is a small
// one whose ways cannot be lifted; of a large one such ways are left out, because executing it
// could take minutes.
#include "rules/resolve.h"

#include <string.h>

#include "base/status.h"
#include "rules/search.h"
#include "rules/symbols.h"

enum { SMALL_ELEMENTS = 1 << 13, SMALL_FLOPS = 1 << 18 };  // calls up to here may be executed

typedef struct resolver {
  shoal_rules_t *rules;
  const shoal_call_t *call;
  shoal_allocator_t allocator;
  shoal_arena_t *arena, *scratch;
  symbols_t symbols;
  bool small;
} resolver_t;

static bool is_small(const shoal_call_t *call, const symbols_t *s) {
  int64_t elements = 0;
  for (int32_t i = 0; i < s->operand_count; ++i) {
    int64_t count = shoal_shape_count(&s->types[i].shape);
    if (count > SMALL_ELEMENTS) return false;
    elements += count;
  }
  shoal_call_t whole = *call;
  whole.outputs = s->types + call->input_count;
  return elements <= SMALL_ELEMENTS && shoal_op_cost(&whole).flops <= SMALL_FLOPS;
}

// The ways of the probe as ways of the call. *out_lifted is false if they cannot be told.
static shoal_status_t lift(resolver_t *r, const probe_t *probe, const shoal_keyed_rule_t *small,
                           shoal_rule_t *out_rule, bool *out_lifted) {
  shoal_way_t *ways = SHOAL_NEW(r->arena, shoal_way_t, small->way_count);
  if (!ways) return SHOAL_OOM();
  *out_lifted = false;
  out_rule->way_count = 0;
  out_rule->ways = ways;
  for (int32_t i = 0; i < small->way_count; ++i) {
    shoal_way_operand_t *operands =
        SHOAL_NEW(r->arena, shoal_way_operand_t, r->symbols.operand_count);
    if (!operands) return SHOAL_OOM();
    shoal_way_t *way = &ways[out_rule->way_count];
    *way = small->ways[i];
    way->operands = operands;
    lifted_t lifted = lift_way(&r->symbols, probe, &small->ways[i], operands, &way->items);
    bool fits = lifted == LIFTED;
    if (fits) {
      SHOAL_RETURN_IF_ERROR(trial_fits(r->call, r->symbols.types, way, r->allocator, &fits));
    }
    if (!fits && lifted != LIFTED_DROPPED && r->small) return NULL;
    out_rule->way_count += fits;
  }
  *out_lifted = true;
  return NULL;
}

// Keeps the ways that `other` has too.
static void intersect(const shoal_rule_t *other, shoal_rule_t *rule) {
  shoal_way_t *ways = (shoal_way_t *)rule->ways;
  int32_t kept = 0;
  for (int32_t i = 0; i < rule->way_count; ++i) {
    bool found = false;
    for (int32_t k = 0; k < other->way_count; ++k)
      found |= search_same_way(&ways[i], &other->ways[k]);
    if (found) ways[kept++] = ways[i];
  }
  rule->way_count = kept;
}

// By probes. *out_found is false if that does not go.
static shoal_status_t by_probes(resolver_t *r, shoal_rule_t *out_rule, bool *out_found) {
  const char *first = NULL;
  *out_found = false;
  if (r->small && (r->symbols.regroup.crossed_in || r->symbols.regroup.crossed_out)) return NULL;
  for (int32_t larger = 0; larger < (r->symbols.slides ? 2 : 1); ++larger) {
    probe_t probe;
    const char *key;
    const shoal_keyed_rule_t *small;
    shoal_rule_t lifted = {.op = out_rule->op};
    SHOAL_RETURN_IF_ERROR(probe_make(&r->symbols, larger, r->scratch, &probe));
    if (!probe.found) return NULL;
    SHOAL_RETURN_IF_ERROR(probe_key(&probe.call, r->scratch, &key));
    if (first && strcmp(first, key) == 0) break;  // nothing could be larger
    SHOAL_RETURN_IF_ERROR(shoal_rules_of_key(r->rules, &probe.call, key, &small));
    lifted.key = small->key;
    lifted.shipped = small->shipped;
    lifted.note = small->note;
    bool good;
    SHOAL_RETURN_IF_ERROR(lift(r, &probe, small, &lifted, &good));
    if (!good) return NULL;
    if (larger) {
      intersect(&lifted, out_rule);
      out_rule->shipped &= lifted.shipped;
    } else {
      *out_rule = lifted;
      first = key;
    }
  }
  *out_found = true;
  return NULL;
}

// By executing the call itself.
static shoal_status_t directly(resolver_t *r, shoal_rule_t *rule) {
  const char *key;
  const shoal_keyed_rule_t *own;
  SHOAL_RETURN_IF_ERROR(probe_key(r->call, r->scratch, &key));
  SHOAL_RETURN_IF_ERROR(shoal_rules_of_key(r->rules, r->call, key, &own));
  rule->key = own->key;
  rule->shipped = own->shipped;
  rule->note = own->note;
  rule->way_count = own->way_count;
  rule->ways = own->ways;
  return NULL;
}

shoal_status_t shoal_rules_resolve(shoal_rules_t *rules, const shoal_call_t *call,
                                   shoal_allocator_t allocator, shoal_arena_t *arena,
                                   shoal_rule_t *out_rule) {
  shoal_arena_t scratch;
  shoal_arena_init(allocator, &scratch);
  resolver_t r = {
      .rules = rules, .call = call, .allocator = allocator, .arena = arena, .scratch = &scratch};
  shoal_rule_t rule = {.op = shoal_arena_strdup(arena, call->op->name)};
  bool found = false;
  shoal_status_t status = rule.op ? symbols_find(call, &scratch, &r.symbols) : SHOAL_OOM();
  if (status) goto done;
  r.small = is_small(call, &r.symbols);
  status = by_probes(&r, &rule, &found);
  if (status && shoal_status_code(status) != SHOAL_OUT_OF_MEMORY) {
    shoal_status_free(status);
    status = NULL;
    found = false;
  }
  if (!status && !found) status = directly(&r, &rule);
  if (!status) *out_rule = rule;
done:
  shoal_arena_deinit(&scratch);
  return status;
}

// Resolving: a call is described by symbols, a probe with small sizes stands for it, and the ways
// of the probe are lifted back. Where windows slide they have to hold on a second probe of another
// size, because on one of them a wrong stride may do; the texts of both are the key.
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

// The symbols as if the second probe were the real call.
static shoal_status_t enlarge(const resolver_t *r, const probe_t *second, symbols_t *out) {
  symbol_t *list = shoal_arena_copy(r->scratch, r->symbols.symbols, (size_t)r->symbols.symbol_count,
                                    sizeof *list);
  if (!list) return SHOAL_OOM();
  for (int32_t i = 0; i < r->symbols.symbol_count; ++i) list[i].real = second->sizes[i];
  *out = r->symbols;
  out->symbols = list;
  out->types = second->types;
  out->attrs = second->call.attrs;
  return NULL;
}

// By probes. *out_found is false if that does not go.
static shoal_status_t by_probes(resolver_t *r, shoal_rule_t *out_rule, bool *out_found) {
  probe_t first, larger;
  symbols_t enlarged;
  shoal_rules_second_t second = {.first = &first, .symbols = &enlarged};
  const char *key, *other = NULL;
  const shoal_keyed_rule_t *small;
  *out_found = false;
  if (r->small && (r->symbols.regroup.crossed_in || r->symbols.regroup.crossed_out)) return NULL;
  SHOAL_RETURN_IF_ERROR(probe_make(&r->symbols, false, r->scratch, &first));
  if (!first.found) return NULL;
  SHOAL_RETURN_IF_ERROR(probe_key(&first.call, r->scratch, &key));
  if (r->symbols.slides) {
    SHOAL_RETURN_IF_ERROR(probe_make(&r->symbols, true, r->scratch, &larger));
    if (!larger.found) return NULL;
    SHOAL_RETURN_IF_ERROR(probe_key(&larger.call, r->scratch, &other));
    if (strcmp(key, other) == 0) other = NULL;  // nothing could be larger
  }
  if (other) {
    SHOAL_RETURN_IF_ERROR(enlarge(r, &larger, &enlarged));
    second.call = &larger.call;
    key = shoal_arena_printf(r->scratch, "%s and %s", key, other + strlen(r->call->op->name) + 1);
    if (!key) return SHOAL_OOM();
  }
  SHOAL_RETURN_IF_ERROR(
      shoal_rules_of_key(r->rules, &first.call, other ? &second : NULL, key, &small));
  shoal_rule_t lifted = {
      .op = out_rule->op, .key = small->key, .shipped = small->shipped, .note = small->note};
  SHOAL_RETURN_IF_ERROR(lift(r, &first, small, &lifted, out_found));
  if (*out_found) *out_rule = lifted;
  return NULL;
}

// By executing the call itself.
static shoal_status_t directly(resolver_t *r, shoal_rule_t *rule) {
  const char *key;
  const shoal_keyed_rule_t *own;
  SHOAL_RETURN_IF_ERROR(probe_key(r->call, r->scratch, &key));
  SHOAL_RETURN_IF_ERROR(shoal_rules_of_key(r->rules, r->call, NULL, key, &own));
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

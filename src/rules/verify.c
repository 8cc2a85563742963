// Verifying: the ways of a small call, tried once more on a larger one.
//
// Where windows slide, every op's ways along what they slide over are: a stride or a halo that is
// wrong may do on a call of one size. Ways along other dims are not tried again.
//
// What is found on a small call is said of all calls with the same relations between their sizes.
// Native ops are known to keep to that (`shoal check ops` runs them at many sizes). An op of a
// user's may do something else from some size on, or at an index that the small call does not have:
// its ways are executed on a call that is as large as can be afforded, in two and three parts, and
// item by item. Which call that is depends on the small one alone, so that every store finds the
// same rule.
#include <string.h>

#include "base/status.h"
#include "rules/resolve.h"
#include "rules/search.h"
#include "rules/symbols.h"

enum { MOST_ELEMENTS = 1 << 14, MOST_FLOPS = 1 << 22, MOST_PARTS = 1024, MOST_CALLS = 64 };
enum { SECOND_SETS = 2 };  // of values, on the second call

static const int64_t SIZES[] = {1021, 509, 251, 127, 61, 31, 17};

static bool is_affordable(const symbols_t *s, const shoal_call_t *call) {
  int64_t elements = 0;
  for (int32_t i = 0; i < s->operand_count; ++i) {
    const int64_t count = shoal_shape_count(&s->tried_types[i].shape);
    if (count > MOST_ELEMENTS) return false;
    elements += count;
  }
  return elements <= 4 * MOST_ELEMENTS && shoal_op_cost(call).flops <= MOST_FLOPS;
}

// The largest call with the same relations; its types are in tried_types. False: there is none.
static bool enlarge(symbols_t *s, shoal_call_t *out) {
  *out = (shoal_call_t){.op = s->op,
                        .input_count = s->input_count,
                        .output_count = s->operand_count - s->input_count,
                        .inputs = s->tried_types,
                        .outputs = s->tried_types + s->input_count,
                        .attrs = s->tried_attrs};
  if (s->regroup.count || s->symbol_count == 0) return false;
  for (size_t k = 0; k < sizeof SIZES / sizeof *SIZES && !s->error; ++k) {
    for (int32_t i = 0; i < s->symbol_count; ++i) s->sizes[i] = SIZES[k] - 2 * i % 14;
    if (symbols_accepts(s, symbols_values(s, s->sizes)) && is_affordable(s, out)) return true;
  }
  return false;
}

// Does the way cut something of which the real call has another size than the probe?
static bool is_resized(const symbols_t *s, const probe_t *probe, const shoal_way_t *way) {
  for (int32_t i = 0; i < s->operand_count; ++i) {
    const shoal_way_operand_t *o = &way->operands[i];
    const shoal_shape_t *real = &s->types[i].shape, *small = &probe->types[i].shape;
    if (o->kind == SHOAL_OPERAND_FLAT && !shoal_shape_equal(real, small)) return true;
    if (o->kind == SHOAL_OPERAND_CUT && real->dims[o->dim] != small->dims[o->dim]) return true;
  }
  return false;
}

// A way on the larger call, of which `s` says that it is the real one. most: parts at most; 0: only
// ways of what has another size, on fewer deals.
static bool holds(const symbols_t *s, const probe_t *probe, search_t *search, int64_t most,
                  const shoal_way_t *way, candidate_t *c) {
  if (most == 0 && !is_resized(s, probe, way)) return true;
  if (lift_way(s, probe, way, c->operands, &c->items) != LIFTED) return most > 0;
  return most > 0 ? search_holds(search, c, most) : search_holds_again(search, c);
}

static shoal_status_t try_ways(const symbols_t *s, const probe_t *probe, search_t *search,
                               int64_t most, shoal_keyed_rule_t *rule, shoal_arena_t *arena) {
  shoal_way_t *kept = SHOAL_NEW(arena, shoal_way_t, rule->way_count);
  shoal_way_operand_t *operands =
      SHOAL_NEW(&search->trial->arena, shoal_way_operand_t, s->operand_count);
  if (!kept || !operands) return SHOAL_OOM();
  int32_t count = 0;
  for (int32_t i = 0; i < rule->way_count; ++i) {
    candidate_t c = {.operands = operands, .any_order = rule->ways[i].any_order};
    if (!holds(s, probe, search, most, &rule->ways[i], &c)) continue;
    kept[count] = rule->ways[i];
    kept[count++].any_order = c.any_order;
  }
  rule->way_count = count;
  rule->ways = kept;
  shoal_status_t error = search->trial->error;
  search->trial->error = NULL;
  return error;
}

// Tries the ways on a call, which has been executed whole.
static shoal_status_t try_on(const symbols_t *s, const probe_t *probe, trial_t *trial, int64_t most,
                             shoal_keyed_rule_t *rule, shoal_arena_t *arena) {
  search_t search = {.trial = trial, .operand_count = s->operand_count};
  shoal_status_t status =
      search_init(&search) ? try_ways(s, probe, &search, most, rule, arena) : SHOAL_OOM();
  search_deinit(&search);
  if (!status && trial->note) rule->way_count = 0, rule->note = trial->note;
  return status;
}

shoal_status_t shoal_rules_verify_second(const shoal_rules_second_t *second,
                                         shoal_executor_t executor, shoal_allocator_t allocator,
                                         shoal_arena_t *arena, shoal_keyed_rule_t *rule) {
  bool any = false;
  for (int32_t i = 0; i < rule->way_count; ++i) {
    any |= is_resized(second->symbols, second->first, &rule->ways[i]);
  }
  if (!any) return NULL;
  trial_t trial;
  shoal_status_t status = trial_init(second->call, executor, allocator, SECOND_SETS, &trial);
  if (!status) status = try_on(second->symbols, second->first, &trial, 0, rule, arena);
  trial_deinit(&trial);
  return status;
}

shoal_status_t shoal_rules_verify(const shoal_call_t *call, shoal_executor_t executor,
                                  shoal_allocator_t allocator, shoal_arena_t *arena,
                                  shoal_keyed_rule_t *rule) {
  shoal_arena_t scratch;
  shoal_arena_init(allocator, &scratch);
  symbols_t small, large;
  shoal_call_t larger;
  probe_t probe = {0};
  const char *key = "", *larger_key = "";
  trial_t trial = {0};
  shoal_status_t status = symbols_find(call, &scratch, &small);
  if (status || !enlarge(&small, &larger)) goto done;
  SHOAL_GOTO_IF_ERROR(status, done, symbols_find(&larger, &scratch, &large));
  SHOAL_GOTO_IF_ERROR(status, done, probe_make(&large, false, &scratch, &probe));
  SHOAL_GOTO_IF_ERROR(status, done, probe_key(call, &scratch, &key));
  if (probe.found) SHOAL_GOTO_IF_ERROR(status, done, probe_key(&probe.call, &scratch, &larger_key));
  if (strcmp(key, larger_key) != 0) goto done;
  status = trial_init(&larger, executor, allocator, TRIAL_SETS, &trial);
  if (!status) {
    status =
        try_on(&large, &probe, &trial, small.op->kernel ? MOST_PARTS : MOST_CALLS, rule, arena);
  } else if (shoal_status_code(status) != SHOAL_OUT_OF_MEMORY) {
    shoal_status_free(status);  // it takes no call that large
    status = NULL;
  }
  trial_deinit(&trial);
done:
  shoal_arena_deinit(&scratch);
  return status;
}

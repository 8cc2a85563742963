// Calls like a given one, with other sizes; and ways tried on them. `shoal check ops` is made of
// both: a rule is found on one small call, and said of all.
#include <string.h>

#include "base/dtype.h"
#include "base/philox.h"
#include "base/status.h"
#include "rules/search.h"
#include "rules/symbols.h"

typedef struct draws {
  uint64_t seed, count;
} draws_t;

static int64_t draw(draws_t *draws, int64_t low, int64_t high) {
  uint32_t word = shoal_philox_word(draws->seed, 0x7661, 1, draws->count++);
  return low + (int64_t)(word % (uint64_t)(high - low + 1));
}

// Mostly a few, some equal to others, now and then one.
static int64_t draw_size(draws_t *draws) {
  const int64_t kind = draw(draws, 0, 11);
  return kind == 0 ? 1 : kind < 4 ? 4 : kind == 4 ? draw(draws, 8, 13) : draw(draws, 2, 7);
}

// A gradient's sizes must be those of a window that moves by the op's stride, which no shape
// function says: they keep to what the example has.
static bool keeps_its_size(const symbols_t *s, int32_t symbol) {
  for (int32_t i = 0; s->symbols[symbol].slid && i < s->slot_count; ++i) {
    const slot_t *slot = &s->slots[i];
    if (slot->term_count == 1 && slot->terms[0] == symbol && slot->times != 1) return true;
  }
  return false;
}

// How many sizes may be chosen: the symbols, or the atoms of a reshape.
static int32_t free_sizes(const symbols_t *s) {
  return s->regroup.count ? s->regroup.count : s->symbol_count;
}

static int64_t real_size(const symbols_t *s, int32_t i) {
  return s->regroup.count ? s->regroup.real[i] : s->symbols[i].real;
}

// The slots' numbers for free sizes s->sizes. `small`: the slots of a reshape's small shapes.
static const int64_t *free_values(symbols_t *s, const int64_t *small) {
  if (!s->regroup.count) return symbols_values(s, s->sizes);
  regroup_t sized = s->regroup;
  memcpy(sized.real, s->sizes, sizeof *sized.real * (size_t)sized.count);
  for (int32_t i = 0; i < s->slot_count; ++i) s->values[i] = regroup_lift(&sized, small[i]);
  return s->values;
}

// The call as it was tried last.
static shoal_call_t tried_call(const symbols_t *s) {
  return (shoal_call_t){.op = s->op,
                        .input_count = s->input_count,
                        .output_count = s->operand_count - s->input_count,
                        .inputs = s->tried_types,
                        .outputs = s->tried_types + s->input_count,
                        .attrs = s->tried_attrs};
}

static shoal_status_t find_free(const shoal_call_t *call, shoal_arena_t *arena, symbols_t **out,
                                const int64_t **out_small) {
  symbols_t *s = SHOAL_NEW(arena, symbols_t, 1);
  if (!s) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(symbols_find(call, arena, s));
  *out = s;
  *out_small = shoal_arena_copy(arena, s->values, (size_t)s->slot_count, sizeof *s->values);
  return *out_small || s->slot_count == 0 ? NULL : SHOAL_OOM();
}

static shoal_status_t take_error(symbols_t *s) {
  shoal_status_t error = s->error;
  s->error = NULL;
  return error;
}

shoal_status_t shoal_rules_vary(const shoal_call_t *call, uint64_t seed, shoal_arena_t *arena,
                                shoal_call_t *out_call, bool *out_found) {
  enum { DRAWS = 16 };  // some sizes are refused: windows that do not fit
  draws_t draws = {.seed = seed};
  const int64_t *small = NULL;
  symbols_t *s = NULL;
  *out_found = false;
  *out_call = *call;
  SHOAL_RETURN_IF_ERROR(find_free(call, arena, &s, &small));
  for (int32_t k = 0; k < DRAWS && free_sizes(s) > 0; ++k) {
    for (int32_t i = 0; i < free_sizes(s); ++i) {
      s->sizes[i] = s->regroup.count       ? draw(&draws, 1, 5)
                    : keeps_its_size(s, i) ? s->symbols[i].real
                    : s->symbols[i].slid   ? draw(&draws, 2, 14)
                                           : draw_size(&draws);
    }
    if (symbols_accepts(s, free_values(s, small))) {
      *out_call = tried_call(s);
      *out_found = true;
      return NULL;
    }
    if (s->error) return take_error(s);
  }
  return NULL;
}

shoal_status_t shoal_rules_resize(const shoal_call_t *call, int32_t which, int64_t size,
                                  shoal_arena_t *arena, shoal_resized_t *out_resized) {
  const int64_t *small = NULL;
  symbols_t *s = NULL;
  *out_resized = (shoal_resized_t){0};
  SHOAL_RETURN_IF_ERROR(find_free(call, arena, &s, &small));
  if (which >= free_sizes(s)) return NULL;
  for (int32_t i = 0; i < free_sizes(s); ++i) s->sizes[i] = i == which ? size : real_size(s, i);
  out_resized->exists = true;
  out_resized->accepted = symbols_accepts(s, free_values(s, small));
  out_resized->call = tried_call(s);
  return take_error(s);
}

shoal_status_t shoal_rules_try(const shoal_call_t *call, const shoal_rule_t *rule, int64_t parts,
                               uint64_t seed, shoal_allocator_t allocator,
                               shoal_tried_t *out_tried) {
  draws_t draws = {.seed = seed};
  int64_t weights[TRIAL_MAX_PARTS];
  trial_t trial;
  *out_tried = (shoal_tried_t){.wrong = -1};
  if (parts > TRIAL_MAX_PARTS) return SHOAL_ERROR(INVALID_ARGUMENT, "too many parts");
  shoal_status_t status =
      trial_init(call, shoal_executor_reference(&allocator), allocator, TRIAL_SETS, &trial);
  search_t s = {.trial = &trial, .operand_count = trial.input_count + trial.output_count};
  if (!status && !search_init(&s)) status = SHOAL_OOM();
  for (int32_t i = 0; !status && !trial.note && i < rule->way_count; ++i) {
    int64_t sum = 0;
    for (int64_t p = 0; p < parts; ++p) sum += weights[p] = draw(&draws, 0, 4);
    if (sum == 0) weights[0] = 1;
    const deal_t deal = {
        .parts = parts, .unit = 1, .weights = weights, .salt = draw(&draws, 0, 99)};
    candidate_t c = {.operands = (shoal_way_operand_t *)rule->ways[i].operands,
                     .items = rule->ways[i].items};
    ++out_tried->ways;
    if (!search_holds_on(&s, &c, &deal) && out_tried->wrong < 0) out_tried->wrong = i;
  }
  out_tried->executions = trial.executions;
  if (!status) {
    status = trial.error;
    trial.error = NULL;
    search_deinit(&s);
  }
  trial_deinit(&trial);
  return status;
}

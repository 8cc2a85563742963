// Dice, values to choose from, and the case as a whole.
#include "explore/generate.h"

#include <math.h>
#include <string.h>

#include "base/status.h"

#define LARGEST 3000  // elements of a value
#define MOST_STATES 5
#define MOST_INPUTS 7

static uint64_t next_word(shoal_generator_t *g) {  // splitmix64 (Steele, Lea, Flood 2014)
  uint64_t z = g->state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

int64_t shoal_roll(shoal_generator_t *g, int64_t count) {
  return count > 0 ? (int64_t)(next_word(g) % (uint64_t)count) : 0;
}

bool shoal_chance(shoal_generator_t *g, int64_t percent) {
  return shoal_roll(g, 100) < percent;
}

int64_t shoal_roll_size(shoal_generator_t *g) {
  return shoal_chance(g, 85) ? g->sizes[shoal_roll(g, 4)] : 1 + shoal_roll(g, 9);
}

const char *shoal_ints_text(shoal_generator_t *g, int32_t count, const int64_t *values) {
  const char *text = "[";
  for (int32_t i = 0; i < count && text; ++i)
    text = shoal_arena_printf(g->arena, "%s%s%lld", text, i ? "," : "", (long long)values[i]);
  return text ? shoal_arena_printf(g->arena, "%s]", text) : NULL;
}

// ---- values -------------------------------------------------------------------------------------

shoal_type_t shoal_generate_type(const shoal_generator_t *g, shoal_case_ref_t ref) {
  shoal_type_t type = {0};
  shoal_random_case_type(g->c, ref, &type);
  return type;
}

double shoal_generate_bound(const shoal_generator_t *g, shoal_case_ref_t ref) {
  return ref.kind == 'v' ? g->bounds.items[ref.index] : 1;
}

shoal_status_t shoal_generate_decide(shoal_generator_t *g, const char *kind, const char *pattern,
                                     const char *choice) {
  const shoal_intent_decision_t decision = {.kind = shoal_arena_strdup(g->arena, kind),
                                            .pattern = shoal_arena_strdup(g->arena, pattern),
                                            .choice = choice,
                                            .by = "random",
                                            .reason = "drawn"};
  const bool ok = decision.kind && decision.pattern && choice &&
                  SHOAL_PUSH(g->arena, &g->c->decisions, decision);
  return ok ? NULL : SHOAL_OOM();
}

bool shoal_generate_node(shoal_generator_t *g, const char *op, int32_t count,
                         const shoal_case_ref_t *refs, const char *attrs, double bound,
                         shoal_case_ref_t *out_ref) {
  if (!attrs || count > SHOAL_CASE_REFS) return false;
  shoal_case_node_t node = {.op = op, .ref_count = count, .attrs = attrs};
  if (count) memcpy(node.refs, refs, (size_t)count * sizeof *refs);
  shoal_status_t status = shoal_random_case_infer(g->c, g->registry, &node, g->arena);
  if (status) {
    shoal_status_free(status);
    return false;
  }
  for (int32_t o = 0; o < node.output_count; ++o) {
    int64_t elements = shoal_shape_count(&node.outputs[o].shape);
    if (elements > LARGEST || elements == 0) return false;
  }
  if (!SHOAL_PUSH(g->arena, &g->c->nodes, node) || !SHOAL_PUSH(g->arena, &g->bounds, bound))
    return false;
  *out_ref = (shoal_case_ref_t){.kind = 'v', .index = (int32_t)g->c->nodes.count - 1};
  return true;
}

shoal_case_ref_t shoal_generate_input(shoal_generator_t *g, const shoal_case_input_t *input) {
  for (int32_t i = 0; i < g->c->inputs.count; ++i) {  // another one alike may do
    const shoal_case_input_t *old = &g->c->inputs.items[i];
    if (old->type.dtype == input->type.dtype &&
        shoal_shape_equal(&old->type.shape, &input->type.shape) && old->limit == input->limit &&
        old->magnitude == input->magnitude && old->positive == input->positive &&
        shoal_chance(g, g->c->inputs.count < MOST_INPUTS ? 30 : 100))
      return (shoal_case_ref_t){.kind = 'i', .index = i};
  }
  shoal_case_input_t made = *input;
  made.ties = g->ties && shoal_dtype_is_float(made.type.dtype) && !made.positive;
  SHOAL_PUSH(g->arena, &g->c->inputs, made);  // when memory is short: an index that does not exist
  return (shoal_case_ref_t){.kind = 'i', .index = (int32_t)g->c->inputs.count - 1};
}

shoal_case_ref_t shoal_generate_state(shoal_generator_t *g, const shoal_shape_t *shape) {
  for (int32_t i = 0; i < g->c->states.count; ++i)
    if (shoal_shape_equal(&g->c->states.items[i].shape, shape) &&
        shoal_chance(g, g->c->states.count < MOST_STATES ? 10 : 100))
      return (shoal_case_ref_t){.kind = 's', .index = i};
  shoal_type_t type = {g->dtype, *shape};
  SHOAL_PUSH(g->arena, &g->c->states, type);
  return (shoal_case_ref_t){.kind = 's', .index = (int32_t)g->c->states.count - 1};
}

shoal_case_ref_t shoal_generate_fresh(shoal_generator_t *g, const shoal_shape_t *shape) {
  bool state = g->c->states.count < 2 || (g->c->states.count < MOST_STATES && shoal_chance(g, 60));
  return state ? shoal_generate_state(g, shape)
               : shoal_generate_input(g, &(shoal_case_input_t){.type = {g->dtype, *shape}});
}

static bool fits(const shoal_generator_t *g, shoal_case_ref_t ref, int32_t least, int32_t most) {
  shoal_type_t type = shoal_generate_type(g, ref);
  return type.dtype == g->dtype && type.shape.rank >= least && type.shape.rank <= most;
}

shoal_case_ref_t shoal_generate_value(shoal_generator_t *g, int32_t least, int32_t most) {
  int64_t counts[3] = {g->c->nodes.count, g->c->inputs.count, g->c->states.count};
  // the newest node first, more often than not: chains are more interesting than stars
  if (counts[0] > 0 && (g->newest || shoal_chance(g, 55))) {
    shoal_case_ref_t ref = {.kind = 'v', .index = (int32_t)counts[0] - 1};
    if (fits(g, ref, least, most)) return ref;
  }
  for (int i = 0; i < 12; ++i) {
    int64_t kind = shoal_roll(g, 3);
    shoal_case_ref_t ref = {.kind = "vis"[kind], .index = (int32_t)shoal_roll(g, counts[kind])};
    if (counts[kind] > 0 && fits(g, ref, least, most)) return ref;
  }
  shoal_shape_t shape = {.rank = least > 2 ? least : least + (int32_t)shoal_roll(g, 2)};
  if (shape.rank > most) shape.rank = most;
  for (int32_t d = 0; d < shape.rank; ++d) shape.dims[d] = shoal_roll_size(g);
  return shoal_generate_fresh(g, &shape);
}

enum {
  PIPELINE_EVERY = 14,  // cases: one is a chain of layers on two or three stages
  WINDOWS_AT = 6,       // of these: another one is a chain of windowed nodes
  ROWS_AT = 3,          // and one has rows of bounded sizes
  PRODUCTS_AT = 9,      // and one is a chain of products over rows that are cut
  ATTENTION_AT = 1,     // and one is attention over keys that are cut
  MEDLEY_AT = 7,        // and three are uses of many ops, side by side
  MEDLEY_THEN = 12,
  MEDLEY_LAST = 13
};

// ---- the case -----------------------------------------------------------------------------------

// Least covered of a few names.
static int64_t scarce(shoal_generator_t *g, const char *group, int64_t count,
                      const char *const *names) {
  int64_t best = shoal_roll(g, count);
  for (int64_t i = 0; i < count; ++i)
    if (shoal_coverage_count(g->coverage, group, names[i]) == 0 && shoal_chance(g, 50)) best = i;
  return best;
}

// What optimizers do besides; and those whose steps go by norms or signs, where rounding is no
// matter.
static void roll_training(shoal_generator_t *g) {
  g->c->clipped = shoal_chance(g, 12);
  g->c->averaged = shoal_chance(g, 12);
  g->c->scaled = shoal_chance(g, 12);
  g->c->clipped_before = shoal_chance(g, 8);
  if (g->dtype == SHOAL_F64 && shoal_chance(g, 25))
    g->c->optimizer =
        (shoal_case_optimizer_t)(SHOAL_CASE_ADAM +
                                 shoal_roll(g, SHOAL_CASE_OPTIMIZER_COUNT - SHOAL_CASE_ADAM));
}

static shoal_status_t generate(shoal_generator_t *g) {
  static const char *const dtypes[] = {"f64", "f64", "f64", "f64",  "f64",
                                       "f64", "f32", "f32", "bf16", "f16"};
  shoal_dtype_parse(dtypes[scarce(g, "feature", 10, dtypes)], &g->dtype);
  for (int i = 0; i < 4; ++i) g->sizes[i] = 2 + shoal_roll(g, 6);
  if (g->large || shoal_chance(g, 15)) g->sizes[shoal_roll(g, 4)] = 10 + shoal_roll(g, 31);
  g->ties = shoal_chance(g, 15);
  g->c->steps = shoal_chance(g, 10) ? 5 : SHOAL_CASE_STEPS;
  g->c->optimizer = (shoal_case_optimizer_t)(1 + shoal_roll(g, SHOAL_CASE_DRAWN_COUNT - 1));
  g->c->eval = shoal_chance(g, 25);
  g->c->opaque = shoal_chance(g, 25);
  g->c->untrained = shoal_chance(g, 25);
  shoal_generator_t aside = *g;  // dice of its own: cases without guards are what they were
  aside.state = ~g->state;
  g->c->guarded = shoal_chance(&aside, 25);
  roll_training(&aside);
  shoal_shape_t shape = {.rank = 2, .dims = {shoal_roll_size(g), shoal_roll_size(g)}};
  shoal_generate_input(g, &(shoal_case_input_t){.type = {g->dtype, shape}});
  int64_t target = 2 + shoal_roll(g, 7);
  if (shoal_chance(g, 50)) shoal_generate_wish(g);
  for (int tries = 0; tries < 40 && g->c->nodes.count < target; ++tries) shoal_generate_op(g);
  // At least one state has to be trained.
  shoal_case_ref_t unused;
  for (int tries = 0; tries < 20; ++tries) {
    bool trains = false;
    for (int64_t n = 0; n < g->c->nodes.count; ++n)
      for (int32_t r = 0; r < g->c->nodes.items[n].ref_count; ++r)
        trains |= g->c->nodes.items[n].refs[r].kind == 's';
    if (trains) break;
    shoal_case_ref_t x = shoal_generate_value(g, 1, 4);
    shoal_type_t type = shoal_generate_type(g, x);
    shoal_case_ref_t pair[2] = {x, shoal_generate_state(g, &type.shape)};
    shoal_generate_node(g, "mul", 2, pair, "", shoal_generate_bound(g, x), &unused);
  }
  return NULL;
}

// Some cases are planned by strategies: many that have what one of `wanted` is for. With dice of
// their own, so that the others are what they were.
static shoal_status_t plan_by_strategy(const shoal_generator_t *g, const shoal_model_t *model,
                                       uint64_t seed, const char *const *wanted, bool *out_made) {
  shoal_generator_t aside = *g;
  aside.state = seed * 3 + 1;
  if (!shoal_chance(&aside, wanted[0] ? 45 : 10)) return NULL;
  return shoal_generate_strategy(&aside, model, wanted, out_made);
}

shoal_status_t shoal_generate_case(uint64_t seed, bool large, shoal_registry_t *registry,
                                   shoal_rules_t *rules, const shoal_coverage_t *coverage,
                                   shoal_arena_t *arena, shoal_random_case_t *out_case) {
  for (uint64_t attempt = 0; attempt < 20; ++attempt) {
    *out_case = (shoal_random_case_t){.seed = seed % 1000000};
    shoal_generator_t g = {.state = seed + (attempt << 48),
                           .registry = registry,
                           .rules = rules,
                           .coverage = coverage,
                           .large = large,
                           .arena = arena,
                           .c = out_case};
    const bool pipeline = !large && seed % PIPELINE_EVERY == 0;
    shoal_generator_t aside = g;  // dice of its own: cases without blocks are what they were
    aside.state = ~seed;
    if (shoal_chance(&aside, 35)) out_case->blocks = 2 + shoal_roll(&aside, 3);
    const bool windows = !large && seed % PIPELINE_EVERY == WINDOWS_AT;
    const bool rows = !large && seed % PIPELINE_EVERY == ROWS_AT;
    const bool products = !large && seed % PIPELINE_EVERY == PRODUCTS_AT;
    const bool attention = !large && seed % PIPELINE_EVERY == ATTENTION_AT;
    const uint64_t at = seed % PIPELINE_EVERY;
    const bool medley = !large && (at == MEDLEY_AT || at == MEDLEY_THEN || at == MEDLEY_LAST);
    shoal_model_t *model = NULL;
    shoal_status_t status = pipeline    ? shoal_generate_layers(&g)
                            : windows   ? shoal_generate_windows(&g)
                            : rows      ? shoal_generate_rows(&g)
                            : products  ? shoal_generate_products(&g)
                            : attention ? shoal_generate_attention(&g)
                            : medley    ? shoal_generate_medley(&g)
                                        : generate(&g);
    shoal_generator_t held = g;  // dice of its own
    held.state = ~seed * 11;
    if (!status && !windows && !rows && !products && !attention && !medley)
      shoal_generate_constrained(&held);
    if (!status) status = shoal_random_case_build(out_case, registry, arena->allocator, &model);
    bool made = false;
    static const char *const any[] = {NULL}, *const space[] = {"spatial", "channel", NULL},
                             *const context[] = {"context", NULL},
                             *const experts[] = {"expert", NULL};
    if (!status && !large && !pipeline && !products && !medley)
      status = plan_by_strategy(&g, model, seed,
                                windows     ? space
                                : rows      ? experts
                                : attention ? context
                                            : any,
                                &made);
    if (!status && !made)
      status = pipeline    ? shoal_generate_pipeline(&g, model)
               : windows   ? shoal_generate_space(&g, model)
               : rows      ? shoal_generate_dispatch(&g, model)
               : products  ? shoal_generate_sequence(&g)
               : attention ? shoal_generate_context(&g)
               : medley    ? shoal_generate_medley_ways(&g, model)
                           : shoal_generate_plan(&g, model);
    if (!status) status = shoal_generate_constraints(&held);
    if (!status) status = shoal_generate_offload(&g, model);
    if (!status) status = shoal_generate_again(&aside, model);
    if (!status) status = shoal_generate_ways(&aside, model);
    if (!status) status = shoal_generate_fetches(&aside, model);
    if (!status && !products) status = shoal_generate_tiles(&aside);
    shoal_model_free(model);
    if (!status || shoal_status_code(status) == SHOAL_OUT_OF_MEMORY) return status;
    if (attempt == 19) return shoal_status_annotatef(status, "while making a random case");
    shoal_status_free(status);  // an op without gradient, or the like: another try
  }
  return NULL;
}

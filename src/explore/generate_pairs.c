// Random attention over keys that are cut, as in context parallelism with few queries: every rank
// has a value and its log-sum-exp for its own keys, and the pairs are merged. Keys and values are
// states or come of the batch; queries may be cut, too.
#include <string.h>

#include "base/status.h"
#include "explore/generate.h"

typedef shoal_generator_t gen_t;

// [B, H, S, D]: a state, or something of the batch times a state [1, H, S, D].
static bool add_keys(gen_t *g, const shoal_shape_t *shape, shoal_case_ref_t *out) {
  shoal_shape_t row = *shape;
  if (shoal_chance(g, 40)) {
    *out = shoal_generate_state(g, shape);
    return true;
  }
  row.dims[0] = 1;
  const shoal_case_input_t input = {.type = {g->dtype, *shape}};
  shoal_case_ref_t pair[2] = {shoal_generate_input(g, &input), shoal_generate_state(g, &row)};
  return shoal_generate_node(g, "mul", 2, pair, "", 4, out);
}

static bool add_attention(gen_t *g, shoal_case_ref_t *q) {
  shoal_shape_t shape = shoal_generate_type(g, *q).shape;
  const bool causal = shoal_chance(g, 50);
  if (!causal) shape.dims[2] = 2 + shoal_roll(g, 11);
  shoal_case_ref_t refs[3] = {*q};
  if (!add_keys(g, &shape, &refs[1]) || !add_keys(g, &shape, &refs[2])) return false;
  return shoal_generate_node(g, "attention", 3, refs, causal ? "causal=1" : "causal=0", 1, q);
}

shoal_status_t shoal_generate_attention(gen_t *g) {
  static const shoal_dtype_t dtypes[] = {SHOAL_F64, SHOAL_F64, SHOAL_F64, SHOAL_F32, SHOAL_BF16};
  const shoal_shape_t shape = SHOAL_SHAPE(2 + shoal_roll(g, 4), 1 + shoal_roll(g, 3),
                                          2 + shoal_roll(g, 7), 2 + shoal_roll(g, 3));
  g->dtype = dtypes[shoal_roll(g, 5)];
  g->c->steps = SHOAL_CASE_STEPS;
  g->c->optimizer = (shoal_case_optimizer_t)(1 + shoal_roll(g, SHOAL_CASE_DRAWN_COUNT - 1));
  g->c->eval = shoal_chance(g, 25);
  g->c->opaque = shoal_chance(g, 25);
  shoal_case_ref_t x = shoal_generate_input(g, &(shoal_case_input_t){.type = {g->dtype, shape}});
  const bool layers = shoal_chance(g, 30);
  bool ok = add_attention(g, &x) && shoal_generate_node(g, "tanh", 1, &x, "", 2, &x);
  if (ok && layers) ok = add_attention(g, &x);
  return ok ? NULL : SHOAL_ERROR(INTERNAL, "an attention of a random case could not be made");
}

shoal_status_t shoal_generate_context(gen_t *g) {
  const int64_t size = 2 + shoal_roll(g, 2), other = shoal_chance(g, 50) ? 2 : 1;
  const bool micro = shoal_chance(g, 50), queries = shoal_chance(g, 25);
  const char *mesh = shoal_arena_printf(g->arena, "data=%lld,context=%lld%s", (long long)other,
                                        (long long)size, micro ? ",micro=2" : "");
  const char *rows = queries ? "micro:0,context:2" : "micro:0";
  if (!micro) rows = queries ? "context:2" : "";
  g->c->ranks = other * size;
  if (!mesh || !SHOAL_PUSH(g->arena, &g->c->meshes, mesh)) return SHOAL_OOM();
  for (int64_t i = 0; i < g->c->inputs.count; ++i) {
    const shoal_intent_entry_t pin = {shoal_arena_printf(g->arena, "i%lld", (long long)i),
                                      i == 0  ? rows
                                      : micro ? "micro:0"
                                              : ""};
    if (!pin.pattern || !SHOAL_PUSH(g->arena, &g->c->pins, pin)) return SHOAL_OOM();
  }
  const bool both = other > 1 && shoal_chance(g, 60);
  for (int axis = 0; axis < (both ? 2 : 1); ++axis)
    SHOAL_RETURN_IF_ERROR(shoal_generate_decide(g, "way", "*/attention",
                                                axis == 0 ? "context={k:2, v:2 -> out:lse, lse:lse}"
                                                          : "data={k:2, v:2 -> out:lse, lse:lse}"));
  return NULL;
}

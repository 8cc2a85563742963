// Random chains of convolutions and pools over an image whose rows or columns are cut: nodes that
// wait for halos, and start before these are there.
#include <string.h>

#include "base/status.h"
#include "explore/generate.h"

typedef shoal_generator_t gen_t;

// Long enough along `dim` that parts have an interior, short along the other.
static shoal_shape_t image_shape(gen_t *g, int32_t dim) {
  shoal_shape_t shape = {.rank = 4, .dims = {1 + shoal_roll(g, 3), 1 + shoal_roll(g, 2), 0, 0}};
  shape.dims[dim] = 12 + shoal_roll(g, 18);
  shape.dims[5 - dim] = 3 + shoal_roll(g, 2);
  return shape;
}

static const char *pair_text(gen_t *g, int32_t dim, int64_t along, int64_t across) {
  return dim == 2
             ? shoal_arena_printf(g->arena, "[%lld,%lld]", (long long)along, (long long)across)
             : shoal_arena_printf(g->arena, "[%lld,%lld]", (long long)across, (long long)along);
}

// Convolves or pools `x` with a window of 2 to 4 along `dim`; gives up where nothing would be left.
static bool add_window(gen_t *g, int32_t dim, shoal_case_ref_t *x) {
  const shoal_type_t type = shoal_generate_type(g, *x);
  const bool pool = shoal_chance(g, 30);
  const int64_t kernel = 2 + shoal_roll(g, 3), stride = shoal_chance(g, 70) ? 1 : 2;
  const int64_t padding = shoal_roll(g, (pool ? kernel / 2 : kernel - 1) + 1);
  const int64_t dilation = !pool && shoal_chance(g, 20) ? 2 : 1;
  const char *steps = pair_text(g, dim, stride, 1), *around = pair_text(g, dim, padding, 0);
  const char *taps = pair_text(g, dim, pool ? kernel : dilation, 1);
  const char *attrs = shoal_arena_printf(g->arena, "stride=%s, padding=%s, %s=%s", steps, around,
                                         pool ? "kernel" : "dilation", taps);
  shoal_case_ref_t inputs[2] = {*x}, out;
  if (pool) {
    if (!shoal_generate_node(g, "max_pool", 1, inputs, attrs, 4, &out)) return false;
  } else {
    shoal_shape_t weight = {.rank = 4, .dims = {1 + shoal_roll(g, 3), type.shape.dims[1], 1, 1}};
    weight.dims[dim] = kernel;
    inputs[1] = shoal_generate_state(g, &weight);
    if (!shoal_generate_node(g, "conv", 2, inputs, attrs, 4, &out)) return false;
  }
  return shoal_generate_node(g, "tanh", 1, &out, "", 2, x);
}

void shoal_generate_training(gen_t *g) {
  g->dtype = shoal_chance(g, 70) ? SHOAL_F64 : SHOAL_F32;
  g->c->steps = SHOAL_CASE_STEPS;
  g->c->optimizer = (shoal_case_optimizer_t)(1 + shoal_roll(g, SHOAL_CASE_DRAWN_COUNT - 1));
  g->c->eval = shoal_chance(g, 25);
  g->c->opaque = shoal_chance(g, 25);
}

shoal_status_t shoal_generate_windows(gen_t *g) {
  const int64_t layers = 1 + shoal_roll(g, 3);
  g->window_dim = 2 + (int32_t)shoal_roll(g, 2);
  const shoal_shape_t shape = image_shape(g, g->window_dim);
  shoal_generate_training(g);
  shoal_case_ref_t x = shoal_generate_input(g, &(shoal_case_input_t){.type = {g->dtype, shape}});
  shoal_case_ref_t sum[2] = {x, shoal_generate_state(g, &shape)};
  // The image is added to a state: so that the first layer has a gradient by its input, too.
  bool ok = shoal_generate_node(g, "add", 2, sum, "", 2, &x);
  for (int64_t i = 0; i < layers && ok; ++i) ok = add_window(g, g->window_dim, &x);
  return ok ? NULL : SHOAL_ERROR(INTERNAL, "a window of a random case could not be made");
}

shoal_status_t shoal_generate_space(gen_t *g, const shoal_model_t *model) {
  const int64_t size = 2 + shoal_roll(g, 3), micro = shoal_chance(g, 30) ? 2 : 1;
  const bool two = shoal_chance(g, 20), data = !two && shoal_chance(g, 25);
  const char *mesh = two    ? "space=2,seq=2"
                     : data ? shoal_arena_printf(g->arena, "data=2,space=%lld", (long long)size)
                            : shoal_arena_printf(g->arena, "space=%lld", (long long)size);
  const char *weights = !two && shoal_chance(g, 30)
                            ? shoal_ints_text(g, (int32_t)size, (int64_t[]){3, 2, 3, 2})
                            : NULL;
  (void)model;
  g->c->ranks = two ? 4 : data ? 2 * size : size;
  char *cut = shoal_arena_printf(g->arena, "space:%d%s", g->window_dim, weights ? weights : "");
  if (!mesh || !cut) return SHOAL_OOM();
  for (char *at = cut; *at; ++at) *at = (char)(*at == '[' ? '(' : *at == ']' ? ')' : *at);
  const char *layout = shoal_arena_printf(g->arena, "%s%s%s%s", micro > 1 ? "micro:0," : "",
                                          data ? "data:0," : "", cut,
                                          !two                 ? ""
                                          : g->window_dim == 2 ? ",seq:3"
                                                               : ",seq:2");
  if (micro > 1) mesh = shoal_arena_printf(g->arena, "%s,micro=%lld", mesh, (long long)micro);
  const shoal_intent_entry_t image = {"i0", layout}, state = {"s0", cut};
  const shoal_intent_decision_t halo = {.kind = "halo",
                                        .pattern = shoal_chance(g, 85) ? "*" : "grad/*",
                                        .choice = "auto",
                                        .by = "random",
                                        .reason = "drawn"};
  bool ok = mesh && layout && SHOAL_PUSH(g->arena, &g->c->meshes, mesh) &&
            SHOAL_PUSH(g->arena, &g->c->pins, image) &&
            (!shoal_chance(g, 50) || SHOAL_PUSH(g->arena, &g->c->pins, state)) &&
            SHOAL_PUSH(g->arena, &g->c->decisions, halo);
  // What layers make stays cut, where a rank would not rather have it all.
  for (int64_t n = 0; n < g->c->nodes.count && ok; ++n) {
    const shoal_case_scope_t scope = shoal_random_case_scope(g->c, n);
    const shoal_intent_entry_t made = {
        shoal_arena_printf(g->arena, "%s/%s", scope.text, g->c->nodes.items[n].op), layout};
    if (shoal_chance(g, 70)) ok = made.pattern && SHOAL_PUSH(g->arena, &g->c->pins, made);
  }
  return ok ? NULL : SHOAL_OOM();
}

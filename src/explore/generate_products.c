// Random chains of products over rows that are cut, as in sequence parallelism: what is cut along
// rows is gathered in front of a product whose columns are cut, and the sum of the next one is
// scattered along rows again. Products are computed in tiles.
#include <string.h>

#include "base/status.h"
#include "explore/generate.h"

typedef shoal_generator_t gen_t;

// x @ weight, tanh. Rows of a batch: [B, T, C] @ [C, N].
static bool add_product(gen_t *g, int64_t columns, shoal_case_ref_t *x) {
  const shoal_type_t type = shoal_generate_type(g, *x);
  const bool batch = type.shape.rank == 3;
  const shoal_shape_t weight = SHOAL_SHAPE(type.shape.dims[type.shape.rank - 1], columns);
  shoal_case_ref_t inputs[2] = {*x, shoal_generate_state(g, &weight)}, out;
  const char *attrs = batch ? "equation=\"btc,cn->btn\"" : "";
  return shoal_generate_node(g, batch ? "einsum" : "matmul", 2, inputs, attrs, 8, &out) &&
         shoal_generate_node(g, "tanh", 1, &out, "", 2, x);
}

shoal_status_t shoal_generate_products(gen_t *g) {
  const int64_t layers = 1 + shoal_roll(g, 2);
  const bool batch = shoal_chance(g, 60);
  const int64_t rows = 6 + shoal_roll(g, 12), columns = 2 + shoal_roll(g, 3);
  const shoal_shape_t shape =
      batch ? SHOAL_SHAPE(2 + shoal_roll(g, 3), rows, columns) : SHOAL_SHAPE(rows, columns);
  g->window_dim = batch ? 1 : 0;
  shoal_generate_training(g);
  shoal_case_ref_t x = shoal_generate_input(g, &(shoal_case_input_t){.type = {g->dtype, shape}});
  bool ok = shoal_generate_node(g, "tanh", 1, &x, "", 2, &x);
  for (int64_t i = 0; i < layers && ok; ++i)
    ok = add_product(g, 4 + shoal_roll(g, 5), &x) && add_product(g, 2 + shoal_roll(g, 3), &x);
  return ok ? NULL : SHOAL_ERROR(INTERNAL, "a product of a random case could not be made");
}

// Node n is a product: the first of a pair has its columns cut, the second what it sums over.
static shoal_status_t cut_product(gen_t *g, int64_t n, bool second) {
  const char *name =
      shoal_arena_printf(g->arena, "*v%lld/%s", (long long)n, g->c->nodes.items[n].op);
  const char *first = g->window_dim > 0 ? "tensor={b:1 -> out:2}" : "tensor={b:1 -> out:1}";
  const char *sums =
      g->window_dim > 0 ? "tensor={a:2, b:0 -> out:sum}" : "tensor={a:1, b:0 -> out:sum}";
  if (!name) return SHOAL_OOM();
  return shoal_generate_decide(g, "way", name, second ? sums : first);
}

shoal_status_t shoal_generate_sequence(gen_t *g) {
  const int64_t size = 2 + shoal_roll(g, 2), micro = g->window_dim > 0 && shoal_chance(g, 50);
  const bool data = g->window_dim > 0 && shoal_chance(g, 25), uneven = shoal_chance(g, 30);
  const char *mesh = shoal_arena_printf(g->arena, "%stensor=%lld%s", data ? "data=2," : "",
                                        (long long)size, micro ? ",micro=2" : "");
  const char *rows = shoal_arena_printf(g->arena, "%s%stensor:%d%s", micro ? "micro:0," : "",
                                        data ? "data:0," : "", g->window_dim,
                                        !uneven     ? ""
                                        : size == 2 ? "(3,2)"
                                                    : "(1,0,2)");
  static const char *const counts[] = {"auto 2", "auto 3", "auto 4"};
  g->c->ranks = data ? 2 * size : size;
  if (!mesh || !rows || !SHOAL_PUSH(g->arena, &g->c->meshes, mesh) ||
      !SHOAL_PUSH(g->arena, &g->c->pins, ((shoal_intent_entry_t){"i0", rows})))
    return SHOAL_OOM();
  int64_t products = 0;
  for (int64_t n = 0; n < g->c->nodes.count; ++n) {
    const bool product = strcmp(g->c->nodes.items[n].op, "tanh") != 0;
    if (product) SHOAL_RETURN_IF_ERROR(cut_product(g, n, products++ % 2 == 1));
    if (product || products % 2 == 1) continue;
    const shoal_intent_entry_t pin = {shoal_arena_printf(g->arena, "*v%lld/tanh", (long long)n),
                                      rows};
    if (!pin.pattern || !SHOAL_PUSH(g->arena, &g->c->pins, pin)) return SHOAL_OOM();
  }
  return shoal_generate_decide(g, "tile", shoal_chance(g, 80) ? "*" : "grad/*",
                               counts[shoal_roll(g, 3)]);
}

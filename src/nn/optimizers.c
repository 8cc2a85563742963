// The optimizers: which states each keeps next to a parameter, and the op that updates them.
#include <math.h>
#include <string.h>

#include "graph/builder.h"
#include "nn/optimizer.h"
#include "shoal/options.h"

// ---- one state ----------------------------------------------------------------------------------

static void update_by_sgd(shoal_targets_t *t, int32_t i, const shoal_recipe_t *o) {
  shoal_value_t w = t->states[i], g = t->gradients[i];
  if (o->momentum == 0) {
    shoal_nn_put(t, w, shoal_sgd_update(t->graph, w, g, t->lr, o->weight_decay));
    return;
  }
  shoal_value_t m = shoal_nn_moment(t, i, "sgd.momentum"), out[2];
  shoal_node_add(t->graph, "shoal.sgd_momentum_update", o->dampening != 0 ? 5 : 4,
                 (shoal_value_t[]){w, g, m, t->lr, t->step}, 4,
                 (shoal_attr_t[]){shoal_attr_real("momentum", o->momentum),
                                  shoal_attr_real("weight_decay", o->weight_decay),
                                  shoal_attr_int("nesterov", o->nesterov == SHOAL_ON),
                                  shoal_attr_real("dampening", o->dampening)},
                 2, out);
  shoal_nn_put(t, w, out[0]);
  shoal_nn_put(t, m, out[1]);
}

// Adam and its kin keep two moments, and have the same attributes.
static void update_by_moments(shoal_targets_t *t, int32_t i, const shoal_recipe_t *o,
                              const char *op, const char *names[2], double eps) {
  const shoal_value_t m = shoal_nn_moment(t, i, names[0]), v = shoal_nn_moment(t, i, names[1]);
  const shoal_value_t in[] = {t->states[i], t->gradients[i], m, v, t->lr, t->step};
  const shoal_attr_t attrs[] = {shoal_attr_real("beta1", shoal_nn_or(o->beta1, 0.9)),
                                shoal_attr_real("beta2", shoal_nn_or(o->beta2, 0.999)),
                                shoal_attr_real("eps", shoal_nn_or(o->eps, eps)),
                                shoal_attr_real("weight_decay", o->weight_decay)};
  shoal_value_t out[3];
  shoal_node_add(t->graph, op, 6, in, 4, attrs, 3, out);
  shoal_nn_put(t, t->states[i], out[0]);
  shoal_nn_put(t, m, out[1]);
  shoal_nn_put(t, v, out[2]);
}

#define ADAM(name, eps)                                                                            \
  static void update_by_##name(shoal_targets_t *t, int32_t i, const shoal_recipe_t *o) {           \
    update_by_moments(t, i, o, "shoal." #name "_update", (const char *[]){#name ".m", #name ".v"}, \
                      eps);                                                                        \
  }

ADAM(adam, 1e-8)
ADAM(adamw, 1e-8)
ADAM(lamb, 1e-6)

static void update_by_lion(shoal_targets_t *t, int32_t i, const shoal_recipe_t *o) {
  shoal_value_t w = t->states[i], m = shoal_nn_moment(t, i, "lion.m"), new_w, new_m;
  shoal_lion_update(t->graph, w, t->gradients[i], m, t->lr, shoal_nn_or(o->beta1, 0.9),
                    shoal_nn_or(o->beta2, 0.99), o->weight_decay, &new_w, &new_m);
  shoal_nn_put(t, w, new_w);
  shoal_nn_put(t, m, new_m);
}

// Matrices have a moment for each row and each column, others one for each element.
static void update_by_adafactor(shoal_targets_t *t, int32_t i, const shoal_recipe_t *o) {
  shoal_value_t w = t->states[i], g = t->gradients[i], out[3];
  shoal_shape_t shape = shoal_value_type(w).shape, cols = shape;
  const shoal_attr_t attrs[] = {shoal_attr_real("beta2_decay", shoal_nn_or(o->beta2_decay, -0.8)),
                                shoal_attr_real("eps1", o->eps),
                                shoal_attr_real("eps2", shoal_nn_or(o->eps2, 1e-3)),
                                shoal_attr_real("clip", shoal_nn_or(o->clip, 1)),
                                shoal_attr_real("weight_decay", o->weight_decay)};
  enum { ATTRS = sizeof attrs / sizeof *attrs };
  if (shape.rank < 2) {
    shoal_value_t v = shoal_nn_moment(t, i, "adafactor.v");
    shoal_node_add(t->graph, "shoal.adafactor_vector_update", 5,
                   (shoal_value_t[]){w, g, v, t->lr, t->step}, ATTRS, attrs, 2, out);
    shoal_nn_put(t, w, out[0]);
    shoal_nn_put(t, v, out[1]);
    return;
  }
  shape.rank--;
  cols.rank--;
  cols.dims[cols.rank - 1] = cols.dims[cols.rank];
  shoal_value_t of_rows = shoal_nn_moment_of(t, i, "adafactor.rows", shape);
  shoal_value_t of_cols = shoal_nn_moment_of(t, i, "adafactor.cols", cols);
  shoal_node_add(t->graph, "shoal.adafactor_update", 6,
                 (shoal_value_t[]){w, g, of_rows, of_cols, t->lr, t->step}, ATTRS, attrs, 3, out);
  shoal_nn_put(t, w, out[0]);
  shoal_nn_put(t, of_rows, out[1]);
  shoal_nn_put(t, of_cols, out[2]);
}

// Trains matrices alone: groups.c sees to it.
static void update_by_muon(shoal_targets_t *t, int32_t i, const shoal_recipe_t *o) {
  shoal_value_t w = t->states[i], out[2];
  const shoal_value_t m = shoal_nn_moment(t, i, "muon.m");
  const shoal_attr_t attrs[] = {
      shoal_attr_real("momentum", shoal_nn_or(o->momentum, 0.95)),
      shoal_attr_real("weight_decay", o->weight_decay),
      shoal_attr_int("nesterov", o->nesterov != SHOAL_OFF),
      shoal_attr_int("steps", o->orthogonal_steps ? o->orthogonal_steps : 5),
      shoal_attr_string("adjust", o->adjust ? o->adjust : "original"),
      shoal_attr_int("transposed", !o->rows_are_outputs)};
  shoal_node_add(t->graph, "shoal.muon_update", 4, (shoal_value_t[]){w, t->gradients[i], m, t->lr},
                 sizeof attrs / sizeof *attrs, attrs, 2, out);
  shoal_nn_put(t, w, out[0]);
  shoal_nn_put(t, m, out[1]);
}

// ---- all of them --------------------------------------------------------------------------------

static void check_sgd(shoal_graph_t *graph, const shoal_recipe_t *o) {
  if (o->nesterov == SHOAL_ON && o->momentum == 0)
    shoal_nn_refuse(graph, "nesterov needs a momentum above 0");
  if (o->dampening != 0 && (o->momentum == 0 || o->nesterov == SHOAL_ON))
    shoal_nn_refuse(graph, "dampening needs a momentum above 0, and not nesterov's");
}

static void check_adafactor(shoal_graph_t *graph, const shoal_recipe_t *o) {
  shoal_nn_check_factor(graph, "-beta2_decay", -o->beta2_decay, INFINITY);
  shoal_nn_check_factor(graph, "eps2", o->eps2, INFINITY);
  shoal_nn_check_factor(graph, "clip", o->clip, INFINITY);
}

static void check_muon(shoal_graph_t *graph, const shoal_recipe_t *o) {
  shoal_nn_check_factor(graph, "momentum", o->momentum, 1);
}

static const shoal_nn_optimizer_t OPTIMIZERS[] = {
    {"adamw", 1e-3, update_by_adamw, NULL},
    {"adam", 1e-3, update_by_adam, NULL},
    {"sgd", 1e-2, update_by_sgd, check_sgd},
    {"lion", 1e-4, update_by_lion, NULL},
    {"lamb", 1e-3, update_by_lamb, NULL},
    {"adafactor", 1e-2, update_by_adafactor, check_adafactor},
    {"muon", 1e-3, update_by_muon, check_muon}};
enum { OPTIMIZER_COUNT = sizeof OPTIMIZERS / sizeof *OPTIMIZERS };

const shoal_nn_optimizer_t *shoal_nn_optimizer_find(shoal_graph_t *graph, const char *name) {
  const char *names[OPTIMIZER_COUNT], *wanted = name ? name : "adamw";
  for (int32_t i = 0; i < OPTIMIZER_COUNT; ++i) {
    names[i] = OPTIMIZERS[i].name;
    if (strcmp(names[i], wanted) == 0) return &OPTIMIZERS[i];
  }
  shoal_hint_t hint;
  shoal_nn_refuse_hint(graph,
                       shoal_did_you_mean(wanted, names, OPTIMIZER_COUNT,
                                          "adamw, adam, sgd, lion, lamb, adafactor or muon", &hint),
                       "there is no optimizer '%s'", wanted);
  return NULL;
}

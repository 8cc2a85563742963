// The optimizers: which states each keeps next to a parameter, and the op that updates them.
#include <math.h>

#include "graph/builder.h"
#include "nn/optimizer.h"

static void check_adam(shoal_graph_t *graph, double lr, double beta1, double beta2, double eps,
                       double weight_decay) {
  shoal_nn_check_factor(graph, "lr", lr, INFINITY);
  shoal_nn_check_factor(graph, "beta1", beta1, 1);
  shoal_nn_check_factor(graph, "beta2", beta2, 1);
  shoal_nn_check_factor(graph, "eps", eps, INFINITY);
  shoal_nn_check_factor(graph, "weight_decay", weight_decay, INFINITY);
}

// ---- one state ----------------------------------------------------------------------------------

static void update_by_sgd(shoal_targets_t *t, int32_t i, void *options) {
  const shoal_sgd_t *o = options;
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
                                  shoal_attr_int("nesterov", o->nesterov),
                                  shoal_attr_real("dampening", o->dampening)},
                 2, out);
  shoal_nn_put(t, w, out[0]);
  shoal_nn_put(t, m, out[1]);
}

// Adam and its kin keep two moments, and have the same attributes.
typedef struct adam {
  const char *op, *m, *v;  // names of the op and of the moments
  double beta1, beta2, eps, weight_decay;
} adam_t;

static void update_by_moments(shoal_targets_t *t, int32_t i, const adam_t *a) {
  const shoal_value_t m = shoal_nn_moment(t, i, a->m), v = shoal_nn_moment(t, i, a->v);
  const shoal_value_t in[] = {t->states[i], t->gradients[i], m, v, t->lr, t->step};
  const shoal_attr_t attrs[] = {shoal_attr_real("beta1", shoal_nn_or(a->beta1, 0.9)),
                                shoal_attr_real("beta2", shoal_nn_or(a->beta2, 0.999)),
                                shoal_attr_real("eps", a->eps),
                                shoal_attr_real("weight_decay", a->weight_decay)};
  shoal_value_t out[3];
  shoal_node_add(t->graph, a->op, 6, in, 4, attrs, 3, out);
  shoal_nn_put(t, t->states[i], out[0]);
  shoal_nn_put(t, m, out[1]);
  shoal_nn_put(t, v, out[2]);
}

#define ADAM(name, options_t, usual_eps)                                                     \
  static void update_by_##name(shoal_targets_t *t, int32_t i, void *options) {               \
    const options_t *o = options;                                                            \
    update_by_moments(t, i,                                                                  \
                      &(adam_t){"shoal." #name "_update", #name ".m", #name ".v", o->beta1,  \
                                o->beta2, shoal_nn_or(o->eps, usual_eps), o->weight_decay}); \
  }

ADAM(adam, shoal_adam_t, 1e-8)
ADAM(adamw, shoal_adamw_t, 1e-8)
ADAM(lamb, shoal_lamb_t, 1e-6)

static void update_by_lion(shoal_targets_t *t, int32_t i, void *options) {
  const shoal_lion_t *o = options;
  shoal_value_t w = t->states[i], m = shoal_nn_moment(t, i, "lion.m"), new_w, new_m;
  shoal_lion_update(t->graph, w, t->gradients[i], m, t->lr, shoal_nn_or(o->beta1, 0.9),
                    shoal_nn_or(o->beta2, 0.99), o->weight_decay, &new_w, &new_m);
  shoal_nn_put(t, w, new_w);
  shoal_nn_put(t, m, new_m);
}

// Matrices have a moment for each row and each column, others one for each element.
static void update_by_adafactor(shoal_targets_t *t, int32_t i, void *options) {
  const shoal_adafactor_t *o = options;
  shoal_value_t w = t->states[i], g = t->gradients[i], out[3];
  shoal_shape_t shape = shoal_value_type(w).shape, cols = shape;
  const shoal_attr_t attrs[] = {shoal_attr_real("beta2_decay", shoal_nn_or(o->beta2_decay, -0.8)),
                                shoal_attr_real("eps1", o->eps1),
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

// What is no matrix, or is excepted by name, is trained by AdamW, with a learning rate of its own.
static void update_by_muon(shoal_targets_t *t, int32_t i, void *options) {
  shoal_muon_t *o = options;
  shoal_value_t w = t->states[i], out[2];
  const bool excepted = o->except && shoal_pattern_match(o->except, shoal_value_name(w));
  if (shoal_value_type(w).shape.rank != 2 || excepted) {
    const shoal_value_t lr = t->lr;
    if (!o->adamw.lr_value.graph) {
      const shoal_state_options_t start = {
          .init = {SHOAL_INIT_FILL, shoal_nn_or(o->adamw.lr, 1e-3), 0}};
      o->adamw.lr_value = shoal_state(t->graph, "/adamw.lr", SHOAL_F32, SHOAL_SCALAR, &start);
    }
    t->lr = o->adamw.lr_value;
    update_by_adamw(t, i, &o->adamw);
    t->lr = lr;
    return;
  }
  const shoal_value_t m = shoal_nn_moment(t, i, "muon.m");
  const shoal_attr_t attrs[] = {shoal_attr_real("momentum", shoal_nn_or(o->momentum, 0.95)),
                                shoal_attr_real("weight_decay", o->weight_decay),
                                shoal_attr_int("nesterov", !o->no_nesterov),
                                shoal_attr_int("steps", o->steps ? o->steps : 5),
                                shoal_attr_string("adjust", o->adjust ? o->adjust : "original"),
                                shoal_attr_int("transposed", !o->rows_are_outputs)};
  shoal_node_add(t->graph, "shoal.muon_update", 4, (shoal_value_t[]){w, t->gradients[i], m, t->lr},
                 sizeof attrs / sizeof *attrs, attrs, 2, out);
  shoal_nn_put(t, w, out[0]);
  shoal_nn_put(t, m, out[1]);
}

// ---- all of them --------------------------------------------------------------------------------

void shoal_minimize_sgd_at(shoal_graph_t *graph, shoal_value_t loss, const shoal_sgd_t *options,
                           const char *file, int line) {
  shoal_sgd_t o = options ? *options : (shoal_sgd_t){0};
  shoal_site_push(graph, file, line);
  shoal_nn_check_factor(graph, "lr", o.lr, INFINITY);
  shoal_nn_check_factor(graph, "momentum", o.momentum, INFINITY);
  shoal_nn_check_factor(graph, "weight_decay", o.weight_decay, INFINITY);
  if (o.nesterov && o.momentum == 0)
    shoal_nn_refuse(graph, "minimize: nesterov needs a momentum above 0");
  if (o.dampening != 0 && (o.momentum == 0 || o.nesterov))
    shoal_nn_refuse(graph, "minimize: dampening needs a momentum above 0, and not nesterov's");
  shoal_nn_minimize(graph, loss, shoal_nn_or(o.lr, 1e-2), o.lr_value, &o.training, update_by_sgd,
                    &o);
  shoal_site_pop(graph);
}

void shoal_minimize_adam_at(shoal_graph_t *graph, shoal_value_t loss, const shoal_adam_t *options,
                            const char *file, int line) {
  shoal_adam_t o = options ? *options : (shoal_adam_t){0};
  shoal_site_push(graph, file, line);
  check_adam(graph, o.lr, o.beta1, o.beta2, o.eps, o.weight_decay);
  shoal_nn_minimize(graph, loss, shoal_nn_or(o.lr, 1e-3), o.lr_value, &o.training, update_by_adam,
                    &o);
  shoal_site_pop(graph);
}

void shoal_minimize_at(shoal_graph_t *graph, shoal_value_t loss, const shoal_adamw_t *options,
                       const char *file, int line) {
  shoal_adamw_t o = options ? *options : (shoal_adamw_t){0};
  shoal_site_push(graph, file, line);
  check_adam(graph, o.lr, o.beta1, o.beta2, o.eps, o.weight_decay);
  shoal_nn_minimize(graph, loss, shoal_nn_or(o.lr, 1e-3), o.lr_value, &o.training, update_by_adamw,
                    &o);
  shoal_site_pop(graph);
}

void shoal_minimize_lion_at(shoal_graph_t *graph, shoal_value_t loss, const shoal_lion_t *options,
                            const char *file, int line) {
  shoal_lion_t o = options ? *options : (shoal_lion_t){0};
  shoal_site_push(graph, file, line);
  check_adam(graph, o.lr, o.beta1, o.beta2, 0, o.weight_decay);
  shoal_nn_minimize(graph, loss, shoal_nn_or(o.lr, 1e-4), o.lr_value, &o.training, update_by_lion,
                    &o);
  shoal_site_pop(graph);
}

void shoal_minimize_lamb_at(shoal_graph_t *graph, shoal_value_t loss, const shoal_lamb_t *options,
                            const char *file, int line) {
  shoal_lamb_t o = options ? *options : (shoal_lamb_t){0};
  shoal_site_push(graph, file, line);
  check_adam(graph, o.lr, o.beta1, o.beta2, o.eps, o.weight_decay);
  shoal_nn_minimize(graph, loss, shoal_nn_or(o.lr, 1e-3), o.lr_value, &o.training, update_by_lamb,
                    &o);
  shoal_site_pop(graph);
}

void shoal_minimize_adafactor_at(shoal_graph_t *graph, shoal_value_t loss,
                                 const shoal_adafactor_t *options, const char *file, int line) {
  shoal_adafactor_t o = options ? *options : (shoal_adafactor_t){0};
  shoal_site_push(graph, file, line);
  shoal_nn_check_factor(graph, "lr", o.lr, INFINITY);
  shoal_nn_check_factor(graph, "-beta2_decay", -o.beta2_decay, INFINITY);
  shoal_nn_check_factor(graph, "eps1", o.eps1, INFINITY);
  shoal_nn_check_factor(graph, "eps2", o.eps2, INFINITY);
  shoal_nn_check_factor(graph, "clip", o.clip, INFINITY);
  shoal_nn_check_factor(graph, "weight_decay", o.weight_decay, INFINITY);
  shoal_nn_minimize(graph, loss, shoal_nn_or(o.lr, 1e-2), o.lr_value, &o.training,
                    update_by_adafactor, &o);
  shoal_site_pop(graph);
}

void shoal_minimize_muon_at(shoal_graph_t *graph, shoal_value_t loss, const shoal_muon_t *options,
                            const char *file, int line) {
  shoal_muon_t o = options ? *options : (shoal_muon_t){0};
  shoal_site_push(graph, file, line);
  shoal_nn_check_factor(graph, "lr", o.lr, INFINITY);
  shoal_nn_check_factor(graph, "momentum", o.momentum, 1);
  shoal_nn_check_factor(graph, "weight_decay", o.weight_decay, INFINITY);
  check_adam(graph, o.adamw.lr, o.adamw.beta1, o.adamw.beta2, o.adamw.eps, o.adamw.weight_decay);
  shoal_nn_minimize(graph, loss, shoal_nn_or(o.lr, 1e-3), o.lr_value, &o.training, update_by_muon,
                    &o);
  shoal_site_pop(graph);
}

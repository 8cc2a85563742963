// Recipes: learning rates over time against numbers of PyTorch's schedulers, parameter groups
// against computations by hand, optimizers that keep their own count, and what is refused.
#include <math.h>

#include "graph_support.h"
#include "shoal/nn.h"
#include "shoal/ops.h"

enum { STATES = 3, N = 6, STEPS = 12 };

static const char *const NAMES[STATES] = {"fc/weight", "fc/bias", "head/weight"};

// loss = sum over states s of k_s sum(x * s): the gradient of element i of state s is k_s x[i].
static shoal_value_t build(shoal_graph_t *g) {
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(N)), loss = {0};
  const shoal_state_options_t options = {.trainable = true, .init = {SHOAL_INIT_FILL, 0.5, 0}};
  for (int s = 0; s < STATES; ++s) {
    const shoal_shape_t shape = s == 1 ? SHOAL_SHAPE(N) : SHOAL_SHAPE(2, N / 2);
    shoal_value_t w = shoal_state(g, NAMES[s], SHOAL_F64, shape, &options);
    w = shoal_mul(g, shoal_reshape(g, w, SHOAL_SHAPE(N)), x);
    w = shoal_affine(g, shoal_reduce_sum(g, w, SHOAL_SHAPE(0)), s + 1, 0);
    loss = s ? shoal_add(g, loss, w) : w;
  }
  return loss;
}

typedef struct trainer {
  shoal_model_t *model;
  shoal_interpreter_t *in;
  double x[N];
} trainer_t;

static void trainer_init(trainer_t *t, const shoal_recipe_t *recipe) {
  *t = (trainer_t){.model = new_model(0)};
  shoal_graph_t *g = shoal_model_graph(t->model, "train");
  shoal_optimize(g, build(g), recipe);
  assert_ok(shoal_model_status(t->model));
  assert_ok(shoal_model_verify(t->model));
  assert_ok(shoal_interpreter_create(t->model, NULL, &t->in));
  assert_ok(shoal_interpreter_run(t->in, "init"));
}

static void trainer_deinit(trainer_t *t) {
  shoal_interpreter_free(t->in);
  shoal_model_free(t->model);
}

static void trainer_step(trainer_t *t, int step) {
  for (int i = 0; i < N; ++i) t->x[i] = 0.3 * (i + 1) - 0.17 * step;
  assert_ok(shoal_interpreter_feed(t->in, "x", t->x, sizeof t->x));
  assert_ok(shoal_interpreter_run(t->in, "train"));
}

static double output_of(const trainer_t *t, const char *name) {
  shoal_tensor_t tensor;
  assert_ok(shoal_interpreter_output(t->in, name, &tensor));
  return element(tensor, 0);
}

static double state_of(const trainer_t *t, const char *name, int64_t i) {
  shoal_tensor_t tensor;
  const int32_t state = shoal_model_find_state(t->model, name);
  if (state < 0) fail_msg("no state '%s'", name);
  assert_ok(shoal_interpreter_state(t->in, state, &tensor));
  return element(tensor, i);
}

static void check_near(const char *what, int step, double found, double expected, double within) {
  if (!(fabs(found - expected) <= within)) {
    fail_msg("%s in step %d is %.12g, not %.12g", what, step, found, expected);
  }
}

// ---- rates -----------------------------------------------------------------------------

// What torch 2's schedulers give with lr 1 (the first case is LinearLR; linear, cosine and wsd are
// LambdaLR with transformers' functions; step with a warm-up is SequentialLR).
static const struct {
  shoal_lr_schedule_t schedule;
  double factors[STEPS];
} RATES[] = {
    {{.warmup = 4, .first_factor = 0.1}, {0.1, 0.325, 0.55, 0.775, 1, 1, 1, 1, 1, 1, 1, 1}},
    {{.kind = "linear", .warmup = 3, .steps = 10},
     {0, 0.3333333333, 0.6666666667, 1, 0.8571428571, 0.7142857143, 0.5714285714, 0.4285714286,
      0.2857142857, 0.1428571429, 0, 0}},
    {{.kind = "cosine", .warmup = 3, .steps = 10},
     {0, 0.3333333333, 0.6666666667, 1, 0.950484434, 0.8117449009, 0.611260467, 0.388739533,
      0.1882550991, 0.04951556605, 0, 0}},
    {{.kind = "cosine", .steps = 10, .last_factor = 0.2},
     {1, 0.9804226065, 0.9236067977, 0.8351141009, 0.7236067977, 0.6, 0.4763932023, 0.3648858991,
      0.2763932023, 0.2195773935, 0.2, 0.2}},
    {{.kind = "step", .decay_every = 4}, {1, 1, 1, 1, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.01}},
    {{.kind = "step", .decay_every = 3, .gamma = 0.5, .warmup = 2, .first_factor = 0.25},
     {0.25, 0.625, 1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125}},
    {{.kind = "one_cycle", .steps = 12},
     {0.04, 0.3497896542, 0.8792851591, 0.9944154355, 0.9330129698, 0.8117456539, 0.6473789977,
      0.4626371027, 0.2830609982, 0.1334775302, 0.03456698743, 4e-06}},
    {{.kind = "one_cycle",
      .steps = 12,
      .curve = "linear",
      .three_phases = true,
      .rise = 0.4,
      .div = 10,
      .final_div = 100},
     {0.1, 0.3368421053, 0.5736842105, 0.8105263158, 0.9526315789, 0.7157894737, 0.4789473684,
      0.2421052632, 0.08835294118, 0.05923529412, 0.03011764706, 0.001}},
    {{.kind = "wsd", .warmup = 2, .steps = 10, .decay_steps = 4, .last_factor = 0.1},
     {0, 0.5, 1, 1, 1, 1, 1, 0.775, 0.55, 0.325, 0.1, 0.1}},
    {{.kind = "wsd", .warmup = 2, .steps = 10, .decay_steps = 4, .curve = "cosine"},
     {0, 0.5, 1, 1, 1, 1, 1, 0.8535533906, 0.5, 0.1464466094, 0, 0}},
    {{.kind = "wsd",
      .warmup = 2,
      .steps = 10,
      .decay_steps = 4,
      .last_factor = 0.1,
      .curve = "sqrt"},
     {0, 0.5, 1, 1, 1, 1, 1, 0.55, 0.3636038969, 0.2205771366, 0.1, 0.1}},
};

static void rates(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof RATES / sizeof *RATES; ++k) {
    trainer_t t;
    trainer_init(
        &t, &(shoal_recipe_t){.optimizer = "sgd", .lr = 0.5, .lr_schedule = RATES[k].schedule});
    double w[N];
    for (int i = 0; i < N; ++i) w[i] = 0.5;
    const char *kind = RATES[k].schedule.kind ? RATES[k].schedule.kind : "constant";
    for (int step = 1; step <= STEPS; ++step) {
      trainer_step(&t, step);
      const double rate = 0.5 * RATES[k].factors[step - 1];
      check_near(kind, step, output_of(&t, "rate"), rate, 1e-7);
      for (int i = 0; i < N; ++i) w[i] -= rate * 3 * t.x[i];
      for (int i = 0; i < N; ++i) check_near("w", step, state_of(&t, "head/weight", i), w[i], 2e-6);
    }
    assert_true(state_of(&t, "lr", 0) == 0.5);  // the base stays what it is
    trainer_deinit(&t);
  }
}

// ---- groups ----------------------------------------------------------------------------

// A rate of its own, no decay, another optimizer with its own rate, frozen; one norm over all that
// is trained.
static void groups(void **state) {
  (void)state;
  const shoal_parameter_group_t list[] = {
      {.pattern = "*", .lr_factor = 0.5},  // all, but those below
      {.pattern = "*/bias,*/gamma", .no_decay = true},
      {.pattern = "head/*",
       .min_dims = 2,
       .optimizer = "adamw",
       .name = "head",
       .lr = 0.125,
       .beta1 = 0.5}};
  trainer_t t;
  trainer_init(&t, &(shoal_recipe_t){.optimizer = "sgd",
                                     .lr = 0.25,
                                     .weight_decay = 0.5,
                                     .momentum = 0.75,
                                     .groups = list,
                                     .group_count = 3,
                                     .training = {.clip_norm = 1}});
  double w[STATES][N], m[STATES][N] = {{0}}, v[N] = {0};
  for (int s = 0; s < STATES; ++s) {
    for (int i = 0; i < N; ++i) w[s][i] = 0.5;
  }
  for (int step = 1; step <= 5; ++step) {
    trainer_step(&t, step);
    double squares = 0;
    for (int s = 0; s < STATES; ++s) {
      for (int i = 0; i < N; ++i) squares += (s + 1) * t.x[i] * (s + 1) * t.x[i];
    }
    const double factor = fmin(1, 1 / (sqrt(squares) + 1e-6));
    for (int i = 0; i < N; ++i) {
      for (int s = 0; s < 2; ++s) {
        const double g = factor * (s + 1) * t.x[i] + (s == 0 ? 0.5 * w[s][i] : 0);
        m[s][i] = 0.75 * m[s][i] + g;
        w[s][i] -= (s == 0 ? 0.125 : 0.25) * m[s][i];
      }
      const double g = factor * 3 * t.x[i];
      m[2][i] = 0.5 * m[2][i] + 0.5 * g;
      v[i] = 0.999 * v[i] + (1 - 0.999) * g * g;
      const double mh = m[2][i] / (1 - pow(0.5, step)), vh = v[i] / (1 - pow(0.999, step));
      w[2][i] -= 0.125 * mh / (sqrt(vh) + 1e-8);
    }
    for (int s = 0; s < STATES; ++s) {
      for (int i = 0; i < N; ++i) {
        check_near(NAMES[s], step, state_of(&t, NAMES[s], i), w[s][i], 1e-12);
      }
    }
  }
  assert_true(state_of(&t, "head.lr", 0) == 0.125);
  trainer_deinit(&t);
}

static void frozen(void **state) {
  (void)state;
  const shoal_parameter_group_t list[] = {{.max_dims = 1, .frozen = true}};
  trainer_t t;
  trainer_init(&t, &(shoal_recipe_t){.groups = list, .group_count = 1});
  trainer_step(&t, 1);
  assert_true(state_of(&t, "fc/bias", 0) == 0.5);
  assert_true(state_of(&t, "fc/weight", 0) != 0.5);
  assert_int_equal(shoal_model_find_state(t.model, "fc/bias#adamw.m"), -1);
  trainer_deinit(&t);
}

// Muon has matrices; AdamW has the rest, with its own rate.
static void muon_for_matrices(void **state) {
  (void)state;
  const shoal_parameter_group_t list[] = {{.pattern = "head/*", .optimizer = "adam"}};
  trainer_t t;
  trainer_init(&t, &(shoal_recipe_t){.optimizer = "muon", .groups = list, .group_count = 1});
  assert_true(shoal_model_find_state(t.model, "fc/weight#muon.m") >= 0);
  assert_true(shoal_model_find_state(t.model, "fc/bias#adamw.m") >= 0);
  assert_true(shoal_model_find_state(t.model, "head/weight#adam.m") >= 0);
  trainer_step(&t, 1);
  check_near("adamw.lr", 1, state_of(&t, "adamw.lr", 0), 1e-3, 1e-9);
  trainer_deinit(&t);
}

// ---- two optimizers --------------------------------------------------------------------

// Each with its own rate and count, in graphs that run in any order.
static void two_optimizers(void **state) {
  (void)state;
  trainer_t t = {.model = new_model(0)};
  static const char *const names[] = {"fc", "head"};
  for (int k = 0; k < 2; ++k) {
    shoal_graph_t *g = shoal_model_graph(t.model, k ? "train" : "first");
    shoal_optimize(
        g, build(g),
        &(shoal_recipe_t){
            .optimizer = "sgd",
            .lr = k ? 0.25 : 0.5,
            .lr_schedule = {.kind = "step", .decay_every = 1, .gamma = 0.5},
            .training = {
                .only = k ? "head/*" : "fc/*", .name = names[k], .loss_scale = k ? 0 : 8}});
  }
  assert_ok(shoal_model_verify(t.model));
  assert_ok(shoal_interpreter_create(t.model, NULL, &t.in));
  assert_ok(shoal_interpreter_run(t.in, "init"));
  for (int step = 1; step <= 3; ++step) {
    for (int i = 0; i < N; ++i) t.x[i] = 1;
    assert_ok(shoal_interpreter_feed(t.in, "x", t.x, sizeof t.x));
    for (int k = 0; k < step; ++k) assert_ok(shoal_interpreter_run(t.in, "first"));
    trainer_step(&t, step);
    check_near("head.rate", step, output_of(&t, "head.rate"), 0.25 * pow(0.5, step - 1), 1e-8);
  }
  assert_true(state_of(&t, "fc.step", 0) == 6 && state_of(&t, "head.step", 0) == 3);
  assert_true(state_of(&t, "fc.updates", 0) == 6 && state_of(&t, "fc.loss_scale", 0) == 8);
  check_near("fc/weight", 3, state_of(&t, "fc/weight", 0), 0.5 - 0.5 * (2 - pow(0.5, 5)), 1e-12);
  trainer_deinit(&t);
}

// ---- refusals --------------------------------------------------------------------------

static void refusals(void **state) {
  (void)state;
  const shoal_parameter_group_t nothing[] = {{.pattern = "fc/weigt"}};
  const shoal_parameter_group_t hidden[] = {{.pattern = "fc/*"}, {.pattern = "*"}};
  const shoal_parameter_group_t nameless[] = {{.pattern = "fc/*", .lr = 1}};
  const shoal_parameter_group_t climbs[] = {{.pattern = "fc/*", .lr_factor = -1}};
  const struct {
    shoal_recipe_t recipe;
    const char *part;
  } cases[] = {
      {{.optimizer = "adamv"}, "did you mean 'adamw'?"},
      {{.optimizer = "adamv"}, "optimize: there is no optimizer"},
      {{.lr = -1}, "lr is -1"},
      {{.weight_decay = NAN}, "weight_decay is nan"},
      {{.optimizer = "sgd", .nesterov = true}, "nesterov needs a momentum"},
      {{.groups = nothing, .group_count = 1}, "did you mean 'fc/weight'?"},
      {{.groups = nothing, .group_count = 1}, "no trainable state belongs to the group 'fc/weigt'"},
      {{.groups = hidden, .group_count = 2}, "belongs to the group 'fc/*'"},
      {{.groups = nameless, .group_count = 1}, "has no name"},
      {{.groups = climbs, .group_count = 1}, "lr_factor is -1"},
      {{.lr_schedule = {.kind = "cosin"}}, "did you mean 'cosine'?"},
      {{.lr_schedule = {.kind = "cosine"}}, "lr_schedule 'cosine' has 0 steps"},
      {{.lr_schedule = {.kind = "linear", .steps = 5, .warmup = 5}}, "5 of them for the warm-up"},
      {{.lr_schedule = {.kind = "step"}}, "falls every 0 steps"},
      {{.lr_schedule = {.kind = "wsd", .steps = 10, .decay_steps = 11}}, "decays in 11"},
      {{.lr_schedule = {.kind = "wsd", .steps = 10, .curve = "sqr"}}, "did you mean 'sqrt'?"},
      {{.lr_schedule = {.kind = "one_cycle", .steps = 10, .warmup = 2}}, "and no warm-up"},
      {{.lr_schedule = {.kind = "one_cycle", .steps = 10, .rise = 0.1}}, "a phase without a step"},
      {{.lr_schedule = {.warmup = -1}}, "negative number of steps"},
      {{.lr_schedule = {.warmup = 1, .first_factor = -1}}, "lr_schedule.first_factor is -1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    shoal_model_t *model = new_model(0);
    shoal_graph_t *g = shoal_model_graph(model, "train");
    shoal_optimize(g, build(g), &cases[i].recipe);
    assert_error(INVALID_ARGUMENT, cases[i].part, shoal_model_status(model));
    shoal_model_free(model);
  }
  shoal_model_t *model = new_model(0);  // two rates under one name
  for (int k = 0; k < 2; ++k) {
    shoal_graph_t *g = shoal_model_graph(model, k ? "train" : "first");
    shoal_optimize(g, build(g), &(shoal_recipe_t){.lr = k ? 0.1 : 0.2});
  }
  assert_error(INVALID_ARGUMENT, "training.name", shoal_model_status(model));
  shoal_model_free(model);
  shoal_optimize(NULL, shoal_none(), NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rates),          cmocka_unit_test(groups),
      cmocka_unit_test(frozen),         cmocka_unit_test(muon_for_matrices),
      cmocka_unit_test(two_optimizers), cmocka_unit_test(refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

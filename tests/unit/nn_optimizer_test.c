// Optimizers: what the update nodes compute, against a computation by hand; which states they
// touch.
#include <math.h>

#include "graph_support.h"
#include "shoal/nn.h"
#include "shoal/ops.h"

enum { N = 3 };

// loss = sum(x * w): the gradient of w is x, whatever w is.
static shoal_value_t build(shoal_graph_t *g, shoal_value_t *out_w) {
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(N));
  shoal_state_options_t options = {.trainable = true, .init = {SHOAL_INIT_FILL, 0.5, 0}};
  *out_w = shoal_state(g, "w", SHOAL_F64, SHOAL_SHAPE(N), &options);
  shoal_value_t product = node(g, "shoal.mul", x, *out_w), sum;
  shoal_node_add(g, "shoal.reduce_sum", 1, &product, 1,
                 (shoal_attr_t[]){shoal_attr_ints("dims", 1, (int64_t[]){0})}, 1, &sum);
  return sum;
}

static shoal_interpreter_t *start(shoal_model_t *model) {
  shoal_interpreter_t *in;
  assert_ok(shoal_model_verify(model));
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  assert_ok(shoal_interpreter_run(in, "init"));
  return in;
}

static double state_of(shoal_interpreter_t *in, shoal_model_t *model, const char *name, int64_t i) {
  shoal_tensor_t tensor;
  int32_t state = shoal_model_find_state(model, name);
  assert_true(state >= 0);
  assert_ok(shoal_interpreter_state(in, state, &tensor));
  return element(tensor, i);
}

static void feed_step(shoal_interpreter_t *in, int step, double x[N]) {
  for (int i = 0; i < N; ++i) x[i] = 0.3 * (i + 1) - 0.4 * step + (step == 3 ? 2 : 0);
  assert_ok(shoal_interpreter_feed(in, "x", x, N * sizeof(double)));
  assert_ok(shoal_interpreter_run(in, "train"));
}

static void adamw(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t w_value, loss = build(g, &w_value);
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 0.125, .beta1 = 0.8, .weight_decay = 0.01});
  shoal_interpreter_t *in = start(model);
  double w[N] = {0.5, 0.5, 0.5}, m[N] = {0}, v[N] = {0}, x[N];
  for (int step = 1; step <= 5; ++step) {
    feed_step(in, step, x);
    for (int i = 0; i < N; ++i) {
      m[i] = 0.8 * m[i] + 0.2 * x[i];
      v[i] = 0.999 * v[i] + 0.001 * x[i] * x[i];
      double mh = m[i] / (1 - pow(0.8, step)), vh = v[i] / (1 - pow(0.999, step));
      w[i] -= 0.125 * (mh / (sqrt(vh) + 1e-8) + 0.01 * w[i]);
      assert_true(fabs(state_of(in, model, "w", i) - w[i]) < 1e-12);
      assert_true(fabs(state_of(in, model, "w#adamw.m", i) - m[i]) < 1e-14);
      assert_true(fabs(state_of(in, model, "w#adamw.v", i) - v[i]) < 1e-14);
    }
    assert_true(state_of(in, model, "step", 0) == step);
  }
  assert_false(model->states.items[shoal_model_find_state(model, "w#adamw.m")].options.trainable);
  assert_int_equal(model->states.items[shoal_model_find_state(model, "lr")].type.dtype, SHOAL_F32);
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

static void adamw_defaults(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t w, loss = build(g, &w);
  shoal_minimize(g, loss, NULL);
  assert_ok(shoal_model_status(model));
  assert_true(model->states.items[shoal_model_find_state(model, "lr")].options.init.a == 1e-3);
  const shoal_node_t *update = NULL;
  for (int64_t i = 0; i < g->nodes.count; ++i) {
    if (strcmp(g->nodes.items[i].op->name, "shoal.adamw_update") == 0) update = &g->nodes.items[i];
  }
  assert_non_null(update);
  assert_string_equal(update->name, "update/w/adamw_update");
  assert_true(update->attrs[0].f == 0.9 && update->attrs[1].f == 0.999 &&
              update->attrs[2].f == 1e-8 && update->attrs[3].f == 0);
  shoal_model_free(model);
}

static void sgd(void **state) {
  (void)state;
  for (int with_momentum = 0; with_momentum < 2; ++with_momentum) {
    shoal_model_t *model = new_model(0);
    shoal_graph_t *g = shoal_model_graph(model, "train");
    shoal_value_t w_value, loss = build(g, &w_value);
    double momentum = with_momentum ? 0.9 : 0;
    shoal_minimize_sgd(g, loss,
                       &(shoal_sgd_t){.lr = 0.25, .momentum = momentum, .weight_decay = 0.1});
    shoal_interpreter_t *in = start(model);
    double w[N] = {0.5, 0.5, 0.5}, m[N] = {0}, x[N];
    for (int step = 1; step <= 4; ++step) {
      feed_step(in, step, x);
      for (int i = 0; i < N; ++i) {
        m[i] = momentum * m[i] + x[i] + 0.1 * w[i];
        w[i] -= 0.25 * m[i];
        assert_true(fabs(state_of(in, model, "w", i) - w[i]) < 1e-13);
      }
    }
    assert_int_equal(shoal_model_find_state(model, "w#sgd.momentum") >= 0, with_momentum);
    assert_true(state_of(in, model, "step", 0) == 4);
    shoal_interpreter_free(in);
    shoal_model_free(model);
  }
}

// The decay is part of the gradient, and so of both moments.
static void adam(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t w_value, loss = build(g, &w_value);
  shoal_minimize_adam(g, loss, &(shoal_adam_t){.lr = 0.125, .beta2 = 0.99, .weight_decay = 0.25});
  shoal_interpreter_t *in = start(model);
  double w[N] = {0.5, 0.5, 0.5}, m[N] = {0}, v[N] = {0}, x[N];
  for (int step = 1; step <= 4; ++step) {
    feed_step(in, step, x);
    for (int i = 0; i < N; ++i) {
      double slope = x[i] + 0.25 * w[i];
      m[i] = 0.9 * m[i] + 0.1 * slope;
      v[i] = 0.99 * v[i] + 0.01 * slope * slope;
      double mh = m[i] / (1 - pow(0.9, step)), vh = v[i] / (1 - pow(0.99, step));
      w[i] -= 0.125 * mh / (sqrt(vh) + 1e-8);
      assert_true(fabs(state_of(in, model, "w", i) - w[i]) < 1e-12);
      assert_true(fabs(state_of(in, model, "w#adam.m", i) - m[i]) < 1e-14);
      assert_true(fabs(state_of(in, model, "w#adam.v", i) - v[i]) < 1e-14);
    }
  }
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

static void nesterov(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t w_value, loss = build(g, &w_value);
  shoal_minimize_sgd(
      g, loss, &(shoal_sgd_t){.lr = 0.25, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true});
  shoal_interpreter_t *in = start(model);
  double w[N] = {0.5, 0.5, 0.5}, m[N] = {0}, x[N];
  for (int step = 1; step <= 4; ++step) {
    feed_step(in, step, x);
    for (int i = 0; i < N; ++i) {
      double slope = x[i] + 0.1 * w[i];
      m[i] = 0.9 * m[i] + slope;
      w[i] -= 0.25 * (slope + 0.9 * m[i]);
      assert_true(fabs(state_of(in, model, "w", i) - w[i]) < 1e-13);
    }
  }
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

static void dampening(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t w_value, loss = build(g, &w_value);
  shoal_minimize_sgd(
      g, loss, &(shoal_sgd_t){.lr = 0.25, .momentum = 0.9, .weight_decay = 0.1, .dampening = 0.3});
  shoal_interpreter_t *in = start(model);
  double w[N] = {0.5, 0.5, 0.5}, m[N] = {0}, x[N];
  for (int step = 1; step <= 4; ++step) {
    feed_step(in, step, x);
    for (int i = 0; i < N; ++i) {
      double slope = x[i] + 0.1 * w[i];
      m[i] = step == 1 ? slope : 0.9 * m[i] + 0.7 * slope;
      w[i] -= 0.25 * m[i];
      assert_true(fabs(state_of(in, model, "w", i) - w[i]) < 1e-13);
    }
  }
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

static void dampening_needs_momentum(void **state) {
  (void)state;
  for (int i = 0; i < 2; ++i) {
    shoal_model_t *model = new_model(0);
    shoal_graph_t *g = shoal_model_graph(model, "train");
    shoal_value_t w, loss = build(g, &w);
    shoal_minimize_sgd(g, loss,
                       &(shoal_sgd_t){.dampening = 0.5, .momentum = i ? 0.9 : 0, .nesterov = i});
    assert_error(INVALID_ARGUMENT, "dampening needs a momentum", shoal_model_status(model));
    shoal_model_free(model);
  }
}

static void nesterov_needs_momentum(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t w, loss = build(g, &w);
  shoal_minimize_sgd(g, loss, &(shoal_sgd_t){.nesterov = true});
  shoal_status_t status = shoal_model_status(model);
  assert_non_null(strstr(shoal_status_message(status), "minimize_sgd: nesterov needs"));
  shoal_status_free(status);
  shoal_model_free(model);
}

// Steps of +-lr, whatever the size of the gradient; none where the direction is exactly 0.
static void lion(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t w_value, loss = build(g, &w_value);
  shoal_minimize_lion(g, loss, &(shoal_lion_t){.lr = 0.125, .beta1 = 0.75, .weight_decay = 0.5});
  shoal_interpreter_t *in = start(model);
  double w[N] = {0.5, 0.5, 0.5}, m[N] = {0}, x[N] = {0};
  for (int step = 0; step <= 4; ++step) {
    if (step == 0) {
      assert_ok(shoal_interpreter_feed(in, "x", x, sizeof x));
      assert_ok(shoal_interpreter_run(in, "train"));
    } else {
      feed_step(in, step, x);
    }
    for (int i = 0; i < N; ++i) {
      double leads = 0.75 * m[i] + 0.25 * x[i];
      w[i] -= 0.125 * ((leads > 0) - (leads < 0) + 0.5 * w[i]);
      m[i] = 0.99 * m[i] + (1 - 0.99) * x[i];
      assert_true(fabs(state_of(in, model, "w", i) - w[i]) < 1e-14);
      assert_true(fabs(state_of(in, model, "w#lion.m", i) - m[i]) < 1e-14);
    }
  }
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

// A learning rate that is computed, not stored.
static void learning_rate_value(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t w, loss = build(g, &w);
  shoal_value_t lr = shoal_input(g, "rate", SHOAL_F64, SHOAL_SCALAR);
  shoal_minimize_sgd(g, loss, &(shoal_sgd_t){.lr_value = lr});
  assert_int_equal(shoal_model_find_state(model, "lr"), -1);
  shoal_interpreter_t *in = start(model);
  double rate = 2, x[N];
  assert_ok(shoal_interpreter_feed(in, "rate", &rate, sizeof rate));
  feed_step(in, 1, x);
  assert_true(fabs(state_of(in, model, "w", 1) - (0.5 - 2 * x[1])) < 1e-14);
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

static void frozen_states_rest(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_freeze(model, "old*");
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t w, loss = build(g, &w);
  shoal_state_options_t options = {.trainable = true, .init = {SHOAL_INIT_FILL, 2, 0}};
  shoal_value_t old = shoal_state(g, "old", SHOAL_F64, SHOAL_SCALAR, &options);
  shoal_value_t unused = shoal_state(g, "unused", SHOAL_F64, SHOAL_SCALAR, &options);
  (void)unused;
  loss = node(g, "shoal.mul", loss, old);
  shoal_scope_push(g, "somewhere");  // names of moments do not depend on where minimize is called
  shoal_minimize(g, loss, NULL);
  shoal_scope_pop(g);
  assert_ok(shoal_model_verify(model));
  assert_true(shoal_model_find_state(model, "w#adamw.m") >= 0);
  assert_true(shoal_model_find_state(model, "unused#adamw.m") >= 0);  // gets zero gradients
  assert_int_equal(shoal_model_find_state(model, "old#adamw.m"), -1);
  assert_true(shoal_model_find_state(model, "lr") >= 0);
  shoal_model_free(model);
}

// A freeze that leaves nothing out of training is an error, at its line: no state has that name, or
// minimize was called already. What a minimize that follows leaves out is fine.
static void freezing_nothing(void **state) {
  (void)state;
  static const struct {
    const char *pattern, *message, *hint;
    bool late, again;
  } cases[] = {
      {"v*", "there is no trainable state", "'w'", false, false},
      {"w*", "comes after shoal_minimize, which trains 'w'", "before shoal_minimize", true, false},
      {"w*", NULL, NULL, true, true},
      {"x", "there is no trainable state", "'w'", true, true},  // an input
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    shoal_model_t *model = new_model(0);
    shoal_graph_t *g = shoal_model_graph(model, "train");
    shoal_value_t w, loss = build(g, &w);
    int line = 0;
    if (cases[i].late) shoal_minimize(g, loss, NULL);
    shoal_freeze(model, cases[i].pattern), line = __LINE__;
    if (!cases[i].late) shoal_minimize(g, loss, NULL);
    if (cases[i].again) {
      shoal_graph_t *tune = shoal_model_graph(model, "tune");
      shoal_value_t same, other_loss = build(tune, &same);
      shoal_state_options_t options = {.trainable = true};
      shoal_value_t head = shoal_state(tune, "head", SHOAL_F64, SHOAL_SCALAR, &options);
      shoal_minimize(tune, node(tune, "shoal.mul", other_loss, head), NULL);
    }
    shoal_status_t status = shoal_model_status(model);
    if (!cases[i].message) {
      assert_ok(status);
    } else {
      assert_int_equal(shoal_status_code(status), SHOAL_INVALID_ARGUMENT);
      assert_non_null(strstr(shoal_status_message(status), cases[i].message));
      assert_non_null(strstr(shoal_status_hint(status), cases[i].hint));
      assert_int_equal(shoal_status_line(status), line);
      shoal_status_free(status);
    }
    shoal_model_free(model);
  }
}

// Two losses in one graph, each of which trains states of its own.
static void only_some_states(void **state) {
  (void)state;
  static const char *const patterns[] = {"mine*", "yours", "ours"};
  const shoal_state_options_t options = {.trainable = true, .init = {SHOAL_INIT_FILL, 2, 0}};
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SCALAR);
  shoal_value_t mine = shoal_state(g, "mine", SHOAL_F64, SHOAL_SCALAR, &options);
  shoal_value_t yours = shoal_state(g, "yours", SHOAL_F64, SHOAL_SCALAR, &options);
  shoal_value_t loss = node(g, "shoal.mul", node(g, "shoal.mul", mine, yours), x);
  for (int i = 0; i < 2; ++i) {
    const shoal_sgd_t sgd = {.lr = 0.25, .training = {.only = patterns[i]}};
    shoal_minimize_sgd(g, i ? node(g, "shoal.sub", x, loss) : loss, &sgd);
  }
  shoal_interpreter_t *in = start(model);
  const double one = 1;
  assert_ok(shoal_interpreter_feed(in, "x", &one, sizeof one));
  assert_ok(shoal_interpreter_run(in, "train"));
  assert_true(state_of(in, model, "mine", 0) == 2 - 0.25 * 2);   // down the loss
  assert_true(state_of(in, model, "yours", 0) == 2 + 0.25 * 2);  // up
  assert_true(state_of(in, model, "step", 0) == 1);
  shoal_interpreter_free(in);
  shoal_minimize_sgd(g, loss, &(shoal_sgd_t){.training = {.only = patterns[2]}});
  assert_error(INVALID_ARGUMENT, "no trainable state matches 'ours'; there is 'yours'",
               shoal_model_status(model));
  shoal_model_free(model);
}

// What looks like training and changes nothing.
static void trains_nothing(void **state) {
  (void)state;
  static const char *const messages[] = {"the loss depends on none of the states to train",
                                         "all trainable states are frozen, such as 'w'"};
  for (int i = 0; i < 2; ++i) {
    shoal_model_t *model = new_model(0);
    shoal_graph_t *g = shoal_model_graph(model, "train");
    shoal_value_t w, loss = build(g, &w);
    if (i == 0) loss = shoal_cast(g, shoal_greater(g, loss, loss), SHOAL_F64);
    if (i == 1) shoal_freeze(model, "*");
    shoal_minimize(g, loss, NULL);
    assert_error(INVALID_ARGUMENT, messages[i], shoal_model_status(model));
    shoal_model_free(model);
  }
}

static void errors_blame_the_caller(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SCALAR);
  shoal_minimize(g, x, NULL);
  int line = __LINE__ - 1;
  shoal_status_t status = shoal_model_status(model);
  assert_int_equal(shoal_status_code(status), SHOAL_INVALID_ARGUMENT);
  assert_non_null(strstr(shoal_status_message(status), "no trainable state"));
  assert_non_null(strstr(shoal_status_file(status), "nn_optimizer_test.c"));
  assert_int_equal(shoal_status_line(status), line);
  shoal_status_free(status);
  shoal_minimize_sgd(g, x, NULL);  // harmless
  shoal_minimize(NULL, x, NULL);
  shoal_model_free(model);
}

// Factors that cannot train are refused, with the line of the call.
static void factors_that_cannot_train(void **state) {
  (void)state;
  static const struct {
    const char *message;
    shoal_adamw_t adamw;
  } cases[] = {
      {"lr is nan", {.lr = NAN}},
      {"lr is inf", {.lr = INFINITY}},
      {"lr is -1, not in [0, inf)", {.lr = -1}},
      {"beta1 is 1, not in [0, 1)", {.beta1 = 1}},
      {"beta2 is -0.5, not in [0, 1)", {.beta2 = -0.5}},
      {"eps is -1, not in [0, inf)", {.eps = -1}},
      {"weight_decay is nan", {.weight_decay = NAN}},
      {"weight_decay is -1", {.weight_decay = -1}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    shoal_model_t *model;
    assert_ok(shoal_model_create(NULL, &model));
    shoal_graph_t *g = shoal_model_graph(model, "train");
    shoal_value_t w, loss = build(g, &w);
    const int line = __LINE__ + 1;
    shoal_minimize(g, loss, &cases[i].adamw);
    shoal_status_t status = shoal_model_status(model);
    assert_int_equal(shoal_status_code(status), SHOAL_INVALID_ARGUMENT);
    if (!strstr(shoal_status_message(status), cases[i].message)) {
      fail_msg("no '%s' in '%s'", cases[i].message, shoal_status_message(status));
    }
    assert_int_equal(shoal_status_line(status), line);
    shoal_status_free(status);
    shoal_model_free(model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(factors_that_cannot_train),
      cmocka_unit_test(adamw),
      cmocka_unit_test(adamw_defaults),
      cmocka_unit_test(sgd),
      cmocka_unit_test(adam),
      cmocka_unit_test(nesterov),
      cmocka_unit_test(dampening),
      cmocka_unit_test(dampening_needs_momentum),
      cmocka_unit_test(nesterov_needs_momentum),
      cmocka_unit_test(lion),
      cmocka_unit_test(learning_rate_value),
      cmocka_unit_test(frozen_states_rest),
      cmocka_unit_test(freezing_nothing),
      cmocka_unit_test(only_some_states),
      cmocka_unit_test(trains_nothing),
      cmocka_unit_test(errors_blame_the_caller),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// What optimizers do besides their update, against computations by hand over several steps:
// clipping by norms of all gradients, loss scales, averages. And optimizers that look at whole
// parameters.
#include <math.h>

#include "graph_support.h"
#include "shoal/nn.h"

enum { N = 3, STEPS = 5 };

// loss = sum(x * w) + 2 * sum(y * v): gradients are x and 2 y, whatever the states are.
static shoal_value_t build(shoal_graph_t *g) {
  const shoal_state_options_t options = {.trainable = true, .init = {SHOAL_INIT_FILL, 0.5, 0}};
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(N));
  shoal_value_t y = shoal_input(g, "y", SHOAL_F64, SHOAL_SHAPE(2, N));
  shoal_value_t w = shoal_state(g, "w", SHOAL_F64, SHOAL_SHAPE(N), &options);
  shoal_value_t v = shoal_state(g, "v", SHOAL_F64, SHOAL_SHAPE(2, N), &options);
  shoal_value_t one = node(g, "shoal.mul", x, w), two = node(g, "shoal.mul", y, v), sums[2];
  shoal_node_add(g, "shoal.reduce_sum", 1, &one, 1,
                 (shoal_attr_t[]){shoal_attr_ints("dims", 1, (int64_t[]){0})}, 1, &sums[0]);
  shoal_node_add(g, "shoal.reduce_sum", 1, &two, 1,
                 (shoal_attr_t[]){shoal_attr_ints("dims", 2, (int64_t[]){0, 1})}, 1, &sums[1]);
  return node(g, "shoal.add", sums[0], node(g, "shoal.add", sums[1], sums[1]));
}

typedef struct trainer {
  shoal_model_t *model;
  shoal_graph_t *graph;
  shoal_value_t loss;
  shoal_interpreter_t *in;
  double gradient[3 * N];  // of w, then v
} trainer_t;

static void trainer_init(trainer_t *t) {
  *t = (trainer_t){.model = new_model(0)};
  t->graph = shoal_model_graph(t->model, "train");
  t->loss = build(t->graph);
}

static void trainer_start(trainer_t *t) {
  assert_ok(shoal_model_verify(t->model));
  assert_ok(shoal_interpreter_create(t->model, NULL, &t->in));
  assert_ok(shoal_interpreter_run(t->in, "init"));
}

static void trainer_deinit(trainer_t *t) {
  shoal_interpreter_free(t->in);
  shoal_model_free(t->model);
}

// Runs a step; its gradients are small in odd steps and large in even ones.
static void trainer_step(trainer_t *t, int step) {
  double x[N], y[2 * N];
  const double size = step % 2 ? 0.1 : 3;
  for (int i = 0; i < N; ++i) x[i] = size * (0.3 * (i + 1) - 0.1 * step);
  for (int i = 0; i < 2 * N; ++i) y[i] = size * (0.2 * i - 0.4 + 0.05 * step);
  for (int i = 0; i < N; ++i) t->gradient[i] = x[i];
  for (int i = 0; i < 2 * N; ++i) t->gradient[N + i] = 2 * y[i];
  assert_ok(shoal_interpreter_feed(t->in, "x", x, sizeof x));
  assert_ok(shoal_interpreter_feed(t->in, "y", y, sizeof y));
  assert_ok(shoal_interpreter_run(t->in, "train"));
}

static double state_of(const trainer_t *t, const char *name, int64_t i) {
  shoal_tensor_t tensor;
  const int32_t state = shoal_model_find_state(t->model, name);
  if (state < 0) fail_msg("no state '%s'", name);
  assert_ok(shoal_interpreter_state(t->in, state, &tensor));
  return element(tensor, i);
}

static void check_states(const trainer_t *t, const char *suffix, const double expected[3 * N]) {
  char name[64];
  for (int i = 0; i < 3 * N; ++i) {
    snprintf(name, sizeof name, "%s%s", i < N ? "w" : "v", suffix);
    const double found = state_of(t, name, i < N ? i : i - N);
    if (!(fabs(found - expected[i]) < 1e-12)) {
      fail_msg("%s[%d] is %.17g, not %.17g", name, i, found, expected[i]);
    }
  }
}

// ---- clipping --------------------------------------------------------------------------

// One norm for both states, by which small gradients are left alone. On one device it does not
// matter whether they are clipped before or behind a sum over ranks.
static void clipping(void **state) {
  (void)state;
  for (int way = 0; way < 6; ++way) {  // by squares, by the largest, by both; and before
    trainer_t t;
    trainer_init(&t);
    const int kind = way % 3;
    const shoal_training_t training = {
        .clip_norm = kind != 1 ? 1 : 0, .clip_max = kind != 0 ? 0.75 : 0, .clip_before = way >= 3};
    shoal_minimize_sgd(t.graph, t.loss, &(shoal_sgd_t){.lr = 0.25, .training = training});
    trainer_start(&t);
    double w[3 * N];
    for (int i = 0; i < 3 * N; ++i) w[i] = 0.5;
    for (int step = 1; step <= STEPS; ++step) {
      trainer_step(&t, step);
      double squares = 0, largest = 0, factor = 1;
      for (int i = 0; i < 3 * N; ++i) {
        squares += t.gradient[i] * t.gradient[i];
        largest = fmax(largest, fabs(t.gradient[i]));
      }
      if (kind != 1) factor *= fmin(1, 1 / (sqrt(squares) + 1e-6));
      if (kind != 0) factor *= fmin(1, 0.75 / (largest + 1e-6));
      assert_true((factor < 1) == (step % 2 == 0));
      for (int i = 0; i < 3 * N; ++i) w[i] -= 0.25 * factor * t.gradient[i];
      check_states(&t, "", w);
    }
    trainer_deinit(&t);
  }
}

// ---- averages --------------------------------------------------------------------------

static void averages(void **state) {
  (void)state;
  trainer_t t;
  trainer_init(&t);
  shoal_minimize_sgd(t.graph, t.loss, &(shoal_sgd_t){.lr = 0.25, .training = {.average = 0.75}});
  trainer_start(&t);
  double w[3 * N], average[3 * N];
  for (int i = 0; i < 3 * N; ++i) w[i] = 0.5;
  for (int step = 1; step <= STEPS; ++step) {
    trainer_step(&t, step);
    for (int i = 0; i < 3 * N; ++i) {
      w[i] -= 0.25 * t.gradient[i];
      average[i] = step == 1 ? w[i] : 0.75 * average[i] + 0.25 * w[i];
    }
    check_states(&t, "", w);
    check_states(&t, "#average", average);
  }
  trainer_deinit(&t);
}

// A graph that reads averages computes with them; what has none is read as it is.
static void averages_are_read(void **state) {
  (void)state;
  trainer_t t;
  trainer_init(&t);
  shoal_minimize_sgd(t.graph, t.loss,
                     &(shoal_sgd_t){.lr = 0.25, .training = {.average = 0.75, .only = "w"}});
  shoal_graph_t *eval = shoal_model_graph(t.model, "eval");
  shoal_use_averages(eval);
  shoal_output(eval, "loss", build(eval));
  trainer_start(&t);
  for (int step = 1; step <= 3; ++step) trainer_step(&t, step);
  double expected = 0;
  for (int i = 0; i < N; ++i) expected += t.gradient[i] * state_of(&t, "w#average", i);
  for (int i = 0; i < 2 * N; ++i) expected += t.gradient[N + i] * state_of(&t, "v", i);
  shoal_tensor_t loss;
  assert_true(fabs(state_of(&t, "w#average", 0) - state_of(&t, "w", 0)) > 1e-3);
  double x[N], y[2 * N];
  for (int i = 0; i < N; ++i) x[i] = t.gradient[i];
  for (int i = 0; i < 2 * N; ++i) y[i] = t.gradient[N + i] / 2;
  assert_ok(shoal_interpreter_feed(t.in, "x", x, sizeof x));
  assert_ok(shoal_interpreter_feed(t.in, "y", y, sizeof y));
  assert_ok(shoal_interpreter_run(t.in, "eval"));
  assert_ok(shoal_interpreter_output(t.in, "loss", &loss));
  assert_true(fabs(element(loss, 0) - expected) < 1e-12);
  trainer_deinit(&t);
  shoal_model_t *model = new_model(0);  // one that trains without averages
  shoal_minimize_sgd(shoal_model_graph(model, "train"), build(shoal_model_graph(model, "train")),
                     NULL);
  shoal_use_averages(shoal_model_graph(model, "eval"));
  assert_error(INVALID_ARGUMENT, "keeps no averages", shoal_model_status(model));
  shoal_model_free(model);
  model = new_model(0);  // one that does not train reads what a checkpoint has
  eval = shoal_model_graph(model, "eval");
  shoal_use_averages(eval);
  build(eval);
  assert_ok(shoal_model_verify(model));
  assert_true(shoal_model_find_state(model, "w#average") >= 0);
  assert_int_equal(shoal_model_parameters(model), 3 * N);
  shoal_model_free(model);
}

// ---- loss scale ------------------------------------------------------------------------

// A step whose gradients overflow changes nothing but the scale; Adam then counts on from where it
// was. Two good steps in a row double the scale.
static void loss_scale(void **state) {
  (void)state;
  trainer_t t;
  trainer_init(&t);
  const shoal_training_t training = {
      .loss_scale = 64, .scale_backoff = 0.25, .scale_interval = 2, .average = 0.5, .clip_norm = 1};
  shoal_minimize_adam(t.graph, t.loss, &(shoal_adam_t){.lr = 0.125, .training = training});
  trainer_start(&t);
  double w[3 * N], m[3 * N] = {0}, v[3 * N] = {0}, average[3 * N] = {0};
  for (int i = 0; i < 3 * N; ++i) w[i] = 0.5;
  static const double scales[] = {64, 128, 32, 32, 64, 64, 16};  // after each step
  static const bool bad[] = {false, false, true, false, false, false, true};
  int taken = 0;
  for (int step = 1; step <= 7; ++step) {
    if (bad[step - 1]) {
      double x[N] = {1, step == 3 ? INFINITY : NAN, 2};
      assert_ok(shoal_interpreter_feed(t.in, "x", x, sizeof x));
      assert_ok(shoal_interpreter_run(t.in, "train"));
    } else {
      trainer_step(&t, step);
      double squares = 0;
      for (int i = 0; i < 3 * N; ++i) squares += t.gradient[i] * t.gradient[i];
      const double factor = fmin(1, 1 / (sqrt(squares) + 1e-6));
      ++taken;
      for (int i = 0; i < 3 * N; ++i) {
        const double g = factor * t.gradient[i];
        m[i] = 0.9 * m[i] + (1 - 0.9) * g;
        v[i] = 0.999 * v[i] + (1 - 0.999) * g * g;
        const double mh = m[i] / (1 - pow(0.9, taken)), vh = v[i] / (1 - pow(0.999, taken));
        w[i] -= 0.125 * mh / (sqrt(vh) + 1e-8);
        average[i] = taken == 1 ? w[i] : 0.5 * average[i] + 0.5 * w[i];
      }
    }
    check_states(&t, "", w);
    check_states(&t, "#adam.m", m);
    check_states(&t, "#adam.v", v);
    check_states(&t, "#average", average);
    assert_true(state_of(&t, "loss_scale", 0) == scales[step - 1]);
    assert_true(state_of(&t, "updates", 0) == taken);
    assert_true(state_of(&t, "step", 0) == step);
  }
  trainer_deinit(&t);
}

static void refusals(void **state) {
  (void)state;
  static const struct {
    shoal_training_t training;
    const char *message;
  } cases[] = {
      {{.clip_norm = -1}, "clip_norm is -1"},
      {{.clip_max = NAN}, "clip_max is nan"},
      {{.clip_before = true}, "nothing says to what"},
      {{.average = 1}, "average is 1, not in [0, 1)"},
      {{.loss_scale = -2}, "loss_scale is -2"},
      {{.loss_scale = 2, .scale_growth = 0.5}, "growth is 0.5: it must be at least 1"},
      {{.loss_scale = 2, .scale_backoff = 2}, "backoff is 2: it must be in (0, 1]"},
      {{.loss_scale = 2, .scale_interval = -1}, "interval is -1: it must be at least 1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    trainer_t t;
    trainer_init(&t);
    shoal_minimize_sgd(t.graph, t.loss, &(shoal_sgd_t){.training = cases[i].training});
    shoal_status_t status = shoal_model_status(t.model);
    assert_int_equal(shoal_status_code(status), SHOAL_INVALID_ARGUMENT);
    if (!strstr(shoal_status_message(status), cases[i].message)) {
      fail_msg("no '%s' in '%s'", cases[i].message, shoal_status_message(status));
    }
    shoal_status_free(status);
    trainer_deinit(&t);
  }
}

// ---- optimizers of whole parameters ----------------------------------------------------

// Each state has norms of its own.
static void lamb(void **state) {
  (void)state;
  trainer_t t;
  trainer_init(&t);
  shoal_minimize_lamb(t.graph, t.loss,
                      &(shoal_lamb_t){.lr = 0.125, .beta2 = 0.99, .weight_decay = 0.25});
  trainer_start(&t);
  double w[3 * N], m[3 * N] = {0}, v[3 * N] = {0}, r[3 * N];
  for (int i = 0; i < 3 * N; ++i) w[i] = 0.5;
  for (int step = 1; step <= STEPS; ++step) {
    trainer_step(&t, step);
    double w_squares[2] = {0}, r_squares[2] = {0};
    for (int i = 0; i < 3 * N; ++i) {
      const double g = t.gradient[i];
      m[i] = 0.9 * m[i] + (1 - 0.9) * g;
      v[i] = 0.99 * v[i] + (1 - 0.99) * g * g;
      const double mh = m[i] / (1 - pow(0.9, step)), vh = v[i] / (1 - pow(0.99, step));
      r[i] = mh / (sqrt(vh) + 1e-6) + 0.25 * w[i];
      w_squares[i >= N] += w[i] * w[i];
      r_squares[i >= N] += r[i] * r[i];
    }
    for (int i = 0; i < 3 * N; ++i) {
      w[i] -= 0.125 * sqrt(w_squares[i >= N] / r_squares[i >= N]) * r[i];
    }
    check_states(&t, "", w);
    check_states(&t, "#lamb.m", m);
    check_states(&t, "#lamb.v", v);
  }
  trainer_deinit(&t);
}

static double root_mean_square(const double *x, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += x[i] * x[i];
  return sqrt(sum / n);
}

// The vector keeps a moment for each element, the matrix one for each row and column.
static void adafactor(void **state) {
  (void)state;
  trainer_t t;
  trainer_init(&t);
  shoal_minimize_adafactor(t.graph, t.loss,
                           &(shoal_adafactor_t){.lr = 0.75, .weight_decay = 0.125});
  trainer_start(&t);
  double w[3 * N], v[3 * N] = {0}, rows[2] = {0}, cols[N] = {0}, u[3 * N];
  for (int i = 0; i < 3 * N; ++i) w[i] = 0.5;
  for (int step = 1; step <= STEPS; ++step) {
    trainer_step(&t, step);
    const double take = pow(step, -0.8), *g = t.gradient + N;
    for (int i = 0; i < N; ++i) v[i] += take * (t.gradient[i] * t.gradient[i] - v[i]);
    for (int r = 0; r < 2; ++r) {
      double mean = 0;
      for (int c = 0; c < N; ++c) mean += g[r * N + c] * g[r * N + c] / N;
      rows[r] += take * (mean - rows[r]);
    }
    for (int c = 0; c < N; ++c) {
      const double mean = (g[c] * g[c] + g[N + c] * g[N + c]) / 2;
      cols[c] += take * (mean - cols[c]);
    }
    for (int i = 0; i < 2 * N; ++i) {
      v[N + i] = rows[i / N] * cols[i % N] / ((rows[0] + rows[1]) / 2);
    }
    for (int i = 0; i < 3 * N; ++i) u[i] = t.gradient[i] / sqrt(v[i]);
    const double rate = fmin(0.75, 1 / sqrt(step));
    for (int part = 0; part < 2; ++part) {
      const int first = part ? N : 0, n = part ? 2 * N : N;
      const double scale =
          rate * root_mean_square(w + first, n) / fmax(1, root_mean_square(u + first, n));
      for (int i = first; i < first + n; ++i) w[i] = w[i] * (1 - 0.75 * 0.125) - scale * u[i];
    }
    check_states(&t, "", w);
    for (int i = 0; i < N; ++i) {
      assert_true(fabs(state_of(&t, "w#adafactor.v", i) - v[i]) < 1e-12);
      assert_true(fabs(state_of(&t, "v#adafactor.cols", i) - cols[i]) < 1e-12);
    }
    for (int r = 0; r < 2; ++r) {
      assert_true(fabs(state_of(&t, "v#adafactor.rows", r) - rows[r]) < 1e-12);
    }
  }
  trainer_deinit(&t);
}

// The matrix moves along its momentum after one round towards an orthogonal one; the vector, and
// what is excepted, as AdamW would.
static void muon(void **state) {
  (void)state;
  for (int excepted = 0; excepted < 2; ++excepted) {
    trainer_t t;
    trainer_init(&t);
    shoal_minimize_muon(t.graph, t.loss,
                        &(shoal_muon_t){.lr = 0.25,
                                        .momentum = 0.75,
                                        .weight_decay = 0.5,
                                        .orthogonal_steps = 1,
                                        .except = excepted ? "v*" : NULL,
                                        .adamw = {.lr = 0.125, .weight_decay = 0.25}});
    trainer_start(&t);
    double w[3 * N], m[3 * N] = {0}, v[3 * N] = {0}, b[2 * N] = {0};
    for (int i = 0; i < 3 * N; ++i) w[i] = 0.5;
    for (int step = 1; step <= STEPS; ++step) {
      trainer_step(&t, step);
      for (int i = 0; i < (excepted ? 3 * N : N); ++i) {
        m[i] = 0.9 * m[i] + (1 - 0.9) * t.gradient[i];
        v[i] = 0.999 * v[i] + (1 - 0.999) * t.gradient[i] * t.gradient[i];
        const double mh = m[i] / (1 - pow(0.9, step)), vh = v[i] / (1 - pow(0.999, step));
        w[i] -= 0.125 * (mh / (sqrt(vh) + 1e-8) + 0.25 * w[i]);
      }
      double x[2][N], squares = 0, gram[2][2] = {{0}};
      for (int i = 0; i < 2 * N; ++i) {
        b[i] = 0.75 * b[i] + 0.25 * t.gradient[N + i];
        x[i / N][i % N] = 0.25 * t.gradient[N + i] + 0.75 * b[i];
        squares += x[i / N][i % N] * x[i / N][i % N];
      }
      for (int i = 0; i < 2 * N; ++i) x[i / N][i % N] /= sqrt(squares);
      for (int i = 0; i < 4 * N; ++i)
        gram[i / N / 2][i / N % 2] += x[i / N / 2][i % N] * x[i / N % 2][i % N];
      for (int i = 0; i < 2 * N && !excepted; ++i) {
        double turned = 3.4445 * x[i / N][i % N];
        for (int k = 0; k < 2; ++k) {
          const double square = gram[i / N][0] * gram[0][k] + gram[i / N][1] * gram[1][k];
          turned += (-4.775 * gram[i / N][k] + 2.0315 * square) * x[k][i % N];
        }
        // two rows in, three columns out
        w[N + i] = w[N + i] * (1 - 0.25 * 0.5) - 0.25 * sqrt(1.5) * turned;
      }
      check_states(&t, "", w);
      for (int i = 0; i < 2 * N && !excepted; ++i) {
        assert_true(fabs(state_of(&t, "v#muon.m", i) - b[i]) < 1e-12);
      }
    }
    assert_int_equal(shoal_model_find_state(t.model, "v#muon.m") >= 0, !excepted);
    assert_true(state_of(&t, "adamw.lr", 0) == 0.125 && state_of(&t, "lr", 0) == 0.25);
    trainer_deinit(&t);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(clipping),   cmocka_unit_test(averages), cmocka_unit_test(averages_are_read),
      cmocka_unit_test(loss_scale), cmocka_unit_test(refusals), cmocka_unit_test(lamb),
      cmocka_unit_test(adafactor),  cmocka_unit_test(muon),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

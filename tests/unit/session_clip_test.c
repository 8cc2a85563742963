// Clipping before ranks sum their gradients, against a computation by hand: each rank along the
// data axes clips what its rows contribute, by its own norm, to its share of the limit. The hand
// has the gradients of every rank's rows from one device. Ranks have different data, not equally
// many rows, and some of them clip while others do not. links: all
#include <math.h>

#include "graph/interpret.h"
#include "run_support.h"
#include "shoal/nn.h"
#include "shoal/ops.h"
#include "shoal/optimize.h"
#include "shoal/session.h"

enum { ROWS = 7, IN = 5, HIDDEN = 6, OUT = 4, STATES = 4 };
enum { MOST = IN * HIDDEN + HIDDEN + HIDDEN * OUT + OUT };
#define LR 0.5

static const char *const names[STATES] = {"fc1/weight", "fc1/bias", "fc2/weight", "fc2/bias"};
static const int64_t sizes[STATES] = {IN * HIDDEN, HIDDEN, HIDDEN *OUT, OUT};

static double x_at(int64_t row, int64_t i) {
  return (double)((row * 5 + i * 3) % 7 - 3) * 0.05 * (double)(1 + row * row);
}

static double y_at(int64_t row, int64_t i) {
  return (double)((row + 2 * i) % 5) * 0.3 - 0.5;
}

// The sum over rows of (f(x) - y)^2, divided by the rows of the whole batch.
static shoal_model_t *make_model(int64_t rows, double lr, const shoal_training_t *training) {
  shoal_model_t *model;
  assert_ok(shoal_model_create(&(shoal_model_options_t){.seed = 3}, &model));
  shoal_graph_t *g = shoal_model_graph(model, "train");
  const shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(rows, IN));
  const shoal_value_t y = shoal_input(g, "y", SHOAL_F64, SHOAL_SHAPE(rows, OUT));
  const shoal_value_t h = shoal_tanh(g, shoal_nn_linear(g, "fc1", x, HIDDEN));
  const shoal_value_t off = shoal_sub(g, shoal_nn_linear(g, "fc2", h, OUT), y);
  const shoal_value_t squares = shoal_sum_squares(g, off);
  const shoal_value_t loss = shoal_affine(g, squares, 1.0 / ROWS, 0);
  shoal_minimize_sgd(g, loss, &(shoal_sgd_t){.lr = lr, .training = *training});
  shoal_output(g, "loss", loss);
  assert_ok(shoal_model_status(model));
  return model;
}

static void fill(int64_t rows, const int64_t *which, double *x, double *y) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t row = which ? which[r] : r;
    for (int64_t i = 0; i < IN; ++i) x[r * IN + i] = x_at(row, i);
    for (int64_t i = 0; i < OUT; ++i) y[r * OUT + i] = y_at(row, i);
  }
}

// ---- by hand -----------------------------------------------------------------------------------

static void read_states(shoal_interpreter_t *in, const shoal_model_t *model, double *out) {
  for (int s = 0; s < STATES; ++s) {
    shoal_tensor_t tensor;
    assert_ok(shoal_interpreter_state(in, shoal_model_find_state(model, names[s]), &tensor));
    memcpy(out, tensor.data, (size_t)sizes[s] * sizeof *out);
    out += sizes[s];
  }
}

// What these rows contribute to the gradient: at a rate of 1 a step takes just that off.
static void contribute(int64_t rows, const int64_t *which, double *start, double *gradient) {
  shoal_interpreter_t *in;
  double x[ROWS * IN], y[ROWS * OUT], end[MOST];
  shoal_model_t *model = make_model(rows, 1, &(shoal_training_t){0});
  fill(rows, which, x, y);
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  assert_ok(shoal_interpreter_run(in, "init"));
  read_states(in, model, start);
  assert_ok(shoal_interpreter_feed(in, "x", x, (size_t)(rows * IN) * sizeof *x));
  assert_ok(shoal_interpreter_feed(in, "y", y, (size_t)(rows * OUT) * sizeof *y));
  assert_ok(shoal_interpreter_run(in, "train"));
  read_states(in, model, end);
  for (int i = 0; i < MOST; ++i) gradient[i] = start[i] - end[i];
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

// Part k of `count` rows in n parts, the first of which have one more.
static void deal(int64_t count, int64_t n, int64_t k, int64_t *first, int64_t *end) {
  const int64_t less = count / n, more = count % n;
  *first = k * less + (k < more ? k : more);
  *end = *first + less + (k < more);
}

static int64_t rows_of(int64_t n, int64_t k, int64_t micro, int64_t *which) {
  int64_t count = 0;
  for (int64_t m = 0; m < micro; ++m) {
    int64_t begin, stop, first, end;
    deal(ROWS, micro, m, &begin, &stop);
    deal(stop - begin, n, k, &first, &end);
    for (int64_t r = begin + first; r < begin + end; ++r) which[count++] = r;
  }
  return count;
}

static double norm_of(const double *gradient, bool largest) {
  double sum = 0, most = 0;
  for (int i = 0; i < MOST; ++i) {
    sum += gradient[i] * gradient[i];
    most = fmax(most, fabs(gradient[i]));
  }
  return largest ? most : sqrt(sum);
}

static double factor_of(const double *gradient, int64_t n, const shoal_training_t *training) {
  const double limits[] = {training->clip_norm, training->clip_max};
  double factor = 1;
  for (int k = 0; k < 2; ++k)
    if (limits[k] > 0)
      factor *= fmin(1, limits[k] / (double)n / (norm_of(gradient, k == 1) + 1e-6));
  return factor;
}

// A limit that some ranks are above and others are not.
static double between(int64_t n, int64_t micro, bool largest) {
  double least = INFINITY, most = 0, start[MOST], gradient[MOST];
  for (int64_t k = 0; k < n; ++k) {
    int64_t which[ROWS];
    contribute(rows_of(n, k, micro, which), which, start, gradient);
    least = fmin(least, norm_of(gradient, largest));
    most = fmax(most, norm_of(gradient, largest));
  }
  return n == 1 ? most / 2 : (double)n * (least + most) / 2;
}

// States after a step that n ranks make; how many of them clip.
static int64_t by_hand(int64_t n, int64_t micro, const shoal_training_t *training, double *out) {
  int64_t clipped = 0, all = 0, which[ROWS];
  double sum[MOST] = {0}, start[MOST], gradient[MOST];
  for (int64_t k = 0; k < n; ++k) {
    const int64_t rows = rows_of(n, k, micro, which);
    contribute(rows, which, start, gradient);
    const double factor = factor_of(gradient, n, training);
    clipped += factor < 1;
    all += rows;
    for (int i = 0; i < MOST; ++i) sum[i] += factor * gradient[i];
  }
  assert_int_equal(all, ROWS);
  for (int i = 0; i < MOST; ++i) out[i] = start[i] - LR * sum[i];
  return clipped;
}

// ---- by ranks ----------------------------------------------------------------------------------

typedef struct job {
  const char *strategy, *mesh;
  shoal_training_t training;
  bool breaks;  // one rank's rows give no finite gradient
  double before[MOST], states[MOST], scale;
} job_t;

static shoal_status_t get_states(shoal_session_t *session, double *out, bool keeps) {
  double unused[MOST];
  for (int s = 0; s < STATES; ++s) {
    SHOAL_RETURN_IF_ERROR(
        shoal_session_get(session, names[s], keeps ? out : unused, (size_t)sizes[s] * sizeof *out));
    out += sizes[s];
  }
  return NULL;
}

static shoal_status_t rank_body(void *self, shoal_world_t *world) {
  job_t *job = self;
  const bool keeps = shoal_world_rank(world) == 0;
  shoal_session_t *session = NULL;
  double x[ROWS * IN], y[ROWS * OUT];
  float scale = 0;
  shoal_model_t *model = make_model(ROWS, LR, &job->training);
  fill(ROWS, NULL, x, y);
  if (job->breaks) x[(ROWS - 1) * IN] = NAN;
  shoal_status_t status = shoal_parallelize(
      model,
      &(shoal_parallelize_options_t){.world = world, .strategy = job->strategy, .mesh = job->mesh},
      &session);
  if (!status) status = get_states(session, job->before, keeps);
  if (!status) status = shoal_feed(session, "x", x, sizeof x);
  if (!status) status = shoal_feed(session, "y", y, sizeof y);
  if (!status) status = shoal_run(session, "train");
  if (!status) status = get_states(session, job->states, keeps);
  if (!status && job->training.loss_scale > 0)
    status = shoal_session_get(session, "loss_scale", &scale, sizeof scale);
  if (keeps) job->scale = scale;
  shoal_session_free(session);
  shoal_model_free(model);
  return status;
}

static const struct {
  const char *strategy, *mesh;
  int32_t ranks, parts, micro;
} cases[] = {
    {"data", "data=1", 1, 1, 1},
    {"data", "data=2", 2, 2, 1},
    {"data", "data=3", 3, 3, 1},
    {"data", "data=2,micro=3", 2, 2, 3},
    {"zero1", "data=3", 3, 3, 1},
    {"zero1", "data=2,micro=2", 2, 2, 2},
    {"zero2", "data=3", 3, 3, 1},
    {"zero3", "data=2", 2, 2, 1},
    {"hybrid-zero", "node=2,data=2", 4, 4, 1},
    {"tensor", "tensor=2", 2, 1, 1},
    {"tensor+data", "data=2,tensor=2", 4, 2, 1},
    {"tensor+zero1", "data=3,tensor=2", 6, 3, 1},
    {"pipeline", "pipe=2,data=2,micro=2", 4, 2, 2},
    {"pipeline+tensor", "pipe=2,data=2,tensor=2", 8, 2, 1},
};

static void check_case(size_t c, shoal_training_t training, bool some) {
  double want[MOST];
  static job_t job;
  const int64_t n = cases[c].parts;
  const int64_t clipped = by_hand(n, cases[c].micro, &training, want);
  assert_true(clipped > 0 && (clipped < n || n == 1 || !some));
  training.clip_before = true;
  job = (job_t){.strategy = cases[c].strategy, .mesh = cases[c].mesh, .training = training};
  run_ranks_ok(cases[c].ranks, rank_body, &job);
  for (int i = 0; i < MOST; ++i)
    if (!(fabs(job.states[i] - want[i]) < 1e-12))
      fail_msg("%s on %s, norm %g, max %g: element %d is %.17g, not %.17g", cases[c].strategy,
               cases[c].mesh, training.clip_norm, training.clip_max, i, job.states[i], want[i]);
}

// Limits that some ranks are below and others above, and limits that all are above.
static void test_values(void **state) {
  (void)state;
  for (size_t c = 0; c < sizeof cases / sizeof *cases; ++c) {
    const double norm = between(cases[c].parts, cases[c].micro, false);
    const double most = between(cases[c].parts, cases[c].micro, true);
    check_case(c, (shoal_training_t){.clip_norm = norm}, true);
    check_case(c, (shoal_training_t){.clip_max = most}, true);
    check_case(c, (shoal_training_t){.clip_norm = norm / 100}, false);
    check_case(c, (shoal_training_t){.clip_norm = norm, .clip_max = most / 2}, false);
    check_case(c, (shoal_training_t){.clip_norm = norm, .loss_scale = 1024}, true);
  }
}

// One norm of the sum is something else, and on one rank it is the same.
static void test_behind(void **state) {
  (void)state;
  for (int32_t ranks = 1; ranks <= 2; ++ranks) {
    static job_t before, behind;
    before = (job_t){.strategy = "data", .training = {.clip_norm = 1, .clip_before = true}};
    behind = (job_t){.strategy = "data", .training = {.clip_norm = 1}};
    run_ranks_ok(ranks, rank_body, &before);
    run_ranks_ok(ranks, rank_body, &behind);
    double off = 0;
    for (int i = 0; i < MOST; ++i) off = fmax(off, fabs(before.states[i] - behind.states[i]));
    assert_true(ranks == 1 ? off < 1e-15 : off > 1e-3);
  }
}

// A gradient that is not finite on one rank leaves the states of all as they were.
static void test_not_finite(void **state) {
  (void)state;
  for (size_t c = 1; c < sizeof cases / sizeof *cases; ++c) {
    static job_t job;
    job = (job_t){.strategy = cases[c].strategy,
                  .mesh = cases[c].mesh,
                  .training = {.clip_norm = 1, .clip_before = true, .loss_scale = 64},
                  .breaks = true};
    run_ranks_ok(cases[c].ranks, rank_body, &job);
    assert_memory_equal(job.states, job.before, sizeof job.before);
    assert_true(job.scale == 32);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_behind),
                                     cmocka_unit_test(test_not_finite)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

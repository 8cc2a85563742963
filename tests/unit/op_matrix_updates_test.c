// Updates that look at the whole parameter, against their formulas written out: LAMB,
// Adafactor, Muon.
#include <math.h>

#include "op_support.h"

#define TOLERANCE 1e-12

static shoal_tensor_t real(bench_t *b, shoal_dtype_t dtype, double value) {
  shoal_tensor_t tensor = new_tensor(b, dtype, SHOAL_SCALAR, 0);
  shoal_dtype_store(dtype, tensor.data, 0, value);
  return tensor;
}

static double norm(const double *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return sqrt(sum);
}

static void check_all(const shoal_tensor_t *out, const double *expected, int64_t n,
                      const char *what) {
  assert_int_equal(shoal_shape_count(&out->shape), n);
  for (int64_t i = 0; i < n; ++i) check_near(at(out, i), expected[i], TOLERANCE, what, i);
}

// ---- LAMB ------------------------------------------------------------------------------

// The step is as long as lr times the parameter, unless parameter or direction are 0.
static void lamb(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  enum { N = 6, STEP = 3 };
  for (int32_t kind = 0; kind < 3; ++kind) {  // as is, w = 0, r = 0
    shoal_tensor_t in[4], out[3];
    for (int32_t i = 0; i < 4; ++i) {
      in[i] = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(2, 3), 2, (uint64_t)i + 1);
      if (kind == 2 ? i > 0 : kind == 1 && i == 0) memset(in[i].data, 0, N * sizeof(double));
    }
    double *second = in[3].data;
    for (int64_t i = 0; i < N; ++i) second[i] = fabs(second[i]);
    const double decay = kind == 2 ? 0 : 0.1;
    assert_ok(run_named(
        &b, "shoal.lamb_update",
        TENSORS(in[0], in[1], in[2], in[3], real(&b, SHOAL_F32, 0.125), scalar_int(&b, STEP)),
        ATTRS(shoal_attr_real("beta1", 0.75), shoal_attr_real("beta2", 0.875),
              shoal_attr_real("eps", 0.01), shoal_attr_real("weight_decay", decay)),
        out, NULL));
    double w[N], m[N], v[N], r[N];
    for (int64_t i = 0; i < N; ++i) {
      w[i] = at(&in[0], i);
      const double g = at(&in[1], i);
      m[i] = 0.75 * at(&in[2], i) + 0.25 * g;
      v[i] = 0.875 * at(&in[3], i) + 0.125 * g * g;
      r[i] = m[i] / (1 - pow(0.75, STEP)) / (sqrt(v[i] / (1 - pow(0.875, STEP))) + 0.01) +
             decay * w[i];
    }
    const double ratio = kind == 0 ? norm(w, N) / norm(r, N) : 1;
    for (int64_t i = 0; i < N; ++i) w[i] -= 0.125 * ratio * r[i];
    check_all(&out[0], w, N, "lamb: w");
    check_all(&out[1], m, N, "lamb: m");
    check_all(&out[2], v, N, "lamb: v");
  }
  bench_deinit(&b);
}

// ---- Adafactor -------------------------------------------------------------------------

enum { BATCH = 2, R = 3, C = 4, SIZE = BATCH * R * C };
typedef struct adafactor {
  double lr, decay_power, eps1, eps2, clip, decay;
  int64_t step;
} adafactor_t;

// w' from second moments.
static void adafactor_move(const adafactor_t *a, const double *g, const double *v, int64_t n,
                           double *w) {
  double u[SIZE];
  for (int64_t i = 0; i < n; ++i) u[i] = g[i] / sqrt(fmax(v[i], a->eps1 * a->eps1));
  const double size = fmax(a->eps2, norm(w, n) / sqrt((double)n));
  const double shrink = fmax(1, norm(u, n) / (sqrt((double)n) * a->clip));
  const double rate = fmin(a->lr, 1 / sqrt((double)a->step)) * size / shrink;
  for (int64_t i = 0; i < n; ++i) w[i] = w[i] * (1 - a->lr * a->decay) - rate * u[i];
}

static const adafactor_t ADAFACTORS[] = {
    {.lr = 0.125, .decay_power = -0.8, .eps1 = 0, .eps2 = 1e-3, .clip = 1, .step = 1},
    {0.75, -0.5, 0.25, 2, 3, 0.125, 4},  // slower than lr, least sizes, decay
    {0.125, -0.8, 1e-4, 1e-3, 1.5, 0.25, 2},
};

static void adafactor(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  for (size_t k = 0; k < sizeof ADAFACTORS / sizeof *ADAFACTORS; ++k) {
    adafactor_t a = ADAFACTORS[k];
    shoal_tensor_t in[4] = {random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(BATCH, R, C), 2, 1),
                            random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(BATCH, R, C), 2, 2),
                            random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(BATCH, R), 2, 3),
                            random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(BATCH, C), 2, 4)};
    double w[SIZE], g[SIZE], v[SIZE], rows[BATCH * R], cols[BATCH * C];
    double *rows_in = in[2].data, *cols_in = in[3].data;
    for (int64_t i = 0; i < BATCH * R; ++i) rows_in[i] = fabs(rows_in[i]);
    for (int64_t i = 0; i < BATCH * C; ++i) cols_in[i] = fabs(cols_in[i]);
    shoal_tensor_t out[3];
    assert_ok(run_named(
        &b, "shoal.adafactor_update",
        TENSORS(in[0], in[1], in[2], in[3], real(&b, SHOAL_F64, a.lr), scalar_int(&b, a.step)),
        ATTRS(shoal_attr_real("beta2_decay", a.decay_power), shoal_attr_real("eps1", a.eps1),
              shoal_attr_real("eps2", a.eps2), shoal_attr_real("clip", a.clip),
              shoal_attr_real("weight_decay", a.decay)),
        out, NULL));
    if (a.eps1 == 0) a.eps1 = 0x1p-52;
    memcpy(w, in[0].data, sizeof w);
    memcpy(g, in[1].data, sizeof g);
    const double take = pow((double)a.step, a.decay_power);
    for (int64_t i = 0; i < BATCH * R; ++i) {
      double sum = 0;
      for (int64_t c = 0; c < C; ++c) sum += g[i * C + c] * g[i * C + c];
      rows[i] = (1 - take) * rows_in[i] + take * sum / C;
    }
    for (int64_t i = 0; i < BATCH * C; ++i) {
      double sum = 0;
      for (int64_t r = 0; r < R; ++r) sum += pow(g[(i / C * R + r) * C + i % C], 2);
      cols[i] = (1 - take) * cols_in[i] + take * sum / R;
    }
    for (int64_t i = 0; i < SIZE; ++i) {
      const int64_t matrix = i / (R * C);
      double mean = 0;
      for (int64_t r = 0; r < R; ++r) mean += rows[matrix * R + r] / R;
      v[i] = rows[i / C] * cols[matrix * C + i % C] / fmax(mean, a.eps1);
    }
    adafactor_move(&a, g, v, SIZE, w);
    check_all(&out[0], w, SIZE, "adafactor: w");
    check_all(&out[1], rows, BATCH * R, "adafactor: rows");
    check_all(&out[2], cols, BATCH * C, "adafactor: cols");
  }
  bench_deinit(&b);
}

static void adafactor_vector(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  enum { N = 7 };
  for (size_t k = 0; k < sizeof ADAFACTORS / sizeof *ADAFACTORS; ++k) {
    adafactor_t a = ADAFACTORS[k];
    shoal_tensor_t in[3], out[2];
    for (int32_t i = 0; i < 3; ++i) {
      in[i] = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(N), 2, (uint64_t)i + 1);
    }
    double w[N], v[N], *second = in[2].data;
    for (int64_t i = 0; i < N; ++i) second[i] = fabs(second[i]);
    assert_ok(
        run_named(&b, "shoal.adafactor_vector_update",
                  TENSORS(in[0], in[1], in[2], real(&b, SHOAL_F64, a.lr), scalar_int(&b, a.step)),
                  ATTRS(shoal_attr_real("beta2_decay", a.decay_power),
                        shoal_attr_real("eps1", a.eps1), shoal_attr_real("eps2", a.eps2),
                        shoal_attr_real("clip", a.clip), shoal_attr_real("weight_decay", a.decay)),
                  out, NULL));
    if (a.eps1 == 0) a.eps1 = 0x1p-52;
    memcpy(w, in[0].data, sizeof w);
    const double take = pow((double)a.step, a.decay_power);
    for (int64_t i = 0; i < N; ++i) v[i] = (1 - take) * second[i] + take * pow(at(&in[1], i), 2);
    adafactor_move(&a, in[1].data, v, N, w);
    check_all(&out[0], w, N, "adafactor of a vector: w");
    check_all(&out[1], v, N, "adafactor of a vector: v");
  }
  bench_deinit(&b);
}

// ---- Muon ------------------------------------------------------------------------------

enum { LONGEST = 5 };
typedef double matrix_t[LONGEST][LONGEST];

// c = a b (b transposed if asked for), r x n with k summed.
static void multiply(int r, int n, int k, matrix_t a, matrix_t b, bool turned, matrix_t c) {
  for (int i = 0; i < r; ++i) {
    for (int j = 0; j < n; ++j) {
      c[i][j] = 0;
      for (int l = 0; l < k; ++l) c[i][j] += a[i][l] * (turned ? b[j][l] : b[l][j]);
    }
  }
}

// x [r, c] made orthogonal; a tall one is turned over first.
static void orthogonal(int r, int c, int steps, double *x) {
  const bool tall = r > c;
  const int m = tall ? c : r, n = tall ? r : c;
  const double size = fmax(norm(x, r * c), 1e-7);
  matrix_t a = {{0}}, gram, square, change;
  for (int i = 0; i < r * c; ++i) a[tall ? i % c : i / c][tall ? i / c : i % c] = x[i] / size;
  for (int step = 0; step < steps; ++step) {
    multiply(m, m, n, a, a, true, gram);
    multiply(m, m, m, gram, gram, false, square);
    for (int i = 0; i < m * m; ++i) {
      square[i / m][i % m] = -4.775 * gram[i / m][i % m] + 2.0315 * square[i / m][i % m];
    }
    multiply(m, n, m, square, a, false, change);
    for (int i = 0; i < m * n; ++i)
      a[i / n][i % n] = 3.4445 * a[i / n][i % n] + change[i / n][i % n];
  }
  for (int i = 0; i < r * c; ++i) x[i] = a[tall ? i % c : i / c][tall ? i / c : i % c];
}

static void muon(void **state) {
  (void)state;
  static const struct {
    int r, c, steps;
    bool nesterov, transposed;
    const char *adjust;
    double scale;
  } kinds[] = {
      {3, 5, 5, true, false, "original", 1},
      {5, 3, 4, true, false, "original", 1.2909944487358056},
      {5, 3, 2, false, true, "original", 1},
      {2, 5, 1, false, true, "spectral_unclamped", 1.5811388300841898},
      {5, 2, 3, true, true, "spectral_unclamped", 0.6324555320336759},
      {4, 4, 5, true, false, "match_rms_adamw", 0.4},
      {1, 5, 0, true, false, "none", 1},
  };
  bench_t b;
  bench_init(&b);
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k) {
    const int r = kinds[k].r, c = kinds[k].c, n = r * c;
    shoal_tensor_t in[3], out[2];
    for (int32_t i = 0; i < 3; ++i) {
      in[i] = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(2, r, c), 2, (uint64_t)i + 1);
    }
    assert_ok(run_named(
        &b, "shoal.muon_update", TENSORS(in[0], in[1], in[2], real(&b, SHOAL_F64, 0.125)),
        ATTRS(shoal_attr_real("momentum", 0.75), shoal_attr_real("weight_decay", 0.25),
              shoal_attr_int("nesterov", kinds[k].nesterov),
              shoal_attr_int("steps", kinds[k].steps), shoal_attr_string("adjust", kinds[k].adjust),
              shoal_attr_int("transposed", kinds[k].transposed)),
        out, NULL));
    double w[2 * LONGEST * LONGEST], m[2 * LONGEST * LONGEST], u[2 * LONGEST * LONGEST];
    for (int i = 0; i < 2 * n; ++i) {
      const double g = at(&in[1], i);
      m[i] = 0.75 * at(&in[2], i) + 0.25 * g;
      u[i] = kinds[k].nesterov ? 0.25 * g + 0.75 * m[i] : m[i];
    }
    for (int i = 0; i < 2; ++i) orthogonal(r, c, kinds[k].steps, u + i * n);
    for (int i = 0; i < 2 * n; ++i) {
      w[i] = (1 - 0.125 * 0.25) * at(&in[0], i) - 0.125 * kinds[k].scale * u[i];
    }
    check_all(&out[0], w, 2 * n, "muon: w");
    check_all(&out[1], m, 2 * n, "muon: m");
  }
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lamb),
      cmocka_unit_test(adafactor),
      cmocka_unit_test(adafactor_vector),
      cmocka_unit_test(muon),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

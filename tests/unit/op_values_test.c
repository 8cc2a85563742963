// Values against naive computations written from the definitions, in f64 and independent of the
// kernels.
#include "op_support.h"

#define TOLERANCE 1e-12

// ---- products --------------------------------------------------------------------------

static void check_matmul(bench_t *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta,
                         bool tb) {
  shoal_tensor_t x =
      random_tensor(b, SHOAL_F64, ta ? SHOAL_SHAPE(batch, k, m) : SHOAL_SHAPE(batch, m, k), 2, 1);
  shoal_tensor_t y =
      random_tensor(b, SHOAL_F64, tb ? SHOAL_SHAPE(batch, n, k) : SHOAL_SHAPE(batch, k, n), 2, 2);
  shoal_tensor_t out[1];
  assert_ok(run_named(b, "shoal.matmul", TENSORS(x, y),
                      ATTRS(shoal_attr_int("transpose_a", ta), shoal_attr_int("transpose_b", tb)),
                      out, NULL));
  for (int64_t i = 0; i < batch * m * n; ++i) {
    const int64_t p = i / (m * n), r = i / n % m, c = i % n;
    double sum = 0;
    for (int64_t s = 0; s < k; ++s) {
      sum += at(&x, p * m * k + (ta ? s * m + r : r * k + s)) *
             at(&y, p * k * n + (tb ? c * k + s : s * n + c));
    }
    check_near(at(out, i), sum, TOLERANCE, "matmul", i);
  }
}

static void matmul(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  for (int32_t t = 0; t < 4; ++t) {
    check_matmul(&b, 2, 3, 5, 7, t & 1, t & 2);
    check_matmul(&b, 1, 67, 13, 300, t & 1, t & 2);  // more than a block of rows and of sums
    check_matmul(&b, 1, 5, 517, 9, t & 1, t & 2);    // more than a block of columns
    check_matmul(&b, 3, 1, 1, 1, t & 1, t & 2);
    check_matmul(&b, 2, 3, 2, 0, t & 1, t & 2);
    check_matmul(&b, 0, 3, 2, 4, t & 1, t & 2);
  }
  bench_deinit(&b);
}

// einsum by brute force over all letters.
static void check_einsum(bench_t *b, const char *equation, const char *letters,
                         const int64_t *sizes) {
  char terms[3][16] = {""};
  assert_int_equal(
      sscanf(equation, "%15[a-z],%15[a-z]->%15[a-z]", terms[0], terms[1], terms[2]) >= 2, true);
  shoal_shape_t shapes[3];
  for (int32_t o = 0; o < 3; ++o) {
    shapes[o].rank = (int32_t)strlen(terms[o]);
    for (int32_t d = 0; terms[o][d]; ++d) {
      shapes[o].dims[d] = sizes[strchr(letters, terms[o][d]) - letters];
    }
  }
  shoal_tensor_t x = random_tensor(b, SHOAL_F64, shapes[0], 2, 1);
  shoal_tensor_t y = random_tensor(b, SHOAL_F64, shapes[1], 2, 2), out[1];
  shoal_tensor_t expected = new_tensor(b, SHOAL_F64, shapes[2], 0);
  const int32_t count = (int32_t)strlen(letters);
  int64_t total = 1, index[16];
  for (int32_t i = 0; i < count; ++i) total *= sizes[i];
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i, offset[3] = {0};
    for (int32_t l = count - 1; l >= 0; --l) {
      index[l] = rest % sizes[l];
      rest /= sizes[l];
    }
    for (int32_t o = 0; o < 3; ++o) {
      for (int32_t d = 0; terms[o][d]; ++d) {
        const int64_t l = strchr(letters, terms[o][d]) - letters;
        offset[o] = offset[o] * sizes[l] + index[l];
      }
    }
    ((double *)expected.data)[offset[2]] += at(&x, offset[0]) * at(&y, offset[1]);
  }
  assert_ok(run_named(b, "shoal.einsum", TENSORS(x, y),
                      ATTRS(shoal_attr_string("equation", equation)), out, NULL));
  assert_true(shoal_shape_equal(&out->shape, &expected.shape));
  for (int64_t i = 0; i < shoal_shape_count(&out->shape); ++i) {
    check_near(at(out, i), at(&expected, i), TOLERANCE, equation, i);
  }
}

static void einsum(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const int64_t sizes[] = {3, 5, 2, 7};
  static const char *const equations[] = {
      "abc,cd->abd", "abc,abd->cd",   "abd,cd->abc", "abcd,dcba->", "ab,cd->dbca",
      "ab,cd->ad",   "acbd,acb->bad", "a,b->ab",     "abcd,b->dca", "ab,ab->ab",
  };
  for (size_t i = 0; i < sizeof equations / sizeof equations[0]; ++i) {
    char letters[5] = "";
    int64_t used[4];
    for (const char *l = "abcd"; *l; ++l) {
      if (!strchr(equations[i], *l)) continue;
      used[strlen(letters)] = sizes[*l - 'a'];
      letters[strlen(letters)] = *l;
    }
    check_einsum(&b, equations[i], letters, used);
  }
  const int64_t large[] = {3, 70, 20, 530};
  check_einsum(&b, "abc,cd->abd", "abcd", large);
  bench_deinit(&b);
}

// ---- convolution and pooling -----------------------------------------------------------

typedef struct plane {
  int64_t n, c, h, w, o, kh, kw, oh, ow, stride[2], padding[2], dilation[2];
} plane_t;

// Calls `visit` for every pair of x element and tap that some output sees.
typedef void (*visit_fn_t)(int64_t x, int64_t w, int64_t y, double **data);
static void visit_all(const plane_t *p, visit_fn_t visit, double **data) {
  for (int64_t i = 0; i < p->n * p->o * p->oh * p->ow; ++i) {
    const int64_t col = i % p->ow, row = i / p->ow % p->oh, o = i / p->ow / p->oh % p->o;
    const int64_t n = i / p->ow / p->oh / p->o;
    for (int64_t t = 0; t < p->c * p->kh * p->kw; ++t) {
      const int64_t kx = t % p->kw, ky = t / p->kw % p->kh, c = t / p->kw / p->kh;
      const int64_t ih = row * p->stride[0] - p->padding[0] + ky * p->dilation[0];
      const int64_t iw = col * p->stride[1] - p->padding[1] + kx * p->dilation[1];
      if (ih < 0 || ih >= p->h || iw < 0 || iw >= p->w) continue;
      visit(((n * p->c + c) * p->h + ih) * p->w + iw, o * p->c * p->kh * p->kw + t, i, data);
    }
  }
}

static void forward(int64_t x, int64_t w, int64_t y, double **d) {
  d[2][y] += d[0][x] * d[1][w];
}
static void backward_x(int64_t x, int64_t w, int64_t y, double **d) {
  d[0][x] += d[2][y] * d[1][w];
}
static void backward_w(int64_t x, int64_t w, int64_t y, double **d) {
  d[1][w] += d[2][y] * d[0][x];
}

static void conv(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const plane_t planes[] = {
      {2, 3, 7, 5, 4, 3, 3, 7, 5, {1, 1}, {1, 1}, {1, 1}},
      {1, 2, 9, 8, 3, 3, 2, 5, 7, {2, 1}, {1, 0}, {1, 1}},
      {1, 1, 9, 9, 2, 3, 3, 5, 5, {2, 2}, {2, 2}, {2, 2}},
  };
  for (int32_t i = 0; i < 3; ++i) {
    const plane_t *p = &planes[i];
    const shoal_shape_t x_shape = SHOAL_SHAPE(p->n, p->c, p->h, p->w);
    const shoal_shape_t w_shape = SHOAL_SHAPE(p->o, p->c, p->kh, p->kw);
    const shoal_shape_t y_shape = SHOAL_SHAPE(p->n, p->o, p->oh, p->ow);
    shoal_tensor_t x = random_tensor(&b, SHOAL_F64, x_shape, 2, 1), out[1];
    shoal_tensor_t w = random_tensor(&b, SHOAL_F64, w_shape, 2, 2);
    shoal_tensor_t dy = random_tensor(&b, SHOAL_F64, y_shape, 2, 3);
    const shoal_attr_t stride = shoal_attr_ints("stride", 2, p->stride);
    const shoal_attr_t padding = shoal_attr_ints("padding", 2, p->padding);
    const shoal_attr_t dilation = shoal_attr_ints("dilation", 2, p->dilation);
    shoal_tensor_t expected = new_tensor(&b, SHOAL_F64, y_shape, 0);
    visit_all(p, forward, (double *[]){x.data, w.data, expected.data});
    assert_ok(
        run_named(&b, "shoal.conv", TENSORS(x, w), ATTRS(stride, padding, dilation), out, NULL));
    assert_true(shoal_shape_equal(&out->shape, &y_shape));
    for (int64_t k = 0; k < shoal_shape_count(&y_shape); ++k) {
      check_near(at(out, k), at(&expected, k), TOLERANCE, "conv", k);
    }
    expected = new_tensor(&b, SHOAL_F64, x_shape, 0);
    visit_all(p, backward_x, (double *[]){expected.data, w.data, dy.data});
    assert_ok(run_named(&b, "shoal.conv_grad_x", TENSORS(w, dy),
                        ATTRS(shoal_attr_shape("shape", &x_shape), stride, padding, dilation), out,
                        NULL));
    for (int64_t k = 0; k < shoal_shape_count(&x_shape); ++k) {
      check_near(at(out, k), at(&expected, k), TOLERANCE, "conv_grad_x", k);
    }
    expected = new_tensor(&b, SHOAL_F64, w_shape, 0);
    visit_all(p, backward_w, (double *[]){x.data, expected.data, dy.data});
    assert_ok(run_named(&b, "shoal.conv_grad_w", TENSORS(x, dy),
                        ATTRS(PAIR("kernel", p->kh, p->kw), stride, padding, dilation), out, NULL));
    for (int64_t k = 0; k < shoal_shape_count(&w_shape); ++k) {
      check_near(at(out, k), at(&expected, k), TOLERANCE, "conv_grad_w", k);
    }
  }
  bench_deinit(&b);
}

// Ties go to the first; overlapping windows add up.
static void max_pool(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t x = new_tensor(&b, SHOAL_F64, SHOAL_SHAPE(1, 1, 3, 3), 0), out[1];
  const double values[] = {1, 3, 3, 0, 3, -1, -5, -6, -7};
  memcpy(x.data, values, sizeof values);
  assert_ok(run_named(&b, "shoal.max_pool", TENSORS(x),
                      ATTRS(PAIR("kernel", 2, 2), PAIR("stride", 1, 1), PAIR("padding", 0, 0)), out,
                      NULL));
  const double expected[] = {3, 3, 3, 3};
  assert_memory_equal(out->data, expected, sizeof expected);
  shoal_tensor_t dy = new_tensor(&b, SHOAL_F64, SHOAL_SHAPE(1, 1, 2, 2), 0);
  const double slopes[] = {1, 10, 100, 1000};
  memcpy(dy.data, slopes, sizeof slopes);
  assert_ok(run_named(&b, "shoal.max_pool_grad", TENSORS(x, dy),
                      ATTRS(PAIR("kernel", 2, 2), PAIR("stride", 1, 1), PAIR("padding", 0, 0),
                            shoal_attr_shape("shape", &x.shape)),
                      out, NULL));
  const double gradient[] = {0, 11, 0, 0, 1100, 0, 0, 0, 0};
  assert_memory_equal(out->data, gradient, sizeof gradient);
  assert_ok(run_named(&b, "shoal.max_pool", TENSORS(x),
                      ATTRS(PAIR("kernel", 3, 3), PAIR("stride", 2, 2), PAIR("padding", 1, 1)), out,
                      NULL));
  const double padded[] = {3, 3, 3, 3};  // padding never wins, though -5.. are negative
  assert_memory_equal(out->data, padded, sizeof padded);
  bench_deinit(&b);
}

// ---- attention, norms, losses ----------------------------------------------------------

static void attention(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const int64_t rows = 6, t = 5, s = 7, d = 4;
  for (int32_t causal = 0; causal < 2; ++causal) {
    shoal_tensor_t q = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(2, 3, t, d), 2, 1), out[2];
    shoal_tensor_t k = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(2, 3, s, d), 2, 2);
    shoal_tensor_t v = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(2, 3, s, d), 2, 3);
    assert_ok(run_named(&b, "shoal.attention", TENSORS(q, k, v),
                        ATTRS(shoal_attr_int("causal", causal)), out, NULL));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < t; ++i) {
        double sum = 0, row[4] = {0};
        for (int64_t j = 0; j < s && (!causal || j <= i); ++j) {
          double score = 0;
          for (int64_t c = 0; c < d; ++c)
            score += at(&q, (r * t + i) * d + c) * at(&k, (r * s + j) * d + c);
          const double p = exp(score / 2);  // 1 / sqrt(4)
          sum += p;
          for (int64_t c = 0; c < d; ++c) row[c] += p * at(&v, (r * s + j) * d + c);
        }
        check_near(at(&out[1], r * t + i), log(sum), TOLERANCE, "lse", i);
        for (int64_t c = 0; c < d; ++c) {
          check_near(at(&out[0], (r * t + i) * d + c), row[c] / sum, TOLERANCE, "attention", c);
        }
      }
    }
  }
  bench_deinit(&b);
}

static void layer_norm(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const int64_t rows = 6, n = 7;
  shoal_tensor_t x = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(2, 3, n), 2, 1), out[3];
  shoal_tensor_t gamma = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(n), 2, 2);
  shoal_tensor_t beta = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(n), 2, 3);
  assert_ok(run_named(&b, "shoal.layer_norm", TENSORS(x, gamma, beta),
                      ATTRS(shoal_attr_real("eps", 0.01), shoal_attr_string("with", "gamma,beta")),
                      out, NULL));
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; ++i) {
      sum += at(&x, r * n + i);
      squares += at(&x, r * n + i) * at(&x, r * n + i);
    }
    const double mean = sum / (double)n, deviation = sqrt(squares / (double)n - mean * mean + 0.01);
    check_near(at(&out[1], r), mean, TOLERANCE, "mean", r);
    check_near(at(&out[2], r), 1 / deviation, TOLERANCE, "rstd", r);
    for (int64_t i = 0; i < n; ++i) {
      const double y = (at(&x, r * n + i) - mean) / deviation * at(&gamma, i) + at(&beta, i);
      check_near(at(&out[0], r * n + i), y, TOLERANCE, "layer_norm", i);
    }
  }
  bench_deinit(&b);
}

static void cross_entropy(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const int64_t rows = 6, n = 9;
  shoal_tensor_t x = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(2, 3, n), 2, 1), out[1];
  shoal_tensor_t labels = random_tensor(&b, SHOAL_I32, SHOAL_SHAPE(2, 3), n, 2);
  shoal_tensor_t dloss = random_tensor(&b, SHOAL_F64, SHOAL_SCALAR, 2, 3);
  double loss = 0;
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += exp(at(&x, r * n + i));
    loss -= log(exp(at(&x, r * n + (int64_t)at(&labels, r))) / sum);
  }
  assert_ok(run_named(&b, "shoal.cross_entropy", TENSORS(x, labels), NO_ATTRS, out, NULL));
  check_near(at(out, 0), loss / (double)rows, TOLERANCE, "loss", 0);
  assert_ok(
      run_named(&b, "shoal.cross_entropy_grad", TENSORS(x, labels, dloss), NO_ATTRS, out, NULL));
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += exp(at(&x, r * n + i));
    for (int64_t i = 0; i < n; ++i) {
      const double hit = i == (int64_t)at(&labels, r), p = exp(at(&x, r * n + i)) / sum;
      check_near(at(out, r * n + i), at(&dloss, 0) * (p - hit) / (double)rows, TOLERANCE, "dlogits",
                 i);
    }
  }
  bench_deinit(&b);
}

// Large logits do not overflow; -inf is a weight of 0.
static double gelu_of(double x) {
  return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
static double relu_of(double x) {
  return x > 0 ? x : 0;
}
static double square_of(double x) {
  return x * x;
}
static double neg_of(double x) {
  return -x;
}
static double sigmoid_of(double x) {
  return 0.5 + 0.5 * tanh(0.5 * x);
}

static void unary_functions(void **state) {
  (void)state;
  static const struct {
    const char *op;
    double (*function)(double x);
    bool positive;
  } cases[] = {{"shoal.exp", exp, false},           {"shoal.log", log, true},
               {"shoal.sqrt", sqrt, true},          {"shoal.tanh", tanh, false},
               {"shoal.square", square_of, false},  {"shoal.neg", neg_of, false},
               {"shoal.relu", relu_of, false},      {"shoal.gelu", gelu_of, false},
               {"shoal.sigmoid", sigmoid_of, false}};
  bench_t b;
  bench_init(&b);
  shoal_tensor_t x = new_tensor(&b, SHOAL_F64, SHOAL_SHAPE(41), 0), out[1];
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; ++c) {
    for (int64_t i = 0; i < 41; ++i)
      ((double *)x.data)[i] = cases[c].positive ? 0.25 * (double)(i + 1) : 0.25 * (double)(i - 20);
    assert_ok(run_named(&b, cases[c].op, TENSORS(x), ATTRS(), out, NULL));
    for (int64_t i = 0; i < 41; ++i)
      check_near(at(out, i), cases[c].function(at(&x, i)), TOLERANCE, cases[c].op, i);
  }
  // Far out a sigmoid is 0 or 1, not a NaN.
  const double far[] = {-1000, 1000, -INFINITY, INFINITY};
  x = new_tensor(&b, SHOAL_F64, SHOAL_SHAPE(4), 0);
  memcpy(x.data, far, sizeof far);
  assert_ok(run_named(&b, "shoal.sigmoid", TENSORS(x), ATTRS(), out, NULL));
  for (int64_t i = 0; i < 4; ++i) assert_true(at(out, i) == (i & 1));
  bench_deinit(&b);
}

static void softmax_is_stable(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t x = new_tensor(&b, SHOAL_F32, SHOAL_SHAPE(3), 0), out[1];
  const float values[] = {1000, -INFINITY, 1000};
  memcpy(x.data, values, sizeof values);
  assert_ok(
      run_named(&b, "shoal.softmax", TENSORS(x), ATTRS(shoal_attr_int("axis", 0)), out, NULL));
  assert_true(at(out, 0) == 0.5 && at(out, 1) == 0 && at(out, 2) == 0.5);
  const int64_t first[] = {0}, second[] = {1};
  assert_ok(run_named(&b, "shoal.log_sum_exp", TENSORS(x), ATTRS(shoal_attr_ints("dims", 1, first)),
                      out, NULL));
  check_near(at(out, 0), 1000 + log(2), 1e-6, "lse", 0);
  shoal_tensor_t none = new_tensor(&b, SHOAL_F32, SHOAL_SHAPE(2, 0), 0);
  assert_ok(run_named(&b, "shoal.log_sum_exp", TENSORS(none),
                      ATTRS(shoal_attr_ints("dims", 1, second)), out, NULL));
  assert_true(isinf(at(out, 1)) && at(out, 1) < 0);
  // Over dims that do not lie side by side: as along one behind the other.
  const int64_t dims[] = {0, 2}, outer[] = {0}, inner[] = {1};
  shoal_tensor_t cube = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(3, 4, 5), 2, 1), part[1], want[1];
  assert_ok(run_named(&b, "shoal.log_sum_exp", TENSORS(cube),
                      ATTRS(shoal_attr_ints("dims", 2, dims)), out, NULL));
  assert_ok(run_named(&b, "shoal.log_sum_exp", TENSORS(cube),
                      ATTRS(shoal_attr_ints("dims", 1, outer)), part, NULL));
  assert_ok(run_named(&b, "shoal.log_sum_exp", TENSORS(part[0]),
                      ATTRS(shoal_attr_ints("dims", 1, inner)), want, NULL));
  for (int64_t i = 0; i < 4; ++i) check_near(at(out, i), at(want, i), TOLERANCE, "lse of dims", i);
  bench_deinit(&b);
}

// ---- index, update, random -------------------------------------------------------------

// Rows from the count on are zero, whatever they held: not a number, too.
static void bound(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t x = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(2, 3, 4, 5), 2, 1), out[1];
  shoal_tensor_t counts = new_tensor(&b, SHOAL_I32, SHOAL_SHAPE(2, 3), 0);
  static const int64_t numbers[] = {0, 4, 1, 3, 0, 2};
  for (int64_t g = 0; g < 6; ++g) shoal_dtype_store(SHOAL_I32, counts.data, g, (double)numbers[g]);
  for (int64_t i = 0; i < 20; ++i) shoal_dtype_store(SHOAL_F64, x.data, i, NAN);
  assert_ok(run_named(&b, "shoal.bound", TENSORS(x, counts), NO_ATTRS, out, NULL));
  for (int64_t i = 0; i < 120; ++i) {
    const bool used = i / 5 % 4 < numbers[i / 20];
    assert_true(at(out, i) == (used ? at(&x, i) : 0));
  }
  bench_deinit(&b);
}

static void embedding(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t table = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(5, 3), 2, 1), out[1];
  shoal_tensor_t ids = random_tensor(&b, SHOAL_I64, SHOAL_SHAPE(4, 7), 5, 2);
  assert_ok(run_named(&b, "shoal.embedding", TENSORS(table, ids), NO_ATTRS, out, NULL));
  for (int64_t i = 0; i < 84; ++i) {
    assert_true(at(out, i) == at(&table, (int64_t)at(&ids, i / 3) * 3 + i % 3));
  }
  shoal_tensor_t dy = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(4, 7, 3), 2, 3);
  assert_ok(run_named(&b, "shoal.embedding_grad", TENSORS(ids, dy),
                      ATTRS(shoal_attr_int("rows", 5)), out, NULL));
  for (int64_t r = 0; r < 15; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < 28; ++i) {
      if ((int64_t)at(&ids, i) == r / 3) sum += at(&dy, i * 3 + r % 3);
    }
    check_near(at(out, r), sum, TOLERANCE, "dtable", r);
  }
  bench_deinit(&b);
}

static void adamw(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const shoal_shape_t shape = SHOAL_SHAPE(3, 5);
  shoal_tensor_t w = random_tensor(&b, SHOAL_F64, shape, 2, 1), out[3];
  shoal_tensor_t lr = new_tensor(&b, SHOAL_F32, SHOAL_SCALAR, 0);
  *(float *)lr.data = 0.125f;
  shoal_tensor_t m = new_tensor(&b, SHOAL_F64, shape, 0), v = new_tensor(&b, SHOAL_F64, shape, 0);
  double ref_w[15], ref_m[15] = {0}, ref_v[15] = {0};
  memcpy(ref_w, w.data, sizeof ref_w);
  for (int64_t step = 1; step <= 4; ++step) {
    shoal_tensor_t g = random_tensor(&b, SHOAL_F64, shape, 2, 10 + (uint64_t)step);
    assert_ok(run_named(&b, "shoal.adamw_update", TENSORS(w, g, m, v, lr, scalar_int(&b, step)),
                        ATTRS(shoal_attr_real("beta1", 0.9), shoal_attr_real("beta2", 0.99),
                              shoal_attr_real("eps", 1e-3), shoal_attr_real("weight_decay", 0.1)),
                        out, NULL));
    w = out[0], m = out[1], v = out[2];
    for (int64_t i = 0; i < 15; ++i) {
      const double slope = at(&g, i);
      ref_m[i] = 0.9 * ref_m[i] + 0.1 * slope;
      ref_v[i] = 0.99 * ref_v[i] + 0.01 * slope * slope;
      const double m_hat = ref_m[i] / (1 - pow(0.9, (double)step));
      const double v_hat = ref_v[i] / (1 - pow(0.99, (double)step));
      ref_w[i] -= 0.125 * (m_hat / (sqrt(v_hat) + 1e-3) + 0.1 * ref_w[i]);
      check_near(at(&w, i), ref_w[i], TOLERANCE, "adamw", i);
    }
  }
  bench_deinit(&b);
}

// ---- moving and joining, on integers too -----------------------------------------------

static void moves_every_dtype(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  for (int32_t d = 0; d < SHOAL_DTYPE_COUNT; ++d) {
    const shoal_dtype_t dtype = (shoal_dtype_t)d;
    shoal_tensor_t x = random_tensor(&b, dtype, SHOAL_SHAPE(2, 3, 5), 100, 1), out[1], back[1];
    assert_ok(run_named(&b, "shoal.transpose", TENSORS(x),
                        ATTRS(shoal_attr_ints("perm", 3, (const int64_t[]){2, 0, 1})), out, NULL));
    for (int64_t i = 0; i < 30; ++i) {
      assert_true(at(out, i) == at(&x, i / 3 % 2 * 15 + i % 3 * 5 + i / 6));
    }
    const shoal_attr_t start = shoal_attr_ints("start", 3, (const int64_t[]){1, 0, 2});
    assert_ok(run_named(&b, "shoal.slice", TENSORS(x),
                        ATTRS(start, shoal_attr_ints("size", 3, (const int64_t[]){1, 3, 2})), out,
                        NULL));
    for (int64_t i = 0; i < 6; ++i) assert_true(at(out, i) == at(&x, 15 + i / 2 * 5 + 2 + i % 2));
    assert_ok(run_named(&b, "shoal.pad", TENSORS(out[0]),
                        ATTRS(start, shoal_attr_shape("shape", &x.shape)), back, NULL));
    for (int64_t i = 0; i < 30; ++i) {
      const bool inside = i >= 15 && (i % 5 == 2 || i % 5 == 3);
      assert_true(at(back, i) == (inside ? at(&x, i) : 0));
    }
    assert_ok(
        run_named(&b, "shoal.concat", TENSORS(x, x), ATTRS(shoal_attr_int("axis", 1)), out, NULL));
    for (int64_t i = 0; i < 60; ++i) assert_true(at(out, i) == at(&x, i / 30 * 15 + i % 15));
    shoal_tensor_t row = random_tensor(&b, dtype, SHOAL_SHAPE(3, 1), 100, 2);
    assert_ok(run_named(&b, "shoal.broadcast_to", TENSORS(row),
                        ATTRS(shoal_attr_shape("shape", &x.shape)), out, NULL));
    for (int64_t i = 0; i < 30; ++i) assert_true(at(out, i) == at(&row, i / 5 % 3));
    shoal_tensor_t sum[1], most[1];
    if (shoal_dtype_is_storage(dtype)) {
      assert_error(INVALID_ARGUMENT, "for storage: cast it first",
                   run_named(&b, "shoal.maximum", TENSORS(x, row), NO_ATTRS, out, NULL));
      continue;
    }
    assert_ok(run_named(&b, "shoal.maximum", TENSORS(x, row), NO_ATTRS, out, NULL));
    for (int64_t i = 0; i < 30; ++i)
      assert_true(at(out, i) == fmax(at(&x, i), at(&row, i / 5 % 3)));
    const shoal_attr_t dims = shoal_attr_ints("dims", 2, (const int64_t[]){0, 2});
    assert_ok(run_named(&b, "shoal.reduce_max", TENSORS(x), ATTRS(dims), most, NULL));
    assert_ok(run_named(&b, "shoal.reduce_sum", TENSORS(x), ATTRS(dims), sum, NULL));
    for (int64_t r = 0; r < 3; ++r) {
      double total = 0, largest = -INFINITY;
      for (int64_t i = 0; i < 30; ++i) {
        if (i / 5 % 3 != r) continue;
        total += at(&x, i);
        largest = fmax(largest, at(&x, i));
      }
      assert_true(at(most, r) == largest);
      if (dtype == SHOAL_BOOL) total = total != 0;
      if (dtype == SHOAL_U8) total = fmod(total, 256);  // wraps
      check_near(at(sum, r), total, 4 * shoal_dtype_epsilon(dtype) + 1e-15, "sum", r);
    }
  }
  bench_deinit(&b);
}

static void integers_wrap(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t out[1], big = scalar_int(&b, INT64_MAX), one = scalar_int(&b, 1);
  assert_ok(run_named(&b, "shoal.add", TENSORS(big, one), NO_ATTRS, out, NULL));
  assert_true(*(int64_t *)out->data == INT64_MIN);
  shoal_tensor_t exact = scalar_int(&b, (INT64_C(1) << 53) + 1);  // not a double
  assert_ok(run_named(&b, "shoal.mul", TENSORS(exact, one), NO_ATTRS, out, NULL));
  assert_true(*(int64_t *)out->data == (INT64_C(1) << 53) + 1);
  assert_ok(run_named(&b, "shoal.reduce_min", TENSORS(exact),
                      ATTRS(shoal_attr_ints("dims", 0, NULL)), out, NULL));
  assert_true(*(int64_t *)out->data == (INT64_C(1) << 53) + 1);
  assert_ok(run_named(&b, "shoal.cast", TENSORS(exact), ATTRS(shoal_attr_dtype("dtype", SHOAL_I32)),
                      out, NULL));
  assert_true(*(int32_t *)out->data == 1);
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(matmul),
      cmocka_unit_test(einsum),
      cmocka_unit_test(conv),
      cmocka_unit_test(max_pool),
      cmocka_unit_test(attention),
      cmocka_unit_test(layer_norm),
      cmocka_unit_test(cross_entropy),
      cmocka_unit_test(unary_functions),
      cmocka_unit_test(softmax_is_stable),
      cmocka_unit_test(bound),
      cmocka_unit_test(embedding),
      cmocka_unit_test(adamw),
      cmocka_unit_test(moves_every_dtype),
      cmocka_unit_test(integers_wrap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

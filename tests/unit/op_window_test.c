// Windows over one, two and three dims, against sums and maxima written from the definitions, in
// f64 and independent of the kernels.
#include "op_support.h"

#define TOLERANCE 1e-12
enum { DIMS = 3 };

// A window over `dims` dims: sizes of x and w, and how the window moves.
typedef struct setting {
  int32_t dims;
  int64_t n, c, o, groups;
  int64_t size[DIMS], kernel[DIMS], stride[DIMS], padding[DIMS], dilation[DIMS];
  bool ceil;
} setting_t;

static int64_t out_size(const setting_t *s, int32_t i) {
  if (s->ceil) {  // windows until one reaches the end of the border; each begins before x ends
    int64_t count = 1, start = -s->padding[i];
    while (start + s->dilation[i] * (s->kernel[i] - 1) + 1 < s->size[i] + s->padding[i] &&
           start + s->stride[i] < s->size[i]) {
      start += s->stride[i];
      ++count;
    }
    return count;
  }
  return (s->size[i] + 2 * s->padding[i] - s->dilation[i] * (s->kernel[i] - 1) - 1) / s->stride[i] +
         1;
}

static shoal_shape_t shape_of(const setting_t *s, int64_t first, int64_t second,
                              const int64_t *sizes) {
  shoal_shape_t shape = {.rank = 2 + s->dims, .dims = {first, second}};
  for (int32_t i = 0; i < s->dims; ++i) shape.dims[2 + i] = sizes[i];
  return shape;
}

static shoal_shape_t out_shape(const setting_t *s, int64_t channels) {
  int64_t sizes[DIMS];
  for (int32_t i = 0; i < s->dims; ++i) sizes[i] = out_size(s, i);
  return shape_of(s, s->n, channels, sizes);
}

static void unravel(int64_t at, int32_t dims, const int64_t *sizes, int64_t *out_index) {
  for (int32_t i = dims - 1; i >= 0; --i) {
    out_index[i] = at % sizes[i];
    at /= sizes[i];
  }
}

// Where tap `tap` of window `window` lies in a plane of x, or -1: outside.
static int64_t input_of(const setting_t *s, int64_t window, int64_t tap) {
  const shoal_shape_t out = out_shape(s, 1);
  int64_t w[DIMS], t[DIMS], at = 0;
  unravel(window, s->dims, &out.dims[2], w);
  unravel(tap, s->dims, s->kernel, t);
  for (int32_t i = 0; i < s->dims; ++i) {
    const int64_t x = w[i] * s->stride[i] - s->padding[i] + t[i] * s->dilation[i];
    if (x < 0 || x >= s->size[i]) return -1;
    at = at * s->size[i] + x;
  }
  return at;
}

static int64_t product(int32_t dims, const int64_t *sizes) {
  int64_t count = 1;
  for (int32_t i = 0; i < dims; ++i) count *= sizes[i];
  return count;
}

static void check_all(const shoal_tensor_t *out, const shoal_tensor_t *expected, const char *what) {
  assert_true(shoal_shape_equal(&out->shape, &expected->shape));
  for (int64_t i = 0; i < shoal_shape_count(&out->shape); ++i) {
    check_near(at(out, i), at(expected, i), TOLERANCE, what, i);
  }
}

static const setting_t SETTINGS[] = {
    {1, 2, 3, 4, 1, {9}, {4}, {2}, {1}, {1}},
    {1, 1, 2, 2, 1, {7}, {3}, {1}, {3}, {3}},
    {1, 2, 4, 6, 2, {9}, {4}, {2}, {1}, {1}},
    {2, 2, 3, 4, 1, {7, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 1, 2, 1, {9, 9}, {3, 3}, {2, 2}, {2, 2}, {2, 2}},
    {2, 1, 3, 3, 3, {5, 6}, {3, 2}, {1, 2}, {1, 0}, {1, 1}},
    {2, 1, 4, 8, 4, {5, 6}, {3, 2}, {1, 2}, {1, 0}, {1, 1}},
    {3, 2, 2, 3, 1, {4, 5, 6}, {3, 1, 2}, {1, 2, 2}, {1, 0, 1}, {1, 1, 2}},
};
enum { SETTING_COUNT = sizeof SETTINGS / sizeof *SETTINGS };

// Every product of the definition, in its three roles.
typedef struct products {
  double *x, *w, *y;
} products_t;

static void visit_products(const setting_t *s, int32_t into, products_t p) {
  const shoal_shape_t out = out_shape(s, s->o);
  const int64_t windows = product(s->dims, &out.dims[2]), taps = product(s->dims, s->kernel);
  const int64_t plane = product(s->dims, s->size), each = s->c / s->groups;
  for (int64_t i = 0; i < s->n * s->o * windows * s->c * taps; ++i) {
    const int64_t tap = i % taps, c = i / taps % s->c, window = i / taps / s->c % windows;
    const int64_t o = i / taps / s->c / windows % s->o, n = i / taps / s->c / windows / s->o;
    const int64_t from = input_of(s, window, tap);
    if (from < 0 || c / each != o / (s->o / s->groups)) continue;
    double *x = &p.x[(n * s->c + c) * plane + from], *w = &p.w[(o * each + c % each) * taps + tap];
    double *y = &p.y[(n * s->o + o) * windows + window];
    if (into == 0) *y += *x * *w;
    if (into == 1) *x += *y * *w;
    if (into == 2) *w += *x * *y;
  }
}

static void conv(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  for (int32_t i = 0; i < SETTING_COUNT; ++i) {
    const setting_t *s = &SETTINGS[i];
    const shoal_shape_t x_shape = shape_of(s, s->n, s->c, s->size);
    const shoal_shape_t w_shape = shape_of(s, s->o, s->c / s->groups, s->kernel);
    const shoal_shape_t y_shape = out_shape(s, s->o);
    shoal_tensor_t x = random_tensor(&b, SHOAL_F64, x_shape, 2, 1), out[1];
    shoal_tensor_t w = random_tensor(&b, SHOAL_F64, w_shape, 2, 2);
    shoal_tensor_t dy = random_tensor(&b, SHOAL_F64, y_shape, 2, 3);
    const shoal_attr_t stride = shoal_attr_ints("stride", s->dims, s->stride);
    const shoal_attr_t padding = shoal_attr_ints("padding", s->dims, s->padding);
    const shoal_attr_t dilation = shoal_attr_ints("dilation", s->dims, s->dilation);
    shoal_tensor_t expected = new_tensor(&b, SHOAL_F64, y_shape, 0);
    visit_products(s, 0, (products_t){x.data, w.data, expected.data});
    assert_ok(run_named(&b, "shoal.conv", TENSORS(x, w),
                        ATTRS(stride, padding, dilation, shoal_attr_int("groups", s->groups)), out,
                        NULL));
    check_all(out, &expected, "conv");
    expected = new_tensor(&b, SHOAL_F64, x_shape, 0);
    visit_products(s, 1, (products_t){expected.data, w.data, dy.data});
    assert_ok(run_named(&b, "shoal.conv_grad_x", TENSORS(w, dy),
                        ATTRS(shoal_attr_shape("shape", &x_shape), stride, padding, dilation), out,
                        NULL));
    check_all(out, &expected, "conv_grad_x");
    expected = new_tensor(&b, SHOAL_F64, w_shape, 0);
    visit_products(s, 2, (products_t){x.data, expected.data, dy.data});
    assert_ok(run_named(&b, "shoal.conv_grad_w", TENSORS(x, dy),
                        ATTRS(shoal_attr_ints("kernel", s->dims, s->kernel), stride, padding,
                              dilation, shoal_attr_int("channels", s->c / s->groups)),
                        out, NULL));
    check_all(out, &expected, "conv_grad_w");
    // Transposed, dy is what is convolved, and x's shape may have elements that nothing reaches.
    int64_t more[DIMS];
    for (int32_t d = 0; d < s->dims; ++d) {
      more[d] =
          (s->size[d] + 2 * s->padding[d] - s->dilation[d] * (s->kernel[d] - 1) - 1) % s->stride[d];
    }
    expected = new_tensor(&b, SHOAL_F64, x_shape, 0);
    visit_products(s, 1, (products_t){expected.data, w.data, dy.data});
    assert_ok(run_named(&b, "shoal.conv_transpose", TENSORS(dy, w),
                        ATTRS(stride, padding, dilation, shoal_attr_int("groups", s->groups),
                              shoal_attr_ints("output_padding", s->dims, more)),
                        out, NULL));
    check_all(out, &expected, "conv_transpose");
  }
  bench_deinit(&b);
}

// A setting that pools take: padding is at most half of the kernel.
static setting_t pool_setting(int32_t i, bool dilated, bool ceil) {
  setting_t s = SETTINGS[i];
  s.ceil = ceil;
  for (int32_t d = 0; d < s.dims; ++d) {
    if (!dilated) s.dilation[d] = 1;
    const int64_t reach = s.dilation[d] * (s.kernel[d] - 1) + 1;
    if (s.padding[d] > reach / 2) s.padding[d] = reach / 2;
  }
  return s;
}

#define POOL_ATTRS(s)                                  \
  shoal_attr_ints("kernel", (s).dims, (s).kernel),     \
      shoal_attr_ints("stride", (s).dims, (s).stride), \
      shoal_attr_ints("padding", (s).dims, (s).padding)

static void check_max_pool(bench_t *b, setting_t s) {
  const shoal_shape_t x_shape = shape_of(&s, s.n, s.c, s.size), y_shape = out_shape(&s, s.c);
  const int64_t windows = product(s.dims, &y_shape.dims[2]), plane = product(s.dims, s.size);
  shoal_tensor_t x = random_tensor(b, SHOAL_F64, x_shape, 2, 1), out[1];
  shoal_tensor_t dy = random_tensor(b, SHOAL_F64, y_shape, 2, 3);
  shoal_tensor_t y = new_tensor(b, SHOAL_F64, y_shape, 0);
  shoal_tensor_t dx = new_tensor(b, SHOAL_F64, x_shape, 0);
  for (int64_t k = 0; k < shoal_shape_count(&y_shape); ++k) {
    int64_t best = -1;
    for (int64_t tap = 0; tap < product(s.dims, s.kernel); ++tap) {
      const int64_t from = input_of(&s, k % windows, tap), base = k / windows * plane;
      if (from >= 0 && (best < 0 || at(&x, base + from) > at(&x, best))) best = base + from;
    }
    ((double *)y.data)[k] = best < 0 ? -INFINITY : at(&x, best);
    if (best >= 0) ((double *)dx.data)[best] += at(&dy, k);
  }
  const shoal_attr_t dilation = shoal_attr_ints("dilation", s.dims, s.dilation);
  assert_ok(run_named(b, "shoal.max_pool", TENSORS(x),
                      ATTRS(POOL_ATTRS(s), dilation, shoal_attr_int("ceil", s.ceil)), out, NULL));
  check_all(out, &y, "max_pool");
  assert_ok(run_named(b, "shoal.max_pool_grad", TENSORS(x, dy),
                      ATTRS(POOL_ATTRS(s), dilation, shoal_attr_shape("shape", &x_shape)), out,
                      NULL));
  check_all(out, &dx, "max_pool_grad");
}

static void max_pool(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  for (int32_t i = 0; i < SETTING_COUNT; ++i) {
    for (int32_t k = 0; k < 4; ++k) check_max_pool(&b, pool_setting(i, k & 1, k & 2));
  }
  // One window more would begin just behind x.
  check_max_pool(&b, (setting_t){.dims = 1,
                                 .n = 1,
                                 .c = 1,
                                 .size = {3},
                                 .kernel = {2},
                                 .stride = {3},
                                 .dilation = {1},
                                 .ceil = true});
  bench_deinit(&b);
}

// How many elements of a window count: those within the border, which counts, or within x.
static int64_t window_count(const setting_t *s, int64_t window, bool count_pad) {
  const shoal_shape_t out = out_shape(s, 1);
  int64_t w[DIMS], count = 0;
  unravel(window, s->dims, &out.dims[2], w);
  for (int64_t tap = 0; tap < product(s->dims, s->kernel); ++tap) {
    int64_t t[DIMS];
    bool counts = true;
    unravel(tap, s->dims, s->kernel, t);
    for (int32_t i = 0; i < s->dims; ++i) {
      const int64_t x = w[i] * s->stride[i] - s->padding[i] + t[i];
      const int64_t border = count_pad ? s->padding[i] : 0;
      counts &= x >= -border && x < s->size[i] + border;
    }
    count += counts;
  }
  return count;
}

static void check_avg_pool(bench_t *b, setting_t s, bool count_pad, int64_t divisor) {
  const shoal_shape_t x_shape = shape_of(&s, s.n, s.c, s.size), y_shape = out_shape(&s, s.c);
  const int64_t windows = product(s.dims, &y_shape.dims[2]), plane = product(s.dims, s.size);
  shoal_tensor_t x = random_tensor(b, SHOAL_F64, x_shape, 2, 1), out[1];
  shoal_tensor_t dy = random_tensor(b, SHOAL_F64, y_shape, 2, 3);
  shoal_tensor_t y = new_tensor(b, SHOAL_F64, y_shape, 0);
  shoal_tensor_t dx = new_tensor(b, SHOAL_F64, x_shape, 0);
  for (int64_t k = 0; k < shoal_shape_count(&y_shape); ++k) {
    const int64_t own = window_count(&s, k % windows, count_pad), count = divisor ? divisor : own;
    for (int64_t tap = 0; tap < product(s.dims, s.kernel); ++tap) {
      const int64_t from = input_of(&s, k % windows, tap), base = k / windows * plane;
      if (from < 0) continue;
      ((double *)y.data)[k] += at(&x, base + from) / (double)count;
      ((double *)dx.data)[base + from] += at(&dy, k) / (double)count;
    }
  }
  const shoal_attr_t counts = shoal_attr_int("count_pad", count_pad);
  const shoal_attr_t divides = shoal_attr_int("divisor", divisor);
  assert_ok(run_named(b, "shoal.avg_pool", TENSORS(x),
                      ATTRS(POOL_ATTRS(s), counts, divides, shoal_attr_int("ceil", s.ceil)), out,
                      NULL));
  check_all(out, &y, "avg_pool");
  assert_ok(run_named(b, "shoal.avg_pool_grad", TENSORS(dy),
                      ATTRS(POOL_ATTRS(s), counts, divides, shoal_attr_shape("shape", &x_shape)),
                      out, NULL));
  check_all(out, &dx, "avg_pool_grad");
}

static void avg_pool(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  for (int32_t i = 0; i < SETTING_COUNT; ++i) {
    for (int32_t k = 0; k < 4; ++k) {
      check_avg_pool(&b, pool_setting(i, false, k & 2), k & 1, i == 0 ? 5 : 0);
    }
  }
  bench_deinit(&b);
}

// Each output is the mean of the elements that lie, at least in part, in its share of x.
static void adaptive_avg_pool(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const int64_t sizes[][2] = {{6, 3}, {7, 3}, {3, 7}, {5, 5}, {4, 1}, {5, 2}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    const int64_t in = sizes[i][0], n = sizes[i][1];
    const shoal_shape_t x_shape = SHOAL_SHAPE(2, 1, in, 3), y_shape = SHOAL_SHAPE(2, 1, n, 2);
    shoal_tensor_t x = random_tensor(&b, SHOAL_F64, x_shape, 2, 1), out[1];
    shoal_tensor_t dy = random_tensor(&b, SHOAL_F64, y_shape, 2, 3);
    shoal_tensor_t y = new_tensor(&b, SHOAL_F64, y_shape, 0);
    shoal_tensor_t dx = new_tensor(&b, SHOAL_F64, x_shape, 0);
    for (int64_t k = 0; k < shoal_shape_count(&y_shape); ++k) {
      const int64_t c = k % 2, r = k / 2 % n, base = k / 2 / n * in * 3;
      for (int64_t pass = 0, count = 0; pass < 2; ++pass) {
        for (int64_t e = 0; e < in * 3; ++e) {
          const int64_t row = e / 3, column = e % 3;
          const bool inside = (row + 1) * n > r * in && row * n < (r + 1) * in &&
                              (column + 1) * 2 > c * 3 && column * 2 < (c + 1) * 3;
          if (pass == 0) count += inside;
          if (pass == 0 || !inside) continue;
          ((double *)y.data)[k] += at(&x, base + e) / (double)count;
          ((double *)dx.data)[base + e] += at(&dy, k) / (double)count;
        }
      }
    }
    assert_ok(run_named(&b, "shoal.adaptive_avg_pool", TENSORS(x),
                        ATTRS(shoal_attr_shape("shape", &y_shape)), out, NULL));
    check_all(out, &y, "adaptive_avg_pool");
    assert_ok(run_named(&b, "shoal.adaptive_avg_pool_grad", TENSORS(dy),
                        ATTRS(shoal_attr_shape("shape", &x_shape)), out, NULL));
    check_all(out, &dx, "adaptive_avg_pool_grad");
  }
  bench_deinit(&b);
}

// ---- resizing --------------------------------------------------------------------------

// The weight of element i of `in` in output o of `out`, each as far as it reaches.
static double resize_weight(const char *mode, bool align, double scale, int64_t in, int64_t out,
                            int64_t o, int64_t i) {
  if (scale > 0 && strncmp(mode, "nearest", 7) == 0) {
    const double shift = strcmp(mode, "nearest") == 0 ? 0 : 0.5;
    return i == (int64_t)fmin(floor(((double)o + shift) / scale), (double)(in - 1));
  }
  if (strcmp(mode, "nearest") == 0) return i * out <= o * in && o * in < (i + 1) * out;
  if (strcmp(mode, "nearest_exact") == 0) {
    return 2 * i * out <= (2 * o + 1) * in && (2 * o + 1) * in < 2 * (i + 1) * out;
  }
  double p = align ? (double)o * (double)(in - 1) / fmax((double)(out - 1), 1)
                   : ((double)o + 0.5) / (scale > 0 ? scale : (double)out / (double)in) - 0.5;
  if (strcmp(mode, "linear") == 0) {
    p = fmin(fmax(p, 0), (double)(in - 1));
    return fmax(0, 1 - fabs(p - (double)i));
  }
  double sum = 0;
  for (int64_t at = -3; at < in + 3; ++at) {  // the border repeats the first and the last
    if ((at < 0 ? 0 : at >= in ? in - 1 : at) != i) continue;
    const double d = fabs(p - (double)at);
    if (d < 1) sum += 1.25 * d * d * d - 2.25 * d * d + 1;
    if (d >= 1 && d < 2) sum += -0.75 * d * d * d + 3.75 * d * d - 6 * d + 3;
  }
  return sum;
}

// scale: factor along the last dim; 0: what the sizes say.
static void check_resize(bench_t *b, const char *mode, bool align, double scale,
                         const int64_t in[2], const int64_t size[2]) {
  const shoal_shape_t x_shape = SHOAL_SHAPE(2, 1, in[0], in[1]);
  const shoal_shape_t y_shape = SHOAL_SHAPE(2, 1, size[0], size[1]);
  shoal_tensor_t x = random_tensor(b, SHOAL_F64, x_shape, 2, 1), out[1];
  shoal_tensor_t dy = random_tensor(b, SHOAL_F64, y_shape, 2, 3);
  shoal_tensor_t y = new_tensor(b, SHOAL_F64, y_shape, 0);
  shoal_tensor_t dx = new_tensor(b, SHOAL_F64, x_shape, 0);
  const int64_t plane = in[0] * in[1], windows = size[0] * size[1];
  for (int64_t k = 0; k < 2 * windows * plane; ++k) {
    const int64_t from = k % plane, to = k / plane % windows, n = k / plane / windows;
    const double weight =
        resize_weight(mode, align, 0, in[0], size[0], to / size[1], from / in[1]) *
        resize_weight(mode, align, scale, in[1], size[1], to % size[1], from % in[1]);
    ((double *)y.data)[n * windows + to] += weight * at(&x, n * plane + from);
    ((double *)dx.data)[n * plane + from] += weight * at(&dy, n * windows + to);
  }
  const shoal_attr_t how = shoal_attr_string("mode", mode),
                     aligned = shoal_attr_int("align", align),
                     factor = shoal_attr_real("scale_w", scale);
  assert_ok(run_named(b, "shoal.resize", TENSORS(x),
                      ATTRS(shoal_attr_shape("shape", &y_shape), how, aligned, factor), out, NULL));
  check_all(out, &y, mode);
  assert_ok(run_named(b, "shoal.resize_grad", TENSORS(dy),
                      ATTRS(shoal_attr_shape("shape", &x_shape), how, aligned, factor), out, NULL));
  check_all(out, &dx, mode);
}

static void resize(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const int64_t sizes[][2][2] = {
      {{4, 3}, {8, 6}}, {{6, 7}, {3, 3}}, {{5, 1}, {7, 4}}, {{3, 4}, {3, 1}}, {{7, 5}, {4, 9}}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    check_resize(&b, "nearest", false, 0, sizes[i][0], sizes[i][1]);
    check_resize(&b, "nearest_exact", false, 0, sizes[i][0], sizes[i][1]);
    for (int32_t align = 0; align < 2; ++align) {
      check_resize(&b, "linear", align, 0, sizes[i][0], sizes[i][1]);
      check_resize(&b, "cubic", align, 0, sizes[i][0], sizes[i][1]);
    }
  }
  // by factors that are not the quotient of the sizes, which were rounded
  const char *const modes[] = {"nearest", "nearest_exact", "linear", "cubic"};
  for (size_t i = 0; i < 4; ++i) {
    check_resize(&b, modes[i], false, 1.5, (int64_t[]){2, 5}, (int64_t[]){4, 7});
    check_resize(&b, modes[i], false, 0.7, (int64_t[]){3, 7}, (int64_t[]){2, 4});
    check_resize(&b, modes[i], false, 2.5, (int64_t[]){1, 3}, (int64_t[]){1, 7});
  }
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(conv), cmocka_unit_test(max_pool),
                                     cmocka_unit_test(avg_pool),
                                     cmocka_unit_test(adaptive_avg_pool), cmocka_unit_test(resize)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

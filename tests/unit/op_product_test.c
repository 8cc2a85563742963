// Products against loops written from the definitions: batch dims that are broadcast, rows by
// group.
#include "op_support.h"

#define TOLERANCE 1e-12

// Either operand is repeated along batch dims where it has size 1, or that it lacks.
static void matmul_broadcast(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  enum { P = 2, Q = 3, M = 4, N = 5, SUMS = 6 };
  for (int32_t kind = 0; kind < 6; ++kind) {
    const bool ta = kind & 1;
    const int64_t rows = ta ? SUMS : M, columns = ta ? M : SUMS;
    const shoal_shape_t a[] = {SHOAL_SHAPE(P, Q, rows, columns), SHOAL_SHAPE(P, 1, rows, columns),
                               SHOAL_SHAPE(rows, columns)};
    const shoal_shape_t c[] = {SHOAL_SHAPE(SUMS, N), SHOAL_SHAPE(Q, SUMS, N),
                               SHOAL_SHAPE(P, Q, SUMS, N)};
    // offsets of batch entry (p, q) in a and b, in matrices
    const int64_t step_a[][2] = {{Q, 1}, {1, 0}, {0, 0}}, step_b[][2] = {{0, 0}, {0, 1}, {Q, 1}};
    const int32_t way = kind / 2;
    shoal_tensor_t x = random_tensor(&b, SHOAL_F64, a[way], 2, 1);
    shoal_tensor_t y = random_tensor(&b, SHOAL_F64, c[way], 2, 2), out[1];
    assert_ok(run_named(&b, "shoal.matmul", TENSORS(x, y), ATTRS(shoal_attr_int("transpose_a", ta)),
                        out, NULL));
    assert_int_equal(shoal_shape_count(&out->shape), P * Q * M * N);
    for (int64_t i = 0; i < P * Q * M * N; ++i) {
      const int64_t p = i / (Q * M * N), q = i / (M * N) % Q, r = i / N % M, col = i % N;
      const int64_t in_a = (p * step_a[way][0] + q * step_a[way][1]) * M * SUMS;
      const int64_t in_b = (p * step_b[way][0] + q * step_b[way][1]) * SUMS * N;
      double sum = 0;
      for (int64_t s = 0; s < SUMS; ++s) {
        sum += at(&x, in_a + (ta ? s * M + r : r * SUMS + s)) * at(&y, in_b + s * N + col);
      }
      check_near(at(out, i), sum, TOLERANCE, "matmul, broadcast", i);
    }
  }
  bench_deinit(&b);
}

// Rows by the matrix of their group: empty groups, ends that fall, rows that belong to none.
static void grouped(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  enum { T = 70, K = 6, N = 5, E = 6 };
  static const int64_t ends[E] = {3, 3, 67, 20, 68, 68};
  static const int64_t first[E] = {0, 3, 3, 67, 67, 68}, last[E] = {3, 3, 67, 67, 68, 68};
  shoal_tensor_t x = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(T, K), 2, 1), out[1], dw[1];
  shoal_tensor_t w = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(E, K, N), 2, 2);
  shoal_tensor_t dy = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(T, N), 2, 3);
  shoal_tensor_t where = new_tensor(&b, SHOAL_I64, SHOAL_SHAPE(E), 0);
  memcpy(where.data, ends, sizeof ends);
  assert_ok(run_named(&b, "shoal.grouped_matmul", TENSORS(x, w, where), 0, NULL, out, NULL));
  assert_ok(run_named(&b, "shoal.grouped_matmul_grad_w", TENSORS(x, dy, where),
                      ATTRS(shoal_attr_int("groups", E)), dw, NULL));
  for (int64_t i = 0; i < T * N; ++i) {
    double sum = 0;
    for (int64_t e = 0; e < E; ++e) {
      for (int64_t k = 0; k < K && i / N >= first[e] && i / N < last[e]; ++k) {
        sum += at(&x, i / N * K + k) * at(&w, (e * K + k) * N + i % N);
      }
    }
    check_near(at(out, i), sum, TOLERANCE, "grouped_matmul", i);
  }
  for (int64_t i = 0; i < E * K * N; ++i) {
    double sum = 0;
    for (int64_t t = first[i / (K * N)]; t < last[i / (K * N)]; ++t) {
      sum += at(&x, t * K + i / N % K) * at(&dy, t * N + i % N);
    }
    check_near(at(dw, i), sum, TOLERANCE, "grouped_matmul_grad_w", i);
  }
  ((int64_t *)where.data)[2] = T + 1;
  assert_error(INVALID_ARGUMENT, "end 71 of group 2 is not in [0, 70]",
               run_named(&b, "shoal.grouped_matmul", TENSORS(x, w, where), 0, NULL, out, NULL));
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(matmul_broadcast),
      cmocka_unit_test(grouped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

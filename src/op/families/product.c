// Contractions: the blocked kernel that matmul, einsum and grouped products share. It packs blocks
// of both operands first, so that transposes and strides cost nothing extra.
//
// Letters: C[m,n] = sum over k of A[m,k] B[k,n]. f64 and f32: callers widen half-size floats.
#ifndef KERNELS_HERE
#include "op/families/product.h"

#include "op/families/kernel.h"

enum { A, B, C };

void shoal_contraction_add(shoal_group_t *group, int64_t size, int64_t a, int64_t b, int64_t c) {
  const int32_t i = group->count++;
  group->size[i] = size;
  group->stride[A][i] = a;
  group->stride[B][i] = b;
  group->stride[C][i] = c;
  group->total *= size;
}

shoal_contraction_t shoal_contraction_empty(void) {
  const shoal_group_t empty = {.total = 1};
  return (shoal_contraction_t){empty, empty, empty, empty};
}

// Offsets in one operand of all index combinations of a group, row-major.
static void group_offsets(const shoal_group_t *group, int32_t operand, int64_t *out_offsets) {
  int64_t index[SHOAL_MAX_LETTERS] = {0}, offset = 0;
  for (int64_t i = 0; i < group->total; ++i) {
    out_offsets[i] = offset;
    for (int32_t d = group->count - 1; d >= 0; --d) {
      offset += group->stride[operand][d];
      if (++index[d] < group->size[d]) break;
      offset -= group->size[d] * group->stride[operand][d];
      index[d] = 0;
    }
  }
}

// Blocks: a packed block of B (BLOCK_K x BLOCK_N) stays in the second cache, one of A in the first.
enum { BLOCK_M = 64, BLOCK_N = 512, BLOCK_K = 256, TILE_M = 4 };

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

static int64_t offsets_bytes(const shoal_contraction_t *c) {
  const int64_t entries =
      2 * (c->rows.total + c->columns.total + c->summed.total) + 3 * c->batch.total;
  return shoal_align64(entries * (int64_t)sizeof(int64_t));
}

// Tables of offsets, then packed blocks of B and of A; 8 columns are the widest tile.
int64_t shoal_contraction_workspace(const shoal_contraction_t *c, shoal_dtype_t dtype) {
  const int64_t element = (int64_t)shoal_dtype_size(shoal_statistics_dtype(dtype));
  const int64_t k = least(c->summed.total, BLOCK_K);
  const int64_t b = k * round_up(least(c->columns.total, BLOCK_N), 8);
  const int64_t a = k * round_up(least(c->rows.total, BLOCK_M), TILE_M);
  return offsets_bytes(c) + shoal_align64(b * element) + shoal_align64(a * element);
}

#define EACH EACH_REAL
#define KERNELS "op/families/product.c"
#include "op/families/each.h"

void shoal_contraction_run(const shoal_contraction_t *c, const shoal_tensor_t *inputs,
                           const shoal_tensor_t *outputs, void *workspace) {
  const int64_t count = shoal_shape_count(&outputs->shape);
  if (count == 0) return;
  if (c->summed.total == 0) {
    memset(outputs->data, 0, (size_t)count * shoal_dtype_size(outputs->dtype));
  } else if (outputs->dtype == SHOAL_F64) {
    contract_f64(c, inputs[0].data, inputs[1].data, outputs->data, workspace, false);
  } else {
    contract_f32(c, inputs[0].data, inputs[1].data, outputs->data, workspace, false);
  }
}

void shoal_contraction_cost(const shoal_contraction_t *c, shoal_cost_t *out_cost) {
  out_cost->flops = 2.0 * (double)c->batch.total * (double)c->rows.total *
                    (double)c->columns.total * (double)c->summed.total;
}

static shoal_contraction_t product_contraction(const shoal_product_t *p) {
  shoal_contraction_t c = shoal_contraction_empty();
  shoal_contraction_add(&c.rows, p->m, p->a[0], 0, p->c[0]);
  shoal_contraction_add(&c.columns, p->n, 0, p->b[1], p->c[1]);
  shoal_contraction_add(&c.summed, p->k, p->a[1], p->b[0], 0);
  return c;
}

void shoal_product_run(const shoal_product_t *product, shoal_dtype_t dtype, const void *a,
                       const void *b, void *c, void *workspace) {
  const shoal_contraction_t contraction = product_contraction(product);
  if (dtype == SHOAL_F64) {
    contract_f64(&contraction, a, b, c, workspace, true);
  } else {
    contract_f32(&contraction, a, b, c, workspace, true);
  }
}

int64_t shoal_product_workspace(const shoal_product_t *product, shoal_dtype_t dtype) {
  const shoal_contraction_t contraction = product_contraction(product);
  return shoal_contraction_workspace(&contraction, dtype);
}

#else  // per element type

typedef R K(vector) __attribute__((vector_size(16), may_alias));
#define LANES ((int64_t)(16 / sizeof(R)))
#define TILE_N (2 * LANES)

// acc[4][TILE_N] = sum over k of the packed panels a[k][4] and b[k][TILE_N].
static void K(tile)(int64_t kc, const R *restrict a, const R *restrict b, R *restrict acc) {
  K(vector) c[TILE_M][2] = {{{0}}};
  for (int64_t k = 0; k < kc; ++k, a += TILE_M, b += TILE_N) {
    const K(vector) b0 = *(const K(vector) *)b, b1 = *(const K(vector) *)(b + LANES);
#pragma GCC unroll 4
    for (int i = 0; i < TILE_M; ++i) {
      c[i][0] += a[i] * b0;
      c[i][1] += a[i] * b1;
    }
  }
  memcpy(acc, c, sizeof c);
}

// panels[p][k][width]: elements at first[..] + second[..], zero beyond the end.
static void K(pack)(const R *restrict from, const int64_t *first, int64_t count,
                    const int64_t *second, int64_t kc, int64_t width, R *restrict panels) {
  for (int64_t p = 0; p < count; p += width, panels += kc * width) {
    const int64_t n = least(width, count - p);
    for (int64_t k = 0; k < kc; ++k) {
      const R *row = from + second[k];
      R *to = panels + k * width;
      for (int64_t i = 0; i < n; ++i) to[i] = row[first[p + i]];
      for (int64_t i = n; i < width; ++i) to[i] = 0;
    }
  }
}

// One product: rows x columns of one batch entry, added to what is there if asked for.
static void K(contract_one)(int64_t m, int64_t n, int64_t k, const R *a, const R *b, R *out,
                            int64_t *const offsets[6], R *packed_b, R *packed_a, bool add) {
  const int64_t *a_m = offsets[0], *c_m = offsets[1], *b_n = offsets[2], *c_n = offsets[3];
  R acc[TILE_M * 8] __attribute__((aligned(16)));
  for (int64_t k0 = 0; k0 < k; k0 += BLOCK_K) {
    const int64_t kc = least(BLOCK_K, k - k0);
    for (int64_t n0 = 0; n0 < n; n0 += BLOCK_N) {
      const int64_t nc = least(BLOCK_N, n - n0);
      K(pack)(b, b_n + n0, nc, offsets[5] + k0, kc, TILE_N, packed_b);
      for (int64_t m0 = 0; m0 < m; m0 += BLOCK_M) {
        const int64_t mc = least(BLOCK_M, m - m0);
        K(pack)(a, a_m + m0, mc, offsets[4] + k0, kc, TILE_M, packed_a);
        for (int64_t j = 0; j < nc; j += TILE_N) {
          for (int64_t i = 0; i < mc; i += TILE_M) {
            K(tile)(kc, packed_a + i * kc, packed_b + j * kc, acc);
            for (int64_t r = 0; r < least(TILE_M, mc - i); ++r) {
              R *row = out + c_m[m0 + i + r];
              const int64_t *at = c_n + n0 + j;
              const R *sum = acc + r * TILE_N;
              const int64_t width = least(TILE_N, nc - j);
              if (k0 == 0 && !add) {
                for (int64_t s = 0; s < width; ++s) row[at[s]] = sum[s];
              } else {
                for (int64_t s = 0; s < width; ++s) row[at[s]] += sum[s];
              }
            }
          }
        }
      }
    }
  }
}

static void K(contract)(const shoal_contraction_t *c, const R *a, const R *b, R *out,
                        void *workspace, bool add) {
  const int64_t m = c->rows.total, n = c->columns.total, k = c->summed.total;
  const int64_t sizes[] = {m, m, n, n, k, k};
  int64_t *offsets[6], *at = workspace;
  for (int32_t i = 0; i < 6; ++i) {
    offsets[i] = at;
    at += sizes[i];
  }
  group_offsets(&c->rows, A, offsets[0]);
  group_offsets(&c->rows, C, offsets[1]);
  group_offsets(&c->columns, B, offsets[2]);
  group_offsets(&c->columns, C, offsets[3]);
  group_offsets(&c->summed, A, offsets[4]);
  group_offsets(&c->summed, B, offsets[5]);
  const int64_t batches = c->batch.total;
  int64_t *batch_a = at, *batch_b = at + batches, *batch_c = at + 2 * batches;
  group_offsets(&c->batch, A, batch_a);
  group_offsets(&c->batch, B, batch_b);
  group_offsets(&c->batch, C, batch_c);
  char *packed = (char *)workspace + offsets_bytes(c);
  const int64_t b_size = least(k, BLOCK_K) * round_up(least(n, BLOCK_N), 8);
  R *packed_b = (R *)packed;
  R *packed_a = (R *)(packed + shoal_align64(b_size * (int64_t)sizeof(R)));
  for (int64_t i = 0; i < batches; ++i) {
    K(contract_one)
    (m, n, k, a + batch_a[i], b + batch_b[i], out + batch_c[i], offsets, packed_b, packed_a, add);
  }
}

#undef LANES
#undef TILE_N
#endif

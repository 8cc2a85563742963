// Contractions of two operands by the blocked kernel of product.c, and single products of matrices
// for families whose work is made of such.
#ifndef SHOAL_OP_PRODUCT_H_
#define SHOAL_OP_PRODUCT_H_

#include "shoal/op.h"

// ---- contractions -------------------------------------------------------------------------------

#define SHOAL_MAX_LETTERS (2 * SHOAL_MAX_RANK)

// Dims of one kind, with their strides in a, b and out, in elements; 0 where an operand lacks one.
typedef struct shoal_group {
  int32_t count;
  int64_t size[SHOAL_MAX_LETTERS], stride[3][SHOAL_MAX_LETTERS];
  int64_t total;  // product of the sizes
} shoal_group_t;

// Dims sorted by who has them: batch (a, b and out), rows (a, out), columns (b, out) and summed
// (not out).
typedef struct shoal_contraction {
  shoal_group_t batch, rows, columns, summed;
} shoal_contraction_t;

shoal_contraction_t shoal_contraction_empty(void);
void shoal_contraction_add(shoal_group_t *group, int64_t size, int64_t a, int64_t b, int64_t c);
// outputs[0] = the contraction of inputs[0] and [1], f64 or f32; 0 where nothing is summed.
void shoal_contraction_run(const shoal_contraction_t *c, const shoal_tensor_t *inputs,
                           const shoal_tensor_t *outputs, void *workspace);
// Bytes of workspace for operands of that dtype, without the f32 copies of half-size ones.
int64_t shoal_contraction_workspace(const shoal_contraction_t *c, shoal_dtype_t dtype);
void shoal_contraction_cost(const shoal_contraction_t *c, shoal_cost_t *out_cost);

// ---- one product --------------------------------------------------------------------------------

// C[m, n] += sum over k of A[m, k] B[k, n]; strides in elements: of A along m and k, of B along k
// and n, of C along m and n.
typedef struct shoal_product {
  int64_t m, n, k;
  int64_t a[2], b[2], c[2];
} shoal_product_t;

// f64 or f32. The workspace is as large as shoal_product_workspace says, for these sizes or
// larger ones.
void shoal_product_run(const shoal_product_t *product, shoal_dtype_t dtype, const void *a,
                       const void *b, void *c, void *workspace);
int64_t shoal_product_workspace(const shoal_product_t *product, shoal_dtype_t dtype);

#endif  // SHOAL_OP_PRODUCT_H_

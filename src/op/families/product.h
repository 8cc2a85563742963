// One product of two matrices by the blocked kernel of product.c, for families whose work is made
// of such.
#ifndef SHOAL_OP_PRODUCT_H_
#define SHOAL_OP_PRODUCT_H_

#include "shoal/op.h"

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

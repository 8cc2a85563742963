// Reductions of partial parts (shoal/reduce.inc), as functions on elements: what partial buffers
// start at and how two of them are combined. Merging a value *with* its log-sum-exp is a kernel of
// its own, not here.
#ifndef SHOAL_OP_REDUCE_H_
#define SHOAL_OP_REDUCE_H_

#include "layout/reduce.h"
#include "shoal/op.h"

double shoal_reduce_identity(shoal_reduce_t reduce);  // of floats: 0 for sum, -inf for max and lse
// Two elements joined: max, min and lse keep a NaN, integers wrap, lse of integers is `a`.
double shoal_reduce_reals(shoal_reduce_t reduce, double a, double b);
int64_t shoal_reduce_integers(shoal_reduce_t reduce, int64_t a, int64_t b);
// data[i] = identity of the reduction.
void shoal_reduce_fill(shoal_dtype_t dtype, shoal_reduce_t reduce, int64_t count, void *data);
// data[i] = data[i] joined with more[i], rounded to the dtype. lse of integers is left alone.
void shoal_reduce_join(shoal_dtype_t dtype, shoal_reduce_t reduce, int64_t count, const void *more,
                       void *data);

#endif  // SHOAL_OP_REDUCE_H_

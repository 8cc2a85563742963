// Ways to join unreduced parts (reduce.inc), as functions on elements: what partial buffers start at and how
// two of them are joined. Merging a value *with* its log-sum-exp is a kernel of its own, not here.
#ifndef SHOAL_OP_REDUCE_H_
#define SHOAL_OP_REDUCE_H_

#include "shoal/op.h"

const char *shoal_reduce_name(shoal_reduce_t reduce);  // "sum"
bool shoal_reduce_parse(const char *name, shoal_reduce_t *out_reduce);

// data[i] = identity of the reduction.
void shoal_reduce_fill(shoal_reduce_t reduce, shoal_dtype_t dtype, int64_t count, void *data);
// data[i] = data[i] joined with more[i], rounded to the dtype. lse of integers is left alone.
void shoal_reduce_join(shoal_reduce_t reduce, shoal_dtype_t dtype, int64_t count, const void *more,
                       void *data);

#endif  // SHOAL_OP_REDUCE_H_

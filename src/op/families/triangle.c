// Triangles and diagonals of matrices.
//   triangle       out = x where j - i <= diagonal (upper: >=), 0 elsewhere, in the last two dims
//   diagonal       x [.., n, .., m, ..]  out [.., k] with out[.., t] = x[.., t + a, .., t + b, ..]
//   diagonal_grad  its adjoint: zeros with dy on the diagonal
// where a = max(-offset, 0) and b = max(offset, 0). What an element is depends on its row and
// column in the whole. Elements of a diagonal that lie in another part of x are 0 here, so that
// parts add up.
#include "op/families/emit.h"
#include "op/families/kernel.h"

// ---- triangle --------------------------------------------------------------------------

enum { DIAGONAL, UPPER, TRIANGLE_PLACE };

static shoal_status_t triangle_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, TRIANGLE_PLACE, &call->inputs[0].shape, &place));
  REQUIRE(call, place.whole.rank >= 2, "x needs rows and columns, and has %d dim%s",
          place.whole.rank, place.whole.rank == 1 ? "" : "s");
  out_types[0] = call->inputs[0];
  return NULL;
}

OP_GRADIENT(triangle) {
  (void)in, (void)out;
  in_grads[0] = shoal_emit_one(e, "shoal.triangle", REFS(grads[0]),
                               ATTRS(shoal_attr_int("diagonal", call->attrs[DIAGONAL].i),
                                     shoal_attr_int("upper", call->attrs[UPPER].i)));
}

OP_KERNEL(triangle) {
  (void)workspace;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, TRIANGLE_PLACE, &inputs->shape, &place));
  const int64_t count = shoal_shape_count(&inputs->shape), limit = call->attrs[DIAGONAL].i;
  const int64_t rows = place.whole.dims[place.whole.rank - 2];
  const int64_t columns = place.whole.dims[place.whole.rank - 1];
  const size_t size = shoal_dtype_size(inputs->dtype);
  const bool upper = call->attrs[UPPER].i != 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = shoal_place_global(&place, i);
    const int64_t ahead = at % columns - at / columns % rows;
    const char *from = (const char *)inputs->data + (size_t)i * size;
    char *to = (char *)outputs->data + (size_t)i * size;
    if (upper ? ahead < limit : ahead > limit) {
      memset(to, 0, size);
    } else if (to != from) {
      memcpy(to, from, size);
    }
  }
  return NULL;
}

const shoal_op_t shoal_op_triangle = {
    .name = "shoal.triangle",
    .doc =
        "The lower triangle of each matrix (the last two dims) of x, zeros above it: column - row "
        "<= diagonal is kept. upper=1: the upper triangle, column - row >= diagonal.",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    .any_dtype = true,
    SHOAL_OP_ATTRS(
        {.name = "diagonal",
         .kind = SHOAL_ATTR_INT,
         .optional = true,
         .doc =
             "the outermost diagonal that is kept: 0 the main one, 1 the one above it, -1 below"},
        {.name = "upper",
         .kind = SHOAL_ATTR_INT,
         .optional = true,
         .doc = "1: keep the upper triangle"},
        SHOAL_ATTR_PLACE_OF("place", SHOAL_INPUT(0))),
    SHOAL_OP_OVERWRITES({0, 0}),
    .infer = triangle_infer,
    .gradient = triangle_gradient,
    .cost = shoal_cost_move,
    .kernel = triangle_kernel,
    SHOAL_OP_CASES("f64[5,7]", "f32[2,5,3] ; diagonal=-1, upper=1", "bf16[3,1]",
                   "i64[3,5]<50 ; diagonal=2", "f32[0,3,3] ; upper=1"),
};

// ---- diagonal and its adjoint ----------------------------------------------------------

enum { OFFSET, ROW_DIM, COLUMN_DIM, DIAGONAL_PLACE };  // of diagonal
enum { GRAD_SHAPE = 3, GRAD_PLACE };                   // of diagonal_grad

typedef struct band {
  int32_t row, column;  // dims of x
  int64_t first_row, first_column, length;
} band_t;

static shoal_status_t read_band(const shoal_call_t *call, const shoal_shape_t *whole,
                                band_t *out_band) {
  band_t band = {0};
  const int64_t offset = call->attrs[OFFSET].i;
  SHOAL_RETURN_IF_ERROR(shoal_check_axis(call, call->attrs[ROW_DIM].i, whole->rank, &band.row));
  SHOAL_RETURN_IF_ERROR(
      shoal_check_axis(call, call->attrs[COLUMN_DIM].i, whole->rank, &band.column));
  REQUIRE(call, band.row != band.column, "rows and columns are the same dim %d", band.row);
  const int64_t rows = whole->dims[band.row], columns = whole->dims[band.column];
  if (offset > -rows && offset < columns) {  // else it passes the matrix by
    band.first_row = offset < 0 ? -offset : 0;
    band.first_column = offset > 0 ? offset : 0;
    const int64_t below = rows - band.first_row, behind = columns - band.first_column;
    band.length = below < behind ? below : behind;
  }
  *out_band = band;
  return NULL;
}

// The dims of x but for rows and columns, then the diagonal.
static shoal_shape_t band_shape(const shoal_shape_t *x, const band_t *band) {
  shoal_shape_t shape = {0};
  for (int32_t d = 0; d < x->rank; ++d) {
    if (d != band->row && d != band->column) shape.dims[shape.rank++] = x->dims[d];
  }
  shape.dims[shape.rank++] = band->length;
  return shape;
}

// Copies between the part of x and the diagonals that lie in it.
static void copy_bands(const band_t *band, const shoal_place_t *place, const shoal_shape_t *x,
                       size_t size, char *matrix, char *diagonals, bool put) {
  int64_t strides[SHOAL_MAX_RANK];
  shoal_strides(x, strides);
  const shoal_shape_t shape = band_shape(x, band);
  const int64_t count = shoal_shape_product(&shape, 0, shape.rank - 1);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, offset = 0;
    for (int32_t d = x->rank - 1; d >= 0; --d) {
      if (d == band->row || d == band->column) continue;
      offset += rest % x->dims[d] * strides[d];
      rest /= x->dims[d];
    }
    for (int64_t t = 0; t < band->length; ++t) {
      const int64_t row = shoal_place_local(place, band->row, t + band->first_row);
      const int64_t column = shoal_place_local(place, band->column, t + band->first_column);
      if (row < 0 || column < 0) continue;
      char *in_matrix =
          matrix +
          (size_t)(offset + row * strides[band->row] + column * strides[band->column]) * size;
      char *in_diagonal = diagonals + (size_t)(i * band->length + t) * size;
      memcpy(put ? in_matrix : in_diagonal, put ? in_diagonal : in_matrix, size);
    }
  }
}

static shoal_status_t diagonal_check(const shoal_call_t *call, int32_t place_attr,
                                     const shoal_shape_t *x, shoal_place_t *out_place,
                                     band_t *out_band) {
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, place_attr, x, out_place));
  REQUIRE(call, !out_place->flat, "a flat part has no rows and columns");
  REQUIRE(call, x->rank >= 2, "a diagonal needs rows and columns, and x has %d dim%s", x->rank,
          x->rank == 1 ? "" : "s");
  return read_band(call, &out_place->whole, out_band);
}

static shoal_status_t diagonal_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_place_t place;
  band_t band = {0};
  SHOAL_RETURN_IF_ERROR(
      diagonal_check(call, DIAGONAL_PLACE, &call->inputs[0].shape, &place, &band));
  out_types[0] = (shoal_type_t){call->inputs[0].dtype, band_shape(&call->inputs[0].shape, &band)};
  return NULL;
}

static shoal_ref_t emit_diagonal(const shoal_call_t *call, shoal_emitter_t *e, const char *op,
                                 shoal_ref_t x, const shoal_shape_t *shape) {
  const shoal_attr_t attrs[] = {shoal_attr_int("offset", call->attrs[OFFSET].i),
                                shoal_attr_int("rows", call->attrs[ROW_DIM].i),
                                shoal_attr_int("columns", call->attrs[COLUMN_DIM].i),
                                shape ? shoal_attr_shape("shape", shape) : (shoal_attr_t){0}};
  return shoal_emit_one(e, op, REFS(x), shape ? 4 : 3, attrs);
}

OP_GRADIENT(diagonal) {
  (void)in, (void)out;
  in_grads[0] = emit_diagonal(call, e, "shoal.diagonal_grad", grads[0], &call->inputs[0].shape);
}

OP_KERNEL(diagonal) {
  (void)workspace;
  shoal_place_t place;
  band_t band = {0};
  SHOAL_RETURN_IF_ERROR(diagonal_check(call, DIAGONAL_PLACE, &inputs->shape, &place, &band));
  const size_t bytes = shoal_tensor_bytes(outputs);
  if (bytes == 0) return NULL;
  memset(outputs->data, 0, bytes);
  copy_bands(&band, &place, &inputs->shape, shoal_dtype_size(inputs->dtype), inputs->data,
             outputs->data, false);
  return NULL;
}

#define BAND_ATTRS                                                               \
  {.name = "offset",                                                             \
   .kind = SHOAL_ATTR_INT,                                                       \
   .optional = true,                                                             \
   .doc = "which diagonal: column - row; 0 is the main one"},                    \
      {.name = "rows",                                                           \
       .kind = SHOAL_ATTR_INT,                                                   \
       .optional = true,                                                         \
       .stated = true,                                                           \
       .fallback = {.i = -2},                                                    \
       .doc = "the dim of the rows"},                                            \
  {                                                                              \
    .name = "columns", .kind = SHOAL_ATTR_INT, .optional = true, .stated = true, \
    .fallback = {.i = -1}, .doc = "the dim of the columns"                       \
  }

const shoal_op_t shoal_op_diagonal = {
    .name = "shoal.diagonal",
    .doc =
        "The diagonal of each matrix of x as the last dim, behind the other dims of x: element t "
        "is the one in row t and column t + offset (offset < 0: row t - offset and column t). It "
        "has no elements where the offset lies outside the matrix.",
    .uncut = "the diagonal of out: a part of it crosses rows and columns of x at once",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    .any_dtype = true,
    SHOAL_OP_ATTRS(BAND_ATTRS, SHOAL_ATTR_PLACE_OF("place", SHOAL_INPUT(0))),
    .infer = diagonal_infer,
    .gradient = diagonal_gradient,
    .cost = shoal_cost_move,
    .kernel = diagonal_kernel,
    SHOAL_OP_CASES("f64[5,7]", "f32[5,3,4] ; offset=1, rows=0, columns=2",
                   "bf16[2,4,3] ; offset=-1", "i64[3,1]<50", "f32[3,0,2]"),
};

static shoal_status_t diagonal_grad_check(const shoal_call_t *call, shoal_shape_t *out_shape,
                                          shoal_place_t *out_place, band_t *out_band) {
  SHOAL_RETURN_IF_ERROR(shoal_check_sizes(call, GRAD_SHAPE, out_shape));
  SHOAL_RETURN_IF_ERROR(diagonal_check(call, GRAD_PLACE, out_shape, out_place, out_band));
  const shoal_shape_t shape = band_shape(out_shape, out_band);
  return shoal_check_shape(call, 0, &shape);
}

static shoal_status_t diagonal_grad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_place_t place;
  band_t band = {0};
  out_types[0].dtype = call->inputs[0].dtype;
  return diagonal_grad_check(call, &out_types[0].shape, &place, &band);
}

OP_GRADIENT(diagonal_grad) {
  (void)in, (void)out;
  in_grads[0] = emit_diagonal(call, e, "shoal.diagonal", grads[0], NULL);
}

OP_KERNEL(diagonal_grad) {
  (void)workspace;
  shoal_shape_t shape;
  shoal_place_t place;
  band_t band = {0};
  SHOAL_RETURN_IF_ERROR(diagonal_grad_check(call, &shape, &place, &band));
  const size_t bytes = shoal_tensor_bytes(outputs);
  if (bytes == 0) return NULL;
  memset(outputs->data, 0, bytes);
  copy_bands(&band, &place, &shape, shoal_dtype_size(inputs->dtype), outputs->data, inputs->data,
             true);
  return NULL;
}

const shoal_op_t shoal_op_diagonal_grad = {
    .name = "shoal.diagonal_grad",
    .doc = "Adjoint of diagonal: zeros of the given shape with dy on the diagonal of each matrix.",
    .uncut = "the diagonal of dy: a part of it crosses rows and columns of dx at once",
    SHOAL_OP_INPUTS("dy"),
    SHOAL_OP_OUTPUTS("dx"),
    .any_dtype = true,
    SHOAL_OP_ATTRS(BAND_ATTRS, SHOAL_ATTR_SIZES("shape", SHOAL_OUTPUT(0), "shape of the result"),
                   SHOAL_ATTR_PLACE_OF("place", SHOAL_OUTPUT(0))),
    .infer = diagonal_grad_infer,
    .gradient = diagonal_grad_gradient,
    .cost = shoal_cost_move,
    .kernel = diagonal_grad_kernel,
    SHOAL_OP_CASES("f64[5] ; shape=[5,7]", "f32[3,3] ; offset=1, rows=0, columns=2, shape=[5,3,4]",
                   "bf16[2,3] ; offset=-1, shape=[2,4,3]", "i64[1]<50 ; shape=[3,1]",
                   "f32[3,0] ; shape=[3,0,2]"),
};

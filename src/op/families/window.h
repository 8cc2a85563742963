// Sliding windows along the two spatial dims of [N,C,H,W], in global coordinates: output o looks
// through `kernel` taps at inputs o * stride - padding + tap * dilation. Places say where parts
// lie. An index outside the whole is padding; one inside the whole that the part does not hold is a
// MISMATCH, from which rule discovery learns the halo.
#ifndef SHOAL_OP_WINDOW_H_
#define SHOAL_OP_WINDOW_H_

#include "op/families/family.h"

typedef struct shoal_window {
  int64_t kernel[2], stride[2], padding[2], dilation[2];  // rows, columns
} shoal_window_t;

enum { SHOAL_TAP_NONE = -1, SHOAL_TAP_MISSING = -2 };  // padding (or no such output); not held

// The attributes' positions in the schema; dilation < 0: 1.
SHOAL_MUST_USE shoal_status_t shoal_window_read(const shoal_call_t *call, int64_t rows,
                                                int64_t columns, int32_t stride, int32_t padding,
                                                int32_t dilation, shoal_window_t *out_window);
// Windows along direction i (0 rows, 1 columns): as many as SHOAL_WINDOW_SIZE's attribute says or,
// where it is left out, as fit an input of `size`.
int64_t shoal_window_count(const shoal_window_t *window, int32_t i, const shoal_attr_value_t *given,
                           int64_t size);

// A window that is larger than the whole input with its padding is INVALID_ARGUMENT.
SHOAL_MUST_USE shoal_status_t shoal_window_fits(const shoal_call_t *call,
                                                const shoal_window_t *window,
                                                const shoal_shape_t *whole);

// What convolution and pooling share. Fills in the two sizes of the result, `sizes`, where they are
// left out, for a whole input.
void shoal_window_complete(const shoal_window_t *window, const shoal_shape_t *input,
                           shoal_attr_value_t sizes[2]);
// Where the parts of input 0 and of output 0 lie, and how long the output's rows and columns are;
// its first two dims are given. The attributes' positions in the schema; `sizes` is the first of
// two.
SHOAL_MUST_USE shoal_status_t shoal_window_places(const shoal_call_t *call,
                                                  const shoal_window_t *window, int32_t sizes,
                                                  int32_t place_input, int32_t place_output,
                                                  shoal_shape_t *shape, shoal_place_t *out_input,
                                                  shoal_place_t *out_output);

// inputs[o * kernel + tap]: position in the input's part of what each of the output part's windows
// sees. Returns the first index that is missing, or -1.
int64_t shoal_window_inputs(const shoal_window_t *window, int32_t i, const shoal_place_t *input,
                            const shoal_place_t *output, int64_t *inputs);
// MISMATCH if an index of operand `what` is missing: "needs row 7 of x, which this part does not
// hold".
SHOAL_MUST_USE shoal_status_t shoal_window_check(const shoal_call_t *call, int32_t i,
                                                 const char *what, int64_t missing);

// The tables above along rows and columns, in a kernel's workspace.
typedef struct shoal_taps {
  int64_t kernel[2];
  int64_t *table[2];
} shoal_taps_t;

// For each row and column of an operand [N,C,H,W]: bytes (a multiple of 64), and where they lie.
int64_t shoal_taps_bytes(const shoal_shape_t *shape, const int64_t kernel[2]);
shoal_taps_t shoal_taps_at(const shoal_shape_t *shape, const int64_t kernel[2], void *workspace);
// What each output of the part sees of x, or each element of the part of x is seen by; MISMATCH if
// that is not held.
SHOAL_MUST_USE shoal_status_t shoal_taps_inputs(const shoal_call_t *call,
                                                const shoal_window_t *window,
                                                const shoal_place_t *x, const shoal_place_t *output,
                                                const shoal_taps_t *taps);
SHOAL_MUST_USE shoal_status_t shoal_taps_outputs(const shoal_call_t *call,
                                                 const shoal_window_t *window,
                                                 const shoal_place_t *x, const shoal_place_t *dy,
                                                 const shoal_taps_t *taps);

#define SHOAL_WINDOW_ATTR(attr_name, text) \
  { .name = attr_name, .kind = SHOAL_ATTR_INTS, .doc = text }
#define SHOAL_WINDOW_STRIDE SHOAL_WINDOW_ATTR("stride", "step of the window: rows, columns")
#define SHOAL_WINDOW_PADDING \
  SHOAL_WINDOW_ATTR("padding", "implied border on each side: rows, columns")
#define SHOAL_WINDOW_DILATION                                                               \
  {                                                                                         \
    .name = "dilation", .kind = SHOAL_ATTR_INTS, .optional = true,                          \
    .fallback = {.count = 2, .ints = {1, 1}}, .doc = "distance between taps: rows, columns" \
  }
#define SHOAL_WINDOW_SIZE(attr_name, of_dim)                                            \
  {                                                                                     \
    .name = attr_name, .kind = SHOAL_ATTR_INT, .role = SHOAL_ROLE_SIZE,                 \
    .operand = SHOAL_OUTPUT(0), .dim = of_dim, .optional = true, .fallback = {.i = -1}, \
    .doc = "of the result; -1: as many as fit"                                          \
  }

#endif  // SHOAL_OP_WINDOW_H_

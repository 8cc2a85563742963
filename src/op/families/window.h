// Sliding windows along the dims behind [N, C], one to three of them, in global coordinates: output
// o looks through `kernel` taps at inputs o * stride - padding + tap * dilation. Places say where
// parts lie. An index outside the whole is padding; one inside the whole that the part does not
// hold is a MISMATCH, from which rule discovery learns the halo.
//
// There are always three *directions* (planes, rows, columns), so that loops need no cases: a
// window over fewer dims has a first direction, or two, of one element and one tap.
#ifndef SHOAL_OP_WINDOW_H_
#define SHOAL_OP_WINDOW_H_

#include "op/families/family.h"

#define SHOAL_DIRECTIONS 3

typedef struct shoal_window {
  int32_t dims;  // 1 to 3
  bool ceil;     // windows that begin inside x or in front of it count though they reach behind
  int64_t kernel[SHOAL_DIRECTIONS], stride[SHOAL_DIRECTIONS];
  int64_t padding[SHOAL_DIRECTIONS], dilation[SHOAL_DIRECTIONS];
} shoal_window_t;

enum { SHOAL_TAP_NONE = -1, SHOAL_TAP_MISSING = -2 };  // padding (or no such output); not held

// The dim of an operand [N, C, ..] that direction i moves over; below 2: none.
static inline int32_t shoal_window_dim(const shoal_shape_t *shape, int32_t i) {
  return shape->rank - SHOAL_DIRECTIONS + i;
}
static inline int64_t shoal_window_size(const shoal_shape_t *shape, int32_t i) {
  const int32_t dim = shoal_window_dim(shape, i);
  return dim < 2 ? 1 : shape->dims[dim];
}

// Input 0 has one to three dims behind [N, C].
SHOAL_MUST_USE shoal_status_t shoal_window_rank(const shoal_call_t *call);
// Reads a window over the last `dims` dims, which has as many kernel sizes; the attributes'
// positions in the schema; dilation < 0: 1.
SHOAL_MUST_USE shoal_status_t shoal_window_read(const shoal_call_t *call, int32_t dims,
                                                const int64_t *kernel, int32_t stride,
                                                int32_t padding, int32_t dilation,
                                                shoal_window_t *out_window);
// The same for a pool over input 0: the sizes are an attribute, and padding is at most half of
// them.
SHOAL_MUST_USE shoal_status_t shoal_pool_window(const shoal_call_t *call, int32_t kernel,
                                                int32_t stride, int32_t padding, int32_t dilation,
                                                shoal_window_t *out_window);
// As many windows along direction i as fit an input of `size`.
int64_t shoal_window_count(const shoal_window_t *window, int32_t i, int64_t size);

// What convolution and pooling share. Fills in the result's shape where it is left out, for a whole
// input: `channels`, and as many windows as fit.
void shoal_window_complete(const shoal_window_t *window, const shoal_shape_t *input,
                           int64_t channels, shoal_attr_value_t *shape);
// Where the parts of input 0 and of output 0 lie, and the output's shape, whose first two dims are
// given. The attributes' positions in the schema. A window that is larger than the whole input with
// its padding is INVALID_ARGUMENT.
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

// What a tap of the last direction sees, if it is regular: elements first, first + gap, ... of the
// operand that the table is for see from, from + step, ... of the other; `count` of them. Loops
// over runs need neither table nor branches.
typedef struct shoal_run {
  bool regular;
  int64_t first, gap, count, from, step;
} shoal_run_t;

// The tables above along every direction, in a kernel's workspace, and the runs of each tap.
typedef struct shoal_taps {
  int64_t kernel[SHOAL_DIRECTIONS];
  int64_t *table[SHOAL_DIRECTIONS];
  shoal_run_t *runs;
} shoal_taps_t;

// For each index of an operand [N, C, ..] along each dim behind: bytes (a multiple of 64; `kernel`
// has an entry for each dim), and where they lie.
int64_t shoal_taps_bytes(const shoal_shape_t *shape, const int64_t *kernel);
shoal_taps_t shoal_taps_at(const shoal_shape_t *shape, const shoal_window_t *window,
                           void *workspace);
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
#define SHOAL_WINDOW_STRIDE \
  SHOAL_WINDOW_ATTR("stride", "step of the window along each dim behind [N, C], at least 1")
#define SHOAL_WINDOW_PADDING \
  SHOAL_WINDOW_ATTR("padding", "elements added on both sides of each dim behind [N, C]")
#define SHOAL_WINDOW_DILATION                                                \
  {                                                                          \
    .name = "dilation", .kind = SHOAL_ATTR_INTS, .optional = true,           \
    .doc = "distance between taps along each dim behind [N, C]; left out: 1" \
  }
#define SHOAL_WINDOW_CEIL                                                                    \
  {                                                                                          \
    .name = "ceil", .kind = SHOAL_ATTR_INT, .optional = true,                                \
    .doc = "1: a last window that reaches too far counts if it begins inside x or before it" \
  }
#define SHOAL_CONV_GROUPS                                                                 \
  {                                                                                       \
    .name = "groups", .kind = SHOAL_ATTR_INT, .role = SHOAL_ROLE_COUNT, .optional = true, \
    .doc = "groups of channels; 0 or left out: as many as the shapes make"                \
  }
#define SHOAL_WINDOW_SHAPE                                                                         \
  {                                                                                                \
    .name = "shape", .kind = SHOAL_ATTR_INTS, .role = SHOAL_ROLE_SIZE, .operand = SHOAL_OUTPUT(0), \
    .optional = true,                                                                              \
    .doc = "shape of the result; left out: as many windows as fit, more are refused"               \
  }

#endif  // SHOAL_OP_WINDOW_H_

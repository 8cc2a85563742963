// What reference kernels share: walking over strided operands, and computing half-size floats in
// f32. Typed loops are repeated per element type by each.h.
#ifndef SHOAL_OP_KERNEL_H_
#define SHOAL_OP_KERNEL_H_

#include <string.h>
#include <tgmath.h>  // exp(float) is expf: kernels compute in their own precision

#include "base/dtype.h"
#include "op/families/family.h"

#define EACH_REAL 1
#define EACH_HALF 2
#define EACH_INT 4

// Tables by dtype of the functions that each.h made.
#define TABLE_FLOAT(name)                                                           \
  {                                                                                 \
    [SHOAL_F64] = name##_f64, [SHOAL_F32] = name##_f32, [SHOAL_BF16] = name##_bf16, \
    [SHOAL_F16] = name##_f16                                                        \
  }
#define TABLE_ALL(name)                                                             \
  {                                                                                 \
    [SHOAL_F64] = name##_f64, [SHOAL_F32] = name##_f32, [SHOAL_BF16] = name##_bf16, \
    [SHOAL_F16] = name##_f16, [SHOAL_I64] = name##_i64, [SHOAL_I32] = name##_i32,   \
    [SHOAL_U8] = name##_u8, [SHOAL_BOOL] = name##_bool                              \
  }

// In front of a loop whose rounds have nothing to do with each other, and each of which reads its
// elements before it writes any: an output may then be one of the inputs (so no `restrict`), and
// the loop is vectorised all the same.
#if defined(__GNUC__) && !defined(__clang__)
#define EACH_BY_ITSELF _Pragma("GCC ivdep")
#else
#define EACH_BY_ITSELF
#endif

// The head of a kernel: OP_KERNEL(pick) { ... return NULL; } is pick_kernel.
#define OP_KERNEL(name)                                                                       \
  static shoal_status_t name##_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs, \
                                      const shoal_tensor_t *outputs, void *workspace)

// ---- walking ------------------------------------------------------------------------------------

// Visits a box of elements of up to four operands, row-major, one run along the innermost dim at a
// time. Dims that lie dense in all operands are merged first, so that runs are long.
//   shoal_walk_t w;
//   shoal_walk_init(&w, &shape, 2);  fill w.stride[operand][dim]; w.offset[operand] may be set too
//   for (bool more = shoal_walk_start(&w); more; more = shoal_walk_next(&w))
//     for (i < w.run) out[w.offset[1] + i * w.step[1]] = in[w.offset[0] + i * w.step[0]];
#define SHOAL_WALK_OPERANDS 4
typedef struct shoal_walk {
  int32_t operands, rank;
  int64_t size[SHOAL_MAX_RANK];
  int64_t stride[SHOAL_WALK_OPERANDS][SHOAL_MAX_RANK];  // in elements
  int64_t run, step[SHOAL_WALK_OPERANDS], offset[SHOAL_WALK_OPERANDS];
  int64_t index[SHOAL_MAX_RANK];
} shoal_walk_t;

void shoal_walk_init(shoal_walk_t *walk, const shoal_shape_t *shape, int32_t operands);
bool shoal_walk_start(shoal_walk_t *walk);  // false: nothing to visit
bool shoal_walk_next(shoal_walk_t *walk);

// Row-major strides of a dense tensor.
void shoal_strides(const shoal_shape_t *shape, int64_t out_strides[SHOAL_MAX_RANK]);
// Strides of `shape` seen as the (broadcast) `frame`: right-aligned, 0 along dims of size 1.
void shoal_strides_in(const shoal_shape_t *shape, const shoal_shape_t *frame,
                      int64_t out_strides[SHOAL_MAX_RANK]);

// Copies a box of elements of `element` bytes between two strided places.
void shoal_copy_box(const shoal_shape_t *box, size_t element, const void *src, int64_t src_offset,
                    const int64_t *src_stride, void *dst, int64_t dst_offset,
                    const int64_t *dst_stride);

// ---- element-wise -------------------------------------------------------------------------------

// out[i] from in[k][i * step[k]], for i < n; `params` are the op's own.
typedef void (*shoal_map_fn_t)(int64_t n, const void *const *in, const int64_t *step, void *out,
                               const double *params);
// Applies the loop to up to three inputs, broadcast to the (dense) output 0.
SHOAL_MUST_USE shoal_status_t shoal_map_run(const shoal_tensor_t *inputs, int32_t input_count,
                                            const shoal_tensor_t *output, shoal_map_fn_t loop,
                                            const double *params);
// The kernel slot of an op whose loops are `name`, chosen by the last input's dtype from TABLE_x.
#define MAP_KERNEL(name, TABLE)                                                               \
  static shoal_status_t name##_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs, \
                                      const shoal_tensor_t *outputs, void *workspace) {       \
    static const shoal_map_fn_t loops[SHOAL_DTYPE_COUNT] = TABLE(name);                       \
    (void)workspace;                                                                          \
    return shoal_map_run(inputs, call->input_count, outputs,                                  \
                         loops[inputs[call->input_count - 1].dtype], NULL);                   \
  }

// The typed loop `name` of an op of one input x, and of a gradient by x and dy, whose shapes are
// equal; RESULT is an expression of them. For the part of a family file that each.h repeats.
#define MAP_LOOP(name, RESULT)                                                          \
  static void K(name)(int64_t n, const void *const *in, const int64_t *step, void *out, \
                      const double *params) {                                           \
    const S *a = in[0];                                                                 \
    S *o = out;                                                                         \
    (void)params, (void)step; /* shapes are equal: always 1 */                          \
    EACH_BY_ITSELF                                                                      \
    for (int64_t i = 0; i < n; ++i) {                                                   \
      const R x = LOAD(a[i]);                                                           \
      o[i] = STORE(RESULT);                                                             \
    }                                                                                   \
  }
#define MAP_GRAD_LOOP(name, RESULT)                                                     \
  static void K(name)(int64_t n, const void *const *in, const int64_t *step, void *out, \
                      const double *params) {                                           \
    const S *a = in[0], *b = in[1];                                                     \
    S *o = out;                                                                         \
    (void)params, (void)step;                                                           \
    EACH_BY_ITSELF                                                                      \
    for (int64_t i = 0; i < n; ++i) {                                                   \
      const R x = LOAD(a[i]), dy = LOAD(b[i]);                                          \
      o[i] = STORE(RESULT);                                                             \
    }                                                                                   \
  }

// ---- half-size floats ---------------------------------------------------------------------------

typedef shoal_status_t (*shoal_kernel_fn_t)(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                            const shoal_tensor_t *outputs, void *workspace);

bool shoal_kernel_is_half(const shoal_call_t *call);  // is any operand bf16 or f16?
// Bytes of workspace that shoal_kernel_widened uses; 0 when nothing is half-size. Fits the
// `workspace` slot.
int64_t shoal_kernel_widen_bytes(const shoal_call_t *call);
// Runs `kernel` with f32 copies in the place of half-size operands and rounds its outputs at the
// end; what is left of the workspace is passed on.
SHOAL_MUST_USE shoal_status_t shoal_kernel_widened(const shoal_call_t *call,
                                                   const shoal_tensor_t *inputs,
                                                   const shoal_tensor_t *outputs, void *workspace,
                                                   shoal_kernel_fn_t kernel);

static inline int64_t shoal_align64(int64_t bytes) {
  return (bytes + 63) & ~INT64_C(63);
}

#endif  // SHOAL_OP_KERNEL_H_

// Element-wise ops in which training does not spend its time: each is one function over doubles,
// and one over 64-bit integers where it takes integers. Blocks of elements are converted before and
// after, whatever their dtype is, so that a family compiles once and not once per dtype. Hot ops
// have typed loops instead (each.h).
#ifndef SHOAL_OP_POINTWISE_H_
#define SHOAL_OP_POINTWISE_H_

#include "op/families/emit.h"
#include "op/families/kernel.h"

// out[i] from in[k][i] for i < n. Each element is read before it is written: `out` may be one of
// the inputs. `params`: the op's INT and REAL attributes, in the order of the schema.
typedef void (*shoal_reals_fn_t)(int64_t n, const double *const *in, double *out,
                                 const double *params);
typedef void (*shoal_ints_fn_t)(int64_t n, const int64_t *const *in, int64_t *out,
                                const double *params);

// Applies `reals`, or `ints` if there are some and no input is a float, to up to three inputs,
// broadcast to output 0. Integers wrap when they are stored.
SHOAL_MUST_USE shoal_status_t shoal_map_blocks(const shoal_call_t *call,
                                               const shoal_tensor_t *inputs,
                                               const shoal_tensor_t *outputs,
                                               shoal_reals_fn_t reals, shoal_ints_fn_t ints);

#define BLOCK_LOOP(name, T, LOADS, RESULT)                                   \
  static void name(int64_t n, const T *const *in, T *out, const double *p) { \
    (void)p;                                                                 \
    for (int64_t i = 0; i < n; ++i) {                                        \
      LOADS;                                                                 \
      out[i] = (T)(RESULT);                                                  \
    }                                                                        \
  }
// name_reals and name_ints, of one, two or three operands x, y, z; p[k] are the parameters.
#define REALS_1(name, RESULT) BLOCK_LOOP(name##_reals, double, const double x = in[0][i], RESULT)
#define REALS_2(name, RESULT) \
  BLOCK_LOOP(name##_reals, double, const double x = in[0][i]; const double y = in[1][i], RESULT)
#define REALS_3(name, RESULT)                                                            \
  BLOCK_LOOP(name##_reals, double, const double x = in[0][i]; const double y = in[1][i]; \
             const double z = in[2][i], RESULT)
#define INTS_1(name, RESULT) BLOCK_LOOP(name##_ints, int64_t, const int64_t x = in[0][i], RESULT)
#define INTS_2(name, RESULT) \
  BLOCK_LOOP(name##_ints, int64_t, const int64_t x = in[0][i]; const int64_t y = in[1][i], RESULT)

// The kernel slot of an op: name_kernel.
#define BLOCK_KERNEL(name, reals, ints)                                                       \
  static shoal_status_t name##_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs, \
                                      const shoal_tensor_t *outputs, void *workspace) {       \
    (void)workspace;                                                                          \
    return shoal_map_blocks(call, inputs, outputs, reals, ints);                              \
  }

// ---- types --------------------------------------------------------------------------------------

// All inputs have one dtype and broadcast like numpy's; the output has that dtype and shape.
SHOAL_MUST_USE shoal_status_t shoal_infer_broadcast(const shoal_call_t *call,
                                                    shoal_type_t *out_types);
SHOAL_MUST_USE shoal_status_t shoal_infer_broadcast_floats(const shoal_call_t *call,
                                                           shoal_type_t *out_types);
// Floats or integers, not bool.
SHOAL_MUST_USE shoal_status_t shoal_infer_broadcast_numbers(const shoal_call_t *call,
                                                            shoal_type_t *out_types);
// Floats of one dtype and one shape: losses, and the gradient ops of activations.
SHOAL_MUST_USE shoal_status_t shoal_infer_same_floats(const shoal_call_t *call,
                                                      shoal_type_t *out_types);

// ---- gradients ----------------------------------------------------------------------------------

// Another op of one output, with the call's attributes by name.
shoal_ref_t shoal_emit_alike(shoal_emitter_t *e, const char *op, int32_t input_count,
                             const shoal_ref_t *inputs, const shoal_call_t *call);
shoal_ref_t shoal_emit_mul(shoal_emitter_t *e, shoal_ref_t a, shoal_ref_t b);

#endif  // SHOAL_OP_POINTWISE_H_

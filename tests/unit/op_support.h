// What the op tests share: a registry, tensors in an arena, running one call with its workspace
// guarded.
#ifndef SHOAL_TESTS_OP_SUPPORT_H_
#define SHOAL_TESTS_OP_SUPPORT_H_

#include <math.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "op/case.h"
#include "unit.h"

typedef struct bench {
  shoal_registry_t *registry;
  shoal_arena_t arena;
} bench_t;

static inline void bench_init(bench_t *b) {
  *b = (bench_t){0};
  assert_ok(shoal_registry_create(shoal_allocator_system(), &b->registry));
  shoal_arena_init(shoal_allocator_system(), &b->arena);
}

static inline void bench_deinit(bench_t *b) {
  shoal_arena_deinit(&b->arena);
  shoal_registry_release(b->registry);
}

static inline const shoal_op_t *bench_op(bench_t *b, const char *name) {
  const shoal_op_t *op = NULL;
  assert_ok(shoal_op_find(b->registry, name, &op));
  return op;
}

static inline int64_t bytes_of(shoal_dtype_t dtype, const shoal_shape_t *shape) {
  return shoal_shape_count(shape) * (int64_t)shoal_dtype_size(dtype);
}

#define GUARD 64

// Memory with a guard behind it; `fill` is what it starts with.
static inline void *guarded(bench_t *b, int64_t bytes, int fill) {
  char *memory = shoal_arena_alloc(&b->arena, (size_t)bytes + 2 * GUARD, 1);
  assert_non_null(memory);
  memory += (GUARD - (uintptr_t)memory % GUARD) % GUARD;
  memset(memory, fill, (size_t)bytes);
  memset(memory + bytes, 0x5a, 8);
  return memory;
}

static inline void check_guard(const void *memory, int64_t bytes, const char *what) {
  static const char guard[8] = {0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a};
  if (memcmp((const char *)memory + bytes, guard, 8) != 0) fail_msg("%s: wrote past the end", what);
}

static inline shoal_tensor_t new_tensor(bench_t *b, shoal_dtype_t dtype, shoal_shape_t shape,
                                        int fill) {
  return (shoal_tensor_t){guarded(b, bytes_of(dtype, &shape), fill), dtype, shape};
}

// Random floats in (-1, 1), ints below `limit`.
static inline shoal_tensor_t random_tensor(bench_t *b, shoal_dtype_t dtype, shoal_shape_t shape,
                                           int64_t limit, uint64_t seed) {
  shoal_tensor_t tensor = new_tensor(b, dtype, shape, 0);
  shoal_case_t test_case = {.limit = {limit}};
  shoal_case_fill(&test_case, 0, seed, tensor);
  return tensor;
}

static inline shoal_tensor_t scalar_int(bench_t *b, int64_t value) {
  shoal_tensor_t tensor = new_tensor(b, SHOAL_I64, SHOAL_SCALAR, 0);
  *(int64_t *)tensor.data = value;
  return tensor;
}

static inline double at(const shoal_tensor_t *tensor, int64_t i) {
  return shoal_dtype_load(tensor->dtype, tensor->data, i);
}

#define MAX_OPERANDS 16

// One call with bound attributes. Outputs come from the arena; guards behind outputs and workspace
// are checked.
static inline shoal_status_t run_bound(bench_t *b, const shoal_op_t *op,
                                       const shoal_attr_value_t *attrs, int32_t input_count,
                                       const shoal_tensor_t *inputs, int fill,
                                       shoal_tensor_t *out_outputs) {
  shoal_type_t in[MAX_OPERANDS], out[MAX_OPERANDS];
  for (int32_t i = 0; i < input_count; ++i) {
    in[i] = (shoal_type_t){inputs[i].dtype, inputs[i].shape};
  }
  shoal_call_t call = {op, input_count, shoal_op_outputs(op, attrs), in, NULL, attrs};
  SHOAL_RETURN_IF_ERROR(shoal_op_infer(&call, out));
  call.outputs = out;
  for (int32_t i = 0; i < shoal_op_outputs(op, attrs); ++i) {
    out_outputs[i] = new_tensor(b, out[i].dtype, out[i].shape, fill);
  }
  const int64_t bytes = op->workspace ? op->workspace(&call) : 0;
  void *workspace = guarded(b, bytes, fill);
  SHOAL_RETURN_IF_ERROR(op->kernel(&call, inputs, out_outputs, workspace));
  check_guard(workspace, bytes, op->name);
  for (int32_t i = 0; i < shoal_op_outputs(op, attrs); ++i) {
    check_guard(out_outputs[i].data, bytes_of(out[i].dtype, &out[i].shape), op->name);
  }
  return NULL;
}

// A call on the whole, by attribute names; returns the bound attributes too if asked.
static inline shoal_status_t run_named(bench_t *b, const char *name, int32_t input_count,
                                       const shoal_tensor_t *inputs, int32_t attr_count,
                                       const shoal_attr_t *attrs, shoal_tensor_t *out_outputs,
                                       shoal_attr_value_t **out_attrs) {
  const shoal_op_t *op = bench_op(b, name);
  shoal_type_t in[MAX_OPERANDS];
  for (int32_t i = 0; i < input_count; ++i) {
    in[i] = (shoal_type_t){inputs[i].dtype, inputs[i].shape};
  }
  shoal_attr_value_t *values;
  SHOAL_RETURN_IF_ERROR(shoal_op_attrs(op, attr_count, attrs, &b->arena, &values));
  shoal_op_complete(op, input_count, in, values);
  if (out_attrs) *out_attrs = values;
  return run_bound(b, op, values, input_count, inputs, 0xff, out_outputs);
}

#define TENSORS(...)                                                           \
  (int32_t)(sizeof((shoal_tensor_t[]){__VA_ARGS__}) / sizeof(shoal_tensor_t)), \
      (shoal_tensor_t[]) {                                                     \
    __VA_ARGS__                                                                \
  }
#define ATTRS(...)                                                                            \
  (int32_t)(sizeof((shoal_attr_t[]){__VA_ARGS__}) / sizeof(shoal_attr_t)), (shoal_attr_t[]) { \
    __VA_ARGS__                                                                               \
  }
#define NO_ATTRS 0, NULL
#define PAIR(name, a, b) shoal_attr_ints(name, 2, (const int64_t[]){a, b})

static inline void check_near(double value, double expected, double tolerance, const char *what,
                              int64_t i) {
  const double scale = fabs(expected) > 1 ? fabs(expected) : 1;
  if (!(fabs(value - expected) <= tolerance * scale)) {
    fail_msg("%s[%lld]: %.17g, expected %.17g", what, (long long)i, value, expected);
  }
}

#endif  // SHOAL_TESTS_OP_SUPPORT_H_

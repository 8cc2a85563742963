// Decoys: ops that are made to mislead discovery, each with the ways that it honestly has. None may
// get another. Beside them stand honest ops of the same kinds, so that the test also says that
// discovery still sees what is there.
#include <math.h>

#include "rules_support.h"

// ---- shapes ------------------------------------------------------------------------------------

// out is shaped like x.
static shoal_status_t map_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = call->inputs[0];
  return NULL;
}

// The last dim is reduced.
static shoal_status_t fold_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = call->inputs[0];
  if (out_types[0].shape.rank < 1) return SHOAL_ERROR(INVALID_ARGUMENT, "x has no dim");
  --out_types[0].shape.rank;
  return NULL;
}

static const double *reals(const shoal_tensor_t *tensor) {
  return tensor->data;
}

static int64_t count_of(const shoal_tensor_t *tensor) {
  return shoal_shape_count(&tensor->shape);
}

// ---- honest ones -------------------------------------------------------------------------------

#define KERNEL(name)                                                             \
  static shoal_status_t name(const shoal_call_t *call, const shoal_tensor_t *in, \
                             const shoal_tensor_t *out, void *workspace)

#define FOLD(name, start, step)                                \
  KERNEL(name) {                                               \
    (void)call, (void)workspace;                               \
    const int64_t length = in->shape.dims[in->shape.rank - 1]; \
    for (int64_t r = 0; r < count_of(out); ++r) {              \
      double y = (start);                                      \
      for (int64_t i = 0; i < length; ++i) {                   \
        const double x = reals(in)[r * length + i];            \
        y = (step);                                            \
      }                                                        \
      ((double *)out->data)[r] = y;                            \
    }                                                          \
    return NULL;                                               \
  }

#define MAP(name, value)                          \
  KERNEL(name) {                                  \
    (void)call, (void)workspace;                  \
    for (int64_t i = 0; i < count_of(out); ++i) { \
      const double x = reals(in)[i];              \
      ((double *)out->data)[i] = (value);         \
    }                                             \
    return NULL;                                  \
  }

MAP(cube, x *x *x)
FOLD(product, 1, y *x)

// ---- the test ----------------------------------------------------------------------------------

typedef struct decoy {
  const char *name;
  shoal_status_t (*infer)(const shoal_call_t *, shoal_type_t *);
  shoal_status_t (*kernel)(const shoal_call_t *, const shoal_tensor_t *, const shoal_tensor_t *,
                           void *);
  const char *example, *ways;
} decoy_t;

static const decoy_t DECOYS[] = {
    {"honest.cube", map_infer, cube, "f64[3,5]",
     " {x:0 -> out:0}~ {x:1 -> out:1}~ {x:flat -> out:flat}"},
    {"honest.product", fold_infer, product, "f64[3,5]", " {x:0 -> out:0}~ {x:1 -> out:prod}~"},
};

static void test_decoys(void **state) {
  (void)state;
  static const char *const inputs[] = {"x"}, *const outputs[] = {"out"};
  int wrong = 0;
  for (size_t i = 0; i < sizeof DECOYS / sizeof *DECOYS; ++i) {
    const decoy_t *decoy = &DECOYS[i];
    const shoal_op_t record = {.name = decoy->name,
                               .input_count = 1,
                               .inputs = inputs,
                               .output_count = 1,
                               .outputs = outputs,
                               .infer = decoy->infer,
                               .kernel = decoy->kernel};
    bench_t b;
    bench_init(&b);
    assert_ok(shoal_op_register(b.registry, &record));
    const shoal_op_t *op = bench_op(&b, decoy->name);
    shoal_call_t call = bench_call(&b, op, decoy->example);
    const char *found = rule_text(&b, op, bench_rule(&b, &call));
    if (strcmp(found, decoy->ways) != 0) {
      print_error("%s %s\n  expected%s\n  found   %s\n", decoy->name, decoy->example, decoy->ways,
                  found);
      ++wrong;
    }
    bench_deinit(&b);
  }
  assert_int_equal(wrong, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_decoys),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

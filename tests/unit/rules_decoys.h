// Decoys: what the tests of ops that are made to mislead discovery share.
#ifndef SHOAL_TESTS_RULES_DECOYS_H_
#define SHOAL_TESTS_RULES_DECOYS_H_

#include "rules_support.h"

// out is shaped like x.
static inline shoal_status_t map_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = call->inputs[0];
  return NULL;
}

// The last dim is reduced.
static inline shoal_status_t fold_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = call->inputs[0];
  if (out_types[0].shape.rank < 1) return SHOAL_ERROR(INVALID_ARGUMENT, "x has no dim");
  --out_types[0].shape.rank;
  return NULL;
}

static inline const double *reals(const shoal_tensor_t *tensor) {
  return tensor->data;
}

static inline int64_t count_of(const shoal_tensor_t *tensor) {
  return shoal_shape_count(&tensor->shape);
}

#define KERNEL(name)                                                             \
  static shoal_status_t name(const shoal_call_t *call, const shoal_tensor_t *in, \
                             const shoal_tensor_t *out, void *workspace)

typedef struct decoy {
  const char *name;
  shoal_status_t (*infer)(const shoal_call_t *, shoal_type_t *);
  shoal_status_t (*kernel)(const shoal_call_t *, const shoal_tensor_t *, const shoal_tensor_t *,
                           void *);
  const char *example, *ways;
} decoy_t;

static const char NONE[] = "", ROWS[] = " {x:0 -> out:0}~",
                  ALL[] = " {x:0 -> out:0}~ {x:1 -> out:1}~ {x:flat -> out:flat}",
                  SUMS[] = " {x:0 -> out:0}~ {x:1 -> out:sum}~ {x:sum -> out:sum}",
                  LINEAR_ROWS[] = " {x:0 -> out:0}~ {x:sum -> out:sum}";

// Registers the decoy and makes its call.
static inline shoal_call_t set_up(bench_t *b, const decoy_t *decoy) {
  static const char *const inputs[] = {"x"}, *const outputs[] = {"out"};
  const shoal_op_t record = {.name = decoy->name,
                             .input_count = 1,
                             .inputs = inputs,
                             .output_count = 1,
                             .outputs = outputs,
                             .infer = decoy->infer,
                             .kernel = decoy->kernel};
  return bench_call(b, bench_init_with(b, &record), decoy->example);
}

// The op is refused, with a message that says this of it.
static inline void expect_vandal(const decoy_t *decoy, const char *does) {
  bench_t b;
  const shoal_call_t call = set_up(&b, decoy);
  const shoal_rule_t *rule;
  char message[128];
  snprintf(message, sizeof message, "%s %s", decoy->name, does);
  assert_error(INVALID_ARGUMENT, message, shoal_rules_get(b.rules, &call, &rule));
  bench_deinit(&b);
}

static inline void expect_decoys(const decoy_t *decoys, size_t count) {
  int wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    bench_t b;
    const shoal_call_t call = set_up(&b, &decoys[i]);
    const char *found = rule_text(&b, call.op, bench_rule(&b, &call));
    if (strcmp(found, decoys[i].ways) != 0) {
      print_error("%s %s\n  expected%s\n  found   %s\n", decoys[i].name, decoys[i].example,
                  decoys[i].ways, found);
      ++wrong;
    }
    bench_deinit(&b);
  }
  assert_int_equal(wrong, 0);
}
#define EXPECT_DECOYS(table) expect_decoys(table, sizeof(table) / sizeof *(table))

#endif  // SHOAL_TESTS_RULES_DECOYS_H_

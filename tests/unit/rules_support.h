// What the rules tests share: a registry, a store that discovers, and calls written as in
// src/op/case.h.
#ifndef SHOAL_TESTS_RULES_SUPPORT_H_
#define SHOAL_TESTS_RULES_SUPPORT_H_

#include "base/arena.h"
#include "op/case.h"
#include "rules/rules.h"
#include "rules/search.h"
#include "unit.h"

typedef struct bench {
  shoal_registry_t *registry;
  shoal_rules_t *rules;
  shoal_arena_t arena;
} bench_t;

static inline void bench_init(bench_t *b) {
  *b = (bench_t){0};
  assert_ok(shoal_registry_create(shoal_allocator_system(), &b->registry));
  assert_ok(shoal_rules_create(shoal_allocator_system(), &b->rules));
  shoal_rules_ignore_shipped(b->rules);
  shoal_arena_init(shoal_allocator_system(), &b->arena);
}

static inline void bench_deinit(bench_t *b) {
  shoal_arena_deinit(&b->arena);
  shoal_rules_free(b->rules);
  shoal_registry_release(b->registry);
}

static inline const shoal_op_t *bench_op(bench_t *b, const char *name) {
  const shoal_op_t *op = NULL;
  assert_ok(shoal_op_find(b->registry, name, &op));
  return op;
}

// Makes a bench whose registry has one op more.
static inline const shoal_op_t *bench_init_with(bench_t *b, const shoal_op_t *record) {
  bench_init(b);
  assert_ok(shoal_op_register(b->registry, record));
  return bench_op(b, record->name);
}

// A call on the whole, with the types of its outputs.
static inline shoal_call_t bench_call(bench_t *b, const shoal_op_t *op, const char *text) {
  shoal_case_t *example = SHOAL_NEW(&b->arena, shoal_case_t, 1);
  assert_ok(shoal_case_parse(op, text, &b->arena, example));
  const int32_t output_count = shoal_op_outputs(op, example->attrs);
  shoal_type_t *outputs = SHOAL_NEW(&b->arena, shoal_type_t, output_count);
  shoal_call_t call = {.op = op,
                       .input_count = example->input_count,
                       .output_count = output_count,
                       .inputs = example->inputs,
                       .attrs = example->attrs};
  assert_ok(shoal_op_infer(&call, outputs));
  call.outputs = outputs;
  return call;
}

static inline const shoal_rule_t *bench_rule(bench_t *b, const shoal_call_t *call) {
  const shoal_rule_t *rule = NULL;
  assert_ok(shoal_rules_get(b->rules, call, &rule));
  return rule;
}

static inline const char *rule_text(bench_t *b, const shoal_op_t *op, const shoal_rule_t *rule) {
  const char *text = "";
  assert_ok(shoal_rule_print(op, rule, &b->arena, &text));
  return text + strlen(op->name) + 1;
}

// What executing the call itself gives, without a store.
static inline const char *executed_rule(bench_t *b, const shoal_call_t *call) {
  static shoal_allocator_t allocator;
  allocator = shoal_allocator_system();
  shoal_rule_t rule;
  assert_ok(shoal_rules_discover(call, shoal_executor_reference(&allocator), allocator, &b->arena,
                                 &rule));
  return rule_text(b, call->op, &rule);
}

// A rule that a practitioner expects: an op without "shoal.", a call of it, and all of its ways.
typedef struct known_rule {
  const char *op, *example, *ways;
} known_rule_t;

// 1 if another one is found, which is printed.
static inline int compare_rule(bench_t *b, const char *name, const char *example,
                               const char *ways) {
  const shoal_op_t *op = bench_op(b, shoal_arena_printf(&b->arena, "shoal.%s", name));
  const shoal_call_t call = bench_call(b, op, example);
  const char *found = rule_text(b, op, bench_rule(b, &call));
  if (found[0] == ' ') ++found;
  if (strcmp(found, ways) == 0) return 0;
  print_error("%s %s\n  expected  %s\n  found     %s\n", name, example, ways, found);
  return 1;
}

static inline void expect_rules(const known_rule_t *rules, size_t count) {
  bench_t b;
  bench_init(&b);
  int wrong = 0;
  for (size_t i = 0; i < count; ++i)
    wrong += compare_rule(&b, rules[i].op, rules[i].example, rules[i].ways);
  bench_deinit(&b);
  assert_int_equal(wrong, 0);
}
#define EXPECT_RULES(table) expect_rules(table, sizeof(table) / sizeof *(table))

static inline const shoal_shape_t *operand_shape(const shoal_call_t *call, int32_t operand) {
  return operand < call->input_count ? &call->inputs[operand].shape
                                     : &call->outputs[operand - call->input_count].shape;
}

#endif  // SHOAL_TESTS_RULES_SUPPORT_H_

// The store: one rule per call, its hash, and ops that only a callback can execute.
#include <math.h>

#include "base/dtype.h"
#include "graph_support.h"
#include "rules_support.h"

static void test_equal_calls_share_a_rule(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const shoal_op_t *matmul = bench_op(&b, "shoal.matmul"), *affine = bench_op(&b, "shoal.affine");
  shoal_call_t first = bench_call(&b, matmul, "f32[3,5], f32[5,7]");
  shoal_call_t second = bench_call(&b, matmul, "f32[3,5], f32[5,7]");
  shoal_call_t wider = bench_call(&b, matmul, "f32[3,5], f32[5,8]");
  shoal_call_t precise = bench_call(&b, matmul, "f64[3,5], f64[5,7]");
  shoal_call_t turned = bench_call(&b, matmul, "f32[3,5], f32[7,5] ; transpose_b=1");
  const shoal_rule_t *rule = bench_rule(&b, &first);
  assert_string_equal(rule->op, "shoal.matmul");
  assert_ptr_equal(rule, bench_rule(&b, &second));
  assert_ptr_not_equal(rule, bench_rule(&b, &wider));
  assert_ptr_not_equal(rule, bench_rule(&b, &precise));
  assert_ptr_not_equal(rule, bench_rule(&b, &turned));
  // Attributes decide: a shift makes a map affine, no longer linear.
  shoal_call_t linear = bench_call(&b, affine, "f64[5] ; scale=2, shift=0");
  shoal_call_t shifted = bench_call(&b, affine, "f64[5] ; scale=2, shift=1");
  assert_int_equal(bench_rule(&b, &linear)->way_count, 3);
  assert_int_equal(bench_rule(&b, &shifted)->way_count, 2);
  bench_deinit(&b);
}

static void test_places_are_of_the_whole(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const shoal_op_t *op = bench_op(&b, "shoal.iota");
  shoal_call_t call = bench_call(&b, op, "; shape=[4], axis=0, dtype=i64");
  shoal_attr_value_t *attrs =
      shoal_arena_copy(&b.arena, call.attrs, (size_t)op->attr_count, sizeof *attrs);
  const shoal_place_t place = shoal_place_whole(&SHOAL_SHAPE(9));
  for (int32_t i = 0; i < op->attr_count; ++i) {
    if (op->attrs[i].kind == SHOAL_ATTR_PLACE) attrs[i].place = &place;
  }
  call.attrs = attrs;
  const shoal_rule_t *rule;
  assert_error(INVALID_ARGUMENT, "on the whole", shoal_rules_get(b.rules, &call, &rule));
  bench_deinit(&b);
}

static void test_hash(void **state) {
  (void)state;
  bench_t b, other;
  bench_init(&b);
  bench_init(&other);
  shoal_model_t *model = new_model(1);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(4, 6));
  shoal_value_t y = shoal_input(g, "y", SHOAL_F32, SHOAL_SHAPE(6, 3));
  shoal_output(g, "out", node(g, "shoal.relu", node(g, "shoal.matmul", x, y)));
  assert_ok(shoal_model_status(model));
  uint64_t empty, full, again;
  assert_ok(shoal_rules_hash(b.rules, model, &empty));
  for (int32_t i = 0; i < 2; ++i) {
    bench_t *at = i ? &other : &b;
    for (int64_t n = 0; n < g->nodes.count; ++n) {
      shoal_call_t call;
      assert_ok(shoal_node_call(g, &g->nodes.items[n], &at->arena, &call));
      assert_int_not_equal(bench_rule(at, &call)->way_count, 0);
    }
  }
  assert_ok(shoal_rules_hash(b.rules, model, &full));
  assert_ok(shoal_rules_hash(other.rules, model, &again));
  assert_true(full != empty);
  assert_true(full == again);
  shoal_model_free(model);
  bench_deinit(&other);
  bench_deinit(&b);
}

// ---- foreign ops -------------------------------------------------------------------------------

// Sums of three neighbours along the last dim, without padding. Refuses empty rows, as a library
// would.
static shoal_status_t refuse(const char *why) {
  return shoal_status_create(SHOAL_INVALID_ARGUMENT, __FILE__, __LINE__, why, NULL);
}

// Sums of three neighbours along the last dim, without padding.
static shoal_status_t blur_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  if (call->inputs[0].shape.rank != 2) return refuse("x has two dims");
  out_types[0] = call->inputs[0];
  int64_t *last = &out_types[0].shape.dims[1];
  *last = *last > 2 ? *last - 2 : 0;
  return NULL;
}

// a * sigmoid(b), row by row.
static shoal_status_t gate_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  if (call->inputs[0].shape.rank != 2) return refuse("a has two dims");
  if (!shoal_shape_equal(&call->inputs[0].shape, &call->inputs[1].shape))
    return refuse("shapes differ");
  out_types[0] = call->inputs[0];
  return NULL;
}

// a + b, whose shape function looks at a alone: the executor may count on equal shapes.
static shoal_status_t lax_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = call->inputs[0];
  return NULL;
}

// Sums of neighbours: 2n columns become n.
static shoal_status_t halve_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  if (call->inputs[0].shape.rank != 2) return refuse("x has two dims");
  if (call->inputs[0].shape.dims[1] % 2) return refuse("columns come in pairs");
  out_types[0] = call->inputs[0];
  out_types[0].shape.dims[1] /= 2;
  return NULL;
}

// Rows of a times the row of b that its group shares.
static shoal_status_t grouped_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_shape_t *a = &call->inputs[0].shape, *b = &call->inputs[1].shape;
  if (a->rank != 2 || b->rank != 2 || a->dims[1] != b->dims[1]) return refuse("shapes differ");
  bool even = b->dims[0] ? a->dims[0] % b->dims[0] == 0 : a->dims[0] == 0;
  if (!even) return refuse("groups are uneven");
  out_types[0] = call->inputs[0];
  return NULL;
}

static const shoal_op_t FOREIGN[] = {
    {.name = "user.lax",
     .input_count = 2,
     .inputs = (const char *const[]){"a", "b"},
     .output_count = 1,
     .outputs = (const char *const[]){"out"},
     .infer = lax_infer},
    {.name = "user.halve",
     .input_count = 1,
     .inputs = (const char *const[]){"x"},
     .output_count = 1,
     .outputs = (const char *const[]){"out"},
     .infer = halve_infer},
    {.name = "user.grouped",
     .input_count = 2,
     .inputs = (const char *const[]){"a", "b"},
     .output_count = 1,
     .outputs = (const char *const[]){"out"},
     .infer = grouped_infer},
    {.name = "user.blur3",
     .input_count = 1,
     .inputs = (const char *const[]){"x"},
     .output_count = 1,
     .outputs = (const char *const[]){"out"},
     .infer = blur_infer},
    {.name = "user.gate",
     .input_count = 2,
     .inputs = (const char *const[]){"a", "b"},
     .output_count = 1,
     .outputs = (const char *const[]){"out"},
     .infer = gate_infer},
    {.name = "user.refused",
     .input_count = 2,
     .inputs = (const char *const[]){"a", "b"},
     .output_count = 1,
     .outputs = (const char *const[]){"out"},
     .infer = gate_infer},
};

static shoal_status_t foreign_execute(void *self, const shoal_call_t *call,
                                      const shoal_tensor_t *inputs, const shoal_tensor_t *outputs) {
  int64_t *calls = self;
  ++*calls;
  float *out = outputs[0].data;
  const float *a = inputs[0].data;
  int64_t columns = outputs[0].shape.dims[1], count = shoal_shape_count(&outputs[0].shape);
  if (outputs[0].dtype != SHOAL_F32 || strcmp(call->op->name, "user.refused") == 0) {
    return shoal_status_create(SHOAL_UNSUPPORTED, __FILE__, __LINE__, "only f32, and not this",
                               NULL);
  }
  if (strcmp(call->op->name, "user.lax") == 0 &&
      !shoal_shape_equal(&inputs[0].shape, &inputs[1].shape)) {
    return refuse("shapes differ");
  }
  for (int64_t i = 0; i < count; ++i) {
    const float *b = call->input_count > 1 ? inputs[1].data : NULL;
    if (strcmp(call->op->name, "user.lax") == 0) {
      out[i] = a[i] + b[i];
    } else if (strcmp(call->op->name, "user.halve") == 0) {
      out[i] = a[2 * i] + a[2 * i + 1];
    } else if (strcmp(call->op->name, "user.grouped") == 0) {
      int64_t group = inputs[0].shape.dims[0] / inputs[1].shape.dims[0];
      out[i] = a[i] * b[i / columns / group * columns + i % columns];
    } else if (call->input_count == 1) {
      const float *row = a + (i / columns) * (columns + 2) + i % columns;
      out[i] = row[0] + row[1] + row[2];
    } else {
      out[i] = a[i] / (1 + expf(-((const float *)inputs[1].data)[i]));
    }
  }
  return NULL;
}

// Relations that only the shape function knows: what must be even, or a multiple, or is not looked
// at. Sizes of models are never executed: the executor would run out of time.
static void test_foreign_relations(void **state) {
  (void)state;
  static const char *const CASES[][4] = {
      {"user.lax", "f32[6,6], f32[6,6]", "f32[4096,4096], f32[4096,4096]",
       " {a:0, b:0 -> out:0}~ {a:1, b:1 -> out:1}~ {a:flat, b:flat -> out:flat} {a:sum, b:sum -> "
       "out:sum}"},
      {"user.halve", "f32[6,6]", "f32[4096,4096]",
       " {x:0 -> out:0}~ {x:1/2 -> out:1}~ {x:sum -> out:sum}"},
      {"user.grouped", "f32[8,5], f32[2,5]", "f32[4096,512], f32[1024,512]",
       " {a:0/4, b:0 -> out:0/4}~ {a:1, b:1 -> out:1}~ {a:sum -> out:sum} {b:sum -> out:sum}"},
  };
  bench_t b;
  bench_init(&b);
  int64_t calls = 0;
  shoal_rules_set_executor(b.rules, (shoal_executor_t){&calls, foreign_execute});
  for (size_t i = 0; i < sizeof FOREIGN / sizeof *FOREIGN; ++i) {
    assert_ok(shoal_op_register(b.registry, &FOREIGN[i]));
  }
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; ++i) {
    const shoal_op_t *op = bench_op(&b, CASES[i][0]);
    shoal_call_t small = bench_call(&b, op, CASES[i][1]), large = bench_call(&b, op, CASES[i][2]);
    assert_string_equal(rule_text(&b, op, bench_rule(&b, &small)), CASES[i][3]);
    int64_t before = calls;
    const shoal_rule_t *rule = bench_rule(&b, &large);
    assert_string_equal(rule_text(&b, op, rule), CASES[i][3]);
    assert_string_equal(rule->key, bench_rule(&b, &small)->key);
    assert_int_equal(calls, before);
  }
  bench_deinit(&b);
}

static void test_foreign_ops(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  int64_t calls = 0;
  for (size_t i = 0; i < sizeof FOREIGN / sizeof *FOREIGN; ++i) {
    assert_ok(shoal_op_register(b.registry, &FOREIGN[i]));
  }
  const shoal_op_t *blur = bench_op(&b, "user.blur3"), *gate = bench_op(&b, "user.gate");
  shoal_call_t call = bench_call(&b, blur, "f32[3,8]");
  const shoal_rule_t *rule;
  assert_error(UNSUPPORTED, "no reference kernel", shoal_rules_get(b.rules, &call, &rule));
  shoal_rules_set_executor(b.rules, (shoal_executor_t){&calls, foreign_execute});
  assert_string_equal(rule_text(&b, blur, bench_rule(&b, &call)),
                      " {x:0 -> out:0}~ {x:1#6+0+2 -> out:1} {x:sum -> out:sum}");
  assert_true(calls > 0);
  // Large ones too, by a probe - which has to leave the kernel alone.
  call = bench_call(&b, blur, "f32[4096,4096]");
  assert_string_equal(rule_text(&b, blur, bench_rule(&b, &call)),
                      " {x:0 -> out:0}~ {x:1#4094+0+2 -> out:1} {x:sum -> out:sum}");
  call = bench_call(&b, gate, "f32[3,5], f32[3,5]");
  assert_string_equal(rule_text(&b, gate, bench_rule(&b, &call)),
                      " {a:0, b:0 -> out:0}~ {a:1, b:1 -> out:1}~ {a:sum -> out:sum}");
  call = bench_call(&b, bench_op(&b, "user.refused"), "f32[3,5], f32[3,5]");
  assert_error(UNSUPPORTED, "user.refused", shoal_rules_get(b.rules, &call, &rule));
  // Back to reference kernels.
  shoal_rules_set_executor(b.rules, (shoal_executor_t){0});
  call = bench_call(&b, bench_op(&b, "shoal.relu"), "f32[7]");
  assert_int_equal(bench_rule(&b, &call)->way_count, 2);
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equal_calls_share_a_rule),
      cmocka_unit_test(test_places_are_of_the_whole),
      cmocka_unit_test(test_hash),
      cmocka_unit_test(test_foreign_ops),
      cmocka_unit_test(test_foreign_relations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

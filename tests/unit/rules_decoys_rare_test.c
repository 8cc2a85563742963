// Decoys that go wrong rarely, or where nobody looks: in what they remember, in sizes and numbers
// of parts, behind the ends of their inputs, for large numbers. Each has just the ways that it
// honestly has, or is one of those that docs/rules.md says are missed.
#include <math.h>

#include "rules_decoys.h"

static int64_t length_of(const shoal_tensor_t *x) {
  return x->shape.dims[x->shape.rank - 1];
}

static void write_scaled(const shoal_tensor_t *in, const shoal_tensor_t *out, double factor) {
  for (int64_t i = 0; i < count_of(out); ++i) ((double *)out->data)[i] = factor * reals(in)[i];
}

// ---- what is remembered ------------------------------------------------------------------------

// Another result when the last call was of another size.
KERNEL(grudging) {
  (void)call, (void)workspace;
  static int64_t last;
  write_scaled(in, out, last == count_of(in) ? 2 : 3);
  last = count_of(in);
  return NULL;
}

// Another result from the hundredth call on.
KERNEL(tiring) {
  (void)call, (void)workspace;
  static int64_t calls;
  write_scaled(in, out, ++calls < 100 ? 2 : 2 + 1e-3 * (double)(calls % 7));
  return NULL;
}

// ---- sizes and parts ---------------------------------------------------------------------------

// Rows of an odd length count three times.
KERNEL(odd) {
  (void)call, (void)workspace;
  write_scaled(in, out, length_of(in) % 2 ? 3 : 2);
  return NULL;
}

// Rows shorter than a quarter of those that the small call has: parts of single items have them.
KERNEL(slim) {
  (void)call, (void)workspace;
  write_scaled(in, out, length_of(in) == 1 ? 3 : 2);
  return NULL;
}

// Right in 2, 3 and 4 parts, wrong in five and more: it is told how much of x it has.
KERNEL(fifth) {
  (void)workspace;
  const shoal_place_t *place = call->attrs[0].place;
  const int64_t all = place ? shoal_shape_count(&place->whole) : count_of(in);
  write_scaled(in, out, place && 5 * count_of(in) <= all ? 3 : 2);
  return NULL;
}

// Wrong where its input does not begin at a multiple of 64 bytes.
KERNEL(aligned) {
  (void)call, (void)workspace;
  write_scaled(in, out, (uintptr_t)in->data % 64 ? 3 : 2);
  return NULL;
}

// Wrong where there is nothing: the sum of no numbers is one.
KERNEL(hopeful) {
  (void)call, (void)workspace;
  for (int64_t r = 0; r < count_of(out); ++r) {
    double y = length_of(in) ? 0 : 1;
    for (int64_t i = 0; i < length_of(in); ++i) y += reals(in)[r * length_of(in) + i];
    ((double *)out->data)[r] = y;
  }
  return NULL;
}

// ---- memory ------------------------------------------------------------------------------------

// Each element and a part of the next one, behind the last as well; or of the one before.
KERNEL(peeking) {
  (void)call, (void)workspace;
  for (int64_t i = 0; i < count_of(out); ++i) {
    ((double *)out->data)[i] = reals(in)[i] + 1e-3 * reals(in)[i + 1];
  }
  return NULL;
}

KERNEL(peeking_back) {
  (void)call, (void)workspace;
  for (int64_t i = 0; i < count_of(out); ++i) {
    ((double *)out->data)[i] = reals(in)[i] + 1e-3 * reals(in)[i - 1];
  }
  return NULL;
}

// Another result where what lies behind its input is large.
KERNEL(envious) {
  (void)call, (void)workspace;
  write_scaled(in, out, fabs(reals(in)[count_of(in)]) > 1 ? 3 : 2);
  return NULL;
}

// Writes one element before its first.
KERNEL(backing) {
  (void)call, (void)workspace;
  ((double *)out->data)[-1] = 1;
  write_scaled(in, out, 2);
  return NULL;
}

// Changes what it reads, but only rows of a part.
KERNEL(sneaking) {
  (void)call, (void)workspace;
  write_scaled(in, out, 2);
  if (length_of(in) == 1 && count_of(in)) ((double *)in->data)[0] += 1;
  return NULL;
}

// ---- numbers -----------------------------------------------------------------------------------

// Numbers beyond a million read the next one.
KERNEL(distant) {
  (void)call, (void)workspace;
  for (int64_t i = 0; i < count_of(out); ++i) {
    const bool reads = i % length_of(in) + 1 < length_of(in) && fabs(reals(in)[i]) > 1e6;
    ((double *)out->data)[i] = reals(in)[i] + (reads ? reals(in)[i + 1] : 0);
  }
  return NULL;
}

static const decoy_t DECOYS[] = {
    {"decoy.grudging", map_infer, grudging, "f64[6,30]", NONE},
    {"decoy.tiring", map_infer, tiring, "f64[6,30]", NONE},
    {"decoy.odd", map_infer, odd, "f64[6,30]", LINEAR_ROWS},
    {"decoy.slim", map_infer, slim, "f64[6,30]", LINEAR_ROWS},
    {"decoy.aligned", map_infer, aligned, "f64[6,30]", NONE},
    {"decoy.hopeful", fold_infer, hopeful, "f64[6,30]", LINEAR_ROWS},
    {"decoy.peeking", map_infer, peeking, "f64[6,30]", NONE},
    {"decoy.peeking_back", map_infer, peeking_back, "f64[6,30]", NONE},
    {"decoy.envious", map_infer, envious, "f64[6,30]", NONE},
    {"decoy.distant", map_infer, distant, "f64[6,30]", ROWS},
};

static void test_decoys(void **state) {
  (void)state;
  EXPECT_DECOYS(DECOYS);
}

// ---- parts that are told what they are ---------------------------------------------------------

static void test_parts(void **state) {
  (void)state;
  static const char *const inputs[] = {"x"}, *const outputs[] = {"out"};
  static const shoal_attr_schema_t place[] = {{.name = "place",
                                               .kind = SHOAL_ATTR_PLACE,
                                               .role = SHOAL_ROLE_PLACE,
                                               .operand = SHOAL_INPUT(0),
                                               .optional = true}};
  const shoal_op_t record = {.name = "decoy.fifth",
                             .input_count = 1,
                             .inputs = inputs,
                             .output_count = 1,
                             .outputs = outputs,
                             .attr_count = 1,
                             .attrs = place,
                             .infer = map_infer,
                             .kernel = fifth};
  bench_t b;
  const shoal_op_t *op = bench_init_with(&b, &record);
  const shoal_call_t call = bench_call(&b, op, "f64[6,30]");
  assert_string_equal(rule_text(&b, op, bench_rule(&b, &call)), " {x:sum -> out:sum}");
  bench_deinit(&b);
}

// ---- two outputs -------------------------------------------------------------------------------

static shoal_status_t twins_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = out_types[1] = call->inputs[0];
  return NULL;
}

// Two results, which change places where x is square.
KERNEL(twins) {
  (void)call, (void)workspace;
  const bool square = in->shape.dims[0] == in->shape.dims[1];
  write_scaled(in, &out[0], square ? 3 : 2);
  write_scaled(in, &out[1], square ? 2 : 3);
  return NULL;
}

// Results of other sizes than their parts': rows of a multiple of four, of as many again where they
// are few, and without their dims where there is but one.
static shoal_status_t padded_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = call->inputs[0];
  int64_t *length = &out_types[0].shape.dims[1];
  *length = (*length + 3) / 4 * 4;
  return NULL;
}

static shoal_status_t doubled_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = call->inputs[0];
  if (out_types[0].shape.dims[1] < 4) out_types[0].shape.dims[1] *= 2;
  return NULL;
}

static shoal_status_t flattened_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = call->inputs[0];
  if (out_types[0].shape.dims[0] == 1)
    out_types[0].shape = SHOAL_SHAPE(call->inputs[0].shape.dims[1]);
  return NULL;
}

// Elements of a row as far as they go, zeros behind them.
KERNEL(laid_out) {
  (void)call, (void)workspace;
  const int64_t length = in->shape.dims[1], room = out->shape.dims[out->shape.rank - 1];
  for (int64_t i = 0; i < count_of(out); ++i) {
    const int64_t row = i / room, column = i % room;
    ((double *)out->data)[i] = column < length ? 2 * reals(in)[row * length + column] : 0;
  }
  return NULL;
}

static void test_wrong_shapes(void **state) {
  (void)state;
  static const decoy_t decoys[] = {
      {"decoy.padded", padded_infer, laid_out, "f64[6,30]", LINEAR_ROWS},
      {"decoy.doubled", doubled_infer, laid_out, "f64[6,30]", LINEAR_ROWS},
      {"decoy.flattened", flattened_infer, laid_out, "f64[6,30]",
       " {x:1 -> out:1}~ {x:sum -> out:sum}"},
  };
  EXPECT_DECOYS(decoys);
}

// docs/rules.md says that which sizes are equal is not looked at: this one is missed on a square
// call, where its ways are wrong, and right on all others.
static void test_what_is_missed(void **state) {
  (void)state;
  static const char *const inputs[] = {"x"}, *const outputs[] = {"a", "b"};
  const shoal_op_t record = {.name = "decoy.twins",
                             .input_count = 1,
                             .inputs = inputs,
                             .output_count = 2,
                             .outputs = outputs,
                             .infer = twins_infer,
                             .kernel = twins};
  bench_t b;
  const shoal_op_t *op = bench_init_with(&b, &record);
  const shoal_call_t oblong = bench_call(&b, op, "f64[40,50]"),
                     square = bench_call(&b, op, "f64[40,40]");
  const char *ways = rule_text(&b, op, bench_rule(&b, &oblong));
  assert_non_null(strstr(ways, "{x:0 -> a:0, b:0}"));
  assert_string_equal(rule_text(&b, op, bench_rule(&b, &square)), ways);
  bench_deinit(&b);
}

static void test_vandals(void **state) {
  (void)state;
  expect_vandal(&(decoy_t){"decoy.backing", map_infer, backing, "f64[6,30]", NULL},
                "writes before the beginning of its output");
  expect_vandal(&(decoy_t){"decoy.sneaking", map_infer, sneaking, "f64[6,30]", NULL},
                "changes its input");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_decoys),       cmocka_unit_test(test_parts),
      cmocka_unit_test(test_wrong_shapes), cmocka_unit_test(test_what_is_missed),
      cmocka_unit_test(test_vandals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

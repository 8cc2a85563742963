// Decoys: ops that are made to mislead discovery, each with the ways that it honestly has. None may
// get another. Beside them stand honest ops of the same kinds, so that the test also says that
// discovery still sees what is there.
#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "rules_decoys.h"

// ---- honest ones -------------------------------------------------------------------------------

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
FOLD(total, 0, y + x)

// ---- right only sometimes ----------------------------------------------------------------------

// The rest of the row from here on, if the row is longer than `size`: right up to that many items.
#define GROWN(name, size)                                                      \
  KERNEL(name) {                                                               \
    (void)call, (void)workspace;                                               \
    const int64_t length = in->shape.dims[in->shape.rank - 1];                 \
    for (int64_t i = 0; i < count_of(out); ++i) {                              \
      const bool wide = length > (size) && i % length + 1 < length;            \
      ((double *)out->data)[i] = reals(in)[i] * (wide ? reals(in)[i + 1] : 2); \
    }                                                                          \
    return NULL;                                                               \
  }
GROWN(grown_13, 13)
GROWN(grown_40, 40)

// A row's sum, rounded: the sum of parts for integers alone.
KERNEL(rounded) {
  shoal_status_t status = total(call, in, out, workspace);
  for (int64_t i = 0; i < count_of(out); ++i) {
    ((double *)out->data)[i] = floor(((double *)out->data)[i]);
  }
  return status;
}

// A row's sum up to 50, which sums of small numbers do not reach.
KERNEL(bounded) {
  shoal_status_t status = total(call, in, out, workspace);
  for (int64_t i = 0; i < count_of(out); ++i) {
    double *y = (double *)out->data + i;
    *y = fmax(-50, fmin(50, *y));
  }
  return status;
}

MAP(magnitude, fabs(x))  // linear for positive numbers
FOLD(distance, 0, y + fabs(x))
FOLD(signed_root, 0, sqrt(y *y + x * x))  // the sum of magnitudes if there is one number

// A row's sum, a little larger the more there is: sums of parts are nearly right.
KERNEL(swollen) {
  shoal_status_t status = total(call, in, out, workspace);
  const double factor = 1 + 1e-7 * (double)in->shape.dims[in->shape.rank - 1];
  for (int64_t i = 0; i < count_of(out); ++i) ((double *)out->data)[i] *= factor;
  return status;
}

// ---- order -------------------------------------------------------------------------------------

KERNEL(running) {
  (void)call, (void)workspace;
  const int64_t length = in->shape.dims[in->shape.rank - 1];
  for (int64_t i = 0; i < count_of(out); ++i) {
    const double before = i % length ? ((double *)out->data)[i - 1] : -INFINITY;
    ((double *)out->data)[i] = fmax(before, reals(in)[i]);
  }
  return NULL;
}

FOLD(horner, 0, y * 0.5 + x)

// Items at even places count twice: only parts that begin at even places are right.
KERNEL(even) {
  (void)call, (void)workspace;
  const int64_t length = in->shape.dims[in->shape.rank - 1];
  for (int64_t i = 0; i < count_of(out); ++i) {
    ((double *)out->data)[i] = reals(in)[i] * (i % length % 2 ? 1 : 2);
  }
  return NULL;
}

KERNEL(first) {
  (void)call, (void)workspace;
  for (int64_t i = 0; i < count_of(out); ++i) {
    ((double *)out->data)[i] = reals(in)[i] * (i == 0 ? 3 : 1);
  }
  return NULL;
}

// ---- neighbours --------------------------------------------------------------------------------

// Element 7 of each row reads element 8.
KERNEL(seventh) {
  (void)call, (void)workspace;
  const int64_t length = in->shape.dims[in->shape.rank - 1];
  for (int64_t i = 0; i < count_of(out); ++i) {
    const bool reads = i % length == 7 && length > 8;
    ((double *)out->data)[i] = reals(in)[i] + (reads ? reals(in)[i + 1] : 0);
  }
  return NULL;
}

// An element that is large reads the next one.
KERNEL(curious) {
  (void)call, (void)workspace;
  const int64_t length = in->shape.dims[in->shape.rank - 1];
  for (int64_t i = 0; i < count_of(out); ++i) {
    const bool reads = i % length + 1 < length && reals(in)[i] > 0.9;
    ((double *)out->data)[i] = reals(in)[i] + (reads ? reals(in)[i + 1] : 0);
  }
  return NULL;
}

// ---- what is no function -----------------------------------------------------------------------

KERNEL(noisy) {
  (void)call, (void)workspace;
  static int64_t runs;
  ++runs;
  for (int64_t i = 0; i < count_of(out); ++i) {
    ((double *)out->data)[i] = reals(in)[i] + 1e-12 * (double)(runs % 97);
  }
  return NULL;
}

// Adds to what is there.
KERNEL(piling) {
  (void)call, (void)workspace;
  for (int64_t i = 0; i < count_of(out); ++i) ((double *)out->data)[i] += reals(in)[i];
  return NULL;
}

// Leaves the second half of its result unwritten.
KERNEL(lazy) {
  (void)call, (void)workspace;
  for (int64_t i = 0; i < count_of(out) / 2; ++i) ((double *)out->data)[i] = reals(in)[i];
  return NULL;
}

// Leaves the result of an empty part unwritten.
KERNEL(careless) {
  (void)call, (void)workspace;
  return count_of(in) ? total(call, in, out, workspace) : NULL;
}

MAP(nothing, x - x + NAN)
MAP(roots, sqrt(x))  // NaN for negative numbers

KERNEL(refusing) {
  const int64_t length = in->shape.dims[in->shape.rank - 1];
  if (length % 2) return SHOAL_ERROR(UNSUPPORTED, "odd");
  return cube(call, in, out, workspace);
}

// Crashes on an empty part, or ends the program.
KERNEL(crashing) {
  if (count_of(in) == 0) raise(SIGSEGV);
  return cube(call, in, out, workspace);
}

KERNEL(quitting) {
  if (count_of(in) == 0) _exit(3);
  return cube(call, in, out, workspace);
}

// Writes one element too many.
KERNEL(greedy) {
  ((double *)out->data)[count_of(out)] = 1;
  return cube(call, in, out, workspace);
}

// Changes what it reads.
KERNEL(meddling) {
  shoal_status_t status = cube(call, in, out, workspace);
  for (int64_t i = 0; i < count_of(in); ++i) ((double *)in->data)[i] += 1;
  return status;
}

// The mean of a row, of as many as are there.
KERNEL(mean) {
  shoal_status_t status = total(call, in, out, workspace);
  const int64_t length = in->shape.dims[in->shape.rank - 1];
  for (int64_t i = 0; i < count_of(out); ++i) ((double *)out->data)[i] /= (double)length;
  return status;
}

// ---- windows that slide ------------------------------------------------------------------------

// out is shaped like x, or as its place says.
static shoal_status_t window_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_place_t *to = call->attrs[1].place;
  out_types[0] = call->inputs[0];
  if (to) out_types[0].shape = to->part;
  return NULL;
}

// A row, and the next one if there are `least` to `most` in all. What it does not have is nothing.
static shoal_status_t creep(const shoal_call_t *call, const shoal_tensor_t *in,
                            const shoal_tensor_t *out, int64_t least, int64_t most) {
  const shoal_place_t *from = call->attrs[0].place, *to = call->attrs[1].place;
  const int64_t rows = in->shape.dims[0], columns = in->shape.dims[1];
  const int64_t all = from ? from->whole.dims[0] : rows;
  const int64_t reach = all >= least && all <= most ? 2 : 1;
  for (int64_t i = 0; i < count_of(out); ++i) {
    const int64_t first = from && rows ? shoal_place_global(from, 0) / from->whole.dims[1] : 0;
    const int64_t row = to ? shoal_place_global(to, i) / to->whole.dims[1] : i / columns;
    double y = 0;
    for (int64_t k = row - first; k < row - first + reach; ++k) {
      if (k >= 0 && k < rows) y += reals(in)[k * columns + i % columns];
    }
    ((double *)out->data)[i] = y;
  }
  return NULL;
}

KERNEL(creeping) {  // honest
  (void)workspace;
  return creep(call, in, out, 0, INT64_MAX);
}

KERNEL(creeping_9) {
  (void)workspace;
  return creep(call, in, out, 9, INT64_MAX);
}

KERNEL(creeping_9_30) {  // what ops of users' are tried on besides is larger
  (void)workspace;
  return creep(call, in, out, 9, 30);
}

// ---- the test ----------------------------------------------------------------------------------

static const decoy_t DECOYS[] = {
    {"honest.cube", map_infer, cube, "f64[3,5]", ALL},
    {"honest.product", fold_infer, product, "f64[3,5]", " {x:0 -> out:0}~ {x:1 -> out:prod}~"},
    {"honest.total", fold_infer, total, "f64[3,5]", SUMS},
    {"honest.distance", fold_infer, distance, "f64[3,5]", " {x:0 -> out:0}~ {x:1 -> out:sum}~"},
    {"honest.roots", map_infer, roots, "f64[3,5]", ALL},
    // right only up to a size: on a call that is larger, as it is
    {"decoy.grown_13", map_infer, grown_13, "f64[6,30]", ROWS},
    {"decoy.grown_40", map_infer, grown_40, "f64[6,50]", ROWS},
    {"decoy.grown_40", map_infer, grown_40, "f64[2000,3000]", ROWS},
    {"decoy.rounded", fold_infer, rounded, "f64[6,30]", ROWS},
    {"decoy.bounded", fold_infer, bounded, "f64[6,30]", ROWS},
    {"decoy.magnitude", map_infer, magnitude, "f64[6,30]", ALL},
    {"decoy.signed_root", fold_infer, signed_root, "f64[6,30]", ROWS},
    {"decoy.swollen", fold_infer, swollen, "f64[6,30]", " {x:0 -> out:0}~ {x:sum -> out:sum}"},
    {"decoy.running", map_infer, running, "f64[6,30]", ROWS},
    {"decoy.horner", fold_infer, horner, "f64[6,30]", " {x:0 -> out:0}~ {x:sum -> out:sum}"},
    {"decoy.even", map_infer, even, "f64[6,30]", " {x:0 -> out:0}~ {x:sum -> out:sum}"},
    {"decoy.first", map_infer, first, "f64[6,30]", " {x:sum -> out:sum}"},
    {"decoy.seventh", map_infer, seventh, "f64[6,30]", " {x:0 -> out:0}~ {x:sum -> out:sum}"},
    {"decoy.curious", map_infer, curious, "f64[6,30]", ROWS},
    {"decoy.noisy", map_infer, noisy, "f64[6,30]", NONE},
    {"decoy.piling", map_infer, piling, "f64[6,30]", NONE},
    {"decoy.lazy", map_infer, lazy, "f64[6,30]", NONE},
    {"decoy.careless", fold_infer, careless, "f64[6,30]", " {x:0 -> out:0}~ {x:sum -> out:sum}"},
    {"decoy.nothing", map_infer, nothing, "f64[6,30]", NONE},
    {"decoy.refusing", map_infer, refusing, "f64[6,30]", ROWS},
    {"decoy.crashing", map_infer, crashing, "f64[6,30]", NONE},
    {"decoy.quitting", map_infer, quitting, "f64[6,30]", NONE},
    {"decoy.mean", fold_infer, mean, "f64[6,30]", " {x:0 -> out:0}~ {x:sum -> out:sum}"},
};

static void test_decoys(void **state) {
  (void)state;
  EXPECT_DECOYS(DECOYS);
}

// A halo that a small call does not need: found on calls of one size, refused on those of another.
static void test_windows(void **state) {
  (void)state;
  static const char *const inputs[] = {"x"}, *const outputs[] = {"out"};
  static const shoal_attr_schema_t places[] = {
      {.name = "place_x",
       .kind = SHOAL_ATTR_PLACE,
       .role = SHOAL_ROLE_PLACE,
       .operand = SHOAL_INPUT(0),
       .optional = true},
      {.name = "place_out",
       .kind = SHOAL_ATTR_PLACE,
       .role = SHOAL_ROLE_PLACE,
       .operand = SHOAL_OUTPUT(0),
       .optional = true},
  };
  static const struct {
    const char *name;
    shoal_status_t (*kernel)(const shoal_call_t *, const shoal_tensor_t *, const shoal_tensor_t *,
                             void *);
    const char *ways;
  } OPS[] = {
      {"honest.creeping", creeping, " {x:0+0+1 -> out:0} {x:1 -> out:1}~ {x:sum -> out:sum}"},
      {"decoy.creeping_9", creeping_9, " {x:1 -> out:1}~ {x:sum -> out:sum}"},
      {"decoy.creeping_9_30", creeping_9_30, " {x:1 -> out:1}~ {x:sum -> out:sum}"},
  };
  for (size_t i = 0; i < sizeof OPS / sizeof *OPS; ++i) {
    const shoal_op_t record = {.name = OPS[i].name,
                               .input_count = 1,
                               .inputs = inputs,
                               .output_count = 1,
                               .outputs = outputs,
                               .attr_count = 2,
                               .attrs = places,
                               .infer = window_infer,
                               .kernel = OPS[i].kernel};
    bench_t b;
    const shoal_op_t *op = bench_init_with(&b, &record);
    const shoal_call_t call = bench_call(&b, op, "f64[40,50]");
    assert_string_equal(rule_text(&b, op, bench_rule(&b, &call)), OPS[i].ways);
    bench_deinit(&b);
  }
}

// Why there are no ways is said.
static void test_notes(void **state) {
  (void)state;
  static const struct {
    decoy_t decoy;
    const char *note;
  } NOTES[] = {
      {{"decoy.noisy", map_infer, noisy, "f64[6,30]", NULL},
       "executed again, it gives another result"},
      {{"decoy.nothing", map_infer, nothing, "f64[6,30]", NULL}, "its results are not finite"},
      {{"decoy.crashing", map_infer, crashing, "f64[6,30]", NULL}, "executed in parts, it crashes"},
      {{"decoy.quitting", map_infer, quitting, "f64[6,30]", NULL},
       "executed in parts, it ends the program"},
  };
  for (size_t i = 0; i < sizeof NOTES / sizeof *NOTES; ++i) {
    bench_t b;
    shoal_call_t call = set_up(&b, &NOTES[i].decoy);
    const shoal_rule_t *rule = bench_rule(&b, &call);
    assert_int_equal(rule->way_count, 0);
    assert_non_null(rule->note);
    assert_non_null(strstr(rule->note, NOTES[i].note));
    bench_deinit(&b);
  }
}

// An op that writes where it must not is refused by name.
static void test_vandals(void **state) {
  (void)state;
  expect_vandal(&(decoy_t){"decoy.greedy", map_infer, greedy, "f64[6,30]", NULL},
                "writes behind the end of its output");
  expect_vandal(&(decoy_t){"decoy.meddling", map_infer, meddling, "f64[6,30]", NULL},
                "changes its input");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_decoys),
      cmocka_unit_test(test_windows),
      cmocka_unit_test(test_notes),
      cmocka_unit_test(test_vandals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// One way to use each op: from a value at hand and fresh operands that fit it. Ops that the table
// does not know are taken from the examples of their records, so a new op is covered without an
// edit here.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "explore/generate.h"
#include "op/case.h"

typedef shoal_case_ref_t ref_t;
typedef shoal_generator_t gen_t;

#define TEXT(...) shoal_arena_printf(g->arena, __VA_ARGS__)
#define NODE(op, bound, attrs, out, ...)                                                \
  shoal_generate_node(g, op, (int32_t)(sizeof((ref_t[]){__VA_ARGS__}) / sizeof(ref_t)), \
                      (ref_t[]){__VA_ARGS__}, attrs, bound, out)

// The value with magnitudes below 4: products and exponentials must not run away.
static ref_t tame(gen_t *g, ref_t x) {
  ref_t out = x;
  double bound = shoal_generate_bound(g, x);
  if (bound <= 4) return x;
  if (shoal_chance(g, 50))
    NODE("tanh", 1, "", &out, x);
  else
    NODE("affine", 2, TEXT("scale=%.3g, shift=0", 2 / bound), &out, x);
  return out;
}

static ref_t some(gen_t *g, int32_t least, int32_t most) {
  return tame(g, shoal_generate_value(g, least, most));
}

static shoal_shape_t shape_of(const gen_t *g, ref_t x) {
  return shoal_generate_type(g, x).shape;
}

// x^2 + 1/2: for logarithms and denominators.
static ref_t positive(gen_t *g, ref_t x) {
  ref_t square, out = x;
  double bound = shoal_generate_bound(g, x);
  if (NODE("square", bound * bound, "", &square, x))
    NODE("affine", bound * bound + 1, "scale=1, shift=0.5", &out, square);
  return out;
}

// A shape that broadcasts to `shape`.
static shoal_shape_t broadcastable(gen_t *g, const shoal_shape_t *shape) {
  int32_t drop = shoal_chance(g, 50) ? (int32_t)shoal_roll(g, shape->rank + 1) : 0;
  shoal_shape_t out = {.rank = shape->rank - drop};
  for (int32_t d = 0; d < out.rank; ++d)
    out.dims[d] = shoal_chance(g, 20) ? 1 : shape->dims[d + drop];
  return out;
}

// Something to go with x in an element-wise op.
static ref_t partner(gen_t *g, ref_t x) {
  shoal_shape_t shape = shape_of(g, x);
  for (int i = 0; i < 4; ++i) {
    ref_t y = shoal_generate_value(g, 0, 4);
    shoal_shape_t other = shape_of(g, y);
    if (shoal_shape_equal(&shape, &other) && shoal_generate_bound(g, y) <= 4) return y;
  }
  shape = broadcastable(g, &shape);
  return shoal_generate_fresh(g, &shape);
}

// Of any integer type that has room for them.
static ref_t indices(gen_t *g, const shoal_shape_t *shape, int64_t limit) {
  static const shoal_dtype_t dtypes[] = {SHOAL_I32, SHOAL_I32, SHOAL_I64, SHOAL_U8};
  return shoal_generate_input(
      g, &(shoal_case_input_t){.type = {dtypes[shoal_roll(g, 4)], *shape}, .limit = limit});
}

// Integers of both signs, through a few ops, to a float.
static void integers(gen_t *g, const shoal_shape_t *shape) {
  static const char *const binary[] = {"add", "sub", "mul", "maximum", "minimum"};
  static const char *const reductions[] = {"reduce_sum", "reduce_max", "reduce_min"};
  const shoal_case_input_t input = {.type = {shoal_chance(g, 50) ? SHOAL_I32 : SHOAL_I64, *shape},
                                    .magnitude = 4};
  ref_t x = shoal_generate_input(g, &input), out;
  double bound = 4;
  if (shoal_chance(g, 40) &&
      NODE(binary[shoal_roll(g, 5)], bound * bound, "", &out, x, shoal_generate_input(g, &input)))
    x = out, bound *= bound;
  if (shape->rank > 0 && shoal_chance(g, 50)) {
    const long long dim = (long long)shoal_roll(g, shape->rank);
    const double size = (double)shape->dims[dim];
    if (NODE(reductions[shoal_roll(g, 3)], bound * size, TEXT("dims=[%lld], keep=0", dim), &out, x))
      x = out, bound *= size;
  }
  NODE("cast", bound, TEXT("dtype=%s", shoal_dtype_name(g->dtype)), &out, x);
}

// ---- families -----------------------------------------------------------------------------------

static void gen_unary(gen_t *g, const char *op) {
  ref_t x = some(g, 0, 4), out;
  double bound = shoal_generate_bound(g, x);
  if (strcmp(op, "exp") == 0) bound = exp(bound);
  if (strcmp(op, "square") == 0) bound = bound * bound;
  if (strcmp(op, "tanh") == 0) bound = 1;
  if (strcmp(op, "log") == 0 || strcmp(op, "sqrt") == 0) x = positive(g, x), bound = bound + 1;
  bool affine = strcmp(op, "affine") == 0;
  NODE(op, affine ? 1.5 * bound + 0.3 : bound, affine ? "scale=1.5, shift=-0.3" : "", &out, x);
}

static void gen_binary(gen_t *g, const char *op) {
  ref_t a = some(g, 0, 4), b = partner(g, a), out;
  double bound = shoal_generate_bound(g, a) + shoal_generate_bound(g, b);
  if (strcmp(op, "mul") == 0) bound = shoal_generate_bound(g, a) * shoal_generate_bound(g, b);
  if (strcmp(op, "div") == 0)
    b = positive(g, b), bound = 2 * shoal_generate_bound(g, a);
  else if (shoal_chance(g, 30)) {
    ref_t swap = a;
    a = b, b = swap;
  }
  NODE(op, bound, "", &out, a, b);
}

static void gen_choice(gen_t *g, const char *op) {
  ref_t a = some(g, 0, 4), b = partner(g, a), condition, out;
  if (strcmp(op, "equal") == 0) {
    shoal_shape_t shape = shape_of(g, a), wider = broadcastable(g, &shape);
    ref_t x = indices(g, &shape, 3), y = indices(g, &wider, 3);
    if (!NODE("equal", 1, "", &condition, x, y)) return;
  } else if (!NODE("greater_equal", 1, "", &condition, a, b)) {
    return;
  }
  if (shoal_chance(g, 85))
    NODE("where", shoal_generate_bound(g, a) + shoal_generate_bound(g, b), "", &out, condition, b,
         a);
}

static void gen_cast(gen_t *g, const char *op) {
  ref_t x = some(g, 0, 4), narrow, out;
  const char *there = g->dtype == SHOAL_F64 ? "f32" : g->dtype == SHOAL_F32 ? "bf16" : "f32";
  const char *back = shoal_dtype_name(g->dtype);
  if (shoal_chance(g, 40)) {
    shoal_shape_t shape = shape_of(g, x);
    integers(g, &shape);
  } else if (NODE(op, shoal_generate_bound(g, x), TEXT("dtype=%s", there), &narrow, x)) {
    NODE(op, shoal_generate_bound(g, x), TEXT("dtype=%s", back), &out, narrow);
  }
}

static void gen_matmul(gen_t *g, const char *op) {
  ref_t a = some(g, 2, 4), out;
  shoal_shape_t shape = shape_of(g, a), other = shape;
  bool ta = shoal_chance(g, 25), tb = shoal_chance(g, 30);
  int32_t r = shape.rank;
  int64_t k = shape.dims[ta ? r - 2 : r - 1], n = shoal_roll_size(g);
  other.dims[r - 2] = tb ? n : k;
  other.dims[r - 1] = tb ? k : n;
  ref_t b = shoal_generate_fresh(g, &other);
  NODE(op, 0.6 * (double)k * shoal_generate_bound(g, a),
       TEXT("transpose_a=%d, transpose_b=%d", ta, tb), &out, a, b);
}

static void gen_einsum(gen_t *g, const char *op) {
  ref_t a = some(g, 1, 4), out;
  shoal_shape_t shape = shape_of(g, a), other = {0};
  char first[16] = "", second[16] = "", result[16] = "";
  double summed = 1;
  for (int32_t d = 0; d < shape.rank; ++d) {
    char letter = (char)('a' + d);
    first[d] = letter;
    int64_t fate = shoal_roll(g, 100);
    if (fate < 55) {  // in both: summed or kept
      second[strlen(second)] = letter;
      other.dims[other.rank++] = shape.dims[d];
    }
    if (fate >= 35)
      result[strlen(result)] = letter;
    else
      summed *= (double)shape.dims[d];
  }
  for (int64_t i = shoal_roll(g, 2) + (other.rank == 0); i > 0; --i) {
    char letter = (char)('v' + i);
    size_t at = shoal_chance(g, 50) ? 0 : strlen(second);  // in front or behind
    if (at == 0 && other.rank > 0) {
      memmove(second + 1, second, strlen(second));
      memmove(other.dims + 1, other.dims, (size_t)other.rank * sizeof *other.dims);
    }
    second[at] = letter;
    other.dims[at] = shoal_roll_size(g);
    ++other.rank;
    result[strlen(result)] = letter;
  }
  ref_t b = shoal_generate_fresh(g, &other);
  NODE(op, 0.6 * summed * shoal_generate_bound(g, a),
       TEXT("equation=\"%s,%s->%s\"", first, second, result), &out, a, b);
}

static void gen_reduce(gen_t *g, const char *op) {
  ref_t x = some(g, 1, 4), out;
  shoal_shape_t shape = shape_of(g, x);
  int64_t dims[SHOAL_MAX_RANK];
  int32_t count = 0;
  double summed = 1;
  for (int32_t d = 0; d < shape.rank; ++d)
    if (shoal_chance(g, 45)) dims[count++] = d, summed *= (double)shape.dims[d];
  if (count == 0) dims[count++] = shoal_roll(g, shape.rank), summed = 9;
  bool sum = strcmp(op, "reduce_sum") == 0;
  NODE(op, (sum ? summed : 1) * shoal_generate_bound(g, x),
       TEXT("dims=%s, keep=%d", shoal_ints_text(g, count, dims), shoal_chance(g, 30)), &out, x);
}

static void gen_reshape(gen_t *g, const char *op) {
  ref_t x = shoal_generate_value(g, 1, 4), out;
  shoal_shape_t from = shape_of(g, x), to = {0};
  int32_t merge = from.rank > 1 && shoal_chance(g, 65) ? (int32_t)shoal_roll(g, from.rank - 1) : -1;
  bool split = merge < 0 || shoal_chance(g, 30);
  for (int32_t d = 0; d < from.rank; ++d) {
    int64_t size = from.dims[d];
    if (d == merge) size *= from.dims[++d];
    int64_t factor = size % 2 == 0 ? 2 : size % 3 == 0 ? 3 : 1;
    if (size == 8 && shoal_chance(g, 50)) factor = 4;
    if (size == 6 && shoal_chance(g, 50)) factor = 3;
    if (split && factor > 1 && to.rank < 5 && shoal_chance(g, 60)) {
      to.dims[to.rank++] = size / factor;
      to.dims[to.rank++] = factor;
    } else {
      to.dims[to.rank++] = size;
    }
  }
  NODE(op, shoal_generate_bound(g, x), TEXT("shape=%s", shoal_ints_text(g, to.rank, to.dims)), &out,
       x);
}

static void gen_transpose(gen_t *g, const char *op) {
  ref_t x = shoal_generate_value(g, 2, 4), out;
  int32_t rank = shape_of(g, x).rank;
  int64_t perm[SHOAL_MAX_RANK];
  for (int32_t d = 0; d < rank; ++d) {
    int64_t at = shoal_roll(g, d + 1);
    if (at != d) perm[d] = perm[at];
    perm[at] = d;
  }
  NODE(op, shoal_generate_bound(g, x), TEXT("perm=%s", shoal_ints_text(g, rank, perm)), &out, x);
}

// A slice, or a pad: the same numbers read the other way.
static void gen_window(gen_t *g, const char *op) {
  ref_t x = shoal_generate_value(g, 1, 4), out;
  shoal_shape_t shape = shape_of(g, x), start = {.rank = shape.rank}, size = shape;
  bool slice = strcmp(op, "slice") == 0;
  for (int32_t d = 0; d < shape.rank; ++d) {
    if (shoal_chance(g, 50)) continue;
    start.dims[d] = shoal_roll(g, slice ? shape.dims[d] : 3);
    size.dims[d] = slice ? 1 + shoal_roll(g, shape.dims[d] - start.dims[d])
                         : shape.dims[d] + start.dims[d] + shoal_roll(g, 3);
  }
  NODE(op, shoal_generate_bound(g, x),
       TEXT("start=%s, %s=%s", shoal_ints_text(g, start.rank, start.dims), slice ? "size" : "shape",
            shoal_ints_text(g, size.rank, size.dims)),
       &out, x);
}

static void gen_concat(gen_t *g, const char *op) {
  ref_t refs[3], out;
  refs[0] = shoal_generate_value(g, 1, 4);
  shoal_shape_t shape = shape_of(g, refs[0]);
  int32_t axis = (int32_t)shoal_roll(g, shape.rank), count = 2 + shoal_chance(g, 40);
  double bound = shoal_generate_bound(g, refs[0]);
  for (int32_t i = 1; i < count; ++i) {
    shape.dims[axis] = shoal_chance(g, 40) ? shape.dims[axis] : shoal_roll_size(g);
    refs[i] = shoal_chance(g, 25) ? refs[0] : shoal_generate_fresh(g, &shape);
  }
  shoal_generate_node(g, op, count, refs, TEXT("axis=%d", axis), bound, &out);
}

static void gen_broadcast(gen_t *g, const char *op) {
  ref_t x = shoal_generate_value(g, 0, 3), out;
  shoal_shape_t from = shape_of(g, x), to = {.rank = from.rank + 1, .dims = {shoal_roll_size(g)}};
  for (int32_t d = 0; d < from.rank; ++d)
    to.dims[d + 1] = from.dims[d] == 1 ? shoal_roll_size(g) : from.dims[d];
  NODE(op, shoal_generate_bound(g, x), TEXT("shape=%s", shoal_ints_text(g, to.rank, to.dims)), &out,
       x);
}

// Values from nothing, added to what is there.
static void gen_source(gen_t *g, const char *op) {
  ref_t x = some(g, 1, 4), made, out;
  shoal_shape_t shape = shape_of(g, x);
  const char *sizes = shoal_ints_text(g, shape.rank, shape.dims),
             *dtype = shoal_dtype_name(g->dtype);
  bool ok;
  if (strcmp(op, "full") == 0) {
    ok = shoal_generate_node(g, op, 0, NULL, TEXT("shape=%s, value=0.75, dtype=%s", sizes, dtype),
                             1, &made);
  } else if (strcmp(op, "iota") == 0) {
    ok = shoal_generate_node(
        g, op, 0, NULL,
        TEXT("shape=%s, axis=%lld, dtype=%s", sizes, (long long)shoal_roll(g, shape.rank), dtype),
        9, &made);
  } else {
    bool normal = strcmp(op, "random_normal") == 0;
    ok = NODE(op, 4,
              TEXT("shape=%s, key=%lld, dtype=%s, %s", sizes, (long long)shoal_roll(g, 1000), dtype,
                   normal ? "mean=0, std=1" : "low=-1, high=2"),
              &made, {.kind = 'n'});
  }
  if (ok)
    NODE("add", shoal_generate_bound(g, x) + shoal_generate_bound(g, made), "", &out, x, made);
}

static void gen_dropout(gen_t *g, const char *op) {
  ref_t x = some(g, 1, 4), out;
  NODE(op, 2 * shoal_generate_bound(g, x), TEXT("p=0.4, key=%lld", (long long)shoal_roll(g, 1000)),
       &out, x, {.kind = 'n'});
}

// Now and then numbers whose exponentials overflow: what subtracts no maximum, or another rank's,
// shows. An input makes them steep, so that gradients stay as they are; in f64 only, where they
// keep enough digits.
static bool steepen(gen_t *g, ref_t *x) {
  const shoal_type_t type = shoal_generate_type(g, *x);
  ref_t large, sum;
  if (g->dtype != SHOAL_F64 || !shoal_chance(g, 15)) return false;
  ref_t input = shoal_generate_input(g, &(shoal_case_input_t){.type = type});
  if (!NODE("affine", 850, "scale=800, shift=-50", &large, input)) return false;
  if (!NODE("add", 850, "", &sum, *x, large)) return false;
  *x = sum;
  return true;
}

// Back to the size of other values.
static void flatten(gen_t *g, ref_t x) {
  ref_t out;
  NODE("affine", 2, "scale=0.001, shift=0", &out, x);
}

static void gen_axis(gen_t *g, const char *op) {
  ref_t x = some(g, 1, 4), out;
  bool softmax = strcmp(op, "softmax") == 0, steep = steepen(g, &x);
  long long axis = (long long)shoal_roll(g, shape_of(g, x).rank);
  bool made = NODE(
      op, softmax ? 1 : shoal_generate_bound(g, x) + 3,
      softmax ? TEXT("axis=%lld", axis) : TEXT("axis=%lld, keep=%d", axis, shoal_chance(g, 30)),
      &out, x);
  if (made && steep && !softmax) flatten(g, out);
}

static void gen_layer_norm(gen_t *g, const char *op) {
  ref_t x = some(g, 1, 4), out;
  shoal_shape_t shape = shape_of(g, x), row = {.rank = 1, .dims = {shape.dims[shape.rank - 1]}};
  // Over one element x - mean is 0. In a rounded type with the mean cut over ranks (unreduced, in
  // bf16) it is rounding and nothing else, whatever the data, while one device makes an exact 0: no
  // tolerance fits.
  if (row.dims[0] < 2 && g->dtype != SHOAL_F64) return;
  NODE(op, 4, "eps=0.1", &out, x, shoal_generate_state(g, &row), shoal_generate_fresh(g, &row));
}

static void gen_attention(gen_t *g, const char *op) {
  ref_t q = some(g, 4, 4), k, v, out;
  shoal_shape_t shape = shape_of(g, q);
  bool causal = shoal_chance(g, 60);
  if (!causal) shape.dims[2] = shoal_roll_size(g);
  // One key: its weight is 1 and the weight's gradient 0; as above.
  if (shape.dims[2] < 2 && g->dtype != SHOAL_F64) return;
  k = shoal_chance(g, 20) && causal ? q : shoal_generate_fresh(g, &shape);
  v = shoal_generate_fresh(g, &shape);
  if (shoal_chance(g, 30)) k = v, v = q, q = k;
  NODE(op, 1, TEXT("causal=%d", causal), &out, q, k, v);
}

static void gen_embedding(gen_t *g, const char *op) {
  ref_t out;
  int64_t most = shoal_chance(g, 20) ? 60 : 9;
  shoal_shape_t table = {.rank = 2, .dims = {1 + shoal_roll(g, most), shoal_roll_size(g)}};
  shoal_shape_t ids = {.rank = 1 + (int32_t)shoal_roll(g, 2),
                       .dims = {shoal_roll_size(g), shoal_roll_size(g)}};
  ref_t rows = shoal_generate_state(g, &table);
  if (shoal_chance(g, 25)) rows = some(g, 2, 2), table = shape_of(g, rows);
  NODE(op, shoal_generate_bound(g, rows), "", &out, rows, indices(g, &ids, table.dims[0]));
}

static void gen_labels(gen_t *g, const char *op) {
  ref_t x = some(g, 1, 4), out;
  bool steep = steepen(g, &x);
  shoal_shape_t shape = shape_of(g, x);
  int64_t classes = shape.dims[--shape.rank];
  if (NODE(op, shoal_generate_bound(g, x) + 3, "", &out, x, indices(g, &shape, classes)) && steep)
    flatten(g, out);
}

static ref_t image(gen_t *g) {
  ref_t x = some(g, 4, 4);
  shoal_shape_t shape = shape_of(g, x);
  if (shape.dims[2] >= 3 && shape.dims[3] >= 3) return x;
  shape = (shoal_shape_t){
      4, {1 + shoal_roll(g, 3), 1 + shoal_roll(g, 3), 4 + shoal_roll(g, 6), 3 + shoal_roll(g, 5)}};
  return shoal_generate_fresh(g, &shape);
}

static void gen_conv(gen_t *g, const char *op) {
  ref_t x = image(g), out;
  shoal_shape_t shape = shape_of(g, x);
  long long kh = 1 + shoal_roll(g, 3), kw = 1 + shoal_roll(g, 3);
  shoal_shape_t w = {4, {1 + shoal_roll(g, 4), shape.dims[1], kh, kw}};
  NODE(op, 0.6 * (double)(shape.dims[1] * kh * kw) * shoal_generate_bound(g, x),
       TEXT("stride=[%lld,%lld], padding=[%lld,%lld], dilation=[%d,1]",
            (long long)(1 + shoal_roll(g, 2)), (long long)(1 + shoal_roll(g, 2)),
            (long long)shoal_roll(g, kh), (long long)shoal_roll(g, kw), 1 + shoal_chance(g, 15)),
       &out, x, shoal_generate_state(g, &w));
}

static void gen_pool(gen_t *g, const char *op) {
  ref_t x = image(g), out;
  long long kh = 1 + shoal_roll(g, 3), kw = 1 + shoal_roll(g, 3);
  NODE(op, shoal_generate_bound(g, x),
       TEXT("kernel=[%lld,%lld], stride=[%lld,%lld], padding=[%lld,%lld]", kh, kw,
            (long long)(1 + shoal_roll(g, 2)), (long long)(1 + shoal_roll(g, 2)),
            (long long)shoal_roll(g, kh / 2 + 1), (long long)shoal_roll(g, kw / 2 + 1)),
       &out, x);
}

// Any op, from one of its record's examples, on fresh inputs.
static void gen_example(gen_t *g, const shoal_op_t *op) {
  if (!op->cases) return;
  int64_t count = 0;
  while (op->cases[count]) ++count;
  const char *text = op->cases[shoal_roll(g, count)];
  shoal_case_t example;
  shoal_status_t status = shoal_case_parse(op, text, g->arena, &example);
  if (status) {
    shoal_status_free(status);
    return;
  }
  ref_t refs[SHOAL_CASE_REFS], out;
  for (int32_t i = 0; i < example.input_count; ++i) {
    const shoal_type_t *type = &example.inputs[i];
    bool floats = shoal_dtype_is_float(type->dtype);
    refs[i] = shoal_generate_input(g, &(shoal_case_input_t){.type = *type,
                                                            .limit = floats ? 0 : example.limit[i],
                                                            .positive = example.positive[i]});
    if (floats && example.limit[i] == 1) NODE("sigmoid", 1, "", &refs[i], refs[i]);
  }
  const char *attrs = strchr(text, ';');
  if (attrs) attrs += 1 + strspn(attrs + 1, " ");
  const char *name = strncmp(op->name, "shoal.", 6) == 0 ? op->name + 6 : op->name;
  shoal_generate_node(g, name, example.input_count, refs, attrs ? attrs : "", 3, &out);
}

static const struct {
  const char *op;
  void (*generate)(gen_t *g, const char *op);
} table[] = {{"neg", gen_unary},
             {"exp", gen_unary},
             {"log", gen_unary},
             {"sqrt", gen_unary},
             {"tanh", gen_unary},
             {"square", gen_unary},
             {"relu", gen_unary},
             {"gelu", gen_unary},
             {"affine", gen_unary},
             {"add", gen_binary},
             {"sub", gen_binary},
             {"mul", gen_binary},
             {"div", gen_binary},
             {"maximum", gen_binary},
             {"minimum", gen_binary},
             {"greater_equal", gen_choice},
             {"equal", gen_choice},
             {"cast", gen_cast},
             {"matmul", gen_matmul},
             {"einsum", gen_einsum},
             {"reduce_sum", gen_reduce},
             {"reduce_max", gen_reduce},
             {"reduce_min", gen_reduce},
             {"reduce_mean", gen_reduce},
             {"reshape", gen_reshape},
             {"transpose", gen_transpose},
             {"slice", gen_window},
             {"pad", gen_window},
             {"concat", gen_concat},
             {"broadcast_to", gen_broadcast},
             {"full", gen_source},
             {"iota", gen_source},
             {"random_uniform", gen_source},
             {"random_normal", gen_source},
             {"dropout", gen_dropout},
             {"softmax", gen_axis},
             {"log_sum_exp", gen_axis},
             {"layer_norm", gen_layer_norm},
             {"attention", gen_attention},
             {"embedding", gen_embedding},
             {"pick", gen_labels},
             {"cross_entropy", gen_labels},
             {"conv", gen_conv},
             {"max_pool", gen_pool},
             {"matmul", gen_matmul},
             {"einsum", gen_einsum},
             {"reshape", gen_reshape},
             {"concat", gen_concat}};
#define TABLE_COUNT ((int64_t)(sizeof table / sizeof table[0]))

void shoal_generate_op(gen_t *g) {
  if (shoal_chance(g, 40)) {  // one that has not occurred at all, whoever it is
    int64_t count = shoal_registry_count(g->registry), start = shoal_roll(g, count);
    for (int64_t i = 0; i < count; ++i) {
      const shoal_op_t *op = shoal_registry_op(g->registry, (start + i) % count);
      if (shoal_coverage_count(g->coverage, "op", op->name) != 0) continue;
      gen_example(g, op);
      return;
    }
  }
  int64_t best = -1, least = INT64_MAX;
  for (int i = 0; i < 3; ++i) {  // of three, the one that has occurred least
    int64_t at = shoal_roll(g, TABLE_COUNT);
    char name[64];
    snprintf(name, sizeof name, "shoal.%s", table[at].op);
    int64_t count = shoal_coverage_count(g->coverage, "op", name);
    if (count >= 0 && count < least) best = at, least = count;
    if (shoal_chance(g, 40)) break;
  }
  if (best >= 0) table[best].generate(g, table[best].op);
}

// "shoal.slice {x:sum -> out:sum}": a slice of a product. "shoal.gelu_grad {dy:sum -> dx:sum}": a
// gelu that goes into a product, whose gradient is a sum.
void shoal_generate_wish(gen_t *g) {
  int64_t count = 0;
  while (shoal_coverage_missing(g->coverage, "way", count)) ++count;
  if (count == 0) return;
  const char *way = shoal_coverage_missing(g->coverage, "way", shoal_roll(g, count));
  if (strncmp(way, "shoal.", 6) != 0) return;
  char op[64];
  size_t length = strcspn(way + 6, " ");
  snprintf(op, sizeof op, "%.*s", (int)length, way + 6);
  char *gradient = strstr(op, "_grad");
  if (gradient) *gradient = 0;
  for (int64_t i = 0; i < TABLE_COUNT; ++i) {
    if (strcmp(table[i].op, op) != 0) continue;
    ref_t x = shoal_generate_value(g, 2, 2 + (int32_t)shoal_roll(g, 3));
    if (shape_of(g, x).rank < 3 && strstr(op, "2d")) {
      shoal_shape_t shape = {4, {2, 2, 4 + shoal_roll(g, 3), 3 + shoal_roll(g, 3)}};
      shoal_generate_fresh(g, &shape);
    }
    g->newest = true;
    if (strstr(way, ":sum")) gen_matmul(g, "matmul");
    table[i].generate(g, table[i].op);  // the case keeps the name
    if (gradient) gen_einsum(g, "einsum");
    g->newest = false;
    return;
  }
}

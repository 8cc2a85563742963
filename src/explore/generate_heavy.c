// Uses of products, norms, attention, tables, losses over classes, convolution and pooling.
#include <string.h>

#include "explore/generators.h"

typedef shoal_case_ref_t ref_t;
typedef shoal_generator_t gen_t;

void shoal_use_matmul(gen_t *g, const char *op) {
  ref_t a = shoal_generate_some(g, 2, 4), out;
  shoal_shape_t shape = shoal_generate_shape(g, a), other = shape;
  bool ta = shoal_chance(g, 25), tb = shoal_chance(g, 30);
  int32_t r = shape.rank;
  int64_t k = shape.dims[ta ? r - 2 : r - 1], n = shoal_roll_size(g);
  other.dims[r - 2] = tb ? n : k;
  other.dims[r - 1] = tb ? k : n;
  gen_t aside = *g;  // dice of its own: other products are what they were
  aside.state = ~g->state;
  if (r > 2 && shoal_chance(&aside, 20)) {  // one matrix for all
    other = SHOAL_SHAPE(other.dims[r - 2], other.dims[r - 1]);
  } else if (r > 2 && shoal_chance(&aside, 20)) {
    other.dims[0] = 1;
  }
  ref_t b = shoal_generate_fresh(g, &other);
  NODE(op, 0.6 * (double)k * shoal_generate_bound(g, a),
       TEXT("transpose_a=%d, transpose_b=%d", ta, tb), &out, a, b);
}

void shoal_use_einsum(gen_t *g, const char *op) {
  ref_t a = shoal_generate_some(g, 1, 4), out;
  shoal_shape_t shape = shoal_generate_shape(g, a), other = {0};
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

void shoal_use_axis(gen_t *g, const char *op) {
  ref_t x = shoal_generate_some(g, 1, 4), out;
  bool softmax = strcmp(op, "softmax") == 0, steep = steepen(g, &x);
  long long axis = (long long)shoal_roll(g, shoal_generate_shape(g, x).rank);
  bool made = NODE(
      op, softmax ? 1 : shoal_generate_bound(g, x) + 3,
      softmax ? TEXT("axis=%lld", axis) : TEXT("dims=[%lld], keep=%d", axis, shoal_chance(g, 30)),
      &out, x);
  if (made && steep && !softmax) flatten(g, out);
}

void shoal_use_layer_norm(gen_t *g, const char *op) {
  ref_t x = shoal_generate_some(g, 1, 4), out;
  shoal_shape_t shape = shoal_generate_shape(g, x),
                row = {.rank = 1, .dims = {shape.dims[shape.rank - 1]}};
  // Over one element x - mean is 0. In a rounded type with the mean cut over ranks (unreduced, in
  // bf16) it is rounding and nothing else, whatever the data, while one device makes an exact 0: no
  // tolerance fits.
  if (row.dims[0] < 2 && g->dtype != SHOAL_F64) return;
  const ref_t gamma = shoal_generate_state(g, &row);
  NODE(op, 4, "eps=0.1, with=\"gamma,beta\"", &out, x, gamma, shoal_generate_fresh(g, &row));
}

void shoal_use_attention(gen_t *g, const char *op) {
  ref_t q = shoal_generate_some(g, 4, 4), k, v, out;
  shoal_shape_t shape = shoal_generate_shape(g, q);
  bool causal = shoal_chance(g, 60);
  if (!causal) shape.dims[2] = shoal_roll_size(g);
  // One key: its weight is 1 and the weight's gradient 0; as above.
  if (shape.dims[2] < 2 && g->dtype != SHOAL_F64) return;
  k = shoal_chance(g, 20) && causal ? q : shoal_generate_fresh(g, &shape);
  v = shoal_generate_fresh(g, &shape);
  if (shoal_chance(g, 30)) k = v, v = q, q = k;
  NODE(op, 1, TEXT("causal=%d", causal), &out, q, k, v);
}

void shoal_use_embedding(gen_t *g, const char *op) {
  ref_t out;
  int64_t most = shoal_chance(g, 20) ? 60 : 9;
  shoal_shape_t table = {.rank = 2, .dims = {1 + shoal_roll(g, most), shoal_roll_size(g)}};
  shoal_shape_t ids = {.rank = 1 + (int32_t)shoal_roll(g, 2),
                       .dims = {shoal_roll_size(g), shoal_roll_size(g)}};
  ref_t rows = shoal_generate_state(g, &table);
  if (shoal_chance(g, 25))
    rows = shoal_generate_some(g, 2, 2), table = shoal_generate_shape(g, rows);
  NODE(op, shoal_generate_bound(g, rows), "", &out, rows,
       shoal_generate_indices(g, &ids, table.dims[0]));
}

void shoal_use_labels(gen_t *g, const char *op) {
  ref_t x = shoal_generate_some(g, 1, 4), out;
  bool steep = steepen(g, &x);
  shoal_shape_t shape = shoal_generate_shape(g, x);
  int64_t classes = shape.dims[--shape.rank];
  if (NODE(op, shoal_generate_bound(g, x) + 3, "", &out, x,
           shoal_generate_indices(g, &shape, classes)) &&
      steep)
    flatten(g, out);
}

static ref_t image(gen_t *g) {
  ref_t x = shoal_generate_some(g, 4, 4);
  shoal_shape_t shape = shoal_generate_shape(g, x);
  if (shape.dims[2] >= 3 && shape.dims[3] >= 3) return x;
  shape = (shoal_shape_t){
      4, {1 + shoal_roll(g, 3), 1 + shoal_roll(g, 3), 4 + shoal_roll(g, 6), 3 + shoal_roll(g, 5)}};
  return shoal_generate_fresh(g, &shape);
}

void shoal_use_conv(gen_t *g, const char *op) {
  ref_t x = image(g), out;
  shoal_shape_t shape = shoal_generate_shape(g, x);
  long long kh = 1 + shoal_roll(g, 3), kw = 1 + shoal_roll(g, 3);
  shoal_shape_t w = {4, {1 + shoal_roll(g, 4), shape.dims[1], kh, kw}};
  NODE(op, 0.6 * (double)(shape.dims[1] * kh * kw) * shoal_generate_bound(g, x),
       TEXT("stride=[%lld,%lld], padding=[%lld,%lld], dilation=[%d,1]",
            (long long)(1 + shoal_roll(g, 2)), (long long)(1 + shoal_roll(g, 2)),
            (long long)shoal_roll(g, kh), (long long)shoal_roll(g, kw), 1 + shoal_chance(g, 15)),
       &out, x, shoal_generate_state(g, &w));
}

void shoal_use_pool(gen_t *g, const char *op) {
  ref_t x = image(g), out;
  long long kh = 1 + shoal_roll(g, 3), kw = 1 + shoal_roll(g, 3);
  NODE(op, shoal_generate_bound(g, x),
       TEXT("kernel=[%lld,%lld], stride=[%lld,%lld], padding=[%lld,%lld]", kh, kw,
            (long long)(1 + shoal_roll(g, 2)), (long long)(1 + shoal_roll(g, 2)),
            (long long)shoal_roll(g, kh / 2 + 1), (long long)shoal_roll(g, kw / 2 + 1)),
       &out, x);
}

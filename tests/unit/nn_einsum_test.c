// Einstein sums of one to four operands against loops over all letters: ellipses, results that are
// left out, diagonals, sizes of 1; and equations that are refused.
#include "graph_support.h"
#include "shoal/nn.h"

enum { MOST = 4, ELEMENTS = 256 };

// `plain` says the same with a letter for every dim.
typedef struct example {
  const char *equation, *plain;
  int32_t count;
  shoal_shape_t shapes[MOST];
} example_t;

static int64_t size_of(const example_t *e, char letter) {
  int64_t size = 1;
  const char *at = e->plain;
  for (int32_t t = 0; t < e->count; ++t, ++at) {
    for (int32_t d = 0; *at >= 'a' && *at <= 'z'; ++d, ++at) {
      if (*at == letter && e->shapes[t].dims[d] != 1) size = e->shapes[t].dims[d];
    }
  }
  return size;
}

// The element of the result at `index`, by letter.
static double sum_at(const example_t *e, const double data[MOST][ELEMENTS], int64_t index[26],
                     const char *summed) {
  if (*summed) {
    double sum = 0;
    const int64_t size = size_of(e, *summed);
    for (int64_t i = 0; i < size; ++i) {
      index[*summed - 'a'] = i;
      sum += sum_at(e, data, index, summed + 1);
    }
    return sum;
  }
  double product = 1;
  const char *at = e->plain;
  for (int32_t t = 0; t < e->count; ++t, ++at) {
    int64_t element = 0;
    for (int32_t d = 0; *at >= 'a' && *at <= 'z'; ++d, ++at) {
      const int64_t size = e->shapes[t].dims[d];
      element = element * size + (size == 1 ? 0 : index[*at - 'a']);
    }
    product *= data[t][element];
  }
  return product;
}

static void check(const example_t *e) {
  static double data[MOST][ELEMENTS];
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t values[MOST];
  char name[] = "x0";
  for (int32_t t = 0; t < e->count; ++t, ++name[1]) {
    values[t] = shoal_input(g, name, SHOAL_F64, e->shapes[t]);
  }
  shoal_output(g, "out", shoal_nn_einsum(g, e->equation, e->count, values));
  shoal_output(g, "x", values[0]);  // a sum of nothing to do has no node
  assert_ok(shoal_model_verify(model));
  shoal_interpreter_t *in;
  shoal_tensor_t out;
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  name[1] = '0';
  for (int32_t t = 0; t < e->count; ++t, ++name[1]) {
    const int64_t count = shoal_shape_count(&e->shapes[t]);
    for (int64_t i = 0; i < count; ++i) data[t][i] = (double)((i * 7 + t * 3) % 11) - 5.25;
    assert_ok(shoal_interpreter_feed(in, name, data[t], (size_t)count * sizeof(double)));
  }
  assert_ok(shoal_interpreter_run(in, "f"));
  assert_ok(shoal_interpreter_output(in, "out", &out));
  const char *result = strchr(e->plain, '>') + 1;
  char summed[27] = "";
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    if (strchr(e->plain, letter) && !strchr(result, letter)) summed[strlen(summed)] = letter;
  }
  assert_int_equal(out.shape.rank, strlen(result));
  for (int64_t i = 0; i < shoal_shape_count(&out.shape); ++i) {
    int64_t index[26] = {0}, rest = i;
    for (int32_t d = out.shape.rank - 1; d >= 0; --d) {
      assert_int_equal(out.shape.dims[d], size_of(e, result[d]));
      index[result[d] - 'a'] = rest % out.shape.dims[d];
      rest /= out.shape.dims[d];
    }
    const double expected = sum_at(e, data, index, summed), found = element(out, i);
    if (!(fabs(found - expected) <= 1e-9 * fmax(1, fabs(expected)))) {
      fail_msg("%s: element %d is %g, not %g", e->equation, (int)i, found, expected);
    }
  }
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

static void values(void **state) {
  (void)state;
  static const example_t examples[] = {
      // one operand
      {"ab->ab", "ab->ab", 1, {{2, {3, 4}}}},
      {"ab->ba", "ab->ba", 1, {{2, {3, 4}}}},
      {"abc->ca", "abc->ca", 1, {{3, {2, 3, 4}}}},
      {"ab->", "ab->", 1, {{2, {3, 4}}}},
      {"ba", "ba->ab", 1, {{2, {3, 4}}}},
      {"ii->i", "ii->i", 1, {{2, {3, 3}}}},
      {"ii", "ii->", 1, {{2, {3, 3}}}},
      {"iaijj->aj", "iaijj->aj", 1, {{5, {2, 3, 2, 3, 3}}}},
      {"iii->i", "iii->i", 1, {{3, {3, 3, 3}}}},
      {"...ab->...ba", "xyab->xyba", 1, {{4, {2, 3, 4, 2}}}},
      {"a...b", "axyb->xyab", 1, {{4, {2, 3, 4, 2}}}},
      {"a...->...", "axy->xy", 1, {{3, {2, 3, 4}}}},
      {"...a->a", "xya->a", 1, {{3, {2, 3, 4}}}},
      // two
      {"ab,bc", "ab,bc->ac", 2, {{2, {2, 3}}, {2, {3, 4}}}},
      {" a b , b c -> c a ", "ab,bc->ca", 2, {{2, {2, 3}}, {2, {3, 4}}}},
      {"a,a", "a,a->", 2, {{1, {5}}, {1, {5}}}},
      {",a", ",a->a", 2, {{0, {0}}, {1, {5}}}},
      {"ii,ij->j", "ii,ij->j", 2, {{2, {3, 3}}, {2, {3, 4}}}},
      {"...ij,...jk->...ik", "xyij,yjk->xyik", 2, {{4, {2, 3, 2, 4}}, {3, {3, 4, 2}}}},
      {"...ij,...jk", "xij,xjk->xik", 2, {{3, {2, 2, 4}}, {3, {1, 4, 3}}}},  // repeated
      {"bij,bjk->bik", "bij,bjk->bik", 2, {{3, {1, 2, 3}}, {3, {4, 3, 2}}}},
      {"Zz,zA->AZ", "ab,bc->ca", 2, {{2, {2, 3}}, {2, {3, 4}}}},
      {"bA,bA", "bc,bc->", 2, {{2, {2, 3}}, {2, {2, 3}}}},
      {"Ba,aC", "ab,bc->ac", 2, {{2, {2, 3}}, {2, {3, 4}}}},
      // more
      {"ab,bc,cd->ad", "ab,bc,cd->ad", 3, {{2, {2, 3}}, {2, {3, 4}}, {2, {4, 2}}}},
      {"ab,ab,ab->ba", "ab,ab,ab->ba", 3, {{2, {2, 3}}, {2, {2, 3}}, {2, {2, 1}}}},
      {"i,j,k,l", "i,j,k,l->ijkl", 4, {{1, {2}}, {1, {3}}, {1, {2}}, {1, {3}}}},
      {"...i,ij,...j->...", "xi,ij,xj->x", 3, {{2, {4, 2}}, {2, {2, 3}}, {2, {4, 3}}}},
  };
  for (size_t i = 0; i < sizeof examples / sizeof *examples; ++i) check(&examples[i]);
}

static void refusals(void **state) {
  (void)state;
  static const struct {
    const char *equation, *message;
    int32_t count;
  } cases[] = {
      {"ab,bc->ac", "there are more terms than operands", 1},
      {"ab", "there are more operands than terms", 2},
      {"abc,bc", "operand 0 has 2 dims, and its term 3 letters", 2},
      {"a,bc", "operand 0 has 2 dims, and its term 1 letters", 2},
      {"ab,bc->ad", "the result has a letter of no operand", 2},
      {"ab,bc->aa", "the result has a letter twice", 2},
      {"ab,ab", "the letter 'a' has two sizes, 2 and 3", 2},
      {"a1,bc", "it has letters, commas", 2},
      {"ab,bc-", "'-' without '>'", 2},
      {"ab,bc->a,c", "something behind the result", 2},
      {"......,bc", "two ellipses", 2},
      {"ab", "1 to 32 operands", 0},
      {NULL, "operand 0 has 2 dims, and its term 0 letters", 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    shoal_model_t *model = new_model(0);
    shoal_graph_t *g = shoal_model_graph(model, "f");
    const shoal_value_t x[] = {shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(2, 3)),
                               shoal_input(g, "y", SHOAL_F64, SHOAL_SHAPE(3, 4))};
    const int line = __LINE__ + 1;
    shoal_nn_einsum(g, cases[i].equation, cases[i].count, x);
    shoal_status_t status = shoal_model_status(model);
    assert_int_equal(shoal_status_code(status), SHOAL_INVALID_ARGUMENT);
    if (!strstr(shoal_status_message(status), cases[i].message)) {
      fail_msg("no '%s' in '%s'", cases[i].message, shoal_status_message(status));
    }
    assert_int_equal(shoal_status_line(status), line);
    shoal_status_free(status);
    shoal_model_free(model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

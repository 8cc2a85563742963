// Gradients of graphs: contributions are summed, unused values get zeros, ties share, and nodes
// that no gradient needs are pruned. (Each op's own gradient: `shoal check ops`.)
#include "graph_support.h"

// x is used three times, z not at all: contributions are summed, unused values get zeros, and
// nothing that no gradient needs stays in the graph.
static void sums_zeros_and_pruning(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SCALAR);
  shoal_value_t y = shoal_input(g, "y", SHOAL_F64, SHOAL_SCALAR);
  shoal_value_t z = shoal_input(g, "z", SHOAL_F64, SHOAL_SHAPE(3));
  shoal_scope_push(g, "fc");
  shoal_value_t xy = node(g, "shoal.mul", x, y), xx = node(g, "shoal.mul", x, x);
  shoal_value_t loss = node(g, "shoal.add", xy, xx), gradients[2];
  shoal_scope_pop(g);
  int64_t before = g->nodes.count;
  shoal_gradients(g, loss, 2, (shoal_value_t[]){x, z}, gradients);
  assert_ok(shoal_model_verify(model));
  for (int64_t i = before; i < g->nodes.count; ++i) {
    assert_int_equal(strncmp(g->nodes.items[i].name, "grad/", 5), 0);
    bool used = false;  // each new node leads to a gradient
    for (int64_t k = i + 1; k < g->nodes.count; ++k) {
      for (int32_t n = 0; n < g->nodes.items[k].input_count; ++n) {
        used |= g->nodes.items[k].inputs[n] == g->nodes.items[i].outputs[0];
      }
    }
    for (int k = 0; k < 2; ++k) used |= gradients[k].id == g->nodes.items[i].outputs[0];
    assert_true(used);
  }
  const char *first = g->nodes.items[before].name;
  assert_string_equal(first, "grad/fc/add/full");
  shoal_interpreter_t *in;
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  double xv = 3, yv = 5, zv[3] = {1, 2, 3};
  assert_ok(shoal_interpreter_feed(in, "x", &xv, 8));
  assert_ok(shoal_interpreter_feed(in, "y", &yv, 8));
  assert_ok(shoal_interpreter_feed(in, "z", zv, 24));
  assert_ok(shoal_interpreter_run(in, "f"));
  shoal_tensor_t t;
  assert_ok(shoal_interpreter_value(in, gradients[0].id, &t));
  assert_true(element(t, 0) == 5 + 2 * 3);
  assert_ok(shoal_interpreter_value(in, gradients[1].id, &t));
  assert_true(element(t, 0) == 0 && element(t, 2) == 0 && t.shape.dims[0] == 3);
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

// Where two operands, or elements of a reduction, are equal, they share the gradient.
static void ties_share(void **state) {
  (void)state;
  static const char *const ops[] = {"shoal.maximum", "shoal.minimum"};
  for (int k = 0; k < 2; ++k) {
    shoal_model_t *model = new_model(0);
    shoal_graph_t *g = shoal_model_graph(model, "f");
    shoal_value_t in[2] = {shoal_input(g, "a", SHOAL_F64, SHOAL_SHAPE(3)),
                           shoal_input(g, "b", SHOAL_F64, SHOAL_SHAPE(3))};
    shoal_value_t chosen = node(g, ops[k], in[0], in[1]), sum, gradients[2];
    shoal_node_add(g, "shoal.reduce_sum", 1, &chosen, 1,
                   (shoal_attr_t[]){shoal_attr_ints("dims", 1, (int64_t[]){0})}, 1, &sum);
    shoal_gradients(g, sum, 2, in, gradients);
    shoal_interpreter_t *run;
    assert_ok(shoal_interpreter_create(model, NULL, &run));
    assert_ok(shoal_interpreter_feed(run, "a", (double[]){1, 2, 3}, 24));
    assert_ok(shoal_interpreter_feed(run, "b", (double[]){2, 2, 2}, 24));
    assert_ok(shoal_interpreter_run(run, "f"));
    for (int i = 0; i < 2; ++i) {
      shoal_tensor_t t;
      assert_ok(shoal_interpreter_value(run, gradients[i].id, &t));
      const bool a_first = (i == 0) == (k == 1);  // the smaller one is a's, the larger b's
      assert_true(element(t, 0) == (a_first ? 1 : 0) && element(t, 1) == 0.5);
      assert_true(element(t, 2) == (a_first ? 0 : 1));
    }
    shoal_interpreter_free(run);
    shoal_model_free(model);
  }
}

// A gradient node of several outputs stays when only one of them is needed, whichever it is.
static void one_of_several_outputs(void **state) {
  (void)state;
  for (int which = 0; which < 3; ++which) {
    shoal_model_t *model = new_model(0);
    shoal_graph_t *g = shoal_model_graph(model, "f");
    shoal_value_t in[3] = {shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(2, 3)),
                           shoal_input(g, "gamma", SHOAL_F64, SHOAL_SHAPE(3)),
                           shoal_input(g, "beta", SHOAL_F64, SHOAL_SHAPE(3))};
    shoal_value_t out[3], sum, gradient;
    shoal_node_add(g, "shoal.layer_norm", 3, in, 1, (shoal_attr_t[]){shoal_attr_real("eps", 1e-5)},
                   3, out);
    shoal_node_add(g, "shoal.reduce_sum", 1, out, 1,
                   (shoal_attr_t[]){shoal_attr_ints("dims", 2, (int64_t[]){0, 1})}, 1, &sum);
    shoal_gradients(g, sum, 1, &in[which], &gradient);
    assert_ok(shoal_model_verify(model));
    shoal_type_t want = shoal_value_type(in[which]), have = shoal_value_type(gradient);
    assert_true(shoal_shape_equal(&want.shape, &have.shape));
    shoal_model_free(model);
  }
}

// Parts of an attention that have seen nothing get no gradient, whatever they hold.
static void parts_that_saw_nothing(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t value = shoal_input(g, "value", SHOAL_F64, SHOAL_SHAPE(2, 3, 1)), gradients[2];
  shoal_value_t lse = shoal_input(g, "lse", SHOAL_F64, SHOAL_SHAPE(2, 3)), merged[2];
  shoal_node_add(g, "shoal.lse_merge", 2, ((shoal_value_t[]){value, lse}), 0, NULL, 2, merged);
  const shoal_attr_t all = shoal_attr_ints("dims", 2, (int64_t[]){0, 1});
  shoal_value_t loss;
  shoal_node_add(g, "shoal.reduce_sum", 1, &merged[0], 1, &all, 1, &loss);
  shoal_gradients(g, loss, 2, ((shoal_value_t[]){value, lse}), gradients);
  assert_ok(shoal_model_verify(model));
  shoal_interpreter_t *in;
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  const double none = -INFINITY, lses[] = {0, none, 1, log(3), none, none};
  const double values[] = {1, NAN, 5, 3, NAN, NAN};
  assert_ok(shoal_interpreter_feed(in, "value", values, sizeof values));
  assert_ok(shoal_interpreter_feed(in, "lse", lses, sizeof lses));
  assert_ok(shoal_interpreter_run(in, "f"));
  // Weights 1/4 and 3/4 of 1 and 3, which are 2.5 together; nothing; all of the first.
  const double by_value[] = {0.25, 0, 1, 0.75, 0, 0}, by_lse[] = {-0.375, 0, 0, 0.375, 0, 0};
  shoal_tensor_t t[2];
  for (int k = 0; k < 2; ++k) assert_ok(shoal_interpreter_value(in, gradients[k].id, &t[k]));
  for (int64_t i = 0; i < 6; ++i) {
    assert_true(fabs(element(t[0], i) - by_value[i]) < 1e-12);
    assert_true(fabs(element(t[1], i) - by_lse[i]) < 1e-12);
  }
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_zeros_and_pruning),
      cmocka_unit_test(parts_that_saw_nothing),
      cmocka_unit_test(ties_share),
      cmocka_unit_test(one_of_several_outputs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

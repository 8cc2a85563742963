// Every op's own example calls, twice over: the gradient against central finite differences in f64
// (of a random projection of the outputs), and the decomposition against the fused op, values and
// gradients. The case that fails is printed: it is the reproducer.
#include "base/philox.h"
#include "graph_support.h"
#include "op/case.h"

typedef struct problem {
  shoal_arena_t arena;
  shoal_case_t test_case;
  const char *text;
  shoal_model_t *model;  // graph "f": inputs a0.., node "node", output "loss" and outputs "out0"..
  shoal_value_t loss;    // null: no float output
  int32_t output_count;
  shoal_value_t inputs[SHOAL_CASE_MAX_INPUTS];
  int64_t floats;  // float inputs
} problem_t;

static int64_t bytes_of(const shoal_type_t *type) {
  return shoal_shape_count(&type->shape) * (int64_t)shoal_dtype_size(type->dtype);
}

// sum(out * projection), where the projection is a fixed pseudo-random input "p<i>".
static shoal_value_t project(problem_t *p, shoal_graph_t *g, int32_t index, shoal_value_t out) {
  shoal_type_t type = shoal_value_type(out);
  char name[16];
  snprintf(name, sizeof name, "p%d", index);
  shoal_value_t weights = shoal_input(g, name, type.dtype, type.shape), sum;
  shoal_value_t product = node(g, "shoal.mul", out, weights);
  int64_t dims[SHOAL_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
  shoal_attr_t attrs[] = {shoal_attr_ints("dims", type.shape.rank, dims),
                          shoal_attr_int("keep", 0)};
  shoal_node_add(g, "shoal.reduce_sum", 1, &product, 2, attrs, 1, &sum);
  (void)p;
  return sum;
}

// The loss projects output `which`, or all outputs of the first one's dtype if it is -1.
static void problem_init(problem_t *p, const shoal_op_t *op, const char *text, int32_t which) {
  *p = (problem_t){.text = text};
  shoal_arena_init(shoal_allocator_system(), &p->arena);
  assert_ok(shoal_case_parse(op, text, &p->arena, &p->test_case));
  p->model = new_model(5);
  shoal_graph_t *g = shoal_model_graph(p->model, "f");
  for (int32_t i = 0; i < p->test_case.input_count; ++i) {
    char name[16];
    snprintf(name, sizeof name, "a%d", i);
    shoal_type_t type = p->test_case.inputs[i];
    p->inputs[i] = shoal_input(g, name, type.dtype, type.shape);
    p->floats += shoal_dtype_is_float(type.dtype);
  }
  shoal_attr_t *attrs = SHOAL_NEW(&p->arena, shoal_attr_t, op->attr_count);
  int32_t count = 0;
  for (int32_t i = 0; i < op->attr_count; ++i) {
    if (op->attrs[i].kind == SHOAL_ATTR_PLACE) continue;
    attrs[count++] = (shoal_attr_t){op->attrs[i].name, op->attrs[i].kind, p->test_case.attrs[i]};
  }
  shoal_value_t outputs[8];
  p->output_count = shoal_op_outputs(op, p->test_case.attrs);
  assert_true(p->output_count <= 8);
  shoal_node_add(g, op->name, p->test_case.input_count, p->inputs, count, attrs, p->output_count,
                 outputs);
  for (int32_t i = 0; i < p->output_count; ++i) {
    char name[16];
    snprintf(name, sizeof name, "out%d", i);
    shoal_output(g, name, outputs[i]);
    shoal_dtype_t dtype = shoal_value_type(outputs[i]).dtype;
    if (!shoal_dtype_is_float(dtype) || (which >= 0 && which != i)) continue;
    if (p->loss.graph && dtype != shoal_value_type(p->loss).dtype) continue;
    shoal_value_t loss = project(p, g, i, outputs[i]);
    p->loss = p->loss.graph ? node(g, "shoal.add", p->loss, loss) : loss;
  }
  if (p->loss.graph) shoal_output(g, "loss", p->loss);
  assert_ok(shoal_model_verify(p->model));
}

static void problem_deinit(problem_t *p) {
  shoal_model_free(p->model);
  shoal_arena_deinit(&p->arena);
}

static void feed_all(problem_t *p, shoal_interpreter_t *in, const shoal_graph_t *g) {
  for (int64_t i = 0; i < g->inputs.count; ++i) {
    const char *name = g->inputs.items[i].name;
    const shoal_type_t *type = &g->values.items[g->inputs.items[i].value].type;
    int64_t bytes = bytes_of(type);
    shoal_tensor_t tensor = {
        .data = test_calloc(1, (size_t)bytes + 1), .dtype = type->dtype, .shape = type->shape};
    int32_t index = name[1] - '0';
    if (name[0] == 'a') {
      shoal_case_fill(&p->test_case, index, 11, tensor);
    } else {
      shoal_case_t plain = {0};
      shoal_case_fill(&plain, index, 12, tensor);
    }
    assert_ok(shoal_interpreter_feed(in, name, tensor.data, (size_t)bytes));
    test_free(tensor.data);
  }
}

// Moves one element of one input while the interpreter runs. All inputs are jittered: half-size
// floats have ties, and maxima have no gradient there.
typedef struct move {
  int32_t value;
  int64_t element;
  double delta;
} move_t;

static void apply_move(void *self, const shoal_graph_t *graph, int32_t value,
                       shoal_tensor_t tensor) {
  const move_t *move = self;
  if (graph->values.items[value].source != SHOAL_FROM_INPUT || tensor.dtype != SHOAL_F64) return;
  double *x = tensor.data;
  for (int64_t i = 0; i < shoal_shape_count(&tensor.shape); ++i) {
    x[i] += 1e-3 * shoal_philox_uniform(shoal_philox_word(3, (uint64_t)value, 0, (uint64_t)i));
  }
  if (value == move->value) x[move->element] += move->delta;
}

static double loss_at(shoal_interpreter_t *in, move_t *move, double delta) {
  move->delta = delta;
  assert_ok(shoal_interpreter_run(in, "f"));
  shoal_tensor_t loss;
  assert_ok(shoal_interpreter_output(in, "loss", &loss));
  return element(loss, 0);
}

// Gradients by all float inputs in `model`'s graph "f"; false if an op on the way has none.
static bool add_gradients(problem_t *p, shoal_model_t *model, int32_t *out_values) {
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t wrt[SHOAL_CASE_MAX_INPUTS], gradients[SHOAL_CASE_MAX_INPUTS], loss = {g, -1};
  int32_t count = 0;
  for (int64_t i = 0; i < g->outputs.count; ++i) {
    if (strcmp(g->outputs.items[i].name, "loss") == 0) loss.id = g->outputs.items[i].value;
  }
  for (int64_t i = 0; i < g->inputs.count; ++i) {
    int32_t value = g->inputs.items[i].value;
    bool is_operand = g->inputs.items[i].name[0] == 'a';
    if (is_operand && shoal_dtype_is_float(g->values.items[value].type.dtype)) {
      wrt[count++] = (shoal_value_t){g, value};
    }
  }
  shoal_gradients(g, loss, count, wrt, gradients);
  for (int32_t i = 0; i < count; ++i) out_values[i] = gradients[i].id;
  shoal_status_t status = shoal_model_status(model);
  bool unsupported = shoal_status_code(status) == SHOAL_UNSUPPORTED;
  if (status && !unsupported) print_error("%s ; %s\n", p->test_case.op->name, p->text);
  if (unsupported) {
    shoal_status_free(status);
    return false;
  }
  assert_ok(status);
  assert_ok(shoal_model_verify(model));
  return true;
}

// Promoted: whatever the case's dtypes are, both sides are computed in f64.
static bool check_gradient(problem_t *p) {
  if (!p->loss.graph || !p->floats || !p->test_case.op->gradient) return false;
  shoal_interpreter_t *in, *moved;
  move_t move = {.value = -1}, none = move;
  shoal_interpreter_options_t promote = {
      .promote = true, .observe = apply_move, .observe_self = &none};
  shoal_interpreter_options_t moving = {
      .promote = true, .observe = apply_move, .observe_self = &move};
  assert_ok(shoal_interpreter_create(p->model, &moving, &moved));
  feed_all(p, moved, shoal_model_find_graph(p->model, "f"));
  // gradient nodes go into a copy, so that differences run the forward graph only
  shoal_model_t *copy;
  assert_ok(shoal_model_expand(p->model, "f", NULL, 0, &copy));
  int32_t gradients[SHOAL_CASE_MAX_INPUTS];
  if (!add_gradients(p, copy, gradients))
    fail_msg("no gradient: %s(%s)", p->test_case.op->name, p->text);
  assert_ok(shoal_interpreter_create(copy, &promote, &in));
  feed_all(p, in, shoal_model_find_graph(copy, "f"));
  assert_ok(shoal_interpreter_run(in, "f"));
  for (int32_t i = 0, k = 0; i < p->test_case.input_count; ++i) {
    if (!shoal_dtype_is_float(p->test_case.inputs[i].dtype)) continue;
    shoal_tensor_t gradient;
    assert_ok(shoal_interpreter_value(in, gradients[k++], &gradient));
    int64_t count = shoal_shape_count(&gradient.shape), stride = count / 40 + 1;
    double largest = 1;
    for (int64_t e = 0; e < count; ++e) largest = fmax(largest, fabs(element(gradient, e)));
    for (int64_t e = 0; e < count; e += stride) {
      double h = 1e-5;
      move = (move_t){.value = p->inputs[i].id, .element = e};
      double difference = (loss_at(moved, &move, h) - loss_at(moved, &move, -h)) / (2 * h);
      double error = fabs(difference - element(gradient, e));
      if (!(error <= 2e-7 * largest)) {
        fail_msg("%s(%s): input %d element %lld: gradient %.12g, difference %.12g",
                 p->test_case.op->name, p->text, i, (long long)e, element(gradient, e), difference);
      }
    }
  }
  shoal_interpreter_free(in);
  shoal_interpreter_free(moved);
  shoal_model_free(copy);
  return true;
}

static void compare(problem_t *p, const char *what, shoal_tensor_t a, shoal_tensor_t b) {
  assert_int_equal(a.dtype, b.dtype);
  assert_true(shoal_shape_equal(&a.shape, &b.shape));
  int64_t count = shoal_shape_count(&a.shape);
  double largest = 1, tolerance = 64 * shoal_dtype_epsilon(a.dtype);
  for (int64_t i = 0; i < count; ++i) largest = fmax(largest, fabs(element(a, i)));
  for (int64_t i = 0; i < count; ++i) {
    double x = element(a, i), y = element(b, i);
    if (x == y || fabs(x - y) <= tolerance * largest || (isnan(x) && isnan(y))) continue;
    print_error("%s(%s): %s element %lld: fused %.12g, decomposed %.12g\n", p->test_case.op->name,
                p->text, what, (long long)i, x, y);
    fail();
  }
}

static void check_decomposition(problem_t *p, int *differentiated) {
  const shoal_graph_t *g = shoal_model_find_graph(p->model, "f");
  const char *name = g->nodes.items[0].name;
  shoal_model_t *expanded, *fused;
  shoal_interpreter_t *a, *b;
  assert_ok(shoal_model_expand(p->model, "f", &name, 1, &expanded));
  assert_ok(shoal_model_expand(p->model, "f", NULL, 0, &fused));
  assert_ok(shoal_model_verify(expanded));
  const shoal_graph_t *h = shoal_model_find_graph(expanded, "f");
  int32_t grads_a[SHOAL_CASE_MAX_INPUTS], grads_b[SHOAL_CASE_MAX_INPUTS];
  bool gradients =
      p->loss.graph && p->floats && p->test_case.op->gradient && add_gradients(p, fused, grads_a);
  gradients = gradients && add_gradients(p, expanded, grads_b);
  if (!gradients) {  // an attempt may have left an error behind
    shoal_model_free(expanded);
    shoal_model_free(fused);
    assert_ok(shoal_model_expand(p->model, "f", &name, 1, &expanded));
    assert_ok(shoal_model_expand(p->model, "f", NULL, 0, &fused));
    h = shoal_model_find_graph(expanded, "f");
  }
  assert_ok(shoal_interpreter_create(fused, NULL, &a));
  assert_ok(shoal_interpreter_create(expanded, NULL, &b));
  feed_all(p, a, shoal_model_find_graph(fused, "f"));
  feed_all(p, b, h);
  assert_ok(shoal_interpreter_run(a, "f"));
  assert_ok(shoal_interpreter_run(b, "f"));
  for (int64_t i = 0; i < g->outputs.count; ++i) {
    shoal_tensor_t x, y;
    assert_ok(shoal_interpreter_output(a, g->outputs.items[i].name, &x));
    assert_ok(shoal_interpreter_output(b, g->outputs.items[i].name, &y));
    compare(p, g->outputs.items[i].name, x, y);
  }
  for (int32_t i = 0; gradients && i < p->floats; ++i) {
    shoal_tensor_t x, y;
    assert_ok(shoal_interpreter_value(a, grads_a[i], &x));
    assert_ok(shoal_interpreter_value(b, grads_b[i], &y));
    compare(p, "gradient", x, y);
  }
  *differentiated += gradients;
  // the node's outputs keep their names, unless they are inputs passed through
  assert_true(h->nodes.count >= 1);
  shoal_interpreter_free(a);
  shoal_interpreter_free(b);
  shoal_model_free(fused);
  shoal_model_free(expanded);
}

static void every_case(void **state) {
  (void)state;
  shoal_registry_t *registry;
  assert_ok(shoal_registry_create(shoal_allocator_system(), &registry));
  int cases = 0, gradients = 0, decompositions = 0, differentiated = 0;
  for (int64_t i = 0; i < shoal_registry_count(registry); ++i) {
    const shoal_op_t *op = shoal_registry_op(registry, i);
    for (int64_t k = 0; op->cases && op->cases[k]; ++k) {
      // gradients may take other paths when only some outputs have one
      int32_t outputs = 0;
      for (int32_t which = -1; which < outputs; ++which) {
        problem_t p;
        problem_init(&p, op, op->cases[k], which);
        outputs = p.output_count > 1 ? p.output_count : 0;
        gradients += check_gradient(&p);
        if (op->decompose) {
          check_decomposition(&p, &differentiated);
          ++decompositions;
        }
        problem_deinit(&p);
      }
      ++cases;
    }
  }
  print_message("%d cases, %d gradients, %d decompositions (%d with gradients)\n", cases, gradients,
                decompositions, differentiated);
  assert_true(gradients > 200 && decompositions > 70 && differentiated > 40);
  shoal_registry_release(registry);
}

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
      cmocka_unit_test(every_case),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// What nodes are for: forward, input gradient, weight gradient, update, and the forward node that a
// gradient belongs to. Recorded when the graph is written and kept by expansion and text.
#include <string.h>

#include "graph_support.h"
#include "op/case.h"
#include "shoal/nn.h"
#include "shoal/ops.h"

static const shoal_node_t *find(const shoal_graph_t *graph, const char *name) {
  for (int64_t i = 0; i < graph->nodes.count; ++i)
    if (strcmp(graph->nodes.items[i].name, name) == 0) return &graph->nodes.items[i];
  fail_msg("no node '%s'", name);
  return NULL;
}

static const char *of(const shoal_graph_t *graph, const shoal_node_t *node) {
  return node->of < 0 ? "" : graph->nodes.items[node->of].name;
}

static void expect(const shoal_graph_t *graph, const char *name, const char *kind,
                   const char *belongs_to) {
  const shoal_node_t *node = find(graph, name);
  assert_string_equal(shoal_node_kind_name(node->kind), kind);
  assert_string_equal(of(graph, node), belongs_to);
}

// Two linear layers, the second weight transposed and used twice, softmax in between.
static shoal_model_t *two_layers(void) {
  shoal_model_t *model = new_model(3);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_state_options_t trainable = {.init = {SHOAL_INIT_NORMAL, 0, 1}, .trainable = true};
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(4, 3));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(4));
  shoal_value_t v = shoal_state(g, "v", SHOAL_F32, SHOAL_SHAPE(3, 5), &trainable);
  shoal_value_t w = shoal_state(g, "w", SHOAL_F32, SHOAL_SHAPE(5, 5), &trainable);
  shoal_scope_push(g, "one");
  shoal_value_t h = shoal_softmax(g, shoal_matmul(g, x, v), 1);
  shoal_scope_pop(g);
  shoal_scope_push(g, "two");
  shoal_value_t turned = shoal_transpose(g, w, SHOAL_SHAPE(1, 0));
  shoal_value_t out = shoal_matmul(g, shoal_matmul(g, h, turned), turned);
  shoal_scope_pop(g);
  shoal_minimize_sgd(g, shoal_nn_cross_entropy(g, out, y), &(shoal_sgd_t){.lr = 0.1});
  assert_ok(shoal_model_verify(model));
  return model;
}

static void kinds_of_a_training_step(void **state) {
  (void)state;
  shoal_model_t *model = two_layers();
  const shoal_graph_t *g = shoal_model_find_graph(model, "train");
  expect(g, "one/matmul", "forward", "");
  expect(g, "grad/cross_entropy/full", "input_gradient", "cross_entropy");
  expect(g, "grad/one/softmax/softmax_grad", "input_gradient", "one/softmax");
  // The sum into the transposed weight leads to the weight alone.
  expect(g, "grad/two/transpose/add", "weight_gradient", "two/transpose");
  expect(g, "grad/two/transpose/transpose", "weight_gradient", "two/transpose");
  expect(g, "step/add", "update", "");
  expect(g, "update/v/sgd_update", "update", "");
  int64_t weights = 0;
  for (int64_t i = 0; i < g->nodes.count; ++i) {
    const shoal_node_t *node = &g->nodes.items[i];
    assert_int_equal(shoal_node_is_gradient(node), strncmp(node->name, "grad/", 5) == 0);
    if (node->kind != SHOAL_NODE_WEIGHT_GRADIENT) continue;
    ++weights;
    for (int64_t k = i + 1; k < g->nodes.count; ++k)  // no input gradient waits for it
      for (int32_t n = 0; n < g->nodes.items[k].input_count; ++n)
        if (g->nodes.items[k].inputs[n] == node->outputs[0])
          assert_int_not_equal(g->nodes.items[k].kind, SHOAL_NODE_INPUT_GRADIENT);
  }
  assert_true(weights >= 5);
  shoal_model_free(model);
}

// A state that two layers read gets a sum that belongs to the first of them, whose gradient comes
// last.
static void sums_into_states(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(2, 2)), gradient;
  shoal_value_t w = shoal_state(g, "w", SHOAL_F64, SHOAL_SHAPE(2, 2), NULL);
  shoal_value_t y = shoal_matmul(g, shoal_matmul(g, x, w), w);
  shoal_value_t loss = shoal_reduce_sum(g, y, SHOAL_SHAPE(0, 1));
  shoal_gradients(g, loss, 1, &w, &gradient);
  assert_ok(shoal_model_verify(model));
  expect(g, "grad/w/add", "weight_gradient", "matmul");
  // Gradients of gradients belong to the forward node as well.
  shoal_value_t second = shoal_reduce_sum(g, gradient, SHOAL_SHAPE(0, 1)), again;
  int64_t before = g->nodes.count;
  shoal_gradients(g, second, 1, &x, &again);
  assert_ok(shoal_model_verify(model));
  int64_t owned = 0;
  for (int64_t i = before; i < g->nodes.count; ++i) {
    assert_int_equal(g->nodes.items[i].kind, SHOAL_NODE_INPUT_GRADIENT);
    if (g->nodes.items[i].of < 0) continue;
    assert_int_equal(g->nodes.items[g->nodes.items[i].of].kind, SHOAL_NODE_FORWARD);
    ++owned;
  }
  assert_true(owned > 0);
  shoal_model_free(model);
}

// ---- which ops give the gradients of their input and of their weights apart ------------

// Does one node of the gradient of this case yield the gradient of input 0, which comes from data,
// and another one's, which is a state? 0: no, and all others are weight gradients. 2: no, but the
// data's gradient is made from a state's. -1: the case has no two float inputs with gradients.
static int yields_both(const shoal_op_t *op, const char *text) {
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_case_t c;
  assert_ok(shoal_case_parse(op, text, &arena, &c));
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t in[SHOAL_CASE_MAX_INPUTS], wrt[SHOAL_CASE_MAX_INPUTS], out[8], loss = {NULL, -1};
  shoal_value_t gradients[SHOAL_CASE_MAX_INPUTS];
  int32_t count = 0, states = 0;
  for (int32_t i = 0; i < c.input_count; ++i) {
    char name[16];
    snprintf(name, sizeof name, "a%d", (int)i);
    bool data = count == 0 || !shoal_dtype_is_float(c.inputs[i].dtype);
    in[i] = data ? shoal_input(g, name, c.inputs[i].dtype, c.inputs[i].shape)
                 : shoal_state(g, name, c.inputs[i].dtype, c.inputs[i].shape, NULL);
    if (!shoal_dtype_is_float(c.inputs[i].dtype)) continue;
    wrt[count++] = in[i];
    states += !data;
  }
  shoal_attr_t *attrs = SHOAL_NEW(&arena, shoal_attr_t, op->attr_count);
  int32_t attr_count = 0;
  for (int32_t i = 0; i < op->attr_count; ++i) {
    if (op->attrs[i].kind == SHOAL_ATTR_PLACE) continue;
    attrs[attr_count++] = (shoal_attr_t){op->attrs[i].name, op->attrs[i].kind, c.attrs[i]};
  }
  int result = -1;
  if (op->gradient && states > 0) {
    const int32_t outputs = shoal_op_outputs(op, c.attrs);
    assert_true(outputs <= 8);
    shoal_node_add(g, op->name, c.input_count, in, attr_count, attrs, outputs, out);
    int32_t main_output = 0;
    while (main_output < outputs && !shoal_dtype_is_float(shoal_value_type(out[main_output]).dtype))
      ++main_output;
    if (main_output < outputs) {
      shoal_shape_t dims = {.rank = shoal_value_type(out[main_output]).shape.rank};
      for (int32_t d = 0; d < dims.rank; ++d) dims.dims[d] = d;
      loss = shoal_reduce_sum(g, out[main_output], dims);
      shoal_gradients(g, loss, count, wrt, gradients);
      assert_ok(shoal_model_verify(model));
      int32_t first = g->values.items[gradients[0].id].node;
      result = g->nodes.items[first].of < 0 ? -1 : 0;  // zeros
      for (int32_t i = 1; i < count; ++i) {
        int32_t other = g->values.items[gradients[i].id].node;
        const shoal_node_t *node = &g->nodes.items[other];
        if (other == first && gradients[i].id != gradients[0].id) result = 1;
        if (other != first && node->kind != SHOAL_NODE_WEIGHT_GRADIENT) result = 2;
      }
      assert_int_equal(g->nodes.items[first].kind, SHOAL_NODE_INPUT_GRADIENT);
    }
  }
  shoal_model_free(model);
  shoal_arena_deinit(&arena);
  return result;
}

static void which_ops_split(void **state) {
  (void)state;
  // One node for both gradients: it counts as an input gradient, and nothing can be put off.
  static const char *const joint[] = {"shoal.layer_norm", "shoal.rms_norm", "shoal.batch_norm",
                                      "shoal.group_norm", "shoal.attention"};
  static const char *const apart[] = {"shoal.matmul", "shoal.einsum", "shoal.conv", "shoal.mul"};
  shoal_registry_t *registry;
  assert_ok(shoal_registry_create(shoal_allocator_system(), &registry));
  int seen = 0;
  for (int64_t i = 0; i < shoal_registry_count(registry); ++i) {
    const shoal_op_t *op = shoal_registry_op(registry, i);
    int most = -1, known = 0;
    for (int64_t k = 0; op->cases && op->cases[k]; ++k) {
      int both = yields_both(op, op->cases[k]);
      most = both > most ? both : most;
    }
    for (size_t k = 0; k < sizeof joint / sizeof *joint; ++k)
      known |= strcmp(op->name, joint[k]) == 0;
    if (most == 1 && !known) fail_msg("%s: one node yields both gradients", op->name);
    if (known) assert_int_equal(most, 1);  // yields_both checks that it is an input gradient
    for (size_t k = 0; k < sizeof apart / sizeof *apart; ++k) {
      if (strcmp(op->name, apart[k]) != 0) continue;
      assert_int_equal(most, 0);
      ++seen;
    }
  }
  assert_int_equal(seen, sizeof apart / sizeof *apart);
  shoal_registry_release(registry);
}

// ---- text, expansion, hashes, errors ---------------------------------------------------

static void expect_same(const shoal_graph_t *a, const shoal_graph_t *b) {
  assert_int_equal(a->nodes.count, b->nodes.count);
  for (int64_t i = 0; i < a->nodes.count; ++i) {
    assert_int_equal(a->nodes.items[i].kind, b->nodes.items[i].kind);
    assert_int_equal(a->nodes.items[i].of, b->nodes.items[i].of);
  }
}

static void text_and_expansion_keep_them(void **state) {
  (void)state;
  shoal_model_t *model = two_layers(), *copy, *expanded;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *text;
  assert_ok(shoal_model_print(model, &arena, &text));
  assert_non_null(strstr(text, " : f32[3, 5] weight_gradient of \"one/matmul\"\n"));
  assert_non_null(strstr(text, " update\n"));
  assert_null(strstr(text, "forward"));
  assert_ok(shoal_model_parse("text", text, NULL, &copy));
  assert_true(shoal_model_hash(model) == shoal_model_hash(copy));
  expect_same(shoal_model_find_graph(model, "train"), shoal_model_find_graph(copy, "train"));
  const char *nodes[] = {"one/softmax", "grad/one/softmax/softmax_grad"};
  assert_ok(shoal_model_expand(model, "train", nodes, 2, &expanded));
  assert_ok(shoal_model_verify(expanded));
  const shoal_graph_t *g = shoal_model_find_graph(expanded, "train");
  int64_t parts = 0;
  for (int64_t i = 0; i < g->nodes.count; ++i) {
    const shoal_node_t *node = &g->nodes.items[i];
    if (strncmp(node->name, "grad/one/softmax/softmax_grad/", 30) != 0) continue;
    assert_int_equal(node->kind, SHOAL_NODE_INPUT_GRADIENT);
    assert_int_equal(strncmp(of(g, node), "one/softmax/", 12), 0);
    ++parts;
  }
  assert_true(parts > 1);
  expect(g, "grad/two/transpose/add", "weight_gradient", "two/transpose");
  expect(g, "update/v/sgd_update", "update", "");
  shoal_model_free(expanded);
  shoal_model_free(copy);
  shoal_model_free(model);
  shoal_arena_deinit(&arena);
}

static void hashes_tell_them_apart(void **state) {
  (void)state;
  shoal_model_t *model = two_layers();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  uint64_t all = shoal_model_hash(model), structure = shoal_model_structure_hash(model);
  shoal_node_t *node = (shoal_node_t *)find(g, "grad/two/transpose/add");
  node->kind = SHOAL_NODE_INPUT_GRADIENT;
  assert_ok(shoal_model_verify(model));
  assert_true(shoal_model_hash(model) != all && shoal_model_structure_hash(model) != structure);
  node->kind = SHOAL_NODE_WEIGHT_GRADIENT;
  assert_true(shoal_model_structure_hash(model) == structure);
  --node->of;
  assert_true(shoal_model_structure_hash(model) != structure);
  shoal_model_free(model);
}

static void what_is_broken(void **state) {
  (void)state;
  shoal_model_t *model = two_layers();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_node_t *node = (shoal_node_t *)find(g, "grad/two/transpose/add"), good = *node;
  node->kind = SHOAL_NODE_KIND_COUNT;
  assert_error(MISMATCH, "its kind is 4", shoal_model_verify(model));
  *node = good;
  node->kind = SHOAL_NODE_UPDATE;
  assert_error(MISMATCH, "it is no gradient", shoal_model_verify(model));
  *node = good;
  node->of = (int32_t)(find(g, "update/v/sgd_update") - g->nodes.items);
  assert_error(MISMATCH, "no forward node before it", shoal_model_verify(model));
  node->of = (int32_t)(find(g, "grad/cross_entropy/full") - g->nodes.items);
  assert_error(MISMATCH, "no forward node before it", shoal_model_verify(model));
  shoal_model_free(model);
  const char *text =
      "model seed=0\ngraph f\n  %0 = input x f32[2]\n"
      "  %1 \"neg\" = shoal.neg(%0) : f32[2] input_gradient of \"later\"\n";
  assert_error(INVALID_ARGUMENT, "there is no node 'later' above",
               shoal_model_parse("text", text, NULL, &model));
}

// Who writes updates by hand says so.
static void by_hand(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(2));
  shoal_value_t w = shoal_state(g, "w", SHOAL_F32, SHOAL_SHAPE(2), NULL);
  shoal_kind_push(g, SHOAL_NODE_UPDATE);
  shoal_value_t sum = shoal_add(g, w, x);
  shoal_kind_push(g, SHOAL_NODE_FORWARD);
  shoal_value_t product = shoal_mul(g, w, x);
  shoal_kind_pop(g);
  shoal_value_t difference = shoal_sub(g, sum, product);
  shoal_kind_pop(g);
  shoal_assign(g, w, difference);
  shoal_output(g, "out", shoal_neg(g, product));
  assert_ok(shoal_model_verify(model));
  expect(g, "add", "update", "");
  expect(g, "mul", "forward", "");
  expect(g, "sub", "update", "");
  expect(g, "neg", "forward", "");
  shoal_kind_pop(g);
  assert_error(INVALID_ARGUMENT, "no kind of node is", shoal_model_status(model));
  shoal_model_free(model);
  model = new_model(0);
  g = shoal_model_graph(model, "train");
  shoal_kind_push(g, (shoal_node_kind_t)9);
  shoal_kind_pop(g);
  assert_error(INVALID_ARGUMENT, "unknown kind of node (9)", shoal_model_status(model));
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kinds_of_a_training_step),
      cmocka_unit_test(sums_into_states),
      cmocka_unit_test(which_ops_split),
      cmocka_unit_test(text_and_expansion_keep_them),
      cmocka_unit_test(hashes_tell_them_apart),
      cmocka_unit_test(what_is_broken),
      cmocka_unit_test(by_hand),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

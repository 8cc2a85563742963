// Records in words, for every op; and builders that take what may be left out.
// links: graph
#include <string.h>

#include "graph/graph.h"
#include "shoal/op.h"
#include "shoal/ops.h"
#include "unit/unit.h"

typedef struct shelf {
  shoal_registry_t *registry;
  shoal_arena_t *arena;
} shelf_t;

static shelf_t open_shelf(void) {
  shelf_t shelf = {0};
  assert_ok(shoal_registry_create(shoal_allocator_system(), &shelf.registry));
  assert_ok(shoal_arena_create(shoal_allocator_system(), &shelf.arena));
  return shelf;
}

static void close_shelf(shelf_t *shelf) {
  shoal_arena_free(shelf->arena);
  shoal_registry_release(shelf->registry);
}

static shoal_op_description_t describe(const shelf_t *shelf, const char *name) {
  const shoal_op_t *op;
  shoal_op_description_t d;
  assert_ok(shoal_op_find(shelf->registry, name, &op));
  assert_ok(shoal_op_describe(shelf->registry, op, shelf->arena, &d));
  return d;
}

// Nothing is empty, everything the record has is in the text, and what is said of gradients is so.
static void test_every_op(void **state) {
  (void)state;
  shelf_t shelf = open_shelf();
  for (int64_t i = 0; i < shoal_registry_count(shelf.registry); ++i) {
    const shoal_op_t *op = shoal_registry_op(shelf.registry, i);
    const shoal_op_description_t d = describe(&shelf, op->name);
    assert_true(d.family[0] && strcmp(d.family, "Others") != 0);
    assert_true(strncmp(op->doc, d.summary, strlen(d.summary)) == 0 && d.summary[0]);
    assert_non_null(strstr(d.text, op->name));
    for (int32_t k = 0; k < op->attr_count; ++k) {
      assert_non_null(strstr(d.text, op->attrs[k].name));
      assert_true((d.attrs[k].fallback != NULL) ==
                  (op->attrs[k].optional && op->attrs[k].kind != SHOAL_ATTR_PLACE));
      assert_true((d.attrs[k].role[0] != 0) == (op->attrs[k].role != SHOAL_ROLE_PLAIN));
    }
    assert_true((strcmp(d.gradient, "no") == 0) == !op->gradient);
    assert_true((d.decomposition != NULL) == (op->decompose != NULL));
    if (op->decompose) assert_non_null(strstr(d.decomposition, "shoal."));
  }
  close_shelf(&shelf);
}

static void test_words(void **state) {
  (void)state;
  shelf_t shelf = open_shelf();
  assert_string_equal(describe(&shelf, "shoal.add").gradient, "yes");
  assert_string_equal(describe(&shelf, "shoal.softmax").gradient, "through shoal.softmax_grad");
  assert_string_equal(describe(&shelf, "shoal.conv").gradient,
                      "through shoal.conv_grad_x, shoal.conv_grad_w");
  assert_string_equal(describe(&shelf, "shoal.equal").gradient, "none flows");
  assert_string_equal(describe(&shelf, "shoal.softmax_grad").gradient, "no");
  const shoal_op_description_t softmax = describe(&shelf, "shoal.softmax");
  assert_non_null(strstr(softmax.decomposition, "shoal.reduce_max, "));
  assert_non_null(strstr(softmax.text, "\nin place       out over x\n"));
  const shoal_op_description_t slice = describe(&shelf, "shoal.slice");
  assert_string_equal(slice.attrs[0].kind, "integers");
  assert_string_equal(slice.attrs[0].role, "a position along each dim of x");
  assert_string_equal(slice.attrs[1].role, "a size along each dim of out");
  assert_null(slice.attrs[1].fallback);
  assert_string_equal(describe(&shelf, "shoal.cast").summary, "x as another dtype.");
  assert_non_null(strstr(describe(&shelf, "shoal.cast").text, "f8_e4m3"));
  assert_non_null(strstr(describe(&shelf, "shoal.pad").text,
                         "shoal_pad(graph, x, start, shape); shoal_pad_with takes options: value"));
  assert_non_null(strstr(slice.text, "\nin C           shoal_slice(graph, x, start, size)\n"));
  const shoal_op_description_t concat = describe(&shelf, "shoal.concat");
  assert_non_null(strstr(concat.text, "xs (one or more)"));
  close_shelf(&shelf);
}

static shoal_status_t any_type(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = call->inputs[0];
  return NULL;
}

// An op of one's own may have no examples and no doc.
static void test_own_op(void **state) {
  (void)state;
  shelf_t shelf = open_shelf();
  const shoal_op_t op = {.name = "user.same",
                         .input_count = 1,
                         .inputs = (const char *const[]){"x"},
                         .output_count = 1,
                         .outputs = (const char *const[]){"y"},
                         .uncut = "its rows",
                         .infer = any_type};
  assert_ok(shoal_op_register(shelf.registry, &op));
  const shoal_op_description_t d = describe(&shelf, "user.same");
  assert_string_equal(d.family, "Others");
  assert_string_equal(d.summary, "");
  assert_non_null(strstr(d.text, "\nnot cut        its rows\n"));
  close_shelf(&shelf);
}

static const shoal_attr_value_t *attr_of(const shoal_graph_t *g, int64_t node, const char *name) {
  const shoal_node_t *found = &g->nodes.items[node];
  for (int32_t i = 0; i < found->op->attr_count; ++i) {
    if (strcmp(found->op->attrs[i].name, name) == 0) return &found->attrs[i];
  }
  fail_msg("no attribute %s", name);
  return NULL;
}

// What is zero in the options, or without options, is the default.
static void test_options(void **state) {
  (void)state;
  shoal_model_t *model = NULL;
  assert_ok(shoal_model_create(NULL, &model));
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(2, 3));
  shoal_value_t w = shoal_input(g, "w", SHOAL_F32, SHOAL_SHAPE(3, 4));
  shoal_output(g, "a", shoal_pad(g, x, SHOAL_SHAPE(0, 1), SHOAL_SHAPE(2, 5)));
  shoal_output(g, "b",
               shoal_pad_with(g, x, SHOAL_SHAPE(0, 1), SHOAL_SHAPE(2, 5),
                              &(shoal_pad_options_t){.value = 1.5}));
  shoal_output(g, "c", shoal_pad_with(g, x, SHOAL_SHAPE(0, 1), SHOAL_SHAPE(2, 5), NULL));
  shoal_output(
      g, "d",
      shoal_matmul_with(g, w, x, &(shoal_matmul_options_t){.transpose_a = 1, .transpose_b = 1}));
  assert_ok(shoal_model_status(model));
  assert_true(attr_of(g, 0, "value")->f == 0);
  assert_true(attr_of(g, 1, "value")->f == 1.5);
  assert_true(attr_of(g, 2, "value")->f == 0);
  assert_int_equal(attr_of(g, 3, "transpose_a")->i, 1);
  const shoal_type_t *type = &g->values.items[g->outputs.items[3].value].type;
  assert_true(shoal_shape_equal(&type->shape, &SHOAL_SHAPE(4, 2)));
  // errors blame the caller
  shoal_pad_with(g, x, SHOAL_SHAPE(0, 1), SHOAL_SHAPE(1, 5), &(shoal_pad_options_t){.value = 1});
  assert_error(INVALID_ARGUMENT, "shoal.pad", shoal_model_status(model));
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_op),
      cmocka_unit_test(test_words),
      cmocka_unit_test(test_own_op),
      cmocka_unit_test(test_options),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

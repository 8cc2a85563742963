// links: all
//
// The ZeRO strategies: what rests where, the bytes that a step sends - exactly those of the paper's
// formulas - and the memory of states per rank, to the byte.
#include <stdlib.h>
#include <string.h>

#include "plan_support.h"
#include "shoal/nn.h"
#include "shoal/ops.h"
#include "shoal/optimize.h"
#include "shoal/simulate.h"

static shoal_rules_t *rules;
static shoal_cluster_t *rings;  // collectives as the formulas count them, however small

static int set_up(void **state) {
  (void)state;
  rules = new_rules();
  assert_ok(shoal_cluster_parse("cluster", "a100x8:1", shoal_allocator_system(), &rings));
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  shoal_cluster_free(rings);
  shoal_rules_free(rules);
  return 0;
}

// Sizes that 4 ranks divide.
static shoal_model_t *even_mlp(void) {
  return make_mlp(&(mlp_sizes_t){
      .batch = 16, .in_features = 16, .hidden = 24, .classes = 8, .layers = 3, .dtype = SHOAL_F32});
}

static shoal_model_t *even_gpt(bool tied) {
  return make_gpt(&(gpt_sizes_t){.batch = 8,
                                 .context = 4,
                                 .vocabulary = 16,
                                 .width = 24,
                                 .heads = 4,
                                 .layers = 2,
                                 .tied = tied,
                                 .dtype = SHOAL_F32});
}

// ---- bytes ------------------------------------------------------------------------------

static int64_t bytes_of(const shoal_type_t *type) {
  return shoal_shape_count(&type->shape) * (int64_t)shoal_dtype_size(type->dtype);
}

// Bytes of all weights, and of those that the backward pass reads.
static void weigh(const shoal_model_t *model, int64_t *out_all, int64_t *out_again) {
  const shoal_graph_t *graph = shoal_model_find_graph(model, "train");
  bool *again = calloc((size_t)model->states.count, sizeof *again);
  for (int64_t n = 0; n < graph->nodes.count; ++n)
    for (int32_t i = 0; i < graph->nodes.items[n].input_count; ++i) {
      const shoal_value_info_t *in = &graph->values.items[graph->nodes.items[n].inputs[i]];
      if (in->source == SHOAL_FROM_STATE && shoal_node_is_gradient(&graph->nodes.items[n]))
        again[in->index] = true;
    }
  *out_all = *out_again = 0;
  for (int64_t s = 0; s < model->states.count; ++s) {
    const shoal_state_info_t *state = &model->states.items[s];
    if (!state->options.trainable) continue;
    *out_all += bytes_of(&state->type);
    if (again[s]) *out_again += bytes_of(&state->type);
  }
  free(again);
}

// All that the ranks send in a step, divided by n - 1: per rank the formulas' bytes x (n - 1)/n.
static int64_t sent_by(const shoal_model_t *model, const char *strategy, const char *mesh,
                       int32_t world) {
  shoal_plan_t *plan = plan_by(model, rules, strategy, mesh, world);
  shoal_program_t *program = lower(plan);
  shoal_simulation_t *simulation;
  assert_ok(shoal_simulate(program, &(shoal_simulate_options_t){.cluster = rings}, &simulation));
  double sent = 0;
  for (int level = 0; level < SHOAL_CLUSTER_LEVEL_COUNT; ++level) sent += simulation->bytes[level];
  shoal_simulation_free(simulation);
  shoal_program_free(program);
  shoal_plan_free(plan);
  const int64_t whole = (int64_t)(sent + 0.5);
  assert_true(sent - (double)whole < 1e-6 && (double)whole - sent < 1e-6);
  assert_int_equal(whole % (world - 1), 0);
  return whole / (world - 1);
}

// G is W here: gradients have the weights' type. `scalars`: reduced in each step besides.
static void expect_bytes(const shoal_model_t *model, int64_t scalars) {
  int64_t all, again;
  weigh(model, &all, &again);
  assert_true(all % 4 == 0 && again > 0 && again < all);
  const int64_t apart = 2 * (int64_t)sizeof(float);  // the loss, all-reduced
  for (int32_t n = 2; n <= 4; n += 2)
    for (int64_t m = n / 4 + 1; m <= 3; m += 2) {  // 1 and 3, 2
      char mesh[32];
      snprintf(mesh, sizeof mesh, "data=%d,micro=%d", n, (int)m);
      assert_int_equal(sent_by(model, "data", mesh, n), 2 * all + apart);
      const int64_t more = apart + scalars * 2 * (int64_t)sizeof(float);
      assert_int_equal(sent_by(model, "zero1", mesh, n), 2 * all + more);
      assert_int_equal(sent_by(model, "zero2", mesh, n), (m + 1) * all + more);
      // What the backward pass does not read - biases, the first layer - is gathered once.
      assert_int_equal(sent_by(model, "zero3", mesh, n), m * (2 * all + again) + more);
    }
}

static void test_bytes(void **state) {
  (void)state;
  shoal_model_t *model = even_mlp();
  expect_bytes(model, 0);
  shoal_model_free(model);
  model = even_gpt(false);
  expect_bytes(model, 0);
  shoal_model_free(model);
  model = even_gpt(true);  // the table is gathered for both of its uses at once
  expect_bytes(model, 0);
  shoal_model_free(model);
}

// A perceptron trained by a recipe.
static shoal_model_t *make_by(const shoal_recipe_t *recipe, int64_t width, int64_t layers,
                              shoal_dtype_t dtype, bool mixed) {
  shoal_model_t *model;
  assert_ok(shoal_model_create(&(shoal_model_options_t){.seed = 7, .mixed = mixed}, &model));
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", dtype, SHOAL_SHAPE(16, width));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(16));
  for (int64_t i = 0; i < layers; ++i) {
    char name[32];
    snprintf(name, sizeof name, "fc%d", (int)i);
    x = shoal_relu(g, shoal_nn_linear(g, name, x, width));
  }
  shoal_value_t loss = shoal_nn_cross_entropy(g, shoal_nn_linear(g, "out", x, width), y);
  shoal_optimize(g, loss, recipe);
  shoal_output(g, "loss", loss);
  assert_ok(shoal_model_status(model));
  return model;
}

// Plain SGD has no moments to say where gradients go, here with a group that has some; and clipping
// reads all gradients before they are used.
static void test_bytes_of_recipes(void **state) {
  (void)state;
  const shoal_parameter_group_t groups[] = {{.pattern = "out/*", .optimizer = "adamw"}};
  shoal_model_t *model =
      make_by(&(shoal_recipe_t){.optimizer = "sgd", .groups = groups, .group_count = 1}, 16, 2,
              SHOAL_F32, false);
  expect_bytes(model, 0);
  shoal_model_free(model);
  model = make_by(&(shoal_recipe_t){.training = {.clip_norm = 1, .average = 0.9}}, 16, 2, SHOAL_F32,
                  false);
  expect_bytes(model, 1);
  shoal_model_free(model);
}

// In mixed precision masters are shared out from zero1 on, and their narrow copies are what is
// gathered: half of the bytes. In zero3 these copies are let go between forward and backward.
static void test_mixed(void **state) {
  (void)state;
  shoal_model_t *model = make_by(NULL, 16, 2, SHOAL_BF16, true);
  int64_t all, again;
  weigh(model, &all, &again);
  assert_int_equal(again, 0);  // only casts read the masters
  const int64_t first = 16 * 16 * 4, biases = 3 * 16 * 4;
  const int64_t apart = 2 * (int64_t)sizeof(float);
  for (int64_t m = 2; m <= 3; ++m) {
    char mesh[32];
    snprintf(mesh, sizeof mesh, "data=4,micro=%d", (int)m);
    assert_int_equal(sent_by(model, "zero1", mesh, 4), all + all / 2 + apart);
    assert_int_equal(sent_by(model, "zero2", mesh, 4), m * all + all / 2 + apart);
    assert_int_equal(sent_by(model, "zero3", mesh, 4),
                     m * (all + all / 2 + (all - first - biases) / 2) + apart);
  }
  shoal_plan_t *plan = plan_by(model, rules, "zero1", NULL, 4);
  expect_state(plan, "fc0/weight", "data:flat");
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// ---- memory -----------------------------------------------------------------------------

typedef struct memory {
  int64_t states, arena;
} memory_t;

static memory_t memory_of(const shoal_model_t *model, const char *strategy, int32_t world) {
  shoal_plan_t *plan = plan_by(model, rules, strategy, NULL, world);
  shoal_program_t *program = lower(plan);
  assert_int_equal(program->class_count, 1);
  const shoal_class_t *c = &program->classes[0];
  memory_t memory = {.arena = c->arena_bytes[SHOAL_MEMORY_DEVICE]};
  for (int64_t b = 0; b < c->buffer_count; ++b)
    if (c->buffers[b].kind == SHOAL_BUFFER_STATE) memory.states += c->buffers[b].bytes;
  shoal_program_free(program);
  shoal_plan_free(plan);
  return memory;
}

// zero3 keeps a quarter of everything but the scalars (learning rate and step, a line of 64 bytes
// each), and what it gathers does not add up: two layers more cost a quarter of their states, and
// their activations.
static void test_memory(void **state) {
  (void)state;
  shoal_model_t *few = make_by(NULL, 64, 2, SHOAL_F32, false);
  shoal_model_t *many = make_by(NULL, 64, 6, SHOAL_F32, false);
  const int64_t layer = (64 * 64 + 64) * 4, scalars = 2 * 64;
  const memory_t one = memory_of(few, "data", 4), four = memory_of(few, "zero3", 4);
  assert_int_equal(one.states, 3 * 3 * layer + scalars);  // weights and two moments
  assert_int_equal(four.states, 3 * 3 * layer / 4 + scalars);
  assert_int_equal(memory_of(few, "zero1", 4).states, 3 * layer + 2 * 3 * layer / 4 + scalars);
  const memory_t more = memory_of(many, "zero3", 4);
  assert_int_equal(more.states, 3 * 7 * layer / 4 + scalars);
  const int64_t activation = 4 * 64 * 4;  // of a rank, two kept per layer
  assert_true(more.arena - four.arena <= more.states - four.states + 4 * 2 * activation);
  shoal_model_free(many);
  shoal_model_free(few);
}

static shoal_status_t lower_choices(const shoal_model_t *model, const char *strategy,
                                    shoal_choices_t choices, int64_t memory) {
  shoal_plan_t *plan;
  assert_ok(
      shoal_plan_make(model, rules,
                      &(shoal_plan_options_t){
                          .strategy = strategy, .mesh = "data=4", .world = 4, .choices = choices},
                      &plan));
  shoal_program_t *program = NULL;
  shoal_status_t status = shoal_lower(plan, &(shoal_lower_options_t){.memory = memory}, &program);
  assert_true((status != NULL) == (program == NULL));
  shoal_program_free(program);
  shoal_plan_free(plan);
  return status;
}

static shoal_status_t lower_within(const shoal_model_t *model, const char *strategy,
                                   int64_t memory) {
  return lower_choices(model, strategy, (shoal_choices_t){0}, memory);
}

// A limit to the byte: what zero3 can do is refused for `data`, with what is missing.
static void test_memory_limit(void **state) {
  (void)state;
  shoal_model_t *model = make_by(NULL, 64, 6, SHOAL_F32, false);
  const int64_t needed = memory_of(model, "data", 4).arena;
  char missing[64];
  assert_ok(lower_within(model, "data", 0));
  assert_ok(lower_within(model, "data", needed));
  assert_error(UNSUPPORTED, ": 1 B are missing", lower_within(model, "data", needed - 1));
  const int64_t little = memory_of(model, "zero3", 4).arena;
  assert_true(little < needed);
  snprintf(missing, sizeof missing, "rank 0 needs %.1f KiB of memory", (double)needed / 1024);
  assert_error(UNSUPPORTED, missing, lower_within(model, "data", little));
  snprintf(missing, sizeof missing, "%.1f KiB are missing (%lld bytes)",
           (double)(needed - little) / 1024, (long long)(needed - little));
  assert_error(UNSUPPORTED, missing, lower_within(model, "data", little));
  assert_error(UNSUPPORTED, "strategy zero3", lower_within(model, "data", little));
  assert_ok(lower_within(model, "zero3", little));
  // What the plan does already is not suggested.
  shoal_status_t status = lower_within(model, "zero3", little - 1);
  assert_int_equal(strncmp(shoal_status_hint(status), "recompute (--decide", 19), 0);
  shoal_status_free(status);
  // Nor is what would not help: of states, scalars are left on the device.
  const shoal_choices_t all = {.recompute = "*",
                               .offload = "optimizer=file,weights=file,activations=file"};
  status = lower_choices(model, "zero3", all, 10000);
  assert_string_equal(shoal_status_hint(status),
                      "use more micro-batches (micro=2), or use more ranks");
  shoal_status_free(status);
  shoal_model_free(model);
}

// ---- nodes ------------------------------------------------------------------------------

// States are shared out inside a node only; between nodes go a rank's parts of the gradients.
static void test_hybrid(void **state) {
  (void)state;
  shoal_model_t *model = even_mlp();
  shoal_plan_t *plan = plan_by(model, rules, "hybrid-zero", "node=2,data=4,micro=2", 8);
  expect_layout(plan, "x", "micro:0,node:0,data:0");
  expect_state(plan, "fc1/weight", "data:flat");
  expect_state(plan, "fc1/weight#adamw.v", "data:flat");
  shoal_program_t *program = lower(plan);
  shoal_cluster_t *cluster;
  shoal_simulation_t *simulation;
  int64_t all, again;
  weigh(model, &all, &again);
  assert_ok(shoal_cluster_parse("cluster", "a100x4:2", shoal_allocator_system(), &cluster));
  assert_ok(shoal_simulate(program, &(shoal_simulate_options_t){.cluster = cluster}, &simulation));
  // Each of 8 ranks all-reduces a quarter of the gradients with its peer in each micro-batch; the
  // loss comes on top, from one rank of each node or from all.
  const int64_t far = 8 * 2 * all / 4, near = 8 * 2 * 3 * (2 * all + again) / 4;
  const int64_t sent_far = (int64_t)simulation->bytes[SHOAL_CLUSTER_NETWORK];
  const int64_t sent_near = (int64_t)simulation->bytes[SHOAL_CLUSTER_NODE];
  assert_in_range(sent_far, far, far + 8 * 2 * 4);
  assert_in_range(sent_near, near, near + 8 * 2 * 4);
  shoal_simulation_free(simulation);
  shoal_cluster_free(cluster);
  shoal_program_free(program);
  shoal_plan_free(plan);
  // Without the axis, the cluster's nodes divide `data`, also beside other axes.
  static const struct {
    const char *mesh, *cluster, *divided;
  } cases[] = {{NULL, "a100x4:2", "node=2,data=4"},
               {"data=4,tensor=2", "a100x4:2", "node=2,data=2,tensor=2"},
               {NULL, "a100x8:1", "data=8"},
               {"tensor=2,data=4", "a100x2:4", "tensor=2,node=2,data=2"},
               {NULL, NULL, "data=8"}};
  shoal_plan_options_t options = {.strategy = "hybrid-zero", .world = 8};
  for (int64_t i = 0; i < COUNT(cases); ++i) {
    options.mesh = cases[i].mesh;
    options.cluster = cases[i].cluster;
    assert_ok(shoal_plan_make(model, rules, &options, &plan));
    assert_string_equal(shoal_plan_intent(plan)->meshes[0], cases[i].divided);
    expect_state(plan, "fc1/bias#adamw.m",
                 strstr(cases[i].divided, "tensor") ? "tensor:0,data:flat" : "data:flat");
    shoal_plan_free(plan);
  }
  options.cluster = "a100x3:3";
  options.mesh = NULL;
  assert_error(INVALID_ARGUMENT, "different numbers of the 8 ranks",
               shoal_plan_make(model, rules, &options, &plan));
  options.cluster = "a100x4:2";
  options.mesh = "data=2,tensor=4";  // a node has room for one part: nothing is shared out
  assert_ok(shoal_plan_make(model, rules, &options, &plan));
  assert_string_equal(shoal_plan_intent(plan)->meshes[0], "node=2,data=1,tensor=4");
  expect_state(plan, "fc1/weight#adamw.v", "tensor:1");
  shoal_plan_free(plan);
  options.cluster = "a100x2:4";
  assert_error(INVALID_ARGUMENT, "nodes of 2 ranks do not divide the 2 ranks along data",
               shoal_plan_make(model, rules, &options, &plan));
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bytes),        cmocka_unit_test(test_bytes_of_recipes),
      cmocka_unit_test(test_mixed),        cmocka_unit_test(test_memory),
      cmocka_unit_test(test_memory_limit), cmocka_unit_test(test_hybrid),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

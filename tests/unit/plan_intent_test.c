// links: all
//
// Intents that cannot be meant: each is one clear error that names what is wrong and what to do.
#include "plan_model_fixture.h"

static int set_up(void **state) {
  (void)state;
  return set_up_with(small_mlp(7));
}

#define STRINGS(...)                                                                 \
  .mesh_count = COUNT(((const char *[]){__VA_ARGS__})), .meshes = (const char *[]) { \
    __VA_ARGS__                                                                      \
  }
#define LAYOUT(pattern, value)                            \
  .layout_count = 1, .layouts = &(shoal_intent_entry_t) { \
    pattern, value                                        \
  }
#define STAGE(pattern, value)                           \
  .stage_count = 1, .stages = &(shoal_intent_entry_t) { \
    pattern, value                                      \
  }

// The intent is refused with this code and text; nothing is left behind (asan looks).
#define expect_refused(code, part, ranks, ...)                                          \
  do {                                                                                  \
    shoal_plan_t *refused_ = (shoal_plan_t *)&rules;                                    \
    assert_error(code, part,                                                            \
                 shoal_plan_create(model, rules, &(shoal_intent_t){__VA_ARGS__}, ranks, \
                                   shoal_allocator_system(), &refused_));               \
    assert_null(refused_);                                                              \
  } while (0)

static void test_meshes(void **state) {
  (void)state;
  expect_refused(INVALID_ARGUMENT, "the plan has no mesh", 2, .strategy = "explicit");
  expect_refused(INVALID_ARGUMENT, "mesh 'data=3' has 3 ranks, the world has 2", 2,
                 STRINGS("data=3"));
  expect_refused(INVALID_ARGUMENT, "or list ranks", 2, STRINGS("data=2,tensor=2"));
  expect_refused(INVALID_ARGUMENT, "names rank 4, the world has 4", 4, STRINGS("data=2@3-4"));
  expect_refused(INVALID_ARGUMENT, "differ in micro-batches", 5,
                 STRINGS("a!data=2,micro=3@0-1", "b!data=3,micro=2@2-4"));
  expect_refused(INVALID_ARGUMENT, "differ in micro-batches", 5,
                 STRINGS("a!data=2,micro=3@0-1", "b!data=3@2-4"));
  expect_refused(INVALID_ARGUMENT, "two meshes are called 'a'", 4,
                 STRINGS("a!data=2@0-1", "a!data=2@2-3"));
  expect_refused(INVALID_ARGUMENT, "is not the first and has no name", 4,
                 STRINGS("a!data=2@0-1", "data=2@2-3"));
  expect_refused(INVALID_ARGUMENT, "data=two", 2, STRINGS("data=two"));
}

static void test_layouts(void **state) {
  (void)state;
  expect_refused(NOT_FOUND, "layout 'dta:0' of 'x'", 2, STRINGS("data=2"), LAYOUT("x", "dta:0"));
  expect_refused(NOT_FOUND, "did you mean 'data'?", 2, STRINGS("data=2"), LAYOUT("x", "dta:0"));
  expect_refused(INVALID_ARGUMENT, "layout 'data:2' of 'x'", 2, STRINGS("data=2"),
                 LAYOUT("x", "data:2"));
  expect_refused(NOT_FOUND, "there is no mesh 'b'", 2, STRINGS("data=2"),
                 LAYOUT("fc1/weight", "b!data:0"));
  expect_refused(NOT_FOUND, "did you mean 'fc1/weight'", 2, STRINGS("data=2"),
                 LAYOUT("fc1/wieght", "data:0"));
  expect_refused(NOT_FOUND, "did you mean 'fc2/einsum'", 2, STRINGS("data=2"),
                 LAYOUT("fc2/eisum", "data:0"));
  expect_refused(NOT_FOUND, "'block*/weight' matches no state, input or value", 2,
                 STRINGS("data=2"), LAYOUT("block*/weight", "data:0"));
  expect_refused(INVALID_ARGUMENT, "state 'fc1/weight' cannot be cut along micro", 2,
                 STRINGS("data=2,micro=3"), LAYOUT("fc1/weight", "micro:0"));
  expect_refused(INVALID_ARGUMENT, "state 'fc1/weight' cannot rest trimmed", 2, STRINGS("data=2"),
                 LAYOUT("fc1/weight", "data:0+1-1"));
  expect_refused(INVALID_ARGUMENT, "state 'fc1/weight' cannot rest unreduced", 2, STRINGS("data=2"),
                 LAYOUT("fc1/weight", "data:partial(sum)"));
  expect_refused(INVALID_ARGUMENT, "input 'x' cannot be fed unreduced", 2, STRINGS("data=2"),
                 LAYOUT("x", "data:partial(sum)"));
}

static void test_stages(void **state) {
  (void)state;
  expect_refused(INVALID_ARGUMENT, "stage 'fc2/*' asks for mesh 'c'", 5,
                 STRINGS("a!data=2@0-1", "b!data=3@2-4"), STAGE("fc2/*", "c"));
  expect_refused(NOT_FOUND, "stage 'block1/*' matches no node", 5,
                 STRINGS("a!data=2@0-1", "b!data=3@2-4"), STAGE("block1/*", "b"));
  expect_refused(NOT_FOUND, "expand 'sofmax' matches no node", 2, STRINGS("data=2"),
                 .expand_count = 1, .expand = (const char *[]){"sofmax"});
}

// A model with an error hands that over, whatever the intent.
static void test_broken_model(void **state) {
  (void)state;
  shoal_model_t *broken = empty_model();
  shoal_graph_t *g = shoal_model_graph(broken, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(2, 3)), out;
  shoal_node_add(g, "shoal.nonesuch", 1, &x, 0, NULL, 1, &out);
  shoal_plan_t *plan;
  assert_error(NOT_FOUND, "nonesuch",
               shoal_plan_create(broken, rules, &(shoal_intent_t){STRINGS("data=2")}, 2,
                                 shoal_allocator_system(), &plan));
  shoal_model_free(broken);
}

// Later entries win over earlier ones; patterns cover scopes.
static void test_later_entries_win(void **state) {
  (void)state;
  const shoal_intent_entry_t layouts[] = {
      {"*/weight", "data:0"}, {"fc1/weight", "data:1"}, {"x", "data:0"}, {"x", ""}};
  shoal_plan_t *plan;
  assert_ok(shoal_plan_create(
      model, rules,
      &(shoal_intent_t){STRINGS("data=2"), .layout_count = COUNT(layouts), .layouts = layouts}, 2,
      shoal_allocator_system(), &plan));
  expect_state(plan, "fc1/weight", "data:1");
  expect_state(plan, "fc2/weight", "data:0");
  expect_state(plan, "fc2/bias", "");
  expect_layout(plan, "x", "");
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *text;
  assert_error(NOT_FOUND, "no state 'fc9/weight'",
               shoal_plan_state_layout(plan, "fc9/weight", &arena, &text));
  shoal_arena_deinit(&arena);
  shoal_plan_free(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_meshes),
      cmocka_unit_test(test_layouts),
      cmocka_unit_test(test_stages),
      cmocka_unit_test(test_broken_model),
      cmocka_unit_test(test_later_entries_win),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

// links: all
//
// Many ranks: what the static check finds on a few ranks it finds on a thousand. A plan for 1,024
// ranks has the instructions of one for few, so that the same mutation can be made to both.
#include "base/failing.h"
#include "plan_fixture.h"
#include "program/mutate.h"

static shoal_program_t *lowered(const shoal_model_t *model, const char *strategy, const char *mesh,
                                int32_t world) {
  shoal_plan_t *plan = plan_by(model, rules, strategy, mesh, world);
  shoal_program_t *program = lower(plan);
  shoal_plan_free(plan);
  return program;
}

// Is the mutated program refused? The reason goes to `text`.
static bool is_refused(const shoal_model_t *model, const shoal_mutation_t *mutation,
                       const char **out_text, shoal_arena_t *arena) {
  shoal_program_t *program = NULL;
  shoal_status_t status = shoal_program_parse("mutated", mutation->text, model->registry,
                                              shoal_allocator_system(), &program);
  if (!status) status = shoal_program_check(program, shoal_allocator_system());
  *out_text = status ? shoal_arena_strdup(arena, shoal_status_message(status)) : "passes";
  const bool refused = status != NULL;
  shoal_status_free(status);
  shoal_program_free(program);
  return refused;
}

// Where buffers lie follows from their sizes: what such a change meets differs between the two.
static bool is_of_memory(shoal_mutation_kind_t kind, const char *why) {
  return (kind >= SHOAL_MUTATION_BUFFER_MOVE && kind <= SHOAL_MUTATION_BUFFER_SLOT) ||
         kind == SHOAL_MUTATION_WORKSPACE_MOVE || kind == SHOAL_MUTATION_WORKSPACE_HALVE ||
         strstr(why, "nothing orders the two") || strstr(why, "has been overwritten");
}

// The mutation of `program` that changes the same as `like`, which has number `index` elsewhere.
static bool find_same(const shoal_program_t *program, int64_t index, const shoal_mutation_t *like,
                      shoal_arena_t *arena, shoal_mutation_t *out_mutation) {
  for (int64_t i = index > 8 ? index - 8 : 0; i <= index + 8; ++i) {
    shoal_status_t status = shoal_program_mutate(program, i, arena, out_mutation);
    const bool found = !status && strcmp(out_mutation->description, like->description) == 0;
    shoal_status_free(status);
    if (found) return true;
  }
  return false;
}

// Every `stride`-th mutation: what is refused on few ranks is refused on many. Of those that move
// memory, as many are refused.
static void compare(const shoal_model_t *model, const char *strategy, const char *few_mesh,
                    int32_t few, const char *many_mesh, int32_t many, int64_t stride) {
  shoal_program_t *small = lowered(model, strategy, few_mesh, few);
  shoal_program_t *large = lowered(model, strategy, many_mesh, many);
  assert_ok(shoal_program_check(small, shoal_allocator_system()));
  assert_ok(shoal_program_check(large, shoal_allocator_system()));
  const int64_t count = shoal_program_mutations(large);
  int64_t tried = 0, on_few = 0, on_many = 0;
  for (int64_t i = 0; i < count; i += stride) {
    shoal_arena_t arena;
    shoal_arena_init(shoal_allocator_system(), &arena);
    shoal_mutation_t a, b;
    const char *why_small, *why_large;
    assert_ok(shoal_program_mutate(large, i, &arena, &b));
    if (find_same(small, i, &b, &arena, &a)) {
      const bool refused = is_refused(model, &b, &why_large, &arena);
      const bool expected = is_refused(model, &a, &why_small, &arena);
      if (expected && !refused && !is_of_memory(b.kind, why_small)) {
        fail_msg("%s: on %d ranks '%s', on %d it passes", b.description, few, why_small, many);
      }
      ++tried;
      on_few += expected;
      on_many += refused;
    }
    shoal_arena_deinit(&arena);
  }
  print_message("[          ] %s: of %lld mutations %lld are refused on %d ranks, %lld on %d\n",
                strategy, (long long)tried, (long long)on_few, few, (long long)on_many, many);
  assert_true(tried * 10 > count / stride * 9);
  assert_true(on_many * 100 > on_few * 95);
  shoal_program_free(small);
  shoal_program_free(large);
}

static void test_mutations_of_data(void **state) {
  (void)state;
  shoal_model_t *model = small_mlp(4096);
  compare(model, "data", "data=4", 4, "data=64", 64, 3);
  compare(model, "data", "data=4", 4, "data=1024", 1024, 3);
  compare(model, "data", "data=2,micro=2", 2, "data=1024,micro=2", 1024, 5);
  shoal_model_free(model);
}

static void test_mutations_of_data_and_tensor(void **state) {
  (void)state;
  shoal_model_t *model = make_mlp(
      &(mlp_sizes_t){.batch = 2048, .in_features = 5, .hidden = 64, .classes = 32, .layers = 2});
  compare(model, "tensor", "data=2,tensor=2", 4, "data=32,tensor=2", 64, 3);
  compare(model, "tensor", "data=2,tensor=2", 4, "data=256,tensor=4", 1024, 3);
  shoal_model_free(model);
}

// Two stages of `each` ranks, three micro-batches.
static shoal_program_t *lowered_stages(const shoal_model_t *model, int32_t each) {
  char first[64], second[64];
  snprintf(first, sizeof first, "a!data=%d,micro=3@0-%d", each, each - 1);
  snprintf(second, sizeof second, "b!data=%d,micro=3@%d-%d", each, each, 2 * each - 1);
  const char *const meshes[] = {first, second};
  static const shoal_intent_entry_t stages[] = {
      {"*fc1/*", "a"}, {"*fc2/*", "b"}, {"cross_entropy", "b"}};
  static const shoal_intent_entry_t layouts[] = {{"x", "a!micro:0,data:0"},
                                                 {"y", "b!micro:0,data:0"}};
  shoal_plan_t *plan;
  assert_ok(shoal_plan_create(model, rules,
                              &(shoal_intent_t){.mesh_count = 2,
                                                .meshes = meshes,
                                                .layout_count = 2,
                                                .layouts = layouts,
                                                .stage_count = COUNT(stages),
                                                .stages = stages},
                              2 * each, shoal_allocator_system(), &plan));
  shoal_program_t *program = lower(plan);
  shoal_plan_free(plan);
  return program;
}

// What calls say of slots and of earlier calls, wrong in every way there is.
static void test_mutations_of_calls(void **state) {
  (void)state;
  static const int32_t sizes[] = {1, 32, 512};
  shoal_model_t *model = make_mlp(
      &(mlp_sizes_t){.batch = 3000, .in_features = 5, .hidden = 64, .classes = 32, .layers = 2});
  for (int64_t s = 0; s < COUNT(sizes); ++s) {
    shoal_program_t *program = lowered_stages(model, sizes[s]);
    assert_ok(shoal_program_check(program, shoal_allocator_system()));
    int64_t met[SHOAL_MUTATION_WORKSPACE_HALVE + 1] = {0}, refused[COUNT(met)] = {0};
    for (int64_t i = 0, count = shoal_program_mutations(program); i < count; ++i) {
      shoal_arena_t arena;
      shoal_arena_init(shoal_allocator_system(), &arena);
      shoal_mutation_t mutation;
      const char *why;
      assert_ok(shoal_program_mutate(program, i, &arena, &mutation));
      // A value that lives in one call may lie in another slot, and more slots than are in flight
      // let a boundary arrive early.
      const bool deadly =
          mutation.kind == SHOAL_MUTATION_CALL_WAIT || mutation.kind == SHOAL_MUTATION_ALIAS;
      if (deadly || mutation.kind == SHOAL_MUTATION_CALL_SLOT ||
          mutation.kind == SHOAL_MUTATION_GROUP_SLOT ||
          mutation.kind == SHOAL_MUTATION_CALL_WAIT_BACK ||
          mutation.kind == SHOAL_MUTATION_CALL_WAIT_OTHER) {
        ++met[mutation.kind];
        refused[mutation.kind] += is_refused(model, &mutation, &why, &arena);
        if (deadly && refused[mutation.kind] < met[mutation.kind]) {
          fail_msg("on %d ranks: %s: passes", 2 * sizes[s], mutation.description);
        }
      }
      shoal_arena_deinit(&arena);
    }
    static const shoal_mutation_kind_t kinds[] = {
        SHOAL_MUTATION_CALL_WAIT, SHOAL_MUTATION_CALL_WAIT_BACK, SHOAL_MUTATION_CALL_WAIT_OTHER,
        SHOAL_MUTATION_CALL_SLOT, SHOAL_MUTATION_GROUP_SLOT,     SHOAL_MUTATION_ALIAS};
    for (int64_t k = 0; k < COUNT(kinds); ++k) {
      print_message("[          ] on %d ranks: kind %d: %lld of %lld are refused\n", 2 * sizes[s],
                    kinds[k], (long long)refused[kinds[k]], (long long)met[kinds[k]]);
      assert_true(refused[kinds[k]] > 0 && refused[kinds[k]] * 2 > met[kinds[k]]);
    }
    shoal_program_free(program);
  }
  shoal_model_free(model);
}

// Sizes that do not divide: some ranks have a row more, some have none.
static void test_uneven_on_many(void **state) {
  (void)state;
  shoal_model_t *model = small_mlp(1500);
  for (int32_t ranks = 1000; ranks <= 2000; ranks += 500) {
    char mesh[32];
    snprintf(mesh, sizeof mesh, "data=%d", ranks);
    shoal_program_t *program = lowered(model, "data", mesh, ranks);
    assert_ok(shoal_program_check(program, shoal_allocator_system()));
    shoal_program_free(program);
  }
  shoal_model_free(model);
}

static int64_t blocks_of_check(const shoal_program_t *program) {
  shoal_failing_t counter = {0};
  assert_ok(shoal_program_check(program, shoal_allocator_failing(&counter)));
  return counter.calls;
}

// What the check does, counted in blocks of memory it asks for, does not grow with ranks: also not
// where rows of micro-batches, some of them without any on most ranks, are kept to be fetched.
static void test_cost_on_many(void **state) {
  (void)state;
  shoal_model_t *model = make_gpt(&(gpt_sizes_t){
      .batch = 96, .context = 4, .vocabulary = 8192, .width = 8, .heads = 2, .layers = 1});
  shoal_program_t *few = lowered(model, "data", "data=16,micro=8", 16);
  shoal_program_t *many = lowered(model, "data", "data=1024,micro=8", 1024);
  bool keeps = false;
  for (int64_t b = 0; b < many->classes[0].buffer_count; ++b) {
    const shoal_layout_t *layout = many->classes[0].buffers[b].layout;
    keeps |= layout->cut_count > 0 && layout->cuts[0].chunk_count == 8;
  }
  assert_true(keeps);
  const int64_t on_few = blocks_of_check(few), on_many = blocks_of_check(many);
  print_message("[          ] %lld blocks on 16 ranks, %lld on 1024\n", (long long)on_few,
                (long long)on_many);
  assert_true(on_many * 4 < on_few * 5);
  shoal_program_free(few);
  shoal_program_free(many);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_mutations_of_data),
      cmocka_unit_test(test_mutations_of_data_and_tensor),
      cmocka_unit_test(test_mutations_of_calls),
      cmocka_unit_test(test_uneven_on_many),
      cmocka_unit_test(test_cost_on_many),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

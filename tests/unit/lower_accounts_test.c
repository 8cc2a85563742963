// links: all
//
// Memory by layer and kind (shoal_lower_ledger) against what the program says of itself
// (shoal_program_memory, which finds the peak on its own): states, inputs and what is alive at the
// peak are the same bytes, and what is left of the arena is what is called unused.
#include "plan_fixture.h"

typedef struct example {
  const char *model, *settings, *strategy, *mesh;
  int32_t world;
} example_t;

static const example_t EXAMPLES[] = {
    {"gpt2-tiny", "layers=3", "data", "data=1", 1},
    {"gpt2-tiny", "layers=3", "zero3", "data=3", 3},
    {"gpt2-tiny", "layers=3", "tensor+zero1", "data=2,tensor=2", 4},
    {"cnn-tiny", "batch=5", "data", "data=2,micro=2", 2},
    {"gpt2-tiny", "layers=4", "pipeline", "pipe=2,micro=3", 2},
};

static void expect_equal(const shoal_plan_t *plan, const shoal_program_t *program,
                         shoal_arena_t *arena) {
  for (int64_t c = 0; c < program->class_count; ++c) {
    const shoal_class_t *class = &program->classes[c];
    shoal_memory_use_t use;
    shoal_ledger_t ledger;
    assert_ok(shoal_program_memory(program, c, shoal_allocator_system(), &use));
    assert_string_equal(use.graph, "train");
    assert_ok(shoal_lower_ledger(plan, program, NULL, class->ranks[0], SHOAL_MEMORY_DEVICE, arena,
                                 &ledger));
    int64_t kinds[SHOAL_LEDGER_KIND_COUNT] = {0}, sum = 0;
    for (int64_t i = 0; i < ledger.count; ++i)
      for (int k = 0; k < SHOAL_LEDGER_KIND_COUNT; ++k) kinds[k] += ledger.rows[i].bytes[k];
    for (int k = 0; k < SHOAL_LEDGER_KIND_COUNT; ++k) sum += kinds[k];
    assert_int_equal(kinds[SHOAL_LEDGER_PARAMETERS] + kinds[SHOAL_LEDGER_STATES], use.states);
    assert_int_equal(sum, use.states + use.inputs + use.bound);
    assert_int_equal(ledger.total, class->arena_bytes[SHOAL_MEMORY_DEVICE]);
    assert_int_equal(sum + ledger.unused, ledger.total);
    assert_true(ledger.unused >= 0);
    assert_non_null(ledger.at);
  }
}

static void test_ledger(void **unused) {
  (void)unused;
  for (size_t i = 0; i < sizeof EXAMPLES / sizeof *EXAMPLES; ++i) {
    const example_t *e = &EXAMPLES[i];
    shoal_model_t *model = zoo_model(e->model, e->settings);
    const shoal_plan_options_t options = {
        .strategy = e->strategy, .mesh = e->mesh, .world = e->world};
    shoal_plan_t *plan;
    shoal_arena_t arena;
    shoal_arena_init(shoal_allocator_system(), &arena);
    assert_ok(shoal_plan_make(model, rules, &options, &plan));
    shoal_program_t *program = lower(plan);
    expect_equal(plan, program, &arena);
    shoal_ledger_t ledger;
    assert_error(
        NOT_FOUND, "no graph 'trian'",
        shoal_lower_ledger(plan, program, "trian", 0, SHOAL_MEMORY_DEVICE, &arena, &ledger));
    int64_t count;
    const shoal_traffic_row_t *rows;
    assert_error(INVALID_ARGUMENT, "there is no rank",
                 shoal_lower_traffic(plan, program, NULL, e->world, &arena, &count, &rows));
    assert_ok(shoal_lower_traffic(plan, program, NULL, 0, &arena, &count, &rows));
    assert_int_equal(count > 0, e->world > 1);
    shoal_program_free(program);
    shoal_plan_free(plan);
    shoal_arena_deinit(&arena);
    shoal_model_free(model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_ledger)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

// links: all
//
// Gradients of embeddings by rows: chosen by what it moves, asked for and refused, the bytes of
// both against the formulas, and what a plan file keeps. tests/check_sparse.sh proves the plans,
// session_sparse_test.c counts the rows that are sent.
#include "plan_support.h"

// A row of T ids of V words, C channels, in a batch of B.
enum { B = 6, T = 4, C = 6, SIZE = 4, SMALL = 11, LARGE = 60000 };

#define GRADIENT "grad/embedding/embedding/embedding_grad"

static shoal_rules_t *rules;

static int set_up(void **state) {
  (void)state;
  rules = new_rules();
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  shoal_rules_free(rules);
  return 0;
}

static shoal_model_t *lstm(int64_t vocabulary) {
  char settings[128];
  snprintf(settings, sizeof settings, "batch=%d context=%d width=%d vocabulary=%lld dtype=f32", B,
           T, C, (long long)vocabulary);
  return zoo_model("lstm-tiny", settings);
}

static shoal_status_t make(const shoal_model_t *model, const char *strategy, const char *mesh,
                           int32_t world, const char *pattern, const char *words,
                           shoal_plan_t **out_plan) {
  const shoal_intent_decision_t decision = {.kind = "sync", .pattern = pattern, .choice = words};
  return shoal_plan_make(model, rules,
                         &(shoal_plan_options_t){.strategy = strategy,
                                                 .mesh = mesh,
                                                 .world = world,
                                                 .decision_count = words ? 1 : 0,
                                                 .decisions = &decision},
                         out_plan);
}

static shoal_plan_t *plan(const shoal_model_t *model, const char *strategy, const char *mesh,
                          int32_t world, const char *words) {
  shoal_plan_t *made;
  assert_ok(make(model, strategy, mesh, world, "*", words, &made));
  return made;
}

static bool sends_rows(const shoal_plan_t *made, const char *node) {
  for (int64_t i = 0; i < made->composites.count; ++i)
    if (strcmp(shoal_composite_node(made, &made->composites.items[i])->name, node) == 0)
      return true;
  return false;
}

static void expect_rows(const shoal_model_t *model, const char *strategy, const char *mesh,
                        int32_t world, const char *words, bool expected) {
  shoal_plan_t *made = plan(model, strategy, mesh, world, words);
  if (sends_rows(made, GRADIENT) != expected)
    fail_msg("%s, %s: rows are %ssent", strategy, words ? words : "by cost",
             expected ? "not " : "");
  shoal_plan_free(made);
}

static void test_by_cost(void **state) {
  (void)state;
  shoal_model_t *small = lstm(SMALL), *large = lstm(LARGE);
  static const char *const strategies[] = {"data", "zero1", "zero2", "zero3"};
  for (int i = 0; i < 4; ++i) {
    expect_rows(small, strategies[i], NULL, 3, NULL, false);
    expect_rows(small, strategies[i], NULL, 3, "sparse", true);
    expect_rows(large, strategies[i], NULL, 3, NULL, true);
    expect_rows(large, strategies[i], NULL, 3, "dense", false);
  }
  expect_rows(large, "data", NULL, 3, "dtype=bf16", false);  // somebody says how it is exchanged
  shoal_plan_t *made = plan(large, "data", NULL, 3, NULL);
  expect_way(made, GRADIENT "/embedding_rows", "data", "{ids:0, dy:0 -> ids:0, sums:0, count:0}~");
  expect_way(made, GRADIENT "/rows_add", "data", "");
  expect_layout(made, GRADIENT, "");
  shoal_plan_free(made);
  made = plan(large, "data", "data=3,micro=2", 3, NULL);
  expect_way(made, GRADIENT "/rows_add", "micro", "{ids:0, values:0 -> out:sum}~");
  expect_way(made, GRADIENT "/rows_add", "data", "");
  shoal_plan_free(made);
  shoal_model_free(small);
  shoal_model_free(large);
}

// Tables that are alike are decided apart.
static void test_alike(void **state) {
  (void)state;
  shoal_model_t *model = zoo_model("dlrm-tiny", "tables=60000,60000 hot=1");
  for (int dense = 0; dense < 2; ++dense) {
    shoal_plan_t *made;
    assert_ok(make(model, "data", NULL, 2, dense ? "table1/*" : "table0/*", "dense", &made));
    assert_int_equal(sends_rows(made, "grad/table0/embedding/embedding_grad"), dense == 1);
    assert_int_equal(sends_rows(made, "grad/table1/embedding/embedding_grad"), dense == 0);
    shoal_plan_free(made);
  }
  shoal_model_free(model);
}

// Where the table is just too small: a sum is scattered under zero1, for half of what it costs
// under data, and costs more if each micro-batch does it.
static void test_threshold(void **state) {
  (void)state;
  const int64_t messages = 64 << 10, rows = B * T * (C * SIZE + 8);
  const int64_t even = (messages + rows) / (2 * C * SIZE);  // about as many words
  shoal_model_t *below = lstm(even - 2), *above = lstm(even + 2), *twice = lstm(2 * even + 4);
  expect_rows(below, "data", NULL, 2, NULL, false);
  expect_rows(above, "data", NULL, 2, NULL, true);
  expect_rows(above, "zero1", NULL, 2, NULL, false);
  expect_rows(twice, "zero1", NULL, 2, NULL, true);
  expect_rows(below, "data", "data=2,micro=2", 2, NULL, false);
  expect_rows(below, "data", "data=2,micro=2", 2, "each", true);
  shoal_model_free(below);
  shoal_model_free(above);
  shoal_model_free(twice);
}

// Bytes that rank 0 sends for the gradient of the table; `bounded`: only those of rows.
static int64_t bytes_sent(const shoal_plan_t *made, bool bounded) {
  shoal_program_t *program = lower(made);
  shoal_arena_t arena;
  int64_t count, bytes = 0;
  const shoal_traffic_row_t *rows;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(shoal_lower_traffic(made, program, "train", 0, &arena, &count, &rows));
  for (int64_t i = 0; i < count; ++i)
    if (strncmp(rows[i].name, GRADIENT, strlen(GRADIENT)) == 0 && (!bounded || rows[i].bounded))
      bytes += rows[i].bytes;
  shoal_arena_deinit(&arena);
  shoal_program_free(program);
  return bytes;
}

// Dense, 2 (n-1)/n of the table, or half of it to scatter; by rows, (n-1)/n of the room for them,
// with ids and counts of 8 bytes, once for each micro-batch's.
static void test_bytes(void **state) {
  (void)state;
  shoal_model_t *model = lstm(1200);
  const int64_t table = 1200 * C * SIZE, rows = B * T * (C * SIZE + 8), counts = B * 8;
  for (int32_t n = 2; n <= 6; ++n) {
    if (B % n != 0) continue;
    const int64_t others = n - 1;
    shoal_plan_t *made = plan(model, "data", NULL, n, "dense");
    assert_int_equal(bytes_sent(made, false), 2 * others * table / n);
    shoal_plan_free(made);
    made = plan(model, "zero1", NULL, n, "dense");
    assert_int_equal(bytes_sent(made, false), others * table / n);
    shoal_plan_free(made);
    static const char *const strategies[] = {"data", "zero1", "zero2", "zero3"};
    for (int i = 0; i < 4; ++i) {
      made = plan(model, strategies[i], NULL, n, "sparse");
      assert_int_equal(bytes_sent(made, true), others * rows / n);
      assert_int_equal(bytes_sent(made, false), others * (rows + counts) / n);
      shoal_plan_free(made);
    }
  }
  shoal_plan_t *made = plan(model, "data", "data=2,micro=3", 2, "sparse");
  assert_int_equal(bytes_sent(made, false), (rows + counts) / 2);
  shoal_plan_free(made);
  shoal_model_free(model);
}

// A table that the output layer reads too has a dense summand: by cost it stays dense, and asking
// for rows is refused; a node of it may still be asked for.
static void test_tied(void **state) {
  (void)state;
  shoal_model_t *model = zoo_model("gpt2-tiny", "vocabulary=50000 tied=yes");
  shoal_plan_t *made = plan(model, "data", NULL, 2, NULL);
  assert_false(sends_rows(made, "grad/wte/embedding/embedding_grad"));
  shoal_plan_free(made);
  assert_error(INVALID_ARGUMENT, "is a sum of rows and of what 'grad/head/einsum/einsum_1' makes",
               make(model, "data", NULL, 2, "wte/table", "sparse", &made));
  shoal_model_free(model);
  model = zoo_model("t5-tiny", "vocabulary=50000 tied=no");  // read twice, by both halves
  made = plan(model, "data", NULL, 2, NULL);
  assert_true(sends_rows(made, "grad/embedding/embedding_grad"));
  assert_true(sends_rows(made, "grad/embedding_1/embedding_grad"));
  shoal_plan_free(made);
  shoal_model_free(model);
}

static void test_refused(void **state) {
  (void)state;
  shoal_plan_t *made;
  shoal_model_t *model = lstm(SMALL), *mlp = small_mlp(4), *gan = zoo_model("gan-tiny", "");
  assert_error(INVALID_ARGUMENT,
               "its gradient, which 'grad/layer0/ih/einsum/einsum_1' makes, is "
               "dense",
               make(model, "data", NULL, 2, "layer0/ih/weight", "sparse", &made));
  assert_error(INVALID_ARGUMENT, "is dense", make(mlp, "data", NULL, 2, "*", "sparse", &made));
  assert_error(INVALID_ARGUMENT, "is dense", make(gan, "data", NULL, 2, "*", "sparse", &made));
  assert_error(INVALID_ARGUMENT, "it has no gradient to exchange",
               make(gan, "data", NULL, 2, "step", "sparse", &made));
  assert_error(UNSUPPORTED, "rows are sent in their own type, and it is to be exchanged as bf16",
               make(model, "data", NULL, 2, "*", "dtype=bf16 sparse", &made));
  assert_error(INVALID_ARGUMENT, "'sparce' is no word of sync",
               make(model, "data", NULL, 2, "*", "sparce", &made));
  const shoal_intent_decision_t both[] = {
      {.kind = "sync", .pattern = "embedding/table", .choice = "dense"},
      {.kind = "way", .pattern = GRADIENT, .choice = "data=composite"}};
  assert_error(
      INVALID_ARGUMENT, "was asked for as composite, which sends rows",
      shoal_plan_make(model, rules,
                      &(shoal_plan_options_t){
                          .strategy = "data", .world = 2, .decision_count = 2, .decisions = both},
                      &made));
  shoal_model_free(model);
  shoal_model_free(mlp);
  shoal_model_free(gan);
}

// The words stay with the states that they are about, and a later one wins.
static void test_words(void **state) {
  (void)state;
  shoal_model_t *model = lstm(SMALL);
  const int32_t table = shoal_model_find_state(model, "embedding/table");
  const int32_t other = shoal_model_find_state(model, "layer0/ih/weight");
  shoal_plan_t *made = plan(model, "data", NULL, 2, "sparse");
  assert_int_equal(made->syncs[table].rows, SHOAL_ROWS_SPARSE);
  assert_int_equal(made->syncs[other].rows, SHOAL_ROWS_BY_COST);
  shoal_plan_free(made);
  made = plan(model, "data", NULL, 2, "sparse dense");
  assert_int_equal(made->syncs[table].rows, SHOAL_ROWS_DENSE);
  assert_false(sends_rows(made, GRADIENT));
  shoal_plan_free(made);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_by_cost),   cmocka_unit_test(test_alike),
      cmocka_unit_test(test_threshold), cmocka_unit_test(test_bytes),
      cmocka_unit_test(test_tied),      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_words),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

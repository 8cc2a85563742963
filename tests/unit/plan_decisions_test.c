// links: all
//
// Decisions of an intent: each kind arrives in the fields that lowering reads, a later one wins,
// and what cannot be meant is refused with a message that names it.
#include <stdlib.h>

#include "plan_model_fixture.h"
#include "shoal/schedule.h"

static int set_up(void **state) {
  (void)state;
  return set_up_with(small_gpt(false));
}

static const char *const mesh_texts[] = {"data=2"};

static shoal_status_t try_plan(int64_t count, const shoal_intent_decision_t *decisions,
                               shoal_plan_t **out_plan) {
  const shoal_intent_t intent = {
      .mesh_count = 1, .meshes = mesh_texts, .decision_count = count, .decisions = decisions};
  return shoal_plan_create(model, rules, &intent, 2, shoal_allocator_system(), out_plan);
}

static shoal_plan_t *plan_with(int64_t count, const shoal_intent_decision_t *decisions) {
  shoal_plan_t *plan;
  assert_ok(try_plan(count, decisions, &plan));
  return plan;
}

#define PLAN(...)                                                    \
  plan_with(COUNT(((const shoal_intent_decision_t[]){__VA_ARGS__})), \
            (const shoal_intent_decision_t[]){__VA_ARGS__})
static void refuse(shoal_code_t code, const char *kind, const char *pattern, const char *choice,
                   const char *message, const char *hint) {
  const shoal_intent_decision_t decision = D(kind, pattern, choice);
  shoal_plan_t *plan = NULL;
  shoal_status_t status = try_plan(1, &decision, &plan);
  if (!status) fail_msg("'%s %s %s' was not refused", kind, pattern, choice);
  assert_int_equal(shoal_status_code(status), code);
  if (!strstr(shoal_status_message(status), message))
    fail_msg("'%s' does not say '%s'", shoal_status_message(status), message);
  if (!strstr(shoal_status_hint(status), hint))
    fail_msg("'%s' does not say '%s'", shoal_status_hint(status), hint);
  shoal_status_free(status);
  assert_null(plan);
}

static shoal_keep_t keep(const shoal_plan_t *plan, const char *value) {
  const shoal_graph_plan_t *gp = train_of(plan);
  for (int64_t v = 0; v < gp->graph->values.count; ++v)
    if (strcmp(gp->graph->values.items[v].name, value) == 0) return gp->keeps[v];
  fail_msg("no value '%s'", value);
  return SHOAL_KEEP;
}

static void test_unknown(void **state) {
  (void)state;
  refuse(SHOAL_NOT_FOUND, "recomptue", "block*", "yes", "no kind of decision 'recomptue'",
         "did you mean 'recompute'?");
  refuse(SHOAL_INVALID_ARGUMENT, "recompute", "block*", "perhaps", "'recompute block* perhaps'",
         "yes|no");
  refuse(SHOAL_INVALID_ARGUMENT, "recompute", "update/*", "yes",
         "'recompute update/* yes': 'update/", "forward pass");
  refuse(SHOAL_INVALID_ARGUMENT, "recompute", "grad/block0*", "yes", "is not part of the forward",
         "forward pass");
  refuse(SHOAL_INVALID_ARGUMENT, "keep", "wte/table", "hosts", "'hosts' is no choice of keep",
         "did you mean 'host'?");
  refuse(SHOAL_INVALID_ARGUMENT, "schedule", "train", "1f2b", "'1f2b' is no choice", "1f1b");
  refuse(SHOAL_INVALID_ARGUMENT, "schedule", "train", "gpipe twice", "is no choice", "");
  refuse(SHOAL_INVALID_ARGUMENT, "sync", "wte/table", "eachh", "'eachh' is no word of sync",
         "did you mean 'each'?");
  refuse(SHOAL_INVALID_ARGUMENT, "sync", "wte/table", "bucket=4Q", "'4Q' is no size", "bucket=4M");
  refuse(SHOAL_INVALID_ARGUMENT, "sync", "wte/table", "bucket=-1", "'-1' is no size", "bucket=4M");
  refuse(SHOAL_INVALID_ARGUMENT, "stage", "wte/*", "z", "asks for mesh 'z'",
         "give the mesh a name");
  refuse(SHOAL_INVALID_ARGUMENT, "schedule", "train", "table", "has no entries", "a row for each");
  refuse(SHOAL_INVALID_ARGUMENT, "sync", "wte/table", "dtype=i32", "no type of floats", "bf16");
  static const char *const scales[] = {"", "3", "0", "-2", "2x", "inf", "nan", "2147483648"};
  for (int64_t i = 0; i < COUNT(scales); ++i) {
    char choice[32], message[64];
    snprintf(choice, sizeof choice, "dtype=f16 scale=%s", scales[i]);
    snprintf(message, sizeof message, "scale '%s' is no power of two", scales[i]);
    refuse(SHOAL_INVALID_ARGUMENT, "sync", "wte/table", choice, message, "scale=1024");
  }
  refuse(SHOAL_INVALID_ARGUMENT, "sync", "wte/table", "each scale=8",
         "state 'wte/table' has a scale and no dtype", "dtype=f16 scale=1024");
  refuse(SHOAL_INVALID_ARGUMENT, "sync", "wte/table#*", "each",
         "'sync wte/table#* each': about state 'wte/table#adamw.m': it has no gradient",
         "states that are trained");
  refuse(SHOAL_INVALID_ARGUMENT, "sync", "*#adamw.v", "bucket=4M", "it has no gradient", "trained");
  refuse(SHOAL_INVALID_ARGUMENT, "sync", "wte/table", " ", "needs a word", "last");
  refuse(SHOAL_INVALID_ARGUMENT, "sync", "wte/table", "bucket=", "needs a size or a name",
         "bucket=4M, or a name: bucket=block3");
  refuse(SHOAL_UNSUPPORTED, "sync", "wte/table", "window=3", "'sync wte/table window=3'", "");
  refuse(SHOAL_INVALID_ARGUMENT, "prefetch", "wte/table", "-1", "'-1' is no number", "next layer");
  refuse(SHOAL_INVALID_ARGUMENT, "way", "wte/*", "whole", "names no axis", "AXIS=WAY");
}

static void test_without_a_match(void **state) {
  (void)state;
  refuse(SHOAL_NOT_FOUND, "recompute", "blok*", "yes", "recompute 'blok*' matches no node", "");
  refuse(SHOAL_NOT_FOUND, "keep", "wte/tabel", "redo", "matches no state, input or value",
         "did you mean 'wte/table'?");
  refuse(SHOAL_NOT_FOUND, "memory", "ids", "host", "memory 'ids' matches no state", "");
  refuse(SHOAL_NOT_FOUND, "schedule", "trains", "1f1b", "matches no graph",
         "did you mean 'train'?");
  refuse(SHOAL_NOT_FOUND, "fetch", "logit", "request", "matches no output",
         "did you mean 'logits'?");
  refuse(SHOAL_NOT_FOUND, "stage", "blok1/*", "", "stage 'blok1/*' matches no node", "");
}

// A region is as many scopes of a node's name as the pattern names; "/*" at its end names none.
static void test_regions(void **state) {
  (void)state;
  shoal_plan_t *plan = PLAN(D("recompute", "block*", "yes"), D("recompute", "block1/ln_2/*", "no"));
  const int32_t first = region(plan, "block0/attn/qkv/einsum");
  assert_int_equal(first, 0);
  assert_int_equal(region(plan, "block0/mlp/fc1/einsum"), first);
  assert_int_equal(region(plan, "block1/attn/qkv/einsum"), 1);
  assert_int_equal(region(plan, "ln_f/layer_norm"), -1);
  assert_int_equal(region(plan, "grad/block0/mlp/fc1/einsum/einsum"), -1);
  shoal_plan_free(plan);
  plan = PLAN(D("recompute", "block0/mlp/*", "yes"), D("recompute", "block0/mlp/fc1/*", "no"));
  assert_int_equal(region(plan, "block0/mlp/fc1/einsum"), -1);
  assert_int_equal(region(plan, "block0/mlp/fc2/einsum"), 0);
  assert_int_equal(region(plan, "block0/mlp/gelu"), 0);
  assert_int_equal(region(plan, "block0/attn/qkv/einsum"), -1);
  shoal_plan_free(plan);
  plan = PLAN(D("recompute", "block0/*", "yes"));
  assert_int_equal(region(plan, "block0/mlp/fc2/einsum"), 0);
  assert_int_equal(region(plan, "block0/attn/qkv/einsum"), 0);
  shoal_plan_free(plan);
  plan = PLAN(D("recompute", "block*/mlp*", "yes"), D("recompute", "block*/attn*", "yes"));
  const int32_t attention = region(plan, "block0/attn/qkv/einsum");
  assert_int_equal(region(plan, "block0/attn/proj/einsum"), attention);
  assert_int_not_equal(region(plan, "block0/mlp/fc1/einsum"), attention);
  assert_int_equal(region(plan, "block0/mlp/fc1/einsum"), region(plan, "block0/mlp/gelu"));
  assert_int_not_equal(region(plan, "block1/attn/qkv/einsum"), attention);
  assert_int_equal(region(plan, "block0/ln_1/layer_norm"), -1);
  shoal_plan_free(plan);
}

static void refuse_both(const char *recompute, const char *keep_, const char *message,
                        const char *hint) {
  const shoal_intent_decision_t both[] = {D("recompute", recompute, "yes"),
                                          D("keep", keep_, "host")};
  shoal_plan_t *plan = NULL;
  shoal_status_t status = try_plan(COUNT(both), both, &plan);
  if (!status) fail_msg("recompute '%s' and keep '%s' were not refused", recompute, keep_);
  assert_int_equal(shoal_status_code(status), SHOAL_INVALID_ARGUMENT);
  assert_non_null(strstr(shoal_status_message(status), message));
  assert_non_null(strstr(shoal_status_hint(status), hint));
  shoal_status_free(status);
  assert_null(plan);
}

// What is computed again does not wait elsewhere, unless it is named by itself.
static void test_recompute_beside_keep(void **state) {
  (void)state;
  shoal_plan_t *plan = PLAN(D("keep", "*", "host"), D("recompute", "block0*", "yes"));
  assert_int_equal(keep(plan, "block0/mlp/gelu"), SHOAL_KEEP);
  assert_int_equal(keep(plan, "block0/attn/attention.lse"), SHOAL_KEEP);
  assert_int_equal(keep(plan, "block1/mlp/gelu"), SHOAL_KEEP_HOST);
  assert_int_equal(keep(plan, "block0/add_1"), SHOAL_KEEP_HOST);  // it leaves its region
  shoal_plan_free(plan);
  plan = PLAN(D("keep", "*", "host"), D("keep", "block0/mlp/gelu", "file"),
              D("recompute", "block0*", "yes"));
  assert_int_equal(keep(plan, "block0/mlp/gelu"), SHOAL_KEEP_FILE);
  assert_int_equal(keep(plan, "block0/attn/attention.lse"), SHOAL_KEEP);
  shoal_plan_free(plan);
  refuse_both("block*", "block*/mlp/gelu*", "'block0/mlp/gelu' and what else it matches",
              "recompute block*/mlp/gelu* no");
  refuse_both("block0/attn/attention", "block0/attn/attention.lse",
              "decision 'recompute block0/attn/attention yes'", "leave out one");
  plan = PLAN(D("recompute", "block*", "yes"), D("keep", "block*/mlp/gelu*", "host"),
              D("recompute", "block*/mlp/gelu*", "no"));
  assert_int_equal(keep(plan, "block0/mlp/gelu"), SHOAL_KEEP_HOST);
  shoal_plan_free(plan);
}

static void test_fields(void **state) {
  (void)state;
  shoal_plan_t *plan = PLAN(
      D("keep", "block*/weight", "redo"), D("keep", "block1/mlp/fc1/weight", "keep"),
      D("keep", "block0/mlp/fc1/einsum", "file"), D("memory", "*#adamw.*", "host"),
      D("memory", "wte/*", "file"), D("sync", "block*", "each bucket=4M dtype=bf16 scale=0.25"),
      D("sync", "block1/*", "bucket=late dtype=none"), D("prefetch", "block1/*", "3"),
      D("schedule", "train", "table \"\": F0.0 B0.0"), D("fetch", "logits", "request"));
  assert_int_equal(keep(plan, "block0/mlp/fc1/weight"), SHOAL_KEEP_REDO);
  assert_int_equal(keep(plan, "block1/mlp/fc1/weight"), SHOAL_KEEP);
  assert_int_equal(keep(plan, "block0/mlp/fc1/einsum"), SHOAL_KEEP_FILE);
  assert_int_equal(keep(plan, "ids"), SHOAL_KEEP);
  const int32_t wte = shoal_model_find_state(model, "wte/table"),
                moment = shoal_model_find_state(model, "wpe/table#adamw.m"),
                zero = shoal_model_find_state(model, "block0/mlp/fc1/weight"),
                one = shoal_model_find_state(model, "block1/mlp/fc1/weight");
  assert_int_equal(plan->memories[wte], SHOAL_MEMORY_FILE);
  assert_int_equal(plan->memories[moment], SHOAL_MEMORY_HOST);
  assert_int_equal(plan->memories[one], SHOAL_MEMORY_DEVICE);
  assert_true(plan->syncs[zero].each && plan->syncs[zero].cast);
  assert_int_equal(plan->syncs[zero].bucket_bytes, 4 << 20);
  assert_int_equal(plan->syncs[zero].dtype, SHOAL_BF16);
  assert_int_equal(plan->syncs[zero].scale_log2, -2);
  assert_int_equal(plan->syncs[zero].prefetch, 1);
  assert_string_equal(plan->syncs[one].bucket, "late");
  assert_true(plan->syncs[one].each && plan->syncs[one].bucket_bytes == 0);  // of the earlier one
  assert_false(plan->syncs[one].cast);
  assert_int_equal(plan->syncs[one].scale_log2, 0);  // what is not cast is not scaled
  assert_int_equal(plan->syncs[one].prefetch, 3);
  assert_false(plan->syncs[wte].each);
  assert_non_null(train_of(plan)->schedule);
  assert_string_equal(train_of(plan)->schedule->name, "table");
  shoal_plan_free(plan);
}

// Kinds that equal the intent's maps give the same plan as those.
static void test_maps_as_decisions(void **state) {
  (void)state;
  const shoal_intent_entry_t layouts[] = {{"ids", "data:0"}, {"labels", "data:0"}};
  shoal_plan_t *maps = plan_of(model, rules, "data=2", COUNT(layouts), layouts, 2);
  shoal_plan_t *list = PLAN(D("layout", "ids", "data:0"), D("layout", "labels", "data:0"));
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *a, *b;
  assert_ok(shoal_plan_explain(maps, &arena, &a));
  assert_ok(shoal_plan_explain(list, &arena, &b));
  assert_string_equal(a, b);
  shoal_arena_deinit(&arena);
  shoal_plan_free(maps);
  shoal_plan_free(list);
}

// A way that is asked for is taken, however dear; neighbours follow. With how items are dealt, too.
static void test_ways(void **state) {
  (void)state;
  shoal_plan_t *plan = PLAN(D("layout", "ids", "data:0"), D("layout", "labels", "data:0"),
                            D("way", "block0/*/einsum", "data={a:0 -> out:0}"),
                            D("way", "block0/mlp/fc1/einsum", "data=whole"),
                            D("way", "block1/mlp/fc2/einsum", "data={b:1 -> out:2} /3(2,1)"));
  expect_way(plan, "block0/mlp/fc1/einsum", "data", "");
  expect_way(plan, "block0/mlp/fc2/einsum", "data", "{a:0 -> out:0}~");
  expect_way(plan, "block1/mlp/fc1/einsum", "data", "{a:0 -> out:0}~");
  const shoal_choice_t *dealt = choice_of(plan, "train", "block1/mlp/fc2/einsum", "data");
  assert_int_equal(dealt->item_cut.unit, 3);
  assert_int_equal(dealt->item_cut.weights[0], 2);
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
}

static void test_ways_refused(void **state) {
  (void)state;
  refuse(SHOAL_INVALID_ARGUMENT, "way", "ln_f/layer_norm", "data={x:9 -> y:9}",
         "about node 'ln_f/layer_norm': '{x:9 -> y:9}' is no way of shoal.layer_norm", "whole");
  refuse(SHOAL_NOT_FOUND, "way", "ln_f/layer_norm", "dta=whole", "no mesh has an axis 'dta'",
         "did you mean 'data'?");
  refuse(SHOAL_INVALID_ARGUMENT, "way", "ln_f/layer_norm", "micro=whole", "nothing to cut", "");
  refuse(SHOAL_INVALID_ARGUMENT, "way", "block0/mlp/fc1/einsum", "data={a:0 -> out:0} /0", "from 1",
         "");
  refuse(SHOAL_INVALID_ARGUMENT, "way", "block0/mlp/fc1/einsum", "data={a:0 -> out:0} by 3",
         "no way to deal items", "");
  refuse(SHOAL_INVALID_ARGUMENT, "way", "block0/mlp/fc1/einsum", "data={a:0 -> out:0} (1,2,3)",
         "'way block0/mlp/fc1/einsum data={a:0 -> out:0} (1,2,3)'", "");
}

static void expect_why(const shoal_plan_t *plan, const char *pattern, const char *part) {
  shoal_arena_t arena;
  const char *text;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(shoal_plan_why(plan, pattern, &arena, &text));
  if (!strstr(text, part)) fail_msg("no '%s' in '%s'", part, text);
  shoal_arena_deinit(&arena);
}

// Each decision says who made it, why, and what was the next best.
static void test_why(void **state) {
  (void)state;
  shoal_plan_t *plan = PLAN(D("layout", "ids", "data:0"), D("layout", "labels", "data:0"),
                            D("layout", "wpe/table#adamw.*", "data:flat"),
                            D("layout", "update/wpe/table/adamw_update.w", "data:flat"),
                            D("way", "block0/mlp/fc1/einsum", "data=whole"));
  expect_why(plan, "block0/mlp/fc1/einsum",
             "way: data=whole\n    by user: it was asked for; it moves 15.8 KiB\n"
             "    next best data={a:0 -> out:0}~, which moves 0 B");
  expect_why(plan, "block0/mlp/fc1/einsum", "replicated, made from data:0");
  expect_why(plan, "block1/attn/qkv/einsum", "by completion: its input ");
  expect_why(
      plan, "update/ln_f/gamma/adamw_update",
      "way: data=whole\n    by completion: its input 'grad/ln_f/layer_norm/layer_norm_grad.dgamma'"
      ", an unreduced sum along data, is reduced first");
  expect_why(plan, "update/ln_f/gamma/adamw_update", "next best data={");
  expect_why(plan, "ids", "layout: data:0\n    by user: it was asked for");
  expect_why(plan, "wpe/table", "adamw_update.w': data:flat -> replicated, which moves 2.2 KiB");
  const shoal_choice_t *whole = choice_of(plan, "train", "block0/mlp/fc1/einsum", "data");
  assert_null(whole->way);
  shoal_arena_t arena;
  const char *text;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_error(NOT_FOUND, "'fc9' matches no state", shoal_plan_why(plan, "fc9", &arena, &text));
  assert_ok(shoal_plan_explain(plan, &arena, &text));
  assert_non_null(strstr(text, "  update of wpe/table: data:flat -> replicated, which moves"));
  shoal_arena_deinit(&arena);
  shoal_plan_free(plan);
}

// Decisions are written to the plan file and read from it.
static void test_file(void **state) {
  (void)state;
  const shoal_intent_decision_t decisions[] = {
      {.kind = "keep", .pattern = "wte/*", .choice = "redo", .by = "me", .reason = "it is large"},
      D("memory", "wte/*", "host")};
  shoal_plan_t *plan = plan_with(2, decisions), *parsed;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *text, *again;
  bool rebuilt;
  assert_ok(shoal_plan_print(plan, &arena, &text));
  assert_ok(
      shoal_plan_parse("p", text, model, rules, 2, shoal_allocator_system(), &rebuilt, &parsed));
  assert_false(rebuilt);
  assert_ok(shoal_plan_print(parsed, &arena, &again));
  assert_string_equal(text, again);
  const shoal_intent_t *intent = shoal_plan_intent(parsed);
  assert_int_equal(intent->decision_count, 2);
  assert_string_equal(intent->decisions[0].by, "me");
  assert_string_equal(intent->decisions[0].reason, "it is large");
  assert_string_equal(intent->decisions[1].by, "user");
  assert_int_equal(keep(parsed, "wte/table"), SHOAL_KEEP_REDO);
  shoal_arena_deinit(&arena);
  shoal_plan_free(parsed);
  shoal_plan_free(plan);
}

static void test_table(void **state) {
  (void)state;
  int64_t count = 0;
  for (const shoal_decision_kind_t *kind; (kind = shoal_decision_kind(count)); ++count)
    assert_true(kind->name[0] && kind->of[0] && kind->choices[0] && kind->doc[0]);
  assert_int_equal(count, SHOAL_DECIDE_COUNT);
  assert_null(shoal_decision_kind(-1));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_unknown), cmocka_unit_test(test_without_a_match),
      cmocka_unit_test(test_regions), cmocka_unit_test(test_recompute_beside_keep),
      cmocka_unit_test(test_fields),  cmocka_unit_test(test_maps_as_decisions),
      cmocka_unit_test(test_file),    cmocka_unit_test(test_table),
      cmocka_unit_test(test_ways),    cmocka_unit_test(test_ways_refused),
      cmocka_unit_test(test_why),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

// links: all
//
// The resolved part of a plan file, edited: each entry is taken as it says, or refused with its
// place in the file and what to do about it.
#include <stdlib.h>

#include "plan_model_fixture.h"
#include "shoal/schedule.h"

static int set_up(void **state) {
  (void)state;
  return set_up_with(small_gpt(false));
}

static shoal_plan_t *staged_plan(void) {
  static const char *const meshes[] = {"a!data=1,micro=2@0", "b!data=1,micro=2@1"};
  static const shoal_intent_decision_t decisions[] = {
      D("layout", "ids", "micro:0"),   D("layout", "labels", "micro:0"),
      D("stage", "block1/*", "b"),     D("stage", "ln_f/*", "b"),
      D("stage", "head/*", "b"),       D("stage", "cross_entropy", "b"),
      D("schedule", "train", "1f1b"),  D("recompute", "block0*", "yes"),
      D("keep", "wte/table", "redo"),  D("memory", "wpe/table", "host"),
      D("sync", "wte/*", "bucket=4M"), D("prefetch", "wpe/table", "3"),
      D("fetch", "loss", "request"),
  };
  const shoal_intent_t intent = {.mesh_count = 2,
                                 .meshes = meshes,
                                 .decision_count = COUNT(decisions),
                                 .decisions = decisions};
  shoal_plan_t *plan;
  assert_ok(shoal_plan_create(model, rules, &intent, 2, shoal_allocator_system(), &plan));
  return plan;
}

// The part of a plan's text behind `resolved`, with the first `from` behind `at` replaced.
static char *edit_resolved(const char *text, const char *at, const char *from, const char *to) {
  const char *resolved = strstr(text, "\"resolved\"");
  const char *start = resolved ? strstr(resolved, at) : NULL;
  const char *found = start ? strstr(start, from) : NULL;
  if (!found) fail_msg("nothing resolved has '%s' behind '%s'", from, at);
  char *result = malloc(strlen(text) + strlen(to) + 1);
  memcpy(result, text, (size_t)(found - text));
  strcpy(result + (found - text), to);
  strcat(result, found + strlen(from));
  return result;
}

// The error says once where the entry stands, what is wrong, and what to do.
static void expect_refused(shoal_status_t status, int64_t number, const char *message,
                           const char *hint) {
  static const char list[] = "p.resolved.decisions[";
  const char *said = shoal_status_message(status);
  const char *place = status ? strstr(said, list) : NULL;
  if (!place || !strstr(said, message) || strstr(place + sizeof list, list))
    fail_msg("case %lld: '%s'", (long long)number, said);
  if (!strstr(shoal_status_hint(status), hint))
    fail_msg("case %lld: hint '%s' of '%s'", (long long)number, shoal_status_hint(status), said);
  shoal_status_free(status);
}

static void test_edited(void **state) {
  (void)state;
  static const struct {
    const char *kind, *from, *to, *refused, *hint;  // NULL: it is taken
  } cases[] = {
      {"schedule", "1f1b", "gpipe", NULL, NULL},
      {"schedule", "1f1b", "interleved", "no choice of schedule", "interleaved"},
      {"schedule", "1f1b", "table a: F0.0", "decisions[", ""},
      {"stage", "\"choice\": \"b\"", "\"choice\": \"c\"", "no mesh 'c'", "did you mean"},
      {"recompute", "\"choice\": \"yes\"", "\"choice\": \"no\"", NULL, NULL},
      {"recompute", "\"region\": 0", "\"region\": -1", "region -1 is out of range", "together"},
      {"recompute", "\"node\": \"block0/ln_1/layer_norm\"",
       "\"node\": \"grad/ln_f/layer_norm/layer_norm_grad\"", "only nodes of the forward pass",
       "take the entry out"},
      {"keep", "redo", "file", NULL, NULL},
      {"keep", "redo", "rdo", "no choice of keep", "redo"},
      {"memory", "host", "file", NULL, NULL},
      {"memory", "wpe/table", "wpe/tabel", "no state 'wpe/tabel'", "did you mean 'wpe/table'?"},
      {"sync", "bucket=4194304", "bucket=all", NULL, NULL},
      {"sync", "bucket=4194304", "window=3", "windows of several steps", "leave it out"},
      {"prefetch", "\"3\"", "\"5\"", NULL, NULL},
      {"prefetch", "\"3\"", "\"-5\"", "no number of layers", "next layer"},
      {"fetch", "request", "always", NULL, NULL},
      {"fetch", "\"output\": \"loss\"", "\"output\": \"lost\"", "no output 'lost'",
       "did you mean 'loss'?"},
      {"way", "micro=", "mcro=", "mesh 'a' has no axis 'mcro'", "did you mean 'micro'?"},
      {"way", "\"node\": \"", "\"node\": \"x", "there is no node 'x", "did you mean"},
      {"stage", "\"graph\": \"train\"", "\"graph\": \"trainn\"", "there is no graph 'trainn'",
       "did you mean 'train'?"},
      {"keep", "\"choice\"", "\"region\": 1, \"choice\"", "unknown key 'region'", ""},
      {"memory", "\"choice\"", "\"node\": \"wpe\", \"choice\"", "unknown key 'node'", ""},
      {"layout", "\"input\": \"ids\"", "\"input\": \"idz\"", "there is no input 'idz'",
       "did you mean 'ids'?"},
      {"sync", "\"state\": \"wte/table\"", "\"state\": \"wte/table#adamw.m\"",
       "state 'wte/table#adamw.m' has no gradient", "take the entry out"},
      {"sync", "bucket=4194304", "bucket=", "'sync wte/table last bucket=': 'bucket=' needs a size",
       "bucket=4M"},
  };
  shoal_plan_t *plan = staged_plan(), *edited;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *text, *again;
  assert_ok(shoal_plan_print(plan, &arena, &text));
  for (int64_t i = 0; i < COUNT(cases); ++i) {
    char at[40];
    snprintf(at, sizeof at, "\"kind\": \"%s\"", cases[i].kind);
    char *changed = edit_resolved(text, at, cases[i].from, cases[i].to);
    bool rebuilt = true;
    shoal_status_t status = shoal_plan_parse("p", changed, model, rules, 2,
                                             shoal_allocator_system(), &rebuilt, &edited);
    free(changed);
    if (cases[i].refused) {
      expect_refused(status, i, cases[i].refused, cases[i].hint);
      continue;
    }
    assert_ok(status);
    assert_false(rebuilt);
    assert_ok(shoal_plan_print(edited, &arena, &again));
    if (strcmp(text, again) == 0) fail_msg("case %lld changes nothing", (long long)i);
    const int32_t wte = shoal_model_find_state(model, "wte/table"),
                  wpe = shoal_model_find_state(model, "wpe/table");
    const char *kind = cases[i].kind;
    if (strcmp(kind, "schedule") == 0)
      assert_string_equal(train_of(edited)->schedule->name, "gpipe");
    if (strcmp(kind, "recompute") == 0)
      assert_int_not_equal(region(edited, "block0/ln_1/layer_norm"),
                           region(plan, "block0/ln_1/layer_norm"));
    if (strcmp(kind, "keep") == 0) {
      bool kept_in_file = false;  // of one of the graphs that read it
      for (int64_t g = 0; g < model->graphs.count; ++g)
        for (int64_t v = 0; v < model->graphs.items[g]->values.count; ++v)
          kept_in_file |= edited->graphs[g].keeps[v] == SHOAL_KEEP_FILE;
      assert_true(kept_in_file);
    }
    if (strcmp(kind, "memory") == 0) assert_int_equal(edited->memories[wpe], SHOAL_MEMORY_FILE);
    if (strcmp(kind, "sync") == 0) assert_string_equal(edited->syncs[wte].bucket, "all");
    if (strcmp(kind, "prefetch") == 0) assert_int_equal(edited->syncs[wpe].prefetch, 5);
    shoal_plan_free(edited);
  }
  shoal_arena_deinit(&arena);
  shoal_plan_free(plan);
}

// Nodes with the same number are recomputed together; one without a number is so by itself; a
// region on two meshes is refused.
static void test_regions(void **state) {
  (void)state;
  static const char second[] = "\"graph\": \"train\", \"node\": \"block0/mlp/gelu\", \"region\": 0";
  shoal_plan_t *plan = staged_plan(), *edited = NULL;
  shoal_arena_t arena;
  const char *text;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(shoal_plan_print(plan, &arena, &text));
  assert_int_equal(region(plan, "block0/mlp/gelu"), region(plan, "block0/ln_1/layer_norm"));
  char *changed = edit_resolved(text, "\"resolved\"", second,
                                "\"graph\": \"train\", \"node\": \"block0/mlp/gelu\"");
  assert_ok(
      shoal_plan_parse("p", changed, model, rules, 2, shoal_allocator_system(), NULL, &edited));
  assert_int_equal(region(edited, "block0/ln_1/layer_norm"), 0);
  assert_int_equal(region(edited, "block0/mlp/gelu"), 1);
  shoal_plan_free(edited);
  free(changed);
  changed = edit_resolved(text, "\"resolved\"", second,
                          "\"graph\": \"train\", \"node\": \"block1/mlp/gelu\", \"region\": 0");
  shoal_status_t status =
      shoal_plan_parse("p", changed, model, rules, 2, shoal_allocator_system(), NULL, &edited);
  free(changed);
  assert_error(
      INVALID_ARGUMENT,
      "region 0 is recomputed on one mesh, but 'block0/ln_1/layer_norm' is on mesh 'a' and "
      "'block1/mlp/gelu' on mesh 'b'",
      status);
  shoal_arena_deinit(&arena);
  shoal_plan_free(plan);
}

// Where a mesh has several stages, each is a region of its own: backward comes to the last first.
static void test_regions_of_stages(void **state) {
  (void)state;
  static const char *const meshes[] = {"a!data=1,micro=2@0", "b!data=1,micro=2@1"};
  static const shoal_intent_decision_t decisions[] = {
      D("layout", "ids", "micro:0"), D("layout", "labels", "micro:0"), D("stage", "block1/*", "b"),
      D("schedule", "train", "gpipe"), D("recompute", "re:.*", "yes")};
  const shoal_intent_t intent = {.mesh_count = 2,
                                 .meshes = meshes,
                                 .decision_count = COUNT(decisions),
                                 .decisions = decisions};
  shoal_plan_t *plan, *edited = NULL;
  shoal_arena_t arena;
  const char *text;
  char from[96], to[96];
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(shoal_plan_create(model, rules, &intent, 2, shoal_allocator_system(), &plan));
  assert_int_equal(train_of(plan)->schedule->stage_count, 3);
  const int32_t first = region(plan, "block0/ln_1/layer_norm"),
                last = region(plan, "ln_f/layer_norm");
  assert_true(first >= 0 && last >= 0);
  assert_int_not_equal(first, last);
  assert_ok(shoal_plan_print(plan, &arena, &text));
  snprintf(from, sizeof from, "\"node\": \"ln_f/layer_norm\", \"region\": %d", last);
  snprintf(to, sizeof to, "\"node\": \"ln_f/layer_norm\", \"region\": %d", first);
  char *changed = edit_resolved(text, "\"resolved\"", from, to);
  shoal_status_t status =
      shoal_plan_parse("p", changed, model, rules, 2, shoal_allocator_system(), NULL, &edited);
  free(changed);
  assert_error(INVALID_ARGUMENT, "is recomputed in one stage, but", status);
  shoal_arena_deinit(&arena);
  shoal_plan_free(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_edited),
      cmocka_unit_test(test_regions),
      cmocka_unit_test(test_regions_of_stages),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

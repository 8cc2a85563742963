// links: all
//
// The cache of plans: a hit is the plan that was made, whatever changes misses, and what is wrong
// with the folder or an entry is noted and planned around.
#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "plan_support.h"
#include "shoal/cluster.h"

static shoal_model_t *model;
static shoal_rules_t *rules;
static char folder[] = "/tmp/shoal-cache-XXXXXX";

static int set_up(void **state) {
  (void)state;
  model = small_mlp(7);
  rules = new_rules();
  return mkdtemp(folder) ? 0 : -1;
}

// Calls `visit` with the path of every entry; returns how many there are.
static int64_t entries(void (*visit)(const char *path)) {
  DIR *dir = opendir(folder);
  int64_t count = 0;
  assert_non_null(dir);
  for (struct dirent *entry; (entry = readdir(dir));) {
    char path[400];
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (visit) visit(path);
    ++count;
  }
  closedir(dir);
  return count;
}

static void drop(const char *path) {
  assert_int_equal(unlink(path), 0);
}

static int tear_down(void **state) {
  (void)state;
  entries(drop);
  rmdir(folder);
  shoal_rules_free(rules);
  shoal_model_free(model);
  return 0;
}

// The text of a plan that is asked for with the cache, and what is noted.
static char *plan_text(const shoal_model_t *of, shoal_plan_options_t options,
                       shoal_cache_note_t *note) {
  shoal_plan_t *plan;
  shoal_arena_t arena;
  const char *text;
  if (!options.cache) options.cache = folder;
  if (options.world == 0) options.world = 2;
  options.cache_note = note;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(shoal_plan_make(of, rules, &options, &plan));
  assert_ok(shoal_plan_print(plan, &arena, &text));
  char *copy = strdup(text);
  shoal_arena_deinit(&arena);
  shoal_plan_free(plan);
  return copy;
}

static void expect(const shoal_model_t *of, shoal_plan_options_t options, bool hit) {
  shoal_cache_note_t note;
  free(plan_text(of, options, &note));
  assert_string_equal(note.text, "");
  assert_int_equal(note.hit, hit);
}

static void test_hit(void **state) {
  (void)state;
  shoal_cache_note_t note;
  char *made = plan_text(model, (shoal_plan_options_t){.strategy = "auto"}, &note);
  assert_false(note.hit);
  char *again = plan_text(model, (shoal_plan_options_t){.strategy = "auto"}, &note);
  assert_true(note.hit);
  assert_string_equal(made, again);
  free(made);
  free(again);
  entries(drop);
}

// Whatever a plan is made from counts.
static void test_misses(void **state) {
  (void)state;
  const shoal_plan_options_t plain = {.strategy = "data", .mesh = "data=2"};
  expect(model, plain, false);
  expect(model, plain, true);
  shoal_plan_options_t other = plain;
  other.mesh = "data=2,micro=2";
  expect(model, other, false);
  other = plain;
  shoal_cluster_t *cluster;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(shoal_cluster_read("a100x8:1", shoal_allocator_system(), &cluster));
  assert_ok(shoal_cluster_print(cluster, &arena, &other.cluster));
  shoal_cluster_free(cluster);
  expect(model, other, false);
  expect(model, other, true);
  shoal_arena_deinit(&arena);
  other = plain;
  other.layout_count = 1;
  other.layouts = &(shoal_intent_entry_t){"fc1/weight", "data:0"};
  expect(model, other, false);
  other = plain;
  other.decision_count = 1;
  other.decisions =
      &(shoal_intent_decision_t){.kind = "way", .pattern = "relu", .choice = "data=whole"};
  expect(model, other, false);
  expect(model, other, true);
  other.decisions =
      &(shoal_intent_decision_t){.kind = "way", .pattern = "relu", .choice = "data={x:1 -> out:1}"};
  expect(model, other, false);
  shoal_model_t *larger = small_mlp(9);
  expect(larger, plain, false);
  shoal_model_free(larger);
  expect(model, plain, true);
  entries(drop);
}

// ---- what is wrong is noted ------------------------------------------------------------

static void expect_noted(const char *cache, const char *part) {
  shoal_cache_note_t note;
  free(plan_text(
      model, (shoal_plan_options_t){.strategy = "data", .mesh = "data=2", .cache = cache}, &note));
  assert_false(note.hit);
  if (!strstr(note.text, part)) fail_msg("'%s' does not say '%s'", note.text, part);
}

static void rewrite(const char *path, const char *from, const char *to) {
  shoal_arena_t arena;
  const char *data;
  int64_t size;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(shoal_file_read(path, &arena, &data, &size));
  char *copy = strdup(data), *at = strstr(copy, from);
  assert_non_null(at);
  assert_int_equal(strlen(from), strlen(to));
  memcpy(at, to, strlen(to));
  assert_ok(shoal_file_write(path, copy, size));
  free(copy);
  shoal_arena_deinit(&arena);
}

static void damage(const char *path) {
  rewrite(path, "data=2", "data=3");
}

static void cut_short(const char *path) {
  assert_int_equal(truncate(path, 300), 0);
}

static void test_damaged(void **state) {
  (void)state;
  const shoal_plan_options_t plain = {.strategy = "data", .mesh = "data=2"};
  expect(model, plain, false);
  assert_int_equal(entries(damage), 1);
  expect_noted(folder, "is damaged");
  expect(model, plain, true);  // it was replaced
  entries(cut_short);
  expect_noted(folder, "is damaged");
  entries(drop);
}

// Rules that changed since: the entry is whole, but no longer holds.
static void make_stale(const char *path) {
  shoal_arena_t arena;
  const char *data;
  int64_t size;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(shoal_file_read(path, &arena, &data, &size));
  char *text = strdup(strchr(data, '\n') + 1), *at = strstr(text, "\"rules\": \"");
  assert_non_null(at);
  at[10] = at[10] == '0' ? '1' : '0';
  const char *whole =
      shoal_arena_printf(&arena, "shoal_plan_cache 1 %016llx\n%s",
                         (unsigned long long)shoal_hash_string(SHOAL_HASH_START, text), text);
  assert_ok(shoal_file_write(path, whole, (int64_t)strlen(whole)));
  free(text);
  shoal_arena_deinit(&arena);
}

static void test_stale(void **state) {
  (void)state;
  const shoal_plan_options_t plain = {.strategy = "data", .mesh = "data=2"};
  expect(model, plain, false);
  assert_int_equal(entries(make_stale), 1);
  expect_noted(folder, "was made with other rules");
  expect(model, plain, true);
  entries(drop);
}

static void test_unwritable(void **state) {
  (void)state;
  char path[400];
  snprintf(path, sizeof path, "%s/file", folder);
  assert_ok(shoal_file_write(path, "x", 1));
  snprintf(path, sizeof path, "%s/file/plans", folder);  // no folder can be made there
  expect_noted(path, "the plan is not kept in the cache");
  entries(drop);
}

// "" is none, and a strategy that is not Shoal's own may do anything.
static shoal_status_t anything(shoal_strategy_context_t *context, void *self) {
  (void)self;
  return shoal_context_mesh(context, "data=2");
}

static void test_unused(void **state) {
  (void)state;
  shoal_strategies_t *strategies;
  assert_ok(shoal_strategies_create(shoal_allocator_system(), &strategies));
  assert_ok(shoal_strategy_register(
      strategies, &(shoal_strategy_t){.name = "mine", .doc = "mine", .plan = anything}));
  const shoal_plan_options_t mine = {.strategy = "mine", .strategies = strategies};
  expect(model, mine, false);
  expect(model, mine, false);
  expect(model, (shoal_plan_options_t){.strategy = "data", .cache = ""}, false);
  assert_int_equal(entries(NULL), 0);
  shoal_strategies_free(strategies);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_hit),        cmocka_unit_test(test_misses),
      cmocka_unit_test(test_damaged),    cmocka_unit_test(test_stale),
      cmocka_unit_test(test_unwritable), cmocka_unit_test(test_unused),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

// Plan files for a small model on four ranks. What parses was completed: it prints and parses back.
// mutations: 800
#include "shoal/plan.h"
#include "fuzz.h"
#include "shoal/zoo.h"

static shoal_model_t *model;
static shoal_rules_t *rules;

static void make(void) {
  fuzz_must(shoal_model_create(NULL, &model));
  shoal_zoo_t *zoo;
  const shoal_zoo_options_t sizes = {
      .settings = "batch=8 in_features=6 hidden=12 classes=5 layers=1 dtype=f64"};
  fuzz_must(shoal_zoo_create("mlp", &sizes, &zoo));
  shoal_zoo_add(zoo, model);
  shoal_zoo_free(zoo);
  fuzz_must(shoal_model_status(model));
  fuzz_must(shoal_rules_create(shoal_allocator_system(), &rules));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!model) make();
  shoal_arena_t *arena = fuzz_arena();
  const shoal_allocator_t allocator = fuzz_allocator();
  shoal_plan_t *plan = NULL, *again = NULL;
  const char *printed, *twice;
  char *text = fuzz_text(data, size, arena);
  if (fuzz_ok(shoal_plan_parse("fuzz", text, model, rules, 4, allocator, NULL, &plan)) &&
      fuzz_ok(shoal_plan_print(plan, arena, &printed)) &&
      fuzz_again(shoal_plan_parse("again", printed, model, rules, 4, allocator, NULL, &again),
                 printed) &&
      fuzz_ok(shoal_plan_print(again, arena, &twice)))
    fuzz_same(printed, twice);
  shoal_plan_free(again);
  shoal_plan_free(plan);
  shoal_arena_free(arena);
  return 0;
}

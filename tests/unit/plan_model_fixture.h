// A model and a store of rules for a whole group of tests: set_up of the test gives the model to
// set_up_with. cmocka_run_group_tests(tests, set_up, tear_down).
#ifndef SHOAL_TESTS_UNIT_PLAN_MODEL_FIXTURE_H_
#define SHOAL_TESTS_UNIT_PLAN_MODEL_FIXTURE_H_

#include "plan_support.h"

static shoal_model_t *model;
static shoal_rules_t *rules;

static int set_up_with(shoal_model_t *made) {
  model = made;
  rules = new_rules();
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  shoal_rules_free(rules);
  shoal_model_free(model);
  return 0;
}

// A decision of an intent.
#define D(kind_, pattern_, choice_) \
  { .kind = kind_, .pattern = pattern_, .choice = choice_ }

static UNUSED const shoal_graph_plan_t *train_of(const shoal_plan_t *plan) {
  for (int64_t g = 0; g < plan->model->graphs.count; ++g)
    if (strcmp(plan->graphs[g].graph->name, "train") == 0) return &plan->graphs[g];
  fail_msg("no graph 'train'");
  return NULL;
}

static UNUSED int32_t region(const shoal_plan_t *plan, const char *node) {
  const shoal_graph_plan_t *gp = train_of(plan);
  for (int64_t n = 0; n < gp->graph->nodes.count; ++n)
    if (strcmp(gp->graph->nodes.items[n].name, node) == 0) return gp->regions[n];
  fail_msg("no node '%s'", node);
  return -1;
}

#endif  // SHOAL_TESTS_UNIT_PLAN_MODEL_FIXTURE_H_

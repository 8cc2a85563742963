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

#endif  // SHOAL_TESTS_UNIT_PLAN_MODEL_FIXTURE_H_

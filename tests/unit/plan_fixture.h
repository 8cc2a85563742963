// One store of rules for a whole group of tests: discovering them takes most of the time.
// cmocka_run_group_tests(tests, set_up, tear_down).
#ifndef SHOAL_TESTS_UNIT_PLAN_FIXTURE_H_
#define SHOAL_TESTS_UNIT_PLAN_FIXTURE_H_

#include "plan_support.h"

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

#endif  // SHOAL_TESTS_UNIT_PLAN_FIXTURE_H_

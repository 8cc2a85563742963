// Steps that are skipped because a sum of f16 overflows, which in f64 it does not: the one-device
// runs agree on them, and a program that does something else is found.
#include "unit.h"

#include "base/dtype.h"
#include "prove/prove.h"
#include "shoal/lower.h"
#include "shoal/ops.h"
#include "shoal/planners.h"

enum { ROWS = 4 };

// The sum of x stands for gradients. States change little in a step, by less than four times what
// skipping it would: an f64 run that did not skip would excuse any of that.
static shoal_model_t *make(void) {
  shoal_model_t *model = NULL;
  assert_ok(shoal_model_create(NULL, &model));
  shoal_graph_t *g = shoal_model_graph(model, "train");
  const shoal_state_options_t large = {.init = {SHOAL_INIT_FILL, 1024, 0}};
  const shoal_value_t x = shoal_input(g, "x", SHOAL_F16, SHOAL_SHAPE(ROWS));
  const shoal_value_t scale = shoal_state(g, "scale", SHOAL_F32, SHOAL_SCALAR, &large);
  const shoal_value_t weight = shoal_state(g, "weight", SHOAL_F32, SHOAL_SCALAR, &large);
  const shoal_value_t good = shoal_state(g, "good", SHOAL_I64, SHOAL_SCALAR, NULL);
  const shoal_value_t updates = shoal_state(g, "updates", SHOAL_I64, SHOAL_SCALAR, NULL);
  const shoal_value_t finite = shoal_is_finite(g, shoal_reduce_sum(g, x, SHOAL_SHAPE(0)));
  const shoal_value_t in[] = {scale, good, finite};
  shoal_value_t next[2] = {{0}};
  shoal_node_add(g, "shoal.loss_scale_update", 3, in, 0, NULL, 2, next);
  shoal_assign(g, scale, next[0]);
  shoal_assign(g, good, next[1]);
  const shoal_value_t one = shoal_full(g, SHOAL_SCALAR, 1, SHOAL_I64);
  const shoal_value_t step = shoal_add(g, updates, one);
  shoal_assign_if(g, updates, step, finite);
  shoal_output(g, "later", shoal_cast(g, shoal_greater(g, step, one), SHOAL_F64));
  shoal_assign_if(g, weight, shoal_affine(g, weight, 1.5, 0), finite);
  assert_ok(shoal_model_status(model));
  return model;
}

// On two ranks, which have two rows each, with a program that `spoil`, unless NULL, has changed.
static shoal_status_t check(double each, void (*spoil)(shoal_program_t *program)) {
  uint16_t data[ROWS];
  for (int64_t i = 0; i < ROWS; ++i) shoal_dtype_store(SHOAL_F16, data, i, each);
  const shoal_check_feed_t feed = {.name = "x", .data = data, .size = sizeof data};
  const shoal_intent_entry_t cut = {"x", "ranks:0"};
  const shoal_plan_options_t options = {
      .mesh = "ranks=2", .world = 2, .layouts = &cut, .layout_count = 1};
  shoal_model_t *model = make();
  shoal_rules_t *rules = NULL;
  shoal_plan_t *plan = NULL;
  shoal_program_t *program = NULL;
  assert_ok(shoal_rules_create(shoal_allocator_system(), &rules));
  assert_ok(shoal_plan_make(model, rules, &options, &plan));
  assert_ok(shoal_lower(plan, NULL, &program));
  if (spoil) spoil(program);
  const shoal_check_options_t how = {
      .ranks = 2, .program = program, .from = plan, .steps = 3, .feed_count = 1, .feeds = &feed};
  shoal_status_t status = shoal_check_model(model, &how, NULL);
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_rules_free(rules);
  shoal_model_free(model);
  return status;
}

// The loss scale falls less than it should.
static void back_off_less(shoal_program_t *program) {
  bool found = false;
  for (int64_t s = 0; s < program->classes[0].segment_count; ++s)
    for (int64_t i = 0; i < program->classes[0].segments[s].instruction_count; ++i) {
      const shoal_instruction_t *in = &program->classes[0].segments[s].instructions[i];
      for (int32_t a = 0; in->op && a < in->op->attr_count; ++a) {
        if (strcmp(in->op->attrs[a].name, "backoff") != 0) continue;
        ((shoal_attr_value_t *)in->attrs)[a].f = 0.75;
        found = true;
      }
    }
  assert_true(found);
}

// Nothing is skipped.
static void update_always(shoal_program_t *program) {
  bool found = false;
  for (int64_t s = 0; s < program->classes[0].segment_count; ++s)
    for (int64_t i = 0; i < program->classes[0].segments[s].instruction_count; ++i) {
      shoal_instruction_t *in = &program->classes[0].segments[s].instructions[i];
      if (in->predicate < 0 || strncmp(in->name, "updates", 7) == 0) continue;
      in->predicate = -1;
      found = true;
    }
  assert_true(found);
}

static void skips_as_one_device(void **state) {
  (void)state;
  assert_ok(check(1000, NULL));
  assert_ok(check(40000, NULL));
}

static void scale_is_compared(void **state) {
  (void)state;
  assert_ok(check(1000, back_off_less));  // it does not fall at all
  assert_error(MISMATCH, "loss_scale_update.scale", check(40000, back_off_less));
}

static void skipped_states_are_compared(void **state) {
  (void)state;
  assert_ok(check(1000, update_always));
  assert_error(MISMATCH, "expected 1024", check(40000, update_always));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(skips_as_one_device),
                                     cmocka_unit_test(scale_is_compared),
                                     cmocka_unit_test(skipped_states_are_compared)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

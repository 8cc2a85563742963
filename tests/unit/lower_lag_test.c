// links: all
//
// Where decisions about gradients and states put communication: reductions right behind what makes
// the gradient, updates one reduction behind, gathers ahead of who needs them; and what is
// exchanged in each micro-batch. Without decisions everything stays where it is needed.
#include "plan_fixture.h"

static const shoal_intent_entry_t BY_ROWS[] = {{"ids", "data:0"}, {"labels", "data:0"}};
static const shoal_intent_entry_t IN_PARTS[] = {
    {"ids", "data:0"}, {"labels", "data:0"}, {"*weight", "data:flat"}};
static const shoal_intent_entry_t BATCHES[] = {
    {"ids", "micro:0,data:0"}, {"labels", "micro:0,data:0"}, {"*#adamw.*", "data:flat"}};

static shoal_model_t *model;

static int start(void **state) {
  model = small_gpt(false);
  return set_up(state);
}

static int finish(void **state) {
  shoal_model_free(model);
  return tear_down(state);
}

#define D(k, p, c) \
  { .kind = k, .pattern = p, .choice = c }

static shoal_program_t *lower_with(const char *mesh, int64_t layouts,
                                   const shoal_intent_entry_t *layout, int64_t count,
                                   const shoal_intent_decision_t *decisions) {
  const shoal_intent_t intent = {.mesh_count = 1,
                                 .meshes = &mesh,
                                 .layout_count = layouts,
                                 .layouts = layout,
                                 .decision_count = count,
                                 .decisions = decisions};
  shoal_plan_t *plan;
  assert_ok(shoal_plan_create(model, rules, &intent, 2, shoal_allocator_system(), &plan));
  shoal_program_t *program = lower(plan);
  shoal_plan_free(plan);
  return program;
}

static int64_t first_reader(const shoal_segment_t *segment, int64_t at) {
  for (int64_t i = at + 1; i < segment->instruction_count; ++i)
    for (int32_t k = 0; k < segment->instructions[i].input_count; ++k)
      if (segment->instructions[i].inputs[k] == segment->instructions[at].outputs[0]) return i;
  return segment->instruction_count;
}

static bool is_gradient(const shoal_instruction_t *in) {
  return in->opcode == SHOAL_OPCODE_RESHARD && strncmp(in->name, "grad/", 5) == 0;
}

typedef struct lag {
  int64_t reductions, behind_maker, in_front, next;  // how many stand like that
} lag_t;

// Of the reductions in a segment: which stand behind the instruction that makes the gradient (other
// reductions of what it makes do not count), which in front of who needs it, and of which the next
// one starts before that.
static lag_t look(const shoal_segment_t *segment) {
  lag_t lag = {0};
  int64_t before = -1;
  for (int64_t i = 0; i < segment->instruction_count; ++i) {
    const shoal_instruction_t *in = &segment->instructions[i];
    if (!is_gradient(in)) continue;
    int64_t maker = i - 1;
    while (maker > 0 && is_gradient(&segment->instructions[maker])) --maker;
    const shoal_instruction_t *made = maker < 0 ? NULL : &segment->instructions[maker];
    for (int32_t o = 0; made && o < made->output_count; ++o)
      lag.behind_maker += made->outputs[o] == in->inputs[0];
    lag.in_front += first_reader(segment, i) == i + 1;
    if (before >= 0) lag.next += first_reader(segment, before) > i;
    before = i;
    ++lag.reductions;
  }
  return lag;
}

static void test_reductions(void **state) {
  (void)state;
  const shoal_intent_decision_t decision = D("sync", "*", "last");
  shoal_program_t *plain = lower_with("data=2", 2, BY_ROWS, 0, NULL);
  shoal_program_t *decided = lower_with("data=2", 2, BY_ROWS, 1, &decision);
  const lag_t before = look(segment_of(&plain->classes[0], "train.before.0"));
  const lag_t after = look(segment_of(&decided->classes[0], "train.before.0"));
  assert_true(before.reductions > 20);
  assert_int_equal(before.in_front, before.reductions);
  assert_int_equal(after.reductions, before.reductions);
  assert_int_equal(after.behind_maker, after.reductions);
  assert_int_equal(after.next, after.reductions - 1);
  shoal_program_free(decided);
  shoal_program_free(plain);
}

// Behind the loop all gradients are there: the next is reduced while one updates.
static void test_behind_the_loop(void **state) {
  (void)state;
  const shoal_intent_decision_t decision = D("sync", "*", "last");
  shoal_program_t *program = lower_with("data=2,micro=3", 2, BATCHES, 1, &decision);
  const lag_t lag = look(segment_of(&program->classes[0], "train.after.0"));
  assert_true(lag.reductions > 20);
  assert_int_equal(lag.next, lag.reductions - 1);
  shoal_program_free(program);
}

// ---- gathers ------------------------------------------------------------------------------

static bool gathers(const shoal_class_t *c, const shoal_instruction_t *in) {
  return in->opcode == SHOAL_OPCODE_RESHARD && c->buffers[in->inputs[0]].kind == SHOAL_BUFFER_STATE;
}

// How many others that wait for a gather come between each gather and who needs it; at most
// `ahead`, and as many wherever there are so many in front.
static void expect_ahead(const shoal_program_t *program, int64_t ahead) {
  const shoal_class_t *c = &program->classes[0];
  const shoal_segment_t *segment = segment_of(c, "train.before.0");
  bool needy[4096] = {0};
  int64_t found = 0;
  assert_true(segment->instruction_count < COUNT(needy));
  for (int64_t i = 0; i < segment->instruction_count; ++i)
    if (gathers(c, &segment->instructions[i])) needy[first_reader(segment, i)] = true, ++found;
  assert_true(found > 8);
  for (int64_t i = 0; i < segment->instruction_count; ++i) {
    if (!gathers(c, &segment->instructions[i])) continue;
    const int64_t reader = first_reader(segment, i);
    int64_t between = 0, before = 0;
    for (int64_t k = 0; k < reader; ++k) *(k < i ? &before : &between) += needy[k];
    assert_true(between == ahead || (between < ahead && before == 0));
  }
}

static void test_prefetch(void **state) {
  (void)state;
  static const char *const choices[] = {"0", "1", "2", "3"};
  for (int64_t i = 0; i < COUNT(choices); ++i) {
    const shoal_intent_decision_t decisions[] = {D("keep", "*weight", "redo"),
                                                 D("prefetch", "*weight", choices[i])};
    shoal_program_t *program = lower_with("data=2", 3, IN_PARTS, 2, decisions);
    expect_ahead(program, i);
    shoal_program_free(program);
  }
  const shoal_intent_decision_t redo = D("keep", "*weight", "redo");
  shoal_program_t *program = lower_with("data=2", 3, IN_PARTS, 1, &redo);
  expect_ahead(program, 0);
  shoal_program_free(program);
}

// ---- in each micro-batch ------------------------------------------------------------------

static int64_t temporaries(const shoal_program_t *program) {
  shoal_memory_use_t use;
  assert_ok(shoal_program_memory(program, 0, shoal_allocator_system(), &use));
  return use.temporaries;
}

static void test_each(void **state) {
  (void)state;
  const shoal_intent_decision_t each = D("sync", "*", "each"), last = D("sync", "*", "last");
  shoal_program_t *programs[] = {lower_with("data=2,micro=3", 3, BATCHES, 1, &last),
                                 lower_with("data=2,micro=3", 3, BATCHES, 1, &each)};
  lag_t lags[2];
  for (int i = 0; i < 2; ++i) {
    const shoal_class_t *c = &programs[i]->classes[0];
    lags[i] = look(segment_of(c, i == 0 ? "train.after.0" : "train.loop.0"));
    assert_int_equal(look(segment_of(c, i == 1 ? "train.after.0" : "train.loop.0")).reductions, 0);
  }
  assert_true(lags[0].reductions > 20);
  assert_int_equal(lags[1].reductions, lags[0].reductions);
  assert_int_equal(lags[1].next, lags[1].reductions - 1);
  assert_true(temporaries(programs[1]) < temporaries(programs[0]));
  for (int i = 0; i < 2; ++i) shoal_program_free(programs[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reductions),
      cmocka_unit_test(test_behind_the_loop),
      cmocka_unit_test(test_prefetch),
      cmocka_unit_test(test_each),
  };
  return cmocka_run_group_tests(tests, start, finish);
}

// Decisions that make something a second time: memory falls, the second time comes where it is
// needed, and a program that gets this wrong is found out. (That runs stay the same:
// session_again_test.) links: all
#include "again_support.h"
#include "program/mutate.h"

static int64_t peak_of(const shoal_program_t *program) {
  int64_t peak = 0;
  for (int64_t c = 0; c < program->class_count; ++c) {
    shoal_memory_use_t use;
    assert_ok(shoal_program_memory(program, c, shoal_allocator_system(), &use));
    if (use.temporaries > peak) peak = use.temporaries;
  }
  return peak;
}

static int64_t count_reshards(const shoal_program_t *program) {
  return program->channel_count;
}

static void test_memory_falls(void **state) {
  (void)state;
  const shoal_intent_decision_t both[] = {RECOMPUTE, REDO};
  shoal_model_t *model = make_model(6);
  for (int64_t i = 0; i < COUNT(SETTINGS); ++i) {
    shoal_program_t *plain = lower_with(model, &SETTINGS[i], 0, NULL);
    shoal_program_t *again = lower_with(model, &SETTINGS[i], 1, &both[0]);
    const bool flat = SETTINGS[i].layouts[2].value != NULL && i != 3;
    if (peak_of(again) >= peak_of(plain))
      fail_msg("%s: %lld bytes with recomputation, %lld without", SETTINGS[i].name,
               (long long)peak_of(again), (long long)peak_of(plain));
    shoal_program_t *redone = lower_with(model, &SETTINGS[i], 2, both);
    if (flat) {
      assert_true(peak_of(redone) < peak_of(again));
      assert_true(count_reshards(redone) > count_reshards(again));
    } else {
      assert_int_equal(peak_of(redone), peak_of(again));
    }
    shoal_program_free(redone);
    shoal_program_free(again);
    shoal_program_free(plain);
  }
  shoal_model_free(model);
}

// ---- order --------------------------------------------------------------------------------

static bool is_of(const char *name, const char *prefix, int block) {
  char start[32];
  snprintf(start, sizeof start, "%sblock%d/", prefix, block);
  return strncmp(name, start, strlen(start)) == 0;
}

static int64_t find_node(const shoal_segment_t *segment, const char *format, int block) {
  char name[64];
  snprintf(name, sizeof name, format, block);
  for (int64_t i = 0; i < segment->instruction_count; ++i)
    if (strcmp(segment->instructions[i].name, name) == 0) return i;
  fail_msg("no instruction '%s'", name);
  return -1;
}

// A block is computed for the second time when the gradient has come through the block after it,
// and before it goes through this one's own activations.
static void test_order(void **state) {
  (void)state;
  enum { LAYERS = 6 };
  shoal_model_t *model = make_model(LAYERS);
  shoal_program_t *program = lower_with(model, &SETTINGS[0], 1, &RECOMPUTE);
  const shoal_segment_t *segment = segment_of(&program->classes[0], "train.before.0");
  assert_non_null(segment);
  for (int b = 0; b < LAYERS; ++b) {
    const int64_t after =
        b + 1 < LAYERS ? find_node(segment, "grad/block%d/ln_1/layer_norm/layer_norm_grad", b + 1)
                       : find_node(segment, "grad/ln_f/layer_norm/layer_norm_grad", 0);
    const int64_t before = find_node(segment, "grad/block%d/mlp/gelu/gelu_grad", b);
    int64_t twice = 0;
    for (int64_t i = 0; i < segment->instruction_count; ++i) {
      const shoal_instruction_t *in = &segment->instructions[i];
      if (in->opcode != SHOAL_OPCODE_COMPUTE || !is_of(in->name, "", b)) continue;
      if (find_node(segment, in->name, 0) == i) continue;
      assert_true(i > after);
      twice += i < before;
    }
    assert_true(twice > 12);
  }
  shoal_program_free(program);
  shoal_model_free(model);
}

// A stage computes its block again on the way back, not as soon as it has come forward.
static void test_stages(void **state) {
  (void)state;
  shoal_model_t *model = make_model(2);
  shoal_program_t *program = lower_with(model, &SETTINGS[4], 1, &RECOMPUTE);
  const shoal_class_t *first = shoal_program_class_of(program, 0);
  static const char *const name = "block0/mlp/fc1/einsum";
  assert_int_equal(count_in(segment_of(first, "train.loop.0"), SHOAL_OPCODE_COMPUTE, name), 1);
  assert_int_equal(count_in(segment_of(first, "train.loop.2"), SHOAL_OPCODE_COMPUTE, name), 1);
  shoal_program_free(program);
  shoal_model_free(model);
}

// What is not computed again: values that others read, and what is fetched or assigned.
static void test_kept(void **state) {
  (void)state;
  shoal_model_t *model = make_model(2);
  const shoal_intent_decision_t everything = {
      .kind = "recompute", .pattern = "block0/mlp*", .choice = "yes"};
  shoal_program_t *program = lower_with(model, &SETTINGS[0], 1, &everything);
  const shoal_segment_t *segment = segment_of(&program->classes[0], "train.before.0");
  int64_t times = 0;
  for (int64_t i = 0; i < segment->instruction_count; ++i) {
    const shoal_instruction_t *in = &segment->instructions[i];
    if (in->opcode != SHOAL_OPCODE_COMPUTE) continue;
    int64_t count = 0;
    for (int64_t k = 0; k < segment->instruction_count; ++k)
      count += segment->instructions[k].opcode == SHOAL_OPCODE_COMPUTE &&
               strcmp(segment->instructions[k].name, in->name) == 0;
    if (count > 1) assert_true(is_of(in->name, "", 0));
    assert_true(count <= 2);
    times += count > 1;
  }
  assert_true(times > 0);
  shoal_program_free(program);
  shoal_model_free(model);
}

// Whoever makes something again too early, or reads what was made the first time, is found out.
static void test_mutants(void **state) {
  (void)state;
  const shoal_intent_decision_t both[] = {RECOMPUTE, REDO};
  shoal_model_t *model = make_model(1);
  int64_t early = 0, dead = 0;
  for (int64_t i = 1; i < COUNT(SETTINGS) - 1; ++i) {
    shoal_program_t *program = lower_with(model, &SETTINGS[i], 2, both);
    for (int64_t m = 0, all = shoal_program_mutations(program); m < all; ++m) {
      shoal_arena_t arena;
      shoal_mutation_t mutation;
      shoal_program_t *mutant = NULL;
      shoal_arena_init(shoal_allocator_system(), &arena);
      assert_ok(shoal_program_mutate(program, m, &arena, &mutation));
      if (mutation.kind == SHOAL_MUTATION_AGAIN) {
        assert_ok(shoal_program_parse("mutant", mutation.text, model->registry,
                                      shoal_allocator_system(), &mutant));
        shoal_status_t status = shoal_program_check(mutant, shoal_allocator_system());
        if (!status) fail_msg("%s: not noticed", mutation.description);
        assert_int_equal(shoal_status_code(status), SHOAL_MISMATCH);
        ++*(strstr(mutation.description, "first time") ? &dead : &early);
        shoal_status_free(status);
        shoal_program_free(mutant);
      }
      shoal_arena_deinit(&arena);
    }
    shoal_program_free(program);
  }
  assert_true(early > 10 && dead > 10);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_memory_falls), cmocka_unit_test(test_order),
      cmocka_unit_test(test_stages),       cmocka_unit_test(test_kept),
      cmocka_unit_test(test_mutants),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

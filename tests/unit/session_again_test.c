// Decisions that make something a second time: blocks that are recomputed, weights that are
// gathered again. Memory falls, the second time comes where it is needed, and the bits of a run are
// the same as without the decision, dropout included. links: all
#include <string.h>

#include "plan_fixture.h"
#include "program/mutate.h"
#include "run_support.h"
#include "shoal/session.h"

enum { BATCH = 6, CONTEXT = 4, VOCABULARY = 7, WIDTH = 8, STEPS = 2, MOST_BYTES = 1 << 18 };

static shoal_model_t *make_model(int64_t layers) {
  return make_gpt(&(shoal_gpt_options_t){.batch = BATCH,
                                         .context = CONTEXT,
                                         .vocabulary = VOCABULARY,
                                         .width = WIDTH,
                                         .heads = 2,
                                         .layers = layers,
                                         .dtype = SHOAL_F64,
                                         .dropout = 0.3});
}

static const shoal_intent_decision_t RECOMPUTE = {
    .kind = "recompute", .pattern = "block*", .choice = "yes"};
static const shoal_intent_decision_t REDO = {
    .kind = "keep", .pattern = "*weight", .choice = "redo"};

typedef struct setting {
  const char *name;
  const char *meshes[2];  // the second: block1 and what follows
  shoal_intent_entry_t layouts[4];
} setting_t;

static const setting_t SETTINGS[] = {
    {"one rank", {"data=1"}, {{"ids", "data:0"}}},
    {"ranks", {"data=2"}, {{"ids", "data:0"}, {"labels", "data:0"}, {"block*weight", "data:flat"}}},
    {"micro-batches",
     {"data=2,micro=4"},
     {{"ids", "micro:0,data:0"}, {"labels", "micro:0,data:0"}, {"block*weight", "data:flat"}}},
    {"tensors",
     {"data=2,tensor=2"},
     {{"ids", "data:0"}, {"labels", "data:0"}, {"block*fc*weight", "tensor:1"}}},
    {"stages",
     {"a!data=2,micro=3@0-1", "b!data=2,micro=3@2-3"},
     {{"ids", "a!micro:0,data:0"}, {"labels", "b!micro:0,data:0"}, {"block*weight", "data:flat"}}},
};

static const shoal_intent_entry_t STAGES[] = {
    {"block*", "b"}, {"block0/*", "a"}, {"wte*", "a"},          {"wpe*", "a"},
    {"ln_f*", "b"},  {"head*", "b"},    {"cross_entropy*", "b"}};

static int32_t world_of(const setting_t *setting) {
  return strcmp(setting->name, "one rank") == 0  ? 1
         : strcmp(setting->name, "stages") == 0  ? 4
         : strcmp(setting->name, "tensors") == 0 ? 4
                                                 : 2;
}

static shoal_program_t *lower_with(const shoal_model_t *model, const setting_t *setting,
                                   int64_t count, const shoal_intent_decision_t *decisions) {
  int64_t layouts = 0;
  while (layouts < COUNT(setting->layouts) && setting->layouts[layouts].pattern) ++layouts;
  const shoal_intent_t intent = {.mesh_count = setting->meshes[1] ? 2 : 1,
                                 .meshes = setting->meshes,
                                 .layout_count = layouts,
                                 .layouts = setting->layouts,
                                 .stage_count = setting->meshes[1] ? COUNT(STAGES) : 0,
                                 .stages = STAGES,
                                 .decision_count = count,
                                 .decisions = decisions};
  shoal_plan_t *plan;
  assert_ok(
      shoal_plan_create(model, rules, &intent, world_of(setting), shoal_allocator_system(), &plan));
  shoal_program_t *program = lower(plan);
  shoal_plan_free(plan);
  return program;
}

// ---- bits ---------------------------------------------------------------------------------

typedef struct job {
  const shoal_program_t *program;
  char bytes[MOST_RANKS][MOST_BYTES];  // by rank: losses, then states
  int64_t count[MOST_RANKS];
} job_t;

static shoal_status_t run_rank(void *self, shoal_world_t *world) {
  job_t *job = self;
  const int32_t rank = shoal_world_rank(world);
  shoal_session_t *session = NULL;
  char *out = job->bytes[rank];
  int32_t ids[BATCH * CONTEXT], labels[BATCH * CONTEXT];
  int64_t count = 0;
  shoal_status_t status =
      shoal_session_create(job->program, &(shoal_parallelize_options_t){.world = world}, &session);
  for (int step = 0; step < STEPS && !status; ++step) {
    for (int i = 0; i < BATCH * CONTEXT; ++i) {
      ids[i] = (i * 5 + step) % VOCABULARY;
      labels[i] = (i * 3 + step * 2) % VOCABULARY;
    }
    status = shoal_feed(session, "ids", ids, sizeof ids);
    if (!status) status = shoal_feed(session, "labels", labels, sizeof labels);
    if (!status) status = shoal_run(session, "train");
    if (!status) status = shoal_fetch(session, "loss", &out[count], 8);
    count += 8;
  }
  for (int64_t s = 0; s < job->program->state_count && !status; ++s) {
    const shoal_program_state_t *saved = &job->program->states[s];
    const int64_t bytes = 8 * shoal_shape_count(&saved->type.shape);
    if (saved->type.dtype != SHOAL_F64) continue;
    EXPECT(count + bytes <= MOST_BYTES, "too many values");
    status = shoal_session_get(session, saved->name, &out[count], (size_t)bytes);
    count += bytes;
  }
  job->count[rank] = count;
  shoal_session_free(session);
  return status;
}

static job_t *run_program(const shoal_program_t *program) {
  job_t *job = calloc(1, sizeof *job);
  assert_non_null(job);
  job->program = program;
  run_ranks_ok(program->world, run_rank, job);
  return job;
}

static void test_same_bits(void **state) {
  (void)state;
  const shoal_intent_decision_t both[] = {RECOMPUTE, REDO};
  shoal_model_t *model = make_model(2);
  for (int64_t i = 0; i < COUNT(SETTINGS); ++i) {
    shoal_program_t *plain = lower_with(model, &SETTINGS[i], 0, NULL);
    job_t *expected = run_program(plain);
    for (int64_t k = 0; k < 3; ++k) {
      shoal_program_t *program = lower_with(model, &SETTINGS[i], k == 2 ? 2 : 1, &both[k % 2]);
      job_t *got = run_program(program);
      for (int32_t r = 0; r < plain->world; ++r) {
        assert_int_equal(got->count[r], expected->count[r]);
        assert_memory_equal(got->bytes[r], expected->bytes[r], (size_t)got->count[r]);
      }
      free(got);
      shoal_program_free(program);
    }
    free(expected);
    shoal_program_free(plain);
  }
  shoal_model_free(model);
}

// ---- memory -------------------------------------------------------------------------------

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
      cmocka_unit_test(test_same_bits), cmocka_unit_test(test_memory_falls),
      cmocka_unit_test(test_order),     cmocka_unit_test(test_stages),
      cmocka_unit_test(test_kept),      cmocka_unit_test(test_mutants),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

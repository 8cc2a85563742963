// Schedules from the plan: programs with several stages whose orders follow the tables of all
// generators and of users. They must pass the check, run, and give the bits of the order without a
// schedule (all micro-batches of a stage, then the next stage), over several steps, with
// micro-batches of different size; slots are as many as are in flight; with equal works the bubble
// in simulation is that of the formula. links: all
#include <math.h>

#include "base/text.h"
#include "layers_support.h"
#include "program/mutate.h"
#include "shoal/schedule.h"
#include "shoal/simulate.h"

enum { WIDTH = 6, MOST_CHUNKS = 8 };

typedef struct shape {
  int stages;     // meshes
  int chunks;     // of layers on each of them
  int data;       // ranks of a mesh
  int64_t micro;  // micro-batches
  int64_t batch;  // rows: not a multiple of micro
  bool back;      // the second chunk of each mesh lies on the meshes in the other direction
} shape_t;

static int32_t world_of(const shape_t *shape) {
  return shape->stages * shape->data;
}

static int all_chunks(const shape_t *shape) {
  return shape->stages * shape->chunks;
}

static int mesh_of_chunk(const shape_t *shape, int c) {
  return shape->back && c >= shape->stages ? all_chunks(shape) - 1 - c : c % shape->stages;
}

// ---- the model and its plan -------------------------------------------------------------

// A layer for each chunk of each stage.
static shoal_model_t *make_model(const shape_t *shape) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t h = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(shape->batch, WIDTH));
  for (int c = 0; c < all_chunks(shape); ++c) {
    char name[16];
    snprintf(name, sizeof name, "chunk%d", c);
    shoal_scope_push(g, name);
    h = shoal_tanh(g, shoal_nn_linear(g, "fc", h, WIDTH));
    shoal_scope_pop(g);
  }
  const shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(shape->batch));
  const shoal_value_t loss = shoal_nn_cross_entropy(g, h, y);
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 1e-2f});
  shoal_output(g, "loss", loss);
  assert_ok(shoal_model_status(model));
  return model;
}

// With the schedule of this choice; NULL: none. With `recompute` layers are computed again.
static shoal_program_t *lower_with(const shoal_model_t *model, const shape_t *shape,
                                   const char *choice, bool recompute) {
  char patterns[MOST_CHUNKS + 1][16], names[MOST_CHUNKS + 1][16], inputs[2][40];
  stage_meshes_t meshes;
  shoal_intent_entry_t stages[MOST_CHUNKS + 1];
  name_meshes(shape->stages, shape->data, shape->micro, &meshes);
  const int chunks = all_chunks(shape);
  for (int c = 0; c <= chunks; ++c) {
    snprintf(patterns[c], sizeof patterns[c], c < chunks ? "chunk%d/*" : "cross_entropy*", c);
    snprintf(names[c], sizeof names[c], "m%d", mesh_of_chunk(shape, c < chunks ? c : c - 1));
    stages[c] = (shoal_intent_entry_t){patterns[c], names[c]};
  }
  snprintf(inputs[0], sizeof inputs[0], "m0!micro:0,data:0");
  snprintf(inputs[1], sizeof inputs[1], "m%d!micro:0,data:0", mesh_of_chunk(shape, chunks - 1));
  const shoal_intent_entry_t layouts[] = {{"x", inputs[0]}, {"y", inputs[1]}};
  const shoal_intent_decision_t decisions[] = {
      {.kind = "schedule", .pattern = "*", .choice = choice},
      {.kind = "recompute", .pattern = "chunk*", .choice = "yes"}};
  shoal_plan_t *plan;
  assert_ok(shoal_plan_create(model, rules,
                              &(shoal_intent_t){.mesh_count = shape->stages,
                                                .meshes = meshes.texts,
                                                .layout_count = COUNT(layouts),
                                                .layouts = layouts,
                                                .stage_count = chunks + 1,
                                                .stages = stages,
                                                .decision_count = !choice     ? 0
                                                                  : recompute ? 2
                                                                              : 1,
                                                .decisions = decisions},
                              world_of(shape), shoal_allocator_system(), &plan));
  shoal_program_t *program;
  assert_ok(shoal_lower(plan, NULL, &program));
  shoal_plan_free(plan);
  return program;
}

static shoal_program_t *lower_as(const shoal_model_t *model, const shape_t *shape,
                                 const char *choice) {
  return lower_with(model, shape, choice, false);
}

// ---- running ----------------------------------------------------------------------------

static job_t *run_program(const shape_t *shape, const shoal_program_t *program, bool opaque) {
  return run_layers(program, shape->batch, WIDTH, opaque, NULL);
}

// Through its text, as a user would bring it.
static shoal_program_t *reread(const shoal_program_t *program, const shoal_model_t *model) {
  shoal_arena_t arena;
  const char *text;
  shoal_program_t *again;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(shoal_program_print(program, &arena, &text));
  assert_ok(
      shoal_program_parse("schedule", text, model->registry, shoal_allocator_system(), &again));
  assert_ok(shoal_program_check(again, shoal_allocator_system()));
  shoal_arena_deinit(&arena);
  return again;
}

// What the forward part of a stage keeps for its backward part has as many slots as the table has
// micro-batches in flight between the two.
static void expect_slots(const shape_t *shape, const shoal_program_t *program, const char *choice) {
  const shoal_schedule_t *table;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(shoal_schedule_create(choice,
                                  &(shoal_pipeline_t){.mesh_count = shape->stages,
                                                      .stage_count = all_chunks(shape),
                                                      .micro = (int32_t)shape->micro},
                                  &arena, &table));
  for (int k = 0; k < all_chunks(shape); ++k) {
    const int stage = k % shape->stages;
    const shoal_class_t *c = &program->classes[stage];
    char name[48];
    snprintf(name, sizeof name, "chunk%d/tanh", k);
    bool found = false;
    for (int64_t i = 0; i < c->buffer_count; ++i) {
      if (strcmp(c->buffers[i].name, name) != 0) continue;
      if (c->buffers[i].layout->mesh != &program->meshes[stage]) continue;
      found = true;
      assert_int_equal(shoal_buffer_slots(c, &c->buffers[i]),
                       shoal_schedule_in_flight(table, k, SHOAL_WORK_FORWARD, SHOAL_WORK_BACKWARD));
    }
    assert_true(found);
  }
  shoal_arena_deinit(&arena);
}

// What a stage receives forward and needs for its weight gradient has as many slots as are between
// F and W, and one more for the next to come in.
static void expect_weight_slots(const shape_t *shape, const shoal_program_t *program) {
  for (int k = 1; k < shape->stages; ++k) {
    const shoal_class_t *c = &program->classes[k];
    int64_t slots = shape->stages + 1;
    bool found = false;
    char name[48];
    snprintf(name, sizeof name, "chunk%d/tanh", k - 1);
    if (slots > shape->micro) slots = shape->micro;
    for (int64_t i = 0; i < c->buffer_count; ++i) {
      if (strcmp(c->buffers[i].name, name) != 0) continue;
      if (c->buffers[i].layout->mesh != &program->meshes[k]) continue;
      found = true;
      assert_int_equal(shoal_buffer_slots(c, &c->buffers[i]), slots);
    }
    assert_true(found);
  }
}

static void try_choice(const shape_t *shape, const shoal_model_t *model, const char *choice,
                       const job_t *reference) {
  print_message("%d meshes, %d chunks, %lld micro-batches: %s\n", shape->stages, shape->chunks,
                (long long)shape->micro, choice);
  shoal_program_t *lowered = lower_as(model, shape, choice);
  assert_int_equal(lowered->class_count, shape->stages);
  if (strncmp(choice, "table", 5) != 0 && !shape->back) expect_slots(shape, lowered, choice);
  if (strcmp(choice, "zb-h1") == 0) expect_weight_slots(shape, lowered);
  shoal_program_t *program = reread(lowered, model);
  for (int opaque = 0; opaque < 2; ++opaque) {
    job_t *mine = run_program(shape, program, opaque == 1);
    expect_same_bits(reference, mine);
    free(mine);
  }
  shoal_program_free(program);
  shoal_program_free(lowered);
}

static void try_shape(const shape_t *shape) {
  shoal_model_t *model = make_model(shape);
  shoal_program_t *plain = lower_as(model, shape, NULL);
  job_t *reference = run_program(shape, plain, false);
  for (int64_t i = 0; shoal_schedule_name(i); ++i) {
    const char *name = shoal_schedule_name(i);
    const bool several =
        strcmp(name, "gpipe") == 0 || strcmp(name, shape->back ? "zb-v" : "interleaved") == 0;
    if ((shape->chunks == 1 && strcmp(name, "zb-v") != 0) || several)
      try_choice(shape, model, name, reference);
  }
  if (shape->stages == 3 && shape->chunks == 1 && shape->micro == 4)
    try_choice(shape, model,
               "table m2: F2.0 B2.0 W2.0 F2.1 F2.2 B2.1 B2.2 F2.3 B2.3 W2.1 W2.2 W2.3\n"
               "m0: F0.0 F0.1 F0.2 F0.3 B0.0 B0.1 W0.0 W0.1 B0.2 W0.2 B0.3 W0.3\n"
               "m1: F1.0 F1.1 F1.2 B1.0 F1.3 B1.1 B1.2 W1.0 W1.1 B1.3 W1.2 W1.3",
               reference);
  free(reference);
  shoal_program_free(plain);
  shoal_model_free(model);
}

// A change of when things run or where they lie is refused, or it changes nothing: then the mutant
// runs, and gives the same bits. A wait that is left out is always refused.
static void try_mutants(const shape_t *shape, const char *choice) {
  shoal_model_t *model = make_model(shape);
  shoal_program_t *program = lower_as(model, shape, choice);
  job_t *reference = run_program(shape, program, false);
  int64_t tried = 0, lived = 0;
  for (int64_t i = 0, all = shoal_program_mutations(program); i < all; ++i) {
    shoal_arena_t arena;
    shoal_mutation_t mutation;
    shoal_program_t *mutant;
    shoal_arena_init(shoal_allocator_system(), &arena);
    assert_ok(shoal_program_mutate(program, i, &arena, &mutation));
    const shoal_mutation_kind_t kind = mutation.kind;
    const bool left_out = kind == SHOAL_MUTATION_CALL_WAIT;
    if (left_out || kind == SHOAL_MUTATION_GROUP_SLOT || kind == SHOAL_MUTATION_CALL_WAIT_BACK ||
        kind == SHOAL_MUTATION_CALL_SLOT || kind == SHOAL_MUTATION_QUEUE ||
        kind == SHOAL_MUTATION_CALL_WAIT_OTHER || kind == SHOAL_MUTATION_CALL_SWAP ||
        kind == SHOAL_MUTATION_CHANNEL_LANE) {
      ++tried;
      assert_ok(shoal_program_parse("mutant", mutation.text, model->registry,
                                    shoal_allocator_system(), &mutant));
      shoal_status_t status = shoal_program_check(mutant, shoal_allocator_system());
      if (!status) {
        ++lived;
        if (left_out) fail_msg("%s: lives", mutation.description);
        job_t *mine = run_program(shape, mutant, false);
        expect_same_bits(reference, mine);
        free(mine);
      }
      shoal_status_free(status);
      shoal_program_free(mutant);
    }
    shoal_arena_deinit(&arena);
  }
  print_message("%lld of %lld mutants live, and compute the same\n", (long long)lived,
                (long long)tried);
  assert_true(tried > 50 && lived * 3 < tried);
  free(reference);
  shoal_program_free(program);
  shoal_model_free(model);
}

static void mutants(void **state) {
  (void)state;
  static const shape_t shapes[] = {{3, 1, 1, 4, 9}, {3, 2, 1, 3, 7}};
  static const char *const choices[] = {"zb-h1", "interleaved"};
#ifdef __SANITIZE_THREAD__  // the second takes a minute there
  const int64_t count = 1;
#else
  const int64_t count = COUNT(shapes);
#endif
  for (int64_t i = 0; i < count; ++i) try_mutants(&shapes[i], choices[i]);
}

// Layers that are computed again, in B, give the same bits.
static void recomputed(void **state) {
  (void)state;
  static const shape_t shapes[] = {{3, 1, 1, 4, 9}, {2, 2, 1, 5, 11}};
  static const char *const choices[] = {"zb-h1", "interleaved"};
  for (int64_t i = 0; i < COUNT(shapes); ++i) {
    shoal_model_t *model = make_model(&shapes[i]);
    shoal_program_t *plain = lower_as(model, &shapes[i], NULL),
                    *again = lower_with(model, &shapes[i], choices[i], true);
    assert_ok(shoal_program_check(again, shoal_allocator_system()));
    job_t *reference = run_program(&shapes[i], plain, false),
          *mine = run_program(&shapes[i], again, true);
    expect_same_bits(reference, mine);
    free(mine);
    free(reference);
    shoal_program_free(again);
    shoal_program_free(plain);
    shoal_model_free(model);
  }
}

// ---- time -------------------------------------------------------------------------------

// The instruction that the work of a segment waits with: the first that computes on what the
// segment receives, else the first that computes; -1: none.
static int64_t heavy_in(const shoal_segment_t *segment) {
  int64_t first = -1;
  for (int64_t i = 0; i < segment->instruction_count; ++i) {
    const shoal_instruction_t *in = &segment->instructions[i];
    if (in->opcode != SHOAL_OPCODE_COMPUTE) continue;
    if (first < 0) first = i;
    for (int32_t w = 0; w < in->wait_count; ++w)
      if (segment->instructions[in->waits[w]].opcode == SHOAL_OPCODE_RESHARD) return i;
  }
  return first;
}

// One instruction of each segment of the loop takes the time of its work, all else takes none.
static shoal_times_t *make_times(const shoal_program_t *program, bool split) {
  shoal_text_t text;
  shoal_times_t *times;
  bool any = false;
  shoal_text_init(shoal_allocator_system(), &text);
  shoal_text_add(&text,
                 "{\"shoal_times\": 1, \"link\": {\"latency\": 0, \"bandwidth\": 1e30},"
                 "\"instructions\": [");
  for (int64_t c = 0; c < program->class_count; ++c)
    for (int64_t s = 0; s < program->classes[c].segment_count; ++s) {
      const shoal_segment_t *segment = &program->classes[c].segments[s];
      const bool loop = strncmp(segment->name, "train.loop.", 11) == 0;
      const int64_t heavy = loop ? heavy_in(segment) : -1;
      const int seconds = loop && segment->name[11] == 'B' && !split ? 2 : 1;
      for (int64_t i = 0; i < segment->instruction_count; ++i) {
        if (segment->instructions[i].opcode == SHOAL_OPCODE_RESHARD) continue;
        shoal_text_addf(
            &text, "%s{\"class\": %lld, \"segment\": \"%s\", \"index\": %lld, \"seconds\": %d}",
            any ? "," : "", (long long)c, segment->name, (long long)i, i == heavy ? seconds : 0);
        any = true;
      }
    }
  shoal_text_add(&text, "]}");
  assert_ok(shoal_text_status(&text));
  assert_ok(shoal_times_parse("times", shoal_text_string(&text), shoal_allocator_system(), &times));
  shoal_text_deinit(&text);
  return times;
}

// With F, B and W of equal length, of all stages, and links that take no time, a step takes as long
// as the table does: every rank idles as the formula says.
static void expect_bubble(const shape_t *shape, const char *choice, double idle) {
  shoal_model_t *model = make_model(shape);
  shoal_program_t *program = lower_as(model, shape, choice);
  shoal_times_t *times = make_times(program, strncmp(choice, "zb", 2) == 0);
  shoal_simulation_t *simulation;
  assert_ok(shoal_simulate(program, &(shoal_simulate_options_t){.times = times}, &simulation));
  assert_int_equal(simulation->count, shape->stages);
  const double busy = 3.0 * (double)shape->micro * shape->chunks;
  for (int64_t g = 0; g < simulation->count; ++g) {
    assert_true(fabs(simulation->groups[g].busy[SHOAL_QUEUE_COMPUTE] - busy) < 1e-6);
    if (fabs(simulation->seconds - busy - idle) > 1e-6)
      fail_msg("%s on %d meshes: %g s, not %g + %g", choice, shape->stages, simulation->seconds,
               busy, idle);
  }
  shoal_simulation_free(simulation);
  shoal_times_free(times);
  shoal_program_free(program);
  shoal_model_free(model);
}

static void bubbles(void **state) {
  (void)state;
  for (int p = 3; p <= 4; ++p) {
    const shape_t one = {p, 1, 1, 7, 17}, two = {p, 2, 1, 2 * p + 1, 23};
    expect_bubble(&one, "gpipe", 3 * (p - 1));
    expect_bubble(&one, "1f1b", 3 * (p - 1));
    expect_bubble(&one, "1f1b+1", 3 * (p - 1));
    expect_bubble(&one, "zb-h1", p - 1);              // (p - 1) (F + B - W)
    expect_bubble(&one, "zb-h2", p - 1);              // the same for one step alone
    expect_bubble(&two, "interleaved", 3 * (p - 1));  // of stages of half the size
  }
}

static void plain(void **state) {
  (void)state;
  static const shape_t shapes[] = {
      {3, 1, 1, 5, 13}, {3, 1, 2, 4, 11}, {4, 1, 1, 6, 15}, {4, 1, 2, 5, 18}, {3, 1, 1, 2, 5}};
  for (int64_t i = 0; i < COUNT(shapes); ++i) try_shape(&shapes[i]);
}

static void interleaved(void **state) {
  (void)state;
  static const shape_t shapes[] = {{3, 2, 1, 3, 7},  {3, 2, 2, 6, 16}, {4, 2, 1, 5, 11},
                                   {4, 2, 2, 8, 21}, {3, 2, 1, 2, 5},  {2, 2, 2, 5, 11},
                                   {2, 3, 1, 4, 9}};
  for (int64_t i = 0; i < COUNT(shapes); ++i) try_shape(&shapes[i]);
}

// There and back: the two chunks of the last mesh are one stage.
static void there_and_back(void **state) {
  (void)state;
  static const shape_t shapes[] = {{2, 2, 1, 5, 11, true}, {3, 2, 2, 4, 9, true}};
  for (int64_t i = 0; i < COUNT(shapes); ++i) try_shape(&shapes[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plain),      cmocka_unit_test(interleaved), cmocka_unit_test(there_and_back),
      cmocka_unit_test(recomputed), cmocka_unit_test(bubbles),     cmocka_unit_test(mutants),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

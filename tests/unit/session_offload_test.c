// States and values that the plan keeps in host memory or in files: the programs pass the check,
// give the bits of those that keep everything on the device, over several steps, micro-batches and
// schedules, and the device's arena is smaller by what lies elsewhere, but for what is on its way.
// links: all
#include "base/scratch.h"
#include "layers_support.h"
#include "run/run.h"
#include "session/session_impl.h"

enum { MOST_LAYERS = 12 };

typedef struct shape {
  int layers;
  int stages;            // meshes; layers are dealt to them in order
  int data;              // ranks of a mesh
  int64_t micro, batch;  // rows: perhaps not a multiple of micro
  int64_t width;
  const char *schedule;  // NULL: none
} shape_t;

static int32_t world_of(const shape_t *shape) {
  return shape->stages * shape->data;
}

// ---- the model and its plan ---------------------------------------------------------------

// A state that is assigned under a predicate: not in the first step.
static void count_rows(shoal_graph_t *g, shoal_value_t h) {
  const int64_t width = shoal_value_type(h).shape.dims[1];
  shoal_kind_push(g, SHOAL_NODE_UPDATE);
  const shoal_value_t seen = shoal_state(g, "/seen", SHOAL_F64, SHOAL_SHAPE(width), NULL);
  const shoal_value_t late = shoal_greater_equal(g, shoal_cast(g, shoal_step(g), SHOAL_F64),
                                                 shoal_full(g, SHOAL_SCALAR, 2, SHOAL_F64));
  shoal_assign_if(g, seen, shoal_add(g, seen, shoal_reduce_sum(g, h, SHOAL_SHAPE(0))), late);
  shoal_kind_pop(g);
}

// A state whose next value is there before the backward pass reads the old one.
static shoal_value_t scale_by_state(shoal_graph_t *g, shoal_value_t h) {
  const shoal_state_options_t one = {.init = {SHOAL_INIT_FILL, 1, 0}};
  const int64_t width = shoal_value_type(h).shape.dims[1];
  const shoal_value_t scale = shoal_state(g, "/scale", SHOAL_F64, SHOAL_SHAPE(width), &one);
  shoal_assign(g, scale, shoal_affine(g, scale, 0.9, 0.25));
  return shoal_mul(g, h, scale);
}

static shoal_model_t *make_model(const shape_t *shape) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t h = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(shape->batch, shape->width));
  for (int c = 0; c < shape->layers; ++c) {
    char name[16];
    snprintf(name, sizeof name, "layer%d", c);
    shoal_scope_push(g, name);
    h = shoal_tanh(g, shoal_nn_linear(g, "fc", h, shape->width));
    shoal_scope_pop(g);
  }
  if (shape->stages == 1) h = scale_by_state(g, h);
  const shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(shape->batch));
  const shoal_value_t loss = shoal_nn_cross_entropy(g, h, y);
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 1e-2f});
  shoal_output(g, "loss", loss);
  if (shape->stages == 1) count_rows(g, h);
  assert_ok(shoal_model_status(model));
  return model;
}

// With these decisions, and the shape's schedule.
static shoal_program_t *lower_with(const shoal_model_t *model, const shape_t *shape, int64_t count,
                                   const shoal_intent_decision_t *decisions) {
  char patterns[MOST_LAYERS + 1][24], names[MOST_LAYERS + 1][16], inputs[2][32];
  stage_meshes_t meshes;
  shoal_intent_entry_t stages[MOST_LAYERS + 1];
  shoal_intent_decision_t all[8];
  name_meshes(shape->stages, shape->data, shape->micro, &meshes);
  for (int c = 0; c <= shape->layers; ++c) {
    const int layer = c < shape->layers ? c : c - 1;
    snprintf(patterns[c], sizeof patterns[c], c < shape->layers ? "layer%d/*" : "cross_entropy*",
             c);
    snprintf(names[c], sizeof names[c], "m%d", layer * shape->stages / shape->layers);
    stages[c] = (shoal_intent_entry_t){patterns[c], names[c]};
  }
  snprintf(inputs[0], sizeof inputs[0], "m0!%sdata:0", shape->micro > 1 ? "micro:0," : "");
  snprintf(inputs[1], sizeof inputs[1], "m%d!%sdata:0", shape->stages - 1,
           shape->micro > 1 ? "micro:0," : "");
  const shoal_intent_entry_t layouts[] = {{"x", inputs[0]}, {"y", inputs[1]}};
  for (int64_t i = 0; i < count; ++i) all[i] = decisions[i];
  if (shape->schedule)
    all[count++] = (shoal_intent_decision_t){
        .kind = "schedule", .pattern = "train", .choice = shape->schedule};
  shoal_plan_t *plan;
  assert_ok(shoal_plan_create(model, rules,
                              &(shoal_intent_t){.mesh_count = shape->stages,
                                                .meshes = meshes.texts,
                                                .layout_count = COUNT(layouts),
                                                .layouts = layouts,
                                                .stage_count = shape->layers + 1,
                                                .stages = stages,
                                                .decision_count = count,
                                                .decisions = all},
                              world_of(shape), shoal_allocator_system(), &plan));
  shoal_program_t *program = lower(plan);
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  shoal_plan_free(plan);
  return program;
}

// ---- running ------------------------------------------------------------------------------

static shoal_status_t look_at_memory(const shoal_session_t *session, int32_t rank) {
  const shoal_memory_report_t memory = shoal_session_memory(session);
  for (int kind = SHOAL_MEMORY_HOST; kind < SHOAL_MEMORY_COUNT; ++kind)
    EXPECT(memory.arena_touched[kind] <= memory.arena_planned[kind] &&
               (rank > 0 || memory.arena_touched[kind] == memory.arena_planned[kind]),
           "touched %lld of %lld", (long long)memory.arena_touched[kind],
           (long long)memory.arena_planned[kind]);
  return NULL;
}

static job_t *run_program(const shape_t *shape, const shoal_program_t *program, bool opaque) {
  return run_layers(program, shape->batch, shape->width, opaque, look_at_memory);
}

// ---- bits -----------------------------------------------------------------------------------

#define D(kind_, pattern_, choice_) \
  { .kind = kind_, .pattern = pattern_, .choice = choice_ }

static const struct {
  const char *what;
  int64_t count;
  shoal_intent_decision_t decisions[3];
} choices[] = {
    {"a weight and its moments", 1, {D("memory", "layer1/fc/weight*", "file")}},
    {"all states", 1, {D("memory", "*", "host")}},
    {"an activation", 1, {D("keep", "layer0/tanh*", "file")}},
    {"all values", 1, {D("keep", "*", "host")}},
    {"everything", 3, {D("memory", "*", "file"), D("keep", "*", "file"), D("prefetch", "*", "3")}},
    {"without prefetch",
     3,
     {D("memory", "*", "file"), D("prefetch", "*", "0"), D("keep", "layer*", "host")}},
};

static void try_shape(const shape_t *shape) {
  shoal_model_t *model = make_model(shape);
  shoal_program_t *plain = lower_with(model, shape, 0, NULL);
  job_t *reference = run_program(shape, plain, false);
  for (int64_t i = 0; i < COUNT(choices); ++i) {
    shoal_program_t *program = lower_with(model, shape, choices[i].count, choices[i].decisions);
    int64_t elsewhere = 0;
    for (int64_t c = 0; c < program->class_count; ++c)
      elsewhere += program->classes[c].arena_bytes[SHOAL_MEMORY_HOST] +
                   program->classes[c].arena_bytes[SHOAL_MEMORY_FILE];
    if (elsewhere == 0) fail_msg("%s: nothing lies elsewhere", choices[i].what);
    job_t *mine = run_program(shape, program, i % 2 == 1);
    expect_same_bits(reference, mine);
    free(mine);
    shoal_program_free(program);
  }
  free(reference);
  shoal_program_free(plain);
  shoal_model_free(model);
}

static void same_bits(void **state) {
  (void)state;
  static const shape_t shapes[] = {
      {3, 1, 1, 1, 5, 4, NULL},   {3, 1, 2, 1, 5, 4, NULL},    {3, 1, 2, 3, 7, 4, NULL},
      {4, 2, 1, 3, 7, 4, "1f1b"}, {3, 3, 1, 4, 9, 4, "zb-h1"}, {4, 2, 1, 4, 9, 4, NULL},
  };
  for (int64_t i = 0; i < COUNT(shapes); ++i) try_shape(&shapes[i]);
}

// ---- ways -----------------------------------------------------------------------------------

static shoal_status_t look_at_bounces(const shoal_session_t *session, int32_t rank) {
  const int64_t bytes = shoal_runner_bounced(session->runner);
  EXPECT(bytes == 0, "%lld bytes passed a bounce buffer", (long long)bytes);
  return look_at_memory(session, rank);
}

// Long copies from and to the file begin at blocks on both sides; how many there are.
static int64_t expect_blocks(const shoal_class_t *c) {
  int64_t found = 0;
  for (int64_t s = 0; s < c->segment_count; ++s)
    for (int64_t i = 0; i < c->segments[s].instruction_count; ++i) {
      const shoal_instruction_t *in = &c->segments[s].instructions[i];
      if (in->opcode != SHOAL_OPCODE_COPY || in->input_count != 1) continue;
      const shoal_buffer_t *from = &c->buffers[in->inputs[0]], *to = &c->buffers[in->outputs[0]];
      if (from->memory != SHOAL_MEMORY_FILE && to->memory != SHOAL_MEMORY_FILE) continue;
      if (to->bytes < SHOAL_SCRATCH_LEAST) continue;
      assert_int_equal(from->offset % SHOAL_SCRATCH_BLOCK, 0);
      assert_int_equal(to->offset % SHOAL_SCRATCH_BLOCK, 0);
      assert_int_not_equal(to->bytes % SHOAL_SCRATCH_BLOCK, 0);
      ++found;
    }
  return found;
}

// Long weights, moments and activations, of sizes that are no multiple of a block, move between the
// device and the file without a copy: both places begin at blocks.
static void goes_straight(void **state) {
  (void)state;
  static const shape_t shape = {2, 1, 2, 1, 183, 91, NULL};
  static const shoal_intent_decision_t all[] = {D("memory", "*", "file"),
                                                D("keep", "layer*", "file")};
  shoal_model_t *model = make_model(&shape);
  shoal_program_t *plain = lower_with(model, &shape, 0, NULL);
  shoal_program_t *program = lower_with(model, &shape, COUNT(all), all);
  assert_true(expect_blocks(&program->classes[0]) > 10);
  job_t *reference = run_program(&shape, plain, false);
  for (int opaque = 0; opaque < 2; ++opaque) {
    job_t *mine = run_layers(program, shape.batch, shape.width, opaque, look_at_bounces);
    expect_same_bits(reference, mine);
    free(mine);
  }
  free(reference);
  shoal_program_free(program);
  shoal_program_free(plain);
  shoal_model_free(model);
}

// ---- memory ---------------------------------------------------------------------------------

static int64_t device_bytes(const shoal_program_t *program) {
  return program->classes[0].arena_bytes[SHOAL_MEMORY_DEVICE];
}

// Twelve layers of which the device holds only those it works on: the weights and moments of the
// one that is updated, and of the next, which is on its way.
static void states_leave_the_device(void **state) {
  (void)state;
  static const shape_t shape = {12, 1, 1, 1, 4, 16, NULL};
  static const char *const memories[] = {"host", "file"};
  shoal_model_t *model = make_model(&shape);
  shoal_program_t *plain = lower_with(model, &shape, 0, NULL);
  const int64_t weight = 16 * 16 * 8, layer = 3 * weight;
  for (int64_t i = 0; i < COUNT(memories); ++i) {
    const shoal_intent_decision_t decision = D("memory", "*/weight*", memories[i]);
    shoal_program_t *program = lower_with(model, &shape, 1, &decision);
    const int64_t *arenas = program->classes[0].arena_bytes;
    assert_int_equal(arenas[SHOAL_MEMORY_HOST + i], 12 * layer);
    assert_int_equal(arenas[SHOAL_MEMORY_FILE - i], 0);
    const int64_t saved = device_bytes(plain) - device_bytes(program);
    if (saved < (12 - 2) * layer || saved > 12 * layer)
      fail_msg("%lld bytes less for %lld elsewhere", (long long)saved, (long long)(12 * layer));
    shoal_program_free(program);
  }
  shoal_program_free(plain);
  shoal_model_free(model);
}

// Of twelve activations the device holds the one that is made and, on the way back, the one that is
// used and the next.
static void values_leave_the_device(void **state) {
  (void)state;
  static const shape_t shape = {12, 1, 1, 1, 64, 4, NULL};
  shoal_model_t *model = make_model(&shape);
  shoal_program_t *plain = lower_with(model, &shape, 0, NULL);
  const int64_t activation = 64 * 4 * 8;
  const shoal_intent_decision_t decision = D("keep", "layer*/tanh*", "file");
  shoal_program_t *program = lower_with(model, &shape, 1, &decision);
  assert_int_equal(program->classes[0].arena_bytes[SHOAL_MEMORY_FILE], 12 * activation);
  const int64_t saved = device_bytes(plain) - device_bytes(program);
  if (saved < (12 - 3) * activation || saved > 12 * activation)
    fail_msg("%lld bytes less for %lld elsewhere", (long long)saved, (long long)(12 * activation));
  shoal_program_free(program);
  shoal_program_free(plain);
  shoal_model_free(model);
}

// In 1F1B of three stages the first has three micro-batches in flight, the last one: so many slots
// has the file.
static void slots_as_in_flight(void **state) {
  (void)state;
  static const shape_t shape = {3, 3, 1, 6, 12, 4, "1f1b"};
  shoal_model_t *model = make_model(&shape);
  const shoal_intent_decision_t decision = D("keep", "layer*/tanh*", "file");
  shoal_program_t *program = lower_with(model, &shape, 1, &decision);
  assert_int_equal(program->class_count, 3);
  for (int64_t c = 0; c < program->class_count; ++c) {
    const shoal_class_t *class = &program->classes[c];
    int64_t found = 0;
    for (int64_t i = 0; i < class->buffer_count; ++i) {
      if (class->buffers[i].memory != SHOAL_MEMORY_FILE) continue;
      assert_int_equal(shoal_buffer_slots(class, &class->buffers[i]), 3 - c);
      ++found;
    }
    assert_true(found > 0);
  }
  shoal_program_free(program);
  shoal_model_free(model);
}

// Kernels between the copy that brings a weight for the forward pass and its first reader.
static int64_t kernels_ahead(const shoal_program_t *program, const char *weight) {
  const shoal_class_t *class = &program->classes[0];
  for (int64_t s = 0; s < class->segment_count; ++s) {
    const shoal_segment_t *segment = &class->segments[s];
    int64_t count = 0;
    int32_t brought = -1;
    if (strncmp(segment->name, "train", 5) != 0) continue;
    for (int64_t i = 0; i < segment->instruction_count; ++i) {
      const shoal_instruction_t *in = &segment->instructions[i];
      for (int32_t k = 0; k < in->input_count && brought >= 0; ++k)
        if (in->inputs[k] == brought) return count;
      count += brought >= 0 && in->opcode == SHOAL_OPCODE_COMPUTE;
      if (brought >= 0 || in->opcode != SHOAL_OPCODE_COPY || strcmp(in->name, weight) != 0)
        continue;
      if (class->buffers[in->inputs[0]].memory == SHOAL_MEMORY_HOST) brought = in->outputs[0];
    }
  }
  return -1;
}

// As many consumers ahead as the plan says: here each is a kernel, with one more behind it.
static void ahead_by_prefetch(void **state) {
  (void)state;
  static const shape_t shape = {12, 1, 1, 1, 4, 16, NULL};
  static const char *const texts[] = {"0", "1", "3"};
  static const int64_t expected[] = {0, 3, 9};
  shoal_model_t *model = make_model(&shape);
  for (int64_t i = 0; i < COUNT(texts); ++i) {
    const shoal_intent_decision_t decisions[] = {D("memory", "*/weight*", "host"),
                                                 D("prefetch", "*/weight*", texts[i])};
    shoal_program_t *program = lower_with(model, &shape, 2, decisions);
    assert_int_equal(kernels_ahead(program, "layer6/fc/weight"), expected[i]);
    shoal_program_free(program);
  }
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(same_bits),
      cmocka_unit_test(goes_straight),
      cmocka_unit_test(states_leave_the_device),
      cmocka_unit_test(values_leave_the_device),
      cmocka_unit_test(slots_as_in_flight),
      cmocka_unit_test(ahead_by_prefetch),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

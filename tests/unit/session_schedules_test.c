// Schedules are data: the orders of programs with several stages, which lowering gives as GPipe
// (all forward calls, then all backward ones), are rewritten to 1F1B and to the interleaved order
// of Narayanan et al. (2021, two virtual stages for each rank). Slots, memory and waits are planned
// again; the texts must pass the check, run, and give the same bits. links: all
#include <string.h>

#include "base/arena.h"
#include "lower/time.h"
#include "plan_fixture.h"
#include "program/mutate.h"
#include "run_support.h"
#include "shoal/ops.h"
#include "shoal/session.h"

enum { WIDTH = 6, STEPS = 3, MOST_CHUNKS = 8 };

typedef struct shape {
  int stages;     // meshes
  int chunks;     // of layers on each of them
  int data;       // ranks of a mesh
  int64_t micro;  // micro-batches
  int64_t batch;  // rows: not a multiple of micro
} shape_t;

static int32_t world_of(const shape_t *shape) {
  return shape->stages * shape->data;
}

static int all_chunks(const shape_t *shape) {
  return shape->stages * shape->chunks;
}

// ---- the model and its plan -------------------------------------------------------------

// A layer for each chunk of each stage; chunk c lies on mesh c mod stages.
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

static shoal_program_t *lower_gpipe(const shoal_model_t *model, const shape_t *shape) {
  char meshes[4][48], patterns[MOST_CHUNKS + 1][16], names[MOST_CHUNKS + 1][4], inputs[2][32];
  const char *mesh_texts[4];
  shoal_intent_entry_t stages[MOST_CHUNKS + 1];
  for (int s = 0; s < shape->stages; ++s) {
    const int first = s * shape->data;
    snprintf(meshes[s], sizeof meshes[s], "m%d!data=%d,micro=%lld@%d-%d", s, shape->data,
             (long long)shape->micro, first, first + shape->data - 1);
    if (shape->data == 1) *strrchr(meshes[s], '-') = 0;
    mesh_texts[s] = meshes[s];
  }
  const int chunks = all_chunks(shape);
  for (int c = 0; c <= chunks; ++c) {
    snprintf(patterns[c], sizeof patterns[c], c < chunks ? "chunk%d/*" : "cross_entropy*", c);
    snprintf(names[c], sizeof names[c], "m%d", (c < chunks ? c : c - 1) % shape->stages);
    stages[c] = (shoal_intent_entry_t){patterns[c], names[c]};
  }
  snprintf(inputs[0], sizeof inputs[0], "m0!micro:0,data:0");
  snprintf(inputs[1], sizeof inputs[1], "m%d!micro:0,data:0", shape->stages - 1);
  const shoal_intent_entry_t layouts[] = {{"x", inputs[0]}, {"y", inputs[1]}};
  shoal_plan_t *plan;
  assert_ok(shoal_plan_create(model, rules,
                              &(shoal_intent_t){.mesh_count = shape->stages,
                                                .meshes = mesh_texts,
                                                .layout_count = COUNT(layouts),
                                                .layouts = layouts,
                                                .stage_count = chunks + 1,
                                                .stages = stages},
                              world_of(shape), shoal_allocator_system(), &plan));
  shoal_program_t *program;
  assert_ok(shoal_lower(plan, NULL, &program));
  shoal_plan_free(plan);
  return program;
}

// ---- schedules --------------------------------------------------------------------------

typedef struct unit {
  bool backward;
  int chunk;  // of the stage
  int64_t micro;
} unit_t;

// The k-th forward (or backward) unit of a stage: micro-batches come in groups of as many as there
// are stages, and each group passes all chunks before the next one starts.
static unit_t unit_at(const shape_t *shape, bool backward, int64_t k) {
  const int64_t group = (int64_t)shape->stages * shape->chunks;
  int chunk = (int)(k % group) / shape->stages;
  if (backward) chunk = shape->chunks - 1 - chunk;
  return (unit_t){backward, chunk, k / group * shape->stages + k % shape->stages};
}

// 1F1B: as many forward units as it takes for the first gradient to come back, then one of each in
// turn. With one chunk that is the plain order, with several the interleaved one.
static int64_t one_forward_one_backward(const shape_t *shape, int stage, unit_t *units) {
  const int64_t all = shape->micro * shape->chunks, behind = shape->stages - 1 - stage;
  int64_t warm = shape->chunks == 1 ? behind : 2 * behind + (shape->chunks - 1) * shape->stages;
  int64_t count = 0, forward = 0, backward = 0;
  if (warm > all) warm = all;
  while (forward < warm) units[count++] = unit_at(shape, false, forward++);
  while (backward < all) {
    if (forward < all) units[count++] = unit_at(shape, false, forward++);
    units[count++] = unit_at(shape, true, backward++);
  }
  return count;
}

// The segment of a class at a depth of the loop; -1: none. Depth d < all is the forward part of
// chunk d, from then on they go back: the last chunk's forward and backward part are one segment.
static int32_t segment_at(const shoal_class_t *c, int64_t depth) {
  char name[32];
  snprintf(name, sizeof name, "train.loop.%lld", (long long)depth);
  for (int64_t s = 0; s < c->segment_count; ++s)
    if (strcmp(c->segments[s].name, name) == 0) return (int32_t)s;
  return -1;
}

static bool is_loop(const shoal_class_t *c, int32_t segment) {
  return strncmp(c->segments[segment].name, "train.loop.", 11) == 0;
}

// What a class does in the loop besides its chunks - it is fed labels at depth 0 - comes right
// before a micro-batch's first call.
static void reorder_class(const shape_t *shape, shoal_program_t *program, int stage) {
  shoal_class_t *c = &program->classes[stage];
  const int chunks = all_chunks(shape);
  shoal_order_t *order = NULL;
  for (int64_t o = 0; o < c->order_count; ++o)
    if (strcmp(c->orders[o].graph, "train") == 0) order = &c->orders[o];
  assert_non_null(order);
  unit_t units[256];
  const int64_t unit_count = one_forward_one_backward(shape, stage, units);
  assert_true(unit_count <= 256);
  shoal_segment_call_t *calls =
      SHOAL_NEW(program->arena, shoal_segment_call_t, order->call_count + 1);
  assert_non_null(calls);
  bool seen[64] = {0};
  int64_t count = 0, k = 0;
  for (; !is_loop(c, order->calls[k].segment); ++k) calls[count++] = order->calls[k];
  for (int64_t u = 0; u < unit_count; ++u) {
    const int chunk = units[u].chunk * shape->stages + stage;
    const int64_t depth = units[u].backward ? 2 * (chunks - 1) - chunk : chunk;
    if (units[u].backward && chunk == chunks - 1) continue;  // its forward unit has done it
    const int32_t micro = (int32_t)units[u].micro, mine = segment_at(c, depth);
    if (!seen[micro] && stage != 0 && segment_at(c, 0) >= 0)
      calls[count++] = (shoal_segment_call_t){.segment = segment_at(c, 0), .micro = micro};
    seen[micro] = true;
    assert_true(mine >= 0);
    calls[count++] = (shoal_segment_call_t){.segment = mine, .micro = micro};
  }
  while (k < order->call_count && is_loop(c, order->calls[k].segment)) ++k;
  for (; k < order->call_count; ++k) calls[count++] = order->calls[k];
  assert_int_equal(count, order->call_count);  // the same calls, in another order
  order->calls = calls;
}

// ---- running ----------------------------------------------------------------------------

enum { MOST_VALUES = 4096 };

typedef struct job {
  const shape_t *shape;
  const shoal_program_t *program;
  bool opaque;
  double values[8][MOST_VALUES];  // by rank: losses, then states
  int64_t count[8];
} job_t;

static shoal_status_t run_rank(void *self, shoal_world_t *world) {
  job_t *job = self;
  const int32_t rank = shoal_world_rank(world);
  const shape_t *shape = job->shape;
  shoal_session_t *session = NULL;
  double x[32 * WIDTH], *out = job->values[rank];
  int32_t y[32];
  int64_t count = 0;
  shoal_status_t status = shoal_session_create(
      job->program, &(shoal_parallelize_options_t){.world = world, .opaque = job->opaque},
      &session);
  for (int step = 0; step < STEPS && !status; ++step) {
    for (int64_t i = 0; i < shape->batch * WIDTH; ++i)
      x[i] = (double)((i * 7 + step * 13) % 19) / 9 - 1;
    for (int64_t i = 0; i < shape->batch; ++i) y[i] = (int32_t)((i * 5 + step) % WIDTH);
    status = shoal_feed(session, "x", x, sizeof *x * (size_t)(shape->batch * WIDTH));
    if (!status) status = shoal_feed(session, "y", y, sizeof *y * (size_t)shape->batch);
    if (!status) status = shoal_run(session, "train");
    // The last two runs are enqueued before the first of them is read.
    if (!status && step != STEPS - 2) status = shoal_fetch(session, "loss", &out[count++], 8);
  }
  for (int64_t s = 0; s < job->program->state_count && !status; ++s) {
    const shoal_program_state_t *saved = &job->program->states[s];
    const int64_t elements = shoal_shape_count(&saved->type.shape);
    if (saved->type.dtype != SHOAL_F64) continue;
    EXPECT(count + elements <= MOST_VALUES, "too many values");
    status = shoal_session_get(session, saved->name, &out[count], (size_t)(8 * elements));
    count += elements;
  }
  job->count[rank] = count;
  shoal_session_free(session);
  return status;
}

static job_t *run_program(const shape_t *shape, const shoal_program_t *program, bool opaque) {
  job_t *job = calloc(1, sizeof *job);
  assert_non_null(job);
  *job = (job_t){.shape = shape, .program = program, .opaque = opaque};
  run_ranks_ok(world_of(shape), run_rank, job);
  return job;
}

static void expect_same_bits(const shape_t *shape, const job_t *a, const job_t *b) {
  for (int32_t r = 0; r < world_of(shape); ++r) {
    assert_int_equal(a->count[r], b->count[r]);
    assert_true(a->count[r] > 0);
    assert_memory_equal(a->values[r], b->values[r], sizeof(double) * (size_t)a->count[r]);
    assert_memory_equal(a->values[r], a->values[0], sizeof(double) * (size_t)a->count[0]);
  }
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

// How many micro-batches a stage of a plain 1F1B order has in flight: what its forward part keeps
// for the backward one has as many slots.
static void expect_slots(const shape_t *shape, const shoal_program_t *program, int stage) {
  const shoal_class_t *c = &program->classes[stage];
  char name[48];
  snprintf(name, sizeof name, "grad/chunk%d/tanh/affine", stage);  // made on the way forward
  int64_t in_flight = shape->stages - stage;
  if (in_flight > shape->micro) in_flight = shape->micro;
  bool found = false;
  for (int64_t i = 0; i < c->buffer_count; ++i) {
    if (strcmp(c->buffers[i].name, name) != 0) continue;
    if (c->buffers[i].layout->mesh != &program->meshes[stage]) continue;
    found = true;
    assert_int_equal(shoal_buffer_slots(c, &c->buffers[i]), in_flight);
  }
  assert_true(found);
}

static void try_shape(const shape_t *shape) {
  shoal_model_t *model = make_model(shape);
  shoal_program_t *gpipe = lower_gpipe(model, shape), *rewritten = lower_gpipe(model, shape);
  assert_int_equal(gpipe->class_count, shape->stages);
  for (int s = 0; s < shape->stages; ++s) reorder_class(shape, rewritten, s);
  assert_ok(shoal_lower_time(rewritten, shoal_allocator_system()));
  for (int s = 0; s < shape->stages && shape->chunks == 1; ++s) expect_slots(shape, rewritten, s);
  shoal_program_t *first = reread(gpipe, model), *second = reread(rewritten, model);
  for (int s = 0; s < shape->stages && shape->chunks == 1; ++s)
    if (shape->micro > shape->stages)
      assert_true(second->classes[s].arena_bytes[SHOAL_MEMORY_DEVICE] <
                  first->classes[s].arena_bytes[SHOAL_MEMORY_DEVICE]);
  job_t *reference = run_program(shape, first, false);
  for (int opaque = 0; opaque < 2; ++opaque) {
    job_t *mine = run_program(shape, second, opaque == 1);
    expect_same_bits(shape, reference, mine);
    free(mine);
  }
  free(reference);
  shoal_program_free(second);
  shoal_program_free(first);
  shoal_program_free(rewritten);
  shoal_program_free(gpipe);
  shoal_model_free(model);
}

// A change of when things run or where they lie is refused, or it changes nothing: then the mutant
// runs, and gives the same bits. A wait that is left out is always refused.
static void try_mutants(const shape_t *shape) {
  shoal_model_t *model = make_model(shape);
  shoal_program_t *program = lower_gpipe(model, shape);
  for (int s = 0; s < shape->stages; ++s) reorder_class(shape, program, s);
  assert_ok(shoal_lower_time(program, shoal_allocator_system()));
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
        expect_same_bits(shape, reference, mine);
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
#ifdef __SANITIZE_THREAD__  // the second takes a minute there
  const int64_t count = 1;
#else
  const int64_t count = COUNT(shapes);
#endif
  for (int64_t i = 0; i < count; ++i) try_mutants(&shapes[i]);
}

static void plain(void **state) {
  (void)state;
  static const shape_t shapes[] = {
      {3, 1, 1, 5, 13}, {3, 1, 2, 4, 11}, {4, 1, 1, 6, 15}, {4, 1, 2, 5, 18}, {3, 1, 1, 2, 5}};
  for (int64_t i = 0; i < COUNT(shapes); ++i) try_shape(&shapes[i]);
}

static void interleaved(void **state) {
  (void)state;
  static const shape_t shapes[] = {
      {3, 2, 1, 3, 7}, {3, 2, 2, 6, 16}, {4, 2, 1, 4, 11}, {4, 2, 2, 8, 21}};
  for (int64_t i = 0; i < COUNT(shapes); ++i) try_shape(&shapes[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plain),
      cmocka_unit_test(interleaved),
      cmocka_unit_test(mutants),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

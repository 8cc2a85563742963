// Outputs that are gathered on request: the whole is planned nowhere, a fetch gives the bits that
// one in every run gives, on every rank, also over micro-batches, stages and partial sums; fetches
// before the first run, twice, behind a further run, with a wrong size, by some ranks only; the
// program prints, parses back and is checked.
// links: all
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "plan_fixture.h"
#include "program/mutate.h"
#include "run_support.h"
#include "shoal/ops.h"
#include "shoal/session.h"

enum { BATCH = 24, WIDTH = 8, CLASSES = 24, STEPS = 3 };

// ---- a model and its plans --------------------------------------------------------------

// "hidden" and "logits" are outputs of "train"; "eval" has an output "logits" of its own.
static shoal_model_t *make_model(int64_t batch, int64_t classes) {
  shoal_model_t *model = empty_model();
  for (int eval = 0; eval < 2; ++eval) {
    shoal_graph_t *g = shoal_model_graph(model, eval ? "eval" : "train");
    const shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(batch, WIDTH));
    const shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(batch));
    const shoal_value_t h = shoal_tanh(g, shoal_nn_linear(g, "fc1", x, WIDTH));
    const shoal_value_t logits = shoal_nn_linear(g, "fc2", h, classes);
    const shoal_value_t loss = shoal_nn_cross_entropy(g, logits, y);
    if (!eval) shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 1e-2f});
    if (!eval) shoal_output(g, "hidden", h);
    shoal_output(g, "logits", logits);
    shoal_output(g, "loss", loss);
  }
  assert_ok(shoal_model_status(model));
  return model;
}

typedef struct plan_case {
  int32_t world;
  const char *meshes[2];
  const char *x, *weight;  // layouts of x and fc2/weight; NULL: none given
  bool opaque;
  const char *input;  // whose layout `x` is; NULL: x
} plan_case_t;

static const plan_case_t plan_cases[] = {
    {2, {"data=2"}, "data:0", NULL, false, NULL},
    {1, {"data=1,micro=3"}, "micro:0", NULL, false, NULL},
    {2, {"data=2,micro=4"}, "micro:0,data:0", NULL, true, NULL},
    {2, {"data=2,micro=5"}, "micro:0,data:0", NULL, false, NULL},  // 24 rows: not all alike
    {3, {"data=3,micro=2"}, "micro:0,data:0(2,1,1)", NULL, false, NULL},
    {4, {"data=2,tensor=2,micro=2"}, "micro:0,data:0", "tensor:1", false, NULL},
    {4,
     {"data=2,tensor=2,micro=2"},
     "micro:0,data:0",
     "tensor:0",
     true,
     NULL},  // logits are partial
    {4, {"a!data=2,micro=2@0-1", "b!data=2,micro=2@2-3"}, "a!micro:0,data:0", NULL, false, NULL},
};

// Every fetch by this choice; NULL: by default.
static shoal_program_t *lower_as(const shoal_model_t *model, const plan_case_t *c,
                                 const char *choice) {
  const int64_t meshes = c->meshes[1] ? 2 : 1;
  const shoal_intent_entry_t layouts[] = {{c->input ? c->input : "x", c->x},
                                          {"fc2/weight", c->weight}};
  const shoal_intent_entry_t stages[] = {
      {"fc1/*", "a"}, {"tanh*", "a"}, {"fc2/*", "b"}, {"cross_entropy*", "b"}};
  const shoal_intent_decision_t decision = {.kind = "fetch", .pattern = "*", .choice = choice};
  shoal_plan_t *plan;
  shoal_program_t *program;
  assert_ok(shoal_plan_create(model, rules,
                              &(shoal_intent_t){.mesh_count = meshes,
                                                .meshes = c->meshes,
                                                .layout_count = c->weight ? 2 : 1,
                                                .layouts = layouts,
                                                .stage_count = meshes > 1 ? COUNT(stages) : 0,
                                                .stages = stages,
                                                .decision_count = choice != NULL,
                                                .decisions = &decision},
                              c->world, shoal_allocator_system(), &plan));
  assert_ok(shoal_lower(plan, NULL, &program));
  shoal_plan_free(plan);
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  return program;
}

static const shoal_program_port_t *find_output(const shoal_program_t *program, const char *graph,
                                               const char *name) {
  for (int64_t i = 0; i < program->output_count; ++i)
    if (strcmp(program->outputs[i].graph, graph) == 0 &&
        strcmp(program->outputs[i].name, name) == 0)
      return &program->outputs[i];
  return NULL;
}

// Through its text, as a user would bring it.
static shoal_program_t *reread(const shoal_program_t *program, const shoal_model_t *model) {
  shoal_arena_t arena;
  const char *text, *again_text;
  shoal_program_t *again;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(shoal_program_print(program, &arena, &text));
  assert_ok(
      shoal_program_parse("request", text, model->registry, shoal_allocator_system(), &again));
  assert_ok(shoal_program_print(again, &arena, &again_text));
  assert_string_equal(text, again_text);
  assert_ok(shoal_program_check(again, shoal_allocator_system()));
  shoal_arena_deinit(&arena);
  return again;
}

// ---- running ----------------------------------------------------------------------------

typedef struct values {
  float hidden[BATCH * WIDTH], logits[BATCH * CLASSES], loss;
} values_t;

typedef struct job {
  const shoal_program_t *program;
  bool opaque;
  values_t values[MOST_RANKS][STEPS + 1];
} job_t;

static shoal_status_t open_session(const job_t *job, shoal_world_t *world,
                                   shoal_session_t **out_session) {
  return shoal_session_create(job->program,
                              &(shoal_parallelize_options_t){.world = world, .opaque = job->opaque},
                              out_session);
}

static shoal_status_t feed_and_run(shoal_session_t *session, const char *graph, int step) {
  float x[BATCH * WIDTH];
  int32_t y[BATCH];
  for (int64_t i = 0; i < BATCH * WIDTH; ++i) x[i] = (float)((i * 7 + step * 13) % 19) / 9 - 1;
  for (int64_t i = 0; i < BATCH; ++i) y[i] = (int32_t)((i * 5 + step) % CLASSES);
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, "x", x, sizeof x));
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, "y", y, sizeof y));
  return shoal_run(session, graph);
}

static shoal_status_t fetch_all(shoal_session_t *session, bool eval, values_t *out) {
  SHOAL_RETURN_IF_ERROR(shoal_fetch(session, "logits", out->logits, sizeof out->logits));
  SHOAL_RETURN_IF_ERROR(shoal_fetch(session, "loss", &out->loss, sizeof out->loss));
  return eval ? NULL : shoal_fetch(session, "hidden", out->hidden, sizeof out->hidden);
}

// The last two training steps are enqueued before the first of them is read; then "eval", whose
// scratch lies where that of "train" does.
static shoal_status_t steps_of(job_t *job, shoal_session_t *session, values_t *out) {
  (void)job;
  for (int step = 0; step < STEPS; ++step) {
    SHOAL_RETURN_IF_ERROR(feed_and_run(session, "train", step));
    if (step != STEPS - 2) SHOAL_RETURN_IF_ERROR(fetch_all(session, false, &out[step]));
  }
  SHOAL_RETURN_IF_ERROR(feed_and_run(session, "eval", STEPS));
  SHOAL_RETURN_IF_ERROR(shoal_fetch(session, "hidden", out[STEPS].hidden, sizeof out->hidden));
  return fetch_all(session, true, &out[STEPS]);
}

static shoal_status_t run_rank(void *self, shoal_world_t *world) {
  job_t *job = self;
  shoal_session_t *session = NULL;
  SHOAL_RETURN_IF_ERROR(open_session(job, world, &session));
  shoal_status_t status = steps_of(job, session, job->values[shoal_world_rank(world)]);
  shoal_session_free(session);
  return status;
}

static job_t *run_program(const plan_case_t *c, const shoal_program_t *program) {
  job_t *job = calloc(1, sizeof *job);
  assert_non_null(job);
  job->program = program;
  job->opaque = c->opaque;
  run_ranks_ok(c->world, run_rank, job);
  return job;
}

static void test_same_bits(void **state) {
  (void)state;
  shoal_model_t *model = make_model(BATCH, CLASSES);
  for (size_t i = 0; i < COUNT(plan_cases); ++i) {
    const plan_case_t *c = &plan_cases[i];
    shoal_program_t *always = lower_as(model, c, "always"),
                    *request = lower_as(model, c, "request");
    assert_int_equal(always->state_count + 5, request->state_count);
    assert_false(find_output(always, "train", "logits")->on_request);
    assert_true(find_output(request, "train", "logits")->on_request);
    shoal_program_t *again = reread(request, model);
    job_t *expected = run_program(c, always), *job = run_program(c, again);
    for (int32_t r = 0; r < c->world; ++r)
      assert_memory_equal(job->values[r], expected->values[0], sizeof job->values[r]);
    free(expected);
    free(job);
    shoal_program_free(again);
    shoal_program_free(request);
    shoal_program_free(always);
  }
  shoal_model_free(model);
}

// ---- memory -----------------------------------------------------------------------------

// Of 2 MiB the default is on request, of less not.
static void test_memory(void **state) {
  (void)state;
  const int64_t side = 1024, whole = side * side * (int64_t)sizeof(float);
  shoal_model_t *model = make_model(side, side);
  for (int micro = 0; micro < 2; ++micro) {
    const plan_case_t c = {
        4, {micro ? "data=4,micro=2" : "data=4"}, micro ? "micro:0,data:0" : "data:0", NULL, false};
    shoal_program_t *always = lower_as(model, &c, "always"), *request = lower_as(model, &c, NULL);
    assert_true(find_output(request, "train", "logits")->on_request);
    assert_true(find_output(request, "eval", "logits")->on_request);
    assert_false(find_output(request, "train", "hidden")->on_request);
    assert_false(find_output(request, "train", "loss")->on_request);
    const shoal_class_t *with = &always->classes[0], *without = &request->classes[0];
    for (int64_t i = 0; i < without->buffer_count; ++i)
      if (strcmp(without->buffers[i].name, "fc2/add") == 0)
        assert_true(without->buffers[i].bytes <= whole / 4);
    assert_true(with->arena_bytes[SHOAL_MEMORY_DEVICE] -
                    without->arena_bytes[SHOAL_MEMORY_DEVICE] >=
                whole / 4);
    shoal_program_free(request);
    shoal_program_free(always);
  }
  // Alone a rank has the whole anyway.
  const plan_case_t alone = {1, {"data=1"}, "data:0", NULL, false};
  shoal_program_t *program = lower_as(model, &alone, NULL);
  assert_false(find_output(program, "train", "logits")->on_request);
  shoal_program_free(program);
  shoal_model_free(model);
}

// A gpt whose "eval" gives logits, on 8 ranks: of the whole and a rank's part, that part is left.
static void test_gpt(void **state) {
  (void)state;
  const int64_t batch = 16, context = 16, vocabulary = 8192;
  const int64_t whole = batch * context * vocabulary * (int64_t)sizeof(float);
  shoal_model_t *model = empty_model();
  shoal_zoo_gpt(model, &(shoal_gpt_options_t){.batch = batch,
                                              .context = context,
                                              .vocabulary = vocabulary,
                                              .width = 8,
                                              .heads = 2,
                                              .layers = 1,
                                              .dtype = SHOAL_F32});
  assert_ok(shoal_model_status(model));
  const plan_case_t c = {8, {"data=8"}, "data:0", NULL, false, "ids"};
  shoal_program_t *always = lower_as(model, &c, "always"), *request = lower_as(model, &c, NULL);
  assert_true(find_output(request, "eval", "logits")->on_request);
  const int64_t with = always->classes[0].arena_bytes[SHOAL_MEMORY_DEVICE];
  const int64_t without = request->classes[0].arena_bytes[SHOAL_MEMORY_DEVICE];
  print_message("gpt: %lld and %lld bytes, whole logits %lld\n", (long long)with,
                (long long)without, (long long)whole);
  assert_true(with - without >= whole / 2);
  shoal_program_free(request);
  shoal_program_free(always);
  shoal_model_free(model);
}

// ---- calls ------------------------------------------------------------------------------

// Takes an error that has this code and says this.
static shoal_status_t expect_error(shoal_status_t status, shoal_code_t code, const char *says) {
  const bool good = shoal_status_code(status) == code && strstr(shoal_status_message(status), says);
  if (!good)
    return shoal_status_annotatef(status ? status : SHOAL_ERROR(INTERNAL, "succeeded"),
                                  "expected '%s'", says);
  shoal_status_free(status);
  return NULL;
}

static shoal_status_t calls_of(shoal_session_t *session, int32_t rank) {
  values_t first, second;
  memset(&first, 0, sizeof first);
  memset(&second, 0, sizeof second);
  const size_t bytes = sizeof first.logits;
  SHOAL_RETURN_IF_ERROR(expect_error(shoal_fetch(session, "logits", first.logits, bytes),
                                     SHOAL_INVALID_ARGUMENT, "has no value yet"));
  SHOAL_RETURN_IF_ERROR(feed_and_run(session, "train", 0));
  // One rank gives a wrong size: all hear of it, and can go on.
  SHOAL_RETURN_IF_ERROR(
      expect_error(shoal_fetch(session, "logits", first.logits, rank == 1 ? bytes - 4 : bytes),
                   SHOAL_INVALID_ARGUMENT, "bytes were given"));
  SHOAL_RETURN_IF_ERROR(shoal_fetch(session, "logits", first.logits, bytes));
  SHOAL_RETURN_IF_ERROR(shoal_fetch(session, "logits", second.logits, bytes));
  EXPECT(memcmp(first.logits, second.logits, bytes) == 0, "the second fetch differs");
  SHOAL_RETURN_IF_ERROR(feed_and_run(session, "train", 1));
  const int64_t before = shoal_session_counters(session).meetings;
  SHOAL_RETURN_IF_ERROR(shoal_fetch(session, "logits", second.logits, bytes));
  EXPECT(memcmp(first.logits, second.logits, bytes) != 0, "a further run changes nothing");
  EXPECT(shoal_session_counters(session).meetings == before + 1, "a further run: no gather");
  // It is no state of the model.
  SHOAL_RETURN_IF_ERROR(expect_error(shoal_session_get(session, "train:logits", &first, bytes),
                                     SHOAL_NOT_FOUND, "there is no state 'train:logits'"));
  return expect_error(shoal_session_set(session, "train:logits", &first, bytes), SHOAL_NOT_FOUND,
                      "there is no state 'train:logits'");
}

static shoal_status_t calls(void *self, shoal_world_t *world) {
  shoal_session_t *session = NULL;
  SHOAL_RETURN_IF_ERROR(open_session(self, world, &session));
  shoal_status_t status = calls_of(session, shoal_world_rank(world));
  shoal_session_free(session);
  return status;
}

// Rank 1 runs on, or is gone, where rank 0 fetches.
static shoal_status_t some_of(shoal_session_t *session, int32_t rank, bool gone) {
  values_t values;
  SHOAL_RETURN_IF_ERROR(feed_and_run(session, "train", 0));
  if (rank == 0) {
    shoal_status_t status = shoal_fetch(session, "logits", values.logits, sizeof values.logits);
    return expect_error(status, gone ? shoal_status_code(status) : SHOAL_MISMATCH,
                        gone ? "rank 1" : "shoal_fetch(\"logits\")");
  }
  if (gone) return NULL;
  shoal_status_t status = NULL;
  for (int step = 1; step < 200 && !status; ++step) status = feed_and_run(session, "train", step);
  return expect_error(status, SHOAL_MISMATCH, "shoal_fetch(\"logits\")");
}

static shoal_status_t some(void *self, shoal_world_t *world, bool gone) {
  shoal_session_t *session = NULL;
  SHOAL_RETURN_IF_ERROR(open_session(self, world, &session));
  shoal_status_t status = some_of(session, shoal_world_rank(world), gone);
  shoal_session_free(session);
  return status;
}

static shoal_status_t some_run(void *self, shoal_world_t *world) {
  return some(self, world, false);
}

static shoal_status_t some_are_gone(void *self, shoal_world_t *world) {
  return some(self, world, true);
}

static void test_calls(void **state) {
  (void)state;
  shoal_model_t *model = make_model(BATCH, CLASSES);
  shoal_program_t *program = lower_as(model, &plan_cases[0], "request");
  job_t *job = calloc(1, sizeof *job);
  assert_non_null(job);
  job->program = program;
  run_ranks_ok(2, calls, job);
  run_ranks_ok(2, some_run, job);
  shoal_status_t statuses[2];
  run_ranks_within(2000, 2, some_are_gone, job, statuses);
  for (int r = 0; r < 2; ++r) assert_ok(statuses[r]);
  free(job);
  shoal_program_free(program);
  shoal_model_free(model);
}

// ---- the check --------------------------------------------------------------------------

static void expect_refused(const shoal_program_t *program, const char *says) {
  shoal_status_t status = shoal_program_check(program, shoal_allocator_system());
  assert_int_equal(shoal_status_code(status), SHOAL_MISMATCH);
  if (!strstr(shoal_status_message(status), says)) assert_ok(status);
  shoal_status_free(status);
}

// What the program says of kept outputs must hold.
static void test_check(void **state) {
  (void)state;
  shoal_model_t *model = make_model(BATCH, CLASSES);
  shoal_program_t *program = lower_as(model, &plan_cases[2], "request");
  shoal_program_port_t *logits = (shoal_program_port_t *)find_output(program, "train", "logits");
  shoal_program_port_t *hidden = (shoal_program_port_t *)find_output(program, "train", "hidden");
  const int32_t kept = logits->state;
  shoal_class_t *c = &program->classes[0];
  program->states[kept].saved = true;
  expect_refused(program, "cannot be kept in state");
  program->states[kept].saved = false;
  logits->state = hidden->state;
  expect_refused(program, "cannot be kept in state");
  logits->state = (int32_t)program->state_count;
  expect_refused(program, "cannot be kept in state");
  logits->state = kept;
  logits->graph = "eval";  // whose own "logits" has another state
  expect_refused(program, "to be fetched on request");
  logits->graph = "train";
  logits->on_request = false;
  expect_refused(program, "");
  logits->on_request = true;
  // Without the copy that keeps it.
  bool found = false;
  for (int64_t s = 0; s < c->segment_count && !found; ++s)
    for (int64_t i = 0; i < c->segments[s].instruction_count && !found; ++i) {
      shoal_instruction_t *in = &c->segments[s].instructions[i];
      if (in->output_count == 0 || in->outputs[0] < 0 || c->buffers[in->outputs[0]].state != kept)
        continue;
      found = true;
      assert_int_equal(in->opcode, SHOAL_OPCODE_COPY);
      const shoal_instruction_t copy = *in;
      for (int64_t other = 0; other < c->buffer_count; ++other)
        if (c->buffers[other].state == hidden->state)
          in->outputs = (int32_t[]){(int32_t)other}, in->inputs = in->outputs;
      shoal_status_t status = shoal_program_check(program, shoal_allocator_system());
      assert_int_equal(shoal_status_code(status), SHOAL_MISMATCH);
      shoal_status_free(status);
      *in = copy;
    }
  assert_true(found);
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  shoal_program_free(program);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_same_bits), cmocka_unit_test(test_memory), cmocka_unit_test(test_gpt),
      cmocka_unit_test(test_calls),     cmocka_unit_test(test_check),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

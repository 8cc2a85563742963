// Outputs that are gathered on request: the whole is planned nowhere, and a fetch gives the bits
// that one in every run gives, on every rank, also over micro-batches, stages and partial sums; the
// program prints, parses back and is checked.
// links: all
#include <stdlib.h>

#include "base/arena.h"
#include "fetch_support.h"

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

static shoal_status_t fetch_all(shoal_session_t *session, bool eval, values_t *out) {
  SHOAL_RETURN_IF_ERROR(fetch_logits(session, out));
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
  add_gpt(model, &(gpt_sizes_t){.batch = batch,
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

// ---- the check --------------------------------------------------------------------------

static void expect_refused(const shoal_program_t *program, const char *says) {
  shoal_status_t status = shoal_program_check(program, shoal_allocator_system());
  assert_int_equal(shoal_status_code(status), SHOAL_MISMATCH);
  if (!strstr(shoal_status_message(status), says)) assert_ok(status);
  shoal_status_free(status);
}

static shoal_instruction_t *writer_of(const shoal_class_t *c, int32_t state) {
  for (int64_t s = 0; s < c->segment_count; ++s)
    for (int64_t i = 0; i < c->segments[s].instruction_count; ++i) {
      shoal_instruction_t *in = &c->segments[s].instructions[i];
      if (in->output_count > 0 && in->outputs[0] >= 0 && c->buffers[in->outputs[0]].state == state)
        return in;
    }
  fail_msg("nothing writes state %d", state);
  return NULL;
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
  expect_refused(program, "is kept of graph 'eval'");
  logits->graph = "train";
  logits->on_request = false;
  expect_refused(program, "");
  logits->on_request = true;
  // Without the copy that keeps it: it writes something else.
  shoal_instruction_t *keeper = writer_of(c, kept), copy = *keeper;
  int32_t elsewhere = 0;
  while (c->buffers[elsewhere].state != hidden->state) ++elsewhere;
  assert_int_equal(keeper->opcode, SHOAL_OPCODE_COPY);
  keeper->inputs = keeper->outputs = &elsewhere;
  expect_refused(program, "");
  *keeper = copy;
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  shoal_program_free(program);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_same_bits),
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_gpt),
      cmocka_unit_test(test_check),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

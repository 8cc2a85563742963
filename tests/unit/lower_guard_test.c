// links: all
//
// Assignments under a predicate on several ranks: a training step that leaves its update out when
// gradients overflow, executed and proved; who may write a state in place under a predicate, and
// where the copy stays.
#include <math.h>

#include "plan_support.h"
#undef UNUSED
#include "run_support.h"
#include "shoal/ops.h"
#include "shoal/prove.h"
#include "shoal/session.h"

enum { ROWS = 12, COLUMNS = 4, HIDDEN = 6, CLASSES = 3 };

static const struct {
  int32_t ranks;
  const char *strategy, *mesh;
} PLANS[] = {
    {1, "single", NULL},           {2, "data", "data=2"},          {3, "data", "data=3"},
    {2, "data", "data=2,micro=3"}, {2, "tensor", "tensor=2"},      {4, "tensor", "data=2,tensor=2"},
    {2, "zero1", "data=2"},        {3, "zero1", "data=3,micro=2"}, {4, "zero1", "data=4,micro=3"}};

static shoal_value_t sum_of_squares(shoal_graph_t *g, shoal_value_t x) {
  shoal_shape_t dims = {.rank = shoal_value_type(x).shape.rank};
  for (int32_t d = 0; d < dims.rank; ++d) dims.dims[d] = d;
  return shoal_reduce_sum(g, shoal_square(g, x), dims);
}

// Two layers and AdamW by hand. The loss is scaled: by what is fed as "scale" or, `by_step`, by
// 1 / (step - 2), which is infinite in the second step. Where the gradients are not finite, neither
// weights nor moments are updated; `skipped` counts these steps.
static shoal_model_t *guarded_step(bool by_step) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(ROWS, COLUMNS));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(ROWS));
  shoal_value_t step = shoal_step(g), scale, skipped;
  if (by_step) {
    scale = shoal_div(g, shoal_full(g, SHOAL_SCALAR, 1, SHOAL_F32),
                      shoal_affine(g, shoal_cast(g, step, SHOAL_F32), 1, -2));
  } else {
    scale = shoal_input(g, "scale", SHOAL_F32, SHOAL_SCALAR);
  }
  shoal_value_t h = shoal_relu(g, shoal_nn_linear(g, "fc1", x, HIDDEN));
  shoal_value_t loss = shoal_nn_cross_entropy(g, shoal_nn_linear(g, "fc2", h, CLASSES), y);
  shoal_value_t wrt[4], gradients[4], total = {NULL, -1};
  static const char *const names[] = {"/fc1/weight", "/fc1/bias", "/fc2/weight", "/fc2/bias"};
  static const int64_t rows[] = {COLUMNS, HIDDEN, HIDDEN, CLASSES},
                       columns[] = {HIDDEN, 0, CLASSES, 0};
  for (int i = 0; i < 4; ++i)
    wrt[i] =
        shoal_state(g, names[i], SHOAL_F32,
                    columns[i] ? SHOAL_SHAPE(rows[i], columns[i]) : SHOAL_SHAPE(rows[i]), NULL);
  shoal_gradients(g, shoal_mul(g, loss, scale), 4, wrt, gradients);
  shoal_kind_push(g, SHOAL_NODE_UPDATE);
  for (int i = 0; i < 4; ++i) {
    shoal_value_t one = sum_of_squares(g, gradients[i]);
    total = i ? shoal_add(g, total, one) : one;
  }
  shoal_value_t finite =  // false for infinity, and for what is not a number
      shoal_greater_equal(g, shoal_full(g, SHOAL_SCALAR, 1e30, SHOAL_F32), total);
  shoal_value_t lr = shoal_full(g, SHOAL_SCALAR, 0.1, SHOAL_F32), next[3];
  for (int i = 0; i < 4; ++i) {
    char name[64];
    shoal_type_t type = shoal_value_type(wrt[i]);
    snprintf(name, sizeof name, "%s#m", names[i]);
    shoal_value_t m = shoal_state(g, name, type.dtype, type.shape, NULL);
    snprintf(name, sizeof name, "%s#v", names[i]);
    shoal_value_t v = shoal_state(g, name, type.dtype, type.shape, NULL);
    shoal_adamw_update(g, wrt[i], shoal_div(g, gradients[i], scale), m, v, lr, step, 0.9, 0.99,
                       1e-8, 0, &next[0], &next[1], &next[2]);
    shoal_assign_if(g, wrt[i], next[0], finite);
    shoal_assign_if(g, m, next[1], finite);
    shoal_assign_if(g, v, next[2], finite);
  }
  skipped = shoal_state(g, "/skipped", SHOAL_F32, SHOAL_SCALAR, NULL);
  shoal_assign(g, skipped,
               shoal_add(g, skipped, shoal_affine(g, shoal_cast(g, finite, SHOAL_F32), -1, 1)));
  shoal_kind_pop(g);
  shoal_output(g, "loss", loss);
  assert_ok(shoal_model_verify(model));
  return model;
}

static void test_proved(void **state) {
  (void)state;
  shoal_model_t *model = guarded_step(true);
  for (int64_t i = 0; i < COUNT(PLANS); ++i) {
    const shoal_parallelize_options_t options = {.strategy = PLANS[i].strategy,
                                                 .mesh = PLANS[i].mesh};
    const shoal_check_how_t how = {.ranks = PLANS[i].ranks, .steps = 4};
    shoal_check_report_t report;
    assert_ok(shoal_check(model, &options, &how, &report));
    assert_true(report.values > 50);
  }
  shoal_model_free(model);
}

// ---- the bits of a skipped step ---------------------------------------------------------

static const struct {
  const char *name;
  size_t count;
} STATES[] = {{"fc1/weight", COLUMNS *HIDDEN},   {"fc1/weight#m", COLUMNS *HIDDEN},
              {"fc1/weight#v", COLUMNS *HIDDEN}, {"fc2/bias", CLASSES},
              {"fc2/bias#m", CLASSES},           {"fc2/weight", HIDDEN *CLASSES}};

static shoal_status_t run_steps(shoal_session_t *session) {
  static const float scales[] = {1, INFINITY, 64, NAN, 1e38f, 0.5f};
  static const bool taken[] = {true, false, true, false, false, true};
  float x[ROWS * COLUMNS], before[COUNT(STATES)][COLUMNS * HIDDEN], after[COLUMNS * HIDDEN];
  int32_t y[ROWS];
  for (int i = 0; i < ROWS * COLUMNS; ++i) x[i] = (float)(i * 7 % 11) - 5;
  for (int i = 0; i < ROWS; ++i) y[i] = i % CLASSES;
  for (int step = 0; step < 6; ++step) {
    for (int64_t s = 0; s < COUNT(STATES); ++s)
      SHOAL_RETURN_IF_ERROR(
          shoal_session_get(session, STATES[s].name, before[s], STATES[s].count * sizeof(float)));
    SHOAL_RETURN_IF_ERROR(shoal_feed(session, "x", x, sizeof x));
    SHOAL_RETURN_IF_ERROR(shoal_feed(session, "y", y, sizeof y));
    SHOAL_RETURN_IF_ERROR(shoal_feed(session, "scale", &scales[step], sizeof scales[step]));
    SHOAL_RETURN_IF_ERROR(shoal_run(session, "train"));
    for (int64_t s = 0; s < COUNT(STATES); ++s) {
      const size_t bytes = STATES[s].count * sizeof(float);
      SHOAL_RETURN_IF_ERROR(shoal_session_get(session, STATES[s].name, after, bytes));
      const bool same = memcmp(before[s], after, bytes) == 0;
      EXPECT(same != taken[step], "step %d: '%s' has%s changed", step, STATES[s].name,
             same ? " not" : "");
    }
  }
  float skipped = 0;
  SHOAL_RETURN_IF_ERROR(shoal_session_get(session, "skipped", &skipped, sizeof skipped));
  EXPECT(skipped == 3, "%g steps were skipped", (double)skipped);
  return NULL;
}

typedef struct job {
  const shoal_model_t *model;
  const shoal_parallelize_options_t *options;
} job_t;

static shoal_status_t steps_rank(void *self, shoal_world_t *world) {
  const job_t *job = self;
  for (int opaque = 0; opaque < 2; ++opaque) {
    shoal_parallelize_options_t options = *job->options;
    shoal_session_t *session;
    options.world = world;
    options.opaque = opaque;
    SHOAL_RETURN_IF_ERROR(shoal_parallelize(job->model, &options, &session));
    shoal_status_t status = run_steps(session);
    shoal_session_free(session);
    SHOAL_RETURN_IF_ERROR(status);
  }
  return NULL;
}

static void test_a_skipped_step_changes_no_bit(void **state) {
  (void)state;
  shoal_model_t *model = guarded_step(false);
  for (int64_t i = 0; i < COUNT(PLANS); ++i) {
    const shoal_parallelize_options_t options = {.strategy = PLANS[i].strategy,
                                                 .mesh = PLANS[i].mesh};
    run_ranks_ok(PLANS[i].ranks, steps_rank, &(job_t){.model = model, .options = &options});
  }
  shoal_model_free(model);
}

// ---- in place, or copied ----------------------------------------------------------------

typedef struct writes {
  int64_t in_place, copied;
} writes_t;

static writes_t writes_of(const shoal_model_t *model, const char *strategy, const char *mesh,
                          int32_t world) {
  shoal_rules_t *rules = new_rules();
  shoal_plan_t *plan = plan_by(model, rules, strategy, mesh, world);
  shoal_program_t *program = lower(plan);
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  const shoal_class_t *c = &program->classes[0];
  writes_t writes = {0};
  for (int64_t s = 0; s < c->segment_count; ++s)
    for (int64_t i = 0; i < c->segments[s].instruction_count; ++i) {
      const shoal_instruction_t *in = &c->segments[s].instructions[i];
      if (in->predicate < 0) continue;
      assert_int_equal(c->buffers[in->outputs[0]].kind, SHOAL_BUFFER_STATE);
      writes.in_place += in->opcode == SHOAL_OPCODE_COMPUTE;
      writes.copied += in->opcode == SHOAL_OPCODE_COPY;
    }
  for (int64_t i = 0; i < c->buffer_count; ++i) {  // none is left that nobody touches
    bool used = c->buffers[i].kind == SHOAL_BUFFER_STATE;
    for (int64_t s = 0; s < c->segment_count; ++s)
      for (int64_t k = 0; k < c->segments[s].instruction_count; ++k) {
        const shoal_instruction_t *in = &c->segments[s].instructions[k];
        used |= in->predicate == i;
        for (int32_t n = 0; n < in->input_count; ++n) used |= in->inputs[n] == i;
        for (int32_t n = 0; n < in->output_count; ++n) used |= in->outputs[n] == i;
      }
    assert_true(used);
  }
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_rules_free(rules);
  return writes;
}

static void test_updates_in_place(void **state) {
  (void)state;
  shoal_model_t *model = guarded_step(false);
  writes_t data = writes_of(model, "data", "data=2,micro=3", 2);
  assert_int_equal(data.in_place, 4);  // AdamW's, all three outputs at once
  assert_int_equal(data.copied, 0);
  shoal_model_free(model);
}

typedef enum reader {
  NOBODY,
  LATER,
  AN_OUTPUT,
  A_NODE,
  THE_PREDICATE,
  ANOTHER_STATE,
  READERS
} reader_t;

// w becomes w + x if "go" is not negative; who else reads that sum? LATER: nobody, but the sum is
// made before it is known whether w takes it.
static shoal_model_t *read_model(reader_t reader) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(ROWS));
  shoal_value_t go = shoal_input(g, "go", SHOAL_F32, SHOAL_SCALAR);
  shoal_value_t w = shoal_state(g, "w", SHOAL_F32, SHOAL_SHAPE(ROWS), NULL);
  shoal_value_t zero = shoal_full(g, SHOAL_SCALAR, 0, SHOAL_F32);
  shoal_value_t next = {NULL, -1};
  if (reader == LATER) next = shoal_add(g, w, x);
  shoal_value_t yes = shoal_greater_equal(g, go, zero);
  if (reader != LATER) next = shoal_add(g, w, x);
  shoal_value_t out = next;
  if (reader == NOBODY || reader == LATER) out = shoal_neg(g, x);
  if (reader == A_NODE) out = shoal_neg(g, next);
  if (reader == THE_PREDICATE)
    yes = shoal_greater_equal(g, shoal_mul(g, go, sum_of_squares(g, next)), zero);
  if (reader == ANOTHER_STATE)
    shoal_assign(g, shoal_state(g, "p", SHOAL_F32, SHOAL_SHAPE(ROWS), NULL), next);
  shoal_assign_if(g, w, next, yes);
  shoal_output(g, "out", out);
  assert_ok(shoal_model_verify(model));
  return model;
}

static shoal_status_t read_rank(void *self, shoal_world_t *world) {
  const job_t *job = self;
  shoal_parallelize_options_t options = *job->options;
  shoal_session_t *session;
  options.world = world;
  SHOAL_RETURN_IF_ERROR(shoal_parallelize(job->model, &options, &session));
  float x[ROWS], w[ROWS], out[ROWS], sum = 0;
  shoal_status_t status = NULL;
  for (int step = 0; step < 4 && !status; ++step) {
    const float go = step % 2 ? -1 : 1;
    for (int i = 0; i < ROWS; ++i) x[i] = 1;
    status = shoal_feed(session, "x", x, sizeof x);
    if (!status) status = shoal_feed(session, "go", &go, sizeof go);
    if (!status) status = shoal_run(session, "train");
    if (!status) status = shoal_fetch(session, "out", out, sizeof out);
    if (!status) status = shoal_session_get(session, "w", w, sizeof w);
    // The sum is the sum, whether the state takes it or not.
    if (!status && fabsf(out[ROWS - 1]) != sum + 1)
      status = SHOAL_ERROR(MISMATCH, "step %d: the sum is %g", step, (double)out[ROWS - 1]);
    if (go > 0) sum += 1;
    if (!status && w[ROWS - 1] != sum)
      status = SHOAL_ERROR(MISMATCH, "step %d: w is %g", step, (double)w[ROWS - 1]);
  }
  shoal_session_free(session);
  return status;
}

static void test_who_reads_the_next_value_sees_it(void **state) {
  (void)state;
  for (reader_t reader = NOBODY; reader < READERS; ++reader) {
    shoal_model_t *model = read_model(reader);
    writes_t writes = writes_of(model, "data", "data=2", 2);
    assert_int_equal(writes.in_place, reader == NOBODY);
    assert_int_equal(writes.copied, reader != NOBODY);
    const shoal_parallelize_options_t options = {.strategy = "data", .mesh = "data=2"};
    if (reader > LATER) run_ranks_ok(2, read_rank, &(job_t){.model = model, .options = &options});
    assert_ok(shoal_check(model, &options, &(shoal_check_how_t){.steps = 6}, NULL));
    shoal_model_free(model);
  }
}

// The predicate is a state that the same step assigns: the old one decides.
static void test_a_state_decides(void **state) {
  (void)state;
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(ROWS));
  shoal_value_t go = shoal_state(g, "go", SHOAL_BOOL, SHOAL_SCALAR,
                                 &(shoal_state_options_t){.init = {SHOAL_INIT_FILL, 1, 0}});
  shoal_value_t w = shoal_state(g, "w", SHOAL_F32, SHOAL_SHAPE(ROWS), NULL);
  shoal_value_t p = shoal_state(g, "p", SHOAL_F32, SHOAL_SHAPE(ROWS), NULL);
  shoal_value_t half = shoal_full(g, SHOAL_SCALAR, 0.5, SHOAL_F32);
  shoal_assign(g, go, shoal_greater_equal(g, half, shoal_cast(g, go, SHOAL_F32)));
  shoal_assign_if(g, w, shoal_add(g, w, x), go);
  shoal_assign_if(g, p, w, go);  // what w was
  assert_ok(shoal_model_verify(model));
  for (int32_t ranks = 1; ranks <= 3; ++ranks)
    assert_ok(shoal_check(model, NULL, &(shoal_check_how_t){.ranks = ranks, .steps = 5}, NULL));
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_proved),
      cmocka_unit_test(test_a_skipped_step_changes_no_bit),
      cmocka_unit_test(test_updates_in_place),
      cmocka_unit_test(test_who_reads_the_next_value_sees_it),
      cmocka_unit_test(test_a_state_decides),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

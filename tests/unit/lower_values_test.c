// links: all
//
// What lowering makes of states and fetches, executed on thread ranks: states assigned from each
// other, values from before the step, inner values by name; and what it refuses, by name.
#include "plan_support.h"
#undef UNUSED
#include "run_support.h"
#include "shoal/ops.h"
#include "shoal/session.h"

enum { ROWS = 7, COLUMNS = 4 };

typedef struct job {
  const shoal_model_t *model;
  const char *plan;
} job_t;

static char *plan_text(const shoal_model_t *model, const shoal_intent_t *intent, int32_t world,
                       shoal_arena_t *arena) {
  shoal_rules_t *rules = new_rules();
  shoal_plan_t *plan;
  const char *text;
  assert_ok(shoal_plan_create(model, rules, intent, world, shoal_allocator_system(), &plan));
  assert_ok(shoal_plan_print(plan, arena, &text));
  shoal_plan_free(plan);
  shoal_rules_free(rules);
  return (char *)text;
}

// ---- states ---------------------------------------------------------------------------

// p and q change places; r becomes the square of p of before; "old" is q of before.
static shoal_model_t *swap_model(void) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  const shoal_shape_t shape = SHOAL_SHAPE(ROWS, COLUMNS);
  shoal_value_t p = shoal_state(g, "p", SHOAL_F64, shape,
                                &(shoal_state_options_t){.init = {SHOAL_INIT_FILL, 1, 0}});
  shoal_value_t q = shoal_state(g, "q", SHOAL_F64, shape,
                                &(shoal_state_options_t){.init = {SHOAL_INIT_NORMAL, 0, 1}});
  shoal_value_t r = shoal_state(g, "r", SHOAL_F64, shape, NULL);
  shoal_assign(g, p, q);
  shoal_assign(g, q, p);
  shoal_assign(g, r, shoal_square(g, p));
  shoal_output(g, "old", q);
  assert_ok(shoal_model_status(model));
  return model;
}

static shoal_status_t run_swap(shoal_session_t *session) {
  double p[2][ROWS * COLUMNS], q[2][ROWS * COLUMNS], r[ROWS * COLUMNS], old[ROWS * COLUMNS];
  for (int i = 0; i < ROWS * COLUMNS; ++i) p[0][i] = i - 10, q[0][i] = 0.5 * i;
  SHOAL_RETURN_IF_ERROR(shoal_session_set(session, "p", p[0], sizeof p[0]));
  SHOAL_RETURN_IF_ERROR(shoal_session_set(session, "q", q[0], sizeof q[0]));
  for (int step = 0; step < 2; ++step) {
    double *before_p = step ? q[0] : p[0], *before_q = step ? p[0] : q[0];
    SHOAL_RETURN_IF_ERROR(shoal_run(session, "train"));
    SHOAL_RETURN_IF_ERROR(shoal_fetch(session, "old", old, sizeof old));
    SHOAL_RETURN_IF_ERROR(shoal_session_get(session, "p", p[1], sizeof p[1]));
    SHOAL_RETURN_IF_ERROR(shoal_session_get(session, "q", q[1], sizeof q[1]));
    SHOAL_RETURN_IF_ERROR(shoal_session_get(session, "r", r, sizeof r));
    EXPECT(memcmp(p[1], before_q, sizeof r) == 0, "step %d: p is not what q was", step);
    EXPECT(memcmp(q[1], before_p, sizeof r) == 0, "step %d: q is not what p was", step);
    EXPECT(memcmp(old, before_q, sizeof r) == 0, "step %d: the output is not q of before", step);
    for (int i = 0; i < ROWS * COLUMNS; ++i)
      EXPECT(r[i] == before_p[i] * before_p[i], "step %d: r[%d] is %g", step, i, r[i]);
  }
  return NULL;
}

static shoal_status_t swap_rank(void *self, shoal_world_t *world) {
  const job_t *job = self;
  for (int opaque = 0; opaque < 2; ++opaque) {
    shoal_session_t *session;
    SHOAL_RETURN_IF_ERROR(shoal_parallelize(
        job->model,
        &(shoal_parallelize_options_t){.world = world, .plan = job->plan, .opaque = opaque},
        &session));
    shoal_status_t status = run_swap(session);
    shoal_session_free(session);
    SHOAL_RETURN_IF_ERROR(status);
  }
  return NULL;
}

static void test_states_change_places(void **state) {
  (void)state;
  static const struct {
    int32_t world;
    const char *meshes[2];
    const char *p, *q;
  } cases[] = {
      {1, {"data=1"}, "", ""},
      {2, {"data=2"}, "", ""},
      {2, {"data=2"}, "data:0", "data:0"},
      {3, {"data=3"}, "data:0", "data:1"},
      {3, {"data=3"}, "data:flat", "data:0"},
      {5, {"a!data=2@0-1", "b!data=3@2-4"}, "a!data:0", "b!data:1"},
      {4,
       {"a!data=2@0-1", "b!data=2@1-2"},
       "a!",
       "b!data:0"},  // meshes share a rank, rank 3 is idle
  };
  shoal_model_t *model = swap_model();
  for (int64_t i = 0; i < COUNT(cases); ++i) {
    shoal_arena_t arena;
    shoal_arena_init(shoal_allocator_system(), &arena);
    const shoal_intent_entry_t layouts[] = {{"p", cases[i].p}, {"q", cases[i].q}};
    const shoal_intent_t intent = {.mesh_count = cases[i].meshes[1] ? 2 : 1,
                                   .meshes = cases[i].meshes,
                                   .layout_count = 2,
                                   .layouts = layouts};
    job_t job = {.model = model, .plan = plan_text(model, &intent, cases[i].world, &arena)};
    run_ranks_ok(cases[i].world, swap_rank, &job);
    shoal_arena_deinit(&arena);
  }
  shoal_model_free(model);
}

// ---- fetches --------------------------------------------------------------------------

static shoal_status_t fetch_rank(void *self, shoal_world_t *world) {
  const job_t *job = self;
  static const char *const fetches[] = {"relu", "grad/fc2/einsum/einsum_1", "fc1/bias", NULL};
  static const struct {
    const char *strategy, *mesh;
  } plans[] = {{"data", "data=2,micro=3"}, {"tensor", "tensor=2"}};
  double x[ROWS * 5], relu[3][ROWS * 9], grad[3][9 * 3], bias[9];
  int32_t y[ROWS];
  for (int i = 0; i < ROWS * 5; ++i) x[i] = (i * 7 % 11) - 5;
  for (int i = 0; i < ROWS; ++i) y[i] = i % 3;
  for (int k = 0; k < 3; ++k) {
    shoal_session_t *session;
    shoal_parallelize_options_t options = {
        .world = world, .strategy = "single", .fetches = fetches};
    if (k > 0) options.strategy = plans[k - 1].strategy, options.mesh = plans[k - 1].mesh;
    SHOAL_RETURN_IF_ERROR(shoal_parallelize(job->model, &options, &session));
    shoal_status_t status = shoal_feed(session, "x", x, sizeof x);
    if (!status) status = shoal_feed(session, "y", y, sizeof y);
    if (!status) status = shoal_run(session, "train");
    if (!status) status = shoal_fetch(session, "relu", relu[k], sizeof relu[k]);
    if (!status) status = shoal_fetch(session, "grad/fc2/einsum/einsum_1", grad[k], sizeof grad[k]);
    if (!status) status = shoal_fetch(session, "fc1/bias", bias, sizeof bias);
    shoal_session_free(session);
    SHOAL_RETURN_IF_ERROR(status);
    for (int i = 0; i < ROWS * 9; ++i)
      EXPECT(relu[k][i] - relu[0][i] < 1e-12 && relu[0][i] - relu[k][i] < 1e-12, "relu[%d]", i);
    for (int i = 0; i < 9 * 3; ++i)
      EXPECT(grad[k][i] - grad[0][i] < 1e-12 && grad[0][i] - grad[k][i] < 1e-12, "grad[%d]", i);
    for (int i = 0; i < 9; ++i) EXPECT(bias[i] == 0, "the bias of before the step is %g", bias[i]);
  }
  return NULL;
}

static void test_inner_values(void **state) {
  (void)state;
  shoal_model_t *model = small_mlp(ROWS);
  run_ranks_ok(2, fetch_rank, &(job_t){.model = model});
  shoal_model_free(model);
}

// The program says what is fetched: asked for, outputs besides; not twice.
static void test_fetches_in_the_program(void **state) {
  (void)state;
  shoal_model_t *model = small_mlp(ROWS);
  shoal_rules_t *rules = new_rules();
  shoal_plan_t *plan = plan_by(model, rules, "data", "data=2,micro=3", 2);
  shoal_program_t *program;
  const char *const fetches[] = {"relu", "relu", "loss", NULL};
  assert_ok(shoal_lower(plan, &(shoal_lower_options_t){.fetches = fetches}, &program));
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  int64_t relu = 0, loss = 0;
  for (int64_t i = 0; i < program->output_count; ++i) {
    relu += strcmp(program->outputs[i].name, "relu") == 0;
    loss += strcmp(program->outputs[i].name, "loss") == 0;
  }
  assert_int_equal(relu, 2);  // of train and of eval
  assert_int_equal(loss, 2);
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_rules_free(rules);
  shoal_model_free(model);
}

// ---- what is refused ------------------------------------------------------------------

// y = t * softmax(t) along the batch, t = tanh(x): the softmax needs all micro-batches at once. It
// could run before them, but t is to be made in each.
static void test_no_way_along_micro(void **state) {
  (void)state;
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, COLUMNS)), soft;
  x = shoal_tanh(g, x);
  shoal_scope_push(g, "rows");
  const shoal_attr_t axis = shoal_attr_int("axis", 0);
  shoal_node_add(g, "shoal.softmax", 1, &x, 1, &axis, 1, &soft);
  shoal_scope_pop(g);
  shoal_output(g, "y", shoal_mul(g, x, soft));
  assert_ok(shoal_model_status(model));
  shoal_rules_t *rules = new_rules();
  const shoal_intent_entry_t pins[] = {{"x", "micro:0,data:0"}, {"tanh", "micro:0,data:0"}};
  shoal_plan_t *plan = plan_of(model, rules, "data=2,micro=3", COUNT(pins), pins, 2);
  shoal_program_t *program;
  shoal_status_t status = shoal_lower(plan, NULL, &program);
  assert_int_equal(shoal_status_code(status), SHOAL_UNSUPPORTED);
  assert_non_null(strstr(shoal_status_message(status), "rows/softmax"));
  assert_non_null(strstr(shoal_status_message(status), "micro-batches"));
  assert_true(shoal_status_hint(status)[0] != 0);
  shoal_status_free(status);
  shoal_plan_free(plan);
  // Without the pin, or without micro-batches, it is no trouble.
  plan = plan_of(model, rules, "data=2,micro=3", 1, pins, 2);
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
  plan = plan_by(model, rules, "data", "data=2", 2);
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
  shoal_rules_free(rules);
  shoal_model_free(model);
}

static void test_mesh_called_world(void **state) {
  (void)state;
  shoal_model_t *model = small_mlp(ROWS);
  shoal_rules_t *rules = new_rules();
  shoal_plan_t *plan;
  assert_ok(shoal_plan_create(
      model, rules,
      &(shoal_intent_t){.mesh_count = 1, .meshes = (const char *[]){"world!data=2@0-1"}}, 3,
      shoal_allocator_system(), &plan));
  shoal_program_t *program;
  assert_error(INVALID_ARGUMENT, "'world' is the name of the mesh of all ranks",
               shoal_lower(plan, NULL, &program));
  shoal_plan_free(plan);
  shoal_rules_free(rules);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_states_change_places),   cmocka_unit_test(test_inner_values),
      cmocka_unit_test(test_fetches_in_the_program), cmocka_unit_test(test_no_way_along_micro),
      cmocka_unit_test(test_mesh_called_world),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Rank 0 plans for all: the others run nothing to find rules and no strategy, get its program or
// its error word for word, however long it takes; and ranks that bring another model, other ops or
// other options are named with what differs. links: all
#include <stdlib.h>

#include "base/dtype.h"
#include "base/time.h"
#include "comm/comm_impl.h"
#include "comm_ranks.h"
#include "shoal/nn.h"
#include "shoal/ops.h"
#include "shoal/session.h"

enum { ROWS = 6 };

static const shoal_world_options_t patient = {.timeout_ms = 60000};

// ---- a model with an op of its own: y = 2 x -------------------------------------------

static shoal_status_t twice_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = call->inputs[0];
  return NULL;
}

// Which ops a rank registers: 1 test.twice, 2 another besides, 4 in the other order.
static shoal_status_t make_registry(int which, const char *input, shoal_registry_t **out_registry) {
  static const char *const outputs[] = {"y"};
  const char **inputs = calloc(1, sizeof *inputs);  // for the registry's life
  if (!inputs) return SHOAL_OOM();
  inputs[0] = input;
  const shoal_op_t twice = {.name = "test.twice",
                            .doc = "2 x",
                            .input_count = 1,
                            .inputs = inputs,
                            .output_count = 1,
                            .outputs = outputs,
                            .infer = twice_infer};
  shoal_op_t other = twice;
  other.name = "test.other";
  SHOAL_RETURN_IF_ERROR(shoal_registry_create(shoal_allocator_system(), out_registry));
  if (which & 4) SHOAL_RETURN_IF_ERROR(shoal_op_register(*out_registry, &other));
  SHOAL_RETURN_IF_ERROR(shoal_op_register(*out_registry, &twice));
  return which & 2 ? shoal_op_register(*out_registry, &other) : NULL;
}

static void free_registry(shoal_registry_t *registry) {
  const shoal_op_t *op = NULL;
  shoal_status_t status = shoal_op_find(registry, "test.twice", &op);
  const char *const *inputs = status ? NULL : op->inputs;
  shoal_status_free(status);
  shoal_registry_release(registry);
  free((void *)inputs);
}

static shoal_status_t make_model(shoal_registry_t *registry, int64_t width, bool eval,
                                 shoal_model_t **out_model) {
  SHOAL_RETURN_IF_ERROR(
      shoal_model_create(&(shoal_model_options_t){.registry = registry, .seed = 3}, out_model));
  for (int i = 0; i < 1 + eval; ++i) {
    shoal_graph_t *g = shoal_model_graph(*out_model, i ? "eval" : "train");
    const shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(ROWS, width));
    shoal_value_t y;
    shoal_node_add(g, "test.twice", 1, &x, 0, NULL, 1, &y);
    shoal_output(g, "y", shoal_square(g, y));
  }
  return shoal_model_status(*out_model);
}

// ---- what only rank 0 does ------------------------------------------------------------

typedef struct job {
  shoal_parallelize_options_t options;
  _Atomic int provided[4], planned;  // calls of the provider by rank, of the strategy
  shoal_world_t *_Atomic first;      // rank 0's world
  bool slow, fails;
  int what;  // that rank 1 has different
  const char *says;
} job_t;

typedef struct rank_job {
  job_t *job;
  int32_t rank;
} rank_job_t;

static shoal_status_t provide(void *self, const shoal_kernel_call_t *call) {
  const rank_job_t *mine = self;
  const shoal_tensor_t *x = &call->inputs[0];
  atomic_fetch_add(&mine->job->provided[mine->rank], 1);
  const int64_t count = shoal_shape_count(&x->shape);
  for (int64_t i = 0; i < count; ++i) {
    shoal_dtype_store(x->dtype, call->outputs[0].data, i,
                      2 * shoal_dtype_load(x->dtype, x->data, i));
  }
  return NULL;
}

// As long as it takes rank 0 to say many times that it plans.
static shoal_status_t wait_for_ticks(shoal_world_t *world) {
  const uint64_t until = atomic_load(&world->recorder->begun) + 10;
  while (atomic_load(&world->recorder->begun) < until) {
    SHOAL_RETURN_IF_ERROR(world->ops->broken(world));
    shoal_time_sleep_ns(1000000);
  }
  return NULL;
}

static shoal_status_t plan_rows(shoal_strategy_context_t *context, void *self) {
  job_t *job = self;
  atomic_fetch_add(&job->planned, 1);
  if (job->slow) SHOAL_RETURN_IF_ERROR(wait_for_ticks(atomic_load(&job->first)));
  if (job->fails) {
    return shoal_status_create(SHOAL_UNSUPPORTED, "my_strategy.c", 12, "not on a Sunday", "wait");
  }
  SHOAL_RETURN_IF_ERROR(shoal_context_mesh(context, "rows=2"));
  return shoal_context_layout(context, "x", "rows:0");
}

static shoal_status_t run_once(shoal_session_t *session, int64_t width) {
  float x[ROWS * 8], y[ROWS * 8];
  const size_t size = sizeof(float) * (size_t)(ROWS * width);
  for (int i = 0; i < ROWS * width; ++i) x[i] = (float)i;
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, "x", x, size));
  SHOAL_RETURN_IF_ERROR(shoal_run(session, "train"));
  SHOAL_RETURN_IF_ERROR(shoal_fetch(session, "y", y, size));
  for (int i = 0; i < ROWS * width; ++i) CHECK(y[i] == 4.0f * x[i] * x[i], "y[%d] = %g", i, y[i]);
  return NULL;
}

// Ops, a strategy and a provider on every rank, each its own.
static shoal_status_t with_own(shoal_world_t *world, job_t *job, const shoal_model_t *model,
                               shoal_strategies_t *strategies) {
  rank_job_t mine = {job, shoal_world_rank(world)};
  shoal_parallelize_options_t options = job->options;
  options.world = world;
  options.strategy = "rows";
  options.strategies = strategies;
  options.provider = provide;
  options.provider_self = &mine;
  shoal_session_t *session = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_strategy_register(
      strategies, &(shoal_strategy_t){.name = "rows", .plan = plan_rows, .user_data = job}));
  SHOAL_RETURN_IF_ERROR(shoal_parallelize(model, &options, &session));
  const int planning = atomic_load(&job->provided[mine.rank]);
  shoal_status_t status = run_once(session, 4);
  const bool has_plan = shoal_session_plan(session) && shoal_session_rules(session);
  shoal_session_free(session);
  SHOAL_RETURN_IF_ERROR(status);
  CHECK(has_plan == (mine.rank == 0), "rank %d has a plan: %d", mine.rank, has_plan);
  CHECK((planning > 0) == (mine.rank == 0), "rank %d ran the op %d times to plan", mine.rank,
        planning);
  CHECK(atomic_load(&job->provided[mine.rank]) > planning, "rank %d did not run", mine.rank);
  return NULL;
}

static shoal_status_t own_rank(shoal_world_t *world, void *self) {
  job_t *job = self;
  if (shoal_world_rank(world) == 0) atomic_store(&job->first, world);
  shoal_registry_t *registry = NULL;
  shoal_model_t *model = NULL;
  shoal_strategies_t *strategies = NULL;
  shoal_status_t status = make_registry(1, "x", &registry);
  if (!status) status = make_model(registry, 4, false, &model);
  if (!status) status = shoal_strategies_create(shoal_allocator_system(), &strategies);
  if (!status) status = with_own(world, job, model, strategies);
  shoal_strategies_free(strategies);
  shoal_model_free(model);
  free_registry(registry);
  return status;
}

static void test_only_rank_0_plans(void **state) {
  (void)state;
  for (int through_text = 0; through_text < 2; ++through_text) {
    job_t job = {.options = {.through_text = through_text}};
    run_threads(&patient, 2, own_rank, &job);
    assert_int_equal(job.planned, 1);
  }
  job_t job = {0};
  assert_ok(run_processes(&patient, 2, own_rank, &job));
}

// Planning takes longer than the time limit: there are eight ticks in it.
static void test_planning_may_take_long(void **state) {
  (void)state;
  job_t job = {.slow = true};
  run_threads(&(shoal_world_options_t){.timeout_ms = 2000}, 2, own_rank, &job);
}

static void test_errors_of_planning(void **state) {
  (void)state;
  job_t job = {.fails = true};
  shoal_status_t statuses[2];
  run_threads_statuses(&patient, 2, own_rank, &job, statuses);
  assert_int_equal(shoal_status_code(statuses[0]), SHOAL_UNSUPPORTED);
  assert_non_null(strstr(shoal_status_message(statuses[0]), "not on a Sunday"));
  assert_int_equal(shoal_status_code(statuses[1]), SHOAL_UNSUPPORTED);
  assert_string_equal(shoal_status_message(statuses[0]), shoal_status_message(statuses[1]));
  assert_string_equal(shoal_status_hint(statuses[0]), shoal_status_hint(statuses[1]));
  assert_string_equal(shoal_status_file(statuses[1]), "my_strategy.c");
  assert_int_equal(shoal_status_line(statuses[1]), 12);
  for (int i = 0; i < 2; ++i) shoal_status_free(statuses[i]);
}

// ---- who brings something else --------------------------------------------------------

enum { WIDTH, GRAPHS, MORE_OPS, OTHER_NAMES, STRATEGY, MESH, FETCHES, LAYOUTS, PLAN, DRY, PROGRAM };

static void differ(int what, shoal_parallelize_options_t *options) {
  static const shoal_intent_entry_t layouts[] = {{"x", "data:0"}};
  static const char *const fetches[] = {"x", NULL};
  if (what == STRATEGY) options->strategy = "data";
  if (what == MESH) options->mesh = "data=2,micro=3";
  if (what == FETCHES) options->fetches = fetches;
  if (what == LAYOUTS) options->layouts = layouts, options->layout_count = 1;
  if (what == PLAN) options->plan = "{}";
  if (what == DRY) options->dry_run = true;
}

static shoal_status_t differ_rank(shoal_world_t *world, void *self) {
  job_t *job = self;
  const int what = shoal_world_rank(world) == 1 ? job->what : -1;
  rank_job_t mine = {job, shoal_world_rank(world)};
  shoal_parallelize_options_t options = {
      .world = world, .strategy = "single", .provider = provide, .provider_self = &mine};
  differ(what, &options);
  shoal_registry_t *registry = NULL;
  shoal_model_t *model = NULL;
  shoal_session_t *session = NULL;
  shoal_program_t *program = NULL;
  shoal_status_t status =
      make_registry(what == MORE_OPS ? 3 : 1, what == OTHER_NAMES ? "a" : "x", &registry);
  if (!status) status = make_model(registry, what == WIDTH ? 5 : 4, what == GRAPHS, &model);
  if (!status && what == PROGRAM) {
    status = shoal_program_parse(
        "test", "shoal_program 1\nworld 2\nmicro 1\nmesh data=2\nclass 0 ranks 0-1 arena 0\n",
        registry, shoal_allocator_system(), &program);
    if (!status) status = shoal_session_create(program, &options, &session);
  } else if (!status) {
    status = shoal_parallelize(model, &options, &session);
  }
  shoal_session_free(session);
  shoal_program_free(program);
  shoal_model_free(model);
  free_registry(registry);
  if (shoal_status_code(status) == SHOAL_MISMATCH &&
      strstr(shoal_status_message(status), job->says)) {
    shoal_status_free(status);
    return NULL;
  }
  return shoal_status_annotatef(status ? status : SHOAL_ERROR(INTERNAL, "succeeded"),
                                "expected MISMATCH '%s'", job->says);
}

static void test_differences_are_named(void **state) {
  (void)state;
  static const char *const says[] = {
      [WIDTH] = "the ranks' models differ: line ",
      [GRAPHS] = "of rank 1's is 'graph eval",
      [MORE_OPS] = "the ranks' registered ops differ: line ",
      [OTHER_NAMES] = "of rank 1's is 'test.twice(a) -> (y)', of rank 0's 'test.twice(x) -> (y)'",
      [STRATEGY] = "options differ: line 5 of rank 1's is 'strategy data', of rank 0's 'strategy s",
      [MESH] = "of rank 1's is 'mesh data=2,micro=3', of rank 0's 'mesh by default'",
      [FETCHES] = "of rank 1's is 'fetches x'",
      [LAYOUTS] = "of rank 1's is 'layouts x: data:0', of rank 0's ''",
      [PLAN] = "of rank 1's is 'plan {}'",
      [DRY] = "of rank 1's is 'dry_run true', of rank 0's 'dry_run false'",
      [PROGRAM] = "rank 1 makes a session from a program, rank 0 from a model",
  };
  for (int what = 0; what <= PROGRAM; ++what) {
    for (int32_t n = 2; n <= 3; ++n) {
      job_t job = {.what = what, .says = says[what]};
      run_threads(&patient, n, differ_rank, &job);
      // Nobody plans for ranks that differ.
      for (int32_t r = 0; r < n; ++r) assert_int_equal(job.provided[r], 0);
    }
  }
}

// Ops may be registered in any order, and a rank may have a strategy that it does not use.
static shoal_status_t order_rank(shoal_world_t *world, void *self) {
  job_t *job = self;
  rank_job_t mine = {job, shoal_world_rank(world)};
  shoal_registry_t *registry = NULL;
  shoal_model_t *model = NULL;
  shoal_session_t *session = NULL;
  shoal_status_t status = make_registry(mine.rank == 1 ? 4 : 2, "x", &registry);
  if (!status) status = make_model(registry, 4, true, &model);
  if (!status) {
    status = shoal_parallelize(
        model,
        &(shoal_parallelize_options_t){
            .world = world, .strategy = "single", .provider = provide, .provider_self = &mine},
        &session);
  }
  if (!status) status = run_once(session, 4);
  shoal_session_free(session);
  shoal_model_free(model);
  free_registry(registry);
  return status;
}

static void test_order_of_ops(void **state) {
  (void)state;
  job_t job = {0};
  run_threads(&patient, 2, order_rank, &job);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_only_rank_0_plans),  cmocka_unit_test(test_planning_may_take_long),
      cmocka_unit_test(test_errors_of_planning), cmocka_unit_test(test_differences_are_named),
      cmocka_unit_test(test_order_of_ops),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// links: all
//
// The engine on threads: every schedule, with several stages on a rank too, gives the bits of the
// serial step over several steps; a table that runs far ahead; ranks in another order, and one
// without a row; several tensors over a border; what is refused; an error in a function ends it on
// all ranks.
#include <math.h>

#include "plan_support.h"
#include "shoal/engine.h"
#include "shoal/launch.h"

enum { WIDTH = 5, MICRO = 6, STEPS = 3, STAGES = 8 };

// Stage s: y = tanh(w x). The loss is the sum of the last one's y, times what its micro-batch says.
typedef struct stages {
  bool split;
  int32_t count;
  double weights[STAGES], gradients[STAGES];
  double xs[STAGES][MICRO][WIDTH], slopes[STAGES][MICRO][WIDTH];
  int32_t fail_stage;  // -1: none
} stages_t;

static double input(int step, int32_t micro, int i) {
  return 0.1 * (1 + micro) - 0.2 * i + 0.05 * step;
}

static double output_gradient(int32_t micro, int i) {
  return 1 + 0.5 * micro - 0.1 * i;
}

typedef struct side {
  stages_t *stages;
  int step;
} side_t;

static shoal_status_t forward(void *self, const shoal_engine_work_t *work) {
  const side_t *side = self;
  stages_t *all = side->stages;
  const int32_t s = work->stage, m = work->micro;
  const double *in = work->in;
  double *out = work->out;
  if (s == all->fail_stage && m == 1) return SHOAL_ERROR(IO, "the stage broke");
  assert_int_equal(in == NULL, s == 0);
  assert_int_equal(out == NULL, s == all->count - 1);
  assert_true((!in || work->in_bytes == WIDTH * 8) && (!out || work->out_bytes == WIDTH * 8));
  for (int i = 0; i < WIDTH; ++i) {
    all->xs[s][m][i] = in ? in[i] : input(side->step, m, i);
    if (out) out[i] = tanh(all->weights[s] * all->xs[s][m][i]);
  }
  return NULL;
}

static void add_gradient(stages_t *all, int32_t s, int32_t m) {
  for (int i = 0; i < WIDTH; ++i) all->gradients[s] += all->slopes[s][m][i] * all->xs[s][m][i];
}

static shoal_status_t weight(void *self, const shoal_engine_work_t *work) {
  assert_true(!work->in && !work->out);
  add_gradient(((side_t *)self)->stages, work->stage, work->micro);
  return NULL;
}

static shoal_status_t backward(void *self, const shoal_engine_work_t *work) {
  stages_t *all = ((side_t *)self)->stages;
  const int32_t s = work->stage, m = work->micro;
  const double *in = work->in;
  double *out = work->out;
  for (int i = 0; i < WIDTH; ++i) {
    const double y = tanh(all->weights[s] * all->xs[s][m][i]);
    all->slopes[s][m][i] = (in ? in[i] : output_gradient(m, i)) * (1 - y * y);
    if (out) out[i] = all->slopes[s][m][i] * all->weights[s];
  }
  if (!all->split) add_gradient(all, s, m);
  return NULL;
}

static void update(stages_t *all) {
  for (int32_t s = 0; s < all->count; ++s) {
    all->weights[s] -= 0.01 * all->gradients[s];
    all->gradients[s] = 0;
  }
}

static stages_t start(int32_t count, bool split) {
  stages_t stages = {.split = split, .count = count, .fail_stage = -1};
  for (int32_t s = 0; s < count; ++s) stages.weights[s] = 0.5 + 0.1 * s;
  return stages;
}

static void run_serially(stages_t *all) {
  for (int step = 0; step < STEPS; ++step) {
    side_t side = {all, step};
    for (int32_t m = 0; m < MICRO; ++m) {
      double values[STAGES + 1][WIDTH];
      for (int32_t s = 0; s < all->count; ++s)
        assert_ok(
            forward(&side, &(shoal_engine_work_t){.stage = s,
                                                  .micro = m,
                                                  .in = s ? values[s] : NULL,
                                                  .in_bytes = WIDTH * 8,
                                                  .out = s < all->count - 1 ? values[s + 1] : NULL,
                                                  .out_bytes = WIDTH * 8}));
      for (int32_t s = all->count; s-- > 0;)
        assert_ok(
            backward(&side, &(shoal_engine_work_t){.stage = s,
                                                   .micro = m,
                                                   .in = s < all->count - 1 ? values[s + 1] : NULL,
                                                   .out = s ? values[s] : NULL}));
    }
    update(all);
  }
}

typedef struct job {
  const shoal_schedule_t *schedule;
  const int32_t *ranks;
  int32_t fail_stage;
  double weights[STAGES];
  int64_t bytes[STAGES];  // of buffers, by rank
} job_t;

static shoal_status_t run_rank(void *self, shoal_world_t *world, int32_t rank) {
  job_t *job = self;
  const shoal_schedule_t *t = job->schedule;
  stages_t stages = start(t->stage_count, t->split);
  side_t side = {&stages, 0};
  int64_t bytes[STAGES];
  shoal_engine_t *engine;
  stages.fail_stage = job->fail_stage;
  for (int32_t s = 0; s < STAGES; ++s) bytes[s] = WIDTH * 8;
  SHOAL_RETURN_IF_ERROR(shoal_engine_create(world,
                                            &(shoal_engine_options_t){.schedule = t,
                                                                      .ranks = job->ranks,
                                                                      .bytes = bytes,
                                                                      .forward = forward,
                                                                      .backward = backward,
                                                                      .weight = weight,
                                                                      .user_data = &side},
                                            &engine));
  shoal_status_t status = NULL;
  job->bytes[rank] = shoal_engine_bytes(engine);
  for (; side.step < STEPS && !status; ++side.step) {
    status = shoal_engine_run(engine);
    update(&stages);
  }
  shoal_engine_free(engine);
  for (int32_t s = 0; s < t->stage_count && !status; ++s)
    if ((job->ranks ? job->ranks[t->stage_meshes[s]] : t->stage_meshes[s]) == rank)
      job->weights[s] = stages.weights[s];
  return status;
}

static shoal_arena_t *arena;

static int set_up(void **state) {
  (void)state;
  assert_ok(shoal_arena_create(shoal_allocator_system(), &arena));
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  shoal_arena_free(arena);
  return 0;
}

static const shoal_schedule_t *make(const char *name, int32_t meshes, int32_t stages) {
  const shoal_schedule_t *t;
  assert_ok(shoal_schedule_create(
      name, &(shoal_pipeline_t){.mesh_count = meshes, .stage_count = stages, .micro = MICRO}, arena,
      &t));
  return t;
}

static job_t expect_serial(const shoal_schedule_t *t, int32_t world, const int32_t *ranks) {
  stages_t serial = start(t->stage_count, false);
  job_t job = {.schedule = t, .ranks = ranks, .fail_stage = -1};
  run_serially(&serial);
  assert_ok(shoal_launch_ranks(&(shoal_ranks_options_t){.ranks = world}, run_rank, &job, NULL));
  for (int32_t s = 0; s < t->stage_count; ++s)
    if (job.weights[s] != serial.weights[s])
      fail_msg("%s on %d ranks: weight of stage %d is %.17g, not %.17g", t->name, t->mesh_count, s,
               job.weights[s], serial.weights[s]);
  return job;
}

static void test_schedules(void **state) {
  (void)state;
  for (int32_t p = 2; p <= 4; ++p)
    for (int64_t i = 0; shoal_schedule_name(i); ++i) {
      const char *name = shoal_schedule_name(i);
      const bool two = strcmp(name, "interleaved") == 0 || strcmp(name, "zb-v") == 0;
      const job_t job = expect_serial(make(name, p, two ? 2 * p : p), p, NULL);
      // Two slots for what goes forward, and two for what comes back, are enough.
      if (strcmp(name, "1f1b") == 0) assert_int_equal(job.bytes[0], 4 * WIDTH * 8);
    }
}

static const shoal_schedule_t *parse(const char *text) {
  const shoal_schedule_t *t;
  assert_ok(shoal_schedule_parse("table", text, arena, &t));
  return t;
}

// The first rank is ahead by all micro-batches while the second sends gradients back: rings of two
// would stand still.
static void test_ahead(void **state) {
  (void)state;
  expect_serial(parse("a: F0.0 F0.1 F0.2 F0.3 F0.4 F0.5 B0.0 B0.1 B0.2 B0.3 B0.4 B0.5\n"
                      "b: F1.0 B1.0 F1.1 B1.1 F1.2 B1.2 F1.3 B1.3 F1.4 B1.4 F1.5 B1.5"),
                2, NULL);
  const int32_t ranks[] = {2, 0};
  expect_serial(make("1f1b", 2, 2), 3, ranks);
}

// ---- several tensors -------------------------------------------------------------------

// Stage s gives s + 1 tensors of its own sizes; the next checks every byte, and sends back what it
// got, plus one.
enum { TENSORS = 3, CHAIN = 4 };

static int64_t size_of(int32_t stage, int32_t tensor) {
  return tensor == 1 ? 0 : 3 + 70 * tensor + 11 * stage;  // one of them empty
}

static uint8_t byte_of(int32_t stage, int32_t micro, int32_t tensor, int64_t i) {
  return (uint8_t)(31 * stage + 17 * micro + 7 * tensor + i);
}

static shoal_status_t check_tensors(const shoal_engine_tensor_t *tensors, int32_t count,
                                    int32_t stage, int32_t micro, int add) {
  if (count != stage + 1) return SHOAL_ERROR(INTERNAL, "%d tensors of stage %d", count, stage);
  for (int32_t t = 0; t < count; ++t) {
    if (tensors[t].bytes != size_of(stage, t) || (uintptr_t)tensors[t].data % 64 != 0)
      return SHOAL_ERROR(INTERNAL, "tensor %d has %lld bytes", t, (long long)tensors[t].bytes);
    for (int64_t i = 0; i < tensors[t].bytes; ++i)
      if (((uint8_t *)tensors[t].data)[i] != (uint8_t)(byte_of(stage, micro, t, i) + add))
        return SHOAL_ERROR(INTERNAL, "stage %d, micro-batch %d, tensor %d, byte %lld", stage, micro,
                           t, (long long)i);
  }
  return NULL;
}

static void write_tensors(const shoal_engine_tensor_t *tensors, int32_t count, int32_t stage,
                          int32_t micro, int add) {
  for (int32_t t = 0; t < count; ++t)
    for (int64_t i = 0; i < tensors[t].bytes; ++i)
      ((uint8_t *)tensors[t].data)[i] = (uint8_t)(byte_of(stage, micro, t, i) + add);
}

static shoal_status_t forward_several(void *self, const shoal_engine_work_t *work) {
  ++*(int64_t *)self;
  if (work->stage > 0)
    SHOAL_RETURN_IF_ERROR(
        check_tensors(work->ins, work->in_count, work->stage - 1, work->micro, 0));
  write_tensors(work->outs, work->out_count, work->stage, work->micro, 0);
  return work->out_count > 0 && work->outs[0].data != work->out
             ? SHOAL_ERROR(INTERNAL, "out is not the first")
             : NULL;
}

static shoal_status_t backward_several(void *self, const shoal_engine_work_t *work) {
  ++*(int64_t *)self;
  if (work->stage < CHAIN - 1)
    SHOAL_RETURN_IF_ERROR(check_tensors(work->ins, work->in_count, work->stage, work->micro, 1));
  write_tensors(work->outs, work->out_count, work->stage - 1, work->micro, 1);
  return NULL;
}

static shoal_status_t run_several(void *self, shoal_world_t *world, int32_t rank) {
  (void)rank;
  int64_t bytes[CHAIN * TENSORS], calls = 0, count = 0;
  int32_t counts[CHAIN];
  for (int32_t s = 0; s + 1 < CHAIN; ++s) {
    counts[s] = s + 1;
    for (int32_t t = 0; t < counts[s]; ++t) bytes[count++] = size_of(s, t);
  }
  shoal_engine_t *engine;
  const shoal_engine_options_t options = {.schedule = self,
                                          .bytes = bytes,
                                          .counts = counts,
                                          .forward = forward_several,
                                          .backward = backward_several,
                                          .user_data = &calls};
  SHOAL_RETURN_IF_ERROR(shoal_engine_create(world, &options, &engine));
  for (int i = 0; i < CHAIN * TENSORS; ++i) bytes[i] = -1;  // sizes are copied
  shoal_status_t status = NULL;
  for (int step = 0; step < 2 && !status; ++step) status = shoal_engine_run(engine);
  shoal_engine_free(engine);
  if (!status && calls == 0) status = SHOAL_ERROR(INTERNAL, "nothing was called");
  return status;
}

// Different numbers and sizes at each border, an empty tensor among them, and a border inside of a
// rank.
static void test_several(void **state) {
  (void)state;
  const shoal_schedule_t *tables[] = {make("1f1b", CHAIN, CHAIN), make("interleaved", 2, CHAIN),
                                      make("zb-v", 2, CHAIN)};
  for (int i = 0; i < 2; ++i)
    assert_ok(shoal_launch_ranks(&(shoal_ranks_options_t){.ranks = tables[i]->mesh_count},
                                 run_several, (void *)tables[i], NULL));
  assert_error(INVALID_ARGUMENT, "has weight gradients apart",
               shoal_launch_ranks(&(shoal_ranks_options_t){.ranks = 2}, run_several,
                                  (void *)tables[2], NULL));
}

static shoal_status_t create_with(void *self, shoal_world_t *world, int32_t rank) {
  (void)rank;
  shoal_engine_t *engine;
  shoal_engine_options_t options = *(shoal_engine_options_t *)self;
  options.forward = forward_several;
  options.backward = backward_several;
  return shoal_engine_create(world, &options, &engine);
}

static void test_sizes(void **state) {
  (void)state;
  const int64_t bytes[] = {8, -1}, large[] = {INT64_MAX / 4, 64};
  const int32_t counts[] = {2}, negative[] = {-1};
  shoal_engine_options_t options = {
      .schedule = make("1f1b", 2, 2), .bytes = bytes, .counts = counts};
  const shoal_ranks_options_t ranks = {.ranks = 2};
  assert_error(INVALID_ARGUMENT, "stage 0 gives -1 bytes",
               shoal_launch_ranks(&ranks, create_with, &options, NULL));
  options.bytes = large;
  assert_error(INVALID_ARGUMENT, "stage 0 gives 64 bytes",
               shoal_launch_ranks(&ranks, create_with, &options, NULL));
  options.counts = negative;
  assert_error(INVALID_ARGUMENT, "stage 0 gives -1 tensors",
               shoal_launch_ranks(&ranks, create_with, &options, NULL));
}

static void test_refusals(void **state) {
  (void)state;
  job_t job = {.schedule = make("1f1b", 2, 2), .fail_stage = 1};
  assert_error(IO, "rank 1: F1.1: the stage broke",
               shoal_launch_ranks(&(shoal_ranks_options_t){.ranks = 2}, run_rank, &job, NULL));
  job.schedule = parse("a: F0.0 F0.1 B0.0 B0.1 b: F1.1 F1.0 B1.0 B1.1");
  assert_error(INVALID_ARGUMENT, "mesh 'b', entry 0: micro-batch 1 is worked on here when 0 comes",
               shoal_launch_ranks(&(shoal_ranks_options_t){.ranks = 2}, run_rank, &job, NULL));
  const int32_t twice[] = {1, 1}, beyond[] = {0, 7};
  job = (job_t){.schedule = make("1f1b", 2, 2), .ranks = twice};
  assert_error(INVALID_ARGUMENT, "are both on rank 1",
               shoal_launch_ranks(&(shoal_ranks_options_t){.ranks = 2}, run_rank, &job, NULL));
  job.ranks = beyond;
  assert_error(INVALID_ARGUMENT, "is on rank 7; the world has 2",
               shoal_launch_ranks(&(shoal_ranks_options_t){.ranks = 2}, run_rank, &job, NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_schedules), cmocka_unit_test(test_ahead),
                                     cmocka_unit_test(test_several), cmocka_unit_test(test_sizes),
                                     cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

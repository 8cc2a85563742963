// What the tests of stages share: meshes of stages as text, and a chain of layers that is trained
// for some steps, whose losses and states are compared bit by bit.
#ifndef SHOAL_TESTS_UNIT_LAYERS_SUPPORT_H_
#define SHOAL_TESTS_UNIT_LAYERS_SUPPORT_H_

#include <string.h>

#include "base/arena.h"
#include "plan_fixture.h"
#include "run_support.h"
#include "shoal/ops.h"
#include "shoal/session.h"

enum { STEPS = 3, MOST_STAGES = 4, MOST_VALUES = 1 << 16 };

// "m0!data=2,micro=3@0-1", "m1!data=2,micro=3@2-3" ...
typedef struct stage_meshes {
  char storage[MOST_STAGES][48];
  const char *texts[MOST_STAGES];
} stage_meshes_t;

static inline void name_meshes(int stages, int data, int64_t micro, stage_meshes_t *out_meshes) {
  assert_true(stages <= MOST_STAGES);
  for (int s = 0; s < stages; ++s) {
    char *text = out_meshes->storage[s];
    const size_t size = sizeof out_meshes->storage[s];
    const int first = s * data;
    const int length =
        snprintf(text, size, "m%d!data=%d,micro=%lld@%d", s, data, (long long)micro, first);
    if (data > 1) snprintf(text + length, size - (size_t)length, "-%d", first + data - 1);
    out_meshes->texts[s] = text;
  }
}

typedef struct job job_t;
// What else a rank looks at when it has trained.
typedef shoal_status_t (*look_fn_t)(const shoal_session_t *session, int32_t rank);

struct job {
  const shoal_program_t *program;
  int64_t batch, width;  // of its input x
  bool opaque;
  look_fn_t look;                          // NULL: at nothing
  double values[MOST_RANKS][MOST_VALUES];  // by rank: losses, then states
  int64_t count[MOST_RANKS];
};

static inline shoal_status_t train(job_t *job, int32_t rank, shoal_session_t *session,
                                   shoal_arena_t *arena) {
  const int64_t size = job->batch * job->width;
  double *x = SHOAL_NEW(arena, double, size), *out = job->values[rank];
  int32_t *y = SHOAL_NEW(arena, int32_t, job->batch);
  int64_t count = 0;
  for (int step = 0; step < STEPS; ++step) {
    for (int64_t i = 0; i < size; ++i) x[i] = (double)((i * 7 + step * 13) % 19) / 9 - 1;
    for (int64_t i = 0; i < job->batch; ++i) y[i] = (int32_t)((i * 5 + step) % job->width);
    SHOAL_RETURN_IF_ERROR(shoal_feed(session, "x", x, sizeof *x * (size_t)size));
    SHOAL_RETURN_IF_ERROR(shoal_feed(session, "y", y, sizeof *y * (size_t)job->batch));
    SHOAL_RETURN_IF_ERROR(shoal_run(session, "train"));
    // The last two runs are enqueued before the first of them is read.
    if (step != STEPS - 2) SHOAL_RETURN_IF_ERROR(shoal_fetch(session, "loss", &out[count++], 8));
  }
  for (int64_t s = 0; s < job->program->state_count; ++s) {
    const shoal_program_state_t *saved = &job->program->states[s];
    const int64_t elements = shoal_shape_count(&saved->type.shape);
    if (saved->type.dtype != SHOAL_F64) continue;
    EXPECT(count + elements <= MOST_VALUES, "too many values");
    SHOAL_RETURN_IF_ERROR(
        shoal_session_get(session, saved->name, &out[count], (size_t)(8 * elements)));
    count += elements;
  }
  job->count[rank] = count;
  return job->look ? job->look(session, rank) : NULL;
}

static inline shoal_status_t run_rank(void *self, shoal_world_t *world) {
  job_t *job = self;
  shoal_session_t *session = NULL;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_status_t status = shoal_session_create(
      job->program, &(shoal_parallelize_options_t){.world = world, .opaque = job->opaque},
      &session);
  if (!status) status = train(job, shoal_world_rank(world), session, &arena);
  shoal_session_free(session);
  shoal_arena_deinit(&arena);
  return status;
}

static inline job_t *run_layers(const shoal_program_t *program, int64_t batch, int64_t width,
                                bool opaque, look_fn_t look) {
  job_t *job = calloc(1, sizeof *job);
  assert_non_null(job);
  job->program = program;
  job->batch = batch;
  job->width = width;
  job->opaque = opaque;
  job->look = look;
  run_ranks_ok(program->world, run_rank, job);
  return job;
}

// On all ranks of both.
static inline void expect_same_bits(const job_t *a, const job_t *b) {
  assert_int_equal(a->program->world, b->program->world);
  for (int32_t r = 0; r < a->program->world; ++r) {
    assert_int_equal(a->count[r], b->count[r]);
    assert_true(a->count[r] > 0);
    assert_memory_equal(a->values[r], b->values[r], sizeof(double) * (size_t)a->count[r]);
    assert_memory_equal(a->values[r], a->values[0], sizeof(double) * (size_t)a->count[0]);
  }
}

#endif  // SHOAL_TESTS_UNIT_LAYERS_SUPPORT_H_

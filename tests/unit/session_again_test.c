// Decisions that make something a second time, blocks that are recomputed, weights that are
// gathered again: the bits of a run are the same as without them, dropout included. links: all
#include "again_support.h"
#include "run_support.h"
#include "shoal/session.h"

enum { STEPS = 2, MOST_BYTES = 1 << 18 };

typedef struct job {
  const shoal_program_t *program;
  char bytes[MOST_RANKS][MOST_BYTES];  // by rank: losses, then states
  int64_t count[MOST_RANKS];
} job_t;

static shoal_status_t run_rank(void *self, shoal_world_t *world) {
  job_t *job = self;
  const int32_t rank = shoal_world_rank(world);
  shoal_session_t *session = NULL;
  char *out = job->bytes[rank];
  int32_t ids[BATCH * CONTEXT], labels[BATCH * CONTEXT];
  int64_t count = 0;
  shoal_status_t status =
      shoal_session_create(job->program, &(shoal_parallelize_options_t){.world = world}, &session);
  for (int step = 0; step < STEPS && !status; ++step) {
    for (int i = 0; i < BATCH * CONTEXT; ++i) {
      ids[i] = (i * 5 + step) % VOCABULARY;
      labels[i] = (i * 3 + step * 2) % VOCABULARY;
    }
    status = shoal_feed(session, "ids", ids, sizeof ids);
    if (!status) status = shoal_feed(session, "labels", labels, sizeof labels);
    if (!status) status = shoal_run(session, "train");
    if (!status) status = shoal_fetch(session, "loss", &out[count], 8);
    count += 8;
  }
  for (int64_t s = 0; s < job->program->state_count && !status; ++s) {
    const shoal_program_state_t *saved = &job->program->states[s];
    const int64_t bytes = 8 * shoal_shape_count(&saved->type.shape);
    if (saved->type.dtype != SHOAL_F64) continue;
    EXPECT(count + bytes <= MOST_BYTES, "too many values");
    status = shoal_session_get(session, saved->name, &out[count], (size_t)bytes);
    count += bytes;
  }
  job->count[rank] = count;
  shoal_session_free(session);
  return status;
}

static job_t *run_program(const shoal_program_t *program) {
  job_t *job = calloc(1, sizeof *job);
  assert_non_null(job);
  job->program = program;
  run_ranks_ok(program->world, run_rank, job);
  return job;
}

static void test_same_bits(void **state) {
  (void)state;
  const shoal_intent_decision_t both[] = {RECOMPUTE, REDO};
  shoal_model_t *model = make_model(2);
  for (int64_t i = 0; i < COUNT(SETTINGS); ++i) {
    shoal_program_t *plain = lower_with(model, &SETTINGS[i], 0, NULL);
    job_t *expected = run_program(plain);
    for (int64_t k = 0; k < 3; ++k) {
      shoal_program_t *program = lower_with(model, &SETTINGS[i], k == 2 ? 2 : 1, &both[k % 2]);
      job_t *got = run_program(program);
      for (int32_t r = 0; r < plain->world; ++r) {
        assert_int_equal(got->count[r], expected->count[r]);
        assert_memory_equal(got->bytes[r], expected->bytes[r], (size_t)got->count[r]);
      }
      free(got);
      shoal_program_free(program);
    }
    free(expected);
    shoal_program_free(plain);
  }
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

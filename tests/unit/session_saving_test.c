// Saving from all ranks at once. The files are the same bytes whatever the mesh, now or beside the
// runs; no rank takes memory for more than its parts; each reads what it holds; and what fails
// leaves the checkpoint before it whole, with an error on all ranks. links: session nn launch
#include <stdatomic.h>
#include <unistd.h>

#include "base/file.h"
#include "run/run_impl.h"
#include "run_support.h"
#include "session/session_impl.h"
#include "shoal/nn.h"
#include "shoal/ops.h"
#include "shoal/optimize.h"
#include "shoal/session.h"
#include "unit/folder.h"

enum { BATCH = 12, IN = 700, HIDDEN = 301, CLASSES = 5 };

// ---- memory ---------------------------------------------------------------------------

// Of one rank; counts while it watches.
typedef struct watch {
  shoal_allocator_t inner;
  atomic_bool watches;
  atomic_llong largest;  // block that was asked for
} watch_t;

static void *watched_alloc(void *self, size_t size) {
  watch_t *watch = self;
  long long largest = atomic_load(&watch->largest);
  while (atomic_load(&watch->watches) && (long long)size > largest &&
         !atomic_compare_exchange_weak(&watch->largest, &largest, (long long)size)) {
  }
  return watch->inner.alloc(watch->inner.self, size);
}

static void watched_free(void *self, void *block) {
  const watch_t *watch = self;
  watch->inner.free(watch->inner.self, block);
}

// ---- sessions -------------------------------------------------------------------------

typedef struct job job_t;
typedef shoal_status_t (*act_fn_t)(job_t *job, shoal_session_t *session, int32_t rank);

struct job {
  const shoal_model_t *model;
  const char *strategy, *mesh;
  act_fn_t act;
  bool async, opaque;
  int64_t round;                       // bytes; 0: as users save
  const shoal_intent_entry_t *layout;  // NULL: the strategy's only
  const char *path, *other;
  watch_t watches[MOST_RANKS];
  int64_t read[MOST_RANKS], held[MOST_RANKS];
};

static shoal_model_t *make_model(void) {
  shoal_model_t *model;
  assert_ok(shoal_model_create(&(shoal_model_options_t){.seed = 7}, &model));
  shoal_graph_t *g = shoal_model_graph(model, "train");
  const shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(BATCH, IN));
  const shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(BATCH));
  const shoal_value_t h = shoal_tanh(g, shoal_nn_linear(g, "fc1", x, HIDDEN));
  const shoal_value_t loss = shoal_nn_cross_entropy(g, shoal_nn_linear(g, "fc2", h, CLASSES), y);
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 1e-2f});
  shoal_output(g, "loss", loss);
  assert_ok(shoal_model_status(model));
  return model;
}

static shoal_status_t step(shoal_session_t *session) {
  static float x[BATCH * IN];
  int32_t y[BATCH];
  for (int i = 0; i < BATCH; ++i) y[i] = i % CLASSES;
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, "x", x, sizeof x));
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, "y", y, sizeof y));
  return shoal_run(session, "train");
}

static shoal_status_t rank_body(void *self, shoal_world_t *world) {
  job_t *job = self;
  const int32_t rank = shoal_world_rank(world);
  watch_t *watch = &job->watches[rank];
  watch->inner = shoal_allocator_system();
  shoal_session_t *session;
  SHOAL_RETURN_IF_ERROR(shoal_parallelize(
      job->model,
      &(shoal_parallelize_options_t){.world = world,
                                     .allocator = {watch, watched_alloc, watched_free},
                                     .strategy = job->strategy,
                                     .mesh = job->mesh,
                                     .layout_count = job->layout ? 1 : 0,
                                     .layouts = job->layout,
                                     .opaque = job->opaque},
      &session));
  session->runner->options.save_round = job->round;
  shoal_status_t status = job->act(job, session, rank);
  shoal_session_free(session);
  return status;
}

static shoal_status_t save(const job_t *job, shoal_session_t *session, const char *path) {
  return shoal_save_with(session, path,
                         &(shoal_save_options_t){.training = true, .async = job->async});
}

static void expect_same(const char *a, const char *b) {
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *first, *second;
  int64_t sizes[2];
  char paths[2][300];
  snprintf(paths[0], sizeof paths[0], "%s/model.safetensors", a);
  snprintf(paths[1], sizeof paths[1], "%s/model.safetensors", b);
  assert_ok(shoal_file_read(paths[0], &arena, &first, &sizes[0]));
  assert_ok(shoal_file_read(paths[1], &arena, &second, &sizes[1]));
  assert_int_equal(sizes[0], sizes[1]);
  assert_memory_equal(first, second, (size_t)sizes[0]);
  shoal_arena_deinit(&arena);
}

// The first two write everything in one round, the others a state in several.
// The last has a state with halos: ranks hold some rows twice, and each is written once.
static const shoal_intent_entry_t halo = {.pattern = "fc1/weight", .value = "data:0+2+1"};
static const struct {
  int32_t ranks;
  const char *strategy, *mesh;
  int64_t round;
  const shoal_intent_entry_t *layout;
} plans[] = {{2, "data", NULL, 0, NULL},        {3, "zero3", NULL, 0, NULL},
             {3, "zero3", NULL, 100000, NULL},  {4, "tensor", "data=2,tensor=2", 90000, NULL},
             {4, "zero1", NULL, 1 << 17, NULL}, {3, "tensor", NULL, 100001, NULL},
             {3, "data", NULL, 80000, &halo}};
enum { PLANS = sizeof plans / sizeof plans[0] };

// ---- the same bytes -------------------------------------------------------------------

static shoal_status_t save_new(job_t *job, shoal_session_t *session, int32_t rank) {
  (void)rank;
  SHOAL_RETURN_IF_ERROR(step(session));
  return save(job, session, job->path);
}

// Loads, saves again, and changes the states while that goes on.
static shoal_status_t load_and_save(job_t *job, shoal_session_t *session, int32_t rank) {
  watch_t *watch = &job->watches[rank];
  shoal_load_report_t report;
  atomic_store(&watch->watches, true);
  SHOAL_RETURN_IF_ERROR(shoal_load_with(
      session, job->other, &(shoal_load_options_t){.training = true, .report = &report}));
  job->read[rank] = report.bytes_read;
  job->held[rank] = shoal_session_memory(session).saving;
  SHOAL_RETURN_IF_ERROR(save(job, session, job->path));
  atomic_store(&watch->watches, false);
  for (int i = 0; i < 3; ++i) SHOAL_RETURN_IF_ERROR(step(session));
  SHOAL_RETURN_IF_ERROR(shoal_session_wait(session));
  EXPECT(access(job->path, F_OK) == 0, "the wait is over before the save");
  return NULL;
}

static void test_same_bytes(void **state) {
  (void)state;
  shoal_model_t *model = make_model();
  job_t one = {.model = model, .act = save_new, .path = in_folder("one")};
  run_ranks_ok(1, rank_body, &one);
  for (int i = 0; i < 2 * PLANS; ++i) {
    char name[32];
    snprintf(name, sizeof name, "plan%d", i);
    job_t job = {.model = model,
                 .strategy = plans[i / 2].strategy,
                 .mesh = plans[i / 2].mesh,
                 .act = load_and_save,
                 .async = i % 2,
                 .opaque = i % 3 == 0,
                 .round = plans[i / 2].round,
                 .layout = plans[i / 2].layout,
                 .other = one.path,
                 .path = in_folder(name)};
    run_ranks_ok(plans[i / 2].ranks, rank_body, &job);
    expect_same(one.path, job.path);
    const long long whole = 4LL * IN * HIDDEN;  // of fc1/weight
    int64_t read = 0;
    for (int32_t r = 0; r < plans[i / 2].ranks; ++r) {
      read += job.read[r];
      if (strcmp(job.strategy, "zero3") != 0) continue;
      // Checkpoints come and go in parts: a third, and what blocks of memory have around it.
      if (atomic_load(&job.watches[r].largest) > whole / 3 + 4096)
        fail_msg("rank %d takes %lld bytes at once", r, (long long)job.watches[r].largest);
      // What it holds of three states for each parameter, and the largest part of one.
      assert_in_range(job.held[r], 4 * whole / 3, 4 * whole / 3 + 64 * HIDDEN);
    }
    // Every byte is looked at once, and read again by each rank that holds it.
    const int64_t bytes = 3 * 4LL * (IN * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES) + 12;
    if (strcmp(job.strategy, "zero3") == 0) assert_in_range(read, 2 * bytes, 2 * bytes + 64);
    if (strcmp(job.strategy, "data") == 0 && !job.layout)
      assert_in_range(read, 3 * bytes, 3 * bytes + 64);
  }
  shoal_model_free(model);
}

// ---- failing --------------------------------------------------------------------------

// What cannot be published is found beside the runs: the error comes with a call, the same on all
// ranks, and the session goes on.
static shoal_status_t save_in_vain(job_t *job, shoal_session_t *session, int32_t rank) {
  shoal_status_t status = NULL;
  int runs = 0;
  SHOAL_RETURN_IF_ERROR(save(job, session, job->path));
  for (; runs < 4000 && !status; ++runs) status = step(session);
  EXPECT(shoal_status_code(status) == SHOAL_IO, "%s", shoal_status_message(status));
  EXPECT(strstr(shoal_status_message(status), "while saving"), "%s", shoal_status_message(status));
  shoal_status_free(status);
  job->read[rank] = runs;
  SHOAL_RETURN_IF_ERROR(step(session));
  SHOAL_RETURN_IF_ERROR(save(job, session, job->path));
  status = shoal_session_wait(session);
  EXPECT(shoal_status_code(status) == SHOAL_IO, "%s", shoal_status_message(status));
  shoal_status_free(status);
  SHOAL_RETURN_IF_ERROR(save(job, session, job->path));
  status = save(job, session, job->other);  // gets the error of the one before it
  EXPECT(shoal_status_code(status) == SHOAL_IO, "%s", shoal_status_message(status));
  shoal_status_free(status);
  SHOAL_RETURN_IF_ERROR(save(job, session, job->other));
  return shoal_session_wait(session);
}

static void test_errors_come_later(void **state) {
  (void)state;
  shoal_model_t *model = make_model();
  for (int32_t ranks = 1; ranks <= 3; ranks += 2) {
    char name[32];
    snprintf(name, sizeof name, "good%d", ranks);
    job_t job = {.model = model,
                 .strategy = ranks > 1 ? "zero3" : NULL,
                 .act = save_in_vain,
                 .async = true,
                 .path = in_folder("vain"),
                 .other = in_folder(name)};
    // A folder of this name, with a file in it, cannot be replaced.
    assert_ok(shoal_file_make_folder(in_folder("vain/model.safetensors")));
    assert_ok(shoal_file_write(in_folder("vain/model.safetensors/mine"), "x", 1));
    run_ranks_ok(ranks, rank_body, &job);
    for (int32_t r = 1; r < ranks; ++r) assert_int_equal(job.read[r], job.read[0]);
    assert_int_equal(access(in_folder("vain/model.safetensors/mine"), F_OK), 0);
    assert_int_not_equal(access(in_folder("vain/model.safetensors.tmp"), F_OK), 0);
    snprintf(name, sizeof name, "good%d/model.safetensors", ranks);
    assert_int_equal(access(in_folder(name), F_OK), 0);
  }
  shoal_model_free(model);
}

// A rank gives up while the others write: whatever they come to, what lies there is whole.
static shoal_status_t leave(job_t *job, shoal_session_t *session, int32_t rank) {
  SHOAL_RETURN_IF_ERROR(shoal_save(session, job->path));
  SHOAL_RETURN_IF_ERROR(step(session));
  SHOAL_RETURN_IF_ERROR(save(job, session, job->path));
  if (rank == 1) {
    shoal_status_t reason = SHOAL_ERROR(ABORTED, "gives up");
    shoal_world_abort(shoal_session_world(session), reason);
    return reason;
  }
  return shoal_session_wait(session);
}

static shoal_status_t load(job_t *job, shoal_session_t *session, int32_t rank) {
  (void)rank;
  return shoal_load(session, job->path);
}

static void test_a_rank_leaves(void **state) {
  (void)state;
  shoal_model_t *model = make_model();
  for (int i = 0; i < 8; ++i) {
    job_t job = {.model = model,
                 .strategy = "zero3",
                 .act = leave,
                 .async = true,
                 .path = in_folder("left")};
    shoal_status_t statuses[MOST_RANKS];
    run_ranks(3, rank_body, &job, statuses);
    for (int r = 0; r < 3; ++r) assert_error(ABORTED, "gives up", statuses[r]);
    assert_int_not_equal(access(in_folder("left/model.safetensors.tmp"), F_OK), 0);
    job.act = load;
    run_ranks_ok(3, rank_body, &job);
  }
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_same_bytes),
      cmocka_unit_test(test_errors_come_later),
      cmocka_unit_test(test_a_rank_leaves),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

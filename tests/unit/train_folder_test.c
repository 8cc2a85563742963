// Folders of checkpoints: which are kept, the best one, who uses the folder, what a kill leaves, a
// disk that is full while one is written.
// links: all
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "train_support.h"

// ---- which are there ------------------------------------------------------------------

static int by_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// The names in a folder, in order, blanks between them.
static void expect_names(const char *folder, const char *expected) {
  char *names[64], text[512] = "";
  int count = 0;
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  for (struct dirent *entry = readdir(dir); entry && count < 64; entry = readdir(dir)) {
    if (entry->d_name[0] != '.') names[count++] = strdup(entry->d_name);
  }
  closedir(dir);
  qsort(names, (size_t)count, sizeof names[0], by_text);
  for (int i = 0; i < count; ++i) {
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", names[i]);
    free(names[i]);
  }
  assert_string_equal(text, expected);
}

static void test_keep(void **state) {
  (void)state;
  char folder[32];
  make_folder(folder);
  run_t run =
      make_run((shoal_train_options_t){.steps = 7, .save_every = 2, .keep = 2, .folder = folder});
  run_on(2, &run);
  expect_names(folder, "step-6 step-7");
  run_t refused = make_run((shoal_train_options_t){.steps = 1, .folder = folder});
  shoal_status_t statuses[2];
  run_ranks(2, train_rank, &refused, statuses);
  for (int i = 0; i < 2; ++i) {
    assert_error(INVALID_ARGUMENT, "holds checkpoints of another run", statuses[i]);
  }
  expect_names(folder, "step-6 step-7");
  run_t anew =
      make_run((shoal_train_options_t){.steps = 1, .keep = 2, .folder = folder, .overwrite = true});
  run_on(1, &anew);
  expect_names(folder, "step-1");
  assert_int_equal(anew.reports[0].start, 0);
  remove_folder(folder);
}

// ---- two runs at once, and one that was killed ----------------------------------------

typedef struct second {
  run_t run;
  bool tried, refused;
} second_t;

// While a run is at its first step, another wants its folder.
static shoal_status_t begin_second(void *self, const shoal_train_event_t *event, bool *stop) {
  (void)stop;
  second_t *second = self;
  if (event->kind != SHOAL_TRAIN_STEP || second->tried) return NULL;
  second->tried = true;
  char mine[64];
  snprintf(mine, sizeof mine, "is in use by another run: process %ld on ", (long)getpid());
  shoal_status_t status = shoal_train(&second->run.options, NULL);
  second->refused = shoal_status_code(status) == SHOAL_INVALID_ARGUMENT &&
                    strstr(shoal_status_message(status), mine);
  shoal_status_free(status);
  return NULL;
}

static void test_two_at_once(void **state) {
  (void)state;
  char folder[32], lock[64];
  make_folder(folder);
  for (int i = 0; i < 3; ++i) {  // a new one, one that goes on, one that begins anew
    const shoal_train_options_t options = {
        .steps = 3 + i, .folder = folder, .resume = i == 1, .overwrite = i == 2};
    second_t second = {.run = make_run(options)};
    run_t first = make_run(options);
    first.options.hook = begin_second;
    first.options.hook_self = &second;
    run_on(1, &first);
    assert_true(second.refused);
    assert_int_equal(first.reports[0].step, 3 + i);
  }
  snprintf(lock, sizeof lock, "%s/.shoal.lock", folder);
  assert_int_not_equal(access(lock, F_OK), 0);
  remove_folder(folder);
}

static void touch(const char *folder, const char *name) {
  char path[96];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fclose(file);
}

static void make_step(const char *folder, const char *name) {
  char path[96];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  assert_int_equal(mkdir(path, 0777), 0);
}

// What a run leaves that is killed while it saves.
static void test_after_a_kill(void **state) {
  (void)state;
  char folder[32], path[96];
  make_folder(folder);
  run_t first = make_run((shoal_train_options_t){.steps = 2, .folder = folder});
  run_on(1, &first);
  make_step(folder, "step-3"), make_step(folder, "step-4"), make_step(folder, "best");
  touch(folder, "step-2/model.safetensors.tmp");
  touch(folder, "step-3/model.safetensors.tmp");
  touch(folder, "step-4/model-00001-of-00002.safetensors");
  touch(folder, "step-4/mine");
  touch(folder, "best/model.safetensors.index.json.tmp12.3");
  touch(folder, ".shoal-abcdef");
  touch(folder, ".shoal.lock");
  run_t second = make_run((shoal_train_options_t){.steps = 3, .folder = folder, .resume = true});
  run_on(2, &second);
  assert_int_equal(second.reports[0].start, 2);
  expect_names(folder, "step-2 step-3 step-4");
  snprintf(path, sizeof path, "%s/step-2", folder);
  expect_names(path, "model.safetensors");
  snprintf(path, sizeof path, "%s/step-4", folder);
  expect_names(path, "mine");
  snprintf(path, sizeof path, "%s/.shoal-abcdef", folder);
  assert_int_not_equal(access(path, F_OK), 0);
  remove_folder(folder);
}

// A copy under another number is not what it says.
static void test_renamed(void **state) {
  (void)state;
  char folder[32], from[64], to[64];
  make_folder(folder);
  run_t first = make_run((shoal_train_options_t){.steps = 2, .folder = folder});
  run_on(1, &first);
  snprintf(from, sizeof from, "%s/step-2", folder);
  snprintf(to, sizeof to, "%s/step-5", folder);
  assert_int_equal(rename(from, to), 0);
  run_t second = make_run((shoal_train_options_t){.steps = 9, .folder = folder, .resume = true});
  shoal_status_t statuses[2];
  run_ranks(2, train_rank, &second, statuses);
  for (int i = 0; i < 2; ++i) {
    assert_error(INVALID_ARGUMENT, "step-5: this checkpoint was saved at step 2", statuses[i]);
  }
  remove_folder(folder);
}

// A byte that the disk has changed is not trained on; the newest that is whole can be.
static void test_damaged(void **state) {
  (void)state;
  char folder[32], path[64];
  make_folder(folder);
  run_t first = make_run((shoal_train_options_t){.steps = 2, .folder = folder});
  run_on(2, &first);
  snprintf(path, sizeof path, "%s/step-2/model.safetensors", folder);
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, -9, SEEK_END), 0);
  assert_true(fputc('x', file) == 'x');
  assert_int_equal(fclose(file), 0);
  run_t second = make_run((shoal_train_options_t){.steps = 9, .folder = folder, .resume = true});
  shoal_status_t statuses[3];
  run_ranks(3, train_rank, &second, statuses);
  for (int i = 0; i < 3; ++i) {
    assert_error(INVALID_ARGUMENT, "tensor 'fc2/bias#adamw.v' is not what was saved", statuses[i]);
  }
  remove_folder(folder);
}

// ---- the best -------------------------------------------------------------------------

// The evaluations of a run by step, as the hook heard them.
typedef struct heard {
  double losses[MOST_STEPS + 1];
} heard_t;

static shoal_status_t hear(void *self, const shoal_train_event_t *event, bool *stop) {
  (void)stop;
  heard_t *heard = self;
  if (event->kind == SHOAL_TRAIN_EVAL) heard->losses[event->step] = event->metrics[0].value;
  return NULL;
}

static void expect_best(const char *metric, bool largest) {
  char folder[32], path[64];
  make_folder(folder);
  heard_t heard = {0};
  // A rate at which the loss goes up and down.
  run_t run = make_run((shoal_train_options_t){.steps = 12,
                                               .lr = 0.3,
                                               .eval_samples = 9,
                                               .eval_every = 1,
                                               .keep = 1,
                                               .best = metric,
                                               .folder = folder,
                                               .hook = hear});
  run.options.hook_self = &heard;
  run_on(1, &run);
  int64_t best = 1;
  for (int64_t step = 2; step <= 12; ++step) {
    const bool better =
        largest ? heard.losses[step] > heard.losses[best] : heard.losses[step] < heard.losses[best];
    if (better) best = step;
  }
  assert_int_equal(run.reports[0].best_step, best);
  assert_true(run.reports[0].best == heard.losses[best]);
  expect_names(folder, "best step-12");
  // What lies there gives that loss: evaluated from it, by a model without training.
  snprintf(path, sizeof path, "%s/best", folder);
  shoal_train_report_t report;
  const shoal_train_options_t again = {
      .build = build_small, .feed = feed_samples, .batch = 4, .seed = 3, .eval_samples = 9};
  assert_ok(shoal_evaluate(&again, path, &report));
  assert_true(fabs(report.metrics[0].value - heard.losses[best]) < 1e-12);
  remove_folder(folder);
}

static void test_best(void **state) {
  (void)state;
  expect_best("loss", false);
  expect_best("+loss", true);
  shoal_train_options_t bad = {.build = build_small,
                               .feed = feed_samples,
                               .batch = 4,
                               .steps = 1,
                               .eval_samples = 4,
                               .best = "accuracy",
                               .folder = "/tmp/shoal_train_no_metric"};
  assert_error(INVALID_ARGUMENT, "no metric 'accuracy'", shoal_train(&bad, NULL));
  rmdir(bad.folder);
}

// The best of the run before counts when it is gone on with.
static void test_best_is_remembered(void **state) {
  (void)state;
  char folder[32];
  make_folder(folder);
  run_t first = make_run((shoal_train_options_t){
      .steps = 6, .eval_samples = 9, .eval_every = 2, .best = "loss", .folder = folder});
  run_on(1, &first);
  run_t worse = make_run((shoal_train_options_t){.steps = 8,
                                                 .lr = 9,  // which spoils it
                                                 .eval_samples = 9,
                                                 .eval_every = 1,
                                                 .best = "loss",
                                                 .folder = folder,
                                                 .resume = true});
  run_on(2, &worse);
  assert_int_equal(worse.reports[0].best_step, first.reports[0].best_step);
  assert_true(worse.reports[0].best == first.reports[0].best);
  // One that is gone is not waited for.
  char command[64];
  snprintf(command, sizeof command, "rm -r %s/best", folder);
  assert_int_equal(system(command), 0);
  worse.options.steps = 10;
  run_on(1, &worse);
  assert_true(worse.reports[0].best_step > 8);
  expect_names(folder, "best step-10 step-6 step-8");
  // And a run that starts anew has none.
  run_t anew = make_run((shoal_train_options_t){.steps = 1, .folder = folder, .overwrite = true});
  run_on(2, &anew);
  expect_names(folder, "step-1");
  remove_folder(folder);
}

// ---- another optimizer ----------------------------------------------------------------

static void build_with_momentum(void *self, shoal_graph_t *g, const char *phase, int64_t rows) {
  const bool *wide = self;
  (void)phase;
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(rows, WIDTH));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(rows));
  x = shoal_relu(g, shoal_nn_linear(g, "fc1", x, wide && *wide ? 8 : 7));
  x = shoal_nn_dropout(g, "drop", x, 0.25);
  shoal_value_t loss = shoal_nn_cross_entropy(g, shoal_nn_linear(g, "fc2", x, CLASSES), y);
  shoal_minimize_sgd(g, loss, &(shoal_sgd_t){.lr = 0.02, .momentum = 0.9});
  shoal_output(g, "loss", loss);
}

static void test_another_optimizer(void **state) {
  (void)state;
  char folder[32];
  make_folder(folder);
  run_t adamw = make_run((shoal_train_options_t){.steps = 4, .folder = folder});
  run_on(1, &adamw);
  run_t sgd = make_run((shoal_train_options_t){
      .steps = 5, .build = build_with_momentum, .folder = folder, .resume = true});
  run_on(2, &sgd);
  assert_non_null(strstr(sgd.log, "the optimizer begins anew with 4 states: "));
  assert_non_null(strstr(sgd.log, "#sgd.momentum"));
  // The weights are the checkpoint's: the next loss is that of the run that went on as it was.
  run_t whole = make_run((shoal_train_options_t){.steps = 5});
  run_on(1, &whole);
  assert_true(fabs(sgd.losses[5] - whole.losses[5]) < 1e-10);
  // Weights that do not fit are refused.
  bool wide = true;
  run_t other = make_run((shoal_train_options_t){.steps = 6,
                                                 .build = build_with_momentum,
                                                 .build_self = &wide,
                                                 .folder = folder,
                                                 .resume = true});
  shoal_status_t status = NULL;
  run_ranks(1, train_rank, &other, &status);
  assert_error(INVALID_ARGUMENT, "fc1/weight", status);
  remove_folder(folder);
}

// ---- a full disk ----------------------------------------------------------------------

// Room for a few bytes of files, as a disk has that is nearly full; from step 3 on.
static shoal_status_t fill_disk(void *self, const shoal_train_event_t *event, bool *stop) {
  (void)self, (void)stop;
  if (event->kind != SHOAL_TRAIN_STEP || event->step != 3) return NULL;
  struct rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = 600;
  setrlimit(RLIMIT_FSIZE, &limit);
  return NULL;
}

// Fails to save step 4, and leaves these names.
static void expect_full(const char *folder, shoal_train_hook_fn_t fill, const char *names) {
  run_t run = make_run((shoal_train_options_t){
      .steps = 6, .save_every = 2, .keep = 1, .folder = folder, .hook = fill});
  run.options.hook_self = (void *)(uintptr_t)folder;
  shoal_status_t statuses[2] = {0};
  run_ranks(2, train_rank, &run, statuses);
  for (int i = 0; i < 2; ++i) {
    assert_int_equal(shoal_status_code(statuses[i]), SHOAL_IO);
    assert_non_null(strstr(shoal_status_message(statuses[i]), "step-4"));
    shoal_status_free(statuses[i]);
  }
  expect_names(folder, names);
}

// Step 2 is whole.
static void expect_resumed(const char *folder) {
  run_t after = make_run((shoal_train_options_t){.steps = 6, .folder = folder, .resume = true});
  run_on(1, &after);
  run_t whole = make_run((shoal_train_options_t){.steps = 6});
  run_on(1, &whole);
  for (int64_t step = 3; step <= 6; ++step) {
    assert_true(fabs(after.losses[step] - whole.losses[step]) < 1e-10);
  }
}

static void test_full_disk(void **state) {
  (void)state;
  char folder[32];
  make_folder(folder);
  signal(SIGXFSZ, SIG_IGN);
  struct rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  expect_full(folder, fill_disk, "step-2");
  setrlimit(RLIMIT_FSIZE, &before);
  expect_resumed(folder);
  remove_folder(folder);
}

// Writes until there is no room left, at step 3 on rank 0.
static shoal_status_t fill_folder(void *self, const shoal_train_event_t *event, bool *stop) {
  (void)stop;
  char path[64];
  static const char zeros[4096];
  if (event->kind != SHOAL_TRAIN_STEP || event->step != 3) return NULL;
  if (shoal_world_rank(shoal_session_world(event->session)) > 0) return NULL;
  snprintf(path, sizeof path, "%s/filler", (const char *)self);
  const int file = open(path, O_WRONLY | O_CREAT, 0666);
  while (write(file, zeros, sizeof zeros) > 0) {
  }
  EXPECT(errno == ENOSPC, "filling the disk ends with %s", strerror(errno));
  close(file);
  return NULL;
}

// A file system of its own, seen by this process only, which needs the right to mount one. Without
// it the limit above has to do.
static bool mount_small(const char *folder) {
  return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
         mount("none", folder, "tmpfs", 0, "size=256k") == 0;
}

static void test_full_tmpfs(void **state) {
  (void)state;
  char folder[32], path[64];
  make_folder(folder);
  const bool mounted = mount_small(folder);
  print_message("disk full: %s\n", mounted ? "on a tmpfs of 256 KiB"
                                           : "by RLIMIT_FSIZE alone, mounting is not permitted");
  if (mounted) {
    expect_full(folder, fill_folder, "filler step-2");
    snprintf(path, sizeof path, "%s/filler", folder);
    assert_int_equal(unlink(path), 0);
    expect_resumed(folder);
    assert_int_equal(umount(folder), 0);
  }
  remove_folder(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_keep),
      cmocka_unit_test(test_two_at_once),
      cmocka_unit_test(test_after_a_kill),
      cmocka_unit_test(test_renamed),
      cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_best),
      cmocka_unit_test(test_best_is_remembered),
      cmocka_unit_test(test_another_optimizer),
      cmocka_unit_test(test_full_disk),
      cmocka_unit_test(test_full_tmpfs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

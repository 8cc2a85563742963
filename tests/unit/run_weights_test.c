// Loading and saving by choice: weights alone, what is missing or too much, other types, patterns,
// and checkpoints of several files.
// links: run launch
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/file.h"
#include "run/checkpoint.h"
#include "run/shards.h"
#include "run_support.h"
#include "unit/folder.h"

// ---- models of a few states, each [4, 6] or a scalar ----------------------------------

enum { MOST_STATES = 8, ELEMENTS = 24 };

typedef struct model {
  int32_t world;
  const char *layout;  // of the matrices
  const char *dtype;
  const char *names[MOST_STATES];  // NULL-terminated; "lr" and "step" are scalars
} model_t;

static bool is_scalar(const char *name) {
  return strcmp(name, "lr") == 0 || strcmp(name, "step") == 0;
}

static const char *type_of(const model_t *m, const char *name) {
  static _Thread_local char type[32];
  if (is_scalar(name)) return strcmp(name, "lr") == 0 ? "f32[]" : "i64[]";
  snprintf(type, sizeof type, "%s[4, 6]", m->dtype);
  return type;
}

static shoal_program_t *make_program(const model_t *m, shoal_registry_t *registry) {
  static char text[8192];
  int at = snprintf(text, sizeof text, "shoal_program 1\nworld %d\nmicro 1\nmesh data=%d\n",
                    m->world, m->world);
  for (int i = 0; m->names[i]; ++i) {
    at += snprintf(text + at, sizeof text - (size_t)at, "state %s %s \"%s\" saved\n", m->names[i],
                   type_of(m, m->names[i]), is_scalar(m->names[i]) ? "" : m->layout);
  }
  at += snprintf(text + at, sizeof text - (size_t)at, "class 0 ranks 0-%d arena 4096\n",
                 m->world - 1);
  for (int i = 0; m->names[i]; ++i) {
    at += snprintf(text + at, sizeof text - (size_t)at,
                   "  buffer %d state %d \"%s\" %s \"%s\" bytes 256 offset %d\n", i, i, m->names[i],
                   type_of(m, m->names[i]), is_scalar(m->names[i]) ? "" : m->layout, i * 256);
  }
  at += snprintf(text + at, sizeof text - (size_t)at, "  segment 0 init.0\n");
  for (int i = 0; m->names[i]; ++i) {
    at += snprintf(text + at, sizeof text - (size_t)at,
                   "    %d compute fill -> (%d) value 9 \"%s\"\n", i, i, m->names[i]);
  }
  snprintf(text + at, sizeof text - (size_t)at, "  order init 0\n");
  return parse_program(text, registry);
}

static double value_at(int state_letter, int i) {
  return state_letter % 16 + 0.25 * i;
}

typedef struct job {
  const model_t *model;
  const shoal_program_t *program;
  const char *save, *load;
  shoal_save_options_t save_options;
  shoal_load_options_t load_options;
  const char *untouched;  // names that keep their initial 9, ' ' around each
} job_t;

static shoal_status_t save_values(const job_t *job, shoal_runner_t *runner) {
  for (int i = 0; job->model->names[i]; ++i) {
    const char *name = job->model->names[i];
    const shoal_type_t *type = &job->program->states[i].type;
    double data[ELEMENTS];
    const int count = is_scalar(name) ? 1 : ELEMENTS;
    for (int e = 0; e < count; ++e) {
      if (type->dtype == SHOAL_I64) {
        shoal_dtype_store_int(type->dtype, data, e, 77);
      } else {
        shoal_dtype_store(type->dtype, data, e, value_at(name[0], e));
      }
    }
    SHOAL_RETURN_IF_ERROR(
        shoal_runner_set(runner, name, data, (size_t)count * shoal_dtype_size(type->dtype)));
  }
  return shoal_checkpoint_save(runner, job->save, &job->save_options, NULL, 0);
}

static shoal_status_t load_values(const job_t *job, shoal_runner_t *runner) {
  SHOAL_RETURN_IF_ERROR(shoal_runner_run(runner, "init"));
  SHOAL_RETURN_IF_ERROR(shoal_checkpoint_load(runner, job->load, &job->load_options));
  for (int i = 0; job->model->names[i]; ++i) {
    const char *name = job->model->names[i];
    const shoal_dtype_t dtype = job->program->states[i].type.dtype;
    char word[64];
    snprintf(word, sizeof word, " %s ", name);
    const bool untouched = job->untouched && strstr(job->untouched, word);
    double data[ELEMENTS];
    const int count = is_scalar(name) ? 1 : ELEMENTS;
    SHOAL_RETURN_IF_ERROR(
        shoal_runner_get(runner, name, data, (size_t)count * shoal_dtype_size(dtype)));
    for (int e = 0; e < count; ++e) {
      const double got = dtype == SHOAL_I64 ? (double)shoal_dtype_load_int(dtype, data, e)
                                            : shoal_dtype_load(dtype, data, e);
      const double set = dtype == SHOAL_I64 ? 77 : value_at(name[0], e);
      EXPECT(got == (untouched ? 9 : set), "%s[%d] is %g", name, e, got);
    }
  }
  return NULL;
}

static shoal_status_t rank_body(void *self, shoal_world_t *world) {
  job_t job = *(const job_t *)self;
  if (shoal_world_rank(world) != 0) job.load_options.report = NULL;
  shoal_device_t *device = NULL;
  shoal_runner_t *runner = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_device_create(NULL, &device));
  shoal_status_t status = shoal_runner_create(job.program, world, device, NULL, &runner);
  if (!status && job.save) status = save_values(&job, runner);
  if (!status && job.load) status = load_values(&job, runner);
  shoal_runner_free(runner);
  shoal_device_free(device);
  return status;
}

// Runs it; every rank must end alike: with no error, or with one that contains `error`.
static void run_job(job_t job, const char *error) {
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = make_program(job.model, registry);
  shoal_status_t statuses[MOST_RANKS];
  job.program = program;
  run_ranks(job.model->world, rank_body, &job, statuses);
  for (int32_t r = 0; r < job.model->world; ++r) {
    if (!error) {
      assert_ok(statuses[r]);
      continue;
    }
    if (!strstr(shoal_status_message(statuses[r]), error))
      fail_msg("'%s' is not in '%s'", error, shoal_status_message(statuses[r]));
    shoal_status_free(statuses[r]);
  }
  shoal_program_free(program);
  shoal_registry_release(registry);
}

static const model_t trains = {2, "data:0", "f32", {"a/w", "b/w", "a/w#m", "lr", "step"}};
static const model_t answers = {3, "data:1", "f32", {"a/w", "b/w"}};
static const model_t smaller = {1, "", "f32", {"a/w"}};
static const model_t larger = {2, "data:1", "f32", {"a/w", "b/w", "c/w", "lr"}};
static const model_t narrow = {2, "data:flat", "bf16", {"a/w", "b/w"}};
static const model_t whole_numbers = {1, "", "i32", {"a/w", "b/w"}};

static const shoal_save_options_t everything = {.training = true};

static void test_is_training(void **state) {
  (void)state;
  static const char *const yes[] = {"lr",       "step",        "updates", "loss_scale",
                                    "adamw.lr", "second.step", "a/w#m"};
  static const char *const no[] = {"a/w", "a/lr", "a/step", "bn/running_mean", "stepper", "a/x.lr"};
  for (int i = 0; i < 7; ++i) assert_true(shoal_checkpoint_is_training(yes[i]));
  for (int i = 0; i < 6; ++i) assert_false(shoal_checkpoint_is_training(no[i]));
}

// The default of both: a training checkpoint serves a model that only answers, and back.
static void test_weights_alone(void **state) {
  (void)state;
  shoal_load_report_t report;
  run_job((job_t){.model = &trains, .save = in_folder("full"), .save_options = everything}, NULL);
  run_job((job_t){.model = &answers, .load = in_folder("full"), .load_options.report = &report},
          NULL);
  assert_int_equal(report.loaded, 2);
  assert_int_equal(report.training, 3);
  assert_int_equal(report.missing + report.extra + report.cast, 0);
  // A model that cannot train passes over the optimizer also when all is asked for.
  run_job((job_t){.model = &answers, .load = in_folder("full"), .load_options.training = true},
          NULL);
  run_job((job_t){.model = &trains, .save = in_folder("weights")}, NULL);
  run_job((job_t){.model = &answers, .load = in_folder("weights"), .load_options.training = true},
          NULL);
  run_job((job_t){.model = &trains, .load = in_folder("weights"), .untouched = " a/w#m lr step "},
          NULL);
  run_job((job_t){.model = &trains, .load = in_folder("full"), .untouched = " a/w#m lr step "},
          NULL);
  run_job((job_t){.model = &trains, .load = in_folder("weights"), .load_options.training = true},
          "tensor 'a/w#m' is missing");
  run_job((job_t){.model = &trains, .load = in_folder("full"), .load_options.training = true},
          NULL);
  // Another optimizer's states are refused, not dropped, where training is to go on.
  run_job((job_t){.model = &larger,
                  .load = in_folder("full"),
                  .load_options = {.training = true, .keep_missing = true}},
          "no state for tensor 'a/w#m'");
}

static void test_missing_and_extra(void **state) {
  (void)state;
  shoal_load_report_t report;
  run_job((job_t){.model = &answers, .save = in_folder("two")}, NULL);
  run_job((job_t){.model = &larger, .load = in_folder("two")}, "tensor 'c/w' is missing");
  run_job((job_t){.model = &larger,
                  .load = in_folder("two"),
                  .load_options = {.keep_missing = true, .report = &report},
                  .untouched = " c/w lr "},
          NULL);
  assert_int_equal(report.missing, 1);
  assert_string_equal(report.missing_names, "c/w");
  run_job((job_t){.model = &smaller, .load = in_folder("two")}, "no state for tensor 'b/w'");
  run_job((job_t){.model = &smaller,
                  .load = in_folder("two"),
                  .load_options = {.ignore_extra = true, .report = &report}},
          NULL);
  assert_int_equal(report.extra, 1);
  assert_string_equal(report.extra_names, "b/w");
}

static void test_patterns(void **state) {
  (void)state;
  run_job((job_t){.model = &answers, .save = in_folder("both")}, NULL);
  run_job((job_t){.model = &larger,
                  .load = in_folder("both"),
                  .load_options.only = "x,b/*",
                  .untouched = " a/w c/w lr "},
          NULL);
  run_job((job_t){.model = &larger, .load = in_folder("both"), .load_options.only = "d/*"},
          "no state of the model matches 'd/*'");
  run_job((job_t){.model = &larger, .save = in_folder("some"), .save_options.only = "a/*"}, NULL);
  run_job((job_t){.model = &smaller, .load = in_folder("some")}, NULL);
  run_job((job_t){.model = &larger, .save = in_folder("none"), .save_options.only = "z*"},
          "nothing would be saved");
}

static void test_casts(void **state) {
  (void)state;
  shoal_load_report_t report;
  run_job((job_t){.model = &trains,
                  .save = in_folder("bf16"),
                  .save_options = {.training = true, .dtype = "bf16"}},
          NULL);
  run_job((job_t){.model = &answers, .load = in_folder("bf16")},
          "tensor 'a/w' is bf16[4, 6], the model has f32[4, 6]");
  run_job((job_t){.model = &answers,
                  .load = in_folder("bf16"),
                  .load_options = {.cast = true, .report = &report}},
          NULL);
  assert_int_equal(report.cast, 2);
  // Moments keep their type: training can go on from it.
  run_job((job_t){.model = &trains,
                  .load = in_folder("bf16"),
                  .load_options = {.cast = true, .training = true, .report = &report}},
          NULL);
  assert_int_equal(report.cast, 2);
  run_job((job_t){.model = &narrow, .load = in_folder("bf16")}, NULL);
  run_job((job_t){.model = &whole_numbers, .load = in_folder("bf16"), .load_options.cast = true},
          "the model has i32[4, 6]");
  run_job((job_t){.model = &answers, .save = in_folder("no"), .save_options.dtype = "i32"},
          "cannot be saved as 'i32'");
}

// ---- several files --------------------------------------------------------------------

static int count_files(const char *name, const char *part) {
  DIR *entries = opendir(in_folder(name));
  assert_non_null(entries);
  int count = 0;
  for (const struct dirent *entry; (entry = readdir(entries));) {
    if (entry->d_name[0] != '.' && strstr(entry->d_name, part)) ++count;
  }
  closedir(entries);
  return count;
}

static void test_shards(void **state) {
  (void)state;
  const shoal_save_options_t small = {.training = true, .shard_bytes = 100};
  job_t sharded = {.model = &trains, .save = in_folder("shards"), .save_options = small};
  const job_t single = {.model = &trains, .save = in_folder("shards"), .save_options = everything};
  for (int i = 0; i < 3; ++i) {
    run_job(sharded, NULL);
    assert_int_equal(count_files("shards", "-of-00004.safetensors"), 4);
    assert_int_equal(count_files("shards", ""), 5);
    run_job((job_t){.model = &answers, .load = in_folder("shards")}, NULL);
    run_job((job_t){.model = &trains,
                    .load = in_folder("shards/model.safetensors.index.json"),
                    .load_options.training = true},
            NULL);
  }
  run_job(single, NULL);
  assert_int_equal(count_files("shards", ""), 1);
  run_job((job_t){.model = &answers, .load = in_folder("shards")}, NULL);
  run_job(sharded, NULL);
  assert_int_equal(count_files("shards", ""), 5);
  // Shards that a killed save left behind disturb nobody and go with the next save.
  assert_ok(shoal_file_write(in_folder("shards/model.7-00001-of-00002.safetensors"), "x", 1));
  run_job((job_t){.model = &answers, .load = in_folder("shards")}, NULL);
  run_job(sharded, NULL);
  assert_int_equal(count_files("shards", ""), 5);
  assert_int_equal(count_files("shards", "model.8-"), 4);
  assert_true(shoal_shards_complete(in_folder("shards")));
  assert_ok(shoal_shards_remove(in_folder("shards")));
  assert_int_equal(count_files("shards", ""), 0);
}

// Folders that are called like its files are no checkpoint, links to such files are one.
static void test_folders_are_no_checkpoint(void **state) {
  (void)state;
  static const char *const names[] = {"steps/step-7/" SHOAL_WEIGHTS_NAME,
                                      "steps/step-8/" SHOAL_WEIGHTS_INDEX};
  assert_int_equal(mkdir(in_folder("steps"), 0700), 0);
  for (int i = 0; i < 2; ++i) {
    const char *step = in_folder(i ? "steps/step-8" : "steps/step-7"), *path = in_folder(names[i]);
    const char *target = in_folder("elsewhere");
    assert_int_equal(mkdir(step, 0700) | mkdir(path, 0700), 0);
    assert_false(shoal_shards_complete(step));
    assert_ok(shoal_file_write(target, "x", 1));
    assert_int_equal(rmdir(path) | symlink(target, path), 0);
    assert_true(shoal_shards_complete(step));
    assert_int_equal(unlink(target), 0);
    assert_false(shoal_shards_complete(step));
  }
}

// Wherever a save of several files fails, what was there stays and nothing else does.
static void test_failed_shards_keep_the_old(void **state) {
  (void)state;
  const shoal_save_options_t small = {.shard_bytes = 1};
  const model_t full = {1, "", "f32", {"a/w", "b/w"}};
  run_job((job_t){.model = &full, .save = in_folder("kept"), .save_options = small}, NULL);
  const model_t other = {1, "", "f32", {"a/w", "x", "longer/than/before"}};
  struct rlimit before, limited;
  getrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_IGN);
  for (rlim_t bytes = 0; bytes <= 200; bytes += 100) {
    limited = before;
    limited.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limited);
    run_job((job_t){.model = &other, .save = in_folder("kept"), .save_options = small},
            "while saving");
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(count_files("kept", ""), 3);
    run_job((job_t){.model = &full, .load = in_folder("kept")}, NULL);
  }
  signal(SIGXFSZ, SIG_DFL);
}

static void expect_refused(const char *index, const char *error) {
  assert_ok(shoal_file_write(in_folder("bad/model.safetensors.index.json"), index,
                             (int64_t)strlen(index)));
  run_job((job_t){.model = &answers, .load = in_folder("bad")}, error);
}

#define A "model-00001-of-00002.safetensors"
#define B "model-00002-of-00002.safetensors"

static void test_damaged_index(void **state) {
  (void)state;
  run_job((job_t){.model = &answers,
                  .save = in_folder("bad"),
                  .save_options = {.training = true, .shard_bytes = 1}},
          NULL);
  expect_refused("", "model.safetensors.index.json");
  expect_refused("[]", "no JSON object");
  expect_refused("{\"metadata\": {}}", "weight_map");
  expect_refused("{\"weight_map\": {\"a/w\": 3}}", "no name of a file in this folder");
  expect_refused("{\"weight_map\": {\"a/w\": \"../bad/" A "\"}}", "no name of a file");
  expect_refused("{\"weight_map\": {\"a/w\": \"..\"}}", "no name of a file");
  expect_refused("{\"weight_map\": {\"a/w\": \"nowhere.safetensors\"}}", "nowhere.safetensors");
  expect_refused("{\"weight_map\": {\"a/w\": \"" A "\", \"b/w\": \"" A "\"}}",
                 "tensor 'b/w' is not in '" A "'");
  expect_refused("{\"weight_map\": {\"a/w\": \"" B "\", \"b/w\": \"" A "\"}}", "but in '");
  expect_refused("{\"weight_map\": {\"a/w\": \"" A "\"}}", "tensor 'b/w' is missing");
  char copy[700];
  snprintf(copy, sizeof copy, "cp %s/bad/" A " %s/bad/twin.safetensors", folder, folder);
  assert_int_equal(system(copy), 0);
  expect_refused("{\"weight_map\": {\"a/w\": \"" A "\", \"b/w\": \"twin.safetensors\"}}",
                 "tensor 'a/w' lies in");
  expect_refused("{\"weight_map\": {\"a/w\": \"" A "\", \"b/w\": \"" B "\"}}", NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_is_training),
      cmocka_unit_test(test_weights_alone),
      cmocka_unit_test(test_missing_and_extra),
      cmocka_unit_test(test_patterns),
      cmocka_unit_test(test_casts),
      cmocka_unit_test(test_shards),
      cmocka_unit_test(test_folders_are_no_checkpoint),
      cmocka_unit_test(test_failed_shards_keep_the_old),
      cmocka_unit_test(test_damaged_index),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

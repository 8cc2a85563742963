// Checkpoints: saved on one mesh, loaded on another; damaged files; failed saves; old ones dropped.
// links: run launch
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/file.h"
#include "run/checkpoint.h"
#include "run_support.h"
#include "unit/folder.h"

// ---- programs with the same states on different meshes --------------------------------

typedef struct layouts {
  int32_t world;
  const char *mesh, *other_mesh;  // other_mesh: a line, or ""
  const char *w, *b, *step;
} layouts_t;

static const layouts_t meshes[] = {
    {1, "data=1", "", "", "", ""},
    {2, "data=2", "", "data:0", "data:flat", ""},
    {4, "data=2,tensor=2", "", "tensor:1/2,data:flat", "data:0", ""},
    {3, "a!data=2@0,2", "mesh b!data=1@1\n", "a!data:1*3", "b!", "a!"},
    {3, "data=3", "", "data:1", "data:0/4", ""},
    {2, "data=2", "", "data:partial(sum)", "data:partial(max)", ""},
};
enum { MESH_COUNT = sizeof meshes / sizeof meshes[0] };

static shoal_program_t *make_program(const layouts_t *l, const char *w_type,
                                     shoal_registry_t *registry) {
  char text[2048];
  snprintf(text, sizeof text,
           "shoal_program 1\n"
           "world %d\n"
           "micro 1\n"
           "mesh %s\n"
           "%s"
           "state w %s \"%s\" saved\n"
           "state b#adamw.m bf16[7] \"%s\" saved\n"
           "state step i64[] \"%s\" saved\n"
           "state cache f32[2] \"\"\n"
           "class 0 ranks 0-%d arena 512\n"
           "  buffer 0 state 0 \"w\" %s \"%s\" bytes 256 offset 0\n"
           "  buffer 1 state 1 \"b#adamw.m\" bf16[7] \"%s\" bytes 64 offset 256\n"
           "  buffer 2 state 2 \"step\" i64[] \"%s\" bytes 64 offset 320\n"
           "  buffer 3 state 3 \"cache\" f32[2] \"\" bytes 64 offset 384\n"
           "  segment 0 init.0\n"
           "    0 compute fill -> (0) value 9 \"w\"\n"
           "    1 compute fill -> (1) value 9 \"b#adamw.m\"\n"
           "    2 compute fill -> (2) value 9 \"step\"\n"
           "    3 compute fill -> (3) value 9 \"cache\"\n"
           "  order init 0\n",
           l->world, l->mesh, l->other_mesh, w_type, l->w, l->b, l->step, l->world - 1, w_type,
           l->w, l->b, l->step);
  return parse_program(text, registry);
}

typedef struct job {
  const shoal_program_t *program;
  const char *save, *load;
} job_t;

static void values(float w[30], uint16_t b[7], int64_t *step) {
  for (int i = 0; i < 30; ++i) w[i] = 1.5f * (float)i;
  for (int i = 0; i < 7; ++i) b[i] = shoal_f32_to_bf16((float)-i);
  *step = 1234567890123;
}

static shoal_status_t save(shoal_runner_t *runner, const char *path) {
  float w[30];
  uint16_t b[7];
  int64_t step;
  values(w, b, &step);
  SHOAL_RETURN_IF_ERROR(shoal_runner_set(runner, "w", w, sizeof w));
  SHOAL_RETURN_IF_ERROR(shoal_runner_set(runner, "b#adamw.m", b, sizeof b));
  SHOAL_RETURN_IF_ERROR(shoal_runner_set(runner, "step", &step, sizeof step));
  const shoal_safetensors_note_t note = {"seed", "42"};
  return shoal_checkpoint_save(runner, path, &(shoal_save_options_t){.training = true}, &note, 1);
}

static shoal_status_t load(shoal_runner_t *runner, const char *path) {
  float w[30], got_w[30], cache[2];
  uint16_t b[7], got_b[7];
  int64_t step, got_step;
  values(w, b, &step);
  SHOAL_RETURN_IF_ERROR(shoal_runner_run(runner, "init"));
  SHOAL_RETURN_IF_ERROR(
      shoal_checkpoint_load(runner, path, &(shoal_load_options_t){.training = true}));
  SHOAL_RETURN_IF_ERROR(shoal_runner_get(runner, "w", got_w, sizeof w));
  SHOAL_RETURN_IF_ERROR(shoal_runner_get(runner, "b#adamw.m", got_b, sizeof b));
  SHOAL_RETURN_IF_ERROR(shoal_runner_get(runner, "step", &got_step, sizeof step));
  SHOAL_RETURN_IF_ERROR(shoal_runner_get(runner, "cache", cache, sizeof cache));
  EXPECT(memcmp(w, got_w, sizeof w) == 0, "w differs");
  EXPECT(memcmp(b, got_b, sizeof b) == 0, "b differs");
  EXPECT(step == got_step, "step is %lld", (long long)got_step);
  EXPECT(cache[0] == 9, "what is not saved was set");
  return NULL;
}

static shoal_status_t rank_body(void *self, shoal_world_t *world) {
  const job_t *job = self;
  shoal_device_t *device = NULL;
  shoal_runner_t *runner = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_device_create(&(shoal_device_options_t){.opaque = true}, &device));
  shoal_status_t status = shoal_runner_create(job->program, world, device, NULL, &runner);
  if (!status && job->save) status = save(runner, job->save);
  if (!status && job->load) status = load(runner, job->load);
  shoal_runner_free(runner);
  shoal_device_free(device);
  return status;
}

static void run_job(const layouts_t *l, const char *w_type, const char *save_path,
                    const char *load_path, shoal_status_t *statuses) {
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = make_program(l, w_type, registry);
  job_t job = {.program = program, .save = save_path, .load = load_path};
  if (statuses)
    run_ranks(l->world, rank_body, &job, statuses);
  else
    run_ranks_ok(l->world, rank_body, &job);
  shoal_program_free(program);
  shoal_registry_release(registry);
}

#define W "f32[5, 6]"

static void test_any_mesh_to_any(void **state) {
  (void)state;
  for (int from = 0; from < MESH_COUNT; ++from) {
    run_job(&meshes[from], W, in_folder("any/deep"), NULL, NULL);
    for (int to = 0; to < MESH_COUNT; ++to)
      run_job(&meshes[to], W, NULL, in_folder("any/deep"), NULL);
  }
}

static void test_header(void **state) {
  (void)state;
  run_job(&meshes[1], W, in_folder("header"), in_folder("header/model.safetensors"), NULL);
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_safetensors_t file;
  assert_ok(shoal_safetensors_open(in_folder("header/model.safetensors"), &arena, &file));
  assert_int_equal(file.count, 3);
  assert_string_equal(file.tensors[0].name, "w");
  assert_int_equal(file.tensors[0].begin % 64, 0);
  assert_string_equal(shoal_safetensors_note(&file, "seed"), "42");
  assert_string_equal(shoal_safetensors_note(&file, "step"), "1234567890123");
  assert_null(shoal_safetensors_note(&file, "cache"));
  shoal_safetensors_close(&file);
  shoal_arena_deinit(&arena);
  assert_int_not_equal(access(in_folder("header/model.safetensors.tmp"), F_OK), 0);
}

// ---- files that do not fit ------------------------------------------------------------

static void expect_load_error(const layouts_t *l, const char *w_type, shoal_code_t code,
                              const char *path, const char *part) {
  shoal_status_t statuses[MOST_RANKS];
  run_job(l, w_type, NULL, path, statuses);
  for (int32_t r = 0; r < l->world; ++r) {
    assert_int_equal(shoal_status_code(statuses[r]), code);
    if (!strstr(shoal_status_message(statuses[r]), part))
      fail_msg("%s", shoal_status_message(statuses[r]));
    shoal_status_free(statuses[r]);
  }
}

static void replace(const char *data, int64_t size, const char *from, const char *to,
                    const char *path) {
  assert_int_equal(strlen(from), strlen(to));
  char *copy = malloc((size_t)size);
  memcpy(copy, data, (size_t)size);
  char *at = memmem(copy, (size_t)size, from, strlen(from));
  assert_non_null(at);
  memcpy(at, to, strlen(to));
  assert_ok(shoal_file_write(path, copy, size));
  free(copy);
}

static void test_misfits(void **state) {
  (void)state;
  const layouts_t *two = &meshes[1];
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *path = in_folder("misfits/model.safetensors"), *data;
  int64_t size;
  run_job(two, W, in_folder("misfits"), NULL, NULL);
  assert_ok(shoal_file_read(path, &arena, &data, &size));
  expect_load_error(two, "i32[5, 6]", SHOAL_INVALID_ARGUMENT, path,
                    "tensor 'w' is f32[5, 6], the model has i32[5, 6]");
  expect_load_error(two, "f32[6, 5]", SHOAL_INVALID_ARGUMENT, path, "the model has f32[6, 5]");
  expect_load_error(two, W, SHOAL_NOT_FOUND, in_folder("nowhere"), "nowhere/model.safetensors");
  replace(data, size, "\"w\"", "\"v\"", path);
  expect_load_error(two, W, SHOAL_INVALID_ARGUMENT, path, "tensor 'w' is missing");
  assert_ok(shoal_file_write(path, data, size - 1));
  expect_load_error(two, W, SHOAL_INVALID_ARGUMENT, path, "truncated");
  replace(data, size, "\"F32\"", "\"F33\"", path);
  expect_load_error(two, W, SHOAL_INVALID_ARGUMENT, path, "unknown dtype 'F33'");
  replace(data, size, "[5, 6]", "[5, 7]", path);
  expect_load_error(two, W, SHOAL_INVALID_ARGUMENT, path, "tensor 'w' needs 140 bytes and has 120");
  replace(data, size, "[0, 120]", "[4, 124]", path);
  expect_load_error(two, W, SHOAL_INVALID_ARGUMENT, path, "hole before it");
  shoal_arena_deinit(&arena);
}

static void test_unknown_tensor(void **state) {
  (void)state;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_safetensor_t tensors[] = {
      {.name = "w", .type = {SHOAL_F32, {2, {5, 6}}}},
      {.name = "b#adamw.m", .type = {SHOAL_BF16, {1, {7}}}},
      {.name = "extra", .type = {SHOAL_U8, {1, {3}}}},
      {.name = "step", .type = {SHOAL_I64, {0}}},
  };
  const char *header;
  int64_t size;
  assert_ok(shoal_safetensors_header(tensors, 4, NULL, 0, &arena, &header, &size));
  char *data = calloc(1, (size_t)tensors[3].end);
  memcpy(data, header, (size_t)size);
  assert_ok(shoal_file_write(in_folder("extra.safetensors"), data, tensors[3].end));
  free(data);
  shoal_arena_deinit(&arena);
  expect_load_error(&meshes[1], W, SHOAL_INVALID_ARGUMENT, in_folder("extra.safetensors"),
                    "the model has no state for tensor 'extra'");
}

// Every element type has a name in the file, and comes back as itself.
static void test_every_dtype(void **state) {
  (void)state;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_safetensor_t tensors[SHOAL_DTYPE_COUNT];
  for (int i = 0; i < SHOAL_DTYPE_COUNT; ++i) {
    tensors[i] = (shoal_safetensor_t){.name = shoal_dtype_name((shoal_dtype_t)i),
                                      .type = {(shoal_dtype_t)i, SHOAL_SHAPE(3, 2)}};
  }
  const char *header;
  int64_t size;
  assert_ok(shoal_safetensors_header(tensors, SHOAL_DTYPE_COUNT, NULL, 0, &arena, &header, &size));
  const int64_t end = tensors[SHOAL_DTYPE_COUNT - 1].end;
  char *data = calloc(1, (size_t)end);
  memcpy(data, header, (size_t)size);
  const char *path = in_folder("dtypes.safetensors");
  assert_ok(shoal_file_write(path, data, end));
  free(data);
  shoal_safetensors_t file;
  assert_ok(shoal_safetensors_open(path, &arena, &file));
  assert_int_equal(file.count, SHOAL_DTYPE_COUNT);
  for (int i = 0; i < SHOAL_DTYPE_COUNT; ++i) {
    const shoal_safetensor_t *found = shoal_safetensors_find(&file, tensors[i].name);
    assert_non_null(found);
    assert_int_equal(found->type.dtype, i);
    assert_int_equal(found->end - found->begin, 6 * shoal_dtype_size((shoal_dtype_t)i));
  }
  assert_non_null(strstr(header + 8, "\"F8_E4M3\""));
  assert_non_null(strstr(header + 8, "\"F8_E5M2\""));
  shoal_safetensors_close(&file);
  shoal_arena_deinit(&arena);
}

// Any damage ends in a status: nothing crashes, nothing reads outside the file (asan watches).
static void test_damaged(void **state) {
  (void)state;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  run_job(&meshes[0], W, in_folder("damaged"), NULL, NULL);
  const char *path = in_folder("damaged/model.safetensors"), *good;
  int64_t size;
  assert_ok(shoal_file_read(path, &arena, &good, &size));
  char *data = malloc((size_t)size);
  for (int64_t length = 0; length < size; length += 3) {
    shoal_safetensors_t file;
    assert_ok(shoal_file_write(path, good, length));
    shoal_status_t status = shoal_safetensors_open(path, &arena, &file);
    assert_non_null(status);
    shoal_status_free(status);
  }
  static const unsigned char flips[] = {0x01, 0x10, 0x80, 0xff};
  int refused = 0;
  for (int64_t at = 0; at < 400 && at < size; ++at) {
    for (size_t i = 0; i < sizeof flips; ++i) {
      shoal_safetensors_t file;
      memcpy(data, good, (size_t)size);
      data[at] ^= (char)flips[i];
      // No sync: the file only has to be readable here.
      FILE *out = fopen(path, "wb");
      assert_int_equal(fwrite(data, 1, (size_t)size, out), size);
      fclose(out);
      shoal_status_t status = shoal_safetensors_open(path, &arena, &file);
      refused += status != NULL;
      if (!status) shoal_safetensors_close(&file);
      shoal_status_free(status);
    }
  }
  assert_true(refused > 800);
  free(data);
  shoal_arena_deinit(&arena);
}

// ---- failing saves --------------------------------------------------------------------

static void test_failed_save_keeps_the_old(void **state) {
  (void)state;
  run_job(&meshes[1], W, in_folder("kept"), NULL, NULL);
  struct rlimit before, small;
  getrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_IGN);
  for (rlim_t bytes = 0; bytes <= 400; bytes += 200) {
    small = before;
    small.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &small);
    shoal_status_t statuses[MOST_RANKS];
    run_job(&meshes[1], W, in_folder("kept"), NULL, statuses);
    setrlimit(RLIMIT_FSIZE, &before);
    for (int r = 0; r < 2; ++r) assert_error(IO, "while saving", statuses[r]);
    assert_int_not_equal(access(in_folder("kept/model.safetensors.tmp"), F_OK), 0);
    run_job(&meshes[2], W, NULL, in_folder("kept"), NULL);
  }
  signal(SIGXFSZ, SIG_DFL);
}

static void test_save_nowhere(void **state) {
  (void)state;
  assert_ok(shoal_file_write(in_folder("a_file"), "x", 1));
  shoal_status_t statuses[MOST_RANKS];
  run_job(&meshes[1], W, in_folder("a_file/below"), NULL, statuses);
  for (int r = 0; r < 2; ++r) assert_error(IO, "a_file", statuses[r]);
}

// ---- steps ----------------------------------------------------------------------------

static void make_step(const char *name, bool complete) {
  char path[300];
  snprintf(path, sizeof path, "%s/steps/%s", folder, name);
  assert_ok(shoal_file_make_folder(path));
  snprintf(path, sizeof path, "%s/steps/%s/model.safetensors%s", folder, name,
           complete ? "" : ".tmp");
  assert_ok(shoal_file_write(path, "x", 1));
}

static bool has_step(const char *name) {
  char path[300];
  snprintf(path, sizeof path, "%s/steps/%s", folder, name);
  return access(path, F_OK) == 0;
}

static void test_steps(void **state) {
  (void)state;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *latest;
  int64_t step;
  assert_ok(shoal_checkpoint_latest(in_folder("steps"), &arena, &latest, &step));
  assert_null(latest);
  assert_ok(shoal_checkpoint_prune(in_folder("steps"), 2, (shoal_allocator_t){0}));
  make_step("step-2", true);
  make_step("step-9", true);
  make_step("step-10", true);
  make_step("step-30", true);
  make_step("step-8", false);   // a save that failed
  make_step("step-40", false);  // being written
  make_step("step-07", true);   // not ours
  make_step("best", true);
  assert_ok(shoal_checkpoint_latest(in_folder("steps"), &arena, &latest, &step));
  assert_int_equal(step, 30);
  assert_non_null(strstr(latest, "steps/step-30"));
  assert_ok(shoal_checkpoint_prune(in_folder("steps"), 0, (shoal_allocator_t){0}));
  assert_true(has_step("step-2"));
  assert_ok(shoal_checkpoint_prune(in_folder("steps"), 2, (shoal_allocator_t){0}));
  assert_true(has_step("step-10") && has_step("step-30") && has_step("step-40"));
  assert_true(has_step("step-07") && has_step("best"));
  assert_false(has_step("step-2") || has_step("step-9") || has_step("step-8"));
  // A file of the user's stays, in its folder; the rest of that checkpoint goes.
  char path[300];
  make_step("step-50", true);
  snprintf(path, sizeof path, "%s/steps/step-10/notes", folder);
  assert_ok(shoal_file_write(path, "mine", 4));
  for (int i = 0; i < 2; ++i) {
    assert_ok(shoal_checkpoint_prune(in_folder("steps"), 2, (shoal_allocator_t){0}));
    assert_int_equal(access(path, F_OK), 0);
    assert_false(has_step("step-10/model.safetensors"));
    assert_true(has_step("step-30") && has_step("step-50"));
  }
  assert_ok(shoal_checkpoint_clear(in_folder("steps"), (shoal_allocator_t){0}));
  assert_false(has_step("step-30") || has_step("step-50") || has_step("step-40"));
  assert_true(has_step("step-07") && !has_step("best") && access(path, F_OK) == 0);
  shoal_arena_deinit(&arena);
}

// A link to another run's checkpoint is read; that run's files are neither written nor removed.
static void test_linked_steps(void **state) {
  (void)state;
  const shoal_allocator_t none = {0};
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  char target[300], link[300], run[300];
  struct stat before, after, made;
  const char *latest;
  int64_t step;
  snprintf(run, sizeof run, "%s/linked", folder);
  snprintf(target, sizeof target, "%s/other/step-4", folder);
  snprintf(link, sizeof link, "%s/linked/step-4", folder);
  assert_ok(shoal_file_make_folder(run));
  run_job(&meshes[1], W, target, NULL, NULL);
  assert_int_equal(symlink(target, link), 0);
  assert_ok(shoal_checkpoint_latest(run, &arena, &latest, &step));
  assert_int_equal(step, 4);
  assert_error(INVALID_ARGUMENT, "another run", shoal_checkpoint_prepare(run, false, none));
  assert_ok(shoal_checkpoint_clear(run, none));
  assert_int_not_equal(lstat(link, &made), 0);
  assert_int_equal(symlink(target, link), 0);
  strcat(target, "/model.safetensors");
  assert_int_equal(stat(target, &before), 0);
  run_job(&meshes[1], W, link, NULL, NULL);
  assert_int_equal(stat(target, &after), 0);
  assert_true(before.st_ino == after.st_ino);
  assert_true(lstat(link, &made) == 0 && S_ISDIR(made.st_mode));
  shoal_arena_deinit(&arena);
}

static void test_prepare(void **state) {
  (void)state;
  const shoal_allocator_t none = {0};
  char path[300];
  snprintf(path, sizeof path, "%s/prepared/deep", folder);
  assert_ok(shoal_checkpoint_prepare(path, false, none));
  assert_int_equal(rmdir(path), 0);  // made, and nothing is left in it
  snprintf(path, sizeof path, "%s/prepared/step-3", folder);
  assert_ok(shoal_file_make_folder(path));  // a failed save is no checkpoint
  snprintf(path, sizeof path, "%s/prepared", folder);
  assert_ok(shoal_checkpoint_prepare(path, false, none));
  snprintf(path, sizeof path, "%s/prepared/step-3/model.safetensors", folder);
  assert_ok(shoal_file_write(path, "x", 1));
  assert_error(IO, path, shoal_checkpoint_prepare(path, false, none));  // a file
  snprintf(path, sizeof path, "%s/prepared", folder);
  assert_error(INVALID_ARGUMENT, "up to step 3", shoal_checkpoint_prepare(path, false, none));
  assert_ok(shoal_checkpoint_prepare(path, true, none));
  const char *latest;
  int64_t step;
  assert_error(INVALID_ARGUMENT, "NULL", shoal_checkpoint_prepare(NULL, true, none));
  assert_error(INVALID_ARGUMENT, "empty", shoal_checkpoint_clear("", none));
  assert_error(INVALID_ARGUMENT, "NULL", shoal_checkpoint_prune(NULL, 1, none));
  assert_error(INVALID_ARGUMENT, "NULL", shoal_checkpoint_latest(NULL, NULL, &latest, &step));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_any_mesh_to_any), cmocka_unit_test(test_header),
      cmocka_unit_test(test_misfits),         cmocka_unit_test(test_unknown_tensor),
      cmocka_unit_test(test_damaged),         cmocka_unit_test(test_failed_save_keeps_the_old),
      cmocka_unit_test(test_save_nowhere),    cmocka_unit_test(test_steps),
      cmocka_unit_test(test_linked_steps),    cmocka_unit_test(test_prepare),
      cmocka_unit_test(test_every_dtype),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

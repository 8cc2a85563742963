// Memory beside the device's, on hand-written programs: copies between device, host and file
// memory on every kind of device, states that rest there, and disks that have no room.
// links: run launch
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/scratch.h"
#include "device_modes.h"
#include "failing.h"
#include "run/checkpoint.h"
#include "run/run.h"
#include "run_support.h"

// w rests in memory `home`; y = x * w is put away in memory `aside` while z = -x takes its place,
// passes memory `further` too, and comes back: w' = y + w. Parts are n doubles.
static char *make_text(int64_t n, const char *home, const char *aside, const char *further) {
  const int64_t b = (n * 8 + 63) / 64 * 64;
  int64_t host = 0, file = 0;
  const char *const kinds[] = {home, aside, further};
  int64_t offsets[3];
  for (int i = 0; i < 3; ++i) {
    int64_t *end = strcmp(kinds[i], "host") == 0 ? &host : &file;
    offsets[i] = *end;
    *end += b;
  }
  char *text = test_malloc(8192), *to = text;
  to += sprintf(to,
                "shoal_program 1\nworld 2\nmicro 1\nmesh d=2\n"
                "state w f64[%lld] \"d:0\" saved\n"
                "input train x f64[%lld]\noutput train z f64[%lld]\n"
                "channel 0 f64[%lld] \"d:0\" -> \"\"\n"
                "class 0 ranks 0-1 arena %lld",
                (long long)(2 * n), (long long)(2 * n), (long long)(2 * n), (long long)(2 * n),
                (long long)(8 * b));
  if (host > 0) to += sprintf(to, " host %lld", (long long)host);
  if (file > 0) to += sprintf(to, " file %lld", (long long)file);
  *to++ = '\n';
  const struct {
    const char *kind, *name, *layout, *memory;
    int64_t bytes, offset;
  } buffers[] = {{"state 0", "w", "d:0", home, b, offsets[0]},
                 {"temp", "w", "d:0", NULL, b, 0},
                 {"input", "x", "d:0", NULL, b, b},
                 {"temp", "y", "d:0", NULL, b, 2 * b},
                 {"temp", "y", "d:0", aside, b, offsets[1]},
                 {"temp", "y", "d:0", further, b, offsets[2]},
                 {"temp", "z", "d:0", NULL, b, 2 * b},
                 {"temp", "y", "d:0", NULL, b, 3 * b},
                 {"temp", "w/add", "d:0", NULL, b, 4 * b},
                 {"temp", "z", "", NULL, 2 * b, 5 * b}};
  for (int i = 0; i < 10; ++i) {
    to += sprintf(to, "  buffer %d %s \"%s\" f64[%lld] \"%s\"", i, buffers[i].kind, buffers[i].name,
                  (long long)(2 * n), buffers[i].layout);
    if (buffers[i].memory) to += sprintf(to, " memory %s", buffers[i].memory);
    to += sprintf(to, " bytes %lld offset %lld\n", (long long)buffers[i].bytes,
                  (long long)buffers[i].offset);
  }
  to += sprintf(to,
                "  segment 0 init\n"
                "    0 copy fill -> (1) value 1.5 \"w\"\n"
                "    1 copy copy (1) -> (0) \"w\"\n"
                "  segment 1 train\n"
                "    0 copy copy (0) -> (1) \"w\"\n"
                "    1 copy feed -> (2) \"x\"\n"
                "    2 compute compute shoal.mul (2, 1) -> (3) \"y\" wait 1\n"
                "    3 copy copy (3) -> (4) \"y\" wait 2\n"
                "    4 copy copy (4) -> (5) \"y\"\n"
                "    5 compute compute shoal.neg (2) -> (6) \"z\" wait 3\n"
                "    6 copy copy (5) -> (7) \"y\"\n"
                "    7 compute compute shoal.add (7, 1) -> (8) \"w/add\" wait 6\n"
                "    8 copy copy (8) -> (0) \"w\" wait 7\n"
                "    9 comm reshard (6) -> (9) channel 0 \"z\" workspace %lld@%lld wait 5\n"
                "    10 copy fetch (9) \"z\" wait 9\n"
                "  order init 0\n"
                "  order train 1[2<1.9]\n",
                (long long)b, (long long)(7 * b));
  return text;
}

typedef struct context {
  const shoal_program_t *program;
  int mode;
  int64_t n;
  const char *folder, *checkpoint;
  char text[2][64 * 8];  // by rank: y as the tap saw it first in a step
  int32_t seen[2], wrong;
  bool direct[2];
  int64_t bounced[2], copies[2], direct_copies[2];
} context_t;

// ---- values -----------------------------------------------------------------------------

// y is shown four times in a step, from three memories: each time the same.
static void tap(void *self, int32_t rank, const char *graph, const char *value,
                const shoal_layout_t *layout, const shoal_type_t *whole, int64_t micro,
                const void *data, int64_t bytes) {
  (void)graph, (void)layout, (void)whole, (void)micro;
  context_t *context = self;
  if (strcmp(value, "y") != 0 || bytes > (int64_t)sizeof context->text[0]) return;
  if (context->seen[rank]++ % 4 == 0)
    memcpy(context->text[rank], data, (size_t)bytes);
  else if (memcmp(context->text[rank], data, (size_t)bytes) != 0)
    ++context->wrong;
}

static shoal_status_t train(const context_t *context, shoal_runner_t *runner,
                            shoal_arena_t *arena) {
  const int64_t n = 2 * context->n;
  const size_t size = (size_t)n * sizeof(double);
  double *x = SHOAL_NEW(arena, double, n), *w = SHOAL_NEW(arena, double, n);
  for (int64_t i = 0; i < n; ++i) x[i] = (double)(i + 1);
  SHOAL_RETURN_IF_ERROR(shoal_runner_run(runner, "init"));
  for (int step = 0; step < 3; ++step) {
    SHOAL_RETURN_IF_ERROR(shoal_runner_feed(runner, "x", x, size));
    SHOAL_RETURN_IF_ERROR(shoal_runner_run(runner, "train"));
  }
  SHOAL_RETURN_IF_ERROR(shoal_runner_get(runner, "w", w, size));
  for (int64_t i = 0; i < n; ++i) {
    double expected = 1.5;
    for (int step = 0; step < 3; ++step) expected += expected * x[i];
    EXPECT(w[i] == expected, "w[%lld] is %g, not %g", (long long)i, w[i], expected);
  }
  // What rests elsewhere is a state as any other.
  for (int64_t i = 0; i < n; ++i) w[i] = 0.25 * (double)i;
  SHOAL_RETURN_IF_ERROR(shoal_runner_set(runner, "w", w, size));
  SHOAL_RETURN_IF_ERROR(shoal_checkpoint_save(runner, context->checkpoint,
                                              &(shoal_save_options_t){.training = true}, NULL, 0));
  memset(w, 0, size);
  SHOAL_RETURN_IF_ERROR(shoal_runner_set(runner, "w", w, size));
  SHOAL_RETURN_IF_ERROR(shoal_checkpoint_load(runner, context->checkpoint,
                                              &(shoal_load_options_t){.training = true}));
  SHOAL_RETURN_IF_ERROR(shoal_runner_get(runner, "w", w, size));
  for (int64_t i = 0; i < n; ++i)
    EXPECT(w[i] == 0.25 * (double)i, "loaded w[%lld] is %g", (long long)i, w[i]);
  int64_t planned[SHOAL_MEMORY_COUNT], touched[SHOAL_MEMORY_COUNT];
  shoal_runner_memory(runner, planned, touched);
  for (int kind = SHOAL_MEMORY_HOST; kind < SHOAL_MEMORY_COUNT; ++kind)
    EXPECT(planned[kind] == touched[kind], "planned %lld, touched %lld", (long long)planned[kind],
           (long long)touched[kind]);
  return NULL;
}

static shoal_status_t rank_body(void *self, shoal_world_t *world) {
  context_t *context = self;
  shoal_device_t *device = NULL;
  shoal_runner_t *runner = NULL;
  shoal_arena_t arena;
  SHOAL_RETURN_IF_ERROR(shoal_device_create(&modes[context->mode], &device));
  shoal_arena_init(shoal_allocator_system(), &arena);
  const shoal_runner_options_t options = {
      .offload_dir = context->folder, .tap = context->n <= 64 ? tap : NULL, .tap_self = context};
  shoal_status_t status = shoal_runner_create(context->program, world, device, &options, &runner);
  if (!status) status = train(context, runner, &arena);
  if (!status) {
    const int32_t rank = shoal_world_rank(world);
    context->direct[rank] = shoal_runner_is_direct(runner);
    context->bounced[rank] = shoal_runner_bounced(runner);
    shoal_runner_file_copies(runner, &context->copies[rank], &context->direct_copies[rank]);
  }
  shoal_runner_free(runner);
  shoal_device_free(device);
  shoal_arena_deinit(&arena);
  return status;
}

static int64_t files_in(const char *folder) {
  DIR *list = opendir(folder);
  int64_t count = -2;  // itself and its parent
  assert_non_null(list);
  while (readdir(list)) ++count;
  closedir(list);
  return count;
}

static char folder[64], checkpoint[96];

static int make_folders(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/shoal_offload_XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(checkpoint, sizeof checkpoint, "%s-checkpoint", folder);
  return 0;
}

static int remove_folders(void **state) {
  (void)state;
  char file[128];
  snprintf(file, sizeof file, "%s/model.safetensors", checkpoint);
  unlink(file);
  rmdir(checkpoint);
  return rmdir(folder);
}

static context_t run_text(const char *text, context_t context) {
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse_program(text, registry);
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  context.program = program;
  context.folder = folder;
  context.checkpoint = checkpoint;
  run_ranks_ok(2, rank_body, &context);
  assert_int_equal(context.wrong, 0);
  if (context.n <= 64) assert_int_equal(context.seen[0] + context.seen[1], 2 * 3 * 4);
  shoal_program_free(program);
  shoal_registry_release(registry);
  return context;
}

// Every pair of memories, on every device of this machine's.
static void every_way(void **state) {
  (void)state;
  static const char *const kinds[] = {"host", "file"};
  for (int ways = 0; ways < 8; ++ways) {
    char *text = make_text(24, kinds[ways & 1], kinds[ways >> 1 & 1], kinds[ways >> 2 & 1]);
    for (int mode = 0; mode < CPU_MODES; ++mode) run_text(text, (context_t){.mode = mode, .n = 24});
    test_free(text);
  }
  assert_int_equal(files_in(folder), 0);
}

// Parts that pass the bounce buffer in several pieces, the last one short.
static void in_pieces(void **state) {
  (void)state;
  char *text = make_text(1500000, "file", "file", "host");
  run_text(text, (context_t){.mode = 1, .n = 1500000});
  run_text(text, (context_t){.mode = 3, .n = 1500000});
  test_free(text);
}

// Where the data lies in memory as in the file, or would not go past the page cache anyhow, no
// bounce buffer is used; a device whose memory the host does not reach always needs it.
static void straight(void **state) {
  (void)state;
  char *aligned = make_text(655360, "file", "host", "host");
  char *apart = make_text(20001, "file", "host", "host");
  for (int mode = 0; mode < CPU_MODES; ++mode) {
    const bool blind = modes[mode].blind;
    context_t done = run_text(aligned, (context_t){.mode = mode, .n = 655360});
    for (int r = 0; r < 2; ++r) {
      assert_int_equal(done.bounced[r] > 0, blind);
      assert_int_equal(done.direct_copies[r], done.direct[r] ? 3 : 0);
    }
    done = run_text(apart, (context_t){.mode = mode, .n = 20001});
    for (int r = 0; r < 2; ++r) assert_int_equal(done.bounced[r] > 0, blind || done.direct[r]);
  }
  test_free(aligned);
  test_free(apart);
}

// Copies of 64 KiB go past the page cache, shorter ones do not.
static void counted(void **state) {
  (void)state;
  static const struct {
    int64_t n;
    bool suits;
  } sizes[] = {{24, false}, {8191, false}, {8192, true}, {20480, true}};
  for (int i = 0; i < 4; ++i) {
    const int64_t n = sizes[i].n;
    char *text = make_text(n, "file", "host", "host");
    const context_t done = run_text(text, (context_t){.mode = 1, .n = n});
    for (int r = 0; r < 2; ++r) {
      assert_int_equal(done.copies[r], 3);  // of w: to it, from it, to it
      assert_int_equal(done.direct_copies[r], sizes[i].suits && done.direct[r] ? 3 : 0);
    }
    test_free(text);
  }
  char *text = make_text(24, "host", "host", "host");
  assert_int_equal(run_text(text, (context_t){.mode = 1, .n = 24}).copies[0], 0);
  test_free(text);
}

// ---- errors -----------------------------------------------------------------------------

static void expect_no_room(const char *where, const char *first, const char *second) {
  char *text = make_text(24, "file", "host", "host");
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse_program(text, registry);
  context_t context = {
      .program = program, .mode = 1, .n = 24, .folder = where, .checkpoint = checkpoint};
  shoal_status_t statuses[MOST_RANKS];
  run_ranks(2, rank_body, &context, statuses);
  for (int r = 0; r < 2; ++r) {
    assert_int_equal(shoal_status_code(statuses[r]), SHOAL_IO);
    assert_non_null(strstr(shoal_status_message(statuses[r]), first));
    assert_non_null(strstr(shoal_status_message(statuses[r]), second));
    assert_non_null(strstr(shoal_status_hint(statuses[r]), "offload_dir"));
    shoal_status_free(statuses[r]);
  }
  shoal_program_free(program);
  shoal_registry_release(registry);
  test_free(text);
}

static void no_folder(void **state) {
  (void)state;
  expect_no_room("/nowhere/at/all", "192 bytes in folder '/nowhere/at/all'", "No such file");
}

// Root may write anywhere, but not into a file.
static void unwritable_folder(void **state) {
  (void)state;
  char path[128];
  snprintf(path, sizeof path, "%s-file", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fclose(file);
  expect_no_room(path, "192 bytes in folder", "Not a directory");
  unlink(path);
}

// A limit on the size of files stands for a full disk: both refuse the space when it is reserved,
// before anything runs.
static void full_disk(void **state) {
  (void)state;
  struct rlimit before, less;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  less = before;
  less.rlim_cur = 128;
  void (*former)(int) = signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
  expect_no_room(folder, "cannot reserve 192 bytes in folder", "free: File too large");
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, former);
  assert_int_equal(files_in(folder), 0);
}

// What breaks later is said by the run that meets it.
static void scratch_too_short(void **state) {
  (void)state;
  shoal_scratch_t scratch;
  char data[64] = "abc", back[64];
  assert_ok(shoal_scratch_init(folder, 128, &scratch));
  assert_ok(shoal_scratch_write(&scratch, 64, sizeof data, data));
  assert_ok(shoal_scratch_read(&scratch, 64, sizeof back, back));
  assert_memory_equal(data, back, sizeof data);
  assert_error(IO, "it is too short", shoal_scratch_read(&scratch, 100, sizeof back, back));
  struct stat info;
  assert_int_equal(fstat(scratch.file, &info), 0);
  assert_int_equal(info.st_nlink, 0);                 // nothing stays, however the process ends
  assert_true((int64_t)info.st_blocks * 512 >= 128);  // and the space is there
  shoal_scratch_deinit(&scratch);
  shoal_scratch_deinit(&scratch);
}

// A process that is killed with its file in use leaves nothing behind.
static void killed(void **state) {
  (void)state;
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    shoal_scratch_t scratch;
    char data[64] = "abc";
    shoal_status_t status = shoal_scratch_init(folder, 4096, &scratch);
    if (!status) status = shoal_scratch_write(&scratch, 0, sizeof data, data);
    if (status) _exit(1);
    raise(SIGKILL);
  }
  int how = 0;
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
  assert_int_equal(files_in(folder), 0);
}

static shoal_status_t load_only(shoal_allocator_t allocator, void *self) {
  const context_t *context = self;
  shoal_world_t *world = NULL;
  shoal_device_t *device = NULL;
  shoal_runner_t *runner = NULL;
  const shoal_runner_options_t options = {.allocator = allocator, .offload_dir = folder};
  shoal_status_t status =
      shoal_world_join(&(shoal_world_options_t){.allocator = allocator}, &world);
  if (!status)
    status = shoal_device_create(&(shoal_device_options_t){.allocator = allocator}, &device);
  if (!status) status = shoal_runner_create(context->program, world, device, &options, &runner);
  shoal_runner_free(runner);
  shoal_device_free(device);
  shoal_world_release(world);
  return status;
}

static void allocations_fail(void **state) {
  (void)state;
  shoal_registry_t *registry = test_registry();
  static const char alone[] =
      "shoal_program 1\nworld 1\nmicro 1\nmesh d=1\nstate w f64[8] \"\" saved\n"
      "class 0 ranks 0 arena 64 host 64 file 64\n"
      "  buffer 0 state 0 \"w\" f64[8] \"\" memory file bytes 64 offset 0\n"
      "  buffer 1 temp \"w\" f64[8] \"\" bytes 64 offset 0\n"
      "  buffer 2 temp \"w\" f64[8] \"\" memory host bytes 64 offset 0\n"
      "  segment 0 init\n"
      "    0 copy fill -> (1) value 1.5 \"w\"\n"
      "    1 copy copy (1) -> (2) \"w\"\n"
      "    2 copy copy (2) -> (0) \"w\"\n"
      "  order init 0\n";
  context_t context = {.program = parse_program(alone, registry)};
  check_failing_allocations(load_only, &context, 0);
  shoal_program_free((shoal_program_t *)context.program);
  shoal_registry_release(registry);
  assert_int_equal(files_in(folder), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_way), cmocka_unit_test(in_pieces),
      cmocka_unit_test(straight),  cmocka_unit_test(counted),
      cmocka_unit_test(no_folder), cmocka_unit_test(unwritable_folder),
      cmocka_unit_test(full_disk), cmocka_unit_test(scratch_too_short),
      cmocka_unit_test(killed),    cmocka_unit_test(allocations_fail),
  };
  return cmocka_run_group_tests(tests, make_folders, remove_folders);
}

// Threads, futexes between processes, time, files.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/thread.h"
#include "base/time.h"
#include "unit/unit.h"

typedef struct shared {
  shoal_mutex_t mutex;
  shoal_cond_t cond;
  int64_t counter;  // guarded by mutex
  int waiting;
} shared_t;

static void count_up(void *self) {
  shared_t *shared = self;
  for (int i = 0; i < 10000; ++i) {
    shoal_mutex_lock(&shared->mutex);
    ++shared->counter;
    shoal_mutex_unlock(&shared->mutex);
  }
  shoal_mutex_lock(&shared->mutex);
  ++shared->waiting;
  shoal_cond_broadcast(&shared->cond);
  while (shared->waiting < 4) shoal_cond_wait(&shared->cond, &shared->mutex);
  shoal_mutex_unlock(&shared->mutex);
}

static void threads_and_locks(void **state) {
  (void)state;
  shared_t shared = {0};
  assert_ok(shoal_mutex_init(&shared.mutex));
  assert_ok(shoal_cond_init(&shared.cond));
  shoal_thread_t threads[4];
  for (int i = 0; i < 4; ++i) assert_ok(shoal_thread_start(count_up, &shared, &threads[i]));
  for (int i = 0; i < 4; ++i) shoal_thread_join(&threads[i]);
  assert_int_equal(shared.counter, 40000);
  shoal_mutex_lock(&shared.mutex);
  int64_t start = shoal_time_ns();
  assert_false(shoal_cond_wait_until(&shared.cond, &shared.mutex, start + 20000000));
  assert_true(shoal_time_ns() - start >= 20000000);
  shoal_mutex_unlock(&shared.mutex);
  shoal_cond_deinit(&shared.cond);
  shoal_mutex_deinit(&shared.mutex);
  shoal_thread_join(&(shoal_thread_t){0});
}

// Two processes hand a turn to and fro.
static void futex_between_processes(void **state) {
  (void)state;
  _Atomic uint32_t *turn =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(turn != MAP_FAILED);
  pid_t child = fork();
  assert_true(child >= 0);
  uint32_t parity = child == 0;
  for (uint32_t i = 0; i < 1000; ++i) {
    uint32_t wanted = 2 * i + parity, seen;
    while ((seen = atomic_load(turn)) != wanted) {
      if (!shoal_futex_wait(turn, seen, shoal_time_ns() + INT64_C(20000000000))) _exit(1);
    }
    atomic_store(turn, wanted + 1);
    shoal_futex_wake(turn, 1);
  }
  if (child == 0) _exit(0);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  assert_int_equal(atomic_load(turn), 2000);
  int64_t start = shoal_time_ns();
  assert_false(shoal_futex_wait(turn, 2000, start + 10000000));
  assert_true(shoal_time_ns() - start >= 10000000);
  assert_true(shoal_futex_wait(turn, 1, 0));  // not equal: returns at once
  munmap((void *)turn, 4096);
}

static void files(void **state) {
  (void)state;
  char folder[] = "/tmp/shoal_test_XXXXXX", path[200], deep[200];
  assert_non_null(mkdtemp(folder));
  snprintf(deep, sizeof deep, "%s/a/b//c", folder);
  assert_ok(shoal_file_make_folder(deep));
  assert_ok(shoal_file_make_folder(deep));
  snprintf(path, sizeof path, "%s/a/b/c/file", folder);
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *data;
  int64_t size;
  assert_error(NOT_FOUND, path, shoal_file_read(path, &arena, &data, &size));
  assert_ok(shoal_file_write(path, "a\0b", 3));
  assert_ok(shoal_file_read(path, &arena, &data, &size));
  assert_int_equal(size, 3);
  assert_memory_equal(data, "a\0b", 4);
  assert_ok(shoal_file_write(path, "", 0));
  assert_ok(shoal_file_read(path, &arena, &data, &size));
  assert_int_equal(size, 0);
  assert_ok(shoal_file_read("/proc/self/maps", &arena, &data, &size));  // says size 0
  assert_true(size > 100 && strlen(data) == (size_t)size);
  assert_error(IO, "directory", shoal_file_read(deep, &arena, &data, &size));
  assert_error(IO, deep, shoal_file_write(deep, "x", 1));  // a folder is in the way
  assert_error(IO, "cannot make folder", shoal_file_make_folder(path));
  char missing[220];
  snprintf(missing, sizeof missing, "%s/none/file", folder);
  assert_error(NOT_FOUND, "cannot write", shoal_file_write(missing, "x", 1));
  // What is no plain file is written into, and stays what it is. Devices are not tried: a fault
  // would replace one of the machine's.
  char fifo[200], link[200], target[200], text[8] = {0};
  struct stat info;
  snprintf(fifo, sizeof fifo, "%s/fifo", folder);
  assert_int_equal(mkfifo(fifo, 0600), 0);
  int reader = open(fifo, O_RDONLY | O_NONBLOCK);
  assert_true(reader >= 0);
  assert_ok(shoal_file_write(fifo, "plan", 4));
  assert_int_equal(read(reader, text, sizeof text), 4);
  assert_string_equal(text, "plan");
  close(reader);
  assert_true(lstat(fifo, &info) == 0 && S_ISFIFO(info.st_mode));
  snprintf(link, sizeof link, "%s/link", folder);
  snprintf(target, sizeof target, "%s/target", folder);
  assert_int_equal(symlink("target", link), 0);  // to a file that is not there yet
  assert_ok(shoal_file_write(link, "1234", 4));
  assert_ok(shoal_file_write(link, "56", 2));
  assert_true(lstat(link, &info) == 0 && S_ISLNK(info.st_mode));
  assert_ok(shoal_file_read(target, &arena, &data, &size));
  assert_string_equal(data, "56");
  assert_true(unlink(fifo) == 0 && unlink(link) == 0 && unlink(target) == 0);
  // nothing temporary stays behind
  char command[300];
  snprintf(command, sizeof command, "test \"$(find %s -type f | wc -l)\" = 1 && rm -r %s", folder,
           folder);
  assert_int_equal(system(command), 0);
  shoal_arena_deinit(&arena);
}

// ---- counters -------------------------------------------------------------------------

typedef struct rally {
  shoal_counter_t there, back;
  int64_t spin_ns, plain;  // plain: whose turn it is writes it
} rally_t;

enum { RALLIES = 3000 };

static void return_them(void *self) {
  rally_t *rally = self;
  for (uint64_t i = 1; i <= RALLIES; ++i) {
    shoal_counter_wait(&rally->there, i, rally->spin_ns);
    ++rally->plain;
    shoal_counter_raise(&rally->back, i);
  }
}

static void wait_once(void *self) {
  rally_t *rally = self;
  shoal_counter_wait(&rally->there, 1, rally->spin_ns);
}

static void counters(void **state) {
  (void)state;
  assert_true(shoal_counter_spin() >= 0);
  for (int sleeps = 0; sleeps < 2; ++sleeps) {
    rally_t rally = {.spin_ns = sleeps ? 0 : 5000};
    shoal_thread_t threads[2];
    // Two threads sleep on one number: both are woken.
    for (int t = 0; t < 2; ++t) assert_ok(shoal_thread_start(wait_once, &rally, &threads[t]));
    shoal_counter_raise(&rally.there, 1);
    for (int t = 0; t < 2; ++t) shoal_thread_join(&threads[t]);

    rally = (rally_t){.spin_ns = rally.spin_ns};
    assert_ok(shoal_thread_start(return_them, &rally, &threads[0]));
    for (uint64_t i = 1; i <= RALLIES; ++i) {
      assert_int_equal(rally.plain, (int64_t)i - 1);
      shoal_counter_raise(&rally.there, i);
      shoal_counter_raise(&rally.there, i - 1);  // has been reached
      shoal_counter_wait(&rally.back, i, rally.spin_ns);
    }
    shoal_thread_join(&threads[0]);
    assert_int_equal(shoal_counter_get(&rally.back), RALLIES);
    shoal_counter_wait(&rally.back, 0, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(threads_and_locks),
      cmocka_unit_test(futex_between_processes),
      cmocka_unit_test(counters),
      cmocka_unit_test(files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

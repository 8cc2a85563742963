// pthread and futex behind statuses. Conditions and futexes use the monotonic clock. Futexes are
// the shared kind: the same word may be slept on from several processes; counters use the private
// kind, which the kernel finds faster.
#include "base/thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "base/time.h"

typedef struct start {
  shoal_thread_fn_t fn;
  void *self;
} start_t;

static void *run_thread(void *argument) {
  start_t start = *(start_t *)argument;
  free(argument);
  start.fn(start.self);
  return NULL;
}

shoal_status_t shoal_thread_start(shoal_thread_fn_t fn, void *self, shoal_thread_t *out_thread) {
  *out_thread = (shoal_thread_t){0};
  start_t *start = malloc(sizeof *start);
  if (!start) return SHOAL_OOM();
  *start = (start_t){fn, self};
  int error = pthread_create(&out_thread->handle, NULL, run_thread, start);
  if (error) {
    free(start);
    return SHOAL_ERROR(UNAVAILABLE, "a thread could not be started: %s", strerror(error));
  }
  out_thread->started = true;
  return NULL;
}

void shoal_thread_join(shoal_thread_t *thread) {
  if (!thread->started) return;
  pthread_join(thread->handle, NULL);
  thread->started = false;
}

shoal_status_t shoal_mutex_init(shoal_mutex_t *out_mutex) {
  int error = pthread_mutex_init(&out_mutex->handle, NULL);
  return error ? SHOAL_ERROR(UNAVAILABLE, "no mutex: %s", strerror(error)) : NULL;
}

void shoal_mutex_deinit(shoal_mutex_t *mutex) {
  pthread_mutex_destroy(&mutex->handle);
}

void shoal_mutex_lock(shoal_mutex_t *mutex) {
  pthread_mutex_lock(&mutex->handle);
}

void shoal_mutex_unlock(shoal_mutex_t *mutex) {
  pthread_mutex_unlock(&mutex->handle);
}

shoal_status_t shoal_cond_init(shoal_cond_t *out_cond) {
  pthread_condattr_t attributes;
  int error = pthread_condattr_init(&attributes);
  if (!error) {
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    error = pthread_cond_init(&out_cond->handle, &attributes);
    pthread_condattr_destroy(&attributes);
  }
  return error ? SHOAL_ERROR(UNAVAILABLE, "no condition: %s", strerror(error)) : NULL;
}

void shoal_cond_deinit(shoal_cond_t *cond) {
  pthread_cond_destroy(&cond->handle);
}

static struct timespec timespec_of(int64_t ns) {
  if (ns < 0) ns = 0;
  return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

void shoal_cond_wait(shoal_cond_t *cond, shoal_mutex_t *mutex) {
  pthread_cond_wait(&cond->handle, &mutex->handle);
}

bool shoal_cond_wait_until(shoal_cond_t *cond, shoal_mutex_t *mutex, int64_t deadline_ns) {
  struct timespec deadline = timespec_of(deadline_ns);
  return pthread_cond_timedwait(&cond->handle, &mutex->handle, &deadline) != ETIMEDOUT;
}

void shoal_cond_broadcast(shoal_cond_t *cond) {
  pthread_cond_broadcast(&cond->handle);
}

bool shoal_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t deadline_ns) {
  // FUTEX_WAIT_BITSET takes an absolute time, FUTEX_WAIT a relative one
  struct timespec deadline = timespec_of(deadline_ns);
  long result = syscall(SYS_futex, word, FUTEX_WAIT_BITSET, expected,
                        deadline_ns ? &deadline : NULL, NULL, FUTEX_BITSET_MATCH_ANY);
  return !(result < 0 && errno == ETIMEDOUT);
}

void shoal_futex_wake(_Atomic uint32_t *word, int count) {
  syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

// ---- counters -----------------------------------------------------------------------

// Raising and waiting must not miss each other: the one writes the number and then looks for
// sleepers, the other writes that it sleeps and then looks at the number. Both pairs are
// sequentially consistent, so at least one of them sees the other.

static uint32_t this_core(void) {
  const int core = sched_getcpu();
  return core < 0 ? 0 : (uint32_t)core + 1;
}

void shoal_counter_raise(shoal_counter_t *counter, uint64_t value) {
  uint64_t before = atomic_load_explicit(&counter->value, memory_order_relaxed);
  atomic_store_explicit(&counter->core, this_core(), memory_order_relaxed);
  do {
    if (before >= value) return;
  } while (!atomic_compare_exchange_weak(&counter->value, &before, value));
  if (!atomic_load(&counter->asleep)) return;
  atomic_store(&counter->asleep, 0);  // a waiter that comes now finds another word, and looks again
  syscall(SYS_futex, &counter->asleep, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void pause_core(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static bool spin(const shoal_counter_t *counter, uint64_t value, int64_t spin_ns) {
  const int64_t deadline = shoal_time_ns() + spin_ns;
  do {
    for (int i = 0; i < 16; ++i) {
      if (shoal_counter_get(counter) >= value) return true;
      pause_core();
    }
  } while (shoal_time_ns() < deadline);
  return false;
}

void shoal_counter_wait(shoal_counter_t *counter, uint64_t value, int64_t spin_ns) {
  enum { SAME_CORE = 5 };
  if (shoal_counter_get(counter) >= value) return;
  const uint32_t core = atomic_load_explicit(&counter->core, memory_order_relaxed);
  if (core != 0 && core == this_core()) spin_ns /= SAME_CORE;
  if (spin_ns > 0 && spin(counter, value, spin_ns)) return;
  for (;;) {
    atomic_store(&counter->asleep, 1);
    if (atomic_load(&counter->value) >= value) return;
    syscall(SYS_futex, &counter->asleep, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
    if (shoal_counter_get(counter) >= value) return;
  }
}

int64_t shoal_counter_spin(void) {
  enum { SPIN_NS = 10000 };
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) < 2 ? 0
                                                                                        : SPIN_NS;
}

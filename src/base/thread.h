// Threads, locks, conditions and futexes: pthread with statuses. Locking and waking cannot fail for
// objects that were initialised, so those calls return nothing.
#ifndef SHOAL_BASE_THREAD_H_
#define SHOAL_BASE_THREAD_H_

#include <pthread.h>
#include <stdatomic.h>

#include "shoal/base.h"

typedef struct shoal_thread {
  pthread_t handle;
  bool started;
} shoal_thread_t;

typedef void (*shoal_thread_fn_t)(void *self);

// Starts fn(self). `out_thread` is the caller's, must outlive the thread and be joined once.
SHOAL_MUST_USE shoal_status_t shoal_thread_start(shoal_thread_fn_t fn, void *self,
                                                 shoal_thread_t *out_thread);
void shoal_thread_join(shoal_thread_t *thread);  // zeroed ones are allowed

typedef struct shoal_mutex {
  pthread_mutex_t handle;
} shoal_mutex_t;

SHOAL_MUST_USE shoal_status_t shoal_mutex_init(shoal_mutex_t *out_mutex);
void shoal_mutex_deinit(shoal_mutex_t *mutex);
void shoal_mutex_lock(shoal_mutex_t *mutex);
void shoal_mutex_unlock(shoal_mutex_t *mutex);

typedef struct shoal_cond {
  pthread_cond_t handle;
} shoal_cond_t;

SHOAL_MUST_USE shoal_status_t shoal_cond_init(shoal_cond_t *out_cond);
void shoal_cond_deinit(shoal_cond_t *cond);
void shoal_cond_wait(shoal_cond_t *cond, shoal_mutex_t *mutex);
// Until woken or the monotonic clock reaches `deadline_ns`; false: the deadline passed.
bool shoal_cond_wait_until(shoal_cond_t *cond, shoal_mutex_t *mutex, int64_t deadline_ns);
void shoal_cond_broadcast(shoal_cond_t *cond);

// Sleeps while *word == expected, at most until `deadline_ns` (monotonic; 0: no limit). Works
// between processes that share the memory. Returns false only when the deadline passed; may wake
// spuriously.
bool shoal_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t deadline_ns);
// Wakes up to `count` sleepers; change the word first.
void shoal_futex_wake(_Atomic uint32_t *word, int count);

// A number that only grows, for threads of one process to wait on: to raise it costs an atomic
// exchange, and a system call only where somebody sleeps. All zero is ready to use. A waiter may
// return while the one who raised it is still waking others: memory of a counter must outlive that.
typedef struct shoal_counter {
  _Atomic uint64_t value;
  _Atomic uint32_t asleep;  // 1: somebody may sleep on this word
  _Atomic uint32_t core;    // that it was last raised from, plus 1; 0: none
} shoal_counter_t;

// What happened before the number was raised to what is returned has happened for the caller too.
static inline uint64_t shoal_counter_get(const shoal_counter_t *counter) {
  return atomic_load_explicit(&counter->value, memory_order_acquire);
}
// A number that has been reached already changes nothing.
void shoal_counter_raise(shoal_counter_t *counter, uint64_t value);
// Until the number is at least `value`: looks again and again for `spin_ns`, then sleeps. It
// looks for a fifth of that where the number was last raised from the same core: whoever will raise
// it again probably cannot run meanwhile.
void shoal_counter_wait(shoal_counter_t *counter, uint64_t value, int64_t spin_ns);
// A good `spin_ns`: about what it takes to wake a thread on another core; 0 where the calling
// thread may run on one core only, since whoever raises the number needs it.
int64_t shoal_counter_spin(void);

#endif  // SHOAL_BASE_THREAD_H_

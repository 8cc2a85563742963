// The CPU as a device: the structs its files share.
//
//   cpu.c      ops table, creation, enqueueing
//   memory.c   allocations: addresses, translation, guard, high-water marks
//   event.c    events
//   queue.c    rings of commands and the threads that work them off
//   execute.c  what one command does: transfers, host calls
//   launch.c   and kernels,
//   copy.c     copies and fills
//
// The modes of shoal/device.h. *Immediate*, where none is asked for: work runs in the calling
// thread when it is enqueued. *Concurrent*: each queue has a thread. *Opaque* is concurrent, and
// addresses are those of a shadow mapping without access rights: only shoal_cpu_resolve, inside
// queue work, gives a pointer to the real memory. *Blind* is opaque, and nobody outside this folder
// gets such a pointer but kernels and their providers.
//
// Launches, copies and fills that were not prepared are, each time, in the queue's scratch.
#ifndef SHOAL_DEVICE_BACKENDS_CPU_CPU_H_
#define SHOAL_DEVICE_BACKENDS_CPU_CPU_H_

#include <stdatomic.h>

#include "base/arena.h"
#include "base/thread.h"
#include "device/device_impl.h"

// ---- memory -------------------------------------------------------------------------

typedef struct shoal_cpu_allocation {
  shoal_address_t address;  // what users see; opaque: of the shadow
  int64_t bytes;            // asked for
  size_t mapped;            // whole pages, at least one
  uint8_t *real;            // where the bytes are
  _Atomic int64_t touched;  // highest byte + 1 that work was given
  struct shoal_cpu_allocation *next;
} shoal_cpu_allocation_t;

typedef struct shoal_cpu_device {
  shoal_device_t base;
  bool opaque, blind, concurrent;
  shoal_allocator_t pages;
  int64_t spin_ns;     // how long its threads look before they sleep
  shoal_mutex_t lock;  // of the lists
  shoal_cpu_allocation_t *allocations;
  _Atomic uint64_t releases;  // so far: what was found before another one is looked up again
  struct shoal_cpu_event *spare_events;
} shoal_cpu_device_t;

typedef struct shoal_cpu_queue shoal_cpu_queue_t;

SHOAL_MUST_USE shoal_status_t shoal_cpu_alloc(shoal_device_t *device, int64_t bytes,
                                              shoal_address_t *out_address);
void shoal_cpu_release(shoal_device_t *device, shoal_address_t address);
int64_t shoal_cpu_touched(shoal_device_t *device, shoal_address_t address);
void *shoal_cpu_view(shoal_device_t *device, shoal_address_t address, int64_t bytes);
// Where some bytes of device memory are.
typedef struct shoal_cpu_place {
  void *data;
  shoal_cpu_allocation_t *allocation;  // NULL for zero bytes
  int64_t end;                         // offset in it, behind the last byte
} shoal_cpu_place_t;
// Finds the bytes at `address`, which must lie in one allocation (else INTERNAL, naming `what`).
// Zero bytes are fine anywhere. Only queue work may read them.
SHOAL_MUST_USE shoal_status_t shoal_cpu_find(shoal_cpu_device_t *device, shoal_address_t address,
                                             int64_t bytes, const char *what,
                                             shoal_cpu_place_t *out_place);
void shoal_cpu_mark(const shoal_cpu_place_t *place);  // as touched
// Both at once, inside queue work. The bytes at `address`, which must lie in one allocation (else
// INTERNAL, naming `what`); marks them as touched. Zero bytes are fine anywhere.
SHOAL_MUST_USE shoal_status_t shoal_cpu_resolve(shoal_cpu_device_t *device, shoal_address_t address,
                                                int64_t bytes, const char *what, void **out_data);
// Says that this thread now works for the queue (NULL: for none); returns what was said before.
shoal_cpu_queue_t *shoal_cpu_enter(shoal_cpu_queue_t *queue);

// ---- queues -------------------------------------------------------------------------

typedef struct shoal_cpu_event {
  shoal_event_t base;
  _Atomic uint64_t recorded;     // records enqueued so far: an await waits for those before it
  shoal_counter_t done;          // the latest of them that was reached
  struct shoal_cpu_event *next;  // among the spare ones
} shoal_cpu_event_t;

typedef enum shoal_cpu_command_kind {
  SHOAL_CPU_LAUNCH,
  SHOAL_CPU_COPY,
  SHOAL_CPU_UPLOAD,
  SHOAL_CPU_DOWNLOAD,
  SHOAL_CPU_FILL,
  SHOAL_CPU_CALL,
  SHOAL_CPU_RECORD,
  SHOAL_CPU_AWAIT,
  SHOAL_CPU_STOP  // the queue's thread ends
} shoal_cpu_command_kind_t;

// Points to what the caller keeps alive; never owns.
typedef struct shoal_cpu_command {
  shoal_cpu_command_kind_t kind;
  union {
    const shoal_launch_t *launch;
    const shoal_copy_t *copy;
    shoal_fill_t fill;
    struct {
      shoal_address_t address;
      const void *from;  // upload
      void *to;          // download
      int64_t bytes;
    } transfer;
    struct {
      shoal_status_t (*function)(void *self);
      void *self;
    } call;
    struct {
      shoal_cpu_event_t *event;
      uint64_t number;
    } event;
  };
} shoal_cpu_command_t;

// One host thread enqueues, one worker runs: neither locks. `enqueued` and `finished` are the two
// ends of the ring; they lie in cache lines of their own.
struct shoal_cpu_queue {
  shoal_queue_t base;
  shoal_cpu_device_t *device;
  shoal_thread_t thread;
  shoal_cpu_command_t *ring;  // NULL: the device is immediate
  uint64_t capacity;          // of the ring, a power of two
  uint64_t tail;              // the host's: commands enqueued so far
  uint64_t head_seen;         // the host's: commands finished when it last looked
  uint8_t apart[64];
  shoal_counter_t enqueued;
  uint8_t apart_too[64];
  shoal_counter_t finished;
  _Atomic bool failed;
  shoal_status_t error;  // the first one; the worker's, and the host's while the queue is idle
  // The worker's: the allocation it found last, valid until the device's next release.
  shoal_cpu_allocation_t *found;
  uint64_t found_releases;
  shoal_arena_t scratch;  // the worker's: what it prepares by itself
};

SHOAL_MUST_USE shoal_status_t shoal_cpu_queue_create(shoal_device_t *device,
                                                     shoal_queue_t **out_queue);
void shoal_cpu_queue_free(shoal_queue_t *queue);
SHOAL_MUST_USE shoal_status_t shoal_cpu_queue_reserve(shoal_queue_t *queue, int64_t commands);
void shoal_cpu_enqueue(shoal_queue_t *queue, const shoal_cpu_command_t *command);
SHOAL_MUST_USE shoal_status_t shoal_cpu_queue_wait(shoal_queue_t *queue);
bool shoal_cpu_queue_failed(const shoal_queue_t *queue);

SHOAL_MUST_USE shoal_status_t shoal_cpu_event_create(shoal_device_t *device,
                                                     shoal_event_t **out_event);
void shoal_cpu_event_free(shoal_event_t *event);
void shoal_cpu_events_free(shoal_cpu_device_t *device);  // the spare ones, at the device's end
SHOAL_MUST_USE shoal_status_t shoal_cpu_record(shoal_queue_t *queue, shoal_event_t *event);
SHOAL_MUST_USE shoal_status_t shoal_cpu_await(shoal_queue_t *queue, shoal_event_t *event);
SHOAL_MUST_USE shoal_status_t shoal_cpu_event_wait(shoal_event_t *event);
bool shoal_cpu_event_done(const shoal_event_t *event);

// ---- work ---------------------------------------------------------------------------

// Runs a command that is not an event's, in the calling thread.
SHOAL_MUST_USE shoal_status_t shoal_cpu_execute(shoal_cpu_queue_t *queue,
                                                const shoal_cpu_command_t *command);

// Whether something is to be run: a bool in device memory, or always.
typedef struct shoal_cpu_predicate {
  bool is_there;
  shoal_cpu_place_t place;
} shoal_cpu_predicate_t;
SHOAL_MUST_USE shoal_status_t shoal_cpu_find_predicate(shoal_cpu_device_t *device,
                                                       const shoal_address_t *address,
                                                       shoal_cpu_predicate_t *out_predicate);
bool shoal_cpu_enabled(const shoal_cpu_predicate_t *predicate);  // inside queue work; marks it

SHOAL_MUST_USE shoal_status_t shoal_cpu_prepare(shoal_device_t *device,
                                                const shoal_launch_t *launch, shoal_arena_t *arena,
                                                const shoal_prepared_t **out_prepared);
SHOAL_MUST_USE shoal_status_t shoal_cpu_launch(const shoal_launch_t *launch,
                                               const shoal_prepared_t *prepared);
SHOAL_MUST_USE shoal_status_t shoal_cpu_prepare_copy(shoal_device_t *device,
                                                     const shoal_copy_t *copy, shoal_arena_t *arena,
                                                     const shoal_prepared_copy_t **out_prepared);
void shoal_cpu_copy(const shoal_copy_t *copy, const shoal_prepared_copy_t *prepared);
SHOAL_MUST_USE shoal_status_t shoal_cpu_prepare_fill(shoal_device_t *device,
                                                     const shoal_fill_t *fill, shoal_arena_t *arena,
                                                     const shoal_prepared_fill_t **out_prepared);
void shoal_cpu_fill(const shoal_fill_t *fill, const shoal_prepared_fill_t *prepared);

#endif  // SHOAL_DEVICE_BACKENDS_CPU_CPU_H_

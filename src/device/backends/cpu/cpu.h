// The CPU as a device: the structs its files share.
//
//   cpu.c      ops table, creation, enqueueing
//   memory.c   allocations: addresses, translation, guard, high-water marks
//   queue.c    rings of commands and the threads that work them off
//   execute.c  what one command does
//
// Two modes. Immediate: work runs in the calling thread when it is enqueued. Concurrent: each queue
// has a thread. *Opaque* is concurrent, and addresses are those of a shadow mapping without access
// rights: only shoal_cpu_resolve, inside queue work, gives a pointer to the real memory.
#ifndef SHOAL_DEVICE_BACKENDS_CPU_CPU_H_
#define SHOAL_DEVICE_BACKENDS_CPU_CPU_H_

#include <stdatomic.h>

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
  bool opaque, concurrent;
  shoal_allocator_t pages;
  shoal_mutex_t lock;  // of the list
  shoal_cpu_allocation_t *allocations;
} shoal_cpu_device_t;

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
// Says that this thread now works for the device (NULL: for none); returns what was said before.
const shoal_cpu_device_t *shoal_cpu_enter(const shoal_cpu_device_t *device);

// ---- queues -------------------------------------------------------------------------

typedef struct shoal_cpu_event {
  shoal_event_t base;
  shoal_mutex_t lock;
  shoal_cond_t fired;
  uint64_t recorded;  // records enqueued so far: an await waits for those before it
  uint64_t done;      // the latest of them that was reached
} shoal_cpu_event_t;

typedef enum shoal_cpu_command_kind {
  SHOAL_CPU_LAUNCH,
  SHOAL_CPU_COPY,
  SHOAL_CPU_UPLOAD,
  SHOAL_CPU_DOWNLOAD,
  SHOAL_CPU_FILL,
  SHOAL_CPU_CALL,
  SHOAL_CPU_RECORD,
  SHOAL_CPU_AWAIT
} shoal_cpu_command_kind_t;

// Points to what the caller keeps alive; never owns.
typedef struct shoal_cpu_command {
  shoal_cpu_command_kind_t kind;
  union {
    const shoal_launch_t *launch;
    const shoal_copy_t *copy;
    struct {
      shoal_address_t address;
      const void *from;  // upload
      void *to;          // download
      int64_t bytes;
    } transfer;
    struct {
      shoal_address_t address;
      shoal_dtype_t dtype;
      int64_t count;
      double value;
    } fill;
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

typedef struct shoal_cpu_queue {
  shoal_queue_t base;
  shoal_cpu_device_t *device;
  shoal_mutex_t lock;
  shoal_cond_t work, idle;
  shoal_thread_t thread;
  bool stop;
  shoal_cpu_command_t *ring;
  int64_t capacity;      // of the ring, a power of two
  int64_t head, tail;    // commands finished and enqueued so far
  int64_t since_wait;    // enqueued since the host last waited
  shoal_status_t error;  // the first one
  // Operands of the launch being run, if it was not prepared; only the worker touches them.
  shoal_tensor_t *tensors;
  shoal_cpu_place_t *places;
  int64_t operand_capacity;
} shoal_cpu_queue_t;

SHOAL_MUST_USE shoal_status_t shoal_cpu_queue_create(shoal_device_t *device,
                                                     shoal_queue_t **out_queue);
void shoal_cpu_queue_free(shoal_queue_t *queue);
SHOAL_MUST_USE shoal_status_t shoal_cpu_enqueue(shoal_queue_t *queue,
                                                const shoal_cpu_command_t *command);
SHOAL_MUST_USE shoal_status_t shoal_cpu_queue_wait(shoal_queue_t *queue);
bool shoal_cpu_queue_failed(const shoal_queue_t *queue);

SHOAL_MUST_USE shoal_status_t shoal_cpu_prepare(shoal_device_t *device,
                                                const shoal_launch_t *launch, shoal_arena_t *arena,
                                                const shoal_prepared_t **out_prepared);
SHOAL_MUST_USE shoal_status_t shoal_cpu_event_create(shoal_device_t *device,
                                                     shoal_event_t **out_event);
void shoal_cpu_event_free(shoal_event_t *event);
SHOAL_MUST_USE shoal_status_t shoal_cpu_event_wait(shoal_event_t *event);
bool shoal_cpu_event_done(const shoal_event_t *event);

// Runs a command that is not an event's, in the calling thread.
SHOAL_MUST_USE shoal_status_t shoal_cpu_execute(shoal_cpu_queue_t *queue,
                                                const shoal_cpu_command_t *command);

#endif  // SHOAL_DEVICE_BACKENDS_CPU_CPU_H_

// The ops table of devices. device.c checks arguments and dispatches here; a backend embeds the
// structs below as the first member of its own. backends/cpu is the one to copy.
//
// A slot is required unless it says *optional*; then it says what NULL means. Enqueueing slots
// never wait for work, at most for room in the queue.
#ifndef SHOAL_DEVICE_DEVICE_IMPL_H_
#define SHOAL_DEVICE_DEVICE_IMPL_H_

#include "device/device.h"

typedef struct shoal_device_ops shoal_device_ops_t;

struct shoal_device {
  const shoal_device_ops_t *ops;
  shoal_allocator_t allocator;
  shoal_target_t target;
};

// What a backend keeps of a prepared launch, copy, fill.
typedef struct shoal_prepared shoal_prepared_t;
typedef struct shoal_prepared_copy shoal_prepared_copy_t;
typedef struct shoal_prepared_fill shoal_prepared_fill_t;

struct shoal_queue {
  shoal_device_t *device;
  shoal_queue_error_fn_t on_error;  // NULL: nothing. The backend calls it, see shoal/device.h
  void *on_error_self;
};

struct shoal_event {
  shoal_device_t *device;
};

// Names memory of one process so that another on the same node can map it (CUDA:
// cudaIpcMemHandle_t).
typedef struct shoal_memory_handle {
  uint8_t opaque[64];
  int64_t bytes;
} shoal_memory_handle_t;

typedef struct shoal_queue_graph shoal_queue_graph_t;  // a captured sequence of queue work

struct shoal_device_ops {
  const char *kind;

  // The allocator in options is set. `out_device`'s base members are filled by device.c.
  shoal_status_t (*create)(const shoal_device_options_t *options, shoal_device_t **out_device);
  void (*free)(shoal_device_t *device);
  shoal_target_t (*target)(const shoal_device_t *device);  // asked once, when it has been created

  // ---- memory
  shoal_status_t (*alloc)(shoal_device_t *device, int64_t bytes, shoal_address_t *out_address);
  void (*release)(shoal_device_t *device, shoal_address_t address);
  // Optional, together: memory of the host that transfers from and to the device are fast with
  // (page-locked). NULL: any will do.
  shoal_status_t (*alloc_host)(shoal_device_t *device, int64_t bytes, void **out_memory);
  void (*release_host)(shoal_device_t *device, void *memory);
  // Optional: highest byte that work was given. NULL: it cannot tell (-1).
  int64_t (*touched)(shoal_device_t *device, shoal_address_t address);
  // Optional: host pointer for work on a queue. NULL: the host cannot read this device's memory.
  void *(*view)(shoal_device_t *device, shoal_address_t address, int64_t bytes);
  // Optional, together: memory that other processes of the node can address. NULL: communication
  // goes through bounce buffers.
  shoal_status_t (*alloc_shared)(shoal_device_t *device, int64_t bytes,
                                 shoal_address_t *out_address, shoal_memory_handle_t *out_handle);
  shoal_status_t (*import)(shoal_device_t *device, const shoal_memory_handle_t *handle,
                           shoal_address_t *out_address);

  // ---- queues and events
  shoal_status_t (*queue_create)(shoal_device_t *device, shoal_queue_t **out_queue);
  void (*queue_free)(shoal_queue_t *queue);  // after all its work is done
  // Optional: room for so many unfinished commands. NULL: there is always room.
  shoal_status_t (*queue_reserve)(shoal_queue_t *queue, int64_t commands);
  shoal_status_t (*event_create)(shoal_device_t *device, shoal_event_t **out_event);
  void (*event_free)(shoal_event_t *event);
  shoal_status_t (*record)(shoal_queue_t *queue, shoal_event_t *event);
  shoal_status_t (*await)(shoal_queue_t *queue, shoal_event_t *event);
  shoal_status_t (*wait)(shoal_queue_t *queue);
  bool (*failed)(const shoal_queue_t *queue);  // never waits
  shoal_status_t (*event_wait)(shoal_event_t *event);
  bool (*event_done)(const shoal_event_t *event);  // never waits
  // Optional: seconds between two recorded events. NULL: the profiler uses the host's clock.
  shoal_status_t (*elapsed)(shoal_event_t *from, shoal_event_t *to, double *out_seconds);

  // ---- work
  // Optional, each: looks up what is needed, once; it may then be enqueued many times. NULL: as
  // fast without.
  shoal_status_t (*prepare)(shoal_device_t *device, const shoal_launch_t *launch,
                            shoal_arena_t *arena, const shoal_prepared_t **out_prepared);
  shoal_status_t (*prepare_copy)(shoal_device_t *device, const shoal_copy_t *copy,
                                 shoal_arena_t *arena, const shoal_prepared_copy_t **out_prepared);
  shoal_status_t (*prepare_fill)(shoal_device_t *device, const shoal_fill_t *fill,
                                 shoal_arena_t *arena, const shoal_prepared_fill_t **out_prepared);
  shoal_status_t (*launch)(shoal_queue_t *queue, const shoal_launch_t *launch);
  shoal_status_t (*copy)(shoal_queue_t *queue, const shoal_copy_t *copy);
  shoal_status_t (*upload)(shoal_queue_t *queue, const void *host, shoal_address_t device,
                           int64_t bytes);
  shoal_status_t (*download)(shoal_queue_t *queue, shoal_address_t device, void *host,
                             int64_t bytes);
  shoal_status_t (*fill)(shoal_queue_t *queue, const shoal_fill_t *fill);
  shoal_status_t (*call)(shoal_queue_t *queue, shoal_status_t (*function)(void *self), void *self);
  // Optional: bytes from another device's memory. NULL: such a copy goes through the host.
  shoal_status_t (*peer_copy)(shoal_queue_t *queue, const shoal_device_t *src_device,
                              shoal_address_t src, shoal_address_t dst, int64_t bytes);

  // ---- graphs
  // Optional, together: between begin and end, work is recorded instead of run, and can then be
  // launched as a whole. NULL: every piece of work is enqueued each time.
  shoal_status_t (*capture_begin)(shoal_queue_t *queue);
  shoal_status_t (*capture_end)(shoal_queue_t *queue, shoal_queue_graph_t **out_graph);
  shoal_status_t (*graph_launch)(shoal_queue_t *queue, shoal_queue_graph_t *graph);
  void (*graph_free)(shoal_queue_graph_t *graph);
};

#define SHOAL_DEVICE_BACKEND(name) extern const shoal_device_ops_t shoal_device_##name;
#include "device/backends.inc"
#undef SHOAL_DEVICE_BACKEND

#endif  // SHOAL_DEVICE_DEVICE_IMPL_H_

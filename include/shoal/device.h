// Shoal, device: where buffers live and kernels run.
//
// Shaped for an accelerator: device addresses may not be read by the host; work is put on *queues*
// (in order within a queue, concurrent between queues) and ordered across queues by *events*. The
// CPU sits behind the same interface, in one of four modes, each stricter than the one before:
//
//   (none)       work runs in the calling thread when it is enqueued; plain addresses
//   concurrent   a thread per queue; plain addresses. Sessions use this one
//   opaque       and addresses are not mapped on the host: only work on queues reaches the memory
//   blind        and shoal_device_view gives NULL everywhere, as on an accelerator: only kernels,
//                their providers, copies, fills and transfers reach it
//
// Whoever enqueues keeps launches and copies, what they point to, and the host memory of transfers
// valid until the queue is done with them. Errors of work come later, from shoal_queue_wait.
#ifndef SHOAL_DEVICE_H_
#define SHOAL_DEVICE_H_

#include "shoal/dlpack.h"
#include "shoal/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_device shoal_device_t;
typedef struct shoal_queue shoal_queue_t;
typedef struct shoal_event shoal_event_t;
typedef uint64_t shoal_address_t;  // in device memory; 0 is none

typedef struct shoal_device_options {
  shoal_allocator_t allocator;
  const char *kind;  // NULL: "cpu"
  // CPU: the modes above. The environment also sets them.
  bool opaque;      // SHOAL_DEVICE_OPAQUE=1
  bool blind;       // SHOAL_DEVICE_OPAQUE=blind
  bool concurrent;  // SHOAL_DEVICE_CONCURRENT=1; with 0 it is not, whatever stands here, unless the
                    // device is opaque
  shoal_allocator_t
      pages;  // CPU: where its memory comes from, whole pages, zeroed; zero: the system.
              // Sessions give shoal_comm_alloc's, so that peers work on it in place
} shoal_device_options_t;

SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_device_create(const shoal_device_options_t *options,
                                                            shoal_device_t **out_device);
SHOAL_API void shoal_device_free(shoal_device_t *device);  // after its queues and memory
SHOAL_API const char *shoal_device_kind(const shoal_device_t *device);
// Kinds of devices that this build has, by index from 0; NULL after the last.
SHOAL_API const char *shoal_device_kind_name(int64_t index);

SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_device_alloc(shoal_device_t *device, int64_t bytes,
                                                           shoal_address_t *out_address);  // zeroed
SHOAL_API void shoal_device_release(shoal_device_t *device, shoal_address_t address);
// Memory of the host for transfers: page-locked where the device has use for that. Not zeroed.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_device_alloc_host(shoal_device_t *device,
                                                                int64_t bytes, void **out_memory);
SHOAL_API void shoal_device_release_host(shoal_device_t *device, void *memory);  // NULL is allowed
// How much of an allocation was used: the bytes from its start to the last byte that any launch,
// copy, fill, transfer or view was given. It is exact in opaque mode, where nothing else can reach
// the memory; -1 if the device cannot tell.
SHOAL_API int64_t shoal_device_touched(shoal_device_t *device, shoal_address_t address);

SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_queue_create(shoal_device_t *device,
                                                           shoal_queue_t **out_queue);
SHOAL_API void shoal_queue_free(shoal_queue_t *queue);
// Makes room for so many commands (at least a thousand or so are there from the start): so many may
// be enqueued and not done without the host ever waiting for room. Waits until the queue is idle;
// the only call on a queue that allocates.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_queue_reserve(shoal_queue_t *queue, int64_t commands);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_event_create(shoal_device_t *device,
                                                           shoal_event_t **out_event);
SHOAL_API void shoal_event_free(shoal_event_t *event);

// What a kernel provider is asked to do: one call of an op, on planned buffers. It writes the
// outputs and keeps nothing: all of this, and the memory, is valid only until it returns (in opaque
// mode the pointers are those of a mapping that only such work may use).
//
// On the CPU a provider is called on the thread of the queue, when the inputs are there, and the
// outputs must be there when it returns. On a device with streams it is called when the launch is
// enqueued, and enqueues its work on `stream`.
typedef struct shoal_kernel_call {
  const shoal_call_t *call;  // op, attributes, types
  // The operands twice: as Shoal's tensors and for other frameworks. `data` is an address of the
  // device's own: the host can read it on the CPU.
  const shoal_tensor_t *inputs, *outputs;
  const shoal_dlpack_tensor_t *dlpack_inputs, *dlpack_outputs;
  const char *device_kind;  // as shoal_device_kind has it; DLPack's number is in its tensors
  int32_t device_id;
  void *stream;  // the device's own, as a cudaStream_t; NULL on the CPU
} shoal_kernel_call_t;

typedef shoal_status_t (*shoal_provider_fn_t)(void *self, const shoal_kernel_call_t *call);

// An operand of a launch that has valid elements only in some of its rows (along dim 0): as many
// rows of the *whole* value as an integer in device memory says when the launch runs. The kernel
// sees a tensor of those that the operand holds, which are its first ones.
typedef struct shoal_bounded {
  int32_t operand;   // inputs, then outputs
  const char *name;  // of the count, for errors
  shoal_address_t count;
  shoal_dtype_t dtype;           // of the count: SHOAL_I32 or SHOAL_I64
  int64_t whole;                 // rows of the whole; another count than 0 to this is an error
  const shoal_dim_part_t *part;  // which of them the operand holds
} shoal_bounded_t;

// A kernel call on device memory. It and everything that it points to must stay valid until the
// queue is done with it; so for copies below.
typedef struct shoal_launch {
  shoal_call_t call;  // local types, bound attributes
  const shoal_address_t *inputs, *outputs;
  shoal_address_t workspace;
  const shoal_address_t *predicate;  // optional: address of a bool scalar; skipped when false
  shoal_provider_fn_t provider;      // optional: executes ops without a device kernel (foreign ops)
  void *provider_self;
  int32_t bounded_count;
  const shoal_bounded_t *bounded;         // such a launch may be on one queue at a time
  const char *name;                       // optional: for errors, what is being computed
  const struct shoal_prepared *prepared;  // by shoal_launch_prepare; NULL: not prepared
} shoal_launch_t;

// Strided copies, device to device; pieces' offsets and strides are in elements of `dtype`, their
// blocks do not overlap with the source. With `accumulate`, dst = reduce(dst, src), rounded to
// `dtype`. Joins of several bf16 or f16 that are rounded once: `widen` each into f32, `narrow` at
// the end.
typedef struct shoal_copy {
  shoal_address_t src;  // 0: none; the identity of `reduce` (for a sum: 0) is written
  shoal_address_t dst;
  shoal_dtype_t dtype;
  bool accumulate;
  shoal_reduce_t reduce;
  bool widen;   // the destination has f32, and `dtype`, bf16 or f16, is the source's
  bool narrow;  // the source has f32, and `dtype`, bf16 or f16, is the destination's; not joined
  int64_t piece_count;
  const shoal_piece_t *pieces;
  const shoal_address_t *predicate;  // as a launch's
  const struct shoal_prepared_copy *prepared;
} shoal_copy_t;

// `count` elements become `value`. What it points to must stay valid until the queue is done with
// it; the fill itself is taken when it is enqueued.
typedef struct shoal_fill {
  shoal_address_t dst;
  shoal_dtype_t dtype;
  int64_t count;
  double value;
  const shoal_address_t *predicate;  // as a launch's
  const struct shoal_prepared_fill *prepared;
} shoal_fill_t;

// Checks, and looks up kernels and memory, once instead of each time; keeps the result in the
// arena. From then on the caller must not change what was prepared, must keep the memory allocated,
// and may use it on queues of this device only. Optional; errors are those that running it would
// give. Not while the device's memory is being released by another thread.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_launch_prepare(shoal_device_t *device,
                                                             shoal_arena_t *arena,
                                                             shoal_launch_t *launch);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_copy_prepare(shoal_device_t *device,
                                                           shoal_arena_t *arena,
                                                           shoal_copy_t *copy);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_fill_prepare(shoal_device_t *device,
                                                           shoal_arena_t *arena,
                                                           shoal_fill_t *fill);

// Enqueue; none of these waits for the work. The first error of a queue is kept and returned by
// shoal_queue_wait; work after it on that queue is skipped (events still fire, so nobody hangs).
//
// One thread at a time may enqueue on a queue, wait for it or free it; another may take over when
// the first has told it so. A queue holds a limited number of commands (each call below is at most
// one): where it is full, the caller waits until one of them is done. Work must therefore not wait
// for something that the host does only later, unless room was reserved for all that comes between.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_queue_launch(shoal_queue_t *queue,
                                                           const shoal_launch_t *launch);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_queue_upload(shoal_queue_t *queue, const void *host,
                                                           shoal_address_t device, int64_t bytes);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_queue_download(shoal_queue_t *queue,
                                                             shoal_address_t device, void *host,
                                                             int64_t bytes);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_queue_copy(shoal_queue_t *queue,
                                                         const shoal_copy_t *copy);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_queue_fill(shoal_queue_t *queue,
                                                         const shoal_fill_t *fill);
// Runs a function on the queue, in order; communication uses this. The function may call
// shoal_device_view.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_queue_call(shoal_queue_t *queue,
                                                         shoal_status_t (*function)(void *self),
                                                         void *self);
// Events, as on CUDA: an await waits for the latest record of the event that was enqueued *before*
// it (for none: it does not wait), so queues cannot wait for each other in a circle. An event may
// be recorded again and again, by one queue at a time.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_queue_record(shoal_queue_t *queue,
                                                           shoal_event_t *event);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_queue_await(shoal_queue_t *queue,
                                                          shoal_event_t *event);
// Blocks until everything enqueued is done; returns and clears the queue's first error.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_queue_wait(shoal_queue_t *queue);

// For the host: blocks until the event's latest record is done; returns at once where there is
// none. A queue that failed fires its events too: whether the work before the record was done is
// the queue's to say (shoal_queue_failed). From any thread but a queue's. Errors are those of the
// device itself.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_event_wait(shoal_event_t *event);
// Whether shoal_event_wait would return at once. Does not block.
SHOAL_API bool shoal_event_done(const shoal_event_t *event);

// Whether the queue has an error that shoal_queue_wait has not returned yet. Does not block; what
// ran before the question was asked may still be going to fail.
SHOAL_API bool shoal_queue_failed(const shoal_queue_t *queue);
// Calls the function at the queue's first error, once (once more after shoal_queue_wait has cleared
// it), on the thread that runs the work and before any later work or event of the queue, so that
// others who wait for that work can be told. The status is borrowed, the queue keeps it. The
// function must not enqueue on the queue or wait for it. Set it before the queue has work; NULL:
// nothing is called.
typedef void (*shoal_queue_error_fn_t)(void *self, shoal_status_t status);
SHOAL_API void shoal_queue_on_error(shoal_queue_t *queue, shoal_queue_error_fn_t function,
                                    void *self);

// Host pointer to device memory for work that runs *on a queue* (communication, kernel providers).
// Returns NULL outside a queue in opaque mode, and everywhere on devices that have none.
SHOAL_API void *shoal_device_view(shoal_device_t *device, shoal_address_t address, int64_t bytes);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_DEVICE_H_

// Shoal, engine: a pipeline schedule run on forward and backward functions of your own.
//
// For those who have a training loop and no Shoal graph: each rank has the stages of one row of a
// schedule (schedule.h), and the engine calls its functions in the row's order and moves
// activations forward and gradients backward between ranks, beside the work. What a stage computes,
// where its weights are and how they are updated stays yours. With data parallelism every copy of
// the pipeline has an engine on its own ranks.
#ifndef SHOAL_ENGINE_H_
#define SHOAL_ENGINE_H_

#include "shoal/comm.h"
#include "shoal/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

// One of the tensors that cross a border, as the bytes that a stage wrote.
typedef struct shoal_engine_tensor {
  void *data;  // aligned to 64 bytes
  int64_t bytes;
} shoal_engine_tensor_t;

// One call of a function. Buffers are the engine's, and valid during the call.
typedef struct shoal_engine_work {
  int32_t stage, micro;
  const void
      *in;    // F: what the stage before gave; NULL: this is the first. B: the gradient of what
              // this stage gave; NULL: this is the last. W: NULL
  void *out;  // F: for the stage behind; NULL: this is the last. B: the gradient of `in` of the
              // same micro-batch's F; NULL: this is the first. W: NULL
  int64_t in_bytes, out_bytes;
  // All tensors that come in and go out, where several cross a border (`counts` of the options);
  // `in` and `out` are the first of them. Data of `ins` must not be written to.
  int32_t in_count, out_count;
  const shoal_engine_tensor_t *ins, *outs;
} shoal_engine_work_t;

// An error ends the run on all ranks of the world, which is broken then.
typedef shoal_status_t (*shoal_engine_fn_t)(void *user_data, const shoal_engine_work_t *work);

typedef struct shoal_engine_options {
  shoal_allocator_t allocator;  // zero: the system's
  const shoal_schedule_t *schedule;
  const int32_t *ranks;  // by row of the schedule: the rank that runs it, each another; NULL: row r
                         // is run by rank r
  const int64_t *bytes;  // by stage but the last: of what it gives to the next for one micro-batch;
                         // the gradient of that has as many
  // By stage but the last: how many tensors it gives to the next; they travel as one message.
  // `bytes` then has the sizes of all tensors, stage after stage. A value that a later stage than
  // the next needs must be passed on by the stages between. NULL: one tensor each.
  const int32_t *counts;
  shoal_engine_fn_t forward, backward;
  shoal_engine_fn_t weight;  // needed where the schedule has W
  void *user_data;
} shoal_engine_options_t;

typedef struct shoal_engine shoal_engine_t;

// Makes the engine of this rank; a rank that has no row has nothing to do in its runs. The schedule
// is copied. *Collective* over the world: all ranks create equally many engines in the same order,
// with the same number of stages. INVALID_ARGUMENT, on this rank only: the schedule is incomplete
// or stands still, or two rows send and receive micro-batches in different orders.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_engine_create(shoal_world_t *world,
                                                            const shoal_engine_options_t *options,
                                                            shoal_engine_t **out_engine);
SHOAL_API void shoal_engine_free(shoal_engine_t *engine);  // NULL is allowed

// Runs this rank's row once: a step, up to the gradients. Blocks. Called by all ranks that have a
// row; does not wait for those that this one gets nothing from. Allocates nothing.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_engine_run(shoal_engine_t *engine);

// Bytes of the engine's buffers on this rank.
SHOAL_API int64_t shoal_engine_bytes(const shoal_engine_t *engine);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_ENGINE_H_

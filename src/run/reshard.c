// Executing a reshard. The order of joins is the bound reshard's: every rank gets the same bits
// each time. bf16 and f16 are joined in f32 and rounded once.
#include "run/reshard.h"

#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "op/reduce.h"
#include "run/strided.h"

enum { ALIGNMENT = 64 };

static bool is_half(shoal_dtype_t dtype) {
  return dtype == SHOAL_BF16 || dtype == SHOAL_F16;
}

bool shoal_mover_needs_scratch(const shoal_bound_reshard_t *bound, shoal_dtype_t dtype) {
  return bound->reduces && !bound->all_reduce && is_half(dtype);
}

static shoal_message_t *new_messages(const shoal_bound_message_t *bound, int32_t count,
                                     size_t element, int32_t tag, shoal_arena_t *arena) {
  shoal_message_t *messages = SHOAL_NEW(arena, shoal_message_t, count);
  for (int32_t i = 0; messages && i < count; ++i) {
    messages[i] = (shoal_message_t){
        .peer = bound[i].peer, .tag = tag, .bytes = bound[i].count * (int64_t)element};
  }
  return messages;
}

shoal_status_t shoal_mover_init(const shoal_bound_reshard_t *bound, shoal_dtype_t dtype,
                                int64_t input_count, int64_t output_count, int32_t tag,
                                shoal_postbox_t *postbox, shoal_arena_t *arena,
                                shoal_mover_t *out_mover) {
  const size_t element = shoal_dtype_size(dtype);
  shoal_mover_t mover = {
      .bound = bound,
      .dtype = dtype,
      .tag = tag,
      .postbox = postbox,
      .input_count = input_count,
      .output_count = output_count,
      .sends = new_messages(bound->sends, bound->send_count, element, tag, arena),
      .recvs = new_messages(bound->recvs, bound->recv_count, element, tag, arena),
      .lazy = bound->send_count > 0 && bound->recv_count == 0 && !bound->all_reduce,
  };
  if (!mover.sends || !mover.recvs) return SHOAL_OOM();
  if (mover.lazy) {
    int64_t bytes = 0;
    for (int32_t i = 0; i < bound->send_count; ++i) {
      bytes += (mover.sends[i].bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    mover.staging = shoal_arena_alloc(arena, (size_t)bytes, 1);
    if (!mover.staging) return SHOAL_OOM();
    char *at = mover.staging;
    for (int32_t i = 0; i < bound->send_count; ++i) {
      mover.sends[i].data = at;
      at += (mover.sends[i].bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
  }
  *out_mover = mover;
  return NULL;
}

// ---- the postbox ----------------------------------------------------------------------

shoal_status_t shoal_postbox_drain(shoal_postbox_t *postbox) {
  shoal_status_t first = NULL;
  while (postbox->first) {
    shoal_mover_t *mover = postbox->first;
    postbox->first = mover->next;
    mover->next = NULL;
    shoal_status_t status = shoal_exchange_wait(&mover->exchange);
    if (first) {
      shoal_status_free(status);
    } else {
      first = status;
    }
  }
  postbox->last = NULL;
  return first;
}

static shoal_status_t post(shoal_mover_t *mover) {
  shoal_postbox_t *postbox = mover->postbox;
  SHOAL_RETURN_IF_ERROR(shoal_exchange_start(postbox->world, mover->bound->send_count, mover->sends,
                                             0, NULL, &mover->exchange));
  if (postbox->last) {
    postbox->last->next = mover;
  } else {
    postbox->first = mover;
  }
  postbox->last = mover;
  return NULL;
}

// ---- running --------------------------------------------------------------------------

static void pack(shoal_mover_t *mover, const void *input) {
  const shoal_bound_reshard_t *bound = mover->bound;
  for (int32_t i = 0; i < bound->send_count; ++i) {
    shoal_strided_copy(mover->dtype, bound->sends[i].piece_count, bound->sends[i].pack, input,
                       mover->sends[i].data);
  }
}

// Makes the output from local pieces and received messages, in the order of the steps.
static void join(shoal_mover_t *mover, const void *input, void *output) {
  const shoal_bound_reshard_t *bound = mover->bound;
  const bool wide = shoal_mover_needs_scratch(bound, mover->dtype);
  if (mover->output_count == 0) return;
  if (wide) {
    shoal_reduce_fill(bound->reduce, SHOAL_F32, mover->output_count, mover->scratch);
  } else if (bound->clear) {
    shoal_reduce_fill(bound->reduce, mover->dtype, mover->output_count, output);
  }
  for (int32_t i = 0; i < bound->step_count; ++i) {
    const struct shoal_reshard_step *step = &bound->steps[i];
    const bool local = step->message < 0;
    const void *from = local ? input : mover->recvs[step->message].data;
    const int64_t count = local ? step->piece_count : bound->recvs[step->message].piece_count;
    const shoal_piece_t *pieces = local ? step->pieces : bound->recvs[step->message].pack;
    if (wide) {
      shoal_strided_join_wide(bound->reduce, mover->dtype, step->accumulate, count, pieces, from,
                              mover->scratch);
    } else if (step->accumulate) {
      shoal_strided_join(bound->reduce, mover->dtype, count, pieces, from, output);
    } else {
      shoal_strided_copy(mover->dtype, count, pieces, from, output);
    }
  }
  if (wide) {
    for (int64_t i = 0; i < mover->output_count; ++i) {
      shoal_dtype_store(mover->dtype, output, i, (double)mover->scratch[i]);
    }
  }
}

shoal_status_t shoal_mover_run(shoal_mover_t *mover, const void *input, void *output,
                               void *staging) {
  const shoal_bound_reshard_t *bound = mover->bound;
  if (bound->all_reduce) {
    if (mover->output_count == 0) return NULL;
    if (input != output) {
      memcpy(output, input, (size_t)mover->output_count * shoal_dtype_size(mover->dtype));
    }
    return shoal_all_reduce(mover->group, mover->dtype, bound->reduce, mover->output_count, output,
                            output);
  }
  if (mover->lazy) {
    pack(mover, input);
    SHOAL_RETURN_IF_ERROR(post(mover));
  } else if (bound->send_count + bound->recv_count > 0) {
    for (int32_t i = 0; i < bound->send_count; ++i) {
      mover->sends[i].data = (char *)staging + bound->sends[i].staging;
    }
    for (int32_t i = 0; i < bound->recv_count; ++i) {
      mover->recvs[i].data = (char *)staging + bound->recvs[i].staging;
    }
    pack(mover, input);
    SHOAL_RETURN_IF_ERROR(shoal_exchange_start(mover->postbox->world, bound->send_count,
                                               mover->sends, bound->recv_count, mover->recvs,
                                               &mover->exchange));
    SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&mover->exchange));
  }
  join(mover, input, output);
  return NULL;
}

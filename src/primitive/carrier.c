// Running a motion: pack, exchange, join; or one collective.
#include "primitive/carrier.h"

#include "base/dtype.h"
#include "base/status.h"
#include "op/reduce.h"

// ---- on bare memory -------------------------------------------------------------------

static void set_message(const shoal_motion_t *motion, const shoal_parcel_t *parcel, char *buffer,
                        char *staging, shoal_message_t *message) {
  message->peer = parcel->peer;
  message->bytes = parcel->count * (int64_t)shoal_dtype_size(motion->dtype);
  message->data = (parcel->direct ? buffer : staging) + parcel->offset;
}

void shoal_motion_pack(const shoal_motion_t *motion, const void *input, void *output, void *staging,
                       shoal_message_t *sends, shoal_message_t *recvs) {
  if (motion->clear && !motion->wide) {  // before anything is received into it
    shoal_reduce_fill(motion->dtype, motion->reduce, motion->output_count, output);
  }
  for (int32_t i = 0; i < motion->send_count; ++i) {
    const shoal_parcel_t *parcel = &motion->sends[i];
    set_message(motion, parcel, (char *)(uintptr_t)input, staging, &sends[i]);
    if (parcel->direct) continue;
    shoal_pieces_copy(motion->dtype, parcel->piece_count, parcel->pieces, input, sends[i].data);
  }
  for (int32_t i = 0; i < motion->recv_count; ++i) {
    set_message(motion, &motion->recvs[i], output, staging, &recvs[i]);
  }
}

void shoal_motion_begin(const shoal_motion_t *motion, const void *input, void *output) {
  for (int64_t i = 0; !motion->adds && i < motion->step_count; ++i) {
    const shoal_step_t *step = &motion->steps[i];
    if (step->recv >= 0) continue;
    shoal_pieces_copy(motion->dtype, step->piece_count, step->pieces, input, output);
  }
}

void shoal_motion_finish(const shoal_motion_t *motion, const void *input, void *output,
                         const shoal_message_t *recvs, float *scratch) {
  const bool unset = motion->clear || motion->zero_count > 0;
  if (motion->wide && unset) {
    shoal_reduce_fill(SHOAL_F32, motion->reduce, motion->output_count, scratch);
  }
  for (int64_t i = 0; i < motion->step_count; ++i) {
    const shoal_step_t *step = &motion->steps[i];
    const bool local = step->recv < 0;
    const void *from = local ? input : recvs[step->recv].data;
    if (motion->wide) {
      // Cleared elements may come before a step that adds to some of its own only.
      shoal_pieces_widen(motion->dtype, motion->reduce, step->add, step->piece_count, step->pieces,
                         from, scratch);
    } else if (step->add) {
      shoal_pieces_join(motion->dtype, motion->reduce, step->piece_count, step->pieces, from,
                        output);
    } else if (local ? motion->adds : !motion->recvs[step->recv].direct) {
      shoal_pieces_copy(motion->dtype, step->piece_count, step->pieces, from, output);
    }
  }
  if (motion->wide) {
    uint16_t *to = output;
    const bool bf16 = motion->dtype == SHOAL_BF16;
    for (int64_t i = 0; i < motion->output_count; ++i) {
      to[i] = bf16 ? shoal_f32_to_bf16(scratch[i]) : shoal_f32_to_f16(scratch[i]);
    }
  } else {
    shoal_pieces_zero(motion->dtype, motion->zero_count, motion->zeros, output);
  }
}

// ---- between ranks --------------------------------------------------------------------

shoal_status_t shoal_carrier_init(shoal_world_t *world, const shoal_motion_t *motion, int32_t tag,
                                  shoal_arena_t *arena, shoal_carrier_t *out_carrier) {
  *out_carrier = (shoal_carrier_t){
      .world = world,
      .motion = motion,
      .sends = SHOAL_NEW(arena, shoal_message_t, motion->send_count),
      .recvs = SHOAL_NEW(arena, shoal_message_t, motion->recv_count),
  };
  if (!out_carrier->sends || !out_carrier->recvs) return SHOAL_OOM();
  for (int32_t i = 0; i < motion->send_count; ++i) out_carrier->sends[i].tag = tag;
  for (int32_t i = 0; i < motion->recv_count; ++i) out_carrier->recvs[i].tag = tag;
  return NULL;
}

shoal_collective_t shoal_motion_collective(const shoal_motion_t *motion, const void *input,
                                           void *output) {
  shoal_collective_t call = {
      .dtype = motion->dtype, .reduce = motion->reduce, .send = input, .recv = output};
  if (motion->kind == SHOAL_RESHARD_ALL_GATHER) {
    call.kind = SHOAL_COLLECTIVE_ALL_GATHER;
    call.recv_counts = motion->counts;
  } else if (motion->kind == SHOAL_RESHARD_REDUCE_SCATTER) {
    call.kind = SHOAL_COLLECTIVE_REDUCE_SCATTER;
    call.send_counts = motion->counts;
  } else {
    call.kind = SHOAL_COLLECTIVE_ALL_REDUCE;
    call.count = motion->output_count;
  }
  return call;
}

static shoal_status_t start_messages(shoal_carrier_t *c, const void *input, void *output) {
  const shoal_motion_t *motion = c->motion;
  if (c->bundle)
    shoal_bundle_pack(c);
  else
    shoal_motion_pack(motion, input, output, c->staging, c->sends, c->recvs);
  if (motion->send_count + motion->recv_count > 0) {
    SHOAL_RETURN_IF_ERROR(
        c->lane ? shoal_lane_exchange_start(c->lane, motion->send_count, c->sends,
                                            motion->recv_count, c->recvs, &c->exchange)
                : shoal_exchange_start(c->world, motion->send_count, c->sends, motion->recv_count,
                                       c->recvs, &c->exchange));
  }
  if (c->bundle)
    shoal_bundle_begin(c);
  else
    shoal_motion_begin(motion, input, output);
  return NULL;
}

shoal_status_t shoal_carrier_start(shoal_carrier_t *c, const void *input, void *output) {
  if (!c->motion->collective) {
    SHOAL_RETURN_IF_ERROR(start_messages(c, input, output));
  } else if (c->group) {
    const shoal_collective_t collective = shoal_motion_collective(c->motion, input, output);
    SHOAL_RETURN_IF_ERROR(shoal_collective_start(c->group, &collective, &c->request));
  }
  c->busy = true;
  c->input = input;
  c->output = output;
  return NULL;
}

shoal_status_t shoal_carrier_wait(shoal_carrier_t *c) {
  const shoal_motion_t *motion = c->motion;
  c->busy = false;
  if (motion->collective) return c->group ? shoal_request_wait(&c->request) : NULL;
  if (motion->send_count + motion->recv_count > 0) {
    SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&c->exchange));
  }
  if (c->bundle) {
    shoal_bundle_finish(c);
    return NULL;
  }
  float *wide = motion->wide ? (float *)(void *)((char *)c->staging + motion->wide_at) : NULL;
  shoal_motion_finish(motion, c->input, c->output, c->recvs, wide);
  return NULL;
}

shoal_status_t shoal_carrier_run(shoal_carrier_t *c, const void *input, void *output) {
  if (!c->motion->collective) {
    SHOAL_RETURN_IF_ERROR(shoal_carrier_start(c, input, output));
    return shoal_carrier_wait(c);
  }
  if (!c->group) return NULL;
  if (c->bundle) shoal_bundle_pack(c);
  const shoal_collective_t collective =
      c->bundle ? shoal_bundle_collective(c) : shoal_motion_collective(c->motion, input, output);
  SHOAL_RETURN_IF_ERROR(shoal_collective_run(c->group, &collective));
  if (c->bundle) shoal_bundle_finish(c);
  return NULL;
}

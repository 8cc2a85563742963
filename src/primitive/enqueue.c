// Carriers on a device's queue: one host call where the host sees the device's memory, else the
// same steps as copies on the device around communication that is enqueued.
#include "base/dtype.h"
#include "base/status.h"
#include "primitive/carrier.h"

// ---- one host call --------------------------------------------------------------------

static shoal_status_t view(const shoal_carrier_device_t *on, shoal_address_t address, int64_t bytes,
                           void **out_data) {
  *out_data = NULL;
  if (address == 0 || bytes == 0) return NULL;
  *out_data = shoal_device_view(on->device, address, bytes);
  if (*out_data) return NULL;
  return SHOAL_ERROR(UNSUPPORTED, "the host cannot read memory of device '%s'",
                     shoal_device_kind(on->device));
}

static shoal_status_t view_both(const shoal_carrier_device_t *on, const shoal_motion_t *motion,
                                shoal_address_t input, shoal_address_t output, void **out_input,
                                void **out_output) {
  const int64_t element = (int64_t)shoal_dtype_size(motion->dtype);
  SHOAL_RETURN_IF_ERROR(view(on, input, motion->input_count * element, out_input));
  return view(on, output, motion->output_count * element, out_output);
}

static shoal_status_t run_viewed(shoal_carrier_t *c) {
  const shoal_carrier_device_t *on = c->on;
  const shoal_motion_t *motion = c->motion;
  void *input = NULL, *output = NULL;
  if (!c->bundle) {
    SHOAL_RETURN_IF_ERROR(view_both(on, motion, on->input, on->output, &input, &output));
  }
  for (int32_t i = 0; c->bundle && i < c->bundle->count; ++i) {
    shoal_carrier_part_t *part = &c->parts[i];
    void *from;
    SHOAL_RETURN_IF_ERROR(
        view_both(on, part->motion, part->input_at, part->output_at, &from, &part->output));
    part->input = from;
  }
  if (shoal_motion_only_sends(motion)) {
    SHOAL_RETURN_IF_ERROR(shoal_carrier_drain(c));
    SHOAL_RETURN_IF_ERROR(shoal_carrier_start(c, input, output));
    shoal_world_stir(c->world);
    return NULL;
  }
  SHOAL_RETURN_IF_ERROR(view(on, on->workspace, motion->staging, &c->staging));
  return shoal_carrier_run(c, input, output);
}

static shoal_status_t run(void *self) {
  shoal_carrier_t *c = self;
  shoal_record_begun(c->world);
  shoal_comm_label(c->label);
  shoal_status_t status = run_viewed(c);
  shoal_comm_label(NULL);
  return c->what ? shoal_status_annotate(status, c->what) : status;
}

// ---- copies on the device -------------------------------------------------------------

typedef struct copies {
  shoal_arena_t *arena;
  const shoal_carrier_device_t *on;
  shoal_address_t input, output;  // of the value
  SHOAL_VEC(shoal_copy_t) items;
} copies_t;

static shoal_status_t add(copies_t *copies, const shoal_copy_t *copy) {
  if (copy->piece_count == 0) return NULL;
  return SHOAL_PUSH(copies->arena, &copies->items, *copy) ? NULL : SHOAL_OOM();
}

// As shoal_pieces_copy: what would be copied onto itself is left away.
static shoal_status_t add_moved(copies_t *copies, shoal_copy_t copy) {
  if (copy.src != copy.dst) return add(copies, &copy);
  shoal_piece_t *moved = SHOAL_NEW(copies->arena, shoal_piece_t, copy.piece_count);
  if (!moved) return SHOAL_OOM();
  int64_t count = 0;
  for (int64_t i = 0; i < copy.piece_count; ++i) {
    if (!shoal_piece_stays(&copy.pieces[i])) moved[count++] = copy.pieces[i];
  }
  copy.pieces = moved;
  copy.piece_count = count;
  return add(copies, &copy);
}

// A copy of everything, from the start on.
static shoal_status_t add_dense(copies_t *copies, int64_t count, shoal_copy_t copy) {
  shoal_piece_t *piece = SHOAL_NEW(copies->arena, shoal_piece_t, 1);
  if (!piece) return SHOAL_OOM();
  *piece = (shoal_piece_t){.rank = 1, .size = {count}, .src_stride = {1}, .dst_stride = {1}};
  copy.pieces = piece;
  copy.piece_count = count > 0;
  return add(copies, &copy);
}

static shoal_address_t place_of(const shoal_carrier_device_t *on, const shoal_parcel_t *parcel,
                                shoal_address_t buffer) {
  return (parcel->direct ? buffer : on->workspace) + (shoal_address_t)parcel->offset;
}

// What shoal_motion_pack and shoal_motion_begin do.
static shoal_status_t build_before(const shoal_motion_t *motion, copies_t *copies) {
  const shoal_carrier_device_t *on = copies->on;
  if (motion->clear && !motion->wide) {
    SHOAL_RETURN_IF_ERROR(add_dense(
        copies, motion->output_count,
        (shoal_copy_t){.dst = copies->output, .dtype = motion->dtype, .reduce = motion->reduce}));
  }
  for (int32_t i = 0; i < motion->send_count; ++i) {
    const shoal_parcel_t *parcel = &motion->sends[i];
    if (parcel->direct) continue;
    SHOAL_RETURN_IF_ERROR(add(copies, &(shoal_copy_t){.src = copies->input,
                                                      .dst = place_of(on, parcel, 0),
                                                      .dtype = motion->dtype,
                                                      .piece_count = parcel->piece_count,
                                                      .pieces = parcel->pieces}));
  }
  return NULL;
}

// What shoal_motion_begin and shoal_motion_finish do.
static shoal_status_t build_after(const shoal_motion_t *motion, copies_t *copies) {
  const shoal_carrier_device_t *on = copies->on;
  const shoal_address_t wide = on->workspace + (shoal_address_t)motion->wide_at;
  const bool unset = motion->clear || motion->zero_count > 0;
  if (motion->wide && unset) {
    SHOAL_RETURN_IF_ERROR(
        add_dense(copies, motion->output_count,
                  (shoal_copy_t){.dst = wide, .dtype = SHOAL_F32, .reduce = motion->reduce}));
  }
  for (int64_t i = 0; i < motion->step_count; ++i) {
    const shoal_step_t *step = &motion->steps[i];
    const bool local = step->recv < 0;
    const shoal_copy_t copy = {
        .src = local ? copies->input : place_of(on, &motion->recvs[step->recv], copies->output),
        .dst = motion->wide ? wide : copies->output,
        .dtype = motion->dtype,
        .accumulate = step->add,
        .reduce = motion->reduce,
        .widen = motion->wide,
        .piece_count = step->piece_count,
        .pieces = step->pieces};
    if (motion->wide || step->add) {
      SHOAL_RETURN_IF_ERROR(add(copies, &copy));
    } else if (local || !motion->recvs[step->recv].direct) {
      SHOAL_RETURN_IF_ERROR(add_moved(copies, copy));
    }
  }
  if (motion->wide) {
    return add_dense(
        copies, motion->output_count,
        (shoal_copy_t){.src = wide, .dst = copies->output, .dtype = motion->dtype, .narrow = true});
  }
  return add(copies, &(shoal_copy_t){.dst = copies->output,
                                     .dtype = motion->dtype,
                                     .reduce = SHOAL_REDUCE_SUM,
                                     .piece_count = motion->zero_count,
                                     .pieces = motion->zeros});
}

// A collective's values, packed or unpacked.
static shoal_status_t build_ranges(const shoal_carrier_t *c, int64_t count,
                                   const shoal_bundle_range_t *ranges, bool pack,
                                   copies_t *copies) {
  for (int64_t i = 0; i < count; ++i) {
    const shoal_bundle_range_t *range = &ranges[i];
    const shoal_carrier_part_t *part = &c->parts[range->value];
    const shoal_dtype_t dtype = part->motion->dtype;
    const int64_t at = range->at * (int64_t)shoal_dtype_size(dtype);
    const shoal_address_t own = (pack ? part->input_at : part->output_at) + (shoal_address_t)at;
    const shoal_address_t packed = copies->on->workspace + (shoal_address_t)range->offset;
    SHOAL_RETURN_IF_ERROR(add_dense(
        copies, range->count,
        (shoal_copy_t){.src = pack ? own : packed, .dst = pack ? packed : own, .dtype = dtype}));
  }
  return NULL;
}

static shoal_status_t build_values(const shoal_carrier_t *c, copies_t *before, copies_t *after) {
  if (!c->bundle) {
    SHOAL_RETURN_IF_ERROR(build_before(c->motion, before));
    return build_after(c->motion, after);
  }
  if (c->motion->collective) {
    SHOAL_RETURN_IF_ERROR(build_ranges(c, c->bundle->pack_count, c->bundle->packs, true, before));
    return build_ranges(c, c->bundle->unpack_count, c->bundle->unpacks, false, after);
  }
  for (int32_t i = 0; i < c->bundle->count; ++i) {
    const shoal_carrier_part_t *part = &c->parts[i];
    before->input = after->input = part->input_at;
    before->output = after->output = part->output_at;
    SHOAL_RETURN_IF_ERROR(build_before(part->motion, before));
    SHOAL_RETURN_IF_ERROR(build_after(part->motion, after));
  }
  return NULL;
}

static shoal_status_t build_copies(shoal_carrier_t *c, shoal_arena_t *arena) {
  shoal_carrier_device_t *on = c->on;
  copies_t before = {.arena = arena, .on = on, .input = on->input, .output = on->output};
  copies_t after = before;
  SHOAL_RETURN_IF_ERROR(build_values(c, &before, &after));
  for (int64_t i = 0; i < before.items.count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_copy_prepare(on->device, arena, &before.items.items[i]));
  }
  for (int64_t i = 0; i < after.items.count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_copy_prepare(on->device, arena, &after.items.items[i]));
  }
  on->before = before.items.items;
  on->before_count = before.items.count;
  on->after = after.items.items;
  on->after_count = after.items.count;
  return NULL;
}

// ---- binding --------------------------------------------------------------------------

static shoal_status_t bind_messages(shoal_carrier_t *c, shoal_arena_t *arena) {
  const shoal_motion_t *motion = c->motion;
  shoal_carrier_device_t *on = c->on;
  shoal_address_t *send_at = SHOAL_NEW(arena, shoal_address_t, motion->send_count);
  shoal_address_t *recv_at = SHOAL_NEW(arena, shoal_address_t, motion->recv_count);
  if (!send_at || !recv_at) return SHOAL_OOM();
  const int64_t element = (int64_t)shoal_dtype_size(motion->dtype);
  for (int32_t i = 0; i < motion->send_count; ++i) {
    c->sends[i].peer = motion->sends[i].peer;
    c->sends[i].bytes = motion->sends[i].count * element;
    send_at[i] = place_of(on, &motion->sends[i], on->input);
  }
  for (int32_t i = 0; i < motion->recv_count; ++i) {
    c->recvs[i].peer = motion->recvs[i].peer;
    c->recvs[i].bytes = motion->recvs[i].count * element;
    recv_at[i] = place_of(on, &motion->recvs[i], on->output);
  }
  on->work.lane = c->lane;
  on->work.send_count = motion->send_count;
  on->work.recv_count = motion->recv_count;
  on->work.sends = c->sends;
  on->work.recvs = c->recvs;
  on->work.send_at = send_at;
  on->work.recv_at = recv_at;
  on->work.posts = shoal_motion_only_sends(motion);
  return build_copies(c, arena);
}

shoal_status_t shoal_carrier_bind(shoal_carrier_t *c, shoal_device_t *device, shoal_address_t input,
                                  shoal_address_t output, shoal_address_t workspace,
                                  shoal_arena_t *arena) {
  shoal_carrier_device_t *on = SHOAL_NEW(arena, shoal_carrier_device_t, 1);
  if (!on) return SHOAL_OOM();
  *on = (shoal_carrier_device_t){
      .device = device, .input = input, .output = output, .workspace = workspace};
  on->viewed = shoal_work_way(c->world, device) == SHOAL_WORK_VIEWED;
  c->on = on;
  if (on->viewed || (c->motion->collective && !c->group)) return NULL;
  on->work.world = c->world;
  on->work.label = c->label;
  on->work.what = c->what;
  if (c->motion->collective) {
    on->work.group = c->group;
    on->work.collective = shoal_motion_collective(c->motion, NULL, NULL);
    on->work.send = input;
    on->work.recv = output;
    if (c->bundle) {
      on->work.send = workspace + (shoal_address_t)c->bundle->send_at;
      on->work.recv = workspace + (shoal_address_t)c->bundle->recv_at;
      SHOAL_RETURN_IF_ERROR(build_copies(c, arena));
    }
  } else {
    SHOAL_RETURN_IF_ERROR(bind_messages(c, arena));
  }
  return shoal_work_prepare(device, &on->work);
}

shoal_status_t shoal_carrier_bind_bundle(shoal_carrier_t *c, shoal_device_t *device,
                                         const shoal_address_t *inputs,
                                         const shoal_address_t *outputs, shoal_address_t workspace,
                                         shoal_arena_t *arena) {
  if (!c->bundle) {
    return shoal_carrier_bind(c, device, inputs[0], outputs[0], workspace, arena);
  }
  for (int32_t i = 0; i < c->bundle->count; ++i) {
    c->parts[i].input_at = inputs[i];
    c->parts[i].output_at = outputs[i];
  }
  return shoal_carrier_bind(c, device, 0, 0, workspace, arena);
}

int64_t shoal_carrier_bounce(const shoal_carrier_t *c) {
  return c->on->work.bounce_bytes;
}

int64_t shoal_carrier_commands(const shoal_carrier_t *c) {
  const shoal_carrier_device_t *on = c->on;
  return on->viewed ? 1 : on->before_count + on->after_count + shoal_work_commands(&on->work);
}

shoal_status_t shoal_carrier_enqueue(shoal_carrier_t *c, shoal_queue_t *queue) {
  shoal_carrier_device_t *on = c->on;
  if (c->motion->collective && !c->group) return NULL;
  if (on->viewed) {
    shoal_record_enqueued(c->world);
    shoal_status_t status = shoal_queue_call(queue, run, c);
    if (status) shoal_record_begun(c->world);
    return status;
  }
  for (int64_t i = 0; i < on->before_count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_queue_copy(queue, &on->before[i]));
  }
  SHOAL_RETURN_IF_ERROR(shoal_work_enqueue(&on->work, queue));
  for (int64_t i = 0; i < on->after_count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_queue_copy(queue, &on->after[i]));
  }
  return NULL;
}

shoal_status_t shoal_carrier_drain(shoal_carrier_t *c) {
  if (!c->on) return NULL;
  if (!c->busy) return shoal_work_wait(&c->on->work);
  c->busy = false;
  return shoal_exchange_wait(&c->exchange);  // what only sends has nothing to do afterwards
}

void shoal_carrier_unbind(shoal_carrier_t *c) {
  if (!c->on) return;
  shoal_work_deinit(&c->on->work);
  c->on = NULL;
}

// Bundles on memory of the host: each value is packed and unpacked as its motion says, and all of
// them travel together.
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "primitive/carrier.h"

shoal_status_t shoal_carrier_init_bundle(shoal_world_t *world, const shoal_bundle_t *bundle,
                                         int32_t tag, shoal_arena_t *arena,
                                         shoal_carrier_t *out_carrier) {
  SHOAL_RETURN_IF_ERROR(shoal_carrier_init(world, &bundle->whole, tag, arena, out_carrier));
  if (bundle->count == 1) return NULL;
  shoal_carrier_part_t *parts = SHOAL_NEW(arena, shoal_carrier_part_t, bundle->count);
  if (!parts) return SHOAL_OOM();
  for (int32_t i = 0; i < bundle->count; ++i) {
    const shoal_motion_t *motion = &bundle->motions[i];
    parts[i] =
        (shoal_carrier_part_t){.motion = motion,
                               .sends = SHOAL_NEW(arena, shoal_message_t, motion->send_count),
                               .recvs = SHOAL_NEW(arena, shoal_message_t, motion->recv_count)};
    if (!parts[i].sends || !parts[i].recvs) return SHOAL_OOM();
  }
  out_carrier->bundle = bundle;
  out_carrier->parts = parts;
  return NULL;
}

static void copy_range(const shoal_carrier_t *c, const shoal_bundle_range_t *range, bool pack) {
  const shoal_carrier_part_t *part = &c->parts[range->value];
  const int64_t element = (int64_t)shoal_dtype_size(part->motion->dtype);
  const size_t bytes = (size_t)(range->count * element);
  char *packed = (char *)c->staging + range->offset;
  if (pack)
    memcpy(packed, (const char *)part->input + range->at * element, bytes);
  else
    memcpy((char *)part->output + range->at * element, packed, bytes);
}

void shoal_bundle_pack(shoal_carrier_t *c) {
  const shoal_bundle_t *bundle = c->bundle;
  for (int64_t i = 0; i < bundle->pack_count; ++i) copy_range(c, &bundle->packs[i], true);
  if (bundle->whole.collective) return;
  for (int32_t i = 0; i < bundle->count; ++i) {
    const shoal_carrier_part_t *part = &c->parts[i];
    shoal_motion_pack(part->motion, part->input, part->output, c->staging, part->sends,
                      part->recvs);
  }
  shoal_motion_pack(&bundle->whole, NULL, NULL, c->staging, c->sends, c->recvs);
}

void shoal_bundle_begin(const shoal_carrier_t *c) {
  for (int32_t i = 0; i < c->bundle->count; ++i) {
    const shoal_carrier_part_t *part = &c->parts[i];
    shoal_motion_begin(part->motion, part->input, part->output);
  }
}

void shoal_bundle_finish(const shoal_carrier_t *c) {
  const shoal_bundle_t *bundle = c->bundle;
  for (int64_t i = 0; i < bundle->unpack_count; ++i) copy_range(c, &bundle->unpacks[i], false);
  if (bundle->whole.collective) return;
  for (int32_t i = 0; i < bundle->count; ++i) {
    const shoal_carrier_part_t *part = &c->parts[i];
    const shoal_motion_t *motion = part->motion;
    float *wide = motion->wide ? (float *)(void *)((char *)c->staging + motion->wide_at) : NULL;
    shoal_motion_finish(motion, part->input, part->output, part->recvs, wide);
  }
}

shoal_collective_t shoal_bundle_collective(const shoal_carrier_t *c) {
  return shoal_motion_collective(&c->bundle->whole, (char *)c->staging + c->bundle->send_at,
                                 (char *)c->staging + c->bundle->recv_at);
}

// See bundle.h. Both ends of a message, and all ranks of a collective, pack alike: they go through
// the values in one order, those with the largest elements first. So elements of any type are
// aligned, without gaps, where every part of the packed buffer starts aligned.
#include "layout/bundle.h"

#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "layout/layout_impl.h"

enum { ALIGNMENT = 64, LARGEST = 8 };  // of messages in the staging memory; of an element

// ---- what goes together -----------------------------------------------------------------

static const char *difference(const shoal_reshard_facts_t *a, const shoal_reshard_facts_t *b,
                              bool same_dtype) {
  if (a->collective != b->collective) return "one is a collective and the other is messages";
  if (!a->collective) return NULL;
  if (a->kind != b->kind) return "they are different collectives";
  if (memcmp(a->axes, b->axes, sizeof a->axes) != 0) return "they are of different groups";
  if (a->kind == SHOAL_RESHARD_ALL_GATHER) return NULL;
  if (a->reduce != b->reduce) return "they reduce differently";
  return same_dtype ? NULL : "they reduce different types of elements";
}

shoal_status_t shoal_bundle_check(int32_t count, const shoal_reshard_facts_t *facts,
                                  const shoal_dtype_t *dtypes, const int32_t *names) {
  for (int32_t i = 1; i < count; ++i) {
    const char *differs = difference(&facts[0], &facts[i], dtypes[0] == dtypes[i]);
    if (!differs) continue;
    return SHOAL_ERROR_HINT(MISMATCH, "give them reshards of their own",
                            "channels %d and %d cannot be carried together: %s", names[0], names[i],
                            differs);
  }
  return NULL;
}

// ---- packing ----------------------------------------------------------------------------

typedef struct packer {
  int32_t count;
  shoal_motion_t *motions;
  int32_t *order;  // of the values
  bool mixed;      // types
  shoal_arena_t *arena;
  int64_t end;  // of the staging memory so far
} packer_t;

static int64_t element_of(const shoal_motion_t *motion) {
  return (int64_t)shoal_dtype_size(motion->dtype);
}

static void find_order(packer_t *p) {
  int32_t found = 0;
  for (int64_t size = LARGEST; size > 0; size /= 2) {
    for (int32_t i = 0; i < p->count; ++i) {
      if (element_of(&p->motions[i]) == size) p->order[found++] = i;
      p->mixed |= p->motions[i].dtype != p->motions[0].dtype;
    }
  }
}

static shoal_status_t too_large(void) {
  return SHOAL_ERROR(INVALID_ARGUMENT, "the messages of a reshard fit no memory");
}

// Takes room for `count` elements.
static shoal_status_t take(packer_t *p, shoal_dtype_t dtype, int64_t count, int64_t *out_start) {
  int64_t bytes;
  SHOAL_RETURN_IF_ERROR(shoal_dtype_bytes(dtype, count, &bytes));
  *out_start = p->end;
  return __builtin_add_overflow(p->end, bytes, &p->end) ? too_large() : NULL;
}

static shoal_status_t align(packer_t *p, int64_t alignment) {
  if (p->end > INT64_MAX - alignment) return too_large();
  p->end = (p->end + alignment - 1) / alignment * alignment;
  return NULL;
}

// ---- collectives ------------------------------------------------------------------------

// The group of this rank; all of its values have the same, or none where their parts are empty.
static shoal_status_t find_group(const packer_t *p, shoal_motion_t *whole) {
  for (int32_t i = 0; i < p->count; ++i) {
    const shoal_motion_t *motion = &p->motions[i];
    if (motion->group_count == 0) continue;
    if (whole->group_count == 0) {
      whole->group_count = motion->group_count;
      whole->group = motion->group;
    }
    if (whole->group_count != motion->group_count ||
        memcmp(whole->group, motion->group, sizeof *whole->group * (size_t)whole->group_count))
      return SHOAL_ERROR(INTERNAL, "values of one reshard have different groups");
  }
  return NULL;
}

// Elements of the value in a part of the packed buffer. An all-reduce has one part.
static int64_t part_of(const shoal_motion_t *motion, int32_t part) {
  if (motion->group_count == 0) return 0;
  return motion->kind == SHOAL_RESHARD_ALL_REDUCE ? motion->output_count : motion->counts[part];
}

// Part by part, and in each of them value by value: what goes to a rank, or comes from it, is
// dense. A rank's own part lies where it belongs, and needs no room besides.
static shoal_status_t plan_collective(packer_t *p, int32_t rank, shoal_bundle_t *bundle) {
  shoal_motion_t *whole = &bundle->whole;
  SHOAL_RETURN_IF_ERROR(find_group(p, whole));
  const bool reduces = whole->kind == SHOAL_RESHARD_ALL_REDUCE;
  const int32_t parts = whole->group_count == 0 ? 0 : reduces ? 1 : whole->group_count;
  int64_t *counts = SHOAL_NEW(p->arena, int64_t, parts);
  int64_t *at = SHOAL_NEW(p->arena, int64_t, p->count);  // of each value so far
  shoal_bundle_range_t *all = SHOAL_NEW(p->arena, shoal_bundle_range_t, (int64_t)parts * p->count);
  shoal_bundle_range_t *own = SHOAL_NEW(p->arena, shoal_bundle_range_t, p->count);
  if (!counts || !at || !all || !own) return SHOAL_OOM();
  int64_t all_count = 0, own_count = 0, own_at = 0;
  for (int32_t part = 0; part < parts; ++part) {
    const int64_t start = p->end;
    const bool mine = !reduces && whole->group[part] == rank;
    if (mine) own_at = start;
    for (int32_t k = 0; k < p->count; ++k) {
      const int32_t i = p->order[k];
      shoal_bundle_range_t range = {
          .value = i, .at = at[i], .count = part_of(&p->motions[i], part)};
      SHOAL_RETURN_IF_ERROR(take(p, p->motions[i].dtype, range.count, &range.offset));
      at[i] += range.count;
      counts[part] += range.count;
      if (range.count == 0) continue;
      all[all_count++] = range;
      range.at = 0;
      if (mine) own[own_count++] = range;
    }
    if (!p->mixed) continue;
    SHOAL_RETURN_IF_ERROR(align(p, LARGEST));
    counts[part] = p->end - start;
  }
  const bool scatters = whole->kind == SHOAL_RESHARD_REDUCE_SCATTER;
  bundle->packs = reduces || scatters ? all : own;
  bundle->pack_count = reduces || scatters ? all_count : own_count;
  bundle->unpacks = scatters ? own : all;
  bundle->unpack_count = scatters ? own_count : all_count;
  bundle->send_at = reduces || scatters ? 0 : own_at;
  bundle->recv_at = scatters ? own_at : 0;
  if (p->mixed) whole->dtype = SHOAL_U8;
  whole->counts = counts;
  whole->input_count = whole->output_count = 0;
  if (reduces && parts > 0) whole->input_count = whole->output_count = counts[0];
  return align(p, ALIGNMENT);
}

// ---- messages ---------------------------------------------------------------------------

// One direction. `numbers`: by peer, 1 + the number of its message; zeroed.
static shoal_status_t join_messages(packer_t *p, bool sends, int32_t *numbers,
                                    shoal_motion_t *whole) {
  int64_t most = 0;
  shoal_parcel_t **own = SHOAL_NEW(p->arena, shoal_parcel_t *, p->count);
  if (!own) return SHOAL_OOM();
  for (int32_t i = 0; i < p->count; ++i) {
    shoal_motion_t *motion = &p->motions[i];
    const int32_t count = sends ? motion->send_count : motion->recv_count;
    own[i] = shoal_arena_copy(p->arena, sends ? motion->sends : motion->recvs, (size_t)count,
                              sizeof *own[i]);
    if (!own[i]) return SHOAL_OOM();
    *(sends ? &motion->sends : &motion->recvs) = own[i];
    most += count;
  }
  shoal_parcel_t *joined = SHOAL_NEW(p->arena, shoal_parcel_t, most);
  if (!joined) return SHOAL_OOM();
  int32_t found = 0;
  // First the sizes, then the places: `offset` counts the bytes that were placed.
  for (int pass = 0; pass < 2; ++pass) {
    for (int32_t k = 0; k < p->count; ++k) {
      const shoal_motion_t *motion = &p->motions[p->order[k]];
      const int32_t count = sends ? motion->send_count : motion->recv_count;
      for (int32_t i = 0; i < count; ++i) {
        shoal_parcel_t *parcel = &own[p->order[k]][i];
        if (numbers[parcel->peer] == 0) {
          joined[found] = (shoal_parcel_t){.peer = parcel->peer};
          numbers[parcel->peer] = ++found;
        }
        shoal_parcel_t *message = &joined[numbers[parcel->peer] - 1];
        int64_t bytes;
        SHOAL_RETURN_IF_ERROR(shoal_dtype_bytes(motion->dtype, parcel->count, &bytes));
        if (pass == 0 && __builtin_add_overflow(message->count, bytes, &message->count))
          return too_large();
        if (pass == 0) continue;
        parcel->direct = false;
        parcel->offset = message->offset;
        message->offset += bytes;
      }
    }
    for (int32_t i = 0; i < found; ++i) {
      if (pass == 1) {
        joined[i].offset -= joined[i].count;
        continue;
      }
      SHOAL_RETURN_IF_ERROR(take(p, SHOAL_U8, joined[i].count, &joined[i].offset));
      SHOAL_RETURN_IF_ERROR(align(p, ALIGNMENT));
    }
  }
  *(sends ? &whole->sends : &whole->recvs) = joined;
  *(sends ? &whole->send_count : &whole->recv_count) = found;
  return NULL;
}

static shoal_status_t plan_messages(packer_t *p, shoal_motion_t *whole) {
  int32_t last = 0;
  for (int32_t i = 0; i < p->count; ++i) {
    const shoal_motion_t *motion = &p->motions[i];
    for (int32_t k = 0; k < motion->send_count; ++k)
      if (motion->sends[k].peer > last) last = motion->sends[k].peer;
    for (int32_t k = 0; k < motion->recv_count; ++k)
      if (motion->recvs[k].peer > last) last = motion->recvs[k].peer;
  }
  *whole = (shoal_motion_t){.dtype = SHOAL_U8, .kind = SHOAL_RESHARD_BETWEEN};
  for (int way = 0; way < 2; ++way) {
    shoal_arena_t scratch;
    shoal_arena_init(p->arena->allocator, &scratch);
    int32_t *numbers = SHOAL_NEW(&scratch, int32_t, last + 1);
    shoal_status_t status = numbers ? join_messages(p, way == 0, numbers, whole) : SHOAL_OOM();
    shoal_arena_deinit(&scratch);
    SHOAL_RETURN_IF_ERROR(status);
  }
  for (int32_t i = 0; i < p->count; ++i) {
    shoal_motion_t *motion = &p->motions[i];
    motion->staging = 0;
    if (!motion->wide) continue;
    SHOAL_RETURN_IF_ERROR(take(p, SHOAL_F32, motion->output_count, &motion->wide_at));
    SHOAL_RETURN_IF_ERROR(align(p, ALIGNMENT));
  }
  return NULL;
}

// ---- all together -----------------------------------------------------------------------

shoal_status_t shoal_bundle_plan(int32_t count, shoal_motion_t *motions, int32_t rank,
                                 shoal_arena_t *arena, shoal_bundle_t *out_bundle) {
  *out_bundle = (shoal_bundle_t){.count = count, .motions = motions, .whole = motions[0]};
  if (count == 1) return NULL;
  packer_t p = {.count = count, .motions = motions, .arena = arena};
  p.order = SHOAL_NEW(arena, int32_t, count);
  if (!p.order) return SHOAL_OOM();
  find_order(&p);
  shoal_motion_t *whole = &out_bundle->whole;
  whole->group_count = 0;
  SHOAL_RETURN_IF_ERROR(whole->collective ? plan_collective(&p, rank, out_bundle)
                                          : plan_messages(&p, whole));
  whole->staging = p.end;
  return NULL;
}

bool shoal_bundle_is_idle(const shoal_bundle_t *bundle) {
  if (bundle->whole.collective) return bundle->whole.group_count == 0;
  for (int32_t i = 0; i < bundle->count; ++i) {
    if (!shoal_motion_is_idle(&bundle->motions[i])) return false;
  }
  return true;
}

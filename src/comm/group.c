// Groups: ordered lists of a world's ranks, each with a stream and the storage composed
// collectives need.
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "comm/comm_impl.h"

shoal_status_t shoal_world_count(shoal_world_t *world, uint64_t hash, uint64_t *out_ordinal) {
  shoal_mutex_lock(&world->lock);
  shoal_stream_count_t *entry = world->stream_counts;
  while (entry && entry->hash != hash) entry = entry->next;
  if (!entry) {
    entry = world->allocator.alloc(world->allocator.self, sizeof *entry);
    if (entry) {
      *entry = (shoal_stream_count_t){.hash = hash, .next = world->stream_counts};
      world->stream_counts = entry;
    }
  }
  *out_ordinal = entry ? entry->count++ : 0;
  shoal_mutex_unlock(&world->lock);
  return entry ? NULL : SHOAL_OOM();
}

// Groups of the same ranks, made in the same order on each of them, get the same stream id without
// a message: a hash of the lane, the ranks, and how many such groups were made before.
static shoal_status_t stream_id(shoal_world_t *world, const shoal_lane_t *lane, int32_t count,
                                const int32_t *ranks, uint64_t *out_id, uint64_t *out_ordinal) {
  uint64_t hash = SHOAL_HASH_START;
  if (lane) hash = shoal_hash_int(hash, (int64_t)lane->stream->id);
  for (int32_t i = 0; i < count; ++i) hash = shoal_hash_int(hash, ranks[i]);
  SHOAL_RETURN_IF_ERROR(shoal_world_count(world, hash, out_ordinal));
  const uint64_t id = shoal_hash_int(hash, (int64_t)*out_ordinal);
  *out_id = id ? id : 1;  // 0 is the exchanges' stream
  return NULL;
}

static shoal_status_t check_ranks(const shoal_world_t *world, int32_t count, const int32_t *ranks) {
  for (int32_t i = 0; i < count; ++i) {
    if (ranks[i] < 0 || ranks[i] >= world->size) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "rank %d is not in a world of %d", ranks[i],
                         world->size);
    }
    for (int32_t j = 0; j < i; ++j) {
      if (ranks[j] == ranks[i]) {
        return SHOAL_ERROR(INVALID_ARGUMENT, "rank %d is twice in a group", ranks[i]);
      }
    }
  }
  return NULL;
}

// For reports: "0,1,2", or "0,1,2,.. (64)"; behind it the lane, as " on grads", and " #1" where
// there were such groups before.
static void write_ranks(shoal_group_t *group, const shoal_lane_t *lane, uint64_t ordinal) {
  char *text = group->stream->ranks;
  char end[24] = "", more[40];
  if (lane) snprintf(end, sizeof end, " on %.8s", lane->stream->ranks);
  if (ordinal > 0) {
    const size_t length = strlen(end);
    snprintf(end + length, sizeof end - length, " #%u", (unsigned)(ordinal % 1000));
  }
  snprintf(more, sizeof more, ",.. (%d)%s", group->size, end);
  const size_t room = sizeof group->stream->ranks;
  size_t length = 0;
  for (int32_t i = 0; i < group->size; ++i) {
    char one[16];
    const int wrote = snprintf(one, sizeof one, "%s%d", i > 0 ? "," : "", group->ranks[i]);
    const size_t behind = strlen(i + 1 == group->size ? end : more);
    if (length + (size_t)wrote + behind >= room) {
      snprintf(text + length, room - length, "%s", more);
      return;
    }
    memcpy(text + length, one, (size_t)wrote + 1);
    length += (size_t)wrote;
  }
  snprintf(text + length, room - length, "%s", end);
}

static shoal_status_t create(shoal_world_t *world, const shoal_lane_t *lane, int32_t count,
                             const int32_t *ranks, shoal_group_t **out_group) {
  if (count < 1 || count > world->size) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "a group of %d ranks in a world of %d", count,
                       world->size);
  }
  if (ranks) SHOAL_RETURN_IF_ERROR(check_ranks(world, count, ranks));
  // One block: the group, then its arrays, the widest elements first.
  const size_t n = (size_t)count;
  shoal_group_t *group = world->allocator.alloc(
      world->allocator.self, sizeof *group + n * (2 * sizeof(shoal_message_t) + sizeof(void *) +
                                                  2 * sizeof(int64_t) + sizeof(int32_t)));
  if (!group) return SHOAL_OOM();
  *group = (shoal_group_t){.world = world, .size = count, .rank = -1};
  group->messages = (shoal_message_t *)(group + 1);
  group->sources = (const void **)(group->messages + 2 * n);
  group->counts = (int64_t *)(group->sources + n);
  group->ranks = (int32_t *)(group->counts + 2 * n);
  for (int32_t i = 0; i < count; ++i) {
    group->ranks[i] = ranks ? ranks[i] : i;
    if (group->ranks[i] == world->rank) group->rank = i;
  }
  uint64_t id = 0, ordinal = 0;
  shoal_status_t status = stream_id(world, lane, count, group->ranks, &id, &ordinal);
  if (!status) status = world->ops->stream_create(world, id, &group->stream);
  if (status) {
    world->allocator.free(world->allocator.self, group);
    return status;
  }
  group->stream->collective = true;
  write_ranks(group, lane, ordinal);
  *out_group = group;
  return NULL;
}

shoal_status_t shoal_group_create(shoal_world_t *world, int32_t count, const int32_t *ranks,
                                  shoal_group_t **out_group) {
  return create(world, NULL, count, ranks, out_group);
}

shoal_status_t shoal_lane_group_create(shoal_lane_t *lane, int32_t count, const int32_t *ranks,
                                       shoal_group_t **out_group) {
  return create(lane->world, lane, count, ranks, out_group);
}

void shoal_group_free(shoal_group_t *group) {
  if (!group) return;
  shoal_world_t *world = group->world;
  shoal_async_free(group);
  if (world->ops->group_free) world->ops->group_free(group);
  shoal_stream_t *users = atomic_load(&group->users);
  if (users) world->ops->stream_free(users);
  world->ops->stream_free(group->stream);
  world->allocator.free(world->allocator.self, group->scratch);
  world->allocator.free(world->allocator.self, group);
}

int32_t shoal_group_size(const shoal_group_t *group) {
  return group->size;
}

int32_t shoal_group_rank(const shoal_group_t *group) {
  return group->rank;
}

int32_t shoal_group_world_rank(const shoal_group_t *group, int32_t rank) {
  return rank >= 0 && rank < group->size ? group->ranks[rank] : -1;
}

shoal_status_t shoal_group_reserve(shoal_group_t *group, int64_t bytes) {
  if (bytes <= group->scratch_bytes) return NULL;
  shoal_allocator_t allocator = group->world->allocator;
  allocator.free(allocator.self, group->scratch);
  group->scratch_bytes = 0;
  group->scratch = allocator.alloc(allocator.self, (size_t)bytes);
  if (!group->scratch) return SHOAL_OOM();
  group->scratch_bytes = bytes;
  return NULL;
}

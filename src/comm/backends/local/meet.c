// Meeting places: slots, phases, waiting for members. See meet.h.
#include "comm/backends/local/meet.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/time.h"
#include "comm/backends/local/local.h"

#define SPINS 1000  // looks at a member between looks at the clock, where every rank has a core
#define SPIN_NS INT64_C(100000)  // how long it does so: about what sleeping and waking take
#define YIELDS 8                 // the same where ranks outnumber cores: let the others run

typedef struct slot {
  alignas(64) _Atomic int32_t leaving;  // members that are still there; 0: free
} slot_t;

typedef struct member {
  shoal_meet_post_t posts[2];            // a line each: who sees the phase has the post, too
  alignas(64) _Atomic uint32_t working;  // on others' buffers; threads only
} member_t;
_Static_assert(sizeof(shoal_meet_post_t) == 64, "a post is one cache line");

static int64_t member_bytes(int32_t size) {
  const int64_t bytes =
      (int64_t)sizeof(member_t) + 2 * (size * (int64_t)sizeof(shoal_meet_part_t) + SHOAL_MEET_DATA);
  return (bytes + 63) / 64 * 64;
}

int64_t shoal_meet_slot_bytes(int32_t size) {
  return (int64_t)sizeof(slot_t) + size * member_bytes(size);
}

static inline member_t *member_at(const shoal_group_t *group, int32_t index) {
  const shoal_meet_t *meet = group->backend_data;
  return (member_t *)(meet->slot + sizeof(slot_t) + index * meet->member_bytes);
}

// ---- slots ----------------------------------------------------------------------------

static slot_t *slot_at(shoal_hub_t *hub, int64_t index) {
  return (slot_t *)((uint8_t *)hub + hub->slots_at + index * hub->slot_bytes);
}

// A free slot of this rank's, cleared; -1: there is none. Only this rank takes its slots.
static int64_t take_slot(shoal_local_world_t *world, shoal_group_t *group) {
  shoal_mutex_lock(&world->mutex);
  int64_t found = -1;
  for (int64_t i = 0; i < SHOAL_HUB_SLOTS && found < 0; ++i) {
    const int64_t index = world->base.rank * SHOAL_HUB_SLOTS + i;
    slot_t *slot = slot_at(world->hub, index);
    if (atomic_load(&slot->leaving) != 0) continue;
    for (int32_t m = 0; m < group->size; ++m) {
      member_t *member =
          (member_t *)((uint8_t *)slot + sizeof *slot + m * member_bytes(world->base.size));
      for (int half = 0; half < 2; ++half) atomic_store(&member->posts[half].phase, 0);
      atomic_store(&member->working, 0);
    }
    atomic_store(&slot->leaving, group->size);
    found = index;
  }
  shoal_mutex_unlock(&world->mutex);
  return found;
}

shoal_status_t shoal_meet_open(shoal_group_t *group, int32_t tag, shoal_meet_t **out_meet) {
  shoal_local_world_t *world = (shoal_local_world_t *)group->world;
  shoal_meet_t *meet = group->backend_data;
  *out_meet = meet;
  if (meet) return NULL;
  meet = world->base.allocator.alloc(world->base.allocator.self, sizeof *meet);
  if (!meet) return SHOAL_OOM();
  *meet = (shoal_meet_t){.asked = true, .member_bytes = member_bytes(group->world->size)};
  int64_t index = group->rank == 0 ? take_slot(world, group) : -1;
  // Not the call's tag: that is compared in the first meeting, with what the ranks bring.
  ((shoal_local_stream_t *)group->stream)->meeting = tag;
  shoal_message_t message = {.tag = SHOAL_TAG_MEETING, .bytes = sizeof index, .data = &index};
  shoal_status_t status = NULL;
  if (group->rank == 0) {
    for (int32_t i = 1; i < group->size; ++i) {
      group->messages[i - 1] = message;
      group->messages[i - 1].peer = group->ranks[i];
    }
    status = shoal_stream_exchange(group->stream, group->size - 1, group->messages, 0, NULL);
  } else {
    message.peer = group->ranks[0];
    status = shoal_stream_exchange(group->stream, 0, NULL, 1, &message);
  }
  if (status) {
    world->base.allocator.free(world->base.allocator.self, meet);
    return status;
  }
  if (index >= 0) meet->slot = (uint8_t *)slot_at(world->hub, index);
  group->backend_data = *out_meet = meet;
  return NULL;
}

void shoal_meet_close(shoal_group_t *group) {
  shoal_meet_t *meet = group->backend_data;
  if (!meet) return;
  shoal_local_release(group->world, meet->bounce);
  if (meet->slot) atomic_fetch_sub(&((slot_t *)meet->slot)->leaving, 1);
  group->world->allocator.free(group->world->allocator.self, meet);
  group->backend_data = NULL;
}

// ---- phases ---------------------------------------------------------------------------

// Waiting for members [first, end) to publish a phase; at: the first that has not.
typedef struct waiting {
  const shoal_group_t *group;
  uint32_t phase;
  int32_t at, end;
  int32_t tag;
} waiting_t;

// A phase's half shows that phase until its reader has published the next one.
static bool has_come(void *self, int32_t *out_missing) {
  waiting_t *w = self;
  for (; w->at < w->end; ++w->at) {
    if (w->at == w->group->rank) continue;
    const uint32_t phase = atomic_load(&member_at(w->group, w->at)->posts[w->phase % 2].phase);
    if ((int32_t)(phase - w->phase) < 0) {
      *out_missing = w->group->ranks[w->at];
      return false;
    }
  }
  return true;
}

static void describe(void *self, char *buffer, size_t capacity) {
  const waiting_t *w = self;
  char what[80];
  shoal_stream_describe(w->group->stream, w->tag, what, sizeof what);
  snprintf(buffer, capacity, "rank %d waits in %s for rank %d", w->group->world->rank, what,
           w->group->ranks[w->at]);
}

static shoal_status_t wait_for(shoal_group_t *group, int32_t tag, uint32_t phase, int32_t first,
                               int32_t end) {
  shoal_local_world_t *world = (shoal_local_world_t *)group->world;
  waiting_t waiting = {group, phase, first, end, tag};
  int32_t missing;
  for (int64_t now = 0, until = 1; now < until;) {
    for (int i = 0; i < (world->spin ? SPINS : YIELDS); ++i) {
      if (has_come(&waiting, &missing)) return NULL;
      if (world->spin) {
        shoal_local_pause();
      } else {
        sched_yield();
      }
    }
    if (!world->spin) break;
    now = shoal_time_ns();
    if (until == 1) until = now + SPIN_NS;
  }
  return shoal_local_wait_until(world, has_come, describe, &waiting);
}

static shoal_meet_post_t *own_post(const shoal_group_t *group) {
  const shoal_meet_t *meet = group->backend_data;
  return &member_at(group, group->rank)->posts[meet->phase % 2];
}

// "4,4", cut short.
static void write_counts(const int64_t *counts, int32_t n, char *buffer, size_t capacity) {
  size_t length = 0;
  for (int32_t i = 0; i < n; ++i) {
    const bool fits = length + 24 < capacity;  // a number, and what stands for the rest
    length += (size_t)snprintf(buffer + length, capacity - length, fits ? "%s%lld" : "%s..",
                               i > 0 ? "," : "", (long long)counts[i]);
    if (!fits) return;
  }
}

// Both sides by name; `found`: how the call that the text names comes to know of it.
static shoal_status_t mismatch(shoal_group_t *group, const shoal_meet_post_t *mine, int32_t member,
                               const char *found) {
  const shoal_meet_t *meet = group->backend_data;
  const shoal_meet_post_t *theirs = shoal_meet_post(group, member);
  char want[80], have[80], call[64];
  shoal_stream_describe_call(group->stream, call, sizeof call);
  shoal_stream_describe(group->stream, mine->tag, want, sizeof want);
  shoal_stream_describe(group->stream, theirs->tag, have, sizeof have);
  const int32_t me = group->world->rank, peer = group->ranks[member];
  if (theirs->tag == mine->tag && theirs->bytes == mine->bytes && theirs->counts != mine->counts) {
    char counts[120] = "its own";
    if (meet->counts) write_counts(meet->counts, group->size, counts, sizeof counts);
    return SHOAL_ERROR_HINT(MISMATCH, "all ranks must give the same count for each rank",
                            "rank %d does %s with counts %s%s%s, but rank %d does it with other "
                            "counts of the same sum",
                            me, want, counts, found, call, peer);
  }
  return SHOAL_ERROR(MISMATCH,
                     "rank %d does %s, %lld bytes, step %x%s%s, but rank %d does %s, %lld "
                     "bytes, step %x",
                     me, want, (long long)mine->bytes, (unsigned)mine->step, found, call, peer,
                     have, (long long)theirs->bytes, (unsigned)theirs->step);
}

// Do the members [first, end) do the same in the present phase? They have come.
static shoal_status_t check(shoal_group_t *group, int32_t first, int32_t end, const char *found) {
  const shoal_meet_post_t *mine = own_post(group);
  for (int32_t i = first; i < end; ++i) {
    const shoal_meet_post_t *theirs = shoal_meet_post(group, i);
    if (theirs->tag != mine->tag || theirs->bytes != mine->bytes || theirs->step != mine->step ||
        theirs->counts != mine->counts) {
      return mismatch(group, mine, i, found);
    }
  }
  return NULL;
}

shoal_status_t shoal_meet_begin(shoal_group_t *group, int32_t tag, shoal_meet_post_t **out_post,
                                shoal_meet_part_t **out_parts, uint8_t **out_data) {
  shoal_meet_t *meet = group->backend_data;
  meet->counts = NULL;
  if (meet->met != meet->phase) {
    SHOAL_RETURN_IF_ERROR(wait_for(group, tag, meet->phase, 0, group->size));
    SHOAL_RETURN_IF_ERROR(check(group, 0, group->size, ", as found"));
  }
  meet->phase += 1;
  shoal_meet_post_t *post = own_post(group);
  post->tag = tag;
  post->step = 0;
  post->counts = 0;
  post->bytes = post->send = post->recv = post->bounce = post->each = 0;
  *out_post = post;
  if (out_parts) *out_parts = (shoal_meet_part_t *)(uintptr_t)shoal_meet_parts(group, group->rank);
  if (out_data) *out_data = (uint8_t *)(uintptr_t)shoal_meet_data(group, group->rank);
  return NULL;
}

void shoal_meet_publish(shoal_group_t *group) {
  const shoal_meet_t *meet = group->backend_data;
  shoal_hub_t *hub = ((shoal_local_world_t *)group->world)->hub;
  // Against a member that registers as a sleeper and then looks once more: both in one order.
  atomic_store(&own_post(group)->phase, meet->phase);
  for (int32_t i = 0; i < group->size; ++i) {
    if (i == group->rank) continue;
    if (atomic_load(&hub->ranks[group->ranks[i]].sleepers) > 0) {
      shoal_hub_ring_bell(hub, group->ranks[i]);
    }
  }
}

shoal_status_t shoal_meet_wait(shoal_group_t *group, int32_t first, int32_t end) {
  shoal_meet_t *meet = group->backend_data;
  const shoal_meet_post_t *mine = own_post(group);
  SHOAL_RETURN_IF_ERROR(wait_for(group, mine->tag, meet->phase, first, end));
  if (first == 0 && end == group->size) meet->met = meet->phase;
  return check(group, first, end, "");
}

shoal_status_t shoal_meet_enter(shoal_group_t *group) {
  const shoal_local_world_t *world = (shoal_local_world_t *)group->world;
  const shoal_hub_t *hub = world->hub;
  if (world->threads) atomic_store(&member_at(group, group->rank)->working, 1);
  // In one order with abandoning: it breaks the world and then looks at who works.
  if (atomic_load(&hub->failure.state) == 0) return NULL;
  shoal_meet_leave(group);
  return shoal_failure_status(&hub->failure);
}

void shoal_meet_leave(shoal_group_t *group) {
  atomic_store_explicit(&member_at(group, group->rank)->working, 0, memory_order_release);
}

void shoal_meet_abandon(shoal_group_t *group, shoal_status_t status) {
  shoal_local_world_t *world = (shoal_local_world_t *)group->world;
  const shoal_meet_t *meet = group->backend_data;
  if (!meet || !meet->slot) return;
  char message[SHOAL_FAILURE_TEXT];
  shoal_meet_leave(group);
  snprintf(message, sizeof message, "rank %d: %s", world->base.rank, shoal_status_message(status));
  shoal_hub_fail(world->hub, shoal_status_code(status), world->base.rank, message);
  for (int32_t i = 0; i < group->size && world->threads; ++i) {
    while (atomic_load(&member_at(group, i)->working)) sched_yield();
  }
}

const shoal_meet_post_t *shoal_meet_post(const shoal_group_t *group, int32_t member) {
  const shoal_meet_t *meet = group->backend_data;
  return &member_at(group, member)->posts[meet->phase % 2];
}

const shoal_meet_part_t *shoal_meet_parts(const shoal_group_t *group, int32_t member) {
  const shoal_meet_t *meet = group->backend_data;
  const shoal_meet_part_t *parts = (const shoal_meet_part_t *)(member_at(group, member) + 1);
  return parts + (meet->phase % 2) * (uint32_t)group->world->size;
}

const uint8_t *shoal_meet_data(const shoal_group_t *group, int32_t member) {
  const shoal_meet_t *meet = group->backend_data;
  const shoal_meet_part_t *parts = (const shoal_meet_part_t *)(member_at(group, member) + 1);
  return (const uint8_t *)(parts + 2 * group->world->size) + meet->phase % 2 * SHOAL_MEET_DATA;
}

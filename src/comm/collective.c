// Collectives as users call them: checks, then the backend's own or the composed one.
//
// An error on one rank - also a wrong argument - breaks the world: the other ranks are already
// waiting for this one and must not wait for ever.
#include <stdio.h>

#include "base/dtype.h"
#include "base/status.h"
#include "comm/comm_impl.h"
#include "device/reduce.h"

static int64_t sum(const shoal_group_t *group, const int64_t *counts) {
  int64_t total = 0;
  for (int32_t i = 0; i < group->size; ++i) total += counts[i];
  return total;
}

// A part is a rank's share of the other side's counts.
static int64_t elements(const shoal_group_t *group, const shoal_collective_t *c,
                        shoal_holds_t holds, shoal_who_t who, const int64_t *parts,
                        const int64_t *part) {
  if (!shoal_collective_takes_part(who, group->rank == c->root)) return 0;
  switch (holds) {
    case SHOAL_HOLDS_NOTHING:
      return 0;
    case SHOAL_HOLDS_COUNT:
      return c->count;
    case SHOAL_HOLDS_PART:
      return part[group->rank];
    case SHOAL_HOLDS_PARTS:
      return sum(group, parts);
  }
  return 0;
}

int64_t shoal_collective_sent(const shoal_group_t *group, const shoal_collective_t *c) {
  const shoal_collective_facts_t *facts = &shoal_collective_facts[c->kind];
  return elements(group, c, facts->sends, facts->sender, c->send_counts, c->recv_counts);
}

int64_t shoal_collective_received(const shoal_group_t *group, const shoal_collective_t *c) {
  const shoal_collective_facts_t *facts = &shoal_collective_facts[c->kind];
  return elements(group, c, facts->receives, facts->receiver, c->recv_counts, c->send_counts);
}

int32_t shoal_collective_joined(const shoal_collective_t *c, int32_t size, int32_t rank) {
  const shoal_joins_t joins = shoal_collective_facts[c->kind].joins;
  return joins == SHOAL_JOINS_BEFORE ? rank : joins == SHOAL_JOINS_UP_TO ? rank + 1 : size;
}

static shoal_status_t check_counts(const shoal_group_t *group, shoal_dtype_t dtype,
                                   const int64_t *counts) {
  int64_t total = 0;
  for (int32_t i = 0; counts && i < group->size; ++i) {
    if (counts[i] < 0 || __builtin_add_overflow(total, counts[i], &total)) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "count %lld for group rank %d", (long long)counts[i], i);
    }
  }
  int64_t bytes;
  return shoal_dtype_bytes(dtype, total, &bytes);
}

// Are the buffers there that this rank sends from and receives into? Also tells their size.
static shoal_status_t check_buffers(const shoal_group_t *group, const shoal_collective_t *c,
                                    int64_t *out_bytes) {
  const int64_t sent = shoal_collective_sent(group, c);
  const int64_t received = shoal_collective_received(group, c);
  *out_bytes = (sent > received ? sent : received) * (int64_t)shoal_dtype_size(c->dtype);
  if ((sent == 0 || c->send) && (received == 0 || c->recv)) return NULL;
  return SHOAL_ERROR(INVALID_ARGUMENT, "%lld elements to send, %lld to receive, but no buffer%s%s",
                     (long long)sent, (long long)received, c->send ? "" : " to send from",
                     c->recv ? "" : " to receive into");
}

static shoal_status_t check(const shoal_group_t *group, const shoal_collective_t *c,
                            int64_t *out_bytes) {
  if ((unsigned)c->kind >= SHOAL_COLLECTIVE_COUNT) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "there is no collective %d", (int)c->kind);
  }
  if (shoal_dtype_size(c->dtype) == 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "unknown element type %d", (int)c->dtype);
  }
  if (shoal_collective_is_reduction(c->kind) && !shoal_reduce_supported(c->dtype, c->reduce)) {
    return SHOAL_ERROR(UNSUPPORTED, "elements of %s cannot be joined by %s",
                       shoal_dtype_name(c->dtype), shoal_reduce_name(c->reduce));
  }
  if (c->root < 0 || c->root >= group->size) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "root %d in a group of %d", c->root, group->size);
  }
  if (c->count < 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "a count of %lld", (long long)c->count);
  }
  int64_t bytes;
  SHOAL_RETURN_IF_ERROR(shoal_dtype_bytes(c->dtype, c->count, &bytes));
  SHOAL_RETURN_IF_ERROR(check_counts(group, c->dtype, c->send_counts));
  SHOAL_RETURN_IF_ERROR(check_counts(group, c->dtype, c->recv_counts));
  const shoal_collective_facts_t *facts = &shoal_collective_facts[c->kind];
  const bool sends_parts = facts->sends == SHOAL_HOLDS_PARTS;
  const bool receives_parts = facts->receives == SHOAL_HOLDS_PARTS;
  if ((sends_parts && !c->send_counts) || (receives_parts && !c->recv_counts)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "the counts of every rank are missing");
  }
  if (c->bounded && !sends_parts && !receives_parts) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "it has one count and cannot be bounded");
  }
  const bool sends = shoal_collective_takes_part(facts->sender, group->rank == c->root);
  if (c->bounded && sends && !c->send_counts_at_run) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "it is bounded, but there are no counts to read");
  }
  if (shoal_collective_is_pairwise(c->kind) && !c->bounded &&
      c->send_counts[group->rank] != c->recv_counts[group->rank]) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "a rank sends %lld elements to itself but receives %lld",
                       (long long)c->send_counts[group->rank],
                       (long long)c->recv_counts[group->rank]);
  }
  return check_buffers(group, c, out_bytes);
}

static shoal_status_t run(shoal_group_t *group, const shoal_collective_t *collective) {
  shoal_world_t *world = group->world;
  const shoal_comm_ops_t *ops = world->ops;
  int64_t bytes = 0;
  SHOAL_RETURN_IF_ERROR(check(group, collective, &bytes));
  shoal_collective_fn_t function = ops->collective[collective->kind];
  if (!function) function = shoal_collective_composed[collective->kind];
  if (!function) {
    return SHOAL_ERROR(UNSUPPORTED, "backend '%s' has no %s", ops->name,
                       shoal_collective_name(collective->kind));
  }
  const uint64_t record = shoal_record_begin(world, SHOAL_RECORD_COLLECTIVE, group->stream,
                                             shoal_collective_tag(collective), -1, bytes);
  shoal_status_t status = function(group, collective);
  shoal_record_end(world, record, status != NULL);
  return status;
}

shoal_status_t shoal_collective_run(shoal_group_t *group, const shoal_collective_t *collective) {
  if (!shoal_async_is_busy(group)) return shoal_collective_run_now(group, collective);
  shoal_request_t request;
  SHOAL_RETURN_IF_ERROR(shoal_collective_start(group, collective, &request));
  return shoal_request_wait(&request);
}

shoal_status_t shoal_collective_run_now(shoal_group_t *group,
                                        const shoal_collective_t *collective) {
  shoal_world_t *world = group->world;
  if (group->rank < 0) {  // nobody waits for this rank
    return SHOAL_ERROR(INVALID_ARGUMENT, "rank %d is not in the group", world->rank);
  }
  SHOAL_RETURN_IF_ERROR(world->ops->broken(world));
  // A group's calls run one after the other; others only look.
  atomic_store_explicit(&group->stream->calls,
                        atomic_load_explicit(&group->stream->calls, memory_order_relaxed) + 1,
                        memory_order_relaxed);
  shoal_status_t status = run(group, collective);
  if (!status) return NULL;
  char message[SHOAL_FAILURE_TEXT];
  snprintf(message, sizeof message, "rank %d in %s: %s", world->rank,
           shoal_collective_name(collective->kind), shoal_status_message(status));
  world->ops->fail(world, shoal_status_code(status), message);  // unless it is broken already
  return status;
}

// ---- one function per collective ------------------------------------------------------

shoal_status_t shoal_barrier(shoal_group_t *group) {
  return shoal_collective_run(group, &(shoal_collective_t){.kind = SHOAL_COLLECTIVE_BARRIER});
}

shoal_status_t shoal_broadcast(shoal_group_t *group, void *data, int64_t bytes, int32_t root) {
  return shoal_collective_run(group, &(shoal_collective_t){.kind = SHOAL_COLLECTIVE_BROADCAST,
                                                           .dtype = SHOAL_U8,
                                                           .root = root,
                                                           .count = bytes,
                                                           .send = data,
                                                           .recv = data});
}

shoal_status_t shoal_all_reduce(shoal_group_t *group, shoal_dtype_t dtype, shoal_reduce_t reduce,
                                int64_t count, const void *send, void *recv) {
  return shoal_collective_run(group, &(shoal_collective_t){.kind = SHOAL_COLLECTIVE_ALL_REDUCE,
                                                           .dtype = dtype,
                                                           .reduce = reduce,
                                                           .count = count,
                                                           .send = send,
                                                           .recv = recv});
}

shoal_status_t shoal_reduce_to(shoal_group_t *group, shoal_dtype_t dtype, shoal_reduce_t reduce,
                               int64_t count, const void *send, void *recv, int32_t root) {
  return shoal_collective_run(group, &(shoal_collective_t){.kind = SHOAL_COLLECTIVE_REDUCE,
                                                           .dtype = dtype,
                                                           .reduce = reduce,
                                                           .root = root,
                                                           .count = count,
                                                           .send = send,
                                                           .recv = recv});
}

shoal_status_t shoal_gather_to(shoal_group_t *group, shoal_dtype_t dtype, const int64_t *counts,
                               const void *send, void *recv, int32_t root) {
  return shoal_collective_run(group, &(shoal_collective_t){.kind = SHOAL_COLLECTIVE_GATHER,
                                                           .dtype = dtype,
                                                           .root = root,
                                                           .recv_counts = counts,
                                                           .send = send,
                                                           .recv = recv});
}

shoal_status_t shoal_scatter_from(shoal_group_t *group, shoal_dtype_t dtype, const int64_t *counts,
                                  const void *send, void *recv, int32_t root) {
  return shoal_collective_run(group, &(shoal_collective_t){.kind = SHOAL_COLLECTIVE_SCATTER,
                                                           .dtype = dtype,
                                                           .root = root,
                                                           .send_counts = counts,
                                                           .send = send,
                                                           .recv = recv});
}

shoal_status_t shoal_scan(shoal_group_t *group, shoal_dtype_t dtype, shoal_reduce_t reduce,
                          int64_t count, const void *send, void *recv) {
  return shoal_collective_run(group, &(shoal_collective_t){.kind = SHOAL_COLLECTIVE_SCAN,
                                                           .dtype = dtype,
                                                           .reduce = reduce,
                                                           .count = count,
                                                           .send = send,
                                                           .recv = recv});
}

shoal_status_t shoal_exclusive_scan(shoal_group_t *group, shoal_dtype_t dtype,
                                    shoal_reduce_t reduce, int64_t count, const void *send,
                                    void *recv) {
  return shoal_collective_run(group, &(shoal_collective_t){.kind = SHOAL_COLLECTIVE_EXSCAN,
                                                           .dtype = dtype,
                                                           .reduce = reduce,
                                                           .count = count,
                                                           .send = send,
                                                           .recv = recv});
}

shoal_status_t shoal_all_gather(shoal_group_t *group, shoal_dtype_t dtype, const int64_t *counts,
                                const void *send, void *recv) {
  return shoal_collective_run(group, &(shoal_collective_t){.kind = SHOAL_COLLECTIVE_ALL_GATHER,
                                                           .dtype = dtype,
                                                           .recv_counts = counts,
                                                           .send = send,
                                                           .recv = recv});
}

shoal_status_t shoal_reduce_scatter(shoal_group_t *group, shoal_dtype_t dtype,
                                    shoal_reduce_t reduce, const int64_t *counts, const void *send,
                                    void *recv) {
  return shoal_collective_run(group, &(shoal_collective_t){.kind = SHOAL_COLLECTIVE_REDUCE_SCATTER,
                                                           .dtype = dtype,
                                                           .reduce = reduce,
                                                           .send_counts = counts,
                                                           .send = send,
                                                           .recv = recv});
}

shoal_status_t shoal_all_to_all(shoal_group_t *group, shoal_dtype_t dtype,
                                const int64_t *send_counts, const void *send,
                                const int64_t *recv_counts, void *recv) {
  return shoal_collective_run(group, &(shoal_collective_t){.kind = SHOAL_COLLECTIVE_ALL_TO_ALL,
                                                           .dtype = dtype,
                                                           .send_counts = send_counts,
                                                           .recv_counts = recv_counts,
                                                           .send = send,
                                                           .recv = recv});
}

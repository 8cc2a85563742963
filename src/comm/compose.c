// Collectives composed from exchanges: correct on any backend, not yet fast on any.
//
// Every reduction joins the ranks' elements in ascending group rank, each result on one rank only
// (or on all from the same inputs in the same order): same bits everywhere, every time. Large
// buffers move in blocks, so that scratch stays at `size` blocks however long they are. An
// all-reduce in place works because a part is overwritten only after everyone who needs it has it.
#include <string.h>

#include "base/number.h"
#include "base/status.h"
#include "comm/comm_impl.h"
#include "device/reduce.h"

#define BLOCK_BYTES (128 * 1024)  // per source, of a reduction
#define SMALL_BYTES 4096          // up to here everyone gets everything and reduces for itself

// Messages of one exchange in the group's storage.
typedef struct batch {
  shoal_group_t *group;
  int32_t tag, send_count, recv_count;
} batch_t;

static batch_t batch_of(shoal_group_t *group, const shoal_collective_t *c) {
  return (batch_t){.group = group, .tag = shoal_collective_tag(c)};
}

static void add_send(batch_t *batch, int32_t to, const void *data, int64_t bytes) {
  shoal_group_t *group = batch->group;
  group->messages[batch->send_count++] =
      (shoal_message_t){group->ranks[to], batch->tag, bytes, (void *)(uintptr_t)data};
}

static void add_recv(batch_t *batch, int32_t from, void *data, int64_t bytes) {
  shoal_group_t *group = batch->group;
  group->messages[group->size + batch->recv_count++] =
      (shoal_message_t){group->ranks[from], batch->tag, bytes, data};
}

static shoal_status_t run_batch(batch_t *batch) {
  shoal_group_t *group = batch->group;
  shoal_status_t status = shoal_stream_exchange(group->stream, batch->send_count, group->messages,
                                                batch->recv_count, group->messages + group->size);
  batch->send_count = batch->recv_count = 0;
  return status;
}

static void copy(void *to, const void *from, int64_t bytes) {
  if (bytes > 0 && to != from) memmove(to, from, (size_t)bytes);
}

static int64_t sum_before(const int64_t *counts, int32_t end) {
  int64_t sum = 0;
  for (int32_t i = 0; i < end; ++i) sum += counts[i];
  return sum;
}

// ---- counts ---------------------------------------------------------------------------

// How many elements move, where capacities say where they lie.
typedef struct counts {
  const int64_t *send, *recv;  // of every group rank; NULL where the kind has none
} counts_t;

static shoal_status_t check_capacity(const shoal_group_t *group, const int64_t *counts,
                                     const int64_t *capacities, int32_t from, int32_t to) {
  for (int32_t i = from; i < to; ++i) {
    if (counts[i] < 0 || counts[i] > capacities[i]) {
      return SHOAL_ERROR(INVALID_ARGUMENT,
                         "rank %d has %lld elements for group rank %d, whose capacity is %lld",
                         group->world->rank, (long long)counts[i], i, (long long)capacities[i]);
    }
  }
  return NULL;
}

// Reads this rank's counts, tells those who receive, hears from those who send.
static shoal_status_t read_counts(shoal_group_t *group, const shoal_collective_t *c,
                                  counts_t *out_counts) {
  *out_counts = (counts_t){c->send_counts, c->recv_counts};
  if (!c->bounded) return NULL;
  const int32_t n = group->size, me = group->rank;
  int64_t *send = group->counts, *recv = group->counts + n;
  const shoal_collective_facts_t *facts = &shoal_collective_facts[c->kind];
  const bool many = facts->sends == SHOAL_HOLDS_PARTS;
  const bool to_all = facts->receiver == SHOAL_WHO_ALL;  // else only to the root
  const bool from_all = facts->sender == SHOAL_WHO_ALL;  // else only from the root
  for (int32_t i = 0; i < n; ++i) {
    if (!from_all && me != c->root) break;
    send[i] = c->send_counts_at_run[many ? i : 0];
  }
  if (many && (from_all || me == c->root)) {
    SHOAL_RETURN_IF_ERROR(check_capacity(group, send, c->send_counts, 0, n));
  } else if (!many) {
    SHOAL_RETURN_IF_ERROR(check_capacity(group, send, c->recv_counts, me, me + 1));
  }
  if (shoal_collective_is_reduction(c->kind)) {  // the same counts on all ranks
    out_counts->send = send;
    if (c->recv_counts_at_run) c->recv_counts_at_run[0] = send[me];
    return NULL;
  }
  batch_t batch = batch_of(group, c);
  for (int32_t i = 0; i < n; ++i) {
    if (i == me) {
      recv[i] = send[i];
      continue;
    }
    if ((to_all || i == c->root) && (from_all || me == c->root)) {
      add_send(&batch, i, &send[i], sizeof *send);
    }
    if ((to_all || me == c->root) && (from_all || i == c->root)) {
      add_recv(&batch, i, &recv[i], sizeof *recv);
    }
  }
  SHOAL_RETURN_IF_ERROR(run_batch(&batch));
  if (!from_all) {
    recv[me] = recv[c->root];  // the one there is
    SHOAL_RETURN_IF_ERROR(check_capacity(group, recv, c->send_counts, me, me + 1));
    if (c->recv_counts_at_run) c->recv_counts_at_run[0] = recv[me];
  } else if (to_all || me == c->root) {
    SHOAL_RETURN_IF_ERROR(check_capacity(group, recv, c->recv_counts, 0, n));
    for (int32_t i = 0; i < n && c->recv_counts_at_run; ++i) c->recv_counts_at_run[i] = recv[i];
  }
  *out_counts = (counts_t){send, recv};
  return NULL;
}

// ---- moving ---------------------------------------------------------------------------

// Dissemination: in round k everyone hears from the rank 2^k before it.
static shoal_status_t barrier(shoal_group_t *group, const shoal_collective_t *c) {
  const int32_t n = group->size;
  batch_t batch = batch_of(group, c);
  for (int32_t step = 1; step < n; step *= 2) {
    add_send(&batch, (group->rank + step) % n, NULL, 0);
    add_recv(&batch, (group->rank + n - step) % n, NULL, 0);
    SHOAL_RETURN_IF_ERROR(run_batch(&batch));
  }
  return NULL;
}

static shoal_status_t broadcast(shoal_group_t *group, const shoal_collective_t *c) {
  const int64_t bytes = c->count * (int64_t)shoal_dtype_size(c->dtype);
  batch_t batch = batch_of(group, c);
  if (group->rank != c->root) {
    add_recv(&batch, c->root, c->recv, bytes);
  } else {
    for (int32_t i = 0; i < group->size; ++i) {
      if (i != c->root) add_send(&batch, i, c->send, bytes);
    }
  }
  return run_batch(&batch);
}

static shoal_status_t gather(shoal_group_t *group, const shoal_collective_t *c) {
  const int64_t element = (int64_t)shoal_dtype_size(c->dtype);
  const bool root_only = shoal_collective_facts[c->kind].receiver == SHOAL_WHO_ROOT;
  const bool receives = !root_only || group->rank == c->root;
  counts_t counts = {0};
  SHOAL_RETURN_IF_ERROR(read_counts(group, c, &counts));
  const int64_t own = (c->bounded ? counts.send : counts.recv)[group->rank] * element;
  batch_t batch = batch_of(group, c);
  uint8_t *at = c->recv;
  for (int32_t i = 0; i < group->size; ++i) {
    if (i == group->rank) {
      if (receives) copy(at, c->send, own);
    } else {
      if (!root_only || i == c->root) add_send(&batch, i, c->send, own);
      if (receives) add_recv(&batch, i, at, counts.recv[i] * element);
    }
    if (receives) at += c->recv_counts[i] * element;
  }
  return run_batch(&batch);
}

static shoal_status_t scatter(shoal_group_t *group, const shoal_collective_t *c) {
  const int64_t element = (int64_t)shoal_dtype_size(c->dtype);
  counts_t counts = {0};
  SHOAL_RETURN_IF_ERROR(read_counts(group, c, &counts));
  batch_t batch = batch_of(group, c);
  if (group->rank != c->root) {
    const int64_t own = (c->bounded ? counts.recv : counts.send)[group->rank];
    add_recv(&batch, c->root, c->recv, own * element);
    return run_batch(&batch);
  }
  const uint8_t *at = c->send;
  for (int32_t i = 0; i < group->size; ++i) {
    if (i == group->rank) {
      copy(c->recv, at, counts.send[i] * element);
    } else {
      add_send(&batch, i, at, counts.send[i] * element);
    }
    at += c->send_counts[i] * element;
  }
  return run_batch(&batch);
}

static shoal_status_t all_to_all(shoal_group_t *group, const shoal_collective_t *c) {
  const int64_t element = (int64_t)shoal_dtype_size(c->dtype);
  counts_t counts = {0};
  SHOAL_RETURN_IF_ERROR(read_counts(group, c, &counts));
  batch_t batch = batch_of(group, c);
  const uint8_t *from = c->send;
  uint8_t *to = c->recv;
  for (int32_t i = 0; i < group->size; ++i) {
    if (i == group->rank) {
      copy(to, from, shoal_min64(counts.send[i], counts.recv[i]) * element);
    } else {
      add_send(&batch, i, from, counts.send[i] * element);
      add_recv(&batch, i, to, counts.recv[i] * element);
    }
    from += c->send_counts[i] * element;
    to += c->recv_counts[i] * element;
  }
  return run_batch(&batch);
}

// ---- reducing -------------------------------------------------------------------------

// out[j] = join over group ranks i of source_i[j], the others' from scratch in slots of `slot`
// bytes.
static void join_sources(shoal_group_t *group, const shoal_collective_t *c, int64_t count,
                         int64_t slot, const void *own, void *out) {
  for (int32_t i = 0; i < group->size; ++i) {
    group->sources[i] = i == group->rank ? own : (const uint8_t *)group->scratch + i * slot;
  }
  shoal_reduce_all(c->dtype, c->reduce, count, group->size, group->sources, out);
}

// Parts of `send`, one per rank: where they lie and how long they are. Mine goes to `recv`, which
// may be that part of `send`.
static shoal_status_t reduce_parts(shoal_group_t *group, const shoal_collective_t *c,
                                   const int64_t *capacities, const int64_t *counts,
                                   uint8_t *recv) {
  const int64_t element = (int64_t)shoal_dtype_size(c->dtype), block = BLOCK_BYTES / element;
  const int64_t own = counts[group->rank];
  const int64_t slot = shoal_min64(own, block) * element;
  SHOAL_RETURN_IF_ERROR(shoal_group_reserve(group, slot * group->size));
  int64_t longest = 0;
  for (int32_t i = 0; i < group->size; ++i) {
    if (counts[i] > longest) longest = counts[i];
  }
  const uint8_t *send = c->send;
  const uint8_t *mine = send + sum_before(capacities, group->rank) * element;
  batch_t batch = batch_of(group, c);
  for (int64_t at = 0; at < longest; at += block) {
    const int64_t size = at < own ? shoal_min64(own - at, block) : 0;
    const uint8_t *part = send;
    for (int32_t i = 0; i < group->size; ++i) {
      if (i != group->rank && at < counts[i]) {
        add_send(&batch, i, part + at * element, shoal_min64(counts[i] - at, block) * element);
      }
      if (i != group->rank && size > 0) {
        add_recv(&batch, i, (uint8_t *)group->scratch + i * slot, size * element);
      }
      part += capacities[i] * element;
    }
    SHOAL_RETURN_IF_ERROR(run_batch(&batch));
    if (size > 0) join_sources(group, c, size, slot, mine + at * element, recv + at * element);
  }
  return NULL;
}

static shoal_status_t reduce_scatter(shoal_group_t *group, const shoal_collective_t *c) {
  counts_t counts = {0};
  SHOAL_RETURN_IF_ERROR(read_counts(group, c, &counts));
  return reduce_parts(group, c, c->send_counts, counts.send, c->recv);
}

// Everyone who needs it gets all and joins in the same order.
static shoal_status_t reduce_small(shoal_group_t *group, const shoal_collective_t *c) {
  const int64_t bytes = c->count * (int64_t)shoal_dtype_size(c->dtype);
  const bool root_only = shoal_collective_facts[c->kind].receiver == SHOAL_WHO_ROOT;
  const bool receives = !root_only || group->rank == c->root;
  SHOAL_RETURN_IF_ERROR(shoal_group_reserve(group, bytes * group->size));
  batch_t batch = batch_of(group, c);
  for (int32_t i = 0; i < group->size; ++i) {
    if (i == group->rank) continue;
    if (!root_only || i == c->root) add_send(&batch, i, c->send, bytes);
    if (receives) add_recv(&batch, i, (uint8_t *)group->scratch + i * bytes, bytes);
  }
  SHOAL_RETURN_IF_ERROR(run_batch(&batch));
  if (bytes > 0 && receives) join_sources(group, c, c->count, bytes, c->send, c->recv);
  return NULL;
}

static shoal_status_t all_reduce(shoal_group_t *group, const shoal_collective_t *c) {
  const int32_t n = group->size;
  const int64_t element = (int64_t)shoal_dtype_size(c->dtype), bytes = c->count * element;
  if (n == 1) {
    copy(c->recv, c->send, bytes);
    return NULL;
  }
  if (bytes <= SMALL_BYTES) return reduce_small(group, c);
  for (int32_t i = 0; i < n; ++i) group->counts[i] = c->count / n + (i < c->count % n);
  uint8_t *own = (uint8_t *)c->recv + sum_before(group->counts, group->rank) * element;
  SHOAL_RETURN_IF_ERROR(reduce_parts(group, c, group->counts, group->counts, own));
  shoal_collective_t parts = *c;
  parts.recv_counts = group->counts;
  parts.send = own;
  return gather(group, &parts);
}

// All ranks' blocks come to the root, one block after the other.
static shoal_status_t reduce(shoal_group_t *group, const shoal_collective_t *c) {
  const int64_t element = (int64_t)shoal_dtype_size(c->dtype), block = BLOCK_BYTES / element;
  int64_t at = 0;
  do {
    shoal_collective_t part = *c;
    part.count = shoal_min64(c->count - at, block);
    part.send = (const uint8_t *)c->send + at * element;
    if (group->rank == c->root) part.recv = (uint8_t *)c->recv + at * element;
    SHOAL_RETURN_IF_ERROR(reduce_small(group, &part));
    at += block;
  } while (at < c->count);
  return NULL;
}

// Every rank's elements go to all that follow, which join what they got.
static shoal_status_t scan_block(shoal_group_t *group, const shoal_collective_t *c) {
  const int64_t bytes = c->count * (int64_t)shoal_dtype_size(c->dtype);
  SHOAL_RETURN_IF_ERROR(shoal_group_reserve(group, bytes * group->size));
  batch_t batch = batch_of(group, c);
  for (int32_t i = 0; i < group->size; ++i) {
    if (i > group->rank) add_send(&batch, i, c->send, bytes);
    if (i < group->rank) add_recv(&batch, i, (uint8_t *)group->scratch + i * bytes, bytes);
    group->sources[i] = i == group->rank ? c->send : (const uint8_t *)group->scratch + i * bytes;
  }
  SHOAL_RETURN_IF_ERROR(run_batch(&batch));
  const int32_t n = shoal_collective_joined(c, group->size, group->rank);
  if (n == 0) {
    shoal_reduce_fill(c->dtype, c->reduce, c->count, c->recv);
  } else {
    shoal_reduce_all(c->dtype, c->reduce, c->count, n, group->sources, c->recv);
  }
  return NULL;
}

static shoal_status_t scan(shoal_group_t *group, const shoal_collective_t *c) {
  const int64_t element = (int64_t)shoal_dtype_size(c->dtype), block = BLOCK_BYTES / element;
  int64_t at = 0;
  do {
    shoal_collective_t part = *c;
    part.count = shoal_min64(c->count - at, block);
    part.send = (const uint8_t *)c->send + at * element;
    part.recv = (uint8_t *)c->recv + at * element;
    SHOAL_RETURN_IF_ERROR(scan_block(group, &part));
    at += block;
  } while (at < c->count);
  return NULL;
}

const shoal_collective_fn_t shoal_collective_composed[SHOAL_COLLECTIVE_COUNT] = {
    [SHOAL_COLLECTIVE_BARRIER] = barrier,       [SHOAL_COLLECTIVE_BROADCAST] = broadcast,
    [SHOAL_COLLECTIVE_REDUCE] = reduce,         [SHOAL_COLLECTIVE_ALL_REDUCE] = all_reduce,
    [SHOAL_COLLECTIVE_GATHER] = gather,         [SHOAL_COLLECTIVE_SCATTER] = scatter,
    [SHOAL_COLLECTIVE_ALL_GATHER] = gather,     [SHOAL_COLLECTIVE_REDUCE_SCATTER] = reduce_scatter,
    [SHOAL_COLLECTIVE_ALL_TO_ALL] = all_to_all, [SHOAL_COLLECTIVE_SCAN] = scan,
    [SHOAL_COLLECTIVE_EXSCAN] = scan,
};

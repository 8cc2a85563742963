// Collectives composed from exchanges: correct on any backend, not yet fast on any.
//
// Every reduction joins the ranks' elements in ascending group rank, each result on one rank only
// (or on all from the same inputs in the same order): same bits everywhere, every time. Large
// buffers move in blocks, so that scratch stays at `size` blocks however long they are. An
// all-reduce in place works because a part is overwritten only after everyone who needs it has it.
#include <string.h>

#include "comm/comm_impl.h"
#include "device/reduce.h"

#define BLOCK_BYTES (128 * 1024)  // per source, of a reduction
#define SMALL_BYTES 4096          // up to here everyone gets everything and reduces for itself

static int64_t min64(int64_t a, int64_t b) {
  return a < b ? a : b;
}

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
  batch_t batch = batch_of(group, c);
  if (group->rank != c->root) {
    add_recv(&batch, c->root, c->recv, c->count);
  } else {
    for (int32_t i = 0; i < group->size; ++i) {
      if (i != c->root) add_send(&batch, i, c->send, c->count);
    }
  }
  return run_batch(&batch);
}

static shoal_status_t all_gather(shoal_group_t *group, const shoal_collective_t *c) {
  const int64_t element = (int64_t)shoal_dtype_size(c->dtype);
  const int64_t own = c->recv_counts[group->rank] * element;
  batch_t batch = batch_of(group, c);
  uint8_t *at = c->recv;
  for (int32_t i = 0; i < group->size; ++i) {
    if (i == group->rank) {
      copy(at, c->send, own);
    } else {
      add_send(&batch, i, c->send, own);
      add_recv(&batch, i, at, c->recv_counts[i] * element);
    }
    at += c->recv_counts[i] * element;
  }
  return run_batch(&batch);
}

static shoal_status_t all_to_all(shoal_group_t *group, const shoal_collective_t *c) {
  const int64_t element = (int64_t)shoal_dtype_size(c->dtype);
  batch_t batch = batch_of(group, c);
  const uint8_t *from = c->send;
  uint8_t *to = c->recv;
  for (int32_t i = 0; i < group->size; ++i) {
    if (i == group->rank) {
      copy(to, from, min64(c->send_counts[i], c->recv_counts[i]) * element);
    } else {
      add_send(&batch, i, from, c->send_counts[i] * element);
      add_recv(&batch, i, to, c->recv_counts[i] * element);
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

// counts: of every rank's part of `send`; mine goes to `recv`, which may be that part of `send`.
static shoal_status_t reduce_parts(shoal_group_t *group, const shoal_collective_t *c,
                                   const int64_t *counts, uint8_t *recv) {
  const int64_t element = (int64_t)shoal_dtype_size(c->dtype), block = BLOCK_BYTES / element;
  const int64_t own = counts[group->rank];
  const int64_t slot = min64(own, block) * element;
  SHOAL_RETURN_IF_ERROR(shoal_group_reserve(group, slot * group->size));
  int64_t longest = 0;
  for (int32_t i = 0; i < group->size; ++i) {
    if (counts[i] > longest) longest = counts[i];
  }
  const uint8_t *send = c->send;
  const uint8_t *mine = send + sum_before(counts, group->rank) * element;
  batch_t batch = batch_of(group, c);
  for (int64_t at = 0; at < longest; at += block) {
    const int64_t size = at < own ? min64(own - at, block) : 0;
    const uint8_t *part = send;
    for (int32_t i = 0; i < group->size; ++i) {
      if (i != group->rank && at < counts[i]) {
        add_send(&batch, i, part + at * element, min64(counts[i] - at, block) * element);
      }
      if (i != group->rank && size > 0) {
        add_recv(&batch, i, (uint8_t *)group->scratch + i * slot, size * element);
      }
      part += counts[i] * element;
    }
    SHOAL_RETURN_IF_ERROR(run_batch(&batch));
    if (size > 0) join_sources(group, c, size, slot, mine + at * element, recv + at * element);
  }
  return NULL;
}

static shoal_status_t reduce_scatter(shoal_group_t *group, const shoal_collective_t *c) {
  return reduce_parts(group, c, c->send_counts, c->recv);
}

// Everyone gets all and joins in the same order.
static shoal_status_t all_reduce_small(shoal_group_t *group, const shoal_collective_t *c) {
  const int64_t bytes = c->count * (int64_t)shoal_dtype_size(c->dtype);
  SHOAL_RETURN_IF_ERROR(shoal_group_reserve(group, bytes * group->size));
  batch_t batch = batch_of(group, c);
  for (int32_t i = 0; i < group->size; ++i) {
    if (i == group->rank) continue;
    add_send(&batch, i, c->send, bytes);
    add_recv(&batch, i, (uint8_t *)group->scratch + i * bytes, bytes);
  }
  SHOAL_RETURN_IF_ERROR(run_batch(&batch));
  if (bytes > 0) join_sources(group, c, c->count, bytes, c->send, c->recv);
  return NULL;
}

static shoal_status_t all_reduce(shoal_group_t *group, const shoal_collective_t *c) {
  const int32_t n = group->size;
  const int64_t element = (int64_t)shoal_dtype_size(c->dtype), bytes = c->count * element;
  if (n == 1) {
    copy(c->recv, c->send, bytes);
    return NULL;
  }
  if (bytes <= SMALL_BYTES) return all_reduce_small(group, c);
  for (int32_t i = 0; i < n; ++i) group->counts[i] = c->count / n + (i < c->count % n);
  uint8_t *own = (uint8_t *)c->recv + sum_before(group->counts, group->rank) * element;
  SHOAL_RETURN_IF_ERROR(reduce_parts(group, c, group->counts, own));
  shoal_collective_t gather = *c;
  gather.recv_counts = group->counts;
  gather.send = own;
  return all_gather(group, &gather);
}

const shoal_collective_fn_t shoal_collective_composed[SHOAL_COLLECTIVE_COUNT] = {
    [SHOAL_COLLECTIVE_BARRIER] = barrier,
    [SHOAL_COLLECTIVE_BROADCAST] = broadcast,
    [SHOAL_COLLECTIVE_ALL_REDUCE] = all_reduce,
    [SHOAL_COLLECTIVE_ALL_GATHER] = all_gather,
    [SHOAL_COLLECTIVE_REDUCE_SCATTER] = reduce_scatter,
    [SHOAL_COLLECTIVE_ALL_TO_ALL] = all_to_all,
};

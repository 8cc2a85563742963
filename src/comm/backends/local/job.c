// What a collective is made of, and the work on it. See job.h.
#include "comm/backends/local/job.h"

#include <string.h>

#include "comm/backends/local/copy.h"
#include "device/reduce.h"

#define BLOCK_BYTES 8192  // what is joined and then copied to several results while it is in cache
#define SLICE_UNIT 64     // elements: slices do not share cache lines

int64_t shoal_local_job_sum(const int64_t *counts, int32_t end) {
  int64_t sum = 0;
  for (int32_t i = 0; i < end; ++i) sum += counts[i];
  return sum;
}

int64_t shoal_local_job_largest(const int64_t *counts, int32_t n) {
  int64_t most = 0;
  for (int32_t i = 0; i < n; ++i) most = counts[i] > most ? counts[i] : most;
  return most;
}

// One multiplication a count: this is on the path of every call. Each step is one-to-one in the
// hash so far and in the count.
uint64_t shoal_local_job_counts_hash(const job_t *job) {
  if (!job->counts) return 0;
  uint64_t hash = 1;
  for (int32_t i = 0; i < job->n; ++i) {
    hash = (hash ^ (uint64_t)job->counts[i]) * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= hash >> 32;
  }
  return hash;
}

job_t shoal_local_job(shoal_group_t *group, const shoal_collective_t *c) {
  job_t job = {.group = group,
               .c = c,
               .world = (shoal_local_world_t *)group->world,
               .n = group->size,
               .me = group->rank,
               .tag = shoal_collective_tag(c),
               .element = (int64_t)shoal_dtype_size(c->dtype)};
  const shoal_collective_facts_t *facts = &shoal_collective_facts[c->kind];
  const bool pairwise = shoal_collective_is_pairwise(c->kind);
  job.many = facts->sends == SHOAL_HOLDS_PARTS;
  if (!pairwise) {
    job.counts = job.many                               ? c->send_counts
                 : facts->receives == SHOAL_HOLDS_PARTS ? c->recv_counts
                                                        : NULL;
  }
  const int64_t agreed = pairwise     ? 0
                         : job.counts ? shoal_local_job_sum(job.counts, group->size)
                                      : c->count;
  const bool one_part = facts->sends == SHOAL_HOLDS_PART;
  job.send_bytes = shoal_collective_sent(group, c) * job.element;
  job.recv_bytes = shoal_collective_received(group, c) * job.element;
  job.bytes = agreed * job.element;
  job.longest_send = pairwise   ? -1
                     : one_part ? shoal_local_job_largest(job.counts, group->size) * job.element
                                : job.bytes;
  return job;
}

bool shoal_local_job_is_source(const job_t *job, int32_t rank) {
  return shoal_collective_takes_part(shoal_collective_facts[job->c->kind].sender,
                                     rank == job->c->root);
}

// Elements of a rank's buffer for this one, and where they begin there.
static int64_t count_from(const job_t *job, int32_t rank) {
  const shoal_collective_t *c = job->c;
  if (!shoal_local_job_is_source(job, rank)) return 0;
  if (c->recv_counts) return c->recv_counts[rank];
  return c->send_counts ? c->send_counts[job->me] : c->count;
}

int64_t shoal_local_job_own_part(const job_t *job) {
  return job->many ? shoal_local_job_sum(job->c->send_counts, job->me) * job->element : 0;
}

// ---- joining --------------------------------------------------------------------------

// Sums of two ranks' elements, to one result or to both ranks': what memory speed hangs on. A
// result may be one of the sources, element by element, never shifted.
#define SUM_TWO(suffix, type)                                                                   \
  static void sum_two_##suffix(int64_t count, const type *a, const type *b, type *out) {        \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];              \
  }                                                                                             \
  static void sum_two_to_two_##suffix(int64_t count, const type *a, const type *b, type *first, \
                                      type *second) {                                           \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < count; ++i) {                                  \
      const type sum = a[i] + b[i];                                                             \
      first[i] = sum;                                                                           \
      second[i] = sum;                                                                          \
    }                                                                                           \
  }
SUM_TWO(f32, float)
SUM_TWO(f64, double)

static void join(const shoal_collective_t *c, int64_t count, int32_t n, const void *const *sources,
                 void *out) {
  if (n == 2 && c->reduce == SHOAL_REDUCE_SUM && c->dtype == SHOAL_F32) {
    sum_two_f32(count, sources[0], sources[1], out);
  } else if (n == 2 && c->reduce == SHOAL_REDUCE_SUM && c->dtype == SHOAL_F64) {
    sum_two_f64(count, sources[0], sources[1], out);
  } else {
    shoal_reduce_all(c->dtype, c->reduce, count, n, sources, out);
  }
}

void shoal_local_job_pull(const job_t *job, int64_t lo, int64_t hi) {
  const shoal_collective_t *c = job->c;
  shoal_group_t *group = job->group;
  if (job->recv_bytes == 0) return;
  uint8_t *recv = c->recv;
  if (shoal_collective_is_reduction(c->kind)) {
    const int64_t count = shoal_min64(hi, job->recv_bytes / job->element) - lo;
    const int32_t n = shoal_collective_joined(c, job->n, job->me);
    if (count <= 0) return;
    if (n == 0) {
      shoal_reduce_fill(c->dtype, c->reduce, count, recv + lo * job->element);
    } else {
      join(c, count, n, group->sources, recv + lo * job->element);
    }
    return;
  }
  // Each begins with its own part, so that not all read the same at a time.
  if (c->recv_counts) recv += shoal_local_job_sum(c->recv_counts, job->me) * job->element;
  for (int32_t k = 0, i = job->me; k < job->n; ++k, i = i + 1 < job->n ? i + 1 : 0) {
    const int64_t count = count_from(job, i);
    if (i == 0) recv = c->recv;
    if (count > lo) {
      shoal_local_copy(recv + lo * job->element, group->sources[i],
                       (shoal_min64(hi, count) - lo) * job->element);
    }
    if (c->recv_counts) recv += count * job->element;
  }
}

void shoal_local_job_join(const job_t *job, int64_t at, int64_t count, int32_t n_outs,
                          uint8_t *const *outs) {
  const shoal_collective_t *c = job->c;
  const void **sources = job->group->sources;
  if (job->n == 2 && n_outs == 2 && c->reduce == SHOAL_REDUCE_SUM) {
    const void *a = (const uint8_t *)sources[0] + at, *b = (const uint8_t *)sources[1] + at;
    void *first = outs[0] + at, *second = outs[1] + at;
    if (c->dtype == SHOAL_F32) {
      sum_two_to_two_f32(count, a, b, first, second);
      return;
    }
    if (c->dtype == SHOAL_F64) {
      sum_two_to_two_f64(count, a, b, first, second);
      return;
    }
  }
  const int64_t block = BLOCK_BYTES / job->element;
  const void *from[SHOAL_HUB_MAX_RANKS];
  for (int64_t done = 0; done < count; done += block) {
    const int64_t size = shoal_min64(count - done, block), offset = at + done * job->element;
    for (int32_t i = 0; i < job->n; ++i) from[i] = (const uint8_t *)sources[i] + offset;
    join(c, size, job->n, from, outs[0] + offset);
    for (int32_t k = 1; k < n_outs; ++k) {
      shoal_local_copy(outs[k] + offset, outs[0] + offset, size * job->element);
    }
  }
}

void shoal_local_job_slice(int64_t count, int32_t n, int32_t index, int64_t *out_lo,
                           int64_t *out_hi) {
  const int64_t per = (count / n + SLICE_UNIT) / SLICE_UNIT * SLICE_UNIT;
  *out_lo = shoal_min64(index * per, count);
  *out_hi = shoal_min64(*out_lo + per, count);
}

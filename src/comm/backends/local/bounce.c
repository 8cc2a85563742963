// Collectives on buffers that other ranks cannot reach at all: they go through *bounce* buffers
// that all can address, chunk by chunk. While a rank fills one half the others still read the
// other, so that a round costs one meeting.
#include "base/status.h"
#include "comm/backends/local/copy.h"
#include "comm/backends/local/job.h"

// Buffers of users tend to begin at a page. A copy between equal offsets in pages can be slow by an
// order of magnitude (heap.c, colours), and here the other address is not ours to choose.
#define SHIFT 2112

static int64_t longest_part(const job_t *job) {
  const shoal_collective_t *c = job->c;
  if (!shoal_collective_is_pairwise(c->kind)) {
    return c->recv_counts   ? shoal_local_job_largest(c->recv_counts, job->n)
           : c->send_counts ? shoal_local_job_largest(c->send_counts, job->n)
                            : c->count;
  }
  int64_t most = 0;
  for (int32_t i = 0; i < job->n; ++i) {
    const shoal_meet_part_t *parts = shoal_meet_parts(job->group, i);
    for (int32_t k = 0; k < job->n; ++k) most = parts[k].bytes > most ? parts[k].bytes : most;
  }
  return most / job->element;
}

static uint8_t *own_bounce(const job_t *job) {
  const shoal_meet_t *meet = job->group->backend_data;
  return (uint8_t *)meet->bounce + SHIFT;
}

static shoal_status_t reserve(const job_t *job, int64_t bytes) {
  shoal_meet_t *meet = job->group->backend_data;
  if (meet->bounce_bytes >= bytes) return NULL;
  shoal_local_release(job->group->world, meet->bounce);
  meet->bounce = NULL;
  meet->bounce_bytes = 0;
  SHOAL_RETURN_IF_ERROR(shoal_local_alloc(job->group->world, bytes, &meet->bounce));
  meet->bounce_bytes = bytes;
  return NULL;
}

// Elements [lo, lo + piece) of each part, side by side.
static void fill_half(const job_t *job, uint8_t *half, int64_t lo, int64_t piece) {
  const uint8_t *send = job->c->send;
  if (job->send_bytes == 0) return;
  for (int32_t i = 0; i < (job->many ? job->n : 1); ++i) {
    const int64_t count = job->many ? job->c->send_counts[i] : job->send_bytes / job->element;
    if (count > lo && !(job->many && i == job->me)) {
      shoal_local_copy_past(half + i * piece * job->element, send + lo * job->element,
                            shoal_min64(piece, count - lo) * job->element);
    }
    send += count * job->element;
  }
}

// The same for an all_reduce, but for the slice that this rank joins itself.
static void fill_slices(const job_t *job, uint8_t *half, int64_t lo, int64_t piece) {
  const int64_t count = shoal_min64(piece, job->c->count - lo);
  const uint8_t *send = (const uint8_t *)job->c->send + lo * job->element;
  int64_t from, to;
  shoal_local_job_slice(count, job->n, job->me, &from, &to);
  shoal_local_copy_past(half, send, from * job->element);
  shoal_local_copy_past(half + to * job->element, send + to * job->element,
                        (count - to) * job->element);
}

static shoal_status_t meet_round(const job_t *job, int64_t round, int half) {
  shoal_meet_post_t *post = (shoal_meet_post_t *)(uintptr_t)shoal_meet_post(job->group, job->me);
  post->step = (int32_t)(STEP_BOUNCE + half * 8 + (round & 0xffffff) * 16);
  post->bytes = job->bytes;
  post->bounce = shoal_local_place(job->world, own_bounce(job), 1);
  shoal_meet_publish(job->group);
  return shoal_meet_wait(job->group, 0, job->n);
}

static uint8_t *bounce_of(const job_t *job, int32_t rank) {
  return shoal_local_at(job->world, shoal_meet_post(job->group, rank)->bounce);
}

// All-reduce: each joins a slice of the chunk, then everyone collects the slices.
static shoal_status_t join_round(const job_t *job, int64_t round, int64_t lo, int64_t piece,
                                 int64_t out_at) {
  const int64_t count = shoal_min64(piece, job->c->count - lo);
  uint8_t *result = (uint8_t *)job->c->recv + lo * job->element;
  int64_t from, to;
  shoal_local_job_slice(count, job->n, job->me, &from, &to);
  SHOAL_RETURN_IF_ERROR(shoal_meet_enter(job->group));
  if (to > from) {
    for (int32_t i = 0; i < job->n; ++i) {
      job->group->sources[i] = (const uint8_t *)job->group->sources[i] + from * job->element;
    }
    result += from * job->element;
    shoal_local_job_join(job, 0, to - from, 1, &result);
    shoal_local_copy_past(own_bounce(job) + out_at, result, (to - from) * job->element);
  }
  shoal_meet_leave(job->group);
  shoal_meet_post_t *post;
  SHOAL_RETURN_IF_ERROR(shoal_meet_begin(job->group, job->tag, &post, NULL, NULL));
  SHOAL_RETURN_IF_ERROR(meet_round(job, round, 1));
  SHOAL_RETURN_IF_ERROR(shoal_meet_enter(job->group));
  for (int32_t i = 0; i < job->n; ++i) {
    if (i == job->me) continue;
    shoal_local_job_slice(count, job->n, i, &from, &to);
    shoal_local_copy((uint8_t *)job->c->recv + (lo + from) * job->element,
                     bounce_of(job, i) + out_at, (to - from) * job->element);
  }
  shoal_meet_leave(job->group);
  return NULL;
}

shoal_status_t shoal_local_bounce(const job_t *job, int64_t chunk) {
  const int64_t longest = longest_part(job);
  int64_t piece = chunk / job->element / (job->many ? job->n : 1);
  if (piece < 1) piece = 1;
  const int64_t half_bytes = piece * job->element * (job->many ? job->n : 1);
  const bool slices = job->c->kind == SHOAL_COLLECTIVE_ALL_REDUCE;
  SHOAL_RETURN_IF_ERROR(reserve(job, 3 * half_bytes + SHIFT));
  const int64_t own_at = shoal_local_job_own_part(job);
  for (int64_t lo = 0, round = 0; lo < longest; lo += piece, ++round) {
    const int64_t at = round % 2 * half_bytes;
    shoal_meet_post_t *post;
    SHOAL_RETURN_IF_ERROR(shoal_meet_begin(job->group, job->tag, &post, NULL, NULL));
    if (slices) {
      fill_slices(job, own_bounce(job) + at, lo, piece);
    } else {
      fill_half(job, own_bounce(job) + at, lo, piece);
    }
    SHOAL_RETURN_IF_ERROR(meet_round(job, round, 0));
    for (int32_t i = 0; i < job->n; ++i) {
      job->group->sources[i] =
          bounce_of(job, i) + at + (job->many ? job->me * piece * job->element : 0);
    }
    if (job->send_bytes > 0) {
      job->group->sources[job->me] = (const uint8_t *)job->c->send + own_at + lo * job->element;
    }
    if (slices) {
      SHOAL_RETURN_IF_ERROR(join_round(job, round, lo, piece, 2 * half_bytes));
    } else {
      SHOAL_RETURN_IF_ERROR(shoal_meet_enter(job->group));
      shoal_local_job_pull(job, lo, lo + piece);
      shoal_meet_leave(job->group);
    }
  }
  return NULL;
}

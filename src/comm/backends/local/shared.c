// Collectives on shared memory. All of them have one shape, the *pull*: a rank takes from every
// source what is meant for it, in ascending group rank, and joins or places it. What differs is
// where the sources are looked for:
//
//   inline   in the slot, next to the announcement
//   direct   in the ranks' own buffers. Where the ranks can also write each other's results, the
//   work
//            is cut into slices, one per rank, so that nothing is read twice: a rank joins its
//            slice over all ranks and writes it to all of them (recipes: "kernel B")
//   bounce   in buffers that all can address, chunk by chunk: while a rank fills one half the
//   others
//            still read the other, so that a round costs one meeting
//
// Results are the same bits whichever is taken: each element is joined once, in ascending rank.
#include <string.h>

#include "base/status.h"
#include "comm/backends/local/local.h"
#include "device/reduce.h"

#define BLOCK_BYTES 8192  // what is joined and then copied to several results while it is in cache
#define SLICE_UNIT 64     // elements: slices do not share cache lines

enum { STEP_INLINE = 1, STEP_DIRECT, STEP_END, STEP_BOUNCE };  // and the round, from bit 4 up

typedef struct job {
  shoal_group_t *group;
  const shoal_collective_t *c;
  shoal_local_world_t *world;
  int32_t n, me, tag;
  bool many;           // `send` has a part for every rank
  int64_t element;     // bytes
  int64_t send_bytes;  // of this rank's buffers
  int64_t recv_bytes;
  int64_t longest_send;  // of all ranks, where they agree; else -1
  int64_t bytes;         // that all ranks agree on: what the table is asked with
} job_t;

static int64_t min64(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t sum_before(const int64_t *counts, int32_t end) {
  int64_t sum = 0;
  for (int32_t i = 0; i < end; ++i) sum += counts[i];
  return sum;
}

static int64_t largest(const int64_t *counts, int32_t n) {
  int64_t most = 0;
  for (int32_t i = 0; i < n; ++i) most = counts[i] > most ? counts[i] : most;
  return most;
}

static void copy(void *to, const void *from, int64_t bytes) {
  if (bytes > 0 && to != from) memmove(to, from, (size_t)bytes);
}

// ---- what a collective is made of -----------------------------------------------------

static job_t job_of(shoal_group_t *group, const shoal_collective_t *c) {
  job_t job = {.group = group,
               .c = c,
               .world = (shoal_local_world_t *)group->world,
               .n = group->size,
               .me = group->rank,
               .tag = shoal_collective_tag(c),
               .element = (int64_t)shoal_dtype_size(c->dtype)};
  const bool is_root = group->rank == c->root;
  int64_t send = c->count, recv = c->count, longest = c->count, agreed = c->count;
  switch (c->kind) {
    case SHOAL_COLLECTIVE_BROADCAST:
      send = is_root ? c->count : 0;
      recv = is_root ? 0 : c->count;
      break;
    case SHOAL_COLLECTIVE_REDUCE:
      recv = is_root ? c->count : 0;
      break;
    case SHOAL_COLLECTIVE_GATHER:
    case SHOAL_COLLECTIVE_ALL_GATHER:
      send = c->recv_counts[group->rank];
      agreed = sum_before(c->recv_counts, group->size);
      recv = c->kind == SHOAL_COLLECTIVE_ALL_GATHER || is_root ? agreed : 0;
      longest = largest(c->recv_counts, group->size);
      break;
    case SHOAL_COLLECTIVE_SCATTER:
    case SHOAL_COLLECTIVE_REDUCE_SCATTER:
      job.many = true;
      longest = agreed = sum_before(c->send_counts, group->size);
      send = c->kind == SHOAL_COLLECTIVE_REDUCE_SCATTER || is_root ? agreed : 0;
      recv = c->send_counts[group->rank];
      break;
    case SHOAL_COLLECTIVE_ALL_TO_ALL:
      job.many = true;
      send = sum_before(c->send_counts, group->size);
      recv = sum_before(c->recv_counts, group->size);
      longest = -1;
      agreed = 0;
      break;
    default:
      break;
  }
  job.send_bytes = send * job.element;
  job.recv_bytes = recv * job.element;
  job.longest_send = longest * job.element;
  job.bytes = agreed * job.element;
  return job;
}

static bool is_source(const job_t *job, int32_t rank) {
  switch (job->c->kind) {
    case SHOAL_COLLECTIVE_BROADCAST:
    case SHOAL_COLLECTIVE_SCATTER:
      return rank == job->c->root;
    default:
      return true;
  }
}

// Elements of a rank's buffer for this one, and where they begin there.
static int64_t count_from(const job_t *job, int32_t rank) {
  const shoal_collective_t *c = job->c;
  if (!is_source(job, rank)) return 0;
  if (c->recv_counts) return c->recv_counts[rank];
  return c->send_counts ? c->send_counts[job->me] : c->count;
}

static int64_t own_part_at(const job_t *job) {
  return job->many ? sum_before(job->c->send_counts, job->me) * job->element : 0;
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

// Takes elements [lo, hi) of every part that is for this rank; group->sources point at element lo.
static void pull(const job_t *job, int64_t lo, int64_t hi) {
  const shoal_collective_t *c = job->c;
  shoal_group_t *group = job->group;
  if (job->recv_bytes == 0) return;
  uint8_t *recv = c->recv;
  if (shoal_collective_is_reduction(c->kind)) {
    const int64_t count = min64(hi, job->recv_bytes / job->element) - lo;
    int32_t n = job->n;
    if (c->kind == SHOAL_COLLECTIVE_SCAN) n = job->me + 1;
    if (c->kind == SHOAL_COLLECTIVE_EXSCAN) n = job->me;
    if (count <= 0) return;
    if (n == 0) {
      shoal_reduce_fill(c->reduce, c->dtype, count, recv + lo * job->element);
    } else {
      join(c, count, n, group->sources, recv + lo * job->element);
    }
    return;
  }
  for (int32_t i = 0; i < job->n; ++i) {
    const int64_t count = count_from(job, i);
    if (count > lo) {
      copy(recv + lo * job->element, group->sources[i], (min64(hi, count) - lo) * job->element);
    }
    if (c->recv_counts) recv += count * job->element;
  }
}

// ---- inline ---------------------------------------------------------------------------

// Only those are waited for whose data this rank needs.
static shoal_status_t wait_for_sources(const job_t *job) {
  const bool is_root = job->me == job->c->root;
  switch (job->c->kind) {
    case SHOAL_COLLECTIVE_BROADCAST:
    case SHOAL_COLLECTIVE_SCATTER:
      return is_root ? NULL : shoal_meet_wait(job->group, job->c->root, job->c->root + 1);
    case SHOAL_COLLECTIVE_REDUCE:
    case SHOAL_COLLECTIVE_GATHER:
      return is_root ? shoal_meet_wait(job->group, 0, job->n) : NULL;
    case SHOAL_COLLECTIVE_SCAN:
    case SHOAL_COLLECTIVE_EXSCAN:
      return shoal_meet_wait(job->group, 0, job->me);
    default:
      return shoal_meet_wait(job->group, 0, job->n);
  }
}

static shoal_status_t run_inline(const job_t *job) {
  shoal_meet_post_t *post;
  uint8_t *data;
  SHOAL_RETURN_IF_ERROR(shoal_meet_begin(job->group, job->tag, &post, NULL, &data));
  post->step = STEP_INLINE;
  post->bytes = job->bytes;
  if (job->send_bytes > 0) memcpy(data, job->c->send, (size_t)job->send_bytes);
  shoal_meet_publish(job->group);
  SHOAL_RETURN_IF_ERROR(wait_for_sources(job));
  const int64_t at = own_part_at(job);
  for (int32_t i = 0; i < job->n; ++i) {
    job->group->sources[i] = shoal_meet_data(job->group, i) + at;
  }
  pull(job, 0, INT64_MAX);
  return NULL;
}

// ---- joining for several --------------------------------------------------------------

// outs[k][i] = join over the sources; all are advanced by `at` bytes.
static void join_to(const job_t *job, int64_t at, int64_t count, int32_t n_outs,
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
    const int64_t size = min64(count - done, block), offset = at + done * job->element;
    for (int32_t i = 0; i < job->n; ++i) from[i] = (const uint8_t *)sources[i] + offset;
    join(c, size, job->n, from, outs[0] + offset);
    for (int32_t k = 1; k < n_outs; ++k) {
      copy(outs[k] + offset, outs[0] + offset, size * job->element);
    }
  }
}

static void slice_of(int64_t count, int32_t n, int32_t index, int64_t *out_lo, int64_t *out_hi) {
  const int64_t per = (count / n + SLICE_UNIT) / SLICE_UNIT * SLICE_UNIT;
  *out_lo = min64(index * per, count);
  *out_hi = min64(*out_lo + per, count);
}

// Elements [lo, hi) of every rank's scan, the last rank's first: so a result may lie where that
// rank's elements were.
static void scan_slice(const job_t *job, int64_t lo, int64_t hi, uint8_t *const *outs) {
  const shoal_collective_t *c = job->c;
  const int64_t block = BLOCK_BYTES / job->element;
  const void *from[SHOAL_HUB_MAX_RANKS];
  for (int64_t at = lo; at < hi; at += block) {
    const int64_t size = min64(hi - at, block), offset = at * job->element;
    for (int32_t i = 0; i < job->n; ++i) {
      from[i] = (const uint8_t *)job->group->sources[i] + offset;
    }
    for (int32_t i = job->n - 1; i >= 0; --i) {
      const int32_t n = c->kind == SHOAL_COLLECTIVE_EXSCAN ? i : i + 1;
      if (n == 0) {
        shoal_reduce_fill(c->reduce, c->dtype, size, outs[i] + offset);
      } else {
        shoal_reduce_all(c->dtype, c->reduce, size, n, from, outs[i] + offset);
      }
    }
  }
}

// ---- direct ---------------------------------------------------------------------------

typedef struct places {
  bool sends, recvs, root_recv;  // can they all be addressed?
  uint8_t *recv[SHOAL_HUB_MAX_RANKS];
} places_t;

static void read_places(const job_t *job, places_t *out_places) {
  *out_places = (places_t){.sends = true, .recvs = true, .root_recv = true};
  for (int32_t i = 0; i < job->n; ++i) {
    const shoal_meet_post_t *post = shoal_meet_post(job->group, i);
    const bool recv = post->recv != SHOAL_PLACE_PRIVATE;
    if (post->send == SHOAL_PLACE_PRIVATE && is_source(job, i)) out_places->sends = false;
    if (!recv) out_places->recvs = false;
    if (!recv && i == job->c->root) out_places->root_recv = false;
    out_places->recv[i] = recv ? shoal_local_at(job->world, post->recv) : NULL;
    job->group->sources[i] = post->send > 0 ? shoal_local_at(job->world, post->send) : NULL;
  }
}

// What this rank is to copy of a broadcast: the others their own data but for a share that the root
// copies for each of them.
static void broadcast_shares(const job_t *job, const places_t *places) {
  const int64_t bytes = job->bytes, share = bytes / job->n / 64 * 64;
  const uint8_t *from = job->group->sources[job->c->root];
  if (job->me != job->c->root) {
    copy(job->c->recv, from, bytes - (places->recvs ? share : 0));
    return;
  }
  for (int32_t i = 0; i < job->n && places->recvs; ++i) {
    if (i != job->me) copy(places->recv[i] + bytes - share, from + bytes - share, share);
  }
}

// False: the buffers are not all where they must be.
static bool work_direct(const job_t *job) {
  const shoal_collective_t *c = job->c;
  places_t places;
  int64_t lo, hi;
  read_places(job, &places);
  slice_of(c->count, job->n, job->me, &lo, &hi);
  switch (c->kind) {
    case SHOAL_COLLECTIVE_ALL_REDUCE:
      if (!places.sends || !places.recvs) return false;
      if (hi > lo) join_to(job, lo * job->element, hi - lo, job->n, places.recv);
      return true;
    case SHOAL_COLLECTIVE_REDUCE:
      if (!places.sends || !places.root_recv) return false;
      if (hi > lo) join_to(job, lo * job->element, hi - lo, 1, &places.recv[c->root]);
      return true;
    case SHOAL_COLLECTIVE_SCAN:
    case SHOAL_COLLECTIVE_EXSCAN:
      if (!places.sends || !places.recvs) return false;
      scan_slice(job, lo, hi, places.recv);
      return true;
    case SHOAL_COLLECTIVE_BROADCAST:
      if (!places.sends) return false;
      broadcast_shares(job, &places);
      return true;
    case SHOAL_COLLECTIVE_GATHER:  // everyone brings its own
      if (!places.root_recv) return false;
      if (places.recv[c->root]) {
        copy(places.recv[c->root] + sum_before(c->recv_counts, job->me) * job->element, c->send,
             job->send_bytes);
      }
      return true;
    default:
      break;
  }
  if (!places.sends) return false;
  const int64_t at = own_part_at(job);
  for (int32_t i = 0; i < job->n; ++i) {
    const uint8_t *from = job->group->sources[i];
    if (!from) continue;
    job->group->sources[i] =
        from +
        (c->kind == SHOAL_COLLECTIVE_ALL_TO_ALL ? shoal_meet_parts(job->group, i)[job->me].at : at);
  }
  pull(job, 0, INT64_MAX);
  return true;
}

// An all_to_all's counts are known to two ranks each: do they agree? Everyone looks at all of them,
// so that nobody starts when somebody stops.
static shoal_status_t check_parts(const job_t *job) {
  if (job->c->kind != SHOAL_COLLECTIVE_ALL_TO_ALL) return NULL;
  const int32_t *ranks = job->group->ranks;
  for (int32_t to = 0; to < job->n; ++to) {
    for (int32_t from = 0; from < job->n; ++from) {
      const int64_t sent = shoal_meet_parts(job->group, from)[to].bytes;
      const int64_t expected = shoal_meet_parts(job->group, to)[from].expects;
      if (sent == expected) continue;
      return SHOAL_ERROR(MISMATCH,
                         "rank %d expects %lld bytes of all_to_all from rank %d, but rank %d sent "
                         "%lld bytes",
                         ranks[to], (long long)expected, ranks[from], ranks[from], (long long)sent);
    }
  }
  return NULL;
}

static shoal_status_t announce(const job_t *job, int32_t step) {
  shoal_meet_post_t *post;
  shoal_meet_part_t *parts;
  SHOAL_RETURN_IF_ERROR(shoal_meet_begin(job->group, job->tag, &post, &parts, NULL));
  post->step = step;
  post->bytes = job->bytes;
  post->send = shoal_local_place(job->world, job->c->send, job->send_bytes);
  post->recv = shoal_local_place(job->world, job->c->recv, job->recv_bytes);
  if (job->c->kind == SHOAL_COLLECTIVE_ALL_TO_ALL) {
    int64_t at = 0;
    for (int32_t i = 0; i < job->n; ++i) {
      parts[i] = (shoal_meet_part_t){at, job->c->send_counts[i] * job->element,
                                     job->c->recv_counts[i] * job->element};
      at += parts[i].bytes;
    }
  }
  shoal_meet_publish(job->group);
  return shoal_meet_wait(job->group, 0, job->n);
}

// Nobody goes on before all are done with everybody's buffers.
static shoal_status_t finish(const job_t *job) {
  shoal_meet_post_t *post;
  SHOAL_RETURN_IF_ERROR(shoal_meet_begin(job->group, job->tag, &post, NULL, NULL));
  post->step = STEP_END;
  shoal_meet_publish(job->group);
  return shoal_meet_wait(job->group, 0, job->n);
}

// ---- bounce ---------------------------------------------------------------------------

static int64_t longest_part(const job_t *job) {
  const shoal_collective_t *c = job->c;
  if (c->kind != SHOAL_COLLECTIVE_ALL_TO_ALL) {
    return c->recv_counts   ? largest(c->recv_counts, job->n)
           : c->send_counts ? largest(c->send_counts, job->n)
                            : c->count;
  }
  int64_t most = 0;
  for (int32_t i = 0; i < job->n; ++i) {
    const shoal_meet_part_t *parts = shoal_meet_parts(job->group, i);
    for (int32_t k = 0; k < job->n; ++k) most = parts[k].bytes > most ? parts[k].bytes : most;
  }
  return most / job->element;
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
      copy(half + i * piece * job->element, send + lo * job->element,
           min64(piece, count - lo) * job->element);
    }
    send += count * job->element;
  }
}

// The same for an all_reduce, but for the slice that this rank joins itself.
static void fill_slices(const job_t *job, uint8_t *half, int64_t lo, int64_t piece) {
  const int64_t count = min64(piece, job->c->count - lo);
  const uint8_t *send = (const uint8_t *)job->c->send + lo * job->element;
  int64_t from, to;
  slice_of(count, job->n, job->me, &from, &to);
  copy(half, send, from * job->element);
  copy(half + to * job->element, send + to * job->element, (count - to) * job->element);
}

static shoal_status_t meet_round(const job_t *job, int64_t round, int half) {
  const shoal_meet_t *meet = job->group->backend_data;
  shoal_meet_post_t *post = (shoal_meet_post_t *)(uintptr_t)shoal_meet_post(job->group, job->me);
  post->step = (int32_t)(STEP_BOUNCE + half * 8 + (round & 0xffffff) * 16);
  post->bytes = job->bytes;
  post->bounce = shoal_local_place(job->world, meet->bounce, meet->bounce_bytes);
  shoal_meet_publish(job->group);
  return shoal_meet_wait(job->group, 0, job->n);
}

static uint8_t *bounce_of(const job_t *job, int32_t rank) {
  return shoal_local_at(job->world, shoal_meet_post(job->group, rank)->bounce);
}

// All-reduce: each joins a slice of the chunk, then everyone collects the slices.
static shoal_status_t join_round(const job_t *job, int64_t round, int64_t lo, int64_t piece,
                                 int64_t out_at) {
  const int64_t count = min64(piece, job->c->count - lo);
  uint8_t *result = bounce_of(job, job->me) + out_at;
  int64_t from, to;
  slice_of(count, job->n, job->me, &from, &to);
  SHOAL_RETURN_IF_ERROR(shoal_meet_enter(job->group));
  if (to > from) {
    for (int32_t i = 0; i < job->n; ++i) {
      job->group->sources[i] = (const uint8_t *)job->group->sources[i] + from * job->element;
    }
    join(job->c, to - from, job->n, job->group->sources, result);
  }
  shoal_meet_leave(job->group);
  shoal_meet_post_t *post;
  SHOAL_RETURN_IF_ERROR(shoal_meet_begin(job->group, job->tag, &post, NULL, NULL));
  SHOAL_RETURN_IF_ERROR(meet_round(job, round, 1));
  SHOAL_RETURN_IF_ERROR(shoal_meet_enter(job->group));
  for (int32_t i = 0; i < job->n; ++i) {
    slice_of(count, job->n, i, &from, &to);
    copy((uint8_t *)job->c->recv + (lo + from) * job->element, bounce_of(job, i) + out_at,
         (to - from) * job->element);
  }
  shoal_meet_leave(job->group);
  return NULL;
}

static shoal_status_t run_bounce(const job_t *job, int64_t chunk) {
  const shoal_meet_t *meet = job->group->backend_data;
  const int64_t longest = longest_part(job);
  int64_t piece = chunk / job->element / (job->many ? job->n : 1);
  if (piece < 1) piece = 1;
  const int64_t half_bytes = piece * job->element * (job->many ? job->n : 1);
  const bool slices = job->c->kind == SHOAL_COLLECTIVE_ALL_REDUCE;
  SHOAL_RETURN_IF_ERROR(reserve(job, 3 * half_bytes));
  const int64_t own_at = own_part_at(job);
  for (int64_t lo = 0, round = 0; lo < longest; lo += piece, ++round) {
    const int64_t at = round % 2 * half_bytes;
    shoal_meet_post_t *post;
    SHOAL_RETURN_IF_ERROR(shoal_meet_begin(job->group, job->tag, &post, NULL, NULL));
    if (slices) {
      fill_slices(job, (uint8_t *)meet->bounce + at, lo, piece);
    } else {
      fill_half(job, (uint8_t *)meet->bounce + at, lo, piece);
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
      pull(job, lo, lo + piece);
      shoal_meet_leave(job->group);
    }
  }
  return NULL;
}

// ---- choosing -------------------------------------------------------------------------

static shoal_status_t run(const job_t *job, const shoal_local_row_t *row) {
  const bool fits = job->longest_send >= 0 && job->longest_send <= SHOAL_MEET_DATA;
  if (job->c->kind == SHOAL_COLLECTIVE_BARRIER || (row->algorithm == SHOAL_LOCAL_INLINE && fits)) {
    return run_inline(job);
  }
  bool bounce = row->algorithm == SHOAL_LOCAL_BOUNCE;
  SHOAL_RETURN_IF_ERROR(announce(job, bounce ? STEP_BOUNCE : STEP_DIRECT));
  SHOAL_RETURN_IF_ERROR(check_parts(job));
  if (!bounce) {
    SHOAL_RETURN_IF_ERROR(shoal_meet_enter(job->group));
    bounce = !work_direct(job);
    shoal_meet_leave(job->group);
  }
  if (bounce) SHOAL_RETURN_IF_ERROR(run_bounce(job, row->chunk));
  return finish(job);
}

shoal_status_t shoal_local_collective(shoal_group_t *group, const shoal_collective_t *c) {
  const shoal_collective_fn_t composed = shoal_collective_composed[c->kind];
  if (group->size == 1 || c->bounded) return composed(group, c);
  const job_t job = job_of(group, c);
  const shoal_local_row_t *row = shoal_local_table_find(
      &job.world->table, c->kind, job.n, job.longest_send < 0 ? INT64_MAX : job.bytes);
  if (row->algorithm == SHOAL_LOCAL_COMPOSED) return composed(group, c);
  shoal_meet_t *meet;
  SHOAL_RETURN_IF_ERROR(shoal_meet_open(group, job.tag, &meet));
  if (!meet->slot) return composed(group, c);  // more groups than slots
  shoal_status_t status = run(&job, row);
  if (status) shoal_meet_abandon(group, status);
  return status;
}

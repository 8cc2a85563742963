// Collectives on shared memory. All of them have one shape, the *pull*: a rank takes from every
// source what is meant for it, in ascending group rank, and joins or places it. What differs is
// where the sources are looked for:
//
//   inline   in the slot, next to the announcement
//   direct   in the ranks' own buffers. Where the ranks can also write each other's results, the
//            work is cut into slices, one per rank, so that nothing is read twice: a rank joins
//            its slice over all ranks and writes it to all of them
//   bounce   in buffers that all can address, chunk by chunk (bounce.c)
//
// Results are the same bits whichever is taken: each element is joined once, in ascending rank.
#include <string.h>

#include "base/status.h"
#include "comm/backends/local/copy.h"
#include "comm/backends/local/job.h"
#include "device/reduce.h"

#define SCAN_BYTES 8192  // of a block whose scans are made while it is in cache

// ---- inline ---------------------------------------------------------------------------

// What all must agree on.
static void fill_post(const job_t *job, int32_t step, shoal_meet_post_t *post) {
  shoal_meet_t *meet = job->group->backend_data;
  post->step = step;
  post->bytes = job->bytes;
  post->counts = shoal_local_job_counts_hash(job);
  meet->counts = job->counts;
}

// Only those are waited for whose data this rank needs: ranks may use several groups in different
// orders where no data forbids it. Whoever did not fit is found when the group next meets.
static shoal_status_t wait_for_sources(const job_t *job) {
  const shoal_collective_facts_t *facts = &shoal_collective_facts[job->c->kind];
  const int32_t root = job->c->root;
  if (facts->sender == SHOAL_WHO_ROOT)
    return job->me == root ? NULL : shoal_meet_wait(job->group, root, root + 1);
  if (!shoal_collective_takes_part(facts->receiver, job->me == root)) return NULL;
  const int32_t joined = shoal_collective_joined(job->c, job->n, job->me);
  return shoal_meet_wait(job->group, 0, joined);
}

static shoal_status_t run_inline(const job_t *job) {
  shoal_meet_post_t *post;
  uint8_t *data;
  SHOAL_RETURN_IF_ERROR(shoal_meet_begin(job->group, job->tag, &post, NULL, &data));
  fill_post(job, STEP_INLINE, post);
  if (job->send_bytes > 0) memcpy(data, job->c->send, (size_t)job->send_bytes);
  shoal_meet_publish(job->group);
  SHOAL_RETURN_IF_ERROR(wait_for_sources(job));
  const int64_t at = shoal_local_job_own_part(job);
  for (int32_t i = 0; i < job->n; ++i) {
    job->group->sources[i] = shoal_meet_data(job->group, i) + at;
  }
  if (job->send_bytes > 0) job->group->sources[job->me] = (const uint8_t *)job->c->send + at;
  shoal_local_job_pull(job, 0, INT64_MAX);
  return NULL;
}

// ---- direct ---------------------------------------------------------------------------

// Elements [lo, hi) of every rank's scan, the last rank's first: so a result may lie where that
// rank's elements were.
static void scan_slice(const job_t *job, int64_t lo, int64_t hi, uint8_t *const *outs) {
  const shoal_collective_t *c = job->c;
  const int64_t block = SCAN_BYTES / job->element;
  const void *from[SHOAL_HUB_MAX_RANKS];
  for (int64_t at = lo; at < hi; at += block) {
    const int64_t size = shoal_min64(hi - at, block), offset = at * job->element;
    for (int32_t i = 0; i < job->n; ++i) {
      from[i] = (const uint8_t *)job->group->sources[i] + offset;
    }
    for (int32_t i = job->n - 1; i >= 0; --i) {
      const int32_t n = shoal_collective_joined(c, job->n, i);
      if (n == 0) {
        shoal_reduce_fill(c->dtype, c->reduce, size, outs[i] + offset);
      } else {
        shoal_reduce_all(c->dtype, c->reduce, size, n, from, outs[i] + offset);
      }
    }
  }
}

typedef struct places {
  bool sends, recvs, root_recv;  // can they all be addressed?
  bool brought;                  // all that is sent came with the announcements
  uint8_t *recv[SHOAL_HUB_MAX_RANKS];
} places_t;

static void read_places(const job_t *job, places_t *out_places) {
  *out_places = (places_t){.sends = true, .recvs = true, .root_recv = true, .brought = true};
  for (int32_t i = 0; i < job->n; ++i) {
    const shoal_meet_post_t *post = shoal_meet_post(job->group, i);
    const bool recv = post->recv != SHOAL_PLACE_PRIVATE;
    if (post->send == SHOAL_PLACE_PRIVATE && shoal_local_job_is_source(job, i))
      out_places->sends = false;
    if (!recv) out_places->recvs = false;
    if (!recv && i == job->c->root) out_places->root_recv = false;
    out_places->recv[i] = recv ? shoal_local_at(job->world, post->recv) : NULL;
    if (post->send > 0) out_places->brought = false;
    job->group->sources[i] = post->send == SHOAL_PLACE_BROUGHT ? shoal_meet_data(job->group, i)
                             : post->send > 0 ? shoal_local_at(job->world, post->send)
                                              : NULL;
  }
  if (job->send_bytes > 0) job->group->sources[job->me] = job->c->send;
}

// What this rank is to copy of a broadcast: the others their own data but for a share that the root
// copies for each of them.
static void broadcast_shares(const job_t *job, const places_t *places) {
  const int64_t bytes = job->bytes, share = bytes / job->n / 64 * 64;
  const uint8_t *from = job->group->sources[job->c->root];
  if (job->me != job->c->root) {
    shoal_local_copy(job->c->recv, from, bytes - (places->recvs ? share : 0));
    return;
  }
  for (int32_t i = 0; i < job->n && places->recvs; ++i) {
    if (i == job->me) continue;
    shoal_local_copy(places->recv[i] + bytes - share, from + bytes - share, share);
  }
}

typedef enum work {
  WORK_DONE,     // but others may still be at this rank's buffers
  WORK_ENDED,    // and nobody is
  WORK_NOT_HERE  // the buffers are not all where they must be
} work_t;

// Everything that this rank needs, from the sources.
static work_t pull_all(const job_t *job, const places_t *places) {
  if (!places->sends) return WORK_NOT_HERE;
  const int64_t at = shoal_local_job_own_part(job);
  for (int32_t i = 0; i < job->n; ++i) {
    const uint8_t *from = job->group->sources[i];
    if (!from) continue;
    const bool parts = shoal_collective_is_pairwise(job->c->kind);
    const int64_t each = shoal_meet_post(job->group, i)->each;
    job->group->sources[i] = from + (!parts      ? at
                                     : each >= 0 ? each * job->me
                                                 : shoal_meet_parts(job->group, i)[job->me].at);
  }
  shoal_local_job_pull(job, 0, INT64_MAX);
  return places->brought ? WORK_ENDED : WORK_DONE;
}

static work_t work_direct(const job_t *job) {
  const shoal_collective_t *c = job->c;
  const bool small = job->bytes <= SHOAL_MEET_DATA;  // everyone may join everything
  places_t places;
  int64_t lo, hi;
  read_places(job, &places);
  shoal_local_job_slice(c->count, job->n, job->me, &lo, &hi);
  switch (c->kind) {
    case SHOAL_COLLECTIVE_ALL_REDUCE:
    case SHOAL_COLLECTIVE_SCAN:
    case SHOAL_COLLECTIVE_EXSCAN:
      if (!places.sends) return WORK_NOT_HERE;
      // Of what was brought, all may be read in any order; in place, only by its slices.
      if (!places.recvs) return small && places.brought ? pull_all(job, &places) : WORK_NOT_HERE;
      if (c->kind != SHOAL_COLLECTIVE_ALL_REDUCE) {
        scan_slice(job, lo, hi, places.recv);
      } else if (hi > lo) {
        shoal_local_job_join(job, lo * job->element, hi - lo, job->n, places.recv);
      }
      return WORK_DONE;
    case SHOAL_COLLECTIVE_REDUCE:
      if (!places.sends) return WORK_NOT_HERE;
      if (!places.root_recv) return small ? pull_all(job, &places) : WORK_NOT_HERE;
      if (hi > lo) {
        shoal_local_job_join(job, lo * job->element, hi - lo, 1, &places.recv[c->root]);
      }
      return WORK_DONE;
    case SHOAL_COLLECTIVE_BROADCAST:
      if (!places.sends) return WORK_NOT_HERE;
      if (places.brought) return pull_all(job, &places);
      broadcast_shares(job, &places);
      return WORK_DONE;
    case SHOAL_COLLECTIVE_GATHER:  // everyone brings its own
      if (!places.root_recv) return pull_all(job, &places);
      if (places.recv[c->root]) {
        const int64_t at = shoal_local_job_sum(c->recv_counts, job->me) * job->element;
        shoal_local_copy(places.recv[c->root] + at, c->send, job->send_bytes);
      }
      return WORK_DONE;
    default:
      return pull_all(job, &places);
  }
}

// An all_to_all's counts are known to two ranks each: do they agree? Everyone looks at all of them,
// so that nobody starts when somebody stops.
static shoal_status_t check_parts(const job_t *job) {
  if (!shoal_collective_is_pairwise(job->c->kind)) return NULL;
  const int32_t *ranks = job->group->ranks;
  const int64_t each = shoal_meet_post(job->group, job->me)->each;
  int32_t alike = 0;
  while (alike < job->n && shoal_meet_post(job->group, alike)->each == each) ++alike;
  if (each >= 0 && alike == job->n) return NULL;
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

// Small data that others could not address comes along.
static shoal_status_t announce(const job_t *job, int32_t step) {
  shoal_meet_post_t *post;
  shoal_meet_part_t *parts;
  uint8_t *data;
  SHOAL_RETURN_IF_ERROR(shoal_meet_begin(job->group, job->tag, &post, &parts, &data));
  fill_post(job, step, post);
  post->send = shoal_local_place(job->world, job->c->send, job->send_bytes);
  post->recv = shoal_local_place(job->world, job->c->recv, job->recv_bytes);
  if (post->send == SHOAL_PLACE_PRIVATE && job->send_bytes <= SHOAL_MEET_DATA) {
    memcpy(data, job->c->send, (size_t)job->send_bytes);
    post->send = SHOAL_PLACE_BROUGHT;
  }
  if (shoal_collective_is_pairwise(job->c->kind)) {
    int64_t at = 0;
    post->each = job->c->send_counts[0] * job->element;
    for (int32_t i = 0; i < job->n; ++i) {
      const bool alike = job->c->send_counts[i] == job->c->send_counts[0] &&
                         job->c->recv_counts[i] == job->c->send_counts[0];
      if (!alike) post->each = -1;
      parts[i] = (shoal_meet_part_t){at, job->c->send_counts[i] * job->element,
                                     job->c->recv_counts[i] * job->element};
      at += parts[i].bytes;
    }
  }
  shoal_meet_publish(job->group);
  return shoal_meet_wait(job->group, 0, job->n);
}

// Nobody goes on before all are done with everybody's buffers, unless the world breaks: then a
// process that has come here gives its memory back while others still read it, and what they read
// is zeros. So a world that is broken by now has no results.
static shoal_status_t finish(const job_t *job) {
  shoal_meet_post_t *post;
  SHOAL_RETURN_IF_ERROR(shoal_meet_begin(job->group, job->tag, &post, NULL, NULL));
  post->step = STEP_END;
  shoal_meet_publish(job->group);
  SHOAL_RETURN_IF_ERROR(shoal_meet_wait(job->group, 0, job->n));
  return shoal_failure_status(&job->world->hub->failure);
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
    const work_t work = work_direct(job);
    shoal_meet_leave(job->group);
    if (work == WORK_ENDED) return NULL;
    bounce = work == WORK_NOT_HERE;
  }
  if (bounce) SHOAL_RETURN_IF_ERROR(shoal_local_bounce(job, row->chunk));
  return finish(job);
}

shoal_status_t shoal_local_collective(shoal_group_t *group, const shoal_collective_t *c) {
  const shoal_collective_fn_t composed = shoal_collective_composed[c->kind];
  if (group->size == 1 || c->bounded) return composed(group, c);
  const job_t job = shoal_local_job(group, c);
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

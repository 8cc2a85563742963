// Further conformance cases of communication: bounded counts, large buffers, reductions in any
// order, point to point.
#ifndef SHOAL_TESTS_UNIT_COMM_CASES_MORE_H_
#define SHOAL_TESTS_UNIT_COMM_CASES_MORE_H_

#include "comm_model.h"

// Bounded: capacities say where parts lie, counts that only their senders know how much moves. What
// lies behind a count must stay as it is.
static int64_t bounded_count(int64_t salt, int32_t i, int32_t j, int64_t capacity) {
  return capacity == 0 ? 0 : (salt * 5 + i * 3 + j * 11) % (capacity + 1);
}

static shoal_status_t case_bounded(shoal_group_t *group, int32_t n, const int32_t *ranks,
                                   buffers_t *b) {
  const int32_t own = shoal_group_rank(group);
  static const shoal_collective_kind_t kinds[] = {
      SHOAL_COLLECTIVE_ALL_TO_ALL, SHOAL_COLLECTIVE_ALL_GATHER, SHOAL_COLLECTIVE_GATHER,
      SHOAL_COLLECTIVE_SCATTER, SHOAL_COLLECTIVE_REDUCE_SCATTER};
  const shoal_dtype_t dtype = SHOAL_F32;
  const size_t element = sizeof(float);
  int64_t salt = 8000;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k) {
    for (int pattern = 0; pattern < PATTERNS; ++pattern, ++salt) {
      const shoal_collective_kind_t kind = kinds[k];
      const int32_t root = (int32_t)(salt % n);
      const bool many = kind == SHOAL_COLLECTIVE_ALL_TO_ALL;
      const bool reduces_it = kind == SHOAL_COLLECTIVE_REDUCE_SCATTER;
      const bool gathers =
          many || kind == SHOAL_COLLECTIVE_ALL_GATHER || kind == SHOAL_COLLECTIVE_GATHER;
      int64_t capacities[MAX_RANKS], counts[MAX_RANKS], came[MAX_RANKS], total = 0;
      for (int32_t i = 0; i < n; ++i) {
        capacities[i] = many ? count_of(pattern, 1) : count_of(pattern, i);
        total += capacities[i];
      }
      for (int32_t i = 0; i < n; ++i) {
        came[i] = -1;
        const int32_t from = kind == SHOAL_COLLECTIVE_SCATTER ? root : reduces_it ? 0 : own;
        counts[i] = bounded_count(salt, from, gathers && !many ? own : i,
                                  capacities[gathers && !many ? own : i]);
      }
      fill(dtype, ranks[own], salt, total, b->send);
      for (int64_t i = 0; i < total; ++i) ((float *)b->recv)[i] = ((float *)b->want)[i] = -7;
      // What must come, from rank i.
      int64_t at = 0, before = 0, want_came[MAX_RANKS];
      for (int32_t i = 0; i < own; ++i) before += capacities[i];
      for (int32_t i = 0; i < n && gathers; ++i) {
        want_came[i] = bounded_count(salt, i, many ? own : i, capacities[i]);
        float *all = malloc((size_t)(total + 1) * element);
        fill(dtype, ranks[i], salt, total, all);
        memcpy((float *)b->want + at, all + (many ? before : 0), (size_t)want_came[i] * element);
        free(all);
        at += capacities[i];
      }
      if (!gathers) {
        want_came[0] = bounded_count(salt, reduces_it ? 0 : root, own, capacities[own]);
        float *all = malloc((size_t)(total + 1) * element);
        if (reduces_it) {
          model_reduce(dtype, SHOAL_REDUCE_SUM, n, ranks, salt, total, all);
        } else {
          fill(dtype, ranks[root], salt, total, all);
        }
        memcpy(b->want, all + before, (size_t)want_came[0] * element);
        free(all);
      }
      const shoal_collective_t c = {.kind = kind,
                                    .dtype = dtype,
                                    .reduce = SHOAL_REDUCE_SUM,
                                    .root = shoal_collective_has_root(kind) ? root : 0,
                                    .bounded = true,
                                    .send_counts = many || !gathers ? capacities : NULL,
                                    .recv_counts = gathers ? capacities : NULL,
                                    .send_counts_at_run = counts,
                                    .recv_counts_at_run = came,
                                    .send = b->send,
                                    .recv = b->recv};
      SHOAL_RETURN_IF_ERROR(shoal_collective_run(group, &c));
      if (kind == SHOAL_COLLECTIVE_GATHER && own != root) continue;
      SHOAL_RETURN_IF_ERROR(
          shoal_status_annotatef(compare(b, dtype, gathers ? total : capacities[own]),
                                 "bounded %s pattern %d", shoal_collective_name(kind), pattern));
      for (int32_t i = 0; i < (gathers ? n : 1); ++i) {
        CHECK(came[i] == want_came[i], "bounded %s: %lld came from %d, not %lld",
              shoal_collective_name(kind), (long long)came[i], i, (long long)want_came[i]);
      }
    }
  }
  return NULL;
}

// Parts longer than a block: everyone's element i is small enough for exact sums in any order.
static shoal_status_t case_large(shoal_group_t *group, int32_t n, const int32_t *ranks,
                                 buffers_t *b) {
  (void)b;
  const int64_t count = 300007;  // of which the last rank has most
  const int32_t own = shoal_group_rank(group);
  float *data = malloc((size_t)count * sizeof *data), *part = malloc((size_t)count * sizeof *part);
  int64_t counts[MAX_RANKS], before = 0, rank_sum = 0;
  for (int32_t i = 0; i < n; ++i) {
    counts[i] = i == n - 1 ? count - 40000 * (n - 1) : 40000;
    if (i < own) before += counts[i];
    rank_sum += ranks[i] + 1;
  }
  for (int64_t i = 0; i < count; ++i) data[i] = (float)((i % 1009) * (ranks[own] + 1));
  shoal_status_t status =
      shoal_reduce_scatter(group, SHOAL_F32, SHOAL_REDUCE_SUM, counts, data, part);
  for (int64_t i = 0; i < counts[own] && !status; ++i) {
    if (part[i] != (float)(((before + i) % 1009) * rank_sum)) {
      status = SHOAL_ERROR(MISMATCH, "reduce_scatter element %lld", (long long)i);
    }
  }
  if (!status) status = shoal_all_reduce(group, SHOAL_F32, SHOAL_REDUCE_SUM, count, data, data);
  for (int64_t i = 0; i < count && !status; ++i) {
    if (data[i] != (float)((i % 1009) * rank_sum)) {
      status = SHOAL_ERROR(MISMATCH, "all_reduce element %lld", (long long)i);
    }
  }
  free(part);
  free(data);
  return status;
}

// Any order: integers exactly, floats nearly, and every rank of a call has the same bits.
static shoal_status_t check_any_order(shoal_group_t *group, const shoal_collective_t *c,
                                      int64_t first, int64_t count, buffers_t *b) {
  const shoal_dtype_t dtype = c->dtype;
  const double rounding = dtype == SHOAL_F64    ? 1e-14
                          : dtype == SHOAL_F32  ? 1e-6
                          : dtype == SHOAL_BF16 ? 1e-2
                          : dtype == SHOAL_F16  ? 1e-3
                                                : 0;
  uint64_t hash = SHOAL_HASH_START;
  for (int64_t i = 0; i < count; ++i) {
    const double got = shoal_dtype_load(dtype, b->recv, i);
    const double want = shoal_dtype_load(dtype, b->want, first + i);
    CHECK(fabs(got - want) <= fabs(want) * rounding * shoal_group_size(group),
          "element %lld of %s is %.17g, not %.17g", (long long)i, shoal_dtype_name(dtype), got,
          want);
    hash = shoal_hash_int(hash, (int64_t)(got * 1e6));
  }
  if (c->kind != SHOAL_COLLECTIVE_ALL_REDUCE) return NULL;
  uint64_t root = hash;
  SHOAL_RETURN_IF_ERROR(shoal_broadcast(group, &root, sizeof root, 0));
  CHECK(root == hash, "%s of %s: not the same bits as group rank 0", shoal_collective_name(c->kind),
        shoal_dtype_name(dtype));
  return NULL;
}

static shoal_status_t case_any_order(shoal_group_t *group, int32_t n, const int32_t *ranks,
                                     buffers_t *b) {
  static const shoal_collective_kind_t kinds[] = {
      SHOAL_COLLECTIVE_ALL_REDUCE, SHOAL_COLLECTIVE_REDUCE, SHOAL_COLLECTIVE_REDUCE_SCATTER};
  const int32_t own = shoal_group_rank(group);
  int64_t salt = 9000;
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; ++d) {
    for (size_t r = d / 2 % 2; r < sizeof reduces / sizeof *reduces; r += d < 2 ? 1 : 2) {
      for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k, ++salt) {
        const size_t element = shoal_dtype_size(dtypes[d]);
        const int64_t many = 4500 / (int64_t)element;  // few go another way
        const bool scatters = kinds[k] == SHOAL_COLLECTIVE_REDUCE_SCATTER;
        int64_t counts[MAX_RANKS], total = scatters ? 0 : many, before = 0;
        for (int32_t i = 0; i < n && scatters; ++i) {
          counts[i] = i == n - 1 ? many : (i * 50) % 170;
          if (i < own) before += counts[i];
          total += counts[i];
        }
        const int32_t root = kinds[k] == SHOAL_COLLECTIVE_REDUCE ? (int32_t)(salt % n) : 0;
        const bool in_place = salt % 2 == 0;
        fill(dtypes[d], ranks[own], salt, total, b->send);
        uint8_t *recv = (uint8_t *)b->recv;
        if (in_place && scatters) recv = (uint8_t *)b->send + (size_t)before * element;
        if (in_place && !scatters) memcpy(b->recv, b->send, (size_t)total * element);
        shoal_collective_t c = {.kind = kinds[k],
                                .dtype = dtypes[d],
                                .reduce = reduces[r],
                                .root = root,
                                .any_order = true,
                                .count = scatters ? 0 : total,
                                .send_counts = scatters ? counts : NULL,
                                .send = in_place && !scatters ? b->recv : b->send,
                                .recv = recv};
        SHOAL_RETURN_IF_ERROR(shoal_collective_run(group, &c));
        if (kinds[k] == SHOAL_COLLECTIVE_REDUCE && own != root) continue;
        const int64_t count = scatters ? counts[own] : total;
        if (recv != (uint8_t *)b->recv) memcpy(b->recv, recv, (size_t)count * element);
        model_reduce(dtypes[d], reduces[r], n, ranks, salt, total, b->want);
        SHOAL_RETURN_IF_ERROR(shoal_status_annotatef(check_any_order(group, &c, before, count, b),
                                                     "%s by %s%s", shoal_collective_name(kinds[k]),
                                                     shoal_reduce_name(reduces[r]),
                                                     in_place ? " in place" : ""));
      }
    }
  }
  return NULL;
}

// Point to point: blocking along a chain, against its direction between neighbours that start what
// they receive, all to all grouped, and what is refused. World ranks tell who sent.
static shoal_status_t case_point(shoal_group_t *group, int32_t n, const int32_t *ranks,
                                 buffers_t *b) {
  const int32_t own = shoal_group_rank(group);
  int64_t *send = (int64_t *)b->send, *recv = (int64_t *)b->recv, token = 0;
  for (int32_t i = -1; i <= n; ++i) {
    const int32_t want = i >= 0 && i < n ? ranks[i] : -1;
    CHECK(shoal_group_world_rank(group, i) == want, "group rank %d is not rank %d", i, want);
  }
  for (int round = 0; round < 2; ++round) {
    if (own > 0) SHOAL_RETURN_IF_ERROR(shoal_recv(group, own - 1, 5, sizeof token, &token));
    CHECK(own == 0 || token == ranks[own - 1] + 100 * round, "token %lld", (long long)token);
    token = ranks[own] + 100 * round;
    if (own + 1 < n) SHOAL_RETURN_IF_ERROR(shoal_send(group, own + 1, 5, sizeof token, &token));
  }
  const int64_t bytes = (int64_t)sizeof b->send;
  shoal_exchange_t back;
  SHOAL_RETURN_IF_ERROR(shoal_recv_start(group, own, 0, 0, NULL, &back));  // from itself, no bytes
  SHOAL_RETURN_IF_ERROR(shoal_send(group, own, 0, 0, NULL));
  SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&back));
  if (own + 1 < n) {
    SHOAL_RETURN_IF_ERROR(shoal_recv_start(group, own + 1, 6, bytes, b->recv, &back));
  }
  fill(SHOAL_F64, ranks[own], 77, CAPACITY, b->send);
  if (own > 0) SHOAL_RETURN_IF_ERROR(shoal_send(group, own - 1, 6, bytes, b->send));
  if (own + 1 < n) {
    SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&back));
    fill(SHOAL_F64, ranks[own + 1], 77, CAPACITY, b->want);
    SHOAL_RETURN_IF_ERROR(compare(b, SHOAL_F64, CAPACITY));
  }
  shoal_exchange_t sent[MAX_RANKS], received[MAX_RANKS];
  for (int32_t i = 0; i < n; ++i) {
    send[i] = ranks[own] * 1000 + ranks[i];
    SHOAL_RETURN_IF_ERROR(shoal_send_start(group, i, 7, sizeof *send, &send[i], &sent[i]));
    SHOAL_RETURN_IF_ERROR(shoal_recv_start(group, i, 7, sizeof *recv, &recv[i], &received[i]));
  }
  for (int32_t i = n - 1; i >= 0; --i) {
    SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&received[i]));
    SHOAL_RETURN_IF_ERROR(shoal_exchange_wait(&sent[i]));
    CHECK(recv[i] == ranks[i] * 1000 + ranks[own], "from %d came %lld", i, (long long)recv[i]);
  }
  CHECK_ERROR(INVALID_ARGUMENT, "in a group of", shoal_send(group, n, 0, 0, NULL));
  CHECK_ERROR(INVALID_ARGUMENT, "in a group of", shoal_recv(group, -1, 0, 0, NULL));
  CHECK_ERROR(INVALID_ARGUMENT, "-1 bytes", shoal_send(group, own, 0, -1, send));
  CHECK_ERROR(INVALID_ARGUMENT, "no data", shoal_recv(group, own, 0, 8, NULL));
  return NULL;
}

#endif  // SHOAL_TESTS_UNIT_COMM_CASES_MORE_H_

// Conformance of communication backends: one list of cases, run on every backend and number of
// ranks, compared bit by bit with a serial model. Each rank has different data.
// links: launch
#include <math.h>
#include <stdlib.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "comm/comm_impl.h"
#include "comm_ranks.h"
#include "comm_throttled.h"
#include "op/reduce.h"

// Serial model
// ----------------------------------------------------------------------------------------

// Element i of what `rank` contributes to test `salt`. Floats need all their bits, so that a wrong
// order of summation shows.
static void fill(shoal_dtype_t dtype, int32_t rank, int64_t salt, int64_t count, void *data) {
  for (int64_t i = 0; i < count; ++i) {
    uint64_t hash = shoal_hash_int(shoal_hash_int(shoal_hash_int(SHOAL_HASH_START, rank), salt), i);
    hash ^= hash >> 29;
    if (shoal_dtype_is_float(dtype)) {
      shoal_dtype_store(dtype, data, i, 0.75 + (double)(hash % 100003) / 100003.0);
    } else {
      shoal_dtype_store_int(dtype, data, i, (int64_t)(hash % 200) - (dtype == SHOAL_U8 ? 0 : 100));
    }
  }
}

// Ranks' elements joined in order: floats of 2 and 4 bytes in f32, rounded at the end.
static void model_reduce(shoal_dtype_t dtype, shoal_reduce_t reduce, int32_t n,
                         const int32_t *ranks, int64_t salt, int64_t count, void *out) {
  uint8_t *one = out;
  int64_t element = (int64_t)shoal_dtype_size(dtype);
  double *sums = malloc((size_t)(count + 1) * sizeof *sums);
  void *data = malloc((size_t)(count * element + 1));
  for (int32_t r = 0; r < n; ++r) {
    fill(dtype, ranks[r], salt, count, data);
    for (int64_t i = 0; i < count; ++i) {
      if (!shoal_dtype_is_float(dtype)) {
        if (r == 0) shoal_dtype_store_int(dtype, one, i, shoal_dtype_load_int(dtype, data, i));
        if (r > 0) {
          shoal_reduce_join(dtype, reduce, 1, (uint8_t *)data + i * element, one + i * element);
        }
        continue;
      }
      double a = sums[i], b = shoal_dtype_load(dtype, data, i), c = 0;
      if (r == 0)
        c = b;
      else if (reduce == SHOAL_REDUCE_SUM)
        c = a + b;
      else if (reduce == SHOAL_REDUCE_PROD)
        c = a * b;
      else if (reduce == SHOAL_REDUCE_MAX)
        c = a > b ? a : b;
      else
        c = a < b ? a : b;
      sums[i] = dtype == SHOAL_F64 ? c : (double)(float)c;
      shoal_dtype_store(dtype, out, i, sums[i]);
    }
  }
  free(data);
  free(sums);
}

// Buffers of a rank's case
// --------------------------------------------------------------------------------

#define CAPACITY 4000  // elements
typedef struct buffers {
  double send[CAPACITY], recv[CAPACITY], want[CAPACITY];
} buffers_t;

static const shoal_dtype_t dtypes[] = {SHOAL_F64, SHOAL_F32, SHOAL_BF16, SHOAL_F16,
                                       SHOAL_I64, SHOAL_I32, SHOAL_U8,   SHOAL_BOOL};
static const shoal_reduce_t reduces[] = {SHOAL_REDUCE_SUM, SHOAL_REDUCE_MAX, SHOAL_REDUCE_MIN,
                                         SHOAL_REDUCE_PROD};
static const int64_t sizes[] = {0, 1, 5, 1100};

// Counts per group rank: uneven, with zeros, by pattern.
static int64_t count_of(int pattern, int32_t i) {
  switch (pattern) {
    case 0:
      return 0;
    case 1:
      return 3;
    case 2:
      return (i * 7 + 2) % 5;  // 2 4 1 3 0 ...
    case 3:
      return i == 0 ? 0 : i * 31;
    default:
      return i % 2 ? 17 : 400;
  }
}
#define PATTERNS 5

static shoal_status_t compare(const buffers_t *b, shoal_dtype_t dtype, int64_t count) {
  const size_t element = shoal_dtype_size(dtype);
  for (int64_t i = 0; i < count; ++i) {
    if (memcmp((const uint8_t *)b->recv + (size_t)i * element,
               (const uint8_t *)b->want + (size_t)i * element, element) != 0) {
      return SHOAL_ERROR(MISMATCH, "element %lld of %lld %s is %.17g, not %.17g", (long long)i,
                         (long long)count, shoal_dtype_name(dtype),
                         shoal_dtype_load(dtype, b->recv, i), shoal_dtype_load(dtype, b->want, i));
    }
  }
  return NULL;
}

// The cases: each is one collective over one group
// ----------------------------------------------------------

static shoal_status_t case_all_reduce(shoal_group_t *group, int32_t n, const int32_t *ranks,
                                      buffers_t *b) {
  int32_t me = ranks[shoal_group_rank(group)];
  int64_t salt = 1;
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; ++d) {
    for (size_t r = 0; r < sizeof reduces / sizeof *reduces; ++r) {
      for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s, ++salt) {
        const bool in_place = salt % 2 == 0;
        fill(dtypes[d], me, salt, sizes[s], in_place ? b->recv : b->send);
        SHOAL_RETURN_IF_ERROR(shoal_all_reduce(group, dtypes[d], reduces[r], sizes[s],
                                               in_place ? b->recv : b->send, b->recv));
        model_reduce(dtypes[d], reduces[r], n, ranks, salt, sizes[s], b->want);
        SHOAL_RETURN_IF_ERROR(shoal_status_annotatef(
            compare(b, dtypes[d], sizes[s]), "all_reduce %s", shoal_reduce_name(reduces[r])));
      }
    }
  }
  return NULL;
}

static shoal_status_t case_reduce_scatter(shoal_group_t *group, int32_t n, const int32_t *ranks,
                                          buffers_t *b) {
  const int32_t own = shoal_group_rank(group);
  int64_t salt = 1000;
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; ++d) {
    for (int pattern = 0; pattern < PATTERNS; ++pattern, ++salt) {
      int64_t counts[MAX_RANKS], total = 0, before = 0;
      for (int32_t i = 0; i < n; ++i) {
        counts[i] = count_of(pattern, i);
        if (i < own) before += counts[i];
        total += counts[i];
      }
      const shoal_reduce_t reduce = reduces[salt % 4];
      fill(dtypes[d], ranks[own], salt, total, b->send);
      SHOAL_RETURN_IF_ERROR(
          shoal_reduce_scatter(group, dtypes[d], reduce, counts, b->send, b->recv));
      model_reduce(dtypes[d], reduce, n, ranks, salt, total, b->want);
      const size_t element = shoal_dtype_size(dtypes[d]);
      memmove(b->want, (uint8_t *)b->want + (size_t)before * element,
              (size_t)counts[own] * element);
      SHOAL_RETURN_IF_ERROR(shoal_status_annotatef(compare(b, dtypes[d], counts[own]),
                                                   "reduce_scatter pattern %d", pattern));
    }
  }
  return NULL;
}

static shoal_status_t case_all_gather(shoal_group_t *group, int32_t n, const int32_t *ranks,
                                      buffers_t *b) {
  const int32_t own = shoal_group_rank(group);
  int64_t salt = 2000;
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; ++d) {
    const size_t element = shoal_dtype_size(dtypes[d]);
    for (int pattern = 0; pattern < PATTERNS; ++pattern, ++salt) {
      int64_t counts[MAX_RANKS], total = 0;
      for (int32_t i = 0; i < n; ++i) {
        counts[i] = count_of(pattern, i);
        fill(dtypes[d], ranks[i], salt, counts[i], (uint8_t *)b->want + (size_t)total * element);
        total += counts[i];
      }
      fill(dtypes[d], ranks[own], salt, counts[own], b->send);
      SHOAL_RETURN_IF_ERROR(shoal_all_gather(group, dtypes[d], counts, b->send, b->recv));
      SHOAL_RETURN_IF_ERROR(
          shoal_status_annotatef(compare(b, dtypes[d], total), "all_gather pattern %d", pattern));
    }
  }
  return NULL;
}

// From i to j go count_of(pattern, (i + 2 j) mod n) elements, at j's place in fill(i).
static shoal_status_t case_all_to_all(shoal_group_t *group, int32_t n, const int32_t *ranks,
                                      buffers_t *b) {
  const int32_t own = shoal_group_rank(group);
  int64_t salt = 3000;
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; ++d) {
    const size_t element = shoal_dtype_size(dtypes[d]);
    for (int pattern = 0; pattern < PATTERNS; ++pattern, ++salt) {
      int64_t sends[MAX_RANKS], recvs[MAX_RANKS], sent = 0, received = 0;
      for (int32_t i = 0; i < n; ++i) {
        sends[i] = count_of(pattern, (own + 2 * i) % n);
        recvs[i] = count_of(pattern, (i + 2 * own) % n);
        sent += sends[i];
      }
      for (int32_t i = 0; i < n; ++i) {
        int64_t before = 0, total = 0;
        for (int32_t j = 0; j < n; ++j) {
          if (j < own) before += count_of(pattern, (i + 2 * j) % n);
          total += count_of(pattern, (i + 2 * j) % n);
        }
        fill(dtypes[d], ranks[i], salt, total, b->recv);
        memcpy((uint8_t *)b->want + (size_t)received * element,
               (uint8_t *)b->recv + (size_t)before * element, (size_t)recvs[i] * element);
        received += recvs[i];
      }
      fill(dtypes[d], ranks[own], salt, sent, b->send);
      SHOAL_RETURN_IF_ERROR(shoal_all_to_all(group, dtypes[d], sends, b->send, recvs, b->recv));
      SHOAL_RETURN_IF_ERROR(shoal_status_annotatef(compare(b, dtypes[d], received),
                                                   "all_to_all pattern %d", pattern));
    }
  }
  return NULL;
}

static shoal_status_t case_broadcast(shoal_group_t *group, int32_t n, const int32_t *ranks,
                                     buffers_t *b) {
  const int32_t own = shoal_group_rank(group);
  for (int32_t root = 0; root < n; ++root) {
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
      const int64_t salt = 4000 + root * 10 + (int64_t)s;
      fill(SHOAL_U8, ranks[own], salt, sizes[s], b->recv);
      SHOAL_RETURN_IF_ERROR(shoal_broadcast(group, b->recv, sizes[s], root));
      fill(SHOAL_U8, ranks[root], salt, sizes[s], b->want);
      SHOAL_RETURN_IF_ERROR(
          shoal_status_annotatef(compare(b, SHOAL_U8, sizes[s]), "broadcast from %d", root));
    }
  }
  return NULL;
}

// Reduce to every root, and both scans: the reduction of a prefix of the group.
static shoal_status_t case_reduce(shoal_group_t *group, int32_t n, const int32_t *ranks,
                                  buffers_t *b) {
  const int32_t own = shoal_group_rank(group);
  int64_t salt = 5000;
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; ++d) {
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s, ++salt) {
      const shoal_reduce_t reduce = reduces[salt % 4];
      const int32_t root = (int32_t)(salt % n);
      const bool in_place = salt % 3 == 0;
      fill(dtypes[d], ranks[own], salt, sizes[s], in_place ? b->recv : b->send);
      SHOAL_RETURN_IF_ERROR(shoal_reduce_to(group, dtypes[d], reduce, sizes[s],
                                            in_place ? b->recv : b->send,
                                            own == root || in_place ? b->recv : NULL, root));
      if (own == root) {
        model_reduce(dtypes[d], reduce, n, ranks, salt, sizes[s], b->want);
      } else if (in_place) {  // left alone
        fill(dtypes[d], ranks[own], salt, sizes[s], b->want);
      }
      if (own == root || in_place) {
        SHOAL_RETURN_IF_ERROR(shoal_status_annotatef(compare(b, dtypes[d], sizes[s]),
                                                     "reduce to %d by %s", root,
                                                     shoal_reduce_name(reduce)));
      }
    }
  }
  return NULL;
}

static shoal_status_t case_scan(shoal_group_t *group, int32_t n, const int32_t *ranks,
                                buffers_t *b) {
  (void)n;
  const int32_t own = shoal_group_rank(group);
  int64_t salt = 6000;
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; ++d) {
    for (size_t s = 0; s < 2 * sizeof sizes / sizeof *sizes; ++s, ++salt) {
      const shoal_reduce_t reduce = reduces[salt / 2 % 4];
      const int64_t count = sizes[s / 2];
      const bool exclusive = s % 2, in_place = salt / 3 % 2;
      const void *send = in_place ? b->recv : b->send;
      fill(dtypes[d], ranks[own], salt, count, in_place ? b->recv : b->send);
      SHOAL_RETURN_IF_ERROR(
          exclusive ? shoal_exclusive_scan(group, dtypes[d], reduce, count, send, b->recv)
                    : shoal_scan(group, dtypes[d], reduce, count, send, b->recv));
      const int32_t joined = exclusive ? own : own + 1;
      if (joined == 0) shoal_reduce_fill(dtypes[d], reduce, count, b->want);
      model_reduce(dtypes[d], reduce, joined, ranks, salt, count, b->want);
      SHOAL_RETURN_IF_ERROR(shoal_status_annotatef(
          compare(b, dtypes[d], count), "%s scan by %s%s", exclusive ? "exclusive" : "inclusive",
          shoal_reduce_name(reduce), in_place ? " in place" : ""));
    }
  }
  return NULL;
}

// There and back: parts to one root, and from it. In place, the root's own part lies where it
// belongs.
static shoal_status_t case_gather(shoal_group_t *group, int32_t n, const int32_t *ranks,
                                  buffers_t *b) {
  const int32_t own = shoal_group_rank(group);
  int64_t salt = 7000;
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; ++d) {
    const size_t element = shoal_dtype_size(dtypes[d]);
    for (int pattern = 0; pattern < PATTERNS; ++pattern, ++salt) {
      int64_t counts[MAX_RANKS], total = 0, before = 0;
      const int32_t root = (int32_t)(salt % n);
      for (int32_t i = 0; i < n; ++i) {
        counts[i] = count_of(pattern, i);
        if (i < own) before += counts[i];
        fill(dtypes[d], ranks[i], salt, counts[i], (uint8_t *)b->want + (size_t)total * element);
        total += counts[i];
      }
      const bool in_place = own == root && salt % 2;
      uint8_t *mine = in_place ? (uint8_t *)b->recv + (size_t)before * element : (uint8_t *)b->send;
      fill(dtypes[d], ranks[own], salt, counts[own], mine);
      SHOAL_RETURN_IF_ERROR(
          shoal_gather_to(group, dtypes[d], counts, mine, own == root ? b->recv : NULL, root));
      if (own == root) {
        SHOAL_RETURN_IF_ERROR(shoal_status_annotatef(compare(b, dtypes[d], total),
                                                     "gather pattern %d to %d", pattern, root));
      }
      memset(mine, 0, (size_t)counts[own] * element * !in_place);
      SHOAL_RETURN_IF_ERROR(
          shoal_scatter_from(group, dtypes[d], counts, own == root ? b->recv : NULL, mine, root));
      fill(dtypes[d], ranks[own], salt, counts[own], b->want);
      memmove(b->recv, mine, (size_t)counts[own] * element);
      SHOAL_RETURN_IF_ERROR(shoal_status_annotatef(compare(b, dtypes[d], counts[own]),
                                                   "scatter pattern %d from %d", pattern, root));
    }
  }
  return NULL;
}

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

// Nobody leaves before the last one came: everyone tells, then everyone has been told.
static shoal_status_t case_barrier(shoal_group_t *group, int32_t n, const int32_t *ranks,
                                   buffers_t *b) {
  (void)n, (void)ranks, (void)b;
  for (int i = 0; i < 20; ++i) SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
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

typedef shoal_status_t (*case_fn_t)(shoal_group_t *, int32_t, const int32_t *, buffers_t *);
static const struct {
  const char *name;
  case_fn_t run;
} cases[] = {
    {"barrier", case_barrier},       {"broadcast", case_broadcast},
    {"all_reduce", case_all_reduce}, {"reduce_scatter", case_reduce_scatter},
    {"all_gather", case_all_gather}, {"all_to_all", case_all_to_all},
    {"reduce", case_reduce},         {"scan", case_scan},
    {"gather", case_gather},         {"bounded", case_bounded},
    {"large", case_large},           {"any_order", case_any_order},
    {"point", case_point},
};

// Groups: all ranks, all backwards, every second one, each alone
// ----------------------------------------------

static int32_t group_ranks(int kind, int32_t me, int32_t size, int32_t *out_ranks) {
  int32_t count = 0;
  for (int32_t i = 0; i < size; ++i) {
    if (kind == 0) out_ranks[count++] = i;
    if (kind == 1) out_ranks[count++] = size - 1 - i;
    if (kind == 2 && i % 2 == me % 2) out_ranks[count++] = i;
    if (kind == 3 && i == me) out_ranks[count++] = i;
  }
  return count;
}

// Where buffers lie: every rank's private, every rank's node-addressable, or the even ones'
// private.
typedef enum memory { PRIVATE, SHARED, MIXED } memory_t;

static shoal_status_t conformance(shoal_world_t *world, void *self) {
  const memory_t memory = self ? *(const memory_t *)self : PRIVATE;
  buffers_t *buffers = NULL;
  const bool shared = memory == SHARED || (memory == MIXED && shoal_world_rank(world) % 2);
  shoal_status_t status = NULL;
  if (shared) {
    status = shoal_comm_alloc(world, sizeof *buffers, (void **)&buffers);
  } else {
    buffers = malloc(sizeof *buffers);
  }
  for (int kind = 0; kind < 4 && !status; ++kind) {
    int32_t ranks[MAX_RANKS];
    int32_t n = group_ranks(kind, shoal_world_rank(world), shoal_world_size(world), ranks);
    shoal_group_t *group = NULL;
    status = shoal_group_create(world, n, ranks, &group);
    for (size_t c = 0; c < sizeof cases / sizeof *cases && !status; ++c) {
      if (kind > 1 && cases[c].run == case_all_reduce && n > 1) continue;  // time
      status = shoal_status_annotatef(cases[c].run(group, n, ranks, buffers), "%s, group %d",
                                      cases[c].name, kind);
    }
    shoal_group_free(group);
  }
  if (shared) {
    shoal_comm_release(world, buffers);
  } else {
    free(buffers);
  }
  return status;
}

static void test_self(void **state) {
  (void)state;
  run_threads(&(shoal_world_options_t){.backend = "self"}, 1, conformance, NULL);
}

static void test_threads(void **state) {
  (void)state;
  const int32_t counts[] = {1, 2, 3, 4, 7, 8};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
    run_threads(NULL, counts[i], conformance, NULL);
  }
}

static void test_processes(void **state) {
  (void)state;
  const int32_t counts[] = {2, 3, 5};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
    for (memory_t memory = PRIVATE; memory <= MIXED; ++memory) {
      assert_ok(run_processes(NULL, counts[i], conformance, &memory));
    }
  }
}

// Through links: messages that come late change nothing.
static void test_throttle(void **state) {
  (void)state;
  throttle("shoal_cluster: 1\nlink: {latency: 1.0e-6, bandwidth: 1.0e9}\n", "");
  const shoal_world_options_t options = {.backend = "throttle:local"};
#ifdef SHOAL_SANITIZE_THREAD  // time
  const int32_t counts[] = {3};
#else
  const int32_t counts[] = {1, 2, 3, 4};
#endif
  for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
    run_threads(&options, counts[i], conformance, NULL);
  }
  memory_t memory = MIXED;
  assert_ok(run_processes(&options, 3, conformance, &memory));
  run_threads(&(shoal_world_options_t){.backend = "throttle:self"}, 1, conformance, NULL);
  unthrottle();
}

// Every algorithm, also where the table would not choose it.
static void test_algorithms(void **state) {
  (void)state;
  const char *const tables[] = {"*=direct/16K", "*=bounce/16K", "*=composed", "*=inline"};
  for (size_t i = 0; i < sizeof tables / sizeof *tables; ++i) {
    setenv("SHOAL_COMM_TABLE", tables[i], 1);
    run_threads(NULL, 2, conformance, NULL);
    memory_t memory = MIXED;
    assert_ok(run_processes(NULL, 3, conformance, &memory));
#ifndef SHOAL_SANITIZE_THREAD  // time
    run_threads(NULL, 4, conformance, NULL);
    memory = SHARED;
    assert_ok(run_processes(NULL, 2, conformance, &memory));
#endif
  }
  shoal_world_t *world;
  const struct {
    const char *table, *part;
  } wrong[] = {{"all_reduce", "no '=ALGORITHM'"},
               {"all_redoce=inline", "no such collective"},
               {"*=swift", "algorithms are"},
               {"*,m<=3=inline", "a condition is"},
               {"*=bounce/12", "a chunk is"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    setenv("SHOAL_COMM_TABLE", wrong[i].table, 1);
    shoal_status_t status = shoal_world_threads(NULL, 1, &world);
    assert_int_equal(shoal_status_code(status), SHOAL_INVALID_ARGUMENT);
    assert_non_null(strstr(shoal_status_message(status), wrong[i].part));
    shoal_status_free(status);
  }
  unsetenv("SHOAL_COMM_TABLE");
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "join") == 0) return run_joined(NULL, conformance, NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_self),       cmocka_unit_test(test_processes),
      cmocka_unit_test(test_threads),    cmocka_unit_test(test_throttle),
      cmocka_unit_test(test_algorithms),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

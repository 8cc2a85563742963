// Conformance cases of communication, each one collective over one group, compared bit by bit with
// the model: the kinds themselves, with all patterns of counts.
#ifndef SHOAL_TESTS_UNIT_COMM_CASES_H_
#define SHOAL_TESTS_UNIT_COMM_CASES_H_

#include "comm_model.h"

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

// Nobody leaves before the last one came: everyone tells, then everyone has been told.
static shoal_status_t case_barrier(shoal_group_t *group, int32_t n, const int32_t *ranks,
                                   buffers_t *b) {
  (void)n, (void)ranks, (void)b;
  for (int i = 0; i < 20; ++i) SHOAL_RETURN_IF_ERROR(shoal_barrier(group));
  return NULL;
}

#endif  // SHOAL_TESTS_UNIT_COMM_CASES_H_

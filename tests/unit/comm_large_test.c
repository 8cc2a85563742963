// Large buffers in `local`: copies past the caches, several rounds through bounce buffers, slices
// of uneven length. Every rank's data differ, results are computed by hand; private,
// node-addressable and mixed memory, ranks as processes and as threads.
// links: launch
#include <stdlib.h>
#include <string.h>

#include "comm/backends/local/copy.h"
#include "comm_ranks.h"

#define COUNT ((1 << 20) + 37)  // elements of f32: 4 MiB, and a rest
#define OFFSET 3                // elements: buffers do not begin at a cache line

typedef enum memory { PRIVATE, SHARED, MIXED } memory_t;

// Small whole numbers: sums are exact in any order, so a wrong element cannot hide.
static float value(int32_t rank, int64_t i) {
  return (float)((i * 7 + rank * 13) % 251);
}

static void flush(const void *data, size_t bytes) {
#if defined(__x86_64__)
  for (size_t i = 0; i < bytes; i += 64) __builtin_ia32_clflush((const char *)data + i);
  __builtin_ia32_mfence();
#else
  (void)data, (void)bytes;
#endif
}

typedef struct buffers {
  float *send, *recv;
  int32_t n, me;
} buffers_t;

static void fill(const buffers_t *b, bool cold) {
  for (int64_t i = 0; i < COUNT; ++i) {
    b->send[i] = value(b->me, i);
    b->recv[i] = -1;
  }
  if (!cold) return;
  flush(b->send, COUNT * sizeof(float));
  flush(b->recv, COUNT * sizeof(float));
}

static float sum_at(const buffers_t *b, int64_t i) {
  float sum = 0;
  for (int32_t r = 0; r < b->n; ++r) sum += value(r, i);
  return sum;
}

static shoal_status_t reductions(shoal_group_t *group, const buffers_t *b, bool cold) {
  int64_t counts[MAX_RANKS], at = 0;
  fill(b, cold);
  SHOAL_RETURN_IF_ERROR(
      shoal_all_reduce(group, SHOAL_F32, SHOAL_REDUCE_SUM, COUNT, b->send, b->recv));
  for (int64_t i = 0; i < COUNT; ++i) {
    CHECK(b->recv[i] == sum_at(b, i), "all_reduce [%lld]", (long long)i);
    CHECK(b->send[i] == value(b->me, i), "all_reduce's input [%lld]", (long long)i);
  }
  fill(b, cold);  // in place
  SHOAL_RETURN_IF_ERROR(
      shoal_all_reduce(group, SHOAL_F32, SHOAL_REDUCE_SUM, COUNT, b->send, b->send));
  for (int64_t i = 0; i < COUNT; ++i) {
    CHECK(b->send[i] == sum_at(b, i), "all_reduce in place [%lld]", (long long)i);
  }
  for (int32_t r = 0; r < b->n; ++r) {
    counts[r] = COUNT / b->n - (r == 0 ? 5 : 0);
    if (r < b->me) at += counts[r];
  }
  fill(b, cold);
  SHOAL_RETURN_IF_ERROR(
      shoal_reduce_scatter(group, SHOAL_F32, SHOAL_REDUCE_SUM, counts, b->send, b->recv));
  for (int64_t i = 0; i < COUNT; ++i) {
    const float expected = i < counts[b->me] ? sum_at(b, at + i) : -1;
    CHECK(b->recv[i] == expected, "reduce_scatter [%lld]", (long long)i);
  }
  return NULL;
}

static shoal_status_t moves(shoal_group_t *group, const buffers_t *b, bool cold) {
  int64_t counts[MAX_RANKS], at = 0;
  const int32_t root = b->n - 1;
  fill(b, cold);
  SHOAL_RETURN_IF_ERROR(shoal_broadcast(group, b->send, COUNT * (int64_t)sizeof(float), root));
  for (int64_t i = 0; i < COUNT; ++i) {
    CHECK(b->send[i] == value(root, i), "broadcast [%lld]", (long long)i);
  }
  for (int32_t r = 0; r < b->n; ++r) counts[r] = COUNT / b->n - r;
  fill(b, cold);
  SHOAL_RETURN_IF_ERROR(shoal_all_gather(group, SHOAL_F32, counts, b->send, b->recv));
  for (int32_t r = 0; r < b->n; at += counts[r++]) {
    for (int64_t i = 0; i < counts[r]; ++i) {
      CHECK(b->recv[at + i] == value(r, i), "all_gather [%lld] of %d", (long long)i, r);
    }
  }
  for (int even = 0; even < 2;
       ++even) {  // parts of one size, and of sizes that depend on both ranks
    int64_t recv_counts[MAX_RANKS], from[MAX_RANKS];
    for (int32_t r = 0; r < b->n; ++r) {
      counts[r] = COUNT / b->n - (even ? 0 : 3 * b->me + r);
      recv_counts[r] = COUNT / b->n - (even ? 0 : 3 * r + b->me);
      from[r] = 0;
      for (int32_t k = 0; k < b->me; ++k) from[r] += COUNT / b->n - (even ? 0 : 3 * r + k);
      if (!even && r == b->me) recv_counts[r] = counts[r];
    }
    fill(b, cold);
    SHOAL_RETURN_IF_ERROR(
        shoal_all_to_all(group, SHOAL_F32, counts, b->send, recv_counts, b->recv));
    at = 0;
    for (int32_t r = 0; r < b->n; at += recv_counts[r++]) {
      for (int64_t i = 0; i < recv_counts[r]; ++i) {
        CHECK(b->recv[at + i] == value(r, from[r] + i), "all_to_all [%lld] of %d", (long long)i, r);
      }
    }
  }
  return NULL;
}

static shoal_status_t large(shoal_world_t *world, void *self) {
  const memory_t memory = *(const memory_t *)self;
  const size_t bytes = (COUNT + OFFSET) * sizeof(float);
  buffers_t b = {.n = shoal_world_size(world), .me = shoal_world_rank(world)};
  const bool shared = memory == SHARED || (memory == MIXED && b.me % 2);
  void *memories[2] = {NULL, NULL};
  for (int i = 0; i < 2; ++i) {
    if (shared) {
      SHOAL_RETURN_IF_ERROR(shoal_comm_alloc(world, (int64_t)bytes, &memories[i]));
    } else {
      memories[i] = malloc(bytes);
      if (!memories[i]) return SHOAL_OOM();
    }
  }
  b.send = (float *)memories[0] + OFFSET;
  b.recv = (float *)memories[1] + OFFSET;
  shoal_group_t *group = NULL;
  shoal_status_t status = shoal_group_create(world, b.n, NULL, &group);
  for (int cold = 0; cold < 2 && !status; ++cold) {
    status = reductions(group, &b, cold);
    if (!status) status = moves(group, &b, cold);
  }
  shoal_group_free(group);
  for (int i = 0; i < 2; ++i) {
    if (shared) {
      shoal_comm_release(world, memories[i]);
    } else {
      free(memories[i]);
    }
  }
  return status;
}

static void test_large(void **state) {
  (void)state;
  memory_t memory = PRIVATE;
  run_threads(NULL, 2, large, &memory);
  for (; memory <= MIXED; ++memory) {
    assert_ok(run_processes(NULL, 2, large, &memory));
    assert_ok(run_processes(NULL, 3, large, &memory));
  }
}

// Both copies against memmove, at all offsets in a line that matter, in and out of the caches.
static void test_copy(void **state) {
  (void)state;
  const int64_t most = 300 << 10, sizes[] = {0, 1, 63, 64, 65, 127, 4096, 130 << 10, most - 300};
  uint8_t *from = malloc((size_t)most), *to = malloc((size_t)most),
          *expected = malloc((size_t)most);
  assert_true(from && to && expected);
  for (int64_t i = 0; i < most; ++i) from[i] = (uint8_t)(i * 31 + i / 256);
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
    for (int round = 0; round < 16; ++round) {
      const int64_t a = round % 4 * 21, b = round / 4 * 17, bytes = sizes[s];
      memset(to, 0, (size_t)most);
      memset(expected, 0, (size_t)most);
      memcpy(expected + b, from + a, (size_t)bytes);
      flush(from, (size_t)most);
      flush(to, (size_t)most);
      shoal_local_copy(to + b, from + a, bytes);
      assert_memory_equal(to, expected, (size_t)most);
      memset(to, 0, (size_t)most);
      shoal_local_copy_past(to + b, from + a, bytes);
      assert_memory_equal(to, expected, (size_t)most);
    }
  }
  memcpy(to, from, (size_t)most);  // overlapping, both ways
  memcpy(expected, from, (size_t)most);
  shoal_local_copy(to + 100, to, most - 100);
  memmove(expected + 100, expected, (size_t)most - 100);
  assert_memory_equal(to, expected, (size_t)most);
  shoal_local_copy(to, to + 4099, most - 4099);
  memmove(expected, expected + 4099, (size_t)most - 4099);
  assert_memory_equal(to, expected, (size_t)most);
  free(from);
  free(to);
  free(expected);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_copy), cmocka_unit_test(test_large)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

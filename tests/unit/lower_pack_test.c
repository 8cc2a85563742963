// Packing by itself: blocks that live at once lie apart, few and many of them; little is wasted.
#include "lower/pack.h"
#include "unit/random.h"
#include "unit/unit.h"

typedef struct packed {
  shoal_block_t *blocks;
  int64_t *offsets, count, bound, end;
} packed_t;

// The most bytes that are alive at one time.
static int64_t alive_at_once(const shoal_block_t *blocks, int64_t count, int64_t length) {
  int64_t most = 0, alive = 0, *change = test_calloc((size_t)length + 1, sizeof *change);
  for (int64_t i = 0; i < count; ++i) {
    change[blocks[i].first] += blocks[i].bytes;
    change[blocks[i].last + 1] -= blocks[i].bytes;
  }
  for (int64_t t = 0; t < length; ++t) {
    alive += change[t];
    if (alive > most) most = alive;
  }
  test_free(change);
  return most;
}

// Lives as of a step: short ones, and some from the way there to the way back.
static packed_t pack(uint64_t seed, int64_t count, int64_t align) {
  packed_t p = {test_calloc((size_t)count, sizeof *p.blocks),
                test_calloc((size_t)count, sizeof *p.offsets), count, 0, 0};
  shoal_arena_t scratch;
  shoal_arena_init(shoal_allocator_system(), &scratch);
  random_t rng = {.seed = seed};
  for (int64_t i = 0; i < count; ++i) {
    const bool kept = i < count / 2 && draw(&rng, 3) == 0;
    const int64_t last = kept ? count - 1 - i : i + draw(&rng, 4);
    p.blocks[i] = (shoal_block_t){.bytes = 64 * (1 + draw(&rng, draw(&rng, 8) ? 8 : 200)),
                                  .first = i,
                                  .last = last < count ? last : count - 1,
                                  .offset = &p.offsets[i]};
  }
  for (int64_t i = 0; i < count && align > 0; ++i)
    if (draw(&rng, 3) == 0) p.blocks[i].align = align;
  p.bound = alive_at_once(p.blocks, count, count);
  assert_ok(shoal_lower_pack(p.blocks, count, &scratch, &p.end));
  shoal_arena_deinit(&scratch);
  return p;
}

static void expect_apart(const packed_t *p) {
  for (int64_t i = 0; i < p->count; ++i) {
    const shoal_block_t *a = &p->blocks[i];
    assert_true(*a->offset >= 0 && *a->offset + a->bytes <= p->end);
    assert_int_equal(a->align > 0 ? *a->offset % a->align : 0, 0);
    for (int64_t k = 0; k < i; ++k) {
      const shoal_block_t *b = &p->blocks[k];
      const bool together = a->first <= b->last && b->first <= a->last;
      if (together && *a->offset < *b->offset + b->bytes && *b->offset < *a->offset + a->bytes)
        fail_msg("[%lld, %lld] and [%lld, %lld] overlap", (long long)a->first, (long long)a->last,
                 (long long)b->first, (long long)b->last);
    }
  }
}

static void blocks_lie_apart(void **state) {
  (void)state;
  static const int64_t counts[] = {0, 1, 2, 7, 30, 200, 1000, 2500};
  for (size_t c = 0; c < sizeof counts / sizeof *counts; ++c)
    for (uint64_t seed = 1; seed <= (counts[c] < 100 ? 20 : 2); ++seed) {
      packed_t p = pack(seed, counts[c], 0);
      expect_apart(&p);
      assert_true(p.end >= p.bound);
      if ((double)p.end > 1.1 * (double)p.bound)
        fail_msg("%lld blocks take %lld bytes, %lld are alive at once", (long long)p.count,
                 (long long)p.end, (long long)p.bound);
      test_free(p.blocks);
      test_free(p.offsets);
    }
}

// Some begin at multiples of more than all sizes are, in every way of packing.
static void blocks_are_aligned(void **state) {
  (void)state;
  static const int64_t counts[] = {1, 7, 30, 200, 2500};
  for (size_t c = 0; c < sizeof counts / sizeof *counts; ++c)
    for (uint64_t seed = 1; seed <= (counts[c] < 100 ? 20 : 2); ++seed) {
      packed_t p = pack(seed, counts[c], 1024);
      expect_apart(&p);
      assert_true(p.end >= p.bound);
      test_free(p.blocks);
      test_free(p.offsets);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_lie_apart),
                                     cmocka_unit_test(blocks_are_aligned)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

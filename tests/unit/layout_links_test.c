// A rank's links, worked out for it alone, against the reshard worked out for all ranks: random
// layouts on random meshes; same links, same order, same pieces, for every rank.
#include <stdlib.h>

#include "layout/motion.h"
#include "unit/arena.h"
#include "unit/layout_random.h"

enum { CASES = 2000, RANKS = 64 };

static bool same_pieces(const shoal_link_t *a, const shoal_link_t *b) {
  if (a->piece_count != b->piece_count) return false;
  for (int64_t i = 0; i < a->piece_count; ++i) {
    const shoal_piece_t *x = &a->pieces[i], *y = &b->pieces[i];
    if (x->rank != y->rank || x->src_offset != y->src_offset || x->dst_offset != y->dst_offset) {
      return false;
    }
    for (int32_t d = 0; d < x->rank; ++d) {
      if (x->size[d] != y->size[d] || x->src_stride[d] != y->src_stride[d] ||
          x->dst_stride[d] != y->dst_stride[d]) {
        return false;
      }
    }
  }
  return true;
}

static void compare_links(const char *name, int32_t rank, const shoal_links_t *got,
                          const shoal_links_t *expected) {
  if (got->count != expected->count) {
    fail_msg("%s: rank %d has %lld links, not %lld", name, rank, (long long)got->count,
             (long long)expected->count);
  }
  for (int64_t i = 0; i < got->count; ++i) {
    const shoal_link_t *a = &got->items[i], *b = &expected->items[i];
    if (a->from != b->from || a->to != b->to || a->count != b->count || !same_pieces(a, b)) {
      fail_msg("%s: link %lld of rank %d goes %d to %d with %lld elements, not %d to %d with %lld",
               name, (long long)i, rank, a->from, a->to, (long long)a->count, b->from, b->to,
               (long long)b->count);
    }
  }
  assert_int_equal(got->reduces, expected->reduces);
  assert_int_equal(got->reduce, expected->reduce);
}

static void random_links(void **state) {
  (void)state;
  const char *more = getenv("SHOAL_TEST_CASES");
  int64_t cases = more ? atoll(more) : CASES, refused = 0, moved = 0;
  for (int64_t n = 0; n < cases; ++n) {
    shoal_arena_t scratch;
    shoal_arena_init(shoal_allocator_system(), &scratch);
    random_case_t r;
    random_draw((uint64_t)n, RANKS, false, &scratch, &r);
    const char *name = random_text(&r, &scratch);
    shoal_reshard_t reshard;
    shoal_status_t status = shoal_layout_reshard(&r.src, r.src_micro, &r.dst, r.dst_micro, &r.shape,
                                                 &scratch, &reshard);
    refused += status != NULL;
    bool named = false;  // some rank says what is wrong in the same words
    for (int side = 0; side < 2; ++side) {
      const shoal_mesh_t *mesh = side ? r.dst.mesh : r.src.mesh;
      for (int64_t p = 0; p < shoal_mesh_size(mesh); ++p) {
        const int32_t rank = shoal_mesh_rank(mesh, p);
        shoal_links_t got, expected;
        shoal_status_t own = shoal_links_list(&r.src, r.src_micro, &r.dst, r.dst_micro, &r.shape,
                                              rank, &scratch, &got);
        if (status) {
          named |= own && strcmp(shoal_status_message(own), shoal_status_message(status)) == 0;
          shoal_status_free(own);
          continue;
        }
        if (own) fail_msg("%s: rank %d: %s", name, rank, shoal_status_message(own));
        assert_ok(shoal_links_find(&reshard, &r.src, &r.dst, rank, &scratch, &expected));
        compare_links(name, rank, &got, &expected);
        moved += got.count;
      }
    }
    if (status && !named) fail_msg("%s: no rank says: %s", name, shoal_status_message(status));
    shoal_status_free(status);
    shoal_arena_deinit(&scratch);
  }
  printf("[          ] %lld links in %lld reshards, %lld refused\n", (long long)moved,
         (long long)cases, (long long)refused);
  assert_true(refused < cases / 4 && moved > cases * 10);
}

// A rank of many: what it has is right, and no more was looked at than it has.
static void one_of_many(void **state) {
  (void)state;
  shoal_mesh_t mesh;
  shoal_layout_t src, dst;
  assert_ok(shoal_mesh_parse("data=2048,tensor=8", &arena, &mesh));
  assert_ok(shoal_layout_parse("data:partial(sum),tensor:1", &mesh, 1, &arena, &src));
  assert_ok(shoal_layout_parse("tensor:1,data:flat", &mesh, 1, &arena, &dst));
  shoal_links_t links;
  assert_ok(
      shoal_links_list(&src, -1, &dst, -1, &SHOAL_SHAPE(12288, 49152), 12345, &arena, &links));
  assert_int_equal(links.count, 2048 + 2047);
  assert_int_equal(links.items[0].count, 12288 * 6144 / 2048);
  assert_int_equal(links.items[0].from, 12345);
  assert_int_equal(links.items[0].to, 12345 % 8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_links),
      cmocka_unit_test(one_of_many),
  };
  return cmocka_run_group_tests(tests, setup_arena, teardown_arena);
}

// Cells: on random layouts and reshards, every rank has the sizes of the first rank of its cell,
// and where the layouts are simple there are few cells, however many the ranks.
#include "layout/cells.h"

#include <stdlib.h>

#include "layout/motion.h"
#include "unit/arena.h"
#include "unit/layout_random.h"

enum { CASES = 2000, RANKS = 64, PEERS = 256 };

static int64_t case_count(void) {
  const char *more = getenv("SHOAL_TEST_CASES");
  return more ? atoll(more) : CASES;
}

// ---- layouts ---------------------------------------------------------------------------

static void compare_boxes(const char *name, const shoal_layout_t *layout, const random_case_t *r,
                          int64_t position, int64_t micro, int64_t other, int64_t other_micro,
                          shoal_arena_t *scratch) {
  shoal_boxes_t a, b;
  assert_ok(shoal_layout_boxes(layout, &r->shape, position, micro, scratch, &a));
  assert_ok(shoal_layout_boxes(layout, &r->shape, other, other_micro, scratch, &b));
  bool same = !a.flat || a.to - a.from == b.to - b.from;
  for (int32_t d = 0; d < r->shape.rank; ++d) {
    same = same && a.dims[d].own_size == b.dims[d].own_size &&
           a.dims[d].held_size == b.dims[d].held_size && a.dims[d].own_count == b.dims[d].own_count;
    for (int32_t i = 0; same && i < a.dims[d].own_count; ++i) {
      same = a.dims[d].own[i].size == b.dims[d].own[i].size;
    }
  }
  if (!same) {
    fail_msg("%s: positions %lld and %lld, micro %lld and %lld, differ", name, (long long)position,
             (long long)other, (long long)micro, (long long)other_micro);
  }
}

static int64_t run_of(const shoal_cells_t *cells, int32_t axis, int64_t coordinate) {
  int64_t run = cells->run_count[axis] - 1;
  while (cells->run_starts[axis][run] > coordinate) --run;
  return cells->run_starts[axis][run];
}

static void random_layouts(void **state) {
  (void)state;
  int64_t ranks = 0, firsts = 0;
  for (int64_t n = 0; n < case_count(); ++n) {
    shoal_arena_t scratch;
    shoal_arena_init(shoal_allocator_system(), &scratch);
    random_case_t r;
    random_draw((uint64_t)n, RANKS, n % 3 == 0, &scratch, &r);
    const char *name = random_text(&r, &scratch);
    const bool any = n % 2;
    const shoal_cells_of_t of[] = {{&r.src, &r.shape, any ? SHOAL_MICRO_ANY : r.src_micro},
                                   {&r.dst, &r.shape, any ? SHOAL_MICRO_ANY : r.src_micro}};
    const int64_t both = shoal_mesh_equal(r.src.mesh, r.dst.mesh) ? 2 : 1;
    shoal_cells_t cells;
    assert_ok(shoal_layout_cells(r.src.mesh, both, of, &scratch, &cells));
    const int64_t micros = any && r.src.mesh->micro > 1 ? r.src.mesh->micro : 1;
    for (int64_t p = 0; p < shoal_mesh_size(r.src.mesh); ++p) {
      int64_t coords[SHOAL_MAX_AXES], first[SHOAL_MAX_AXES];
      shoal_mesh_coords(r.src.mesh, p, coords);
      const int64_t cell = shoal_cells_find(&cells, coords);
      assert_in_range(cell, 0, shoal_cells_count(&cells) - 1);
      shoal_cells_first(&cells, cell, first);
      assert_int_equal(shoal_cells_find(&cells, first), cell);
      const int64_t q = shoal_mesh_at(r.src.mesh, first);
      assert_true(q <= p);
      firsts += q == p;
      for (int64_t m = 0; m < micros; ++m) {
        const int64_t micro = any ? m : r.src_micro;
        const int64_t other = any ? run_of(&cells, SHOAL_CELLS_MICRO, m) : micro;
        for (int64_t i = 0; i < both; ++i) {
          compare_boxes(name, of[i].layout, &r, p, micro, q, other, &scratch);
        }
      }
    }
    ranks += shoal_mesh_size(r.src.mesh);
    shoal_arena_deinit(&scratch);
  }
  printf("[          ] %lld cells of %lld ranks\n", (long long)firsts, (long long)ranks);
  assert_true(firsts < ranks * 3 / 4);
}

// ---- reshards --------------------------------------------------------------------------

// What a rank does, without whom it does it with.
typedef struct doing {
  int64_t send_count, recv_count, staging;
  int64_t sends[PEERS], recvs[PEERS];
  bool local;
} doing_t;

static int compare_sizes(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static void find_doing(const random_case_t *r, int32_t rank, const int64_t *staging,
                       shoal_arena_t *scratch, doing_t *out) {
  shoal_links_t links;
  assert_ok(shoal_links_list(&r->src, r->src_micro, &r->dst, r->dst_micro, &r->shape, rank, scratch,
                             &links));
  memset(out, 0, sizeof *out);
  out->staging = staging[rank];
  for (int64_t i = 0; i < links.count; ++i) {
    const shoal_link_t *link = &links.items[i];
    if (link->from == link->to) {
      out->local = true;
    } else if (link->to == rank) {
      assert_true(out->recv_count < PEERS);
      out->recvs[out->recv_count++] = link->count;
    } else {
      assert_true(out->send_count < PEERS);
      out->sends[out->send_count++] = link->count;
    }
  }
  qsort(out->sends, (size_t)out->send_count, sizeof *out->sends, compare_sizes);
  qsort(out->recvs, (size_t)out->recv_count, sizeof *out->recvs, compare_sizes);
}

static int64_t highest(const random_case_t *r) {
  int64_t most = 0;
  for (int side = 0; side < 2; ++side) {
    const shoal_mesh_t *mesh = side ? r->dst.mesh : r->src.mesh;
    for (int64_t p = 0; p < shoal_mesh_size(mesh); ++p) {
      if (shoal_mesh_rank(mesh, p) >= most) most = shoal_mesh_rank(mesh, p) + 1;
    }
  }
  return most;
}

static void compare_case(const random_case_t *r, const char *name, const shoal_reshard_t *reshard,
                         shoal_dtype_t dtype, shoal_arena_t *scratch, int64_t *ranks_seen,
                         int64_t *cells_seen) {
  shoal_reshard_cells_t cells;
  assert_ok(shoal_reshard_cells(&r->src, r->src_micro, &r->dst, r->dst_micro, &r->shape, scratch,
                                &cells));
  const int64_t rank_count = highest(r);
  int64_t *staging = SHOAL_NEW(scratch, int64_t, rank_count), most = 0, some = 0;
  assert_ok(shoal_motion_staging(reshard, &r->src, &r->dst, r->dst_micro, &r->shape, dtype,
                                 rank_count, scratch, staging));
  int32_t *all = SHOAL_NEW(scratch, int32_t, rank_count),
          *half = SHOAL_NEW(scratch, int32_t, rank_count);
  int64_t all_count = 0, half_count = 0;
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    const bool here = shoal_mesh_position(r->src.mesh, rank) >= 0;
    if (!here && shoal_mesh_position(r->dst.mesh, rank) < 0) continue;
    all[all_count++] = rank;
    if (staging[rank] > most) most = staging[rank];
    if (rank % 2) continue;
    half[half_count++] = rank;
    if (staging[rank] > some) some = staging[rank];
  }
  // Every rank does what the one that stands for it does: found by asking for two.
  int64_t first_count, count, bytes;
  const int32_t *firsts, *pair;
  assert_ok(shoal_reshard_cells_ranks(&cells, 0, NULL, scratch, &first_count, &firsts));
  doing_t *doing = SHOAL_NEW(scratch, doing_t, first_count);
  for (int64_t i = 0; i < first_count; ++i) find_doing(r, firsts[i], staging, scratch, &doing[i]);
  for (int64_t i = 0; i < all_count; ++i) {
    static doing_t own;
    find_doing(r, all[i], staging, scratch, &own);
    int64_t stands = 0;
    for (int64_t k = 0; k < first_count; ++k) {
      assert_ok(shoal_reshard_cells_ranks(&cells, 2, (const int32_t[]){all[i], firsts[k]}, scratch,
                                          &count, &pair));
      if (count == 2) continue;
      ++stands;
      if (memcmp(&doing[k], &own, sizeof own) != 0) {
        fail_msg("%s: rank %d does not do what rank %d does", name, all[i], firsts[k]);
      }
    }
    if (stands != 1) fail_msg("%s: %lld ranks stand for rank %d", name, (long long)stands, all[i]);
  }
  assert_ok(shoal_reshard_staging_largest(&r->src, r->src_micro, &r->dst, r->dst_micro, &r->shape,
                                          dtype, 0, NULL, scratch, &bytes));
  if (bytes != most) fail_msg("%s: %lld bytes, not %lld", name, (long long)bytes, (long long)most);
  assert_ok(shoal_reshard_staging_largest(&r->src, r->src_micro, &r->dst, r->dst_micro, &r->shape,
                                          dtype, all_count, all, scratch, &bytes));
  assert_int_equal(bytes, most);
  if (half_count > 0) {
    assert_ok(shoal_reshard_staging_largest(&r->src, r->src_micro, &r->dst, r->dst_micro, &r->shape,
                                            dtype, half_count, half, scratch, &bytes));
    assert_int_equal(bytes, some);
  }
  *ranks_seen += all_count;
  *cells_seen += first_count;
}

static void random_reshards(void **state) {
  (void)state;
  int64_t ranks = 0, cells = 0;
  for (int64_t n = 0; n < case_count(); ++n) {
    shoal_arena_t scratch;
    shoal_arena_init(shoal_allocator_system(), &scratch);
    random_case_t r;
    random_draw((uint64_t)n, n % 4 ? 24 : RANKS, n % 3 == 0, &scratch, &r);
    const char *name = random_text(&r, &scratch);
    shoal_reshard_t reshard;
    shoal_status_t status = shoal_layout_reshard(&r.src, r.src_micro, &r.dst, r.dst_micro, &r.shape,
                                                 &scratch, &reshard);
    if (!status)
      compare_case(&r, name, &reshard, n % 2 ? SHOAL_F32 : SHOAL_BF16, &scratch, &ranks, &cells);
    shoal_status_free(status);
    shoal_arena_deinit(&scratch);
  }
  printf("[          ] %lld cells of %lld ranks\n", (long long)cells, (long long)ranks);
  assert_true(cells < ranks * 3 / 4);
}

// ---- many ranks ------------------------------------------------------------------------

static shoal_layout_t layout_of(const char *mesh_text, const char *text) {
  shoal_mesh_t *mesh = SHOAL_NEW(&arena, shoal_mesh_t, 1);
  shoal_layout_t layout;
  assert_ok(shoal_mesh_parse(mesh_text, &arena, mesh));
  assert_ok(shoal_layout_parse(text, mesh, 1, &arena, &layout));
  return layout;
}

static void many_ranks(void **state) {
  (void)state;
  static const struct {
    const char *mesh, *layout;
    int64_t most;
  } cases[] = {
      {"data=2048,tensor=8", "data:0", 3},
      {"data=2048,tensor=8", "tensor:1,data:0", 9},
      {"data=2048,tensor=8", "tensor:1*3/64", 4},
      {"data=2048,tensor=8", "data:0,tensor:0", 12},
      {"data=2048,tensor=8", "tensor:1,data:flat", 12},
      {"data=2048,tensor=8", "data:0+2+2", 12},
      {"data=2048", "data:0#3000", 6},
      {"data=2048", "", 1},
      {"data=2048,micro=32", "micro:0,data:0", 9},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    shoal_layout_t layout = layout_of(cases[i].mesh, cases[i].layout);
    const shoal_cells_of_t of = {&layout, &SHOAL_SHAPE(12289, 4608), SHOAL_MICRO_ANY};
    shoal_cells_t cells;
    assert_ok(shoal_layout_cells(layout.mesh, 1, &of, &arena, &cells));
    if (shoal_cells_count(&cells) > cases[i].most) {
      fail_msg("'%s' makes %lld cells", cases[i].layout, (long long)shoal_cells_count(&cells));
    }
  }
  shoal_layout_t src = layout_of("data=2048,tensor=8", "data:partial(sum),tensor:1");
  shoal_layout_t dst = layout_of("data=2048,tensor=8", "tensor:1,data:flat");
  shoal_reshard_cells_t cells;
  assert_ok(shoal_reshard_cells(&src, -1, &dst, -1, &SHOAL_SHAPE(12288, 4097), &arena, &cells));
  assert_true(shoal_cells_count(&cells.src) <= 12);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_layouts),
      cmocka_unit_test(random_reshards),
      cmocka_unit_test(many_ranks),
  };
  return cmocka_run_group_tests(tests, setup_arena, teardown_arena);
}

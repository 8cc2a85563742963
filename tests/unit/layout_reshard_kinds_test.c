// Reshards: which collective they amount to, how pieces are joined to blocks, who shares the load,
// what is refused. That the right elements move is in layout_reshard_test.c.
#include "shoal/layout.h"
#include "unit/arena.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static shoal_layout_t layout_of(const char *mesh_text, const char *text) {
  shoal_mesh_t *mesh = SHOAL_NEW(&arena, shoal_mesh_t, 1);
  shoal_layout_t layout;
  assert_ok(shoal_mesh_parse(mesh_text, &arena, mesh));
  assert_ok(shoal_layout_parse(text, mesh, 1, &arena, &layout));
  return layout;
}

// What the layouts say must be what the transfers do.
static void compare_facts(const shoal_layout_t *src, const shoal_layout_t *dst,
                          const shoal_shape_t *shape, const shoal_reshard_t *expected) {
  shoal_reshard_facts_t facts;
  assert_ok(shoal_reshard_describe(src, 0, dst, 0, shape, shoal_allocator_system(), &facts));
  assert_int_equal(facts.kind, expected->kind);
  assert_int_equal(facts.collective, expected->collective);
  assert_int_equal(facts.reduces, expected->reduces);
  assert_int_equal(facts.reduce, expected->reduce);
}

// ---- kinds -----------------------------------------------------------------------------

static void kinds(void **state) {
  (void)state;
  static const struct {
    const char *mesh, *src, *dst, *kind;
  } cases[] = {
      {"a=2,b=3", "", "", "none"},
      {"a=2,b=3", "a:0,b:1", "b:1,a:0", "none"},
      {"a=2,b=3", "a:0*1", "a:0", "none"},
      {"a=2,b=3", "a:0", "a:0/2", "all_to_all"},
      {"a=2,b=1", "b:0", "b:flat", "none"},
      {"a=2,b=1", "b:partial(sum)", "", "none"},
      {"a=2,b=3", "a:partial(sum)", "a:partial(sum)", "none"},
      {"a=2,b=3", "", "a:0", "slice"},
      {"a=2,b=3", "a:0", "a:0,b:0", "slice"},
      {"a=2,b=3", "a:0", "a:0,b:flat", "slice"},
      {"a=2,b=3", "a:0+1+1", "a:0", "slice"},
      {"a=2,b=3", "", "a:partial(sum)", "slice"},
      {"a=2,b=3", "a:partial(sum)", "", "all_reduce"},
      {"a=2,b=3", "a:partial(sum),b:0", "b:0", "all_reduce"},
      {"a=2,b=3", "a:partial(sum),b:partial(sum)", "", "all_reduce"},
      {"a=2,b=3", "a:partial(sum),b:partial(sum)", "a:partial(sum)", "all_reduce"},
      {"a=2,b=3", "a:partial(sum),b:flat", "b:flat", "all_reduce"},
      {"a=2,b=3", "a:partial(sum)", "a:0", "reduce_scatter"},
      {"a=2,b=3", "a:partial(sum)", "a:flat", "reduce_scatter"},
      {"a=2,b=3", "a:partial(sum),b:0", "b:0,a:1", "reduce_scatter"},
      {"a=2,b=3", "a:partial(sum),b:0", "b:0,a:0", "reduce_scatter"},
      {"a=2,b=3", "a:partial(sum),b:1*5", "b:1*5,a:flat", "reduce_scatter"},
      {"a=2,b=3", "a:partial(sum),b:partial(sum)", "a:0,b:1", "reduce_scatter"},
      {"a=2,b=3", "a:partial(sum),b:partial(sum)", "a:0", "between"},
      {"a=2,b=3", "a:partial(sum)", "b:0", "between"},
      {"a=2,b=3", "a:partial(sum)", "a:0+1+1", "between"},
      {"a=2,b=3", "a:0", "", "all_gather"},
      {"a=2,b=3", "a:flat", "", "all_gather"},
      {"a=2,b=3", "a:0,b:1", "a:0", "all_gather"},
      {"a=2,b=3", "a:0,b:1", "b:1", "all_gather"},
      {"a=2,b=3", "a:0,b:0", "", "all_gather"},
      {"a=2,b=3", "b:1,a:flat", "b:1", "all_gather"},
      {"a=2,b=3", "b:0,a:0+1+1", "b:0", "none"},  // the halo already holds it all
      {"a=2,b=3", "a:0+1+1", "", "between"},      // a rank takes its own halo: not whole parts
      {"a=2,b=3", "a:0,b:0", "b:0", "between"},
      {"a=2,b=3", "a:0", "a:1", "all_to_all"},
      {"a=2,b=3", "a:0,b:1", "b:0,a:1", "all_to_all"},
      {"a=2,b=3", "b:0,a:1", "b:1,a:1", "all_to_all"},
      {"a=2,b=3", "a:0,b:1", "a:0,b:flat", "all_to_all"},
      {"a=2,b=3", "a:0", "a:0+1+1", "halo"},
      {"a=2,b=3", "a:0", "a:0+1-1", "halo"},
      {"a=2,b=3", "a:0,b:1", "a:0+1+1,b:1+1+1", "halo"},
      {"a=2,b=3", "a:0+1+0", "a:0+1+1", "halo"},
      {"a=2,b=3", "a:0", "b:0", "between"},
      // sizes alone would mislead
      {"a=2,b=2", "a:0", "b:0", "between"},
      {"a=2,b=2", "a:partial(sum),b:partial(sum)", "a:0/3-1+1,b:1", "between"},
      {"a=2,b=3", "a:partial(sum)", "a:0-1+2", "between"},
      {"a=2,b=2", "a:partial(sum),b:partial(sum)", "a:0(5,1)-2+0", "between"},
      {"a=2,b=3", "a:0", "a:1+1+1", "between"},
  };
  for (int i = 0; i < COUNT(cases); ++i) {
    shoal_layout_t src = layout_of(cases[i].mesh, cases[i].src);
    shoal_layout_t dst = layout_of(cases[i].mesh, cases[i].dst);
    shoal_reshard_t reshard;
    assert_ok(shoal_layout_reshard(&src, 0, &dst, 0, &SHOAL_SHAPE(6, 5), &arena, &reshard));
    if (strcmp(shoal_reshard_name(reshard.kind), cases[i].kind) != 0) {
      fail_msg("'%s' to '%s' is %s, not %s", cases[i].src, cases[i].dst,
               shoal_reshard_name(reshard.kind), cases[i].kind);
    }
    compare_facts(&src, &dst, &SHOAL_SHAPE(6, 5), &reshard);
  }
  shoal_reshard_t reshard;
  shoal_layout_t src = layout_of("a=4", "a:0"), dst = layout_of("x=2,y=2", "x:0,y:0");
  assert_ok(shoal_layout_reshard(&src, 0, &dst, 0, &SHOAL_SHAPE(8), &arena, &reshard));
  assert_int_equal(reshard.kind,
                   SHOAL_RESHARD_NONE);  // other axes, the same parts on the same ranks
  dst = layout_of("x=2,y=2", "y:0,x:0");
  assert_ok(shoal_layout_reshard(&src, 0, &dst, 0, &SHOAL_SHAPE(8), &arena, &reshard));
  assert_int_equal(reshard.kind, SHOAL_RESHARD_BETWEEN);
  src = layout_of("a=4", "");
  assert_ok(shoal_layout_reshard(&src, 0, &dst, 0, &SHOAL_SHAPE(8), &arena, &reshard));
  assert_int_equal(reshard.kind, SHOAL_RESHARD_SLICE);
}

// ---- blocks, sharing, refusals ---------------------------------------------------------

static shoal_reshard_t reshard_of(const char *src_mesh, const char *src, const char *dst_mesh,
                                  const char *dst, shoal_shape_t shape) {
  shoal_layout_t a = layout_of(src_mesh, src), b = layout_of(dst_mesh, dst);
  shoal_reshard_t reshard;
  assert_ok(shoal_layout_reshard(&a, 0, &b, 0, &shape, &arena, &reshard));
  compare_facts(&a, &b, &shape, &reshard);
  return reshard;
}

// Is the collective of that name what it takes? Only if parts lie one behind the other, in the
// order of the ranks, and none is empty.
static void collectives(void **state) {
  (void)state;
  static const struct {
    const char *mesh, *src, *dst;
    int64_t rows;  // of 5
    bool collective;
  } cases[] = {
      {"a=2,b=3", "a:partial(max)", "", 6, true},
      {"a=2,b=3", "a:0", "", 6, true},
      {"a=2,b=3", "a:0(5,1)", "", 6, true},
      {"a=2,b=3", "b:1,a:0", "b:1", 7, true},  // within columns
      {"a=2,b=3", "a:flat", "", 7, true},
      {"a=2,b=3", "a:0,b:0", "", 7, true},
      {"a=2,b=3", "b:0,a:0", "", 7, false},  // ranks 0, 3, 1 ...
      {"a=2,b=3", "a:1", "", 6, false},
      {"a=2,b=3", "a:1", "", 1, true},
      {"a=2,b=3", "a:0*2", "", 6, false},
      {"a=2,b=3", "b:0", "", 2, false},  // rank 2 has nothing
      {"a=2,b=3", "a:0+1+1", "a:0", 6, false},
      {"a=2,b=3", "a:partial(sum)", "a:0", 7, true},
      {"a=2,b=3", "a:partial(sum)", "a:flat", 7, true},
      {"a=2,b=3", "a:partial(sum),b:0", "b:0,a:0", 7, true},
      {"a=2,b=3", "a:partial(sum),b:partial(sum)", "a:0,b:0", 7, true},
      {"a=2,b=3", "a:partial(sum),b:partial(sum)", "b:0,a:0", 7, false},
      {"a=2,b=3", "a:partial(sum)", "a:1", 6, false},
      {"a=2,b=3", "b:partial(sum)", "b:0", 2, false},
      {"a=2,b=3", "a:0", "a:1", 6, false},
  };
  for (int i = 0; i < COUNT(cases); ++i) {
    shoal_reshard_t r = reshard_of(cases[i].mesh, cases[i].src, cases[i].mesh, cases[i].dst,
                                   SHOAL_SHAPE(cases[i].rows, 5));
    if (r.collective != cases[i].collective) {
      fail_msg("'%s' to '%s', %s, is %s", cases[i].src, cases[i].dst, shoal_reshard_name(r.kind),
               r.collective ? "a collective" : "none");
    }
  }
}

static void walk_stages(void **state) {
  (void)state;
  // rows {0..3} {4..6} on mesh a, {0,1,2} {3,4} {5,6} on mesh b: a0 -> b0, b1 and a1 -> b1, b2
  shoal_reshard_t r =
      reshard_of("a!data=2", "data:0", "b!data=3@2-4", "data:0", SHOAL_SHAPE(7, 8, 16));
  static const int64_t peers[4][3] = {{0, 0, 3}, {0, 1, 1}, {1, 1, 1}, {1, 2, 2}};
  assert_int_equal(r.kind, SHOAL_RESHARD_BETWEEN);
  assert_int_equal(r.transfer_count, 4);
  for (int i = 0; i < 4; ++i) {
    assert_int_equal(r.transfers[i].src, peers[i][0]);
    assert_int_equal(r.transfers[i].dst, peers[i][1]);
    assert_int_equal(r.transfers[i].count, peers[i][2] * 128);
    assert_int_equal(r.transfers[i].piece_count, 1);
    assert_int_equal(r.transfers[i].pieces[0].rank, 1);  // whole rows: one dense block
  }
}

static void blocks_are_joined(void **state) {
  (void)state;
  // Ranges of the same packed part: one dense block per pair, though chunks make the columns three
  // runs.
  shoal_reshard_t r = reshard_of("data=2,tensor=5", "tensor:1*3/64,data:flat", "data=2,tensor=5",
                                 "tensor:1*3/64", SHOAL_SHAPE(768, 2304));
  assert_int_equal(r.kind, SHOAL_RESHARD_ALL_GATHER);
  assert_int_equal(r.transfer_count, 20);
  for (int64_t i = 0; i < r.transfer_count; ++i) {
    assert_int_equal(r.transfers[i].piece_count, 1);
    assert_int_equal(r.transfers[i].pieces[0].rank, 1);
  }
  r = reshard_of("d=3", "d:flat", "d=2@3,4", "d:flat", SHOAL_SHAPE(7, 11, 13));
  assert_int_equal(r.transfer_count, 4);
  for (int64_t i = 0; i < r.transfer_count; ++i) assert_int_equal(r.transfers[i].piece_count, 1);
  // Columns of a matrix: one strided block.
  r = reshard_of("t=2", "t:0", "t=2", "t:1", SHOAL_SHAPE(8, 6));
  assert_int_equal(r.transfers[1].src, 1);
  assert_int_equal(r.transfers[1].piece_count, 1);
  const shoal_piece_t *p = &r.transfers[1].pieces[0];
  assert_true(p->rank == 2 && p->size[0] == 4 && p->size[1] == 3 && p->src_offset == 0 &&
              p->dst_offset == 12 && p->src_stride[0] == 6 && p->dst_stride[0] == 3 &&
              p->src_stride[1] == 1 && p->dst_stride[1] == 1);
}

static void replicas_share_the_load(void **state) {
  (void)state;
  int64_t sends[6] = {0};
  shoal_reshard_t r = reshard_of("a=2,b=3", "", "c=6@6-11", "", SHOAL_SHAPE(4));
  for (int64_t i = 0; i < r.transfer_count; ++i) ++sends[r.transfers[i].src];
  for (int i = 0; i < 6; ++i) assert_int_equal(sends[i], 1);
  memset(sends, 0, sizeof sends);
  r = reshard_of("a=2,b=3", "a:0", "c=6@6-11", "", SHOAL_SHAPE(4));
  for (int64_t i = 0; i < r.transfer_count; ++i) ++sends[r.transfers[i].src];
  for (int i = 0; i < 6; ++i) assert_int_equal(sends[i], 2);
  // on one mesh a gather stays in its group
  r = reshard_of("a=2,b=3", "a:0", "a=2,b=3", "", SHOAL_SHAPE(4));
  for (int64_t i = 0; i < r.transfer_count; ++i) {
    assert_int_equal(r.transfers[i].src % 3, r.transfers[i].dst % 3);
  }
}

static void refusals(void **state) {
  (void)state;
  shoal_reshard_t reshard;
  shoal_layout_t src = layout_of("a=2,b=3", "a:0-1+0"), dst = layout_of("a=2,b=3", "b:1");
  assert_error(MISMATCH, "owns element [0, 0], which position 0",
               shoal_layout_reshard(&src, 0, &dst, 0, &SHOAL_SHAPE(6, 5), &arena, &reshard));
  src = layout_of("a=2,b=3", "a:0+0-1");
  assert_error(MISMATCH, "owns element [2, 0], which position 0",
               shoal_layout_reshard(&src, 0, &dst, 0, &SHOAL_SHAPE(6, 5), &arena, &reshard));
  src = layout_of("a=2,b=3", "a:partial(sum),b:partial(max)");
  assert_error(UNSUPPORTED, "partial(sum) and partial(max)",
               shoal_layout_reshard(&src, 0, &dst, 0, &SHOAL_SHAPE(6, 5), &arena, &reshard));
  src = layout_of("a=2,b=3", "a:partial(sum)");
  dst = layout_of("a=2,b=3", "a:partial(max)");
  assert_error(UNSUPPORTED, "one reduction at a time",
               shoal_layout_reshard(&src, 0, &dst, 0, &SHOAL_SHAPE(6, 5), &arena, &reshard));
  dst = layout_of("a=2,b=3", "a:2");
  assert_error(INVALID_ARGUMENT, "there is no dim 2",
               shoal_layout_reshard(&src, 0, &dst, 0, &SHOAL_SHAPE(6, 5), &arena, &reshard));
}

// 64 x 64 ranks: the cost follows the number of transfers.
static void large_meshes(void **state) {
  (void)state;
  shoal_reshard_t r =
      reshard_of("a=64,b=64", "a:0,b:1", "a=64,b=64", "b:0,a:1", SHOAL_SHAPE(640, 640));
  assert_int_equal(r.kind, SHOAL_RESHARD_ALL_TO_ALL);
  assert_int_equal(r.transfer_count, 4096);
  r = reshard_of("a=64", "a:flat", "b=64@64-127", "b:flat/7", SHOAL_SHAPE(100, 100, 3));
  assert_true(r.transfer_count < 200);
  r = reshard_of("a=64,b=64", "a:0", "a=64,b=64", "", SHOAL_SHAPE(64));
  assert_int_equal(r.transfer_count, 4096 * 64);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kinds),
      cmocka_unit_test(collectives),
      cmocka_unit_test(walk_stages),
      cmocka_unit_test(blocks_are_joined),
      cmocka_unit_test(replicas_share_the_load),
      cmocka_unit_test(refusals),
      cmocka_unit_test(large_meshes),
  };
  return cmocka_run_group_tests(tests, setup_arena, teardown_arena);
}

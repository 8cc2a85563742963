// A rank's links, worked out for it alone, against the reshard worked out for all ranks: random
// layouts on random meshes; same links, same order, same pieces, for every rank.
#include <stdlib.h>

#include "layout/layout_impl.h"
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

static int64_t known, found[SHOAL_RESHARD_BETWEEN + 1], collectives;

static void compare_facts(const char *name, const random_case_t *r, const shoal_reshard_t *expected,
                          const char *error) {
  shoal_pair_t pair;
  shoal_reshard_facts_t facts;
  shoal_status_t status =
      shoal_pair_init(&r->src, r->src_micro, &r->dst, r->dst_micro, &r->shape, &pair);
  for (int look = 0; look < 2; ++look) {
    bool by_layouts = false;
    if (!status) {
      status =
          shoal_pair_describe(&pair, shoal_allocator_system(),
                              look ? SHOAL_LOOK_ALWAYS : SHOAL_LOOK_IF_NEEDED, &by_layouts, &facts);
    }
    if (error ? !status || strcmp(error, shoal_status_message(status)) != 0 : status != NULL) {
      fail_msg("%s: %s, expected %s", name, status ? shoal_status_message(status) : "ok", error);
    }
    if (status) break;
    if (look == 0) {
      known += by_layouts;
      ++found[facts.kind];
      collectives += facts.collective;
    }
    if (facts.kind != expected->kind || facts.collective != expected->collective) {
      fail_msg("%s: %s says %s%s, not %s%s", name, by_layouts && !look ? "the layouts" : "a look",
               shoal_reshard_name(facts.kind), facts.collective ? ", a collective" : "",
               shoal_reshard_name(expected->kind), expected->collective ? ", a collective" : "");
    }
    // Along the axes it names, and no others, ranks exchange something.
    const bool still = facts.kind == SHOAL_RESHARD_NONE || facts.kind == SHOAL_RESHARD_SLICE;
    assert_true(still == (facts.group == 1));
    for (int64_t i = 0; i < expected->transfer_count && pair.roles.same_mesh; ++i) {
      int64_t from[SHOAL_MAX_AXES], to[SHOAL_MAX_AXES];
      shoal_mesh_coords(r->src.mesh, expected->transfers[i].src, from);
      shoal_mesh_coords(r->src.mesh, expected->transfers[i].dst, to);
      for (int32_t k = 0; k < r->src.mesh->axis_count; ++k) {
        if (from[k] != to[k] && !facts.axes[k]) fail_msg("%s: axis %d is not named", name, k);
      }
    }
    assert_int_equal(facts.reduces, expected->reduces);
    assert_int_equal(facts.reduce, expected->reduce);
  }
  shoal_status_free(status);
}

// The most that a rank sends and receives, counted over all transfers.
static void compare_volume(const char *name, const random_case_t *r, const shoal_reshard_t *reshard,
                           shoal_arena_t *scratch) {
  const shoal_mesh_t *sm = r->src.mesh, *dm = r->dst.mesh;
  int64_t *sent = SHOAL_NEW(scratch, int64_t, shoal_mesh_size(sm));
  int64_t *received = SHOAL_NEW(scratch, int64_t, shoal_mesh_size(dm));
  int64_t most_sent = 0, most_received = 0, joins = 1;
  for (int64_t i = 0; i < reshard->transfer_count; ++i) {
    const shoal_transfer_t *t = &reshard->transfers[i];
    if (shoal_mesh_rank(sm, t->src) == shoal_mesh_rank(dm, t->dst)) continue;
    sent[t->src] += t->count;
    received[t->dst] += t->count;
    if (sent[t->src] > most_sent) most_sent = sent[t->src];
    if (received[t->dst] > most_received) most_received = received[t->dst];
  }
  shoal_pair_t pair;
  shoal_reshard_facts_t facts;
  bool by_layouts;
  int64_t out, in;
  assert_ok(shoal_pair_init(&r->src, r->src_micro, &r->dst, r->dst_micro, &r->shape, &pair));
  assert_ok(shoal_pair_describe(&pair, shoal_allocator_system(), SHOAL_LOOK_IF_NEEDED, &by_layouts,
                                &facts));
  assert_ok(shoal_pair_volume(&pair, &facts, scratch, &out, &in));
  if (facts.kind == SHOAL_RESHARD_ALL_REDUCE) {
    joins = facts.group;
    const int64_t part = most_sent / (joins - 1);
    most_sent = most_received = 2 * (part - part / joins);
  }
  if (out != most_sent || in != most_received) {
    fail_msg("%s: sends %lld and receives %lld, not %lld and %lld", name, (long long)out,
             (long long)in, (long long)most_sent, (long long)most_received);
  }
}

static bool same_messages(int64_t count, const shoal_parcel_t *a, const shoal_parcel_t *b) {
  for (int64_t i = 0; i < count; ++i) {
    if (a[i].peer != b[i].peer || a[i].count != b[i].count || a[i].direct != b[i].direct ||
        a[i].offset != b[i].offset) {
      return false;
    }
  }
  return true;
}

// A motion from the layouts is the one from the links, in both directions.
static void compare_motions(const char *name, const random_case_t *r, int32_t rank,
                            const shoal_links_t *links, shoal_arena_t *scratch) {
  int64_t counts[2] = {0, 0};
  for (int side = 0; side < 2; ++side) {
    const shoal_layout_t *layout = side ? &r->dst : &r->src;
    const int64_t position = shoal_mesh_position(layout->mesh, rank);
    shoal_boxes_t boxes;
    if (position < 0) continue;
    assert_ok(shoal_layout_boxes(layout, &r->shape, position, side ? r->dst_micro : r->src_micro,
                                 scratch, &boxes));
    shoal_shape_t shape = shoal_boxes_shape(&boxes);
    counts[side] = shoal_shape_count(&shape);
  }
  for (int adjoint = 0; adjoint < 2; ++adjoint) {
    const shoal_motion_options_t options = {.dtype = SHOAL_F32,
                                            .rank = rank,
                                            .adjoint = adjoint,
                                            .input_count = counts[adjoint],
                                            .output_count = counts[!adjoint]};
    shoal_motion_t a, b;
    assert_ok(shoal_motion_plan(links, &options, scratch, &a));
    assert_ok(shoal_motion_of_rank(&r->src, r->src_micro, &r->dst, r->dst_micro, &r->shape, NULL,
                                   &options, scratch, &b));
    bool same = a.kind == b.kind && a.collective == b.collective &&
                a.group_count == b.group_count && a.send_count == b.send_count &&
                a.recv_count == b.recv_count && a.step_count == b.step_count &&
                a.staging == b.staging && a.clear == b.clear && a.adds == b.adds &&
                (!a.adds || a.reduce == b.reduce);
    same = same && same_messages(a.send_count, a.sends, b.sends) &&
           same_messages(a.recv_count, a.recvs, b.recvs);
    for (int32_t i = 0; same && i < a.group_count; ++i) {
      same = a.group[i] == b.group[i] &&
             (links->kind == SHOAL_RESHARD_ALL_REDUCE || a.counts[i] == b.counts[i]);
    }
    if (!same) fail_msg("%s: rank %d: another motion, adjoint %d", name, rank, adjoint);
  }
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
    compare_facts(name, &r, &reshard, status ? shoal_status_message(status) : NULL);
    if (!status) compare_volume(name, &r, &reshard, &scratch);
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
        if (n % 4) continue;
        assert_ok(shoal_links_of_rank(&r.src, r.src_micro, &r.dst, r.dst_micro, &r.shape, rank,
                                      &scratch, &got));
        compare_links(name, rank, &got, &expected);
        assert_true(got.kind == expected.kind && got.collective == expected.collective);
        compare_motions(name, &r, rank, &expected, &scratch);
      }
    }
    if (status && !named) fail_msg("%s: no rank says: %s", name, shoal_status_message(status));
    shoal_status_free(status);
    shoal_arena_deinit(&scratch);
  }
  printf("[          ] %lld links in %lld reshards, %lld refused\n", (long long)moved,
         (long long)cases, (long long)refused);
  printf("[          ] %lld known from the layouts, %lld collectives, kinds", (long long)known,
         (long long)collectives);
  for (int i = 0; i <= SHOAL_RESHARD_BETWEEN; ++i) {
    printf(" %s %lld", shoal_reshard_name((shoal_reshard_kind_t)i), (long long)found[i]);
    assert_true(found[i] > 0);
  }
  printf("\n");
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

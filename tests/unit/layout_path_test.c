// Paths: on random reshards, the steps one after the other bring the same elements to the same
// ranks as the transfers of all ranks do at once; each step moves as many as it says; and together
// they never move more than one step would.
#include <stdlib.h>

#include "layout/motion.h"
#include "unit/arena.h"
#include "unit/layout_random.h"

enum { CASES = 2000, RANKS = 64 };

// ---- values ----------------------------------------------------------------------------

// A value, as it lies on the ranks of a layout's mesh: by position.
typedef struct spread {
  const shoal_layout_t *layout;
  int64_t positions;
  int64_t *counts;
  int64_t **data;
} spread_t;

static spread_t make_spread(const shoal_layout_t *layout, const shoal_shape_t *shape, int64_t micro,
                            bool fill, shoal_arena_t *scratch) {
  spread_t s = {.layout = layout, .positions = shoal_mesh_size(layout->mesh)};
  s.counts = SHOAL_NEW(scratch, int64_t, s.positions);
  s.data = SHOAL_NEW(scratch, int64_t *, s.positions);
  for (int64_t p = 0; p < s.positions; ++p) {
    shoal_boxes_t boxes;
    shoal_place_t place;
    assert_ok(shoal_layout_boxes(layout, shape, p, micro, scratch, &boxes));
    shoal_shape_t part = shoal_boxes_shape(&boxes);
    s.counts[p] = shoal_shape_count(&part);
    s.data[p] = SHOAL_NEW(scratch, int64_t, s.counts[p]);
    if (!fill) continue;
    // Of a partial value every coordinate has its own share; copies along other axes agree.
    int64_t coords[SHOAL_MAX_AXES], who = 0;
    shoal_mesh_coords(layout->mesh, p, coords);
    for (int32_t i = 0; i < layout->cut_count; ++i) {
      const shoal_cut_t *cut = &layout->cuts[i];
      if (cut->kind == SHOAL_CUT_PARTIAL && cut->axis >= 0) {
        who += (coords[cut->axis] + 1) * (1 + 97 * cut->axis);
      }
    }
    assert_ok(shoal_boxes_place(&boxes, scratch, &place));
    for (int64_t i = 0; i < s.counts[p]; ++i) {
      s.data[p][i] = (shoal_place_global(&place, i) * 2654435761 + who * 40503) % 1000003;
    }
  }
  return s;
}

static void start_at_identity(const spread_t *s, shoal_reduce_t reduce) {
  for (int64_t p = 0; p < s->positions; ++p) {
    for (int64_t i = 0; i < s->counts[p]; ++i) {
      s->data[p][i] = reduce == SHOAL_REDUCE_MAX ? INT64_MIN : 0;
    }
  }
}

typedef struct join {
  const int64_t *src;
  int64_t *dst;
  shoal_reduce_t reduce;
} join_t;

static void join_row(void *self, int64_t src, int64_t dst, int64_t count, int64_t src_stride,
                     int64_t dst_stride) {
  const join_t *j = self;
  for (int64_t i = 0; i < count; ++i, src += src_stride, dst += dst_stride) {
    int64_t *out = &j->dst[dst], value = j->src[src];
    *out = j->reduce != SHOAL_REDUCE_MAX ? *out + value : *out > value ? *out : value;
  }
}

static void join_pieces(int64_t count, const shoal_piece_t *pieces, const int64_t *src,
                        int64_t *dst, shoal_reduce_t reduce) {
  join_t join = {src, dst, reduce};
  for (int64_t i = 0; i < count; ++i) shoal_piece_rows(&pieces[i], join_row, &join);
}

// Every rank applies its own links.
static spread_t apply_step(const shoal_reshard_step_t *step, const shoal_shape_t *shape,
                           const spread_t *from, shoal_arena_t *scratch) {
  spread_t to = make_spread(step->dst, shape, step->dst_micro, false, scratch);
  for (int64_t q = 0; q < to.positions; ++q) {
    const int32_t rank = shoal_mesh_rank(step->dst->mesh, q);
    shoal_links_t links;
    assert_ok(shoal_links_list(step->src, step->src_micro, step->dst, step->dst_micro, shape, rank,
                               scratch, &links));
    if (q == 0) start_at_identity(&to, links.reduce);
    for (int64_t i = 0; i < links.count; ++i) {
      const shoal_link_t *link = &links.items[i];
      if (link->to != rank) continue;
      const int64_t p = shoal_mesh_position(step->src->mesh, link->from);
      join_pieces(link->piece_count, link->pieces, from->data[p], to.data[q], links.reduce);
    }
  }
  return to;
}

// ---- steps -----------------------------------------------------------------------------

static void compare_volume(const char *name, const shoal_reshard_step_t *step,
                           const shoal_reshard_t *reshard, shoal_arena_t *scratch) {
  const shoal_mesh_t *sm = step->src->mesh, *dm = step->dst->mesh;
  int64_t *sent = SHOAL_NEW(scratch, int64_t, shoal_mesh_size(sm)), most_sent = 0;
  int64_t *received = SHOAL_NEW(scratch, int64_t, shoal_mesh_size(dm)), most_received = 0;
  for (int64_t i = 0; i < reshard->transfer_count; ++i) {
    const shoal_transfer_t *t = &reshard->transfers[i];
    if (shoal_mesh_rank(sm, t->src) == shoal_mesh_rank(dm, t->dst)) continue;
    sent[t->src] += t->count;
    received[t->dst] += t->count;
    if (sent[t->src] > most_sent) most_sent = sent[t->src];
    if (received[t->dst] > most_received) most_received = received[t->dst];
  }
  if (reshard->kind == SHOAL_RESHARD_ALL_REDUCE) {
    const int64_t part = most_sent / (step->facts.group - 1);
    most_sent = most_received = 2 * (part - part / step->facts.group);
  }
  if (step->sent != most_sent || step->received != most_received) {
    fail_msg("%s: a step says %lld and %lld, it moves %lld and %lld", name, (long long)step->sent,
             (long long)step->received, (long long)most_sent, (long long)most_received);
  }
  if (step->facts.kind != SHOAL_RESHARD_PERMUTE) return;
  for (int64_t i = 0; i < reshard->transfer_count; ++i) {  // whole, and to one rank
    const shoal_transfer_t *t = &reshard->transfers[i];
    assert_true(i == 0 || t->dst != t[-1].dst);
    assert_true(sent[t->src] == 0 || sent[t->src] == t->count);
  }
}

static int64_t cost_of(int64_t sent, int64_t received) {
  return sent > received ? sent : received;
}

static int64_t step_counts[5], kind_counts[SHOAL_RESHARD_PERMUTE + 1], saved, whole;

static void compare_case(const random_case_t *r, const char *name, const shoal_reshard_t *reshard,
                         shoal_arena_t *scratch) {
  shoal_reshard_path_t path;
  assert_ok(
      shoal_reshard_path(&r->src, r->src_micro, &r->dst, r->dst_micro, &r->shape, scratch, &path));
  assert_in_range(path.step_count, 1, 4);
  ++step_counts[path.step_count];
  spread_t now = make_spread(&r->src, &r->shape, r->src_micro, true, scratch);
  const spread_t first = now;
  int64_t total = 0;
  for (int64_t i = 0; i < path.step_count; ++i) {
    const shoal_reshard_step_t *step = &path.steps[i];
    assert_true(i == 0 ? step->src == &r->src : step->src == step[-1].dst);
    assert_true(i == 0 ? step->src_micro == r->src_micro : step->src_micro == step[-1].dst_micro);
    assert_ok(shoal_layout_check(step->dst, &r->shape));
    shoal_reshard_t all;
    assert_ok(shoal_layout_reshard(step->src, step->src_micro, step->dst, step->dst_micro,
                                   &r->shape, scratch, &all));
    const bool permuted = step->facts.kind == SHOAL_RESHARD_PERMUTE;
    assert_int_equal(all.kind, permuted ? SHOAL_RESHARD_BETWEEN : step->facts.kind);
    assert_int_equal(all.collective, step->facts.collective);
    ++kind_counts[step->facts.kind];
    compare_volume(name, step, &all, scratch);
    now = apply_step(step, &r->shape, &now, scratch);
    total += cost_of(step->sent, step->received);
  }
  assert_true(path.steps[path.step_count - 1].dst == &r->dst);
  assert_true(path.steps[path.step_count - 1].dst_micro == r->dst_micro);
  // All at once.
  spread_t expected = make_spread(&r->dst, &r->shape, r->dst_micro, false, scratch);
  shoal_links_t links;
  assert_ok(shoal_links_find(reshard, &r->src, &r->dst, 0, scratch, &links));
  start_at_identity(&expected, links.reduce);
  int64_t *sent = SHOAL_NEW(scratch, int64_t, first.positions), most = 0;
  int64_t *received = SHOAL_NEW(scratch, int64_t, expected.positions);
  for (int64_t i = 0; i < reshard->transfer_count; ++i) {
    const shoal_transfer_t *t = &reshard->transfers[i];
    join_pieces(t->piece_count, t->pieces, first.data[t->src], expected.data[t->dst], links.reduce);
    if (shoal_mesh_rank(r->src.mesh, t->src) == shoal_mesh_rank(r->dst.mesh, t->dst)) continue;
    sent[t->src] += t->count;
    received[t->dst] += t->count;
    most = cost_of(most, cost_of(sent[t->src], received[t->dst]));
  }
  for (int64_t q = 0; q < expected.positions; ++q) {
    assert_int_equal(now.counts[q], expected.counts[q]);
    for (int64_t i = 0; i < expected.counts[q]; ++i) {
      if (now.data[q][i] == expected.data[q][i]) continue;
      fail_msg("%s: position %lld, element %lld: %lld, not %lld", name, (long long)q, (long long)i,
               (long long)now.data[q][i], (long long)expected.data[q][i]);
    }
  }
  if (path.step_count > 1 && total >= most) fail_msg("%s: more steps, no less moved", name);
  if (path.step_count > 1) {
    saved += most - total;
    whole += most;
  }
}

static void random_paths(void **state) {
  (void)state;
  const char *more = getenv("SHOAL_TEST_CASES");
  const int64_t cases = more ? atoll(more) : CASES;
  for (int64_t n = 0; n < cases; ++n) {
    shoal_arena_t scratch;
    shoal_arena_init(shoal_allocator_system(), &scratch);
    random_case_t r;
    random_draw((uint64_t)n, n % 3 ? 16 : RANKS, n % 2, &scratch, &r);
    const char *name = random_text(&r, &scratch);
    shoal_reshard_t reshard;
    shoal_status_t status = shoal_layout_reshard(&r.src, r.src_micro, &r.dst, r.dst_micro, &r.shape,
                                                 &scratch, &reshard);
    if (!status) compare_case(&r, name, &reshard, &scratch);
    shoal_status_free(status);
    shoal_arena_deinit(&scratch);
  }
  printf(
      "[          ] steps 1: %lld, 2: %lld, 3: %lld, 4: %lld; more steps move %lld of %lld less;",
      (long long)step_counts[1], (long long)step_counts[2], (long long)step_counts[3],
      (long long)step_counts[4], (long long)saved, (long long)whole);
  for (int k = 0; k <= SHOAL_RESHARD_PERMUTE; ++k) {
    printf(" %s %lld", shoal_reshard_name((shoal_reshard_kind_t)k), (long long)kind_counts[k]);
    assert_true(kind_counts[k] > 0);
  }
  printf("\n");
}

// ---- known paths -----------------------------------------------------------------------

static const char *describe_path(const char *src_mesh, const char *src, const char *dst_mesh,
                                 const char *dst, shoal_shape_t shape) {
  shoal_mesh_t *meshes = SHOAL_NEW(&arena, shoal_mesh_t, 2);
  shoal_layout_t *layouts = SHOAL_NEW(&arena, shoal_layout_t, 2);
  assert_ok(shoal_mesh_parse(src_mesh, &arena, &meshes[0]));
  assert_ok(shoal_layout_parse(src, meshes, 1, &arena, &layouts[0]));
  if (dst_mesh) assert_ok(shoal_mesh_parse(dst_mesh, &arena, &meshes[1]));
  assert_ok(shoal_layout_parse(dst, dst_mesh ? &meshes[1] : meshes, 1, &arena, &layouts[1]));
  shoal_reshard_path_t path;
  assert_ok(shoal_reshard_path(&layouts[0], -1, &layouts[1], -1, &shape, &arena, &path));
  const char *text = "";
  for (int64_t i = 0; i < path.step_count; ++i) {
    const char *printed;
    assert_ok(shoal_layout_print(path.steps[i].dst, &arena, &printed));
    text = shoal_arena_printf(&arena, "%s%s%s '%s' %lld", text, i ? ", " : "",
                              shoal_reshard_name(path.steps[i].facts.kind), printed,
                              (long long)cost_of(path.steps[i].sent, path.steps[i].received));
  }
  return text;
}

static void known_paths(void **state) {
  (void)state;
  static const struct {
    const char *src_mesh, *src, *dst_mesh, *dst, *path;
  } cases[] = {
      {"a=4,b=2", "a:0", NULL, "", "all_gather '' 48"},
      {"a=4,b=2", "a:partial(sum)", NULL, "b:0",
       "slice 'a:partial(sum),b:0' 0, all_reduce 'b:0' 48"},
      {"a=4,b=2", "a:partial(sum),b:partial(sum)", NULL, "a:0",
       "reduce_scatter 'b:partial(sum),a:0' 48, all_reduce 'a:0' 16"},
      // a reduce_scatter and an all_to_all would move as much
      {"a=4,b=2", "a:partial(sum),b:1", NULL, "a:0,b:0", "between 'a:0,b:0' 28"},
      {"a=4,b=2", "a:partial(sum)", NULL, "a:0+1+1", "reduce_scatter 'a:0' 48, halo 'a:0+1+1' 16"},
      {"a=4", "a:0", "a=4@4-7", "a:0", "permute 'a:0' 16"},
      {"a=4", "a:partial(sum)", "a=4@4-7", "", "reduce_scatter 'a:flat' 48, between '' 64"},
      {"a=2,b=4", "a:partial(sum),b:0", "a=2,b=4@8-15", "a:partial(sum)",
       "between 'a:partial(sum)' 64"},
      {"a=1", "", "a=1,b=4@4-7", "", "between 'b:flat' 64, all_gather '' 48"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const char *path = describe_path(cases[i].src_mesh, cases[i].src, cases[i].dst_mesh,
                                     cases[i].dst, SHOAL_SHAPE(8, 8));
    if (strcmp(path, cases[i].path) != 0) {
      fail_msg("'%s' to '%s': %s, expected %s", cases[i].src, cases[i].dst, path, cases[i].path);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_paths),
      cmocka_unit_test(random_paths),
  };
  return cmocka_run_group_tests(tests, setup_arena, teardown_arena);
}

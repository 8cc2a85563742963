// Reshards, against the naive model: for all pairs of a set of layouts on meshes of one, two and
// three axes and on meshes of other ranks, the transfers are applied by hand to data that differs
// on every rank, and every rule of who sends what is checked element by element. Kinds, blocks and
// refusals are in layout_reshard_kinds_test.c.
#include "base/arena.h"
#include "unit/layout_model.h"
#include "unit/unit.h"

enum { MAX_POSITIONS = 12, MAX_SOURCES = 12 };
static shoal_arena_t arena, texts;
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static int setup(void **state) {
  (void)state;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_arena_init(shoal_allocator_system(), &texts);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  shoal_arena_deinit(&arena);
  shoal_arena_deinit(&texts);
  return 0;
}

static shoal_layout_t layout_of(const char *mesh_text, const char *text) {
  shoal_mesh_t *mesh = SHOAL_NEW(&texts, shoal_mesh_t, 1);
  shoal_layout_t layout;
  assert_ok(shoal_mesh_parse(mesh_text, &texts, mesh));
  assert_ok(shoal_layout_parse(text, mesh, 1, &texts, &layout));
  return layout;
}

// ---- what is expected ------------------------------------------------------------------

static const shoal_cut_t *partial_along(const shoal_layout_t *layout, int32_t axis) {
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    if (cut->kind == SHOAL_CUT_PARTIAL && cut->axis == axis) return cut;
  }
  return NULL;
}

// The axis of `other` along which the same partial is kept, or -1.
static int32_t kept_along(const shoal_layout_t *layout, int32_t axis, const shoal_layout_t *other) {
  const shoal_cut_t *cut = partial_along(layout, axis);
  int32_t twin = shoal_mesh_axis(other->mesh, layout->mesh->axes[axis].name);
  if (!cut || twin < 0 || other->mesh->axes[twin].size != layout->mesh->axes[axis].size) return -1;
  const shoal_cut_t *match = partial_along(other, twin);
  return match && match->reduce == cut->reduce ? twin : -1;
}

static int64_t digits(int64_t element, int64_t position) {  // different on every rank
  return (element * 2654435761u + position * 40503u) % 1009;
}

typedef struct buffers {
  int64_t positions;
  model_part_t part[MAX_POSITIONS];
  int64_t coords[MAX_POSITIONS][SHOAL_MAX_AXES];
  int64_t data[MAX_POSITIONS][MODEL_ELEMENTS / 8];
} buffers_t;

static void fill(const shoal_layout_t *layout, const shoal_shape_t *shape, int64_t micro,
                 buffers_t *out) {
  out->positions = shoal_mesh_size(layout->mesh);
  assert_true(out->positions <= MAX_POSITIONS);
  for (int64_t p = 0; p < out->positions; ++p) {
    model_part(layout, shape, p, micro, &out->part[p]);
    shoal_mesh_coords(layout->mesh, p, out->coords[p]);
  }
}

// The source's data: of a partial value every coordinate has its own; copies along other axes
// agree.
static int64_t source_value(const shoal_layout_t *src, const int64_t *coords, int64_t element) {
  int64_t who = 0;
  for (int32_t i = 0; i < src->mesh->axis_count; ++i) {
    if (partial_along(src, i)) who = who * 16 + coords[i] + 1;
  }
  return digits(element, who);
}

static int64_t join(shoal_reduce_t reduce, int64_t a, int64_t b) {
  return reduce == SHOAL_REDUCE_MAX ? (a > b ? a : b) : a + b;
}

// The value that a destination should get, joined over the source coordinates that are not kept.
static int64_t expected_value(const shoal_layout_t *src, const shoal_layout_t *dst,
                              const int64_t *dst_coords, shoal_reduce_t reduce, int64_t element) {
  int64_t coords[SHOAL_MAX_AXES] = {0}, value = 0;
  bool first = true;
  for (int64_t p = 0; p < shoal_mesh_size(src->mesh); ++p) {
    bool wanted = true;
    shoal_mesh_coords(src->mesh, p, coords);
    for (int32_t i = 0; i < src->mesh->axis_count; ++i) {
      int32_t twin = kept_along(src, i, dst);
      if (twin >= 0)
        wanted &= coords[i] == dst_coords[twin];
      else if (!partial_along(src, i))
        wanted &= coords[i] == 0;  // copies count once
    }
    if (!wanted) continue;
    int64_t part = source_value(src, coords, element);
    value = first ? part : join(reduce, value, part);
    first = false;
  }
  return value;
}

// ---- one pair --------------------------------------------------------------------------

static buffers_t from, to;

static int64_t find(const model_part_t *part, int64_t element) {
  for (int64_t i = 0; i < part->count; ++i) {
    if (part->element[i] == element) return i;
  }
  return -1;
}

// How many of the joined coordinates have a rank that can give the element to position q: it owns
// it, or is q's own rank and holds it.
static int64_t givers(const shoal_layout_t *src, const shoal_layout_t *dst, int64_t q,
                      int64_t element) {
  bool given[256] = {0};
  int64_t count = 0;
  for (int64_t p = 0; p < from.positions; ++p) {
    int64_t order = 0, i = find(&from.part[p], element);
    bool kept = true;
    for (int32_t k = 0; k < src->mesh->axis_count; ++k) {
      int32_t twin = kept_along(src, k, dst);
      if (twin >= 0)
        kept &= from.coords[p][k] == to.coords[q][twin];
      else if (partial_along(src, k))
        order = order * src->mesh->axes[k].size + from.coords[p][k];
    }
    bool self = shoal_mesh_rank(src->mesh, p) == shoal_mesh_rank(dst->mesh, q);
    if (!kept || i < 0 || (!self && !from.part[p].owned[i])) continue;
    count += !given[order];
    given[order] = true;
  }
  return count;
}

// "element [1, 2], which position 3": the first that nobody can give
static void name_element(const shoal_shape_t *shape, int64_t element, int64_t position, char *out,
                         size_t capacity) {
  int64_t index[SHOAL_MAX_RANK], at = snprintf(out, capacity, "element [");
  for (int32_t d = shape->rank - 1; d >= 0; --d) {
    index[d] = element % shape->dims[d];
    element /= shape->dims[d];
  }
  for (int32_t d = 0; d < shape->rank; ++d) {
    at += snprintf(out + at, capacity - (size_t)at, "%s%lld", d ? ", " : "", (long long)index[d]);
  }
  snprintf(out + at, capacity - (size_t)at, "], which position %lld", (long long)position);
}

static int64_t pairs_applied, pairs_refused;

// Walks over the elements of a block: calls with offsets into both buffers.
static void walk_piece(const shoal_piece_t *piece, int64_t *src, int64_t *dst, int64_t *count) {
  int64_t at[SHOAL_MAX_RANK] = {0};
  *count = 0;
  assert_in_range(piece->rank, 1, SHOAL_MAX_RANK);
  for (;;) {
    int64_t s = piece->src_offset, d = piece->dst_offset;
    for (int32_t i = 0; i < piece->rank; ++i) {
      s += at[i] * piece->src_stride[i];
      d += at[i] * piece->dst_stride[i];
    }
    src[*count] = s;
    dst[(*count)++] = d;
    int32_t i = piece->rank - 1;
    while (i >= 0 && ++at[i] == piece->size[i]) at[i--] = 0;
    if (i < 0) return;
  }
}

static void apply_pair(const char *name, const shoal_layout_t *src, const shoal_layout_t *dst,
                       const shoal_shape_t *shape, int64_t src_micro, int64_t dst_micro) {
  static int sources[MAX_POSITIONS][MODEL_ELEMENTS / 8][MAX_SOURCES];
  static int source_count[MAX_POSITIONS][MODEL_ELEMENTS / 8];
  fill(src, shape, src_micro, &from);
  fill(dst, shape, dst_micro, &to);
  // what should happen
  int32_t reduce = -1;
  bool mixed = false, missing = false;
  int64_t joins = 1;
  bool spread[SHOAL_MAX_AXES] = {0};
  for (int32_t i = 0; i < src->mesh->axis_count; ++i) {
    const shoal_cut_t *cut = partial_along(src, i);
    if (!cut || kept_along(src, i, dst) >= 0 || src->mesh->axes[i].size == 1) continue;
    mixed |= reduce >= 0 && reduce != (int32_t)cut->reduce;
    reduce = (int32_t)cut->reduce;
    joins *= src->mesh->axes[i].size;
  }
  for (int32_t i = 0; i < dst->mesh->axis_count; ++i) {
    const shoal_cut_t *cut = partial_along(dst, i);
    if (!cut || kept_along(dst, i, src) >= 0 || dst->mesh->axes[i].size == 1) continue;
    mixed |= reduce >= 0 && reduce != (int32_t)cut->reduce;
    reduce = (int32_t)cut->reduce;
    spread[i] = true;
  }
  bool gets[MAX_POSITIONS];
  char unowned[128] = "";
  for (int64_t q = 0; q < to.positions; ++q) {
    gets[q] = true;
    for (int32_t i = 0; i < dst->mesh->axis_count; ++i)
      gets[q] &= !spread[i] || to.coords[q][i] == 0;
    for (int64_t i = 0; i < to.part[q].count && gets[q] && !missing; ++i) {
      missing = givers(src, dst, q, to.part[q].element[i]) != joins;
      if (missing) name_element(shape, to.part[q].element[i], q, unowned, sizeof unowned);
    }
  }
  shoal_reshard_t reshard;
  shoal_status_t status =
      shoal_layout_reshard(src, src_micro, dst, dst_micro, shape, &arena, &reshard);
  if (mixed || missing) {
    shoal_code_t code = shoal_status_code(status);
    if (code != (mixed ? SHOAL_UNSUPPORTED : SHOAL_MISMATCH)) fail_msg("%s: not refused", name);
    if (!mixed && !strstr(shoal_status_message(status), unowned)) {
      fail_msg("%s: %s, expected %s", name, shoal_status_message(status), unowned);
    }
    shoal_status_free(status);
    ++pairs_refused;
    return;
  }
  if (status) fail_msg("%s: %s", name, shoal_status_message(status));
  ++pairs_applied;
  // apply
  for (int64_t p = 0; p < from.positions; ++p) {
    for (int64_t i = 0; i < from.part[p].count; ++i) {
      from.data[p][i] = source_value(src, from.coords[p], from.part[p].element[i]);
    }
  }
  memset(source_count, 0, sizeof source_count);
  assert_int_equal(reshard.reduces, joins > 1);
  if (reduce >= 0) assert_int_equal(reshard.reduce, reduce);
  int64_t last_dst = 0;
  for (int64_t t = 0; t < reshard.transfer_count; ++t) {
    const shoal_transfer_t *transfer = &reshard.transfers[t];
    const model_part_t *have = &from.part[transfer->src], *need = &to.part[transfer->dst];
    int64_t moved = 0;
    assert_true(transfer->dst >= last_dst && transfer->piece_count > 0);
    last_dst = transfer->dst;
    for (int64_t b = 0; b < transfer->piece_count; ++b) {
      static int64_t s[MODEL_ELEMENTS], d[MODEL_ELEMENTS];
      int64_t count;
      walk_piece(&transfer->pieces[b], s, d, &count);
      for (int64_t i = 0; i < count; ++i, ++moved) {
        assert_in_range(s[i], 0, have->count - 1);
        assert_in_range(d[i], 0, need->count - 1);
        if (have->element[s[i]] != need->element[d[i]]) fail_msg("%s: wrong element", name);
        int *n = &source_count[transfer->dst][d[i]];
        assert_true(*n < MAX_SOURCES);
        sources[transfer->dst][d[i]][*n] = (int)transfer->src;
        int64_t *out = &to.data[transfer->dst][d[i]], value = from.data[transfer->src][s[i]];
        *out = *n ? join(reshard.reduce, *out, value) : value;
        ++*n;
        bool self =
            shoal_mesh_rank(src->mesh, transfer->src) == shoal_mesh_rank(dst->mesh, transfer->dst);
        if (!self && !have->owned[s[i]]) {
          fail_msg("%s: %lld sends an element it only holds", name, (long long)transfer->src);
        }
      }
    }
    assert_int_equal(moved, transfer->count);
  }
  // compare
  for (int64_t q = 0; q < to.positions; ++q) {
    int64_t self = shoal_mesh_position(src->mesh, shoal_mesh_rank(dst->mesh, q));
    for (int64_t i = 0; i < to.part[q].count; ++i) {
      if (source_count[q][i] != (gets[q] ? joins : 0)) {
        fail_msg("%s: position %lld element %d has %d sources", name, (long long)q,
                 to.part[q].element[i], source_count[q][i]);
      }
      if (!gets[q]) continue;
      int64_t element = to.part[q].element[i];
      int64_t expected = expected_value(src, dst, to.coords[q],
                                        (shoal_reduce_t)(reduce < 0 ? 0 : reduce), element);
      if (to.data[q][i] != expected) {
        fail_msg("%s: position %lld element %lld is %lld, not %lld", name, (long long)q,
                 (long long)element, (long long)to.data[q][i], (long long)expected);
      }
      // joined coordinates ascend, and are all different
      int64_t before = -1;
      for (int n = 0; n < source_count[q][i]; ++n) {
        int64_t order = 0;
        bool own = self >= 0;
        for (int32_t k = 0; k < src->mesh->axis_count; ++k) {
          int64_t c = from.coords[sources[q][i][n]][k];
          int32_t twin = kept_along(src, k, dst);
          bool partial = partial_along(src, k) != NULL;
          if (partial && twin < 0) order = order * src->mesh->axes[k].size + c;
          if (twin >= 0) assert_int_equal(c, to.coords[q][twin]);
          if (partial && own) own = from.coords[self][k] == c;
        }
        assert_true(order > before);
        before = order;
        // who holds it takes its own
        if (own && find(&from.part[self], element) >= 0) assert_int_equal(sources[q][i][n], self);
      }
    }
  }
}

// ---- all pairs -------------------------------------------------------------------------

static const struct {
  const char *mesh, *layout;
} all[] = {
    {"a=4", ""},
    {"a=4", "a:0"},
    {"a=4", "a:1"},
    {"a=4", "a:0/2(1,0,2,1)"},
    {"a=4", "a:1*(2,3/2)"},
    {"a=4", "a:0+1+1"},
    {"a=4", "a:0#5+0+1"},
    {"a=4", "a:0-1+1"},
    {"a=4", "a:flat"},
    {"a=4", "a:flat/4(3,1,1,2)"},
    {"a=4", "a:partial(sum)"},
    {"a=4", "a:partial(max)"},
    {"a=2,b=3", ""},
    {"a=2,b=3", "a:0"},
    {"a=2,b=3", "b:0"},
    {"a=2,b=3", "a:0,b:0"},
    {"a=2,b=3", "b:0,a:0"},
    {"a=2,b=3", "a:0,b:1"},
    {"a=2,b=3", "b:0,a:1"},
    {"a=2,b=3", "a:1*5,b:0*3"},
    {"a=2,b=3", "b:1,a:flat"},
    {"a=2,b=3", "a:flat,b:flat"},
    {"a=2,b=3", "b:flat/3,a:flat/2"},
    {"a=2,b=3", "a:0,b:flat(0,2,1)"},
    {"a=2,b=3", "a:0+1+1,b:1+1+1"},
    {"a=2,b=3", "b:0+2+1"},
    {"a=2,b=3", "a:0+2+2,b:0+1+1"},
    {"a=2,b=3", "a:1+0-1"},
    {"a=2,b=3", "b:0+0-1,a:1+0-1"},
    {"a=2,b=3", "b:1-1+0,a:0-1+0"},
    {"a=2,b=3", "a:partial(sum)"},
    {"a=2,b=3", "b:partial(sum)"},
    {"a=2,b=3", "a:partial(sum),b:0"},
    {"a=2,b=3", "b:partial(sum),a:1+1+1"},
    {"a=2,b=3", "a:partial(sum),b:partial(sum)"},
    {"a=2,b=3", "a:partial(max),b:partial(sum)"},
    {"a=2,b=3", "b:partial(sum),a:flat"},
    {"a=2,b=2,c=2", ""},
    {"a=2,b=2,c=2", "a:0,c:1"},
    {"a=2,b=2,c=2", "b:0,c:0,a:0"},
    {"a=2,b=2,c=2", "c:0+1+0,b:1"},
    {"a=2,b=2,c=2", "a:0,b:1,c:flat"},
    {"a=2,b=2,c=2", "c:1*5,a:flat,b:flat/2"},
    {"a=2,b=2,c=2", "a:partial(sum),b:0,c:1"},
    {"a=2,b=2,c=2", "c:partial(sum),b:flat"},
    {"a=2,b=2,c=2", "b:partial(max),a:1"},
    {"a=2,b=2,c=2", "a:partial(sum),b:partial(sum),c:partial(sum)"},
    {"a=2,b=2,c=2", "b:1#3+1+1,a:0"},
    {"a=1,b=5,c=1", "a:0,b:1,c:flat"},
    {"a=1,b=5,c=1", "a:partial(sum),b:0"},
    {"a=2,b=2@2,3,0,1", ""},
    {"a=2,b=2@2,3,0,1", "a:0,b:1"},
    {"a=2,b=2@2,3,0,1", "a:0+1+1"},
    {"a=2,b=2@2,3,0,1", "b:partial(sum),a:0"},
    {"a=2,b=2@2,3,0,1", "a:flat"},
    {"p=3@7,1,4", ""},
    {"p=3@7,1,4", "p:0"},
    {"p=3@7,1,4", "p:1+1+1"},
    {"p=3@7,1,4", "p:flat"},
    {"p=3@7,1,4", "p:partial(sum)"},
    {"p=3@7,1,4", "p:partial(max)"},
    {"b=3,q=2@10-15", "b:0"},
    {"b=3,q=2@10-15", "q:0,b:1"},
    {"b=3,q=2@10-15", "b:partial(sum)"},
    {"b=3,q=2@10-15", "q:flat"},
    {"", ""},
};

static void all_pairs(void **state) {
  (void)state;
  static const shoal_shape_t shapes[] = {
      {2, {6, 5}}, {3, {3, 5, 2}}, {2, {0, 5}}, {2, {9, 5}}, {4, {3, 5, 1, 2}}};
  static shoal_layout_t layouts[COUNT(all)];
  for (int i = 0; i < COUNT(all); ++i) layouts[i] = layout_of(all[i].mesh, all[i].layout);
  for (int s = 0; s < COUNT(shapes); ++s) {
    for (int i = 0; i < COUNT(all); ++i) {
      for (int j = 0; j < COUNT(all); ++j) {
        char name[256];
        snprintf(name, sizeof name, "'%s' on '%s' to '%s' on '%s', shape %d", all[i].layout,
                 all[i].mesh, all[j].layout, all[j].mesh, s);
        apply_pair(name, &layouts[i], &layouts[j], &shapes[s], 0, 0);
      }
      shoal_arena_deinit(&arena);
      shoal_arena_init(shoal_allocator_system(), &arena);
    }
  }
  printf("[          ] %lld pairs applied, %lld refused\n", (long long)pairs_applied,
         (long long)pairs_refused);
  assert_true(pairs_applied > 12000 && pairs_refused > 1000);
}

static void scalars(void **state) {
  (void)state;
  static const char *const both[] = {"", "a:flat", "a:partial(sum)", "b:flat,a:flat/2",
                                     "a:partial(sum),b:flat"};
  shoal_shape_t scalar = SHOAL_SCALAR;
  for (int i = 0; i < COUNT(both); ++i) {
    for (int j = 0; j < COUNT(both); ++j) {
      shoal_layout_t src = layout_of("a=2,b=3", both[i]), dst = layout_of("a=2,b=3", both[j]);
      apply_pair(both[i], &src, &dst, &scalar, 0, 0);
    }
  }
}

static void micro_batches(void **state) {
  (void)state;
  static const char *const both[] = {"micro:0", "micro:0,a:0", "micro:0,b:0,a:1", "micro:0,a:flat",
                                     "micro:0,a:partial(sum)"};
  for (int i = 0; i < COUNT(both); ++i) {
    for (int j = 0; j < COUNT(both); ++j) {
      shoal_layout_t src = layout_of("a=2,b=2,micro=3", both[i]);
      shoal_layout_t dst = layout_of("a=3,b=1,micro=3@4-6", both[j]);
      for (int64_t m = -1; m < 3; ++m) apply_pair(both[i], &src, &dst, &SHOAL_SHAPE(7, 3), m, m);
      apply_pair(both[i], &src, &dst, &SHOAL_SHAPE(7, 3), -1, 1);  // a slice in time
    }
  }
  shoal_reshard_t reshard;
  shoal_layout_t src = layout_of("a=2,micro=3", "micro:0,a:0"),
                 dst = layout_of("a=2,micro=3", "a:0");
  assert_error(MISMATCH, "no rank of the source owns element [3, 0], which position 0",
               shoal_layout_reshard(&src, 0, &dst, 0, &SHOAL_SHAPE(7, 3), &arena, &reshard));
  assert_error(INVALID_ARGUMENT, "there is no micro-batch 3",
               shoal_layout_reshard(&src, 3, &dst, 0, &SHOAL_SHAPE(7, 3), &arena, &reshard));
  // partial in time, which the source is not: the first micro-batch brings the value
  dst = layout_of("a=2,micro=3", "a:0,micro:partial(sum)");
  src = layout_of("a=2,micro=3", "a:0");
  assert_ok(shoal_layout_reshard(&src, 0, &dst, 0, &SHOAL_SHAPE(7, 3), &arena, &reshard));
  assert_int_equal(reshard.transfer_count, 2);
  assert_ok(shoal_layout_reshard(&src, 1, &dst, 1, &SHOAL_SHAPE(7, 3), &arena, &reshard));
  assert_int_equal(reshard.transfer_count, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_pairs),
      cmocka_unit_test(scalars),
      cmocka_unit_test(micro_batches),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}

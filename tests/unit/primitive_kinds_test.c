// Primitives: every kind and repartitions between many layouts and meshes, forward against a model
// and both directions by the inner-product test, on 1 to 7 ranks with data of their own, inactive
// ranks included. Lists of boxes, also from and to layouts.
// links: primitive launch
#include "primitive_model.h"

enum { WORLD = 7 };

// ---- kinds ----------------------------------------------------------------------------

typedef enum kind {
  REPARTITION,
  BROADCAST,
  SUM_REDUCE,
  ALL_SUM_REDUCE,
  ALL_GATHER,
  REDUCE_SCATTER,
  ALL_TO_ALL
} kind_t;

// A kind along `axes` of `layout` on `mesh`, and the two layouts it must amount to.
typedef struct kind_case {
  kind_t kind;
  const char *mesh, *layout, *axes;
  int32_t dim;
  const char *src_mesh, *src, *dst_mesh, *dst;
  shoal_shape_t shape;
} kind_case_t;

#define SAME NULL  // the same mesh

static const kind_case_t kind_cases[] = {
    // even, uneven, smaller than the mesh, two axes, other ranks, scalars
    {BROADCAST, "a=3", "", "a", 0, "@0", "", SAME, "", {2, {4, 3}}},
    {BROADCAST, "a=2,b=3", "b:0", "a", 0, "b=3", "b:0", SAME, "b:0", {2, {7, 2}}},
    {BROADCAST, "a=2,b=3", "a:1", "b", 0, "a=2@0,3", "a:1", SAME, "a:1", {2, {2, 5}}},
    {BROADCAST, "a=2,b=3@6,5,4,3,2,1", "", "a,b", 0, "@6", "", SAME, "", {1, {9}}},
    {BROADCAST, "a=5", "", "a", 0, "@0", "", SAME, "", {0, {0}}},
    {BROADCAST, "a=7", "", "", 0, SAME, "", SAME, "", {1, {3}}},
    {SUM_REDUCE, "a=3", "", "a", 0, SAME, "a:partial(sum)", "@0", "", {2, {4, 3}}},
    {SUM_REDUCE, "a=2,b=3", "b:0", "a", 0, SAME, "b:0,a:partial(sum)", "b=3", "b:0", {2, {7, 2}}},
    {SUM_REDUCE,
     "a=2,b=2,c=1",
     "",
     "b,a",
     0,
     SAME,
     "a:partial(sum),b:partial(sum)",
     "c=1",
     "",
     {1, {5}}},
    {ALL_SUM_REDUCE, "a=4", "", "a", 0, SAME, "a:partial(sum)", SAME, "", {1, {6}}},
    {ALL_SUM_REDUCE,
     "a=2,b=3",
     "b:1",
     "a",
     0,
     SAME,
     "b:1,a:partial(sum)",
     SAME,
     "b:1",
     {2, {3, 4}}},
    {ALL_SUM_REDUCE,
     "a=2,b=3@3,1,5,0,6,2",
     "",
     "a,b",
     0,
     SAME,
     "a:partial(sum),b:partial(sum)",
     SAME,
     "",
     {2, {3, 4}}},
    {ALL_GATHER, "a=4", "a:0", "a", 0, SAME, "a:0", SAME, "", {2, {8, 2}}},
    {ALL_GATHER, "a=4", "a:1", "a", 0, SAME, "a:1", SAME, "", {2, {3, 6}}},
    {ALL_GATHER, "a=5", "a:0", "a", 0, SAME, "a:0", SAME, "", {2, {3, 2}}},  // empty parts
    {ALL_GATHER, "a=2,b=3", "a:0,b:0", "b", 0, SAME, "a:0,b:0", SAME, "a:0", {2, {11, 2}}},
    {ALL_GATHER, "a=2,b=3", "a:0,b:flat", "b", 0, SAME, "a:0,b:flat", SAME, "a:0", {2, {5, 3}}},
    {ALL_GATHER, "a=3", "a:0(3,0,1)", "a", 0, SAME, "a:0(3,0,1)", SAME, "", {1, {10}}},
    {REDUCE_SCATTER, "a=4", "a:0", "a", 0, SAME, "a:partial(sum)", SAME, "a:0", {2, {8, 2}}},
    {REDUCE_SCATTER, "a=4", "a:1", "a", 0, SAME, "a:partial(sum)", SAME, "a:1", {2, {3, 7}}},
    {REDUCE_SCATTER,
     "a=2,b=3",
     "a:0,b:1/2",
     "b",
     0,
     SAME,
     "a:0,b:partial(sum)",
     SAME,
     "a:0,b:1/2",
     {2, {5, 7}}},
    {REDUCE_SCATTER, "a=6", "a:flat", "a", 0, SAME, "a:partial(sum)", SAME, "a:flat", {2, {3, 5}}},
    {ALL_TO_ALL, "a=4", "a:0", "a", 1, SAME, "a:0", SAME, "a:1", {2, {8, 4}}},
    {ALL_TO_ALL, "a=3", "a:0", "a", 1, SAME, "a:0", SAME, "a:1", {2, {7, 5}}},
    {ALL_TO_ALL, "a=2,b=3", "a:0,b:1", "b", 2, SAME, "a:0,b:1", SAME, "a:0,b:2", {3, {3, 4, 5}}},
    {ALL_TO_ALL,
     "a=2,b=2",
     "a:0,b:flat",
     "a",
     1,
     SAME,
     "a:0,b:flat",
     SAME,
     "a:1,b:flat",
     {2, {5, 3}}},
};

static shoal_status_t create_kind(shoal_world_t *world, const kind_case_t *c, shoal_dtype_t dtype,
                                  const shoal_layout_t *layout, const shoal_layout_t *src,
                                  const shoal_layout_t *dst, shoal_primitive_t **out) {
  const shoal_shape_t *shape = &c->shape;
  switch (c->kind) {
    case REPARTITION:
      break;
    case BROADCAST:
      return shoal_primitive_broadcast(world, dtype, shape, layout, c->axes, NULL, out);
    case SUM_REDUCE:
      return shoal_primitive_sum_reduce(world, dtype, shape, layout, c->axes, NULL, out);
    case ALL_SUM_REDUCE:
      return shoal_primitive_all_sum_reduce(world, dtype, shape, layout, c->axes, NULL, out);
    case ALL_GATHER:
      return shoal_primitive_all_gather(world, dtype, shape, layout, c->axes, NULL, out);
    case REDUCE_SCATTER:
      return shoal_primitive_reduce_scatter(world, dtype, shape, layout, c->axes, NULL, out);
    case ALL_TO_ALL:
      return shoal_primitive_all_to_all(world, dtype, shape, layout, c->axes, c->dim, NULL, out);
  }
  return shoal_primitive_create(world, dtype, shape, &(shoal_holding_t){.layout = src},
                                &(shoal_holding_t){.layout = dst}, NULL, out);
}

// Copies agree, partials differ: the destination must be what the model says, bit for bit.
static shoal_status_t check_forward(shoal_primitive_t *p, int32_t rank, const shoal_layout_t *src,
                                    const shoal_layout_t *dst, const shoal_shape_t *shape,
                                    shoal_arena_t *arena) {
  int64_t coords[SHOAL_MAX_AXES], src_count, dst_count, *elements, *targets;
  SHOAL_RETURN_IF_ERROR(elements_of(src, shape, rank, arena, coords, &src_count, &elements));
  double *x = SHOAL_NEW(arena, double, src_count);
  for (int64_t i = 0; i < src_count; ++i) x[i] = source_value(src, coords, elements[i]);
  SHOAL_RETURN_IF_ERROR(elements_of(dst, shape, rank, arena, coords, &dst_count, &targets));
  double *y = SHOAL_NEW(arena, double, dst_count);
  for (int64_t i = 0; i < dst_count; ++i) y[i] = 1e30;
  const shoal_shape_t a = shoal_primitive_src_shape(p), b = shoal_primitive_dst_shape(p);
  CHECK(shoal_shape_count(&a) == src_count && shoal_shape_count(&b) == dst_count, "shapes");
  SHOAL_RETURN_IF_ERROR(shoal_primitive_apply(p, x, y));
  for (int64_t i = 0; i < dst_count; ++i) {
    const double expected = model_value(src, dst, coords, targets[i]);
    CHECK(y[i] == expected, "rank %d, element %lld: %g, not %g", rank, (long long)targets[i], y[i],
          expected);
  }
  return NULL;
}

static shoal_status_t run_case(shoal_world_t *world, const kind_case_t *c, uint64_t seed,
                               products_t *products) {
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_mesh_t mesh, src_mesh, dst_mesh;
  shoal_layout_t layout, src, dst;
  shoal_primitive_t *p = NULL;
  const int32_t rank = shoal_world_rank(world);
  shoal_status_t status = shoal_mesh_parse(c->mesh, &arena, &mesh);
  if (!status) status = shoal_mesh_parse(c->src_mesh ? c->src_mesh : c->mesh, &arena, &src_mesh);
  if (!status) status = shoal_mesh_parse(c->dst_mesh ? c->dst_mesh : c->mesh, &arena, &dst_mesh);
  if (!status) status = shoal_layout_parse(c->layout, &mesh, 1, &arena, &layout);
  if (!status) status = shoal_layout_parse(c->src, &src_mesh, 1, &arena, &src);
  if (!status) status = shoal_layout_parse(c->dst, &dst_mesh, 1, &arena, &dst);
  if (!status) status = create_kind(world, c, SHOAL_F64, &layout, &src, &dst, &p);
  if (!status) status = check_forward(p, rank, &src, &dst, &c->shape, &arena);
  if (!status) status = inner_products(p, rank, seed, products);
  shoal_primitive_free(p);
  shoal_arena_deinit(&arena);
  return shoal_status_annotatef(status, "'%s' %s -> '%s' %s", c->src_mesh ? c->src_mesh : c->mesh,
                                c->src, c->dst_mesh ? c->dst_mesh : c->mesh, c->dst);
}

static int64_t ranks_of(const char *text) {
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_mesh_t mesh;
  int64_t most = 0;
  assert_ok(shoal_mesh_parse(text, &arena, &mesh));
  for (int64_t i = 0; i < shoal_mesh_size(&mesh); ++i) {
    if (shoal_mesh_rank(&mesh, i) >= most) most = shoal_mesh_rank(&mesh, i) + 1;
  }
  shoal_arena_deinit(&arena);
  return most;
}

typedef struct cases {
  int count;
  const kind_case_t *items;
  products_t *products;
  int32_t *ranks;  // a case needs so many
} cases_t;

static shoal_status_t run_cases(shoal_world_t *world, void *self) {
  const cases_t *cases = self;
  for (int i = 0; i < cases->count; ++i) {
    if (cases->ranks[i] > shoal_world_size(world)) continue;
    SHOAL_RETURN_IF_ERROR(run_case(world, &cases->items[i], (uint64_t)i + 1, &cases->products[i]));
  }
  return NULL;
}

// Each case on every number of ranks that has room for it; the others are inactive.
static void run_all(int count, const kind_case_t *items, int32_t fewest) {
  cases_t cases = {count, items, calloc((size_t)count, sizeof(products_t)),
                   calloc((size_t)count, sizeof(int32_t))};
  for (int i = 0; i < count; ++i) {
    const kind_case_t *c = &items[i];
    const int64_t src = ranks_of(c->src_mesh ? c->src_mesh : c->mesh);
    const int64_t dst = ranks_of(c->dst_mesh ? c->dst_mesh : c->mesh);
    cases.ranks[i] = (int32_t)(src > dst ? src : dst);
  }
  for (int32_t n = fewest; n <= WORLD; ++n) {
    memset(cases.products, 0, (size_t)count * sizeof *cases.products);
    run_threads(NULL, n, run_cases, &cases);
    for (int i = 0; i < count; ++i) check_products(&cases.products[i], n, items[i].src);
  }
  free(cases.products);
  free(cases.ranks);
}

static void test_kinds(void **state) {
  (void)state;
  run_all(COUNT(kind_cases), kind_cases, 1);
}

// ---- repartition ----------------------------------------------------------------------

typedef struct placed {
  const char *mesh, *layout;
} placed_t;

static const placed_t placed[] = {
    {"@0", ""},
    {"@6", ""},
    {"a=7", "a:0"},
    {"a=7", "a:1"},
    {"a=3", "a:0"},
    {"a=3", "a:0/4"},
    {"a=3@4-6", "a:1"},           // disjoint from a=3
    {"a=4@2-5", "a:0(1,0,3,1)"},  // overlapping with both
    {"a=2,b=3", "a:0,b:1"},
    {"a=2,b=3", "b:0,a:0"},
    {"a=2,b=3", "a:1"},
    {"a=2,b=3", "a:flat,b:flat"},
    {"a=2,b=3", "b:0*3"},
    {"a=2,b=2@6,1,4,3", "a:0+1+2,b:1+1+0"},
    {"a=3", "a:0+3+3"},  // a halo wider than the neighbour
    {"a=2,b=3", "a:partial(sum),b:1"},
    {"a=2,b=3", "a:partial(sum),b:partial(sum)"},
    {"a=2,b=2@5,0,2,1", "a:partial(sum),b:0"},
    {"a=2,b=3", "b:partial(sum)"},
};

static void test_repartition(void **state) {
  (void)state;
  enum { N = COUNT(placed) };
  kind_case_t *items = calloc(N * N, sizeof *items);
  int count = 0;
  for (int i = 0; i < N; ++i) {
    for (int j = 0; j < N; ++j) {
      items[count++] = (kind_case_t){.kind = REPARTITION,
                                     .mesh = "@0",
                                     .layout = "",
                                     .src_mesh = placed[i].mesh,
                                     .src = placed[i].layout,
                                     .dst_mesh = placed[j].mesh,
                                     .dst = placed[j].layout,
                                     .shape = {2, {9, 5}}};
    }
  }
  run_all(count, items, WORLD);
  free(items);
}

// ---- lists of boxes -------------------------------------------------------------------

enum { ROUNDS = 60 };

typedef struct box_case {
  shoal_shape_t shape;
  int64_t src_count, dst_count;
  shoal_part_t src[WORLD], dst[WORLD];
  bool refresh;
} box_case_t;

typedef struct box_cases {
  box_case_t items[ROUNDS];
  products_t products[ROUNDS];
} box_cases_t;

// Disjoint boxes that cover the shape: split at random, again and again; dealt to random ranks.
static int64_t random_boxes(randoms_t *r, const shoal_shape_t *shape, bool ghosts,
                            shoal_part_t *parts) {
  int32_t ranks[WORLD] = {0, 1, 2, 3, 4, 5, 6};
  int64_t count = 1, most = pick(r, 1, WORLD);
  memset(parts, 0, WORLD * sizeof *parts);
  for (int32_t d = 0; d < shape->rank; ++d) parts[0].own.size[d] = shape->dims[d];
  while (count < most) {
    shoal_box_t *box = &parts[pick(r, 0, count - 1)].own;
    const int32_t d = (int32_t)pick(r, 0, shape->rank - 1);
    const int64_t at = pick(r, 0, box->size[d]);  // may leave one side empty
    shoal_box_t *other = &parts[count++].own;
    *other = *box;
    other->start[d] += at;
    other->size[d] -= at;
    box->size[d] = at;
  }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t k = pick(r, i, WORLD - 1);
    const int32_t rank = ranks[k];
    ranks[k] = ranks[i];
    parts[i].rank = rank;
    parts[i].held = parts[i].own;
    for (int32_t d = 0; ghosts && d < shape->rank; ++d) {
      const int64_t low = pick(r, 0, parts[i].own.start[d]);
      const int64_t high = pick(r, parts[i].own.start[d] + parts[i].own.size[d], shape->dims[d]);
      parts[i].held.start[d] = low;
      parts[i].held.size[d] = high - low;
    }
  }
  return count;
}

static int64_t global_of(const shoal_box_t *held, const shoal_shape_t *shape, int64_t i) {
  int64_t index[SHOAL_MAX_RANK], global = 0;
  for (int32_t d = shape->rank - 1; d >= 0; --d) {
    index[d] = held->start[d] + i % held->size[d];
    i /= held->size[d];
  }
  for (int32_t d = 0; d < shape->rank; ++d) global = global * shape->dims[d] + index[d];
  return global;
}

static int64_t box_count(const shoal_box_t *box, int32_t rank) {
  int64_t count = 1;
  for (int32_t d = 0; d < rank; ++d) count *= box->size[d];
  return count;
}

static const shoal_part_t *part_of(const shoal_part_t *parts, int64_t count, int32_t rank) {
  for (int64_t i = 0; i < count; ++i) {
    if (parts[i].rank == rank) return &parts[i];
  }
  return NULL;
}

static bool inside(const shoal_box_t *box, const shoal_shape_t *shape, int64_t global) {
  for (int32_t d = shape->rank - 1; d >= 0; --d) {
    const int64_t index = global % shape->dims[d];
    global /= shape->dims[d];
    if (index < box->start[d] || index >= box->start[d] + box->size[d]) return false;
  }
  return true;
}

// Who gave element `global` to `rank`: itself, or its one owner.
static int32_t giver_of(const box_case_t *c, int32_t rank, int64_t global) {
  const shoal_part_t *self = part_of(c->src, c->src_count, rank);
  if (self && inside(c->refresh ? &self->own : &self->held, &c->shape, global)) return rank;
  for (int64_t i = 0; i < c->src_count; ++i) {
    if (inside(&c->src[i].own, &c->shape, global)) return c->src[i].rank;
  }
  return -1;
}

static shoal_status_t check_boxes(shoal_primitive_t *p, int32_t rank, const box_case_t *c) {
  const shoal_part_t *src = part_of(c->src, c->src_count, rank);
  const shoal_part_t *dst = part_of(c->dst, c->dst_count, rank);
  double x[1024] = {0}, y[1024];
  const int64_t src_count = src ? box_count(&src->held, c->shape.rank) : 0;
  const int64_t dst_count = dst ? box_count(&dst->held, c->shape.rank) : 0;
  for (int64_t i = 0; i < src_count; ++i) {  // ghosts have values of their own
    x[i] = small((uint64_t)rank, global_of(&src->held, &c->shape, i));
  }
  SHOAL_RETURN_IF_ERROR(shoal_primitive_apply(p, x, y));
  for (int64_t i = 0; i < dst_count; ++i) {
    const int64_t global = global_of(&dst->held, &c->shape, i);
    const int32_t giver = giver_of(c, rank, global);
    CHECK(y[i] == small((uint64_t)giver, global), "rank %d has not rank %d's element %lld", rank,
          giver, (long long)global);
  }
  return NULL;
}

static shoal_status_t run_boxes(shoal_world_t *world, void *self) {
  box_cases_t *cases = self;
  const int32_t rank = shoal_world_rank(world);
  for (int i = 0; i < ROUNDS; ++i) {
    const box_case_t *c = &cases->items[i];
    shoal_primitive_t *p = NULL;
    const shoal_holding_t src = {.part_count = c->src_count, .parts = c->src};
    const shoal_holding_t dst = {.part_count = c->dst_count, .parts = c->dst};
    SHOAL_RETURN_IF_ERROR(
        shoal_primitive_create(world, SHOAL_F64, &c->shape, &src, &dst,
                               &(shoal_primitive_options_t){.refresh = c->refresh}, &p));
    shoal_status_t status = check_boxes(p, rank, c);
    if (!status) status = inner_products(p, rank, (uint64_t)i + 9, &cases->products[i]);
    shoal_primitive_free(p);
    if (status) return shoal_status_annotatef(status, "boxes %d", i);
  }
  return NULL;
}

static void test_boxes(void **state) {
  (void)state;
  static box_cases_t cases;
  randoms_t r = {42};
  for (int i = 0; i < ROUNDS; ++i) {
    box_case_t *c = &cases.items[i];
    c->shape = (shoal_shape_t){i % 3 + 1, {pick(&r, 1, 9), pick(&r, 1, 7), pick(&r, 1, 5)}};
    c->refresh = i % 4 == 3;
    c->src_count = random_boxes(&r, &c->shape, i % 2, c->src);
    c->dst_count = random_boxes(&r, &c->shape, i % 5, c->dst);
  }
  run_threads(NULL, WORLD, run_boxes, &cases);
  for (int i = 0; i < ROUNDS; ++i) check_products(&cases.products[i], WORLD, "boxes");
}

// A layout on one side, the boxes of another on the other: as between the two layouts.
static shoal_status_t boxes_of(const shoal_layout_t *layout, const shoal_shape_t *shape,
                               shoal_arena_t *arena, shoal_holding_t *out_holding) {
  const int64_t size = shoal_mesh_size(layout->mesh);
  shoal_part_t *parts = SHOAL_NEW(arena, shoal_part_t, size);
  for (int64_t i = 0; i < size; ++i) {
    shoal_boxes_t boxes;
    SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(layout, shape, i, 0, arena, &boxes));
    parts[i].rank = shoal_mesh_rank(layout->mesh, i);
    for (int32_t d = 0; d < shape->rank; ++d) {
      if (boxes.dims[d].own_count) {
        parts[i].own.start[d] = boxes.dims[d].own[0].start;
        parts[i].own.size[d] = boxes.dims[d].own[0].size;
      }
      if (boxes.dims[d].held_count) {
        parts[i].held.start[d] = boxes.dims[d].held[0].start;
        parts[i].held.size[d] = boxes.dims[d].held[0].size;
      }
    }
  }
  *out_holding = (shoal_holding_t){.part_count = size, .parts = parts};
  return NULL;
}

typedef struct mixed {
  products_t products[2 * COUNT(placed)];
} mixed_t;

static shoal_status_t layouts_and_boxes(shoal_world_t *world, void *self) {
  mixed_t *mixed = self;
  const shoal_shape_t shape = {2, {9, 5}};
  const int32_t rank = shoal_world_rank(world);
  shoal_status_t status = NULL;
  for (int i = 0; i < 2 * COUNT(placed) && !status; ++i) {
    const placed_t *one = &placed[i / 2];
    if (strstr(one->layout, "partial")) continue;
    shoal_arena_t arena;
    shoal_arena_init(shoal_allocator_system(), &arena);
    shoal_mesh_t mesh, other;
    shoal_layout_t layout, boxed;
    shoal_holding_t list;
    shoal_primitive_t *p = NULL;
    status = shoal_mesh_parse(one->mesh, &arena, &mesh);
    if (!status) status = shoal_layout_parse(one->layout, &mesh, 1, &arena, &layout);
    if (!status) status = shoal_mesh_parse("a=2,b=2@6,1,4,3", &arena, &other);
    if (!status) status = shoal_layout_parse("a:0+1+2,b:1+1+0", &other, 1, &arena, &boxed);
    if (!status) status = boxes_of(&boxed, &shape, &arena, &list);
    const shoal_holding_t holding = {.layout = &layout};
    const bool to_list = i % 2;
    if (!status) {
      status = shoal_primitive_create(world, SHOAL_F64, &shape, to_list ? &holding : &list,
                                      to_list ? &list : &holding, NULL, &p);
    }
    if (!status) {
      status = check_forward(p, rank, to_list ? &layout : &boxed, to_list ? &boxed : &layout,
                             &shape, &arena);
    }
    if (!status) status = inner_products(p, rank, (uint64_t)i, &mixed->products[i]);
    shoal_primitive_free(p);
    shoal_arena_deinit(&arena);
    status = shoal_status_annotatef(status, "'%s' %s a list", one->layout, to_list ? "to" : "from");
  }
  return status;
}

static void test_layouts_and_boxes(void **state) {
  (void)state;
  static mixed_t mixed;
  run_threads(NULL, WORLD, layouts_and_boxes, &mixed);
  for (int i = 0; i < 2 * COUNT(placed); ++i) {
    check_products(&mixed.products[i], WORLD, placed[i / 2].layout);
  }
}

// Copies of one layout along `b`: each row of copies takes from its own.
static shoal_status_t replicas(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t rank = shoal_world_rank(world);
  const shoal_shape_t shape = {1, {8}};
  shoal_part_t src[4] = {0}, dst[4] = {0};
  for (int32_t i = 0; i < 4; ++i) {  // ranks 0 1 own the halves, 2 3 once more
    src[i] = (shoal_part_t){.rank = i, .replica = i / 2};
    src[i].own.start[0] = src[i].held.start[0] = i % 2 * 4;
    src[i].own.size[0] = src[i].held.size[0] = 4;
    dst[i] = (shoal_part_t){.rank = i, .replica = i / 2};
    dst[i].held.size[0] = 8;
  }
  shoal_primitive_t *p = NULL;
  double x[4], y[8];
  for (int i = 0; i < 4; ++i) x[i] = rank * 10 + i;
  const shoal_holding_t from = {.part_count = 4, .parts = src},
                        to = {.part_count = 4, .parts = dst};
  SHOAL_RETURN_IF_ERROR(shoal_primitive_create(world, SHOAL_F64, &shape, &from, &to, NULL, &p));
  shoal_status_t status = shoal_primitive_apply(p, x, y);
  shoal_primitive_free(p);
  SHOAL_RETURN_IF_ERROR(status);
  for (int i = 0; i < 8; ++i) {
    CHECK(y[i] == (rank / 2 * 2 + i / 4) * 10 + i % 4, "rank %d: y[%d] is %g", rank, i, y[i]);
  }
  return NULL;
}

static void test_replicas(void **state) {
  (void)state;
  run_threads(NULL, 4, replicas, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_kinds),    cmocka_unit_test(test_repartition),
      cmocka_unit_test(test_boxes),    cmocka_unit_test(test_layouts_and_boxes),
      cmocka_unit_test(test_replicas),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

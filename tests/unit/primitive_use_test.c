// Using primitives: ghosts in place, element types and half precision, the order of sums, start and
// wait in any order, wrong calls, what is refused, memory and messages as budgets.
// links: primitive launch
#include "base/dtype.h"
#include "base/failing.h"
#include "primitive_model.h"

enum { WORLD = 7 };

// ---- in place -------------------------------------------------------------------------

// Ghosts are filled in place; the adjoint adds them into their owners and zeroes them.
static shoal_status_t refresh(shoal_world_t *world, void *self) {
  const shoal_dtype_t dtype = *(const shoal_dtype_t *)self;
  const int32_t rank = shoal_world_rank(world), n = shoal_world_size(world);
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_mesh_t mesh;
  shoal_layout_t layout;
  char text[16];
  snprintf(text, sizeof text, "x=%d", n);
  SHOAL_RETURN_IF_ERROR(shoal_mesh_parse(text, &arena, &mesh));
  SHOAL_RETURN_IF_ERROR(shoal_layout_parse("x:0+2+1", &mesh, 1, &arena, &layout));
  const shoal_shape_t shape = {2, {11, 3}};
  shoal_boxes_t boxes;
  SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(&layout, &shape, rank, 0, &arena, &boxes));
  shoal_primitive_t *p = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_primitive_refresh(world, dtype, &shape, &layout, NULL, &p));
  const int64_t start = boxes.dims[0].held[0].start, rows = boxes.dims[0].held_size;
  const int64_t own = boxes.dims[0].own[0].start, end = own + boxes.dims[0].own_size;
  char *x = malloc(512), *y = malloc(512);
  for (int64_t i = 0; i < rows * 3; ++i) {
    const int64_t row = start + i / 3;
    const bool mine = row >= own && row < end;
    shoal_dtype_store(dtype, x, i, mine ? (double)(start * 3 + i) : -99);
  }
  shoal_status_t status = shoal_primitive_apply(p, x, x);
  for (int64_t i = 0; i < rows * 3 && !status; ++i) {
    if (shoal_dtype_load(dtype, x, i) != (double)(start * 3 + i)) {
      status = SHOAL_ERROR(INTERNAL, "rank %d: ghost %lld", rank, (long long)i);
    }
  }
  // Adjoint of ones: how many ranks hold the element; 0 in ghosts. In place and not: the same.
  for (int64_t i = 0; i < rows * 3; ++i) shoal_dtype_store(dtype, x, i, 1);
  for (int64_t i = 0; i < rows * 3; ++i) shoal_dtype_store(dtype, y, i, 77);
  if (!status) status = shoal_primitive_apply_adjoint(p, x, y);
  if (!status) status = shoal_primitive_apply_adjoint(p, x, x);
  for (int64_t i = 0; i < rows * 3 && !status; ++i) {
    const int64_t row = start + i / 3;
    int64_t holders = 0;
    for (int32_t k = 0; k < n; ++k) {
      shoal_boxes_t other;
      status = shoal_layout_boxes(&layout, &shape, k, 0, &arena, &other);
      if (status) break;
      const shoal_interval_t held = other.dims[0].held[0];
      holders += row >= held.start && row < held.start + held.size;
    }
    const double expected = row >= own && row < end ? (double)holders : 0;
    if (!status &&
        (shoal_dtype_load(dtype, x, i) != expected || shoal_dtype_load(dtype, y, i) != expected)) {
      status = SHOAL_ERROR(INTERNAL, "rank %d, row %lld: %g and %g, not %g", rank, (long long)row,
                           shoal_dtype_load(dtype, x, i), shoal_dtype_load(dtype, y, i), expected);
    }
  }
  free(x);
  free(y);
  shoal_primitive_free(p);
  shoal_arena_deinit(&arena);
  return status;
}

static void test_refresh(void **state) {
  (void)state;
  shoal_dtype_t dtypes[] = {SHOAL_F64, SHOAL_F32, SHOAL_BF16, SHOAL_F16, SHOAL_I32};
  for (int i = 0; i < COUNT(dtypes); ++i) {
    for (int32_t n = 1; n <= 6; ++n) run_threads(NULL, n, refresh, &dtypes[i]);
  }
}

// ---- element types --------------------------------------------------------------------

enum { LONG = 700 };  // more than what is widened at a time

// One large number and many small ones: lost if every sum is rounded to half precision.
static shoal_status_t sum_halves(shoal_world_t *world, void *self) {
  const shoal_dtype_t dtype = *(const shoal_dtype_t *)self;
  const int32_t rank = shoal_world_rank(world), n = shoal_world_size(world);
  const double large = dtype == SHOAL_BF16 ? 256 : 2048;
  const shoal_shape_t shape = {1, {LONG}};
  shoal_mesh_t mesh = {.axis_count = 1, .axes = {{.name = "a", .size = n}}};
  shoal_layout_t layout = {.mesh = &mesh};
  shoal_primitive_t *sum = NULL, *copy = NULL;
  SHOAL_RETURN_IF_ERROR(
      shoal_primitive_all_sum_reduce(world, dtype, &shape, &layout, "a", NULL, &sum));
  SHOAL_RETURN_IF_ERROR(shoal_primitive_broadcast(world, dtype, &shape, &layout, "a", NULL, &copy));
  uint16_t x[LONG], y[LONG], z[LONG];
  for (int i = 0; i < LONG; ++i) shoal_dtype_store(dtype, x, i, rank == i % 8 ? large : 1);
  SHOAL_RETURN_IF_ERROR(shoal_primitive_apply(sum, x, y));
  SHOAL_RETURN_IF_ERROR(shoal_primitive_apply_adjoint(sum, x, z));
  for (int i = 0; i < LONG; ++i) {
    const double expected = i % 8 < n ? large + n - 1 : n;
    CHECK(shoal_dtype_load(dtype, y, i) == expected && shoal_dtype_load(dtype, z, i) == expected,
          "sum %g, adjoint %g, not %g", shoal_dtype_load(dtype, y, i),
          shoal_dtype_load(dtype, z, i), expected);
  }
  SHOAL_RETURN_IF_ERROR(shoal_primitive_apply_adjoint(copy, x, rank ? NULL : y));
  for (int i = 0; i < LONG && rank == 0; ++i) {
    CHECK(shoal_dtype_load(dtype, y, i) == (i % 8 < n ? large + n - 1 : n),
          "adjoint of a broadcast");
  }
  shoal_primitive_free(sum);
  shoal_primitive_free(copy);
  return NULL;
}

// Numbers below this are exact in the type.
static int64_t range_of(shoal_dtype_t dtype) {
  return dtype == SHOAL_BOOL ? 2 : dtype == SHOAL_F8_E5M2 ? 8 : dtype == SHOAL_F8_E4M3 ? 16 : 100;
}

// Integers and bools are copied; integers also sum, unless they are for storage.
static shoal_status_t move_type(shoal_world_t *world, void *self) {
  const shoal_dtype_t dtype = *(const shoal_dtype_t *)self;
  const int32_t rank = shoal_world_rank(world), n = shoal_world_size(world);
  const shoal_shape_t shape = {2, {n + 2, 4}};
  shoal_mesh_t mesh = {.axis_count = 1, .axes = {{.name = "a", .size = n}}};
  shoal_layout_t layout = {.mesh = &mesh, .cut_count = 1, .cuts = {{.axis = 0, .dim = 0}}};
  shoal_primitive_t *p = NULL;
  SHOAL_RETURN_IF_ERROR(
      shoal_primitive_all_to_all(world, dtype, &shape, &layout, "a", 1, NULL, &p));
  char x[1024], y[1024], z[1024];
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  int64_t coords[SHOAL_MAX_AXES], count, targets, *elements, *others;
  shoal_layout_t across = {.mesh = &mesh, .cut_count = 1, .cuts = {{.axis = 0, .dim = 1}}};
  shoal_status_t status = elements_of(&layout, &shape, rank, &arena, coords, &count, &elements);
  if (!status) status = elements_of(&across, &shape, rank, &arena, coords, &targets, &others);
  for (int64_t i = 0; i < count && !status; ++i) {
    shoal_dtype_store_int(dtype, x, i, elements[i] % range_of(dtype));
  }
  if (!status) status = shoal_primitive_apply(p, x, y);
  for (int64_t i = 0; i < targets && !status; ++i) {
    if (shoal_dtype_load_int(dtype, y, i) != others[i] % range_of(dtype))
      status = SHOAL_ERROR(INTERNAL, "moved");
  }
  if (!status && dtype != SHOAL_BOOL && !shoal_dtype_is_storage(dtype)) {
    status = shoal_primitive_apply_adjoint(p, y, z);
    const size_t bytes = (size_t)count * shoal_dtype_size(dtype);
    if (!status && memcmp(x, z, bytes) != 0) status = SHOAL_ERROR(INTERNAL, "not back");
  }
  shoal_primitive_free(p);
  shoal_arena_deinit(&arena);
  return status;
}

static void test_types(void **state) {
  (void)state;
  shoal_dtype_t halves[] = {SHOAL_BF16, SHOAL_F16};
  for (int i = 0; i < 2; ++i) {
    run_threads(NULL, 7, sum_halves, &halves[i]);
    run_threads(NULL, 3, sum_halves, &halves[i]);
  }
  for (shoal_dtype_t dtype = 0; dtype < SHOAL_DTYPE_COUNT; ++dtype) {
    run_threads(NULL, 3, move_type, &dtype);
    run_threads(NULL, 6, move_type, &dtype);
  }
}

// Sums whose value depends on their order: ascending on every rank, in both directions; between
// lists of boxes a part's own comes first.
static shoal_status_t fixed_order(shoal_world_t *world, void *self) {
  (void)self;
  static const float values[WORLD] = {1e8f, 3, -1e8f, 5, 7e7f, -7e7f, 1};
  const int32_t rank = shoal_world_rank(world), n = shoal_world_size(world);
  const shoal_shape_t shape = {1, {1}};
  shoal_mesh_t mesh = {.axis_count = 1, .axes = {{.name = "a", .size = n}}};
  shoal_layout_t layout = {.mesh = &mesh};
  shoal_primitive_t *sum = NULL, *copies = NULL;
  SHOAL_RETURN_IF_ERROR(
      shoal_primitive_all_sum_reduce(world, SHOAL_F32, &shape, &layout, "a", NULL, &sum));
  shoal_part_t owner[1] = {{.rank = n - 1}}, holders[WORLD] = {0};
  owner[0].own.size[0] = owner[0].held.size[0] = 1;
  for (int32_t i = 0; i < n; ++i) {
    holders[i].rank = i;
    holders[i].held.size[0] = 1;
  }
  SHOAL_RETURN_IF_ERROR(shoal_primitive_create(
      world, SHOAL_F32, &shape, &(shoal_holding_t){.part_count = 1, .parts = owner},
      &(shoal_holding_t){.part_count = n, .parts = holders}, NULL, &copies));
  float ascending = values[0], own_first = values[n - 1], x = values[rank], y = 0, z = 0;
  for (int32_t i = 1; i < n; ++i) ascending += values[i];
  for (int32_t i = 0; i + 1 < n; ++i) own_first += values[i];
  SHOAL_RETURN_IF_ERROR(shoal_primitive_apply(sum, &x, &y));
  SHOAL_RETURN_IF_ERROR(shoal_primitive_apply_adjoint(sum, &x, &z));
  CHECK(y == ascending && z == ascending, "rank %d: %g and %g, not %g", rank, (double)y, (double)z,
        (double)ascending);
  SHOAL_RETURN_IF_ERROR(shoal_primitive_apply_adjoint(copies, &x, &y));
  CHECK(rank < n - 1 || y == own_first, "%g, not %g", (double)y, (double)own_first);
  shoal_primitive_free(sum);
  shoal_primitive_free(copies);
  return NULL;
}

static void test_fixed_order(void **state) {
  (void)state;
  for (int32_t n = 1; n <= WORLD; ++n) run_threads(NULL, n, fixed_order, NULL);
}

// ---- start and wait -------------------------------------------------------------------

enum { FLIGHT = 6 };

// An all-sum-reduce is one collective, in both directions, in place too, and under way on several
// groups at once; elsewhere there are messages.
static shoal_status_t collectives(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t rank = shoal_world_rank(world);
  const shoal_shape_t shape = {1, {100}};
  shoal_mesh_t mesh = {.axis_count = 2,
                       .axes = {{.name = "a", .size = 2}, {.name = "b", .size = 3}}};
  shoal_layout_t layout = {.mesh = &mesh}, cut = layout;
  cut.cut_count = 1;
  cut.cuts[0] = (shoal_cut_t){.axis = 0, .dim = 0};
  static const char *const axes[] = {"a", "b", "a,b"};
  static const int32_t sizes[] = {2, 3, 6};
  shoal_primitive_t *sums[3] = {0}, *other = NULL;
  double x[100], y[3][100];
  for (int k = 0; k < 3; ++k) {
    SHOAL_RETURN_IF_ERROR(
        shoal_primitive_all_sum_reduce(world, SHOAL_F64, &shape, &layout, axes[k], NULL, &sums[k]));
    const shoal_primitive_stats_t stats = shoal_primitive_stats(sums[k]);
    CHECK(stats.group_size == sizes[k] && stats.send_count + stats.recv_count == 0 &&
              stats.staging_bytes == 0,
          "along %s: a group of %d, %d messages", axes[k], stats.group_size, stats.send_count);
  }
  SHOAL_RETURN_IF_ERROR(
      shoal_primitive_all_gather(world, SHOAL_F64, &shape, &cut, "a", NULL, &other));
  CHECK(shoal_primitive_stats(other).group_size == 2, "an all-gather of rows is no collective");
  shoal_primitive_free(other);
  cut.cuts[0].dim = 1;
  SHOAL_RETURN_IF_ERROR(shoal_primitive_all_gather(world, SHOAL_F64, &(shoal_shape_t){2, {3, 8}},
                                                   &cut, "a", NULL, &other));
  CHECK(shoal_primitive_stats(other).group_size == 0, "columns do not lie one behind the other");
  for (int pass = 0; pass < 4; ++pass) {
    for (int i = 0; i < 100; ++i) x[i] = 1 + i + 1000 * rank;
    for (int k = 0; k < 3; ++k) {
      memcpy(y[k], x, sizeof x);
      const void *from = pass % 2 ? y[k] : x;  // in place, or not
      SHOAL_RETURN_IF_ERROR(pass < 2 ? shoal_primitive_start(sums[k], from, y[k])
                                     : shoal_primitive_start_adjoint(sums[k], from, y[k]));
    }
    for (int i = 0; i < 3; ++i) SHOAL_RETURN_IF_ERROR(shoal_primitive_wait(sums[(i + rank) % 3]));
    for (int i = 0; i < 100; ++i) {
      const double along_a = 2 * (1 + i) + 1000 * (2 * (rank % 3) + 3);
      const double along_b = 3 * (1 + i) + 1000 * (3 * (rank / 3 * 3) + 3);
      CHECK(y[0][i] == along_a && y[1][i] == along_b && y[2][i] == 6 * (1 + i) + 15000,
            "rank %d, element %d: %g %g %g", rank, i, y[0][i], y[1][i], y[2][i]);
    }
  }
  for (int k = 0; k < 3; ++k) shoal_primitive_free(sums[k]);
  shoal_primitive_free(other);
  return NULL;
}

static void test_collectives(void **state) {
  (void)state;
  run_threads(NULL, 6, collectives, NULL);
}

// Several under way, waited for in another order on each rank; what is interior is there at once.
static shoal_status_t in_flight(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t rank = shoal_world_rank(world), n = shoal_world_size(world);
  const shoal_shape_t shape = {2, {40, 3}};
  shoal_mesh_t mesh = {.axis_count = 1, .axes = {{.name = "a", .size = n}}};
  shoal_layout_t src = {.mesh = &mesh, .cut_count = 1, .cuts = {{.axis = 0, .dim = 0}}}, dst = src;
  shoal_primitive_t *p[FLIGHT] = {0};
  double x[120], y[FLIGHT][240];
  for (int i = 0; i < FLIGHT; ++i) {
    dst.cuts[0].before = i;
    dst.cuts[0].after = 2 * i;
    SHOAL_RETURN_IF_ERROR(shoal_primitive_create(world, SHOAL_F64, &shape,
                                                 &(shoal_holding_t){.layout = &src},
                                                 &(shoal_holding_t){.layout = &dst}, NULL, &p[i]));
  }
  const shoal_box_t *interior;
  int64_t count;
  shoal_primitive_interior(p[0], &interior, &count);
  CHECK(count == 1 && interior[0].size[1] == 3, "interior");
  const int64_t own = interior[0].start[0], rows = interior[0].size[0];
  for (int64_t i = 0; i < rows * 3; ++i) x[i] = (double)(own * 3 + i);
  for (int i = 0; i < FLIGHT; ++i) {
    memset(y[i], 0, sizeof y[i]);
    SHOAL_RETURN_IF_ERROR(shoal_primitive_start(p[i], x, y[i]));
    shoal_primitive_interior(p[i], &interior, &count);
    CHECK(count == 1 && interior[0].start[0] == own && interior[0].size[0] == rows, "interior");
    const int64_t start = own > i ? own - i : 0;
    for (int64_t k = 0; k < rows * 3; ++k) {
      CHECK(y[i][(own - start) * 3 + k] == x[k], "the interior is not there after start");
    }
  }
  SHOAL_RETURN_IF_ERROR(shoal_primitive_wait(p[0]));
  CHECK_ERROR(INVALID_ARGUMENT, "not started", shoal_primitive_wait(p[0]));
  for (int k = 0; k < FLIGHT; ++k) {
    const int i = (k + rank) % FLIGHT;
    if (i > 0) SHOAL_RETURN_IF_ERROR(shoal_primitive_wait(p[i]));
    const shoal_shape_t part = shoal_primitive_dst_shape(p[i]);
    const int64_t start = own > i ? own - i : 0;
    for (int64_t e = 0; e < part.dims[0] * 3; ++e) {
      CHECK(y[i][e] == (double)(start * 3 + e), "rank %d, halo %d, element %lld", rank, i,
            (long long)e);
    }
  }
  for (int i = 0; i < FLIGHT; ++i) shoal_primitive_free(p[i]);
  return NULL;
}

static void test_in_flight(void **state) {
  (void)state;
  for (int32_t n = 1; n <= WORLD; ++n) run_threads(NULL, n, in_flight, NULL);
  run_threads(&(shoal_world_options_t){.backend = "self"}, 1, in_flight, NULL);
  assert_ok(run_processes(NULL, 3, in_flight, NULL));
}

// What is freed while it is under way is waited for.
static shoal_status_t free_early(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t n = shoal_world_size(world);
  const shoal_shape_t shape = {1, {100000}};
  shoal_mesh_t mesh = {.axis_count = 1, .axes = {{.name = "a", .size = n}}};
  shoal_layout_t cut = {.mesh = &mesh, .cut_count = 1, .cuts = {{.axis = 0, .dim = 0}}};
  double *x = calloc(100000, sizeof *x), *y = calloc(100000, sizeof *y);
  shoal_status_t status = NULL;
  for (int i = 0; i < 3 && !status; ++i) {
    shoal_primitive_t *p = NULL;
    status = shoal_primitive_all_gather(world, SHOAL_F64, &shape, &cut, "a", NULL, &p);
    if (!status) status = shoal_primitive_start(p, x, y);
    shoal_primitive_free(p);
    memset(y, 1, 100000 * sizeof *y);
  }
  free(x);
  free(y);
  return status;
}

static void test_free_early(void **state) {
  (void)state;
  run_threads(NULL, 3, free_early, NULL);
}

// ---- refusals -------------------------------------------------------------------------

static shoal_status_t refusals(shoal_world_t *world, void *self) {
  (void)self;
  const shoal_shape_t shape = {1, {6}};
  shoal_mesh_t mesh = {.axis_count = 1, .axes = {{.name = "a", .size = 2}}};
  shoal_mesh_t large = {.axis_count = 1, .axes = {{.name = "a", .size = 3}}};
  shoal_layout_t cut = {.mesh = &mesh, .cut_count = 1, .cuts = {{.axis = 0, .dim = 0}}};
  shoal_layout_t copy = {.mesh = &mesh}, trimmed = cut, on_large = {.mesh = &large};
  shoal_layout_t partial = {.mesh = &mesh, .cut_count = 1, .cuts = {{.kind = SHOAL_CUT_PARTIAL}}};
  trimmed.cuts[0].after = -1;
  const shoal_holding_t whole = {.layout = &copy}, halves = {.layout = &cut};
  const shoal_holding_t holes = {.layout = &trimmed}, sums = {.layout = &partial};
  shoal_part_t parts[2] = {{.rank = 0}, {.rank = 0}};
  shoal_holding_t list = {.part_count = 2, .parts = parts};
  shoal_primitive_t *p = NULL;
#define CREATE(src, dst) shoal_primitive_create(world, SHOAL_F64, &shape, &(src), &(dst), NULL, &p)
  CHECK_ERROR(MISMATCH, "no rank of the source owns element [2]", CREATE(holes, whole));
  CHECK_ERROR(INVALID_ARGUMENT, "rank 0 is twice in the source", CREATE(list, whole));
  CHECK_ERROR(INVALID_ARGUMENT, "rank 0 is twice in the destination", CREATE(whole, list));
  parts[1].rank = 1;
  CHECK_ERROR(MISMATCH, "no part of the source owns element [0]", CREATE(list, whole));
  CHECK_ERROR(UNSUPPORTED, "partial layout", CREATE(sums, list));
  parts[1].held.start[0] = 5;
  parts[1].held.size[0] = 2;
  CHECK_ERROR(INVALID_ARGUMENT, "holds [5, 7) of dim 0, which has length 6", CREATE(whole, list));
  parts[1].held.size[0] = 1;
  parts[1].own.start[0] = 4;
  parts[1].own.size[0] = 1;
  CHECK_ERROR(INVALID_ARGUMENT, "owns [4, 5) of dim 0, but holds [5, 6)", CREATE(whole, list));
  parts[1] = (shoal_part_t){.rank = 2};
  CHECK_ERROR(INVALID_ARGUMENT, "rank 2 holds a part, but the world has 2", CREATE(whole, list));
  CHECK_ERROR(INVALID_ARGUMENT, "rank 2 holds a part, but the world has 2",
              CREATE(((shoal_holding_t){.layout = &on_large}), whole));
  CHECK_ERROR(INVALID_ARGUMENT, "neither a layout nor parts",
              CREATE(((shoal_holding_t){.part_count = 1}), whole));
  CHECK_ERROR(INVALID_ARGUMENT, "unknown element type",
              shoal_primitive_create(world, SHOAL_DTYPE_COUNT, &shape, &whole, &halves, NULL, &p));
  CHECK_ERROR(INVALID_ARGUMENT, "names axis 'a', along which there are only copies",
              shoal_primitive_broadcast(world, SHOAL_F64, &shape, &cut, "a", NULL, &p));
  CHECK_ERROR(INVALID_ARGUMENT, "is used twice",
              shoal_primitive_all_sum_reduce(world, SHOAL_F64, &shape, &cut, "a", NULL, &p));
  CHECK_ERROR(INVALID_ARGUMENT, "not cut along axis 'a'",
              shoal_primitive_all_gather(world, SHOAL_F64, &shape, &copy, "a", NULL, &p));
  CHECK_ERROR(NOT_FOUND, "no axis 'b'",
              shoal_primitive_reduce_scatter(world, SHOAL_F64, &shape, &cut, "b", NULL, &p));
  CHECK_ERROR(INVALID_ARGUMENT, "along 0 axes",
              shoal_primitive_all_to_all(world, SHOAL_F64, &shape, &cut, "", 0, NULL, &p));
  CHECK(p == NULL, "an output is set after an error");
  return NULL;
}

static shoal_status_t no_adjoint(shoal_world_t *world, void *self) {
  (void)self;
  const shoal_shape_t shape = {1, {2}};
  shoal_mesh_t mesh = {.axis_count = 1, .axes = {{.name = "a", .size = 2}}};
  shoal_layout_t copy = {.mesh = &mesh}, most = copy;
  most.cut_count = 1;
  most.cuts[0] = (shoal_cut_t){.kind = SHOAL_CUT_PARTIAL, .reduce = SHOAL_REDUCE_MAX};
  shoal_primitive_t *p = NULL;
  const int32_t rank = shoal_world_rank(world);
  double x[2] = {rank, -rank}, y[2];
  SHOAL_RETURN_IF_ERROR(shoal_primitive_create(world, SHOAL_F64, &shape,
                                               &(shoal_holding_t){.layout = &most},
                                               &(shoal_holding_t){.layout = &copy}, NULL, &p));
  SHOAL_RETURN_IF_ERROR(shoal_primitive_apply(p, x, y));
  CHECK(y[0] == 1 && y[1] == 0, "the largest are %g and %g", y[0], y[1]);
  CHECK_ERROR(UNSUPPORTED, "f64 by max has no adjoint", shoal_primitive_apply_adjoint(p, y, x));
  shoal_primitive_free(p);
  return NULL;
}

// Wrong calls, by number; the other rank is waiting and gets the error too.
static shoal_status_t wrong_call(shoal_world_t *world, void *self) {
  const int wrong = *(const int *)self;
  const int32_t rank = shoal_world_rank(world);
  shoal_shape_t shape = {2, {4, 6}};
  shoal_mesh_t mesh = {.axis_count = 1, .axes = {{.name = "a", .size = 2}}};
  shoal_layout_t cut = {.mesh = &mesh, .cut_count = 1, .cuts = {{.axis = 0, .dim = 0}}};
  if (wrong == 3 && rank == 1) shape = (shoal_shape_t){2, {6, 4}};  // another plan, as many bytes
  shoal_primitive_t *p = NULL;
  double x[24] = {0}, y[24];
  SHOAL_RETURN_IF_ERROR(
      wrong < 5 ? shoal_primitive_all_to_all(world, SHOAL_F64, &shape, &cut, "a", 1, NULL, &p)
                : shoal_primitive_all_gather(world, SHOAL_F64, &shape, &cut, "a", NULL, &p));
  shoal_status_t status = NULL;
  if (wrong == 0 && rank == 1) status = shoal_primitive_apply(p, NULL, y);
  if (wrong == 1 && rank == 1) status = shoal_primitive_apply(p, x, x);
  if (wrong == 2 && rank == 1) {
    status = shoal_primitive_start(p, x, y);
    if (!status) status = shoal_primitive_start(p, x, y);
  }
  if (wrong >= 4 && rank == 1) status = shoal_primitive_apply_adjoint(p, y, x);
  if (!status) status = shoal_primitive_apply(p, x, y);
  for (int i = 0; i < 100 && !status; ++i) status = shoal_primitive_apply(p, x, y);
  shoal_primitive_free(p);
  return status;
}

static void test_refusals(void **state) {
  (void)state;
  run_threads(NULL, 2, refusals, NULL);
  run_threads(NULL, 2, no_adjoint, NULL);
  static const char *const expected[] = {
      "is given no buffer", "is given one buffer", "that is under way", "expects", "expects",
      "reduce_scatter"};
  for (int i = 0; i < COUNT(expected); ++i) {
    shoal_status_t statuses[2];
    run_threads_statuses(NULL, 2, wrong_call, &i, statuses);
    for (int k = 0; k < 2; ++k) {
      if (!statuses[k] || !strstr(shoal_status_message(statuses[k]), expected[i])) {
        fail_msg("wrong call %d, rank %d: '%s'", i, k, shoal_status_message(statuses[k]));
      }
      shoal_status_free(statuses[k]);
    }
  }
}

// ---- memory ---------------------------------------------------------------------------

static shoal_failing_t counting;

static shoal_status_t steady(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t n = shoal_world_size(world);
  const shoal_shape_t shape = {2, {13, 10}};
  shoal_mesh_t mesh = {.axis_count = 1, .axes = {{.name = "a", .size = n}}};
  shoal_layout_t rows = {.mesh = &mesh, .cut_count = 1, .cuts = {{.axis = 0, .dim = 0}}};
  shoal_layout_t all = {.mesh = &mesh};
  shoal_primitive_t *p[3] = {0};
  shoal_status_t status =
      shoal_primitive_all_to_all(world, SHOAL_BF16, &shape, &rows, "a", 1, NULL, &p[0]);
  if (!status)
    status = shoal_primitive_all_sum_reduce(world, SHOAL_F16, &shape, &all, "a", NULL, &p[1]);
  const shoal_stencil_t stencils[2] = {{.kernel = 5, .before = 2, .after = 2}, {0}};
  if (!status)
    status = shoal_primitive_halo(world, SHOAL_F32, &shape, &rows, stencils, NULL, &p[2]);
  float x[260] = {0}, y[260];
  for (int round = 0; round < 5 && !status; ++round) {
    const int64_t before = counting.calls;
    for (int i = 0; i < 3 && !status; ++i) {
      status = shoal_primitive_apply(p[i], x, y);
      if (!status) status = shoal_primitive_apply_adjoint(p[i], y, x);
    }
    // The first rounds may warm up the backend, and other ranks' memory is counted too.
    shoal_status_t together = shoal_world_agree(world, NULL);
    if (!status) status = together;
    if (!status && round > 2 && counting.calls != before)
      status = SHOAL_ERROR(INTERNAL, "allocates");
    if (!status) status = shoal_world_agree(world, NULL);
  }
  for (int i = 0; i < 3; ++i) shoal_primitive_free(p[i]);
  return status;
}

static void test_allocates_nothing(void **state) {
  (void)state;
  counting = (shoal_failing_t){0};
  const shoal_world_options_t options = {.allocator = shoal_allocator_failing(&counting)};
  run_threads(&options, 1, steady, NULL);
  run_threads(&options, 4, steady, NULL);
  assert_int_equal(counting.live_blocks, 0);
}

// Creating ends in OUT_OF_MEMORY, or in success, and nothing leaks, whichever allocation fails.
static shoal_status_t short_of_memory(shoal_world_t *world, void *self) {
  (void)self;
  const shoal_shape_t shape = {2, {13, 10}};
  shoal_mesh_t mesh = {.axis_count = 1, .axes = {{.name = "a", .size = 1}}};
  shoal_layout_t rows = {.mesh = &mesh, .cut_count = 1, .cuts = {{.axis = 0, .dim = 0}}};
  const shoal_stencil_t stencils[2] = {{.kernel = 3}, {.kernel = 2, .stride = 2}};
  for (int kind = 0; kind < 3; ++kind) {
    for (int64_t at = 1;; ++at) {
      shoal_failing_t failing = {.fail_at = at};
      const shoal_primitive_options_t options = {.allocator = shoal_allocator_failing(&failing)};
      shoal_primitive_t *p = NULL;
      shoal_status_t status =
          kind == 0 ? shoal_primitive_all_gather(world, SHOAL_F64, &shape, &rows, "a", &options, &p)
          : kind == 1
              ? shoal_primitive_halo(world, SHOAL_BF16, &shape, &rows, stencils, &options, &p)
              : shoal_primitive_broadcast(world, SHOAL_F64, &shape,
                                          &(shoal_layout_t){.mesh = &mesh}, "a", &options, &p);
      const shoal_code_t code = shoal_status_code(status);
      shoal_status_free(status);
      shoal_primitive_free(p);
      CHECK(failing.live_blocks == 0, "%lld blocks leak", (long long)failing.live_blocks);
      CHECK(code == SHOAL_OK || code == SHOAL_OUT_OF_MEMORY, "ends with %s", shoal_code_name(code));
      if (code == SHOAL_OK && failing.calls < at) break;
      CHECK(code == SHOAL_OUT_OF_MEMORY, "allocation %lld fails unseen", (long long)at);
    }
  }
  return NULL;
}

static void test_short_of_memory(void **state) {
  (void)state;
  run_threads(&(shoal_world_options_t){.backend = "self"}, 1, short_of_memory, NULL);
}

// What a plan moves is its budget: an all-to-all of 6 rows and columns over 3 ranks.
static shoal_status_t budget(shoal_world_t *world, void *self) {
  (void)self;
  const shoal_shape_t shape = {2, {6, 6}};
  shoal_mesh_t mesh = {.axis_count = 1, .axes = {{.name = "a", .size = 3}}};
  shoal_layout_t rows = {.mesh = &mesh, .cut_count = 1, .cuts = {{.axis = 0, .dim = 0}}};
  shoal_primitive_t *p = NULL;
  SHOAL_RETURN_IF_ERROR(
      shoal_primitive_all_to_all(world, SHOAL_F32, &shape, &rows, "a", 1, NULL, &p));
  const shoal_primitive_stats_t stats = shoal_primitive_stats(p);
  shoal_primitive_free(p);
  const bool active = shoal_world_rank(world) < 3;
  CHECK(stats.send_count == 2 * active && stats.recv_count == 2 * active &&
            stats.send_bytes == 32 * active && stats.recv_bytes == 32 * active &&
            stats.local_bytes == 16 * active,
        "%d messages of %lld bytes, %lld local", stats.send_count, (long long)stats.send_bytes,
        (long long)stats.local_bytes);
  // Rows are dense in the destination: only one side of each direction is staged, in 64 bytes each.
  CHECK(stats.staging_bytes == (active ? 128 : 0), "staging %lld", (long long)stats.staging_bytes);
  return NULL;
}

static void test_budget(void **state) {
  (void)state;
  run_threads(NULL, 4, budget, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refresh),         cmocka_unit_test(test_types),
      cmocka_unit_test(test_fixed_order),     cmocka_unit_test(test_collectives),
      cmocka_unit_test(test_in_flight),       cmocka_unit_test(test_free_early),
      cmocka_unit_test(test_refusals),        cmocka_unit_test(test_allocates_nothing),
      cmocka_unit_test(test_short_of_memory), cmocka_unit_test(test_budget),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

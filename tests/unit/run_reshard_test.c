// Every kind of reshard, executed: feeds a value in one layout, reshards it, taps it in the other,
// and compares with what the layouts mean. Each rank has data of its own.
// links: run launch
#include "base/dtype.h"
#include "program/bind.h"
#include "run/run.h"
#include "run_support.h"

typedef struct reshard_case {
  const char *meshes[3];
  int32_t world;
  const char *src, *dst;
} reshard_case_t;

static const reshard_case_t cases[] = {
    {{"data=2"}, 2, "", "data:0"},
    {{"data=2"}, 2, "data:0", ""},
    {{"data=2"}, 2, "data:0", "data:1"},
    {{"data=2"}, 2, "data:0", "data:0"},
    {{"data=2"}, 2, "data:partial(sum)", ""},
    {{"data=2"}, 2, "data:partial(max)", ""},
    {{"data=2"}, 2, "data:partial(min)", "data:1"},
    {{"data=3"}, 3, "data:partial(sum)", "data:0"},
    {{"data=3"}, 3, "data:partial(sum)", "data:flat"},
    {{"data=2"}, 2, "", "data:partial(sum)"},
    {{"data=2"}, 2, "data:0", "data:partial(max)"},
    {{"data=3"}, 3, "data:0", "data:0+1+1"},
    {{"data=3"}, 3, "data:0+1+1", "data:1+0+2"},
    {{"data=2"}, 2, "data:flat", ""},
    {{"data=4"}, 4, "data:0", "data:flat"},
    {{"data=4"}, 4, "data:flat", "data:1/2"},
    {{"data=2"}, 2, "data:1*3", "data:1"},
    {{"data=2"}, 2, "data:0(3,1)", "data:1*(4,2)"},
    {{"data=5"}, 5, "data:0/4", ""},
    {{"data=2,tensor=2"}, 4, "data:0,tensor:1", "tensor:0,data:1"},
    {{"data=2,tensor=2"}, 4, "tensor:0,data:0", "data:0,tensor:0"},
    {{"data=2,tensor=2"}, 4, "tensor:0,data:partial(sum)", "data:0"},
    {{"data=2,tensor=2"}, 4, "tensor:partial(sum),data:partial(sum)", ""},
    {{"data=2,tensor=2"}, 4, "data:0,tensor:partial(sum)", "data:0"},
    {{"data=2,tensor=2"}, 4, "data:partial(sum)", "data:partial(sum),tensor:1"},
    {{"data=2,tensor=3"}, 6, "tensor:1,data:flat", "data:0"},
    {{"a!data=2@0-1", "b!data=3@2-4"}, 5, "a!data:0", "b!data:0"},
    {{"a!data=2@0-1", "b!data=3@2-4"}, 5, "a!data:partial(sum)", "b!data:1"},
    {{"a!data=2@0-1", "b!data=3@2-4"}, 5, "b!data:flat", "a!"},
    {{"a!data=2@0-1", "b!data=3@1-3"}, 4, "a!data:0", "b!data:1"},
    {{"a!data=2@2,0", "b!data=2@0-1"}, 3, "a!data:0", "b!data:0"},
};

// Up to three partial axes are told apart by the linear coordinate along them.
static int64_t partial_coordinate(const shoal_layout_t *layout, const int64_t *coords) {
  int64_t linear = 0;
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    if (layout->cuts[i].kind != SHOAL_CUT_PARTIAL) continue;
    linear = linear * layout->mesh->axes[layout->cuts[i].axis].size + coords[layout->cuts[i].axis];
  }
  return linear;
}

static double value_at(int64_t global, int64_t coordinate) {
  return (double)(global % 13 + 1 + 16 * coordinate);
}

static const shoal_cut_t *partial_cut(const shoal_layout_t *layout, const char *axis) {
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    if (cut->kind == SHOAL_CUT_PARTIAL && strcmp(layout->mesh->axes[cut->axis].name, axis) == 0)
      return cut;
  }
  return NULL;
}

static double joined(shoal_reduce_t reduce, double a, double b) {
  return reduce == SHOAL_REDUCE_SUM   ? a + b
         : reduce == SHOAL_REDUCE_MAX ? (a > b ? a : b)
                                      : (a < b ? a : b);
}

// What the destination at `coords` must hold at `global`; *out_identity: the identity of
// `*out_reduce`.
static double expected(const shoal_layout_t *src, const shoal_layout_t *dst, const int64_t *coords,
                       int64_t global, bool *out_identity, shoal_reduce_t *out_reduce) {
  *out_identity = false;
  for (int32_t i = 0; i < dst->cut_count; ++i) {
    const shoal_cut_t *cut = &dst->cuts[i];
    if (cut->kind != SHOAL_CUT_PARTIAL || partial_cut(src, dst->mesh->axes[cut->axis].name))
      continue;
    if (coords[cut->axis] != 0) {
      *out_identity = true;
      *out_reduce = cut->reduce;
    }
  }
  double result = 0;
  bool first = true;
  int64_t source[SHOAL_MAX_AXES];
  for (int64_t p = 0; p < shoal_mesh_size(src->mesh); ++p) {
    shoal_mesh_coords(src->mesh, p, source);
    bool counts = true;
    shoal_reduce_t reduce = SHOAL_REDUCE_SUM;
    for (int32_t a = 0; a < src->mesh->axis_count; ++a) {
      const shoal_cut_t *cut = partial_cut(src, src->mesh->axes[a].name);
      int32_t twin = shoal_mesh_axis(dst->mesh, src->mesh->axes[a].name);
      if (!cut)
        counts = counts && source[a] == 0;
      else if (twin >= 0 && partial_cut(dst, src->mesh->axes[a].name))
        counts = counts && source[a] == coords[twin];
      else
        reduce = cut->reduce;
    }
    if (!counts) continue;
    double value = value_at(global, partial_coordinate(src, source));
    result = first ? value : joined(reduce, result, value);
    first = false;
  }
  return result;
}

typedef struct test {
  const shoal_program_t *program;
  shoal_layout_t src, dst;
  shoal_type_t type;
  bool blind, opaque;
  double (*value)(int64_t global, int64_t coordinate);  // NULL: value_at, and compare
  struct {
    char data[4096];
    int64_t bytes;
    int taps;
  } got[MOST_RANKS];
} test_t;

static void tap(void *self, int32_t rank, const char *graph, const char *value,
                const shoal_layout_t *layout, const shoal_type_t *whole, int64_t micro,
                const void *data, int64_t bytes) {
  (void)layout;
  (void)whole;
  test_t *test = self;
  if (strcmp(value, "y") != 0 || strcmp(graph, "t") != 0 || micro != -1) return;
  memcpy(test->got[rank].data, data, (size_t)bytes);
  test->got[rank].bytes = bytes;
  ++test->got[rank].taps;
}

static shoal_status_t feed_part(const test_t *test, shoal_runner_t *runner, int32_t rank,
                                shoal_arena_t *arena) {
  char data[4096];
  const int64_t position = shoal_mesh_position(test->src.mesh, rank);
  int64_t count = 0;
  if (position >= 0) {
    shoal_boxes_t boxes;
    shoal_place_t place;
    int64_t coords[SHOAL_MAX_AXES];
    SHOAL_RETURN_IF_ERROR(
        shoal_layout_boxes(&test->src, &test->type.shape, position, -1, arena, &boxes));
    SHOAL_RETURN_IF_ERROR(shoal_boxes_place(&boxes, arena, &place));
    shoal_mesh_coords(test->src.mesh, position, coords);
    const shoal_shape_t shape = shoal_boxes_shape(&boxes);
    count = shoal_shape_count(&shape);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t coordinate = partial_coordinate(&test->src, coords);
      const int64_t global = shoal_place_global(&place, i);
      shoal_dtype_store(
          test->type.dtype, data, i,
          test->value ? test->value(global, coordinate) : value_at(global, coordinate));
    }
  }
  return shoal_runner_feed_part(runner, "x", data,
                                (size_t)count * shoal_dtype_size(test->type.dtype));
}

static shoal_status_t rank_body(void *self, shoal_world_t *world) {
  test_t *test = self;
  shoal_device_t *device = NULL;
  shoal_runner_t *runner = NULL;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  SHOAL_RETURN_IF_ERROR(shoal_device_create(
      &(shoal_device_options_t){.opaque = test->opaque, .blind = test->blind}, &device));
  shoal_status_t status =
      shoal_runner_create(test->program, world, device,
                          &(shoal_runner_options_t){.tap = tap, .tap_self = test}, &runner);
  if (!status) status = feed_part(test, runner, shoal_world_rank(world), &arena);
  if (!status) status = shoal_runner_run(runner, "t");
  if (!status) status = shoal_runner_run(runner, "t");  // again, over what the first one left
  shoal_runner_free(runner);
  shoal_device_free(device);
  shoal_arena_deinit(&arena);
  return status;
}

// ---- the program ----------------------------------------------------------------------

static int64_t part_bytes(const shoal_layout_t *layout, const shoal_type_t *type,
                          shoal_arena_t *arena) {
  int64_t most = 64;
  for (int64_t p = 0; p < shoal_mesh_size(layout->mesh); ++p) {
    shoal_boxes_t boxes;
    assert_ok(shoal_layout_boxes(layout, &type->shape, p, -1, arena, &boxes));
    const shoal_shape_t shape = shoal_boxes_shape(&boxes);
    const int64_t bytes = shoal_shape_count(&shape) * (int64_t)shoal_dtype_size(type->dtype);
    if (bytes > most) most = (bytes + 63) / 64 * 64;
  }
  return most;
}

static shoal_program_t *make_program(const reshard_case_t *c, shoal_registry_t *registry,
                                     shoal_arena_t *arena, shoal_mesh_t *meshes, test_t *test) {
  char text[4096], type[64], shape[48];
  int64_t mesh_count = 0;
  int length = snprintf(text, sizeof text, "shoal_program 1\nworld %d\nmicro 1\n", c->world);
  for (; mesh_count < 3 && c->meshes[mesh_count]; ++mesh_count) {
    assert_ok(shoal_mesh_parse(c->meshes[mesh_count], arena, &meshes[mesh_count]));
    length +=
        snprintf(text + length, sizeof text - (size_t)length, "mesh %s\n", c->meshes[mesh_count]);
  }
  assert_ok(shoal_layout_parse(c->src, meshes, mesh_count, arena, &test->src));
  assert_ok(shoal_layout_parse(c->dst, meshes, mesh_count, arena, &test->dst));
  shoal_channel_t channel = {.type = test->type, .src = &test->src, .dst = &test->dst};
  int64_t workspace;
  assert_ok(shoal_channel_workspace(&channel, 1, NULL, arena, &workspace));
  if (workspace == 0) workspace = 64;
  const int64_t from = part_bytes(&test->src, &test->type, arena);
  const int64_t to = part_bytes(&test->dst, &test->type, arena);
  shoal_shape_format(&test->type.shape, shape, sizeof shape);
  snprintf(type, sizeof type, "%s%s", shoal_dtype_name(test->type.dtype), shape);
  snprintf(text + length, sizeof text - (size_t)length,
           "input t x %s\n"
           "channel 0 %s \"%s\" -> \"%s\"\n"
           "class 0 ranks 0-%d arena %lld\n"
           "  buffer 0 input \"x\" %s \"%s\" bytes %lld offset 0\n"
           "  buffer 1 temp \"y\" %s \"%s\" bytes %lld offset %lld\n"
           "  segment 0 s\n"
           "    0 copy feed -> (0) \"x\"\n"
           "    1 comm reshard (0) -> (1) channel 0 \"y\" workspace %lld@%lld wait 0\n"
           "  order t 0[0<1.1]\n",
           type, type, c->src, c->dst, c->world - 1, (long long)(from + to + workspace), type,
           c->src, (long long)from, type, c->dst, (long long)to, (long long)from,
           (long long)workspace, (long long)(from + to));
  return parse_program(text, registry);
}

static void compare(const reshard_case_t *c, const test_t *test, int32_t rank,
                    shoal_arena_t *arena) {
  const int64_t position = shoal_mesh_position(test->dst.mesh, rank);
  if (position < 0) {
    assert_int_equal(test->got[rank].taps, 0);
    return;
  }
  shoal_boxes_t boxes;
  shoal_place_t place;
  int64_t coords[SHOAL_MAX_AXES];
  assert_ok(shoal_layout_boxes(&test->dst, &test->type.shape, position, -1, arena, &boxes));
  assert_ok(shoal_boxes_place(&boxes, arena, &place));
  shoal_mesh_coords(test->dst.mesh, position, coords);
  const shoal_shape_t shape = shoal_boxes_shape(&boxes);
  const int64_t count = shoal_shape_count(&shape);
  if (count == 0) return;
  assert_int_equal(test->got[rank].bytes, count * (int64_t)shoal_dtype_size(test->type.dtype));
  for (int64_t i = 0; i < count; ++i) {
    bool identity;
    shoal_reduce_t reduce = SHOAL_REDUCE_SUM;
    double want =
        expected(&test->src, &test->dst, coords, shoal_place_global(&place, i), &identity, &reduce);
    const double got = shoal_dtype_load(test->type.dtype, test->got[rank].data, i);
    // the identity of max is minus infinity, or the least integer: below everything there is
    const bool right = !identity                    ? got == want
                       : reduce == SHOAL_REDUCE_SUM ? got == 0
                                                    : got < -1000;
    if (!right) {
      fail_msg("%s -> %s, %s, rank %d, element %lld: %g, not %g", c->src, c->dst,
               shoal_dtype_name(test->type.dtype), rank, (long long)i, got, identity ? 0 : want);
    }
  }
}

// Each case also on a device whose memory the host cannot see.
static void check_on(const reshard_case_t *c, shoal_type_t type, bool opaque, bool blind) {
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_registry_t *registry = test_registry();
  shoal_mesh_t meshes[3];
  test_t test = {.type = type, .opaque = opaque, .blind = blind};
  shoal_program_t *program = make_program(c, registry, &arena, meshes, &test);
  test.program = program;
  run_ranks_ok(c->world, rank_body, &test);
  for (int32_t r = 0; r < c->world; ++r) compare(c, &test, r, &arena);
  shoal_program_free(program);
  shoal_registry_release(registry);
  shoal_arena_deinit(&arena);
}

static void check_case(const reshard_case_t *c, shoal_type_t type, bool opaque) {
  check_on(c, type, opaque, false);
  check_on(c, type, true, true);
}

static void test_kinds(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    check_case(&cases[i], (shoal_type_t){SHOAL_F32, {2, {7, 6}}}, i % 2);
  }
}

// Pieces that are dense in neither buffer, several dims deep.
static void test_many_dims(void **state) {
  (void)state;
  static const reshard_case_t deep[] = {
      {{"data=2,tensor=2"}, 4, "data:1,tensor:2", "tensor:1,data:3"},
      {{"data=2,tensor=2"}, 4, "data:1,tensor:3/2", ""},
      {{"data=2,tensor=2"}, 4, "tensor:partial(sum),data:2", "tensor:1,data:3"},
      {{"data=3"}, 3, "data:flat", "data:2"},
      {{"data=3"}, 3, "data:2+1+1", "data:1"},
  };
  for (size_t i = 0; i < sizeof deep / sizeof deep[0]; ++i) {
    check_case(&deep[i], (shoal_type_t){SHOAL_F32, {4, {2, 3, 5, 6}}}, i % 2);
    check_case(&deep[i], (shoal_type_t){SHOAL_F16, {4, {3, 4, 5, 6}}}, i % 2);
  }
}

static void test_dtypes(void **state) {
  (void)state;
  static const shoal_dtype_t dtypes[] = {SHOAL_F64, SHOAL_BF16, SHOAL_F16, SHOAL_I64, SHOAL_I32};
  for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; ++d) {
    for (size_t i = d; i < sizeof cases / sizeof cases[0]; i += 2) {
      check_case(&cases[i], (shoal_type_t){dtypes[d], {2, {5, 6}}}, i % 2 == 0);
    }
  }
}

// 256 + 1 + 1 in bf16: 258 when it is rounded once, 256 when each sum is.
static double uneven_value(int64_t global, int64_t coordinate) {
  (void)global;
  return coordinate == 0 ? 256 : 1;
}

static void test_rounds_once(void **state) {
  (void)state;
  static const reshard_case_t joins[] = {{{"data=3"}, 3, "data:partial(sum)", "data:0"},
                                         {{"data=3"}, 3, "data:partial(sum)", ""}};
  for (int i = 0; i < 4; ++i) {
    shoal_arena_t arena;
    shoal_arena_init(shoal_allocator_system(), &arena);
    shoal_registry_t *registry = test_registry();
    shoal_mesh_t meshes[3];
    test_t test = {.type = {SHOAL_BF16, {1, {6}}}, .value = uneven_value, .blind = i >= 2};
    shoal_program_t *program = make_program(&joins[i % 2], registry, &arena, meshes, &test);
    test.program = program;
    run_ranks_ok(3, rank_body, &test);
    for (int r = 0; r < 3; ++r) {
      assert_true(test.got[r].bytes > 0);
      for (int64_t e = 0; e < test.got[r].bytes / 2; ++e) {
        assert_true(shoal_dtype_load(SHOAL_BF16, test.got[r].data, e) == 258);
      }
    }
    shoal_program_free(program);
    shoal_registry_release(registry);
    shoal_arena_deinit(&arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_kinds),
      cmocka_unit_test(test_many_dims),
      cmocka_unit_test(test_dtypes),
      cmocka_unit_test(test_rounds_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

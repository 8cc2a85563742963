// Binding by role, on parts of every form: sizes and positions count what is held, halos included;
// counts speak of the whole; what cannot be said of a flat part is refused.
#include "base/arena.h"
#include "shoal/op.h"
#include "unit.h"

static const char *const NAMES[] = {"x"};
enum { SIZE_OF_DIM, SIZES, POSITION, POSITIONS, PLACE, COUNT, PLAIN, STARTS, ATTRS };
static const shoal_attr_schema_t SCHEMA[ATTRS] = {
    [SIZE_OF_DIM] = {.name = "size", .kind = SHOAL_ATTR_INT, .role = SHOAL_ROLE_SIZE, .dim = -1},
    [SIZES] = {.name = "sizes",
               .kind = SHOAL_ATTR_INTS,
               .role = SHOAL_ROLE_SIZE,
               .operand = SHOAL_OUTPUT(0)},
    [POSITION] = {.name = "position",
                  .kind = SHOAL_ATTR_INT,
                  .role = SHOAL_ROLE_POSITION,
                  .dim = 1},
    [POSITIONS] = {.name = "positions", .kind = SHOAL_ATTR_INTS, .role = SHOAL_ROLE_POSITION},
    [PLACE] = {.name = "place", .kind = SHOAL_ATTR_PLACE, .role = SHOAL_ROLE_PLACE},
    [COUNT] = {.name = "count", .kind = SHOAL_ATTR_INT, .role = SHOAL_ROLE_COUNT},
    [PLAIN] = {.name = "plain", .kind = SHOAL_ATTR_INT, .role = SHOAL_ROLE_PLAIN},
    [STARTS] = {.name = "starts",
                .kind = SHOAL_ATTR_INTS,
                .role = SHOAL_ROLE_POSITIONS,
                .dim = PLAIN},
};
static const shoal_op_t OP = {.name = "test.roles",
                              .input_count = 1,
                              .inputs = NAMES,
                              .output_count = 1,
                              .outputs = NAMES,
                              .attr_count = ATTRS,
                              .attrs = SCHEMA};

static shoal_boxes_t boxes_of(shoal_arena_t *arena, const char *layout_text, int64_t position) {
  shoal_mesh_t *mesh = SHOAL_NEW(arena, shoal_mesh_t, 1);
  shoal_layout_t layout;
  shoal_boxes_t boxes;
  const shoal_shape_t shape = SHOAL_SHAPE(6, 12);
  assert_ok(shoal_mesh_parse("a=3", arena, mesh));
  assert_ok(shoal_layout_parse(layout_text, mesh, 1, arena, &layout));
  assert_ok(shoal_layout_check(&layout, &shape));
  assert_ok(shoal_layout_boxes(&layout, &shape, position, -1, arena, &boxes));
  return boxes;
}

static const shoal_attr_value_t WHOLE[ATTRS] = {
    [SIZE_OF_DIM] = {.i = 12},
    [SIZES] = {.count = 2, .ints = {6, 12}},
    [POSITION] = {.i = 8},
    [POSITIONS] = {.count = 2, .ints = {3, 7}},
    [COUNT] = {.i = 72},
    [PLAIN] = {.i = -1},
    [STARTS] = {.count = 9, .list = (const int64_t[]){0, 1, 3, 7, 8, 9, 10, 11, 12}},
};

static void test_roles(void **state) {
  (void)state;
  static const struct {
    const char *layout;
    int64_t position;
    int64_t rows, columns;              // held
    int64_t before3, before7, before8;  // rows before 3; columns before 7 and 8
    int64_t first;                      // the whole's column of the part's first one
    bool whole;
  } cases[] = {
      {"", 1, 6, 12, 3, 7, 8, 0, true},
      {"a:1", 0, 6, 4, 3, 4, 4, 0, false},
      {"a:1", 1, 6, 4, 3, 3, 4, 4, false},
      {"a:1", 2, 6, 4, 3, 0, 0, 8, false},
      {"a:0", 1, 2, 12, 1, 7, 8, 0, false},
      {"a:1+1+2", 1, 6, 7, 3, 4, 5, 3, false},
      {"a:1+1+2", 0, 6, 6, 3, 6, 6, 0, false},
      {"a:1*3", 1, 6, 3, 3, 2, 2, 2, false},  // columns 2, 6, 10
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    shoal_arena_t arena;
    shoal_arena_init(shoal_allocator_system(), &arena);
    shoal_boxes_t boxes = boxes_of(&arena, cases[i].layout, cases[i].position);
    shoal_attr_value_t bound[ATTRS];
    assert_ok(shoal_op_bind(&OP, 1, WHOLE, &boxes, &boxes, &arena, bound));
    assert_int_equal(bound[SIZE_OF_DIM].i, cases[i].columns);
    assert_int_equal(bound[SIZES].count, 2);
    assert_int_equal(bound[SIZES].ints[0], cases[i].rows);
    assert_int_equal(bound[SIZES].ints[1], cases[i].columns);
    assert_int_equal(bound[POSITION].i, cases[i].before8);
    assert_int_equal(bound[POSITIONS].ints[0], cases[i].before3);
    assert_int_equal(bound[POSITIONS].ints[1], cases[i].before7);
    assert_int_equal(bound[COUNT].i, 72);
    assert_int_equal(bound[PLAIN].i, -1);
    const int64_t *starts = shoal_attr_list(&bound[STARTS]);  // along the dim that PLAIN names
    assert_int_equal(bound[STARTS].count, 9);
    assert_int_equal(starts[0], 0);
    assert_int_equal(starts[3], cases[i].before7);
    assert_int_equal(starts[4], cases[i].before8);
    assert_int_equal(starts[8], cases[i].columns);
    assert_int_equal(bound[PLACE].place == NULL, cases[i].whole);
    if (bound[PLACE].place) {
      assert_int_equal(bound[PLACE].place->part.dims[1], cases[i].columns);
      assert_int_equal(shoal_place_global(bound[PLACE].place, 0) % 12, cases[i].first);
    }
    shoal_arena_deinit(&arena);
  }
}

static void test_flat(void **state) {
  (void)state;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_boxes_t flat = boxes_of(&arena, "a:flat", 1), whole = boxes_of(&arena, "", 1);
  shoal_attr_value_t bound[ATTRS];
  assert_error(UNSUPPORTED, "'size' counts along dims",
               shoal_op_bind(&OP, 1, WHOLE, &flat, &whole, &arena, bound));
  shoal_op_t op = OP;
  op.attr_count = 2;  // the sizes of the output alone can be said: it is a list
  assert_ok(shoal_op_bind(&op, 1, WHOLE, &whole, &flat, &arena, bound));
  assert_int_equal(bound[SIZES].count, 1);
  assert_int_equal(bound[SIZES].ints[0], 24);
  op.attrs = &SCHEMA[POSITION];
  assert_error(UNSUPPORTED, "'position' counts along dims",
               shoal_op_bind(&op, 1, &WHOLE[POSITION], &flat, &whole, &arena, bound));
  op.attrs = &SCHEMA[PLACE];
  op.attr_count = 1;
  assert_ok(shoal_op_bind(&op, 1, &WHOLE[PLACE], &flat, &whole, &arena, bound));
  assert_int_equal(shoal_place_global(bound[0].place, 0), 24);
  shoal_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_roles), cmocka_unit_test(test_flat)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Meshes and layouts: text, coordinates, comparison, every refusal, the numbers of the paper walks,
// and memory that runs short.
#include "layout/cells.h"
#include "layout/layout_impl.h"
#include "layout/motion.h"
#include "unit/arena.h"
#include "unit/failing.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static const shoal_mesh_t *mesh_of(const char *text) {
  shoal_mesh_t *mesh = SHOAL_NEW(&arena, shoal_mesh_t, 1);
  assert_ok(shoal_mesh_parse(text, &arena, mesh));
  return mesh;
}

static shoal_layout_t layout_of(const char *mesh, const char *text) {
  shoal_layout_t layout;
  assert_ok(shoal_layout_parse(text, mesh_of(mesh), 1, &arena, &layout));
  return layout;
}

// ---- meshes ----------------------------------------------------------------------------

static void meshes_round_trip(void **state) {
  (void)state;
  static const char *const texts[] = {
      "",
      "data=4",
      "data=4,tensor=2",
      "b!data=3@2-4",
      "a!",
      "@3",
      "data=2,micro=3",
      "micro=2",
      "x!p=2,q=2,micro=4@7,3,0-1",
      "a=1,b=1",
      "a1=2,b_=2,C=1,d=1,e=1,f=1,g=1,h=1",
  };
  for (int i = 0; i < COUNT(texts); ++i) {
    const shoal_mesh_t *mesh = mesh_of(texts[i]);
    const char *printed;
    assert_ok(shoal_mesh_print(mesh, &arena, &printed));
    assert_string_equal(printed, texts[i]);
    assert_true(shoal_mesh_equal(mesh, mesh_of(printed)));
  }
  const char *printed;
  assert_ok(shoal_mesh_print(mesh_of(" micro=3 , data = 2 @ 1, 0"), &arena, &printed));
  assert_string_equal(printed, "data=2,micro=3@1,0");
}

static void meshes_have_coordinates(void **state) {
  (void)state;
  const shoal_mesh_t *mesh = mesh_of("x!data=2,tensor=3,micro=4@9,8,7,0,1,2");
  assert_int_equal(shoal_mesh_size(mesh), 6);
  assert_int_equal(shoal_mesh_axis(mesh, "tensor"), 1);
  assert_int_equal(shoal_mesh_axis(mesh, "micro"), -1);
  assert_int_equal(shoal_mesh_rank(mesh, 2), 7);
  assert_int_equal(shoal_mesh_position(mesh, 1), 4);
  assert_int_equal(shoal_mesh_position(mesh, 3), -1);
  assert_int_equal(shoal_mesh_position(mesh_of("a=3"), 3), -1);
  assert_int_equal(shoal_mesh_position(mesh_of("a=3"), 2), 2);
  for (int64_t p = 0; p < 6; ++p) {
    int64_t coords[SHOAL_MAX_AXES];
    shoal_mesh_coords(mesh, p, coords);
    assert_int_equal(coords[0], p / 3);
    assert_int_equal(coords[1], p % 3);
    assert_int_equal(coords[2], 0);
    assert_int_equal(shoal_mesh_at(mesh, coords), p);
  }
  assert_int_equal(shoal_mesh_size(mesh_of("")), 1);
}

// Lists with and without gaps, ascending or not, sorted or not: found, and compared with a search
// one by one.
static void meshes_find_ranks(void **state) {
  (void)state;
  static const char *const texts[] = {
      "a=4",        "a=4@4-7",         "a=4@2-5",   "a=4@3,2,1,0", "a=3@7,1,4",
      "a=3@9,8,11", "a=2@100,200",     "a=2@0,300", "a=1@5",       "a=1@8",
      "",           "a=2,b=2@2,3,0,1", "a=2@8,9",   "a=2@10,12",   "a=2,b=2@4-5,8-9"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    const shoal_mesh_t *mesh = mesh_of(texts[i]);
    shoal_mesh_t copy, bare = *mesh;
    bare.order = NULL;
    assert_ok(shoal_mesh_copy(mesh, &arena, &copy));
    assert_true(!mesh->ranks || (copy.ranks != mesh->ranks && copy.order != mesh->order));
    for (int32_t rank = -2; rank < 310; ++rank) {
      int64_t expected = -1;
      for (int64_t p = 0; p < shoal_mesh_size(mesh); ++p) {
        if (shoal_mesh_rank(mesh, p) == rank) expected = p;
      }
      assert_int_equal(shoal_mesh_position(mesh, rank), expected);
      assert_int_equal(shoal_mesh_position(&copy, rank), expected);
      assert_int_equal(shoal_mesh_position(&bare, rank), expected);
    }
    for (size_t j = 0; j < sizeof texts / sizeof *texts; ++j) {
      const shoal_mesh_t *other = mesh_of(texts[j]);
      bool shared = false;
      for (int64_t p = 0; p < shoal_mesh_size(mesh); ++p) {
        shared |= shoal_mesh_position(other, shoal_mesh_rank(mesh, p)) >= 0;
      }
      assert_int_equal(shoal_mesh_overlap(mesh, other), shared);
      assert_int_equal(shoal_mesh_overlap(&bare, other), shared);
      assert_int_equal(shoal_mesh_overlap(other, &bare), shared);
    }
  }
}

static void meshes_compare(void **state) {
  (void)state;
  assert_true(shoal_mesh_equal(mesh_of("a!data=3"), mesh_of("b!data=3@0-2")));
  assert_true(shoal_mesh_equal(mesh_of("data=3,micro=1"), mesh_of("data=3")));
  assert_false(shoal_mesh_equal(mesh_of("data=3"), mesh_of("data=3@1-3")));
  assert_false(shoal_mesh_equal(mesh_of("data=3"), mesh_of("tensor=3")));
  assert_false(shoal_mesh_equal(mesh_of("data=3"), mesh_of("data=3,micro=2")));
  assert_false(shoal_mesh_equal(mesh_of("data=6"), mesh_of("data=3,b=2")));
  assert_false(shoal_mesh_equal(mesh_of("data=2,b=3"), mesh_of("data=3,b=2")));
}

static void meshes_refuse(void **state) {
  (void)state;
  shoal_mesh_t m;
  assert_error(INVALID_ARGUMENT, "expected axis=size at 'data'",
               shoal_mesh_parse("data", &arena, &m));
  assert_error(INVALID_ARGUMENT, "expected axis=size at ''",
               shoal_mesh_parse("data=2,", &arena, &m));
  assert_error(INVALID_ARGUMENT, "axis 'data' has size 0", shoal_mesh_parse("data=0", &arena, &m));
  assert_error(INVALID_ARGUMENT, "axis 'micro' has size 0",
               shoal_mesh_parse("micro=0", &arena, &m));
  assert_error(INVALID_ARGUMENT, "axis 'a' is there twice",
               shoal_mesh_parse("a=2,a=2", &arena, &m));
  assert_error(INVALID_ARGUMENT, "axis 'micro' is there twice",
               shoal_mesh_parse("micro=2,a=2,micro=2", &arena, &m));
  assert_error(UNSUPPORTED, "more than 8 axes",
               shoal_mesh_parse("a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1", &arena, &m));
  assert_error(UNSUPPORTED, "ranks", shoal_mesh_parse("a=65536,b=65536", &arena, &m));
  assert_error(INVALID_ARGUMENT, "2 ranks are listed, the axes make 3",
               shoal_mesh_parse("a=3@0,1", &arena, &m));
  assert_error(INVALID_ARGUMENT, "4 ranks are listed", shoal_mesh_parse("a=3@0-3", &arena, &m));
  assert_error(INVALID_ARGUMENT, "rank 1 is listed twice",
               shoal_mesh_parse("a=3@1,0-1", &arena, &m));
  assert_error(INVALID_ARGUMENT, "ranks 3-1 are no range", shoal_mesh_parse("a=3@3-1", &arena, &m));
  assert_error(INVALID_ARGUMENT, "expected a rank at ''", shoal_mesh_parse("a=1@", &arena, &m));
  assert_error(INVALID_ARGUMENT, "cannot read '&'", shoal_mesh_parse("a=1&", &arena, &m));
  assert_error(INVALID_ARGUMENT, "before '!'", shoal_mesh_parse("1!a=1", &arena, &m));
  assert_error(INVALID_ARGUMENT, "expected axis=size",
               shoal_mesh_parse("a_name_of_more_than_31_letters_xx=1", &arena, &m));
}

// ---- layouts: text ---------------------------------------------------------------------

static void layouts_round_trip(void **state) {
  (void)state;
  static const char *const pairs[][2] = {
      {"", ""},
      {" replicated ", ""},
      {" data : 0 , tensor : 1 ", "data:0,tensor:1"},
      {"tensor:1*3/64", "tensor:1*3/64"},
      {"tensor:1/1", "tensor:1"},
      {"tensor:1*(2048/256,512/64,512)/2", "tensor:1*(2048/256,512/64,512)/2"},
      {"tensor:0#8+0+2", "tensor:0#8+0+2"},
      {"tensor:0/2#0(3,1)-1+0", "tensor:0/2#0(3,1)-1+0"},
      {"tensor:0+0+0", "tensor:0"},
      {"data:0,tensor:flat/16(0,1)", "data:0,tensor:flat/16(0,1)"},
      {"tensor:partial(lse),micro:partial(sum),data:partial(prod)",
       "tensor:partial(lse),micro:partial(sum),data:partial(prod)"},
      {"micro:0,data:0", "micro:0,data:0"},
  };
  for (int i = 0; i < COUNT(pairs); ++i) {
    const char *printed;
    shoal_layout_t layout = layout_of("data=4,tensor=2,micro=2", pairs[i][0]);
    assert_ok(shoal_layout_print(&layout, &arena, &printed));
    assert_string_equal(printed, pairs[i][1]);
    shoal_layout_t again = layout_of("data=4,tensor=2,micro=2", printed);
    assert_true(shoal_layout_equal(&layout, &again));
  }
}

static void layouts_find_their_mesh(void **state) {
  (void)state;
  shoal_mesh_t meshes[3];
  assert_ok(shoal_mesh_parse("first!data=2", &arena, &meshes[0]));
  assert_ok(shoal_mesh_parse("second!data=3@2-4", &arena, &meshes[1]));
  assert_ok(shoal_mesh_parse("third!tensor=3", &arena, &meshes[2]));
  shoal_layout_t layout;
  const char *printed;
  assert_ok(shoal_layout_parse("data:0", meshes, 3, &arena, &layout));
  assert_ptr_equal(layout.mesh, &meshes[0]);
  assert_ok(shoal_layout_parse("second!", meshes, 3, &arena, &layout));
  assert_ptr_equal(layout.mesh, &meshes[1]);
  assert_ok(shoal_layout_parse("second!replicated", meshes, 3, &arena, &layout));
  assert_ptr_equal(layout.mesh, &meshes[1]);
  assert_int_equal(layout.cut_count, 0);
  assert_ok(shoal_layout_parse("third!tensor:1/2", meshes, 3, &arena, &layout));
  assert_ok(shoal_layout_print(&layout, &arena, &printed));
  assert_string_equal(printed, "third!tensor:1/2");
  assert_error(NOT_FOUND, "there is no mesh 'secnd'",
               shoal_layout_parse("secnd!data:0", meshes, 3, &arena, &layout));
  assert_error(NOT_FOUND, "did you mean 'second'?",
               shoal_layout_parse("secnd!data:0", meshes, 3, &arena, &layout));
  assert_error(NOT_FOUND, "mesh third has no axis 'data'",
               shoal_layout_parse("third!data:0", meshes, 3, &arena, &layout));
}

static void layouts_compare(void **state) {
  (void)state;
  static const struct {
    const char *a, *b;
    bool equal;
  } cases[] = {
      {"data:0", "data:0/1", true},
      {"data:0", "data:1", false},
      {"data:0", "data:0/2", false},
      {"data:0,one:1", "data:0", true},
      {"one:flat", "", true},
      {"one:partial(sum)", "", true},
      {"data:0,tensor:0", "tensor:0,data:0", false},
      {"data:0*(2/3,2)/3", "data:0*(2,2/3)/3", true},
      {"data:0*(2/3,2)/3", "data:0*(2,2/2)/3", false},
      {"data:0*2", "data:0*(2,2)", false},
      {"data:0*2", "data:0*3", false},
      {"data:0(1,2)", "data:0(1,2)", true},
      {"data:0(1,2)", "data:0(2,1)", false},
      {"data:0(1,1)", "data:0", false},
      {"data:0#3", "data:0", false},
      {"data:0#3", "data:0#0", false},
      {"data:0+1+0", "data:0+0+1", false},
      {"data:partial(sum)", "data:partial(max)", false},
      {"data:flat", "data:0", false},
      {"data:flat/2", "data:flat", false},
      // an axis of size 1 inside a halo is the innermost cut: it counts
      {"data:0+1+1,one:0", "data:0+1+1", false},
      {"one:0-1+0", "", false},
      {"data:0", "", false},
      {"tensor>1:0", "tensor:0", false},
      {"tensor>1:0", "tensor>2:0", false},
      {"tensor > 2 : 0*2/1", "tensor>2:0*2", true},
      {"tile(0/2):0,data:0", "data:0", false},
      {"tile(0/2):0", "tile(1/2):0", false},
      {"tile(0/2):0", "tile(0/3):0", false},
      {"tile(0/2):0", "tile(0/2):1", false},
      {"tile(0/2):0*2", "tile(0/2):0", false},
      {"tile(1/2):0*2/1,data:0", "tile( 1/2 ):0*2,data:0", true},
  };
  for (int i = 0; i < COUNT(cases); ++i) {
    shoal_layout_t a = layout_of("data=2,tensor=3,one=1", cases[i].a);
    shoal_layout_t b = layout_of("b!data=2,tensor=3,one=1", cases[i].b);
    if (shoal_layout_equal(&a, &b) != cases[i].equal ||
        shoal_layout_equal(&b, &a) != cases[i].equal) {
      fail_msg("'%s' and '%s' should be %s", cases[i].a, cases[i].b,
               cases[i].equal ? "equal" : "unequal");
    }
  }
  shoal_layout_t a = layout_of("data=2", "data:0"), b = layout_of("data=3", "data:0");
  assert_false(shoal_layout_equal(&a, &b));
  a = layout_of("data=2,one=1", "one:partial(sum)");
  assert_false(shoal_layout_is_partial(&a));
  a = layout_of("data=2,one=1", "data:partial(sum)");
  assert_true(shoal_layout_is_partial(&a));
  a = layout_of("data=2,one=1", "data:0");
  assert_false(shoal_layout_is_partial(&a));
}

// ---- layouts: refusals -----------------------------------------------------------------

static void layouts_refuse(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
    shoal_code_t code;
  } cases[] = {
      {"tensro:0", "has no axis 'tensro'", SHOAL_NOT_FOUND},
      {"tensro:0", "did you mean 'tensor'?", SHOAL_NOT_FOUND},
      {"zzz:0", "the mesh has data, tensor", SHOAL_NOT_FOUND},
      {"data", "expected axis:dim at ''", SHOAL_INVALID_ARGUMENT},
      {"data:x", "expected a dim, 'flat' or 'partial(...)' at 'x'", SHOAL_INVALID_ARGUMENT},
      {"data:9", "a dim below 8", SHOAL_INVALID_ARGUMENT},
      {"data:0,", "expected axis:dim at ''", SHOAL_INVALID_ARGUMENT},
      {"data:0 tensor:1", "expected ',' or the end at 'tensor:1'", SHOAL_INVALID_ARGUMENT},
      {"data:0/0", "a unit, at least 1", SHOAL_INVALID_ARGUMENT},
      {"data:0*0", "a number of chunks", SHOAL_INVALID_ARGUMENT},
      {"data:0*(2,0)", "a chunk's length", SHOAL_INVALID_ARGUMENT},
      {"data:0*(2/0)", "a chunk's unit", SHOAL_INVALID_ARGUMENT},
      {"data:0*(2,3", "',' or ')' after a chunk", SHOAL_INVALID_ARGUMENT},
      {"data:0*(1,1,1,1,1,1,1,1,1)", "more than 8 chunk lengths", SHOAL_UNSUPPORTED},
      {"data:0#", "a number of items", SHOAL_INVALID_ARGUMENT},
      {"data:0(1,x)", "expected a weight", SHOAL_INVALID_ARGUMENT},
      {"data:0(1,2", "',' or ')' after a weight", SHOAL_INVALID_ARGUMENT},
      {"data:0(1,2,3)", "axis 'data' has 2 ranks and 3 weights", SHOAL_INVALID_ARGUMENT},
      {"data:0(0,0)", "layout item 'data:0(0,0)': all weights are zero", SHOAL_INVALID_ARGUMENT},
      {"data:0(9223372036854775807,1)", "weight 1 is out of range", SHOAL_INVALID_ARGUMENT},
      {"data:0+1", "the halo's other side", SHOAL_INVALID_ARGUMENT},
      {"data:0/9999999999999999999", "a unit", SHOAL_INVALID_ARGUMENT},
      {"data:0/9000000000000000000", "a number is out of range", SHOAL_INVALID_ARGUMENT},
      {"data:0/4000000000#4000000000", "items times unit", SHOAL_INVALID_ARGUMENT},
      {"data:partial(mean)", "a mean is a sum", SHOAL_INVALID_ARGUMENT},
      {"data:partial", "(sum), (max), (min) or (lse)", SHOAL_INVALID_ARGUMENT},
      {"data:0,data:1", "layout item 'data:1': axis 'data' is used twice", SHOAL_INVALID_ARGUMENT},
      {"data:partial(sum),data:1", "used twice", SHOAL_INVALID_ARGUMENT},
      {"micro:0,micro:1", "axis 'micro' is used twice", SHOAL_INVALID_ARGUMENT},
      {"data:0,micro:0", "write micro first", SHOAL_INVALID_ARGUMENT},
      {"micro:flat", "cannot cut flat", SHOAL_UNSUPPORTED},
      {"data:flat,tensor:0", "write it last", SHOAL_INVALID_ARGUMENT},
      {"data:flat*2", "expected ',' or the end", SHOAL_INVALID_ARGUMENT},
      {"data:0+1+1,tensor:flat", "layout item 'tensor:flat': flat with a halo", SHOAL_UNSUPPORTED},
      {"data:0*2+1+1", "halo with chunks", SHOAL_UNSUPPORTED},
      {"data:0*2,tensor:0+1+1", "layout item 'tensor:0+1+1': halo with chunks", SHOAL_UNSUPPORTED},
      {"data:0+1+1,tensor:0*2", "halo with chunks", SHOAL_UNSUPPORTED},
      {"data:0#2,tensor:0*2#2", "with items cannot have chunks", SHOAL_UNSUPPORTED},
      {"data>0:0", "a turn, at least 1", SHOAL_INVALID_ARGUMENT},
      {"data>2:0", "a turn by 2 among 2 ranks", SHOAL_INVALID_ARGUMENT},
      {"data>1:flat", "flat cuts do not turn", SHOAL_UNSUPPORTED},
      {"micro>1:0", "micro-batches, tiles, halos", SHOAL_UNSUPPORTED},
      {"data>1:0+1+1", "halos and flat cuts do not turn", SHOAL_UNSUPPORTED},
      {"data>1:0,tensor:0+1+1", "halo with a turn", SHOAL_UNSUPPORTED},
      {"data>1:partial(sum)", "flat cuts do not turn", SHOAL_UNSUPPORTED},
      {"tile(2/2):0", "a tile of at least one, counted from 0", SHOAL_INVALID_ARGUMENT},
      {"tile(0/0):0", "a tile of at least one, counted from 0", SHOAL_INVALID_ARGUMENT},
      {"tile(1):0", "'tile(index/count):dim'", SHOAL_INVALID_ARGUMENT},
      {"tile(0/2):0(1,1)", "',' or the end at '(1,1)'", SHOAL_INVALID_ARGUMENT},
      {"data:0,tile(0/2):0", "expected axis:dim", SHOAL_INVALID_ARGUMENT},
      {"tile(0/2):0,data:flat", "a tile with a flat cut", SHOAL_UNSUPPORTED},
      {"tile(0/2):0,micro:0", "micro-batches, items or a halo along dim 0", SHOAL_UNSUPPORTED},
      {"tile(0/2):0,data:0#2", "micro-batches, items or a halo along dim 0", SHOAL_UNSUPPORTED},
      {"tile(0/2):0,data:0+1+1", "micro-batches, items or a halo along dim 0", SHOAL_UNSUPPORTED},
      {"tile(0/2):0,data:0*2", "another cut of dim 0 has chunks", SHOAL_UNSUPPORTED},
  };
  const shoal_mesh_t *mesh = mesh_of("data=2,tensor=3,micro=2");
  for (int i = 0; i < COUNT(cases); ++i) {
    shoal_layout_t layout;
    shoal_status_t status = shoal_layout_parse(cases[i].text, mesh, 1, &arena, &layout);
    if (!status) fail_msg("'%s' was accepted", cases[i].text);
    if (shoal_status_code(status) != cases[i].code ||
        (!strstr(shoal_status_message(status), cases[i].message) &&
         !strstr(shoal_status_hint(status), cases[i].message))) {
      fail_msg("'%s': expected '%s', got %s: %s (%s)", cases[i].text, cases[i].message,
               shoal_code_name(shoal_status_code(status)), shoal_status_message(status),
               shoal_status_hint(status));
    }
    assert_true(shoal_status_hint(status)[0] != 0);
    shoal_status_free(status);
  }
}

static void layouts_check_shapes(void **state) {
  (void)state;
  const char *mesh = "data=2,tensor=3";
  shoal_layout_t layout = layout_of(mesh, "data:2");
  assert_error(INVALID_ARGUMENT, "layout item 'data:2': the value has 2 dims, there is no dim 2",
               shoal_layout_check(&layout, &SHOAL_SHAPE(4, 4)));
  assert_error(INVALID_ARGUMENT, "use a dim from 0 to 1",
               shoal_layout_check(&layout, &SHOAL_SHAPE(4, 4)));
  shoal_shape_t scalar = SHOAL_SCALAR;
  assert_error(INVALID_ARGUMENT, "a scalar has no dims", shoal_layout_check(&layout, &scalar));
  layout = layout_of(mesh, "data:1*3");
  assert_error(INVALID_ARGUMENT, "dim 1 has length 7, which does not divide into 3 chunks",
               shoal_layout_check(&layout, &SHOAL_SHAPE(4, 7)));
  layout = layout_of(mesh, "data:1*(3,5)");
  assert_error(INVALID_ARGUMENT, "the chunks add up to 8, dim 1 has length 7",
               shoal_layout_check(&layout, &SHOAL_SHAPE(4, 7)));
  layout = layout_of(mesh, "data:0");
  assert_error(INVALID_ARGUMENT, "dim 1 of the shape has length -1",
               shoal_layout_check(&layout, &SHOAL_SHAPE(4, -1)));
  assert_error(INVALID_ARGUMENT, "out of range",
               shoal_layout_check(&layout, &SHOAL_SHAPE(INT64_C(1) << 31, INT64_C(1) << 31)));
  shoal_shape_t deep = {.rank = 9};
  assert_error(INVALID_ARGUMENT, "0 to 8 dims", shoal_layout_check(&layout, &deep));
  shoal_boxes_t boxes;
  shoal_shape_t shape = SHOAL_SHAPE(4);
  assert_error(INVALID_ARGUMENT, "position 6 is not on a mesh of 6 ranks",
               shoal_layout_boxes(&layout, &shape, 6, 0, &arena, &boxes));
  assert_error(INVALID_ARGUMENT, "there is no micro-batch 1",
               shoal_layout_boxes(&layout, &shape, 0, 1, &arena, &boxes));
  // built by hand, not parsed
  layout.cuts[0].axis = 2;
  assert_error(INVALID_ARGUMENT, "the mesh has no axis 2", shoal_layout_check(&layout, &shape));
  layout = layout_of(mesh, "data:flat");
  layout.cuts[0].before = 1;
  assert_error(UNSUPPORTED, "flat takes a unit and weights only",
               shoal_layout_check(&layout, &shape));
  layout = layout_of(mesh, "data:0*2");
  layout.cuts[0].chunk_count = -1;
  assert_error(INVALID_ARGUMENT, "-1 chunks", shoal_layout_check(&layout, &shape));
  layout.mesh = NULL;
  assert_error(INVALID_ARGUMENT, "no mesh", shoal_layout_check(&layout, &shape));
}

// ---- the walks -------------------------------------------------------------------------

// A dim's intervals as "[0,192) [768,960)".
static const char *intervals(const char *mesh, const char *text, const shoal_shape_t *shape,
                             int dim, int64_t position, int64_t micro, bool held) {
  shoal_layout_t layout = layout_of(mesh, text);
  shoal_boxes_t boxes;
  assert_ok(shoal_layout_boxes(&layout, shape, position, micro, &arena, &boxes));
  const shoal_dim_part_t *part = &boxes.dims[dim];
  const char *out = "";
  for (int32_t i = 0; i < (held ? part->held_count : part->own_count); ++i) {
    const shoal_interval_t *interval = held ? &part->held[i] : &part->own[i];
    out =
        shoal_arena_printf(&arena, "%s%s[%lld,%lld)", out, i ? " " : "", (long long)interval->start,
                           (long long)(interval->start + interval->size));
  }
  return out;
}

static void walk_mlp(void **state) {
  (void)state;
  const char *mesh = "data=2,micro=3", *text = "micro:0,data:0";
  shoal_shape_t seven = SHOAL_SHAPE(7), four = SHOAL_SHAPE(4);
  assert_string_equal(intervals(mesh, text, &seven, 0, 0, 0, true), "[0,2)");
  assert_string_equal(intervals(mesh, text, &seven, 0, 1, 0, true), "[2,3)");
  assert_string_equal(intervals(mesh, text, &seven, 0, 0, 1, true), "[3,4)");
  assert_string_equal(intervals(mesh, text, &seven, 0, 1, 1, true), "[4,5)");
  assert_string_equal(intervals(mesh, text, &seven, 0, 0, 2, true), "[5,6)");
  assert_string_equal(intervals(mesh, text, &seven, 0, 1, 2, true), "[6,7)");
  assert_string_equal(intervals(mesh, text, &four, 0, 1, 0, true), "[1,2)");
  assert_string_equal(intervals(mesh, text, &four, 0, 1, 1, true), "");
  assert_string_equal(intervals(mesh, text, &four, 0, 1, 2, true), "");
}

static void walk_attention(void **state) {
  (void)state;
  shoal_shape_t heads = SHOAL_SHAPE(768), qkv = SHOAL_SHAPE(768, 2304);
  static const char *const columns[] = {"[0,192)", "[192,384)", "[384,512)", "[512,640)",
                                        "[640,768)"};
  for (int r = 0; r < 5; ++r) {
    assert_string_equal(intervals("tensor=5", "tensor:0/64", &heads, 0, r, 0, true), columns[r]);
  }
  assert_string_equal(intervals("tensor=5", "tensor:1*3/64", &qkv, 1, 0, 0, true),
                      "[0,192) [768,960) [1536,1728)");
  assert_string_equal(intervals("tensor=5", "tensor:1*3/64", &qkv, 1, 4, 0, true),
                      "[640,768) [1408,1536) [2176,2304)");
  assert_string_equal(intervals("tensor=5", "tensor:1*3/64", &qkv, 0, 4, 0, true), "[0,768)");
  // grouped queries: 8 groups of 256, 64, 64 columns
  const char *gqa = "tensor:0*(2048/256,512/64,512/64)";
  shoal_shape_t grouped = SHOAL_SHAPE(3072);
  assert_string_equal(intervals("tensor=8", gqa, &grouped, 0, 7, 0, true),
                      "[1792,2048) [2496,2560) [3008,3072)");
  assert_string_equal(intervals("tensor=5", gqa, &grouped, 0, 0, 0, true),
                      "[0,512) [2048,2176) [2560,2688)");
  assert_string_equal(intervals("tensor=5", gqa, &grouped, 0, 4, 0, true),
                      "[1792,2048) [2496,2560) [3008,3072)");
  // [B,T] -> [B*T], data on B (4,3), context on T: chunk lengths survive the outer cut
  shoal_shape_t merged = SHOAL_SHAPE(70);
  const char *mesh = "data=2,context=2", *text = "data:0/10,context:0*7";
  assert_string_equal(intervals(mesh, text, &merged, 0, 0, 0, true),
                      "[0,5) [10,15) [20,25) [30,35)");
  assert_string_equal(intervals(mesh, text, &merged, 0, 3, 0, true), "[45,50) [55,60) [65,70)");
  // convolution, n=10, k=3: dealt by the 8 outputs
  shoal_shape_t ten = SHOAL_SHAPE(10);
  static const char *const inputs[] = {"[0,4)", "[2,6)", "[4,8)", "[6,10)"};
  static const char *const owned[] = {"[0,2)", "[2,4)", "[4,6)", "[6,10)"};
  for (int r = 0; r < 4; ++r) {
    assert_string_equal(intervals("tensor=4", "tensor:0#8+0+2", &ten, 0, r, 0, true), inputs[r]);
    assert_string_equal(intervals("tensor=4", "tensor:0#8+0+2", &ten, 0, r, 0, false), owned[r]);
  }
  // stride 4, kernel 3: 2 outputs of an input of 7 need [0,3) and [4,7)
  shoal_shape_t strided = SHOAL_SHAPE(7);
  assert_string_equal(intervals("tensor=2", "tensor:0/4#2+0-1", &strided, 0, 0, 0, true), "[0,3)");
  assert_string_equal(intervals("tensor=2", "tensor:0/4#2+0-1", &strided, 0, 1, 0, true), "[4,7)");
  // more outputs than inputs (padding): the last part owns nothing but holds its halo
  shoal_shape_t five = SHOAL_SHAPE(5);
  assert_string_equal(intervals("tensor=4", "tensor:0/3#4+2+0", &five, 0, 2, 0, false), "");
  assert_string_equal(intervals("tensor=4", "tensor:0/3#4+2+0", &five, 0, 2, 0, true), "[4,5)");
  assert_string_equal(intervals("tensor=4", "tensor:0/3#4+2+0", &five, 0, 3, 0, true), "");
}

static void walk_flat(void **state) {
  (void)state;
  shoal_layout_t layout = layout_of("data=2,tensor=5", "tensor:1*3/64,data:flat");
  shoal_boxes_t boxes;
  shoal_shape_t shape = SHOAL_SHAPE(768, 2304);
  assert_ok(shoal_layout_boxes(&layout, &shape, 5, 0, &arena, &boxes));
  assert_true(boxes.flat);
  assert_int_equal(boxes.from, 768 * 576 / 2);
  assert_int_equal(boxes.to, 768 * 576);
  shoal_shape_t dense = shoal_boxes_shape(&boxes);
  assert_int_equal(dense.rank, 1);
  assert_int_equal(dense.dims[0], 768 * 288);
  shoal_place_t place;
  assert_ok(shoal_boxes_place(&boxes, &arena, &place));
  assert_int_equal(shoal_place_global(&place, 200), (int64_t)384 * 2304 + 768 + 8);
  // an empty flat part lies where it would begin
  layout = layout_of("data=5", "data:flat/3");
  shape = SHOAL_SHAPE(7);
  static const int64_t ranges[5][2] = {{0, 3}, {3, 6}, {6, 7}, {7, 7}, {7, 7}};
  for (int64_t r = 0; r < 5; ++r) {
    assert_ok(shoal_layout_boxes(&layout, &shape, r, 0, &arena, &boxes));
    assert_int_equal(boxes.from, ranges[r][0]);
    assert_int_equal(boxes.to, ranges[r][1]);
  }
}

static void deals_large_numbers(void **state) {
  (void)state;
  int64_t from, to, units = INT64_C(1) << 56, before = 0;
  int64_t weights[3] = {INT64_C(1) << 60, 3, (INT64_C(1) << 60) + 7};
  for (int64_t i = 0; i < 3; ++i) {
    shoal_layout_deal(units, 3, weights, i, NULL, &from, &to);
    assert_int_equal(from, before);
    before = to;
  }
  assert_int_equal(before, units);
  shoal_layout_deal(units + 5, 7, NULL, 6, NULL, &from, &to);
  assert_int_equal(to, units + 5);
  // a huge unit, a huge halo
  shoal_shape_t shape = SHOAL_SHAPE(INT64_C(1) << 50);
  assert_string_equal(
      intervals("a=2", "a:0/100000000000000000+100000000000000000+3", &shape, 0, 0, 0, true),
      "[0,1125899906842624)");
  // a dim of no elements divides into any number of chunks
  shape = SHOAL_SHAPE(0);
  assert_string_equal(intervals("a=2", "a:0*2000000000", &shape, 0, 0, 0, true), "");
}

// ---- memory ----------------------------------------------------------------------------

static shoal_status_t use_everything(shoal_arena_t *a) {
  shoal_mesh_t mesh, other;
  shoal_layout_t src, dst;
  shoal_boxes_t boxes;
  shoal_place_t place;
  shoal_reshard_t reshard;
  const char *text;
  const shoal_box_t *list;
  int64_t count;
  SHOAL_RETURN_IF_ERROR(shoal_mesh_parse("a=2,b=2@3,0-2", a, &mesh));
  SHOAL_RETURN_IF_ERROR(shoal_mesh_parse("c=3", a, &other));
  SHOAL_RETURN_IF_ERROR(shoal_mesh_print(&mesh, a, &text));
  SHOAL_RETURN_IF_ERROR(shoal_layout_parse("a:0*2(3,1),b:1+1+1", &mesh, 1, a, &src));
  SHOAL_RETURN_IF_ERROR(shoal_layout_parse("c:flat", &other, 1, a, &dst));
  SHOAL_RETURN_IF_ERROR(shoal_layout_print(&src, a, &text));
  shoal_shape_t shape = SHOAL_SHAPE(40, 50);
  for (int64_t p = 0; p < 4; ++p) {
    SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(&src, &shape, p, 0, a, &boxes));
    SHOAL_RETURN_IF_ERROR(shoal_boxes_list(&boxes, a, &list, &count));
    SHOAL_RETURN_IF_ERROR(shoal_boxes_halo(&boxes, a, &list, &count));
    SHOAL_RETURN_IF_ERROR(shoal_boxes_place(&boxes, a, &place));
  }
  SHOAL_RETURN_IF_ERROR(shoal_layout_reshard(&src, 0, &dst, 0, &shape, a, &reshard));
  SHOAL_RETURN_IF_ERROR(shoal_layout_reshard(&dst, 0, &src, 0, &shape, a, &reshard));
  shoal_reshard_facts_t facts;
  shoal_reshard_path_t path;
  shoal_links_t links;
  SHOAL_RETURN_IF_ERROR(shoal_reshard_describe(&src, 0, &dst, 0, &shape, a->allocator, &facts));
  SHOAL_RETURN_IF_ERROR(shoal_links_of_rank(&src, 0, &dst, 0, &shape, 1, a, &links));
  SHOAL_RETURN_IF_ERROR(
      shoal_reshard_staging_largest(&src, 0, &dst, 0, &shape, SHOAL_F32, 0, NULL, a, &count));
  SHOAL_RETURN_IF_ERROR(shoal_layout_parse("a:partial(sum)", &mesh, 1, a, &src));
  SHOAL_RETURN_IF_ERROR(shoal_layout_parse("b:0(1,2),a:1+1+1", &mesh, 1, a, &dst));
  return shoal_reshard_path(&src, 0, &dst, 0, &shape, a, &path);
}

static shoal_status_t use_allocator(shoal_allocator_t allocator, void *context) {
  (void)context;
  shoal_arena_t a;
  shoal_arena_init(allocator, &a);
  shoal_status_t status = use_everything(&a);
  shoal_arena_deinit(&a);
  return status;
}

static void survives_short_memory(void **state) {
  (void)state;
  check_failing_allocations(use_allocator, NULL, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(meshes_round_trip),
      cmocka_unit_test(meshes_have_coordinates),
      cmocka_unit_test(meshes_find_ranks),
      cmocka_unit_test(meshes_compare),
      cmocka_unit_test(meshes_refuse),
      cmocka_unit_test(layouts_round_trip),
      cmocka_unit_test(layouts_find_their_mesh),
      cmocka_unit_test(layouts_compare),
      cmocka_unit_test(layouts_refuse),
      cmocka_unit_test(layouts_check_shapes),
      cmocka_unit_test(walk_mlp),
      cmocka_unit_test(walk_attention),
      cmocka_unit_test(walk_flat),
      cmocka_unit_test(deals_large_numbers),
      cmocka_unit_test(survives_short_memory),
  };
  return cmocka_run_group_tests(tests, setup_arena, teardown_arena);
}

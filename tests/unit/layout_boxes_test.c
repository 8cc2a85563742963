// The meaning of layouts against the naive model, over exhaustive small cases: owned and held
// elements, buffer order, lists of boxes, place, pack and unpack, text round trip.
#include "unit/arena.h"
#include "unit/layout_model.h"
#include "unit/random.h"

static int64_t compared;

static void reset_arena(void) {
  shoal_arena_deinit(&arena);
  shoal_arena_init(shoal_allocator_system(), &arena);
}

// ---- one part --------------------------------------------------------------------------

static void mark(const shoal_shape_t *shape, const shoal_box_t *list, int64_t count, int *marks) {
  for (int64_t b = 0; b < count; ++b) {
    int64_t cells = 1;
    for (int32_t d = 0; d < shape->rank; ++d) cells *= list[b].size[d];
    assert_true(cells > 0);
    for (int64_t i = 0; i < cells; ++i) {
      int64_t rest = i, element = 0, stride = 1;
      for (int32_t d = shape->rank - 1; d >= 0; --d) {
        element += (list[b].start[d] + rest % list[b].size[d]) * stride;
        rest /= list[b].size[d];
        stride *= shape->dims[d];
      }
      ++marks[element];
    }
    if (b) {  // sorted by start
      int order = 0;
      for (int32_t d = 0; d < shape->rank && !order; ++d) {
        order =
            (list[b - 1].start[d] < list[b].start[d]) - (list[b - 1].start[d] > list[b].start[d]);
      }
      assert_int_equal(order, 1);
    }
  }
}

// No two boxes of a list make a box together.
static void assert_merged(const shoal_shape_t *shape, const shoal_box_t *list, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < count; ++j) {
      int differ = 0, touch = 0;
      for (int32_t d = 0; d < shape->rank; ++d) {
        bool same = list[i].start[d] == list[j].start[d] && list[i].size[d] == list[j].size[d];
        differ += !same;
        touch += !same && list[i].start[d] + list[i].size[d] == list[j].start[d];
      }
      if (i != j) assert_false(differ == 1 && touch == 1);
    }
  }
}

static void compare_part(const char *text, const shoal_layout_t *layout, const shoal_shape_t *shape,
                         int64_t position, int64_t micro, model_part_t *model) {
  static int whole[MODEL_ELEMENTS], part[MODEL_ELEMENTS], marks[MODEL_ELEMENTS];
  shoal_boxes_t boxes;
  shoal_place_t place;
  model_part(layout, shape, position, micro, model);
  assert_ok(shoal_layout_boxes(layout, shape, position, micro, &arena, &boxes));
  shoal_shape_t dense = shoal_boxes_shape(&boxes);
  int64_t count = shoal_shape_count(&dense), total = shoal_shape_count(shape);
  if (count != model->count) {
    fail_msg("'%s', %lld elements, position %lld: %lld held, model %lld", text, (long long)total,
             (long long)position, (long long)count, (long long)model->count);
  }
  ++compared;
  // place and pack give the same elements in the same order
  assert_ok(shoal_boxes_place(&boxes, &arena, &place));
  for (int64_t e = 0; e < total; ++e) whole[e] = (int)e;
  for (int64_t i = 0; i < count; ++i) part[i] = -1;
  assert_ok(shoal_boxes_pack(&boxes, sizeof *whole, whole, part));
  for (int64_t i = 0; i < count; ++i) {
    if (part[i] != model->element[i] || shoal_place_global(&place, i) != model->element[i]) {
      fail_msg("'%s', %lld elements, position %lld: buffer[%lld] is %d, place %lld, model %d", text,
               (long long)total, (long long)position, (long long)i, part[i],
               (long long)shoal_place_global(&place, i), model->element[i]);
    }
  }
  for (int32_t d = 0; d < shape->rank; ++d) {
    for (int64_t g = 0, local = 0; g < shape->dims[d]; ++g) {
      bool has = false;
      for (int32_t i = 0; i < boxes.dims[d].held_count; ++i) {
        const shoal_interval_t *held = &boxes.dims[d].held[i];
        has |= g >= held->start && g < held->start + held->size;
      }
      assert_int_equal(shoal_place_local(&place, d, g), has ? local : -1);
      local += has;
    }
  }
  // unpack: all, and what is owned only
  for (int only = 0; only < 2; ++only) {
    for (int64_t e = 0; e < total; ++e) whole[e] = -1;
    assert_ok(shoal_boxes_unpack(&boxes, sizeof *whole, part, only, whole));
    for (int64_t i = 0; i < count; ++i) {
      bool there = !only || boxes.flat || model->owned[i];
      assert_int_equal(whole[model->element[i]], there ? model->element[i] : -1);
      whole[model->element[i]] = -1;
    }
    for (int64_t e = 0; e < total; ++e) assert_int_equal(whole[e], -1);
  }
  // the lists of boxes; with flat they ignore it
  const shoal_box_t *own, *halo;
  int64_t own_count, halo_count;
  assert_ok(shoal_boxes_list(&boxes, &arena, &own, &own_count));
  assert_ok(shoal_boxes_halo(&boxes, &arena, &halo, &halo_count));
  if (boxes.flat) return;
  memset(marks, 0, sizeof marks);
  mark(shape, own, own_count, marks);
  assert_merged(shape, own, own_count);
  for (int64_t i = 0; i < count; ++i) {
    assert_int_equal(marks[model->element[i]], model->owned[i]);
    marks[model->element[i]] = 0;
  }
  mark(shape, halo, halo_count, marks);
  assert_merged(shape, halo, halo_count);
  for (int64_t i = 0; i < count; ++i) {
    assert_int_equal(marks[model->element[i]], !model->owned[i]);
    marks[model->element[i]] = 0;
  }
  for (int64_t e = 0; e < total; ++e) assert_int_equal(marks[e], 0);
}

// ---- one layout ------------------------------------------------------------------------

static bool replicates(const shoal_layout_t *layout, int32_t axis) {
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    if (layout->cuts[i].axis == axis && layout->cuts[i].kind != SHOAL_CUT_PARTIAL) return false;
  }
  return true;
}

// All parts of a layout; each element is owned once per coordinate of the axes that do not cut,
// unless something is trimmed. Micro-batch -1 owns everything, too.
static void compare_layout(const char *text, const shoal_mesh_t *mesh, const shoal_shape_t *shape) {
  static model_part_t model;
  static int owners[MODEL_ELEMENTS];
  shoal_layout_t layout, again;
  const char *printed, *printed_again;
  assert_ok(shoal_layout_parse(text, mesh, 1, &arena, &layout));
  assert_ok(shoal_layout_print(&layout, &arena, &printed));
  assert_ok(shoal_layout_parse(printed, mesh, 1, &arena, &again));
  assert_ok(shoal_layout_print(&again, &arena, &printed_again));
  assert_string_equal(printed, printed_again);
  assert_true(shoal_layout_equal(&layout, &again));
  int64_t total = shoal_shape_count(shape), copies = 1, micros = mesh->micro > 1 ? mesh->micro : 1;
  bool trimmed = layout.tile.count > 1, micro_cut = false;
  for (int32_t i = 0; i < mesh->axis_count; ++i) {
    if (replicates(&layout, i)) copies *= mesh->axes[i].size;
  }
  for (int32_t i = 0; i < layout.cut_count; ++i) {
    trimmed |= layout.cuts[i].before < 0 || layout.cuts[i].after < 0;
    micro_cut |= layout.cuts[i].axis < 0 && layout.cuts[i].kind == SHOAL_CUT_DIM;
  }
  for (int all = 0; all < 2; ++all) {
    memset(owners, 0, sizeof owners);
    for (int64_t m = all ? -1 : 0; m < (all ? 0 : micros); ++m) {
      for (int64_t p = 0; p < shoal_mesh_size(mesh); ++p) {
        compare_part(text, &layout, shape, p, m, &model);
        for (int64_t i = 0; i < model.count; ++i) owners[model.element[i]] += model.owned[i];
      }
    }
    int64_t expected = copies * (all || micro_cut ? 1 : micros);
    for (int64_t e = 0; e < total; ++e) {
      if (shoal_layout_is_partial(&layout) && all) continue;
      if (trimmed ? owners[e] > expected : owners[e] != expected) {
        fail_msg("'%s': element %lld of %lld has %d owners, not %lld", text, (long long)e,
                 (long long)total, owners[e], (long long)expected);
      }
    }
  }
  if (arena.blocks && arena.capacity > 1 << 18) reset_arena();
}

static shoal_mesh_t mesh_of(const char *text) {
  shoal_mesh_t mesh;
  assert_ok(shoal_mesh_parse(text, &arena, &mesh));
  return mesh;
}

// ---- enumerations ----------------------------------------------------------------------

static const char *const weights_of[6][4] = {
    {0},
    {"", "(3)"},
    {"", "(3,1)", "(0,2)", "(5,7)"},
    {"", "(1,1,1)", "(5,0,2)", "(1,2,1)"},
    {"", "(1,2,3,4)", "(0,0,1,0)", "(7,3,3,7)"},
    {"", "(2,1,2,1,2)", "(9,1,1,1,1)", "(0,1,0,1,0)"},
};
static const char *const halos[] = {"",     "+1+1", "+0+2", "+2+0", "-1+0", "+0-1",
                                    "+1-1", "-1+2", "-2-1", "+3+3", "-4+1", "+20+20"};
static const char *const items_of[] = {"", "#0", "#1", "#2", "#3", "#5", "#8", "#13"};
static const int units[] = {1, 2, 3, 5, 64};
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static void one_axis(void **state) {
  (void)state;
  for (int n = 1; n <= 5; ++n) {
    char text[128];
    snprintf(text, sizeof text, "t=%d", n);
    shoal_mesh_t mesh = mesh_of(text);
    for (int64_t length = 0; length <= 12; ++length) {
      shoal_shape_t shape = SHOAL_SHAPE(length);
      for (int u = 0; u < COUNT(units); ++u) {
        for (int w = 0; w < 4 && weights_of[n][w]; ++w) {
          for (int i = 0; i < COUNT(items_of); ++i) {
            for (int h = 0; h < COUNT(halos); ++h) {
              snprintf(text, sizeof text, "t:0/%d%s%s%s", units[u], items_of[i], weights_of[n][w],
                       halos[h]);
              compare_layout(text, &mesh, &shape);
            }
          }
        }
      }
    }
  }
}

// Texts of chunks that fit a length: equal ones that divide it, and some lengths that add up to it.
static int chunk_texts(int64_t length, char out[8][64]) {
  int count = 0;
  for (int c = 1; c <= 4; ++c) {
    if (length % c == 0) snprintf(out[count++], 64, "*%d", c);
  }
  int64_t a = length / 2, b = length - a;
  if (a > 0) {
    snprintf(out[count++], 64, "*(%lld,%lld)", (long long)a, (long long)b);
    snprintf(out[count++], 64, "*(%lld/2,%lld/3)", (long long)b, (long long)a);
  }
  if (length >= 4) {
    snprintf(out[count++], 64, "*(1,%lld/2,2/1)", (long long)length - 3);
    snprintf(out[count++], 64, "*(2/4,1,%lld)", (long long)length - 3);
  }
  return count;
}

// Tiles of what one axis cuts: all of them, with chunks and units of their own.
static void one_axis_tiles(void **state) {
  (void)state;
  for (int n = 1; n <= 4; ++n) {
    char text[640], chunks[8][64];
    snprintf(text, sizeof text, "t=%d", n);
    shoal_mesh_t mesh = mesh_of(text);
    for (int64_t length = 0; length <= 12; ++length) {
      shoal_shape_t shape = SHOAL_SHAPE(length);
      for (int c = -1, count = chunk_texts(length, chunks); c < count; ++c) {
        for (int u = 0; u < 3; ++u) {
          for (int w = 0; w < 4 && weights_of[n][w]; ++w) {
            for (int tile = 0; tile < 6; ++tile) {
              snprintf(text, sizeof text, "tile(%d/%d):0%s/%d,t:0/%d%s", tile < 2 ? tile : tile - 2,
                       tile < 2 ? 2 : 4, c < 0 ? "" : chunks[c], units[u], units[(u + w) % 3],
                       weights_of[n][w]);
              compare_layout(text, &mesh, &shape);
            }
          }
        }
      }
    }
  }
}

static void one_axis_chunks(void **state) {
  (void)state;
  for (int n = 1; n <= 5; ++n) {
    char text[640], chunks[8][64];
    snprintf(text, sizeof text, "t=%d", n);
    shoal_mesh_t mesh = mesh_of(text);
    for (int64_t length = 0; length <= 12; ++length) {
      shoal_shape_t shape = SHOAL_SHAPE(length);
      for (int c = 0, count = chunk_texts(length, chunks); c < count; ++c) {
        for (int u = 0; u < COUNT(units); ++u) {
          for (int w = 0; w < 4 && weights_of[n][w]; ++w) {
            for (int i = 0; i < 5; ++i) {
              snprintf(text, sizeof text, "t:0%s/%d%s%s", chunks[c], units[u], items_of[i],
                       weights_of[n][w]);
              compare_layout(text, &mesh, &shape);
            }
          }
        }
      }
    }
  }
}

// Two cuts of one dim, in both orders of the axes, each with its own unit, items, chunks and halo.
static void nested(void **state) {
  (void)state;
  static const char *const cuts[] = {
      "",         "/2",       "/3",       "#3",   "#6",       "/2#3",       "/2#4",
      "/2#0",     "+1+1",     "-1+0",     "+0-1", "+2+0",     "/2+1+2",     "#6+1+1",
      "/2#4+0+2", "/2#4-1+1", "/2#3+0-1", "*1",   "*(2,3,*)", "*(*/2,4)/2", "*1#2",
  };
  static const int64_t lengths[] = {0, 1, 5, 6, 7, 12};
  for (int order = 0; order < 2; ++order) {
    for (int na = 1; na <= 3; ++na) {
      for (int nb = 1; nb <= 3; ++nb) {
        char text[256];
        snprintf(text, sizeof text, "a=%d,b=%d", na, nb);
        shoal_mesh_t mesh = mesh_of(text);
        for (int l = 0; l < COUNT(lengths); ++l) {
          shoal_shape_t shape = SHOAL_SHAPE(lengths[l]);
          for (int x = 0; x < COUNT(cuts) * COUNT(cuts); ++x) {
            const char *pair[2] = {cuts[x / COUNT(cuts)], cuts[x % COUNT(cuts)]};
            bool halo[2], chunk[2], items[2], skip = false;
            size_t at = 0;
            for (int i = 0; i < 2; ++i) {
              halo[i] = strpbrk(pair[i], "+-") != NULL;
              chunk[i] = pair[i][0] == '*';
              items[i] = strchr(pair[i], '#') != NULL;
              at += (size_t)snprintf(text + at, sizeof text - at, "%s%s:0", i ? "," : "",
                                     (i == order) ? "a" : "b");
              for (const char *c = pair[i]; *c;
                   ++c) {  // a '*' in brackets: what is left of the length
                bool rest = *c == '*' && c != pair[i];
                int64_t left = lengths[l] - (pair[i][2] == '2' ? 5 : 4);
                skip |= rest && left < 1;
                if (rest)
                  at += (size_t)snprintf(text + at, sizeof text - at, "%lld", (long long)left);
                else
                  text[at++] = *c;
              }
              text[at] = 0;
            }
            skip |= (halo[0] || halo[1]) && (chunk[0] || chunk[1]);
            skip |= items[0] && items[1] && (chunk[0] || chunk[1]);
            if (!skip) compare_layout(text, &mesh, &shape);
          }
        }
      }
    }
  }
}

// Longer texts, on more dims and axes, with flat, partial and micro.
static void several_dims(void **state) {
  (void)state;
  static const char *const meshes[] = {"a=2,b=3,c=2", "a=3,b=1,c=2,micro=3", "a=1,b=4,c=1,micro=2"};
  static const char *const texts[] = {
      "",
      "a:0",
      "b:1",
      "a:0,b:1",
      "b:1/2,a:0+1+1",
      "a:0+1+1,b:1+1+2",
      "a:0+2+0,b:0+1+1,c:1+1+1",
      "a:0,b:0,c:0",
      "c:0,b:0,a:0",
      "a:flat",
      "b:flat,a:flat",
      "a:1,b:flat",
      "a:0,b:flat/2",
      "a:flat/3,b:flat/2,c:flat",
      "b:1*1/2,a:flat",
      "a:partial(sum)",
      "a:0,b:partial(max)",
      "b:flat,a:partial(sum)",
      "a:partial(min),b:0,c:partial(min)",
      "micro:0",
      "micro:0,a:0",
      "micro:0,a:0,b:0",
      "micro:0/2,a:0,b:1",
      "micro:1,a:0",
      "micro:0,b:flat",
      "micro:partial(sum),a:1",
      "a:0,micro:partial(sum)",
      "micro:0+1+1,a:0+1+1",
      "a:0-1+1,b:1+1-1",
      "a:0#4+1+1,c:1#2-1+0",
      "a:1,b:0*1/3,c:flat",
      "a:0#9+1+0,b:0#9+1+0",
      "a:0/2#3+1+1,c:0/2#3+2+0,b:1+1+1",
  };
  static const int64_t sizes[] = {0, 1, 2, 5, 7};
  for (int m = 0; m < COUNT(meshes); ++m) {
    shoal_mesh_t mesh = mesh_of(meshes[m]);
    for (int t = 0; t < COUNT(texts); ++t) {
      for (int x = 0; x < COUNT(sizes) * COUNT(sizes); ++x) {
        int64_t i = sizes[x / COUNT(sizes)], j = sizes[x % COUNT(sizes)];
        compare_layout(texts[t], &mesh, &SHOAL_SHAPE(i, j));
        if (i * j < 40) compare_layout(texts[t], &mesh, &SHOAL_SHAPE(i, j, 3));
        if (i * j < 12) compare_layout(texts[t], &mesh, &SHOAL_SHAPE(i, j, 2, 3));
      }
    }
    shoal_shape_t scalar = SHOAL_SCALAR;
    compare_layout("", &mesh, &scalar);
    compare_layout("b:flat", &mesh, &scalar);
    compare_layout("a:partial(sum),c:flat", &mesh, &scalar);
  }
}

// Random layouts of everything at once; a fixed seed (tests/layout_model.py draws new ones each
// time).
static random_t numbers = {.seed = 88172645463325252u};
static int pick(int below) {
  return (int)draw(&numbers, (uint64_t)below);
}

static void random_layouts(void **state) {
  (void)state;
  for (int round = 0; round < 6000; ++round) {
    char text[512];
    int sizes[3] = {1 + pick(4), 1 + pick(3), 1 + pick(3)};
    snprintf(text, sizeof text, "a=%d,b=%d,c=%d", sizes[0], sizes[1], sizes[2]);
    shoal_mesh_t mesh = mesh_of(text);
    shoal_shape_t shape = {.rank = 1 + pick(3)};
    for (int d = 0; d < shape.rank; ++d) shape.dims[d] = pick(13);
    int order[3] = {0, 1, 2}, flat = pick(5) == 0 ? pick(3) : 3;
    for (int i = 2; i > 0; --i) {
      int j = pick(i + 1), swap = order[i];
      order[i] = order[j];
      order[j] = swap;
    }
    bool chunked[3] = {0}, haloed = false, turned = false;
    bool items[3] = {0};
    size_t at = 0;
    for (int i = 0; i < 3; ++i) {
      int axis = order[i], dim = pick(shape.rank), n = sizes[axis];
      if (pick(4) == 0) continue;
      at += (size_t)snprintf(text + at, sizeof text - at, "%s%c", at ? "," : "", 'a' + axis);
      if (n > 1 && i < flat && !haloed && pick(5) == 0) {
        turned = true;
        at += (size_t)snprintf(text + at, sizeof text - at, ">%d", 1 + pick(n - 1));
      }
      at += (size_t)snprintf(text + at, sizeof text - at, ":");
      if (i >= flat && !haloed) {
        flat = 0;
        at += (size_t)snprintf(text + at, sizeof text - at, "flat/%d%s", 1 + pick(4),
                               pick(3) ? "" : weights_of[n][pick(n == 1 ? 2 : 4)]);
        continue;
      }
      flat = 3;
      bool chunk = pick(4) == 0 && shape.dims[dim] % 2 == 0 && !haloed && !items[dim];
      at += (size_t)snprintf(text + at, sizeof text - at, "%d%s/%d", dim, chunk ? "*2" : "",
                             1 + pick(3));
      chunked[dim] |= chunk;
      if (pick(3) == 0 && !chunked[dim]) {
        items[dim] = true;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s", items_of[1 + pick(7)]);
      }
      if (pick(3) == 0) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s",
                               weights_of[n][pick(n == 1 ? 2 : 4)]);
      }
      if (pick(3) == 0 && !chunked[dim] && !turned) {
        haloed = true;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s", halos[pick(COUNT(halos))]);
      }
    }
    text[at] = 0;
    compare_layout(text, &mesh, &shape);
  }
}

static void compared_enough(void **state) {
  (void)state;
  printf("[          ] %lld parts compared\n", (long long)compared);
  assert_true(compared > 1000000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_axis),        cmocka_unit_test(one_axis_chunks),
      cmocka_unit_test(one_axis_tiles),  cmocka_unit_test(nested),
      cmocka_unit_test(several_dims),    cmocka_unit_test(random_layouts),
      cmocka_unit_test(compared_enough),
  };
  return cmocka_run_group_tests(tests, setup_arena, teardown_arena);
}

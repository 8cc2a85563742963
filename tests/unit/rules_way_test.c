// Ways as cuts and back, and as text and back: by hand where the answer is known, and for every way
// of every example call with several deals.
#include "rules_support.h"

static shoal_way_t parse(bench_t *b, const char *op, int32_t inputs, const char *text) {
  shoal_way_t way = {0};
  assert_ok(shoal_way_parse(text, bench_op(b, op), NULL, inputs, &b->arena, &way));
  return way;
}

// The cut as a layout item along an axis x of four ranks.
static const char *cut_text(bench_t *b, const shoal_cut_t *cut) {
  shoal_mesh_t *mesh = SHOAL_NEW(&b->arena, shoal_mesh_t, 1);
  const char *text = "";
  assert_ok(shoal_mesh_parse("x=4", &b->arena, mesh));
  shoal_layout_t layout = {.mesh = mesh, .cut_count = 1, .cuts = {*cut}};
  assert_ok(shoal_layout_print(&layout, &b->arena, &text));
  return text;
}

static void assert_cut(bench_t *b, const shoal_way_t *way, int32_t operand, shoal_shape_t shape,
                       const shoal_item_cut_t *item_cut, const char *expected) {
  bool cuts = false;
  shoal_cut_t cut = {0};
  assert_ok(shoal_way_cut(way, operand, &shape, 0, item_cut, &cuts, &cut));
  if (!cuts)
    assert_string_equal("", expected);
  else
    assert_string_equal(cut_text(b, &cut), expected);
}

static shoal_cut_t cut_of(bench_t *b, const char *text) {
  shoal_mesh_t *mesh = SHOAL_NEW(&b->arena, shoal_mesh_t, 1);
  shoal_layout_t layout;
  assert_ok(shoal_mesh_parse("x=4", &b->arena, mesh));
  assert_ok(shoal_layout_parse(text, mesh, 1, &b->arena, &layout));
  return layout.cuts[0];
}

static void test_cuts(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  static const int64_t weights[] = {3, 1, 2, 2};
  const shoal_item_cut_t plain = {0}, pairs = {.unit = 2, .weights = weights};
  const shoal_item_cut_t halves = {.unit = 1, .chunk_count = 2, .chunks = {{0}}};
  const shoal_item_cut_t uneven = {.unit = 4, .chunk_count = 2, .chunks = {{8, 0}, {4, 2}}};

  // heads: 12 items of 64
  shoal_way_t split = parse(&b, "shoal.reshape", 1, "{x:1/64 -> out:1}~");
  assert_cut(&b, &split, 0, SHOAL_SHAPE(5, 768), &plain, "x:1/64");
  assert_cut(&b, &split, 1, SHOAL_SHAPE(5, 12, 64), &plain, "x:1");
  assert_cut(&b, &split, 0, SHOAL_SHAPE(5, 768), &pairs, "x:1/128(3,1,2,2)");
  assert_cut(&b, &split, 0, SHOAL_SHAPE(5, 768), &halves, "x:1*2/64");
  assert_cut(&b, &split, 0, SHOAL_SHAPE(5, 768), &uneven, "x:1*(512,256/128)/256");

  // [5, 12] -> [60] on 12: five copies
  shoal_way_t merged = parse(&b, "shoal.reshape", 1, "{x:1 -> out:0*5}~");
  assert_cut(&b, &merged, 1, SHOAL_SHAPE(60), &plain, "x:0*5");
  assert_cut(&b, &merged, 1, SHOAL_SHAPE(60), &halves, "x:0*10");
  bool cuts;
  shoal_cut_t cut;
  assert_error(UNSUPPORTED, "repeated 5 times",
               shoal_way_cut(&merged, 1, &SHOAL_SHAPE(60), 0, &uneven, &cuts, &cut));

  // a fused matrix: the slice's windows are chunks of the input
  shoal_way_t fused = parse(&b, "shoal.slice", 1, "{x:1 -> out:1@768..1536}~");
  assert_cut(&b, &fused, 0, SHOAL_SHAPE(5, 2304), &(shoal_item_cut_t){.unit = 64}, "x:1*3/64");
  assert_cut(&b, &fused, 1, SHOAL_SHAPE(5, 768), &(shoal_item_cut_t){.unit = 64}, "x:1/64");
  const shoal_item_cut_t grouped = {
      .unit = 64, .chunk_count = 4, .chunks = {{768, 0}, {256, 0}, {512, 0}, {768, 0}}};
  assert_cut(&b, &fused, 1, SHOAL_SHAPE(5, 768), &grouped, "x:1*(256,512)/64");
  const shoal_item_cut_t across = {.unit = 1, .chunk_count = 2, .chunks = {{1000, 0}, {1304, 0}}};
  assert_error(INVALID_ARGUMENT, "straddle",
               shoal_way_cut(&fused, 1, &SHOAL_SHAPE(5, 768), 0, &across, &cuts, &cut));

  // rows of inputs of unequal length
  shoal_way_t row = parse(&b, "shoal.concat", 2, "{xs[0]:1@0..5, xs[1]:1@5..12 -> out:1}~");
  assert_cut(&b, &row, 0, SHOAL_SHAPE(3, 5), &plain, "x:1");
  assert_cut(&b, &row, 1, SHOAL_SHAPE(3, 7), &plain, "x:1");
  assert_cut(&b, &row, 2, SHOAL_SHAPE(3, 12), &plain, "x:1*(5,7)");

  // halo, dealt by items
  shoal_way_t conv = parse(&b, "shoal.conv", 2, "{x:2/2#5+1+0 -> out:2}");
  assert_int_equal(conv.items, 5);
  assert_cut(&b, &conv, 0, SHOAL_SHAPE(1, 2, 9, 7), &plain, "x:2/2#5+1+0");
  assert_cut(&b, &conv, 0, SHOAL_SHAPE(1, 2, 9, 7), &(shoal_item_cut_t){.unit = 2}, "x:2/4#3+1+0");
  assert_cut(&b, &conv, 1, SHOAL_SHAPE(3, 2, 3, 3), &plain, "");
  assert_cut(&b, &conv, 2, SHOAL_SHAPE(1, 3, 5, 7), &plain, "x:2");
  assert_error(INVALID_ARGUMENT, "chunks",
               shoal_way_cut(&conv, 0, &SHOAL_SHAPE(1, 2, 9, 7), 0, &halves, &cuts, &cut));

  // items in their order only
  shoal_way_t strict = parse(&b, "shoal.relu", 1, "{x:1 -> out:1}");
  assert_error(INVALID_ARGUMENT, "dealt in chunks",
               shoal_way_cut(&strict, 0, &SHOAL_SHAPE(3, 8), 0, &halves, &cuts, &cut));

  // partial and flat
  shoal_way_t sums = parse(&b, "shoal.matmul", 2, "{a:1, b:0 -> out:sum}~");
  assert_cut(&b, &sums, 2, SHOAL_SHAPE(3, 7), &plain, "x:partial(sum)");
  shoal_way_t flat = parse(&b, "shoal.relu", 1, "{x:flat -> out:flat}");
  assert_cut(&b, &flat, 0, SHOAL_SHAPE(3, 7), &pairs, "x:flat/2(3,1,2,2)");
  assert_error(INVALID_ARGUMENT, "flat",
               shoal_way_cut(&flat, 0, &SHOAL_SHAPE(3, 7), 0, &halves, &cuts, &cut));

  // not this shape, not this operand
  assert_error(INVALID_ARGUMENT, "length is 700",
               shoal_way_cut(&fused, 1, &SHOAL_SHAPE(5, 700), 0, &plain, &cuts, &cut));
  assert_error(INVALID_ARGUMENT, "operand 7",
               shoal_way_cut(&fused, 7, &SHOAL_SHAPE(5, 700), 0, &plain, &cuts, &cut));
  bench_deinit(&b);
}

static void assert_match(bench_t *b, const shoal_way_t *way, int32_t operand, shoal_shape_t shape,
                         const char *cut, int32_t other, shoal_shape_t other_shape,
                         const char *expected) {
  shoal_cut_t given = cut_of(b, cut);
  shoal_item_cut_t item_cut;
  bool matches = shoal_way_match(way, operand, &shape, &given, &item_cut);
  assert_int_equal(matches, expected != NULL);
  if (matches) assert_cut(b, way, other, other_shape, &item_cut, expected);
}

// An operand's cut decides the other's.
static void test_matches(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_way_t split = parse(&b, "shoal.reshape", 1, "{x:1/64 -> out:1}~");
  const shoal_shape_t x = SHOAL_SHAPE(5, 768), heads = SHOAL_SHAPE(5, 12, 64);
  assert_match(&b, &split, 0, x, "x:1/64", 1, heads, "x:1");
  assert_match(&b, &split, 0, x, "x:1/128(1,2,3,4)", 1, heads, "x:1/2(1,2,3,4)");
  assert_match(&b, &split, 0, x, "x:1/32", 1, heads, NULL);
  assert_match(&b, &split, 0, x, "x:1", 1, heads, NULL);
  assert_match(&b, &split, 0, x, "x:0", 1, heads, NULL);
  assert_match(&b, &split, 0, x, "x:flat", 1, heads, NULL);
  assert_match(&b, &split, 0, x, "x:1*3/64", 1, heads, "x:1*3");
  assert_match(&b, &split, 0, x, "x:1*(512/64,256/128)", 1, heads, "x:1*(8,4/2)");
  assert_match(&b, &split, 0, x, "x:1*(500/64,268/64)", 1, heads, NULL);
  assert_match(&b, &split, 0, x, "x:1/64#12", 1, heads, "x:1");
  assert_match(&b, &split, 0, x, "x:1/64#11", 1, heads, NULL);
  split.any_order = false;
  assert_match(&b, &split, 0, x, "x:1*3/64", 1, heads, NULL);

  shoal_way_t merged = parse(&b, "shoal.reshape", 1, "{x:1 -> out:0*5}~");
  assert_match(&b, &merged, 1, SHOAL_SHAPE(60), "x:0*5", 0, SHOAL_SHAPE(5, 12), "x:1");
  assert_match(&b, &merged, 1, SHOAL_SHAPE(60), "x:0*10", 0, SHOAL_SHAPE(5, 12), "x:1*2");
  assert_match(&b, &merged, 1, SHOAL_SHAPE(60), "x:0", 0, SHOAL_SHAPE(5, 12), NULL);
  assert_match(&b, &merged, 1, SHOAL_SHAPE(60), "x:0*4", 0, SHOAL_SHAPE(5, 12), NULL);

  shoal_way_t fused = parse(&b, "shoal.slice", 1, "{x:1 -> out:1@768..1536}~");
  const shoal_shape_t all = SHOAL_SHAPE(5, 2304), one = SHOAL_SHAPE(5, 768);
  assert_match(&b, &fused, 0, all, "x:1*3/64", 1, one, "x:1/64");
  assert_match(&b, &fused, 0, all, "x:1*(768/64,768/64,768/64)", 1, one, "x:1/64");
  assert_match(&b, &fused, 0, all, "x:1*(768/64,768/128,768/64)", 1, one, "x:1/128");
  assert_match(&b, &fused, 0, all, "x:1/64", 1, one, NULL);
  assert_match(&b, &fused, 1, one, "x:1/64", 0, all, "x:1*3/64");

  shoal_way_t conv = parse(&b, "shoal.conv", 2, "{x:2/2#5+1+0 -> out:2}");
  const shoal_shape_t image = SHOAL_SHAPE(1, 2, 9, 7), out = SHOAL_SHAPE(1, 3, 5, 7);
  assert_match(&b, &conv, 0, image, "x:2/2", 2, out, "x:2");  // halos apart
  assert_match(&b, &conv, 2, out, "x:2/2", 0, image, "x:2/4#3+1+0");
  assert_match(&b, &conv, 0, image, "x:2", 2, out, NULL);

  shoal_way_t sums = parse(&b, "shoal.matmul", 2, "{a:1, b:0 -> out:sum}~");
  assert_match(&b, &sums, 2, SHOAL_SHAPE(3, 7), "x:partial(sum)", 0, SHOAL_SHAPE(3, 5), "x:1");
  assert_match(&b, &sums, 2, SHOAL_SHAPE(3, 7), "x:partial(max)", 0, SHOAL_SHAPE(3, 5), NULL);
  assert_match(&b, &sums, 0, SHOAL_SHAPE(3, 5), "x:1/2", 1, SHOAL_SHAPE(5, 7), "x:0/2");
  bench_deinit(&b);
}

// ---- every way ---------------------------------------------------------------------------------

static const int64_t WEIGHTS[] = {1, 3, 2};

static bool cuts_alike(const shoal_cut_t *a, const shoal_cut_t *b) {
  const shoal_mesh_t mesh = {.axis_count = 1, .axes = {{"x", 3}}};
  shoal_layout_t x = {.mesh = &mesh, .cut_count = 1, .cuts = {*a}};
  shoal_layout_t y = {.mesh = &mesh, .cut_count = 1, .cuts = {*b}};
  return shoal_layout_equal(&x, &y);
}

// cut -> match -> cut is the same cut, and (if the operand shows all items) the same for every
// operand.
static int64_t check_operand(const shoal_call_t *call, const shoal_way_t *way, int32_t operand,
                             const shoal_item_cut_t *item_cut) {
  bool cuts;
  shoal_cut_t cut, again;
  shoal_item_cut_t found;
  const shoal_way_operand_t *o = &way->operands[operand];
  shoal_status_t status =
      shoal_way_cut(way, operand, operand_shape(call, operand), 0, item_cut, &cuts, &cut);
  if (status) {  // unequal chunks of a repeated dim
    assert_int_equal(shoal_status_code(status), SHOAL_UNSUPPORTED);
    shoal_status_free(status);
    return 0;
  }
  if (!cuts) return 0;
  assert_true(shoal_way_match(way, operand, operand_shape(call, operand), &cut, &found));
  for (int32_t i = 0; i < way->input_count + way->output_count; ++i) {
    bool shows_all = o->kind == SHOAL_OPERAND_FLAT || (o->kind == SHOAL_OPERAND_CUT && !o->length);
    if (i != operand && !shows_all) continue;
    shoal_cut_t first;
    status = shoal_way_cut(way, i, operand_shape(call, i), 0, item_cut, &cuts, &first);
    if (status) {
      shoal_status_free(status);
      continue;
    }
    if (!cuts) continue;
    assert_ok(shoal_way_cut(way, i, operand_shape(call, i), 0, &found, &cuts, &again));
    assert_true(cuts_alike(&first, &again));
  }
  return 1;
}

static void check_text(bench_t *b, const shoal_call_t *call, const shoal_way_t *way) {
  const shoal_op_t *op = call->op;
  const char *text = "", *again = "";
  shoal_way_t parsed;
  assert_ok(shoal_way_print(op, call->attrs, way, &b->arena, &text));
  assert_ok(shoal_way_parse(text, op, call->attrs, way->input_count, &b->arena, &parsed));
  assert_ok(shoal_way_print(op, call->attrs, &parsed, &b->arena, &again));
  assert_string_equal(text, again);
  assert_int_equal(parsed.any_order, way->any_order);
  assert_true(parsed.items == 0 || parsed.items == way->items);
  for (int32_t i = 0; i < way->input_count + way->output_count; ++i) {
    const shoal_way_operand_t *x = &way->operands[i], *y = &parsed.operands[i];
    assert_int_equal(x->kind, y->kind);
    if (x->kind == SHOAL_OPERAND_PARTIAL) assert_int_equal(x->reduce, y->reduce);
    if (x->kind != SHOAL_OPERAND_CUT) continue;
    assert_int_equal(x->dim, y->dim);
    assert_true(x->scale == y->scale && x->repeat == y->repeat && x->offset == y->offset);
    assert_true(x->length == y->length && x->before == y->before && x->after == y->after);
    assert_int_equal(x->dealt_by_items, y->dealt_by_items);
  }
}

static void test_every_way(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  int64_t checked = 0;
  for (int64_t i = 0; i < shoal_registry_count(b.registry); ++i) {
    const shoal_op_t *op = shoal_registry_op(b.registry, i);
    for (int32_t k = 0; op->cases && op->cases[k]; ++k) {
      shoal_call_t call = bench_call(&b, op, op->cases[k]);
      const shoal_rule_t *rule = bench_rule(&b, &call);
      for (int32_t w = 0; w < rule->way_count; ++w) {
        const shoal_way_t *way = &rule->ways[w];
        check_text(&b, &call, way);
        for (int32_t d = 0; d < 16; ++d) {
          shoal_item_cut_t deal = {.unit = 1 + d % 3, .weights = d % 2 ? WEIGHTS : NULL};
          bool windows = false;
          for (int32_t o = 0; o < way->input_count + way->output_count; ++o) {
            windows |= way->operands[o].length != 0;
          }
          if (d >= 8 && (!way->any_order || windows || way->items < 3)) continue;
          if (d >= 8 && d % 2 == 0) {
            deal.chunk_count = 2;
            deal.chunks[0] = (shoal_chunk_t){(way->items + 1) / 2, 0};
            deal.chunks[1] = (shoal_chunk_t){way->items / 2, d > 12 ? 2 : 0};
          } else if (d >= 8 && way->items % 3 == 0) {
            deal.chunk_count = 3;  // equal
          }
          for (int32_t o = 0; o < way->input_count + way->output_count; ++o) {
            checked += check_operand(&call, way, o, &deal);
          }
        }
      }
    }
  }
  assert_true(checked > 1000);
  bench_deinit(&b);
}

// ---- text --------------------------------------------------------------------------------------

static void test_parse_errors(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_way_t way;
  const shoal_op_t *matmul = bench_op(&b, "shoal.matmul"), *concat = bench_op(&b, "shoal.concat");
  static const struct {
    const char *text, *part;
  } wrong[] = {
      {"", "'{'"},
      {"{a:0 -> out:0", "'}'"},
      {"{a:0, out:0}", "no input 'out'"},
      {"{c:0 -> out:0}", "no input 'c'"},
      {"{a:0 -> outt:0}", "did you mean 'out'?"},
      {"{a:0, a:1 -> out:0}", "twice"},
      {"{a:9 -> out:0}", "no dim 9"},
      {"{a:0/0 -> out:0}", "at least 1"},
      {"{a:0@5..5 -> out:0}", "empty"},
      {"{a:0@5 -> out:0}", "'..'"},
      {"{a:0#3, b:0#4 -> out:0}", "disagree"},
      {"{a:0+1 -> out:0}", "'+'"},
      {"{a:average -> out:0}", "number"},
      {"{a:0 -> out:0}~ more", "behind"},
      {"{a:0*99999999999 -> out:0}", "too large"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    shoal_status_t status = shoal_way_parse(wrong[i].text, matmul, NULL, 2, &b.arena, &way);
    if (!status) fail_msg("parsed: %s", wrong[i].text);
    if (!strstr(shoal_status_message(status), wrong[i].part)) {
      fail_msg("%s: %s, not '%s'", wrong[i].text, shoal_status_message(status), wrong[i].part);
    }
    shoal_status_free(status);
  }
  assert_error(INVALID_ARGUMENT, "3 inputs",
               shoal_way_parse("{-> out:0}", matmul, NULL, 3, &b.arena, &way));
  assert_error(INVALID_ARGUMENT, "xs[2]",
               shoal_way_parse("{xs[2]:0 -> out:0}", concat, NULL, 2, &b.arena, &way));
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cuts),
      cmocka_unit_test(test_matches),
      cmocka_unit_test(test_every_way),
      cmocka_unit_test(test_parse_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

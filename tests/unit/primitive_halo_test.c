// Halo exchange against a serial convolution: 20,000 and more random windows along one dim and
// thousands along two, the ranks simulated in one thread by running their plans; then a sample
// really exchanged between threads, the interior computed while the halo is under way. All kinds
// that DistDL gets wrong must occur: halos wider than a neighbour's part, ranks without output,
// links: primitive launch
// more padding than the window reaches, parts of other sizes.
#include "primitive/primitive_impl.h"
#include "primitive_model.h"

enum { RANKS = 6, LINE = 4096 };

// ---- serial ---------------------------------------------------------------------------

// Letters as in primitive/halo.c. Weights differ for every tap.
static double weight(int64_t tap) {
  return (double)(tap * 7 % 5) - 2 + (double)(tap % 3);
}

static int64_t output_size(const shoal_stencil_t *w, int64_t n) {
  const int64_t room = n + w->before + w->after - w->dilation * (w->kernel - 1) - 1;
  return room < 0 ? 0 : room / w->stride + 1;
}

// Output j of a convolution over n elements with padding, `step` apart in memory.
static double convolve(const shoal_stencil_t *w, const double *x, int64_t n, int64_t step,
                       int64_t j) {
  double sum = 0;
  for (int64_t i = 0; i < w->kernel; ++i) {
    const int64_t at = j * w->stride - w->before + i * w->dilation;
    if (at >= 0 && at < n) sum += weight(i) * x[at * step];
  }
  return sum;
}

// ---- ranks in one thread --------------------------------------------------------------

typedef struct simulated {
  shoal_primitive_plan_t plan;
  double x[LINE], y[LINE];  // source part, destination part
  double staging[4 * LINE];
  shoal_message_t sends[2 * RANKS], recvs[2 * RANKS];
} simulated_t;

static simulated_t ranks[RANKS + 1];

// Message k from a to b goes to the k-th that b receives from a.
static void deliver(int32_t n, const shoal_motion_t *const *motions) {
  for (int32_t a = 0; a < n; ++a) {
    int32_t next[RANKS + 1] = {0};
    for (int32_t i = 0; i < motions[a]->send_count; ++i) {
      const shoal_message_t *send = &ranks[a].sends[i];
      simulated_t *to = &ranks[send->peer];
      int32_t *k = &next[send->peer];
      while (*k < motions[send->peer]->recv_count && to->recvs[*k].peer != a) ++*k;
      assert_true(*k < motions[send->peer]->recv_count);
      assert_int_equal(to->recvs[*k].bytes, send->bytes);
      memcpy(to->recvs[(*k)++].data, send->data, (size_t)send->bytes);
    }
  }
}

static void simulate(int32_t n, bool adjoint) {
  const shoal_motion_t *motions[RANKS + 1] = {0};
  int64_t sent = 0, received = 0;
  for (int32_t i = 0; i < n; ++i) {
    simulated_t *r = &ranks[i];
    motions[i] = adjoint ? &r->plan.adjoint : &r->plan.forward;
    assert_true(motions[i]->staging <= (int64_t)sizeof r->staging);
    assert_true(motions[i]->send_count <= 2 * RANKS && motions[i]->recv_count <= 2 * RANKS);
    shoal_motion_pack(motions[i], adjoint ? r->y : r->x, adjoint ? r->x : r->y, r->staging,
                      r->sends, r->recvs);
    sent += motions[i]->send_count;
    received += motions[i]->recv_count;
  }
  assert_int_equal(sent, received);
  deliver(n, motions);
  for (int32_t i = 0; i < n; ++i) {
    simulated_t *r = &ranks[i];
    const void *input = adjoint ? r->y : r->x;
    void *output = adjoint ? r->x : r->y;
    shoal_motion_begin(motions[i], input, output);
    shoal_motion_finish(motions[i], input, output, r->recvs, NULL);
  }
}

static void plan_ranks(int32_t n, const shoal_shape_t *shape, const shoal_holding_t *src,
                       const shoal_holding_t *dst, shoal_arena_t *arena) {
  for (int32_t i = 0; i < n; ++i) {
    assert_ok(shoal_primitive_plan(SHOAL_F64, shape, src, dst, true, i, arena, &ranks[i].plan));
    assert_true(ranks[i].plan.forward.input_count <= LINE);
    assert_true(ranks[i].plan.forward.output_count <= LINE);
  }
}

// <F x, y> = <x, F* y> with data of its own on each rank; leaves x and y in disorder.
static void simulate_products(int32_t n, uint64_t seed) {
  double forward = 0, adjoint = 0;
  static double x[RANKS + 1][LINE], y[RANKS + 1][LINE];
  for (int32_t i = 0; i < n; ++i) {
    const shoal_motion_t *motion = &ranks[i].plan.forward;
    for (int64_t k = 0; k < motion->input_count; ++k) {
      ranks[i].x[k] = x[i][k] = small(mix(seed, (uint64_t)i), k);
    }
    for (int64_t k = 0; k < motion->output_count; ++k) {
      y[i][k] = small(mix(seed, 100 + (uint64_t)i), k);
      ranks[i].y[k] = 1e30;
    }
  }
  simulate(n, false);
  for (int32_t i = 0; i < n; ++i) {
    const shoal_motion_t *motion = &ranks[i].plan.forward;
    for (int64_t k = 0; k < motion->output_count; ++k) forward += ranks[i].y[k] * y[i][k];
    memcpy(ranks[i].y, y[i], (size_t)motion->output_count * sizeof(double));
    for (int64_t k = 0; k < motion->input_count; ++k) ranks[i].x[k] = 1e30;
  }
  simulate(n, true);
  for (int32_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < ranks[i].plan.forward.input_count; ++k) {
      adjoint += ranks[i].x[k] * x[i][k];
    }
  }
  assert_true(forward == adjoint);
}

// ---- one dim --------------------------------------------------------------------------

typedef struct seen {
  int64_t configurations, wide, no_output, no_input, over_padded, uneven, only_padding, cuts;
} seen_t;

typedef struct line {  // one configuration
  shoal_stencil_t window;
  int64_t n, parts, outputs[RANKS];
  char text[160];
} line_t;

static line_t random_line(randoms_t *r) {
  line_t c = {.n = pick(r, 0, 40), .parts = pick(r, 1, RANKS)};
  c.window = (shoal_stencil_t){.kernel = pick(r, 1, 7),
                               .stride = pick(r, 1, 4),
                               .dilation = pick(r, 1, 3),
                               .before = pick(r, 0, 4),
                               .after = pick(r, 0, 4)};
  if (pick(r, 0, 2)) c.window.after = c.window.before;
  if (pick(r, 0, 9) == 0) c.window.before = c.window.after = pick(r, 0, 25);
  if (pick(r, 0, 9) == 0) c.window.kernel = pick(r, 8, 20);
  if (pick(r, 0, 4) == 0) c.n = pick(r, 0, 9);
  snprintf(c.text, sizeof c.text, "n=%d k=%d s=%d d=%d p=%d,%d ranks=%d", (int)c.n,
           (int)c.window.kernel, (int)c.window.stride, (int)c.window.dilation, (int)c.window.before,
           (int)c.window.after, (int)c.parts);
  return c;
}

#define EXPECT(condition, c)                                  \
  do {                                                        \
    if (!(condition)) fail_msg("%s: " #condition, (c)->text); \
  } while (0)

// Parts cover outputs and inputs in order; what kinds of trouble are there?
static void check_geometry(const line_t *c, const shoal_stencil_split_t *split, seen_t *seen) {
  int64_t outputs = 0, inputs = 0;
  bool wide = false, none = false, padding = false, no_input = false, uneven = false;
  for (int64_t i = 0; i < c->parts; ++i) {
    const shoal_stencil_part_t *part = &split->parts[i];
    EXPECT(part->output.start == outputs || part->output.size == 0, c);
    EXPECT(part->owned.start == inputs || part->owned.size == 0, c);
    outputs += part->output.size;
    inputs += part->owned.size;
    const int64_t owned_to = part->owned.start + part->owned.size;
    const int64_t left = i > 0 ? split->parts[i - 1].owned.size : 0;
    const int64_t right = i + 1 < c->parts ? split->parts[i + 1].owned.size : 0;
    none |= part->output.size == 0;
    no_input |= part->owned.size == 0;
    uneven |= part->output.size != split->parts[0].output.size;
    padding |= part->output.size > 0 && part->needed.size == 0;
    if (part->needed.size == 0) continue;
    wide |= part->owned.start - part->needed.start > left;
    wide |= part->needed.start + part->needed.size - owned_to > right;
  }
  EXPECT(outputs == output_size(&c->window, c->n) && outputs == split->output_size, c);
  EXPECT(inputs == c->n, c);
  ++seen->configurations;
  seen->wide += wide;
  seen->no_output += none;
  seen->no_input += no_input;
  seen->uneven += uneven;
  seen->only_padding += padding;
  seen->over_padded +=
      c->window.before + c->window.after > c->window.dilation * (c->window.kernel - 1);
}

// A kernel without padding over what a rank has: exactly its outputs, with the serial values.
static void check_local(const line_t *c, const shoal_stencil_part_t *part, const double *needed,
                        const double *x) {
  double padded[512] = {0};
  const int64_t length = part->pad_before + part->needed.size + part->pad_after;
  EXPECT(length < 512 && part->pad_before >= 0 && part->pad_after >= 0, c);
  for (int64_t i = 0; i < part->needed.size; ++i) padded[part->pad_before + i] = needed[i];
  shoal_stencil_t bare = c->window;
  bare.before = bare.after = 0;
  if (part->output.size > 0) EXPECT(output_size(&bare, length) == part->output.size, c);
  for (int64_t j = 0; j < part->output.size; ++j) {
    EXPECT(convolve(&bare, padded, length, 1, j) ==
               convolve(&c->window, x, c->n, 1, part->output.start + j),
           c);
  }
  // Inner outputs: all that read nothing but owned inputs (or padding at the ends of the whole).
  const shoal_interval_t inner = shoal_stencil_inner(&c->window, c->n, part);
  const int64_t reach = c->window.dilation * (c->window.kernel - 1), from = part->owned.start;
  const int64_t to = from + part->owned.size;
  for (int64_t j = part->output.start; j < part->output.start + part->output.size; ++j) {
    const int64_t low = j * c->window.stride - c->window.before, high = low + reach;
    const bool expected = to > from && (from == 0 || low >= from) && (to == c->n || high < to);
    EXPECT((j >= inner.start && j < inner.start + inner.size) == expected, c);
  }
}

// The constant cut, as a layout: it holds what is needed from the same start.
static void check_cut(const line_t *c, const shoal_stencil_split_t *split, const shoal_mesh_t *mesh,
                      shoal_arena_t *arena, seen_t *seen) {
  EXPECT(split->constant == (split->output_size > 0), c);
  if (!split->constant) return;
  shoal_layout_t layout = {.mesh = mesh, .cut_count = 1, .cuts = {split->cut}}, parsed;
  const shoal_shape_t shape = {1, {c->n}};
  assert_ok(
      shoal_layout_parse(shoal_arena_printf(arena, "x:0%s", split->text), mesh, 1, arena, &parsed));
  EXPECT(shoal_layout_equal(&layout, &parsed), c);
  for (int64_t i = 0; i < c->parts; ++i) {
    shoal_boxes_t boxes;
    assert_ok(shoal_layout_boxes(&layout, &shape, i, 0, arena, &boxes));
    const shoal_interval_t needed = split->parts[i].needed;
    const shoal_dim_part_t *dim = &boxes.dims[0];
    if (needed.size == 0) continue;
    EXPECT(dim->held_count == 1 && dim->held[0].start == needed.start, c);
    EXPECT(dim->held_size >= needed.size, c);
    const shoal_interval_t last = split->parts[i].output;
    if (last.start + last.size < split->output_size) EXPECT(dim->held_size == needed.size, c);
    ++seen->cuts;
  }
}

static void run_line(const line_t *c, bool tied, uint64_t seed, seen_t *seen) {
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_mesh_t mesh = {.axis_count = 1, .axes = {{.name = "x", .size = c->parts}}};
  shoal_layout_t layout = {.mesh = &mesh, .cut_count = 1, .cuts = {{.axis = 0, .dim = 0}}};
  const shoal_shape_t shape = {1, {c->n}};
  if (tied && output_size(&c->window, c->n) > 0) {  // inputs dealt as the outputs are
    layout.cuts[0].unit = c->window.stride;
    layout.cuts[0].items = output_size(&c->window, c->n);
  }
  const shoal_holding_t src = {.layout = &layout, .micro = -1};
  shoal_holding_t dst;
  const shoal_stencil_part_t *geometry;
  assert_ok(shoal_halo_plan(&layout, &shape, &c->window, &arena, &dst, &geometry));
  const shoal_stencil_split_t split = {
      .output_size = output_size(&c->window, c->n), .part_count = c->parts, .parts = geometry};
  check_geometry(c, &split, seen);
  if (!c->window.outputs) {
    shoal_stencil_split_t dealt;
    assert_ok(shoal_stencil_deal(&c->window, c->n, c->parts, NULL, &arena, &dealt));
    check_cut(c, &dealt, &mesh, &arena, seen);
  }
  plan_ranks((int32_t)c->parts, &shape, &src, &dst, &arena);
  double x[512];
  for (int64_t i = 0; i < c->n; ++i) x[i] = small(seed, i);
  for (int64_t i = 0; i < c->parts; ++i) {
    const shoal_interval_t owned = geometry[i].owned;
    EXPECT(ranks[i].plan.forward.input_count == owned.size, c);
    EXPECT(ranks[i].plan.forward.output_count == geometry[i].needed.size, c);
    memcpy(ranks[i].x, x + owned.start, (size_t)owned.size * sizeof *x);
    for (int64_t k = 0; k < geometry[i].needed.size; ++k) ranks[i].y[k] = 1e30;
  }
  simulate((int32_t)c->parts, false);
  for (int64_t i = 0; i < c->parts; ++i) check_local(c, &geometry[i], ranks[i].y, x);
  simulate_products((int32_t)c->parts, seed);
  shoal_arena_deinit(&arena);
}

static void test_lines(void **state) {
  (void)state;
  enum { CONFIGURATIONS = 20000, UNBALANCED = 2000 };
  seen_t seen = {0};
  randoms_t r = {2024};
  for (int i = 0; i < CONFIGURATIONS; ++i) {
    line_t c = random_line(&r);
    run_line(&c, i % 3 == 0, (uint64_t)i, &seen);
  }
  for (int i = 0; i < UNBALANCED; ++i) {  // outputs as given, not balanced
    line_t c = random_line(&r);
    int64_t left = output_size(&c.window, c.n);
    for (int64_t k = 0; k < c.parts; ++k) {
      c.outputs[k] = k + 1 == c.parts ? left : pick(&r, 0, left);
      left -= c.outputs[k];
    }
    c.window.outputs = c.outputs;
    run_line(&c, false, (uint64_t)i, &seen);
  }
  print_message(
      "%d configurations: %d with a halo wider than a neighbour, %d with ranks without "
      "output, %d without input, %d over-padded, %d uneven, %d with outputs of padding; "
      "%d cuts\n",
      (int)seen.configurations, (int)seen.wide, (int)seen.no_output, (int)seen.no_input,
      (int)seen.over_padded, (int)seen.uneven, (int)seen.only_padding, (int)seen.cuts);
  assert_int_equal(seen.configurations, CONFIGURATIONS + UNBALANCED);
  assert_true(seen.wide > 1000 && seen.no_output > 1000 && seen.no_input > 1000);
  assert_true(seen.over_padded > 1000 && seen.uneven > 1000 && seen.only_padding > 100);
  assert_true(seen.cuts > 10000);
}

// ---- two dims, and copies along a third axis ------------------------------------------

typedef struct plane {
  shoal_stencil_t window[2];
  shoal_shape_t shape;
  int64_t a, b, copies;
  bool nested;  // both axes cut dim 0
} plane_t;

static plane_t random_plane(randoms_t *r) {
  plane_t c = {.a = pick(r, 1, 3), .b = pick(r, 1, 2), .copies = 1, .nested = pick(r, 0, 3) == 0};
  if (c.a * c.b <= 3) c.copies = pick(r, 1, 2);
  c.shape = (shoal_shape_t){2, {pick(r, 1, 12), pick(r, 1, 12)}};
  for (int d = 0; d < 2; ++d) {
    c.window[d] = (shoal_stencil_t){.kernel = pick(r, 1, 5),
                                    .stride = pick(r, 1, 3),
                                    .dilation = pick(r, 1, 2),
                                    .before = pick(r, 0, 3),
                                    .after = pick(r, 0, 3)};
  }
  if (pick(r, 0, 4) == 0) c.window[1] = (shoal_stencil_t){0};  // no window along dim 1
  return c;
}

static shoal_layout_t plane_layout(const plane_t *c, shoal_mesh_t *mesh) {
  *mesh = (shoal_mesh_t){.axis_count = 3,
                         .axes = {{.name = "copy", .size = c->copies},
                                  {.name = "a", .size = c->a},
                                  {.name = "b", .size = c->b}}};
  return (shoal_layout_t){.mesh = mesh,
                          .cut_count = 2,
                          .cuts = {{.axis = 2, .dim = 0}, {.axis = 1, .dim = c->nested ? 0 : 1}}};
}

// Every element that a rank needs is there, at its place; copies take from their own row.
static double plane_value(int64_t copy, int64_t row, int64_t column) {
  return small(50 + (uint64_t)copy, row * 100 + column);
}

static void test_planes(void **state) {
  (void)state;
  enum { PLANES = 2000 };
  randoms_t r = {7};
  for (int i = 0; i < PLANES; ++i) {
    const plane_t c = random_plane(&r);
    shoal_arena_t arena;
    shoal_arena_init(shoal_allocator_system(), &arena);
    shoal_mesh_t mesh;
    const shoal_layout_t layout = plane_layout(&c, &mesh);
    const int32_t n = (int32_t)shoal_mesh_size(&mesh);
    const shoal_holding_t src = {.layout = &layout, .micro = -1};
    shoal_holding_t dst;
    const shoal_stencil_part_t *geometry;
    assert_ok(shoal_halo_plan(&layout, &c.shape, c.window, &arena, &dst, &geometry));
    plan_ranks(n, &c.shape, &src, &dst, &arena);
    for (int32_t k = 0; k < n; ++k) {
      const shoal_interval_t rows = geometry[2 * k].owned, columns = geometry[2 * k + 1].owned;
      for (int64_t e = 0; e < rows.size * columns.size; ++e) {
        ranks[k].x[e] = plane_value(k / (c.a * c.b), rows.start + e / columns.size,
                                    columns.start + e % columns.size);
      }
      for (int64_t e = 0; e < LINE; ++e) ranks[k].y[e] = 1e30;
    }
    simulate(n, false);
    for (int32_t k = 0; k < n; ++k) {
      const shoal_interval_t rows = geometry[2 * k].needed, columns = geometry[2 * k + 1].needed;
      assert_int_equal(ranks[k].plan.forward.output_count, rows.size * columns.size);
      for (int64_t e = 0; e < rows.size * columns.size; ++e) {
        assert_true(ranks[k].y[e] == plane_value(k / (c.a * c.b), rows.start + e / columns.size,
                                                 columns.start + e % columns.size));
      }
    }
    for (int32_t k = 0; k < n * n; ++k) {  // outputs lie near inputs: in the same order
      const shoal_stencil_part_t *left = &geometry[2 * (k / n)], *right = &geometry[2 * (k % n)];
      if (left->owned.size && right->owned.size && left->owned.start < right->owned.start) {
        assert_true(left->output.start <= right->output.start || right->output.size == 0);
      }
    }
    simulate_products(n, (uint64_t)i);
    shoal_arena_deinit(&arena);
  }
}

// ---- really exchanged -----------------------------------------------------------------

enum { SAMPLE = 120 };

typedef struct sample {
  line_t lines[SAMPLE];
  products_t products[SAMPLE];
  double results[SAMPLE][512];  // each rank writes its outputs
} sample_t;

// Output j from what a rank has of the input, starting at `from`: the rest must not matter.
static double convolve_part(const line_t *c, const double *part, shoal_interval_t has, int64_t j) {
  double line[128];
  for (int64_t i = 0; i < c->n; ++i) {
    const bool there = i >= has.start && i < has.start + has.size;
    line[i] = there ? part[i - has.start] : 0;
  }
  return convolve(&c->window, line, c->n, 1, j);
}

// Dim 0 is a batch of 2; the window runs along dim 1. Inner outputs are computed before wait.
static shoal_status_t exchange(shoal_world_t *world, const line_t *c, products_t *products,
                               double *results, uint64_t seed) {
  const int32_t rank = shoal_world_rank(world);
  shoal_mesh_t mesh = {.axis_count = 1, .axes = {{.name = "x", .size = c->parts}}};
  shoal_layout_t layout = {.mesh = &mesh, .cut_count = 1, .cuts = {{.axis = 0, .dim = 1}}};
  const shoal_shape_t shape = {2, {2, c->n}};
  const shoal_stencil_t stencils[2] = {{0}, c->window};
  shoal_primitive_t *p = NULL;
  SHOAL_RETURN_IF_ERROR(
      shoal_primitive_halo(world, SHOAL_F64, &shape, &layout, stencils, NULL, &p));
  const shoal_stencil_part_t part = shoal_primitive_stencil(p, 1);
  const int64_t outputs = output_size(&c->window, c->n);
  double x[256], y[256];
  for (int64_t e = 0; e < 2 * part.owned.size; ++e) {
    x[e] = small(seed, e / part.owned.size * 1000 + part.owned.start + e % part.owned.size);
  }
  for (int64_t e = 0; e < 2 * part.needed.size; ++e) y[e] = 1e30;
  shoal_status_t status = shoal_primitive_start(p, x, y);
  // What is there after start, as the interior says; outputs of it only.
  const shoal_box_t *boxes;
  int64_t count;
  shoal_primitive_interior(p, &boxes, &count);
  const shoal_interval_t inner = shoal_stencil_inner(&c->window, c->n, &part);
  shoal_interval_t there = {0};
  if (count == 1) there = (shoal_interval_t){boxes[0].start[1], boxes[0].size[1]};
  for (int batch = 0; batch < 2 && !status; ++batch) {
    const double *row = y + batch * part.needed.size + (there.start - part.needed.start);
    for (int64_t j = inner.start; j < inner.start + inner.size; ++j) {
      results[batch * 256 + j] = convolve_part(c, row, there, j);
    }
  }
  if (!status) status = shoal_primitive_wait(p);
  for (int batch = 0; batch < 2 && !status; ++batch) {
    for (int64_t j = part.output.start; j < part.output.start + part.output.size; ++j) {
      if (j >= inner.start && j < inner.start + inner.size) continue;
      results[batch * 256 + j] = convolve_part(c, y + batch * part.needed.size, part.needed, j);
    }
  }
  if (!status && outputs > 256) status = SHOAL_ERROR(INTERNAL, "%s", c->text);
  if (!status) status = inner_products(p, rank, seed, products);
  shoal_primitive_free(p);
  return status;
}

static shoal_status_t exchange_all(shoal_world_t *world, void *self) {
  sample_t *sample = self;
  for (int i = 0; i < SAMPLE; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_status_annotate(
        exchange(world, &sample->lines[i], &sample->products[i], sample->results[i], (uint64_t)i),
        sample->lines[i].text));
  }
  return NULL;
}

static void test_exchanged(void **state) {
  (void)state;
  static sample_t sample;
  randoms_t r = {99};
  for (int32_t n = 1; n <= RANKS + 1; ++n) {
    memset(&sample, 0, sizeof sample);
    for (int i = 0; i < SAMPLE; ++i) {
      line_t *c = &sample.lines[i];
      *c = random_line(&r);
      if (c->parts > n) c->parts = n;  // fewer than n: the others are inactive
    }
    run_threads(NULL, n, exchange_all, &sample);
    for (int i = 0; i < SAMPLE; ++i) {
      const line_t *c = &sample.lines[i];
      double x[2][64];
      for (int64_t e = 0; e < 2 * c->n; ++e) {
        x[e / c->n][e % c->n] = small((uint64_t)i, e / c->n * 1000 + e % c->n);
      }
      for (int64_t j = 0; j < output_size(&c->window, c->n); ++j) {
        EXPECT(sample.results[i][j] == convolve(&c->window, x[0], c->n, 1, j), c);
        EXPECT(sample.results[i][256 + j] == convolve(&c->window, x[1], c->n, 1, j), c);
      }
      check_products(&sample.products[i], n, c->text);
    }
  }
}

// ---- refusals -------------------------------------------------------------------------

static shoal_status_t refused(shoal_world_t *world, void *self) {
  (void)self;
  const shoal_shape_t shape = {2, {6, 4}};
  shoal_mesh_t mesh = {.axis_count = 1, .axes = {{.name = "a", .size = 2}}};
  shoal_layout_t layout = {.mesh = &mesh, .cut_count = 1, .cuts = {{.axis = 0, .dim = 0}}};
  shoal_stencil_t stencils[2] = {{.kernel = 3}, {0}};
  shoal_primitive_t *p = NULL;
#define HALO() shoal_primitive_halo(world, SHOAL_F32, &shape, &layout, stencils, NULL, &p)
  stencils[0].stride = -1;
  CHECK_ERROR(INVALID_ARGUMENT, "along dim 0: a window of kernel 3, stride -1", HALO());
  stencils[0] = (shoal_stencil_t){.kernel = 3, .before = -1};
  CHECK_ERROR(INVALID_ARGUMENT, "padding -1", HALO());
  stencils[0] = (shoal_stencil_t){.kernel = INT64_C(1) << 40};
  CHECK_ERROR(UNSUPPORTED, "numbers beyond", HALO());
  const int64_t few[2] = {1, 1}, many[2] = {3, 3}, negative[2] = {-1, 5};
  stencils[0] = (shoal_stencil_t){.kernel = 3, .outputs = few};
  CHECK_ERROR(INVALID_ARGUMENT, "2 of 4 outputs are given", HALO());
  stencils[0].outputs = many;
  CHECK_ERROR(INVALID_ARGUMENT, "part 1 is to compute 3 outputs behind 3 of 4", HALO());
  stencils[0].outputs = negative;
  CHECK_ERROR(INVALID_ARGUMENT, "part 0 is to compute -1 outputs", HALO());
  stencils[0] = (shoal_stencil_t){.kernel = 3};
  layout.cuts[0].kind = SHOAL_CUT_FLAT;
  CHECK_ERROR(UNSUPPORTED, "flat parts", HALO());
  layout.cuts[0].kind = SHOAL_CUT_PARTIAL;
  CHECK_ERROR(UNSUPPORTED, "partial layout", HALO());
  layout.cuts[0] = (shoal_cut_t){.axis = 0, .dim = 0, .chunk_count = 3};
  CHECK_ERROR(UNSUPPORTED, "not one box, along dim 0", HALO());
  CHECK(p == NULL, "an output is set after an error");
  // No outputs at all: every part is empty, and nothing happens.
  layout.cuts[0] = (shoal_cut_t){.axis = 0, .dim = 0};
  stencils[0].kernel = 9;
  SHOAL_RETURN_IF_ERROR(HALO());
  float x[12] = {1};
  SHOAL_RETURN_IF_ERROR(shoal_primitive_apply(p, x, NULL));
  SHOAL_RETURN_IF_ERROR(shoal_primitive_apply_adjoint(p, NULL, x));
  CHECK(x[0] == 0 && shoal_primitive_stencil(p, 0).output.size == 0,
        "unread inputs have gradients");
  shoal_primitive_free(p);
  return NULL;
}

static void test_refused(void **state) {
  (void)state;
  run_threads(NULL, 2, refused, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lines),
      cmocka_unit_test(test_planes),
      cmocka_unit_test(test_exchanged),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

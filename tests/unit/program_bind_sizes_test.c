// What binding says of sizes at all ranks together: the largest part of a layout, the largest
// workspace of a reshard, alone and together with others, against every rank bound by itself.
#include "base/text.h"
#include "program/program_impl.h"
#include "program_support.h"
#include "shoal/program.h"
#include "unit/random.h"

static void largest_parts(void **state) {
  (void)state;
  static const struct {
    const char *mesh, *layout;
    int64_t rows;  // of 100
  } sizes[] = {{"d=3", "", 100},
               {"d=3", "d:0", 34},
               {"d=64", "d:0/7", 7},
               {"d=64", "d:0+1+1", 4},
               {"d=20", "d:0+1+1", 7},
               {"d=64", "d:0+3+3", 8},
               {"d=3", "d:0(1,8,1)", 80},
               {"d=16,micro=16", "micro:0", 7},
               {"d=2,micro=16", "micro:0,d:0", 4},
               {"d=12", "d:0#3", 98},
               {"micro=12", "micro:0#3", 98},
               {"d=7", "d:flat", 15},
               {"d=3,micro=20", "micro:partial(sum),d:partial(sum)", 100}};
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    shoal_mesh_t mesh;
    shoal_layout_t layout;
    shoal_type_t type = {SHOAL_F64, SHOAL_SHAPE(100)};
    int64_t bytes;
    assert_ok(shoal_mesh_parse(sizes[i].mesh, &arena, &mesh));
    assert_ok(shoal_layout_parse(sizes[i].layout, &mesh, 1, &arena, &layout));
    assert_ok(shoal_layout_largest(&layout, &type, NULL, shoal_allocator_system(), &bytes));
    assert_int_equal(bytes, 8 * sizes[i].rows);
  }
  shoal_arena_deinit(&arena);
}

static const char *random_layout(random_t *r, shoal_arena_t *a) {
  static const char *const axes[] = {"micro", "d", "e"};
  const char *text = "";
  for (int i = 0; i < 3 && text; ++i) {
    if (draw(r, 4) == 0) continue;
    text = shoal_arena_printf(a, "%s%s%s:%u", text, text[0] ? "," : "", axes[i], draw(r, 2));
    if (draw(r, 6) == 0) text = shoal_arena_printf(a, "%s*%u", text, 1 + draw(r, 3));
    if (draw(r, 3) == 0) text = shoal_arena_printf(a, "%s/%u", text, 1 + draw(r, 5));
    if (draw(r, 6) == 0) text = shoal_arena_printf(a, "%s#%u", text, draw(r, 30));
    if (draw(r, 3) > 0) continue;
    text = shoal_arena_printf(a, "%s%+d%+d", text, (int)draw(r, 9) - 2, (int)draw(r, 9) - 2);
  }
  return text && draw(r, 8) == 0 ? shoal_arena_printf(a, "%s,e:flat/3", text) : text;
}

// Looking at some coordinates finds what looking at all of them does.
static void largest_of_all(void **state) {
  (void)state;
  int compared = 0;
  for (uint64_t round = 0; round < 3000; ++round) {
    random_t r = {.seed = 3, .round = round};
    shoal_arena_t arena;
    shoal_arena_init(shoal_allocator_system(), &arena);
    const char *mesh_text = shoal_arena_printf(&arena, "d=%u,e=%u,micro=%u", 1 + draw(&r, 40),
                                               1 + draw(&r, 12), 1 + draw(&r, 20));
    const char *text = random_layout(&r, &arena);
    shoal_type_t type = {SHOAL_U8, SHOAL_SHAPE(draw(&r, 120), draw(&r, 60))};
    shoal_mesh_t mesh;
    shoal_layout_t layout;
    assert_ok(shoal_mesh_parse(mesh_text, &arena, &mesh));
    shoal_status_t status = shoal_layout_parse(text, &mesh, 1, &arena, &layout);
    if (!status) status = shoal_layout_check(&layout, &type.shape);
    int64_t bytes = 0, most = 0;
    for (int64_t p = 0; !status && p < shoal_mesh_size(&mesh) * mesh.micro; ++p) {
      shoal_boxes_t boxes;
      assert_ok(
          shoal_layout_boxes(&layout, &type.shape, p / mesh.micro, p % mesh.micro, &arena, &boxes));
      shoal_shape_t shape = shoal_boxes_shape(&boxes);
      if (shoal_shape_count(&shape) > most) most = shoal_shape_count(&shape);
    }
    if (!status) {
      ++compared;
      assert_ok(shoal_layout_largest(&layout, &type, NULL, shoal_allocator_system(), &bytes));
    }
    if (bytes != most) {
      fail_msg("mesh %s, layout '%s' of [%lld, %lld]: %lld found, %lld is right", mesh_text, text,
               (long long)type.shape.dims[0], (long long)type.shape.dims[1], (long long)bytes,
               (long long)most);
    }
    shoal_status_free(status);
    shoal_arena_deinit(&arena);
  }
  print_message("%d layouts compared\n", compared);
  assert_true(compared > 1000);
}

// `text` with the micro-batches of `other` in the place of its own.
static const char *with_micro_of(const char *other, const char *text, shoal_arena_t *a) {
  const char *rest = strncmp(text, "micro", 5) == 0 ? strchr(text, ',') : NULL;
  if (rest)
    text = rest + 1;
  else if (strncmp(text, "micro", 5) == 0)
    text = "";
  if (strncmp(other, "micro", 5) != 0) return text;
  return shoal_arena_printf(a, "%.*s%s%s", (int)strcspn(other, ","), other, text[0] ? "," : "",
                            text);
}

// The workspace of a channel is what its neediest rank stages in its neediest micro-batch, exactly,
// however few of them were looked at.
static void workspaces_of_all(void **state) {
  (void)state;
  int compared = 0, staged = 0, collectives = 0;
  for (uint64_t round = 0; round < 4000; ++round) {
    random_t r = {.seed = 5, .round = round};
    shoal_arena_t arena;
    shoal_arena_init(shoal_allocator_system(), &arena);
    const char *mesh_text = shoal_arena_printf(&arena, "d=%u,e=%u,micro=%u", 1 + draw(&r, 4),
                                               1 + draw(&r, 3), 1 + draw(&r, 20));
    const char *from = random_layout(&r, &arena), *to = random_layout(&r, &arena);
    if (draw(&r, 4) > 0) to = with_micro_of(from, to, &arena);
    shoal_mesh_t mesh;
    shoal_channel_t channel = {.micro = true};
    channel.type = (shoal_type_t){SHOAL_F32, SHOAL_SHAPE(draw(&r, 50), draw(&r, 20))};
    assert_ok(shoal_mesh_parse(mesh_text, &arena, &mesh));
    shoal_layout_t src, dst;
    channel.src = &src;
    channel.dst = &dst;
    shoal_status_t status = shoal_layout_parse(from, &mesh, 1, &arena, &src);
    if (!status) status = shoal_layout_parse(to, &mesh, 1, &arena, &dst);
    if (!status) status = shoal_layout_check(channel.src, &channel.type.shape);
    if (!status) status = shoal_layout_check(channel.dst, &channel.type.shape);
    int64_t found = 0, most = 0;
    if (!status) status = shoal_channel_workspace(&channel, mesh.micro, NULL, &arena, &found);
    for (int64_t m = 0; !status && m < mesh.micro; ++m) {
      shoal_reshard_facts_t facts;
      status = shoal_channel_describe(&channel, m, arena.allocator, &facts);
      if (status) break;
      collectives += facts.collective;
      for (int32_t p = 0; p < shoal_mesh_size(&mesh); ++p) {
        shoal_bound_buffer_t input = {.count = 0}, output = {.count = 0};
        shoal_boxes_t boxes;
        assert_ok(shoal_layout_boxes(channel.src, &channel.type.shape, p,
                                     shoal_program_micro_of(channel.src, m), &arena, &boxes));
        shoal_shape_t shape = shoal_boxes_shape(&boxes);
        input.count = shoal_shape_count(&shape);
        assert_ok(shoal_layout_boxes(channel.dst, &channel.type.shape, p,
                                     shoal_program_micro_of(channel.dst, m), &arena, &boxes));
        shape = shoal_boxes_shape(&boxes);
        output.count = shoal_shape_count(&shape);
        shoal_motion_t motion;
        assert_ok(shoal_bind_reshard(&channel, m, p, &input, &output, &facts, &arena, &motion));
        if (motion.staging > most && !shoal_motion_only_sends(&motion)) most = motion.staging;
      }
    }
    compared += !status;
    staged += most > 0;
    if (!status && found != most) {
      fail_msg("mesh %s, '%s' to '%s' of [%lld, %lld]: %lld found, %lld is right", mesh_text, from,
               to, (long long)channel.type.shape.dims[0], (long long)channel.type.shape.dims[1],
               (long long)found, (long long)most);
    }
    shoal_status_free(status);
    shoal_arena_deinit(&arena);
  }
  print_message("%d channels compared, %d with messages to pack, %d collectives\n", compared,
                staged, collectives);
  assert_true(compared > 500 && staged > 100 && collectives > 100);
}

// The same for values that go together, of several types and layouts: packed in common messages, or
// one collective, they need no more than the neediest rank of all of them together.
enum { TOGETHER = 3 };

static shoal_status_t stage_together(const shoal_channel_t *channels, int32_t rank, int64_t micro,
                                     shoal_arena_t *arena, bool *out_collective,
                                     int64_t *out_bytes) {
  static const int32_t numbers[TOGETHER] = {0, 1, 2};
  shoal_reshard_facts_t facts[TOGETHER];
  shoal_dtype_t dtypes[TOGETHER];
  shoal_motion_t *motions = SHOAL_NEW(arena, shoal_motion_t, TOGETHER);
  shoal_bundle_t bundle;
  for (int i = 0; i < TOGETHER; ++i) {
    const shoal_channel_t *channel = &channels[i];
    shoal_bound_buffer_t sides[2] = {{.count = 0}};
    for (int side = 0; side < 2; ++side) {
      const shoal_layout_t *layout = side ? channel->dst : channel->src;
      shoal_boxes_t boxes;
      SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(layout, &channel->type.shape, rank,
                                               shoal_program_micro_of(layout, micro), arena,
                                               &boxes));
      const shoal_shape_t shape = shoal_boxes_shape(&boxes);
      sides[side].count = shoal_shape_count(&shape);
    }
    dtypes[i] = channel->type.dtype;
    SHOAL_RETURN_IF_ERROR(shoal_channel_describe(channel, micro, arena->allocator, &facts[i]));
    SHOAL_RETURN_IF_ERROR(shoal_bind_reshard(channel, micro, rank, &sides[0], &sides[1], &facts[i],
                                             arena, &motions[i]));
  }
  SHOAL_RETURN_IF_ERROR(shoal_bundle_check(TOGETHER, facts, dtypes, numbers));
  SHOAL_RETURN_IF_ERROR(shoal_bundle_plan(TOGETHER, motions, rank, arena, &bundle));
  *out_collective = facts[0].collective;
  *out_bytes = shoal_motion_only_sends(&bundle.whole) ? 0 : bundle.whole.staging;
  return NULL;
}

static const char *side_layout(random_t *r, int side, int pair, shoal_arena_t *a) {
  static const char *const collective[][2] = {{"d:0", ""},
                                              {"e:1,d:flat", "e:1"},
                                              {"d:0,e:1", "e:1"},
                                              {"d:partial(sum)", ""},
                                              {"d:partial(sum),e:1", "e:1"},
                                              {"d:partial(sum),e:1", "d:0,e:1"}};
  static const char *const others[] = {"", "e:1*2/3", "d:flat", "d:1,e:0", "e:1,d:flat"};
  if (pair < 6) return collective[pair][side];
  return draw(r, 2) ? others[draw(r, 5)] : random_layout(r, a);
}

static void workspaces_together(void **state) {
  (void)state;
  static const shoal_dtype_t types[] = {SHOAL_F32, SHOAL_F64, SHOAL_BF16};
  static const int32_t numbers[TOGETHER] = {0, 1, 2};
  int compared = 0, staged = 0, collectives = 0;
  for (uint64_t round = 0; round < 6000; ++round) {
    random_t r = {.seed = 6, .round = round};
    shoal_arena_t arena;
    shoal_arena_init(shoal_allocator_system(), &arena);
    shoal_mesh_t mesh;
    assert_ok(shoal_mesh_parse(shoal_arena_printf(&arena, "d=%u,e=%u,micro=%u", 1 + draw(&r, 5),
                                                  1 + draw(&r, 3), 1 + draw(&r, 9)),
                               &arena, &mesh));
    shoal_channel_t channels[TOGETHER];
    shoal_layout_t layouts[2 * TOGETHER];
    const char *texts[2 * TOGETHER];
    shoal_status_t status = NULL;
    const int pair = (int)draw(&r, 18);
    for (int i = 0; i < TOGETHER; ++i) {
      for (int side = 0; side < 2; ++side) {
        const int k = 2 * i + side;
        texts[k] = i > 0 && draw(&r, 2) ? texts[side] : side_layout(&r, side, pair, &arena);
        if (!status) status = shoal_layout_parse(texts[k], &mesh, 1, &arena, &layouts[k]);
      }
      channels[i] = (shoal_channel_t){
          .type = {types[draw(&r, 3)], SHOAL_SHAPE(draw(&r, 30), 1 + draw(&r, 9))},
          .src = &layouts[2 * i],
          .dst = &layouts[2 * i + 1],
          .micro = true};
      if (!status) status = shoal_layout_check(channels[i].src, &channels[i].type.shape);
      if (!status) status = shoal_layout_check(channels[i].dst, &channels[i].type.shape);
    }
    int64_t found = 0, most = 0;
    bool collective = false;
    for (int64_t m = 0; !status && m < mesh.micro; ++m) {
      for (int32_t p = 0; p < shoal_mesh_size(&mesh) && !status; ++p) {
        int64_t bytes = 0;
        status = stage_together(channels, p, m, &arena, &collective, &bytes);
        if (bytes > most) most = bytes;
      }
    }
    if (!status) {
      assert_ok(
          shoal_reshard_workspace(channels, TOGETHER, numbers, mesh.micro, NULL, &arena, &found));
      ++compared;
      staged += most > 0;
      collectives += collective;
    }
    if (!status && found != most) {
      fail_msg("round %llu, '%s' to '%s' and so on: %lld found, %lld is right",
               (unsigned long long)round, texts[0], texts[1], (long long)found, (long long)most);
    }
    shoal_status_free(status);
    shoal_arena_deinit(&arena);
  }
  print_message("%d bundles compared, %d with something to pack, %d collectives\n", compared,
                staged, collectives);
  assert_true(compared > 500 && staged > 100 && collectives > 50);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(largest_parts),
      cmocka_unit_test(largest_of_all),
      cmocka_unit_test(workspaces_of_all),
      cmocka_unit_test(workspaces_together),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

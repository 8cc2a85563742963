// Reshards of several values, executed: the same bits as one by one, on every kind of device, by
// threads and processes, over a slow link; and one operation instead of one for each value.
// links: run launch
#include "base/dtype.h"
#include "comm/comm_impl.h"
#include "comm_throttled.h"
#include "program/bind.h"
#include "run/run.h"
#include "run_support.h"

enum { VALUES = 6, ROOM = 2048, RUNS = 3 };

typedef struct value_case {
  shoal_dtype_t dtype;
  const char *shape, *src, *dst;
} value_case_t;

typedef struct bundle_case {
  const char *meshes[3];
  int32_t world;
  value_case_t values[VALUES];
} bundle_case_t;

#define SUMMED "data:partial(sum)"

static const bundle_case_t cases[] = {
    // one collective
    {{"data=1"}, 1, {{SHOAL_F32, "[7, 3]", SUMMED, ""}, {SHOAL_F32, "[2]", SUMMED, ""}}},
    {{"data=2"},
     2,
     {{SHOAL_F32, "[7, 3]", SUMMED, ""},
      {SHOAL_F32, "[]", SUMMED, ""},
      {SHOAL_F32, "[40, 5]", SUMMED, ""}}},
    {{"data=5"}, 5, {{SHOAL_BF16, "[7, 3]", SUMMED, ""}, {SHOAL_BF16, "[5]", SUMMED, ""}}},
    {{"data=3"},
     3,
     {{SHOAL_F32, "[6, 2]", SUMMED, "data:0"},
      {SHOAL_F32, "[3]", SUMMED, "data:0"},
      {SHOAL_F32, "[7, 3]", SUMMED, "data:flat"}}},
    {{"data=4"}, 4, {{SHOAL_F64, "[9, 2]", "data:0", ""}, {SHOAL_F64, "[5]", "data:0", ""}}},
    {{"data=3"},
     3,
     {{SHOAL_U8, "[7]", "data:0", ""},
      {SHOAL_F64, "[4, 2]", "data:0", ""},
      {SHOAL_BF16, "[3]", "data:flat", ""},
      {SHOAL_F32, "[5]", "data:0", ""}}},
    // empty on half of the groups
    {{"data=2,tensor=2"},
     4,
     {{SHOAL_F32, "[1, 4]", "tensor:0,data:partial(sum)", "tensor:0"},
      {SHOAL_F32, "[5]", "tensor:0,data:partial(sum)", "tensor:0"}}},
    {{"data=2,tensor=2"},
     4,
     {{SHOAL_F32, "[6]", "data:partial(max),tensor:0", "tensor:0"},
      {SHOAL_F32, "[5, 3]", "data:partial(max)", ""}}},
    // one message to each peer
    {{"data=4"},
     4,
     {{SHOAL_F32, "[7, 6]", "data:0", "data:1"},
      {SHOAL_U8, "[5, 5]", "data:1", "data:0"},
      {SHOAL_F64, "[8, 9]", "data:0", "data:flat"}}},
    {{"data=5"}, 5, {{SHOAL_F32, "[2]", "data:0", ""}, {SHOAL_F32, "[3, 2]", "data:0", ""}}},
    {{"data=5"},
     5,
     {{SHOAL_BF16, "[3]", SUMMED, "data:0"}, {SHOAL_F32, "[2, 2]", SUMMED, "data:0"}}},
    {{"data=3"},
     3,
     {{SHOAL_F32, "[7, 2]", "data:0", "data:0+1+1"}, {SHOAL_F32, "[9]", "data:0", "data:0+2+0"}}},
    {{"a!data=2@0-1", "b!data=3@2-4"},
     5,
     {{SHOAL_F32, "[7, 6]", "a!data:0", "b!data:0"},
      {SHOAL_F16, "[3, 4]", "a!data:partial(sum)", "b!data:1"},
      {SHOAL_F64, "[5]", "a!", "b!"}}},
    {{"a!data=2@0-1", "b!data=3@1-3"},
     4,
     {{SHOAL_BF16, "[7, 6]", "a!data:partial(sum)", "b!"},
      {SHOAL_F32, "[4]", "a!data:0", "b!data:0"}}},
    // nothing moves
    {{"data=3"}, 3, {{SHOAL_F32, "[7]", "", "data:0"}, {SHOAL_U8, "[3, 4]", "data:0", "data:0"}}},
};

typedef struct device_case {
  bool opaque, blind;
} device_case_t;

typedef struct test {
  const bundle_case_t *c;
  device_case_t device;
} test_t;

// ---- programs -------------------------------------------------------------------------

typedef struct setup {
  int32_t count;
  shoal_mesh_t meshes[3];
  int64_t mesh_count;
  shoal_layout_t layouts[2 * VALUES];
  shoal_channel_t channels[VALUES];
} setup_t;

static shoal_status_t prepare(const bundle_case_t *c, shoal_arena_t *arena, setup_t *out_setup) {
  *out_setup = (setup_t){0};
  setup_t *s = out_setup;
  for (; s->mesh_count < 3 && c->meshes[s->mesh_count]; ++s->mesh_count) {
    SHOAL_RETURN_IF_ERROR(
        shoal_mesh_parse(c->meshes[s->mesh_count], arena, &s->meshes[s->mesh_count]));
  }
  for (; s->count < VALUES && c->values[s->count].shape; ++s->count) {
    const value_case_t *v = &c->values[s->count];
    shoal_channel_t *channel = &s->channels[s->count];
    shoal_layout_t *src = &s->layouts[2 * s->count], *dst = src + 1;
    SHOAL_RETURN_IF_ERROR(shoal_layout_parse(v->src, s->meshes, s->mesh_count, arena, src));
    SHOAL_RETURN_IF_ERROR(shoal_layout_parse(v->dst, s->meshes, s->mesh_count, arena, dst));
    *channel = (shoal_channel_t){.type.dtype = v->dtype, .src = src, .dst = dst};
    for (const char *at = v->shape; (at = strpbrk(at, "0123456789")); at = strpbrk(at, ",]")) {
      channel->type.shape.dims[channel->type.shape.rank++] = strtoll(at, NULL, 10);
    }
  }
  return NULL;
}

static shoal_status_t largest(const shoal_layout_t *layout, const shoal_type_t *type,
                              int64_t *out_bytes) {
  SHOAL_RETURN_IF_ERROR(
      shoal_layout_largest(layout, type, NULL, shoal_allocator_system(), out_bytes));
  *out_bytes = (*out_bytes + 64) / 64 * 64;
  return NULL;
}

// All values in one reshard, or each in its own.
static shoal_status_t make_program(const bundle_case_t *c, const setup_t *s, bool together,
                                   const shoal_registry_t *registry, shoal_arena_t *arena,
                                   shoal_program_t **out_program) {
  static const int32_t numbers[VALUES] = {0, 1, 2, 3, 4, 5};
  char text[8192], lists[3][64] = {"", "", ""}, types[VALUES][64];
  int64_t bytes[2 * VALUES], offsets[2 * VALUES], end = 0;
  size_t n = (size_t)snprintf(text, sizeof text, "shoal_program 1\nworld %d\nmicro 1\n", c->world);
#define ADD(...) n += (size_t)snprintf(text + n, sizeof text - n, __VA_ARGS__)
#define APPEND(list, ...) snprintf(list + strlen(list), sizeof list - strlen(list), __VA_ARGS__)
  for (int64_t m = 0; m < s->mesh_count; ++m) ADD("mesh %s\n", c->meshes[m]);
  for (int32_t i = 0; i < s->count; ++i) {
    snprintf(types[i], sizeof types[i], "%s%s", shoal_dtype_name(c->values[i].dtype),
             c->values[i].shape);
    ADD("input t x%d %s\n", i, types[i]);
    for (int side = 0; side < 2; ++side) {
      SHOAL_RETURN_IF_ERROR(largest(side ? s->channels[i].dst : s->channels[i].src,
                                    &s->channels[i].type, &bytes[2 * i + side]));
      offsets[2 * i + side] = end;
      end += bytes[2 * i + side];
    }
    APPEND(lists[0], "%s%d", i ? ", " : "", 2 * i);
    APPEND(lists[1], "%s%d", i ? ", " : "", 2 * i + 1);
    APPEND(lists[2], "%s%d", i ? "," : "", i);
  }
  for (int32_t i = 0; i < s->count; ++i) {
    ADD("channel %d %s \"%s\" -> \"%s\"\n", i, types[i], c->values[i].src, c->values[i].dst);
  }
  ADD("class 0 ranks 0-%d arena %lld\n", c->world - 1, (long long)end + 65536);
  for (int32_t i = 0; i < 2 * s->count; ++i) {
    const bool input = i % 2 == 0;
    const value_case_t *v = &c->values[i / 2];
    ADD("  buffer %d %s \"%c%d\" %s \"%s\" bytes %lld offset %lld\n", i, input ? "input" : "temp",
        input ? 'x' : 'y', i / 2, types[i / 2], input ? v->src : v->dst, (long long)bytes[i],
        (long long)offsets[i]);
  }
  ADD("  segment 0 s\n");
  for (int32_t i = 0; i < s->count; ++i) ADD("    %d copy feed -> (%d) \"x%d\"\n", i, 2 * i, i);
  for (int32_t i = 0; i < (together ? 1 : s->count); ++i) {
    int64_t workspace;
    SHOAL_RETURN_IF_ERROR(shoal_reshard_workspace(s->channels, together ? s->count : 1, numbers + i,
                                                  1, NULL, arena, &workspace));
    EXPECT(workspace <= 65536, "the test has too little room");
    if (together)
      ADD("    %d comm reshard (%s) -> (%s) channel %s", s->count, lists[0], lists[1], lists[2]);
    else
      ADD("    %d comm reshard (%d) -> (%d) channel %d", s->count + i, 2 * i, 2 * i + 1, i);
    ADD(" \"y\"");
    if (workspace > 0) ADD(" workspace %lld@%lld", (long long)workspace, (long long)end);
    for (int32_t k = 0; k < s->count; ++k) ADD("%s%d", k ? " " : " wait ", k);
    ADD("\n");
  }
  ADD("  order t 0[");
  for (int32_t i = 0; i < s->count; ++i) {
    ADD("%s%d<1.%d", i ? "," : "", i, together ? s->count : s->count + i);
  }
  ADD("]\n");
  return shoal_program_parse("test", text, registry, shoal_allocator_system(), out_program);
}

// ---- running --------------------------------------------------------------------------

typedef struct taps {
  char data[VALUES][ROOM];
  int64_t bytes[VALUES];
} taps_t;

static void tap(void *self, int32_t rank, const char *graph, const char *value,
                const shoal_layout_t *layout, const shoal_type_t *whole, int64_t micro,
                const void *data, int64_t bytes) {
  (void)rank, (void)graph, (void)layout, (void)whole, (void)micro;
  taps_t *taps = self;
  if (value[0] != 'y') return;
  const int i = value[1] - '0';
  memcpy(taps->data[i], data, (size_t)bytes);
  taps->bytes[i] = bytes;
}

// Elements differ between values, places and summands; sums depend on their order.
static double element(int32_t value, int64_t global, int64_t summand) {
  return 0.1 * (double)(value + 1) + (double)(global % 17) / 7 + 3.7 * (double)summand;
}

static shoal_status_t feed(shoal_runner_t *runner, const shoal_channel_t *channel, int32_t value,
                           int32_t rank, shoal_arena_t *arena) {
  char data[ROOM], name[8];
  const shoal_layout_t *src = channel->src;
  const int64_t position = shoal_mesh_position(src->mesh, rank);
  const int64_t size = (int64_t)shoal_dtype_size(channel->type.dtype);
  int64_t count = 0, summand = 0;
  snprintf(name, sizeof name, "x%d", value);
  if (position >= 0) {
    shoal_boxes_t boxes;
    shoal_place_t place;
    int64_t coords[SHOAL_MAX_AXES];
    SHOAL_RETURN_IF_ERROR(
        shoal_layout_boxes(src, &channel->type.shape, position, -1, arena, &boxes));
    SHOAL_RETURN_IF_ERROR(shoal_boxes_place(&boxes, arena, &place));
    shoal_mesh_coords(src->mesh, position, coords);
    for (int32_t k = 0; k < src->cut_count; ++k) {
      if (src->cuts[k].kind == SHOAL_CUT_PARTIAL) summand = coords[src->cuts[k].axis];
    }
    const shoal_shape_t shape = shoal_boxes_shape(&boxes);
    count = shoal_shape_count(&shape);
    EXPECT(count * size <= ROOM, "the test has too little room");
    for (int64_t i = 0; i < count; ++i) {
      shoal_dtype_store(channel->type.dtype, data, i,
                        element(value, shoal_place_global(&place, i), summand));
    }
  }
  return shoal_runner_feed_part(runner, name, data, (size_t)(count * size));
}

static uint64_t operations(const shoal_world_t *world) {
  return atomic_load(&world->recorder->begun);
}

static shoal_status_t run(const test_t *test, const setup_t *s, const shoal_program_t *program,
                          shoal_world_t *world, shoal_arena_t *arena, taps_t *taps,
                          uint64_t *out_operations) {
  shoal_device_t *device = NULL;
  shoal_runner_t *runner = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_device_create(
      &(shoal_device_options_t){.opaque = test->device.opaque, .blind = test->device.blind},
      &device));
  shoal_status_t status = shoal_runner_create(
      program, world, device, &(shoal_runner_options_t){.tap = tap, .tap_self = taps}, &runner);
  for (int32_t i = 0; i < s->count && !status; ++i) {
    status = feed(runner, &s->channels[i], i, shoal_world_rank(world), arena);
  }
  if (!status) status = shoal_runner_run(runner, "t");
  if (!status) status = shoal_runner_wait(runner);
  const uint64_t before = operations(world);
  for (int i = 0; i < RUNS && !status; ++i) status = shoal_runner_run(runner, "t");
  if (!status) status = shoal_runner_wait(runner);
  *out_operations = operations(world) - before;
  shoal_runner_free(runner);
  shoal_device_free(device);
  return status;
}

// What the rank communicates in a run: operations, messages, bytes.
typedef struct traffic {
  int64_t operations, messages, bytes, most;
} traffic_t;

static shoal_status_t count(const shoal_program_t *program, int32_t rank, shoal_arena_t *arena,
                            traffic_t *out_traffic) {
  shoal_bound_t bound;
  SHOAL_RETURN_IF_ERROR(shoal_program_bind(program, rank, arena, &bound));
  const shoal_bound_call_t *call = &bound.orders[0].calls[0];
  *out_traffic = (traffic_t){0};
  for (int64_t i = 0; i < call->instruction_count; ++i) {
    const shoal_bundle_t *bundle = call->instructions[i].reshard;
    if (!bundle || call->instructions[i].idle) continue;
    const shoal_motion_t *whole = &bundle->whole;
    out_traffic->operations += whole->group_count + whole->send_count + whole->recv_count > 0;
    out_traffic->messages += whole->send_count;
    for (int32_t k = 0; k < whole->send_count; ++k) {
      out_traffic->bytes += whole->sends[k].count * (int64_t)shoal_dtype_size(whole->dtype);
      int64_t same = 0;
      for (int32_t j = 0; j < whole->send_count; ++j) {
        same += whole->sends[j].peer == whole->sends[k].peer;
      }
      if (same > out_traffic->most) out_traffic->most = same;
    }
  }
  return NULL;
}

static shoal_status_t compare(const test_t *test, const setup_t *s, const taps_t *apart,
                              const taps_t *together) {
  (void)test;
  for (int32_t i = 0; i < s->count; ++i) {
    EXPECT(apart->bytes[i] == together->bytes[i] &&
               memcmp(apart->data[i], together->data[i], (size_t)apart->bytes[i]) == 0,
           "value %d has other bits", i);
  }
  return NULL;
}

static shoal_status_t run_both(const test_t *test, shoal_world_t *world,
                               shoal_program_t *programs[2], shoal_registry_t *registry,
                               shoal_arena_t *arena) {
  static _Thread_local taps_t taps[2];
  const int32_t rank = shoal_world_rank(world);
  setup_t setup;
  uint64_t done[2];
  traffic_t traffic[2];
  memset(taps, 0, sizeof taps);
  SHOAL_RETURN_IF_ERROR(prepare(test->c, arena, &setup));
  for (int i = 0; i < 2; ++i) {
    SHOAL_RETURN_IF_ERROR(make_program(test->c, &setup, i == 1, registry, arena, &programs[i]));
    SHOAL_RETURN_IF_ERROR(count(programs[i], rank, arena, &traffic[i]));
    SHOAL_RETURN_IF_ERROR(run(test, &setup, programs[i], world, arena, &taps[i], &done[i]));
  }
  SHOAL_RETURN_IF_ERROR(compare(test, &setup, &taps[0], &taps[1]));
  EXPECT(traffic[1].operations <= 1 && traffic[1].most <= 1, "%lld operations, %lld to one peer",
         (long long)traffic[1].operations, (long long)traffic[1].most);
  EXPECT(traffic[0].bytes == traffic[1].bytes, "%lld bytes, and %lld together",
         (long long)traffic[0].bytes, (long long)traffic[1].bytes);
  const int64_t saved = RUNS * (traffic[0].operations - traffic[1].operations);
  // Ranks agree now and then, by the clock: once at most in these few runs.
  const int64_t fewer = (int64_t)(done[0] - done[1]);
  EXPECT(fewer >= saved - 1 && fewer <= saved + 1,
         "%lld operations, and %lld together: not %lld less", (long long)done[0],
         (long long)done[1], (long long)saved);
  return NULL;
}

static shoal_status_t rank_body(void *self, shoal_world_t *world) {
  shoal_program_t *programs[2] = {0};
  shoal_registry_t *registry = NULL;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_status_t status = shoal_registry_create(shoal_allocator_system(), &registry);
  if (!status) status = run_both(self, world, programs, registry, &arena);
  for (int i = 0; i < 2; ++i) shoal_program_free(programs[i]);
  shoal_registry_release(registry);
  shoal_arena_deinit(&arena);
  return status;
}

static void check(const bundle_case_t *c, device_case_t device, bool processes) {
  test_t test = {c, device};
  rank_call_t call = {rank_body, &test};
  const shoal_ranks_options_t options = {
      .ranks = c->world, .timeout_ms = 60000, .processes = processes};
  shoal_status_t status = shoal_launch_ranks(&options, run_rank_call, &call, NULL);
  if (status) {
    fail_msg("case %d, opaque %d, blind %d, processes %d: %s", (int)(c - cases), device.opaque,
             device.blind, processes, shoal_status_message(status));
  }
}

static void processes(void **state) {  // first: forks need a process without threads
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i += 2) {
    check(&cases[i], (device_case_t){0}, true);
  }
}

static void threads(void **state) {
  (void)state;
  static const device_case_t devices[] = {{false, false}, {true, false}, {true, true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    for (size_t d = 0; d < sizeof devices / sizeof *devices; ++d) {
      check(&cases[i], devices[d], false);
    }
  }
}

static void slow_link(void **state) {
  (void)state;
  throttle("shoal_cluster: 1\nlink: {latency: 1.0e-5, bandwidth: 1.0e9}\n", "");
  for (size_t i = 1; i < sizeof cases / sizeof *cases; i += 3) {
    check(&cases[i], (device_case_t){0}, false);
  }
  unthrottle();
}

// A world that was started by others: the cases for as many ranks.
static int join(void) {
  shoal_world_t *world = NULL;
  shoal_status_t status = shoal_world_join(NULL, &world);
  for (size_t i = 0; i < sizeof cases / sizeof *cases && !status; ++i) {
    for (int blind = 0; blind < 2 && !status; ++blind) {
      test_t test = {&cases[i], {blind, blind}};
      if (cases[i].world == shoal_world_size(world)) status = rank_body(&test, world);
    }
  }
  if (!status)
    printf("rank %d over %s: well\n", shoal_world_rank(world), shoal_world_backend(world));
  if (status) fprintf(stderr, "%s\n", shoal_status_message(status));
  shoal_world_release(world);
  const int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  return code;
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "join") == 0) return join();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(processes),
      cmocka_unit_test(threads),
      cmocka_unit_test(slow_link),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

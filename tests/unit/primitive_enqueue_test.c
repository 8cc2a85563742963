// Carriers on a device's queue: every kind of reshard, forward and adjoint, gives the bits that it
// gives on host memory, in all three ways, again and again; also in place, and where ranks only
// send. Nothing beyond what was planned is touched.
// links: launch primitive
#include <stdlib.h>

#include "base/dtype.h"
#include "base/number.h"
#include "device_blind.h"
#include "primitive/primitive_impl.h"

typedef struct reshard_case {
  const char *src_mesh, *dst_mesh;  // dst NULL: the same
  const char *src, *dst;
  int64_t dims[2];
  bool refresh;
} reshard_case_t;

static const reshard_case_t cases[] = {
    {"a=4", NULL, "a:0", "", {9, 5}, false},                        // all-gather
    {"a=4", NULL, "a:1", "", {6, 7}, false},                        // packed
    {"a=4", NULL, "a:0", "a:1", {9, 7}, false},                     // all-to-all
    {"a=4", NULL, "a:partial(sum)", "", {5, 3}, false},             // all-reduce
    {"a=4", NULL, "a:partial(sum)", "a:0", {9, 3}, false},          // reduce-scatter
    {"a=4", NULL, "a:partial(sum)", "a:1", {3, 10}, false},         // joined from messages
    {"a=2,b=2", NULL, "a:partial(sum),b:0", "a:1", {6, 6}, false},  // joined and moved
    {"a=2,b=2", NULL, "a:partial(max),b:1", "b:0", {5, 6}, false},  // by max
    {"a=2,b=2", NULL, "a:0,b:flat", "b:1", {7, 5}, false},          // flat ranges
    {"a=4", NULL, "a:0", "a:0+1+1", {12, 2}, false},                // halo
    {"a=4", NULL, "a:0+1+1", "a:0+1+1", {12, 2}, true},             // refreshed in place
    {"a=2", "b=2@2,3", "a:0", "b:1", {6, 6}, false},                // between stages
    {"a=2", "b=2@2,3", "a:partial(sum)", "b:1", {6, 6}, false},     // joined there
    {"a=4", NULL, "", "a:partial(sum)", {4, 4}, false},             // parts without a contribution
    {"a=4", NULL, "a:0", "a:0/3", {7, 4}, false},                   // empty parts
};

typedef struct test {
  shoal_work_way_t way;
  const reshard_case_t *c;
  shoal_dtype_t dtype;
} test_t;

static void fill(shoal_dtype_t dtype, int32_t rank, int round, int64_t count, void *data) {
  for (int64_t i = 0; i < count; ++i) {
    const double value = 0.3 + (double)((i * 37 + rank * 101 + round * 11) % 97) / 7;
    shoal_dtype_store(dtype, data, i, value);
  }
}

static shoal_status_t init(shoal_world_t *world, const shoal_motion_t *motion, shoal_lane_t *lane,
                           shoal_group_t *group, shoal_arena_t *arena, shoal_carrier_t *carrier) {
  SHOAL_RETURN_IF_ERROR(shoal_carrier_init(world, motion, 5, arena, carrier));
  carrier->lane = lane;
  carrier->group = group;
  carrier->staging = shoal_arena_alloc(arena, (size_t)motion->staging + 1, 64);
  return carrier->staging ? NULL : SHOAL_OOM();
}

// On the host, then three times on the device with other inputs; the output is garbage before.
static shoal_status_t run_motion(shoal_world_t *world, const test_t *test,
                                 const shoal_motion_t *motion, bool in_place,
                                 shoal_device_t *device, shoal_arena_t *arena) {
  const int32_t me = shoal_world_rank(world);
  const int64_t element = (int64_t)shoal_dtype_size(test->dtype);
  const int64_t in = motion->input_count * element, out = motion->output_count * element;
  const int64_t room = (shoal_max64(in, out) + 127) / 64 * 64;
  const int64_t bytes = 2 * room + motion->staging;
  shoal_lane_t *lane;
  shoal_group_t *group = NULL;
  shoal_queue_t *queue;
  shoal_address_t memory;
  shoal_carrier_t host, carrier;
  SHOAL_RETURN_IF_ERROR(shoal_lane_create(world, "reshards", &lane));
  if (motion->collective && motion->group_count > 0) {
    SHOAL_RETURN_IF_ERROR(
        shoal_lane_group_create(lane, motion->group_count, motion->group, &group));
  }
  SHOAL_RETURN_IF_ERROR(init(world, motion, lane, group, arena, &host));
  SHOAL_RETURN_IF_ERROR(init(world, motion, lane, group, arena, &carrier));
  SHOAL_RETURN_IF_ERROR(shoal_queue_create(device, &queue));
  SHOAL_RETURN_IF_ERROR(shoal_device_alloc(device, bytes, &memory));
  carrier.label = carrier.what = "the reshard";
  SHOAL_RETURN_IF_ERROR(shoal_carrier_bind(&carrier, device, memory,
                                           in_place ? memory : memory + (shoal_address_t)room,
                                           memory + 2 * (shoal_address_t)room, arena));
  carrier.on->work.bounce = malloc((size_t)shoal_carrier_bounce(&carrier) + 1);
  char *input = malloc((size_t)room), *want = malloc((size_t)room), *got = malloc((size_t)room);
  const bool takes = out > 0 && !(motion->collective && !group);
  for (int round = 0; round < 3; ++round) {
    fill(test->dtype, me, round, motion->input_count, input);
    memset(want, 0x5a, (size_t)room);
    if (in_place) memcpy(want, input, (size_t)in);
    memcpy(got, want, (size_t)room);
    SHOAL_RETURN_IF_ERROR(shoal_carrier_run(&host, in_place ? want : input, want));
    SHOAL_RETURN_IF_ERROR(shoal_queue_upload(queue, got, memory + (shoal_address_t)room, room));
    // What was posted may still be read where it lies, in a primitive's motion.
    SHOAL_RETURN_IF_ERROR(shoal_queue_wait(queue));
    SHOAL_RETURN_IF_ERROR(shoal_carrier_drain(&carrier));
    SHOAL_RETURN_IF_ERROR(shoal_queue_upload(queue, input, memory, in));
    SHOAL_RETURN_IF_ERROR(shoal_carrier_enqueue(&carrier, queue));
    SHOAL_RETURN_IF_ERROR(
        shoal_queue_download(queue, in_place ? memory : memory + (shoal_address_t)room, got, out));
    SHOAL_RETURN_IF_ERROR(shoal_queue_wait(queue));
    if (takes) CHECK(memcmp(got, want, (size_t)out) == 0, "round %d: other bits", round);
  }
  SHOAL_RETURN_IF_ERROR(shoal_carrier_drain(&carrier));
  const int64_t touched = shoal_device_touched(device, memory);
  CHECK(touched <= bytes, "touched %lld of %lld bytes", (long long)touched, (long long)bytes);
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(world, NULL));
  free(carrier.on->work.bounce);
  shoal_carrier_unbind(&carrier);
  shoal_device_release(device, memory);
  shoal_queue_free(queue);
  shoal_group_free(group);
  shoal_lane_free(lane);
  free(input);
  free(want);
  free(got);
  return NULL;
}

static shoal_status_t plan(shoal_world_t *world, const test_t *test, shoal_arena_t *arena,
                           shoal_primitive_plan_t *out_plan) {
  const reshard_case_t *c = test->c;
  shoal_mesh_t *meshes = SHOAL_NEW(arena, shoal_mesh_t, 2);
  shoal_layout_t *layouts = SHOAL_NEW(arena, shoal_layout_t, 2);
  SHOAL_RETURN_IF_ERROR(shoal_mesh_parse(c->src_mesh, arena, &meshes[0]));
  SHOAL_RETURN_IF_ERROR(
      shoal_mesh_parse(c->dst_mesh ? c->dst_mesh : c->src_mesh, arena, &meshes[1]));
  SHOAL_RETURN_IF_ERROR(shoal_layout_parse(c->src, &meshes[0], 1, arena, &layouts[0]));
  SHOAL_RETURN_IF_ERROR(shoal_layout_parse(c->dst, &meshes[1], 1, arena, &layouts[1]));
  const shoal_holding_t src = {.layout = &layouts[0]}, dst = {.layout = &layouts[1]};
  const shoal_shape_t shape = {.rank = 2, .dims = {c->dims[0], c->dims[1]}};
  return shoal_primitive_plan(test->dtype, &shape, &src, &dst, c->refresh, shoal_world_rank(world),
                              arena, out_plan);
}

static shoal_status_t run_case(shoal_world_t *world, void *self) {
  const test_t *test = self;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_primitive_plan_t planned;
  shoal_device_t *device;
  SHOAL_RETURN_IF_ERROR(plan(world, test, &arena, &planned));
  SHOAL_RETURN_IF_ERROR(make_way(world, test->way, (shoal_allocator_t){0}, &device));
  SHOAL_RETURN_IF_ERROR(shoal_status_annotate(
      run_motion(world, test, &planned.forward, false, device, &arena), "forward"));
  if (planned.linear) {
    SHOAL_RETURN_IF_ERROR(shoal_status_annotate(
        run_motion(world, test, &planned.adjoint, false, device, &arena), "adjoint"));
  }
  if (planned.in_place) {
    SHOAL_RETURN_IF_ERROR(shoal_status_annotate(
        run_motion(world, test, &planned.forward, true, device, &arena), "in place"));
  }
  shoal_device_free(device);
  restore_world(world);
  shoal_arena_deinit(&arena);
  return NULL;
}

static void run_way(shoal_work_way_t way) {
  static const shoal_dtype_t dtypes[] = {SHOAL_F64, SHOAL_BF16, SHOAL_F16};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    for (int d = 0; d < 3; ++d) {
      test_t test = {way, &cases[i], dtypes[d]};
      shoal_status_t statuses[4];
      run_threads_statuses(NULL, 4, run_case, &test, statuses);
      for (int rank = 0; rank < 4; ++rank) {
        if (!statuses[rank]) continue;
        fail_msg("%s, %s -> %s of %s, rank %d: %s", way_names[way], cases[i].src, cases[i].dst,
                 shoal_dtype_name(dtypes[d]), rank, shoal_status_message(statuses[rank]));
      }
    }
  }
}

static void test_native(void **state) {
  (void)state;
  run_way(SHOAL_WORK_NATIVE);
}

static void test_viewed(void **state) {
  (void)state;
  run_way(SHOAL_WORK_VIEWED);
}

static void test_bounced(void **state) {
  (void)state;
  run_way(SHOAL_WORK_BOUNCED);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_native), cmocka_unit_test(test_viewed),
                                     cmocka_unit_test(test_bounced)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

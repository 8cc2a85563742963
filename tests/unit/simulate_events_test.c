// links: simulate program
//
// Simulated times of small programs, to the exact second: what waits for what, what shares a link,
// what runs beside what. Instructions' times are given, links have round numbers.
#include "simulate_support.h"

// ---- two stages -----------------------------------------------------------------------

// A message is 0.5 s on the link and 0.25 s late. Rank 1 starts at 1.75 and then is never idle.
static void test_two_stages(void **state) {
  (void)state;
  shoal_simulation_t *s = simulate(
      PIPE, "shoal_cluster: 1\nlink: {latency: 0.25, bandwidth: 8192}\n", PIPE_TIMES, "run");
  assert_int_equal(s->count, 2);
  expect(s->seconds, 1.75 + 4 * 2);
  expect(s->step_seconds, 4 * 2);      // rank 0 has sent all of the next run meanwhile
  expect(s->groups[0].seconds, 4.75);  // its last message has arrived
  expect(s->groups[1].seconds, 9.75);
  expect(s->groups[0].busy[SHOAL_QUEUE_COMPUTE], 4);
  expect(s->groups[1].busy[SHOAL_QUEUE_COMPUTE], 8);
  expect(s->groups[1].waiting, 1);                    // until rank 0 sends the first
  expect(s->groups[1].busy[SHOAL_QUEUE_COMM], 0.75);  // the others come while it computes
  expect(s->groups[0].busy[SHOAL_QUEUE_COMM], 0);     // it does not wait for what it sends
  expect(s->groups[0].bubble, 5.75);
  expect(s->groups[1].bubble, 1.75);
  expect(s->groups[0].sent[SHOAL_CLUSTER_NETWORK], 4 * 4096);
  expect(s->groups[1].sent[SHOAL_CLUSTER_NETWORK], 0);
  expect(s->bytes[SHOAL_CLUSTER_NETWORK], 4 * 4096);
  expect(s->arena_bytes, 8192);
  assert_int_equal(s->slowest, 1);
  // The spans tell the same, and never overlap on a queue.
  double busy[2] = {0}, end[2][SHOAL_QUEUE_KIND_COUNT] = {{0}};
  for (int64_t i = 0; i < s->span_count; ++i) {
    const shoal_simulated_span_t *span = &s->spans[i];
    const bool computes = span->queue == SHOAL_QUEUE_COMPUTE;
    if (computes && span->step == 0) busy[span->group] += span->end - span->start;
    assert_true(span->start >= end[span->group][span->queue]);
    end[span->group][span->queue] = span->end;
  }
  expect(busy[0], 4);
  expect(busy[1], 8);
  shoal_simulation_free(s);
}

// A link so slow that messages pile up: they go one after the other.
static void test_messages_pile_up(void **state) {
  (void)state;
  // Each takes 2 s; they start at 1, 2, 3, 4, so they are through at 3, 5, 7, 9.
  shoal_simulation_t *s = simulate(
      PIPE, "shoal_cluster: 1\nlink: {latency: 0.25, bandwidth: 2048}\n", PIPE_TIMES, "run");
  expect(s->groups[0].seconds, 9.25);
  expect(s->groups[1].seconds, 11.25);
  expect(s->groups[1].waiting, 1);
  // 2.25 s of the first; nothing of the second and third: 5.25 is when it has computed the first.
  expect(s->groups[1].busy[SHOAL_QUEUE_COMM], 2.25);
  shoal_simulation_free(s);
}

// Two values in one message, or in one collective: their bytes add up, the latency comes once.
static void test_several_values(void **state) {
  (void)state;
  char *two = edit(PIPE, "channel 0 f32[4, 1024] \"a!micro:0\" -> \"b!micro:0\" micro\n",
                   "channel 0 f32[4, 1024] \"a!micro:0\" -> \"b!micro:0\" micro\n"
                   "channel 1 f32[4, 1024] \"a!micro:0\" -> \"b!micro:0\" micro\n");
  char *sent = edit(two, "(0) -> (-) channel 0", "(0, 0) -> (-, -) channel 0,1");
  char *text = edit(sent, "(-) -> (0) channel 0", "(-, -) -> (0, 1) channel 0,1");
  shoal_simulation_t *s = simulate(
      text, "shoal_cluster: 1\nlink: {latency: 0.25, bandwidth: 8192}\n", PIPE_TIMES, "run");
  expect(s->seconds, 1 + 2 * 0.5 + 0.25 + 4 * 2);
  expect(s->groups[0].sent[SHOAL_CLUSTER_NETWORK], 2 * 4 * 4096);
  shoal_simulation_free(s);
  test_free(two);
  test_free(sent);
  test_free(text);
  static const char sums[] =
      "shoal_program 1\n"
      "world 2\n"
      "micro 1\n"
      "mesh d=2\n"
      "channel 0 f32[1024] \"d:partial(sum)\" -> \"\"\n"
      "channel 1 f32[3072] \"d:partial(sum)\" -> \"\"\n"
      "class 0 ranks 0-1 arena 65536\n"
      "  buffer 0 temp \"x\" f32[1024] \"d:partial(sum)\" bytes 4096 offset 0\n"
      "  buffer 1 temp \"x\" f32[1024] \"\" bytes 4096 offset 4096\n"
      "  buffer 2 temp \"y\" f32[3072] \"d:partial(sum)\" bytes 12288 offset 8192\n"
      "  buffer 3 temp \"y\" f32[3072] \"\" bytes 12288 offset 20480\n"
      "  segment 0 s\n"
      "    0 comm reshard (0, 2) -> (1, 3) channel 0,1 \"sums\" workspace 16384@32768\n"
      "  order run 0\n";
  static const char link[] = "shoal_cluster: 1\nlink: {latency: 0.25, bandwidth: 8192}\n";
  shoal_simulation_t *together = simulate(sums, link, NULL, "run");
  text = edit(sums, "    0 comm reshard (0, 2) -> (1, 3) channel 0,1",
              "    0 comm reshard (0) -> (1) channel 0 \"x\"\n"
              "    1 comm reshard (2) -> (3) channel 1");
  shoal_simulation_t *apart = simulate(text, link, NULL, "run");
  test_free(text);
  expect(together->bytes[SHOAL_CLUSTER_NETWORK], apart->bytes[SHOAL_CLUSTER_NETWORK]);
  // The small one is exchanged whole, in one round; the large one and both together take two.
  expect(apart->seconds - together->seconds, 0.25);
  shoal_simulation_free(together);
  shoal_simulation_free(apart);
}

// ---- other memory ---------------------------------------------------------------------

// 64 bytes to or from the host take 1 s, to or from a disk 2 s more; the device's own memory and
// its kernels take no time to speak of. w comes from the file and goes back, y and x go to the host
// and come back.
static void test_offload(void **state) {
  (void)state;
  shoal_simulation_t *s = simulate(OFFLOADED,
                                   "shoal_cluster: 1\ndevice: {flops: 1.0e+40, bandwidth: "
                                   "1.0e+40, host_bandwidth: 64, disk_bandwidth: 32}\n",
                                   NULL, "train");
  expect(s->groups[0].busy[SHOAL_QUEUE_COPY], 2 * 3 + 4 * 1);
  expect(s->seconds, 10);
  shoal_simulation_free(s);
}

// ---- shared links ---------------------------------------------------------------------

// Ranks 0 and 1 each send 4096 bytes to ranks 2 and 3; rank 1 half a second later.
static const char CROSS[] =
    "shoal_program 1\n"
    "world 4\n"
    "micro 1\n"
    "mesh a!d=1@0\n"
    "mesh b!d=1@1\n"
    "mesh c!d=1@2\n"
    "mesh d!d=1@3\n"
    "channel 0 f32[1024] \"a!\" -> \"c!\"\n"
    "channel 1 f32[1024] \"b!\" -> \"d!\"\n"
    "class 0 ranks 0 arena 4096\n"
    "  buffer 0 temp \"x\" f32[1024] \"a!\" bytes 4096 offset 0\n"
    "  segment 0 s\n"
    "    0 comm reshard (0) -> (-) channel 0 \"x\"\n"
    "  order run 0\n"
    "class 1 ranks 1 arena 4096\n"
    "  buffer 0 temp \"x\" f32[1024] \"b!\" bytes 4096 offset 0\n"
    "  segment 0 s\n"
    "    0 compute fill -> (0) value 1 \"x\"\n"
    "    1 comm reshard (0) -> (-) channel 1 \"x\" wait 0\n"
    "  order run 0[0<1.1]\n"
    "class 2 ranks 2 arena 4096\n"
    "  buffer 0 temp \"x\" f32[1024] \"c!\" bytes 4096 offset 0\n"
    "  segment 0 s\n"
    "    0 comm reshard (-) -> (0) channel 0 \"x\"\n"
    "  order run 0\n"
    "class 3 ranks 3 arena 4096\n"
    "  buffer 0 temp \"x\" f32[1024] \"d!\" bytes 4096 offset 0\n"
    "  segment 0 s\n"
    "    0 comm reshard (-) -> (0) channel 1 \"x\"\n"
    "  order run 0\n";

static const char CROSS_TIMES[] =
    "{\"shoal_times\": 1, \"instructions\": ["
    "{\"class\": 1, \"segment\": \"s\", \"index\": 0, \"seconds\": 0.5}]}";

static void test_shared_card(void **state) {
  (void)state;
  // Latency is not 0 but so small that it is lost in the sum's last digit: 2^-60.
  static const char one[] =
      "shoal_cluster: 1\nlink: {latency: 8.673617379884035e-19, bandwidth: 4096, cards: 1}\n"
      "nodes: [{count: 2, devices: 2}]\n";
  static const char two[] =
      "shoal_cluster: 1\nlink: {latency: 8.673617379884035e-19, bandwidth: 4096, cards: 2}\n"
      "nodes: [{count: 2, devices: 2}]\n";
  static const char apart[] =
      "shoal_cluster: 1\nranks: 4\nlink: {latency: 8.673617379884035e-19, bandwidth: 4096}\n";
  // Alone from 0 to 0.5, at half speed until the first is through at 1.5, the rest alone again.
  shoal_simulation_t *s = simulate(CROSS, one, CROSS_TIMES, "run");
  expect(s->groups[2].seconds, 1.5);
  expect(s->groups[3].seconds, 2);
  expect(s->groups[3].waiting, 0.5);
  expect(s->groups[3].busy[SHOAL_QUEUE_COMM], 1.5);
  shoal_simulation_free(s);
  s = simulate(CROSS, two, CROSS_TIMES, "run");
  expect(s->groups[2].seconds, 1);
  expect(s->groups[3].seconds, 1.5);
  shoal_simulation_free(s);
  s = simulate(CROSS, apart, CROSS_TIMES, "run");
  expect(s->groups[2].seconds, 1);
  expect(s->groups[3].seconds, 1.5);
  shoal_simulation_free(s);
}

// Four nodes in two racks: both messages leave the rack, whose uplink is the narrowest link.
static void test_shared_uplink(void **state) {
  (void)state;
  shoal_simulation_t *s =
      simulate(CROSS,
               "shoal_cluster: 1\nranks: 4\nlink: {latency: 0.25, bandwidth: 8192}\n"
               "rack_link: {nodes: 2, latency: 0.5, bandwidth: 4096}\n",
               CROSS_TIMES, "run");
  expect(s->groups[2].seconds, 1.5 + 0.75);
  expect(s->groups[3].seconds, 2 + 0.75);
  expect(s->bytes[SHOAL_CLUSTER_RACK], 2 * 4096);
  expect(s->bytes[SHOAL_CLUSTER_NETWORK], 0);
  shoal_simulation_free(s);
}

// ---- queues ---------------------------------------------------------------------------

// Two ranks: an all-reduce beside a computation that does not need it, then one that does.
static const char BESIDE[] =
    "shoal_program 1\n"
    "world 2\n"
    "micro 1\n"
    "mesh data=2\n"
    "channel 0 f32[1024] \"data:partial(sum)\" -> \"\"\n"
    "class 0 ranks 0-1 arena 16384\n"
    "  buffer 0 temp \"g\" f32[1024] \"data:partial(sum)\" bytes 4096 offset 0\n"
    "  buffer 1 temp \"g\" f32[1024] \"\" bytes 4096 offset 4096\n"
    "  buffer 2 temp \"x\" f32[1024] \"\" bytes 4096 offset 8192\n"
    "  buffer 3 temp \"y\" f32[1024] \"\" bytes 4096 offset 12288\n"
    "  segment 0 s\n"
    "    0 compute fill -> (0) value 1 \"g\"\n"
    "    1 comm reshard (0) -> (1) channel 0 \"g\" wait 0\n"
    "    2 compute fill -> (2) value 1 \"x\"\n"
    "    3 compute compute shoal.add (1, 2) -> (3) \"y\" wait 1\n"
    "  segment 1 t\n"
    "    0 copy copy (3) -> (2) \"y\"\n"
    "  order run 0 1[0<1.3] 0[2<1.0]\n";

static void test_overlap(void **state) {
  (void)state;
  // Small: everyone sends all to everyone, 4096 bytes in 1 s, and 0.5 s of latency.
  static const char cluster[] = "shoal_cluster: 1\nlink: {latency: 0.5, bandwidth: 4096}\n";
  char times[600];
  for (int overlap = 0; overlap < 2; ++overlap) {
    snprintf(times, sizeof times,
             "{\"shoal_times\": 1, \"overlap\": %s, \"instructions\": ["
             "{\"class\": 0, \"segment\": \"s\", \"index\": 0, \"seconds\": 0.25},"
             "{\"class\": 0, \"segment\": \"s\", \"index\": 2, \"seconds\": 1},"
             "{\"class\": 0, \"segment\": \"s\", \"index\": 3, \"seconds\": 0.125},"
             "{\"class\": 0, \"segment\": \"t\", \"index\": 0, \"seconds\": 0.0625}]}",
             overlap ? "true" : "false");
    shoal_simulation_t *s = simulate(BESIDE, cluster, times, "run");
    const double call = overlap ? 0.25 + 1.5 + 0.125 : 0.25 + 1.5 + 1 + 0.125;
    // The copy is beside the second call's first computation.
    expect(s->seconds, call + (overlap ? 0 : 0.0625) + call);
    expect(s->step_seconds, s->seconds);
    expect(s->groups[0].communication, 3);
    expect(s->groups[0].exposed, overlap ? 1 : 3);
    expect(s->groups[0].hidden, overlap ? 1 - 1.0 / 3 : 0);
    expect(s->groups[0].busy[SHOAL_QUEUE_COMPUTE], 2 * 1.375);
    expect(s->groups[0].busy[SHOAL_QUEUE_COMM], 3);
    expect(s->groups[0].busy[SHOAL_QUEUE_COPY], 0.0625);
    expect(s->groups[0].waiting, 0);
    shoal_simulation_free(s);
  }
  // A measured link takes the place of the cluster's.
  shoal_simulation_t *s = simulate(BESIDE, cluster,
                                   "{\"shoal_times\": 1, \"link\": {\"latency\": 4, "
                                   "\"bandwidth\": 512}, \"instructions\": []}",
                                   "run");
  expect(s->groups[0].busy[SHOAL_QUEUE_COMM], 2 * (4 + 8));
  shoal_simulation_free(s);
}

// ---- kinds of devices -----------------------------------------------------------------

// The same class on a fast and a slow device: priced apart, and the fast one waits.
static void test_two_kinds(void **state) {
  (void)state;
  shoal_simulation_t *s =
      simulate(BESIDE,
               "shoal_cluster: 1\nlink: {latency: 0.5, bandwidth: 4096}\nnodes:\n"
               "  - {devices: 1, device: {name: slow, flops: 1024, bandwidth: 1.0e30}}\n"
               "  - {devices: 1, device: {name: fast, flops: 4096, bandwidth: 1.0e30}}\n",
               NULL, "run");
  assert_int_equal(s->count, 2);
  assert_string_equal(s->groups[0].device, "slow");
  assert_string_equal(s->groups[1].device, "fast");
  // Twice the sum of 1024 elements: 1 s and 0.25 s; the reductions take 1.5 s each.
  assert_true(s->groups[0].busy[SHOAL_QUEUE_COMPUTE] > 1.999 &&
              s->groups[0].busy[SHOAL_QUEUE_COMPUTE] < 2.001);
  assert_true(s->groups[1].busy[SHOAL_QUEUE_COMPUTE] > 0.499 &&
              s->groups[1].busy[SHOAL_QUEUE_COMPUTE] < 0.501);
  assert_true(s->groups[1].waiting > 0.749 && s->groups[1].waiting < 0.751);
  assert_true(s->seconds > 4.999 && s->seconds < 5.001);
  shoal_simulation_free(s);
}

// Reductions inside the nodes do not make the ranks of fast nodes wait for those of slow ones;
// reductions across them do.
static void test_kinds_that_do_not_meet(void **state) {
  (void)state;
  static const char cluster[] =
      "shoal_cluster: 1\nlink: {latency: 0.5, bandwidth: 4096}\n"
      "node_link: {latency: 0.5, bandwidth: 4096}\nnodes:\n"
      "  - {devices: 2, device: {name: slow, flops: 1024, bandwidth: 1.0e30}}\n"
      "  - {devices: 2, device: {name: fast, flops: 4096, bandwidth: 1.0e30}}\n";
  for (int across = 0; across < 2; ++across) {
    char *text = edit(BESIDE, "world 2", "world 4");
    char *mesh = edit(text, "mesh data=2", across ? "mesh data=2,t=2" : "mesh t=2,data=2");
    char *all = edit(mesh, "ranks 0-1", "ranks 0-3");
    shoal_simulation_t *s = simulate(all, cluster, NULL, "run");
    assert_int_equal(s->count, 2);
    const double fast = s->groups[1].seconds;
    assert_true(across ? fast > 4.9 : fast > 3.4 && fast < 3.6);
    assert_true(across ? s->groups[1].waiting > 0.7 : s->groups[1].waiting == 0);
    shoal_simulation_free(s);
    test_free(text);
    test_free(mesh);
    test_free(all);
  }
}

// Micro-batches of 3, 2 and 2 rows: the first takes longer.
static void test_uneven_micro_batches(void **state) {
  (void)state;
  shoal_simulation_t *s =
      simulate(TRAIN, "shoal_cluster: 1\ndevice: {flops: 1.0e30, bandwidth: 16}\n", NULL, "train");
  // Of the largest rank: x has 2 rows in the first micro-batch, then 1 and 1. A feed of 16 bytes a
  // row and 1 s each, y = x * w moves 2 rows and w: 5 s, then 3; and so on.
  double feeds = 0;
  for (int64_t i = 0; i < s->span_count; ++i) {
    if (strcmp(s->spans[i].name, "x") == 0 && s->spans[i].step == 0)
      feeds += s->spans[i].end - s->spans[i].start;
  }
  assert_true(feeds > 4 - 1e-9 && feeds < 4 + 1e-9);
  shoal_simulation_free(s);
}

// ---- groups on nodes ------------------------------------------------------------------

// Counting by axes is counting.
static void test_place(void **state) {
  (void)state;
  static const char *const meshes[] = {"a=3,b=4,c=2", "a=2,b=2,c=3,d=2", "a=24", "a=1,b=24",
                                       "a=2,b=3@5,1,0,4,2,3"};
  static const char *const clusters[] = {
      "a100x8:4", "a100x3:9", "v100x5:2+p100x4:20",
      "shoal_cluster: 1\nnodes: [{count: 9, devices: 3}]\nrack_link: {nodes: 2, bandwidth: 1.0}\n"};
  for (size_t m = 0; m < sizeof meshes / sizeof *meshes; ++m) {
    shoal_arena_t arena;
    shoal_arena_init(shoal_allocator_system(), &arena);
    shoal_mesh_t mesh;
    assert_ok(shoal_mesh_parse(meshes[m], &arena, &mesh));
    for (size_t c = 0; c < sizeof clusters / sizeof *clusters; ++c) {
      shoal_cluster_t *cluster;
      assert_ok(shoal_cluster_parse("c", clusters[c], shoal_allocator_system(), &cluster));
      for (uint32_t axes = 0; axes < 1u << mesh.axis_count; ++axes) {
        for (int64_t at = 0; at < shoal_mesh_size(&mesh); ++at) {
          shoal_sim_place_t place, expected = {0};
          shoal_sim_place_axes(cluster, &mesh, axes, at, &place);
          int64_t mine[SHOAL_MAX_AXES], other[SHOAL_MAX_AXES];
          shoal_mesh_coords(&mesh, at, mine);
          for (int64_t i = 0; i < shoal_mesh_size(&mesh); ++i) {
            bool in = true;
            shoal_mesh_coords(&mesh, i, other);
            for (int32_t a = 0; a < mesh.axis_count; ++a) {
              in &= (axes >> a & 1) || mine[a] == other[a];
            }
            if (!in) continue;
            const shoal_cluster_level_t level =
                shoal_cluster_level(cluster, shoal_mesh_rank(&mesh, at), shoal_mesh_rank(&mesh, i));
            expected.count += 1;
            expected.node += level == SHOAL_CLUSTER_NODE;
            expected.rack += level != SHOAL_CLUSTER_RACK;
          }
          expect(place.count, expected.count);
          expect(place.node, expected.node);
          expect(place.rack, expected.rack);
        }
      }
      shoal_cluster_free(cluster);
    }
    shoal_arena_deinit(&arena);
  }
}

// ---- bytes ----------------------------------------------------------------------------

static const char ONE[] =
    "shoal_program 1\n"
    "world 16\n"
    "micro 1\n"
    "mesh MESH\n"
    "channel 0 f32[64, 64] \"SRC\" -> \"DST\"\n"
    "class 0 ranks 0-15 arena 65536\n"
    "  buffer 0 temp \"x\" f32[64, 64] \"SRC\" bytes 16384 offset 0\n"
    "  buffer 1 temp \"y\" f32[64, 64] \"DST\" bytes 16384 offset 16384\n"
    "  segment 0 s\n"
    "    0 comm reshard (0) -> (1) channel 0 \"x\"\n"
    "  order run 0\n";

// One reshard on 16 ranks, 4 a node.
static shoal_simulation_t *simulate_one(const char *mesh, const char *src, const char *dst,
                                        const char *cluster) {
  char *texts[6];
  texts[0] = edit(ONE, "MESH", mesh);
  texts[1] = edit(texts[0], "SRC", src);
  texts[2] = edit(texts[1], "SRC", src);
  texts[3] = edit(texts[2], "DST", dst);
  texts[4] = edit(texts[3], "DST", dst);
  shoal_simulation_t *s = simulate(texts[4], cluster, NULL, "run");
  for (int i = 0; i < 5; ++i) test_free(texts[i]);
  return s;
}

// Messages: where nodes do alike, what is sent over each level is what all ranks' transfers say.
static void test_bytes_of_messages(void **state) {
  (void)state;
  static const char *const cases[][3] = {{"d=16", "d:0", "d:1"},
                                         {"d=4,t=4", "t:0", "t:1"},
                                         {"d=4,t=4", "d:0", "d:1"},
                                         {"d=4,t=4", "d:0,t:1", "t:0,d:1"},
                                         {"d=4,t=4", "t:0,d:0", "d:0,t:0"},
                                         {"d=16", "", "d:0"}};
  static const char cluster[] =
      "shoal_cluster: 1\nnodes: [{count: 4, devices: 4}]\nrack_link: {nodes: 2, bandwidth: "
      "1.0e9}\n";
  shoal_cluster_t *described;
  assert_ok(shoal_cluster_parse("c", cluster, shoal_allocator_system(), &described));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    shoal_arena_t arena;
    shoal_arena_init(shoal_allocator_system(), &arena);
    shoal_mesh_t mesh;
    shoal_layout_t src, dst;
    shoal_reshard_t reshard;
    const shoal_shape_t shape = {.rank = 2, .dims = {64, 64}};
    assert_ok(shoal_mesh_parse(cases[i][0], &arena, &mesh));
    assert_ok(shoal_layout_parse(cases[i][1], &mesh, 1, &arena, &src));
    assert_ok(shoal_layout_parse(cases[i][2], &mesh, 1, &arena, &dst));
    assert_ok(shoal_layout_reshard(&src, -1, &dst, -1, &shape, &arena, &reshard));
    double expected[SHOAL_CLUSTER_LEVEL_COUNT] = {0};
    for (int64_t t = 0; t < reshard.transfer_count; ++t) {
      const shoal_transfer_t *transfer = &reshard.transfers[t];
      if (transfer->src == transfer->dst) continue;
      expected[shoal_cluster_level(described, (int32_t)transfer->src, (int32_t)transfer->dst)] +=
          4 * (double)transfer->count;
    }
    shoal_simulation_t *s = simulate_one(cases[i][0], cases[i][1], cases[i][2], cluster);
    if (!reshard.collective) {
      for (int level = 0; level < SHOAL_CLUSTER_LEVEL_COUNT; ++level) {
        if (s->bytes[level] != expected[level]) {
          fail_msg("%s: %s -> %s sends %g bytes (%s), not %g", cases[i][0], cases[i][1],
                   cases[i][2], s->bytes[level],
                   shoal_cluster_level_name((shoal_cluster_level_t)level), expected[level]);
        }
      }
    }
    shoal_simulation_free(s);
    shoal_arena_deinit(&arena);
  }
  shoal_cluster_free(described);
}

// Rings over the hierarchy: 16384 bytes among 16 ranks, 4 on each of 4 nodes.
static void test_rings(void **state) {
  (void)state;
  static const char cluster[] =
      "shoal_cluster: 1\ndevice: {collectives: ring}\nlink: {latency: 0.25, bandwidth: 1024, "
      "cards: 4}\nnode_link: {latency: 0.125, bandwidth: 65536}\nnodes: [{count: 4, devices: 4}]\n";
  const double w = 16384;
  shoal_simulation_t *s = simulate_one("d=16", "d:partial(sum)", "", cluster);
  expect(s->groups[0].sent[SHOAL_CLUSTER_NODE], 2 * w * 3 / 4);
  expect(s->groups[0].sent[SHOAL_CLUSTER_NETWORK], 2 * w / 4 * 3 / 4);
  // 6 KiB over a card of its own; 2 x 3 steps in the node, 2 x 2 up and down the tree.
  expect(s->seconds, 6 + 6 * 0.125 + 4 * 0.25);
  shoal_simulation_free(s);
  s = simulate_one("d=16", "d:0", "", cluster);  // all_gather: half of it
  expect(s->groups[0].sent[SHOAL_CLUSTER_NETWORK], w / 4 * 3 / 4);
  expect(s->seconds, 3 + 3 * 0.125 + 3 * 0.25);
  shoal_simulation_free(s);
  // Inside nodes only; and the four ranks of a node that reduce each with their like share nothing.
  s = simulate_one("d=4,t=4", "t:partial(sum)", "", cluster);
  expect(s->bytes[SHOAL_CLUSTER_NETWORK], 0);
  expect(s->seconds, 2 * w * 3 / 4 / 65536 + 6 * 0.125);
  shoal_simulation_free(s);
  s = simulate_one("d=4,t=4", "d:partial(sum)", "", cluster);
  expect(s->bytes[SHOAL_CLUSTER_NODE], 0);
  expect(s->seconds, 2 * w * 3 / 4 / 1024 + 4 * 0.25);
  shoal_simulation_free(s);
}

// ---- many ranks -----------------------------------------------------------------------

static const char MANY[] =
    "shoal_program 1\n"
    "world %d\n"
    "micro 1\n"
    "mesh d=%d,t=8\n"
    "channel 0 f32[16384, 64] \"d:partial(sum)\" -> \"\"\n"
    "channel 1 f32[16384, 64] \"t:0\" -> \"\"\n"
    "channel 2 f32[16384, 64] \"d:partial(sum)\" -> \"d:0\"\n"
    "channel 3 f32[16384, 64] \"t:0\" -> \"t:1\"\n"
    "class 0 ranks 0-%d arena 0\n"
    "  buffer 0 temp \"a\" f32[16384, 64] \"d:partial(sum)\" bytes 0 offset 0\n"
    "  buffer 1 temp \"b\" f32[16384, 64] \"\" bytes 0 offset 0\n"
    "  buffer 2 temp \"c\" f32[16384, 64] \"t:0\" bytes 0 offset 0\n"
    "  buffer 3 temp \"d\" f32[16384, 64] \"d:0\" bytes 0 offset 0\n"
    "  buffer 4 temp \"e\" f32[16384, 64] \"t:1\" bytes 0 offset 0\n"
    "  segment 0 s\n"
    "    0 comm reshard (0) -> (1) channel 0 \"a\"\n"
    "    1 comm reshard (2) -> (1) channel 1 \"b\"\n"
    "    2 comm reshard (0) -> (3) channel 2 \"c\"\n"
    "    3 comm reshard (2) -> (4) channel 3 \"d\"\n"
    "    4 compute compute shoal.neg (1) -> (1) \"g\"\n"
    "  order run 0\n";

// Sixteen times the ranks cost no more memory and no more allocations.
static void test_ranks_cost_nothing(void **state) {
  (void)state;
  int64_t calls[2], bytes[2];
  for (int i = 0; i < 2; ++i) {
    const int32_t ranks = i ? 16384 : 1024;
    char text[3000];
    shoal_program_t *program;
    shoal_cluster_t *cluster;
    shoal_simulation_t *simulation;
    snprintf(text, sizeof text, MANY, ranks, ranks / 8, ranks - 1);
    assert_ok(shoal_program_parse("program", text, registry, shoal_allocator_system(), &program));
    assert_ok(shoal_cluster_parse("c", "a100x8:2048", shoal_allocator_system(), &cluster));
    shoal_failing_t counting = {0};
    assert_ok(shoal_simulate(
        program,
        &(shoal_simulate_options_t){
            .graph = "run", .cluster = cluster, .allocator = shoal_allocator_failing(&counting)},
        &simulation));
    calls[i] = counting.calls;
    bytes[i] = counting.peak_bytes;
    assert_int_equal(simulation->count, 1);
    assert_int_equal(simulation->groups[0].rank_count, ranks);
    assert_true(simulation->bytes[SHOAL_CLUSTER_NODE] > 0);
    assert_true(simulation->bytes[SHOAL_CLUSTER_NETWORK] > 0);
    shoal_simulation_free(simulation);
    shoal_cluster_free(cluster);
    shoal_program_free(program);
  }
  if (calls[1] > calls[0] + calls[0] / 4 || bytes[1] > bytes[0] + bytes[0] / 4) {
    fail_msg("1,024 ranks: %lld allocations, %lld bytes; 16,384: %lld, %lld", (long long)calls[0],
             (long long)bytes[0], (long long)calls[1], (long long)bytes[1]);
  }
}

// Ranks 0 and 2 only receive, from 1 and 3. Of a class, the first node and the one in the middle
// are looked at: who sends is not seen, and the data arrives all the same.
static void test_senders_unseen(void **state) {
  (void)state;
  shoal_simulation_t *s = simulate_one(
      "d=2,t=2", "t:0", "t:0(3,1)", "shoal_cluster: 1\nlink: {latency: 0.25, bandwidth: 8192}\n");
  expect(s->seconds, 0.25 + 16 * 64 * 4 / 8192.0);
  shoal_simulation_free(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_offload),
      cmocka_unit_test(test_two_stages),
      cmocka_unit_test(test_several_values),
      cmocka_unit_test(test_messages_pile_up),
      cmocka_unit_test(test_shared_card),
      cmocka_unit_test(test_shared_uplink),
      cmocka_unit_test(test_overlap),
      cmocka_unit_test(test_two_kinds),
      cmocka_unit_test(test_uneven_micro_batches),
      cmocka_unit_test(test_place),
      cmocka_unit_test(test_kinds_that_do_not_meet),
      cmocka_unit_test(test_bytes_of_messages),
      cmocka_unit_test(test_rings),
      cmocka_unit_test(test_senders_unseen),
      cmocka_unit_test(test_ranks_cost_nothing),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

// The static check of communication: classes that wait for each other, meet in other graphs, or
// send and receive in different orders are named.
#include "base/text.h"
#include "program_corrupt.h"

// Both ranks gather in graph t, and have nothing to do in graph u.
static const char GRAPHS[] =
    "shoal_program 1\n"
    "world 2\n"
    "micro 1\n"
    "mesh d=2\n"
    "input t x f64[8, 8]\n"
    "input u x f64[8, 8]\n"
    "channel 0 f64[8, 8] \"d:0\" -> \"\"\n"
    "class 0 ranks 0 arena 8192\n"
    "  buffer 0 input \"x\" f64[8, 8] \"d:0\" bytes 256 offset 0\n"
    "  buffer 1 temp \"y\" f64[8, 8] \"\" bytes 512 offset 256\n"
    "  segment 0 s\n"
    "    0 copy feed -> (0) \"x\"\n"
    "    1 comm reshard (0) -> (1) channel 0 \"y\" workspace 512@1024 wait 0\n"
    "  order t 0[0<1.1]\n"
    "  order u\n"
    "class 1 ranks 1 arena 8192\n"
    "  buffer 0 input \"x\" f64[8, 8] \"d:0\" bytes 256 offset 0\n"
    "  buffer 1 temp \"y\" f64[8, 8] \"\" bytes 512 offset 256\n"
    "  segment 0 s\n"
    "    0 copy feed -> (0) \"x\"\n"
    "    1 comm reshard (0) -> (1) channel 0 \"y\" workspace 512@1024 wait 0\n"
    "  order t 0[0<1.1]\n"
    "  order u\n";

static void meetings_in_other_graphs(void **state) {
  (void)state;
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = NULL;
  assert_ok(shoal_program_parse("p", GRAPHS, registry, shoal_allocator_system(), &program));
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  shoal_program_free(program);
  shoal_registry_release(registry);
  static const corruption_t cases[] = {
      {"  order t 0[0<1.1]\n  order u\n", "  order t\n  order u 0[0<1.1]\n",
       "rank 1 takes part in channel 0, rank 0 does not in this graph"},
  };
  ALL_ARE_CAUGHT(GRAPHS, cases);
}

static void communication(void **state) {
  (void)state;
  static const corruption_t cases[] = {
      // b answers before it has been asked: a waits for b, b for a
      {"1:0 1:1[0<1.1,1<1.2] 2:0 2:1[0<1.1] 3[0<1.2]",
       "2:0 2:1[0<1.1] 1:0 1:1[0<1.1,1<1.2] 3[0<3.2]",
       "deadlock: rank 0 waits here for rank 2, which is in class 1, segment 0 'forward', "
       "instruction 0"},
      // micro-batches in another order on one side
      {"0:0{0=0} 0:1{0=1}[0<1.1] 1:0{0=0} 1:1{0=1}[0<2.1]",
       "0:1{0=1} 0:0{0=0}[0<1.1] 1:0{0=0}[0<1.1] 1:1{0=1}",
       "expects a message of channel 0 from rank 0, whose next one is of channel 0"},
      // b sends its answers in another order
      {"1:0{0=0} 1:1{0=1}[0<2.1]", "1:1{0=1}[0<1.1] 1:0{0=0}", "channel 1"},
      // one class leaves a reshard out, or does another
      {"  segment 1 backward\n    0 comm reshard (1) -> (-) channel 1 \"s\" workspace 448@576\n",
       "  segment 1 backward\n    0 comm reshard (1) -> (-) channel 0 \"s\" workspace 448@576\n",
       "channel 0 is used by 'n' too"},
      {"(-) -> (2) channel 1 \"s\"", "(1) -> (2) channel 1 \"s\"",
       "the class has a buffer for the channel's source"},
      {"    0 comm reshard (-) -> (0) channel 2 \"t\" workspace 448@576\n    1 copy fetch (0) "
       "\"z\" wait 0\n",
       "    0 copy fill -> (0) value 0 \"t\"\n    1 copy fetch (0) \"z\"\n",
       "class 2: channel 2 is not used"},
      {"1:1{0=1}[0<2.1] 2[0<5.1]\n", "1:1{0=1}[0<2.1] 2[0<5.1]\n  order walk\n",
       "it has an order for graph 'walk', class 0 has none"},
  };
  ALL_ARE_CAUGHT(STAGES, cases);
}

// Two all-reduces in different order on two ranks, which are classes of their own: each waits for
// the other.
static void collectives_in_another_order(void **state) {
  (void)state;
  shoal_text_t text;
  for (int swapped = 0; swapped < 2; ++swapped) {
    shoal_text_init(shoal_allocator_system(), &text);
    shoal_text_add(&text,
                   "shoal_program 1\nworld 2\nmicro 1\nmesh d=2\n"
                   "channel 0 f32[4] \"d:partial(sum)\" -> \"\"\n"
                   "channel 1 f32[4] \"d:partial(sum)\" -> \"\"\n");
    for (int c = 0; c < 2; ++c) {
      int first = swapped && c == 1, second = 1 - first;
      shoal_text_addf(&text, "class %d ranks %d arena 256\n", c, c);
      for (int b = 0; b < 4; ++b) {
        shoal_text_addf(&text, "  buffer %d temp \"v\" f32[4] \"%s\" bytes 64 offset %d\n", b,
                        b < 2 ? "d:partial(sum)" : "", 64 * b);
      }
      shoal_text_addf(&text,
                      "  segment 0 s\n    0 compute fill -> (0) value 1 \"v\"\n"
                      "    1 compute fill -> (1) value 2 \"w\"\n"
                      "    2 comm reshard (%d) -> (%d) channel %d \"v\" wait 1\n"
                      "    3 comm reshard (%d) -> (%d) channel %d \"w\"\n"
                      "  order run 0[0<1.%d,1<1.%d]\n",
                      first, first + 2, first, second, second + 2, second, 2 + first, 2 + second);
    }
    shoal_registry_t *registry = test_registry();
    shoal_program_t *program = NULL;
    assert_ok(shoal_program_parse("p", text.data, registry, shoal_allocator_system(), &program));
    if (swapped) {
      assert_error(MISMATCH, "deadlock: rank 0 waits here for rank 1, which is in class 1",
                   shoal_program_check(program, shoal_allocator_system()));
    } else {
      assert_ok(shoal_program_check(program, shoal_allocator_system()));
    }
    shoal_program_free(program);
    shoal_registry_release(registry);
    shoal_text_deinit(&text);
  }
}

// Two ranks of 1,024 that an explicit list puts on a mesh, and so in classes, of their own: the
// other 1,022 all-reduce with them first, and then the two swap two reductions.
static void deadlock_between_two_of_many(void **state) {
  (void)state;
  static const int ranks[] = {5, 700};
  for (int swapped = 0; swapped < 2; ++swapped) {
    shoal_text_t text;
    shoal_text_init(shoal_allocator_system(), &text);
    shoal_text_add(&text,
                   "shoal_program 1\nworld 1024\nmicro 1\nmesh d=1024\nmesh a!x=2@5,700\n"
                   "channel 0 f32[4] \"d:partial(sum)\" -> \"\"\n"
                   "channel 1 f32[4] \"a!x:partial(sum)\" -> \"a!\"\n"
                   "channel 2 f32[4] \"a!x:partial(sum)\" -> \"a!\"\n");
    for (int c = 0; c < 3; ++c) {
      if (c < 2)
        shoal_text_addf(&text, "class %d ranks %d arena 384\n", c, ranks[c]);
      else
        shoal_text_add(&text, "class 2 ranks 0-4,6-699,701-1023 arena 384\n");
      shoal_text_add(&text,
                     "  buffer 0 temp \"u\" f32[4] \"d:partial(sum)\" bytes 64 offset 0\n"
                     "  buffer 1 temp \"u\" f32[4] \"\" bytes 64 offset 64\n");
      for (int b = 2; c < 2 && b < 6; ++b) {
        shoal_text_addf(&text, "  buffer %d temp \"v\" f32[4] \"%s\" bytes 64 offset %d\n", b,
                        b < 4 ? "a!x:partial(sum)" : "a!", 64 * b);
      }
      shoal_text_add(&text, "  segment 0 s\n    0 compute fill -> (0) value 1 \"u\"\n");
      const int first = swapped && c == 1, second = 1 - first;
      if (c < 2) {
        shoal_text_addf(&text,
                        "    1 compute fill -> (2) value 1 \"v\"\n"
                        "    2 compute fill -> (3) value 2 \"w\"\n"
                        "    3 comm reshard (0) -> (1) channel 0 \"u\" wait 2\n"
                        "    4 comm reshard (%d) -> (%d) channel %d \"v\"\n"
                        "    5 comm reshard (%d) -> (%d) channel %d \"w\"\n"
                        "  order run 0[0<1.3,1<1.%d,2<1.%d]\n",
                        2 + first, 4 + first, 1 + first, 2 + second, 4 + second, 1 + second,
                        4 + first, 4 + second);
      } else {
        shoal_text_add(&text,
                       "    1 comm reshard (0) -> (1) channel 0 \"u\" wait 0\n"
                       "  order run 0[0<1.1]\n");
      }
    }
    shoal_registry_t *registry = test_registry();
    shoal_program_t *program = NULL;
    assert_ok(shoal_program_parse("p", text.data, registry, shoal_allocator_system(), &program));
    if (swapped) {
      assert_error(MISMATCH, "deadlock: rank 5 waits here for rank 700, which is in class 1",
                   shoal_program_check(program, shoal_allocator_system()));
    } else {
      assert_ok(shoal_program_check(program, shoal_allocator_system()));
    }
    shoal_program_free(program);
    shoal_registry_release(registry);
    shoal_text_deinit(&text);
  }
}

// Rank 2 -> 0 -> 1 is one reshard; 3 -> 1 and 0 -> 3 are two more. If rank 1 first waits for 3,
// that for 0, and 0 for its message to 1 to be taken, nothing moves unless messages are buffered
// without end.
static void senders_that_receive_wait(void **state) {
  (void)state;
  static const char base[] =
      "shoal_program 1\nworld 4\nmicro 1\n"
      "mesh s!x=2@2,0\nmesh t!x=2@0-1\nmesh a!@0\nmesh b!@1\nmesh d!@3\n"
      "channel 0 f32[4] \"s!x:0\" -> \"t!x:0\"\n"
      "channel 1 f32[4] \"d!\" -> \"b!\"\n"
      "channel 2 f32[4] \"a!\" -> \"d!\"\n"
      "class 0 ranks 0 arena 512\n"
      "  buffer 0 temp \"u\" f32[4] \"s!x:0\" bytes 64 offset 0\n"
      "  buffer 1 temp \"u\" f32[4] \"t!x:0\" bytes 64 offset 64\n"
      "  buffer 2 temp \"v\" f32[4] \"a!\" bytes 64 offset 128\n"
      "  segment 0 s\n"
      "    0 compute fill -> (0) value 1 \"u\"\n"
      "    1 compute fill -> (2) value 1 \"v\"\n"
      "    2 comm reshard (0) -> (1) channel 0 \"u\" workspace 128@256 wait 1\n"
      "    3 comm reshard (2) -> (-) channel 2 \"v\" workspace 128@256\n"
      "  order run 0[0<1.2,1<1.3]\n"
      "class 1 ranks 1 arena 512\n"
      "  buffer 0 temp \"u\" f32[4] \"t!x:0\" bytes 64 offset 0\n"
      "  buffer 1 temp \"w\" f32[4] \"b!\" bytes 64 offset 64\n"
      "  segment 0 s\n"
      "    0 comm reshard (-) -> (0) channel 0 \"u\" workspace 128@256\n"
      "    1 comm reshard (-) -> (1) channel 1 \"w\" workspace 128@256\n"
      "  order run 0\n"
      "class 2 ranks 2 arena 512\n"
      "  buffer 0 temp \"u\" f32[4] \"s!x:0\" bytes 64 offset 0\n"
      "  segment 0 s\n"
      "    0 compute fill -> (0) value 1 \"u\"\n"
      "    1 comm reshard (0) -> (-) channel 0 \"u\" workspace 128@256 wait 0\n"
      "  order run 0[0<1.1]\n"
      "class 3 ranks 3 arena 512\n"
      "  buffer 0 temp \"v\" f32[4] \"d!\" bytes 64 offset 0\n"
      "  segment 0 s\n"
      "    0 comm reshard (-) -> (0) channel 2 \"v\" workspace 128@256\n"
      "    1 comm reshard (0) -> (-) channel 1 \"v\" workspace 128@256\n"
      "  order run 0\n";
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = NULL;
  assert_ok(shoal_program_parse("p", base, registry, shoal_allocator_system(), &program));
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  shoal_program_free(program);
  shoal_registry_release(registry);
  static const corruption_t cases[] = {
      {"    0 comm reshard (-) -> (0) channel 0 \"u\" workspace 128@256\n"
       "    1 comm reshard (-) -> (1) channel 1 \"w\" workspace 128@256\n",
       "    0 comm reshard (-) -> (1) channel 1 \"w\" workspace 128@256\n"
       "    1 comm reshard (-) -> (0) channel 0 \"u\" workspace 128@256\n",
       "deadlock: rank 0 waits here for rank 1"},
  };
  ALL_ARE_CAUGHT(base, cases);
}

// Two classes of one rank, each with two communication queues and a lane for each: what they reduce
// together on one lane may wait for the other lane through a local event.
static const char LANES[] =
    "shoal_program 1\n"
    "world 2\n"
    "micro 1\n"
    "mesh d=2\n"
    "channel 0 f32[4] \"d:partial(sum)\" -> \"\"\n"
    "channel 1 f32[4] \"d:partial(sum)\" -> \"\" lane 1\n"
    "class 0 ranks 0 arena 256\n"
    "  queue compute compute\n"
    "  queue a comm\n"
    "  queue b comm\n"
    "  buffer 0 temp \"v\" f32[4] \"d:partial(sum)\" bytes 64 offset 0\n"
    "  buffer 1 temp \"w\" f32[4] \"d:partial(sum)\" bytes 64 offset 64\n"
    "  buffer 2 temp \"v\" f32[4] \"\" bytes 64 offset 128\n"
    "  buffer 3 temp \"w\" f32[4] \"\" bytes 64 offset 192\n"
    "  segment 0 make\n"
    "    0 compute fill -> (0) value 1 \"v\"\n"
    "    1 compute fill -> (1) value 2 \"w\"\n"
    "  segment 1 first\n"
    "    0 a reshard (0) -> (2) channel 0 \"v\"\n"
    "  segment 2 second\n"
    "    0 b reshard (1) -> (3) channel 1 \"w\"\n"
    "  order run 0[0<2.0,1<1.0] 1[0<1.1] 2[0<2.1]\n"
    "class 1 ranks 1 arena 256\n"
    "  queue compute compute\n"
    "  queue a comm\n"
    "  queue b comm\n"
    "  buffer 0 temp \"v\" f32[4] \"d:partial(sum)\" bytes 64 offset 0\n"
    "  buffer 1 temp \"w\" f32[4] \"d:partial(sum)\" bytes 64 offset 64\n"
    "  buffer 2 temp \"v\" f32[4] \"\" bytes 64 offset 128\n"
    "  buffer 3 temp \"w\" f32[4] \"\" bytes 64 offset 192\n"
    "  segment 0 make\n"
    "    0 compute fill -> (0) value 1 \"v\"\n"
    "    1 compute fill -> (1) value 2 \"w\"\n"
    "  segment 1 one\n"
    "    0 a reshard (0) -> (2) channel 0 \"v\"\n"
    "  segment 2 other\n"
    "    0 b reshard (1) -> (3) channel 1 \"w\"\n"
    "  order run 0[0<2.0,1<1.0] 1[0<1.1] 2[0<2.1]\n";

static void check_passes(const char *text) {
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = NULL;
  assert_ok(shoal_program_parse("p", text, registry, shoal_allocator_system(), &program));
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  shoal_program_free(program);
  shoal_registry_release(registry);
}

static void queues_wait_for_each_other(void **state) {
  (void)state;
  check_passes(LANES);
  // Rank 0 reduces w when it has v; rank 1 may say so, too, but not the other way round. Its lanes
  // go in the same order for the host, and still neither can begin.
  char *chained = edit(LANES, "1[0<1.1] 2[0<2.1]\nclass 1", "1[0<1.1] 2[0<1.0,0<2.1]\nclass 1");
  check_passes(chained);
  static const corruption_t turned[] = {
      {"0[0<2.0,1<1.0] 1[0<1.1] 2[0<2.1]\n", "0[0<1.0,1<2.0] 2[0<1.1] 1[0<1.0,0<2.1]\n",
       "graph 'run', class 0, segment 1 'first', instruction 0 reshard 'v': deadlock: rank 0 waits "
       "here for rank 1, which is in class 1, segment 1 'one', instruction 0 reshard 'v' and waits "
       "for instruction 0 reshard 'w' of call 1 (segment 2 'other')"},
  };
  ALL_ARE_CAUGHT(chained, turned);
  test_free(chained);
  // The same through an instruction on another queue.
  char *through = edit(LANES, "    0 b reshard (1) -> (3) channel 1 \"w\"\n  order",
                       "    0 compute fill -> (1) value 2 \"w\"\n"
                       "    1 b reshard (1) -> (3) channel 1 \"w\" wait 0\n  order");
  char *without = edit(through, "    1 compute fill -> (1) value 2 \"w\"\n", "");
  char *behind = edit(without, "0[0<2.0,1<1.0] 1[0<1.1] 2[0<2.1]\nclass 1",
                      "0[0<2.0] 1[0<1.0] 2[0<1.0,0<3.1]\nclass 1");
  check_passes(behind);
  static const corruption_t late[] = {
      {"0[0<2.0,1<1.0] 1[0<1.1] 2[0<2.1]\n", "0[0<1.0,1<2.0] 2[0<1.1] 1[0<1.0,0<2.1]\n",
       "which is in class 1, segment 1 'one', instruction 0 reshard 'v' and waits for instruction "
       "0 reshard 'w' of call 1"},
  };
  ALL_ARE_CAUGHT(behind, late);
  test_free(through);
  test_free(without);
  test_free(behind);
}

// No queue waits for another, but the hosts enqueue in different orders.
static void hosts_agree_on_an_order(void **state) {
  (void)state;
  char *turned = edit(LANES, "order run 0[0<2.0,1<1.0] 1[0<1.1] 2[0<2.1]\nclass 1",
                      "order run 0[0<1.0,1<2.0] 2[0<1.1] 1[0<2.1]\nclass 1");
  static const corruption_t cases[] = {
      {"world 2", "world 2",
       "class 0, segment 2 'second', instruction 0 reshard 'w': rank 0 and rank 1 meet here, but "
       "the latter enqueues class 1, segment 1 'one', instruction 0 reshard 'v' before it"},
  };
  ALL_ARE_CAUGHT(turned, cases);
  // If both do the same, either order is right.
  char *both = edit(turned, "order run 0[0<2.0,1<1.0] 1[0<1.1] 2[0<2.1]\n",
                    "order run 0[0<1.0,1<2.0] 2[0<1.1] 1[0<2.1]\n");
  check_passes(both);
  test_free(turned);
  test_free(both);
}

// Rank 0 sends u, then v; rank 1 takes v, then u. On lanes and queues of their own they pass each
// other; on one lane rank 1 would take u for v.
static void lanes_have_their_own_order(void **state) {
  (void)state;
  for (int lane = 0; lane < 2; ++lane) {
    const char *second = lane ? "b" : "a";
    shoal_text_t text;
    shoal_text_init(shoal_allocator_system(), &text);
    shoal_text_addf(&text,
                    "shoal_program 1\nworld 2\nmicro 1\nmesh p!@0\nmesh q!@1\n"
                    "channel 0 f32[4] \"p!\" -> \"q!\"\n"
                    "channel 1 f32[4] \"p!\" -> \"q!\"%s\n",
                    lane ? " lane 1" : "");
    for (int c = 0; c < 2; ++c) {
      const char *mesh = c ? "q!" : "p!";
      shoal_text_addf(&text,
                      "class %d ranks %d arena 512\n"
                      "  queue compute compute\n  queue a comm\n  queue b comm\n"
                      "  buffer 0 temp \"u\" f32[4] \"%s\" bytes 64 offset 0\n"
                      "  buffer 1 temp \"v\" f32[4] \"%s\" bytes 64 offset 64\n  segment 0 s\n",
                      c, c, mesh, mesh);
      if (c == 0) {
        shoal_text_addf(&text,
                        "    0 compute fill -> (0) value 1 \"u\"\n"
                        "    1 compute fill -> (1) value 2 \"v\"\n"
                        "    2 a reshard (0) -> (-) channel 0 \"u\" wait 1\n"
                        "    3 %s reshard (1) -> (-) channel 1 \"v\" wait 1\n"
                        "  order run 0[0<1.2,1<1.3]\n",
                        second);
      } else {
        shoal_text_addf(&text,
                        "    0 %s reshard (-) -> (1) channel 1 \"v\" workspace 64@128\n"
                        "    1 a reshard (-) -> (0) channel 0 \"u\" workspace 64@192\n"
                        "  order run 0\n",
                        second);
      }
    }
    if (lane) {
      check_passes(text.data);
    } else {
      static const corruption_t cases[] = {
          {"world 2", "world 2",
           "rank 1 expects a message of channel 1 from rank 0, whose next one is of channel 0"}};
      ALL_ARE_CAUGHT(text.data, cases);
    }
    shoal_text_deinit(&text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(meetings_in_other_graphs),
      cmocka_unit_test(communication),
      cmocka_unit_test(collectives_in_another_order),
      cmocka_unit_test(deadlock_between_two_of_many),
      cmocka_unit_test(senders_that_receive_wait),
      cmocka_unit_test(queues_wait_for_each_other),
      cmocka_unit_test(hosts_agree_on_an_order),
      cmocka_unit_test(lanes_have_their_own_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

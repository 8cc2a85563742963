// The static check of tables, sizes, types and memory: good programs pass, and each kind of
// corruption is caught and named. Communication is program_check_comm_test.c's.
#include "base/text.h"
#include "program_corrupt.h"
#include "shoal/program.h"

static void good_programs_pass(void **state) {
  (void)state;
  static const char *const programs[] = {TRAIN, STAGES, GUARDED, PIPELINE};
  for (size_t i = 0; i < sizeof programs / sizeof *programs; ++i) expect_good(programs[i]);
}

// Columns are sent, which lie apart, and received as rows of what they make up, which do not.
static const char TURNED[] =
    "shoal_program 1\n"
    "world 2\n"
    "micro 1\n"
    "mesh d=2\n"
    "input t x f64[8, 8]\n"
    "channel 0 f64[8, 8] \"d:0\" -> \"d:1\"\n"
    "class 0 ranks 0-1 arena 640\n"
    "  buffer 0 input \"x\" f64[8, 8] \"d:0\" bytes 256 offset 0\n"
    "  buffer 1 temp \"y\" f64[8, 8] \"d:1\" bytes 256 offset 256\n"
    "  segment 0 s\n"
    "    0 copy feed -> (0) \"x\"\n"
    "    1 comm reshard (0) -> (1) channel 0 \"y\" workspace 128@512 wait 0\n"
    "  order t 0[0<1.1]\n";

static void workspace(void **state) {
  (void)state;
  expect_good(TURNED);
  static const corruption_t cases[] = {
      {"128@512", "64@512", "the messages of channel 0 need 128 bytes of workspace here"},
      {"128@512", "128@576", "its workspace of 128 bytes at 576"},
  };
  ALL_ARE_CAUGHT(TURNED, cases);
}

// Chunks are intervals of the whole dim: of 16 micro-batches only the third lies across the edge of
// two. There channel 0 moves more than elsewhere, and channel 1 moves something at all.
static const char MIDDLE[] =
    "shoal_program 1\n"
    "world 2\n"
    "micro 16\n"
    "mesh d=2,micro=16\n"
    "input t x f64[64, 8]\n"
    "input t y f64[64, 8]\n"
    "channel 0 f64[64, 8] \"micro:0,d:0*(11,53)\" -> \"micro:0\" micro\n"
    "channel 1 f64[64, 8] \"micro:0,d:0\" -> \"micro:0,d:0*(10,54)\" micro\n"
    "class 0 ranks 0 arena 1280\n"
    "  buffer 0 input \"x\" f64[64, 8] \"micro:0,d:0*(11,53)\" bytes 192 offset 0\n"
    "  buffer 1 input \"y\" f64[64, 8] \"micro:0,d:0\" bytes 128 offset 192\n"
    "  buffer 2 temp \"a\" f64[64, 8] \"micro:0\" bytes 256 offset 320\n"
    "  buffer 3 temp \"b\" f64[64, 8] \"micro:0,d:0*(10,54)\" bytes 128 offset 576\n"
    "  segment 0 s\n"
    "    0 copy feed -> (0) \"x\"\n"
    "    1 copy feed -> (1) \"y\"\n"
    "    2 comm reshard (0) -> (2) channel 0 \"a\" workspace 256@704 wait 0\n"
    "    3 comm reshard (1) -> (3) channel 1 \"b\" workspace 256@960 wait 1\n"
    "  order t 0:0[0<1.3] 0:1[0<1.3] 0:2[0<1.3] 0:3[0<1.3] 0:4[0<1.3] 0:5[0<1.3] 0:6[0<1.3]"
    " 0:7[0<1.3] 0:8[0<1.3] 0:9[0<1.3] 0:10[0<1.3] 0:11[0<1.3] 0:12[0<1.3] 0:13[0<1.3]"
    " 0:14[0<1.3] 0:15[0<1.3]\n"
    "class 1 ranks 1 arena 1280\n"
    "  buffer 0 input \"x\" f64[64, 8] \"micro:0,d:0*(11,53)\" bytes 192 offset 0\n"
    "  buffer 1 input \"y\" f64[64, 8] \"micro:0,d:0\" bytes 128 offset 192\n"
    "  buffer 2 temp \"a\" f64[64, 8] \"micro:0\" bytes 256 offset 320\n"
    "  buffer 3 temp \"b\" f64[64, 8] \"micro:0,d:0*(10,54)\" bytes 128 offset 576\n"
    "  segment 0 s\n"
    "    0 copy feed -> (0) \"x\"\n"
    "    1 copy feed -> (1) \"y\"\n"
    "    2 comm reshard (0) -> (2) channel 0 \"a\" workspace 256@704 wait 0\n"
    "    3 comm reshard (1) -> (3) channel 1 \"b\" workspace 256@960 wait 1\n"
    "  order t 0:0[0<1.3] 0:1[0<1.3] 0:2[0<1.3] 0:3[0<1.3] 0:4[0<1.3] 0:5[0<1.3] 0:6[0<1.3]"
    " 0:7[0<1.3] 0:8[0<1.3] 0:9[0<1.3] 0:10[0<1.3] 0:11[0<1.3] 0:12[0<1.3] 0:13[0<1.3]"
    " 0:14[0<1.3] 0:15[0<1.3]\n";

static void micro_batches_in_the_middle(void **state) {
  (void)state;
  expect_good(MIDDLE);
  static const corruption_t cases[] = {
      {"256@704", "128@704", "micro-batch 2: rank 0: the messages of channel 0 need 192 bytes"},
      // Rank 0 meets in channel 1 first, rank 1 in channel 0.
      {"    2 comm reshard (0) -> (2) channel 0 \"a\" workspace 256@704 wait 0\n"
       "    3 comm reshard (1) -> (3) channel 1 \"b\" workspace 256@960 wait 1\n",
       "    2 comm reshard (1) -> (3) channel 1 \"b\" workspace 256@960 wait 1\n"
       "    3 comm reshard (0) -> (2) channel 0 \"a\" workspace 256@704 wait 0\n",
       "deadlock: rank 0 waits here for rank 1"},
  };
  ALL_ARE_CAUGHT(MIDDLE, cases);
}

static void structure(void **state) {
  (void)state;
  static const corruption_t cases[] = {
      {"ranks 0-1", "ranks 0", "rank 1 is in no class"},
      {"state w f32[4] \"\"", "state w f32[4] \"data:partial(sum)\"",
       "state 'w': a state rests unreduced"},
      {"state w f32[4] \"\"", "state w f32[4] \"data:0\"", "differs from state 'w'"},
      {"state w f32[4]", "state w f32[5]", "differs from state 'w'"},
      {"buffer 0 state 0", "buffer 0 temp",
       "state 'w' rests on ranks of this class but has no buffer"},
      {"buffer 1 temp", "buffer 1 state 0", "buffer 1 'w/full': the state has two buffers"},
      {"\"micro:0\" micro", "\"micro:0\"", "channel 1: it moves a micro-batch, outside the loop"},
      // sizes
      {"bytes 128 offset 384", "bytes 64 offset 384",
       "buffer 9 'y': it has 64 bytes, its largest part needs 112"},
      {"bytes 128 offset 384", "bytes 120 offset 384", "it has 120 bytes"},
      {"bytes 128 offset 384", "bytes 128 offset 392", "it lies at offset 392"},
      {"arena 704", "arena 448", "behind the arena's 448 bytes"},
      {"192@512", "192@576", "its workspace of 192 bytes at 576"},
      // types
      {"value=0.5, dtype=f32", "value=0.5, dtype=f64",
       "shoal.full makes f64[4], but output 0 'w/full' is f32[4]"},
      {"shape=[4]", "shape=[5]", "shoal.full makes f32[5]"},
      {"buffer 3 temp \"y\" f32[7, 4] \"micro:0,data:0\"",
       "buffer 3 temp \"y\" f32[7, 4] \"data:0\"", "differ in type or layout"},
      {"buffer 7 temp \"w/add\" f32[4] \"\"", "buffer 7 temp \"w/add\" f32[4] \"data:0\"",
       "shoal.add makes f32[4] of this rank's parts, but its part of output 0 'w/add' is f32[2]"},
      // queues and waits
      {"2 comm reshard", "2 copy reshard", "it lies on queue 'copy'"},
      {"1 compute compute shoal.mul", "1 comm compute shoal.mul", "it lies on queue 'comm'"},
      {"5 copy copy (8) -> (9) \"y\" wait 2", "5 copy copy (8) -> (9) \"y\" wait 0 2",
       "it waits for instruction 0"},
      // channels
      {"(3) -> (8) channel 1", "(3) -> (8) channel 0",
       "buffer 3 'y' and the channel's source differ"},
      {"(3) -> (8) channel 1", "(3) -> (9) channel 1",
       "buffer 9 'y' and the channel's destination differ"},
      {"(3) -> (8) channel 1", "(3) -> (-) channel 1",
       "lacks a buffer for the channel's destination"},
      {"channel 0 f32[4]", "channel 0 f32[5]", "the channel's source differ in type or layout"},
      {"channel 0 f32[4] \"data:partial(sum)\"", "channel 0 f32[4] \"data:partial(max)\"",
       "the channel's source differ in type or layout"},
      // copies, accumulations, host
      {"copy (8) -> (9)", "copy (3) -> (9)", "may only add or drop micro-batches"},
      {"copy (8) -> (9)", "copy (8) -> (8)", "it copies 'y' to 'y'"},
      {"copy (7) -> (0)", "copy (5) -> (0)", "may only add or drop micro-batches"},
      {"accumulate (4) -> (5)", "accumulate (5) -> (6)",
       "joins 'g' otherwise than its layout says"},
      {"accumulate (4) -> (5)", "accumulate (4) -> (6)", "cannot accumulate 'g' into 'g'"},
      {"reduce sum", "reduce max", "it fills accumulator 'g' with 0"},
      {"reduce sum", "reduce lse", "it fills accumulator 'g' with 0"},
      {"fill -> (5) value 0", "fill -> (5) value 1", "it fills accumulator 'g' with 1"},
      {"    5 copy copy", "    5 compute accumulate (4) -> (5) reduce sum \"g\"\n    6 copy copy",
       "joined to the same accumulator twice"},
      {"feed -> (2) \"x\"", "feed -> (3) \"x\"", "feeds 'y', which is no input buffer"},
      {"fetch (6) \"g\"", "fetch (5) \"g\"", "cannot be copied"},
      // orders
      {"2:1 2:2", "2:2", "segment 2 'train.loop' is called in 2 of 3 micro-batches"},
      {"2:1 2:2", "2:1 2:2 2:1", "segment 2 'train.loop' is called again in micro-batch 1"},
      {"2:1 2:2", "2:1 2:2 2", "segment 2 'train.loop' is called again"},
      {"2:2 3[0<1.4] 4", "2:2 3[0<1.4]", "class 0, segment 4 'train.commit': no order calls it"},
      {"order init 0", "order train 0", "it has two orders for graph 'train'"},
      {"2:0[0<3.3] 2:1 2:2", "2",
       "buffer 2 'x' exists per micro-batch, and this call is outside the loop"},
  };
  ALL_ARE_CAUGHT(TRAIN, cases);
}

// A mesh over three ranks in two classes: 5 rows are dealt 2, 2, 1. Each class needs what its own
// ranks hold, and no less.
static const char UNEVEN_CLASSES[] =
    "shoal_program 1\n"
    "world 3\n"
    "micro 1\n"
    "mesh data=3\n"
    "state w f64[5, 8] \"data:0\" saved\n"
    "class 0 ranks 0-1 arena 256\n"
    "  buffer 0 state 0 \"w\" f64[5, 8] \"data:0\" bytes 128 offset 0\n"
    "  buffer 1 temp \"one\" f64[5, 8] \"data:0\" bytes 128 offset 128\n"
    "  segment 0 init\n"
    "    0 compute compute shoal.full -> (1) {shape=[5, 8], value=1, dtype=f64} \"one\"\n"
    "    1 compute copy (1) -> (0) \"w\"\n"
    "  order init 0\n"
    "class 1 ranks 2 arena 128\n"
    "  buffer 0 state 0 \"w\" f64[5, 8] \"data:0\" bytes 64 offset 0\n"
    "  buffer 1 temp \"one\" f64[5, 8] \"data:0\" bytes 64 offset 64\n"
    "  segment 0 init\n"
    "    0 compute compute shoal.full -> (1) {shape=[5, 8], value=1, dtype=f64} \"one\"\n"
    "    1 compute copy (1) -> (0) \"w\"\n"
    "  order init 0\n";

static void sizes_are_those_of_the_class(void **state) {
  (void)state;
  expect_good(UNEVEN_CLASSES);
  static const corruption_t cases[] = {
      {"bytes 128 offset 0", "bytes 64 offset 0",
       "class 0: buffer 0 'w': it has 64 bytes, its largest part needs 128"},
      {"bytes 64 offset 0", "bytes 0 offset 0",
       "class 1: buffer 0 'w': it has 0 bytes, its largest part needs 64"},
  };
  ALL_ARE_CAUGHT(UNEVEN_CLASSES, cases);
  // The same sizes, for other ranks.
  char *swapped = edit(UNEVEN_CLASSES, "class 0 ranks 0-1 ", "class 0 ranks 1-2 ");
  const corruption_t other[] = {
      {"class 1 ranks 2 ", "class 1 ranks 0 ",
       "class 1: buffer 0 'w': it has 64 bytes, its largest part needs 128"}};
  ALL_ARE_CAUGHT(swapped, other);
  test_free(swapped);
}

// Changes that make no difference are let through.
static void harmless_changes_pass(void **state) {
  (void)state;
  static const struct {
    const char *base, *from, *to;
  } cases[] = {
      {TRAIN, "feed -> (2) \"x\"", "feed -> (2) \"z\""},  // a port may go by its buffer's name
      {TRAIN, "2:0[0<3.3] 2:1 2:2", "2:2[0<3.3] 2:0 2:1"},
      {TRAIN, "arena 704", "arena 768"},
      {TRAIN, "(9) \"y\" wait 2", "(9) \"y\" wait 1 2"},
      // the count is dead when the largest is found
      {GUARDED, "\"max\" f32[] \"\" bytes 64 offset 320", "\"max\" f32[] \"\" bytes 64 offset 128"},
      // stage b may answer each micro-batch at once
      {STAGES, "0:0{0=0} 0:1{0=1}[0<1.1] 1:0{0=0} 1:1{0=1}[0<2.1]",
       "0:0{0=0} 1:0{0=0}[0<1.1] 0:1{0=1} 1:1{0=1}[0<1.1]"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char *text = edit(cases[i].base, cases[i].from, cases[i].to);
    expect_good(text);
    test_free(text);
  }
}

// Micro-batches are cut outside the ranks: row 2 is rank 1's in its micro-batch, but rank 0's in
// the whole.
static void copies_are_local(void **state) {
  (void)state;
  char *text = edit(TRAIN, "\"y\" f32[7, 4] \"\" bytes", "\"y\" f32[7, 4] \"data:0\" bytes");
  const corruption_t cases[] = {
      {"copy (8) -> (9)", "copy (3) -> (9)", "the host and 'y' cannot be copied"}};
  ALL_ARE_CAUGHT(text, cases);
  char *unfetched =
      edit(text, "    1 copy fetch (9) \"y\"\n    2 copy fetch (6) \"g\" wait 0\n    3",
           "    1 copy fetch (6) \"g\" wait 0\n    2");
  char *renumbered = edit(unfetched, "2:0[0<3.3]", "2:0[0<3.2]");
  char *portless = edit(renumbered, "output train y f32[7, 4]\n", "");
  const corruption_t local[] = {
      {"copy (8) -> (9)", "copy (3) -> (9)",
       "copying 'y' needs elements that this rank does not have: 0 of 4"}};
  ALL_ARE_CAUGHT(portless, local);
  test_free(text);
  test_free(unfetched);
  test_free(renumbered);
  test_free(portless);
}

static void values(void **state) {
  (void)state;
  static const corruption_t cases[] = {
      // dropped, doubled, swapped
      {"    1 compute copy (1) -> (0) \"w\"\n", "",
       "graph 'init', class 0: state 'w' (buffer 0) is not written"},
      {"    1 compute copy (1) -> (0) \"w\"\n",
       "    1 compute copy (1) -> (0) \"w\"\n    2 compute copy (1) -> (0) \"w\"\n",
       "buffer 0 'w' is written twice in one call; instruction 1 wrote it"},
      {"    0 compute fill -> (5) value 0 \"g\"\n", "",
       "accumulator 5 'g' has not been filled in this order"},
      {"    0 compute fill -> (5) value 0 \"g\"\n",
       "    0 compute fill -> (5) value 0 \"g\"\n    1 compute fill -> (5) value 0 \"g\"\n",
       "accumulator 5 'g' is filled again"},
      {"2:2 3[0<1.4] 4", "3[0<1.4] 2:2 4", "accumulator 5 'g' has 2 of 3 joins when it is read"},
      {"train 1 2:0[0<3.3]", "train 2:0[0<2.3] 1", "has not been filled in this order"},
      // addresses: a live value is overwritten
      {"\"w/add\" f32[4] \"\" bytes 64 offset 128", "\"w/add\" f32[4] \"\" bytes 64 offset 0",
       "an output overlaps another of its own operands"},
      {"bytes 64 offset 192", "bytes 64 offset 0", "has been overwritten by"},
      {"\"micro:0\" bytes 64 offset 320", "\"micro:0\" bytes 64 offset 128",
       "an output overlaps another of its own operands"},
      {"\"\" bytes 128 offset 384", "\"\" bytes 128 offset 192", "nothing orders the two"},
      {"192@512", "192@384", "buffer 9 'y' has been overwritten by a workspace"},
      {"\"\" bytes 128 offset 384", "\"\" bytes 192 offset 384",
       "buffer 9 'y' has been overwritten by a workspace"},
      {"\"g\" f32[4] \"\" bytes 64 offset 64", "\"g\" f32[4] \"\" bytes 64 offset 0",
       "has been overwritten by buffer 6 'g' before it is read"},
      // waits
      {"\"y\" wait 0\n    2", "\"y\"\n    2",
       "an input touches bytes that instruction 0 feed 'x' on queue copy writes, and nothing "
       "orders the two"},
      {"192@512 wait 1", "192@512", "instruction 1 compute 'y' on queue compute writes"},
      {"(9) \"y\" wait 2", "(9) \"y\"", "instruction 2 reshard 'y' on queue comm writes"},
      {"\"g\" wait 0\n    3", "\"g\"\n    3", "instruction 0 reshard 'g' on queue comm writes"},
      {"\"w/add\" f32[4] \"\" bytes 64 offset 128", "\"w/add\" f32[4] \"\" bytes 64 offset 384",
       "an output touches bytes that instruction 5 copy 'y' on queue copy writes in call 3 "
       "(segment 2 'train.loop', micro-batch 2), and nothing orders the two"},
  };
  ALL_ARE_CAUGHT(TRAIN, cases);
  char *unwaited = edit(TRAIN, "2:0[0<3.3]", "2:0");
  static const corruption_t renumbered[] = {
      {"2:2 3[0<1.4] 4", "2:2 4 3[0<2.4]", "buffer 7 'w/add' is read before it is written"},
      {"    2 copy fetch (6) \"g\" wait 0\n    3", "    2", "output 'g' is fetched 0 times"},
      {"    0 copy feed -> (2) \"x\"\n    1 compute compute shoal.mul (2, 0) -> (3) \"y\" wait 0\n",
       "    0 compute compute shoal.mul (2, 0) -> (3) \"y\"\n    1 copy feed -> (2) \"x\" wait 0\n",
       "segment 2 'train.loop', instruction 0 compute 'y', micro-batch 0: buffer 2 'x' is read "
       "before it is "
       "written"},
  };
  ALL_ARE_CAUGHT(unwaited, renumbered);
  test_free(unwaited);
}

static void slots(void **state) {
  (void)state;
  static const corruption_t cases[] = {
      {"1:0{0=0} 1:1{0=1}", "1:0{0=1} 1:1{0=0}", "buffer 1 's' holds micro-batch 1, not 0"},
      {"\"b!micro:0,data:0\" group 0 bytes 64 offset 128",
       "\"b!micro:0,data:0\" group 0 bytes 64 offset 0",
       "an output overlaps another of its own operands"},
      {"1:0{0=0} 1:1{0=1}[0<2.1] 2[0<5.1]\n", "2[0<5.1] 1:0{0=0} 1:1{0=1}[0<3.1]\n", "deadlock"},
  };
  ALL_ARE_CAUGHT(STAGES, cases);
}

static void predicates_and_bounded_sizes(void **state) {
  (void)state;
  static const corruption_t cases[] = {
      {"predicate 7", "predicate 5", "predicate 'max' is no bool scalar"},
      {"\"ok\" bool[] \"\"", "\"ok\" bool[] \"data:partial(max)\"",
       "predicate 'ok' differs between ranks or micro-batches"},
      {"3 comm reshard (3) -> (4) channel 0 \"g\"",
       "3 comm reshard (3) -> (4) channel 0 \"g\" predicate 7", "reshard cannot be skipped"},
      {"    9 copy fetch (0) \"w\"", "    9 copy fetch (0) \"w\" predicate 7",
       "fetch cannot be skipped"},
      // skipped, the write leaves nothing there
      {"(0, 4) -> (8) \"w/add\"", "(0, 4) -> (8) \"w/add\" predicate 7",
       "buffer 8 'w/add' is read before it is written"},
      {"fill -> (0) value 1.5 \"w\"", "fill -> (0) value 1.5 \"w\" predicate 7",
       "buffer 7 'ok' is read before it is written"},
      {"(6, 5) -> (7) \"ok\"", "(6, 5) -> (7) \"ok\" workspace 64@448",
       "workspace overlaps another"},
      // bounded
      {"count 2", "count 5", "buffer 5 'max' cannot hold a number of rows"},
      {"\"limit\" f32[] \"\" bytes 64 offset 384",
       "\"limit\" f32[] \"\" bytes 64 offset 384 count 2", "a scalar has no rows to count"},
      {"    0 copy feed -> (2) \"n\"\n    1 copy feed -> (1) \"x\"\n",
       "    0 copy feed -> (1) \"x\"\n    1 copy feed -> (1) \"x\"\n",
       "buffer 1 'x' is written twice"},
      {"    2 compute compute shoal.reduce_sum (1) -> (3) {dims=[0]} \"g\" wait 1",
       "    2 compute compute shoal.reduce_sum (1) -> (3) {dims=[0]} \"g\"",
       "instruction 1 feed 'x' on queue copy writes"},
      // the count must be there when the rows are read
      {"    0 copy feed -> (2) \"n\"\n", "    0 copy fetch (0) \"w\"\n",
       "buffer 2 'n' is read before it is written"},
  };
  ALL_ARE_CAUGHT(GUARDED, cases);
}

// 64 ranks and 64 micro-batches: one rank and one micro-batch of each size stand for all.
static void large_worlds(void **state) {
  (void)state;
  char *text = edit(TRAIN, "world 2\nmicro 3\nmesh data=2,micro=3\n",
                    "world 64\nmicro 64\nmesh data=64,micro=64\n");
  char *ranks = edit(text, "ranks 0-1 arena 704", "ranks 0-63 arena 9000");
  char *wide = edit(ranks, "192@512", "8192@512");
  test_free(ranks);
  test_free(text);
  shoal_text_t order;
  shoal_text_init(shoal_allocator_system(), &order);
  for (int m = 1; m < 64; ++m) shoal_text_addf(&order, "2:%d ", m);
  text = edit(wide, "2:1 2:2 ", order.data);
  test_free(wide);
  shoal_text_deinit(&order);
  expect_good(text);
  test_free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(good_programs_pass),
      cmocka_unit_test(structure),
      cmocka_unit_test(workspace),
      cmocka_unit_test(micro_batches_in_the_middle),
      cmocka_unit_test(sizes_are_those_of_the_class),
      cmocka_unit_test(copies_are_local),
      cmocka_unit_test(harmless_changes_pass),
      cmocka_unit_test(values),
      cmocka_unit_test(slots),
      cmocka_unit_test(predicates_and_bounded_sizes),
      cmocka_unit_test(large_worlds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

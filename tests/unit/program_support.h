// Programs that the tests of program/ share, as text.
#ifndef SHOAL_TESTS_PROGRAM_SUPPORT_H_
#define SHOAL_TESTS_PROGRAM_SUPPORT_H_

#include "base/arena.h"
#include "program/bind.h"
#include "unit/unit.h"

// Two ranks, 7 rows in 3 micro-batches. y = x * w; g = sum of y's rows, over micro-batches and
// ranks; w += g. y is gathered, micro-batch by micro-batch.
static const char TRAIN[] =
    "shoal_program 1\n"
    "world 2\n"
    "micro 3\n"
    "mesh data=2,micro=3\n"
    "state w f32[4] \"\" saved\n"
    "input train x f32[7, 4]\n"
    "output train y f32[7, 4]\n"
    "output train g f32[4]\n"
    "channel 0 f32[4] \"data:partial(sum)\" -> \"\"\n"
    "channel 1 f32[7, 4] \"micro:0,data:0\" -> \"micro:0\" micro\n"
    "class 0 ranks 0-1 arena 704\n"
    "  buffer 0 state 0 \"w\" f32[4] \"\" bytes 64 offset 0\n"
    "  buffer 1 temp \"w/full\" f32[4] \"\" bytes 64 offset 64\n"
    "  buffer 2 input \"x\" f32[7, 4] \"micro:0,data:0\" bytes 64 offset 64\n"
    "  buffer 3 temp \"y\" f32[7, 4] \"micro:0,data:0\" bytes 64 offset 128\n"
    "  buffer 4 temp \"g\" f32[4] \"micro:partial(sum),data:partial(sum)\" bytes 64 offset "
    "192\n"
    "  buffer 5 temp \"g\" f32[4] \"data:partial(sum)\" bytes 64 offset 256\n"
    "  buffer 6 temp \"g\" f32[4] \"\" bytes 64 offset 64\n"
    "  buffer 7 temp \"w/add\" f32[4] \"\" bytes 64 offset 128\n"
    "  buffer 8 temp \"y\" f32[7, 4] \"micro:0\" bytes 64 offset 320\n"
    "  buffer 9 temp \"y\" f32[7, 4] \"\" bytes 128 offset 384\n"
    "  segment 0 init\n"
    "    0 compute compute shoal.full -> (1) {shape=[4], value=0.5, dtype=f32} \"w/full\"\n"
    "    1 compute copy (1) -> (0) \"w\"\n"
    "  segment 1 train.before\n"
    "    0 compute fill -> (5) value 0 \"g\"\n"
    "  segment 2 train.loop\n"
    "    0 copy feed -> (2) \"x\"\n"
    "    1 compute compute shoal.mul (2, 0) -> (3) \"y\" wait 0\n"
    "    2 comm reshard (3) -> (8) channel 1 \"y\" workspace 192@512 wait 1\n"
    "    3 compute compute shoal.reduce_sum (3) -> (4) {dims=[0]} \"g\"\n"
    "    4 compute accumulate (4) -> (5) reduce sum \"g\"\n"
    "    5 copy copy (8) -> (9) \"y\" wait 2\n"
    "  segment 3 train.after\n"
    "    0 comm reshard (5) -> (6) channel 0 \"g\"\n"
    "    1 copy fetch (9) \"y\"\n"
    "    2 copy fetch (6) \"g\" wait 0\n"
    "    3 compute compute shoal.add (0, 6) -> (7) \"w/add\" wait 0\n"
    "  segment 4 train.commit\n"
    "    0 compute copy (7) -> (0) \"w\"\n"
    "  order init 0\n"
    "  order train 1 2:0[0<3.3] 2:1 2:2 3[0<1.4] 4\n";

// Stage a on ranks 0 and 1, stage b on ranks 2 to 4: a row of x goes from a to b as its negative,
// and comes back squared; all micro-batches are alive at once. Rank 5 has nothing to do but to
// fetch.
static const char STAGES[] =
    "shoal_program 1\n"
    "world 6\n"
    "micro 2\n"
    "mesh a!data=2,micro=2@0-1\n"
    "mesh b!data=3,micro=2@2-4\n"
    "mesh all!r=6,micro=2\n"
    "input run x f64[5, 8]\n"
    "output run z f64[8]\n"
    "channel 0 f64[5, 8] \"a!micro:0,data:0\" -> \"b!micro:0,data:0\" micro\n"
    "channel 1 f64[5, 8] \"b!micro:0,data:0\" -> \"a!micro:0,data:1\" micro\n"
    "channel 2 f64[8] \"a!data:0\" -> \"all!\"\n"
    "class 0 ranks 0-1 arena 1024\n"
    "  buffer 0 input \"x\" f64[5, 8] \"a!micro:0,data:0\" bytes 128 offset 0\n"
    "  buffer 1 temp \"n\" f64[5, 8] \"a!micro:0,data:0\" bytes 128 offset 128\n"
    "  buffer 2 temp \"s\" f64[5, 8] \"a!micro:0,data:1\" bytes 128 offset 256\n"
    "  buffer 3 temp \"t\" f64[8] \"a!micro:partial(sum),data:0\" bytes 64 offset 384\n"
    "  buffer 4 temp \"t\" f64[8] \"a!data:0\" bytes 64 offset 448\n"
    "  buffer 5 temp \"t\" f64[8] \"all!\" bytes 64 offset 512\n"
    "  segment 0 before\n"
    "    0 compute fill -> (4) value 0 \"t\"\n"
    "  segment 1 forward\n"
    "    0 copy feed -> (0) \"x\"\n"
    "    1 compute compute shoal.neg (0) -> (1) \"n\" wait 0\n"
    "    2 comm reshard (1) -> (-) channel 0 \"n\" workspace 448@576 wait 1\n"
    "  segment 2 backward\n"
    "    0 comm reshard (-) -> (2) channel 1 \"s\" workspace 448@576\n"
    "    1 compute compute shoal.reduce_sum (2) -> (3) {dims=[0]} \"t\" wait 0\n"
    "    2 compute accumulate (3) -> (4) reduce sum \"t\"\n"
    "  segment 3 after\n"
    "    0 comm reshard (4) -> (5) channel 2 \"t\" workspace 448@576\n"
    "    1 copy fetch (5) \"z\" wait 0\n"
    "  order run 0[0<1.0] 1:0 1:1[0<1.1,1<1.2] 2:0 2:1[0<1.1] 3[0<1.2]\n"
    "class 1 ranks 2-4 arena 1024\n"
    "  slots 0 2\n"
    "  buffer 0 temp \"n\" f64[5, 8] \"b!micro:0,data:0\" bytes 64 offset 0\n"
    "  buffer 1 temp \"s\" f64[5, 8] \"b!micro:0,data:0\" group 0 bytes 64 offset 128\n"
    "  buffer 2 temp \"t\" f64[8] \"all!\" bytes 64 offset 256\n"
    "  segment 0 forward\n"
    "    0 comm reshard (-) -> (0) channel 0 \"n\" workspace 448@576\n"
    "    1 compute compute shoal.square (0) -> (1) \"s\" wait 0\n"
    "  segment 1 backward\n"
    "    0 comm reshard (1) -> (-) channel 1 \"s\" workspace 448@576\n"
    "  segment 2 after\n"
    "    0 comm reshard (-) -> (2) channel 2 \"t\" workspace 448@576\n"
    "    1 copy fetch (2) \"z\" wait 0\n"
    "  order run 0:0{0=0} 0:1{0=1}[0<1.1] 1:0{0=0} 1:1{0=1}[0<2.1] 2[0<5.1]\n"
    "class 2 ranks 5 arena 1024\n"
    "  buffer 0 temp \"t\" f64[8] \"all!\" bytes 64 offset 0\n"
    "  segment 0 after\n"
    "    0 comm reshard (-) -> (0) channel 2 \"t\" workspace 448@576\n"
    "    1 copy fetch (0) \"z\" wait 0\n"
    "  order run 0[0<1.1]\n";

// Memory of three kinds: w rests in a file and comes to the device; y goes to the host while z
// takes its place, and comes back. w = x * w + w.
static const char OFFLOADED[] =
    "shoal_program 1\n"
    "world 2\n"
    "micro 1\n"
    "mesh d=2\n"
    "state w f64[8] \"\" saved\n"
    "input train x f64[8]\n"
    "output train w f64[8]\n"
    "output train z f64[8]\n"
    "output train x f64[8]\n"
    "class 0 ranks 0-1 arena 384 host 128 file 64\n"
    "  buffer 0 state 0 \"w\" f64[8] \"\" memory file bytes 64 offset 0\n"
    "  buffer 1 temp \"w\" f64[8] \"\" bytes 64 offset 0\n"
    "  buffer 2 input \"x\" f64[8] \"\" bytes 64 offset 64\n"
    "  buffer 3 temp \"y\" f64[8] \"\" bytes 64 offset 128\n"
    "  buffer 4 temp \"y\" f64[8] \"\" memory host bytes 64 offset 0\n"
    "  buffer 5 temp \"z\" f64[8] \"\" bytes 64 offset 128\n"
    "  buffer 6 temp \"y\" f64[8] \"\" bytes 64 offset 192\n"
    "  buffer 7 temp \"w/add\" f64[8] \"\" bytes 64 offset 256\n"
    "  buffer 8 temp \"x\" f64[8] \"\" memory host bytes 64 offset 64\n"
    "  buffer 9 temp \"x\" f64[8] \"\" bytes 64 offset 320\n"
    "  segment 0 init\n"
    "    0 copy fill -> (1) value 1.5 \"w\"\n"
    "    1 copy copy (1) -> (0) \"w\"\n"
    "  segment 1 train\n"
    "    0 copy copy (0) -> (1) \"w\"\n"
    "    1 copy feed -> (2) \"x\"\n"
    "    2 compute compute shoal.mul (2, 1) -> (3) \"y\" wait 1\n"
    "    3 copy copy (2) -> (8) \"x\"\n"
    "    4 copy copy (3) -> (4) \"y\" wait 2\n"
    "    5 compute compute shoal.neg (2) -> (5) \"z\" wait 4\n"
    "    6 copy copy (4) -> (6) \"y\"\n"
    "    7 copy copy (8) -> (9) \"x\"\n"
    "    8 compute compute shoal.add (6, 1) -> (7) \"w/add\" wait 6\n"
    "    9 copy copy (7) -> (0) \"w\" wait 8\n"
    "    10 copy fetch (7) \"w\"\n"
    "    11 copy fetch (5) \"z\"\n"
    "    12 copy fetch (9) \"x\"\n"
    "  order init 0\n"
    "  order train 1\n";

// A predicate: w is only updated while the largest of g is below a limit, which all ranks agree on.
// And a bounded size: of the 8 rows of x only the first n count.
static const char GUARDED[] =
    "shoal_program 1\n"
    "world 2\n"
    "micro 1\n"
    "mesh data=2\n"
    "state w f32[4] \"\"\n"
    "input train x f32[8, 4]\n"
    "input train n i32[]\n"
    "output train w f32[4]\n"
    "channel 0 f32[4] \"data:partial(sum)\" -> \"\"\n"
    "class 0 ranks 0-1 arena 640\n"
    "  buffer 0 state 0 \"w\" f32[4] \"\" bytes 64 offset 0\n"
    "  buffer 1 input \"x\" f32[8, 4] \"data:0\" bytes 64 offset 64 count 2\n"
    "  buffer 2 input \"n\" i32[] \"\" bytes 64 offset 128\n"
    "  buffer 3 temp \"g\" f32[4] \"data:partial(sum)\" bytes 64 offset 192\n"
    "  buffer 4 temp \"g\" f32[4] \"\" bytes 64 offset 256\n"
    "  buffer 5 temp \"max\" f32[] \"\" bytes 64 offset 320\n"
    "  buffer 6 temp \"limit\" f32[] \"\" bytes 64 offset 384\n"
    "  buffer 7 temp \"ok\" bool[] \"\" bytes 64 offset 448\n"
    "  buffer 8 temp \"w/add\" f32[4] \"\" bytes 64 offset 512\n"
    "  segment 0 init\n"
    "    0 compute fill -> (0) value 1.5 \"w\"\n"
    "  segment 1 train\n"
    "    0 copy feed -> (2) \"n\"\n"
    "    1 copy feed -> (1) \"x\"\n"
    "    2 compute compute shoal.reduce_sum (1) -> (3) {dims=[0]} \"g\" wait 1\n"
    "    3 comm reshard (3) -> (4) channel 0 \"g\" wait 2\n"
    "    4 compute compute shoal.reduce_max (4) -> (5) {dims=[0]} \"max\" wait 3\n"
    "    5 compute compute shoal.full -> (6) {shape=[], value=100, dtype=f32} \"limit\"\n"
    "    6 compute compute shoal.greater_equal (6, 5) -> (7) \"ok\"\n"
    "    7 compute compute shoal.add (0, 4) -> (8) \"w/add\"\n"
    "    8 compute copy (8) -> (0) \"w\" predicate 7\n"
    "    9 copy fetch (0) \"w\" wait 8\n"
    "  order init 0\n"
    "  order train 1\n";

// Two stages of one rank, three micro-batches in the order of 1F1B. Each stage sends and receives
// on queues and lanes of their own, so that a step may begin while the one before it is still under
// way: x has a slot for each of two steps, and is fed on a queue of its own.
static const char PIPELINE[] =
    "shoal_program 1\n"
    "world 2\n"
    "micro 3\n"
    "mesh a!data=1,micro=3@0\n"
    "mesh b!data=1,micro=3@1\n"
    "mesh all!r=2,micro=3\n"
    "input run x f64[6, 8]\n"
    "output run z f64[8]\n"
    "channel 0 f64[6, 8] \"a!micro:0\" -> \"b!micro:0\" micro\n"
    "channel 1 f64[6, 8] \"b!micro:0\" -> \"a!micro:0\" micro lane 1\n"
    "channel 2 f64[8] \"a!\" -> \"all!\" lane 1\n"
    "class 0 ranks 0 arena 2304\n"
    "  queue compute compute\n"
    "  queue send comm\n"
    "  queue receive comm\n"
    "  queue feed copy\n"
    "  queue copy copy\n"
    "  slots 0 2 by_step\n"
    "  slots 1 2\n"
    "  slots 2 2\n"
    "  buffer 0 input \"x\" f64[6, 8] \"a!\" group 0 bytes 384 offset 0\n"
    "  buffer 1 temp \"x\" f64[6, 8] \"a!micro:0\" bytes 128 offset 768\n"
    "  buffer 2 temp \"n\" f64[6, 8] \"a!micro:0\" group 1 bytes 128 offset 896\n"
    "  buffer 3 temp \"s\" f64[6, 8] \"a!micro:0\" group 2 bytes 128 offset 1152\n"
    "  buffer 4 temp \"t\" f64[8] \"a!micro:partial(sum)\" bytes 64 offset 1408\n"
    "  buffer 5 temp \"t\" f64[8] \"a!\" bytes 64 offset 1472\n"
    "  buffer 6 temp \"t\" f64[8] \"all!\" bytes 64 offset 1536\n"
    "  segment 0 before\n"
    "    0 feed feed -> (0) \"x\"\n"
    "    1 compute fill -> (5) value 0 \"t\"\n"
    "  segment 1 forward\n"
    "    0 compute copy (0) -> (1) \"x\"\n"
    "    1 compute compute shoal.neg (1) -> (2) \"n\"\n"
    "    2 send reshard (2) -> (-) channel 0 \"n\" workspace 128@1600 wait 1\n"
    "  segment 2 backward\n"
    "    0 receive reshard (-) -> (3) channel 1 \"s\" workspace 128@1728\n"
    "    1 compute compute shoal.reduce_sum (3) -> (4) {dims=[0]} \"t\" wait 0\n"
    "    2 compute accumulate (4) -> (5) reduce sum \"t\"\n"
    "  segment 3 after\n"
    "    0 receive reshard (5) -> (6) channel 2 \"t\" workspace 128@1856\n"
    "    1 copy fetch (6) \"z\" wait 0\n"
    "  order run 0{0=0}[0<12.0,1<1.0] 1:0{0=0,1=0}[0<1.0,1<5.2] 1:1{0=0,1=1} 2:0{2=0}"
    " 1:2{0=0,1=0}[1<3.2] 2:1{2=1} 2:2{2=0}[0<3.1] 3[0<1.2,0<8.1]\n"
    "class 1 ranks 1 arena 2304\n"
    "  queue compute compute\n"
    "  queue send comm\n"
    "  queue receive comm\n"
    "  queue copy copy\n"
    "  slots 0 2\n"
    "  slots 1 2\n"
    "  buffer 0 temp \"n\" f64[6, 8] \"b!micro:0\" group 0 bytes 128 offset 0\n"
    "  buffer 1 temp \"s\" f64[6, 8] \"b!micro:0\" group 1 bytes 128 offset 256\n"
    "  buffer 2 temp \"t\" f64[8] \"all!\" bytes 64 offset 512\n"
    "  segment 0 forward\n"
    "    0 receive reshard (-) -> (0) channel 0 \"n\" workspace 128@1600\n"
    "    1 compute compute shoal.square (0) -> (1) \"s\" wait 0\n"
    "  segment 1 backward\n"
    "    0 send reshard (1) -> (-) channel 1 \"s\" workspace 128@1728\n"
    "  segment 2 after\n"
    "    0 receive reshard (-) -> (2) channel 2 \"t\" workspace 128@1856\n"
    "    1 copy fetch (2) \"z\" wait 0\n"
    "  order run 0:0{0=0,1=0}[0<3.1,1<2.0] 1:0{1=0}[0<1.1] 0:1{0=1,1=1} 1:1{1=1}[0<1.1]"
    " 0:2{0=0,1=0}[0<4.1,1<3.0] 1:2{1=0}[0<1.1] 2[0<7.1]\n";

static inline shoal_registry_t *test_registry(void) {
  shoal_registry_t *registry = NULL;
  assert_ok(shoal_registry_create(shoal_allocator_system(), &registry));
  return registry;
}

static inline shoal_program_t *parse_ok(const char *text, const shoal_registry_t *registry) {
  shoal_program_t *program = NULL;
  assert_ok(shoal_program_parse("p", text, registry, shoal_allocator_system(), &program));
  return program;
}

static inline void expect_text(const shoal_program_t *program, const char *text) {
  shoal_arena_t arena;
  const char *printed = NULL;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(shoal_program_print(program, &arena, &printed));
  assert_string_equal(printed, text);
  shoal_arena_deinit(&arena);
}

// The program of this text passes the static check.
static inline void expect_good(const char *text) {
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse_ok(text, registry);
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  shoal_program_free(program);
  shoal_registry_release(registry);
}

// The text with the first `from` replaced by `to`; the caller owns it.
static inline char *edit(const char *text, const char *from, const char *to) {
  const char *at = strstr(text, from);
  if (!at) fail_msg("the text has no '%s'", from);
  size_t before = (size_t)(at - text), rest = strlen(at) - strlen(from);
  char *result = test_malloc(before + strlen(to) + rest + 1);
  memcpy(result, text, before);
  strcpy(result + before, to);
  strcat(result, at + strlen(from));
  return result;
}

#endif  // SHOAL_TESTS_PROGRAM_SUPPORT_H_

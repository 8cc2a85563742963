// Outputs that lie over inputs: what the record of the op allows passes the static check, and
// nothing else does.
#include "program_corrupt.h"
#include "shoal/program.h"

// y = relu(x) lies over x, z = y + w over y; g is the sum of z's rows, and the new w lies where w
// lies. Seven rows: the two ranks have parts of different sizes.
static const char IN_PLACE[] =
    "shoal_program 1\n"
    "world 2\n"
    "micro 1\n"
    "mesh data=2\n"
    "state w f32[4] \"\" saved\n"
    "input train x f32[7, 4]\n"
    "output train g f32[4]\n"
    "channel 0 f32[4] \"data:partial(sum)\" -> \"\"\n"
    "class 0 ranks 0-1 arena 512\n"
    "  buffer 0 state 0 \"w\" f32[4] \"\" bytes 64 offset 0\n"
    "  buffer 1 next 0 \"w/full\" f32[4] \"\" bytes 64 offset 0\n"
    "  buffer 2 input \"x\" f32[7, 4] \"data:0\" bytes 64 offset 64\n"
    "  buffer 3 temp \"y\" f32[7, 4] \"data:0\" bytes 64 offset 64\n"
    "  buffer 4 temp \"z\" f32[7, 4] \"data:0\" bytes 64 offset 64\n"
    "  buffer 5 temp \"g\" f32[4] \"data:partial(sum)\" bytes 64 offset 192\n"
    "  buffer 6 temp \"g\" f32[4] \"\" bytes 64 offset 256\n"
    "  buffer 7 next 0 \"w/add\" f32[4] \"\" bytes 64 offset 0\n"
    "  buffer 8 temp \"v\" f32[4] \"\" bytes 64 offset 320\n"
    "  buffer 9 temp \"ok\" bool[] \"\" bytes 64 offset 384\n"
    "  segment 0 init\n"
    "    0 compute compute shoal.full -> (1) {shape=[4], value=0.5, dtype=f32} \"w/full\"\n"
    "  segment 1 train\n"
    "    0 copy feed -> (2) \"x\"\n"
    "    1 compute compute shoal.relu (2) -> (3) \"y\" wait 0\n"
    "    2 compute compute shoal.add (3, 0) -> (4) \"z\"\n"
    "    3 compute compute shoal.reduce_sum (4) -> (5) {dims=[0]} \"g\"\n"
    "    4 comm reshard (5) -> (6) channel 0 \"g\" wait 3\n"
    "    5 copy fetch (6) \"g\" wait 4\n"
    "    6 compute compute shoal.full -> (9) {shape=[], value=1, dtype=bool} \"ok\"\n"
    "    7 compute compute shoal.add (0, 6) -> (7) \"w/add\" wait 4\n"
    "    8 compute compute shoal.neg (7) -> (8) \"v\"\n"
    "  order init 0\n"
    "  order train 1\n";

static void check_text(const char *text, bool passes) {
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse_ok(text, registry);
  expect_text(program, text);
  if (passes) assert_ok(shoal_program_check(program, shoal_allocator_system()));
  shoal_program_free(program);
  shoal_registry_release(registry);
}

static void what_the_record_allows_passes(void **state) {
  (void)state;
  check_text(IN_PLACE, true);
  // The state's own buffer as input and output, also under a predicate: skipped, it keeps its
  // value.
  char *same = edit(IN_PLACE, "(0, 6) -> (7)", "(0, 6) -> (0)"),
       *read = edit(same, "neg (7)", "neg (0)"),
       *guarded = edit(read, "\"w/add\" wait 4", "\"w/add\" predicate 9 wait 4");
  check_text(read, true);
  check_text(guarded, true);
  test_free(same);
  test_free(read);
  test_free(guarded);
}

static void the_rest_is_refused(void **state) {
  (void)state;
  static const corruption_t cases[] = {
      // by the op's record
      {"4 temp \"z\" f32[7, 4] \"data:0\" bytes 64 offset 64",
       "4 temp \"z\" f32[7, 4] \"data:0\" bytes 64 offset 0",
       "output 0 'z' lies over input 1, which shoal.add must not overwrite"},
      {"bytes 64 offset 192", "bytes 64 offset 64",
       "output 0 'g' lies over input 0, which shoal.reduce_sum must not overwrite"},
      // partly, or over more than one operand
      {"3 temp \"y\" f32[7, 4] \"data:0\" bytes 64 offset 64",
       "3 temp \"y\" f32[7, 4] \"data:0\" bytes 128 offset 64",
       "overlaps another of its own operands"},
      {"shoal.add (0, 6) -> (7)", "shoal.add (0, 0) -> (7)",
       "output 0 'w/add' lies over input 0 and over another operand, 'w'"},
      {"8 temp \"v\" f32[4] \"\" bytes 64 offset 320", "8 temp \"v\" f32[4] \"\" bytes 64 offset 0",
       "has been overwritten by buffer 8 'v'"},
      // the input is read later
      {"reduce_sum (4)", "reduce_sum (3)", "buffer 3 'y' has been overwritten by buffer 4 'z'"},
      {"shoal.neg (7)", "shoal.neg (0)", "buffer 0 'w' has been overwritten by buffer 7 'w/add'"},
      // a skipped write leaves the old value of another buffer
      {"\"w/add\" wait 4", "\"w/add\" predicate 9 wait 4", "buffer 7 'w/add' is read before"},
      // nothing but an op overwrites
      {"7 compute compute shoal.add (0, 6) -> (7) \"w/add\" wait 4",
       "7 compute copy (0) -> (7) \"w/add\" wait 4", "overlaps another of its own operands"},
      // next values
      {"7 next 0 \"w/add\" f32[4] \"\" bytes 64 offset 0",
       "7 next 0 \"w/add\" f32[4] \"\" bytes 64 offset 448",
       "buffer 7 'w/add': it lies elsewhere than state 0"},
      {"7 next 0 \"w/add\" f32[4] \"\"", "7 next 0 \"w/add\" f32[4] \"data:0\"",
       "differs from state 'w'"},
      {"buffer 0 state 0", "buffer 0 next 0", "it lies elsewhere than state 0"},
      {"7 next 0 \"w/add\"", "7 temp \"w/add\"", "'w' has been overwritten by buffer 7 'w/add'"},
  };
  ALL_ARE_CAUGHT(IN_PLACE, cases);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_the_record_allows_passes),
      cmocka_unit_test(the_rest_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

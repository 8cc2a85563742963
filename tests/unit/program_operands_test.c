// The static check of reshards of several values: they go together, in all classes alike, and have
// room to be packed.
#include "program_corrupt.h"

// Two stages of two ranks each, one class a stage. Stage a sums two values over its ranks together,
// and sends two to stage b, which gathers three of different types.
static const char BUNDLES[] =
    "shoal_program 1\n"
    "world 4\n"
    "micro 2\n"
    "mesh a!d=2,micro=2@0-1\n"
    "mesh b!d=2,micro=2@2-3\n"
    "input t x f32[8, 6]\n"
    "input t y f32[8, 3]\n"
    "channel 0 f32[6] \"a!micro:partial(sum),d:partial(sum)\" -> \"a!micro:partial(sum)\" micro\n"
    "channel 1 f32[3] \"a!micro:partial(sum),d:partial(sum)\" -> \"a!micro:partial(sum)\" micro\n"
    "channel 2 f32[8, 6] \"a!micro:0,d:0\" -> \"b!micro:0,d:1\" micro lane 1\n"
    "channel 3 f32[8, 3] \"a!micro:0,d:0\" -> \"b!micro:0,d:1\" micro lane 1\n"
    "class 0 ranks 0-1 arena 2048\n"
    "  buffer 0 input \"x\" f32[8, 6] \"a!micro:0,d:0\" bytes 64 offset 0\n"
    "  buffer 1 input \"y\" f32[8, 3] \"a!micro:0,d:0\" bytes 64 offset 64\n"
    "  buffer 2 temp \"g\" f32[6] \"a!micro:partial(sum),d:partial(sum)\" bytes 64 offset 128\n"
    "  buffer 3 temp \"h\" f32[3] \"a!micro:partial(sum),d:partial(sum)\" bytes 64 offset 192\n"
    "  buffer 4 temp \"g\" f32[6] \"a!micro:partial(sum)\" bytes 64 offset 256\n"
    "  buffer 5 temp \"h\" f32[3] \"a!micro:partial(sum)\" bytes 64 offset 320\n"
    "  segment 0 s\n"
    "    0 copy feed -> (0) \"x\"\n"
    "    1 copy feed -> (1) \"y\"\n"
    "    2 compute compute shoal.reduce_sum (0) -> (2) {dims=[0]} \"g\" wait 0\n"
    "    3 compute compute shoal.reduce_sum (1) -> (3) {dims=[0]} \"h\" wait 1\n"
    "    4 comm reshard (2, 3) -> (4, 5) channel 0,1 \"sums\" workspace 64@384 wait 3\n"
    "    5 comm reshard (0, 1) -> (-, -) channel 2,3 \"rows\" wait 1\n"
    "  order t 0:0[0<1.5,1<1.5,2<1.4] 0:1[0<1.5,1<1.5,2<1.4]\n"
    "class 1 ranks 2-3 arena 2048\n"
    "  buffer 0 temp \"x\" f32[8, 6] \"b!micro:0,d:1\" bytes 64 offset 0\n"
    "  buffer 1 temp \"y\" f32[8, 3] \"b!micro:0,d:1\" bytes 64 offset 64\n"
    "  segment 0 s\n"
    "    0 comm reshard (-, -) -> (0, 1) channel 2,3 \"rows\" workspace 128@128\n"
    "  order t 0:0 0:1\n";

static void well(const char *text) {
  shoal_registry_t *registry = test_registry();
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_program_t *program = parse_ok(text, registry);
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  expect_text(program, text);
  shoal_bound_t bound;
  for (int32_t rank = 0; rank < program->world; ++rank) {
    assert_ok(shoal_program_bind(program, rank, &arena, &bound));
  }
  // Both values of a stage travel in one message to each rank of the other.
  const shoal_bundle_t *rows = bound.orders[0].calls[0].instructions[0].reshard;
  assert_int_equal(rows->count, 2);
  assert_int_equal(rows->whole.recv_count, 2);
  assert_int_equal(rows->whole.recvs[0].count + rows->whole.recvs[1].count, 4 * (3 + 1) * 4);
  shoal_program_free(program);
  shoal_arena_deinit(&arena);
  shoal_registry_release(registry);
}

static void several_values(void **state) {
  (void)state;
  well(BUNDLES);
  static const corruption_t cases[] = {
      {"0 comm reshard (-, -) -> (0, 1) channel 2,3", "0 comm reshard (-, -) -> (1, 0) channel 3,2",
       "channel 3 is carried with others in another class, by 'rows'"},
      {"(-, -) -> (0, 1) channel 2,3 \"rows\" workspace 128@128\n",
       "(-) -> (0) channel 2 \"x\" workspace 64@128\n"
       "    1 comm reshard (-) -> (1) channel 3 \"y\" workspace 64@128\n",
       "channel 2 is carried with others in another class"},
      {"(-, -) -> (0, 1) channel 2,3 \"rows\" workspace 128@128\n",
       "(-) -> (0) channel 2 \"x\" workspace 64@128\n", "channel"},
      {"(0, 1) -> (-, -) channel 2,3", "(1, 0) -> (-, -) channel 2,3",
       "buffer 1 'y' and the channel's source differ in type or layout"},
      {"(2, 3) -> (4, 5) channel 0,1", "(2, 2) -> (4, 4) channel 0,0", "channel 0 is used by"},
      {"(2, 3) -> (4, 5)", "(2, 3) -> (5, 4)", "differ in type or layout"},
      {"lane 1\n", "lane 2\n",
       "it carries channels 2 and 3 together, which are on different lanes"},
      {"workspace 64@384", "workspace 32@384",
       "the messages of channel 0 need 64 bytes of workspace here, the program gives it 32"},
      {"workspace 128@128", "workspace 64@128", "need 128 bytes of workspace here"},
      // The second value is not there yet, or written over too early.
      {"\"sums\" workspace 64@384 wait 3", "\"sums\" workspace 64@384 wait 2", "nothing orders"},
      {"2<1.4] 0:1", "2<1.3] 0:1", "on the same queue"},
      {"offset 320", "offset 256", "overlaps another of its own operands"},
      {"workspace 64@384", "workspace 64@320", "overlaps another of its own operands"},
  };
  ALL_ARE_CAUGHT(BUNDLES, cases);
}

// One collective has one kind, group, reduction and, where it reduces, one type of elements.
static void collectives_differ(void **state) {
  (void)state;
  static const char base[] =
      "shoal_program 1\n"
      "world 4\n"
      "micro 1\n"
      "mesh d=2,e=2\n"
      "channel 0 f32[4] \"d:partial(sum)\" -> \"\"\n"
      "channel 1 f32[4] \"d:partial(sum)\" -> \"\"\n"
      "class 0 ranks 0-3 arena 1024\n"
      "  buffer 0 temp \"v\" f32[4] \"d:partial(sum)\" bytes 64 offset 0\n"
      "  buffer 1 temp \"w\" f32[4] \"d:partial(sum)\" bytes 64 offset 64\n"
      "  buffer 2 temp \"v\" f32[4] \"\" bytes 64 offset 128\n"
      "  buffer 3 temp \"w\" f32[4] \"\" bytes 64 offset 192\n"
      "  segment 0 s\n"
      "    0 compute fill -> (0) value 0 \"v\"\n"
      "    1 compute fill -> (1) value 0 \"w\"\n"
      "    2 comm reshard (0, 1) -> (2, 3) channel 0,1 \"both\" workspace 256@256 wait 1\n"
      "  order t 0[0<1.2,1<1.2]\n";
  static const struct {
    const char *dtype, *src, *dst, *part;
  } cases[] = {
      {"f32", "d:partial(sum)", "", NULL},
      {"f32", "d:partial(sum)", "d:0", "they are different collectives"},
      {"f32", "d:0", "", "they are different collectives"},
      {"f32", "e:partial(sum)", "", "they are of different groups"},
      {"f32", "d:partial(max)", "", "they reduce differently"},
      {"f64", "d:partial(sum)", "", "they reduce different types of elements"},
      {"f32", "d:0", "d:0+1+1", "one is a collective and the other is messages"},
  };
  shoal_registry_t *registry = test_registry();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char from[80], to[80];
    snprintf(from, sizeof from, "\"w\" %s[4] \"%s\" bytes", cases[i].dtype, cases[i].src);
    snprintf(to, sizeof to, "\"w\" %s[4] \"%s\" bytes", cases[i].dtype, cases[i].dst);
    char channel[120];
    snprintf(channel, sizeof channel, "channel 1 %s[4] \"%s\" -> \"%s\"", cases[i].dtype,
             cases[i].src, cases[i].dst);
    char *b = edit(base, "\"w\" f32[4] \"d:partial(sum)\" bytes", from);
    char *c = edit(b, "\"w\" f32[4] \"\" bytes", to);
    char *text = edit(c, "channel 1 f32[4] \"d:partial(sum)\" -> \"\"", channel);
    shoal_program_t *program = parse_ok(text, registry);
    shoal_status_t status = shoal_program_check(program, shoal_allocator_system());
    if (!cases[i].part)
      assert_ok(status);
    else
      assert_error(MISMATCH, cases[i].part, status);
    shoal_program_free(program);
    test_free(b);
    test_free(c);
    test_free(text);
  }
  shoal_registry_release(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(several_values),
      cmocka_unit_test(collectives_differ),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

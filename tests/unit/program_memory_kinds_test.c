// Arenas of device, host and file memory: they print and parse, only copies reach the last two,
// and conflicts are looked for in each by itself.
#include "program_corrupt.h"
#include "program_race.h"

static void prints_and_parses(void **state) {
  (void)state;
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse_ok(OFFLOADED, registry);
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  const shoal_class_t *class = &program->classes[0];
  assert_int_equal(class->arena_bytes[SHOAL_MEMORY_DEVICE], 384);
  assert_int_equal(class->arena_bytes[SHOAL_MEMORY_HOST], 128);
  assert_int_equal(class->arena_bytes[SHOAL_MEMORY_FILE], 64);
  assert_int_equal(class->buffers[0].memory, SHOAL_MEMORY_FILE);
  assert_int_equal(class->buffers[1].memory, SHOAL_MEMORY_DEVICE);
  assert_int_equal(class->buffers[4].memory, SHOAL_MEMORY_HOST);
  for (int64_t o = 0; o < class->order_count; ++o)
    assert_false(order_has_race(class, &class->orders[o]));
  shoal_arena_t *arena = NULL;
  const char *text;
  assert_ok(shoal_arena_create(shoal_allocator_system(), &arena));
  assert_ok(shoal_program_print(program, arena, &text));
  assert_string_equal(text, OFFLOADED);
  shoal_arena_free(arena);
  shoal_program_free(program);
  static const struct {
    const char *from, *to, *message;
  } bad[] = {{"memory host", "memory tape", "memory is device, host or file"},
             {"host 128", "host -1", "arena"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    char *broken = edit(OFFLOADED, bad[i].from, bad[i].to);
    assert_error(INVALID_ARGUMENT, bad[i].message,
                 shoal_program_parse("p", broken, registry, shoal_allocator_system(), &program));
    test_free(broken);
  }
  shoal_registry_release(registry);
}

static void names(void **state) {
  (void)state;
  for (int kind = 0; kind < SHOAL_MEMORY_COUNT; ++kind) {
    shoal_memory_kind_t found = SHOAL_MEMORY_COUNT;
    assert_true(shoal_memory_kind_parse(shoal_memory_kind_name((shoal_memory_kind_t)kind), &found));
    assert_int_equal(found, kind);
  }
  shoal_memory_kind_t none;
  assert_false(shoal_memory_kind_parse("disk", &none));
  assert_string_equal(shoal_memory_kind_name(SHOAL_MEMORY_COUNT), "?");
}

static void use_is_told_by_kind(void **state) {
  (void)state;
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse_ok(OFFLOADED, registry);
  shoal_memory_use_t use;
  assert_ok(shoal_program_memory(program, 0, shoal_allocator_system(), &use));
  assert_int_equal(use.states, 0);  // the state is in a file
  assert_int_equal(use.inputs, 64);
  assert_int_equal(use.temporaries, 320);
  assert_int_equal(use.arenas[SHOAL_MEMORY_DEVICE], 384);
  assert_int_equal(use.arenas[SHOAL_MEMORY_HOST], 128);
  assert_int_equal(use.arenas[SHOAL_MEMORY_FILE], 64);
  shoal_program_free(program);
  shoal_registry_release(registry);
}

static void wrong_programs_are_caught(void **state) {
  (void)state;
  static const corruption_t cases[] = {
      // Only copies, on queues of kind copy, whole, without a predicate.
      {"(0) -> (1) \"w\"\n    1 copy feed -> (2)", "(0) -> (1) \"w\"\n    1 copy feed -> (4)",
       "operand 'y' lies in host memory, which only copies reach"},
      {"shoal.neg (2)", "shoal.neg (4)",
       "operand 'y' lies in host memory, which only copies reach"},
      {"fill -> (1)", "fill -> (0)", "operand 'w' lies in file memory, which only copies reach"},
      {"fetch (5) \"z\"", "fetch (4) \"z\"", "operand 'y' lies in host memory"},
      {"0 copy copy (0) -> (1) \"w\"\n", "0 compute copy (0) -> (1) \"w\"\n",
       "it copies 'w', which lies in file memory, on queue 'compute'"},
      {"buffer 6 temp \"y\" f64[8] \"\"", "buffer 6 temp \"y\" f64[8] \"d:0\"",
       "it copies 'y', which lies in host memory, into another layout"},
      // Each arena has its own size.
      {"host 128 ", "", "it lies at [0, 64) of host memory, behind the arena's 0 bytes"},
      {"memory file bytes 64 offset 0", "memory file bytes 64 offset 64",
       "it lies at [64, 128) of file memory, behind the arena's 64 bytes"},
      // Waits for what is under way between kinds of memory.
      {"\"z\" wait 4\n", "\"z\"\n", "nothing orders the two"},
      {"\"w/add\" wait 6\n", "\"w/add\"\n", "nothing orders the two"},
      {"-> (4) \"y\" wait 2\n", "-> (4) \"y\"\n", "nothing orders the two"},
      // The next value of w must reach its file only when the old one is not read any more; and
      // what was brought back must have been put there.
      {"6 copy copy (4) -> (6)", "6 copy copy (2) -> (4)",
       "buffer 4 'y' is written twice in one call"},
      {"4 copy copy (3) -> (4) \"y\"", "4 copy copy (3) -> (6) \"y\"",
       "buffer 4 'y' is read before it is written"},
  };
  ALL_ARE_CAUGHT(OFFLOADED, cases);
}

// In the file y takes the place of w, which is lost then; the same offset on the host is not w's.
static void kinds_do_not_overlap(void **state) {
  (void)state;
  char *one = edit(OFFLOADED, "\"y\" f64[8] \"\" memory host", "\"y\" f64[8] \"\" memory file");
  char *two = edit(one, "9 copy copy (7) -> (0)", "9 copy copy (7) -> (3)");
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse_ok(two, registry);
  assert_error(MISMATCH, "has been overwritten by buffer",
               shoal_program_check(program, shoal_allocator_system()));
  shoal_program_free(program);
  shoal_registry_release(registry);
  test_free(two);
  test_free(one);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(prints_and_parses),    cmocka_unit_test(names),
      cmocka_unit_test(use_is_told_by_kind),  cmocka_unit_test(wrong_programs_are_caught),
      cmocka_unit_test(kinds_do_not_overlap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

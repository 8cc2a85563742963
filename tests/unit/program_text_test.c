// Programs as text: what is printed parses back and prints the same; what is wrong is named with
// its line; no bytes crash the parser, and no lack of memory leaks.
#include <stdlib.h>

#include "program_support.h"
#include "shoal/program.h"
#include "unit/failing.h"
#include "unit/random.h"

static const char *const programs[] = {TRAIN, STAGES, GUARDED, PIPELINE};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static void round_trips(void **state) {
  (void)state;
  shoal_registry_t *registry = test_registry();
  for (int i = 0; i < PROGRAMS; ++i) {
    shoal_program_t *program = parse_ok(programs[i], registry);
    expect_text(program, programs[i]);
    shoal_program_free(program);
  }
  shoal_registry_release(registry);
}

// Everything the form has, and names that need quotes.
static void odd_things_round_trip(void **state) {
  (void)state;
  static const char text[] =
      "shoal_program 1\nworld 4\nmicro 1\nmesh a!data=2,tensor=2@3,0-2\nmesh b!x=1@2\n"
      "state \"7 \\\"up\\\"\" bf16[0, 3] \"a!tensor:1(3,1)\"\n"
      "state w#adamw.m f64[] \"b!\" saved\n"
      "input \"my graph\" \"x y\" u8[2, 2, 2]\n"
      "channel 0 f32[12] \"a!tensor:0*(8/4,4/2),data:flat\" -> \"a!data:0/3#4+1-1\"\n"
      "channel 1 f32[3] \"a!\" -> \"b!\"\n"
      "class 0 ranks 0,2-3 arena 0\n"
      "  buffer 0 output \"a\\\\b\" bool[] \"b!\" bytes 64 offset 0\n"
      "  segment 0 \"seg 1\"\n"
      "    0 compute fill -> (0) value inf \"\"\n"
      "    1 copy fill -> (0) value -2.5e-300 \"n\" predicate 0 workspace 1@64 wait 0\n"
      "    2 comm reshard (-) -> (-) channel 0 \"n\" wait 0 1\n"
      "    3 comm reshard (-, 0) -> (0, -) channel 1,0 \"two\"\n"
      "  segment 1 empty\n"
      "  order \"my graph\" 1 0:0\n"
      "  order nothing\n"
      "class 1 ranks 1 arena 64\n";
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse_ok(text, registry);
  expect_text(program, text);
  assert_ptr_equal(shoal_program_class_of(program, 3), &program->classes[0]);
  assert_ptr_equal(shoal_program_class_of(program, 1), &program->classes[1]);
  assert_null(shoal_program_class_of(program, 4));
  shoal_program_free(program);

  // Blank lines, comments and blanks between tokens are allowed.
  char *loose = edit(text, "micro 1\n", "\n# so many\n  micro   1 # one\n\n");
  program = parse_ok(loose, registry);
  expect_text(program, text);
  shoal_program_free(program);
  test_free(loose);
  shoal_registry_release(registry);
}

static void attributes_of_every_kind_round_trip(void **state) {
  (void)state;
  static const char line[] =
      "    0 compute compute shoal.full -> (1) {shape=[4], value=0.5, dtype=f32} \"w/full\"\n";
  static const char *const lines[] = {
      "    0 compute compute shoal.full -> (1) {shape=[4], value=1e-300, dtype=bf16} \"w/full\"\n",
      "    0 compute compute shoal.einsum (0, 0) -> (1) {equation=\"a,b->ab\"} \"e\"\n",
      "    0 compute compute shoal.reduce_sum (0) -> (1) {dims=[0, 1], keep=1} \"r\"\n",
      "    0 compute compute shoal.concat (0, 1, 0) -> (1) {axis=-1} \"c\"\n",
  };
  shoal_registry_t *registry = test_registry();
  for (size_t i = 0; i < sizeof lines / sizeof *lines; ++i) {
    char *text = edit(TRAIN, line, lines[i]);
    shoal_program_t *program = parse_ok(text, registry);
    expect_text(program, text);
    shoal_program_free(program);
    test_free(text);
  }
  shoal_registry_release(registry);
}

typedef struct parse_error {
  const char *from, *to, *message;
} parse_error_t;

static void all_are_refused(const char *base, const parse_error_t *cases, size_t count) {
  shoal_registry_t *registry = test_registry();
  for (size_t i = 0; i < count; ++i) {
    char *text = edit(base, cases[i].from, cases[i].to);
    shoal_program_t *program = NULL;
    assert_error(INVALID_ARGUMENT, cases[i].message,
                 shoal_program_parse("p", text, registry, shoal_allocator_system(), &program));
    assert_null(program);
    test_free(text);
  }
  shoal_registry_release(registry);
}
#define ALL_ARE_REFUSED(base, cases) \
  all_are_refused((base), (cases), sizeof(cases) / sizeof *(cases))

static void errors_name_the_line(void **state) {
  (void)state;
  static const parse_error_t cases[] = {
      {"shoal_program 1", "shoal_program 2", "p:1:16: version 2 is not between 1 and 1"},
      {"world 2", "world 0", "p:2:8: world 0"},
      {"micro 3\n", "micro 99999999\n", "p:3:15: micro 99999999"},
      {"mesh data=2,micro=3", "mesh data=3,micro=3", "p:4:6: the mesh has 3 ranks, the world 2"},
      {"mesh data=2,micro=3", "mesh data=2000000000,micro=3@0", "ranks, the world 2"},
      {"mesh data=2,micro=3", "mesh data=2,micro=3@0,5", "the mesh has rank 5"},
      {"mesh data=2,micro=3", "mesh data=2", "the mesh has 1 micro-batches, the program 3"},
      {"mesh data=2,micro=3", "mesh data", "axis=size"},
      {"mesh data=2,micro=3\n", "", "p:4:1: expected 'mesh', found 'state'"},
      {"mesh data=2,micro=3\n", "mesh data=2,micro=3\nmesh data=2,micro=3\n", "two meshes"},
      {"state w f32[4]", "state w f31[4]", "p:5:12: 'f31' is no element type"},
      {"state w f32[4]", "state w f32[-4]", "dim 0 is negative (-4)"},
      {"state w f32[4]", "state w f32[9223372036854775807]", "does not fit 64 bits"},
      {"state w f32[4] \"\"", "state w f32[4] \"tensr:0\"", "no axis 'tensr'"},
      {"channel 0", "channel 1", "p:9:10: channel 0 must come here, found 1"},
      {"\"micro:0\" micro", "\"micro:2\" micro", "there is no dim 2"},
      {"class 0 ranks 0-1", "class 0 ranks 1-0", "rank 0 is not between 1 and 1"},
      {"class 0 ranks 0-1", "class 0 ranks 0,0", "rank 0"},
      {"buffer 1 temp", "buffer 1 tmp", "p:13:12: a buffer is temp, state, input, output or next"},
      {"buffer 0 state 0", "buffer 0 state 1", "state 1 is not between 0 and 0"},
      {"offset 384", "offset 384 count 10", "buffer 9 counts in buffer 10"},
      {"bytes 64 offset", "group 0 bytes 64 offset", "slot group 0: there is none"},
      {"0 compute compute", "0 cmopute compute", "no queue 'cmopute': did you mean 'compute'?"},
      {"compute accumulate", "compute acumulate", "did you mean 'accumulate'?"},
      {"shoal.full", "shoal.fullx", "did you mean 'shoal.full'?"},
      {"shape=[4]", "shap=[4]", "has no attribute 'shap'"},
      {"shape=[4], ", "", "needs the attribute 'shape'"},
      {"value=0.5", "value=\"x\"", "expected a number"},
      {"dtype=f32}", "dtype=f32, shape=[4]}", "given twice"},
      {"(2, 0) -> (3)", "(2, 10) -> (3)", "buffer 10 is not between 0 and 9"},
      {"(2, 0) -> (3)", "(2) -> (3)", "shoal.mul takes 2 inputs, not 1"},
      {"(2, 0) -> (3)", "(2, -) -> (3)", "expected a whole number"},
      {"copy (1) -> (0)", "copy (1)", "copy takes 1 buffers and gives 1, not 1 and 0"},
      {"channel 1 \"y\"", "channel 2 \"y\"", "channel 2 is not between 0 and 1"},
      {"(3) -> (8) channel 1", "(3, 3) -> (8) channel 1",
       "reshard takes 2 buffers and gives 2, not 2 and 1"},
      {"(3) -> (8) channel 1", "(3, 3) -> (8, 8) channel 1 ", "expected ',', found"},
      {"(3) -> (8) channel 1", "(3) -> (8) channel 1,0", "expected a quoted string, found ',0'"},
      {"(3) -> (8) channel 1", "channel 1", "reshard takes 1 buffers and gives 1, not 0 and 0"},
      {"reduce sum", "reduce mean", "there is no reduction 'mean'"},
      {"\"y\" wait 0", "\"y\" wait 1", "an instruction to wait for, 1 is not between 0 and 0"},
      {"\"y\" wait 0", "\"y\" whait 0", "expected the end of the line, found 'whait'"},
      {"    1 compute copy", "    2 compute copy", "instruction 1 must come here, found 2"},
      {"order init 0", "order init 5", "segment 5 is not between 0 and 4"},
      {"2:2 3[0<1.4] 4", "2:3 3[0<1.4] 4", "micro-batch 3 is not between 0 and 2"},
      {"3[0<1.4] 4\n", "3[0<1.4] 4\nhello\n", "this is no line of a program"},
      {"class 0 ranks 0-1 arena 704", "class 0", "expected 'ranks', found the end of the line"},
  };
  ALL_ARE_REFUSED(TRAIN, cases);
}

// Queues, slots, lanes, and what calls say of them.
static void errors_in_calls_name_the_line(void **state) {
  (void)state;
  static const parse_error_t cases[] = {
      {"  queue send comm", "  queue send com",
       "p:14:14: a queue is of kind compute, comm or copy"},
      {"  queue receive comm", "  queue send comm", "there are two queues 'send'"},
      {"  queue compute compute\n", "", "no queue 'compute'"},
      {"  queue feed copy\n",
       "  queue feed copy\n  queue c copy\n  queue d copy\n  queue e copy\n  queue f copy\n",
       "a class has at most 8 queues"},
      {"0 feed feed", "0 fed feed", "p:29:10: the class has no queue 'fed': did you mean 'feed'?"},
      {"slots 0 2 by_step", "slots 1 2 by_step", "p:18:10: slot group 0 must come here, found 1"},
      {"slots 0 2 by_step", "slots 0 0 by_step", "p:18:12: slots 0 is not between 1 and 65536"},
      {"slots 0 2 by_step", "slots 0 2 by_micro", "expected the end of the line, found 'by_micro'"},
      {"group 2 bytes", "group 3 bytes", "slot group 3 is not between 0 and 2"},
      {"micro lane 1", "micro lane 8", "lane 8 is not between 0 and 7"},
      {"micro lane 1", "micro lane", "expected a whole number"},
      {"1:1{0=0,1=1}", "1:1{0=0,1=2}", "slot 2 is not between 0 and 1"},
      {"1:1{0=0,1=1}", "1:1{0=0,3=1}", "slot group 3 is not between 0 and 2"},
      {"1:1{0=0,1=1}", "1:1{0=0,0=1}", "the call names two slots of group 0"},
      {"1:1{0=0,1=1}", "1:1{0=0,1=1", "expected '}'"},
      {"1:1{0=0,1=1}", "1:1{0:0,1=1}", "expected '='"},
      {"[1<3.2]", "[3<3.2]", "instruction 3 is not between 0 and 2"},
      {"[1<3.2]", "[1<0.2]", "calls back 0 is not between 1 and"},
      {"[1<3.2]", "[1<3.3]", "call 4 waits for instruction 3 of segment 1"},
      {"[1<3.2]", "[1<999.2]", "call 4 waits for the call 999 calls before it"},
      {"[1<3.2]", "[1<3 2]", "p:42:99: expected '.', found '2]'"},
      {"[1<3.2]", "[1>3.2]", "expected '<'"},
      {"[1<3.2]", "[1<3.2", "expected ']'"},
      {"[1<3.2]", "[]", "expected a whole number"},
  };
  ALL_ARE_REFUSED(PIPELINE, cases);
}

// Calls times groups of slots are numbers in memory: a short text must not make very many.
static void slot_groups_are_limited(void **state) {
  (void)state;
  enum { GROUPS = 1025 };
  char *lines = malloc(GROUPS * 24);
  size_t length = 0;
  for (int g = 3; g < GROUPS; ++g) length += (size_t)sprintf(lines + length, "  slots %d 1\n", g);
  const char *found = strstr(PIPELINE, "  buffer 0 ");
  const size_t head = (size_t)(found - PIPELINE);
  char *text = malloc(strlen(PIPELINE) + length + 1);
  sprintf(text, "%.*s%s%s", (int)head, PIPELINE, lines, found);
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = NULL;
  assert_error(INVALID_ARGUMENT, "a class has at most 1024 slot groups, not 1025",
               shoal_program_parse("p", text, registry, shoal_allocator_system(), &program));
  shoal_registry_release(registry);
  free(text);
  free(lines);
}

// Whatever still parses is checked and bound, too, and prints what parses again.
static void survives_any_bytes(void **state) {
  (void)state;
  enum { ROUNDS = 6000 };
  shoal_registry_t *registry = test_registry();
  int parsed = 0;
  for (uint64_t round = 0; round < ROUNDS; ++round) {
    random_t r = {.seed = 7, .round = round};
    char *text = random_edits(&r, programs[round % PROGRAMS]);
    shoal_program_t *program = NULL, *again = NULL;
    shoal_status_t status =
        shoal_program_parse("p", text, registry, shoal_allocator_system(), &program);
    if (!status) {
      ++parsed;
      shoal_arena_t arena;
      shoal_arena_init(shoal_allocator_system(), &arena);
      const char *printed = NULL, *reprinted = NULL;
      assert_ok(shoal_program_print(program, &arena, &printed));
      assert_ok(shoal_program_parse("q", printed, registry, shoal_allocator_system(), &again));
      assert_ok(shoal_program_print(again, &arena, &reprinted));
      assert_string_equal(printed, reprinted);
      shoal_status_free(shoal_program_check(program, shoal_allocator_system()));
      shoal_bound_t bound;
      shoal_status_free(shoal_program_bind(program, 0, &arena, &bound));
      shoal_arena_deinit(&arena);
    }
    shoal_status_free(status);
    shoal_program_free(program);
    shoal_program_free(again);
    test_free(text);
  }
  assert_in_range(parsed, ROUNDS / 20, ROUNDS - 1);
  shoal_registry_release(registry);
}

static void every_prefix_is_refused_or_read(void **state) {
  (void)state;
  shoal_registry_t *registry = test_registry();
  for (size_t length = 0; length < sizeof TRAIN - 1; ++length) {
    char text[sizeof TRAIN];
    memcpy(text, TRAIN, length);
    text[length] = 0;
    shoal_program_t *program = NULL;
    shoal_status_t status =
        shoal_program_parse("p", text, registry, shoal_allocator_system(), &program);
    assert_true((status == NULL) == (program != NULL));
    shoal_status_free(status);
    shoal_program_free(program);
  }
  shoal_registry_release(registry);
}

typedef struct subject {
  const shoal_registry_t *registry;
  const char *text;
} subject_t;

static shoal_status_t use_program(shoal_allocator_t allocator, void *context) {
  const subject_t *subject = context;
  shoal_program_t *program = NULL;
  shoal_arena_t arena;
  shoal_arena_init(allocator, &arena);
  shoal_bound_t bound;
  const char *text;
  shoal_status_t status =
      shoal_program_parse("p", subject->text, subject->registry, allocator, &program);
  if (!status) status = shoal_program_check(program, allocator);
  if (!status) status = shoal_program_bind(program, 0, &arena, &bound);
  if (!status) status = shoal_program_print(program, &arena, &text);
  shoal_arena_deinit(&arena);
  shoal_program_free(program);
  return status;
}

// Parsing, checking, binding and printing with the Nth allocation failing.
static void survives_short_memory(void **state) {
  (void)state;
  shoal_registry_t *registry = test_registry();
  for (int i = 0; i < PROGRAMS; ++i) {
    check_failing_allocations(use_program, &(subject_t){registry, programs[i]}, 0);
  }
  shoal_registry_release(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trips),
      cmocka_unit_test(odd_things_round_trip),
      cmocka_unit_test(attributes_of_every_kind_round_trip),
      cmocka_unit_test(errors_name_the_line),
      cmocka_unit_test(errors_in_calls_name_the_line),
      cmocka_unit_test(slot_groups_are_limited),
      cmocka_unit_test(survives_any_bytes),
      cmocka_unit_test(every_prefix_is_refused_or_read),
      cmocka_unit_test(survives_short_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

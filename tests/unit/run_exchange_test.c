// Exchanges: the rows that the counts say are used arrive, nothing else is sent, and what is not
// used is zero; a count that is out of range is one error on all ranks. The static check and the
// simulator know them.
// links: run launch simulate
#include "run/run.h"
#include "run_support.h"
#include "shoal/simulate.h"

enum { RANKS = 3, TO = 4, CAPACITY = 2, WIDTH = 2, MOST = 2 };  // MOST: of TO, on a rank

// Three ranks along d, and two copies of them along e, which exchange apart. From groups cut along
// their first dim to groups cut along their second, which is uneven.
static const char PROGRAM[] =
    "shoal_program 1\n"
    "world 6\n"
    "micro 1\n"
    "mesh e=2,d=3\n"
    "input t x f32[3, 4, 2, 2]\n"
    "input t n i64[3, 4]\n"
    "channel 0 i64[3, 4] \"d:0\" -> \"d:1\"\n"
    "channel 1 f32[3, 4, 2, 2] \"d:0\" -> \"d:1\"\n"
    "class 0 ranks 0-5 arena 448\n"
    "  buffer 0 input \"x\" f32[3, 4, 2, 2] \"d:0\" bytes 64 offset 0\n"
    "  buffer 1 input \"n\" i64[3, 4] \"d:0\" bytes 64 offset 64\n"
    "  buffer 2 temp \"m\" i64[3, 4] \"d:1\" bytes 64 offset 128\n"
    "  buffer 3 temp \"y\" f32[3, 4, 2, 2] \"d:1\" bytes 128 offset 192\n"
    "  segment 0 s\n"
    "    0 copy feed -> (0) \"x\"\n"
    "    1 copy feed -> (1) \"n\"\n"
    "    2 comm reshard (1) -> (2) channel 0 \"n\" workspace 128@320 wait 1\n"
    "    3 comm exchange (0, 1, 2) -> (3) channel 1 \"rows\"\n"
    "  order t 0[0<1.3,1<1.3]\n";

static const int64_t counts[][RANKS][TO] = {
    {{2, 1, 0, 1}, {0, 2, 1, 2}, {2, 0, 0, 1}},
    {{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {{2, 2, 2, 2}, {2, 2, 2, 2}, {2, 2, 2, 2}},
    {{0, 0, 0, 0}, {1, 0, 2, 0}, {0, 0, 0, 0}},
};
static const int64_t too_many[RANKS][TO] = {{2, 0, 0, 0}, {2, 0, 3, 0}, {1, 2, 2, 0}};
static const int64_t too_few[RANKS][TO] = {{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, -1}};

static float element(int64_t from, int64_t to, int64_t row, int64_t column) {
  return (float)(1000 * from + 100 * to + 10 * row + column) + 0.5f;
}

typedef struct test {
  const shoal_program_t *program;
  bool opaque, blind;
  const int64_t (*counts)[TO];
} test_t;

typedef struct taken {
  float rows[RANKS * MOST * CAPACITY * WIDTH];
} taken_t;

static void tap(void *self, int32_t rank, const char *graph, const char *value,
                const shoal_layout_t *layout, const shoal_type_t *whole, int64_t micro,
                const void *data, int64_t bytes) {
  (void)rank, (void)graph, (void)layout, (void)whole, (void)micro;
  taken_t *taken = self;
  if (strcmp(value, "y") == 0) memcpy(taken->rows, data, (size_t)bytes);
}

static shoal_status_t compare(const test_t *test, int64_t me, const taken_t *taken) {
  const int64_t first = me == 0 ? 0 : me + 1, count = me == 0 ? 2 : 1;
  int64_t at = 0;
  for (int64_t from = 0; from < RANKS; ++from)
    for (int64_t to = first; to < first + count; ++to)
      for (int64_t row = 0; row < CAPACITY; ++row)
        for (int64_t c = 0; c < WIDTH; ++c, ++at) {
          const bool used = row < test->counts[from][to];
          EXPECT(taken->rows[at] == (used ? element(from, to, row, c) : 0),
                 "row %lld of group [%lld, %lld] is %g", (long long)row, (long long)from,
                 (long long)to, taken->rows[at]);
        }
  return NULL;
}

// Bytes that the rank sends to others in a run.
static int64_t sent_by(const test_t *test, int64_t me) {
  int64_t rows = 0;
  for (int64_t to = 0; to < TO; ++to)
    if ((to < 2 ? 0 : to - 1) != me) rows += test->counts[me][to];
  return rows * WIDTH * (int64_t)sizeof(float);
}

static shoal_status_t feed(const test_t *test, int64_t me, shoal_runner_t *runner) {
  float rows[TO][CAPACITY][WIDTH];
  for (int64_t p = 0; p < TO; ++p)
    for (int64_t r = 0; r < CAPACITY; ++r)
      for (int64_t c = 0; c < WIDTH; ++c) rows[p][r][c] = element(me, p, r, c);
  SHOAL_RETURN_IF_ERROR(shoal_runner_feed_part(runner, "x", rows, sizeof rows));
  return shoal_runner_feed_part(runner, "n", test->counts[me], sizeof test->counts[me]);
}

static shoal_status_t rank_body(void *self, shoal_world_t *world) {
  const test_t *test = self;
  const int64_t me = shoal_world_rank(world) % RANKS;
  taken_t taken;
  shoal_device_t *device = NULL;
  shoal_runner_t *runner = NULL;
  memset(&taken, 0xff, sizeof taken);
  SHOAL_RETURN_IF_ERROR(shoal_device_create(
      &(shoal_device_options_t){.opaque = test->opaque, .blind = test->blind}, &device));
  shoal_status_t status =
      shoal_runner_create(test->program, world, device,
                          &(shoal_runner_options_t){.tap = tap, .tap_self = &taken}, &runner);
  if (!status) status = feed(test, me, runner);
  for (int i = 0; i < 2 && !status; ++i) status = shoal_runner_run(runner, "t");
  if (!status) status = shoal_runner_wait(runner);
  if (!status) status = compare(test, me, &taken);
  if (!status && shoal_runner_counters(runner).exchanged != 2 * sent_by(test, me))
    status = SHOAL_ERROR(INTERNAL, "%lld bytes were sent, not %lld",
                         (long long)shoal_runner_counters(runner).exchanged,
                         (long long)(2 * sent_by(test, me)));
  shoal_runner_free(runner);
  shoal_device_free(device);
  return status;
}

static void rows_arrive(void **state) {
  (void)state;
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse_program(PROGRAM, registry);
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
    for (int device = 0; device < 3; ++device) {
      test_t test = {program, device > 0, device > 1, counts[i]};
      run_ranks_ok(2 * RANKS, rank_body, &test);
    }
  }
  shoal_program_free(program);
  shoal_registry_release(registry);
}

// One error, and every rank has it.
static void overflow(void **state) {
  (void)state;
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse_program(PROGRAM, registry);
  for (int i = 0; i < 2; ++i) {
    shoal_status_t statuses[2 * RANKS];
    test_t test = {program, false, false, i ? too_few : too_many};
    const char *part = i ? "exchange of 'rows' in segment 's': the count of group [2, 3] is -1"
                         : "group [1, 2] has 3 rows, and dim 2 has room for 2";
    run_ranks(2 * RANKS, rank_body, &test, statuses);
    for (int r = 0; r < 2 * RANKS; ++r) {
      if (!statuses[r] || !strstr(shoal_status_message(statuses[r]), part))
        fail_msg("rank %d: %s", r, shoal_status_message(statuses[r]));
      shoal_status_free(statuses[r]);
    }
  }
  shoal_program_free(program);
  shoal_registry_release(registry);
}

static void text_and_check(void **state) {
  (void)state;
  static const struct {
    const char *from, *to, *message;
  } cases[] = {
      {"exchange (0, 1, 2)", "exchange (0, 2, 2)", "buffer 2 'm' is not the i64[3, 4]"},
      {"exchange (0, 1, 2)", "exchange (0, 1, 1)", "buffer 1 'n' is not the i64[3, 4]"},
      {"exchange (0, 1, 2)", "exchange (1, 0, 2)", "buffer 0 'x' holds no counts of its rows"},
      {"exchange (0, 1, 2)", "exchange (0, 1)", "exchange takes 3 buffers and gives 1"},
      {"\"d:0\" -> \"d:1\"\nclass", "\"d:0\" -> \"d:1+0+1\"\nclass",
       "a rank's part is not one box"},
      {"comm exchange", "copy exchange", "it lies on queue 'copy'"},
      {"0[0<1.3,1<1.3]", "0[1<1.3]", "nothing orders"},
  };
  shoal_registry_t *registry = test_registry();
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_program_t *program = parse_program(PROGRAM, registry);
  const char *printed;
  assert_ok(shoal_program_print(program, &arena, &printed));
  assert_string_equal(printed, PROGRAM);
  shoal_program_free(program);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char text[4096];
    const char *at = strstr(PROGRAM, cases[i].from);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - PROGRAM), PROGRAM, cases[i].to,
             at + strlen(cases[i].from));
    shoal_status_t status =
        shoal_program_parse("p", text, registry, shoal_allocator_system(), &program);
    if (!status) {
      status = shoal_program_check(program, shoal_allocator_system());
      shoal_program_free(program);
    }
    if (!status || !strstr(shoal_status_message(status), cases[i].message))
      fail_msg("case %zu: %s", i, shoal_status_message(status));
    shoal_status_free(status);
  }
  shoal_arena_deinit(&arena);
  shoal_registry_release(registry);
}

// How many rows go is not known: all of them count.
static void simulated(void **state) {
  (void)state;
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse_program(PROGRAM, registry);
  shoal_simulation_t *simulation;
  assert_ok(shoal_simulate(program, &(shoal_simulate_options_t){.graph = "t"}, &simulation));
  double bytes = 0;
  for (int level = 0; level < 3; ++level) bytes += simulation->bytes[level];
  const int away = TO - 2;  // groups that the first rank sends, which stands for all
  assert_true(bytes == 2 * RANKS * away * (CAPACITY * WIDTH * 4 + 8));
  shoal_simulation_free(simulation);
  shoal_program_free(program);
  shoal_registry_release(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_arrive),
      cmocka_unit_test(overflow),
      cmocka_unit_test(text_and_check),
      cmocka_unit_test(simulated),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

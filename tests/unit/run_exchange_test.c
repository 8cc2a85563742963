// Exchanges: rows go to the ranks that the counts say, and are packed there; what does not fit is
// one error on all ranks. The static check and the simulator know them.
// links: run launch simulate
#include "run/run.h"
#include "run_support.h"
#include "shoal/simulate.h"

enum { RANKS = 3, PART = 2, CAPACITY = 4, WIDTH = 2 };

// Three ranks along d, and two copies of them along e, which exchange apart.
static const char PROGRAM[] =
    "shoal_program 1\n"
    "world 6\n"
    "micro 1\n"
    "mesh e=2,d=3\n"
    "input t x f32[18, 2]\n"
    "input t n i64[9]\n"
    "channel 0 f32[18, 2] \"d:0\" -> \"d:0\" capacity 4\n"
    "class 0 ranks 0-5 arena 256\n"
    "  buffer 0 input \"x\" f32[18, 2] \"d:0\" bytes 64 offset 0\n"
    "  buffer 1 input \"n\" i64[9] \"d:0\" bytes 64 offset 64\n"
    "  buffer 2 temp \"y\" f32[12, 2] \"d:0\" bytes 64 offset 128\n"
    "  buffer 3 temp \"m\" i64[9] \"d:0\" bytes 64 offset 192\n"
    "  segment 0 s\n"
    "    0 copy feed -> (0) \"x\"\n"
    "    1 copy feed -> (1) \"n\"\n"
    "    2 comm exchange (0, 1) -> (2, 3) channel 0 \"rows\" wait 1\n"
    "  order t 0[0<1.2,1<1.2]\n";

static const int64_t counts[][RANKS][RANKS] = {
    {{2, 1, 0}, {0, 2, 1}, {2, 0, 0}},
    {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {{2, 0, 2}, {1, 0, 2}, {1, 0, 0}},
};
static const int64_t too_many[RANKS][RANKS] = {{2, 0, 0}, {2, 0, 0}, {1, 2, 2}};
static const int64_t too_long[RANKS][RANKS] = {{0, 3, 0}, {0, 0, 0}, {0, 0, 0}};

static float element(int64_t from, int64_t part, int64_t row, int64_t column) {
  return (float)(1000 * from + 100 * part + 10 * row + column) + 0.5f;
}

typedef struct test {
  const shoal_program_t *program;
  bool opaque, blind;
  const int64_t (*counts)[RANKS];
} test_t;

typedef struct taken {
  float rows[CAPACITY][WIDTH];
  int64_t came[RANKS];
} taken_t;

static void tap(void *self, int32_t rank, const char *graph, const char *value,
                const shoal_layout_t *layout, const shoal_type_t *whole, int64_t micro,
                const void *data, int64_t bytes) {
  (void)rank, (void)graph, (void)layout, (void)whole, (void)micro;
  taken_t *taken = self;
  if (strcmp(value, "y") == 0) memcpy(taken->rows, data, (size_t)bytes);
  if (strcmp(value, "m") == 0) memcpy(taken->came, data, (size_t)bytes);
}

static shoal_status_t compare(const test_t *test, int64_t me, const taken_t *taken) {
  int64_t at = 0;
  for (int64_t from = 0; from < RANKS; ++from) {
    EXPECT(taken->came[from] == test->counts[from][me], "%lld rows came from %lld",
           (long long)taken->came[from], (long long)from);
    for (int64_t row = 0; row < taken->came[from]; ++row, ++at)
      for (int64_t c = 0; c < WIDTH; ++c)
        EXPECT(taken->rows[at][c] == element(from, me, row, c), "row %lld is %g", (long long)at,
               taken->rows[at][c]);
  }
  for (; at < CAPACITY; ++at)
    for (int64_t c = 0; c < WIDTH; ++c)
      EXPECT(taken->rows[at][c] == 0, "row %lld is not zero", (long long)at);
  return NULL;
}

static shoal_status_t feed(const test_t *test, int64_t me, shoal_runner_t *runner) {
  float rows[RANKS][PART][WIDTH];
  for (int64_t p = 0; p < RANKS; ++p)
    for (int64_t r = 0; r < PART; ++r)
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
    test_t test = {program, false, false, i ? too_long : too_many};
    const char *part =
        i ? "sends 3 rows to rank" : "is to receive 5 rows, more than the capacity of 4";
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
      {"capacity 4", "capacity 3", "buffer 2 'y' is not the f32[9, 2] that it exchanges"},
      {" capacity 4", "", "its channel has no capacity"},
      {"exchange (0, 1) -> (2, 3)", "reshard (0) -> (2)", "it is an exchange's"},
      {"exchange (0, 1) -> (2, 3)", "exchange (0, 1) -> (2, 1)", "is written twice"},
      {"comm exchange", "copy exchange", "it lies on queue 'copy'"},
      {"\"rows\" wait 1", "\"rows\"", "nothing orders"},
      {"0[0<1.2,1<1.2]", "0", "nothing orders"},
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

// Parts count with all their rows, and the counts go before.
static void simulated(void **state) {
  (void)state;
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse_program(PROGRAM, registry);
  shoal_simulation_t *simulation;
  assert_ok(shoal_simulate(program, &(shoal_simulate_options_t){.graph = "t"}, &simulation));
  double bytes = 0;
  for (int level = 0; level < 3; ++level) bytes += simulation->bytes[level];
  assert_true(bytes == 2 * RANKS * (RANKS - 1) * (PART * WIDTH * 4 + RANKS * 8));
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

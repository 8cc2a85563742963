// Runs of numbers in the same state, against an array that has the state of every number.
#include "base/runs.h"

#include "base/philox.h"
#include "unit.h"

enum { MOST = 300 };

typedef struct line {
  shoal_runs_t runs;
  int64_t states[MOST];  // by run
  int64_t plain[MOST];   // by number
} line_t;

static void split_at(line_t *line, int64_t number) {
  const int64_t from = shoal_runs_split(&line->runs, number);
  if (from >= 0) line->states[number] = line->states[from];
}

static int64_t check_line(const line_t *line) {
  int64_t run_count = 0;
  for (int64_t i = 0, run = 0; i < line->runs.count; ++i) {
    if (i == line->runs.ends[run]) run = i;
    run_count += i == run;
    assert_int_equal(shoal_runs_find(&line->runs, i), run);
    assert_int_equal(line->states[run], line->plain[i]);
  }
  return run_count;
}

// Numbers are written, and added to where they are, in random stretches.
static void random_stretches(void **state) {
  (void)state;
  for (uint64_t round = 0; round < 200; ++round) {
    shoal_arena_t arena;
    shoal_arena_init(shoal_allocator_system(), &arena);
    static line_t line;
    memset(&line, 0, sizeof line);
    const int64_t count = 1 + shoal_philox_word(1, 0, round, 0) % MOST;
    assert_true(shoal_runs_init(&arena, count, &line.runs));
    for (uint64_t i = 1; i < 100; ++i) {
      const int64_t a = shoal_philox_word(1, 1, round, i) % (uint32_t)(count + 1);
      const int64_t b = shoal_philox_word(1, 2, round, i) % (uint32_t)(count + 1);
      const int64_t from = a < b ? a : b, to = a < b ? b : a;
      const bool write = shoal_philox_word(1, 3, round, i) % 2;
      for (int64_t k = from; k < to; ++k) line.plain[k] = write ? (int64_t)i : line.plain[k] + 1000;
      if (from == to) continue;
      split_at(&line, from);
      split_at(&line, to);
      if (write) {
        shoal_runs_join(&line.runs, from, to);
        line.states[from] = (int64_t)i;
        assert_int_equal(line.runs.ends[from], to);
      } else {
        for (int64_t k = from; k < to; k = line.runs.ends[k]) line.states[k] += 1000;
      }
      assert_true(check_line(&line) <= 2 * (int64_t)i + 1);
    }
    shoal_runs_reset(&line.runs);
    assert_int_equal(line.runs.ends[0], count);
    assert_int_equal(shoal_runs_find(&line.runs, count - 1), 0);
    shoal_arena_deinit(&arena);
  }
}

static void no_numbers(void **state) {
  (void)state;
  shoal_arena_t arena;
  shoal_runs_t runs;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_true(shoal_runs_init(&arena, 0, &runs));
  assert_int_equal(shoal_runs_split(&runs, 0), -1);
  shoal_runs_reset(&runs);
  shoal_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_stretches),
      cmocka_unit_test(no_numbers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

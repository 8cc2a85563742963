// links: all
//
// Schedule tables: every generator for many pipelines is complete, free of deadlock, has as many
// micro-batches in flight as its formula says and the bubble of its formula; texts that parse back;
// tables that are wrong are refused with mesh and entry.
#include <math.h>
#include <stdio.h>

#include "plan_support.h"
#include "shoal/schedule.h"

static shoal_arena_t *arena;

static int set_up(void **state) {
  (void)state;
  assert_ok(shoal_arena_create(shoal_allocator_system(), &arena));
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  shoal_arena_free(arena);
  return 0;
}

enum { STAGES = 8, VIRTUAL = 4, MICRO = 17 };

static const shoal_schedule_t *create(const char *name, int32_t p, int32_t v, int32_t m) {
  const shoal_schedule_t *t = NULL;
  assert_ok(shoal_schedule_create(
      name, &(shoal_pipeline_t){.mesh_count = p, .stage_count = p * v, .micro = m}, arena, &t));
  assert_ok(shoal_schedule_check(t));
  return t;
}

static int32_t least(int32_t a, int32_t b) {
  return a < b ? a : b;
}

static shoal_schedule_times_t time_of(const shoal_schedule_t *t, double f, double b, double w,
                                      double comm) {
  shoal_schedule_times_t times;
  assert_ok(shoal_schedule_time(t, &(shoal_durations_t){{f, b, w}, comm}, arena, &times));
  return times;
}

// The whole time of p meshes is m micro-batches and this much idle time on each.
static void expect_idle(const shoal_schedule_t *t, double f, double b, double w, double idle) {
  const shoal_schedule_times_t times = time_of(t, f, b, w, 0);
  const double busy = (f + b + w) * t->micro * t->stage_count / t->mesh_count;
  if (fabs(times.makespan - busy - idle) > 1e-6 || fabs(times.bubble - idle / (busy + idle)) > 1e-9)
    fail_msg("%s p=%d stages=%d m=%d: time %g, not %g + %g", t->name, t->mesh_count, t->stage_count,
             t->micro, times.makespan, busy, idle);
}

static int32_t flights(const shoal_schedule_t *t, int32_t stage, shoal_work_t to) {
  return shoal_schedule_in_flight(t, stage, SHOAL_WORK_FORWARD, to);
}

// gpipe, 1f1b and 1f1b+1 idle (p - 1) (F + B): the share (p - 1) / (m + p - 1) (Huang et al. 2019).
static void test_one_stage_a_mesh(void **state) {
  (void)state;
  for (int32_t p = 1; p <= STAGES; ++p)
    for (int32_t m = 1; m <= MICRO; ++m) {
      const char *names[] = {"gpipe", "1f1b", "1f1b+1"};
      for (int32_t i = 0; i < COUNT(names); ++i) {
        const shoal_schedule_t *t = create(names[i], p, 1, m);
        expect_idle(t, 1, 1, 0, (p - 1) * 2.0);
        expect_idle(t, 1, 1, 1, (p - 1) * 3.0);
        expect_idle(t, 2, 3, 1.5, (p - 1) * 6.5);
        for (int32_t s = 0; s < p; ++s)
          assert_int_equal(flights(t, s, SHOAL_WORK_BACKWARD),
                           i == 0 ? m : least(m, p - s + (i == 2)));
      }
    }
}

// p meshes with v stages each idle (p - 1) (F + B) of a stage: the share (p - 1) / (v m + p - 1)
// (Narayanan et al. 2021) for m >= p. With fewer micro-batches than meshes each pass over them
// but the first waits p - m for its first micro-batch.
static void test_interleaved(void **state) {
  (void)state;
  for (int32_t p = 1; p <= STAGES; ++p)
    for (int32_t v = 1; v <= VIRTUAL; ++v)
      for (int32_t m = 1; m <= MICRO; ++m) {
        const shoal_schedule_t *t = create("interleaved", p, v, m);
        const int32_t units = p - 1 + (m < p ? (v - 1) * (p - m) : 0);
        expect_idle(t, 1, 1, 0, units * 2.0);
        expect_idle(t, 1, 1, 1, units * 3.0);
        const int32_t groups = m < p + 1 ? 1 : m / (p + 1);
        const int32_t first = (m + groups - 1) / groups;  // micro-batches of the first group
        for (int32_t d = 0; d < p; ++d) {
          int32_t now = 0, most = 0;
          for (int64_t k = 0; k < t->rows[d].count; ++k) {
            now += t->rows[d].entries[k].work == SHOAL_WORK_FORWARD ? 1 : -1;
            most = now > most ? now : most;
          }
          assert_int_equal(
              most, v == 1 ? least(m, p - d) : least(v * m, 2 * (p - 1 - d) + (v - 1) * first + 1));
        }
        // gpipe takes any number of stages too.
        t = create("gpipe", p, v, m);
        for (int32_t s = 0; s < p * v; ++s) assert_int_equal(flights(t, s, SHOAL_WORK_BACKWARD), m);
      }
}

// Qi et al. 2023, table 2: (p - 1) (F + B - W) of idle time, for m >= p and W no longer than F and
// B; each micro-batch fewer than p leaves one W less to fill the bubble. Between F and B as many as
// with 1f1b, between F and W on no stage more than on the first.
static void test_zero_bubble(void **state) {
  (void)state;
  const double times[][3] = {{1, 1, 1}, {2, 2, 1}, {1, 2, 1}, {10, 12, 8}};
  for (int32_t p = 1; p <= STAGES; ++p)
    for (int32_t m = 1; m <= MICRO; ++m) {
      const shoal_schedule_t *t = create("zb-h1", p, 1, m);
      assert_true(t->split);
      for (int32_t i = 0; i < COUNT(times); ++i) {
        const double f = times[i][0], b = times[i][1], w = times[i][2];
        expect_idle(t, f, b, w, (p - 1) * (f + b - w) + (m < p ? (p - m) * w : 0));
      }
      for (int32_t s = 0; s < p; ++s) {
        assert_int_equal(flights(t, s, SHOAL_WORK_BACKWARD), least(m, p - s));
        assert_int_equal(flights(t, s, SHOAL_WORK_WEIGHT), least(m, p));
      }
    }
}

// Section 2.2, for m >= 2 p - 1: steps follow each other with (p - 1) (F + B - 2 W) of idle time,
// and with (p - 1) F at the least if every step waits for all meshes. 2 p - 1 in flight.
static void test_zero_bubble_h2(void **state) {
  (void)state;
  const double times[][3] = {{1, 1, 1}, {2, 2, 1}, {1, 2, 1}, {10, 12, 8}};
  for (int32_t p = 1; p <= STAGES; ++p)
    for (int32_t m = 1; m <= MICRO; ++m) {
      const shoal_schedule_t *t = create("zb-h2", p, 1, m);
      for (int32_t i = 0; i < COUNT(times) && m >= 2 * p - 1; ++i) {
        const double f = times[i][0], b = times[i][1], w = times[i][2], busy = m * (f + b + w);
        const shoal_schedule_times_t z = time_of(t, f, b, w, 0);
        const double idle = (p - 1) * (f + b - 2 * w);
        if (fabs(z.period - busy - idle) > 1e-9 || z.makespan < z.period ||
            fabs(z.period_bubble - idle / (busy + idle)) > 1e-9)
          fail_msg("p=%d m=%d: a step every %g, not %g", p, m, z.period, busy + idle);
      }
      if (p > 1 && m >= 2 * p - 1) expect_idle(t, 1, 1, 1, p - 1);
      for (int32_t s = 0; s < p; ++s) {
        assert_int_equal(flights(t, s, SHOAL_WORK_BACKWARD), least(m, 2 * (p - s) - 1));
        assert_int_equal(flights(t, s, SHOAL_WORK_WEIGHT), least(m, 2 * p - 1));
      }
    }
}

// Section 6, for m >= 2 p - 1: no idle time if F, B and W are equal; in flight as with zb-h1, here
// counted in stages of half the size. Where the pipeline turns, two stages may be one.
static void test_zero_bubble_v(void **state) {
  (void)state;
  for (int32_t p = 1; p <= STAGES; ++p)
    for (int32_t m = 1; m <= MICRO; ++m) {
      const shoal_schedule_t *t = create("zb-v", p, 2, m), *joined = NULL;
      const double busy = 6.0 * m;
      const shoal_schedule_times_t z = time_of(t, 1, 1, 1, 0);
      if (m >= 2 * p - 1) {
        assert_true(fabs(z.period - busy) < 1e-9);
        assert_true(fabs(z.makespan - busy - (p - 1)) < 1e-9);
        assert_true(fabs(time_of(t, 2, 3, 1, 0).period - 2 * busy - 4 * (p - 1)) < 1e-9);
      }
      for (int32_t d = 0; d < p; ++d) {
        int32_t now = 0, most = 0;
        for (int64_t k = 0; k < t->rows[d].count; ++k) {
          now += (t->rows[d].entries[k].work == SHOAL_WORK_FORWARD) -
                 (t->rows[d].entries[k].work == SHOAL_WORK_WEIGHT);
          most = now > most ? now : most;
        }
        assert_true(most <= 2 * p);
      }
      assert_ok(shoal_schedule_create(
          "zb-v", &(shoal_pipeline_t){.mesh_count = p, .stage_count = 2 * p - 1, .micro = m}, arena,
          &joined));
      assert_ok(shoal_schedule_check(joined));
      assert_true(flights(joined, p - 1, SHOAL_WORK_WEIGHT) <= p);
    }
}

// Qi et al. 2023 (arXiv 2401.10241): pass times in ms that they measured, and the bubble rates that
// they get from them, with one layer on each of three interleaved stages.
static const struct published {
  int32_t p, m;
  double f, b, w, comm;
  double one_f_one_b, interleaved, h1, h2;
} PUBLISHED[] = {
    {8, 24, 18.522, 18.086, 9.337, 0.601, 0.2431, 0.1055, 0.1585, 0.1083},
    {8, 32, 18.513, 18.086, 9.331, 0.626, 0.1985, 0.0818, 0.1242, 0.0837},
    {8, 64, 18.546, 18.097, 9.321, 0.762, 0.1240, 0.0443, 0.0674, 0.0444},
    {16, 64, 11.307, 11.254, 8.101, 0.379, 0.2082, 0.0852, 0.1088, 0.0516},
};

static double rate(const struct published *of, const char *name, int32_t v) {
  return time_of(create(name, of->p, v, of->m), of->f / v, of->b / v, of->w / v, of->comm)
      .period_bubble;
}

static void test_published(void **state) {
  (void)state;
  const double digit = 0.5e-4;  // they give four
  for (int32_t i = 0; i < COUNT(PUBLISHED); ++i) {
    const struct published *of = &PUBLISHED[i];
    print_message("p=%d m=%d: 1f1b %.4f, interleaved %.4f, zb-h1 %.4f, zb-h2 %.4f, zb-v %.4f\n",
                  of->p, of->m, rate(of, "1f1b", 1), rate(of, "interleaved", 3),
                  rate(of, "zb-h1", 1), rate(of, "zb-h2", 1), rate(of, "zb-v", 2));
    assert_true(fabs(rate(of, "1f1b", 1) - of->one_f_one_b) < digit);
    assert_true(rate(of, "interleaved", 3) < of->interleaved + digit);
    assert_true(rate(of, "zb-h1", 1) < of->h1 + digit);
    assert_true(rate(of, "zb-h2", 1) < of->h2 + digit);
    assert_true(rate(of, "zb-v", 2) < of->h1 + digit);  // in the same memory
    for (int32_t s = 0; s < of->p; ++s) {
      assert_true(flights(create("zb-h1", of->p, 1, of->m), s, SHOAL_WORK_WEIGHT) <= of->p);
      assert_true(flights(create("zb-h2", of->p, 1, of->m), s, SHOAL_WORK_WEIGHT) <= 2 * of->p - 1);
    }
  }
}

static bool same(const shoal_schedule_t *a, const shoal_schedule_t *b) {
  if (a->mesh_count != b->mesh_count || a->stage_count != b->stage_count || a->micro != b->micro ||
      a->split != b->split)
    return false;
  for (int32_t s = 0; s < a->stage_count; ++s)
    if (a->stage_meshes[s] != b->stage_meshes[s]) return false;
  for (int32_t r = 0; r < a->mesh_count; ++r) {
    if (strcmp(a->rows[r].mesh, b->rows[r].mesh) != 0 || a->rows[r].count != b->rows[r].count)
      return false;
    for (int64_t k = 0; k < a->rows[r].count; ++k) {
      const shoal_schedule_entry_t *x = &a->rows[r].entries[k], *y = &b->rows[r].entries[k];
      if (x->work != y->work || x->stage != y->stage || x->micro != y->micro) return false;
    }
  }
  return true;
}

static const shoal_schedule_t *parse(const char *text) {
  const shoal_schedule_t *t = NULL;
  assert_ok(shoal_schedule_parse("table", text, arena, &t));
  return t;
}

static void test_text(void **state) {
  (void)state;
  const char *text;
  for (int64_t i = 0; shoal_schedule_name(i); ++i) {
    const char *name = shoal_schedule_name(i);
    const shoal_schedule_t *t = create(name, 3, strcmp(name, "zb-v") == 0 ? 2 : 1, 5);
    assert_ok(shoal_schedule_print(t, arena, &text));
    assert_true(same(t, parse(text)));
  }
  // Names of meshes that look like entries, or are no words; comments; several lines a row.
  const shoal_schedule_t *t =
      parse("# mine\n\"stage 0\": F0.0 # one\n  B0.0\nF1.0: F1.0\tB1.0 \"\":\nF2.0\nB2.0");
  assert_ok(shoal_schedule_check(t));
  assert_int_equal(t->mesh_count, 3);
  assert_string_equal(t->rows[1].mesh, "F1.0");
  assert_ok(shoal_schedule_print(t, arena, &text));
  assert_string_equal(text, "\"stage 0\": F0.0 B0.0\nF1.0: F1.0 B1.0\n\"\": F2.0 B2.0\n");
  assert_true(same(t, parse(text)));
  const shoal_schedule_t *none = NULL;
#define REFUSED(code, part, table) \
  assert_error(code, part, shoal_schedule_parse("t", table, arena, &none))
  REFUSED(INVALID_ARGUMENT, "t:1", "a: F0");
  REFUSED(INVALID_ARGUMENT, "such as F0.3", "a: F0.");
  REFUSED(INVALID_ARGUMENT, "expected a blank", "a: F0.0x");
  REFUSED(INVALID_ARGUMENT, "t:2", "a: F0.0\nG0.0");
  REFUSED(INVALID_ARGUMENT, "4096 stages", "a: F4096.0");
  REFUSED(INVALID_ARGUMENT, "65536 micro-batches", "a: F0.99999999999999999999");
  REFUSED(INVALID_ARGUMENT, "mesh 'a' has two rows", "a: F0.0 a: B0.0");
}

// The same table in JSON, rows as texts or as lists.
static void test_json(void **state) {
  (void)state;
  const shoal_schedule_t *none = NULL, *t = parse(
                                           " \n{\"a\": \"F0.0 F0.1 B0.0 B0.1\",\n"
                                           "\"b 2\": [\"F1.0\", \"B1.0 F1.1\", \"B1.1\"]}");
  assert_ok(shoal_schedule_check(t));
  assert_true(same(t, parse("a: F0.0 F0.1 B0.0 B0.1 \"b 2\": F1.0 B1.0 F1.1 B1.1")));
  assert_int_equal(parse("{}")->mesh_count, 0);
  REFUSED(INVALID_ARGUMENT, "t:1", "{\"a\": \"F0.0\"");
  REFUSED(INVALID_ARGUMENT, "t: row 'a' is not a text of entries", "{\"a\": 3}");
  REFUSED(INVALID_ARGUMENT, "t: row 'a' is not a text of entries", "{\"a\": [[\"F0.0\"]]}");
  REFUSED(INVALID_ARGUMENT, "t: row 'a' is not a text of entries", "{\"a\": \"F0.0 b: B0.0\"}");
  REFUSED(INVALID_ARGUMENT, "t: row 'a' is not a text of entries", "{\"a\": \"F0.0 G0.0\"}");
  REFUSED(INVALID_ARGUMENT, "such as F0.3", "{\"a\": \"F0.0 B0 \"}");
}

static void refuse(const char *part, const char *text) {
  assert_error(INVALID_ARGUMENT, part, shoal_schedule_check(parse(text)));
}

static void test_wrong_tables(void **state) {
  (void)state;
  refuse("no entries", "");
  refuse("no entries", "a: b:");
  refuse("no entry of stage 0", "a: F1.0 B1.0");
  refuse("mesh 'a' lacks B0.0", "a: F0.0");
  refuse("mesh 'a' lacks F0.0", "a: F4.60000 B1.0 B2.0 B3.0 B0.0");
  refuse("mesh 'b' lacks F1.1", "a: F0.0 F0.1 B0.1 B0.0 b: F1.0 B1.1 B1.0");
  refuse("mesh 'a' lacks W0.1", "a: F0.0 F0.1 B0.1 B0.0 W0.0");
  refuse("mesh 'a', entry 2: F0.0 stands there twice, first as entry 0",
         "a: F0.0 B0.0 F0.0 B0.1 F0.1");
  refuse("mesh 'b', entry 1: B0.0 is here, but stage 0 began on mesh 'a'", "a: F0.0 b: F1.0 B0.0");
  refuse("mesh 'a', entry 0: B0.0 needs F0.0, which stands behind it", "a: B0.0 F0.0");
  refuse("mesh 'a', entry 1: W0.0 needs B0.0, which stands behind it", "a: F0.0 W0.0 B0.0");
  refuse(
      "mesh 'a', entry 1: B0.0 waits for B1.0 of mesh 'b', which stands still at entry 1: F1.1 "
      "waits for F0.1",
      "a: F0.0 B0.0 F0.1 B0.1 b: F1.0 F1.1 B1.0 B1.1");
  refuse("needs F0.0, which stands behind it", "a: F1.0 F0.0 B1.0 B0.0");
}

static void test_pipelines(void **state) {
  (void)state;
  const shoal_schedule_t *t = NULL;
#define NOT_MADE(code, part, name, ...) \
  assert_error(code, part, shoal_schedule_create(name, &(shoal_pipeline_t){__VA_ARGS__}, arena, &t))
  NOT_MADE(NOT_FOUND, "'interleave'", "interleave", .mesh_count = 2, .stage_count = 2, .micro = 1);
  NOT_MADE(INVALID_ARGUMENT, "0 micro-batches", "gpipe", .mesh_count = 1, .stage_count = 1);
  NOT_MADE(INVALID_ARGUMENT, "2 stages on 3", "gpipe", .mesh_count = 3, .stage_count = 2,
           .micro = 1);
  NOT_MADE(INVALID_ARGUMENT, "one stage on each mesh; there are 4 on 2", "1f1b", .mesh_count = 2,
           .stage_count = 4, .micro = 1);
  NOT_MADE(INVALID_ARGUMENT, "equally many stages", "interleaved", .mesh_count = 2,
           .stage_count = 3, .micro = 1);
  NOT_MADE(INVALID_ARGUMENT, "there are 3 stages", "zb-v", .mesh_count = 3, .stage_count = 3,
           .micro = 1);
  const int32_t v_shape[] = {0, 1, 1, 0}, outside[] = {0, 2}, lonely[] = {0, 0},
                swapped[] = {1, 0, 1, 0};
  NOT_MADE(INVALID_ARGUMENT, "stage 2 is not on the mesh of stage 0", "interleaved",
           .mesh_count = 2, .stage_count = 4, .micro = 1, .stage_meshes = v_shape);
  NOT_MADE(INVALID_ARGUMENT, "and then on the same meshes back", "zb-v", .mesh_count = 2,
           .stage_count = 4, .micro = 1, .stage_meshes = swapped);
  NOT_MADE(INVALID_ARGUMENT, "stage 1 is on mesh 2", "gpipe", .mesh_count = 2, .stage_count = 2,
           .micro = 1, .stage_meshes = outside);
  NOT_MADE(INVALID_ARGUMENT, "mesh 1 of the pipeline has no stage", "gpipe", .mesh_count = 2,
           .stage_count = 2, .micro = 1, .stage_meshes = lonely);
  const char *const names[] = {"x", "y"};
  shoal_pipeline_t pipeline = {
      .mesh_count = 2, .stage_count = 4, .micro = 3, .meshes = names, .stage_meshes = swapped};
  assert_ok(shoal_schedule_create("interleaved", &pipeline, arena, &t));
  assert_ok(shoal_schedule_check(t));
  assert_ok(shoal_schedule_fits(t, &pipeline));
  expect_idle(t, 1, 1, 0, 2);
  pipeline.stage_meshes = v_shape;
  assert_ok(shoal_schedule_create("gpipe", &pipeline, arena, &t));
  assert_ok(shoal_schedule_check(t));
  pipeline.stage_meshes = swapped;
  assert_error(INVALID_ARGUMENT, "stage 0 is on mesh 'y', the table has it on mesh 'x'",
               shoal_schedule_fits(t, &pipeline));
  pipeline.micro = 4;
  assert_error(INVALID_ARGUMENT, "3 micro-batches, the meshes have micro=4",
               shoal_schedule_fits(t, &pipeline));
  assert_error(INVALID_ARGUMENT, "the table has 4 stages, the graph has 3",
               shoal_schedule_fits(t, &(shoal_pipeline_t){2, 3, 3, NULL, NULL}));
}

// What is changed in a table is refused, or harmless: still complete, and every entry runs.
static void test_mutations(void **state) {
  (void)state;
  int32_t refused = 0, harmless = 0;
  for (int64_t i = 0; shoal_schedule_name(i); ++i) {
    const char *name = shoal_schedule_name(i);
    shoal_schedule_t *t = (shoal_schedule_t *)create(name, 3, strcmp(name, "zb-v") == 0 ? 2 : 1, 4);
    for (int32_t r = 0; r < 3; ++r) {
      shoal_schedule_row_t *row = &t->rows[r], kept = *row;
      for (int64_t k = 0; k < kept.count; ++k) {
        shoal_schedule_entry_t copy[64];
        memcpy(copy, kept.entries, (size_t)kept.count * sizeof *copy);
        row->entries = copy;
        for (int64_t j = k + 1; j < kept.count; ++j) {  // two swapped
          copy[k] = kept.entries[j], copy[j] = kept.entries[k];
          shoal_status_t status = shoal_schedule_check(t);
          if (!status) time_of(t, 1, 1, 1, 0);
          status ? ++refused : ++harmless;
          shoal_status_free(status);
          copy[k] = kept.entries[k], copy[j] = kept.entries[j];
        }
        memmove(copy + k, kept.entries + k + 1, (size_t)(kept.count - k - 1) * sizeof *copy);
        row->count = kept.count - 1;  // one dropped
        assert_error(INVALID_ARGUMENT, "lacks", shoal_schedule_check(t));
        memcpy(copy, kept.entries, (size_t)kept.count * sizeof *copy);
        copy[kept.count] = kept.entries[k];
        row->count = kept.count + 1;  // one doubled
        assert_error(INVALID_ARGUMENT, "stands there twice", shoal_schedule_check(t));
        *row = kept;
      }
    }
  }
  assert_true(refused > 300);
  assert_true(harmless > 20);
}

static void test_drawing(void **state) {
  (void)state;
  const char *text;
  assert_ok(shoal_schedule_draw(create("1f1b", 2, 1, 3), &(shoal_durations_t){{1, 0.5, 0.5}, 0}, 80,
                                arena, &text));
  assert_string_equal(text,
                      "a  F0 F1 .  B0 F2 B1 .  B2\n"
                      "b  .  F0 B0 F1 B1 F2 B2 .\n");
  assert_ok(shoal_schedule_draw(create("zb-h1", 2, 1, 2), &(shoal_durations_t){{1, 1, 1}, 0}, 10,
                                arena, &text));
  assert_string_equal(text,
                      "a  FF.BWBW\n"
                      "b  .FBFBWW\n");
  assert_ok(shoal_schedule_draw(create("interleaved", 2, 2, 2), &(shoal_durations_t){{1, 1, 1}, 0},
                                99, arena, &text));
  assert_string_equal(
      text,
      "a  F0.0 F0.1 F2.0 F2.1 .    .    B2.0----- .    B2.1----- B0.0----- B0.1-----\n"
      "b  .    F1.0 F1.1 F3.0 B3.0----- F3.1 B3.1----- B1.0----- B1.1----- .    .\n");
  assert_ok(shoal_schedule_draw(create("gpipe", 2, 1, 9), &(shoal_durations_t){{1, 1, 1}, 0}, 8,
                                arena, &text));
  assert_string_equal(text, "a  FFFFFFFF ...\nb  .FFFFFFF ...\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_one_stage_a_mesh, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_interleaved, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_zero_bubble, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_zero_bubble_h2, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_zero_bubble_v, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_published, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_text, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_json, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_wrong_tables, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_pipelines, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_mutations, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_drawing, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

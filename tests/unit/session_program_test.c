// links: all
//
// Programs given as text, on two thread ranks: an update skipped by a predicate that all ranks
// agree on, and a bounded size, whose count is read from a buffer when it runs.
#include <math.h>

#include "run_support.h"
#include "shoal/session.h"

enum { ROWS = 7, COLUMNS = 4 };

// w += the sum of x's rows, unless an element of that sum is above 100 (or not a number).
static const char GUARDED[] =
    "shoal_program 1\n"
    "world 2\n"
    "micro 1\n"
    "mesh data=2\n"
    "state w f32[4] \"\" saved\n"
    "input train x f32[7, 4]\n"
    "output train ok bool[]\n"
    "channel 0 f32[4] \"data:partial(sum)\" -> \"\"\n"
    "class 0 ranks 0-1 arena 512\n"
    "  buffer 0 state 0 \"w\" f32[4] \"\" bytes 64 offset 0\n"
    "  buffer 1 input \"x\" f32[7, 4] \"data:0\" bytes 64 offset 64\n"
    "  buffer 2 temp \"g\" f32[4] \"data:partial(sum)\" bytes 64 offset 128\n"
    "  buffer 3 temp \"g\" f32[4] \"\" bytes 64 offset 192\n"
    "  buffer 4 temp \"max\" f32[] \"\" bytes 64 offset 256\n"
    "  buffer 5 temp \"limit\" f32[] \"\" bytes 64 offset 320\n"
    "  buffer 6 temp \"ok\" bool[] \"\" bytes 64 offset 384\n"
    "  buffer 7 temp \"w/add\" f32[4] \"\" bytes 64 offset 448\n"
    "  segment 0 init\n"
    "    0 compute fill -> (0) value 1.5 \"w\"\n"
    "  segment 1 train\n"
    "    0 copy feed -> (1) \"x\"\n"
    "    1 compute compute shoal.reduce_sum (1) -> (2) {dims=[0]} \"g\" wait 0\n"
    "    2 comm reshard (2) -> (3) channel 0 \"g\" wait 1\n"
    "    3 compute compute shoal.reduce_max (3) -> (4) {dims=[0]} \"max\" wait 2\n"
    "    4 compute compute shoal.full -> (5) {shape=[], value=100, dtype=f32} \"limit\"\n"
    "    5 compute compute shoal.greater_equal (5, 4) -> (6) \"ok\"\n"
    "    6 compute compute shoal.add (0, 3) -> (7) \"w/add\"\n"
    "    7 compute copy (7) -> (0) \"w\" predicate 6\n"
    "    8 copy fetch (6) \"ok\" wait 5\n"
    "  order init 0\n"
    "  order train 1\n";

// g: the sum of the squares of the first n rows of x; s: the squares themselves.
static const char BOUNDED[] =
    "shoal_program 1\n"
    "world 2\n"
    "micro 1\n"
    "mesh data=2\n"
    "input train x f32[7, 4]\n"
    "input train n i32[]\n"
    "output train g f32[4]\n"
    "output train s f32[7, 4]\n"
    "channel 0 f32[4] \"data:partial(sum)\" -> \"\"\n"
    "channel 1 f32[7, 4] \"data:0\" -> \"\"\n"
    "class 0 ranks 0-1 arena 768\n"
    "  buffer 0 input \"x\" f32[7, 4] \"data:0\" bytes 64 offset 0 count 1\n"
    "  buffer 1 input \"n\" i32[] \"\" bytes 64 offset 64\n"
    "  buffer 2 temp \"s\" f32[7, 4] \"data:0\" bytes 64 offset 128 count 1\n"
    "  buffer 3 temp \"g\" f32[4] \"data:partial(sum)\" bytes 64 offset 192\n"
    "  buffer 4 temp \"g\" f32[4] \"\" bytes 64 offset 256\n"
    "  buffer 5 temp \"s\" f32[7, 4] \"\" bytes 128 offset 320\n"
    "  segment 0 clear\n"
    "    0 copy feed -> (1) \"n\"\n"
    "    1 compute fill -> (2) value -1 \"s\"\n"
    "  segment 1 train\n"
    "    0 copy feed -> (0) \"x\"\n"
    "    1 compute compute shoal.square (0) -> (2) \"s\" wait 0\n"
    "    2 compute compute shoal.reduce_sum (2) -> (3) {dims=[0]} \"g\"\n"
    "    3 comm reshard (3) -> (4) channel 0 \"g\" wait 2\n"
    "    4 comm reshard (2) -> (5) channel 1 \"s\" workspace 256@448\n"
    "    5 copy fetch (4) \"g\" wait 3\n"
    "    6 copy fetch (5) \"s\" wait 4\n"
    "  order train 0[1<1.4] 1\n";

typedef struct job {
  const shoal_program_t *program;
  bool opaque, through_text;
  shoal_status_t (*run)(shoal_session_t *session);
} job_t;

static shoal_status_t run_rank(void *self, shoal_world_t *world) {
  const job_t *job = self;
  shoal_session_t *session;
  SHOAL_RETURN_IF_ERROR(shoal_session_create(
      job->program,
      &(shoal_parallelize_options_t){
          .world = world, .opaque = job->opaque, .through_text = job->through_text},
      &session));
  shoal_status_t status = job->run(session);
  shoal_session_free(session);
  return status;
}

static void run_everywhere(const char *text, shoal_status_t (*run)(shoal_session_t *session)) {
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse_program(text, registry);
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  for (int i = 0; i < 4; ++i)
    run_ranks_ok(2, run_rank,
                 &(job_t){.program = program, .opaque = i & 1, .through_text = i & 2, .run = run});
  shoal_program_free(program);
  shoal_registry_release(registry);
}

// ---- predicate ------------------------------------------------------------------------

static shoal_status_t run_guarded(shoal_session_t *session) {
  float expected[COLUMNS] = {1.5f, 1.5f, 1.5f, 1.5f};
  for (int step = 0; step < 6; ++step) {
    float x[ROWS * COLUMNS], w[COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; ++i) x[i] = (float)(i % 5) + (float)step;
    // Only a row of rank 1 is too large: both ranks skip.
    if (step % 3 == 1) x[6 * COLUMNS + 2] = 1000;
    if (step % 3 == 2) x[5 * COLUMNS + 1] = (float)INFINITY;
    const bool goes = step % 3 == 0;
    for (int i = 0; i < ROWS * COLUMNS && goes; ++i) expected[i % COLUMNS] += x[i];
    SHOAL_RETURN_IF_ERROR(shoal_feed(session, "x", x, sizeof x));
    SHOAL_RETURN_IF_ERROR(shoal_run(session, "train"));
    uint8_t ok;
    SHOAL_RETURN_IF_ERROR(shoal_fetch(session, "ok", &ok, sizeof ok));
    SHOAL_RETURN_IF_ERROR(shoal_session_get(session, "w", w, sizeof w));
    EXPECT(ok == goes, "step %d: ok is %d", step, ok);
    for (int i = 0; i < COLUMNS; ++i)
      EXPECT(w[i] == expected[i], "step %d: w[%d] is %g, not %g", step, i, (double)w[i],
             (double)expected[i]);
  }
  return NULL;
}

static void test_predicate(void **state) {
  (void)state;
  run_everywhere(GUARDED, run_guarded);
}

// ---- bounded --------------------------------------------------------------------------

static shoal_status_t run_bounded(shoal_session_t *session) {
  for (int32_t n = 0; n <= ROWS; ++n) {
    float x[ROWS * COLUMNS], g[COLUMNS], s[ROWS * COLUMNS], expected[COLUMNS] = {0};
    // What lies behind the count is never looked at: it would make everything NaN.
    for (int i = 0; i < ROWS * COLUMNS; ++i) x[i] = i < n * COLUMNS ? (float)(i - 9) : (float)NAN;
    for (int i = 0; i < n * COLUMNS; ++i) expected[i % COLUMNS] += x[i] * x[i];
    SHOAL_RETURN_IF_ERROR(shoal_feed(session, "x", x, sizeof x));
    SHOAL_RETURN_IF_ERROR(shoal_feed(session, "n", &n, sizeof n));
    SHOAL_RETURN_IF_ERROR(shoal_run(session, "train"));
    SHOAL_RETURN_IF_ERROR(shoal_fetch(session, "g", g, sizeof g));
    SHOAL_RETURN_IF_ERROR(shoal_fetch(session, "s", s, sizeof s));
    for (int i = 0; i < COLUMNS; ++i)
      EXPECT(g[i] == expected[i], "n = %d: g[%d] is %g, not %g", n, i, (double)g[i],
             (double)expected[i]);
    for (int i = 0; i < ROWS * COLUMNS; ++i)
      EXPECT(s[i] == (i < n * COLUMNS ? x[i] * x[i] : -1), "n = %d: s[%d] is %g", n, i,
             (double)s[i]);
  }
  return NULL;
}

static void test_bounded(void **state) {
  (void)state;
  run_everywhere(BOUNDED, run_bounded);
}

static shoal_status_t run_too_many(shoal_session_t *session) {
  float x[ROWS * COLUMNS] = {0};
  const int32_t n = ROWS + 1;
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, "x", x, sizeof x));
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, "n", &n, sizeof n));
  SHOAL_RETURN_IF_ERROR(shoal_run(session, "train"));
  return shoal_session_wait(session);
}

static void expect_error(const char *text, shoal_code_t code, const char *part) {
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse_program(text, registry);
  shoal_status_t statuses[2];
  run_ranks(2, run_rank, &(job_t){.program = program, .run = run_too_many}, statuses);
  for (int r = 0; r < 2; ++r) {
    if (shoal_status_code(statuses[r]) != code || !strstr(shoal_status_message(statuses[r]), part))
      fail_msg("rank %d: %s: %s", r, shoal_code_name(shoal_status_code(statuses[r])),
               shoal_status_message(statuses[r]));
    shoal_status_free(statuses[r]);
  }
  shoal_program_free(program);
  shoal_registry_release(registry);
}

// The text with the first `from` replaced by `to`.
static const char *edited(const char *text, const char *from, const char *to) {
  static char result[4096];
  const char *at = strstr(text, from);
  if (!at) fail_msg("no '%s'", from);
  snprintf(result, sizeof result, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
  return result;
}

static void test_bounded_errors(void **state) {
  (void)state;
  expect_error(BOUNDED, SHOAL_ABORTED, "count 'n' is 8; 's' has room for 7 rows");
  expect_error(edited(BOUNDED, "offset 128 count 1", "offset 128"), SHOAL_MISMATCH,
               "output 0 of shoal.square has another number of rows");
  expect_error(
      edited(BOUNDED, "compute fill -> (2) value -1 \"s\"",
             "compute compute shoal.full -> (2) {shape=[7, 4], value=-1, dtype=f32} \"s\" wait 0"),
      SHOAL_UNSUPPORTED, "needs its attribute 'shape' to be known at load");
  // What the count says must be there when rows are made, too.
  expect_error(
      edited(BOUNDED, "compute fill -> (2) value -1 \"s\"",
             "compute compute shoal.full -> (2) {shape=[7, 4], value=-1, dtype=f32} \"s\""),
      SHOAL_MISMATCH, "instruction 0");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_predicate),
      cmocka_unit_test(test_bounded),
      cmocka_unit_test(test_bounded_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// links: simulate program
//
// Calls and steps that are not joined, to the exact second: what one queue does while another is
// still in an earlier call or step, how much communication that hides, and, for random programs,
// that nothing starts before what it waits for has ended.
#include "simulate_support.h"

static const char LINK[] = "shoal_cluster: 1\nlink: {latency: 0.5, bandwidth: 4096}\n";

// The span of an instruction that works.
static const shoal_simulated_span_t *find(const shoal_simulation_t *s, int64_t group, int32_t step,
                                          int64_t call, int32_t instruction) {
  for (int64_t i = 0; i < s->span_count; ++i) {
    const shoal_simulated_span_t *span = &s->spans[i];
    if (!span->waits && span->group == group && span->step == step && span->call == call &&
        span->instruction == instruction) {
      return span;
    }
  }
  return NULL;
}

static void expect_span(const shoal_simulation_t *s, int32_t step, int64_t call,
                        int32_t instruction, double start, double end) {
  const shoal_simulated_span_t *span = find(s, 0, step, call, instruction);
  assert_non_null(span);
  expect(span->start, start);
  expect(span->end, end);
}

// ---- calls ----------------------------------------------------------------------------

// Each call makes a gradient in its own slot and reduces it; the last call needs both.
static const char CALLS[] =
    "shoal_program 1\n"
    "world 2\n"
    "micro 1\n"
    "mesh data=2\n"
    "channel 0 f32[1024] \"data:partial(sum)\" -> \"\"\n"
    "class 0 ranks 0-1 arena 20480\n"
    "  slots 0 2\n"
    "  buffer 0 temp \"g\" f32[1024] \"data:partial(sum)\" group 0 bytes 4096 offset 0\n"
    "  buffer 1 temp \"g\" f32[1024] \"\" group 0 bytes 4096 offset 8192\n"
    "  buffer 2 temp \"x\" f32[1024] \"\" bytes 4096 offset 16384\n"
    "  segment 0 backward\n"
    "    0 compute fill -> (0) value 1 \"g\"\n"
    "    1 comm reshard (0) -> (1) channel 0 \"g\" wait 0\n"
    "  segment 1 update\n"
    "    0 compute compute shoal.neg (1) -> (2) \"x\"\n"
    "  order run 0{0=0} 0{0=1} 1{0=0}[0<2.1] 1{0=1}[0<2.1]\n";

static const char CALLS_TIMES[] =
    "{\"shoal_times\": 1, \"instructions\": ["
    "{\"class\": 0, \"segment\": \"backward\", \"index\": 0, \"seconds\": 1},"
    "{\"class\": 0, \"segment\": \"update\", \"index\": 0, \"seconds\": 0.25}]}";

static void test_calls_are_not_joined(void **state) {
  (void)state;
  shoal_simulation_t *s = simulate(CALLS, LINK, CALLS_TIMES, "run");
  expect_span(s, 0, 0, 0, 0, 1);
  expect_span(s, 0, 0, 1, 1, 2.5);
  expect_span(s, 0, 1, 0, 1, 2);       // beside the first reduction
  expect_span(s, 0, 1, 1, 2.5, 4);     // behind it, on its queue
  expect_span(s, 0, 2, 0, 2.5, 2.75);  // needs the first reduction only
  expect_span(s, 0, 3, 0, 4, 4.25);
  expect(s->seconds, 4.25);
  expect(s->groups[0].busy[SHOAL_QUEUE_COMM], 3);
  expect(s->groups[0].bubble, 4.25 - 2.5);
  // Of 1 to 4 it computes from 1 to 2 and from 2.5 to 2.75.
  expect(s->groups[0].communication, 3);
  expect(s->groups[0].exposed, 1.75);
  expect(s->groups[0].hidden, 1 - 1.75 / 3);
  // The next run begins when all that compute on that queue are done.
  expect(s->step_seconds, 4.25);
  shoal_simulation_free(s);
  // With a wait for the call before it each call is joined to it.
  char *joined = edit(CALLS, "0{0=1} 1", "0{0=1}[0<1.1] 1");
  s = simulate(joined, LINK, CALLS_TIMES, "run");
  expect_span(s, 0, 1, 0, 2.5, 3.5);
  expect_span(s, 0, 1, 1, 3.5, 5);
  expect_span(s, 0, 2, 0, 3.5, 3.75);
  expect(s->seconds, 5.25);
  shoal_simulation_free(s);
  test_free(joined);
}

// ---- steps ----------------------------------------------------------------------------

// A step reduces a gradient that the next one needs in its middle.
static const char STEPS[] =
    "shoal_program 1\n"
    "world 2\n"
    "micro 1\n"
    "mesh data=2\n"
    "channel 0 f32[1024] \"data:partial(sum)\" -> \"\"\n"
    "class 0 ranks 0-1 arena 16384\n"
    "  buffer 0 temp \"g\" f32[1024] \"data:partial(sum)\" bytes 4096 offset 0\n"
    "  buffer 1 temp \"g\" f32[1024] \"\" bytes 4096 offset 4096\n"
    "  buffer 2 temp \"x\" f32[1024] \"\" bytes 4096 offset 8192\n"
    "  buffer 3 temp \"y\" f32[1024] \"\" bytes 4096 offset 12288\n"
    "  segment 0 s\n"
    "    0 compute fill -> (2) value 1 \"x\"\n"
    "    1 compute compute shoal.add (1, 2) -> (3) \"y\"\n"
    "    2 compute fill -> (0) value 1 \"g\"\n"
    "    3 comm reshard (0) -> (1) channel 0 \"g\" wait 2\n"
    "  order run 0[1<1.3]\n";

static void test_steps_are_not_joined(void **state) {
  (void)state;
  static const char times[] =
      "{\"shoal_times\": 1, \"instructions\": ["
      "{\"class\": 0, \"segment\": \"s\", \"index\": 0, \"seconds\": 1},"
      "{\"class\": 0, \"segment\": \"s\", \"index\": 1, \"seconds\": 0.5},"
      "{\"class\": 0, \"segment\": \"s\", \"index\": 2, \"seconds\": 0.25}]}";
  shoal_simulation_t *s = simulate(STEPS, LINK, times, "run");
  assert_int_equal(s->steps, 3);
  expect(s->seconds, 1.75 + 1.5);  // alone
  expect_span(s, 0, 0, 3, 1.75, 3.25);
  expect_span(s, 1, 0, 0, 1.75, 2.75);
  expect_span(s, 1, 0, 1, 3.25, 3.75);
  expect_span(s, 1, 0, 3, 4, 5.5);
  expect_span(s, 2, 0, 3, 6.25, 7.75);
  expect(s->step_seconds, 2.25);
  // Its reduction is from 4 to 5.5, the next step computes from 4 to 5.
  expect(s->groups[0].communication, 1.5);
  expect(s->groups[0].exposed, 0.5);
  expect(s->groups[0].hidden, 1 - 0.5 / 1.5);
  shoal_simulation_free(s);
  // What waits for the step before it does not wait for anything else: two steps back.
  char *older = edit(STEPS, "[1<1.3]", "[1<2.3]");
  s = simulate(older, LINK, times, "run");
  expect_span(s, 1, 0, 1, 2.75, 3.25);
  expect_span(s, 1, 0, 3, 3.5, 5);
  expect_span(s, 2, 0, 1, 4.5, 5);
  shoal_simulation_free(s);
  test_free(older);
}

// At most two runs are under way: the third waits for all of the first.
static void test_two_in_flight(void **state) {
  (void)state;
  char *text = edit(STEPS, "[1<1.3]", "");
  shoal_simulation_t *s =
      simulate(text, LINK,
               "{\"shoal_times\": 1, \"instructions\": ["
               "{\"class\": 0, \"segment\": \"s\", \"index\": 0, \"seconds\": 0.125},"
               "{\"class\": 0, \"segment\": \"s\", \"index\": 1, \"seconds\": 0.0625},"
               "{\"class\": 0, \"segment\": \"s\", \"index\": 2, \"seconds\": 0.0625}]}",
               "run");
  expect_span(s, 0, 0, 3, 0.25, 1.75);
  expect_span(s, 1, 0, 0, 0.25, 0.375);
  expect_span(s, 2, 0, 0, 1.75, 1.875);
  expect_span(s, 2, 0, 3, 3.25, 4.75);
  expect(s->step_seconds, 1.5);
  shoal_simulation_free(s);
  test_free(text);
}

// ---- several queues of communication --------------------------------------------------

static const char TWO[] =
    "shoal_program 1\n"
    "world 2\n"
    "micro 1\n"
    "mesh data=2\n"
    "channel 0 f32[1024] \"data:partial(sum)\" -> \"\"\n"
    "channel 1 f32[1024] \"data:partial(sum)\" -> \"\" lane 1\n"
    "class 0 ranks 0-1 arena 16384\n"
    "  queue compute compute\n"
    "  queue gradients comm\n"
    "  queue others comm\n"
    "  buffer 0 temp \"g\" f32[1024] \"data:partial(sum)\" bytes 4096 offset 0\n"
    "  buffer 1 temp \"g\" f32[1024] \"\" bytes 4096 offset 4096\n"
    "  buffer 2 temp \"h\" f32[1024] \"data:partial(sum)\" bytes 4096 offset 8192\n"
    "  buffer 3 temp \"h\" f32[1024] \"\" bytes 4096 offset 12288\n"
    "  segment 0 s\n"
    "    0 gradients reshard (0) -> (1) channel 0 \"g\"\n"
    "    1 others reshard (2) -> (3) channel 1 \"h\"\n"
    "    2 compute fill -> (0) value 1 \"g\" wait 0 1\n"
    "  order run 0[0<1.2,1<1.2]\n";

static void test_two_comm_queues(void **state) {
  (void)state;
  static const char times[] =
      "{\"shoal_times\": 1, \"instructions\": ["
      "{\"class\": 0, \"segment\": \"s\", \"index\": 2, \"seconds\": 0.25}]}";
  // The second one's data waits for the link, its latency passes by itself.
  shoal_simulation_t *s = simulate(TWO, LINK, times, "run");
  expect_span(s, 0, 0, 0, 0, 1.5);
  expect_span(s, 0, 0, 1, 0, 2.5);
  expect(s->seconds, 2.75);
  expect(s->groups[0].busy[SHOAL_QUEUE_COMM], 4);
  expect(s->groups[0].exposed, 4);
  expect(s->groups[0].hidden, 0);
  assert_int_equal(s->groups[0].queue_count, 3);
  expect(s->groups[0].queues[0].busy, 0.25);
  expect(s->groups[0].queues[1].busy, 1.5);
  expect(s->groups[0].queues[2].busy, 2.5);
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *text;
  assert_ok(shoal_simulation_trace(s, &arena, &text));
  assert_non_null(strstr(text, "\"gradients\""));
  assert_non_null(strstr(text, "\"others\""));
  assert_ok(shoal_simulation_report(s, &arena, &text));
  assert_non_null(strstr(text, "\n    gradients 1.5 s (55%), others 2.5 s (91%)\n"));
  assert_ok(shoal_simulation_json(s, &arena, &text));
  assert_non_null(strstr(text, "{\"name\": \"others\", \"kind\": \"comm\", \"seconds\": 2.5}"));
  shoal_arena_deinit(&arena);
  shoal_simulation_free(s);
  char *one = edit(TWO, "1 others reshard", "1 gradients reshard");
  s = simulate(one, LINK, times, "run");
  expect(s->seconds, 3.25);
  shoal_simulation_free(s);
  test_free(one);
}

// Each rank receives before it sends: on one queue they wait for each other, on two they do not.
static const char EXCHANGE[] =
    "shoal_program 1\n"
    "world 2\n"
    "micro 1\n"
    "mesh a!d=1@0\n"
    "mesh b!d=1@1\n"
    "channel 0 f32[1024] \"a!\" -> \"b!\"\n"
    "channel 1 f32[1024] \"b!\" -> \"a!\" lane 1\n"
    "class 0 ranks 0 arena 8192\n"
    "  queue compute compute\n"
    "  queue send comm\n"
    "  queue receive comm\n"
    "  buffer 0 temp \"x\" f32[1024] \"a!\" bytes 4096 offset 0\n"
    "  buffer 1 temp \"y\" f32[1024] \"a!\" bytes 4096 offset 4096\n"
    "  segment 0 first\n"
    "    0 receive reshard (-) -> (1) channel 1 \"y\"\n"
    "    1 send reshard (0) -> (-) channel 0 \"x\"\n"
    "  order run 0\n"
    "class 1 ranks 1 arena 8192\n"
    "  queue compute compute\n"
    "  queue send comm\n"
    "  queue receive comm\n"
    "  buffer 0 temp \"x\" f32[1024] \"b!\" bytes 4096 offset 0\n"
    "  buffer 1 temp \"y\" f32[1024] \"b!\" bytes 4096 offset 4096\n"
    "  segment 0 second\n"
    "    0 receive reshard (-) -> (0) channel 0 \"x\"\n"
    "    1 send reshard (1) -> (-) channel 1 \"y\"\n"
    "  order run 0\n";

static void test_deadlock_of_one_queue(void **state) {
  (void)state;
  shoal_simulation_t *s = simulate(EXCHANGE, LINK, NULL, "run");
  expect(s->seconds, 1.5);
  shoal_simulation_free(s);
  char *first = edit(EXCHANGE, "1 send", "1 receive"), *both = edit(first, "1 send", "1 receive");
  shoal_program_t *program;
  assert_ok(shoal_program_parse("program", both, registry, shoal_allocator_system(), &program));
  assert_error(MISMATCH, "class 0 does not get beyond 'y' of segment 'first'",
               shoal_simulate(program, &(shoal_simulate_options_t){.graph = "run"}, &s));
  shoal_program_free(program);
  test_free(first);
  test_free(both);
}

// ---- random programs ------------------------------------------------------------------

enum { MOST_CALLS = 7, MOST_INSTRUCTIONS = 9 };

static uint32_t dice(uint32_t *seed, uint32_t sides) {
  *seed = *seed * 1664525u + 1013904223u;
  return (*seed >> 8) % sides;
}

// Two classes of two ranks with the same segments and orders: some instructions compute, some
// reduce among the ranks of the class, some go from the first class to the second. What an
// instruction waits for stands before it in the order of calls, so that nothing is stuck.
static void random_program(uint32_t seed, char *text, size_t size) {
  size_t at = 0;
#define ADD(...) at += (size_t)snprintf(text + at, size - at, __VA_ARGS__)
  ADD("shoal_program 1\nworld 4\nmicro 1\nmesh a!d=2@0-1\nmesh b!d=2@2-3\n"
      "channel 0 f32[64] \"a!d:partial(sum)\" -> \"a!\"\n"
      "channel 1 f32[64] \"b!d:partial(sum)\" -> \"b!\"\n"
      "channel 2 f32[64] \"a!\" -> \"b!\" lane 1\n");
  const uint32_t first = seed;
  for (int c = 0; c < 2; ++c) {
    seed = first;  // both classes draw the same
    const char *mesh = c ? "b" : "a";
    ADD("class %d ranks %s arena 4096\n"
        "  queue compute compute\n  queue comm comm\n  queue side copy\n  queue messages comm\n"
        "  buffer 0 temp \"g\" f32[64] \"%s!d:partial(sum)\" bytes 256 offset 0\n"
        "  buffer 1 temp \"h\" f32[64] \"%s!\" bytes 256 offset 256\n",
        c, c ? "2-3" : "0-1", mesh, mesh);
    const uint32_t segments = 1 + dice(&seed, 3);
    uint32_t counts[3];
    for (uint32_t s = 0; s < segments; ++s) {
      ADD("  segment %u s%u\n", s, s);
      counts[s] = 1 + dice(&seed, MOST_INSTRUCTIONS);
      for (uint32_t i = 0; i < counts[s]; ++i) {
        switch (dice(&seed, 4)) {
          case 0:
            ADD("    %u comm reshard (0) -> (1) channel %d \"g\"", i, c);
            break;
          case 1:
            ADD("    %u messages reshard %s channel 2 \"h\"", i, c ? "(-) -> (1)" : "(1) -> (-)");
            break;
          case 2:
            ADD("    %u side fill -> (0) value 1 \"g\"", i);
            break;
          default:
            ADD("    %u compute compute shoal.neg (1) -> (1) \"h\"", i);
        }
        for (uint32_t w = 0, any = 0; w < i; ++w) {
          if (dice(&seed, 4) == 0) ADD("%s%u", any++ ? " " : " wait ", w);
        }
        ADD("\n");
      }
    }
    ADD("  order run");
    uint32_t order[MOST_CALLS];
    const uint32_t calls = 1 + dice(&seed, MOST_CALLS);
    for (uint32_t k = 0; k < calls; ++k) order[k] = dice(&seed, segments);
    for (uint32_t k = 0; k < calls; ++k) {
      ADD(" %u", order[k]);
      const uint32_t waits = dice(&seed, 4);
      for (uint32_t w = 0; w < waits; ++w) {
        const uint32_t back = 1 + dice(&seed, 2 * calls), own = dice(&seed, counts[order[k]]);
        const uint32_t other = order[(k + 2 * calls - back) % calls];
        ADD("%s%u<%u.%u", w ? "," : "[", own, back, dice(&seed, counts[other]));
      }
      if (waits > 0) ADD("]");
    }
    ADD("\n");
  }
#undef ADD
  assert_true(at < size);
}

// When an instruction was under way; a message that is only sent takes no time, and has no span.
static bool when(const shoal_simulation_t *s, int64_t group, const shoal_order_t *order,
                 int64_t call, int32_t instruction, double *out_start, double *out_end) {
  const int64_t n = order->call_count;
  const shoal_simulated_span_t *span =
      call < 0 ? NULL : find(s, group, (int32_t)(call / n), call % n, instruction);
  if (!span) return false;
  *out_start = span->start;
  *out_end = span->end;
  return true;
}

// Nothing starts before what it waits for has ended. Returns how many waits were looked at.
static int64_t check_starts(const shoal_simulation_t *s, const shoal_program_t *program) {
  int64_t checked = 0;
  for (int64_t g = 0; g < s->count; ++g) {
    const shoal_class_t *rank_class = &program->classes[s->groups[g].class_index];
    const shoal_order_t *order = &rank_class->orders[0];
    double ends[SHOAL_MAX_QUEUES] = {0};
    double start, end, own_end;
    for (int64_t k = 0; k < s->steps * order->call_count; ++k) {
      const shoal_segment_call_t *call = &order->calls[k % order->call_count];
      const shoal_segment_t *segment = &rank_class->segments[call->segment];
      for (int32_t i = 0; i < segment->instruction_count; ++i) {
        const shoal_instruction_t *in = &segment->instructions[i];
        if (!when(s, g, order, k, i, &start, &own_end)) continue;
        assert_true(start >= ends[in->queue]);
        ends[in->queue] = own_end;
        double other;
        for (int32_t w = 0; w < in->wait_count; ++w) {
          if (!when(s, g, order, k, in->waits[w], &other, &end)) continue;
          assert_true(start >= end);
          ++checked;
        }
        for (int32_t w = 0; w < call->wait_count; ++w) {
          if (call->waits[w].instruction != i ||
              !when(s, g, order, k - call->waits[w].back, call->waits[w].other, &other, &end)) {
            continue;
          }
          assert_true(start >= end);
          ++checked;
        }
      }
    }
  }
  return checked;
}

static void test_random_programs(void **state) {
  (void)state;
  static char text[32768];
  int64_t checked = 0;
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    random_program(seed, text, sizeof text);
    shoal_program_t *program;
    assert_ok(shoal_program_parse("program", text, registry, shoal_allocator_system(), &program));
    shoal_simulation_t *s = simulate(text,
                                     "shoal_cluster: 1\nlink: {latency: 0.5, bandwidth: 512}\n"
                                     "device: {flops: 64, bandwidth: 512}\n",
                                     NULL, "run");
    checked += check_starts(s, program);
    shoal_simulation_free(s);
    shoal_program_free(program);
  }
  assert_true(checked > 1000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_calls_are_not_joined),  cmocka_unit_test(test_steps_are_not_joined),
      cmocka_unit_test(test_two_in_flight),         cmocka_unit_test(test_two_comm_queues),
      cmocka_unit_test(test_deadlock_of_one_queue), cmocka_unit_test(test_random_programs),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

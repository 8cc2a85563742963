// The static check across calls and steps, which are not joined: what queues, slots, lanes and
// waits say of each other, and accesses of different calls that nothing orders.
#include "program_corrupt.h"
#include "program_race.h"

// ---- what calls say -------------------------------------------------------------------

static void slots_and_waits_of_calls(void **state) {
  (void)state;
  static const corruption_t cases[] = {
      {"1:1{0=0,1=1}", "1:1{1=1}",
       "graph 'run', class 0: call 2 (segment 1 'forward', micro-batch 1): it names no slot of "
       "group 0, which its segment touches"},
      {"2:1{2=1}", "2:1{1=0,2=1}",
       "call 5 (segment 2 'backward', micro-batch 1): it names a slot of group 1, which its "
       "segment does not touch"},
      {"1:1{0=0,1=1}", "1:1{0=0,1=1}[0<17.0]",
       "instruction 0 waits for the call 17 calls before it; it is 1 to 16"},
      {"1:1{0=0,1=1}", "1:1{0=0,1=1}[1<1.0]",
       "instruction 1 waits for instruction 0 of 'forward', which is on the same queue"},
      {"slots 0 2 by_step", "slots 0 17 by_step",
       "its slots by step come round after more than 16 steps"},
      // lanes
      {"    0 receive reshard (5) -> (6)", "    0 send reshard (5) -> (6)",
       "it receives on queue 'send', and 's' of the same lane 1 on queue 'receive'"},
      {"\"b!micro:0\" micro\nchannel 1", "\"b!micro:0\" micro lane 1\nchannel 1",
       "it sends on queue 'receive', and 'n' of the same lane 1 on queue 'send'"},
  };
  ALL_ARE_CAUGHT(PIPELINE, cases);
}

typedef void (*break_fn_t)(shoal_program_t *program);

static void no_queue(shoal_program_t *p) {
  p->classes[0].queue_count = 0;
}

static void same_queues(shoal_program_t *p) {
  static const shoal_program_queue_t queues[] = {{"compute", SHOAL_QUEUE_COMPUTE},
                                                 {"send", SHOAL_QUEUE_COMM},
                                                 {"send", SHOAL_QUEUE_COMM},
                                                 {"feed", SHOAL_QUEUE_COPY},
                                                 {"copy", SHOAL_QUEUE_COPY}};
  p->classes[0].queues = queues;
}

static void odd_queue(shoal_program_t *p) {
  static shoal_program_queue_t queues[8];
  memcpy(queues, p->classes[0].queues, sizeof *queues * (size_t)p->classes[0].queue_count);
  queues[1].kind = SHOAL_QUEUE_KIND_COUNT;
  p->classes[0].queues = queues;
}

static void no_slot(shoal_program_t *p) {
  p->classes[0].slot_groups[1].slots = 0;
}

static void long_period(shoal_program_t *p) {
  p->classes[0].slot_groups[0].slots = 17;
}

static void no_slots(shoal_program_t *p) {
  p->classes[0].orders[0].calls[0].slots = NULL;
}

static void far_slot(shoal_program_t *p) {
  static const int32_t slots[] = {2, -1, -1};
  p->classes[0].orders[0].calls[0].slots = slots;
}

static void wait_as(shoal_program_t *p, shoal_call_wait_t wait) {
  static shoal_call_wait_t one;
  one = wait;
  p->classes[0].orders[0].calls[2].waits = &one;
  p->classes[0].orders[0].calls[2].wait_count = 1;
}

static void no_waiter(shoal_program_t *p) {
  wait_as(p, (shoal_call_wait_t){3, 1, 0});
}

static void wait_for_now(shoal_program_t *p) {
  wait_as(p, (shoal_call_wait_t){2, 0, 0});
}

static void wait_for_none(shoal_program_t *p) {
  wait_as(p, (shoal_call_wait_t){2, 2, 2});
}

static void far_lane(shoal_program_t *p) {
  p->channels[0].lane = SHOAL_MAX_LANES;
}

static void state_in_a_group(shoal_program_t *p) {
  p->classes[0].buffers[0].group = 0;
}

// What no text can say.
static void tables_out_of_range(void **state) {
  (void)state;
  static const struct {
    const char *text;
    break_fn_t change;
    const char *message;
  } cases[] = {
      {PIPELINE, no_queue, "class 0: it has 0 queues"},
      {PIPELINE, same_queues, "class 0: it has two queues 'send'"},
      {PIPELINE, odd_queue, "queue 1 has none"},
      {PIPELINE, no_slot, "slot group 1 has 0 slots"},
      {PIPELINE, long_period, "its slots by step come round after more than 16 steps"},
      {PIPELINE, no_slots, "call 0 (segment 0 'before'): it names no slots"},
      {PIPELINE, far_slot, "it names slot 2 of group 0, which has 2"},
      {PIPELINE, no_waiter, "its segment has no instruction 3 to wait"},
      {PIPELINE, wait_for_now, "instruction 2 waits for the call 0 calls before it"},
      {PIPELINE, wait_for_none, "instruction 2 of 'before', which is not there"},
      {PIPELINE, far_lane, "channel 0: there is no lane 8"},
      {TRAIN, state_in_a_group, "buffer 0 'w': there is no slot group 0"},
  };
  shoal_registry_t *registry = test_registry();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    shoal_program_t *program = NULL;
    assert_ok(
        shoal_program_parse("p", cases[i].text, registry, shoal_allocator_system(), &program));
    cases[i].change(program);
    assert_error(MISMATCH, cases[i].message,
                 shoal_program_check(program, shoal_allocator_system()));
    shoal_program_free(program);
  }
  shoal_registry_release(registry);
}

// ---- order ----------------------------------------------------------------------------

static void calls_and_steps_are_not_joined(void **state) {
  (void)state;
  static const corruption_t cases[] = {
      // in one step
      {"[0<1.0,1<5.2]", "[1<5.2]",
       "segment 1 'forward', instruction 0 copy 'x', micro-batch 0: an input touches bytes that "
       "instruction 0 feed 'x' on queue feed writes in call 0 (segment 0 'before'), and nothing "
       "orders the two"},
      {"1:2{0=0,1=0}[1<3.2]", "1:2{0=0,1=0}",
       "an output touches bytes that instruction 2 reshard 'n' on queue send reads in call 1 "
       "(segment 1 'forward', micro-batch 0), and nothing orders the two"},
      // a wait for the call behind the one that is meant
      {"1:2{0=0,1=0}[1<3.2]", "1:2{0=0,1=0}[1<4.0]", "nothing orders the two"},
      // into the step before
      {"0{0=0}[0<12.0,1<1.0]", "0{0=0}[0<12.0]",
       "segment 0 'before', instruction 1 fill 't': an output touches bytes that instruction 0 "
       "reshard 't' on queue receive reads in call 7 (segment 3 'after') of the step before"},
      // and the one before that, whose slot comes round
      {"0{0=0}[0<12.0,1<1.0]", "0{0=0}[1<1.0]",
       "instruction 0 feed 'x': an output touches bytes that instruction 0 copy 'x' on queue "
       "compute reads in call 4 (segment 1 'forward', micro-batch 2) of 2 steps before"},
      // each step has the same slot: what is waited for is too long ago
      {"slots 0 2 by_step", "slots 0 2",
       "instruction 0 waits for the call 12 calls before it; it is 1 to 8"},
      // fewer slots than are in flight: the value is gone, or not yet read
      {"1:1{0=0,1=1}", "1:1{0=0,1=0}", "nothing orders the two"},
      {"0:1{0=1,1=1}", "0:1{0=1,1=0}", "nothing orders the two"},
  };
  ALL_ARE_CAUGHT(PIPELINE, cases);
  char *late = edit(PIPELINE, "[0<12.0,1<1.0]", "[0<4.0,1<1.0]");
  static const corruption_t values[] = {
      // Without slots by step the feed must wait for the step before: that is enough.
      {"1:0{0=0,1=0}[0<1.0,1<5.2]", "1:0{0=1,1=0}[0<1.0,1<5.2]",
       "buffer 0 'x' is read before it is written"},
  };
  ALL_ARE_CAUGHT(late, values);
  test_free(late);
}

// What lies beside a slot is only destroyed in every second step.
static void values_are_checked_in_every_step_of_a_period(void **state) {
  (void)state;
  // 'n' lies over the second slot of x, which the second step reads.
  char *ordered = edit(PIPELINE, "[0<12.0,1<1.0]", "[0<2.2,0<4.2,1<1.0]");
  static const corruption_t cases[] = {
      {"\"n\" f64[6, 8] \"a!micro:0\" group 1 bytes 128 offset 896",
       "\"n\" f64[6, 8] \"a!micro:0\" group 1 bytes 128 offset 0",
       "buffer 0 'x' has been overwritten by buffer 2 'n' before it is read"},
  };
  ALL_ARE_CAUGHT(ordered, cases);
  test_free(ordered);
}

// The remedy that an error names is one: adding what it says, again and again, ends in a program
// that passes, and that brute force finds no race in.
static void the_hint_is_a_remedy(void **state) {
  (void)state;
  static const char *const programs[] = {TRAIN, STAGES, GUARDED, PIPELINE};
  shoal_registry_t *registry = test_registry();
  for (size_t p = 0; p < sizeof programs / sizeof *programs; ++p) {
    shoal_program_t *program = NULL;
    assert_ok(shoal_program_parse("p", programs[p], registry, shoal_allocator_system(), &program));
    for (int64_t c = 0; c < program->class_count; ++c) {
      for (int64_t o = 0; o < program->classes[c].order_count; ++o) {
        shoal_order_t *order = &program->classes[c].orders[o];
        for (int64_t k = 0; k < order->call_count; ++k) order->calls[k].wait_count = 0;
      }
    }
    shoal_status_t status;
    for (int rounds = 0; (status = shoal_program_check(program, shoal_allocator_system()));) {
      int class;
      long long call;
      shoal_call_wait_t wait;
      char graph[32];
      if (++rounds > 100 ||
          sscanf(shoal_status_message(status), "graph '%31[^']', class %d", graph, &class) != 2 ||
          sscanf(shoal_status_hint(status), "add a wait to call %lld: [%d<%d.%d]", &call,
                 &wait.instruction, &wait.back, &wait.other) != 4) {
        fail_msg("program %zu: %s (%s)", p, shoal_status_message(status),
                 shoal_status_hint(status));
      }
      shoal_status_free(status);
      assert_true(has_race(program));
      shoal_order_t *order = program->classes[class].orders;
      while (strcmp(order->graph, graph) != 0) ++order;
      shoal_segment_call_t *to = &order->calls[call];
      shoal_call_wait_t *waits = SHOAL_NEW(program->arena, shoal_call_wait_t, to->wait_count + 1);
      assert_non_null(waits);
      for (int32_t i = 0; i < to->wait_count; ++i) waits[i] = to->waits[i];
      waits[to->wait_count++] = wait;
      to->waits = waits;
    }
    assert_false(has_race(program));
    shoal_program_free(program);
  }
  shoal_registry_release(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slots_and_waits_of_calls),
      cmocka_unit_test(tables_out_of_range),
      cmocka_unit_test(calls_and_steps_are_not_joined),
      cmocka_unit_test(values_are_checked_in_every_step_of_a_period),
      cmocka_unit_test(the_hint_is_a_remedy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

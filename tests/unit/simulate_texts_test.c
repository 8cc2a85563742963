// links: simulate program
//
// What the simulator says: its errors, those of files of measured times, and its texts.
#include "simulate_support.h"

static void test_errors(void **state) {
  (void)state;
  shoal_program_t *program;
  shoal_simulation_t *simulation;
  const shoal_allocator_t system = shoal_allocator_system();
  assert_ok(shoal_program_parse("program", PIPE, registry, system, &program));
  assert_error(NOT_FOUND, "no graph 'train'", shoal_simulate(program, NULL, &simulation));
  assert_null(simulation);
  shoal_cluster_t *cluster;
  assert_ok(shoal_cluster_parse("c", "cpu", system, &cluster));
  assert_error(
      INVALID_ARGUMENT, "2 ranks, the cluster has 1",
      shoal_simulate(program, &(shoal_simulate_options_t){.graph = "run", .cluster = cluster},
                     &simulation));
  shoal_cluster_free(cluster);
  // Every allocation may fail.
  bool done = false;
  for (int64_t n = 1; !done; ++n) {
    shoal_failing_t failing = {.inner = system, .fail_at = n};
    shoal_status_t status = shoal_simulate(
        program,
        &(shoal_simulate_options_t){
            .allocator = shoal_allocator_failing(&failing), .graph = "run", .spans = true},
        &simulation);
    done = status == NULL;
    if (status) assert_int_equal(shoal_status_code(status), SHOAL_OUT_OF_MEMORY);
    shoal_status_free(status);
    shoal_simulation_free(simulation);
    assert_int_equal(failing.live_blocks, 0);
    assert_true(n < 1000);
  }
  shoal_program_free(program);
  // Rank 1 wants five messages, and gets four.
  char *text = edit(PIPE, " 0:3[0<1.1]\nclass 1", "\nclass 1");
  assert_ok(shoal_program_parse("program", text, registry, system, &program));
  assert_error(MISMATCH, "class 1 does not get beyond 'x' of segment 'second'",
               shoal_simulate(program, &(shoal_simulate_options_t){.graph = "run"}, &simulation));
  shoal_program_free(program);
  test_free(text);
}

static void test_times_errors(void **state) {
  (void)state;
  static const struct {
    const char *text, *part;
  } cases[] = {
      {"[]", "object"},
      {"{}", "shoal_times"},
      {"{\"shoal_times\": 1, \"lnk\": 1}", "did you mean 'link'?"},
      {"{\"shoal_times\": 1, \"overlap\": 1}", "overlap"},
      {"{\"shoal_times\": 1, \"link\": {\"latency\": 1, \"bandwidth\": 0}}", "link"},
      {"{\"shoal_times\": 1, \"link\": {\"latency\": 1}}", "bandwidth"},
      {"{\"shoal_times\": 1, \"instructions\": [1]}", "instructions[0]"},
      {"{\"shoal_times\": 1, \"instructions\": [{\"class\": 0}]}", "segment"},
      {"{\"shoal_times\": 1, \"instructions\": [{\"class\": 0, \"segment\": \"s\", \"index\": 1, "
       "\"seconds\": -1}]}",
       "negative"},
      {"{\"shoal_times\": 1, \"instructions\": [{\"class\": 0, \"segment\": \"s\", \"index\": 1, "
       "\"seconds\": 1}, {\"class\": 0, \"segment\": \"s\", \"index\": 1, \"seconds\": 1}]}",
       "twice"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    shoal_times_t *times;
    assert_error(INVALID_ARGUMENT, cases[i].part,
                 shoal_times_parse("t.json", cases[i].text, shoal_allocator_system(), &times));
    assert_null(times);
  }
  shoal_times_t *times;
  assert_error(UNSUPPORTED, "format 2",
               shoal_times_parse("t", "{\"shoal_times\": 2}", shoal_allocator_system(), &times));
}

// The texts: figures in the report and the JSON, spans in the trace.
static void test_texts(void **state) {
  (void)state;
  shoal_simulation_t *s = simulate(
      PIPE, "shoal_cluster: 1\nlink: {latency: 0.25, bandwidth: 8192}\n", PIPE_TIMES, "run");
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *text;
  assert_ok(shoal_simulation_report(s, &arena, &text));
  assert_non_null(strstr(text, "run on 2 ranks: 9.75 s a run, 8 s each in a row\n"));
  assert_non_null(strstr(text, "1 rank from rank 1 on, cpu: compute 8 s"));
  assert_null(strstr(text, "hidden"));  // in a row, all messages have come when they are needed
  assert_non_null(strstr(text, "16 KiB between nodes"));
  assert_ok(shoal_simulation_json(s, &arena, &text));
  const shoal_json_t *json;
  assert_ok(shoal_json_parse("json", text, &arena, &json));
  double seconds;
  assert_ok(shoal_json_get_real(json, "seconds", &seconds));
  expect(seconds, 9.75);
  assert_ok(shoal_json_get_real(json, "step_seconds", &seconds));
  expect(seconds, 8);
  const shoal_json_t *groups;
  assert_ok(shoal_json_get_child(json, "groups", SHOAL_JSON_ARRAY, &groups));
  assert_ok(shoal_json_get_real(&groups->children[1], "hidden_share", &seconds));
  expect(seconds, 1);
  assert_ok(shoal_simulation_trace(s, &arena, &text));
  assert_ok(shoal_json_parse("trace", text, &arena, &json));
  const shoal_json_t *events;
  assert_ok(shoal_json_get_child(json, "traceEvents", SHOAL_JSON_ARRAY, &events));
  assert_int_equal(events->count, 2 * 4 + s->span_count);
  shoal_arena_deinit(&arena);
  shoal_simulation_free(s);
}

static void times_of_another_program(void **state) {
  (void)state;
  static const char *const wrong[] = {
      "{\"class\": 99, \"segment\": \"train.before.0\", \"index\": 0, \"seconds\": 1}",
      "{\"class\": 0, \"segment\": \"nowhere\", \"index\": 0, \"seconds\": 1}",
      "{\"class\": 0, \"segment\": \"s\", \"index\": 99, \"seconds\": 1}"};
  static const char text[] =
      "shoal_program 1\nworld 1\nmicro 1\nmesh d=1\nclass 0 ranks 0 arena 64\n"
      "  buffer 0 temp \"v\" f32[4] \"\" bytes 64 offset 0\n"
      "  segment 0 s\n    0 compute fill -> (0) value 1 \"v\"\n  order train 0\n";
  const shoal_allocator_t system = shoal_allocator_system();
  shoal_registry_t *ops;
  shoal_program_t *program;
  assert_ok(shoal_registry_create(system, &ops));
  assert_ok(shoal_program_parse("p", text, ops, system, &program));
  for (int i = 0; i < 3; ++i) {
    char file[256];
    shoal_times_t *times;
    shoal_simulation_t *simulation;
    snprintf(file, sizeof file, "{\"shoal_times\": 1, \"instructions\": [%s]}", wrong[i]);
    assert_ok(shoal_times_parse("times", file, system, &times));
    assert_error(MISMATCH, "the times are of another program",
                 shoal_simulate(program, &(shoal_simulate_options_t){.times = times}, &simulation));
    shoal_times_free(times);
  }
  shoal_program_free(program);
  shoal_registry_release(ops);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_times_errors),
      cmocka_unit_test(test_texts),
      cmocka_unit_test(times_of_another_program),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

// The executor on hand-written programs: compute, feeds and fetches, micro-batches, predicates,
// providers, states, opaque devices, errors on one rank.
// links: run launch
#include "base/failing.h"
#include "run/run.h"
#include "run_support.h"

typedef struct context {
  const shoal_program_t *program;
  bool opaque;
  shoal_provider_fn_t provider;
  void *provider_self;
  shoal_status_t (*body)(shoal_runner_t *runner, int32_t rank);
} context_t;

static shoal_status_t rank_body(void *self, shoal_world_t *world) {
  const context_t *context = self;
  shoal_device_t *device = NULL;
  shoal_runner_t *runner = NULL;
  SHOAL_RETURN_IF_ERROR(
      shoal_device_create(&(shoal_device_options_t){.opaque = context->opaque}, &device));
  shoal_status_t status =
      shoal_runner_create(context->program, world, device,
                          &(shoal_runner_options_t){.provider = context->provider,
                                                    .provider_self = context->provider_self},
                          &runner);
  if (!status) status = context->body(runner, shoal_world_rank(world));
  shoal_runner_free(runner);
  shoal_device_free(device);
  return status;
}

static void run_program(const char *text, context_t context, shoal_status_t *statuses) {
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse_program(text, registry);
  context.program = program;
  for (int opaque = 0; opaque < 2; ++opaque) {
    context.opaque = opaque;
    shoal_status_t got[MOST_RANKS];
    run_ranks(program->world, rank_body, &context, got);
    for (int32_t r = 0; r < program->world; ++r) {
      if (opaque && statuses)
        statuses[r] = got[r];
      else if (statuses)
        shoal_status_free(got[r]);
      else
        assert_ok(got[r]);
    }
  }
  shoal_program_free(program);
  shoal_registry_release(registry);
}

// ---- one rank -------------------------------------------------------------------------

static const char one_rank[] =
    "shoal_program 1\n"
    "world 1\n"
    "micro 1\n"
    "mesh data=1\n"
    "state w f32[6] \"\" saved\n"
    "input train x f32[6]\n"
    "output train y f32[6]\n"
    "class 0 ranks 0 arena 256\n"
    "  buffer 0 input \"x\" f32[6] \"\" bytes 64 offset 0\n"
    "  buffer 1 state 0 \"w\" f32[6] \"\" bytes 64 offset 64\n"
    "  buffer 2 output \"y\" f32[6] \"\" bytes 64 offset 128\n"
    "  buffer 3 input \"go\" bool[] \"\" bytes 64 offset 192\n"
    "  segment 0 init.0\n"
    "    0 compute fill -> (1) value 1 \"w\"\n"
    "    1 copy fill -> (3) value 1 \"go\"\n"
    "  segment 1 train.0\n"
    "    0 copy feed -> (0) \"x\"\n"
    "    1 compute compute shoal.add (0, 1) -> (2) \"y\" wait 0\n"
    "    2 copy fetch (2) \"y\" wait 1\n"
    "    3 compute copy (2) -> (1) \"w\" predicate 3\n"
    "    4 compute fill -> (1) value 7 \"w\" predicate 3\n"
    "    5 compute copy (2) -> (1) \"w\"\n"
    "  segment 2 off.0\n"
    "    0 compute fill -> (3) value 0 \"go\"\n"
    "    1 compute fill -> (1) value 7 \"w\" predicate 3\n"
    "    2 compute copy (0) -> (1) \"w\" predicate 3\n"
    "  order init 0\n"
    "  order train 1[0<1.1,1<1.2]\n"
    "  order off 2\n";

static shoal_status_t one_rank_body(shoal_runner_t *runner, int32_t rank) {
  (void)rank;
  const float x[6] = {1, 2, 3, 4, 5, 6};
  float y[6], w[6];
  SHOAL_RETURN_IF_ERROR(shoal_runner_run(runner, "init"));
  SHOAL_RETURN_IF_ERROR(shoal_runner_feed(runner, "x", x, sizeof x));
  for (int step = 1; step <= 3; ++step) {
    SHOAL_RETURN_IF_ERROR(shoal_runner_run(runner, "train"));
    SHOAL_RETURN_IF_ERROR(shoal_runner_fetch(runner, "y", y, sizeof y));
    for (int i = 0; i < 6; ++i)
      EXPECT(y[i] == 1 + (float)step * x[i], "y[%d] is %g", i, (double)y[i]);
  }
  SHOAL_RETURN_IF_ERROR(shoal_runner_run(runner, "off"));  // the predicate is false: w stays
  SHOAL_RETURN_IF_ERROR(shoal_runner_get(runner, "w", w, sizeof w));
  EXPECT(memcmp(w, y, sizeof w) == 0, "w is not y");
  for (int i = 0; i < 6; ++i) w[i] = (float)-i;
  SHOAL_RETURN_IF_ERROR(shoal_runner_set(runner, "w", w, sizeof w));
  SHOAL_RETURN_IF_ERROR(shoal_runner_run(runner, "train"));
  SHOAL_RETURN_IF_ERROR(shoal_runner_fetch(runner, "y", y, sizeof y));
  EXPECT(y[5] == 1, "y[5] is %g", (double)y[5]);
  return NULL;
}

static void test_one_rank(void **state) {
  (void)state;
  run_program(one_rank, (context_t){.body = one_rank_body}, NULL);
}

#define EXPECT_ERROR(code, part, expr)                                                       \
  do {                                                                                       \
    shoal_status_t got_ = (expr);                                                            \
    EXPECT(got_, "succeeded: " #expr);                                                       \
    bool right_ =                                                                            \
        shoal_status_code(got_) == SHOAL_##code &&                                           \
        (strstr(shoal_status_message(got_), part) || strstr(shoal_status_hint(got_), part)); \
    if (!right_) return got_;                                                                \
    shoal_status_free(got_);                                                                 \
  } while (0)

static shoal_status_t misuse_body(shoal_runner_t *runner, int32_t rank) {
  (void)rank;
  float x[6] = {0};
  EXPECT_ERROR(INVALID_ARGUMENT, "input 'x' of graph 'train' was not fed",
               shoal_runner_run(runner, "train"));
  EXPECT_ERROR(NOT_FOUND, "did you mean 'train'", shoal_runner_run(runner, "trains"));
  EXPECT_ERROR(NOT_FOUND, "no input 'z'", shoal_runner_feed(runner, "z", x, sizeof x));
  EXPECT_ERROR(INVALID_ARGUMENT, "input 'x' is f32[6], 24 bytes; 4 bytes were given",
               shoal_runner_feed(runner, "x", x, 4));
  EXPECT_ERROR(INVALID_ARGUMENT, "24 bytes; 20 bytes", shoal_runner_feed_part(runner, "x", x, 20));
  EXPECT_ERROR(INVALID_ARGUMENT, "no value yet", shoal_runner_fetch(runner, "y", x, sizeof x));
  EXPECT_ERROR(INVALID_ARGUMENT, "24 bytes; 1 bytes", shoal_runner_fetch(runner, "y", x, 1));
  EXPECT_ERROR(NOT_FOUND, "no output 'q'", shoal_runner_fetch(runner, "q", x, sizeof x));
  EXPECT_ERROR(NOT_FOUND, "no state 'v'", shoal_runner_get(runner, "v", x, sizeof x));
  EXPECT_ERROR(INVALID_ARGUMENT, "state 'w' is f32[6]", shoal_runner_set(runner, "w", x, 23));
  return NULL;
}

static void test_misuse(void **state) {
  (void)state;
  run_program(one_rank, (context_t){.body = misuse_body}, NULL);
}

// ---- two ranks, three unequal micro-batches -------------------------------------------

// total = sum of x over everything; half[i] = x[i] / 2, gathered; w rests flat over data.
static const char micro[] =
    "shoal_program 1\n"
    "world 2\n"
    "micro 3\n"
    "mesh data=2,micro=3\n"
    "state w f32[5] \"data:flat\" saved\n"
    "input train x f32[7, 2]\n"
    "output train total f32[]\n"
    "output train again f32[7, 2]\n"
    "channel 0 f32[] \"data:partial(sum)\" -> \"\"\n"
    "channel 1 f32[7, 2] \"micro:0,data:0\" -> \"micro:0\" micro\n"
    "class 0 ranks 0-1 arena 1024\n"
    "  buffer 0 input \"x\" f32[7, 2] \"micro:0,data:0\" bytes 64 offset 0\n"
    "  buffer 1 temp \"part\" f32[] \"micro:partial(sum),data:partial(sum)\" bytes 64 "
    "offset 64\n"
    "  buffer 2 temp \"sum\" f32[] \"data:partial(sum)\" bytes 64 offset 128\n"
    "  buffer 3 output \"total\" f32[] \"\" bytes 64 offset 192\n"
    "  buffer 4 state 0 \"w\" f32[5] \"data:flat\" bytes 64 offset 256\n"
    "  buffer 5 temp \"rows\" f32[7, 2] \"micro:0\" bytes 64 offset 320\n"
    "  buffer 6 output \"again\" f32[7, 2] \"\" bytes 64 offset 384\n"
    "  segment 0 train.before\n"
    "    0 compute fill -> (2) value 0 \"sum\"\n"
    "    1 compute fill -> (4) value 3 \"w\"\n"
    "  segment 1 train.loop\n"
    "    0 copy feed -> (0) \"x\"\n"
    "    1 compute compute shoal.reduce_sum (0) -> (1) {dims=[0, 1]} \"part\" wait 0\n"
    "    2 compute accumulate (1) -> (2) reduce sum \"sum\"\n"
    "    3 comm reshard (0) -> (5) channel 1 \"rows\" workspace 256@512 wait 0\n"
    "    4 compute copy (5) -> (6) \"again\" wait 3\n"
    "  segment 2 train.after\n"
    "    0 comm reshard (2) -> (3) channel 0 \"total\" workspace 128@448\n"
    "    1 copy fetch (3) \"total\" wait 0\n"
    "    2 copy fetch (6) \"again\"\n"
    "  order train 0[0<1.0] 1:0[0<3.1,0<3.3,3<3.4,4<2.2] 1:1[0<1.1,0<1.3,3<1.4]"
    " 1:2[0<1.1,0<1.3,3<1.4] 2[0<1.2,0<5.1,2<1.4]\n";

static shoal_status_t micro_body(shoal_runner_t *runner, int32_t rank) {
  float x[14], again[14], total, w[5];
  for (int step = 0; step < 4; ++step) {
    float sum = 0;
    for (int i = 0; i < 14; ++i) sum += x[i] = (float)(i * i + step);
    if (step % 2 == 0) {
      SHOAL_RETURN_IF_ERROR(shoal_runner_feed(runner, "x", x, sizeof x));
    } else {
      // Rows 0-2, 3-4, 5-6 are the micro-batches; rank 0 has the first half of each.
      static const int rows[2][4] = {{0, 1, 3, 5}, {2, 4, 6, -1}};
      float part[8];
      int count = 0;
      for (int i = 0; i < 4 && rows[rank][i] >= 0; ++i) {
        part[count++] = x[2 * rows[rank][i]];
        part[count++] = x[2 * rows[rank][i] + 1];
      }
      SHOAL_RETURN_IF_ERROR(
          shoal_runner_feed_part(runner, "x", part, (size_t)count * sizeof *part));
    }
    SHOAL_RETURN_IF_ERROR(shoal_runner_run(runner, "train"));
    SHOAL_RETURN_IF_ERROR(shoal_runner_fetch(runner, "total", &total, sizeof total));
    EXPECT(total == sum, "total is %g, not %g", (double)total, (double)sum);
    SHOAL_RETURN_IF_ERROR(shoal_runner_fetch(runner, "again", again, sizeof again));
    EXPECT(memcmp(again, x, sizeof x) == 0, "again is not x");
  }
  SHOAL_RETURN_IF_ERROR(shoal_runner_get(runner, "w", w, sizeof w));
  for (int i = 0; i < 5; ++i) EXPECT(w[i] == 3, "w[%d] is %g", i, (double)w[i]);
  for (int i = 0; i < 5; ++i) w[i] = (float)i;
  SHOAL_RETURN_IF_ERROR(shoal_runner_set(runner, "w", w, sizeof w));
  memset(w, 0, sizeof w);
  SHOAL_RETURN_IF_ERROR(shoal_runner_get(runner, "w", w, sizeof w));
  for (int i = 0; i < 5; ++i) EXPECT(w[i] == (float)i, "w[%d] is %g", i, (double)w[i]);
  int64_t planned[SHOAL_MEMORY_COUNT], touched[SHOAL_MEMORY_COUNT];
  shoal_runner_memory(runner, planned, touched);
  EXPECT(planned[0] == 1024 && planned[1] == 0, "planned %lld", (long long)planned[0]);
  return NULL;
}

static void test_micro(void **state) {
  (void)state;
  run_program(micro, (context_t){.body = micro_body}, NULL);
}

static shoal_status_t one_misfed_body(shoal_runner_t *runner, int32_t rank) {
  float x[14] = {0};
  if (rank == 0) SHOAL_RETURN_IF_ERROR(shoal_runner_feed(runner, "x", x, sizeof x));
  EXPECT_ERROR(INVALID_ARGUMENT, "was not fed", shoal_runner_run(runner, "train"));
  // Nothing had started: the world is whole.
  SHOAL_RETURN_IF_ERROR(shoal_runner_feed(runner, "x", x, sizeof x));
  SHOAL_RETURN_IF_ERROR(shoal_runner_run(runner, "train"));
  EXPECT_ERROR(INVALID_ARGUMENT, "20 bytes", shoal_runner_get(runner, "w", x, rank == 1 ? 20 : 19));
  return shoal_runner_get(runner, "w", x, 20);
}

static void test_one_rank_misfed(void **state) {
  (void)state;
  run_program(micro, (context_t){.body = one_misfed_body}, NULL);
}

// ---- two stages: sends that nobody waits for yet --------------------------------------

// Stage a (rank 0) sends all micro-batches forward before it receives anything back.
static const char stages[] =
    "shoal_program 1\n"
    "world 2\n"
    "micro 3\n"
    "mesh a!data=1,micro=3@0\n"
    "mesh b!data=1,micro=3@1\n"
    "mesh both!data=2,micro=3\n"
    "input train x f32[6]\n"
    "output train y f32[6]\n"
    "channel 0 f32[6] \"a!micro:0\" -> \"b!micro:0\" micro\n"
    "channel 1 f32[6] \"b!micro:0\" -> \"a!micro:0\" micro\n"
    "channel 2 f32[6] \"a!\" -> \"both!\"\n"
    "class 0 ranks 0 arena 1024\n"
    "  buffer 0 input \"x\" f32[6] \"a!micro:0\" bytes 64 offset 0\n"
    "  buffer 1 temp \"back\" f32[6] \"a!micro:0\" bytes 64 offset 64\n"
    "  buffer 2 temp \"y\" f32[6] \"a!\" bytes 64 offset 128\n"
    "  buffer 3 output \"y\" f32[6] \"both!\" bytes 64 offset 192\n"
    "  segment 0 forward\n"
    "    0 copy feed -> (0) \"x\"\n"
    "    1 comm reshard (0) -> (-) channel 0 \"x\" workspace 64@256 wait 0\n"
    "  segment 1 backward\n"
    "    0 comm reshard (-) -> (1) channel 1 \"back\" workspace 64@256\n"
    "    1 compute copy (1) -> (2) \"y\" wait 0\n"
    "  segment 2 after\n"
    "    0 comm reshard (2) -> (3) channel 2 \"y\" workspace 64@256\n"
    "    1 copy fetch (3) \"y\" wait 0\n"
    "  order train 0:0 0:1[0<1.1] 0:2[0<1.1] 1:2 1:1[0<1.1] 1:0[0<1.1] 2[0<1.1]\n"
    "class 1 ranks 1 arena 1024\n"
    "  slots 0 3\n"
    "  buffer 0 temp \"x\" f32[6] \"b!micro:0\" group 0 bytes 64 offset 0\n"
    "  buffer 1 temp \"back\" f32[6] \"b!micro:0\" bytes 64 offset 192\n"
    "  buffer 2 output \"y\" f32[6] \"both!\" bytes 64 offset 256\n"
    "  segment 0 forward\n"
    "    0 comm reshard (-) -> (0) channel 0 \"x\" workspace 64@320\n"
    "  segment 1 backward\n"
    "    0 compute compute test.twice (0) -> (1) \"back\"\n"
    "    1 comm reshard (1) -> (-) channel 1 \"back\" workspace 64@320 wait 0\n"
    "  segment 2 after\n"
    "    0 comm reshard (-) -> (2) channel 2 \"y\" workspace 64@320\n"
    "    1 copy fetch (2) \"y\" wait 0\n"
    "  order train 0:0{0=0} 0:1{0=1} 0:2{0=2} 1:2{0=2}[0<1.0] 1:1{0=1}[0<1.1] 1:0{0=0}[0<1.1]"
    " 2[0<7.1]\n";

static shoal_status_t twice(void *self, const shoal_kernel_call_t *call) {
  int64_t *fail_at = self;
  if (fail_at && --*fail_at == 0) return SHOAL_ERROR(UNAVAILABLE, "the provider gave up");
  const float *x = call->inputs[0].data;
  float *y = call->outputs[0].data;
  for (int64_t i = 0; i < shoal_shape_count(&call->inputs[0].shape); ++i) y[i] = 2 * x[i];
  return NULL;
}

static shoal_status_t stages_body(shoal_runner_t *runner, int32_t rank) {
  for (int step = 0; step < 3; ++step) {
    float x[6], y[6];
    for (int i = 0; i < 6; ++i) x[i] = (float)(10 * step + i);
    if (rank == 0) SHOAL_RETURN_IF_ERROR(shoal_runner_feed(runner, "x", x, sizeof x));
    SHOAL_RETURN_IF_ERROR(shoal_runner_run(runner, "train"));
    SHOAL_RETURN_IF_ERROR(shoal_runner_fetch(runner, "y", y, sizeof y));
    for (int i = 0; i < 6; ++i) EXPECT(y[i] == 2 * x[i], "y[%d] is %g", i, (double)y[i]);
  }
  return NULL;
}

static void test_stages(void **state) {
  (void)state;
  run_program(stages, (context_t){.body = stages_body, .provider = twice}, NULL);
}

// ---- a send that comes round again before it was received ------------------------------

// Rank 0 sends 2, 4, 8; rank 1 adds them up. The messages are larger than what fits on the way.
#define MANY "f32[262144]"
#define MANY_BYTES "1048576"
static const char repeated[] =
    "shoal_program 1\n"
    "world 2\n"
    "micro 1\n"
    "mesh a!data=1@0\n"
    "mesh b!data=1@1\n"
    "state s " MANY
    " \"a!\" saved\n"
    "state sum " MANY
    " \"b!\" saved\n"
    "channel 0 " MANY
    " \"a!\" -> \"b!\"\n"
    "class 0 ranks 0 arena 3145728\n"
    "  buffer 0 state 0 \"s\" " MANY " \"a!\" bytes " MANY_BYTES
    " offset 0\n"
    "  buffer 1 temp \"t\" " MANY " \"a!\" bytes " MANY_BYTES
    " offset 1048576\n"
    "  segment 0 start\n"
    "    0 compute fill -> (0) value 1 \"s\"\n"
    "  segment 1 send\n"
    "    0 compute compute shoal.add (0, 0) -> (1) \"t\"\n"
    "    1 compute copy (1) -> (0) \"s\"\n"
    "    2 comm reshard (1) -> (-) channel 0 \"t\" workspace " MANY_BYTES
    "@2097152 wait 1\n"
    "  order train 0 1[0<2.2] 1[0<1.2] 1[0<1.2]\n"
    "class 1 ranks 1 arena 4194304\n"
    "  buffer 0 state 1 \"sum\" " MANY " \"b!\" bytes " MANY_BYTES
    " offset 0\n"
    "  buffer 1 temp \"t\" " MANY " \"b!\" bytes " MANY_BYTES
    " offset 1048576\n"
    "  buffer 2 temp \"u\" " MANY " \"b!\" bytes " MANY_BYTES
    " offset 2097152\n"
    "  segment 0 start\n"
    "    0 compute fill -> (0) value 0 \"sum\"\n"
    "  segment 1 receive\n"
    "    0 comm reshard (-) -> (1) channel 0 \"t\" workspace " MANY_BYTES
    "@3145728\n"
    "    1 compute compute shoal.add (0, 1) -> (2) \"u\" wait 0\n"
    "    2 compute copy (2) -> (0) \"sum\"\n"
    "  order train 0 1[0<2.1] 1[0<1.1] 1[0<1.1]\n";

static shoal_status_t repeated_body(shoal_runner_t *runner, int32_t rank) {
  (void)rank;
  enum { COUNT = 262144 };
  float *sum = malloc(COUNT * sizeof *sum);
  shoal_status_t status = shoal_runner_run(runner, "train");
  if (!status) status = shoal_runner_run(runner, "train");
  if (!status) status = shoal_runner_get(runner, "sum", sum, COUNT * sizeof *sum);
  for (int i = 0; i < COUNT && !status; ++i) {
    if (sum[i] != 14) status = SHOAL_ERROR(MISMATCH, "sum[%d] is %g", i, (double)sum[i]);
  }
  free(sum);
  return status;
}

static void test_repeated_send(void **state) {
  (void)state;
  run_program(repeated, (context_t){.body = repeated_body}, NULL);
}

// ---- errors on one rank ---------------------------------------------------------------

static void test_no_provider(void **state) {
  (void)state;
  shoal_status_t statuses[2];
  run_program(stages, (context_t){.body = stages_body}, statuses);
  for (int r = 0; r < 2; ++r) {
    assert_error(UNAVAILABLE, "op 'test.twice' of node 'back' has no kernel", statuses[r]);
  }
}

static void test_provider_fails(void **state) {
  (void)state;
  for (int64_t at = 1; at <= 6; ++at) {
    // The program runs twice, immediate and opaque: nine calls each, and the first error ends it.
    int64_t countdown = at;
    shoal_registry_t *registry = test_registry();
    shoal_program_t *program = parse_program(stages, registry);
    context_t context = {.program = program,
                         .opaque = at % 2,
                         .body = stages_body,
                         .provider = twice,
                         .provider_self = &countdown};
    shoal_status_t statuses[MOST_RANKS];
    run_ranks(2, rank_body, &context, statuses);
    for (int r = 0; r < 2; ++r) assert_error(ABORTED, "the provider gave up", statuses[r]);
    shoal_program_free(program);
    shoal_registry_release(registry);
  }
}

// Takes the first `length` bytes from `from` on out of the text.
static void cut(char *text, const char *from, size_t length) {
  char *at = strstr(text, from);
  assert_non_null(at);
  memmove(at, at + length, strlen(at + length) + 1);
}

// A program nobody checked: rank 1 never sends back. Both say where they waited.
static void test_nobody_comes(void **state) {
  (void)state;
  char text[sizeof stages];
  memcpy(text, stages, sizeof stages);
  static const char line[] =
      "    1 comm reshard (1) -> (-) channel 1 \"back\" workspace 64@320 wait 0\n";
  cut(text, line, strlen(line));
  cut(text, "[0<1.1] 1:0{0=0}", strlen("[0<1.1]"));  // what waited for it
  cut(text, "[0<1.1] 2[0<7.1]", strlen("[0<1.1]"));
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse_program(text, registry);
  for (int opaque = 0; opaque < 2; ++opaque) {
    context_t context = {
        .program = program, .opaque = opaque, .body = stages_body, .provider = twice};
    shoal_status_t statuses[MOST_RANKS];
    run_ranks_within(300, 2, rank_body, &context, statuses);
    bool named = false;
    for (int r = 0; r < 2; ++r) {
      named |= strstr(shoal_status_message(statuses[r]),
                      "reshard of 'back' in segment 'backward'") != NULL;
      named |=
          strstr(shoal_status_message(statuses[r]), "reshard of 'y' in segment 'after'") != NULL;
      assert_error(DEADLINE, "rank", statuses[r]);
    }
    assert_true(named);
  }
  shoal_program_free(program);
  shoal_registry_release(registry);
}

static shoal_status_t wrong_world_body(shoal_runner_t *runner, int32_t rank) {
  (void)runner;
  (void)rank;
  return NULL;
}

static void test_wrong_world(void **state) {
  (void)state;
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse_program(one_rank, registry);
  context_t context = {.program = program, .body = wrong_world_body};
  shoal_status_t statuses[MOST_RANKS];
  run_ranks(2, rank_body, &context, statuses);
  for (int r = 0; r < 2; ++r) {
    assert_error(INVALID_ARGUMENT, "the program is for 1 ranks, the world has 2", statuses[r]);
  }
  shoal_program_free(program);
  shoal_registry_release(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_rank),    cmocka_unit_test(test_misuse),
      cmocka_unit_test(test_micro),       cmocka_unit_test(test_one_rank_misfed),
      cmocka_unit_test(test_stages),      cmocka_unit_test(test_repeated_send),
      cmocka_unit_test(test_no_provider), cmocka_unit_test(test_provider_fails),
      cmocka_unit_test(test_wrong_world), cmocka_unit_test(test_nobody_comes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

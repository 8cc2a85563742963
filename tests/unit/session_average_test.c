// Moving averages that are cut equal those of one device bit for bit: whatever cuts them, flat
// ranges as ZeRO's or a dim, an element of an average is computed from the same numbers in the same
// way. Everything else is replicated here, so that it has one device's bits too. links: all
#include "run_support.h"
#include "shoal/nn.h"
#include "shoal/ops.h"
#include "shoal/optimize.h"
#include "shoal/program.h"
#include "shoal/session.h"

enum { ROWS = 6, IN = 5, HIDDEN = 7, CLASSES = 3, STEPS = 4, BYTES = 16384 };

typedef struct job {
  shoal_dtype_t dtype;
  const char *layout;  // of averages; NULL: one device
  const char *held;    // where it rests, in the program's words
  int64_t used;
  unsigned char bits[BYTES];  // of all states, behind every step
} job_t;

static void build(shoal_graph_t *g, shoal_dtype_t dtype) {
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(ROWS, IN));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(ROWS));
  if (dtype != SHOAL_F64) x = shoal_cast(g, x, dtype);
  x = shoal_relu(g, shoal_nn_linear(g, "fc1", x, HIDDEN));
  x = shoal_nn_dropout(g, "drop", x, 0.25);
  const shoal_value_t loss = shoal_nn_cross_entropy(g, shoal_nn_linear(g, "fc2", x, CLASSES), y);
  shoal_optimize(g, loss, &(shoal_recipe_t){.lr = 0.02, .training = {.average = 0.9}});
  shoal_output(g, "loss", loss);
}

static shoal_status_t step(shoal_session_t *session, int64_t number) {
  double x[ROWS * IN];
  int32_t y[ROWS];
  for (int i = 0; i < ROWS * IN; ++i) x[i] = (double)((i * 7 + number * 3) % 11) * 0.1 - 0.5;
  for (int i = 0; i < ROWS; ++i) y[i] = (int32_t)((i + number) % CLASSES);
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, "x", x, sizeof x));
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, "y", y, sizeof y));
  return shoal_run(session, "train");
}

// Appends the bits of every state.
static shoal_status_t keep_bits(shoal_session_t *session, job_t *job, bool keeps) {
  const shoal_program_t *program = shoal_session_program(session);
  for (int64_t i = 0; i < program->state_count; ++i) {
    const shoal_type_t *type = &program->states[i].type;
    unsigned char data[1024];
    const size_t size = (size_t)shoal_shape_count(&type->shape) * shoal_dtype_size(type->dtype);
    EXPECT(size <= sizeof data, "a state of %zu bytes", size);
    SHOAL_RETURN_IF_ERROR(shoal_session_get(session, program->states[i].name, data, size));
    if (!keeps) continue;  // the job belongs to the rank that keeps
    EXPECT(job->used + (int64_t)size <= BYTES, "more than %d bytes of states", BYTES);
    memcpy(job->bits + job->used, data, size);
    job->used += (int64_t)size;
  }
  return NULL;
}

static shoal_status_t check_layouts(shoal_session_t *session, const job_t *job,
                                    shoal_arena_t *arena) {
  const shoal_program_t *program = shoal_session_program(session);
  int averages = 0;
  for (int64_t i = 0; i < program->state_count; ++i) {
    const char *name = program->states[i].name;
    const shoal_layout_t *layout = program->states[i].layout;
    const char *text;
    SHOAL_RETURN_IF_ERROR(shoal_layout_print(layout, arena, &text));
    const bool average = strstr(name, "#average") != NULL;
    averages += average;
    EXPECT(average ? strstr(text, job->held) != NULL : !strchr(text, ':'), "%s rests as '%s'", name,
           text);
  }
  EXPECT(averages == 4, "%d averages", averages);
  return NULL;
}

static shoal_status_t rank_body(void *self, shoal_world_t *world) {
  job_t *job = self;
  shoal_model_t *model = NULL;
  shoal_session_t *session = NULL;
  shoal_arena_t *arena = NULL;
  const bool keeps = shoal_world_rank(world) == 0;
  char mesh[32];
  snprintf(mesh, sizeof mesh, "data=%d", shoal_world_size(world));
  const shoal_intent_entry_t layouts[] = {{"*#average", job->layout}};
  shoal_status_t status = shoal_model_create(&(shoal_model_options_t){.seed = 5}, &model);
  if (!status) {
    build(shoal_model_graph(model, "train"), job->dtype);
    status = shoal_parallelize(model,
                               &(shoal_parallelize_options_t){.world = world,
                                                              .strategy = "explicit",
                                                              .mesh = mesh,
                                                              .layouts = layouts,
                                                              .layout_count = job->layout ? 1 : 0},
                               &session);
  }
  if (!status) status = shoal_arena_create(shoal_allocator_system(), &arena);
  if (!status && job->layout) status = check_layouts(session, job, arena);
  for (int64_t i = 1; i <= STEPS && !status; ++i) {
    status = step(session, i);
    if (!status) status = keep_bits(session, job, keeps);
  }
  shoal_arena_free(arena);
  shoal_session_free(session);
  shoal_model_free(model);
  return status;
}

static void test_bits(void **state) {
  (void)state;
  static const struct {
    int32_t ranks;
    const char *layout, *held;
  } cases[] = {{2, "data:flat", "flat"},
               {3, "data:flat", "flat"},
               {5, "data:flat", "flat"},
               {2, "data:0", "data:0"},
               {4, "data:0", "data:0"}};
  static const shoal_dtype_t dtypes[] = {SHOAL_F64, SHOAL_F32, SHOAL_BF16};
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; ++d) {
    static job_t one, many;
    one = (job_t){.dtype = dtypes[d]};
    run_ranks_ok(1, rank_body, &one);
    assert_true(one.used > 0);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; ++c) {
      many = (job_t){.dtype = dtypes[d], .layout = cases[c].layout, .held = cases[c].held};
      run_ranks_ok(cases[c].ranks, rank_body, &many);
      assert_int_equal(many.used, one.used);
      assert_memory_equal(many.bits, one.bits, (size_t)one.used);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

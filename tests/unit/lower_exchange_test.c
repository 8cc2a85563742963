// links: all
//
// Gradients that are exchanged in another type (`sync ... dtype=`): where they are cast and scaled,
// what stays in its own type, that fewer bytes are moved, that all ranks end with the same bits,
// and what a scale saves. That the result is right is tests/check_exchange.sh's to show.
#include <math.h>
#include <string.h>

#include "op/type.h"
#include "plan_fixture.h"
#include "run_support.h"
#include "shoal/ops.h"
#include "shoal/session.h"

enum { BATCH = 6, CONTEXT = 4, VOCABULARY = 7 };

static shoal_model_t *make_model(shoal_dtype_t dtype) {
  return make_gpt(&(gpt_sizes_t){.batch = BATCH,
                                 .context = CONTEXT,
                                 .vocabulary = VOCABULARY,
                                 .width = 8,
                                 .heads = 2,
                                 .layers = 2,
                                 .dtype = dtype});
}

typedef struct setting {
  const char *mesh;
  int32_t world;
  shoal_intent_entry_t layouts[3];
} setting_t;

static const setting_t DATA = {"data=2", 2, {{"ids", "data:0"}, {"labels", "data:0"}}};
static const setting_t ZERO = {
    "data=2", 2, {{"ids", "data:0"}, {"labels", "data:0"}, {"*#adamw.*", "data:flat"}}};
static const setting_t AXES = {
    "a=2,b=2", 4, {{"ids", "a:0,b:0"}, {"labels", "a:0,b:0"}, {"*#adamw.*", "a:flat"}}};
static const setting_t MICRO = {
    "micro=3,data=2", 2, {{"ids", "micro:0,data:0"}, {"labels", "micro:0,data:0"}}};

static shoal_program_t *lower_with(const shoal_model_t *model, const setting_t *setting,
                                   int64_t count, const shoal_intent_decision_t *decisions) {
  int64_t layouts = 0;
  while (layouts < COUNT(setting->layouts) && setting->layouts[layouts].pattern) ++layouts;
  const shoal_intent_t intent = {.mesh_count = 1,
                                 .meshes = &setting->mesh,
                                 .layout_count = layouts,
                                 .layouts = setting->layouts,
                                 .decision_count = count,
                                 .decisions = decisions};
  shoal_plan_t *plan;
  shoal_program_t *program;
  assert_ok(
      shoal_plan_create(model, rules, &intent, setting->world, shoal_allocator_system(), &plan));
  assert_ok(shoal_lower(plan, NULL, &program));
  assert_ok(shoal_program_check(program, shoal_allocator_system()));
  shoal_plan_free(plan);
  return program;
}

static shoal_program_t *lower_sync(const shoal_model_t *model, const setting_t *setting,
                                   const char *choice) {
  const shoal_intent_decision_t decision = {.kind = "sync", .pattern = "*", .choice = choice};
  return lower_with(model, setting, choice ? 1 : 0, &decision);
}

// ---- what a program does ------------------------------------------------------------------

typedef struct found {
  int64_t casts;               // to the type of the exchange
  int64_t casts_back;          // to the gradient's own
  int64_t reductions, inside;  // values that are reduced over ranks; of them in the loop
  int64_t bytes;               // of these values
  int64_t gathers;             // of anything, in the gradient's own type
} found_t;

static bool is_partial_over_ranks(const shoal_layout_t *layout) {
  for (int32_t i = 0; i < layout->cut_count; ++i)
    if (layout->cuts[i].kind == SHOAL_CUT_PARTIAL && layout->cuts[i].axis != SHOAL_AXIS_MICRO)
      return true;
  return false;
}

static void look_at(const shoal_program_t *program, const shoal_class_t *c,
                    const shoal_instruction_t *in, shoal_dtype_t own, shoal_dtype_t other,
                    found_t *out) {
  const bool cast = in->op && strcmp(in->op->name, "shoal.cast") == 0;
  for (int32_t k = 0; k < in->input_count; ++k) {
    const shoal_buffer_t *from = &c->buffers[in->inputs[k]];
    if (in->opcode == SHOAL_OPCODE_RESHARD) {
      const shoal_channel_t *channel = &program->channels[in->channels[k]];
      assert_int_equal(channel->type.dtype, from->type.dtype);
      assert_int_equal(from->type.dtype, c->buffers[in->inputs[0]].type.dtype);
      const bool reduces =
          is_partial_over_ranks(channel->src) && strncmp(from->name, "grad/", 5) == 0;
      if (reduces) assert_int_equal(from->type.dtype, other);
      out->reductions += reduces;
      out->inside += reduces && channel->micro;
      if (reduces) out->bytes += shoal_type_bytes(&from->type);
      out->gathers += !reduces && from->type.dtype == own;
    } else if (cast && from->type.dtype != c->buffers[in->outputs[0]].type.dtype) {
      const shoal_buffer_t *to = &c->buffers[in->outputs[0]];
      assert_true(from->layout == to->layout);
      assert_string_equal(from->name, to->name);
      assert_int_equal(in->queue, SHOAL_QUEUE_COMPUTE);
      out->casts += to->type.dtype == other;
      out->casts_back += to->type.dtype == own;
    } else if (own !=
               other) {  // nobody else sees that type: sums over micro-batches do not, either
      assert_int_not_equal(from->type.dtype, other);
    }
  }
}

static found_t look(const shoal_program_t *program, shoal_dtype_t own, shoal_dtype_t other) {
  found_t found = {0};
  const shoal_class_t *c = &program->classes[0];
  for (int64_t s = 0; s < c->segment_count; ++s)
    for (int64_t i = 0; i < c->segments[s].instruction_count; ++i)
      if (strncmp(c->segments[s].name, "train", 5) == 0)
        look_at(program, c, &c->segments[s].instructions[i], own, other, &found);
  return found;
}

// ---- tests --------------------------------------------------------------------------------

// Half of the bytes, one cast in front of each reduction and one behind it.
static void test_casts(void **state) {
  (void)state;
  const setting_t *const settings[] = {&DATA, &ZERO, &MICRO};
  shoal_model_t *model = make_model(SHOAL_F32);
  for (int64_t i = 0; i < COUNT(settings); ++i) {
    shoal_program_t *plain = lower_sync(model, settings[i], NULL);
    const found_t before = look(plain, SHOAL_F32, SHOAL_F32);
    assert_int_equal(before.casts, 0);
    assert_true(before.reductions > 20);
    static const char *const choices[] = {"dtype=bf16", "last dtype=bf16 bucket=1K"};
    for (int64_t k = 0; k < COUNT(choices); ++k) {
      shoal_program_t *program = lower_sync(model, settings[i], choices[k]);
      const found_t after = look(program, SHOAL_F32, SHOAL_BF16);
      assert_int_equal(after.reductions, before.reductions);
      assert_int_equal(after.casts, before.reductions);
      assert_int_equal(after.casts_back, before.reductions);
      assert_int_equal(2 * after.bytes, before.bytes);
      assert_int_equal(after.gathers, before.gathers);  // of weights: in their own type
      assert_int_equal(after.inside, 0);
      shoal_program_free(program);
    }
    shoal_program_free(plain);
  }
  shoal_model_free(model);
}

// Over two axes: cast once, however many steps there are.
static void test_several_steps(void **state) {
  (void)state;
  shoal_model_t *model = make_model(SHOAL_F32);
  shoal_program_t *plain = lower_sync(model, &AXES, NULL);
  shoal_program_t *program = lower_sync(model, &AXES, "dtype=f16");
  const found_t before = look(plain, SHOAL_F32, SHOAL_F32);
  const found_t after = look(program, SHOAL_F32, SHOAL_F16);
  assert_int_equal(after.reductions, before.reductions);
  assert_int_equal(after.casts, after.casts_back);
  assert_true(after.casts > 20 && after.casts < after.reductions);
  assert_int_equal(2 * after.bytes, before.bytes);
  shoal_program_free(program);
  shoal_program_free(plain);
  shoal_model_free(model);
}

// In each micro-batch: what is added up has the gradient's own type (look_at says so).
static void test_each(void **state) {
  (void)state;
  shoal_model_t *model = make_model(SHOAL_F32);
  shoal_program_t *program = lower_sync(model, &MICRO, "each dtype=bf16");
  const found_t found = look(program, SHOAL_F32, SHOAL_BF16);
  assert_true(found.inside > 20);
  assert_int_equal(found.casts, found.casts_back);
  assert_int_equal(found.casts, found.reductions);
  shoal_program_free(program);
  shoal_model_free(model);
}

// A wider type than the gradient's, and the gradient's own.
static void test_wider(void **state) {
  (void)state;
  shoal_model_t *model = make_model(SHOAL_BF16);
  shoal_program_t *program = lower_sync(model, &DATA, "dtype=f64");
  const found_t found = look(program, SHOAL_BF16, SHOAL_F64);
  assert_true(found.casts > 20);
  assert_int_equal(found.casts, found.casts_back);
  shoal_program_free(program);
  program = lower_sync(model, &DATA, "dtype=bf16");
  assert_int_equal(look(program, SHOAL_BF16, SHOAL_BF16).casts, 0);
  shoal_program_free(program);
  shoal_model_free(model);
}

// Members of a bucket have one type; look_at says so of every instruction.
static void test_buckets(void **state) {
  (void)state;
  static const shoal_intent_decision_t decisions[] = {
      {.kind = "sync", .pattern = "*", .choice = "bucket=all"},
      {.kind = "sync", .pattern = "block0/*", .choice = "bucket=all dtype=bf16"},
      {.kind = "sync", .pattern = "block1/*", .choice = "bucket=all dtype=f16"}};
  shoal_model_t *model = make_model(SHOAL_F32);
  shoal_program_t *program = lower_with(model, &DATA, COUNT(decisions), decisions);
  const shoal_class_t *c = &program->classes[0];
  int64_t buckets[SHOAL_DTYPE_COUNT] = {0}, members[SHOAL_DTYPE_COUNT] = {0};
  for (int64_t s = 0; s < c->segment_count; ++s)
    for (int64_t i = 0; i < c->segments[s].instruction_count; ++i) {
      const shoal_instruction_t *in = &c->segments[s].instructions[i];
      if (in->opcode != SHOAL_OPCODE_RESHARD || in->input_count < 2) continue;
      const shoal_dtype_t dtype = c->buffers[in->inputs[0]].type.dtype;
      for (int32_t k = 0; k < in->input_count; ++k)
        assert_int_equal(c->buffers[in->inputs[k]].type.dtype, dtype);
      ++buckets[dtype];
      members[dtype] += in->input_count;
    }
  assert_int_equal(buckets[SHOAL_BF16], 1);
  assert_int_equal(buckets[SHOAL_F16], 1);
  assert_int_equal(members[SHOAL_BF16], 12);
  assert_int_equal(members[SHOAL_F16], 12);
  assert_true(members[SHOAL_F32] > 0);
  shoal_program_free(program);
  shoal_model_free(model);
}

// Three gradients, and updates that need the last of them.
static shoal_model_t *late_model(void) {
  static const char *const names[] = {"u", "v", "w"};
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  const shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(6, 4));
  shoal_value_t w[3], d[3];
  for (int i = 0; i < 3; ++i)
    w[i] = shoal_state(g, names[i], SHOAL_F32, SHOAL_SHAPE(4),
                       &(shoal_state_options_t){.trainable = true});
  shoal_kind_push(g, SHOAL_NODE_WEIGHT_GRADIENT);
  for (int i = 0; i < 3; ++i) d[i] = shoal_reduce_sum(g, shoal_mul(g, x, w[i]), SHOAL_SHAPE(0));
  shoal_kind_pop(g);
  shoal_kind_push(g, SHOAL_NODE_UPDATE);
  const shoal_value_t scale = shoal_square(g, d[2]);
  for (int i = 0; i < 3; ++i)
    shoal_assign(g, w[i], shoal_sub(g, w[i], shoal_maximum(g, scale, d[i])));
  shoal_kind_pop(g);
  assert_ok(shoal_model_status(model));
  return model;
}

// Cast and reduced as soon as they are made, not when their updates come: a reduction runs beside
// what makes the next gradient.
static void test_order(void **state) {
  (void)state;
  static const setting_t setting = {"data=2", 2, {{"x", "data:0"}}};
  shoal_model_t *model = late_model();
  shoal_program_t *program = lower_sync(model, &setting, "dtype=bf16");
  const shoal_class_t *c = &program->classes[0];
  int64_t reductions = 0, made = 0;
  for (int64_t s = 0; s < c->segment_count; ++s)
    for (int64_t i = 0; i < c->segments[s].instruction_count; ++i) {
      const shoal_instruction_t *in = &c->segments[s].instructions[i];
      made += in->op && strcmp(in->op->name, "shoal.reduce_sum") == 0;
      if (in->opcode != SHOAL_OPCODE_RESHARD) continue;
      assert_int_equal(c->buffers[in->inputs[0]].type.dtype, SHOAL_BF16);
      assert_int_equal(made, ++reductions);
    }
  assert_int_equal(reductions, 3);
  shoal_program_free(program);
  shoal_model_free(model);
}

// ---- bits ---------------------------------------------------------------------------------

typedef struct job {
  const shoal_program_t *program;
  uint64_t hashes[MOST_RANKS];
  int64_t counts[MOST_RANKS];
} job_t;

// Gradients and updates that every rank has whole.
static void note(void *self, int32_t rank, const char *graph, const char *value,
                 const shoal_layout_t *layout, const shoal_type_t *whole, int64_t micro,
                 const void *data, int64_t bytes) {
  job_t *job = self;
  (void)graph, (void)whole, (void)micro;
  if (layout->cut_count > 0) return;
  if (strncmp(value, "grad/", 5) != 0 && strncmp(value, "update/", 7) != 0) return;
  uint64_t hash = 1469598103934665603u;
  for (const char *at = value; *at; ++at) hash = (hash ^ (uint8_t)*at) * 1099511628211u;
  for (int64_t i = 0; i < bytes; ++i) hash = (hash ^ ((const uint8_t *)data)[i]) * 1099511628211u;
  job->hashes[rank] += hash;  // whatever the order of queues
  ++job->counts[rank];
}

static shoal_status_t run_rank(void *self, shoal_world_t *world) {
  job_t *job = self;
  shoal_session_t *session = NULL;
  int32_t ids[BATCH * CONTEXT], labels[BATCH * CONTEXT];
  shoal_status_t status = shoal_session_create(
      job->program, &(shoal_parallelize_options_t){.world = world, .tap = note, .tap_self = job},
      &session);
  for (int step = 0; step < 2 && !status; ++step) {
    for (int i = 0; i < BATCH * CONTEXT; ++i) {
      ids[i] = (i * 5 + step) % VOCABULARY;
      labels[i] = (i * 3 + step * 2) % VOCABULARY;
    }
    status = shoal_feed(session, "ids", ids, sizeof ids);
    if (!status) status = shoal_feed(session, "labels", labels, sizeof labels);
    if (!status) status = shoal_run(session, "train");
    if (!status) status = shoal_session_wait(session);
  }
  shoal_session_free(session);
  return status;
}

static void test_same_bits(void **state) {
  (void)state;
  const setting_t *const settings[] = {&DATA, &ZERO, &AXES, &MICRO};
  static const char *const choices[] = {"dtype=bf16", "each dtype=f16", "dtype=bf16 bucket=1K"};
  shoal_model_t *model = make_model(SHOAL_F32);
  for (int64_t i = 0; i < COUNT(settings); ++i)
    for (int64_t k = 0; k < COUNT(choices); ++k) {
      shoal_program_t *program = lower_sync(model, settings[i], choices[k]);
      job_t job = {.program = program};
      run_ranks_ok(program->world, run_rank, &job);
      assert_true(job.counts[0] > 20);
      for (int32_t r = 1; r < program->world; ++r) {
        assert_int_equal(job.counts[r], job.counts[0]);
        if (job.hashes[r] != job.hashes[0])
          fail_msg("mesh %s, %s: rank %d has other bits than rank 0", settings[i]->mesh, choices[k],
                   r);
      }
      shoal_program_free(program);
    }
  shoal_model_free(model);
}

// ---- scales -------------------------------------------------------------------------------

typedef struct scaled_job {
  const shoal_program_t *program;
  float x;              // every element of the input
  float g[MOST_RANKS];  // the gradient of `u` on each rank, once it is whole
} scaled_job_t;

static void note_gradient(void *self, int32_t rank, const char *graph, const char *value,
                          const shoal_layout_t *layout, const shoal_type_t *whole, int64_t micro,
                          const void *data, int64_t bytes) {
  scaled_job_t *job = self;
  (void)graph, (void)micro;
  const bool reduced = layout->cut_count == 0 && whole->dtype == SHOAL_F32;
  if (strcmp(value, "reduce_sum") != 0 || !reduced || bytes != 4 * sizeof(float)) return;
  memcpy(&job->g[rank], data, sizeof(float));
}

static shoal_status_t run_scaled(void *self, shoal_world_t *world) {
  scaled_job_t *job = self;
  shoal_session_t *session = NULL;
  float x[6 * 4];
  const float ones[4] = {1, 1, 1, 1};
  for (int i = 0; i < COUNT(x); ++i) x[i] = job->x;
  shoal_status_t status = shoal_session_create(
      job->program,
      &(shoal_parallelize_options_t){.world = world, .tap = note_gradient, .tap_self = job},
      &session);
  static const char *const names[] = {"u", "v", "w"};
  for (int i = 0; i < 3 && !status; ++i)
    status = shoal_session_set(session, names[i], ones, sizeof ones);
  if (!status) status = shoal_feed(session, "x", x, sizeof x);
  if (!status) status = shoal_run(session, "train");
  if (!status) status = shoal_session_wait(session);
  shoal_session_free(session);
  return status;
}

// What all ranks have of the gradient of `u`, the sum of six times x, in f32.
static float exchanged_as(const shoal_model_t *model, const char *choice, float x) {
  static const setting_t setting = {"data=2", 2, {{"x", "data:0"}}};
  shoal_program_t *program = lower_sync(model, &setting, choice);
  scaled_job_t job = {.program = program, .x = x, .g = {-1, -2}};
  run_ranks_ok(2, run_scaled, &job);
  assert_true(job.g[0] == job.g[1]);
  shoal_program_free(program);
  return job.g[0];
}

// f16 has nothing below 2^-24 and few bits below 2^-14: a scale brings small gradients over the
// links. What is too large for it arrives as infinity, on every rank; a small scale makes room.
static void test_scale(void **state) {
  (void)state;
  shoal_model_t *model = late_model();
  const float lost = exchanged_as(model, "dtype=f16", 1e-9F),
              saved = exchanged_as(model, "dtype=f16 scale=1048576", 1e-9F);
  assert_true(lost == 0);
  assert_true(saved > 6e-9F * (1 - 0x1p-10F) && saved < 6e-9F * (1 + 0x1p-10F));
  const float coarse = exchanged_as(model, "dtype=f16", 1e-7F / 6),
              fine = exchanged_as(model, "dtype=f16 scale=65536 bucket=all", 1e-7F / 6);
  assert_true(coarse == 0x1p-23F);  // two of its steps, each rounded from 0.8
  assert_true(fine > 1e-7F * (1 - 0x1p-10F) && fine < 1e-7F * (1 + 0x1p-10F));
  assert_true(exchanged_as(model, "dtype=f16 scale=1024", 10) == 60);
  assert_true(exchanged_as(model, "dtype=f16 scale=1024", 16) == INFINITY);  // 98304, over 65504
  assert_true(exchanged_as(model, "dtype=f16 scale=0.25", 20000) == 120000);
  assert_true(exchanged_as(model, "dtype=bf16 scale=1024", 16) == 96);
  shoal_model_free(model);
}

// Scaled in front of the reduction and scaled back behind it, both exactly; nothing else is.
static void test_scale_attrs(void **state) {
  (void)state;
  static const shoal_intent_decision_t decisions[] = {
      {.kind = "sync", .pattern = "*", .choice = "dtype=bf16"},
      {.kind = "sync", .pattern = "block0/*", .choice = "dtype=f16 scale=1024"}};
  shoal_model_t *model = make_model(SHOAL_F32);
  shoal_program_t *program = lower_with(model, &ZERO, COUNT(decisions), decisions);
  const shoal_class_t *c = &program->classes[0];
  int64_t there = 0, back = 0, plain = 0;
  for (int64_t s = 0; s < c->segment_count; ++s)
    for (int64_t i = 0; i < c->segments[s].instruction_count; ++i) {
      const shoal_instruction_t *in = &c->segments[s].instructions[i];
      if (!in->op || strcmp(in->op->name, "shoal.cast") != 0) continue;
      const shoal_dtype_t from = c->buffers[in->inputs[0]].type.dtype,
                          to = c->buffers[in->outputs[0]].type.dtype;
      const double scale = in->attrs[1].f;
      there += to == SHOAL_F16 && scale == 1024;
      back += from == SHOAL_F16 && scale == 1.0 / 1024;
      plain += scale == 1;
      if (scale == 1) assert_true(from != SHOAL_F16 && to != SHOAL_F16);
    }
  assert_int_equal(there, 12);
  assert_int_equal(back, 12);
  assert_true(plain > 20);
  shoal_program_free(program);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_casts),      cmocka_unit_test(test_several_steps),
      cmocka_unit_test(test_each),       cmocka_unit_test(test_wider),
      cmocka_unit_test(test_buckets),    cmocka_unit_test(test_order),
      cmocka_unit_test(test_same_bits),  cmocka_unit_test(test_scale),
      cmocka_unit_test(test_scale_attrs)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

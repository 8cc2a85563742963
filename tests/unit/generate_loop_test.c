// Generation with kept keys and values gives the tokens that it gives without: each token is what
// the whole text so far, read anew, would be continued with. On one rank and on several. Where an
// encoder reads the prompt, the same of the answer.
// links: generate zoo launch
#include "run_support.h"
#include "shoal/generate.h"
#include "shoal/zoo.h"

enum { PROMPTS = 5, MOST = 64 };

static const int32_t ids[PROMPTS][6] = {{1, 2, 3}, {4}, {5, 6, 7, 8, 9, 10}, {3, 3}, {0, 9, 1, 2}};
static const shoal_tokens_t prompts[PROMPTS] = {
    {ids[0], 3}, {ids[1], 1}, {ids[2], 6}, {ids[3], 2}, {ids[4], 4}};

typedef struct text {
  int64_t count;
  int32_t ids[MOST];
} text_t;

typedef struct job {
  const char *model, *settings, *strategy;
  int64_t rows;
  shoal_generate_options_t options;
  bool anew;      // every token from a prefill of the whole text
  bool answers;   // or, if it is an answer, from an evaluation of it
  double larger;  // factor of weights; 0: 20
  text_t texts[PROMPTS];
} job_t;

// Weights as they begin are so small that tokens hardly see each other: makes them larger.
static shoal_status_t enlarge(shoal_session_t *session, double factor) {
  static _Thread_local double data[1 << 16];
  const shoal_program_t *program = shoal_session_program(session);
  for (int64_t i = 0; i < program->state_count; ++i) {
    const shoal_program_state_t *state = &program->states[i];
    const int64_t count = shoal_shape_count(&state->type.shape);
    if (!state->saved || state->type.shape.rank < 2) continue;
    EXPECT(state->type.dtype == SHOAL_F64 && count <= 1 << 16, "%s is too large", state->name);
    const size_t bytes = (size_t)count * sizeof *data;
    SHOAL_RETURN_IF_ERROR(shoal_session_get(session, state->name, data, bytes));
    for (int64_t e = 0; e < count; ++e) data[e] *= factor;
    SHOAL_RETURN_IF_ERROR(shoal_session_set(session, state->name, data, bytes));
  }
  return NULL;
}

static shoal_status_t open_session(const job_t *job, shoal_world_t *world, shoal_zoo_t **out_zoo,
                                   shoal_model_t **out_model, shoal_session_t **out_session) {
  SHOAL_RETURN_IF_ERROR(
      shoal_zoo_create(job->model, &(shoal_zoo_options_t){.settings = job->settings}, out_zoo));
  SHOAL_RETURN_IF_ERROR(shoal_model_create(&(shoal_model_options_t){.seed = 11}, out_model));
  shoal_zoo_build(*out_zoo, shoal_model_graph(*out_model, "prefill"), "prefill", job->rows);
  shoal_zoo_build(*out_zoo, shoal_model_graph(*out_model, "decode"), "decode", job->rows);
  if (job->answers && job->anew)
    shoal_zoo_build(*out_zoo, shoal_model_graph(*out_model, "eval"), "eval", job->rows);
  SHOAL_RETURN_IF_ERROR(shoal_parallelize(
      *out_model, &(shoal_parallelize_options_t){.world = world, .strategy = job->strategy},
      out_session));
  return enlarge(*out_session, job->larger > 0 ? job->larger : 20);
}

enum { CONTEXT = 8, TARGET = 12, WORDS = 11 };  // of the model that answers

static shoal_status_t answer_anew(shoal_session_t *session, const shoal_tokens_t *prompt,
                                  text_t *text) {
  int32_t padded[CONTEXT] = {0}, mask[CONTEXT] = {0}, labels[TARGET] = {0};
  double logits[TARGET][WORDS];
  for (int64_t i = 0; i < prompt->count; ++i) padded[i] = prompt->ids[i], mask[i] = 1;
  for (int64_t t = 0; t < TARGET; ++t) {
    SHOAL_RETURN_IF_ERROR(shoal_feed(session, "ids", padded, sizeof padded));
    SHOAL_RETURN_IF_ERROR(shoal_feed(session, "mask", mask, sizeof mask));
    SHOAL_RETURN_IF_ERROR(shoal_feed(session, "labels", labels, sizeof labels));
    SHOAL_RETURN_IF_ERROR(shoal_run(session, "eval"));
    SHOAL_RETURN_IF_ERROR(shoal_fetch(session, "logits", logits, sizeof logits));
    for (int32_t w = 1; w < WORDS; ++w) {
      if (logits[t][w] > logits[t][labels[t]]) labels[t] = w;
    }
    text->ids[t] = labels[t];
  }
  text->count = TARGET;
  return NULL;
}

static shoal_status_t generate(const job_t *job, shoal_session_t *session, shoal_arena_t *arena,
                               text_t *texts) {
  shoal_tokens_t *got;
  if (!job->anew) {
    SHOAL_RETURN_IF_ERROR(shoal_generate(session, PROMPTS, prompts, &job->options, arena, &got));
    for (int p = 0; p < PROMPTS; ++p) {
      texts[p].count = got[p].count;
      memcpy(texts[p].ids, got[p].ids, (size_t)got[p].count * sizeof(int32_t));
    }
    return NULL;
  }
  for (int p = 0; p < PROMPTS && job->answers; ++p) {
    SHOAL_RETURN_IF_ERROR(answer_anew(session, &prompts[p], &texts[p]));
  }
  if (job->answers) return NULL;
  const shoal_generate_options_t one = {.max_tokens = 1};
  for (int p = 0; p < PROMPTS; ++p) {
    int32_t all[MOST];
    int64_t at = prompts[p].count;
    memcpy(all, prompts[p].ids, (size_t)at * sizeof *all);
    for (int64_t i = 0; i < job->options.max_tokens; ++i) {
      const shoal_tokens_t whole = {all, at};
      SHOAL_RETURN_IF_ERROR(shoal_generate(session, 1, &whole, &one, arena, &got));
      texts[p].ids[i] = all[at++] = got[0].ids[0];
    }
    texts[p].count = job->options.max_tokens;
  }
  return NULL;
}

static shoal_status_t rank_body(void *self, shoal_world_t *world) {
  job_t *job = self;
  shoal_zoo_t *zoo = NULL;
  shoal_model_t *model = NULL;
  shoal_session_t *session = NULL;
  shoal_arena_t *arena = NULL;
  text_t texts[PROMPTS] = {{0}};
  shoal_status_t status = shoal_arena_create(shoal_allocator_system(), &arena);
  if (!status) status = open_session(job, world, &zoo, &model, &session);
  if (!status) status = generate(job, session, arena, texts);
  if (!status && shoal_world_rank(world) == 0) memcpy(job->texts, texts, sizeof texts);
  shoal_session_free(session);
  shoal_model_free(model);
  shoal_zoo_free(zoo);
  shoal_arena_free(arena);
  return status;
}

static void expect_equal(const job_t *a, const job_t *b) {
  for (int p = 0; p < PROMPTS; ++p) {
    assert_int_equal(a->texts[p].count, b->texts[p].count);
    for (int64_t i = 0; i < a->texts[p].count; ++i) {
      if (a->texts[p].ids[i] != b->texts[p].ids[i])
        fail_msg("%s %s: prompt %d: token %lld is %d, not %d", a->model,
                 a->strategy ? a->strategy : "", p, (long long)i, a->texts[p].ids[i],
                 b->texts[p].ids[i]);
    }
  }
}

#define GPT2 "context=16 vocabulary=11 width=12 heads=3 layers=2 dtype=f64"

static void check_family(const char *model, const char *settings, bool thorough) {
  job_t anew = {
      .model = model, .settings = settings, .rows = 1, .options.max_tokens = 10, .anew = true};
  run_ranks_ok(1, rank_body, &anew);
  static const struct {
    int32_t ranks;
    const char *strategy;
    int64_t rows;
  } cases[] = {{1, NULL, 2}, {1, NULL, 5}, {2, "data", 3}, {3, "tensor", 2}};
  for (size_t i = thorough ? 0 : 2; i < sizeof cases / sizeof *cases; ++i) {
    job_t kept = {.model = model,
                  .settings = settings,
                  .strategy = cases[i].strategy,
                  .rows = cases[i].rows,
                  .options.max_tokens = 10};
    run_ranks_ok(cases[i].ranks, rank_body, &kept);
    expect_equal(&kept, &anew);
  }
  if (!thorough) return;
  // What is drawn by chance does not depend on ranks, rows or neighbours either.
  const shoal_generate_options_t chance = {
      .max_tokens = 9, .temperature = 1.5, .top_k = 8, .top_p = 0.9, .repetition = 1.1, .seed = 3};
  job_t alone = {.model = model, .settings = settings, .rows = 1, .options = chance};
  job_t many = {
      .model = model, .settings = settings, .strategy = "data", .rows = 4, .options = chance};
  run_ranks_ok(1, rank_body, &alone);
  run_ranks_ok(2, rank_body, &many);
  expect_equal(&many, &alone);
}

static void test_gpt2(void **state) {
  (void)state;
  check_family("gpt2", GPT2, true);
}

static void test_llama(void **state) {
  (void)state;
  check_family("llama", "context=16 vocabulary=11 width=12 heads=6 key_heads=3 hidden=10 dtype=f64",
               false);
}

static void test_experts(void **state) {
  (void)state;
  check_family("moe-gpt", "context=16 vocabulary=11 width=12 heads=3 hidden=10 experts=3 dtype=f64",
               false);
}

// Until positions are used up: more tokens than the prompt has positions.
static void test_answers(void **state) {
  (void)state;
  const char *settings =
      "context=8 target=12 vocabulary=11 width=12 heads=3 hidden=20 buckets=8 distance=6 "
      "gated=true tied=false padded=true dtype=f64";
  job_t anew = {.model = "t5", .settings = settings, .rows = 1, .larger = 3};
  anew.anew = anew.answers = true;
  run_ranks_ok(1, rank_body, &anew);
  assert_memory_not_equal(anew.texts[0].ids, anew.texts[2].ids, 6 * sizeof(int32_t));
  static const char *const strategies[] = {"single", "data", "tensor"};
  for (int i = 0; i < 3; ++i) {
    job_t kept = {.model = "t5", .settings = settings, .strategy = strategies[i], .rows = 3};
    kept.larger = anew.larger;
    run_ranks_ok(i + 1 < 3 ? i + 1 : 3, rank_body, &kept);
    expect_equal(&kept, &anew);
  }
}

// ---- ends -----------------------------------------------------------------------------

typedef struct listener {
  int64_t calls;
  int64_t ends_at;  // of prompt 1
} listener_t;

static bool listen(void *self, int64_t prompt, int64_t index, int32_t token) {
  listener_t *listener = self;
  ++listener->calls;
  return token >= 0 && (prompt != 1 || index < listener->ends_at);
}

static void test_ends(void **state) {
  (void)state;
  job_t all = {.model = "gpt2", .settings = GPT2, .rows = 3};  // until positions are used up
  run_ranks_ok(1, rank_body, &all);
  for (int p = 0; p < PROMPTS; ++p) assert_int_equal(all.texts[p].count, 16 - prompts[p].count);
  const int32_t stop[] = {all.texts[2].ids[4]};
  listener_t listener = {.ends_at = 2};
  job_t some = {
      .model = "gpt2",
      .settings = GPT2,
      .rows = 3,
      .options = {.stop_count = 1, .stops = stop, .token = listen, .token_self = &listener}};
  run_ranks_ok(1, rank_body, &some);
  int64_t total = 0;
  for (int p = 0; p < PROMPTS; ++p) {
    int64_t end = 0;  // the first stop, or the listener's no
    while (end < all.texts[p].count - 1 && all.texts[p].ids[end] != stop[0] &&
           !(p == 1 && end == 2))
      ++end;
    assert_int_equal(some.texts[p].count, end + 1);
    assert_memory_equal(some.texts[p].ids, all.texts[p].ids, (size_t)(end + 1) * sizeof(int32_t));
    total += end + 1;
  }
  assert_int_equal(listener.calls, total);
}

static shoal_status_t refuse_body(void *self, shoal_world_t *world) {
  (void)self;
  const job_t job = {.model = "gpt2", .settings = GPT2, .rows = 2};
  shoal_zoo_t *zoo = NULL;
  shoal_model_t *model = NULL;
  shoal_session_t *session = NULL;
  shoal_arena_t *arena = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_arena_create(shoal_allocator_system(), &arena));
  shoal_status_t status = open_session(&job, world, &zoo, &model, &session);
  static const int32_t long_ids[16] = {0}, wrong[] = {1, 11};
  static const struct {
    shoal_tokens_t prompt;
    const char *says;
  } cases[] = {{{long_ids, 16}, "has 16 tokens; from 1 up to 15"},
               {{long_ids, 0}, "has 0 tokens"},
               {{wrong, 2}, "token 11; the model knows 11"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases && !status; ++i) {
    shoal_tokens_t *texts;
    shoal_status_t refused = shoal_generate(session, 1, &cases[i].prompt, NULL, arena, &texts);
    if (!refused || !strstr(shoal_status_message(refused), cases[i].says))
      status = SHOAL_ERROR(MISMATCH, "case %d: %s", (int)i, shoal_status_message(refused));
    shoal_status_free(refused);
  }
  shoal_session_free(session);
  shoal_model_free(model);
  shoal_zoo_free(zoo);
  shoal_arena_free(arena);
  return status;
}

static void test_refusals(void **state) {
  (void)state;
  run_ranks_ok(2, refuse_body, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gpt2),    cmocka_unit_test(test_llama), cmocka_unit_test(test_experts),
      cmocka_unit_test(test_answers), cmocka_unit_test(test_ends),  cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

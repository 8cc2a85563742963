// Generation with a cache of keys and values: what prefill and decode say of the next token is what
// the whole text says, for every decoder, with rows of different lengths. An answer to a text that
// an encoder reads is generated in generate_loop_test.
#include <stdlib.h>

#include "graph_support.h"
#include "shoal/zoo.h"

enum { ROWS = 3, PROMPT = 3 };

static void feed(shoal_interpreter_t *in, const char *name, const int32_t *data, int64_t count) {
  assert_ok(shoal_interpreter_feed(in, name, data, (size_t)count * sizeof *data));
}

// Logits [ROWS, V] of a graph against those of the eval graph [ROWS, context, V] at `at[row]`.
static void compare(shoal_interpreter_t *in, const double *all, int64_t context,
                    const int32_t *at) {
  shoal_tensor_t logits;
  assert_ok(shoal_interpreter_output(in, "logits", &logits));
  assert_int_equal(logits.shape.rank, 2);
  const int64_t V = logits.shape.dims[1];
  for (int64_t r = 0; r < ROWS; ++r) {
    for (int64_t v = 0; v < V; ++v) {
      const double whole = all[(r * context + at[r]) * V + v];
      if (!(fabs(element(logits, r * V + v) - whole) < 1e-12))
        fail_msg("row %d position %d: %.15g, whole %.15g", (int)r, (int)at[r],
                 element(logits, r * V + v), whole);
    }
  }
}

static void check_family(const char *name, const char *settings) {
  shoal_zoo_t *zoo;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  char tiny[64], words[128];
  snprintf(tiny, sizeof tiny, "%s-tiny", name);
  snprintf(words, sizeof words, "dtype=f64 %s", settings);
  assert_ok(shoal_zoo_create(tiny, &(shoal_zoo_options_t){.settings = words}, &zoo));
  const int64_t context = atoll(shoal_zoo_setting(zoo, "context", &arena));
  const int64_t vocabulary = atoll(shoal_zoo_setting(zoo, "vocabulary", &arena));
  shoal_model_t *model = new_model(11);
  shoal_zoo_build(zoo, shoal_model_graph(model, "eval"), "eval", ROWS);
  shoal_zoo_build_tokens(zoo, shoal_model_graph(model, "prefill"), "prefill", ROWS, PROMPT);
  shoal_zoo_build(zoo, shoal_model_graph(model, "decode"), "decode", ROWS);
  assert_ok(shoal_model_verify(model));
  shoal_interpreter_t *in;
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  assert_ok(shoal_interpreter_run(in, "init"));
  int32_t ids[ROWS * 64], labels[ROWS * 64] = {0};
  assert_true(context <= 64 && context > PROMPT);
  for (int64_t i = 0; i < ROWS * context; ++i) ids[i] = (int32_t)((i * i + 3 * i) % vocabulary);
  feed(in, "ids", ids, ROWS * context);
  feed(in, "labels", labels, ROWS * context);
  assert_ok(shoal_interpreter_run(in, "eval"));
  shoal_tensor_t logits;
  assert_ok(shoal_interpreter_output(in, "logits", &logits));
  const int64_t count = shoal_shape_count(&logits.shape);
  double *all = SHOAL_NEW(&arena, double, count);
  for (int64_t i = 0; i < count; ++i) all[i] = element(logits, i);
  // Rows of 3, 1 and 2 tokens; what pads them is not looked at.
  const int32_t lengths[ROWS] = {3, 1, 2};
  int32_t prompt[ROWS * PROMPT], at[ROWS];
  for (int r = 0; r < ROWS; ++r) {
    for (int t = 0; t < PROMPT; ++t)
      prompt[r * PROMPT + t] = t < lengths[r] ? ids[r * context + t] : (int32_t)(vocabulary - 1);
    at[r] = lengths[r] - 1;
  }
  feed(in, "ids", prompt, ROWS * PROMPT);
  feed(in, "lengths", lengths, ROWS);
  assert_ok(shoal_interpreter_run(in, "prefill"));
  compare(in, all, context, at);
  for (int64_t step = 0; step < context - PROMPT; ++step) {
    int32_t next[ROWS];
    for (int r = 0; r < ROWS; ++r) next[r] = ids[r * context + ++at[r]];
    feed(in, "ids", next, ROWS);
    feed(in, "positions", at, ROWS);
    assert_ok(shoal_interpreter_run(in, "decode"));
    compare(in, all, context, at);
  }
  shoal_interpreter_free(in);
  shoal_model_free(model);
  shoal_zoo_free(zoo);
  shoal_arena_deinit(&arena);
}

static void decoding_is_reading(void **state) {
  (void)state;
  int64_t count, decoders = 0;
  const shoal_zoo_family_t *const *families = shoal_zoo_families(&count);
  for (int64_t f = 0; f < count; ++f) {
    if (!(families[f]->phases >> SHOAL_ZOO_DECODE & 1)) continue;
    if (strcmp(families[f]->name, "t5") == 0) continue;
    check_family(families[f]->name, "");
    ++decoders;
  }
  assert_true(decoders > 0);
  check_family("llama", "window=2 head_size=4 rotary_factor=8 rotary_original=20");
}

static void more_tokens_than_context(void **state) {
  (void)state;
  static const char *const models[][2] = {
      {"gpt2-tiny", "prefill"}, {"t5-tiny", "prefill"}, {"t5-tiny", "eval"}, {"bert-tiny", "eval"}};
  for (size_t i = 0; i < sizeof models / sizeof *models; ++i) {
    shoal_zoo_t *zoo;
    assert_ok(shoal_zoo_create(models[i][0], NULL, &zoo));
    shoal_model_t *model = new_model(1);
    const char *phase = models[i][1];
    shoal_zoo_build_tokens(zoo, shoal_model_graph(model, phase), phase, 1, 6);
    assert_error(INVALID_ARGUMENT, "6 tokens in a context of 5", shoal_model_status(model));
    shoal_model_free(model);
    shoal_zoo_free(zoo);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decoding_is_reading),
      cmocka_unit_test(more_tokens_than_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Tokens that are hidden: how many, what becomes of them, in each step others; padding stays, a row
// has at least one; what is refused.
#include "graph_support.h"
#include "shoal/nn.h"
#include "shoal/ops.h"

enum { ROWS = 40, TOKENS = 100, ALL = ROWS * TOKENS, WORDS = 50, MASK = 7, IGNORED = -100 };

typedef struct masked {
  int32_t ids[ALL], labels[ALL];
} masked_t;

// Ids are never the mask, so that it can be told.
static int32_t id_of(int64_t i) {
  const int32_t id = (int32_t)((i * i + 5 * i + 3) % (WORDS - 1));
  return id + (id >= MASK);
}

static void read_ints(shoal_interpreter_t *in, const char *name, int32_t *out) {
  shoal_tensor_t tensor;
  assert_ok(shoal_interpreter_output(in, name, &tensor));
  const int64_t count = shoal_shape_count(&tensor.shape);
  for (int64_t i = 0; i < count; ++i) out[i] = (int32_t)element(tensor, i);
}

// Runs twice; ids [rows, TOKENS], the last `padding` tokens of a row are padding.
static void run(int64_t rows, int64_t padding, shoal_nn_mask_options_t options, masked_t out[2]) {
  shoal_model_t *model = new_model(5);
  shoal_graph_t *g = shoal_model_graph(model, "main");
  const shoal_shape_t shape = SHOAL_SHAPE(rows, TOKENS);
  shoal_value_t ids = shoal_input(g, "ids", SHOAL_I32, shape), labels;
  if (padding) options.seen = shoal_cast(g, shoal_input(g, "seen", SHOAL_I32, shape), SHOAL_BOOL);
  shoal_nn_mask_tokens(g, "mask", ids, WORDS, &options, &ids, &labels);
  shoal_output(g, "ids", ids);
  shoal_output(g, "labels", labels);
  assert_ok(shoal_model_verify(model));
  shoal_interpreter_t *in;
  assert_ok(shoal_interpreter_create(model, NULL, &in));
  assert_ok(shoal_interpreter_run(in, "init"));
  int32_t data[ALL], seen[ALL];
  for (int64_t i = 0; i < rows * TOKENS; ++i) {
    data[i] = id_of(i);
    seen[i] = i % TOKENS < TOKENS - padding;
  }
  const size_t bytes = (size_t)(rows * TOKENS) * sizeof *data;
  assert_ok(shoal_interpreter_feed(in, "ids", data, bytes));
  if (padding) assert_ok(shoal_interpreter_feed(in, "seen", seen, bytes));
  for (int k = 0; k < 2; ++k) {
    assert_ok(shoal_interpreter_run(in, "main"));
    read_ints(in, "ids", out[k].ids);
    read_ints(in, "labels", out[k].labels);
  }
  shoal_interpreter_free(in);
  shoal_model_free(model);
}

static void near(double value, double wanted, double within, const char *what) {
  if (!(fabs(value - wanted) < within)) fail_msg("%s: %g, not %g", what, value, wanted);
}

static void shares(void **state) {
  (void)state;
  masked_t out[2];
  run(ROWS, 0, (shoal_nn_mask_options_t){.mask_id = MASK}, out);
  int picked = 0, hidden = 0, kept = 0, again = 0, random = 0;
  double sum = 0;
  for (int i = 0; i < ALL; ++i) {
    const int32_t id = out[0].ids[i], label = out[0].labels[i];
    assert_true(id >= 0 && id < WORDS);
    again += label != IGNORED && out[1].labels[i] != IGNORED;
    if (label == IGNORED) {
      assert_int_equal(id, id_of(i));
      continue;
    }
    assert_int_equal(label, id_of(i));
    ++picked;
    if (id == MASK) {
      ++hidden;
    } else if (id == label) {
      ++kept;
    } else {
      ++random;
      sum += id;
    }
  }
  near(picked / (double)ALL, 0.15, 0.02, "picked");
  near(hidden / (double)picked, 0.8, 0.06, "hidden");
  near(kept / (double)picked, 0.1, 0.05, "kept");
  near(random / (double)picked, 0.1, 0.05, "replaced");
  near(sum / random, (WORDS - 1) / 2.0, 8, "mean of the tokens put in");
  near(again / (double)picked, 0.15, 0.06, "picked in the next step too");
}

static void options(void **state) {
  (void)state;
  masked_t out[2];
  // The same tokens in every step, the last id as the mask.
  run(ROWS, 0, (shoal_nn_mask_options_t){.same = true, .share = 0.4}, out);
  int picked = 0, hidden = 0;
  for (int i = 0; i < ALL; ++i) {
    assert_int_equal(out[0].ids[i], out[1].ids[i]);
    assert_int_equal(out[0].labels[i], out[1].labels[i]);
    picked += out[0].labels[i] != IGNORED;
    hidden += out[0].labels[i] != IGNORED && out[0].ids[i] == WORDS - 1;
  }
  near(picked / (double)ALL, 0.4, 0.03, "picked");
  near(hidden / (double)picked, 0.8, 0.05, "hidden");
  // A row of three tokens and padding has one to guess, and none of the padding.
  run(ROWS, TOKENS - 3, (shoal_nn_mask_options_t){.share = 1e-6}, out);
  for (int r = 0; r < ROWS; ++r) {
    int here = 0;
    for (int t = 0; t < TOKENS; ++t) {
      const bool is_picked = out[0].labels[r * TOKENS + t] != IGNORED;
      assert_false(is_picked && t >= 3);
      here += is_picked;
    }
    assert_int_equal(here, 1);
  }
}

static void refuse(shoal_dtype_t dtype, double share, int64_t mask_id, const char *message) {
  shoal_model_t *model = new_model(1);
  shoal_graph_t *g = shoal_model_graph(model, "main");
  shoal_value_t ids = shoal_input(g, "ids", dtype, SHOAL_SHAPE(2, 3)), labels;
  const shoal_nn_mask_options_t o = {.share = share, .mask_id = mask_id};
  shoal_nn_mask_tokens(g, "mask", ids, WORDS, &o, &ids, &labels);
  assert_error(INVALID_ARGUMENT, message, shoal_model_status(model));
  shoal_model_free(model);
}

static void refusals(void **state) {
  (void)state;
  refuse(SHOAL_F32, 0, 0, "ids must be i32 or i64");
  refuse(SHOAL_I32, 1.5, 0, "share is 1.5");
  refuse(SHOAL_I32, 0, WORDS, "mask_id is 50, and the vocabulary has 50");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(shares), cmocka_unit_test(options),
                                     cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

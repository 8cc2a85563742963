// Zoo models: they verify, print and parse back, have the names other layers rely on, their whole
// gradient agrees with finite differences, they learn, and no failing allocation harms.
#include "base/hash.h"
#include "base/philox.h"
#include "graph_support.h"
#include "unit/failing.h"
#include "unit/random.h"
#include "unit/zoo_sizes.h"

enum { MLP, MLP_SGD, GPT, GPT_TIED, GPT_DROPOUT, CNN, KINDS };

static void build(shoal_model_t *model, int kind, shoal_dtype_t dtype) {
  switch (kind) {
    case MLP:
    case MLP_SGD:
      add_mlp(model, &(mlp_sizes_t){.batch = 6,
                                    .in_features = 5,
                                    .hidden = 7,
                                    .classes = 3,
                                    .layers = 3,
                                    .dtype = dtype,
                                    .sgd = kind == MLP_SGD,
                                    .lr = kind == MLP_SGD ? 1.0 : 0.02});
      break;
    case CNN:
      add_cnn(model,
              &(cnn_sizes_t){.batch = 3, .channels = 2, .size = 8, .dtype = dtype, .lr = 0.02});
      break;
    default:
      add_gpt(model, &(gpt_sizes_t){.batch = 2,
                                    .context = 5,
                                    .vocabulary = 11,
                                    .width = 12,
                                    .heads = 3,
                                    .layers = 2,
                                    .dtype = dtype,
                                    .dropout = kind == GPT_DROPOUT ? 0.2 : 0,
                                    .lr = 0.01,
                                    .tied = kind == GPT_TIED});
  }
}

// Deterministic data: floats in (-1, 1), labels and ids below the limit.
static shoal_status_t feed(shoal_interpreter_t *in, const shoal_graph_t *g, int64_t limit) {
  static _Alignas(64) char data[1 << 16];
  for (int64_t i = 0; i < g->inputs.count; ++i) {
    const shoal_type_t *type = &g->values.items[g->inputs.items[i].value].type;
    int64_t count = shoal_shape_count(&type->shape);
    for (int64_t k = 0; k < count; ++k) {
      uint32_t word = shoal_philox_word(4, (uint64_t)g->inputs.items[i].name[0], 0, (uint64_t)k);
      if (shoal_dtype_is_float(type->dtype)) {
        shoal_dtype_store(type->dtype, data, k, 2 * shoal_philox_uniform(word) - 1);
      } else {
        shoal_dtype_store_int(type->dtype, data, k, word % limit);
      }
    }
    size_t size = (size_t)count * shoal_dtype_size(type->dtype);
    SHOAL_RETURN_IF_ERROR(shoal_interpreter_feed(in, g->inputs.items[i].name, data, size));
  }
  return NULL;
}

static void round_trips(void **state) {
  (void)state;
  static const shoal_dtype_t dtypes[] = {SHOAL_F64, SHOAL_F32, SHOAL_BF16};
  for (int kind = 0; kind < KINDS; ++kind) {
    for (int d = 0; d < 3; ++d) {
      shoal_arena_t arena;
      shoal_arena_init(shoal_allocator_system(), &arena);
      shoal_model_t *model = new_model(7), *parsed;
      build(model, kind, dtypes[d]);
      assert_ok(shoal_model_verify(model));
      const char *text, *again;
      assert_ok(shoal_model_print(model, &arena, &text));
      assert_ok(shoal_model_parse("zoo", text, NULL, &parsed));
      assert_ok(shoal_model_print(parsed, &arena, &again));
      assert_string_equal(text, again);
      assert_true(shoal_model_hash(model) == shoal_model_hash(parsed));
      shoal_model_free(parsed);
      shoal_model_free(model);
      shoal_arena_deinit(&arena);
    }
  }
}

// Texts with a few characters changed: shape functions of all these ops see numbers nobody meant.
static void changed_texts(void **state) {
  (void)state;
  static const int kinds[] = {MLP, GPT_DROPOUT, CNN};
  static const char characters[] = "0123456789--99]}\"x";
  int accepted = 0;
  for (int kind = 0; kind < 3; ++kind) {
    shoal_arena_t arena;
    shoal_arena_init(shoal_allocator_system(), &arena);
    shoal_model_t *model = new_model(7);
    build(model, kinds[kind], SHOAL_F32);
    const char *text;
    assert_ok(shoal_model_print(model, &arena, &text));
    shoal_model_free(model);
    size_t length = strlen(text), skip = (size_t)(strstr(text, "graph train") - text);
    char *copy = shoal_arena_strdup(&arena, text);
    for (uint64_t round = 0; round < 1500; ++round) {
      random_t r = {.seed = 5 + (uint64_t)kind, .round = round};
      memcpy(copy, text, length + 1);
      size_t at = skip + draw(&r, length - skip);
      while (at + 4 < length && !(copy[at] >= '0' && copy[at] <= '9')) ++at;
      for (uint32_t edits = 1 + draw(&r, 4); edits > 0; --edits) {
        size_t offset = draw(&r, 4);
        copy[at + offset] = characters[draw(&r, sizeof characters - 1)];
      }
      shoal_model_t *parsed;
      shoal_status_t status = shoal_model_parse("changed", copy, NULL, &parsed);
      accepted += !status;
      if (!status) assert_ok(shoal_model_verify(parsed));
      shoal_model_free(parsed);
      shoal_status_free(status);
    }
    shoal_arena_deinit(&arena);
  }
  print_message("%d of 4500 changed texts were still models\n", accepted);
}

static void has_states(shoal_model_t *model, const char *const *names) {
  for (; *names; ++names) {
    if (shoal_model_find_state(model, *names) < 0) fail_msg("no state '%s'", *names);
  }
}

static void names(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  build(model, GPT, SHOAL_F32);
  has_states(model, (const char *const[]){"wte/table", "wpe/table", "block0/ln_1/gamma",
                                          "block0/attn/qkv/weight", "block0/attn/qkv/bias",
                                          "block1/attn/proj/weight", "block0/mlp/fc1/weight",
                                          "block1/mlp/fc2/bias", "ln_f/beta", "head/weight", "lr",
                                          "step", "block0/mlp/fc1/weight#adamw.v", NULL});
  assert_int_equal(shoal_model_find_state(model, "head/bias"), -1);
  const shoal_graph_t *g = shoal_model_find_graph(model, "train");
  bool found = false;
  for (int64_t i = 0; i < g->nodes.count; ++i) {
    found |= strcmp(g->nodes.items[i].name, "grad/block1/attn/attention/attention_grad") == 0;
  }
  assert_true(found);
  // the gradient of the data is nobody's: no node computes it
  for (int64_t i = 0; i < g->values.count; ++i) {
    assert_null(strstr(g->values.items[i].name, "grad/ids"));
  }
  shoal_model_free(model);
  model = new_model(0);
  build(model, GPT_TIED, SHOAL_F32);
  assert_int_equal(shoal_model_find_state(model, "head/weight"), -1);
  assert_ok(shoal_model_status(model));
  shoal_model_free(model);
  model = new_model(0);
  build(model, MLP, SHOAL_F32);
  has_states(model, (const char *const[]){"fc1/weight", "fc1/bias", "fc3/weight", "lr", NULL});
  shoal_model_free(model);
}

static double loss_of(shoal_interpreter_t *in, const char *graph) {
  shoal_tensor_t loss;
  assert_ok(shoal_interpreter_run(in, graph));
  assert_ok(shoal_interpreter_output(in, "loss", &loss));
  return element(loss, 0);
}

// d loss / d state, by the update node's gradient and by moving elements of the state.
static void whole_gradients(void **state) {
  (void)state;
  static const int kinds[] = {MLP, GPT, GPT_TIED, CNN};
  for (int k = 0; k < 4; ++k) {
    shoal_model_t *model = new_model(3);
    build(model, kinds[k], SHOAL_F64);
    const shoal_graph_t *g = shoal_model_find_graph(model, "train");
    shoal_interpreter_t *in, *moved;
    assert_ok(shoal_interpreter_create(model, NULL, &in));
    assert_ok(shoal_interpreter_create(model, NULL, &moved));
    assert_ok(shoal_interpreter_run(in, "init"));
    assert_ok(shoal_interpreter_run(moved, "init"));
    assert_ok(feed(in, g, 3));
    assert_ok(feed(moved, g, 3));
    assert_true(loss_of(in, "train") == loss_of(moved, "eval"));
    int checked = 0;
    for (int64_t n = 0; n < g->nodes.count; ++n) {
      const shoal_node_t *node = &g->nodes.items[n];
      if (strcmp(node->op->name, "shoal.adamw_update") != 0) continue;
      shoal_tensor_t gradient, parameter;
      assert_ok(shoal_interpreter_value(in, node->inputs[1], &gradient));
      assert_ok(shoal_interpreter_state(moved, g->values.items[node->inputs[0]].index, &parameter));
      int64_t count = shoal_shape_count(&gradient.shape), stride = count / 5 + 1;
      double *w = parameter.data;
      for (int64_t e = 0; e < count; e += stride) {
        double kept = w[e], h = 1e-5;
        w[e] = kept + h;
        double up = loss_of(moved, "eval");
        w[e] = kept - h;
        double difference = (up - loss_of(moved, "eval")) / (2 * h);
        w[e] = kept;
        if (!(fabs(difference - element(gradient, e)) < 1e-8)) {
          fail_msg("model %d, '%s' element %lld: gradient %.12g, difference %.12g", kinds[k],
                   node->name, (long long)e, element(gradient, e), difference);
        }
        ++checked;
      }
    }
    assert_true(checked >= 15);
    shoal_interpreter_free(in);
    shoal_interpreter_free(moved);
    shoal_model_free(model);
  }
}

static void they_learn(void **state) {
  (void)state;
  for (int kind = 0; kind < KINDS; ++kind) {
    shoal_model_t *model = new_model(5);
    build(model, kind, SHOAL_F32);
    shoal_interpreter_t *in;
    assert_ok(shoal_interpreter_create(model, NULL, &in));
    assert_ok(shoal_interpreter_run(in, "init"));
    assert_ok(feed(in, shoal_model_find_graph(model, "train"), 3));
    double first = loss_of(in, "train"), last = first;
    for (int step = 1; step < 20; ++step) last = loss_of(in, "train");
    print_message("model %d: loss %.4f -> %.4f\n", kind, first, last);
    assert_true(last < 0.9 * first);
    shoal_interpreter_free(in);
    shoal_model_free(model);
  }
}

// Dropout differs from step to step, is the same in two runs, and is absent from eval.
static void dropout_is_reproducible(void **state) {
  (void)state;
  shoal_model_t *model = new_model(5);
  build(model, GPT_DROPOUT, SHOAL_F32);
  double losses[2][2], eval[2];
  for (int run = 0; run < 2; ++run) {
    shoal_interpreter_t *in;
    shoal_tensor_t lr;
    assert_ok(shoal_interpreter_create(model, NULL, &in));
    assert_ok(shoal_interpreter_run(in, "init"));
    assert_ok(shoal_interpreter_state(in, shoal_model_find_state(model, "lr"), &lr));
    *(float *)lr.data = 0;  // nothing learnt: only the masks change
    assert_ok(feed(in, shoal_model_find_graph(model, "train"), 3));
    for (int step = 0; step < 2; ++step) {
      losses[run][step] = loss_of(in, "train");
      eval[step] = loss_of(in, "eval");
    }
    assert_true(eval[0] == eval[1]);
    shoal_interpreter_free(in);
  }
  assert_true(losses[0][0] == losses[1][0] && losses[0][1] == losses[1][1]);
  assert_true(losses[0][0] != losses[0][1] && losses[0][0] != eval[0]);
  shoal_model_free(model);
}

static int64_t key_of(const shoal_node_t *node) {
  for (int32_t i = 0; i < node->op->attr_count; ++i) {
    if (strcmp(node->op->attrs[i].name, "key") == 0) return node->attrs[i].i;
  }
  return 0;
}

// Contract 2: key = seed xor hash(name), of the node for dropout, of the state for its initial
// value.
static void random_streams(void **state) {
  (void)state;
  const uint64_t seed = 77;
  shoal_model_t *model = new_model(seed);
  build(model, GPT_DROPOUT, SHOAL_F32);
  const shoal_graph_t *g = shoal_model_find_graph(model, "train"), *init = model->graphs.items[0];
  int dropouts = 0, draws = 0;
  for (int64_t i = 0; i < g->nodes.count; ++i) {
    const shoal_node_t *node = &g->nodes.items[i];
    if (strcmp(node->op->name, "shoal.dropout") != 0 || strncmp(node->name, "grad/", 5) == 0)
      continue;
    uint64_t stream = shoal_hash_string(SHOAL_HASH_START, node->name);
    assert_true(key_of(node) == (int64_t)(seed ^ stream));
    ++dropouts;
  }
  for (int64_t i = 0; i < init->assigns.count; ++i) {
    const shoal_node_t *node =
        &init->nodes.items[init->values.items[init->assigns.items[i].value].node];
    const shoal_state_info_t *info = &model->states.items[init->assigns.items[i].state];
    if (info->options.init.kind < SHOAL_INIT_UNIFORM) continue;
    uint64_t stream = shoal_hash_string(SHOAL_HASH_START, info->name);
    assert_true(key_of(node) == (int64_t)(seed ^ stream));
    ++draws;
  }
  assert_int_equal(dropouts, 5);
  assert_int_equal(draws, 11);
  shoal_model_free(model);
}

static void bad_settings(void **state) {
  (void)state;
  shoal_model_t *model = new_model(0);
  add_gpt(model, &(gpt_sizes_t){.width = 10, .heads = 3});
  assert_error(INVALID_ARGUMENT, "heads", shoal_model_status(model));
  shoal_model_free(model);
  model = new_model(0);
  add_mlp(model, &(mlp_sizes_t){.dropout = 1.5});
  assert_error(INVALID_ARGUMENT, "dropout", shoal_model_status(model));
  shoal_model_free(model);
  static const char *const refused[] = {"batch=-4", "dtype=i32"};
  for (int i = 0; i < 2; ++i) {
    shoal_zoo_t *zoo;
    const shoal_zoo_options_t options = {.settings = refused[i]};
    assert_error(INVALID_ARGUMENT, refused[i] + 6, shoal_zoo_create("mlp", &options, &zoo));
  }
}

static shoal_status_t build_and_run(shoal_allocator_t allocator, void *context) {
  shoal_model_t *model = NULL;
  shoal_interpreter_t *in = NULL;
  shoal_status_t status = NULL;
  shoal_model_options_t options = {.allocator = allocator, .seed = 1};
  shoal_interpreter_options_t run = {.allocator = allocator};
  SHOAL_GOTO_IF_ERROR(status, done, shoal_model_create(&options, &model));
  build(model, *(const int *)context, SHOAL_F32);
  SHOAL_GOTO_IF_ERROR(status, done, shoal_model_status(model));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_interpreter_create(model, &run, &in));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_interpreter_run(in, "init"));
  SHOAL_GOTO_IF_ERROR(status, done, feed(in, shoal_model_find_graph(model, "train"), 3));
  status = shoal_interpreter_run(in, "train");
done:
  shoal_interpreter_free(in);
  shoal_model_free(model);
  return status;
}

static void every_allocation_fails(void **state) {
  (void)state;
  for (int kind = 0; kind < KINDS; ++kind) {
    check_failing_allocations(build_and_run, &kind, kind == MLP ? 0 : 60);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trips),
      cmocka_unit_test(changed_texts),
      cmocka_unit_test(names),
      cmocka_unit_test(whole_gradients),
      cmocka_unit_test(they_learn),
      cmocka_unit_test(dropout_is_reproducible),
      cmocka_unit_test(random_streams),
      cmocka_unit_test(bad_settings),
      cmocka_unit_test(every_allocation_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Keys: calls that differ in sizes only share a rule, whatever sizes happen to be equal; and for
// random calls of every op the store says what discovery finds on the call itself.
// links: rules zoo
#include <stddef.h>

#include "base/philox.h"
#include "graph/graph.h"
#include "rules/symbols.h"
#include "rules_support.h"
#include "unit/zoo_sizes.h"

// ---- random calls ------------------------------------------------------------------------------

enum { ROUNDS = UNIT_SAMPLES ? 1 : 6 };  // of each op

static uint64_t draws;

static int64_t draw(int64_t low, int64_t high) {
  uint32_t word = shoal_philox_word(UINT64_C(0x7275), 1, 1, draws++);
  return low + (int64_t)(word % (uint64_t)(high - low + 1));
}

// Some sizes equal others, as in real calls.
static int64_t draw_size(void) {
  return draw(0, 3) ? draw(2, 7) : 4;
}

// A reshape of random atoms, in random groups on both sides.
static bool draw_reshape(symbols_t *s) {
  int64_t atoms[6], count = draw(2, 5), dims[2][6];
  for (int64_t i = 0; i < count; ++i) atoms[i] = draw(2, 4);
  int32_t ranks[2] = {0, 0};
  for (int32_t side = 0; side < 2; ++side) {
    for (int64_t i = 0; i < count; ++i) {
      if (i == 0 || draw(0, 1)) dims[side][ranks[side]++] = 1;
      dims[side][ranks[side] - 1] *= atoms[i];
    }
  }
  shoal_shape_t *in = &s->tried_types[0].shape, *out = &s->tried_types[1].shape;
  *in = (shoal_shape_t){.rank = ranks[0]};
  *out = (shoal_shape_t){.rank = ranks[1]};
  for (int32_t d = 0; d < in->rank; ++d) in->dims[d] = dims[0][d];
  for (int32_t d = 0; d < out->rank; ++d) out->dims[d] = dims[1][d];
  s->tried_attrs[0].count = out->rank;
  for (int32_t d = 0; d < out->rank; ++d) s->tried_attrs[0].ints[d] = out->dims[d];
  return true;
}

// A gradient's sizes must be those of a window that moves by the op's stride, which no shape
// function says: an example too small to tell keeps its sizes.
static bool may_slide(const symbols_t *s, int32_t symbol) {
  const shoal_attr_value_t *stride = NULL;
  for (int32_t i = 0; i < s->op->attr_count; ++i) {
    if (strcmp(s->op->attrs[i].name, "stride") == 0) stride = &s->attrs[i];
  }
  bool may = true;
  for (int32_t i = 0; stride && i < s->slot_count; ++i) {
    const slot_t *slot = &s->slots[i];
    if (slot->term_count != 1 || slot->terms[0] != symbol) continue;
    may &= slot->times == 1 || slot->times == stride->ints[0] || slot->times == stride->ints[1];
  }
  return may;
}

// The example with other sizes; false if the op does not accept those drawn. *out_chance: sizes are
// equal that need not be.
static bool draw_call(bench_t *b, const shoal_call_t *example, shoal_call_t *out,
                      bool *out_chance) {
  *out_chance = false;
  symbols_t *s = SHOAL_NEW(&b->arena, symbols_t, 1);
  assert_ok(symbols_find(example, &b->arena, s));
  if (s->regroup.count) {
    draw_reshape(s);
  } else {
    for (int32_t i = 0; i < s->symbol_count; ++i) {
      s->sizes[i] = s->symbols[i].real;
      if (!s->symbols[i].slid) s->sizes[i] = draw_size();
      if (s->symbols[i].slid && may_slide(s, i)) s->sizes[i] = draw(2, 14);
      for (int32_t k = 0; k < i; ++k) *out_chance |= s->sizes[i] == s->sizes[k];
    }
    if (!symbols_accepts(s, symbols_values(s, s->sizes))) return false;
  }
  *out = (shoal_call_t){.op = example->op,
                        .input_count = example->input_count,
                        .output_count = example->output_count,
                        .inputs = s->tried_types,
                        .outputs = s->tried_types + example->input_count,
                        .attrs = s->tried_attrs};
  for (int32_t i = 0; i < s->input_count; ++i) s->tried_types[i].dtype = example->inputs[i].dtype;
  shoal_status_t status = shoal_op_infer(out, s->tried_types + example->input_count);
  bool good = !status;
  shoal_status_free(status);
  return good;
}

// Of nothing everything can be said: parts of an empty result always join to it. Of three elements
// nearly everything: what is rounded may well be a sum.
static bool is_empty(const shoal_call_t *call) {
  bool empty = false;
  int64_t largest = 0;
  for (int32_t i = 0; i < call->input_count + call->output_count; ++i) {
    int64_t count = shoal_shape_count(operand_shape(call, i));
    empty |= count == 0;
    if (count > largest) largest = count;
  }
  return empty || largest < 4;
}

static const char *call_text(bench_t *b, const shoal_call_t *call) {
  const char *text = "";
  assert_ok(probe_key(call, &b->arena, &text));
  return text;
}

static void test_random_calls(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  int64_t wrong = 0, misled = 0, calls = 0;
  for (int64_t i = 0; i < shoal_registry_count(b.registry); ++i) {
    const shoal_op_t *op = shoal_registry_op(b.registry, i);
    int64_t of_op = 0;
    for (int32_t k = 0; k < ROUNDS && op->cases && op->cases[0]; ++k) {
      int32_t count = 0;
      while (op->cases[count]) ++count;
      shoal_call_t example = bench_call(&b, op, op->cases[k % count]), call;
      bool chance;
      if (!draw_call(&b, &example, &call, &chance)) continue;
      const char *known = rule_text(&b, op, bench_rule(&b, &call));
      bench_t fresh;
      bench_init(&fresh);
      const char *found = rule_text(&b, op, bench_rule(&fresh, &call));
      const char *real = executed_rule(&b, &call);
      ++of_op;
      // Where sizes are equal by chance, executing the call itself may miss a way: it tries what
      // could follow in an order, and only so many.
      bool differs = strcmp(known, real) && !is_empty(&call);
      misled += differs && chance;
      if (strcmp(known, found) || (differs && !chance)) {
        print_error("%s\n  key      %s\n  known   %s\n  fresh   %s\n  executed%s\n",
                    call_text(&b, &call), bench_rule(&b, &call)->key, known, found, real);
        ++wrong;
      }
      bench_deinit(&fresh);
    }
    if (op->cases && of_op == 0 && !UNIT_SAMPLES) fail_msg("%s: no call was drawn", op->name);
    calls += of_op;
  }
  const int64_t ops = shoal_registry_count(b.registry);
  bench_deinit(&b);
  assert_int_equal(wrong, 0);
  assert_true(calls > ROUNDS * ops * 4 / 5 && misled * 50 < calls);
}

// ---- keys --------------------------------------------------------------------------------------

static const char *key_of(bench_t *b, const char *name, const char *text) {
  shoal_call_t call = bench_call(b, bench_op(b, name), text);
  return bench_rule(b, &call)->key;
}

static void test_sizes_do_not_matter(void **state) {
  (void)state;
  static const char *const SAME[][4] = {
      // op, and calls of one key: sizes of all orders, some equal by chance
      {"shoal.matmul", "f32[3,5], f32[5,7]", "bf16[4096,512], bf16[512,512]", "f64[2,2], f64[2,2]"},
      {"shoal.einsum", "f32[2,3,5], f32[5,7] ; equation=\"btc,cn->btn\"",
       "f32[8,1024,1024], f32[1024,4096] ; equation=\"btc,cn->btn\"",
       "f16[4,4,4], f16[4,4] ; equation=\"btc,cn->btn\""},
      {"shoal.add", "f32[8,64,32], f32[32]", "f32[32,32,32], f32[32]", "f64[2,3,5], f64[5]"},
      {"shoal.slice", "f32[8,64,96] ; start=[0,0,32], size=[8,64,32]",
       "f32[8,1024,3072] ; start=[0,0,1024], size=[8,1024,1024]",
       "f32[2,2,6] ; start=[0,0,1], size=[2,2,3]"},
      {"shoal.concat", "f32[6,3], f32[6,5] ; axis=1", "f32[16,16], f32[16,16] ; axis=1",
       "f32[4,4], f32[4,2] ; axis=1"},
      {"shoal.reshape", "f32[3,5,8] ; shape=[3,5,4,2]",
       "bf16[1536,2048,12288] ; shape=[1536,2048,96,128]", "f32[4,4,16] ; shape=[4,4,4,4]"},
      {"shoal.attention", "f32[2,3,20,16], f32[2,3,20,16], f32[2,3,20,16] ; causal=1",
       "f32[64,64,64,64], f32[64,64,64,64], f32[64,64,64,64] ; causal=1",
       "bf16[8,96,2048,128], bf16[8,96,2048,128], bf16[8,96,2048,128] ; causal=1"},
      {"shoal.embedding_grad", "i32[2,3]<9, f32[2,3,5] ; rows=9",
       "i32[8,64]<64, f32[8,64,64] ; rows=64", "i32[2,2]<2, f32[2,2,2] ; rows=2"},
      {"shoal.conv", "f32[2,3,32,28], f32[4,3,3,3] ; stride=[1,1], padding=[1,1]",
       "f32[64,64,64,64], f32[64,64,3,3] ; stride=[1,1], padding=[1,1]",
       "f32[5,3,20,30], f32[3,3,3,3] ; stride=[1,1], padding=[1,1]"},
      {"shoal.dropout", "f32[8,64], i64[]<9 ; p=0.1, key=7", "f32[3,3], i64[]<9 ; p=0.1, key=9",
       "f32[64,64], i64[]<9 ; p=0.3, key=-5"},
      {"shoal.reduce_mean", "f32[3,5] ; dims=[1]", "f32[64,64] ; dims=[1]", "f32[2,9] ; dims=[1]"},
  };
  bench_t b;
  bench_init(&b);
  for (size_t i = 0; i < sizeof SAME / sizeof *SAME; ++i) {
    const char *key = key_of(&b, SAME[i][0], SAME[i][1]);
    assert_string_equal(key, key_of(&b, SAME[i][0], SAME[i][2]));
    assert_string_equal(key, key_of(&b, SAME[i][0], SAME[i][3]));
  }
  assert_string_equal(key_of(&b, "shoal.matmul", "f32[9,9], f32[9,9]"),
                      "shoal.matmul f64[4, 5], f64[5, 7]");
  bench_deinit(&b);
}

static void test_relations_matter(void **state) {
  (void)state;
  static const char *const DIFFERENT[][3] = {
      {"shoal.add", "f32[8,64], f32[64]", "f32[8,64], f32[8,1]"},     // broadcast
      {"shoal.add", "f32[8,64], f32[8,64]", "f32[1,64], f32[1,64]"},  // nothing to cut
      {"shoal.slice", "f32[8,64] ; start=[0,8], size=[8,8]",
       "f32[8,64] ; start=[0,8], size=[8,56]"},
      {"shoal.slice", "f32[8,64] ; start=[0,0], size=[8,8]",
       "f32[8,64] ; start=[0,0], size=[8,64]"},
      {"shoal.reshape", "f32[8,64] ; shape=[512]", "f32[8,64] ; shape=[8,8,8]"},
      {"shoal.affine", "f64[5] ; scale=2, shift=0", "f64[5] ; scale=2, shift=1"},
      {"shoal.transpose", "f32[8,64] ; perm=[1,0]", "f32[8,64] ; perm=[0,1]"},
      {"shoal.cast", "f32[8] ; dtype=bf16", "f32[8] ; dtype=i64"},
      // strides that come out even, and not
      {"shoal.conv", "f32[2,3,32,32], f32[4,3,1,1] ; stride=[2,2], padding=[0,0]",
       "f32[2,3,33,33], f32[4,3,1,1] ; stride=[2,2], padding=[0,0]"},
      // kernels
      {"shoal.conv", "f32[2,3,32,32], f32[4,3,3,3] ; stride=[1,1], padding=[1,1]",
       "f32[2,3,32,32], f32[4,3,5,5] ; stride=[1,1], padding=[1,1]"},
  };
  bench_t b;
  bench_init(&b);
  for (size_t i = 0; i < sizeof DIFFERENT / sizeof *DIFFERENT; ++i) {
    const char *first = key_of(&b, DIFFERENT[i][0], DIFFERENT[i][1]);
    assert_string_not_equal(first, key_of(&b, DIFFERENT[i][0], DIFFERENT[i][2]));
  }
  bench_deinit(&b);
}

// ---- models ------------------------------------------------------------------------------------

// Asks for every rule of a gpt and returns how many keys the store knows then.
static int64_t ask_gpt(bench_t *b, const gpt_sizes_t *options) {
  shoal_model_t *model = NULL;
  assert_ok(shoal_model_create(&(shoal_model_options_t){.registry = b->registry}, &model));
  add_gpt(model, options);
  assert_ok(shoal_model_status(model));
  for (int64_t i = 0; i < model->graphs.count; ++i) {
    const shoal_graph_t *graph = model->graphs.items[i];
    for (int64_t n = 0; n < graph->nodes.count; ++n) {
      shoal_call_t call;
      assert_ok(shoal_node_call(graph, &graph->nodes.items[n], &b->arena, &call));
      bench_rule(b, &call);
    }
  }
  shoal_model_free(model);
  int64_t count = 0;
  while (shoal_rules_known(b->rules, count)) ++count;
  return count;
}

// Sizes made equal, and more layers, ask for nothing new.
static void test_models_share_keys(void **state) {
  (void)state;
  const gpt_sizes_t plain = {.batch = 24,
                             .context = 48,
                             .vocabulary = 60,
                             .width = 576,
                             .heads = 12,
                             .layers = 2,
                             .dropout = 0.1,
                             .dtype = SHOAL_F32};
  bench_t b;
  bench_init(&b);
  int64_t keys = ask_gpt(&b, &plain);
  assert_in_range(keys, 20, 60);
  gpt_sizes_t more = plain;
  more.layers = 5;
  assert_int_equal(ask_gpt(&b, &more), keys);
  more.layers = 96;
  more.batch = 1536;
  more.context = 2048;
  more.vocabulary = 50257;
  more.width = 12288;
  more.heads = 96;
  assert_int_equal(ask_gpt(&b, &more), keys);
  // Every two sizes of the model.
  size_t sizes[] = {offsetof(gpt_sizes_t, batch), offsetof(gpt_sizes_t, context),
                    offsetof(gpt_sizes_t, vocabulary), offsetof(gpt_sizes_t, width),
                    offsetof(gpt_sizes_t, heads)};
  for (int32_t i = 0; i < 5; ++i) {
    for (int32_t k = 0; k < i; ++k) {
      gpt_sizes_t equal = plain;
      int64_t *a = (int64_t *)((char *)&equal + sizes[i]),
              *c = (int64_t *)((char *)&equal + sizes[k]);
      if (i == 4 && k == 3)
        equal.heads = equal.width / equal.heads;  // as many heads as channels each
      else
        *c = *a;
      assert_int_equal(ask_gpt(&b, &equal), keys);
    }
  }
  gpt_sizes_t head = plain;  // channels of a head and all else
  head.context = head.batch = head.vocabulary = head.width / head.heads;
  assert_int_equal(ask_gpt(&b, &head), keys);
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_calls),
      cmocka_unit_test(test_sizes_do_not_matter),
      cmocka_unit_test(test_relations_matter),
      cmocka_unit_test(test_models_share_keys),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

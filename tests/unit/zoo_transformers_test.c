// What the transformer families compute, in f64, for parameters and texts made up by a formula. The
// numbers were written down when the same models agreed with Hugging Face's: logits and gradients
// to the last digits (of f32 where those compute rotary angles and RMS norms in it).
#include "graph_support.h"
#include "shoal/zoo.h"

typedef struct known {
  const char *name, *settings;
  double eval, train;  // losses
} known_t;

// Parameters are small numbers of all kinds; those of norms are near 1.
static void fill(shoal_interpreter_t *in, const shoal_model_t *model) {
  for (int64_t i = 0; i < model->states.count; ++i) {
    const shoal_state_info_t *info = &model->states.items[i];
    if (!info->options.trainable) continue;
    shoal_tensor_t tensor;
    assert_ok(shoal_interpreter_state(in, (int32_t)i, &tensor));
    const double middle = strstr(info->name, "gamma") ? 1 : 0;
    const int64_t count = shoal_shape_count(&tensor.shape);
    double phase = 0;
    for (const char *at = info->name; *at; ++at) phase = fmod(3 * phase + *at, 101);
    for (int64_t k = 0; k < count; ++k)
      ((double *)tensor.data)[k] = middle + 0.4 * sin(phase + 1.7 * (double)k);
  }
}

static void feed(shoal_interpreter_t *in, const shoal_graph_t *g) {
  for (int64_t i = 0; i < g->inputs.count; ++i) {
    const char *name = g->inputs.items[i].name;
    const shoal_type_t *type = &g->values.items[g->inputs.items[i].value].type;
    const int64_t count = shoal_shape_count(&type->shape);
    int32_t data[64];
    assert_true(count <= 64);
    for (int64_t k = 0; k < count; ++k) {
      data[k] = (int32_t)((k * k + 3 * k + name[0]) % 11);
      if (strcmp(name, "labels") == 0 && k % 4 == 3) data[k] = -100;
      if (strcmp(name, "mask") == 0) data[k] = k % 5 != 4;
      if (strcmp(name, "types") == 0) data[k] %= 2;
      if (strcmp(name, "y") == 0) data[k] %= 3;
    }
    assert_ok(shoal_interpreter_feed(in, name, data, (size_t)count * sizeof *data));
  }
}

static double loss_of(shoal_interpreter_t *in, const char *graph) {
  shoal_tensor_t loss;
  assert_ok(shoal_interpreter_run(in, graph));
  assert_ok(shoal_interpreter_output(in, "loss", &loss));
  return element(loss, 0);
}

static void known_losses(void **state) {
  (void)state;
  static const known_t known[] = {
      {"gpt2-tiny", "", 3.922632273338, 3.922632273338},
      {"gpt2-tiny", "tied=false positions=7", 1.749892230453, 1.749892230453},
      {"llama-tiny", "", 1.697716100467, 1.697716100467},
      {"llama-tiny", "tied=true head_size=4 rotary_base=100", 3.288096116425, 3.288096116425},
      {"llama-tiny", "head_size=8 window=3 rotary_factor=8 rotary_original=20", 1.760393433164,
       1.760393433164},
      {"llama-tiny", "head_size=4 rotary_factor=3", 1.857001937478, 1.857001937478},
      {"moe-gpt-tiny", "", 2.999563279611, 3.039838526163},
      {"moe-gpt-tiny", "bounded=true", 2.999563279611, 3.039838526163},  // drops none either
      {"moe-gpt-tiny", "capacity=0.5 top_k=2", 2.667209764468, 2.707867635075},
      {"bert-tiny", "masked=0 typed=true padded=true", 3.417557862613, 3.417557862613},
      {"bert-tiny", "classes=3", 1.149111388568, 1.149111388568},
      {"t5-tiny", "", 2.423752033034, 2.423752033034},
      {"t5-tiny", "gated=true tied=false padded=true", 2.339576767881, 2.339576767881},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
    char settings[128];
    snprintf(settings, sizeof settings, "dtype=f64 %s", known[i].settings);
    shoal_zoo_t *zoo;
    assert_ok(shoal_zoo_create(known[i].name, &(shoal_zoo_options_t){.settings = settings}, &zoo));
    shoal_model_t *model = new_model(1);
    shoal_zoo_add(zoo, model);
    shoal_interpreter_t *in;
    assert_ok(shoal_interpreter_create(model, NULL, &in));
    assert_ok(shoal_interpreter_run(in, "init"));
    fill(in, model);
    feed(in, shoal_model_find_graph(model, "train"));
    const double eval = loss_of(in, "eval"), train = loss_of(in, "train");
    if (!(fabs(eval - known[i].eval) < 1e-9 && fabs(train - known[i].train) < 1e-9))
      fail_msg("%s %s: losses %.12f and %.12f", known[i].name, settings, eval, train);
    shoal_interpreter_free(in);
    shoal_model_free(model);
    shoal_zoo_free(zoo);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(known_losses)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Families beside the transformers of text: their presets have as many parameters as published, and
// sizes that cannot be are refused with a remedy.
#include "graph_support.h"
#include "shoal/zoo.h"

static shoal_zoo_t *make(const char *name, const char *settings) {
  shoal_zoo_t *zoo = NULL;
  assert_ok(shoal_zoo_create(name, &(shoal_zoo_options_t){.settings = settings}, &zoo));
  return zoo;
}

// torchvision's tables; for the others, the sums of their own repositories' modules.
static const struct {
  const char *name;
  int64_t parameters;
} PUBLISHED[] = {{"resnet18", 11689512},
                 {"resnet34", 21797672},
                 {"resnet50", 25557032},
                 {"resnet101", 44549160},
                 {"resnet152", 60192808},
                 {"wide-resnet50-2", 68883240},
                 {"wide-resnet101-2", 126886696},
                 {"resnext50-32x4d", 25028904},
                 {"resnext101-32x8d", 88791336},
                 {"wrn-28-10", 36479194},
                 {"vit-b16", 86567656},
                 {"vit-b32", 88224232},
                 {"vit-l16", 304326632},
                 {"vit-l32", 306535400},
                 {"vit-h14", 632045800},
                 {"unet-31m", 31037698},
                 {"unet-17m", 17263042},
                 {"gat-cora", 92373},
                 {"dcgan", 3576704 + 2765568},
                 {"lstm-66m", 66034000},  // with both of torch's biases
                 {"dlrm-kaggle", INT64_C(33762577) * 16 + 155984 + 320001}};

static void published_counts(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof PUBLISHED / sizeof *PUBLISHED; ++i) {
    shoal_zoo_t *zoo = make(PUBLISHED[i].name, NULL);
    shoal_model_t *model = new_model(1);
    shoal_zoo_build(zoo, shoal_model_graph(model, "eval"), "eval", 1);
    assert_ok(shoal_model_status(model));
    const int64_t count = shoal_model_parameters(model);
    if (count != PUBLISHED[i].parameters)
      fail_msg("%s has %lld parameters, not %lld", PUBLISHED[i].name, (long long)count,
               (long long)PUBLISHED[i].parameters);
    shoal_model_free(model);
    shoal_zoo_free(zoo);
  }
}

static void refuse(const char *name, const char *settings, const char *message, const char *hint) {
  shoal_zoo_t *zoo = make(name, settings);
  shoal_model_t *model = new_model(1);
  shoal_zoo_build(zoo, shoal_model_graph(model, "train"), "train", 0);
  shoal_status_t status = shoal_model_status(model);
  assert_int_equal(shoal_status_code(status), SHOAL_INVALID_ARGUMENT);
  if (!strstr(shoal_status_message(status), message) || !strstr(shoal_status_hint(status), hint))
    fail_msg("'%s', hint '%s'", shoal_status_message(status), shoal_status_hint(status));
  shoal_status_free(status);
  shoal_model_free(model);
  shoal_zoo_free(zoo);
}

static void refusals(void **state) {
  (void)state;
  refuse("resnet", "layers=19", "no resnet of 19 layers", "18, 34");
  refuse("wide-resnet", "depth=12", "not 12", "10, 16");
  refuse("unet", "size=20", "20 pixels cannot be halved 4 times", "fewer levels");
  refuse("unet", "levels=40", "halved 40 times", "");
  refuse("vit", "size=30", "30 pixels", "multiple of patch");
  refuse("lstm", "context=4000", "4000 tokens", "shorter");
  refuse("dlrm", "tables=3,x", "tables", "512,256");
  refuse("dlrm", "top=3,0", "top", "512,256");
  refuse("dlrm", "tables=3,", "tables", "512,256");
  refuse("dlrm", "tables=99999999999999999999", "tables", "512,256");
  refuse("resnet", "layers=50 groups=2147483647 width=2147483647", "too many", "");
  refuse("gan", "size=24", "24 pixels", "8, 16");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(published_counts),
                                     cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

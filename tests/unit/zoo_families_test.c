// The zoo's families: names, presets and settings from words and YAML, refusals, and the graphs and
// name maps of every preset, whatever families there are.
#include "graph_support.h"
#include "shoal/zoo.h"

static shoal_zoo_t *make(const char *name, const char *settings) {
  shoal_zoo_t *zoo = NULL;
  assert_ok(shoal_zoo_create(name, &(shoal_zoo_options_t){.settings = settings}, &zoo));
  return zoo;
}

static void assert_setting(const shoal_zoo_t *zoo, const char *name, const char *value) {
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const char *text = shoal_zoo_setting(zoo, name, &arena);
  assert_non_null(text);
  assert_string_equal(text, value);
  shoal_arena_deinit(&arena);
}

static void settings_have_an_order(void **state) {
  (void)state;
  const shoal_zoo_options_t options = {.settings = "layers=5  dropout=0.25\n",
                                       .yaml = "layers: 4\nwidth: 24\ntied: no\nbatch: 9\n"};
  shoal_zoo_t *zoo;
  assert_ok(shoal_zoo_create("gpt2-124m", &options, &zoo));
  assert_setting(zoo, "layers", "5");
  assert_setting(zoo, "width", "24");
  assert_setting(zoo, "heads", "12");
  assert_setting(zoo, "vocabulary", "50257");
  assert_setting(zoo, "tied", "false");
  assert_setting(zoo, "dropout", "0.25");
  assert_setting(zoo, "batch", "9");
  assert_setting(zoo, "dtype", "f32");
  assert_int_equal(shoal_zoo_rows(zoo), 9);
  assert_string_equal(shoal_zoo_family(zoo)->name, "gpt2");
  assert_true(shoal_zoo_has(zoo, "eval"));
  assert_false(shoal_zoo_has(zoo, "sleep"));
  shoal_zoo_free(zoo);
  shoal_zoo_free(NULL);
}

// A zero that was given is noted; one that stands for what follows others is not.
static void zeros_are_noted(void **state) {
  (void)state;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_zoo_t *zoo = make("bert", "masked=0");
  const char *settings = shoal_zoo_settings(zoo, &arena);
  shoal_zoo_t *again = make("bert", settings);
  assert_setting(again, "masked", "0");
  assert_null(strstr(settings, "hidden="));
  shoal_zoo_free(zoo);
  shoal_zoo_free(again);
  shoal_arena_deinit(&arena);
}

static void refuse(shoal_code_t code, const char *name, const shoal_zoo_options_t *options,
                   const char *message, const char *hint) {
  shoal_zoo_t *zoo;
  shoal_status_t status = shoal_zoo_create(name, options, &zoo);
  assert_null(zoo);
  assert_int_equal(shoal_status_code(status), code);
  if (!strstr(shoal_status_message(status), message) || !strstr(shoal_status_hint(status), hint))
    fail_msg("'%s', hint '%s'", shoal_status_message(status), shoal_status_hint(status));
  shoal_status_free(status);
}

#define WORDS(text) (&(shoal_zoo_options_t){.settings = text})
#define YAML(text) (&(shoal_zoo_options_t){.yaml = text, .yaml_name = "m.yaml"})
static void refusals(void **state) {
  (void)state;
  refuse(SHOAL_NOT_FOUND, "gpt2-124", NULL, "no model 'gpt2-124'", "'gpt2-124m'");
  refuse(SHOAL_NOT_FOUND, "zebra", NULL, "no model", "mlp, ");
  refuse(SHOAL_INVALID_ARGUMENT, "gpt2", WORDS("layer=3"), "no setting 'layer'", "'layers'");
  refuse(SHOAL_INVALID_ARGUMENT, "mlp", WORDS("width=3"), "mlp has no setting", "hidden");
  refuse(SHOAL_INVALID_ARGUMENT, "mlp", WORDS("hidden"), "no '='", "width=64");
  refuse(SHOAL_INVALID_ARGUMENT, "mlp", WORDS("hidden=0"), "not above zero", "");
  refuse(SHOAL_INVALID_ARGUMENT, "mlp", WORDS("hidden=many"), "not a whole number", "");
  refuse(SHOAL_INVALID_ARGUMENT, "mlp", WORDS("dtype=i32"), "no float type", "bf16");
  refuse(SHOAL_INVALID_ARGUMENT, "mlp", WORDS("hidden=2147483648"), "too large", "");
  refuse(SHOAL_INVALID_ARGUMENT, "mlp", WORDS("batch=-1"), "not above zero", "");
  refuse(SHOAL_INVALID_ARGUMENT, "gpt2", YAML("width: 3\nheds: 4\n"), "m.yaml:2", "'heads'");
  refuse(SHOAL_INVALID_ARGUMENT, "gpt2", YAML("width: [3]\n"), "m.yaml:1", "");
  refuse(SHOAL_INVALID_ARGUMENT, "gpt2", YAML("- 3\n"), "m.yaml", "width: 64");
  shoal_zoo_t *zoo = make("mlp", NULL);
  shoal_model_t *model = new_model(1);
  shoal_zoo_build(zoo, shoal_model_graph(model, "decode"), "decode", 0);
  assert_error(INVALID_ARGUMENT, "phase 'decode'", shoal_model_status(model));
  shoal_model_free(model);
  shoal_zoo_free(zoo);
}

// Every trainable state has a name in the map, and the parts of it that the map names cover it.
static void check_names(const shoal_zoo_t *zoo, const shoal_model_t *model) {
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  int64_t count;
  const shoal_zoo_name_t *names;
  assert_ok(shoal_zoo_names(zoo, &arena, &count, &names));
  for (int64_t i = 0; i < model->states.count && count > 0; ++i) {
    const shoal_state_info_t *info = &model->states.items[i];
    if (!info->options.trainable) continue;
    const shoal_shape_t *shape = &info->type.shape;
    int64_t covered = 0, axis = 0;
    bool *taken = NULL;  // which of the parts along the axis have a name
    for (int64_t n = 0; n < count; ++n) {
      if (strcmp(names[n].ours, info->name) != 0 || names[n].tied) continue;
      axis = names[n].axis;
      assert_true(axis < shape->rank);
      if (!taken) taken = SHOAL_NEW(&arena, bool, shape->dims[axis]);
      const int64_t size = names[n].size ? names[n].size : shape->dims[axis];
      assert_true(names[n].from + size <= shape->dims[axis]);
      for (int64_t k = names[n].from; k < names[n].from + size; ++k) covered += !taken[k];
      for (int64_t k = names[n].from; k < names[n].from + size; ++k) taken[k] = true;
    }
    if (shape->rank > 0 && covered != shape->dims[axis])
      fail_msg("'%s' is not all in the map", info->name);
  }
  for (int64_t n = 0; n < count; ++n) {
    if (shoal_model_find_state(model, names[n].ours) < 0) fail_msg("no state '%s'", names[n].ours);
  }
  shoal_arena_deinit(&arena);
}

static void every_preset_builds(void **state) {
  (void)state;
  int64_t family_count;
  const shoal_zoo_family_t *const *families = shoal_zoo_families(&family_count);
  for (int64_t f = 0; f < family_count; ++f) {
    bool tiny = false;
    for (int64_t p = -1; p < families[f]->preset_count; ++p) {
      const shoal_zoo_preset_t *found;
      const char *name = p < 0 ? families[f]->name : families[f]->presets[p].name;
      assert_ptr_equal(shoal_zoo_find(name, &found), families[f]);
      shoal_zoo_t *zoo = make(name, NULL);
      shoal_model_t *model = new_model(1);
      shoal_zoo_build(zoo, shoal_model_graph(model, "eval"), "eval", 2);
      assert_ok(shoal_model_status(model));
      const bool is_tiny = strstr(name, "-tiny") != NULL;
      if (is_tiny) shoal_zoo_add(zoo, model = (shoal_model_free(model), new_model(1)));
      if (is_tiny) assert_ok(shoal_model_verify(model));
      check_names(zoo, model);
      tiny |= is_tiny;
      shoal_model_free(model);
      shoal_zoo_free(zoo);
    }
    if (!tiny) fail_msg("%s has no preset %s-tiny", families[f]->name, families[f]->name);
  }
}

// Elements of the trainable states of a model.
static int64_t count_parameters(const char *name) {
  shoal_zoo_t *zoo = make(name, NULL);
  shoal_model_t *model = new_model(1);
  shoal_zoo_build(zoo, shoal_model_graph(model, "eval"), "eval", 1);
  assert_ok(shoal_model_status(model));
  const int64_t count = shoal_model_parameters(model);
  shoal_model_free(model);
  shoal_zoo_free(zoo);
  return count;
}

static void published_counts(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t count;
  } published[] = {{"gpt2-124m", 124439808},      {"gpt2-355m", 354823168},
                   {"gpt2-774m", 774030080},      {"gpt2-1.5b", 1557611200},
                   {"llama-7b", 6738415616},      {"llama-13b", 13015864320},
                   {"llama-33b", 32528943616},    {"llama-65b", 65285660672},
                   {"llama2-70b", 68976648192},   {"llama3-8b", 8030261248},
                   {"llama3.1-8b", 8030261248},   {"llama3.1-70b", 70553706496},
                   {"mistral-7b", 7241732096},    {"llama3-70b", 70553706496},
                   {"llama3-405b", 405853388800}, {"tinyllama-1.1b", 1100048384},
                   {"mixtral-8x7b", 46702792704}, {"mixtral-8x22b", 140620634112},
                   {"t5-small", 60506624},        {"t5-base", 222903552},
                   {"t5-large", 737668096},       {"t5-3b", 2851598336},
                   {"t5-11b", 11307321344},       {"t5-v1.1-small", 76961152},
                   {"t5-v1.1-base", 247577856},   {"t5-v1.1-large", 783150080},
                   {"t5-v1.1-xl", 2849757184},    {"t5-v1.1-xxl", 11135332352},
                   {"bert-base", 109514298},      {"bert-large", 335174458}};
  for (size_t i = 0; i < sizeof published / sizeof *published; ++i) {
    const int64_t count = count_parameters(published[i].name);
    if (count != published[i].count)
      fail_msg("%s has %lld parameters, published are %lld", published[i].name, (long long)count,
               (long long)published[i].count);
  }
}

// Forward and backward cost 6 operations for each parameter and token, and attention a little more.
static void measures(void **state) {
  (void)state;
  static const struct {
    const char *name;
    double active, tokens;  // parameters that a token meets
  } cases[] = {{"gpt2-124m", 124439808, 1024},
               {"llama-7b", 6738415616, 2048},
               {"mixtral-8x7b", 12879925248, 4096}};
  for (int i = 0; i < 3; ++i) {
    shoal_zoo_t *zoo = make(cases[i].name, "batch=2 dtype=bf16");
    shoal_zoo_size_t size;
    assert_ok(shoal_zoo_measure(zoo, true, &size));
    assert_int_equal(size.parameter_bytes, 4 * size.parameters);
    assert_true(size.other_bytes >= 8 * size.parameters);
    assert_ok(shoal_zoo_measure(zoo, false, &size));
    const double share =
        (size.forward_flops + size.backward_flops) / (6 * cases[i].active * cases[i].tokens);
    if (!(share > 0.97 && share < 1.2)) fail_msg("%s: %g of 6 N D", cases[i].name, share);
    assert_true(size.backward_flops > 1.9 * size.forward_flops);
    assert_int_equal(size.parameter_bytes, 2 * size.parameters);
    assert_true(size.other_bytes >= 4 * size.parameters);  // two moments
    assert_true(size.other_bytes < 4 * size.parameters + 100);
    shoal_zoo_free(zoo);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(settings_have_an_order),
      cmocka_unit_test(zeros_are_noted),
      cmocka_unit_test(refusals),
      cmocka_unit_test(every_preset_builds),
      cmocka_unit_test(published_counts),
      cmocka_unit_test(measures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

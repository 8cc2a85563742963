// shoal_rulegen --source FILE: writes the rules that come with the build: those of the zoo's
// models, of the parts that composite ways of their nodes have, and of the native ops' example
// calls, discovered with the build's own kernels.
//
// It is linked with an empty table of its own in the place of the one it writes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "graph/graph.h"
#include "op/case.h"
#include "rules/rules.h"
#include "shoal/zoo.h"

const shoal_shipped_rules_t shoal_shipped_rules = {0};

typedef struct generator {
  shoal_registry_t *registry;
  shoal_rules_t *rules;
  shoal_arena_t arena;
} generator_t;

// ---- what is asked for --------------------------------------------------------------------------

static shoal_status_t ask_cases(generator_t *g) {
  for (int64_t i = 0; i < shoal_registry_count(g->registry); ++i) {
    const shoal_op_t *op = shoal_registry_op(g->registry, i);
    for (int32_t k = 0; op->cases && op->cases[k]; ++k) {
      shoal_case_t example;
      const shoal_rule_t *rule;
      SHOAL_RETURN_IF_ERROR(shoal_case_parse(op, op->cases[k], &g->arena, &example));
      shoal_call_t call = {.op = op,
                           .input_count = example.input_count,
                           .output_count = shoal_op_outputs(op, example.attrs),
                           .inputs = example.inputs,
                           .attrs = example.attrs};
      SHOAL_RETURN_IF_ERROR(shoal_rules_get(g->rules, &call, &rule));
    }
  }
  return NULL;
}

static shoal_status_t ask_model(generator_t *g, const shoal_model_t *model);

static shoal_status_t ask_parts(generator_t *g, const shoal_graph_t *graph,
                                const shoal_node_t *node) {
  int32_t *operands = SHOAL_NEW(&g->arena, int32_t, node->input_count + node->output_count);
  shoal_model_t *parts = NULL;
  if (!operands) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_node_expand(graph, node, &g->arena, operands, &parts));
  shoal_status_t status = ask_model(g, parts);
  shoal_model_free(parts);
  return status;
}

static shoal_status_t ask_model(generator_t *g, const shoal_model_t *model) {
  SHOAL_RETURN_IF_ERROR(shoal_model_status(model));
  for (int64_t i = 0; i < model->graphs.count; ++i) {
    const shoal_graph_t *graph = model->graphs.items[i];
    for (int64_t n = 0; n < graph->nodes.count; ++n) {
      shoal_call_t call;
      const shoal_rule_t *rule;
      SHOAL_RETURN_IF_ERROR(shoal_node_call(graph, &graph->nodes.items[n], &g->arena, &call));
      SHOAL_RETURN_IF_ERROR(shoal_rules_get(g->rules, &call, &rule));
      if (call.op->decompose) SHOAL_RETURN_IF_ERROR(ask_parts(g, graph, &graph->nodes.items[n]));
    }
  }
  return NULL;
}

// Bits of a variant: sizes of 1 make rules of their own, and so do an optimizer's numbers (`shoal
// check` sets eps to 1e-3 and 1), dropout and dtypes.
enum { ONE_ROW = 1, DROPOUT = 2, OTHER = 4, VARIANTS = 8 };

typedef struct family {
  const char *name, *dropout, *other, *optimizer;  // settings, and OTHER's optimizer
} family_t;

static const family_t FAMILIES[] = {{"gpt", " dropout=0.1", " tied=true", "adamw"},
                                    {"mlp", " dropout=0.1", "", "sgd"},
                                    {"cnn", " size=32", " channels=1", "adamw"}};
enum { FAMILY_COUNT = sizeof FAMILIES / sizeof *FAMILIES };

static shoal_status_t build(shoal_model_t *model, const family_t *family, int variant,
                            shoal_dtype_t dtype, double eps) {
  char settings[128];
  snprintf(settings, sizeof settings, "dtype=%s%s%s%s", shoal_dtype_name(dtype),
           variant & ONE_ROW ? " batch=1" : "", variant & DROPOUT ? family->dropout : "",
           variant & OTHER ? family->other : "");
  const shoal_recipe_t recipe = {.optimizer = variant & OTHER ? family->optimizer : "adamw",
                                 .eps = eps};
  const shoal_zoo_options_t options = {.settings = settings, .recipe = &recipe};
  shoal_zoo_t *zoo;
  SHOAL_RETURN_IF_ERROR(shoal_zoo_create(family->name, &options, &zoo));
  shoal_zoo_add(zoo, model);
  shoal_zoo_free(zoo);
  return NULL;
}

static shoal_status_t ask_zoo(generator_t *g) {
  static const shoal_dtype_t dtypes[] = {SHOAL_F32, SHOAL_F64, SHOAL_BF16, SHOAL_F16};
  static const double epsilons[] = {0, 1e-3, 1};
  const int32_t kinds = 4 * 3 * VARIANTS;
  for (int32_t i = 0; i < FAMILY_COUNT * kinds; ++i) {
    shoal_model_t *model = NULL;
    shoal_model_options_t options = {.registry = g->registry};
    SHOAL_RETURN_IF_ERROR(shoal_model_create(&options, &model));
    shoal_status_t status = build(model, &FAMILIES[i / kinds], i % VARIANTS,
                                  dtypes[i / VARIANTS % 4], epsilons[i / VARIANTS / 4 % 3]);
    if (!status) status = ask_model(g, model);
    shoal_model_free(model);
    if (status) return status;
  }
  return NULL;
}

// ---- writing ------------------------------------------------------------------------------------

static int compare(const void *a, const void *b) {
  return strcmp((*(const shoal_keyed_rule_t *const *)a)->key,
                (*(const shoal_keyed_rule_t *const *)b)->key);
}

static shoal_status_t add_rule(generator_t *g, const shoal_keyed_rule_t *rule, shoal_text_t *out) {
  const shoal_op_t *op;
  const char *text;
  SHOAL_RETURN_IF_ERROR(shoal_op_find(g->registry, rule->op, &op));
  shoal_rule_t printed = {
      .op = rule->op, .attrs = rule->attrs, .way_count = rule->way_count, .ways = rule->ways};
  SHOAL_RETURN_IF_ERROR(shoal_rule_print(op, &printed, &g->arena, &text));
  text += strlen(rule->op) + 1;
  shoal_text_add(out, "    {");
  shoal_text_add_quoted(out, rule->key);
  shoal_text_add(out, ",\n     ");
  shoal_text_add_quoted(out, *text ? text + 1 : "");
  shoal_text_add(out, "},\n");
  return NULL;
}

static shoal_status_t add_source(generator_t *g, shoal_text_t *out) {
  int64_t count = 0;
  while (shoal_rules_known(g->rules, count)) ++count;
  const shoal_keyed_rule_t **rules = SHOAL_NEW(&g->arena, const shoal_keyed_rule_t *, count);
  if (!rules) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) rules[i] = shoal_rules_known(g->rules, i);
  qsort((void *)rules, (size_t)count, sizeof *rules, compare);
  shoal_text_add(
      out,
      "// Rules that come with the build. Generated by tools/rulegen from the op records.\n"
      "#include \"rules/rules.h\"\n\n"
      "static const shoal_shipped_rule_t rules[] = {\n");
  for (int64_t i = 0; i < count; ++i) SHOAL_RETURN_IF_ERROR(add_rule(g, rules[i], out));
  shoal_text_add(out,
                 "};\n\nconst shoal_shipped_rules_t shoal_shipped_rules = {sizeof rules / sizeof "
                 "*rules, rules};\n");
  return shoal_text_status(out);
}

static shoal_status_t generate(generator_t *g, shoal_text_t *out) {
  SHOAL_RETURN_IF_ERROR(shoal_registry_create(shoal_allocator_system(), &g->registry));
  SHOAL_RETURN_IF_ERROR(shoal_rules_create(shoal_allocator_system(), &g->rules));
  SHOAL_RETURN_IF_ERROR(ask_cases(g));
  SHOAL_RETURN_IF_ERROR(ask_zoo(g));
  return add_source(g, out);
}

int main(int argc, char **argv) {
  if (argc != 3 || strcmp(argv[1], "--source") != 0) {
    fprintf(stderr, "usage: shoal_rulegen --source FILE\n");
    return 2;
  }
  generator_t g = {0};
  shoal_text_t text;
  shoal_arena_init(shoal_allocator_system(), &g.arena);
  shoal_text_init(shoal_allocator_system(), &text);
  shoal_status_t status = generate(&g, &text);
  int bad = status != NULL;
  if (bad) fprintf(stderr, "shoal_rulegen: error: %s\n", shoal_status_message(status));
  shoal_status_free(status);
  if (!bad) {
    FILE *file = fopen(argv[2], "w");
    bad = !file || fputs(shoal_text_string(&text), file) == EOF;
    if (file && fclose(file)) bad = 1;
    if (bad) fprintf(stderr, "shoal_rulegen: error: can't write %s\n", argv[2]);
  }
  shoal_text_deinit(&text);
  shoal_rules_free(g.rules);
  shoal_registry_release(g.registry);
  shoal_arena_deinit(&g.arena);
  return bad;
}

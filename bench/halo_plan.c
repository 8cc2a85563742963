// The program of a training step of convolutions over an image whose rows are cut over the ranks,
// planned and lowered, as text: what bench/halo measures. CHOICE is that of the decision `halo`:
// `auto` lets convolutions start before the rows of neighbours are there, `whole` does not.
//
//   halo_plan RANKS CHOICE LAYERS BATCH CHANNELS ROWS COLUMNS
#include <shoal/lower.h>
#include <shoal/nn.h>
#include <shoal/ops.h>
#include <shoal/planners.h>
#include <shoal/shoal.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct sizes {
  int64_t layers, batch, channels, rows, columns;
} sizes_t;

static void build(shoal_model_t *model, const sizes_t *s) {
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t h =
      shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(s->batch, s->channels, s->rows, s->columns));
  for (int64_t i = 0; i < s->layers; ++i) {
    char name[32];
    snprintf(name, sizeof name, "conv%lld", (long long)i);
    h = shoal_tanh(g, shoal_nn_conv2d(g, name, h, s->channels, 3, 1, 1));
  }
  const shoal_value_t loss = shoal_reduce_mean(g, shoal_square(g, h), SHOAL_SHAPE(0, 1, 2, 3));
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 1e-3f});
  shoal_output(g, "loss", loss);
}

static shoal_status_t print(const shoal_model_t *model, int32_t ranks, const char *choice,
                            shoal_arena_t *arena) {
  char mesh[32];
  snprintf(mesh, sizeof mesh, "space=%d", ranks);
  const shoal_intent_entry_t layout = {"x", "space:2"};
  const shoal_intent_decision_t decisions[] = {
      {.kind = "halo", .pattern = "*", .choice = choice},
      // Sums of gradients are small: one exchange for all.
      {.kind = "sync", .pattern = "*", .choice = "bucket=1M"}};
  shoal_rules_t *rules = NULL;
  shoal_plan_t *plan = NULL;
  shoal_program_t *program = NULL;
  const char *text;
  shoal_status_t status = NULL;
  SHOAL_GOTO_IF_ERROR(status, done, shoal_rules_create(shoal_allocator_system(), &rules));
  SHOAL_GOTO_IF_ERROR(status, done,
                      shoal_plan_make(model, rules,
                                      &(shoal_plan_options_t){.strategy = "explicit",
                                                              .mesh = mesh,
                                                              .world = ranks,
                                                              .layout_count = 1,
                                                              .layouts = &layout,
                                                              .decision_count = 2,
                                                              .decisions = decisions},
                                      &plan));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_lower(plan, NULL, &program));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_program_check(program, shoal_allocator_system()));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_program_print(program, arena, &text));
  fputs(text, stdout);
done:
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_rules_free(rules);
  return status;
}

int main(int argc, char **argv) {
  if (argc != 8) {
    fprintf(stderr, "usage: halo_plan RANKS CHOICE LAYERS BATCH CHANNELS ROWS COLUMNS\n");
    return 2;
  }
  const sizes_t sizes = {strtoll(argv[3], NULL, 10), strtoll(argv[4], NULL, 10),
                         strtoll(argv[5], NULL, 10), strtoll(argv[6], NULL, 10),
                         strtoll(argv[7], NULL, 10)};
  shoal_arena_t *arena = NULL;
  shoal_model_t *model = NULL;
  shoal_status_t status = NULL;
  SHOAL_GOTO_IF_ERROR(status, done, shoal_arena_create(shoal_allocator_system(), &arena));
  SHOAL_GOTO_IF_ERROR(status, done,
                      shoal_model_create(&(shoal_model_options_t){.seed = 1}, &model));
  build(model, &sizes);
  SHOAL_GOTO_IF_ERROR(status, done, shoal_model_status(model));
  SHOAL_GOTO_IF_ERROR(status, done,
                      print(model, (int32_t)strtol(argv[1], NULL, 10), argv[2], arena));
done:
  shoal_model_free(model);
  shoal_arena_free(arena);
  if (!status) return 0;
  shoal_status_print(status, stderr);
  const int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  return code;
}

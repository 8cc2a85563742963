// What bench/plan runs: plans one GPT for one mesh and prints what each pass took, as a line of
// JSON. One process per measurement, so that every pass is cold and the peak of memory is its own.
//
//   plan_passes LAYERS WIDTH HEADS CONTEXT VOCABULARY BATCH STAGES DATA TENSOR MICRO
//
// STAGES 1 is one mesh `data=D,tensor=T,micro=M`; more are as many meshes of that shape, the blocks
// dealt out to them in order.
#include <shoal/shoal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "base/arena.h"
#include "graph/graph.h"

enum { MAX_STAGES = 32 };

typedef struct job {
  int64_t layers, width, heads, context, vocabulary, batch, stages, data, tensor, micro;
} job_t;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---- the intent -------------------------------------------------------------------------

// Megatron's: columns, then rows; heads are not cut through.
static void write_layouts(const job_t *job, shoal_arena_t *arena, shoal_intent_t *intent) {
  const char *qkv =
      shoal_arena_printf(arena, "tensor:1*3/%lld", (long long)(job->width / job->heads));
  const char *bias =
      shoal_arena_printf(arena, "tensor:0*3/%lld", (long long)(job->width / job->heads));
  const char *rows =
      shoal_arena_printf(arena, "tensor:0/%lld", (long long)(job->width / job->heads));
  const char *batch = job->micro > 1 ? "micro:0,data:0" : "data:0";
  const shoal_intent_entry_t entries[] = {
      {"ids", batch},
      {"labels", batch},
      {"block*/attn/qkv/weight", qkv},
      {"block*/attn/qkv/bias", bias},
      {"block*/attn/proj/weight", rows},
      {"block*/mlp/fc1/weight", "tensor:1"},
      {"block*/mlp/fc1/bias", "tensor:0"},
      {"block*/mlp/fc2/weight", "tensor:0"},
      {"head/weight", "tensor:1"},
  };
  intent->layout_count = sizeof entries / sizeof *entries;
  intent->layouts = shoal_arena_copy(arena, entries, (size_t)intent->layout_count, sizeof *entries);
}

static void write_stages(const job_t *job, shoal_arena_t *arena, shoal_intent_t *intent) {
  const char **meshes = SHOAL_NEW(arena, const char *, job->stages);
  SHOAL_VEC(shoal_intent_entry_t) stages = {0};
  const int64_t each = job->data * job->tensor;
  for (int64_t s = 0; s < job->stages; ++s) {
    const char *axes =
        shoal_arena_printf(arena, "data=%lld,tensor=%lld,micro=%lld", (long long)job->data,
                           (long long)job->tensor, (long long)job->micro);
    meshes[s] = job->stages == 1
                    ? axes
                    : shoal_arena_printf(arena, "s%lld!%s@%lld-%lld", (long long)s, axes,
                                         (long long)(s * each), (long long)(s * each + each - 1));
  }
  for (int64_t i = 0; i < job->layers && job->stages > 1; ++i) {
    const char *mesh =
        shoal_arena_printf(arena, "s%lld", (long long)(i * job->stages / job->layers));
    shoal_intent_entry_t entry = {shoal_arena_printf(arena, "block%lld/*", (long long)i), mesh};
    (void)SHOAL_PUSH(arena, &stages, entry);
  }
  if (job->stages > 1) {
    const char *last = shoal_arena_printf(arena, "s%lld", (long long)(job->stages - 1));
    const shoal_intent_entry_t ends[] = {{"wte/*", "s0"},
                                         {"wpe/*", "s0"},
                                         {"ln_f/*", last},
                                         {"head/*", last},
                                         {"cross_entropy*", last}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; ++i)
      (void)SHOAL_PUSH(arena, &stages, ends[i]);
  }
  intent->mesh_count = job->stages;
  intent->meshes = meshes;
  intent->stage_count = stages.count;
  intent->stages = stages.items;
}

// ---- passes -----------------------------------------------------------------------------

static shoal_status_t find_rules(const shoal_model_t *model, shoal_rules_t *rules) {
  shoal_arena_t scratch;
  shoal_arena_init(shoal_allocator_system(), &scratch);
  shoal_status_t status = NULL;
  for (int64_t g = 0; g < model->graphs.count; ++g) {
    const shoal_graph_t *graph = model->graphs.items[g];
    for (int64_t n = 0; n < graph->nodes.count && !status; ++n) {
      shoal_call_t call;
      const shoal_rule_t *rule;
      status = shoal_node_call(graph, &graph->nodes.items[n], &scratch, &call);
      if (!status) status = shoal_rules_get(rules, &call, &rule);
    }
  }
  shoal_arena_deinit(&scratch);
  return status;
}

static shoal_status_t run(const job_t *job, shoal_arena_t *arena) {
  shoal_allocator_t allocator = shoal_allocator_system();
  shoal_zoo_t *zoo = NULL;
  shoal_model_t *model = NULL;
  shoal_rules_t *rules = NULL;
  shoal_plan_t *plan = NULL;
  shoal_program_t *program = NULL;
  shoal_cluster_t *cluster = NULL;
  shoal_simulation_t *simulation = NULL;
  shoal_status_t status = NULL;
  shoal_intent_t intent = {.strategy = "explicit"};
  const int32_t world = (int32_t)(job->stages * job->data * job->tensor);
  double t[8] = {now()};
  SHOAL_GOTO_IF_ERROR(status, done, shoal_model_create(NULL, &model));
  char settings[256];
  snprintf(settings, sizeof settings,
           "batch=%lld context=%lld vocabulary=%lld width=%lld heads=%lld layers=%lld dtype=bf16",
           (long long)job->batch, (long long)job->context, (long long)job->vocabulary,
           (long long)job->width, (long long)job->heads, (long long)job->layers);
  SHOAL_GOTO_IF_ERROR(status, done,
                      shoal_zoo_create("gpt", &(shoal_zoo_options_t){.settings = settings}, &zoo));
  shoal_zoo_add(zoo, model);
  SHOAL_GOTO_IF_ERROR(status, done, shoal_model_status(model));
  write_layouts(job, arena, &intent);
  write_stages(job, arena, &intent);
  t[1] = now();
  SHOAL_GOTO_IF_ERROR(status, done, shoal_rules_create(allocator, &rules));
  SHOAL_GOTO_IF_ERROR(status, done, find_rules(model, rules));
  t[2] = now();
  SHOAL_GOTO_IF_ERROR(status, done,
                      shoal_plan_create(model, rules, &intent, world, allocator, &plan));
  t[3] = now();
  SHOAL_GOTO_IF_ERROR(status, done, shoal_lower(plan, NULL, &program));
  t[4] = now();
  SHOAL_GOTO_IF_ERROR(status, done, shoal_program_check(program, allocator));
  t[5] = now();
  char preset[32];
  snprintf(preset, sizeof preset, "a100x8:%d", (world + 7) / 8);
  SHOAL_GOTO_IF_ERROR(status, done, shoal_cluster_read(preset, allocator, &cluster));
  SHOAL_GOTO_IF_ERROR(
      status, done,
      shoal_simulate(program, &(shoal_simulate_options_t){.cluster = cluster}, &simulation));
  t[6] = now();
  int64_t instructions = 0, most = 0;
  for (int64_t c = 0; c < program->class_count; ++c) {
    int64_t of_class = 0;
    for (int64_t s = 0; s < program->classes[c].segment_count; ++s) {
      of_class += program->classes[c].segments[s].instruction_count;
    }
    instructions += of_class;
    if (program->classes[c].arena_bytes[SHOAL_MEMORY_DEVICE] > most)
      most = program->classes[c].arena_bytes[SHOAL_MEMORY_DEVICE];
  }
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  printf(
      "{\"ranks\": %d, \"classes\": %lld, \"instructions\": %lld, \"model\": %.4f, "
      "\"rules\": %.4f, \"completion\": %.4f, \"lowering\": %.4f, \"check\": %.4f, "
      "\"simulation\": %.4f, \"total\": %.4f, \"peak_mb\": %.1f, \"arena_gb\": %.2f, "
      "\"step_s\": %.4f}\n",
      world, (long long)program->class_count, (long long)instructions, t[1] - t[0], t[2] - t[1],
      t[3] - t[2], t[4] - t[3], t[5] - t[4], t[6] - t[5], t[6] - t[1],
      (double)usage.ru_maxrss / 1024, (double)most / 1e9, simulation->seconds);
done:
  shoal_simulation_free(simulation);
  shoal_cluster_free(cluster);
  shoal_program_free(program);
  shoal_plan_free(plan);
  shoal_rules_free(rules);
  shoal_model_free(model);
  shoal_zoo_free(zoo);
  return status;
}

int main(int argc, char **argv) {
  int64_t numbers[10];
  if (argc != 11) {
    fprintf(stderr,
            "usage: plan_passes LAYERS WIDTH HEADS CONTEXT VOCABULARY BATCH STAGES DATA "
            "TENSOR MICRO\n");
    return 2;
  }
  for (int i = 0; i < 10; ++i) {
    numbers[i] = strtoll(argv[i + 1], NULL, 10);
    if (numbers[i] < 1 || numbers[i] > INT32_MAX) {
      fprintf(stderr, "plan_passes: '%s' is no size\n", argv[i + 1]);
      return 2;
    }
  }
  const job_t job = {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4],
                     numbers[5], numbers[6], numbers[7], numbers[8], numbers[9]};
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_status_t status = run(&job, &arena);
  shoal_arena_deinit(&arena);
  if (!status) return 0;
  fprintf(stderr, "plan_passes: %s\n", shoal_status_message(status));
  shoal_status_free(status);
  return 1;
}

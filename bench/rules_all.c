// What bench/rules runs: finds rules by executing, as if none had come with the build, and prints
// what that took as a line of JSON. One process per measurement, so that nothing is known before.
// Times are processor times of the one thread that there is.
//
//   rules_all ops          the rules of all example calls of all native ops
//   rules_all ops NAME     those of one op
//   rules_all gpt|gpt3|mlp|mlp3|cnn|cnn3   the rules of a zoo model's nodes, small or very large
#include <shoal/shoal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/status.h"
#include "graph/graph.h"
#include "rules/rules.h"

enum { SLOWEST = 10 };

typedef struct spent {
  const char *key;
  double seconds;
} spent_t;

typedef struct bench {
  shoal_arena_t arena;
  shoal_rules_t *rules;
  int64_t known, calls, ops;
  double seconds;
  spent_t slowest[SLOWEST];  // longest first
} bench_t;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Books what a call took under the key of the last rule that it needed.
static void book(bench_t *b, double seconds) {
  const char *key = NULL;
  ++b->calls;
  b->seconds += seconds;
  for (const shoal_keyed_rule_t *rule; (rule = shoal_rules_known(b->rules, b->known)); ++b->known) {
    key = rule->key;
  }
  if (!key) return;
  int32_t at = SLOWEST;
  while (at > 0 && b->slowest[at - 1].seconds < seconds) --at;
  if (at == SLOWEST) return;
  memmove(&b->slowest[at + 1], &b->slowest[at], sizeof(spent_t) * (size_t)(SLOWEST - 1 - at));
  b->slowest[at] = (spent_t){key, seconds};
}

static shoal_status_t find_cases(bench_t *b, const char *only) {
  shoal_registry_t *registry = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_registry_create(shoal_allocator_system(), &registry));
  shoal_status_t status = NULL;
  for (int64_t i = 0; i < shoal_registry_count(registry) && !status; ++i) {
    const shoal_op_t *op = shoal_registry_op(registry, i);
    if (only && strcmp(op->name, only) != 0 && strcmp(op->name + strlen("shoal."), only) != 0)
      continue;
    ++b->ops;
    for (int32_t k = 0; op->cases && op->cases[k] && !status; ++k) {
      const shoal_rule_t *rule;
      double start = now();
      status = shoal_rules_of_case(b->rules, op, op->cases[k], &rule);
      book(b, now() - start);
    }
  }
  shoal_registry_release(registry);
  return status;
}

static shoal_status_t find_model(bench_t *b, const char *name) {
  static const char *const large[][2] = {
      {"gpt3", "batch=1536 context=2048 vocabulary=50257 width=12288 heads=96 layers=2 dtype=bf16"},
      {"mlp3", "batch=65536 dropout=0.1 dtype=f64"},
      {"cnn3", "batch=4096 size=2048 dtype=f64"}};
  const char family[] = {name[0], name[1], name[2], 0};
  shoal_zoo_options_t options = {.settings = "dtype=f64"};
  for (size_t i = 0; i < sizeof large / sizeof *large; ++i)
    if (strcmp(name, large[i][0]) == 0) options.settings = large[i][1];
  shoal_zoo_t *zoo = NULL;
  shoal_model_t *model = NULL;
  shoal_status_t status = NULL;
  SHOAL_GOTO_IF_ERROR(status, done, shoal_zoo_create(family, &options, &zoo));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_model_create(NULL, &model));
  shoal_zoo_add(zoo, model);
  status = shoal_model_status(model);
  for (int64_t g = 0; g < model->graphs.count && !status; ++g) {
    const shoal_graph_t *graph = model->graphs.items[g];
    for (int64_t n = 0; n < graph->nodes.count && !status; ++n) {
      shoal_call_t call;
      const shoal_rule_t *rule;
      status = shoal_node_call(graph, &graph->nodes.items[n], &b->arena, &call);
      if (status) break;
      double start = now();
      status = shoal_rules_get(b->rules, &call, &rule);
      book(b, now() - start);
    }
  }
done:
  shoal_model_free(model);
  shoal_zoo_free(zoo);
  return status;
}

static void print(const bench_t *b) {
  printf("{\"seconds\": %.5f, \"ops\": %lld, \"calls\": %lld, \"keys\": %lld, \"slowest\": [",
         b->seconds, (long long)b->ops, (long long)b->calls, (long long)b->known);
  for (int32_t i = 0; i < SLOWEST && b->slowest[i].key; ++i) {
    printf("%s{\"key\": \"", i ? ", " : "");
    for (const char *c = b->slowest[i].key; *c; ++c) printf(*c == '"' ? "\\\"" : "%c", *c);
    printf("\", \"seconds\": %.5f}", b->slowest[i].seconds);
  }
  printf("]}\n");
}

int main(int argc, char **argv) {
  static const char *const models[] = {"gpt", "gpt3", "mlp", "mlp3", "cnn", "cnn3"};
  bool ops = argc > 1 && strcmp(argv[1], "ops") == 0, known = ops;
  for (size_t i = 0; argc == 2 && i < sizeof models / sizeof *models; ++i) {
    known |= strcmp(argv[1], models[i]) == 0;
  }
  if (!known || argc > 3) {
    fprintf(stderr, "usage: rules_all ops [NAME] | gpt | gpt3 | mlp | mlp3 | cnn | cnn3\n");
    return 2;
  }
  bench_t b = {0};
  shoal_arena_init(shoal_allocator_system(), &b.arena);
  shoal_status_t status = shoal_rules_create(shoal_allocator_system(), &b.rules);
  if (!status) {
    shoal_rules_ignore_shipped(b.rules);
    status = ops ? find_cases(&b, argc == 3 ? argv[2] : NULL) : find_model(&b, argv[1]);
  }
  if (!status) print(&b);
  shoal_rules_free(b.rules);
  shoal_arena_deinit(&b.arena);
  if (!status) return 0;
  fprintf(stderr, "rules_all: %s\n", shoal_status_message(status));
  shoal_status_free(status);
  return 1;
}

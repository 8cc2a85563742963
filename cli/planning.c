// See planning.h.
#include "planning.h"

#include <stdlib.h>
#include <string.h>

#include "print.h"
#include "ranks.h"
#include "shoal/lower.h"

// What a command does, in the words of `shoal --help`.
static const char *doc_of(const char *command) {
#define SHOAL_COMMAND(name, arguments, doc) \
  if (strcmp(command, #name) == 0) return doc;
#include "commands.inc"
#undef SHOAL_COMMAND
  return "";
}

shoal_status_t cli_options(const char *command, const char *arguments, const shoal_option_t *table,
                           int64_t count, int argc, char **argv, shoal_arena_t *arena,
                           void *options, shoal_words_t *out_words, FILE *out) {
  SHOAL_RETURN_IF_ERROR(cli_model_table(table, count, arena, options, &table, &count));
  SHOAL_RETURN_IF_ERROR(shoal_options_defaults(table, count, arena, options));
  SHOAL_RETURN_IF_ERROR(shoal_options_environment(table, count, arena, options));
  SHOAL_RETURN_IF_ERROR(shoal_options_parse(table, count, argc, (const char *const *)argv, arena,
                                            options, out_words));
  const bool *help = (const bool *)((const char *)options + table[count - 1].offset);
  if (!*help) return NULL;
  const char *text = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_options_help(table, count, arena, &text));
  fprintf(out, "usage: shoal %s%s%s [OPTIONS]\n%s\n\n%s", command, arguments[0] ? " " : "",
          arguments, doc_of(command), text);
  return NULL;
}

shoal_status_t cli_one_model(const shoal_words_t *words) {
  if (words->count == 1) return NULL;
  if (words->count == 0)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "for example: mlp -n 2; `shoal models` lists them",
                            "name one model");
  return SHOAL_ERROR(INVALID_ARGUMENT, "one model at a time: after '%s' stands '%s'",
                     words->items[0], words->items[1]);
}

shoal_status_t cli_plan_check(const cli_plan_options_t *options) {
  const char *other = options->strategy  ? "--strategy"
                      : options->mesh    ? "--mesh"
                      : options->layouts ? "--layouts"
                                         : NULL;
  if (!options->plan || !other) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                          "edit the plan file's intent, or add to it with --decide",
                          "--plan and %s do not go together: a plan file says it all", other);
}

shoal_status_t cli_layouts_parse(const char *text, shoal_arena_t *arena, int64_t *out_count,
                                 const shoal_intent_entry_t **out_entries) {
  char *rest = cli_format(arena, "%s", text ? text : "");
  int64_t count = 0, most = 1;
  for (const char *at = rest; at && *at; ++at) most += *at == ';';
  shoal_intent_entry_t *entries = SHOAL_NEW(arena, shoal_intent_entry_t, most);
  if (!rest || !entries) return SHOAL_OOM();
  while (*rest) {
    char *end = strchr(rest, ';');
    if (end) *end = 0;
    char *equals = strchr(rest, '=');
    if (!equals)
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "write pattern=layout;pattern=layout",
                              "'%s' in --layouts has no '='", rest);
    *equals = 0;
    entries[count++] = (shoal_intent_entry_t){rest, equals + 1};
    if (!end) break;
    rest = end + 1;
  }
  *out_count = count;
  *out_entries = entries;
  return NULL;
}

shoal_status_t cli_decisions_parse(const shoal_words_t *texts, shoal_arena_t *arena,
                                   int64_t *out_count,
                                   const shoal_intent_decision_t **out_decisions) {
  shoal_intent_decision_t *decisions = SHOAL_NEW(arena, shoal_intent_decision_t, texts->count);
  if (!decisions) return SHOAL_OOM();
  for (int64_t i = 0; i < texts->count; ++i) {
    char *words[3], *rest = cli_format(arena, "%s", texts->items[i]);
    if (!rest) return SHOAL_OOM();
    for (int w = 0; w < 3; ++w) {
      words[w] = rest += strspn(rest, " ");
      if (w < 2) rest += strcspn(rest, " ");
      if (w < 2 && *rest) *rest++ = 0;
    }
    if (!words[2][0])
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                              "for example --decide 'recompute block* yes'; docs/plan.md has all",
                              "--decide '%s' is not KIND PATTERN CHOICE", texts->items[i]);
    decisions[i] = (shoal_intent_decision_t){.kind = words[0],
                                             .pattern = words[1],
                                             .choice = words[2],
                                             .by = "user",
                                             .reason = "given on the command line"};
  }
  *out_count = texts->count;
  *out_decisions = decisions;
  return NULL;
}

shoal_status_t cli_plan_make(const cli_plan_options_t *options, const shoal_model_t *model,
                             shoal_rules_t *rules, shoal_arena_t *arena, bool *out_rebuilt,
                             shoal_plan_t **out_plan) {
  *out_rebuilt = false;
  if (options->ranks < 1 || options->ranks > 1 << 20)
    return SHOAL_ERROR(INVALID_ARGUMENT, "-n %lld: from 1 to 1048576 ranks can be planned",
                       (long long)options->ranks);
  SHOAL_RETURN_IF_ERROR(cli_plan_check(options));
  int64_t size = 0;
  shoal_allocator_t allocator = shoal_allocator_system();
  shoal_cluster_t *cluster;  // its errors name the file
  SHOAL_RETURN_IF_ERROR(cli_cluster(options, &cluster));
  const char *described = NULL;
  shoal_status_t status = options->cluster ? shoal_cluster_print(cluster, arena, &described) : NULL;
  shoal_cluster_free(cluster);
  if (status) return status;
  if (options->plan) {
    const char *text = NULL;
    int64_t count = 0;
    const shoal_intent_decision_t *decisions = NULL;
    SHOAL_RETURN_IF_ERROR(shoal_file_read(options->plan, arena, &text, &size));
    SHOAL_RETURN_IF_ERROR(cli_decisions_parse(&options->decide, arena, &count, &decisions));
    return shoal_plan_parse_decided(options->plan, text, model, rules, (int32_t)options->ranks,
                                    count, decisions, allocator, out_rebuilt, out_plan);
  }
  shoal_plan_options_t make = {.strategy = options->strategy,
                               .mesh = options->mesh,
                               .cluster = described,
                               .world = (int32_t)options->ranks};
  SHOAL_RETURN_IF_ERROR(
      cli_layouts_parse(options->layouts, arena, &make.layout_count, &make.layouts));
  SHOAL_RETURN_IF_ERROR(
      cli_decisions_parse(&options->decide, arena, &make.decision_count, &make.decisions));
  shoal_cache_note_t note = {0};
  make.cache = cli_cache(options, arena);
  make.cache_note = &note;
  status = shoal_plan_make(model, rules, &make, out_plan);
  if (!status) cli_say_cache(&note);
  return status;
}

const char *cli_cache(const cli_plan_options_t *options, shoal_arena_t *arena) {
  if (options->cache) return options->cache;
  const char *folder = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  const char *path = folder && folder[0] ? cli_format(arena, "%s/shoal/plans", folder)
                     : home && home[0]   ? cli_format(arena, "%s/.cache/shoal/plans", home)
                                         : "";
  return path ? path : "";
}

void cli_say_cache(const shoal_cache_note_t *note) {
  if (note->hit) fprintf(stderr, "shoal: the plan is from the cache\n");
  if (note->text[0]) fprintf(stderr, "shoal: warning: %s\n", note->text);
}

void cli_say_rebuilt(const cli_plan_options_t *options, bool rebuilt) {
  const int64_t count = options->decide.count;
  if (options->plan && count > 0)
    fprintf(stderr, "shoal: %lld decision%s of --decide behind those of '%s'%s\n", (long long)count,
            count == 1 ? "" : "s", options->plan,
            rebuilt ? ", which is completed anew with them" : "");
  if (!rebuilt || count > 0) return;
  fprintf(stderr,
          "shoal: the plan file was made for another model, intent, rules or number of ranks: "
          "completed anew from its intent\n");
}

shoal_status_t cli_planned_create(const char *model, const cli_model_options_t *model_options,
                                  const cli_plan_options_t *options, shoal_arena_t *arena,
                                  cli_planned_t *out) {
  bool rebuilt = false;
  shoal_allocator_t allocator = shoal_allocator_system();
  SHOAL_RETURN_IF_ERROR(cli_model_create(model, model_options, allocator, &out->model));
  SHOAL_RETURN_IF_ERROR(shoal_rules_create(allocator, &out->rules));
  SHOAL_RETURN_IF_ERROR(
      cli_plan_make(options, out->model, out->rules, arena, &rebuilt, &out->plan));
  cli_say_rebuilt(options, rebuilt);
  SHOAL_RETURN_IF_ERROR(shoal_lower(out->plan, NULL, &out->program));
  return shoal_program_check(out->program, allocator);
}

void cli_planned_free(cli_planned_t *planned) {
  shoal_program_free(planned->program);
  shoal_plan_free(planned->plan);
  shoal_rules_free(planned->rules);
  shoal_model_free(planned->model);
}

shoal_status_t cli_cluster(const cli_plan_options_t *options, shoal_cluster_t **out_cluster) {
  SHOAL_RETURN_IF_ERROR(
      shoal_cluster_read(options->cluster, shoal_allocator_system(), out_cluster));
  const int32_t ranks = shoal_cluster_ranks(*out_cluster);
  if (ranks == 0 || options->ranks <= ranks) return NULL;
  shoal_cluster_free(*out_cluster);
  *out_cluster = NULL;
  return SHOAL_ERROR(INVALID_ARGUMENT, "-n %lld: the cluster '%s' has %d devices",
                     (long long)options->ranks, options->cluster, ranks);
}

shoal_status_t cli_use_cluster(int argc, char **argv, cli_plan_options_t *options) {
  shoal_cluster_t *cluster;
  if (!options->cluster || cli_ranks_given(argc, argv)) return NULL;
  SHOAL_RETURN_IF_ERROR(cli_cluster(options, &cluster));
  if (shoal_cluster_ranks(cluster) > 0) options->ranks = shoal_cluster_ranks(cluster);
  shoal_cluster_free(cluster);
  return NULL;
}

shoal_status_t cli_session_options(const cli_plan_options_t *options, shoal_world_t *world,
                                   shoal_arena_t *arena, shoal_parallelize_options_t *out_options) {
  int64_t size = 0;
  *out_options = (shoal_parallelize_options_t){.world = world,
                                               .strategy = options->strategy,
                                               .mesh = options->mesh,
                                               .cluster = options->cluster,
                                               .cache = cli_cache(options, arena)};
  if (options->plan)
    SHOAL_RETURN_IF_ERROR(shoal_file_read(options->plan, arena, &out_options->plan, &size));
  SHOAL_RETURN_IF_ERROR(cli_layouts_parse(options->layouts, arena, &out_options->layout_count,
                                          &out_options->layouts));
  return cli_decisions_parse(&options->decide, arena, &out_options->decision_count,
                             &out_options->decisions);
}

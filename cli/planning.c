// See planning.h.
#include "planning.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "print.h"
#include "ranks.h"
#include "shoal/lower.h"
#include "shoal/schedule.h"

// What a command does, in the words of `shoal --help`.
static const char *doc_of(const char *command) {
#define SHOAL_COMMAND(name, arguments, doc) \
  if (strcmp(command, #name) == 0) return doc;
#include "commands.inc"
#undef SHOAL_COMMAND
  return "";
}

// An option that `train` has, and that is unknown here, is no slip of the pen.
static shoal_status_t reword_unknown(const char *command, int argc, char **argv,
                                     shoal_arena_t *arena, shoal_status_t status) {
  int64_t count;
  const shoal_option_t *known = cli_train_options(&count);
  for (int i = 0; i < argc; ++i) {
    const int length = (int)strcspn(argv[i], "=");
    const char *flag = cli_format(arena, "%.*s", length, argv[i]);
    if (!flag ||
        !strstr(shoal_status_message(status), cli_format(arena, "unknown option '%s'", flag)))
      continue;
    for (int64_t row = 0; row < count; ++row) {
      char *name = cli_format(arena, "--%s", known[row].name);
      for (char *at = name; at && *at; ++at)
        if (*at == '_') *at = '-';
      if (!name || strcmp(name, flag) != 0) continue;
      shoal_status_free(status);
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                              cli_format(arena,
                                         "it is an option of `shoal train`; `shoal %s --help` "
                                         "lists those of %s",
                                         command, command),
                              "%s has no use for %s", command, flag);
    }
  }
  return status;
}

shoal_status_t cli_options(const char *command, const char *arguments, const shoal_option_t *table,
                           int64_t count, int argc, char **argv, shoal_arena_t *arena,
                           void *options, shoal_words_t *out_words, FILE *out) {
  SHOAL_RETURN_IF_ERROR(cli_model_table(table, count, arena, options, &table, &count));
  SHOAL_RETURN_IF_ERROR(cli_model_words(table, count, arena, &argc, &argv));
  SHOAL_RETURN_IF_ERROR(shoal_options_defaults(table, count, arena, options));
  SHOAL_RETURN_IF_ERROR(shoal_options_environment(table, count, arena, options));
  shoal_status_t status =
      shoal_options_parse(table, count, argc, (const char *const *)argv, arena, options, out_words);
  if (status) return reword_unknown(command, argc, argv, arena, status);
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
  const bool model = shoal_zoo_find(words->items[1], &(const shoal_zoo_preset_t *){NULL}) != NULL;
  return SHOAL_ERROR_HINT(
      INVALID_ARGUMENT, model ? NULL : "flags are --NAME, --no-NAME or --NAME=no, in one word",
      "one model at a time: after '%s' stands '%s'", words->items[0], words->items[1]);
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

// What --schedule decides: a generator's name, or the table of a file.
static shoal_status_t schedule_choice(const char *word, shoal_arena_t *arena,
                                      const char **out_choice) {
  const char *text;
  int64_t size;
  *out_choice = word;
  for (int64_t i = 0; shoal_schedule_name(i); ++i)
    if (strcmp(shoal_schedule_name(i), word) == 0) return NULL;
  shoal_status_t status = shoal_file_read(word, arena, &text, &size);
  const shoal_schedule_t *table;
  if (shoal_status_code(status) == SHOAL_NOT_FOUND) {  // says what there is
    shoal_status_free(status);
    const shoal_pipeline_t any = {.mesh_count = 1, .stage_count = 1, .micro = 1};
    return shoal_status_annotate(shoal_schedule_create(word, &any, arena, &table),
                                 "--schedule is neither a schedule's name nor a file");
  }
  SHOAL_RETURN_IF_ERROR(status);
  SHOAL_RETURN_IF_ERROR(shoal_schedule_parse(word, text, arena, &table));
  SHOAL_RETURN_IF_ERROR(shoal_status_annotate(shoal_schedule_check(table), word));
  SHOAL_RETURN_IF_ERROR(shoal_schedule_print(table, arena, &text));
  *out_choice = cli_format(arena, "table %s", text);
  return *out_choice ? NULL : SHOAL_OOM();
}

shoal_status_t cli_decisions_parse(const cli_plan_options_t *options, shoal_arena_t *arena,
                                   int64_t *out_count,
                                   const shoal_intent_decision_t **out_decisions) {
  const shoal_words_t *texts = &options->decide;
  shoal_intent_decision_t *decisions = SHOAL_NEW(arena, shoal_intent_decision_t, texts->count + 1);
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
  if (!options->schedule) return NULL;
  shoal_intent_decision_t *last = &decisions[(*out_count)++];
  *last = (shoal_intent_decision_t){
      .kind = "schedule", .pattern = "train", .by = "user", .reason = "given on the command line"};
  return schedule_choice(options->schedule, arena, &last->choice);
}

shoal_status_t cli_print_approximate(const shoal_plan_t *plan, shoal_arena_t *arena, FILE *out) {
  int64_t count;
  const char *const *lines;
  SHOAL_RETURN_IF_ERROR(shoal_plan_approximate(plan, arena, &count, &lines));
  for (int64_t i = 0; i < count; ++i) fprintf(out, "approximate: %s\n", lines[i]);
  return NULL;
}

shoal_choices_t cli_choices(const cli_plan_options_t *options) {
  return (shoal_choices_t){
      .recompute = options->recompute, .offload = options->offload, .compress = options->compress};
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
    const shoal_choices_t choices = cli_choices(options);
    SHOAL_RETURN_IF_ERROR(cli_decisions_parse(options, arena, &count, &decisions));
    SHOAL_RETURN_IF_ERROR(
        shoal_choices_decide(model, &choices, count, decisions, arena, &count, &decisions));
    return shoal_plan_parse_decided(options->plan, text, model, rules, (int32_t)options->ranks,
                                    count, decisions, allocator, out_rebuilt, out_plan);
  }
  shoal_plan_options_t make = {.strategy = options->strategy,
                               .mesh = options->mesh,
                               .cluster = described,
                               .choices = cli_choices(options),
                               .world = (int32_t)options->ranks};
  SHOAL_RETURN_IF_ERROR(
      cli_layouts_parse(options->layouts, arena, &make.layout_count, &make.layouts));
  SHOAL_RETURN_IF_ERROR(cli_decisions_parse(options, arena, &make.decision_count, &make.decisions));
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
  const int64_t count = options->decide.count + (options->schedule != NULL);
  if (options->plan && count > 0)
    fprintf(stderr, "shoal: %lld decision%s of %s behind those of '%s'%s\n", (long long)count,
            count == 1 ? "" : "s",
            !options->schedule           ? "--decide"
            : options->decide.count == 0 ? "--schedule"
                                         : "--decide and --schedule",
            options->plan, rebuilt ? ", which is completed anew with them" : "");
  if (!rebuilt || count > 0) return;
  fprintf(stderr,
          "shoal: the plan file was made for another model, intent, rules or number of ranks: "
          "completed anew from its intent\n");
}

shoal_status_t cli_say_idle(const shoal_plan_t *plan, int64_t ranks, shoal_arena_t *arena) {
  const shoal_intent_t *intent = shoal_plan_intent(plan);
  bool *used = SHOAL_NEW(arena, bool, ranks);
  if (!used) return SHOAL_OOM();
  for (int64_t i = 0; i < intent->mesh_count; ++i) {
    shoal_mesh_t mesh;
    SHOAL_RETURN_IF_ERROR(shoal_mesh_parse(intent->meshes[i], arena, &mesh));
    for (int64_t p = 0; p < shoal_mesh_size(&mesh); ++p) used[shoal_mesh_rank(&mesh, p)] = true;
  }
  int64_t idle = 0, first = -1;
  for (int64_t rank = 0; rank < ranks; ++rank)
    if (!used[rank] && idle++ == 0) first = rank;
  if (idle == 0) return NULL;
  fprintf(stderr, "shoal: rank %lld%s nothing to do: no mesh of the plan has %s\n",
          (long long)first,
          idle == 1 ? " has" : cli_format(arena, " and %lld more have", (long long)idle - 1),
          idle == 1 ? "it" : "them");
  return NULL;
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
  SHOAL_RETURN_IF_ERROR(cli_say_idle(out->plan, options->ranks, arena));
  const shoal_lower_options_t lower = {.memory = options->memory};
  SHOAL_RETURN_IF_ERROR(shoal_lower(out->plan, &lower, &out->program));
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
                                               .memory = options->memory,
                                               .plan_name = options->plan,
                                               .choices = cli_choices(options),
                                               .cache = cli_cache(options, arena)};
  if (options->plan)
    SHOAL_RETURN_IF_ERROR(shoal_file_read(options->plan, arena, &out_options->plan, &size));
  SHOAL_RETURN_IF_ERROR(cli_layouts_parse(options->layouts, arena, &out_options->layout_count,
                                          &out_options->layouts));
  return cli_decisions_parse(options, arena, &out_options->decision_count, &out_options->decisions);
}

// From a model, or a given program, to a session.
//
// Planning and lowering are the same computation on every rank; what they made is compared before
// anything runs, because ranks with different programs would wait for each other for ever.
// Everything that can fail on one rank ends in an agreement.
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "graph/graph.h"
#include "lower/lower.h"
#include "rules/rules.h"
#include "session/session_impl.h"
#include "shoal/cluster.h"
#include "shoal/planners.h"

// ---- texts ----------------------------------------------------------------------------

// The plan as its own text says it.
static shoal_status_t plan_through_text(shoal_session_t *session, const shoal_model_t *model) {
  const char *text;
  shoal_plan_t *parsed;
  SHOAL_RETURN_IF_ERROR(shoal_plan_print(session->plan, &session->arena, &text));
  SHOAL_RETURN_IF_ERROR(shoal_plan_parse("printed plan", text, model, session->rules,
                                         shoal_world_size(session->world), session->allocator, NULL,
                                         &parsed));
  shoal_plan_free(session->plan);
  session->plan = parsed;
  return NULL;
}

static shoal_status_t program_through_text(shoal_session_t *session,
                                           const shoal_registry_t *registry) {
  const char *text;
  shoal_program_t *parsed;
  SHOAL_RETURN_IF_ERROR(shoal_program_print(session->program, &session->arena, &text));
  SHOAL_RETURN_IF_ERROR(
      shoal_program_parse("printed program", text, registry, session->allocator, &parsed));
  shoal_program_free(session->owned_program);
  session->program = session->owned_program = parsed;
  return NULL;
}

// The native ops, and whatever others the program uses.
static shoal_status_t registry_of(shoal_session_t *session) {
  const shoal_program_t *program = session->program;
  SHOAL_RETURN_IF_ERROR(shoal_registry_create(session->allocator, &session->registry));
  for (int64_t c = 0; c < program->class_count; ++c) {
    for (int64_t s = 0; s < program->classes[c].segment_count; ++s) {
      const shoal_segment_t *segment = &program->classes[c].segments[s];
      for (int64_t i = 0; i < segment->instruction_count; ++i) {
        const shoal_op_t *op = segment->instructions[i].op, *known;
        if (!op) continue;
        shoal_status_t missing = shoal_op_find(session->registry, op->name, &known);
        if (!missing) continue;
        shoal_status_free(missing);
        SHOAL_RETURN_IF_ERROR(shoal_op_register(session->registry, op));
      }
    }
  }
  return NULL;
}

// ---- planning: on each rank alone -----------------------------------------------------

static shoal_status_t make_plan(shoal_session_t *session, const shoal_model_t *model,
                                const shoal_parallelize_options_t *options) {
  const int32_t world = shoal_world_size(session->world);
  if (options->plan) {
    return shoal_plan_parse("plan", options->plan, model, session->rules, world, session->allocator,
                            &session->rebuilt_plan, &session->plan);
  }
  const char *cluster = NULL;
  if (options->cluster) {
    shoal_cluster_t *described;
    SHOAL_RETURN_IF_ERROR(shoal_cluster_read(options->cluster, session->allocator, &described));
    shoal_status_t status = shoal_cluster_print(described, &session->arena, &cluster);
    shoal_cluster_free(described);
    if (status) return status;
  }
  const shoal_plan_options_t plan_options = {
      .allocator = session->allocator,
      .strategy = options->strategy,
      .mesh = options->mesh,
      .cluster = cluster,
      .world = world,
      .strategies = options->strategies,
      .layout_count = options->layout_count,
      .layouts = options->layouts,
  };
  return shoal_plan_make(model, session->rules, &plan_options, &session->plan);
}

// Rules of ops without a kernel are found by running whoever will execute them.
static shoal_status_t execute(void *self, const shoal_call_t *call, const shoal_tensor_t *inputs,
                              const shoal_tensor_t *outputs) {
  const shoal_session_t *session = self;
  if (!call->op->kernel) return session->provider(session->provider_self, call, inputs, outputs);
  const shoal_executor_t reference = shoal_executor_reference(&session->allocator);
  return reference.execute(reference.self, call, inputs, outputs);
}

static shoal_status_t compile(shoal_session_t *session, const shoal_model_t *model,
                              const shoal_parallelize_options_t *options) {
  SHOAL_RETURN_IF_ERROR(shoal_model_status(model));
  session->seed = model->seed;
  session->has_seed = true;
  SHOAL_RETURN_IF_ERROR(shoal_rules_create(session->allocator, &session->rules));
  if (options->provider) {
    session->provider = options->provider;
    session->provider_self = options->provider_self;
    shoal_rules_set_executor(session->rules, (shoal_executor_t){session, execute});
  }
  SHOAL_RETURN_IF_ERROR(
      shoal_status_annotate(make_plan(session, model, options), "while planning"));
  if (options->through_text) SHOAL_RETURN_IF_ERROR(plan_through_text(session, model));
  const shoal_lower_options_t lower = {.allocator = session->allocator,
                                       .fetches = options->fetches};
  SHOAL_RETURN_IF_ERROR(shoal_status_annotate(
      shoal_lower(session->plan, &lower, &session->owned_program), "while lowering"));
  session->program = session->owned_program;
  if (options->through_text) SHOAL_RETURN_IF_ERROR(program_through_text(session, model->registry));
  return shoal_status_annotate(shoal_program_check(session->program, session->allocator),
                               "while checking the program");
}

static shoal_status_t accept_program(shoal_session_t *session, const shoal_program_t *program,
                                     const shoal_parallelize_options_t *options) {
  session->program = program;
  const int32_t world = shoal_world_size(session->world);
  if (program->world != world) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "the program is for %d ranks, the world has %d",
                       program->world, world);
  }
  if (options->through_text) {
    SHOAL_RETURN_IF_ERROR(registry_of(session));
    SHOAL_RETURN_IF_ERROR(program_through_text(session, session->registry));
  }
  return shoal_status_annotate(shoal_program_check(session->program, session->allocator),
                               "while checking the program");
}

// ---- loading: together ----------------------------------------------------------------

// What every rank must have made alike.
typedef struct common {
  int64_t program, seed;  // hash of the text; the model's seed
} common_t;

enum { COMMON_WORDS = sizeof(common_t) / sizeof(int64_t) };

static shoal_status_t find_common(shoal_session_t *session, common_t *out_common) {
  *out_common = (common_t){.seed = (int64_t)session->seed};
  if (shoal_world_size(session->world) == 1) return NULL;
  shoal_arena_t arena;
  shoal_arena_init(session->allocator, &arena);
  const char *text;
  shoal_status_t status = shoal_program_print(session->program, &arena, &text);
  if (!status) out_common->program = (int64_t)shoal_hash_string(SHOAL_HASH_START, text);
  shoal_arena_deinit(&arena);
  return status;
}

// A group of all ranks, and room for what each of them has to compare.
static shoal_status_t make_everyone(shoal_session_t *session, int64_t **out_counts,
                                    common_t **out_all) {
  const int32_t size = shoal_world_size(session->world);
  int32_t *ranks = SHOAL_NEW(&session->arena, int32_t, size);
  *out_counts = SHOAL_NEW(&session->arena, int64_t, size);
  *out_all = SHOAL_NEW(&session->arena, common_t, size);
  if (!ranks || !*out_counts || !*out_all) return SHOAL_OOM();
  for (int32_t i = 0; i < size; ++i) ranks[i] = i, (*out_counts)[i] = COMMON_WORDS;
  return shoal_group_create(session->world, size, ranks, &session->everyone);
}

// The line that holds `at`, or what is behind it if the line is long.
static int line_around(const char *text, const char *at, const char **out_line) {
  const char *start = at;
  while (start > text && start[-1] != '\n' && at - start < 60) --start;
  while (*start == ' ') ++start;
  *out_line = start;
  int length = (int)strcspn(start, "\n");
  return length < 100 ? length : 100;
}

static shoal_status_t name_difference(const shoal_session_t *session, const common_t *all,
                                      const char *mine, const char *theirs) {
  const int32_t rank = shoal_world_rank(session->world);
  const char hint[] = "give every rank the same model, options and plan";
  if (all[rank].seed != all[0].seed) {
    return SHOAL_ERROR_HINT(MISMATCH, hint,
                            "the ranks' models differ: rank %d's has seed %lld, rank 0's %lld",
                            rank, (long long)all[rank].seed, (long long)all[0].seed);
  }
  int64_t line = 1, i = 0;
  for (; mine[i] && mine[i] == theirs[i]; ++i) line += mine[i] == '\n';
  const char *my_line, *their_line;
  const int my_length = line_around(mine, mine + i, &my_line);
  const int their_length = line_around(theirs, theirs + i, &their_line);
  return SHOAL_ERROR_HINT(MISMATCH, hint,
                          "the ranks made different programs: line %lld of rank %d's is '%.*s', "
                          "of rank 0's '%.*s'",
                          (long long)line, rank, my_length, my_line, their_length, their_line);
}

// Rank 0 shows its program, and the first rank that has another one says where they part.
static shoal_status_t explain_difference(shoal_session_t *session, const common_t *all) {
  const int32_t rank = shoal_world_rank(session->world);
  const char *mine = NULL;
  char *theirs = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(
      session->world, shoal_program_print(session->program, &session->arena, &mine)));
  int64_t size = (int64_t)strlen(mine) + 1;
  SHOAL_RETURN_IF_ERROR(shoal_broadcast(session->everyone, &size, sizeof size, 0));
  theirs = shoal_arena_alloc(&session->arena, (size_t)size, 1);
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(session->world, theirs ? NULL : SHOAL_OOM()));
  if (rank == 0) memcpy(theirs, mine, (size_t)size);
  SHOAL_RETURN_IF_ERROR(shoal_broadcast(session->everyone, theirs, size, 0));
  const bool differs = memcmp(&all[rank], &all[0], sizeof *all) != 0;
  return shoal_world_agree(session->world,
                           differs ? name_difference(session, all, mine, theirs) : NULL);
}

// Ranks with different programs would wait for each other until the time limit.
static shoal_status_t compare_common(shoal_session_t *session, const common_t *mine,
                                     const int64_t *counts, common_t *all) {
  const int32_t size = shoal_world_size(session->world);
  if (size == 1) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_all_gather(session->everyone, SHOAL_I64, counts, mine, all));
  for (int32_t r = 1; r < size; ++r) {
    if (memcmp(&all[r], &all[0], sizeof *all) != 0) return explain_difference(session, all);
  }
  return NULL;
}

static bool has_init(const shoal_program_t *program) {
  for (int64_t c = 0; c < program->class_count; ++c) {
    for (int64_t o = 0; o < program->classes[c].order_count; ++o) {
      if (strcmp(program->classes[c].orders[o].graph, "init") == 0) return true;
    }
  }
  return false;
}

// The device's memory, from the world: peers on this node then work on it in place.
static void *alloc_pages(void *self, size_t bytes) {
  void *memory = NULL;
  shoal_status_t status = shoal_comm_alloc(self, (int64_t)bytes, &memory);
  if (!status) return memory;
  shoal_status_free(status);
  return NULL;
}

static void free_pages(void *self, void *memory) {
  shoal_comm_release(self, memory);
}

// Its errors are agreed.
static shoal_status_t load(shoal_session_t *session, const shoal_parallelize_options_t *options) {
  common_t mine, *all;
  int64_t *counts;
  shoal_status_t status = find_common(session, &mine);
  if (!status && !options->dry_run) {
    shoal_device_options_t device = {.allocator = session->allocator, .opaque = options->opaque};
    if (shoal_world_size(session->world) > 1) {
      device.pages = (shoal_allocator_t){session->world, alloc_pages, free_pages};
    }
    status = shoal_device_create(&device, &session->device);
  }
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(session->world, status));
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(session->world, make_everyone(session, &counts, &all)));
  SHOAL_RETURN_IF_ERROR(compare_common(session, &mine, counts, all));
  if (options->dry_run) return NULL;
  const shoal_runner_options_t runner_options = {
      .allocator = session->allocator,
      .provider = options->provider,
      .provider_self = options->provider_self,
      .tap = options->tap,
      .tap_self = options->tap_self,
      .no_compare = options->no_compare,
  };
  SHOAL_RETURN_IF_ERROR(shoal_runner_create(session->program, session->world, session->device,
                                            &runner_options, &session->runner));
  return has_init(session->program) ? shoal_runner_run(session->runner, "init") : NULL;
}

// ---- creating -------------------------------------------------------------------------

static shoal_status_t create(const shoal_model_t *model, const shoal_program_t *program,
                             const shoal_parallelize_options_t *given,
                             shoal_session_t **out_session) {
  *out_session = NULL;
  shoal_parallelize_options_t options = given ? *given : (shoal_parallelize_options_t){0};
  if (!options.allocator.alloc) options.allocator = shoal_allocator_system();
  shoal_world_t *world = options.world;
  if (world) {
    shoal_world_retain(world);
  } else {
    SHOAL_RETURN_IF_ERROR(
        shoal_world_join(&(shoal_world_options_t){.allocator = options.allocator}, &world));
  }
  shoal_session_t *session = options.allocator.alloc(options.allocator.self, sizeof *session);
  shoal_status_t status = NULL;
  if (session) {
    *session = (shoal_session_t){.outer = options.allocator, .world = world};
    session->counting.inner = options.allocator;
    session->allocator = shoal_allocator_failing(&session->counting);
    shoal_arena_init(session->allocator, &session->arena);
    if (model) {
      status = compile(session, model, &options);
    } else {
      status = program ? accept_program(session, program, &options)
                       : SHOAL_ERROR(INVALID_ARGUMENT, "a session needs a model, or a program");
    }
  } else {
    status = SHOAL_OOM();
  }
  status = shoal_world_agree(world, status);
  if (!status) status = load(session, &options);
  if (!status) {
    *out_session = session;
    return NULL;
  }
  if (session) {
    shoal_session_free(session);
  } else {
    shoal_world_release(world);
  }
  return status;
}

shoal_status_t shoal_parallelize(const shoal_model_t *model,
                                 const shoal_parallelize_options_t *options,
                                 shoal_session_t **out_session) {
  return create(model, NULL, options, out_session);
}

shoal_status_t shoal_session_create(const shoal_program_t *program,
                                    const shoal_parallelize_options_t *options,
                                    shoal_session_t **out_session) {
  return create(NULL, program, options, out_session);
}

// From a model, or a given program, to a session.
//
// Rank 0 plans, lowers and checks; the others get the program's text (share.c), after all have
// compared what it is made from (alike.c): ranks with different programs would wait for each other
// for ever. Everything that can fail on one rank ends in an agreement.
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "device/device.h"
#include "graph/graph.h"
#include "rules/rules.h"
#include "session/session_impl.h"
#include "shoal/cluster.h"
#include "shoal/lower.h"
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

// ---- planning: on rank 0 alone --------------------------------------------------------

// `memory_limit`: lowered to the least that a device of the cluster has.
static shoal_status_t make_plan(shoal_session_t *session, const shoal_model_t *model,
                                const shoal_parallelize_options_t *options, int64_t *memory_limit) {
  const int32_t world = shoal_world_size(session->world);
  if (options->plan) {
    int64_t count;
    const shoal_intent_decision_t *decisions;
    SHOAL_RETURN_IF_ERROR(shoal_choices_decide(model, &options->choices, options->decision_count,
                                               options->decisions, &session->arena, &count,
                                               &decisions));
    return shoal_plan_parse_decided(options->plan_name ? options->plan_name : "plan", options->plan,
                                    model, session->rules, world, count, decisions,
                                    session->allocator, &session->rebuilt_plan, &session->plan);
  }
  const char *cluster = NULL;
  if (options->cluster) {
    shoal_cluster_t *described;
    SHOAL_RETURN_IF_ERROR(shoal_cluster_read(options->cluster, session->allocator, &described));
    shoal_status_t status = shoal_cluster_print(described, &session->arena, &cluster);
    for (int32_t r = 0; r < world && !options->memory; ++r) {
      const int64_t memory = shoal_cluster_device(described, r)->memory;
      if (memory > 0 && (*memory_limit == 0 || memory < *memory_limit)) *memory_limit = memory;
    }
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
      .decision_count = options->decision_count,
      .decisions = options->decisions,
      .choices = options->choices,
      .cache = options->cache ? options->cache : getenv("SHOAL_CACHE"),
      .cache_note = &session->cache_note,
  };
  return shoal_plan_make(model, session->rules, &plan_options, &session->plan);
}

// Rules of ops without a kernel are found by running whoever will execute them.
static shoal_status_t execute(void *self, const shoal_call_t *call, const shoal_tensor_t *inputs,
                              const shoal_tensor_t *outputs) {
  const shoal_session_t *session = self;
  if (!call->op->kernel) {
    return shoal_provider_call(session->provider, session->provider_self, call, inputs, outputs,
                               session->allocator);
  }
  const shoal_executor_t reference = shoal_executor_reference(&session->allocator);
  return reference.execute(reference.self, call, inputs, outputs);
}

static shoal_status_t compile(shoal_session_t *session, const shoal_session_source_t *source) {
  const shoal_model_t *model = source->model;
  const shoal_parallelize_options_t *options = source->options;
  SHOAL_RETURN_IF_ERROR(shoal_rules_create(session->allocator, &session->rules));
  if (options->provider) {
    session->provider = options->provider;
    session->provider_self = options->provider_self;
    shoal_rules_set_executor(session->rules, (shoal_executor_t){session, execute});
  }
  int64_t memory = options->memory;
  SHOAL_RETURN_IF_ERROR(
      shoal_status_annotate(make_plan(session, model, options, &memory), "while planning"));
  if (options->through_text) SHOAL_RETURN_IF_ERROR(plan_through_text(session, model));
  const shoal_lower_options_t lower = {
      .allocator = session->allocator, .fetches = options->fetches, .memory = memory};
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
  if (options->dry_run) return NULL;
  shoal_device_options_t device = {
      .allocator = session->allocator, .opaque = options->opaque, .concurrent = true};
  if (shoal_world_size(session->world) > 1) {
    device.pages = (shoal_allocator_t){session->world, alloc_pages, free_pages};
  }
  SHOAL_RETURN_IF_ERROR(
      shoal_world_agree(session->world, shoal_device_create(&device, &session->device)));
  const shoal_runner_options_t runner_options = {
      .allocator = session->allocator,
      .provider = options->provider,
      .provider_self = options->provider_self,
      .tap = options->tap,
      .tap_self = options->tap_self,
      .offload_dir = options->offload_dir,
      .no_compare = options->no_compare,
      .timed = options->timed,
  };
  SHOAL_RETURN_IF_ERROR(shoal_runner_create(session->program, session->world, session->device,
                                            &runner_options, &session->runner));
  if (!has_init(session->program)) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_runner_run(session->runner, "init"));
  return shoal_runner_wait(session->runner);
}

// ---- creating -------------------------------------------------------------------------

// What needs no other rank, but for the work of planning.
static shoal_status_t begin(shoal_session_t *session, const shoal_session_source_t *source) {
  if (!source->model && !source->program) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "a session needs a model, or a program");
  }
  if (source->model) {
    SHOAL_RETURN_IF_ERROR(shoal_model_status(source->model));
    session->seed = source->model->seed;
    session->has_seed = true;
    session->registry = source->model->registry;
    shoal_registry_retain(session->registry);
  }
  return shoal_group_create(session->world, shoal_world_size(session->world), NULL,
                            &session->everyone);
}

// Its errors are agreed.
static shoal_status_t make_program(shoal_session_t *session, const shoal_session_source_t *source) {
  if (source->program) {
    return shoal_world_agree(session->world,
                             accept_program(session, source->program, source->options));
  }
  return shoal_session_share(session, compile, source);
}

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
  const shoal_session_source_t source = {model, program, &options};
  shoal_session_t *session = options.allocator.alloc(options.allocator.self, sizeof *session);
  shoal_status_t status = NULL;
  if (session) {
    *session = (shoal_session_t){.outer = options.allocator, .world = world};
    session->counting.inner = options.allocator;
    session->allocator = shoal_allocator_failing(&session->counting);
    shoal_arena_init(session->allocator, &session->arena);
    status = begin(session, &source);
  } else {
    status = SHOAL_OOM();
  }
  status = shoal_world_agree(world, status);
  if (!status) status = shoal_session_compare(session, &source);
  if (!status) status = make_program(session, &source);
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

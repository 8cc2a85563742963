// Simulation of a graph, of one run alone and of several in a row: see shoal/simulate.h for what is
// modelled, simulate_impl.h for who does what.
#include <math.h>

#include "shoal/simulate.h"

#include "simulate/simulate_impl.h"

static shoal_status_t find_graph(const shoal_sim_t *sim) {
  for (int64_t a = 0; a < sim->actor_count; ++a) {
    if (sim->actors[a].order) return NULL;
  }
  return SHOAL_ERROR(NOT_FOUND, "the program has no graph '%s'", sim->graph);
}

// What is known before anything runs.
static shoal_status_t describe(const shoal_sim_t *sim, shoal_arena_t *arena,
                               shoal_simulated_t **out_groups) {
  shoal_simulated_t *groups = SHOAL_NEW(arena, shoal_simulated_t, sim->actor_count);
  if (!groups) return SHOAL_OOM();
  for (int64_t a = 0; a < sim->actor_count; ++a) {
    const shoal_sim_actor_t *actor = &sim->actors[a];
    const int32_t count = actor->rank_class->queue_count;
    groups[a] =
        (shoal_simulated_t){.class_index = actor->class_index,
                            .rank_count = actor->rank_count,
                            .first_rank = actor->first_rank,
                            .device = shoal_arena_strdup(arena, actor->nodes->device.name),
                            .arena_bytes = actor->rank_class->arena_bytes[SHOAL_MEMORY_DEVICE],
                            .memory = actor->nodes->device.memory,
                            .queue_count = count,
                            .queues = SHOAL_NEW(arena, shoal_simulated_queue_t, count)};
    if (!groups[a].device || !groups[a].queues) return SHOAL_OOM();
    for (int32_t q = 0; q < count; ++q) {
      const shoal_program_queue_t *queue = &actor->rank_class->queues[q];
      groups[a].queues[q] = (shoal_simulated_queue_t){
          .name = shoal_arena_strdup(arena, queue->name), .kind = queue->kind};
      if (!groups[a].queues[q].name) return SHOAL_OOM();
    }
  }
  *out_groups = groups;
  return NULL;
}

// Steps that follow each other: the first starts with nothing before it, the last has nothing after
// it, and the third is the first that has to wait until another is through (SHOAL_SIM_IN_FLIGHT).
enum { LAST_STEP = 2, MIDDLE_STEP = 1, STEPS = 3 };

// Says whether a step may begin before the one before it has ended: on another queue, or because
// ranks do different things.
static bool runs_ahead(const shoal_sim_t *sim) {
  if (sim->actor_count > 1) return true;
  const shoal_sim_actor_t *actor = &sim->actors[0];
  uint32_t used = 0;
  for (int64_t k = 0; k < actor->order->call_count && !sim->one_queue; ++k) {
    const shoal_segment_t *segment = &actor->rank_class->segments[actor->order->calls[k].segment];
    for (int64_t i = 0; i < segment->instruction_count; ++i) {
      used |= 1u << segment->instructions[i].queue;
    }
  }
  return (used & (used - 1)) != 0;
}

// A run alone, then one among others.
static shoal_status_t run(shoal_sim_t *sim, shoal_simulated_t *groups, shoal_sim_spans_t *spans,
                          shoal_simulation_t *out) {
  double ends[STEPS] = {0};
  const bool ahead = runs_ahead(sim);
  shoal_sim_steps_t steps = {.count = 1, .ends = ends, .spans = ahead ? NULL : spans};
  SHOAL_RETURN_IF_ERROR(shoal_sim_run(sim, &steps, groups));
  for (int64_t a = 0; a < sim->actor_count; ++a) {
    if (groups[a].seconds > out->seconds) out->seconds = groups[a].seconds;
    groups[a].communication = groups[a].busy[SHOAL_QUEUE_COMM];
  }
  out->steps = 1;
  out->step_seconds = out->seconds;
  if (!ahead) return NULL;
  shoal_simulated_t *among;
  SHOAL_RETURN_IF_ERROR(describe(sim, sim->arena, &among));
  steps = (shoal_sim_steps_t){.count = STEPS, .counted = MIDDLE_STEP, .ends = ends, .spans = spans};
  ends[0] = 0;
  SHOAL_RETURN_IF_ERROR(shoal_sim_run(sim, &steps, among));
  for (int64_t a = 0; a < sim->actor_count; ++a) {
    groups[a].communication = among[a].busy[SHOAL_QUEUE_COMM];
    groups[a].exposed = among[a].exposed;
  }
  out->steps = STEPS;
  out->step_seconds = ends[LAST_STEP] - ends[MIDDLE_STEP];
  return NULL;
}

// What follows from the run.
static void add_up(shoal_simulation_t *out, shoal_simulated_t *groups) {
  out->fits = true;
  for (int64_t a = 0; a < out->count; ++a) {
    shoal_simulated_t *group = &groups[a];
    group->bubble = out->seconds - group->busy[SHOAL_QUEUE_COMPUTE];
    // Both are sums of the same times in another order: rounding must not hide less than nothing.
    group->exposed = fmin(group->exposed, group->communication);
    group->hidden = group->communication > 0 ? 1 - group->exposed / group->communication : 1;
    if (group->busy[SHOAL_QUEUE_COMPUTE] > groups[out->slowest].busy[SHOAL_QUEUE_COMPUTE]) {
      out->slowest = a;
    }
    for (int level = 0; level < SHOAL_SIM_LEVELS; ++level) {
      out->bytes[level] += group->sent[level] * (double)group->rank_count;
    }
    if (group->arena_bytes > out->arena_bytes) out->arena_bytes = group->arena_bytes;
    if (group->memory > 0 && group->arena_bytes > group->memory) out->fits = false;
  }
  out->groups = groups;
}

// Everything while simulating lies in `scratch`; what is kept is copied.
static shoal_status_t simulate(shoal_sim_t *sim, bool keep_spans, shoal_simulation_t *out) {
  SHOAL_RETURN_IF_ERROR(shoal_sim_find_actors(sim));
  SHOAL_RETURN_IF_ERROR(find_graph(sim));
  SHOAL_RETURN_IF_ERROR(shoal_sim_find_variants(sim));
  sim->seconds = SHOAL_NEW(sim->arena, double **, sim->actor_count);
  sim->flows =
      SHOAL_NEW(sim->arena, shoal_sim_flow_t *, sim->program->channel_count * sim->variant_count);
  if (!sim->seconds || !sim->flows) return SHOAL_OOM();
  shoal_simulated_t *groups;
  SHOAL_RETURN_IF_ERROR(describe(sim, out->arena, &groups));
  shoal_sim_spans_t spans = {0};
  SHOAL_RETURN_IF_ERROR(run(sim, groups, keep_spans ? &spans : NULL, out));
  out->count = sim->actor_count;
  add_up(out, groups);
  for (int64_t i = 0; i < spans.count; ++i) {
    shoal_simulated_span_t *span = &spans.items[i];
    span->name = shoal_arena_strdup(out->arena, span->name ? span->name : "");
    span->segment = shoal_arena_strdup(out->arena, span->segment);
    if (!span->name || !span->segment) return SHOAL_OOM();
  }
  out->span_count = spans.count;
  out->spans = shoal_arena_copy(out->arena, spans.items, (size_t)spans.count, sizeof *spans.items);
  return out->spans ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_simulate(const shoal_program_t *program, const shoal_simulate_options_t *given,
                              shoal_simulation_t **out_simulation) {
  *out_simulation = NULL;
  const shoal_simulate_options_t options = given ? *given : (shoal_simulate_options_t){0};
  const shoal_allocator_t allocator =
      options.allocator.alloc ? options.allocator : shoal_allocator_system();
  const char *graph = options.graph ? options.graph : "train";
  if (options.times) SHOAL_RETURN_IF_ERROR(shoal_times_check(options.times, program));
  shoal_arena_t *arena;
  SHOAL_RETURN_IF_ERROR(shoal_arena_create(allocator, &arena));
  shoal_arena_t scratch;
  shoal_arena_init(allocator, &scratch);
  shoal_simulation_t *simulation = SHOAL_NEW(arena, shoal_simulation_t, 1);
  shoal_status_t status = NULL;
  if (simulation) {
    *simulation = (shoal_simulation_t){
        .arena = arena, .graph = shoal_arena_strdup(arena, graph), .world = program->world};
    shoal_sim_t sim = {.program = program,
                       .cluster = options.cluster ? options.cluster : shoal_cluster_default(),
                       .times = options.times,
                       .graph = graph,
                       .one_queue = options.times && !shoal_times_overlap(options.times),
                       .arena = &scratch};
    status = simulation->graph ? simulate(&sim, options.spans, simulation) : SHOAL_OOM();
  } else {
    status = SHOAL_OOM();
  }
  shoal_arena_deinit(&scratch);
  if (status) {
    shoal_arena_free(arena);
    return status;
  }
  *out_simulation = simulation;
  return NULL;
}

void shoal_simulation_free(shoal_simulation_t *simulation) {
  if (simulation) shoal_arena_free(simulation->arena);  // the simulation lies in it
}

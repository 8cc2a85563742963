// What a simulation found, as text to read, as JSON, and as a trace of what ran when.
#include "base/json.h"
#include "simulate/simulate_impl.h"

// "1.25 ms": three digits, in a unit that makes it easy to read.
static void add_seconds(shoal_text_t *text, double seconds) {
  static const struct {
    double unit;
    const char *name;
  } units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};
  int i = 0;
  while (i < 3 && seconds < units[i].unit) ++i;
  shoal_text_addf(text, "%.3g %s", seconds > 0 ? seconds / units[i].unit : 0.0,
                  seconds > 0 ? units[i].name : "s");
}

static void add_bytes(shoal_text_t *text, double bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int i = 0;
  for (; i < 5 && bytes >= 999.5; ++i) bytes /= 1024;
  shoal_text_addf(text, "%.3g %s", bytes, units[i]);
}

static void add_share(shoal_text_t *text, const char *what, double seconds, double all) {
  shoal_text_addf(text, ", %s ", what);
  add_seconds(text, seconds);
  shoal_text_addf(text, " (%.0f%%)", all > 0 ? 100 * seconds / all : 0.0);
}

// Where there are several queues of a kind: what each does.
static void add_queues(shoal_text_t *text, const shoal_simulated_t *group, double all) {
  int32_t kinds[SHOAL_QUEUE_KIND_COUNT] = {0};
  for (int32_t q = 0; q < group->queue_count; ++q) ++kinds[group->queues[q].kind];
  bool any = false;
  for (int32_t q = 0; q < group->queue_count; ++q) {
    const shoal_simulated_queue_t *queue = &group->queues[q];
    if (kinds[queue->kind] < 2) continue;
    shoal_text_addf(text, "%s%s ", any ? ", " : "\n    ", queue->name);
    any = true;
    add_seconds(text, queue->busy);
    shoal_text_addf(text, " (%.0f%%)", all > 0 ? 100 * queue->busy / all : 0.0);
  }
}

static void add_group(shoal_text_t *text, const shoal_simulated_t *group, double all) {
  shoal_text_addf(text, "  %lld rank%s from rank %d on, %s: compute ", (long long)group->rank_count,
                  group->rank_count == 1 ? "" : "s", group->first_rank, group->device);
  add_seconds(text, group->busy[SHOAL_QUEUE_COMPUTE]);
  add_share(text, "communication", group->busy[SHOAL_QUEUE_COMM], all);
  if (group->communication > 0) shoal_text_addf(text, ", %.0f%% of it hidden", 100 * group->hidden);
  add_share(text, "waiting for others", group->waiting, all);
  if (group->busy[SHOAL_QUEUE_COPY] > 0) {
    add_share(text, "copies", group->busy[SHOAL_QUEUE_COPY], all);
  }
  add_share(text, "idle", group->bubble, all);
  add_queues(text, group, all);
  shoal_text_add(text, "\n    memory ");
  add_bytes(text, (double)group->arena_bytes);
  if (group->memory > 0) {
    shoal_text_add(text, " of ");
    add_bytes(text, (double)group->memory);
    if (group->arena_bytes > group->memory) shoal_text_add(text, ": TOO MUCH");
  }
  shoal_text_add(text, "; each sends");
  bool any = false;
  for (int level = 0; level < SHOAL_SIM_LEVELS; ++level) {
    if (group->sent[level] <= 0) continue;
    shoal_text_addf(text, "%s ", any ? "," : "");
    add_bytes(text, group->sent[level]);
    shoal_text_addf(text, " (%s)", shoal_cluster_level_name((shoal_cluster_level_t)level));
    any = true;
  }
  shoal_text_add(text, any ? "\n" : " nothing\n");
}

shoal_status_t shoal_simulation_report(const shoal_simulation_t *simulation, shoal_arena_t *arena,
                                       const char **out_text) {
  shoal_text_t text;
  shoal_text_init(arena->allocator, &text);
  shoal_text_addf(&text, "%s on %d rank%s: ", simulation->graph, simulation->world,
                  simulation->world == 1 ? "" : "s");
  add_seconds(&text, simulation->seconds);
  shoal_text_add(&text, " a run");
  if (simulation->steps > 1) {
    shoal_text_add(&text, ", ");
    add_seconds(&text, simulation->step_seconds);
    shoal_text_add(&text, " each in a row");
  }
  shoal_text_add(&text, "\n");
  for (int64_t i = 0; i < simulation->count; ++i) {
    add_group(&text, &simulation->groups[i], simulation->seconds);
  }
  shoal_text_add(&text, "sent by all ranks:");
  for (int level = 0; level < SHOAL_SIM_LEVELS; ++level) {
    shoal_text_add(&text, level ? ", " : " ");
    add_bytes(&text, simulation->bytes[level]);
    shoal_text_addf(&text, " %s",
                    level == SHOAL_CLUSTER_NODE      ? "inside nodes"
                    : level == SHOAL_CLUSTER_NETWORK ? "between nodes"
                                                     : "between racks");
  }
  shoal_text_add(&text, "\n");
  return shoal_text_finish(&text, arena, out_text);
}

static void write_levels(shoal_json_writer_t *w, const char *key, const double *bytes) {
  shoal_json_begin(w, key, '{', true);
  for (int level = 0; level < SHOAL_SIM_LEVELS; ++level) {
    shoal_json_real(w, shoal_cluster_level_name((shoal_cluster_level_t)level), bytes[level]);
  }
  shoal_json_end(w, '}');
}

shoal_status_t shoal_simulation_json(const shoal_simulation_t *simulation, shoal_arena_t *arena,
                                     const char **out_text) {
  shoal_text_t text;
  shoal_text_init(arena->allocator, &text);
  shoal_json_writer_t w;
  shoal_json_writer_init(&text, &w);
  shoal_json_begin(&w, NULL, '{', false);
  shoal_json_string(&w, "graph", simulation->graph);
  shoal_json_int(&w, "ranks", simulation->world);
  shoal_json_real(&w, "seconds", simulation->seconds);
  shoal_json_real(&w, "step_seconds", simulation->step_seconds);
  shoal_json_bool(&w, "fits", simulation->fits);
  shoal_json_int(&w, "arena_bytes", simulation->arena_bytes);
  write_levels(&w, "sent_bytes", simulation->bytes);
  shoal_json_begin(&w, "groups", '[', false);
  for (int64_t i = 0; i < simulation->count; ++i) {
    const shoal_simulated_t *group = &simulation->groups[i];
    shoal_json_begin(&w, NULL, '{', false);
    shoal_json_int(&w, "class", group->class_index);
    shoal_json_int(&w, "ranks", group->rank_count);
    shoal_json_int(&w, "first_rank", group->first_rank);
    shoal_json_string(&w, "device", group->device);
    shoal_json_real(&w, "seconds", group->seconds);
    for (int q = 0; q < SHOAL_QUEUE_KIND_COUNT; ++q) {
      char key[48];
      snprintf(key, sizeof key, "%s_seconds", shoal_queue_kind_name((shoal_queue_kind_t)q));
      shoal_json_real(&w, key, group->busy[q]);
    }
    shoal_json_real(&w, "waiting_seconds", group->waiting);
    shoal_json_real(&w, "bubble_seconds", group->bubble);
    shoal_json_real(&w, "communication_seconds", group->communication);
    shoal_json_real(&w, "exposed_seconds", group->exposed);
    shoal_json_real(&w, "hidden_share", group->hidden);
    shoal_json_begin(&w, "queues", '[', true);
    for (int32_t q = 0; q < group->queue_count; ++q) {
      shoal_json_begin(&w, NULL, '{', true);
      shoal_json_string(&w, "name", group->queues[q].name);
      shoal_json_string(&w, "kind", shoal_queue_kind_name(group->queues[q].kind));
      shoal_json_real(&w, "seconds", group->queues[q].busy);
      shoal_json_end(&w, '}');
    }
    shoal_json_end(&w, ']');
    shoal_json_int(&w, "arena_bytes", group->arena_bytes);
    shoal_json_int(&w, "memory_bytes", group->memory);
    write_levels(&w, "sent_bytes", group->sent);
    shoal_json_end(&w, '}');
  }
  shoal_json_end(&w, ']');
  shoal_json_end(&w, '}');
  shoal_text_add(&text, "\n");
  return shoal_text_finish(&text, arena, out_text);
}

// ---- trace ----------------------------------------------------------------------------

// Chrome's trace format: complete events ("X") with times in microseconds; groups are processes,
// queues threads.
static void write_names(shoal_json_writer_t *w, const shoal_simulated_t *group, int64_t index) {
  for (int32_t q = -1; q < group->queue_count; ++q) {
    char name[120];
    if (q < 0) {
      snprintf(name, sizeof name, "%lld ranks from rank %d on, %s", (long long)group->rank_count,
               group->first_rank, group->device);
    } else {
      snprintf(name, sizeof name, "%s", group->queues[q].name);
    }
    shoal_json_begin(w, NULL, '{', true);
    shoal_json_string(w, "ph", "M");
    shoal_json_string(w, "name", q < 0 ? "process_name" : "thread_name");
    shoal_json_int(w, "pid", index);
    shoal_json_int(w, "tid", q < 0 ? 0 : q);
    shoal_json_begin(w, "args", '{', true);
    shoal_json_string(w, "name", name);
    shoal_json_end(w, '}');
    shoal_json_end(w, '}');
  }
}

shoal_status_t shoal_simulation_trace(const shoal_simulation_t *simulation, shoal_arena_t *arena,
                                      const char **out_text) {
  shoal_text_t text;
  shoal_text_init(arena->allocator, &text);
  shoal_json_writer_t w;
  shoal_json_writer_init(&text, &w);
  shoal_json_begin(&w, NULL, '{', false);
  shoal_json_string(&w, "displayTimeUnit", "ms");
  shoal_json_begin(&w, "traceEvents", '[', false);
  for (int64_t i = 0; i < simulation->count; ++i) write_names(&w, &simulation->groups[i], i);
  for (int64_t i = 0; i < simulation->span_count; ++i) {
    const shoal_simulated_span_t *span = &simulation->spans[i];
    shoal_json_begin(&w, NULL, '{', true);
    shoal_json_string(&w, "ph", "X");
    shoal_json_string(&w, "name", span->waits ? "wait" : span->name);
    const shoal_queue_kind_t kind = simulation->groups[span->group].queues[span->queue].kind;
    shoal_json_string(&w, "cat", span->waits ? "wait" : shoal_queue_kind_name(kind));
    shoal_json_int(&w, "pid", span->group);
    shoal_json_int(&w, "tid", span->queue);
    shoal_json_real(&w, "ts", span->start * 1e6);
    shoal_json_real(&w, "dur", (span->end - span->start) * 1e6);
    shoal_json_begin(&w, "args", '{', true);
    shoal_json_string(&w, "instruction", span->name);
    shoal_json_string(&w, "segment", span->segment);
    shoal_json_int(&w, "micro", span->micro);
    shoal_json_int(&w, "step", span->step);
    shoal_json_end(&w, '}');
    shoal_json_end(&w, '}');
  }
  shoal_json_end(&w, ']');
  shoal_json_end(&w, '}');
  shoal_text_add(&text, "\n");
  return shoal_text_finish(&text, arena, out_text);
}

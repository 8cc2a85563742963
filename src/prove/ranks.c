// What each rank does in a check: a session with taps through the whole schedule, then one without
// - taps slow queues down, so only the second shows whether they wait for each other, and whether
// runs do that follow each other, also of different graphs.
#include "prove/ranks.h"
#include "op/type.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "shoal/launch.h"

typedef struct rank_task {
  const shoal_check_job_t *job;
  shoal_world_t *world;
  shoal_record_log_t log;
} rank_task_t;

// The buffer this rank feeds an input into; -1: none, -2: several.
static int32_t fed_buffer(const shoal_class_t *class, const char *graph, const char *input) {
  int32_t found = -1;
  for (int64_t o = 0; o < class->order_count; ++o) {
    const shoal_order_t *order = &class->orders[o];
    if (strcmp(order->graph, graph) != 0) continue;
    for (int64_t k = 0; k < order->call_count; ++k) {
      const shoal_segment_t *segment = &class->segments[order->calls[k].segment];
      for (int64_t i = 0; i < segment->instruction_count; ++i) {
        const shoal_instruction_t *in = &segment->instructions[i];
        if (in->opcode != SHOAL_OPCODE_FEED || strcmp(in->name, input) != 0) continue;
        found = found == -1 || found == in->outputs[0] ? in->outputs[0] : -2;
      }
    }
  }
  return found;
}

// Is there a graph that needs the input in several layouts? Parts are fed to all graphs at once.
static bool is_fed_twice(const shoal_class_t *class, const char *input) {
  bool twice = false;
  for (int64_t o = 0; o < class->order_count && !twice; ++o)
    twice = fed_buffer(class, class->orders[o].graph, input) == -2;
  return twice;
}

// This rank's part of an input: what its boxes hold, micro-batch after micro-batch.
static shoal_status_t feed_part(shoal_session_t *session, const char *name,
                                const shoal_buffer_t *buffer, const void *whole,
                                shoal_arena_t *arena) {
  const shoal_program_t *program = shoal_session_program(session);
  int64_t position =
      shoal_mesh_position(buffer->layout->mesh, shoal_world_rank(shoal_session_world(session)));
  int64_t micros = shoal_layout_speaks_of_micro(buffer->layout) ? program->micro : 1;
  int64_t element = (int64_t)shoal_dtype_size(buffer->type.dtype), size = 0;
  char *data = shoal_arena_alloc(arena, (size_t)(micros * buffer->bytes), 1);
  if (!data) return SHOAL_OOM();
  for (int64_t m = 0; m < micros; ++m) {
    shoal_boxes_t boxes;
    SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(buffer->layout, &buffer->type.shape, position,
                                             micros > 1 ? m : -1, arena, &boxes));
    shoal_shape_t shape = shoal_boxes_shape(&boxes);
    SHOAL_RETURN_IF_ERROR(shoal_boxes_pack(&boxes, (size_t)element, whole, data + size));
    size += shoal_shape_count(&shape) * element;
  }
  return shoal_feed_part(session, name, data, (size_t)size);
}

// With taps the whole is fed; without, only what the rank holds, where it holds the input once.
static shoal_status_t feed(rank_task_t *task, shoal_session_t *session, const shoal_graph_t *graph,
                           bool parts, shoal_arena_t *arena) {
  const shoal_class_t *class = shoal_program_class_of(
      shoal_session_program(session), shoal_world_rank(shoal_session_world(session)));
  for (int64_t i = 0; i < graph->inputs.count; ++i) {
    const shoal_named_t *input = &graph->inputs.items[i];
    int64_t bytes = shoal_type_bytes(&graph->values.items[input->value].type);
    void *data = shoal_arena_alloc(arena, (size_t)bytes, 1);
    if (!data) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(
        shoal_feed_fill(task->job->options, graph, input->value, task->log.run, data));
    const bool part = parts && class && !is_fed_twice(class, input->name);
    const int32_t buffer = part ? fed_buffer(class, graph->name, input->name) : -2;
    if (buffer >= 0)
      SHOAL_RETURN_IF_ERROR(feed_part(session, input->name, &class->buffers[buffer], data, arena));
    if (buffer == -2) SHOAL_RETURN_IF_ERROR(shoal_feed(session, input->name, data, (size_t)bytes));
  }
  return NULL;
}

static bool is_on_request(const shoal_session_t *session, const char *graph, const char *output) {
  const shoal_program_t *program = shoal_session_program(session);
  bool found = false;
  for (int64_t i = 0; i < program->output_count; ++i)
    found |= program->outputs[i].on_request && strcmp(program->outputs[i].graph, graph) == 0 &&
             strcmp(program->outputs[i].name, output) == 0;
  return found;
}

// What is fetched on request takes memory for that: it is no part of the run. *out_allocations: how
// often that was.
static shoal_status_t fetch(rank_task_t *task, shoal_session_t *session, const shoal_graph_t *graph,
                            shoal_arena_t *arena, int64_t *out_allocations) {
  *out_allocations = 0;
  for (int64_t i = 0; i < graph->outputs.count; ++i) {
    const shoal_named_t *output = &graph->outputs.items[i];
    int64_t bytes = shoal_type_bytes(&graph->values.items[output->value].type);
    void *data = shoal_arena_alloc(arena, (size_t)bytes, 1);
    if (!data) return SHOAL_OOM();
    const int64_t before = shoal_session_counters(session).allocations;
    SHOAL_RETURN_IF_ERROR(shoal_fetch(session, output->name, data, (size_t)bytes));
    if (is_on_request(session, graph->name, output->name))
      *out_allocations += shoal_session_counters(session).allocations - before;
    shoal_record_add(&task->log, SHOAL_RECORD_OUTPUT, -1, -1, output->name, data, bytes);
  }
  return NULL;
}

static shoal_status_t get_states(rank_task_t *task, shoal_session_t *session,
                                 shoal_arena_t *arena) {
  const shoal_model_t *model = task->job->model;
  for (int64_t s = 0; s < model->states.count; ++s) {
    int64_t bytes = shoal_type_bytes(&model->states.items[s].type);
    void *data = shoal_arena_alloc(arena, (size_t)bytes, 1);
    if (!data) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(
        shoal_session_get(session, model->states.items[s].name, data, (size_t)bytes));
    shoal_record_add(&task->log, SHOAL_RECORD_STATE, -1, -1, model->states.items[s].name, data,
                     bytes);
  }
  return NULL;
}

// Without taps nothing is read after every other run: the next one may begin before it has ended.
static bool is_read(const rank_task_t *task, bool tapped) {
  const int32_t run = task->log.run;
  return tapped || run % 2 == 0 || run + 1 == task->job->run_count;
}

// One run of the schedule ("init" has been run by the session). Counts what Shoal allocates
// meanwhile.
static shoal_status_t one_run(rank_task_t *task, shoal_session_t *session, bool tapped,
                              shoal_arena_t *arena, int64_t *out_allocations) {
  const shoal_graph_t *graph =
      shoal_model_find_graph(task->job->model, task->job->graphs[task->log.run]);
  int64_t before = shoal_session_counters(session).allocations, apart = 0;
  if (task->log.run > 0) {
    SHOAL_RETURN_IF_ERROR(feed(task, session, graph, !tapped, arena));
    SHOAL_RETURN_IF_ERROR(shoal_run(session, graph->name));
    if (tapped) SHOAL_RETURN_IF_ERROR(shoal_session_wait(session));  // taps write into the log, too
    if (is_read(task, tapped)) SHOAL_RETURN_IF_ERROR(fetch(task, session, graph, arena, &apart));
  }
  *out_allocations = shoal_session_counters(session).allocations - before - apart;
  const bool last = task->log.run + 1 == task->job->run_count;  // reading states joins the queues
  return tapped || last ? get_states(task, session, arena) : NULL;
}

static shoal_status_t open_session(rank_task_t *task, bool tapped, shoal_session_t **out_session) {
  const shoal_check_job_t *job = task->job;
  shoal_parallelize_options_t options = {.allocator = job->allocator,
                                         .world = task->world,
                                         .plan = job->plan,
                                         .offload_dir = job->options->offload_dir,
                                         .opaque = job->options->opaque,
                                         .through_text = !job->program};
  options.provider = job->options->provider;
  options.provider_self = job->options->provider_self;
  if (tapped) options.tap = shoal_record_tap, options.tap_self = &task->log;
  if (job->program) return shoal_session_create(job->program, &options, out_session);
  return shoal_parallelize(job->model, &options, out_session);
}

static shoal_status_t one_session(rank_task_t *task, bool tapped) {
  const shoal_check_job_t *job = task->job;
  shoal_session_t *session = NULL;
  shoal_arena_t arena;
  shoal_arena_init(job->allocator, &arena);
  shoal_check_memory_t memory = {.steady_run = -1};
  task->log.run = 0;
  shoal_status_t status = open_session(task, tapped, &session);
  for (int32_t run = 0; run < job->run_count && !status; ++run) {
    int64_t allocations = 0;
    task->log.run = run;
    status = one_run(task, session, tapped, &arena, &allocations);
    if (status) {
      status = shoal_status_annotatef(status, "run %d, graph '%s'%s", run, job->graphs[run],
                                      tapped ? "" : " (without taps)");
    } else if (run >= 3 && strcmp(job->graphs[run], job->graphs[1]) == 0 && allocations > 0 &&
               memory.steady_run < 0) {
      memory.steady_run = run;
      memory.steady_allocations = allocations;
    }
  }
  if (!status && !tapped) {
    shoal_memory_report_t report = shoal_session_memory(session);
    memcpy(memory.planned, report.arena_planned, sizeof memory.planned);
    memcpy(memory.touched, report.arena_touched, sizeof memory.touched);
    shoal_record_add(&task->log, SHOAL_RECORD_MEMORY, -1, -1, "memory", &memory, sizeof memory);
  }
  shoal_session_free(session);
  shoal_arena_deinit(&arena);
  return status;
}

static shoal_status_t rank_run(rank_task_t *task) {
  shoal_status_t status = one_session(task, true);
  if (!status) status = one_session(task, false);
  if (!status && task->log.failed) status = SHOAL_OOM();
  return status;
}

// ---- ranks of its own ---------------------------------------------------------------------------

static shoal_ranks_options_t ranks_options(const shoal_check_job_t *job) {
  return (shoal_ranks_options_t){.allocator = job->allocator,
                                 .ranks = job->options->ranks,
                                 .processes = job->options->processes,
                                 .timeout_ms = job->options->timeout_ms};
}

static shoal_status_t thread_run(void *self, shoal_world_t *world, int32_t rank) {
  rank_task_t *task = (rank_task_t *)self + rank;
  task->world = world;
  return rank_run(task);
}

static shoal_status_t run_threads(const shoal_check_job_t *job, shoal_arena_t *arena,
                                  shoal_rank_log_t *out_logs) {
  const int32_t count = job->options->ranks;
  const shoal_ranks_options_t options = ranks_options(job);
  rank_task_t *tasks = SHOAL_NEW(arena, rank_task_t, count);
  if (!tasks) return SHOAL_OOM();
  for (int32_t r = 0; r < count; ++r) {
    tasks[r] = (rank_task_t){.job = job};
    shoal_record_log_init(job->allocator, &tasks[r].log);
  }
  shoal_status_t status = shoal_launch_ranks(&options, thread_run, tasks, NULL);
  for (int32_t r = 0; r < count; ++r) {
    out_logs[r].size = tasks[r].log.size;
    out_logs[r].data =
        status ? NULL : shoal_arena_copy(arena, tasks[r].log.data, (size_t)tasks[r].log.size, 1);
    if (!status && !out_logs[r].data) status = SHOAL_OOM();
    shoal_record_log_deinit(&tasks[r].log);
  }
  return status;
}

// A process writes its records into a folder that only this check knows.
typedef struct process_job {
  const shoal_check_job_t *job;
  char folder[256];
} process_job_t;

static void file_name(const process_job_t *p, int32_t rank, char *buffer, size_t size) {
  snprintf(buffer, size, "%s/records.%d", p->folder, rank);
}

static shoal_status_t process_run(void *self, shoal_world_t *world, int32_t rank) {
  const process_job_t *p = self;
  rank_task_t task = {.job = p->job, .world = world};
  char path[320];
  shoal_record_log_init(p->job->allocator, &task.log);
  shoal_status_t status = rank_run(&task);
  file_name(p, rank, path, sizeof path);
  if (!status) status = shoal_file_write(path, task.log.data, task.log.size);
  shoal_record_log_deinit(&task.log);
  return status;
}

static shoal_status_t run_processes(const shoal_check_job_t *job, shoal_arena_t *arena,
                                    shoal_rank_log_t *out_logs) {
  process_job_t p = {.job = job};
  const shoal_ranks_options_t options = ranks_options(job);
  const char *base = getenv("TMPDIR");
  snprintf(p.folder, sizeof p.folder, "%s/shoal-check-XXXXXX", base && *base ? base : "/tmp");
  if (!mkdtemp(p.folder))
    return SHOAL_ERROR(IO, "no folder for the ranks' records: %s: %s", p.folder, strerror(errno));
  shoal_status_t status = shoal_launch_ranks(&options, process_run, &p, NULL);
  for (int32_t r = 0; r < job->options->ranks; ++r) {
    char path[320];
    file_name(&p, r, path, sizeof path);
    if (!status) status = shoal_file_read(path, arena, &out_logs[r].data, &out_logs[r].size);
    unlink(path);
  }
  rmdir(p.folder);
  return status;
}

// ---- a world's own ranks ------------------------------------------------------------------------

// Every rank's records come to rank 0.
static shoal_status_t gather_logs(rank_task_t *task, shoal_arena_t *arena,
                                  shoal_rank_log_t *out_logs) {
  const int32_t n = shoal_world_size(task->world);
  const bool receives = shoal_world_rank(task->world) == 0;
  int64_t *sizes = SHOAL_NEW(arena, int64_t, n), *ones = SHOAL_NEW(arena, int64_t, n), total = 0;
  shoal_group_t *group = NULL;
  if (!sizes || !ones) return SHOAL_OOM();
  for (int32_t r = 0; r < n; ++r) ones[r] = 1;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(task->world, n, NULL, &group));
  shoal_status_t status = shoal_all_gather(group, SHOAL_I64, ones, &task->log.size, sizes);
  for (int32_t r = 0; r < n; ++r) total += sizes[r];
  char *all = NULL;
  if (!status && receives) all = shoal_arena_alloc(arena, (size_t)total + 1, 16);
  if (!status && receives && !all) status = SHOAL_OOM();
  status = status ? status : shoal_gather_to(group, SHOAL_U8, sizes, task->log.data, all, 0);
  for (int32_t r = 0; r < n && receives && !status; ++r) {
    out_logs[r] = (shoal_rank_log_t){.data = all, .size = sizes[r]};
    all += sizes[r];
  }
  shoal_group_free(group);
  return status;
}

static shoal_status_t run_joined(const shoal_check_job_t *job, shoal_arena_t *arena,
                                 shoal_rank_log_t *out_logs) {
  rank_task_t task = {.job = job, .world = job->options->world};
  shoal_record_log_init(job->allocator, &task.log);
  shoal_status_t status = rank_run(&task);
  if (!status) status = gather_logs(&task, arena, out_logs);
  if (status) shoal_world_abort(task.world, status);  // the others may wait for this rank
  shoal_record_log_deinit(&task.log);
  return status;
}

shoal_status_t shoal_check_ranks(const shoal_check_job_t *job, shoal_arena_t *arena,
                                 shoal_rank_log_t *out_logs) {
  if (job->options->world) return run_joined(job, arena, out_logs);
  return job->options->processes ? run_processes(job, arena, out_logs)
                                 : run_threads(job, arena, out_logs);
}

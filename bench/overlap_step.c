// What bench/overlap and bench/halo run on every rank: steps of several programs by turns, and what
// their instructions took. Rank 0 prints the seconds of a step, one line of JSON for each program
// and turn, and writes times files (PROGRAM.times) for `shoal simulate`. The programs do the same
// in different orders: their losses must be the same, to the bit. They may have products
// `bench.einsum`, which take MICROSECONDS longer without a core, as a device of the rank's own
// would, and products `bench.einsum_by_size` and convolutions `bench.conv` and
// `bench.conv_grad_x`, which take so long for every 1000 numbers they put out: pieces of one take
// as long as the whole.
//
//   overlap_step TURNS STEPS MICROSECONDS PROGRAM...
#include <shoal/shoal.h>
#include <shoal/simulate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_PROGRAMS = 4, WARM_UP = 2 };

typedef struct bench {
  shoal_arena_t *arena;
  shoal_world_t *world;
  shoal_registry_t *registry;
  int count;
  shoal_program_t *programs[MOST_PROGRAMS];
  shoal_session_t *sessions[MOST_PROGRAMS];
} bench_t;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// A record is registered once, and its kernel knows only its call: what is slow is global.
typedef struct slow_op {
  const char *plain, *name;
  bool by_size;  // else a pause for each call
  const shoal_op_t *op;
  shoal_op_t record;
} slow_op_t;
static slow_op_t slow_ops[] = {{"shoal.einsum", "bench.einsum", false},
                               {"shoal.einsum", "bench.einsum_by_size", true},
                               {"shoal.conv", "bench.conv", true},
                               {"shoal.conv_grad_x", "bench.conv_grad_x", true}};
enum { SLOW_OPS = sizeof slow_ops / sizeof slow_ops[0] };
static int64_t pause_us;

static shoal_status_t slow_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                  const shoal_tensor_t *outputs, void *workspace) {
  const slow_op_t *slow = slow_ops;
  while (strcmp(slow->name, call->op->name) != 0) ++slow;
  SHOAL_RETURN_IF_ERROR(slow->op->kernel(call, inputs, outputs, workspace));
  const int64_t us =
      slow->by_size ? pause_us * shoal_shape_count(&outputs[0].shape) / 1000 : pause_us;
  nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
  return NULL;
}

// `bench.NAME`: shoal.NAME, and then a pause.
static shoal_status_t register_slow_ops(shoal_registry_t *registry) {
  for (int i = 0; i < SLOW_OPS; ++i) {
    slow_op_t *slow = &slow_ops[i];
    SHOAL_RETURN_IF_ERROR(shoal_op_find(registry, slow->plain, &slow->op));
    slow->record = *slow->op;
    slow->record.name = slow->name;
    slow->record.kernel = slow_kernel;
    SHOAL_RETURN_IF_ERROR(shoal_op_register(registry, &slow->record));
  }
  return NULL;
}

// Feeds every input of `train`: floats in [0, 1), integers below 8.
static shoal_status_t feed(bench_t *bench, int which) {
  const shoal_program_t *program = bench->programs[which];
  for (int64_t i = 0; i < program->input_count; ++i) {
    const shoal_program_port_t *port = &program->inputs[i];
    if (strcmp(port->graph, "train") != 0) continue;
    const int64_t count = shoal_shape_count(&port->type.shape);
    const int64_t size = count * shoal_dtype_size(port->type.dtype);
    char *data = shoal_arena_alloc(bench->arena, (size_t)size, 1);
    if (!data) return SHOAL_ERROR(OUT_OF_MEMORY, "no memory for input '%s'", port->name);
    for (int64_t k = 0; k < count; ++k) {
      if (port->type.dtype == SHOAL_F32) {
        const float value = (float)(k * 7919 % 1000) * 1e-3f;
        memcpy(data + k * (int64_t)sizeof value, &value, sizeof value);
      } else {
        const int32_t value = (int32_t)(k % 8);
        memcpy(data + k * (int64_t)sizeof value, &value, sizeof value);
      }
    }
    SHOAL_RETURN_IF_ERROR(shoal_feed(bench->sessions[which], port->name, data, (size_t)size));
  }
  return NULL;
}

static shoal_status_t run(bench_t *bench, int which, int64_t steps, double *out_seconds) {
  shoal_session_t *session = bench->sessions[which];
  for (int i = 0; i < WARM_UP; ++i) SHOAL_RETURN_IF_ERROR(shoal_run(session, "train"));
  SHOAL_RETURN_IF_ERROR(shoal_session_wait(session));
  const double start = now();
  for (int64_t i = 0; i < steps; ++i) SHOAL_RETURN_IF_ERROR(shoal_run(session, "train"));
  SHOAL_RETURN_IF_ERROR(shoal_session_wait(session));
  *out_seconds = (now() - start) / (double)steps;
  return NULL;
}

static shoal_status_t open_programs(bench_t *bench, int count, char **paths) {
  for (int i = 0; i < count; ++i) {
    const char *text;
    int64_t size;
    SHOAL_RETURN_IF_ERROR(shoal_file_read(paths[i], bench->arena, &text, &size));
    SHOAL_RETURN_IF_ERROR(shoal_program_parse(paths[i], text, bench->registry,
                                              shoal_allocator_system(), &bench->programs[i]));
    SHOAL_RETURN_IF_ERROR(shoal_session_create(
        bench->programs[i], &(shoal_parallelize_options_t){.world = bench->world, .timed = true},
        &bench->sessions[i]));
    ++bench->count;
    SHOAL_RETURN_IF_ERROR(feed(bench, i));
  }
  return NULL;
}

static shoal_status_t write_times(bench_t *bench, int which, const char *path) {
  const char *text;
  char name[4096];
  SHOAL_RETURN_IF_ERROR(shoal_session_times(bench->sessions[which], "train", bench->arena, &text));
  if (shoal_world_rank(bench->world) != 0) return NULL;
  snprintf(name, sizeof name, "%s.times", path);
  return shoal_file_write(name, text, (int64_t)strlen(text));
}

static shoal_status_t compare(bench_t *bench) {
  float first = 0, loss;
  for (int i = 0; i < bench->count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_fetch(bench->sessions[i], "loss", &loss, sizeof loss));
    if (i == 0) first = loss;
    if (memcmp(&first, &loss, sizeof loss) == 0) continue;
    return SHOAL_ERROR(MISMATCH, "after as many steps the losses are %.9g and %.9g", (double)first,
                       (double)loss);
  }
  return NULL;
}

static shoal_status_t measure(bench_t *bench, int64_t turns, int64_t steps, char **paths) {
  for (int64_t turn = 0; turn < turns; ++turn) {
    for (int i = 0; i < bench->count; ++i) {
      double seconds;
      SHOAL_RETURN_IF_ERROR(run(bench, i, steps, &seconds));
      if (shoal_world_rank(bench->world) != 0) continue;
      printf("{\"program\": %d, \"seconds\": %.9g}\n", i, seconds);
      fflush(stdout);
    }
  }
  for (int i = 0; i < bench->count; ++i) {
    SHOAL_RETURN_IF_ERROR(write_times(bench, i, paths[i]));
  }
  return compare(bench);
}

int main(int argc, char **argv) {
  if (argc < 5 || argc - 4 > MOST_PROGRAMS) {
    fprintf(stderr, "usage: overlap_step TURNS STEPS MICROSECONDS PROGRAM...\n");
    return 2;
  }
  bench_t bench = {0};
  pause_us = strtoll(argv[3], NULL, 10);
  const shoal_allocator_t allocator = shoal_allocator_system();
  shoal_status_t status = NULL;
  SHOAL_GOTO_IF_ERROR(status, done, shoal_arena_create(allocator, &bench.arena));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_world_join(NULL, &bench.world));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_registry_create(allocator, &bench.registry));
  SHOAL_GOTO_IF_ERROR(status, done, register_slow_ops(bench.registry));
  SHOAL_GOTO_IF_ERROR(status, done, open_programs(&bench, argc - 4, argv + 4));
  SHOAL_GOTO_IF_ERROR(
      status, done,
      measure(&bench, strtoll(argv[1], NULL, 10), strtoll(argv[2], NULL, 10), argv + 4));
done:
  for (int i = 0; i < MOST_PROGRAMS; ++i) {
    shoal_session_free(bench.sessions[i]);
    shoal_program_free(bench.programs[i]);
  }
  shoal_registry_release(bench.registry);
  shoal_world_release(bench.world);
  shoal_arena_free(bench.arena);
  if (!status) return 0;
  shoal_status_print(status, stderr);
  const int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  return code;
}

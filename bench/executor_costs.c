// What bench/executor runs: the cost of driving queues of the CPU, with kernels that do nothing.
// One line of JSON per round, in nanoseconds.
//
//   executor_costs ROUNDS COUNT
//
// Of the host's thread, which alone works (its own time, without what other programs take):
//   launch, copy, fill      prepared, one queue in the calling thread: enqueued and run
//   runner                  an instruction of a program through the runner, in the calling thread
//   session                 the same in a session, whose queues are threads: the host's part
//   enqueue                 a prepared launch for a queue's thread: the host's part
//   record_await            a record on one queue, an await on another: the host's part
// Of the clock:
//   launch_thread           a prepared launch, until the queue's thread is done with it
//   hop                     a record on one thread lets an await on another go, to and fro
//   round_trip              the host enqueues a launch and a record and waits for the event
#include <semaphore.h>
#include <shoal/shoal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "run/run.h"

enum { BATCH = 500, INSTRUCTIONS = 1000 };

static double ns_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static double now(void) {
  return ns_of(CLOCK_MONOTONIC);
}

static double own(void) {  // of the calling thread
  return ns_of(CLOCK_THREAD_CPUTIME_ID);
}

// ---- an op that does nothing ----------------------------------------------------------

static shoal_status_t infer(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = call->inputs[0];
  return NULL;
}

static shoal_status_t nothing(const shoal_call_t *call, const shoal_tensor_t *inputs,
                              const shoal_tensor_t *outputs, void *workspace) {
  (void)call, (void)inputs, (void)outputs, (void)workspace;
  return NULL;
}

static const char *const input_names[] = {"x", "w"}, *const output_names[] = {"y"};
static const shoal_op_t op = {.name = "bench.nothing",
                              .doc = "leaves y as it is",
                              .input_count = 2,
                              .inputs = input_names,
                              .output_count = 1,
                              .outputs = output_names,
                              .infer = infer,
                              .kernel = nothing};

// ---- devices --------------------------------------------------------------------------

typedef struct work {
  shoal_device_t *device;
  shoal_queue_t *queues[2];
  shoal_event_t *events[2];
  shoal_address_t memory;
  shoal_type_t types[3];
  shoal_address_t addresses[3];
  shoal_piece_t piece;
  shoal_launch_t launch;
  shoal_copy_t copy;
  shoal_fill_t fill;
} work_t;

static shoal_status_t make_work(bool concurrent, shoal_arena_t *arena, work_t *w) {
  *w = (work_t){0};
  SHOAL_RETURN_IF_ERROR(
      shoal_device_create(&(shoal_device_options_t){.concurrent = concurrent}, &w->device));
  SHOAL_RETURN_IF_ERROR(shoal_device_alloc(w->device, 4096, &w->memory));
  for (int i = 0; i < 2; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_queue_create(w->device, &w->queues[i]));
    SHOAL_RETURN_IF_ERROR(shoal_queue_reserve(w->queues[i], 4 * BATCH));
    SHOAL_RETURN_IF_ERROR(shoal_event_create(w->device, &w->events[i]));
  }
  for (int i = 0; i < 3; ++i) {
    w->types[i] = (shoal_type_t){SHOAL_F32, SHOAL_SHAPE(4)};
    w->addresses[i] = w->memory + 64u * (unsigned)i;
  }
  w->launch = (shoal_launch_t){.call = {.op = &op,
                                        .input_count = 2,
                                        .output_count = 1,
                                        .inputs = w->types,
                                        .outputs = w->types + 2},
                               .inputs = w->addresses,
                               .outputs = w->addresses + 2};
  w->piece = (shoal_piece_t){.rank = 1, .size = {4}, .src_stride = {1}, .dst_stride = {1}};
  w->copy = (shoal_copy_t){.src = w->memory,
                           .dst = w->memory + 64,
                           .dtype = SHOAL_F32,
                           .piece_count = 1,
                           .pieces = &w->piece};
  w->fill = (shoal_fill_t){.dst = w->memory, .dtype = SHOAL_F32, .count = 4, .value = 1};
  SHOAL_RETURN_IF_ERROR(shoal_launch_prepare(w->device, arena, &w->launch));
  SHOAL_RETURN_IF_ERROR(shoal_copy_prepare(w->device, arena, &w->copy));
  return shoal_fill_prepare(w->device, arena, &w->fill);
}

static void free_work(work_t *w) {
  for (int i = 0; i < 2; ++i) {
    shoal_queue_free(w->queues[i]);
    if (w->events[i]) shoal_event_free(w->events[i]);
  }
  if (w->device) shoal_device_release(w->device, w->memory);
  shoal_device_free(w->device);
}

static shoal_status_t wait_both(work_t *w) {
  SHOAL_RETURN_IF_ERROR(shoal_queue_wait(w->queues[0]));
  return shoal_queue_wait(w->queues[1]);
}

// ---- what is measured -----------------------------------------------------------------

static shoal_status_t immediate(work_t *w, int64_t count) {
  const double start = own();
  for (int64_t i = 0; i < count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_queue_launch(w->queues[0], &w->launch));
  }
  const double launched = own();
  for (int64_t i = 0; i < count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_queue_copy(w->queues[0], &w->copy));
  }
  const double copied = own();
  for (int64_t i = 0; i < count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_queue_fill(w->queues[0], &w->fill));
  }
  const double n = (double)count;
  printf("\"launch\": %.1f, \"copy\": %.1f, \"fill\": %.1f, ", (launched - start) / n,
         (copied - launched) / n, (own() - copied) / n);
  return shoal_queue_wait(w->queues[0]);
}

// In batches that fit into the queue: the host never waits for room.
static shoal_status_t threaded(work_t *w, int64_t count) {
  double host = 0, total = 0, pairs = 0;
  for (int64_t done = 0; done < count; done += BATCH) {
    const double start = now(), own_start = own();
    for (int i = 0; i < BATCH; ++i) {
      SHOAL_RETURN_IF_ERROR(shoal_queue_launch(w->queues[0], &w->launch));
    }
    host += own() - own_start;
    SHOAL_RETURN_IF_ERROR(shoal_queue_wait(w->queues[0]));
    total += now() - start;
  }
  for (int64_t done = 0; done < count; done += BATCH) {
    const double start = own();
    for (int i = 0; i < BATCH; ++i) {
      SHOAL_RETURN_IF_ERROR(shoal_queue_record(w->queues[0], w->events[0]));
      SHOAL_RETURN_IF_ERROR(shoal_queue_await(w->queues[1], w->events[0]));
    }
    pairs += own() - start;
    SHOAL_RETURN_IF_ERROR(wait_both(w));
  }
  const double n = (double)((count + BATCH - 1) / BATCH * BATCH);
  printf("\"enqueue\": %.1f, \"launch_thread\": %.1f, \"record_await\": %.1f, ", host / n,
         total / n, pairs / n);
  return NULL;
}

typedef struct stamps {
  sem_t gate;
  double begin, end;
} stamps_t;

// When the host has enqueued everything and gone to sleep: two threads are left for two cores.
static shoal_status_t stamp_begin(void *self) {
  stamps_t *stamps = self;
  while (sem_wait(&stamps->gate) != 0) {
  }
  nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
  stamps->begin = now();
  return NULL;
}

static shoal_status_t stamp_end(void *self) {
  ((stamps_t *)self)->end = now();
  return NULL;
}

// Each queue waits for the other's latest record: BATCH hops after each other, none of them for the
// host.
static shoal_status_t latencies(work_t *w, int64_t count) {
  double hops = 0, trips = 0;
  for (int64_t done = 0; done < count; done += BATCH) {
    stamps_t stamps = {0};
    if (sem_init(&stamps.gate, 0, 0) != 0) return SHOAL_ERROR(UNAVAILABLE, "no semaphore");
    SHOAL_RETURN_IF_ERROR(shoal_queue_call(w->queues[0], stamp_begin, &stamps));
    for (int i = 0; i < BATCH; ++i) {
      SHOAL_RETURN_IF_ERROR(shoal_queue_record(w->queues[i % 2], w->events[i % 2]));
      SHOAL_RETURN_IF_ERROR(shoal_queue_await(w->queues[(i + 1) % 2], w->events[i % 2]));
    }
    SHOAL_RETURN_IF_ERROR(shoal_queue_call(w->queues[BATCH % 2], stamp_end, &stamps));
    sem_post(&stamps.gate);
    SHOAL_RETURN_IF_ERROR(wait_both(w));
    sem_destroy(&stamps.gate);
    hops += stamps.end - stamps.begin;
  }
  for (int64_t done = 0; done < count; ++done) {
    const double start = now();
    SHOAL_RETURN_IF_ERROR(shoal_queue_launch(w->queues[0], &w->launch));
    SHOAL_RETURN_IF_ERROR(shoal_queue_record(w->queues[0], w->events[0]));
    SHOAL_RETURN_IF_ERROR(shoal_event_wait(w->events[0]));
    trips += now() - start;
  }
  const double n = (double)((count + BATCH - 1) / BATCH * BATCH);
  printf("\"hop\": %.1f, \"round_trip\": %.1f, ", hops / n, trips / (double)count);
  return shoal_queue_wait(w->queues[0]);
}

// ---- a session ------------------------------------------------------------------------

// One segment: INSTRUCTIONS times the op, on one queue.
static shoal_status_t make_program(const shoal_registry_t *registry, shoal_arena_t *arena,
                                   shoal_program_t **out_program) {
  const size_t room = 1024 + 160 * (size_t)INSTRUCTIONS;
  char *text = shoal_arena_alloc(arena, room, 1);
  if (!text) return SHOAL_ERROR(OUT_OF_MEMORY, "no room for the program's text");
  size_t used = (size_t)snprintf(text, room,
                                 "shoal_program 1\nworld 1\nmicro 1\nmesh data=1\n"
                                 "state w f32[4] \"\" saved\nclass 0 ranks 0 arena 192\n"
                                 "  buffer 0 state 0 \"w\" f32[4] \"\" bytes 64 offset 0\n");
  for (int i = 1; i <= INSTRUCTIONS; ++i) {  // each reads the one before: two places are enough
    used += (size_t)snprintf(text + used, room - used,
                             "  buffer %d temp \"n%d\" f32[4] \"\" bytes 64 offset %d\n", i, i,
                             64 + 64 * (i % 2));
  }
  used += (size_t)snprintf(text + used, room - used,
                           "  segment 0 init\n    0 compute fill -> (0) value 1 \"w\"\n"
                           "  segment 1 train\n    0 compute fill -> (1) value 1 \"n1\"\n");
  for (int i = 1; i < INSTRUCTIONS; ++i) {
    used += (size_t)snprintf(text + used, room - used,
                             "    %d compute compute bench.nothing (%d, 0) -> (%d) \"n%d\"\n", i, i,
                             i + 1, i + 1);
  }
  snprintf(text + used, room - used, "  order init 0\n  order train 1\n");
  return shoal_program_parse("bench", text, registry, shoal_allocator_system(), out_program);
}

static shoal_status_t program_round(shoal_runner_t *runner, shoal_session_t *session,
                                    int64_t count) {
  const double start = own();
  for (int64_t done = 0; done < count; done += INSTRUCTIONS) {
    SHOAL_RETURN_IF_ERROR(shoal_runner_run(runner, "train"));
  }
  const double runner_end = own();
  for (int64_t done = 0; done < count; done += INSTRUCTIONS) {
    SHOAL_RETURN_IF_ERROR(shoal_run(session, "train"));
  }
  const double n = (double)((count + INSTRUCTIONS - 1) / INSTRUCTIONS * INSTRUCTIONS);
  printf("\"runner\": %.1f, \"session\": %.1f", (runner_end - start) / n, (own() - runner_end) / n);
  SHOAL_RETURN_IF_ERROR(shoal_runner_wait(runner));
  return shoal_session_wait(session);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: executor_costs ROUNDS COUNT\n");
    return 2;
  }
  const int64_t rounds = atoll(argv[1]), count = atoll(argv[2]);
  shoal_arena_t *arena = NULL;
  shoal_registry_t *registry = NULL;
  shoal_program_t *program = NULL;
  shoal_session_t *session = NULL;
  shoal_world_t *world = NULL;
  shoal_runner_t *runner = NULL;
  work_t here = {0}, threads = {0};
  shoal_status_t status = shoal_arena_create(shoal_allocator_system(), &arena);
  if (!status) status = make_work(false, arena, &here);
  if (!status) status = make_work(true, arena, &threads);
  if (!status) status = shoal_registry_create(shoal_allocator_system(), &registry);
  if (!status) status = shoal_op_register(registry, &op);
  if (!status) status = make_program(registry, arena, &program);
  if (!status) status = shoal_world_join(NULL, &world);
  if (!status) status = shoal_runner_create(program, world, here.device, NULL, &runner);
  if (!status) status = shoal_runner_run(runner, "init");
  if (!status) {
    const shoal_parallelize_options_t options = {.world = world};
    status = shoal_session_create(program, &options, &session);
  }
  for (int64_t round = -1; round < rounds && !status; ++round) {  // the first warms up
    if (round >= 0) printf("{");
    status = immediate(&here, round < 0 ? count / 10 : count);
    if (!status) status = threaded(&threads, round < 0 ? count / 10 : count);
    if (!status) status = latencies(&threads, count / 20);
    if (!status) status = program_round(runner, session, round < 0 ? count / 10 : count);
    printf(round < 0 ? "\n" : "}\n");
    fflush(stdout);
  }
  shoal_session_free(session);
  shoal_runner_free(runner);
  shoal_world_release(world);
  shoal_program_free(program);
  shoal_registry_release(registry);
  free_work(&here);
  free_work(&threads);
  shoal_arena_free(arena);
  if (!status) return 0;
  shoal_status_print(status, stderr);
  shoal_status_free(status);
  return 1;
}

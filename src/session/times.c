// Measured times of a session's runs as a times file (simulate/times.c): every rank's medians,
// averaged over the ranks of its class; and the link between the first two ranks, by messages there
// and back. Queues overlap, and so do runs: a step's time is that from the end of one to the end of
// the next.
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/status.h"
#include "base/time.h"
#include "device/device.h"
#include "session/session_impl.h"

#define SMALL_TRIES 15
#define LARGE_TRIES 5
#define LEAST_BYTES (64 * 1024)
#define MOST_BYTES (4 * 1024 * 1024)
#define ENOUGH_NS 5000000  // a message that takes this long measures bandwidth well

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// A message of `bytes` to rank 1 and an empty one back: seconds on rank 0, the median of `tries`.
static shoal_status_t ping(shoal_session_t *session, int64_t bytes, int tries, char *data,
                           double *out_seconds) {
  const int32_t rank = shoal_world_rank(session->world);
  double seconds[SMALL_TRIES] = {0};
  char reply = 0;
  *out_seconds = 0;
  for (int i = 0; i < tries && rank < 2; ++i) {
    const int64_t start = shoal_time_ns();
    if (rank == 0) {
      SHOAL_RETURN_IF_ERROR(shoal_send(session->everyone, 1, 0, bytes, data));
      SHOAL_RETURN_IF_ERROR(shoal_recv(session->everyone, 1, 1, 1, &reply));
    } else {
      SHOAL_RETURN_IF_ERROR(shoal_recv(session->everyone, 0, 0, bytes, data));
      SHOAL_RETURN_IF_ERROR(shoal_send(session->everyone, 0, 1, 1, &reply));
    }
    seconds[i] = 1e-9 * (double)(shoal_time_ns() - start);
  }
  qsort(seconds, (size_t)tries, sizeof *seconds, compare);
  *out_seconds = seconds[tries / 2];
  return NULL;
}

// All ranks call it; rank 0 gets the answer.
static shoal_status_t measure_link(shoal_session_t *session, shoal_arena_t *arena,
                                   double *out_latency, double *out_bandwidth) {
  char *data = shoal_arena_alloc(arena, MOST_BYTES, 1);
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(session->world, data ? NULL : SHOAL_OOM()));
  double round, trip;
  int64_t bytes = LEAST_BYTES;
  SHOAL_RETURN_IF_ERROR(ping(session, 1, SMALL_TRIES, data, &round));
  SHOAL_RETURN_IF_ERROR(ping(session, bytes, 1, data, &trip));
  if ((trip - round) * 1e9 < ENOUGH_NS) bytes = MOST_BYTES;  // rank 0 decides for both
  SHOAL_RETURN_IF_ERROR(shoal_broadcast(session->everyone, &bytes, sizeof bytes, 0));
  SHOAL_RETURN_IF_ERROR(ping(session, bytes, LARGE_TRIES, data, &trip));
  *out_latency = round / 2;
  *out_bandwidth = trip > round ? (double)bytes / (trip - round) : 0;
  return NULL;
}

static void write_instructions(const shoal_program_t *program, const double *seconds,
                               const double *counts, shoal_json_writer_t *w) {
  int64_t at = 0;
  shoal_json_begin(w, "instructions", '[', false);
  for (int64_t c = 0; c < program->class_count; ++c) {
    for (int64_t s = 0; s < program->classes[c].segment_count; ++s) {
      const shoal_segment_t *segment = &program->classes[c].segments[s];
      for (int64_t i = 0; i < segment->instruction_count; ++i, ++at) {
        // What communication takes depends on when the others come: it is left to the links.
        const shoal_instruction_t *in = &segment->instructions[i];
        if (counts[at] == 0 || in->channels) continue;
        shoal_json_begin(w, NULL, '{', true);
        shoal_json_int(w, "class", c);
        shoal_json_string(w, "segment", segment->name);
        shoal_json_int(w, "index", i);
        shoal_json_string(w, "name", in->name ? in->name : "");
        shoal_json_real(w, "seconds", seconds[at] / counts[at]);
        shoal_json_end(w, '}');
      }
    }
  }
  shoal_json_end(w, ']');
}

typedef struct measured {
  double *seconds, *counts;  // of each instruction: sums over ranks
  double run_seconds;        // of the slowest rank
  int64_t runs;
  double latency, bandwidth;  // 0: one rank
} measured_t;

static shoal_status_t write_file(const shoal_session_t *session, const char *graph,
                                 const measured_t *m, shoal_arena_t *arena, const char **out_text) {
  shoal_text_t text;
  shoal_text_init(session->allocator, &text);
  shoal_json_writer_t w;
  shoal_json_writer_init(&text, &w);
  shoal_json_begin(&w, NULL, '{', false);
  shoal_json_int(&w, "shoal_times", 1);
  shoal_json_string(&w, "graph", graph);
  shoal_json_int(&w, "ranks", session->program->world);
  shoal_json_int(&w, "steps", m->runs);
  shoal_json_bool(&w, "overlap", shoal_device_target(session->device).overlaps);
  shoal_json_real(&w, "step_seconds", m->run_seconds);
  if (m->bandwidth > 0) {
    shoal_json_begin(&w, "link", '{', true);
    shoal_json_real(&w, "latency", m->latency);
    shoal_json_real(&w, "bandwidth", m->bandwidth);
    shoal_json_end(&w, '}');
  }
  write_instructions(session->program, m->seconds, m->counts, &w);
  shoal_json_end(&w, '}');
  shoal_text_add(&text, "\n");
  return shoal_text_finish(&text, arena, out_text);
}

// Joins what the ranks measured, on all of them.
static shoal_status_t join(shoal_session_t *session, int64_t count, measured_t *m) {
  SHOAL_RETURN_IF_ERROR(shoal_all_reduce(session->everyone, SHOAL_F64, SHOAL_REDUCE_SUM, count,
                                         m->seconds, m->seconds));
  SHOAL_RETURN_IF_ERROR(shoal_all_reduce(session->everyone, SHOAL_F64, SHOAL_REDUCE_SUM, count,
                                         m->counts, m->counts));
  return shoal_all_reduce(session->everyone, SHOAL_F64, SHOAL_REDUCE_MAX, 1, &m->run_seconds,
                          &m->run_seconds);
}

shoal_status_t shoal_session_times(shoal_session_t *session, const char *graph,
                                   shoal_arena_t *arena, const char **out_text) {
  *out_text = NULL;
  graph = graph ? graph : "train";
  const int64_t count = shoal_runner_time_count(session->program);
  measured_t m = {.seconds = SHOAL_NEW(arena, double, count),
                  .counts = SHOAL_NEW(arena, double, count)};
  shoal_status_t status = m.seconds && m.counts ? NULL : SHOAL_OOM();
  if (!status && !session->runner) {
    status = SHOAL_ERROR(INVALID_ARGUMENT, "a dry run measures nothing");
  }
  if (!session->runner) return shoal_world_agree(session->world, status);
  SHOAL_RETURN_IF_ERROR(shoal_runner_meet(session->runner, "shoal_session_times", graph, status));
  status = shoal_runner_times(session->runner, graph, m.seconds, m.counts, &m.run_seconds, &m.runs);
  SHOAL_RETURN_IF_ERROR(shoal_runner_agree(session->runner, status));
  if (shoal_world_size(session->world) > 1) {
    SHOAL_RETURN_IF_ERROR(join(session, count, &m));
    SHOAL_RETURN_IF_ERROR(measure_link(session, arena, &m.latency, &m.bandwidth));
  }
  return write_file(session, graph, &m, arena, out_text);
}

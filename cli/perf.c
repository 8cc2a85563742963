// `shoal perf comm`: latency, algorithm and bus bandwidth of collectives, over a sweep of sizes.
//
// A sample is many calls back to back between two barriers (hot), or one call after the ranks'
// buffers were flushed from the caches (cold). Bytes are those of the whole buffer: all_gather's
// result, reduce_scatter's and all_to_all's input. Algorithm bandwidth is bytes over time; bus
// bandwidth what each rank's link would have to carry (all_reduce: 2 (n-1)/n of it, and so on).
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "planning.h"
#include "print.h"
#include "ranks.h"
#include "shoal/comm.h"

typedef struct perf_command {
  int64_t ranks, samples, sample_ms;
  const char *collective, *sizes, *dtype;
  int format;
  bool threads, private, cold, any_order, table, help;
} perf_command_t;

static const char *const formats[] = {"text", "json", NULL};

static const shoal_option_t OPTIONS[] = {
    SHOAL_OPTION(perf_command_t, INT, ranks, "2", "ranks; under a launcher its own", .letter = 'n'),
    SHOAL_OPTION(perf_command_t, BOOL, threads, NULL, "ranks are threads of this process",
                 .no_environment = true),
    SHOAL_OPTION(perf_command_t, STRING, collective, "auto",
                 "which, separated by commas; auto: all of them", .argument = "NAME,...",
                 .no_environment = true),
    SHOAL_OPTION(perf_command_t, STRING, sizes, "1K:64M:4", "bytes FROM:TO:FACTOR, or one size",
                 .argument = "WORD", .no_environment = true),
    SHOAL_OPTION(perf_command_t, STRING, dtype, "f32", "element type", .argument = "NAME",
                 .no_environment = true),
    SHOAL_OPTION(perf_command_t, INT, samples, "9", "samples of each; the median is shown",
                 .no_environment = true),
    SHOAL_OPTION(perf_command_t, INT, sample_ms, "5", "time of one sample, of small sizes",
                 .no_environment = true),
    SHOAL_OPTION(perf_command_t, BOOL, private, NULL,
                 "buffers that other ranks cannot address, instead of shoal_comm_alloc's",
                 .no_environment = true),
    SHOAL_OPTION(perf_command_t, BOOL, cold, NULL,
                 "flush the buffers from the caches before each call", .no_environment = true),
    SHOAL_OPTION(perf_command_t, BOOL, any_order, NULL, "reductions may combine ranks in any order",
                 .no_environment = true),
    SHOAL_OPTION(perf_command_t, BOOL, table, NULL,
                 "print the table of algorithms (SHOAL_COMM_TABLE goes before it) and stop",
                 .no_environment = true),
    SHOAL_OPTION(perf_command_t, ENUM, format, "text", "text or json", .choices = formats,
                 .no_environment = true),
    SHOAL_OPTION(perf_command_t, BOOL, help, NULL, "this list", .letter = 'h'),
};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof *OPTIONS, MAX_SAMPLES = 99, MAX_RANKS = 1024 };

typedef struct perf {
  const perf_command_t *command;
  FILE *out;
  bool wanted[SHOAL_COLLECTIVE_COUNT];
  int64_t from, to, factor;
  shoal_dtype_t dtype;
} perf_t;

// One rank's side of the measurement.
typedef struct meter {
  const perf_t *perf;
  shoal_world_t *world;
  shoal_group_t *group;
  int32_t n, rank;
  uint8_t *send, *recv;
  int64_t bytes;  // of each buffer
  int64_t counts[MAX_RANKS];
  bool first;  // no line was printed yet
} meter_t;

// ---- what is asked for --------------------------------------------------------------------------

static shoal_status_t parse_sizes(const char *text, perf_t *perf) {
  char parts[3][32] = {"", "", "4"};
  const int found = sscanf(text, "%31[^:]:%31[^:]:%31[^:]", parts[0], parts[1], parts[2]);
  if (found == 1) memcpy(parts[1], parts[0], sizeof parts[1]);
  if (found < 1 || !shoal_size_parse(parts[0], &perf->from) ||
      !shoal_size_parse(parts[1], &perf->to) || !shoal_size_parse(parts[2], &perf->factor) ||
      perf->from < 1 || perf->to < perf->from || perf->factor < 2) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "as in --sizes 1K:256M:4", "'%s' are no sizes", text);
  }
  return NULL;
}

static shoal_status_t parse_collectives(const char *text, perf_t *perf) {
  const char *names[SHOAL_COLLECTIVE_COUNT];
  for (int i = 0; i < SHOAL_COLLECTIVE_COUNT; ++i) {
    names[i] = shoal_collective_name((shoal_collective_kind_t)i);
    perf->wanted[i] = strcmp(text, "auto") == 0;
  }
  if (strcmp(text, "auto") == 0) return NULL;
  while (*text) {
    char word[32];
    const size_t length = strcspn(text, ",");
    snprintf(word, sizeof word, "%.*s", (int)length, text);
    int kind = 0;
    while (kind < SHOAL_COLLECTIVE_COUNT && strcmp(word, names[kind]) != 0) ++kind;
    if (kind == SHOAL_COLLECTIVE_COUNT) {
      shoal_hint_t hint;
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                              shoal_did_you_mean(word, names, SHOAL_COLLECTIVE_COUNT,
                                                 "as in all_reduce,barrier", &hint),
                              "there is no collective '%s'", word);
    }
    perf->wanted[kind] = true;
    text += length + (text[length] == ',');
  }
  return NULL;
}

// ---- one call -----------------------------------------------------------------------------------

// What shoal/collectives.inc says of a kind, as far as it matters here.
enum { NONE, ALL, UP_TO, BEFORE };     // whose elements are joined
enum { NOTHING, COUNT, PART, PARTS };  // in a buffer
enum { ONCE, SHARE, TWICE };           // over a link
static const struct {
  int joins, sends, receives, traffic;
} facts[] = {
#define SHOAL_COLLECTIVE(id, name, joins, sends, sender, receives, receiver, traffic) \
  [SHOAL_COLLECTIVE_##id] = {joins, sends, receives, traffic},
#include "shoal/collectives.inc"
#undef SHOAL_COLLECTIVE
};

// Buffers of `bytes` in all, whatever the kind: parts are equal, but for what does not divide.
// Whole buffers are sent in place, unless every rank gets another result.
static shoal_collective_t call_of(meter_t *m, shoal_collective_kind_t kind, int64_t bytes) {
  const int64_t count = bytes / (int64_t)shoal_dtype_size(m->perf->dtype);
  const bool sends_parts = facts[kind].sends == PARTS,
             receives_parts = facts[kind].receives == PARTS;
  const bool whole = facts[kind].sends == COUNT && facts[kind].receives == COUNT;
  const bool in_place = whole && facts[kind].joins != UP_TO && facts[kind].joins != BEFORE;
  for (int32_t i = 0; i < m->n; ++i) {
    m->counts[i] = count / m->n;
    if (!sends_parts || !receives_parts) m->counts[i] += i < count % m->n;
  }
  return (shoal_collective_t){.kind = kind,
                              .dtype = m->perf->dtype,
                              .reduce = SHOAL_REDUCE_SUM,
                              .any_order = m->perf->command->any_order,
                              .count = whole ? count : 0,
                              .send_counts = sends_parts ? m->counts : NULL,
                              .recv_counts = receives_parts ? m->counts : NULL,
                              .send = in_place ? m->recv : m->send,
                              .recv = m->recv};
}

static double bus_factor(shoal_collective_kind_t kind, int32_t n) {
  const double share = (double)(n - 1) / n;
  return facts[kind].traffic == TWICE ? 2 * share : facts[kind].traffic == SHARE ? share : 1;
}

static void flush(const uint8_t *data, int64_t bytes) {
#if defined(__x86_64__)
  for (int64_t i = 0; i < bytes; i += 64) __builtin_ia32_clflush(data + i);
  __builtin_ia32_mfence();
#else
  (void)data, (void)bytes;
#endif
}

// ---- measuring ----------------------------------------------------------------------------------

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

// Seconds of a call in one sample of `calls`, the slowest rank's.
static shoal_status_t sample(meter_t *m, const shoal_collective_t *c, int64_t calls, int64_t bytes,
                             double *out_seconds) {
  if (m->perf->command->cold) {
    flush(m->send, bytes);
    flush(m->recv, bytes);
  }
  SHOAL_RETURN_IF_ERROR(shoal_barrier(m->group));
  const int64_t start = cli_time_ns();
  for (int64_t i = 0; i < calls; ++i) SHOAL_RETURN_IF_ERROR(shoal_collective_run(m->group, c));
  double seconds = (double)(cli_time_ns() - start) * 1e-9 / (double)calls;
  SHOAL_RETURN_IF_ERROR(
      shoal_all_reduce(m->group, SHOAL_F64, SHOAL_REDUCE_MAX, 1, &seconds, &seconds));
  *out_seconds = seconds;
  return NULL;
}

static void print_line(meter_t *m, shoal_collective_kind_t kind, int64_t bytes,
                       const double *seconds, int64_t count) {
  FILE *out = m->perf->out;
  const double median = seconds[count / 2];
  const double algorithm = (double)bytes / median * 1e-9;
  const double bus = algorithm * bus_factor(kind, m->n);
  if (m->perf->command->format == 1) {
    fprintf(
        out,
        "%s\n{\"collective\": \"%s\", \"bytes\": %lld, \"us\": %.3f, \"us_min\": %.3f, \"us_max\": "
        "%.3f, \"algorithm_gb_s\": %.4f, \"bus_gb_s\": %.4f}",
        m->first ? "" : ",", shoal_collective_name(kind), (long long)bytes, median * 1e6,
        seconds[0] * 1e6, seconds[count - 1] * 1e6, algorithm, bus);
  } else {
    fprintf(out, "%-15s %12lld %12.2f %12.2f %12.2f %10.2f %10.2f\n", shoal_collective_name(kind),
            (long long)bytes, median * 1e6, seconds[0] * 1e6, seconds[count - 1] * 1e6, algorithm,
            bus);
  }
  m->first = false;
  fflush(out);
}

static shoal_status_t measure(meter_t *m, shoal_collective_kind_t kind, int64_t bytes) {
  const perf_command_t *command = m->perf->command;
  const shoal_collective_t c = call_of(m, kind, bytes);
  double seconds[MAX_SAMPLES], once;
  SHOAL_RETURN_IF_ERROR(sample(m, &c, 1, bytes, &once));  // warm
  SHOAL_RETURN_IF_ERROR(sample(m, &c, command->cold ? 1 : 3, bytes, &once));
  int64_t calls = command->cold ? 1 : (int64_t)((double)command->sample_ms * 1e-3 / (once + 1e-9));
  calls = calls < 1 ? 1 : calls > 5000 ? 5000 : calls;
  for (int64_t i = 0; i < command->samples; ++i) {
    SHOAL_RETURN_IF_ERROR(sample(m, &c, calls, bytes, &seconds[i]));
  }
  qsort(seconds, (size_t)command->samples, sizeof *seconds, by_value);
  if (m->rank == 0) print_line(m, kind, bytes, seconds, command->samples);
  return NULL;
}

static shoal_status_t sweep(meter_t *m) {
  for (int kind = 0; kind < SHOAL_COLLECTIVE_COUNT; ++kind) {
    if (!m->perf->wanted[kind]) continue;
    if (kind == SHOAL_COLLECTIVE_BARRIER) {
      SHOAL_RETURN_IF_ERROR(measure(m, SHOAL_COLLECTIVE_BARRIER, 0));
      continue;
    }
    for (int64_t bytes = m->perf->from; bytes <= m->perf->to; bytes *= m->perf->factor) {
      SHOAL_RETURN_IF_ERROR(measure(m, (shoal_collective_kind_t)kind, bytes));
    }
  }
  return NULL;
}

static shoal_status_t buffer(meter_t *m, uint8_t **out_data) {
  void *data = NULL;
  if (m->perf->command->private) {
    shoal_allocator_t system = shoal_allocator_system();
    data = system.alloc(system.self, (size_t)m->bytes);
    if (!data) return SHOAL_OOM();
  } else {
    SHOAL_RETURN_IF_ERROR(shoal_comm_alloc(m->world, m->bytes, &data));
  }
  memset(data, 0, (size_t)m->bytes);  // so that its pages are there
  *out_data = data;
  return NULL;
}

static void free_buffer(meter_t *m, void *data) {
  if (m->perf->command->private) {
    shoal_allocator_t system = shoal_allocator_system();
    system.free(system.self, data);
  } else {
    shoal_comm_release(m->world, data);
  }
}

static shoal_status_t run_rank(void *self, shoal_world_t *world, int32_t rank) {
  const perf_t *perf = self;
  meter_t m = {.perf = perf,
               .world = world,
               .n = shoal_world_size(world),
               .rank = rank,
               .bytes = perf->to,
               .first = true};
  SHOAL_RETURN_IF_ERROR(shoal_group_create(world, m.n, NULL, &m.group));
  shoal_status_t status = buffer(&m, &m.send);
  if (!status) status = buffer(&m, &m.recv);
  status = shoal_world_agree(world, status);
  const bool json = perf->command->format == 1;
  if (!status && m.rank == 0 && json) {
    fprintf(perf->out,
            "{\"perf\": \"comm\", \"backend\": \"%s\", \"ranks\": %d, \"dtype\": \"%s\", "
            "\"cold\": %s, \"private\": %s, \"results\": [",
            shoal_world_backend(world), m.n, shoal_dtype_name(perf->dtype),
            perf->command->cold ? "true" : "false", perf->command->private ? "true" : "false");
  } else if (!status && m.rank == 0) {
    fprintf(perf->out,
            "%d ranks, backend %s, %s, %s caches, %s buffers\n%-15s %12s %12s %12s %12s %10s "
            "%10s\n",
            m.n, shoal_world_backend(world), shoal_dtype_name(perf->dtype),
            perf->command->cold ? "cold" : "hot",
            perf->command->private ? "private" : "node-addressable", "collective", "bytes", "us",
            "min", "max", "alg GB/s", "bus GB/s");
  }
  if (!status) status = sweep(&m);
  if (!status && m.rank == 0 && json) fprintf(perf->out, "\n]}\n");
  fflush(perf->out);
  free_buffer(&m, m.send);
  free_buffer(&m, m.recv);
  shoal_group_free(m.group);
  return status;
}

// ---- the command --------------------------------------------------------------------------------

static shoal_status_t run(const perf_command_t *command, bool ranks_given,
                          const shoal_words_t *words, shoal_arena_t *arena, FILE *out) {
  if (words->count != 1 || strcmp(words->items[0], "comm") != 0) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "shoal perf comm [OPTIONS]",
                            "what there is to measure is 'comm'%s%s", words->count ? ", not " : "",
                            words->count ? words->items[0] : "");
  }
  if (command->table) {
    const char *text = NULL;
    SHOAL_RETURN_IF_ERROR(shoal_comm_table_print(arena, &text));
    fputs(text, out);
    return NULL;
  }
  perf_t perf = {.command = command, .out = out};
  SHOAL_RETURN_IF_ERROR(parse_sizes(command->sizes, &perf));
  SHOAL_RETURN_IF_ERROR(parse_collectives(command->collective, &perf));
  if (!shoal_dtype_parse(command->dtype, &perf.dtype)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "there is no element type '%s'", command->dtype);
  }
  if (command->samples < 1 || command->samples > MAX_SAMPLES || command->sample_ms < 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "--samples is 1 to %d", MAX_SAMPLES);
  }
  const cli_ranks_t ranks = {command->ranks, ranks_given, command->threads};
  return cli_ranks_run(&ranks, run_rank, &perf);
}

shoal_status_t cli_perf(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  perf_command_t command = {0};
  shoal_words_t words = {0};
  shoal_status_t status =
      cli_options("perf", "comm", OPTIONS, OPTION_COUNT, argc, argv, arena, &command, &words, out);
  if (!status && !command.help)
    status = run(&command, cli_ranks_given(argc, argv), &words, arena, out);
  return status;
}

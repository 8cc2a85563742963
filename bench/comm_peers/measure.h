// How the peers of bench/comm measure: as `shoal perf comm` does. A sample is calls back to back
// between barriers (hot), or one call after the buffers were flushed from the caches (cold); the
// slowest rank counts, the median of the samples is printed, one JSON object a line.
//
// The includer defines: barrier(), slowest(seconds) on all ranks, call(collective, bytes), and the
// buffers.
#ifndef SHOAL_BENCH_COMM_PEERS_MEASURE_H_
#define SHOAL_BENCH_COMM_PEERS_MEASURE_H_

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BROADCAST, ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, COLLECTIVES };
static const char *const collective_names[] = {"broadcast", "all_reduce", "all_gather",
                                               "reduce_scatter", "all_to_all"};

static void barrier(void);
static double slowest(double seconds);
static void call(int collective, int64_t bytes);

static char *send_buffer, *recv_buffer;  // this rank's
static int rank_of_this;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void flush(const char *data, int64_t bytes) {
#if defined(__x86_64__)
  for (int64_t i = 0; i < bytes; i += 64) __builtin_ia32_clflush(data + i);
  __builtin_ia32_mfence();
#endif
}

static double sample(int collective, int64_t bytes, int64_t calls, bool cold) {
  if (cold) {
    flush(send_buffer, bytes);
    flush(recv_buffer, bytes);
  }
  barrier();
  const double start = now();
  for (int64_t i = 0; i < calls; ++i) call(collective, bytes);
  return slowest((now() - start) / (double)calls);
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static bool is_wanted(const char *name, char **wanted) {
  if (!*wanted) return true;
  while (*wanted && strcmp(*wanted, name) != 0) ++wanted;
  return *wanted != NULL;
}

// Arguments from argv[1]: hot|cold, samples, milliseconds of a sample, smallest and largest bytes,
// factor; then the collectives, if not all.
static void sweep(char **argv) {
  const bool cold = strcmp(argv[1], "cold") == 0;
  const int samples = atoi(argv[2]);
  const double sample_seconds = atof(argv[3]) * 1e-3;
  double seconds[99];
  for (int c = 0; c < COLLECTIVES; ++c) {
    if (!is_wanted(collective_names[c], argv + 7)) continue;
    for (int64_t bytes = atoll(argv[4]); bytes <= atoll(argv[5]); bytes *= atoll(argv[6])) {
      sample(c, bytes, 1, cold);
      const double once = sample(c, bytes, cold ? 1 : 3, cold);
      int64_t calls = cold ? 1 : (int64_t)(sample_seconds / (once + 1e-9));
      calls = calls < 1 ? 1 : calls > 5000 ? 5000 : calls;
      for (int i = 0; i < samples; ++i) seconds[i] = sample(c, bytes, calls, cold);
      qsort(seconds, (size_t)samples, sizeof *seconds, by_value);
      if (rank_of_this == 0) {
        printf("{\"collective\": \"%s\", \"bytes\": %lld, \"us\": %.3f}\n", collective_names[c],
               (long long)bytes, seconds[samples / 2] * 1e6);
      }
    }
  }
}

#endif  // SHOAL_BENCH_COMM_PEERS_MEASURE_H_

// The limit bench/comm compares with: processes on plain shared buffers, nothing but the loop.
// all_reduce is "kernel B": each rank sums its slice of all buffers and writes it to all of them;
// reduce_scatter sums into its own. The others copy, shared out among the processes, as many bytes
// as the collective delivers.
//
//   kernel RANKS hot|cold SAMPLES MILLISECONDS FROM TO FACTOR [COLLECTIVE...]
//   kernel RANKS limits x x x BYTES x    what a barrier takes, and how fast all copy at once
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure.h"

enum { MAX_RANKS = 128, BLOCK = 2048 };

typedef struct seat {
  _Alignas(128) _Atomic unsigned arrived;
  double seconds;
} seat_t;

static seat_t *seats;
static char *sends[MAX_RANKS], *recvs[MAX_RANKS];
static int ranks;
static unsigned turn;

static void barrier(void) {
  atomic_store(&seats[rank_of_this].arrived, ++turn);
  for (int i = 0; i < ranks; ++i) {
    while ((int)(atomic_load(&seats[i].arrived) - turn) < 0) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  }
}

static double slowest(double seconds) {
  seats[rank_of_this].seconds = seconds;
  barrier();
  for (int i = 0; i < ranks; ++i) {
    if (seats[i].seconds > seconds) seconds = seats[i].seconds;
  }
  barrier();
  return seconds;
}

static void sum_to_both(int64_t count, const float *a, const float *b, float *first,
                        float *second) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    const float sum = a[i] + b[i];
    first[i] = sum;
    second[i] = sum;
  }
}

static void sum(int64_t count, const float *a, const float *b, float *out) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

// Bytes [at, at + bytes) of all `from`, summed block by block, to `n_outs` buffers at out_at.
static void sum_all(char **from, int64_t at, int64_t bytes, char **outs, int n_outs,
                    int64_t out_at) {
  float sums[BLOCK];
  for (int64_t done = 0; done < bytes; done += BLOCK * 4) {
    const int64_t count = (bytes - done < BLOCK * 4 ? bytes - done : BLOCK * 4) / 4;
    sum(count, (float *)(from[0] + at + done), (float *)(from[1] + at + done), sums);
    for (int i = 2; i < ranks; ++i) sum(count, sums, (float *)(from[i] + at + done), sums);
    for (int i = 0; i < n_outs; ++i) memcpy(outs[i] + out_at + done, sums, (size_t)count * 4);
  }
}

static void call(int collective, int64_t bytes) {
  const int64_t part = bytes / ranks, at = rank_of_this * part;
  barrier();
  switch (collective) {
    case BROADCAST:
      for (int i = 1; i < ranks; ++i) memcpy(recvs[i] + at, recvs[0] + at, (size_t)part);
      break;
    case ALL_REDUCE:
      if (ranks == 2) {
        sum_to_both(part / 4, (float *)(recvs[0] + at), (float *)(recvs[1] + at),
                    (float *)(recvs[0] + at), (float *)(recvs[1] + at));
      } else {
        sum_all(recvs, at, part, recvs, ranks, at);
      }
      break;
    case REDUCE_SCATTER:
      if (ranks == 2) {
        sum(part / 4, (float *)(sends[0] + at), (float *)(sends[1] + at), (float *)recv_buffer);
      } else {
        sum_all(sends, at, part, &recv_buffer, 1, 0);
      }
      break;
    default:
      for (int k = 0; k < ranks; ++k) {
        const int i = (rank_of_this + k) % ranks;
        memcpy(recv_buffer + i * part, sends[i] + (i == rank_of_this ? 0 : at), (size_t)part);
      }
  }
  barrier();
}

// Best of several: what the machine can do.
static void print_limits(int64_t largest) {
  double best = 1, copy[2] = {1, 1};
  for (int i = 0; i < 20; ++i) {
    const double start = now();
    for (int k = 0; k < 1000; ++k) barrier();
    const double seconds = slowest((now() - start) / 1000);
    if (seconds < best) best = seconds;
  }
  const int64_t sizes[2] = {256 << 10, largest};
  for (int s = 0; s < 2; ++s) {
    const int64_t calls = s == 0 ? 200 : 1;
    for (int i = 0; i < 5; ++i) {
      barrier();
      const double start = now();
      for (int64_t k = 0; k < calls; ++k) memcpy(recv_buffer, send_buffer, (size_t)sizes[s]);
      const double seconds = slowest((now() - start) / (double)calls);
      if (seconds < copy[s]) copy[s] = seconds;
    }
  }
  if (rank_of_this != 0) return;
  printf("{\"barrier_us\": %.3f, \"cache_copy_gb_s\": %.1f, \"memory_copy_gb_s\": %.1f}\n",
         best * 1e6, 1e-9 * ranks * (double)sizes[0] / copy[0],
         1e-9 * ranks * (double)sizes[1] / copy[1]);
}

// One core for each, as the launchers of the others do.
static void pin(void) {
  cpu_set_t allowed, mine;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  CPU_ZERO(&mine);
  for (int core = 0, seen = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed) && seen++ == rank_of_this) CPU_SET(core, &mine);
  }
  if (CPU_COUNT(&mine) == 1) sched_setaffinity(0, sizeof mine, &mine);
}

int main(int argc, char **argv) {
  if (argc < 8 || (ranks = atoi(argv[1])) < 2 || ranks > MAX_RANKS) return 2;
  // Starts are apart by odd numbers of pages: equal low bits of addresses cost some processors
  // dearly.
  const size_t bytes = (size_t)atoll(argv[6]), room = bytes + (1 << 20);
  const size_t seat_bytes = (sizeof(seat_t) * MAX_RANKS + 4095) / 4096 * 4096;
  char *memory = mmap(NULL, seat_bytes + 2 * (size_t)ranks * room, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return 1;
  seats = (seat_t *)memory;
  for (size_t i = 0; i < (size_t)ranks; ++i) {
    sends[i] = memory + seat_bytes + 2 * i * room + i * 17 % 128 * 4096;
    recvs[i] = memory + seat_bytes + (2 * i + 1) * room + (i + 2) * 23 % 128 * 4096;
  }
  for (int i = 1; i < ranks && rank_of_this == 0; ++i) {
    const pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) rank_of_this = i;
  }
  pin();
  send_buffer = sends[rank_of_this];
  recv_buffer = recvs[rank_of_this];
  memset(send_buffer, 0, bytes);
  memset(recv_buffer, 0, bytes);
  barrier();
  if (strcmp(argv[2], "limits") == 0) {
    print_limits((int64_t)bytes);
  } else {
    sweep(argv + 1);
  }
  fflush(stdout);
  if (rank_of_this != 0) _exit(0);
  while (wait(NULL) > 0) continue;
  return 0;
}

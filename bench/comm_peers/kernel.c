// The limit bench/comm compares with: two processes on plain shared buffers, nothing but the loop.
// all_reduce is "kernel B": each rank sums half and writes it to both buffers. reduce_scatter sums half
// into its own. The others copy, by both processes, as many bytes as the collective delivers.
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure.h"

typedef struct shared {
  _Alignas(64) _Atomic unsigned arrived[2];
  _Alignas(64) double seconds[2];
} shared_t;

static shared_t *shared;
static char *sends[2], *recvs[2];
static unsigned turn;

static void barrier(void) {
  atomic_store(&shared->arrived[rank_of_this], ++turn);
  while ((int)(atomic_load(&shared->arrived[1 - rank_of_this]) - turn) < 0) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

static double slowest(double seconds) {
  shared->seconds[rank_of_this] = seconds;
  barrier();
  const double other = shared->seconds[1 - rank_of_this];
  barrier();
  return seconds > other ? seconds : other;
}

static void sum_to_both(int64_t count, const float *a, const float *b, float *first, float *second) {
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

static void call(int collective, int64_t bytes) {
  const int64_t half = bytes / 2, at = rank_of_this * half;
  barrier();
  switch (collective) {
    case BROADCAST:
      memcpy(recvs[1] + at, recvs[0] + at, (size_t)half);
      break;
    case ALL_REDUCE:
      sum_to_both(half / 4, (float *)(recvs[0] + at), (float *)(recvs[1] + at),
                  (float *)(recvs[0] + at), (float *)(recvs[1] + at));
      break;
    case REDUCE_SCATTER:
      sum(half / 4, (float *)(sends[0] + at), (float *)(sends[1] + at),
          (float *)recvs[rank_of_this]);
      break;
    default:
      memcpy(recv_buffer, send_buffer, (size_t)half);
      memcpy(recv_buffer + half, sends[1 - rank_of_this] + half, (size_t)half);
  }
  barrier();
}

int main(int argc, char **argv) {
  (void)argc;
  // Starts are apart by odd numbers of pages: equal low bits of addresses cost some processors dearly.
  const size_t bytes = (size_t)atoll(argv[5]), room = bytes + (1 << 20);
  shared = mmap(NULL, 4096 + 4 * room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  for (size_t i = 0; i < 2; ++i) {
    sends[i] = (char *)shared + 4096 + 2 * i * room + i * 17 * 4096;
    recvs[i] = (char *)shared + 4096 + (2 * i + 1) * room + (i + 2) * 23 * 4096;
  }
  const pid_t child = fork();
  rank_of_this = child == 0;
  send_buffer = sends[rank_of_this];
  recv_buffer = recvs[rank_of_this];
  memset(send_buffer, 0, bytes);
  memset(recv_buffer, 0, bytes);
  sweep(argv);
  fflush(stdout);
  if (child == 0) _exit(0);
  waitpid(child, NULL, 0);
  return 0;
}

// An MPI's side of bench/comm: the same collectives, two ranks or more, f32. Compiled by its own
// mpicc.
#include <mpi.h>

#include "measure.h"

static int ranks;

static void barrier(void) {
  MPI_Barrier(MPI_COMM_WORLD);
}

static double slowest(double seconds) {
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

static void call(int collective, int64_t bytes) {
  const int count = (int)(bytes / 4), part = count / ranks;
  switch (collective) {
    case BROADCAST:
      MPI_Bcast(recv_buffer, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
      break;
    case ALL_REDUCE:
      MPI_Allreduce(MPI_IN_PLACE, recv_buffer, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      break;
    case ALL_GATHER:
      MPI_Allgather(send_buffer, part, MPI_FLOAT, recv_buffer, part, MPI_FLOAT, MPI_COMM_WORLD);
      break;
    case REDUCE_SCATTER:
      MPI_Reduce_scatter_block(send_buffer, recv_buffer, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      break;
    case ALL_TO_ALL:
      MPI_Alltoall(send_buffer, part, MPI_FLOAT, recv_buffer, part, MPI_FLOAT, MPI_COMM_WORLD);
      break;
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_of_this);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const size_t bytes = (size_t)atoll(argv[5]);
  send_buffer = calloc(1, bytes + 4096);
  recv_buffer = calloc(1, bytes + 4096);
  memset(send_buffer, 0, bytes);
  memset(recv_buffer, 0, bytes);
  sweep(argv);
  MPI_Finalize();
  return 0;
}

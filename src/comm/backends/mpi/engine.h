// Between the engine of `mpi` and its waiting. The world's mutex is held by the caller.
#ifndef SHOAL_COMM_BACKENDS_MPI_ENGINE_H_
#define SHOAL_COMM_BACKENDS_MPI_ENGINE_H_

#include "comm/backends/mpi/mpi.h"

// Moves everything of this rank along; true when anything moved.
bool shoal_mpi_progress(shoal_mpi_world_t *world);
// Breaks the world and tells the others; the first failure stays.
void shoal_mpi_break(shoal_mpi_world_t *world, shoal_code_t code, const char *message);
// In a broken world: the exchange's storage goes away.
void shoal_mpi_abandon(shoal_mpi_world_t *world, shoal_mpi_stream_t *stream,
                       shoal_exchange_t *exchange);

#endif  // SHOAL_COMM_BACKENDS_MPI_ENGINE_H_

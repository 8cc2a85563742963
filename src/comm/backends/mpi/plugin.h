// What the `mpi` backend asks of an MPI library. plugin.c implements it on mpi.h and is built once
// per MPI (their binary interfaces differ); libshoal loads the one whose launcher started the
// process.
//
// The plug-in only translates: no order, matching or waiting is decided there. Calls are made by
// one thread at a time. Functions return 0, or 1 with the reason in `error`.
#ifndef SHOAL_COMM_BACKENDS_MPI_PLUGIN_H_
#define SHOAL_COMM_BACKENDS_MPI_PLUGIN_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHOAL_MPI_PLUGIN_VERSION 1
#define SHOAL_MPI_PLUGIN_SYMBOL "shoal_mpi_plugin"
#define SHOAL_MPI_ERROR_BYTES 300

typedef struct shoal_mpi_request {
  uint64_t words[2];  // an MPI_Request; all zero: none
  bool active;
} shoal_mpi_request_t;

// A communicator of all ranks, in memory that stays where it is: MPI writes there until it is
// ready.
typedef struct shoal_mpi_comm {
  uint64_t words[4];
} shoal_mpi_comm_t;

typedef struct shoal_mpi_plugin {
  int32_t version;      // SHOAL_MPI_PLUGIN_VERSION
  const char *library;  // "Open MPI v4.1.4"
  char *error;          // why the last call failed; SHOAL_MPI_ERROR_BYTES

  // Initialises MPI unless it is already; once per process. MPI is finalised when the process
  // exits. Blocks until all ranks do so; until then only give_up may be called besides.
  int (*init)(int32_t *out_rank, int32_t *out_size, int32_t *out_largest_tag);
  // At exit, do not finalise: in a broken world that could wait for ever.
  void (*give_up)(void);

  // A duplicate of the world's communicator: started here, ready when comm_test says so.
  int (*comm_start)(shoal_mpi_comm_t *out_comm);
  int (*comm_test)(shoal_mpi_comm_t *comm, bool *out_ready);

  int (*send)(shoal_mpi_comm_t *comm, int32_t peer, int32_t tag, const void *data, int64_t bytes,
              shoal_mpi_request_t *out_request);
  int (*receive)(shoal_mpi_comm_t *comm, int32_t peer, int32_t tag, void *data, int64_t capacity,
                 shoal_mpi_request_t *out_request);  // peer -1: any
  // out_peer and out_bytes are of a receive. Also moves everything else along.
  int (*test)(shoal_mpi_request_t *request, bool *out_done, int32_t *out_peer, int64_t *out_bytes);
  void (*cancel)(shoal_mpi_request_t *request);  // of a receive; test it until it is done
} shoal_mpi_plugin_t;

typedef const shoal_mpi_plugin_t *(*shoal_mpi_plugin_fn_t)(void);

#endif  // SHOAL_COMM_BACKENDS_MPI_PLUGIN_H_

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

#define SHOAL_MPI_PLUGIN_VERSION 2
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

// A collective of MPI's own. Element types and operations are those that MPI has.
typedef enum shoal_mpi_type {
  SHOAL_MPI_F32,
  SHOAL_MPI_F64,
  SHOAL_MPI_I32,
  SHOAL_MPI_I64,
  SHOAL_MPI_TYPE_COUNT
} shoal_mpi_type_t;

typedef enum shoal_mpi_op {
  SHOAL_MPI_SUM,
  SHOAL_MPI_PROD,
  SHOAL_MPI_MAX,
  SHOAL_MPI_MIN,
  SHOAL_MPI_OP_COUNT
} shoal_mpi_op_t;

typedef enum shoal_mpi_native_kind {
  SHOAL_MPI_ALL_REDUCE,
  SHOAL_MPI_REDUCE,
  SHOAL_MPI_REDUCE_SCATTER
} shoal_mpi_native_kind_t;

typedef struct shoal_mpi_native {
  shoal_mpi_native_kind_t kind;
  shoal_mpi_type_t type;
  shoal_mpi_op_t op;
  int32_t root, count;
  const int32_t *counts;  // of every rank: reduce_scatter
  const void *send;       // NULL: in place, but for reduce_scatter
  void *recv;
} shoal_mpi_native_t;

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

  // Says whether this MPI allows calls from several threads at a time. Then a group may have a
  // communicator of its own: all its ranks call this at about the same time, and it blocks until
  // they have; the only one during which others may call. `ranks` are the world's.
  bool (*has_groups)(void);
  int (*group_create)(int32_t size, const int32_t *ranks, int32_t tag, shoal_mpi_comm_t *out_comm);
  void (*group_free)(shoal_mpi_comm_t *comm);
  int (*native_start)(shoal_mpi_comm_t *group, const shoal_mpi_native_t *native,
                      shoal_mpi_request_t *out_request);
} shoal_mpi_plugin_t;

typedef const shoal_mpi_plugin_t *(*shoal_mpi_plugin_fn_t)(void);

#endif  // SHOAL_COMM_BACKENDS_MPI_PLUGIN_H_

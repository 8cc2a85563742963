// The MPI plug-in: plugin.h's questions, answered by mpi.h. Not part of libshoal; see
// cmake/ShoalMpi.cmake.
#include "comm/backends/mpi/plugin.h"

#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>  // atexit
#include <string.h>

typedef struct own_comm {  // what is inside a shoal_mpi_comm_t
  MPI_Comm comm;
  MPI_Request request;  // of its duplication
} own_comm_t;

_Static_assert(sizeof(MPI_Request) <= sizeof(((shoal_mpi_request_t *)0)->words), "a request fits");
_Static_assert(sizeof(own_comm_t) <= sizeof(shoal_mpi_comm_t), "a communicator fits");

static char error_text[SHOAL_MPI_ERROR_BYTES];
static char library_text[MPI_MAX_LIBRARY_VERSION_STRING];
static bool initialised, exit_registered, multiple;
static atomic_bool given_up, starting;  // one thread may be left inside MPI_Init

static int failed(const char *what, int code) {
  if (code == MPI_SUCCESS) return 0;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, text, &length);
  snprintf(error_text, sizeof error_text, "%s: %s", what, text);
  return 1;
}

static MPI_Request get_request(const shoal_mpi_request_t *from) {
  MPI_Request request;
  memcpy(&request, from->words, sizeof request);
  return request;
}

static void set_request(MPI_Request request, shoal_mpi_request_t *to) {
  memcpy(to->words, &request, sizeof request);
}

// ---- the process ----------------------------------------------------------------------

static void at_exit(void) {
  int finalised = 0;
  MPI_Finalized(&finalised);
  if (!finalised && !given_up) MPI_Finalize();
}

static void read_library(void) {
  int length = 0;
  MPI_Get_library_version(library_text, &length);
  library_text[strcspn(library_text, ",\n\t")] = 0;
}

static int start(int32_t *out_rank, int32_t *out_size, int32_t *out_largest_tag) {
  int there = 0, finalised = 0, provided = MPI_THREAD_SINGLE;
  MPI_Finalized(&finalised);
  if (finalised) {
    snprintf(error_text, sizeof error_text, "MPI was finalised already");
    return 1;
  }
  MPI_Initialized(&there);
  if (there) {
    MPI_Query_thread(&provided);
  } else {
    if (failed("MPI_Init_thread", MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided)))
      return 1;
    initialised = true;
  }
  if (provided < MPI_THREAD_SERIALIZED) {
    snprintf(error_text, sizeof error_text,
             "this MPI allows calls from one thread only; MPI_THREAD_SERIALIZED is needed");
    return 1;
  }
  multiple = provided == MPI_THREAD_MULTIPLE;
  if (initialised && !exit_registered) {
    atexit(at_exit);
    exit_registered = true;
  }
  int rank = 0, size = 0, found = 0, *largest = NULL;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (failed("MPI_Comm_rank", MPI_Comm_rank(MPI_COMM_WORLD, &rank))) return 1;
  if (failed("MPI_Comm_size", MPI_Comm_size(MPI_COMM_WORLD, &size))) return 1;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &found);
  *out_rank = rank;
  *out_size = size;
  *out_largest_tag = found ? *largest : 32767;
  read_library();
  return 0;
}

static int plugin_init(int32_t *out_rank, int32_t *out_size, int32_t *out_largest_tag) {
  if (atomic_exchange(&starting, true)) {
    snprintf(error_text, sizeof error_text, "an earlier start has not ended yet");
    return 1;
  }
  const int result = start(out_rank, out_size, out_largest_tag);
  atomic_store(&starting, false);
  return result;
}

static void plugin_give_up(void) {
  given_up = true;
}

// ---- communicators --------------------------------------------------------------------

static own_comm_t *own(shoal_mpi_comm_t *comm) {
  return (own_comm_t *)(void *)comm;
}

static int plugin_comm_start(shoal_mpi_comm_t *out_comm) {
  own_comm_t *comm = own(out_comm);
  return failed("MPI_Comm_idup", MPI_Comm_idup(MPI_COMM_WORLD, &comm->comm, &comm->request));
}

static int plugin_comm_test(shoal_mpi_comm_t *given, bool *out_ready) {
  own_comm_t *comm = own(given);
  int done = 0;
  if (failed("MPI_Comm_idup", MPI_Test(&comm->request, &done, MPI_STATUS_IGNORE))) return 1;
  if (done) MPI_Comm_set_errhandler(comm->comm, MPI_ERRORS_RETURN);
  *out_ready = done;
  return 0;
}

// ---- messages -------------------------------------------------------------------------

static int plugin_send(shoal_mpi_comm_t *comm, int32_t peer, int32_t tag, const void *data,
                       int64_t bytes, shoal_mpi_request_t *out_request) {
  MPI_Request request;
  if (failed("MPI_Isend",
             MPI_Isend(data, (int)bytes, MPI_BYTE, peer, tag, own(comm)->comm, &request)))
    return 1;
  set_request(request, out_request);
  out_request->active = true;
  return 0;
}

static int plugin_receive(shoal_mpi_comm_t *comm, int32_t peer, int32_t tag, void *data,
                          int64_t capacity, shoal_mpi_request_t *out_request) {
  MPI_Request request;
  const int source = peer < 0 ? MPI_ANY_SOURCE : peer;
  if (failed("MPI_Irecv",
             MPI_Irecv(data, (int)capacity, MPI_BYTE, source, tag, own(comm)->comm, &request)))
    return 1;
  set_request(request, out_request);
  out_request->active = true;
  return 0;
}

static int plugin_test(shoal_mpi_request_t *from, bool *out_done, int32_t *out_peer,
                       int64_t *out_bytes) {
  MPI_Request request = get_request(from);
  MPI_Status status;
  int done = 0, bytes = 0, cancelled = 0;
  const int code = MPI_Test(&request, &done, &status);
  set_request(request, from);
  if (code != MPI_SUCCESS) {
    from->active = false;
    return failed("MPI_Test", code);
  }
  *out_done = done;
  if (!done) return 0;
  from->active = false;
  if (!out_peer && !out_bytes) return 0;
  MPI_Test_cancelled(&status, &cancelled);
  if (!cancelled) MPI_Get_count(&status, MPI_BYTE, &bytes);
  if (out_peer) *out_peer = cancelled ? -1 : status.MPI_SOURCE;
  if (out_bytes) *out_bytes = bytes;
  return 0;
}

static void plugin_cancel(shoal_mpi_request_t *from) {
  MPI_Request request = get_request(from);
  MPI_Cancel(&request);
}

// ---- groups and their collectives -----------------------------------------------------

static bool plugin_has_groups(void) {
  return multiple;
}

static int plugin_group_create(int32_t size, const int32_t *ranks, int32_t tag,
                               shoal_mpi_comm_t *out_comm) {
  MPI_Group world, group;
  own_comm_t *comm = own(out_comm);
  if (failed("MPI_Comm_group", MPI_Comm_group(MPI_COMM_WORLD, &world))) return 1;
  int result = failed("MPI_Group_incl", MPI_Group_incl(world, size, ranks, &group));
  if (!result) {
    result = failed("MPI_Comm_create_group",
                    MPI_Comm_create_group(MPI_COMM_WORLD, group, tag, &comm->comm));
    MPI_Group_free(&group);
  }
  MPI_Group_free(&world);
  if (!result) MPI_Comm_set_errhandler(comm->comm, MPI_ERRORS_RETURN);
  return result;
}

static void plugin_group_free(shoal_mpi_comm_t *comm) {
  MPI_Comm_free(&own(comm)->comm);
}

static int plugin_native_start(shoal_mpi_comm_t *group, const shoal_mpi_native_t *n,
                               shoal_mpi_request_t *out_request) {
  const MPI_Datatype types[SHOAL_MPI_TYPE_COUNT] = {[SHOAL_MPI_F32] = MPI_FLOAT,
                                                    [SHOAL_MPI_F64] = MPI_DOUBLE,
                                                    [SHOAL_MPI_I32] = MPI_INT32_T,
                                                    [SHOAL_MPI_I64] = MPI_INT64_T};
  const MPI_Op ops[SHOAL_MPI_OP_COUNT] = {[SHOAL_MPI_SUM] = MPI_SUM,
                                          [SHOAL_MPI_PROD] = MPI_PROD,
                                          [SHOAL_MPI_MAX] = MPI_MAX,
                                          [SHOAL_MPI_MIN] = MPI_MIN};
  const MPI_Datatype type = types[n->type];
  const MPI_Op op = ops[n->op];
  const MPI_Comm comm = own(group)->comm;
  const void *send = n->send ? n->send : MPI_IN_PLACE;
  MPI_Request request;
  int code = MPI_ERR_OTHER;
  switch (n->kind) {
    case SHOAL_MPI_ALL_REDUCE:
      code = MPI_Iallreduce(send, n->recv, n->count, type, op, comm, &request);
      break;
    case SHOAL_MPI_REDUCE:
      code = MPI_Ireduce(send, n->recv, n->count, type, op, n->root, comm, &request);
      break;
    case SHOAL_MPI_REDUCE_SCATTER:
      code = MPI_Ireduce_scatter(n->send, n->recv, n->counts, type, op, comm, &request);
      break;
  }
  if (failed("a collective", code)) return 1;
  set_request(request, out_request);
  out_request->active = true;
  return 0;
}

static const shoal_mpi_plugin_t plugin = {
    .version = SHOAL_MPI_PLUGIN_VERSION,
    .library = library_text,
    .error = error_text,
    .init = plugin_init,
    .give_up = plugin_give_up,
    .comm_start = plugin_comm_start,
    .comm_test = plugin_comm_test,
    .send = plugin_send,
    .receive = plugin_receive,
    .test = plugin_test,
    .cancel = plugin_cancel,
    .has_groups = plugin_has_groups,
    .group_create = plugin_group_create,
    .group_free = plugin_group_free,
    .native_start = plugin_native_start,
};

__attribute__((visibility("default"))) const shoal_mpi_plugin_t *shoal_mpi_plugin(void);

const shoal_mpi_plugin_t *shoal_mpi_plugin(void) {
  return &plugin;
}

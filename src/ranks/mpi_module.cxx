// The module: MPI behind a table of functions. No collective is used: those take memory that no plan knows.
#include "ranks/mpi_module.h"

#include <mpi.h>

#include <cstdio>

namespace plimsoll::ranks {
namespace {

MPI_Request requests[kMpiRequests];

int init(int* rank, int* size) {
  int granted = 0;
  if (const int error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &granted); error != MPI_SUCCESS)
    return error;
  if (granted < MPI_THREAD_SERIALIZED) return MPI_ERR_OTHER;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (const int error = MPI_Comm_rank(MPI_COMM_WORLD, rank); error != MPI_SUCCESS) return error;
  return MPI_Comm_size(MPI_COMM_WORLD, size);
}

int start_send(int request, const void* data, int bytes, int peer, int tag) {
  return MPI_Isend(data, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[request]);
}

int start_receive(int request, void* data, int bytes, int peer, int tag) {
  return MPI_Irecv(data, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[request]);
}

int test(int request, int* is_done) { return MPI_Test(&requests[request], is_done, MPI_STATUS_IGNORE); }

int probe(int peer, int tag, int* source) {
  int is_there = 0;
  MPI_Status status;
  *source = -1;
  const int error = MPI_Iprobe(peer == kMpiAnySource ? MPI_ANY_SOURCE : peer, tag, MPI_COMM_WORLD, &is_there, &status);
  if (error == MPI_SUCCESS && is_there != 0) *source = status.MPI_SOURCE;
  return error;
}

void describe(int error, char* text, int bytes) {
  char whole[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  MPI_Error_string(error, whole, &length);
  std::snprintf(text, static_cast<size_t>(bytes), "%s", whole);
}

void abort_all(int exit_code) { MPI_Abort(MPI_COMM_WORLD, exit_code); }

void finish() { MPI_Finalize(); }

const PlimsollMpi functions{init, start_send, start_receive, test, probe, describe, abort_all, finish};

}  // namespace

extern "C" const PlimsollMpi* plimsoll_mpi() { return &functions; }

}  // namespace plimsoll::ranks

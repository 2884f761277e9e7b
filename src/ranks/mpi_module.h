// The functions of MPI that ranks use, as the module offers them: the program itself links no MPI, whose libraries take
// megabytes of a process that trains alone.
#pragma once

namespace plimsoll::ranks {

// Requests are numbers below kMpiRequests. Functions return 0, or an error code of MPI.
enum { kMpiRequests = 4, kMpiAnySource = -1 };
struct PlimsollMpi {
  int (*init)(int* rank, int* size);
  int (*start_send)(int request, const void* data, int bytes, int peer, int tag);
  int (*start_receive)(int request, void* data, int bytes, int peer, int tag);
  int (*test)(int request, int* is_done);
  int (*probe)(int peer, int tag, int* source);  // -1: no such message is there
  void (*describe)(int error, char* text, int bytes);
  void (*abort)(int exit_code);
  void (*finish)();
};

// What the module exports.
extern "C" const PlimsollMpi* plimsoll_mpi();

}  // namespace plimsoll::ranks

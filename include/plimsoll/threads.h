// How many threads operators run on. Results have the same bits for any number.
#pragma once

namespace plimsoll {

// For all that the calling thread starts from now on, in sessions, eager code and training: at least 1. Other threads
// of the program keep their own number. Call it before sessions are made, whose kernels are cut for the number that is
// set.
void set_threads(int threads);

// What is set: at first OMP_NUM_THREADS, else the number of processors that the process may use.
int threads();

}  // namespace plimsoll

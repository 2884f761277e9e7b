// Starts a thread that costs little memory and takes no signals.
#pragma once

#include <pthread.h>

#include <plimsoll/types.h>

namespace plimsoll::memory {

// What a line must have free for such a thread.
constexpr Bytes kSmallThreadBytes = 256 * KiB;

// 0, or the reason as an errno. Signals are left to the threads of the program, which may be waiting for them. When the
// thread uses up its stack, the process says so with `what` it runs ("a function of the input"), and ends by SIGSEGV.
int start_small_thread(pthread_t* thread, void* (*run)(void*), void* argument, const char* what);

}  // namespace plimsoll::memory

#include "memory/small_thread.h"

#include <csignal>

namespace plimsoll::memory {
namespace {

// Address space; pages that are never touched are no memory. Kernels use up to 160 KiB, and functions of users have
// arrays of their own.
constexpr Bytes kStackBytes = MiB;

class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

int start_small_thread(pthread_t* thread, void* (*run)(void*), void* argument) {
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, static_cast<size_t>(kStackBytes));
  const SignalsBlocked blocked;  // the new thread inherits it
  const int failure = ::pthread_create(thread, &attributes, run, argument);
  ::pthread_attr_destroy(&attributes);
  return failure;
}

}  // namespace plimsoll::memory

#include "memory/small_thread.h"

#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <memory>

namespace plimsoll::memory {
namespace {

// Address space; pages that are never touched are no memory. Kernels use up to 160 KiB, and functions of users have
// arrays of their own.
constexpr Bytes kStackBytes = MiB;
// For the handler, at the far end of the same stack: it runs when the near end is used up.
constexpr size_t kHandlerBytes = 16 * 1024;

// What a thread runs, and the addresses below its stack where an access means that the stack is used up.
struct StackWatch {
  const char* what = nullptr;
  const char* guard = nullptr;  // its first byte
  const char* stack = nullptr;  // the first byte behind it
};
thread_local StackWatch watched;

struct sigaction before_watch;

void write_text(const char* text) {
  const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
  static_cast<void>(written);  // nothing can be done about it here
}

// Calls only what is safe in a handler. The fault happens again when it returns, and is then treated as before.
void name_overflow(int, siginfo_t* fault, void*) {
  const auto* at = static_cast<const char*>(fault->si_addr);
  if (watched.what != nullptr && at >= watched.guard && at < watched.stack) {
    write_text("plimsoll: ");
    write_text(watched.what);
    write_text(" used up its stack of 1 MiB: keep large arrays in the heap, and recursion shallow\n");
  }
  ::sigaction(SIGSEGV, &before_watch, nullptr);
}

void watch_for_overflows() {
  struct sigaction watch = {};
  watch.sa_sigaction = name_overflow;
  watch.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&watch.sa_mask);
  ::sigaction(SIGSEGV, &watch, &before_watch);
}

const char* find_guard(const char** stack) {
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return nullptr;
  void* low = nullptr;
  size_t size = 0, guard = 0;
  ::pthread_attr_getstack(&attributes, &low, &size);
  ::pthread_attr_getguardsize(&attributes, &guard);
  ::pthread_attr_destroy(&attributes);
  *stack = static_cast<const char*>(low);
  return *stack - guard;
}

struct Start {
  void* (*run)(void*);
  void* argument;
  const char* what;
};

void* run_watched(void* given) {
  const std::unique_ptr<Start> start(static_cast<Start*>(given));
  alignas(16) char handler_stack[kHandlerBytes];
  stack_t alternate = {};
  alternate.ss_sp = handler_stack;
  alternate.ss_size = sizeof handler_stack;
  ::sigaltstack(&alternate, nullptr);
  watched.what = start->what;
  watched.guard = find_guard(&watched.stack);
  void* const result = start->run(start->argument);
  watched = {};
  alternate.ss_flags = SS_DISABLE;
  ::sigaltstack(&alternate, nullptr);
  return result;
}

// No memory, and wide enough that the frame of a function with large arrays does not reach beyond it unnoticed.
constexpr Bytes kGuardBytes = 256 * KiB;

class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::sigdelset(&all, SIGSEGV);  // where it is blocked, no handler could name its cause
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

int start_small_thread(pthread_t* thread, void* (*run)(void*), void* argument, const char* what) {
  [[maybe_unused]] static const bool is_watched = (watch_for_overflows(), true);
  auto start = std::make_unique<Start>(Start{run, argument, what});
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, static_cast<size_t>(kStackBytes));
  const SignalsBlocked blocked;  // the new thread inherits it
  ::pthread_attr_setguardsize(&attributes, static_cast<size_t>(kGuardBytes));
  const int failure = ::pthread_create(thread, &attributes, run_watched, start.get());
  if (failure == 0) static_cast<void>(start.release());
  ::pthread_attr_destroy(&attributes);
  return failure;
}

}  // namespace plimsoll::memory

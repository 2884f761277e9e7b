#include <atomic>
#include <csignal>
#include <ctime>

#include <plimsoll/error.h>
#include "cli/output.h"
#include "cli/verbs.h"

namespace plimsoll::cli {
namespace {

volatile std::sig_atomic_t stop_asked = 0;
volatile std::sig_atomic_t people_asked = 0;  // by Ctrl-C or kill
std::atomic<int64_t> asked_ns = 0;            // when they asked first
static_assert(std::atomic<int64_t>::is_always_lock_free, "a signal handler may not wait");

// One request may arrive several times: timeout signals its child and then its group, a terminal the group of mpirun
// too.
constexpr int64_t kImpatienceNs = 1'000'000'000;

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void note_signal(int) { stop_asked = 1; }

// A second request ends the process at once.
void note_request(int signal) {
  const int64_t now = now_ns();
  int64_t first = 0;
  if (!asked_ns.compare_exchange_strong(first, now) && now - first >= kImpatienceNs) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);  // once this handler has returned
  }
  stop_asked = 1;
  people_asked = 1;
}

// A signal that the parent chose to ignore stays ignored, as under nohup.
void watch(int signal, void (*handler)(int)) {
  struct sigaction before {};
  if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void watch_signals() {
  watch(SIGINT, note_request);
  watch(SIGTERM, note_request);
  watch(SIGHUP, note_signal);   // a terminal that is closed may send several
  watch(SIGPIPE, note_signal);  // each further write sends another
}

bool is_end_asked() { return people_asked != 0; }

void watch_rank_signals() { watch(SIGUSR1, note_signal); }

bool is_stop_asked() { return stop_asked != 0 || output_failure() != 0; }

std::string stop_reason() {
  if (stop_asked != 0 && output_failure() == 0) return "stopped by a signal";
  try {
    expect_output();
  } catch (const Error& e) {
    return e.what();
  }
  return "stopped";
}

void stop_if_asked() {
  expect_output();
  if (stop_asked != 0) throw Error("stopped by a signal", ErrorKind::Stopped);
}

}  // namespace plimsoll::cli

#include <csignal>

#include "cli/verbs.h"

namespace plimsoll {
namespace {

volatile std::sig_atomic_t stop_asked = 0;

void note_signal(int) { stop_asked = 1; }

}  // namespace

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool is_stop_asked() { return stop_asked != 0; }

}  // namespace plimsoll

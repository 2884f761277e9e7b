// What an engine is asked for beside what users of a session may ask for.
#pragma once

#include <functional>

#include <plimsoll/session.h>

namespace plimsoll::session {

struct EngineOptions : SessionOptions {
  EngineOptions(const SessionOptions& options = {}) : SessionOptions(options) {}  // NOLINT(google-explicit-constructor)

  // On a line that covers the process, what the caller takes while the session is open: in all, and for each action of
  // a plan.
  Bytes caller_bytes = 0;
  Bytes caller_step_bytes = 0;
  // Room is left for the plans of so many more steps like the last one, to be planned before the session opens.
  int later_plans = 0;
  // False: what only reports read (tasks, names, lives) is freed when the session opens.
  bool keeps_plans = true;
  // The time in which ranks that train together add up so many bytes; empty: there are no other ranks.
  std::function<double(double bytes)> exchange_ns = {};
};

}  // namespace plimsoll::session

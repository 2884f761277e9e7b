// A question that long work asks between its parts: whether to stop.
#pragma once

#include <functional>

#include <plimsoll/error.h>

namespace plimsoll {

// Whether to stop: asked between stages and between steps.
using StopQuestion = std::function<bool()>;
inline bool never_stops() { return false; }
// What planning and measuring throw when they were asked to stop.
class Interrupted : public Error {
 public:
  Interrupted() : Error("stopped before the work was done", ErrorKind::Stopped) {}
};
inline void expect_not_stopped(const StopQuestion& is_stop_asked) {
  if (is_stop_asked()) throw Interrupted();
}

}  // namespace plimsoll

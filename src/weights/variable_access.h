// The variables of a graph as weights files read and write them: what a session provides for that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include <plimsoll/graph.h>

namespace plimsoll::weights {

class VariableAccess {
 public:
  virtual ~VariableAccess() = default;

  virtual void open() = 0;  // before the first variable is read or filled; it also finalises the graph
  // A variable row-major, piece by piece, mostly in one: given to `read`, or filled by `write` from byte `at` on.
  virtual void read(Tensor variable, const std::function<void(std::span<const std::byte>)>& read) = 0;
  virtual void fill(Tensor variable, const std::function<void(void* into, Bytes at, Bytes bytes)>& write) = 0;
  virtual int64_t step_count() const = 0;  // of training
  virtual void set_step_count(int64_t steps) = 0;
};

}  // namespace plimsoll::weights

// Looks at what each action of a step writes, and remembers the first that writes a number which is not finite.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "lower/program.h"
#include "plan/plan.h"

namespace plimsoll::session {

class NumberWatch {
 public:
  static constexpr Bytes kBytesOfAction = 64;  // at most, for most plans: an action writes one value or two

  NumberWatch(const lower::Program& program, const plan::Plan& plan, const std::byte* base);

  void begin() noexcept;
  // After each action, in order.
  void look(size_t action) noexcept;

  struct Found {
    size_t action = 0;
    float value = 0;  // an infinity or a NaN
  };
  const std::optional<Found>& first() const { return first_; }  // of the step
  // A variable was changed to hold such a number: it spoils the steps that follow.
  bool has_bad_variable() const { return has_bad_variable_; }

 private:
  struct Written {
    size_t action;
    const std::byte* data;
    size_t bytes;
    DType dtype;
    bool is_variable;
  };
  std::vector<Written> all_;  // in the order of actions
  size_t next_ = 0;
  std::optional<Found> first_;
  bool has_bad_variable_ = false;
};

}  // namespace plimsoll::session

// The place in the user's program that called into the library: operators recorded meanwhile are attributed to it.
#pragma once

#include <source_location>

#include "graph/recorder.h"

namespace plimsoll::graph {

class Caller {
 public:
  explicit Caller(const std::source_location& where)
      : recorder_(current_recorder()),
        where_(where),
        before_(recorder_ == nullptr ? nullptr : recorder_->set_caller(&where_)) {}
  ~Caller() {
    if (recorder_ != nullptr) recorder_->reset_caller(before_);
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

 private:
  Recorder* const recorder_;
  const std::source_location where_;
  const std::source_location* const before_;
};

}  // namespace plimsoll::graph

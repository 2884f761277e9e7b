#include "session/feed.h"

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll {

const void* View::data() const {
  if (!is_open_->load(std::memory_order_relaxed))
    throw Error("this value went when its session was closed; copy it before");
  return data_;
}

void View::expect_type(DType wanted) const {
  if (dtype != wanted)
    throw Error(fmt::format("the value is {}{} and can't be read as {}; cast it in the graph", name_of(dtype),
                            to_string(dims), name_of(wanted)));
}

}  // namespace plimsoll

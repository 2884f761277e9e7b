#include "graph/countable.h"

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::graph {

void expect_countable(const Shape& shape, int64_t batch) {
  constexpr int64_t kMost = int64_t{1} << 50;
  int64_t count = 1;
  for (const Dim dim : shape) {
    int64_t size = dim.count();
    bool is_beyond = dim.is_batch() && __builtin_mul_overflow(size, batch, &size);
    is_beyond = is_beyond || __builtin_mul_overflow(count, size, &count) || count > kMost;
    if (is_beyond)
      throw Error(fmt::format("a tensor of shape {}{} has more than 2^50 elements, too many to count their bytes",
                              to_string(shape), batch > 1 ? fmt::format(" at a batch of {}", batch) : ""),
                  ErrorKind::Usage);
    if (count == 0) return;
  }
}

}  // namespace plimsoll::graph

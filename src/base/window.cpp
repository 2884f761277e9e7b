#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/types.h>

namespace plimsoll {

void Window::check() const {
  const auto below = [](const auto& numbers, int64_t least) {
    return std::any_of(numbers.begin(), numbers.end(), [&](int64_t number) { return number < least; });
  };
  if (below(strides, 1) || below(dilations, 1) || groups < 1)
    throw Error(
        fmt::format("a window of strides [{}], dilations [{}] and {} groups makes no sense: all must be at "
                    "least 1",
                    fmt::join(strides, ","), fmt::join(dilations, ","), groups));
  if (below(pads, 0))
    throw Error(fmt::format("a window can't have pads [{}]: none may be negative; to cut an image use slice",
                            fmt::join(pads, ",")));
}

std::array<int64_t, 4> same_pads(Size2d image, Size2d filter, const Window& window) {
  std::array<int64_t, 4> pads{};
  window.check();
  for (size_t i = 0; i < 2; ++i) {
    const int64_t reach = window.dilations[i] * (filter[i] - 1) + 1;
    const int64_t outputs = (image[i] + window.strides[i] - 1) / window.strides[i];
    const int64_t total = std::max<int64_t>(0, (outputs - 1) * window.strides[i] + reach - image[i]);
    pads[i] = total / 2;
    pads[i + 2] = total - total / 2;  // an odd one goes to the bottom and the right
  }
  return pads;
}

}  // namespace plimsoll

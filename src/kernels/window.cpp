#include "kernels/window.h"

#include <algorithm>

#include <fmt/format.h>

namespace plimsoll::kernels {
namespace {

constexpr int64_t kLargestWindow = 1 << 20;  // a stride, a pad or a dilation

}  // namespace

Attrs attrs_of(const Window& window) {
  window.check();
  Attrs attrs;
  const Window usual;
  if (window.strides != usual.strides) attrs.set("strides", Shape::from(window.strides));
  if (window.pads != usual.pads) attrs.set("pads", Shape::from(window.pads));
  if (window.dilations != usual.dilations) attrs.set("dilations", Shape::from(window.dilations));
  if (window.groups != usual.groups) attrs.set("groups", window.groups);
  return attrs;
}

Window window_of(const Attrs& attrs) {
  Window window;
  const auto read = [&](std::string_view key, auto& into) {
    const Dims dims = attrs.dims(key, Dims::from(into));
    if (dims.rank() != static_cast<int>(into.size()))
      throw Error(fmt::format("'{}' needs {} numbers but has {}", key, into.size(), dims.rank()));
    for (const int64_t number : dims)  // kernels count in 32 bits
      if (number > kLargestWindow) throw Error(fmt::format("'{}' is {}, more than {}", key, number, kLargestWindow));
    std::copy(dims.begin(), dims.end(), into.begin());
  };
  read("strides", window.strides);
  read("pads", window.pads);
  read("dilations", window.dilations);
  window.groups = attrs.i("groups", 1);
  return window;
}

Size2d output_size(const Infer& n, Size2d image, Size2d kernel) {
  const Window window = window_of(n.attrs);
  Size2d out{};
  for (size_t i = 0; i < 2; ++i) {
    if (kernel[i] < 1 || window.strides[i] < 1 || window.dilations[i] < 1 || window.groups < 1)
      n.fail("window size, strides, dilations and groups must be at least 1");
    const int64_t reach = window.dilations[i] * (kernel[i] - 1) + 1;
    const int64_t room = image[i] + window.pads[i] + window.pads[i + 2] - reach;
    if (room < 0)
      n.fail(
          fmt::format("a {}x{} window reaching {} does not fit the {}x{} image with pads [{}]; add padding or use a "
                      "smaller window",
                      kernel[0], kernel[1], reach, image[0], image[1], fmt::join(window.pads, ",")));
    out[i] = room / window.strides[i] + 1;
  }
  return out;
}

}  // namespace plimsoll::kernels

#include "input/files/held_source.h"

#include <cassert>
#include <cstddef>
#include <cstring>
#include <utility>

namespace plimsoll::input {
namespace {

class HeldSource final : public SourceOver {
 public:
  explicit HeldSource(std::unique_ptr<Source> from)
      : SourceOver(std::move(from)), samples_(new std::byte[static_cast<size_t>(bytes_to_hold(inner()))]) {
    inner().read(0, inner().samples(), samples_.get());
  }

  void read(int64_t first, int64_t count, void* into) const override {
    assert(first >= 0 && count >= 0 && first <= samples() - count);
    const Bytes bytes = sample_bytes();
    std::memcpy(into, samples_.get() + first * bytes, static_cast<size_t>(count * bytes));
  }

 private:
  const std::unique_ptr<std::byte[]> samples_;
};

}  // namespace

Bytes bytes_to_hold(const Source& source) {
  const Bytes sample = source.sample_bytes();
  return sample <= kLongestHeldSample && source.samples() <= kMostHeldBytes / sample ? source.samples() * sample : 0;
}

std::unique_ptr<Source> hold_if_small(std::unique_ptr<Source> source) {
  if (bytes_to_hold(*source) == 0) return source;
  return std::make_unique<HeldSource>(std::move(source));
}

}  // namespace plimsoll::input

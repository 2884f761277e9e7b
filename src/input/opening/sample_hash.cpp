#include "input/opening/sample_hash.h"

#include <string_view>

#include <fmt/format.h>

#include "base/random.h"

namespace plimsoll::input {

std::string hash_samples(const Samples& samples, const MemoryLine& line) {
  const int64_t count = samples.elements.size();
  uint64_t hash = 0;
  if (count <= 0) return "none";
  try {
    for (const int64_t number : {int64_t{0}, count / 2, count - 1}) {
      MemoryLine share = line;
      Iteration one = samples.elements.skip(number).take(1).on(share, share.free());
      for (const ElementView& sample : one)
        for (size_t i = 0; i < sample.size(); ++i)
          hash = mix_bits(hash ^
                          hash_text({static_cast<const char*>(sample.data(i)), static_cast<size_t>(sample.bytes(i))}));
    }
  } catch (const Error& e) {
    return e.what();
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace plimsoll::input

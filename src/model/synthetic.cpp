#include "model/synthetic.h"

#include <algorithm>
#include <cstring>

#include "base/random.h"

namespace plimsoll::model {

std::vector<std::byte> synthetic(const TensorType& type, int64_t batch, int64_t classes) {
  const int64_t count = element_count(type.shape).at(batch);
  std::vector<std::byte> bytes(static_cast<size_t>(count * size_of(type.dtype)));
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = mix_bits(static_cast<uint64_t>(i));
    const auto real = static_cast<float>(unit_real(bits));
    const auto whole = static_cast<int32_t>(bits % static_cast<uint64_t>(std::max<int64_t>(1, classes)));
    std::memcpy(bytes.data() + i * 4, type.dtype == DType::F32 ? static_cast<const void*>(&real) : &whole, 4);
  }
  return bytes;
}

}  // namespace plimsoll::model

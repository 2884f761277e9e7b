#include "model/synthetic.h"

#include <algorithm>
#include <cstring>

#include "base/random.h"

namespace plimsoll::model {

void fill_synthetic(const TensorType& type, int64_t batch, int64_t classes, std::byte* into) {
  const int64_t count = element_count(type.shape).at(batch);
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = mix_bits(static_cast<uint64_t>(i));
    const auto real = static_cast<float>(unit_real(bits));
    const auto whole = static_cast<int32_t>(bits % static_cast<uint64_t>(std::max<int64_t>(1, classes)));
    std::memcpy(into + i * 4, type.dtype == DType::F32 ? static_cast<const void*>(&real) : &whole, 4);
  }
}

}  // namespace plimsoll::model

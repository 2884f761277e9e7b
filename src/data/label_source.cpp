#include "data/label_source.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/half.h"

namespace plimsoll::data {
namespace {

class LabelSource final : public SourceOver {
 public:
  explicit LabelSource(std::unique_ptr<Source> from)
      : SourceOver(std::move(from)), sample_elements_(inner().sample_bytes() / size_of(inner().dtype())) {}

  void read(int64_t first, int64_t count, void* into) const override {
    inner().read(first, count, into);
    for (int64_t i = 0; i < count * sample_elements_; ++i)
      if (is_nan(into, i))
        throw Error(fmt::format("{}: row {}: the label is not a number (NaN); correct it, or leave the row out", name(),
                                first + i / sample_elements_),
                    ErrorKind::BadData);
  }

 private:
  bool is_nan(const void* numbers, int64_t i) const {
    if (dtype() == DType::F32) return std::isnan(static_cast<const float*>(numbers)[i]);
    const uint16_t bits = static_cast<const uint16_t*>(numbers)[i];
    return std::isnan(dtype() == DType::F16 ? from_f16(bits) : from_bf16(bits));
  }

  const int64_t sample_elements_;
};

}  // namespace

std::unique_ptr<Source> refuse_nan_labels(std::unique_ptr<Source> source) {
  if (!is_float(source->dtype())) return source;
  return std::make_unique<LabelSource>(std::move(source));
}

}  // namespace plimsoll::data

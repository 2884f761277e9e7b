#include "input/files/label_source.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/half.h"

namespace plimsoll::input {
namespace {

class LabelSource final : public SourceOver {
 public:
  LabelSource(std::unique_ptr<Source> from, int64_t classes)
      : SourceOver(std::move(from)),
        bound_{classes},
        sample_elements_(inner().sample_bytes() / size_of(inner().dtype())) {}

  void read(int64_t first, int64_t count, void* into) const override {
    inner().read(first, count, into);
    const bool are_real = is_float(dtype());
    for (int64_t i = 0; i < count * sample_elements_; ++i) {
      if (are_real && is_nan(into, i))
        refuse(first + i / sample_elements_, "the label is not a number (NaN); correct it, or leave the row out");
      if (are_real) continue;
      if (const int64_t label = whole_number(into, i); !bound_.allows(label))
        refuse(first + i / sample_elements_, bound_.refusal(label));
    }
  }

 private:
  bool is_nan(const void* numbers, int64_t i) const {
    if (dtype() == DType::F32) return std::isnan(static_cast<const float*>(numbers)[i]);
    const uint16_t bits = static_cast<const uint16_t*>(numbers)[i];
    return std::isnan(dtype() == DType::F16 ? from_f16(bits) : from_bf16(bits));
  }
  int64_t whole_number(const void* numbers, int64_t i) const {
    switch (size_of(dtype())) {
      case 8:
        return static_cast<const int64_t*>(numbers)[i];
      case 4:
        return static_cast<const int32_t*>(numbers)[i];
      default:
        return dtype() == DType::I8 ? static_cast<const int8_t*>(numbers)[i] : static_cast<const uint8_t*>(numbers)[i];
    }
  }
  [[noreturn]] void refuse(int64_t row, const std::string& what) const {
    throw Error(fmt::format("{}: row {}: {}", name(), row, what), ErrorKind::BadData);
  }

  const LabelBound bound_;
  const int64_t sample_elements_;
};

}  // namespace

std::string LabelBound::refusal(int64_t label) const {
  return fmt::format("label {} is not in [0, {}); correct it, or give the model more classes", label, classes);
}

std::unique_ptr<Source> check_labels(std::unique_ptr<Source> source, int64_t classes) {
  if (!is_float(source->dtype()) && classes == 0) return source;
  return std::make_unique<LabelSource>(std::move(source), classes);
}

}  // namespace plimsoll::input

#include "input/files/tf_example.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/element.h"
#include "input/files/label_source.h"
#include "input/files/wire.h"

namespace plimsoll::input {
namespace {

// Example { Features features = 1 }; Features { map<string, Feature> feature = 1 }, an entry { key = 1, value = 2 };
// Feature { one of BytesList = 1, FloatList = 2, Int64List = 3 }, each with a repeated value = 1.
enum ListField : uint64_t { BytesList = 1, FloatList = 2, Int64List = 3 };
constexpr const char* kDamaged = "this is no tf.Example, or it is damaged; write the file again";

std::string_view list_name(uint64_t list) {
  return list == BytesList ? "bytes" : list == FloatList ? "floats" : list == Int64List ? "int64" : "nothing";
}

// A list of a feature; 0 for a feature without one. The last of several counts.
struct List {
  uint64_t kind = 0;
  std::span<const std::byte> values;
};

bool read_list(std::span<const std::byte> feature, List& list) {
  Wire wire(feature);
  while (wire.next()) {
    if (wire.is(BytesList, Wire::Bytes) || wire.is(FloatList, Wire::Bytes) || wire.is(Int64List, Wire::Bytes)) {
      const uint64_t kind = wire.is(BytesList, Wire::Bytes)   ? BytesList
                            : wire.is(FloatList, Wire::Bytes) ? FloatList
                                                              : Int64List;
      list = {kind, wire.bytes()};
    } else {
      wire.skip();
    }
  }
  return !wire.has_failed();
}

// Calls `use(name, list)` for each feature of a record; stops at the first fault, a text that is not empty, and returns
// it.
template <class Use>
std::string for_each_feature(std::span<const std::byte> record, const Use& use) {
  Wire example(record);
  while (example.next()) {
    if (!example.is(1, Wire::Bytes)) {
      example.skip();
      continue;
    }
    Wire features(example.bytes());
    while (features.next()) {
      if (!features.is(1, Wire::Bytes)) {
        features.skip();
        continue;
      }
      Wire entry(features.bytes());
      std::string_view name;
      List list;
      while (entry.next()) {
        if (entry.is(1, Wire::Bytes)) {
          name = text_of(entry.bytes());
        } else if (entry.is(2, Wire::Bytes)) {
          if (!read_list(entry.bytes(), list)) return kDamaged;
        } else {
          entry.skip();
        }
      }
      if (entry.has_failed()) return kDamaged;
      if (std::string fault = use(name, list); !fault.empty()) return fault;
    }
    if (features.has_failed()) return kDamaged;
  }
  return example.has_failed() ? kDamaged : "";
}

// The number of values that a list holds, up to `wanted` of them given to `take` with their place; or -1 for damage.
template <class Take>
int64_t read_integers(std::span<const std::byte> values, int64_t wanted, const Take& take) {
  int64_t count = 0;
  Wire wire(values);
  const auto one = [&](Wire& from) {
    const auto value = static_cast<int64_t>(from.varint());
    if (count < wanted) take(count, value);
    ++count;
  };
  while (wire.next()) {
    if (wire.is(1, Wire::Varint)) {
      one(wire);
    } else if (wire.is(1, Wire::Bytes)) {
      Wire packed(wire.bytes());
      while (packed.left() > 0) one(packed);
      if (packed.has_failed()) return -1;
    } else {
      wire.skip();
    }
  }
  return wire.has_failed() ? -1 : count;
}

int64_t read_floats(std::span<const std::byte> values, int64_t wanted, std::byte* into) {
  int64_t count = 0;
  Wire wire(values);
  const auto put = [&](const void* from, int64_t floats) {
    const int64_t room = std::clamp<int64_t>(wanted - count, 0, floats);
    if (room > 0) std::memcpy(into + count * 4, from, static_cast<size_t>(room) * 4);
    count += floats;
  };
  while (wire.next()) {
    if (wire.is(1, Wire::Fixed32)) {
      const float value = wire.fixed32();
      put(&value, 1);
    } else if (wire.is(1, Wire::Bytes)) {
      const auto packed = wire.bytes();
      if (packed.size() % 4 != 0) return -1;
      put(packed.data(), static_cast<int64_t>(packed.size() / 4));
    } else {
      wire.skip();
    }
  }
  return wire.has_failed() ? -1 : count;
}

// Counts the values, of which the first is kept.
int64_t read_bytes(std::span<const std::byte> values, std::span<const std::byte>& first) {
  int64_t count = 0;
  Wire wire(values);
  while (wire.next()) {
    if (!wire.is(1, Wire::Bytes)) {
      wire.skip();
      continue;
    }
    const auto value = wire.bytes();
    if (count++ == 0) first = value;
  }
  return wire.has_failed() ? -1 : count;
}

template <class Number>
std::string put_integers(const TableField& field, std::span<const std::byte> values, std::byte* into, int64_t& count) {
  int64_t bad = 0;
  bool fits = true;
  auto* const numbers = reinterpret_cast<Number*>(into);
  count = read_integers(values, field.elements(), [&](int64_t i, int64_t value) {
    if constexpr (sizeof(Number) < 8) {
      constexpr bool kIsBool = std::is_same_v<Number, bool>;
      if (value < int64_t(std::numeric_limits<Number>::min()) || value > int64_t(std::numeric_limits<Number>::max())) {
        fits = false;
        bad = value;
        return;
      }
      numbers[i] = kIsBool ? static_cast<Number>(value != 0) : static_cast<Number>(value);
    } else {
      std::memcpy(numbers + i, &value, sizeof value);
    }
  });
  return fits ? "" : fmt::format("{} does not fit {}", bad, name_of(field.dtype));
}

std::string put_numbers(const Feature& feature, const List& list, std::byte* into) {
  const TableField& field = feature.field;
  const int64_t wanted = field.elements();
  const bool is_float = field.dtype == DType::F32, is_bytes = list.kind == BytesList && field.dtype == DType::U8;
  if (!is_bytes && list.kind != (is_float ? FloatList : Int64List))
    return fmt::format("it holds {}, but {} is wanted", list_name(list.kind), name_of(field.dtype));
  int64_t count = 0;
  std::string fault;
  if (is_bytes) {
    std::span<const std::byte> value;
    count = read_bytes(list.values, value);
    if (count == 1) {
      count = static_cast<int64_t>(value.size());
      if (count == wanted) std::memcpy(into, value.data(), value.size());
    } else if (count > 1) {
      return fmt::format("it holds {} strings, but one of {} bytes is wanted", count, wanted);
    }
  } else if (is_float) {
    count = read_floats(list.values, wanted, into);
  } else {
    switch (field.dtype) {
      case DType::I64:
        fault = put_integers<int64_t>(field, list.values, into, count);
        break;
      case DType::I32:
        fault = put_integers<int32_t>(field, list.values, into, count);
        break;
      case DType::U8:
        fault = put_integers<uint8_t>(field, list.values, into, count);
        break;
      default:
        fault = put_integers<bool>(field, list.values, into, count);
        break;
    }
  }
  if (count < 0) return kDamaged;
  if (count != wanted) return fmt::format("it holds {} values, but its shape has {}", count, wanted);
  if (feature.refuses_nan && is_float)
    for (int64_t i = 0; i < wanted; ++i) {
      float value;
      std::memcpy(&value, into + 4 * i, 4);
      if (std::isnan(value)) return "a label is not a number (NaN)";
    }
  for (int64_t i = 0; feature.classes > 0 && field.dtype == DType::I64 && i < wanted; ++i) {
    int64_t label;
    std::memcpy(&label, into + 8 * i, sizeof label);
    if (const LabelBound bound{feature.classes}; !bound.allows(label)) return bound.refusal(label);
  }
  return fault;
}

bool looks_like_image(std::span<const std::byte> bytes) {
  const std::string_view text = text_of(bytes);
  return text.starts_with("\xff\xd8\xff") || text.starts_with("\x89PNG\r\n");
}

}  // namespace

ExampleParser::ExampleParser(std::vector<Feature> features)
    : features_(std::move(features)), is_found_(features_.size()) {
  constexpr DTypes kKnown{DType::F32, DType::I64, DType::I32, DType::U8, DType::Bool};
  for (const Feature& feature : features_) {
    if (!kKnown.has(feature.field.dtype) && !feature.is_encoded)
      throw Error(fmt::format("feature '{}': {} cannot be read from a tf.Example; ask for {}", feature.field.name,
                              name_of(feature.field.dtype), to_string(kKnown)),
                  ErrorKind::Usage);
    if (feature.is_encoded && feature.fallback)
      throw Error(fmt::format("feature '{}': an encoded image has no default", feature.field.name), ErrorKind::Usage);
    if (feature.fallback && !element_bytes(feature.field.dtype, *feature.fallback))
      throw Error(fmt::format("feature '{}': its default {} is no {}", feature.field.name, *feature.fallback,
                              name_of(feature.field.dtype)),
                  ErrorKind::Usage);
  }
}

size_t ExampleParser::find(std::string_view name) {
  if (guess_ < features_.size() && features_[guess_].field.name == name) return guess_++;
  for (size_t i = 0; i < features_.size(); ++i)
    if (features_[i].field.name == name) {
      guess_ = i + 1;
      return i;
    }
  return features_.size();
}

std::string ExampleParser::parse(std::span<const std::byte> record, std::span<FeatureTarget> into) {
  is_found_.assign(features_.size(), false);
  guess_ = 0;
  std::string fault = for_each_feature(record, [&](std::string_view name, const List& list) -> std::string {
    const size_t i = find(name);
    if (i == features_.size() || list.kind == 0) return "";
    is_found_[i] = true;
    std::string why;
    if (!features_[i].is_encoded) {
      why = put_numbers(features_[i], list, into[i].numbers);
    } else if (list.kind != BytesList) {
      why = fmt::format("it holds {}, but an encoded image is wanted", list_name(list.kind));
    } else if (const int64_t count = read_bytes(list.values, into[i].encoded); count != 1) {
      why = count < 0 ? kDamaged : fmt::format("it holds {} strings, but one encoded image is wanted", count);
    }
    return why.empty() ? why : fmt::format("feature '{}': {}", name, why);
  });
  if (!fault.empty()) return fault;
  for (size_t i = 0; i < features_.size(); ++i) {
    if (is_found_[i]) continue;
    const Feature& feature = features_[i];
    if (!feature.fallback)
      return fmt::format("there is no feature '{}'; check its name, or give it a default", feature.field.name);
    fill_elements(into[i].numbers, feature.field.elements(), *element_bytes(feature.field.dtype, *feature.fallback));
  }
  return "";
}

std::vector<FoundFeature> list_features(std::span<const std::byte> record, const std::string& place) {
  std::vector<FoundFeature> found;
  const std::string fault = for_each_feature(record, [&](std::string_view name, const List& list) -> std::string {
    FoundFeature feature{.name = std::string(name)};
    std::span<const std::byte> first;
    if (list.kind == BytesList) {
      feature.kind = FoundFeature::Kind::Bytes;
      feature.values = read_bytes(list.values, first);
      feature.bytes = static_cast<Bytes>(first.size());
      feature.is_image = looks_like_image(first);
    } else if (list.kind == FloatList) {
      feature.kind = FoundFeature::Kind::Floats;
      feature.values = read_floats(list.values, 0, nullptr);
    } else if (list.kind == Int64List) {
      feature.kind = FoundFeature::Kind::Integers;
      feature.values = read_integers(list.values, 0, [](int64_t, int64_t) {});
    }
    if (feature.values < 0) return kDamaged;
    found.push_back(std::move(feature));
    return "";
  });
  if (!fault.empty()) throw Error(fmt::format("{}: {}", place, fault), ErrorKind::BadData);
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return found;
}

}  // namespace plimsoll::input

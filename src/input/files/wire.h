// Reads the wire format of protocol buffers from memory. A damaged message sets a failure and ends the fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/little_endian.h"

namespace plimsoll::input {

class Wire {
 public:
  enum Type : uint32_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

  explicit Wire(std::span<const std::byte> bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool has_failed() const { return failed_; }
  size_t left() const { return static_cast<size_t>(end_ - at_); }

  // The next field: false at the end and after a failure.
  bool next() {
    if (at_ == end_) return false;
    const uint64_t key = varint();
    field_ = key >> 3;
    type_ = static_cast<uint32_t>(key & 7U);
    return !failed_;
  }
  bool is(uint64_t field, Type type) const { return field_ == field && type_ == type; }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at_ == end_) break;
      const auto byte = std::to_integer<uint64_t>(*at_++);
      if (shift < 64) value |= (byte & 0x7fU) << shift;
      if (byte < 0x80) return value;
    }
    fail();
    return 0;
  }

  std::span<const std::byte> bytes() {
    const uint64_t length = varint();
    if (failed_ || length > left()) {
      fail();
      return {};
    }
    const std::span<const std::byte> found(at_, static_cast<size_t>(length));
    at_ += length;
    return found;
  }

  float fixed32() {
    if (left() < 4) {
      fail();
      return 0;
    }
    const auto value = little_endian_at<float>(at_);
    at_ += 4;
    return value;
  }

  // Passes over the field that next() found.
  void skip() {
    if (type_ == Varint) {
      varint();
    } else if (type_ == Bytes) {
      bytes();
    } else if (const size_t size = type_ == Fixed64 ? 8 : 4; (type_ == Fixed64 || type_ == Fixed32) && left() >= size) {
      at_ += size;
    } else {
      fail();
    }
  }

 private:
  void fail() {
    failed_ = true;
    at_ = end_;
  }

  const std::byte* at_;
  const std::byte* end_;
  uint64_t field_ = 0;
  uint32_t type_ = 0;
  bool failed_ = false;
};

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace plimsoll::input

// A stretch of a file in a buffer of fixed size: reads large pieces in sequence, and small ones after a jump.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <plimsoll/types.h>
#include "memory/file.h"

namespace plimsoll::input {

class FileWindow {
 public:
  explicit FileWindow(Bytes capacity) : capacity_(capacity), buffer_(new std::byte[static_cast<size_t>(capacity)]) {}

  Bytes capacity() const { return capacity_; }

  // The bytes from `offset` on: at least `wanted`, at most capacity(), fewer only where the file ends. Valid until the
  // next call.
  std::span<const std::byte> get(const memory::File& file, const std::string& path, Bytes offset, Bytes wanted);

  void forget() { bytes_ = 0; }  // before another file

 private:
  static constexpr Bytes kAfterJump = 4 * KiB;

  Bytes capacity_;
  std::unique_ptr<std::byte[]> buffer_;
  Bytes start_ = 0;  // of the buffer, in the file
  Bytes bytes_ = 0;
};

}  // namespace plimsoll::input

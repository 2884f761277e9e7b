#include "input/files/file_window.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace plimsoll::input {

std::span<const std::byte> FileWindow::get(const memory::File& file, const std::string& path, Bytes offset,
                                           Bytes wanted) {
  assert(wanted <= capacity_);
  const bool goes_on = bytes_ > 0 && offset >= start_ && offset <= start_ + bytes_;
  const Bytes kept = goes_on ? start_ + bytes_ - offset : 0;
  if (kept < wanted || kept == 0) {
    if (kept > 0) std::memmove(buffer_.get(), buffer_.get() + (offset - start_), static_cast<size_t>(kept));
    const Bytes room = goes_on ? capacity_ : std::min(capacity_, std::max(wanted, kAfterJump));
    start_ = offset;
    bytes_ = kept;  // set before reading, which may throw
    bytes_ += file.read_some(offset + kept, room - kept, buffer_.get() + kept, path);
  }
  return {buffer_.get() + (offset - start_), static_cast<size_t>(start_ + bytes_ - offset)};
}

}  // namespace plimsoll::input

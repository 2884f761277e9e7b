// The one owner of a file descriptor, and what system calls over it share.
#pragma once

#include <cerrno>
#include <string>
#include <utility>

namespace plimsoll::memory {

// Repeats a system call that a signal interrupted.
template <class Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Whether errno says that the disk, the user's share of it or the largest file allowed is full.
constexpr bool is_disk_full(int reason) { return reason == ENOSPC || reason == EDQUOT || reason == EFBIG; }

// Closes itself. Converts to the number that system calls take, -1 when nothing is open.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }

  // As open(2); where that fails nothing is open and errno says why.
  static Descriptor open(const std::string& path, int flags, unsigned mode = 0);
  // For reading and writing, without a name: the file is gone when closed, even by a crash. Fails as open() does.
  static Descriptor nameless(const std::string& folder);

  operator int() const { return number_; }
  bool is_open() const { return number_ >= 0; }

  // Returns the reason of a failure as errno has it, else 0.
  int close() noexcept;

 private:
  int number_;
};

}  // namespace plimsoll::memory

#include "memory/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

namespace plimsoll::memory {

Descriptor Descriptor::open(const std::string& path, int flags, unsigned mode) {
  return Descriptor(uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); }));
}

Descriptor Descriptor::nameless(const std::string& folder) {
  Descriptor file = open(folder, O_TMPFILE | O_RDWR | O_EXCL, 0600);
  if (file.is_open() || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return file;
  std::string name = folder + "/.plimsoll-scratch-XXXXXX";  // a file system without O_TMPFILE
  file = Descriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (file.is_open()) ::unlink(name.c_str());
  return file;
}

int Descriptor::close() noexcept {
  if (number_ < 0) return 0;
  // Linux closes the descriptor also where a signal interrupts.
  return ::close(std::exchange(number_, -1)) == 0 || errno == EINTR ? 0 : errno;
}

}  // namespace plimsoll::memory

#include "memory/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::memory {

int sync_folder(const std::string& folder) {
  const Descriptor opened = Descriptor::open(folder, O_RDONLY | O_DIRECTORY);
  if (!opened.is_open()) return errno == EACCES ? 0 : errno;
  const int reason = uninterrupted([&] { return ::fsync(opened); }) == 0 ? 0 : errno;
  return reason == EINVAL || reason == EROFS || reason == ENOTSUP ? 0 : reason;
}

File File::open(const std::string& path) {
  // Without O_NONBLOCK a named pipe would wait here for a writer.
  File file(Descriptor::open(path, O_RDONLY | O_NONBLOCK));
  if (!file.descriptor_.is_open())
    throw Error(fmt::format("{}: {}; check the path", path, std::strerror(errno)), ErrorKind::BadData);
  struct stat facts;
  if (::fstat(file.descriptor_, &facts) != 0)
    throw Error(fmt::format("{}: {}", path, std::strerror(errno)), ErrorKind::BadData);
  if (S_ISDIR(facts.st_mode))
    throw Error(fmt::format("{}: is a directory; give a file in it", path), ErrorKind::BadData);
  if (!S_ISREG(facts.st_mode))
    throw Error(
        fmt::format("{}: is not a regular file, so it cannot be read in any order; save it to disk first", path),
        ErrorKind::BadData);
  return file;
}

File File::open_alone(const std::string& path) {
  const auto refuse = [&](const std::string& why, ErrorKind kind = ErrorKind::Usage) {
    throw Error(fmt::format("'{}' can't be written: {}", path, why), kind);
  };
  // Without O_NONBLOCK a named pipe would wait here for a reader.
  File file(Descriptor::open(path, O_RDWR | O_CREAT | O_NONBLOCK | O_NOCTTY, 0666));
  if (!file.descriptor_.is_open())
    refuse(std::strerror(errno), is_disk_full(errno) ? ErrorKind::DiskFull : ErrorKind::Usage);
  struct stat facts {};
  if (::fstat(file.descriptor_, &facts) != 0) refuse(std::strerror(errno));
  if (!S_ISREG(facts.st_mode)) refuse("it is not a regular file; give the name of a file");
  if (uninterrupted([&] { return ::flock(file.descriptor_, LOCK_EX | LOCK_NB); }) != 0 && errno == EWOULDBLOCK)
    refuse("another process is writing it; wait for that one, or give another name");
  return file;
}

File File::temporary(const std::string& directory) {
  Descriptor descriptor = Descriptor::nameless(directory);
  if (!descriptor.is_open()) {
    const int reason = errno;
    throw Error(
        fmt::format("no scratch file in '{}': {}; give another scratch directory", directory, std::strerror(reason)),
        is_disk_full(reason) ? ErrorKind::DiskFull : ErrorKind::General);
  }
  return File(std::move(descriptor));
}

Bytes File::size() const {
  struct stat facts;
  return ::fstat(descriptor_, &facts) == 0 ? facts.st_size : 0;
}

Bytes File::read_some(Bytes offset, Bytes bytes, void* into, const std::string& path) const {
  Bytes done = 0;
  while (done < bytes) {
    const ssize_t got =
        ::pread(descriptor_, static_cast<std::byte*>(into) + done, static_cast<size_t>(bytes - done), offset + done);
    if (got == 0) break;
    if (got > 0) {
      done += got;
    } else if (errno != EINTR) {
      throw Error(fmt::format("{}: at byte {}: {}", path, offset + done, std::strerror(errno)), ErrorKind::BadData);
    }
  }
  return done;
}

}  // namespace plimsoll::memory

#include "memory/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::memory {

int sync_folder(const std::string& folder) {
  const int opened = uninterrupted([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (opened < 0) return errno == EACCES ? 0 : errno;
  const int status = uninterrupted([&] { return ::fsync(opened); });
  const int reason = errno;
  ::close(opened);
  return status == 0 || reason == EINVAL || reason == EROFS || reason == ENOTSUP ? 0 : reason;
}

File File::open(const std::string& path) {
  // Without O_NONBLOCK a named pipe would wait here for a writer.
  File file(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  if (file.descriptor_ < 0)
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
  File file(
      uninterrupted([&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666); }));
  if (file.descriptor_ < 0)
    refuse(std::strerror(errno), errno == ENOSPC || errno == EDQUOT ? ErrorKind::DiskFull : ErrorKind::Usage);
  struct stat facts {};
  if (::fstat(file.descriptor_, &facts) != 0) refuse(std::strerror(errno));
  if (!S_ISREG(facts.st_mode)) refuse("it is not a regular file; give the name of a file");
  if (uninterrupted([&] { return ::flock(file.descriptor_, LOCK_EX | LOCK_NB); }) != 0 && errno == EWOULDBLOCK)
    refuse("another process is writing it; wait for that one, or give another name");
  return file;
}

File File::temporary(const std::string& directory) {
  int descriptor =
      uninterrupted([&] { return ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600); });
  if (descriptor < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    std::string name = directory + "/plimsoll-XXXXXX";  // a file system without O_TMPFILE
    descriptor = ::mkostemp(name.data(), O_CLOEXEC);
    if (descriptor >= 0) ::unlink(name.c_str());
  }
  if (descriptor < 0) {
    const int reason = errno;
    throw Error(
        fmt::format("no scratch file in '{}': {}; give another scratch directory", directory, std::strerror(reason)),
        reason == ENOSPC || reason == EDQUOT ? ErrorKind::DiskFull : ErrorKind::General);
  }
  return File(descriptor);
}

File::File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
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

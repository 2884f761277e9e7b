#include "memory/output_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "memory/file.h"

namespace plimsoll::memory {
namespace {

// The temporary file of NAME is NAME.plimsoll-PID-NUMBER.
constexpr std::string_view kMark = ".plimsoll-";
constexpr int64_t kLongestSuffix = 32;

// Pages wait for the disk in memory that counts against a control group: no more than this at once.
constexpr Bytes kDirtyBytes = 4 * MiB;

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(fmt::format("'{}' can't be written: {}", path, why), ErrorKind::Usage);
}

// Follows the links of the last part of the path. realpath can't: the file need not exist.
std::string follow_links(const std::string& path) {
  std::filesystem::path at(path);
  std::error_code failure;
  for (int links = 0; std::filesystem::is_symlink(at, failure) && !at.string().starts_with("/proc/"); ++links) {
    if (links == 40) refuse(path, std::strerror(ELOOP));
    const std::filesystem::path next = std::filesystem::read_symlink(at, failure);
    if (failure) refuse(path, failure.message());
    at = at.parent_path() / next;  // an absolute `next` replaces what is before it
  }
  return at.string();
}

}  // namespace

std::string find_folder_fault(const std::string& path) {
  if (path.empty()) return "the name is empty; give the name of a folder";
  std::error_code failure;
  // The first folder to be made is made in the nearest one that is there.
  std::filesystem::path above(path);
  while (!above.empty() && !std::filesystem::exists(above, failure)) above = above.parent_path();
  if (above.empty()) above = ".";
  if (!std::filesystem::is_directory(above, failure)) return fmt::format("'{}' is no folder", above.string());
  if (::access(above.c_str(), W_OK | X_OK) != 0)
    return fmt::format("nothing can be written in '{}': {}", above.string(), std::strerror(errno));
  return "";
}

OutputTarget find_output_target(const std::string& path) {
  if (path.empty()) refuse(path, "the name is empty; give the name of a file");
  struct stat facts {};
  OutputTarget target{path, folder_of(path)};
  if (::stat(path.c_str(), &facts) == 0) {
    if (S_ISDIR(facts.st_mode)) refuse(path, "it is a directory; give the name of a file");
    if (::access(path.c_str(), W_OK) != 0) refuse(path, std::strerror(errno));
    target.is_present = S_ISREG(facts.st_mode);
    target.is_direct = !target.is_present;
  } else if (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG) {
    refuse(path, std::strerror(errno));
  }
  if (target.is_direct) return target;
  if (path.ends_with('/')) refuse(path, "it names no file; give the name of a file");
  target.path = follow_links(path);
  // An open file of a process, such as /dev/stdout: its owner goes on writing to it.
  target.is_direct = target.path.starts_with("/proc/");
  if (target.is_direct) return target;
  const std::string& folder = target.folder = folder_of(target.path);
  if (::stat(folder.c_str(), &facts) != 0) refuse(path, fmt::format("folder '{}': {}", folder, std::strerror(errno)));
  if (!S_ISDIR(facts.st_mode)) refuse(path, fmt::format("'{}' is no folder", folder));
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    refuse(path, fmt::format("folder '{}': {}", folder, std::strerror(errno)));
  const int64_t longest = ::pathconf(folder.c_str(), _PC_NAME_MAX);
  const auto length = static_cast<int64_t>(std::filesystem::path(target.path).filename().string().size());
  if (longest > 0 && length > longest - kLongestSuffix)
    refuse(path, fmt::format("its name has {} bytes; give one of at most {}", length, longest - kLongestSuffix));
  return target;
}

void remove_abandoned_files(const OutputTarget& target) {
  if (target.is_direct) return;
  const std::string start = std::filesystem::path(target.path).filename().string() + std::string(kMark);
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::opendir(target.folder.c_str()), ::closedir);
  if (list == nullptr) return;  // a folder may be written but not listed
  while (const dirent* entry = ::readdir(list.get())) {
    if (!std::string_view(entry->d_name).starts_with(start)) continue;
    const Descriptor file(::openat(::dirfd(list.get()), entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file.is_open()) continue;
    if (::flock(file, LOCK_EX | LOCK_NB) == 0) ::unlinkat(::dirfd(list.get()), entry->d_name, 0);
  }
}

OutputFile::OutputFile(const std::string& path) : shown_(path), target_(find_output_target(path)) {
  buffer_.reserve(static_cast<size_t>(kBufferBytes));
  if (target_.is_direct) {
    // No O_NONBLOCK: a pipe waits for its reader, as it does for other programs.
    file_ = Descriptor::open(target_.path, O_WRONLY | O_NOCTTY);
    if (!file_.is_open()) fail(errno);
    return;
  }
  remove_abandoned_files(target_);
  open_beside();
}

void OutputFile::open_beside() {
  for (int number = 0;; ++number) {
    temporary_ = fmt::format("{}{}{}-{}", target_.path, kMark, ::getpid(), number);
    file_ = Descriptor::open(temporary_, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (!file_.is_open()) {
      const int reason = errno;
      temporary_.clear();
      if (reason == EEXIST && number < 1000) continue;  // another thread's, or of a process elsewhere with this id
      fail(reason);
    }
    // The lock marks the file as in use. Another process may have removed it as abandoned before it was locked.
    uninterrupted([&] { return ::flock(file_, LOCK_EX); });
    struct stat facts {};
    if (::fstat(file_, &facts) != 0 || facts.st_nlink > 0) return;
    file_.close();
  }
}

OutputFile::~OutputFile() {
  file_.close();
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::fail(int reason) const {
  const bool full = is_disk_full(reason);
  throw Error(fmt::format("'{}' can't be written: {}{}", shown_, std::strerror(reason),
                          full ? "; free some space or save elsewhere" : ""),
              full ? ErrorKind::DiskFull : ErrorKind::General);
}

void OutputFile::write(const void* from, Bytes bytes) {
  const auto* text = static_cast<const char*>(from);
  if (static_cast<Bytes>(buffer_.size()) + bytes > kBufferBytes) flush();
  if (bytes > kBufferBytes)
    write_through(text, bytes);
  else
    buffer_.append(text, static_cast<size_t>(bytes));
}

void OutputFile::flush() {
  write_through(buffer_.data(), static_cast<Bytes>(buffer_.size()));
  buffer_.clear();
}

void OutputFile::write_through(const char* from, Bytes bytes) {
  while (bytes > 0) {
    const auto piece = static_cast<size_t>(std::min(bytes, kDirtyBytes));
    const ssize_t put = uninterrupted([&] { return ::write(file_, from, piece); });
    if (put <= 0) fail(put < 0 ? errno : EIO);
    from += put;
    bytes -= put;
    written_ += put;
    bound_dirty_pages();
  }
}

void OutputFile::bound_dirty_pages() {
  if (target_.is_direct || written_ - clean_ < kDirtyBytes) return;
  // Failures show again in fsync.
  ::sync_file_range(file_, clean_, written_ - clean_,
                    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  ::posix_fadvise(file_, clean_, written_ - clean_, POSIX_FADV_DONTNEED);
  clean_ = written_;
}

void OutputFile::keep_permissions() const {
  struct stat facts {};
  if (!target_.is_present || ::stat(target_.path.c_str(), &facts) != 0) return;
  // Only root may change the owner; otherwise the file belongs to the current user, like a new one.
  if (::fchown(file_, facts.st_uid, facts.st_gid) != 0 && ::fchown(file_, static_cast<uid_t>(-1), facts.st_gid) != 0)
    errno = 0;
  if (::fchmod(file_, facts.st_mode & 0777) != 0) fail(errno);
}

void OutputFile::finish() {
  flush();
  if (target_.is_direct) {
    // Most devices and pipes have nothing to sync.
    if (uninterrupted([&] { return ::fsync(file_); }) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP)
      fail(errno);
    if (const int reason = file_.close(); reason != 0) fail(reason);
    return;
  }
  keep_permissions();
  if (uninterrupted([&] { return ::fsync(file_); }) != 0) fail(errno);
  // The temporary file is still open, and so still locked.
  if (uninterrupted([&] { return ::rename(temporary_.c_str(), target_.path.c_str()); }) != 0) fail(errno);
  temporary_.clear();
  // The directory entry must reach the disk too.
  if (const int reason = sync_folder(target_.folder); reason != 0)
    throw Error(
        fmt::format("'{}' is written, but its folder can't be brought to the disk: {}; after a power failure the "
                    "file may be the former one",
                    shown_, std::strerror(reason)));
}

}  // namespace plimsoll::memory

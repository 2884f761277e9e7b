#include "memory/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::memory {
namespace {

[[noreturn]] void fail(const std::string& path, int reason) {
  const bool full = is_disk_full(reason);
  throw Error(fmt::format("'{}' can't be written: {}{}", path, std::strerror(reason), full ? "; free some space" : ""),
              full ? ErrorKind::DiskFull : ErrorKind::General);
}

}  // namespace

AppendFile::AppendFile(const std::string& path, Content content) : path_(path), file_(File::open_alone(path)) {
  buffer_.reserve(static_cast<size_t>(kBufferBytes));
  size_ = file_.size();
  if (content == Content::Dropped) cut(0);
}

AppendFile::~AppendFile() {
  try {
    flush();
  } catch (const Error&) {
    // A destructor must not throw; callers that want to know of a failure call flush() before.
  }
}

void AppendFile::append(std::string_view record) {
  if (static_cast<Bytes>(buffer_.size() + record.size()) > kBufferBytes) flush();
  if (static_cast<Bytes>(record.size()) > kBufferBytes)
    put(record);
  else
    buffer_ += record;
}

void AppendFile::flush() {
  if (buffer_.empty()) return;
  try {
    put(buffer_);
  } catch (const Error&) {
    buffer_.clear();
    throw;
  }
  buffer_.clear();
}

void AppendFile::put(std::string_view records) {
  size_t done = 0;
  while (done < records.size()) {
    const ssize_t put = uninterrupted([&] {
      return ::pwrite(file_.descriptor(), records.data() + done, records.size() - done,
                      size_ + static_cast<Bytes>(done));
    });
    if (put > 0) {
      done += static_cast<size_t>(put);
      continue;
    }
    const int reason = put < 0 ? errno : EIO;
    // A part of a record would spoil those that are appended later.
    if (done > 0 && ::ftruncate(file_.descriptor(), size_) != 0) fail(path_, errno);
    fail(path_, reason);
  }
  size_ += static_cast<Bytes>(records.size());
}

void AppendFile::cut(Bytes size) {
  flush();
  if (size >= size_) return;
  if (uninterrupted([&] { return ::ftruncate(file_.descriptor(), size); }) != 0) fail(path_, errno);
  size_ = size;
}

}  // namespace plimsoll::memory

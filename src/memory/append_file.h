// A file that grows by whole records: each is written at once, and one that can't be written whole is cut off again.
#pragma once

#include <string>
#include <string_view>

#include <plimsoll/types.h>
#include "memory/file.h"

namespace plimsoll::memory {

class AppendFile {
 public:
  static constexpr Bytes kBufferBytes = 16 * KiB;  // all memory that it takes, unless a record is longer

  enum class Content { Dropped, Kept };  // of a file that is there already

  // Throws what File::open_alone throws, also for a file that another process is writing.
  AppendFile(const std::string& path, Content content);
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  ~AppendFile();  // writes what is left, and ignores a failure

  const std::string& path() const { return path_; }
  Bytes size() const { return size_ + static_cast<Bytes>(buffer_.size()); }

  // Kept in the buffer until that is full, or until flush. Throws Error, DiskFull when the disk is full: the records in
  // the buffer are then dropped, and those before them stay.
  void append(std::string_view record);
  void flush();

  // Cuts the file after so many bytes.
  void cut(Bytes size);
  // Reads from the file; what is still in the buffer is not there yet.
  Bytes read_some(Bytes offset, Bytes bytes, void* into) const { return file_.read_some(offset, bytes, into, path_); }

 private:
  void put(std::string_view records);

  const std::string path_;
  const File file_;
  std::string buffer_;
  Bytes size_ = 0;  // in the file
};

}  // namespace plimsoll::memory

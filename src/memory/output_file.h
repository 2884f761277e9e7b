// A file that is written as a whole: a crash leaves the old content or the new one.
#pragma once

#include <string>
#include <string_view>

#include <plimsoll/types.h>
#include "memory/descriptor.h"

namespace plimsoll::memory {

// Where a path leads. A file is written beside `path` and renamed over it; a device or a pipe can't be replaced and is
// written directly.
struct OutputTarget {
  std::string path;  // after symbolic links, which stay as they are
  std::string folder;
  bool is_direct = false;   // a device or a pipe
  bool is_present = false;  // a regular file that will be replaced
};

// Throws Error(Usage) when `path` can't be written as things are: a directory, a missing or read-only folder, a name
// that is too long, a file without permission to write.
OutputTarget find_output_target(const std::string& path);

// Why a folder can't be written to or be made as things are; empty: it can.
std::string find_folder_fault(const std::string& path);

// Removes the temporary files that killed processes left beside `target`. Those of running processes are locked and
// stay.
void remove_abandoned_files(const OutputTarget& target);

class OutputFile {
 public:
  static constexpr Bytes kBufferBytes = 64 * KiB;  // all that an output file takes

  // Throws what find_output_target throws.
  explicit OutputFile(const std::string& path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();  // without finish: what was written is dropped, and a file that was there is as before

  // Throws Error: DiskFull when the disk is full.
  void write(const void* from, Bytes bytes);
  void write(std::string_view text) { write(text.data(), static_cast<Bytes>(text.size())); }

  // Whether there is a file that finish() will replace.
  bool replaces() const { return target_.is_present; }

  // On return the content is on the disk under its name. Keeps mode and, where allowed, owner of the file that it
  // replaces.
  void finish();

 private:
  void open_beside();
  void flush();
  void write_through(const char* from, Bytes bytes);
  void bound_dirty_pages();
  void keep_permissions() const;
  [[noreturn]] void fail(int reason) const;

  const std::string shown_;  // as the caller wrote it
  const OutputTarget target_;
  std::string temporary_;  // empty when there is none
  std::string buffer_;
  Bytes written_ = 0;
  Bytes clean_ = 0;  // of that, known to be on the disk
  Descriptor file_;
};

}  // namespace plimsoll::memory

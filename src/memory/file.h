// An open file, with errors that name the path.
#pragma once

#include <string>
#include <utility>

#include <plimsoll/types.h>
#include "memory/descriptor.h"

namespace plimsoll::memory {

// Brings the entries of a folder to the disk: names that were made, renamed or removed in it. Returns the reason of a
// failure as errno has it, else 0; file systems that can't do this, and folders that may be written but not read, are
// no failure.
int sync_folder(const std::string& folder);

class File {
 public:
  // For reading; throws Error(BadData) for what is missing, no regular file or not allowed. Never waits: a named pipe
  // or a device is refused at once.
  static File open(const std::string& path);

  // For reading and writing, made where it is missing, and held by this process alone as long as it is open. Throws
  // Error(Usage) for what can't be opened so, is no regular file, or is held by another process.
  static File open_alone(const std::string& path);

  // A new file without a name: it is gone when closed, even by a crash. Throws Error.
  static File temporary(const std::string& directory);

  int descriptor() const { return descriptor_; }
  Bytes size() const;

  // Reads until `bytes` are there or the file ends; returns how many. Throws Error(BadData).
  Bytes read_some(Bytes offset, Bytes bytes, void* into, const std::string& path) const;

 private:
  explicit File(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  Descriptor descriptor_;
};

}  // namespace plimsoll::memory

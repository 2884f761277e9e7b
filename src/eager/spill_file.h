// A scratch file for eager values that had to leave memory.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <plimsoll/memory_line.h>
#include "memory/scratch_file.h"

namespace plimsoll::eager {

class SpillFile {
 public:
  // No file is made before the first value. An empty folder: nothing can be spilled.
  SpillFile(const MemoryLine& line, std::string folder, Bytes most_bytes);

  bool is_possible() const { return !folder_.empty() && !is_full_; }
  // The offset of the numbers in the file, or -1 when the file is full. Throws Error(DiskFull).
  Bytes write(const std::byte* from, Bytes bytes);
  void read(Bytes place, std::byte* into, Bytes bytes);
  void free(Bytes place, Bytes bytes) noexcept;
  double ns_of(Bytes bytes) const;  // there and back

 private:
  void open();
  MemoryLine line_;
  std::string folder_;
  Bytes most_bytes_;
  memory::DiskSpeed speed_;
  std::unique_ptr<memory::ScratchFile> file_;
  Reservation staging_;
  std::map<Bytes, Bytes> free_;  // offset to length
  bool is_full_ = false;         // the last value found no room
};

}  // namespace plimsoll::eager

// A file that is removed with its owner.
#pragma once

#include <string>

namespace plimsoll::memory {

// `asked`, or when that is empty the first directory for temporary files that lies on a disk.
std::string choose_scratch_dir(const std::string& asked);

class TemporaryFile {
 public:
  TemporaryFile() = default;
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { remove(); }
  // Empty, under a name that is not taken; an empty folder: one for temporary files that lies on a disk.
  void create(const std::string& folder, const std::string& name);
  void remove() noexcept;
  const std::string& path() const { return path_; }  // empty: there is none

 private:
  std::string path_;
};

}  // namespace plimsoll::memory

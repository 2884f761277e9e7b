// An empty folder on a disk, for scratch files; the destructor removes it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "memory/process.h"

namespace plimsoll::testing {

using namespace memory;

class DiskFolder {
 public:
  DiskFolder() {
    // Beside the test's binary: the folder of temporary files is often in memory, the build folder seldom. What a
    // killed test leaves there is removed with the build.
    const std::string here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    std::string name = (is_memory_backed(here) ? "/var/tmp" : here) + "/disk-folder-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  DiskFolder(const DiskFolder&) = delete;
  DiskFolder& operator=(const DiskFolder&) = delete;
  ~DiskFolder() { std::filesystem::remove_all(path_); }

  operator const std::string&() const { return path_; }
  bool is_empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::string path_;
};

}  // namespace plimsoll::testing

// An empty folder on a disk, for scratch files; it goes with the test.
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
    // Beside the test's binary, where what a killed test leaves behind goes with the build: the folder of temporary
    // files is often memory, the one of the build seldom.
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

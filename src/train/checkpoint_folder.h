// The folder that checkpoints are kept in: FOLDER/000007-step-350, each a directory renamed into place as a whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memory/descriptor.h"

namespace plimsoll::train {

struct CheckpointPlace {
  std::string path;
  int64_t number = 0;  // of the save, from 1: the highest is the newest, whatever its step
  int64_t steps = 0;   // of training
};

// Oldest first, without a look inside. None where there is no such folder; other names are left out.
std::vector<CheckpointPlace> list_checkpoints(const std::string& folder);

// The only writer of a folder, which it locks.
class CheckpointFolder {
 public:
  // Makes the folder where there is none, locks it, and removes what a killed process left half written. Throws
  // Error(Usage) when it can't be written or another process writes to it.
  explicit CheckpointFolder(const std::string& path);
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;
  ~CheckpointFolder();

  const std::string& path() const { return path_; }

  // An empty directory to write the files of the next checkpoint to. Throws Error: DiskFull when the disk is full.
  const std::string& begin();
  // Renames that directory to its final name. Its files must be on the disk; on return the name is too.
  CheckpointPlace place(int64_t steps);
  // Drops what was begun.
  void abandon() noexcept;

  // Removes all but the newest so many.
  void keep_newest(int64_t count);

 private:
  [[noreturn]] void fail(int reason) const;
  void remove_leavings() const;

  const std::string path_;
  std::string begun_;  // the directory of begin()
  memory::Descriptor lock_;
};

}  // namespace plimsoll::train

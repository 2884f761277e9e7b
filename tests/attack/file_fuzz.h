// Reads damaged files in a child process: an Error or a right answer, never a crash, never much memory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <plimsoll/types.h>

namespace plimsoll::testing {

// A file in memory that has a path.
class MemoryFile {
 public:
  MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile();
  std::string path() const;
  void set(const std::string& content) const;

 private:
  int file_;
};

class FileFuzz : public ::testing::Test {
 protected:
  FileFuzz();

  // Runs in a child, so that a crash is a failure with the number of its round and not the end of the test.
  // `most_bytes` is what reading may take beside what the input itself explains.
  void attack(const std::vector<std::string>& files, int64_t short_rounds, Bytes most_bytes,
              const std::function<void(const std::string& damaged)>& read);
};

}  // namespace plimsoll::testing

// What the examples share: files that they make, and the last line that each prints.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <plimsoll/plimsoll.h>

namespace example {

// A folder for the files that an example makes; the destructor removes it.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::current_path() / "example-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      std::perror(name.c_str());
      std::exit(1);
    }
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The exit code: 1 when the process took more than its line.
inline int report(const plimsoll::MemoryLine& line, plimsoll::Bytes planned) {
  using plimsoll::format_bytes;
  const plimsoll::Bytes measured = plimsoll::peak_resident_bytes();
  std::printf("planned %s, measured %s, line %s\n", format_bytes(planned).c_str(), format_bytes(measured).c_str(),
              format_bytes(line.limit()).c_str());
  return measured <= line.limit() ? 0 : 1;
}

}  // namespace example

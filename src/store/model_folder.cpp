#include "store/model_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "memory/file.h"

namespace plimsoll::store {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> kFiles{kModelFacts, kModelGraph, kModelWeights};

// Also what an OutputFile that was killed left of it.
bool is_file_of_model(const fs::path& path) {
  const std::string name = path.filename().string();
  return std::ranges::any_of(
      kFiles, [&](std::string_view known) { return name == known || name.starts_with(fmt::format("{}.", known)); });
}

// The first entry that no model has; empty: there is none.
std::string find_stranger(const std::string& folder) {
  std::error_code failure;
  for (fs::directory_iterator walk(folder, failure); !failure && walk != fs::directory_iterator();
       walk.increment(failure))
    if (!is_file_of_model(walk->path()) || walk->is_directory(failure)) return walk->path().filename().string();
  return "";
}

// Removes files of a model only: other files stay, and their directory with them.
void remove_model(const std::string& folder) noexcept {
  std::error_code ignored;
  for (fs::directory_iterator walk(folder, ignored); !ignored && walk != fs::directory_iterator();
       walk.increment(ignored))
    if (is_file_of_model(walk->path())) ::unlink(walk->path().c_str());
  ::rmdir(folder.c_str());
}

std::string parent_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// The place without symbolic links and closing slashes.
std::string resolve(const std::string& path) {
  if (path.empty()) throw Error("a model needs a directory; give the name of one", ErrorKind::Usage);
  std::error_code failure;
  fs::path place = fs::weakly_canonical(path, failure);
  if (failure) place = path;
  if (!place.has_filename()) place = place.parent_path();
  return place.string();
}

}  // namespace

bool is_model_directory(const std::string& path) {
  struct stat found {};
  return ::stat((path + "/" + kModelFacts).c_str(), &found) == 0;
}

ModelFolder::ModelFolder(const std::string& path) : shown_(path), place_(resolve(path)) {
  std::error_code failure;
  const fs::file_status there = fs::status(place_, failure);
  const auto refuse = [&](const std::string& why) {
    throw Error(fmt::format("'{}' {}; give another place for the model", path, why), ErrorKind::Usage);
  };
  if (fs::exists(there) && !fs::is_directory(there)) refuse("is there and is no directory");
  if (fs::exists(there)) {
    if (const std::string stranger = find_stranger(place_); !stranger.empty())
      refuse(fmt::format("holds '{}', which is no file of a model", stranger));
    if (!fs::is_empty(place_, failure) && !is_model_directory(place_)) refuse("is there and is no model");
  }
  begun_ = fmt::format("{}/.{}.begun", parent_of(place_), fs::path(place_).filename().string());
  if (::mkdir(begun_.c_str(), 0777) != 0 && errno != EEXIST) fail(errno);
  lock_ = memory::Descriptor::open(begun_, O_RDONLY | O_DIRECTORY);
  if (!lock_.is_open()) fail(errno);
  if (memory::uninterrupted([&] { return ::flock(lock_, LOCK_EX | LOCK_NB); }) != 0 && errno == EWOULDBLOCK)
    throw Error(fmt::format("another process saves a model to '{}'; wait for its end or give another place", path),
                ErrorKind::Usage);
  // What a killed process left.
  remove_model(begun_);
  if (::mkdir(begun_.c_str(), 0777) != 0) fail(errno);
  lock_ = memory::Descriptor::open(begun_, O_RDONLY | O_DIRECTORY);
  if (!lock_.is_open()) fail(errno);
  memory::uninterrupted([&] { return ::flock(lock_, LOCK_EX | LOCK_NB); });
  is_made_ = true;
}

ModelFolder::~ModelFolder() {
  if (is_made_) remove_model(begun_);
}

void ModelFolder::place() {
  // Two names change places in one step; where there is no model yet, or a file system can't do that, one is renamed.
  const bool is_swapped = ::renameat2(AT_FDCWD, begun_.c_str(), AT_FDCWD, place_.c_str(), RENAME_EXCHANGE) == 0;
  if (!is_swapped && ::rename(begun_.c_str(), place_.c_str()) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST) fail(errno);
    const std::string old = fmt::format("{}/.{}.old", parent_of(place_), fs::path(place_).filename().string());
    remove_model(old);
    if (::rename(place_.c_str(), old.c_str()) != 0) fail(errno);
    if (::rename(begun_.c_str(), place_.c_str()) != 0) {
      const int reason = errno;
      ::rename(old.c_str(), place_.c_str());
      fail(reason);
    }
    remove_model(old);
  }
  is_made_ = false;
  const int reason = memory::sync_folder(parent_of(place_));
  if (is_swapped) remove_model(begun_);
  if (reason != 0) fail(reason);
}

void ModelFolder::fail(int reason) const {
  const bool full = memory::is_disk_full(reason);
  throw Error(fmt::format("a model can't be written to '{}': {}; {}", shown_, std::strerror(reason),
                          full ? "free some space or give another place" : "give another place"),
              full ? ErrorKind::DiskFull : ErrorKind::Usage);
}

}  // namespace plimsoll::store

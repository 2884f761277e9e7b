#include "train/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "memory/file.h"

namespace plimsoll::train {
namespace {

namespace fs = std::filesystem;

// Prefixes of directories that are no checkpoints: one being written, and one being removed.
constexpr const char* kBegun = ".begun";
constexpr const char* kRemoved = ".removed-";
constexpr std::string_view kStep = "-step-";

std::optional<int64_t> parse_number(std::string_view digits) {
  int64_t number = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (status != std::errc() || end != digits.data() + digits.size() || number < 0) return std::nullopt;
  return number;
}

std::optional<CheckpointPlace> parse_place(const fs::path& path) {
  const std::string name = path.filename().string();
  const size_t middle = name.find(kStep);
  if (middle == std::string::npos) return std::nullopt;
  const auto number = parse_number(std::string_view(name).substr(0, middle));
  const auto steps = parse_number(std::string_view(name).substr(middle + kStep.size()));
  if (!number || !steps) return std::nullopt;
  return CheckpointPlace{path.string(), *number, *steps};
}

// Calls `visit` with each entry; one that can't be read ends the walk.
template <class Visit>
void for_each_entry(const std::string& folder, const Visit& visit) {
  std::error_code error;
  for (fs::directory_iterator walk(folder, error); !error && walk != fs::directory_iterator(); walk.increment(error))
    visit(*walk);
}

}  // namespace

std::vector<CheckpointPlace> list_checkpoints(const std::string& folder) {
  std::vector<CheckpointPlace> places;
  for_each_entry(folder, [&](const fs::directory_entry& entry) {
    std::error_code ignored;
    if (!entry.is_directory(ignored)) return;
    if (auto place = parse_place(entry.path())) places.push_back(std::move(*place));
  });
  std::ranges::sort(places, {}, &CheckpointPlace::number);
  return places;
}

CheckpointFolder::CheckpointFolder(const std::string& path) : path_(path) {
  std::error_code failure;
  if (path.empty()) throw Error("checkpoints need a folder; give the name of one", ErrorKind::Usage);
  const bool is_made = fs::create_directories(path, failure);
  if (failure) fail(failure.value());
  lock_ = memory::Descriptor::open(path, O_RDONLY | O_DIRECTORY);
  if (!lock_.is_open()) fail(errno);
  // Other failures are ignored: on a file system without locks a second writer can't be detected.
  if (memory::uninterrupted([&] { return ::flock(lock_, LOCK_EX | LOCK_NB); }) != 0 && errno == EWOULDBLOCK)
    throw Error(
        fmt::format("another training writes its checkpoints to '{}'; wait for its end or give another folder", path),
        ErrorKind::Usage);
  if (is_made)
    if (const int reason =
            memory::sync_folder(fs::path(path).parent_path().empty() ? "." : fs::path(path).parent_path().string());
        reason != 0)
      fail(reason);
  remove_leavings();
  begin();  // a folder that can't be written fails here, before training
  abandon();
}

CheckpointFolder::~CheckpointFolder() { abandon(); }

void CheckpointFolder::fail(int reason) const {
  const bool full = memory::is_disk_full(reason);
  throw Error(fmt::format("checkpoints can't be written to '{}': {}; {}", path_, std::strerror(reason),
                          full ? "free some space or give another folder" : "give another folder"),
              full ? ErrorKind::DiskFull : ErrorKind::Usage);
}

void CheckpointFolder::remove_leavings() const {
  for_each_entry(path_, [](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (name == kBegun || name.starts_with(kRemoved)) fs::remove_all(entry.path(), ignored);
  });
}

const std::string& CheckpointFolder::begin() {
  abandon();
  const std::string name = fmt::format("{}/{}", path_, kBegun);
  if (::mkdir(name.c_str(), 0777) != 0) fail(errno);
  return begun_ = name;
}

void CheckpointFolder::abandon() noexcept {
  if (begun_.empty()) return;
  std::error_code ignored;
  fs::remove_all(begun_, ignored);
  begun_.clear();
}

CheckpointPlace CheckpointFolder::place(int64_t steps) {
  const std::vector<CheckpointPlace> earlier = list_checkpoints(path_);
  CheckpointPlace place{"", earlier.empty() ? 1 : earlier.back().number + 1, steps};
  place.path = fmt::format("{}/{:06}{}{}", path_, place.number, kStep, steps);
  if (::rename(begun_.c_str(), place.path.c_str()) != 0) fail(errno);
  begun_.clear();
  if (const int reason = memory::sync_folder(path_); reason != 0) fail(reason);
  return place;
}

void CheckpointFolder::keep_newest(int64_t count) {
  std::vector<CheckpointPlace> places = list_checkpoints(path_);
  const auto all = static_cast<int64_t>(places.size());
  for (int64_t i = 0; i < all - count; ++i) {
    const CheckpointPlace& old = places[static_cast<size_t>(i)];
    // A kill while files are removed must not leave a checkpoint that lacks some.
    const std::string removed = fmt::format("{}/{}{}", path_, kRemoved, old.number);
    std::error_code ignored;
    if (::rename(old.path.c_str(), removed.c_str()) == 0) fs::remove_all(removed, ignored);
  }
}

}  // namespace plimsoll::train

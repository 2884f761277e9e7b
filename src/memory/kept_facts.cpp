#include "memory/kept_facts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "memory/cgroup.h"
#include "memory/descriptor.h"

namespace plimsoll::memory {
namespace {

// The disk speed that the planner assumes when it searches.
constexpr DiskSpeed kOrdinary{.read_bytes_per_s = 0x1.0p30, .write_bytes_per_s = 0x1.0p29};
constexpr size_t kMostBytes = 64 * KiB;  // of the file

std::mutex file_mutex;

DiskSpeed round_speed(const DiskSpeed& speed) {
  const auto round = [](double bytes_per_s) { return std::exp2(std::floor(std::log2(std::max(bytes_per_s, 1.0)))); };
  return {round(speed.read_bytes_per_s), round(speed.write_bytes_per_s)};
}

// "disk 65024": the device that holds the folder.
std::string key_of(const std::string& folder) {
  struct stat facts {};
  if (::stat(folder.c_str(), &facts) != 0) return {};
  return fmt::format("disk {}", facts.st_dev);
}

// A line of the file: "disk 65024 read 1073741824 write 536870912".
std::optional<DiskSpeed> find_speed(const std::string& text, const std::string& key) {
  const std::string start = key + " read ";
  for (size_t at = 0; at < text.size();
       at = text.find('\n', at) == std::string::npos ? text.size() : text.find('\n', at) + 1) {
    if (text.compare(at, start.size(), start) != 0) continue;
    DiskSpeed speed;
    if (std::sscanf(text.c_str() + at + start.size(), "%lf write %lf", &speed.read_bytes_per_s,
                    &speed.write_bytes_per_s) == 2 &&
        speed.read_bytes_per_s >= 1 && speed.write_bytes_per_s >= 1 && std::isfinite(speed.read_bytes_per_s) &&
        std::isfinite(speed.write_bytes_per_s))
      return round_speed(speed);
  }
  return std::nullopt;
}

// All lines but the one of `key`.
std::string without(const std::string& text, const std::string& key) {
  std::string rest;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    if (text.compare(at, key.size() + 1, key + " ") != 0) rest += text.substr(at, end - at);
    at = end;
  }
  return rest;
}

// Replaced as a whole, so that programs that start together read one state or the other.
bool write_file(const std::string& path, const std::string& text) {
  std::error_code failure;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failure);
  const std::string temporary = fmt::format("{}.{}", path, ::getpid());
  Descriptor file = Descriptor::open(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (!file.is_open()) return false;
  bool done = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  done = file.close() == 0 && done;
  done = done && ::rename(temporary.c_str(), path.c_str()) == 0;
  if (!done) ::unlink(temporary.c_str());
  return done;
}

bool keep(const std::string& key, const DiskSpeed& speed) {
  const std::string path = kept_facts_path();
  if (path.empty() || key.empty()) return false;
  const std::string before = without(read_small_file(path), key);
  return write_file(
      path, (before.size() < kMostBytes ? before : "") +
                fmt::format("{} read {:.0f} write {:.0f}\n", key, speed.read_bytes_per_s, speed.write_bytes_per_s));
}

}  // namespace

std::string kept_facts_path() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/plimsoll/machine";
  const char* const home = std::getenv("HOME");
  return home != nullptr && home[0] == '/' ? std::string(home) + "/.cache/plimsoll/machine" : "";
}

KeptDiskSpeed kept_disk_speed(const std::string& folder, Bytes most_bytes) {
  const std::lock_guard lock(file_mutex);
  const std::string key = key_of(folder);
  const std::string path = kept_facts_path();
  if (!path.empty())
    if (const auto known = find_speed(read_small_file(path), key)) return {*known, true};
  const DiskSpeed speed = round_speed(measure_disk(folder, most_bytes));
  if (keep(key, speed)) return {speed, true};
  return {kOrdinary, false};
}

DiskSpeed measure_and_keep_disk_speed(const std::string& folder, Bytes most_bytes) {
  const std::lock_guard lock(file_mutex);
  const DiskSpeed speed = round_speed(measure_disk(folder, most_bytes));
  if (!keep(key_of(folder), speed))
    throw Error(fmt::format("'{}' can't be written: {}; what is measured is kept there", kept_facts_path(),
                            std::strerror(errno)));
  return speed;
}

}  // namespace plimsoll::memory

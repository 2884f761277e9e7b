#include "memory/cgroup.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "memory/descriptor.h"

namespace plimsoll::memory {
namespace {

// v1 writes a number near 2^63 where v2 writes "max"; no machine has 2^60 bytes.
constexpr Bytes kNoLimit = Bytes(1) << 60;

std::optional<Bytes> parse_count(std::string_view text) {
  Bytes value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// The number behind `key` in lines such as "total_inactive_file 4096".
Bytes field(std::string_view lines, std::string_view key) {
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(line.size() < lines.size() ? line.size() + 1 : lines.size());
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ')
      return parse_count(line.substr(key.size() + 1)).value_or(0);
  }
  return 0;
}

struct CgroupFiles {
  std::string_view limit, used, inactive_file, active_file;
};
constexpr CgroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                                "total_active_file"};
constexpr CgroupFiles kVersion2{"memory.max", "memory.current", "inactive_file", "active_file"};

// A limit anywhere above binds too, so every folder from the mount down to `path` is asked. Inside a container the path
// may be the host's and the folders missing; the mount itself is then this process's group.
void add_groups(const std::string& mount, std::string_view path, const CgroupFiles& names,
                std::vector<CgroupMemory>& groups) {
  size_t length = 0;
  while (true) {
    const std::string folder = mount + std::string(path.substr(0, length)) + "/";
    const auto limit = parse_count(read_small_file(folder + std::string(names.limit)));
    if (limit && *limit < kNoLimit) {
      CgroupMemory group{.file = folder + std::string(names.limit), .limit = *limit};
      group.used = parse_count(read_small_file(folder + std::string(names.used))).value_or(0);
      const std::string stat = read_small_file(folder + "memory.stat");
      group.page_cache = field(stat, names.inactive_file) + field(stat, names.active_file);
      groups.push_back(std::move(group));
    }
    if (length >= path.size()) return;
    length = path.find('/', length + 1);
    if (length == std::string_view::npos) length = path.size();
  }
}

}  // namespace

std::string read_small_file(const std::string& path) {
  const auto fail = [&](int reason) {
    throw Error(
        fmt::format("'{}' can't be read, so what memory is there is not known: {}", path, std::strerror(reason)));
  };
  const Descriptor file = Descriptor::open(path, O_RDONLY);
  if (!file.is_open()) {
    if (errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == EPERM || errno == ENODEV) return {};
    fail(errno);
  }
  std::string content;
  std::array<char, 4096> piece;
  while (content.size() < size_t{256} * 1024) {
    const ssize_t got = uninterrupted([&] { return ::read(file, piece.data(), piece.size()); });
    if (got > 0) {
      content.append(piece.data(), static_cast<size_t>(got));
      continue;
    }
    // A file of a control group that is going away, or a controller that is off, answers so.
    if (got < 0 && errno != ENODEV && errno != EOPNOTSUPP && errno != EINVAL) fail(errno);
    return got < 0 ? std::string() : content;
  }
  return content;
}

std::vector<CgroupMemory> cgroup_memory(const std::string& root) {
  std::vector<CgroupMemory> groups;
  const std::string membership = read_small_file(root + "/proc/self/cgroup");
  std::string_view lines = membership;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(line.size() < lines.size() ? line.size() + 1 : lines.size());
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string controllers = "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
    const std::string_view path = line.substr(second + 1);
    const std::string_view below = path == "/" ? "" : path;
    if (controllers == ",,") {
      add_groups(root + "/sys/fs/cgroup", below, kVersion2, groups);
      add_groups(root + "/sys/fs/cgroup/unified", below, kVersion2, groups);
    } else if (controllers.find(",memory,") != std::string::npos) {
      add_groups(root + "/sys/fs/cgroup/memory", below, kVersion1, groups);
    }
  }
  return groups;
}

}  // namespace plimsoll::memory

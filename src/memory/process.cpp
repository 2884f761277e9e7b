#include "memory/process.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <malloc.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "memory/cgroup.h"

namespace plimsoll {
namespace {

// "VmRSS:    1234 kB"; 0 when there is no such line.
Bytes kib_field(const std::string& lines, const std::string& key) {
  const size_t at = lines.starts_with(key + ":") ? 0 : lines.find("\n" + key + ":");
  if (at == std::string::npos) return 0;
  return std::strtoll(lines.c_str() + lines.find(':', at) + 1, nullptr, 10) * KiB;
}

}  // namespace

Bytes resident_bytes() { return kib_field(read_small_file("/proc/self/status"), "VmRSS"); }
Bytes peak_resident_bytes() { return kib_field(read_small_file("/proc/self/status"), "VmHWM"); }

bool reset_peak_resident() {
  const int file = ::open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool done = ::write(file, "5", 1) == 1;
  ::close(file);
  return done;
}

Bytes available_memory_bytes() {
  const std::string meminfo = read_small_file("/proc/meminfo");
  Bytes available = kib_field(meminfo, "MemAvailable") + kib_field(meminfo, "SwapFree");
  if (available == 0) available = std::numeric_limits<Bytes>::max();  // no /proc: nothing is known
  for (const CgroupMemory& group : cgroup_memory())
    available = std::min(available, std::max<Bytes>(0, group.limit - group.used + group.page_cache));
  return available;
}

Bytes available_disk_bytes(const std::string& directory) {
  struct statvfs facts;
  if (::statvfs(directory.c_str(), &facts) != 0)
    throw Error(fmt::format("'{}': {}; give a directory that exists", directory, std::strerror(errno)),
                ErrorKind::Usage);
  return static_cast<Bytes>(facts.f_bavail) * static_cast<Bytes>(facts.f_frsize);
}

bool is_memory_backed(const std::string& directory) {
  struct statfs facts;
  if (::statfs(directory.c_str(), &facts) != 0) return false;
  return facts.f_type == TMPFS_MAGIC || facts.f_type == RAMFS_MAGIC;
}

void tame_allocator() {
  // Setting the thresholds also stops glibc from raising them by itself after the first large free.
  ::mallopt(M_ARENA_MAX, 1);
  // Small, because aligned blocks that are taken and freed in turn (oneDNN packs matrices into such) make a heap of
  // glibc 2.36 grow without end: mapped apart they leave nothing behind.
  ::mallopt(M_MMAP_THRESHOLD, int(64 * KiB));
  ::mallopt(M_TRIM_THRESHOLD, int(128 * KiB));
  ::mallopt(M_TOP_PAD, int(64 * KiB));
}

void trim_allocator() { ::malloc_trim(0); }

}  // namespace plimsoll

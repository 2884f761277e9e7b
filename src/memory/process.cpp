#include "memory/process.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "memory/cgroup.h"
#include "memory/descriptor.h"

namespace plimsoll::memory {
namespace {

// What a sanitizer takes, several times the program's own memory, is none of the program's. In such a build lines hold
// for what the engine takes, and the process is taken to hold a fixed number of bytes beside.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif
constexpr Bytes kSanitizedBytes = 8 * MiB;

// "VmRSS:    1234 kB"; 0 when there is no such line.
Bytes kib_field(const std::string& lines, const std::string& key) {
  const size_t at = lines.starts_with(key + ":") ? 0 : lines.find("\n" + key + ":");
  if (at == std::string::npos) return 0;
  return std::strtoll(lines.c_str() + lines.find(':', at) + 1, nullptr, 10) * KiB;
}

constexpr uintptr_t kPageBytes = 4096;

struct Mapping {
  uintptr_t first, last;
  bool runs, writes, has_file;
};

// Calls visit for each mapping of the process, line by line: there may be thousands.
template <class Visit>
void for_each_mapping(const Visit& visit) {
  const std::unique_ptr<FILE, int (*)(FILE*)> maps(std::fopen("/proc/self/maps", "re"), &std::fclose);
  if (maps == nullptr) return;
  std::array<char, 512> line;
  bool is_start = true;  // of a line: long paths come in pieces
  while (std::fgets(line.data(), static_cast<int>(line.size()), maps.get()) != nullptr) {
    unsigned long first = 0, last = 0;
    std::array<char, 8> rights{};
    int path = 0;
    if (is_start && std::sscanf(line.data(), "%lx-%lx %7s %*s %*s %*s %n", &first, &last, rights.data(), &path) == 3)
      visit(
          Mapping{first, last, rights[2] == 'x', rights[1] == 'w', path > 0 && line[static_cast<size_t>(path)] == '/'});
    is_start = std::strchr(line.data(), '\n') != nullptr;
  }
}

Bytes resident_bytes_of(const Mapping& mapping) {
  std::array<unsigned char, 1024> pages;
  Bytes bytes = 0;
  for (uintptr_t at = mapping.first; at < mapping.last; at += pages.size() * kPageBytes) {
    const size_t count = std::min<size_t>(pages.size(), (mapping.last - at) / kPageBytes);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): addresses come as text
    if (::mincore(reinterpret_cast<void*>(at), count * kPageBytes, pages.data()) != 0) return 0;
    for (size_t i = 0; i < count; ++i) bytes += (pages[i] & 1) != 0 ? Bytes{kPageBytes} : 0;
  }
  return bytes;
}

// Whether every resident page is the file's own: none was written to and so copied.
bool is_unchanged(const Mapping& mapping, int pagemap) {
  constexpr uint64_t kIsPresent = uint64_t{1} << 63, kIsFile = uint64_t{1} << 61;
  std::array<uint64_t, 4096> pages;
  for (uintptr_t at = mapping.first; at < mapping.last; at += pages.size() * kPageBytes) {
    const size_t count = std::min<size_t>(pages.size(), (mapping.last - at) / kPageBytes);
    const auto bytes = static_cast<ssize_t>(count * sizeof(uint64_t));
    if (::pread(pagemap, pages.data(), static_cast<size_t>(bytes), static_cast<off_t>(at / kPageBytes * 8)) != bytes)
      return false;
    for (size_t i = 0; i < count; ++i)
      if ((pages[i] & kIsPresent) != 0 && (pages[i] & kIsFile) == 0) return false;
  }
  return true;
}

}  // namespace

Bytes quick_peak_resident_bytes() {
  if (kIsSanitized) return kSanitizedBytes;
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * KiB;
}

void expect_line_kept(Bytes line) {
  const Bytes peak = peak_resident_bytes();
  if (peak <= line) return;
  throw Error(
      fmt::format("the line was passed: the process held {} at its peak, {} above its line of {}; this is a "
                  "fault of Plimsoll: please report it with the command and the output of doctor",
                  format_exact_bytes(peak), format_bytes(peak - line), format_exact_bytes(line)));
}

ProcessMemory measure_process_memory() {
  ProcessMemory memory;
  if (kIsSanitized) {
    memory.heap_bytes = memory.private_bytes = kSanitizedBytes;
    return memory;
  }
  const std::string status = read_small_file("/proc/self/status");
  memory.private_bytes = kib_field(status, "RssAnon") + kib_field(status, "RssShmem");
  memory.file_bytes = kib_field(status, "RssFile");
  const struct mallinfo2 heap = ::mallinfo2();
  memory.heap_bytes = static_cast<Bytes>(heap.uordblks + heap.hblkhd);
  for_each_mapping([&](const Mapping& mapping) {
    if (mapping.runs && !mapping.has_file) memory.generated_code_bytes += resident_bytes_of(mapping);
  });
  return memory;
}

void drop_code_pages() {
  const Descriptor pagemap = Descriptor::open("/proc/self/pagemap", O_RDONLY);
  if (!pagemap.is_open()) return;
  constexpr uintptr_t kWorthALook = 128 * KiB;
  for_each_mapping([&](const Mapping& mapping) {
    if (mapping.writes || !mapping.has_file || mapping.last - mapping.first < kWorthALook) return;
    if (!is_unchanged(mapping, pagemap)) return;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): addresses come as text
    ::madvise(reinterpret_cast<void*>(mapping.first), mapping.last - mapping.first, MADV_DONTNEED);
  });
}

void drop_code_near(Bytes line) {
  constexpr Bytes kNear = 5 * MiB;  // more than the pages that making a kernel touches
  if (quick_peak_resident_bytes() > line - kNear && resident_bytes() > line - kNear) drop_code_pages();
}

bool reset_peak_resident() {
  const Descriptor file = Descriptor::open("/proc/self/clear_refs", O_WRONLY);
  return file.is_open() && ::write(file, "5", 1) == 1;
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

}  // namespace plimsoll::memory

namespace plimsoll {

Bytes resident_bytes() {
  if (memory::kIsSanitized) return memory::kSanitizedBytes;
  return memory::kib_field(memory::read_small_file("/proc/self/status"), "VmRSS");
}
Bytes peak_resident_bytes() {
  if (memory::kIsSanitized) return memory::kSanitizedBytes;
  return memory::kib_field(memory::read_small_file("/proc/self/status"), "VmHWM");
}

}  // namespace plimsoll

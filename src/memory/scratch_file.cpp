#include "memory/scratch_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/random.h"
#include "memory/process.h"

namespace plimsoll::memory {
namespace {

// The most bytes that one system call moves: bounds what the operating system queues at once.
constexpr Bytes kLargestCall = 8 * MiB;

constexpr const char* kOtherFolder = "give another folder";

[[noreturn]] void refuse_full(const std::string& folder, Bytes wanted, Bytes free, const std::string& why) {
  throw Error(
      fmt::format("'{}': {} wanted for the scratch file, {} free ({}); make room there, {}, or raise the line so "
                  "that less is put aside",
                  folder, format_bytes(wanted), format_bytes(free), why, kOtherFolder),
      ErrorKind::DiskFull);
}

// Checks all that is known before disk space is taken: a disk that fills up later disturbs other programs.
void refuse_early(const std::string& folder, Bytes bytes) {
  const Bytes free = available_disk_bytes(folder);
  if (is_memory_backed(folder))
    throw Error(fmt::format("'{}' is a folder in memory (tmpfs): what is put aside there still takes memory; give a "
                            "folder on a disk",
                            folder),
                ErrorKind::Usage);
  if (bytes > free) refuse_full(folder, bytes, free, "the disk is too full");
  rlimit largest{};
  // Past this limit the kernel would end the process with a signal.
  if (::getrlimit(RLIMIT_FSIZE, &largest) == 0 && static_cast<rlim_t>(bytes) > largest.rlim_cur)
    refuse_full(
        folder, bytes, free,
        fmt::format("but 'ulimit -f' allows a file {} only", format_bytes(static_cast<Bytes>(largest.rlim_cur))));
}

Descriptor open_nameless(const std::string& folder, Bytes bytes) {
  refuse_early(folder, bytes);
  Descriptor file = Descriptor::nameless(folder);
  if (!file.is_open()) {
    const int reason = errno;
    throw Error(fmt::format("'{}' takes no scratch file: {}; {}", folder, std::strerror(reason), kOtherFolder),
                is_disk_full(reason) ? ErrorKind::DiskFull : ErrorKind::Usage);
  }
  return file;
}

}  // namespace

ScratchFile::ScratchFile(std::string folder, Bytes bytes, Cache cache)
    : folder_(std::move(folder)),
      bytes_(round_up(bytes, kBlock)),
      staging_(kStagingBytes),
      file_(open_nameless(folder_, bytes_)),
      cache_(cache) {
  assert(bytes >= 0);
  staging_.commit(kStagingBytes);
  const bool taken = preallocate();
  if (cache_ == Cache::Bypassed && !bypass_cache()) cache_ = Cache::DroppedBehind;
  // Without fallocate, zeros are written to take the space.
  for (Bytes at = 0; !taken && at < bytes_; at += kStagingBytes)
    write(at, staging_.data(), std::min(kStagingBytes, bytes_ - at));
}

bool ScratchFile::preallocate() {
  if (bytes_ == 0) return true;
  // Not posix_fallocate: where the file system cannot, that writes into the page cache.
  int reason = 0;
  do reason = ::fallocate(file_, 0, 0, bytes_) == 0 ? 0 : errno;
  while (reason == EINTR);
  if (reason == EOPNOTSUPP || reason == ENOSYS) return false;
  if (is_disk_full(reason)) refuse_full(folder_, bytes_, available_disk_bytes(folder_), std::strerror(reason));
  if (reason != 0) fail("taking", 0, bytes_, reason);
  return true;
}

bool ScratchFile::bypass_cache() {
  const int flags = ::fcntl(file_, F_GETFL);
  if (::fcntl(file_, F_SETFL, flags | O_DIRECT) != 0) return false;
  // Some file systems accept O_DIRECT and refuse the transfers.
  const bool works = ::pwrite(file_, staging_.data(), bytes_ > 0 ? kBlock : 0, 0) >= 0 || errno != EINVAL;
  if (!works) ::fcntl(file_, F_SETFL, flags);
#ifdef STATX_DIOALIGN
  struct statx facts {};
  if (works && ::statx(file_, "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts) == 0 && (facts.stx_mask & STATX_DIOALIGN) &&
      facts.stx_dio_mem_align != 0)
    memory_alignment_ = std::min<Bytes>(kBlock, facts.stx_dio_mem_align);
#endif
  return works;
}

void ScratchFile::fail(const char* what, Bytes at, Bytes bytes, int reason) const {
  throw Error(
      fmt::format("'{}': {} {} at byte {} of the scratch file failed: {}; check the disk, or {}", folder_, what,
                  format_bytes(bytes), at, reason == 0 ? "the file ends there" : std::strerror(reason), kOtherFolder),
      is_disk_full(reason) ? ErrorKind::DiskFull : ErrorKind::General);
}

void ScratchFile::read_fully(Bytes at, std::byte* into, Bytes bytes) {
  for (Bytes done = 0; done < bytes;) {
    const ssize_t got = ::pread(file_, into + done, static_cast<size_t>(bytes - done), at + done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail("reading", at, bytes, got == 0 ? 0 : errno);
    done += got;
  }
}

void ScratchFile::write_fully(Bytes at, const std::byte* from, Bytes bytes) {
  for (Bytes done = 0; done < bytes;) {
    const ssize_t put = ::pwrite(file_, from + done, static_cast<size_t>(bytes - done), at + done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail("writing", at, bytes, put == 0 ? ENOSPC : errno);
    done += put;
  }
}

void ScratchFile::drop_behind(Bytes at, Bytes bytes, bool written) {
  bytes = round_up(bytes, kBlock);
  // Only clean pages can be dropped.
  if (written &&
      ::sync_file_range(file_, at, bytes,
                        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) != 0 &&
      ::fdatasync(file_) != 0)
    fail("writing", at, bytes, errno);
  ::posix_fadvise(file_, at, bytes, POSIX_FADV_DONTNEED);
}

bool ScratchFile::goes_straight(const void* memory, Bytes bytes) const {
  return bytes >= kBlock && reinterpret_cast<uintptr_t>(memory) % static_cast<uintptr_t>(memory_alignment_) == 0;
}

void ScratchFile::read(Bytes at, void* into, Bytes bytes) {
  assert(at >= 0 && at % kBlock == 0 && bytes >= 0 && at + bytes <= bytes_);
  auto* to = static_cast<std::byte*>(into);
  for (Bytes piece = 0; bytes > 0; at += piece, to += piece, bytes -= piece) {
    piece = std::min(bytes, kStagingBytes);
    if (cache_ == Cache::DroppedBehind) {
      read_fully(at, to, piece);
      drop_behind(at, piece, false);
    } else if (goes_straight(to, bytes)) {
      piece = std::min(bytes / kBlock * kBlock, kLargestCall);
      read_fully(at, to, piece);
    } else {
      read_fully(at, staging_.data(), round_up(piece, kBlock));
      std::memcpy(to, staging_.data(), static_cast<size_t>(piece));
    }
  }
}

void ScratchFile::write(Bytes at, const void* from, Bytes bytes) {
  assert(at >= 0 && at % kBlock == 0 && bytes >= 0 && at + bytes <= bytes_);
  const auto* source = static_cast<const std::byte*>(from);
  for (Bytes piece = 0; bytes > 0; at += piece, source += piece, bytes -= piece) {
    piece = std::min(bytes, kStagingBytes);
    if (cache_ == Cache::DroppedBehind) {
      write_fully(at, source, piece);
      drop_behind(at, piece, true);
    } else if (goes_straight(source, bytes)) {
      piece = std::min(bytes / kBlock * kBlock, kLargestCall);
      write_fully(at, source, piece);
    } else {
      std::memcpy(staging_.data(), source, static_cast<size_t>(piece));
      write_fully(at, staging_.data(), round_up(piece, kBlock));
    }
  }
}

DiskSpeed measure_disk(const std::string& folder, Bytes most) {
  using Clock = std::chrono::steady_clock;
  const Bytes pieces = std::min(most, 64 * MiB) / ScratchFile::kStagingBytes;
  const Bytes probe_bytes = std::max<Bytes>(1, pieces) * ScratchFile::kStagingBytes;
  constexpr double kEnoughSeconds = 0.1;
  ScratchFile file(folder, probe_bytes);
  std::byte* const staging = file.staging_.data();
  // Random bytes: a disk that compresses must not look faster.
  for (Bytes i = 0; i < ScratchFile::kStagingBytes; ++i)
    staging[i] = static_cast<std::byte>(mix_bits(static_cast<uint64_t>(i)));
  const auto speed = [&](Bytes limit, Bytes& moved, auto&& move) {
    const auto start = Clock::now();
    double seconds = 0;
    for (moved = 0; moved < limit && seconds < kEnoughSeconds; moved += ScratchFile::kStagingBytes) {
      move(moved);
      seconds = std::chrono::duration<double>(Clock::now() - start).count();
    }
    return static_cast<double>(moved) / seconds;
  };
  DiskSpeed result;
  Bytes written = 0, read = 0;
  result.write_bytes_per_s =
      speed(probe_bytes, written, [&](Bytes at) { file.write(at, staging, ScratchFile::kStagingBytes); });
  result.read_bytes_per_s = speed(written, read, [&](Bytes at) { file.read(at, staging, ScratchFile::kStagingBytes); });
  return result;
}

}  // namespace plimsoll::memory

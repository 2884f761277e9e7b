#include "input/files/zip.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/little_endian.h"
#include "input/files/refuse.h"

namespace plimsoll::input {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kDirectoryEntry = 0x02014b50, kEndOfDirectory = 0x06054b50;
constexpr uint32_t kEndOfDirectory64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr Bytes kLocalHeaderBytes = 30, kEntryBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20;
constexpr Bytes kLongestComment = 65535;
constexpr uint32_t kIn64 = 0xffffffff;  // marks a number that is in the extra field
constexpr uint16_t kExtra64 = 1;
constexpr uint16_t kEncrypted = 1;

std::vector<std::byte> read_piece(const memory::File& file, Bytes offset, Bytes bytes, const std::string& path) {
  std::vector<std::byte> piece(static_cast<size_t>(bytes));
  const Bytes got = file.read_some(offset, bytes, piece.data(), path);
  if (got < bytes) refuse(path, offset + got, "the file became shorter while it was read");
  return piece;
}

struct Directory {
  Bytes offset = 0;
  Bytes bytes = 0;
  Bytes entries = 0;
};

Directory find_directory(const memory::File& file, const std::string& path) {
  const Bytes size = file.size();
  const Bytes tail_bytes = std::min(size, kEndBytes + kLongestComment);
  const std::vector<std::byte> tail = read_piece(file, size - tail_bytes, tail_bytes, path);
  Bytes at = tail_bytes - kEndBytes;
  while (at >= 0 && little_endian_at<uint32_t>(tail.data() + at) != kEndOfDirectory) --at;
  if (at < 0) refuse(path, size, "the zip archive has no directory at its end; it is cut off, fetch it again");
  const std::byte* const end = tail.data() + at;
  Directory directory{little_endian_at<uint32_t>(end + 16), little_endian_at<uint32_t>(end + 12),
                      little_endian_at<uint16_t>(end + 10)};
  const Bytes end_offset = size - tail_bytes + at;
  if (at >= kLocatorBytes && little_endian_at<uint32_t>(end - kLocatorBytes) == kLocator64) {
    const auto end64_offset = little_endian_at<Bytes>(end - kLocatorBytes + 8);
    if (end64_offset < 0 || end64_offset > size - kEnd64Bytes)
      refuse(path, end_offset - kLocatorBytes, "the zip directory lies outside the file; fetch it again");
    const std::vector<std::byte> end64 = read_piece(file, end64_offset, kEnd64Bytes, path);
    if (little_endian_at<uint32_t>(end64.data()) != kEndOfDirectory64)
      refuse(path, end64_offset, "the zip directory is damaged; fetch the file again");
    directory = {little_endian_at<Bytes>(end64.data() + 48), little_endian_at<Bytes>(end64.data() + 40),
                 little_endian_at<Bytes>(end64.data() + 32)};
  }
  if (directory.offset < 0 || directory.bytes < 0 || directory.bytes > size ||
      directory.offset > size - directory.bytes)
    refuse(path, end_offset, "the zip directory lies outside the file; fetch it again");
  if (directory.bytes > kLongestZipDirectory)
    refuse(path, end_offset,
           fmt::format("the zip directory has {}, more than {}; split the archive", format_exact_bytes(directory.bytes),
                       format_bytes(kLongestZipDirectory)));
  return directory;
}

// The extra field holds only the numbers that need more than 32 bits, in a fixed order.
void read_extra64(std::span<const std::byte> extra, ZipMember& member) {
  while (extra.size() >= 4) {
    const auto kind = little_endian_at<uint16_t>(extra.data());
    const auto bytes = std::min<size_t>(little_endian_at<uint16_t>(extra.data() + 2), extra.size() - 4);
    std::span<const std::byte> field = extra.subspan(4, bytes);
    extra = extra.subspan(4 + bytes);
    if (kind != kExtra64) continue;
    for (Bytes* const number : {&member.plain_bytes, &member.packed_bytes, &member.header_offset}) {
      if (*number != kIn64 || field.size() < 8) continue;
      *number = little_endian_at<Bytes>(field.data());
      field = field.subspan(8);
    }
  }
}

}  // namespace

std::vector<ZipMember> list_zip(const memory::File& file, const std::string& path) {
  const Directory directory = find_directory(file, path);
  const std::vector<std::byte> bytes = read_piece(file, directory.offset, directory.bytes, path);
  std::vector<ZipMember> members;
  std::span<const std::byte> rest(bytes);
  for (Bytes i = 0; i < directory.entries; ++i) {
    const Bytes at = directory.offset + directory.bytes - static_cast<Bytes>(rest.size());
    const auto damaged = [&] { refuse(path, at, "the zip directory is damaged; fetch the file again"); };
    if (rest.size() < kEntryBytes || little_endian_at<uint32_t>(rest.data()) != kDirectoryEntry) damaged();
    const std::byte* const entry = rest.data();
    const size_t name_bytes = little_endian_at<uint16_t>(entry + 28),
                 extra_bytes = little_endian_at<uint16_t>(entry + 30);
    const size_t all_bytes = kEntryBytes + name_bytes + extra_bytes + little_endian_at<uint16_t>(entry + 32);
    if (all_bytes > rest.size()) damaged();
    ZipMember member{.name = {reinterpret_cast<const char*>(entry) + kEntryBytes, name_bytes},
                     .header_offset = little_endian_at<uint32_t>(entry + 42),
                     .packed_bytes = little_endian_at<uint32_t>(entry + 20),
                     .plain_bytes = little_endian_at<uint32_t>(entry + 24),
                     .checksum = little_endian_at<uint32_t>(entry + 16)};
    read_extra64(rest.subspan(kEntryBytes + name_bytes, extra_bytes), member);
    const auto method = little_endian_at<uint16_t>(entry + 10);
    if (method != 0 && method != 8)
      refuse(path, at, fmt::format("'{}' is packed with method {}; save it with numpy.savez", member.name, method));
    if ((little_endian_at<uint16_t>(entry + 8) & kEncrypted) != 0)
      refuse(path, at, fmt::format("'{}' is encrypted; unpack the archive yourself", member.name));
    member.is_deflated = method == 8;
    if (member.packed_bytes < 0 || member.plain_bytes < 0 || member.header_offset < 0 ||
        (!member.is_deflated && member.packed_bytes != member.plain_bytes))
      damaged();
    members.push_back(std::move(member));
    rest = rest.subspan(all_bytes);
  }
  return members;
}

Bytes find_zip_data(const memory::File& file, const ZipMember& member, const std::string& path) {
  const Bytes size = file.size();
  if (member.header_offset > size - kLocalHeaderBytes)
    refuse(path, size, fmt::format("'{}' lies behind the end of the file; fetch it again", member.name));
  const std::vector<std::byte> header = read_piece(file, member.header_offset, kLocalHeaderBytes, path);
  if (little_endian_at<uint32_t>(header.data()) != kLocalHeader)
    refuse(path, member.header_offset, fmt::format("'{}' does not start here; fetch the file again", member.name));
  const Bytes data = member.header_offset + kLocalHeaderBytes + little_endian_at<uint16_t>(header.data() + 26) +
                     little_endian_at<uint16_t>(header.data() + 28);
  if (data > size || member.packed_bytes > size - data)
    refuse(path, size, fmt::format("the file ends inside '{}'; it is cut off, fetch it again", member.name));
  return data;
}

}  // namespace plimsoll::input

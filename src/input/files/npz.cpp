#include "input/files/npz.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <set>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include "input/files/array_file.h"
#include "input/files/inflate.h"
#include "input/files/zip.h"
#include "memory/temporary_file.h"

namespace plimsoll::input {
namespace {

constexpr std::string_view kSuffix = ".npy";

std::string array_name(const std::string& member) {
  return member.ends_with(kSuffix) ? member.substr(0, member.size() - kSuffix.size()) : member;
}

// The members of an archive whose arrays have a name each.
std::vector<ZipMember> list_members(const memory::File& file, const std::string& path) {
  std::vector<ZipMember> members = list_zip(file, path);
  std::set<std::string> names;
  for (const ZipMember& member : members)
    if (!names.insert(array_name(member.name)).second)
      throw Error(fmt::format("{}: the archive has two arrays '{}'; write it again with one of each name", path,
                              array_name(member.name)),
                  ErrorKind::BadData);
  return members;
}

ZipMember find_member(const std::vector<ZipMember>& members, const std::string& wanted, const std::string& path) {
  std::vector<std::string> names;
  for (const ZipMember& member : members) {
    if (member.name == wanted || array_name(member.name) == wanted || (wanted.empty() && members.size() == 1))
      return member;
    names.push_back(array_name(member.name));
  }
  if (names.empty()) throw Error(fmt::format("{}: the archive is empty", path), ErrorKind::BadData);
  throw Error(wanted.empty()
                  ? fmt::format("{}: the archive holds several arrays; give one of them as {}:{}, known are {}", path,
                                path, names[0], fmt::join(names, ", "))
                  : fmt::format("{}: the archive has no array '{}'; it has {}", path, wanted, fmt::join(names, ", ")),
              ErrorKind::BadData);
}

// By its first bytes, whatever its name is.
bool is_archive(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  try {
    std::array<std::byte, 4> front;
    const Bytes got = memory::File::open(path).read_some(0, std::ssize(front), front.data(), path);
    return is_zip(std::span(front).first(static_cast<size_t>(got)));
  } catch (const Error&) {
    return false;  // opening it says why
  }
}

}  // namespace

std::vector<std::string> list_npz(const std::string& path) {
  std::vector<std::string> names;
  for (const ZipMember& member : list_members(memory::File::open(path), path)) names.push_back(array_name(member.name));
  return names;
}

std::unique_ptr<Source> open_npz(const std::string& path, const std::string& member, const SourceOptions& options) {
  memory::File file = memory::File::open(path);
  const ZipMember found = find_member(list_members(file, path), member, path);
  const std::string shown = fmt::format("{}:{}", path, array_name(found.name));
  Bytes data = find_zip_data(file, found, path);
  std::optional<FileChecksum> checksum;
  if (!found.is_deflated) checksum = {data, found.plain_bytes, found.checksum};
  if (found.is_deflated) {
    file = inflate_member_to_scratch(file, shown, memory::choose_scratch_dir(options.scratch_dir),
                                     {.offset = data,
                                      .packed_bytes = found.packed_bytes,
                                      .plain_bytes = found.plain_bytes,
                                      .checksum = found.checksum});
    data = 0;
  }
  const Bytes front_bytes = std::min(kLongestHeader, found.plain_bytes);
  std::vector<std::byte> front(static_cast<size_t>(front_bytes));
  const Bytes got = file.read_some(data, front_bytes, front.data(), shown);
  StoredArray layout = parse_stored_array(std::span(front).first(static_cast<size_t>(got)), shown);
  expect_file_bytes(layout, found.plain_bytes, shown);
  layout.data_offset += data;
  return make_array_source(shown, std::move(file), std::move(layout), checksum);
}

std::optional<std::pair<std::string, std::string>> split_npz_path(const std::string& path) {
  constexpr std::string_view kMark = ".npz:";
  size_t at = path.rfind(kMark);
  if (at != std::string::npos) {
    at += kMark.size() - 1;
  } else {
    at = path.rfind(':');
    if (at == std::string::npos || !is_archive(path.substr(0, at))) return std::nullopt;
  }
  return std::pair(path.substr(0, at), path.substr(at + 1));
}

}  // namespace plimsoll::input

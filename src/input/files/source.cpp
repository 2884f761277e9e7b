#include "input/files/source.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "input/files/array_file.h"
#include "input/files/inflate.h"
#include "input/files/npz.h"
#include "input/files/stored_array.h"
#include "memory/file.h"
#include "memory/temporary_file.h"

namespace plimsoll::input {

std::unique_ptr<Source> open_source(const std::string& path, const SourceOptions& options) {
  if (const auto npz = split_npz_path(path)) return open_npz(npz->first, npz->second, options);
  memory::File file = memory::File::open(path);
  std::vector<std::byte> front(kLongestHeader);
  const auto read_front = [&] {
    return std::span(front).first(static_cast<size_t>(file.read_some(0, kLongestHeader, front.data(), path)));
  };
  auto start = read_front();
  if (is_zip(start)) return open_npz(path, "", options);
  std::string shown = path;
  if (is_gzip(start)) {
    // Positions in a packed file are those after unpacking, which the name then says.
    shown += " (unpacked)";
    file = inflate_to_scratch(file, path, memory::choose_scratch_dir(options.scratch_dir),
                              [&](auto unpacked) { return parse_stored_array(unpacked, shown).file_bytes(); });
    start = read_front();
  }
  StoredArray layout = parse_stored_array(start, shown);
  expect_file_bytes(layout, file.size(), shown);
  return make_array_source(path, std::move(file), std::move(layout));
}

std::vector<int64_t> read_sample_shape(const std::string& path, const SourceOptions& options) {
  if (!split_npz_path(path)) {
    const memory::File file = memory::File::open(path);
    const int copy = ::dup(file.descriptor());
    const gzFile unpacked = copy < 0 ? nullptr : ::gzdopen(copy, "rb");  // reads plain files as they are
    if (unpacked == nullptr && copy >= 0) ::close(copy);
    std::vector<std::byte> front(static_cast<size_t>(kLongestHeader));
    const int got = unpacked == nullptr ? -1 : ::gzread(unpacked, front.data(), static_cast<unsigned>(front.size()));
    if (unpacked != nullptr) ::gzclose_r(unpacked);
    const auto start = std::span(front).first(static_cast<size_t>(std::max(0, got)));
    if (got > 0 && !is_zip(start)) {
      const StoredArray layout = parse_stored_array(start, path);
      return {layout.shape.begin() + 1, layout.shape.end()};
    }
  }
  return open_source(path, options)->sample_shape();
}

}  // namespace plimsoll::input

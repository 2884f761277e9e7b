#include "data/layout.h"

#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"

namespace plimsoll {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";

[[noreturn]] void refuse(const std::string& path, Bytes at, const std::string& what) {
  throw Error(fmt::format("{}: at byte {}: {}", path, at, what), ErrorKind::BadData);
}

uint32_t unsigned_at(std::span<const std::byte> front, Bytes at) { return std::to_integer<uint32_t>(front[at]); }

// Checks the sizes against each other and against the file.
void check(const Layout& layout, Bytes file_bytes, const std::string& path, Bytes shape_at) {
  if (layout.shape.empty()) refuse(path, shape_at, "the array has no dimensions; the first one must count samples");
  Bytes bytes = layout.stored_element;
  for (const int64_t extent : layout.shape) {
    if (extent == 0) refuse(path, shape_at, "the array is empty; give a file with at least one sample");
    if (extent > std::numeric_limits<Bytes>::max() / 2 / bytes)
      refuse(path, shape_at, "the header asks for more bytes than can be counted; the file is damaged, fetch it again");
    bytes *= extent;
  }
  if (bytes > file_bytes - layout.data_offset)
    refuse(path, file_bytes,
           fmt::format("the file ends, but its header says {}; it is cut off, fetch it again",
                       format_exact_bytes(layout.data_offset + bytes)));
}

Layout parse_idx(std::span<const std::byte> front, Bytes file_bytes, const std::string& path) {
  Layout layout;
  switch (unsigned_at(front, 2)) {
    case 0x08:
      layout.dtype = DType::U8;
      break;
    case 0x09:
      layout.dtype = DType::I8;
      break;
    case 0x0C:
      layout.dtype = DType::I32;
      break;
    case 0x0D:
    case 0x0E:
      layout.dtype = DType::F32;
      break;
    case 0x0B:
      refuse(path, 2, "idx with 16-bit integers cannot be read; save it with 32-bit integers (type 0x0C)");
    default:
      refuse(path, 2, fmt::format("idx type 0x{:02x} is unknown; the file is damaged", unsigned_at(front, 2)));
  }
  layout.stored_element = unsigned_at(front, 2) == 0x0E ? 8 : size_of(layout.dtype);
  layout.swap_bytes = layout.stored_element > 1;
  const Bytes dimensions = unsigned_at(front, 3);
  layout.data_offset = 4 + 4 * dimensions;
  if (layout.data_offset > file_bytes)
    refuse(path, file_bytes, fmt::format("the file ends inside its header of {} bytes", layout.data_offset));
  for (Bytes at = 4; at < layout.data_offset; at += 4)
    layout.shape.push_back(unsigned_at(front, at) << 24 | unsigned_at(front, at + 1) << 16 |
                           unsigned_at(front, at + 2) << 8 | unsigned_at(front, at + 3));
  check(layout, file_bytes, path, 4);
  return layout;
}

// The text behind 'key': in the dictionary that is the header of an npy file.
std::string_view value_of(std::string_view header, std::string_view key, const std::string& path, Bytes header_at) {
  for (const char quote : {'\'', '"'}) {
    const size_t at = header.find(fmt::format("{}{}{}", quote, key, quote));
    if (at == std::string_view::npos) continue;
    std::string_view rest = header.substr(at + key.size() + 2);
    while (!rest.empty() && (rest.front() == ' ' || rest.front() == ':')) rest.remove_prefix(1);
    if (!rest.empty()) return rest;
  }
  refuse(path, header_at, fmt::format("the npy header has no '{}'; write the file again with numpy.save", key));
}

void parse_element(std::string_view value, Layout& layout, const std::string& path, Bytes at) {
  if (value.front() != '\'' && value.front() != '"')
    refuse(path, at, "arrays of records cannot be read; save each field by itself");
  const std::string_view name = value.substr(1, value.find(value.front(), 1) - 1);
  struct Known {
    std::string_view name;
    DType dtype;
    Bytes stored;
  };
  static constexpr std::array<Known, 8> kKnown{{{"<f4", DType::F32, 4},
                                                {"<f8", DType::F32, 8},
                                                {"<f2", DType::F16, 2},
                                                {"<i4", DType::I32, 4},
                                                {"<i8", DType::I64, 8},
                                                {"|u1", DType::U8, 1},
                                                {"|i1", DType::I8, 1},
                                                {"|b1", DType::Bool, 1}}};
  for (const Known& known : kKnown)
    if (name == known.name) {
      layout.dtype = known.dtype;
      layout.stored_element = known.stored;
      return;
    }
  if (name.starts_with('>'))
    refuse(path, at, fmt::format("'{0}' is big-endian; save it with array.astype('<{1}')", name, name.substr(1)));
  refuse(path, at,
         fmt::format("elements of type '{}' cannot be read; convert with array.astype to float32, float16, "
                     "int32, int64, uint8, int8 or bool",
                     name));
}

std::vector<int64_t> parse_shape(std::string_view value, const std::string& path, Bytes at) {
  const size_t end = value.find(')');
  if (value.front() != '(' || end == std::string_view::npos) refuse(path, at, "the npy header has no proper 'shape'");
  std::string_view rest = value.substr(1, end - 1);
  std::vector<int64_t> shape;
  while (true) {
    while (!rest.empty() && (rest.front() == ' ' || rest.front() == ',')) rest.remove_prefix(1);
    if (rest.empty()) return shape;
    int64_t extent = 0;
    const auto [behind, status] = std::from_chars(rest.data(), rest.data() + rest.size(), extent);
    if (status != std::errc() || extent < 0)
      refuse(path, at, fmt::format("'{}' is no shape; the file is damaged, fetch it again", value.substr(0, end + 1)));
    shape.push_back(extent);
    rest.remove_prefix(static_cast<size_t>(behind - rest.data()));
    if (rest.starts_with('L')) rest.remove_prefix(1);  // as Python 2 wrote it
  }
}

Layout parse_npy(std::span<const std::byte> front, Bytes file_bytes, const std::string& path) {
  if (front.size() < 12) refuse(path, file_bytes, "the file ends inside its npy header; fetch it again");
  const uint32_t version = unsigned_at(front, 6);
  if (version < 1 || version > 3)
    refuse(path, 6, fmt::format("npy version {} is unknown; known are 1, 2 and 3", version));
  // Version 1 has two bytes of length, the later ones four; all little-endian.
  const Bytes header_at = version == 1 ? 10 : 12;
  Bytes length = 0;
  for (Bytes at = header_at - 1; at >= 8; --at) length = length << 8 | unsigned_at(front, at);
  Layout layout;
  layout.data_offset = header_at + length;
  if (layout.data_offset > file_bytes)
    refuse(path, 8,
           fmt::format("the header is {} bytes long, the file only {}; it is cut off, fetch it again",
                       layout.data_offset, file_bytes));
  if (layout.data_offset > static_cast<Bytes>(front.size()))
    refuse(path, 8, fmt::format("a header of {} bytes is too long; write the file again with numpy.save", length));
  const std::string_view header(reinterpret_cast<const char*>(front.data()) + header_at, static_cast<size_t>(length));
  parse_element(value_of(header, "descr", path, header_at), layout, path, header_at);
  layout.shape = parse_shape(value_of(header, "shape", path, header_at), path, header_at);
  // With one dimension both orders are the same.
  if (!value_of(header, "fortran_order", path, header_at).starts_with("False") && layout.shape.size() > 1)
    refuse(path, header_at, "the array is stored column by column; save numpy.ascontiguousarray(array) instead");
  check(layout, file_bytes, path, header_at);
  return layout;
}

}  // namespace

bool is_gzip(std::span<const std::byte> front) {
  return front.size() >= 2 && front[0] == std::byte{0x1f} && front[1] == std::byte{0x8b};
}

Layout parse_layout(std::span<const std::byte> front, Bytes file_bytes, const std::string& path) {
  if (front.size() >= kNpyMagic.size() && std::memcmp(front.data(), kNpyMagic.data(), kNpyMagic.size()) == 0)
    return parse_npy(front, file_bytes, path);
  if (front.size() >= 4 && front[0] == std::byte{0} && front[1] == std::byte{0})
    return parse_idx(front, file_bytes, path);
  if (front.size() >= 4 && std::memcmp(front.data(), "PK\x03\x04", 4) == 0)
    refuse(path, 0, "this is a zip archive (npz); unpack it and give one of its npy files");
  refuse(path, 0, file_bytes == 0 ? "the file is empty" : "this is neither idx nor npy, plain or .gz");
}

}  // namespace plimsoll

#include "input/files/stored_array.h"

#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "input/files/refuse.h"

namespace plimsoll::input {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr size_t kMostDimensions = 8;  // of a tensor
constexpr size_t kMostInHeader = 64;   // the limit of numpy 2

uint32_t unsigned_at(std::span<const std::byte> front, Bytes at) { return std::to_integer<uint32_t>(front[at]); }

// Checks the sizes against each other.
void check(const StoredArray& layout, const std::string& path, Bytes shape_at) {
  if (layout.shape.empty()) refuse(path, shape_at, "the array has no dimensions; the first one must count samples");
  if (layout.shape.size() > kMostDimensions)
    refuse(path, shape_at,
           fmt::format("the array has {} dimensions, but a tensor has at most {}; reshape it", layout.shape.size(),
                       kMostDimensions));
  Bytes bytes = layout.stored_element;
  for (const int64_t extent : layout.shape) {
    if (extent == 0) refuse(path, shape_at, "the array is empty; give a file with at least one sample");
    if (extent > std::numeric_limits<Bytes>::max() / 2 / bytes)
      refuse(path, shape_at, "the header asks for more bytes than can be counted; the file is damaged, fetch it again");
    bytes *= extent;
  }
}

StoredArray parse_idx(std::span<const std::byte> front, const std::string& path) {
  const auto file_bytes = static_cast<Bytes>(front.size());  // if it is that short
  StoredArray layout;
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
  check(layout, path, 4);
  return layout;
}

void parse_element(std::string_view name, StoredArray& layout, const std::string& path, Bytes at) {
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

// Reads the dictionary that is the header of an npy file: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
// Three keys, each once, and nothing else.
class NpyHeader {
 public:
  NpyHeader(std::string_view text, Bytes at, const std::string& path)
      : rest_(text), text_(text), at_(at), path_(path) {}

  void parse(StoredArray& layout) {
    expect('{');
    bool has_element = false, has_order = false, has_shape = false, is_by_column = false;
    while (!take('}')) {
      const Bytes key_at = position();
      const std::string_view key = quoted("a key");
      bool* const has = key == "descr"           ? &has_element
                        : key == "fortran_order" ? &has_order
                        : key == "shape"         ? &has_shape
                                                 : nullptr;
      if (has == nullptr) refuse(path_, key_at, fmt::format("the npy header has an unknown key '{}'", key));
      if (std::exchange(*has, true)) refuse(path_, key_at, fmt::format("the npy header has '{}' twice", key));
      expect(':');
      skip_blanks();
      const Bytes value_at = position();
      if (has == &has_element) {
        if (rest_.starts_with('['))
          refuse(path_, value_at, "arrays of records cannot be read; save each field by itself");
        parse_element(quoted("the element type"), layout, path_, value_at);
      } else if (has == &has_order) {
        is_by_column = truth();
      } else {
        layout.shape = shape();
      }
      if (take('}')) break;
      expect(',');
    }
    skip_blanks();
    if (!rest_.empty()) damaged("more text follows");
    for (const auto& [has, key] : {std::pair(has_element, "descr"), {has_order, "fortran_order"}, {has_shape, "shape"}})
      if (!has)
        refuse(path_, at_, fmt::format("the npy header has no '{}'; write the file again with numpy.save", key));
    // With one dimension both orders are the same.
    if (is_by_column && layout.shape.size() > 1)
      refuse(path_, at_, "the array is stored column by column; save numpy.ascontiguousarray(array) instead");
  }

 private:
  Bytes position() const { return at_ + static_cast<Bytes>(text_.size() - rest_.size()); }

  [[noreturn]] void damaged(const std::string& what) const {
    refuse(path_, position(), fmt::format("damaged npy header: {}; write the file again with numpy.save", what));
  }

  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n')) rest_.remove_prefix(1);
  }
  bool take(char wanted) {
    skip_blanks();
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char wanted) {
    if (!take(wanted)) damaged(fmt::format("'{}' is missing", wanted));
  }

  std::string_view quoted(const char* what) {
    skip_blanks();
    const char quote = rest_.empty() ? ' ' : rest_.front();
    const size_t end = quote == '\'' || quote == '"' ? rest_.find(quote, 1) : std::string_view::npos;
    if (end == std::string_view::npos) damaged(fmt::format("{} in quotes is missing", what));
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }

  bool truth() {
    for (const std::string_view word : {"True", "False"})
      if (rest_.starts_with(word)) {
        rest_.remove_prefix(word.size());
        return word == "True";
      }
    damaged("'fortran_order' is neither True nor False");
  }

  // A tuple as Python writes it: (), (3,), (3, 4) or (3, 4,).
  std::vector<int64_t> shape() {
    std::vector<int64_t> sizes;
    expect('(');
    bool comma = true;
    while (!take(')')) {
      int64_t size = 0;
      const auto [end, status] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (!comma || status != std::errc() || size < 0) damaged("its shape is no list of sizes");
      if (sizes.size() == kMostInHeader) damaged(fmt::format("it has more than {} dimensions", kMostInHeader));
      sizes.push_back(size);
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      if (rest_.starts_with('L')) rest_.remove_prefix(1);  // as Python 2 wrote it
      comma = take(',');
    }
    if (sizes.size() == 1 && !comma) damaged("its shape is a number, not a list of sizes");
    return sizes;
  }

  std::string_view rest_;
  const std::string_view text_;
  const Bytes at_;
  const std::string& path_;
};

StoredArray parse_npy(std::span<const std::byte> front, const std::string& path) {
  const auto file_bytes = static_cast<Bytes>(front.size());  // if it is that short
  if (front.size() < 12) refuse(path, file_bytes, "the file ends inside its npy header; fetch it again");
  const uint32_t version = unsigned_at(front, 6);
  if (version < 1 || version > 3)
    refuse(path, 6, fmt::format("npy version {} is unknown; known are 1, 2 and 3", version));
  // Version 1 has two bytes of length, the later ones four; all little-endian.
  const Bytes header_at = version == 1 ? 10 : 12;
  Bytes length = 0;
  for (Bytes at = header_at - 1; at >= 8; --at) length = length << 8 | unsigned_at(front, at);
  StoredArray layout;
  layout.data_offset = header_at + length;
  if (layout.data_offset > file_bytes && file_bytes >= kLongestHeader)
    refuse(path, 8, fmt::format("a header of {} bytes is too long; write the file again with numpy.save", length));
  if (layout.data_offset > file_bytes)
    refuse(path, 8,
           fmt::format("the header is {} bytes long, the file only {}; it is cut off, fetch it again",
                       layout.data_offset, file_bytes));
  const std::string_view header(reinterpret_cast<const char*>(front.data()) + header_at, static_cast<size_t>(length));
  NpyHeader(header, header_at, path).parse(layout);
  check(layout, path, header_at);
  return layout;
}

}  // namespace

bool is_gzip(std::span<const std::byte> front) {
  return front.size() >= 2 && front[0] == std::byte{0x1f} && front[1] == std::byte{0x8b};
}

bool is_zip(std::span<const std::byte> front) {
  return front.size() >= 4 && std::memcmp(front.data(), "PK\x03\x04", 4) == 0;
}

StoredArray parse_stored_array(std::span<const std::byte> front, const std::string& path) {
  if (front.size() >= kNpyMagic.size() && std::memcmp(front.data(), kNpyMagic.data(), kNpyMagic.size()) == 0)
    return parse_npy(front, path);
  if (front.size() >= 4 && front[0] == std::byte{0} && front[1] == std::byte{0}) return parse_idx(front, path);
  if (is_zip(front)) refuse(path, 0, "this is a zip archive inside another file; unpack it and give its npy files");
  refuse(path, 0, front.empty() ? "the file is empty" : "this is neither idx nor npy, plain or .gz");
}

void expect_file_bytes(const StoredArray& layout, Bytes file_bytes, const std::string& path) {
  const Bytes wanted = layout.file_bytes();
  if (file_bytes < wanted)
    refuse(path, file_bytes,
           fmt::format("the file ends, but its header says {}; it is cut off, fetch it again",
                       format_exact_bytes(wanted)));
  if (file_bytes > wanted)
    refuse(path, wanted, fmt::format("{} bytes follow the array; fetch the file again", file_bytes - wanted));
}

}  // namespace plimsoll::input

// Where the elements of an array lie in its file, as the header of an idx or npy file says it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <plimsoll/types.h>

namespace plimsoll::input {

struct StoredArray {
  DType dtype = DType::U8;     // what a reader gets
  Bytes stored_element = 1;    // bytes of an element in the file: 8 where 64-bit floats become f32
  bool swap_bytes = false;     // stored with the other byte order
  Bytes data_offset = 0;       // of the first element
  std::vector<int64_t> shape;  // samples first; no dimension is zero

  // Of header and elements.
  Bytes file_bytes() const {
    Bytes bytes = stored_element;
    for (const int64_t extent : shape) bytes *= extent;
    return data_offset + bytes;
  }
  bool narrows_f64() const { return stored_element == 8 && dtype == DType::F32; }
};

// Enough of a file's front for any header.
constexpr Bytes kLongestHeader = 64 * KiB;

// `front` is the start of the file: all of it, or kLongestHeader bytes. `path` is for the text of errors. Throws
// Error(BadData).
StoredArray parse_stored_array(std::span<const std::byte> front, const std::string& path);

// Throws Error(BadData) unless the file ends with the last element.
void expect_file_bytes(const StoredArray& layout, Bytes file_bytes, const std::string& path);

bool is_gzip(std::span<const std::byte> front);
bool is_zip(std::span<const std::byte> front);

}  // namespace plimsoll::input

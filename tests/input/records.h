// Small writers of tf.Example records and TFRecord files for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "input/files.h"

namespace plimsoll::testing {

inline std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

inline std::string varint(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += char(value | 0x80);
  return text + char(value);
}

// A field of type bytes: a message, a string, or a packed list.
inline std::string message(int field, const std::string& content) {
  return varint(field << 3 | 2) + varint(content.size()) + content;
}

inline std::string float_list(const std::vector<float>& values, bool packed = true) {
  if (packed) return message(2, message(1, raw(values)));
  std::string list;
  for (const float value : values) list += varint(1 << 3 | 5) + raw<float>({value});
  return message(2, list);
}

inline std::string int64_list(const std::vector<int64_t>& values, bool packed = true) {
  std::string list;
  for (const int64_t value : values) list += (packed ? "" : varint(1 << 3)) + varint(uint64_t(value));
  return message(3, packed ? message(1, list) : list);
}

inline std::string bytes_list(const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values) list += message(1, value);
  return message(1, list);
}

struct NamedList {
  std::string name;
  std::string list;
};

inline std::string example(const std::vector<NamedList>& features) {
  std::string entries;
  for (const NamedList& feature : features) entries += message(1, message(1, feature.name) + message(2, feature.list));
  return message(1, entries);
}

inline std::string tf_record(const std::string& data) {
  const std::string length = number(data.size(), 8);
  return length + number(masked_crc32c(bytes_of(length)), 4) + data + number(masked_crc32c(bytes_of(data)), 4);
}

}  // namespace plimsoll::testing

#include <array>

#include <plimsoll/error.h>
#include "tokenizer/readers.h"

namespace plimsoll::tokenizer {
namespace {

// Of the characters that stand for bytes: those of Latin-1 that can be seen are themselves, the other bytes follow at
// U+0100.
constexpr int kAlphabetEnd = 0x144;

constexpr std::array<int16_t, kAlphabetEnd> make_alphabet() {
  std::array<int16_t, kAlphabetEnd> bytes{};
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_seen = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    if (!is_seen) {
      if (byte < 0x100 && byte < kAlphabetEnd) bytes[static_cast<size_t>(byte)] = -1;
      bytes[static_cast<size_t>(next++)] = static_cast<int16_t>(byte);
    } else {
      bytes[static_cast<size_t>(byte)] = static_cast<int16_t>(byte);
    }
  }
  return bytes;
}
constexpr std::array<int16_t, kAlphabetEnd> kAlphabet = make_alphabet();

}  // namespace

void refuse(const std::string& source, const std::string& what) {
  throw Error(source + ": " + what, ErrorKind::BadData);
}

bool bytes_of_piece(std::string_view piece, std::string& bytes) {
  bytes.clear();
  for (size_t at = 0; at < piece.size();) {
    const CodePoint point = first_code_point(piece.data() + at);
    if (point.value >= kAlphabetEnd || kAlphabet[point.value] < 0) return false;
    bytes.push_back(static_cast<char>(kAlphabet[point.value]));
    at += point.bytes;
  }
  return true;
}

std::string decode_base64(std::string_view text, const std::string& what) {
  const auto digit = [](char c) -> unsigned {
    if (c >= 'A' && c <= 'Z') return static_cast<unsigned>(c - 'A');
    if (c >= 'a' && c <= 'z') return static_cast<unsigned>(c - 'a') + 26;
    if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0') + 52;
    return c == '+' ? 62 : c == '/' ? 63 : 64;
  };
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 3);
  unsigned bits = 0, count = 0;
  for (const char c : text) {
    const unsigned value = digit(c);
    if (value == 64) throw Error(what + " is not base64", ErrorKind::BadData);
    bits = (bits << 6 | value) & 0xFFFFFFU;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count & 0xFFU));
  }
  return bytes;
}

void make_byte_level(Description& description, const std::string& pattern) {
  Splitter splitter;
  splitter.pattern = {pattern, true};
  description.splitters.push_back(splitter);
  description.decoders.emplace_back();
  description.model.is_byte_level = true;
}

}  // namespace plimsoll::tokenizer

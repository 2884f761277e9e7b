#include "tokenizer/chars_map.h"

#include <cstring>

#include <utf8proc.h>

#include <plimsoll/error.h>
#include "tokenizer/text.h"

namespace plimsoll::tokenizer {
namespace {

// A unit of the double array.
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1U) != 0; }
uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFFU; }
uint32_t label_of(uint32_t unit) { return unit & (0x80000000U | 0xFFU); }
uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & 0x200U) >> 6); }

constexpr size_t kLongestGrapheme = 6;  // of those that `tokenizers` looks up as a whole

}  // namespace

CharsMap::CharsMap(std::string_view bytes, bool is_longest, const std::string& source) : is_longest_(is_longest) {
  const auto refuse = [&] {
    throw Error(source + ": the map of characters (precompiled_charsmap) is damaged", ErrorKind::BadData);
  };
  uint32_t size = 0;
  if (bytes.size() < sizeof size) refuse();
  std::memcpy(&size, bytes.data(), sizeof size);
  bytes.remove_prefix(sizeof size);
  if (size % sizeof(uint32_t) != 0 || size == 0 || size > bytes.size()) refuse();
  units_.resize(size / sizeof(uint32_t));
  std::memcpy(units_.data(), bytes.data(), size);
  texts_ = bytes.substr(size);
  if (texts_.empty() || texts_.back() != '\0' || right_bytes(texts_) != texts_.size()) refuse();
}

CharsMap::Found CharsMap::find(std::string_view text, bool wants_longest) const {
  Found found;
  size_t at = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    at ^= byte;
    if (byte == 0 || at >= units_.size() || label_of(units_[at]) != byte) break;
    const uint32_t unit = units_[at];
    at ^= offset_of(unit);
    if (!has_leaf(unit) || at >= units_.size()) continue;
    const uint32_t place = value_of(units_[at]);
    if (place >= texts_.size()) break;
    found = {i + 1, std::string_view(texts_.c_str() + place)};
    if (!wants_longest) break;
  }
  return found;
}

void CharsMap::apply(std::string& text) const {
  std::string result;
  result.reserve(text.size());
  const std::string_view all = text;
  if (is_longest_) {
    for (size_t at = 0; at < all.size();) {
      const Found found = find(all.substr(at), true);
      const size_t bytes = found.bytes > 0 ? found.bytes : first_code_point(all.data() + at).bytes;
      result.append(found.bytes > 0 ? found.text : all.substr(at, bytes));
      at += bytes;
    }
    text = std::move(result);
    return;
  }
  // As `tokenizers`: a short grapheme as a whole, else its characters; what begins with a key is replaced by its text.
  const auto append = [&](std::string_view part) {
    const Found found = find(part, false);
    if (found.bytes == 0) return false;
    result.append(found.text);
    return true;
  };
  for (size_t at = 0; at < all.size();) {
    size_t end = at;
    utf8proc_int32_t state = 0;
    for (CodePoint point = first_code_point(all.data() + at);;) {
      end += point.bytes;
      if (end == all.size()) break;
      const CodePoint next = first_code_point(all.data() + end);
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(point.value),
                                           static_cast<utf8proc_int32_t>(next.value), &state))
        break;
      point = next;
    }
    const std::string_view grapheme = all.substr(at, end - at);
    at = end;
    if (grapheme.size() < kLongestGrapheme && append(grapheme)) continue;
    for_each_character(grapheme, [&](char32_t, std::string_view bytes) {
      if (!append(bytes)) result.append(bytes);
    });
  }
  text = std::move(result);
}

}  // namespace plimsoll::tokenizer

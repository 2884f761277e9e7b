#include "tokenizer/text.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <utf8proc.h>

#include <plimsoll/error.h>

namespace plimsoll::tokenizer {
namespace {

struct CodeRange {
  char32_t first, last;
};
struct CategoryRange {
  char32_t first, last;
  utf8proc_category_t category;
};

#include "tokenizer/unicode_ranges.inc"

template <class TextRange, size_t n>
const TextRange* find_range(const TextRange (&ranges)[n], char32_t value) {
  const TextRange* const found =
      std::upper_bound(ranges, ranges + n, value, [](char32_t v, const TextRange& range) { return v < range.first; });
  return found != ranges && value <= found[-1].last ? found - 1 : nullptr;
}

utf8proc_category_t category_of(char32_t value) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(value));
  if (category != UTF8PROC_CATEGORY_CN) return category;
  const CategoryRange* const newer = find_range(kNewerCategories, value);
  return newer == nullptr ? category : newer->category;
}

bool is_mark_category(utf8proc_category_t category) {
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

// How many bytes at the begin of `text` are one right character; 0: it is broken, and `broken` of them form the part
// that one U+FFFD stands for: the longest begin of a right character, or one byte.
size_t bytes_of_one(std::string_view text, size_t& broken) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned lead = byte(0);
  broken = 1;
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // Over-long forms, surrogates and values past U+10FFFF show in the second byte.
  const unsigned least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < least || byte(1) > most) return 0;
  for (size_t i = 2; i < length; ++i)
    if ((byte(i) & 0xC0U) != 0x80) {
      broken = i;
      return 0;
    }
  return length;
}

}  // namespace

const uint8_t kAsciiKinds[128] = {
#define PLIMSOLL_16(kind) kind, kind, kind, kind, kind, kind, kind, kind, kind, kind, kind, kind, kind, kind, kind, kind
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    kSpace,
    kSpace,
    kSpace,
    kSpace,
    kSpace,
    0,
    0,               //
    PLIMSOLL_16(0),  //
    kSpace,
    kPunctuation,
    kPunctuation,
    kPunctuation,
    kSymbol,
    kPunctuation,
    kPunctuation,  // space ! " # $ % &
    kPunctuation,
    kPunctuation,
    kPunctuation,
    kPunctuation,
    kSymbol,
    kPunctuation,
    kPunctuation,  // ' ( ) * + , -
    kPunctuation,
    kPunctuation,  // . /
    kNumber,
    kNumber,
    kNumber,
    kNumber,
    kNumber,
    kNumber,
    kNumber,
    kNumber,
    kNumber,
    kNumber,  //
    kPunctuation,
    kPunctuation,
    kSymbol,
    kSymbol,
    kSymbol,
    kPunctuation,  // : ; < = > ?
    kPunctuation,
    kUpper,
    kUpper,
    kUpper,
    kUpper,
    kUpper,
    kUpper,
    kUpper,
    kUpper,
    kUpper,
    kUpper,  // @
    kUpper,
    kUpper,
    kUpper,
    kUpper,
    kUpper,
    kUpper,
    kUpper,
    kUpper,
    kUpper,
    kUpper,
    kUpper,
    kUpper,  //
    kUpper,
    kUpper,
    kUpper,
    kUpper,
    kPunctuation,
    kPunctuation,
    kPunctuation,
    kSymbol,
    kPunctuation,  // [ \ ] ^ _
    kSymbol,
    kLower,
    kLower,
    kLower,
    kLower,
    kLower,
    kLower,
    kLower,
    kLower,
    kLower,
    kLower,  // `
    kLower,
    kLower,
    kLower,
    kLower,
    kLower,
    kLower,
    kLower,
    kLower,
    kLower,
    kLower,
    kLower,
    kLower,  //
    kLower,
    kLower,
    kLower,
    kLower,
    kPunctuation,
    kSymbol,
    kPunctuation,
    kSymbol,
    0,  // { | } ~
#undef PLIMSOLL_16
};

void append_utf8(char32_t value, std::string& into) {
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(value), bytes);
  into.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
}

size_t right_bytes(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight = 0;
    while (at + 8 <= text.size()) {
      std::memcpy(&eight, text.data() + at, 8);
      if ((eight & 0x8080808080808080U) != 0) break;
      at += 8;
    }
    if (at == text.size()) break;
    size_t broken = 0;
    const size_t bytes = bytes_of_one(text.substr(at), broken);
    if (bytes == 0) return at;
    at += bytes;
  }
  return at;
}

int64_t append_repaired(std::string_view text, std::string& into) {
  int64_t repaired = 0;
  while (!text.empty()) {
    const size_t right = right_bytes(text);
    into.append(text.substr(0, right));
    text.remove_prefix(right);
    if (text.empty()) break;
    size_t broken = 0;
    bytes_of_one(text, broken);
    into.append("\xEF\xBF\xBD");
    text.remove_prefix(std::min(broken, text.size()));
    ++repaired;
  }
  return repaired;
}

uint8_t kind_beyond_ascii(char32_t value) {
  switch (category_of(value)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
      return kUpper;
    case UTF8PROC_CATEGORY_LL:
      return kLower;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return kOtherLetter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return kMark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return kNumber;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return kPunctuation;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      return kSymbol;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return kSpace;
    case UTF8PROC_CATEGORY_CC:
      return value == 0x85 ? kSpace : 0;
    default:
      return 0;
  }
}

bool is_space(char32_t value) { return (kind_of(value) & kSpace) != 0; }

bool is_word(char32_t value) {
  if ((kind_of(value) & (kLetter | kMark)) != 0) return true;
  const utf8proc_category_t category = category_of(value);
  // Beyond letters, Alphabetic holds letter numbers and circled letters; two joiners count as well.
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_PC ||
         (value >= 0x24B6 && value <= 0x24E9) || (value >= 0x1F130 && value <= 0x1F149) ||
         (value >= 0x1F150 && value <= 0x1F169) || (value >= 0x1F170 && value <= 0x1F189) || value == 0x200C ||
         value == 0x200D;
}

bool is_punctuation(char32_t value) {
  if (value < 128) return (kAsciiKinds[value] & (kPunctuation | kSymbol)) != 0;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(value));
  const bool is_usual = category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
  return is_usual != (find_range(kOtherPunctuation, value) != nullptr);
}

bool is_mark(char32_t value) {
  if (value < 128) return false;
  return is_mark_category(utf8proc_category(static_cast<utf8proc_int32_t>(value))) !=
         (find_range(kOtherMarks, value) != nullptr);
}

bool is_accent(char32_t value) {
  if (value < 128) return false;
  return (utf8proc_category(static_cast<utf8proc_int32_t>(value)) == UTF8PROC_CATEGORY_MN) !=
         (find_range(kOtherAccents, value) != nullptr);
}

bool is_control(char32_t value) {
  if (value == '\t' || value == '\n' || value == '\r') return false;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(value));
  return (category >= UTF8PROC_CATEGORY_CC && category <= UTF8PROC_CATEGORY_CO) !=
         (find_range(kOtherControls, value) != nullptr);
}

bool is_ideograph(char32_t value) {
  constexpr CodeRange kIdeographs[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},  {0x20000, 0x2A6DF},
                                       {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
  return value >= 0x3400 && find_range(kIdeographs, value) != nullptr;
}

void append_lower(char32_t value, std::string& into) {
  if (value < 128)
    into.push_back(static_cast<char>(value >= 'A' && value <= 'Z' ? value + 32 : value));
  else if (value == 0x130)  // the one character that two stand for
    into.append("i\xCC\x87");
  else
    append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(value))), into);
}

std::string normal_form(std::string_view text, Form form) {
  unsigned options = UTF8PROC_STABLE;
  options |= form == Form::Nfc || form == Form::Nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == Form::Nfkc || form == Form::Nfkd) options |= UTF8PROC_COMPAT;
  std::string result;
  size_t kept = 0;
  const auto append_form = [&](std::string_view part) {
    if (part.empty()) return;
    utf8proc_uint8_t* normal = nullptr;
    const utf8proc_ssize_t bytes =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(part.data()), static_cast<utf8proc_ssize_t>(part.size()),
                     &normal, static_cast<utf8proc_option_t>(options));
    if (bytes < 0) throw Error(std::string("text can't be normalised: ") + utf8proc_errmsg(bytes), ErrorKind::BadData);
    try {
      result.append(reinterpret_cast<const char*>(normal), static_cast<size_t>(bytes));
    } catch (...) {
      std::free(normal);
      throw;
    }
    std::free(normal);
  };
  if (form == Form::Nfkc || form == Form::Nfkd)
    for (size_t at = 0; at < text.size();) {
      const CodePoint point = first_code_point(text.data() + at);
      if (point.value >= 128 && find_range(kNotDecomposed, point.value) != nullptr) {
        append_form(text.substr(kept, at - kept));
        result.append(text, at, point.bytes);
        kept = at + point.bytes;
      }
      at += point.bytes;
    }
  append_form(text.substr(kept));
  return result;
}

}  // namespace plimsoll::tokenizer

#include "tokenizer/normalise.h"

#include <algorithm>

namespace plimsoll::tokenizer {
namespace {

bool is_ascii(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char byte) { return static_cast<unsigned char>(byte) >= 128; });
}

// The text with `change(code point, its bytes, result)` called for each character.
template <class Change>
void rewrite(std::string& text, const Change& change) {
  std::string result;
  result.reserve(text.size() + text.size() / 16);
  for_each_character(text, [&](char32_t value, std::string_view bytes) { change(value, bytes, result); });
  text = std::move(result);
}

void lower(std::string& text) {
  rewrite(text, [](char32_t value, std::string_view, std::string& into) { append_lower(value, into); });
}

void strip(std::string& text, bool left, bool right) {
  size_t begin = 0, end = text.size();
  if (left)
    while (begin < end) {
      const CodePoint point = first_code_point(text.data() + begin);
      if (!is_space(point.value)) break;
      begin += point.bytes;
    }
  if (right)
    while (end > begin) {
      const size_t last = begin_of_last(std::string_view(text).substr(0, end));
      if (!is_space(first_code_point(text.data() + last).value)) break;
      end = last;
    }
  text = text.substr(begin, end - begin);
}

void replace(std::string& text, const PatternFinder& finder, const std::string& content) {
  std::vector<TextRange> matches;
  finder.find_all(text, matches);
  if (matches.empty()) return;
  std::string result;
  result.reserve(text.size() + text.size() / 8);
  size_t at = 0;
  for (const TextRange& match : matches) {
    result.append(text, at, match.begin - at).append(content);
    at = match.end;
  }
  text = std::move(result.append(text, at));
}

// What SentencePiece's nmt rules drop and take for spaces, as `tokenizers` has them.
void clean_nmt(std::string& text) {
  rewrite(text, [](char32_t value, std::string_view bytes, std::string& into) {
    if ((value >= 1 && value <= 8) || value == 11 || (value >= 14 && value <= 31) || value == 127 || value == 143 ||
        value == 159)
      return;
    const bool is_blank = value == 9 || value == 10 || value == 12 || value == 13 || value == 0x1680 ||
                          (value >= 0x200B && value <= 0x200F) || value == 0x2028 || value == 0x2029 ||
                          value == 0x2581 || value == 0xFEFF || value == 0xFFFD;
    if (is_blank)
      into.push_back(' ');
    else
      into.append(bytes);
  });
}

}  // namespace

NormaliserStep::NormaliserStep(const Normaliser& facts, const std::string& source) : facts_(facts) {
  if (facts.kind == NormaliserKind::Replace) finder_.emplace(facts.pattern, source);
  if (facts.kind == NormaliserKind::CharsMap) {
    map_.emplace(facts.content, facts.is_longest, source);
    facts_.content = {};
  }
}

void NormaliserStep::apply(std::string& text, bool begins) const {
  switch (facts_.kind) {
    case NormaliserKind::Form:
      if (!is_ascii(text)) text = normal_form(text, facts_.form);
      return;
    case NormaliserKind::Lowercase:
      return lower(text);
    case NormaliserKind::Accents:
      return rewrite(text, [](char32_t value, std::string_view bytes, std::string& into) {
        if (!is_mark(value)) into.append(bytes);
      });
    case NormaliserKind::Strip:
      return strip(text, facts_.left && begins, facts_.right);
    case NormaliserKind::Prepend:
      if (!text.empty() && begins) text.insert(0, facts_.content);
      return;
    case NormaliserKind::Replace:
      return replace(text, *finder_, facts_.content);
    case NormaliserKind::CharsMap:
      return map_->apply(text);
    case NormaliserKind::Nmt:
      return clean_nmt(text);
    case NormaliserKind::Bert:
      return apply_bert(text);
  }
}

void NormaliserStep::apply_bert(std::string& text) const {
  rewrite(text, [&](char32_t value, std::string_view bytes, std::string& into) {
    if (facts_.cleans) {
      if (value == 0 || value == 0xFFFD || is_control(value)) return;
      if (is_space(value)) return into.push_back(' ');
    }
    if (facts_.spaces_ideographs && is_ideograph(value))
      into.append(" ").append(bytes).append(" ");
    else
      into.append(bytes);
  });
  if (facts_.strips_accents && !is_ascii(text)) {
    text = normal_form(text, Form::Nfd);
    rewrite(text, [](char32_t value, std::string_view bytes, std::string& into) {
      if (!is_accent(value)) into.append(bytes);
    });
  }
  if (facts_.lowers) lower(text);
}

bool NormaliserStep::ends_before_spaces() const {
  if (facts_.kind == NormaliserKind::CharsMap) return false;
  // Several spaces as one: a letter before them is in no match.
  return facts_.kind != NormaliserKind::Replace || facts_.pattern.text == " {2,}" || finder_->ends_before_spaces();
}

Bytes NormaliserStep::bytes() const {
  return static_cast<Bytes>(sizeof *this + facts_.content.capacity() + facts_.pattern.text.capacity()) +
         (finder_ ? finder_->bytes() : 0) + (map_ ? map_->bytes() : 0);
}

}  // namespace plimsoll::tokenizer

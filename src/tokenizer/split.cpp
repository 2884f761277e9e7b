#include "tokenizer/split.h"

#include <algorithm>

namespace plimsoll::tokenizer {
namespace {

// A word's parts: those that match and those between, which become words as the behaviour says.
void append_parts(const std::vector<TextRange>& matches, TextRange word, Behaviour behaviour, bool is_inverted,
                  std::vector<TextRange>& into) {
  const size_t before = into.size();
  bool was_match = false;
  const auto append = [&](TextRange part, bool is_match) {
    if (part.begin == part.end) return;
    is_match = is_match != is_inverted;
    const bool has_previous = into.size() > before && into.back().end == part.begin;
    switch (behaviour) {
      case Behaviour::Removed:
        if (!is_match) into.push_back(part);
        break;
      case Behaviour::Isolated:
        into.push_back(part);
        break;
      case Behaviour::Contiguous:
        if (has_previous && was_match == is_match)
          into.back().end = part.end;
        else
          into.push_back(part);
        break;
      case Behaviour::MergedWithPrevious:
        if (is_match && !was_match && has_previous)
          into.back().end = part.end;
        else
          into.push_back(part);
        break;
      case Behaviour::MergedWithNext:  // a match that waits takes the next part that is none
        if (!is_match && was_match && has_previous)
          into.back().end = part.end;
        else
          into.push_back(part);
        break;
    }
    was_match = is_match;
  };
  uint32_t at = 0;
  const uint32_t size = word.end - word.begin;
  for (const TextRange& match : matches) {
    append({word.begin + at, word.begin + match.begin}, false);
    append({word.begin + match.begin, word.begin + match.end}, true);
    at = match.end;
  }
  append({word.begin + at, word.begin + size}, false);
}

// Splits each word at the characters for which `is_cut` is true; each of them is a match of its own.
template <class IsCut>
void split_characters(Words& words, Behaviour behaviour, const IsCut& is_cut) {
  words.others.clear();
  for (const TextRange& word : words.words) {
    words.matches.clear();
    uint32_t at = 0;
    for_each_character(words.word(word), [&](char32_t value, std::string_view bytes) {
      const auto end = at + static_cast<uint32_t>(bytes.size());
      if (is_cut(value)) words.matches.push_back({at, end});
      at = end;
    });
    append_parts(words.matches, word, behaviour, false, words.others);
  }
  std::swap(words.words, words.others);
}

// \w+|[^\w\s]+
void split_words(Words& words) {
  words.others.clear();
  for (const TextRange& word : words.words) {
    uint32_t at = word.begin;
    int last = 0;  // 1: a word, 2: other characters
    for_each_character(words.word(word), [&](char32_t value, std::string_view bytes) {
      const auto end = at + static_cast<uint32_t>(bytes.size());
      const int kind = is_word(value) ? 1 : is_space(value) ? 0 : 2;
      if (kind != 0 && kind == last)
        words.others.back().end = end;
      else if (kind != 0)
        words.others.push_back({at, end});
      last = kind;
      at = end;
    });
  }
  std::swap(words.words, words.others);
}

// Makes a new text of the words, one after the other.
template <class Write>
void rewrite_words(Words& words, const Write& write) {
  std::string& into = words.held[words.used ^= 1];
  into.clear();
  for (TextRange& range : words.words) {
    const auto begin = static_cast<uint32_t>(into.size());
    write(words.word(range), into);
    range = {begin, static_cast<uint32_t>(into.size())};
  }
  words.text = into;
}

}  // namespace

Bytes Words::bytes() const {
  return static_cast<Bytes>((words.capacity() + others.capacity() + matches.capacity()) * sizeof(TextRange) +
                            held[0].capacity() + held[1].capacity());
}

SplitterStep::SplitterStep(const Splitter& facts, const std::string& source) : facts_(facts) {
  if (facts.kind == SplitterKind::Pattern) finder_.emplace(facts.pattern, source);
}

void SplitterStep::apply(Words& words, bool is_first) const {
  switch (facts_.kind) {
    case SplitterKind::Pattern:
      words.others.clear();
      for (const TextRange& word : words.words) {
        words.matches.clear();
        finder_->find_all(words.word(word), words.matches);
        append_parts(words.matches, word, facts_.behaviour, facts_.is_inverted, words.others);
      }
      std::swap(words.words, words.others);
      return;
    case SplitterKind::Prefix:
      return apply_prefix(words);
    case SplitterKind::Metaspace:
      return apply_metaspace(words, is_first);
    case SplitterKind::Bert:
      split_characters(words, Behaviour::Removed, is_space);
      return split_characters(words, Behaviour::Isolated, is_punctuation);
    case SplitterKind::Words:
      return split_words(words);
    case SplitterKind::Spaces:
      return split_characters(words, Behaviour::Removed, is_space);
    case SplitterKind::Punctuation:
      return split_characters(words, facts_.behaviour, is_punctuation);
    case SplitterKind::Digits:
      return split_characters(words, facts_.is_individual ? Behaviour::Isolated : Behaviour::Contiguous,
                              [](char32_t value) { return (kind_of(value) & kNumber) != 0; });
    case SplitterKind::Marks:
      words.others.clear();
      for (const TextRange& word : words.words) {
        // A mark begins a word unless another mark stands before it.
        const std::string_view text = words.word(word);
        uint32_t begin = 0;
        for (size_t at = text.find(facts_.mark); at != std::string_view::npos; at = text.find(facts_.mark, at)) {
          if (at > begin) {
            words.others.push_back({word.begin + begin, word.begin + static_cast<uint32_t>(at)});
            begin = static_cast<uint32_t>(at);
          }
          while (text.substr(at).starts_with(facts_.mark)) at += facts_.mark.size();
        }
        if (begin < text.size()) words.others.push_back({word.begin + begin, word.end});
      }
      std::swap(words.words, words.others);
      return;
  }
}

void SplitterStep::apply_prefix(Words& words) const {
  const bool lacks_one = std::any_of(words.words.begin(), words.words.end(),
                                     [&](const TextRange& word) { return words.text[word.begin] != ' '; });
  if (!lacks_one) return;
  rewrite_words(words, [](std::string_view word, std::string& into) {
    if (word[0] != ' ') into.push_back(' ');
    into.append(word);
  });
}

void SplitterStep::apply_metaspace(Words& words, bool is_first) const {
  bool is_at_begin = true;
  rewrite_words(words, [&](std::string_view word, std::string& into) {
    const bool wants_mark =
        facts_.prepending == Prepending::Always || (facts_.prepending == Prepending::First && is_first && is_at_begin);
    is_at_begin = false;
    if (wants_mark && word[0] != ' ' && !word.starts_with(facts_.mark)) into.append(facts_.mark);
    for (const char byte : word)
      if (byte == ' ')
        into.append(facts_.mark);
      else
        into.push_back(byte);
  });
  if (!facts_.splits) return;
  words.others.clear();
  for (const TextRange& word : words.words) {
    words.matches.clear();
    const std::string_view text = words.word(word);
    for (size_t at = text.find(facts_.mark); at != std::string_view::npos;
         at = text.find(facts_.mark, at + facts_.mark.size()))
      words.matches.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(at + facts_.mark.size())});
    append_parts(words.matches, word, Behaviour::MergedWithNext, false, words.others);
  }
  std::swap(words.words, words.others);
}

bool SplitterStep::ends_before_spaces() const {
  return facts_.kind != SplitterKind::Pattern || finder_->ends_before_spaces();
}

Bytes SplitterStep::bytes() const {
  return static_cast<Bytes>(sizeof *this + facts_.pattern.text.capacity()) + (finder_ ? finder_->bytes() : 0);
}

}  // namespace plimsoll::tokenizer

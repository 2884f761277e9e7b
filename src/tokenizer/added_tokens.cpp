#include "tokenizer/added_tokens.h"

#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::tokenizer {
namespace {

constexpr size_t kLongestContent = 1024;

bool begins_with_word(std::string_view text) { return !text.empty() && is_word(first_code_point(text.data()).value); }
bool ends_with_word(std::string_view text) {
  return !text.empty() && is_word(first_code_point(text.data() + begin_of_last(text)).value);
}

size_t end_of_spaces(std::string_view text, size_t at) {
  while (at < text.size()) {
    const CodePoint point = first_code_point(text.data() + at);
    if (!is_space(point.value)) break;
    at += point.bytes;
  }
  return at;
}

size_t begin_of_spaces(std::string_view text, size_t end) {
  while (end > 0) {
    const size_t last = begin_of_last(text.substr(0, end));
    if (!is_space(first_code_point(text.data() + last).value)) break;
    end = last;
  }
  return end;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const std::string& source) : tokens_(std::move(tokens)) {
  for (const AddedToken& token : tokens_) {
    if (token.content.empty())
      throw Error(fmt::format("{}: the added token {} is empty", source, token.id), ErrorKind::BadData);
    if (token.content.size() > kLongestContent)
      throw Error(fmt::format("{}: the added token {} has {} bytes; added tokens have at most {}", source, token.id,
                              token.content.size(), kLongestContent),
                  ErrorKind::BadData);
    is_first_[static_cast<unsigned char>(token.content[0])] = true;
  }
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
}

// Narrows the tokens that have the bytes so far, which stand side by side.
const AddedToken* AddedTokens::find_at(std::string_view text) const {
  const AddedToken* longest = nullptr;
  auto begin = tokens_.begin(), end = tokens_.end();
  for (size_t i = 0; begin != end && i < text.size(); ++i) {
    const auto byte_of = [i](const AddedToken& token) {
      return i < token.content.size() ? static_cast<int>(static_cast<unsigned char>(token.content[i])) : -1;
    };
    const int wanted = static_cast<unsigned char>(text[i]);
    begin = std::partition_point(begin, end, [&](const AddedToken& token) { return byte_of(token) < wanted; });
    end = std::partition_point(begin, end, [&](const AddedToken& token) { return byte_of(token) == wanted; });
    if (begin != end && begin->content.size() == i + 1) longest = &*begin;
  }
  return longest;
}

void AddedTokens::split(std::string_view text, std::vector<Segment>& segments) const {
  size_t done = 0;
  const auto append_text = [&](size_t begin, size_t end) {
    if (begin < end) segments.push_back({text.substr(begin, end - begin)});
  };
  for (size_t at = 0; at < text.size();) {
    if (tokens_.empty()) break;
    if (!is_first_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const AddedToken* const token = find_at(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + token->content.size();
    at = end;
    if (token->is_single_word && (ends_with_word(text.substr(0, begin)) || begins_with_word(text.substr(end))))
      continue;
    // Spaces that the token before has taken already stay there.
    if (token->strips_left) begin = std::max(begin_of_spaces(text, begin), done);
    if (token->strips_right) end = end_of_spaces(text, end);
    append_text(done, std::max(begin, done));
    segments.push_back({text.substr(begin, end - begin), token->id});
    done = end;
  }
  append_text(done, text.size());
}

bool AddedTokens::ends_before_spaces() const {
  return std::all_of(tokens_.begin(), tokens_.end(), [](const AddedToken& token) {
    const bool ends_in_word =
        static_cast<unsigned char>(token.content.back()) < 128 &&
        (kAsciiKinds[static_cast<unsigned char>(token.content.back())] & (kLetter | kNumber)) != 0;
    return token.content.find(' ') == std::string::npos && !(token.strips_right && ends_in_word);
  });
}

Bytes AddedTokens::bytes() const {
  Bytes bytes = static_cast<Bytes>(sizeof *this + tokens_.capacity() * sizeof(AddedToken));
  for (const AddedToken& token : tokens_) bytes += static_cast<Bytes>(token.content.capacity());
  return bytes;
}

}  // namespace plimsoll::tokenizer

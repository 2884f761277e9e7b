#include "tokenizer/decode.h"

#include <algorithm>

namespace plimsoll::tokenizer {
namespace {

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  if (what.empty()) return;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

// The spaces before punctuation and in short forms, which English text has not: as `tokenizers` and BERT clean them.
void clean(std::string& text) {
  constexpr std::string_view kPairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                            {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                            {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& pair : kPairs) replace_all(text, pair[0], pair[1]);
}

void join(std::vector<std::string>& tokens) {
  std::string all;
  for (const std::string& token : tokens) all.append(token);
  tokens.assign(1, std::move(all));
}

// The value of "<0x0A>", -1 for another token.
int byte_of(std::string_view token) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
  };
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const int high = digit(token[3]), low = digit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

// Bytes that follow each other are text where they are right UTF-8; else each is a character that nobody knows.
void join_bytes(std::vector<std::string>& tokens) {
  std::vector<std::string> result;
  std::string run;
  const auto close = [&] {
    if (run.empty()) return;
    if (right_bytes(run) == run.size())
      result.push_back(run);
    else
      result.insert(result.end(), run.size(), "\xEF\xBF\xBD");
    run.clear();
  };
  for (std::string& token : tokens) {
    const int byte = byte_of(token);
    if (byte >= 0) {
      run.push_back(static_cast<char>(byte));
      continue;
    }
    close();
    result.push_back(std::move(token));
  }
  close();
  tokens = std::move(result);
}

void strip_token(std::string& token, const Decoder& facts) {
  size_t begin = 0, end = token.size();
  const size_t size = facts.content.size();
  for (int64_t i = 0; i < facts.start && token.compare(begin, size, facts.content) == 0 && begin + size <= end; ++i)
    begin += size;
  for (int64_t i = 0; i < facts.stop && end >= begin + size && token.compare(end - size, size, facts.content) == 0; ++i)
    end -= size;
  token = token.substr(begin, end - begin);
}

}  // namespace

DecoderStep::DecoderStep(const Decoder& facts, const std::string& source) : facts_(facts) {
  if (facts.kind == DecoderKind::Replace) finder_.emplace(facts.pattern, source);
}

void DecoderStep::apply(std::vector<std::string>& tokens) const {
  bool is_first = true;
  switch (facts_.kind) {
    case DecoderKind::ByteLevel:  // pieces are bytes already
    case DecoderKind::Fuse:
      return join(tokens);
    case DecoderKind::WordPiece:
      for (std::string& token : tokens) {
        if (!is_first && token.starts_with(facts_.content))
          token.erase(0, facts_.content.size());
        else if (!is_first)
          token.insert(0, " ");
        if (facts_.cleans) clean(token);
        is_first = false;
      }
      return;
    case DecoderKind::Metaspace:
      for (std::string& token : tokens) {
        if (is_first && facts_.prepending != Prepending::Never && token.starts_with(facts_.content))
          token.erase(0, facts_.content.size());
        replace_all(token, facts_.content, " ");
        is_first = false;
      }
      return;
    case DecoderKind::Suffix:
      for (size_t i = 0; i < tokens.size(); ++i)
        replace_all(tokens[i], facts_.content, i + 1 == tokens.size() ? "" : " ");
      return;
    case DecoderKind::Replace:
      for (std::string& token : tokens) {
        std::vector<TextRange> matches;
        finder_->find_all(token, matches);
        for (auto match = matches.rbegin(); match != matches.rend(); ++match)
          token.replace(match->begin, match->end - match->begin, facts_.content);
      }
      return;
    case DecoderKind::Strip:
      for (std::string& token : tokens) strip_token(token, facts_);
      return;
    case DecoderKind::Bytes:
      return join_bytes(tokens);
  }
}

Bytes DecoderStep::bytes() const {
  return static_cast<Bytes>(sizeof *this + facts_.content.capacity()) + (finder_ ? finder_->bytes() : 0);
}

}  // namespace plimsoll::tokenizer

// Text to ids and back, by the tokenizers that language models come with.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/types.h>

namespace plimsoll {

namespace tokenizer {
class TokenPipeline;
struct TokenScratch;
}  // namespace tokenizer

struct TokenizerOptions {
  // Of a file of ranks (tiktoken): the expression that cuts text into words, and the tokens that follow the ranks.
  // Empty: found by the number of ranks, for vocabularies that are known.
  std::string pattern = {};
  std::vector<std::string> special = {};
};

// One text or two, with the tokens that the model wants around them.
struct EncodedText {
  std::vector<int32_t> ids;
  std::vector<int32_t> types;  // 0: the first text, 1: the second
};

// Made of a file or a folder. A copy shares the vocabulary and has its own memory to work in: each thread takes one.
class Tokenizer {
 public:
  // A folder with a tokenizer.json, tokenizer.model, vocab.json and merges.txt or vocab.txt; or one of: tokenizer.json,
  // a SentencePiece model, a file of tiktoken, tekken.json, vocab.bpe or merges.txt beside vocab.json or encoder.json,
  // vocab.txt. Throws Error(BadData) that names the file and what is wrong or unknown in it.
  static Tokenizer open(const std::string& path, const TokenizerOptions& options = {});
  Tokenizer(const Tokenizer& other);
  Tokenizer& operator=(const Tokenizer& other);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Ids of the text alone. Broken UTF-8 is read as U+FFFD, as Python's decode(errors="replace") does.
  std::vector<int32_t> encode(std::string_view text);
  // With the tokens of the model's template around the text, or around two of them.
  EncodedText encode_whole(std::string_view text);
  EncodedText encode_pair(std::string_view first, std::string_view second);

  // A text that is read piece by piece: `read` fills its buffer and returns how many bytes it wrote, 0 at the end. The
  // ids are those of the whole text. Where the vocabulary allows no cut (can_cut() is false), the text is held whole.
  void encode_stream(const std::function<size_t(std::span<char>)>& read,
                     const std::function<void(std::span<const int32_t>)>& write);
  bool can_cut() const;
  // Broken parts of UTF-8 that were read as U+FFFD so far.
  int64_t repaired() const { return repaired_; }

  // Throws Error(BadData) for an id that there is not. Ids of broken characters give their bytes.
  std::string decode(std::span<const int32_t> ids, bool skips_special = false) const;

  int64_t vocabulary_size() const;  // ids are below it
  std::string_view token(int32_t id) const;
  std::optional<int32_t> find(std::string_view token) const;
  bool is_special(int32_t id) const;

  // Held for the vocabulary, which copies share, and to work in.
  Bytes bytes() const;
  Bytes scratch_bytes() const;

 private:
  explicit Tokenizer(std::shared_ptr<const tokenizer::TokenPipeline> pipeline);
  void append_template(bool is_pair, std::string_view first, std::string_view second, EncodedText& into);

  std::shared_ptr<const tokenizer::TokenPipeline> pipeline_;
  std::unique_ptr<tokenizer::TokenScratch> scratch_;
  int64_t repaired_ = 0;
};

}  // namespace plimsoll

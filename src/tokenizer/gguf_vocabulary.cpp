// Reads the tokenizer that a GGUF file holds.
#include <fmt/format.h>

#include "import/gguf.h"
#include "tokenizer/merges.h"
#include "tokenizer/readers.h"
#include "tokenizer/regex.h"

namespace plimsoll::tokenizer {
namespace {

enum TokenType : int64_t { kOrdinary = 1, kControlToken = 3, kOwnToken = 4 };

void add_digits(Description& into) {
  Splitter digits;
  digits.kind = SplitterKind::Digits;
  digits.is_individual = true;
  into.splitters.push_back(digits);
}

// How text is cut, by the name that llama.cpp gives it.
void add_words(const std::string& name, Description& into) {
  if (name == "smollm" || name == "starcoder" || name == "refact" || name == "command-r") {
    add_digits(into);
    return make_byte_level(into, kGpt2Pattern);
  }
  if (name == "gpt-2" || name == "default" || name.empty()) return make_byte_level(into, kGpt2Pattern);
  if (name == "llama3" || name == "llama-v3" || name == "llama-bpe") {
    into.model.ignores_merges = true;
    return make_byte_level(into, kLlama3Pattern);
  }
  if (name == "qwen2" || name == "deepseek-r1-qwen") return make_byte_level(into, kQwen2Pattern);
  if (name == "tekken") {
    into.model.ignores_merges = true;
    return make_byte_level(into, kTekkenPattern);
  }
  if (name == "llama4" || name == "gpt-4o") return make_byte_level(into, kLlama4Pattern);
  refuse(into.source,
         fmt::format("its way to cut text (tokenizer.ggml.pre) is '{}', which is unknown", name.substr(0, 100)));
}

}  // namespace

Description read_gguf_vocabulary(const std::string& path) {
  const import::GgufFile file(path);
  Description description;
  description.source = path;
  PieceModelFacts& model = description.model;
  const std::string kind = file.text("tokenizer.ggml.model", "");
  if (kind.empty()) refuse(path, "holds no tokenizer (tokenizer.ggml.model)");
  if (kind != "gpt2")
    refuse(path,
           fmt::format("its tokenizer is of the kind '{}'; 'gpt2' is read, and for others the tokenizer's own files",
                       kind.substr(0, 100)));
  add_words(file.text("tokenizer.ggml.pre", ""), description);
  const std::vector<int64_t> types = file.wholes("tokenizer.ggml.token_type");
  std::string bytes;
  int32_t id = 0;
  file.for_each_text("tokenizer.ggml.tokens", [&](std::string_view token) {
    if (right_bytes(token) != token.size()) refuse(path, fmt::format("the token {} is not UTF-8", id));
    const int64_t type = static_cast<size_t>(id) < types.size() ? types[static_cast<size_t>(id)] : kOrdinary;
    const bool is_mapped = type == kOrdinary && bytes_of_piece(token, bytes);
    if (type == kControlToken || type == kOwnToken)
      description.added.push_back({id, std::string(token), type == kControlToken});
    model.vocabulary.add(id++, is_mapped ? std::string_view(bytes) : token, path, is_mapped);
  });
  model.vocabulary.finish(path);
  int64_t number = 0;
  file.for_each_text("tokenizer.ggml.merges", [&](std::string_view merge) {
    const size_t space = merge.find(' ', 1);
    std::string left, right;
    const bool is_pair = space != std::string_view::npos && right_bytes(merge) == merge.size() &&
                         bytes_of_piece(merge.substr(0, space), left) && bytes_of_piece(merge.substr(space + 1), right);
    const ListedMerge listed{model.vocabulary.find(left), model.vocabulary.find(right),
                             model.vocabulary.find(left + right)};
    if (!is_pair || listed.left == kNoId || listed.right == kNoId || listed.piece == kNoId)
      refuse(path, fmt::format("the merge {} is not two pieces of the vocabulary that make a third", number));
    model.merges.push_back(listed);
    ++number;
  });
  return description;
}

}  // namespace plimsoll::tokenizer

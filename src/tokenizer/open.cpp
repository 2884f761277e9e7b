#include "tokenizer/open.h"

#include <filesystem>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "memory/file.h"

namespace plimsoll::tokenizer {
namespace {

namespace fs = std::filesystem;

std::string begin_of(const std::string& path) {
  const memory::File file = memory::File::open(path);
  std::string bytes(512, '\0');
  bytes.resize(static_cast<size_t>(file.read_some(0, static_cast<Bytes>(bytes.size()), bytes.data(), path)));
  return bytes;
}

std::string beside(const std::string& path, std::initializer_list<const char*> names) {
  std::error_code ignored;
  for (const char* name : names)
    if (const fs::path other = fs::path(path).parent_path() / name; fs::is_regular_file(other, ignored)) return other;
  return {};
}

Description read_file(const std::string& path, const RankedFacts& facts) {
  const std::string begin = begin_of(path);
  const std::string name = fs::path(path).filename();
  if (begin.starts_with("GGUF")) return read_gguf_vocabulary(path);
  const size_t first = begin.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && begin[first] == '{' && !begin.starts_with('\n')) {
    if (begin.find("\"config\"") < begin.find("\"vocab\"")) return read_tekken(path);
    if (name != "vocab.json" && name != "encoder.json") return read_tokenizer_json(path);
    const std::string merges = beside(path, {"merges.txt", "vocab.bpe"});
    if (merges.empty())
      throw Error(path + ": the merges of this vocabulary are missing: put merges.txt or vocab.bpe beside it",
                  ErrorKind::BadData);
    return read_gpt2(path, merges);
  }
  if (name == "merges.txt" || name == "vocab.bpe") {
    const std::string pieces = beside(path, {"vocab.json", "encoder.json"});
    if (pieces.empty())
      throw Error(path + ": the ids of these merges are missing: put vocab.json or encoder.json beside it",
                  ErrorKind::BadData);
    return read_gpt2(pieces, path);
  }
  if (begin.starts_with("[PAD]") || fs::path(path).extension() == ".txt") return read_word_list(path, true);
  // The first field of a SentencePiece model is a piece. A line of ranks is base64.
  if (begin.starts_with('\n')) return read_sentence_piece(path);
  const size_t space = begin.find(' ');
  if (space != std::string::npos && space % 4 == 0 && begin.find('\n') < begin.size())
    return read_tiktoken(path, facts);
  throw Error(
      path +
          ": is no tokenizer that is known (tokenizer.json, a SentencePiece model, a file of tiktoken, tekken.json, "
          "vocab.json with merges.txt, vocab.txt)",
      ErrorKind::BadData);
}

}  // namespace

Description read_tokenizer(const std::string& path, const RankedFacts& facts) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return read_file(path, facts);
  for (const char* name : {"tokenizer.json", "tekken.json", "vocab.json", "encoder.json", "tokenizer.model",
                           "spiece.model", "sentencepiece.bpe.model", "vocab.txt"})
    if (const std::string file = beside((fs::path(path) / "x").string(), {name}); !file.empty())
      return read_file(file, facts);
  throw Error(
      fmt::format("{}: holds no tokenizer: no tokenizer.json, tokenizer.model, tekken.json, vocab.json or vocab.txt",
                  path),
      ErrorKind::BadData);
}

}  // namespace plimsoll::tokenizer

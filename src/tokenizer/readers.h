// Readers of tokenizers: a file or two to a description.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/description.h"

namespace plimsoll::tokenizer {

// All throw Error(BadData) that names the file and what is wrong or unknown in it.
Description read_tokenizer_json(const std::string& path);
Description read_gpt2(const std::string& vocabulary, const std::string& merges);
// What the file does not say: how text is cut, and which tokens follow the ranks.
struct RankedFacts {
  std::string pattern;
  std::vector<std::string> special;
};
// An empty pattern: of known vocabularies it is found by their size.
Description read_tiktoken(const std::string& path, const RankedFacts& facts);
Description read_tekken(const std::string& path);
Description read_sentence_piece(const std::string& path);
// The vocabulary inside a GGUF file.
Description read_gguf_vocabulary(const std::string& path);
// vocab.txt of BERT.
Description read_word_list(const std::string& path, bool lowers);

// "Ġ" to " ": the text of a byte-level piece as bytes. False: it has a character that stands for no byte.
bool bytes_of_piece(std::string_view piece, std::string& bytes);
// Throws Error(BadData); `what` names the text.
std::string decode_base64(std::string_view text, const std::string& what);
// Steps of byte-level BPE around a splitter.
void make_byte_level(Description& description, const std::string& pattern);

}  // namespace plimsoll::tokenizer

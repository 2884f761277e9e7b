// Damaged tokenizers and GGUF files: an Error or a right answer, never a crash, never much memory.
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include <plimsoll/tokenizer.h>
#include "attack/file_fuzz.h"
#include "import/gguf.h"
#include "tokenizer/files.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/readers.h"

namespace plimsoll::testing {
namespace {

// What a cache of words, a window and the tables of expressions take whatever the file is.
constexpr Bytes kUsual = 4 * MiB;
const std::string kText = "hello world 123\n un\u00e9 \u4e2d <|end|>  'll \xFF" + std::string(70, 'h');

class TokenizerFuzz : public FileFuzz {
 protected:
  static void use(tokenizer::Description description) {
    const tokenizer::TokenPipeline pipeline(std::move(description));
    tokenizer::TokenScratch scratch;
    std::vector<int32_t> ids;
    pipeline.encode(kText, true, scratch, ids);
    pipeline.decode(ids, false);
  }
  const MemoryFile file_, other_;
};

TEST_F(TokenizerFuzz, TokenizerJson) {
  attack({kByteLevel, kWordPiece, kUnigram}, 4'000, kUsual, [&](const std::string& damaged) {
    file_.set(damaged);
    use(tokenizer::read_tokenizer_json(file_.path()));
  });
}

TEST_F(TokenizerFuzz, Gpt2Files) {
  const std::string merges = "#version: 0.2\nh e\nl l\nhe ll\nhell o\n";
  other_.set(merges);
  attack({R"({"h":0,"e":1,"l":2,"o":3,"he":4,"ll":5,"hell":6,"hello":7,"<|endoftext|>":8})"}, 2'000, kUsual,
         [&](const std::string& damaged) {
           file_.set(damaged);
           use(tokenizer::read_gpt2(file_.path(), other_.path()));
         });
  other_.set(R"({"h":0,"e":1,"l":2,"o":3,"he":4,"ll":5,"hell":6,"hello":7,"<|endoftext|>":8})");
  attack({merges}, 2'000, kUsual, [&](const std::string& damaged) {
    file_.set(damaged);
    use(tokenizer::read_gpt2(other_.path(), file_.path()));
  });
}

TEST_F(TokenizerFuzz, Ranks) {
  std::string ranks;
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (int byte = 0; byte < 256; ++byte)
    ranks += std::string{kDigits[byte >> 2], kDigits[(byte & 3) << 4], '=', '='} + " " + std::to_string(byte) + "\n";
  ranks += "aGU= 256\nbGw= 257\naGVsbA== 258\n";
  attack({ranks}, 2'000, kUsual, [&](const std::string& damaged) {
    file_.set(damaged);
    use(tokenizer::read_tiktoken(file_.path(), {R"(\p{L}+|[^\p{L}]+)", {"<|end|>"}}));
  });
}

TEST_F(TokenizerFuzz, SentencePiece) {
  const auto field = [](int number, const std::string& bytes) {
    return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) + bytes;
  };
  std::string model;
  int type = 2;
  for (const char* text : {"<unk>", "\u2581", "h", "e", "l", "he", "ll", "hell"}) {
    model += field(1, field(1, text) + std::string("\x15\0\0\x80", 4) + static_cast<char>(0xBF) +
                          std::string{0x18, static_cast<char>(type)});
    type = 1;
  }
  const std::string rules = field(3, std::string{0x18, 1, 0x20, 1});
  attack({model + field(2, std::string{0x18, 1}) + rules, model + field(2, std::string{0x18, 2}) + rules}, 4'000,
         kUsual, [&](const std::string& damaged) {
           file_.set(damaged);
           use(tokenizer::read_sentence_piece(file_.path()));
         });
}

TEST_F(TokenizerFuzz, WordList) {
  attack({"[PAD]\n[UNK]\n[CLS]\n[SEP]\nhello\n##lo\nhe\n##l\n1\n"}, 2'000, kUsual, [&](const std::string& damaged) {
    file_.set(damaged);
    use(tokenizer::read_word_list(file_.path(), true));
  });
}

TEST_F(TokenizerFuzz, Gguf) {
  std::ifstream golden(PLIMSOLL_GGUF, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(golden), {}};
  // Of the header alone: most changes of a whole file would hit the numbers, of which all are right.
  const std::string header = whole.substr(0, 2048);
  std::vector<float> values(512);
  attack({header}, 8'000, kUsual, [&](const std::string& damaged) {
    file_.set(damaged + whole.substr(header.size()));
    const import::GgufFile file(file_.path());
    file.wholes("tokenizer.ggml.token_type");
    file.for_each_text("tokenizer.ggml.tokens", [](std::string_view) {});
    for (const import::GgufTensor& tensor : file.tensors())
      if (tensor.elements <= static_cast<int64_t>(values.size())) file.read(tensor, 0, tensor.elements, values.data());
  });
}

}  // namespace
}  // namespace plimsoll::testing

// Damaged, hostile and unknown tokenizers: one clear Error each.
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>

#include "tokenizer/files.h"

namespace plimsoll::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string with(std::string text, const std::string& what, const std::string& instead) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), instead);
}

TEST_F(TokenizerFiles, RefusesAnIdOfABillion) {
  EXPECT_THAT(refusal_of(with(kByteLevel, R"("he":12)", R"("he":1000000000)")), HasSubstr("id of 'he' is 1000000000"));
  EXPECT_THAT(refusal_of(with(kByteLevel, R"("he":12)", R"("he":16000000)")), HasSubstr("16000000"));
  EXPECT_THAT(refusal_of(with(kByteLevel, R"("id":21)", R"("id":1000000000)")), HasSubstr("<|end|>"));
}

TEST_F(TokenizerFiles, RefusesTwoPiecesWithOneId) {
  EXPECT_THAT(refusal_of(with(kByteLevel, R"("he":12)", R"("he":13)")), HasSubstr("two pieces have the id 13"));
}

TEST_F(TokenizerFiles, RefusesMergesOfUnknownPieces) {
  EXPECT_THAT(refusal_of(with(kByteLevel, "\"h e\"", "\"h q\"")), AllOf(HasSubstr("merge 0"), HasSubstr("lacks one")));
  EXPECT_THAT(refusal_of(with(kByteLevel, "\"h e\"", "\"h e l\"")), HasSubstr("not two pieces"));
  EXPECT_THAT(refusal_of(with(kByteLevel, "\"h e\"", "7")), HasSubstr("not two pieces"));
}

TEST_F(TokenizerFiles, RefusesWhatItDoesNotKnowByName) {
  EXPECT_THAT(refusal_of(with(kByteLevel, R"("type":"BPE")", R"("type":"Quantum")")), HasSubstr("'Quantum'"));
  EXPECT_THAT(refusal_of(with(kByteLevel, R"("normalizer":null)", R"("normalizer":{"type":"Rot13"})")),
              HasSubstr("normaliser 'Rot13'"));
  EXPECT_THAT(refusal_of(with(kByteLevel, R"("post_processor":null)", R"("post_processor":{"type":"Stamp"})")),
              HasSubstr("post-processor 'Stamp'"));
  EXPECT_THAT(refusal_of(with(kWordPiece, "BertPreTokenizer", "Scissors")), HasSubstr("pre-tokeniser 'Scissors'"));
  EXPECT_THAT(refusal_of(with(kByteLevel, R"("dropout":null)", R"("dropout":0.1)")), HasSubstr("dropout"));
}

TEST_F(TokenizerFiles, RefusesPatternsThatTakeForEver) {
  const auto split_by = [](const std::string& pattern) {
    return with(
        kByteLevel, R"("pre_tokenizer":{"type":"ByteLevel",)",
        R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","behavior":"Isolated","invert":false,
"pattern":{"Regex":")" +
            pattern + R"("}},{"type":"ByteLevel",)");
  };
  const auto closed = [](std::string json) {
    return with(std::move(json), "\"use_regex\":true}", "\"use_regex\":false}]}");
  };
  EXPECT_THAT(refusal_of(closed(split_by("(h"))), HasSubstr("'(h' can't be read"));
  EXPECT_THAT(refusal_of(closed(split_by("[a&&b]"))), HasSubstr("&&"));
  Tokenizer tokenizer = open(closed(split_by("(h+)+$x")));
  EXPECT_THROW(tokenizer.encode(std::string(40, 'h') + "ex"), Error);
  EXPECT_EQ(tokenizer.encode("eh"), (Ids{1, 0}));
}

TEST_F(TokenizerFiles, RefusesDamagedJson) {
  EXPECT_THAT(refusal_of(kByteLevel.substr(0, 300)), HasSubstr("at byte"));
  EXPECT_THAT(refusal_of("{}"), HasSubstr("no tokenizer.json"));
  EXPECT_THAT(refusal_of("{\"a\":" + std::string(100'000, '[')), HasSubstr("nested"));
  EXPECT_THAT(refusal_of("{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}"), HasSubstr("empty"));
}

TEST_F(TokenizerFiles, RefusesOtherFiles) {
  EXPECT_THAT(refusal(write("x.bin",
                            "\x7f"
                            "ELF nothing")),
              HasSubstr("no tokenizer that is known"));
  EXPECT_THAT(refusal(folder_), HasSubstr("holds no tokenizer"));
  EXPECT_THAT(refusal("/nowhere/tokenizer.json"), HasSubstr("check the path"));
}

TEST_F(TokenizerFiles, RefusesRanksOfAnUnknownVocabulary) {
  EXPECT_THAT(refusal(write("a.tiktoken", "IQ== 0\nIg== 1\n")), HasSubstr("2 ranks"));
  EXPECT_THAT(refusal(write("b.tiktoken", "IQ== 0\nIg== x\n")), HasSubstr("line 2"));
  EXPECT_THAT(refusal(write("c.tiktoken", "IQ== 0\nIg== 1000000000\n")), HasSubstr("1000000000"));
}

// A SentencePiece model by hand: pieces, then the trainer's facts.
std::string field(int number, const std::string& bytes) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) + bytes;
}
std::string piece(const std::string& text, float score, char type) {
  std::string bits(4, '\0');
  std::memcpy(bits.data(), &score, 4);
  return field(1, field(1, text) + "\x15" + bits + std::string{0x18, type});
}

TEST_F(TokenizerFiles, ReadsSentencePieceAndRefusesItsDamage) {
  const std::string model = piece("<unk>", 0, 2) + piece("▁", -1, 1) + piece("a", -2, 1) + piece("b", -3, 1) +
                            piece("ab", -0.5F, 1) + field(2, std::string{0x18, 2}) +
                            field(3, std::string{0x18, 1, 0x20, 0});
  Tokenizer tokenizer = Tokenizer::open(write("tokenizer.model", model));
  EXPECT_EQ(tokenizer.encode("ab abb"), (Ids{1, 4, 1, 4, 3}));
  EXPECT_EQ(tokenizer.encode("axxb"), (Ids{1, 2, 0, 3}));
  EXPECT_EQ(tokenizer.decode(Ids{1, 4, 1, 4, 3}), "ab abb");
  EXPECT_THAT(refusal(write("cut.model", model.substr(0, model.size() - 3))), HasSubstr("cut off"));
  EXPECT_THAT(refusal(write("type.model", piece("a", 0, 9))), HasSubstr("type 9"));
  EXPECT_THAT(refusal(write("nan.model", piece("a", std::nanf(""), 1))), HasSubstr("score"));
}

}  // namespace
}  // namespace plimsoll::testing

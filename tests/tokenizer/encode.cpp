// Ids of small tokenizers. What is expected is what Hugging Face's tokenizers 0.23 gives for the same file.
#include <algorithm>
#include <cstdio>
#include <span>

#include "tokenizer/files.h"

namespace plimsoll::testing {
namespace {

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

TEST_F(TokenizerFiles, BytesAreJoinedInTheOrderOfTheMerges) {
  Tokenizer tokenizer = open(kByteLevel);
  EXPECT_EQ(tokenizer.encode("hello world"), (Ids{15, 20}));
  EXPECT_EQ(tokenizer.encode("  hello\n\nworld"), (Ids{4, 4, 15, 8, 8, 5, 17, 19}));
  EXPECT_EQ(tokenizer.encode("hellohello  "), (Ids{15, 15, 4, 4}));
  EXPECT_EQ(tokenizer.encode(""), Ids{});
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("  hello\n\nworld h\u00e9 ")), "  hello\n\nworld h\u00e9 ");
  EXPECT_EQ(tokenizer.vocabulary_size(), 23);
  EXPECT_EQ(tokenizer.token(20), " world");
}

TEST_F(TokenizerFiles, AddedTokensAreFoundInTheText) {
  Tokenizer tokenizer = open(kByteLevel);
  EXPECT_EQ(tokenizer.encode("h\u00e91 <|end|> hello <x> 1"), (Ids{0, 9, 10, 11, 4, 21, 4, 15, 22, 11}));
  EXPECT_EQ(tokenizer.find("<|end|>"), 21);
  EXPECT_TRUE(tokenizer.is_special(21));
  EXPECT_FALSE(tokenizer.is_special(20));
  EXPECT_EQ(tokenizer.decode(Ids{15, 21, 20}, true), "hello world");
  EXPECT_EQ(tokenizer.decode(Ids{15, 21, 20}), "hello<|end|> world");
}

TEST_F(TokenizerFiles, WordsAreCutIntoTheLongestPieces) {
  Tokenizer tokenizer = open(kWordPiece);
  EXPECT_EQ(tokenizer.encode("Unaffable!"), (Ids{3, 4, 5, 6}));
  EXPECT_EQ(tokenizer.encode("CAF\u00c9s \u4e2d\u4e2d"), (Ids{8, 9, 7, 7}));
  EXPECT_EQ(tokenizer.encode("unaffableunaffable"), Ids{0});
  EXPECT_EQ(tokenizer.encode(std::string_view("[SEP] un\0aff", 12)), (Ids{2, 3, 4}));
  EXPECT_EQ(tokenizer.decode(Ids{8, 9, 7, 7}), "cafes \u4e2d \u4e2d");
  EXPECT_EQ(tokenizer.encode_whole("Unaffable!").ids, (Ids{1, 3, 4, 5, 6, 2}));
  const EncodedText pair = tokenizer.encode_pair("un", "cafe");
  EXPECT_EQ(pair.ids, (Ids{1, 3, 2, 8, 2}));
  EXPECT_EQ(pair.types, (Ids{0, 0, 0, 1, 1}));
}

TEST_F(TokenizerFiles, TheBestScoresWin) {
  Tokenizer tokenizer = open(kUnigram);
  EXPECT_EQ(tokenizer.encode("ab"), Ids{6});
  EXPECT_EQ(tokenizer.encode("a bab"), (Ids{5, 1, 3, 4}));
  EXPECT_EQ(tokenizer.encode("xyab q"), (Ids{1, 0, 4, 1, 0}));
  EXPECT_EQ(tokenizer.decode(Ids{5, 1, 3, 4}), "a bab");
}

// Llama 2's form: a mark for spaces, unknown characters as bytes.
TEST_F(TokenizerFiles, UnknownCharactersFallBackToBytes) {
  std::string vocabulary = R"("<unk>":0)";
  char piece[16];
  for (int byte = 0; byte < 256; ++byte) {
    std::snprintf(piece, sizeof piece, "<0x%02X>", static_cast<unsigned>(byte));
    vocabulary += ",\"" + std::string(piece) + "\":" + std::to_string(byte + 1);
  }
  Tokenizer tokenizer = open(R"({"added_tokens":[],"normalizer":{"type":"Sequence","normalizers":[
{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]},"pre_tokenizer":null,
"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},
"model":{"type":"BPE","unk_token":"<unk>","fuse_unk":true,"byte_fallback":true,"vocab":{)" +
                             vocabulary + R"(,"▁":257,"a":258,"b":259,"ab":260,"▁ab":261},
"merges":[["a","b"],["▁","ab"]]}})");
  EXPECT_EQ(tokenizer.encode("ab ab"), (Ids{261, 261}));
  EXPECT_EQ(tokenizer.encode("a\u00e9b  ab"), (Ids{257, 258, 196, 170, 259, 257, 261}));
  EXPECT_EQ(tokenizer.encode("\n"), (Ids{257, 11}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a\u00e9b  ab\n")), "a\u00e9b  ab\n");
  EXPECT_TRUE(tokenizer.can_cut());
}

TEST_F(TokenizerFiles, BrokenBytesAreReadAsOneCharacterForEachPart) {
  Tokenizer tokenizer = open(kByteLevel);
  const Ids expected = tokenizer.encode("h\uFFFD\uFFFDe\uFFFD");
  EXPECT_EQ(tokenizer.repaired(), 0);
  EXPECT_EQ(tokenizer.encode("h\xE2\x82\xFF"
                             "e\xC0"),
            expected);
  EXPECT_EQ(tokenizer.repaired(), 3);
}

TEST_F(TokenizerFiles, AStreamGivesTheIdsOfTheWholeText) {
  std::string text;
  for (int i = 0; i < 60'000; ++i)
    text += i % 7 == 0 ? "hello world " : i % 11 == 0 ? "<|end|>  hello" : i % 5 == 0 ? "wor1d\n " : "h\u00e9 ";
  for (const std::string& json : {kByteLevel, kWordPiece, kUnigram}) {
    Tokenizer tokenizer = open(json);
    const Ids whole = Tokenizer(tokenizer).encode(text);
    Ids streamed;
    size_t at = 0;
    tokenizer.encode_stream(
        [&](std::span<char> into) {
          const size_t bytes = std::min({into.size(), text.size() - at, size_t{10'007}});
          std::copy_n(text.data() + at, bytes, into.data());
          at += bytes;
          return bytes;
        },
        [&](std::span<const int32_t> ids) { streamed.insert(streamed.end(), ids.begin(), ids.end()); });
    EXPECT_TRUE(tokenizer.can_cut());
    EXPECT_EQ(streamed, whole);
  }
}

TEST_F(TokenizerFiles, AnAddedTokenWithASpaceForbidsCuts) {
  EXPECT_FALSE(open(replaced(kByteLevel, "<|end|>", "<the end>")).can_cut());
}

// The same words as by the heap, whose order of merges is that of the short words' search.
TEST_F(TokenizerFiles, LongWordsAreJoinedAsShortOnes) {
  Tokenizer tokenizer = open(kByteLevel);
  std::string text;
  Ids expected;
  for (int i = 0; i < 5'000; ++i) {
    text += "hello";
    expected.push_back(15);
  }
  EXPECT_EQ(tokenizer.encode(text), expected);
}

TEST_F(TokenizerFiles, BytesHeldAreKnown) {
  Tokenizer tokenizer = open(kByteLevel);
  EXPECT_GT(tokenizer.bytes(), 1'000);
  EXPECT_LT(tokenizer.bytes(), 64 * KiB);
  tokenizer.encode("hello");
  EXPECT_GE(tokenizer.scratch_bytes(), MiB);  // the cache of words
  EXPECT_LT(tokenizer.scratch_bytes(), 2 * MiB);
}

TEST_F(TokenizerFiles, RefusesIdsThatThereAreNot) {
  EXPECT_THROW(open(kByteLevel).decode(Ids{23}), Error);
  EXPECT_THROW(open(kByteLevel).decode(Ids{-1}), Error);
}

}  // namespace
}  // namespace plimsoll::testing

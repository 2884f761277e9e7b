#include "import/gguf.h"

#include <cstring>
#include <fstream>

#include <gmock/gmock.h>

#include <plimsoll/error.h>
#include "support/disk_folder.h"

namespace plimsoll::testing {
namespace {

using namespace import;
using ::testing::HasSubstr;

const std::string kBlocks = PLIMSOLL_GOLDEN_DIR "/blocks.gguf";

// bench/import/golden_blocks.py wrote the packed numbers, and what gguf's own code unpacks, bit for bit.
TEST(Gguf, UnpacksBlocksAsTheFormatsOwnCode) {
  const GgufFile file(kBlocks);
  for (const char* type : {"F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"}) {
    const GgufTensor* const packed = file.find(type);
    const GgufTensor* const plain = file.find(std::string(type) + ".expected");
    ASSERT_NE(packed, nullptr) << type;
    ASSERT_NE(plain, nullptr) << type;
    EXPECT_EQ(packed->dims, (std::vector<int64_t>{2, 256})) << type;
    EXPECT_EQ(block_facts(static_cast<uint32_t>(packed->type))->name, type);
    std::vector<float> unpacked(512), expected(512), part(256);
    file.read(*packed, 0, 512, unpacked.data());
    file.read(*plain, 0, 512, expected.data());
    EXPECT_EQ(std::memcmp(unpacked.data(), expected.data(), 512 * sizeof(float)), 0) << type;
    file.read(*packed, 256, 256, part.data());
    EXPECT_EQ(std::memcmp(part.data(), expected.data() + 256, 256 * sizeof(float)), 0) << type;
  }
}

TEST(Gguf, ReadsFacts) {
  const GgufFile file(kBlocks);
  EXPECT_EQ(file.text("general.architecture", ""), "llama");
  EXPECT_EQ(file.whole("llama.block_count", 0), 3);
  EXPECT_EQ(file.whole("llama.nothing", 7), 7);
  EXPECT_EQ(file.number("llama.rope.freq_base", 0), 10000);
  EXPECT_FALSE(file.flag("tokenizer.ggml.add_bos_token", true));
  EXPECT_EQ(file.wholes("tokenizer.ggml.token_type"), (std::vector<int64_t>{1, 1, 3}));
  EXPECT_EQ(file.numbers("tokenizer.ggml.scores"), (std::vector<float>{0.5F, -1, 2}));
  std::string tokens;
  file.for_each_text("tokenizer.ggml.tokens", [&](std::string_view token) { tokens += std::string(token) + ";"; });
  EXPECT_EQ(tokens, "a;b;ab;");
  EXPECT_LT(file.bytes(), 16 * KiB);
}

TEST(Gguf, RefusesFactsOfAnotherKind) {
  const GgufFile file(kBlocks);
  EXPECT_THROW(file.text("llama.block_count", ""), Error);
  EXPECT_THROW(file.whole("general.architecture", 0), Error);
  EXPECT_THROW(file.flag("llama.block_count", false), Error);
  EXPECT_THROW(file.wholes("tokenizer.ggml.tokens"), Error);
  EXPECT_THROW(file.count("llama.block_count"), Error);
}

TEST(Gguf, RefusesPartsOfBlocks) {
  const GgufFile file(kBlocks);
  float into[512];
  EXPECT_THROW(file.read(*file.find("Q4_K"), 128, 256, into), Error);
  EXPECT_THROW(file.read(*file.find("Q4_0"), 512, 32, into), Error);
  EXPECT_THROW(file.read(*file.find("Q4_0"), 0, -32, into), Error);
}

class GgufDamage : public ::testing::Test {
 protected:
  GgufDamage() {
    std::ifstream file(kBlocks, std::ios::binary);
    whole_.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::string refusal(const std::string& content) const {
    const std::string path = static_cast<const std::string&>(folder_) + "/damaged.gguf";
    std::ofstream(path, std::ios::binary) << content;
    try {
      const GgufFile file(path);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::BadData);
      return e.what();
    }
    return "accepted";
  }
  template <class Number>
  std::string with(size_t at, Number number) const {
    std::string content = whole_;
    std::memcpy(content.data() + at, &number, sizeof number);
    return content;
  }
  // Where the name stands, by the byte behind it.
  size_t behind(const std::string& name) const {
    std::string sized(8, '\0');
    const uint64_t bytes = name.size();
    std::memcpy(sized.data(), &bytes, 8);
    const size_t at = whole_.find(sized + name);
    EXPECT_NE(at, std::string::npos) << name;
    return at + sized.size() + name.size();
  }

  const DiskFolder folder_;
  std::string whole_;
};

TEST_F(GgufDamage, CountsPastTheFileAreRefused) {
  EXPECT_EQ(refusal(whole_), "accepted");
  EXPECT_THAT(refusal(with<uint64_t>(8, 1'000'000'000)), HasSubstr("1000000000 tensors"));
  EXPECT_THAT(refusal(with<uint64_t>(16, ~uint64_t{0})), HasSubstr("facts"));
  EXPECT_THAT(refusal(with<uint64_t>(24, 1'000'000'000'000)), HasSubstr("text of 1000000000000 bytes"));
  EXPECT_THAT(refusal(with<uint64_t>(behind("tokenizer.ggml.tokens") + 8, 1'000'000'000)),
              HasSubstr("1000000000 elements"));
}

TEST_F(GgufDamage, TensorsOutsideTheFileAreRefused) {
  const size_t facts = behind("Q8_0");  // dimensions, two sizes, type, offset
  EXPECT_THAT(refusal(with<uint32_t>(facts, 1'000'000)), HasSubstr("1000000 dimensions"));
  EXPECT_THAT(refusal(with<uint64_t>(facts + 4, uint64_t{1} << 62)), HasSubstr("more numbers"));
  EXPECT_THAT(refusal(with<uint64_t>(facts + 4, 250)), HasSubstr("no whole blocks of Q8_0"));
  EXPECT_THAT(refusal(with<uint32_t>(facts + 20, 16)), HasSubstr("IQ2_XXS"));
  EXPECT_THAT(refusal(with<uint32_t>(facts + 20, 99)), HasSubstr("type 99"));
  EXPECT_THAT(refusal(with<uint64_t>(facts + 24, whole_.size())), HasSubstr("Q8_0"));
  EXPECT_THAT(refusal(with<uint64_t>(facts + 24, 0)), HasSubstr("overlap"));
}

TEST_F(GgufDamage, OtherFilesAreRefused) {
  EXPECT_THAT(refusal("not a model, but long enough to be one"), HasSubstr("does not begin with GGUF"));
  EXPECT_THAT(refusal(with<uint32_t>(4, 1)), HasSubstr("version 1"));
  for (const size_t bytes : {0, 10, 30, 100, 400, 1000, 9000})
    EXPECT_THAT(refusal(whole_.substr(0, bytes)), HasSubstr("damaged.gguf")) << bytes;
}

}  // namespace
}  // namespace plimsoll::testing

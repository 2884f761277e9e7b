#include "base/crc32c.h"

#include <span>
#include <string>

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// The vectors of RFC 3720, appendix B.4.
TEST(Crc32c, KnownSums) {
  std::string ascending;
  for (int i = 0; i < 32; ++i) ascending += char(i);
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\0'))), 0x8a9136aaU);
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\xff'))), 0x62a8ab43U);
  EXPECT_EQ(crc32c(bytes_of(ascending)), 0x46dd794eU);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283U);
}

TEST(Crc32c, TableAndInstructionAgreeAtEveryLength) {
  std::string text;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(crc32c_by_table(bytes_of(text)), crc32c(bytes_of(text))) << i;
    text += char(i * 37);
  }
}

TEST(Crc32c, PiecesHaveTheSumOfTheWhole) {
  const std::string text = "The line is drawn at 512 MiB, and it holds.";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const std::string front = text.substr(0, cut), rest = text.substr(cut);
    EXPECT_EQ(crc32c(bytes_of(rest), crc32c(bytes_of(front))), crc32c(bytes_of(text))) << cut;
    EXPECT_EQ(crc32c_by_table(bytes_of(rest), crc32c_by_table(bytes_of(front))), crc32c(bytes_of(text))) << cut;
  }
}

}  // namespace
}  // namespace plimsoll

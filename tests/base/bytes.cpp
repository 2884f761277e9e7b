#include <plimsoll/types.h>

#include <gtest/gtest.h>

#include <plimsoll/error.h>

namespace plimsoll {
namespace {

TEST(Bytes, ReadsWhatPeopleWrite) {
  EXPECT_EQ(parse_bytes("512MiB"), 512 * MiB);
  EXPECT_EQ(parse_bytes("1.5 GB"), 1'500'000'000);
  EXPECT_EQ(parse_bytes(" 96 mib "), 96 * MiB);
  EXPECT_EQ(parse_bytes("80%", 1000), 800);
  EXPECT_EQ(parse_bytes("1048576"), MiB);
  EXPECT_EQ(parse_bytes("2e6 B"), 2'000'000);
  EXPECT_EQ(parse_bytes("64K"), 64 * KiB);
  EXPECT_EQ(parse_bytes("512M"), 512 * MiB);
  EXPECT_EQ(parse_bytes("1G"), GiB);
  EXPECT_EQ(parse_bytes("1.5g"), GiB + GiB / 2);
  EXPECT_EQ(parse_bytes("2T"), 2048 * GiB);
}

TEST(Bytes, RefusesWhatIsNoSize) {
  for (const char* text : {"", "MiB", "-1MiB", "0", "512", "12 parsecs", "80%", "nan", "inf GiB", "1e30GiB"})
    EXPECT_THROW(parse_bytes(text), Error) << text;
  EXPECT_THROW(parse_bytes("101%", 1000), Error);
}

TEST(Bytes, ErrorNamesAnExample) {
  try {
    parse_bytes("12 parsecs");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::Usage);
    EXPECT_NE(std::string(e.what()).find("unit 'parsecs' is unknown"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("512MiB"), std::string::npos) << e.what();
  }
}

TEST(Bytes, ShowsShortAndExact) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(96 * MiB), "96 MiB");
  EXPECT_EQ(format_bytes(GiB + GiB / 2), "1.5 GiB");
  EXPECT_EQ(format_exact_bytes(96 * MiB), "100,663,296 bytes (96 MiB)");
  EXPECT_EQ(format_exact_bytes(1000), "1,000 bytes (1000 B)");
}

}  // namespace
}  // namespace plimsoll

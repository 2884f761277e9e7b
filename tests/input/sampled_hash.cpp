#include "input/files/sampled_hash.h"

#include <set>

#include <gtest/gtest.h>

#include "input/files.h"

namespace plimsoll::input {
namespace {

uint64_t hash_of(const testing::TemporaryDirectory& dir, const std::string& name, const std::string& content) {
  const std::string path = dir.write(name, content);
  const memory::File file = memory::File::open(path);
  return hash_sampled(file, 0, file.size(), path);
}

std::string numbered(size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text += static_cast<char>('a' + i * i % 23);
  return text;
}

TEST(SampledHash, DependsOnLengthAndBytesAndNotOnThePlace) {
  const testing::TemporaryDirectory dir;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{65'536}, size_t{65'537}, size_t{1'000'000}}) {
    const std::string text = numbered(bytes);
    const uint64_t hash = hash_of(dir, "a", text);
    EXPECT_EQ(hash_of(dir, "b", text), hash) << bytes;
    EXPECT_EQ(hash_sampled(std::as_bytes(std::span(text))), hash) << bytes;
    EXPECT_NE(hash_of(dir, "a", text + "a"), hash) << bytes;
    if (bytes == 0) continue;
    EXPECT_NE(hash_of(dir, "a", text.substr(1) + "z"), hash) << bytes;
    // The first and the last byte are always among those that are looked at.
    std::string changed = text;
    changed.front() ^= 1;
    EXPECT_NE(hash_of(dir, "a", changed), hash) << bytes;
    changed = text;
    changed.back() ^= 1;
    EXPECT_NE(hash_of(dir, "a", changed), hash) << bytes;
  }
}

TEST(SampledHash, SmallDataIsLookedAtAsAWhole) {
  std::string text = numbered(kHashedPieces * kHashedPiece);
  std::set<uint64_t> hashes{hash_sampled(std::as_bytes(std::span(text)))};
  for (size_t at = 0; at < text.size(); at += 997) {
    text[at] ^= 4;
    EXPECT_TRUE(hashes.insert(hash_sampled(std::as_bytes(std::span(text)))).second) << at;
  }
}

}  // namespace
}  // namespace plimsoll::input

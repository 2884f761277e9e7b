#include "train/checkpoint_manifest.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "support/error_of.h"

namespace plimsoll::checkpoints {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

train::CheckpointManifest sample() {
  train::CheckpointManifest manifest;
  manifest.steps = 350;
  manifest.facts = {{"model", "lenet"}, {"batch", "32"}};
  manifest.run.epoch = 3;
  manifest.run.epoch_steps = 50;
  manifest.run.seed = 0xffff'ffff'ffff'fff1ULL;
  manifest.run.data = {0x8000'0000'0000'0001ULL, 3, 50};
  manifest.run.sums = {{"loss", 0.1 + 0.2}, {"accuracy", 1e-310}, {"odd", -0.0}, {"samples", 1600}};
  manifest.run.run_steps = 350;
  manifest.run.callbacks = {{"early_stopping", "best 0.5"}, {"odd", std::string("\0\xff\n\"", 4)}, {"none", ""}};
  manifest.files = {{"weights.safetensors", 12'345'678'901, 0xdeadbeef}, {"optimiser.safetensors", 0, 0}};
  return manifest;
}

void expect_same(const train::CheckpointManifest& a, const train::CheckpointManifest& b) {
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_EQ(a.facts, b.facts);
  EXPECT_EQ(a.run, b.run);
  EXPECT_EQ(a.files, b.files);
}

TEST(CheckpointManifest, PrintsAndParsesBackExactly) {
  const train::CheckpointManifest manifest = sample();
  const train::CheckpointManifest back = train::parse_manifest(train::manifest_text(manifest), "m");
  expect_same(back, manifest);
  EXPECT_TRUE(std::signbit(back.run.sums[2].second));
}

TEST(CheckpointManifest, AnEpochIsALine) {
  const EpochLog epoch{1, 150, {{"loss", 2.5}, {"val_loss", kInfinity}, {"low", -kInfinity}, {"sum", 0.1 + 0.2}}};
  EXPECT_EQ(train::history_line(epoch).find('\n'), std::string::npos);
  EXPECT_EQ(train::parse_history_line(train::history_line(epoch), "h"), epoch);
  EXPECT_TRUE(std::isnan(train::parse_history_line(train::history_line({1, 1, {{"loss", kNaN}}}), "h").logs[0].value));
  for (const char* bad : {"", "{}", "[]", "{\"epoch\":1,\"steps\":2,\"logs\":[[1,2]]}", "{\"epoch\":"})
    EXPECT_THAT(error_of([&] { train::parse_history_line(bad, "h"); }), HasSubstr("'h' is no history")) << bad;
  EXPECT_THAT(error_of([&] { train::history_line({1, 1, {{"\xff", 1}}}); }), HasSubstr("is not UTF-8"));
}

TEST(CheckpointManifest, AFlippedByteIsFound) {
  const std::string text = train::manifest_text(sample());
  for (size_t at = 0; at < text.size(); ++at)
    for (const int bit : {0, 3, 6}) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      try {
        expect_same(train::parse_manifest(damaged, "m"), sample());  // white space, or the case of a hexadecimal digit
      } catch (const Error& e) {
        EXPECT_EQ(e.kind(), ErrorKind::BadData);
        EXPECT_THAT(e.what(), HasSubstr("'m' is no manifest"));
      }
    }
}

TEST(CheckpointManifest, ATruncatedOneIsRefused) {
  const std::string text = train::manifest_text(sample());
  for (size_t length = 0; length + 2 < text.size(); ++length)
    EXPECT_THROW(train::parse_manifest(text.substr(0, length), "m"), Error) << length;
}

TEST(CheckpointManifest, AnotherVersionIsNamed) {
  std::string text = train::manifest_text(sample());
  const size_t at = text.find("\"version\": 2");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 12, "\"version\": 9");
  EXPECT_THAT(error_of([&] { train::parse_manifest(text, "m"); }), HasSubstr("has version 9, not 2"));
}

TEST(CheckpointManifest, ANameThatIsNoTextIsRefused) {
  train::CheckpointManifest manifest = sample();
  manifest.run.callbacks[0].first = "\xff\xfe";
  EXPECT_THAT(error_of([&] { train::manifest_text(manifest); }), HasSubstr("is not UTF-8"));
}

}  // namespace
}  // namespace plimsoll::checkpoints

#include "report/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "input/files.h"
#include "support/error_of.h"

namespace plimsoll::report {
namespace {

using Kind = ConfigEntry::Kind;
using ::testing::HasSubstr;

const Config kConfig{{"model", Kind::Text, {"lenet"}},    {"batch", Kind::Whole, {"64"}},
                     {"lr", Kind::Real, {"0.001"}},       {"auto-batch", Kind::Switch, {"true"}},
                     {"without", Kind::List, {"a", "b"}}, {"map", Kind::List, {}}};

TEST(ConfigFile, IsReadBackAsItWasWritten) {
  const testing::TemporaryDirectory folder;
  EXPECT_EQ(read_config(folder.write("run.json", config_json(kConfig))), kConfig);
}

TEST(ConfigFile, HasOneKeyALine) {
  EXPECT_EQ(config_json({kConfig[0], kConfig[1], kConfig[3]}),
            "{\n  \"model\": \"lenet\",\n  \"batch\": 64,\n  \"auto-batch\": true\n}");
}

TEST(ConfigFile, NumbersAreThoseOfJson) {
  EXPECT_EQ(config_json({{"lr", Kind::Real, {".5"}}, {"batch", Kind::Whole, {"+3"}}, {"a", Kind::Whole, {"-3"}}}),
            "{\n  \"lr\": 0.5,\n  \"batch\": 3,\n  \"a\": -3\n}");
  EXPECT_THAT(config_json({{"seed", Kind::Whole, {"18446744073709551615"}}}), HasSubstr(": 18446744073709551615"));
}

TEST(ConfigFile, EntriesAreSetInPlace) {
  Config config = kConfig;
  set_entry(config, {"batch", Kind::Whole, {"32"}});
  set_entry(config, {"seed", Kind::Whole, {"1"}});
  remove_entry(config, "model");
  EXPECT_EQ(config[0].values, std::vector<std::string>{"32"});
  EXPECT_EQ(config.back().name, "seed");
  EXPECT_EQ(config.size(), kConfig.size());
}

TEST(ConfigFile, RefusesWhatIsNoConfig) {
  const testing::TemporaryDirectory folder;
  const auto refusal = [&](const std::string& text) {
    const std::string path = folder.write("run.json", text);
    return testing::error_of([&] { read_config(path); });
  };
  EXPECT_THAT(refusal(""), HasSubstr("run.json: parse error at line 1"));
  EXPECT_THAT(refusal("{\n \"batch\": 3,\n}"), HasSubstr("run.json: parse error at line 3, column 1"));
  EXPECT_THAT(refusal("[1]"), HasSubstr("a config file is a JSON object"));
  EXPECT_THAT(refusal("{\"batch\": null}"), HasSubstr("'batch' is null; give a string"));
  EXPECT_THAT(refusal("{\"batch\": {}}"), HasSubstr("'batch' is an object"));
  EXPECT_THAT(refusal("{\"map\": [[1]]}"), HasSubstr("'map' holds [1]; give a list of strings"));
  EXPECT_THAT(refusal("{\"batch\": 1, \"lr\": 1, \"batch\": 2}"), HasSubstr("'batch' is there twice"));
  EXPECT_THAT(refusal(std::string(2 << 20, ' ')), HasSubstr("this one has 2 MiB"));
  EXPECT_THAT(refusal("{\"batch\": 1e999}"), HasSubstr("run.json: "));
  EXPECT_THAT(refusal(std::string(100'000, '[')), HasSubstr("run.json: parse error"));
  EXPECT_THAT(testing::error_of([] { read_config("/no/such.json"); }), HasSubstr("/no/such.json: No such file"));
}

}  // namespace
}  // namespace plimsoll::report

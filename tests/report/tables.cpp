// The smaller reports: a curve, a machine, the contents of a model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "report/contents.h"
#include "report/curve.h"
#include "report/machine.h"

namespace plimsoll::report {
namespace {

using ::testing::HasSubstr;

TEST(Curve, IsATableAndJson) {
  const Curve curve{
      "net",
      8,
      MiB,
      {{.limit_bytes = 3 * MiB, .arena_bytes = 2 * MiB, .predicted_ns = 30, .reruns = 7, .micro_batches = 4},
       {.limit_bytes = 9 * MiB, .arena_bytes = 9 * MiB, .predicted_ns = 20}}};
  const std::string text = curve_text(curve);
  EXPECT_THAT(text, HasSubstr("net · batch 8 · 1 MiB around the arena"));
  EXPECT_THAT(text, HasSubstr("      4 MiB     1.50x  ######################################## 4 micro-batches 7 "));
  EXPECT_THAT(text, HasSubstr("     10 MiB     1.00x  #                                        nothing\n"));
  const auto json = nlohmann::json::parse(curve_json(curve));
  EXPECT_EQ(json["points"][0]["line_bytes"], 4 * MiB);
  EXPECT_EQ(json["points"][0]["slowdown"], 1.5);
  EXPECT_EQ(json["points"][1]["slowdown"], 1);
}

TEST(Curve, MayBeEmpty) {
  EXPECT_THAT(curve_text({"net", 1, 0, {}}), HasSubstr("done to fit"));
  EXPECT_TRUE(nlohmann::json::parse(curve_json({"net", 1, 0, {}}))["points"].empty());
}

TEST(Machine, FactsAreGatheredAndToldTwice) {
  const MachineFacts facts = gather_machine_facts("1.2.3", {GiB, "as asked"}, "/tmp", false);
  EXPECT_GT(facts.threads, 0);
  EXPECT_GT(facts.fixed_cost_bytes, MiB);
  EXPECT_GE(facts.charged_bytes, facts.fixed_cost_bytes / 2);
  EXPECT_THAT(machine_text(facts), HasSubstr("plimsoll    1.2.3\nkernels     oneDNN "));
  EXPECT_THAT(machine_text(facts), HasSubstr("line        1,073,741,824 bytes (1 GiB), as asked"));
  const auto json = nlohmann::json::parse(machine_json(facts));
  EXPECT_EQ(json["plimsoll"], "1.2.3");
  EXPECT_EQ(json["default_line_bytes"], GiB);
  EXPECT_EQ(json["fixed_cost_bytes"], facts.fixed_cost_bytes);
}

TEST(Machine, AFolderInMemoryIsNoDisk) {
  MachineFacts facts;
  facts.scratch_folder = "/dev/shm";
  EXPECT_THAT(machine_text(facts), HasSubstr("in /dev/shm, which is memory and not a disk"));
  facts.scratch_is_disk = true;
  EXPECT_THAT(machine_text(facts), HasSubstr("plans take it to read"));
}

TEST(Contents, OfAModel) {
  ModelFacts facts{.name = "net", .input = "f32[B,4]", .labels = "i32[B]", .weights = 12000};
  facts.operators["matmul"] = 2;
  facts.variables.push_back({"net/fc1/kernel", "f32[4,3]", 48});
  EXPECT_THAT(model_text(facts), HasSubstr("net: input f32[B,4], labels i32[B]\n12,000 weights"));
  EXPECT_EQ(tensor_text(facts.variables[0]), "        48 B  f32[4,3]                 net/fc1/kernel\n");
  const auto json = nlohmann::json::parse(model_json(facts));
  EXPECT_EQ(json["operators"]["matmul"], 2);
  EXPECT_EQ(json["variables"][0]["name"], "net/fc1/kernel");
}

TEST(Contents, OfAWeightsFileAreToldOneByOne) {
  const std::string text = weights_json_begin("a \"b\"", 64) + weights_json_row({"w", "f32[4]", 16}, true) +
                           weights_json_row({"v", "f32[12]", 48}, false) + weights_json_end();
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["file"], "a \"b\"");
  EXPECT_EQ(json["bytes"], 64);
  EXPECT_EQ(json["tensors"], (nlohmann::json{{{"name", "w"}, {"type", "f32[4]"}, {"bytes", 16}},
                                             {{"name", "v"}, {"type", "f32[12]"}, {"bytes", 48}}}));
}

}  // namespace
}  // namespace plimsoll::report

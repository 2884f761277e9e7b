// Flags to specs and back: a command with the flags of flags_of behind it gives the spec that they were made for.
#include "cli/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/error_of.h"

namespace plimsoll::cli {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

Arguments mlp() {
  Arguments arguments;
  arguments.model = "mlp";
  arguments.memory = "64MiB";
  return arguments;
}

train::Spec spec(const Arguments& arguments) { return spec_of(arguments, train::Purpose::Train); }

std::string flags(const Arguments& before, const Arguments& after) { return flags_of(spec(before), spec(after)); }

TEST(Arguments, BecomeATypedSpec) {
  Arguments arguments = mlp();
  arguments.optimiser = "sgd";
  arguments.momentum = 0.9;
  arguments.learning_rate = 0.5;
  arguments.half_storage = {"values", "state"};
  arguments.without = {"recompute", "masks"};
  arguments.split = {"batch_norm"};
  arguments.scratch = "/disk";
  arguments.disk_limit = "50%";
  arguments.weights = "file";
  arguments.auto_batch = true;
  const train::Spec typed = spec(arguments);
  EXPECT_EQ(typed.line, 64 * MiB);
  EXPECT_EQ(typed.optimiser.name(), "sgd");
  EXPECT_EQ(typed.optimiser.get("momentum"), 0.9);
  EXPECT_EQ(typed.learning_rate, 0.5);
  EXPECT_EQ(typed.policy, Policy::stored_bfloat16());
  EXPECT_EQ(typed.optimiser.state_bits, 16);
  EXPECT_FALSE(typed.levers.recompute || typed.masks);
  EXPECT_TRUE(typed.levers.spill && typed.levers.micro_batch);
  EXPECT_EQ(typed.split_ops, std::vector<std::string>{"batch_norm"});
  EXPECT_DOUBLE_EQ(typed.disk_limit.share, 0.5);
  EXPECT_TRUE(typed.loads_weights && typed.finds_batch);
  arguments.disk_limit = "2GiB";
  EXPECT_EQ(spec(arguments).disk_limit.bytes, 2 * GiB);
  arguments.memory.clear();
  EXPECT_EQ(spec(arguments).line, 0);
}

TEST(Arguments, NoneTakesBackWhatWasTakenAway) {
  Arguments arguments = mlp();
  arguments.without = {"recompute", "none", "spill"};
  EXPECT_TRUE(spec(arguments).levers.recompute);
  EXPECT_FALSE(spec(arguments).levers.spill);
}

TEST(Arguments, UnknownWordsAreRefused) {
  const auto refuse = [](const std::function<void(Arguments&)>& change) {
    Arguments arguments = mlp();
    change(arguments);
    return error_of([&] { spec(arguments); });
  };
  EXPECT_THAT(refuse([](auto& a) { a.optimiser = "magic"; }), HasSubstr("known are sgd, adam"));
  EXPECT_THAT(refuse([](auto& a) { a.without = {"gravity"}; }), HasSubstr("lever 'gravity' is unknown"));
  EXPECT_THAT(refuse([](auto& a) { a.half_storage = {"weights"}; }), HasSubstr("known are values, state"));
  EXPECT_THAT(refuse([](auto& a) { a.split = {"softmax"}; }), HasSubstr("--split 'softmax' is unknown"));
  EXPECT_THAT(refuse([](auto& a) { a.memory = "12parsecs"; }), HasSubstr("--memory"));
  EXPECT_THAT(refuse([](auto& a) { a.disk_limit = "1GiB"; }), HasSubstr("--scratch DIR"));
}

TEST(Flags, OfADifference) {
  const Arguments before = mlp();
  EXPECT_EQ(flags(before, before), "");
  Arguments after = before;
  after.memory = "47.25MiB";
  EXPECT_EQ(flags(before, after), "--memory 47.25MiB");
  after.scratch = "/disk";
  EXPECT_EQ(flags(before, after), "--scratch /disk --memory 47.25MiB");
  after = before;
  after.batch = 12;
  EXPECT_EQ(flags(before, after), "--batch 12");
  after = before;
  after.optimiser = "sgd";
  EXPECT_EQ(flags(before, after), "--optimizer sgd");
  EXPECT_EQ(flags(after, before), "--optimizer adam");
  Arguments momentum = after;
  momentum.momentum = 0.9;
  EXPECT_EQ(flags(momentum, after), "--optimizer sgd --momentum 0");
  after = before;
  after.half_storage = {"values", "state"};
  EXPECT_EQ(flags(before, after), "--policy stored_bfloat16 --state-bits 16");
  after = before;
  after.split = {"batch_norm"};
  EXPECT_EQ(flags(before, after), "--split batch_norm");
  after = before;
  after.without = {"recompute", "masks"};
  EXPECT_EQ(flags(after, before), "--without none");
  EXPECT_EQ(flags(before, after), "--without none,recompute,masks");
  after = before;
  after.scratch = "/disk";
  Arguments limited = after;
  limited.disk_limit = "90%";
  EXPECT_EQ(flags(after, limited), "--disk-limit 90%");
}

}  // namespace
}  // namespace plimsoll::cli

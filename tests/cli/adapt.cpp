// adapt, merge, --adapter and --freeze on the command line.
#include <unistd.h>

#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/disk_folder.h"
#include "support/program.h"
#include "support/small_run.h"
#include "support/words_data.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kModel = "gpt2-small --layers 2 --width 64 --classes 50 --sequence 8";

class Adapt : public ::testing::Test {
 protected:
  Adapt() { write_words_data(disk_, 8, 50, 24, 10); }
  std::string in(const std::string& name) const { return static_cast<const std::string&>(disk_) + "/" + name; }
  // Runs a verb with the data and the flags `more`.
  Outcome run(const std::string& verb, const std::string& more) const {
    return run_program(fmt::format("{} {} --data {} --batch 4 --threads 1 {}", verb, kModel, in(""), more));
  }
  Outcome adapt(const std::string& more) const { return run("adapt", "--progress none " + more); }
  void make_base() const { ASSERT_EQ(run("train", "--progress none --epochs 1 --save " + in("base")).exit_code, 0); }
  double loss_of(const std::string& more) const {
    const Outcome outcome = run("eval", "--json " + more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return outcome.event("eval").value("loss", -1.0);
  }
  static nlohmann::json plan_of(const Outcome& outcome) {
    return nlohmann::json::parse(outcome.output, nullptr, false);
  }
  static void expect_refused(const Outcome& outcome, const std::string& why) {
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_THAT(outcome.errors, HasSubstr(why));
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << outcome.errors;
  }
  const DiskFolder disk_;
};

TEST_F(Adapt, TrainsAndMerges) {
  make_base();
  const Outcome trained =
      adapt(fmt::format("--rank 4 --alpha 8 --lr 0.02 --epochs 4 --weights {} --output {}", in("base"), in("out")));
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  EXPECT_THAT(trained.output, HasSubstr("(2,048 trained, "));
  EXPECT_THAT(trained.output, HasSubstr("no gradient, no optimiser state, never written back"));
  EXPECT_TRUE(fs::exists(in("out/adapter_model.safetensors")));
  const double before = loss_of("--weights " + in("base"));
  const double beside = loss_of(fmt::format("--weights {} --adapter {}", in("base"), in("out")));
  EXPECT_GT(std::abs(before - beside), 1e-3) << "adapters do something";
  const Outcome merged = run_program(
      fmt::format("merge {} --weights {} --adapter {} --output {}", kModel, in("base"), in("out"), in("merged")));
  ASSERT_EQ(merged.exit_code, 0) << merged.errors;
  EXPECT_THAT(merged.output, HasSubstr("merged  6 weights with their adapters"));
  EXPECT_NEAR(loss_of("--weights " + in("merged/weights.safetensors")), beside, 1e-5 * beside);
  // Training goes on from adapters.
  const Outcome more = adapt(
      fmt::format("--weights {} --adapter {} --epochs 1 --lr 0.0001 --output {}", in("base"), in("out"), in("more")));
  ASSERT_EQ(more.exit_code, 0) << more.errors;
  EXPECT_NEAR(loss_of(fmt::format("--weights {} --adapter {}", in("base"), in("more"))), beside, 0.05);
}

TEST_F(Adapt, ResumesExactly) {
  make_base();
  const std::string flags =
      fmt::format("--rank 2 --epochs 4 --lr 0.01 --adapter-dropout 0.1 --frozen-type int8 --weights {} ", in("base"));
  ASSERT_EQ(adapt(flags + fmt::format("--run {} --output {}", in("whole"), in("a"))).exit_code, 0);
  ASSERT_EQ(adapt(flags + fmt::format("--run {} --output {} --steps 9", in("parts"), in("b"))).exit_code, 0);
  const Outcome rest = run_program(fmt::format("adapt --run {} --resume --steps 1000 --progress none", in("parts")));
  ASSERT_EQ(rest.exit_code, 0) << rest.errors;
  const std::string whole = SmallRun::content(in("a/adapter_model.safetensors"));
  EXPECT_FALSE(whole.empty());
  EXPECT_EQ(SmallRun::content(in("b/adapter_model.safetensors")), whole);
}

TEST_F(Adapt, RefusesBadInput) {
  make_base();
  expect_refused(adapt("--rank 0 --output " + in("out")), "the rank of adapters must be at least 1 but is 0");
  expect_refused(adapt("--rank 65 --output " + in("out")),
                 "rank 65 is more than layer 'block1/attention/query' [64,64] has");
  expect_refused(adapt("--targets q_proj --output " + in("out")), "no layer of 'gpt2-small' matches 'q_proj'");
  expect_refused(adapt("--rank 2"), "say where to write them with --output DIR");
  expect_refused(adapt("--rank 2 --output " + in("base")), "is a file; name a folder for the adapters");
  expect_refused(run("train", "--freeze '*'"), "there is nothing to train: all weights are frozen");
  expect_refused(run("train", "--freeze nothing"), "no variable matches 'nothing'");
  expect_refused(run("train", "--frozen-type int8"), "say which with --freeze or --train-only");
  expect_refused(run("train", "--freeze '*table' --frozen-type int4"), "--frozen-type 'int4' is unknown");
  ASSERT_EQ(adapt(fmt::format("--rank 2 --weights {} --output {}", in("base"), in("out"))).exit_code, 0);
  const auto eval = [&](const std::string& model) {
    return run_program(
        fmt::format("eval {} --data {} --weights {} --adapter {}", model, in(""), in("base"), in("out")));
  };
  expect_refused(eval("gpt2-small --layers 2 --width 128 --classes 50 --sequence 8"),
                 "tensor 'gpt2-small/words/table' is f32[50,64] but the model has f32[50,128]");
  expect_refused(eval("gpt2-small --layers 1 --width 64 --classes 50 --sequence 8"), "transformer.h.1.attn.c_attn");
  fs::resize_file(in("out/adapter_model.safetensors"), 100);
  expect_refused(eval(kModel), "adapter_model.safetensors");
}

// A directory is a model like a built-in name, for adapters too: the base is read from it.
TEST_F(Adapt, TakesStoredModels) {
  const std::string net = in("net.plimsoll"), data = fmt::format("--data {} --batch 4 --threads 1", in(""));
  ASSERT_EQ(run("train", fmt::format("--progress none --save {} --save-model {}", in("base"), net)).exit_code, 0);
  const std::string flags = "--rank 4 --alpha 8 --lr 0.02 --progress none";
  const Outcome stored = run_program(fmt::format("adapt {} {} {} --output {}", net, data, flags, in("a")));
  ASSERT_EQ(stored.exit_code, 0) << stored.errors;
  ASSERT_EQ(adapt(fmt::format("{} --weights {} --output {}", flags, in("base"), in("b"))).exit_code, 0);
  const std::string adapters = SmallRun::content(in("a/adapter_model.safetensors"));
  EXPECT_FALSE(adapters.empty());
  EXPECT_EQ(adapters, SmallRun::content(in("b/adapter_model.safetensors")))
      << "as the built-in model with these weights";

  const auto predict = [&](const std::string& model, const std::string& more) {
    const Outcome outcome = run_program(fmt::format("predict {} {} {} --output {}", model, data, more, in("out.npy")));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return SmallRun::content(in("out.npy"));
  };
  const std::string with = predict(net, "--adapter " + in("a"));
  EXPECT_GT(with.size(), 1000U);
  EXPECT_NE(with, predict(net, "")) << "adapters do something";
  EXPECT_EQ(with, predict(kModel, fmt::format("--weights {} --adapter {}", in("base"), in("a"))));
}

TEST_F(Adapt, FreezingIsPlannedAndTrained) {
  const Outcome all = run("plan", "--json"), frozen = run("plan", "--json --freeze '*/table,*/fc1/*'");
  ASSERT_EQ(frozen.exit_code, 0) << frozen.errors;
  EXPECT_LT(plan_of(frozen)["by_tag"].value("optimiser", 0.0), plan_of(all)["by_tag"].value("optimiser", 0.0));
  EXPECT_GT(plan_of(frozen).value("frozen_weights", 0), 0);
  EXPECT_EQ(plan_of(all).value("frozen_weights", -1), 0);
  EXPECT_EQ(plan_of(frozen).value("exactness", ""), "bit-identical");
  const Outcome packed = run("plan", "--json --train-only '*/norm/*' --frozen-type bf16");
  EXPECT_EQ(plan_of(packed).value("exactness", ""), "lossy");
  EXPECT_EQ(plan_of(packed).value("frozen_type", ""), "bf16");
  const Outcome trained = run("train", fmt::format("--progress none --freeze '*/table' --save {}", in("w")));
  EXPECT_EQ(trained.exit_code, 0) << trained.errors;
}

// The bytes of the optimisers that keep less state, as the plan has them.
TEST_F(Adapt, OptimisersWithLessStateShowItInThePlan) {
  const auto state = [&](const std::string& flags) {
    const Outcome plan = run("plan", "--json " + flags);
    EXPECT_EQ(plan.exit_code, 0) << plan.errors;
    return plan_of(plan)["by_tag"].value("optimiser", 0.0);
  };
  const double adam = state("--optimizer adam");
  EXPECT_NEAR(state("--optimizer lion") / adam, 0.5, 0.01);
  EXPECT_LT(state("--optimizer adafactor") / adam, 0.1);
  EXPECT_LT(state("--optimizer adam --state-bits 8") / adam, 0.35);
}

}  // namespace
}  // namespace plimsoll::testing

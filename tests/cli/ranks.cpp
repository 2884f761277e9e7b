// train --ranks: real processes that train together give the bits of one, and fail together.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/rank_run.h"
#include "support/small_run.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Ranks : public ::testing::Test {
 protected:
  // Weights, statistics and the optimiser's state at the end, as bytes of a file.
  std::string weights_of(const std::string& name, const std::string& flags, const std::string& more) {
    const std::string file = small.in(name + ".safetensors");
    const Outcome outcome =
        run_program(fmt::format("train {} {} --threads 1 --progress none --json --save {}", flags, more, file));
    EXPECT_EQ(outcome.exit_code, 0) << more << "\n" << outcome.errors;
    last_ = outcome;
    return SmallRun::content(file);
  }
  std::string net() const {
    return fmt::format("mlp --image-size 4 --channels 1 --classes 3 --width 8 --batch 8 --data {} --val {}",
                       small.in("train.csv"), small.in("test.csv"));
  }
  // The processes of a run are gone.
  static void expect_nobody(const RankRun& run) {
    EXPECT_TRUE(RankRun::wait_until([&] { return run.ranks().empty(); })) << "a rank is left";
  }

  const SmallRun small;
  Outcome last_;
};

TEST_F(Ranks, HaveTheBitsOfOneProcessWithShards) {
  for (const std::string& more :
       {std::string("--epochs 2"), std::string("--epochs 2 --optimizer sgd --momentum 0.9 --clip 0.5")}) {
    const std::string one = weights_of("one", net(), "--shards 4 " + more);
    const auto metrics = [&] { return std::pair(last_.event("end")["loss"], last_.event("end")["test_loss"]); };
    const auto of_one = metrics();
    ASSERT_FALSE(one.empty());
    for (const int ranks : {2, 4}) {
      EXPECT_EQ(weights_of("several", net(), fmt::format("--shards 4 --ranks {} {}", ranks, more)), one)
          << ranks << " ranks, " << more;
      EXPECT_EQ(metrics(), of_one) << "metrics are those of the whole batch, to the last bit";
    }
    EXPECT_NE(weights_of("plain", net(), more), one) << "the comparison sees the last bits";
  }
}

// Zeros and ones: what the numbers are does not matter.
void write_npy(const std::string& path, const std::string& type, const std::string& shape, size_t bytes) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type, shape);
  header.resize(117, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY" << '\x01' << '\0' << static_cast<char>(header.size()) << '\0' << header;
  for (size_t i = 0; i < bytes; ++i)
    file << static_cast<char>(type == "|u1" ? i * i % 251 : i % 4 == 0 ? i / 4 % 3 : 0);
}

TEST_F(Ranks, HaveTheBitsOfOneProcessWithBatchNormAndFlippedImages) {
  write_npy(small.in("x.npy"), "|u1", "(16, 3, 32, 32)", 16 * 3 * 32 * 32);
  write_npy(small.in("y.npy"), "<i4", "(16,)", 16 * 4);
  const std::string net = fmt::format(
      "mobilenet_v2 --image-size 32 --classes 3 --batch 8 --shards 4 --steps 2 --map flip --train-x {0}x.npy --train-y "
      "{0}y.npy --test-x {0}x.npy --test-y {0}y.npy",
      small.in(""));
  const std::string one = weights_of("one", net, "");
  ASSERT_FALSE(one.empty());
  EXPECT_EQ(weights_of("several", net, "--ranks 2"), one);
  EXPECT_EQ(weights_of("several", net, "--ranks 4"), one);
}

TEST_F(Ranks, AreCloseToOneProcessWithoutShards) {
  const auto loss_of = [&](const std::string& more) {
    const Outcome outcome = run_program(
        fmt::format("train {} --threads 1 --optimizer sgd --lr 0.1 --epochs 3 --json --progress none {}", net(), more));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return outcome.event("end").value("loss", 0.0);
  };
  const double alone = loss_of("");
  ASSERT_GT(alone, 0);
  EXPECT_NEAR(loss_of("--ranks 2"), alone, 1e-4 * alone);
  EXPECT_NEAR(loss_of("--ranks 4"), alone, 1e-4 * alone);
}

TEST_F(Ranks, MayBeMoreThanCores) {
  const std::string one = weights_of("one", net(), "--shards 8 --epochs 2");
  ASSERT_FALSE(one.empty());
  RankRun run(fmt::format("train {} --ranks 8 --shards 8 --epochs 2 --threads 1 --progress none --json --save {}",
                          net(), small.in("eight.safetensors")),
              small.in("eight"));
  const Outcome& outcome = run.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(outcome.errors, "");
  EXPECT_EQ(outcome.event("end")["exchanges"]["ranks"], 8);
  EXPECT_EQ(SmallRun::content(small.in("eight.safetensors")), one);
  expect_nobody(run);
}

TEST_F(Ranks, TellWhatTheySendAndWhatIsNotHidden) {
  const Outcome outcome =
      run_program(fmt::format("train {} --ranks 2 --threads 1 --progress none --json --steps 4", net()));
  const nlohmann::json told = outcome.event("end")["exchanges"];
  EXPECT_EQ(told["steps"], 4);
  // Half of 235 gradients and a number of samples is sent twice; what small messages and metrics take comes on top.
  EXPECT_GT(told["sent_bytes_a_step"], 4 * 235);
  EXPECT_LT(told["sent_bytes_a_step"], 4 * 4 * 235);
  EXPECT_GT(told["exchange_ns_a_step"], 0);
  EXPECT_GT(told["step_ns"], told["not_hidden_ns_a_step"]);
  EXPECT_THAT(run_program(fmt::format("train {} --ranks 2 --threads 1 --progress none --steps 4", net())).output,
              HasSubstr("\nranks   2 · a rank sends "));
  EXPECT_THAT(run_program(fmt::format("train {} --threads 1 --progress none --steps 4", net())).output,
              Not(HasSubstr("not hidden")));
  const Outcome profile = run_program("profile mlp --ranks 2 --threads 1 --steps 2");
  EXPECT_EQ(profile.exit_code, 0) << profile.errors;
  EXPECT_EQ(profile.output.find("a rank sends"), profile.output.rfind("a rank sends")) << "one rank speaks";
  EXPECT_THAT(profile.output, HasSubstr("of which not hidden"));
}

TEST_F(Ranks, MayBePlannedOnPaper) {
  const std::string words = "plan mlp --batch 64 --ranks 64 --network ";
  const Outcome outcome = run_program(words + "10Gb/s,50us --json");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  const nlohmann::json plan = nlohmann::json::parse(outcome.output);
  EXPECT_GT(plan["network_ns"], 0);
  EXPECT_EQ(plan["scale"]["shardings"].size(), 4U);
  EXPECT_EQ(plan["scale"]["shardings"][0]["rows"].size(), 11U);
  EXPECT_THAT(run_program(words + "1GB/s").output, HasSubstr("stops scaling at "));
  const auto refusal = [](const std::string& more) {
    const Outcome refused = run_program("plan mlp --batch 32 " + more);
    EXPECT_EQ(refused.exit_code, 2) << refused.errors;
    EXPECT_EQ(refused.output, "");
    EXPECT_EQ(std::ranges::count(refused.errors, '\n'), 1) << refused.errors;
    return refused.errors;
  };
  EXPECT_THAT(refusal("--ranks 4 --network fast"), HasSubstr("'fast' is no speed of a network"));
  EXPECT_THAT(refusal("--ranks 0 --network 10Gb/s"), HasSubstr("--ranks '0' is no number of ranks"));
  EXPECT_THAT(refusal("--ranks 64 --network 10Gb/s"), HasSubstr("a batch of 32 has no sample for each of 64 ranks"));
  EXPECT_THAT(refusal("--ranks 4"), HasSubstr("give --network 10Gb/s"));
  EXPECT_THAT(refusal("--network 10Gb/s"), HasSubstr("give --ranks N"));
}

TEST_F(Ranks, UseEachSampleOfBatchesThatDoNotDivide) {
  // Shards of 2 and 1 samples, and in the last batch of an epoch some of none.
  const std::string net_of_ten = net() + " --batch 10";
  const std::string one = weights_of("one", net_of_ten, "--shards 8 --epochs 2");
  ASSERT_FALSE(one.empty());
  const auto tested = last_.event("end")["test_samples"];
  EXPECT_EQ(weights_of("several", net_of_ten, "--shards 8 --ranks 8 --epochs 2"), one);
  EXPECT_EQ(last_.event("end")["test_samples"], tested);
  EXPECT_EQ(weights_of("several", net_of_ten, "--shards 8 --ranks 4 --epochs 2"), one);
  EXPECT_NE(weights_of("three", net_of_ten, "--ranks 3 --epochs 2"), "");
}

TEST_F(Ranks, MayBeStartedByMpirunItself) {
  const Outcome outcome =
      run_program(fmt::format("train {} --epochs 1 --threads 1 --progress none", net()),
                  "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 2");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output.find("plan    "), outcome.output.rfind("plan    ")) << "one rank speaks";
  EXPECT_THAT(outcome.output, HasSubstr("test    accuracy"));
}

TEST_F(Ranks, RefuseWhatCanNotBeCut) {
  const auto refusal = [&](const std::string& more) {
    const Outcome outcome = run_program(fmt::format("train {} --progress none {}", net(), more));
    EXPECT_EQ(outcome.exit_code, 2) << outcome.errors;
    return outcome.errors;
  };
  EXPECT_EQ(refusal("--shards 3"), "plimsoll: 3 shards make no tree; give a power of two: 2 or 4\n");
  EXPECT_EQ(refusal("--shards 16"), "plimsoll: a batch of 8 can't be cut into 16 shards; try a batch of 16\n");
  EXPECT_EQ(refusal("--ranks 3 --batch 2"), "plimsoll: a batch of 2 can't be cut into 3 shards; try a batch of 3\n")
      << "once for all ranks";
  // Refused before so many processes start.
  EXPECT_EQ(refusal("--ranks 5000"), "plimsoll: a batch of 8 can't be cut into 5000 shards; try a batch of 5000\n");
  EXPECT_EQ(refusal("--ranks 2 --memory 1GiB,1GiB,1GiB"),
            "plimsoll: --memory has 3 sizes for 2 ranks; give one, or one for each\n");
  EXPECT_THAT(refusal("--ranks none"), HasSubstr("--ranks 'none' is no number of ranks"));
  EXPECT_THAT(refusal("--ranks 2 --restarts 1"), HasSubstr("--restarts does nothing without --run"));
  EXPECT_THAT(refusal("--shards 4 --accumulate 2"), HasSubstr("give a batch of 16 instead"));
}

// As in a build without MPI: its library can't be loaded.
TEST_F(Ranks, AreMissedWithASentenceWithoutMpi) {
  std::ofstream(small.in("libmpi.so.40")) << "no library";
  const std::string hidden = fmt::format("env LD_LIBRARY_PATH={}", small.in(""));
  const std::string words = fmt::format("train {} --epochs 1 --threads 1 --progress none", net());
  const Outcome ranks = run_program(words + " --ranks 2", hidden);
  EXPECT_EQ(ranks.exit_code, 2);
  EXPECT_EQ(ranks.errors,
            "plimsoll: ranks need MPI, which can't be loaded; install the package plimsoll-ranks, or in a checkout run "
            "./plimsoll with --ranks, which installs and builds it\n");
  EXPECT_EQ(run_program(words, hidden).exit_code, 0) << "all else works";
}

TEST_F(Ranks, WithDifferentTrainingsAreRefused) {
  const auto start = [&](const std::string& second) {
    const std::string prefix =
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --quiet --oversubscribe ";
    const std::string words = fmt::format("train {} --threads 1 --progress none", net());
    return run_program(fmt::format("{} {}", words, second),
                       fmt::format("{} -n 1 {} {} : -n 1", prefix, PLIMSOLL_BINARY, words));
  };
  const Outcome batch = start("--batch 16");
  EXPECT_EQ(batch.exit_code, 2) << batch.errors;
  EXPECT_THAT(batch.errors, HasSubstr("the batch of rank 1 is '16', that of rank 0 is '8'"));
  EXPECT_THAT(start("--width 16").errors, HasSubstr("the number of weights of rank 1 is"));
  EXPECT_THAT(start("--seed 9").errors, HasSubstr("the seed of rank 1 is '9', that of rank 0 is '1'"));
  std::ofstream(small.in("short.csv")) << SmallRun::content(small.in("train.csv")).substr(0, 4000);
  EXPECT_EQ(start("--data " + small.in("short.csv")).exit_code == 0, false);
  // As many samples of the same form, one of which has another number.
  std::string table = SmallRun::content(small.in("train.csv"));
  const size_t last = table.rfind('\n', table.size() - 2) + 1;
  table[last + 3] = table[last + 3] == '7' ? '8' : '7';
  std::ofstream(small.in("other.csv")) << table;
  const Outcome other = start("--data " + small.in("other.csv"));
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.errors,
              HasSubstr("the contents of the training data (first, middle and last sample) of rank 1 is '"));
  EXPECT_THAT(other.errors, Not(HasSubstr("contents of the test data")));
}

TEST_F(Ranks, ThatDoNotFitAreNamed) {
  const Outcome outcome =
      run_program(fmt::format("train {} --ranks 2 --memory 256MiB,20MiB --threads 1 --progress none", net()));
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.errors, StartsWith("plimsoll: rank 0: fits: the plan takes "));
  EXPECT_THAT(outcome.errors, HasSubstr("\nrank 1: does not fit"));
}

TEST_F(Ranks, ABadNumberOfOneRankEndsAll) {
  // The last sample of a batch is that of the last rank.
  std::ifstream table(small.in("train.csv"));
  std::ofstream bad(small.in("bad.csv"));
  std::string line;
  for (int row = -1; std::getline(table, line); ++row)
    bad << (row == 15 ? "nan" + line.substr(line.find(',')) : line) << "\n";
  bad.close();
  const Outcome outcome = run_program(
      fmt::format("train {} --ranks 4 --threads 1 --no-shuffle --progress none --data {}", net(), small.in("bad.csv")));
  EXPECT_EQ(outcome.exit_code, 4) << outcome.errors;
  EXPECT_THAT(outcome.errors, StartsWith("plimsoll: rank 3: "));
  EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
}

}  // namespace
}  // namespace plimsoll::testing

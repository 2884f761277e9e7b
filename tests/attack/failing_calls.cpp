// Every call to the operating system may fail: no crash, one clear error, nothing lost. After SQLite's tests.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "attack/effort.h"
#include "input/files.h"
#include "support/disk_folder.h"
#include "support/program.h"
#include "support/sanitizer.h"
#include "weights/weights_reader.h"

namespace plimsoll::testing {
namespace {

const std::set<int> kKnownCodes{0, 1, 2, 3, 4, 5, 6, 75};  // of the README

// What each call may fail with. An interrupted call must be repeated: then the run succeeds.
const std::map<std::string, std::vector<std::string>> kReasons{{"open", {"EIO", "ENOMEM", "ENOSPC", "EINTR"}},
                                                               {"read", {"EIO", "EINTR"}},
                                                               {"write", {"EIO", "ENOSPC", "ENOSPC:on", "EINTR"}},
                                                               {"fsync", {"EIO", "ENOSPC", "EINTR"}},
                                                               {"rename", {"EIO", "ENOSPC"}},
                                                               {"mmap", {"ENOMEM"}},
                                                               {"fallocate", {"EIO", "ENOSPC", "EINTR"}},
                                                               {"thread", {"EAGAIN"}}};

class FailingCalls : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a sanitizer wants to be loaded first";
    std::string images;
    for (int i = 0; i < 32 * 64; ++i) images += static_cast<char>(i * 7);
    const std::string labels(32 * 4, '\0');
    std::ofstream(here() + "/x.npy", std::ios::binary) << npy("'|u1'", "(32, 8, 8)", images);
    std::ofstream(here() + "/y.npy.gz", std::ios::binary) << gzip(npy("'<i4'", "(32,)", labels));
    ASSERT_EQ(run_program(train() + " --save " + old_weights()).exit_code, 0);
    std::filesystem::copy_file(old_weights(), weights());
  }

  const std::string& here() const { return folder_; }
  std::string old_weights() const { return here() + "/old"; }
  std::string weights() const { return here() + "/weights"; }
  std::string model() const { return "mlp --image-size 8 --width 16 --classes 10 --threads 1 -b 16 --memory 200MiB"; }
  std::string train() const {
    return fmt::format("train {0} --steps 2 --train-x {1}/x.npy --train-y {1}/y.npy.gz --scratch {1} --progress none",
                       model(), here());
  }

  // Runs `command` with each of its calls failing in turn. In the short form about `short_runs` of them.
  void attack(const std::string& command, int64_t short_runs) {
    const auto counts = count_calls(command);
    struct Case {
      std::string fault;
      bool must_succeed;
    };
    std::vector<Case> cases;
    for (const auto& [call, reasons] : kReasons)
      for (int64_t number = 1; number <= counts.at(call); ++number)
        for (const std::string& reason : reasons)
          cases.push_back({fmt::format("{}:{}:{}", call, number, reason), reason == "EINTR"});
    const int64_t all = static_cast<int64_t>(cases.size());
    int64_t stride = attack_minutes() > 0 ? 1 : std::max<int64_t>(1, all / short_runs);
    // Calls have two to four reasons each: a stride with a common factor would never meet some of them.
    while (std::gcd(stride, 12) != 1) --stride;
    int64_t runs = 0, failed = 0;
    // Starts in the middle of a stride, so that all calls and reasons have their turn.
    for (int64_t i = stride / 2; i < all; i += stride, ++runs) {
      const Case& one = cases[static_cast<size_t>(i)];
      std::filesystem::copy_file(old_weights(), weights(), std::filesystem::copy_options::overwrite_existing);
      const Outcome outcome = run_with(command, "PLIMSOLL_FAIL=" + one.fault);
      failed += outcome.exit_code != 0;
      expect_orderly(outcome, one.fault);
      EXPECT_TRUE(!one.must_succeed || outcome.exit_code == 0) << one.fault << "\n" << outcome.errors;
      if (HasFailure() && ++failures_ > 10) FAIL() << "and so on";
    }
    EXPECT_GT(failed, runs / 10) << "most failures are taken for an answer";
    fmt::print("{}: {} of {} failing calls tried, {} runs ended with an error\n",
               ::testing::UnitTest::GetInstance()->current_test_info()->name(), runs, all, failed);
  }

 private:
  Outcome run_with(const std::string& command, const std::string& environment) const {
    return run_program(command,
                       fmt::format("timeout -s KILL 60 env LD_PRELOAD={} {}", PLIMSOLL_FAIL_CALLS, environment));
  }

  std::map<std::string, int64_t> count_calls(const std::string& command) const {
    const std::string file = here() + "/counts";
    const Outcome outcome = run_with(command, "PLIMSOLL_FAIL_COUNTS=" + file);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    std::map<std::string, int64_t> counts;
    std::ifstream lines(file);
    std::string call;
    for (int64_t count; lines >> call >> count;) counts[call] = count;
    for (const auto& [known, reasons] : kReasons) counts.try_emplace(known, 0);
    return counts;
  }

  void expect_orderly(const Outcome& outcome, const std::string& fault) const {
    EXPECT_TRUE(kKnownCodes.contains(outcome.exit_code)) << fault << ": exit code " << outcome.exit_code << "\n"
                                                         << outcome.errors;
    int messages = 0;
    std::istringstream lines(outcome.errors);
    for (std::string line; std::getline(lines, line);) messages += line.starts_with("plimsoll: ");
    EXPECT_EQ(messages, outcome.exit_code == 0 ? 0 : 1) << fault << ": exit code " << outcome.exit_code << "\n"
                                                        << outcome.errors;
    EXPECT_NO_THROW(weights::WeightsReader{weights()}) << fault;
    for (const auto& entry : std::filesystem::directory_iterator(here()))
      EXPECT_EQ(entry.path().string().find(".plimsoll-"), std::string::npos) << fault << ": " << entry.path();
  }

  DiskFolder folder_;
  int failures_ = 0;
};

TEST_F(FailingCalls, OfAStart) { attack("plan " + model(), 20); }

TEST_F(FailingCalls, OfASave) { attack(train() + " --save " + weights(), 60); }

TEST_F(FailingCalls, OfALoad) {
  attack(fmt::format("eval {0} --weights {2} --test-x {1}/x.npy --test-y {1}/y.npy.gz --scratch {1}", model(), here(),
                     weights()),
         40);
}

TEST_F(FailingCalls, OfASpill) {
  const std::string command = train() + " --layers 12 --width 256 -b 32 --memory 23MiB --save " + weights();
  ASSERT_THAT(run_program(command).output, ::testing::HasSubstr("streams"));
  attack(command, 60);
}

}  // namespace
}  // namespace plimsoll::testing

// Weights files whose headers are larger than the line: training from them stays below it.
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/cgroup.h"
#include "support/disk_folder.h"
#include "support/program.h"
#include "support/sanitizer.h"

namespace plimsoll::testing {
namespace {

constexpr const char* kTrain = "train mlp --data /usr/share/datasets/fashion-mnist --steps 2 --threads 2";

struct Weights {
  std::string header;  // without the brace that ends it
  std::string data;

  explicit Weights(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(file), {}};
    uint64_t length = 0;
    std::memcpy(&length, all.data(), 8);
    header = all.substr(8, length);
    header.resize(header.rfind('}'));
    data = all.substr(8 + length);
  }

  void write(const std::string& path, const std::string& more_header, const std::string& more_data) const {
    std::ofstream file(path, std::ios::binary);
    const uint64_t length = header.size() + more_header.size() + 1;
    file.write(reinterpret_cast<const char*>(&length), 8);
    file << header << more_header << "}" << data << more_data;
  }
};

TEST(HugeHeaders, StayBelowTheLine) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const DiskFolder folder;
  const std::string& here = folder;
  ASSERT_EQ(run_program(fmt::format("{} --memory 60MiB --save {}/w", kTrain, here)).exit_code, 0);
  const Weights weights(here + "/w");

  const auto expect_below = [&](const std::string& what) {
    const LimitedOutcome outcome =
        run_limited({"sh", "-c",
                     fmt::format("{} {} --memory 40MiB --weights {}/huge --progress none >/dev/null", PLIMSOLL_BINARY,
                                 kTrain, here)},
                    40 * MiB);
    if (!outcome.run) GTEST_SKIP() << outcome.reason;
    EXPECT_EQ(outcome.run->exit_code, 0) << what;
    EXPECT_FALSE(outcome.run->oom_killed) << what;
  };
  for (const int64_t megabytes : {2, 20, 90}) {
    weights.write(here + "/huge", std::string(static_cast<size_t>(megabytes * MiB), ' '), "");
    expect_below(fmt::format("{} MiB of spaces", megabytes));
  }
  std::string extra;
  for (size_t i = 0; i < 200'000; ++i)
    extra += fmt::format(R"(,"extra{}":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}})", i,
                         weights.data.size() + i, weights.data.size() + i + 1);
  weights.write(here + "/huge", extra, std::string(200'000, 'x'));
  expect_below("200,000 more tensors");
}

}  // namespace
}  // namespace plimsoll::testing

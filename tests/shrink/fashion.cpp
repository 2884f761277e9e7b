// Accuracy on Fashion-MNIST before and after: at most one point is lost.
#include <gtest/gtest.h>

#include <plimsoll/plimsoll.h>

namespace plimsoll::shrink {
namespace {

Dataset half(const std::string& name) {
  const std::string data = "/usr/share/datasets/fashion-mnist/";  // of the Debian package dataset-fashion-mnist
  return Dataset::files(data + name + "-images-idx3-ubyte.gz", data + name + "-labels-idx1-ubyte.gz");
}

class Fashion : public ::testing::TestWithParam<const char*> {};

TEST_P(Fashion, LosesAtMostOnePoint) {
  const MemoryLine line(256 * MiB);
  const Model built_in = find_model(GetParam()).model;
  Model net(std::string("net_of_") + GetParam(), [built_in](Tensor x, bool training) {
    return built_in(reshape(x * (1 / 255.0), {Dim::batch(), 1, 28, 28}), training);
  });
  net.compile({.optimiser = Optimiser::adam(1e-3), .loss = "sparse_cross_entropy", .metrics = {"accuracy"}});
  net.fit(half("train").take(6000).batch(60), line, {.epochs = 2});
  const Dataset test = half("t10k").batch(100);
  const double before = net.evaluate(test, line)["accuracy"];
  EXPECT_GT(before, 0.7);
  // In the range of weights that is exact on this processor, and in that which is exact on every processor.
  for (const std::optional<bool> full_range : {std::optional<bool>(), std::optional(false)}) {
    QuantiseReport report;
    Model small =
        net.quantise(half("train").take(256).batch(64), line, {.all = true, .full_range = full_range}, &report);
    EXPECT_GE(small.evaluate(test, line)["accuracy"], before - 0.01) << (full_range ? "weights in [-64, 63]" : "");
    EXPECT_LT(report.file_bytes_after, report.file_bytes_before * 0.27);
    EXPECT_LT(report.memory_bytes_after, report.memory_bytes_before * 0.27);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Fashion, ::testing::Values("mlp", "fashion"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace plimsoll::shrink

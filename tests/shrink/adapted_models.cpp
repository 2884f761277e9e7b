// Folders of adapters saved from models and loaded onto others.
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/plimsoll.h>
#include "support/error_of.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using ::testing::HasSubstr;

Model small_net(int64_t width = 16) {
  return sequential({layers::dense(width, {.activation = "relu"}), layers::dense(3)});
}

class AdaptedModels : public ::testing::Test {
 protected:
  AdaptedModels() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    for (int64_t i = 0; i < kSamples; ++i) {
      x_.push_back(static_cast<float>(std::sin(0.7 * static_cast<double>(i))));
      x_.push_back(static_cast<float>(std::cos(1.3 * static_cast<double>(i))));
      y_.push_back(static_cast<int32_t>(i % 3));
    }
    Model base = small_net();
    base.compile({.optimiser = Optimiser::adam(0.02), .loss = "sparse_cross_entropy"});
    base.fit(data(), line_, {.epochs = 2});
    base.save_weights(in("base"));
    base_ = base.predict(data(), line_).numbers;
    Model tuned = small_net().adapt({.rank = 2, .alpha = 4, .targets = {"dense", "dense_1"}});
    tuned.compile({.optimiser = Optimiser::adam(0.05), .loss = "sparse_cross_entropy", .freeze = adapter_freeze()});
    tuned.load_weights(in("base"));
    tuned.fit(data(), line_, {.epochs = 3});
    save_adapter(tuned, in("adapter"));
    tuned_ = tuned.predict(data(), line_).numbers;
  }
  ~AdaptedModels() override { fs::remove_all(folder_); }

  std::string in(const std::string& name) const { return folder_ + "/" + name; }
  Dataset data() const { return Dataset::slices({{"x", x_, {kSamples, 2}}, {"y", y_}}).batch(16); }

  static constexpr int64_t kSamples = 48;
  const std::string folder_ =
      ::testing::TempDir() + "adapted_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const MemoryLine line_{64 * MiB};
  std::vector<float> x_, base_, tuned_;
  std::vector<int32_t> y_;
};

TEST_F(AdaptedModels, AnswerAsTheOneThatWasSaved) {
  EXPECT_NE(base_, tuned_) << "adapters do something";
  Model again = load_adapter(small_net(), in("adapter"));
  again.load_weights(in("base"));
  EXPECT_EQ(again.predict(data(), line_).numbers, tuned_);
  // They stay when the session is made anew.
  const MemoryLine other(96 * MiB);
  EXPECT_EQ(again.predict(data(), other).numbers, tuned_);
  save_adapter(again, in("copy"));
  Model third = load_adapter(small_net(), in("copy"));
  third.load_weights(in("base"));
  EXPECT_EQ(third.predict(data(), line_).numbers, tuned_);
}

TEST_F(AdaptedModels, TrainOnFromThere) {
  Model again = load_adapter(small_net(), in("adapter"));
  again.load_weights(in("base"));
  again.compile({.optimiser = Optimiser::adam(0.01), .loss = "sparse_cross_entropy", .freeze = adapter_freeze()});
  again.fit(data(), line_, {.epochs = 1});
  const std::vector<float> later = again.predict(data(), line_).numbers;
  EXPECT_NE(later, tuned_);
  double far_from_base = 0, far_from_tuned = 0;
  for (size_t i = 0; i < later.size(); ++i) {
    far_from_base += std::abs(later[i] - base_[i]);
    far_from_tuned += std::abs(later[i] - tuned_[i]);
  }
  EXPECT_LT(far_from_tuned, far_from_base) << "the adapters of the folder are where training began";
}

TEST_F(AdaptedModels, AFolderOfAnotherModelIsRefused) {
  Model other = load_adapter(small_net(24), in("adapter"));
  EXPECT_THAT(error_of([&] { other.predict(data(), line_); }), HasSubstr("adapter"));
  EXPECT_THAT(error_of([&] { load_adapter(small_net(), in("nothing")); }), HasSubstr("nothing"));
  fs::resize_file(in("adapter/adapter_model.safetensors"), 100);
  EXPECT_THAT(error_of([&] { load_adapter(small_net(), in("adapter")); }), HasSubstr("adapter_model.safetensors"));
}

}  // namespace
}  // namespace plimsoll

// Stripped models: the same predictions, bit for bit, from less memory and a smaller file.
#include "shrink/strip.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "base/random.h"
#include "input/files.h"
#include "kernels/sparse_tiles.h"
#include "train/training.h"
#include "weights/weights_file.h"

namespace plimsoll::shrink {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using weights::StoredTensor;

// Reals, of which so many are zero in tensors of two and more dimensions.
store::WeightsSource pruned_weights(const std::vector<StoredTensor>& tensors, double zeros) {
  return {weights::list_of(tensors), [zeros](const StoredTensor& tensor, const weights::PutBytes& put) {
            const uint64_t key = mix_bits(tensor.name.size(), static_cast<uint64_t>(tensor.bytes));
            for (int64_t i = 0; i < element_count(tensor.dims); ++i) {
              const auto number = static_cast<uint64_t>(i);
              const bool is_zero = tensor.dims.rank() >= 2 && unit_real(mix_bits(key + 1, number)) < zeros;
              const float value = is_zero ? 0 : static_cast<float>(unit_real(mix_bits(key, number))) * 0.1F + 0.01F;
              put(std::as_bytes(std::span(&value, 1)));
            }
          }};
}

std::vector<float> predict(const std::string& path, int64_t batch) {
  const store::StoredModel stored = store::read_model(path);
  train::Spec spec;
  spec.own_model = std::make_shared<const ModelSpec>(stored.spec);
  spec.batch = batch;
  spec.line = GiB;
  spec.purpose = train::Purpose::Predict;
  spec.loads_weights = true;
  const auto training = train::make_training(spec);
  training->session->open();
  weights::load_weights(*training->session, training->graph, stored.weights_path());
  std::vector<std::unique_ptr<float[], decltype(&std::free)>> numbers;  // aligned: they are read where they lie
  std::vector<Feed> feeds;
  for (const auto& [name, tensor] : training->passes.inputs) {
    const int64_t count = element_count(at_batch(tensor.shape(), batch));
    const auto bytes = static_cast<size_t>(round_up(count * Bytes{sizeof(float)}, kAlignment));
    auto& x = numbers.emplace_back(static_cast<float*>(std::aligned_alloc(kAlignment, bytes)), &std::free);
    for (int64_t i = 0; i < count; ++i)
      x[static_cast<size_t>(i)] = static_cast<float>(unit_real(mix_bits(9, static_cast<uint64_t>(i))));
    feeds.push_back({tensor, DType::F32, x.get(), count * Bytes{sizeof(float)}});
  }
  const auto views = training->session->run_step(training->predict_step, feeds);
  const auto floats = views[0].floats();
  return {floats.begin(), floats.end()};
}

class Strip : public ::testing::Test {
 protected:
  std::string path(const char* name) const { return files.path() + "/" + name; }
  void save(const char* name, const ModelSpec& spec, double zeros) const {
    const model::TracedModel traced = model::trace(spec);
    const std::vector<StoredTensor> tensors = store::list_weights(traced);
    store::save_model(path(name), spec, traced, pruned_weights(tensors, zeros));
  }
  Bytes file_bytes(const char* name) const {
    return static_cast<Bytes>(fs::file_size(path(name) + "/" + store::kModelWeights));
  }
  std::string refusal(const char* from) const {
    try {
      strip_model(path(from), path("refused"));
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  }
  const testing::TemporaryDirectory files;
};

TEST_F(Strip, PredictionsKeepTheirBits) {
  ModelOptions small;
  small.image_size = 32;
  for (const auto& [name, options] : {std::pair<const char*, ModelOptions>{"mlp", {}},
                                      {"lenet", {}},
                                      {"fashion", {}},
                                      {"resnet18", small},
                                      {"mobilenet_v2", small}}) {
    save("dense", find_model(name, options), 0.8);
    const StripReport report = strip_model(path("dense"), path("small"));
    for (const int64_t batch : {1, 6}) EXPECT_EQ(predict(path("small"), batch), predict(path("dense"), batch)) << name;
    EXPECT_LT(file_bytes("small"), file_bytes("dense")) << name;
    EXPECT_LE(file_bytes("small"), report.after.file);
    EXPECT_GT(report.weights.size(), 2U);
  }
}

TEST_F(Strip, FourFifthsZerosAreFourTimesSmaller) {
  save("dense", find_model("mlp"), 0.8);
  const StripReport report = strip_model(path("dense"), path("small"));
  Bytes before = 0, after = 0;
  for (const StrippedWeight& weight : report.weights) {
    before += weight.bytes_before;
    after += weight.bytes_after;
    EXPECT_NEAR(static_cast<double>(weight.zeros), 0.8 * static_cast<double>(weight.elements), 600) << weight.name;
  }
  EXPECT_GE(before, 4 * after);
  EXPECT_GE(file_bytes("dense"), 4 * file_bytes("small"));
  EXPECT_GE(report.before.memory, 4 * report.after.memory);
  EXPECT_THAT(to_string(report), HasSubstr("the model in memory"));
}

// The plan's weights are the stripped ones: nothing is expanded as a whole.
TEST_F(Strip, InferenceHoldsTheStrippedWeights) {
  ModelOptions wide;
  wide.width = 2048;
  save("dense", find_model("mlp", wide), 0.8);
  strip_model(path("dense"), path("small"));
  const auto arena = [&](const char* name) {
    train::Spec spec;
    spec.own_model = std::make_shared<const ModelSpec>(store::read_model(path(name)).spec);
    spec.batch = 16;
    spec.line = GiB;
    spec.purpose = train::Purpose::Predict;
    return train::make_training(spec)->session->arena_bytes();
  };
  const Bytes dense = arena("dense"), small = arena("small");
  EXPECT_GT(dense, 22 * MiB);
  EXPECT_LT(4 * small, dense + 4 * MiB) << small;
}

TEST_F(Strip, RefusesWhatIsNotPrunedOrStrippedAlready) {
  save("dense", find_model("lenet"), 0);
  EXPECT_THAT(refusal("dense"), HasSubstr("has nothing to strip"));
  save("pruned", find_model("lenet"), 0.7);
  strip_model(path("pruned"), path("small"));
  EXPECT_THAT(refusal("small"), HasSubstr("is stripped already"));
  EXPECT_FALSE(fs::exists(path("refused")));
  // Nor is it trained, pruned or not.
  train::Spec spec;
  spec.own_model = std::make_shared<const ModelSpec>(store::read_model(path("small")).spec);
  spec.line = GiB;
  EXPECT_THROW(train::make_training(spec), Error);
  spec.pruning = Pruning{};
  EXPECT_THROW(train::make_training(spec), Error);
}

// A start that points elsewhere is found before a byte outside of the values is read.
TEST_F(Strip, DamagedStartsAreReported) {
  save("pruned", find_model("lenet"), 0.7);
  strip_model(path("pruned"), path("small"));
  const store::StoredModel stored = store::read_model(path("small"));
  const weights::WeightsReader reader(stored.weights_path());
  reader.for_each([&](const StoredTensor& tensor) {
    if (!tensor.name.ends_with("/starts")) return;
    std::fstream file(stored.weights_path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(tensor.offset);
    const int32_t wrong = 1 << 30;
    file.write(reinterpret_cast<const char*>(&wrong), sizeof wrong);
  });
  EXPECT_THROW(store::expect_whole_weights(stored), Error);
  try {
    predict(path("small"), 2);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("start of weights"));
  }
}

}  // namespace
}  // namespace plimsoll::shrink

#include "store/model_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "model/training.h"
#include "ops/ops.h"
#include "store/model_graph.h"
#include "train/training.h"
#include "weights/weights_file.h"

namespace plimsoll::store {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ModelFiles : public ::testing::Test {
 protected:
  ModelFiles() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ModelFiles() override { fs::remove_all(folder_); }

  std::string path(const std::string& name = "net.plimsoll") const { return folder_ + "/" + name; }
  const std::string folder_ =
      testing::TempDir() + "model_file_" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

ModelOptions small_options(std::string_view name) {
  ModelOptions options;
  if (name == "bert-base" || name.starts_with("gpt2-")) {
    options.layers = 1;
    options.width = 64;
    options.sequence = 8;
    options.classes = 50;
  }
  if (name == "dense-chain") options.layers = 4;
  return options;
}

// Numbers that depend on the name and the place alone.
WeightsSource made_up_weights(const std::vector<weights::StoredTensor>& tensors) {
  return {weights::list_of(tensors),
          [](const weights::StoredTensor& tensor, const weights::PutBytes& put) {
            for (Bytes at = 0; at < tensor.bytes; at += 4) {
              const float number = static_cast<float>(at % 23 + tensor.name.size()) / 1000;
              put(std::as_bytes(std::span(&number, 1)));
            }
          },
          12};
}

StoredModel save_and_read(const std::string& path, const ModelSpec& spec) {
  const model::TracedModel traced = model::trace(spec);
  const std::vector<weights::StoredTensor> tensors = list_weights(traced);
  save_model(path, spec, traced, made_up_weights(tensors), {{"made", "by a test"}});
  return read_model(path);
}

std::string training_text(const ModelSpec& spec) {
  Graph graph;
  model::build_training(graph, spec, Optimiser::adam());
  return to_string(graph);
}

TEST_F(ModelFiles, EveryModelComesBackAsTheSameGraph) {
  for (const std::string& name : model_names()) {
    if (name == "vgg16" || name == "resnet50" || name == "unet" || name.starts_with("gpt2-x") ||
        name.starts_with("gpt2-l") || name.starts_with("gpt2-m"))
      continue;  // large files; their graphs are replayed in tests/model/rewrite.cpp
    const ModelSpec spec = find_model(name, small_options(name));
    const StoredModel stored = save_and_read(path(), spec);
    EXPECT_EQ(training_text(stored.spec), training_text(spec)) << name;
    EXPECT_EQ(stored.spec.classes, spec.classes);
    EXPECT_EQ(stored.spec.batch, spec.batch);
    ASSERT_EQ(stored.spec.metrics.size(), spec.metrics.size());
    for (size_t i = 0; i < spec.metrics.size(); ++i) EXPECT_EQ(stored.spec.metrics[i].name, spec.metrics[i].name);
    EXPECT_EQ(stored.steps, 12);
    EXPECT_EQ(stored.notes, (ModelNotes{{"made", "by a test"}}));
    EXPECT_NO_THROW(expect_whole_weights(stored));
  }
}

TEST_F(ModelFiles, OperatorsOfEveryModelMayBeStored) {
  for (const std::string& name : model_names()) {
    const model::TracedModel traced = model::trace(find_model(name));
    EXPECT_NO_THROW(describe_pass(*traced.training, traced.training_objective)) << name;
  }
  for (const char* name : {"conv2d_input_grad", "adam", "assign", "fused", "scatter_rows", "relu ", "", "re"})
    EXPECT_TRUE(ops::find_op(name) == nullptr || !ops::find_op(name)->storable) << name;
}

TEST_F(ModelFiles, KeepsWhatIsKnownAboutTheData) {
  ModelSpec spec = find_model("lenet");
  spec.preprocessing = {.class_names = {"zéro", "one"}, .mean = {0.1F}, .deviation = {0.3F}, .byte_scale = 0.5F};
  const StoredModel stored = save_and_read(path(), spec);
  EXPECT_EQ(stored.spec.preprocessing, spec.preprocessing);
}

TEST_F(ModelFiles, WeightsOfAFileLoseTheOptimiser) {
  const std::string weights = path("w.safetensors");
  train::Spec spec{.model = "lenet"};
  spec.line = 256 * MiB;
  const auto training = train::make_training(spec);
  weights::save_weights(*training->session, training->graph, weights);
  const model::TracedModel traced = model::trace(find_model("lenet"));
  save_model(path(), find_model("lenet"), traced, weights_of_file(weights, traced));
  save_model(path("live"), find_model("lenet"), traced, weights_of(*training->session, training->graph));
  const auto bytes_of = [&](const std::string& model) {
    std::ifstream file(model + "/" + kModelWeights, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(bytes_of(path()), bytes_of(path("live")));
  EXPECT_LT(bytes_of(path()).size() * 2, fs::file_size(weights));
  const model::TracedModel other = model::trace(find_model("mlp"));
  EXPECT_THROW(weights_of_file(weights, other), Error);
}

}  // namespace
}  // namespace plimsoll::store

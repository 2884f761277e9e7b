// Files of adapters, read and written as PEFT has them; bench/peft compares with the real package.
#include "shrink/adapter_file.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "model/rewrite.h"
#include "model/training.h"
#include "shrink/adapt.h"
#include "shrink/merge.h"
#include "support/disk_folder.h"
#include "support/error_of.h"
#include "weights/weights_file.h"

namespace plimsoll::shrink {
namespace {

using testing::DiskFolder;
using testing::error_of;
using ::testing::HasSubstr;

ModelSpec small_gpt2(int64_t width = 64) {
  return find_model("gpt2-small", {.classes = 50, .sequence = 8, .layers = 2, .width = width, .dropout = 0.0});
}

struct Tensors {
  nlohmann::json header;
  std::map<std::string, std::vector<float>> numbers;
};

// A reader of its own: eight bytes, a header, numbers.
Tensors parse(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  uint64_t length = 0;
  std::memcpy(&length, all.data(), 8);
  Tensors tensors{nlohmann::json::parse(all.substr(8, length)), {}};
  for (const auto& [name, about] : tensors.header.items()) {
    if (name == "__metadata__") continue;
    const size_t begin = about["data_offsets"][0], end = about["data_offsets"][1];
    std::vector<float>& numbers = tensors.numbers[name];
    numbers.resize((end - begin) / sizeof(float));
    std::memcpy(numbers.data(), all.data() + 8 + length + begin, end - begin);
  }
  return tensors;
}

// An adapted model in a session of its own; fill_adapters sets its adapters, whose B would be zeros.
struct AdaptedNet {
  ModelSpec model;
  AdaptOptions options;
  Graph graph;
  ModelSpec adapted;
  model::TrainingGraph training;
  MemoryLine line{GiB};
  session::Engine session;

  AdaptedNet(ModelSpec from, const AdaptOptions& by, uint64_t seed)
      : model(std::move(from)),
        options(by),
        adapted(adapt(model, by)),
        training(model::build_training(graph, adapted, Optimiser::sgd(), {}, 1, adapter_freeze())),
        session(graph, line, {{{training.eval_loss}, {}, 2}}, SessionOptions{.seed = seed}) {
    session.open();
  }
  std::vector<float> values(const std::string& name) {
    const Tensor variable = graph.find("gpt2-small/" + name);
    std::vector<float> numbers(static_cast<size_t>(element_count(variable.shape()).count()));
    session.get(variable, numbers.data(), static_cast<Bytes>(numbers.size() * sizeof(float)));
    return numbers;
  }
  void fill_adapters() {
    for (const graph::Variable& variable : graph.body().variables()) {
      if (!is_adapter(variable.stored->name)) continue;
      float next = 0;
      session.fill({graph, variable.value}, [&](void* into, Bytes, Bytes bytes) {
        for (size_t i = 0; i < static_cast<size_t>(bytes) / sizeof(float); ++i)
          static_cast<float*>(into)[i] = 0.01F * (next = next > 40 ? -40 : next + 1);
      });
    }
  }
  float loss() {
    const std::vector<int32_t> words{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    const Feed feeds[] = {{training.input(), words}, {training.labels(), words}};
    return session.run_step(0, feeds)[0].item<float>();
  }
};

class AdapterFile : public ::testing::Test {
 protected:
  std::string in(const std::string& name) const { return static_cast<const std::string&>(disk_) + "/" + name; }
  std::string weights() const { return in("adapter") + "/adapter_model.safetensors"; }
  std::string config() const { return in("adapter") + "/adapter_config.json"; }
  void save(const AdaptOptions& options) {
    net_ = std::make_unique<AdaptedNet>(small_gpt2(), options, 1);
    net_->fill_adapters();
    save_adapter(net_->session, net_->graph, net_->model, options, in("adapter"));
  }
  void change_config(const std::string& key, const nlohmann::json& value) const {
    nlohmann::json json = nlohmann::json::parse(std::ifstream(config()));
    json[key] = value;
    std::ofstream(config()) << json;
  }
  std::string refusal() {
    return error_of([&] {
      const AdaptOptions options = read_adapter(in("adapter"));
      AdapterReader(in("adapter"), list_products(small_gpt2()), options.rank);
    });
  }
  const DiskFolder disk_;
  std::unique_ptr<AdaptedNet> net_;
};

TEST_F(AdapterFile, HasPeftsNamesShapesAndOrder) {
  save({.rank = 4, .alpha = 8, .targets = {"c_attn", "mlp.c_proj"}});
  const Tensors tensors = parse(weights());
  EXPECT_EQ(tensors.numbers.size(), 8U);
  const std::string attention = "base_model.model.transformer.h.1.attn.c_attn.";
  EXPECT_EQ(tensors.header[attention + "lora_A.weight"]["shape"], nlohmann::json({4, 64}));
  EXPECT_EQ(tensors.header[attention + "lora_B.weight"]["shape"], nlohmann::json({192, 4}));
  const std::string fc2 = "base_model.model.transformer.h.0.mlp.c_proj.";
  EXPECT_EQ(tensors.header[fc2 + "lora_A.weight"]["shape"], nlohmann::json({4, 256}));
  const std::vector<float> a = net_->values("block2/attention/lora_A"),
                           stored = tensors.numbers.at(attention + "lora_A.weight");
  for (size_t i = 0; i < 64; ++i)
    for (size_t k = 0; k < 4; ++k) EXPECT_EQ(stored[k * 64 + i], a[i * 4 + k]);
  const std::vector<float> b = net_->values("block2/attention/value/lora_B"),
                           all = tensors.numbers.at(attention + "lora_B.weight");
  for (size_t j = 0; j < 64; ++j)
    for (size_t k = 0; k < 4; ++k) EXPECT_EQ(all[(128 + j) * 4 + k], b[k * 64 + j]);
  const nlohmann::json json = nlohmann::json::parse(std::ifstream(config()));
  EXPECT_EQ(json["peft_type"], "LORA");
  EXPECT_EQ(json["task_type"], "CAUSAL_LM");
  EXPECT_EQ(json["r"], 4);
  EXPECT_EQ(json["lora_alpha"], 8);
  EXPECT_EQ(json["fan_in_fan_out"], true);
  // "c_proj" alone would mean that of the attention too.
  EXPECT_EQ(json["target_modules"].size(), 4U);
}

TEST_F(AdapterFile, IsReadAsItWasWritten) {
  save({.rank = 4, .alpha = 8});
  EXPECT_EQ(nlohmann::json::parse(std::ifstream(config()))["target_modules"], nlohmann::json({"c_attn"}));
  const AdaptOptions read = read_adapter(in("adapter"));
  EXPECT_EQ(read.rank, 4);
  EXPECT_EQ(read.alpha, 8);
  AdaptedNet other(small_gpt2(), read, 1);
  EXPECT_NE(other.loss(), net_->loss());
  load_adapter(other.session, other.graph, other.model, in("adapter"));
  for (const char* name : {"block1/attention/lora_A", "block2/attention/lora_A", "block1/attention/query/lora_B",
                           "block2/attention/value/lora_B"})
    EXPECT_EQ(other.values(name), net_->values(name)) << name;
  EXPECT_EQ(other.loss(), net_->loss());
}

TEST_F(AdapterFile, MergedWeightsEqualThoseBeside) {
  save({.rank = 4, .alpha = 8, .targets = {"c_attn", "fc1"}});
  weights::save_weights(net_->session, net_->graph, in("base"));
  const model::TracedModel traced = model::trace(net_->model);
  const store::WeightsSource base = store::weights_of_file(in("base"), traced);
  store::save_model(in("merged"), net_->model, traced, merged_weights(net_->model, base, in("adapter")));
  EXPECT_EQ(merge_facts(net_->model, in("adapter")).weights, 2 * 4);
  const store::StoredModel merged = store::read_model(in("merged"));
  expect_whole_weights(merged);
  Graph graph;
  const model::TrainingGraph training = model::build_training(graph, merged.spec, Optimiser::sgd());
  session::Engine session(graph, net_->line, {{{training.eval_loss}, {}, 2}}, SessionOptions{.seed = 9});
  weights::load_weights(session, graph, merged.weights_path());
  const std::vector<int32_t> words{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  const Feed feeds[] = {{training.input(), words}, {training.labels(), words}};
  const float loss = session.run_step(0, feeds)[0].item<float>();
  EXPECT_NEAR(loss, net_->loss(), 1e-4F * std::abs(loss));
  // The adapters matter: without them the loss is another.
  AdaptedNet plain(small_gpt2(), net_->options, 1);
  EXPECT_GT(std::abs(plain.loss() - loss), 1e-2F * std::abs(loss));
}

TEST_F(AdapterFile, OfAnotherModelIsRefused) {
  save({.rank = 4});
  const auto refused = [&](const ModelSpec& model) {
    return error_of([&] { AdapterReader(in("adapter"), list_products(model), 4); });
  };
  EXPECT_THAT(
      refused(small_gpt2(128)),
      HasSubstr("is f32[4,64] but with rank 4 this model's layer takes f32[4,128]: the adapters are another model's"));
  EXPECT_THAT(refused(find_model("lenet")),
              HasSubstr("belongs to no layer of this model: the adapters are another model's"));
}

TEST_F(AdapterFile, ThatIsDamagedIsRefused) {
  save({.rank = 4});
  change_config("r", 8);
  EXPECT_THAT(refusal(), HasSubstr("but with rank 8 this model's layer takes f32[8,64]"));
  change_config("r", "four");
  EXPECT_THAT(refusal(), HasSubstr("a setting is of another type than PEFT has"));
  change_config("r", 0);
  EXPECT_THAT(refusal(), HasSubstr("rank 0, alpha 8 and dropout 0 make no sense"));
  change_config("r", 4);
  change_config("use_dora", true);
  EXPECT_THAT(refusal(), HasSubstr("it sets 'use_dora', which is not supported here"));
  change_config("use_dora", false);
  change_config("bias", "all");
  EXPECT_THAT(refusal(), HasSubstr("it trains biases"));
  change_config("bias", "none");
  change_config("peft_type", "IA3");
  EXPECT_THAT(refusal(), HasSubstr("not of the type LORA"));
  change_config("peft_type", "LORA");
  EXPECT_EQ(refusal(), "no error");
  std::ofstream(config()) << "[1,";
  EXPECT_THAT(refusal(), HasSubstr("it is no JSON object, so no config of adapters"));
  std::filesystem::resize_file(weights(), std::filesystem::file_size(weights()) - 4);
  save({.rank = 4});
  std::filesystem::resize_file(weights(), std::filesystem::file_size(weights()) - 4);
  EXPECT_THAT(refusal(), HasSubstr(weights()));
  std::filesystem::remove(weights());
  EXPECT_THAT(refusal(), HasSubstr(weights()));
}

}  // namespace
}  // namespace plimsoll::shrink

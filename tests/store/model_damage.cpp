// Models that are damaged, hostile, or in the way.
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include "base/crc32c.h"
#include "store/model_file.h"

namespace plimsoll::store {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_all(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

std::string checksum_text(const std::string& content) {
  return fmt::format("{:08x}", crc32c(std::as_bytes(std::span(content))));
}

ModelSpec tiny_spec() {
  ModelSpec spec;
  spec.model = Model("net", [](Tensor x, bool training) {
    return layers::dense(layers::batch_norm(layers::dense(x, 4), training), 3);
  });
  spec.inputs = {{"input", {DType::F32, {Dim::batch(), 5}}}};
  return spec;
}

class DamagedModels : public ::testing::Test {
 protected:
  DamagedModels() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    save(0.5F);
  }
  ~DamagedModels() override { fs::remove_all(folder_); }

  void save(float number, const std::string& name = "net") const {
    const model::TracedModel traced = model::trace(tiny_spec());
    const std::vector<weights::StoredTensor> tensors = list_weights(traced);
    save_model(path(name), tiny_spec(), traced, source(tensors, number));
  }
  static WeightsSource source(const std::vector<weights::StoredTensor>& tensors, float number) {
    return {weights::list_of(tensors), [number](const weights::StoredTensor& tensor, const weights::PutBytes& put) {
              for (Bytes at = 0; at < tensor.bytes; at += 4) put(std::as_bytes(std::span(&number, 1)));
            }};
  }

  std::string path(const std::string& name = "net") const { return folder_ + "/" + name; }
  std::string file(const char* name) const { return path() + "/" + name; }
  // The Error of a read, which must be one of bad data; "no error" without one.
  std::string read(const std::string& name = "net") const {
    try {
      expect_whole_weights(read_model(path(name)));
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::BadData) << e.what();
      return e.what();
    }
    return "no error";
  }
  // Changes the facts and gives them a right checksum.
  void change_facts(const std::function<void(nlohmann::json&)>& change) const {
    nlohmann::json json = nlohmann::json::parse(read_all(file(kModelFacts)));
    json.erase("crc32c");
    change(json);
    json["crc32c"] = checksum_text(json.dump());
    write_all(file(kModelFacts), json.dump());
  }
  // Changes the graph of both passes and makes lengths and checksums right, so that only the graph can be refused.
  std::string read_changed(const std::function<std::string(std::string)>& change) const {
    save(0.5F);
    const std::string all = read_all(file(kModelGraph));
    const auto first = nlohmann::json::parse(read_all(file(kModelFacts)))["inference"]["text_bytes"].get<size_t>();
    const std::string inference = change(all.substr(0, first)), training = change(all.substr(first));
    write_all(file(kModelGraph), inference + training);
    change_facts([&](nlohmann::json& json) {
      json["inference"]["text_bytes"] = inference.size();
      json["training"]["text_bytes"] = training.size();
      json["files"][0]["bytes"] = inference.size() + training.size();
      json["files"][0]["crc32c"] = checksum_text(inference + training);
    });
    return read();
  }
  std::string read_with_line(const std::string& line) const {
    return read_changed([&](const std::string& text) { return text + line + "\n"; });
  }

  const std::string folder_ =
      testing::TempDir() + "model_damage_" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(DamagedModels, EveryFlippedBitIsFound) {
  ASSERT_EQ(read(), "no error");
  for (const char* name : {kModelFacts, kModelGraph, kModelWeights}) {
    const std::string whole = read_all(file(name));
    for (size_t i = 0; i < whole.size(); i += 7) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
      // White space with a changed bit may leave JSON with the same meaning.
      if (std::string_view(name) == kModelFacts && (whole[i] == ' ' || whole[i] == '\n')) continue;
      write_all(file(name), damaged);
      EXPECT_THAT(read(), HasSubstr(path())) << name << ", byte " << i;
    }
    write_all(file(name), whole);
  }
  EXPECT_EQ(read(), "no error");
}

TEST_F(DamagedModels, TruncatedLongerAndMissingFilesAreFound) {
  for (const char* name : {kModelFacts, kModelGraph, kModelWeights}) {
    const std::string whole = read_all(file(name));
    for (const size_t length : {size_t{0}, size_t{1}, whole.size() / 2, whole.size() - 2}) {
      write_all(file(name), whole.substr(0, length));
      EXPECT_THAT(read(), HasSubstr(path())) << name << ", " << length;
    }
    if (std::string_view(name) != kModelFacts) {
      write_all(file(name), whole + "x");
      EXPECT_THAT(read(), HasSubstr("bytes, not")) << name;
    }
    fs::remove(file(name));
    EXPECT_THAT(read(), HasSubstr(name));
    fs::create_directory(file(name));
    EXPECT_THAT(read(), HasSubstr(name));
    fs::remove(file(name));
    write_all(folder_ + "/elsewhere", whole);
    fs::create_symlink(folder_ + "/elsewhere", file(name));
    EXPECT_THAT(read(), HasSubstr("symbolic link")) << name;
    fs::remove(file(name));
    write_all(file(name), whole);
  }
  EXPECT_EQ(read(), "no error");
}

TEST_F(DamagedModels, HugeFilesAreNotRead) {
  for (const char* name : {kModelFacts, kModelGraph}) {
    fs::resize_file(file(name), uintmax_t{4} << 30);  // sparse
    EXPECT_THAT(read(), HasSubstr("it has 4 GiB, more than")) << name;
    save(0.5F);
  }
}

TEST_F(DamagedModels, OtherPathsSayWhatTheyAre) {
  write_all(path("file"), "x");
  EXPECT_THAT(read("file"), HasSubstr("it is no directory"));
  fs::create_directory(path("empty"));
  EXPECT_THAT(read("empty"), HasSubstr("it holds no model.json"));
  EXPECT_THAT(read("nothing"), HasSubstr("there is no such directory"));
}

TEST_F(DamagedModels, FactsThatMakeNoSenseAreRefused) {
  const std::pair<std::function<void(nlohmann::json&)>, const char*> changes[] = {
      {[](auto& json) { json["version"] = 2; }, "it has version 2, not 1"},
      {[](auto& json) { json["format"] = "cake"; }, "another kind"},
      {[](auto& json) { json.erase("inference"); }, "missing or damaged"},
      {[](auto& json) { json["batch"] = 0; }, "0 is no number from 1"},
      {[](auto& json) { json["batch"] = 1e30; }, "a number is damaged"},
      {[](auto& json) { json["batch"] = UINT64_MAX; }, "too large"},
      {[](auto& json) { json["name"] = "a/b"; }, "its name is none of a model"},
      {[](auto& json) { json["name"] = "other"; }, "is not within 'other/'"},
      {[](auto& json) { json["preprocessing"]["deviation"] = {0.0}; }, "a deviation is not above 0"},
      {[](auto& json) {
         json["metrics"] = {{{"name", "a"}, {"kind", "mean"}, {"sums", 1}}};
       },
       "its metrics are not"},
      {[](auto& json) { json["inference"]["outputs"][0][1] = "net/none"; }, "has no value 'net/none'"},
      {[](auto& json) { json["inference"]["inputs"][0][1] = "net/dense/bias"; }, "is no placeholder"},
      {[](auto& json) { json["inference"]["inputs"] = nlohmann::json::array(); }, "at least one input"},
      {[](auto& json) { json["training"]["outputs"][0][1] = "net/dense/matmul"; }, "than each other"},
      {[](auto& json) { json["training"]["text_bytes"] = 3; }, "lengths"},
      {[](auto& json) { json["files"][1]["name"] = "../../w"; }, "it lists no weights.safetensors"},
      {[](auto& json) { json["files"][1]["bytes"] = 5; }, "bytes, not 5"},
      {[](auto& json) {
         json["inference"]["objective"] = {
             {"nodes_before", 1},
             {"values_before", 0},
             {"outputs", nlohmann::json::array({nlohmann::json::array({"loss", "input"})})}};
       },
       "the place where the objective begins"}};
  for (const auto& [change, message] : changes) {
    save(0.5F);
    change_facts(change);
    EXPECT_THAT(read(), HasSubstr(message));
  }
  write_all(file(kModelFacts), std::string(100'000, '[') + std::string(100'000, ']'));
  EXPECT_THAT(read(), HasSubstr("truncated or damaged"));
}

// Found when the model is read, not when its graph is built.
TEST_F(DamagedModels, APassThatReadsWhatItIsNotGivenIsRefused) {
  ModelSpec spec = tiny_spec();
  spec.targets = {{"labels", {DType::I32, {Dim::batch()}}}};
  spec.objective = [](const NamedTensors& outputs, const NamedTensors& targets) {
    return Objective{ops::sparse_cross_entropy(outputs.only(), targets.only())};
  };
  const model::TracedModel traced = model::trace(spec);
  const std::vector<weights::StoredTensor> tensors = list_weights(traced);
  save_model(path(), spec, traced, source(tensors, 0.5F));
  ASSERT_EQ(read(), "no error");
  change_facts([](nlohmann::json& json) {
    for (const char* pass : {"inference", "training"}) json[pass]["outputs"][0][1] = "net/dense/matmul";
  });
  EXPECT_THAT(read(), HasSubstr("reads 'net/dense_1/matmul', which is neither made in its pass nor an input of it"));
}

TEST_F(DamagedModels, GraphsThatNoModelHasAreRefused) {
  ASSERT_EQ(read_changed([](std::string text) { return text; }), "no error");
  const char* const kLast = "net/dense_1/matmul";
  EXPECT_THAT(read_with_line(fmt::format("net/y = frobnicate({})", kLast)), HasSubstr("'frobnicate' is unknown"));
  for (const char* op : {"relu_grad", "adam", "assign", "fused", "clear", "conv2d_input_grad"})
    EXPECT_THAT(read_with_line(fmt::format("net/y = {}({})", op, kLast)), HasSubstr("is no part of a model")) << op;
  EXPECT_THAT(read_with_line("backward\nnet/y = relu(net/dense_1/matmul)"), HasSubstr("backward pass"));
  EXPECT_THAT(read_with_line("variable net/m f32[4] optimiser constant(0)"), HasSubstr("belongs to an optimiser"));
  EXPECT_THAT(read_with_line("variable m f32[4] weight constant(0)"), HasSubstr("is not within 'net/'"));
  EXPECT_THAT(read_with_line("placeholder more f32[B]"), HasSubstr("are not its inputs and targets"));
  EXPECT_THAT(read_with_line("placeholder more f32[4611686018427387904,4]"),
              HasSubstr("too many to count their bytes"));
  EXPECT_THAT(read_with_line("variable net/w f32[2000000,2000000] weight constant(0)"), HasSubstr("too large"));
  EXPECT_THAT(read_with_line("net/y = tile(net/dense_1/matmul) times=[1,4611686018427387904]"), HasSubstr("64 bits"));
  EXPECT_THAT(read_with_line("net/y = slice(net/dense_1/matmul) axis=1 count=9223372036854775807 first=1 step=1"),
              HasSubstr("graph.txt' is no model"));
  EXPECT_THAT(read_with_line("net/y = relu(net/nothing)"), HasSubstr("no value 'net/nothing'"));
  EXPECT_THAT(read_with_line("variable net/more f32[4] weight constant(0)"), HasSubstr("has no tensor 'net/more'"));
  EXPECT_THAT(read_with_line("net/y = batch_norm_statistics(net/batch_norm/gamma, net/batch_norm/variance, "
                             "net/batch_norm/beta, net/batch_norm/beta) momentum=0.9"),
              HasSubstr("updates 'net/batch_norm/gamma', which is no statistic"));
  EXPECT_THAT(read_changed([](std::string text) {
                text.replace(text.find("f32[5,4]"), 8, "f32[5,6]");
                return text;
              }),
              HasSubstr("graph.txt' is no model"));
}

class SavedModels : public DamagedModels {
 protected:
  std::string save_error(const std::string& name, float number = 1) const {
    try {
      save(number, name);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
};

TEST_F(SavedModels, TakeThePlaceOfModelsAndOfNothingElse) {
  const std::string before = read_all(file(kModelWeights));
  save(2);
  EXPECT_NE(read_all(file(kModelWeights)), before);
  EXPECT_EQ(entries(), 1U) << "the old model is gone, and nothing is left beside";
  fs::create_directory(path("empty"));
  EXPECT_EQ(save_error("empty"), "no error");
  EXPECT_EQ(read("empty"), "no error");
  write_all(path("file"), "mine");
  EXPECT_THAT(save_error("file"), HasSubstr("is there and is no directory"));
  EXPECT_EQ(read_all(path("file")), "mine");
  fs::create_directory(path("mine"));
  write_all(path("mine") + "/a", "b");
  EXPECT_THAT(save_error("mine"), HasSubstr("holds 'a', which is no file of a model"));
  EXPECT_EQ(read_all(path("mine") + "/a"), "b");
  // A model directory with a file of another kind in it.
  write_all(file("notes.txt"), "mine");
  EXPECT_THAT(save_error("net", 3), HasSubstr("holds 'notes.txt'"));
  EXPECT_EQ(read(), "no error");
  EXPECT_THAT(save_error("missing/net"), HasSubstr("can't be written to"));
  EXPECT_THAT(save_error(""), HasSubstr("holds"));
  // Through a link, and with a slash.
  fs::create_directory_symlink(path("empty"), path("link"));
  EXPECT_EQ(save_error("link", 5), "no error");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(save_error("slash/"), "no error");
  EXPECT_EQ(read("slash"), "no error");
}

TEST_F(SavedModels, StayAsTheyWereWhenASaveFails) {
  const std::string before = read_all(file(kModelWeights));
  const model::TracedModel traced = model::trace(tiny_spec());
  const std::vector<weights::StoredTensor> tensors = list_weights(traced);
  WeightsSource failing{weights::list_of(tensors), [](const weights::StoredTensor&, const weights::PutBytes&) {
                          throw Error("not finite", ErrorKind::BadNumbers);
                        }};
  EXPECT_THROW(save_model(path(), tiny_spec(), traced, failing), Error);
  ModelSpec odd = tiny_spec();
  odd.preprocessing.class_names = {"\xff"};
  EXPECT_THROW(save_model(path(), odd, traced, source(tensors, 1)), Error);
  EXPECT_EQ(read_all(file(kModelWeights)), before);
  EXPECT_EQ(entries(), 1U);
  EXPECT_EQ(read(), "no error");
}

// As a full disk: no file may have more than so many bytes.
TEST_F(SavedModels, StayAsTheyWereOnAFullDisk) {
  const std::string before = read_all(file(kModelWeights));
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  for (const rlim_t most : {rlim_t{100}, rlim_t{700}}) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{most, limit.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    try {
      save(4);
      ADD_FAILURE() << "it was saved";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::DiskFull) << e.what();
    }
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, SIG_DFL);
  }
  EXPECT_EQ(read_all(file(kModelWeights)), before);
  EXPECT_EQ(entries(), 1U);
}

// What a killed process left, and what a running one writes.
TEST_F(SavedModels, LeavingsGoAndOtherWritersStay) {
  fs::create_directory(path(".net.begun"));
  write_all(path(".net.begun") + "/graph.txt", "half");
  save(2);
  EXPECT_FALSE(fs::exists(path(".net.begun")));
  const ModelFolder other(path());
  EXPECT_THAT(save_error("net"), HasSubstr("another process saves a model"));
}

}  // namespace
}  // namespace plimsoll::store

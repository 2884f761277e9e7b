#include "weights/weights_file.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/ops.h"
#include "support/error_of.h"
#include "support/file_size_limit.h"
#include "support/forced.h"

namespace plimsoll::weights {
namespace {

using namespace ops;

using testing::error_of;
using ::testing::HasSubstr;
using testing::make_engine;

// A convolution keeps its filter in a layout of its own; the file holds it row-major.
struct Net {
  Graph graph;
  Tensor y;
  Net() {
    const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 16, 4, 4});
    const Tensor k = graph.variable("k", DType::F32, {16, 16, 3, 3}, Init::normal(0, 1));
    const Tensor b = graph.variable("b", DType::F32, {16}, Init::normal(0, 1));
    graph.variable("steps", DType::I64, {}, Init::constant(7), VariableRole::Optimiser);
    y = conv2d(x, k, b, Window::padded(1));
  }
};

std::vector<std::byte> value_of(session::Engine& session, Graph& graph, const char* name) {
  const auto view = session.peek(graph.find(name));
  return {view.begin(), view.end()};
}

class WeightsFile : public ::testing::Test {
 protected:
  std::string path = ::testing::TempDir() + "weights_" + std::to_string(::getpid());
  Net net;
  MemoryLine line;
  session::Engine session = make_engine(net.graph, line, {{{net.y}, {}, 2}});
  ~WeightsFile() override { std::filesystem::remove(path); }
};

TEST_F(WeightsFile, GivesBackWhatWasSaved) {
  save_weights(session, net.graph, path);
  const auto k = value_of(session, net.graph, "k");
  const auto steps = value_of(session, net.graph, "steps");
  Net other;
  MemoryLine other_line;
  SessionOptions options;
  options.seed = 99;
  session::Engine again = make_engine(other.graph, other_line, {{{other.y}, {}, 2}}, options);
  EXPECT_NE(value_of(again, other.graph, "k"), k);
  load_weights(again, other.graph, path);
  EXPECT_EQ(value_of(again, other.graph, "k"), k);
  EXPECT_EQ(value_of(again, other.graph, "steps"), steps);
  std::vector<StoredTensor> stored;
  WeightsReader(path).for_each([&](const StoredTensor& tensor) { stored.push_back(tensor); });
  ASSERT_EQ(stored.size(), 3U);
  EXPECT_EQ(stored[0].name, "steps");  // wider elements come first
  EXPECT_EQ(stored[1].name, "k");
  EXPECT_EQ(stored[1].dims, (Dims{16, 16, 3, 3}));
}

TEST_F(WeightsFile, PartsHoldWhatIsTheirsAndMakeAWhole) {
  session.set_step_count(5);
  const std::string state = path + ".state";
  std::string watched;
  const auto watch = [&](std::span<const std::byte> bytes) {
    watched.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  save_weights(session, net.graph, path, {.part = WeightsPart::Model, .watch = watch});
  save_weights(session, net.graph, state, {.part = WeightsPart::Optimiser});
  std::ifstream file(path, std::ios::binary);
  EXPECT_EQ(watched, std::string(std::istreambuf_iterator<char>(file), {}));
  EXPECT_LE(static_cast<Bytes>(watched.size()), weights_file_bytes(net.graph, WeightsPart::Model));
  EXPECT_EQ(WeightsReader(path).tensors(), 2);
  EXPECT_EQ(WeightsReader(state).tensors(), 1);

  const auto k = value_of(session, net.graph, "k");
  const int64_t other = 9;
  session.set(net.graph.find("steps"), &other, sizeof other);
  session.fill(net.graph.find("k"), [](void* into, Bytes, Bytes bytes) { std::memset(into, 0, size_t(bytes)); });
  session.set_step_count(0);
  load_weights(session, net.graph, path, WeightsPart::Model);
  EXPECT_EQ(value_of(session, net.graph, "k"), k);
  EXPECT_EQ(session.step_count(), 5);
  int64_t steps = 0;
  session.get(net.graph.find("steps"), &steps, sizeof steps);
  EXPECT_EQ(steps, 9);
  EXPECT_EQ(load_weights(session, net.graph, state, WeightsPart::Optimiser).state, 1);
  session.get(net.graph.find("steps"), &steps, sizeof steps);
  EXPECT_EQ(steps, 7);
  EXPECT_THAT(error_of([&] { load_weights(session, net.graph, path, WeightsPart::Optimiser); }),
              HasSubstr("has no tensor 'steps': it belongs to another optimiser"));
  EXPECT_THAT(error_of([&] { load_weights(session, net.graph, state, WeightsPart::Model); }),
              HasSubstr("has no tensor 'k': it belongs to another model"));
  std::filesystem::remove(state);
}

// Drop-out draws by the number of the step: training that goes on must not draw the masks of the first steps again.
TEST_F(WeightsFile, TheNumberOfStepsGoesOn) {
  session.set_step_count(41);
  save_weights(session, net.graph, path);
  session.set_step_count(0);
  load_weights(session, net.graph, path);
  EXPECT_EQ(session.step_count(), 41);
}

TEST_F(WeightsFile, AFailedSaveKeepsTheOldFileAndLeavesNothingElse) {
  save_weights(session, net.graph, path);
  const auto size = std::filesystem::file_size(path);
  EXPECT_THROW(save_weights(session, net.graph, "/no/such/folder/w"), Error);
  EXPECT_EQ(std::filesystem::file_size(path), size);
  for (const auto& entry : std::filesystem::directory_iterator(::testing::TempDir()))
    EXPECT_EQ(entry.path().string().find(path + "."), std::string::npos) << entry.path();
}

TEST_F(WeightsFile, EveryTruncationIsRefused) {
  save_weights(session, net.graph, path);
  const auto size = static_cast<Bytes>(std::filesystem::file_size(path));
  for (Bytes keep = 0; keep < size; keep += size / 41) {
    std::filesystem::resize_file(path, static_cast<uintmax_t>(keep));
    EXPECT_THAT(error_of([&] { load_weights(session, net.graph, path); }), HasSubstr(path)) << keep;
    save_weights(session, net.graph, path);
  }
}

TEST_F(WeightsFile, RefusesWhatIsDamagedOrOfAnotherModel) {
  const auto write = [&](const std::string& header, const std::string& data) {
    std::ofstream file(path, std::ios::binary);
    const uint64_t size = header.size();
    file.write(reinterpret_cast<const char*>(&size), 8);
    file << header << data;
  };
  const auto refusal = [&] { return error_of([&] { load_weights(session, net.graph, path); }); };
  write("nonsense", "");
  EXPECT_THAT(refusal(), HasSubstr("not a JSON object"));
  write(R"({"k":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", "1234");
  EXPECT_THAT(refusal(), HasSubstr("unknown type F99"));
  write(R"({"k":{"dtype":"F32","shape":[1],"data_offsets":[0,400]}})", "1234");
  EXPECT_THAT(refusal(), HasSubstr("does not lie within the file"));
  write(R"({"k":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", "1234");
  EXPECT_THAT(refusal(), HasSubstr("does not lie within the file"));
  write(R"({"k":{"shape":[1]}})", "1234");
  EXPECT_THAT(refusal(), HasSubstr("is damaged"));
  write(R"({"k":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "1234");
  EXPECT_THAT(refusal(), HasSubstr("tensor 'k' is f32[1] but the model has f32[16,16,3,3]"));
  write(R"({"__metadata__":{"steps":"12x"}})", "");
  EXPECT_THAT(refusal(), HasSubstr("its number of training steps is damaged"));
  write("{}", "");
  EXPECT_THAT(refusal(), HasSubstr("belongs to another model"));
}

// Elements of 8, 4 and 2 bytes in an order that would leave them unaligned.
TEST_F(WeightsFile, WritesEveryTensorAligned) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 3});
  graph.variable("half", DType::BF16, {3}, Init::zeros(), VariableRole::Optimiser);
  const Tensor w = graph.variable("w", DType::F32, {3}, Init::normal(0, 1));
  graph.variable("step", DType::I64, {}, Init::zeros(), VariableRole::Optimiser);
  const Tensor out = mul(x, w);
  MemoryLine own_line;
  session::Engine own = make_engine(graph, own_line, {{{out}, {}, 1}});
  save_weights(own, graph, path);
  load_weights(own, graph, path);
  EXPECT_EQ(WeightsReader(path).tensors(), 3);
}

TEST_F(WeightsFile, ADamagedFileChangesNothing) {
  session.set_step_count(5);
  save_weights(session, net.graph, path);
  const auto k = value_of(session, net.graph, "k");
  std::vector<float> zeros(16 * 16 * 9);
  session.set(net.graph.find("k"), zeros.data(), static_cast<Bytes>(zeros.size() * 4));
  session.set_step_count(9);
  std::ofstream(path, std::ios::binary | std::ios::app) << "x";
  EXPECT_THAT(error_of([&] { load_weights(session, net.graph, path); }), HasSubstr("1 bytes follow"));
  EXPECT_NE(value_of(session, net.graph, "k"), k);
  EXPECT_EQ(session.step_count(), 9);
}

TEST_F(WeightsFile, WeightsThatAreNotFiniteAreNotSaved) {
  save_weights(session, net.graph, path);
  const auto size = std::filesystem::file_size(path);
  std::vector<float> b(16, 1.0F);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    b[7] = bad;
    session.set(net.graph.find("b"), b.data(), 64);
    try {
      save_weights(session, net.graph, path);
      ADD_FAILURE() << "saved " << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::BadNumbers);
      EXPECT_THAT(e.what(), HasSubstr("'b'"));
    }
  }
  EXPECT_EQ(std::filesystem::file_size(path), size);
  load_weights(session, net.graph, path);
}

TEST_F(WeightsFile, ATargetIsRefusedBeforeTraining) {
  EXPECT_EQ(error_of([&] { expect_room_for_weights(net.graph, path); }), "no error");
  EXPECT_EQ(error_of([&] { expect_room_for_weights(net.graph, "/dev/null"); }), "no error");
  EXPECT_THAT(error_of([&] { expect_room_for_weights(net.graph, ::testing::TempDir()); }), HasSubstr("a directory"));
  const testing::FileSizeLimit limit(1000);
  EXPECT_THAT(error_of([&] { expect_room_for_weights(net.graph, path); }), HasSubstr("ulimit -f"));
}

}  // namespace
}  // namespace plimsoll::weights

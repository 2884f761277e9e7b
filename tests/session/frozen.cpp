// Frozen weights in fewer bits: the numbers are those of the rounded weights, and steps
// never write them to the scratch file.
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include <plimsoll/optimiser.h>
#include "session/engine.h"
#include "support/disk_folder.h"
#include "support/error_of.h"
#include "weights/weights_file.h"

namespace plimsoll::session {
namespace {

using testing::DiskFolder;
using testing::error_of;

// Words through a table, two frozen layers with a trained one between them, and the same table as the last layer.
struct WordNet {
  static constexpr int64_t kWords = 20000, kWidth = 128, kBatch = 6;
  Graph graph;
  Tensor words, labels, table, first, trained, last, loss;
  Updates updates;
  std::vector<int32_t> numbers, targets;

  WordNet() {
    words = graph.placeholder("words", DType::I32, {Dim::batch(), 3});
    labels = graph.placeholder("labels", DType::I32, {Dim::batch(), 3});
    const auto matrix = [&](const char* name, int64_t rows) {
      return graph.variable(name, DType::F32, {rows, kWidth}, Init::normal(0, 0.1));
    };
    table = matrix("table", kWords);
    first = matrix("first", kWidth);
    trained = matrix("trained", kWidth);
    last = matrix("last", kWidth);
    Tensor x = gather(table, words);
    x = gelu(dense(x, first, {}));
    x = gelu(dense(x, trained, {}));
    x = dense(x, last, {});
    loss = linear_cross_entropy(x, table, labels, true);
    const Tensor weights[] = {trained};
    updates = minimize(loss, Optimiser::adam(), weights);
    for (int64_t i = 0; i < 3 * kBatch; ++i) {
      numbers.push_back(static_cast<int32_t>(i * 37 % kWords));
      targets.push_back(static_cast<int32_t>(i * 91 % kWords));
    }
  }
  std::vector<Request> requests() const { return {{{loss}, updates.nodes, kBatch}, {{loss}, {}, kBatch}}; }
  float step(Engine& session, size_t number = 0) {
    const Feed feeds[] = {{words, numbers}, {labels, targets}};
    return session.run_step(number, feeds)[0].item<float>();
  }
};

std::vector<float> values_of(Engine& session, Tensor variable) {
  std::vector<float> values(static_cast<size_t>(element_count(variable.shape()).count()));
  session.get(variable, values.data(), static_cast<Bytes>(values.size() * sizeof(float)));
  return values;
}

Bytes need_of(WordNet& net, const SessionOptions& options) {
  MemoryLine none(1);
  try {
    const Engine session(net.graph, none, net.requests(), options);
  } catch (const DoesNotFit& e) {
    return e.refusal().need;
  }
  return -1;
}

class FrozenType : public ::testing::TestWithParam<DType> {};

// Five steps with packed weights, and the same with the rounded weights in f32.
TEST_P(FrozenType, GivesTheBitsOfTheRoundedWeights) {
  WordNet net;
  MemoryLine line(GiB);
  SessionOptions options{.seed = 3};
  Engine wide(net.graph, line, net.requests(), options);
  options.frozen_type = GetParam();
  Engine packed(net.graph, line, net.requests(), options);
  wide.open();
  packed.open();
  EXPECT_EQ(values_of(packed, net.trained), values_of(wide, net.trained)) << "what is trained stays f32";
  for (const Tensor& frozen : {net.table, net.first, net.last}) {
    const std::vector<float> rounded = values_of(packed, frozen);
    EXPECT_NE(rounded, values_of(wide, frozen));
    wide.set(frozen, rounded.data(), static_cast<Bytes>(rounded.size() * sizeof(float)));
  }
  for (int i = 0; i < 5; ++i) EXPECT_EQ(net.step(packed), net.step(wide)) << i;
  EXPECT_EQ(net.step(packed, 1), net.step(wide, 1));
  EXPECT_EQ(values_of(packed, net.trained), values_of(wide, net.trained));
}

TEST_P(FrozenType, TakesLess) {
  WordNet net;
  SessionOptions options;
  const Bytes wide = need_of(net, options);
  options.frozen_type = GetParam();
  const Bytes weights = (WordNet::kWords + 2 * WordNet::kWidth) * WordNet::kWidth * 4;
  // Codes have scales. One layer, or 2 MiB of the table, is f32 for a moment.
  const Bytes saved = weights * (GetParam() == DType::I8 ? 70 : 45) / 100;
  EXPECT_LT(need_of(net, options), wide - saved + 2 * MiB + 2 * WordNet::kWidth * WordNet::kWidth * 4);
}

TEST_P(FrozenType, IsTheSameUnderEveryLine) {
  WordNet net;
  SessionOptions options{.frozen_type = GetParam()};
  MemoryLine open(GiB);
  Engine whole(net.graph, open, net.requests(), options);
  options.levers.micro_batch = false;  // sums are added in another order there
  MemoryLine tight(need_of(net, options));
  Engine small(net.graph, tight, net.requests(), options);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(net.step(small), net.step(whole)) << i;
}

TEST_P(FrozenType, IsSavedAndLoadedAsF32) {
  WordNet net;
  const DiskFolder folder;
  const std::string path = static_cast<const std::string&>(folder) + "/weights.safetensors";
  MemoryLine line(GiB);
  SessionOptions options{.seed = 3, .frozen_type = GetParam()};
  Engine session(net.graph, line, net.requests(), options);
  net.step(session);
  weights::save_weights(session, net.graph, path);
  options.seed = 4;
  Engine other(net.graph, line, net.requests(), options);
  other.open();
  EXPECT_NE(values_of(other, net.table), values_of(session, net.table));
  weights::load_weights(other, net.graph, path);
  for (const Tensor& variable : {net.table, net.first, net.last, net.trained})
    EXPECT_EQ(values_of(other, variable), values_of(session, variable)) << "packed again, it is the same";
  EXPECT_EQ(net.step(other), net.step(session));
}

TEST(Frozen, APackedVariableIsNotPeekedAt) {
  WordNet net;
  MemoryLine line(GiB);
  Engine session(net.graph, line, net.requests(), SessionOptions{.frozen_type = DType::I8});
  EXPECT_EQ(error_of([&] { session.peek(net.table); }),
            "variable 'table' is kept in i8; get it into memory of your own");
}

// Bytes that this process has written since it began.
Bytes written_bytes() {
  std::ifstream file("/proc/self/io");
  std::string word;
  Bytes value = 0;
  while (file >> word >> value)
    if (word == "wchar:") return value;
  return -1;
}

// One trained layer before many frozen ones, all of which a step reads forwards and backwards.
struct DeepNet {
  static constexpr int64_t kWidth = 256;
  static constexpr int kLayers = 16;
  Graph graph;
  Tensor x, loss;
  Updates updates;
  DeepNet() {
    x = graph.placeholder("x", DType::F32, {Dim::batch(), kWidth});
    Tensor y = x;
    std::vector<Tensor> weights;
    for (int i = 0; i < kLayers; ++i) {
      weights.push_back(
          graph.variable("w" + std::to_string(i), DType::F32, {kWidth, kWidth}, Init::glorot_uniform(kWidth, kWidth)));
      y = relu(dense(y, weights.back(), {}));
    }
    loss = reduce_mean(y);
    updates = minimize(loss, Optimiser::adam(), std::span(weights).first(1));
  }
  std::vector<Request> requests() const { return {{{loss}, updates.nodes, 2}}; }
  float step(Engine& session) const {
    const std::vector<float> numbers(2 * kWidth, 0.5F);
    const Feed feeds[] = {{x, numbers}};
    return session.run_step(0, feeds)[0].item<float>();
  }
};

Bytes need_of(DeepNet& net, const SessionOptions& options) {
  try {
    const Engine session(net.graph, MemoryLine(1), net.requests(), options);
  } catch (const DoesNotFit& e) {
    return e.refusal().need;
  }
  return -1;
}

TEST_P(FrozenType, IsTheSameFromAScratchFile) {
  DeepNet net;
  const DiskFolder folder;
  SessionOptions options{.frozen_type = GetParam()};
  const MemoryLine open(GiB);
  Engine whole(net.graph, open, net.requests(), options);
  options.scratch_folder = folder;
  options.disk_limit = GiB;
  const MemoryLine tight(need_of(net, options));
  Engine spilling(net.graph, tight, net.requests(), options);
  EXPECT_FALSE(spilling.steps().front().plan.stored.empty());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(net.step(spilling), net.step(whole)) << i;
}

// The trained layer and its state are a sixteenth of what is read: nothing else is written by a step. The frozen layers
// are written once, when the session opens.
TEST(Frozen, IsReadFromTheScratchFileButNeverWrittenToIt) {
  DeepNet net;
  const DiskFolder folder;
  SessionOptions options;
  options.scratch_folder = folder;
  options.disk_limit = GiB;
  const MemoryLine line(need_of(net, options));
  Engine session(net.graph, line, net.requests(), options);
  const PlannedStep& step = session.steps().front();
  const Bytes layer = DeepNet::kWidth * DeepNet::kWidth * 4;
  EXPECT_GT(std::ssize(step.plan.stored), DeepNet::kLayers / 2) << "most layers are in the file";
  const Bytes before = written_bytes();
  session.open();
  const Bytes opened = written_bytes();
  constexpr Bytes kOfTheFileSystem = 64 * KiB;  // what it writes to make a file
  EXPECT_LE(opened - before, session.file_bytes() + kOfTheFileSystem) << "each variable once";
  constexpr int kSteps = 4;
  for (int i = 0; i < kSteps; ++i) net.step(session);
  // The trained weight, m and v, where they are stored; gradients and activations are small.
  EXPECT_LE(written_bytes() - opened, kSteps * 4 * layer);
}

INSTANTIATE_TEST_SUITE_P(Types, FrozenType, ::testing::Values(DType::BF16, DType::I8));

}  // namespace
}  // namespace plimsoll::session

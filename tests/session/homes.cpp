// Variables that live in the scratch file are read and written like others.
#include "session/homes.h"

#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include <plimsoll/optimiser.h>
#include "ops/ops.h"
#include "session/engine.h"
#include "support/disk_folder.h"

namespace plimsoll::session {
namespace {

using namespace lower;

// Dense layers whose state is far larger than what a step needs at once.
struct Net {
  static constexpr int64_t kWidth = 256;
  Graph graph;
  Tensor x, loss;
  Updates updates;
  Net() {
    x = graph.placeholder("x", DType::F32, {Dim::batch(), kWidth});
    Tensor y = x;
    for (int i = 0; i < 12; ++i)
      y = relu(dense(y, graph.variable("w" + std::to_string(i), DType::F32, {kWidth, kWidth},
                                       Init::glorot_uniform(kWidth, kWidth))));
    loss = reduce_mean(y);
    updates = minimize(loss, Optimiser::adam());
  }
  std::vector<Request> requests() const { return {{{loss}, updates.nodes, 2}}; }
};

Bytes smallest_line(Net& net, const SessionOptions& options) {
  MemoryLine none(1);
  try {
    const Engine session(net.graph, none, net.requests(), options);
  } catch (const DoesNotFit& e) {
    return e.refusal().need;
  }
  return -1;
}

class HomesTest : public ::testing::Test {
 protected:
  HomesTest() {
    options_.scratch_folder = folder_;
    options_.disk_limit = GiB;
  }
  // Of each kind: one in the file, one in memory (unset if there is none).
  void find(Engine& session, bool is_optimisers, Tensor* in_file, Tensor* in_memory) {
    const PlannedStep& step = session.steps().front();
    for (const Port& port : step.program.variables) {
      const bool fits = (net_.graph.body().variable_of(port.value).role() == VariableRole::Optimiser) == is_optimisers;
      if (!fits || port.type.bytes() < KiB) continue;
      const bool is_stored = std::binary_search(step.plan.stored.begin(), step.plan.stored.end(), port.buffer);
      *(is_stored ? in_file : in_memory) = Tensor(net_.graph, port.value);
    }
  }
  void expect_round_trips(Engine& session, Tensor variable) {
    const auto count = static_cast<size_t>(element_count(variable.shape()).count());
    const Bytes bytes = static_cast<Bytes>(count) * 4;
    std::vector<float> written(count), read(count);
    std::iota(written.begin(), written.end(), 1.0F);
    session.set(variable, written.data(), bytes);
    session.get(variable, read.data(), bytes);
    EXPECT_EQ(read, written);
    const auto seen = session.peek(variable);
    ASSERT_EQ(static_cast<Bytes>(seen.size()), bytes);
    EXPECT_EQ(std::memcmp(seen.data(), written.data(), seen.size()), 0);
    std::reverse(written.begin(), written.end());
    session.fill(variable, [&](void* into, Bytes, Bytes room) {
      ASSERT_EQ(room, bytes);
      std::memcpy(into, written.data(), static_cast<size_t>(bytes));
    });
    session.get(variable, read.data(), bytes);
    EXPECT_EQ(read, written);
  }

  const testing::DiskFolder folder_;
  Net net_;
  SessionOptions options_;
};

TEST_F(HomesTest, StoredVariablesAreReadAndWrittenLikeOthers) {
  MemoryLine line(smallest_line(net_, options_) + 512 * KiB);
  Engine session(net_.graph, line, net_.requests(), options_);
  ASSERT_GT(session.file_bytes(), 0);
  Tensor state, weight, ignored;
  find(session, true, &state, &ignored);
  find(session, false, &weight, &ignored);
  ASSERT_TRUE(state.is_set() || weight.is_set()) << "nothing is stored";
  for (const Tensor& variable : {state, weight})
    if (variable.is_set()) expect_round_trips(session, variable);
  if (ignored.is_set()) expect_round_trips(session, ignored);
}

TEST_F(HomesTest, NeighboursAreLeftAlone) {
  MemoryLine line(smallest_line(net_, options_) + 512 * KiB);
  Engine session(net_.graph, line, net_.requests(), options_);
  session.open();  // finalises the graph, whose lists may move then
  const auto all = [&] {
    std::vector<std::vector<std::byte>> values;
    for (const graph::Variable& variable : net_.graph.body().variables()) {
      const auto seen = session.peek({net_.graph, variable.value});
      values.emplace_back(seen.begin(), seen.end());
    }
    return values;
  };
  Tensor state, ignored;
  find(session, true, &state, &ignored);
  ASSERT_TRUE(state.is_set());
  const auto before = all();
  session.fill(state, [](void* into, Bytes, Bytes bytes) { std::memset(into, 1, static_cast<size_t>(bytes)); });
  const auto after = all();
  int64_t changed = 0;
  for (size_t i = 0; i < before.size(); ++i) changed += before[i] == after[i] ? 0 : 1;
  EXPECT_EQ(changed, 1);
}

// What is set is what the next step computes with, and what a step leaves is what is read.
TEST_F(HomesTest, StepsSeeWhatWasSet) {
  const auto train = [&](bool on_disk) {
    Net net;
    MemoryLine line(on_disk ? smallest_line(net, options_) + 512 * KiB : MemoryLine::kUnlimited);
    SessionOptions options = options_;
    if (!on_disk) options.scratch_folder.clear();
    options.levers.micro_batch = false;
    Engine session(net.graph, line, net.requests(), options);
    EXPECT_EQ(session.file_bytes() > 0, on_disk);
    const Tensor first = net.graph.find("w0");
    const std::vector<float> ones(Net::kWidth * Net::kWidth, 0.01F);
    session.set(first, ones.data(), static_cast<Bytes>(ones.size()) * 4);
    const std::vector<float> x(2 * Net::kWidth, 0.5F);
    const Feed feeds[] = {{net.x, x}};
    for (int i = 0; i < 2; ++i) session.run_step(0, feeds);
    const auto seen = session.peek(first);
    return std::vector<std::byte>(seen.begin(), seen.end());
  };
  EXPECT_TRUE(train(true) == train(false));
}

TEST_F(HomesTest, PlacesInTheFileDoNotOverlap) {
  MemoryLine line(smallest_line(net_, options_) + 512 * KiB);
  const Engine session(net_.graph, line, net_.requests(), options_);
  const PlannedStep& step = session.steps().front();
  Bytes file_bytes = 0;
  const std::vector<Bytes> places = Homes::place_in_file(step.program.problem, step.plan, &file_bytes);
  EXPECT_EQ(file_bytes, session.file_bytes());
  std::vector<std::pair<Bytes, Bytes>> stretches;
  for (size_t i = 0; i < places.size(); ++i)
    if (places[i] >= 0)
      stretches.emplace_back(
          places[i], places[i] + placed_bytes(step.program.problem.buffers[i], step.plan.micro_batches.front()));
  std::sort(stretches.begin(), stretches.end());
  ASSERT_FALSE(stretches.empty());
  for (size_t i = 0; i + 1 < stretches.size(); ++i) EXPECT_LE(stretches[i].second, stretches[i + 1].first);
  EXPECT_LE(stretches.back().second, file_bytes);
}

}  // namespace
}  // namespace plimsoll::session

#include "lower/tiles.h"

#include <gtest/gtest.h>

#include <plimsoll/optimiser.h>
#include "lower/run_once.h"
#include "ops/ops.h"

namespace plimsoll::lower {
namespace {

using namespace plan;

constexpr int64_t kTileFloats = kTileElements;

// A weight with state of an optimiser. Its gradient is x, repeated: one number for each row.
struct Net {
  Graph graph;
  Tensor x, w, loss;
  Updates updates;
  Net(int64_t rows, int64_t columns, const Optimiser& optimiser) {
    x = graph.placeholder("x", DType::F32, {rows, 1});
    w = graph.variable("w", DType::F32, {rows, columns}, Init::zeros());
    loss = reduce_sum(mul(w, x));
    updates = minimize(loss, optimiser);
  }
};

std::vector<int32_t> tiles_of(const Graph& graph, VariableRole role) {
  const std::vector<int32_t> tiles = count_tiles(graph.body());
  std::vector<int32_t> found;
  for (size_t i = 0; i < tiles.size(); ++i) {
    const graph::Variable& variable = graph.body().variables()[i];
    const bool is_single = element_count(graph.body().value(variable.value).type.shape) == Dim(1);  // a rate, a count
    if (variable.role() == role && !is_single) found.push_back(tiles[i]);
  }
  return found;
}

TEST(Tiles, OnlyLargeStateOfAnOptimiserIsCut) {
  const Net net(4, kTileFloats, Optimiser::adam());
  EXPECT_EQ(tiles_of(net.graph, VariableRole::Weight), std::vector<int32_t>{1});
  EXPECT_EQ(tiles_of(net.graph, VariableRole::Optimiser), (std::vector<int32_t>{4, 4}));
  const Net one_more(1, kTileFloats + 1, Optimiser::sgd(0.1, 0.9));
  EXPECT_EQ(tiles_of(one_more.graph, VariableRole::Optimiser), std::vector<int32_t>{2});
  const Net exact(1, kTileFloats, Optimiser::sgd(0.1, 0.9));
  EXPECT_EQ(tiles_of(exact.graph, VariableRole::Optimiser), std::vector<int32_t>{1});
}

TEST(Tiles, StateThatAnotherOperatorReadsStaysWhole) {
  Net net(2, kTileFloats, Optimiser::sgd(0.1, 0.9));
  for (const graph::Variable& variable :
       std::vector(net.graph.body().variables().begin(), net.graph.body().variables().end()))
    if (variable.role() == VariableRole::Optimiser && net.graph.body().value(variable.value).type == net.w.type())
      relu(Tensor(net.graph, variable.value));
  EXPECT_EQ(tiles_of(net.graph, VariableRole::Optimiser), std::vector<int32_t>{1});
}

TEST(Tiles, OfOneVariableFollowEachOther) {
  Net net(3, kTileFloats / 2 + 5, Optimiser::sgd(0.1, 0.9));
  VariableLayouts layouts;
  KernelStore kernels;
  const Program program = lower(net.graph.body(), std::vector{net.loss.id()}, net.updates.nodes, {}, layouts, kernels);
  int64_t cut = 0;
  for (const Port& port : program.variables) {
    Bytes bytes = 0;
    for (int32_t tile = 0; tile < port.tiles; ++tile) {
      const Buffer& buffer = program.problem.buffers[static_cast<size_t>(port.buffer + tile)];
      EXPECT_TRUE(tile + 1 == port.tiles || buffer.fixed_bytes == kTileElements * 4) << buffer.name;
      bytes += buffer.fixed_bytes;
    }
    EXPECT_EQ(bytes, port.type.bytes());
    cut += port.tiles > 1 ? 1 : 0;
  }
  EXPECT_EQ(cut, 1);
}

// velocity = momentum * velocity - rate * gradient; w += velocity: in every tile and across the borders of tiles.
TEST(Tiles, UpdateIsTheFormula) {
  constexpr int64_t kRows = 3;
  constexpr int64_t kColumns = kTileFloats / 2 + 5;
  constexpr float kMomentum = 0.5F;
  Net net(kRows, kColumns, Optimiser::sgd(0.1, kMomentum));
  const testing::Ran ran = testing::run_once(net.graph, {net.loss}, {}, net.updates.nodes);
  ValueId velocity = -1;
  for (const Port& port : ran.program.variables)
    if (port.tiles > 1) velocity = port.value;
  ASSERT_GE(velocity, 0);
  const float rate = testing::pattern(net.updates.learning_rate.id(), 0);
  const std::vector<float>& v = ran.variables.at(velocity);
  const std::vector<float>& w = ran.variables.at(net.w.id());
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    const float gradient = testing::pattern(net.x.id(), i / kColumns);
    const float expected = kMomentum * testing::pattern(velocity, i) - rate * gradient;
    ASSERT_NEAR(v[static_cast<size_t>(i)], expected, 1e-6) << i;
    ASSERT_NEAR(w[static_cast<size_t>(i)], testing::pattern(net.w.id(), i) + expected, 1e-6) << i;
  }
}

}  // namespace
}  // namespace plimsoll::lower

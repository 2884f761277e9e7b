// Losses and weights are bit for bit the same under every line, as long as the plan only places, reorders, recomputes
// or spills.
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "laws/models.h"
#include "model/training.h"
#include "session/engine.h"
#include "support/disk_folder.h"
#include "support/forced.h"

namespace plimsoll {
namespace {

using namespace plan;

using testing::Case;
using testing::random_values;
using testing::small;

struct Result {
  std::vector<float> losses;
  std::vector<std::vector<std::byte>> variables;
  Bytes line_used = 0;
  Exactness exactness = Exactness::BitIdentical;
};

struct Way {
  SessionOptions session = {};
  Optimiser optimiser = Optimiser::adam();
};

// An engine as asked for: the reference for what a line may not change, also where a mode is forced.
session::Engine make_plain(Graph& graph, MemoryLine& line, const std::vector<session::Request>& requests,
                           const SessionOptions& options) {
  return session::Engine(graph, line, requests, options);
}

// Five steps under a line; the losses and every variable after them.
Result train(const Case& c, Bytes bytes, const Way& way, decltype(make_plain)& make = make_plain) {
  const ModelSpec spec = find_model(c.model, c.options);
  Graph graph;
  const model::TrainingGraph training = model::build_training(graph, spec, way.optimiser);
  MemoryLine line(bytes);
  session::Engine session = make(graph, line, {{{training.loss}, training.updates.nodes, c.batch}}, way.session);
  const auto input = random_values(spec.input(), c.batch, spec.classes);
  const auto labels = random_values(spec.labels(), c.batch, spec.classes);
  const Feed feeds[] = {{training.input(), spec.input().dtype, input.data(), static_cast<Bytes>(input.size())},
                        {training.labels(), spec.labels().dtype, labels.data(), static_cast<Bytes>(labels.size())}};
  Result result;
  for (int step = 0; step < 5; ++step) result.losses.push_back(session.run_step(0, feeds)[0].floats()[0]);
  for (const graph::Variable& variable : graph.body().variables()) {
    const auto view = session.peek({graph, variable.value});
    result.variables.emplace_back(view.begin(), view.end());
  }
  result.line_used = line.peak();
  result.exactness = session.steps()[0].plan.exactness;
  return result;
}

class SameNumbers : public ::testing::TestWithParam<Case> {};

Bytes find_smallest(const Case& c, const Way& way) {
  try {
    train(c, 1024, way);
  } catch (const DoesNotFit& e) {
    return e.refusal().need;
  }
  ADD_FAILURE() << "a line of 1 KiB was accepted";
  return 0;
}

// Lines from the smallest that works up to the room that is used without one.
template <class Compare>
void for_lines(const Case& c, const Way& way, std::initializer_list<double> shares, const Compare& compare) {
  const Result free = train(c, MemoryLine::kUnlimited, way);
  for (const float loss : free.losses) ASSERT_TRUE(std::isfinite(loss));
  EXPECT_NE(free.losses.front(), free.losses.back()) << "nothing was trained";
  const Bytes smallest = find_smallest(c, way);
  ASSERT_LE(smallest, free.line_used);
  for (const double share : shares) {
    const Bytes line = smallest + static_cast<Bytes>(share * static_cast<double>(free.line_used - smallest));
    const Result tight = train(c, line, way);
    SCOPED_TRACE(format_bytes(line) + " of " + format_bytes(free.line_used));
    EXPECT_LE(tight.line_used, line);
    compare(free, tight);
  }
}

void expect_identical(const Result& free, const Result& tight) {
  ASSERT_EQ(tight.exactness, Exactness::BitIdentical);
  EXPECT_EQ(tight.losses, free.losses);
  EXPECT_TRUE(tight.variables == free.variables);
}

TEST_P(SameNumbers, UnderEveryLine) {
  Way way;
  way.session.levers.micro_batch = false;
  for_lines(GetParam(), way, {0.0, 0.1, 0.25, 0.5, 0.75}, expect_identical);
}

TEST_P(SameNumbers, WithoutMasks) {
  Way way;
  const Result with = train(GetParam(), MemoryLine::kUnlimited, way);
  way.session.masks = false;
  expect_identical(with, train(GetParam(), MemoryLine::kUnlimited, way));
}

// In the mode that PLIMSOLL_TEST_MODE names, against the same steps without a line.
TEST_P(SameNumbers, InTheForcedMode) {
  constexpr float kTolerance = 2e-3F;
  const Way way;
  const Result free = train(GetParam(), MemoryLine::kUnlimited, way);
  const Result forced = train(GetParam(), MemoryLine::kUnlimited, way, testing::make_engine);
  if (testing::keeps_bits()) return expect_identical(free, forced);
  for (size_t i = 0; i < free.losses.size(); ++i)
    EXPECT_NEAR(forced.losses[i], free.losses[i], kTolerance * std::abs(free.losses[i])) << "step " << i;
}

TEST_P(SameNumbers, WithAScratchFile) {
  Way way;
  way.session.levers.micro_batch = false;
  const testing::DiskFolder folder;
  way.session.scratch_folder = folder;
  way.session.disk_limit = GiB;
  for_lines(GetParam(), way, {0.0, 0.1, 0.4}, expect_identical);
  way.session.levers.recompute = false;
  for_lines(GetParam(), way, {0.0, 0.4}, expect_identical);
}

// How far two vectors are apart, as a share of the first one's length.
double distance(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  double apart = 0, length = 0;
  for (size_t i = 0; i + sizeof(float) <= a.size(); i += sizeof(float)) {
    float x = 0, y = 0;
    std::memcpy(&x, a.data() + i, sizeof x);
    std::memcpy(&y, b.data() + i, sizeof y);
    apart += (static_cast<double>(x) - y) * (static_cast<double>(x) - y);
    length += static_cast<double>(x) * x;
  }
  return std::sqrt(apart / std::max(length, 1e-30));
}

// Sums over micro-batches round differently. Losses agree and, where the update is linear in the gradient, all
// variables.
TEST_P(SameNumbers, InPartsWithinTolerance) {
  constexpr double kWeights = 1e-4, kLosses = 1e-4;
  Way way;
  way.session.levers.recompute = false;
  way.optimiser = Optimiser::sgd(0.01, 0.9);
  for_lines(GetParam(), way, {0.0, 0.25, 0.6}, [&](const Result& free, const Result& tight) {
    if (tight.exactness == Exactness::BitIdentical) return expect_identical(free, tight);
    ASSERT_EQ(tight.exactness, Exactness::WithinTolerance);
    for (size_t i = 0; i < free.losses.size(); ++i)
      EXPECT_NEAR(tight.losses[i], free.losses[i], kLosses * std::abs(free.losses[i])) << "step " << i;
    for (size_t i = 0; i < free.variables.size(); ++i)
      EXPECT_LE(distance(free.variables[i], tight.variables[i]), kWeights) << "variable " << i;
  });
}

// Adam divides by the root of squares, so where a gradient is near zero a weight may move by a fraction of the learning
// rate; the losses show that nothing else differs.
TEST_P(SameNumbers, InPartsWithAdam) {
  constexpr float kTolerance = 2e-3F;
  Way way;
  way.session.levers.recompute = false;
  for_lines(GetParam(), way, {0.0, 0.25, 0.6}, [&](const Result& free, const Result& tight) {
    if (tight.exactness == Exactness::BitIdentical) return expect_identical(free, tight);
    ASSERT_EQ(tight.exactness, Exactness::WithinTolerance);
    EXPECT_FLOAT_EQ(tight.losses[0], free.losses[0]);
    for (size_t i = 0; i < free.losses.size(); ++i)
      EXPECT_NEAR(tight.losses[i], free.losses[i], kTolerance * std::abs(free.losses[i])) << "step " << i;
  });
}

INSTANTIATE_TEST_SUITE_P(Models, SameNumbers,
                         ::testing::Values(Case{"mlp", "mlp", {}, 32}, Case{"lenet", "lenet", {}, 16},
                                           Case{"fashion", "fashion", {}, 16},
                                           Case{"resnet18", "resnet18", small(64, 10), 4},
                                           Case{"unet", "unet", small(32, {}), 2},
                                           Case{"bert", "bert-base", small({}, 500, 32, 4, 0.1), 2},
                                           Case{"gpt2", "gpt2-small", small({}, 500, 32, 4, 0.1), 2}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace plimsoll

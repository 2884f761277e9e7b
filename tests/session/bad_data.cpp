#include "session/bad_data.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <plimsoll/optimiser.h>
#include "ops/ops.h"
#include "session/engine.h"
#include "support/forced.h"

namespace plimsoll::session {
namespace {

using namespace kernels;
using namespace plan;

using ::testing::HasSubstr;
using testing::make_engine;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// What an action threw: kind and sentence.
template <class Action>
std::pair<ErrorKind, std::string> thrown(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
  return {ErrorKind::General, "no error"};
}

struct Classifier {
  Graph graph;
  Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 8});
  Tensor labels = graph.placeholder("labels", DType::I32, {Dim::batch()});
  Tensor w = graph.variable("w", DType::F32, {8, 4}, Init::glorot_uniform(8, 4));
  Tensor loss = sparse_cross_entropy(matmul(relu(matmul(x, hidden())), w), labels, "loss");
  Updates updates = minimize(loss, Optimiser::sgd(0.1));
  Tensor hidden() { return graph.variable("hidden", DType::F32, {8, 8}, Init::glorot_uniform(8, 8)); }
};

TEST(BadData, ALabelOutsideOfTheClassesIsNamed) {
  for (const int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    Classifier net;
    MemoryLine line;
    Engine session = make_engine(net.graph, line, {{{net.loss}, net.updates.nodes, 6}});
    const std::vector<float> x(48, 0.5F);
    std::vector<int32_t> labels{0, 1, 2, 7, 1, -1};
    const Feed feeds[] = {{net.x, x}, {net.labels, labels}};
    const auto [kind, what] = thrown([&] { session.run_step(0, feeds); });
    EXPECT_EQ(kind, ErrorKind::BadData);
    EXPECT_EQ(what, "sparse_cross_entropy 'loss': label 7 of sample 3 of the batch is not in [0, 4)");
    // The weights are as if the sample had not been there, and the next step is as good as any.
    std::vector<float> w(32);
    session.get(net.w, w.data(), 128);
    for (const float number : w) EXPECT_TRUE(std::isfinite(number));
    EXPECT_EQ(session.step_count(), 1);
    labels = {0, 1, 2, 3, 1, 0};
    EXPECT_TRUE(std::isfinite(session.run_step(0, feeds)[0].floats()[0]));
    labels[5] = -1;
    std::vector<int64_t> times(session.steps()[0].plan.actions.size());
    EXPECT_THAT(thrown([&] { session.run_timed(0, feeds, times); }).second,
                HasSubstr("label -1 of sample 5 of the batch"));
  }
  omp_set_num_threads(omp_get_num_procs());
}

// The step does not compute the loss: the kernel of its gradient finds the label.
TEST(BadData, TheGradientAloneNamesIt) {
  Classifier net;
  MemoryLine line;
  Engine session = make_engine(net.graph, line, {{{}, net.updates.nodes, 2}});
  const std::vector<float> x(16, 0.5F);
  const std::vector<int32_t> labels{0, 4};
  const Feed feeds[] = {{net.x, x}, {net.labels, labels}};
  const auto [kind, what] = thrown([&] { session.run_step(0, feeds); });
  EXPECT_EQ(kind, ErrorKind::BadData);
  EXPECT_THAT(what, HasSubstr("label 4 of sample 1 of the batch is not in [0, 4)"));
}

// Tokens through an embedding to a loss over the same words, as language models have them.
struct Words {
  Graph graph;
  Tensor tokens = graph.placeholder("tokens", DType::I32, {Dim::batch(), 5});
  Tensor labels = graph.placeholder("labels", DType::I32, {Dim::batch(), 5});
  Tensor table = graph.variable("table", DType::F32, {11, 64}, Init::normal(0, 1));
  Tensor wide = graph.variable("wide", DType::F32, {64, 512}, Init::normal(0, 0.1));
  Tensor narrow = graph.variable("narrow", DType::F32, {512, 64}, Init::normal(0, 0.1));
  Tensor hidden = matmul(relu(matmul(gather(table, tokens, "words"), wide)), narrow);
  Tensor loss = linear_cross_entropy(hidden, table, labels, true, "loss");
  Updates updates = minimize(loss, Optimiser::adam(0.01));
};

std::string run_words(Bytes bytes, int64_t batch, size_t bad_token, size_t bad_label, std::string* how) {
  Words net;
  MemoryLine line(bytes);
  Engine session = make_engine(net.graph, line, {{{net.loss}, net.updates.nodes, batch}});
  for (const Decision& decision : session.steps().front().plan.decisions) *how += decision.what + ". ";
  const auto count = static_cast<size_t>(batch) * 5;
  std::vector<int32_t> tokens(count, 3), labels(count, 5);
  if (bad_token < count) tokens[bad_token] = 1'000'000'000;
  if (bad_label < count) labels[bad_label] = 11;
  const Feed feeds[] = {{net.tokens, tokens}, {net.labels, labels}};
  const auto [kind, what] = thrown([&] { session.run_step(0, feeds); });
  EXPECT_EQ(kind, ErrorKind::BadData) << what;
  for (const graph::Variable& variable : net.graph.body().variables()) {
    const Tensor tensor(net.graph, variable.value);
    if (tensor.dtype() != DType::F32) continue;
    std::vector<float> numbers(static_cast<size_t>(element_count(tensor.shape()).fixed()));
    session.get(tensor, numbers.data(), static_cast<Bytes>(numbers.size() * 4));
    for (const float number : numbers)
      if (!std::isfinite(number)) return std::string(tensor.name()) + " is not finite";
  }
  return what;
}

TEST(BadData, TokensAndLabelsOfASequenceHaveAPosition) {
  std::string how;
  EXPECT_EQ(run_words(MemoryLine::kUnlimited, 4, 13, 99, &how),
            "gather 'words': row 1000000000 of sample 2 of the batch, position 3, is not in [0, 11)");
  EXPECT_EQ(run_words(MemoryLine::kUnlimited, 4, 99, 7, &how),
            "linear_cross_entropy 'loss': label 11 of sample 1 of the batch, position 2, is not in [0, 11)");
}

TEST(BadData, SamplesAreThoseOfTheBatchInMicroBatches) {
  std::string wide, narrow;
  const std::string expected =
      "linear_cross_entropy 'loss': label 11 of sample 61 of the batch, position 4, is not in [0, 11)";
  EXPECT_EQ(run_words(MemoryLine::kUnlimited, 64, 999, 309, &wide), expected);
  Bytes smallest = 0;
  try {
    run_words(KiB, 64, 999, 309, &narrow);
  } catch (const DoesNotFit& refusal) {
    smallest = refusal.refusal().need;
  }
  EXPECT_EQ(run_words(smallest, 64, 999, 309, &narrow), expected);
  EXPECT_THAT(narrow, HasSubstr("micro-batches")) << wide;
}

TEST(BadData, TheFirstNumberThatIsNotFiniteIsFound) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 3});
  const Tensor y = graph.placeholder("y", DType::F32, {2});
  const Tensor half = graph.placeholder("half", DType::BF16, {Dim::batch()});
  const Tensor labels = graph.placeholder("labels", DType::I32, {Dim::batch()});
  std::vector<float> numbers(6000, 1);
  const std::vector<int32_t> whole(2000, 0x7fc00000);  // the bits of a NaN, but a number
  const Feed good[] = {{labels, whole}, {x, numbers}};
  EXPECT_FALSE(find_bad_number(good));
  numbers[4003] = kNaN;
  numbers[5000] = INFINITY;
  const auto found = find_bad_number(good);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->input, "x");
  EXPECT_EQ(found->sample, 1334);
  EXPECT_EQ(found->element, 1);
  EXPECT_TRUE(std::isnan(found->value));
  const std::vector<float> fixed{0, -INFINITY};
  const Feed without_samples[] = {{y, fixed}};
  EXPECT_EQ(find_bad_number(without_samples)->sample, -1);
  EXPECT_EQ(find_bad_number(without_samples)->element, 1);
  const std::vector<int16_t> halves{0x3f80, 0x7f80};
  const Feed narrow[] = {{half, DType::BF16, halves.data(), 4}};
  EXPECT_EQ(find_bad_number(narrow)->sample, 1);
}

TEST(BadData, ABadLossIsBlamedOnTheDataOrOnTheStep) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 3});
  std::vector<float> numbers(6, 1);
  const Feed feeds[] = {{x, numbers}};
  const auto blame = [&] { return thrown([&] { throw_bad_loss(NAN, feeds, "at step 3", "try a smaller rate"); }); };
  EXPECT_EQ(blame().first, ErrorKind::BadNumbers);
  EXPECT_EQ(blame().second, "the loss became nan at step 3 though the data is finite; try a smaller rate");
  numbers[4] = INFINITY;
  EXPECT_EQ(blame().first, ErrorKind::BadData);
  EXPECT_EQ(blame().second, "'x' has inf in sample 1 of the batch (element 1) at step 3; the loss became nan from it");
}

}  // namespace
}  // namespace plimsoll::session

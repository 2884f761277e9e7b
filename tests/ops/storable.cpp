// The claim `storable`: whatever the shapes and settings in the text of a graph, an operator refuses them, or its
// kernel writes what is its own and nothing else. The graphs are those of the samples, with a few numbers changed.
#include <cctype>
#include <stdexcept>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "base/random.h"
#include "graph/text.h"
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace plimsoll::testing {
namespace {

constexpr int64_t kBatch = 2;
constexpr graph::TextLimits kLimits{.lines = 1000, .elements = int64_t{1} << 40};

const Op* find_storable(std::string_view name) {
  const Op* op = ops::find_op(name);
  return op != nullptr && op->storable ? op : nullptr;
}

std::string with_changed_numbers(const std::string& text, uint64_t seed) {
  constexpr std::string_view kNumbers[] = {"0", "1", "2", "3", "4", "5", "7", "8", "9", "-1", "16", "B", "65536"};
  std::string changed = text;
  std::vector<size_t> digits;
  for (size_t i = changed.find('\n'); i < changed.size(); ++i)
    if (std::isdigit(static_cast<unsigned char>(changed[i])) != 0 &&
        std::isalpha(static_cast<unsigned char>(changed[i - 1])) == 0)
      digits.push_back(i);
  if (digits.empty()) return text;
  const auto draw = [&](size_t below) { return static_cast<size_t>((seed = mix_bits(seed + 1)) % below); };
  for (size_t changes = 1 + draw(3); changes > 0; --changes)
    changed.replace(digits[draw(digits.size())], 1, kNumbers[draw(std::size(kNumbers))]);
  return changed;
}

bool is_small(const Graph& graph) {
  for (const graph::Value& value : graph.body().values())
    if (element_count(value.type.shape).count() > 20'000) return false;
  return true;
}

// Throws Error when the text is refused, and std::runtime_error when a kernel writes where it must not.
void run_text(const std::string& text) {
  Graph graph;
  graph::parse_graph(text, find_storable, graph, kLimits);
  if (!is_small(graph)) return;
  Evaluator evaluator(graph, kBatch);
  for (size_t i = 0; i < graph.body().values().size(); ++i) {
    const graph::Value& value = graph.body().values()[i];
    if (value.kind != graph::ValueKind::Placeholder && value.kind != graph::ValueKind::Variable) continue;
    const auto id = static_cast<ValueId>(i);
    evaluator.set(id, sample_contents(value.type, std::string(graph.body().name(value)), 0, 3, kBatch));
  }
  evaluator.run();
}

class StorableTest : public ::testing::TestWithParam<const Op*> {};

TEST_P(StorableTest, RunsOrRefusesAnyNumbers) {
  int accepted = 0;
  for (const ops::Sample& sample : GetParam()->samples()) {
    Graph graph;
    ops::SampleBuilder builder(graph);
    sample.build(builder);
    const std::string text = to_string(graph);
    for (uint64_t round = 0; round < 60; ++round) {
      const std::string changed = round == 0 ? text : with_changed_numbers(text, mix_bits(hash_text(text), round));
      SCOPED_TRACE(changed);
      try {
        run_text(changed);
        ++accepted;
      } catch (const Error&) {
        // refused
      } catch (const std::exception& e) {
        FAIL() << e.what();
      }
    }
  }
  EXPECT_GT(accepted, 0);
}

std::vector<const Op*> storable_ops() {
  std::vector<const Op*> all;
  for (const Op* op : ops::all_ops())
    if (op->storable && op->samples != nullptr) all.push_back(op);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Ops, StorableTest, ::testing::ValuesIn(storable_ops()),
                         [](const auto& info) { return std::string(info.param->name); });

TEST(Storable, GradientsAndUpdatesAreNot) {
  for (const Op* op : ops::all_ops()) {
    if (!op->storable) continue;
    EXPECT_TRUE(op->traits.updates == 0 || op->traits.statistics) << op->name;
    EXPECT_EQ(op->fusion.gradient_of, nullptr) << op->name;
  }
}

}  // namespace
}  // namespace plimsoll::testing

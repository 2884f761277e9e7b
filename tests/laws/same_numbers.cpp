// Law 2: whatever the line, as long as a plan only places, reorders, recomputes or spills, losses and weights come out
// bit for bit the same.
#include <cmath>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "model/training.h"
#include "session/fit.h"
#include "session/session.h"

namespace plimsoll {
namespace {

struct Case {
  const char* name;
  const char* model;
  ModelOptions options;
  int64_t batch;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<std::byte> random_values(const TensorType& type, int64_t batch, int64_t classes) {
  std::mt19937 random(7);
  const int64_t count = element_count(type.shape).at(batch);
  std::vector<std::byte> bytes(static_cast<size_t>(count * size_of(type.dtype)));
  for (int64_t i = 0; i < count; ++i) {
    if (type.dtype == DType::F32) {
      const float value = static_cast<float>(random() % 1000) / 1000;
      std::memcpy(bytes.data() + i * 4, &value, 4);
    } else {
      const auto value = static_cast<int32_t>(random() % static_cast<uint64_t>(classes));
      std::memcpy(bytes.data() + i * 4, &value, 4);
    }
  }
  return bytes;
}

struct Result {
  std::vector<float> losses;
  std::vector<std::vector<std::byte>> variables;
  Bytes line_used = 0;
  Exactness exactness = Exactness::BitIdentical;
};

// Five steps under a line; the losses and every variable after them.
Result train(const Case& c, Bytes bytes) {
  const ModelSpec spec = find_model(c.model, c.options);
  Graph graph;
  const TrainingGraph training = build_training(graph, spec, Optimiser::adam());
  MemoryLine line(bytes);
  Session session(graph, line, {{{training.loss}, training.updates.nodes, c.batch}});
  const auto input = random_values(spec.input, c.batch, spec.classes);
  const auto labels = random_values(spec.labels, c.batch, spec.classes);
  const Feed feeds[] = {{training.input, input.data(), static_cast<Bytes>(input.size())},
                        {training.labels, labels.data(), static_cast<Bytes>(labels.size())}};
  Result result;
  for (int step = 0; step < 5; ++step) result.losses.push_back(session.run_step(0, feeds)[0].floats()[0]);
  for (const Variable& variable : graph.variables()) {
    const auto view = session.peek({graph, variable.value});
    result.variables.emplace_back(view.begin(), view.end());
  }
  result.line_used = line.peak();
  result.exactness = session.steps()[0].plan.exactness;
  return result;
}

class SameNumbers : public ::testing::TestWithParam<Case> {};

TEST_P(SameNumbers, UnderEveryLine) {
  const Result free = train(GetParam(), MemoryLine::kUnlimited);
  for (const float loss : free.losses) ASSERT_TRUE(std::isfinite(loss));
  EXPECT_NE(free.losses.front(), free.losses.back()) << "nothing was trained";
  Bytes smallest = 0;
  try {
    train(GetParam(), 1024);
    FAIL() << "a line of 1 KiB was accepted";
  } catch (const DoesNotFit& e) {
    smallest = e.fit().need;
  }
  ASSERT_LE(smallest, free.line_used);
  for (const double share : {0.0, 0.1, 0.25, 0.5, 0.75}) {
    const Bytes line = smallest + static_cast<Bytes>(share * static_cast<double>(free.line_used - smallest));
    const Result tight = train(GetParam(), line);
    SCOPED_TRACE(format_bytes(line) + " of " + format_bytes(free.line_used));
    ASSERT_EQ(tight.exactness, Exactness::BitIdentical);
    EXPECT_LE(tight.line_used, line);
    EXPECT_EQ(tight.losses, free.losses);
    EXPECT_TRUE(tight.variables == free.variables);
  }
}

ModelOptions options(std::optional<int64_t> image, std::optional<int64_t> classes, std::optional<int64_t> sequence = {},
                     std::optional<int64_t> layers = {}, std::optional<double> dropout = {}) {
  ModelOptions o;
  o.image_size = image;
  o.classes = classes;
  o.sequence = sequence;
  o.layers = layers;
  o.dropout = dropout;
  return o;
}

INSTANTIATE_TEST_SUITE_P(Models, SameNumbers,
                         ::testing::Values(Case{"mlp", "mlp", {}, 32}, Case{"lenet", "lenet", {}, 16},
                                           Case{"fashion", "fashion", {}, 16},
                                           Case{"resnet18", "resnet18", options(64, 10), 4},
                                           Case{"unet", "unet", options(32, {}), 2},
                                           Case{"bert", "bert-base", options({}, 500, 32, 4, 0.1), 2},
                                           Case{"gpt2", "gpt2-small", options({}, 500, 32, 4, 0.1), 2}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace plimsoll

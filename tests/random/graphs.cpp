// Random graphs against the laws of sessions: gradients are right, bits do not depend on line, levers or threads, plans
// are valid and kept, and the line that a refusal names works.
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include <plimsoll/optimiser.h>
#include "base/random.h"
#include "plan/check/check.h"
#include "random/graph_maker.h"
#include "session/engine.h"
#include "support/disk_folder.h"

namespace plimsoll::testing {
namespace {

using Bits = std::vector<std::byte>;

// A graph with numbers for its inputs, and the steps that laws are about.
struct RandomStep {
  RandomStep(Choices& c, Slope worst) : maker(graph, c, worst) {
    batch = c.pick({1, 2, 3, 4, 5, 7, 16, 48});
    maker.make();
    for (const GraphMaker::Input& input : maker.inputs) numbers.push_back(numbers_of(input));
  }

  Bits numbers_of(const GraphMaker::Input& input) const {
    const TensorType type = input.placeholder.type();
    const int64_t count = element_count(type.shape).at(batch);
    Bits bytes(static_cast<size_t>(count * size_of(type.dtype)));
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t drawn = mix_bits(static_cast<uint64_t>(input.placeholder.id()), static_cast<uint64_t>(i));
      const float real = static_cast<float>(unit_real(drawn) * 2 - 1);
      const auto whole = static_cast<int32_t>(drawn % static_cast<uint64_t>(std::max<int64_t>(1, input.below)));
      if (size_of(type.dtype) == 1)
        bytes[static_cast<size_t>(i)] = static_cast<std::byte>(whole);
      else
        std::memcpy(bytes.data() + i * 4, type.dtype == DType::F32 ? static_cast<const void*>(&real) : &whole, 4);
    }
    return bytes;
  }

  std::vector<Feed> feeds() const {
    std::vector<Feed> all;
    for (size_t i = 0; i < numbers.size(); ++i)
      all.emplace_back(maker.inputs[i].placeholder, maker.inputs[i].placeholder.dtype(), numbers[i].data(),
                       static_cast<Bytes>(numbers[i].size()));
    return all;
  }
  // Only those that the step of that number reads.
  float run(session::Engine& engine, size_t step) const {
    const auto all = feeds();
    return engine.run_step(step, all)[0].floats()[0];
  }

  Graph graph;
  GraphMaker maker;
  int64_t batch = 1;
  std::vector<Bits> numbers;
};

// --- gradients

// The loss, moved by `way` along `direction` from where the variable is.
float moved_loss(const RandomStep& s, session::Engine& engine, Tensor weight, const std::vector<float>& at,
                 const std::vector<float>& direction, double way) {
  std::vector<float> there = at;
  for (size_t i = 0; i < at.size(); ++i) there[i] += static_cast<float>(way * direction[i]);
  const auto bytes = static_cast<Bytes>(at.size() * sizeof(float));
  engine.set(weight, there.data(), bytes);
  const float loss = s.run(engine, 1);
  engine.set(weight, at.data(), bytes);
  return loss;
}

// Moves a random half of the weight along its gradient. Empty where the slope is too small to be measured.
std::string why_not_slope(const RandomStep& s, session::Engine& engine, Tensor weight,
                          const std::vector<float>& gradient, float loss, uint64_t half, bool& is_measured) {
  std::vector<float> at(gradient.size()), direction(gradient.size());
  engine.get(weight, at.data(), static_cast<Bytes>(at.size() * sizeof(float)));
  double length = 0;
  for (size_t i = 0; i < gradient.size(); ++i) {
    if (mix_bits(half, i) % 2 == 0) direction[i] = gradient[i];
    length += static_cast<double>(direction[i]) * direction[i];
  }
  length = std::sqrt(length);
  if (length == 0) return "";
  for (float& d : direction) d = static_cast<float>(d / length);
  const double noise = 1e-6 * std::max(1.0, std::abs(static_cast<double>(loss)));
  std::string measured;
  double before = INFINITY, bend = INFINITY;  // the slope of the step before, and how far the last slopes are apart
  for (const double way : {0.3, 0.1, 0.03, 0.01, 0.003, 0.001}) {
    if (2 * way * length < 100 * noise) break;
    const double up = (moved_loss(s, engine, weight, at, direction, way) - loss) / way;
    const double down = (loss - moved_loss(s, engine, weight, at, direction, -way)) / way;
    // At a kink the gradient is the slope of one side.
    for (const double slope : {(up + down) / 2, up, down})
      if (std::abs(slope - length) < 0.02 * length + 2 * noise / way) {
        is_measured = true;
        return "";
      }
    measured += fmt::format(" {:.5g} and {:.5g} (moved by {})", up, down, way);
    bend = std::max(std::abs(up - down), std::abs((up + down) / 2 - before));
    before = (up + down) / 2;
  }
  // Where the loss bends, what is steep enough to be measured is no answer.
  if (!(bend < 0.1 * std::max(length, std::abs(before)))) return "";
  is_measured = true;
  return fmt::format("slope {:.5g}, measured{}", length, measured);
}

void expect_gradients(Choices& c, Slope worst) {
  RandomStep s(c, worst);
  const std::vector<Tensor> weights = s.maker.weights;
  const std::vector<Gradient> sums = gradients(s.maker.loss, weights);
  std::vector<Tensor> fetches{s.maker.loss};
  for (const Gradient& sum : sums)
    if (sum.is_set() && !sum.is_sparse()) fetches.push_back(sum.value);
  c.note(to_string(s.graph));
  MemoryLine line;
  session::Engine engine(s.graph, line, {{fetches, {}, s.batch}, {{s.maker.loss}, {}, s.batch}});
  const auto views = engine.run_step(0, s.feeds());
  const float loss = views[0].floats()[0];
  if (!std::isfinite(loss)) return c.count("loss not finite");
  std::vector<std::vector<float>> values;
  for (size_t i = 1; i < views.size(); ++i) values.emplace_back(views[i].floats().begin(), views[i].floats().end());
  size_t next = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!sums[i].is_set() || sums[i].is_sparse()) continue;
    const std::vector<float>& gradient = values[next++];
    for (const uint64_t half : {1, 2}) {
      bool is_measured = false;
      const std::string why = why_not_slope(s, engine, weights[i], gradient, loss, half, is_measured);
      c.count(is_measured ? "slopes measured" : "slopes too small");
      if (!why.empty())
        throw Violation("gradients are those of finite differences", fmt::format("{}: {}", weights[i].name(), why));
    }
  }
}

TEST(RandomGraphs, HaveTheGradientsOfFiniteDifferences) {
  expect_law({200, 0.125, 120, 60}, [](Choices& c) { expect_gradients(c, Slope::Smooth); });
}

TEST(RandomGraphs, HaveTheGradientsOfFiniteDifferencesBesideKinks) {
  expect_law({60, 0.0625, 120, 60}, [](Choices& c) { expect_gradients(c, Slope::Kinked); });
}

// --- lines, levers, threads

struct Trained {
  std::vector<float> losses;
  std::vector<Bits> variables;
  Bytes planned = 0;
  bool is_exact = true;
};

class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;
  ~ThreadCount() { omp_set_num_threads(before_); }

 private:
  int before_;
};

Trained train(RandomStep& s, const Updates& updates, Bytes bytes, const SessionOptions& options, int threads) {
  const ThreadCount scope(threads);
  MemoryLine line(bytes);
  session::Engine engine(s.graph, line, {{{s.maker.loss}, updates.nodes, s.batch}}, options);
  const session::PlannedStep& step = engine.steps()[0];
  const std::string fault = plan::check(step.program.problem, step.plan, step.limits);
  if (!fault.empty()) throw Violation("check accepts every plan", fault);
  Trained result;
  result.is_exact = step.plan.exactness == plan::Exactness::BitIdentical;
  result.planned = engine.peak_bytes();
  for (int i = 0; i < 3; ++i) result.losses.push_back(s.run(engine, 0));
  for (const graph::Variable& variable : s.graph.body().variables()) {
    const auto view = engine.peek({s.graph, variable.value});
    result.variables.emplace_back(view.begin(), view.end());
  }
  // The peak of the line also counts what planning held back and did not need.
  const Bytes used = line.used() - line.used(Tag::Staging);
  if (used > result.planned)
    throw Violation("measured is at most planned", fmt::format("{} of {} bytes", used, result.planned));
  if (line.peak() > bytes) throw Violation("the line is kept", fmt::format("{} of {} bytes", line.peak(), bytes));
  return result;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void expect_same(const RandomStep& s, const Trained& free, const Trained& tight, const std::string& where) {
  if (!tight.is_exact) {
    for (size_t i = 0; i < free.losses.size(); ++i)
      if (std::abs(tight.losses[i] - free.losses[i]) > 0.02 * std::max(0.1F, std::abs(free.losses[i])))
        throw Violation("micro-batches change no more than rounding",
                        fmt::format("{}: loss {} is {}, not {}", where, i, tight.losses[i], free.losses[i]));
    return;
  }
  if (!same_bits(tight.losses, free.losses))
    throw Violation("losses have the same bits",
                    fmt::format("{}: {} {} {}, not {} {} {}", where, tight.losses[0], tight.losses[1], tight.losses[2],
                                free.losses[0], free.losses[1], free.losses[2]));
  for (size_t i = 0; i < free.variables.size(); ++i)
    if (tight.variables[i] != free.variables[i])
      throw Violation("weights have the same bits",
                      fmt::format("{}: {}", where, s.graph.body().variables()[i].stored->name));
}

Optimiser draw_optimiser(Choices& c) {
  Optimiser optimiser =
      c.pick({Optimiser::sgd(0.05), Optimiser::adam(0.01), Optimiser::sgd(0.02, 0.9, true), Optimiser::adamw(0.01),
              Optimiser::rmsprop(0.01, 0.9, 0.5, true), Optimiser::lion(0.001), Optimiser::adafactor(0.01)});
  const auto clip = c.below(4);
  if (clip == 1) optimiser.clip_norm = 0.5;
  if (clip == 2) optimiser.clip_value = 0.1;
  if (clip == 3) optimiser.global_clip_norm = 0.5;
  if (optimiser.name() != "adafactor" && c.chance(15)) optimiser.state_bits = 16;
  return optimiser;
}

SessionOptions draw_options(Choices& c, const std::string& folder) {
  SessionOptions options;
  Levers& levers = options.levers;
  levers.micro_batch = false;
  for (bool* const lever : {&levers.order, &levers.in_place, &levers.variants, &levers.recompute, &levers.spill})
    if (c.chance(15)) *lever = false;
  options.masks = !c.chance(15);
  if (c.chance(40)) {
    options.scratch_folder = folder;
    options.disk_limit = GiB;
  }
  return options;
}

// What the refusal of a tiny line says is needed: the line that it names is this, rounded up to quarters of a MiB,
// which is more than most of these graphs take.
Bytes needed_line(RandomStep& s, const Updates& updates, const SessionOptions& options, int threads) {
  try {
    train(s, updates, 64, options, threads);
  } catch (const DoesNotFit& e) {
    if (e.refusal().smallest_line < e.refusal().need)
      throw Violation("the named line is what is needed, rounded up", e.what());
    return e.refusal().need;
  }
  throw Violation("a tiny line is refused", "64 bytes were accepted");
}

void expect_laws_of_lines(Choices& c) {
  const DiskFolder folder;
  RandomStep s(c, Slope::None);
  const Updates updates = minimize(s.maker.loss, draw_optimiser(c));
  c.note(to_string(s.graph));
  SessionOptions plain;
  if (c.chance(15)) plain.policy = c.pick({Policy::stored_bfloat16(), Policy::mixed_bfloat16()});
  const Trained free = train(s, updates, MemoryLine::kUnlimited, plain, 1);
  if (!std::ranges::all_of(free.losses, [](float loss) { return std::isfinite(loss); }))
    return c.count("loss not finite");
  for (int i = 0; i < 3; ++i) {
    const Choices::Part part(c);
    SessionOptions options = draw_options(c, folder);
    options.policy = plain.policy;
    if (i == 2) {
      options.levers.micro_batch = true;
      options.levers.recompute = options.levers.spill = c.chance(30);
    }
    const int threads = static_cast<int>(c.between(1, 3));
    const Bytes smallest = needed_line(s, updates, options, threads);
    const auto room = static_cast<uint64_t>(std::max<Bytes>(1, free.planned - smallest));
    const Bytes line = c.chance(40) ? smallest : smallest + static_cast<Bytes>(c.below(64) * room / 64);
    const std::string where = fmt::format(
        "line {} of {}, {} threads, levers {}{}{}{}{}{}, masks {}, scratch {}", line, free.planned, threads,
        +options.levers.order, +options.levers.in_place, +options.levers.variants, +options.levers.recompute,
        +options.levers.micro_batch, +options.levers.spill, options.masks, !options.scratch_folder.empty());
    c.note(where);
    try {
      const Trained tight = train(s, updates, line, options, threads);
      expect_same(s, free, tight, where);
      c.count(tight.is_exact ? "exact plans" : "plans in micro-batches");
    } catch (const DoesNotFit& e) {
      throw Violation("a line of what is needed is accepted", fmt::format("{}: {}", where, e.what()));
    }
  }
}

TEST(RandomGraphs, KeepBitsAndLines) { expect_law({120, 0.25, 120, 60}, expect_laws_of_lines); }

// --- the generator itself

TEST(RandomGraphs, DrawEveryFunction) {
  std::set<std::string_view> drawn, known;
  for (const OpRule& rule : op_rules()) drawn.insert(rule.function);
  for (const ops::Function& function : ops::functions()) known.insert(function.name);
  EXPECT_EQ(drawn, known) << "op_rules.cpp has a line for each function of <plimsoll/ops.inc>";
}

}  // namespace
}  // namespace plimsoll::testing

// The worker of bench/eager: training loops as eager code and the same steps in a session, by turns in one process, and
// what recording an operator costs. The last line it prints is a JSON object.
#include <omp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <iostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <plimsoll/plimsoll.h>

using namespace plimsoll;

namespace {

using Net = std::function<Tensor(Tensor x)>;

struct Case {
  Dims input;
  Model net;
};

Tensor transformer(Tensor x) {
  for (int i = 0; i < 4; ++i) {
    const Scope scope(x.graph(), "block" + std::to_string(i));
    x = x + layers::multi_head_attention(layers::layer_norm(x, {}, "norm1"), 4, {}, "attention");
    x = x + layers::dense(gelu(layers::dense(layers::layer_norm(x, {}, "norm2"), 1024, {}, "up")), 256, {}, "down");
  }
  return layers::dense(reduce_mean(x, {1}), 10, {}, "head");
}

Case find_case(const std::string& name) {
  if (name == "mlp")
    return {{128, 784},
            sequential({layers::dense(512, {.activation = "relu"}), layers::dense(512, {.activation = "relu"}),
                        layers::dense(10)},
                       "mlp")};
  if (name == "lenet")
    return {{128, 1, 28, 28},
            sequential({layers::conv2d(6, 5, {.padding = 2, .activation = "relu"}), layers::max_pool(),
                        layers::conv2d(16, 5, {.activation = "relu"}), layers::max_pool(), layers::flatten(),
                        layers::dense(120, {.activation = "relu"}), layers::dense(84, {.activation = "relu"}),
                        layers::dense(10)},
                       "lenet")};
  return {{8, 128, 256}, Model("transformer", [](Tensor x, bool) { return transformer(x); })};
}

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  return times[times.size() / 2];
}

std::vector<double> time_steps(const std::function<void()>& step, double seconds) {
  std::vector<double> times;
  const double start = now_ms();
  for (double before = start; before - start < seconds * 1e3 || times.size() < 5;) {
    step();
    const double now = now_ms();
    times.push_back(now - before);
    before = now;
  }
  return times;
}

// Nanoseconds to record one operator of a short chain that is never looked at meanwhile.
double recording_ns(Eager& eager) {
  constexpr int kOperators = 1000;
  std::vector<double> rounds;
  const Tensor one = full({16}, 1);
  for (int round = 0; round < 20; ++round) {
    Tensor x = one;
    const double before = now_ms();
    for (int i = 0; i < kOperators; ++i) x = x + one;
    rounds.push_back((now_ms() - before) * 1e6 / kOperators);
    eager.run();
  }
  return median(rounds);
}

}  // namespace

int main(int argc, char** argv) {
  std::string name = "mlp", memory;
  double seconds = 2;
  int threads = 2, rounds = 3;
  CLI::App app;
  app.add_option("case", name);
  app.add_option("--seconds", seconds);
  app.add_option("--rounds", rounds);
  app.add_option("--threads", threads);
  app.add_option("--memory", memory, "a line for the eager loop");
  CLI11_PARSE(app, argc, argv);
  omp_set_num_threads(threads);

  const Case chosen = find_case(name);
  const int64_t batch = chosen.input[0];
  std::vector<float> images(static_cast<size_t>(element_count(chosen.input)));
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i * 7919 % 1000) / 1000;
  std::vector<int32_t> labels(static_cast<size_t>(batch));
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(i % 10);

  MemoryLine line(memory.empty() ? MemoryLine::kUnlimited : parse_bytes(memory));
  Eager eager(line);
  const Optimiser adam = Optimiser::adam();
  float eager_loss = 0, session_loss = 0;
  const auto eager_step = [&] {
    const Tensor x = tensor(images, chosen.input), y = tensor(labels, {batch});
    Tape tape;
    const Tensor loss = sparse_cross_entropy(chosen.net(x, true), y);
    const std::vector<Tensor> weights = chosen.net.weights();
    adam.apply(tape.gradient(loss, weights), weights);
    eager_loss = loss.item<float>();
  };

  Graph graph;
  Shape shape{Dim::batch()};
  for (int i = 1; i < chosen.input.rank(); ++i) shape.push_back(chosen.input[i]);
  const Tensor x = graph.placeholder<float>("x", shape);
  const Tensor y = graph.placeholder<int32_t>("y", {Dim::batch()});
  const Tensor loss = sparse_cross_entropy(chosen.net(x, true), y);
  MemoryLine other;
  SessionOptions options;
  options.seed = 1;
  Session session(graph, other, options);
  Step step = session.step({.fetch = {loss}, .update = minimize(loss, adam), .batch = batch});
  const auto session_step = [&] { session_loss = step({{x, images}, {y, labels}})[0].item<float>(); };

  // The same forward pass as a traced function and as a step of the session.
  const auto traced = function([&](Tensor in) { return chosen.net(in, false); });
  std::vector<float> function_out, session_out;
  const auto function_step = [&] { function_out = traced(tensor(images, chosen.input)).to_vector<float>(); };
  Step forward = session.step({.fetch = {chosen.net(x, false)}, .batch = batch});
  const auto forward_step = [&] {
    const auto results = forward({{x, images}});
    const std::span<const float> numbers = results[0].floats();
    session_out.assign(numbers.begin(), numbers.end());
  };

  for (int i = 0; i < 3; ++i) {
    eager_step();
    session_step();
    function_step();
    forward_step();
  }
  const bool same = eager_loss == session_loss, same_forward = function_out == session_out;
  const std::array<std::function<void()>, 4> steps{eager_step, session_step, function_step, forward_step};
  std::array<std::vector<double>, 4> ms;
  for (int round = 0; round < rounds; ++round)
    for (size_t i = 0; i < steps.size(); ++i) {
      const std::vector<double> times = time_steps(steps[i], seconds);
      ms[i].insert(ms[i].end(), times.begin(), times.end());
    }
  const nlohmann::json result{{"case", name},
                              {"eager_ms", median(ms[0])},
                              {"session_ms", median(ms[1])},
                              {"same_losses", same},
                              {"function_ms", median(ms[2])},
                              {"session_forward_ms", median(ms[3])},
                              {"same_forward", same_forward},
                              {"recording_ns", recording_ns(eager)},
                              {"plans", eager.facts().plans},
                              {"line_peak", line.peak()}};
  std::cout << result.dump() << '\n';
}

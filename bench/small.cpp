// The worker of the script small: a stored model answers one sample at a time in a process of its own.
//
//   bench_small make MODEL FOLDER    writes MODEL-f32 and MODEL-int8 there: initial weights, random images
//   bench_small run DIRECTORY        the last line that it prints is a JSON object
#include <omp.h>

#include <chrono>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <plimsoll/plimsoll.h>
#include "base/random.h"

namespace {

using namespace plimsoll;

struct Arguments {
  std::string model, folder;
  int threads = 2;
  int64_t most_steps = 10'000;
  int64_t started_ns = 0;  // of the steady clock: when the process was asked for
};

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::vector<float> random_numbers(int64_t count) {
  std::vector<float> numbers(static_cast<size_t>(count));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(unit_real(mix_bits(5, i)));
  return numbers;
}

void make(const Arguments& arguments) {
  constexpr int64_t kBatch = 4, kSamples = 16;
  const ModelSpec spec = find_model(arguments.model);
  const Dims images = at_batch(spec.input().shape, kSamples);
  const auto numbers = std::make_shared<std::vector<float>>(random_numbers(element_count(images)));
  const Dataset data = Dataset::slices({NamedArray(spec.model.inputs()[0], DType::F32, images, numbers->data(),
                                                   static_cast<Bytes>(numbers->size() * sizeof(float)), numbers)})
                           .batch(kBatch);
  Model net = spec.model;
  const MemoryLine line(8 * GiB);
  net.predict(data, line, {.sink = [](const Results&, int64_t) {}});
  net.save(fmt::format("{}/{}-f32", arguments.folder, arguments.model));
  Model small = net.quantise(data, line);
  small.predict(data, line, {.sink = [](const Results&, int64_t) {}});
  small.save(fmt::format("{}/{}-int8", arguments.folder, arguments.model));
}

nlohmann::json run(const Arguments& arguments) {
  omp_set_num_threads(arguments.threads);
  Predictor net(arguments.folder, MemoryLine::process(MemoryLine::kUnlimited));
  const std::vector<float> numbers = random_numbers(net.input_elements());
  const auto answer = [&] { return net.predict(numbers).floats()[0]; };
  const float first = answer();
  const int64_t first_ns = now_ns() - arguments.started_ns;
  fmt::print("[]\n");
  std::fflush(stdout);
  for (double seconds = 0; std::cin >> seconds;) {
    std::vector<int64_t> times;
    const int64_t start = now_ns();
    for (int64_t before = start; std::ssize(times) < arguments.most_steps;) {
      answer();
      const int64_t now = now_ns();
      times.push_back(now - before);
      before = now;
      if (static_cast<double>(now - start) > seconds * 1e9) break;
    }
    fmt::print("{}\n", nlohmann::json(times).dump());
    std::fflush(stdout);
  }
  return {{"first_step_ns", first_ns}, {"peak_bytes", peak_resident_bytes()}, {"answer", first}};
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  std::string shape;
  CLI::App app("a stored model, one sample at a time, timed");
  app.require_subcommand(1);
  CLI::App* const making = app.add_subcommand("make");
  making->add_option("model", arguments.model)->required();
  making->add_option("folder", arguments.folder)->required();
  CLI::App* const running = app.add_subcommand("run");
  running->add_option("directory", arguments.folder)->required();
  running->add_option("--shape", shape, "of a sample; the model knows it");
  running->add_option("--threads", arguments.threads);
  running->add_option("--most-steps", arguments.most_steps);
  running->add_option("--started-ns", arguments.started_ns);
  CLI11_PARSE(app, argc, argv);
  try {
    if (making->parsed()) {
      make(arguments);
      return 0;
    }
    fmt::print("{}\n", run(arguments).dump());
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_small: {}\n", e.what());
    return 1;
  }
}

// The worker of bench/compare, bench/slowdown and bench/scaling: plain steps of a built-in model in this process. The
// last line it prints is a JSON object.
#include <omp.h>

#include <chrono>
#include <ctime>
#include <iostream>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <plimsoll/error.h>
#include "memory/process.h"
#include "model/synthetic.h"
#include "model/training.h"
#include "session/engine.h"

using namespace plimsoll;
using namespace plimsoll::plan;

namespace {

struct Arguments {
  std::string model;
  ModelOptions options;
  int64_t batch = 0;
  bool inference = false;
  std::string memory, scratch;
  int threads = 2;
  int64_t least_steps = 5, most_steps = 100;
  double seconds = 10;     // of timed steps, unless the least number takes longer
  int64_t started_ns = 0;  // of the steady clock: when the process was asked for
  bool plan_only = false;
  bool only_first = false;
  // Steps when asked: for every line of standard input, a number of seconds, one line with times.
  bool by_turns = false;
};

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The graph of the work, with what a step fetches, changes and is fed.
struct Work {
  Graph graph;
  Tensor input, labels;  // labels: training only
  session::Request request;
};

void build(Work& work, const ModelSpec& spec, const Arguments& arguments) {
  work.request.batch = arguments.batch;
  if (arguments.inference) {
    work.input = work.graph.placeholder("input", spec.input().dtype, spec.input().shape);
    work.request.fetches = {spec.model(work.input)};
    return;
  }
  const model::TrainingGraph training = model::build_training(work.graph, spec, Optimiser::adam());
  work.input = training.input();
  work.labels = training.labels();
  work.request.fetches = {training.loss};
  work.request.updates = training.updates.nodes;
}

Bytes held(const session::PlannedStep& step, std::initializer_list<Tag> tags) {
  Bytes bytes = 0;
  for (const Tag tag : tags) bytes += step.plan.peak_by_tag[static_cast<size_t>(tag)];
  return bytes;
}

// Steps until so many seconds are over; the time of each.
template <typename Step>
std::vector<int64_t> timed_steps(const Step& step, double seconds, int64_t least, int64_t most) {
  std::vector<int64_t> times;
  const int64_t start = now_ns();
  for (int64_t before = start; std::ssize(times) < most;) {
    step();
    const int64_t now = now_ns();
    times.push_back(now - before);
    before = now;
    if (static_cast<double>(now - start) > seconds * 1e9 && std::ssize(times) >= least) break;
  }
  return times;
}

nlohmann::json measure(const Arguments& arguments) {
  omp_set_num_threads(arguments.threads);
// The pool's threads and stacks exist before the process is measured.
#pragma omp parallel
  {}
  const ModelSpec spec = find_model(arguments.model, arguments.options);
  const int64_t build_ns = now_ns();
  Work work;
  build(work, spec, arguments);
  const auto make_data = [&](const TensorType& type) {
    std::vector<std::byte> data(
        static_cast<size_t>(element_count(type.shape).at(arguments.batch) * size_of(type.dtype)));
    model::fill_synthetic(type, arguments.batch, spec.classes, data.data());
    return data;
  };
  const std::vector<std::byte> input = make_data(spec.input()), labels = make_data(spec.labels());
  std::vector<Feed> feeds{{work.input, spec.input().dtype, input.data(), static_cast<Bytes>(input.size())}};
  if (work.labels.is_set())
    feeds.push_back({work.labels, spec.labels().dtype, labels.data(), static_cast<Bytes>(labels.size())});

  MemoryLine line =
      MemoryLine::process(arguments.memory.empty() ? MemoryLine::kUnlimited : parse_bytes(arguments.memory));
  SessionOptions options;
  options.seed = 1;
  options.scratch_folder = arguments.scratch;
  if (!arguments.scratch.empty()) options.disk_limit = 64 * GiB;
  const int64_t plan_ns = now_ns();
  const std::clock_t plan_clock = std::clock();
  session::Engine session(work.graph, line, {work.request}, options);
  const int64_t planned_ns = now_ns();
  const double plan_processor_s = static_cast<double>(std::clock() - plan_clock) / CLOCKS_PER_SEC;
  const session::PlannedStep& step = session.steps().front();
  nlohmann::json result{
      {"weights", count_weights(work.graph)},
      {"tasks", step.program.problem.tasks.size()},
      {"build_ns", plan_ns - build_ns},
      {"plan_ns", planned_ns - plan_ns},
      {"plan_processor_ns", plan_processor_s * 1e9},
      {"predicted_ns", step.plan.predicted_ns},
      {"unconstrained_ns", step.plan.unconstrained_ns},
      {"fixed_bytes", session.runtime_bytes() + held(step, {Tag::Weights, Tag::Optimiser, Tag::Data})},
      {"planned_bytes", session.arena_bytes() + session.runtime_bytes()}};
  if (arguments.plan_only) return result;

  float first = session.run_step(0, feeds).front().floats()[0];
  const int64_t after_first_ns = now_ns();
  result["first_step_ns"] = arguments.started_ns > 0 ? after_first_ns - arguments.started_ns : 0;
  if (arguments.only_first) return result;
  float last = 0;
  const auto step_once = [&] { last = session.run_step(0, feeds).front().floats()[0]; };
  step_once();
  std::vector<int64_t> step_ns;
  if (arguments.by_turns) {
    fmt::print("[]\n");
    std::fflush(stdout);
    for (double seconds = 0; std::cin >> seconds;) {
      const auto times = timed_steps(step_once, seconds, 1, arguments.most_steps);
      step_ns.insert(step_ns.end(), times.begin(), times.end());
      fmt::print("{}\n", nlohmann::json(times).dump());
      std::fflush(stdout);
    }
  } else {
    step_ns = timed_steps(step_once, arguments.seconds, arguments.least_steps, arguments.most_steps);
  }
  result["step_ns"] = step_ns;
  result["peak_bytes"] = peak_resident_bytes();
  result["answers"] = {first, last};
  return result;
}

void option(CLI::App& app, const char* name, std::optional<int64_t>& into) { app.add_option(name, into); }

}  // namespace

int main(int argc, char** argv) {
  memory::tame_allocator();
  Arguments arguments;
  CLI::App app("plain steps of a built-in model, timed");
  app.add_option("model", arguments.model)->required();
  app.add_option("--batch", arguments.batch)->required();
  option(app, "--image-size", arguments.options.image_size);
  option(app, "--sequence", arguments.options.sequence);
  option(app, "--layers", arguments.options.layers);
  option(app, "--width", arguments.options.width);
  app.add_flag("--inference", arguments.inference);
  app.add_flag("--plan-only", arguments.plan_only);
  app.add_option("--memory", arguments.memory, "line for the whole process");
  app.add_option("--scratch", arguments.scratch, "folder for what the line leaves no room for");
  app.add_option("--threads", arguments.threads);
  app.add_option("--least-steps", arguments.least_steps);
  app.add_option("--most-steps", arguments.most_steps);
  app.add_option("--seconds", arguments.seconds);
  app.add_option("--started-ns", arguments.started_ns);
  app.add_flag("--only-first", arguments.only_first, "no step after the first");
  app.add_flag("--by-turns", arguments.by_turns, "steps when asked: a number of seconds in each line of input");
  CLI11_PARSE(app, argc, argv);
  try {
    fmt::print("{}\n", measure(arguments).dump());
    return 0;
  } catch (const DoesNotFit& e) {
    fmt::print("{}\n", nlohmann::json{{"smallest_line_bytes", e.refusal().smallest_line}}.dump());
    return e.exit_code();
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_step: {}\n", e.what());
    return 1;
  }
}

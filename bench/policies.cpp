// Steps of built-in models under each policy, by turns in one process: time and planned memory beside those of f32.
#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <memory>

#include <fmt/format.h>

#include "memory/process.h"
#include "model/synthetic.h"
#include "model/training.h"
#include "session/engine.h"

using namespace plimsoll;

namespace {

struct BenchModel {
  std::string label, name;
  ModelOptions options;
  int64_t batch;
};

std::vector<BenchModel> list_models() {
  const auto with = [](auto change) {
    ModelOptions options;
    change(options);
    return options;
  };
  return {{"mlp, width 1024, batch 256", "mlp", with([](ModelOptions& o) { o.width = 1024; }), 256},
          {"resnet18, 128 pixels, batch 8", "resnet18", with([](ModelOptions& o) { o.image_size = 128; }), 8},
          {"bert-base, 2 layers, 128 words, batch 8", "bert-base", with([](ModelOptions& o) {
             o.layers = 2;
             o.sequence = 128;
           }),
           8}};
}

double seconds(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double median(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  return numbers[numbers.size() / 2];
}

// A training under one policy, and the times of its steps.
class Contestant {
 public:
  Contestant(const BenchModel& model, const Policy& policy)
      : policy_(policy),
        spec_(find_model(model.name, model.options)),
        training_(model::build_training(graph_, spec_, Optimiser::adam())),
        session_(graph_, line_, {{{training_.loss}, training_.updates.nodes, model.batch}}, with(policy)) {
    const auto fill = [&](const TensorType& type, std::vector<std::byte>& data) {
      data.resize(static_cast<size_t>(element_count(type.shape).at(model.batch) * size_of(type.dtype)));
      model::fill_synthetic(type, model.batch, spec_.classes, data.data());
    };
    fill(spec_.input(), input_);
    fill(spec_.labels(), labels_);
    run();
  }

  void run() {
    const Feed feeds[] = {
        {training_.input(), training_.input().dtype(), input_.data(), static_cast<Bytes>(input_.size())},
        {training_.labels(), training_.labels().dtype(), labels_.data(), static_cast<Bytes>(labels_.size())}};
    session_.run_step(0, feeds);
  }
  void time_step() {
    const double processor = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
    run();
    processor_.push_back(seconds(CLOCK_PROCESS_CPUTIME_ID) - processor);
    wall_.push_back(seconds(CLOCK_MONOTONIC) - wall);
  }
  double processor() const { return median(processor_); }
  double wall() const { return median(wall_); }

  std::string row(const Contestant& first) const {
    const lower::Program& program = session_.steps()[0].program;
    return fmt::format("  {:<16} {:>8.1f} ms {:>6.2f} {:>8.1f} ms {:>6.2f} {:>10} {:>4} of {}\n", policy_.name(),
                       1e3 * processor(), processor() / first.processor(), 1e3 * wall(), wall() / first.wall(),
                       format_bytes(session_.arena_bytes()), program.half_products, program.products);
  }

 private:
  static SessionOptions with(const Policy& policy) {
    SessionOptions options;
    options.policy = policy;
    return options;
  }

  Policy policy_;
  ModelSpec spec_;
  Graph graph_;
  MemoryLine line_{MemoryLine::kUnlimited};
  model::TrainingGraph training_;
  session::Engine session_;
  std::vector<std::byte> input_, labels_;
  std::vector<double> processor_, wall_;
};

}  // namespace

// Threads and rounds may be given; 1 and 15.
int main(int argc, char** argv) {
  memory::tame_allocator();
  omp_set_num_threads(argc > 1 ? std::atoi(argv[1]) : 1);
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 15;
  for (const BenchModel& model : list_models()) {
    std::vector<std::unique_ptr<Contestant>> all;
    for (const Policy& policy : {Policy::float32(), Policy::stored_bfloat16(), Policy::mixed_bfloat16()})
      all.push_back(std::make_unique<Contestant>(model, policy));
    for (int round = 0; round < rounds; ++round)
      for (const auto& one : all) one->time_step();
    fmt::print("{}\n  {:<16} {:>11} {:>6} {:>11} {:>6} {:>10} {}\n", model.label, "policy", "processor", "x f32",
               "wall", "x f32", "arena", "products in bf16");
    for (const auto& one : all) fmt::print("{}", one->row(*all.front()));
  }
}

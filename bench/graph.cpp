// Huge graphs: time and memory of building, differentiating, lowering and planning a chain of dense layers.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "memory/process.h"
#include "model/training.h"
#include "session/engine.h"

using namespace plimsoll;

namespace {

class Stage {
 public:
  explicit Stage(const char* name) : name_(name), started_(Clock::now()), before_(resident_bytes()) {}
  ~Stage() {
    const double seconds = std::chrono::duration<double>(Clock::now() - started_).count();
    fmt::print("{:<28} {:7.3f} s   {:>10} more resident\n", name_, seconds, format_bytes(resident_bytes() - before_));
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  const char* name_;
  Clock::time_point started_;
  Bytes before_;
};

}  // namespace

int main(int argc, char** argv) {
  memory::tame_allocator();
  ModelOptions options;
  options.layers = argc > 1 ? std::atoll(argv[1]) : 5000;
  const int64_t batch = argc > 2 ? std::atoll(argv[2]) : 1000;
  Graph graph;
  model::TrainingGraph training;
  MemoryLine line;
  const Stage all("all");
  {
    const Stage stage("build and differentiate");
    training = model::build_training(graph, find_model("dense-chain", options), Optimiser::adam());
  }
  std::unique_ptr<session::Engine> session;
  {
    const Stage stage("lower and plan");
    session = std::make_unique<session::Engine>(
        graph, line, std::vector<session::Request>{{{training.loss}, training.updates.nodes, batch}});
  }
  fmt::print("{} layers, {} nodes ({} bytes each), {} tasks, arena {}, peak resident {}\n", *options.layers,
             graph.body().nodes().size(), graph.size_bytes() / static_cast<Bytes>(graph.body().nodes().size()),
             session->steps()[0].program.problem.tasks.size(), format_bytes(session->arena_bytes()),
             format_bytes(peak_resident_bytes()));
}

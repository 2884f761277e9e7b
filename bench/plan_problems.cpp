// Writes the planning problem of every built-in model's training step as text: what bench/plan/ holds.
#include <fstream>

#include <fmt/format.h>

#include "model/training.h"
#include "plan/text/text.h"
#include "session/engine.h"

using namespace plimsoll;
using namespace plimsoll::plan;

namespace {

// All 5000 layers of dense-chain would be 13 MB of text; fewer are the same kind of problem.
constexpr int64_t kLayersOfTheChain = 200;

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.flush();
  if (!file) {
    fmt::print(stderr, "{} can't be written\n", path);
    std::exit(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: bench_plan_problems DIRECTORY\n");
    return 2;
  }
  const std::string directory = argv[1];
  for (const std::string& name : model_names()) {
    ModelOptions options;
    if (name == "dense-chain") options.layers = kLayersOfTheChain;
    const ModelSpec spec = find_model(name, options);
    Graph graph;
    const model::TrainingGraph training = model::build_training(graph, spec, Optimiser::adam());
    MemoryLine line;
    std::vector<Tensor> fetches{training.loss};
    fetches.insert(fetches.end(), training.sums.begin(), training.sums.end());
    const session::Engine session(graph, line, {{fetches, training.updates.nodes, spec.batch}});
    Problem problem = session.steps().front().program.problem;
    problem.name = name;
    write(fmt::format("{}/{}.problem", directory, name), to_text(problem));
    write(fmt::format("{}/{}.limits", directory, name), to_text(Limits{.batch = spec.batch}));
    fmt::print("{:<14} batch {:>4}, {:>4} tasks, {:>5} buffers\n", name, spec.batch, problem.tasks.size(),
               problem.buffers.size());
  }
}

// Prints every sample of every operator as JSON, for golden/make.py.
#include <iostream>

#include <nlohmann/json.hpp>

#include "ops/ops.h"
#include "ops/sample.h"

int main() {
  using namespace plimsoll;
  auto all = nlohmann::json::array();
  for (const graph::Op* op : ops::all_ops()) {
    if (op->samples == nullptr) continue;
    for (const ops::Sample& sample : op->samples()) {
      Graph graph;
      ops::SampleBuilder builder(graph);
      const std::vector<Tensor> outputs = sample.build(builder);
      nlohmann::json entry{{"op", op->name},
                           {"sample", sample.name},
                           {"graph", to_string(graph)},
                           {"has_gradient", sample.has_gradient},
                           {"inputs", nlohmann::json::array()},
                           {"outputs", nlohmann::json::array()}};
      for (const ops::SampleBuilder::Input& input : builder.inputs())
        entry["inputs"].push_back({{"name", input.tensor.name()}, {"low", input.low}, {"high", input.high}});
      for (const Tensor& output : outputs) entry["outputs"].push_back(output.name());
      all.push_back(entry);
    }
  }
  std::cout << all.dump(1) << '\n';
  return 0;
}

#include <cstdio>

#include <plimsoll/plimsoll.h>

using namespace plimsoll;

int main() {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 784});
  const Tensor kernel = graph.placeholder("kernel", DType::F32, {784, 10});
  matmul(x, kernel);
  graph.finalize();
  std::fputs(to_string(graph).c_str(), stdout);
}

// A heavy computation as a traced function: traced once, planned once, and then only run.
#include "example.h"

using namespace plimsoll;

int main() {
  MemoryLine line = MemoryLine::process("64MiB");
  Eager eager(line);
  const auto code = [](Tensor x) {
    for (int i = 0; i < 10; ++i) x = softmax(matmul(x, x) / 16.0);
    return x;
  };
  const auto heavy = function(code);

  float sum = 0;
  const example::Stopwatch time;
  for (int i = 0; i < 20; ++i) sum += reduce_sum(heavy(normal({256, 256}))).item<float>();
  std::printf("20 calls in %.2f s: %lld trace, %lld plans, sum %.0f\n", time.seconds(),
              static_cast<long long>(heavy.facts().traces), static_cast<long long>(eager.facts().plans), sum);

  const Tensor x = normal({256, 256});
  const bool is_same = heavy(x).to_vector<float>() == code(x).to_vector<float>();
  std::printf("the same bits as without `function`: %s\n", is_same ? "yes" : "no");
  const int kept = example::report(line, line.peak());
  return is_same ? kept : 1;
}

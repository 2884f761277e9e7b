// Map, shuffle, batch and prefetch; then a loop of one's own with a tape and an optimiser, as eager code.
#include "example.h"

using namespace plimsoll;

namespace {

// Is the point inside the circle?
void make_point(const ElementView& from, const ElementSlot& to) {
  const int64_t i = from.as<int64_t>("value")[0];
  const auto a = static_cast<float>(i * 7919 % 2003) / 1001.5F - 1,
             b = static_cast<float>(i * 104'729 % 1999) / 999.5F - 1;
  to.as<float>("x")[0] = a;
  to.as<float>("x")[1] = b;
  to.as<int32_t>("y")[0] = a * a + b * b < 0.6F ? 1 : 0;
}

}  // namespace

int main() {
  MemoryLine line = MemoryLine::process("48MiB");
  const Dataset train = Dataset::range(20'000)
                            .map({{"x", DType::F32, {2}}, {"y", DType::I32, {}}}, make_point, AUTOTUNE)
                            .shuffle(10'000)
                            .batch(32)
                            .prefetch(AUTOTUNE);
  Eager eager(line);
  const Model net = sequential({layers::dense(32, {.activation = "relu"}), layers::dense(2)});
  const Optimiser adam = Optimiser::adam(0.01);
  float first = 0, last = 0;
  int64_t steps = 0;
  for (auto [x, y] : pairs(train)) {
    Tape tape;
    const Tensor loss = sparse_cross_entropy(net(x, true), y);
    adam.apply(tape.gradient(loss, net.weights()), net.weights());
    last = loss.item<float>();
    if (steps++ == 0) first = last;
  }
  std::printf("%lld steps, %lld plans, loss %.3f to %.3f\n", static_cast<long long>(steps),
              static_cast<long long>(eager.facts().plans), first, last);
  const int kept = example::report(line, line.peak());
  return last < first / 2 ? kept : 1;
}

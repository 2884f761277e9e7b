// The same training under the policies float32, mixed_bfloat16 and mixed_float16: memory, time and accuracy of each.
#include <utility>
#include <vector>

#include "example.h"

using namespace plimsoll;

namespace {

constexpr int64_t kImages = 512, kSize = 48, kBatch = 64;

Bytes train(const Dataset& images, const MemoryLine& line, const Policy& policy, double& accuracy) {
  Model net = sequential({layers::conv2d(16, 3, {.activation = "relu"}), layers::conv2d(16, 3, {.activation = "tanh"}),
                          layers::max_pool(2), layers::conv2d(32, 3, {.activation = "tanh"}), layers::max_pool(2),
                          layers::flatten(), layers::dense(2)});
  net.compile({.optimiser = Optimiser::adam(1e-3),
               .loss = "sparse_cross_entropy",
               .metrics = {"accuracy"},
               .policy = policy});  // mixed_float16 scales the loss too
  const Dataset batches = images.shuffle({.seed = 3}).batch(kBatch);
  const Forecast forecast = net.plan(batches, line);
  const example::Stopwatch time;
  net.fit(batches, line, {.epochs = 4});
  accuracy = net.evaluate(images.batch(kBatch), line)["accuracy"];
  std::printf("%-14s  planned %s, %.1f s, accuracy %.1f %%, %s\n", std::string(policy.name()).c_str(),
              format_bytes(forecast.peak()).c_str(), time.seconds(), 100 * accuracy,
              forecast.is_bit_identical() ? "bit-identical" : "not bit-identical");
  return forecast.peak();
}

}  // namespace

int main() {
  MemoryLine line = MemoryLine::process("192MiB");
  // Noise, with stripes across or along.
  std::vector<float> x(kImages * kSize * kSize);
  std::vector<int32_t> y(kImages);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t image = i / (kSize * kSize), row = i / kSize % kSize, column = i % kSize;
    const float noise = static_cast<float>(static_cast<uint32_t>(i * i + i) * 2654435761U) * 0x1p-32F;
    y[image] = static_cast<int32_t>(image % 2);
    x[i] = 0.5F * noise + ((y[image] == 0 ? row : column) % 6 < 3 ? 0.25F : 0);
  }
  const Dataset images = Dataset::slices({{"x", std::move(x), {kImages, 1, kSize, kSize}}, {"y", std::move(y)}});
  double accuracy = 0, half_accuracy = 0;
  const Bytes wide = train(images, line, Policy::float32(), accuracy);
  bool is_fine = accuracy > 0.9;
  for (const Policy& policy : {Policy::mixed_bfloat16(), Policy::mixed_float16()})
    is_fine = is_fine && train(images, line, policy, half_accuracy) < wide && half_accuracy > accuracy - 0.02;
  return is_fine ? example::report(line, wide) : 1;
}

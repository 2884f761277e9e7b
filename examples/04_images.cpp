// Trains from a folder of JPEGs, resized to 224 x 224 while they are read, 32 a batch. Bytes stay bytes until the step.
//
//   04_images FOLDER     each sub-folder is a class
#include "example.h"

using namespace plimsoll;

int main(int argc, char** argv) {
  if (argc < 2) {
    std::puts("usage: 04_images FOLDER, with a sub-folder for each class");
    return 2;
  }
  constexpr int64_t kBatch = 32, kSize = 224;
  MemoryLine line = MemoryLine::process("160MiB");

  Dataset images = Dataset::images(argv[1], {.height = kSize, .width = kSize, .channels_first = true})
                       .shuffle({.seed = 7})
                       .repeat(4)
                       .batch(kBatch)
                       .prefetch(1);
  Iteration batches = images.on(line);

  Graph graph;
  const Tensor x = graph.placeholder<uint8_t>("x", {Dim::batch(), 3, kSize, kSize});
  const Tensor y = graph.placeholder<int64_t>("y", {Dim::batch()});
  Tensor h = cast(x, DType::F32) * (1 / 255.0);
  for (const int64_t filters : {8, 16, 32})
    h = layers::max_pool(layers::conv2d(h, filters, 3, {.strides = 2, .activation = "relu"}), 2);
  const Tensor loss = sparse_cross_entropy(layers::dense(layers::global_average_pool(h), 2), cast(y, DType::I32));
  Session session(graph, line, {.reads_feeds_in_place = true});
  Step train = session.step({.fetch = {loss}, .update = minimize(loss, Optimiser::adam(0.01)), .batch = kBatch});

  const example::Stopwatch time;
  float first = 0, last = 0;
  int64_t steps = 0;
  for (const ElementView& batch : batches) {
    last = train({batch.feed(x, "x"), batch.feed(y, "y")})[0].item<float>();
    if (steps++ == 0) first = last;
  }
  std::printf("%ld steps in %.1f s, loss %.3f -> %.3f\n", steps, time.seconds(), first, last);
  for (const StageReport& stage : batches.stages())
    std::printf("  %-40s %10s  %d threads\n", stage.name.c_str(), format_bytes(stage.bytes).c_str(), stage.threads);
  return last < first ? example::report(line, session.peak_bytes() + batches.bytes()) : 1;
}

// Inference in int8 beside f32, both by this engine: single operators, and models as Model::quantise makes them.
//
//   bench_int8 [ROUNDS]
//
// The two run in turn in one process; the numbers are medians of the processor time of all threads.
#include <algorithm>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <plimsoll/plimsoll.h>
#include "base/random.h"
#include "ops/ops.h"
#include "shrink/quantise.h"

namespace {

using namespace plimsoll;

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> times) {
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

// A step of one input, fed with the same numbers each time.
class Timed {
 public:
  Timed(const Shape& input, DType dtype, int64_t batch, const std::function<Tensor(Tensor)>& build)
      : x_(graph_.placeholder("x", dtype, input)),
        session_((y_ = build(x_), graph_), MemoryLine(4 * GiB)),
        step_(session_.step({.fetch = {y_}, .batch = batch})),
        bytes_(static_cast<size_t>(element_count(at_batch(input, batch)) * size_of(dtype))) {
    for (size_t i = 0; i < bytes_.size(); i += sizeof(float)) {
      const auto number = static_cast<float>(unit_real(mix_bits(3, i)));
      if (dtype == DType::F32) std::memcpy(&bytes_[i], &number, sizeof number);
    }
    feeds_.emplace_back(x_, dtype, bytes_.data(), static_cast<Bytes>(bytes_.size()));
  }
  void load(const std::string& weights) {
    session_.open();
    session_.load(weights);
  }
  double run() {
    const double start = processor_seconds();
    step_(feeds_);
    return processor_seconds() - start;
  }

 private:
  Graph graph_;
  Tensor x_, y_;
  Session session_;
  Step step_;
  std::vector<std::byte> bytes_;
  std::vector<Feed> feeds_;
};

void compare(const std::string& name, Timed& floats, Timed& bytes, int rounds, double flops = 0) {
  std::vector<double> of_floats, of_bytes;
  for (int i = 0; i < rounds + 2; ++i) {
    const double a = floats.run(), b = bytes.run();
    if (i < 2) continue;
    of_floats.push_back(a);
    of_bytes.push_back(b);
  }
  const double a = median(of_floats), b = median(of_bytes);
  const std::string speed =
      flops > 0 ? fmt::format("{:6.0f} {:6.0f}", flops / a / 1e9, flops / b / 1e9) : "            ";
  fmt::print("| {:<28} | {:9.3f} | {:9.3f} | {} | {:5.2f} |\n", name, a * 1e3, b * 1e3, speed, a / b);
  std::fflush(stdout);
}

void dense(int64_t rows, int64_t inner, int64_t outer, int rounds) {
  Timed floats({Dim::batch(), inner}, DType::F32, rows, [&](Tensor x) {
    return plimsoll::dense(x, x.graph().variable("kernel", DType::F32, {inner, outer}, Init::constant(0.01)));
  });
  Timed bytes({Dim::batch(), inner}, DType::U8, rows, [&](Tensor x) {
    Graph& graph = x.graph();
    return ops::int8_dense(x, graph.variable("kernel", DType::I8, {outer, inner}, Init::constant(1)),
                           graph.variable("scale", DType::F32, {outer}, Init::constant(1)),
                           graph.variable("offset", DType::F32, {outer}, Init::constant(1)));
  });
  compare(fmt::format("dense {}x{} -> {}", rows, inner, outer), floats, bytes, rounds,
          2.0 * static_cast<double>(rows * inner * outer));
}

void convolution(int64_t batch, int64_t inputs, int64_t outputs, int64_t size, int64_t filter, int64_t stride,
                 int64_t groups, int rounds) {
  Window window = Window::strided(stride, filter / 2);
  window.groups = groups;
  const Shape image{Dim::batch(), inputs, size, size}, kernel{outputs, inputs / groups, filter, filter};
  Timed floats(image, DType::F32, batch, [&](Tensor x) {
    return conv2d(x, x.graph().variable("kernel", DType::F32, kernel, Init::constant(0.01)), {}, window);
  });
  Timed bytes(image, DType::U8, batch, [&](Tensor x) {
    Graph& graph = x.graph();
    return ops::int8_conv2d(x, graph.variable("kernel", DType::I8, kernel, Init::constant(1)),
                            graph.variable("scale", DType::F32, {outputs}, Init::constant(1)),
                            graph.variable("offset", DType::F32, {outputs}, Init::constant(1)), window);
  });
  const int64_t out = (size - 1) / stride + 1;
  compare(fmt::format("{}x{}{} {} -> {} @{}{}", filter, filter, stride > 1 ? " s2" : "", inputs, outputs, size,
                      groups > 1 ? " dw" : ""),
          floats, bytes, rounds,
          2.0 * static_cast<double>(batch * outputs * out * out * inputs / groups * filter * filter));
}

// A model with its initial weights, on random images.
void model(const std::string& name, const ModelOptions& options, int64_t batch, int rounds) {
  const ModelSpec spec = find_model(name, options);
  const Shape image = spec.input().shape;
  const auto owner =
      std::make_shared<std::vector<float>>(static_cast<size_t>(element_count(at_batch(image, 2 * batch))));
  for (size_t i = 0; i < owner->size(); ++i) (*owner)[i] = static_cast<float>(unit_real(mix_bits(5, i)));
  const Dataset data =
      Dataset::slices({NamedArray(spec.model.inputs()[0], DType::F32, at_batch(image, 2 * batch), owner->data(),
                                  static_cast<Bytes>(owner->size() * sizeof(float)), owner)})
          .batch(batch);
  Model net = spec.model;
  const MemoryLine line(8 * GiB);
  net.predict(data, line, {.sink = [](const Results&, int64_t) {}});
  QuantiseReport report;
  Model small = net.quantise(data, line, {}, &report);
  int64_t quantised = 0;
  for (const QuantisedLayer& layer : report.layers) quantised += layer.is_int8 ? 1 : 0;
  const std::string a = "bench-f32.safetensors", b = "bench-int8.safetensors";
  net.save_weights(a);
  small.save_weights(b);
  net.release();
  small.release();
  {
    Timed floats(image, DType::F32, batch, [&](Tensor x) { return net(x); });
    Timed bytes(image, DType::F32, batch, [&](Tensor x) { return small(x); });
    floats.load(a);
    bytes.load(b);
    compare(fmt::format("{} ({} of {} int8)", name, quantised, report.layers.size()), floats, bytes, rounds);
  }
  std::remove(a.c_str());
  std::remove(b.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  fmt::print(
      "| operator or model            | f32 ms    | int8 ms   | Gop/s f32, int8 | ratio |\n|---|---|---|---|---|\n");
  dense(64, 784, 512, rounds);
  dense(256, 1024, 1024, rounds);
  dense(512, 768, 3072, rounds);
  dense(512, 3072, 768, rounds);
  dense(16, 25088, 4096, rounds);
  dense(1, 4096, 4096, rounds);
  convolution(8, 3, 64, 112, 7, 2, 1, rounds);
  convolution(8, 64, 64, 56, 3, 1, 1, rounds);
  convolution(8, 128, 128, 28, 3, 1, 1, rounds);
  convolution(8, 256, 256, 14, 3, 1, 1, rounds);
  convolution(8, 256, 64, 56, 1, 1, 1, rounds);
  convolution(8, 256, 512, 28, 1, 2, 1, rounds);
  convolution(8, 192, 192, 28, 3, 1, 192, rounds);
  model("mlp", {.width = 2048}, 128, rounds);
  model("vgg16", {.image_size = 64}, 4, rounds);
  model("resnet18", {.image_size = 96}, 8, rounds);
  model("mobilenet_v2", {.image_size = 96}, 8, rounds);
  return 0;
}

// categorical: the number of a class drawn for each row of logits, with the probabilities softmax(logits). A row's draw
// is a function of seed, step, node and the row's number within the batch (kernels/draws.h).
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/random.h"
#include "graph/draws.h"
#include "graph/shape.h"
#include "kernels/draws.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  Shape out = n.in[0].shape;
  if (out.rank() == 0 || out.back().is_batch())
    n.fail(
        fmt::format("{} has no dimension of classes; it must be the last one, and not the batch", to_string(n.in[0])));
  out.erase(out.rank() - 1);
  n.out = {{DType::I32, out}};
}

// The first class at which the sum of probabilities passes u.
int32_t choose(const float* logits, int64_t classes, double u) {
  const float top = *std::max_element(logits, logits + classes);
  double sum = 0;
  for (int64_t k = 0; k < classes; ++k) sum += std::exp(static_cast<double>(logits[k]) - static_cast<double>(top));
  double left = u * sum;
  int64_t last = 0;  // with a probability above 0: rounding may leave a rest behind all
  for (int64_t k = 0; k < classes; ++k) {
    const double share = std::exp(static_cast<double>(logits[k]) - static_cast<double>(top));
    if (share > 0) last = k;
    if (left < share) return static_cast<int32_t>(k);
    left -= share;
  }
  return static_cast<int32_t>(last);
}

Prepared prepare(const Facts& facts) {
  const int64_t rows = facts.out[0].count(), classes = facts.in[0].dims.back();
  const auto node = static_cast<uint64_t>(facts.attrs.i("key"));
  const auto before = static_cast<uint64_t>(facts.attrs.i("first_sample"));
  const auto per_sample =
      static_cast<uint64_t>(facts.attrs.i("is_batched") != 0 ? rows / std::max<int64_t>(1, facts.batch) : 0);
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* logits = args.input<float>(0);
            auto* y = args.output<int32_t>(0);
            const uint64_t start = (static_cast<uint64_t>(args.state->first_sample) + before) * per_sample;
            const uint64_t seed = draw_key(*args.state, node);
            parallel_for(rows, std::max<int64_t>(1, 1024 / classes), [&](int64_t first, int64_t last) {
              for (int64_t row = first; row < last; ++row) {
                const double u = unit_real(mix_bits(seed, start + static_cast<uint64_t>(row)));
                y[row] = choose(logits + row * classes, classes, u);
              }
            });
          })};
}

Cost cost(const Facts& facts) { return {.flops = 80 * static_cast<double>(facts.in[0].count()), .efficiency = 0.05}; }

// Rows are numbered in row-major order: a micro-batch is a range of these numbers only if samples are outermost.
BatchRule batch_rule(const Attrs&, std::span<const TensorType> in) {
  const bool is_batched = element_count(in[0].shape).is_batch();
  return is_batched && graph::elements_before_batch(in[0].shape) > 1 ? BatchRule::Mixes : BatchRule::Rows;
}

std::vector<Sample> samples() {
  const auto of = [](const Shape& shape) {
    return [shape](SampleBuilder& s) { return std::vector{categorical(s.input(shape))}; };
  };
  return {{"batch", of({Dim::batch(), 7}), 1e-4, false},
          {"rows of a sample", of({Dim::batch(2), 3, 5}), 1e-4, false},
          {"batch second", of({3, Dim::batch(), 4}), 1e-4, false},
          {"one row", of({9}), 1e-4, false},
          {"twice",
           [](SampleBuilder& s) {
             const Tensor x = s.input({Dim::batch(), 9});
             return std::vector{categorical(x), categorical(x)};
           },
           1e-4, false}};
}

const Op kCategorical{.name = "categorical",
                      .storable = true,
                      .infer = infer,
                      .prepare = prepare,
                      .cost = cost,
                      .samples = samples,
                      .traits = {.recomputable = true},
                      .batch_rule = batch_rule,
                      .onnx = "Multinomial"};

}  // namespace

Tensor categorical(Tensor logits, Name name) {
  const graph::Body& body = logits.graph().body();
  const uint64_t wanted = hash_text(fmt::format("{} categorical {}", logits.name(), name));
  const NodeId maker = body.value(logits.id()).producer;
  Attrs attrs{{"key", graph::free_key(body, kCategorical, wanted, maker + 1)}};
  if (element_count(logits.shape()).is_batch()) attrs.set("is_batched", int64_t{1});
  return apply(kCategorical, {logits}, attrs, name);
}

OpList categorical_ops() { return {&kCategorical}; }

}  // namespace plimsoll::ops

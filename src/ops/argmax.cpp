// argmax: the index of the largest element along an axis; of equal elements the first.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kernels/joined.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

constexpr int64_t kStrip = 256;

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  const auto axis = static_cast<int>(n.attrs.i("axis"));
  Shape out = n.in[0].shape;
  if (axis < 0 || axis >= out.rank()) n.fail(fmt::format("axis {} is outside {}", axis, to_string(n.in[0])));
  out.erase(axis);
  n.out = {{DType::I32, out}};
}

// NaN counts as the largest, as in NumPy and PyTorch.
int32_t first_largest(const float* x, int64_t count) {
  // The largest value of each block first, in a loop without branches.
  constexpr int64_t kBlock = 256;
  float top = x[0];
  int64_t block = 0;
  for (int64_t start = 0; start < count; start += kBlock) {
    float best = x[start];
    bool has_nan = false;
    const int64_t end = std::min(count, start + kBlock);
    for (int64_t i = start; i < end; ++i) {
      best = x[i] > best ? x[i] : best;
      has_nan |= x[i] != x[i];
    }
    if (has_nan) {
      const auto* nan = std::find_if(x + start, x + end, [](float value) { return std::isnan(value); });
      return static_cast<int32_t>(nan - x);
    }
    if (best > top) {
      top = best;
      block = start;
    }
  }
  const float* end = x + std::min(count, block + kBlock);
  const float* at = std::find(x + block, end, top);
  return static_cast<int32_t>(at == end ? 0 : at - x);
}

Prepared prepare(const Facts& facts) {
  const Dims& dims = facts.in[0].dims;
  const int64_t axis = facts.attrs.i("axis");
  int64_t outer = 1;
  int64_t inner = 1;
  for (int i = 0; i < dims.rank(); ++i)
    if (i != axis) (i < axis ? outer : inner) *= dims[i];
  const int64_t count = dims[static_cast<int>(axis)];
  const int64_t strips = (inner + kStrip - 1) / kStrip;
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* x = args.input<float>(0);
            auto* y = args.output<int32_t>(0);
            const int64_t work = std::max<int64_t>(1, count * std::min(inner, kStrip));
            parallel_for(outer * strips, std::max<int64_t>(1, 16384 / work), [&](int64_t first, int64_t last) {
              for (int64_t t = first; t < last; ++t) {
                if (inner == 1) {
                  y[t] = first_largest(x + t * count, count);
                  continue;
                }
                const int64_t start = t % strips * kStrip;
                const int64_t columns = std::min(kStrip, inner - start);
                const float* rows = x + t / strips * count * inner + start;
                int32_t* best = y + t / strips * inner + start;
                float top[kStrip];
                std::copy(rows, rows + columns, top);
                std::fill(best, best + columns, 0);
                for (int64_t k = 1; k < count; ++k) {
                  for (int64_t j = 0; j < columns; ++j) {
                    const float value = rows[k * inner + j];
                    const bool is_larger = !(value <= top[j]) && top[j] == top[j];
                    best[j] = is_larger ? static_cast<int32_t>(k) : best[j];
                    top[j] = is_larger ? value : top[j];
                  }
                }
              }
            });
          })};
}

BatchRule batch_rule(const Attrs& attrs, std::span<const TensorType> in) {
  return in[0].shape[static_cast<int>(attrs.i("axis"))].is_batch() ? BatchRule::Mixes : BatchRule::Rows;
}

std::vector<Sample> samples() {
  const auto along = [](const char* name, Shape shape, int axis) {
    return Sample{name, [=](SampleBuilder& s) { return std::vector{argmax(s.input(shape), axis)}; }, 1e-4, false};
  };
  return {along("last axis", {Dim::batch(), 3, 11}, -1),
          along("channels", {Dim::batch(), 5, 3, 3}, 1),
          along("batch", {Dim::batch(), 5}, 0),
          {"first of equals",
           [](SampleBuilder& s) {
             return std::vector{argmax(broadcast_to(s.input({Dim::batch(), 1}), {Dim::batch(), 7}))};
           },
           1e-4, false}};
}

const Op kArgmax{.name = "argmax",
                 .infer = infer,
                 .prepare = prepare,
                 .samples = samples,
                 .traits = {.batch = BatchRule::Rows, .recomputable = true},
                 .batch_rule = batch_rule,
                 .onnx = "ArgMax"};

}  // namespace

Tensor argmax(Tensor x, int axis, Name name) {
  return apply(kArgmax, {x}, {{"axis", int64_t{resolve_axis("argmax", name, axis, x.type())}}}, name);
}

OpList argmax_ops() { return {&kArgmax}; }

}  // namespace plimsoll::ops

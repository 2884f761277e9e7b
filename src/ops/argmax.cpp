// argmax, argmin: the index of the largest or smallest element along an axis; of equal elements the first. NaN comes
// before all numbers, as in NumPy and PyTorch.
#include <algorithm>

#include <fmt/format.h>

#include "kernels/integer_map.h"
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
  if (out[axis] == Dim(0)) n.fail(fmt::format("axis {} of {} has no elements", axis, to_string(n.in[0])));
  out.erase(axis);
  n.out = {{DType::I32, out}};
}

template <class T>
bool is_nan(T x) {
  return x != x;
}
template <bool kSmallest, class T>
bool is_better(T x, T best) {
  return kSmallest ? x < best : x > best;
}

template <bool kSmallest, class T>
int32_t first_best(const T* x, int64_t count) {
  // The best value of each block first, in a loop without branches.
  constexpr int64_t kBlock = 256;
  T top = x[0];
  int64_t block = 0;
  for (int64_t start = 0; start < count; start += kBlock) {
    T best = x[start];
    bool has_nan = false;
    const int64_t end = std::min(count, start + kBlock);
    for (int64_t i = start; i < end; ++i) {
      best = is_better<kSmallest>(x[i], best) ? x[i] : best;
      has_nan |= is_nan(x[i]);
    }
    if (has_nan) return static_cast<int32_t>(std::find_if(x + start, x + end, is_nan<T>) - x);
    if (is_better<kSmallest>(best, top)) {
      top = best;
      block = start;
    }
  }
  const T* end = x + std::min(count, block + kBlock);
  const T* at = std::find(x + block, end, top);
  return static_cast<int32_t>(at == end ? 0 : at - x);
}

template <bool kSmallest, class T>
std::shared_ptr<Kernel> make_search(const Facts& facts) {
  const Dims& dims = facts.in[0].dims;
  const int64_t axis = facts.attrs.i("axis");
  int64_t outer = 1;
  int64_t inner = 1;
  for (int i = 0; i < dims.rank(); ++i)
    if (i != axis) (i < axis ? outer : inner) *= dims[i];
  const int64_t count = dims[static_cast<int>(axis)];
  const int64_t strips = (inner + kStrip - 1) / kStrip;
  return make_kernel([=](const Args& args) {
    const auto* x = args.input<T>(0);
    auto* y = args.output<int32_t>(0);
    const int64_t work = std::max<int64_t>(1, count * std::min(inner, kStrip));
    parallel_for(outer * strips, std::max<int64_t>(1, 16384 / work), [&](int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t) {
        if (inner == 1) {
          y[t] = first_best<kSmallest>(x + t * count, count);
          continue;
        }
        const int64_t start = t % strips * kStrip;
        const int64_t columns = std::min(kStrip, inner - start);
        const T* rows = x + t / strips * count * inner + start;
        int32_t* best = y + t / strips * inner + start;
        T top[kStrip];
        std::copy(rows, rows + columns, top);
        std::fill(best, best + columns, 0);
        for (int64_t k = 1; k < count; ++k) {
          for (int64_t j = 0; j < columns; ++j) {
            const T value = rows[k * inner + j];
            const bool wins = (is_better<kSmallest>(value, top[j]) || is_nan(value)) && !is_nan(top[j]);
            best[j] = wins ? static_cast<int32_t>(k) : best[j];
            top[j] = wins ? value : top[j];
          }
        }
      }
    });
  });
}

template <bool kSmallest>
Prepared prepare(const Facts& facts) {
  if (facts.in[0].dtype == DType::F32) return {.kernel = make_search<kSmallest, float>(facts)};
  return {.kernel = with_integer(facts.in[0].dtype,
                                 [&](auto number) { return make_search<kSmallest, decltype(number)>(facts); })};
}

BatchRule batch_rule(const Attrs& attrs, std::span<const TensorType> in) {
  return in[0].shape[static_cast<int>(attrs.i("axis"))].is_batch() ? BatchRule::Mixes : BatchRule::Rows;
}

template <Tensor (*function)(Tensor, int, Name)>
std::vector<Sample> samples() {
  const auto along = [](const char* name, Shape shape, int axis) {
    return Sample{name, [=](SampleBuilder& s) { return std::vector{function(s.input(shape), axis, {})}; }, 1e-4, false};
  };
  return {along("last axis", {Dim::batch(), 3, 11}, -1),
          along("channels", {Dim::batch(), 5, 3, 3}, 1),
          along("batch", {Dim::batch(), 5}, 0),
          {"first of equals",
           [](SampleBuilder& s) {
             return std::vector{function(broadcast_to(s.input({Dim::batch(), 1}), {Dim::batch(), 7}), -1, {})};
           },
           1e-4, false},
          {"integers",
           [](SampleBuilder& s) {
             return std::vector{function(s.integers({Dim::batch(), 3, 7}, -5, 5), -1, {}),
                                function(s.integers({Dim::batch(), 3, 7}, -5, 5, DType::I64), 1, {})};
           },
           1e-4, false}};
}

constexpr DTypes kSearched{DType::F32, DType::I32, DType::I64};
const Op kArgmax{.name = "argmax",
                 .storable = true,
                 .infer = infer,
                 .types = {kSearched},
                 .prepare = prepare<false>,
                 .samples = samples<argmax>,
                 .traits = {.batch = BatchRule::Rows, .recomputable = true},
                 .batch_rule = batch_rule,
                 .onnx = "ArgMax"};
const Op kArgmin{.name = "argmin",
                 .storable = true,
                 .infer = infer,
                 .types = {kSearched},
                 .prepare = prepare<true>,
                 .samples = samples<argmin>,
                 .traits = {.batch = BatchRule::Rows, .recomputable = true},
                 .batch_rule = batch_rule,
                 .onnx = "ArgMin"};

}  // namespace

Tensor argmax(Tensor x, int axis, Name name) {
  return apply(kArgmax, {x}, {{"axis", int64_t{resolve_axis("argmax", name, axis, x.type())}}}, name);
}

Tensor argmin(Tensor x, int axis, Name name) {
  return apply(kArgmin, {x}, {{"axis", int64_t{resolve_axis("argmin", name, axis, x.type())}}}, name);
}

OpList argmax_ops() { return {&kArgmax, &kArgmin}; }

}  // namespace plimsoll::ops

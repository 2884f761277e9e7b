// tril, triu: matrices with zeros above or below a diagonal.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "kernels/kernel.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  if (n.in[0].shape.rank() < 2) n.fail(fmt::format("{} is no matrix", to_string(n.in[0])));
  n.out = {n.in[0]};
}

Prepared prepare(const Facts& facts) {
  const Dims& dims = facts.in[0].dims;
  const int64_t rows = dims[dims.rank() - 2], columns = dims.back();
  const int64_t count = facts.in[0].count() / std::max<int64_t>(1, columns);
  const Bytes item = size_of(facts.in[0].dtype);
  const bool is_upper = facts.attrs.i("upper") != 0;
  const int64_t diagonal = std::clamp(facts.attrs.i("diagonal"), -rows, columns);
  return {.kernel = make_kernel([=](const Args& args) {
            parallel_for(count, 1 + 16384 / (columns + 1), [&](int64_t first, int64_t last) {
              for (int64_t t = first; t < last; ++t) {
                const auto* from = args.input<std::byte>(0) + t * columns * item;
                auto* to = args.output<std::byte>(0) + t * columns * item;
                // The lower part ends behind the diagonal, the upper one starts there.
                const int64_t edge = std::clamp<int64_t>(t % rows + diagonal + (is_upper ? 0 : 1), 0, columns) * item;
                const Bytes begin = is_upper ? edge : 0, end = is_upper ? columns * item : edge;
                std::memmove(to + begin, from + begin, static_cast<size_t>(end - begin));
                std::memset(to, 0, static_cast<size_t>(begin));
                std::memset(to + end, 0, static_cast<size_t>(columns * item - end));
              }
            });
          })};
}

BatchRule batch_rule(const Attrs&, std::span<const TensorType> in) {
  const Shape& shape = in[0].shape;
  return shape.back().is_batch() || shape[shape.rank() - 2].is_batch() ? BatchRule::Mixes : BatchRule::Rows;
}

extern const Op kTriangle;
void grad(Backward& b) { b.give(0, apply(kTriangle, {b.dy[0]}, b.attrs)); }

std::vector<Sample> samples() {
  return {{"lower",
           [](SampleBuilder& s) {
             const Tensor x = s.input({Dim::batch(), 4, 5});
             return std::vector{tril(x), tril(x, 2), tril(x, -1), tril(x, -9)};
           }},
          {"upper",
           [](SampleBuilder& s) {
             const Tensor x = s.input({Dim::batch(), 2, 5, 3});
             return std::vector{triu(x), triu(x, 1), triu(x, -2), triu(x, 9)};
           }},
          {"batch of rows",
           [](SampleBuilder& s) {
             return std::vector{tril(s.input({Dim::batch(), 5}))};
           }},
          {"integers",
           [](SampleBuilder& s) {
             return std::vector{triu(s.integers({Dim::batch(), 3, 3}, 0, 100)),
                                tril(s.integers({Dim::batch(), 3, 3}, 0, 2, DType::Bool))};
           },
           1e-4, false}};
}

const Op kTriangle{.name = "triangle",
                   .storable = true,
                   .infer = infer,
                   .types = {kAnyType},
                   .grad = grad,
                   .prepare = prepare,
                   .samples = samples,
                   .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1},
                   .batch_rule = batch_rule,
                   .onnx = "Trilu"};

Tensor part(Tensor x, int64_t diagonal, bool is_upper, Name name) {
  return apply(kTriangle, {x}, {{"diagonal", diagonal}, {"upper", int64_t{is_upper}}}, name);
}

std::vector<Sample> samples_diagonal() {
  return {{"square",
           [](SampleBuilder& s) {
             return std::vector{diagonal(s.input({Dim::batch(), 4, 4}))};
           }},
          {"above and below", [](SampleBuilder& s) {
             const Tensor x = s.input({Dim::batch(), 3, 5});
             return std::vector{diagonal(x, 2), diagonal(x, -1), diagonal(x, 4)};
           }}};
}
const Op kDiagonal{.name = "diagonal", .samples = samples_diagonal};

}  // namespace

Tensor tril(Tensor x, int64_t diagonal, Name name) { return part(x, diagonal, false, name); }
Tensor triu(Tensor x, int64_t diagonal, Name name) { return part(x, diagonal, true, name); }

// Each element of a diagonal lies one row and one column behind the one before.
Tensor diagonal(Tensor x, int64_t offset, Name name) {
  if (x.rank() < 2)
    throw Error(fmt::format("diagonal '{}': {} is no matrix", std::string_view(name), to_string(x.type())));
  Shape shape = x.shape();
  const int64_t columns = shape.back().fixed(), rows = shape[shape.rank() - 2].fixed();
  const int64_t first = offset >= 0 ? offset : -offset * columns;
  const int64_t count = offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns);
  if (count < 1)
    throw Error(
        fmt::format("diagonal '{}': {} has none at offset {}", std::string_view(name), to_string(x.type()), offset));
  shape.erase(shape.rank() - 1);
  shape[shape.rank() - 1] = rows * columns;
  return slice(reshape(x, shape), -1, first, count, columns + 1, name);
}

OpList triangle_ops() { return {&kTriangle, &kDiagonal}; }

}  // namespace plimsoll::ops

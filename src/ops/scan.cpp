// cumsum, cumprod: sums and products of all elements up to each along an axis; of floats in double precision.
#include <algorithm>

#include <fmt/format.h>

#include "kernels/integer_map.h"
#include "kernels/joined.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

constexpr int64_t kStrip = 256;    // columns whose sums stay in the first-level cache
constexpr int64_t kGrain = 16384;  // elements that are worth another thread

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  const int64_t axis = n.attrs.i("axis");
  if (axis < 0 || axis >= n.in[0].shape.rank()) n.fail(fmt::format("axis {} is outside {}", axis, to_string(n.in[0])));
  n.out = {n.in[0]};
}

struct Lines {
  Lines(const Facts& facts) : is_reversed(facts.attrs.i("reverse") != 0) {  // NOLINT(google-explicit-constructor)
    const int64_t axis = facts.attrs.i("axis");
    const Dims& dims = facts.in[0].dims;
    for (int i = 0; i < dims.rank(); ++i) (i < axis ? outer : i == axis ? count : inner) *= dims[i];
  }
  int64_t place(int64_t i) const { return (is_reversed ? count - 1 - i : i) * inner; }
  bool is_reversed;
  int64_t outer = 1, count = 1, inner = 1;
};

// Calls body(first element, columns) for groups of neighbouring lines.
template <class Body>
void for_lines(const Lines& lines, const Body& body) {
  const int64_t strips = (lines.inner + kStrip - 1) / kStrip;
  const int64_t work = std::max<int64_t>(1, lines.count * std::min(lines.inner, kStrip));
  parallel_for(lines.outer * strips, std::max<int64_t>(1, kGrain / work), [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      const int64_t column = t % strips * kStrip;
      body(t / strips * lines.count * lines.inner + column, std::min(kStrip, lines.inner - column));
    }
  });
}

template <class T, class Wide, class Join>
Prepared prepare_scan(const Facts& facts, Wide start, const Join& join) {
  const Lines lines(facts);
  return {.kernel = make_kernel([=](const Args& args) {
            for_lines(lines, [&](int64_t at, int64_t columns) {
              const T* x = args.input<T>(0) + at;
              T* y = args.output<T>(0) + at;
              if (columns == 1) {
                Wide total = start;
                for (int64_t i = 0; i < lines.count; ++i)
                  y[lines.place(i)] = static_cast<T>(total = join(total, static_cast<Wide>(x[lines.place(i)])));
                return;
              }
              Wide totals[kStrip];
              std::fill_n(totals, columns, start);
              for (int64_t i = 0; i < lines.count; ++i) {
                const int64_t row = lines.place(i);
                for (int64_t j = 0; j < columns; ++j)
                  y[row + j] = static_cast<T>(totals[j] = join(totals[j], static_cast<Wide>(x[row + j])));
              }
            });
          })};
}

Prepared prepare_sum(const Facts& facts) {
  if (facts.in[0].dtype == DType::F32) return prepare_scan<float>(facts, 0.0, [](double a, double b) { return a + b; });
  return with_integer(facts.in[0].dtype, [&](auto number) {
    using T = decltype(number);
    return prepare_scan<T>(facts, T{0}, [](T a, T b) { return wrapped_sum(a, b); });
  });
}

Prepared prepare_prod(const Facts& facts) {
  if (facts.in[0].dtype == DType::F32) return prepare_scan<float>(facts, 1.0, [](double a, double b) { return a * b; });
  return with_integer(facts.in[0].dtype, [&](auto number) {
    using T = decltype(number);
    return prepare_scan<T>(facts, T{1}, [](T a, T b) { return wrapped_product(a, b); });
  });
}

// cumprod_grad(x, dy). Before the first zero: the sum of dy y from there on, over x. At the zero: the products without
// it. Behind it: zero.
void infer_grad(Infer& n) {
  n.expect_inputs(2, 2);
  n.out = {n.in[0]};
}

void fold_products(const Lines& lines, const float* x, const float* dy, float* dx) {
  double product = 1, rest = 0;
  int64_t zero = 0;
  for (; zero < lines.count && x[lines.place(zero)] != 0; ++zero)
    rest += dy[lines.place(zero)] * (product *= x[lines.place(zero)]);
  const double before_zero = product;
  product = 1;
  for (int64_t i = 0; i < zero; ++i) {
    const double number = x[lines.place(i)];
    product *= number;
    const double own = dy[lines.place(i)] * product;
    dx[lines.place(i)] = static_cast<float>(rest / number);
    rest -= own;
  }
  if (zero == lines.count) return;
  product = before_zero;
  double sum = dy[lines.place(zero)] * product;
  for (int64_t i = zero + 1; i < lines.count; ++i) sum += dy[lines.place(i)] * (product *= x[lines.place(i)]);
  dx[lines.place(zero)] = static_cast<float>(sum);
  for (int64_t i = zero + 1; i < lines.count; ++i) dx[lines.place(i)] = 0;
}

Prepared prepare_prod_grad(const Facts& facts) {
  const Lines lines(facts);
  return {.kernel = make_kernel([=](const Args& args) {
            for_lines(lines, [&](int64_t at, int64_t columns) {
              for (int64_t j = at; j < at + columns; ++j)
                fold_products(lines, args.input<float>(0) + j, args.input<float>(1) + j, args.output<float>(0) + j);
            });
          })};
}

BatchRule batch_rule(const Attrs& attrs, std::span<const TensorType> in) {
  return in[0].shape[static_cast<int>(attrs.i("axis"))].is_batch() ? BatchRule::Mixes : BatchRule::Rows;
}

const Op kCumprodGrad{.name = "cumprod_grad",
                      .infer = infer_grad,
                      .prepare = prepare_prod_grad,
                      .traits = {.batch = BatchRule::Rows, .recomputable = true},
                      .batch_rule = batch_rule};

void grad_sum(Backward& b) {
  b.give(0, cumsum(b.dy[0], static_cast<int>(b.attrs.i("axis")), false, b.attrs.i("reverse") == 0));
}
void grad_prod(Backward& b) { b.give(0, apply(kCumprodGrad, {b.x[0], b.dy[0]}, b.attrs)); }

using Function = Tensor (*)(Tensor x, int axis, bool exclusive, bool reverse, Name name);

template <Function scan>
std::vector<Sample> samples() {
  const auto along = [](const char* name, Shape shape, int axis, bool exclusive, bool reverse) {
    return Sample{name, [=](SampleBuilder& s) {
                    return std::vector{scan(s.input(shape, 0.5, 2), axis, exclusive, reverse, {})};
                  }};
  };
  return {along("last axis", {Dim::batch(), 3, 7}, -1, false, false),
          along("columns", {Dim::batch(), 4, 3}, 1, false, false),
          along("batch", {Dim::batch(), 3}, 0, false, false),
          along("exclusive", {Dim::batch(), 5}, 1, true, false),
          along("backwards", {Dim::batch(), 5, 2}, 1, false, true),
          along("exclusive backwards", {Dim::batch(), 5}, 1, true, true),
          {"zeros",
           [](SampleBuilder& s) {
             const Tensor kept = cast(s.integers({Dim::batch(), 3, 7}, -1, 4), DType::F32);
             return std::vector{scan(s.input({Dim::batch(), 3, 7}, 0.5, 1.5) * kept, 2, false, false, {})};
           }},
          {"integers",
           [](SampleBuilder& s) {
             return std::vector{scan(s.integers({Dim::batch(), 3, 7}, -3, 4), 1, false, false, {}),
                                scan(s.integers({Dim::batch(), 7}, 1, 4, DType::I64), 1, true, false, {})};
           },
           1e-4, false}};
}

constexpr Op make_scan(std::string_view name, void (*grad)(Backward&), Prepared (*prepare)(const Facts&),
                       std::vector<Sample> (*examples)(), std::string_view onnx) {
  return {.name = name,
          .storable = true,
          .infer = infer,
          .types = {DTypes{DType::F32, DType::I32, DType::I64}},
          .grad = grad,
          .prepare = prepare,
          .samples = examples,
          .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1},
          .batch_rule = batch_rule,
          .onnx = onnx};
}
const Op kCumsum = make_scan("cumsum", grad_sum, prepare_sum, samples<cumsum>, "CumSum");
const Op kCumprod = make_scan("cumprod", grad_prod, prepare_prod, samples<cumprod>, "");

Tensor scan_of(const Op& op, Tensor x, int axis, bool exclusive, bool reverse, double start, Name name) {
  const int at = resolve_axis(op.name, name, axis, x.type());
  if (exclusive) {
    // The elements move one place on, and the first is the sum or product of none.
    Dims before = Dims::filled(x.rank(), 0), after = before;
    (reverse ? after : before)[at] = 1;
    x = slice(pad(x, before, after, start), at, reverse ? 1 : 0, x.dim(at).fixed());
  }
  return apply(op, {x}, {{"axis", int64_t{at}}, {"reverse", int64_t{reverse}}}, name);
}

}  // namespace

Tensor cumsum(Tensor x, int axis, bool exclusive, bool reverse, Name name) {
  return scan_of(kCumsum, x, axis, exclusive, reverse, 0, name);
}
Tensor cumprod(Tensor x, int axis, bool exclusive, bool reverse, Name name) {
  return scan_of(kCumprod, x, axis, exclusive, reverse, 1, name);
}

OpList scan_ops() { return {&kCumsum, &kCumprod, &kCumprodGrad}; }

}  // namespace plimsoll::ops

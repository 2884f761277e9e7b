// gather_along: rows by number along any axis, of any type; take_along_axis: single elements by number. Their gradients
// add what was taken back into zeros. A number outside of its axis is reported; it reads as zeros.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "kernels/bad_values.h"
#include "kernels/integer_map.h"
#include "kernels/joined.h"
#include "ops/gather_along.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

constexpr DTypes kNumbersOfRows{DType::I32, DType::I64};

int axis_of(const Infer& n, const Shape& shape) {
  const int64_t axis = n.attrs.i("axis");
  if (axis < 0 || axis >= shape.rank()) n.fail(fmt::format("axis {} is outside {}", axis, to_string(n.in[0])));
  return static_cast<int>(axis);
}

// The first `shared` dimensions of table and rows are the same; the others of rows take the place of the axis.
void infer_gather(Infer& n) {
  n.expect_inputs(2, 2);
  const Shape& table = n.in[0].shape;
  const Shape& rows = n.in[1].shape;
  const int axis = axis_of(n, table);
  const int64_t shared = n.attrs.i("shared");
  bool fits = shared >= 0 && shared <= axis && shared <= rows.rank();
  for (int i = 0; fits && i < shared; ++i) fits = table[i] == rows[i];
  if (!fits)
    n.fail(fmt::format("{} and {} differ in the first {} dimensions", to_string(n.in[0]), to_string(n.in[1]), shared));
  Shape out;
  for (int i = 0; i < axis; ++i) out.push_back(table[i]);
  int batches = 0;
  if (out.rank() + rows.rank() - shared + table.rank() - axis - 1 > kMaxRank)
    n.fail(
        fmt::format("{} by {} would have more than {} dimensions", to_string(n.in[0]), to_string(n.in[1]), kMaxRank));
  for (int i = static_cast<int>(shared); i < rows.rank(); ++i) out.push_back(rows[i]);
  for (int i = axis + 1; i < table.rank(); ++i) out.push_back(table[i]);
  for (const Dim dim : out) batches += dim.is_batch() ? 1 : 0;
  if (batches > 1)
    n.fail(fmt::format("both {} and {} have the batch; share its dimension", to_string(n.in[0]), to_string(n.in[1])));
  n.out = {{n.in[0].dtype, out}};
}

void infer_gather_back(Infer& n) {
  n.expect_inputs(2, 2);
  const Shape& dy = n.in[0].shape;
  const auto axis = static_cast<int>(n.attrs.i("axis"));
  const auto shared = static_cast<int>(n.attrs.i("shared"));
  Shape out;
  for (int i = 0; i < axis; ++i) out.push_back(dy[i]);
  out.push_back(n.attrs.shape("size")[0]);
  for (int i = axis + n.in[1].shape.rank() - shared; i < dy.rank(); ++i) out.push_back(dy[i]);
  n.out = {{n.in[0].dtype, out}};
}

// Of the table: [groups, outer, size, inner]; of rows: [groups, count].
struct GatheredRows {
  GatheredRows(const Dims& table, const Dims& rows, const Attrs& attrs) {
    const int64_t axis = attrs.i("axis"), shared = attrs.i("shared");
    for (int i = 0; i < table.rank(); ++i)
      (i < shared ? groups : i < axis ? outer : i == axis ? size : inner) *= table[i];
    for (int i = static_cast<int>(shared); i < rows.rank(); ++i) count *= rows[i];
  }
  int64_t groups = 1, outer = 1, size = 1, inner = 1, count = 1;
};

template <class T>
std::shared_ptr<Kernel> make_gather(const GatheredRows& n, Bytes item) {
  const Bytes width = n.inner * item;
  return make_kernel([=](const Args& args) {
    const T* rows = args.input<T>(1);
    FirstBad bad;
    parallel_for(n.groups * n.outer * n.count, 1 + 16384 / (width + 1), [&](int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t) {
        const int64_t place = t / n.count / n.outer * n.count + t % n.count;
        const auto row = static_cast<int64_t>(rows[place]);
        auto* to = args.output<std::byte>(0) + t * width;
        if (row >= 0 && row < n.size) {
          std::memcpy(to, args.input<std::byte>(0) + (t / n.count * n.size + row) * width, static_cast<size_t>(width));
        } else {
          std::memset(to, 0, static_cast<size_t>(width));
          bad.found(place);
        }
      }
    });
    bad.report(args, "row", 1, rows, n.size);
  });
}

Prepared prepare_gather(const Facts& facts) {
  const GatheredRows n(facts.in[0].dims, facts.in[1].dims, facts.attrs);
  const Bytes item = size_of(facts.in[0].dtype);
  return {.kernel =
              with_integer(facts.in[1].dtype, [&](auto number) { return make_gather<decltype(number)>(n, item); })};
}

// Each piece owns a range of the result's rows and reads all numbers of theirs: repeats add up in order.
template <class T>
std::shared_ptr<Kernel> make_gather_back(const GatheredRows& n, bool accumulate) {
  return make_kernel([=](const Args& args) {
    const auto* dy = args.input<float>(0);
    const T* rows = args.input<T>(1);
    auto* dx = args.output<float>(0);
    FirstBad bad;
    parallel_for(n.groups * n.outer * n.size, 1 + 16384 / (n.inner + 1), [&](int64_t first, int64_t last) {
      if (!accumulate) std::fill(dx + first * n.inner, dx + last * n.inner, 0.0F);
      for (int64_t o = first / n.size; o * n.size < last; ++o) {
        const int64_t low = std::max(first - o * n.size, int64_t{0}), high = std::min(last - o * n.size, n.size);
        const int64_t group = o / n.outer * n.count;
        for (int64_t i = 0; i < n.count; ++i) {
          const auto row = static_cast<int64_t>(rows[group + i]);
          if (row < 0 || row >= n.size) bad.found(group + i);
          if (row < low || row >= high) continue;
          float* to = dx + (o * n.size + row) * n.inner;
          const float* from = dy + (o * n.count + i) * n.inner;
          for (int64_t j = 0; j < n.inner; ++j) to[j] += from[j];
        }
      }
    });
    bad.report(args, "row", 1, rows, n.size);
  });
}

Prepared prepare_gather_back(const Facts& facts) {
  const GatheredRows n(facts.out[0].dims, facts.in[1].dims, facts.attrs);
  return {.kernel = with_integer(facts.in[1].dtype,
                                 [&](auto number) { return make_gather_back<decltype(number)>(n, facts.accumulate); })};
}

BatchRule rule_of_gather(const Attrs& attrs, std::span<const TensorType> in) {
  return in[0].shape[static_cast<int>(attrs.i("axis"))].is_batch() ? BatchRule::Mixes : BatchRule::Rows;
}
// Rows of the batch that go into a table without one are summed.
BatchRule rule_of_gather_back(const Attrs& attrs, std::span<const TensorType> in) {
  if (attrs.shape("size")[0].is_batch()) return BatchRule::Mixes;
  const auto shared = static_cast<int>(attrs.i("shared"));
  for (int i = shared; i < in[1].shape.rank(); ++i)
    if (in[1].shape[i].is_batch()) return BatchRule::Sums;
  return BatchRule::Rows;
}

extern const Op kGatherAlong;
void grad_gather_back(Backward& b) {
  if (!b.wanted[0]) return;
  b.give(0, apply(kGatherAlong, {b.dy[0], b.x[1]}, {{"axis", b.attrs.i("axis")}, {"shared", b.attrs.i("shared")}}));
}
const Op kGatherBack{.name = "gather_along_back",
                     .infer = infer_gather_back,
                     .types = {DType::F32, kNumbersOfRows},
                     .grad = grad_gather_back,
                     .prepare = prepare_gather_back,
                     .traits = {.batch = BatchRule::Rows, .recomputable = true},
                     .batch_rule = rule_of_gather_back};
void grad_gather(Backward& b) {
  if (!b.wanted[0]) return;
  Attrs attrs = b.attrs;
  attrs.set("size", Shape{b.x[0].dim(static_cast<int>(attrs.i("axis")))});
  b.give(0, apply(kGatherBack, {b.dy[0], b.x[1]}, attrs));
}

std::vector<Sample> samples_gather() {
  return {{"columns",
           [](SampleBuilder& s) {
             return std::vector{gather(s.input({Dim::batch(), 4, 3}), s.integers({5}, 0, 4), 1)};
           }},
          {"last axis",
           [](SampleBuilder& s) {
             return std::vector{gather(s.input({2, 7}), s.integers({Dim::batch(), 3}, 0, 7, DType::I64), -1)};
           }},
          {"of each sample",
           [](SampleBuilder& s) {
             return std::vector{gather(s.input({Dim::batch(), 5, 2}), s.integers({Dim::batch(), 3}, 0, 5), 1, 1)};
           }},
          {"points",
           [](SampleBuilder& s) {
             const Tensor at = concat({s.integers({Dim::batch(), 3, 1}, 0, 4, DType::I64),
                                       s.integers({Dim::batch(), 3, 1}, 0, 5, DType::I64)},
                                      2);
             return std::vector{gather_nd(s.input({4, 5, 2}), at)};
           }},
          {"integers",
           [](SampleBuilder& s) {
             return std::vector{gather(s.integers({Dim::batch(), 4}, 0, 100, DType::I64), s.integers({2}, 0, 4), 1)};
           },
           1e-4, false}};
}

const Op kGatherAlong{
    .name = "gather_along",
    .storable = true,
    .infer = infer_gather,
    .types = {kAnyType, kNumbersOfRows},
    .grad = grad_gather,
    .prepare = prepare_gather,
    .cost = [](const Facts& facts) { return Cost{.bytes = 2.0 * static_cast<double>(facts.out[0].bytes())}; },
    .samples = samples_gather,
    .traits = {.batch = BatchRule::Rows, .recomputable = true},
    .batch_rule = rule_of_gather};

// take_along_axis(x, numbers): both of the same shape but for the axis.
void infer_take(Infer& n) {
  n.expect_inputs(2, 2);
  const Shape& x = n.in[0].shape;
  const Shape& numbers = n.in[1].shape;
  const int axis = axis_of(n, x);
  bool fits = numbers.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i)
    fits = i == axis ? numbers[i].is_batch() == x[i].is_batch() : numbers[i] == x[i];
  if (!fits) n.fail(fmt::format("{} and {} differ in more than axis {}", to_string(n.in[0]), to_string(n.in[1]), axis));
  n.out = {{n.in[0].dtype, numbers}};
}

void infer_take_back(Infer& n) {
  n.expect_inputs(2, 2);
  Shape out = n.in[0].shape;
  out[static_cast<int>(n.attrs.i("axis"))] = n.attrs.shape("size")[0];
  n.out = {{n.in[0].dtype, out}};
}

struct Lines {
  Lines(const Dims& x, const Dims& numbers, int64_t axis) : size(x[static_cast<int>(axis)]) {
    for (int i = 0; i < x.rank(); ++i) (i < axis ? outer : i == axis ? count : inner) *= numbers[i];
  }
  int64_t outer = 1, size, count = 1, inner = 1;
};

template <class T, class Element>
std::shared_ptr<Kernel> make_take(const Lines& n) {
  return make_kernel([=](const Args& args) {
    const T* numbers = args.input<T>(1);
    const auto* x = args.input<Element>(0);
    auto* y = args.output<Element>(0);
    FirstBad bad;
    parallel_for(n.outer * n.count, 1 + 8192 / (n.inner + 1), [&](int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t)
        for (int64_t j = 0; j < n.inner; ++j) {
          const auto at = static_cast<int64_t>(numbers[t * n.inner + j]);
          const bool is_inside = at >= 0 && at < n.size;
          y[t * n.inner + j] = is_inside ? x[(t / n.count * n.size + at) * n.inner + j] : Element{};
          if (!is_inside) bad.found(t * n.inner + j);
        }
    });
    bad.report(args, "row", 1, numbers, n.size);
  });
}

Prepared prepare_take(const Facts& facts) {
  const Lines n(facts.in[0].dims, facts.in[1].dims, facts.attrs.i("axis"));
  return {.kernel = with_integer(facts.in[1].dtype, [&](auto number) {
            using T = decltype(number);
            switch (size_of(facts.in[0].dtype)) {
              case 1:
                return make_take<T, uint8_t>(n);
              case 2:
                return make_take<T, uint16_t>(n);
              case 4:
                return make_take<T, uint32_t>(n);
              default:
                return make_take<T, uint64_t>(n);
            }
          })};
}

template <class T>
std::shared_ptr<Kernel> make_take_back(const Lines& n) {
  return make_kernel([=](const Args& args) {
    const auto* dy = args.input<float>(0);
    const T* numbers = args.input<T>(1);
    auto* dx = args.output<float>(0);
    FirstBad bad;
    const int64_t work = std::max<int64_t>(1, std::max(n.count, n.size) * n.inner);
    parallel_for(n.outer, 1 + 8192 / work, [&](int64_t first, int64_t last) {
      for (int64_t o = first; o < last; ++o) {
        float* to = dx + o * n.size * n.inner;
        std::fill_n(to, n.size * n.inner, 0.0F);
        for (int64_t i = o * n.count * n.inner; i < (o + 1) * n.count * n.inner; ++i) {
          const auto at = static_cast<int64_t>(numbers[i]);
          if (at >= 0 && at < n.size)
            to[at * n.inner + i % n.inner] += dy[i];
          else
            bad.found(i);
        }
      }
    });
    bad.report(args, "row", 1, numbers, n.size);
  });
}

Prepared prepare_take_back(const Facts& facts) {
  const Lines n(facts.out[0].dims, facts.in[1].dims, facts.attrs.i("axis"));
  return {.kernel = with_integer(facts.in[1].dtype, [&](auto number) { return make_take_back<decltype(number)>(n); })};
}

extern const Op kTakeAlong;
void grad_take_back(Backward& b) {
  if (b.wanted[0]) b.give(0, apply(kTakeAlong, {b.dy[0], b.x[1]}, {{"axis", b.attrs.i("axis")}}));
}
const Op kTakeBack{.name = "take_along_axis_back",
                   .infer = infer_take_back,
                   .types = {DType::F32, kNumbersOfRows},
                   .grad = grad_take_back,
                   .prepare = prepare_take_back,
                   .traits = {.batch = BatchRule::Rows, .recomputable = true},
                   .batch_rule = rule_of_gather};
void grad_take(Backward& b) {
  if (!b.wanted[0]) return;
  b.give(0, put_along_axis(b.dy[0], b.x[1], static_cast<int>(b.attrs.i("axis")), b.x[0].shape()));
}

std::vector<Sample> samples_take() {
  return {{"last axis",
           [](SampleBuilder& s) {
             return std::vector{take_along_axis(s.input({Dim::batch(), 3, 7}), s.integers({Dim::batch(), 3, 4}, 0, 7))};
           }},
          {"columns",
           [](SampleBuilder& s) {
             return std::vector{
                 take_along_axis(s.input({Dim::batch(), 5, 3}), s.integers({Dim::batch(), 2, 3}, 0, 5, DType::I64), 1)};
           }},
          {"integers",
           [](SampleBuilder& s) {
             return std::vector{take_along_axis(s.integers({Dim::batch(), 5}, 0, 99, DType::I64),
                                                s.integers({Dim::batch(), 3}, 0, 5))};
           },
           1e-4, false}};
}

const Op kTakeAlong{.name = "take_along_axis",
                    .storable = true,
                    .infer = infer_take,
                    .types = {kAnyType, kNumbersOfRows},
                    .grad = grad_take,
                    .prepare = prepare_take,
                    .samples = samples_take,
                    .traits = {.batch = BatchRule::Rows, .recomputable = true},
                    .batch_rule = rule_of_gather,
                    .onnx = "GatherElements"};

}  // namespace

Tensor put_along_axis(Tensor dy, Tensor numbers, int axis, const Shape& whole) {
  return apply(kTakeBack, {dy, numbers}, {{"axis", int64_t{axis}}, {"size", Shape{whole[axis]}}});
}

Tensor gather_along(Tensor table, Tensor rows, int axis, int64_t shared, Name name) {
  const int at = resolve_axis("gather", name, axis, table.type());
  return apply(kGatherAlong, {table, rows}, {{"axis", int64_t{at}}, {"shared", shared}}, name);
}

Tensor take_along_axis(Tensor x, Tensor numbers, int axis, Name name) {
  const int at = resolve_axis("take_along_axis", name, axis, x.type());
  return apply(kTakeAlong, {x, numbers}, {{"axis", int64_t{at}}}, name);
}

// The number of a point among all points of the first dimensions.
Tensor flat_rows(std::string_view op, Tensor table, Tensor points, int first, Name name) {
  const int64_t count = points.rank() == 0 || points.dim(-1).is_batch() ? 0 : points.dim(-1).fixed();
  if (count < 1 || first + count > table.rank())
    throw Error(fmt::format("{} '{}': the last dimension of {} must be 1 to {}, the numbers of a place in {}", op,
                            std::string_view(name), to_string(points.type()), table.rank() - first,
                            to_string(table.type())));
  Tensor rows;
  int64_t stride = 1;
  for (int64_t i = count - 1; i >= 0; --i) {
    const Tensor number = squeeze(slice(points, -1, i, 1), -1);
    rows = rows.is_set() ? add(rows, scale(number, static_cast<double>(stride))) : number;
    stride *= table.dim(first + static_cast<int>(i)).fixed();
  }
  return rows;
}

Shape flat_shape(const Shape& table, int first, int64_t count) {
  Shape shape;
  Dim merged = 1;
  for (int i = 0; i < table.rank(); ++i) {
    if (i < first || i >= first + count) shape.push_back(table[i]);
    if (i >= first && i < first + count) merged = merged * table[i];
    if (i + 1 == first + count) shape.push_back(merged);
  }
  return shape;
}

Tensor gather_nd(Tensor table, Tensor points, int64_t shared, Name name) {
  const Tensor rows = flat_rows("gather_nd", table, points, static_cast<int>(shared), name);
  const Shape flat = flat_shape(table.shape(), static_cast<int>(shared), points.dim(-1).fixed());
  return gather_along(reshape(table, flat), rows, static_cast<int>(shared), shared, name);
}

OpList gather_along_ops() { return {&kGatherAlong, &kGatherBack, &kTakeAlong, &kTakeBack}; }

}  // namespace plimsoll::ops

// scatter: rows of a tensor replaced by others, or joined with them: added, multiplied, the larger or the smaller of
// both. Of repeated rows each counts in turn, so the last one replaces. A row outside is reported and left out.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "kernels/bad_values.h"
#include "kernels/integer_map.h"
#include "kernels/joined.h"
#include "kernels/reduction.h"
#include "ops/gather_along.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

constexpr std::string_view kWays = "set, add, mul, max, min";

void infer(Infer& n) {
  n.expect_inputs(3, 3);
  const int64_t axis = n.attrs.i("axis");
  if (axis < 0 || axis >= n.in[0].shape.rank()) n.fail(fmt::format("axis {} is outside {}", axis, to_string(n.in[0])));
  Shape values = n.in[0].shape;
  if (values[static_cast<int>(axis)].is_batch())
    n.fail(fmt::format("axis {} of {} is the batch", axis, to_string(n.in[0])));
  if (n.in[1].shape.rank() != 1) n.fail(fmt::format("rows {} must be one list", to_string(n.in[1])));
  values[static_cast<int>(axis)] = n.in[1].shape[0];
  if (!(n.in[2].shape == values) || n.in[2].dtype != n.in[0].dtype)
    n.fail(fmt::format("rows {} of {} take values of {} but have {}", to_string(n.in[1]), to_string(n.in[0]),
                       to_string(TensorType{n.in[0].dtype, values}), to_string(n.in[2])));
  const std::string_view how = n.attrs.s("how", "set");
  if (how != "set" && how != "add" && how != "mul" && how != "max" && how != "min")
    n.fail(fmt::format("mode '{}' is unknown; known are {}", how, kWays));
  if (how != "set" && n.op == "scatter") n.fail(fmt::format("mode '{}' is that of scatter_join", how));
  n.out = {n.in[0]};
}

struct ScatteredRows {
  ScatteredRows(const Facts& facts) : count(facts.in[1].count()) {  // NOLINT(google-explicit-constructor)
    const int64_t axis = facts.attrs.i("axis");
    const Dims& dims = facts.in[0].dims;
    for (int i = 0; i < dims.rank(); ++i) (i < axis ? outer : i == axis ? size : inner) *= dims[i];
  }
  int64_t outer = 1, size = 1, inner = 1, count;
};

constexpr int64_t kColumns = 4096;  // of a row that one thread writes

template <class Row, class T, class Join>
std::shared_ptr<Kernel> make_scatter(const ScatteredRows& n, const Join& join) {
  return make_kernel([=](const Args& args) {
    const T* x = args.input<T>(0);
    const Row* rows = args.input<Row>(1);
    const T* values = args.input<T>(2);
    T* y = args.output<T>(0);
    const int64_t elements = n.outer * n.size * n.inner;
    if (x != y)
      parallel_for(elements, 65536, [&](int64_t first, int64_t last) { std::copy(x + first, x + last, y + first); });
    const int64_t strips = (n.inner + kColumns - 1) / kColumns;
    const int64_t work = std::max<int64_t>(1, n.count * std::min(n.inner, kColumns));
    FirstBad bad;
    for (int64_t i = 0; i < n.count; ++i)
      if (rows[i] < 0 || rows[i] >= n.size) bad.found(i);
    parallel_for(n.outer * strips, std::max<int64_t>(1, 16384 / work), [&](int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t) {
        const int64_t o = t / strips, column = t % strips * kColumns;
        const int64_t width = std::min(kColumns, n.inner - column);
        for (int64_t i = 0; i < n.count; ++i) {
          if (rows[i] < 0 || rows[i] >= n.size) continue;
          T* to = y + (o * n.size + rows[i]) * n.inner + column;
          const T* from = values + (o * n.count + i) * n.inner + column;
          for (int64_t j = 0; j < width; ++j) to[j] = join(to[j], from[j]);
        }
      }
    });
    bad.report(args, "row", 1, rows, n.size);
  });
}

template <class Row, class T>
std::shared_ptr<Kernel> make_joining(const ScatteredRows& n, std::string_view how) {
  if constexpr (std::is_same_v<T, float>) {
    if (how == "add") return make_scatter<Row, T>(n, [](T a, T b) { return a + b; });
    if (how == "mul") return make_scatter<Row, T>(n, [](T a, T b) { return a * b; });
    if (how == "max") return make_scatter<Row, T>(n, [](T a, T b) { return larger(a, b); });
    return make_scatter<Row, T>(n, [](T a, T b) { return smaller(a, b); });
  } else {
    if (how == "add") return make_scatter<Row, T>(n, [](T a, T b) { return wrapped_sum(a, b); });
    if (how == "mul") return make_scatter<Row, T>(n, [](T a, T b) { return wrapped_product(a, b); });
    if (how == "max") return make_scatter<Row, T>(n, [](T a, T b) { return std::max(a, b); });
    return make_scatter<Row, T>(n, [](T a, T b) { return std::min(a, b); });
  }
}

template <class Row>
std::shared_ptr<Kernel> make_kernel_of(const Facts& facts) {
  const ScatteredRows n(facts);
  const std::string_view how = facts.attrs.s("how", "set");
  const auto replace = [](auto, auto b) { return b; };
  if (how == "set") {
    switch (size_of(facts.in[0].dtype)) {
      case 1:
        return make_scatter<Row, uint8_t>(n, replace);
      case 2:
        return make_scatter<Row, uint16_t>(n, replace);
      case 4:
        return make_scatter<Row, uint32_t>(n, replace);
      default:
        return make_scatter<Row, uint64_t>(n, replace);
    }
  }
  if (facts.in[0].dtype == DType::F32) return make_joining<Row, float>(n, how);
  if (facts.in[0].dtype == DType::I32) return make_joining<Row, int32_t>(n, how);
  return make_joining<Row, int64_t>(n, how);
}

Prepared prepare(const Facts& facts) {
  return {.kernel =
              with_integer(facts.in[1].dtype, [&](auto number) { return make_kernel_of<decltype(number)>(facts); })};
}

// Rows differ where the gradient counts: of repeated ones each would get all of it.
void grad(Backward& b) {
  const auto axis = static_cast<int>(b.attrs.i("axis"));
  const std::string_view how = b.attrs.s("how", "set");
  const Tensor dy = b.dy[0], rows = b.x[1];
  const auto rows_of = [&](Tensor x) { return gather_along(x, rows, axis, 0); };
  if (how == "set") {
    if (b.wanted[0]) b.give(0, scatter(dy, rows, scale(b.x[2], 0), axis));
    if (b.wanted[2]) b.give(2, rows_of(dy));
  } else if (how == "add") {
    if (b.wanted[0]) b.give(0, dy);
    if (b.wanted[2]) b.give(2, rows_of(dy));
  } else if (how == "mul") {
    if (b.wanted[0]) b.give(0, scatter(dy, rows, b.x[2], axis, "mul"));
    if (b.wanted[2]) b.give(2, mul(rows_of(dy), rows_of(b.x[0])));
  } else {
    const Tensor zero = dy.graph().scalar(0);
    if (b.wanted[0]) b.give(0, where(equal(b.x[0], b.y[0]), dy, zero));
    if (b.wanted[2]) b.give(2, where(equal(b.x[2], rows_of(b.y[0])), rows_of(dy), zero));
  }
}

BatchRule batch_rule(const Attrs&, std::span<const TensorType> in) {
  return in[1].shape[0].is_batch() || element_count(in[2].shape).is_batch() != element_count(in[0].shape).is_batch()
             ? BatchRule::Mixes
             : BatchRule::Rows;
}

// Rows that differ: those of argsort would do, but constants are simpler to read.
Tensor some_rows(SampleBuilder& s, std::initializer_list<int32_t> rows) {
  const auto bytes = std::as_bytes(std::span(rows.begin(), rows.size()));
  return s.graph().constant(DType::I32, {static_cast<int64_t>(rows.size())}, bytes);
}

template <bool joins>
std::vector<Sample> samples() {
  std::vector<Sample> all;
  for (const char* how : {"set", "add", "mul", "max", "min"}) {
    if ((std::string_view(how) != "set") != joins) continue;
    all.push_back({how, [=](SampleBuilder& s) {
                     const Tensor x = s.input({Dim::batch(), 5, 3}, 1, 2), y = s.input({4, 5}, -2, -1);
                     return std::vector{
                         scatter(x, some_rows(s, {4, 0, 3}), s.input({Dim::batch(), 3, 3}, 3, 4), 1, how),
                         scatter(y, some_rows(s, {2, 1}), s.input({2, 5}, -4, -3), 0, how)};
                   }});
  }
  const char* how = joins ? "add" : "set";
  all.push_back({"rows of a step",
                 [=](SampleBuilder& s) {
                   return std::vector{scatter(s.input({7, 3}), s.integers({4}, 0, 7), s.input({4, 3}), 0, how)};
                 },
                 1e-4, joins});
  all.push_back(
      {"points",
       [=](SampleBuilder& s) {
         const Tensor at = concat({s.integers({3, 1}, 0, 4, DType::I64), s.integers({3, 1}, 0, 5, DType::I64)}, 1);
         return std::vector{scatter_nd(s.input({4, 5, 2}), at, s.input({3, 2}), how)};
       },
       1e-4, joins});
  all.push_back({"integers",
                 [=](SampleBuilder& s) {
                   const Tensor x = s.integers({Dim::batch(), 4}, 0, 100, DType::I64);
                   return std::vector{scatter(x, s.integers({2}, 0, 4, DType::I64),
                                              s.integers({Dim::batch(), 2}, 0, 100, DType::I64), 1, how)};
                 },
                 1e-4, false});
  return all;
}

constexpr DTypes kJoined{DType::F32, DType::I32, DType::I64};
constexpr DTypes kRowTypes{DType::I32, DType::I64};
const Op kScatter{.name = "scatter",
                  .storable = true,
                  .infer = infer,
                  .types = {kAnyType, kRowTypes, kAnyType},
                  .grad = grad,
                  .prepare = prepare,
                  .samples = samples<false>,
                  .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1},
                  .batch_rule = batch_rule};
const Op kScatterJoin{.name = "scatter_join",
                      .storable = true,
                      .infer = infer,
                      .types = {kJoined, kRowTypes, kJoined},
                      .grad = grad,
                      .prepare = prepare,
                      .samples = samples<true>,
                      .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1},
                      .batch_rule = batch_rule};

}  // namespace

Tensor scatter(Tensor x, Tensor rows, Tensor values, int axis, std::string_view how, Name name) {
  const int at = resolve_axis("scatter", name, axis, x.type());
  return apply(how == "set" ? kScatter : kScatterJoin, {x, rows, values},
               {{"axis", int64_t{at}}, {"how", std::string(how)}}, name);
}

Tensor scatter_nd(Tensor x, Tensor points, Tensor values, std::string_view how, Name name) {
  Tensor rows = flat_rows("scatter_nd", x, points, 0, name);
  const int64_t count = points.dim(-1).fixed();
  const Shape flat = flat_shape(x.shape(), 0, count);
  rows = reshape(rows, {element_count(rows.shape())});
  Shape list = flat;
  list[0] = rows.dim(0);
  return reshape(scatter(reshape(x, flat), rows, reshape(values, list), 0, how), x.shape(), name);
}

OpList scatter_ops() { return {&kScatter, &kScatterJoin}; }

}  // namespace plimsoll::ops

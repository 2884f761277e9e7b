// bincount, and sums, means and extremes of the rows of segments: composed of scatters.
#include <algorithm>

#include <fmt/format.h>

#include "kernels/bad_values.h"
#include "kernels/integer_map.h"
#include "ops/gather_along.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

void infer_count(Infer& n) {
  n.expect_inputs(1, 1);
  const int64_t bins = n.attrs.i("bins");
  if (bins < 1) n.fail(fmt::format("bins must be at least 1 but are {}", bins));
  n.out = {{DType::I32, {bins}}};
}

// Each piece owns a range of the bins and reads all numbers, unless the bins are few: then there is one piece.
template <class T>
std::shared_ptr<Kernel> make_count(int64_t count, int64_t bins, bool accumulate) {
  return make_kernel([=](const Args& args) {
    const T* numbers = args.input<T>(0);
    auto* y = args.output<int32_t>(0);
    FirstBad bad;
    parallel_for(bins, 16384, [&](int64_t first, int64_t last) {
      if (!accumulate) std::fill(y + first, y + last, 0);
      for (int64_t i = 0; i < count; ++i) {
        if (numbers[i] >= first && numbers[i] < last) ++y[numbers[i]];
        if (first == 0 && (numbers[i] < 0 || numbers[i] >= bins)) bad.found(i);
      }
    });
    bad.report(args, "row", 0, numbers, bins);
  });
}

Prepared prepare_count(const Facts& facts) {
  return {.kernel = with_integer(facts.in[0].dtype, [&](auto number) {
            return make_count<decltype(number)>(facts.in[0].count(), facts.out[0].count(), facts.accumulate);
          })};
}

std::vector<Sample> samples_count() {
  return {
      {"numbers",
       [](SampleBuilder& s) {
         return std::vector{bincount(s.integers({Dim::batch(), 7}, 0, 5), 5)};
       },
       1e-4, false},
      {"long", [](SampleBuilder& s) { return std::vector{bincount(s.integers({Dim::batch()}, 0, 9, DType::I64), 12)}; },
       1e-4, false}};
}

const Op kBincount{.name = "bincount",
                   .storable = true,
                   .infer = infer_count,
                   .types = {{DType::I32, DType::I64}},
                   .prepare = prepare_count,
                   .samples = samples_count,
                   .traits = {.batch = BatchRule::Sums, .recomputable = true}};

using Function = Tensor (*)(Tensor values, Tensor numbers, int64_t segments, Name name);

// Extremes of no rows are infinite, which golden values can't be.
template <Function reduce, bool is_sum>
std::vector<Sample> samples() {
  const auto finite = [](Tensor y) { return is_sum ? y : clip(y, -99, 99); };
  return {{"rows",
           [=](SampleBuilder& s) {
             const Tensor rows = s.input({Dim::batch(3), 2}, -30, 30);
             return std::vector{finite(reduce(rows, s.integers({Dim::batch(3)}, 0, 4), 4, {}))};
           },
           1e-4, is_sum},
          {"one number each",
           [=](SampleBuilder& s) {
             const Tensor rows = s.input({7}, -30, 30);
             return std::vector{finite(reduce(rows, s.integers({7}, 0, 3), 3, {}))};
           },
           1e-4, is_sum}};
}

const Op kComposed[] = {{.name = "segment_sum", .samples = samples<segment_sum, true>},
                        {.name = "segment_mean", .samples = samples<segment_mean, true>},
                        {.name = "segment_max", .samples = samples<segment_max, false>},
                        {.name = "segment_min", .samples = samples<segment_min, false>}};

void expect_rows(std::string_view function, Tensor values, Tensor numbers, Name name) {
  if (values.rank() < 1 || numbers.rank() != 1 || !(values.dim(0) == numbers.dim(0)))
    throw Error(fmt::format("{} '{}': {} must name a segment for each row of {}", function, std::string_view(name),
                            to_string(numbers.type()), to_string(values.type())));
}

// [segments, ...] as the rows of values.
Shape shape_of(Tensor values, int64_t segments) {
  Shape shape = values.shape();
  shape[0] = segments;
  return shape;
}

Tensor extreme(std::string_view function, Tensor values, Tensor numbers, int64_t segments, bool is_max, Name name) {
  expect_rows(function, values, numbers, name);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Tensor start = values.graph().scalar(is_max ? -kInfinity : kInfinity);
  return scatter(broadcast_to(start, shape_of(values, segments)), numbers, values, 0, is_max ? "max" : "min", name);
}

}  // namespace

Tensor segment_sum(Tensor values, Tensor numbers, int64_t segments, Name name) {
  expect_rows("segment_sum", values, numbers, name);
  const Shape whole = shape_of(values, segments);
  int64_t width = 1;
  for (int i = 1; i < values.rank(); ++i) width *= values.dim(i).fixed();
  const Tensor rows = reshape(values, {values.dim(0), width});
  return reshape(scatter_rows(rows, cast(numbers, DType::I32), {segments, width}), whole, name);
}

Tensor segment_mean(Tensor values, Tensor numbers, int64_t segments, Name name) {
  const Tensor sum = segment_sum(values, numbers, segments, name);
  const Tensor count = maximum(cast(bincount(numbers, segments), DType::F32), sum.graph().scalar(1));
  Shape column{segments};
  for (int i = 1; i < values.rank(); ++i) column.push_back(1);
  return div(sum, reshape(count, column), name);
}

Tensor segment_max(Tensor values, Tensor numbers, int64_t segments, Name name) {
  return extreme("segment_max", values, numbers, segments, true, name);
}
Tensor segment_min(Tensor values, Tensor numbers, int64_t segments, Name name) {
  return extreme("segment_min", values, numbers, segments, false, name);
}

Tensor bincount(Tensor numbers, int64_t bins, Name name) { return apply(kBincount, {numbers}, {{"bins", bins}}, name); }

OpList segments_ops() {
  OpList all{&kBincount};
  for (const Op& op : kComposed) all.push_back(&op);
  return all;
}

}  // namespace plimsoll::ops

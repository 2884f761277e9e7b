// sum_squares: the squared norm of a gradient, for clipping. In a row-sparse gradient, repeats of a row are added
// first.
#include <fmt/format.h>

#include "kernels/bad_values.h"
#include "kernels/blocks.h"
#include "kernels/element_runs.h"
#include "kernels/row_sort.h"
#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/updates/sum_squares.cpp"
#include <hwy/foreach_target.h>

#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

// Short runs are summed in float, the runs in double.
double squares(const float* x, int64_t count) {
  const FloatTag d;
  double sum = 0;
  constexpr int64_t kRun = 1024;
  for (int64_t first = 0; first < count; first += kRun) {
    Floats part_sum = hn::Zero(d);
    for_vectors(HWY_MIN(kRun, count - first), [&](int64_t i, auto part) HWY_ATTR {
      const Floats v = part.load(d, x + first + i);
      part_sum = hn::MulAdd(v, v, part_sum);
    });
    sum += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, part_sum)));
  }
  return sum;
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(squares);

void infer(Infer& n) {
  n.expect_inputs(1, 2);
  if (n.in.size() == 2 &&
      (n.in[0].shape.rank() != 2 || !(n.in[1].shape == Shape{n.in[0].shape[0]}) || n.attrs.shape("table").rank() != 2))
    n.fail(fmt::format("rows {} with values {} are no gradient of a table {}", to_string(n.in[1]), to_string(n.in[0]),
                       to_string(n.attrs.shape("table"))));
  n.out = {{DType::F32, {}}};
}

Prepared prepare(const Facts& facts) {
  if (facts.in.size() == 1) {
    // The layout changes only the last bits of the result.
    ConcreteType type = facts.in[0];
    if (facts.attrs.i("row_major", 0) != 0) type.layout = Layout();
    const ElementRuns runs(type);
    return {.kernel = make_kernel([=](const Args& args) {
              const auto* x = args.input<float>(0);
              *args.output<float>(0) = static_cast<float>(
                  sum_in_blocks(runs.places(), 16384, args.workspace, [&](int64_t begin, int64_t end) {
                    double sum = 0;
                    runs.for_each(begin, end, [&](int64_t first, int64_t count) {
                      sum += HWY_DYNAMIC_DISPATCH(squares)(x + first, count);
                    });
                    return sum;
                  }));
            }),
            .in = {runs.layout()},
            .workspace_bytes = kBlockSumBytes};
  }
  const int64_t table_rows = facts.attrs.dims("table")[0];
  const int64_t width = facts.in[0].dims[1];
  const int64_t ids = facts.in[0].dims[0];
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* values = args.input<float>(0);
            auto* sort_workspace = static_cast<std::byte*>(args.workspace) + kBlockSumBytes;
            const SortedRows rows = sort_rows(args.input<int32_t>(1), ids, table_rows, sort_workspace);
            if (rows.count < ids) report_bad_rows(args, 1, args.input<int32_t>(1), ids, table_rows);
            const auto sum_rows = [&](int64_t first, int64_t last) {
              float sum[512];
              double total = 0;
              // A row belongs to the block in which its first entry lies.
              while (first > 0 && first < last && row_of(rows.entries[first]) == row_of(rows.entries[first - 1]))
                ++first;
              for (int64_t at = first, end = at; at < last; at = end) {
                end = rows.end_of_row(at);
                for (int64_t from = 0; from < width; from += 512) {
                  const int64_t to = std::min<int64_t>(width, from + 512);
                  total += HWY_DYNAMIC_DISPATCH(squares)(sum_entries(rows, at, end, values, width, from, to, sum),
                                                         to - from);
                }
              }
              return total;
            };
            *args.output<float>(0) =
                static_cast<float>(sum_in_blocks(rows.count, 1 + 16384 / (width + 1), args.workspace, sum_rows));
          }),
          .workspace_bytes = kBlockSumBytes + row_sort_bytes(ids)};
}

std::vector<Sample> samples() {
  return {{"dense",
           [](SampleBuilder& s) {
             return std::vector{sum_squares({s.input({5, 7}), {}}, {5, 7})};
           },
           1e-4, false},
          {"rows",
           [](SampleBuilder& s) {
             return std::vector{sum_squares({s.input({Dim::batch(3), 7}), s.integers({Dim::batch(3)}, 0, 5)}, {5, 7})};
           },
           1e-4, false}};
}

const Op kSumSquares{.name = "sum_squares",
                     .infer = infer,
                     .types = {DType::F32, DType::I32},
                     .prepare = prepare,
                     .samples = samples,
                     .traits = {.batch = BatchRule::Mixes, .recomputable = true}};

}  // namespace

// `row_major`: sums in row-major order, so that the layout of the gradient does not change any bit.
Tensor sum_squares(const Gradient& gradient, Shape table, bool row_major, Name name) {
  if (!gradient.is_sparse()) {
    Attrs settings;
    if (row_major) settings.set("row_major", int64_t{1});
    return apply(kSumSquares, {gradient.value}, settings, name);
  }
  return apply(kSumSquares, {gradient.value, gradient.rows}, {{"table", table}}, name);
}

OpList sum_squares_ops() { return {&kSumSquares}; }

}  // namespace plimsoll::ops
#endif

// gather: rows of a table (embedding); scatter_rows: its transpose, rows added into a table. A row outside of the table
// is reported; it reads as zeros, and is left out when scattered.
#include <cstring>

#include <fmt/format.h>

#include "kernels/bad_values.h"
#include "kernels/kernel.h"
#include "kernels/parallel.h"
#include "ops/gather_along.h"
#include "ops/sample.h"
#include "ops/unpack.h"

namespace plimsoll::ops {
namespace {

void infer_gather(Infer& n) {
  n.expect_inputs(2, 2);
  if (has_packed(n.attrs) != (n.in[0].dtype == DType::U8)) n.fail("a table of bytes must be a packed one");
  if (has_packed(n.attrs))
    expect_packed(n, 0);
  else
    n.expect_rank(0, 2);
  Shape out = n.in[1].shape;
  out.push_back(has_packed(n.attrs) ? Dim(packed_form(n.attrs).columns) : n.in[0].shape[1]);
  n.out = {{DType::F32, out}};
}

void grad_gather(Backward& b) {
  if (!b.wanted[0]) return;
  const Dim count = element_count(b.x[1].shape());
  b.dx[0] = {reshape(b.dy[0], {count, b.x[0].dim(1)}), reshape(b.x[1], {count})};
}

Prepared prepare_gather(const Facts& facts) {
  const bool is_packed = has_packed(facts.attrs);
  const PackedWeights form = is_packed ? packed_form(facts.attrs) : PackedWeights();
  const int64_t table_rows = is_packed ? form.rows : facts.in[0].dims[0];
  const int64_t width = is_packed ? form.columns : facts.in[0].dims[1];
  const int64_t count = facts.in[1].count();
  return {.kernel = make_kernel([=](const Args& args) {
            const auto copy_row = [&](int64_t row, float* to) {
              if (is_packed)
                form.unpack(args.input<std::byte>(0), row, 1, to);
              else
                std::memcpy(to, args.input<float>(0) + row * width, static_cast<size_t>(width) * sizeof(float));
            };
            const auto* rows = args.input<int32_t>(1);
            auto* y = args.output<float>(0);
            FirstBad bad;
            parallel_for(count, 1 + 4096 / (width + 1), [&](int64_t first, int64_t last) {
              for (int64_t i = first; i < last; ++i) {
                if (rows[i] >= 0 && rows[i] < table_rows) {
                  copy_row(rows[i], y + i * width);
                } else {
                  std::fill_n(y + i * width, width, 0.0F);
                  bad.found(i);
                }
              }
            });
            bad.report(args, "row", 1, rows, table_rows);
          })};
}

BatchRule batch_rule_gather(const Attrs&, std::span<const TensorType> in) {
  return in[0].shape[0].is_batch() ? BatchRule::Mixes : BatchRule::Rows;
}

void infer_scatter(Infer& n) {
  n.expect_inputs(2, 2);
  n.expect_rank(0, 2);
  n.expect_rank(1, 1);
  const Shape table = n.attrs.shape("table");
  if (!(n.in[0].shape[0] == n.in[1].shape[0]) || table.rank() != 2 || !(table[1] == n.in[0].shape[1]))
    n.fail(fmt::format("{} values for rows {} do not go into a table of {}", to_string(n.in[0]), to_string(n.in[1]),
                       to_string(table)));
  n.out = {{n.in[0].dtype, table}};
}

void grad_scatter(Backward& b) {
  if (b.wanted[0]) b.give(0, gather(b.dy[0], b.x[1]));
}

Prepared prepare_scatter(const Facts& facts) {
  const int64_t count = facts.in[0].dims[0];
  const int64_t table_rows = facts.out[0].dims[0];
  const int64_t width = facts.out[0].dims[1];
  const bool accumulate = facts.accumulate;
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* values = args.input<float>(0);
            const auto* rows = args.input<int32_t>(1);
            auto* y = args.output<float>(0);
            report_bad_rows(args, 1, rows, count, table_rows);
            // Each piece owns a range of the table and reads all ids: no two write to one row, repeats add in order.
            parallel_for(table_rows, 1 + 16384 / (width + 1), [&](int64_t first, int64_t last) {
              if (!accumulate) std::fill(y + first * width, y + last * width, 0.0F);
              for (int64_t i = 0; i < count; ++i) {
                if (rows[i] < first || rows[i] >= last) continue;
                float* to = y + rows[i] * width;
                const float* from = values + i * width;
                for (int64_t j = 0; j < width; ++j) to[j] += from[j];
              }
            });
          })};
}

std::vector<Sample> samples_gather() {
  return {{"embedding",
           [](SampleBuilder& s) {
             return std::vector{gather(s.input({7, 5}), s.integers({Dim::batch(), 3}, 0, 7))};
           }},
          {"one id for each sample",
           [](SampleBuilder& s) {
             return std::vector{gather(s.input({3, 19}), s.integers({Dim::batch()}, 0, 3))};
           }},
          {"packed",
           [](SampleBuilder& s) {
             Attrs attrs;
             set_packed(attrs, DType::I8, {3, 19});
             const Shape bytes = packed_type(packed_form(attrs)).shape;
             return std::vector<Tensor>{apply(
                 *find_op("gather"), {s.integers(bytes, 0, 60, DType::U8), s.integers({Dim::batch()}, 0, 3)}, attrs)};
           },
           1e-4, false}};
}

std::vector<Sample> samples_scatter() {
  return {{"repeats", [](SampleBuilder& s) {
             return std::vector{scatter_rows(s.input({Dim::batch(3), 5}), s.integers({Dim::batch(3)}, 0, 4), {4, 5})};
           }}};
}

const Op kGather{
    .name = "gather",
    .storable = true,
    .infer = infer_gather,
    .types = {DTypes{DType::F32, DType::U8}, DType::I32},
    .grad = grad_gather,
    .prepare = prepare_gather,
    // Only the rows that are asked for.
    .cost = [](const Facts& facts) { return Cost{.bytes = 2.0 * static_cast<double>(facts.out[0].bytes())}; },
    .samples = samples_gather,
    .traits = {.batch = BatchRule::Rows, .recomputable = true},
    .batch_rule = batch_rule_gather,
    .onnx = "Gather"};

const Op kScatterRows{.name = "scatter_rows",
                      .infer = infer_scatter,
                      .types = {DType::F32, DType::I32},
                      .grad = grad_scatter,
                      .prepare = prepare_scatter,
                      .samples = samples_scatter,
                      .traits = {.batch = BatchRule::Sums, .recomputable = true}};

}  // namespace

Tensor gather(Tensor table, Tensor rows, int axis, int64_t shared, Name name) {
  const bool is_embedding = axis == 0 && shared == 0 && table.dtype() == DType::F32 && table.rank() == 2;
  if (is_embedding && rows.dtype() == DType::I32) return apply(kGather, {table, rows}, {}, name);
  return gather_along(table, rows, axis, shared, name);
}

Tensor scatter_rows(Tensor values, Tensor rows, Shape table, Name name) {
  return apply(kScatterRows, {values, rows}, {{"table", table}}, name);
}

OpList gather_ops() { return {&kGather, &kScatterRows}; }

}  // namespace plimsoll::ops

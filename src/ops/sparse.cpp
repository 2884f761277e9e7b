// sparse_matmul and sparse_expand: weights that are stored as a mask of bits and the values that are not zero
// (kernels/sparse_tiles.h). A product expands panels of the weights into workspace, or multiplies directly where there
// are few rows; either way its sums are those of matmul, bit for bit. Neither has a gradient: such weights are not
// trained.
#include <numeric>

#include <fmt/format.h>

#include "kernels/activation.h"
#include "kernels/bad_values.h"
#include "kernels/parallel.h"
#include "kernels/product.h"
#include "kernels/sparse_tiles.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

// Of both operators: values, mask and starts are consecutive inputs.
void expect_parts(const Infer& n, size_t first, const SparseOrder& order) {
  const Shape mask{order.mask_bytes()}, starts{order.starts()};
  if (n.in[first].shape.rank() != 1 || !(n.in[first + 1].shape == mask) || !(n.in[first + 2].shape == starts))
    n.fail(fmt::format("a matrix of {} x {} is stored as f32[values], u8{} and i32{} but here as {}, {} and {}",
                       order.rows, order.columns, to_string(mask), to_string(starts), to_string(n.in[first]),
                       to_string(n.in[first + 1]), to_string(n.in[first + 2])));
}

SparseMatrix matrix_of(const Args& args, size_t first, const SparseOrder& order, int64_t values) {
  return {order, args.input<uint8_t>(first + 1), args.input<float>(first), values, args.input<int32_t>(first + 2)};
}

// Tiles are independent: the first bad one is the same for any number of threads.
void report_bad_tiles(const Args& args, size_t first, const SparseMatrix& matrix) {
  for (int64_t i = 0; i < matrix.order.starts(); ++i)
    if (!matrix.has_tile(i / matrix.order.tiles_down(), i % matrix.order.tiles_down()))
      return args.report({"start of weights", static_cast<int>(first) + 2, i, matrix.starts[i], matrix.value_count});
}

void infer(Infer& n) {
  n.expect_inputs(4, 5);
  n.expect_rank(0, 2);
  const int64_t columns = n.attrs.i("columns");
  const Dim rows = n.in[0].shape[1];
  constexpr int64_t kMost = int64_t{1} << 31;  // so that no product of sizes overflows
  if (columns < 1 || columns > kMost || rows.is_batch() || rows.fixed() > kMost)
    n.fail(fmt::format("{} can't be multiplied with a matrix of {} columns", to_string(n.in[0]), columns));
  expect_parts(n, 1, {rows.fixed(), columns});
  if (n.in.size() == 5 && !(n.in[4].shape == Shape{columns}))
    n.fail(fmt::format("bias must be [{}] but is {}", columns, to_string(n.in[4])));
  n.out = {{DType::F32, {n.in[0].shape[0], columns}}};
}

// Strips of a product's right side, expanded.
class ExpandedColumns final : public PackedColumns {
 public:
  ExpandedColumns(const SparseMatrix& matrix, std::atomic<bool>& is_bad) : matrix_(matrix), is_bad_(is_bad) {}
  void pack(int64_t row, int64_t depth, int64_t column, int64_t columns, float* to) const noexcept override {
    const int64_t strip = strip_width();
    for (int64_t first = 0; first < columns; first += strip) {
      const int64_t left = columns - first;
      const int64_t width = left > strip / 2 ? strip : strip / 2;  // as Product packs the last
      float* const at = to + first * depth;
      if (width % SparseOrder::kTileColumns != 0 || (column + first) % SparseOrder::kTileColumns != 0) {
        pack_part(row, depth, column + first, width, at);
        continue;
      }
      for (int64_t c = 0; c < width; c += SparseOrder::kTileColumns) {
        const int64_t group = (column + first + c) / SparseOrder::kTileColumns;
        if (group < matrix_.order.across()) {
          if (!matrix_.expand(group, row, depth, at + c, width)) is_bad_ = true;
        } else {
          for (int64_t r = 0; r < depth; ++r) std::fill_n(at + r * width + c, SparseOrder::kTileColumns, 0.0F);
        }
      }
    }
  }

 private:
  // A strip that ends within tiles: vectors of fewer than eight floats make such.
  void pack_part(int64_t row, int64_t depth, int64_t column, int64_t width, float* to) const noexcept {
    float tile[SparseOrder::kTileRows * SparseOrder::kTileColumns];
    for (int64_t c = 0; c < width;) {
      const int64_t group = (column + c) / SparseOrder::kTileColumns, from = (column + c) % SparseOrder::kTileColumns;
      const int64_t count = std::min(SparseOrder::kTileColumns - from, width - c);
      const bool is_inside = group < matrix_.order.across();
      if (is_inside && !matrix_.expand(group, row, depth, tile, SparseOrder::kTileColumns)) is_bad_ = true;
      for (int64_t r = 0; r < depth; ++r) {
        float* const at = to + r * width + c;
        if (is_inside)
          std::copy_n(tile + r * SparseOrder::kTileColumns + from, count, at);
        else
          std::fill_n(at, count, 0.0F);
      }
      c += count;
    }
  }

  const SparseMatrix& matrix_;
  std::atomic<bool>& is_bad_;
};

// x [rows, inner] times the matrix, eight columns at a time.
void multiply_directly(const SparseMatrix& matrix, const float* x, int64_t rows, const float* bias,
                       Activation activation, float* y, std::atomic<bool>& is_bad) {
  const int64_t columns = matrix.order.columns;
  const int64_t grain = 1 + 65536 / (SparseOrder::kTileColumns * matrix.order.rows + 1);
  parallel_for(matrix.order.across(), grain, [&](int64_t first, int64_t last) {
    for (int64_t group = first; group < last; ++group) {
      const int64_t column = group * SparseOrder::kTileColumns;
      const int64_t width = std::min(SparseOrder::kTileColumns, columns - column);
      float sums[SparseMatrix::kMostVectors][8] = {};
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < width && bias != nullptr; ++c) sums[r][c] = bias[column + c];
      if (!matrix.multiply(group, x, matrix.order.rows, static_cast<int>(rows), sums)) is_bad = true;
      for (int64_t r = 0; r < rows; ++r) {
        activate_all(activation, sums[r], width);
        std::copy_n(sums[r], width, y + r * columns + column);
      }
    }
  });
}

Prepared prepare(const Facts& facts) {
  const int64_t rows = facts.in[0].dims[0];
  const SparseOrder order{facts.in[0].dims[1], facts.attrs.i("columns")};
  const int64_t values = facts.in[1].count();
  const bool has_bias = facts.in.size() == 5;
  const Activation activation = parse_activation(facts.attrs.s("activation"));
  const Product product(MatrixOrder::by_rows(rows, order.rows), MatrixOrder::by_rows(order.rows, order.columns),
                        order.columns, false, activation);
  const bool is_direct = rows <= SparseMatrix::kMostVectors;
  return {.kernel = make_kernel([=](const Args& args) {
            const SparseMatrix matrix = matrix_of(args, 1, order, values);
            const float* bias = has_bias ? args.input<float>(4) : nullptr;
            std::atomic<bool> is_bad = false;
            if (is_direct)
              multiply_directly(matrix, args.input<float>(0), rows, bias, activation, args.output<float>(0), is_bad);
            else
              product.run(args.input<float>(0), ExpandedColumns(matrix, is_bad), bias, args.output<float>(0),
                          args.workspace);
            if (is_bad) report_bad_tiles(args, 1, matrix);
          }),
          .workspace_bytes = is_direct ? 0 : product.workspace_bytes()};
}

Cost cost(const Facts& facts) {
  const double flops = 2.0 * static_cast<double>(facts.out[0].count()) * static_cast<double>(facts.in[0].dims[1]);
  return {flops, 0.6};
}

void infer_expand(Infer& n) {
  n.expect_inputs(3, 3);
  const Shape shape = n.attrs.shape("shape");
  if (shape.rank() == 0 || element_count(shape).is_batch())
    n.fail("a weight must have at least one dimension, and all must be fixed");
  expect_parts(n, 0, SparseOrder::of(n.attrs.dims("shape")));
  n.out = {{DType::F32, shape}};
}

Prepared prepare_expand(const Facts& facts) {
  const SparseOrder order = SparseOrder::of(facts.out[0].dims);
  const int64_t values = facts.in[0].count(), count = facts.out[0].count();
  return {.kernel = make_kernel([=](const Args& args) {
            const SparseMatrix matrix = matrix_of(args, 0, order, values);
            auto* to = args.output<float>(0);
            std::atomic<bool> is_bad = false;
            parallel_for(order.starts(), 8, [&](int64_t first, int64_t last) {
              for (int64_t tile = first; tile < last; ++tile) {
                const int64_t group = tile / order.tiles_down(),
                              row = tile % order.tiles_down() * SparseOrder::kTileRows;
                const int64_t rows = std::min(SparseOrder::kTileRows, order.rows - row);
                const int64_t column = group * SparseOrder::kTileColumns, at = row * order.columns + column;
                const bool is_inside = column + SparseOrder::kTileColumns <= order.columns &&
                                       at + (rows - 1) * order.columns + SparseOrder::kTileColumns <= count;
                if (is_inside) {
                  if (!matrix.expand(group, row, rows, to + at, order.columns)) is_bad = true;
                  continue;
                }
                // The last columns, or the last row, have fewer than eight.
                float whole[SparseOrder::kTileRows * SparseOrder::kTileColumns];
                if (!matrix.expand(group, row, rows, whole, SparseOrder::kTileColumns)) is_bad = true;
                for (int64_t r = 0; r < rows; ++r) {
                  const int64_t begin = at + r * order.columns;
                  const int64_t width = std::min({SparseOrder::kTileColumns, order.columns - column, count - begin});
                  std::copy_n(whole + r * SparseOrder::kTileColumns, std::max<int64_t>(0, width), to + begin);
                }
              }
            });
            if (is_bad) report_bad_tiles(args, 0, matrix);
          })};
}

// Constants for a tensor in which about every third element is there: mask, starts, and how many values that are.
struct SampleParts {
  Tensor mask, starts;
  int64_t values = 0;
};

SampleParts sample_parts(SampleBuilder& s, const Dims& dims) {
  const SparseOrder order = SparseOrder::of(dims);
  std::vector<uint8_t> mask(static_cast<size_t>(order.mask_bytes()));
  std::vector<int32_t> starts(static_cast<size_t>(order.starts()));
  SampleParts parts;
  for (int64_t g = 0; g < order.across(); ++g)
    for (int64_t r = 0; r < order.rows; ++r) {
      if (r % SparseOrder::kTileRows == 0)
        starts[static_cast<size_t>(g * order.tiles_down() + r / SparseOrder::kTileRows)] =
            static_cast<int32_t>(parts.values);
      for (int64_t c = 0; c < SparseOrder::kTileColumns; ++c) {
        const int64_t column = g * SparseOrder::kTileColumns + c;
        if (column >= order.columns || (r * 31 + column * 17 + r * column) % 3 != 0) continue;
        if (dims.rank() != 2 && r * order.columns + column >= element_count(dims)) continue;
        auto& byte = mask[static_cast<size_t>(g * order.rows + r)];
        byte = static_cast<uint8_t>(byte | (1U << c));
        ++parts.values;
      }
    }
  parts.mask = s.graph().constant(DType::U8, {order.mask_bytes()}, std::as_bytes(std::span(mask)));
  parts.starts = s.graph().constant(DType::I32, {order.starts()}, std::as_bytes(std::span(starts)));
  return parts;
}

Sample product_sample(std::string name, Dim rows, int64_t inner, int64_t columns, bool has_bias) {
  return {std::move(name),
          [=](SampleBuilder& s) {
            const SampleParts parts = sample_parts(s, {inner, columns});
            const Tensor x = s.input({rows, inner});
            const Tensor values = s.input({parts.values});
            const Tensor bias = has_bias ? s.input({columns}) : Tensor();
            return std::vector{sparse_matmul(x, values, parts.mask, parts.starts, bias, columns)};
          },
          1e-4, false};
}

std::vector<Sample> samples() {
  return {
      product_sample("few rows", Dim::batch(), 10, 20, true), product_sample("many rows", Dim::batch(5), 300, 21, true),
      product_sample("few columns", Dim::batch(3), 9, 3, false), product_sample("deep", Dim::batch(), 700, 40, false)};
}

Sample expand_sample(std::string name, const Dims& dims) {
  return {std::move(name),
          [=](SampleBuilder& s) {
            const SampleParts parts = sample_parts(s, dims);
            Shape shape;
            for (const int64_t size : dims) shape.push_back(size);
            return std::vector{sparse_expand(s.input({parts.values}), parts.mask, parts.starts, shape)};
          },
          0, false};
}

std::vector<Sample> expand_samples() {
  return {expand_sample("matrix", {300, 21}), expand_sample("filter", {5, 3, 3, 3}),
          expand_sample("large filter", {40, 20, 3, 3}), expand_sample("vector", {19})};
}

const Op kSparseMatmul{.name = "sparse_matmul",
                       .storable = true,
                       .infer = infer,
                       .types = {DType::F32, DType::F32, DType::U8, DType::I32, DType::F32},
                       .prepare = prepare,
                       .cost = cost,
                       .samples = samples,
                       .traits = {.batch = BatchRule::Rows, .recomputable = true},
                       .fusion = {.applies_activation = true}};

const Op kSparseExpand{.name = "sparse_expand",
                       .storable = true,
                       .infer = infer_expand,
                       .types = {DType::F32, DType::U8, DType::I32},
                       .prepare = prepare_expand,
                       .samples = expand_samples,
                       .traits = {.batch = BatchRule::Rows, .recomputable = true}};

}  // namespace

Tensor sparse_matmul(Tensor x, Tensor values, Tensor mask, Tensor starts, Tensor bias, int64_t columns, Name name) {
  const Attrs attrs{{"columns", columns}};
  if (bias.is_set()) return apply(kSparseMatmul, {x, values, mask, starts, bias}, attrs, name);
  return apply(kSparseMatmul, {x, values, mask, starts}, attrs, name);
}

Tensor sparse_expand(Tensor values, Tensor mask, Tensor starts, Shape shape, Name name) {
  return apply(kSparseExpand, {values, mask, starts}, {{"shape", shape}}, name);
}

OpList sparse_ops() { return {&kSparseMatmul, &kSparseExpand}; }

}  // namespace plimsoll::ops

// linear_cross_entropy: mean cross-entropy of the logits x kernel, which are made a tile at a time and never held. The
// second output is the log-sum-exp of each row; from it one backward sweep makes the tiles again for dx and dkernel.
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "ops/kernel.h"
#include "ops/ops.h"
#include "ops/parallel.h"
#include "ops/product.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/linear_cross_entropy.cpp"
#include <hwy/foreach_target.h>

#include "ops/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::HWY_NAMESPACE {
namespace {

// Takes a row of logits into the running log-sum-exp, kept as (top, total).
void take_row(const float* logits, int64_t count, float* top, float* total) {
  const float next = std::max(*top, max_of(logits, count));
  *total = *total * std::exp(*top - next) + sum_exp(logits, count, next);
  *top = next;
}

// logits = factor * exp(logits - sum), in place.
void to_slopes(float* logits, int64_t count, float sum, float factor) {
  const FloatTag d;
  const Floats s = hn::Set(d, sum);
  const Floats f = hn::Set(d, factor);
  for_vectors(count, [&](int64_t i, auto part) HWY_ATTR {
    part.store(d, hn::Mul(f, fast_exp(d, hn::Sub(part.load(d, logits + i), s))), logits + i);
  });
}

}  // namespace
}  // namespace plimsoll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(take_row);
HWY_EXPORT(to_slopes);

// A tile of logits is 2 MiB: of many rows, so that the kernel and its gradient, larger than any cache, pass few times.
constexpr int64_t kTileRows = 1024;
constexpr int64_t kTileCount = 512 * 1024;

struct Sizes {
  int64_t rows, width, classes;
  bool transposed;  // kernel [classes, width] instead of [width, classes]
  double whole;     // rows of the whole batch, which the mean divides by
  int64_t tile_rows() const { return std::min(rows, kTileRows); }
  int64_t tile_classes() const { return std::min(classes, kTileCount / tile_rows()); }
  Bytes tile_bytes() const { return round_up(tile_rows() * tile_classes() * 4, kAlignment); }
  int64_t kernel_at(int64_t first_class) const { return transposed ? first_class * width : first_class; }
};

Sizes sizes_of(const Facts& facts) {
  const bool transposed = facts.attrs.i("transposed") != 0;
  const Dims& kernel = facts.in[1].dims;
  return {facts.in[0].dims[0], facts.in[0].dims[1], transposed ? kernel[0] : kernel[1], transposed,
          static_cast<double>(facts.attrs.shape("rows")[0].at(facts.whole_batch))};
}

// The products of one tile shape; there are up to four: inner, right edge, lower edge, corner.
struct TileProducts {
  int64_t rows, classes;
  Product logits;
  std::optional<Product> dx, dkernel;
  Bytes scratch_bytes;

  TileProducts(const Sizes& n, int64_t tile_rows, int64_t tile_classes, bool backward)
      : rows(tile_rows),
        classes(tile_classes),
        logits(MatrixOrder::by_rows(rows, n.width), kernel(n), classes),
        scratch_bytes(logits.scratch_bytes()) {
    if (!backward) return;
    const MatrixOrder x = MatrixOrder::by_rows(rows, n.width);
    dx.emplace(tile(), kernel(n).transposed(), n.width, true);
    // The gradient has the order of the kernel, whose rows are classes when it is transposed.
    if (n.transposed)
      dkernel.emplace(tile().transposed(), x, n.width, true);
    else
      dkernel.emplace(x.transposed(), tile(), n.classes, true);
    scratch_bytes = std::max({scratch_bytes, dx->scratch_bytes(), dkernel->scratch_bytes()});
  }

 private:
  MatrixOrder tile() const { return MatrixOrder::by_rows(rows, classes); }
  MatrixOrder kernel(const Sizes& n) const {
    return n.transposed ? MatrixOrder{n.width, classes, 1, n.width} : MatrixOrder{n.width, classes, n.classes, 1};
  }
};

class TileTable {
 public:
  TileTable(const Sizes& n, bool backward) {
    for (const int64_t rows : parts(n.rows, n.tile_rows()))
      for (const int64_t classes : parts(n.classes, n.tile_classes())) {
        tiles_.emplace_back(n, rows, classes, backward);
        scratch_bytes = std::max(scratch_bytes, tiles_.back().scratch_bytes);
      }
  }
  const TileProducts& at(int64_t rows, int64_t classes) const noexcept {
    size_t i = 0;
    while (i + 1 < tiles_.size() && (tiles_[i].rows != rows || tiles_[i].classes != classes)) ++i;
    return tiles_[i];
  }
  Bytes scratch_bytes = 0;

 private:
  static std::vector<int64_t> parts(int64_t whole, int64_t tile) {
    std::vector<int64_t> sizes;
    if (whole >= tile) sizes.push_back(tile);
    if (whole % tile != 0) sizes.push_back(whole % tile);
    return sizes;
  }
  std::vector<TileProducts> tiles_;
};

// Scratch: the tile of logits, then (top, total, logit of the label) for each of its rows, then that of the products.
struct Scratch {
  float* tile;
  float* stats;
  void* product;
};
Bytes stats_bytes(const Sizes& n) { return round_up(3 * n.tile_rows() * 4, kAlignment); }
Scratch split(const Sizes& n, void* scratch) {
  auto* bytes = static_cast<std::byte*>(scratch);
  return {reinterpret_cast<float*>(bytes), reinterpret_cast<float*>(bytes + n.tile_bytes()),
          bytes + n.tile_bytes() + stats_bytes(n)};
}

// The log-sum-exp of rows [first, first + rows) into `sums`; returns the sum of their losses.
double forward_rows(const Sizes& n, const TileTable& table, const Args& args, int64_t first, int64_t rows,
                    const Scratch& scratch) {
  const auto* x = args.input<float>(0) + first * n.width;
  const auto* labels = args.input<int32_t>(2) + first;
  float* stats = scratch.stats;
  for (int64_t i = 0; i < rows; ++i) {
    stats[3 * i] = -INFINITY;
    stats[3 * i + 1] = 0;
    stats[3 * i + 2] = NAN;  // stays so when the label is outside of the classes
  }
  for (int64_t c = 0; c < n.classes; c += n.tile_classes()) {
    const int64_t classes = std::min(n.tile_classes(), n.classes - c);
    table.at(rows, classes)
        .logits.run(x, args.input<float>(1) + n.kernel_at(c), nullptr, scratch.tile, scratch.product);
    parallel_for(rows, 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* row = scratch.tile + i * classes;
        HWY_DYNAMIC_DISPATCH(take_row)(row, classes, stats + 3 * i, stats + 3 * i + 1);
        if (labels[i] >= c && labels[i] < c + classes) stats[3 * i + 2] = row[labels[i] - c];
      }
    });
  }
  double loss = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const float sum = stats[3 * i] + std::log(stats[3 * i + 1]);
    args.output<float>(1)[first + i] = sum;
    loss += static_cast<double>(sum) - static_cast<double>(stats[3 * i + 2]);
  }
  return loss;
}

Prepared prepare(const Facts& facts) {
  const Sizes n = sizes_of(facts);
  const auto table = std::make_shared<TileTable>(n, false);
  const bool accumulate = facts.accumulate;
  return {.kernel = make_kernel([=](const Args& args) {
            const Scratch scratch = split(n, args.scratch);
            double loss = 0;
            for (int64_t first = 0; first < n.rows; first += n.tile_rows())
              loss += forward_rows(n, *table, args, first, std::min(n.tile_rows(), n.rows - first), scratch);
            auto* y = args.output<float>(0);
            *y = static_cast<float>(loss / n.whole) + (accumulate ? *y : 0.0F);
          }),
          .scratch_bytes = n.tile_bytes() + stats_bytes(n) + table->scratch_bytes};
}

// Adds what rows [first, first + rows) give to dx and dkernel.
void backward_rows(const Sizes& n, const TileTable& table, const Args& args, int64_t first, int64_t rows, float factor,
                   const Scratch& scratch) {
  const auto* x = args.input<float>(0) + first * n.width;
  const auto* labels = args.input<int32_t>(2) + first;
  const auto* sums = args.input<float>(3) + first;
  for (int64_t c = 0; c < n.classes; c += n.tile_classes()) {
    const int64_t classes = std::min(n.tile_classes(), n.classes - c);
    const TileProducts& tile = table.at(rows, classes);
    const float* kernel = args.input<float>(1) + n.kernel_at(c);
    tile.logits.run(x, kernel, nullptr, scratch.tile, scratch.product);
    parallel_for(rows, 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        float* row = scratch.tile + i * classes;
        const bool known = labels[i] >= 0 && labels[i] < n.classes;
        HWY_DYNAMIC_DISPATCH(to_slopes)(row, classes, sums[i], known ? factor : NAN);
        if (labels[i] >= c && labels[i] < c + classes) row[labels[i] - c] -= factor;
      }
    });
    tile.dx->run(scratch.tile, kernel, nullptr, args.output<float>(0) + first * n.width, scratch.product);
    float* dkernel = args.output<float>(1) + n.kernel_at(c);
    if (n.transposed)
      tile.dkernel->run(scratch.tile, x, nullptr, dkernel, scratch.product);
    else
      tile.dkernel->run(x, scratch.tile, nullptr, dkernel, scratch.product);
  }
}

void fill_zeros(float* to, int64_t count) {
  parallel_for(count, 65536, [&](int64_t first, int64_t last) { std::fill(to + first, to + last, 0.0F); });
}

Prepared prepare_grad(const Facts& facts) {
  const Sizes n = sizes_of(facts);
  const auto table = std::make_shared<TileTable>(n, true);
  const bool accumulate = facts.accumulate;
  return {.kernel = make_kernel([=](const Args& args) {
            const Scratch scratch = split(n, args.scratch);
            const auto factor = static_cast<float>(*args.input<float>(4) / n.whole);
            fill_zeros(args.output<float>(0), n.rows * n.width);
            if (!accumulate) fill_zeros(args.output<float>(1), n.classes * n.width);
            for (int64_t first = 0; first < n.rows; first += n.tile_rows())
              backward_rows(n, *table, args, first, std::min(n.tile_rows(), n.rows - first), factor, scratch);
          }),
          .scratch_bytes = n.tile_bytes() + stats_bytes(n) + table->scratch_bytes};
}

void infer(Infer& n) {
  n.expect_inputs(3, 3);
  n.expect_rank(0, 2);
  n.expect_rank(1, 2);
  n.expect_float(0);
  n.expect_float(1);
  const bool transposed = n.attrs.i("transposed") != 0;
  if (!(n.in[0].shape[1] == n.in[1].shape[transposed ? 1 : 0]))
    n.fail(fmt::format("x is {} but the {}kernel is {}", to_string(n.in[0]), transposed ? "transposed " : "",
                       to_string(n.in[1])));
  if (!(n.in[2] == TensorType{DType::I32, {n.in[0].shape[0]}}))
    n.fail(fmt::format("labels must be i32[{}] but are {}", to_string(n.in[0].shape[0]), to_string(n.in[2])));
  n.out = {{DType::F32, {}}, {DType::F32, {n.in[0].shape[0]}}};
}

// Inputs: x, kernel, labels, log-sum-exp, gradient of the loss.
void infer_grad(Infer& n) {
  n.expect_inputs(5, 5);
  n.out = {n.in[0], n.in[1]};
}

Cost cost(const Facts& facts) {
  return {2.0 * static_cast<double>(facts.in[0].dims[0]) * static_cast<double>(facts.in[1].count()), 0.8};
}
Cost cost_grad(const Facts& facts) { return {3 * cost(facts).flops, 0.77}; }

const Op kGrad{.name = "linear_cross_entropy_grad",
               .infer = infer_grad,
               .prepare = prepare_grad,
               .cost = cost_grad,
               .traits = {.batch = BatchRule::Sums, .recomputable = true}};

void grad(Backward& b) {
  if (!b.dy[0].is_set()) return;
  const Outputs dx = b.dy[0].graph().add(kGrad, {b.x[0], b.x[1], b.x[2], b.y[1], b.dy[0]}, b.attrs);
  for (const int i : {0, 1})
    if (b.wanted[static_cast<size_t>(i)]) b.give(static_cast<size_t>(i), dx[i]);
}

std::vector<Sample> samples() {
  return {{"plain",
           [](SampleBuilder& s) {
             return std::vector{linear_cross_entropy(s.input({Dim::batch(3), 5}), s.input({5, 19}),
                                                     s.integers({Dim::batch(3)}, 0, 19))};
           }},
          {"transposed, sequence", [](SampleBuilder& s) {
             return std::vector{linear_cross_entropy(s.input({Dim::batch(), 2, 5}), s.input({11, 5}),
                                                     s.integers({Dim::batch(), 2}, 0, 11), true)};
           }}};
}

const Op kLoss{.name = "linear_cross_entropy",
               .infer = infer,
               .grad = grad,
               .prepare = prepare,
               .cost = cost,
               .samples = samples,
               .traits = {.batch = BatchRule::Sums, .recomputable = true}};

}  // namespace

Tensor linear_cross_entropy(Tensor x, Tensor kernel, Tensor labels, bool transposed, Name name) {
  // All leading dimensions are rows of one matrix.
  const Dim rows = element_count(labels.shape());
  if (x.rank() != 2) x = reshape(x, {rows, x.dim(-1)});
  Attrs attrs{{"rows", Shape{rows}}};
  if (transposed) attrs.set("transposed", int64_t{1});
  return x.graph().add(kLoss, {x, kernel, reshape(labels, {rows})}, attrs, name);
}

OpList linear_cross_entropy_ops() { return {&kLoss, &kGrad}; }

}  // namespace plimsoll
#endif

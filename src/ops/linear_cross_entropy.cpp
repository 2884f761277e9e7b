// linear_cross_entropy: mean cross-entropy of the logits x kernel, which are made a tile at a time and need not be
// held. The second output is the log-sum-exp of each row; from it one backward sweep recomputes the tiles for dx and
// dkernel. Where the gradient of the loss is known beforehand, loss and gradient are one operator (lower/fuse.h): it
// holds the logits of a few rows until their gradients are computed, which saves a product, or recomputes them. Both
// give the same bits.
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "kernels/bad_values.h"
#include "kernels/kernel.h"
#include "kernels/parallel.h"
#include "kernels/product.h"
#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/linear_cross_entropy.cpp"
#include <hwy/foreach_target.h>

#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

// Takes a row of logits into the running log-sum-exp, kept as (top, total).
void take_row(const float* logits, int64_t count, float* top, float* total) {
  const float next = std::max(*top, max_of(logits, count));
  *total = *total * std::exp(*top - next) + sum_exp(logits, count, next);
  *top = next;
}

// slopes = factor * exp(logits - sum); both may be the same.
void to_slopes(const float* logits, float* slopes, int64_t count, float sum, float factor) {
  const FloatTag d;
  const Floats s = hn::Set(d, sum);
  const Floats f = hn::Set(d, factor);
  for_vectors(count, [&](int64_t i, auto part) HWY_ATTR {
    part.store(d, hn::Mul(f, fast_exp(d, hn::Sub(part.load(d, logits + i), s))), slopes + i);
  });
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(take_row);
HWY_EXPORT(to_slopes);

// A tile of logits is 2 MiB and has many rows: kernel and dkernel are larger than any cache and are read once per tile
// row.
constexpr int64_t kTileRows = 256;
constexpr int64_t kTileCount = 512 * 1024;

struct LossSizes {
  int64_t rows, width, classes;
  bool transposed;  // kernel [classes, width] instead of [width, classes]
  double whole;     // rows of the whole batch, which the mean divides by
  int64_t tile_rows() const { return std::min(rows, kTileRows); }
  int64_t tile_classes() const { return std::min(classes, kTileCount / tile_rows()); }
  Bytes tile_bytes() const { return round_up(tile_rows() * tile_classes() * 4, kAlignment); }
  int64_t kernel_at(int64_t first_class) const { return transposed ? first_class * width : first_class; }
};

LossSizes sizes_of(const Facts& facts) {
  const bool transposed = facts.attrs.i("transposed") != 0;
  const Dims& kernel = facts.in[1].dims;
  return {facts.in[0].dims[0], facts.in[0].dims[1], transposed ? kernel[0] : kernel[1], transposed,
          static_cast<double>(facts.attrs.shape("rows")[0].at(facts.whole_batch))};
}

// The products of one tile shape; there are up to four: inner, right edge, lower edge, corner.
struct TileProducts {
  int64_t rows, classes;
  Product logits;
  std::optional<Product> dx, first_dkernel, dkernel;  // the first rows write dkernel, all others add to it
  Bytes workspace_bytes;

  TileProducts(const LossSizes& n, int64_t tile_rows, int64_t tile_classes, bool backward)
      : rows(tile_rows),
        classes(tile_classes),
        logits(MatrixOrder::by_rows(rows, n.width), kernel(n), classes),
        workspace_bytes(logits.workspace_bytes()) {
    if (!backward) return;
    const MatrixOrder x = MatrixOrder::by_rows(rows, n.width);
    dx.emplace(tile(), kernel(n).transposed(), n.width, true);
    // The gradient has the order of the kernel, whose rows are classes when it is transposed.
    for (const bool adds : {false, true}) {
      std::optional<Product>& product = adds ? dkernel : first_dkernel;
      if (n.transposed)
        product.emplace(tile().transposed(), x, n.width, adds);
      else
        product.emplace(x.transposed(), tile(), n.classes, adds);
      workspace_bytes = std::max(workspace_bytes, product->workspace_bytes());
    }
    workspace_bytes = std::max(workspace_bytes, dx->workspace_bytes());
  }

 private:
  MatrixOrder tile() const { return MatrixOrder::by_rows(rows, classes); }
  MatrixOrder kernel(const LossSizes& n) const {
    return n.transposed ? MatrixOrder{n.width, classes, 1, n.width} : MatrixOrder{n.width, classes, n.classes, 1};
  }
};

class TileTable {
 public:
  TileTable(const LossSizes& n, bool backward) {
    for (const int64_t rows : parts(n.rows, n.tile_rows()))
      for (const int64_t classes : parts(n.classes, n.tile_classes())) {
        tiles_.emplace_back(n, rows, classes, backward);
        workspace_bytes = std::max(workspace_bytes, tiles_.back().workspace_bytes);
      }
  }
  const TileProducts& at(int64_t rows, int64_t classes) const noexcept {
    size_t i = 0;
    while (i + 1 < tiles_.size() && (tiles_[i].rows != rows || tiles_[i].classes != classes)) ++i;
    return tiles_[i];
  }
  Bytes workspace_bytes = 0;

 private:
  static std::vector<int64_t> parts(int64_t whole, int64_t tile) {
    std::vector<int64_t> sizes;
    if (whole >= tile) sizes.push_back(tile);
    if (whole % tile != 0) sizes.push_back(whole % tile);
    return sizes;
  }
  std::vector<TileProducts> tiles_;
};

// Operands of the loss, of its gradient, or of both; null where the operator lacks one.
struct LossOperands {
  const float *x, *kernel;
  const int32_t* labels;
  const float *known_sums = nullptr, *dloss = nullptr;
  float *loss = nullptr, *sums = nullptr, *dx = nullptr, *dkernel = nullptr;
};

// A stretch of rows, at most as many as a tile has.
struct TileRows {
  int64_t first, count;
  const float* x;
  const int32_t* labels;
  float* sums;    // the log-sum-exp of each
  float* logits;  // room for all of them, tile behind tile; null: recomputed where needed
};

void fill_zeros(float* to, int64_t count) {
  parallel_for(count, 65536, [&](int64_t first, int64_t last) { std::fill(to + first, to + last, 0.0F); });
}

class LossRun {
 public:
  LossRun(const Facts& facts, bool backward, bool holds_logits)
      : n_(sizes_of(facts)), table_(n_, backward), holds_logits_(holds_logits), adds_(facts.accumulate) {}

  // A tile of logits or slopes, (top, total, logit of the label) and the log-sum-exp for each of its rows, all logits
  // of these rows where they are held, and what the products need.
  Bytes workspace_bytes() const { return logits_at() + logits_bytes() + table_.workspace_bytes; }

  // The first row whose label is outside of the classes, and is left out; -1: none.
  int64_t find_bad(const int32_t* labels) const noexcept {
    for (int64_t i = 0; i < n_.rows; ++i)
      if (!is_known(labels[i])) return i;
    return -1;
  }
  int64_t classes() const { return n_.classes; }

  void run(const LossOperands& in, void* workspace) const noexcept {
    if (in.dx != nullptr) fill_zeros(in.dx, n_.rows * n_.width);
    const float factor = in.dloss != nullptr ? static_cast<float>(*in.dloss / n_.whole) : 0.0F;
    const bool takes = in.known_sums == nullptr;
    double loss = 0;
    if (takes) take(rows_at(in, 0, workspace), in.kernel, workspace);
    for (int64_t first = 0; first < n_.rows; first += n_.tile_rows()) {
      const TileRows rows = rows_at(in, first, workspace);
      if (takes)
        loss += finish(rows, workspace);
      else
        std::copy_n(in.known_sums + first, rows.count, rows.sums);
      if (in.sums != nullptr) std::copy_n(rows.sums, rows.count, in.sums + first);
      const int64_t next = first + n_.tile_rows();
      std::optional<TileRows> behind;
      if (takes && next < n_.rows) behind = rows_at(in, next, workspace);
      if (in.dx != nullptr)
        go_back(rows, behind, in, factor, workspace);
      else if (behind)
        take(*behind, in.kernel, workspace);
    }
    if (in.loss != nullptr) *in.loss = static_cast<float>(loss / n_.whole) + (adds_ ? *in.loss : 0.0F);
  }

 private:
  bool is_known(int32_t label) const noexcept { return label >= 0 && label < n_.classes; }

  TileRows rows_at(const LossOperands& in, int64_t first, void* workspace) const noexcept {
    return {first,
            std::min(n_.tile_rows(), n_.rows - first),
            in.x + first * n_.width,
            in.labels + first,
            sums_in(workspace),
            holds_logits_ ? at(workspace, logits_at()) : nullptr};
  }

  void take(const TileRows& rows, const float* kernel, void* workspace) const noexcept {
    for_tiles([&](int64_t c, int64_t classes) { take_tile(rows, c, classes, kernel, workspace); });
  }

  // Makes a tile of logits, which stays where there is room, and takes it into the statistics of the rows.
  void take_tile(const TileRows& rows, int64_t c, int64_t classes, const float* kernel,
                 void* workspace) const noexcept {
    float* stats = stats_in(workspace);
    for (int64_t i = 0; i < rows.count && c == 0; ++i) {
      stats[3 * i] = -INFINITY;
      stats[3 * i + 1] = 0;
      stats[3 * i + 2] = 0;
    }
    float* tile = rows.logits != nullptr ? rows.logits + rows.count * c : at(workspace, 0);
    table_.at(rows.count, classes).logits.run(rows.x, kernel + n_.kernel_at(c), nullptr, tile, for_products(workspace));
    parallel_for(rows.count, 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* row = tile + i * classes;
        HWY_DYNAMIC_DISPATCH(take_row)(row, classes, stats + 3 * i, stats + 3 * i + 1);
        if (rows.labels[i] >= c && rows.labels[i] < c + classes) stats[3 * i + 2] = row[rows.labels[i] - c];
      }
    });
  }

  // Fills the sums of rows whose tiles are all taken; returns the sum of their losses.
  double finish(const TileRows& rows, void* workspace) const noexcept {
    const float* stats = stats_in(workspace);
    double loss = 0;
    for (int64_t i = 0; i < rows.count; ++i) {
      rows.sums[i] = stats[3 * i] + std::log(stats[3 * i + 1]);
      if (!is_known(rows.labels[i])) continue;
      loss += static_cast<double>(rows.sums[i]) - static_cast<double>(stats[3 * i + 2]);
    }
    return loss;
  }

  // Adds the gradients of these rows to dx and dkernel. The next rows use each tile of the kernel while it is in the
  // cache; their logits are written over those that are no longer needed.
  void go_back(const TileRows& rows, const std::optional<TileRows>& behind, const LossOperands& in, float factor,
               void* workspace) const noexcept {
    float* slopes = at(workspace, 0);
    void* space = for_products(workspace);
    for_tiles([&](int64_t c, int64_t classes) {
      const TileProducts& tile = table_.at(rows.count, classes);
      const float* kernel = in.kernel + n_.kernel_at(c);
      const float* logits = rows.logits != nullptr ? rows.logits + rows.count * c : slopes;
      if (rows.logits == nullptr) tile.logits.run(rows.x, kernel, nullptr, slopes, space);
      parallel_for(rows.count, 4, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          float* row = slopes + i * classes;
          const int32_t label = rows.labels[i];
          const float slope = is_known(label) ? factor : 0.0F;
          HWY_DYNAMIC_DISPATCH(to_slopes)(logits + i * classes, row, classes, rows.sums[i], slope);
          if (label >= c && label < c + classes) row[label - c] -= factor;
        }
      });
      tile.dx->run(slopes, kernel, nullptr, in.dx + rows.first * n_.width, space);
      const Product& product = rows.first == 0 && !adds_ ? *tile.first_dkernel : *tile.dkernel;
      float* dkernel = in.dkernel + n_.kernel_at(c);
      if (n_.transposed)
        product.run(slopes, rows.x, nullptr, dkernel, space);
      else
        product.run(rows.x, slopes, nullptr, dkernel, space);
      if (behind) take_tile(*behind, c, classes, in.kernel, workspace);
    });
  }

  static float* at(void* workspace, Bytes bytes) noexcept {
    return reinterpret_cast<float*>(static_cast<std::byte*>(workspace) + bytes);
  }
  float* stats_in(void* workspace) const noexcept { return at(workspace, n_.tile_bytes()); }
  float* sums_in(void* workspace) const noexcept { return stats_in(workspace) + 3 * n_.tile_rows(); }
  Bytes logits_at() const { return n_.tile_bytes() + round_up(4 * n_.tile_rows() * 4, kAlignment); }
  Bytes logits_bytes() const { return holds_logits_ ? round_up(n_.tile_rows() * n_.classes * 4, kAlignment) : 0; }
  void* for_products(void* workspace) const noexcept { return at(workspace, logits_at() + logits_bytes()); }
  template <class F>
  void for_tiles(F&& work) const {
    for (int64_t c = 0; c < n_.classes; c += n_.tile_classes()) work(c, std::min(n_.tile_classes(), n_.classes - c));
  }

  LossSizes n_;
  TileTable table_;
  bool holds_logits_;
  bool adds_;
};

// `operands` finds in the arguments what the operator has besides x, kernel and labels.
template <class F>
Prepared prepare_loss(const Facts& facts, bool backward, bool holds_logits, F operands) {
  const auto loss = std::make_shared<LossRun>(facts, backward, holds_logits);
  return {.kernel = make_kernel([=](const Args& args) {
            LossOperands in{args.input<float>(0), args.input<float>(1), args.input<int32_t>(2)};
            operands(args, in);
            if (const int64_t bad = loss->find_bad(in.labels); bad >= 0)
              args.report({"label", 2, bad, in.labels[bad], loss->classes()});
            loss->run(in, args.workspace);
          }),
          .workspace_bytes = loss->workspace_bytes()};
}

Prepared prepare(const Facts& facts) {
  return prepare_loss(facts, false, false, [](const Args& args, LossOperands& in) {
    in.loss = args.output<float>(0);
    in.sums = args.output<float>(1);
  });
}

Prepared prepare_grad(const Facts& facts) {
  return prepare_loss(facts, true, false, [](const Args& args, LossOperands& in) {
    in.known_sums = args.input<float>(3);
    in.dloss = args.input<float>(4);
    in.dx = args.output<float>(0);
    in.dkernel = args.output<float>(1);
  });
}

Prepared prepare_with_grad(const Facts& facts) {
  return prepare_loss(facts, true, !facts.slim, [](const Args& args, LossOperands& in) {
    in.dloss = args.input<float>(3);
    in.loss = args.output<float>(0);
    in.dx = args.output<float>(1);
    in.dkernel = args.output<float>(2);
  });
}

void infer(Infer& n) {
  n.expect_inputs(3, 3);
  n.expect_rank(0, 2);
  n.expect_rank(1, 2);
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
Cost cost_with_grad(const Facts& facts) { return {(facts.slim ? 4 : 3) * cost(facts).flops, 0.78}; }

extern const Op kLoss, kWithGrad;

const Op kGrad{
    .name = "linear_cross_entropy_grad",
    .infer = infer_grad,
    .types = {DType::F32, DType::F32, DType::I32, DType::F32},
    .prepare = prepare_grad,
    .cost = cost_grad,
    .traits = {.batch = BatchRule::Sums, .recomputable = true},
    .fusion = {.gradient_of = &kLoss, .with_forward = Fusion::WithForward{.op = &kWithGrad, .kept = 3, .seed = 4}}};

// Inputs: x, kernel, labels, gradient of the loss.
void infer_with_grad(Infer& n) {
  n.expect_inputs(4, 4);
  n.out = {{DType::F32, {}}, n.in[0], n.in[1]};
}

std::vector<Sample> samples_with_grad();

const Op kWithGrad{.name = "linear_cross_entropy_with_grad",
                   .infer = infer_with_grad,
                   .types = {DType::F32, DType::F32, DType::I32, DType::F32},
                   .prepare = prepare_with_grad,
                   .cost = cost_with_grad,
                   .samples = samples_with_grad,
                   .traits = {.batch = BatchRule::Sums, .recomputable = true, .slim = "make logits again in tiles"}};

std::vector<Sample> samples_with_grad() {
  const auto sample = [](SampleBuilder& s, const Shape& kernel, const Attrs& attrs) {
    const Dim rows = Dim::batch(3);
    const Outputs y =
        apply(kWithGrad, {s.input({rows, 5}), s.input(kernel), s.integers({rows}, 0, 11), s.input({}, 0.5, 2)}, attrs);
    return std::vector{y[0], y[1], y[2]};
  };
  const Attrs plain{{"rows", Shape{Dim::batch(3)}}};
  Attrs transposed = plain;
  transposed.set("transposed", int64_t{1});
  return {{"plain",
           [=](SampleBuilder& s) {
             return sample(s, {5, 11}, plain);
           },
           1e-4, false},
          {"transposed",
           [=](SampleBuilder& s) {
             return sample(s, {11, 5}, transposed);
           },
           1e-4, false}};
}

void grad(Backward& b) {
  if (!b.dy[0].is_set()) return;
  const Outputs dx = apply(kGrad, {b.x[0], b.x[1], b.x[2], b.y[1], b.dy[0]}, b.attrs);
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
               .types = {DType::F32, DType::F32, DType::I32},
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
  return apply(kLoss, {x, kernel, reshape(labels, {rows})}, attrs, name);
}

OpList linear_cross_entropy_ops() { return {&kLoss, &kGrad, &kWithGrad}; }

}  // namespace plimsoll::ops
#endif

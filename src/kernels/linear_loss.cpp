#include "kernels/linear_loss.h"

#include <cmath>
#include <vector>

#include "kernels/parallel.h"
#include "kernels/product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear_loss.cpp"
#include <hwy/foreach_target.h>

#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {
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
}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels {
namespace {

HWY_EXPORT(take_row);
HWY_EXPORT(to_slopes);

// The products of a tile with some of its classes: with all of them, or with those of a packed kernel that are unpacked
// at once.
struct ClassProducts {
  int64_t first, classes;  // within the tile
  Product logits;
  std::optional<Product> dx;
};

// The products of one tile shape; there are up to four: inner, right edge, lower edge, corner.
struct TileProducts {
  int64_t rows, classes;
  std::vector<ClassProducts> with_kernel;         // over all classes of the tile
  std::optional<Product> first_dkernel, dkernel;  // the first rows write dkernel, all others add to it
  Bytes workspace_bytes = 0;

  TileProducts(const LossSizes& n, int64_t tile_rows, int64_t tile_classes, const LossWork& work)
      : rows(tile_rows), classes(tile_classes) {
    const int64_t at_once = n.packed ? n.unpacked_classes() : classes;
    for (int64_t first = 0; first < classes; first += at_once) add(n, first, std::min(at_once, classes - first), work);
    if (!work.gives_dkernel) return;
    const MatrixOrder x = MatrixOrder::by_rows(rows, n.width);
    // The gradient has the order of the kernel, whose rows are classes when it is transposed.
    for (const bool adds : {false, true}) {
      std::optional<Product>& product = adds ? dkernel : first_dkernel;
      if (n.transposed)
        product.emplace(tile().transposed(), x, n.width, adds);
      else
        product.emplace(x.transposed(), tile(), n.classes, adds);
      workspace_bytes = std::max(workspace_bytes, product->workspace_bytes());
    }
  }

 private:
  MatrixOrder tile() const { return MatrixOrder::by_rows(rows, classes); }
  void add(const LossSizes& n, int64_t first, int64_t count, const LossWork& work) {
    const MatrixOrder kernel =
        n.transposed ? MatrixOrder{n.width, count, 1, n.width} : MatrixOrder{n.width, count, n.classes, 1};
    ClassProducts& made = with_kernel.emplace_back(
        ClassProducts{first, count, Product(MatrixOrder::by_rows(rows, n.width), kernel, classes), std::nullopt});
    workspace_bytes = std::max(workspace_bytes, made.logits.workspace_bytes());
    if (!work.gives_dx) return;
    made.dx.emplace(MatrixOrder{rows, count, classes, 1}, kernel.transposed(), n.width, true);
    workspace_bytes = std::max(workspace_bytes, made.dx->workspace_bytes());
  }
};

class TileTable {
 public:
  TileTable(const LossSizes& n, const LossWork& work) {
    for (const int64_t rows : parts(n.rows, n.tile_rows()))
      for (const int64_t classes : parts(n.classes, n.tile_classes())) {
        tiles_.emplace_back(n, rows, classes, work);
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

// A stretch of rows, at most as many as a tile has.
struct TileRows {
  int64_t first, count;
  const float* x;
  const int32_t* labels;
  float* sums;    // the log-sum-exp of each
  float* logits;  // room for all of them, tile behind tile; null: they are recomputed
};

void fill_zeros(float* to, int64_t count) {
  parallel_for(count, 65536, [&](int64_t first, int64_t last) { std::fill(to + first, to + last, 0.0F); });
}

}  // namespace

class LinearLoss::Run {
 public:
  Run(const LossSizes& sizes, const LossWork& work)
      : n_(sizes), table_(n_, work), holds_logits_(work.holds_logits), adds_(work.adds) {}

  // A tile of logits or slopes, (top, total, logit of the label) and the log-sum-exp for each of its rows, all logits
  // of these rows where they are held, a tile of a packed kernel, and what the products need.
  Bytes workspace_bytes() const { return logits_at() + logits_bytes() + n_.unpacked_bytes() + table_.workspace_bytes; }

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

  void take(const TileRows& rows, const void* kernel, void* workspace) const noexcept {
    for_tiles([&](int64_t c, int64_t classes) { take_tile(rows, c, classes, kernel, workspace); });
  }

  // visit(products, kernel) for all classes of the tile that begins with class c, as many at once as are in f32.
  template <class Visit>
  void for_kernel(const TileProducts& tile, const void* kernel, int64_t c, void* workspace, Visit&& visit) const {
    for (const ClassProducts& products : tile.with_kernel) {
      const int64_t first = c + products.first;
      if (!n_.packed) {
        visit(products, static_cast<const float*>(kernel) + n_.kernel_at(first));
        continue;
      }
      float* wide = at(workspace, logits_at() + logits_bytes());
      n_.packed->unpack(static_cast<const std::byte*>(kernel), first, products.classes, wide);
      visit(products, wide);
    }
  }

  void make_logits(const TileRows& rows, const TileProducts& tile, const void* kernel, int64_t c, float* logits,
                   void* workspace) const noexcept {
    for_kernel(tile, kernel, c, workspace, [&](const ClassProducts& products, const float* wide) {
      products.logits.run(rows.x, wide, nullptr, logits + products.first, for_products(workspace));
    });
  }

  // Makes a tile of logits, which stays where there is room, and takes it into the statistics of the rows.
  void take_tile(const TileRows& rows, int64_t c, int64_t classes, const void* kernel, void* workspace) const noexcept {
    float* stats = stats_in(workspace);
    for (int64_t i = 0; i < rows.count && c == 0; ++i) {
      stats[3 * i] = -INFINITY;
      stats[3 * i + 1] = 0;
      stats[3 * i + 2] = 0;
    }
    float* tile = rows.logits != nullptr ? rows.logits + rows.count * c : at(workspace, 0);
    make_logits(rows, table_.at(rows.count, classes), kernel, c, tile, workspace);
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

  // Adds the gradients of `rows` to dx and dkernel. `behind`, the next rows, use each tile of the kernel while it is in
  // the cache; their logits are written over those that are no longer needed.
  void go_back(const TileRows& rows, const std::optional<TileRows>& behind, const LossOperands& in, float factor,
               void* workspace) const noexcept {
    float* slopes = at(workspace, 0);
    void* space = for_products(workspace);
    for_tiles([&](int64_t c, int64_t classes) {
      const TileProducts& tile = table_.at(rows.count, classes);
      const float* logits = rows.logits != nullptr ? rows.logits + rows.count * c : slopes;
      if (rows.logits == nullptr) make_logits(rows, tile, in.kernel, c, slopes, workspace);
      parallel_for(rows.count, 4, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          float* row = slopes + i * classes;
          const int32_t label = rows.labels[i];
          const float slope = is_known(label) ? factor : 0.0F;
          HWY_DYNAMIC_DISPATCH(to_slopes)(logits + i * classes, row, classes, rows.sums[i], slope);
          if (label >= c && label < c + classes) row[label - c] -= factor;
        }
      });
      for_kernel(tile, in.kernel, c, workspace, [&](const ClassProducts& products, const float* wide) {
        products.dx->run(slopes + products.first, wide, nullptr, in.dx + rows.first * n_.width, space);
      });
      if (in.dkernel != nullptr) {
        const Product& product = rows.first == 0 && !adds_ ? *tile.first_dkernel : *tile.dkernel;
        float* dkernel = in.dkernel + n_.kernel_at(c);
        if (n_.transposed)
          product.run(slopes, rows.x, nullptr, dkernel, space);
        else
          product.run(rows.x, slopes, nullptr, dkernel, space);
      }
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
  void* for_products(void* workspace) const noexcept {
    return at(workspace, logits_at() + logits_bytes() + n_.unpacked_bytes());
  }
  template <class F>
  void for_tiles(F&& work) const {
    for (int64_t c = 0; c < n_.classes; c += n_.tile_classes()) work(c, std::min(n_.tile_classes(), n_.classes - c));
  }

  LossSizes n_;
  TileTable table_;
  bool holds_logits_;
  bool adds_;
};

LinearLoss::LinearLoss(const LossSizes& sizes, const LossWork& work) : run_(std::make_unique<Run>(sizes, work)) {}
LinearLoss::~LinearLoss() = default;
Bytes LinearLoss::workspace_bytes() const { return run_->workspace_bytes(); }
int64_t LinearLoss::find_bad(const int32_t* labels) const noexcept { return run_->find_bad(labels); }
int64_t LinearLoss::classes() const { return run_->classes(); }
void LinearLoss::run(const LossOperands& in, void* workspace) const noexcept { run_->run(in, workspace); }

}  // namespace plimsoll::kernels
#endif

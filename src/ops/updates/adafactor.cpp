// adafactor: the second moment of a matrix from the means of its rows and columns. With q = g^2 + epsilon1 and
// b = 1 - t^beta2_decay:
//   r = b r + (1 - b) mean of q over columns, c = b c + (1 - b) mean of q over rows, v = r c / mean of r
//   u = g / sqrt(v); w -= max(epsilon2, rms(w)) min(rate, 1 / sqrt(t)) u / max(1, rms(u) / clip_threshold)
// A vector keeps v itself: v = b v + (1 - b) q. Decay comes first: w -= w * decay * rate.
#include <cmath>

#include <fmt/format.h>

#include "kernels/blocks.h"
#include "kernels/update.h"
#include "ops/sample.h"
#include "ops/updates/rule.h"

namespace plimsoll::ops {
namespace {

// A variable as [outer, rows, columns, inner]: the two dimensions in the middle are factored. A filter [outputs,
// inputs, height, width] factors the first two, as Keras does with [height, width, inputs, outputs]; others the last
// two.
struct Factored {
  int64_t outer = 1, rows, columns, inner = 1;
  int64_t row_floats() const { return columns * inner; }
  int64_t row_count() const { return outer * rows; }
};

int first_factored_axis(int rank) { return rank == 4 ? 0 : rank - 2; }

Factored factored(const Dims& dims) {
  const int first = first_factored_axis(dims.rank());
  Factored f{.rows = dims[first], .columns = dims[first + 1]};
  for (int axis = 0; axis < first; ++axis) f.outer *= dims[axis];
  for (int axis = first + 2; axis < dims.rank(); ++axis) f.inner *= dims[axis];
  return f;
}

struct Settings {
  double beta2_decay, epsilon1, epsilon2, clip_threshold;
  DecaySettings decay;
  float limit;
  bool relative_step;

  explicit Settings(const Attrs& attrs)
      : beta2_decay(attrs.f("beta2_decay", -0.8)),
        epsilon1(attrs.f("epsilon1", 1e-30)),
        epsilon2(attrs.f("epsilon2", 1e-3)),
        clip_threshold(attrs.f("clip_threshold", 1.0)),
        decay(attrs),
        limit(static_cast<float>(attrs.f("clip_value", INFINITY))),
        relative_step(attrs.i("relative_step", 1) != 0) {}
};

// One run of the kernel: what changes from step to step, and the passes that both forms share.
class Run {
 public:
  Run(const Settings& settings, const UpdateInputs& inputs, int64_t count, const Args& args)
      : settings_(settings),
        count_(count),
        g_(args.input<float>(inputs.gradient())),
        w_(args.updated<float>(0)),
        sums_(args.workspace),
        factor_(inputs.has_factor ? *args.input<float>(inputs.factor()) : 1.0F),
        rate_(static_cast<double>(settings.decay.rate(*args.input<float>(inputs.rate())))),
        t_(static_cast<double>(*args.input<int64_t>(inputs.step()))) {}

  float gradient(int64_t i) const {
    // In this order NaN stays NaN.
    const float clipped = std::min(std::max(g_[i] * factor_, -settings_.limit), settings_.limit);
    return settings_.decay.coupled == 0 ? clipped : clipped + static_cast<float>(settings_.decay.coupled) * w_[i];
  }
  float weight(int64_t i) const { return w_[i]; }
  void set_weight(int64_t i, float value) const { w_[i] = value; }
  float beta() const { return static_cast<float>(1 - std::pow(t_, settings_.beta2_decay)); }
  float epsilon1() const { return static_cast<float>(settings_.epsilon1); }
  float keep() const { return static_cast<float>(1 - settings_.decay.decay * rate_); }

  // The factor of u, from the sum of its squares.
  float scale(double squares) const {
    const auto count = static_cast<double>(count_);
    const double weights = sum_in_blocks(count_, 16384, sums_, [&](int64_t first, int64_t last) {
      double sum = 0;
      for (int64_t i = first; i < last; ++i) sum += static_cast<double>(w_[i]) * static_cast<double>(w_[i]);
      return sum;
    });
    const double size = std::max(settings_.epsilon2, static_cast<double>(keep()) * std::sqrt(weights / count));
    const double rate = settings_.relative_step ? std::min(rate_, 1 / std::sqrt(t_)) : rate_;
    return static_cast<float>(size * rate / std::max(1.0, std::sqrt(squares / count) / settings_.clip_threshold));
  }

  // The sum of body(item) over [0, items); `floats`: how many each item has.
  template <class Body>
  double sum(int64_t items, int64_t floats, const Body& body) const {
    return sum_in_blocks(items, 1 + 16384 / floats, sums_, [&](int64_t first, int64_t last) {
      double total = 0;
      for (int64_t i = first; i < last; ++i) total += body(i);
      return total;
    });
  }

 private:
  const Settings& settings_;
  const int64_t count_;
  const float* g_;
  float* w_;
  void* sums_;
  const float factor_;
  const double rate_, t_;
};

// Calls body(element, column, inner) for all elements of a row; the column counts columns x inner.
template <class Body>
void for_row(const Factored& f, int64_t row, const Body& body) {
  const int64_t start = row * f.row_floats();
  if (f.inner == 1) {
    for (int64_t j = 0; j < f.columns; ++j) body(start + j, j, int64_t{0});
    return;
  }
  for (int64_t j = 0; j < f.row_floats(); j += f.inner)
    for (int64_t k = 0; k < f.inner; ++k) body(start + j + k, j + k, k);
}

void update_rows(const Run& run, const Factored& f, float* r) {
  const float beta = run.beta(), rest = 1 - beta;
  parallel_for(f.row_count(), 1 + 16384 / f.row_floats(), [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row)
      for (int64_t k = 0; k < f.inner; ++k) {
        double sum = 0;
        for (int64_t at = row * f.row_floats() + k; at < (row + 1) * f.row_floats(); at += f.inner) {
          const auto g = static_cast<double>(run.gradient(at));
          sum += g * g;
        }
        float& moment = r[row * f.inner + k];
        const auto mean = static_cast<float>(sum / static_cast<double>(f.columns));
        moment = beta * moment + rest * (mean + run.epsilon1());
      }
  });
}

void update_columns(const Run& run, const Factored& f, float* c) {
  constexpr int64_t kTogether = 256;  // columns whose sums live on the stack
  const float beta = run.beta(), rest = 1 - beta;
  const int64_t pieces = (f.row_floats() + kTogether - 1) / kTogether;
  parallel_for(f.outer * pieces, 1, [&](int64_t first, int64_t last) {
    for (int64_t item = first; item < last; ++item) {
      const int64_t outer = item / pieces, begin = item % pieces * kTogether;
      const int64_t columns = std::min(kTogether, f.row_floats() - begin);
      double sums[kTogether] = {};
      for (int64_t row = outer * f.rows; row < (outer + 1) * f.rows; ++row)
        for (int64_t j = 0; j < columns; ++j) {
          const auto g = static_cast<double>(run.gradient(row * f.row_floats() + begin + j));
          sums[j] += g * g;
        }
      for (int64_t j = 0; j < columns; ++j) {
        float& moment = c[outer * f.row_floats() + begin + j];
        const auto mean = static_cast<float>(sums[j] / static_cast<double>(f.rows));
        moment = beta * moment + rest * (mean + run.epsilon1());
      }
    }
  });
}

// 1 / sqrt(v) is by_row x by_column.
void find_factors(const Factored& f, const float* r, const float* c, float* by_row, float* by_column) {
  for (int64_t outer = 0; outer < f.outer; ++outer)
    for (int64_t k = 0; k < f.inner; ++k) {
      double sum = 0;
      const int64_t first = outer * f.rows * f.inner + k, last = (outer + 1) * f.rows * f.inner;
      for (int64_t i = first; i < last; i += f.inner) sum += static_cast<double>(r[i]);
      const double mean = sum / static_cast<double>(f.rows);
      for (int64_t i = first; i < last; i += f.inner)
        by_row[i] = static_cast<float>(std::sqrt(mean / static_cast<double>(r[i])));
    }
  for (int64_t i = 0; i < f.outer * f.row_floats(); ++i) by_column[i] = 1 / std::sqrt(c[i]);
}

void infer_factored(Infer& n) {
  const UpdateInputs inputs = update_inputs(n.attrs, 3, true);
  n.expect_inputs(inputs.count(), inputs.count());
  const int rank = n.in[0].shape.rank();
  if (rank < 2) n.fail(fmt::format("{} has no rows and columns to factor", to_string(n.in[0])));
  Shape r = n.in[0].shape, c = n.in[0].shape;
  r.erase(first_factored_axis(rank) + 1);
  c.erase(first_factored_axis(rank));
  if (!(n.in[1] == TensorType{DType::F32, r}) || !(n.in[2] == TensorType{DType::F32, c}))
    n.fail(fmt::format("the means of the rows and columns of {} are {} and {} but should be f32{} and f32{}",
                       to_string(n.in[0]), to_string(n.in[1]), to_string(n.in[2]), to_string(r), to_string(c)));
  if (inputs.is_sparse) n.fail("a row-sparse gradient has no means of columns; give the dense one");
  infer_gradient(n, inputs);
}

void infer_vector(Infer& n) {
  if (n.in.size() > 1 && n.in[1].dtype != DType::F32)
    n.fail(fmt::format("the state must be f32 but is {}", to_string(n.in[1])));
  infer_update(n, 2, true);
}

Prepared prepare_factored(const Facts& facts) {
  const Settings settings(facts.attrs);
  const UpdateInputs inputs = update_inputs(facts.attrs, 3, true);
  const Factored f = factored(facts.in[0].dims);
  const int64_t count = facts.in[0].count(), rows = f.row_count() * f.inner, columns = f.outer * f.row_floats();
  return {.kernel = make_kernel([=](const Args& args) {
            const Run run(settings, inputs, count, args);
            auto* r = args.updated<float>(1);
            auto* c = args.updated<float>(2);
            float* by_row = reinterpret_cast<float*>(static_cast<std::byte*>(args.workspace) + kBlockSumBytes);
            float* by_column = by_row + rows;
            update_rows(run, f, r);
            update_columns(run, f, c);
            find_factors(f, r, c, by_row, by_column);
            // Calls body(element, u) for a row.
            const auto for_steps = [&](int64_t row, const auto& body) {
              const float* row_factor = by_row + row * f.inner;
              const float* column_factor = by_column + row / f.rows * f.row_floats();
              for_row(f, row, [&](int64_t at, int64_t j, int64_t k) {
                body(at, run.gradient(at) * row_factor[k] * column_factor[j]);
              });
            };
            const double squares = run.sum(f.row_count(), f.row_floats(), [&](int64_t row) {
              double sum = 0;
              for_steps(row, [&](int64_t, float u) { sum += static_cast<double>(u) * static_cast<double>(u); });
              return sum;
            });
            const float scale = run.scale(squares), keep = run.keep();
            parallel_for(f.row_count(), 1 + 16384 / f.row_floats(), [&](int64_t first, int64_t last) {
              for (int64_t row = first; row < last; ++row)
                for_steps(row, [&](int64_t at, float u) { run.set_weight(at, run.weight(at) * keep - scale * u); });
            });
          }),
          .workspace_bytes = kBlockSumBytes + (rows + columns) * static_cast<Bytes>(sizeof(float))};
}

Prepared prepare_vector(const Facts& facts) {
  const Settings settings(facts.attrs);
  const UpdateInputs inputs = update_inputs(facts.attrs, 2, true);
  const int64_t count = facts.in[0].count();
  return {.kernel = make_kernel([=](const Args& args) {
            const Run run(settings, inputs, count, args);
            auto* v = args.updated<float>(1);
            const float beta = run.beta(), rest = 1 - beta;
            const double squares = run.sum(count, 1, [&](int64_t i) {
              const float g = run.gradient(i);
              v[i] = beta * v[i] + rest * (g * g + run.epsilon1());
              return static_cast<double>(g) * static_cast<double>(g) / static_cast<double>(v[i]);
            });
            const float scale = run.scale(squares), keep = run.keep();
            parallel_for(count, 16384, [&](int64_t first, int64_t last) {
              for (int64_t i = first; i < last; ++i)
                run.set_weight(i, run.weight(i) * keep - scale * run.gradient(i) / std::sqrt(v[i]));
            });
          }),
          .workspace_bytes = kBlockSumBytes};
}

// Means of rows and columns, or one number an element of a vector.
std::vector<Shape> adafactor_state(const Shape& variable) {
  if (variable.rank() < 2) return {variable};
  Shape r = variable, c = variable;
  r.erase(first_factored_axis(variable.rank()) + 1);
  c.erase(first_factored_axis(variable.rank()));
  return {r, c};
}

const Op& op_for(const std::vector<Shape>& state) {
  return *find_op(state.size() == 2 ? "adafactor" : "adafactor_vector");
}

Sample sample(std::string name, const Shape& shape, bool factor, const Attrs& settings) {
  return {std::move(name),
          [=](SampleBuilder& s) {
            const Tensor w = s.variable(shape);
            std::vector<Tensor> changed{w};
            const std::vector<Shape> states = adafactor_state(shape);
            for (const Shape& state : states) changed.push_back(s.variable(state, 0.1, 1));
            const Tensor g = s.input(shape);
            const Tensor rate = s.input({}, 0.1, 0.2);
            const Tensor step = s.integers({}, 2, 9, DType::I64);
            add_update(op_for(states), changed, {g, {}}, rate, step, factor ? s.input({}, 0.3, 0.9) : Tensor(),
                       settings, {});
            return changed;
          },
          1e-4, false};
}

std::vector<Sample> factored_samples() {
  return {sample("matrix", {5, 7}, false, {}),
          sample("wide matrix", {3, 700}, true, {{"weight_decay", 0.01}, {"clip_value", 0.5}}),
          sample("filter", {4, 3, 2, 5}, false, {{"relative_step", int64_t{0}}, {"clip_threshold", 0.5}}),
          sample("stack of matrices", {2, 3, 4}, false, {{"beta2_decay", -0.5}, {"epsilon2", 2.0}})};
}

std::vector<Sample> vector_samples() {
  return {sample("vector", {9}, true, {}), sample("scalar", {}, false, {{"weight_decay", 0.01}}),
          sample("coupled, own rate", {6}, false, {{"coupled_decay", 0.1}, {"rate_factor", 0.5}})};
}

const Op kFactored{.name = "adafactor",
                   .infer = infer_factored,
                   .types = kUpdateTypes,
                   .prepare = prepare_factored,
                   .samples = factored_samples,
                   .traits = {.updates = 0b111, .plain_updates = true}};
const Op kVector{.name = "adafactor_vector",
                 .infer = infer_vector,
                 .types = kUpdateTypes,
                 .prepare = prepare_vector,
                 .samples = vector_samples,
                 .traits = {.updates = 0b11, .plain_updates = true}};

void check(const RuleSettings& settings) {
  for (const char* name : {"epsilon1", "epsilon2", "clip_threshold"}) settings.expect_positive(name);
  const double decay = settings["beta2_decay"];
  settings.expect(std::isfinite(decay) && decay < 0, "beta2_decay", "negative");
}

NodeId add(WeightUpdate& u) {
  u.take({"beta2_decay", "epsilon1", "epsilon2", "clip_threshold"});
  u.attrs.set("relative_step", int64_t{u.settings.is("relative_step")});
  const std::vector<Shape> shapes = adafactor_state(u.weight.shape());
  std::vector<Tensor> updated{u.weight};
  for (size_t i = 0; i < shapes.size(); ++i)
    updated.push_back(u.make_whole(shapes.size() == 1 ? "v" : i == 0 ? "r" : "c", DType::F32, shapes[i]));
  u.gradient = u.dense_gradient();
  return u.add(op_for(shapes), std::move(updated), true);
}

const OptimiserRule kRule{
    .name = "adafactor", .check = check, .add = add, .whole_state = "belongs to whole rows and columns"};

}  // namespace

OpList adafactor_ops() { return {&kFactored, &kVector}; }
const OptimiserRule& adafactor_rule() { return kRule; }

}  // namespace plimsoll::ops

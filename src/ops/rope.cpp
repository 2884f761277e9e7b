// rope: pairs of elements turned by an angle that grows with the position and falls with the pair. The gradient turns
// back.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "kernels/kernel.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

// x is [batch, heads, positions, width], or [batch, positions, heads, width] with positions_first; positions, where
// they are given, [positions] or [batch, positions].
int position_axis(const Attrs& attrs, int rank) { return rank - (attrs.i("positions_first") != 0 ? 3 : 2); }

void infer(Infer& n) {
  n.expect_inputs(1, 2);
  const Shape& x = n.in[0].shape;
  const int axis = position_axis(n.attrs, x.rank());
  if (axis < 0) n.fail(fmt::format("{} has no axis of positions", to_string(n.in[0])));
  if (x.back().is_batch()) n.fail(fmt::format("the last axis of {} is the batch", to_string(n.in[0])));
  const int64_t width = x.back().fixed(), turned = n.attrs.i("turned");
  if (turned < 2 || turned % 2 != 0 || turned > width)
    n.fail(fmt::format("{} of {} elements can't be turned in pairs", turned, width));
  n.expect_positive("base", 1e4);
  n.expect_between("offset", 0, 1e15, 0);
  if (n.in.size() == 2) {
    const Shape& at = n.in[1].shape;
    const bool of_all = at.rank() == 1 && at[0] == x[axis];
    const bool of_each = at.rank() == 2 && axis > 0 && at[0] == x[0] && at[1] == x[axis];
    if (!of_all && !of_each)
      n.fail(fmt::format("positions {} are not those of axis {} of {}", to_string(n.in[1]), axis, to_string(n.in[0])));
  } else if (x[axis].is_batch()) {
    n.fail(fmt::format("the axis of positions of {} is the batch; give the positions as a tensor", to_string(n.in[0])));
  }
  n.out = {n.in[0]};
}

struct Turns {
  Turns(const Facts& facts) {  // NOLINT(google-explicit-constructor)
    const Dims& dims = facts.in[0].dims;
    const int axis = position_axis(facts.attrs, dims.rank());
    width = dims.back();
    positions = dims[axis];
    for (int i = axis + 1; i + 1 < dims.rank(); ++i) inner *= dims[i];
    rows = facts.in[0].count() / std::max<int64_t>(1, width);
    given = facts.in.size() == 2 ? facts.in[1].count() : 0;
    // Of each sample its own positions: a sample has so many rows.
    if (given > 0 && facts.in[1].dims.rank() == 2) rows_of_sample = rows / std::max<int64_t>(1, dims[0]);
    turned = facts.attrs.i("turned");
    base = facts.attrs.f("base", 1e4);
    offset = facts.attrs.f("offset");
    in_halves = facts.attrs.i("interleaved") == 0;
    sign = facts.attrs.i("back") != 0 ? -1 : 1;
  }
  int64_t angles() const { return given > 0 ? given : positions; }
  int64_t pairs() const { return turned / 2; }
  Bytes workspace_bytes() const { return 2 * angles() * pairs() * static_cast<Bytes>(sizeof(float)); }

  template <class Positions>
  void fill(const Positions& position_of, float* table) const {
    parallel_for(angles(), 1 + 512 / pairs(), [&](int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t) {
        const double position = position_of(t) + offset;
        float* cosines = table + 2 * t * pairs();
        for (int64_t i = 0; i < pairs(); ++i) {
          const double angle = position * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(turned));
          cosines[i] = static_cast<float>(std::cos(angle));
          cosines[pairs() + i] = static_cast<float>(sign * std::sin(angle));
        }
      }
    });
  }

  void turn_row(const float* table, const float* x, float* y) const {
    const int64_t count = pairs();
    const float* sines = table + count;
    if (in_halves) {
      for (int64_t i = 0; i < count; ++i) {
        const float a = x[i], b = x[count + i];
        y[i] = a * table[i] - b * sines[i];
        y[count + i] = b * table[i] + a * sines[i];
      }
    } else {
      for (int64_t i = 0; i < count; ++i) {
        const float a = x[2 * i], b = x[2 * i + 1];
        y[2 * i] = a * table[i] - b * sines[i];
        y[2 * i + 1] = b * table[i] + a * sines[i];
      }
    }
    if (x != y && turned < width) std::memcpy(y + turned, x + turned, static_cast<size_t>(width - turned) * sizeof *x);
  }

  int64_t width = 1, positions = 1, inner = 1, rows = 1, given = 0, rows_of_sample = 0, turned = 2;
  double base = 1e4, offset = 0;
  bool in_halves = true;
  int sign = 1;
};

Prepared prepare(const Facts& facts) {
  const Turns turns(facts);
  const DType dtype = turns.given > 0 ? facts.in[1].dtype : DType::I32;
  return {.kernel = make_kernel([=](const Args& args) {
            auto* table = static_cast<float*>(args.workspace);
            if (turns.given == 0)
              turns.fill([](int64_t t) { return static_cast<double>(t); }, table);
            else if (dtype == DType::F32)
              turns.fill([&](int64_t t) { return static_cast<double>(args.input<float>(1)[t]); }, table);
            else if (dtype == DType::I32)
              turns.fill([&](int64_t t) { return static_cast<double>(args.input<int32_t>(1)[t]); }, table);
            else
              turns.fill([&](int64_t t) { return static_cast<double>(args.input<int64_t>(1)[t]); }, table);
            const auto* x = args.input<float>(0);
            auto* y = args.output<float>(0);
            parallel_for(turns.rows, 1 + 8192 / turns.width, [&](int64_t first, int64_t last) {
              for (int64_t r = first; r < last; ++r) {
                int64_t t = r / turns.inner % turns.positions;
                if (turns.rows_of_sample > 0) t += r / turns.rows_of_sample * turns.positions;
                turns.turn_row(table + 2 * t * turns.pairs(), x + r * turns.width, y + r * turns.width);
              }
            });
          }),
          .workspace_bytes = turns.workspace_bytes()};
}

BatchRule batch_rule(const Attrs& attrs, std::span<const TensorType> in) {
  const Shape& x = in[0].shape;
  // Rows of samples that do not lie in one piece have no sample of their own.
  if (in.size() == 2 && in[1].shape.rank() == 2 && !x[0].is_batch() && element_count(x).is_batch())
    return BatchRule::Mixes;
  return x[position_axis(attrs, x.rank())].is_batch() && in.size() == 1 ? BatchRule::Mixes : BatchRule::Rows;
}

extern const Op kRope;
void grad(Backward& b) {
  if (!b.wanted[0]) return;
  Attrs attrs = b.attrs;
  attrs.set("back", int64_t{1 - b.attrs.i("back")});
  std::vector<Tensor> inputs{b.dy[0]};
  if (b.x.size() == 2) inputs.push_back(b.x[1]);
  b.give(0, apply(kRope, inputs, attrs));
}

std::vector<Sample> samples() {
  return {{"halves",
           [](SampleBuilder& s) {
             return std::vector{rope(s.input({Dim::batch(), 2, 5, 6}))};
           }},
          {"interleaved",
           [](SampleBuilder& s) {
             return std::vector{rope(s.input({Dim::batch(), 2, 5, 6}), {}, 100, 0, true)};
           }},
          {"a part, positions first",
           [](SampleBuilder& s) {
             return std::vector{rope(s.input({Dim::batch(), 5, 2, 7}), {}, 1e4, 4, false, true, 3)};
           }},
          {"given positions",
           [](SampleBuilder& s) {
             return std::vector{
                 rope(s.input({Dim::batch(), 2, 3, 4}), s.integers({Dim::batch(), 3}, 0, 50)),
                 rope(s.input({Dim::batch(), 3, 2, 4}), s.integers({3}, 0, 50, DType::I64), 1e4, 0, false, true)};
           }},
          {"one position for each sample", [](SampleBuilder& s) {
             return std::vector{rope(s.input({Dim::batch(), 4}), s.integers({Dim::batch()}, 0, 50))};
           }}};
}

const Op kRope{.name = "rope",
               .storable = true,
               .infer = infer,
               .types = {DType::F32, {DType::F32, DType::I32, DType::I64}},
               .grad = grad,
               .prepare = prepare,
               .samples = samples,
               .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 1},
               .batch_rule = batch_rule,
               .onnx = "RotaryEmbedding"};

}  // namespace

Tensor rope(Tensor x, Tensor positions, double base, int64_t turned, bool interleaved, bool positions_first,
            int64_t offset, Name name) {
  if (turned == 0 && x.rank() > 0 && !x.dim(-1).is_batch()) turned = x.dim(-1).fixed();
  std::vector<Tensor> inputs{x};
  if (positions.is_set()) inputs.push_back(positions);
  return apply(kRope, inputs,
               {{"base", base},
                {"turned", turned},
                {"interleaved", int64_t{interleaved}},
                {"positions_first", int64_t{positions_first}},
                {"offset", static_cast<double>(offset)}},
               name);
}

OpList rope_ops() { return {&kRope}; }

}  // namespace plimsoll::ops

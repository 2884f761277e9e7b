// What optimiser updates share: the order of their inputs, layouts, and one pass over variable, state and gradient.
// With the setting `slices`, so many ranks share the states: each has a slice of them, and updates the same slice of
// the variable. A row-sparse gradient stands for the dense one of its table (all state decays), which is never built.
#pragma once

#include "kernels/bad_values.h"
#include "kernels/kernel.h"
#include "kernels/parallel.h"
#include "kernels/rank_slices.h"
#include "kernels/row_sort.h"

namespace plimsoll::kernels {

// Inputs: the variable and its states (`updated` of them), gradient, rate, [step], [rows], [factor].
struct UpdateInputs {
  size_t updated;
  bool has_step, is_sparse, has_factor;
  size_t gradient() const { return updated; }
  size_t rate() const { return updated + 1; }
  size_t step() const { return updated + 2; }
  size_t rows() const { return updated + 2 + has_step; }
  size_t factor() const { return updated + 2 + has_step + is_sparse; }
  size_t count() const { return factor() + has_factor; }
};

// The variable is f32; what the other inputs are depends on the settings, so that infer_update checks each.
inline constexpr InputTypes kUpdateTypes{DType::F32, {DType::F32, DType::BF16, DType::I32, DType::I64}};
UpdateInputs update_inputs(const Attrs& attrs, size_t updated, bool has_step);
void infer_update(Infer& n, size_t updated, bool has_step);
// Parts of infer_update. expect_gradient: the gradient, dense or row-sparse, fits input 0. infer_gradient: that, and
// the checks of all inputs after the states.
void expect_gradient(const Infer& n, const UpdateInputs& inputs);
void infer_gradient(Infer& n, const UpdateInputs& inputs);
// `updated`: the variable, then its states.
NodeId add_update(const Op& op, const std::vector<Tensor>& updated, const Gradient& gradient, Tensor rate, Tensor step,
                  Tensor factor, Attrs settings, Name name);

// How a weight decays apart from its gradient (w -= w * decay * rate, before the step) and with it (gradient += coupled
// * w, after clipping), and what multiplies the rate of this weight.
struct DecaySettings {
  double decay, coupled, rate_factor;
  explicit DecaySettings(const Attrs& attrs)
      : decay(attrs.f("weight_decay")), coupled(attrs.f("coupled_decay")), rate_factor(attrs.f("rate_factor", 1)) {}
  float rate(float rate_of_step) const {
    return rate_factor == 1 ? rate_of_step : static_cast<float>(rate_of_step * rate_factor);
  }
};

struct Update {
  UpdateInputs inputs;
  int64_t count = 0;                           // floats of the variable in its layout, padding included
  int64_t table_rows = 0, width = 0, ids = 0;  // row-sparse only
  std::vector<Layout> layouts;                 // of all inputs
  Bytes workspace_bytes = 0;
  DecaySettings decay;

  int64_t slice = 0;                // elements of a state that ranks share; 0: each rank has all
  bool has_gradient_slice = false;  // the gradient is one too

  Update(const Facts& facts, size_t updated, bool has_step);
  // What this run changes of the variable.
  RankSlice own(const Args& args) const {
    if (slice == 0) return {0, count};
    return slice_of_rank(count, slice, args.state->network != nullptr ? args.state->network->rank() : 0);
  }
  // The element of the variable that the first element of its states belongs to.
  float* variable(const Args& args) const { return args.updated<float>(0) + own(args).first; }
  float rate(const Args& args) const { return decay.rate(*args.input<float>(inputs.rate())); }
  float coupled() const { return static_cast<float>(decay.coupled); }
  float factor(const Args& args) const { return inputs.has_factor ? *args.input<float>(inputs.factor()) : 1.0F; }

  // Calls body(first, count, gradient) for runs that cover the variable, or this rank's slice of it; `touched_only`:
  // rows that the gradient names.
  template <class Body>
  void run(const Args& args, bool touched_only, const Body& body) const;

 private:
  template <class Body>
  void run_row(int64_t row, const SortedRows& rows, int64_t begin, int64_t end, const float* values,
               const Body& body) const;
};

constexpr int64_t kRunFloats = 512;  // of a row at a time: its summed gradient lives on the stack
alignas(64) inline constexpr float kZeros[kRunFloats] = {};

template <class Body>
void Update::run_row(int64_t row, const SortedRows& rows, int64_t begin, int64_t end, const float* values,
                     const Body& body) const {
  float sum[kRunFloats];
  for (int64_t first = 0; first < width; first += kRunFloats) {
    const int64_t last = std::min(width, first + kRunFloats);
    const float* gradient = begin == end ? kZeros : sum_entries(rows, begin, end, values, width, first, last, sum);
    body(row * width + first, last - first, gradient);
  }
}

template <class Body>
void Update::run(const Args& args, bool touched_only, const Body& body) const {
  const auto* gradient = args.input<float>(inputs.gradient());
  if (!inputs.is_sparse) {
    const RankSlice slice_here = own(args);
    if (!has_gradient_slice) gradient += slice_here.first;
    parallel_for(slice_here.count, 16384,
                 [&](int64_t first, int64_t last) { body(first, last - first, gradient + first); });
    return;
  }
  const auto* named = args.input<int32_t>(inputs.rows());
  const SortedRows rows = sort_rows(named, ids, table_rows, args.workspace);
  if (rows.count < ids) report_bad_rows(args, static_cast<int>(inputs.rows()), named, ids, table_rows);
  const int64_t grain = 1 + 16384 / (width + 1);
  if (touched_only) {
    parallel_for(rows.count, grain, [&](int64_t first, int64_t last) {
      // A row belongs to the piece in which its first entry lies.
      while (first > 0 && first < last && row_of(rows.entries[first]) == row_of(rows.entries[first - 1])) ++first;
      for (int64_t at = first, end = at; at < last; at = end) {
        end = rows.end_of_row(at);
        run_row(row_of(rows.entries[at]), rows, at, end, gradient, body);
      }
    });
    return;
  }
  parallel_for(table_rows, grain, [&](int64_t first, int64_t last) {
    int64_t at = rows.find(first);
    for (int64_t row = first; row < last; ++row) {
      const bool is_named = at < rows.count && row_of(rows.entries[at]) == row;
      const int64_t end = is_named ? rows.end_of_row(at) : at;
      run_row(row, rows, at, end, gradient, body);
      at = end;
    }
  });
}

}  // namespace plimsoll::kernels

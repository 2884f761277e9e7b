// reduce_variance, reduce_std, reduce_logsumexp, norm: composed of reductions.
#include <cmath>

#include <fmt/format.h>

#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

// The square root, whose gradient at zero is zero.
Tensor flat_root(Tensor x, Name name) {
  const Tensor zero = scale(x, 0), is_zero = less_equal(x, zero);
  return where(is_zero, zero, sqrt(where(is_zero, scale(x, 0, 1), x)), name);
}

// Of the elements that each result is made of; a multiple of the batch has no number yet.
Dim reduced_count(Tensor x, const Dims& axes) {
  if (axes.empty()) return element_count(x.shape());
  Dim count = 1;
  for (const int64_t axis : axes) count = count * x.dim(static_cast<int>(axis));
  return count;
}

// x without its sum's place: the mean is kept as a dimension of 1, so that it broadcasts.
Tensor drop_axes(Tensor kept, Tensor x, const Dims& axes, bool keep, Name name) {
  if (keep) return kept;
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    bool is_reduced = axes.empty();
    for (const int64_t axis : axes) is_reduced = is_reduced || axis == i || axis + x.rank() == i;
    if (!is_reduced) shape.push_back(x.dim(i));
  }
  return reshape(kept, shape, name);
}

using Reduction = Tensor (*)(Tensor x, Dims axes, bool keep);

template <Reduction reduce>
std::vector<Sample> samples() {
  return {{"last axis",
           [](SampleBuilder& s) {
             return std::vector{reduce(s.input({Dim::batch(), 3, 7}), {2}, false)};
           }},
          {"images",
           [](SampleBuilder& s) {
             return std::vector{reduce(s.input({Dim::batch(), 2, 3, 3}), {-2, -1}, true)};
           }},
          {"everything", [](SampleBuilder& s) {
             return std::vector{reduce(s.input({3, 5}), {}, false)};
           }}};
}

Sample over_batch(Reduction reduce, bool has_gradient) {
  return {"batch",
          [=](SampleBuilder& s) {
            return std::vector{reduce(s.input({Dim::batch(), 5}), {0}, false)};
          },
          1e-4, has_gradient};
}

Tensor largest_magnitude(Tensor x, Dims axes, bool keep) { return norm(x, 0, axes, keep); }
Tensor sum_of_magnitudes(Tensor x, Dims axes, bool keep) { return norm(scale(x, 0.3, 1), 1, axes, keep); }
Tensor cubic(Tensor x, Dims axes, bool keep) { return norm(scale(x, 0.3, 1), 3, axes, keep); }
Tensor euclidean(Tensor x, Dims axes, bool keep) { return norm(x, 2, axes, keep); }
Tensor variance(Tensor x, Dims axes, bool keep) { return reduce_variance(x, axes, keep); }
Tensor sample_variance(Tensor x, Dims axes, bool keep) { return reduce_variance(x, axes, keep, 1); }
Tensor deviation(Tensor x, Dims axes, bool keep) { return reduce_std(x, axes, keep); }
Tensor logsumexp(Tensor x, Dims axes, bool keep) { return reduce_logsumexp(scale(x, 3), axes, keep); }

std::vector<Sample> samples_variance() {
  std::vector<Sample> all = samples<variance>();
  all.push_back(over_batch(variance, false));
  for (Sample& sample : samples<sample_variance>()) {
    sample.name += ", corrected";
    all.push_back(sample);
  }
  return all;
}

std::vector<Sample> samples_std() {
  std::vector<Sample> all = samples<deviation>();
  all.push_back({"equal numbers", [](SampleBuilder& s) {
                   return std::vector{reduce_std(scale(s.input({Dim::batch(), 5}), 0, 2), {1})};
                 }});
  return all;
}

std::vector<Sample> samples_logsumexp() {
  std::vector<Sample> all = samples<logsumexp>();
  all.push_back(over_batch(logsumexp, true));
  all.push_back({"large",
                 [](SampleBuilder& s) {
                   return std::vector{reduce_logsumexp(s.input({Dim::batch(), 5}, 500, 1000), {1})};
                 },
                 1e-4, false});
  return all;
}

std::vector<Sample> samples_norm() {
  std::vector<Sample> all = samples<euclidean>();
  all.push_back(over_batch(euclidean, true));
  for (const auto& [name, more] : {std::pair{", sum", samples<sum_of_magnitudes>()},
                                   {", cubic", samples<cubic>()},
                                   {", largest", samples<largest_magnitude>()}})
    for (Sample sample : more) {
      sample.name += name;
      sample.has_gradient = std::string_view(name) != ", largest";
      all.push_back(sample);
    }
  all.push_back({"zero", [](SampleBuilder& s) {
                   return std::vector{norm(scale(s.input({Dim::batch(), 5}), 0), 2, {1})};
                 }});
  return all;
}

const Op kVariance{.name = "reduce_variance", .samples = samples_variance};
const Op kStd{.name = "reduce_std", .samples = samples_std};
const Op kLogSumExp{.name = "reduce_logsumexp", .samples = samples_logsumexp};
const Op kNorm{.name = "norm", .samples = samples_norm};

}  // namespace

Tensor reduce_variance(Tensor x, Dims axes, bool keep, double correction, Name name) {
  const Tensor squares = square(sub(x, reduce_mean(x, axes, true)));
  if (correction == 0) return reduce_mean(squares, axes, keep, name);
  const Dim count = reduced_count(x, axes);
  if (count.is_batch() || static_cast<double>(count.count()) <= correction)
    throw Error(
        fmt::format("reduce_variance '{}': a correction of {} needs more than so many elements, and a number of "
                    "them that does not depend on the batch; {} elements of {} are reduced",
                    std::string_view(name), correction, to_string(count), to_string(x.type())));
  return scale(reduce_sum(squares, axes, keep), 1 / (static_cast<double>(count.count()) - correction), 0, name);
}

Tensor reduce_std(Tensor x, Dims axes, bool keep, double correction, Name name) {
  return flat_root(reduce_variance(x, axes, keep, correction), name);
}

Tensor reduce_logsumexp(Tensor x, Dims axes, bool keep, Name name) {
  // An infinite maximum is left in: infinity - infinity is no number.
  const Tensor top = stop_gradient(reduce_max(x, axes, true));
  const Tensor safe = where(isfinite(top), top, x.graph().scalar(0));
  return drop_axes(add(log(reduce_sum(exp(sub(x, safe)), axes, true)), safe), x, axes, keep, name);
}

Tensor norm(Tensor x, double order, Dims axes, bool keep, Name name) {
  if (!(order >= 0) || !std::isfinite(order))
    throw Error(fmt::format("norm '{}': the order is {} but must be a positive number, or 0 for the largest magnitude",
                            std::string_view(name), order));
  if (order == 0) return reduce_max(abs(x), axes, keep, name);
  if (order == 1) return reduce_sum(abs(x), axes, keep, name);
  if (order == 2) return flat_root(reduce_sum(square(x), axes, keep), name);
  const Tensor sum = reduce_sum(pow(abs(x), x.graph().scalar(static_cast<float>(order))), axes, keep);
  return pow(sum, x.graph().scalar(static_cast<float>(1 / order)), name);
}

OpList statistics_ops() { return {&kVariance, &kStd, &kLogSumExp, &kNorm}; }

}  // namespace plimsoll::ops

// A batch norm of inference as a factor and a term for each channel: y = factor x + term.
#pragma once

#include <cmath>
#include <memory>
#include <utility>

#include "kernels/kernel.h"

namespace plimsoll::kernels {

// Of operators with the setting `normed`: inputs 2 to 5 are gamma, beta, mean and variance of the channels of the
// result.
class NormFactors {
 public:
  static constexpr size_t kInputs = 4;

  explicit NormFactors(const Facts& facts)
      : is_set_(facts.attrs.i("normed") != 0),
        channels_(facts.out[0].dims[1]),
        epsilon_(facts.attrs.f("epsilon")),
        stride_(round_up(channels_ * Bytes{sizeof(float)}, kAlignment)) {}

  bool is_set() const { return is_set_; }
  int64_t channels() const { return channels_; }
  // Factors lie at the start of the workspace, terms so many bytes behind them.
  Bytes terms_at() const { return stride_; }
  Bytes bytes() const { return is_set_ ? 2 * stride_ : 0; }
  const float* factors(const Args& args) const { return static_cast<const float*>(args.workspace); }
  const float* terms(const Args& args) const { return factors(args) + stride_ / static_cast<Bytes>(sizeof(float)); }

  std::shared_ptr<Kernel> filled_before(std::shared_ptr<Kernel> kernel) const {
    return make_kernel([kernel = std::move(kernel), norm = *this](const Args& args) {
      norm.fill(args);
      kernel->run(args);
    });
  }

  void fill(const Args& args) const noexcept {
    const auto *gamma = args.input<float>(2), *beta = args.input<float>(3);
    const auto *mean = args.input<float>(4), *variance = args.input<float>(5);
    const int64_t padded = stride_ / static_cast<Bytes>(sizeof(float));  // kernels read whole vectors
    auto* factor = static_cast<float*>(args.workspace);
    float* term = factor + padded;
    for (int64_t c = 0; c < padded; ++c) {
      const double by = c < channels_ ? gamma[c] / std::sqrt(variance[c] + epsilon_) : 0;
      factor[c] = static_cast<float>(by);
      term[c] = c < channels_ ? static_cast<float>(beta[c] - by * mean[c]) : 0;
    }
  }

 private:
  bool is_set_;
  int64_t channels_;
  double epsilon_;
  Bytes stride_;
};

}  // namespace plimsoll::kernels

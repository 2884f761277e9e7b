// Updates that treat elements apart: what they share beside their formula (kernels/elementwise_update-inl.h).
#pragma once

#include <array>
#include <cmath>

#include "kernels/update.h"

namespace plimsoll::kernels {

constexpr size_t kMostStates = 3;

// What changes from step to step, for every such update.
struct UpdateStep {
  float rate = 0;
  double t = 1;      // which step this is, from 1
  float factor = 1;  // of the gradient
  float limit = INFINITY;
  float keep = 1;     // of the weight, as decay leaves it
  float coupled = 0;  // decay that is added to the gradient
  uint32_t salt = 0;  // for rounding
};

// A run of elements.
template <class State>
struct UpdateRun {
  float* w;
  std::array<State*, kMostStates> states;
  const float* g;
  int64_t count;
};

// make(settings, rate, t) gives the numbers of a step; run(step, numbers, elements) computes, for floats and for
// halves.
template <size_t kStates, class State, class Make, class Run>
Prepared prepare_elementwise(const Facts& facts, const Make& make, const Run& run) {
  const Update update(facts, 1 + kStates, true);
  const auto numbers_of = make(facts.attrs);
  const auto limit = static_cast<float>(facts.attrs.f("clip_value", INFINITY));
  return {.kernel = make_kernel([=](const Args& args) {
            const float rate = update.rate(args);
            const int64_t t = *args.input<int64_t>(update.inputs.step());
            const UpdateStep step{.rate = rate,
                                  .t = static_cast<double>(t),
                                  .factor = update.factor(args),
                                  .limit = limit,
                                  .keep = static_cast<float>(1 - update.decay.decay * static_cast<double>(rate)),
                                  .coupled = update.coupled(),
                                  .salt = static_cast<uint32_t>(t)};
            const auto numbers = numbers_of(step);
            float* const w = update.variable(args);
            std::array<State*, kMostStates> states{};
            for (size_t i = 0; i < kStates; ++i) states[i] = args.updated<State>(1 + i);
            update.run(args, false, [&](int64_t first, int64_t count, const float* g) {
              UpdateRun<State> at{w + first, states, g, count};
              for (size_t i = 0; i < kStates; ++i) at.states[i] += first;
              run(step, numbers, at);
            });
          }),
          .in = update.layouts,
          .workspace_bytes = update.workspace_bytes};
}

// The same for states of either type.
template <size_t kStates, class Make, class Run>
Prepared prepare_elementwise(const Facts& facts, const Make& make, const Run& run) {
  if (kStates > 0 && facts.in[1].dtype == DType::BF16) return prepare_elementwise<kStates, uint16_t>(facts, make, run);
  return prepare_elementwise<kStates, float>(facts, make, run);
}

template <size_t kStates>
void infer_elementwise(Infer& n) {
  infer_update(n, 1 + kStates, true);
}

}  // namespace plimsoll::kernels

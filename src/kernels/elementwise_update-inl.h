// The pass of an update that treats elements apart: a formula over vectors of gradient, weight and up to three states.
// Included once for each target of Highway.
#if defined(PLIMSOLL_KERNELS_ELEMENTWISE_UPDATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_ELEMENTWISE_UPDATE_INL_H_
#undef PLIMSOLL_KERNELS_ELEMENTWISE_UPDATE_INL_H_
#else
#define PLIMSOLL_KERNELS_ELEMENTWISE_UPDATE_INL_H_
#endif

#include <cmath>

#include "kernels/elementwise_update.h"
#include "kernels/half_state-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {

// The next weight from the step that a formula gives, or the formula's own.
enum class Formula : uint8_t { GivesStep, GivesWeight };

// formula(d, gradient, weight, a, b, c) changes the states, of which there are kStates. It gives the step, which is
// subtracted from the decayed weight, or is given the decayed weight and gives the next one.
template <size_t kStates, Formula kGives, class State, class Compute>
HWY_INLINE void run_elements(const UpdateStep& s, const UpdateRun<State>& at, const Compute& formula) {
  const FloatTag d;
  const Floats keep = hn::Set(d, s.keep);
  for_vectors(at.count, [&](int64_t i, auto part) HWY_ATTR {
    const Floats old = part.load(d, at.w + i);
    const Floats g = decayed(d, clipped(d, part.load(d, at.g + i), s.factor, s.limit), old, s.coupled);
    Floats a = hn::Zero(d), b = a, c = a;
    if constexpr (kStates > 0) a = load_state(part, d, at.states[0] + i);
    if constexpr (kStates > 1) b = load_state(part, d, at.states[1] + i);
    if constexpr (kStates > 2) c = load_state(part, d, at.states[2] + i);
    const Floats w = kGives == Formula::GivesWeight ? hn::Mul(old, keep) : old;
    const Floats result = formula(d, g, w, a, b, c);
    if constexpr (kStates > 0) store_state(part, d, a, g, old, s.salt, at.states[0] + i);
    if constexpr (kStates > 1) store_state(part, d, b, g, old, ~s.salt, at.states[1] + i);
    if constexpr (kStates > 2) store_state(part, d, c, g, old, s.salt ^ 0x5bd1e995U, at.states[2] + i);
    part.store(d, kGives == Formula::GivesWeight ? result : hn::MulSub(old, keep, result), at.w + i);
  });
}

template <size_t kStates, class State, class Compute>
HWY_INLINE void update_elements(const UpdateStep& s, const UpdateRun<State>& at, const Compute& formula) {
  run_elements<kStates, Formula::GivesStep>(s, at, formula);
}
template <size_t kStates, class State, class Compute>
HWY_INLINE void replace_elements(const UpdateStep& s, const UpdateRun<State>& at, const Compute& formula) {
  run_elements<kStates, Formula::GivesWeight>(s, at, formula);
}

// x^power for x >= 0, element by element in f32; 0 stays 0.
HWY_INLINE Floats power_of(FloatTag d, Floats x, float power) {
  HWY_ALIGN float lanes[hn::MaxLanes(FloatTag())];
  hn::Store(x, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = lanes[i] == 0 ? 0 : std::pow(lanes[i], power);
  return hn::Load(d, lanes);
}

}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

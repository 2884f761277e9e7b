// State of an optimiser as floats or as bf16 (uint16_t): how update kernels load and store a vector of it. Included
// once for each target of Highway.
#if defined(PLIMSOLL_KERNELS_HALF_STATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_HALF_STATE_INL_H_
#undef PLIMSOLL_KERNELS_HALF_STATE_INL_H_
#else
#define PLIMSOLL_KERNELS_HALF_STATE_INL_H_
#endif

#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {

using WordTag = hn::RebindToUnsigned<FloatTag>;
using Words = hn::Vec<WordTag>;
using HalfTag = hn::Rebind<uint16_t, FloatTag>;

HWY_INLINE Floats widen(FloatTag d, hn::Vec<HalfTag> halves) {
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(WordTag(), halves)));
}

// Uniform, repeatable noise: a hash of the element's new value, gradient and weight, so it depends on no tile or
// thread. `salt` tells the states of one update apart, and one step from the next.
HWY_INLINE Words noise_of(Floats value, Floats gradient, Floats weight, uint32_t salt) {
  const WordTag d;
  const auto bits = [&](Floats v) HWY_ATTR { return hn::BitCast(d, v); };
  Words h = hn::Xor(bits(value), hn::Set(d, salt));
  h = hn::Mul(h, hn::Set(d, 0x9e3779b1U));
  h = hn::Xor(h, hn::ShiftRight<15>(h));
  h = hn::Mul(hn::Add(h, bits(gradient)), hn::Set(d, 0x85ebca77U));
  h = hn::Xor(h, hn::ShiftRight<13>(h));
  h = hn::Mul(hn::Add(h, bits(weight)), hn::Set(d, 0xc2b2ae3dU));
  return hn::Xor(h, hn::ShiftRight<16>(h));
}

// Stochastic rounding, which keeps the mean: rounding to nearest would lose every change of a slow moving average that
// is less than half a unit. Zero stays zero, a NaN stays one.
HWY_INLINE hn::Vec<HalfTag> narrow(Floats value, Words noise) {
  const WordTag d;
  const Words bits = hn::BitCast(d, value);
  const Words rounded = hn::Add(bits, hn::And(noise, hn::Set(d, 0xffffU)));
  const auto is_nan = hn::RebindMask(d, hn::IsNaN(value));
  const Words kept = hn::IfThenElse(is_nan, hn::Or(bits, hn::Set(d, 0x400000U)), rounded);
  const hn::RebindToSigned<FloatTag> di;  // the upper half of a word is never negative here
  return hn::DemoteTo(HalfTag(), hn::BitCast(di, hn::ShiftRight<16>(kept)));
}

template <class Portion>
HWY_INLINE Floats load_state(const Portion& part, FloatTag d, const float* from) {
  return part.load(d, from);
}
HWY_INLINE Floats load_state(const Whole&, FloatTag d, const uint16_t* from) {
  return widen(d, hn::LoadU(HalfTag(), from));
}
HWY_INLINE Floats load_state(const Part& part, FloatTag d, const uint16_t* from) {
  HWY_ALIGN uint16_t some[hn::MaxLanes(FloatTag())] = {};
  for (int64_t i = 0; i < part.count; ++i) some[i] = from[i];
  return widen(d, hn::Load(HalfTag(), some));
}

// Gradient, weight and salt are there for the noise of stochastic rounding; f32 needs none.
template <class Portion>
HWY_INLINE void store_state(const Portion& part, FloatTag d, Floats value, Floats, Floats, uint32_t, float* to) {
  part.store(d, value, to);
}
HWY_INLINE void store_state(const Whole&, FloatTag, Floats value, Floats gradient, Floats weight, uint32_t salt,
                            uint16_t* to) {
  hn::StoreU(narrow(value, noise_of(value, gradient, weight, salt)), HalfTag(), to);
}
HWY_INLINE void store_state(const Part& part, FloatTag, Floats value, Floats gradient, Floats weight, uint32_t salt,
                            uint16_t* to) {
  HWY_ALIGN uint16_t some[hn::MaxLanes(FloatTag())];
  hn::Store(narrow(value, noise_of(value, gradient, weight, salt)), HalfTag(), some);
  for (int64_t i = 0; i < part.count; ++i) to[i] = some[i];
}

}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

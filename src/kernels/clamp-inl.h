// relu and clip of a vector. A NaN stays NaN, which not every maximum instruction guarantees: a diverged training must
// show. Included once for each target of Highway.
#if defined(PLIMSOLL_KERNELS_CLAMP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CLAMP_INL_H_
#undef PLIMSOLL_KERNELS_CLAMP_INL_H_
#else
#define PLIMSOLL_KERNELS_CLAMP_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {

template <class D, class V>
HWY_INLINE V relu_of(D d, V x) {
  namespace n = hwy::HWY_NAMESPACE;
  return n::IfThenZeroElse(n::Lt(x, n::Zero(d)), x);
}

template <class V>
HWY_INLINE V clip_of(V x, V low, V high) {
  namespace n = hwy::HWY_NAMESPACE;
  return n::IfThenElse(n::Lt(x, low), low, n::IfThenElse(n::Gt(x, high), high, x));
}

}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

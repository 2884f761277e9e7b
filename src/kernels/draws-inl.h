// Random bits for vector code. Included once for each target.
#if defined(PLIMSOLL_DRAWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_DRAWS_INL_H
#undef PLIMSOLL_DRAWS_INL_H
#else
#define PLIMSOLL_DRAWS_INL_H
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {

using WordTag = hwy::HWY_NAMESPACE::ScalableTag<uint32_t>;
using Words = hwy::HWY_NAMESPACE::Vec<WordTag>;

// random_bits of base/random.h for a vector of counters.
HWY_INLINE Words draw(Words counter, Words key_low, Words key_high) {
  namespace hn = hwy::HWY_NAMESPACE;
  const WordTag d;
  Words x = hn::Xor(counter, key_low);
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(d, 0x7feb352dU));
  x = hn::Xor(x, key_high);
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<15>(x)), hn::Set(d, 0x846ca68bU));
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(d, 0x21f0aaadU));
  return hn::Xor(x, hn::ShiftRight<15>(x));
}

}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

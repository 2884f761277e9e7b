// An activation by its name, on vectors. Included once for each target.
#if defined(PLIMSOLL_KERNELS_ACTIVATE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_ACTIVATE_INL_H
#undef PLIMSOLL_KERNELS_ACTIVATE_INL_H
#else
#define PLIMSOLL_KERNELS_ACTIVATE_INL_H
#endif

#include "kernels/activation.h"
#include "kernels/clamp-inl.h"
#include "kernels/tile_math-inl.h"
#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {

HWY_INLINE Floats activate(Floats x, Activation activation) {
  switch (activation) {
    case Activation::None:
      return x;
    case Activation::Relu:
      return relu_of(FloatTag(), x);
    case Activation::Relu6:
      return clip_of(x, number(0), number(6));
    case Activation::Sigmoid:
      return sigmoid_of(x);
    case Activation::Tanh:
      return tanh_of(x);
  }
  return x;
}

}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

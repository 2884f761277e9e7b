// Losses that are a mean over pairs of elements (prediction, target): shape rule and kernels around a vector function.
#pragma once

#include "kernels/kernel.h"

// A plain function that calls the version of a vector function for this machine.
#define PLIMSOLL_DISPATCHED(function) [](auto... args) { return HWY_DYNAMIC_DISPATCH(function)(args...); }

namespace plimsoll::kernels {

// Sum of the loss over `count` pairs; `setting` is the operator's own.
using PairLoss = double (*)(const float* x, const float* target, int64_t count, float setting);
// y = factor * d loss / d x (or d target); y may be x or target.
using PairGrad = void (*)(const float* x, const float* target, float* y, int64_t count, float factor, float setting);

void infer_pair_loss(Infer& n);
void infer_pair_grad(Infer& n);  // inputs: prediction, target, gradient of the loss
Prepared prepare_pair_loss(const Facts& facts, PairLoss loss, float setting = 0);
Prepared prepare_pair_grad(const Facts& facts, PairGrad grad, float setting = 0);
Tensor add_pair_loss(const Op& op, Tensor prediction, Tensor target, Attrs attrs, Name name);

}  // namespace plimsoll::kernels

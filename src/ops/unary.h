// What operators of one input and no settings have in common: their traits, and samples.
#pragma once

#include "kernels/elementwise.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {

// One sample with gradient, and one over a wider range, in which the function is too steep for a numeric gradient.
template <Tensor (*function)(Tensor, Name), int low_tenths, int high_tenths, int wide_low, int wide_high>
std::vector<Sample> unary_samples() {
  return {{"small",
           [](SampleBuilder& s) {
             return std::vector{function(s.input({Dim::batch(), 3, 5}, low_tenths / 10.0, high_tenths / 10.0), {})};
           }},
          {"wide",
           [](SampleBuilder& s) {
             return std::vector{function(s.input({Dim::batch(), 13}, wide_low, wide_high), {})};
           },
           1e-4, false}};
}

constexpr Op make_unary(std::string_view name, void (*grad)(Backward&), Prepared (*prepare)(const Facts&),
                        std::vector<Sample> (*samples)(), const TileOp* (*tile)(), std::string_view onnx,
                        DTypes types = kFloats) {
  return {.name = name,
          .storable = true,
          .infer = infer_map,
          .types = {types},
          .grad = grad,
          .prepare = prepare,
          .samples = samples,
          .traits = map_traits(0b1),
          .tile = tile,
          .onnx = onnx};
}

}  // namespace plimsoll::ops

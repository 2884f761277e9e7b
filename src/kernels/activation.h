// Activations that other operators apply to their result before it is written: attribute `activation`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <plimsoll/error.h>

namespace plimsoll::kernels {

enum class Activation : uint8_t { None, Relu, Relu6, Sigmoid, Tanh };

inline Activation parse_activation(std::string_view name) {
  if (name.empty()) return Activation::None;
  if (name == "relu") return Activation::Relu;
  if (name == "relu6") return Activation::Relu6;
  if (name == "sigmoid") return Activation::Sigmoid;
  if (name == "tanh") return Activation::Tanh;
  throw Error("no operator can apply the activation '" + std::string(name) +
              "'; it must be relu, relu6, sigmoid or tanh");
}

}  // namespace plimsoll::kernels

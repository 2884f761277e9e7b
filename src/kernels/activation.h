// Activations that other operators apply to their result before it is written: attribute `activation`.
#pragma once

#include <string_view>

#include <oneapi/dnnl/dnnl.hpp>

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

inline void append_activation(dnnl::post_ops& post, std::string_view name) {
  switch (parse_activation(name)) {
    case Activation::None:
      return;
    case Activation::Relu:
      return post.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
    case Activation::Relu6:
      return post.append_eltwise(1, dnnl::algorithm::eltwise_clip, 0, 6);
    case Activation::Sigmoid:
      return post.append_eltwise(1, dnnl::algorithm::eltwise_logistic, 0, 0);
    case Activation::Tanh:
      return post.append_eltwise(1, dnnl::algorithm::eltwise_tanh, 0, 0);
  }
}

}  // namespace plimsoll::kernels

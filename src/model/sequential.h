// Models: a named function over a tensor, written freely or as a list of layers.
//
//   Sequential net("net");
//   net.add(layers::conv2d(32, 3, {.activation = "relu"})).add(layers::flatten()).add(layers::dense(10));
//   Tensor logits = net(x, true);
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/layers.h"

namespace plimsoll {

using layers::Layer;

// Its variables are named "name/...". Called again with Scope::Mode::Reuse it shares them.
struct Model {
  std::string name;
  Layer forward;

  Tensor operator()(Tensor x, bool training = false, Scope::Mode mode = Scope::Mode::Inherit) const {
    const Scope scope(x.graph(), name, mode);
    return forward(x, training);
  }
};

class Sequential {
 public:
  explicit Sequential(std::string name = "sequential", std::vector<Layer> layers = {})
      : name_(std::move(name)), layers_(std::move(layers)) {}

  Sequential& add(Layer layer) {
    layers_.push_back(std::move(layer));
    return *this;
  }
  size_t size() const { return layers_.size(); }

  operator Model() const {  // NOLINT(google-explicit-constructor): a list of layers is a model
    return {name_, [layers = layers_](Tensor x, bool training) {
              for (const Layer& layer : layers) x = layer(x, training);
              return x;
            }};
  }
  Tensor operator()(Tensor x, bool training = false, Scope::Mode mode = Scope::Mode::Inherit) const {
    return Model(*this)(x, training, mode);
  }

 private:
  std::string name_;
  std::vector<Layer> layers_;
};

}  // namespace plimsoll

// Gradients, and optimisers with the formulas and defaults of Keras: a training step as more nodes of the same graph.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <plimsoll/tensor.h>

namespace plimsoll {

// The gradient of `loss`, a scalar, with respect to each of `wrt`; unset where none flows. With `seed` (shape of
// `loss`), of the sum of seed x loss instead, and `loss` may have any shape.
std::vector<Gradient> gradients(Tensor loss, std::span<const Tensor> wrt, Tensor seed = {});

struct Optimiser {
  enum class Kind : uint8_t { Sgd, Adam, RmsProp };
  Kind kind = Kind::Sgd;
  double learning_rate = 0.01;
  double momentum = 0;    // sgd, rmsprop
  bool nesterov = false;  // sgd
  double beta1 = 0.9;     // adam
  double beta2 = 0.999;
  double epsilon = 1e-7;  // adam, rmsprop
  // Adam: where epsilon stands, with s = sqrt(1 - beta2^t), the correction of v's bias.
  //   false  w -= rate s / (1 - beta1^t) m / (sqrt(v) + epsilon)       Keras, and the first form in the paper
  //   true   w -= rate / (1 - beta1^t) m / (sqrt(v) / s + epsilon)     PyTorch
  // Keras' form is the default because defaults here are Keras'. Both agree where sqrt(v) is far above epsilon; where
  // gradients are tiny, PyTorch's epsilon counts for more in the first steps (1 / s = 32 times at t = 1).
  bool epsilon_after_correction = false;
  double rho = 0.9;         // rmsprop
  bool centered = false;    // rmsprop
  double weight_decay = 0;  // apart from the gradient, before the step: w -= w * weight_decay * learning_rate
  // At most one; 0: none.
  double clip_norm = 0;         // of the gradient of each weight
  double clip_value = 0;        // of each element
  double global_clip_norm = 0;  // of all gradients together
  // Keeps m and v, velocity and so on in 16 bits (bf16, rounded at random so that means stay right): lossy.
  bool half_state = false;

  static Optimiser sgd(double learning_rate = 0.01, double momentum = 0, bool nesterov = false);
  static Optimiser adam(double learning_rate = 1e-3, double beta1 = 0.9, double beta2 = 0.999, double epsilon = 1e-7);
  static Optimiser adamw(double learning_rate = 1e-3, double weight_decay = 4e-3);
  static Optimiser rmsprop(double learning_rate = 1e-3, double rho = 0.9, double momentum = 0, bool centered = false);
};

struct Updates {
  std::vector<NodeId> nodes;  // all that a training step changes: weights, their state, statistics of layers
  Tensor learning_rate;       // the variable "optimiser/learning_rate", f32[]
  Tensor step;                // the variable "optimiser/step", i64[]: updates done
};

// Adds to the graph of `loss` all that one training step needs. Weights that the loss does not depend on are left
// alone; without `weights`, all variables of role Weight are trained. Throws Error for settings that contradict and for
// weights that are not f32.
Updates minimize(Tensor loss, const Optimiser& optimiser, std::span<const Tensor> weights = {});

}  // namespace plimsoll

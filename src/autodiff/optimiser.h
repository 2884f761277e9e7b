// Optimisers with the formulas and defaults of Keras: they add gradients, clipping and one update for each weight.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

struct Optimiser {
  enum class Kind : uint8_t { Sgd, Adam, RmsProp };
  Kind kind = Kind::Sgd;
  double learning_rate = 0.01;
  double momentum = 0;    // sgd, rmsprop
  bool nesterov = false;  // sgd
  double beta1 = 0.9;     // adam
  double beta2 = 0.999;
  double epsilon = 1e-7;    // adam, rmsprop
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
// alone; without `weights`, all variables of role Weight are trained. Throws Error for settings that contradict.
Updates minimize(Tensor loss, const Optimiser& optimiser, std::span<const Tensor> weights = {});

}  // namespace plimsoll

// Activations by name.
#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/layers.h>
#include <plimsoll/ops.h>
#include "graph/caller.h"

namespace plimsoll::layers {

struct NamedActivation {
  std::string_view name;
  Tensor (*apply)(Tensor x, Name name);
};
constexpr NamedActivation kActivations[] = {
    {"relu", relu},
    {"relu6", relu6},
    {"leaky_relu", [](Tensor x, Name name) { return leaky_relu(x, 0.3, name); }},
    {"sigmoid", sigmoid},
    {"tanh", plimsoll::tanh},
    {"gelu", [](Tensor x, Name name) { return gelu(x, false, name); }},
    {"gelu_tanh", [](Tensor x, Name name) { return gelu(x, true, name); }},
    {"quick_gelu", [](Tensor x, Name name) { return mul(x, sigmoid(scale(x, 1.702)), name); }},
    {"silu", silu},
    {"swish", silu},
    {"softmax", [](Tensor x, Name name) { return softmax(x, -1, name); }},
    {"log_softmax", [](Tensor x, Name name) { return log_softmax(x, -1, name); }},
    {"sparsemax", [](Tensor x, Name name) { return sparsemax(x, -1, name); }},
    {"elu", [](Tensor x, Name name) { return elu(x, 1, name); }},
    {"selu", selu},
    {"celu", [](Tensor x, Name name) { return celu(x, 1, name); }},
    {"softplus", softplus},
    {"softsign", softsign},
    {"log_sigmoid", log_sigmoid},
    {"mish", mish},
    {"exponential", plimsoll::exp},
    {"hard_sigmoid", [](Tensor x, Name name) { return hard_sigmoid(x, 1.0 / 6, 0.5, name); }},
    {"hard_silu", hard_swish},
    {"hard_swish", hard_swish},
    {"hard_tanh", hard_tanh},
    {"hard_shrink", [](Tensor x, Name name) { return hard_shrink(x, 0.5, name); }},
    {"soft_shrink", [](Tensor x, Name name) { return soft_shrink(x, 0.5, name); }},
    {"tanh_shrink", tanh_shrink},
    {"squareplus", [](Tensor x, Name name) { return squareplus(x, 4, name); }},
    {"sparse_plus", sparse_plus},
    {"sparse_sigmoid", sparse_sigmoid},
    {"glu", [](Tensor x, Name name) { return glu(x, -1, name); }},
};

Tensor activation(Tensor x, std::string_view kind, Name name) {
  const graph::Caller caller(name.where());
  if (kind.empty() || kind == "linear") return x;
  std::string known;
  for (const NamedActivation& named : kActivations) {
    if (named.name == kind) return named.apply(x, name);
    known += fmt::format("{}, ", named.name);
  }
  throw Error(fmt::format("activation '{}' is unknown; known are {}linear", kind, known));
}

}  // namespace plimsoll::layers

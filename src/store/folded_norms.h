// Batch norms of inference, folded into the weights of the layer before them while these are read: the step has no norm
// left. Numbers differ from the unfolded ones by rounding.
//
//   y = gamma (x k - mean) / sqrt(variance + epsilon) + beta  =  x (k factor) + (beta - mean factor)
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/rewrite.h"
#include "weights/weights_reader.h"

namespace plimsoll::store {

class FoldedNorms {
 public:
  // Finds the layers of an inference pass to fold: convolutions (depthwise too) and dense layers whose result only a
  // batch norm reads, where no other node reads any of their variables.
  explicit FoldedNorms(const model::TracedPass& pass);

  bool is_empty() const { return layers_.empty(); }
  // The pass without these norms. Layers without a bias get the variable beta as one.
  model::Rewrite rewrite() const;
  // For LoadOptions: changes elements [first, first + numbers.size()) of a tensor of that file on their way in. This
  // object and the file must outlive the function.
  std::function<void(const weights::StoredTensor&, int64_t first, std::span<float> numbers)> change(
      const weights::WeightsReader& file) const;

 private:
  struct Layer {
    NodeId product = -1, norm = -1;
    std::string kernel, bias;  // full names; the bias is beta where the layer had none
    std::string gamma, beta, mean, variance;
    bool has_bias = false;
    double epsilon = 0;
    // Element i of the kernel belongs to the output channel i / run % channels.
    int64_t channels = 0, run = 1;
  };
  friend class NormFinder;

  std::vector<Layer> layers_;
  std::map<std::string, size_t, std::less<>> by_variable_;  // kernels and biases
  std::map<NodeId, size_t> by_node_;                        // products and norms
};

}  // namespace plimsoll::store
